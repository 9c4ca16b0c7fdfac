"""Regular expressions that cost nothing until they are used: compiling a hundred of them takes longer than all else."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any


class Regex:
    """A regular expression, compiled when it is first used."""

    def __init__(self, pattern: str, flags: int = 0) -> None:
        self.pattern = pattern
        self.flags = flags

    @cached_property
    def compiled(self) -> re.Pattern[str]:
        """The expression itself."""
        return re.compile(self.pattern, self.flags)

    def match(self, text: str) -> re.Match[str] | None:
        """A match at the beginning."""
        return self.compiled.match(text)

    def search(self, text: str, start: int = 0) -> re.Match[str] | None:
        """The first match from `start` on."""
        return self.compiled.search(text, start)

    def fullmatch(self, text: str) -> re.Match[str] | None:
        """A match of the whole text."""
        return self.compiled.fullmatch(text)

    def split(self, text: str, maxsplit: int = 0) -> list[Any]:
        """The text between the matches."""
        return self.compiled.split(text, maxsplit)

    def finditer(self, text: str) -> Iterator[re.Match[str]]:
        """All matches."""
        return self.compiled.finditer(text)

    def findall(self, text: str) -> list[Any]:
        """All matches, as strings or tuples of groups."""
        return self.compiled.findall(text)

    def sub(self, replacement: str | Callable[[re.Match[str]], str], text: str, count: int = 0) -> str:
        """The text with all matches replaced, or the first `count`."""
        return self.compiled.sub(replacement, text, count)
