"""Whole runs of the training program: killed and resumed, with loader workers, in two processes."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from envcheck.process import Running, run

HERE = Path(__file__).resolve().parent
MARK = "@envcheck@ "
pytestmark = pytest.mark.torch
WORDS = ["--report", "--device", "cpu", "--batch", "64", "--every-step", "--threads", "2"]


def events(text: str) -> list[dict[str, Any]]:
    return [json.loads(line[len(MARK) :]) for line in text.splitlines() if line.startswith(MARK)]


def train(python: str, *words: str, launcher: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    done = run(
        [python, *launcher, HERE / "small_train.py", *WORDS, *words],
        timeout=600,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert done.ok, done.stderr[-3000:]
    return events(done.stdout)


def losses(told: list[dict[str, Any]]) -> list[str]:
    return [e["loss"] for e in told if e["stage"] == "step"]


def end(told: list[dict[str, Any]]) -> tuple[str, Any]:
    done = next(e for e in told if e["stage"] == "done")
    return done["weights"], done["history"]


@pytest.fixture(scope="module")
def unbroken(python_with_torch: str) -> list[dict[str, Any]]:
    """Eight steps make an epoch; ten end in the second."""
    return train(python_with_torch, "--steps", "10", "--deterministic", "--schedule", "cosine")


@pytest.mark.parametrize("step", [3, 8], ids=["in an epoch", "at its end"])
def test_killed_and_resumed_is_the_same_to_the_bit(
    python_with_torch: str, unbroken: list[dict[str, Any]], tmp_path: Path, step: int
) -> None:
    checkpoint = tmp_path / "c.pt"
    words = [
        "--steps",
        "10",
        "--deterministic",
        "--schedule",
        "cosine",
        "--checkpoint",
        str(checkpoint),
        "--checkpoint-every",
        "1",
    ]
    there = threading.Event()

    def watch(line: str) -> None:
        if line.startswith(MARK) and json.loads(line[len(MARK) :]).get("step") == step:
            there.set()

    child = Running([python_with_torch, HERE / "small_train.py", *WORDS, *words], on_line=watch)
    assert there.wait(300)
    child.kill()
    ended = child.wait(10)
    assert ended.status in ("crashed", "timeout"), ended
    before = losses(events(ended.stdout))
    after = train(python_with_torch, *words, "--resume")
    start = next(e for e in after if e["stage"] == "start")["step"]
    assert start <= len(before)
    assert before[:start] + losses(after) == losses(unbroken)
    assert end(after) == end(unbroken)


def test_two_processes_are_one_in_two_parts(python_with_torch: str, tmp_path: Path) -> None:
    whole = train(python_with_torch, "--steps", "4", "--accumulate", "2")
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    shared = train(python_with_torch, "--steps", "4", "--ddp", launcher=launcher)
    assert len(losses(shared)) == 4  # one process speaks
    for a, b in zip(losses(whole), losses(shared), strict=True):
        assert float.fromhex(b) == pytest.approx(float.fromhex(a), rel=1e-3)
    assert float.fromhex(losses(shared)[0]) == pytest.approx(float.fromhex(losses(whole)[0]), rel=1e-6)


def test_loader_gives_the_same_whatever_the_number_of_workers(python_with_torch: str) -> None:
    if not run([python_with_torch, "-c", "import torchvision"], timeout=120).ok:
        pytest.skip("no torchvision beside torch")
    none = train(python_with_torch, "--steps", "3", "--loader", "--workers", "0")
    two = train(python_with_torch, "--steps", "3", "--loader", "--workers", "2")
    assert losses(none) == losses(two)
    assert end(none) == end(two)


@pytest.mark.slow
def test_compiled_runs_repeat(python_with_torch: str) -> None:
    if not os.environ.get("ENVCHECK_REFERENCE_WHOLE"):
        pytest.skip("minutes: set ENVCHECK_REFERENCE_WHOLE=1")
    one = train(python_with_torch, "--steps", "4", "--compile", "--deterministic")
    assert losses(one) == losses(train(python_with_torch, "--steps", "4", "--compile", "--deterministic"))


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
    done = run([python_with_torch, HERE / "small_train.py", "--steps", "1", *words], timeout=300)
    assert done.returncode in (1, 2)
    assert "Traceback" not in done.stderr
    assert done.stderr.strip().splitlines()[-1].startswith(("train_cifar10:", "small_train.py: error:"))


def test_a_wrong_data_file_is_named(python_with_torch: str, tmp_path: Path) -> None:
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    (folder / "data_batch_1").write_bytes(b"half a file")
    done = run([python_with_torch, HERE / "small_train.py", "--steps", "1", "--data", str(tmp_path)], timeout=300)
    assert done.returncode == 1
    assert "data_batch_1: not the original CIFAR-10 file (11 bytes, wrong md5)" in done.stderr
