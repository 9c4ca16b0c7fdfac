"""A picture of the curves, drawn by whichever Python has matplotlib: envcheck's own, or the one under test."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from envcheck.errors import UsageError
from envcheck.reference.bands import bands
from envcheck.reference.result import NAMES
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
            said = said or answer.last_words()
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
        "data": NAMES[reference["data"]],
        "epochs": epochs,
        "bands": _bands(len(epochs), reference["data"]),
    }


def _bands(epochs: int, data: str) -> list[dict[str, Any]]:
    """For each figure of merit the limits of every epoch that has some: {"what", "seeds", "limits": [[epoch, low, high]]}."""
    found: dict[str, dict[str, Any]] = {}
    for epoch in range(1, epochs + 1):
        for band in bands(epoch, data):
            row = found.setdefault(band.what, {"what": band.what, "seeds": len(band.values), "limits": []})
            if band.limits is not None:
                row["limits"].append([epoch, *band.limits])
    return list(found.values())
