"""The pages of the rules about driver, platform, running programs and code, and of what other commands find."""

from __future__ import annotations

import pytest

from envcheck.rules import EXPLAINED, RULES, code, driver, platform, runtime
from envcheck.rules.base import Named, Rule
from envcheck.rules.others import OTHERS
from envcheck.rules.page import closest, pages

OURS: tuple[Rule, ...] = (*driver.RULES, *platform.RULES, *runtime.RULES, *code.RULES)
PAGES: tuple[Named, ...] = (*OURS, *OTHERS)
FOLK_CURES = ("chmod", "--privileged", "sudo python", "sudo pip", "ln -s", "killall", "tdrlevel 0", "nokaslr")


def test_ids_are_unique() -> None:
    ids = [r.id for r in OURS]
    assert len(ids) == len(set(ids))


def test_what_a_rule_explains_is_a_rule() -> None:
    known = {r.id for r in RULES}
    assert {name for r in OURS for name in r.explains} - known - {"*"} == set()


@pytest.mark.parametrize("rule", PAGES, ids=lambda r: r.id)
def test_every_rule_has_a_whole_page(rule: Named) -> None:
    page = pages()[rule.id]
    assert page.means.endswith(".")
    for texts in (page.shows, page.confirm, page.not_this, page.sources):
        assert texts
        assert all(t.strip() == t and t for t in texts)
    assert page.fix
    for fix in page.fix:
        words = f"{fix.where} {fix.text} {' '.join(fix.commands)}".lower()
        assert not [cure for cure in FOLK_CURES if cure in words]


@pytest.mark.parametrize("rule", PAGES, ids=lambda r: r.id)
def test_a_page_is_found_by_what_it_shows(rule: Named) -> None:
    titles = {r.id: r.title for r in EXPLAINED}
    shown = pages()[rule.id].shows
    assert any(rule.id in closest(text, titles, limit=3) for text in shown)


def test_folk_cures_stand_where_they_are_refused() -> None:
    refused = " ".join(text for r in OURS for text in pages()[r.id].not_this)
    for cure in ("chmod 666", "--privileged", "NCCL_P2P_DISABLE", "inside WSL", "root"):
        assert cure in refused
