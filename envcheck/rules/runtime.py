"""The rules about running programs, in one table."""

from __future__ import annotations

from envcheck.rules import runtime_checks, runtime_formats, runtime_host, runtime_nccl, runtime_oom, runtime_process
from envcheck.rules.base import Rule

RULES: tuple[Rule, ...] = (
    *runtime_oom.RULES,
    *runtime_formats.RULES,
    *runtime_host.RULES,
    *runtime_process.RULES,
    *runtime_nccl.RULES,
    *runtime_checks.RULES,
)
