"""`nvidia-smi --query-gpu=... --format=csv`, with and without header and units."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from envcheck.facts import NvidiaGpu
from envcheck.lazy import Regex
from envcheck.nvidia_smi.text import clean_lines
from envcheck.nvidia_smi.units import (
    broken,
    compute_mode,
    display_bus_id,
    integer,
    number,
    recovery_action,
    size,
    word,
    yes,
)

_Convert = Callable[[str], Any]


def _capability(cell: str) -> str | None:
    return cell.strip() if re.fullmatch(r"\d+\.\d", cell.strip()) else None


def _driver_model(cell: str) -> str | None:
    return word(cell)


_FIELDS: dict[str, tuple[str, _Convert]] = {
    "index": ("index", integer),
    "name": ("name", word),
    "gpu_name": ("name", word),
    "compute_cap": ("compute_capability", _capability),
    "memory.total": ("memory_total", size),
    "memory.used": ("memory_used", size),
    "pci.bus_id": ("bus_id", display_bus_id),
    "gpu_bus_id": ("bus_id", display_bus_id),
    "mig.mode.current": ("mig", yes),
    "compute_mode": ("compute_mode", compute_mode),
    "ecc.errors.uncorrected.volatile.total": ("ecc_uncorrected", integer),
    "ecc.errors.uncorrected.aggregate.total": ("ecc_uncorrected_total", integer),
    "retired_pages.pending": ("retired_pages_pending", yes),
    "remapped_rows.pending": ("remapped_rows_pending", yes),
    "gpu_recovery_action": ("recovery_action", recovery_action),
    "persistence_mode": ("persistence", yes),
    "power.draw": ("power_draw", number),
    "power.draw.average": ("power_draw", number),
    "power.limit": ("power_limit", number),
    "enforced.power.limit": ("power_limit", number),
    "power.default_limit": ("power_default_limit", number),
    "pcie.link.gen.current": ("pcie_gen", integer),
    "pcie.link.gen.gpucurrent": ("pcie_gen", integer),
    "pcie.link.gen.max": ("pcie_gen_max", integer),
    "pcie.link.width.current": ("pcie_width", integer),
    "pcie.link.width.max": ("pcie_width_max", integer),
    "temperature.gpu": ("temperature", number),
    "utilization.gpu": ("utilization", number),
    "clocks.sm": ("clocks_sm", integer),
    "clocks.current.sm": ("clocks_sm", integer),
    "clocks.max.sm": ("clocks_sm_max", integer),
    "driver_model.current": ("driver_model", _driver_model),
    "fabric.state": ("fabric_state", word),
    "addressing_mode": ("addressing_mode", word),
}
# Asked for or printed beside the others; nothing of a GPU's own.
_OTHER = {"driver_version", "count", "gpu_uuid", "uuid", "gpu_serial", "serial", "timestamp", "pstate", "vbios_version"}

# What may stand in a header line: "memory.total [MiB]".
_COLUMN = Regex(r"^([a-z_][a-z0-9_]*(?:\.[a-z0-9_]+)*)(?:\s+\[[^\]]*\])?$")
_THROTTLE = Regex(r"^clocks_(?:throttle|event)_reasons\.(\w+)$")
_INVALID = Regex(r"Field \"?([\w.]+)\"? is not a valid field to query", re.IGNORECASE)


def invalid_field(text: str) -> str | None:
    """The field that this nvidia-smi is too old (or too new) to know, None when it complains of none."""
    match = _INVALID.search(text)
    return match.group(1) if match else None


def query_fields(command: str) -> tuple[str, ...] | None:
    """The fields of a command line with --query-gpu=..., None when it has none."""
    match = re.search(r"--query-gpu[= ]\"?'?([\w.,]+)", command)
    return tuple(f for f in match.group(1).split(",") if f) if match else None


class Row:
    """One line of the answer: the GPU and the driver version if that was asked for."""

    __slots__ = ("driver_version", "gpu", "line")

    def __init__(self, gpu: NvidiaGpu, driver_version: str | None, line: int) -> None:
        self.gpu = gpu
        self.driver_version = driver_version
        self.line = line


def parse_query(text: str, fields: Sequence[str] | None = None) -> list[Row] | None:
    """Reads the CSV answer. `fields` names the columns where no header line does.

    Lines that do not fit (a shell prompt, an error message) are left out. None when there is neither a header nor
    `fields`; [] when there is one and no row.
    """
    columns: tuple[str, ...] | None = tuple(fields) if fields else None
    rows: list[Row] = []
    for position, line in enumerate(clean_lines(text)):
        if len(line) > 2000:
            continue
        cells = [cell.strip() for cell in line.strip().split(",")]
        header = _header(cells)
        if header:
            if rows:
                break  # a second answer in the same paste
            columns = header
            continue
        if columns is None or len(cells) != len(columns) or not line.strip():
            continue
        row = _row(columns, cells, position + 1)
        if row is not None:
            rows.append(row)
    return None if columns is None else rows


def _header(cells: list[str]) -> tuple[str, ...] | None:
    names = []
    for cell in cells:
        match = _COLUMN.match(cell)
        if match is None:
            return None
        names.append(match.group(1))
    known = [name for name in names if name in _FIELDS or name in _OTHER or _THROTTLE.match(name)]
    return tuple(names) if known and 2 * len(known) >= len(names) else None


def _row(columns: Sequence[str], cells: Sequence[str], line: int) -> Row | None:
    values: dict[str, Any] = {}
    reasons: list[str] | None = None
    driver: str | None = None
    trouble: str | None = None
    for column, cell in zip(columns, cells, strict=True):
        trouble = trouble or broken(cell)
        throttle = _THROTTLE.match(column)
        if throttle:
            reasons = _reasons(throttle.group(1), cell, reasons)
        elif column == "driver_version":
            driver = word(cell)
        elif column in _FIELDS:
            name, convert = _FIELDS[column]
            value = convert(cell)
            if value is not None:
                values[name] = value
    if not values and driver is None and trouble is None and reasons is None:
        return None
    if "index" in columns and "index" not in values and trouble is None:
        return None  # some other comma-separated line
    if reasons is not None:
        values["throttle_reasons"] = tuple(reasons)
    if trouble is not None and "memory_total" not in values:
        # Single cells can be "[Unknown Error]" on healthy boards; a GPU whose memory cannot be read is another matter.
        values["error"] = trouble
    return Row(NvidiaGpu(**values), driver, line)


_REASONS = {
    "applications_clocks_setting": "Applications Clocks Setting",
    "sw_power_cap": "SW Power Cap",
    "hw_slowdown": "HW Slowdown",
    "hw_thermal_slowdown": "HW Thermal Slowdown",
    "hw_power_brake_slowdown": "HW Power Brake Slowdown",
    "sw_thermal_slowdown": "SW Thermal Slowdown",
    "sync_boost": "Sync Boost",
    "display_clock_setting": "Display Clock Setting",
}
# Bits of clocks_event_reasons.active (nvml.h, nvmlClocksEventReason*); 0x1 is "GPU idle", which throttles nothing.
_BITS = {
    0x2: "Applications Clocks Setting",
    0x4: "SW Power Cap",
    0x8: "HW Slowdown",
    0x10: "Sync Boost",
    0x20: "SW Thermal Slowdown",
    0x40: "HW Thermal Slowdown",
    0x80: "HW Power Brake Slowdown",
    0x100: "Display Clock Setting",
}


def _reasons(name: str, cell: str, before: list[str] | None) -> list[str] | None:
    if name == "active":
        match = re.match(r"0x([0-9a-fA-F]+)$", cell.strip())
        if match is None:
            return before
        bits = int(match.group(1), 16)
        return (before or []) + [text for bit, text in _BITS.items() if bits & bit]
    active = yes(cell)
    if name not in _REASONS or active is None:
        return before
    return (before or []) + ([_REASONS[name]] if active else [])
