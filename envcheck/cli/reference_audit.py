"""`envcheck reference --audit`: what decides about equal bits here, and where a program's two runs part."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envcheck.cli.options import write_json

if TYPE_CHECKING:
    from rich.console import Console

SCHEMA = 1
KINDS = {
    "forward": "computed differently",
    "gradient": "its gradient differs",
    "weights": "its new weights differ",
    "order": "the two runs did not do the same things",
}


def audit_command(
    console: Console, python: Path | None, device: str, program: Sequence[str], *, json: bool, quiet: bool
) -> int:
    """The exit code: 1 when something differs although it should not."""
    from envcheck.reference.audit import audit, audit_program
    from envcheck.target import choose

    interpreter = choose(python).python
    if program:
        told = audit_program(interpreter, program)
        code = int(told["difference"] is not None)
    else:
        told = audit(interpreter, device)
        code = int(any(row["status"] in ("differs", "crashed") for row in told["operations"]))
    if json:
        import msgspec

        write_json(
            msgspec.json.encode(
                {"schema": SCHEMA, "verdict": "problems" if code else "healthy", "findings": [], "audit": told}
            )
        )
    elif program:
        _show_program(console, told)
    else:
        _show(console, told, quiet=quiet)
    return code


def _show_program(console: Console, told: dict[str, Any]) -> None:
    difference = told["difference"]
    if difference is None:
        console.print(f"two runs, {told['steps']} steps, {told['tensors']} tensors: the same bits", markup=False)
        return
    console.print(
        f"first difference: step {difference['step']}, {difference['name']}: {KINDS[difference['kind']]}", markup=False
    )


def _show(console: Console, told: dict[str, Any], *, quiet: bool) -> None:
    for row in () if quiet else told["settings"]:
        mark = {True: "as it should be", False: "for equal bits: " + row["advice"], None: row["advice"]}[row["right"]]
        console.print(f"{row['name']:<44} {row['value']!s:<10} {mark}", markup=False)
    for row in told["operations"]:
        if row["status"] != "deterministic" or not quiet:
            console.print(f"{row['status']:<14} {row['operation']} {row['text']}", markup=False)
