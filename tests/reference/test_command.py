"""The command: what it refuses before it spends minutes."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from envcheck.cli.reference import Request
from envcheck.cli.reference_progress import Live
from envcheck.errors import UsageError
from envcheck.reference import cifar10


def test_good_requests_pass(tmp_path: Path) -> None:
    Request().check()
    Request(preset="full", record=tmp_path / "r.json", plot=tmp_path / "p.svg").check()
    Request(preset="full", data=tmp_path, download=True).check()
    (tmp_path / "r.json").write_text("{}")
    Request(record=tmp_path / "r.json", force=True).check()


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (Request(preset="fast"), "no preset"),
        (Request(download=True), "--download needs --data"),
        (Request(program=("train.py",)), "only run with --audit"),
        (Request(plot=Path("p.txt")), "png or .svg"),
        (Request(record=Path("/nowhere/r.json")), "no such directory"),
        (Request(against=Path("/nowhere/r.json")), "No such file"),
        (Request(record=Path(__file__)), "exists already; give --force"),
        (Request(data=Path("/nowhere")), "no cifar-10-batches-py in it"),
        (Request(record=Path("/"), force=True), "is a directory"),
        (Request(audit=True, record=Path("r.json")), "--record: of no use with --audit"),
        (Request(audit=True, epochs=3), "of no use with --audit"),
    ],
)
def test_bad_requests_are_refused(request_: Request, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        request_.check()


def test_a_wrong_file_of_the_data_is_named_before_anything_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    sums = {name: hashlib.md5(name.encode()).hexdigest() for name in cifar10.expected()}
    assert len(sums) == 6
    monkeypatch.setattr(cifar10, "expected", lambda: sums)
    for name in sums:
        (folder / name).write_bytes(name.encode())
    cifar10.check_files(tmp_path)
    cifar10.check_files(folder)  # either folder may be named
    (folder / "data_batch_4").write_bytes(b"half")
    with pytest.raises(UsageError, match=r"data_batch_4: not the original file \(4 bytes, wrong md5\)"):
        cifar10.check_files(tmp_path)
    (folder / "data_batch_4").unlink()
    with pytest.raises(UsageError, match="data_batch_4: No such file"):
        cifar10.check_files(tmp_path)


def test_progress_tells_epoch_accuracy_rate_and_time_left() -> None:
    live = Live(enabled=False)
    live("start", {"step": 0, "total": 780})
    line = live.line(
        "epoch",
        {"epoch": 1, "step": 390, "train_loss": 1.5, "train_accuracy": 0.45, "test_accuracy": 0.5, "images_per_second": 400.0},
    )
    assert "epoch 1" in line and "0.4500" in line and "0.5000" in line and "400 images/s" in line and "min left" in line
    assert live.done("progress", {"step": 39, "epoch": 1}) == (39, 780)
    assert live.done("download", {"bytes": 1000}) == (1000, 170498071)
    assert "0 of 170 MB" in live.line("download", {"bytes": 1000})


def test_a_log_gets_one_line_an_epoch(capsys: pytest.CaptureFixture[str]) -> None:
    event = {"epoch": 1, "step": 2, "train_loss": 1.0, "train_accuracy": 0.1, "test_accuracy": 0.2, "images_per_second": 3.0}
    live = Live(enabled=True)
    for name, answer in (("machine", None), ("start", {"step": 0, "total": 4}), ("progress", {"epoch": 1, "step": 1})):
        live(name, answer)
    live("epoch", event)
    live.close()
    assert capsys.readouterr().err.count("\n") == 1
