"""The seeded CIFAR-10 training that proves an installation: measured by payloads, judged against golden values."""

from __future__ import annotations

from envcheck.reference.bands import Band, bands
from envcheck.reference.compare import compare
from envcheck.reference.golden import golden_file, load_golden
from envcheck.reference.judge import Judgement, judge
from envcheck.reference.measure import PRESETS, Measured, Options, measure
from envcheck.reference.report import document

__all__ = [
    "PRESETS",
    "Band",
    "Judgement",
    "Measured",
    "Options",
    "bands",
    "compare",
    "document",
    "golden_file",
    "judge",
    "load_golden",
    "measure",
]
