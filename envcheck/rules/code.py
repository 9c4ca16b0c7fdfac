"""The rules about the user's own code, in one table."""

from __future__ import annotations

from envcheck.rules import code_tensors, code_training
from envcheck.rules.base import Rule

RULES: tuple[Rule, ...] = (*code_training.RULES, *code_tensors.RULES)
