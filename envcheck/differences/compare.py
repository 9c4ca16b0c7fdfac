"""Compares two snapshots, judges both, and tries each difference out: would the fault be gone with the other's value?"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import msgspec

from envcheck.differences.units import KEYED, MISSING, Change, Group, Path, is_outcome, put, subject_of, units
from envcheck.facts import Facts, document
from envcheck.findings import SEVERITIES, Finding, Report
from envcheck.matrix import Matrix
from envcheck.rules import Rule, evaluate

SCHEMA = 1


@dataclass(frozen=True)
class Comparison:
    """The differences, causes first; what became of attempts apart; findings of one side alone."""

    groups: tuple[Group, ...]
    outcomes: tuple[Change, ...]
    one_sided: tuple[str, ...]
    """Fields that only one of the two snapshots knows: no difference is proved by them."""
    only_a: tuple[Finding, ...]
    only_b: tuple[Finding, ...]
    a: Report
    b: Report

    @property
    def same(self) -> bool:
        """Nothing that both know differs, and both have the same findings."""
        return not (self.groups or self.only_a or self.only_b)


def compare(a: Facts, b: Facts, matrix: Matrix, rules: Iterable[Rule]) -> Comparison:
    """Everything that differs between two machines, or between two moments of one."""
    rules = tuple(rules)
    report_a, report_b = evaluate(a, matrix, rules), evaluate(b, matrix, rules)
    doc_a, doc_b = document(a), document(b)
    changes, one_sided = _changes(doc_a, doc_b)
    causes = [c for c in changes if not is_outcome(c.path)]
    groups = _grouped(causes)
    only_a, only_b = _only(report_a, report_b), _only(report_b, report_a)
    explained: dict[str, list[str]] = {}
    for bad, good, findings in ((doc_a, doc_b, only_a), (doc_b, doc_a, only_b)):
        for name, rule in _explanations(bad, good, findings, groups, matrix, rules):
            explained.setdefault(name, []).append(rule)
    told = [Group(g.subject, g.changes, tuple(dict.fromkeys(explained.get(g.subject.name, ())))) for g in groups]
    told.sort(key=lambda g: (not g.explains, g.subject.weight, g.subject.name))
    return Comparison(
        tuple(told),
        tuple(c for c in changes if is_outcome(c.path)),
        one_sided,
        only_a,
        only_b,
        report_a,
        report_b,
    )


def _changes(a: dict[str, Any], b: dict[str, Any]) -> tuple[list[Change], tuple[str, ...]]:
    ours, theirs = units(a), units(b)
    changes, one_sided = [], set()
    for path in dict.fromkeys((*ours, *theirs)):
        left, right = ours.get(path, MISSING), theirs.get(path, MISSING)
        if left is not MISSING and right is not MISSING:
            left, right = _both_know(left, right)
            if _plain(left) != _plain(right):
                changes.append(Change(path, left, right))
            continue
        known_list = path[:-1] in KEYED and _complete(a, path[:-1]) and _complete(b, path[:-1])
        if known_list or (path[0] == "symptoms"):
            changes.append(Change(path, left, right))
        else:
            one_sided.add(".".join(path))
    return changes, tuple(sorted(one_sided))


def _both_know(left: Any, right: Any) -> tuple[Any, Any]:
    """Of two entries, the fields that both have: what one does not know is no difference."""
    if isinstance(left, dict) and isinstance(right, dict):
        return {k: v for k, v in left.items() if k in right}, {k: v for k, v in right.items() if k in left}
    return left, right


def _complete(facts: dict[str, Any], path: Path) -> bool:
    """The list is known, and known to be whole: a name that is not on it is not there."""
    value: Any = facts
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    if value is None:
        return False
    partial = path == ("python", "distributions") and facts.get("python", {}).get("distributions_partial")
    return not partial and not (path == ("env",) and facts.get("origin") == "captured")


def _plain(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return sorted(map(str, value))
    return value.casefold() if isinstance(value, str) else value


def _grouped(changes: list[Change]) -> list[Group]:
    found: dict[Any, list[Change]] = {}
    for change in changes:
        found.setdefault(subject_of(change.path), []).append(change)
    return [Group(subject, tuple(members)) for subject, members in found.items()]


def _only(one: Report, other: Report) -> tuple[Finding, ...]:
    there = {f.rule for f in other.findings}
    return tuple(f for f in one.findings if f.rule not in there)


# -- explanations ------------------------------------------------------------------------------------------------------


def _explanations(
    bad: dict[str, Any],
    good: dict[str, Any],
    findings: tuple[Finding, ...],
    groups: list[Group],
    matrix: Matrix,
    rules: tuple[Rule, ...],
) -> list[tuple[str, str]]:
    """(subject, rule) where the other machine's value of that subject alone would make the finding go away.

    Tried on the machine as it is, and on the machine without what its attempts came to: these follow from the cause and
    would stay as they are. A finding that rests on such results alone is left unexplained.
    """
    by_id = {rule.id: rule for rule in rules}
    silent = copy.deepcopy(bad)
    for path in {p for p in units(bad) if is_outcome(p)}:
        put(silent, path, {})
    found = []
    for finding in findings:
        rule = by_id.get(finding.rule)
        if rule is None or finding.severity == "note":
            continue
        for base in (silent, bad):
            if _fires(base, rule, finding, matrix):
                names = [g.subject.name for g in groups if _settles(base, good, g, rule, finding, matrix)]
                found += [(name, finding.rule) for name in names]
    return found


def _settles(
    base: dict[str, Any], good: dict[str, Any], group: Group, rule: Rule, finding: Finding, matrix: Matrix
) -> bool:
    tried = copy.deepcopy(base)
    for change in group.changes:
        put(tried, change.path, good)
    return _fires(tried, rule, finding, matrix) is False


def _fires(facts: dict[str, Any], rule: Rule, finding: Finding, matrix: Matrix) -> bool | None:
    """The rule makes a finding as bad; None = it cannot be judged any more, which proves nothing."""
    try:
        report = evaluate(msgspec.convert(facts, Facts), matrix, (rule,))
    except msgspec.ValidationError:
        return None
    if report.skipped:
        return None
    worst = SEVERITIES.index(finding.severity)
    return any(SEVERITIES.index(f.severity) <= worst for f in report.findings)


# -- JSON --------------------------------------------------------------------------------------------------------------


def to_document(made: Comparison, name_a: str, name_b: str) -> dict[str, Any]:
    """The comparison as a JSON-ready dict."""
    return {
        "schema": SCHEMA,
        "same": made.same,
        "a": {"name": name_a, "verdict": made.a.verdict},
        "b": {"name": name_b, "verdict": made.b.verdict},
        "differences": [
            {
                "subject": g.subject.name,
                "explains": list(g.explains),
                "fields": [_field(c) for c in g.changes],
            }
            for g in made.groups
        ],
        "outcomes": [_field(c) for c in made.outcomes],
        "findings": {
            "only_a": [msgspec.to_builtins(f) for f in made.only_a],
            "only_b": [msgspec.to_builtins(f) for f in made.only_b],
        },
        "known_to_one": list(made.one_sided),
    }


def _field(change: Change) -> dict[str, Any]:
    values = {name: None if v is MISSING else v for name, v in (("a", change.a), ("b", change.b))}
    return {"field": change.field, **values}
