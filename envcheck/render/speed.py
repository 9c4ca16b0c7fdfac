"""What was measured, as a table for a person: each device with its rates, its readings under load, and the findings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rich.markup import escape

from envcheck.facts import Facts, Measurement, UnderLoad

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from envcheck.findings import Finding

STYLES = {"error": "bold red", "warning": "yellow", "note": "cyan"}


def show_speed(
    console: Console, facts: Facts, peaks: Mapping[tuple[str, str], float], findings: Sequence[Finding], *, quiet: bool
) -> None:
    """Prints it. peaks: (device, name of the measurement) -> what the hardware gives at most."""
    measurements = facts.speed or ()
    watched = {load.device: load for load in facts.under_load or ()}
    for device in dict.fromkeys([*(m.device for m in measurements), *watched]) if not quiet else ():
        load = watched.get(device)
        name = f"  {load.name}" if load is not None and load.name else ""
        console.print(f"[bold]{escape(device)}[/]{escape(name)}")
        for item in measurements:
            if item.device == device:
                console.print(f"  {line(item, peaks.get((device, item.name)))}", markup=False, soft_wrap=True)
        readings = under_load(load) if load is not None else ""
        if readings:
            console.print(f"  under load: {readings}", markup=False, soft_wrap=True)
    for finding in findings:
        style = STYLES.get(finding.severity, "")
        console.print(
            f"[{style}]{finding.severity:<8}[/]{escape(f'{finding.title}  [{finding.rule}]')}", soft_wrap=True
        )
        if quiet:
            continue
        console.print(f"        {escape(finding.seen)}", soft_wrap=True)
        console.print(f"        {escape(finding.remedy.text)}", soft_wrap=True)
        for command in finding.remedy.commands:
            console.print(f"          {escape(command)}", soft_wrap=True)


def line(item: Measurement, peak: float | None = None) -> str:
    """One measurement: name, setting, value, share of the peak, lowest and highest sample."""
    name = item.name if item.case is None else f"{item.name} {item.case}"
    unit = "" if item.unit == "ratio" else f" {item.unit}"
    value = f"{item.value:.4g}" + ("x" if item.unit == "ratio" else "")
    text = f"{name:<26}{value:>9}{unit:<10}"
    if peak:
        text += f" {100 * item.value / peak:3.0f} % of {peak:.4g}"
    if item.low is not None and item.high is not None:
        text += f"  ({item.low:.3g} to {item.high:.3g})"
    share = item.details.get("cpu_share")
    if share is not None and share < 0.8:
        text += f"  with {100 * share:.0f} % of its CPU time"
    return text.rstrip()


def under_load(load: UnderLoad) -> str:
    """The readings of a GPU in one line; "" when there are none."""
    if not load.samples:
        return ""
    parts = [
        _of("", load.temperature_max, None, "C"),
        _of("", load.power_draw_max, load.power_limit, "W"),
        _of("SM ", load.clocks_sm, load.clocks_sm_max, "MHz"),
    ]
    if load.pcie_gen is not None and load.pcie_width is not None:
        parts.append(f"PCIe x{load.pcie_width} gen {load.pcie_gen}")
    for reason, share in (load.throttle or {}).items():
        parts.append(f"{reason} {100 * share:.0f} %")
    return ", ".join(part for part in parts if part)


def _of(name: str, value: float | None, most: float | None, unit: str) -> str:
    if value is None:
        return ""
    return f"{name}{value:.0f}" + (f" of {most:.0f}" if most is not None else "") + f" {unit}"
