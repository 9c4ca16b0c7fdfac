"""The hooks of the audit follow programs in all the ways that they train; `audit_cases.py` does it in the Python with torch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from envcheck.process import run

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def seen(python_with_torch: str) -> dict[str, Any]:
    done = run([python_with_torch, Path(__file__).parent / "audit_cases.py"], timeout=600)
    assert done.ok, done.stderr[-2000:]
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    raised = {name: value["raised"] for name, value in told.items() if isinstance(value, dict) and "raised" in value}
    assert raised == {}
    return told


def kinds(rows: list[list[Any]], step: int | None = None) -> list[str]:
    return [f"{row[0]} {row[3]}".strip() for row in rows if step is None or row[1] == step]


def test_two_models_and_two_optimizers(seen) -> None:
    assert {row[2] for row in seen["gan"] if row[0] == "start"} == {"netG", "netD"}
    assert max(row[1] for row in seen["gan"]) == 4
    assert [row[2] for row in seen["gan"] if row[0] == "gradient" and row[3] == "weight"] == ["netD", "netG", "netD", "netG"]


def test_gradients_that_a_closure_computes(seen) -> None:
    """They are looked at after each call of the closure, where they exist, and not before the step."""
    for step in (1, 2):
        told = kinds(seen["closure"], step)
        assert told.index("loss") < told.index("gradient 2.bias") < told.index("weights 0.weight")
    lbfgs = kinds(seen["lbfgs"])
    assert lbfgs.count("loss") == lbfgs.count("gradient weight") > 1 and lbfgs.count("weights weight") == 1


def test_scheduler_and_scaler_work_as_without_hooks(seen) -> None:
    assert max(row[1] for row in seen["scheduler_and_scaler"] if row[0] == "weights") == 2


def test_a_step_within_a_step_is_one(seen) -> None:
    assert kinds(seen["optimizer_within"]).count("weights weight") == 2


def test_keyword_arguments_and_nested_outputs(seen) -> None:
    assert [row[4] for row in seen["keywords"] if row[0] == "input"] == ["ids", "mask"]
    assert [row[4] for row in seen["keywords"] if row[0] == "output" and row[3] == ""] == ["logits", "rest"]


def test_a_forward_that_raised_is_over(seen) -> None:
    told = kinds(seen["exceptions"])
    assert told.count("input") == 3 and not any(kind.startswith("between") for kind in told)


def test_parts_and_weights_that_are_used_by_themselves_have_their_names(seen) -> None:
    told = seen["functional"]
    assert ["input", 1, "model", "2", ""] in told
    assert [row[3] for row in told if row[0] == "gradient"] == ["a parameter of shape [2]", "2.bias", "2.weight", "0.weight"]


def test_weights_changed_behind_autograds_back_are_seen_before_they_are_used(seen) -> None:
    assert seen["changed_outside"] == [["state", 2, "weight"]]


def test_shared_weights_are_told_once(seen) -> None:
    assert kinds(seen["shared"]).count("gradient 0.weight") == 1 and "gradient 1.weight" not in kinds(seen["shared"])


def test_tensors_of_every_kind(seen) -> None:
    told = seen["kinds"]
    assert (told["same"], told["other"]) == (1, 6)  # equal bits whatever the memory's layout; values, types and shapes count
    assert told["sparse"] == [True, True] and told["csr"] and told["quantized"] and told["inference"]
    assert all(text.startswith("not compared") for text in told["unread"]) and told["counted"] == 2
    assert told["broad"] == ["float32", 4]  # an expanded tensor is not spread out
    assert told["half"] == 4


def test_the_hash_of_the_device(seen) -> None:
    assert seen["on_device"] == {"seen": 4, "swapped": True, "chunks": True, "kinds": True, "empty": 0}


def test_large_tensors_are_sampled_and_that_is_counted(seen) -> None:
    assert seen["large"] == {"differ": True, "sampled": 2, "bytes": True}


def test_other_threads_are_not_mixed_in(seen) -> None:
    assert seen["other_thread"] == 1


def test_compiled_models(seen) -> None:
    """Nothing of the hooks is compiled, not even under fullgraph; what goes in and comes out, and all weights, are seen."""
    told = seen["compiled"]
    if told is None:
        pytest.skip("this torch has no torch.compile")
    assert kinds(told, 1)[4:7] == ["input", "output", "loss"]
    assert not any(row[0] in ("output", "between") and row[3] for row in told)
    assert ["gradient", 2, "inplace", "0.weight", ""] in [[*row[:2], "inplace", *row[3:]] for row in told]


def test_tracing_and_function_transforms_are_let_alone(seen) -> None:
    assert seen["traced"] < 20
    assert seen["vmap"] in (None, ["not compared"])
