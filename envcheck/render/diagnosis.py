"""The answer of `envcheck diagnose` for a person: one cause with its proof, what to do, and what else it might be."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console

from envcheck.findings import Finding, Report
from envcheck.render.console import Line, finding_lines, print_line

OWN_CODE = "This is the code, not the environment: nothing in the text speaks against the installation."


def show(report: Report, console: Console, *, quiet: bool = False, verbose: bool = False) -> None:
    """Prints the diagnosis; `quiet` the verdict alone, `verbose` every finding in full and what was not judged."""
    width = max(40, min(console.width, 100))
    for line in lines(report, quiet=quiet, verbose=verbose):
        print_line(line, console, width)


def lines(report: Report, *, quiet: bool = False, verbose: bool = False) -> Iterator[Line]:
    """The diagnosis as lines, in order."""
    yield from _verdict(report)
    primary = report.primary
    if quiet:
        return
    if primary is not None:
        yield Line("")
        yield from _cause(report, primary)
    for finding in report.findings:
        if finding is primary or (finding.severity == "note" and not verbose):
            continue
        yield Line("")
        yield from finding_lines(finding, verbose=verbose)
    notes = [finding for finding in report.findings if finding.severity == "note"]
    if notes and not verbose:
        yield Line("")
        for note in notes:
            yield Line(f"{note.title} {note.seen}".strip(), label="note", style="note")
    for conflict in report.facts.conflicts:
        yield Line("")
        places = ", ".join(f"line {number}" for number in conflict.lines)
        yield Line(
            f"The text disagrees about {conflict.field}: {' and '.join(conflict.values)} ({places}).",
            label="note",
            style="note",
        )
    if verbose:
        yield Line("")
        for item in report.skipped:
            settle = f" Settle it: {item.settle}" if item.settle else ""
            yield Line(f"{item.rule}: {item.reason}.{settle}".replace("..", "."), label="open", style="dim")


def _verdict(report: Report) -> Iterator[Line]:
    primary = report.primary
    if primary is not None:
        yield Line(f"{primary.title} ({primary.rule}, {primary.confidence})", label="Cause", style=primary.severity)
        if all(finding.area == "code" for finding in report.findings if finding.severity != "note"):
            yield Line(OWN_CODE)
    elif report.verdict == "healthy":
        yield Line("Healthy: nothing is wrong in what the text shows.", label="Verdict", style="good")
    else:
        yield Line("Could not tell.", label="Verdict", style="warning")
        for item in report.skipped:
            if item.essential:
                yield Line(f"{item.reason[:1].upper()}{item.reason[1:]}".rstrip(".") + ".")
                if item.settle:
                    yield Line("This would settle it:" if " " in item.settle else "This command would settle it:")
                    yield Line(item.settle, command=True)
                break


def _cause(report: Report, primary: Finding) -> Iterator[Line]:
    yield Line(primary.seen, label="seen")
    quoted = quotation(report, primary)
    if quoted:
        yield Line(quoted, label="proof", style="dim")
    yield Line(primary.why, label="why")
    yield Line(primary.remedy.text, label="do")
    for command in primary.remedy.commands:
        yield Line(command, command=True)
    if primary.otherwise:
        yield Line(primary.otherwise, label="if not")
    yield Line(f"envcheck explain {primary.rule}", label="more", style="dim")


def quotation(report: Report, finding: Finding) -> str:
    """The line of the paste that proves a finding: "report.txt:12: RuntimeError: ...", "" when no line does."""
    if finding.line is None:
        return ""
    for symptom in report.facts.symptoms:
        if symptom.line == finding.line:
            return f"{symptom.source}:{symptom.line}: {symptom.text}"
    for evidence in report.facts.evidence:
        if evidence.line == finding.line and evidence.text:
            return f"{evidence.source}:{evidence.line}: {evidence.text}"
    return f"line {finding.line}"
