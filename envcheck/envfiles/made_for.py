"""The words at the head of a written file: what it was made for, by what, and when."""

from __future__ import annotations

import datetime
import re

from envcheck import __version__
from envcheck.facts import Facts
from envcheck.matrix import Matrix

_SYSTEMS = {"linux": "Linux", "windows": "Windows", "macos": "macOS"}


def today() -> datetime.date:
    """The day that is written down."""
    return datetime.datetime.now(datetime.timezone.utc).date()


def machine_line(facts: Facts) -> str:
    """ "Linux x86_64, NVIDIA A100-SXM4-80GB, driver 535.183.01": nothing that names a person or a host."""
    system = facts.system
    words = [f"{_SYSTEMS.get(system.os or '', system.os or 'unknown system')} {system.machine or ''}".strip()]
    if system.wsl:
        words[0] += " (WSL)"
    if system.container and system.container != "none":
        words[0] += " (container)"
    words += _gpus(facts)
    if facts.nvidia.driver_version:
        words.append(f"driver {facts.nvidia.driver_version}")
    if facts.amd.rocm_version:
        words.append(f"ROCm {facts.amd.rocm_version}")
    return ", ".join(words)


def _gpus(facts: Facts) -> list[str]:
    names = [g.name or (f"compute capability {g.compute_capability}" if g.compute_capability else "an NVIDIA GPU")
             for g in facts.nvidia.gpus or ()]  # fmt: skip
    names += [g.name or g.gfx or "an AMD GPU" for g in facts.amd.gpus or ()]
    names += list(facts.intel.gpus or ())
    if facts.apple.chip:
        names.append(facts.apple.chip)
    counted = [f"{names.count(n)} x {n}" if names.count(n) > 1 else n for n in dict.fromkeys(names)]
    return counted or (["no GPU"] if facts.nvidia.gpus == () else [])


def header(facts: Facts, matrix: Matrix, *, source: str, build: str, driver: str | None) -> tuple[str, ...]:
    """The comment lines, without comment signs."""
    lines = [
        f"Written by envcheck {__version__} on {today().isoformat()} from {source}; tables of {matrix.checked}.",
        f"Made for: {machine_line(facts)}.",
        f"Contains: {build}" + (f"; needs an NVIDIA driver >= {driver}." if driver else "."),
    ]
    return tuple(re.sub(r"[\r\n]+", " ", line) for line in lines)


def project_name(folder: str, *, dated: bool = False) -> str:
    """A name that every tool accepts, from the folder's: "detr", with the month when asked: "detr_202612"."""
    name = re.sub(r"[^A-Za-z0-9]+", "-", folder).strip("-").lower() or "project"
    return f"{name}_{today():%Y%m}" if dated else name
