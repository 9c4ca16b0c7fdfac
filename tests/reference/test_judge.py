"""The judgement over measured values that are written here: no torch needed."""

from __future__ import annotations

import copy
import sys
from pathlib import Path
from typing import Any

import pytest

from envcheck.errors import MatrixError
from envcheck.facts import Outcome
from envcheck.reference import Measured, Options, compare, document, judge, load_golden
from envcheck.reference.judge import first_difference
from envcheck.reference.precision import classify
from envcheck.reference.words import settings_that_break_repeats
from envcheck.target import Answer


def step(number: int, **changes: Any) -> dict[str, Any]:
    return {
        "stage": "step", "mode": "strict", "step": number, "loss": float(number).hex(), "norm": (1.0).hex(), "images": "i",
        "gradients": {"conv1.weight": "a", "fc.weight": "b"}, "weights": f"w{number}", **changes,
    }  # fmt: skip


RATE = {"median": 540.0, "low": 520.0, "high": 550.0, "spread": 0.03, "samples": 4}


@pytest.fixture
def healthy() -> Measured:
    golden = load_golden()
    tasks = {
        name: {
            "steps": golden[name]["steps"],
            "eval": golden[name]["eval"],
            "first": None,
            "notes": [],
            "worst": {"loss": 0.0},
        }
        for name in ("logic", "smooth")
    }
    errors = dict.fromkeys(("conv1.weight", "conv2.weight", "conv3.weight", "fc.weight"), 2e-6)
    tasks["smooth"]["shadows"] = [{"errors": errors, "step": 0}]
    stages = {
        "machine": {"device": "cpu", "torch": "2.14.1", "settings": {}, "variables": {}},
        "inputs": {"hashes": golden["inputs"]},
        "shadow": {"errors": errors},
        "rates": {
            "ways": {"memory": RATE, "plain": {**RATE, "median": 300.0}}, "ratio": {**RATE, "median": 1.8}, "build": {"mkl": True},
            "cpu_share": 0.99, "threads": {"own": 2}, "cores": {"usable": 2}, "gpu": {},
        },
        **tasks,
    }
    whole = [step(n) for n in range(1, 7)]
    return Measured(
        Options(python=Path("python")),
        stages=stages,
        steps={
            "defaults:1": whole,
            "defaults:2": whole,
            "strict:1": whole,
            "strict:killed": whole[:3],
            "strict:resumed": whole[3:],
        },
        repeated={"strict:1": {"weights": "w", "history": []}, "strict:resumed": {"weights": "w", "history": []}},
        killed_at=3,
    )


def rules(measured: Measured) -> list[tuple[str, str]]:
    return [(f.rule, f.severity) for f in judge(measured, load_golden()).findings]


def test_a_healthy_machine_has_no_finding(healthy: Measured) -> None:
    judgement = judge(healthy, load_golden())
    assert judgement.findings == []
    assert judgement.verdict == "healthy"
    assert {level["name"] for level in judgement.levels} == {
        "inputs", "precision", "precision-defaults", "logic", "smooth", "repeat-strict", "repeat-defaults", "resume", "rate", "bits-native",
    }  # fmt: skip
    report = document(healthy, judgement)
    assert set(report) == {"schema", "verdict", "findings", "checks", "skipped", "reference"}


def test_nothing_measured_is_unknown() -> None:
    assert judge(Measured(Options(python=Path("python"))), load_golden()).verdict == "unknown"


def test_tf32_by_default_is_a_note_and_under_strict_settings_an_error(healthy: Measured) -> None:
    healthy.stages["shadow"] = {"errors": {"conv3.weight": 3e-4, "fc.weight": 2e-6}}
    assert rules(healthy) == [("reference-tf32", "note")]
    healthy.stages["smooth"]["shadows"] = [{"errors": {"conv3.weight": 3e-4, "fc.weight": 2e-6}}]
    assert rules(healthy) == [("reference-precision", "error")]
    healthy.stages["smooth"]["shadows"] = [{"errors": {"conv3.weight": float("nan"), "fc.weight": 2e-6}}]
    assert rules(healthy) == [("reference-precision", "error")]


@pytest.mark.parametrize(
    ("error", "name"), [(2.5e-5, "fp32"), (1.1e-4, "tf32"), (7e-4, "tf32"), (3e-3, "bf16"), (float("nan"), "bf16")]
)
def test_precision_classes(error: float, name: str) -> None:
    assert classify(error) == name


def test_defaults_that_do_not_repeat_are_a_warning_that_names_setting_and_tensor(healthy: Measured) -> None:
    healthy.stages["machine"]["settings"]["backends.cudnn.benchmark"] = True
    other = copy.deepcopy(healthy.steps["defaults:1"])
    other[1]["gradients"]["conv1.weight"] = "x"
    healthy.steps["defaults:2"] = other
    (finding,) = judge(healthy, load_golden()).findings
    assert (finding.rule, finding.severity) == ("reference-defaults-not-repeatable", "warning")
    assert "step 2: the gradient of conv1.weight" in finding.seen
    assert "cudnn.benchmark" in finding.seen


def test_a_resume_that_ends_elsewhere(healthy: Measured) -> None:
    healthy.repeated["strict:resumed"] = {"weights": "other", "history": []}
    assert rules(healthy) == [("reference-resume", "error")]


