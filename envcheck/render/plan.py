"""A plan as text for a person: the command first, then why, what to mind, and what else would do."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console

from envcheck.recommend.model import Plan
from envcheck.render.console import Line, print_line

WHY = 6
"""Reasons shown without -v: the answer has to fit on a screen."""
OTHERS = 3


def show_plan(plan: Plan, console: Console, *, verbose: bool = False) -> None:
    """Prints a plan; `verbose` every reason and every alternative."""
    width = max(40, min(console.width, 100))
    for line in plan_lines(plan, verbose=verbose):
        print_line(line, console, width)


def plan_lines(plan: Plan, *, verbose: bool = False) -> Iterator[Line]:
    """A plan as lines, in order."""
    if plan.status == "ok":
        yield from _possible(plan, verbose=verbose)
    else:
        yield from _impossible(plan, verbose=verbose)


def _possible(plan: Plan, *, verbose: bool) -> Iterator[Line]:
    yield Line(headline(plan), style="good", label="Install")
    for command in plan.commands:
        yield Line(command, command=True)
    yield Line("")
    for number, reason in enumerate(plan.why if verbose else plan.why[:WHY]):
        yield Line(reason, label="" if number else "why")
    for number, warning in enumerate(plan.warnings):
        yield Line(warning, style="" if number else "warning", label="" if number else "mind")
    yield from _others(plan, verbose=verbose)


def _impossible(plan: Plan, *, verbose: bool) -> Iterator[Line]:
    yield Line("No torch can be recommended for this machine as it is.", style="error", label="Blocked")
    for blocker in plan.blockers:
        yield Line(blocker.text, label="because")
        if blocker.way_out:
            yield Line(blocker.way_out, label="do")
        for command in blocker.commands:
            yield Line(command, command=True)
    yield from _others(plan, verbose=verbose)


def _others(plan: Plan, *, verbose: bool) -> Iterator[Line]:
    for other in plan.alternatives if verbose else plan.alternatives[:OTHERS]:
        yield Line("")
        text = f"{other.condition}: {headline(other)}" if other.status == "ok" else other.condition
        yield Line(text[:1].upper() + text[1:], label="or")
        for warning in other.warnings if verbose else other.warnings[:1]:
            yield Line(warning, label="")
        for command in other.commands:
            yield Line(command, command=True)
        if verbose:
            yield from _others(other, verbose=verbose)


def headline(plan: Plan) -> str:
    """The plan in one line: "torch 2.14.1 (CUDA 12.6 build) with torchvision 0.29.1, for Python 3.12"."""
    words = " ".join(plan.commands)
    beside = [f"{name} {version}" for name, version in _companions(plan) if name in words]
    text = f"torch {plan.torch} ({plan.build_name})"
    if beside:
        text += f" with {' and '.join(beside)}"
    return f"{text}, for Python {plan.python}" if plan.python else text


def _companions(plan: Plan) -> Iterator[tuple[str, str]]:
    for name, version in (("torchvision", plan.torchvision), ("torchaudio", plan.torchaudio)):
        if version:
            yield name, version
