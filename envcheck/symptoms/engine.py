"""Finds the known error signatures in a text, in linear time.

A literal search (`str.find` over the lower-cased text) finds the few lines that can match at all; the regular
expression sees only those lines and their neighbours. So ten megabytes of training log cost little more than reading
them, however many signatures there are.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from envcheck.facts import Symptom
from envcheck.redact import redact
from envcheck.symptoms import build, code, driver, install, library, platform, runtime, services
from envcheck.symptoms.base import Signature

SIGNATURES: tuple[Signature, ...] = (
    *build.SIGNATURES,
    *install.SIGNATURES,
    *library.SIGNATURES,
    *driver.SIGNATURES,
    *platform.SIGNATURES,
    *services.SIGNATURES,
    *runtime.SIGNATURES,
    *code.SIGNATURES,
)

MAX_TEXT = 300
"""Characters of the line that a symptom keeps."""
MAX_TRIES = 300
"""Different lines on which the expression of one signature is tried."""
MAX_SEEN = 100_000
"""Places of one needle that are looked at, repetitions of one and the same line included."""
MAX_VARIANTS = 8
"""Symptoms of one kind that differ in their details; the rest only count."""
_REACH = 1500
"""Characters of a line kept on either side of the needle: a line may be the whole file."""
_LARGE = 200_000
"""From this size on a vocabulary of the text pays, which rules most needles out without a search."""

_WORD = re.compile(r"[a-z]{3,}")


class _Lines:
    """A text with the offsets of its lines."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.starts = [0]
        position = text.find("\n")
        while position >= 0:
            self.starts.append(position + 1)
            position = text.find("\n", position + 1)

    def number(self, offset: int) -> int:
        """Index of the line in which the offset lies."""
        return bisect_right(self.starts, offset) - 1

    def bounds(self, index: int) -> tuple[int, int]:
        """Start and end of a line, its line end left out."""
        end = self.starts[index + 1] - 1 if index + 1 < len(self.starts) else len(self.text)
        return self.starts[index], end


@dataclass(frozen=True)
class _Hit:
    """One place where a signature matched."""

    offset: int
    line: int
    signature: Signature
    details: tuple[tuple[str, str], ...]


def recognise(text: str, *, source: str, first_line: int = 1, present: Presence | None = None) -> tuple[Symptom, ...]:
    """The known error signatures in `text`, by their place in it.

    The first occurrence of each kind (and of each set of details) is kept with the number of its occurrences. A
    symptom that is known to follow from an earlier one of the same text is marked as its echo.

    Args:
        text: any text, with any line ends.
        source: what the text is: a file name, or the stage that failed.
        first_line: number of the text's first line in its source.
        present: made from a text that holds at least the words of this one, to save making it again.
    """
    text = text.replace("\r\n", "\n")
    lowered = _lower(text)
    lines = _Lines(lowered)
    present = present or Presence(lowered)
    hits: list[_Hit] = []
    for signature in SIGNATURES:
        hits.extend(_occurrences(signature, text, lowered, lines, present))
    hits.sort(key=lambda hit: hit.offset)
    symptoms: list[Symptom] = []
    earlier: set[str] = set()
    for hit, count in _merge(hits):
        symptoms.append(
            Symptom(
                kind=hit.signature.kind,
                text=_quote(text, lines, hit),
                source=source,
                line=first_line + hit.line,
                details=dict(hit.details),
                echo=not earlier.isdisjoint(hit.signature.echo_of),
                count=count,
            )
        )
        earlier.add(hit.signature.kind)
    return tuple(symptoms)


def _lower(text: str) -> str:
    """Lower case without a change of length, so that offsets hold for the original too."""
    # The only character that becomes two.
    return text.replace("\u0130", "I").lower()


class Presence:
    """Tells cheaply that a (lower-case) needle cannot stand in a lower-case text; True means "search"."""

    def __init__(self, lowered: str) -> None:
        self.vocabulary: str | None = None
        if len(lowered) >= _LARGE:
            vocabulary = "\n".join(set(_WORD.findall(lowered)))
            # Random text has a vocabulary as large as itself: then a look into it saves nothing.
            self.vocabulary = vocabulary if len(vocabulary) * 10 < len(lowered) else None

    def __call__(self, needle: str) -> bool:
        """False when a word of the needle is nowhere in the text."""
        return self.vocabulary is None or all(word in self.vocabulary for word in _WORD.findall(needle))


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE | re.MULTILINE)


