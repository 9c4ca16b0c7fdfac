"""What `recommend` plans, `doctor` must find healthy once it is installed; and what it rules out must not pass.

The two halves judge by the same tables through different code, so each is the other's check over thousands of machines.
"""

from __future__ import annotations

import itertools
from collections import Counter

import pytest

from envcheck.facts import (
    Distribution,
    Facts,
    Nvidia,
    NvidiaGpu,
    Outcome,
    PythonEnv,
    System,
    Torch,
)
from envcheck.matrix import Matrix, load
from envcheck.recommend import Wishes, plan
from envcheck.rules import RULES, evaluate

GPUS = {
    "Tesla K80": "3.7", "GeForce GTX 750 Ti": "5.0", "Tesla P100-PCIE-16GB": "6.0", "NVIDIA GeForce GTX 1080": "6.1",
    "Tesla V100-SXM2-16GB": "7.0", "Tesla T4": "7.5", "NVIDIA A100-SXM4-40GB": "8.0", "NVIDIA GeForce RTX 3090": "8.6",
    "NVIDIA GeForce RTX 4090": "8.9", "NVIDIA H100 80GB HBM3": "9.0", "NVIDIA B200": "10.0", "NVIDIA GeForce RTX 5090": "12.0",
}  # fmt: skip
DRIVERS = {
    "linux": ("450.248.02", "470.256.02", "525.147.05", "535.183.01", "550.127.08", "570.153.02", "580.95.05", "595.45.04", "610.43.02"),
    "windows": ("452.39", "472.12", "528.33", "537.70", "552.22", "566.36", "572.83", "581.15", "596.10", "610.62"),
}
PYTHONS = ("3.9", "3.10", "3.12", "3.13", "3.14")
WRONG_CODE = {"gpu-too-old-for-build", "gpu-too-new-for-build", "gpu-arch-not-in-build"}
OK = Outcome(status="ok")


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return load()


def machine(os: str, arch: str, driver: str, names: tuple[str, ...], python: str, driver_cuda: str | None) -> Facts:
    return Facts(
        system=System(os=os, machine=arch, container="none", wsl=0, libc="glibc" if os == "linux" else None, libc_version="2.35" if os == "linux" else None),
        pci=(),
        nvidia=Nvidia(
            smi=OK, driver_version=driver, driver_cuda=driver_cuda, kernel_module_loaded=True if os == "linux" else None,
            uvm_loaded=True if os == "linux" else None,
            gpus=tuple(NvidiaGpu(index=i, name=n, compute_capability=GPUS[n]) for i, n in enumerate(names)),
        ),
        python=PythonEnv(version=python + ".1" if python != "3.14" else "3.14.2", bits=64, machine=arch, implementation="CPython"),
        env=(),
    )  # fmt: skip


def installed(facts: Facts, matrix: Matrix, version: str, variant: str, torchvision: str | None) -> Facts:
    """That machine with that build on disk, not yet imported."""
    import msgspec

    row = matrix.variant(version, variant, facts.system.os, facts.system.machine)
    archs = matrix.arch_list(version, variant, facts.system.os, facts.system.machine)
    dists = [Distribution(name="torch", version=f"{version}+{variant}", manager="pip", site="env", location="/opt/venv/site-packages")]
    if torchvision:
        dists.append(Distribution(name="torchvision", version=f"{torchvision}+{variant}", manager="pip", site="env", location="/opt/venv/site-packages"))
    dists.append(Distribution(name="numpy", version="1.26.4", manager="pip", site="env", location="/opt/venv/site-packages"))
    return msgspec.structs.replace(
        facts,
        torch=Torch(
            version=f"{version}+{variant}", found=True, cuda=row.cuda or "", hip="", imports=OK,
            arch_list=(*archs.sass, *(archs.ptx or ())) if archs is not None else None,
        ),
        python=msgspec.structs.replace(facts.python, distributions=tuple(dists), distributions_partial=False),
    )  # fmt: skip


def cases():
    turn = itertools.cycle(PYTHONS)
    for os, arch in (("linux", "x86_64"), ("windows", "x86_64"), ("linux", "aarch64")):
        for driver in DRIVERS[os]:
            for names in (*((n,) for n in GPUS), *itertools.combinations(GPUS, 2)):
                yield os, arch, driver, names, next(turn)


def test_a_plan_that_was_followed_is_healthy(matrix: Matrix) -> None:
    followed = 0
    for os, arch, driver, names, python in cases():
        facts = machine(os, arch, driver, names, python, matrix.driver_cuda(driver, os))
        made = plan(facts, matrix, Wishes(companions=("torchvision",)))
        if made.status != "ok" or made.torch is None or not (made.variant or "").startswith("cu"):
            continue
        followed += 1
        report = evaluate(installed(facts, matrix, made.torch, made.variant or "", made.torchvision), matrix, RULES)
        alarms = [(f.rule, f.severity, f.seen) for f in report.findings if f.severity != "note"]
        assert alarms == [], (os, arch, driver, names, python, made.torch, made.variant)
    assert followed > 500


def test_a_build_that_cannot_run_is_never_healthy(matrix: Matrix) -> None:
    """Every release and CUDA variant against every GPU and driver: no code or no driver is an error, and only then."""
    judged: Counter[str] = Counter()
    releases = ("1.13.1", "2.3.1", "2.6.0", "2.8.0", "2.10.0", "2.14.1")
    for os in ("linux", "windows"):
        for version, name, driver in itertools.product(releases, GPUS, DRIVERS[os]):
            capability = GPUS[name]
            architecture = matrix.architecture(capability)
            branch = matrix.driver_branch(driver, os)
            if branch is None or not (architecture.min_driver_branch or 0) <= branch <= (architecture.last_driver_branch or 9999):
                continue  # that driver does not list that card
            for row in matrix.variants(version, os, "x86_64"):
                if not row.cuda or row.status == "unconfirmed":
                    continue
                archs = matrix.arch_list(version, row.name, os, "x86_64")
                if archs is None:
                    continue
                driver_cuda = matrix.driver_cuda(driver, os)
                runs = matrix.driver_runs(driver, row.cuda, os)
                code = matrix.coverage(archs, capability, build_cuda=row.cuda, driver_cuda=driver_cuda, machine="x86_64").kind
                facts = machine(os, "x86_64", driver, (name,), "3.11", driver_cuda)
                report = evaluate(installed(facts, matrix, version, row.name, None), matrix, RULES)
                errors = {f.rule for f in report.findings if f.severity == "error"}
                label = (os, version, row.name, name, driver, runs, code, errors)
                if runs == "no" or code == "none":
                    judged["broken"] += 1
                    assert ("driver-too-old" in errors) == (runs == "no"), label
                    assert bool(errors & WRONG_CODE) == (code == "none"), label
                elif runs == "yes" and code == "sass":
                    judged["fine"] += 1
                    assert not errors, label
    assert judged["broken"] > 800 and judged["fine"] > 1000, judged
