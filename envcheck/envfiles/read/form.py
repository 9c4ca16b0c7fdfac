"""The form that every environment file is read into."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from envcheck.envfiles.model import of_family


@dataclass(frozen=True)
class Want:
    """One package that a file asks for.

    spec is PEP 440 for pip ("" = any), the version part of a match spec for conda. sources: indexes that it is tied to,
    (address, marker), the first whose marker is true counts.
    """

    name: str
    spec: str = ""
    manager: str = "pip"
    label: str = ""
    marker: str = ""
    url: str = ""
    editable: bool = False
    build: str = ""
    channel: str = ""
    sources: tuple[tuple[str, str], ...] = ()
    line: int | None = None
    text: str = ""
    group: int = 0
    """Install commands of a Dockerfile: packages of one command have one number."""

    @property
    def family(self) -> bool:
        """It is torch, or built with it."""
        return of_family(self.name)


@dataclass(frozen=True)
class IndexLine:
    """An index that a requirements file or a pip command names."""

    option: str
    """"--index-url" | "--extra-index-url" | "--find-links"."""
    url: str
    line: int | None = None
    group: int = 0


@dataclass(frozen=True)
class Instruction:
    """One instruction of a Dockerfile, continuation lines joined."""

    word: str
    value: str
    line: int


@dataclass(frozen=True)
class Wanted:
    """A whole file."""

    path: Path
    format: str
    """"requirements" | "conda" | "pyproject" | "poetry" | "pixi" | "dockerfile"."""
    packages: tuple[Want, ...] = ()
    python: str = ""
    """What it asks of Python, as a PEP 440 specifier: "==3.12.*"."""
    python_line: int | None = None
    indexes: tuple[IndexLine, ...] = ()
    channels: tuple[str, ...] = ()
    name: str = ""
    platforms: tuple[str, ...] = ()
    """Of pixi."""
    instructions: tuple[Instruction, ...] = ()
    unread: tuple[str, ...] = field(default_factory=tuple)
    """Lines that could not be understood, with their number."""

    def wants(self, *names: str) -> tuple[Want, ...]:
        """What is asked for under these names."""
        return tuple(w for w in self.packages if w.name in names)
