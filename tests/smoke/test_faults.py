"""A smoke test that cannot fail is a defect: each is shown broken operations, and healthy ones from many seeds."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from envcheck import process
from envcheck.smoke import list_checks

FAULTS = Path(__file__).with_name("faults.py")
SEEDS = int(os.environ.get("ENVCHECK_SMOKE_SEEDS", "2"))
# Backends of attention that refuse tensors on the CPU, so no fault can be planted without their hardware.
NEED_HARDWARE = {"attention-efficient", "attention-cudnn"}

pytestmark = [pytest.mark.torch, pytest.mark.xdist_group("smoke-faults")]  # one worker: the fixture is made once


def _lines(python: str, *arguments: str, timeout: float) -> list[dict]:
    # One thread: the tensors are small, and a busy machine spends its time handing work over.
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = process.run([python, FAULTS, *arguments], timeout=timeout, env=env)
    assert done.ok, f"{done.status} {done.returncode}\n{done.stderr[-4000:]}"
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


@pytest.fixture(scope="module")
def verdicts(python_with_torch: str) -> list[dict]:
    """Every planted fault and what the smoke test said."""
    # A fault that only some seeds would show is a weak test of ours: ENVCHECK_SMOKE_SEED tries another one.
    seed = int(os.environ.get("ENVCHECK_SMOKE_SEED", "20261130"))
    return _lines(python_with_torch, "RUN", str(seed), timeout=600)


def test_every_planted_fault_is_found(verdicts: list[dict]) -> None:
    missed = [v for v in verdicts if v["status"] != "failed"]
    assert not missed, "\n".join(map(str, missed))


def test_no_planted_fault_is_a_dud(verdicts: list[dict]) -> None:
    assert not [v["fault"] for v in verdicts if not v["hits"]]


def test_each_smoke_test_has_a_fault_and_there_are_many(verdicts: list[dict]) -> None:
    assert len({v["fault"] for v in verdicts}) == len(verdicts) >= 40
    assert {v["test"] for v in verdicts} == {e.name for e in list_checks()} - NEED_HARDWARE


def test_failures_say_what_was_wrong(verdicts: list[dict]) -> None:
    assert not [v["fault"] for v in verdicts if not v["detail"]]
    said = {v["fault"]: v["detail"] for v in verdicts}
    assert "device to host" in said["copy back: one bit flipped"]
    assert "host to device" in said["copy: one bit flipped on the way there"]
    assert "NaN" in said["product: NaN"]
    assert "gradient of the weight" in said["linear: weight gradient dropped"]


def test_no_false_failure(python_with_torch: str) -> None:
    first = int.from_bytes(os.urandom(3), "little")
    lines = _lines(python_with_torch, "SOUND", str(first), str(SEEDS), timeout=120 + 10 * SEEDS)
    assert lines[:-1] == []
    counts = lines[-1]["passed"]
    assert set(counts.values()) == {SEEDS}
    assert len([key for key in counts if key.endswith("@cpu")]) >= 20


def test_a_device_that_dies_or_never_worked_is_told_once(python_with_torch: str) -> None:
    done = process.run([python_with_torch, FAULTS, "DEAD"], timeout=120)
    lines = [line.removeprefix("@envcheck@ ") for line in done.stdout.splitlines() if "{" in line]
    events = [e for e in map(json.loads, lines) if e.get("stage") != "check-start"]
    said = [
        (e.get("name"), e.get("device"), e.get("status"))
        if e.get("stage") == "check"
        else (e.get("stage"), e.get("finished"))
        for e in events
    ]
    assert said == [
        ("first-work", "cuda:0", "passed"),
        ("batch-norm", "cuda:0", "passed"),
        ("layer-norm", "cuda:0", "failed"),
        ("check-restart", None),
        (None, False),
        ("softmax", "cuda:0", "skipped"),
        ("first-work", "cuda:1", "failed"),
        ("batch-norm", "cuda:1", "skipped"),
        ("layer-norm", "cuda:1", "skipped"),
        ("softmax", "cuda:1", "skipped"),
        (None, True),
    ]
    assert "no kernel image" in events[6]["detail"]
    assert "cuda:1" in events[7]["detail"]
