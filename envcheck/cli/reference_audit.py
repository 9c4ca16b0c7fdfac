"""`envcheck reference --audit`: what decides about equal bits here, and where a program's two runs part."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envcheck.cli.options import write_json

if TYPE_CHECKING:
    from rich.console import Console

    from envcheck.findings import Finding
    from envcheck.reference.audit import Audit
    from envcheck.reference.program import Compared

SCHEMA = 1
STYLES = {
    "differs": "bold red",
    "crashed": "bold red",
    "failed": "bold red",
    "other-bits": "yellow",
    "refused": "yellow",
    "no-effect": "green",
    "equal": "green",
    "deterministic": "green",
}


def audit_command(
    console: Console,
    python: Path | None,
    device: str,
    program: Sequence[str],
    *,
    json: bool,
    quiet: bool,
    steps: int = 20,
    compiled: bool = False,
) -> int:
    """The exit code: 1 when something differs although it should not."""
    from envcheck.cli.reference_progress import Live
    from envcheck.target import choose

    interpreter = choose(python).python
    live = Live(enabled=not quiet and sys.stderr.isatty())

    def progress(text: str) -> None:
        live(text, None)

    try:
        if program:
            report, show = _program(interpreter, program, steps, progress)
        else:
            report, show = _installation(interpreter, device, progress, compiled=compiled)
    finally:
        live.close()
    if json:
        import msgspec

        from envcheck.redact import redact_document

        write_json(msgspec.json.encode(redact_document(msgspec.to_builtins(report))))
    else:
        show(console, quiet)
        console.print()
        _show_findings(console, report["findings"], quiet=quiet)
        console.print(f"verdict: {report['verdict']}", markup=False)
    return 0 if report["verdict"] == "healthy" else 1


def _report(findings: list[Finding], checks: list[Any], audit: dict[str, Any]) -> dict[str, Any]:
    wrong = any(finding.severity == "error" for finding in findings)
    return {
        "schema": SCHEMA,
        "verdict": "problems" if wrong else "healthy",
        "findings": findings,
        "checks": checks,
        "skipped": [],
        "audit": audit,
    }


def _installation(interpreter: Path, device: str, progress: Any, *, compiled: bool) -> tuple[dict[str, Any], Any]:
    from envcheck.reference.audit import audit, document
    from envcheck.reference.audit_findings import of_audit

    found = audit(interpreter, device, compiled=compiled, on_progress=progress)
    findings, checks = of_audit(found)
    return _report(findings, checks, document(found)), lambda console, quiet: _show(console, found, quiet=quiet)


def _program(interpreter: Path, program: Sequence[str], steps: int, progress: Any) -> tuple[dict[str, Any], Any]:
    from envcheck.reference.audit_findings import of_program
    from envcheck.reference.program import audit_program, document

    found = audit_program(interpreter, program, steps, on_progress=progress)
    return _report(of_program(found), [], document(found)), lambda console, _: _show_program(console, found)


def _show_program(console: Console, found: Compared) -> None:
    """What the finding does not say."""
    if found.difference is None:
        console.print(
            f"two runs of {found.name}, {found.steps} optimizer steps, {found.tensors} tensors: the same bits",
            markup=False,
        )
    end = found.one.end
    if end.get("sampled"):
        console.print(f"  of {end['sampled']} large tensors 32 MiB each were compared, spread over them", markup=False)
    if end.get("unread"):
        console.print(f"  {end['unread']} tensors could not be read and were not compared", markup=False)


def _show(console: Console, found: Audit, *, quiet: bool) -> None:
    if quiet:
        return
    rows: list[tuple[str, ...]] = []
    group = ""
    for row in found.settings:
        value = "not set" if row["value"] is None else str(row["value"])
        mark = "as it should be" if row["right"] else row["advice"]
        name = row["name"].removeprefix("backends.")
        rows.append((row["group"] if row["group"] != group else "", name, f"{value} ({mark})"))
        group = row["group"]
    _table(console, "settings before a program says anything", rows, whole=2)
    made = found.experiments
    rows = [("equal" if r.status == "no-effect" else r.status, r.loose, r.text) for r in made.controls.values()]
    rows += [(r.status, r.loose, r.text) for r in made.results]
    _table(console, "experiments: a short training, all strict but one thing, twice in fresh processes", rows)
    fine = [row["operation"] for row in found.operations if row["status"] == "deterministic"]
    rows = [("deterministic", ", ".join(fine))] if fine else []
    for row in found.operations:
        if row["status"] != "deterministic":
            off = "differs from call to call when they are off" if row["differs_when_off"] else ""
            rows.append((row["status"], ": ".join(filter(None, (row["operation"], row["text"], off)))))
    _table(
        console, "operations that have lacked a deterministic implementation, with deterministic algorithms on", rows
    )


def _table(console: Console, title: str, rows: Sequence[tuple[str, ...]], whole: int = 1) -> None:
    """whole: columns at the left whose words are never broken."""
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    for number in range(len(rows[0]) if rows else 0):
        table.add_column(no_wrap=number < whole, overflow="fold")
    for first, *rest in rows:
        table.add_row(Text(first, style=STYLES.get(first, "dim")), *(Text(word) for word in rest))
    console.print(f"\n{title}", style="bold", markup=False)
    console.print(table)


def _show_findings(console: Console, findings: Sequence[Finding], *, quiet: bool) -> None:
    from rich.markup import escape

    styles = {"error": "bold red", "warning": "yellow", "note": "cyan"}
    for finding in findings:
        console.print(f"[{styles[finding.severity]}]{finding.severity}[/] {escape(finding.title)}  ({finding.rule})")
        if not quiet:
            console.print(f"  seen: {escape(finding.seen)}")
            console.print(f"  why:  {escape(finding.why)}")
            console.print(f"  do:   {escape(finding.remedy.text)}")
            for command in finding.remedy.commands:
                console.print(f"        {escape(command)}")
