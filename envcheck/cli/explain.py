"""`envcheck explain`: the page of a rule, the list of rules, or the rules closest to an error text."""

from __future__ import annotations

from typing import Annotated

import typer

from envcheck.cli.options import Json, NoColor, wants_color, write_json


def explain(
    rule: Annotated[
        list[str] | None, typer.Argument(help="A rule id, or some error text in quotes. Nothing: the list of rules.")
    ] = None,
    json: Json = False,
    no_color: NoColor = False,
) -> None:
    """What a rule means, how it shows, how to confirm it and how to mend it."""
    import msgspec

    from envcheck.errors import UsageError
    from envcheck.render import pages as view
    from envcheck.rules import EXPLAINED
    from envcheck.rules.page import closest, pages
    from envcheck.rules.search import rules_for_text

    titles = {item.id: item.title for item in EXPLAINED}
    text = " ".join(rule or ())
    if not text:
        if json:
            write_json(msgspec.json.encode({"schema": 1, "rules": [view.entry(item) for item in EXPLAINED]}))
        else:
            view.print_list(EXPLAINED, color=wants_color(no_color))
        return
    if text in titles:
        found = next(item for item in EXPLAINED if item.id == text)
        if json:
            write_json(msgspec.json.encode({"schema": 1, "rules": [view.entry(found, pages().get(text))]}))
        else:
            view.print_page(found, pages().get(text), color=wants_color(no_color))
        return
    near = list(dict.fromkeys([*rules_for_text(text), *closest(text, titles)]))[:5]
    if not near:
        raise UsageError(f"no rule is called '{text}', and none is close to it; see: envcheck explain")
    rows = [item for rule_id in near for item in EXPLAINED if item.id == rule_id]
    if json:
        write_json(msgspec.json.encode({"schema": 1, "rules": [view.entry(item) for item in rows]}))
    else:
        view.print_list(rows, color=wants_color(no_color), heading="The closest rules, best first:")
