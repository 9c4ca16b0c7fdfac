"""The quick preset on the machine at hand: no alarm, every claim proved, and honest variants stay without one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from envcheck.reference import Options, compare, document, judge, load_golden, measure

pytestmark = pytest.mark.torch
CLAIMS = {
    "inputs",
    "precision",
    "precision-defaults",
    "logic",
    "smooth",
    "repeat-strict",
    "repeat-defaults",
    "resume",
    "rate",
}
BITS = {"bits-native", "bits-portable"}
"""Proved where such a machine was recorded."""


def check(options: Options) -> dict[str, object]:
    measured = measure(options)
    judgement = judge(measured, load_golden())
    assert [f.title + ": " + f.seen for f in judgement.findings] == []
    assert judgement.verdict == "healthy"
    proved = {level["name"] for level in judgement.levels if level["status"] == "proved"}
    # Beside other tests the machine is busy, and how fast it is cannot be told.
    busy = {level["name"] for level in judgement.levels if level["text"].startswith(("The machine is busy", "The rates are unsteady"))}
    assert proved | busy == CLAIMS | (proved & BITS)
    assert not {level["name"] for level in judgement.levels if level["status"] == "failed"}
    return document(measured, judgement)["reference"]


def test_this_machine_is_proved(python_with_torch: str) -> None:
    report = check(Options(python=Path(python_with_torch), device="cpu"))
    assert compare(report, report, load_golden()["tolerances"])["equality"] == "bits"
    accuracy = report["smooth"]["eval"]["accuracy"]  # type: ignore[index]
    assert accuracy > 0.9


@pytest.mark.slow
@pytest.mark.parametrize(
    ("env", "arguments", "training", "threads"),
    [
        ({}, (), (), 1),
        ({"ONEDNN_MAX_CPU_ISA": "AVX2"}, (), (), 0),
        ({"ATEN_CPU_CAPABILITY": "default"}, (), (), 0),
        ({}, ("--without-onednn",), (), 0),
        ({}, (), ("--channels-last",), 0),
        ({}, (), ("--compile",), 0),
    ],
    ids=["one thread", "oneDNN AVX2", "ATen default", "no oneDNN", "channels last", "compiled"],
)
def test_honest_variants_give_no_alarm(
    python_with_torch: str, env: dict[str, str], arguments: tuple[str, ...], training: tuple[str, ...], threads: int
) -> None:
    if not os.environ.get("ENVCHECK_REFERENCE_WHOLE"):
        pytest.skip("minutes: set ENVCHECK_REFERENCE_WHOLE=1")
    python = Path(python_with_torch)
    check(
        Options(
            python=python,
            device="cpu",
            env={**os.environ, **env},
            payload_arguments=arguments,
            training=training,
            threads=threads,
        )
    )
