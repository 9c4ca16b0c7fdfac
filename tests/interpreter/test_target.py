"""How a child is run and how its end is told: missing, refused, no Python, too old, failed, crashed, too slow."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import pytest

from envcheck.facts import Outcome
from envcheck.probes.questioning import PROBE
from envcheck.target import MARK, START, Answer, child_environment, merge, run_payload, start
from envcheck.target.lines import MAX_SECTION, split_by_stage
from envcheck.target.session import MAX_NOISE
from tests.interpreter.conftest import Env
from tests.kit_python import interpreters
from tests.kit_python.environments import posix_only
from tests.kit_python.interpreters import make_interpreter, wrapper
from tests.kit_python.packages import CUDA_WORKS, make_torch


def _ask(python: Path | str, variables: dict[str, str], *, timeout: float = 10.0, **options: object) -> Answer:
    return run_payload(python, PROBE, ["--quick"], timeout=timeout, env=variables, **options)  # type: ignore[arg-type]


def test_one_that_is_not_there(variables: dict[str, str], tmp_path: Path) -> None:
    answer = _ask(tmp_path / "python3", variables)
    assert (answer.kind, answer.outcome.status, answer.stages) == ("missing", "missing", ())
    assert "does not exist" in (answer.problem() or "")


@posix_only
def test_one_that_may_not_be_run(variables: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / "python3"
    path.write_bytes(b"\x7fELF of another machine")
    path.chmod(0o755)
    answer = _ask(path, variables)
    assert (answer.kind, answer.outcome.status) == ("refused", "failed")
    assert "cannot be run on this machine" in (answer.problem() or "")


@posix_only
@pytest.mark.parametrize(
    ("name", "script", "kind"),
    [
        ("python3", interpreters.SEGFAULTS, "crashed"),
        ("python3", interpreters.FAILS, "failed"),
        ("python3", interpreters.SHIM_WITHOUT_VERSION, "not-a-python"),
        ("python3", interpreters.OTHER_PROGRAM, "not-a-python"),
        ("calculator", interpreters.OTHER_PROGRAM, "not-a-python"),
        ("python3", interpreters.GARBAGE, "not-a-python"),
    ],
    ids=["crash", "broken", "shim", "other-program", "other-name", "garbage"],
)
def test_fake_interpreters(variables: dict[str, str], tmp_path: Path, name: str, script: str, kind: str) -> None:
    answer = _ask(make_interpreter(tmp_path / name, script), variables)
    assert answer.kind == kind
    assert answer.stages == ()
    problem = answer.problem()
    assert problem is not None
    assert problem.startswith(str(tmp_path / name))
    assert "\n" not in problem


@posix_only
def test_a_crash_while_starting_names_the_signal(variables: dict[str, str], tmp_path: Path) -> None:
    answer = _ask(make_interpreter(tmp_path / "python3", interpreters.SEGFAULTS), variables)
    assert (answer.outcome.signal, answer.during) == ("SIGSEGV", START)
    assert "crashed while starting (SIGSEGV)" in (answer.problem() or "")


@posix_only
def test_a_program_that_is_no_python_never_gets_our_script(variables: dict[str, str], tmp_path: Path) -> None:
    log = tmp_path / "log"
    eater = make_interpreter(tmp_path / "rm", f'echo "$@" >> "{log}"; exit 1')
    assert _ask(eater, variables).kind == "not-a-python"
    assert log.read_text() == "-V\n"


@posix_only
def test_a_python_under_another_name_is_one(env: Env, tmp_path: Path) -> None:
    answer = _ask(wrapper(tmp_path / "hython"), env.variables)
    assert answer.kind == "answered"


@posix_only
@pytest.mark.parametrize("script", [interpreters.HANGS, interpreters.ENDLESS_LINE], ids=["silent", "endless-line"])
def test_a_hang_while_starting(variables: dict[str, str], tmp_path: Path, script: str) -> None:
    begun = time.monotonic()
    path = make_interpreter(tmp_path / "python3", script)
    answer = run_payload(path, PROBE, timeout=5.0, limit=0.5, env=variables)
    assert (answer.kind, answer.outcome.status, answer.during) == ("timeout", "timeout", START)
    assert time.monotonic() - begun < 4.0
    assert "did not start within the time limit" in (answer.problem() or "")


@posix_only
def test_lines_cut_by_a_crash(variables: dict[str, str], tmp_path: Path) -> None:
    answer = _ask(make_interpreter(tmp_path / "python3", interpreters.ANSWERS_THEN_CRASHES), variables)
    assert (answer.kind, answer.outcome.signal, answer.during) == ("crashed", "SIGBUS", "torch-files")
    assert answer.stages == ({"stage": "interpreter", "result": "ok"},)
    assert answer.problem() is None


@posix_only
def test_a_grandchild_that_keeps_the_pipe_open_is_not_waited_for(variables: dict[str, str], tmp_path: Path) -> None:
    begun = time.monotonic()
    answer = _ask(make_interpreter(tmp_path / "python3", interpreters.LEAVES_A_CHILD), variables)
    assert answer.kind == "answered"
    assert time.monotonic() - begun < 5.0


# -- environments that get in the way ----------------------------------------------------------------------------------


@posix_only
def test_a_chatty_start(env: Env) -> None:
    (env.site / "sitecustomize.py").write_text("print('welcome'); print('no line end', end='')")
    answer = env.ask(quick=True)
    assert answer.kind == "answered"
    assert "welcome" in answer.noise


@posix_only
def test_a_path_file_that_fails_is_told_apart_from_torch(env: Env) -> None:
    make_torch(env.site, cuda_init=CUDA_WORKS)
    (env.site / "broken.pth").write_text("import nothing_of_that_name\n")
    answer = env.ask()
    assert answer.kind == "answered"
    assert "nothing_of_that_name" in answer.stderr(START)
    assert "nothing_of_that_name" not in answer.stderr("import-torch")
    assert [s.source for s in env.facts().symptoms] == ["python start-up"]


@posix_only
@pytest.mark.parametrize(
    ("body", "kind"), [("import os; os._exit(7)", "failed"), ("import ctypes; ctypes.string_at(0)", "crashed")], ids=["exit", "crash"]
)
def test_a_start_that_ends_everything(env: Env, body: str, kind: str) -> None:
    (env.site / "end.pth").write_text(f"import sys; exec({body!r})\n")
    answer = env.ask(quick=True)
    assert answer.kind == kind
    assert answer.during == START


@posix_only
def test_a_start_that_hangs(env: Env) -> None:
    (env.site / "slow.pth").write_text("import time; time.sleep(3600)\n")
    answer = env.ask(quick=True, limits={START: 0.5})
    assert (answer.kind, answer.during) == ("timeout", START)


@posix_only
def test_a_flood_of_noise_loses_no_stage(env: Env) -> None:
    make_torch(env.site, init="import sys\nfor i in range(200000): print('x' * 100)\n" + "from torch.version import __version__\nclass Tensor: pass")
    answer = env.ask()
    assert answer.kind == "answered"
    assert answer.stage("import-torch")["result"] == "ok"  # type: ignore[index]
    assert len(answer.noise) <= MAX_NOISE


@posix_only
def test_a_flood_of_errors_is_cut_in_the_middle(env: Env) -> None:
    make_torch(env.site, init="import sys\nfor i in range(9000): sys.stderr.write('%06d ' % i + 'e' * 40 + '\\n')\nraise ImportError('no')")
    section = env.ask().stderr("import-torch")
    assert len(section) <= MAX_SECTION + 10
    assert "000000 " in section
    assert "008999 " in section


@posix_only
def test_pythonhome_that_leads_nowhere(env: Env, tmp_path: Path) -> None:
    env.variables["PYTHONHOME"] = str(tmp_path)
    answer = env.ask(quick=True)
    assert answer.kind == "failed"
    assert "PYTHONHOME" in answer.stderr() or "encodings" in answer.stderr()


@posix_only
def test_what_the_child_inherits(env: Env) -> None:
    env.variables |= {
        "__PYVENV_LAUNCHER__": "/elsewhere/python", "CUDA_VISIBLE_DEVICES": "", "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
        "HF_TOKEN": "secret", "PIP_INDEX_URL": "https://user:secret@host", "TORCH_AUTH_TOKEN": "secret", "NCCL_DEBUG": "INFO",
        "SLURM_JOB_ID": "4711",
    }  # fmt: skip
    found = {v.name: v.value for v in env.facts(quick=True).env or ()}
    assert found["CUDA_VISIBLE_DEVICES"] == ""
    assert found["PYTORCH_CUDA_ALLOC_CONF"] == "expandable_segments:True"
    assert found["NCCL_DEBUG"] == "INFO"
    assert found["SLURM_JOB_ID"] == "set"
    assert not [name for name in found if name in ("HF_TOKEN", "PIP_INDEX_URL", "TORCH_AUTH_TOKEN", "__PYVENV_LAUNCHER__", "PATH", "HOME")]
    assert "__PYVENV_LAUNCHER__" not in child_environment(env.python, env.variables)
    assert child_environment(env.python, env.variables)["HF_TOKEN"] == "secret", "the child runs as for the user"


# -- while it runs -----------------------------------------------------------------------------------------------------


@posix_only
def test_stages_are_told_as_they_come(env: Env) -> None:
    told: list[tuple[str, bool]] = []
    env.ask(quick=True, on_stage=lambda name, answer: told.append((name, answer is None)))
    assert told[:4] == [("interpreter", True), ("interpreter", False), ("environment", True), ("environment", False)]
    assert told[-1] == ("done", False)


@posix_only
def test_a_display_that_fails_does_not_stop_the_reading(env: Env) -> None:
    def fail(_name: str, _answer: object) -> None:
        raise RuntimeError("terminal gone")

    assert env.ask(quick=True, on_stage=fail).kind == "answered"


@posix_only
def test_an_early_stage_can_be_had_while_a_later_one_hangs(env: Env) -> None:
    make_torch(env.site, init="import time; time.sleep(3600)")
    session = start(env.python, PROBE, env=env.variables, cwd=env.cwd)
    try:
        files = session.wait_for("torch-files", 10.0)
        assert files is not None
        assert files["version"] == "2.8.0+cu128"
        assert session.wait_for("import-torch", 0.2) is None
    finally:
        session.kill()
    assert session.finish(5.0).kind == "crashed"
    assert session.wait_for("import-torch", 5.0) is None


@posix_only
def test_the_time_for_all_is_kept_though_each_stage_has_more(env: Env) -> None:
    make_torch(env.site, init="import time; time.sleep(3600)")
    begun = time.monotonic()
    answer = env.ask(timeout=1.0)
    assert (answer.kind, answer.during) == ("timeout", "import-torch")
    assert time.monotonic() - begun < 4.0


# -- plain parts -------------------------------------------------------------------------------------------------------


def test_standard_error_is_cut_at_the_announcements() -> None:
    text = f"early\n\n{MARK}{json.dumps({'begin': 'a'})}\none\ntwo\nnoise{MARK}{json.dumps({'begin': 'b'})}\n{MARK}not json\n"
    assert split_by_stage(text) == {START: "early", "a": "one\ntwo", "b": f"{MARK}not json"}


def test_two_children_make_one_answer() -> None:
    first = Answer("p", "crashed", Outcome(status="crashed", signal="SIGSEGV"), ({"stage": "a", "n": 1},), "b", {"a": "x", "b": "boom"})
    second = Answer("p", "answered", Outcome(status="ok"), ({"stage": "a", "n": 2}, {"stage": "c"}, {"stage": "done"}), None, {"a": "again", "c": "y"})
    both = merge(first, second)
    assert both.kind == "answered"
    assert both.stage("a") == {"stage": "a", "n": 1}
    assert [s["stage"] for s in both.stages] == ["a", "c", "done"]
    ended = both.interruption("b")
    assert ended is not None
    assert (ended.outcome.signal, ended.stderr) == ("SIGSEGV", "boom")
    assert both.interruption("c") is None
    assert both.sections == {"a": "x", "b": "boom", "c": "y"}


@pytest.mark.skipif(os.name == "posix" and sys.platform != "darwin" and not Path("/proc").is_dir(), reason="no /proc")
def test_the_payload_ends_without_the_interpreters_teardown(env: Env) -> None:
    make_torch(env.site, init="import atexit, ctypes\natexit.register(ctypes.string_at, 0)\nfrom torch.version import __version__\nclass Tensor: pass")
    assert env.ask().kind == "answered"
