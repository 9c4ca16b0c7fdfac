"""Two saved reports: which level of equality holds between them, and where they part."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from envcheck.errors import UsageError
from envcheck.reference.judge import first_difference

KEYS = ("loss", "norm", "weights", "statistics")


def read(path: Path) -> dict[str, Any]:
    """The `reference` object of a saved report.

    Raises:
        UsageError: unreadable or something else.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: {error}") from error
    found = document.get("reference") if isinstance(document, dict) else None
    if not isinstance(found, dict) or "levels" not in found:
        raise UsageError(f"{path}: not a report of `envcheck reference` (make one with --record FILE)")
    return found


def compare(one: dict[str, Any], other: dict[str, Any], tolerances: dict[str, Any]) -> dict[str, Any]:
    """{"equality": ..., "text": ..., "rows": [...]}; the strongest level that holds.

    "bits" (every step of the repeated run), "numbers" (trajectories within tolerance), "inputs", "none".
    """
    rows = [_inputs(one, other), *_numbers(one, other, tolerances), _bits(one, other)]
    rows += _machine(one, other)
    holds = {row["level"]: row["equal"] for row in rows}
    numbers = [row["equal"] for row in rows if row["level"] in ("logic", "smooth")]
    if holds.get("bits"):
        equality, text = "bits", "the same bits in every step"
    elif holds.get("inputs") and numbers and all(numbers):
        equality, text = "numbers", "the same numbers within rounding, not the same bits"
    elif holds.get("inputs"):
        equality, text = "inputs", "the same inputs, but other numbers"
    else:
        equality, text = "none", "not even the inputs are the same"
    return {"equality": equality, "text": text, "rows": rows}


def _row(level: str, equal: bool | None, text: str) -> dict[str, Any]:
    return {"level": level, "equal": equal, "text": text}


def _inputs(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    a, b = one.get("inputs") or {}, other.get("inputs") or {}
    wrong = [name for name in a if b.get(name) != a[name]]
    equal = bool(a) and not wrong and len(a) == len(b)
    return _row("inputs", equal, "equal" if equal else f"differ: {', '.join(wrong) or 'not recorded'}")


def _numbers(one: dict[str, Any], other: dict[str, Any], tolerances: dict[str, Any]) -> list[dict[str, Any]]:
    rows = []
    for task in ("logic", "smooth"):
        a, b = one.get(task) or {}, other.get(task) or {}
        if not a.get("steps") or not b.get("steps"):
            continue
        first, worst = None, 0.0
        for number, (x, y) in enumerate(zip(a["steps"], b["steps"], strict=False), 1):
            for key in KEYS:
                left, right = float.fromhex(x[key]), float.fromhex(y[key])
                size = abs(left - right) / max(abs(left), 1e-3)
                worst = max(worst, size)
                # Two runs may lie on both sides of the recorded one.
                if first is None and not size <= 2 * tolerances[task][key]:
                    first = f"step {number}: {key} {left!r} and {right!r}"
        text = f"largest relative difference {worst:.1e}" if first is None else f"part at {first}"
        rows.append(_row(task, first is None, text))
    return rows


def _bits(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    a, b = ((report.get("repeats") or {}).get("strict:1", []) for report in (one, other))
    if not a or not b:
        return _row("bits", None, "not recorded")
    difference = first_difference(a, b)
    return _row(
        "bits", difference is None, "every step equal" if difference is None else f"first difference at {difference}"
    )


def _machine(one: dict[str, Any], other: dict[str, Any]) -> list[dict[str, Any]]:
    a, b = one.get("machine") or {}, other.get("machine") or {}
    flat_a, flat_b = ({**m, **(m.get("settings") or {}), **(m.get("variables") or {})} for m in (a, b))
    names = [n for n in {**flat_a, **flat_b} if n not in ("settings", "variables") and flat_a.get(n) != flat_b.get(n)]
    return [_row("machine", False, f"{name}: {flat_a.get(name)} and {flat_b.get(name)}") for name in names]
