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
    """The tables shipped with envcheck; each is read when it is first needed.

    Releases that `envcheck matrix update` found on the user's package index come after the shipped ones; a cache that
    does not fit (an older or a newer envcheck wrote it) is left alone.
    """
    from envcheck.data import directory
    from envcheck.errors import MatrixError
    from envcheck.matrix.refresh import cache
    from envcheck.matrix.tables import Tables

    shipped = Tables(directory("matrices"))
    rows, updated = cache.read()
    if not rows:
        return Matrix(shipped)
    merged = Tables(shipped.directory, cache.only_newer(rows, shipped))
    try:
        merged.check_extra()
    except MatrixError:
        return Matrix(shipped)
    return Matrix(merged, updated=updated)
