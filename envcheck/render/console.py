"""A report as text for a person: the machine, the verdict, then findings worst first."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

from envcheck.findings import Finding, Report
from envcheck.render.summary import summary

STYLES = {"error": "bold red", "warning": "bold yellow", "note": "bold blue", "good": "bold green", "dim": "dim"}
LABELS = {
    "machine": "Machine",
    "gpu": "GPU",
    "driver": "Driver",
    "python": "Python",
    "torch": "PyTorch",
    "cuda": "CUDA",
    "tests": "Tests",
}
INDENT = 10


@dataclass(frozen=True)
class Line:
    """One output line: a label in its style, then the text; `command` lines are never wrapped."""

    text: str
    style: str = ""
    label: str = ""
    command: bool = False


def show(report: Report, console: Console, *, quiet: bool = False, verbose: bool = False) -> None:
    """Prints the report; `quiet` the verdict alone, `verbose` every check and what was skipped too."""
    width = max(40, min(console.width, 100))
    for line in lines(report, quiet=quiet, verbose=verbose):
        print_line(line, console, width)


def lines(report: Report, *, quiet: bool = False, verbose: bool = False) -> Iterator[Line]:
    """The report as lines, in order."""
    if not quiet:
        for label, text in summary(report.facts):
            yield Line(text, label=LABELS[label], style="dim")
        yield Line("")
    yield from verdict_lines(report)
    if quiet:
        return
    for finding in report.findings:
        if finding.severity == "note" and not verbose:
            continue
        yield Line("")
        yield from finding_lines(finding, verbose=verbose)
    notes = [f for f in report.findings if f.severity == "note"]
    if notes and not verbose:
        yield Line("")
        for note in notes:
            yield Line(f"{note.title.rstrip('.')}: {note.seen}".rstrip(": "), label="note", style="note")
    if verbose:
        yield from _details(report)


def verdict_lines(report: Report) -> Iterator[Line]:
    """The verdict in one line, and what would settle an unknown one."""
    errors = sum(f.severity == "error" for f in report.findings)
    warnings = sum(f.severity == "warning" for f in report.findings)
    primary = report.primary
    if report.verdict == "problems" and primary is not None:
        roots = sum(f.severity == "error" and f.consequence_of is None for f in report.findings)
        also = f", and {_count(errors - roots, 'consequence')} of it" if errors > roots else ""
        yield Line(f"{_count(max(roots, 1), 'problem')} found{also}.", style="error", label="Verdict")
    elif report.verdict == "unknown":
        yield Line("Could not tell: something that matters is unknown.", style="warning", label="Verdict")
        for item in report.skipped:
            if item.essential:
                yield Line(f"unknown: {item.reason}")
                if item.settle:
                    yield Line(item.settle, command=True)
    else:
        told = f" ({_count(warnings, 'warning')})" if warnings else ""
        yield Line(f"Healthy{told}.", style="good", label="Verdict")


def finding_lines(finding: Finding, *, verbose: bool = False) -> Iterator[Line]:
    """One finding: title, seen, why, what to run."""
    follows = f" (follows from {finding.consequence_of})" if finding.consequence_of else ""
    sure = "" if finding.confidence == "certain" else f" [{finding.confidence}]"
    yield Line(f"{finding.title}{sure}{follows}", style=finding.severity, label=finding.severity)
    if finding.consequence_of and not verbose:
        yield Line(finding.seen, label="seen")
        return
    place = f" (line {finding.line})" if finding.line is not None else ""
    yield Line(finding.seen + place, label="seen")
    yield Line(finding.why, label="why")
    yield Line(finding.remedy.text, label="do")
    for command in finding.remedy.commands:
        yield Line(command, command=True)
    if finding.otherwise:
        yield Line(finding.otherwise, label="if not")
    yield Line(f"envcheck explain {finding.rule}", label="more", style="dim")


def _details(report: Report) -> Iterator[Line]:
    if report.checks:
        yield Line("")
        yield Line("Smoke tests", style="note")
        for check in report.checks:
            seconds = f"{check.seconds:.2f} s" if check.seconds is not None else ""
            detail = f"  {check.detail}" if check.detail else ""
            style = "" if check.status == "passed" else "dim" if check.status == "skipped" else "error"
            yield Line(f"{check.name} on {check.device} {seconds}{detail}", label=check.status, style=style)
    if report.skipped:
        yield Line("")
        yield Line("Not judged, and why", style="note")
        for item in report.skipped:
            settle = f" Settle it: {item.settle}" if item.settle else ""
            yield Line(f"{item.rule}: {item.reason}.{settle}".replace("..", "."))
    if report.facts.probes:
        yield Line("")
        yield Line("Probes", style="note")
        for probe in report.facts.probes:
            outcome = probe.outcome
            seconds = f" ({outcome.seconds:.2f} s)" if outcome.seconds is not None else ""
            said = outcome.error or outcome.detail or ""
            yield Line(f"{probe.name}{seconds} {said}".strip(), label=outcome.status)


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


def print_line(line: Line, console: Console, width: int = 0) -> None:
    """Prints one line, wrapped to the console; commands are never wrapped."""
    width = width or max(40, min(console.width, 100))
    style = STYLES.get(line.style, "")
    if not line.text:
        console.print()
        return
    if line.command:
        # A command must survive copying: it is never wrapped, however narrow the terminal.
        console.print(Text(" " * INDENT + line.text, style="cyan"), soft_wrap=True, highlight=False)
        return
    for number, part in enumerate(_wrap(line.text, width - INDENT if line.label or line.style == "" else width)):
        text = Text()
        if line.label or line.style == "":
            text.append((line.label if number == 0 else "").ljust(INDENT), style=style or "bold")
            text.append(part, style=style if line.style in ("error", "warning", "good") and number == 0 else "")
        else:
            text.append(part, style=style)
        console.print(text, soft_wrap=True, highlight=False)


def _wrap(text: str, width: int) -> Iterable[str]:
    wrapped: list[str] = []
    for paragraph in text.splitlines() or [""]:
        wrapped += textwrap.wrap(
            paragraph, width, break_long_words=False, break_on_hyphens=False, drop_whitespace=True
        ) or [""]
    return wrapped
