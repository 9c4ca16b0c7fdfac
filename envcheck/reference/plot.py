"""A picture of the curves, drawn by whichever Python has matplotlib: envcheck's own, or the one under test."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from envcheck.errors import UsageError
from envcheck.reference.golden import bands
from envcheck.target import PAYLOADS, child_environment, run_payload


def draw(python: Path, reference: dict[str, Any], path: Path) -> None:
    """Writes the picture.

    Raises:
        UsageError: neither Python has matplotlib.
    """
    with tempfile.TemporaryDirectory(prefix="envcheck-") as folder:
        told = Path(folder) / "curves.json"
        told.write_text(json.dumps(curves(reference)), encoding="utf-8")
        said = ""
        for candidate in dict.fromkeys((sys.executable, str(python))):
            env = child_environment(Path(candidate))
            answer = run_payload(
                candidate, PAYLOADS / "reference_plot.py", (str(path.absolute()), str(told)), timeout=120, env=env
            )
            if answer.kind == "answered":
                return
            said = said or (answer.outcome.error or answer.kind).strip().splitlines()[-1]
    raise UsageError(f"--plot needs matplotlib in envcheck's environment or the one under test ({said})")


def curves(reference: dict[str, Any]) -> dict[str, Any]:
    """What the picture shows, as plain numbers."""
    epochs = [event for event in reference["training"] if event["stage"] == "epoch"]
    machine = reference["machine"]
    return {
        "title": f"torch {machine.get('torch')} on {machine.get('device_name') or machine.get('device')}",
        "losses": {
            task: [float.fromhex(step["loss"]) for step in (reference.get(task) or {}).get("steps", [])]
            for task in ("logic", "smooth")
        },
        "repeats": {
            name: [float.fromhex(step["loss"]) for step in steps] for name, steps in reference["repeats"].items()
        },
        "epochs": epochs,
        "bands": [
            {"what": band.what, "limits": band.limits, "seeds": len(band.values)}
            for band in (bands(len(epochs)) if epochs else ())
        ],
    }