def test_a_named_part_is_the_cause_and_the_trajectory_its_consequence(healthy: Measured) -> None:
    healthy.stages["logic"]["first"] = {"step": 4, "what": "norm", "seen": 2.0, "expected": 1.0}
    assert rules(healthy) == [("reference-trajectory", "error")]
    healthy.stages["logic"]["notes"] = [
        {"kind": "backward", "part": "all", "text": "zero_grad() is missing", "cause": "zero-grad", "step": 4}
    ]
    first, second = judge(healthy, load_golden()).findings
    assert first.rule == "reference-backward"
    assert (second.rule, second.consequence_of) == ("reference-trajectory", "reference-backward")


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        ({"images": "x"}, "the batch itself"),
        ({"loss": (9.0).hex()}, "the loss"),
        ({"gradients": {"conv1.weight": "a", "fc.weight": "x"}}, "the gradient of fc.weight"),
        ({"norm": (2.0).hex()}, "the gradient norm"),
        ({"weights": "x"}, "the new weights"),
    ],
)
def test_the_first_difference_is_named(change: dict[str, Any], wanted: str) -> None:
    assert wanted in str(first_difference([step(1), step(2)], [step(1), step(2, **change)]))


def test_two_reports_are_compared_by_the_strongest_level_that_holds(healthy: Measured) -> None:
    one = document(healthy, judge(healthy, load_golden()))["reference"]
    bounds = load_golden()["tolerances"]
    other = copy.deepcopy(one)
    assert compare(one, other, bounds)["equality"] == "bits"
    other["repeats"]["strict:1"][0]["loss"] = (7.0).hex()
    assert compare(one, other, bounds)["equality"] == "numbers"
    other["smooth"]["steps"][3]["loss"] = (7.0).hex()
    told = compare(one, other, bounds)
    assert told["equality"] == "inputs"
    assert any("step 4: loss" in row["text"] for row in told["rows"])
    other["inputs"]["first batch"] = "x"
    assert compare(one, other, bounds)["equality"] == "none"


def test_golden_values_are_whole(tmp_path: Path) -> None:
    golden = load_golden()
    assert len(golden["logic"]["steps"]) == len(golden["smooth"]["steps"]) == 50
    assert golden["provenance"]
    # Tolerances come from the recorded spread: a loose one would let faults through.
    assert max(golden["tolerances"]["logic"].values()) <= 1e-9
    assert golden["tolerances"]["smooth"]["loss"] <= 1e-4
    (tmp_path / "g.json").write_text("{}")
    with pytest.raises(MatrixError, match="no 'inputs'"):
        load_golden(tmp_path / "g.json")


def test_low_precision_is_the_cause_of_a_layer_that_is_off_in_float32_alone(healthy: Measured) -> None:
    smooth = healthy.stages["smooth"]
    smooth["shadows"] = [{"errors": {"conv3.weight": 3e-4, "fc.weight": 2e-6}}]
    smooth["first"] = {"step": 1, "what": "norm", "seen": 2.0, "expected": 1.0}
    smooth["notes"] = [
        {"kind": "forward", "part": "conv3", "text": "reduced precision", "cause": "precision", "step": 1}
    ]
    first, *rest = judge(healthy, load_golden()).findings
    assert first.rule == "reference-precision"
    assert "conv3" in first.title
    assert {f.consequence_of for f in rest} == {"reference-precision"}


def test_a_report_that_is_shared_names_nobody_and_keeps_every_bit(healthy: Measured) -> None:
    healthy.options = Options(python=Path("/home/maria/venv/bin/python"))
    report = document(healthy, judge(healthy, load_golden()))
    assert "maria" not in str(report)
    golden = load_golden()
    assert report["reference"]["inputs"] == golden["inputs"]
    assert report["reference"]["logic"]["steps"] == golden["logic"]["steps"]
    assert report["reference"]["repeats"]["strict:1"][0]["loss"] == (1.0).hex()


def test_without_float64_low_precision_is_not_made_the_cause_of_what_was_named(healthy: Measured) -> None:
    """MPS has no float64: nothing shows that the arithmetic alone is at fault."""
    healthy.stages["logic"] = {"skipped": "no float64 on this device"}
    smooth = healthy.stages["smooth"]
    smooth["shadows"] = [{"errors": {"conv3.weight": 3e-4, "fc.weight": 2e-6}}]
    smooth["first"] = {"step": 1, "what": "norm", "seen": 2.0, "expected": 1.0}
    smooth["notes"] = [{"kind": "backward", "part": "all", "text": "zero_grad() is missing", "cause": "zero-grad", "step": 1}]
    first, *rest = judge(healthy, load_golden()).findings
    assert first.rule == "reference-backward"
    assert {f.consequence_of for f in rest} == {"reference-backward"}


def test_the_training_gets_the_childs_environment_and_nothing_that_was_taken_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """macOS' launcher variable makes a venv's Python believe that it is another one."""
    module = sys.modules["envcheck.reference.measure"]  # the package has a function of that name
    seen: list[dict[str, str]] = []

    def run_payload(*_: Any, env: dict[str, str], **__: Any) -> Answer:
        seen.append(env)
        return Answer("python", "answered", Outcome(status="ok"))

    monkeypatch.setenv("__PYVENV_LAUNCHER__", "/somewhere/python3")
    monkeypatch.setattr(module, "run_payload", run_payload)
    module._train(Measured(Options(python=Path("python"))), module.PRESETS["quick"], None)
    assert seen
    assert "__PYVENV_LAUNCHER__" not in seen[0]


def test_only_a_switch_that_is_on_is_blamed_for_other_bits() -> None:
    machine = {"device": "cuda:0", "cuda": "13.0", "settings": {}, "variables": {"TORCHINDUCTOR_MAX_AUTOTUNE": "0"}}
    assert settings_that_break_repeats(machine) == []
    machine["variables"] = {"TORCHINDUCTOR_MAX_AUTOTUNE": "1"}
    machine["settings"] = {"are_deterministic_algorithms_enabled": False, "backends.cudnn.benchmark": True}
    assert len(settings_that_break_repeats(machine)) == 3
    assert len(settings_that_break_repeats({**machine, "device": "cpu"})) == 2
