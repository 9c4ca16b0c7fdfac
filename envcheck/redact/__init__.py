"""Replaces what identifies a person or a machine by placeholders; everything else is left as it is.

Versions, package names, PCI addresses, device names and prose survive. Each expression has bounded repetitions, so the
time is linear in the text, and no placeholder is changed by a second run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from envcheck.facts import Facts
from envcheck.findings import Report
from envcheck.lazy import Regex
from envcheck.redact.names import redact_names, redact_people
from envcheck.redact.numbers import redact_numbers
from envcheck.redact.secrets import redact_secrets

__all__ = ["redact", "redact_document", "redact_facts", "redact_report"]

_PLAIN_VERSION = Regex(r"v?\d{1,6}(?:\.\w{1,20}){1,6}(?:[+-][\w.]{1,60})?$")
_ADDRESS_KEY = Regex(r"(?i)(?:^|_)(?:ip|addr|address|host|node)(?:$|_)")


def redact(text: str) -> str:
    """The text without user names, home directories, host names, addresses, e-mails, secrets and UUIDs."""
    people: set[str] = set()
    text = redact_secrets(text)
    text = redact_numbers(text)
    text = redact_names(text, people)
    return redact_people(text, people)


def redact_facts(facts: Facts) -> Facts:
    """The same facts with every text in them redacted, for sharing."""
    return msgspec.convert(redact_document(msgspec.to_builtins(facts)), type=Facts)


def redact_report(report: Report) -> Report:
    """The same report with every text in it redacted, its facts included."""
    return msgspec.convert(redact_document(msgspec.to_builtins(report)), type=Report)


def redact_document(document: Any) -> Any:
    """A JSON-like value: a name that one text betrays is replaced in all the others too."""
    people: set[str] = set()
    document = _walk(document, "", lambda text: redact_names(redact_numbers(redact_secrets(text)), people))
    return _walk(document, "", lambda text: redact_people(text, people)) if people else document


def _walk(value: Any, key: str, change: Callable[[str], str]) -> Any:
    """Applies `change` to every string of a JSON-like value, versions that stand alone in a field excepted."""
    if isinstance(value, str):
        if _PLAIN_VERSION.match(value) and not _ADDRESS_KEY.search(key):
            return value
        return change(value)
    if isinstance(value, list | tuple):
        return [_walk(item, key, change) for item in value]
    if isinstance(value, dict):
        if set(value) == {"name", "value"}:  # an environment variable: its name decides how its value is read
            name = str(value["name"])
            return {"name": name, "value": change(f"{name}={value['value']}").partition("=")[2]}
        return {name: _walk(item, name, change) for name, item in value.items()}
    return value
