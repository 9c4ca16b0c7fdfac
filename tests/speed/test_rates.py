"""The table of what GPUs can give: found by the names that drivers print, and slips of a digit are noticed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from envcheck.data import directory
from envcheck.matrix import load
from envcheck.matrix.rates import PRECISIONS, link_rate
from envcheck.matrix.tables import Tables
from envcheck.matrix.validate import problems


@pytest.mark.parametrize(
    ("name", "precision", "peak", "memory"),
    [
        ("NVIDIA H100 80GB HBM3", "bf16", 989.5, 3350),
        ("NVIDIA A100-SXM4-80GB", "tf32", 156, 2039),
        ("NVIDIA A100-PCIE-40GB", "fp16", 312, 1555),
        ("Tesla V100-SXM2-16GB", "fp16", 125, 900),
        ("Tesla P100-SXM2-16GB", "fp32", 10.6, 720),
        ("Tesla T4", "fp16", 65, 320),
        ("NVIDIA GeForce RTX 3090", "fp16", 71.2, 936),
        ("NVIDIA GeForce RTX 4090", "fp8", 330.3, 1008),
        ("NVIDIA GeForce RTX 4090", "fp16", 165.2, 1008),
        ("NVIDIA GeForce RTX 2080 Ti", "fp16", 53.8, 616),
        ("NVIDIA TITAN RTX", "fp16", 130.5, 672),
        ("NVIDIA GeForce RTX 5090", "fp32", 104.8, 1792),
        ("NVIDIA GeForce GTX 1080 Ti", "fp32", 11.3, 484),
        ("NVIDIA L40S", "fp8", 733, 864),
    ],
)
def test_published_numbers(name: str, precision: str, peak: float, memory: float) -> None:
    rates = load().gpu_rates(name)
    assert rates is not None
    assert rates.peak(precision) == pytest.approx(peak, rel=0.005)
    assert rates.memory_gbs == memory


@pytest.mark.parametrize(
    "name",
    ["NVIDIA GeForce RTX 4090 Laptop GPU", "NVIDIA A100-SXM4-40GB MIG 1g.5gb", "GRID A100-10C", "NVIDIA A100", "Orin (nvgpu)", "AMD Instinct MI300X", ""],
)
def test_other_boards_have_no_peak(name: str) -> None:
    assert load().gpu_rates(name) is None


@pytest.mark.parametrize(("name", "precision"), [("NVIDIA GeForce GTX 1080", "fp16"), ("Tesla T4", "bf16"), ("NVIDIA GeForce RTX 3090", "fp8"), ("Tesla T4", "int4")])
def test_what_a_card_does_not_have_has_no_rate(name: str, precision: str) -> None:
    rates = load().gpu_rates(name)
    assert rates is not None and rates.peak(precision) is None


def test_many_boards_from_pascal_to_blackwell() -> None:
    matrix = load()
    rates = matrix.names.rates
    architectures = {matrix.gpu(r.name).architecture for r in rates.values()}
    assert len(rates) >= 100
    assert {"Pascal", "Volta", "Turing", "Ampere", "Ada", "Hopper", "Blackwell"} <= architectures


def test_lanes() -> None:
    assert link_rate(4, 16) == pytest.approx(31.5, rel=0.01)
    assert link_rate(3, 4) == pytest.approx(3.94, rel=0.01)
    assert link_rate(None, 16) is None
    assert link_rate(4, None) is None


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ("NVIDIA GeForce RTX 3090,82,1695,35.58", "NVIDIA GeForce RTX 3090,82,1695,53.58", "fp32"),
        ("NVIDIA GeForce RTX 3090,82,1695", "NVIDIA GeForce RTX 3090,28,1695", "fp32"),
        ("NVIDIA A100-SXM4-80GB,108,1410,19.5,156,312,312", "NVIDIA A100-SXM4-80GB,108,1410,19.5,312,312,312", "tf32"),
        ("NVIDIA A100-SXM4-80GB,108,1410,19.5,156,312,312", "NVIDIA A100-SXM4-80GB,108,1410,19.5,156,312,624", "bf16"),
        ("NVIDIA L4,58,2040,30.3,60,121,121,242", "NVIDIA L4,58,2040,30.3,60,121,121,485", "fp8"),
        ("Tesla T4,40,1590,8.1,,65,", "Tesla T4,40,1590,8.1,,65,65", "bf16"),
        ("Tesla T4,", "Tesla T5,", "name"),
        ("Tesla T4,40", "Tesla T4,", "sms"),
        (",3,16,", ",3,12,", "pcie_lanes"),
        ("Tesla T4,40,1590,8.1", "Tesla T4,40,1590,fast", "fp32"),
    ],
)
def test_a_slip_is_noticed(tmp_path: Path, old: str, new: str, field: str) -> None:
    shutil.copytree(directory("matrices"), tmp_path / "m")
    table = tmp_path / "m" / "gpu_rates.csv"
    text = table.read_text()
    assert old in text
    table.write_text(text.replace(old, new, 1))
    found = [str(e) for e in problems(Tables(tmp_path / "m"))]
    assert any("gpu_rates.csv" in e and f"'{field}'" in e for e in found), found


def test_sound_as_it_is() -> None:
    assert not [e for e in problems(Tables(directory("matrices"))) if "gpu_rates" in str(e)]
    assert all(r.peak(p) is None or r.peak(p) > 0 for r in load().names.rates.values() for p in PRECISIONS)
