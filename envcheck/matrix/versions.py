"""Version strings as tuples of numbers: enough for releases, drivers, CUDA and Python, and cheap to call."""

from __future__ import annotations

import re
from functools import lru_cache

_FINAL = re.compile(r"v?(\d+(?:\.\d+)*)(?:\.post\d+|-\d+)?(?:\+.*)?", re.IGNORECASE)
_LEADING = re.compile(r"\s*[vVrR]?(\d+(?:\.\d+)*)")


@lru_cache(maxsize=2048)
def numbers(text: str) -> tuple[int, ...]:
    """The leading dotted number: "535.183.01" -> (535, 183, 1), "2.8.0a0+git" -> (2, 8, 0), "none" -> ()."""
    match = _LEADING.match(text)
    return tuple(int(part) for part in match[1].split(".")) if match else ()


@lru_cache(maxsize=2048)
def key(text: str) -> tuple[int, ...]:
    """`numbers` without trailing zeros, so that "13.0" and "13" compare equal."""
    parts = numbers(text)
    while parts and parts[-1] == 0:
        parts = parts[:-1]
    return parts


def at_least(version: str, floor: str) -> bool:
    """Compares two dotted numbers; a missing part counts as zero."""
    return key(version) >= key(floor)


@lru_cache(maxsize=1024)
def final(text: str) -> str | None:
    """Public version of a final release: "2.8.0+cu128" -> "2.8.0"; None for pre-releases, nightlies and vendor builds."""
    match = _FINAL.fullmatch(text.strip())
    return match[1] if match else None


def short(cuda: str) -> str:
    """Major and minor of a longer version: "12.8.1" -> "12.8"."""
    parts = numbers(cuda)
    return ".".join(str(part) for part in (*parts, 0)[:2]) if parts else ""


def cuda_of_variant(variant: str) -> str | None:
    """ "cu128" -> "12.8", "cu92" -> "9.2", "cpu" -> None."""
    match = re.fullmatch(r"cu(\d{1,2})(\d)", variant)
    return f"{match[1]}.{match[2]}" if match else None


def variant_of_cuda(cuda: str) -> str:
    """ "12.8" and "12.8.1" -> "cu128"."""
    return "cu" + short(cuda).replace(".", "")


def capability(arch: str) -> str | None:
    """ "sm_90a", "compute_120" and "90" -> "9.0", "12.0"; None when it is not an NVIDIA architecture name."""
    match = re.fullmatch(r"(?:sm_|compute_)?(\d{1,2})(\d)[af]?", arch)
    return f"{match[1]}.{match[2]}" if match else None
