"""The accuracy bands and what is said about a training, over runs that are written here."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from envcheck.errors import MatrixError
from envcheck.reference import Band, Measured, Options, bands, document, judge, load_golden
from envcheck.reference import result as module


def curve(final: float, epochs: int = 20, noise: float = 0.01, seed: int = 0) -> list[dict[str, Any]]:
    draw = random.Random(seed)
    rows = []
    for epoch in range(1, epochs + 1):
        value = final * (1 - 0.5**epoch)
        rows.append({"epoch": epoch, "train_accuracy": value, "test_accuracy": value + draw.gauss(0, noise)})
    return rows


def write(path: Path, curves: list[list[dict[str, Any]]], data: str = "cifar10") -> Path:
    path.write_text(json.dumps({"runs": [{"data": data, "seed": n, "epochs": c} for n, c in enumerate(curves)]}))
    return path


def training(history: list[dict[str, Any]], source: str = "cifar10") -> list[dict[str, Any]]:
    checked = {"train": {"images": 50000}, "test": {"images": 10000}}
    return [
        {"stage": "data", "source": source, "checked": checked},
        {"stage": "self-check", "loss": 1e-3, "gradient_norms": {"conv1.weight": 0.5, "conv1.bias": 0.0}},
        {"stage": "done", "history": history},
    ]


def measured(history: list[dict[str, Any]], source: str = "cifar10", preset: str = "full") -> Measured:
    return Measured(Options(python=Path("python"), preset=preset), training=training(history, source))


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = write(tmp_path / "curves.json", [curve(0.75 + 0.002 * n, seed=n) for n in range(3)])
    monkeypatch.setattr(module, "bands", lambda epochs, data: bands(epochs, data, path))
    return path


def told(run: Measured) -> dict[str, tuple[str, str]]:
    return {level["name"]: (level["status"], level["text"]) for level in judge(run, load_golden()).levels}


def test_a_run_like_the_recorded_ones_is_proved(recorded: Path) -> None:
    claims = told(measured(curve(0.752, seed=9)))
    assert {name for name, (status, _) in claims.items() if status == "proved"} == {
        "data", "self-check", "train-accuracy", "test-accuracy",
    }  # fmt: skip
    assert "50,000 train and 10,000 test images" in claims["data"][1]
    assert "mean of the last 10" in claims["test-accuracy"][1]


@pytest.mark.parametrize(("final", "severity"), [(0.60, "error"), (0.92, "warning")])
def test_a_run_outside_is_found(recorded: Path, final: float, severity: str) -> None:
    findings = judge(measured(curve(final, seed=9)), load_golden()).findings
    assert {(f.rule, f.severity) for f in findings} == {("reference-accuracy", severity)}
    assert {f.title.split()[0] for f in findings} == {"train", "test"}


def test_a_length_or_data_that_nobody_recorded_is_skipped_and_said(recorded: Path) -> None:
    for run in (measured(curve(0.75, epochs=25)), measured(curve(0.99), source="made")):
        judgement = judge(run, load_golden())
        assert judgement.findings == []
        assert [s.rule for s in judgement.skipped] == ["reference-accuracy"]
        assert "is recorded" in judgement.skipped[0].reason


def test_the_quick_preset_with_data_checks_it_and_says_nothing_of_accuracy(recorded: Path) -> None:
    assert set(told(measured(curve(0.2, epochs=1), preset="quick"))) == {"data", "self-check"}


def test_two_seeds_or_wild_ones_are_no_band(tmp_path: Path) -> None:
    two = bands(20, path=write(tmp_path / "two.json", [curve(0.75, seed=n) for n in range(2)]))
    assert [band.limits for band in two] == [None, None]
    wild = bands(20, path=write(tmp_path / "wild.json", [curve(0.5 + 0.2 * n) for n in range(3)]))
    assert wild[0].spread is not None
    assert wild[0].limits is None  # it would let everything through


@pytest.mark.parametrize("between", [0.0, 0.02], ids=["seeds alike", "seeds that differ"])
def test_a_band_is_narrow_enough_to_mean_something_and_wide_enough_for_honest_runs(between: float) -> None:
    """Simulated: recorded seeds of known scatter; the next one falls outside about once in a thousand."""
    draw = random.Random(5)
    outside, halves, tried = 0, [], 3000
    for _ in range(tried):
        level = [draw.gauss(0.66, between) for _ in range(5)]
        runs = tuple(tuple(draw.gauss(mean, 0.05) for _ in range(10)) for mean in level[1:])
        limits = Band("test_accuracy", 20, runs).limits
        if limits is None:
            continue
        halves.append((limits[1] - limits[0]) / 2)
        seen = sum(draw.gauss(level[0], 0.05) for _ in range(10)) / 10
        outside += not limits[0] <= seen <= limits[1]
    assert outside <= 0.006 * tried
    assert sum(halves) / len(halves) < (0.10 if not between else 0.13)
    assert len(halves) > 0.6 * tried


def test_the_second_half_is_what_counts(tmp_path: Path) -> None:
    path = write(tmp_path / "c.json", [curve(0.75, seed=n) for n in range(3)])
    assert [bands(n, path=path)[0].over for n in (1, 2, 3, 6, 20)] == [1, 1, 2, 3, 10]


def test_other_rounding_is_granted(tmp_path: Path) -> None:
    low, high = bands(20, path=write(tmp_path / "c.json", [curve(0.75) for _ in range(3)]))[0].limits or (0, 0)
    assert high - low == pytest.approx(0.02)


def test_the_first_epochs_of_longer_runs_are_runs_of_that_length(tmp_path: Path) -> None:
    path = write(tmp_path / "c.json", [curve(0.75, epochs=20, seed=n) for n in range(3)])
    assert bands(3, path=path)[0].mean == pytest.approx(0.75 * (2 - 0.5**2 - 0.5**3) / 2)
    assert bands(21, path=path) == ()


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "c.json").write_text('{"runs": [{"data": "cifar10", "epochs": [{}]}]}')
    with pytest.raises(MatrixError, match=r"c\.json"):
        bands(1, path=tmp_path / "c.json")


def test_the_report_says_which_data_was_used(recorded: Path) -> None:
    for source in ("cifar10", "made"):
        run = measured(curve(0.75), source)
        assert document(run, judge(run, load_golden()))["reference"]["data"] == source


def test_the_recorded_runs_make_bands_of_the_presets() -> None:
    """The real file: at least three whole trainings on CIFAR-10, five on the made images; each is inside its own band."""
    for epochs, data in ((20, "cifar10"), (6, "made")):
        for band in bands(epochs, data):
            assert len(band.runs) >= 3
            low, high = band.limits or (1.0, 0.0)
            assert low < min(band.values) <= max(band.values) < high or high == 1.0
    assert bands(3, "cifar10")[0].limits is not None  # the preset `standard`
    assert bands(3, "made")[0].limits is not None
