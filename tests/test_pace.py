"""The pace of the machine forgives a slow machine, not a slow program."""

from __future__ import annotations

import re

import pytest

from tests import pace


def test_a_slow_program_is_slow_on_each_try(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace, "slowness", lambda: 1.0)
    assert pace.within(1.0, lambda: 2.0) == (False, 2.0)
    monkeypatch.setattr(pace, "slowness", lambda: 3.0)
    assert pace.within(1.0, lambda: 2.0) == (True, 2.0)
    assert pace.within(1.0, lambda: 4.0) == (False, 4.0)


def test_a_moments_delay_is_forgiven(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace, "slowness", lambda: 1.0)
    seconds = iter([5.0, 0.5])
    assert pace.within(1.0, lambda: next(seconds)) == (True, 0.5)


def test_an_expression_that_backtracks_is_found() -> None:
    assert not pace.search_within(0.1, re.compile(r"(?:[a-f]+|x)(?=y)"), "abcdef" * 1500)
