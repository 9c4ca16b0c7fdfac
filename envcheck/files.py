"""Writes files so that there is never half a one."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from envcheck.errors import UsageError


def write_atomically(path: Path, data: bytes) -> None:
    """Writes all of it or nothing: a full disk or an interrupt never leaves half a file.

    A link is followed, and a file that is replaced keeps its mode.

    Raises:
        UsageError: the directory does not exist or may not be written.
    """
    try:
        target = Path(os.path.realpath(path))
        mode = target.stat().st_mode & 0o777 if target.exists() else 0o644
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            os.chmod(name, mode)
            os.replace(name, target)
        except BaseException:
            os.unlink(name)
            raise
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from error
