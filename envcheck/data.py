"""Finds `matrices/` and `templates/`, in an installed wheel or in a checkout."""

from __future__ import annotations

from pathlib import Path

from envcheck.errors import EnvcheckError


def directory(name: str) -> Path:
    """The data directory of that name ("matrices", "templates").

    A wheel carries it as `envcheck/_data/<name>`; in a checkout it is beside the package.
    """
    package = Path(__file__).resolve().parent
    for candidate in (package / "_data" / name, package.parent / name):
        if candidate.is_dir():
            return candidate
    raise EnvcheckError(f"envcheck's own data directory '{name}' is missing: reinstall torch-envcheck")
