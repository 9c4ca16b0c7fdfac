"""The compatibility tables and the questions they answer."""

from __future__ import annotations

from functools import cache

from envcheck.matrix.query import Matrix
from envcheck.matrix.rows import (
    Architecture,
    ArchList,
    Companion,
    Coverage,
    GpuModel,
    Release,
    Requirement,
    Variant,
    Wheel,
)

__all__ = [
    "ArchList",
    "Architecture",
    "Companion",
    "Coverage",
    "GpuModel",
    "Matrix",
    "Release",
    "Requirement",
    "Variant",
    "Wheel",
    "load",
]


@cache
def load() -> Matrix:
    """The tables shipped with envcheck; each is read when it is first needed."""
    from envcheck.data import directory
    from envcheck.matrix.tables import Tables

    return Matrix(Tables(directory("matrices")))
