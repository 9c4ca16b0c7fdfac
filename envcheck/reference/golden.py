"""The recorded values in `matrices/reference/`: trajectories, tolerances, accuracy bands."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envcheck.data import directory
from envcheck.errors import MatrixError

LEAST_SEEDS = 3
"""Fewer recorded runs give no spread worth the name, so no band."""

# Two-sided 99.9 % points of Student's t by degrees of freedom: the chance of one false alarm in a thousand runs.
_T = {2: 31.6, 3: 12.9, 4: 8.61, 5: 6.87, 6: 5.96, 7: 5.41, 8: 5.04, 9: 4.78, 14: 4.14, 19: 3.88, 29: 3.66}


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


@dataclass(frozen=True)
class Band:
    """What runs of other seeds reached."""

    what: str
    """"train_accuracy" of the last epoch, or "test_accuracy" (mean over the last `over` epochs)."""
    epochs: int
    values: tuple[float, ...]
    """One a seed."""
    over: int = 1

    @property
    def mean(self) -> float:
        """Mean over the seeds."""
        return sum(self.values) / len(self.values)

    @property
    def spread(self) -> float | None:
        """Standard deviation over the seeds; None for one seed."""
        if len(self.values) < 2:
            return None
        mean = self.mean
        return math.sqrt(sum((v - mean) ** 2 for v in self.values) / (len(self.values) - 1))

    @property
    def limits(self) -> tuple[float, float] | None:
        """Where the next run lies, but for one in a thousand; None with fewer than LEAST_SEEDS seeds."""
        spread = self.spread
        if spread is None or len(self.values) < LEAST_SEEDS:
            return None
        freedom = len(self.values) - 1
        factor = _T[max(k for k in _T if k <= freedom)]
        half = factor * spread * math.sqrt(1 + 1 / len(self.values))
        return self.mean - half, self.mean + half


def bands(epochs: int, path: Path | None = None) -> tuple[Band, ...]:
    """The bands of a run of that many epochs, from the recorded curves."""
    path = path or directory("matrices") / "reference" / "curves.json"
    if not path.is_file():
        return ()
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    curves = [seed["epochs"] for seed in document["seeds"] if len(seed["epochs"]) >= epochs]
    if not curves:
        return ()
    over = min(5, max(1, epochs // 4))
    train = tuple(float(curve[epochs - 1]["train_accuracy"]) for curve in curves)
    test = tuple(sum(float(row["test_accuracy"]) for row in curve[epochs - over : epochs]) / over for curve in curves)
    return Band("train_accuracy", epochs, train), Band("test_accuracy", epochs, test, over)
