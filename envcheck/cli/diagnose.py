"""`envcheck diagnose`: judge what somebody pasted, name one cause and what to do, or say honestly that it cannot be told."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from envcheck.cli.options import Json, NoColor, Quiet, Verbose, wants_color, write_json
from envcheck.errors import UsageError
from envcheck.findings import Report

MAX_BYTES = 64 * 1024 * 1024
"""Of one file; a longer log is read up to here."""
EXIT = {"healthy": 0, "problems": 1, "unknown": 4}


def diagnose(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE...", help="Files with the pasted text, all of one machine; - reads standard input."
        ),
    ],
    json: Json = False,
    no_color: NoColor = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Judge what somebody pasted: collect_env, nvidia-smi, pip or conda output, tracebacks, logs, in any mixture.

    Exit code: 0 nothing wrong, 1 a cause found, 4 could not tell, 2 wrong usage, 3 envcheck failed.
    """
    report = examine([("standard input" if name == "-" else Path(name).name, load(name)) for name in files])
    if json:
        from envcheck.findings import to_json

        write_json(to_json(report))
    else:
        from rich.console import Console

        from envcheck.render.diagnosis import show

        color = wants_color(no_color)
        console = Console(no_color=not color, highlight=False, color_system="auto" if color else None)
        show(report, console, quiet=quiet, verbose=verbose)
    raise typer.Exit(EXIT[report.verdict])


def load(name: str) -> bytes:
    """The bytes of one file, or of standard input for "-".

    Raises:
        UsageError: missing, unreadable, empty, or binary.
    """
    from envcheck.captured.normalise import is_text

    label = "standard input" if name == "-" else name
    try:
        if name == "-":
            data = sys.stdin.buffer.read(MAX_BYTES)
        else:
            with Path(name).open("rb") as stream:
                data = stream.read(MAX_BYTES)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"{label}: {reason}; give a text file, or - for standard input") from error
    if not data.strip():
        raise UsageError(
            f"{label}: there is nothing in it; paste the output of `python -m torch.utils.collect_env` or an error"
        )
    if not is_text(data):
        raise UsageError(f"{label}: not a text file; give what was printed, not an archive, an image or a core dump")
    return data


def examine(texts: list[tuple[str, str | bytes]]) -> Report:
    """Texts of one machine, judged by all rules; everything in the answer is redacted."""
    from envcheck.captured import read
    from envcheck.captured.verdict import settle
    from envcheck.matrix import load as load_matrix
    from envcheck.redact import redact_report
    from envcheck.rules import RULES, evaluate

    return redact_report(settle(evaluate(read(texts), load_matrix(), RULES)))
