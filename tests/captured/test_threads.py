"""Threads of the kinds that people open, re-typed, in other words and layouts than anywhere else: the cause named first.

A file holds sections `##### cause | what it is`; each is one paste. "healthy" and "unknown" stand for no cause at all:
nothing wrong in what is shown, or an error that says nothing of the environment.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from envcheck.cli.diagnose import examine

FILES = sorted((Path(__file__).parent / "threads").glob("*.txt"))


def sections() -> list[tuple[str, str, str]]:
    found = []
    for path in FILES:
        for section in re.split(r"^##### ", path.read_text("utf-8"), flags=re.MULTILINE)[1:]:
            head, _, text = section.partition("\n")
            cause, _, title = head.partition(" | ")
            found.append((cause, title, text))
    return found


@pytest.mark.parametrize(("cause", "title", "text"), sections(), ids=[f"{c}: {t}" for c, t, _ in sections()])
def test_cause(cause: str, title: str, text: str) -> None:
    report = examine([("paste.txt", text)])
    said = report.primary.rule if report.primary else report.verdict
    assert said == cause, [(f.rule, f.severity, f.confidence) for f in report.findings]
    assert report.verdict == (cause if cause in ("healthy", "unknown") else "problems")
