"""`envcheck matrix`: shows and filters the compatibility tables."""

from __future__ import annotations

import platform
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from envcheck.cli.options import Json, NoColor, wants_color, write_json

if TYPE_CHECKING:
    from envcheck.matrix.show import Table

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Which torch runs on a P100: envcheck matrix torch --gpu 'Tesla P100'",
)

Version = Annotated[str | None, typer.Argument(help="A torch release: 2.8.0, or 2.8 for its newest patch.")]
Gpu = Annotated[str | None, typer.Option("--gpu", help="An NVIDIA GPU in any spelling.")]
ComputeCap = Annotated[str | None, typer.Option("--compute-cap", help="A compute capability: 8.9.")]
System = Annotated[str | None, typer.Option("--os", help="linux, windows, macos or wsl. Default: this system.")]
Machine = Annotated[str | None, typer.Option("--machine", help="x86_64, aarch64 or arm64. Default: this machine.")]
Driver = Annotated[str | None, typer.Option("--driver", help="An NVIDIA driver: 535.183.01.")]
Cuda = Annotated[str | None, typer.Option("--cuda", help="A CUDA version: 13.0.")]


@app.command("torch")
def torch(
    version: Version = None,
    gpu: Gpu = None,
    compute_cap: ComputeCap = None,
    driver: Driver = None,
    python: Annotated[str | None, typer.Option("--python", help="A Python: 3.12, 3.14t.")] = None,
    system: System = None,
    machine: Machine = None,
    json: Json = False,
    no_color: NoColor = False,
) -> None:
    """Releases; one release; or the releases that run on a GPU, a driver, a Python."""
    from envcheck.matrix import load, show

    matrix = load()
    os, arch, driver_os = _platform(system, machine)
    cc = show.capability_or_error(matrix, gpu, compute_cap)
    if cc or driver or python:
        found = show.suiting(
            matrix, os, arch, cc=cc, driver=driver, driver_os=driver_os, python=python, version=version
        )
        _print([found], json, no_color)
    elif version:
        _print(list(show.release(matrix, version)), json, no_color)
    else:
        _print([show.releases(matrix, os, arch)], json, no_color)


@app.command("cuda")
def cuda(
    version: Annotated[str | None, typer.Argument(help="A CUDA version, 12.8 or cu128.")] = None,
    json: Json = False,
    no_color: NoColor = False,
) -> None:
    """CUDA toolkits, the drivers they need, and the torch releases built with one."""
    from envcheck.matrix import load, show_hardware

    _print([show_hardware.toolkits(load(), version)], json, no_color)


@app.command("drivers")
def drivers(
    driver: Annotated[str | None, typer.Argument(help="A driver: which CUDA it has, which builds it runs.")] = None,
    cuda: Cuda = None,
    variant: Annotated[str | None, typer.Option("--variant", help="A build: cu130.")] = None,
    system: System = None,
    json: Json = False,
    no_color: NoColor = False,
) -> None:
    """Driver branches; the driver that a CUDA build needs; or what one driver can run."""
    from envcheck.matrix import load, show_hardware

    matrix = load()
    wanted = cuda or variant
    if driver:
        found = show_hardware.driver(matrix, driver, _platform(system, None)[2])
    elif wanted:
        found = show_hardware.drivers_for_cuda(matrix, wanted)
    else:
        found = show_hardware.branches(matrix)
    _print([found], json, no_color)


@app.command("gpus")
def gpus(
    name: Annotated[str | None, typer.Argument(help="A GPU in any spelling, NVIDIA or AMD.")] = None,
    compute_cap: ComputeCap = None,
    every: Annotated[bool, typer.Option("--all", help="Every board in the tables.")] = False,
    json: Json = False,
    no_color: NoColor = False,
) -> None:
    """One GPU; the boards of a compute capability; or the architectures."""
    from envcheck.matrix import load, show_hardware

    matrix = load()
    if name or compute_cap or every:
        _print([show_hardware.gpus(matrix, name, compute_cap)], json, no_color)
    else:
        _print([show_hardware.architectures(matrix)], json, no_color)


@app.command("python")
def python(
    version: Annotated[str | None, typer.Argument(help="A Python: 3.13, 3.14t.")] = None,
    json: Json = False,
    no_color: NoColor = False,
) -> None:
    """Pythons of each release, or the releases for one Python."""
    from envcheck.matrix import load, show

    _print([show.pythons(load(), version)], json, no_color)


