"""What became of each thing that the questioning tried: it worked, failed, crashed, hung, or was not tried."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from envcheck.facts import Outcome
from envcheck.target import Answer

Stage = Mapping[str, Any]


def import_outcome(answer: Answer, *, quick: bool = False) -> Outcome | None:
    """What became of `import torch`."""
    outcome = stage_outcome(answer, "import-torch")
    if outcome is not None:
        return outcome
    if quick:
        return Outcome(status="skipped", detail="not asked for")
    if answer.stages:
        return Outcome(status="skipped", detail=f"the questioning ended before it, during {answer.during}")
    return None


def stage_outcome(answer: Answer, stage: str) -> Outcome | None:
    """What became of a stage that tries something; None when it was not reached."""
    said = answer.stage(stage)
    if said is not None:
        return _of_answer(said)
    ended = answer.interruption(stage)
    if ended is None:
        return None
    place = where_it_stood(ended.stderr)
    detail = ", ".join(part for part in (f"during {stage}", place) if part)
    return msgspec.structs.replace(
        ended.outcome, detail=detail, error=without_stacks(ended.stderr)[-4000:].strip() or None, seconds=None
    )


def _of_answer(said: Stage) -> Outcome:
    result = said.get("result")
    seconds = said.get("seconds")
    if result == "missing" or said.get("kind") == "missing":
        return Outcome(status="missing", error_type=said.get("error_type"), error=said.get("error"), seconds=seconds)
    if result == "error":
        return failure_of(said, seconds)
    if result == "skipped":
        return Outcome(status="skipped", detail=said.get("reason"))
    return Outcome(status="ok", seconds=seconds)


def failure_of(said: Stage, seconds: float | None, detail: str | None = None) -> Outcome:
    """An exception that the payload caught and told; what caused it stands in `detail`."""
    causes = [str(cause) for cause in said.get("causes") or ()]
    return Outcome(
        status="failed",
        error_type=said.get("error_type"),
        error=said.get("error"),
        seconds=seconds,
        detail=detail or (("caused by " + "; ".join(causes)) if causes else None),
    )


_FRAME = re.compile(r'^  File "(?P<file>[^"]*)", line (?P<line>\d+) in (?P<name>.*)$')
_STACK_HEAD = re.compile(
    r"^(?:Fatal Python error: |Windows fatal exception: |Timeout \(\d+:|(?:Current thread|Thread) 0x)"
)


def where_it_stood(stderr: str) -> str | None:
    """The Python line at which faulthandler saw the process, e.g. "in _load_global_deps (torch/__init__.py:237)".

    After a crash that is the thread marked as current; after a time limit the last one listed, which is the oldest.
    """
    stacks: list[list[str]] = []
    current: int | None = None
    for line in stderr.split("\n"):
        if line.startswith(("Current thread 0x", "Thread 0x")):
            if line.startswith("Current"):
                current = len(stacks)
            stacks.append([])
        elif stacks and _FRAME.match(line):
            stacks[-1].append(line)
    wanted = stacks[current] if current is not None else stacks[-1] if stacks else []
    match = _FRAME.match(wanted[0]) if wanted else None
    if match is None:
        return None
    parts = match["file"].replace("\\", "/").split("/")
    return f"in {match['name']} ({'/'.join(parts[-2:])}:{match['line']})"


def without_stacks(stderr: str) -> str:
    """The text without what faulthandler wrote."""
    kept = []
    inside = False
    for line in stderr.split("\n"):
        if _STACK_HEAD.match(line):
            inside = True
        elif inside and not (
            line.startswith(("  ", "Extension modules:", "Python runtime state:", "<no Python frame>")) or not line
        ):
            inside = False
        if not inside:
            kept.append(line)
    return "\n".join(kept)
