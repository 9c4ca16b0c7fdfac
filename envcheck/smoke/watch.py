"""Watches NVIDIA GPUs by nvidia-smi while tests keep them busy: temperature, clocks, power, link, throttling, ECC.

torch itself tells none of this in older releases, and a process that computes cannot be trusted to look after itself.
"""

from __future__ import annotations

import statistics
import threading
from collections.abc import Mapping
from typing import Any

from envcheck import nvidia_smi
from envcheck.facts import GpuProcess, NvidiaGpu, UnderLoad
from envcheck.probes.host import Host
from envcheck.probes.nvidia import locate, probe_smi, query_argv

FIELDS = (
    "index",
    "pci.bus_id",
    "name",
    "mig.mode.current",
    "temperature.gpu",
    "utilization.gpu",
    "power.draw",
    "power.limit",
    "power.default_limit",
    "clocks.sm",
    "clocks.max.sm",
    "pcie.link.gen.current",
    "pcie.link.gen.max",
    "pcie.link.width.current",
    "pcie.link.width.max",
    "ecc.errors.uncorrected.volatile.total",
    "clocks_throttle_reasons.active",
)
RENAMED = {"clocks_throttle_reasons.active": "clocks_event_reasons.active"}
"""Fields whose old name a newer nvidia-smi may not know any more."""
INTERVAL = 2.0
BUSY = 50.0
"""Percent of utilization from which on a reading counts as one under load."""
READINGS_BEFORE = 3


class Watch:
    """Readings before and during the work. Without nvidia-smi it does nothing and knows nothing."""

    def __init__(self, host: Host | None = None, interval: float = INTERVAL) -> None:
        self.host = host or Host()
        self.path = locate(self.host)
        self.interval = interval
        self.fields = list(FIELDS)
        self.before: list[tuple[NvidiaGpu, ...]] = []
        self.readings: list[tuple[NvidiaGpu, ...]] = []
        self.processes: dict[str, tuple[GpuProcess, ...]] = {}
        self._end = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Looks at the GPUs as they are before the work, and then again and again."""
        if self.path is not None:
            self._look_before()
            self._thread = threading.Thread(target=self._follow, daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Ends the readings with a last one."""
        self._end.set()
        if self._thread is not None:
            self._thread.join(timeout=self.host.timeout + 1.0)
            self.readings += self._reading()

    def _look_before(self) -> None:
        for gpu in probe_smi(self.host).nvidia.gpus or ():
            if gpu.processes is not None and gpu.bus_id is not None:
                self.processes[_address(gpu) or ""] = gpu.processes
        for _ in range(READINGS_BEFORE):
            self.before += self._reading()
            self._end.wait(min(0.5, self.interval))

    def _follow(self) -> None:
        while not self._end.wait(self.interval):
            self.readings += self._reading()

    def _reading(self) -> list[tuple[NvidiaGpu, ...]]:
        """One reading of all GPUs; none when nvidia-smi does not answer."""
        for _ in range(len(FIELDS) + len(RENAMED)):
            done = self.host.run([self.path or "nvidia-smi", *query_argv(self.fields)], timeout=self.host.timeout)
            unknown = nvidia_smi.invalid_field(done.stdout + done.stderr)
            if unknown not in self.fields:
                rows = nvidia_smi.parse_query(done.stdout) if done.ok else None
                return [tuple(row.gpu for row in rows)] if rows else []
            place = self.fields.index(unknown)
            self.fields[place : place + 1] = [RENAMED[unknown]] if unknown in RENAMED else []
        return []

    def result(self, devices: Mapping[str, Mapping[str, Any]]) -> tuple[UnderLoad, ...]:
        """What was seen of each CUDA device that torch named; of those that cannot be told apart, what torch says."""
        found = []
        for label, told in devices.items():
            if not label.startswith("cuda"):
                continue
            address = self._which(told)
            found.append(
                self._of(label, told, address)
                if address is not None
                else UnderLoad(device=label, name=told.get("name"), multiprocessors=told.get("multiprocessors"))
            )
        return tuple(found)

    def _which(self, told: Mapping[str, Any]) -> str | None:
        seen = {_address(gpu): gpu for reading in (*self.before, *self.readings) for gpu in reading}
        seen.pop(None, None)
        wanted = nvidia_smi.bus_id(told.get("bus_id")) if told.get("bus_id") else None
        if wanted is not None:
            return wanted if wanted in seen else None
        named = [address for address, gpu in seen.items() if gpu.name == told.get("name")]
        return named[0] if len(named) == 1 else None

    def _of(self, label: str, told: Mapping[str, Any], address: str) -> UnderLoad:
        before = [gpu for reading in self.before for gpu in reading if _address(gpu) == address]
        during = [gpu for reading in self.readings for gpu in reading if _address(gpu) == address]
        busy = [gpu for gpu in during if gpu.utilization is not None and gpu.utilization >= BUSY]
        last = (during or before)[-1]
        return UnderLoad(
            device=label,
            name=last.name or told.get("name"),
            bus_id=last.bus_id,
            mig=last.mig,
            multiprocessors=told.get("multiprocessors"),
            samples=len(busy),
            temperature_max=max((g.temperature for g in busy if g.temperature is not None), default=None),
            power_draw_max=max((g.power_draw for g in busy if g.power_draw is not None), default=None),
            power_limit=last.power_limit,
            power_default_limit=last.power_default_limit,
            clocks_sm=_median([g.clocks_sm for g in busy if g.clocks_sm is not None]),
            clocks_sm_max=last.clocks_sm_max,
            # Copies are too short to be "busy" by the engines' measure: the link counts in every reading.
            pcie_gen=max((g.pcie_gen for g in during if g.pcie_gen is not None), default=None),
            pcie_gen_max=last.pcie_gen_max,
            pcie_width=max((g.pcie_width for g in during if g.pcie_width is not None), default=None),
            pcie_width_max=last.pcie_width_max,
            throttle=_shares([g.throttle_reasons for g in busy if g.throttle_reasons is not None]),
            utilization_before=min((g.utilization for g in before if g.utilization is not None), default=None),
            processes_before=self.processes.get(address),
            ecc_uncorrected_new=_growth(before, during),
        )


def _address(gpu: NvidiaGpu) -> str | None:
    return nvidia_smi.bus_id(gpu.bus_id)


def _median(values: list[int]) -> int | None:
    return round(statistics.median(values)) if values else None


def _shares(readings: list[tuple[str, ...]]) -> dict[str, float] | None:
    if not readings:
        return None
    names = dict.fromkeys(name for reading in readings for name in reading)
    return {name: round(sum(name in reading for reading in readings) / len(readings), 3) for name in names}


def _growth(before: list[NvidiaGpu], during: list[NvidiaGpu]) -> int | None:
    first = [g.ecc_uncorrected for g in before if g.ecc_uncorrected is not None]
    last = [g.ecc_uncorrected for g in during if g.ecc_uncorrected is not None]
    return max(0, last[-1] - first[-1]) if first and last else None
