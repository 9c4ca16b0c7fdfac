"""Determinism audit of an installation: settings, experiments that leave one of them loose, operations one by one."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from envcheck.errors import TargetError
from envcheck.reference.experiments import Experiments, experiments
from envcheck.reference.settings import loose_now, settings
from envcheck.target import PAYLOADS, child_environment, run_payload

LIMIT = 900.0
"""Seconds for all operations; each has 120."""


@dataclass
class Audit:
    """What was found."""

    machine: dict[str, Any]
    settings: list[dict[str, Any]]
    operations: list[dict[str, Any]]
    experiments: Experiments = field(default_factory=Experiments)


def audit(
    python: Path, device: str, *, compiled: bool = False, on_progress: Callable[[str], None] | None = None
) -> Audit:
    """Settings, experiments and operations of that interpreter and device.

    Raises:
        TargetError: torch did not answer.
    """
    found = operations(python, device, on_progress)
    found.experiments = experiments(
        python, str(found.machine.get("device", device)), compiled=compiled, on_progress=on_progress
    )
    return found


def operations(python: Path, device: str, on_progress: Callable[[str], None] | None = None) -> Audit:
    """The part that one process answers: settings, and operations tried one by one.

    Raises:
        TargetError: torch did not answer.
    """

    def progress(name: str, answer: dict[str, Any] | None) -> None:
        if on_progress is not None and answer is None:
            on_progress(f"operations: {name}")

    answer = run_payload(
        python,
        PAYLOADS / "reference_audit.py",
        ("--device", device),
        timeout=LIMIT,
        limit=120,
        env=child_environment(python),
        on_stage=progress,
    )
    machine = answer.stage("machine")
    if machine is None:
        raise TargetError(answer.problem() or f"{python}: torch did not answer ({answer.kind}): {answer.last_words()}")
    machine = {**machine, "autotuning": (answer.stage("autotuning") or {}).get("autotuning", {})}
    keys = ("operation", "status", "text", "differs_when_off")
    rows: list[dict[str, Any]] = [{k: s.get(k) for k in keys} for s in answer.stages if "operation" in s]
    if answer.kind != "answered" and answer.during not in (None, "autotuning"):
        rows.append(
            {
                "operation": answer.during,
                "status": "crashed",
                "text": answer.outcome.signal or answer.outcome.detail or answer.kind,
                "differs_when_off": None,
            }
        )
    return Audit(machine, settings(machine), rows)


def document(found: Audit) -> dict[str, Any]:
    """The `audit` object of the JSON report."""
    machine = {k: v for k, v in found.machine.items() if k not in ("stage", "seconds")}
    made = found.experiments
    return {
        "machine": machine,
        "settings": found.settings,
        "controls": [_result(result, found.machine) for result in made.controls.values()],
        "experiments": [_result(result, found.machine) for result in made.results],
        "operations": found.operations,
    }


def _result(result: Any, machine: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": result.name,
        "loose": result.loose,
        "loose_now": loose_now(machine, result.name),
        "status": result.status,
        "text": result.text,
        "twice": difference(result.twice),
        "against_strict": difference(result.against),
        "cure": result.cure,
    }


def difference(found: Any) -> dict[str, Any] | None:
    """A difference as JSON: step, kind, name, and how far apart the two values are where that can be told."""
    if found is None:
        return None
    return {
        "step": found.step,
        "where": found.where,
        "kind": found.kind,
        "name": found.name,
        "detail": found.detail,
        "sums": None if found.sums is None else [_number(v) for v in found.sums],
        "apart": None if found.apart is None else _number(found.apart),
        "equal_before": found.before,
    }


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
