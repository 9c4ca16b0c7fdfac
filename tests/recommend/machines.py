"""Machines for the tests of the planner, from a few words."""

from __future__ import annotations

from envcheck.facts import Facts, Nvidia, NvidiaGpu, PythonEnv, System


def machine(
    *gpus: str,
    driver: str | None = None,
    os: str = "linux",
    arch: str = "x86_64",
    python: str | None = "3.12",
    origin: str = "described",
    **system: object,
) -> Facts:
    """A machine with NVIDIA GPUs by name (none: known to have none)."""
    return Facts(
        origin=origin,
        system=System(os=os, machine=arch, **system),  # type: ignore[arg-type]
        nvidia=Nvidia(gpus=tuple(NvidiaGpu(name=name) for name in gpus), driver_version=driver),
        python=PythonEnv(version=python.rstrip("t") if python else None, free_threaded=python.endswith("t") if python else None),
    )
