"""Runs the payloads in the Python under test: fresh processes, a kill and a resume, the full training."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from envcheck.errors import TargetError
from envcheck.facts import Measurement, System, UnderLoad
from envcheck.reference.attended import Attended
from envcheck.reference.golden import golden_file
from envcheck.target import PAYLOADS, Answer, Session, child_environment, run_payload, start

CHECKS = PAYLOADS / "reference_checks.py"
TRAIN = PAYLOADS / "train_cifar10.py"

OnEvent = Callable[[str, "dict[str, Any] | None"], None]


PORTABLE_CAPS = {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_CBWR": "COMPATIBLE"}
"""Variables that hold torch, oneDNN and MKL to instructions that every x86-64 CPU since 2013 has. With them and one
thread the sums should be made in the same order on every such CPU; one is recorded so far."""


@dataclass(frozen=True)
class Preset:
    """How much is done."""

    steps: int
    """Of the repeated runs."""
    epochs: int
    """Of the training; 0: none, though data that is given is checked."""
    rounds: int
    """Of the rates."""
    workers: int
    """DataLoader workers that the plain loop is measured with besides none."""
    limit: float
    """Seconds for one process."""


PRESETS = {
    "quick": Preset(steps=6, epochs=0, rounds=4, workers=0, limit=600),
    "standard": Preset(steps=40, epochs=3, rounds=10, workers=8, limit=3600),
    "full": Preset(steps=40, epochs=20, rounds=10, workers=8, limit=6 * 3600),
}


MADE_EPOCHS = 6
"""By then the images made from integers are learnt; CIFAR-10 goes on for long."""


@dataclass(frozen=True)
class Options:
    """What is asked for."""

    python: Path
    preset: str = "quick"
    device: str = "auto"
    data: Path | None = None
    epochs: int | None = None
    """Other than the preset's."""
    threads: int = 0
    seed: int = 1
    training: tuple[str, ...] = ()
    """Further options of the repeated training, such as "--compile"."""
    env: Mapping[str, str] | None = None
    checks: Path = CHECKS
    """The payload; tests name one that plants faults."""
    payload_arguments: tuple[str, ...] = ()


