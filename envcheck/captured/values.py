"""Small readers: what a version, a yes, a driver number, an architecture or a Python banner says."""

from __future__ import annotations

import re

from envcheck.captured.document import LISTED, Document
from envcheck.lazy import Regex

VERSION = (
    r"\d{1,4}(?:\.\d{1,6}){1,4}(?:[._-]?(?:alpha|beta|rc|dev|post|pre|a|b)\d{0,10}){0,3}"
    r"(?:\+[0-9A-Za-z](?:[0-9A-Za-z._-]{0,60}[0-9A-Za-z])?)?"
)
"""A version as Python packages spell it."""
_VERSION = Regex(rf"(?<![\w.])v?({VERSION})(?![\w])")
_NUMBER = Regex(r"(?<![\w.])v?(\d{1,4}(?:\.\d{1,6}){0,4})(?![\w.]*\w)")
_LABEL_GLUED = Regex(r"^(\d[\w.]*?)[-_ ](cu\d{2,3}|cpu|rocm[\d.]+|xpu)\b")

NOTHING = frozenset(
    ("", "n/a", "na", "none", "null", "nil", "unknown", "could not collect", "not found", "not installed", "no cuda", "-", "?", "<none>",
     "not available", "unavailable", "<not set>", "not set", "no response", "_no response_", "todo", "tbd")
)  # fmt: skip
"""What stands where a value would, when there is none."""


def version(text: str) -> str | None:
    """The first version in a text: "2.2.0+cu121 (True)" -> "2.2.0+cu121"."""
    match = _VERSION.search(text)
    return match[1] if match else None


def number(text: str) -> str | None:
    """The first dotted number, a plain integer allowed."""
    match = _NUMBER.search(text)
    return match[1] if match else None


def torch_version(text: str) -> str | None:
    """A version that torch can have; "2.1.0 (cu118)" and "2.1-cu118" keep their label."""
    found = version(text)
    if found is None:
        return None
    glued = _LABEL_GLUED.match(text.strip().lstrip("v"))
    if "+" not in found and glued:
        found = f"{found}+{glued[2]}"
    return found if int(found.split(".")[0]) <= 3 else None


def boolean(text: str) -> bool | None:
    """ "True", "Yes", "yes (CUDA 12.1)" -> True."""
    word = re.match(r"\W*(true|yes|false|no|1|0|on|off|enabled|disabled)\b", text.strip(), re.IGNORECASE)
    if not word:
        return None
    return word[1].lower() in ("true", "yes", "1", "on", "enabled")


def is_nothing(text: str) -> bool:
    """The text says that there is no value."""
    return text.strip().strip("*`").lower().rstrip(".") in NOTHING


def dotted_cudnn(text: str) -> str | None:
    """torch.backends.cudnn.version(): 8907 -> "8.9.7", 90100 -> "9.1.0"; a dotted version stays."""
    match = re.fullmatch(r"\D{0,3}(\d{4,6})\D{0,3}", text.strip())
    if not match:
        return version(text)
    value = int(match[1])
    if value >= 90000:
        return f"{value // 10000}.{value // 100 % 100}.{value % 100}"
    return f"{value // 1000}.{value // 100 % 10}.{value % 100}"


def cuda_version(text: str) -> str | None:
    """ "12.1", "12.1.105", "11" -> as written; anything that CUDA cannot be -> None."""
    found = number(text)
    if found is None or not 5 <= int(found.split(".")[0]) <= 20:
        return None
    return found


def driver_version(text: str) -> str | None:
    """ "535.183.01", "546.12", "31.0.15.4601" (Windows device manager: 546.01); None for what is no driver version."""
    match = re.search(r"(?<![\w.])(\d{3})\.(\d{1,3})(?:\.(\d{1,3}))?(?![\w.])", text)
    if match:
        return match[0] if int(match[1]) <= 999 else None
    match = re.search(r"(?<![\w.])\d{2}\.\d{1,2}\.\d{2}\.(\d{4})(?![\w.])", text)
    if match:
        packed = re.search(r"\.(\d{2})\.(\d{4})", text)
        if packed:
            digits = packed[1][-1] + packed[2]
            return f"{digits[:3]}.{digits[3:]}"
    return None


def machine(text: str, os: str | None = None) -> str | None:
    """The architecture in a text, in the spelling of `Facts`."""
    match = re.search(
        r"(?<![\w])(?:(x86_64|amd64|x86-64|x64|intel64)|(aarch64|arm64|armv8)|(ppc64le)|(s390x)|(armv7l)|(i[3-6]86|x86))(?![\w])",
        text,
        re.IGNORECASE,
    )
    if not match:
        return None
    if match[1]:
        return "x86_64"
    if match[2]:
        return (
            "arm64"
            if os == "macos" or (os is None and match[2].lower() == "arm64" and "mac" in text.lower())
            else "aarch64"
        )
    return match[3] or match[4] or match[5] or ("i686" if match[6] else None)


_BANNER = Regex(
    r"(?:(?<![\w.])(?:cpython|python)?[ :=v-]{0,4})?(?<![\w.])(?P<version>[23]\.\d{1,2}(?:\.\d{1,2})?(?:(?:rc|a|b)\d+)?)(?P<free>t\b|\+freethreaded)?(?![\w.]*\d)",
    re.IGNORECASE,
)


def put_python(doc: Document, text: str, index: int, rank: int = LISTED) -> bool:
    """Reads a Python version and what stands around it: bits, maker, architecture. False when there is none."""
    match = _BANNER.search(text)
    if not match:
        return False
    doc.put("python.version", match["version"], index, rank)
    if match["free"] or "free-threading" in text:
        doc.put("python.free_threaded", True, index, rank)
    bits = re.search(r"\b(32|64)[ -]?bit", text)
    if bits:
        doc.put("python.bits", int(bits[1]), index, rank)
    if re.search(r"\b32 bit \(Intel\)", text):
        doc.put("python.bits", 32, index, rank + 1)
    if re.search(r"packaged by conda-forge|Anaconda|Continuum|\| Intel Corporation \|", text):
        doc.put("python.kind", "conda", index, rank)
    maker = re.search(r"\((AMD64|ARM64|x86_64|aarch64|arm64|Intel)\)", text)
    if maker and maker[1] != "Intel":
        mac = "clang" in text.lower() or doc.draft.first("system.os") == "macos"
        doc.put("python.machine", machine(maker[1], "macos" if mac and maker[1] == "arm64" else None), index, rank)
    if "MSC v." in text:
        doc.put("system.os", "windows", index, 0)
    elif re.search(r"\bon (linux2?|darwin|win32)\b", text):
        name = re.search(r"\bon (linux|darwin|win32)", text)
        if name:
            doc.put("system.os", {"linux": "linux", "darwin": "macos", "win32": "windows"}[name[1]], index, rank)
    return True
