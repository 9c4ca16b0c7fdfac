"""The score on real reports with a known cause, as far as they are at hand."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def results(shared: Path):
    spec = importlib.util.spec_from_file_location("score_reports", ROOT / "benchmarks" / "score_reports.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    import sys

    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return [module.judge(case) for case in sorted((shared / "reports").glob("*.input.txt"))]


def test_causes(results) -> None:
    wrong = [f"{r.name}: {r.said}" for r in results if not r.cause_right]
    assert len(wrong) <= len(results) * 3 // 117, wrong


def test_in_full(results) -> None:
    wrong = [f"{r.name}: {r.missing or r.forbidden or r.said}" for r in results if not r.right]
    assert len(wrong) <= len(results) * 12 // 117, wrong


def test_no_false_alarm(results) -> None:
    assert [r.name for r in results if r.expected == "healthy" and (r.said != "healthy" or r.verdict != "healthy")] == []


def test_no_rule_fails_inside(results) -> None:
    assert [s.reason for r in results for s in r.report.skipped if "internal error" in s.reason] == []
