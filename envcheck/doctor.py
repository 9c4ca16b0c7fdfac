"""The examination: this machine and one Python environment, both questioned at the same time, then judged."""

from __future__ import annotations

import datetime
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

# The child that imports torch takes longest, so it is started with as little imported here as possible; everything
# that is only needed for the judgement is imported while it works.
from envcheck import __version__
from envcheck.errors import TargetError
from envcheck.probes.questioning import Questioning
from envcheck.target import choose

SMOKE_LEVEL = 1
GRACE = 5.0
"""Seconds kept back from the time limit for judging and printing."""

if TYPE_CHECKING:
    from envcheck.facts import Check, Facts, Symptom
    from envcheck.findings import Report
    from envcheck.target import Answer

CUDA_STAGE = "torch.cuda.init()"
"""Source of the symptoms that the probe's own start of CUDA gave."""

Say = Callable[[str], None]


class Examination:
    """One run of the doctor; the questioning of the Python under test begins when this is made.

    Args:
        python: the interpreter under test; None = that of the active environment, else envcheck's own.
        quick: torch is not imported.
        smoke: run the smoke tests, in the process in which torch was imported.
        timeout: seconds after which the answer comes, whatever hangs.

    Raises:
        TargetError: `python` does not exist or is no Python.
    """

    def __init__(
        self, python: Path | None = None, *, quick: bool = False, smoke: bool = True, timeout: float = 180.0
    ) -> None:
        from envcheck.smoke import PAYLOAD, arguments

        self.quick, self.smoke = quick, smoke and not quick
        self.deadline = time.monotonic() + max(timeout - GRACE, 1.0)
        self.named = python is not None
        self.judge = False
        self.choice = choose(python)
        then: list[str | Path] = [PAYLOAD, *arguments(level=SMOKE_LEVEL)] if self.smoke else []
        self.now = "the Python under test starts"
        self.questioning = Questioning(self.choice.python, quick=quick, then=then, on_stage=self._stage)

    def facts(self, say: Say | None = None) -> Facts:
        """Everything that is known, as a snapshot."""
        import msgspec

        from envcheck.facts import Facts
        from envcheck.probes import Host, collect_machine
        from envcheck.probes.collect import merge
        from envcheck.probes.interpreter import facts_from

        ticker = _Ticker(say, lambda: self.now)
        try:
            machine = _Later(lambda: collect_machine(Host()))
            if self.judge:
                _load_judgement()
            answer = self.questioning.finish(max(self.deadline - time.monotonic(), 0.0))
            self._refuse_no_python(answer)
            asked = facts_from(answer, quick=self.quick, choice=self.choice)
            checks = self._checks(answer) if self.smoke else None
            of_machine = machine.result()
        except KeyboardInterrupt:
            self.questioning.kill()
            raise
        finally:
            ticker.stop()
        of_python = Facts(
            python=asked.python, torch=asked.torch, env=asked.env, symptoms=asked.symptoms, probes=asked.probes
        )
        merged = merge(of_python, of_machine)
        return msgspec.structs.replace(
            merged,
            collected=datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
            envcheck=__version__,
            checks=checks,
            symptoms=(*_complaints(merged), *_symptoms_of(checks)),
        )

    def finish(self, say: Say | None = None) -> Report:
        """The judgement."""
        self.judge = True
        facts = self.facts(say)
        from envcheck.matrix import load
        from envcheck.rules import RULES, evaluate

        return evaluate(facts, load(), RULES)

    def _stage(self, name: str, answer: object) -> None:
        if answer is None:
            self.now = name

    def _refuse_no_python(self, answer: Answer) -> None:
        problem = answer.problem()
        if problem is not None and self.named and answer.kind in ("missing", "refused", "not-a-python", "too-old"):
            raise TargetError(f"{problem}; give --python the path of a Python interpreter")

    def _checks(self, answer: Answer) -> tuple[Check, ...] | None:
        """The smoke tests' answers; what a crash kept from running is run in further processes."""
        from envcheck.smoke import read_stages, run_smoke

        imported = answer.stage("import-torch")
        if imported is None or imported.get("result") != "ok":
            return None
        session = read_stages(answer.stages)
        if session.finished:
            return _with_import_time(session.checks, answer)
        interruption = answer.interruption("then")
        outcome = interruption.outcome if interruption is not None else answer.outcome
        status = {"timeout": "timeout", "crashed": "crashed"}.get(outcome.status, "failed")
        session.close(status, outcome.error or outcome.signal or outcome.detail or "the process ended")
        left = self.deadline - time.monotonic()
        if left <= 1.0:
            return tuple(session.checks)
        self.now = "smoke tests, in a new process"
        return run_smoke(self.choice.python, level=SMOKE_LEVEL, timeout=left, session=session, env=self.questioning.env)


