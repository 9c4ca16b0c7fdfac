"""Whole runs of the training program: twice, killed and resumed, with loader workers, compiled, in two processes."""

from __future__ import annotations

import json
import os
import random
import shutil
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from envcheck.process import Running, run

HERE = Path(__file__).resolve().parent
PROGRAM = HERE / "small_train.py"
MARK = "@envcheck@ "
pytestmark = pytest.mark.torch
WORDS = ["--report", "--device", "cpu", "--batch", "64", "--every-step", "--threads", "2"]
STRICT = ["--steps", "18", "--deterministic", "--schedule", "cosine"]  # eight steps make an epoch
KILLS = 3
SEED_OF_KILLS = 20261130

Events = list[dict[str, Any]]


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **more}


def events(text: str) -> Events:
    return [json.loads(line[len(MARK) :]) for line in text.splitlines() if line.startswith(MARK)]


def train(python: str, *words: str, launcher: tuple[str, ...] = (), env: dict[str, str] | None = None) -> Events:
    done = run([python, *launcher, PROGRAM, *WORDS, *words], timeout=600, env=env or environment())
    assert done.ok, done.stderr[-3000:]
    return events(done.stdout)


def losses(told: Events) -> list[str]:
    return [e["loss"] for e in told if e["stage"] == "step"]


def start(told: Events) -> int:
    return int(next(e for e in told if e["stage"] == "start")["step"])


def end(told: Events) -> tuple[str, Any]:
    done = next(e for e in told if e["stage"] == "done")
    return done["weights"], done["history"]


def killed(
    python: str, *words: str, at: int = 0, later: float = 0.0, env: dict[str, str] | None = None
) -> tuple[Events, bool]:
    """What a run said until SIGKILL, and whether it was still at work.

    Killed at the report of step `at`; without it, at a moment that is `later` times the first step's time after that step.
    """
    there = threading.Event()
    moments: list[float] = []

    def watch(line: str) -> None:
        event = json.loads(line[len(MARK) :]) if line.startswith(MARK) else {"stage": ""}
        if event["stage"] in ("start", "step"):
            moments.append(time.monotonic())
            if event["step"] == at if at else len(moments) == 2:
                there.set()

    child = Running([python, PROGRAM, *WORDS, *words], on_line=watch, env=env or environment())
    while not there.wait(0.1):
        if child.poll() or time.monotonic() - child.begun > 300:
            assert there.wait(2.0), child.wait(0.0).stderr[-3000:]  # its last words may still be on the way
    time.sleep(later * (moments[1] - moments[0]))
    in_time = not child.poll()
    child.kill()
    ended = child.wait(10)
    assert ended.status in ("crashed", "timeout") or not in_time, ended
    return events(ended.stdout), in_time


def same_bits_after(unbroken: Events, *parts: Events) -> None:
    """Each part of a run but the last was killed: together they are the unbroken run."""
    told: list[str] = []
    for part in parts:
        assert start(part) <= len(told)
        told = told[: start(part)] + losses(part)
    assert told == losses(unbroken)
    assert end(parts[-1]) == end(unbroken)


@pytest.fixture(scope="module")
def unbroken(python_with_torch: str) -> Events:
    return train(python_with_torch, *STRICT)


@pytest.mark.xdist_group("reference in memory")  # one worker, so that what they share is made once
@pytest.mark.parametrize("step", [3, 8], ids=["in an epoch", "at its end"])
def test_killed_and_resumed_is_the_same_to_the_bit(
    python_with_torch: str, unbroken: Events, tmp_path: Path, step: int
) -> None:
    words = [*STRICT, "--checkpoint", str(tmp_path / "c.pt"), "--checkpoint-every", "1"]
    first, in_time = killed(python_with_torch, *words, at=step)
    assert in_time
    same_bits_after(unbroken, first, train(python_with_torch, *words, "--resume"))


def test_two_processes_are_one_in_two_parts(python_with_torch: str, tmp_path: Path) -> None:
    whole = train(python_with_torch, "--steps", "4", "--accumulate", "2")
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2")
    shared = train(python_with_torch, "--steps", "4", "--ddp", launcher=launcher)
    assert len(losses(shared)) == 4  # one process speaks
    for a, b in zip(losses(whole), losses(shared), strict=True):
        assert float.fromhex(b) == pytest.approx(float.fromhex(a), rel=1e-3)
    assert float.fromhex(losses(shared)[0]) == pytest.approx(float.fromhex(losses(whole)[0]), rel=1e-6)


