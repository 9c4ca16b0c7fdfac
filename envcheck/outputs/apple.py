"""`sw_vers`, `system_profiler SPDisplaysDataType` / `SPHardwareDataType` and `ioreg` of a Mac."""

from __future__ import annotations

import re

from envcheck.facts import Apple
from envcheck.lazy import Regex

_ENTRY = Regex(r"^\W*(ProductVersion|ProductName|BuildVersion)\s*:\s*(\S.*?)\s*$", re.MULTILINE)
_CHIP = Regex(r"^\W*(?:Chipset Model|Chip)\s*:\s*(Apple\s+\S.*?)\s*(?:\(.*)?$", re.MULTILINE)
_CORES = Regex(r"Chipset Model\s*:\s*Apple[^\n]*\n(?:[^\n]*\n){0,6}?\W*Total Number of Cores\s*:\s*(\d+)")
_METAL = Regex(r"^\W*Metal(?:\s+(?:Support|Family))?\s*:\s*(\S[^\n]*)$", re.MULTILINE)
_IOREG_CORES = Regex(r"\"gpu-core-count\"\s*=\s*(\d+)")


def parse_sw_vers(text: str) -> str | None:
    """The version of macOS: "15.1"; None when the text has no such line, or it is not of a Mac."""
    found = dict(_ENTRY.findall(text))
    name = found.get("ProductName", "macOS").lower()
    if "mac" not in name:
        return None
    version = re.match(r"\d+(?:\.\d+)*", found.get("ProductVersion", ""))
    return version.group() if version else None


def parse_system_profiler(text: str) -> Apple | None:
    """Chip, GPU cores and Metal of a Mac; None when the text has none of them."""
    chip, cores, metal = _CHIP.search(text), _CORES.search(text), _METAL.search(text)
    if chip is None and metal is None:
        return None
    return Apple(
        chip=chip.group(1) if chip else None,
        gpu_cores=int(cores.group(1)) if cores else None,
        metal=not re.match(r"(?:not|no)\b|unsupported", metal.group(1), re.IGNORECASE) if metal else None,
    )


def parse_ioreg(text: str) -> int | None:
    """Cores of the GPU as `ioreg -rc AGXAccelerator` names them."""
    match = _IOREG_CORES.search(text)
    return int(match.group(1)) if match else None
