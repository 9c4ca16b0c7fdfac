"""Runs the smoke tests in the Python under test, and keeps a crash or a hang to the one test that made it.

The payload says what it begins before it begins it; when the process dies or says nothing any more, that test is
marked and the payload is started again with the rest.
"""

from __future__ import annotations

import json
import queue
import re
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from envcheck.errors import TargetError
from envcheck.facts import Check
from envcheck.process import Completed, Running, run
from envcheck.target import child_environment

PAYLOAD = Path(__file__).resolve().parent / "payloads" / "smoke_device.py"
MARK = "@envcheck@ "

IMPORT_TORCH = "import-torch"
FIND_DEVICES = "find-devices"
FIRST_WORK = "first-work"
NOT_TESTS = (IMPORT_TORCH, FIND_DEVICES, FIRST_WORK)
"""Steps of the payload that are reported only when they go wrong."""

TEST_LIMIT = 60.0
"""Seconds for one test: the first on a GPU loads hundreds of megabytes of kernels, from a cold disk perhaps."""
IMPORT_LIMIT = 180.0
"""Seconds for the import of torch: a network file system can take minutes."""
LEAVING_LIMIT = 10.0
"""Seconds from the last word to the end of the process; what drivers do on the way out is not waited for."""
HANGS_IN_A_ROW = 2
"""After so many tests of a device that did not return, the rest of that device is not tried."""

OnCheck = Callable[[Check], None]
OnStart = Callable[[str, str], None]


@dataclass(frozen=True)
class Entry:
    """One smoke test as `--list` shows it."""

    name: str
    level: int
    sentence: str


@dataclass
class Session:
    """What the events of one or several runs of the payload amount to."""

    checks: list[Check] = field(default_factory=list)
    plan: list[tuple[str, str]] = field(default_factory=list)
    seed: int | None = None
    torch: str | None = None
    open: tuple[str, str] | None = None
    """The test that was begun and not yet answered."""
    patience: float = 1.0
    """How many times the limit it may take."""
    finished: bool = False
    restart: str | None = None
    """Why the payload asks to be started again."""

    def feed(self, document: Mapping[str, Any]) -> Check | None:
        """Takes one event; returns the check that it completes."""
        stage = document.get("stage")
        if stage == "smoke":
            self.seed, self.torch = document.get("seed"), document.get("torch")
            self.plan = self.plan or [(str(name), str(device)) for name, device in document.get("plan", ())]
        elif stage == "check-start":
            self.open = (str(document.get("name")), str(document.get("device")))
            self.patience = float(document.get("patience") or 1.0)
        elif stage == "check":
            self.open = None
            return self.add(
                Check(
                    name=str(document.get("name")),
                    device=str(document.get("device")),
                    status=str(document.get("status")),
                    seconds=document.get("seconds"),
                    detail=document.get("detail"),
                )
            )
        elif stage == "check-restart":
            self.restart = str(document.get("reason"))
        elif stage == "smoke-end":
            self.finished = True
        return None

    def add(self, check: Check) -> Check | None:
        """Keeps a check; the steps that are no tests only when they went wrong."""
        if check.name in NOT_TESTS and check.status == "passed":
            return None
        self.checks.append(check)
        return check

    def close(self, status: str, detail: str, seconds: float | None = None) -> Check | None:
        """The process is gone: what was open ends with this status."""
        if self.open is None:
            return None
        (name, device), self.open = self.open, None
        return self.add(Check(name=name, device=device, status=status, seconds=seconds, detail=detail))

    def missing(self) -> list[tuple[str, str]]:
        """Tests of the plan without an answer."""
        done = {(c.name, c.device) for c in self.checks}
        return [pair for pair in self.plan if pair not in done]


def read_stages(stages: Iterable[Mapping[str, Any]], ended: Completed | None = None) -> Session:
    """The session that the answers of a payload describe; `ended` says how its process ended, where it did."""
    session = Session()
    for document in stages:
        session.feed(document)
    if ended is not None and session.open is not None:
        session.close(*_ending(ended))
    return session


def checks_from_stages(stages: Iterable[Mapping[str, Any]], ended: Completed | None = None) -> tuple[Check, ...]:
    """The checks among the answers of `probe_env.py --then smoke_device.py`."""
    return tuple(read_stages(stages, ended).checks)


