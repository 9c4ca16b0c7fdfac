"""`envcheck smoke`: the tensor and kernel tests alone, device by device."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from envcheck.cli.options import Json, NoColor, Python, Quiet, Verbose, wants_color, write_json

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rich.console import Console

    from envcheck.facts import Check, Facts, UnderLoad
    from envcheck.findings import Finding
    from envcheck.smoke import Session

SCHEMA = 1
ENDURANCE = 3
"""The level from which on tests take minutes."""
DEVICES = 16
"""So many devices may take their minutes one after the other before the whole is given up."""
GOOD = ("passed", "skipped")


def smoke(
    python: Python = None,
    level: Annotated[
        int,
        typer.Option(
            "--level", min=0, max=3, help="0: a second; 1: a few seconds; 2: about a minute; 3: endurance, --minutes."
        ),
    ] = 1,
    minutes: Annotated[
        float, typer.Option("--minutes", min=0.01, help="Level 3: so long on each device, and on all GPUs at once.")
    ] = 5.0,
    speed: Annotated[
        bool, typer.Option("--speed", help="Measure how fast each device is, and what it could give.")
    ] = False,
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
    """Prove that each device computes right with this build of torch; with --speed, measure how fast.

    Exit code: 0 all passed or skipped with a reason, 1 otherwise, 2 wrong usage.
    """
    from rich.console import Console

    color = wants_color(no_color)
    console = Console(no_color=not color, highlight=False, color_system="auto" if color else None)
    if list_:
        _list(console, json, speed)
        return
    _check_names(only or (), speed)
    options = {"level": level, "devices": device or (), "only": only or (), "limit": limit, "minutes": minutes}
    session, interpreter, loads = _run(python, {**options, "speed": speed}, seed, quiet)
    watched = speed or level >= ENDURANCE
    judged = _judge(session, loads) if watched else None
    if json:
        write_json(_document(session, interpreter, level, judged))
    else:
        if judged is not None:
            from envcheck.render.speed import show_speed

            show_speed(console, judged.facts, judged.peaks, judged.findings, quiet=quiet)
        _show(console, session, quiet=quiet, verbose=verbose)
    raise typer.Exit(0 if _good(session.checks) else 1)


def _good(checks: Sequence[Check]) -> bool:
    # Nothing proved is not good either.
    return any(c.status == "passed" for c in checks) and all(c.status in GOOD for c in checks)


def _check_names(only: Sequence[str], speed: bool) -> None:
    import fnmatch

    from envcheck.errors import UsageError
    from envcheck.smoke import list_checks

    names = [entry.name for entry in list_checks(speed=speed)] if only else []
    what, words = ("measurement", "--speed --list") if speed else ("smoke test", "--list")
    for pattern in only:
        if not fnmatch.filter(names, pattern):
            raise UsageError(f"no {what} is called '{pattern}'; the list: envcheck smoke {words}")


def _run(
    python: Path | None, options: dict[str, Any], seed: int | None, quiet: bool
) -> tuple[Session, Path, tuple[UnderLoad, ...]]:
    from envcheck.render.progress import Progress
    from envcheck.smoke import Session, run_smoke
    from envcheck.target import choose

    interpreter = choose(python).python
    progress = Progress(enabled=not quiet, patience=0.5)
    session = Session(seed=seed)
    loads: tuple[UnderLoad, ...] = ()
    options = {
        **options,
        "session": session,
        "on_start": lambda name, where: progress(f"{name} on {where}"),
        "on_progress": lambda name, where, share, text: progress(f"{name} on {where}, {100 * share:.0f} %: {text}"),
    }
    try:
        progress("importing torch")
        if options["speed"] or options["level"] >= ENDURANCE:
            from envcheck.smoke.attended import run_attended

            loads = run_attended(interpreter, timeout=1800.0 + 60 * options["minutes"] * DEVICES, **options)
        else:
            run_smoke(interpreter, **options)
    finally:
        progress.close()
    return session, interpreter, loads


@dataclass(frozen=True)
class _Judged:
    """What was measured or watched, with what the machine is, and what follows from it."""

    facts: Facts
    findings: tuple[Finding, ...]
    peaks: dict[tuple[str, str], float]


def _judge(session: Session, loads: tuple[UnderLoad, ...]) -> _Judged:
    import msgspec

    from envcheck.facts import Torch
    from envcheck.matrix import load
    from envcheck.probes import Host, collect_machine
    from envcheck.rules import performance, performance_peak
    from envcheck.rules.base import evaluate

    facts = msgspec.structs.replace(
        collect_machine(Host()),
        torch=Torch(version=session.torch),
        checks=tuple(session.checks),
        speed=tuple(session.measurements) or None,
        under_load=loads,
    )
    matrix = load()
    report = evaluate(facts, matrix, performance.RULES)
    peaks = {(s.device, f"matmul-{s.name}"): s.peak for s in performance_peak.compute_shares(facts, matrix)}
    peaks.update({(s.device, "copy-within"): s.peak for s in performance_peak.memory_shares(facts, matrix)})
    cpu = performance_peak.cpu_share(facts)
    if cpu is not None:
        peaks["cpu", "matmul-fp32"] = cpu.peak
    return _Judged(facts, report.findings, peaks)


def _list(console: Console, json: bool, speed: bool) -> None:
    from envcheck.smoke import list_checks

    entries = list_checks(speed=speed)
    if json:
        import msgspec

        tests = [{"name": e.name, "level": e.level, "sentence": e.sentence} for e in entries]
        write_json(msgspec.json.encode({"schema": SCHEMA, "tests": tests}))
        return
    for entry in entries:
        number = "" if speed else f"{entry.level}  "
        console.print(f"{number}{entry.name:<22} {entry.sentence}", markup=False, soft_wrap=True)


def _document(session: Session, python: Path, level: int, judged: _Judged | None) -> bytes:
    import msgspec

    document: dict[str, Any] = {
        "schema": SCHEMA,
        "python": str(python),
        "torch": session.torch,
        "level": level,
        "seed": session.seed,
        "checks": session.checks,
    }
    if judged is not None:
        from envcheck.facts import document as facts_document

        document["measurements"] = session.measurements
        document["under_load"] = judged.facts.under_load
        document["peaks"] = [
            {"device": device, "name": name, "value": value} for (device, name), value in judged.peaks.items()
        ]
        document["findings"] = judged.findings
        document["facts"] = facts_document(judged.facts)
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
