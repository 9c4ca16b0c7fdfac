"""`envcheck export`: the files into the project's folder, shown, or compared with those that are there."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from envcheck.cli.options import write_json

if TYPE_CHECKING:
    from envcheck.envfiles.kinds import File, Kind
    from envcheck.envfiles.model import Environment
    from envcheck.matrix import Matrix

SCHEMA = 1


def deliver(
    kind: Kind, made: Environment, matrix: Matrix, folder: Path, mode: dict[str, bool], *, json: bool, quiet: bool
) -> None:
    """Writes the files, or shows what it would write, and says what became of each."""
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
