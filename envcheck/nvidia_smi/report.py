"""`nvidia-smi -q`: an indented report, whole or of single sections (`-d ECC,POWER`)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from envcheck.facts import GpuProcess, NvidiaGpu
from envcheck.lazy import Regex
from envcheck.nvidia_smi.text import clean_lines
from envcheck.nvidia_smi.units import (
    compute_mode,
    integer,
    number,
    recovery_action,
    size,
    version,
    word,
    word_or_none,
    yes,
)

_GPU = Regex(r"^\s*GPU\s+((?:[0-9A-Fa-f]{4,8}:)?[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f])\s*$")
_ENTRY = Regex(r"^(\s*)(\S[^:]*?)\s*(?::\s?(.*))?$")
_TOP = Regex(r"^\s*(Driver Version|CUDA Version|KMD Version|CUDA UMD Version|Attached GPUs)\s*:\s*(.*)$")

Path = tuple[str, ...]


@dataclass
class Report:
    """What one report said."""

    driver_version: str | None = None
    driver_cuda: str | None = None
    attached: int | None = None
    gpus: tuple[NvidiaGpu, ...] | None = None
    lines: dict[str, int] = field(default_factory=dict)


def parse_report(text: str) -> Report | None:
    """Reads the first `nvidia-smi -q` report in a text, None when there is none."""
    lines = clean_lines(text)
    report = Report()
    blocks: list[tuple[str, int, list[str]]] = []
    seen = False
    for position, line in enumerate(lines):
        if "NVSMI LOG" in line:
            if seen and blocks:
                break
            seen = True
            continue
        gpu = _GPU.match(line)
        if gpu:
            blocks.append((gpu.group(1), position + 1, []))
        elif blocks:
            blocks[-1][2].append(line)
        else:
            seen = _top(report, line, position + 1) or seen
    gpus = [_gpu(index, address, block) for index, (address, _, block) in enumerate(blocks)]
    if not any(_says_something(gpu) for gpu in gpus) and not (seen and report.driver_version):
        return None
    for index, (_, position, _) in enumerate(blocks):
        report.lines.setdefault("gpus", position)
        report.lines[f"gpu {index}"] = position
    report.gpus = tuple(gpus) if gpus else () if report.attached == 0 else None
    return report


def _top(report: Report, line: str, position: int) -> bool:
    match = _TOP.match(line)
    if match is None:
        return False
    name, value = match.group(1), match.group(2)
    if name == "Attached GPUs":
        report.attached = integer(value)
        return True
    target = "driver_cuda" if name.startswith("CUDA") else "driver_version"
    if getattr(report, target) is None and version(value):
        setattr(report, target, version(value))
        report.lines[target] = position
    # "Driver Version:" alone stands in many reports; it is this one only with its own neighbours.
    return False


def _says_something(gpu: NvidiaGpu) -> bool:
    return any(getattr(gpu, name) is not None for name in gpu.__struct_fields__ if name not in ("index", "bus_id"))


class _Tree:
    """The entries of one GPU by their path: ("ECC Errors", "Volatile", "DRAM Uncorrectable") -> "0"."""

    def __init__(self, lines: list[str]) -> None:
        everything = list(_entries(lines))
        # MIG devices repeat entries of the whole GPU (its memory, its errors) and stand before them.
        self.entries = [item for item in everything if "MIG Device" not in item[0]]
        self.mig_entries = [item for item in everything if "MIG Device" in item[0]]

    def get(self, *path: str) -> str | None:
        """Value of the first entry whose path ends so; the last part is the entry's own name."""
        for key, value in self.entries:
            if key[-len(path) :] == path:
                return value
        return None

    def under(self, *path: str) -> Iterator[tuple[Path, str]]:
        """Entries whose path begins with a section that ends so: (the rest of the path, value)."""
        size_ = len(path)
        for key, value in self.entries:
            for start in range(len(key) - size_):
                if key[start : start + size_] == path:
                    yield key[start + size_ :], value
                    break


def _entries(lines: list[str]) -> Iterator[tuple[Path, str]]:
    stack: list[tuple[int, str]] = []
    for line in lines:
        match = _ENTRY.match(line.expandtabs(4))
        if match is None or len(line) > 300:
            continue
        indent, name, value = len(match.group(1)), match.group(2).strip(), match.group(3)
        while stack and stack[-1][0] >= indent:
            stack.pop()
        path = (*(item for _, item in stack), name)
        if value is None or not value.strip():
            stack.append((indent, name))
        else:
            yield path, value.strip()
            # "HW Slowdown : Not Active" has entries of its own below it, deeper by one step.
            stack.append((indent, name))


