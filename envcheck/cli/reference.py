"""`envcheck reference`: the seeded training that proves an installation."""

from __future__ import annotations

from dataclasses import dataclass
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
        typer.Argument(
            help="With --audit, after `--`: a program (-- python train.py ...) whose modules and optimizers are watched in "
            "two runs. It is really run twice, and ended after --steps: what it writes it writes twice."
        ),
    ] = None,
    preset: Annotated[
        str,
        typer.Option(
            "--preset",
            help="quick (under a minute), standard (and 3 epochs of training), full (20 epochs of CIFAR-10).",
        ),
    ] = "quick",
    device: Annotated[
        str, typer.Option("--device", help="cpu, cuda:1, mps, xpu; default: the best there is.")
    ] = "auto",
    data: Annotated[
        Path | None,
        typer.Option(
            "--data",
            help="The folder that holds cifar-10-batches-py, checked by md5; without it, images made from integers.",
        ),
    ] = None,
    download: Annotated[
        bool, typer.Option("--download", help="Let torchvision download CIFAR-10 into --data (170 MB).")
    ] = False,
    epochs: Annotated[
        int | None, typer.Option("--epochs", min=1, help="Epochs of the training, other than the preset's.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the training.")] = 1,
    threads: Annotated[int, typer.Option("--threads", min=0, help="CPU threads; 0 = torch's own choice.")] = 0,
    compile_: Annotated[bool, typer.Option("--compile", help="Repeat the steps under torch.compile.")] = False,
    audit: Annotated[
        bool,
        typer.Option(
            "--audit", help="Which settings and operations break equal bits here; or where two runs of a program part."
        ),
    ] = False,
    steps: Annotated[
        int, typer.Option("--steps", min=1, help="With --audit: optimizer steps of the program that are compared.")
    ] = 20,
    record: Annotated[Path | None, typer.Option("--record", help="Keep the report in this file.")] = None,
    against: Annotated[
        Path | None, typer.Option("--against", help="Compare with a report kept earlier or elsewhere.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", help="A picture of the curves, .png or .svg (needs matplotlib).")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace files that --record and --plot name.")] = False,
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
    request = Request(preset, data, download, epochs, audit, tuple(program or ()), record, against, plot, force)
    request.check()
    if audit:
        from envcheck.cli.reference_audit import audit_command

        raise typer.Exit(
            audit_command(
                console, python, device, request.program, json=json, quiet=quiet, steps=steps, compiled=compile_
            )
        )
    training = ("--compile",) if compile_ else ()
    measured, judgement = _run(python, request, device, seed, threads, training, quiet)
    raise typer.Exit(_tell(console, measured, judgement, request, json=json, quiet=quiet, verbose=verbose))


@dataclass(frozen=True)
class Request:
    """What the command line asks for, as far as it has to fit together."""

    preset: str = "quick"
    data: Path | None = None
    download: bool = False
    epochs: int | None = None
    audit: bool = False
    program: tuple[str, ...] = ()
    record: Path | None = None
    against: Path | None = None
    plot: Path | None = None
    force: bool = False

    def check(self) -> None:
        """Before minutes are spent.

        Raises:
            UsageError: it makes no sense, or would end in vain.
        """
        from envcheck.errors import UsageError
        from envcheck.reference import PRESETS
        from envcheck.reference.cifar10 import check_files
        from envcheck.reference.compare import read

        if self.preset not in PRESETS:
            raise UsageError(f"no preset is called '{self.preset}'; there are {', '.join(PRESETS)}")
        if self.program and not self.audit:
            raise UsageError("a program is only run with --audit: envcheck reference --audit -- python train.py")
        asked = {"--record": self.record, "--against": self.against, "--plot": self.plot, "--data": self.data}
        idle = [name for name, value in asked.items() if self.audit and value is not None]
        if idle or (self.audit and (self.download or self.epochs is not None)):
            raise UsageError(
                f"{', '.join(idle) or '--download and --epochs'}: of no use with --audit, which trains nothing"
            )
        if self.download and self.data is None:
            raise UsageError("--download needs --data DIR, the folder to download to")
        if self.plot is not None and self.plot.suffix not in (".png", ".svg"):
            raise UsageError(f"{self.plot}: a picture is .png or .svg")
        for path in (self.record, self.plot):
            if path is not None and not path.absolute().parent.is_dir():
                raise UsageError(f"{path}: there is no such directory")
            if path is not None and path.is_dir():
                raise UsageError(f"{path}: is a directory, a file is wanted")
            if path is not None and path.exists() and not self.force:
                raise UsageError(f"{path} exists already; give --force to replace it")
        if self.against is not None:
            read(self.against)
        if self.data is not None and not self.download:
            check_files(self.data)


def _run(
    python: Path | None,
    request: Request,
    device: str,
    seed: int,
    threads: int,
    training: tuple[str, ...],
    quiet: bool,
) -> tuple[Measured, Judgement]:
    from envcheck.cli.reference_progress import Live
    from envcheck.reference import Options, judge, load_golden, measure
    from envcheck.reference.cifar10 import check_files
    from envcheck.reference.measure import fetch_cifar10
    from envcheck.target import choose

    interpreter = choose(python).python
    golden = load_golden()
    live = Live(enabled=not quiet)
    try:
        if request.download and request.data is not None:
            live("downloading CIFAR-10", None)
            fetch_cifar10(interpreter, request.data, live)
            check_files(request.data)
        options = Options(
            python=interpreter,
            preset=request.preset,
            device=device,
            data=request.data,
            epochs=request.epochs,
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
    request: Request,
    *,
    json: bool,
    quiet: bool,
    verbose: bool,
) -> int:
    import msgspec

    from envcheck.files import write_atomically
    from envcheck.reference import compare, document, load_golden
    from envcheck.reference.compare import read

    report: dict[str, Any] = document(measured, judgement)
    code = 0 if judgement.verdict == "healthy" else 1
    if request.against is not None:
        report["comparison"] = compare(read(request.against), report["reference"], load_golden()["tolerances"])
        code = code or int(report["comparison"]["equality"] in ("none", "inputs"))
    data = msgspec.json.encode(report)
    if request.record is not None:
        write_atomically(request.record, data + b"\n")
    if json:
        write_json(data)
    else:
        from envcheck.render.reference import show_reference

        show_reference(report, judgement, console, quiet=quiet, verbose=verbose)
    if request.plot is not None:  # last: without matplotlib the report is there all the same
        from envcheck.reference.plot import draw

        draw(measured.options.python, report["reference"], request.plot)
    return code
