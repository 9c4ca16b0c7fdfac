"""Tables about torch itself: releases, wheels, builds, their GPU code, and what goes beside them."""

from __future__ import annotations

from functools import cached_property

from envcheck.matrix.base import Base, Platform, plain, platform, ptx, tail
from envcheck.matrix.rows import ArchList, Pin, Release, Requirement, Variant, Wheel
from envcheck.matrix.text import Row
from envcheck.matrix.versions import numbers

STATUSES = ("advertised", "index-only", "unconfirmed")
PACKAGES = ("torchvision", "torchaudio", "triton")


class TorchTables(Base):
    """Releases and builds."""

    @cached_property
    def requirements(self) -> dict[Platform, tuple[Requirement, ...]]:
        """Requires-Dist of the PyPI wheels."""
        rows = self.read("torch_requires.csv", "release os machine package extras specifier marker")
        found: dict[Platform, list[Requirement]] = {}
        seen: set[tuple[str, ...]] = set()
        for row in rows:
            name = (row["release"], row["os"], row["machine"], row["package"], row["marker"])
            if name in seen:
                raise row.error("package", f"a second row for {plain(name)}")
            seen.add(name)
            found.setdefault(name[:3], []).append(_requirement(row))
        return {place: tuple(items) for place, items in found.items()}

    @cached_property
    def wheels(self) -> dict[Platform, Wheel]:
        """Wheels on PyPI."""
        rows = self.read(
            "torch_wheels.csv",
            "release os machine variant version pythons tags min_os requires_python uploaded",
        )
        return self.keyed(rows, platform, _wheel, "machine")

    @cached_property
    def releases(self) -> tuple[Release, ...]:
        """Releases in ascending order; the table must be in that order, so that a person finds the place."""
        rows = self.read(
            "torch_releases.csv",
            "release released status torchvision torchaudio mps_min_macos numpy2_unix numpy2_windows"
            " compile_python_max compile_free_threaded compile_windows notes",
        )
        made = self.keyed(rows, lambda row: row.required("release"), self._release, "release")
        last: tuple[int, ...] = ()
        for row in rows:
            if numbers(row["release"]) <= last:
                raise row.error("release", "is not newer than the row above")
            last = numbers(row["release"])
        return tuple(made.values())

    def _release(self, row: Row) -> Release:
        version = row.version("release") or row.required("release")
        wheels = [w for place, w in self._wheels_of.get(version, ())]
        by_place = dict(self._wheels_of.get(version, ()))
        wants = self._wants(version)
        pythons = sorted({p for w in wheels for p in w.pythons}, key=numbers)
        plain = [p for p in pythons if not p.endswith("t")]
        unix, windows = row.yes_no("numpy2_unix"), row.yes_no("numpy2_windows")
        linux_x86, linux_arm = by_place.get(("linux", "x86_64")), by_place.get(("linux", "aarch64"))
        setuptools = wants.get("setuptools")
        triton = wants.get("triton")
        return Release(
            version=version,
            released=row.date("released"),
            status=row.choice("status", ("confirmed", "partial")),
            python_min=plain[0] if plain else None,
            python_max=plain[-1] if plain else None,
            free_threaded=tuple(p for p in pythons if p.endswith("t")),
            torchvision=row.version("torchvision"),
            torchaudio=row.version("torchaudio"),
            triton_linux=triton.specifier.removeprefix("==") if triton else None,
            cudnn=_pinned(wants, "nvidia-cudnn-"),
            nccl=_pinned(wants, "nvidia-nccl-"),
            setuptools_req=setuptools.specifier if setuptools else None,
            setuptools_marker=setuptools.marker if setuptools else None,
            mps_min_macos=row.version("mps_min_macos"),
            glibc_x86_64=linux_x86.min_os if linux_x86 else None,
            glibc_aarch64=linux_arm.min_os if linux_arm else None,
            numpy2={"linux": unix, "macos": unix, "windows": windows},
            compile_python_max=row.version("compile_python_max"),
            compile_free_threaded=_free_threaded(row),
            compile_windows={"yes": True, "no": False, "unknown": None, "": None}[
                row.choice("compile_windows", ("yes", "no", "unknown", ""))
            ],
            notes=row["notes"],
            **tail(row),
        )

    @cached_property
    def _wheels_of(self) -> dict[str, list[tuple[tuple[str, str], Wheel]]]:
        found: dict[str, list[tuple[tuple[str, str], Wheel]]] = {}
        for (release, os, machine), wheel in self.wheels.items():
            found.setdefault(release, []).append(((os, machine), wheel))
        return found

    def _wants(self, release: str) -> dict[str, Requirement]:
        """The Linux wheel's requirements by package; the first row wins where markers make several."""
        found: dict[str, Requirement] = {}
        for item in self.requirements.get((release, "linux", "x86_64"), ()):
            found.setdefault(item.package, item)
        return found

    @cached_property
    def variants(self) -> dict[Platform, dict[str, Variant]]:
        """Builds by platform, then by name, in the order of the table."""
        rows = self.read("torch_variants.csv", "release variant os machine toolkit cudnn status pythons notes")
        found: dict[Platform, dict[str, Variant]] = {}
        for row in rows:
            place = found.setdefault(platform(row), {})
            if row["variant"] in place:
                raise row.error("variant", f"a second row for {plain((row['variant'], *platform(row)))}")
            place[row["variant"]] = self._variant(row)
        return found

    def _variant(self, row: Row) -> Variant:
        wheel = self.wheels.get(platform(row))
        return Variant(
            release=row["release"],
            name=row.required("variant"),
            os=row["os"],
            machine=row["machine"],
            toolkit=row.version("toolkit"),
            cudnn=row.version("cudnn"),
            status=row.choice("status", STATUSES),
            pythons=row.words("pythons") or None,
            on_pypi=wheel is not None and wheel.variant == row["variant"],
            notes=row["notes"],
            **tail(row),
        )

    @cached_property
    def arch_lists(self) -> dict[tuple[str, str, str, str], ArchList]:
        """GPU code by release, variant, os, machine."""
        rows = self.read("torch_archs.csv", "release variant os machine sass ptx notes")
        return self.keyed(rows, lambda r: (r["release"], r["variant"], r["os"], r["machine"]), _arch_list, "variant")

    @cached_property
    def pins(self) -> dict[str, dict[str, Pin]]:
        """torchvision, torchaudio and triton: package -> version -> row, ascending."""
        rows = self.read(
            "companions.csv",
            "package version released requires_torch fits_torch requires_python pythons platforms notes",
        )
        flat = self.keyed(rows, lambda r: (r.choice("package", PACKAGES), r["version"]), _pin, "version")
        ordered = sorted(flat.items(), key=lambda item: (item[0][0], numbers(item[0][1])))
        found: dict[str, dict[str, Pin]] = {package: {} for package in PACKAGES}
        for (package, version), pin in ordered:
            found[package][version] = pin
        return found

    @cached_property
    def triton_windows(self) -> dict[str, str]:
        """Line of torch ("2.8") -> line of triton-windows ("3.4")."""
        rows = self.read("triton_windows.csv", "torch triton_windows")
        return self.keyed(rows, lambda r: r["torch"], lambda r: r.version("triton_windows") or "", "torch")


