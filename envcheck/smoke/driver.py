"""Runs the smoke tests in the Python under test, and keeps a crash or a hang to the one test that made it.

The payload says what it begins before it begins it; when the process dies or says nothing any more, that test is
marked and the payload is started again with the rest.
"""

from __future__ import annotations

import json
import queue
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envcheck.errors import TargetError
from envcheck.facts import Check
from envcheck.process import Completed, Running, run
from envcheck.smoke import PAYLOAD, TEST_LIMIT, arguments
from envcheck.smoke.session import FIND_DEVICES, IMPORT_TORCH, Session, ending
from envcheck.target import MARK, child_environment

IMPORT_LIMIT = 180.0
"""Seconds for the import of torch: a network file system can take minutes."""
LEAVING_LIMIT = 10.0
"""Seconds from the last word to the end of the process; what drivers do on the way out is not waited for."""
HANGS_IN_A_ROW = 2
"""After so many tests of a device that did not return, the rest of that device is not tried."""

OnCheck = Callable[[Check], None]
OnStart = Callable[[str, str], None]
OnProgress = Callable[[str, str, float, str], None]
"""Test, device, share that is done, what it does."""


@dataclass(frozen=True)
class Entry:
    """One smoke test as `--list` shows it."""

    name: str
    level: int
    sentence: str


def list_checks(level: int = 99, *, speed: bool = False) -> tuple[Entry, ...]:
    """All smoke tests up to a level, in the order of running; or what is measured."""
    words = ["--list", "--level", str(level), *(["--speed"] if speed else [])]
    done = run([sys.executable, str(PAYLOAD), *words], timeout=30.0)
    documents = [d for d in map(_document, done.stdout.splitlines()) if d is not None and d.get("stage") == "entry"]
    return tuple(Entry(name=d["name"], level=d["level"], sentence=d["sentence"]) for d in documents)


def run_smoke(
    python: str | Path,
    *,
    level: int = 1,
    devices: Sequence[str] = (),
    only: Sequence[str] = (),
    seed: int | None = None,
    limit: float = TEST_LIMIT,
    minutes: float | None = None,
    speed: bool = False,
    timeout: float = 1800.0,
    env: Mapping[str, str] | None = None,
    session: Session | None = None,
    on_check: OnCheck | None = None,
    on_start: OnStart | None = None,
    on_progress: OnProgress | None = None,
    payload: Path = PAYLOAD,
) -> tuple[Check, ...]:
    """All checks, in the order they were made. `timeout` bounds the whole, `limit` each test.

    `minutes`: how long the tests of endurance go on, on each device. `speed`: measure instead; what comes out stands
    in the session. `session`: one that was begun elsewhere (in the doctor's probe) and broke off; only what is missing is run.

    Raises:
        TargetError: the interpreter could not be started.
    """
    driver = _Driver(
        python=Path(python),
        payload=payload,
        options={
            "level": level,
            "devices": tuple(devices),
            "only": tuple(only),
            "limit": limit,
            "minutes": minutes,
            "speed": speed,
        },
        limit=limit,
        deadline=time.monotonic() + timeout,
        env=env,
        session=session or Session(seed=seed),
        on_check=on_check,
        on_start=on_start,
        on_progress=on_progress,
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
    on_progress: OnProgress | None = None

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
        try:
            return self._follow(child, events)
        except BaseException:
            child.kill()  # it leads a session of its own: an interruption from the keyboard does not reach it
            child.wait(1.0)
            raise

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
        if self.session.open is not None and self.on_progress is not None and document.get("stage") == "progress":
            self.on_progress(*self.session.open, float(document.get("share") or 0.0), str(document.get("text") or ""))
        return True

    def _report(self, check: Check | None) -> None:
        if check is not None and self.on_check is not None:
            self.on_check(check)

    def _close(self, ended: Completed) -> None:
        late = time.monotonic() > self.deadline
        status, detail = ending(ended)
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
        status, detail = ending(ended)
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
