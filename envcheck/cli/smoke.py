"""`envcheck smoke`: the tensor and kernel tests alone, device by device."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from envcheck.cli.options import Json, NoColor, Python, Quiet, Verbose, wants_color, write_json

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rich.console import Console

    from envcheck.facts import Check
    from envcheck.smoke import Session

SCHEMA = 1
GOOD = ("passed", "skipped")


def smoke(
    python: Python = None,
    level: Annotated[
        int, typer.Option("--level", min=0, max=2, help="0: a second; 1: a few seconds; 2: about a minute.")
    ] = 1,
    device: Annotated[
        list[str] | None, typer.Option("--device", help="cpu, cuda:1, xpu:0, mps; repeatable. Default: all there are.")
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option("--only", help="Name of a test, or a pattern such as 'matmul-*'; repeatable.")
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", min=0, help="Repeat a run with its printed seed.")] = None,
    limit: Annotated[float, typer.Option("--limit", min=1.0, help="Seconds that one test may take.")] = 60.0,
    list_: Annotated[bool, typer.Option("--list", help="Show the tests and run none.")] = False,
    json: Json = False,
    no_color: NoColor = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Prove that each device computes right with this build of torch.

    Exit code: 0 all passed or skipped with a reason, 1 otherwise, 2 wrong usage.
    """
    from rich.console import Console

    color = wants_color(no_color)
    console = Console(no_color=not color, highlight=False, color_system="auto" if color else None)
    if list_:
        _list(console, json)
        return
    _check_names(only or ())
    session, interpreter = _run(python, level, device or (), only or (), seed, limit, quiet)
    if json:
        write_json(_document(session, interpreter, level))
    else:
        _show(console, session, quiet=quiet, verbose=verbose)
    raise typer.Exit(0 if _good(session.checks) else 1)


def _good(checks: Sequence[Check]) -> bool:
    # Nothing proved is not good either.
    return any(c.status == "passed" for c in checks) and all(c.status in GOOD for c in checks)


def _check_names(only: Sequence[str]) -> None:
    import fnmatch

    from envcheck.errors import UsageError
    from envcheck.smoke import list_checks

    names = [entry.name for entry in list_checks()] if only else []
    for pattern in only:
        if not fnmatch.filter(names, pattern):
            raise UsageError(f"no smoke test is called '{pattern}'; the list: envcheck smoke --list")


def _run(
    python: Path | None,
    level: int,
    devices: Sequence[str],
    only: Sequence[str],
    seed: int | None,
    limit: float,
    quiet: bool,
) -> tuple[Session, Path]:
    from envcheck.render.progress import Progress
    from envcheck.smoke import Session, run_smoke
    from envcheck.target import choose

    interpreter = choose(python).python
    progress = Progress(enabled=not quiet, patience=0.5)
    session = Session(seed=seed)
    try:
        progress("importing torch")
        run_smoke(
            interpreter,
            level=level,
            devices=devices,
            only=only,
            limit=limit,
            session=session,
            on_start=lambda name, where: progress(f"{name} on {where}"),
        )
    finally:
        progress.close()
    return session, interpreter


def _list(console: Console, json: bool) -> None:
    from envcheck.smoke import list_checks

    entries = list_checks()
    if json:
        import msgspec

        tests = [{"name": e.name, "level": e.level, "sentence": e.sentence} for e in entries]
        write_json(msgspec.json.encode({"schema": SCHEMA, "tests": tests}))
        return
    for entry in entries:
        console.print(f"{entry.level}  {entry.name:<22} {entry.sentence}", markup=False, soft_wrap=True)


def _document(session: Session, python: Path, level: int) -> bytes:
    import msgspec

    document: dict[str, Any] = {
        "schema": SCHEMA,
        "python": str(python),
        "torch": session.torch,
        "level": level,
        "seed": session.seed,
        "checks": session.checks,
    }
    return msgspec.json.encode(document)


STYLES = {"passed": "green", "skipped": "dim", "failed": "bold red", "crashed": "bold red", "timeout": "bold red"}


def _show(console: Console, session: Session, *, quiet: bool, verbose: bool) -> None:
    """Failures in full, the rest in a line per device; -v: every test."""
    from rich.markup import escape

    for check in () if quiet else session.checks:
        if not verbose and check.status in GOOD:
            continue
        style = STYLES.get(check.status, "")
        seconds = "" if check.seconds is None else f" ({check.seconds:.2f} s)"
        console.print(f"[{style}]{check.status:<8}[/] {escape(f'{check.name} on {check.device}{seconds}')}")
        if check.detail:
            console.print(f"         {escape(check.detail)}")
    for device in dict.fromkeys(check.device for check in session.checks):
        mine = [check.status for check in session.checks if check.device == device]
        counts = ", ".join(f"{mine.count(status)} {status}" for status in STYLES if status in mine)
        console.print(f"{device}: {counts}", markup=False)
    if not quiet:
        console.print(f"torch {session.torch or 'unknown'}, seed {session.seed}", markup=False)
        if not verbose and any(c.status == "skipped" for c in session.checks):
            print("-v shows every test and why some were skipped", file=sys.stderr)
