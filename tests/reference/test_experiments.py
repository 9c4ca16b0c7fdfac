"""Run-twice experiments: which processes they need, what their answers mean, and some of them on this machine's CPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from envcheck.process import run
from envcheck.reference.audit import Audit, document
from envcheck.reference.audit_findings import of_audit
from envcheck.reference.experiments import (
    BY_NAME,
    EXPERIMENTS,
    PAYLOAD,
    Experiments,
    Result,
    Run,
    _environment,
    _left_out,
    control,
    experiments,
    judge,
    plan,
)
from envcheck.reference.settings import loose_now
from envcheck.reference.traces import Trace, parse


def trace(*values: str) -> Trace:
    return parse([["output", step + 1, "model", "", "Net", "", f"float32 [1] {value}", 1.0, 1.0] for step, value in enumerate(values)])


STRICT = (Run(trace("a", "b", "c")), Run(trace("a", "b", "c")))
EQUAL = control("strict", *STRICT)


@pytest.mark.parametrize(
    ("one", "other", "status", "words"),
    [
        (Run(trace("a", "b", "c")), Run(trace("a", "b", "c")), "no-effect", "and those of the strict run"),
        (Run(trace("a", "x", "c")), Run(trace("a", "x", "c")), "other-bits", "not those of the strict run, first at "),
        (Run(trace("a", "x", "c")), Run(trace("a", "y", "c")), "differs", "two runs differ, first at "),
        (Run(error="RuntimeError: Deterministic behavior was enabled ... CUBLAS_WORKSPACE_CONFIG"), Run(), "refused", "torch refuses"),
        (Run(trace("a")), Run(error="timeout: no answer"), "failed", "timeout"),
    ],
)
def test_what_two_runs_say(one: Run, other: Run, status: str, words: str) -> None:
    result = judge(BY_NAME["threads"], EQUAL, STRICT, (one, other), 2)
    assert (result.status, result.loose) == (status, "1 thread instead of 2")
    assert words in result.text


def test_without_an_equal_control_nothing_is_judged() -> None:
    differing = control("strict", Run(trace("a", "b")), Run(trace("a", "c")))
    assert differing.status == "differs" and differing.twice is not None and differing.twice.before == 1
    result = judge(BY_NAME["torch-seed"], differing, STRICT, (Run(trace("x")), Run(trace("y"))), 2)
    assert result.status == "unjudged" and result.twice is None


def machine(**settings: object) -> dict:
    return {"device": "cuda:0", "settings": {k.replace("__", "."): v for k, v in settings.items()}, "variables": {}}


def audited(results: list[Result], control_: Result = EQUAL, operations: list[dict] = (), **settings: object) -> Audit:
    return Audit(machine(**settings), [], list(operations), Experiments(results=results, controls={"strict": control_}))


def result(name: str, one: str = "x", other: str = "y") -> Result:
    return judge(BY_NAME[name], EQUAL, STRICT, (Run(trace("a", one)), Run(trace("a", other))), 2)


def test_findings_are_of_what_is_loose_now_and_was_shown_to_matter() -> None:
    results = [result("torch-seed"), result("hash-seed", "x", "x"), result("cudnn-benchmark"), result("worker-own")]
    findings, _ = of_audit(audited(results, backends__cudnn__benchmark=False))
    assert [(f.rule, f.severity) for f in findings] == [("reference-loose-setting", "note")]  # as everywhere: no warning
    assert "torch.manual_seed" in findings[0].remedy.text
    findings, _ = of_audit(audited(results, backends__cudnn__benchmark=True))
    assert [f.severity for f in findings] == ["warning", "note"]


def test_a_control_that_differs_is_the_one_finding() -> None:
    differing = control("strict", Run(trace("a")), Run(trace("b")))
    unjudged = judge(BY_NAME["torch-seed"], differing, STRICT, (Run(trace("x")), Run(trace("y"))), 2)
    findings, checks = of_audit(audited([unjudged], differing))
    assert [(f.rule, f.severity) for f in findings] == [("reference-not-repeatable", "error")]
    assert [c.status for c in checks] == ["failed"]
    findings, _ = of_audit(audited([], control("strict", Run(error="crashed: SIGSEGV"), Run())))
    assert [f.rule for f in findings] == ["reference-failed"]


def test_operations_that_break_torchs_promise() -> None:
    rows = [
        {"operation": "index_add_", "status": "differs", "text": "", "differs_when_off": True},
        {"operation": "histc", "status": "refused", "text": "", "differs_when_off": True},
        {"operation": "cumsum", "status": "crashed", "text": "SIGSEGV", "differs_when_off": None},
    ]
    found = audited([], operations=rows)
    findings, checks = of_audit(found)
    assert [f.rule for f in findings] == ["reference-operation-differs", "reference-failed"]
    assert [c.status for c in checks if c.name.startswith("audit-operation")] == ["failed", "skipped", "crashed"]
    assert document(found)["operations"] == rows


def test_what_a_fresh_process_decides_has_one_of_its_own() -> None:
    left_out = _left_out("cpu", compiled=False)
    groups = plan("cpu", [item for item in EXPERIMENTS if item.name not in left_out])
    assert {g.runs for g in groups if len(g.runs) == 1} == {("torch-seed",), ("python-seed",), ("hash-seed",)}
    assert {"cudnn-benchmark", "cudnn-deterministic", "cublas-workspace", "tf32", "autotune"} == set(left_out)
    assert all(reason for _, reason in left_out.values())
    for kind in ("cuda", "mps"):
        rest = [item for item in EXPERIMENTS if item.name not in _left_out(kind, compiled=False)]
        groups = plan(kind, rest)
        assert all(len(g.runs) == 1 or g.runs[0] == "loader" for g in groups)
        assert {r for g in groups for r in g.runs} == {i.name for i in rest} | {i.base for i in rest}
        assert {g.runs for g in groups if g.timed} == {(i.name,) for i in rest if i.timed}
    assert "autotune" not in _left_out("cpu", compiled=True)


def test_the_environment_is_strict_whatever_the_users_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", "1")
    monkeypatch.setenv("PYTHONHASHSEED", "7")
    assert _environment(Path("python"), {})["PYTHONHASHSEED"] == "0"
    assert "NVIDIA_TF32_OVERRIDE" not in _environment(Path("python"), {})
    assert "PYTHONHASHSEED" not in _environment(Path("python"), BY_NAME["hash-seed"].env)


def test_every_experiment_is_a_run_and_says_what_is_loose() -> None:
    for item in EXPERIMENTS:
        assert item.loose and item.cure and (item.why_not or not item.on)
        assert loose_now(machine(), item.name) in (True, False, None)
    assert loose_now(machine(), "hash-seed") is True and loose_now({"variables": {"PYTHONHASHSEED": "1"}}, "hash-seed") is False


@pytest.mark.torch
def test_on_this_cpu(python_with_torch: str) -> None:
    told: list[str] = []
    found = experiments(Path(python_with_torch), "cpu", only=("hash-seed", "threads", "worker-own"), on_progress=told.append)
    assert {name: c.status for name, c in found.controls.items()} == {"strict": "no-effect", "loader": "no-effect"}
    results = {r.name: r for r in found.results}
    hashes, own, threads = results["hash-seed"], results["worker-own"], results["threads"]
    assert hashes.status == "differs" and hashes.twice is not None and hashes.twice.text == "step 1: the loss"
    assert own.status == "differs" and own.twice is not None and own.twice.kind == "input"
    assert threads.twice is None  # whether another number gives other bits depends on the machine
    assert results["cudnn-benchmark"].status == "left-out"
    assert len(told) == 10 and told[-1].startswith("experiments: 10 of 10 runs")


@pytest.mark.torch
def test_without_numpy(python_with_torch: str, tmp_path: Path) -> None:
    """The training has its augmentation all the same, and what is loose is loose."""
    import os

    (tmp_path / "numpy.py").write_text("raise ModuleNotFoundError('no numpy here')")
    env = {**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONHASHSEED": "0", "OMP_WAIT_POLICY": "passive"}
    done = run([python_with_torch, PAYLOAD, "python-seed", "strict", "--device", "cpu", "--steps", "1"], timeout=300, env=env)
    assert done.ok, done.stderr[-2000:]
    import json

    stages = {s["stage"]: s for s in (json.loads(line.partition("@envcheck@ ")[2]) for line in done.stdout.splitlines() if '"stage"' in line)}
    assert stages["import torch"]["numpy"] is None
    loose, strict = parse(stages["python-seed"]["rows"]), parse(stages["strict"]["rows"])
    assert [r.hash for r in loose.rows if r.kind == "input"] != [r.hash for r in strict.rows if r.kind == "input"]
    assert [r.hash for r in loose.rows if r.kind == "start"] == [r.hash for r in strict.rows if r.kind == "start"]


def test_a_strict_run_that_torch_refuses_is_no_fault_of_the_installation() -> None:
    refused = control("strict", Run(error="RuntimeError: x does not have a deterministic implementation"), Run())
    findings, checks = of_audit(audited([], refused))
    assert findings == []
    assert [c.status for c in checks if "control" in c.name] == ["skipped"]
