"""Releases, wheels, variants, companions and the platforms beside them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envcheck.matrix import Matrix, load
from envcheck.matrix.choose import fits
from envcheck.matrix.conda import build_cuda
from envcheck.matrix.versions import capability, cuda_of_variant, final, numbers, short, variant_of_cuda


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("2.8.0", "2.8.0"),
        ("2.8.0+cu128", "2.8.0"),
        ("2.8", "2.8.0"),
        ("2.5", "2.5.1"),
        ("1.0.1.post2", "1.0.1"),
        ("2.8.0a0+git1234567", None),
        ("2.9.0.dev20250801+cu128", None),
        ("2.6.0a0+ecf3bae40a.nv25.01", None),
        ("2.8.0rc1", None),
        ("9.9.9", None),
        ("", None),
    ],
)
def test_releases_by_any_spelling(matrix: Matrix, asked: str, found: str | None) -> None:
    release = matrix.release(asked)
    assert (release.version if release else None) == found


@pytest.mark.parametrize(
    ("version", "newer"),
    [("2.15.0", False), ("2.15.1", True), ("2.16.0.dev20261101", True), ("1.13.1", False), ("", False)],
)
def test_newer_than_the_tables(matrix: Matrix, version: str, newer: bool) -> None:
    assert matrix.is_newer_than_tables(version) is newer


@pytest.mark.parametrize(
    ("version", "os", "machine", "variant"),
    [
        ("2.14.1", "linux", "x86_64", "cu130"),
        ("2.15.0", "linux", "x86_64", "cu132"),
        ("2.15.0", "linux", "aarch64", "cu132"),
        ("2.10.0", "linux", "aarch64", "cpu"),
        ("2.11.0", "linux", "aarch64", "cu130"),
        ("2.6.0", "linux", "x86_64", "cu124"),
        ("2.14.1", "windows", "x86_64", "cpu"),
        ("2.14.1", "macos", "arm64", "mps"),
        ("2.2.2", "macos", "x86_64", "cpu"),
        ("2.3.0", "macos", "x86_64", None),
        ("1.4.0", "linux", "x86_64", "cu101"),
        ("1.5.0", "linux", "x86_64", "cu102"),
        ("1.7.1", "linux", "x86_64", "cu102"),
        ("1.2.0", "linux", "x86_64", "cu100"),
        ("1.1.0", "linux", "x86_64", "cu90"),
        ("1.6.0", "windows", "x86_64", None),
        ("1.8.2", "linux", "x86_64", None),
        ("9.9.9", "linux", "x86_64", None),
    ],
)
def test_what_plain_pip_gives(matrix: Matrix, version: str, os: str, machine: str, variant: str | None) -> None:
    assert matrix.pypi_variant(version, os, machine) == variant


def test_pythons_differ_by_platform(matrix: Matrix) -> None:
    assert "3.13" in matrix.pythons("2.5.1", "linux", "x86_64")
    assert "3.13" not in matrix.pythons("2.5.1", "windows", "x86_64")
    assert matrix.pythons("2.15.0", "linux", "x86_64")[-2:] == ("3.15", "3.15t")
    assert matrix.pythons("2.8.0", "linux", "x86_64", "cu777") == ()
    assert matrix.pythons("9.9.9", "linux", "x86_64") == ()


@pytest.mark.parametrize(
    ("variant", "version", "url"),
    [
        ("cu128", None, "https://download.pytorch.org/whl/cu128"),
        ("cu128", "2.8.0", "https://download.pytorch.org/whl/cu128"),
        ("cu128", "2.6.0", None),
        ("rocm6.4", "2.8.0", "https://download.pytorch.org/whl/rocm6.4"),
        ("xpu", "2.8.0", "https://download.pytorch.org/whl/xpu"),
        ("cpu", "2.8.0", "https://download.pytorch.org/whl/cpu"),
        ("mps", "2.8.0", None),
        ("cu110", "1.7.1", None),  # before 1.8: a page for `pip install -f`
        ("cu111", "1.8.2", "https://download.pytorch.org/whl/lts/1.8/cu111"),
        ("../evil", None, None),
    ],
)
def test_index_urls(matrix: Matrix, variant: str, version: str | None, url: str | None) -> None:
    assert matrix.index_url(variant, version) == url


def test_old_releases_are_on_a_page(matrix: Matrix) -> None:
    build = matrix.variant("1.7.1", "cu110", "linux", "x86_64")
    assert build is not None
    assert build.find_links == "https://download.pytorch.org/whl/torch_stable.html"


def test_a_release_at_a_glance(matrix: Matrix) -> None:
    found = matrix.release("2.12.1")
    assert found is not None
    assert (found.python_min, found.python_max, found.free_threaded) == ("3.10", "3.14", ("3.14t",))
    assert (found.cudnn, found.nccl, found.triton_linux) == ("9.20.0.48", "2.29.7", "3.7.1")
    assert (found.setuptools_req, found.glibc_x86_64, found.mps_min_macos) == ("<82", "2.28", "14.0")
    assert found.numpy2 == {"linux": True, "macos": True, "windows": True}
    old = matrix.release("2.4.0")
    assert old is not None
    assert old.numpy2 == {"linux": True, "macos": True, "windows": False}


@pytest.mark.parametrize(
    ("torch", "package", "version", "answer"),
    [
        ("2.8.0", "torchvision", "0.23.0+cu128", True),
        ("2.8.0", "torchvision", "0.22.1", False),
        ("2.14.1", "torchvision", "0.29.1", True),
        ("2.14.1", "torchvision", "0.29.2", True),
        ("2.13.0", "torchvision", "0.29.2", False),
        ("2.8.0", "torchvision", "0.99.0", None),
        ("2.8.0", "torchvision", "0.23.0a0+abc", None),
        ("1.10.0", "torchvision", "0.11.0", True),  # pins torch==1.10.0+cu102
        ("2.13.0", "torchaudio", "2.11.0", True),
        ("2.5.1", "torchaudio", "2.11.0", False),
        ("2.8.0", "torchaudio", "2.8.0", True),
        ("2.8.0", "triton", "3.4.0", True),
        ("2.8.0", "triton", "3.3.1", False),
        ("2.14.1", "triton", "3.8.4", True),
        ("1.13.1", "triton", "2.0.0", None),
        ("1.7.1", "torchvision", "0.8.2", True),
        ("1.0.1", "torchvision", "0.2.2", True),
    ],
)
def test_companions(matrix: Matrix, torch: str, package: str, version: str, answer: bool | None) -> None:
    assert matrix.companions(torch)[package].accepts(version) is answer


def test_every_recommended_companion_is_accepted(matrix: Matrix) -> None:
    for release in matrix.releases:
        for companion in matrix.companions(release.version).values():
            if companion.version and companion.version[0].isdigit():
                assert companion.accepts(companion.version) is True, (release.version, companion.package)


@pytest.mark.parametrize(
    ("package", "version", "torch"),
    [
        ("torchvision", "0.20.1", "2.5.1"),
        ("torchvision", "0.29.1", "2.14.1"),
        ("torchvision", "0.11.0", "1.10.0"),
        ("torchaudio", "2.8.0+cu128", "2.8.0"),
        ("torchaudio", "2.11.0", "2.14.1"),
        ("triton", "3.4.0", "2.8.0"),
        ("triton", "3.8.1", "2.14.1"),
        ("torchvision", "9.9", None),
        ("torchtext", "0.18.0", None),
    ],
)
def test_the_torch_of_a_companion(matrix: Matrix, package: str, version: str, torch: str | None) -> None:
    assert matrix.torch_for_companion(package, version) == torch


def test_what_the_wheel_asks_for(matrix: Matrix) -> None:
    wanted = {r.package: r for r in matrix.requires("2.14.1", "linux", "x86_64")}
    assert wanted["nvidia-cudnn-cu13"].specifier == "==9.24.0.43"
    assert "cublas" in wanted["cuda-toolkit"].extras
    assert matrix.requires("9.9.9", "linux", "x86_64") == ()


@pytest.mark.parametrize(
    ("cc", "cudnn", "answer"),
    [
        ("7.0", "9.10.2.21", True),
        ("7.0", "9.11.0", False),
        ("7.5", "9.24.0", True),
        ("3.7", "8.9.2", True),
        ("3.7", "9.1.0", False),
        ("3.7", "7.6.5", True),
        ("7.0", "6.0", None),
        ("", "9.1", None),
    ],
)
def test_cudnn_floors(matrix: Matrix, cc: str, cudnn: str, answer: bool | None) -> None:
    assert matrix.cudnn_floor_ok(cc, cudnn) is answer


@pytest.mark.parametrize(
    ("l4t", "jetpack", "cuda"),
    [("36.4.3", "6.2", "12.6"), ("R35.4.1", "5.1.2", "11.4"), ("32.7.1", "4.6.1", "10.2"), ("39.2", "7.2", "13.2")],
)
def test_jetpacks(matrix: Matrix, l4t: str, jetpack: str, cuda: str) -> None:
    found = matrix.jetpack(l4t)
    assert found is not None
    assert (found.version, found.cuda) == (jetpack, cuda)


@pytest.mark.parametrize("l4t", ["99.1", "", "N/A", "31.0"])
def test_unknown_jetpacks(matrix: Matrix, l4t: str) -> None:
    assert matrix.jetpack(l4t) is None


@pytest.mark.parametrize(
    ("torch", "rocm", "gfx", "has"),
    [
        ("2.8.0", "6.4", "gfx1201", True),
        ("2.5.1", "6.2", "gfx1201", False),
        ("2.14.1", "7.14", "gfx1103", True),
        ("2.13.0", "7.2", "gfx1151", True),
        ("1.12.1", "5.1.1", "gfx1030", True),
        ("1.12.1", "5.1.1", "gfx1031", False),
    ],
)
def test_rocm_builds(matrix: Matrix, torch: str, rocm: str, gfx: str, has: bool) -> None:
    found = matrix.rocm_gfx(torch, rocm)
    assert found is not None
    assert (gfx in found) is has
    assert matrix.rocm_gfx("9.9", "1.0") is None


def test_conda_channels(matrix: Matrix) -> None:
    assert matrix.conda_newest("pytorch", "linux", "x86_64") == "2.5.1"
    assert matrix.conda_cuda("pytorch", "2.5.1", "linux", "x86_64") == ("", "11.8", "12.1", "12.4")
    assert matrix.conda_cuda("conda-forge", "2.13.0", "windows", "x86_64") == ("", "12.8", "13.0")
    assert matrix.conda_cuda("conda-forge", "9.9.9", "linux", "x86_64") == ()


@pytest.mark.parametrize(
    ("build", "cuda"),
    [
        ("py3.9_cuda11.8_cudnn8.7.0_0", "11.8"),
        ("py3.6_cuda9.0.176_cudnn7.4.1_1", "9.0"),
        ("cuda129_mkl_py312h1234567_300", "12.9"),
        ("cuda102py38_0", "10.2"),
        ("gpu_cuda118py311h_0", "11.8"),
        ("py3.9_cpu_0", ""),
        ("cpu_generic_py312_0", ""),
        ("h1234567_0", None),
    ],
)
def test_conda_build_strings(build: str, cuda: str | None) -> None:
    assert build_cuda(build) == cuda


def test_known_bad_versions_need_their_conditions(matrix: Matrix) -> None:
    bad = matrix.known_bad
    assert [b.id for b in bad("numpy", "2.1.0", torch="2.2.2", os="linux")] == ["numpy2-unix"]
    assert [b.id for b in bad("numpy", "2.1.0", torch="2.3.0", os="windows")] == ["numpy2-windows"]
    assert bad("numpy", "2.1.0", torch="2.3.0", os="linux") == ()
    assert bad("numpy", "1.26.4", torch="2.2.2", os="linux") == ()
    assert bad("numpy", "2.1.0", os="linux") == ()
    assert [b.id for b in bad("setuptools", None, torch="2.2.0", python="3.12.1")] == ["setuptools-missing"]
    assert bad("setuptools", "69.0", torch="2.2.0", python="3.12.1") == ()
    assert bad("numpy", "not a version", torch="2.2.2", os="linux") == ()


def test_triton_for_windows(matrix: Matrix) -> None:
    assert matrix.triton_windows("2.8.0+cu128") == "3.4"
    assert matrix.triton_windows("1.13.1") is None


@pytest.mark.parametrize(
    ("asked", "newest"),
    [
        ({"compute_capability": "6.0"}, "2.14.1"),
        ({"compute_capability": "3.7"}, "2.7.1"),
        ({"driver": "470.57.02"}, "2.7.1"),
        ({"driver": "535.183.01"}, "2.14.1"),
        ({"python": "3.9"}, "2.8.0"),
        ({"compute_capability": "12.0", "driver": "470.57.02"}, None),
    ],
)
def test_the_newest_sure_release_for_a_wish(matrix: Matrix, asked: dict[str, str], newest: str | None) -> None:
    found = fits(matrix, "linux", "x86_64", **asked)  # type: ignore[arg-type]
    sure = next((fit for fit in found if fit.sure), None)
    assert (sure.release.version if sure else None) == newest


def test_wsl_drivers_have_windows_numbers(matrix: Matrix) -> None:
    linux = {f.variant.name for f in fits(matrix, "linux", "x86_64", driver="527.56")}
    wsl = [
        f for f in fits(matrix, "linux", "x86_64", driver="527.56", driver_os="windows") if f.variant.name == "cu126"
    ]
    assert "cu126" in linux
    assert {f.driver for f in wsl} == {"doubtful"}


def test_version_helpers() -> None:
    assert numbers("535.183.01") == (535, 183, 1)
    assert numbers("garbage") == ()
    assert final("2.8.0.post1") == "2.8.0"
    assert short("12.8.1") == "12.8"
    assert (cuda_of_variant("cu92"), cuda_of_variant("cu128"), cuda_of_variant("cpu")) == ("9.2", "12.8", None)
    assert (variant_of_cuda("12.8.1"), variant_of_cuda("9.2")) == ("cu128", "cu92")
    assert (capability("sm_90a"), capability("compute_120"), capability("gfx90a")) == ("9.0", "12.0", None)


@given(st.text(max_size=30), st.text(max_size=12), st.text(max_size=12))
def test_nothing_breaks_it(version: str, os: str, machine: str) -> None:
    matrix = load()
    release = matrix.release(version)
    assert matrix.is_newer_than_tables(version) in (True, False)
    matrix.wheels(version, os, machine)
    matrix.pythons(version, os, machine, os)
    matrix.variants(version, os, machine)
    matrix.arch_list(version, os, machine, os)
    matrix.requires(version, os, machine)
    matrix.index_url(os, version)
    matrix.rocm_gfx(version, os)
    matrix.conda(version=version, os=os, machine=machine)
    assert bool(matrix.companions(version)) is (release is not None)
