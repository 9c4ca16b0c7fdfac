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

_LAST = 5
"""Epochs at the end that are taken together, at most: with a constant rate single epochs are noisy."""

_BLOCKS = 3
"""Stretches of that many epochs, counted from the end, that the spread is taken from."""

# Two-sided 99.9 % points of Student's t by degrees of freedom: the chance of one false alarm in a thousand runs.
_T = {
    1: 636.6, 2: 31.60, 3: 12.92, 4: 8.610, 5: 6.869, 6: 5.959, 7: 5.408, 8: 5.041, 9: 4.781, 10: 4.587, 12: 4.318,
    14: 4.140, 16: 4.015, 18: 3.922, 20: 3.850, 24: 3.745, 30: 3.646, 40: 3.551, 60: 3.460,
}  # fmt: skip


@dataclass(frozen=True)
class Band:
    """One figure of merit over the recorded seeds."""

    what: str
    """"train_accuracy" or "test_accuracy", a share of 1."""
    epochs: int
    over: int
    """The figure is the mean over this many last epochs."""
    blocks: tuple[tuple[float, ...], ...]
    """The means over `over` epochs, one a seed; the last stretch of the run first, then those before it."""

    @property
    def values(self) -> tuple[float, ...]:
        """What each seed reached at the end."""
        return self.blocks[0]

    @property
    def mean(self) -> float:
        """Mean over the seeds."""
        return sum(self.values) / len(self.values)

    @property
    def freedom(self) -> int:
        """Degrees of freedom of the spread."""
        return len(self.blocks) * (len(self.values) - 1)

    @property
    def spread(self) -> float | None:
        """Standard deviation between seeds, pooled over the stretches; None for one seed.

        Pooled, because three seeds alone tell a spread only within a factor of ten. Earlier stretches vary more than
        the last one, if anything, so that errs to the wide side.
        """
        if not self.freedom:
            return None
        squares = 0.0
        for block in self.blocks:
            mean = sum(block) / len(block)
            squares += sum((value - mean) ** 2 for value in block)
        return math.sqrt(squares / self.freedom)

    @property
    def limits(self) -> tuple[float, float] | None:
        """Where the next run lies, but for one in a thousand; None where the seeds are too few to say."""
        spread = self.spread
        if spread is None or len(self.values) < LEAST_SEEDS:
            return None
        half = _T[max(k for k in _T if k <= self.freedom)] * spread * math.sqrt(1 + 1 / len(self.values))
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
    over = min(_LAST, max(1, epochs // 4))
    # The first epoch is another thing than those after it: it starts from nothing.
    ends = [end for end in range(epochs, epochs - _BLOCKS * over, -over) if end - over >= 1] or [epochs]
    return Band(
        what,
        epochs,
        over,
        tuple(
            tuple(sum(float(row[what]) for row in curve[end - over : end]) / over for curve in curves) for end in ends
        ),
    )
