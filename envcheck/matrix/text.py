"""Reads a table from text: rows of strings that know where they stand. No meaning, only shape."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from envcheck.errors import MatrixError

TAIL = ("source", "checked", "confidence")
"""Every table ends with these columns: where the fact was seen, when, and how sure it is."""

CONFIDENCES = ("read", "derived", "recalled")
"""Seen in the named source; inferred from facts that were seen; from memory, to be verified."""

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}").fullmatch
_VERSION = re.compile(r"\d+(\.\d+)*").fullmatch
_CAPABILITY = re.compile(r"\d{1,2}\.\d").fullmatch


class Row:
    """One row of one table. Its methods read a field as what it should be, or raise a MatrixError that names it."""

    __slots__ = ("file", "line", "values")

    def __init__(self, file: str, line: int, values: dict[str, str]) -> None:
        self.file = file
        self.line = line
        self.values = values

    def error(self, field: str, message: str) -> MatrixError:
        """A MatrixError that says file, row and field."""
        name = " ".join(list(self.values.values())[:2])
        return MatrixError(f"matrices/{self.file}, row {self.line} ({name}), field '{field}': {message}")

    def __getitem__(self, field: str) -> str:
        return self.values[field]

    def required(self, field: str) -> str:
        """The text of a field that may not be empty."""
        value = self.values[field]
        if not value:
            raise self.error(field, "is empty")
        return value

    def optional(self, field: str) -> str | None:
        """The text of a field, None when it is empty (unknown)."""
        return self.values[field] or None

    def words(self, field: str) -> tuple[str, ...]:
        """A list in a cell: items apart by spaces."""
        return tuple(self.values[field].split())

    def choice(self, field: str, allowed: Iterable[str]) -> str:
        """One of a few words."""
        value = self.values[field]
        if value not in allowed:
            raise self.error(field, f"'{value}' is none of: {', '.join(word or '(empty)' for word in allowed)}")
        return value

    def version(self, field: str) -> str | None:
        """A dotted number, None when empty."""
        value = self.values[field]
        if value and not _VERSION(value):
            raise self.error(field, f"'{value}' is not a version number")
        return value or None

    def number(self, field: str) -> int | None:
        """A whole number, None when empty."""
        value = self.values[field]
        if value and not value.isdecimal():
            raise self.error(field, f"'{value}' is not a whole number")
        return int(value) if value else None

    def capabilities(self, field: str) -> tuple[str, ...]:
        """Compute capabilities, one at least."""
        found = self.words(field)
        if not found or not all(map(_CAPABILITY, found)):
            raise self.error(field, f"'{self.values[field]}' is not a compute capability such as 8.6")
        return found

    def date(self, field: str) -> str:
        """An ISO date."""
        value = self.values[field]
        if not _DATE(value):
            raise self.error(field, f"'{value}' is not a date such as 2026-11-30")
        return value

    def yes_no(self, field: str) -> bool | None:
        """ "yes", "no", or empty for unknown."""
        return {"yes": True, "no": False, "": None}[self.choice(field, ("yes", "no", ""))]


def read_table(directory: Path, file: str, columns: tuple[str, ...]) -> Iterator[Row]:
    """Rows of a CSV table whose header must be `columns` and the three of TAIL.

    Raises:
        MatrixError: the file is missing or misshapen, or a row has no source, no date or no confidence.
    """
    expected = [*columns, *TAIL]
    try:
        with (directory / file).open(newline="", encoding="utf-8") as stream:
            reader = csv.reader(stream)
            header = next(reader, [])
            if header != expected:
                raise MatrixError(f"matrices/{file}, row 1: the columns are {header}, not {expected}")
            for cells in reader:
                row = Row(file, reader.line_num, dict(zip(expected, cells, strict=False)))
                if len(cells) != len(expected):
                    raise MatrixError(
                        f"matrices/{file}, row {row.line}: {len(cells)} cells where the header has {len(expected)}"
                    )
                if cells[-1] not in CONFIDENCES or not cells[-3] or not _DATE(cells[-2]):
                    row.required("source")
                    row.date("checked")
                    row.choice("confidence", CONFIDENCES)
                yield row
    except OSError as error:
        raise MatrixError(f"matrices/{file}: cannot be read: {error.strerror}") from None


def check_shape(directory: Path, file: str) -> None:
    """Reads a table by its own header; for tables that other parts of envcheck read themselves.

    Raises:
        MatrixError: as read_table does, and when the header does not end with TAIL.
    """
    with (directory / file).open(newline="", encoding="utf-8") as stream:
        header = next(csv.reader(stream), [])
    if tuple(header[-len(TAIL) :]) != TAIL:
        raise MatrixError(f"matrices/{file}, row 1: the last columns are {header[-len(TAIL) :]}, not {list(TAIL)}")
    for _ in read_table(directory, file, tuple(header[: -len(TAIL)])):
        pass


def raw_rows(directory: Path, file: str) -> list[Row]:
    """Rows of a table with whatever columns its header names: for the checks that look at several tables."""
    with (directory / file).open(newline="", encoding="utf-8") as stream:
        reader = csv.reader(stream)
        header = next(reader, [])
        return [Row(file, reader.line_num, dict(zip(header, cells, strict=False))) for cells in reader]
