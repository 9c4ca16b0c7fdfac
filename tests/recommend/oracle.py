"""An independent answer to "which builds run on this machine?", by brute force over the rows of the tables.

It reads the CSV files itself and shares no code with the planner or the matrix: what both get wrong alike is a wrong row,
not a wrong program.
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

TABLES = Path(__file__).resolve().parents[2] / "matrices"
ORIN_LIKE = {"5.3": ("50", "52"), "6.2": ("60", "61"), "7.2": ("70",), "8.7": ("80", "86")}
LIFTED_BY_13_2 = {("7.2", "70"), ("8.7", "80"), ("8.7", "86")}


@dataclass(frozen=True)
class Machine:
    os: str
    arch: str
    python: str
    capabilities: tuple[str, ...] = ()
    driver: str | None = None
    os_version: str | None = None


@cache
def rows(name: str) -> list[dict[str, str]]:
    with (TABLES / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@cache
def version(text: str) -> tuple[int, ...]:
    found = [int(n) for n in re.findall(r"\d+", text)]
    while found and found[-1] == 0:
        found.pop()
    return tuple(found)


@cache
def releases() -> dict[str, dict[str, str]]:
    return {row["release"]: row for row in rows("torch_releases")}


@cache
def wheel_rows() -> dict[tuple[str, str, str], dict[str, str]]:
    return {(r["release"], r["os"], r["machine"]): r for r in rows("torch_wheels")}


@cache
def arch_rows() -> dict[tuple[str, str, str, str], dict[str, str]]:
    return {(r["release"], r["variant"], r["os"], r["machine"]): r for r in rows("torch_archs")}


@cache
def builds(os: str, arch: str) -> list[dict[str, str]]:
    """Published builds, newest release first."""
    found = [
        row
        for row in rows("torch_variants")
        if (row["os"], row["machine"]) == (os, arch)
        and row["status"] in ("advertised", "index-only")
        and row["confidence"] != "recalled"
        and version(row["release"]) >= (1, 8)
    ]
    return sorted(found, key=lambda row: version(row["release"]), reverse=True)


def cuda_of(variant: str) -> str:
    return f"{variant[2:-1]}.{variant[-1]}"


@cache
def floor(cuda: str, os: str) -> str | None:
    """Lowest driver; where sources disagree about it, the lower number."""
    for row in rows("cuda_floors"):
        if row["cuda_major"] == cuda.split(".")[0] and row["os"] == os:
            return row["warn_from"] or row["driver"]
    column = f"driver_{os}"
    shipped = [row[column] for row in rows("cuda_toolkits") if row["cuda"] == cuda and row[column]]
    return min(shipped, key=version) if shipped else None


@cache
def driver_cuda(driver: str, os: str) -> str | None:
    first = int(driver.split(".")[0])
    for row in rows("driver_branches"):
        low, high = (row["windows_from"], row["windows_to"]) if os == "windows" else (row["branch"], row["branch"])
        if low and int(low) <= first <= int(high):
            return row["cuda"]
    return None


@cache
def branch(driver: str, os: str) -> int | None:
    first = int(driver.split(".")[0])
    if os == "linux":
        return first
    return next((int(r["branch"]) for r in rows("driver_branches") if r["windows_from"] and int(r["windows_from"]) <= first <= int(r["windows_to"])), None)


@cache
def chip(capability: str) -> dict[str, str]:
    return next(row for row in rows("architectures") if row["compute_capability"] == capability)


def driven(machine: Machine) -> bool:
    """One driver serves all the cards, and it is this one."""
    if machine.driver is None:
        return True
    here = branch(machine.driver, machine.os)
    assert here is not None
    for capability in machine.capabilities:
        row = chip(capability)
        if row["min_driver_branch"] and here < int(row["min_driver_branch"]):
            return False
        if row["last_driver_branch"] and here > int(row["last_driver_branch"]):
            return False
    return True


@cache
def has_code(sass: str, ptx: str, capability: str, cuda: str, driver: str | None) -> bool:
    """SASS of the same major and an equal or lower minor; PTX where driver and toolkit both know enough."""
    major, minor = capability.split(".")
    for name in sass.split():
        digits = name.removeprefix("sm_")
        if not digits.isdigit():
            continue
        theirs, lower = digits[:-1], digits[-1]
        if {capability, f"{theirs}.{lower}"} <= {"10.1", "11.0"}:
            return True
        if theirs != major or int(lower) > int(minor) or digits in ("101", "110"):
            continue
        if digits in ORIN_LIKE.get(capability, ()) and not ((capability, digits) in LIFTED_BY_13_2 and version(cuda) >= (13, 2)):
            continue
        return True
    known = version(cuda) >= version(chip(capability)["first_cuda"])
    for name in ptx.split():
        if name.startswith("compute_"):
            digits = name.removeprefix("compute_")
            older = (int(digits[:-1]), int(digits[-1])) <= (int(major), int(minor))
            if older and known and driver is not None and version(driver) >= version(cuda):
                return True
    return False


@cache
def cudnn_serves(cudnn: str, capability: str) -> bool:
    if not cudnn:
        return True
    fitting = [row for row in rows("cudnn_floors") if version(row["cudnn_from"]) <= version(cudnn)]
    if not fitting:
        return True
    least = max(fitting, key=lambda row: version(row["cudnn_from"]))["compute_capability_min"]
    return tuple(map(int, capability.split("."))) >= tuple(map(int, least.split(".")))


@cache
def has_wheel(release: str, variant_pythons: str, os: str, arch: str, python: str) -> bool:
    wheel = wheel_rows().get((release, os, arch))
    own = variant_pythons.split() or (wheel["pythons"].split() if wheel else [])
    return python in own


@cache
def has_vision(release: str, python: str) -> bool:
    wanted = releases()[release]["torchvision"]
    row = next((r for r in rows("companions") if (r["package"], r["version"]) == ("torchvision", wanted)), None)
    if not wanted:
        return False
    return row is None or not row["pythons"] or python in row["pythons"].split() or "py3" in row["pythons"].split()


def runs(machine: Machine, build: dict[str, str]) -> bool:
    """A CUDA build runs on every card of the machine."""
    cuda = cuda_of(build["variant"])
    if machine.driver is not None:
        least = floor(cuda, machine.os)
        if least is not None and version(machine.driver) < version(least):
            return False
    if not has_wheel(build["release"], build["pythons"], machine.os, machine.arch, machine.python):
        return False
    if not has_vision(build["release"], machine.python):
        return False
    code = arch_rows().get((build["release"], build["variant"], machine.os, machine.arch))
    if code is None:
        return not machine.capabilities
    supports = driver_cuda(machine.driver, machine.os) if machine.driver else None
    return all(
        has_code(code["sass"], code["ptx"], capability, cuda, supports) and cudnn_serves(build["cudnn"], capability)
        for capability in machine.capabilities
    )


def possible(machine: Machine) -> set[tuple[str, str]]:
    """(release, variant) of every CUDA build that runs, () when the driver does not serve the cards."""
    if not driven(machine):
        return set()
    return {
        (build["release"], build["variant"])
        for build in builds(machine.os, machine.arch)
        if re.fullmatch(r"cu\d+", build["variant"]) and runs(machine, build)
    }


def possible_elsewhere(machine: Machine, kind: str) -> set[tuple[str, str]]:
    """The same for builds without CUDA: kind "cpu", or "macos" (one wheel a release)."""
    found = set()
    for build in builds(machine.os, machine.arch):
        if kind == "cpu" and build["variant"] != "cpu":
            continue
        release = build["release"]
        if not has_wheel(release, build["pythons"], machine.os, machine.arch, machine.python) or not has_vision(release, machine.python):
            continue
        if kind == "macos" and not _macos_fits(release, machine):
            continue
        found.add((release, build["variant"]))
    return found


def _macos_fits(release: str, machine: Machine) -> bool:
    wheel = wheel_rows()[release, machine.os, machine.arch]
    tags = sorted({version(re.sub(r"macosx_(\d+)_(\d+)_.*", r"\1.\2", tag)) for tag in wheel["tags"].split()})
    newer = machine.python.endswith("t") or version(machine.python) >= (3, 14)
    least = tags[-1] if newer else tags[0]
    if version(machine.os_version or "") < least:
        return False
    if machine.arch == "arm64":
        mps = releases()[release]["mps_min_macos"]
        return bool(mps) and version(machine.os_version or "") >= version(mps)
    return True


def newest(found: set[tuple[str, str]]) -> str:
    return max((release for release, _ in found), key=version)
