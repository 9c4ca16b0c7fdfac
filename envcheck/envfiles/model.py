"""What a written file is to contain, whatever its kind: packages, where they come from, and what it was made for."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from envcheck.matrix.versions import numbers

FAMILY = ("torch", "torchvision", "torchaudio")
"""Pinned exactly, always from one place."""
PYPI = "https://pypi.org/simple"
_CALENDAR = 1900

CONDA_NAMES = {"torch": "pytorch", "opencv-python": "py-opencv", "opencv-python-headless": "py-opencv"}
"""Names that differ between PyPI and conda-forge, for the packages that envcheck itself asks for."""


def normalise(name: str) -> str:
    """A name as PEP 503 compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def of_family(name: str) -> bool:
    """It is torch, or built with it."""
    return normalise(name) in (*FAMILY, "pytorch")


@dataclass(frozen=True)
class Package:
    """One package. `spec` is a PEP 440 specifier, or for conda that of a match spec; `url` excludes both."""

    name: str
    spec: str = ""
    extras: tuple[str, ...] = ()
    label: str = ""
    """Local label of the build: "cu128"."""
    index: str | None = None
    """Address of the index it has to come from; None = the usual one."""
    marker: str = ""
    url: str = ""
    """A direct reference: "git+https://...@commit", "https://.../x.whl", "file:///..."."""
    editable: bool = False
    hashes: tuple[str, ...] = ()
    direct: bool = True
    """Somebody asked for it; False = it is there because of another."""
    build: str = ""
    """conda build string, or a pattern of it."""
    channel: str = ""
    note: str = ""

    @property
    def family(self) -> bool:
        """It is torch, or built with it."""
        return of_family(self.name)

    @property
    def version(self) -> str:
        """The exact version, "" when it is a range."""
        match = re.fullmatch(r"={1,3}\s*([^=,*]+)", self.spec)
        return match[1] if match else ""


@dataclass(frozen=True)
class Environment:
    """Everything that the templates need."""

    name: str
    python: str
    """Minor version: "3.12"."""
    packages: tuple[Package, ...]
    """Of pip."""
    conda: tuple[Package, ...] = ()
    channels: tuple[str, ...] = ("conda-forge",)
    os: str = "linux"
    machine: str = "x86_64"
    torch: str = ""
    variant: str = ""
    cuda: str | None = None
    driver: str | None = None
    """Lowest driver that runs the build."""
    header: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    complete: bool = False
    """It lists everything that is installed, not only what was asked for."""
    platforms: tuple[Platform, ...] = field(default_factory=tuple)
    """Further systems that one file can serve."""

    @property
    def indexes(self) -> tuple[str, ...]:
        """Addresses of all indexes that packages are tied to."""
        return tuple(dict.fromkeys(p.index for p in self.packages if p.index))

    @property
    def family(self) -> tuple[Package, ...]:
        """The torch family of the pip part."""
        return tuple(p for p in self.packages if p.family)

    @property
    def rest(self) -> tuple[Package, ...]:
        """Everything else of the pip part."""
        return tuple(p for p in self.packages if not p.family)

    def with_warnings(self, *lines: str) -> Environment:
        """The same with more to say."""
        return replace(self, warnings=(*self.warnings, *lines))


@dataclass(frozen=True)
class Platform:
    """One system a file serves, and the index that its torch comes from; None = plain PyPI."""

    os: str
    machine: str
    variant: str
    index: str | None

    @property
    def marker(self) -> str:
        """The environment marker that is true there."""
        return marker(self.os, self.machine)

    @property
    def conda(self) -> str:
        """Its name in conda."""
        return subdir(self.os, self.machine)


def marker(os: str, machine: str) -> str:
    """PEP 508 marker of a platform."""
    system = {"linux": "linux", "windows": "win32", "macos": "darwin"}[os]
    name = "AMD64" if os == "windows" and machine == "x86_64" else machine
    return f"sys_platform == '{system}' and platform_machine == '{name}'"


def subdir(os: str, machine: str) -> str:
    """Name of a platform in conda: "linux-64"."""
    system = {"linux": "linux", "windows": "win", "macos": "osx"}[os]
    return f"{system}-{'64' if machine == 'x86_64' else 'arm64' if machine == 'arm64' else machine}"


def index_name(address: str) -> str:
    """ "https://download.pytorch.org/whl/cu128" -> "pytorch-cu128"; of another index, its host's name."""
    tail = address.rstrip("/").rsplit("/", 1)[-1]
    if "download.pytorch.org" in address:
        return f"pytorch-nightly-{tail}" if "/nightly" in address else f"pytorch-{tail}"
    host = re.sub(r"^\w+://([^/:]+).*", r"\1", address)
    return re.sub(r"[^a-z0-9]+", "-", f"{host}-{tail}".lower()).strip("-")


def variant_of_index(address: str) -> str | None:
    """The build that an index of PyTorch holds: ".../whl/cu128" -> "cu128"; None for other addresses."""
    match = re.search(r"download\.pytorch\.org/whl/(?:[\w.]+/)*?(cpu|xpu|cu\d{2,3}|rocm[\d.]+)(?:_full)?/?$", address)
    return match[1] if match else None


def compatible(version: str) -> str:
    """What is expected to work like that version: the same major release, of 0.x the same minor, of a date any later."""
    public = version.partition("+")[0]
    parts = numbers(public)
    if not parts or not re.fullmatch(r"[\d.]+(\.post\d+)?", public):
        return f"=={public}"
    if parts[0] >= _CALENDAR:
        return f">={public}"
    upper = f"{parts[0] + 1}" if parts[0] else f"0.{(parts[1] if len(parts) > 1 else 0) + 1}"
    return f">={public},<{upper}"
