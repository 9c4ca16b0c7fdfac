"""The rules about the NVIDIA driver, the GPU and the CPU, in one table; causes before what follows from them."""

from __future__ import annotations

from envcheck.rules import (
    driver_fault,
    driver_gpu,
    driver_match,
    driver_services,
    driver_state,
    driver_version,
    driver_visible,
)
from envcheck.rules.base import Rule

RULES: tuple[Rule, ...] = (
    *driver_fault.RULES,  # a broken card comes before all that it causes
    *driver_services.RULES,
    *driver_state.RULES,
    *driver_match.RULES,
    *driver_version.RULES,
    *driver_gpu.RULES,
    *driver_visible.RULES,
)
