"""requirements.txt: lines, continuation lines, options, files that it includes."""

from __future__ import annotations

import re
from pathlib import Path

from envcheck.envfiles.model import normalise
from envcheck.envfiles.read.form import IndexLine, Want, Wanted

DEPTH = 5
_OPTION = re.compile(
    r"(--index-url|-i|--extra-index-url|--find-links|-f|--requirement|-r|--constraint|-c)(?:[ =]+|(?=[^-\s]))(\S+)"
)
_LONG = {"-i": "--index-url", "-f": "--find-links", "-r": "--requirement", "-c": "--constraint"}
_PYTHON = re.compile(r"#.*\bPython (\d+\.\d+)\b")


def read_requirements(path: Path, text: str) -> Wanted:
    """The file and what it includes."""
    packages: list[Want] = []
    indexes: list[IndexLine] = []
    unread: list[str] = []
    _read(path, text, packages, indexes, unread, DEPTH)
    return Wanted(path, "requirements", tuple(packages), indexes=tuple(indexes), unread=tuple(unread))


def _read(path: Path, text: str, packages: list[Want], indexes: list[IndexLine], unread: list[str], depth: int) -> None:
    for number, line in logical_lines(text):
        option = _OPTION.match(line)
        if option:
            kind = _LONG.get(option[1], option[1])
            if kind == "--requirement" and depth:
                other = path.parent / option[2]
                try:
                    _read(other, other.read_text(encoding="utf-8-sig"), packages, indexes, unread, depth - 1)
                except (OSError, UnicodeDecodeError):
                    unread.append(f"line {number}: {option[2]} cannot be read")
            elif kind in ("--index-url", "--extra-index-url", "--find-links"):
                indexes.append(IndexLine(kind, option[2], number))
            continue
        if line.startswith("-") and not re.match(r"(-e|--editable)\b", line):
            continue
        want = parse(line, number)
        if want is None:
            unread.append(f"line {number}: {line[:80]}")
        else:
            packages.append(want)


def logical_lines(text: str) -> list[tuple[int, str]]:
    """Lines without comments, those that end in a backslash joined with the next; each with its number."""
    found, held, begun = [], "", 0
    for number, row in enumerate(text.splitlines(), start=1):
        row = re.sub(r"(^|\s)#.*$", "", row)
        begun = begun or number
        if row.rstrip().endswith("\\"):
            held += row.rstrip()[:-1] + " "
            continue
        whole = (held + row).strip()
        if whole:
            found.append((begun, whole))
        held, begun = "", 0
    if held.strip():
        found.append((begun, held.strip()))
    return found


def parse(line: str, number: int | None = None, group: int = 0) -> Want | None:
    """One requirement; None = not readable as one."""
    from packaging.requirements import InvalidRequirement, Requirement

    text = re.sub(r"\s--(?:hash|config-settings|global-option)[ =]\S+", "", line).strip()
    editable = re.match(r"(?:-e|--editable)[ =]\s*(\S.*)", text)
    if editable or re.match(r"(?:\w+\+)?\w+://|\.{0,2}/|\.$|[A-Za-z]:[\\/]|\S+\.whl$|[\w.-]+/[\w./-]+$", text):
        address = editable[1] if editable else text
        named = re.search(r"[#&]egg=([A-Za-z0-9._-]+)", address)
        wheel = re.search(r"([A-Za-z0-9_.]+)-([^-/]+)-[^/]*\.whl", address)
        name = named[1] if named else wheel[1] if wheel else ""
        if wheel and not named:
            public, _, label = wheel[2].replace("%2B", "+").replace("%2b", "+").partition("+")
            return Want(normalise(name), f"=={public}", label=label, url=address, line=number, text=text, group=group)
        return Want(normalise(name), url=address, editable=editable is not None, line=number, text=text, group=group)
    try:
        wanted = Requirement(text)
    except InvalidRequirement:
        return None
    spec, label = split_label(str(wanted.specifier))
    return Want(
        normalise(wanted.name),
        spec,
        label=label,
        marker=str(wanted.marker or ""),
        url=wanted.url or "",
        line=number,
        text=text,
        group=group,
    )


def split_label(specifier: str) -> tuple[str, str]:
    """ "==2.8.0+cu128" -> ("==2.8.0", "cu128")."""
    match = re.fullmatch(r"(={2,3}\s*[^+,]+)\+([A-Za-z0-9._-]+)", specifier.strip())
    return (match[1], match[2].lower()) if match else (specifier, "")
