"""What is asked of the planner and what it answers: the JSON contract of `recommend --json`."""

from __future__ import annotations

from typing import Any

import msgspec

from envcheck.facts import Struct

SCHEMA = 1
DEVICES = ("auto", "cuda", "rocm", "xpu", "mps", "cpu")
PREFERENCES = ("newest", "stable")
COMPANIONS = ("torchvision", "torchaudio", "triton")


class Wishes(Struct, frozen=True, kw_only=True):
    """What the user wants besides what the machine dictates."""

    torch: str = ""
    """A specifier (">=2.6,<2.9"), a version ("2.8.0"), a line ("2.8"), or a version with a build ("2.8.0+cu128")."""
    device: str = "auto"
    manager: str | None = None
    """None = the one that belongs to the environment."""
    companions: tuple[str, ...] | None = None
    """None = torchvision, and whatever of the family is installed already."""
    prefer: str = "newest"
    """"newest", or "stable": advertised, and either patched once (x.y.1) or three months old."""
    shell: str | None = None
    """None = the usual one of the operating system."""


class Blocker(Struct, frozen=True, kw_only=True, omit_defaults=False):
    """One thing that stands in the way, and the way out."""

    kind: str
    """"driver-not-running" | "driver-too-old" | "driver-too-new" | "gpu-code" | "python" | "glibc" | ..."""
    text: str
    way_out: str = ""
    commands: tuple[str, ...] = ()


class Plan(Struct, frozen=True, kw_only=True, omit_defaults=False):
    """The build for one machine, how to install it, and why this one.

    status: "ok" | "impossible". An impossible plan has blockers and may have alternatives, each with its condition.
    """

    schema: int = SCHEMA
    status: str = "ok"
    torch: str | None = None
    variant: str | None = None
    """"cu126" | "cpu" | "rocm7.2" | "xpu" | "mps"."""
    torchvision: str | None = None
    torchaudio: str | None = None
    python: str | None = None
    index_url: str | None = None
    """None = plain PyPI (or, with `torch` unset, no index at all)."""
    commands: tuple[str, ...] = ()
    calls: tuple[tuple[str, ...], ...] = ()
    """The commands of pip or uv as argument vectors, for a program that runs them; () for other managers."""
    why: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    alternatives: tuple[Plan, ...] = ()
    blockers: tuple[Blocker, ...] = ()
    condition: str = ""
    """Of an alternative: when it is the right one ("after the driver runs", "without the GPU")."""
    manager: str | None = None
    cuda: str | None = None
    driver: str | None = None
    """Lowest NVIDIA driver that runs this build on that system."""
    packages: tuple[str, ...] = ()
    """What the commands install, torch first: "torch==2.8.0", "torchvision==0.23.0", "numpy<2"; () for a vendor's source."""
    channel: str | None = None
    """The conda channel that the packages come from; None = wheels."""

    @property
    def build_name(self) -> str:
        """The build as a person reads it: "CUDA 12.6 build", "CPU build"."""
        variant = self.variant or ""
        if variant.startswith("cu"):
            return f"CUDA {self.cuda} build" if self.cuda else f"{variant} build"
        if variant.startswith("rocm"):
            return f"ROCm {variant[4:]} build"
        return {"cpu": "CPU build", "xpu": "Intel XPU build", "mps": "macOS build with MPS"}.get(variant, "build")


def to_json(plan: Plan) -> bytes:
    """The plan as the JSON document of the contract (schema first)."""
    document: dict[str, Any] = {"schema": plan.schema}
    document.update(msgspec.to_builtins(plan))
    return msgspec.json.encode(document)
