"""Questions the Python under test by `probe_env.py`, and goes on with the rest when one stage takes the child down."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from envcheck.target import PAYLOADS, START, Answer, Session, child_environment, merge, start
from envcheck.target.session import StageCallback

PROBE = PAYLOADS / "probe_env.py"

LIMITS: Mapping[str, float] = {
    START: 30.0,
    "import-torch": 150.0,
    "cuda-init": 60.0,
    "companion:torchvision": 90.0,
    "then": 90.0,  # without a word of the payload that runs behind the probe
}
"""Seconds that single stages may take; a cold disk or a network file system makes an import slow, not wrong."""
LIMIT = 45.0
"""Seconds for each other stage."""

BEFORE_TORCH = ("interpreter", "environment", "torch-files", "distributions", "installed-files")
AFTER_TORCH = (
    "torch-build",
    "cuda-init",
    "other-devices",
    "numpy-bridge",
    "libraries",
    "companion:torchvision",
    "companion:torchaudio",
    "companion:triton",
)
MAX_CHILDREN = 4


class Questioning:
    """One examination of a Python, begun when it is made so that other probes run beside it."""

    def __init__(
        self,
        python: str | Path,
        *,
        quick: bool = False,
        companions: bool = True,
        then: Sequence[str | Path] = (),
        limits: Mapping[str, float] | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | Path | None = None,
        on_stage: StageCallback | None = None,
    ) -> None:
        self.python = Path(python)
        self.quick = quick
        self.companions = companions and not quick
        self.then = [str(word) for word in then] if not quick else []
        self.limits = {**LIMITS, **(limits or {})}
        self.env = child_environment(self.python, env)
        self.cwd = cwd
        self.on_stage = on_stage
        self.session = self._start(())

    def wait_for(self, stage: str, timeout: float) -> dict[str, Any] | None:
        """The answer of an early stage as soon as the first child gives it."""
        return self.session.wait_for(stage, timeout)

    def kill(self) -> None:
        """Ends the examination."""
        self.session.kill()

    def finish(self, timeout: float) -> Answer:
        """The whole answer, `timeout` seconds from now at most.

        A stage that crashes or hangs costs only itself: another child is started that leaves it out. Only what comes
        before the first stage, the import of torch and the payload behind the probe end the questioning.
        """
        deadline = time.monotonic() + timeout
        answer = self._wait(deadline)
        for _ in range(MAX_CHILDREN - 1):
            skip = self._resume(answer)
            if not skip or time.monotonic() >= deadline:
                break
            self.session = self._start(skip)
            answer = merge(answer, self._wait(deadline))
        return answer

    def _wait(self, deadline: float) -> Answer:
        left = max(deadline - time.monotonic(), 0.0)
        return self.session.finish(left, limit=LIMIT, limits=self.limits)

    def _start(self, skip: Sequence[str]) -> Session:
        args = ["--limit", str(LIMIT)]
        for stage, seconds in self.limits.items():
            args += ["--limit", f"{stage}={seconds}"]
        if self.quick:
            args.append("--quick")
        if self.companions:
            args.append("--companions")
        if skip:
            args += ["--skip", ",".join(skip)]
        if self.then:
            args += ["--then", *self.then]
        return start(self.python, PROBE, args, env=self.env, cwd=self.cwd, on_stage=self.on_stage)

    def _resume(self, answer: Answer) -> tuple[str, ...]:
        """Stages that the next child leaves out; () when there is nothing to go on with."""
        if answer.during not in (*BEFORE_TORCH, *AFTER_TORCH) or answer.kind not in ("failed", "crashed", "timeout"):
            return ()
        known = [str(item.get("stage")) for item in answer.stages]
        ended = [item.stage for item in answer.interruptions]
        return tuple(dict.fromkeys([*known, *ended, str(answer.during)]))
