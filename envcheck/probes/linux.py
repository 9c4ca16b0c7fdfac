"""The operating system and the machine below it, on Linux: nearly all of it from files."""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys

from envcheck.facts import Facts, System
from envcheck.probes.elf import library_directories, newest_symbol, resolve
from envcheck.probes.host import Host
from envcheck.probes.limits import memory, parse_cpu_list, usable_cores

_MACHINES = {"amd64": "x86_64", "arm64": "aarch64", "i386": "i686", "i586": "i686", "armv8l": "armv7l"}

FLAGS = frozenset(
    {
        *("sse4_1", "sse4_2", "avx", "avx2", "f16c", "fma", "avx_vnni"),
        *("avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512_vnni", "avx512_bf16", "avx512_fp16"),
        *("amx_tile", "amx_bf16", "amx_int8"),
        *("asimd", "asimdhp", "asimddp", "sve", "sve2", "bf16", "i8mm", "vsx"),
    }
)
"""Processor flags that torch or its libraries choose code by."""

# /proc/cpuinfo of Arm names no model: (implementer, part) -> name. Numbers: Arm's MIDR registers, as lscpu knows them.
_ARM_PARTS = {
    ("0x41", "0xd07"): "Cortex-A57",
    ("0x41", "0xd08"): "Cortex-A72",
    ("0x41", "0xd0c"): "Neoverse-N1",
    ("0x41", "0xd40"): "Neoverse-V1",
    ("0x41", "0xd42"): "Cortex-A78AE",
    ("0x41", "0xd49"): "Neoverse-N2",
    ("0x41", "0xd4f"): "Neoverse-V2",
    ("0x41", "0xd83"): "Neoverse-V3AE",
    ("0x41", "0xd84"): "Neoverse-V3",
    ("0x41", "0xd85"): "Cortex-X925",
    ("0x41", "0xd87"): "Cortex-A725",
    ("0x4e", "0x003"): "Denver 2",
    ("0x4e", "0x004"): "Carmel",
    ("0xc0", "0xac3"): "Ampere-1",
    ("0xc0", "0xac4"): "Ampere-1a",
}


def machine(host: Host) -> str | None:
    """Architecture of the kernel, normalised."""
    found = (host.text("/proc/sys/kernel/arch") or "").strip() or (platform.machine() if host.real else "")
    return _MACHINES.get(found.lower(), found) or None


def probe(host: Host) -> Facts:
    """Everything that files tell at once."""
    release = parse_os_release(host.text("/etc/os-release") or host.text("/usr/lib/os-release") or "")
    kernel = (host.text("/proc/sys/kernel/osrelease") or "").strip() or None
    architecture = machine(host)
    cpu = parse_cpuinfo(host.head("/proc/cpuinfo"))
    kind, version = libc(host, architecture, release.get("ID"))
    room = memory(host)
    soft, hard = open_files(host)
    return Facts(
        system=System(
            os="linux",
            name=release.get("PRETTY_NAME"),
            distro=release.get("ID"),
            version=release.get("VERSION_ID"),
            kernel=kernel,
            machine=architecture,
            libc=kind,
            libc_version=version,
            glibcxx_max=glibcxx(host, architecture),
            cpu_model=cpu[0],
            cpu_flags=cpu[1],
            cores_physical=physical_cores(host),
            cores_logical=logical_cores(host),
            cores_usable=usable_cores(host),
            ram=room.total,
            ram_available=room.available,
            open_files_soft=soft,
            open_files_hard=hard,
            rosetta=False,
            selinux=selinux(host),
            seccomp=seccomp(host),
            secure_boot=secure_boot(host),
        )
    )


def parse_os_release(text: str) -> dict[str, str]:
    """os-release as a dictionary, quotes removed."""
    found = {}
    for line in text.splitlines():
        name, separator, value = line.partition("=")
        if separator and not line.lstrip().startswith("#"):
            found[name.strip()] = value.strip().strip("\"'")
    return {name: value for name, value in found.items() if value}


def parse_cpuinfo(text: str) -> tuple[str | None, tuple[str, ...] | None]:
    """Model and flags from the beginning of /proc/cpuinfo (the first processor is enough)."""
    entries: dict[str, str] = {}
    for line in text.splitlines():
        name, separator, value = line.partition(":")
        if separator:
            entries.setdefault(name.strip(), value.strip())
    model = entries.get("model name") or entries.get("cpu") or entries.get("Model")
    if not model and "CPU part" in entries:
        part = (entries.get("CPU implementer", ""), entries["CPU part"])
        model = _ARM_PARTS.get(part, f"Arm implementer {part[0]} part {part[1]}")
    flags = entries.get("flags") or entries.get("Features")
    known = None if flags is None else tuple(flag for flag in flags.split() if flag in FLAGS)
    return model or None, known


def libc(host: Host, architecture: str | None, distro: str | None) -> tuple[str | None, str | None]:
    """Kind and version of the system's C library (the interpreter may carry another one)."""
    directories = library_directories(host, architecture)
    musl = next((name for name in host.glob("/lib/ld-musl-*.so.1")), None)
    file = next((f"{d}/libc.so.6" for d in directories if host.exists(f"{d}/libc.so.6")), None)
    if musl and (file is None or distro == "alpine"):
        return "musl", _musl_version(host, musl)
    if file is None:
        return None, None
    version = _confstr_version(host)
    if version is None:
        data = host.data(file) or b""
        found = re.search(rb"GNU C Library [^\n]*? version (\d+\.\d+(?:\.\d+)?)", data)
        version = found.group(1).decode() if found else None
    if version is None:  # up to 2.33 the real file bears the version
        named = re.search(r"libc-(\d+\.\d+)\.so$", resolve(host, file) or "")
        version = named.group(1) if named else None
    return "glibc", version


