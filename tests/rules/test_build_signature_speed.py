"""No pattern about builds, installations and libraries may backtrack badly, whatever stands around its needle."""

from __future__ import annotations

import random
import re
import time

import pytest

from envcheck.symptoms import build, install, library
from envcheck.symptoms.base import Signature
from envcheck.symptoms.engine import recognise
from tests.pace import search_within, within

LINE = 4500
"""Characters of one line that the engine hands to a pattern at most."""
LIMIT = 0.4
"""Seconds for one window; a pattern that backtracks badly takes minutes."""

SIGNATURES = [
    pytest.param(signature, id=f"{module.__name__.rpartition('.')[2]}-{number}-{signature.kind}")
    for module in (build, install, library)
    for number, signature in enumerate(module.SIGNATURES)
]
TRACEBACK = '  File "/usr/lib/python3.11/site-packages/pkg/mod.py", line 12, in <module>'


def windows(signature: Signature) -> list[str]:
    """The needle among repetitions of itself, of single characters, of traceback frames and of the pattern's own words."""
    count = signature.before + 1 + signature.after
    words = re.findall(r"[A-Za-z/_.<>-]{3,}", re.sub(r"\\[wdsbSWA]|\?P<\w+>", " ", signature.pattern)) or ["x"]
    shuffled = random.Random(7)
    made = []
    for needle in signature.needles[:4]:
        lines = [
            (needle + " ") * (LINE // (len(needle) + 1)),
            needle + "a" * LINE,
            "a" * (LINE - len(needle)) + needle,
            "/a" * (LINE // 2) + needle,
            needle + "1." * (LINE // 2),
            needle + " (" * (LINE // 2),
            'File "' * (LINE // 6) + needle,
            (needle + " " + " ".join(shuffled.choices(words, k=600)))[:LINE],
            (" ".join(shuffled.choices(words, k=600)))[: LINE - len(needle)] + needle,
        ]
        made += ["\n".join([line[:LINE]] * count) for line in lines]
        made.append("\n".join([TRACEBACK] * (count - 1) + [needle]))
        made.append("\n".join(["x" * 1500] * (count - 1) + [needle]))
    return made


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


def test_a_large_log_of_tracebacks_is_read_in_a_moment() -> None:
    block = f'{TRACEBACK}\n    import torch\nINFO step 12 loss 0.113 torch triton torchaudio\n2024-01-01 killed nothing, not found\n'
    text = block * 12_000  # about 2 MB

    def work() -> float:
        start = time.process_time()
        recognise(text, source="log")
        return time.process_time() - start

    assert within(4.0, work)[0]
