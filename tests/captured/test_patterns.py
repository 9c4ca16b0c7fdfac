"""No expression backtracks badly: each is timed on lines that were made to provoke it."""

from __future__ import annotations

import importlib
import pkgutil
import re

import pytest

import envcheck.captured
from envcheck import redact
from envcheck.lazy import Regex
from envcheck.symptoms.engine import SIGNATURES
from tests.pace import search, search_within

LENGTH = 8_000
LIMIT = 0.3
"""Seconds for one search on a quiet machine; an expression that is linear in the line needs a few milliseconds, a quadratic one seconds."""

UNITS = (
    "a", " ", "0", "/", ".", "(", "[", '"', ":", "=", "\\", "|", "a ", "a.", "1.", "/a", "a\\", "a-", "a b.", "0:", "(a", "'a'", "sm_80 ", "a@", "==1.0 ", "File \"", "torch ", "C:\\Users\\", "GPU 0: ",
)  # fmt: skip


def lines(seeds: tuple[str, ...] = ()) -> list[str]:
    """Long lines of one repeated unit, and of a seed followed by one."""
    result = [unit * (LENGTH // len(unit)) for unit in UNITS]
    for seed in seeds:
        result += [(seed + " ") * (LENGTH // (len(seed) + 1)), seed + "a" * LENGTH, seed + " " * LENGTH, seed + "/a" * (LENGTH // 2)]
        result += [" " * LENGTH + seed, "a." * (LENGTH // 2) + seed, seed + "0." * (LENGTH // 2), seed + "(" * LENGTH]
    return result


def own_expressions() -> list[tuple[str, re.Pattern[str]]]:
    found = []
    modules = [redact] + [
        importlib.import_module(f"envcheck.captured.{item.name}") for item in pkgutil.iter_modules(envcheck.captured.__path__)
    ]
    for module in modules:
        for name, value in vars(module).items():
            items = value if isinstance(value, tuple | list) else (value,)
            for number, item in enumerate(items):
                for part in item if isinstance(item, tuple) else (item,):
                    if isinstance(part, Regex):
                        found.append((f"{module.__name__.rpartition('.')[2]}.{name}[{number}]", part.compiled))
    return found


def too_slow(pattern: re.Pattern[str], texts: list[str]) -> str:
    """What is wrong, "" when nothing is."""
    for text in texts:
        if not search_within(LIMIT, pattern, text):
            return f"{search(pattern, text):.2f} s on {text[:40]!r}..."
    return ""


@pytest.mark.parametrize(("name", "pattern"), own_expressions(), ids=lambda v: v if isinstance(v, str) else "")
def test_expression_of_a_parser_is_quick(name: str, pattern: re.Pattern[str]) -> None:
    assert too_slow(pattern, lines()) == ""


@pytest.mark.parametrize("number", range(len(SIGNATURES)), ids=lambda n: f"{SIGNATURES[n].kind}-{n}")
def test_expression_of_a_signature_is_quick(number: int) -> None:
    signature = SIGNATURES[number]
    pattern = re.compile(signature.pattern, re.IGNORECASE | re.MULTILINE)
    # The engine cuts each line of the window to 4,500 characters around the needle.
    texts = [text[:4500] for text in lines(signature.needles[:3])]
    texts += ["\n".join([text] * (signature.before + 1 + signature.after)) for text in texts[-8:]]
    assert too_slow(pattern, texts) == ""
