"""How slow this machine is now: limits in seconds were set on a quiet one, and a shared one may be three times slower."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

NOMINAL = 0.041
"""Seconds of processor time of the yardstick on the machine on which the limits were set."""

_YARDSTICK = re.compile(r"(?:[a-f]+|x)(?=y)")


def slowness() -> float:
    """1 on a machine as fast as that one or faster, 2 on one that needs twice the time."""
    started = time.process_time()
    _YARDSTICK.search("abcdef" * 450)
    return max(1.0, (time.process_time() - started) / NOMINAL)


def within(limit: float, work: Callable[[], float], tries: int = 3) -> tuple[bool, float]:
    """(whether the seconds that `work` returns stay below the limit at this machine's pace, the least seconds).

    Tried again where they do not: what is really slow is slow each time.
    """
    least = float("inf")
    for _ in range(tries):
        before = slowness()
        least = min(least, spent := work())
        if spent < limit * max(before, slowness()):
            return True, least
    return False, least


def search(pattern: re.Pattern[str], text: str) -> float:
    """Seconds of processor time of one search."""
    started = time.process_time()
    pattern.search(text)
    return time.process_time() - started


def search_within(limit: float, pattern: re.Pattern[str], text: str) -> bool:
    """Whether a search is quick enough at this machine's pace; most are told by the first look."""
    return search(pattern, text) < limit or within(limit, lambda: search(pattern, text))[0]
