"""Everything that is installed in the Python under test, as its payload lists it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from envcheck.errors import TargetError
from envcheck.facts import Struct
from envcheck.target import PAYLOADS, Session, child_environment, start

LIST = PAYLOADS / "list_installed.py"
LIMIT = 60.0


class Item(Struct, frozen=True, kw_only=True):
    """One distribution that an import would find."""

    name: str
    version: str | None = None
    requires: tuple[str, ...] = ()
    requires_python: str | None = None
    installer: str | None = None
    requested: bool = False
    """Somebody named it to the installer."""
    site: str | None = None
    location: str | None = None
    tags: tuple[str, ...] = ()
    url: str | None = None
    vcs: str | None = None
    commit: str | None = None
    revision: str | None = None
    subdirectory: str | None = None
    editable: bool = False
    directory: bool = False
    hashes: dict[str, str] = {}  # noqa: RUF012 - msgspec copies it
    conda: str | None = None
    """The conda package that it belongs to."""


class CondaItem(Struct, frozen=True, kw_only=True):
    """One record of conda-meta."""

    name: str
    version: str = ""
    build: str = ""
    channel: str | None = None
    subdir: str | None = None
    depends: tuple[str, ...] = ()
    requested: tuple[str, ...] = ()
    md5: str | None = None
    sha256: str | None = None


class TorchFile(Struct, frozen=True, kw_only=True):
    """What torch/version.py says."""

    version: str | None = None
    cuda: str | None = None
    hip: str | None = None
    xpu: str | None = None


class Installed(Struct, frozen=True, kw_only=True):
    """The whole list."""

    distributions: tuple[Item, ...] = ()
    conda: tuple[CondaItem, ...] | None = None
    torch: TorchFile | None = None
    prefix: str | None = None

    def item(self, name: str) -> Item | None:
        """The distribution of that normalised name."""
        return next((item for item in self.distributions if item.name == name), None)

    def record(self, name: str) -> CondaItem | None:
        """The conda package of that name."""
        return next((item for item in self.conda or () if item.name == name), None)


def ask(python: str | Path) -> Session:
    """Begins the listing; hand it to `finish`."""
    return start(python, LIST, env=child_environment(Path(python)))


def finish(session: Session) -> Installed:
    """The list.

    Raises:
        TargetError: the Python under test did not give one.
    """
    answer = session.finish(LIMIT)
    stage = answer.stage("installed")
    if stage is None or stage.get("result") != "ok":
        said = answer.problem() or (stage or {}).get("error") or answer.outcome.error or "it gave no list"
        raise TargetError(f"{session.python}: what is installed cannot be listed: {said}")
    return parse(stage)


def parse(stage: dict[str, Any]) -> Installed:
    """The answer of the payload as structs; fields without a value count as not given."""
    return msgspec.convert(_without_none(stage), Installed, strict=False)


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_none(item) for key, item in value.items() if item is not None}
    return [_without_none(item) for item in value] if isinstance(value, list) else value
