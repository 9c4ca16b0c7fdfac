"""`envcheck recommend`: the exact install command for this machine, or for one that options describe, and why."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from envcheck.cli.asked import (
    Asked,
    Capabilities,
    Device,
    Driver,
    Gpus,
    Manager,
    OtherMachine,
    OtherPython,
    OtherSystem,
    Prefer,
    Rocm,
    TorchWish,
    With,
    companions_of,
)
from envcheck.cli.options import FactsFile, Json, NoColor, Quiet, Verbose, wants_color, write_json

if TYPE_CHECKING:
    from envcheck.facts import Facts
    from envcheck.recommend import Plan

INSTALL_LIMIT = 3600.0
"""Seconds that an installation may take: a CUDA build is gigabytes."""

Install = Annotated[bool, typer.Option("--install", help="Run the command after asking, then the doctor.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask (for scripts).")]


def recommend(
    os: OtherSystem = None,
    machine: OtherMachine = None,
    python: OtherPython = None,
    driver: Driver = None,
    gpu: Gpus = None,
    compute_cap: Capabilities = None,
    rocm: Rocm = None,
    torch: TorchWish = "",
    manager: Manager = None,
    device: Device = "auto",
    with_: With = None,
    prefer: Prefer = "newest",
    facts: FactsFile = None,
    install: Install = False,
    yes: Yes = False,
    json: Json = False,
    no_color: NoColor = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Name the torch build that is right for this machine, or for one that options describe, in one command.

    Exit code: 0 a plan, 1 impossible (and what blocks it), 2 wrong usage, 3 envcheck failed.
    """
    from envcheck.matrix import load
    from envcheck.recommend import Wishes, plan

    asked = Asked.of(os, machine, python, driver, gpu, compute_cap, rocm, facts)
    matrix = load()
    known = asked.facts(matrix)
    wishes = Wishes(torch=torch, device=device, manager=manager, companions=companions_of(with_), prefer=prefer)
    made = plan(known, matrix, wishes)
    if install:
        _refuse_install(asked, made)
    _show(made, json=json, no_color=no_color, quiet=quiet, verbose=verbose)
    if install and made.status == "ok":
        raise typer.Exit(_install(known, made, yes=yes))
    raise typer.Exit(0 if made.status == "ok" else 1)


def _show(made: Plan, *, json: bool, no_color: bool, quiet: bool, verbose: bool) -> None:
    if json:
        from envcheck.recommend import to_json

        write_json(to_json(made))
    elif quiet and made.status == "ok":
        for command in made.commands:
            print(command)
    else:
        from rich.console import Console

        from envcheck.render.plan import show_plan

        color = wants_color(no_color)
        console = Console(no_color=not color, highlight=False, color_system="auto" if color else None)
        show_plan(made, console, verbose=verbose)


# -- --install ---------------------------------------------------------------------------------------------------------


def _refuse_install(asked: Asked, made: Plan) -> None:
    """--install is for this machine and a Python that is there, with pip or uv.

    Raises:
        UsageError: it is asked for anything else.
    """
    from envcheck.errors import UsageError

    if asked.elsewhere:
        raise UsageError("--install is for this machine and its Python: leave out the options that describe another")
    if made.status == "ok" and made.manager not in ("pip", "uv"):
        raise UsageError(
            f"--install runs pip or uv, not {made.manager}: run the command yourself, or give --manager pip"
        )


def _install(facts: Facts, made: Plan, *, yes: bool) -> int:
    """Asks, runs the calls of the plan in the Python under test, then the doctor on it; never with more rights."""
    from envcheck.errors import UsageError

    executable = facts.python.executable
    if executable is None or not made.calls:
        raise UsageError("--install needs the interpreter that torch goes into: give it with --python PATH")
    if facts.python.externally_managed and facts.python.kind not in ("venv", "conda", "uv"):
        raise UsageError(
            "this Python belongs to the system and refuses packages: make a virtual environment, activate it"
        )
    if not yes and not _agreed():
        print("Nothing was installed.", file=sys.stderr)
        return 1
    for call in made.calls:
        code = _run(call)
        if code != 0:
            print(f"envcheck: the installation failed with exit code {code}; nothing else was run", file=sys.stderr)
            return 1
    return _run((sys.executable, "-m", "envcheck", "doctor", "--python", executable))


def _agreed() -> bool:
    from envcheck.errors import UsageError

    if not sys.stdin.isatty():
        raise UsageError("--install asks before it installs, and there is nobody to answer: give --yes")
    return typer.confirm("Run this now?", default=False, err=True)


def _run(words: tuple[str, ...]) -> int:
    """Runs one program, its lines on stderr as they come; its exit code."""
    from envcheck.process import Running

    print(f"+ {' '.join(words)}", file=sys.stderr)
    done = Running(words, on_line=lambda text: print(text, file=sys.stderr)).wait(INSTALL_LIMIT)
    if done.stderr and not done.ok:
        print(done.stderr.rstrip(), file=sys.stderr)
    if done.reason:
        print(done.reason, file=sys.stderr)
    return done.returncode if done.returncode is not None else 1
