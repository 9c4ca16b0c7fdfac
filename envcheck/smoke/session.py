"""What the events of the smoke payload amount to, and what the end of its process means for the test that was open."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from envcheck.facts import Check, Measurement
from envcheck.process import Completed

IMPORT_TORCH = "import-torch"
FIND_DEVICES = "find-devices"
FIRST_WORK = "first-work"
NOT_TESTS = (IMPORT_TORCH, FIND_DEVICES, FIRST_WORK)
"""Steps of the payload that are reported only when they go wrong."""


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
    measurements: list[Measurement] = field(default_factory=list)
    devices: dict[str, dict[str, Any]] = field(default_factory=dict)
    """What torch says about each device, where the payload was asked to tell."""
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
        elif stage == "measure":
            self._measure(document)
        elif stage == "device":
            self.devices[str(document.get("device"))] = dict(document)
        elif stage == "check-restart":
            self.restart = str(document.get("reason"))
        elif stage == "smoke-end":
            self.finished = True
        return None

    def _measure(self, document: Mapping[str, Any]) -> None:
        try:
            made = msgspec.convert({k: v for k, v in document.items() if k != "stage"}, Measurement)
        except msgspec.ValidationError:
            return  # a half line: it is missing then, and nothing is told about it
        # A process that is started again measures what it had not finished once more.
        same = (made.name, made.device, made.case)
        self.measurements = [m for m in self.measurements if (m.name, m.device, m.case) != same]
        self.measurements.append(made)

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
        session.close(*ending(ended))
    return session


def checks_from_stages(stages: Iterable[Mapping[str, Any]], ended: Completed | None = None) -> tuple[Check, ...]:
    """The checks among the answers of `probe_env.py --then smoke_device.py`."""
    return tuple(read_stages(stages, ended).checks)


def ending(ended: Completed) -> tuple[str, str]:
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
