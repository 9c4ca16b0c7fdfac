"""pyproject.toml of uv, of poetry and of nobody in particular, and pixi.toml."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from envcheck.envfiles.model import normalise
from envcheck.envfiles.read.conda import parse_spec, pep440
from envcheck.envfiles.read.form import Want, Wanted
from envcheck.envfiles.read.requirements import parse, split_label
from envcheck.errors import UsageError


def _document(path: Path, text: str) -> dict[str, Any]:
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    try:
        document: dict[str, Any] = tomlkit.parse(text).unwrap()
    except TOMLKitError as error:
        raise UsageError(f"{path}: no TOML: {error}") from error
    return document


def _line(text: str, name: str) -> int | None:
    """The first line that names a package at its start; comments do not count."""
    pattern = re.compile(rf"^\s*[\"']?{re.escape(name).replace('-', '[-_.]')}\b(?!\s*=\s*\[\s*$)", re.I)
    return next((n for n, row in enumerate(text.splitlines(), start=1) if pattern.match(row)), None)


def read_pyproject(path: Path, text: str) -> Wanted:
    """pyproject.toml: poetry's table where there is one, else `project.dependencies` with the sources of uv.

    Raises:
        UsageError: it is no TOML, or has no dependencies at all.
    """
    document = _document(path, text)
    tool = document.get("tool") or {}
    project = document.get("project") or {}
    poetry = (tool.get("poetry") or {}).get("dependencies")
    if poetry and not project.get("dependencies"):
        return _poetry(path, text, document)
    if "dependencies" not in project and "pixi" in tool:
        return _pixi_of(path, text, tool["pixi"])
    if "dependencies" not in project:
        raise UsageError(f"{path}: neither project.dependencies nor a table of poetry or pixi")
    uv = tool.get("uv") or {}
    addresses = {str(i.get("name")): str(i.get("url", "")) for i in uv.get("index") or () if isinstance(i, dict)}
    packages, unread = [], []
    for row in project["dependencies"]:
        want = parse(str(row))
        if want is None:
            unread.append(str(row))
            continue
        source = (uv.get("sources") or {}).get(want.name)
        packages.append(replace(_sourced(want, source, addresses), line=_line(text, want.name)))
    return Wanted(
        path,
        "pyproject",
        tuple(packages),
        python=str(project.get("requires-python") or ""),
        python_line=_line(text, "requires-python"),
        name=str(project.get("name") or ""),
        unread=tuple(unread),
    )


def _sourced(want: Want, source: Any, addresses: dict[str, str]) -> Want:
    entries = source if isinstance(source, list) else [source] if source else []
    tied = tuple(
        (addresses[e["index"]], str(e.get("marker") or "")) for e in entries if "index" in e and e["index"] in addresses
    )
    other = next((e for e in entries if "git" in e or "path" in e or "url" in e), None)
    if other is None:
        return replace(want, sources=tied)
    url = f"git+{other['git']}" if "git" in other else str(other.get("path") or other.get("url"))
    return replace(want, url=url, editable=bool(other.get("editable")), sources=tied)


# -- poetry ------------------------------------------------------------------------------------------------------------


def _poetry(path: Path, text: str, document: dict[str, Any]) -> Wanted:
    table = document["tool"]["poetry"]
    addresses = {str(s.get("name")): str(s.get("url", "")) for s in table.get("source") or ()}
    packages = []
    python = ""
    for name, value in table["dependencies"].items():
        if name == "python":
            python = poetry_pep440(value if isinstance(value, str) else str((value or {}).get("version", "")))
            continue
        for entry in value if isinstance(value, list) else [value]:
            packages.append(_poetry_entry(name, entry, addresses, _line(text, name)))
    return Wanted(
        path,
        "poetry",
        tuple(packages),
        python=python,
        python_line=_line(text, "python"),
        name=str(table.get("name") or ""),
    )


def _poetry_entry(name: str, entry: Any, addresses: dict[str, str], line: int | None) -> Want:
    if isinstance(entry, str):
        entry = {"version": entry}
    spec, label = split_label(poetry_pep440(str(entry.get("version", "*"))))
    source = addresses.get(str(entry.get("source")))
    url = f"git+{entry['git']}" if "git" in entry else str(entry.get("path") or entry.get("url") or "")
    return Want(
        normalise(name),
        spec if not url else "",
        label=label,
        marker=str(entry.get("markers") or ""),
        url=url,
        editable=bool(entry.get("develop")),
        sources=((source, ""),) if source else (),
        line=line,
        text=f"{name} {entry.get('version', '')}".strip(),
    )


def poetry_pep440(text: str) -> str:
    """Poetry's constraints as PEP 440: "^1.2" -> ">=1.2,<2", "~3.12" -> ">=3.12,<3.13", "1.2.3" -> "==1.2.3"."""
    made = []
    for part in re.split(r"\s*,\s*|\s+(?=[<>=!^~])", text.strip()):
        match = re.fullmatch(r"(\^|~)\s*(\d+(?:\.\d+)*)", part)
        if match:
            numbers = [int(n) for n in match[2].split(".")]
            if match[1] == "^":
                place = next((i for i, n in enumerate(numbers) if n), len(numbers) - 1)
            else:
                place = min(1, len(numbers) - 1)
            upper = [*numbers[:place], numbers[place] + 1]
            made.append(f">={match[2]},<{'.'.join(map(str, upper))}")
        elif re.match(r"\d", part):
            made.append(f"=={part}")
        elif part not in ("", "*"):
            made.append(re.sub(r"^=(?!=)", "==", part))
    return ",".join(made)


