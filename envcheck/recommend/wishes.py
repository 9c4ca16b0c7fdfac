"""Reads the wishes: a specifier, a version, a line or a build, into one question that each candidate can be asked."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from envcheck.errors import UsageError
from envcheck.installers import MANAGERS
from envcheck.matrix import Matrix, Release
from envcheck.recommend.candidates import Build
from envcheck.recommend.machine import Machine
from envcheck.recommend.model import COMPANIONS, DEVICES, PREFERENCES, Wishes

_VERSION = re.compile(r"\d+(\.\d+)*")


@dataclass(frozen=True)
class Wanted:
    """The wishes, ready to be asked."""

    wishes: Wishes
    specifier: Any = None
    """packaging's SpecifierSet; None = any release."""
    variant: str | None = None
    """The build that the wish for a version names ("2.8.0+cu128")."""

    def admits(self, release: Release, build: Build) -> bool:
        """The wishes admit this build of this release."""
        if self.variant is not None and build.variant.name != self.variant:
            return False
        return self.specifier is None or self.specifier.contains(release.version)

    def companions(self, machine: Machine) -> tuple[str, ...]:
        """What goes with torch: as asked, else torchvision and whatever of the family is there already."""
        if self.wishes.companions is not None:
            return self.wishes.companions
        there = tuple(name for name in ("torchaudio",) if name in machine.installed)
        return ("torchvision", *there)


def read(wishes: Wishes, matrix: Matrix) -> Wanted:
    """Checks the wishes.

    Raises:
        UsageError: one of them cannot be read.
    """
    _choice("device", wishes.device, DEVICES)
    _choice("prefer", wishes.prefer, PREFERENCES)
    if wishes.manager is not None:
        _choice("manager", wishes.manager, MANAGERS)
    for name in wishes.companions or ():
        _choice("with", name, COMPANIONS)
    text, variant = wishes.torch.strip().removeprefix("torch").strip(), None
    if not text:
        return Wanted(wishes)
    match = re.fullmatch(r"(?:==)?\s*([\d.]+)\+([A-Za-z0-9.]+)", text)
    if match:
        text, variant = f"=={match[1]}", match[2]
    elif _VERSION.fullmatch(text):
        text = f"=={text}" if text.count(".") >= 2 else f"=={text}.*"
    return Wanted(wishes, _specifier(text), variant)


def _specifier(text: str) -> Any:
    from packaging.specifiers import InvalidSpecifier, SpecifierSet  # not at import: few ask for a version

    try:
        return SpecifierSet(text)
    except InvalidSpecifier:
        raise UsageError(f"--torch {text!r} is no version and no specifier; examples: 2.8.0, '>=2.6,<2.9'") from None


def _choice(option: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise UsageError(f"--{option} {value!r} is unknown: one of {', '.join(allowed)}")
