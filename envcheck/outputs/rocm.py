"""`rocminfo`, `rocm-smi` and `amd-smi` (plain, static, list, version)."""

from __future__ import annotations

import re
from typing import Any

from envcheck.facts import Amd, AmdGpu
from envcheck.lazy import Regex
from envcheck.nvidia_smi.text import clean_lines
from envcheck.nvidia_smi.units import size, word

_AGENT = Regex(r"^\W*Agent\s+\d+\W*$")
_ENTRY = Regex(r"^\s*([A-Za-z][\w ()./-]*?)\s*:\s*(.*?)\s*$")
_GFX = Regex(r"\bgfx[0-9a-f]{3,5}\b")
_KFD = Regex(r"Unable to open /dev/kfd read-write:\s*(.+)", re.IGNORECASE)
_NOT_LOADED = Regex(r"ROCk module is NOT loaded|Driver not initialized \(amdgpu not found", re.IGNORECASE)
_SMI_ROW = Regex(r"^\W*GPU\[(\d+)\]\s*:\s*([^:]+?)\s*:\s*(.*?)\s*$")
_AMD_TABLE = Regex(r"^[\s|]*[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.\d\s+(\S.*?)\s*\|", re.IGNORECASE)
_AMD_MEMORY = Regex(r"\b(\d+)/(\d+)\s+MB\b")
_VERSION = Regex(r"ROCm version:\s*(\d[\w.]*)", re.IGNORECASE)
_AMDGPU = Regex(r"amdgpu version:\s*(\d[\w.]*)", re.IGNORECASE)


def parse_rocm(text: str) -> Amd | None:
    """Whatever ROCm's tools printed into a text; None when there is none of it."""
    gpus = parse_rocminfo(text) or parse_amd_smi(text) or parse_rocm_smi(text)
    error = kfd_error(text)
    version, driver = _VERSION.search(text), _AMDGPU.search(text)
    if gpus is None and error is None and version is None and driver is None:
        return None
    return Amd(
        gpus=gpus,
        kfd_error=error,
        rocm_version=version.group(1) if version else None,
        amdgpu_version=driver.group(1) if driver else None,
    )


def kfd_error(text: str) -> str | None:
    """Why rocminfo could not use /dev/kfd: the system's words, or that the kernel module is not loaded."""
    match = _KFD.search(text)
    if match:
        return match.group(1).strip()
    return "kernel module not loaded" if _NOT_LOADED.search(text) else None


def parse_rocminfo(text: str) -> tuple[AmdGpu, ...] | None:
    """The GPU agents of rocminfo, None when no agent is listed, () when all of them are processors."""
    if "Agent" not in text and "Device Type" not in text:
        return None
    agents: list[dict[str, str]] = []
    pool = ""
    for line in clean_lines(text):
        if _AGENT.match(line):
            agents.append({})
            continue
        match = _ENTRY.match(line)
        if match is None or not agents:
            continue
        name, value = match.groups()
        if name == "Segment":
            pool = value
        elif name == "Size" and "COARSE" in pool and "GLOBAL" in pool:
            agents[-1].setdefault("memory", value)
            pool = ""
        else:
            agents[-1].setdefault(name, value)  # later entries of an agent are those of its ISA
    if not agents:
        return None
    return tuple(
        AmdGpu(
            name=word(agent.get("Marketing Name")), gfx=_gfx(agent.get("Name")), memory_total=_pool(agent.get("memory"))
        )
        for agent in agents
        if agent.get("Device Type") == "GPU" or ("Device Type" not in agent and _gfx(agent.get("Name")))
    )


def _gfx(name: str | None) -> str | None:
    match = _GFX.search(name or "")
    return match.group() if match else None


def _pool(cell: str | None) -> int | None:
    # "24144080(0x17068d0) KB"
    match = re.match(r"(\d+)\s*(?:\(0x[0-9a-fA-F]+\))?\s*KB", cell or "")
    return int(match.group(1)) * 1024 if match else None


def parse_rocm_smi(text: str) -> tuple[AmdGpu, ...] | None:
    """The cards of `rocm-smi --showproductname --showmeminfo vram` (or -a), None when no line names one."""
    cards: dict[int, dict[str, Any]] = {}
    for line in clean_lines(text):
        match = _SMI_ROW.match(line)
        if match is None:
            continue
        index, name, value = int(match.group(1)), match.group(2).lower(), match.group(3)
        card = cards.setdefault(index, {})
        if name in ("card series", "device name", "card model") and not re.fullmatch(r"0x[0-9a-f]+", value):
            card.setdefault("name", word(value))
        elif name == "gfx version":
            card["gfx"] = _gfx(value)
        elif name == "vram total memory (b)" and value.isdigit():
            card["memory_total"] = int(value)
    named = [cards[index] for index in sorted(cards) if cards[index]]
    return tuple(AmdGpu(**card) for card in named) if named else None


def parse_amd_smi(text: str) -> tuple[AmdGpu, ...] | None:
    """The cards of `amd-smi static` or of its plain screen, None when there is none."""
    if "MARKET_NAME" in text or "TARGET_GRAPHICS_VERSION" in text:
        return _amd_static(text)
    if "AMD-SMI" not in text:
        return None
    cards: list[dict[str, Any]] = []
    for line in clean_lines(text):
        row = _AMD_TABLE.match(line)
        if row:
            name = row.group(1)
            # Without a name the table shows the PCI device id, and long names lose their beginning.
            cards.append({"name": None if re.fullmatch(r"0x[0-9a-f]+", name) else name.lstrip(". ") or None})
            continue
        memory = _AMD_MEMORY.search(line)
        if memory and cards:
            cards[-1].setdefault("memory_total", size(memory.group(2)))
    return tuple(AmdGpu(**card) for card in cards) if cards else None


def _amd_static(text: str) -> tuple[AmdGpu, ...] | None:
    cards: list[dict[str, Any]] = []
    section = ""
    for line in clean_lines(text):
        if re.match(r"^\s*GPU:\s*\d+\s*$", line):
            cards.append({})
            continue
        match = _ENTRY.match(line)
        if match is None:
            continue
        name, value = match.groups()
        if not value:
            section = name
        if name == "MARKET_NAME":
            if not cards or "name" in cards[-1]:
                cards.append({})
            cards[-1]["name"] = word(value)
        elif name == "TARGET_GRAPHICS_VERSION" and cards:
            cards[-1]["gfx"] = _gfx(value)
        elif name == "SIZE" and section == "VRAM" and cards:
            cards[-1]["memory_total"] = size(value)
    found = tuple(AmdGpu(**card) for card in cards if card)
    return found or None