def _gpu(index: int, address: str, lines: list[str]) -> NvidiaGpu:
    tree = _Tree(lines)
    get = tree.get
    link = "GPU Link Info"
    memory = "FB Memory Usage"
    mig = yes(get("MIG Mode", "Current"))
    return NvidiaGpu(
        index=index,  # the report has nvidia-smi's own order; "Minor Number" is another count
        name=word(get("Product Name")),
        bus_id=word(get("Bus Id")) or address,
        memory_total=size(get(memory, "Total")),
        memory_used=size(get(memory, "Used")),
        mig=mig,
        mig_instances=_mig_instances(tree) if mig else None,
        compute_mode=compute_mode(get("Compute Mode")),
        ecc_uncorrected=_ecc(tree, "Volatile"),
        ecc_uncorrected_total=_ecc(tree, "Aggregate"),
        remapped_rows_pending=yes(get("Remapped Rows", "Pending")),
        retired_pages_pending=_pending(tree),
        recovery_action=recovery_action(get("GPU Recovery Action")),
        license=word(get("vGPU Software Licensed Product", "License Status")),
        virtualization=word_or_none(get("Virtualization Mode")),
        persistence=yes(get("Persistence Mode")),
        power_draw=_first(get("Power Draw"), get("Average Power Draw"), get("Instantaneous Power Draw")),
        power_limit=_first(get("Current Power Limit"), get("Power Limit"), get("Enforced Power Limit")),
        power_default_limit=number(get("Default Power Limit")),
        pcie_gen=integer(get(link, "PCIe Generation", "Current")),
        pcie_gen_max=integer(get(link, "PCIe Generation", "Max")),
        pcie_width=integer(get(link, "Link Width", "Current")),
        pcie_width_max=integer(get(link, "Link Width", "Max")),
        temperature=number(get("Temperature", "GPU Current Temp")),
        utilization=_first(get("Utilization", "Gpu"), get("Utilization", "GPU")),
        clocks_sm=integer(get("Clocks", "SM")),
        clocks_sm_max=integer(get("Max Clocks", "SM")),
        throttle_reasons=_throttle(tree),
        driver_model=word(get("Driver Model", "Current")),
        fabric_state=word(get("Fabric", "State")),
        addressing_mode=word(get("Addressing Mode")),
        processes=_processes(tree),
    )


def _first(*cells: str | None) -> float | None:
    """The first cell that holds a number: drivers renamed entries, and a section without data says N/A."""
    return next((value for cell in cells if (value := number(cell)) is not None), None)


def _ecc(tree: _Tree, kind: str) -> int | None:
    """Uncorrected errors: SRAM + DRAM of newer boards, the double-bit total of older ones."""
    total: int | None = None
    for path, value in tree.under("ECC Errors", kind):
        counted = path == ("Double Bit", "Total") or (len(path) == 1 and "Uncorrectable" in path[0])
        count = integer(value)
        if counted and count is not None:
            total = (total or 0) + count
    return total


def _pending(tree: _Tree) -> bool | None:
    for name in ("Pending Page Blacklist", "Pending", "Pending Retirement"):
        value = yes(tree.get("Retired Pages", name))
        if value is not None:
            return value
    return None


def _throttle(tree: _Tree) -> tuple[str, ...] | None:
    """Reasons that hold the clocks down now; "Idle" is none of them."""
    reasons: list[str] | None = None
    for section in ("Clocks Throttle Reasons", "Clocks Event Reasons"):
        for path, value in tree.under(section):
            active = yes(value)
            if active is None:
                continue
            reasons = reasons or []
            if active and path[-1] != "Idle":
                reasons.append(path[-1])
    return None if reasons is None else tuple(reasons)


def _mig_instances(tree: _Tree) -> tuple[str, ...]:
    """MIG devices by their memory: the report does not name profiles."""
    sizes = [value for path, value in tree.mig_entries if path[-2:] == ("FB Memory Usage", "Total")]
    return tuple(value.replace(" ", "") for value in sizes)


def _processes(tree: _Tree) -> tuple[GpuProcess, ...] | None:
    if (tree.get("Processes") or "").lower() == "none":
        return ()
    found: list[GpuProcess] = []
    pid: int | None = None
    name: str | None = None
    for path, value in tree.entries:
        if path[-1] in ("Process ID", "Process id"):
            pid, name = integer(value), None
        elif path[-1] == "Name" and pid is not None:
            name = word(value)
        elif path[-1] == "Used GPU Memory" and pid is not None:
            found.append(GpuProcess(pid=pid, name=name, memory=size(word(value))))
            pid = None
    return tuple(found) if found else None
