"""Environment files, ours and other people's, read into one form."""

from __future__ import annotations

import re
from pathlib import Path

from envcheck.envfiles.read.form import IndexLine, Instruction, Want, Wanted
from envcheck.errors import UsageError

__all__ = ["IndexLine", "Instruction", "Want", "Wanted", "format_of", "read"]


def read(path: Path) -> Wanted:
    """The file in the form that comparison and judgement work on.

    Raises:
        UsageError: it cannot be read, or is none of the kinds that are known.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: {getattr(error, 'strerror', None) or error}") from error
    kind = format_of(path, text)
    if kind == "conda":
        from envcheck.envfiles.read.conda import read_conda

        return read_conda(path, text)
    if kind == "pyproject":
        from envcheck.envfiles.read.toml import read_pyproject

        return read_pyproject(path, text)
    if kind == "pixi":
        from envcheck.envfiles.read.toml import read_pixi

        return read_pixi(path, text)
    if kind == "dockerfile":
        from envcheck.envfiles.read.dockerfile import read_dockerfile

        return read_dockerfile(path, text)
    if kind == "requirements":
        from envcheck.envfiles.read.requirements import read_requirements

        return read_requirements(path, text)
    raise UsageError(
        f"{path}: not a file of a kind that is known (requirements.txt, environment.yml, pyproject.toml, pixi.toml, "
        "Dockerfile)"
    )


def format_of(path: Path, text: str) -> str | None:
    """The kind of a file, by its name and then by what is in it; None = none that is known."""
    name = path.name.lower()
    if name == "pixi.toml":
        return "pixi"
    if name.endswith(".toml"):
        return (
            "pixi"
            if re.search(r"^\[(?:workspace|system-requirements|pypi-dependencies)\]", text, re.M)
            else "pyproject"
        )
    if name.endswith((".yml", ".yaml")):
        return "conda" if re.search(r"^dependencies\s*:", text, re.M) else None
    if "dockerfile" in name or "containerfile" in name:
        return "dockerfile"
    if name.endswith((".txt", ".in", ".pip")):
        return "requirements"
    return "dockerfile" if re.match(r"(?:\s*#[^\n]*\n|\s*\n)*\s*(?:ARG|FROM)\s", text, re.I) else None
