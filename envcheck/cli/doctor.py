"""`envcheck doctor`: probe this machine and one Python environment, judge them, print causes and fixes."""

from __future__ import annotations

from typing import Annotated

import typer

from envcheck.cli.options import FactsFile, Json, NoColor, Python, Quiet, Verbose, load_facts, wants_color, write_json


def doctor(
    python: Python = None,
    quick: Annotated[bool, typer.Option("--quick", help="Do not import torch: files and metadata alone.")] = False,
    smoke: Annotated[bool, typer.Option("--smoke/--no-smoke", help="Run the tensor and kernel tests.")] = True,
    timeout: Annotated[
        float, typer.Option("--timeout", min=1.0, help="Seconds after which the answer comes, whatever hangs.")
    ] = 180.0,
    facts: FactsFile = None,
    json: Json = False,
    no_color: NoColor = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Check this machine and one Python environment; name the cause and the fix.

    Exit code: 0 healthy (notes and warnings allowed), 1 a problem or nothing proved, 2 wrong usage, 3 envcheck failed.
    """
    if facts is not None:
        from envcheck.matrix import load
        from envcheck.rules import RULES, evaluate

        report = evaluate(load_facts(facts), load(), RULES)
    else:
        # The child starts before anything else is imported: all that follows runs beside it.
        from envcheck.doctor import Examination
        from envcheck.render.progress import Progress

        examination = Examination(python, quick=quick, smoke=smoke and not quick, timeout=timeout)
        report = examination.finish(Progress(enabled=not quiet))
    if json:
        from envcheck.findings import to_json

        write_json(to_json(report))
    else:
        from rich.console import Console

        from envcheck.render.console import show

        color = wants_color(no_color)
        console = Console(no_color=not color, highlight=False, color_system="auto" if color else None)
        show(report, console, quiet=quiet, verbose=verbose)
    raise typer.Exit(0 if report.verdict == "healthy" else 1)