@dataclass
class Measured:
    """All that the payloads said."""

    options: Options
    stages: dict[str, dict[str, Any]] = field(default_factory=dict)
    steps: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """By "defaults:1", "defaults:2", "strict:1", "strict:killed", "strict:resumed", "strict:portable"."""
    repeated: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Ends of the repeated runs, by the same names."""
    training: list[dict[str, Any]] = field(default_factory=list)
    """Events of the training."""
    failures: list[tuple[str, Answer]] = field(default_factory=list)
    """(what was run, how it ended) of processes that did not answer to their end."""
    killed_at: int = 0
    system: System | None = None
    cpu_before: Measurement | None = None
    """How busy the CPU was with the work of others."""
    loads: tuple[UnderLoad, ...] = ()
    """The GPU while its rates were measured."""

    @property
    def epochs(self) -> int:
        """How many epochs the training was to have."""
        if self.options.epochs is not None:
            return self.options.epochs
        epochs = PRESETS[self.options.preset].epochs
        return epochs if self.options.data is not None else min(epochs, MADE_EPOCHS)


def measure(options: Options, on_event: OnEvent | None = None) -> Measured:
    """Runs everything that the preset asks for; never raises for what the Python under test does."""
    preset = PRESETS[options.preset]
    measured = Measured(options)
    if not _first(measured, preset, on_event):
        return measured
    with tempfile.TemporaryDirectory(prefix="envcheck-") as folder:
        _again(measured, preset, Path(folder) / "checkpoint.pt", on_event)
    if can_be_portable(measured.stages.get("machine", {})):
        _portable(measured, preset, on_event)
    if measured.epochs or options.data is not None:
        _train(measured, preset, on_event)
    return measured


def _words(options: Options, preset: Preset, tasks: Sequence[str], *more: str) -> list[str]:
    words = [
        *options.payload_arguments,
        *tasks,
        "--device",
        options.device,
        "--steps",
        str(preset.steps),
        "--rounds",
        str(preset.rounds),
    ]
    words += ["--threads", str(options.threads)] if options.threads else []
    words += [f"--training={word}" for word in options.training]
    return [*words, *more]


def _environment(options: Options) -> dict[str, str]:
    env = child_environment(options.python, options.env)
    env.setdefault("PYTHONHASHSEED", "0")
    return env


def _first(measured: Measured, preset: Preset, on_event: OnEvent | None) -> bool:
    """The process that does most; True when it answered enough to go on."""
    options = measured.options
    tasks = ["machine", "inputs", "repeat:defaults", "shadow", "repeat:strict", "logic", "smooth", "rates"]
    words = _words(options, preset, tasks, "--golden", str(golden_file()), "--workers", str(preset.workers))
    attended = Attended(on_event)
    try:
        answer = run_payload(
            options.python,
            options.checks,
            words,
            timeout=preset.limit,
            limit=preset.limit,
            env=_environment(options),
            on_stage=attended,
        )
    finally:
        attended.close()
    measured.system, measured.cpu_before, measured.loads = attended.system, attended.cpu_before, attended.loads
    _take(measured, answer, "1", "1")
    for stage in answer.stages:
        if stage["stage"] != "step":
            measured.stages.setdefault(stage["stage"], stage)
    if answer.kind != "answered":
        measured.failures.append(("the checks", answer))
    return answer.kind == "answered"


def _take(measured: Measured, answer: Answer, defaults: str, strict: str) -> None:
    names = {"defaults": f"defaults:{defaults}", "strict": f"strict:{strict}"}
    for stage in answer.stages:
        if stage["stage"] == "step":
            measured.steps.setdefault(names[stage["mode"]], []).append(stage)
        elif stage["stage"].startswith("repeat:"):
            measured.repeated[names[stage["stage"].partition(":")[2]]] = stage


def _again(measured: Measured, preset: Preset, checkpoint: Path, on_event: OnEvent | None) -> None:
    """The same steps in a second process, which is killed in the middle, and in a third that goes on from there."""
    options = measured.options
    measured.killed_at = preset.steps // 2
    holder: list[Session] = []
    there = threading.Event()

    def watch(name: str, answer: dict[str, Any] | None) -> None:
        if on_event is not None:
            on_event(name, answer)
        if (
            name == "step"
            and answer is not None
            and answer["mode"] == "strict"
            and answer["step"] == measured.killed_at
        ):
            there.wait(10.0)
            holder[0].kill()  # SIGKILL, or its like on Windows: perhaps in the middle of writing a checkpoint

    words = _words(options, preset, ["repeat:defaults", "repeat:strict"], "--checkpoint", str(checkpoint))
    env = _environment(options)
    holder.append(start(options.python, options.checks, words, env=env, on_stage=watch))
    there.set()
    answer = holder[0].finish(preset.limit, limit=preset.limit)
    _take(measured, answer, "2", "killed")
    if len(measured.steps.get("strict:killed", ())) < measured.killed_at:
        measured.failures.append(("the second process", answer))
        return
    words = _words(options, preset, ["repeat:strict"], "--checkpoint", str(checkpoint), "--resume")
    answer = run_payload(
        options.python, options.checks, words, timeout=preset.limit, limit=preset.limit, env=env, on_stage=on_event
    )
    _take(measured, answer, "3", "resumed")
    if answer.kind != "answered":
        measured.failures.append(("the resumed process", answer))


def can_be_portable(machine: Mapping[str, Any]) -> bool:
    """An x86-64 CPU under Linux with AVX2, as the recorded ones."""
    platform = str(machine.get("platform", ""))
    return (
        str(machine.get("device")) == "cpu"
        and platform.startswith("Linux")
        and "x86_64" in platform
        and str(machine.get("cpu_capability", "")).startswith("AVX")
    )


def _portable(measured: Measured, preset: Preset, on_event: OnEvent | None) -> None:
    """Some steps held to common instructions: their bits are to be the same on every such CPU."""
    options = measured.options
    words = [*options.payload_arguments, "repeat:strict", "--device", "cpu", "--steps", "6", "--threads", "1"]
    env = {**_environment(options), **PORTABLE_CAPS}
    answer = run_payload(
        options.python, options.checks, words, timeout=preset.limit, limit=preset.limit, env=env, on_stage=on_event
    )
    _take(measured, answer, "portable", "portable")
    if answer.kind != "answered":
        measured.failures.append(("the run with common instructions", answer))


def _train(measured: Measured, preset: Preset, on_event: OnEvent | None) -> None:
    """The training, or with no epochs one step of it: enough to look at the data and to learn one batch by heart."""
    options = measured.options
    words = ["--report", "--self-check", "--channels-last", "--fused"]
    words += ["--epochs", str(measured.epochs)] if measured.epochs else ["--steps", "1"]
    words += ["--seed", str(options.seed), "--device", options.device]
    words += ["--data", str(options.data)] if options.data is not None else []
    words += ["--threads", str(options.threads)] if options.threads else []
    env = _environment(options)
    answer = run_payload(
        options.python, TRAIN, words, timeout=preset.limit, limit=preset.limit, env=env, on_stage=on_event
    )
    measured.training.extend(answer.stages)
    if not any(stage["stage"] == "done" for stage in answer.stages):
        measured.failures.append(("the training", answer))


def fetch_cifar10(python: Path, folder: Path, on_event: OnEvent | None = None) -> None:
    """Lets torchvision download CIFAR-10 into that folder; "download" events tell the bytes so far.

    Raises:
        TargetError: no torchvision, no network, or a wrong file.
    """
    env = child_environment(python)
    payload = PAYLOADS / "reference_download.py"
    answer = run_payload(python, payload, (str(folder),), timeout=3600, limit=3600, env=env, on_stage=on_event)
    if answer.kind != "answered":
        raise TargetError(f"CIFAR-10 was not downloaded: {answer.last_words()}")
