"""The report of the reference training as text: the claims, then findings, then how it compares."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.console import Console

from envcheck.reference import Judgement
from envcheck.reference.result import NAMES
from envcheck.render.console import Line, finding_lines, print_line

STYLES = {"proved": "good", "failed": "error", "skipped": "dim"}


def show_reference(
    report: dict[str, Any], judgement: Judgement, console: Console, *, quiet: bool, verbose: bool
) -> None:
    """Prints it; `quiet` the verdict (and the comparison's) alone."""
    for line in reference_lines(report, judgement, quiet=quiet, verbose=verbose):
        print_line(line, console)


def reference_lines(
    report: dict[str, Any], judgement: Judgement, *, quiet: bool = False, verbose: bool = False
) -> Iterator[Line]:
    """The report as lines."""
    told, machine = report["reference"], report["reference"]["machine"]
    if not quiet:
        where = machine.get("device_name") or machine.get("device") or "an unknown device"
        yield Line(f"torch {machine.get('torch', 'unknown')} on {where}; data: {NAMES[told['data']]}", label="PyTorch")
        for level in judgement.levels:
            yield Line(f"{level['name']}: {level['text']}", label=level["status"], style=STYLES[level["status"]])
        yield Line("")
    yield _verdict(judgement)
    for finding in () if quiet else judgement.findings:
        yield Line("")
        yield from finding_lines(finding, verbose=verbose)
    comparison = report.get("comparison")
    if comparison is not None:
        yield Line("")
        yield Line(comparison["text"], label="Compared", style="" if quiet else "note")
        for row in () if quiet else comparison["rows"]:
            yield Line(f"{row['level']}: {row['text']}")


def _verdict(judgement: Judgement) -> Line:
    proved = sum(level["status"] == "proved" for level in judgement.levels)
    skipped = sum(level["status"] == "skipped" for level in judgement.levels)
    words = f"{proved} claim{'s' if proved != 1 else ''} proved, {skipped} skipped"
    if judgement.verdict == "healthy":
        warned = any(f.severity == "warning" for f in judgement.findings)
        return Line(f"Healthy: {words}{', with a warning' if warned else ''}.", style="good", label="Verdict")
    if judgement.verdict == "unknown":
        return Line("Could not tell: nothing was proved.", style="warning", label="Verdict")
    roots = sum(f.severity == "error" and f.consequence_of is None for f in judgement.findings)
    return Line(f"{max(roots, 1)} problem{'s' if roots > 1 else ''} found; {words}.", style="error", label="Verdict")
