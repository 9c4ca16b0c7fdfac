"""Contradictions between rows and between tables, each named by file, row and field.

Nothing here runs at a normal start: a test and `envcheck matrix check` do. Loading itself rejects what one row shows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property

from envcheck.errors import MatrixError
from envcheck.matrix.tables import Tables
from envcheck.matrix.text import Row, check_shape, raw_rows
from envcheck.matrix.versions import at_least, capability, cuda_of_variant, numbers, short

ORDER_OF_PLATFORM = {"linux": "manylinux", "windows": "win", "macos": "macosx"}
MACHINE_TAG = {("windows", "x86_64"): "amd64"}


class Checker:
    """All tables as objects and as rows, so that an error can name its place."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables

    def rows(self, file: str) -> list[Row]:
        """Rows of one file with their line numbers."""
        return raw_rows(self.tables.directory, file)

    @cached_property
    def released(self) -> dict[str, str]:
        """Release -> date."""
        return {r.version: r.released for r in self.tables.releases}


def validate_all(tables: Tables | None = None) -> None:
    """Raises the first contradiction of all tables, and says how many more there are."""
    found = list(problems(tables or _shipped()))
    if found:
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        raise MatrixError(f"{found[0]}{more}")


def problems(tables: Tables) -> Iterator[MatrixError]:
    """Every contradiction. A table that cannot be read at all is the only one that is told."""
    from envcheck.matrix import validate_hardware

    try:
        _read_all(tables)
    except MatrixError as error:
        yield error
        return
    checker = Checker(tables)
    for check in (*_CHECKS, *validate_hardware.CHECKS):
        yield from check(checker)


def _shipped() -> Tables:
    from envcheck.data import directory

    return Tables(directory("matrices"))


def _read_all(tables: Tables) -> None:
    """Parses every table, so that each row passes the checks of loading."""
    from envcheck.matrix.gpus import Names

    for path in sorted(tables.directory.glob("*.csv")):
        check_shape(tables.directory, path.name)
    for owner in (tables, Names(tables)):
        for cls in type(owner).__mro__:
            for name, item in vars(cls).items():
                if isinstance(item, cached_property):
                    getattr(owner, name)


def parse_specifier(row: Row, field: str) -> MatrixError | None:
    """The error of a specifier that cannot be read."""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    try:
        SpecifierSet(re.sub(r"\+[\w.]+", "", row[field]))
    except InvalidSpecifier:
        return row.error(field, f"'{row[field]}' is not a version specifier")
    return None


def _releases(checker: Checker) -> Iterator[MatrixError]:
    first: dict[str, str] = {}
    for (release, _, _), wheel in checker.tables.wheels.items():
        first[release] = min(wheel.uploaded, first.get(release, wheel.uploaded))
    last = ""
    for row in checker.rows("torch_releases.csv"):
        release = row["release"]
        if release in first and row["released"] != first[release]:
            yield row.error("released", f"is {row['released']}, the first wheel was uploaded on {first[release]}")
        # Patch releases of an old line may come after the next minor, so only the lines have to be in order.
        if release.endswith(".0"):
            if row["released"] < last:
                yield row.error("released", "is before that of the release above")
            last = row["released"]
        if row["checked"] < row["released"]:
            yield row.error("checked", "is before the release")
        for package in ("torchvision", "torchaudio"):
            yield from _recommended(checker, row, package)


def _recommended(checker: Checker, row: Row, package: str) -> Iterator[MatrixError]:
    from envcheck.matrix.companions import contains

    version = row[package]
    if not version:
        return
    pin = checker.tables.pins[package].get(version)
    if pin is None:
        yield row.error(package, f"{package} {version} has no row in companions.csv")
        return
    wanted = pin.fits_torch or pin.requires_torch
    if wanted and not contains(wanted, row["release"]):
        yield row.error(package, f"{package} {version} asks for torch{wanted}")


def _wheels(checker: Checker) -> Iterator[MatrixError]:
    for row in checker.rows("torch_wheels.csv"):
        place = (row["release"], row["os"], row["machine"])
        if row["release"] not in checker.released:
            yield row.error("release", f"torch {row['release']} has no row in torch_releases.csv")
        variant = checker.tables.variants.get(place, {}).get(row["variant"])
        if variant is None:
            yield row.error("variant", f"{row['variant']} has no row for that platform in torch_variants.csv")
        elif variant.status != "advertised":
            yield row.error("variant", f"is on PyPI, but torch_variants.csv says {variant.status}")
        base, _, local = row["version"].partition("+")
        if base != row["release"]:
            yield row.error("version", f"'{row['version']}' is not release {row['release']}")
        if local and local != row["variant"]:
            yield row.error("version", f"has the label +{local}, the variant is {row['variant']}")
        pythons = row.words("pythons")
        if list(pythons) != sorted(set(pythons), key=lambda p: (numbers(p), p.endswith("t"))):
            yield row.error("pythons", "are not in ascending order, each once")
        yield from _tags(row)


def _tags(row: Row) -> Iterator[MatrixError]:
    machine = MACHINE_TAG.get((row["os"], row["machine"]), row["machine"])
    for tag in row.words("tags"):
        if not tag.startswith(ORDER_OF_PLATFORM[row["os"]]) or not tag.endswith(machine):
            yield row.error("tags", f"{tag} is not for {row['os']} {row['machine']}")
        glibc = re.match(r"manylinux_(\d+)_(\d+)_", tag)
        if glibc and row["min_os"] != f"{glibc[1]}.{glibc[2]}":
            yield row.error("min_os", f"is {row['min_os']}, the tag says glibc {glibc[1]}.{glibc[2]}")
    first = re.match(r"macosx_(\d+)_(\d+)_", row["tags"])
    if first and row["min_os"] != f"{first[1]}.{first[2]}":
        yield row.error("min_os", f"is {row['min_os']}, the first tag says macOS {first[1]}.{first[2]}")
    if row["os"] == "windows" and row["min_os"]:
        yield row.error("min_os", "Windows wheels have no such floor")


