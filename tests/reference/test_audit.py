"""The audit of somebody's own program names the first tensor that differs between two runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from envcheck.errors import TargetError, UsageError
from envcheck.reference.audit import Difference, audit_program, first_of, settings

PROGRAM = """
import os, sys, torch
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    x = torch.ones(4, 8)
    noise = int.from_bytes(os.urandom(4), "little") / 2 ** 32
    if "data" in sys.argv and step == 2:
        x = x + noise
    optimizer.zero_grad()
    loss = model(x).sum()
    loss.backward()
    if "gradient" in sys.argv and step == 1:
        model[2].weight.grad += noise
    optimizer.step()
    if "weights" in sys.argv and step == 1:
        with torch.no_grad():
            model[0].bias += noise
"""


@pytest.fixture
def program(tmp_path: Path) -> str:
    path = tmp_path / "train.py"
    path.write_text(PROGRAM)
    return str(path)


@pytest.mark.torch
@pytest.mark.parametrize(
    ("word", "wanted"),
    [
        ("nothing", None),
        ("data", {"step": 3, "kind": "forward", "name": "the model (Sequential) input 0"}),
        ("gradient", {"step": 2, "kind": "gradient", "name": "2.weight"}),
        ("weights", {"step": 3, "kind": "forward", "name": "0 (Linear) output"}),
    ],
)
def test_the_first_difference_is_named(
    python_with_torch: str, program: str, word: str, wanted: dict[str, object] | None
) -> None:
    told = audit_program(Path(python_with_torch), [program, word])
    assert told["difference"] == wanted
    assert told["steps"] == 4
    assert told["tensors"] > 20


@pytest.mark.torch
def test_a_program_that_fails_or_trains_nothing_is_no_proof(python_with_torch: str, tmp_path: Path) -> None:
    broken, idle = tmp_path / "broken.py", tmp_path / "idle.py"
    broken.write_text("raise SystemExit(3)")
    idle.write_text("print('hello')")
    with pytest.raises(TargetError, match="exit code 3"):
        audit_program(Path(python_with_torch), [str(broken)])
    with pytest.raises(UsageError, match="nothing to compare"):
        audit_program(Path(python_with_torch), [str(idle)])
    with pytest.raises(UsageError, match="no Python program"):
        audit_program(Path(python_with_torch), ["ls"])


def test_other_order_and_length_are_differences() -> None:
    one = [("forward", 1, "a", "1"), ("forward", 1, "b", "2")]
    assert first_of(one, one) is None
    assert first_of(one, one[:1]) == Difference(1, "order", "b in one run only")
    assert first_of(one, [one[0], ("gradient", 1, "b", "2")]) == Difference(1, "order", "b in one run, b in the other")


def test_settings_that_break_equal_bits_are_marked() -> None:
    rows = {
        row["name"]: row
        for row in settings(
            {"settings": {"backends.cudnn.benchmark": True, "are_deterministic_algorithms_enabled": True}}
        )
    }
    assert rows["backends.cudnn.benchmark"]["right"] is False
    assert rows["are_deterministic_algorithms_enabled"]["right"] is True
    assert rows["backends.cudnn.deterministic"]["right"] is None  # unknown is not wrong
