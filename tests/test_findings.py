"""Ordering, causes and consequences, verdicts, and rules that fail."""

from __future__ import annotations

import json

import msgspec
import pytest

from envcheck.facts import Facts
from envcheck.findings import Finding, Remedy, to_json
from envcheck.rules.base import Rule, Unknown, evaluate


def make(rule_id: str, severity: str = "error", *, explains=(), confidence="certain", area="driver", line=None, consequence_of=None) -> Rule:
    def function(facts, matrix):
        yield Finding(
            rule=rule_id, severity=severity, area=area, title=rule_id, seen="s", why="w", remedy=Remedy(text="r"),
            confidence=confidence, line=line, consequence_of=consequence_of,
        )

    return Rule(rule_id, area, rule_id, function, tuple(explains))


def names(*rules: Rule) -> list[str]:
    return [f.rule for f in evaluate(Facts(), None, rules).findings]


def test_causes_stand_directly_before_their_consequences() -> None:
    rules = (make("effect"), make("other"), make("cause", explains=("effect",)))
    report = evaluate(Facts(), None, rules)
    assert [f.rule for f in report.findings] == ["other", "cause", "effect"]
    assert [f.consequence_of for f in report.findings] == [None, None, "cause"]


def test_a_warning_that_causes_an_error_ranks_as_an_error() -> None:
    assert names(make("lone-warning", "warning"), make("effect"), make("cause", "warning", explains=("effect",))) == [
        "cause", "effect", "lone-warning",
    ]


def test_two_rules_that_explain_each_other_both_come_out_once() -> None:
    assert sorted(names(make("a", explains=("b",)), make("b", explains=("a",)))) == ["a", "b"]


def test_a_chain_keeps_every_finding_once() -> None:
    assert names(make("c"), make("b", explains=("c",)), make("a", explains=("b",))) == ["a", "b", "c"]


def test_consequence_of_a_rule_that_did_not_fire_is_a_root() -> None:
    report = evaluate(Facts(), None, (make("a", consequence_of="not-there"),))
    assert [(f.rule, f.consequence_of) for f in report.findings] == [("a", None)]


def test_notes_explain_nothing() -> None:
    report = evaluate(Facts(), None, (make("n", "note", explains=("e",)), make("e")))
    assert [(f.rule, f.consequence_of) for f in report.findings] == [("e", None), ("n", None)]


def test_star_explains_all_but_code_and_runtime() -> None:
    rules = (make("all", explains=("*",)), make("lib", area="library"), make("mine", area="code"))
    report = evaluate(Facts(), None, rules)
    assert {f.rule: f.consequence_of for f in report.findings} == {"all": None, "lib": "all", "mine": None}


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ((make("w", "warning"), make("e")), ["e", "w"]),
        ((make("possible", confidence="possible"), make("certain")), ["certain", "possible"]),
        ((make("late", line=90), make("early", line=3)), ["early", "late"]),
        ((make("first"), make("second")), ["first", "second"]),
    ],
    ids=["severity", "confidence", "place", "table-order"],
)
def test_order_of_roots(rules, expected) -> None:
    assert names(*rules) == expected


def raises(error: Exception) -> Rule:
    def function(facts, matrix):
        raise error
        yield

    return Rule("broken", "driver", "broken", function)


@pytest.mark.parametrize(
    ("rules", "verdict"),
    [
        ((), "healthy"),
        ((make("n", "note"), make("w", "warning")), "healthy"),
        ((make("e"),), "problems"),
        ((raises(Unknown("no driver known")),), "healthy"),
        ((raises(Unknown("no driver known", essential=True)),), "unknown"),
        ((raises(Unknown("no driver known", essential=True)), make("e")), "problems"),
        ((raises(ZeroDivisionError("bug")),), "unknown"),
    ],
    ids=["nothing", "notes-and-warnings", "error", "skipped", "essential-skipped", "error-beats-unknown", "bug"],
)
def test_verdict(rules, verdict) -> None:
    assert evaluate(Facts(), None, rules).verdict == verdict


def test_a_rule_with_a_bug_does_not_silence_the_others() -> None:
    report = evaluate(Facts(), None, (raises(KeyError("x")), make("e")))
    assert [f.rule for f in report.findings] == ["e"]
    assert "KeyError" in report.skipped[0].reason


def test_json_follows_the_contract() -> None:
    document = json.loads(to_json(evaluate(Facts(), None, (make("e"),))))
    assert list(document) == ["schema", "verdict", "findings", "checks", "skipped", "facts"]
    assert document["schema"] == 1
    assert {"rule", "severity", "area", "title", "seen", "why", "remedy", "confidence", "consequence_of"} <= set(document["findings"][0])
    assert set(document["findings"][0]["remedy"]) >= {"text"}
    assert document["facts"]["schema"] == 1


def test_facts_survive_json() -> None:
    from envcheck import facts as f

    facts = Facts(system=f.System(os="linux"), torch=f.Torch(arch_list=("sm_90",), cuda=""), env=(f.EnvVar(name="A", value="b"),))
    assert f.from_json(f.to_json(facts)) == facts


def test_a_snapshot_of_a_newer_schema_is_refused() -> None:
    from envcheck import facts as f

    with pytest.raises(ValueError, match="update envcheck"):
        f.from_json(msgspec.json.encode({"schema": f.SCHEMA + 1}))
