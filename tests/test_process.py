"""The door to other programs tells every kind of end apart and never hangs."""

from __future__ import annotations

import os
import sys
import time

import pytest

from envcheck.process import MAX_OUTPUT, Running, crash_name, run

PYTHON = sys.executable


def test_ok_keeps_both_streams() -> None:
    done = run([PYTHON, "-c", "import sys; print('out'); print('err', file=sys.stderr)"], timeout=20)
    assert (done.status, done.returncode, done.stdout, done.stderr) == ("ok", 0, "out\n", "err\n")


def test_failed_keeps_the_code() -> None:
    done = run([PYTHON, "-c", "raise SystemExit(9)"], timeout=20)
    assert (done.status, done.returncode) == ("failed", 9)


def test_missing_is_not_failed(tmp_path) -> None:
    done = run([tmp_path / "nothing-here"], timeout=5)
    assert done.status == "missing"
    assert "nothing-here" in done.reason


@pytest.mark.skipif(os.name != "posix", reason="rights and exec formats of POSIX")
def test_refused_is_not_missing(tmp_path) -> None:
    plain = tmp_path / "not-a-program"
    plain.write_bytes(b"\x7fELF but no more")
    plain.chmod(0o755)
    assert run([plain], timeout=5).status == "refused"


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.parametrize("name", ["SIGSEGV", "SIGILL", "SIGABRT"])
def test_crashed_names_the_signal(name: str) -> None:
    done = run([PYTHON, "-c", f"import os, signal; os.kill(os.getpid(), signal.{name})"], timeout=20)
    assert (done.status, done.signal) == ("crashed", name)


def test_timeout_kills_and_keeps_what_was_said() -> None:
    begun = time.monotonic()
    done = run([PYTHON, "-c", "import time; print('before', flush=True); time.sleep(60)"], timeout=1.5)
    assert done.status == "timeout"
    assert done.stdout == "before\n"
    assert time.monotonic() - begun < 10


@pytest.mark.skipif(os.name != "posix", reason="process groups of POSIX")
def test_timeout_kills_the_children_too(tmp_path) -> None:
    mark = tmp_path / "child"
    child = "import pathlib, sys, time; time.sleep(3); pathlib.Path(sys.argv[1]).touch()"
    code = "import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', *sys.argv[1:]]); time.sleep(60)"
    assert run([PYTHON, "-c", code, child, str(mark)], timeout=1.5).status == "timeout"
    time.sleep(3)
    assert not mark.exists()


@pytest.mark.skipif(os.name != "posix", reason="process groups of POSIX")
def test_a_grandchild_that_holds_the_pipe_does_not_hang_us() -> None:
    code = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(30)']); print('done', flush=True)"
    begun = time.monotonic()
    done = run([PYTHON, "-c", code], timeout=20)
    assert done.stdout == "done\n"
    assert time.monotonic() - begun < 15


def test_output_without_end_is_bounded() -> None:
    code = f"import sys; [sys.stdout.write('x' * 1000 + '\\n') for _ in range({3 * MAX_OUTPUT // 1000})]"
    assert len(run([PYTHON, "-c", code], timeout=60).stdout) < 2 * MAX_OUTPUT


def test_bytes_that_are_not_utf8_do_not_fail() -> None:
    done = run([PYTHON, "-c", r"import sys; sys.stdout.buffer.write(b'\xc7\xfd\n')"], timeout=20)
    assert done.stdout == "\\xc7\\xfd\n"


def test_lines_arrive_while_it_runs() -> None:
    seen: list[str] = []
    running = Running([PYTHON, "-c", "print('one', flush=True); print('two', flush=True)"], on_line=seen.append)
    running.wait(20)
    assert seen == ["one", "two"]


@pytest.mark.parametrize(
    ("code", "name"),
    [(0, None), (1, None), (-11, "SIGSEGV"), (0xC0000005, "STATUS_ACCESS_VIOLATION"), (0xC000001D, "STATUS_ILLEGAL_INSTRUCTION"), (None, None)],
)
@pytest.mark.skipif(os.name != "posix", reason="signal names of POSIX")
def test_crash_names(code, name) -> None:
    assert crash_name(code) == name
