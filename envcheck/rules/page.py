"""The page of a rule: what it means, how it shows, how to confirm, how to mend; and the search among pages."""

from __future__ import annotations

import functools
import math
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

import msgspec

from envcheck.errors import MatrixError
from envcheck.facts import Struct


class Fix(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One way to mend it, for one situation."""

    where: str
    """"Linux, pip", "Windows", "conda", "container", "any"."""
    text: str
    commands: tuple[str, ...] = ()


class Page(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What a person reads about a rule. All texts are plain sentences, without markup."""

    means: str
    shows: tuple[str, ...]
    confirm: tuple[str, ...]
    fix: tuple[Fix, ...]
    not_this: tuple[str, ...] = ()
    """What it is confused with, and folk cures with the reason why not."""
    sources: tuple[str, ...] = ()


@functools.cache
def pages() -> dict[str, Page]:
    """All pages by rule id.

    Raises:
        MatrixError: a page file is not valid; the message names file, rule and field.
    """
    found: dict[str, Page] = {}
    for path in sorted((Path(__file__).parent / "pages").glob("*.toml")):
        for rule_id, table in _tables(path).items():
            if rule_id in found:
                raise MatrixError(f"{path.name}: the page of '{rule_id}' stands in another file too")
            try:
                found[rule_id] = msgspec.convert(_with_fixes(table), Page)
            except msgspec.ValidationError as error:
                raise MatrixError(f"{path.name}: [{rule_id}]: {error}") from error
    return found


def _tables(path: Path) -> dict[str, Any]:
    try:
        tables: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise MatrixError(f"{path.name}: {error}") from error
    return tables


def _with_fixes(table: dict[str, Any]) -> dict[str, Any]:
    """A fix may be written short, as "where: text"."""
    fixes = []
    for item in table.get("fix", ()):
        if isinstance(item, str):
            where, colon, text = item.partition(": ")
            fixes.append(
                {"where": where, "text": text} if colon and len(where) < 60 else {"where": "any", "text": item}
            )
        else:
            fixes.append(item)
    return {**table, "fix": fixes}


def closest(text: str, titles: dict[str, str], limit: int = 5) -> list[str]:
    """Rule ids whose page shares the rarest words with `text`, best first; [] when nothing is shared."""
    documents = {
        rule_id: Counter(_words(f"{rule_id.replace('-', ' ')} {title} {_page_text(rule_id)}"))
        for rule_id, title in titles.items()
    }
    frequency = Counter(word for words in documents.values() for word in words)
    asked = set(_words(text))
    scores: dict[str, float] = {}
    for rule_id, words in documents.items():
        shared = asked & set(words)
        # Rare words tell more; a word that stands on most pages tells nothing.
        score = sum(math.log(len(documents) / frequency[w]) for w in shared if frequency[w] < len(documents) / 2)
        if score > 0:
            scores[rule_id] = score / (1 + 0.1 * math.log(1 + len(words)))
    return sorted(scores, key=lambda r: (-scores[r], r))[:limit]


def _page_text(rule_id: str) -> str:
    page = pages().get(rule_id)
    return "" if page is None else " ".join((page.means, *page.shows))


def _words(text: str) -> list[str]:
    return [w for w in re.findall(r"[a-z0-9_]{2,}", text.lower()) if not w.isdigit()]
