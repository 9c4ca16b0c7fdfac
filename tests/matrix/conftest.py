"""The shipped tables, and copies of them with one cell changed."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from envcheck.data import directory
from envcheck.matrix import Matrix, load
from envcheck.matrix.tables import Tables

Change = Callable[[list[dict[str, str]]], None]


@pytest.fixture(scope="session")
def matrix() -> Matrix:
    return load()


@pytest.fixture
def changed(tmp_path: Path) -> Callable[[str, Change], Tables]:
    """`changed("gpus.csv", change)`: a copy of all tables in which `change` was applied to the rows of one."""

    def make(file: str, change: Change) -> Tables:
        copy = tmp_path / "matrices"
        shutil.copytree(directory("matrices"), copy)
        with (copy / file).open(newline="", encoding="utf-8") as stream:
            rows = list(csv.DictReader(stream))
        columns = list(rows[0])
        change(rows)
        with (copy / file).open("w", newline="", encoding="utf-8") as stream:
            writer = csv.DictWriter(stream, columns, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
        return Tables(copy)

    return make
