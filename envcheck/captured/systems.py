"""Which operating system a text names: distributions, Windows, macOS, WSL, and `platform.platform()`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from envcheck.captured.document import LISTED, Document
from envcheck.captured.values import machine
from envcheck.lazy import Regex


@dataclass
class OsText:
    """What a text says about the operating system."""

    os: str
    name: str | None = None
    distro: str | None = None
    version: str | None = None
    kernel: str | None = None
    machine: str | None = None
    libc: str | None = None
    libc_version: str | None = None
    wsl: int | None = None
    end: int = 0
    """Where the match ended in the text."""
    start: int = 0


_DISTROS: tuple[tuple[str, str], ...] = (
    (r"[KXL]?ubuntu(?: mate| server| desktop| linux)?", "ubuntu"),
    (r"linux ?mint", "linuxmint"),
    (r"debian(?: gnu/linux| linux)?", "debian"),
    (r"centos(?: linux| stream)?(?: release)?", "centos"),
    (r"(?:red ?hat enterprise linux|rhel)(?: server| workstation)?(?: release)?", "rhel"),
    (r"rocky(?: linux)?(?: release)?", "rocky"),
    (r"alma ?linux(?: release)?", "almalinux"),
    (r"oracle linux(?: server)?(?: release)?", "ol"),
    (r"scientific linux(?: release)?", "scientific"),
    (r"fedora(?: linux| release| workstation| server| silverblue| core)?", "fedora"),
    (r"opensuse(?: leap| tumbleweed)?|tumbleweed", "opensuse"),
    (r"(?:suse linux enterprise(?: server)?|sles)", "sles"),
    (r"arch ?linux|arch (?=\(|$)|archlinux", "arch"),
    (r"manjaro(?: linux)?", "manjaro"),
    (r"endeavouros", "endeavouros"),
    (r"cachyos(?: linux)?", "cachyos"),
    (r"pop!?_?os!?", "pop"),
    (r"amazon linux(?: release| ami)?", "amzn"),
    (r"alpine(?: linux)?", "alpine"),
    (r"gentoo(?: linux| base system release)?", "gentoo"),
    (r"nixos", "nixos"),
    (r"void linux", "void"),
    (r"kali(?: gnu/linux| linux)?", "kali"),
    (r"raspbian(?: gnu/linux)?|raspberry pi os", "raspbian"),
    (r"(?:cbl-)?mariner|azure linux", "azurelinux"),
    (r"openeuler|euleros", "openeuler"),
    (r"kylin(?: linux| server)?", "kylin"),
    (r"uos|uniontech os|deepin", "deepin"),
    (r"anolis os|alibaba cloud linux|alinux", "anolis"),
    (r"tencentos(?: server)?|tlinux", "tencentos"),
    (r"zorin(?: os)?", "zorin"),
    (r"elementary os", "elementary"),
    (r"nobara(?: linux)?", "nobara"),
    (r"bazzite|bluefin|garuda(?: linux)?|artix(?: linux)?|slackware|clear linux(?: os)?|photon os|flatcar", "linux"),
)
_DISTRO = Regex(
    r"(?<![\w/.-])(?:"
    + "|".join(f"(?P<d{i}>{pattern})" for i, (pattern, _) in enumerate(_DISTROS))
    + r")(?![\w])[ ,:=_-]{0,3}(?:version |ver\.? |v|lts |v\. )?(?P<version>\d{1,4}(?:\.\d{1,4}){0,3})?(?:[ ]?(?:LTS|SP\d|\([\w .!-]{1,40}\)))*",
    re.IGNORECASE,
)
_WINDOWS = Regex(
    r"(?<![\w/\\.])(?:microsoft )?win(?:dows?)?[ _-]{0,2}(?P<name>server \d{4}(?: R2)?|1[01]|8\.1|[78]|xp|vista)(?![\d.]*\d)"
    r"(?P<edition>(?: (?:home|pro|professional|enterprise|education|ltsc|iot|insider|preview|n|single language|x64|64-?bit|for workstations|\d\dH\d)){0,4})"
    r"|(?<![\w/\\.-])(?:microsoft )?windows(?: nt)?(?![\w\\/-])",
    re.IGNORECASE,
)
_WINDOWS_BUILD = Regex(r"(?<![\d.])(?:10\.0\.)?(1[0-9]\d{3}|2[0-9]\d{3})(?:\.\d{1,5})?(?![\d.])")
_MAC = Regex(
    r"(?<![\w/.-])(?:mac ?os ?x?|os ?x|osx)(?![A-Za-z])[ _-]{0,2}(?:version |v)?(?:[a-z]{4,10}(?: sierra)?,? )?(?:version )?(?P<version>\d{2}(?:\.\d{1,2}){0,2})?",
    re.IGNORECASE,
)
_MAC_NAMES = {
    "mojave": "10.14", "catalina": "10.15", "big sur": "11", "monterey": "12", "ventura": "13", "sonoma": "14", "sequoia": "15",
    "tahoe": "26",
}  # fmt: skip
_MAC_WORD = Regex(
    r"(?<![\w/.-])(?:mac|macbook(?: pro| air)?|imac|mac ?mini|mac ?studio|m[1-5] ?mac)(?![\w.-])", re.IGNORECASE
)
_WSL = Regex(
    r"(?<![a-z0-9])wsl[ -]?([12](?![\d.])|v[12])?(?![a-z])|windows subsystem for linux(?: ?([12]))?", re.IGNORECASE
)
_DARWIN_TO_MACOS = {19: "10.15", 20: "11", 21: "12", 22: "13", 23: "14", 24: "15", 25: "26"}


def wsl_of(text: str) -> int | None:
    """1 or 2 when the text speaks of WSL ("WSL 1.2.5.0" is the version of the WSL2 package)."""
    match = _WSL.search(text)
    if not match:
        return None
    return 1 if (match[1] or match[2] or "").endswith("1") else 2


def os_of(text: str) -> OsText | None:
    """The operating system that a text names, None when it names none."""
    found = _platform_string(text) or _linux(text) or _mac(text) or _windows(text)
    wsl = wsl_of(text)
    if wsl is not None:
        if found is None:
            match = _WSL.search(text)
            return OsText("linux", wsl=wsl, start=match.start() if match else 0, end=match.end() if match else 0)
        if found.os == "windows":
            found = OsText("linux", machine=found.machine, start=found.start, end=found.end)
        found.wsl = wsl
    return found


def _linux(text: str) -> OsText | None:
    match = _DISTRO.search(text)
    if match:
        index = next(i for i in range(len(_DISTROS)) if match[f"d{i}"])
        distro = _DISTROS[index][1]
        return OsText(
            "linux",
            name=re.sub(r" \((?:x86_64|aarch64|amd64|arm64)\)$", "", match[0].strip(" ,:-=_")),
            distro=distro,
            version=match["version"],
            machine=machine(text),
            start=match.start(),
            end=match.end(),
        )
    match = re.search(r"(?<![\w/.-])(?:gnu/)?linux(?:-64|-aarch64|64)?(?![\w/.])", text, re.IGNORECASE)
    if match:
        arch = (
            "aarch64"
            if match[0].lower().endswith("aarch64")
            else "x86_64"
            if match[0].endswith("64")
            else machine(text)
        )
        return OsText("linux", machine=arch, start=match.start(), end=match.end())
    return None


def _windows(text: str) -> OsText | None:
    match = _WINDOWS.search(text)
    if not match:
        return None
    name = f"Windows {match['name']}{match['edition'] or ''}".rstrip() if match["name"] else "Windows"
    build = _WINDOWS_BUILD.search(text, match.end())
    release = None
    if build:
        release = f"10.0.{build[1]}"
        if name == "Windows" or name.startswith("Windows 10"):
            name = "Windows 11" if int(build[1]) >= 22000 else "Windows 10"
    return OsText("windows", name=name, version=release, machine=machine(text), start=match.start(), end=match.end())


def _mac(text: str) -> OsText | None:
    match = _MAC.search(text)
    name = next((word for word in _MAC_NAMES if re.search(rf"\b{word}\b", text, re.IGNORECASE)), None)
    if match:
        found = match["version"] or (_MAC_NAMES[name] if name else None)
        return OsText(
            "macos",
            name=f"macOS {found}" if found else "macOS",
            version=found,
            machine=machine(text, "macos"),
            start=match.start(),
            end=match.end(),
        )
    match = _MAC_WORD.search(text)
    if match:
        found = _MAC_NAMES[name] if name else None
        return OsText(
            "macos", name="macOS", version=found, machine=machine(text, "macos"), start=match.start(), end=match.end()
        )
    return None


_PLATFORM_LINUX = Regex(
    r"(?<![\w])Linux-(?P<kernel>\d[\w.+~-]{0,80}?)-(?P<machine>x86_64|aarch64|ppc64le|s390x|armv7l|i686)(?:-\w+)?-with-?(?P<rest>[\w.-]{0,60})"
)
_PLATFORM_WINDOWS = Regex(r"(?<![\w])Windows-(?P<name>[\w.]{1,12})-(?P<version>\d+\.\d+\.\d+)(?:-SP\d)?")
_PLATFORM_MAC = Regex(r"(?<![\w])(?P<kind>macOS|Darwin)-(?P<version>\d[\d.]*)-(?P<machine>arm64|x86_64)")


def _platform_string(text: str) -> OsText | None:
    """`platform.platform()`."""
    match = _PLATFORM_LINUX.search(text)
    if match:
        found = OsText("linux", kernel=match["kernel"], machine=match["machine"], start=match.start(), end=match.end())
        libc = re.search(r"(glibc|musl)[-_]?(\d[\d.]*)?", match["rest"])
        if libc:
            found.libc, found.libc_version = libc[1], libc[2]
        named = re.match(r"(Ubuntu|debian|centos|redhat|fedora)-?(\d[\d.]*)?", match["rest"], re.IGNORECASE)
        if named:
            found.distro = named[1].lower().replace("redhat", "rhel")
            found.version = named[2]
        found.wsl = wsl_of_kernel(match["kernel"])
        return found
    match = _PLATFORM_WINDOWS.search(text)
    if match:
        build = int(match["version"].split(".")[2])
        name = "11" if build >= 22000 and match["name"] == "10" else match["name"]
        return OsText("windows", name=f"Windows {name}", version=match["version"], start=match.start(), end=match.end())
    match = _PLATFORM_MAC.search(text)
    if match:
        release: str | None = match["version"]
        kernel = None
        if match["kind"] == "Darwin":
            kernel = match["version"]
            release = _DARWIN_TO_MACOS.get(int(kernel.split(".")[0]))
        elif match["version"].startswith("10.16"):
            release = None  # what an old x86_64 Python says of macOS 11 and later
        return OsText(
            "macos",
            name=f"macOS {release}" if release else "macOS",
            version=release,
            kernel=kernel,
            machine=match["machine"],
            start=match.start(),
            end=match.end(),
        )
    return None


def wsl_of_kernel(kernel: str) -> int | None:
    """1 or 2 for a kernel of WSL, None for any other."""
    lowered = kernel.lower()
    if "wsl2" in lowered or "microsoft-standard" in lowered:
        return 2
    return 1 if "microsoft" in lowered and lowered.startswith("4.4") else None


def put_os(doc: Document, found: OsText, index: int, rank: int = LISTED) -> None:
    """Notes everything that a text said about the operating system."""
    doc.put("system.os", found.os, index, rank)
    for field in ("name", "distro", "version", "kernel", "libc", "wsl"):
        value = getattr(found, field)
        if value is not None:
            doc.put(f"system.{field}", value, index, rank)
    if found.libc_version:
        # Up to Python 3.8 this is what the interpreter's file asks for, not what the system has.
        doc.put("system.libc_version", found.libc_version, index, 0)
    if found.machine:
        arch = "arm64" if found.os == "macos" and found.machine == "aarch64" else found.machine
        doc.put("system.machine", arch, index, rank)
    if found.os == "macos" and found.version:
        doc.put("apple.macos", found.version, index, rank)