def _with_import_time(checks: Iterable[Check], answer: Answer) -> tuple[Check, ...]:
    """The check of torchvision's import with the time that the import took: the probe made it, in the same process."""
    import msgspec

    stage = answer.stage("companion:torchvision") or {}
    took = float(stage.get("seconds") or 0.0)
    return tuple(
        msgspec.structs.replace(check, seconds=max(check.seconds or 0.0, took))
        if check.name == "torchvision-import" and check.status == "passed"
        else check
        for check in checks
    )


def _complaints(facts: Facts) -> tuple[Symptom, ...]:
    """The symptoms that somebody would complain about.

    The probe starts CUDA on its own account. Where no sign of an NVIDIA GPU is to be seen, the answer that there is no
    driver is the healthy one: the CUDA build that pip installs everywhere computes on the CPU there.
    """
    if _nvidia_in_sight(facts):
        return facts.symptoms
    return tuple(item for item in facts.symptoms if item.source != CUDA_STAGE)


def _nvidia_in_sight(facts: Facts) -> bool:
    nvidia, system = facts.nvidia, facts.system
    signs = (
        any(item.vendor_id == "10de" for item in facts.pci or ()),
        bool(nvidia.gpus or nvidia.device_nodes or nvidia.driver_packages),
        bool(nvidia.kernel_module_loaded or nvidia.kernel_driver_version or nvidia.driver_version),
        nvidia.smi is not None and nvidia.smi.status != "missing",
        bool(nvidia.cuda_init is not None and nvidia.cuda_init.code not in (None, 0, 100)),
        bool(system.jetson_model or system.l4t),
        any(item.kind in ("driver", "wsl", "windows", "jetson") for item in nvidia.libcuda or ()),
    )
    return any(signs)


def _symptoms_of(checks: tuple[Check, ...] | None) -> tuple[Symptom, ...]:
    """Known error texts in what failed smoke tests said."""
    failed = [check for check in checks or () if check.status not in ("passed", "skipped") and check.detail]
    if not failed:
        return ()
    from envcheck.symptoms.engine import recognise

    return tuple(s for check in failed for s in recognise(check.detail or "", source=f"smoke test {check.name}"))


def _load_judgement() -> None:
    """Imports what the judgement needs, while the machine and the Python under test are still answering."""
    import envcheck.matrix
    import envcheck.rules  # noqa: F401


class _Later(threading.Thread):
    """A call that runs beside this thread; `result()` waits for it."""

    def __init__(self, call: Callable[[], Facts]) -> None:
        super().__init__(daemon=True)
        self._call = call
        self._result: Facts | None = None
        self._error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self._result = self._call()
        except BaseException as error:
            self._error = error

    def result(self) -> Facts:
        self.join()
        if self._result is None:
            raise self._error or RuntimeError("the probes of the machine gave no answer")
        return self._result


class _Ticker(threading.Thread):
    """Says twice a second what is waited for, until stopped."""

    def __init__(self, say: Say | None, what: Callable[[], str]) -> None:
        super().__init__(daemon=True)
        self._say, self._what = say, what
        self._end = threading.Event()
        if say is not None:
            self.start()

    def run(self) -> None:
        while not self._end.wait(0.5):
            if self._say is not None:
                self._say(f"waiting for: {self._what()}")

    def stop(self) -> None:
        self._end.set()
        if self.is_alive():
            self.join(timeout=1.0)
        close = getattr(self._say, "close", None)
        if close is not None:
            close()
