"""The smoke tests: proofs, run in the Python under test, that each device computes right with this build of torch.

What the doctor needs to start its child stands here and imports nothing; the rest is loaded when it is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from envcheck.smoke.driver import Entry, list_checks, run_smoke
    from envcheck.smoke.session import Session, checks_from_stages, read_stages

PAYLOAD = Path(__file__).resolve().parent.parent / "payloads" / "smoke_device.py"

TEST_LIMIT = 60.0
"""Seconds for one test: the first on a GPU loads hundreds of megabytes of kernels, from a cold disk perhaps."""

__all__ = [
    "PAYLOAD",
    "TEST_LIMIT",
    "Entry",
    "Session",
    "arguments",
    "checks_from_stages",
    "list_checks",
    "read_stages",
    "run_smoke",
]


def arguments(
    *,
    level: int = 1,
    devices: Sequence[str] = (),
    only: Sequence[str] = (),
    seed: int | None = None,
    limit: float = TEST_LIMIT,
    minutes: float | None = None,
    speed: bool = False,
    skip: Iterable[tuple[str, str]] = (),
) -> list[str]:
    """The payload's command line, without interpreter and file; also what follows `--then` of the probe."""
    words = ["--level", str(level), "--limit", str(limit)]
    for device in devices:
        words += ["--device", device]
    for pattern in only:
        words += ["--only", pattern]
    if seed is not None:
        words += ["--seed", str(seed)]
    if minutes is not None:
        words += ["--minutes", str(minutes)]
    if speed:
        words.append("--speed")
    for name, device in skip:
        words += ["--skip", f"{name}@{device}"]
    return words


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from envcheck.smoke import driver, session

    return getattr(driver, name, None) or getattr(session, name)
