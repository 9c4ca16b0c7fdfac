"""Runs all probes of the machine at once and puts their answers together."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from envcheck.facts import (
    Amd,
    Apple,
    CudaInit,
    Facts,
    Intel,
    LibCuda,
    Nvidia,
    NvidiaGpu,
    Outcome,
    PciDevice,
    ProbeRun,
    PythonEnv,
    System,
    Toolchain,
    Torch,
)
from envcheck.nvidia_smi import bus_id
from envcheck.probes import (
    amd,
    apple,
    compilers,
    container,
    environment,
    fabric,
    intel,
    kernel,
    libcuda,
    nvidia,
    pci,
    system,
    system_packages,
    toolchain,
)
from envcheck.probes.host import Host

Progress = Callable[[tuple[str, ...]], None]

GRACE = 1.0
"""Seconds beyond a program's own limit: to kill it and to read what it left."""
TICK = 1.0
"""Seconds between two words on what is still waited for."""


@dataclass(frozen=True)
class Probe:
    """One question to the machine.

    programs: how many times `Host.timeout` its programs may take in all; 1 for most, which start one or none.
    lost: what is known when it did not answer in time or failed: that it was asked.
    """

    name: str
    function: Callable[[Host], Facts]
    platforms: tuple[str, ...] = ("linux", "win32", "darwin")
    programs: int = 1
    lost: Callable[[Outcome], Facts] = lambda _: Facts()

    def limit(self, host: Host) -> float:
        """Seconds after which it is given up."""
        return self.programs * host.timeout + GRACE


def _lost_smi(outcome: Outcome) -> Facts:
    return Facts(nvidia=Nvidia(smi=outcome))


def _lost_init(outcome: Outcome) -> Facts:
    return Facts(nvidia=Nvidia(cuda_init=CudaInit(outcome=outcome)))


PROBES: tuple[Probe, ...] = (
    # Those that start programs come first, so that these run while files are read.
    Probe("nvidia-smi", nvidia.probe_smi, ("linux", "win32"), lost=_lost_smi),
    Probe("cuda-init", libcuda.probe_init, ("linux", "win32"), programs=2, lost=_lost_init),
    Probe("compilers", compilers.probe),
    Probe("toolchain", toolchain.probe, ("linux", "win32")),
    Probe("apple", apple.probe, ("darwin",)),
    Probe("pci", pci.probe, ("linux", "win32")),
    Probe("system", system.probe, programs=2),
    Probe("space", system.space),
    Probe("container", container.probe),
    Probe("nvidia-kernel", nvidia.probe_kernel, ("linux",)),
    Probe("libcuda", libcuda.probe_files, ("linux", "win32")),
    Probe("fabric-manager", fabric.probe, ("linux",)),
    Probe("packages", system_packages.probe, ("linux",)),
    Probe("kernel-log", kernel.probe, ("linux",)),
    Probe("amd", amd.probe, ("linux", "win32")),
    Probe("intel", intel.probe, ("linux",)),
    Probe("environment", environment.probe),
)


class _Task(threading.Thread):
    """A probe at work. A daemon: one that hangs in the kernel must not keep the program from ending."""

    def __init__(self, probe: Probe, host: Host, done: queue.SimpleQueue[_Task]) -> None:
        super().__init__(daemon=True, name=f"probe-{probe.name}")
        self.probe = probe
        self.host = host
        self.done = done
        self.begun = time.monotonic()
        self.seconds: float | None = None
        self.facts: Facts | None = None
        self.error: Exception | None = None

    @property
    def deadline(self) -> float:
        return self.begun + self.probe.limit(self.host)

    def run(self) -> None:
        try:
            self.facts = self.probe.function(self.host)
        except Exception as error:  # a broken probe is an answer, and the others go on
            self.error = error
        self.seconds = round(time.monotonic() - self.begun, 4)
        self.done.put(self)


def collect_machine(
    host: Host | None = None, *, probes: Sequence[Probe] | None = None, progress: Progress | None = None
) -> Facts:
    """Asks the machine everything at once; the parts `python` and `torch` stay empty.

    Never raises and never hangs: a probe that fails or does not answer is a `ProbeRun` that says so. `progress` is told
    once a second which probes are still waited for.
    """
    host = host or Host()
    wanted = [p for p in (PROBES if probes is None else probes) if host.platform.startswith(p.platforms)]
    done: queue.SimpleQueue[_Task] = queue.SimpleQueue()
    tasks = [_Task(probe, host, done) for probe in wanted]
    for task in tasks:
        task.start()
    _wait(tasks, done, progress)
    answers = {task.probe.name: _answer(task) for task in tasks}
    return _finish(answers)


def _wait(tasks: Iterable[_Task], done: queue.SimpleQueue[_Task], progress: Progress | None) -> None:
    pending = set(tasks)
    tick = time.monotonic() + TICK
    while pending:
        now = time.monotonic()
        pending = {task for task in pending if task.deadline > now}
        if not pending:
            return
        if now >= tick:
            tick = now + TICK
            if progress is not None:
                progress(tuple(sorted(task.probe.name for task in pending)))
        until = min(tick, *(task.deadline for task in pending))
        try:
            pending.discard(done.get(timeout=max(0.001, until - now)))
        except queue.Empty:
            continue


