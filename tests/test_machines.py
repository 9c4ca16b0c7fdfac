"""Healthy machines that nobody here owns, as recordings: not one may get a warning.

`tests/machines/<name>/facts.json` is the recording, `console.txt` what a person sees (80 columns, no colour).
`ENVCHECK_REWRITE=1 pytest tests/test_machines.py` writes console.txt anew; read the diff before committing it.
"""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest
from rich.console import Console

from envcheck import facts as facts_module
from envcheck.matrix import load
from envcheck.render.console import show
from envcheck.rules import RULES, evaluate

FOLDER = Path(__file__).parent / "machines"
MACHINES = sorted(p.name for p in FOLDER.iterdir() if (p / "facts.json").is_file())


def report_of(name: str):
    facts = facts_module.from_json((FOLDER / name / "facts.json").read_bytes())
    return evaluate(facts, load(), RULES)


def test_there_are_enough_of_them() -> None:
    assert len(MACHINES) >= 20


@pytest.mark.parametrize("name", MACHINES)
def test_no_alarm_on_a_healthy_machine(name: str) -> None:
    report = report_of(name)
    alarms = [(f.rule, f.severity, f.seen) for f in report.findings if f.severity != "note"]
    assert alarms == []
    assert [s for s in report.skipped if s.essential] == []
    assert report.verdict == "healthy"


@pytest.mark.parametrize("name", MACHINES)
def test_what_a_person_sees(name: str) -> None:
    out = io.StringIO()
    show(report_of(name), Console(file=out, width=80, no_color=True, color_system=None, highlight=False))
    golden = FOLDER / name / "console.txt"
    if os.environ.get("ENVCHECK_REWRITE"):
        golden.write_text(out.getvalue(), encoding="utf-8")
    assert out.getvalue() == golden.read_text(encoding="utf-8")
    assert len(out.getvalue().splitlines()) <= 24
    assert max(len(line) for line in out.getvalue().splitlines()) <= 80
