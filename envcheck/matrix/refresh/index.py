"""A package index as pip sees it: its address, and the files of a project (JSON or HTML, PEP 691, 503, 658, 700)."""

from __future__ import annotations

import configparser
import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urljoin

from envcheck.matrix.refresh.web import Unreachable, get, without_credentials

DEFAULT = "https://pypi.org/simple"
"""pip's own default."""
ACCEPT = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"


class Wheel(NamedTuple):
    """Version and tags in the name of a wheel."""

    version: str
    python: str
    abi: str
    platform: str


@dataclass(frozen=True)
class File:
    """One file of a project."""

    name: str
    url: str
    requires_python: str = ""
    has_metadata: bool = False
    yanked: bool = False
    uploaded: str = ""
    """ISO date; "" where the index does not say."""

    @property
    def wheel(self) -> Wheel | None:
        """The parts of a wheel's name; None for any other file."""
        match = re.fullmatch(r"[\w.]+-([^-]+)(?:-\d[^-]*)?-([^-]+)-([^-]+)-([^-]+)\.whl", self.name)
        return Wheel(*(unquote(part) for part in match.groups())) if match else None


def configured(env: Mapping[str, str] | None = None) -> str:
    """The index that pip is set up with: its variable, its files (the last one wins), else its default.

    The address may hold a password: it is used, never shown.
    """
    env = os.environ if env is None else env
    if env.get("PIP_INDEX_URL"):
        return env["PIP_INDEX_URL"]
    found = DEFAULT
    for path in _config_files(env):
        parser = configparser.RawConfigParser()
        try:
            parser.read(path, encoding="utf-8")
        except (configparser.Error, OSError, UnicodeDecodeError):
            continue
        for section in ("global", "install"):
            found = parser.get(section, "index-url", fallback=found).strip() or found
    return found


def _config_files(env: Mapping[str, str]) -> Iterator[Path]:
    home = Path(env.get("HOME") or env.get("USERPROFILE") or str(Path.home()))
    if env.get("PIP_CONFIG_FILE") == os.devnull:
        return
    if sys.platform == "win32":
        yield Path(env.get("PROGRAMDATA", r"C:\ProgramData")) / "pip" / "pip.ini"
        yield home / "pip" / "pip.ini"
        yield Path(env.get("APPDATA", str(home))) / "pip" / "pip.ini"
        yield Path(sys.prefix) / "pip.ini"
    else:
        for directory in (env.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(os.pathsep):
            yield Path(directory) / "pip" / "pip.conf"
        yield Path("/etc/pip.conf")
        yield home / ".pip" / "pip.conf"
        if sys.platform == "darwin":
            yield home / "Library" / "Application Support" / "pip" / "pip.conf"
        yield Path(env.get("XDG_CONFIG_HOME") or home / ".config") / "pip" / "pip.conf"
        yield Path(sys.prefix) / "pip.conf"
    if env.get("PIP_CONFIG_FILE"):
        yield Path(env["PIP_CONFIG_FILE"])


def files(index: str, project: str) -> list[File]:
    """The wheels of a project, yanked ones left out.

    Raises:
        Unreachable: the index does not answer, or with something else.
    """
    body, headers = get(f"{index.rstrip('/')}/{project}/", accept=ACCEPT)
    base = headers["x-final-url"]
    kind = headers.get("content-type", "")
    try:
        found = _from_json(body, base) if "json" in kind else _from_html(body.decode("utf-8", "replace"), base)
    except (ValueError, KeyError, TypeError):
        raise Unreachable(f"{without_credentials(index)}: the answer is not that of a package index") from None
    if not found:
        raise Unreachable(f"{without_credentials(index)} has no files of {project}")
    return [file for file in found if not file.yanked and file.wheel]


def _from_json(body: bytes, base: str) -> list[File]:
    return [
        File(
            name=item["filename"],
            url=urljoin(base, item["url"]),
            requires_python=item.get("requires-python") or "",
            has_metadata=bool(item.get("core-metadata") or item.get("data-dist-info-metadata")),
            yanked=bool(item.get("yanked")),
            uploaded=str(item.get("upload-time") or "")[:10],
        )
        for item in json.loads(body)["files"]
    ]


class _Links(HTMLParser):
    """The links of an index page with their data- attributes."""

    def __init__(self, base: str) -> None:
        super().__init__()
        self.base = base
        self.found: list[File] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag == "base" and values.get("href"):
            self.base = urljoin(self.base, values["href"] or "")
        href = values.get("href")
        if tag != "a" or not href:
            return
        url = urljoin(self.base, href).partition("#")[0]
        self.found.append(
            File(
                name=unquote(url.rpartition("/")[2]),
                url=url,
                requires_python=values.get("data-requires-python") or "",
                has_metadata="data-core-metadata" in values or "data-dist-info-metadata" in values,
                yanked="data-yanked" in values,
            )
        )


def _from_html(text: str, base: str) -> list[File]:
    links = _Links(base)
    links.feed(text)
    return links.found