def _places(signature: Signature, lowered: str, lines: _Lines, present: Presence) -> Iterator[tuple[int, int]]:
    """(line, offset) where a needle of the signature stands, in order: once a line, in a long line once a window."""
    places: dict[tuple[int, int], int] = {}
    for needle in signature.needles:
        if not present(needle):
            continue
        offset = lowered.find(needle)
        seen = 0
        while offset >= 0 and seen < MAX_SEEN:
            index = lines.number(offset)
            start, end = lines.bounds(index)
            part = (index, (offset - start) // _REACH)
            places[part] = min(offset, places.get(part, offset))
            seen += 1
            # The window of this place reaches as far to the right; what stands there needs no look of its own.
            offset = lowered.find(needle, max(end if end - offset < _REACH else offset + _REACH, offset + 1))
    yield from sorted((index, offset) for (index, _), offset in places.items())


def _window(text: str, lines: _Lines, index: int, offset: int, signature: Signature) -> str:
    """The line with the needle and its neighbours, each cut to a length that keeps the expression quick."""
    start, end = lines.bounds(index)
    middle = text[max(start, offset - _REACH) : min(end, offset + 2 * _REACH)]
    before = []
    for other in range(max(0, index - signature.before), index):
        start, end = lines.bounds(other)
        before.append(text[start : min(end, start + _REACH)])
    after = []
    for other in range(index + 1, min(len(lines.starts), index + 1 + signature.after)):
        start, end = lines.bounds(other)
        after.append(text[start : min(end, start + _REACH)])
    return "\n".join([*before, middle, *after])


def _occurrences(signature: Signature, text: str, lowered: str, lines: _Lines, present: Presence) -> Iterator[_Hit]:
    """Every occurrence of one signature. A repeated window is matched once and then only counted."""
    known: dict[str, re.Match[str] | None] = {}
    for line, offset in _places(signature, lowered, lines, present):
        window = _window(text, lines, line, offset, signature)
        if window not in known:
            if len(known) >= MAX_TRIES:
                return
            known[window] = _compiled(signature.pattern).search(window)
        match = known[window]
        if match is not None:
            details = ((name, value.strip()) for name, value in match.groupdict().items() if value is not None)
            yield _Hit(offset, line, signature, tuple(details))


def _merge(hits: list[_Hit]) -> list[tuple[_Hit, int]]:
    """The first hit of each kind and details with its count; further variants beyond a few only count."""
    counts: dict[tuple[str, tuple[tuple[str, str], ...]], int] = {}
    first: dict[tuple[str, tuple[tuple[str, str], ...]], _Hit] = {}
    variants: dict[str, list[tuple[str, tuple[tuple[str, str], ...]]]] = {}
    places: set[tuple[str, int]] = set()
    for hit in hits:
        kind = hit.signature.kind
        if (kind, hit.line) in places:
            continue  # two signatures of one kind on one line
        places.add((kind, hit.line))
        key = (kind, hit.details)
        siblings = variants.setdefault(kind, [])
        if key not in first and len(siblings) >= MAX_VARIANTS:
            key = siblings[0]
        if key not in first:
            first[key] = hit
            siblings.append(key)
        counts[key] = counts.get(key, 0) + 1
    return [(hit, counts[key]) for key, hit in first.items()]


def _quote(text: str, lines: _Lines, hit: _Hit) -> str:
    """The line of the hit as it may be shown: redacted, and cut around the needle when it is long."""
    start, end = lines.bounds(hit.line)
    if end - start > MAX_TEXT:
        start = max(start, hit.offset - MAX_TEXT // 2)
    return shorten(redact(text[start : min(end, start + 2 * MAX_TEXT)].strip()))


def shorten(text: str, limit: int = MAX_TEXT) -> str:
    """The text, cut with an ellipsis when it is longer than `limit`."""
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"
