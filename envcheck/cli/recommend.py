"""`envcheck recommend`: the exact install command for this machine, or for one that options describe, and why."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from envcheck.cli.options import FactsFile, Json, NoColor, Quiet, Verbose, load_facts, wants_color, write_json

if TYPE_CHECKING:
    from envcheck.facts import Facts, System
    from envcheck.matrix import Matrix
    from envcheck.recommend import Plan
    from envcheck.recommend.describe import Description

PYTHON_LIMIT = 30.0
"""Seconds that the Python under test may take to describe itself."""
INSTALL_LIMIT = 3600.0
"""Seconds that an installation may take: a CUDA build is gigabytes."""

OtherSystem = Annotated[str | None, typer.Option("--os", help="Plan for linux, windows, macos or wsl.")]
OtherMachine = Annotated[str | None, typer.Option("--machine", help="x86_64, aarch64 or arm64.")]
OtherPython = Annotated[
    str | None, typer.Option("--python", help="A version to plan for (3.12, 3.13t), or the path of an interpreter.")
]
Driver = Annotated[str | None, typer.Option("--driver", help="NVIDIA driver version, such as 535.183.01.")]
Gpus = Annotated[list[str] | None, typer.Option("--gpu", help="Name of a GPU; repeat it for several.")]
Capabilities = Annotated[
    list[str] | None, typer.Option("--compute-cap", help="Compute capability of an NVIDIA GPU, such as 8.9.")
]
Rocm = Annotated[str | None, typer.Option("--rocm", help="ROCm version of the system, such as 6.4.")]
TorchWish = Annotated[str, typer.Option("--torch", help="A version or a specifier: 2.8.0, '>=2.6,<2.9'.")]
Manager = Annotated[str | None, typer.Option("--manager", help="pip, uv, conda, mamba, pixi or poetry.")]
Device = Annotated[str, typer.Option("--device", help="auto, cuda, rocm, xpu, mps or cpu.")]
With = Annotated[
    str | None, typer.Option("--with", help="What goes with torch: torchvision,torchaudio,triton; 'none' for nothing.")
]
Prefer = Annotated[str, typer.Option("--prefer", help="newest, or stable: patched once or three months old.")]
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
    from envcheck.recommend.describe import Description, is_version

    version = python if python and is_version(python) else None
    said = Description(
        os=os,
        machine=machine,
        python=version,
        driver=driver,
        gpus=tuple(gpu or ()),
        capabilities=tuple(compute_cap or ()),
        rocm=rocm,
    )
    matrix = load()
    known = machine_facts(said, facts, Path(python) if python and not version else None, matrix)
    wishes = Wishes(torch=torch, device=device, manager=manager, companions=companions_of(with_), prefer=prefer)
    made = plan(known, matrix, wishes)
    if install:
        _refuse_install(said, made, facts)
    _show(made, json=json, no_color=no_color, quiet=quiet, verbose=verbose)
    if install and made.status == "ok":
        raise typer.Exit(_install(known, made, yes=yes))
    raise typer.Exit(0 if made.status == "ok" else 1)


def companions_of(text: str | None) -> tuple[str, ...] | None:
    """The names of `--with`; None = not given, () = "none"."""
    if text is None:
        return None
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    return () if names == ("none",) else names


def machine_facts(said: Description, snapshot: Path | None, interpreter: Path | None, matrix: Matrix) -> Facts:
    """The machine: as a snapshot has it, as the options describe it, or as it is."""
    from envcheck.errors import UsageError
    from envcheck.recommend.describe import describe

    if snapshot is not None:
        if said.another or interpreter is not None:
            raise UsageError("--facts is a machine already: it goes with none of the options that describe one")
        return _with_version(load_facts(snapshot), said)
    if said.another:
        if interpreter is not None:
            raise UsageError("a described machine takes --python as a version, such as 3.12")
        return describe(said, matrix, here=_here())
    return _with_version(live_facts(interpreter, ask=said.python is None), said)


def _here() -> System:
    import platform

    from envcheck.facts import System

    name = {"linux": "linux", "win32": "windows", "darwin": "macos"}.get(sys.platform)
    arch = {"AMD64": "x86_64"}.get(platform.machine(), platform.machine())
    return System(os=name, machine=arch)


def live_facts(interpreter: Path | None, *, ask: bool) -> Facts:
    """This machine and one Python of it, both asked at the same time; torch is not imported."""
    from envcheck.probes.questioning import Questioning
    from envcheck.target import choose

    choice = choose(interpreter)
    questioning = Questioning(choice.python, quick=True) if ask else None
    from envcheck.probes.light import collect_light

    machine = collect_light()
    if questioning is None:
        return machine
    from envcheck.errors import TargetError
    from envcheck.facts import Facts
    from envcheck.probes.collect import merge
    from envcheck.probes.interpreter import facts_from

    answer = questioning.finish(PYTHON_LIMIT)
    problem = answer.problem()
    if problem is not None and interpreter is not None:
        raise TargetError(f"{problem}; give --python a version or the path of a Python interpreter")
    asked = facts_from(answer, quick=True, choice=choice)
    return merge(Facts(python=asked.python, torch=asked.torch, env=asked.env, probes=asked.probes), machine)


def _with_version(facts: Facts, said: Description) -> Facts:
    """The same machine with another Python, and another ROCm, where they are given."""
    from msgspec.structs import replace

    from envcheck.facts import PythonEnv

    if said.python:
        free = said.python.endswith("t")
        facts = replace(facts, python=PythonEnv(version=said.python.rstrip("t"), free_threaded=free))
    if said.rocm:
        facts = replace(facts, amd=replace(facts.amd, rocm_version=said.rocm))
    return facts


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


def _refuse_install(said: Description, made: Plan, snapshot: Path | None) -> None:
    """--install is for this machine and a Python that is there, with pip or uv.

    Raises:
        UsageError: it is asked for anything else.
    """
    from envcheck.errors import UsageError

    if said.another or said.python or snapshot is not None:
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
