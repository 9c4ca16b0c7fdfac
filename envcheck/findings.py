"""What is said about a machine: severities, remedies, findings, the report."""

from __future__ import annotations

from typing import Any

import msgspec

from envcheck.facts import Check, Facts, Struct
from envcheck.facts import document as facts_document

SCHEMA = 1
SEVERITIES = ("error", "warning", "note")
AREAS = ("build", "install", "library", "driver", "platform", "runtime", "code", "reproducibility", "performance")
CONFIDENCES = ("certain", "likely", "possible")


class Remedy(Struct, frozen=True, kw_only=True):
    """What to do: a sentence or a few, and the commands apart from them, ready to copy."""

    text: str
    commands: tuple[str, ...] = ()


class Finding(Struct, frozen=True, kw_only=True, omit_defaults=False):
    """One statement about the machine: what was seen, what it causes, what to run.

    rule is the id (vocabulary of docs/rules); severity "error" (it is or will be broken), "warning" (part of it is, or
    soon will be), "note" (worth knowing, nothing is broken).
    """

    rule: str
    severity: str
    area: str
    title: str
    seen: str
    """The values that prove it."""
    why: str
    """The consequence."""
    remedy: Remedy
    confidence: str = "certain"
    consequence_of: str | None = None
    otherwise: str = ""
    """What to look at if it is not that; "" when certain."""
    line: int | None = None
    """First line of the paste that proves it."""


class Skipped(Struct, frozen=True, kw_only=True):
    """A rule that could not be judged, why, and what would settle it."""

    rule: str
    reason: str
    settle: str = ""
    """A command or a question that would make it known."""
    essential: bool = False
    """Without it the machine cannot be called healthy."""


class Report(Struct, frozen=True, kw_only=True, omit_defaults=False):
    """The whole judgement. `verdict`: "healthy" | "problems" | "unknown"."""

    verdict: str
    findings: tuple[Finding, ...]
    checks: tuple[Check, ...]
    skipped: tuple[Skipped, ...]
    facts: Facts
    schema: int = SCHEMA

    @property
    def primary(self) -> Finding | None:
        """The first error or warning: the cause that is named."""
        for finding in self.findings:
            if finding.severity != "note":
                return finding
        return None


def document(report: Report) -> dict[str, Any]:
    """The report as the JSON-ready dict of the contract."""
    return {
        "schema": report.schema,
        "verdict": report.verdict,
        "findings": msgspec.to_builtins(report.findings),
        "checks": msgspec.to_builtins(report.checks),
        "skipped": msgspec.to_builtins(report.skipped),
        "facts": facts_document(report.facts),
    }


def to_json(report: Report) -> bytes:
    """The report as JSON bytes."""
    return msgspec.json.encode(document(report))
