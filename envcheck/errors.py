"""The few errors that envcheck raises on purpose; `cli` maps each to an exit code, once."""

from __future__ import annotations


class EnvcheckError(Exception):
    """Expected trouble: the message is one line that stands alone and names the mend."""

    exit_code = 3


class UsageError(EnvcheckError):
    """What was asked makes no sense (exit code 2): a missing file, an unreadable snapshot, a bad option."""

    exit_code = 2


class MatrixError(EnvcheckError):
    """A table in `matrices/` contradicts itself; the message names file, row and field."""


class TargetError(EnvcheckError):
    """The Python under test could not be used at all (missing, not executable, not a Python)."""

    exit_code = 2
