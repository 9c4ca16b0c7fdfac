"""What nvidia-smi says when it fails, as kinds."""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

from envcheck.facts import NvidiaGpu
from envcheck.lazy import Regex
from envcheck.nvidia_smi.text import clean_lines


class SmiError(NamedTuple):
    """A failure of nvidia-smi: its kind (vocabulary of `Nvidia.smi_error`), its words, and its line (from 1)."""

    kind: str
    text: str
    line: int


# Ordered: the first that matches a line wins. The words are nvidia-smi's own, Linux and Windows, R340 to R615.
_KINDS = (
    ("library-mismatch", r"driver/library version mismatch"),
    ("wsl-blocked", r"gpu access blocked by the operating system"),
    (
        "no-driver",
        r"couldn.{0,2}t communicate with (?:the )?nvidia driver|failed to initialize nvml: driver not loaded",
    ),
    ("nvml-missing", r"couldn.{0,2}t find (?:the )?(?:libnvidia-ml\.so|nvml\.dll)"),
    ("nvml-missing", r"failed to initialize nvml: (?:nvml )?(?:shared )?library not found"),
    ("insufficient-permissions", r"failed to initialize nvml: insufficient permissions"),
    ("insufficient-permissions", r"nvidia-smi has failed.*suff\w*nt perm"),  # the program misspells it
    ("nvml-unknown", r"failed to initialize nvml: unknown error"),
    ("gpu-lost", r"unable to determine the device handle for|\bgpu is lost\b"),
    ("no-devices", r"^\W*no devices were found\W*$"),
    ("other", r"failed to initialize nvml:|nvidia-smi has failed|failed to properly shut down nvml:"),
)
# In each of these messages; so a long log costs one search.
_NEEDLES = ("nvml", "nvidia-smi", "no devices were found", "the device handle", "gpu is lost")
_LONGEST_LINE = 2000


@cache
def _patterns() -> tuple[tuple[str, re.Pattern[str]], ...]:
    return tuple((kind, re.compile(pattern, re.IGNORECASE)) for kind, pattern in _KINDS)


def find_error(text: str) -> SmiError | None:
    """The first failure that nvidia-smi reports in a text, None when there is none.

    A device that could not be reached beside others that could is a "gpu-lost" too; a second line such as "NVML
    library version: 535.86" belongs to the words.
    """
    lowered = text.lower()
    if not any(needle in lowered for needle in _NEEDLES):
        return None
    lines = clean_lines(text)
    for index, line in enumerate(lines):
        if len(line) > _LONGEST_LINE or not any(needle in line.lower() for needle in _NEEDLES):
            continue
        kind = next((kind for kind, pattern in _patterns() if pattern.search(line)), None)
        if kind is None:
            continue
        words = line.strip()
        following = lines[index + 1].strip() if index + 1 < len(lines) else ""
        if following.lower().startswith("nvml library version"):
            words = f"{words}\n{following}"
        return SmiError(kind, words, index + 1)
    return None


def smi_error(text: str) -> str | None:
    """Kind of the first failure in a text, None when there is none."""
    found = find_error(text)
    return found.kind if found else None


_LIBRARY = Regex(r"NVML library version\s*:\s*(\d+(?:\.\d+)+)", re.IGNORECASE)
_LOST = Regex(
    r"Unable to determine the device handle for\s+GPU\s*(?:(\d{1,3}):\s+)?((?:[0-9A-F]{4,8}:)?[0-9A-F]{2}:[0-9A-F]{2}\.\d)?"
    r"\s*:?\s*([^.\n]+)",
    re.IGNORECASE,
)


def library_version(text: str) -> str | None:
    """Version of the NVML library as the mismatch message of newer drivers names it ("535.86": two parts only)."""
    match = _LIBRARY.search(text)
    return match.group(1) if match else None


def lost_gpus(text: str) -> tuple[NvidiaGpu, ...] | None:
    """GPUs that nvidia-smi could not reach, each with the reason; None when it names none."""
    found = []
    for match in _LOST.finditer(text) if "device handle" in text else ():
        index, address, reason = match.groups()
        found.append(NvidiaGpu(index=int(index) if index else None, bus_id=address, error=reason.strip()))
    return tuple(found) or None


# How shells say that there is no such program. The names of Windows' cmd message in other languages are recognised by
# the quoted program name at the start of the line and the absence of anything else that nvidia-smi could have said.
_NOT_FOUND = Regex(
    r"nvidia-smi(?:\.exe)?['\"’`»”]?\s*:?\s*(?:command\s+)?not\s+found"
    r"|command not found:\s*nvidia-smi|unknown command:?\s+['\"]?nvidia-smi"
    r"|command ['\"‘]nvidia-smi['\"’] not found"
    r"|nvidia-smi['\"’]?\s+is not recognized"
    r"|exec:\s+\"nvidia-smi\":|could not find (?:command )?nvidia-smi|no such file or directory:? ['\"]?nvidia-smi"
    r"|nvidia-smi: no such file or directory"
    r"|nvidia-smi\S{0,3}\s*[:：]?\s*(?:kommando nicht gefunden|befehl nicht gefunden|commande introuvable|orden no encontrada"
    r"|comando non trovato|comando não encontrado|команда не найдена|未找到命令|找不到命令|コマンドが見つかりません"
    r"|명령어를 찾을 수 없음|명령을 찾을 수 없습니다|nie znaleziono polecenia)"
    r"|^\W*['\"«„]nvidia-smi['\"»“]\s+(?:不是|不是內部|n.est pas reconnu|no se reconoce|non è riconosciuto|não é reconhecido"
    r"|не является|は、内部コマンド|은\(는\) 내부|nie jest rozpoznawana)"
    r"|der befehl\s+['\"„]nvidia-smi['\"“]",
    re.IGNORECASE | re.MULTILINE,
)


def missing_program(text: str) -> bool:
    """A shell says in this text that there is no nvidia-smi (in the languages of the usual shells)."""
    if "nvidia-smi" not in text:
        return False
    lines = (line for line in text.split("\n") if "nvidia-smi" in line and len(line) <= _LONGEST_LINE)
    return any(_NOT_FOUND.search(line) for line in lines)
