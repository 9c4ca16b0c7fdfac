"""The recorded values in `matrices/reference/`: trajectories and tolerances."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from envcheck.data import directory
from envcheck.errors import MatrixError


def golden_file() -> Path:
    """Where the golden trajectories are."""
    return directory("matrices") / "reference" / "golden.json"


def load_golden(path: Path | None = None) -> dict[str, Any]:
    """The golden trajectories.

    Raises:
        MatrixError: the file is missing or lacks a part.
    """
    path = path or golden_file()
    try:
        document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise MatrixError(f"{path}: {error}") from error
    for part in ("inputs", "logic", "smooth", "tolerances"):
        if part not in document:
            raise MatrixError(f"{path}: no '{part}'")
    for task in ("logic", "smooth"):
        for number, step in enumerate(document[task]["steps"], 1):
            if not all(math.isfinite(float.fromhex(value)) for value in step.values()):
                raise MatrixError(f"{path}: {task}, step {number}: not a number")
    return document
