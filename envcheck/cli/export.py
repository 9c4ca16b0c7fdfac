"""`envcheck export`: the environment as a file that rebuilds it, or whether the environment still meets a file."""

from __future__ import annotations

from pathlib import Path
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
from envcheck.cli.options import FactsFile, Json, NoColor, Quiet

if TYPE_CHECKING:
    from envcheck.envfiles.kinds import Kind
    from envcheck.envfiles.model import Environment
    from envcheck.matrix import Matrix
    from envcheck.recommend import Wishes

KindName = Annotated[
    str | None,
    typer.Argument(
        metavar="KIND",
        help="conda, requirements, uv, pixi, poetry, dockerfile, devcontainer, workflow or train.",
    ),
]
From = Annotated[str, typer.Option("--from", help="recommendation, or installed: what is there now.")]
CheckFile = Annotated[
    Path | None, typer.Option("--check", help="Write nothing: does the environment meet this file, and is it sound?")
]
Lint = Annotated[bool, typer.Option("--lint", help="With --check: the file alone, whatever is installed.")]
Strict = Annotated[bool, typer.Option("--strict", help="With --check: more than the file asks for counts too.")]
Folder = Annotated[Path, typer.Option("--output", "-o", help="The project folder that is written to.")]
Name = Annotated[str | None, typer.Option("--name", help="Name of the environment. Default: the folder's.")]
Dated = Annotated[bool, typer.Option("--dated", help="Add year and month to the name: detr_202612.")]
Stdout = Annotated[bool, typer.Option("--stdout", help="Print the file, write nothing.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would change, write nothing.")]
Force = Annotated[bool, typer.Option("--force", help="Replace files that are there.")]
Update = Annotated[
    bool, typer.Option("--update", help="Change a file that is there in place: comments and order stay.")
]
Minimal = Annotated[bool, typer.Option("--minimal", help="With --from installed: only what somebody asked for.")]
Pins = Annotated[
    str | None, typer.Option("--pins", help="exact or compatible. Default: exact; compatible with --minimal.")
]
Hashes = Annotated[bool, typer.Option("--hashes", help="With --from installed: hashes, where they are on record.")]


def export(
    kind: KindName = None,
    from_: From = "recommendation",
    check: CheckFile = None,
    lint: Lint = False,
    strict: Strict = False,
    output: Folder = Path(),
    name: Name = None,
    dated: Dated = False,
    stdout: Stdout = False,
    dry_run: DryRun = False,
    force: Force = False,
    update: Update = False,
    minimal: Minimal = False,
    pins: Pins = None,
    hashes: Hashes = False,
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
    json: Json = False,
    no_color: NoColor = False,
    quiet: Quiet = False,
) -> None:
    """Write the environment as files that rebuild it; with --check, compare it with a file.

    Exit code: 0 written, or the environment meets the file; 1 it does not, or the file is wrong; 2 wrong usage,
    3 envcheck failed.
    """
    from envcheck.cli.export_files import deliver
    from envcheck.errors import UsageError
    from envcheck.matrix import load

    asked = Asked.of(os, machine, python, driver, gpu, compute_cap, rocm, facts)
    if check is not None:
        from envcheck.cli.export_check import check as check_file

        if kind is not None:
            raise UsageError("--check reads a file and writes none: leave out the KIND")
        raise typer.Exit(check_file(check, asked, lint=lint, strict=strict, json=json, no_color=no_color, quiet=quiet))
    chosen = _kind(kind)
    matrix = load()
    if from_ == "installed":
        if asked.elsewhere:
            raise UsageError(
                "--from installed is about a Python of this machine: name it with --python PATH, nothing else"
            )
        made = _from_installed(chosen, asked, matrix, output, _name(name, output, dated), (minimal, pins, hashes))
    elif from_ == "recommendation":
        if minimal or hashes or pins:
            raise UsageError("--minimal, --pins and --hashes go with --from installed")
        from envcheck.recommend import Wishes

        wishes = Wishes(
            torch=torch,
            device=device,
            manager=manager or _manager(chosen, output, update),
            companions=companions_of(with_),
            prefer=prefer,
        )
        made = _from_plan(asked, matrix, _name(name, output, dated), wishes)
    else:
        raise UsageError(f"--from {from_!r} is unknown: recommendation or installed")
    mode = {"stdout": stdout, "dry_run": dry_run, "force": force, "update": update}
    deliver(chosen, made, matrix, output, mode, json=json, quiet=quiet)


def _kind(name: str | None) -> Kind:
    from envcheck.envfiles.kinds import KINDS
    from envcheck.errors import UsageError

    found = KINDS.get(name or "")
    if found is not None:
        return found
    known = ", ".join(KINDS)
    raise UsageError(f"{name!r} is no kind of file: one of {known}" if name else f"name a kind of file: {known}")


def _name(name: str | None, folder: Path, dated: bool) -> str:
    from envcheck.envfiles.made_for import project_name

    return project_name(name or folder.resolve().name, dated=dated)


def _manager(kind: Kind, folder: Path, update: bool) -> str:
    """Whom the plan is for. A file of conda's that takes torch from pip keeps doing so."""
    target = folder / kind.path
    if kind.name == "conda" and update and target.is_file():
        from envcheck.envfiles.read import read

        wanted = read(target)
        if any(w.name == "torch" and w.manager == "pip" for w in wanted.packages):
            return "pip"
    return kind.manager


def _from_plan(asked: Asked, matrix: Matrix, name: str, wishes: Wishes) -> Environment:
    from envcheck.envfiles.from_plan import environment
    from envcheck.recommend import plan

    known = asked.facts(matrix)
    return environment(plan(known, matrix, wishes), known, matrix, name=name)


def _from_installed(
    kind: Kind, asked: Asked, matrix: Matrix, folder: Path, name: str, how: tuple[bool, str | None, bool]
) -> Environment:
    from envcheck.envfiles.from_installed import Choices, environment
    from envcheck.errors import UsageError

    minimal, pins, hashes = how
    if pins not in (None, "exact", "compatible"):
        raise UsageError(f"--pins {pins!r} is unknown: exact or compatible")
    if hashes and kind.name != "requirements":
        raise UsageError(
            f"--hashes is for requirements: {kind.path} has no place for them. The lock files of uv, poetry and pixi hold "
            "them; of a conda environment: conda list --explicit --sha256"
        )
    exact = pins == "exact" if pins else not minimal
    installed, facts = asked.installed()
    choices = Choices(minimal=minimal, exact=exact, hashes=hashes, conda=kind.conda)
    return environment(installed, facts, matrix, name=name, choices=choices, project=folder)
