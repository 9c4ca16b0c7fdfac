"""The third question: does a training end where it should? Data, self-checks, and accuracy against recorded seeds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from envcheck.findings import Finding, Remedy, Skipped
from envcheck.reference.bands import LEAST_SEEDS, Band, bands
from envcheck.reference.measure import Measured

NAMES = {"cifar10": "CIFAR-10", "made": "the images made from integers"}


def judge_result(
    findings: list[Finding], skipped: list[Skipped], claim: Callable[..., None], measured: Measured, device: str
) -> None:
    """Adds the claims about the training, in the order in which it went."""
    told = {event["stage"]: event for event in measured.training}
    source = str(told.get("data", {}).get("source", "made"))
    if "data" in told:
        claim("data", "proved", _data(source, told["data"]["checked"]), None, device)
    if "self-check" in told:
        claim("self-check", "proved", _self_check(told["self-check"]), None, device)
    history = told.get("done", {}).get("history", [])
    if not history or not measured.epochs:
        return
    recorded = bands(len(history), source)
    if not recorded:
        last = history[-1]["test_accuracy"]
        reason = f"test accuracy {last:.4f} after {_epochs(len(history))}; no run of that length on {NAMES[source]} is recorded"
        claim("test-accuracy", "skipped", reason, None, device)
        skipped.append(Skipped(rule="reference-accuracy", reason=reason))
    for band in recorded:
        rows = history[-band.over :]
        _against_band(findings, skipped, claim, band, sum(float(row[band.what]) for row in rows) / len(rows), device)


def _epochs(number: int) -> str:
    return f"{number} epoch{'s' if number > 1 else ''}"


def _data(source: str, checked: dict[str, Any]) -> str:
    files = "every file by md5, " if source == "cifar10" else ""
    counts = " and ".join(f"{checked[name]['images']:,} {name}" for name in ("train", "test"))
    return (
        f"{NAMES[source]}: {files}{counts} images; shapes, range, classes, mean and spread by channel as they should be"
    )


def _self_check(event: dict[str, Any]) -> str:
    norms = [norm for norm in event["gradient_norms"].values() if norm]
    return (
        f"one batch learnt by heart: loss {event['loss']:.1e} after 60 steps; "
        f"gradient norms by parameter up to {max(norms):.2g}, none missing"
    )


def _against_band(
    findings: list[Finding],
    skipped: list[Skipped],
    claim: Callable[..., None],
    band: Band,
    value: float,
    device: str,
) -> None:
    name, words = band.what.replace("_", "-"), band.what.replace("_", " ")
    seeds = len(band.values)
    over = f", mean of the last {band.over}" if band.over > 1 else ""
    text = f"{value:.4f} after {_epochs(band.epochs)}{over}; {seeds} recorded seed{'s' if seeds > 1 else ''} gave {band.mean:.4f}"
    limits = band.limits
    if limits is None:
        why = "too few for a band" if seeds < LEAST_SEEDS else "they scatter too much for a band"
        claim(name, "skipped", f"{text}: {why}", None, device)
        skipped.append(Skipped(rule="reference-accuracy", reason=f"{words}: {text}: {why}"))
        return
    text += f" (spread {band.spread:.4f}): band {limits[0]:.4f} to {limits[1]:.4f}"
    if limits[0] <= value <= limits[1]:
        claim(name, "proved", text, None, device)
        return
    claim(name, "failed", text, None, device)
    low = value < limits[0]
    findings.append(
        Finding(
            rule="reference-accuracy",
            severity="error" if low else "warning",
            area="reproducibility",
            title=f"{words} {value:.4f} lies {'below' if low else 'above'} the recorded band",
            seen=text,
            why="The same recipe with other seeds ended inside it; a seed outside is a chance of one in a thousand.",
            remedy=Remedy(text="Look at the levels above: a fault of data, precision or optimizer shows there first."),
        )
    )
