"""Long tests and measurements, with somebody who looks after the GPUs from outside while they run."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from envcheck.facts import Check, Measurement, UnderLoad
from envcheck.probes.host import Host
from envcheck.smoke.driver import run_smoke
from envcheck.smoke.session import Session
from envcheck.smoke.watch import Watch

LOOK = 0.5
"""Seconds over which the CPU's load is taken before a measurement."""


def run_attended(
    python: str | Path, *, session: Session, host: Host | None = None, speed: bool = False, **options: Any
) -> tuple[UnderLoad, ...]:
    """Runs the smoke payload (options as of `run_smoke`); its answers stand in the session, the readings are returned.

    Raises:
        TargetError: the interpreter could not be started.
    """
    if speed:
        session.measurements.append(cpu_before())
    watch = Watch(host)
    watch.start()
    try:
        run_smoke(python, session=session, speed=speed, **options)
    finally:
        watch.stop()
    loads = watch.result(session.devices)
    session.checks.extend(ecc_checks(loads))
    return loads


def cpu_before() -> Measurement:
    """How busy the CPU is with the work of others."""
    psutil: Any = importlib.import_module("psutil")  # only here: `smoke` alone does without
    return Measurement(name="cpu-busy-before", device="cpu", value=psutil.cpu_percent(LOOK), unit="%")


def ecc_checks(loads: Iterable[UnderLoad]) -> list[Check]:
    """A failed check for each GPU whose memory had errors that could not be corrected; silence where there were none."""
    return [
        Check(
            name="ecc-errors",
            device=load.device,
            status="failed",
            detail=f"{load.ecc_uncorrected_new} uncorrected ECC errors came while the tests ran",
        )
        for load in loads
        if load.ecc_uncorrected_new
    ]
