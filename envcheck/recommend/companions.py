"""Which torchvision and torchaudio can be had beside one build: the version alone does not say that."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from envcheck.matrix import Matrix
from envcheck.matrix.versions import numbers
from envcheck.recommend.candidates import Build
from envcheck.recommend.machine import Machine, nearest

LAST_TRACKING_AUDIO = "2.11.0"
"""The last torchaudio that was built beside a torch (PyPI torchaudio METADATA). Each torch from 2.12 on uses it. It
refuses a torch of another CUDA, so on an index it does only where it was built for that very index: there is none on
whl/cu132 (pytorch/pytorch PR 183336, Dockerfile: skip torchaudio for cu132)."""


@dataclass(frozen=True)
class Pair:
    """The version to install beside a build, or why there is none. plain: from PyPI, in a command of its own."""

    version: str | None
    problem: str = ""
    plain: bool = False
    python: str | None = None
    """The Python that would remove the problem."""


def pair(matrix: Matrix, build: Build, package: str, machine: Machine) -> Pair:
    """What of `package` goes with a build on this machine."""
    if package == "triton":
        return _triton(matrix, build, machine)
    version = build.release.torchvision if package == "torchvision" else build.release.torchaudio
    if version is None:
        return Pair(None, f"has no {package} that is known to go with it")
    if package == "torchaudio" and _off_index(build):
        other = _audio_of_index(matrix, build, machine)
        if other is None:
            return Pair(None, f"has no torchaudio on the {build.variant.name} index")
        version = other
    return _for_python(matrix, package, version, machine.python, machine.python_full)


def _off_index(build: Build) -> bool:
    """True when torchaudio does not follow this torch, and the build does not come from PyPI."""
    later = numbers(build.release.version)[:2] > numbers(LAST_TRACKING_AUDIO)[:2]
    return later and not build.variant.on_pypi and build.variant.os != "macos"


def _audio_of_index(matrix: Matrix, build: Build, machine: Machine) -> str | None:
    variant = matrix.variant(LAST_TRACKING_AUDIO, build.variant.name, build.variant.os, build.variant.machine)
    return LAST_TRACKING_AUDIO if variant is not None and variant.status != "unconfirmed" else None


@lru_cache(maxsize=4096)
def _for_python(matrix: Matrix, package: str, version: str, python: str | None, full: str | None) -> Pair:
    row = matrix.tables.pins.get(package, {}).get(version)
    if row is None or python is None:
        return Pair(version)
    if row.pythons and python not in row.pythons and "py3" not in row.pythons:
        problem = f"has no {package} with a wheel for Python {python}"
        return Pair(None, problem, python=nearest(row.pythons, python))
    if full and f"!={full}" in (row.requires_python or "").split(","):
        problem = f"has a {package} that excludes Python {full}"
        return Pair(None, problem, python=f"another patch than {full}")
    return Pair(version)


def _triton(matrix: Matrix, build: Build, machine: Machine) -> Pair:
    """On Linux the CUDA wheel brings its triton along; on Windows a port does, whose releases all are .postN."""
    if machine.os != "windows" or build.variant.cuda is None:
        return Pair(None)
    line = matrix.triton_windows(build.release.version)
    if line is None:
        return Pair(None, "has no triton-windows that is known to go with it")
    return Pair(f"{line}.*", plain=True)
