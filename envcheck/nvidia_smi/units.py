"""Cells of nvidia-smi as values: numbers with units, yes/no words, and the many ways to say "not known"."""

from __future__ import annotations

import re

from envcheck.lazy import Regex

_NUMBER = Regex(r"-?\d+(?:\.\d+)?")
_SIZE = Regex(r"(\d+(?:\.\d+)?)\s*([KMGT]i?B|B)?", re.IGNORECASE)
_FACTOR = {"b": 1, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}
_VERSION = Regex(r"\d+(?:\.\d+)+")

BROKEN = ("Unknown Error", "GPU is lost", "GPU requires reset", "ERR!")
"""Cells that say that the GPU did not answer. "N/A" and "Not Supported" are ordinary."""


def number(cell: str | None) -> float | None:
    """The number of a cell such as "235.00 W", "35C", "16x"; None for "N/A", "[Not Supported]", "ERR!"."""
    match = _NUMBER.match(cell.strip()) if cell else None
    return float(match.group()) if match else None


def integer(cell: str | None) -> int | None:
    """The same as a whole number."""
    value = number(cell)
    return None if value is None else int(value)


def size(cell: str | None, default: str = "m") -> int | None:
    """Bytes of "11439 MiB", "11439MiB", "80 GB"; a bare number counts in `default` units (nvidia-smi: MiB)."""
    match = _SIZE.match(cell.strip()) if cell else None
    if match is None:
        return None
    unit = (match.group(2) or default)[0].lower()
    return int(float(match.group(1)) * _FACTOR[unit])


def word(cell: str | None) -> str | None:
    """A cell's text, None where it says that there is nothing to say ("N/A", "[N/A]", "[Not Supported]", "ERR!")."""
    if cell is None:
        return None
    text = cell.strip().strip("[]").strip()
    if not text or text.lower() in ("n/a", "not supported", "not available", "none", "unknown", "err!"):
        return None
    return None if text in BROKEN else text


def recovery_action(cell: str | None) -> str | None:
    """What the driver asks for: "None" (nothing has to be done, unlike not known), "Reset", "Reboot"."""
    return word_or_none(cell)


def word_or_none(cell: str | None) -> str | None:
    """A cell in which "None" is an answer (a virtualization mode: the bare machine) and not a lack of one."""
    text = (cell or "").strip().strip("[]").strip()
    return "None" if text.lower() == "none" else word(cell)


def yes(cell: str | None) -> bool | None:
    """True for "Yes", "Enabled", "On", "Active", "1"; False for their opposites; None else. "Enabled*" is "Enabled"."""
    text = (word(cell) or "").rstrip("*").lower()
    if text in ("yes", "enabled", "on", "active", "1"):
        return True
    return False if text in ("no", "disabled", "off", "not active", "0") else None


def broken(cell: str | None) -> str | None:
    """The words of a cell that says that the GPU did not answer, else None."""
    text = (cell or "").strip().strip("[]").strip()
    return text if text in BROKEN else None


def version(text: str | None) -> str | None:
    """The first dotted number: "610.57.04 [Deprecated; ...]" -> "610.57.04"."""
    match = _VERSION.search(text) if text else None
    return match.group() if match else None


_MODES = (
    (Regex(r"^(?:E\.?\s*Process|Exclusive[_ ]?Process)$", re.IGNORECASE), "Exclusive_Process"),
    (Regex(r"^(?:E\.?\s*Thread|Exclusive(?:[_ ]?Thread)?)$", re.IGNORECASE), "Exclusive_Thread"),
    (Regex(r"^Prohibited$", re.IGNORECASE), "Prohibited"),
    (Regex(r"^Default$", re.IGNORECASE), "Default"),
)


def compute_mode(cell: str | None) -> str | None:
    """The compute mode, however it is spelled: "E. Process" -> "Exclusive_Process"."""
    text = " ".join((word(cell) or "").split())
    return next((name for pattern, name in _MODES if pattern.match(text)), None)


def bus_id(cell: str | None) -> str | None:
    """A PCI address as Linux spells it, lower case and with a four-digit domain: "00000000:0B:00.0" -> "0000:0b:00.0"."""
    match = re.search(r"(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f])", cell or "", re.IGNORECASE)
    if match is None:
        return None
    domain = int(match.group(1) or "0", 16)
    return f"{domain:04x}:{match.group(2).lower()}"


def display_bus_id(cell: str | None) -> str | None:
    """The PCI address as nvidia-smi prints it, None where it prints none."""
    return word(cell) if bus_id(cell) else None
