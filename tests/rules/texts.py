"""How the rules judge an error text, and what every table of such texts has to hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

from envcheck.captured import read
from envcheck.findings import Finding, Report
from envcheck.matrix import load
from envcheck.rules import RULES, evaluate


def judge(text: str) -> Report:
    """What all rules say about a text alone."""
    return evaluate(read([("report", text)]), load(), RULES)


def named(text: str, cause: str, source: str = "") -> Finding:
    """The first finding, which has to be of that rule; no rule may have failed by a fault of its own."""
    report = judge(text)
    said = [(f.rule, f.severity, f.confidence, f.consequence_of, f.title) for f in report.findings]
    assert report.primary is not None, (source, "nothing found", report.skipped)
    assert report.primary.rule == cause, (source, said)
    assert [s for s in report.skipped if s.reason.startswith("internal error")] == []
    return report.primary


def sound(text: str) -> None:
    """A text without a fault: notes at most."""
    report = judge(text)
    assert report.primary is None, [(f.rule, f.title, f.seen) for f in report.findings]


def left_alone(text: str, rule: str) -> None:
    """A near miss: that rule says nothing; written "rule!", it says a note at most."""
    most = ("note",) if rule.endswith("!") else ()
    said = [(f.rule, f.severity, f.seen) for f in judge(text).findings]
    assert [s for s in said if s[0] == rule.rstrip("!") and s[1] not in most] == []


def three_wordings(causes: Iterable[str], *, but: Collection[str] = ()) -> None:
    """Three texts for each cause, so that no pattern is made for one report."""
    assert {cause: n for cause, n in Counter(causes).items() if n < 3 and cause not in but} == {}
