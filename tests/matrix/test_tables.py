"""Every row of every table loads, nothing contradicts anything, and doubt stays marked."""

from __future__ import annotations

import csv
import subprocess
import sys
from functools import cached_property
from pathlib import Path

import pytest

from envcheck.data import directory
from envcheck.matrix import Matrix
from envcheck.matrix.gpus import Names
from envcheck.matrix.tables import Tables
from envcheck.matrix.text import CONFIDENCES, TAIL, raw_rows
from envcheck.matrix.validate import problems, validate_all
from envcheck.matrix.versions import at_least, numbers

FILES = sorted(path.name for path in directory("matrices").glob("*.csv"))
PROPERTIES = sorted(
    name for cls in Tables.__mro__ for name, item in vars(cls).items() if isinstance(item, cached_property)
)


def test_the_shipped_tables_hold_no_contradiction() -> None:
    assert [str(error) for error in problems(Tables(directory("matrices")))] == []
    validate_all()


@pytest.mark.parametrize("name", PROPERTIES)
def test_every_table_parses_on_its_own(name: str) -> None:
    assert getattr(Tables(directory("matrices")), name)


@pytest.mark.parametrize("file", FILES)
def test_every_row_says_where_it_comes_from(file: str) -> None:
    path = directory("matrices") / file
    with path.open(newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    assert rows
    assert tuple(rows[0])[-3:] == TAIL
    for row in rows:
        assert None not in row, f"{file}: too many cells in {row}"
        assert row["source"], row
        assert row["confidence"] in CONFIDENCES, row


@pytest.mark.parametrize("file", FILES)
def test_every_file_is_read_by_somebody(file: str) -> None:
    package = Path(directory("matrices")).parent / "envcheck"
    if not package.is_dir():
        pytest.skip("not in a checkout")
    assert any(f'"{file}"' in path.read_text(encoding="utf-8") for path in package.rglob("*.py"))


def test_recalled_facts_stay_recalled(matrix: Matrix) -> None:
    aarch64 = matrix.variant("2.8.0", "cu129", "linux", "aarch64")
    assert aarch64 is not None
    assert aarch64.confidence == "recalled"
    gfx = matrix.amd_arch("gfx1032")
    assert gfx is not None
    assert gfx.confidence == "recalled"


@pytest.mark.parametrize(
    ("name", "os"), [("cu126", "linux"), ("cu130", "linux"), ("cu134", "linux"), ("cu132", "windows")]
)
def test_unconfirmed_builds_of_2_15_stay_unconfirmed(matrix: Matrix, name: str, os: str) -> None:
    build = matrix.variant("2.15.0", name, os, "x86_64")
    assert build is not None
    assert build.status == "unconfirmed"


def test_the_newest_release_is_one_whose_builds_are_known(matrix: Matrix) -> None:
    assert matrix.newest.confirmed
    assert all(not r.confirmed for r in matrix.releases if numbers(r.version) > numbers(matrix.newest.version))


@pytest.mark.parametrize("os", ["linux", "windows"])
def test_floors_rise_with_cuda(matrix: Matrix, os: str) -> None:
    minors = dict.fromkeys(t.cuda for t in matrix.tables.toolkits)
    floors = [floor for cuda in minors if (floor := matrix.driver_floor(cuda, os))]
    assert len(floors) >= len(minors) - 1
    assert all(at_least(after, before) for before, after in zip(floors, floors[1:], strict=False))


def test_a_start_reads_no_more_than_it_needs() -> None:
    """Neither the GPU table nor packaging, rich or difflib is touched by what a quick check asks."""
    code = (
        "import sys\n"
        "from envcheck.matrix import load\n"
        "m = load()\n"
        "m.release('2.8.0'), m.variants('2.8.0', 'linux', 'x86_64'), m.driver_floor('12.8', 'linux')\n"
        "heavy = {'rich', 'packaging', 'difflib', 'jinja2', 'typer'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "assert 'rows' not in vars(m.names), 'gpus.csv was read'\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_row_of_a_gpu_table_has_a_known_capability(matrix: Matrix) -> None:
    known = set(matrix.tables.architectures)
    for row in Names(matrix.tables).rows.values():
        assert set(row.words("compute_capability")) <= known


def test_rows_keep_the_line_a_person_sees() -> None:
    row = raw_rows(directory("matrices"), "cuda_floors.csv")[0]
    assert row.line == 2
