"""A crash or a hang costs only the test that made it. Fake payloads: three lines each, no torch."""

from __future__ import annotations

import ast
import sys
import textwrap
import time
from pathlib import Path

import pytest

from envcheck import smoke
from envcheck.smoke import driver
from envcheck.smoke import session as session_module
from envcheck.errors import TargetError
from envcheck.process import Completed
from envcheck.smoke import checks_from_stages, read_stages, run_smoke

HEAD = """
import json, os, sys, time, signal
def emit(stage, **values):
    print("noise without an end", end="")
    print("\\n@envcheck@ " + json.dumps(dict(values, stage=stage)), flush=True)
SKIP = [b for a, b in zip(sys.argv, sys.argv[1:]) if a == "--skip"]
SEED = [b for a, b in zip(sys.argv, sys.argv[1:]) if a == "--seed"]
DEVICES = [b for a, b in zip(sys.argv, sys.argv[1:]) if a == "--device"]
def begin(*names, devices=("cpu",)):
    emit("smoke", seed=int(SEED[0]) if SEED else 5, torch="1.2.3", plan=[[n, d] for d in devices for n in names])
def test(name, body=None, device="cpu"):
    if name + "@" + device in SKIP:
        return
    emit("check-start", name=name, device=device)
    if body: body()
    emit("check", name=name, device=device, status="passed", seconds=0.0, detail=" ".join(SEED))
"""


@pytest.fixture
def fake(tmp_path: Path):
    """run_smoke over a payload with this body; returns {name@device: (status, detail)} in order."""

    def call(body: str, **options):
        path = tmp_path / "payload.py"
        path.write_text(HEAD + textwrap.dedent(body))
        options.setdefault("limit", 5.0)
        checks = run_smoke(sys.executable, payload=path, **options)
        assert len({(c.name, c.device) for c in checks}) == len(checks)
        return {f"{c.name}@{c.device}": (c.status, c.detail) for c in checks}

    return call


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_a_crash_costs_only_itself(fake) -> None:
    got = fake("""
        begin("a", "b", "c")
        test("a")
        test("b", lambda: os.kill(os.getpid(), signal.SIGSEGV))
        test("c")
        emit("smoke-end")
    """)
    assert [status for status, _ in got.values()] == ["passed", "crashed", "passed"]
    assert "SIGSEGV" in got["b@cpu"][1]
    assert got["c@cpu"][1] == "5", "the second process repeats the seed of the first"


def test_an_exit_in_the_middle_is_a_crash_of_that_test(fake) -> None:
    got = fake("""
        begin("a", "b")
        def leave():
            sys.stderr.write("libfoo: cannot go on\\n"); sys.stderr.flush(); os._exit(3)
        test("a", leave)
        test("b")
        emit("smoke-end")
    """)
    assert got["a@cpu"][0] == "crashed"
    assert "3" in got["a@cpu"][1]
    assert "libfoo: cannot go on" in got["a@cpu"][1]
    assert got["b@cpu"][0] == "passed"


def test_a_hang_costs_only_itself(fake) -> None:
    got = fake(
        """
        begin("a", "b", "c")
        test("a")
        test("b", lambda: time.sleep(60))
        test("c")
        emit("smoke-end")
        """,
        limit=1.0,
    )
    assert [status for status, _ in got.values()] == ["passed", "timeout", "passed"]


def test_noise_does_not_keep_a_hang_alive(fake) -> None:
    got = fake(
        """
        begin("a")
        def chatter():
            while True:
                print("still here", flush=True); time.sleep(0.05)
        test("a", chatter)
        """,
        limit=1.0,
    )
    assert got["a@cpu"][0] == "timeout"


def test_a_device_that_hangs_again_and_again_is_given_up(fake) -> None:
    got = fake(
        """
        begin("a", "b", "c", "d", devices=("cuda:0", "cpu"))
        for name in "abcd":
            test(name, lambda: time.sleep(60), "cuda:0")
        for name in "abcd":
            test(name)
        emit("smoke-end")
        """,
        limit=0.7,
    )
    assert [got[f"{n}@cuda:0"][0] for n in "abcd"] == ["timeout", "timeout", "skipped", "skipped"]
    assert "cuda:0" in got["c@cuda:0"][1]
    assert [got[f"{n}@cpu"][0] for n in "abcd"] == ["passed"] * 4


def test_the_limit_of_all_tests_ends_everything(fake) -> None:
    got = fake(
        """
        begin("a", "b", "c")
        for name in "abc":
            test(name, lambda: time.sleep(60))
        """,
        timeout=1.5,
        limit=50.0,
    )
    assert [status for status, _ in got.values()] == ["timeout", "skipped", "skipped"]


def test_a_dead_device_context_starts_a_new_process(fake) -> None:
    got = fake("""
        begin("a", "b", devices=("cuda:0",))
        if "a@cuda:0" not in SKIP:
            emit("check-start", name="a", device="cuda:0")
            emit("check", name="a", device="cuda:0", status="failed", seconds=0, detail="illegal memory access")
            emit("check-restart", device="cuda:0", reason="dead")
            sys.exit(75)
        test("b", None, "cuda:0")
        emit("smoke-end")
    """)
    assert got["a@cuda:0"] == ("failed", "illegal memory access")
    assert got["b@cuda:0"][0] == "passed"


