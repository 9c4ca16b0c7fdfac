"""`envcheck export`: the environment as a file that rebuilds it, or whether the environment still meets a file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from envcheck.cli.options import FactsFile, Json, NoColor, Quiet, wants_color, write_json
from envcheck.cli.recommend import (
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
)

if TYPE_CHECKING:
    from envcheck.envfiles.kinds import File, Kind
    from envcheck.envfiles.model import Environment
    from envcheck.facts import Facts
    from envcheck.matrix import Matrix
    from envcheck.recommend.describe import Description

SCHEMA = 1

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
    from envcheck.errors import UsageError
    from envcheck.matrix import load
    from envcheck.recommend.describe import Description, is_version

    version = python if python and is_version(python) else None
    interpreter = Path(python) if python and not version else None
    said = Description(
        os=os,
        machine=machine,
        python=version,
        driver=driver,
        gpus=tuple(gpu or ()),
        capabilities=tuple(compute_cap or ()),
        rocm=rocm,
    )
    if check is not None:
        if kind is not None:
            raise UsageError("--check reads a file and writes none: leave out the KIND")
        raise typer.Exit(
            _check(check, said, interpreter, facts, lint=lint, strict=strict, json=json, no_color=no_color, quiet=quiet)
        )
    chosen = _kind(kind)
    matrix = load()
    if from_ == "installed":
        _refuse_description(said, facts)
        made = _from_installed(chosen, interpreter, matrix, output, _name(name, output, dated), (minimal, pins, hashes))
    elif from_ == "recommendation":
        if minimal or hashes or pins:
            raise UsageError("--minimal, --pins and --hashes go with --from installed")
        wish = {
            "torch": torch,
            "device": device,
            "prefer": prefer,
            "manager": manager or _manager(chosen, output, update),
        }
        made = _from_plan(chosen, said, interpreter, facts, matrix, _name(name, output, dated), wish, with_)
    else:
        raise UsageError(f"--from {from_!r} is unknown: recommendation or installed")
    mode = {"stdout": stdout, "dry_run": dry_run, "force": force, "update": update}
    _deliver(chosen, made, matrix, output, mode, json=json, quiet=quiet)


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


def _refuse_description(said: Description, snapshot: Path | None) -> None:
    from envcheck.errors import UsageError

    if said.another or said.python or snapshot is not None:
        raise UsageError("--from installed is about a Python of this machine: name it with --python PATH, nothing else")


def _from_plan(
    kind: Kind,
    said: Description,
    interpreter: Path | None,
    snapshot: Path | None,
    matrix: Matrix,
    name: str,
    wish: dict[str, str],
    with_: str | None,
) -> Environment:
    from envcheck.cli.recommend import companions_of, machine_facts
    from envcheck.envfiles.from_plan import environment
    from envcheck.recommend import Wishes, plan

    known = machine_facts(said, snapshot, interpreter, matrix)
    made = plan(known, matrix, Wishes(companions=companions_of(with_), **wish))
    return environment(made, known, matrix, name=name)


def _from_installed(
    kind: Kind, interpreter: Path | None, matrix: Matrix, folder: Path, name: str, how: tuple[bool, str | None, bool]
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
    installed, facts = _ask(interpreter)
    choices = Choices(minimal=minimal, exact=exact, hashes=hashes, conda=kind.conda)
    return environment(installed, facts, matrix, name=name, choices=choices, project=folder)


def _ask(interpreter: Path | None) -> tuple[Any, Facts]:
    """What is installed and what the machine is, asked at the same time."""
    from envcheck.cli.recommend import live_facts
    from envcheck.envfiles import installed
    from envcheck.target import choose

    session = installed.ask(choose(interpreter).python)
    facts = live_facts(interpreter, ask=True)
    return installed.finish(session), facts


# -- delivery ----------------------------------------------------------------------------------------------------------


def _deliver(
    kind: Kind, made: Environment, matrix: Matrix, folder: Path, mode: dict[str, bool], *, json: bool, quiet: bool
) -> None:
    from envcheck.envfiles import kinds

    files = kinds.files(kind, made, matrix)
    notes: list[str] = []
    if mode["stdout"]:
        results = [(file, "shown", file.text) for file in files[:1]]
    else:
        results = [_outcome(kind, file, made, matrix, folder, mode, notes) for file in files]
        if not mode["dry_run"]:
            _write(results, folder)
    if json:
        _write_json(kind, made, results, notes)
        return
    for file, status, text in results:
        if mode["stdout"]:
            print(text, end="")
        elif mode["dry_run"]:
            _show_diff(folder / file.path, text, status)
        elif not quiet:
            print(f"{status}: {folder / file.path}")
    if not quiet:
        for note in (*notes, *(f"mind: {line}" for line in made.warnings)):
            print(note, file=sys.stderr)


def _outcome(
    kind: Kind, file: File, made: Environment, matrix: Matrix, folder: Path, mode: dict[str, bool], notes: list[str]
) -> tuple[File, str, str]:
    """What happens to one file: "written", "replaced", "updated", "unchanged", "kept" (it is there and stays)."""
    from envcheck.envfiles.update import updated
    from envcheck.errors import UsageError

    target = folder / file.path
    if not (target.exists() or target.is_symlink()):
        return file, "written", file.text
    if file.beside:
        return file, "kept", _text(target)
    old = _text(target)
    if mode["update"]:
        text, said = updated(kind, old, made, matrix)
        notes += said
        return file, "unchanged" if text == old else "updated", text
    if not (mode["force"] or mode["dry_run"]):
        ways = "--update changes it in place, " if kind.name in ("conda", "requirements", "uv", "poetry") else ""
        raise UsageError(f"{target} is there already: {ways}--force replaces it, --dry-run shows the difference")
    return file, "unchanged" if file.text == old else "replaced", file.text


def _text(path: Path) -> str:
    from envcheck.errors import UsageError

    try:
        with path.open(encoding="utf-8", newline="") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: {getattr(error, 'strerror', None) or error}") from error


def _write(results: list[tuple[File, str, str]], folder: Path) -> None:
    from envcheck.errors import UsageError
    from envcheck.files import write_atomically

    for file, status, text in results:
        if status not in ("written", "replaced", "updated"):
            continue
        target = folder / file.path
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"{target.parent}: {error.strerror or error}") from error
        write_atomically(target, text.encode())


def _show_diff(target: Path, text: str, status: str) -> None:
    import difflib

    old = _text(target).splitlines() if target.exists() else []
    name = str(target)
    if status in ("kept", "unchanged"):
        print(f"{status}: {name}")
        return
    source = name if target.exists() else "/dev/null"
    for row in difflib.unified_diff(old, text.splitlines(), source, name, lineterm=""):
        print(row)


def _write_json(kind: Kind, made: Environment, results: list[tuple[File, str, str]], notes: list[str]) -> None:
    import msgspec

    document = {
        "schema": SCHEMA,
        "kind": kind.name,
        "name": made.name,
        "python": made.python,
        "torch": made.torch or None,
        "variant": made.variant or None,
        "files": [{"path": file.path, "status": status, "text": text} for file, status, text in results],
        "warnings": list(made.warnings),
        "notes": notes,
    }
    write_json(msgspec.json.encode(document))


# -- --check -----------------------------------------------------------------------------------------------------------


def _check(
    path: Path,
    said: Description,
    interpreter: Path | None,
    snapshot: Path | None,
    *,
    lint: bool,
    strict: bool,
    json: bool,
    no_color: bool,
    quiet: bool,
) -> int:
    from envcheck.cli.recommend import machine_facts
    from envcheck.envfiles.compare import Comparison, compare
    from envcheck.envfiles.lint import lint as lint_file
    from envcheck.envfiles.read import read
    from envcheck.errors import UsageError
    from envcheck.matrix import load

    wanted = read(path)
    matrix = load()
    described = said.another or said.python is not None or snapshot is not None
    if described and not lint:
        raise UsageError("a described machine has nothing installed: --lint judges the file for it")
    if lint or wanted.format == "dockerfile":
        facts = machine_facts(said, snapshot, interpreter, matrix)
        comparison: Comparison | None = None
    else:
        installed, facts = _ask(interpreter)
        comparison = compare(wanted, installed, facts, matrix)
    findings = lint_file(wanted, facts, matrix)
    bad = any(f.severity == "error" for f in findings)
    bad = bad or (comparison is not None and not comparison.same(strict=strict))
    if json:
        from envcheck.render.comparison import comparison_json

        write_json(comparison_json(wanted, comparison, findings, same=not bad))
    else:
        from rich.console import Console

        from envcheck.render.comparison import show_comparison

        color = wants_color(no_color)
        console = Console(no_color=not color, highlight=False, color_system="auto" if color else None)
        show_comparison(wanted, comparison, findings, console, bad=bad, strict=strict, quiet=quiet)
    return 1 if bad else 0
