"""Error lines as such, known or not: what keeps a paste from being called healthy."""

from __future__ import annotations

import re

from envcheck.captured.document import Document
from envcheck.facts import Symptom
from envcheck.lazy import Regex
from envcheck.redact import redact
from envcheck.symptoms.engine import shorten

UNRECOGNISED = "unrecognised-error"
"""Kind of the symptom that stands for an error line without a signature."""
MAX_ERRORS = 5

_ERROR = Regex(
    r"^[\sE|>*-]{0,24}(?:\[\w{1,10}\d{0,4}\]:?\s?)?(?:\d{4}-\d\d-\d\d.{0,40}?)?(?:[A-Za-z_][\w.]{0,100}\.)?[A-Z]\w{0,60}(?:Error|Exception)\b(?:: .|:$|$| Traceback)"
    r"|^\s{0,8}(?:ERROR|FATAL|CRITICAL|Fatal Python error|error|Fatal error|fatal error)\b:? \S"
    r"|\bERROR: \S|Segmentation fault|\b[Ss]eg[Ff]ault(?:s|ed)?\b|symbol lookup error: \S|\(core dumped\)|^\s{0,8}(?:Aborted|Killed|Bus error|Illegal instruction)\b|SIGSEGV|SIGABRT|SIGILL|exit(?:ed with)? code:? -?(?:6|9|11|134|137|139)\b"
    r"|terminate called after throwing|\bINTERNAL ASSERT FAILED|Assertion .{1,200} failed|\u00d7 No solution found"
)
_NEEDLES = (
    "error", "exception", "fatal", "critical", "segmentation fault", "segfault", "symbol lookup error", "core dumped", "aborted", "killed", "bus error", "illegal instruction", "sigsegv", "sigabrt", "sigill", "exit code",
    "exited with", "terminate called", "assert", "no solution found",
)  # fmt: skip
_HARMLESS = Regex(
    r"Error(?:s)?: (?:None|0|N/A)\b|no errors? |0 errors?|ERROR: (?:0|False)\b|error_if|ErrorHandl|Corrected error|\bWARNING\b.{0,80}ERROR: pip's dependency resolver",
    re.IGNORECASE,
)
_WARNING = Regex(r"\b(?:\w*Warning|WARNING|WARN|warning|INFO|DEBUG)\b")


def is_error(text: str) -> bool:
    """Whether a line reports a failure (and not merely uses the word)."""
    return _ERROR.search(text) is not None and _HARMLESS.search(text) is None and _WARNING.search(text[:60]) is None


def unrecognised(doc: Document, symptoms: tuple[Symptom, ...]) -> tuple[Symptom, ...]:
    """Error lines of the text that no signature knows, as symptoms of their own kind; a few are enough."""
    known = {symptom.line for symptom in symptoms}
    errors = {symptom.line for symptom in symptoms if symptom.line is not None and is_error(symptom.text)}
    found: list[Symptom] = []
    for index in doc.find(*_NEEDLES):
        line = doc.lines[index]
        if index + 1 in known or doc.data[index] == 1 or len(line) > 4000 or not is_error(line):
            continue
        if errors & {index - 1, index}:
            continue  # the message of a known error goes on over several lines
        found.append(
            Symptom(kind=UNRECOGNISED, text=shorten(redact(line.strip()[:600])), source=doc.name, line=index + 1)
        )
        if len(found) >= MAX_ERRORS:
            break
    return tuple(found)
