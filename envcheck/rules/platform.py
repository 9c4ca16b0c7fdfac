"""The rules about containers, WSL, ROCm, XPU and MPS, in one table."""

from __future__ import annotations

from envcheck.rules import (
    platform_container,
    platform_mps,
    platform_rocm,
    platform_rocm_run,
    platform_wsl,
    platform_xpu,
)
from envcheck.rules.base import Rule

RULES: tuple[Rule, ...] = (
    *platform_container.RULES,
    *platform_wsl.RULES,
    *platform_rocm.RULES,
    *platform_rocm_run.RULES,
    *platform_xpu.RULES,
    *platform_mps.RULES,
)
