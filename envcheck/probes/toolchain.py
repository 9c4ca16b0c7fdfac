"""CUDA toolkits and cuDNN on disk: needed to build extensions, not to run torch."""

from __future__ import annotations

import json
import os
import re

from envcheck.facts import CudaToolkit, Facts, Toolchain
from envcheck.lazy import Regex
from envcheck.probes.compilers import which
from envcheck.probes.elf import library_directories
from envcheck.probes.host import Host
from envcheck.probes.linux import machine

_RELEASE = Regex(r"release (\d+\.\d+), V(\d+\.\d+\.\d+)")
_CUDA_H = Regex(r"^#define\s+CUDA_VERSION\s+(\d+)", re.MULTILINE)
_WINDOWS = r"C:\Program Files\NVIDIA GPU Computing Toolkit\CUDA"


def probe(host: Host) -> Facts:
    """Every toolkit, the nvcc that a build would take, and cuDNN outside of the Python environment."""
    nvcc = which(host, "nvcc")
    home = cuda_home(host, nvcc)
    roots = toolkit_roots(host, home, nvcc)
    first = owner(nvcc, roots)
    toolkits = [
        CudaToolkit(
            path=root, version=toolkit_version(host, root), has_nvcc=_has_nvcc(host, root), on_path=root == first
        )
        for root in roots
    ]
    return Facts(
        toolchain=Toolchain(
            cuda_toolkits=tuple(toolkits),
            nvcc_version=nvcc_version(host, nvcc, home),
            cuda_home=home,
            cudnn_system=cudnn_versions(host, roots),
        )
    )


def cuda_home(host: Host, nvcc: str | None) -> str | None:
    """Where torch's extension builder would look: CUDA_HOME, CUDA_PATH, the nvcc on PATH, then the usual place."""
    named = host.env.get("CUDA_HOME") or host.env.get("CUDA_PATH")
    if named:
        return named
    if nvcc is not None:
        return os.path.dirname(os.path.dirname(nvcc))
    if host.platform == "win32":
        found = _windows_roots()
        return found[-1] if found else None
    return "/usr/local/cuda" if host.exists("/usr/local/cuda") else None


def _windows_roots() -> list[str]:
    try:
        names = [name for name in os.listdir(_WINDOWS) if re.match(r"v\d+\.\d+$", name)]
    except OSError:
        return []
    return [f"{_WINDOWS}\\{name}" for name in sorted(names, key=lambda item: [int(p) for p in item[1:].split(".")])]


def toolkit_roots(host: Host, home: str | None, nvcc: str | None) -> list[str]:
    """Directories of toolkits, each once; a link such as /usr/local/cuda counts as what it leads to."""
    candidates = _windows_roots() if host.platform == "win32" else host.glob("/usr/local/cuda-*")
    candidates += host.glob("/opt/cuda") + host.glob("/opt/nvidia/hpc_sdk/*/*/cuda") + host.glob("/usr/local/cuda")
    if home:
        candidates.append(home)
    if nvcc:
        candidates.append(os.path.dirname(os.path.dirname(os.path.realpath(nvcc))))
    found: dict[str, str] = {}
    for path in candidates:
        actual = os.path.realpath(place(host, path))
        if os.path.isdir(actual) and _is_toolkit(actual):
            found.setdefault(actual, path)
    return list(found.values())


def place(host: Host, path: str) -> str:
    """Where a directory really lies: paths of the environment are real ones even beside a recorded tree."""
    inside = str(host.path(path))
    return inside if os.path.exists(inside) else path


def _is_toolkit(path: str) -> bool:
    if path in ("/usr", "/usr/local", "/"):  # a distribution's own nvcc: no directory of a toolkit
        return False
    marks = ("version.json", "version.txt", "bin/nvcc", "bin/nvcc.exe", "include/cuda.h", "lib64/libcudart.so")
    return any(os.path.exists(os.path.join(path, mark)) for mark in marks)


def _has_nvcc(host: Host, root: str) -> bool:
    return any(os.path.exists(os.path.join(place(host, root), "bin", name)) for name in ("nvcc", "nvcc.exe"))


def owner(nvcc: str | None, roots: list[str]) -> str | None:
    """The toolkit that the nvcc on PATH belongs to."""
    if nvcc is None:
        return None
    actual = os.path.realpath(nvcc)
    for root in roots:
        if actual.startswith(os.path.realpath(root) + os.sep):
            return root
    return None