def test_a_process_that_does_not_leave_is_not_waited_for(fake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "LEAVING_LIMIT", 0.5)
    begun = time.monotonic()
    got = fake("""
        begin("a", "b", devices=("cuda:0",))
        test("a", None, "cuda:0")
        if "a@cuda:0" not in SKIP:
            emit("check-restart", device="cuda:0", reason="dead")
            time.sleep(60)
        test("b", None, "cuda:0")
        emit("smoke-end")
        time.sleep(60)
    """)
    assert [status for status, _ in got.values()] == ["passed", "passed"]
    assert time.monotonic() - begun < 20


def test_a_test_that_is_known_to_be_slow_may_take_longer(fake) -> None:
    got = fake(
        """
        begin("a")
        emit("check-start", name="a", device="cpu", patience=20)
        time.sleep(1.2)
        emit("check", name="a", device="cpu", status="passed", seconds=1.2, detail=None)
        emit("smoke-end")
        """,
        limit=0.4,
    )
    assert got["a@cpu"][0] == "passed"


def test_a_crash_while_looking_for_devices_leaves_the_cpu(fake) -> None:
    got = fake("""
        if not DEVICES:
            emit("check-start", name="find-devices", device="all")
            os._exit(9)
        begin("a", devices=DEVICES)
        test("a")
        emit("smoke-end")
    """)
    assert got["find-devices@all"][0] == "crashed"
    assert got["a@cpu"][0] == "passed"


def test_a_crash_of_the_import_is_the_only_answer(fake) -> None:
    got = fake("""
        emit("check-start", name="import-torch", device="all")
        os._exit(9)
    """)
    assert list(got) == ["import-torch@all"]
    assert got["import-torch@all"][0] == "crashed"


@pytest.mark.parametrize(
    "body",
    ["", "raise RuntimeError('no')", "begin('a', 'b')", "print('@envcheck@ {broken')"],
    ids=["silent", "raises", "no-tests", "garbled"],
)
def test_a_payload_that_does_nothing_never_passes(fake, body: str) -> None:
    got = fake(body)
    assert got
    assert all(status in ("crashed", "failed") for status, _ in got.values())


def test_an_interpreter_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="cannot be started"):
        run_smoke(tmp_path / "python")


def test_a_session_that_broke_off_elsewhere_is_taken_up(fake) -> None:
    stages = [
        {"stage": "interpreter", "result": "ok"},
        {"stage": "smoke", "seed": 11, "torch": "2.0", "plan": [["a", "cpu"], ["b", "cpu"], ["c", "cpu"]]},
        {"stage": "check-start", "name": "a", "device": "cpu"},
        {"stage": "check", "name": "a", "device": "cpu", "status": "passed", "seconds": 0.1, "detail": None},
        {"stage": "check-start", "name": "b", "device": "cpu"},
    ]
    session = read_stages(stages, Completed((), "crashed", signal="SIGILL"))
    assert [(c.name, c.status) for c in session.checks] == [("a", "passed"), ("b", "crashed")]
    got = fake("begin('a', 'b', 'c')\nfor n in 'abc': test(n)\nemit('smoke-end')", session=session)
    assert {name: status for name, (status, _) in got.items()} == {
        "a@cpu": "passed",
        "b@cpu": "crashed",
        "c@cpu": "passed",
    }
    assert got["c@cpu"][1] == "11"


def test_steps_that_are_no_tests_appear_only_when_they_fail() -> None:
    def stages(status: str) -> list[dict]:
        return [
            {"stage": "check", "name": "import-torch", "device": "all", "status": status, "seconds": 1.0, "detail": "x"}
        ]

    assert checks_from_stages(stages("passed")) == ()
    assert [c.status for c in checks_from_stages(stages("failed"))] == ["failed"]


STACK = """Fatal Python error: Segmentation fault

Thread 0x00007f1 (most recent call first):
  File "/x/torch/_inductor/pool.py", line 9 in wait
  File "/x/threading.py", line 1 in run

Current thread 0x00007f2 (most recent call first):
  File "/x/torch/nn/functional.py", line 1234 in layer_norm
  File "/x/smoke_kernels.py", line 5 in layer_norm
"""


def test_the_place_of_a_crash_is_told() -> None:
    ended = Completed((), "crashed", signal="SIGSEGV", stderr="terminate called\n" + STACK)
    status, detail = session_module.ending(ended)
    assert status == "crashed"
    assert "SIGSEGV" in detail
    assert "nn/functional.py:1234 (layer_norm)" in detail
    assert "terminate called" in detail


PARTS = sorted([smoke.PAYLOAD, *(smoke.PAYLOAD.parent / "smoke_parts").glob("*.py")])


@pytest.mark.parametrize("path", PARTS, ids=lambda p: p.name)
def test_payloads_keep_to_the_syntax_of_python_3_6(path: Path) -> None:
    ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 6))


def test_the_list_needs_no_torch() -> None:
    entries = smoke.list_checks()
    assert len({e.name for e in entries}) == len(entries) >= 30
    assert {e.level for e in smoke.list_checks(0)} == {0}
    assert all(e.sentence for e in entries)
