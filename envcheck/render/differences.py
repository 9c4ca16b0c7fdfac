"""Two machines side by side: what differs, which difference explains which fault, and what only one of them shows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.console import Console

from envcheck.differences import Change, Comparison, Group
from envcheck.differences.units import MISSING
from envcheck.findings import Finding
from envcheck.render.console import Line, print_line

ALWAYS = 9
"""Subjects of a weight up to this are shown without -v."""
SHOWN = 8
"""Fields of one subject that are shown without -v."""
LONG = 60


def show_differences(made: Comparison, names: tuple[str, str], console: Console, *, quiet: bool, verbose: bool) -> None:
    """Prints the comparison."""
    for line in difference_lines(made, names, quiet=quiet, verbose=verbose):
        print_line(line, console)


def difference_lines(made: Comparison, names: tuple[str, str], *, quiet: bool, verbose: bool) -> Iterator[Line]:
    """The comparison as lines."""
    yield _headline(made, names)
    if quiet:
        return
    titles = {f.rule: f.title for f in (*made.only_a, *made.only_b)}
    for group in made.groups:
        if verbose or group.explains or group.subject.weight <= ALWAYS:
            yield from _group(group, titles, verbose=verbose)
    hidden = [g.subject.name for g in made.groups if g.subject.weight > ALWAYS and not g.explains]
    if hidden and not verbose:
        yield Line("")
        yield Line(f"Besides (with -v): {', '.join(hidden)}.", style="dim")
    yield from _outcomes(made, verbose=verbose)
    yield from _findings(made, names)
    if made.one_sided and verbose:
        yield Line("")
        yield Line(f"Known of one alone: {', '.join(made.one_sided)}.", style="dim")


def _headline(made: Comparison, names: tuple[str, str]) -> Line:
    if made.same:
        return Line(f"{names[0]} and {names[1]} do not differ in anything that both know.", style="good")
    count = len(made.groups)
    text = f"{names[0]} ({made.a.verdict}) and {names[1]} ({made.b.verdict}) differ in {count} subject{'s' * (count != 1)}."
    return Line(text, style="warning")


def _group(group: Group, titles: dict[str, str], *, verbose: bool) -> Iterator[Line]:
    yield Line("")
    yield Line(group.subject.name[:1].upper() + group.subject.name[1:], style="note", label="differs")
    for change in group.changes if verbose else group.changes[:SHOWN]:
        yield Line(_change(change), label=" ")
    if not verbose and len(group.changes) > SHOWN:
        yield Line(f"and {len(group.changes) - SHOWN} more (-v)", label=" ")
    for rule in group.explains:
        yield Line(f"this alone can explain {rule}: {titles.get(rule, '')}", label=" ", style="error")


def _change(change: Change) -> str:
    a, b = change.a, change.b
    if isinstance(a, dict) and isinstance(b, dict):
        keys = [k for k in dict.fromkeys((*a, *b)) if a.get(k) != b.get(k)]
        return f"{change.field}: " + "; ".join(f"{k} {value(a.get(k))} | {value(b.get(k))}" for k in keys)
    return f"{change.field}: {value(a)} | {value(b)}"


def value(item: Any) -> str:
    """A value in few words."""
    if item is MISSING or item is None:
        return "-"
    if isinstance(item, dict):
        main = item.get("version") or item.get("value") or item.get("name") or item.get("status") or item.get("text")
        return value(main) if main else value(", ".join(f"{k}={v}" for k, v in item.items()))
    if isinstance(item, (list, tuple)):
        return value(" ".join(value(part) for part in item) or "none")
    if isinstance(item, bool):
        return "yes" if item else "no"
    text = " ".join(str(item).split())
    if not text:
        return "none"
    return text if len(text) <= LONG else text[: LONG - 3] + "..."


def _outcomes(made: Comparison, *, verbose: bool) -> Iterator[Line]:
    """What the attempts came to: it follows from the differences above, or from something that neither shows."""
    for number, change in enumerate(made.outcomes if verbose else made.outcomes[:SHOWN]):
        if number == 0:
            yield Line("")
            yield Line("What came of it", style="note", label="results")
        yield Line(_change(change), label=" ")
    if not verbose and len(made.outcomes) > SHOWN:
        yield Line(f"and {len(made.outcomes) - SHOWN} more (-v)", label=" ")


def _findings(made: Comparison, names: tuple[str, str]) -> Iterator[Line]:
    for name, findings in ((names[0], made.only_a), (names[1], made.only_b)):
        if not findings:
            continue
        yield Line("")
        yield Line(f"Only {name}:", style="note")
        for finding in findings:
            yield from _finding(finding)


def _finding(finding: Finding) -> Iterator[Line]:
    yield Line(f"{finding.title} ({finding.rule})", style=finding.severity, label=finding.severity)
    yield Line(finding.seen, label="seen")
