"""Rule pages and rule lists, in the terminal and as Markdown."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from rich.console import Console

from envcheck.render.console import Line, print_line
from envcheck.rules.base import Named
from envcheck.rules.page import Page


def entry(rule: Named, page: Page | None = None) -> dict[str, Any]:
    """A rule as JSON-ready dict, with its page where one is given."""
    found: dict[str, Any] = {"id": rule.id, "area": rule.area, "title": rule.title}
    if page is not None:
        found["page"] = msgspec.to_builtins(page)
    return found


def print_list(rules: Iterable[Named], *, color: bool, heading: str = "") -> None:
    """Ids with their sentence, area by area."""
    console = _console(color=color)
    if heading:
        print_line(Line(heading, style="note"), console)
    area = ""
    for rule in rules:
        if not heading and rule.area != area:
            area = rule.area
            print_line(Line(""), console)
            print_line(Line(area, style="note"), console)
        console.print(f"  [bold]{rule.id}[/bold]", highlight=False, soft_wrap=True)
        print_line(Line(rule.title, label=" "), console)
    console.print("\nenvcheck explain RULE shows a rule's page.", highlight=False)


def print_page(rule: Named, page: Page | None, *, color: bool) -> None:
    """A rule's page in the terminal."""
    console = _console(color=color)
    for line in page_lines(rule, page):
        print_line(line, console)


def page_lines(rule: Named, page: Page | None) -> Iterable[Line]:
    """The page as lines."""
    yield Line(rule.id, style="note", label="rule")
    yield Line(rule.title, label="says")
    if page is None:
        return
    yield Line(page.means, label="means")
    for heading, items in (("shows as", page.shows), ("confirm", page.confirm)):
        yield Line("")
        for number, item in enumerate(items):
            yield Line(f"- {item}", label=heading if number == 0 else " ")
    yield Line("")
    for number, fix in enumerate(page.fix):
        yield Line(f"{fix.where}: {fix.text}", label="mend" if number == 0 else " ")
        for command in fix.commands:
            yield Line(command, command=True)
    for heading, items in (("but", page.not_this), ("sources", page.sources)):
        if items:
            yield Line("")
        for number, item in enumerate(items):
            yield Line(f"- {item}", label=heading if number == 0 else " ")


def markdown(rule: Named, page: Page) -> str:
    """The page as Markdown, by templates/rule.md.jinja."""
    import jinja2

    from envcheck.data import directory

    loader = jinja2.FileSystemLoader(directory("templates"))
    environment = jinja2.Environment(
        loader=loader,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701 - Markdown from our own texts
    )
    return environment.get_template("rule.md.jinja").render(rule=rule, page=page)


def _console(*, color: bool) -> Console:
    return Console(no_color=not color, highlight=False, color_system="auto" if color else None)
