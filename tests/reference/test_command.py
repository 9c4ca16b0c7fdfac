"""The command: what it refuses before it spends minutes."""

from __future__ import annotations

from pathlib import Path

import pytest

from envcheck.cli.reference import _check
from envcheck.cli.reference_progress import Live
from envcheck.errors import UsageError

GOOD = {
    "preset": "quick",
    "data": None,
    "download": False,
    "epochs": None,
    "audit": False,
    "program": None,
    "record": None,
    "plot": None,
    "against": None,
}


def test_good_requests_pass(tmp_path: Path) -> None:
    _check(**GOOD)
    _check(**{**GOOD, "preset": "full", "data": tmp_path, "record": tmp_path / "r.json", "plot": tmp_path / "p.svg"})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"preset": "fast"}, "no preset"),
        ({"preset": "full"}, "needs --data"),
        ({"download": True}, "--download needs --data"),
        ({"program": ["train.py"]}, "only run with --audit"),
        ({"plot": Path("p.txt")}, "png or .svg"),
        ({"record": Path("/nowhere/r.json")}, "no such directory"),
        ({"against": Path("/nowhere/r.json")}, "No such file"),
    ],
)
def test_bad_requests_are_refused(change: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        _check(**{**GOOD, **change})  # type: ignore[arg-type]


def test_progress_tells_epoch_accuracy_rate_and_time_left() -> None:
    live = Live(enabled=False)
    live("start", {"step": 0, "total": 780})
    line = live.line(
        "epoch", {"epoch": 1, "step": 390, "train_loss": 1.5, "test_accuracy": 0.5, "images_per_second": 400.0}
    )
    assert "epoch 1" in line and "0.5000" in line and "400 images/s" in line and "min left" in line
