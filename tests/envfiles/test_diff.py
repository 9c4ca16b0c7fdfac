"""Two snapshots: what differs, what follows from it, and what is only noise."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from envcheck.differences import compare, to_document
from envcheck.differences.units import is_outcome, put, units
from envcheck.facts import Facts, document, from_json, to_json
from envcheck.matrix import load
from envcheck.rules import RULES

MACHINES = Path(__file__).resolve().parent.parent / "machines"
NAMES = sorted(p.parent.name for p in MACHINES.glob("*/facts.json"))
A100 = "linux-a100-driver535-cu128"


def machine(name: str) -> Facts:
    return from_json((MACHINES / name / "facts.json").read_bytes())


def changed(name: str, edit: Any) -> Facts:
    values = copy.deepcopy(document(machine(name)))
    edit(values)
    return msgspec.convert(values, Facts)


def explained(a: Facts, b: Facts) -> dict[str, tuple[str, ...]]:
    return {g.subject.name: g.explains for g in compare(a, b, load(), RULES).groups}


@pytest.mark.parametrize("name", NAMES)
def test_a_machine_is_the_same_as_itself(name: str) -> None:
    made = compare(machine(name), machine(name), load(), RULES)
    assert made.same
    assert made.outcomes == ()


def old_driver(values: dict[str, Any]) -> None:
    nvidia, torch = values["nvidia"], values["torch"]
    nvidia.update(driver_version="450.51.06", kernel_driver_version="450.51.06", driver_cuda="11.0")
    nvidia["libcuda"][0]["version"] = "450.51.06"
    nvidia.pop("cuda_init", None)
    torch.update(cuda_available=False, device_count=0, devices=[])
    torch["cuda_init"] = {"status": "failed", "error_type": "RuntimeError", "error": "The NVIDIA driver is too old"}
    values.pop("checks", None)


def test_the_driver_alone_explains_that_it_is_too_old() -> None:
    found = explained(machine(A100), changed(A100, old_driver))
    assert found == {"the NVIDIA driver": ("driver-too-old",)}
    assert explained(changed(A100, old_driver), machine(A100)) == found


def test_what_came_of_it_is_no_cause() -> None:
    made = compare(machine(A100), changed(A100, old_driver), load(), RULES)
    assert {"torch.cuda_init", "torch.cuda_available"} <= {c.field for c in made.outcomes}
    assert not [c for g in made.groups for c in g.changes if is_outcome(c.path)]


def test_a_difference_without_consequence_explains_nothing() -> None:
    def edit(values: dict[str, Any]) -> None:
        old_driver(values)
        values["system"].update(kernel="5.4.0-42-generic", name="Ubuntu 20.04.6 LTS", version="20.04")

    found = explained(machine(A100), changed(A100, edit))
    assert found["the NVIDIA driver"] == ("driver-too-old",)
    assert found["the kernel"] == ()
    assert list(found)[0] == "the NVIDIA driver"


def test_a_companion_that_does_not_belong() -> None:
    def edit(values: dict[str, Any]) -> None:
        for item in values["python"]["distributions"]:
            if item["name"] == "torchvision":
                item["version"] = "0.19.0"
        for item in values["torch"].get("companions", ()):
            if item["name"] == "torchvision":
                item.update(version="0.19.0", operators=False)
                item["imports"] = {"status": "failed", "error": "operator torchvision::nms does not exist"}

    assert explained(machine(A100), changed(A100, edit))["torchvision"] == ("torchvision-mismatch",)


def test_what_changes_from_one_look_to_the_next_is_no_difference() -> None:
    def edit(values: dict[str, Any]) -> None:
        values["system"]["kernel"] = "6.1.0"
        values["nvidia"]["gpus"][0]["temperature"] = 80.0

    assert explained(machine(A100), changed(A100, edit)) == {"the kernel": ()}


def test_what_only_one_knows_is_no_difference() -> None:
    def edit(values: dict[str, Any]) -> None:
        values["toolchain"] = {}
        values["torch"].pop("cudnn")

    made = compare(machine(A100), changed(A100, edit), load(), RULES)
    assert made.groups == ()
    assert "torch.cudnn" in made.one_sided


@pytest.mark.parametrize("name", NAMES)
def test_taking_over_every_unit_makes_the_two_equal(name: str) -> None:
    ours, theirs = copy.deepcopy(document(machine(A100))), document(machine(name))
    for path in {*units(ours), *units(theirs)}:
        put(ours, path, theirs)
    made, wanted = msgspec.convert(ours, Facts), machine(name)
    left = compare(made, wanted, load(), ())
    assert not left.groups, left.groups


def test_the_document_is_json_with_a_schema() -> None:
    made = to_document(compare(machine(A100), changed(A100, old_driver), load(), RULES), "a", "b")
    again = json.loads(msgspec.json.encode(made))
    assert again["schema"] == 1 and again["same"] is False
    assert again["b"]["verdict"] == "problems"
    assert again["differences"][0]["explains"] == ["driver-too-old"]
    assert [f["rule"] for f in again["findings"]["only_b"]][0] == "driver-too-old"


def test_the_text_says_which_difference_explains_what() -> None:
    from envcheck.render.differences import difference_lines

    made = compare(machine(A100), changed(A100, old_driver), load(), RULES)
    text = "\n".join(line.text for line in difference_lines(made, ("good.json", "bad.json"), quiet=False, verbose=False))
    assert "535.183.01 | 450.51.06" in text
    assert "this alone can explain driver-too-old" in text
    assert "torch.cuda_available: yes | no" in text.partition("What came of it")[2]


def test_the_command(tmp_path: Path) -> None:
    import typer.testing

    from envcheck.cli import diff as module

    app = typer.Typer()
    app.command()(module.diff)
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    good.write_bytes(to_json(machine(A100)))
    bad.write_bytes(to_json(changed(A100, old_driver)))
    runner = typer.testing.CliRunner()
    assert runner.invoke(app, [str(good), str(good)]).exit_code == 0
    answer = runner.invoke(app, [str(good), str(bad), "--json"])
    assert answer.exit_code == 1
    assert json.loads(answer.stdout)["differences"][0]["subject"] == "the NVIDIA driver"