def list_checks(level: int = 99) -> tuple[Entry, ...]:
    """All smoke tests up to a level, in the order of running."""
    done = run([sys.executable, str(PAYLOAD), "--list", "--level", str(level)], timeout=30.0)
    documents = [d for d in map(_document, done.stdout.splitlines()) if d is not None and d.get("stage") == "entry"]
    return tuple(Entry(name=d["name"], level=d["level"], sentence=d["sentence"]) for d in documents)


def arguments(
    *,
    level: int = 1,
    devices: Sequence[str] = (),
    only: Sequence[str] = (),
    seed: int | None = None,
    limit: float = TEST_LIMIT,
    skip: Iterable[tuple[str, str]] = (),
) -> list[str]:
    """The payload's command line, without interpreter and file; also what follows `--then` of the probe."""
    words = ["--level", str(level), "--limit", str(limit)]
    for device in devices:
        words += ["--device", device]
    for pattern in only:
        words += ["--only", pattern]
    if seed is not None:
        words += ["--seed", str(seed)]
    for name, device in skip:
        words += ["--skip", f"{name}@{device}"]
    return words


def run_smoke(
    python: str | Path,
    *,
    level: int = 1,
    devices: Sequence[str] = (),
    only: Sequence[str] = (),
    seed: int | None = None,
    limit: float = TEST_LIMIT,
    timeout: float = 1800.0,
    env: Mapping[str, str] | None = None,
    session: Session | None = None,
    on_check: OnCheck | None = None,
    on_start: OnStart | None = None,
    payload: Path = PAYLOAD,
) -> tuple[Check, ...]:
    """All checks, in the order they were made. `timeout` bounds the whole, `limit` each test.

    `session`: one that was begun elsewhere (in the doctor's probe) and broke off; only what is missing is run.

    Raises:
        TargetError: the interpreter could not be started.
    """
    driver = _Driver(
        python=Path(python),
        payload=payload,
        options={"level": level, "devices": tuple(devices), "only": tuple(only), "limit": limit},
        limit=limit,
        deadline=time.monotonic() + timeout,
        env=env,
        session=session or Session(seed=seed),
        on_check=on_check,
        on_start=on_start,
    )
    driver.run()
    return tuple(driver.session.checks)


