"""One pasted text while it is read: its lines, who has claimed them, and the values found in them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from envcheck.lazy import Regex
from envcheck.symptoms.engine import Presence

SAID = 3
"""The program itself said it: the interpreter, the driver, the operating system."""
LISTED = 2
"""A tool lists it: pip, conda, the environment block of a library."""
NOTED = 1
"""A person wrote it down: `GPU: RTX 3090`."""
IMPLIED = 0
"""A path, a file name or a command shows it."""


def word_set(text: str) -> frozenset[str]:
    """The words of a text, as a set."""
    return frozenset(text.split())


MAX_HITS = 2000
"""Lines that one parser looks at for one needle."""
SMALL = 5000
"""Lines of a text that is read line by line; a larger one is a log."""
MAX_SHAPE = 40
"""Lines of one shape (digits apart) that are looked at in a log."""
MAX_SHORT = 4000
"""Different lines at the beginning, and as many at the end of a log, that may be notes."""
SHORT = 400
"""Longer lines are no `key: value` lines and no lists of packages."""


@dataclass(frozen=True)
class Value:
    """One reading of one field."""

    field: str
    value: Any
    source: str
    line: int | None
    text: str | None
    rank: int


@dataclass
class Draft:
    """Values as they are found, several for one field allowed; `merge` decides between them."""

    source: str
    values: dict[str, list[Value]] = field(default_factory=dict)
    lists: dict[str, list[Value]] = field(default_factory=dict)

    def put(self, name: str, value: Any, line: int | None = None, text: str | None = None, rank: int = LISTED) -> None:
        """One reading of a single-valued field. None is no reading."""
        if value is not None:
            self.values.setdefault(name, []).append(Value(name, value, self.source, line, text, rank))

    def add(self, name: str, value: Any, line: int | None = None, text: str | None = None, rank: int = LISTED) -> None:
        """One item of a list-valued field."""
        self.lists.setdefault(name, []).append(Value(name, value, self.source, line, text, rank))

    def first(self, name: str) -> Any:
        """The best reading so far, None without one."""
        found = self.values.get(name)
        return max(found, key=lambda v: v.rank).value if found else None


class Document:
    """The clean lines of one text. Indices are zero-based; `number` gives the line as a person counts it."""

    def __init__(self, name: str, lines: list[str]) -> None:
        self.name = name
        self.lines = lines
        self.text = "\n".join(lines)
        self.lowered = self.text.replace("\u0130", "I").lower()
        self.data = bytearray(len(lines))
        """1: plain data, in which no error text is looked for; 2: claimed, and searched all the same."""
        self.draft = Draft(name)
        self.mixed: list[tuple[int, str]] = []
        """Values of known keys that seem to hold more facts, left to `glue`."""
        self.present = Presence(self.lowered)
        self._starts: list[int] | None = None
        self._short: list[int] | None = None

    def number(self, index: int) -> int:
        """Line number in the original."""
        return index + 1

    def claim(self, index: int, *, errors: bool = False) -> None:
        """Marks a line as read. `errors`: it may hold an error text too."""
        self.data[index] = 2 if errors else max(1, self.data[index])

    def free(self, index: int) -> bool:
        """No parser has claimed the line yet."""
        return self.data[index] == 0

    def put(self, name: str, value: Any, index: int | None = None, rank: int = LISTED) -> None:
        """`Draft.put` with the line's number and text."""
        if index is None:
            self.draft.put(name, value, rank=rank)
        else:
            self.draft.put(name, value, index + 1, self.lines[index], rank)

    def add(self, name: str, value: Any, index: int | None = None, rank: int = LISTED) -> None:
        """`Draft.add` with the line's number and text."""
        if index is None:
            self.draft.add(name, value, rank=rank)
        else:
            self.draft.add(name, value, index + 1, self.lines[index], rank)

    def has(self, *needles: str) -> bool:
        """One of the lower-case literals stands somewhere in the text."""
        return any(self.present(needle) and needle in self.lowered for needle in needles)

    def find(self, *needles: str) -> list[int]:
        """Indices of the lines that hold one of the lower-case literals, in order, bounded in number."""
        found: set[int] = set()
        for needle in needles:
            if self.present(needle):
                found.update(self._find(needle))
        return sorted(found)

    def _find(self, needle: str) -> Iterator[int]:
        offset = self.lowered.find(needle)
        seen = 0
        while offset >= 0 and seen < MAX_HITS:
            index = self._index(offset)
            yield index
            seen += 1
            starts = self._starts or []
            if index + 1 >= len(starts):
                return
            offset = self.lowered.find(needle, starts[index + 1])

    def _index(self, offset: int) -> int:
        if self._starts is None:
            starts, position = [0], self.lowered.find("\n")
            while position >= 0:
                starts.append(position + 1)
                position = self.lowered.find("\n", position + 1)
            self._starts = starts
        return bisect_right(self._starts, offset) - 1

    def searchable(self) -> str:
        """The text for the search of error signatures: plain data is left blank, line numbers are kept."""
        return "\n".join("" if mark == 1 else line for line, mark in zip(self.lines, self.data, strict=True))

    def short_lines(self) -> Iterator[tuple[int, str]]:
        """Lines that may be notes, lists or commands: unclaimed, not long, and not the hundredth of the same shape."""
        if self._short is None:
            self._short = list(self._candidates())
        for index in self._short:
            if self.data[index] == 0:
                yield index, self.lines[index]

    def _candidates(self) -> Iterator[int]:
        if len(self.lines) <= SMALL:
            yield from (index for index, line in enumerate(self.lines) if line and len(line) <= SHORT)
            return
        # A long log repeats a few shapes; what people wrote stands before and behind it.
        shapes: dict[str, int] = {}
        kept: list[int] = []
        for index, line in enumerate(self.lines):
            if not line or len(line) > SHORT:
                continue
            shape = _DIGITS.sub("0", line[:60])
            count = shapes.get(shape, 0)
            if count < MAX_SHAPE:
                shapes[shape] = count + 1
                kept.append(index)
        yield from kept if len(kept) <= 2 * MAX_SHORT else kept[:MAX_SHORT] + kept[-MAX_SHORT:]


_DIGITS = Regex(r"\d+")
