"""The report of the contract, with a `reference` object beside findings and verdict."""

from __future__ import annotations

from typing import Any

import msgspec

from envcheck.findings import SCHEMA
from envcheck.redact import redact_document
from envcheck.reference.judge import Judgement
from envcheck.reference.measure import Measured


def document(measured: Measured, judgement: Judgement) -> dict[str, Any]:
    """The JSON-ready report, without what identifies a person: it is made to be compared with other people's."""
    report = {
        "schema": SCHEMA,
        "verdict": judgement.verdict,
        "findings": msgspec.to_builtins(judgement.findings),
        "checks": msgspec.to_builtins(judgement.checks),
        "skipped": msgspec.to_builtins(judgement.skipped),
        "reference": reference(measured, judgement),
    }
    shared: dict[str, Any] = redact_document(report)
    return shared


def reference(measured: Measured, judgement: Judgement) -> dict[str, Any]:
    """Everything that was measured, exact."""
    options = measured.options
    stages = measured.stages
    machine = {k: v for k, v in stages.get("machine", {}).items() if k not in ("stage", "seconds")}
    return {
        "preset": options.preset,
        "python": str(options.python),
        "machine": machine,
        "levels": judgement.levels,
        "data": next((str(e["source"]) for e in measured.training if e["stage"] == "data"), "made"),
        "inputs": stages.get("inputs", {}).get("hashes"),
        "logic": _trajectory(stages.get("logic")),
        "smooth": _trajectory(stages.get("smooth")),
        "precision": {
            "defaults": stages.get("shadow", {}).get("errors"),
            "strict": stages.get("smooth", {}).get("shadows"),
        },
        "repeats": {
            name: [
                {k: step.get(k) for k in ("step", "loss", "norm", "images", "gradients", "weights")} for step in steps
            ]
            for name, steps in measured.steps.items()
        },
        "ends": {name: {k: end.get(k) for k in ("weights", "history")} for name, end in measured.repeated.items()},
        "killed_at": measured.killed_at or None,
        "rates": {k: v for k, v in stages.get("rates", {}).items() if k != "stage"} or None,
        "training": [
            event for event in measured.training if event["stage"] in ("data", "self-check", "start", "epoch")
        ],
    }


def _trajectory(stage: dict[str, Any] | None) -> dict[str, Any] | None:
    if stage is None:
        return None
    return {k: stage[k] for k in ("steps", "eval", "worst", "first", "notes", "skipped") if k in stage}
