"""Everything that nvidia-smi prints, read from text: used on the live machine and on what people paste alike.

parse(text)          whatever of the forms below stands in a text, put together
parse_screen(text)   the plain screen
parse_query(text)    --query-gpu=... --format=csv
parse_report(text)   -q
parse_list(text)     -L
parse_version(text)  --version
find_error(text)     its messages of failure, as kinds
"""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from envcheck.facts import Nvidia, NvidiaGpu, Outcome
from envcheck.nvidia_smi.errors import SmiError, find_error, library_version, lost_gpus, missing_program, smi_error
from envcheck.nvidia_smi.listing import Versions, parse_list, parse_version
from envcheck.nvidia_smi.merge import merge_gpus
from envcheck.nvidia_smi.query import Row, invalid_field, parse_query, query_fields
from envcheck.nvidia_smi.report import Report, parse_report
from envcheck.nvidia_smi.screen import Screen, parse_screen
from envcheck.nvidia_smi.units import bus_id, compute_mode

__all__ = [
    "Reading",
    "Report",
    "Row",
    "Screen",
    "SmiError",
    "Versions",
    "bus_id",
    "compute_mode",
    "find_error",
    "invalid_field",
    "library_version",
    "lost_gpus",
    "merge_gpus",
    "missing_program",
    "parse",
    "parse_list",
    "parse_query",
    "parse_report",
    "parse_screen",
    "parse_version",
    "query_fields",
    "smi_error",
]


@dataclass(frozen=True)
class Reading:
    """All that one text says by way of nvidia-smi. `lines` has the line (from 1) of the values it names."""

    driver_version: str | None = None
    driver_cuda: str | None = None
    smi_version: str | None = None
    gpus: tuple[NvidiaGpu, ...] | None = None
    error: SmiError | None = None
    missing: bool = False
    """A shell says that there is no nvidia-smi."""
    lines: dict[str, int] = field(default_factory=dict)

    @property
    def outcome(self) -> Outcome | None:
        """How the program went; None when the text shows no sign of it."""
        if self.error is not None:
            return Outcome(status="failed", error=self.error.text)
        if self.gpus or self.driver_version or self.smi_version:
            return Outcome(status="ok")
        return Outcome(status="missing") if self.missing else None

    def facts(self) -> Nvidia:
        """The reading as part of Facts."""
        gpus = self.gpus
        if gpus is None and self.error is not None and self.error.kind == "no-devices":
            gpus = ()
        return Nvidia(
            smi=self.outcome,
            smi_error=self.error.kind if self.error else None,
            driver_version=self.driver_version,
            smi_version=self.smi_version,
            driver_cuda=self.driver_cuda,
            gpus=gpus,
        )


def parse(text: str, fields: tuple[str, ...] | None = None) -> Reading | None:
    """Reads whatever nvidia-smi printed into a text, in all forms; None when there is none of it.

    `fields` names the columns of a CSV answer without header; a command line with --query-gpu in the text does as well.
    """
    error = find_error(text)
    missing = error is None and missing_program(text)
    columns = fields or (query_fields(text) if "--query-gpu" in text else None)
    rows = parse_query(text, columns) if "," in text else None
    found_screen = parse_screen(text) if "|" in text or "NVIDIA-SMI" in text else None
    found_report = parse_report(text) if "NVSMI LOG" in text or "Product Name" in text else None
    found_versions = parse_version(text) if "NVIDIA-SMI version" in text else None
    listed = parse_list(text) if "GPU " in text else None
    if not (error or missing or rows or found_screen or found_report or found_versions or listed):
        return None
    screen, report, versions = found_screen or Screen(), found_report or Report(), found_versions or Versions()
    lines = {**report.lines, **versions.lines, **screen.lines}
    if error is not None:
        lines["smi_error"] = error.line
    driver = screen.driver_version or versions.driver_version or report.driver_version
    if driver is None:
        told = next((row for row in rows or () if row.driver_version), None)
        if told is not None:
            driver = told.driver_version
            lines["driver_version"] = told.line
    if driver is None and error is not None:
        driver = library_version(text)
    smi = screen.smi_version or versions.smi_version
    return Reading(
        driver_version=driver,
        driver_cuda=screen.driver_cuda or versions.driver_cuda or report.driver_cuda,
        smi_version=None if smi == driver else smi,
        gpus=merge_gpus(_indexed(rows), report.gpus, screen.gpus, listed, lost_gpus(text)),
        error=error,
        missing=missing,
        lines=lines,
    )


def _indexed(rows: list[Row] | None) -> tuple[NvidiaGpu, ...] | None:
    """The rows' GPUs; without an index or address column nvidia-smi's order is the index."""
    if not rows:
        return None
    gpus = [row.gpu for row in rows]
    if all(gpu.index is None and gpu.bus_id is None for gpu in gpus):
        gpus = [msgspec.structs.replace(gpu, index=number) for number, gpu in enumerate(gpus)]
    return tuple(gpus)
