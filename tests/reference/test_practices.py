"""Every practice that train_cifar10.py shows, measured by `practices.py` in the Python that has torch."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from envcheck.process import run

HERE = Path(__file__).resolve().parent
pytestmark = [pytest.mark.torch, pytest.mark.xdist_group("practices")]  # one worker: the fixture is made once


@pytest.fixture(scope="module")
def told(python_with_torch: str) -> dict[str, Any]:
    done = run(
        [python_with_torch, HERE / "practices.py"], timeout=900, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    )
    assert done.ok, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_augmentation_follows_seed_epoch_and_index(told: dict[str, Any]) -> None:
    assert told["train same again"]
    assert told["train other epoch differs"]
    assert told["order is a permutation"]
    assert told["crop offsets"] == list(range(9))
    assert 0.4 < told["flipped share"] < 0.6


def test_the_test_set_is_never_augmented(told: dict[str, Any]) -> None:
    assert told["test is not augmented"]


def test_the_integer_generator_is_splitmix64(told: dict[str, Any]) -> None:
    # The published generator started at 0 gives these; counter n stands for its n-th state.
    assert told["splitmix64"] == ["e220a8397b1dcdaf", "6e789e6aa1b965f4", "6c45d188009454f"]


@pytest.mark.parametrize("kind", ["dtype", "shape", "labels", "range", "counts"])
def test_wrong_data_is_refused_in_one_line(told: dict[str, Any], kind: str) -> None:
    assert told["data refused"][kind]
    assert "\n" not in told["data refused"][kind]


def test_right_data_is_accepted(told: dict[str, Any]) -> None:
    assert told["data accepted"] is None


def test_four_parts_of_eight_are_one_batch_of_32_without_batchnorm(told: dict[str, Any]) -> None:
    assert told["accumulation"] < 1e-12
    assert told["accumulation loss"] < 1e-12
    assert told["accumulation right"][0] == told["accumulation right"][1]


def test_batchnorm_sees_the_parts(told: dict[str, Any]) -> None:
    assert told["accumulation with BatchNorm"] > 1e-3


def test_gradients_do_not_add_up_over_steps(told: dict[str, Any]) -> None:
    assert told["second gradient is its own"] < 1e-12
    assert told["second gradient is another"] > 1e-2


def test_gradients_are_clipped_after_they_are_unscaled(told: dict[str, Any]) -> None:
    assert told["norm before clipping"] > 0.5
    assert told["clipped norm"] == pytest.approx(0.5, rel=1e-4)
    if "scaled norm" not in told:
        pytest.skip("this torch has no GradScaler for the CPU")
    assert told["unscaled before clipping"] < 1e-6
    assert told["scaled norm"] == pytest.approx(told["norm before clipping"], rel=1e-4)


def test_a_step_with_inf_is_left_out_and_the_schedule_waits(told: dict[str, Any]) -> None:
    if "scaled norm" not in told:
        pytest.skip("this torch has no GradScaler for the CPU")
    assert told["inf leaves the step out"]
    assert told["inf leaves the schedule"]
    assert told["inf lowers the scale"] == 512


@pytest.mark.parametrize("kind", ["bf16", "fp16"])
def test_mixed_precision_gives_nearly_the_same_loss(told: dict[str, Any], kind: str) -> None:
    loss, exact = told["amp"][kind]
    if isinstance(loss, str):
        pytest.skip(f"this torch cannot on the CPU: {loss}")
    assert loss != exact
    assert loss == pytest.approx(exact, rel=2e-3)


def test_fused_optimizer_and_memory_layout_change_no_more_than_rounding(told: dict[str, Any]) -> None:
    assert told["fused"] < 1e-6
    assert told["fused where there is none"] == 0
    assert told["channels last"] < 1e-5
    assert told["channels last strides"]


def test_schedule(told: dict[str, Any]) -> None:
    schedule = told["schedule"]
    assert schedule["warm-up"] == [0.25, 0.5, 0.75, 1.0, 1.0]
    assert schedule["cosine middle"] == pytest.approx(0.5)
    assert schedule["cosine end"] == pytest.approx(0.0, abs=1e-12)
    assert schedule["constant"] == [1.0, 1.0, 1.0]
    assert told["rates used"] == pytest.approx(told["rates wanted"])


def test_evaluation_is_stable_and_changes_nothing(told: dict[str, Any]) -> None:
    first, second = told["evaluated twice"]
    assert first == second
    assert told["other size"] == pytest.approx(first, rel=1e-5)  # running statistics: the batch does not matter
    assert told["evaluation changes nothing"]
    assert told["training mode is back"]


def test_a_checkpoint_restores_everything(told: dict[str, Any]) -> None:
    restored = told["restored"]
    assert restored["weights"] and restored["rng"] and restored["losses"] and restored["next step"]
    assert restored["step"] == 3
    assert restored["right"] == 5
    assert restored["history"] == [{"epoch": 1}]
    assert restored["rate"][0] == restored["rate"][1]


def test_checkpoints_are_loaded_as_data_and_onto_the_cpu_first(told: dict[str, Any]) -> None:
    assert told["weights_only"] is True
    assert told["map_location"] == "cpu"
    assert not told["evil ran"]


@pytest.mark.parametrize("kind", ["half", "empty", "text", "foreign", "evil", "settings", "absent"])
def test_bad_checkpoints_are_refused_in_one_line(told: dict[str, Any], kind: str) -> None:
    assert told["checkpoint refused"][kind]
    assert "\n" not in told["checkpoint refused"][kind]


def test_one_changed_bit_of_a_checkpoint_is_seen(told: dict[str, Any]) -> None:
    assert told["flipped bits refused"] >= 5  # a bit of the padding between records may mean nothing


def test_a_failed_save_leaves_the_old_checkpoint(told: dict[str, Any]) -> None:
    assert told["failed save keeps the old one"]


def test_self_check_overfits_and_finds_dead_and_cut_models(told: dict[str, Any]) -> None:
    assert told["self-check"]["loss"] < 0.05
    assert "near 0" in told["dead model refused"]
    assert "conv1.weight" in told["cut graph refused"]


def test_tensorboard_reads_back_the_curves_of_the_run(told: dict[str, Any]) -> None:
    board = told["tensorboard"]
    if board["refused"]:
        assert "pip install tensorboard" in board["refused"]
        pytest.skip("tensorboard is not installed beside torch: only the refusal was seen")
    assert [row["step"] for row in board["history"]] == [16, 24]
    assert set(board["read"]) == {"train_loss", "train_accuracy", "test_loss", "test_accuracy"}
    for name, points in board["read"].items():
        wanted = [[row["step"], pytest.approx(row[name], rel=1e-6)] for row in board["history"]]  # kept as float32
        assert points == wanted, name


@pytest.mark.parametrize("model", ["relu", "smooth"])
def test_onnx_gives_the_same_logits_for_any_batch_size(told: dict[str, Any], model: str) -> None:
    if told["onnx"]["refused"]:
        assert "pip install onnx" in told["onnx"]["refused"]
        assert "epoch" not in told["onnx"]["stages"]  # before the training, not after it
        pytest.skip("onnx, onnxscript or onnxruntime is not installed beside torch: only the refusal was seen")
    assert told["onnx"]["stages"][-2:] == ["onnx", "done"]
    seen = told["onnx"][model]
    assert seen["spread"] > 0.01  # a model that says something
    assert seen["files"] == 1  # the weights are in it
    assert seen["reported"] < 1e-4
    assert seen["other images"] < 1e-4
