"""The audit of somebody's own program: it is run as it stands, and the first tensor that differs is named with its cause."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from envcheck.errors import TargetError, UsageError
from envcheck.reference.audit_findings import of_program
from envcheck.reference.causes import cause_of
from envcheck.reference.program import audit_program, command
from envcheck.reference.settings import settings
from envcheck.reference.traces import Difference, Trace, first_difference, parse

PROGRAM = """
import argparse, os, sys
options = argparse.ArgumentParser()
options.add_argument("--mode", default="plain")
options.add_argument("--password")
options = options.parse_args()
if options.mode == "stdin":
    input("name? ")
if options.mode == "endless":
    while True:
        pass
for number in range(20000 if options.mode == "plain" else 0):
    print("a line among many", number)
os.environ["OMP_NUM_THREADS"] = "1"  # has an effect because torch is not imported yet
import torch
from helper import network
assert torch.get_num_threads() == 1
torch.manual_seed(0)
values = [float(word) for word in open("values.txt").read().split()]
model = network()
if options.mode == "resume" and os.path.exists("kept.pt"):
    model.load_state_dict(torch.load("kept.pt"))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    noise = int.from_bytes(os.urandom(4), "little") / 2 ** 32
    optimizer.zero_grad()
    model(torch.tensor([values])).sum().backward()
    if options.mode == "gradient" and step == 1:
        model[2].weight.grad += noise
    optimizer.step()
    if step == 2 and options.mode == "plain":
        sys.exit(0)
torch.save(model.state_dict(), "kept.pt")
"""
HELPER = """
import torch
def network():
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(inplace=True), torch.nn.Linear(8, 1))
"""
PACKAGE = """
import os, torch
from .helper import network
class Data(torch.utils.data.Dataset):
    def __init__(self):
        self.inner = torch.nn.Linear(4, 4)
    def __len__(self):
        return 16
    def __getitem__(self, index):
        with torch.no_grad():
            values = self.inner(torch.ones(4)) + index
        return values + (os.urandom(1)[0] / 256 if index == 9 else 0)
def main():
    torch.manual_seed(0)
    model, data = network(), Data()
    optimizer = torch.optim.Adam(model.parameters())
    for batch in torch.utils.data.DataLoader(data, 4, num_workers=2):
        optimizer.zero_grad()
        model(x=batch).sum().backward()
        optimizer.step()
