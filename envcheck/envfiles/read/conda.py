"""environment.yml."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from envcheck.envfiles.model import normalise
from envcheck.envfiles.read.form import IndexLine, Want, Wanted
from envcheck.envfiles.read.requirements import _LONG, _OPTION, parse
from envcheck.errors import UsageError

_SPEC = re.compile(r"(?:(?P<channel>[\w./:-]+?)(?:/[\w-]+)?::)?(?P<name>[A-Za-z0-9_.-]+)\s*(?P<rest>.*)")


def read_conda(path: Path, text: str) -> Wanted:
    """The file, its pip part included.

    Raises:
        UsageError: it is no YAML, or has no list of dependencies.
    """
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        document = YAML(typ="rt").load(text)
    except YAMLError as error:
        raise UsageError(f"{path}: no YAML: {' '.join(str(error).split())[:200]}") from error
    if not isinstance(document, dict) or not isinstance(document.get("dependencies"), list):
        raise UsageError(f"{path}: no list of dependencies, so it is no environment.yml")
    packages: list[Want] = []
    indexes: list[IndexLine] = []
    unread: list[str] = []
    dependencies = document["dependencies"]
    for position, item in enumerate(dependencies):
        number = _line(dependencies, position)
        if isinstance(item, str):
            want = parse_spec(item, number)
            packages.append(want) if want else unread.append(f"line {number}: {item}")
        elif isinstance(item, dict) and isinstance(item.get("pip"), list):
            _pip(item["pip"], packages, indexes, unread)
    python = next((w for w in packages if w.name == "python" and w.manager == "conda"), None)
    return Wanted(
        path,
        "conda",
        tuple(w for w in packages if w is not python),
        python=pep440(python.spec) if python else "",
        python_line=python.line if python else None,
        indexes=tuple(indexes),
        channels=tuple(str(c) for c in document.get("channels") or ()),
        name=str(document.get("name") or ""),
        unread=tuple(unread),
    )


def _pip(rows: Any, packages: list[Want], indexes: list[IndexLine], unread: list[str]) -> None:
    for position, row in enumerate(rows):
        number, text = _line(rows, position), str(row).strip()
        option = _OPTION.match(text)
        if option:
            indexes.append(IndexLine(_LONG.get(option[1], option[1]), option[2], number))
            continue
        want = parse(text, number)
        packages.append(want) if want else unread.append(f"line {number}: {text}")


def _line(rows: Any, position: int) -> int | None:
    try:
        return int(rows.lc.item(position)[0]) + 1
    except (AttributeError, KeyError, IndexError, TypeError):
        return None


def parse_spec(text: str, number: int | None = None, group: int = 0) -> Want | None:
    """A match spec: "conda-forge::pytorch=2.8.0=cuda*", "numpy>=2.1,<3", "python 3.12.*"."""
    body = re.sub(r"\[([^\]]*)\]$", "", text.strip())
    brackets = dict(re.findall(r"(\w+)\s*=\s*['\"]?([^,'\"\]]+)", text[len(body) :]))
    match = _SPEC.fullmatch(body)
    if match is None:
        return None
    rest = match["rest"].strip()
    build = brackets.get("build", "")
    exact = re.fullmatch(r"(={1,2}\s*[^=\s<>!~|,]+)\s*=\s*([^=\s]+)|([^=\s<>!~|,]+)\s+([^=\s<>!~|,]+)", rest)
    if exact:
        rest, build = (exact[1], exact[2]) if exact[1] else (exact[3], exact[4])
    spec = re.sub(r"\s+", "", brackets.get("version", rest))
    return Want(
        match["name"].lower(),
        spec,
        manager="conda",
        build=build,
        channel=match["channel"] or brackets.get("channel", ""),
        line=number,
        text=text,
        group=group,
    )


def pep440(spec: str) -> str:
    """A conda version spec as a PEP 440 specifier; "" = any. "=3.12" means 3.12 and all below it."""
    alternatives = spec.split("|")
    if len(alternatives) > 1 or spec in ("", "*"):
        return ""
    parts = []
    for part in spec.split(","):
        if re.fullmatch(r"=?[\w.]+\*?", part) and not part.startswith("=="):
            version = part.removeprefix("=").removesuffix("*").rstrip(".")
            parts.append(f"=={version}.*" if part.startswith("=") or part.endswith("*") else f"=={version}")
        else:
            parts.append(part)
    return ",".join(parts)


def key(name: str) -> str:
    """A conda name as it is compared with those of pip."""
    return normalise({"pytorch": "torch"}.get(name, name))