@dataclass
class _Driver:
    """Starts the payload as often as it takes."""

    python: Path
    payload: Path
    options: dict[str, Any]
    limit: float
    deadline: float
    env: Mapping[str, str] | None
    session: Session
    on_check: OnCheck | None
    on_start: OnStart | None

    def run(self) -> None:
        while not self.session.finished:
            before = len(self.session.checks)
            ended = self._once()
            if self.session.finished:
                break
            self._close(ended)
            self._give_up_devices()
            if self._hopeless(before, ended):
                break

    def _once(self) -> Completed:
        """One process of the payload, followed to its end."""
        self.session.restart = None
        events: queue.Queue[str] = queue.Queue()
        skip = [(c.name, c.device) for c in self.session.checks]
        options = {**self.options, "seed": self.session.seed, "skip": skip}
        if self.session.plan:  # known from an earlier run: looking for devices again could only go wrong
            options["devices"] = tuple(dict.fromkeys(device for _, device in self.session.plan))
        elif any(c.name == FIND_DEVICES for c in self.session.checks):
            options["devices"] = ("cpu",)
        child = Running(
            [self.python, self.payload, *arguments(**options)],
            env=child_environment(self.python, self.env),
            on_line=events.put,
        )
        if not child.started:
            assert child.failure is not None
            raise TargetError(f"{self.python} cannot be started: {child.failure.reason}")
        return self._follow(child, events)

    def _follow(self, child: Running, events: queue.Queue[str]) -> Completed:
        since = time.monotonic()
        while True:
            ended = child.poll()  # before reading: what was written before the end is then still read below
            try:
                line = events.get(timeout=0.0 if ended else 0.05)
            except queue.Empty:
                if ended:
                    break
                if time.monotonic() > min(self.deadline, since + self._patience()):
                    break
                continue
            since = time.monotonic() if self._take(line) else since
        completed = child.wait(0.5 if ended else 0.0)
        # The reader may hand over the last lines only after the end was seen.
        while not events.empty():
            self._take(events.get())
        return completed

    def _patience(self) -> float:
        session = self.session
        if session.finished or session.restart is not None:
            return LEAVING_LIMIT
        if session.open is None or session.open[0] == IMPORT_TORCH:
            return IMPORT_LIMIT
        return self.limit * session.patience

    def _take(self, line: str) -> bool:
        document = _document(line)
        if document is None:
            return False
        check = self.session.feed(document)
        if check is not None and self.on_check is not None:
            self.on_check(check)
        if self.session.open is not None and self.on_start is not None and document.get("stage") == "check-start":
            self.on_start(*self.session.open)
        return True

    def _report(self, check: Check | None) -> None:
        if check is not None and self.on_check is not None:
            self.on_check(check)

    def _close(self, ended: Completed) -> None:
        late = time.monotonic() > self.deadline
        status, detail = _ending(ended)
        if late:
            status, detail = "timeout", "the time limit of all smoke tests was reached; " + detail
        self._report(self.session.close(status, detail))
        if late:
            self._abandon(self.session.missing(), "not tried: the time limit of all smoke tests was reached")
            self.session.finished = True

    def _give_up_devices(self) -> None:
        for device in {device for _, device in self.session.missing()}:
            mine = [c for c in self.session.checks if c.device == device][-HANGS_IN_A_ROW:]
            if len(mine) == HANGS_IN_A_ROW and all(c.status == "timeout" for c in mine):
                rest = [pair for pair in self.session.missing() if pair[1] == device]
                self._abandon(rest, f"not tried: {HANGS_IN_A_ROW} tests in a row did not return on {device}")

    def _abandon(self, pairs: Iterable[tuple[str, str]], reason: str) -> None:
        for name, device in pairs:
            self._report(self.session.add(Check(name=name, device=device, status="skipped", detail=reason)))

    def _hopeless(self, before: int, ended: Completed) -> bool:
        """True when starting again leads nowhere."""
        session = self.session
        if any(c.name == IMPORT_TORCH for c in session.checks):
            return True
        if session.plan and not session.missing():
            return True
        if len(session.checks) > before:
            return False
        # Nothing was answered and nothing was open: the payload itself does not work here. That must not pass.
        status, detail = _ending(ended)
        self._report(session.add(Check(name="smoke-tests", device="all", status=status, detail=detail)))
        return True


def _document(line: str) -> dict[str, Any] | None:
    """The event on a marked line."""
    if not line.startswith(MARK):
        return None
    try:
        document = json.loads(line[len(MARK) :])
    except ValueError:
        return None
    return document if isinstance(document, dict) else None


def _ending(ended: Completed) -> tuple[str, str]:
    """(status, detail) of a test whose process ended in the middle of it."""
    place = _place(ended.stderr)
    if ended.status == "timeout":
        return "timeout", f"no answer within the time limit{place}"
    if ended.status == "crashed":
        return "crashed", f"the process died of {ended.signal}{place}{_last_words(ended.stderr)}"
    return (
        "crashed",
        f"the process ended with exit code {ended.returncode} in the middle of the test{_last_words(ended.stderr)}",
    )


_FRAME = re.compile(r'^ +File "([^"]{1,400})", line (\d{1,9}) in (\S{1,100})')


def _place(stderr: str) -> str:
    """Where the stacks that faulthandler wrote show the main thread: innermost frame first, its thread written last."""
    current = None
    inside = False
    for line in stderr.splitlines():
        match = _FRAME.match(line)
        if match and not inside:
            current = f"{Path(match[1]).parent.name}/{Path(match[1]).name}:{match[2]} ({match[3]})"
        inside = match is not None
    return f" at {current}" if current else ""


_STACK = (
    "Fatal Python error",
    "Thread 0x",
    "Current thread 0x",
    "Timeout (",
    "Extension modules:",
    "  File ",
    "Stack (",
)


def _last_words(stderr: str) -> str:
    """The last lines of standard error that are no stack: an assertion or a library's message says why."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip() and not line.startswith(_STACK)]
    words = " / ".join(lines[-3:])
    return f": {words[-400:]}" if words else ""
