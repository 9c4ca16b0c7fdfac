"""Questions about conda, Jetson, ROCm, AMD names, cuDNN and known-bad versions."""

from __future__ import annotations

from envcheck.matrix import amd
from envcheck.matrix.companions import contains
from envcheck.matrix.rows import AmdArch, AmdModel, CondaBuild, JetPack, KnownBad, PlatformFact
from envcheck.matrix.tables import Tables
from envcheck.matrix.versions import at_least, final, numbers


class PlatformQueries:
    """The part of Matrix that is not about torch's wheels and NVIDIA's drivers."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables

    def cudnn_floor_ok(self, cc: str, cudnn_version: str) -> bool | None:
        """Whether that cuDNN still supports a GPU of that capability; None for a cuDNN before 7 or an unreadable one."""
        if not numbers(cudnn_version) or not numbers(cc):
            return None
        for row in self.tables.cudnn_floors:
            if at_least(cudnn_version, row.cudnn_from):
                return at_least(cc, row.compute_capability_min)
        return None

    def jetpack(self, l4t: str) -> JetPack | None:
        """The JetPack of an L4T number ("36.4.3", "R36.4.3"): the newest of that major that is not newer."""
        wanted = numbers(l4t)
        found = [j for j in self.tables.jetpacks if wanted and numbers(j.l4t)[0] == wanted[0] and at_least(l4t, j.l4t)]
        return found[-1] if found else None

    def rocm_gfx(self, version: str, rocm: str) -> tuple[str, ...] | None:
        """What the ROCm build of a release holds code for: ("2.8.0", "6.4") -> ("gfx900", ...)."""
        line = ".".join(str(part) for part in numbers(version)[:2])
        for row in self.tables.rocm_archs:
            torch_fits = at_least(line, row.torch_from) and (row.torch_to is None or at_least(row.torch_to, line))
            if torch_fits and at_least(rocm, row.rocm_from) and _not_after(rocm, row.rocm_to):
                return row.gfx
        return None

    def amd_gpu(self, name: str) -> AmdModel | None:
        """An AMD GPU by the spelling of rocminfo, lspci or a shop."""
        return amd.find(self.tables, name)

    def amd_arch(self, gfx: str) -> AmdArch | None:
        """The row of an AMD target, with the override that people use for it."""
        return self.tables.amd_archs.get(gfx.split(":", maxsplit=1)[0])

    def triton_windows(self, torch_version: str) -> str | None:
        """The line of triton-windows for a torch: "2.8.0" -> "3.4" (install it as ==3.4.*)."""
        return self.tables.triton_windows.get(".".join(str(part) for part in numbers(torch_version)[:2]))

    def conda(
        self,
        *,
        channel: str | None = None,
        version: str | None = None,
        os: str | None = None,
        machine: str | None = None,
    ) -> tuple[CondaBuild, ...]:
        """Builds on conda channels ("pytorch" up to 2.5.1, "conda-forge"), narrowed by what is given."""
        public = final(version) if version else None
        return tuple(
            build
            for build in self.tables.conda_builds
            if (channel is None or build.channel == channel)
            and (version is None or build.release == public)
            and (os is None or machine is None or f"{os}-{machine}" in build.platforms)
        )

    def conda_builds(self, channel: str, version: str | None = None) -> tuple[CondaBuild, ...]:
        """Builds of one channel, of one release or of all."""
        return self.conda(channel=channel, version=version)

    def conda_cuda(self, channel: str, version: str, os: str, machine: str) -> tuple[str, ...]:
        """CUDA versions that a channel has of a release there, ascending; "" among them is the CPU build."""
        found = self.conda(channel=channel, version=version, os=os, machine=machine)
        return tuple(sorted((build.cuda for build in found), key=numbers))

    def conda_newest(self, channel: str, os: str, machine: str, cuda: str | None = None) -> str | None:
        """Newest release that a channel is known to have there, with that CUDA when one is named."""
        found = self.conda(channel=channel, os=os, machine=machine)
        releases = [build.release for build in found if cuda is None or build.cuda == cuda]
        return max(releases, key=numbers, default=None)

    def known_bad(
        self,
        package: str,
        version: str | None,
        *,
        torch: str | None = None,
        os: str | None = None,
        python: str | None = None,
    ) -> tuple[KnownBad, ...]:
        """Known-bad entries that hold for sure; version None = the package is not installed.

        An entry that names a torch, a system or a Python is left out while that is not known.
        """
        return tuple(
            row
            for row in self.tables.known_bad
            if row.package == package
            and _is_version(row.versions, version)
            and (not row.os or (os is not None and os in row.os))
            and _holds(row.torch, torch)
            and _holds(row.python, python)
        )

    def platform_fact(self, fact_id: str) -> PlatformFact:
        """One fact by its id; the id is written in code, so an unknown one is a programming error (KeyError)."""
        return self.tables.platform_facts[fact_id]


def _not_after(version: str, last: str) -> bool:
    """Patch releases of the last minor count as not after it."""
    depth = len(numbers(last))
    return at_least(last, ".".join(str(part) for part in numbers(version)[:depth]))


def _is_version(specifier: str, version: str | None) -> bool:
    if specifier == "none" or version is None:
        return specifier == "none" and version is None
    return _contains(specifier, version)


def _holds(specifier: str, version: str | None) -> bool:
    return not specifier or (version is not None and _contains(specifier, version))


def _contains(specifier: str, version: str) -> bool:
    from packaging.version import InvalidVersion

    try:
        return contains(specifier, version)
    except InvalidVersion:
        return False
