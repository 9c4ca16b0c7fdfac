"""`envcheck diff`: what differs between two machines, or between a snapshot and this one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from envcheck.cli.options import Json, NoColor, Python, Quiet, Verbose, load_facts, wants_color, write_json

if TYPE_CHECKING:
    from envcheck.facts import Facts


def diff(
    first: Annotated[Path, typer.Argument(metavar="A", help="A snapshot (envcheck facts) or a --json report.")],
    second: Annotated[
        Path | None, typer.Argument(metavar="[B]", help="Another. Without it: this machine as it is now.")
    ] = None,
    python: Python = None,
    quick: Annotated[bool, typer.Option("--quick", help="Of this machine: do not import torch.")] = False,
    timeout: Annotated[float, typer.Option("--timeout", min=1.0, help="Seconds for this machine at most.")] = 180.0,
    json: Json = False,
    no_color: NoColor = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Say what differs, what can matter for torch first, and which difference alone can explain a fault.

    Exit code: 0 the same, 1 they differ, 2 wrong usage, 3 envcheck failed.
    """
    from envcheck.differences import compare, to_document
    from envcheck.errors import UsageError
    from envcheck.matrix import load
    from envcheck.rules import RULES

    if second is not None and (python is not None or quick):
        raise UsageError("--python and --quick are for this machine: leave out the second snapshot")
    a = load_facts(first)
    b = load_facts(second) if second is not None else _live(python, quick=quick, timeout=timeout, quiet=quiet)
    names = (str(first), str(second) if second is not None else "this machine")
    made = compare(a, b, load(), RULES)
    if json:
        import msgspec

        write_json(msgspec.json.encode(to_document(made, *names)))
    else:
        from rich.console import Console

        from envcheck.render.differences import show_differences

        color = wants_color(no_color)
        console = Console(no_color=not color, highlight=False, color_system="auto" if color else None)
        show_differences(made, names, console, quiet=quiet, verbose=verbose)
    raise typer.Exit(0 if made.same else 1)


def _live(python: Path | None, *, quick: bool, timeout: float, quiet: bool) -> Facts:
    from envcheck.doctor import Examination
    from envcheck.render.progress import Progress

    return Examination(python, quick=quick, smoke=False, timeout=timeout).facts(Progress(enabled=not quiet))
