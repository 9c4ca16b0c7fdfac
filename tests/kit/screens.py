"""Text as nvidia-smi prints it, from a description of the cards, in the layouts of the drivers since 2017."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Card:
    """One GPU. Memory in MiB; `processes`: (pid, type, name, MiB)."""

    name: str = "NVIDIA GeForce RTX 4090"
    capability: str = "8.9"
    memory: int = 24564
    used: int = 386
    bus: str = "00000000:01:00.0"
    ecc: str = "N/A"
    mode: str = "Default"
    persistence: str = "Off"
    mig: str = "N/A"
    instances: tuple[tuple[str, int], ...] = ()
    """MIG instances: (profile, MiB)."""
    power: tuple[str, str] = ("24W", "450W")
    load: str = "0%"
    temperature: str = "38C"
    fan: str = "0%"
    lost: bool = False
    """Every cell that needs an answer of the card says ERR!."""
    uncorrected: int | None = None
    uncorrected_total: int | None = None
    remap_pending: bool = False
    recovery: str | None = None
    """What the driver asks for, None before R565: "None", "Reset", "Reboot"."""
    fabric: str = "N/A"
    addressing: str = "HMM"
    pcie: tuple[int, int, int, int] = (4, 4, 16, 16)
    throttle: tuple[str, ...] = ("Idle",)
    processes: tuple[tuple[int, str, str, int], ...] = field(default=())


@dataclass(frozen=True)
class Layout:
    """Widths of the three columns and what the header says."""

    widths: tuple[int, int, int]
    lines: int = 3
    header: str = "cuda"
    """"plain" (before R410), "cuda", "kmd" (from R610)."""
    top: str = "|"
    """First character of the line below the header."""
    name: int = 18
    short_bus: bool = False


LAYOUTS = {
    "r375": Layout((31, 22, 22), lines=2, header="plain", short_bus=True),
    "r410": Layout((31, 22, 22), lines=2),
    "r450": Layout((31, 22, 22)),
    "r530": Layout((41, 22, 22), name=27),
    "r550": Layout((41, 24, 22), name=27),
    "r610": Layout((41, 24, 22), name=27, header="kmd", top="+"),
}


def _rule(widths: Sequence[int], line: str = "-", ends: str = "+") -> str:
    return ends + "+".join(line * width for width in widths) + ends


def _cells(widths: Sequence[int], cells: Sequence[str]) -> str:
    return "|" + "|".join(f" {cell:<{width - 1}}"[:width] for cell, width in zip(cells, widths, strict=True)) + "|"


def _right(width: int, text: str) -> str:
    return f"{text:>{width - 2}}"


def header_line(layout: Layout, smi: str, driver: str, cuda: str | None) -> str:
    """The first line of the box."""
    width = sum(layout.widths) + 2
    if layout.header == "plain":
        text = f" NVIDIA-SMI {smi:<22} Driver Version: {driver:<26}"
    elif layout.header == "kmd":
        text = f" NVIDIA-SMI {smi:<22} KMD Version: {driver:<13} CUDA UMD Version: {cuda:<8}"
    elif width < 80:
        text = f" NVIDIA-SMI {smi:<12} Driver Version: {driver:<12} CUDA Version: {cuda:<8}"
    else:
        text = f" NVIDIA-SMI {smi:<22} Driver Version: {driver:<14} CUDA Version: {cuda:<8}"
    return f"|{text:<{width}}|"


def screen(
    cards: Sequence[Card],
    *,
    layout: str = "r550",
    driver: str = "550.127.08",
    cuda: str | None = "12.4",
    smi: str | None = None,
    windows: bool = False,
) -> str:
    """The plain screen."""
    shape = LAYOUTS[layout]
    widths = shape.widths
    column = ("TCC/WDDM " if layout < "r550" else "Driver-Model ") if windows else "Persistence-M"
    lines = [
        "Wed Mar 12 10:11:12 2025       ",
        "+" + "-" * (sum(widths) + 2) + "+",
        header_line(shape, smi or driver, driver, cuda),
        _rule(widths, ends=shape.top),
        _cells(widths, [f"GPU  Name{column:>{widths[0] - 11}}", f"Bus-Id{'Disp.A':>{widths[1] - 8}}", "Volatile Uncorr. ECC"]),
        _cells(widths, [f"Fan  Temp  Perf{'Pwr:Usage/Cap':>{widths[0] - 17}}", _right(widths[1], "Memory-Usage"), "GPU-Util  Compute M."]),
    ]
    if shape.lines == 3:
        lines.append(_cells(widths, ["", "", _right(widths[2], "MIG M.")]))
    lines.append(_rule(widths, "=", "|"))
    for index, card in enumerate(cards):
        lines += [*_row(index, card, shape), _rule(widths)]
    lines += ["", *_mig_table(cards, sum(widths) + 2), *_process_table(cards, sum(widths) + 2, new=shape.lines == 3)]
    return "\n".join(lines) + "\n"


def _row(index: int, card: Card, shape: Layout) -> list[str]:
    widths = shape.widths
    name = card.name if len(card.name) <= shape.name else card.name[: shape.name - 3] + "..."
    bus = card.bus[4:] if shape.short_bus else card.bus
    state = "N/A" if card.lost else "Off"
    ecc = "On" if card.mig == "Enabled" else card.ecc
    power = f"{card.power[0]} / {card.power[1]}"
    used = f"{card.used}MiB / {card.memory}MiB" if card.memory else "Not Supported"
    mode = {"Exclusive_Process": "E. Process", "Exclusive_Thread": "E. Thread"}.get(card.mode, card.mode)
    lines = [
        _cells(
            widths,
            [
                f"{index:>3}  {name}{card.persistence:>{widths[0] - 7 - len(name)}}",
                f"{bus}{state:>{max(1, widths[1] - 2 - len(bus))}}",
                _right(widths[2], ecc),
            ],
        ),
        "|"
        + f"{card.fan:>4}  {card.temperature:>4}    P0{power:>{widths[0] - 16}}"[: widths[0]].ljust(widths[0])
        + "|"
        + f" {_right(widths[1], used)} "
        + "|"
        + f" {('N/A' if card.mig == 'Enabled' or card.lost else card.load):>7}{mode:>{widths[2] - 9}} |",
    ]
    if shape.lines == 3:
        lines.append(_cells(widths, ["", "", _right(widths[2], "ERR!" if card.lost else card.mig)]))
    return lines


def _mig_table(cards: Sequence[Card], width: int) -> list[str]:
    if not any(card.mig == "Enabled" for card in cards):
        return []
    columns = (18, width - 57, 11, 25)
    lines = ["+" + "-" * width + "+", f"|{' MIG devices:':<{width}}|", _rule(columns), _cells(columns, ["GPU  GI  CI  MIG", "Memory-Usage", "    Vol", "Shared"])]
    lines += [_cells(columns, ["     ID  ID  Dev", "BAR1-Usage", "SM  Unc", "CE  ENC  DEC  OFA  JPG"]), _rule(columns, "=", "|")]
    rows = []
    for index, card in enumerate(cards):
        for number, (_, memory) in enumerate(card.instances):
            rows.append(
                f"|  {index}   {number + 7:>2}   0   {number}  |"
                + f"{f'13MiB / {memory:>5}MiB':>{columns[1] - 2}}  |"
                + " 14      0 |  1   0    0    0    0       |"
            )
            rows.append(f"|                  |{f'0MiB /  8191MiB':>{columns[1] - 2}}  |           |                         |")
            rows.append(_rule(columns))
    if not rows:
        rows = [f"|{'  No MIG devices found':<{width}}|", "+" + "-" * width + "+"]
    return [*lines, *rows, ""]


def _process_table(cards: Sequence[Card], width: int, *, new: bool) -> list[str]:
    lines = ["+" + "-" * width + "+"]
    if new:
        lines += [f"|{' Processes:':<{width}}|", f"|{'  GPU   GI   CI        PID   Type   Process name':<{width - 14}}{'GPU Memory ':>14}|"]
        lines += [f"|{'        ID   ID':<{width - 14}}{'Usage      ':>14}|"]
    else:
        lines += [f"|{' Processes:':<{width - 14}}{'GPU Memory ':>14}|", f"|{'  GPU       PID   Type   Process name':<{width - 14}}{'Usage      ':>14}|"]
    lines.append("|" + "=" * width + "|")
    rows = []
    for index, card in enumerate(cards):
        for pid, kind, name, memory in card.processes:
            start = f"  {index:>3}   N/A  N/A   {pid:>7}   {kind:>4}   {name}" if new else f"  {index:>3}   {pid:>7}   {kind:>4}   {name}"
            rows.append(f"|{start:<{width - 14}}{f'{memory}MiB ':>14}|")
    if not rows:
        rows = [f"|{'  No running processes found':<{width}}|"]
    return [*lines, *rows, "+" + "-" * width + "+"]


def listing(cards: Sequence[Card]) -> str:
    """`nvidia-smi -L`."""
    lines = []
    for index, card in enumerate(cards):
        lines.append(f"GPU {index}: {card.name} (UUID: GPU-00000000-0000-0000-0000-00000000000{index})")
        for number, (profile, _) in enumerate(card.instances):
            lines.append(f"  MIG {profile:<11} Device {number:>2}: (UUID: MIG-00000000-0000-0000-0000-00000000000{number})")
    return "\n".join(lines) + "\n"


def report(cards: Sequence[Card], *, driver: str = "550.127.08", cuda: str | None = "12.4", new: bool = True, kmd: bool = False) -> str:
    """`nvidia-smi -q`, with the sections that matter. new: the names of R535 and later."""
    out = ["", "==============NVSMI LOG==============", ""]

    def entry(depth: int, name: str, value: object = None) -> None:
        out.append(f"{'    ' * depth}{name}" if value is None else f"{'    ' * depth + name:<42}: {value}")

    entry(0, "Timestamp", "Wed Mar 12 10:11:12 2025")
    if kmd:
        entry(0, "Driver Version", f"{driver} [Deprecated; will be removed in CUDA 14.0. Use KMD Version instead]")
        entry(0, "CUDA Version", f"{cuda} [Deprecated; will be removed in CUDA 14.0. Use CUDA UMD Version instead]")
        entry(0, "KMD Version", driver)
        entry(0, "CUDA UMD Version", cuda)
    else:
        entry(0, "Driver Version", driver)
        if cuda is not None:
            entry(0, "CUDA Version", cuda)
    out.append("")
    entry(0, "Attached GPUs", len(cards))
    for card in cards:
        entry(0, f"GPU {card.bus}")
        entry(1, "Product Name", "Unknown Error" if card.lost else card.name)
        entry(1, "Persistence Mode", {"On": "Enabled", "Off": "Disabled"}.get(card.persistence, "N/A"))
        if new:
            entry(1, "Addressing Mode", card.addressing)
        entry(1, "MIG Mode")
        entry(2, "Current", card.mig)
        entry(2, "Pending", card.mig)
        for number, (_, memory) in enumerate(card.instances):
            entry(1, "MIG Device")
            entry(2, "Index", number)
            entry(2, "GPU Instance ID", number + 7)
            entry(2, "FB Memory Usage")
            entry(3, "Total", f"{memory} MiB")
            entry(3, "Used", "13 MiB")
        if card.recovery is not None:
            entry(1, "GPU Recovery Action", card.recovery)
        entry(1, "Driver Model")
        entry(2, "Current", card.persistence if card.persistence in ("WDDM", "TCC") else "N/A")
        entry(1, "Minor Number", 0)
        entry(1, "PCI")
        entry(2, "Bus Id", card.bus)
        entry(2, "GPU Link Info")
        entry(3, "PCIe Generation")
        entry(4, "Max", card.pcie[1])
        entry(4, "Current", card.pcie[0])
        entry(3, "Link Width")
        entry(4, "Max", f"{card.pcie[3]}x")
        entry(4, "Current", f"{card.pcie[2]}x")
        entry(1, "Performance State", "P0")
        entry(1, "Clocks Event Reasons" if new else "Clocks Throttle Reasons")
        for name, depth in (("Idle", 2), ("Applications Clocks Setting", 2), ("SW Power Cap", 2), ("HW Slowdown", 2), ("HW Thermal Slowdown", 3), ("HW Power Brake Slowdown", 3), ("Sync Boost", 2), ("SW Thermal Slowdown", 2)):
            entry(depth, name, "Active" if name in card.throttle else "Not Active")
        entry(1, "FB Memory Usage")
        entry(2, "Total", f"{card.memory} MiB" if card.memory else "N/A")
        entry(2, "Used", f"{card.used} MiB")
        entry(1, "Compute Mode", card.mode)
        entry(1, "Utilization")
        entry(2, "Gpu", card.load.replace("%", " %"))
        entry(1, "ECC Errors")
        for section, count in (("Volatile", card.uncorrected), ("Aggregate", card.uncorrected_total)):
            entry(2, section)
            value = "N/A" if count is None else count
            if new:
                entry(3, "SRAM Correctable", "N/A" if count is None else 0)
                entry(3, "SRAM Uncorrectable Parity", "N/A" if count is None else 0)
                entry(3, "SRAM Uncorrectable SEC-DED", "N/A" if count is None else 0)
                entry(3, "DRAM Correctable", "N/A" if count is None else 3)
                entry(3, "DRAM Uncorrectable", value)
            else:
                entry(3, "Single Bit")
                entry(4, "Total", "N/A" if count is None else 5)
                entry(3, "Double Bit")
                entry(4, "Device Memory", value)
                entry(4, "Total", value)
        entry(1, "Retired Pages")
        entry(2, "Single Bit ECC", "N/A")
        entry(2, "Pending Page Blacklist", "N/A" if new else "Yes" if card.remap_pending else "No")
        if new and card.uncorrected is not None:
            entry(1, "Remapped Rows")
            entry(2, "Correctable Error", 0)
            entry(2, "Pending", "Yes" if card.remap_pending else "No")
            entry(2, "Remapping Failure Occurred", "No")
        else:
            entry(1, "Remapped Rows", "N/A")
        entry(1, "Temperature")
        entry(2, "GPU Current Temp", card.temperature.replace("C", " C"))
        entry(1, "GPU Power Readings" if new else "Power Readings")
        entry(2, "Power Draw", card.power[0].replace("W", ".00 W"))
        entry(2, "Current Power Limit" if new else "Power Limit", card.power[1].replace("W", ".00 W"))
        entry(2, "Default Power Limit", "450.00 W")
        if new:
            entry(1, "Module Power Readings")
            entry(2, "Power Draw", "N/A")
        entry(1, "Clocks")
        entry(2, "SM", "210 MHz")
        entry(1, "Max Clocks")
        entry(2, "SM", "3105 MHz")
        entry(1, "Fabric")
        entry(2, "State", card.fabric)
        entry(2, "Status", "Success" if card.fabric == "Completed" else "N/A")
        if card.processes:
            entry(1, "Processes")
            for pid, kind, name, memory in card.processes:
                entry(2, "GPU instance ID", "N/A")
                entry(2, "Process ID", pid)
                entry(3, "Type", kind)
                entry(3, "Name", name)
                entry(3, "Used GPU Memory", f"{memory} MiB")
        else:
            entry(1, "Processes", "None")
        out.append("")
    return "\n".join(out) + "\n"


UNITS = {"memory.total": "MiB", "memory.used": "MiB", "memory.free": "MiB", "power.draw": "W", "power.limit": "W", "utilization.gpu": "%"}


def values(index: int, card: Card, driver: str) -> dict[str, str]:
    """Answers of --query-gpu by field, with units."""
    known = {
        "index": str(index),
        "name": card.name,
        "pci.bus_id": card.bus,
        "driver_version": driver,
        "memory.total": f"{card.memory} MiB" if card.memory else "[N/A]",
        "memory.used": f"{card.used} MiB" if card.memory else "[N/A]",
        "memory.free": f"{card.memory - card.used} MiB" if card.memory else "[N/A]",
        "compute_mode": card.mode,
        "mig.mode.current": card.mig if card.mig != "N/A" else "[N/A]",
        "power.draw": card.power[0].replace("W", ".00 W"),
        "power.limit": card.power[1].replace("W", ".00 W"),
        "utilization.gpu": card.load.replace("%", " %"),
        "ecc.errors.uncorrected.volatile.total": "[N/A]" if card.uncorrected is None else str(card.uncorrected),
        "compute_cap": card.capability,
    }
    if card.lost:
        return {name: value if name in ("index", "pci.bus_id", "driver_version") else "[Unknown Error]" for name, value in known.items()}
    return known
