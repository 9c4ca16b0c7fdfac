"""How findings about the user's own code speak: it is the program, and the installation is not to blame."""

from __future__ import annotations

from envcheck.facts import Facts, Symptom
from envcheck.findings import Finding, Remedy
from envcheck.rules.base import Rule
from envcheck.rules.driver_signs import at, quoted, signs

FINE = "This is the program's own code (or its data); the environment is fine as far as this error goes."


def sign(facts: Facts, *kinds: str) -> Symptom | None:
    """The first of these texts that a program of the user's wrote (what the smoke tests say is none)."""
    return next((s for s in signs(facts, *kinds) if not (s.source or "").startswith("smoke test")), None)


def code_error(
    rule: Rule,
    text: Symptom,
    why: str,
    remedy: Remedy,
    *,
    title: str = "",
    confidence: str = "certain",
    otherwise: str = "",
    values: tuple[str | None, ...] = (),
    severity: str = "error",
) -> Finding:
    """A finding about the user's code, quoting the error and saying that nothing has to be installed for it."""
    return rule.finding(
        severity,
        title=title,
        seen=quoted(text, *values),
        why=f"{why} {FINE}",
        remedy=remedy,
        confidence=confidence,
        otherwise=otherwise,
        line=at(text),
    )
