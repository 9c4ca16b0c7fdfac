"""Which rules an error text speaks to: the same signatures and rules that judge a machine."""

from __future__ import annotations

from envcheck.facts import Facts
from envcheck.matrix import load
from envcheck.rules import RULES
from envcheck.rules.base import evaluate
from envcheck.symptoms.engine import recognise


def rules_for_text(text: str) -> list[str]:
    """Ids of the rules that fire on an error text alone, causes first."""
    symptoms = recognise(text, source="text")
    if not symptoms:
        return []
    report = evaluate(Facts(origin="captured", symptoms=symptoms), load(), RULES)
    return [finding.rule for finding in report.findings]
