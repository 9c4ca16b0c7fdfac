"""A file against an environment, as a table for a person and as JSON."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from rich.console import Console
from rich.table import Table

from envcheck.envfiles.compare import Comparison
from envcheck.envfiles.read import Wanted
from envcheck.findings import Finding
from envcheck.render.console import Line, finding_lines, print_line

SCHEMA = 1
EXTRAS = 8
"""Names of additional packages that are shown: they are no fault."""


def show_comparison(
    wanted: Wanted,
    comparison: Comparison | None,
    findings: Iterable[Finding],
    console: Console,
    *,
    bad: bool,
    strict: bool,
    quiet: bool,
) -> None:
    """Prints what differs, what mends it, and what is wrong with the file."""
    findings = tuple(findings)
    warned = any(f.severity == "warning" for f in findings)
    print_line(_headline(wanted, comparison, bad=bad, warned=warned, strict=strict), console)
    if quiet:
        return
    for item in findings:
        print_line(Line(""), console)
        for line in finding_lines(item):
            print_line(line, console)
    if comparison is not None:
        _rows(comparison, console, strict=strict)
    for text in wanted.unread:
        print_line(Line(f"not read: {text}", style="dim"), console)


def _headline(wanted: Wanted, comparison: Comparison | None, *, bad: bool, warned: bool, strict: bool) -> Line:
    if comparison is None:
        text = (
            "has faults" if bad else "can be used, with a warning" if warned else "is sound, as far as the tables say"
        )
    elif comparison.same(strict=strict):
        text = f"is met by this environment ({comparison.checked} packages)" + (", but has faults" if bad else "")
    else:
        text = "is not met by this environment"
    return Line(f"{wanted.path} {text}.", style="error" if bad else "warning" if warned else "good")


def _rows(comparison: Comparison, console: Console, *, strict: bool) -> None:
    rows = [r for r in comparison.rows if strict or r.kind != "extra"]
    if rows:
        table = Table(box=None, pad_edge=False, show_edge=False)
        for title in ("", "package", "the file", "here"):
            table.add_column(title, overflow="fold")
        for row in rows:
            table.add_row(row.kind, row.name, row.wanted or "-", row.found or "-")
        console.print()
        console.print(table)
    for number, command in enumerate(comparison.commands):
        if number == 0:
            print_line(Line("This mends it:", label="do"), console)
        print_line(Line(command, command=True), console)
    extra = [r.name for r in comparison.rows if r.kind == "extra"]
    if extra and not strict:
        more = f" and {len(extra) - EXTRAS} more" if len(extra) > EXTRAS else ""
        print_line(Line(f"Besides, not in the file: {', '.join(extra[:EXTRAS])}{more}.", style="dim"), console)


def comparison_json(wanted: Wanted, comparison: Comparison | None, findings: Iterable[Finding], *, same: bool) -> bytes:
    """The same as a document: `same` is false where the exit code is 1."""
    rows = comparison.rows if comparison else ()
    document = {
        "schema": SCHEMA,
        "file": str(wanted.path),
        "format": wanted.format,
        "same": same,
        "compared": comparison is not None,
        **{
            kind: [
                {"name": r.name, "wanted": r.wanted or None, "found": r.found or None} for r in rows if r.kind == kind
            ]
            for kind in ("missing", "different", "extra")
        },
        "commands": list(comparison.commands) if comparison else [],
        "findings": [msgspec.to_builtins(f) for f in findings],
        "unread": list(wanted.unread),
    }
    return msgspec.json.encode(document)
