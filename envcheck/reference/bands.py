"""Accuracy bands: what full trainings of other seeds reached, and where the next one has to lie."""

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

WIDEST = 0.15
"""Half width above which a band would let everything through: then it is said that there are too few seeds."""

NARROWEST = 0.01
"""Half width that is granted anyway: other devices round otherwise."""

_REAL = 4.0
"""Ratio of the variance between seeds to that within from which it is taken for real (F at 5 % is 3.4 to 4.5 here)."""

_HIDDEN = 2.0
"""Factor on the variance below that: differences between seeds as large as the scatter explains may hide behind it."""

# Two-sided 99.9 % points of Student's t by degrees of freedom: the chance of one false alarm in a thousand runs.
_T = {
    1: 636.6, 2: 31.60, 3: 12.92, 4: 8.610, 5: 6.869, 6: 5.959, 7: 5.408, 8: 5.041, 9: 4.781, 10: 4.587, 12: 4.318,
    14: 4.140, 16: 4.015, 18: 3.922, 20: 3.850, 24: 3.745, 30: 3.646, 40: 3.551, 60: 3.460,
}  # fmt: skip


@dataclass(frozen=True)
class Band:
    """One figure of merit over the recorded seeds: its mean over the second half of the epochs.

    With a constant learning rate the accuracy of single epochs scatters (on the test set by several points), while
    the second half as a whole hardly differs from seed to seed.
    """

    what: str
    """"train_accuracy" or "test_accuracy", a share of 1."""
    epochs: int
    runs: tuple[tuple[float, ...], ...]
    """For each seed the values of the epochs in the second half, all of the same length."""

    @property
    def over(self) -> int:
        """How many epochs the mean is taken over."""
        return len(self.runs[0])

    @property
    def values(self) -> tuple[float, ...]:
        """The mean of each seed."""
        return tuple(sum(run) / len(run) for run in self.runs)

    @property
    def mean(self) -> float:
        """Mean over the seeds."""
        return sum(self.values) / len(self.values)

    def _variances(self) -> tuple[float, float, int, int]:
        """(mean square between seeds, within seeds, degrees of freedom of each), the common course taken out."""
        seeds, over = len(self.runs), self.over
        course = [sum(column) / seeds for column in zip(*self.runs, strict=True)]
        shifts = [value - self.mean for value in self.values]
        between = over * sum(shift**2 for shift in shifts)
        within = sum(
            (value - course[n] - shift) ** 2
            for run, shift in zip(self.runs, shifts, strict=True)
            for n, value in enumerate(run)
        )
        free, rest = seeds - 1, (seeds - 1) * (over - 1)
        return between / max(free, 1), within / max(rest, 1), free, rest

    @property
    def freedom(self) -> int:
        """Degrees of freedom of the spread."""
        between, within, free, rest = self._variances()
        return free if between > _REAL * within else free + rest

    @property
    def spread(self) -> float | None:
        """Standard deviation of one seed's mean; None for one seed.

        Where seeds differ by no more than the scatter of single epochs explains, that scatter tells the spread, with
        room for what may hide behind it: three seeds alone would tell it only within a factor of ten.
        """
        between, within, free, rest = self._variances()
        if not free:
            return None
        pooled = (between * free + within * rest) / (free + rest)
        return math.sqrt((between if between > _REAL * within else _HIDDEN * pooled) / self.over)

    @property
    def limits(self) -> tuple[float, float] | None:
        """Where the next run lies, but for one in a thousand; None where the seeds are too few to say."""
        spread = self.spread
        if spread is None or len(self.runs) < LEAST_SEEDS:
            return None
        half = _T[max(k for k in _T if k <= self.freedom)] * spread * math.sqrt(1 + 1 / len(self.runs))
        half = max(half, NARROWEST)
        return None if half > WIDEST else (max(0.0, self.mean - half), min(1.0, self.mean + half))


def curves_file() -> Path:
    """Where the recorded runs are."""
    return directory("matrices") / "reference" / "curves.json"


def bands(epochs: int, data: str = "cifar10", path: Path | None = None) -> tuple[Band, ...]:
    """The bands of a run of that many epochs on that data ("cifar10" or "made"); () where none is recorded.

    The learning rate is constant, so the first epochs of a longer run are a run of that length.

    Raises:
        MatrixError: the file is damaged.
    """
    path = path or curves_file()
    if epochs < 1 or not path.is_file():
        return ()
    try:
        document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        curves = [run["epochs"] for run in document["runs"] if run["data"] == data and len(run["epochs"]) >= epochs]
        return tuple(_band(what, curves, epochs) for what in ("train_accuracy", "test_accuracy") if curves)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise MatrixError(f"{path}: {error!r}") from error


def _band(what: str, curves: list[list[dict[str, Any]]], epochs: int) -> Band:
    first = epochs // 2
    return Band(what, epochs, tuple(tuple(float(row[what]) for row in curve[first:epochs]) for curve in curves))
