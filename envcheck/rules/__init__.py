"""All rules, in one explicit table; the order is the last tie-breaker between causes."""

from __future__ import annotations

from envcheck.rules.base import Rule, Unknown, evaluate

__all__ = ["RULES", "Rule", "Unknown", "evaluate"]

RULES: tuple[Rule, ...] = ()
