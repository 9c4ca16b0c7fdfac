"""What a person reads of a reference run."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from envcheck.findings import Finding, Remedy
from envcheck.reference import Judgement, Measured, Options, document
from envcheck.render.reference import show_reference


def shown(judgement: Judgement, comparison: dict[str, Any] | None = None, **options: bool) -> str:
    measured = Measured(Options(python=Path("python")), stages={"machine": {"torch": "2.14.1", "device": "cpu"}})
    report = document(measured, judgement)
    if comparison is not None:
        report["comparison"] = comparison
    console = Console(file=io.StringIO(), width=80, no_color=True)
    show_reference(report, judgement, console, **{"quiet": False, "verbose": False, **options})
    return console.file.getvalue()  # type: ignore[attr-defined]


@pytest.fixture
def judgement() -> Judgement:
    made = Judgement()
    made.claim("inputs", "proved", "all hashes are equal, " + "word " * 30)
    made.claim("test-accuracy", "skipped", "nothing recorded")
    return made


def test_claims_and_verdict_stay_within_the_width(judgement: Judgement) -> None:
    text = shown(judgement)
    assert max(map(len, text.splitlines())) <= 80
    assert "proved    inputs: all hashes" in text
    assert "Healthy: 1 claim proved, 1 skipped." in text


def test_a_finding_names_its_page_and_quiet_says_the_verdict_alone(judgement: Judgement) -> None:
    judgement.findings.append(
        Finding(
            rule="reference-data", severity="error", area="reproducibility", title="data: the mean is off", seen="0.3",
            why="It was computed again.", remedy=Remedy(text="Compare the transforms."),
        )
    )  # fmt: skip
    text = shown(judgement)
    assert "1 problem found" in text
    assert "envcheck explain reference-data" in text
    assert shown(judgement, quiet=True).split() == "Verdict 1 problem found; 1 claim proved, 1 skipped.".split()


def test_nothing_proved_is_not_healthy() -> None:
    assert "Could not tell" in shown(Judgement())


def test_the_comparison_is_told(judgement: Judgement) -> None:
    rows = [{"level": "bits", "equal": False, "text": "first difference at step 3"}]
    text = shown(judgement, {"equality": "numbers", "text": "the same numbers", "rows": rows})
    assert "the same numbers" in text
    assert "bits: first difference at step 3" in text