if __name__ == "__main__":
    main()
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program beside a module of its own, and data in the folder that it is started from."""
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "train.py").write_text(PROGRAM)
    (tmp_path / "code" / "helper.py").write_text(HELPER)
    (tmp_path / "values.txt").write_text("1 2 3 4")
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "helper.py").write_text(HELPER.replace("torch.nn.Sequential(", "Net(") + "class Net(torch.nn.Sequential):\n    def forward(self, x):\n        return super().forward(x)\n")
    (package / "train.py").write_text(PACKAGE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.torch
def test_a_program_that_repeats_itself_is_told_so(python_with_torch: str, folder: Path) -> None:
    found = audit_program(Path(python_with_torch), [python_with_torch, "-u", "code/train.py", "--mode", "plain"])
    assert found.difference is None and of_program(found) == []
    assert found.steps == 3  # sys.exit(0) in the fourth
    assert found.tensors == 3 * (4 + 4 + 4 + 4 + 1 + 1) - 0 and found.one.models == ["model"]
    assert found.one.end["unread"] == 0 and found.one.settings["are_deterministic_algorithms_enabled"] is False


@pytest.mark.torch
def test_a_program_that_first_asks_whether_torch_is_there_is_seen_all_the_same(python_with_torch: str, folder: Path) -> None:
    (folder / "asks.py").write_text(
        "import importlib.util\nassert importlib.util.find_spec('torch') is not None\n" + (folder / "code" / "train.py").read_text()
    )
    (folder / "helper.py").write_text(HELPER)
    found = audit_program(Path(python_with_torch), ["asks.py", "--mode", "plain"])
    assert found.difference is None and found.steps == 3


@pytest.mark.torch
def test_the_first_difference_is_named_and_the_command_line_is_nobodys_business(python_with_torch: str, folder: Path, envcheck_cli) -> None:
    words = ("--audit", "--json", "--python", python_with_torch, "--", "code/train.py", "--mode", "gradient", "--password", "hunter2")
    done = envcheck_cli("reference", *words, cwd=folder, env={"PYTHONPATH": str(Path(__file__).resolve().parents[2])})
    assert done.returncode == 1, done.stderr
    told = json.loads(done.stdout)
    difference = told["audit"]["difference"]
    assert (difference["step"], difference["kind"], difference["name"]) == (2, "gradient", "the gradient of 2.weight")
    assert difference["detail"].startswith("1 of 4 gradients of this step differ; the 1 that come before it in the backward pass are equal; sums ")
    assert difference["apart"] > 0
    (finding,) = told["findings"]
    assert (finding["rule"], finding["severity"], told["verdict"]) == ("reference-program-differs", "error", "problems")
    assert "the loss was the same bits, so it is the backward pass" in finding["why"]
    assert told["audit"]["program"] == "train.py"
    assert "hunter2" not in done.stdout and str(folder) not in done.stdout


@pytest.mark.torch
def test_a_run_that_goes_on_from_the_first_ones_checkpoint_is_explained(python_with_torch: str, folder: Path) -> None:
    found = audit_program(Path(python_with_torch), ["code/train.py", "--mode", "resume"])
    assert found.difference is not None and found.cause is not None
    assert found.difference.text == "step 1: the first value of 0.weight"
    assert "read what the first had written (kept.pt)" in found.cause.text


@pytest.mark.torch
def test_a_module_with_workers_is_followed_in_its_own_process_alone(python_with_torch: str, folder: Path) -> None:
    found = audit_program(Path(python_with_torch), ["-m", "package.train"])
    assert found.difference is not None and found.cause is not None
    assert found.difference.text == "step 3: the input x of the model (Net)"
    assert found.one.models == ["model"]  # not what the workers call
    assert found.cause.setting == "hash-seed" and found.cause.confidence == "possible"


def test_programs_that_prove_nothing(folder: Path) -> None:
    import sys

    python = Path(sys.executable)
    (folder / "broken.py").write_text("raise SystemExit(3)")
    (folder / "idle.py").write_text("print('hello')")
    with pytest.raises(TargetError, match="exit code 3"):
        audit_program(python, ["broken.py"])
    with pytest.raises(UsageError, match="nothing to compare"):
        audit_program(python, ["idle.py"])
    with pytest.raises(TargetError, match="EOFError.*its input is empty"):
        audit_program(python, ["code/train.py", "--mode", "stdin"])
    with pytest.raises(TargetError, match="ended after 1 s, in which it made no optimizer steps"):
        audit_program(python, ["code/train.py", "--mode", "endless"], limit=1.0)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["ls"], "no Python program"),
        ([], "no Python program"),
        (["-m"], "no Python program"),
        (["torchrun", "code/train.py"], "torchrun starts several processes"),
        (["python", "-m", "torch.distributed.run", "code/train.py"], "torch.distributed.run starts several processes"),
        (["uv", "run", "code/train.py"], "name the interpreter itself"),
        (["CUDA_VISIBLE_DEVICES=0", "python", "code/train.py"], "set variables before the word envcheck"),
        (["python3", "-c", "print(1)"], "put the code into a file"),
        (["python3", "-X", "importtime", "code/train.py"], "cannot be passed on"),
    ],
)
def test_what_cannot_be_looked_at_is_refused(folder: Path, words: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        command(Path("python"), words)


def test_options_of_python_itself_become_variables(folder: Path) -> None:
    asked = command(Path("python"), ["python3", "-uOO", "-W", "ignore", "-Werror", "-X", "utf8", "code/train.py", "-u"])
    assert asked.env == {"PYTHONUNBUFFERED": "1", "PYTHONOPTIMIZE": "2", "PYTHONWARNINGS": "ignore,error", "PYTHONUTF8": "1"}
    assert asked.words == ("code/train.py", "-u") and asked.name == "train.py"
    assert command(Path("python"), ["python3", "-mpackage.train", "x"]).words == ("-m", "package.train", "x")
    (folder / "python_train.py").write_text("")
    assert command(Path("python"), ["python_train.py", "x"]).words == ("python_train.py", "x")


def test_an_interrupted_audit_leaves_no_training_behind(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    from envcheck.reference import program
    from envcheck.target import Session

    ended: list[bool] = []

    def finish(self: Session, *_: object, **__: object) -> None:
        raise KeyboardInterrupt

    def kill(self: Session) -> None:
        real(self)
        assert self._running is not None
        ended.append(self._running.wait(5.0).status in ("crashed", "failed"))

    real = Session.kill
    monkeypatch.setattr(Session, "finish", finish)
    monkeypatch.setattr(Session, "kill", kill)
    with pytest.raises(KeyboardInterrupt):
        program.audit_program(Path(sys.executable), ["code/train.py", "--mode", "endless"])
    assert ended == [True]


# -- Comparing ---------------------------------------------------------------------------------------------------------


def row(kind: str, step: int, part: str, value: str = "float32 [2] a", root: str = "model", type_: str = "", what: str = "", sums: tuple = (1.0, 2.0)) -> list:
    return [kind, step, root, part, type_, what, value, *sums]


def traces(rows: list, place: int, change: list, extra: list = ()) -> tuple[Trace, Trace]:
    other = list(rows)
    other[place] = change
    return parse([*extra, *rows]), parse([*extra, *other])


STEP = [
    row("start", 1, "0.weight"),
    row("input", 1, "", type_="Net", what="0"),
    row("output", 1, "0", type_="Linear"),
    row("output", 1, "", type_="Net"),
    row("loss", 1, "", root=""),
    row("gradient", 1, "2.weight"),
    row("gradient", 1, "0.weight"),
    row("weights", 1, "0.weight"),
]


def test_equal_other_order_and_length() -> None:
    one = parse(STEP)
    assert first_difference(one, parse(STEP)) is None
    found = first_difference(one, parse(STEP[:-1]))
    assert found is not None and (found.kind, found.name) == ("order", "0.weight after the step is in one run only")
    assert first_difference(one, parse(STEP[:-1]), whole=False) is None  # the other was ended from outside
    found = first_difference(*traces(STEP, 3, row("output", 1, "2", type_="Linear")))
    assert found is not None and found.name == "the output of the model (Net) in one run, the output of 2 (Linear) in the other"


@pytest.mark.parametrize(
    ("place", "name"),
    [
        (0, "the first value of 0.weight"),
        (1, "the input 0 of the model (Net)"),
        (2, "the output of 0 (Linear)"),
        (4, "the loss"),
        (6, "the gradient of 0.weight"),
        (7, "0.weight after the step"),
    ],
)
def test_names_of_what_differs(place: int, name: str) -> None:
    changed = list(STEP[place])
    changed[6:] = ["float32 [2] b", 1.5, 2.0]
    found = first_difference(*traces(STEP, place, changed))
    assert found is not None and found.text == f"step 1: {name}"
    assert found.apart == 0.25 and found.before == place
    assert "sums 1.0 and 1.5: apart by 2.5e-01 of its size at least" in found.detail


def test_names_tell_several_models_apart_and_shapes_are_told() -> None:
    rows = [row("start", 1, "0.weight", root="netG"), row("start", 1, "0.weight", root="netD"), row("gradient", 1, "0.weight", root="netD")]
    found = first_difference(*traces(rows, 2, row("gradient", 1, "0.weight", "float32 [3] a", root="netD")))
    assert found is not None and found.name == "the gradient of netD.0.weight"
    assert "float32 [2] in one run, float32 [3] in the other" in found.detail


def test_without_an_optimizer_calls_of_the_model_are_counted() -> None:
    rows = [row("start", 1, "w"), row("output", 1, "", type_="Net"), row("output", 1, "", type_="Net")]
    found = first_difference(*traces(rows, 2, row("output", 1, "", "float32 [2] b", type_="Net")))
    assert found is not None and found.where == "call 2 of the model"


def generators(step: int, **states: str) -> list[list]:
    return [["generator", step, "", name.replace("_", ", "), "", "", value, None, None] for name, value in states.items()]


CPU = {"settings": {}, "variables": {"PYTHONHASHSEED": "0"}, "devices": ["cpu"]}


def gpu(**values: bool) -> dict:
    return {"settings": {"are_deterministic_algorithms_enabled": False, **{k.replace("__", "."): v for k, v in values.items()}}, "variables": {}, "devices": ["cpu", "cuda"]}


@pytest.mark.parametrize(
    ("kind", "type_", "states", "settings_", "setting", "words"),
    [
        ("start", "", {"torch": "ab"}, CPU, "torch-seed", "nothing seeds it"),
        ("input", "", {"random": "ab"}, CPU, "python-seed", "random stood in another state"),
        ("input", "", {"torch": "aa", "random": "00"}, CPU, "worker-own", "a generator of the program's own"),  # nobody drew from random
        ("input", "", {"torch": "aa"}, {**CPU, "variables": {}}, "hash-seed", "order of a set"),
        ("output", "Dropout", {"torch": "ab"}, CPU, "torch-seed", "draws random numbers"),
        ("output", "Dropout", {"torch": "aa"}, CPU, "torch-seed", "a generator that was not seeded alike"),
        ("between", "", {"torch": "ab"}, CPU, "torch-seed", "the code between"),
        ("output", "Linear", {"torch": "aa"}, CPU, "threads", "its weights were the same bits"),
        ("output", "Linear", {"torch": "aa"}, gpu(), "deterministic-algorithms", "deterministic algorithms are off"),
        ("gradient", "", {"torch": "aa"}, gpu(backends__cudnn__benchmark=True), "cudnn-benchmark", "by timing"),
        ("gradient", "", {"torch": "aa"}, gpu(are_deterministic_algorithms_enabled=True), "deterministic-algorithms", "does not know to be nondeterministic"),
        ("loss", "", {"torch": "aa"}, {**CPU, "variables": {}}, "hash-seed", "its labels"),
        ("state", "", {"torch": "aa"}, CPU, "", "something other than the optimizer"),
        ("weights", "", {"torch": "aa"}, gpu(), "", "the optimizer's own step"),
        ("order", "", {"torch": "aa"}, CPU, "hash-seed", "took another way"),
        ("input", "", {"torch": "aa"}, {**CPU, "variables": {"PYTHONHASHSEED": "random"}}, "hash-seed", "order of a set"),
    ],
)
def test_causes(kind: str, type_: str, states: dict[str, str], settings_: dict, setting: str, words: str) -> None:
    """states: for each generator its state at the first step in the two runs; at the start it was "0" in both."""
    both = []
    for run in (0, 1):
        start = generators(0, **{name: "0" if value != "00" else str(run) for name, value in states.items()})
        begun = generators(1, **{name: value[run] if value != "00" else str(run) for name, value in states.items()})
        both.append(parse([*start, *begun, settings_]))
    seen = {"loss": ("output",), "gradient": ("output", "loss")}.get(kind, ())
    cause = cause_of(Difference(1, kind, "x", "step 1", type_, seen=seen), *both)
    assert cause.setting == setting
    assert words in cause.text and cause.remedy.text


def test_what_was_not_seen_is_not_said_to_be_equal() -> None:
    one, other = parse([*generators(1, torch="a"), CPU]), parse([*generators(1, torch="a"), CPU])
    text = cause_of(Difference(1, "gradient", "x", "step 1"), one, other).text
    assert "no call of a module was seen" in text and "same bits, so" not in text


def test_a_seed_that_is_set_and_lost_is_told_from_one_that_is_missing() -> None:
    one = parse([*generators(0, torch="0"), *generators(1, torch="s"), *generators(2, torch="t"), *generators(3, torch="u"), CPU])
    other = parse([*generators(0, torch="1"), *generators(1, torch="s"), *generators(2, torch="x"), *generators(3, torch="y"), CPU])
    cause = cause_of(Difference(3, "output", "x", "step 3", "Dropout"), one, other)
    assert "in the same state at first and from step 2 on in another" in cause.text


def test_since_when_is_told_of_those_that_are_named() -> None:
    """torch was never seeded; that `random` parts later has nothing to do with a dropout."""
    one = parse([*generators(0, torch="0", random="0"), *generators(1, torch="s", random="a"), *generators(3, torch="u", random="b"), CPU])
    other = parse([*generators(0, torch="1", random="0"), *generators(1, torch="x", random="a"), *generators(3, torch="y", random="c"), CPU])
    cause = cause_of(Difference(3, "output", "x", "step 3", "Dropout"), one, other)
    assert "nothing seeds it" in cause.text and "from step 3" not in cause.text


def test_settings_that_break_equal_bits_are_marked() -> None:
    machine = {"settings": {"backends.cudnn.benchmark": True, "are_deterministic_algorithms_enabled": True}, "variables": {"OMP_NUM_THREADS": "4"}, "habits": {"numpy": "none"}}
    rows = {item["name"]: item for item in settings(machine)}
    assert rows["backends.cudnn.benchmark"]["right"] is False
    assert rows["are_deterministic_algorithms_enabled"]["right"] is True
    assert rows["backends.cudnn.deterministic"]["right"] is None  # unknown is not wrong
    assert rows["OMP_NUM_THREADS"]["value"] == "4" and rows["numpy"]["value"] == "none"
