"""Whether a build runs on a GPU: facts with their source in the id, and the rules behind them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envcheck.matrix import Matrix
from envcheck.matrix.coverage import coverage

# source, release, variant, os, machine, compute capability, kind, by
FACTS = [
    ("torch 2.14.1 RELEASE.md: V100 only in cu126", "2.14.1", "cu126", "linux", "x86_64", "7.0", "sass", "sm_70"),
    ("PyPI torch 2.14.1 wheel: cu130 begins at sm_75", "2.14.1", "cu130", "linux", "x86_64", "7.0", "none", None),
    ("GTX 1080 on Linux cu126 by sm_60", "2.14.1", "cu126", "linux", "x86_64", "6.1", "sass", "sm_60"),
    ("GTX 1080 on Windows cu126 by its own code", "2.14.1", "cu126", "windows", "x86_64", "6.1", "sass", "sm_61"),
    ("RTX 5090 not in cu126", "2.14.1", "cu126", "linux", "x86_64", "12.0", "none", None),
    ("RTX 4090 on sm_86: no wheel has sm_89", "2.14.1", "cu130", "linux", "x86_64", "8.9", "sass", "sm_86"),
    ("Orin before the SBSA unification of CUDA 13.2", "2.14.1", "cu130", "linux", "aarch64", "8.7", "none", None),
    ("Orin from CUDA 13.2 on", "2.15.0", "cu132", "linux", "aarch64", "8.7", "sass", "sm_80"),
    ("Thor in the server wheel", "2.14.1", "cu130", "linux", "aarch64", "11.0", "sass", "sm_110"),
    ("H100 before torch 2.0 cu118", "1.13.1", "cu117", "linux", "x86_64", "9.0", "none", None),
    ("H100 from torch 2.0 cu118 on", "2.0.0", "cu118", "linux", "x86_64", "9.0", "sass", "sm_90"),
    ("GB10 on sm_120", "2.14.1", "cu130", "linux", "aarch64", "12.1", "sass", "sm_120"),
    ("B300 on sm_100", "2.14.1", "cu130", "linux", "x86_64", "10.3", "sass", "sm_100"),
    ("P100 not in cu128 of 2.8.0", "2.8.0", "cu128", "linux", "x86_64", "6.0", "none", None),
    ("V100 in cu128 of 2.8.0 (PyPI wheel)", "2.8.0", "cu128", "linux", "x86_64", "7.0", "sass", "sm_70"),
    ("V100 gone from cu128 in 2.11.0", "2.11.0", "cu128", "linux", "x86_64", "7.0", "none", None),
    ("K80 in cu118 up to 2.7", "2.7.1", "cu118", "linux", "x86_64", "3.7", "sass", "sm_37"),
    ("K80 in no CUDA 12 build", "2.7.1", "cu126", "linux", "x86_64", "3.7", "none", None),
    ("K40 in wheels up to 1.3.1 (pytorch/builder)", "1.3.1", "cu101", "linux", "x86_64", "3.5", "sass", "sm_35"),
    (
        "K40 out of wheels from 1.4.0 on, and compute_37 is too new",
        "1.4.0",
        "cu101",
        "linux",
        "x86_64",
        "3.5",
        "none",
        None,
    ),
    ("A100 with cu102 of 1.7.1: newer than all code, no PTX", "1.7.1", "cu102", "linux", "x86_64", "8.0", "none", None),
    ("RTX 3090 with cu110 of 1.7.1 by sm_80", "1.7.1", "cu110", "linux", "x86_64", "8.6", "sass", "sm_80"),
    ("unknown PTX can only be of the listed architectures", "2.13.0", "cu129", "linux", "x86_64", "6.0", "none", None),
    ("unknown PTX may help a newer GPU", "2.13.0", "cu129", "linux", "x86_64", "13.0", "unknown", None),
]


@pytest.mark.parametrize(
    ("release", "variant", "os", "machine", "cc", "kind", "by"), [f[1:] for f in FACTS], ids=[f[0] for f in FACTS]
)
def test_builds_on_gpus(
    matrix: Matrix, release: str, variant: str, os: str, machine: str, cc: str, kind: str, by: str | None
) -> None:
    archs = matrix.arch_list(release, variant, os, machine)
    assert archs is not None
    found = matrix.coverage(archs, cc)
    assert (found.kind, found.by) == (kind, by), found.reason
    assert found.runs is {"sass": True, "none": False, "unknown": None}[kind]


RULES = [
    # names, capability, build CUDA, driver CUDA, kind, by
    (["sm_80"], "8.0", None, None, "sass", "sm_80"),
    (["sm_80", "sm_86"], "8.9", None, None, "sass", "sm_86"),
    (["sm_86"], "8.0", None, None, "none", None),
    (["sm_87"], "8.9", None, None, "none", None),  # Tegra code runs on Tegra alone
    (["sm_50"], "5.3", "12.6", None, "none", None),
    (["sm_60"], "6.2", "12.6", None, "none", None),
    (["sm_70"], "7.2", "12.6", None, "none", None),
    (["sm_70"], "7.2", "13.2", None, "sass", "sm_70"),
    (["sm_100"], "10.1", "13.2", None, "none", None),
    (["sm_101"], "11.0", "12.8", None, "sass", "sm_101"),
    (["sm_110"], "10.1", "13.0", None, "sass", "sm_110"),
    (["sm_110"], "12.0", "13.0", None, "none", None),
    (["sm_80"], "8.7", None, None, "unknown", "sm_80"),
    (["sm_90a"], "9.0", None, None, "sass", "sm_90a"),
    (["sm_100a"], "10.3", None, None, "none", None),
    (["sm_100f"], "10.3", None, None, "sass", "sm_100f"),
    (["sm_100f"], "12.0", None, None, "none", None),
    (["sm_50", "compute_50"], "8.6", "9.0", "11.4", "ptx", "compute_50"),
    (["sm_90", "compute_90"], "12.0", "12.8", "12.6", "ptx-driver-too-old", "compute_90"),
    (["sm_90", "compute_90"], "8.0", "12.8", "12.8", "none", None),
    (["sm_90", "compute_90"], "12.0", "12.8", None, "unknown", "compute_90"),
    (["sm_90", "compute_90"], "12.0", None, "12.8", "unknown", "compute_90"),
    (["compute_90a"], "12.0", "12.8", "12.8", "none", None),
    ([], "8.6", None, None, "none", None),
    (["gfx1100"], "8.6", None, None, "none", None),
    (["sm_86"], "new", None, None, "unknown", None),
]


@pytest.mark.parametrize(("names", "cc", "build", "driver", "kind", "by"), RULES)
def test_rules(names: list[str], cc: str, build: str | None, driver: str | None, kind: str, by: str | None) -> None:
    found = coverage(names, cc, build_cuda=build, driver_cuda=driver)
    assert (found.kind, found.by) == (kind, by), found.reason


def test_a_driver_that_drives_the_gpu_knows_its_first_cuda(matrix: Matrix) -> None:
    """A 3090 needs CUDA 11.1, so any driver under it compiles PTX of CUDA 10.2."""
    assert matrix.coverage(["sm_75", "compute_37"], "8.6", build_cuda="10.2").kind == "ptx"
    assert matrix.coverage(["sm_75", "compute_75"], "8.6", build_cuda="12.8").kind == "unknown"


def test_an_unknown_build_is_unknown(matrix: Matrix) -> None:
    assert matrix.coverage(None, "8.6").kind == "unknown"


@given(st.lists(st.text(max_size=12), max_size=6), st.text(max_size=6), st.text(max_size=6))
def test_nothing_breaks_it(names: list[str], cc: str, cuda: str) -> None:
    coverage(names, cc, build_cuda=cuda, driver_cuda=cuda)


@given(
    st.sampled_from(["5.0", "6.1", "7.0", "7.5", "8.6", "8.9", "9.0", "10.3", "12.1"]),
    st.lists(st.sampled_from(["sm_50", "sm_60", "sm_70", "sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120"])),
)
def test_more_code_never_runs_on_less(cc: str, names: list[str]) -> None:
    one = [coverage([name], cc).runs for name in names]
    assert coverage(names, cc).runs is any(one)
