"""`envcheck reference`: the seeded training that proves an installation."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from envcheck.cli.options import Json, NoColor, Python, Quiet, Verbose, wants_color, write_json

if TYPE_CHECKING:
    from rich.console import Console

    from envcheck.reference import Judgement, Measured


def reference(
    program: Annotated[
        list[str] | None,
        typer.Argument(help="With --audit: a program to run twice, after `--`: -- python train.py ..."),
    ] = None,
    preset: Annotated[
        str,
        typer.Option("--preset", help="quick (under a minute), standard (some epochs of CIFAR-10), full (20 epochs)."),
    ] = "quick",
    device: Annotated[
        str, typer.Option("--device", help="cpu, cuda:1, mps, xpu; default: the best there is.")
    ] = "auto",
    data: Annotated[
        Path | None,
        typer.Option("--data", help="The folder that holds cifar-10-batches-py; its files are checked by md5."),
    ] = None,
    download: Annotated[
        bool, typer.Option("--download", help="Let torchvision download CIFAR-10 into --data (170 MB).")
    ] = False,
    epochs: Annotated[
        int | None, typer.Option("--epochs", min=1, help="Epochs of CIFAR-10, other than the preset's.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the training on CIFAR-10.")] = 1,
    threads: Annotated[int, typer.Option("--threads", min=0, help="CPU threads; 0 = torch's own choice.")] = 0,
    compile_: Annotated[bool, typer.Option("--compile", help="Repeat the steps under torch.compile.")] = False,
    audit: Annotated[
        bool, typer.Option("--audit", help="Which settings decide about equal bits, and which operations have none.")
    ] = False,
    record: Annotated[Path | None, typer.Option("--record", help="Keep the report in this file.")] = None,
    against: Annotated[
        Path | None, typer.Option("--against", help="Compare with a report kept earlier or elsewhere.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", help="A picture of the curves, .png or .svg (needs matplotlib).")
    ] = None,
    python: Python = None,
    json: Json = False,
    no_color: NoColor = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Prove this installation by a seeded training: the same bits twice, the right numbers, the right result.

    Exit code: 0 nothing wrong, 1 a problem or a difference, 2 wrong usage.
    """
    from rich.console import Console

    color = wants_color(no_color)
    console = Console(no_color=not color, highlight=False, color_system="auto" if color else None)
    _check(preset, data, download, epochs, audit, program, record, plot, against)
    if audit:
        from envcheck.cli.reference_audit import audit_command

        raise typer.Exit(audit_command(console, python, device, program or [], json=json, quiet=quiet))
    training = ("--compile",) if compile_ else ()
    measured, judgement = _run(python, preset, device, data, download, epochs, seed, threads, training, quiet)
    raise typer.Exit(
        _tell(console, measured, judgement, record, against, plot, json=json, quiet=quiet, verbose=verbose)
    )


def _check(
    preset: str,
    data: Path | None,
    download: bool,
    epochs: int | None,
    audit: bool,
    program: list[str] | None,
    record: Path | None,
    plot: Path | None,
    against: Path | None,
) -> None:
    from envcheck.errors import UsageError
    from envcheck.reference import PRESETS

    if preset not in PRESETS:
        raise UsageError(f"no preset is called '{preset}'; there are {', '.join(PRESETS)}")
    if program and not audit:
        raise UsageError("a program is only run with --audit: envcheck reference --audit -- python train.py")
    if data is None and (preset != "quick" or epochs is not None or download) and not audit:
        raise UsageError(
            f"{'--download' if download else '--epochs' if epochs is not None else 'this preset'} needs --data DIR, the folder of CIFAR-10"
        )
    if plot is not None and plot.suffix not in (".png", ".svg"):
        raise UsageError(f"{plot}: a picture is .png or .svg")
    for path in (record, plot):
        if path is not None and not path.absolute().parent.is_dir():
            raise UsageError(f"{path}: there is no such directory")
    if against is not None:
        from envcheck.reference.compare import read

        read(against)  # before minutes are spent


def _run(
    python: Path | None,
    preset: str,
    device: str,
    data: Path | None,
    download: bool,
    epochs: int | None,
    seed: int,
    threads: int,
    training: tuple[str, ...],
    quiet: bool,
) -> tuple[Measured, Judgement]:
    from envcheck.cli.reference_progress import Live
    from envcheck.reference import Options, judge, load_golden, measure
    from envcheck.reference.measure import fetch_cifar10
    from envcheck.target import choose

    interpreter = choose(python).python
    golden = load_golden()
    live = Live(enabled=not quiet and sys.stderr.isatty())
    try:
        if download and data is not None:
            live("downloading CIFAR-10", None)
            fetch_cifar10(interpreter, data)
        options = Options(
            python=interpreter,
            preset=preset,
            device=device,
            data=data,
            epochs=epochs,
            threads=threads,
            seed=seed,
            training=training,
        )
        measured = measure(options, live)
    finally:
        live.close()
    return measured, judge(measured, golden)


def _tell(
    console: Console,
    measured: Measured,
    judgement: Judgement,
    record: Path | None,
    against: Path | None,
    plot: Path | None,
    *,
    json: bool,
    quiet: bool,
    verbose: bool,
) -> int:
    import msgspec

    from envcheck.reference import compare, document, load_golden
    from envcheck.reference.compare import read

    report: dict[str, Any] = document(measured, judgement)
    code = 0 if judgement.verdict == "healthy" else 1
    if against is not None:
        report["comparison"] = compare(read(against), report["reference"], load_golden()["tolerances"])
        code = code or int(report["comparison"]["equality"] in ("none", "inputs"))
    data = msgspec.json.encode(report)
    if record is not None:
        record.write_bytes(data + b"\n")
    if plot is not None:
        from envcheck.reference.plot import draw

        draw(measured.options.python, report["reference"], plot)
    if json:
        write_json(data)
    else:
        _show(console, report, judgement, quiet=quiet, verbose=verbose)
    return code


STYLES = {"proved": "green", "failed": "bold red", "skipped": "dim"}
SEVERITY = {"error": "bold red", "warning": "yellow", "note": "cyan"}


def _show(console: Console, report: dict[str, Any], judgement: Judgement, *, quiet: bool, verbose: bool) -> None:
    from rich.markup import escape

    machine = report["reference"]["machine"]
    if not quiet:
        console.print(
            f"torch {machine.get('torch', 'unknown')} on {machine.get('device', 'unknown')}, data: {report['reference']['data']}",
            markup=False,
        )
        for level in judgement.levels:
            console.print(
                f"[{STYLES[level['status']]}]{level['status']:<8}[/] {level['name']:<20} {escape(level['text'])}"
            )
    for finding in judgement.findings:
        if finding.consequence_of is not None and not verbose:
            continue
        console.print(f"[{SEVERITY[finding.severity]}]{finding.severity}[/] {escape(finding.title)}  ({finding.rule})")
        if not quiet:
            console.print(f"  seen: {escape(finding.seen)}")
            console.print(f"  why:  {escape(finding.why)}")
            console.print(f"  do:   {escape(finding.remedy.text)}")
            for command in finding.remedy.commands:
                console.print(f"        {escape(command)}")
    comparison = report.get("comparison")
    if comparison is not None:
        console.print(f"compared: {comparison['text']}", markup=False)
        for row in () if quiet else comparison["rows"]:
            console.print(f"  {row['level']:<8} {row['text']}", markup=False)
    console.print(f"verdict: {judgement.verdict}", markup=False)
