"""The questions that others ask. Everything is looked up when asked; unknown releases get None, never an error."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property

from envcheck.matrix import companions, coverage, drivers
from envcheck.matrix.gpus import Names
from envcheck.matrix.platform_query import PlatformQueries
from envcheck.matrix.rates import GpuRates
from envcheck.matrix.rows import (
    INDEX,
    Architecture,
    ArchList,
    Companion,
    Coverage,
    GpuModel,
    Release,
    Requirement,
    Variant,
    Wheel,
)
from envcheck.matrix.tables import Tables
from envcheck.matrix.versions import at_least, final, key, numbers, short


class Matrix(PlatformQueries):
    """Answers about releases, builds, drivers and GPUs, from the tables in one directory.

    Versions are plain strings: torch "2.8.0", CUDA "12.8", variant "cu128", compute capability "8.9". `os` and
    `machine` are as in `Facts`. For WSL pass os="windows" where a driver number is judged, "linux" for wheels.
    """

    def __init__(self, tables: Tables, *, updated: str | None = None) -> None:
        super().__init__(tables)
        self.names = Names(tables)
        self.updated = updated
        """Day of the last `envcheck matrix update` whose releases are among these; None = the shipped tables alone."""

    @cached_property
    def checked(self) -> str:
        """The newest date on which a row about releases or builds was checked."""
        dates = [r.checked for r in self.releases]
        dates += [v.checked for place in self.tables.variants.values() for v in place.values()]
        return max(dates)

    @cached_property
    def releases(self) -> tuple[Release, ...]:
        """All releases, ascending."""
        return self.tables.releases

    @cached_property
    def newest(self) -> Release:
        """The newest release whose builds are all known."""
        return next((r for r in reversed(self.releases) if r.confirmed), self.releases[-1])

    @cached_property
    def _by_version(self) -> dict[str, Release]:
        return {r.version: r for r in self.releases}

    def release(self, version: str) -> Release | None:
        """The release: "2.8.0+cu128" and "2.8.0" alike, "2.8" is its newest patch.

        None for pre-releases and vendor builds ("2.8.0a0+git...") and for what the tables do not know.
        """
        public = final(version)
        if public is None:
            return None
        found = self._by_version.get(public)
        if found is None and len(numbers(public)) < 3:
            line = [r for r in self.releases if numbers(r.version)[: len(numbers(public))] == numbers(public)]
            found = line[-1] if line else None
        return found

    def is_newer_than_tables(self, version: str) -> bool:
        """True when the version, nightlies included, is beyond the newest release of the tables."""
        return key(version) > key(self.releases[-1].version)

    def near(self, version: str) -> tuple[str, ...]:
        """Releases of the tables whose names are close to an unknown one, for a message."""
        import difflib  # only when a name was wrong

        known = [r.version for r in self.releases]
        return tuple(difflib.get_close_matches(version, known, n=3, cutoff=0.5)) or tuple(known[-3:])

    def _name(self, version: str) -> str | None:
        release = self.release(version)
        return release.version if release else None

    def wheels(self, version: str, os: str, machine: str) -> Wheel | None:
        """What PyPI has for that platform."""
        name = self._name(version)
        return self.tables.wheels.get((name, os, machine)) if name else None

    def pythons(self, version: str, os: str, machine: str, variant: str | None = None) -> tuple[str, ...]:
        """Pythons with a wheel, ("3.9", ..., "3.13", "3.13t"); () when there is no wheel or the release is unknown."""
        chosen = self.variant(version, variant, os, machine) if variant else None
        if variant and chosen is None:
            return ()
        if chosen is not None and chosen.pythons is not None:
            return chosen.pythons
        wheel = self.wheels(version, os, machine)
        return wheel.pythons if wheel else ()

    def variants(self, version: str, os: str, machine: str) -> tuple[Variant, ...]:
        """Builds of a release for that platform: CPU first, then CUDA ascending, ROCm, XPU."""
        name = self._name(version)
        return tuple(self.tables.variants.get((name, os, machine), {}).values()) if name else ()

    def variant(self, version: str, name: str, os: str, machine: str) -> Variant | None:
        """One build; None when the tables do not have it there."""
        release = self._name(version)
        return self.tables.variants.get((release, os, machine), {}).get(name) if release else None

    def pypi_variant(self, version: str, os: str, machine: str) -> str | None:
        """What plain pip gives: "cu126" | "cpu" | "mps"; None when PyPI has no wheel there or the release is unknown."""
        wheel = self.wheels(version, os, machine)
        return wheel.variant if wheel else None

    def index_url(self, variant: str, version: str | None = None) -> str | None:
        """The wheel index of a variant; None for "mps", and when that release has no such build or no such index."""
        if not re.fullmatch(r"cpu|xpu|cu\d{2,3}|rocm\d+(\.\d+)*", variant):
            return None
        if version is None:
            return INDEX + variant
        name = self._name(version)
        for (release, _, _), builds in self.tables.variants.items():
            if release == name and variant in builds and builds[variant].index_url:
                return builds[variant].index_url
        return None

    def arch_list(self, version: str, variant: str, os: str, machine: str) -> ArchList | None:
        """GPU code of a build: .sass, .ptx (None = unknown), .names."""
        name = self._name(version)
        return self.tables.arch_lists.get((name, variant, os, machine)) if name else None

    def gpu(self, name: str) -> GpuModel | None:
        """An NVIDIA GPU by any spelling of nvidia-smi, torch or lspci."""
        return self.names.gpu(name)

    def gpu_rates(self, name: str) -> GpuRates | None:
        """What that very board can give at most; None for boards that are not in the table, laptops and slices among them."""
        return self.names.rate(name)

    def architecture(self, cc: str) -> Architecture | None:
        """The architecture of a compute capability."""
        return self.tables.architectures.get(cc)

    def driver_floor(self, cuda: str, os: str) -> str | None:
        """Lowest driver that runs a build of that CUDA."""
        return drivers.driver_floor(self.tables, cuda, os)

    def driver_runs(self, driver: str, cuda: str, os: str) -> str | None:
        """ "yes" | "no" | "doubtful" (sources disagree) | None (unknown CUDA or unreadable number)."""
        return drivers.driver_runs(self.tables, driver, cuda, os)

    def toolkit_driver(self, cuda: str, os: str) -> str | None:
        """The driver that shipped with the toolkit ("12.8": its first release; "12.8.1": that patch)."""
        found = drivers.shipped(self.tables, cuda, os)
        return found[0] if found else None

    def driver_cuda(self, driver: str, os: str) -> str | None:
        """Highest CUDA of a driver, as nvidia-smi shows it: ("535.183.01", "linux") -> "12.2"."""
        row = drivers.branch_row(self.tables, driver, os)
        return row.cuda if row else None

    def driver_branch(self, driver: str, os: str) -> int | None:
        """Branch of a driver: 535."""
        return drivers.driver_branch(self.tables, driver, os)

    def coverage(
        self,
        arch_list: ArchList | Iterable[str] | None,
        cc: str,
        *,
        build_cuda: str | None = None,
        driver_cuda: str | None = None,
        machine: str | None = None,  # noqa: ARG002 - callers pass what they know; a Tegra shows in its capability
    ) -> Coverage:
        """Can a GPU of that capability run the build? arch_list: an ArchList, or names such as "sm_90" "compute_90".

        A list of names is taken to be complete, PTX included, as torch.cuda.get_arch_list() gives it. A driver that
        is not known still supports the CUDA that its GPU first came with, which may settle whether PTX can be used.
        """
        if arch_list is None:
            return Coverage(kind="unknown", reason="the code in this build is not known")
        ptx_known = True
        if isinstance(arch_list, ArchList):
            ptx_known = arch_list.ptx is not None
            build_cuda = build_cuda or (short(f"{arch_list.variant[2:-1]}.{arch_list.variant[-1]}"))
            arch_list = arch_list.names
        if driver_cuda is None and build_cuda is not None:
            first = self.architecture(cc)
            if first and first.first_cuda and at_least(first.first_cuda, build_cuda):
                driver_cuda = first.first_cuda
        return coverage.coverage(arch_list, cc, build_cuda=build_cuda, driver_cuda=driver_cuda, ptx_known=ptx_known)

    def companions(self, torch_version: str) -> dict[str, Companion]:
        """torchvision, torchaudio and triton for a torch: the version to install and what it accepts; {} = unknown."""
        release = self.release(torch_version)
        return companions.for_release(self.tables, release) if release else {}

    def companion_requires(self, package: str, version: str) -> str | None:
        """A companion's own requirement on torch: "==2.8.0"; None = it declares none, or is unknown."""
        pin = companions.pin(self.tables, package, version)
        return pin.requires_torch if pin else None

    def torch_for_companion(self, package: str, version: str) -> str | None:
        """The torch that a companion belongs to: ("torchvision", "0.20.1") -> "2.5.1"."""
        return companions.torch_for(self.tables, package, version)

    def requires(self, version: str, os: str, machine: str) -> tuple[Requirement, ...]:
        """What the wheel on PyPI asks for, nvidia-* and triton pins included; () = none or unknown."""
        name = self._name(version)
        return self.tables.requirements.get((name, os, machine), ()) if name else ()