def _read(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8", errors="backslashreplace") as file:
            return file.read(1 << 20)
    except OSError:
        return None


def toolkit_version(host: Host, root: str) -> str | None:
    """Version of a toolkit from the files that it carries for that purpose, else from its header."""
    base = place(host, root)
    told = parse_version_json(_read(os.path.join(base, "version.json")) or "")
    if told is None:
        told = parse_version_txt(_read(os.path.join(base, "version.txt")) or "")
    if told is None:
        told = parse_cuda_h(_read(os.path.join(base, "include", "cuda.h")) or "")
    if told is None:
        named = re.search(r"(?:cuda-|[\\/]v)(\d+\.\d+)$", os.path.realpath(base))
        told = named.group(1) if named else None
    return told


def parse_version_json(text: str) -> str | None:
    """version.json (CUDA 11.1 and later): the nvcc's own version where it is named, else the toolkit's."""
    try:
        document = json.loads(text)
        for name in ("cuda_nvcc", "cuda"):
            version = document.get(name, {}).get("version")
            if version:
                return str(version)
    except (ValueError, AttributeError):
        pass
    return None


def parse_version_txt(text: str) -> str | None:
    """version.txt (up to CUDA 11.0): "CUDA Version 10.2.89"."""
    match = re.search(r"CUDA Version (\d+\.\d+(?:\.\d+)?)", text)
    return match.group(1) if match else None


def parse_cuda_h(text: str) -> str | None:
    """cuda.h: "#define CUDA_VERSION 13000" -> "13.0"."""
    match = _CUDA_H.search(text)
    return f"{int(match.group(1)) // 1000}.{int(match.group(1)) % 1000 // 10}" if match else None


def parse_nvcc(text: str) -> str | None:
    """`nvcc --version`: "release 12.4, V12.4.131" -> "12.4.131"."""
    match = _RELEASE.search(text)
    if match:
        return match.group(2)
    short = re.search(r"release (\d+\.\d+)", text)
    return short.group(1) if short else None


def nvcc_version(host: Host, nvcc: str | None, home: str | None) -> str | None:
    """Version of the nvcc that a build would take, from its toolkit's files where they say it; "" without one."""
    if home and place(host, home) and os.path.exists(os.path.join(place(host, home), "bin", "nvcc")):
        nvcc = os.path.join(place(host, home), "bin", "nvcc")
    if nvcc is None:
        return ""
    root = os.path.dirname(os.path.dirname(os.path.realpath(nvcc)))
    told = parse_version_json(_read(os.path.join(root, "version.json")) or "")
    if told is None:
        told = parse_version_txt(_read(os.path.join(root, "version.txt")) or "")
    if told is not None:
        return told
    done = host.run([nvcc, "--version"], timeout=host.timeout)
    return parse_nvcc(done.stdout) if done.ok else None


_CUDNN = Regex(r"^#define\s+CUDNN_(MAJOR|MINOR|PATCHLEVEL)\s+(\d+)", re.MULTILINE)
_CUDNN_FILE = Regex(r"^libcudnn\.so\.(\d+\.\d+\.\d+)$")


def parse_cudnn_header(text: str) -> str | None:
    """cudnn_version.h (or cudnn.h before 8): three numbers."""
    parts = dict(_CUDNN.findall(text))
    return f"{parts['MAJOR']}.{parts['MINOR']}.{parts['PATCHLEVEL']}" if len(parts) == 3 else None


def cudnn_versions(host: Host, roots: list[str]) -> tuple[str, ...]:
    """Versions of cuDNN in the system's directories and in the toolkits, by library name, else by header."""
    found: set[str] = set()
    directories = [str(host.path(item)) for item in library_directories(host, machine(host))]
    directories += [os.path.join(place(host, root), "lib64") for root in roots]
    for directory in directories:
        try:
            entries = os.listdir(directory) if os.path.isdir(directory) else []
        except OSError:
            continue
        found.update(match.group(1) for match in map(_CUDNN_FILE.match, entries) if match)
    if not found:
        for directory in (
            "/usr/include",
            *host.glob("/usr/include/*-linux-gnu"),
            *(f"{root}/include" for root in roots),
        ):
            for name in ("cudnn_version.h", "cudnn.h"):
                version = parse_cudnn_header(_read(os.path.join(place(host, directory), name)) or "")
                if version:
                    found.add(version)
                    break
    return tuple(sorted(found, key=lambda item: [int(part) for part in item.split(".")]))