def _variants(checker: Checker) -> Iterator[MatrixError]:
    for row in checker.rows("torch_variants.csv"):
        name, cuda = row["variant"], cuda_of_variant(row["variant"])
        if row["release"] not in checker.released:
            yield row.error("release", f"torch {row['release']} has no row in torch_releases.csv")
        if not re.fullmatch(r"cpu|mps|xpu|cu\d{2,3}|rocm\d+(\.\d+)*", name):
            yield row.error("variant", f"'{name}' is not the name of a variant")
        if cuda and row["toolkit"] and short(row["toolkit"]) != cuda:
            yield row.error("toolkit", f"is {row['toolkit']}, the variant is for CUDA {cuda}")
        if cuda and not any(t.cuda == cuda for t in checker.tables.toolkits):
            yield row.error("variant", f"CUDA {cuda} has no row in cuda_toolkits.csv")
        if (name not in ("cpu", "mps")) if row["os"] == "macos" else name == "mps":
            yield row.error("variant", f"there is no {name} build for {row['os']}")
        pinned = _pinned_cudnn(checker, row)
        if pinned and row["cudnn"] and row["cudnn"] != pinned:
            yield row.error("cudnn", f"is {row['cudnn']}, the wheel's metadata asks for {pinned}")


def _pinned_cudnn(checker: Checker, row: Row) -> str | None:
    place = (row["release"], row["os"], row["machine"])
    wheel = checker.tables.wheels.get(place)
    if wheel is None or wheel.variant != row["variant"]:
        return None
    for item in checker.tables.requirements.get(place, ()):
        if item.package.startswith("nvidia-cudnn-") and item.specifier.startswith("=="):
            return item.specifier[2:]
    return None


def _archs(checker: Checker) -> Iterator[MatrixError]:
    for row in checker.rows("torch_archs.csv"):
        place = (row["release"], row["os"], row["machine"])
        if row["variant"] not in checker.tables.variants.get(place, {}):
            yield row.error("variant", f"{row['variant']} has no row for that platform in torch_variants.csv")
        yield from arch_names(checker, row, cuda_of_variant(row["variant"]) or "")
    for row in checker.rows("torch_variants.csv"):
        build = (row["release"], row["variant"], row["os"], row["machine"])
        wanted = row["status"] == "advertised" and row["machine"] == "x86_64" and row["variant"].startswith("cu")
        if wanted and build not in checker.tables.arch_lists:
            yield row.error("variant", "an advertised CUDA build without a row in torch_archs.csv")


def arch_names(checker: Checker, row: Row, cuda: str) -> Iterator[MatrixError]:
    """Checks the columns sass and ptx against the architectures and the CUDA that knows them."""
    names = list(row.words("sass"))
    if names != sorted(set(names), key=lambda n: (float(capability(n) or 0), n)):
        yield row.error("sass", "is not in ascending order, each once")
    entries = [("sass", name) for name in names]
    entries += [("ptx", name) for name in row.words("ptx") if name not in ("none", "unknown")]
    for field, name in entries:
        if not name.startswith({"sass": "sm_", "ptx": "compute_"}[field]):
            yield row.error(field, f"'{name}' does not belong in this column")
            continue
        known = checker.tables.architectures.get(capability(name) or "")
        if known is None:
            yield row.error(field, f"{name} has no row in architectures.csv")
        elif known.first_cuda and not at_least(cuda, known.first_cuda):
            yield row.error(field, f"{name} needs CUDA {known.first_cuda}, this is a build of CUDA {cuda}")
        elif known.last_cuda and not at_least(known.last_cuda, cuda):
            yield row.error(field, f"CUDA {cuda} has no {name}: it ended with CUDA {known.last_cuda}")


def _requirements(checker: Checker) -> Iterator[MatrixError]:
    for row in checker.rows("torch_requires.csv"):
        wheel = checker.tables.wheels.get((row["release"], row["os"], row["machine"]))
        if wheel is None:
            yield row.error("release", "torch_wheels.csv has no such wheel")
            continue
        bad = parse_specifier(row, "specifier")
        if bad:
            yield bad
            continue
        major = re.search(r"-cu(\d\d)$", row["package"])
        if major and (wheel.cuda is None or not wheel.cuda.startswith(major[1] + ".")):
            yield row.error("package", f"{row['package']} is not for CUDA {wheel.cuda}, the CUDA of the wheel")
        if row["package"] == "cuda-toolkit" and short(row["specifier"].strip("=~")) != wheel.cuda:
            yield row.error("specifier", f"{row['specifier']} is not CUDA {wheel.cuda}, the CUDA of the wheel")


def _companions(checker: Checker) -> Iterator[MatrixError]:
    for row in checker.rows("companions.csv"):
        for field in ("requires_torch", "fits_torch", "requires_python"):
            bad = parse_specifier(row, field)
            if bad:
                yield bad
        exact = re.fullmatch(r"==([\d.]+?)(\+\w+)?", row["requires_torch"])
        if exact and exact[1] not in checker.released:
            yield row.error("requires_torch", f"torch {exact[1]} has no row in torch_releases.csv")
        if row["checked"] < row["released"]:
            yield row.error("checked", "is before the release")
    for row in checker.rows("triton_windows.csv"):
        if not any(r.version.startswith(row["torch"] + ".") for r in checker.tables.releases):
            yield row.error("torch", f"torch {row['torch']} has no release in torch_releases.csv")


_CHECKS = (_releases, _wheels, _variants, _archs, _requirements, _companions)
