"""Contradictions in the tables about drivers, CUDA, GPUs, conda, Jetson and ROCm."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from envcheck.errors import MatrixError
from envcheck.matrix.text import Row
from envcheck.matrix.versions import at_least, key, numbers

if TYPE_CHECKING:
    from envcheck.matrix.validate import Checker

PLATFORMS = ("linux-x86_64", "linux-aarch64", "windows-x86_64", "macos-x86_64", "macos-arm64")


def _toolkits(checker: Checker) -> Iterator[MatrixError]:
    last = {"driver_linux": "", "driver_windows": ""}
    before = ""
    for row in checker.rows("cuda_toolkits.csv"):
        if before and key(row["cuda"]) < key(before):
            yield row.error("cuda", f"comes after {before}: the table goes from old to new")
        before = row["cuda"]
        if row["version"] and not row["version"].startswith(row["cuda"] + "."):
            yield row.error("version", f"{row['version']} is not CUDA {row['cuda']}")
        for field, os in (("driver_linux", "linux"), ("driver_windows", "windows")):
            driver = row[field]
            if not driver:
                continue
            if last[field] and not at_least(driver, last[field]):
                yield row.error(field, f"{driver} is older than {last[field]} of the toolkit before")
            last[field] = driver
            yield from _branch_of_toolkit(checker, row, field, os)


def _branch_of_toolkit(checker: Checker, row: Row, field: str, os: str) -> Iterator[MatrixError]:
    from envcheck.matrix.drivers import branch_row

    branch = branch_row(checker.tables, row[field], os)
    if branch is None:
        yield row.error(field, f"driver {row[field]} belongs to no branch in driver_branches.csv")
    elif branch.cuda != row["cuda"]:
        yield row.error(field, f"driver {row[field]} is of branch {branch.branch}, whose CUDA is {branch.cuda}")


def _floors(checker: Checker) -> Iterator[MatrixError]:
    highest: dict[str, tuple[int, str]] = {}
    for row in sorted(checker.rows("cuda_floors.csv"), key=lambda r: int(r["cuda_major"])):
        major, driver = int(row["cuda_major"]), row["driver"]
        if row["os"] in highest and not at_least(driver, highest[row["os"]][1]):
            yield row.error("driver", f"is lower than that of CUDA {highest[row['os']][0]}")
        highest[row["os"]] = (major, driver)
        if row["warn_from"] and at_least(row["warn_from"], driver):
            yield row.error("warn_from", f"is not below {driver}")
        for toolkit in checker.tables.toolkits:
            own = toolkit.driver_windows if row["os"] == "windows" else toolkit.driver_linux
            # The toolkit that opened a major may have come with a driver below the floor of its family.
            later = toolkit.cuda.startswith(f"{major}.") and toolkit.cuda != f"{major}.0"
            if own and later and not at_least(own, driver):
                yield row.error("driver", f"is above {own}, with which CUDA {toolkit.cuda} itself came")


def _branches(checker: Checker) -> Iterator[MatrixError]:
    rows = sorted(checker.rows("driver_branches.csv"), key=lambda r: int(r["branch"]))
    cuda, end = "", 0
    for row in rows:
        if cuda and key(row["cuda"]) < key(cuda):
            yield row.error("cuda", f"is lower than {cuda} of the branch before")
        cuda = row["cuda"]
        first, last = row.number("windows_from"), row.number("windows_to")
        if (first is None) != (last is None):
            yield row.error("windows_to", "a range has two ends")
        if first is None or last is None:
            continue
        if last < first:
            yield row.error("windows_to", f"is below windows_from ({first})")
        if first <= end:
            yield row.error("windows_from", f"{first} also belongs to the branch before")
        end = max(end, last)


def _architectures(checker: Checker) -> Iterator[MatrixError]:
    for row in checker.rows("architectures.csv"):
        if row["first_cuda"] and row["last_cuda"] and not at_least(row["last_cuda"], row["first_cuda"]):
            yield row.error("last_cuda", f"is before first_cuda ({row['first_cuda']})")
        first, last = row.number("min_driver_branch"), row.number("last_driver_branch")
        if first and last and last < first:
            yield row.error("last_driver_branch", f"is before min_driver_branch ({first})")
    for row in checker.rows("cudnn_floors.csv"):
        if row["compute_capability_min"] not in checker.tables.architectures:
            yield row.error("compute_capability_min", "has no row in architectures.csv")


def _gpus(checker: Checker) -> Iterator[MatrixError]:
    known = checker.tables.architectures
    for file in ("gpus.csv", "gpu_rules.csv", "gpu_chips.csv"):
        for row in checker.rows(file):
            capabilities = row.words("compute_capability")
            for cc in capabilities:
                if cc not in known:
                    yield row.error("compute_capability", f"{cc} has no row in architectures.csv")
                elif row["architecture"] and row["architecture"] != known[cc].name:
                    yield row.error("architecture", f"{cc} is {known[cc].name}, not {row['architecture']}")
            if len(capabilities) == 1 and not row["architecture"]:
                yield row.error("architecture", "is empty though there is one capability")
            if file == "gpus.csv" and capabilities and capabilities[0] in known and len(capabilities) == 1:
                yield from _gpu_driver(checker, row)


def _gpu_driver(checker: Checker, row: Row) -> Iterator[MatrixError]:
    architecture = checker.tables.architectures[row["compute_capability"]]
    first, last = row.number("min_driver_branch"), row.number("last_driver_branch")
    if last != architecture.last_driver_branch and row["segment"] != "embedded":
        yield row.error("last_driver_branch", f"architectures.csv says {architecture.last_driver_branch}")
    if first and last and last < first:
        yield row.error("last_driver_branch", f"is before min_driver_branch ({first})")
    # A first listing is when documentation named the board, often years late: never a minimum.
    if first and architecture.min_driver_branch and first > architecture.min_driver_branch:
        yield row.error("min_driver_branch", f"architectures.csv says {architecture.min_driver_branch}")
    listed = row["first_listed_driver"]
    if listed and first and numbers(listed)[0] < first:
        yield row.error("first_listed_driver", f"is before min_driver_branch ({first})")


def _rates(checker: Checker) -> Iterator[MatrixError]:
    """Rates follow from each other: a slip of one digit, or a rate with sparsity, shows."""
    from envcheck.matrix.gpus import Names
    from envcheck.matrix.rates import FP32_PER_CLOCK, NEAR, gpu_rates

    names = Names(checker.tables)
    for row in checker.rows("gpu_rates.csv"):
        board = names.gpu(row["name"])
        if board is None or not board.exact or board.compute_capability is None:
            yield row.error("name", "is no board of gpus.csv")
            continue
        rates = gpu_rates(row)
        per_clock = FP32_PER_CLOCK.get(board.compute_capability)
        if rates.fp32 and rates.boost_mhz and per_clock:
            made = rates.sms * rates.boost_mhz * per_clock / 1e6
            if abs(made / rates.fp32 - 1) > NEAR:
                yield row.error("fp32", f"{rates.sms} SMs at {rates.boost_mhz} MHz make {made:.1f} TFLOP/s")
        has_bf16 = board.compute_capability >= "8.0" or len(board.compute_capability) > 3
        if has_bf16 != (rates.bf16 is not None) or (rates.bf16 and rates.bf16 != rates.fp16):
            yield row.error("bf16", "is as fast as fp16 from compute capability 8.0 on, and absent before")
        for field, value, factor in (("tf32", rates.tf32, 0.5), ("fp8", rates.fp8, 2.0)):
            if value and rates.fp16 and abs(value / rates.fp16 / factor - 1) > NEAR:
                yield row.error(field, f"is not {factor} times that of fp16")


def _conda(checker: Checker) -> Iterator[MatrixError]:
    from envcheck.matrix.validate import arch_names

    for row in checker.rows("conda_builds.csv"):
        for place in row.words("platforms"):
            if place not in PLATFORMS:
                yield row.error("platforms", f"'{place}' is none of: {', '.join(PLATFORMS)}")
        if row["cuda"]:
            if any(place.startswith("macos") for place in row.words("platforms")):
                yield row.error("platforms", "there is no CUDA build for macOS")
            yield from arch_names(checker, row, row["cuda"])
        elif row["sass"]:
            yield row.error("sass", "a CPU build has no GPU code")
        if row["channel"] == "pytorch" and not at_least("2.5.1", row["release"]):
            yield row.error("release", "the channel pytorch ended with 2.5.1")


def _jetpack(checker: Checker) -> Iterator[MatrixError]:
    last = ""
    for row in checker.rows("jetpack.csv"):
        if last and not at_least(row["l4t"], last):
            yield row.error("l4t", f"comes after {last}: the table goes from old to new")
        last = row["l4t"]
        for cc in row.words("compute_capability"):
            if cc not in checker.tables.architectures:
                yield row.error("compute_capability", f"{cc} has no row in architectures.csv")


def _amd(checker: Checker) -> Iterator[MatrixError]:
    for file in ("amd_gpus.csv", "rocm_archs.csv"):
        for row in checker.rows(file):
            for gfx in row.words("gfx"):
                if gfx not in checker.tables.amd_archs:
                    yield row.error("gfx", f"{gfx} has no row in amd_archs.csv")
    for row in checker.rows("rocm_archs.csv"):
        if row["torch_to"] and not at_least(row["torch_to"], row["torch_from"]):
            yield row.error("torch_to", f"is before torch_from ({row['torch_from']})")
        if not at_least(row["rocm_to"], row["rocm_from"]):
            yield row.error("rocm_to", f"is before rocm_from ({row['rocm_from']})")
    from envcheck.matrix.platform_query import PlatformQueries

    query = PlatformQueries(checker.tables)
    for row in checker.rows("torch_variants.csv"):
        name = row["variant"]
        wanted = name.startswith("rocm") and row["status"] == "advertised"
        if wanted and query.rocm_gfx(row["release"], name.removeprefix("rocm")) is None:
            yield row.error("variant", f"rocm_archs.csv has no list for {name} of torch {row['release']}")


def _known_bad(checker: Checker) -> Iterator[MatrixError]:
    from envcheck.matrix.validate import parse_specifier

    for row in checker.rows("known_bad.csv"):
        for field in ("versions", "torch", "python"):
            bad = None if row[field] == "none" else parse_specifier(row, field)
            if bad:
                yield bad
        for os in row.words("os"):
            if os not in ("linux", "windows", "macos"):
                yield row.error("os", f"'{os}' is none of: linux, windows, macos")
    for row in checker.rows("disagreements.csv"):
        if not (checker.tables.directory / row["table"]).is_file():
            yield row.error("table", f"there is no table {row['table']}")
    for row in checker.rows("platform_facts.csv"):
        if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", row["id"]):
            yield row.error("id", "is not in kebab-case")


CHECKS = (
    _toolkits,
    _floors,
    _branches,
    _architectures,
    _gpus,
    _rates,
    _conda,
    _jetpack,
    _amd,
    _known_bad,
)
