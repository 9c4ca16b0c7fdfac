"""Each kind of contradiction is refused, and the message names file, row and field."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from envcheck.data import directory
from envcheck.errors import MatrixError
from envcheck.matrix import Matrix
from envcheck.matrix.tables import Tables
from envcheck.matrix.validate import problems, validate_all

Make = Callable[[str, Callable[[list[dict[str, str]]], None]], Tables]

# file, which row, field, wrong value, what the message says ("table/field|words" where it names another place)
CELLS: list[tuple[str, dict[str, str], str, str, str]] = [
    # what one row shows
    ("torch_releases.csv", {"release": "2.8.0"}, "released", "august", "is not a date"),
    ("torch_releases.csv", {"release": "2.8.0"}, "status", "maybe", "is none of"),
    ("torch_releases.csv", {"release": "2.8.0"}, "numpy2_unix", "perhaps", "is none of"),
    ("torch_releases.csv", {"release": "2.8.0"}, "source", "", "is empty"),
    ("torch_releases.csv", {"release": "2.8.0"}, "confidence", "sure", "is none of"),
    ("torch_releases.csv", {"release": "2.8.0"}, "checked", "2026", "is not a date"),
    ("torch_releases.csv", {"release": "2.8.0"}, "mps_min_macos", "Sonoma", "is not a version number"),
    ("torch_releases.csv", {"release": "2.8.0"}, "release", "2.7.1", "a second row"),
    ("torch_releases.csv", {"release": "2.8.0"}, "release", "2.6.9", "is not newer"),
    ("torch_wheels.csv", {"release": "2.8.0", "os": "linux"}, "os", "beos", "is none of"),
    ("torch_wheels.csv", {"release": "2.8.0", "os": "windows"}, "pythons", "", "is empty"),
    ("torch_variants.csv", {"release": "2.8.0", "variant": "cu128"}, "status", "rumoured", "is none of"),
    ("torch_archs.csv", {"release": "2.8.0", "variant": "cu128"}, "ptx", "", "is empty"),
    ("driver_branches.csv", {"branch": "535"}, "windows_from", "five", "is not a whole number"),
    ("architectures.csv", {"compute_capability": "8.9"}, "compute_capability", "89", "is not a compute capability"),
    ("architectures.csv", {"compute_capability": "8.9"}, "open_kernel_modules", "yes", "is none of"),
    ("gpus.csv", {"name": "NVIDIA GeForce RTX 4090"}, "name", "NVIDIA GeForce RTX 3090", "a second row"),
    ("gpu_rules.csv", {"order": "3"}, "pattern", "(B300", "is not a regular expression"),
    ("known_bad.csv", {"id": "numpy2-unix"}, "effect", "explode", "is none of"),
    # what two rows or two tables show
    ("torch_releases.csv", {"release": "2.8.0"}, "released", "2025-09-01", "first wheel was uploaded"),
    ("torch_releases.csv", {"release": "2.8.0"}, "checked", "2020-01-01", "is before the release"),
    ("torch_releases.csv", {"release": "2.8.0"}, "torchvision", "0.22.0", "asks for torch"),
    ("torch_releases.csv", {"release": "2.8.0"}, "torchaudio", "2.8.9", "has no row in companions.csv"),
    ("torch_wheels.csv", {"release": "2.8.0", "os": "linux"}, "version", "2.7.0+cu128", "is not release 2.8.0"),
    ("torch_wheels.csv", {"release": "2.8.0", "os": "linux"}, "version", "2.8.0+cu126", "has the label"),
    ("torch_wheels.csv", {"release": "2.8.0", "os": "linux"}, "variant", "cu111", "has no row for that platform"),
    ("torch_wheels.csv", {"release": "2.8.0", "os": "linux"}, "pythons", "3.10 3.9", "ascending order"),
    ("torch_wheels.csv", {"release": "2.8.0", "os": "windows"}, "tags", "manylinux_2_28_x86_64", "is not for windows"),
    ("torch_wheels.csv", {"release": "2.8.0", "os": "linux"}, "min_os", "2.17", "the tag says glibc 2.28"),
    ("torch_wheels.csv", {"release": "2.8.0", "os": "macos"}, "min_os", "14.0", "the first tag says macOS 11.0"),
    (
        "torch_variants.csv",
        {"release": "2.8.0", "variant": "cu128"},
        "toolkit",
        "12.6.3",
        "the variant is for CUDA 12.8",
    ),
    ("torch_variants.csv", {"release": "2.8.0", "variant": "cu128"}, "variant", "cu777", "has no row in cuda_toolkits"),
    ("torch_variants.csv", {"release": "2.8.0", "variant": "xpu"}, "variant", "tpu", "is not the name of a variant"),
    ("torch_variants.csv", {"release": "2.8.0", "variant": "xpu"}, "variant", "mps", "there is no mps build for linux"),
    ("torch_variants.csv", {"release": "2.8.0", "variant": "cu128"}, "cudnn", "9.1.0.70", "metadata asks for"),
    (
        "torch_variants.csv",
        {"release": "2.8.0", "variant": "cu128"},
        "status",
        "index-only",
        "torch_wheels.csv/variant|is on PyPI",
    ),
    ("torch_variants.csv", {"release": "2.8.0", "variant": "rocm6.4"}, "variant", "rocm5.0", "has no list"),
    ("torch_archs.csv", {"release": "2.8.0", "variant": "cu128"}, "sass", "sm_80 sm_75", "ascending order"),
    ("torch_archs.csv", {"release": "2.8.0", "variant": "cu128"}, "sass", "sm_37 sm_75", "it ended with CUDA 11.8"),
    ("torch_archs.csv", {"release": "2.7.0", "variant": "cu126"}, "sass", "sm_75 sm_120", "needs CUDA 12.8"),
    ("torch_archs.csv", {"release": "2.8.0", "variant": "cu128"}, "sass", "sm_75 sm_99", "has no row in architectures"),
    ("torch_archs.csv", {"release": "2.8.0", "variant": "cu128"}, "ptx", "sm_90", "does not belong in this column"),
    ("torch_archs.csv", {"release": "2.8.0", "variant": "cu128"}, "variant", "cu124", "has no row for that platform"),
    (
        "torch_requires.csv",
        {"release": "2.8.0", "package": "triton"},
        "specifier",
        "=3.4",
        "is not a version specifier",
    ),
    (
        "torch_requires.csv",
        {"release": "2.8.0", "package": "nvidia-cudnn-cu12"},
        "package",
        "nvidia-cudnn-cu11",
        "is not for",
    ),
    (
        "torch_requires.csv",
        {"release": "2.14.1", "package": "cuda-toolkit"},
        "specifier",
        "==13.2.1",
        "is not CUDA 13.0",
    ),
    (
        "torch_requires.csv",
        {"release": "2.8.0", "package": "triton"},
        "os",
        "macos",
        "torch_requires.csv/release|has no such wheel",
    ),
    (
        "companions.csv",
        {"package": "torchvision", "version": "0.23.0"},
        "requires_torch",
        "==2.8.7",
        "has no row in torch",
    ),
    (
        "companions.csv",
        {"package": "torchaudio", "version": "2.8.0"},
        "requires_python",
        "3.9",
        "is not a version specifier",
    ),
    ("triton_windows.csv", {"torch": "2.8"}, "torch", "7.8", "has no release"),
    ("cuda_toolkits.csv", {"cuda": "12.8", "update": "GA"}, "driver_linux", "470.57.02", "is older than"),
    ("cuda_toolkits.csv", {"cuda": "12.8", "update": "GA"}, "driver_linux", "565.57.01", "is of branch 565"),
    ("cuda_toolkits.csv", {"cuda": "13.2", "update": "Update 2"}, "driver_linux", "999.1", "belongs to no branch"),
    ("cuda_toolkits.csv", {"cuda": "12.8", "update": "GA"}, "version", "12.6.0", "is not CUDA 12.8"),
    ("cuda_floors.csv", {"cuda_major": "12", "os": "linux"}, "driver", "440.33", "is lower than that of CUDA 11"),
    ("cuda_floors.csv", {"cuda_major": "12", "os": "linux"}, "driver", "550.54.14", "with which CUDA 12.1 itself came"),
    ("cuda_floors.csv", {"cuda_major": "12", "os": "windows"}, "warn_from", "531.14", "is not below"),
    ("driver_branches.csv", {"branch": "535"}, "cuda", "11.9", "is lower than"),
    ("driver_branches.csv", {"branch": "535"}, "windows_from", "531", "also belongs to the branch before"),
    ("driver_branches.csv", {"branch": "535"}, "windows_to", "", "a range has two ends"),
    ("driver_branches.csv", {"branch": "535"}, "windows_to", "534", "is below windows_from"),
    ("architectures.csv", {"compute_capability": "3.7"}, "last_cuda", "4.2", "is before first_cuda"),
    ("architectures.csv", {"compute_capability": "7.0"}, "last_driver_branch", "340", "is before min_driver_branch"),
    ("gpus.csv", {"name": "NVIDIA GeForce RTX 4090"}, "compute_capability", "8.4", "has no row in architectures"),
    (
        "gpus.csv",
        {"name": "NVIDIA GeForce RTX 4090"},
        "compute_capability",
        "8.6",
        "gpus.csv/architecture|8.6 is Ampere, not Ada",
    ),
    ("gpus.csv", {"name": "NVIDIA GeForce RTX 4090"}, "last_driver_branch", "580", "architectures.csv says None"),
    (
        "gpus.csv",
        {"name": "NVIDIA GeForce RTX 4090"},
        "first_listed_driver",
        "470.57.02",
        "is before min_driver_branch",
    ),
    ("gpus.csv", {"name": "Tesla T4"}, "min_driver_branch", "575", "architectures.csv says 410"),
    ("gpu_chips.csv", {"chip": "AD102"}, "architecture", "Ampere", "8.9 is Ada"),
    ("gpu_rules.csv", {"order": "3"}, "compute_capability", "10.4", "has no row in architectures"),
    ("cudnn_floors.csv", {"cudnn_from": "9.11"}, "compute_capability_min", "7.7", "has no row in architectures"),
    ("conda_builds.csv", {"release": "2.13.0", "cuda": "12.9"}, "platforms", "solaris", "is none of"),
    ("conda_builds.csv", {"release": "2.13.0", "cuda": "12.9"}, "platforms", "macos-arm64", "no CUDA build for macOS"),
    ("conda_builds.csv", {"release": "2.13.0", "cuda": "12.9"}, "sass", "sm_37", "it ended with CUDA 11.8"),
    ("conda_builds.csv", {"channel": "conda-forge", "release": "2.13.0", "cuda": ""}, "sass", "sm_80", "no GPU code"),
    (
        "conda_builds.csv",
        {"channel": "conda-forge", "release": "2.13.0", "cuda": ""},
        "channel",
        "pytorch",
        "conda_builds.csv/release|ended with",
    ),
    ("jetpack.csv", {"jetpack": "6.2"}, "l4t", "36.2.9", "comes after"),
    ("jetpack.csv", {"jetpack": "6.2"}, "compute_capability", "8.4", "has no row in architectures"),
    ("amd_gpus.csv", {"name": "Radeon RX 7900 XTX"}, "gfx", "gfx1199", "has no row in amd_archs"),
    ("rocm_archs.csv", {"rocm_from": "6.4"}, "torch_to", "2.1", "is before torch_from"),
    ("rocm_archs.csv", {"rocm_from": "6.4"}, "rocm_to", "6.1", "is before rocm_from"),
    ("known_bad.csv", {"id": "numpy2-unix"}, "torch", "below 2.3", "is not a version specifier"),
    ("known_bad.csv", {"id": "numpy2-unix"}, "os", "beos", "is none of"),
    ("platform_facts.csv", {"id": "musl-none"}, "id", "Musl None", "is not in kebab-case"),
    ("disagreements.csv", {"table": "gpus.csv"}, "table", "gnus.csv", "there is no table"),
]


def _id(case: Any) -> str:
    return str(case) if isinstance(case, str) else ",".join(case.values()) if isinstance(case, dict) else ""


@pytest.mark.parametrize(("file", "where", "field", "value", "says"), CELLS, ids=_id)
def test_a_wrong_cell_is_named(
    changed: Make, file: str, where: dict[str, str], field: str, value: str, says: str
) -> None:
    def change(rows: list[dict[str, str]]) -> None:
        for row in rows:
            if all(row[name] == wanted for name, wanted in where.items()):
                row[field] = value
                return
        raise AssertionError(f"no row {where} in {file}")

    found = [str(error) for error in problems(changed(file, change))]
    place, _, words = says.rpartition("|")
    named_file, _, named_field = place.partition("/")
    wanted = rf"matrices/{re.escape(named_file or file)}, row \d+ \(.*\), field '{named_field or field}': .*{re.escape(words)}"
    assert any(re.match(wanted, line) for line in found), f"expected {wanted} among: {found}"


def test_a_missing_arch_list_is_named(changed: Make) -> None:
    def change(rows: list[dict[str, str]]) -> None:
        key = ("2.8.0", "cu128", "linux", "x86_64")
        rows[:] = [r for r in rows if (r["release"], r["variant"], r["os"], r["machine"]) != key]

    found = [str(error) for error in problems(changed("torch_archs.csv", change))]
    assert any("torch_variants.csv" in line and "without a row in torch_archs.csv" in line for line in found)


def test_a_wheel_of_an_unknown_release_is_named(changed: Make) -> None:
    def change(rows: list[dict[str, str]]) -> None:
        rows[-1]["release"] = "9.9.9"

    found = [str(error) for error in problems(changed("torch_wheels.csv", change))]
    assert any("torch 9.9.9 has no row in torch_releases.csv" in line for line in found)


def test_a_wrong_header_is_refused(tmp_path: Any) -> None:
    (tmp_path / "cuda_floors.csv").write_text("cuda_major,os,driver\n13,linux,580\n", encoding="utf-8")
    with pytest.raises(MatrixError, match=r"matrices/cuda_floors\.csv, row 1: the columns are"):
        _ = Tables(tmp_path).floors


def test_a_row_of_the_wrong_length_is_refused(tmp_path: Any) -> None:
    text = (directory("matrices") / "cuda_floors.csv").read_text(encoding="utf-8")
    (tmp_path / "cuda_floors.csv").write_text(text + "14,linux,999\n", encoding="utf-8")
    with pytest.raises(MatrixError, match=r"row 8: 3 cells where the header has 8"):
        _ = Tables(tmp_path).floors


def test_a_missing_table_is_one_line(tmp_path: Any) -> None:
    with pytest.raises(MatrixError, match=r"matrices/torch_releases\.csv: cannot be read"):
        _ = Matrix(Tables(tmp_path)).wheels("2.8.0", "linux", "x86_64")


def test_validate_all_says_how_many_there_are(changed: Make) -> None:
    def change(rows: list[dict[str, str]]) -> None:
        for row in rows[:3]:
            row["checked"] = "1999-01-01"

    with pytest.raises(MatrixError, match=r"field 'checked'.*\(and 2 more\)"):
        validate_all(changed("companions.csv", change))
