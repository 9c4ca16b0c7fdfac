"""Options that several commands share, and what they mean."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from envcheck.errors import UsageError
from envcheck.facts import Facts

Json = Annotated[bool, typer.Option("--json", help="The machine-readable document on stdout, alone.")]
NoColor = Annotated[bool, typer.Option("--no-color", help="No colour (also: NO_COLOR in the environment).")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="The verdict alone.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Every check, and what was skipped and why.")]
Python = Annotated[
    Path | None,
    typer.Option(
        "--python",
        help="The interpreter under test. Default: that of the active venv or conda environment, else envcheck's own.",
    ),
]
FactsFile = Annotated[
    Path | None, typer.Option("--facts", help="Judge this saved snapshot (or a --json report) instead of the machine.")
]


def load_facts(path: Path) -> Facts:
    """A snapshot, or the facts inside a `--json` report.

    Raises:
        UsageError: unreadable, not JSON, or not a snapshot.
    """
    import msgspec

    from envcheck import facts as facts_module

    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from error
    try:
        document: Any = msgspec.json.decode(data)
        if isinstance(document, dict) and isinstance(document.get("facts"), dict):
            document = document["facts"]
        if not isinstance(document, dict) or "schema" not in document:
            raise UsageError(
                f"{path}: not a snapshot of envcheck (no schema number); make one with: envcheck facts -o FILE"
            )
        return facts_module.from_json(msgspec.json.encode(document))
    except msgspec.DecodeError as error:
        raise UsageError(
            f"{path}: not a snapshot of envcheck ({error}); make one with: envcheck facts -o FILE"
        ) from error
    except ValueError as error:
        raise UsageError(f"{path}: {error}") from error


def write_json(data: bytes) -> None:
    """One JSON document and a newline on stdout, whatever the terminal's encoding."""
    sys.stdout.flush()
    buffer = getattr(sys.stdout, "buffer", None)
    if buffer is None:
        print(data.decode())
    else:
        buffer.write(data + b"\n")
        buffer.flush()


def wants_color(no_color: bool) -> bool:
    """Colour only on a terminal, and never against NO_COLOR or --no-color."""
    return not no_color and "NO_COLOR" not in os.environ and sys.stdout.isatty()
