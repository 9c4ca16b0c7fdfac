"""What all groups of tables share: reading a file into rows and rows into a dictionary with unique keys."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from envcheck.matrix.text import TAIL, Row, read_table

OSES = ("linux", "windows", "macos")
MACHINES = ("x86_64", "aarch64", "arm64")

Platform = tuple[str, str, str]
"""Release, os, machine."""

Key = TypeVar("Key")
Value = TypeVar("Value")


class Base:
    """The tables of one directory. Groups of tables inherit it; `Tables` is all of them."""

    def __init__(self, directory: Path, extra: dict[str, list[dict[str, str]]] | None = None) -> None:
        self.directory = directory
        self.extra = extra or {}
        """Rows from the user's cache (`envcheck matrix update`), by table."""

    def read(self, file: str, columns: str) -> list[Row]:
        """The rows of one table, its columns given as one line of words, and after them those of the cache."""
        rows = list(read_table(self.directory, file, tuple(columns.split())))
        names = (*columns.split(), *TAIL)
        for number, values in enumerate(self.extra.get(file, ()), start=1):
            rows.append(Row(f"{file} (cache)", number, {name: values.get(name, "") for name in names}))
        return rows

    def keyed(
        self, rows: list[Row], key: Callable[[Row], Key], make: Callable[[Row], Value], field: str
    ) -> dict[Key, Value]:
        """Rows by their key; a second row with the same key is an error in `field`."""
        found: dict[Key, Value] = {}
        for row in rows:
            name = key(row)
            if name in found:
                raise row.error(field, f"a second row for {plain(name)}")
            found[name] = make(row)
        return found


def plain(name: object) -> str:
    """A key as words."""
    return " ".join(str(part) for part in name) if isinstance(name, tuple) else str(name)


def tail(row: Row) -> dict[str, str]:
    """The three columns that every row has."""
    values = row.values
    return {"source": values["source"], "checked": values["checked"], "confidence": values["confidence"]}


def platform(row: Row) -> Platform:
    """Release, os and machine of a row."""
    return row["release"], row.choice("os", OSES), row.choice("machine", MACHINES)


def ptx(row: Row) -> tuple[str, ...] | None:
    """The column ptx: "none" is (), "unknown" is None."""
    text = row.required("ptx")
    return () if text == "none" else None if text == "unknown" else tuple(text.split())
