"""The search for signatures: place, count, details, echoes, redaction, and the limits that keep it linear."""

from __future__ import annotations

import pytest

from envcheck.symptoms import engine
from envcheck.symptoms.base import Signature
from envcheck.symptoms.engine import MAX_TEXT, MAX_VARIANTS, recognise


@pytest.fixture
def catalogue(monkeypatch: pytest.MonkeyPatch):
    def use(*signatures: Signature) -> None:
        monkeypatch.setattr(engine, "SIGNATURES", signatures)

    return use


def test_first_place_and_count(catalogue) -> None:
    catalogue(Signature("boom", ("boom",), r"boom (?P<what>\w+)"))
    found = recognise("x\nboom a\nboom a\nBOOM a\n", source="log", first_line=10)
    assert [(s.kind, s.line, s.count, s.details, s.source) for s in found] == [("boom", 11, 3, {"what": "a"}, "log")]


def test_other_details_are_another_symptom_up_to_a_limit(catalogue) -> None:
    catalogue(Signature("boom", ("boom",), r"boom (?P<what>\w+)"))
    found = recognise("\n".join(f"boom n{i}" for i in range(50)), source="log")
    assert len(found) == MAX_VARIANTS
    assert sum(s.count for s in found) == 50


def test_order_is_that_of_the_text(catalogue) -> None:
    catalogue(Signature("second", ("bbb",), "bbb"), Signature("first", ("aaa",), "aaa"))
    assert [s.kind for s in recognise("aaa\nbbb\n", source="x")] == ["first", "second"]


def test_echo_only_behind_its_cause(catalogue) -> None:
    catalogue(Signature("cause", ("aaa",), "aaa"), Signature("late", ("bbb",), "bbb", echo_of=("cause",)))
    assert [s.echo for s in recognise("aaa\nbbb\n", source="x")] == [False, True]
    assert [s.echo for s in recognise("bbb\naaa\n", source="x")] == [False, False]


def test_window_before_and_after(catalogue) -> None:
    catalogue(Signature("pair", ("needle",), r"up (?P<a>\d)\n.*needle.*\ndown (?P<b>\d)", before=1, after=1))
    (found,) = recognise("up 1\nthe needle\ndown 2\n", source="x")
    assert (found.line, found.details) == (2, {"a": "1", "b": "2"})
    assert recognise("up 1\n\nthe needle\ndown 2\n", source="x") == ()


def test_needle_alone_is_not_enough(catalogue) -> None:
    catalogue(Signature("exact", ("out of",), r"out of memory"))
    assert recognise("out of order\n", source="x") == ()


def test_text_is_cut_around_the_needle_and_redacted(catalogue) -> None:
    catalogue(Signature("deep", ("needle",), "needle"))
    (found,) = recognise("/home/alice/x " * 300 + "needle" + " y" * 3000, source="x")
    assert len(found.text) <= MAX_TEXT
    assert "needle" in found.text
    assert "alice" not in found.text


def test_needle_deep_in_a_very_long_line(catalogue) -> None:
    catalogue(Signature("deep", ("needle",), r"the needle (?P<n>\d)"))
    (found,) = recognise("a needle not meant " * 5000 + "the needle 7" + " z" * 9000, source="x")
    assert found.details == {"n": "7"}


def test_large_text_with_a_vocabulary_finds_the_same(catalogue) -> None:
    catalogue(Signature("deep", ("rare needle",), "rare needle"), Signature("absent", ("never there",), "never there"))
    text = "common words of a log\n" * 30_000 + "a RARE needle\n"
    assert [(s.kind, s.line) for s in recognise(text, source="x")] == [("deep", 30_001)]


def test_characters_that_change_their_length_in_lower_case(catalogue) -> None:
    catalogue(Signature("boom", ("boom",), r"boom (?P<n>\d)"))
    (found,) = recognise("İİİİ ẞ\nİ boom 5 İ\n", source="x")
    assert (found.line, found.details, found.text) == (2, {"n": "5"}, "İ boom 5 İ")


def test_windows_line_ends(catalogue) -> None:
    catalogue(Signature("pair", ("needle",), r"needle\nnext", after=1))
    assert len(recognise("needle\r\nnext\r\n", source="x")) == 1


def test_catalogues_are_sound() -> None:
    kinds = {signature.kind for signature in engine.SIGNATURES}
    assert len(engine.SIGNATURES) > 100
    for signature in engine.SIGNATURES:
        assert all(needle == needle.lower() and len(needle) >= 3 for needle in signature.needles), signature
        assert set(signature.echo_of) <= kinds, signature
