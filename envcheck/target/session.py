"""Runs payloads in the Python under test and reads their staged answers while they come.

A payload is a script of `payloads/`, run as a file by the interpreter under test in the user's own environment. It
prints lines that begin with `MARK`: `{"begin": NAME}` when it starts something that may crash or hang,
`{"stage": NAME, ...}` when that is answered, `{"stage": "done"}` at its end. Everything else on its streams is noise,
kept apart by stage. What ends such a child is told apart: it answered, is missing, was refused by the operating
system, is no Python, is too old, failed, crashed, or took too long; and during which stage.
"""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from envcheck.facts import Outcome
from envcheck.process import Completed, Running, run
from envcheck.target.answer import DONE, OLDEST, Answer
from envcheck.target.lines import MARK, START, message_of, split_by_stage

PAYLOADS = Path(__file__).resolve().parent.parent / "payloads"
MAX_STAGES = 10_000
MAX_NOISE = 64 * 1024

StageCallback = Callable[[str, "dict[str, Any] | None"], None]
"""Called with (name, None) when a stage begins and (name, answer) when it is answered, from a thread of its own."""

_VERSION_LINE = re.compile(
    r"^(?:Python|PyPy|GraalPy|GraalPython|Pyston|Stackless|IronPython|Jython|Anaconda)\b.*\d", re.M
)
_WHO = "import sys; sys.stdout.write('@envcheck@ %d.%d.%d' % tuple(sys.version_info[:3]))"


class Session:
    """A payload that was started and whose stages are read as they come."""

    def __init__(
        self,
        python: str | Path,
        payload: Path,
        args: Sequence[str] = (),
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | Path | None = None,
        on_stage: StageCallback | None = None,
    ) -> None:
        self.python = str(python)
        self.payload = payload
        self.env = env
        self.cwd = cwd
        self._on_stage = on_stage
        self._news = threading.Condition()
        self._stages: list[dict[str, Any]] = []
        self._begun: str | None = None
        self._since = time.monotonic()
        self._noise: list[str] = []
        self._noise_size = 0
        self._running: Running | None = None
        self._unfit: Completed | None = None
        if not _named_like_python(self.python):
            self._unfit = _ask_version(self.python, env=env, cwd=cwd)
        if self._unfit is None:
            argv = (self.python, str(payload), *args)
            self._running = Running(argv, env=env, cwd=cwd, on_line=self._line)

    @property
    def stages(self) -> tuple[dict[str, Any], ...]:
        """The answers so far."""
        with self._news:
            return tuple(self._stages)

    def wait_for(self, stage: str, timeout: float) -> dict[str, Any] | None:
        """The answer of one stage, as soon as it is there; None when it does not come in time or the child ended."""
        deadline = time.monotonic() + timeout
        with self._news:
            while True:
                found = next((item for item in self._stages if item.get("stage") == stage), None)
                left = deadline - time.monotonic()
                if found is not None or left <= 0 or self._running is None or not self._running.started:
                    return found
                if not self._running.out.is_alive():
                    return None
                self._news.wait(min(left, 0.05))

    def kill(self) -> None:
        """Ends the child and its children."""
        if self._running is not None:
            self._running.kill()

    def finish(self, timeout: float, *, limit: float = 60.0, limits: Mapping[str, float] | None = None) -> Answer:
        """Waits for the end: `timeout` seconds in all, `limit` seconds a stage (`limits` for single ones)."""
        if self._running is None or not self._running.started:
            return self._not_started()
        overdue = self._wait(time.monotonic() + timeout, limit, limits or {})
        # A process that held GPUs may take seconds to give them back after its last word.
        completed = self._running.wait(0.0 if overdue else 10.0)
        return self._answer(completed)

    # -- while it runs -------------------------------------------------------------------------------------------------

    def _line(self, line: str) -> None:
        """One line of standard output, in the reader's thread: it must never raise."""
        message = message_of(line)
        with self._news:
            if message is None:
                if line.strip() and self._noise_size < MAX_NOISE:
                    self._noise.append(line[:MAX_NOISE])
                    self._noise_size += len(line) + 1
                return
            self._since = time.monotonic()
            if "begin" in message:
                name, answer = str(message["begin"]), None
                self._begun = name
            else:
                name, answer = str(message.get("stage", "")), message
                if self._begun == name:
                    self._begun = None
                if len(self._stages) < MAX_STAGES:
                    self._stages.append(message)
            self._news.notify_all()
        if self._on_stage is not None:
            with contextlib.suppress(Exception):  # a progress display that fails must not block the child's pipe
                self._on_stage(name, answer)

    def _wait(self, deadline: float, limit: float, limits: Mapping[str, float]) -> bool:
        """Until the child closes its output or ends; True when a limit was reached first."""
        assert self._running is not None
        while True:
            with self._news:
                name = self._begun if self._begun is not None else START if not self._stages else ""
                due = min(deadline, self._since + limits.get(name, limit))
            left = due - time.monotonic()
            if left <= 0:
                return True
            # The output's end is the child's end, told without delay; a grandchild may hold the pipe open, so the
            # process itself is looked at now and then.
            self._running.out.join(timeout=min(left, 0.25))
            if not self._running.out.is_alive() or self._running.poll():
                return False

    # -- at its end ----------------------------------------------------------------------------------------------------

    def _not_started(self) -> Answer:
        if self._unfit is not None:
            text = (self._unfit.stdout + self._unfit.stderr).strip()[:500] or self._unfit.reason
            kind = self._unfit.status if self._unfit.status in ("missing", "refused") else "not-a-python"
            status = "missing" if kind == "missing" else "failed"
            return Answer(self.python, kind, Outcome(status=status, error=text or None))
        assert self._running is not None
        assert self._running.failure is not None
        kind = self._running.failure.status
        status = "missing" if kind == "missing" else "failed"
        return Answer(self.python, kind, Outcome(status=status, error=self._running.failure.reason or None))

    def _answer(self, completed: Completed) -> Answer:
        with self._news:
            stages = tuple(self._stages)
            begun = self._begun
            noise = "\n".join(self._noise)[:MAX_NOISE]
        sections = split_by_stage(completed.stderr)
        done = any(item.get("stage") == DONE for item in stages)
        during = begun if begun is not None else None if done else START if not stages else _after(stages)
        answered = done and begun is None and completed.status in ("ok", "failed", "timeout")
        kind = "answered" if answered else "failed" if completed.status == "ok" else completed.status
        version = None
        if not stages and begun is None and kind == "failed":
            kind, version = self._who(completed)
        return Answer(
            self.python,
            kind,
            _outcome(kind, completed, sections.get(during or "", ""), during),
            stages,
            during if kind != "answered" else None,
            sections,
            noise,
            version,
        )

    def _who(self, completed: Completed) -> tuple[str, str | None]:
        """Why no stage came at all from a program that ran and failed: too old, no Python, or a broken one."""
        text = completed.stderr
        broken = re.search(r"Fatal Python error|Traceback \(most recent call last\)|ModuleNotFoundError", text)
        if broken and "SyntaxError" not in text:
            return "failed", None
        # Without `site`: what ends the interpreter there must not make it pass for another program.
        done = run((self.python, "-S", "-c", _WHO), timeout=10.0, env=self.env, cwd=self.cwd)
        match = re.search(re.escape(MARK) + r"(\d+)\.(\d+)\.(\d+)", done.stdout)
        if match is None:
            return "failed" if broken or "SyntaxError" in text else "not-a-python", None
        found = tuple(int(part) for part in match.groups())
        return ("too-old" if found[:2] < OLDEST else "failed"), ".".join(match.groups())