@pytest.mark.xdist_group("reference in memory")
def test_killed_at_any_moment_again_and_again(python_with_torch: str, unbroken: Events, tmp_path: Path) -> None:
    """Moments by the clock and not by the step: within a step, an evaluation, the writing of a checkpoint."""
    moments = random.Random(SEED_OF_KILLS)
    words = [*STRICT, "--checkpoint", str(tmp_path / "c.pt"), "--checkpoint-every", "1"]
    parts, in_time = [], 0
    for number in range(KILLS):
        resume = ["--resume"] if number else []
        told, alive = killed(python_with_torch, *words, *resume, later=moments.uniform(0.0, 4.0))
        parts.append(told)
        in_time += alive
    assert in_time == KILLS
    same_bits_after(unbroken, *parts, train(python_with_torch, *words, "--resume"))


LOADER = ("--steps", "10", "--deterministic", "--loader")


@pytest.fixture(scope="module")
def loaded(python_with_torch: str) -> Events:
    """With two workers."""
    if not run([python_with_torch, "-c", "import torchvision"], timeout=120).ok:
        pytest.skip("no torchvision beside torch")
    return train(python_with_torch, *LOADER, "--workers", "2")


@pytest.mark.xdist_group("reference loader")
def test_loader_repeats_to_the_bit_also_without_workers(python_with_torch: str, loaded: Events) -> None:
    for workers in ("2", "0"):
        again = train(python_with_torch, *LOADER, "--workers", workers)
        assert losses(again) == losses(loaded)
        assert end(again) == end(loaded)


@pytest.mark.xdist_group("reference loader")
def test_loader_killed_in_mid_epoch_and_resumed_is_the_same_to_the_bit(
    python_with_torch: str, loaded: Events, tmp_path: Path
) -> None:
    words = [*LOADER, "--workers", "2", "--checkpoint", str(tmp_path / "c.pt"), "--checkpoint-every", "1"]
    first, in_time = killed(python_with_torch, *words, at=5)
    assert in_time
    same_bits_after(loaded, first, train(python_with_torch, *words, "--resume"))


COMPILED = ("--steps", "5", "--compile", "--deterministic")


@pytest.fixture(scope="module")
def compiled(python_with_torch: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[Events, dict[str, str]]:
    """What the first process did, which compiled, and the environment in which the others find what it made."""
    if run([python_with_torch, "-c", "import torch; torch.compile"], timeout=120).returncode:
        pytest.skip("this torch has no torch.compile (it came with 2.0)")
    compiler = os.environ.get("CXX", "g++")
    if not any(shutil.which(name) for name in (compiler, "g++", "clang++")):
        pytest.skip("no C++ compiler: torch.compile needs one on the CPU")
    env = environment(TORCHINDUCTOR_CACHE_DIR=str(tmp_path_factory.mktemp("inductor")))
    return train(python_with_torch, *COMPILED, env=env), env


@pytest.mark.xdist_group("reference compiled")
def test_compiled_repeats_to_the_bit(python_with_torch: str, compiled: tuple[Events, dict[str, str]]) -> None:
    told, env = compiled
    again = train(python_with_torch, *COMPILED, env=env)
    assert losses(again) == losses(told)
    assert end(again) == end(told)


@pytest.mark.xdist_group("reference compiled")
def test_compiled_killed_and_resumed_is_the_same_to_the_bit(
    python_with_torch: str, compiled: tuple[Events, dict[str, str]], tmp_path: Path
) -> None:
    told, env = compiled
    words = [*COMPILED, "--checkpoint", str(tmp_path / "c.pt"), "--checkpoint-every", "1"]
    first, in_time = killed(python_with_torch, *words, at=2, env=env)
    assert in_time
    same_bits_after(told, first, train(python_with_torch, *words, "--resume", env=env))


@pytest.mark.parametrize(
    "words",
    [
        ["--data", "/nowhere"],
        ["--batch", "30", "--accumulate", "4"],
        ["--resume"],
        ["--resume", "--checkpoint", "/nowhere/c.pt"],
    ],
    ids=["no data", "uneven parts", "resume from nothing", "no such checkpoint"],
)
def test_bad_requests_end_with_one_line(python_with_torch: str, words: list[str]) -> None:
    done = run([python_with_torch, PROGRAM, "--steps", "1", *words], timeout=300)
    assert done.returncode in (1, 2)
    assert "Traceback" not in done.stderr
    assert done.stderr.strip().splitlines()[-1].startswith(("train_cifar10:", "small_train.py: error:"))


def test_a_wrong_data_file_is_named(python_with_torch: str, tmp_path: Path) -> None:
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    (folder / "data_batch_1").write_bytes(b"half a file")
    done = run([python_with_torch, PROGRAM, "--steps", "1", "--data", str(tmp_path)], timeout=300)
    assert done.returncode == 1
    assert "data_batch_1: not the original CIFAR-10 file (11 bytes, wrong md5)" in done.stderr
