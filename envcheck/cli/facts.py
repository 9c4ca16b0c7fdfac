"""`envcheck facts`: everything that is known about this machine, as a snapshot that `--facts` reads."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from envcheck.cli.options import Python, write_json


def facts(
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write to this file instead of stdout.")] = None,
    share: Annotated[
        bool, typer.Option("--share", help="Without user names, home paths, host names, addresses and UUIDs.")
    ] = False,
    python: Python = None,
    quick: Annotated[bool, typer.Option("--quick", help="Do not import torch.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    timeout: Annotated[float, typer.Option("--timeout", min=1.0, help="Seconds at most.")] = 180.0,
    json: Annotated[bool, typer.Option("--json", help="Always so: a snapshot is JSON.")] = True,
) -> None:
    """Take a snapshot of this machine and one Python environment."""
    from envcheck.doctor import Examination
    from envcheck.errors import UsageError
    from envcheck.facts import to_json
    from envcheck.files import write_atomically
    from envcheck.render.progress import Progress

    if output is not None and output.exists() and not force:
        raise UsageError(f"{output} exists already; give --force to replace it")
    snapshot = Examination(python, quick=quick, smoke=False, timeout=timeout).facts(Progress(enabled=True))
    if share:
        from envcheck.redact import redact_facts

        snapshot = redact_facts(snapshot)
    data = to_json(snapshot)
    if output is None:
        write_json(data)
    else:
        write_atomically(output, data + b"\n")
