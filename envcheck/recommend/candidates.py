"""Every published build for a platform, with what the checks ask about it looked up once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from envcheck.matrix import ArchList, Matrix, Release, Variant, Wheel
from envcheck.matrix.versions import numbers

OLDEST = (1, 8)
"""Nothing older is recommended: the wheels were spread over pages that no index serves."""


@dataclass(frozen=True, eq=False)
class Build:
    """One build of one release for one platform; compared and remembered by identity."""

    release: Release
    variant: Variant
    cuda: str | None
    wheel: Wheel | None
    pythons: tuple[str, ...]
    archs: ArchList | None
    floor: str | None
    """Lowest driver (of the system whose numbers count) that runs it."""
    toolkit_driver: str | None
    min_os: str | None
    channel: str | None = None
    """The conda channel that has it; None = a wheel."""

    @property
    def name(self) -> str:
        """ "2.14.1 cu126"."""
        return f"{self.release.version} {self.variant.name}"

    @property
    def confirmed(self) -> bool:
        """It has been seen to exist: neither expected nor recalled."""
        return self.variant.status != "unconfirmed" and self.variant.confidence != "recalled"

    @property
    def advertised(self) -> bool:
        """PyTorch's own install page names it."""
        return self.variant.status == "advertised"


@dataclass(frozen=True)
class Reason:
    """Why a build does not do.

    kind: "driver" | "ptx-driver" | "gpu-code" | "gpu-doubt" | "cudnn" | "python" | "glibc" | "macos" | "companion" |
        "unconfirmed" | "conda" | "gfx".
    unlock: the value that would remove it (a driver, a Python, a glibc, a macOS); None = nothing on this machine would.
    """

    kind: str
    text: str
    unlock: str | None = None


@dataclass(frozen=True)
class Verdict:
    """A build judged against a machine: `reasons` () = it runs; `doubts` = what could not be checked."""

    build: Build
    reasons: tuple[Reason, ...] = ()
    doubts: tuple[str, ...] = ()
    code: tuple[tuple[str, str], ...] = ()
    """(GPU, entry of the arch list that runs on it)."""
    ptx: bool = False
    older: tuple[str, ...] = ()
    """GPUs that came after the build's CUDA: their family's code runs on them, nothing was made for them."""

    @property
    def fits(self) -> bool:
        """Nothing stands against it."""
        return not self.reasons

    @property
    def kinds(self) -> frozenset[str]:
        """Kinds of what stands against it."""
        return frozenset(reason.kind for reason in self.reasons)


@lru_cache(maxsize=64)
def builds(matrix: Matrix, os: str, arch: str, driver_os: str) -> tuple[tuple[Release, tuple[Build, ...]], ...]:
    """Releases, newest first, each with its builds for the platform; releases without any are left out."""
    found = []
    for release in reversed(matrix.releases):
        if numbers(release.version) < OLDEST:
            break
        made = tuple(
            _build(matrix, release, variant, os=os, arch=arch, driver_os=driver_os)
            for variant in matrix.variants(release.version, os, arch)
        )
        if made:
            found.append((release, made))
    return tuple(found)


def _build(matrix: Matrix, release: Release, variant: Variant, *, os: str, arch: str, driver_os: str) -> Build:
    wheel = matrix.wheels(release.version, os, arch)
    cuda = variant.cuda
    return Build(
        release=release,
        variant=variant,
        cuda=cuda,
        wheel=wheel,
        pythons=matrix.pythons(release.version, os, arch, variant.name),
        archs=matrix.arch_list(release.version, variant.name, os, arch) if cuda else None,
        floor=matrix.driver_floor(cuda, driver_os) if cuda else None,
        toolkit_driver=matrix.toolkit_driver(variant.toolkit or cuda, driver_os) if cuda else None,
        min_os=_min_os(release, wheel, os, arch),
    )


def _min_os(release: Release, wheel: Wheel | None, os: str, arch: str) -> str | None:
    """Lowest glibc or macOS of the wheels. Those of an index are built like those of PyPI."""
    if wheel is not None:
        return wheel.min_os
    if os == "linux":
        return release.glibc_x86_64 if arch == "x86_64" else release.glibc_aarch64
    return None


def macos_floor(build: Build, python: str | None) -> str | None:
    """Lowest macOS of the wheel for one Python.

    A release with two tags (macosx_11_0 and macosx_14_0) gives the higher one to its free-threaded builds and to
    Python 3.14, as the file names of 2.7, 2.8 and 2.10 show.
    """
    tags = [numbers(tag.removeprefix("macosx_").replace("_", ".")) for tag in build.wheel.tags] if build.wheel else []
    floors = sorted({tag[:2] for tag in tags if len(tag) >= 2})
    if len(floors) > 1 and python is not None and (python.endswith("t") or numbers(python) >= (3, 14)):
        return f"{floors[-1][0]}.{floors[-1][1]}"
    return build.min_os


@lru_cache(maxsize=65536)
def runs_on(matrix: Matrix, build: Build, capability: str, driver_cuda: str | None) -> tuple[str, str | None, str]:
    """(kind, entry, reason) of `Matrix.coverage`, remembered: a grid of machines asks the same again and again."""
    made = matrix.coverage(build.archs, capability, build_cuda=build.cuda, driver_cuda=driver_cuda)
    return made.kind, made.by, made.reason