# -- pixi --------------------------------------------------------------------------------------------------------------


def read_pixi(path: Path, text: str) -> Wanted:
    """pixi.toml.

    Raises:
        UsageError: it is no TOML.
    """
    return _pixi_of(path, text, _document(path, text))


def _pixi_of(path: Path, text: str, table: dict[str, Any]) -> Wanted:
    workspace = table.get("workspace") or table.get("project") or {}
    conda = []
    for name, value in (table.get("dependencies") or {}).items():
        entry = {"version": value} if isinstance(value, str) else dict(value)
        want = parse_spec(f"{name}{_operator(str(entry.get('version', '*')))}")
        if want is not None:
            conda.append(replace(want, build=str(entry.get("build") or ""), channel=str(entry.get("channel") or ""),
                                 line=_line(text, name)))  # fmt: skip
    python = next((w for w in conda if w.name == "python"), None)
    pip = [_pixi_pypi(n, v, _line(text, n)) for n, v in (table.get("pypi-dependencies") or {}).items()]
    return Wanted(
        path,
        "pixi",
        (*(w for w in conda if w is not python), *pip),
        python=pep440(python.spec) if python else "",
        python_line=python.line if python else None,
        channels=tuple(str(c.get("channel") if isinstance(c, dict) else c) for c in workspace.get("channels") or ()),
        name=str(workspace.get("name") or ""),
        platforms=tuple(str(p.get("platform") if isinstance(p, dict) else p) for p in workspace.get("platforms") or ()),
    )


def _operator(version: str) -> str:
    return "" if version == "*" else version if version[:1] in "<>=!~" else f"={version}"


def _pixi_pypi(name: str, value: Any, line: int | None) -> Want:
    entry = {"version": value} if isinstance(value, str) else dict(value)
    version = str(entry.get("version", "*"))
    spec, label = split_label("" if version == "*" else version)
    url = f"git+{entry['git']}" if "git" in entry else str(entry.get("path") or entry.get("url") or "")
    return Want(
        normalise(name),
        spec,
        label=label,
        url=url,
        editable=bool(entry.get("editable")),
        sources=((str(entry["index"]), ""),) if "index" in entry else (),
        line=line,
        text=f"{name} {version}",
    )
