"""What the system's package manager installed of drivers and GPU runtimes, read from its own files."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable

from envcheck.facts import Facts, Nvidia
from envcheck.lazy import Regex
from envcheck.probes.container import container
from envcheck.probes.host import Host

_DPKG = "/var/lib/dpkg/status"
_DPKG_LIMIT = 64 * 1024 * 1024
_RPM_DIRECTORIES = ("/var/lib/rpm", "/usr/lib/sysimage/rpm", "/usr/share/rpm")
_PACMAN = "/var/lib/pacman/local"

_OURS = Regex(
    r"^(?:(?:lib|xserver-xorg-video-|xorg-x11-drv-|linux-(?:modules|objects|signatures)-|kmod-|akmod-|dkms-)?nvidia[\w.+-]*"
    r"|cuda-drivers[\w.+-]*|cuda-compat[\w.+-]*|libcuda1[\w.+-]*|rocm-(?:core|hip|dev|smi-lib)[\w.+-]*|amdgpu(?:-dkms|-core)"
    r"|libze[\w.+-]*|level-zero[\w.+-]*|intel-level-zero-gpu[\w.+-]*|intel-opencl-icd|intel-compute-runtime)$"
)
# cuda-compat is left out: it is meant to be of another version than the driver, and shows as a copy of libcuda.
_DRIVER = Regex(
    r"^(?:nvidia-(?:driver|utils|dkms|kernel|open|compute|headless|fabricmanager|firmware|l4t-core|persistenced|smi|settings"
    r"|legacy|\d{3})[\w.+-]*|libnvidia-(?:compute|ml|cfg|common|gl|decode|encode|fbc|extra|nscq)[\w.+-]*|nvidia$"
    r"|linux-(?:modules|objects|signatures)-nvidia[\w.+-]*|(?:kmod|akmod|dkms)-nvidia[\w.+-]*|xorg-x11-drv-nvidia[\w.+-]*"
    r"|xserver-xorg-video-nvidia[\w.+-]*|cuda-drivers[\w.+-]*|libcuda1[\w.+-]*)$"
)


def probe(host: Host) -> Facts:
    """NVIDIA's driver packages and the container toolkit."""
    found = installed(host)
    if found is None:
        return Facts()
    drivers = tuple(f"{name} {version}" for name, version in found if _DRIVER.match(name))
    return Facts(nvidia=Nvidia(driver_packages=drivers, container_toolkit=toolkit(host, found)))


def toolkit(host: Host, found: list[tuple[str, str]]) -> str | None:
    """Version of the NVIDIA container toolkit; "" where it is not installed.

    None inside of a container: the one that counts is the host's.
    """
    for wanted in (
        "nvidia-container-toolkit",
        "nvidia-container-toolkit-base",
        "nvidia-docker2",
        "nvidia-container-runtime",
    ):
        for name, version in found:
            if name == wanted:
                return version
    for program in ("/usr/bin/nvidia-ctk", "/usr/bin/nvidia-container-cli", "/usr/local/bin/nvidia-ctk"):
        if host.exists(program):
            return None  # it is there, its version is not known
    return "" if container(host) == "none" else None


def installed(host: Host) -> list[tuple[str, str]] | None:
    """(name, version) of the packages that matter, None where no known package manager keeps its list."""
    status = host.text(_DPKG, _DPKG_LIMIT)
    if status:
        return parse_dpkg(status)
    if host.exists(_PACMAN):
        return parse_pacman(item.rsplit("/", 1)[1] for item in host.glob(f"{_PACMAN}/*nvidia*"))
    if any(host.exists(item) for item in _RPM_DIRECTORIES):
        return _rpm(host)
    return None


def parse_dpkg(status: str) -> list[tuple[str, str]]:
    """Installed packages of ours in the text of dpkg's status file."""
    found = []
    # Thousands of records, a handful of ours: look for their names first.
    for match in re.finditer(
        r"^Package: (\S*(?:nvidia|cuda|rocm|amdgpu|libze|level-zero|intel-)\S*)$", status, re.MULTILINE
    ):
        name = match.group(1)
        if not _OURS.match(name):
            continue
        end = status.find("\n\n", match.end())
        record = status[match.end() : end if end >= 0 else None]
        version = re.search(r"^Version: (\S+)", record, re.MULTILINE)
        state = re.search(r"^Status: .*\binstalled$", record, re.MULTILINE)
        if version and state:
            found.append((name, version.group(1)))
    return sorted(found)


def parse_pacman(entries: Iterable[str]) -> list[tuple[str, str]]:
    """Directories such as "nvidia-open-dkms-610.43.02-3" as name and version."""
    found = []
    for entry in entries:
        match = re.match(r"^(.+)-([^-]+-[^-]+)$", entry)
        if match and _OURS.match(match.group(1)):
            found.append((match.group(1), match.group(2)))
    return sorted(found)


def _rpm(host: Host) -> list[tuple[str, str]] | None:
    program = shutil.which("rpm", path=host.env.get("PATH"))
    if program is None or not host.real:
        return None
    names = ("*nvidia*", "cuda-drivers*", "cuda-compat*", "rocm-core*", "level-zero*", "libze*", "intel-level-zero*")
    done = host.run([program, "-qa", "--qf", "%{NAME} %{VERSION}-%{RELEASE}\\n", *names], timeout=host.timeout)
    return parse_rpm(done.stdout) if done.ok else None


def parse_rpm(text: str) -> list[tuple[str, str]]:
    """Lines of "name version"."""
    cells = [line.split() for line in text.splitlines()]
    return sorted((item[0], item[1]) for item in cells if len(item) == 2 and _OURS.match(item[0]))