def _free_threaded(row: Row) -> str | None:
    value = row["compile_free_threaded"]
    return "" if value == "no" else row.version("compile_free_threaded")


def _pinned(wants: dict[str, Requirement], prefix: str) -> str | None:
    for name, item in wants.items():
        if name.startswith(prefix) and item.specifier.startswith("=="):
            return item.specifier[2:]
    return None


def _requirement(row: Row) -> Requirement:
    return Requirement(
        release=row["release"],
        os=row["os"],
        machine=row["machine"],
        package=row.required("package"),
        extras=row.words("extras"),
        specifier=row["specifier"],
        marker=row["marker"],
        **tail(row),
    )


def _wheel(row: Row) -> Wheel:
    return Wheel(
        release=row["release"],
        os=row["os"],
        machine=row["machine"],
        variant=row.required("variant"),
        version=row.required("version"),
        pythons=tuple(row.required("pythons").split()),
        tags=tuple(row.required("tags").split()),
        min_os=row.version("min_os"),
        requires_python=row.optional("requires_python"),
        uploaded=row.date("uploaded"),
        **tail(row),
    )


def _arch_list(row: Row) -> ArchList:
    return ArchList(
        release=row["release"],
        variant=row["variant"],
        os=row["os"],
        machine=row["machine"],
        sass=tuple(row.required("sass").split()),
        ptx=ptx(row),
        notes=row["notes"],
        **tail(row),
    )


def _pin(row: Row) -> Pin:
    return Pin(
        package=row["package"],
        version=row.version("version") or row.required("version"),
        released=row.date("released"),
        requires_torch=row.optional("requires_torch"),
        fits_torch=row.optional("fits_torch"),
        requires_python=row.optional("requires_python"),
        pythons=row.words("pythons"),
        platforms=row.words("platforms"),
        notes=row["notes"],
        **tail(row),
    )
