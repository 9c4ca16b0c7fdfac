"""All rules, in one explicit table; the order is the last tie-breaker between causes."""

from __future__ import annotations

from envcheck.rules import build, code, driver, install, library, performance, platform, runtime, unexplained
from envcheck.rules.base import Rule, Unknown, evaluate

__all__ = ["RULES", "Rule", "Unknown", "evaluate"]

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
