"""Builds of torch on conda channels: the old channel "pytorch" up to 2.5.1, conda-forge, each with code of its own."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from envcheck.matrix import ArchList, Matrix, Release, Variant
from envcheck.matrix.versions import numbers, variant_of_cuda
from envcheck.recommend.candidates import Build
from envcheck.recommend.machine import Machine

if TYPE_CHECKING:
    from envcheck.matrix.rows import CondaBuild

OLD, FORGE = "pytorch", "conda-forge"
_TURING = (7, 5)


@lru_cache(maxsize=64)
def builds(matrix: Matrix, os: str, arch: str, driver_os: str) -> tuple[tuple[Release, tuple[Build, ...]], ...]:
    """Releases, newest first, each with its conda builds for the platform."""
    by_release: dict[str, list[Build]] = {}
    place = f"{os}-{arch}"
    for row in (*matrix.conda_builds(OLD), *matrix.conda_builds(FORGE)):
        release = matrix.release(row.release)
        if place not in row.platforms or release is None or release.version != row.release:
            continue
        if row.channel == FORGE and row.release in by_release and by_release[row.release][0].channel == OLD:
            continue  # where both have a release, the channel of PyTorch itself
        by_release.setdefault(row.release, []).append(
            _build(matrix, release, row, os=os, arch=arch, driver_os=driver_os)
        )
    return tuple(
        (release, tuple(by_release[release.version]))
        for release in reversed(matrix.releases)
        if release.version in by_release
    )


def _build(matrix: Matrix, release: Release, row: CondaBuild, *, os: str, arch: str, driver_os: str) -> Build:
    """A row as a build. The Pythons are those of the wheels: conda says itself when it has none."""
    name = variant_of_cuda(row.cuda) if row.cuda else "mps" if os == "macos" and arch == "arm64" else "cpu"
    tail = {"source": row.source, "checked": row.checked, "confidence": row.confidence}
    variant = Variant(
        release=release.version,
        name=name,
        os=os,
        machine=arch,
        toolkit=row.cuda or None,
        cudnn=row.cudnn,
        status="advertised",
        pythons=None,
        on_pypi=False,
        notes=row.notes,
        **tail,
    )
    archs = None
    if row.cuda and row.sass is not None:
        archs = ArchList(
            release=release.version,
            variant=name,
            os=os,
            machine=arch,
            sass=row.sass,
            ptx=row.ptx,
            notes=row.notes,
            **tail,
        )
    return Build(
        release=release,
        variant=variant,
        cuda=row.cuda or None,
        wheel=None,
        pythons=tuple(p for p in matrix.pythons(release.version, os, arch) if not p.endswith("t")),
        archs=archs,
        floor=matrix.driver_floor(row.cuda, driver_os) if row.cuda else None,
        toolkit_driver=matrix.toolkit_driver(row.cuda, driver_os) if row.cuda else None,
        min_os="2.17" if os == "linux" else None,
        channel=row.channel,
    )


def extras(build: Build, machine: Machine) -> tuple[str, ...]:
    """conda-forge takes the newest cuDNN, and from 9.11 on that does not run before Turing."""
    old = any(numbers(c) < _TURING for card in machine.cards or () for c in card.capabilities)
    return ("cudnn<9.11",) if build.channel == FORGE and build.variant.cuda and old else ()


def warnings(build: Build, machine: Machine) -> list[str]:
    """What conda does differently from what one expects."""
    lines = []
    if extras(build, machine):
        lines.append(
            "cuDNN from 9.11 on does not run before Turing, so an older one is asked for; if conda finds no such pair, "
            "take the wheels (--manager pip)."
        )
    if build.channel == FORGE and build.variant.cuda:
        cuda = build.variant.cuda
        lines.append(
            "conda takes a CPU build where it sees no driver (login node, image build): set "
            f"CONDA_OVERRIDE_CUDA={cuda} for the solve there."
        )
    if "torch" in machine.installed and build.channel:
        lines.append("Never put a pip torch over a conda one: remove one before the other comes.")
    if build.channel == OLD:
        lines.append("The channel 'pytorch' ended with 2.5.1: newer releases are on conda-forge or are wheels.")
    return lines
