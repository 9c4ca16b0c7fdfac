"""Shared libraries as the dynamic loader finds them: its cache, its directories, and the versions in file names."""

from __future__ import annotations

import os
import re
import struct

from envcheck.lazy import Regex
from envcheck.probes.host import Host

_NEW = b"glibc-ld.so.cache1.1"
_OLD = b"ld.so-1.7.0"
_HEADER = struct.Struct("=20sII20x")
_ENTRY = struct.Struct("=iIIIQ")
_OLD_ENTRY = struct.Struct("=iII")

_TRIPLETS = {
    "x86_64": "x86_64-linux-gnu",
    "aarch64": "aarch64-linux-gnu",
    "ppc64le": "powerpc64le-linux-gnu",
    "s390x": "s390x-linux-gnu",
    "armv7l": "arm-linux-gnueabihf",
    "i686": "i386-linux-gnu",
}


def parse_ld_cache(data: bytes, *names: str) -> list[str]:
    """Paths of the libraries of these sonames in /etc/ld.so.cache, in the loader's order; [] for anything else.

    A file begins with the new format, or with the old one that the new one follows at the next multiple of 8.
    """
    start = 0
    if data.startswith(_OLD) and len(data) >= 16:
        (count,) = struct.unpack_from("=I", data, 12)
        start = 16 + count * _OLD_ENTRY.size
        start = (start + 7) & ~7
    if data[start : start + len(_NEW)] != _NEW or len(data) < start + _HEADER.size:
        return []
    _, count, _ = _HEADER.unpack_from(data, start)
    wanted = {name.encode() for name in names}
    found: list[str] = []
    first = start + _HEADER.size
    for position in range(first, min(first + count * _ENTRY.size, len(data) - _ENTRY.size + 1), _ENTRY.size):
        _, key, value, _, _ = _ENTRY.unpack_from(data, position)
        if _string(data, start + key) in wanted:
            path = _string(data, start + value).decode("utf-8", "backslashreplace")
            if path not in found:
                found.append(path)
    return found


def _string(data: bytes, offset: int) -> bytes:
    end = data.find(b"\0", offset)
    return data[offset:end] if 0 <= offset < len(data) and end >= 0 else b""


def library_directories(host: Host, machine: str | None) -> list[str]:
    """The loader's built-in directories, for systems whose cache is absent (musl) or out of date."""
    triplet = _TRIPLETS.get(machine or "")
    found = [f"{root}/{triplet}" for root in ("/lib", "/usr/lib") if triplet]
    return [*found, "/lib64", "/usr/lib64", "/lib", "/usr/lib", "/usr/local/lib"]


def find_library(host: Host, machine: str | None, *names: str) -> list[str]:
    """Every library of these sonames in the loader's order: LD_LIBRARY_PATH, the cache, the built-in directories.

    Directories of LD_LIBRARY_PATH are real ones even where a recorded tree stands for the machine. Each file once,
    however many links lead to it.
    """
    candidates: list[str] = []
    for directory in host.env.get("LD_LIBRARY_PATH", "").split(":"):
        if directory.startswith("/"):
            candidates += [f"{directory.rstrip('/')}/{name}" for name in names]
    real = len(candidates)
    candidates += parse_ld_cache(host.data("/etc/ld.so.cache") or b"", *names)
    candidates += [f"{directory}/{name}" for directory in library_directories(host, machine) for name in names]
    found: list[str] = []
    seen: set[str] = set()
    for position, path in enumerate(candidates):
        actual = resolve(host, path, outside=position < real)
        if actual is not None and actual not in seen:
            seen.add(actual)
            found.append(path)
    return found


def resolve(host: Host, path: str, *, outside: bool = False) -> str | None:
    """The file behind a path and its links, None when there is none. `outside`: not in the recorded tree."""
    place = path if outside else str(host.path(path))
    if not os.path.exists(place):
        return None
    actual = os.path.realpath(place)
    if not host.real and not outside:
        root = os.path.realpath(host.root)
        if actual.startswith(root + os.sep):
            return actual[len(root) :].replace(os.sep, "/")
    return actual


_VERSION = Regex(r"\.so\.(\d+(?:\.\d+)+)$")


def file_version(host: Host, path: str) -> str | None:
    """Version in the real file's name: libcuda.so.1 -> libcuda.so.535.183.01 -> "535.183.01"."""
    outside = not host.real and not host.path(path).exists()
    actual = resolve(host, path, outside=outside)
    match = _VERSION.search(actual or "")
    return match.group(1) if match else None


def newest_symbol(data: bytes, prefix: str) -> str | None:
    """The highest version of a symbol set in a library: GLIBCXX_3.4.9 < GLIBCXX_3.4.30 -> "3.4.30"."""
    found = set(re.findall(prefix.encode() + rb"_(\d+(?:\.\d+)+)\0", data))
    versions = [tuple(int(part) for part in item.split(b".")) for item in found]
    return ".".join(str(part) for part in max(versions)) if versions else None