def _confstr_version(host: Host) -> str | None:
    if not host.real:
        return None
    try:
        text = os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (AttributeError, ValueError, OSError):
        return None  # this Python is linked to another C library
    return text.split()[-1] if text.startswith("glibc ") else None


def _musl_version(host: Host, loader: str) -> str | None:
    """The loader of musl tells its version when it is started without arguments; a recorded tree has Alpine's package list."""
    listed = re.search(r"^P:musl\nV:(\d+\.\d+\.\d+)", host.text("/lib/apk/db/installed") or "", re.MULTILINE)
    if listed:
        return listed.group(1)
    if not host.real:
        return None
    done = host.run([loader], timeout=host.timeout)
    match = re.search(r"Version (\d+\.\d+\.\d+)", done.stderr + done.stdout)
    return match.group(1) if match else None


def glibcxx(host: Host, architecture: str | None) -> str | None:
    """Newest GLIBCXX version of the system's libstdc++."""
    for directory in library_directories(host, architecture):
        name = f"{directory}/libstdc++.so.6"
        data = host.data(name)
        if data is not None:
            newest = newest_symbol(data, "GLIBCXX")
            # libstdc++.so.6.0.30 brings GLIBCXX_3.4.30, in every GCC since 3.4.
            named = re.search(r"libstdc\+\+\.so\.6\.0\.(\d+)$", resolve(host, name) or "")
            return newest or (f"3.4.{named.group(1)}" if named else None)
    return None


def physical_cores(host: Host) -> int | None:
    """Cores without their hardware threads."""
    cores = set()
    for name in host.glob("/sys/devices/system/cpu/cpu[0-9]*/topology"):
        siblings = host.text(f"{name}/core_cpus_list") or host.text(f"{name}/thread_siblings_list")
        if siblings:
            cores.add(siblings.strip())
    return len(cores) or None


def logical_cores(host: Host) -> int | None:
    """Processors that are online."""
    online = host.text("/sys/devices/system/cpu/online")
    if online:
        return parse_cpu_list(online) or None
    return (host.text("/proc/cpuinfo") or "").count("\nprocessor") + 1 if host.head("/proc/cpuinfo", 64) else None


def open_files(host: Host) -> tuple[int | None, int | None]:
    """Soft and hard limit of open files of this process (-1 = unlimited)."""
    for line in (host.text("/proc/self/limits") or "").splitlines():
        if line.startswith("Max open files"):
            cells = [-1 if cell == "unlimited" else int(cell) for cell in line.split()[3:5]]
            return cells[0], cells[1]
    return None, None


def selinux(host: Host) -> str | None:
    """Mode of SELinux; "disabled" where the kernel has none."""
    enforce = (host.text("/sys/fs/selinux/enforce") or "").strip()
    if enforce:
        return "enforcing" if enforce == "1" else "permissive"
    return "disabled" if host.exists("/sys/fs/selinux/enforce") is False else None


def seccomp(host: Host) -> int | None:
    """Mode of the system call filter of this process."""
    match = re.search(r"^Seccomp:\s*(\d)", host.text("/proc/self/status") or "", re.MULTILINE)
    return int(match.group(1)) if match else None


_SECURE_BOOT = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"


def secure_boot(host: Host) -> bool | None:
    """State of Secure Boot: four bytes of attributes, then the value. Without EFI there is none."""
    data = host.data(_SECURE_BOOT)
    if data is not None:
        return data[4] == 1 if len(data) >= 5 else None
    if host.exists("/sys/firmware") and host.exists("/sys/firmware/efi") is False and not host.exists("/.dockerenv"):
        return False
    return None


def space(host: Host) -> Facts:
    """Free space where it matters. Of its own, because a dead network file system hangs whoever asks it."""
    if not host.real:
        return Facts(system=System(shm_size=_mounted_size(host, "/dev/shm")))  # noqa: S108
    shm = _usage("/dev/shm")  # noqa: S108
    disk, tmp = _usage(host.prefix or sys.prefix), _usage(host.env.get("TMPDIR") or "/tmp")  # noqa: S108
    return Facts(
        system=System(
            shm_size=shm[0] if shm else None,
            shm_free=shm[1] if shm else None,
            disk_free=disk[1] if disk else None,
            tmp_free=tmp[1] if tmp else None,
        )
    )


def _usage(path: str) -> tuple[int, int] | None:
    try:
        found = shutil.disk_usage(path)
    except OSError:
        return None
    return found.total, found.free


_UNITS = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}


def _mounted_size(host: Host, place: str) -> int | None:
    """The size option of a mounted tmpfs, as /proc/mounts records it."""
    for line in (host.text("/proc/self/mounts") or host.text("/proc/mounts") or "").splitlines():
        cells = line.split()
        if len(cells) > 3 and cells[1] == place:
            match = re.search(r"(?:^|,)size=(\d+)([kmg]?)", cells[3])
            return int(match.group(1)) * _UNITS[match.group(2)] if match else None
    return None
