"""Are they the very bits that were recorded elsewhere? Told, never held against a machine: rounding is its own affair."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from envcheck.reference.measure import Measured

BITS_STEP = 6
"""The step of the repeated run whose weights are recorded: all presets reach it."""


def conditions(machine: Mapping[str, Any], mode: str) -> dict[str, Any]:
    """What bits depend on, as far as it is known: equal conditions may give equal bits."""
    line = ".".join(str(machine.get("torch", "")).split("+")[0].split(".")[:2])
    kind = str(machine.get("device", "")).partition(":")[0]
    if mode == "portable":
        return {"mode": mode, "torch": line, "device": kind}
    name = machine.get("cpu_capability") if kind == "cpu" else machine.get("device_name")
    threads = (machine.get("settings") or {}).get("get_num_threads") if kind == "cpu" else None
    return {"mode": mode, "torch": line, "device": kind, "on": name, "threads": threads}


def weights_after(steps: list[dict[str, Any]]) -> str | None:
    """Hash of the weights after BITS_STEP steps."""
    return next((str(step["weights"]) for step in steps if step["step"] == BITS_STEP), None)


def judge_bits(claim: Callable[..., None], measured: Measured, golden: Mapping[str, Any], device: str) -> None:
    """One claim for the device as it is, one for the run that is held to common instructions."""
    machine = measured.stages.get("machine", {})
    runs = [("portable", measured.steps.get("strict:portable", []))]
    if not measured.options.training:
        runs.insert(0, ("native", measured.steps.get("strict:1", [])))
    for mode, steps in runs:
        seen = weights_after(steps)
        if seen is not None:
            status, text = _against(conditions(machine, mode), seen, golden.get("bits", []))
            claim(f"bits-{mode}", status, text, None, device)


def _against(here: dict[str, Any], seen: str, records: list[dict[str, Any]]) -> tuple[str, str]:
    same = [record for record in records if record["conditions"] == here]
    what = "held to AVX2 and one thread" if here["mode"] == "portable" else f"torch {here['torch']}"
    equal = [record for record in same if record["weights"] == seen]
    if equal:
        return "proved", f"{what}: the very bits recorded on {equal[0]['on']}"
    if same:
        return "skipped", f"{what}: other bits than recorded on {same[0]['on']}; alone that is no fault"
    other = next((record for record in records if record["weights"] == seen), None)
    if other is not None:
        return "proved", f"{what}: the very bits recorded with torch {other['conditions']['torch']} on {other['on']}"
    return "skipped", f"{what}: no bits are recorded for torch {here['torch']} on such a device"
