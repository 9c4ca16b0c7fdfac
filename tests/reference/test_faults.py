"""Faults planted into the training: each must be caught, and named by the part that is wrong.

A few run always; the whole list with ENVCHECK_REFERENCE_WHOLE=1 (minutes).
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from envcheck.process import run
from envcheck.reference import Measured, Options, golden_file, judge, load_golden
from envcheck.reference.judge import first_difference
from envcheck.reference.words import FOR_KIND

HERE = Path(__file__).resolve().parent
pytestmark = pytest.mark.torch
FEW = (
    "imagenet-mean-and-std",
    "zero-grad-forgotten",
    "momentum-a-little-lower",
    "exponent-bit-flips",
    "batchnorm-eps",
    "noise-in-a-gradient",
)


def plant(python: str, *names: str) -> list[dict[str, Any]]:
    done = run(
        [python, HERE / "faults.py", golden_file(), *names],
        timeout=3000,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert done.ok, done.stderr[-3000:]
    return [json.loads(line[8:]) for line in done.stdout.splitlines() if line.startswith("@fault@ ")]


def score(told: dict[str, Any]) -> tuple[bool, bool, str]:
    """(caught, named by what it is, what was said)."""
    if "error" in told:
        return False, False, told["error"]
    if told["repeats"]:
        said = first_difference(*told["repeats"])
        return said is not None, said is not None and any(cause in said for cause in told["causes"]), str(said)
    measured = Measured(
        Options(python=Path("python")), stages={k: {**v, "stage": k} for k, v in told["stages"].items()}
    )
    judgement = judge(measured, load_golden())
    errors = [f for f in judgement.findings if f.severity == "error"]
    if told["kind"] == "inputs":
        wanted = "reference-inputs"
        notes = [{"kind": "inputs", "cause": "inputs"}] if any(f.rule == wanted for f in errors) else []
    elif told["kind"] == "precision":
        wanted = "reference-precision"
        right = {"tf32": "TF32-like", "bf16": "bf16-like"}[told["causes"][0]]
        notes = [
            {"kind": "precision", "cause": told["causes"][0]} for f in errors if f.rule == wanted and right in f.title
        ]
    else:
        wanted = FOR_KIND[told["kind"]]
        notes = [note for stage in told["stages"].values() for note in stage.get("notes", [])]
    named = any(f.rule == wanted for f in errors) and any(
        note["kind"] == told["kind"] and note["cause"] in told["causes"] for note in notes
    )
    return bool(errors), named, errors[0].title if errors else "nothing"


def test_a_few_faults_are_caught_and_named(python_with_torch: str) -> None:
    told = plant(python_with_torch, *FEW)
    assert [t["fault"] for t in told] == list(FEW)
    assert {t["fault"]: score(t)[:2] for t in told} == dict.fromkeys(FEW, (True, True))


@pytest.mark.slow
def test_all_faults_are_caught_and_nearly_all_named(python_with_torch: str) -> None:
    if not os.environ.get("ENVCHECK_REFERENCE_WHOLE"):
        pytest.skip("minutes: set ENVCHECK_REFERENCE_WHOLE=1")
    told = plant(python_with_torch, "all")
    scores = {t["fault"]: score(t) for t in told}
    assert len(scores) > 40
    assert [name for name, (caught, _, _) in scores.items() if not caught] == []
    assert [name for name, (_, named, said) in scores.items() if not named] == []
