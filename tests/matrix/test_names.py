"""GPU names in all the spellings that drivers, torch, lspci and people use."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envcheck.matrix import Matrix, load


def test_every_board_resolves_to_its_own_capability(matrix: Matrix) -> None:
    for row in matrix.names.rows.values():
        wanted = tuple(row["compute_capability"].split())
        for name in (row["name"], f"NVIDIA {row['name'].removeprefix('NVIDIA ')}", row["name"].upper()):
            model = matrix.gpu(name)
            assert model is not None, name
            assert model.candidates == wanted, name
            assert model.compute_capability == (wanted[0] if len(wanted) == 1 else None), name
            assert model.exact or len(wanted) > 1


def test_every_board_of_the_sources_resolves(matrix: Matrix, shared: Path) -> None:
    with (shared / "compat-sources" / "gpus.csv").open(newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) >= 696
    for row in rows:
        model = matrix.gpu(row["name"])
        assert model is not None, row["name"]
        assert model.candidates == tuple(row["compute_capability"].split("|")), row["name"]


NVIDIA = [
    ("NVIDIA GeForce RTX 4090", "8.9"),
    ("AD102 [GeForce RTX 4090]", "8.9"),
    ("GA102 [GeForce RTX 3090] (rev a1)", "8.6"),
    ("NVIDIA Corporation GA104M [GeForce RTX 3070 Mobile / Max-Q] (rev a1)", "8.6"),
    ("01:00.0 VGA compatible controller: NVIDIA Corporation AD107M [GeForce RTX 4060 Max-Q / Mobile] (rev a1)", "8.9"),
    ("3D controller [0302]: NVIDIA Corporation GV100GL [Tesla V100 SXM2 32GB] [10de:1db5] (rev a1)", "7.0"),
    ("NVIDIA Corporation GB203M / GN22-X9 [GeForce RTX 5080 Max-Q / Mobile] (rev a1)", "12.0"),
    ("GB202 [Device 2b85]", "12.0"),
    ("GPU 0: NVIDIA GeForce RTX 3090 (UUID: GPU-0000)", "8.6"),
    ("NVIDIA A100 80GB PCIe MIG 1g.10gb", "8.0"),
    ("NVIDIA A100-SXM4-80GB MIG 1c.3g.40gb", "8.0"),
    ("GRID A100-10C", "8.0"),
    ("NVIDIA A100-1-5C", "8.0"),
    ("NVIDIA A40-8Q", "8.6"),
    ("GRID T4-16Q", "7.5"),
    ("GRID V100DX-16Q", "7.0"),
    ("GRID RTX6000P-6Q", "7.5"),
    ("NVIDIA RTX6000-Ada-8Q", "8.9"),
    ("Tesla V100-SXM2-32GB", "7.0"),
    ("Tesla V100-SXM2...", "7.0"),
    ("GeForce RTX 208...", "7.5"),
    ("GeForce GTX 1080 with Max-Q Design", "6.1"),
    ("NVIDIA GeForce RTX 3080 Ti Laptop GPU", "8.6"),
    ("Quadro RTX 6000", "7.5"),
    ("RTX 6000 Ada", "8.9"),
    ("NVIDIA RTX A6000", "8.6"),
    ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "12.0"),
    ("GTX1080Ti", "6.1"),
    ("GTX 1060", "6.1"),
    ("gtx1060", "6.1"),
    ("NVIDIA GTX 745", "5.0"),
    ("K40", "3.5"),
    ("DGX Spark", "12.1"),
    ("rtx 4060 laptop", "8.9"),
    ("3090", "8.6"),
    ("A6000", "8.6"),
    ("V100", "7.0"),
    ("NVIDIA GB10", "12.1"),
    ("NVIDIA GH200 480GB", "9.0"),
    ("NVIDIA GB200", "10.0"),
    ("NVIDIA B300 SXM6 AC", "10.3"),
    ("Orin (nvgpu)", "8.7"),
    ("NVIDIA Jetson AGX Orin", "8.7"),
    ("NVIDIA Tegra X1", "5.3"),
    ("GeForce GTX TITAN X", "5.2"),
    ("NVIDIA TITAN X (Pascal)", "6.1"),
    ("GK208B [GeForce GT 730]", "3.5"),
    ("GF108 [GeForce GT 730]", "2.1"),
    ("NVIDIA Corporation GM107M [GeForce GTX 860M]", "5.0"),
    ("Tesla M2090", "2.0"),
]


@pytest.mark.parametrize(("name", "cc"), NVIDIA)
def test_spellings(matrix: Matrix, name: str, cc: str) -> None:
    model = matrix.gpu(name)
    assert model is not None
    assert model.compute_capability == cc
    known = matrix.architecture(cc)
    assert known is not None
    assert model.architecture == known.name


@pytest.mark.parametrize(
    ("name", "candidates"),
    [
        ("GeForce GT 730", ("2.1", "3.5")),
        ("NVIDIA GeForce GTX 860M", ("3.0", "5.0")),
        ("GeForce GT 630M", ("2.1", "3.0", "3.5")),
        ("NVIDIA GeForce RTX ...", ("7.5", "8.6", "8.9", "12.0")),
    ],
)
def test_names_of_several_chips(matrix: Matrix, name: str, candidates: tuple[str, ...]) -> None:
    model = matrix.gpu(name)
    assert model is not None
    assert (model.compute_capability, model.candidates) == (None, candidates)


@pytest.mark.parametrize(
    "name",
    [
        "AMD Radeon RX 7900 XTX",
        "Intel(R) Arc(TM) A770 Graphics",
        "Intel Corporation Device 56a0",
        "Apple M2",
        "Matrox Electronics Systems Ltd. G200eW3",
        "ASPEED Technology, Inc. ASPEED Graphics Family",
        "VMware SVGA II Adapter",
        "Device 2684",
        "NVIDIA Graphics Device",
        "NVIDIA GeForce ...",
        "NVIDIA GeForce RTX 6090",
        "NVIDIA",
        "",
    ],
)
def test_what_it_does_not_know(matrix: Matrix, name: str) -> None:
    assert matrix.gpu(name) is None


AMD = [
    ("Radeon RX 6700 XT", "gfx1031"),
    ("AMD Radeon RX 7900 XTX", "gfx1100"),
    ("7900XTX", "gfx1100"),
    ("AMD Radeon RX 9070", "gfx1201"),
    ("AMD Instinct MI300X", "gfx942"),
    ("MI210", "gfx90a"),
    ("AMD Radeon 780M Graphics", "gfx1103"),
    ("AMD Radeon (TM) 8060S Graphics", "gfx1151"),
    ("gfx1030", "gfx1030"),
    ("gfx90a:sramecc+:xnack-", "gfx90a"),
    ("Navi 22 [Radeon RX 6700/6700 XT/6750 XT / 6800M/6850M XT]", "gfx1031"),
    ("Advanced Micro Devices, Inc. [AMD/ATI] Navi 31 [Radeon RX 7900 XT/7900 XTX/7900M] (rev c8)", "gfx1100"),
    ("Vega 20 [Radeon VII]", "gfx906"),
]


@pytest.mark.parametrize(("name", "gfx"), AMD)
def test_amd_names(matrix: Matrix, name: str, gfx: str) -> None:
    model = matrix.amd_gpu(name)
    assert model is not None
    assert model.gfx == gfx


def test_an_amd_name_of_several_targets(matrix: Matrix) -> None:
    model = matrix.amd_gpu("Radeon Vega 8")
    assert model is not None
    assert model.gfx is None
    assert len(model.candidates) > 1


@pytest.mark.parametrize("name", ["NVIDIA GeForce RTX 3090", "AMD Radeon Graphics", "Intel Arc A770", "3090", ""])
def test_no_amd_name(matrix: Matrix, name: str) -> None:
    assert matrix.amd_gpu(name) is None


def test_every_amd_row_resolves_to_itself(matrix: Matrix) -> None:
    for row in matrix.tables.amd_names.values():
        model = matrix.amd_gpu(f"AMD {row['name']}")
        assert model is not None, row["name"]
        assert model.candidates == tuple(row["gfx"].split())


@given(st.text(max_size=60))
def test_nothing_breaks_it(name: str) -> None:
    matrix = load()
    matrix.gpu(name)
    matrix.amd_gpu(name)
