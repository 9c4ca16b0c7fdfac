"""Choosing builds: which releases have one that a GPU, a driver and a Python can use."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from envcheck.matrix.query import Matrix
from envcheck.matrix.rows import Coverage, Release, Variant


class Fit(msgspec.Struct, frozen=True, kw_only=True):
    """One build of one release, and how it suits what was asked."""

    release: Release
    variant: Variant
    coverage: Coverage | None
    """None when no GPU was named."""
    driver: str | None
    """"yes" | "doubtful" | None (no driver was named)."""

    @property
    def sure(self) -> bool:
        """The build is published for certain and known to have the code."""
        return self.variant.status != "unconfirmed" and (self.coverage is None or self.coverage.runs is True)


def fits(
    matrix: Matrix,
    os: str,
    machine: str,
    *,
    compute_capability: str | None = None,
    driver: str | None = None,
    driver_os: str | None = None,
    python: str | None = None,
) -> Iterator[Fit]:
    """CUDA builds that suit, newest release first, newest CUDA first; those that surely do not are left out.

    driver_os: "windows" for WSL, whose drivers have Windows numbers.
    """
    if compute_capability and driver and driver_and_gpu(matrix, driver, driver_os or os, compute_capability):
        return
    for release in reversed(matrix.releases):
        for variant in reversed(matrix.variants(release.version, os, machine)):
            if variant.cuda is None:
                continue
            if python and python not in matrix.pythons(release.version, os, machine, variant.name):
                continue
            runs = matrix.driver_runs(driver, variant.cuda, driver_os or os) if driver else None
            if driver and runs == "no":
                continue
            covered = _covered(matrix, variant, compute_capability, driver, driver_os or os)
            if covered is None or covered.runs is not False:
                yield Fit(release=release, variant=variant, coverage=covered, driver=runs)


def driver_and_gpu(matrix: Matrix, driver: str, os: str, cc: str) -> str | None:
    """Why that driver does not drive a GPU of that capability; None when it does, or when nobody knows."""
    branch, architecture = matrix.driver_branch(driver, os), matrix.architecture(cc)
    if branch is None or architecture is None:
        return None
    first, last = architecture.min_driver_branch, architecture.last_driver_branch
    if first and branch < first:
        return f"compute capability {cc} needs a driver of branch {first} or newer"
    if last and branch > last:
        return f"branch {last} is the last that drives compute capability {cc}"
    return None


def _covered(matrix: Matrix, variant: Variant, cc: str | None, driver: str | None, driver_os: str) -> Coverage | None:
    if cc is None:
        return None
    return matrix.coverage(
        matrix.arch_list(variant.release, variant.name, variant.os, variant.machine),
        cc,
        build_cuda=variant.cuda,
        driver_cuda=matrix.driver_cuda(driver, driver_os) if driver else None,
        machine=variant.machine,
    )
