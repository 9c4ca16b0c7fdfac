"""A finding about a file. Ids are those of the rules where the cause is one of theirs; the rest stand in rules/others.py."""

from __future__ import annotations

from envcheck.findings import Finding, Remedy


def finding(
    rule: str,
    severity: str,
    title: str,
    *,
    seen: str,
    why: str,
    remedy: Remedy,
    confidence: str = "certain",
    line: int | None = None,
) -> Finding:
    """One statement about a file, in the area of its id."""
    from envcheck.rules import EXPLAINED  # not at import: most files have no finding

    return Finding(
        rule=rule,
        severity=severity,
        area=next(name.area for name in EXPLAINED if name.id == rule),
        title=title,
        seen=seen,
        why=why,
        remedy=remedy,
        confidence=confidence,
        line=line,
    )
