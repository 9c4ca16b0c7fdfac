"""What a rule is, and how all of them are evaluated into one report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import msgspec

from envcheck.facts import Facts
from envcheck.findings import CONFIDENCES, SEVERITIES, Finding, Remedy, Report, Skipped
from envcheck.matrix import Matrix

NO_LINE = 1_000_000_000

RuleFunction = Callable[[Facts, Matrix], Iterator[Finding]]


class Unknown(Exception):
    """Raised by a rule that lacks a fact: the rule is skipped, with the reason and what would settle it."""

    def __init__(self, reason: str, settle: str = "", *, essential: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.settle = settle
        self.essential = essential


@dataclass(frozen=True)
class Named:
    """What a finding can be called: an id that never changes its meaning, the area, and one sentence."""

    id: str
    area: str
    title: str


@dataclass(frozen=True)
class Rule(Named):
    """A rule: a name, and a short pure function that finds it.

    fallback: says what is broken without knowing why; its findings are dropped when another rule found an error
        outside of the user's own code.
    explains: rules whose findings follow from this one when both fire; "*" is every rule outside the area "code" and
        "runtime" (only for findings that make all else moot, such as a torch that is not there).
    """

    function: RuleFunction
    explains: tuple[str, ...] = field(default=())
    fallback: bool = False

    def finding(
        self,
        severity: str,
        *,
        seen: str,
        why: str,
        remedy: Remedy,
        title: str = "",
        confidence: str = "certain",
        otherwise: str = "",
        line: int | None = None,
    ) -> Finding:
        """A finding of this rule; `title` defaults to the rule's own sentence."""
        return Finding(
            rule=self.id,
            severity=severity,
            area=self.area,
            title=title or self.title,
            seen=seen,
            why=why,
            remedy=remedy,
            confidence=confidence,
            otherwise=otherwise,
            line=line,
        )


def rule(
    rule_id: str, area: str, title: str, *, explains: tuple[str, ...] = (), fallback: bool = False
) -> Callable[[Callable[[Rule, Facts, Matrix], Iterator[Finding]]], Rule]:
    """Turns `def f(rule, facts, matrix) -> Iterator[Finding]` into a Rule of that id."""

    def wrap(function: Callable[[Rule, Facts, Matrix], Iterator[Finding]]) -> Rule:
        def call(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
            return function(made, facts, matrix)

        made = Rule(rule_id, area, title, call, explains, fallback)
        return made

    return wrap


def evaluate(facts: Facts, matrix: Matrix, rules: Iterable[Rule]) -> Report:
    """Judges the facts by every rule.

    A rule that lacks a fact is skipped with its reason; one that fails by a bug of ours becomes a skipped entry that
    says so, and the others go on.
    """
    rules = tuple(rules)
    findings: list[Finding] = []
    skipped: list[Skipped] = []
    for item in rules:
        try:
            findings.extend(item.function(facts, matrix))
        except Unknown as unknown:
            skipped.append(
                Skipped(rule=item.id, reason=unknown.reason, settle=unknown.settle, essential=unknown.essential)
            )
        except Exception as error:
            skipped.append(
                Skipped(
                    rule=item.id,
                    reason=f"internal error of envcheck in this rule: {type(error).__name__}: {error}",
                    settle="please report it with the output of `envcheck facts --share`",
                    essential=True,
                )
            )
    ordered = order(_without_needless(findings, rules), rules, facts)
    return Report(
        verdict=verdict(ordered, skipped),
        findings=ordered,
        checks=facts.checks or (),
        skipped=tuple(skipped),
        facts=facts,
    )


def _without_needless(findings: list[Finding], rules: tuple[Rule, ...]) -> list[Finding]:
    """Leaves out what fallback rules said where another rule names the cause."""
    last_resort = {item.id for item in rules if item.fallback}
    named = any(f.severity == "error" and f.area != "code" and f.rule not in last_resort for f in findings)
    return [f for f in findings if not (named and f.rule in last_resort)]


def verdict(findings: Iterable[Finding], skipped: Iterable[Skipped]) -> str:
    """Says "problems" if any finding is an error, "unknown" if something essential could not be judged, else "healthy"."""
    if any(f.severity == "error" for f in findings):
        return "problems"
    return "unknown" if any(s.essential for s in skipped) else "healthy"


def order(findings: Iterable[Finding], rules: Iterable[Rule], facts: Facts) -> tuple[Finding, ...]:
    """Root causes first, each directly before its consequences, then the rest by severity; every finding once.

    Among roots: the worst severity of the cause and its consequences, then confidence, then the place in the pasted
    text (the first error is the cause, later ones are mostly echoes), then the order of the rules.
    """
    position = {item.id: number for number, item in enumerate(rules)}
    linked = _link(tuple(findings), {item.id: item for item in rules})

    def weight(finding: Finding) -> tuple[int, ...]:
        return (
            SEVERITIES.index(finding.severity),
            CONFIDENCES.index(finding.confidence),
            finding.line if finding.line is not None else NO_LINE,
            position.get(finding.rule, NO_LINE),
        )

    cause = {finding.rule: finding.consequence_of for finding in linked}
    groups: dict[str, list[Finding]] = {}
    for finding in linked:
        groups.setdefault(_chain(finding.rule, cause)[-1], []).append(finding)
    for members in groups.values():
        members.sort(key=lambda f: (len(_chain(f.rule, cause)), weight(f)))
    ranked = sorted(
        groups.values(), key=lambda members: (min(SEVERITIES.index(f.severity) for f in members), weight(members[0]))
    )
    return tuple(finding for members in ranked for finding in members)


def _link(findings: tuple[Finding, ...], rules: dict[str, Rule]) -> tuple[Finding, ...]:
    """Sets `consequence_of` where a rule that fired explains another that fired; never in a circle."""
    cause: dict[str, str] = {}
    causes = [f.rule for f in findings if f.severity != "note" and f.rule in rules]
    for finding in findings:
        wanted = [finding.consequence_of] if finding.consequence_of else []
        wanted += [c for c in causes if _explains(rules[c], finding)]
        for candidate in wanted:
            if candidate != finding.rule and candidate in causes and finding.rule not in _chain(candidate, cause):
                cause.setdefault(finding.rule, candidate)
                break
    return tuple(msgspec.structs.replace(f, consequence_of=cause.get(f.rule)) for f in findings)


def _explains(rule: Rule, finding: Finding) -> bool:
    return finding.rule in rule.explains or ("*" in rule.explains and finding.area not in ("code", "runtime"))


def _chain(rule_id: str, cause: Mapping[str, str | None]) -> list[str]:
    """The rule, its cause, the cause of that ... up to the root; `cause` has no circles."""
    chain = [rule_id]
    while (above := cause.get(chain[-1])) is not None:
        chain.append(above)
    return chain