def start(
    python: str | Path,
    payload: Path,
    args: Sequence[str] = (),
    *,
    env: Mapping[str, str] | None = None,
    cwd: str | Path | None = None,
    on_stage: StageCallback | None = None,
) -> Session:
    """Starts a payload and returns at once. `env` is the child's whole environment; see `choice.child_environment`."""
    return Session(python, payload, args, env=env, cwd=cwd, on_stage=on_stage)


def run_payload(
    python: str | Path,
    payload: Path,
    args: Sequence[str] = (),
    *,
    timeout: float,
    limit: float = 60.0,
    env: Mapping[str, str] | None = None,
    cwd: str | Path | None = None,
    on_stage: StageCallback | None = None,
) -> Answer:
    """Runs a payload to its end, `timeout` seconds at most; never raises for what the Python under test does."""
    return start(python, payload, args, env=env, cwd=cwd, on_stage=on_stage).finish(timeout, limit=limit)


def _after(stages: Iterable[dict[str, Any]]) -> str:
    """Name of the gap in which a child ended that had begun nothing."""
    return f"after {list(stages)[-1].get('stage')}"


def _outcome(kind: str, completed: Completed, stderr: str, during: str | None) -> Outcome:
    status = {"answered": "ok", "not-a-python": "failed", "too-old": "failed", "refused": "failed"}.get(kind, kind)
    if kind == "answered":
        return Outcome(status="ok", exit_code=completed.returncode, seconds=round(completed.seconds, 3))
    detail = f"during {during}" if during else None
    if kind == "failed" and completed.returncode == 0:
        detail = f"it ended with exit code 0 {detail or ''}".rstrip()
    return Outcome(
        status=status,
        error=stderr[-4000:].strip() or None,
        exit_code=completed.returncode if kind != "timeout" else None,
        signal=completed.signal,
        seconds=round(completed.seconds, 3),
        detail=detail,
    )


def _named_like_python(path: str) -> bool:
    """Whether the name promises a Python.

    Any other program is first asked for its version, not handed a script: `--python /bin/rm` must not remove the
    payload.
    """
    names = {Path(path).name.lower()}
    with contextlib.suppress(OSError):
        names.add(Path(path).resolve().name.lower())
    return any(re.search(r"python|pypy|graalpy", name) for name in names)


def _ask_version(path: str, *, env: Mapping[str, str] | None, cwd: str | Path | None) -> Completed | None:
    """None when the program says it is a Python, else how it answered."""
    done = run((path, "-V"), timeout=10.0, env=env, cwd=cwd)
    return None if done.ok and _VERSION_LINE.search(done.stdout + done.stderr) else done
