"""Readings that mean something only beside others: one operating system, one Python, one build out of many lines."""

from __future__ import annotations

import re
from typing import Any

from envcheck.captured.document import Value


def renamed(value: Value, field: str, new: Any = None) -> Value:
    """The same reading as another field, with another value if one is given."""
    return Value(field, value.value if new is None else new, value.source, value.line, value.text, value.rank)


def settle(chosen: dict[str, Value], values: dict[str, list[Value]]) -> None:
    """Readings that mean something only beside others."""
    known = "torch.version" in chosen
    for field in ("torch.cuda", "torch.hip"):
        said = chosen.pop(f"{field}?", None)
        if said is None or field in chosen or not known:
            continue
        if said.value == "":
            chosen[field] = renamed(said, field)
        elif "torch.hip" in chosen:
            chosen[field] = renamed(said, field, "")
    if "torch.cuda" not in chosen and "torch.hip" in chosen and chosen["torch.hip"].value:
        chosen["torch.cuda"] = renamed(chosen["torch.hip"], "torch.cuda", "")
    if known and "torch.imports" in chosen and chosen["torch.imports"].rank == 0:
        del chosen["torch.imports"]  # another block of the report shows a torch that was imported
    wsl = chosen.get("system.wsl")
    if wsl is not None and wsl.value and chosen.get("system.os") is not None and chosen["system.os"].value == "windows":
        # The Windows around it was described too; what runs is Linux.
        chosen["system.os"] = renamed(wsl, "system.os", "linux")
        for field in ("system.name", "system.version"):
            if field in chosen and re.match(r"Windows|10\.0", str(chosen[field].value)):
                other = next((v for v in values.get(field, []) if not re.match(r"Windows|10\.0", str(v.value))), None)
                if other is None:
                    del chosen[field]
                else:
                    chosen[field] = other
    _one_system(chosen, values)
    _libc(chosen)
    _rosetta(chosen)


def _one_system(chosen: dict[str, Value], values: dict[str, list[Value]]) -> None:
    """Name, distribution and version have to belong to the operating system that was chosen."""
    os = chosen["system.os"].value if "system.os" in chosen else None
    if os in ("windows", "macos"):
        for field in ("system.distro", "system.libc", "system.libc_version", "system.kernel"):
            if field in chosen and not (field == "system.kernel" and os == "macos"):
                del chosen[field]
    name = chosen.get("system.name")
    if name is not None and os is not None:
        fits = {"windows": r"Windows", "macos": r"macOS|Mac|OS X|Darwin"}.get(os, r"(?!Windows|macOS)")
        if not re.match(fits, str(name.value)):
            other = next((v for v in values["system.name"] if re.match(fits, str(v.value))), None)
            if other is None:
                del chosen["system.name"]
            else:
                chosen["system.name"] = other
    machine = chosen.get("system.machine")
    if machine is not None:
        if os == "macos" and machine.value == "aarch64":
            chosen["system.machine"] = renamed(machine, "system.machine", "arm64")
        elif os == "linux" and machine.value == "arm64":
            chosen["system.machine"] = renamed(machine, "system.machine", "aarch64")
    if os is not None and os != "macos":
        for field in ("apple.macos", "apple.chip"):
            chosen.pop(field, None)


def _libc(chosen: dict[str, Value]) -> None:
    """Up to Python 3.8 `platform.platform()` names the glibc that the interpreter's file asks for, not the system's."""
    value = chosen.get("system.libc_version")
    if value is None or value.rank > 0:
        return
    python = chosen.get("python.version")
    minor = re.match(r"3\.(\d+)", str(python.value)) if python is not None else None
    if not (minor and int(minor[1]) >= 9) and value.value in ("2.2.5", "2.3.4", "2.5", "2.9", "2.10", "2.12", "2.17"):
        del chosen["system.libc_version"]


def _rosetta(chosen: dict[str, Value]) -> None:
    python, chip = chosen.get("python.machine"), chosen.get("apple.chip")
    system = chosen.get("system.machine")
    arm = chip is not None and str(chip.value).startswith("Apple M")
    if arm and system is not None and system.value == "x86_64":
        # What an x86_64 interpreter says of the machine under Rosetta.
        chosen.setdefault("python.machine", renamed(system, "python.machine"))
        python = chosen["python.machine"]
        chosen["system.machine"] = renamed(system, "system.machine", "arm64")
        system = chosen["system.machine"]
    if python is not None and python.value == "x86_64" and (arm or (system is not None and system.value == "arm64")):
        chosen.setdefault("system.rosetta", renamed(python, "system.rosetta", True))
