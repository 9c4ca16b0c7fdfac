"""Every rule has its page, and docs/ holds exactly what the rules and pages say."""

from __future__ import annotations

import itertools
import os
import re
import sys
from pathlib import Path

import pytest

from envcheck.findings import AREAS
from envcheck.process import run
from envcheck.render.pages import page_lines
from envcheck.rules import EXPLAINED, RULES
from envcheck.rules.page import closest, pages

ROOT = Path(__file__).resolve().parent.parent


def test_every_name_has_a_page_and_every_page_a_name() -> None:
    assert {name.id for name in EXPLAINED} == set(pages())


def test_ids_are_unique_and_kebab_case() -> None:
    ids = [name.id for name in EXPLAINED]
    assert len(ids) == len(set(ids))
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", item) for item in ids)


def test_what_a_rule_explains_is_a_rule() -> None:
    known = {rule.id for rule in RULES} | {"*"}
    assert {(rule.id, other) for rule in RULES for other in rule.explains if other not in known} == set()


def test_areas_are_known_and_stand_together() -> None:
    areas = [area for area, _ in itertools.groupby(EXPLAINED, key=lambda name: name.area)]
    assert len(areas) == len(set(areas))
    assert set(areas) <= set(AREAS)


@pytest.mark.parametrize("rule", EXPLAINED, ids=lambda r: r.id)
def test_a_page_says_everything(rule) -> None:
    page = pages()[rule.id]
    assert len(page.means) > 40
    assert page.shows and page.confirm and page.fix
    text = "\n".join(line.text for line in page_lines(rule, page))
    for folk in ("chmod 777", "dll-files.com", "--break-system-packages"):
        assert folk not in "\n".join((*(f.text for f in page.fix), *(c for f in page.fix for c in f.commands))), folk
    assert "TODO" not in text


def test_docs_are_up_to_date() -> None:
    done = run([sys.executable, ROOT / "docs" / "build.py", "--check"], timeout=60, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert done.ok, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("nvidia-smi Driver/library version mismatch", "nvml-driver-library-mismatch"),
        ("the loss does not go down", "loss-flat"),
        ("my GPU is hidden by CUDA_VISIBLE_DEVICES", "cuda-visible-devices"),
        ("dev shm too small for dataloader workers", "shm-too-small"),
    ],
)
def test_free_text_finds_the_rule(text: str, wanted: str) -> None:
    assert wanted in closest(text, {name.id: name.title for name in EXPLAINED})