@app.command("companions")
def companions(
    version: Version = None,
    torchvision: Annotated[str | None, typer.Option("--torchvision", help="The torch of this torchvision.")] = None,
    torchaudio: Annotated[str | None, typer.Option("--torchaudio", help="The torch of this torchaudio.")] = None,
    triton: Annotated[str | None, typer.Option("--triton", help="The torch of this triton.")] = None,
    json: Json = False,
    no_color: NoColor = False,
) -> None:
    """torchvision, torchaudio and triton beside torch."""
    from envcheck.matrix import load, show_hardware

    asked = {"torchvision": torchvision, "torchaudio": torchaudio, "triton": triton}
    package = next((name for name, value in asked.items() if value), None)
    found = show_hardware.companions(load(), version, package, asked[package] if package else None)
    _print([found], json, no_color)


@app.command("rocm")
def rocm(
    target: Annotated[str | None, typer.Argument(help="An AMD GPU or its target: gfx1100.")] = None,
    json: Json = False,
    no_color: NoColor = False,
) -> None:
    """What the ROCm builds hold code for."""
    from envcheck.matrix import load, show_hardware

    _print([show_hardware.rocm(load(), target)], json, no_color)


@app.command("jetpack")
def jetpack(
    l4t: Annotated[str | None, typer.Argument(help="An L4T number: 36.4.3.")] = None,
    json: Json = False,
    no_color: NoColor = False,
) -> None:
    """JetPack releases and where their torch comes from."""
    from envcheck.matrix import load, show_hardware

    _print([show_hardware.jetpacks(load(), l4t)], json, no_color)


@app.command("conda")
def conda(
    version: Version = None,
    channel: Annotated[str | None, typer.Option("--channel", help="pytorch or conda-forge.")] = None,
    json: Json = False,
    no_color: NoColor = False,
) -> None:
    """Builds on conda channels."""
    from envcheck.matrix import load, show_hardware

    _print([show_hardware.conda(load(), channel, version)], json, no_color)


@app.command("bad")
def bad(json: Json = False, no_color: NoColor = False) -> None:
    """Versions that are known not to work."""
    from envcheck.matrix import load, show_hardware

    _print([show_hardware.known_bad(load())], json, no_color)


@app.command("update")
def update(
    index_url: Annotated[
        str | None, typer.Option("--index-url", help="The package index. Default: the one pip is set up with.")
    ] = None,
    json: Json = False,
    no_color: NoColor = False,
) -> None:
    """Read releases newer than these tables from the package index into the user's cache."""
    from envcheck.data import directory
    from envcheck.matrix import Matrix, show
    from envcheck.matrix.refresh import cache, index, newer
    from envcheck.matrix.tables import Tables

    shipped = Matrix(Tables(directory("matrices")))
    rows = newer.rows(shipped, index_url or index.configured(), _tell)
    where = cache.write(rows, newer.today())
    _print([show.updated(shipped, rows, str(where))], json, no_color)


@app.command("check")
def check() -> None:
    """Look for contradictions in all tables (after editing one)."""
    from envcheck.matrix import load
    from envcheck.matrix.validate import problems

    found = list(problems(load().tables))
    for error in found:
        print(error, file=sys.stderr)
    if found:
        raise typer.Exit(1)
    print("no contradiction in the tables")


def _tell(text: str) -> None:
    """Progress, for somebody who watches."""
    if sys.stderr.isatty():
        print(text, file=sys.stderr)


def _platform(system: str | None, machine: str | None) -> tuple[str, str, str]:
    """System and machine of the wheels, and the system whose driver numbers count."""
    from envcheck.errors import UsageError

    here = {"linux": "linux", "win32": "windows", "darwin": "macos"}.get(sys.platform, "linux")
    wanted = system or here
    if wanted not in ("linux", "windows", "macos", "wsl"):
        raise UsageError(f"--os {wanted}: it is one of linux, windows, macos, wsl")
    os = "linux" if wanted == "wsl" else wanted
    own = platform.machine().lower().replace("amd64", "x86_64")
    default = own if system is None else {"macos": "arm64"}.get(os, "x86_64")
    arch = machine or default
    if arch not in ("x86_64", "aarch64", "arm64"):
        raise UsageError(f"--machine {arch}: it is one of x86_64, aarch64, arm64")
    return os, arch, "windows" if wanted == "wsl" else os


def _print(tables: list[Table], json: bool, no_color: bool) -> None:
    if json:
        import msgspec

        write_json(msgspec.json.encode({"schema": 1, "tables": tables}))
        return
    from rich.console import Console
    from rich.table import Table as View
    from rich.text import Text

    console = Console(no_color=not wants_color(no_color), highlight=False)
    for number, table in enumerate(tables):
        if number:
            console.print()
        console.print(Text(table.title, style="bold"))
        view = View(box=None, pad_edge=False, show_header=any(head for _, head in table.columns), header_style="dim")
        for _, head in table.columns:
            view.add_column(head, overflow="fold", vertical="top")
        for row in table.rows:
            view.add_row(*(Text(str(row[name])) for name, _ in table.columns))
        console.print(view)
        for note in table.notes:
            console.print(Text(note, style="dim"))