def _answer(task: _Task) -> Facts:
    """The facts of one probe with its own `ProbeRun`, also when it gave none."""
    facts, error, seconds = task.facts, task.error, task.seconds
    if facts is None:
        if error is not None:
            outcome = Outcome(status="failed", error_type=type(error).__name__, error=str(error), seconds=seconds)
        else:
            limit = task.probe.limit(task.host)
            outcome = Outcome(status="timeout", seconds=round(limit, 1), detail=f"no answer in {limit:.0f} s")
        facts = task.probe.lost(outcome)
        return msgspec.structs.replace(facts, probes=(*facts.probes, ProbeRun(name=task.probe.name, outcome=outcome)))
    if any(run.name == task.probe.name for run in facts.probes):
        return facts
    run = ProbeRun(name=task.probe.name, outcome=Outcome(status="ok", seconds=seconds))
    return msgspec.structs.replace(facts, probes=(*facts.probes, run))


_SECTIONS = (System, Nvidia, Amd, Intel, Apple, Toolchain, PythonEnv, Torch)
_JOINED = ("symptoms", "evidence", "conflicts", "probes", "requested", "commands")


def merge(*parts: Facts) -> Facts:
    """Several parts as one: of two that know the same field, the earlier is believed; lists of events are joined."""
    return _merge(Facts(), parts)


def _merge(empty: Facts, parts: Iterable[Facts]) -> Facts:
    values: dict[str, Any] = {}
    for part in parts:
        for name in Facts.__struct_fields__:
            theirs = getattr(part, name)
            if theirs == getattr(empty, name):
                continue
            mine = values.get(name)
            if mine is None:
                values[name] = theirs
            elif name in _JOINED:
                values[name] = (*mine, *theirs)
            elif isinstance(theirs, _SECTIONS):
                values[name] = _fill(mine, theirs)
    return msgspec.structs.replace(empty, **values)


def _fill(mine: Any, theirs: Any) -> Any:
    missing = {
        name: getattr(theirs, name)
        for name in mine.__struct_fields__
        if getattr(mine, name) is None and getattr(theirs, name) is not None
    }
    return msgspec.structs.replace(mine, **missing) if missing else mine


def _finish(answers: Mapping[str, Facts]) -> Facts:
    """Joins the answers, and lets those that look at the same thing complete each other."""
    facts = merge(*answers.values())
    nothing = Facts()
    smi, kernel_part = answers.get("nvidia-smi", nothing).nvidia, answers.get("nvidia-kernel", nothing).nvidia
    init = answers.get("cuda-init", nothing).nvidia
    nodes = any(_is_gpu_node(node.path) for node in kernel_part.device_nodes or ())
    gpus = nvidia.combine_gpus(smi.gpus, _cuda_gpus(init.cuda_init), kernel_part.gpus, nodes=nodes)
    libraries = _mark_loaded(answers.get("libcuda", nothing).nvidia.libcuda, init.libcuda)
    if libraries and init.cuda_init is not None and init.cuda_init.outcome.status == "missing":
        libraries = tuple(msgspec.structs.replace(copy, loaded=False) for copy in libraries)
    return msgspec.structs.replace(
        facts,
        nvidia=msgspec.structs.replace(facts.nvidia, gpus=gpus, libcuda=libraries),
        pci=_named(facts.pci, kernel_part.gpus, smi.gpus),
    )


def _is_gpu_node(path: str) -> bool:
    return path.removeprefix("/dev/nvidia").isdigit()


def _cuda_gpus(init: CudaInit | None) -> tuple[NvidiaGpu, ...] | None:
    """The driver API's devices as GPUs. Inside of MIG its names carry the profile, and the device is no whole GPU."""
    if init is None or init.devices is None:
        return None
    return tuple(
        NvidiaGpu(
            index=device.index,
            name=device.name,
            compute_capability=device.compute_capability,
            bus_id=device.bus_id,
            memory_total=device.memory_total,
        )
        for device in init.devices
        if "MIG " not in (device.name or "")
    )


def _mark_loaded(found: tuple[LibCuda, ...] | None, loaded: tuple[LibCuda, ...] | None) -> tuple[LibCuda, ...] | None:
    """The copies on disk with the mark on the one that the loader really took (added when nobody had seen it)."""
    if not loaded or found is None:
        return loaded if found is None else found
    taken = loaded[0]
    result, marked = [], False
    for copy in found:
        same = copy.path == taken.path or _same_file(copy.path, taken.path)
        marked = marked or same
        kind = "stub" if same and taken.kind == "stub" else copy.kind
        result.append(msgspec.structs.replace(copy, loaded=same, kind=kind))
    return tuple(result) if marked else (taken, *result)


def _same_file(one: str, other: str) -> bool:
    import os

    try:
        return os.path.samefile(one, other)
    except OSError:
        return False


def _named(devices: tuple[PciDevice, ...] | None, *known: tuple[NvidiaGpu, ...] | None) -> tuple[PciDevice, ...] | None:
    """PCI devices without a name get the one that the driver knows."""
    if devices is None:
        return None
    names = {bus_id(gpu.bus_id): gpu.name for gpus in known for gpu in gpus or () if gpu.name}
    return tuple(
        msgspec.structs.replace(device, name=names.get(bus_id(device.address))) if device.name is None else device
        for device in devices
    )
