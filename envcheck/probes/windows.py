"""The operating system and the machine below it, on Windows: registry and system calls, no program is started."""

from __future__ import annotations

import ctypes
import importlib
import os
import platform
import sys
from typing import Any

from envcheck.facts import Facts, System
from envcheck.probes.host import Host

_MACHINES = {"AMD64": "x86_64", "ARM64": "aarch64", "X86": "i686"}

# PROCESSOR_FEATURE_* of winnt.h that IsProcessorFeaturePresent answers.
_FEATURES = {38: "sse4_2", 39: "avx", 40: "avx2", 41: "avx512f", 43: "asimddp"}


def probe(host: Host) -> Facts:
    """Everything that the registry and system calls tell."""
    if sys.platform != "win32":
        return Facts()
    psutil: Any = importlib.import_module("psutil")  # only here: on Linux files tell more, and sooner

    version = sys.getwindowsversion()
    build = version.build
    name = "Windows 11" if build >= 22000 and version.product_type == 1 else f"Windows {platform.release()}"
    machine = host.env.get("PROCESSOR_ARCHITEW6432") or host.env.get("PROCESSOR_ARCHITECTURE", "")
    memory = psutil.virtual_memory()
    return Facts(
        system=System(
            os="windows",
            name=name,
            version=f"{version.major}.{version.minor}.{build}",
            kernel=f"{version.major}.{version.minor}.{build}",
            machine=_MACHINES.get(machine.upper()),
            cpu_model=_text(r"HARDWARE\DESCRIPTION\System\CentralProcessor\0", "ProcessorNameString"),
            cpu_flags=_flags(),
            cores_physical=psutil.cpu_count(logical=False),
            cores_logical=psutil.cpu_count(),
            cores_usable=_affinity(psutil),
            ram=memory.total,
            ram_available=memory.available,
            rosetta=False,
            secure_boot=_flag(r"SYSTEM\CurrentControlSet\Control\SecureBoot\State", "UEFISecureBootEnabled"),
            windows_long_paths=_flag(r"SYSTEM\CurrentControlSet\Control\FileSystem", "LongPathsEnabled"),
            vc_runtime=vc_runtime(host),
        )
    )


def _affinity(psutil: Any) -> int | None:
    try:
        return len(psutil.Process().cpu_affinity())
    except (AttributeError, OSError):
        return os.cpu_count()


def _value(key: str, name: str) -> Any:
    if sys.platform != "win32":
        return None
    import winreg

    try:
        with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, key) as handle:
            return winreg.QueryValueEx(handle, name)[0]
    except OSError:
        return None


def _text(key: str, name: str) -> str | None:
    value = _value(key, name)
    return value.strip() if isinstance(value, str) else None


def _flag(key: str, name: str) -> bool | None:
    value = _value(key, name)
    return bool(value) if isinstance(value, int) else None


def _flags() -> tuple[str, ...] | None:
    if sys.platform != "win32":
        return None
    present = ctypes.windll.kernel32.IsProcessorFeaturePresent
    return tuple(name for number, name in _FEATURES.items() if present(number))


def vc_runtime(host: Host) -> str | None:
    """Version of the Visual C++ runtime; "" when one of the two files that torch needs is not there."""
    system = f"{host.env.get('SystemRoot', 'C:' + chr(92) + 'Windows')}\\System32"
    files = [f"{system}\\msvcp140.dll", f"{system}\\vcruntime140_1.dll"]
    if not all(os.path.exists(item) for item in files):
        return ""
    return _file_version(files[0])


def _file_version(path: str) -> str | None:
    """The fixed version number in a file's resources (VS_FIXEDFILEINFO)."""
    if sys.platform != "win32":
        return None
    library = ctypes.windll.version
    size = library.GetFileVersionInfoSizeW(path, None)
    if not size:
        return None
    buffer = ctypes.create_string_buffer(size)
    if not library.GetFileVersionInfoW(path, 0, size, buffer):
        return None
    value, length = ctypes.c_void_p(), ctypes.c_uint()
    if not library.VerQueryValueW(buffer, "\\", ctypes.byref(value), ctypes.byref(length)) or not value.value:
        return None
    words = ctypes.cast(value.value, ctypes.POINTER(ctypes.c_uint32))
    high, low = words[2], words[3]  # dwFileVersionMS, dwFileVersionLS
    return f"{high >> 16}.{high & 0xFFFF}.{low >> 16}"
