"""Every driver branch x every GPU generation, single and in pairs, x platforms x Pythons, against the oracle."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator

import pytest

from envcheck.facts import Apple, Facts, Nvidia, NvidiaGpu, PythonEnv, System
from envcheck.matrix import Matrix, load
from envcheck.recommend import Plan, Wishes, plan
from tests.recommend import oracle

GENERATIONS = {
    "GeForce GTX 680": "3.0", "Tesla K40m": "3.5", "Tesla K80": "3.7", "GeForce GTX 750 Ti": "5.0", "Tesla M60": "5.2",
    "Tesla P100-PCIE-16GB": "6.0", "NVIDIA GeForce GTX 1080": "6.1", "Tesla V100-SXM2-16GB": "7.0", "Tesla T4": "7.5",
    "NVIDIA A100-SXM4-40GB": "8.0", "NVIDIA GeForce RTX 3090": "8.6", "NVIDIA GeForce RTX 4090": "8.9",
    "NVIDIA H100 80GB HBM3": "9.0", "NVIDIA B200": "10.0", "NVIDIA B300": "10.3", "NVIDIA GeForce RTX 5090": "12.0",
    "NVIDIA GB10": "12.1",
}  # fmt: skip
PYTHONS = ("3.9", "3.10", "3.11", "3.12", "3.13", "3.14", "3.15", "3.13t", "3.14t", "3.15t")
BRANCHES = [row for row in oracle.rows("driver_branches") if int(row["branch"]) >= 450]
LINUX = ["450.51.06", "450.80.02", "525.60.11", "525.60.13", *(f"{row['branch']}.230.02" for row in BRANCHES)]
WINDOWS = ["452.06", "452.39", "527.00", "528.33", *(f"{row['windows_to']}.90" for row in BRANCHES if row["windows_to"])]
PLATFORMS = (("linux", "x86_64", LINUX), ("windows", "x86_64", WINDOWS), ("linux", "aarch64", LINUX))


def facts_of(names: tuple[str, ...], case: oracle.Machine) -> Facts:
    gpus = tuple(NvidiaGpu(index=i, name=name, compute_capability=GENERATIONS[name]) for i, name in enumerate(names))
    return Facts(
        origin="described",
        system=System(os=case.os, machine=case.arch),
        nvidia=Nvidia(gpus=gpus, driver_version=case.driver),
        python=PythonEnv(version=case.python.rstrip("t"), free_threaded=case.python.endswith("t")),
    )


def check(made: Plan, case: oracle.Machine, found: set[tuple[str, str]], label: str) -> None:
    if not found:
        assert made.status == "impossible", f"{label}: {made.torch} {made.variant} does not run there"
        assert made.blockers and all(blocker.text for blocker in made.blockers), label
        for other in made.alternatives:
            assert other.condition, f"{label}: an alternative without its condition"
        return
    assert made.status == "ok", f"{label}: {[b.text for b in made.blockers]}, yet {sorted(found)[-3:]} run"
    assert (made.torch, made.variant) in found, f"{label}: {made.torch} {made.variant} does not run there"
    assert made.torch == oracle.newest(found), f"{label}: {made.torch} although {oracle.newest(found)} runs"
    published(made, case, label)


def published(made: Plan, case: oracle.Machine, label: str) -> None:
    """The pair is right and the source is a real one."""
    row = oracle.releases()[made.torch or ""]
    assert made.torchvision == row["torchvision"], label
    wheel = oracle.wheel_rows().get((made.torch or "", case.os, case.arch))
    on_pypi = wheel is not None and wheel["variant"] == made.variant
    expected = None if on_pypi or case.os == "macos" else f"https://download.pytorch.org/whl/{made.variant}"
    assert made.index_url == expected, f"{label}: {made.index_url} instead of {expected}"
    words = made.commands[-1]
    assert f"torch=={made.torch}" in words and f"torchvision=={made.torchvision}" in words, words
    assert (expected or "download.pytorch.org") in words or expected is None, words
    assert expected is not None or "index-url" not in words, words


def singles(os: str, arch: str, drivers: list[str]) -> Iterator[tuple[tuple[str, ...], oracle.Machine]]:
    for name, driver, python in itertools.product(GENERATIONS, drivers, PYTHONS):
        yield (name,), oracle.Machine(os, arch, python, (GENERATIONS[name],), driver)


def pairs(os: str, arch: str, drivers: list[str]) -> Iterator[tuple[tuple[str, ...], oracle.Machine]]:
    """Each pair with each driver; the Pythons take turns, so that all meet all over the grid."""
    turn = itertools.cycle(PYTHONS)
    for names, driver in itertools.product(itertools.combinations(GENERATIONS, 2), drivers):
        yield names, oracle.Machine(os, arch, next(turn), tuple(GENERATIONS[name] for name in names), driver)


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return load()


@pytest.mark.parametrize("grid", [singles, pairs], ids=["single cards", "mixed pairs"])
@pytest.mark.parametrize("place", PLATFORMS, ids=lambda place: f"{place[0]} {place[1]}")
def test_every_plan_runs_and_none_newer_does(grid, place: tuple[str, str, list[str]], matrix: Matrix) -> None:
    started, count, possible = time.process_time(), 0, 0
    for names, case in grid(*place):
        found = oracle.possible(case)
        check(plan(facts_of(names, case), matrix), case, found, f"{names} {case}")
        count += 1
        possible += bool(found)
    seconds = time.process_time() - started
    assert count > 2500 and possible > 100, f"the grid has {count} machines, {possible} of them possible"
    assert seconds < count / 100, f"{count} machines took {seconds:.0f} s"


def test_the_oracle_knows_the_difference() -> None:
    """The grid would notice: a build too new for the driver, and one without code, are no answers of the oracle."""
    old = oracle.Machine("linux", "x86_64", "3.12", ("8.9",), "535.183.01")
    assert ("2.14.1", "cu126") in oracle.possible(old) and ("2.14.1", "cu130") not in oracle.possible(old)
    volta = oracle.Machine("linux", "x86_64", "3.12", ("7.0",), "580.95.05")
    assert ("2.10.0", "cu128") in oracle.possible(volta) and ("2.11.0", "cu128") not in oracle.possible(volta)
    assert not oracle.possible(oracle.Machine("linux", "x86_64", "3.12", ("7.0",), "595.45.04"))
    kepler = oracle.Machine("linux", "x86_64", "3.11", ("3.7",), "470.256.02")
    assert oracle.newest(oracle.possible(kepler)) == "2.3.1"
    mixed = oracle.Machine("linux", "x86_64", "3.12", ("12.0", "7.0"), "580.95.05")
    assert oracle.newest(oracle.possible(mixed)) == "2.10.0"
    orin = oracle.Machine("linux", "aarch64", "3.12", ("8.7",), None)
    assert {variant for release, variant in oracle.possible(orin) if release == "2.14.1"} == {"cu132"}


@pytest.mark.parametrize(("os", "arch"), [("linux", "x86_64"), ("linux", "aarch64"), ("windows", "x86_64")])
@pytest.mark.parametrize("python", [*PYTHONS, "3.8", "3.16"])
def test_without_a_gpu(os: str, arch: str, python: str, matrix: Matrix) -> None:
    case = oracle.Machine(os, arch, python)
    facts = Facts(
        origin="described",
        system=System(os=os, machine=arch),
        nvidia=Nvidia(gpus=()),
        python=PythonEnv(version=python.rstrip("t"), free_threaded=python.endswith("t")),
    )
    check(plan(facts, matrix), case, oracle.possible_elsewhere(case, "cpu"), str(case))


@pytest.mark.parametrize("arch", ["arm64", "x86_64"])
@pytest.mark.parametrize("python", [*PYTHONS, "3.8"])
@pytest.mark.parametrize("release", ["11.7", "12.2", "12.7", "13.6", "14.0", "15.1", "26.0"])
def test_macos(arch: str, python: str, release: str, matrix: Matrix) -> None:
    case = oracle.Machine("macos", arch, python, os_version=release)
    facts = Facts(
        origin="described",
        system=System(os="macos", machine=arch, version=release),
        apple=Apple(macos=release),
        python=PythonEnv(version=python.rstrip("t"), free_threaded=python.endswith("t")),
    )
    found = oracle.possible_elsewhere(case, "macos")
    made = plan(facts, matrix)
    if arch == "x86_64":
        assert all(version <= (2, 2, 2) for version in map(oracle.version, {release for release, _ in found}))
    check(made, case, found, str(case))


@pytest.mark.parametrize("gfx", ["gfx906", "gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1151", "gfx1201", "gfx803", "gfx1031"])
@pytest.mark.parametrize("python", ["3.9", "3.12", "3.14t"])
def test_rocm(gfx: str, python: str, matrix: Matrix) -> None:
    from envcheck.facts import Amd, AmdGpu

    facts = Facts(
        origin="described",
        system=System(os="linux", machine="x86_64"),
        nvidia=Nvidia(gpus=()),
        amd=Amd(gpus=(AmdGpu(gfx=gfx),)),
        python=PythonEnv(version=python.rstrip("t"), free_threaded=python.endswith("t")),
    )
    found = set()
    for build in oracle.builds("linux", "x86_64"):
        if not build["variant"].startswith("rocm"):
            continue
        rocm, line = oracle.version(build["variant"]), oracle.version(build["release"])[:2]
        listed = [
            row["gfx"].split()
            for row in oracle.rows("rocm_archs")
            if oracle.version(row["torch_from"]) <= line
            and (not row["torch_to"] or line <= oracle.version(row["torch_to"]))
            and oracle.version(row["rocm_from"]) <= rocm
            and rocm[: len(oracle.version(row["rocm_to"]))] <= oracle.version(row["rocm_to"])
        ]
        wheel = oracle.has_wheel(build["release"], build["pythons"], "linux", "x86_64", python)
        if listed and gfx in listed[0] and wheel and oracle.has_vision(build["release"], python):
            found.add((build["release"], build["variant"]))
    made = plan(facts, matrix)
    check(made, oracle.Machine("linux", "x86_64", python), found, f"{gfx} {python}")
    if gfx == "gfx1031":
        overridden = [other for other in made.alternatives if "HSA_OVERRIDE_GFX_VERSION=10.3.0" in other.condition]
        assert overridden and "not support" in overridden[0].condition


def test_stable_is_settled_and_advertised(matrix: Matrix) -> None:
    """--prefer stable: patched once or three months old, and on the install page; never older than it has to be."""
    checked = matrix.checked
    for name, driver, python in itertools.product(GENERATIONS, LINUX[::3], ("3.11", "3.13")):
        case = oracle.Machine("linux", "x86_64", python, (GENERATIONS[name],), driver)
        made = plan(facts_of((name,), case), matrix, Wishes(prefer="stable"))
        advertised = {(b["release"], b["variant"]) for b in oracle.builds("linux", "x86_64") if b["status"] == "advertised"}
        found = {
            pair for pair in oracle.possible(case) & advertised
            if oracle.version(pair[0])[2:] or _days(oracle.releases()[pair[0]]["released"], checked) >= 90
        }  # fmt: skip
        if found:
            assert (made.torch, made.variant) in found and made.torch == oracle.newest(found), (case, made.torch)


def _days(earlier: str, later: str) -> int:
    from datetime import date

    return (date.fromisoformat(later) - date.fromisoformat(earlier)).days
