"""Drivers: floors, branches and the numbers of Windows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envcheck.matrix import Matrix, load

RUNS = [
    # driver, CUDA of the build, system, answer
    ("535.183.01", "12.8", "linux", "yes"),
    ("418.67", "10.2", "linux", "no"),
    ("440.33.01", "10.2", "linux", "yes"),
    ("470.86", "12.1", "linux", "no"),
    ("470.86", "11.8", "linux", "yes"),
    ("450.80.02", "11.8", "linux", "yes"),
    ("450.51.06", "11.1", "linux", "no"),
    ("450.51.06", "11.0", "linux", "yes"),  # the toolkit 11.0 came with an older driver than the family's floor
    ("525.60.13", "12.9", "linux", "yes"),
    ("525.60.11", "12.9", "linux", "no"),
    ("570.133.07", "13.0", "linux", "no"),
    ("580.65.06", "13.2", "linux", "yes"),
    ("580", "13.9", "linux", "yes"),
    ("615.71.09", "12.6", "linux", "yes"),
    ("546.12", "12.1", "windows", "yes"),
    ("527.56", "12.1", "windows", "doubtful"),
    ("526.98", "12.1", "windows", "no"),
    ("452.39", "11.8", "windows", "yes"),
    ("451.82", "11.8", "windows", "no"),
    ("576.02", "13.0", "windows", "no"),
    ("581.15", "13.0", "windows", "yes"),
    ("398.00", "9.2.148", "windows", "no"),
    ("398.00", "9.2.88", "windows", "yes"),
    ("535.183.01", "14.0", "linux", None),
    ("", "12.8", "linux", None),
    ("N/A", "12.8", "linux", None),
]


@pytest.mark.parametrize(("driver", "cuda", "os", "answer"), RUNS)
def test_what_a_driver_runs(matrix: Matrix, driver: str, cuda: str, os: str, answer: str | None) -> None:
    assert matrix.driver_runs(driver, cuda, os) == answer


@pytest.mark.parametrize(
    ("cuda", "os", "floor"),
    [
        ("11.8", "linux", "450.80.02"),
        ("12.8", "linux", "525.60.13"),
        ("12.8.1", "linux", "525.60.13"),
        ("13.0", "linux", "580"),
        ("11.8", "windows", "452.39"),
        ("12.8", "windows", "528.33"),
        ("13.0", "windows", "580"),
        ("10.2", "linux", "440.33"),
        ("10.2.89", "linux", "440.33"),
        ("10.0.130", "linux", "410.48"),
        ("9.0.176", "linux", "384.81"),
        ("8.0", "windows", "369.30"),
        ("7.5", "linux", None),
        ("14.0", "linux", None),
        ("12.8", "macos", None),
        ("", "linux", None),
    ],
)
def test_floors(matrix: Matrix, cuda: str, os: str, floor: str | None) -> None:
    assert matrix.driver_floor(cuda, os) == floor


@pytest.mark.parametrize(
    ("driver", "os", "branch", "cuda"),
    [
        ("535.183.01", "linux", 535, "12.2"),
        ("418.67", "linux", 418, "10.1"),
        ("430.50", "linux", 430, "10.1"),
        ("610.57.04", "linux", 610, "13.3"),
        ("615.71.09", "linux", 615, "13.4"),
        ("546.12", "windows", 545, "12.3"),
        ("539.41", "windows", 535, "12.2"),
        ("472.12", "windows", 470, "11.4"),
        ("442.50", "windows", 440, "10.2"),
        ("592.82", "windows", 590, "13.1"),
        ("617.14", "windows", 615, "13.4"),
        ("999.10", "linux", 999, None),
        ("999.10", "windows", None, None),
        ("", "linux", None, None),
    ],
)
def test_branches(matrix: Matrix, driver: str, os: str, branch: int | None, cuda: str | None) -> None:
    assert (matrix.driver_branch(driver, os), matrix.driver_cuda(driver, os)) == (branch, cuda)


def test_every_toolkit_driver_shows_its_own_cuda(matrix: Matrix) -> None:
    for toolkit in matrix.tables.toolkits:
        for driver, os in ((toolkit.driver_linux, "linux"), (toolkit.driver_windows, "windows")):
            if driver:
                assert matrix.driver_cuda(driver, os) == toolkit.cuda, driver


def test_every_toolkit_driver_runs_its_own_cuda(matrix: Matrix) -> None:
    for toolkit in matrix.tables.toolkits:
        for driver, os in ((toolkit.driver_linux, "linux"), (toolkit.driver_windows, "windows")):
            if driver and toolkit.update != "RC":
                assert matrix.driver_runs(driver, toolkit.version or toolkit.cuda, os) == "yes", driver


@pytest.mark.parametrize(("cuda", "driver"), [("12.8", "570.26"), ("12.8.1", "570.124.06"), ("13.0", "580.65.06")])
def test_the_driver_of_a_toolkit(matrix: Matrix, cuda: str, driver: str) -> None:
    assert matrix.toolkit_driver(cuda, "linux") == driver


@given(st.text(max_size=20), st.text(max_size=10), st.sampled_from(["linux", "windows", "macos", "beos"]))
def test_nothing_breaks_it(driver: str, cuda: str, os: str) -> None:
    matrix = load()
    matrix.driver_runs(driver, cuda, os)
    matrix.driver_cuda(driver, os)
    matrix.driver_branch(driver, os)
    matrix.toolkit_driver(cuda, os)
