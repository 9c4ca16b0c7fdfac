"""A Dockerfile: its instructions, and what the pip and conda commands in it install."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from envcheck.envfiles.read.conda import parse_spec
from envcheck.envfiles.read.form import IndexLine, Instruction, Want, Wanted
from envcheck.envfiles.read.requirements import parse

_INSTALL = re.compile(r"\b(?:(?:python[\d.]*\s+-m\s+)?pip[\d.]*|uv\s+pip)\s+install\b|\buv\s+add\b")
_CONDA = re.compile(r"\b(?:conda|mamba|micromamba)\s+(?:install|create)\b")
_VALUED = ("--python", "--target", "-t", "--prefix", "--root", "--constraint", "-c", "-r", "--requirement", "--trusted-host",
           "--timeout", "--retries", "--cache-dir", "-n", "--name", "-p", "--index-strategy", "--progress-bar")  # fmt: skip
_INDEXES = {"-i": "--index-url", "--index-url": "--index-url", "--extra-index-url": "--extra-index-url",
            "-f": "--find-links", "--find-links": "--find-links", "--index": "--index-url",
            "--default-index": "--index-url"}  # fmt: skip


def read_dockerfile(path: Path, text: str) -> Wanted:
    """The instructions; ARG and ENV values put in where they are used."""
    instructions = tuple(_expanded(_instructions(text)))
    packages: list[Want] = []
    indexes: list[IndexLine] = []
    group = 0
    for item in instructions:
        if item.word != "RUN":
            continue
        for command in re.split(r"&&|\|\||;|\n", item.value):
            group += 1
            _command(command, item.line, group, packages, indexes)
    python = next((m[1] for i in instructions if (m := _python_image(i))), "")
    return Wanted(
        path,
        "dockerfile",
        tuple(packages),
        python=f"=={python}.*" if python else "",
        indexes=tuple(indexes),
        instructions=instructions,
    )


def _python_image(item: Instruction) -> re.Match[str] | None:
    return re.match(r"(?:\S+/)?python:(\d+\.\d+)", item.value) if item.word == "FROM" else None


def _instructions(text: str) -> list[Instruction]:
    found: list[Instruction] = []
    held: list[str] = []
    begun = 0
    heredoc = ""
    for number, row in enumerate(text.splitlines(), start=1):
        if heredoc:
            if row.strip() == heredoc:
                heredoc = ""
                found.append(_instruction("\n".join(held), begun))
                held, begun = [], 0
            else:
                held.append(row)
            continue
        if row.lstrip().startswith("#") or (not row.strip() and not held):
            continue
        begun = begun or number
        marked = re.search(r"<<-?\s*[\"']?(\w+)[\"']?\s*$", row)
        if marked and re.match(r"\s*(RUN|COPY)\b", row, re.I):
            heredoc = marked[1]
            held = [row[: marked.start()]]
            continue
        if row.rstrip().endswith("\\"):
            held.append(row.rstrip()[:-1])
            continue
        held.append(row)
        found.append(_instruction(" ".join(held), begun))
        held, begun = [], 0
    if held:
        found.append(_instruction(" ".join(held), begun))
    return found


def _instruction(text: str, line: int) -> Instruction:
    word, _, value = text.strip().partition(" ")
    return Instruction(word.upper(), re.sub(r"[ \t]+", " ", value).strip(), line)


def _expanded(items: list[Instruction]) -> list[Instruction]:
    values: dict[str, str] = {}
    made = []
    for item in items:
        value = re.sub(r"\$\{(\w+)(?::-([^}]*))?\}|\$(\w+)", lambda m: _value(m, values), item.value)
        if item.word in ("ARG", "ENV"):
            values.update(re.findall(r"(\w+)=[\"']?([^\"'\s]*)", value))
        made.append(Instruction(item.word, value, item.line))
    return made


def _value(match: re.Match[str], values: dict[str, str]) -> str:
    return values.get(match[1] or match[3], match[2] if match[2] is not None else match[0])


def _command(command: str, line: int, group: int, packages: list[Want], indexes: list[IndexLine]) -> None:
    for pattern, manager in ((_INSTALL, "pip"), (_CONDA, "conda")):
        match = pattern.search(command)
        if match is None:
            continue
        try:
            words = shlex.split(command[match.end() :], comments=True)
        except ValueError:
            return
        _words(words, manager, line, group, packages, indexes)
        return


def _words(
    words: list[str], manager: str, line: int, group: int, packages: list[Want], indexes: list[IndexLine]
) -> None:
    rest = list(words)
    while rest:
        word = rest.pop(0)
        option, _, value = word.partition("=") if word.startswith("--") else (word, "", "")
        if option in _INDEXES and manager == "pip":
            indexes.append(IndexLine(_INDEXES[option], value or (rest.pop(0) if rest else ""), line, group))
        elif word in _VALUED or (manager == "conda" and word in ("-c", "--channel")):
            if rest:
                rest.pop(0)
        elif not word.startswith("-"):
            want = parse_spec(word, line, group) if manager == "conda" else parse(word, line, group)
            if want is not None and want.name:
                packages.append(want)
