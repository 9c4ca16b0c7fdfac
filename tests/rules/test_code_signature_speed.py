"""No pattern of these catalogues may backtrack badly, whatever stands around its needle."""

from __future__ import annotations

import random
import re

import pytest

from envcheck.symptoms import code, driver, platform, runtime
from envcheck.symptoms.base import Signature
from tests.pace import search_within

LINE = 4500
"""Characters of one line that the engine hands to a pattern at most."""
LIMIT = 0.4
"""Seconds for one window; a pattern that backtracks badly takes minutes."""

SIGNATURES = [
    pytest.param(signature, id=f"{module.__name__.rpartition('.')[2]}-{number}-{signature.kind}")
    for module in (driver, platform, runtime, code)
    for number, signature in enumerate(module.SIGNATURES)
]


def windows(signature: Signature) -> list[str]:
    """The needle among repetitions of itself, of single characters, and of the pattern's own words in any order."""
    count = signature.before + 1 + signature.after
    words = re.findall(r"[A-Za-z/_.<>-]{3,}", re.sub(r"\\[wdsbSWA]|\?P<\w+>", " ", signature.pattern)) or ["x"]
    shuffled = random.Random(7)
    lines = []
    for needle in signature.needles[:4]:
        lines += [
            (needle + " ") * (LINE // (len(needle) + 1)),
            needle + "a" * LINE,
            needle + "1." * (LINE // 2),
            needle + " (" * (LINE // 2),
            needle + "[x]:" * (LINE // 4),
            (needle + " " + " ".join(shuffled.choices(words, k=600)))[:LINE],
            (needle + "".join(shuffled.choices([w + " 1.5 GiB; " for w in words], k=300)))[:LINE],
            (" ".join(shuffled.choices(words, k=600)))[: LINE - len(needle)] + needle,
        ]
    return ["\n".join([line[:LINE]] * count) for line in lines]


@pytest.mark.parametrize("signature", SIGNATURES)
def test_adversarial_lines_cost_little(signature: Signature) -> None:
    pattern = re.compile(signature.pattern, re.IGNORECASE | re.MULTILINE)
    for window in windows(signature):
        assert search_within(LIMIT, pattern, window), window[:120]


@pytest.mark.parametrize("signature", SIGNATURES)
def test_needles_are_lower_case_literals_that_say_something(signature: Signature) -> None:
    assert signature.needles
    for needle in signature.needles:
        assert needle == needle.lower()
        assert len(needle.strip()) >= 3
