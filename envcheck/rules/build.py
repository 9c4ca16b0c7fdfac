"""The build that is installed: its backend, its GPU code, its companions, and what is compiled against it."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.facts import Facts
from envcheck.findings import Finding, Remedy
from envcheck.matrix import Matrix
from envcheck.rules import (
    build_companions,
    build_compile,
    build_cpu,
    build_extensions,
    build_gpu,
    build_nvrtc,
    build_rocm,
    build_toolkit,
    derive,
)
from envcheck.rules.base import Rule, rule


@rule("torch-newer-than-tables", "build", "This torch is newer than envcheck's tables.")
def newer_than_tables(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """What the build says of itself is believed; the rest cannot be looked up."""
    version = derive.torch_version(facts)
    if not version or not matrix.is_newer_than_tables(version):
        return
    yield rule.finding(
        "note",
        title=f"torch {version} is newer than the tables of this envcheck",
        seen=f"torch {version}; the tables end at {matrix.releases[-1].version}, checked on {matrix.checked}",
        why="What the build says of itself is used; what would have to be looked up (pins, companions, wheels) stays unknown.",
        remedy=Remedy(text="Update envcheck, or its tables.", commands=("envcheck matrix update",)),
        line=derive.line_of(facts, "torch.version"),
    )


RULES: tuple[Rule, ...] = (
    *build_cpu.RULES,
    *build_rocm.RULES,
    *build_gpu.RULES,
    *build_nvrtc.RULES,
    *build_companions.RULES,
    *build_extensions.RULES,
    *build_toolkit.RULES,
    *build_compile.RULES,
    newer_than_tables,
)
