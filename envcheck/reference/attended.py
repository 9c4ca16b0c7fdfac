"""Looks after the machine while the rates are measured: the CPU before, and GPUs under load by nvidia-smi."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from envcheck.facts import Measurement, System, UnderLoad
from envcheck.probes import system
from envcheck.probes.host import Host
from envcheck.smoke.attended import cpu_before
from envcheck.smoke.watch import Watch

TASK = "rates"
INTERVAL = 0.5
"""Seconds between two readings: the measurement is short."""


class Attended:
    """Passes on the events of the payload, and knows by them when a GPU is kept busy.

    Without nvidia-smi, and where the payload runs on another device, it knows of no GPU.
    """

    def __init__(self, on_event: Callable[[str, dict[str, Any] | None], None] | None, host: Host | None = None) -> None:
        self.pass_on = on_event
        self.host = host or Host()
        self.cpu_before: Measurement = cpu_before()
        self.system: System = system.probe(self.host).system
        self.loads: tuple[UnderLoad, ...] = ()
        self.device = ""
        self.watch, self.closed = Watch(self.host, interval=INTERVAL), False
        # The first readings are of the idle GPU: they are made while torch is still being imported.
        self.begun = threading.Thread(target=self.watch.start, daemon=True)
        if self.watch.path is not None:
            self.begun.start()

    def __call__(self, name: str, answer: dict[str, Any] | None) -> None:
        """One event."""
        if self.pass_on is not None:
            self.pass_on(name, answer)
        if name == "machine" and answer is not None:
            self.device = str(answer.get("device", ""))
        if name == TASK and answer is None:
            self.watch.readings.clear()
        if name == TASK and answer is not None and answer.get("gpu"):
            self.close()
            self.loads = self.watch.result({self.device: answer["gpu"]})

    def close(self) -> None:
        """Ends the readings, once."""
        if self.closed or self.watch.path is None:
            return
        self.closed = True
        self.begun.join()
        self.watch.stop()
