"""Texts that propose something (a pull request, a feature) and name errors in their sentences: nobody has those errors here."""

from __future__ import annotations

import re

from envcheck.captured.document import Document
from envcheck.facts import Symptom
from envcheck.lazy import Regex

MAX_LENGTH = 600
"""Characters of a line that may be a sentence; a longer one is a log."""

_PROPOSAL = Regex(
    # Conventional Commits, the templates of pull requests, and the titles of wishes.
    r"^\W{0,4}(?:fix|feat|docs?|chore|refactor|perf|ci|build|style|tests?)(?:\([^)\n]{1,60}\))?!?: \S"
    r"|\b(?:this|the|my) (?:PR|pull request)\b|^\W{0,4}what does this PR do\b"
    r"|^\W{0,4}(?:\[(?:feature|feature request|proposal|RFC|enhancement|RFE)\]|(?:feature request|RFC|proposal): )|^\W{0,6}\U0001f680 feature\b",
    re.MULTILINE | re.IGNORECASE,
)
_WORD = Regex(r"(?<![\w.:/`'\"\\-])[A-Za-z][a-z']{0,15}(?=[ ,;.!?)]|$)")
_OUTPUT = Regex(
    r"^\s{0,20}(?:[\w.]{0,80}(?:Error|Exception|Warning)\b|File \"|Traceback|\[?\d{1,4}[-:/]\d\d|E\s{2,}|[\w/.-]{1,60}: (?:error|fatal|warning|cannot|failed)\b)",
    re.IGNORECASE,
)


def reported(doc: Document, symptoms: tuple[Symptom, ...]) -> tuple[Symptom, ...]:
    """The symptoms that somebody had: in a proposal those of its sentences are left out, those of pasted output stay."""
    if not symptoms or _PROPOSAL.search(doc.text[:20_000]) is None:
        return symptoms
    return tuple(item for item in symptoms if item.line is None or not _sentence(doc.lines[item.line - 1]))


def without_sentences(doc: Document, text: str) -> str:
    """A part of a proposal with its sentences left empty (the lines keep their numbers); other texts as they are."""
    if _PROPOSAL.search(doc.text[:20_000]) is None:
        return text
    return "\n".join("" if _sentence(line) else line for line in text.split("\n"))


def _sentence(line: str) -> bool:
    """People's words and not a program's: mostly plain words, six of them at least."""
    if len(line) > MAX_LENGTH or _OUTPUT.search(line):
        return False
    plain = len(_WORD.findall(line))
    return plain >= 6 and plain * 10 >= len(line.split()) * 6
