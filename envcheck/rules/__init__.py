"""All rules, in one explicit table; the order is the last tie-breaker between causes."""

from __future__ import annotations

from envcheck.rules import build, code, driver, install, library, performance, platform, runtime, unexplained
from envcheck.rules.base import Named, Rule, Unknown, evaluate
from envcheck.rules.others import OTHERS

__all__ = ["EXPLAINED", "RULES", "Named", "Rule", "Unknown", "evaluate"]

RULES: tuple[Rule, ...] = (
    *install.RULES,
    *build.RULES,
    *library.RULES,
    *driver.RULES,
    *platform.RULES,
    *runtime.RULES,
    *performance.RULES,
    *code.RULES,
    *unexplained.RULES,
)


def _by_area(names: tuple[Named, ...]) -> tuple[Named, ...]:
    areas = list(dict.fromkeys(name.area for name in names))
    return tuple(sorted(names, key=lambda name: areas.index(name.area)))


EXPLAINED: tuple[Named, ...] = _by_area((*RULES, *OTHERS))
"""Everything that has a page, whichever command finds it; those of one area stand together."""
