"""The planner asked for a report that does not show everything: what is derived is put where it looks for it."""

from __future__ import annotations

import re
from typing import Any

from msgspec.structs import replace

from envcheck.facts import Facts, NvidiaGpu
from envcheck.findings import Remedy
from envcheck.matrix import Matrix
from envcheck.rules import derive, remedies

_L4T = re.compile(r"(?:l4t|tegra|jetson|jetpack)[^\s]*?r?(3\d\.\d+(?:\.\d+)?)|\br(3\d\.\d+(?:\.\d+)?)", re.IGNORECASE)


def enriched(facts: Facts, matrix: Matrix) -> Facts:
    """The facts with what other places of the report prove: GPUs that only a warning names, and a Jetson behind an image."""
    if not facts.nvidia.gpus:
        known = tuple(
            NvidiaGpu(index=g.index, name=g.name, compute_capability=g.capability) for g in derive.gpus(facts, matrix)
        )
        if known:
            facts = replace(facts, nvidia=replace(facts.nvidia, gpus=known))
    if derive.is_jetson(facts) and not (facts.system.l4t or facts.system.jetpack):
        found = next((m for c in facts.commands if (m := _L4T.search(c))), None)
        release = (found.group(1) or found.group(2)) if found else None
        facts = replace(
            facts,
            system=replace(
                facts.system,
                os=facts.system.os or "linux",
                machine=facts.system.machine or "aarch64",
                jetson_model=facts.system.jetson_model or "Jetson",
                l4t=release,
            ),
        )
    return facts


def planned(facts: Facts, matrix: Matrix, **wishes: Any) -> Remedy:
    """`remedies.install_plan` for a report; where the system is not named, the command for Linux, and said so."""
    facts = enriched(facts, matrix)
    if derive.wheel_os(facts) is not None:
        return remedies.install_plan(facts, matrix, **wishes)
    linux = replace(facts, system=replace(facts.system, os="linux", machine=facts.system.machine or "x86_64"))
    made = remedies.install_plan(linux, matrix, **wishes)
    text = f"The system is not shown; on Linux: {made.text[:1].lower() + made.text[1:]}"
    return Remedy(text=text, commands=made.commands)


def probable_torch(facts: Facts) -> str | None:
    """The torch that is installed, or the one that an install command of the report asked for by version."""
    version = derive.torch_version(facts)
    if version and derive.numbers(version):
        return version
    for item in facts.requested:
        match = re.match(r"(?:py)?torch\s*={1,2}\s*([\w.+]+)$", item.strip())
        if match:
            return match.group(1)
    return None


def as_installed(facts: Facts) -> Facts:
    """The facts with the version that was asked for taken as installed, where no other is shown."""
    version = probable_torch(facts)
    if version is None or facts.torch.version == version:
        return facts
    return replace(facts, torch=replace(facts.torch, version=version))
