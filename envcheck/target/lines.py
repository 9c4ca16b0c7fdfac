"""The lines of a payload: its messages among the noise, and standard error cut by stage."""

from __future__ import annotations

import json
from typing import Any

MARK = "@envcheck@ "
START = "start"
"""Name of the time before the first stage: the interpreter's own start-up, site, .pth files."""
MAX_SECTION = 128 * 1024
"""Characters kept of standard error for each stage: the first half and the last."""


def split_by_stage(text: str) -> dict[str, str]:
    """Standard error cut at the announcements of stages; each part bounded, its middle left out when it is long."""
    parts: dict[str, list[str]] = {START: []}
    name = START
    for line in text.split("\n"):
        message = message_of(line)
        if message is not None and "begin" in message:
            name = str(message["begin"])
            parts.setdefault(name, [])
        else:
            parts[name].append(line)
    joined = {name: "\n".join(lines).strip("\n") for name, lines in parts.items()}
    return {name: _bounded(part) for name, part in joined.items() if part}


def _bounded(text: str) -> str:
    if len(text) <= MAX_SECTION:
        return text
    half = MAX_SECTION // 2
    return text[:half] + "\n[...]\n" + text[-half:]


def message_of(line: str) -> dict[str, Any] | None:
    """The JSON of a marker line, None for noise and for a line that a crash cut short."""
    # Output of others without a line end may stand ahead of the mark.
    start = line.find(MARK)
    if start < 0:
        return None
    try:
        message = json.loads(line[start + len(MARK) :])
    except ValueError:
        return None
    if not isinstance(message, dict) or not ("begin" in message or "stage" in message):
        return None
    # A path that is not UTF-8 reaches us as lone surrogates, which no output of ours could carry.
    return _clean(message) if "\\ud" in line[start:] else message


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, dict):
        return {_clean(key): _clean(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_clean(item) for item in value]
    return value
