"""Where probes look: a root directory, an environment and a way to run programs, all replaceable by a test."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from envcheck.process import Run, run

TIMEOUT = 5.0
READ_LIMIT = 4 * 1024 * 1024
_BITE = 256 * 1024


def _root() -> Path:
    # ENVCHECK_ROOT: a directory that stands for "/", e.g. the host's root mounted into a container, or a recorded tree.
    return Path(os.environ.get("ENVCHECK_ROOT", "/"))


def _timeout() -> float:
    try:
        seconds = float(os.environ.get("ENVCHECK_TIMEOUT", ""))
    except ValueError:
        return TIMEOUT
    return seconds if 0 < seconds < 3600 else TIMEOUT


@dataclass(frozen=True)
class Host:
    """The machine as probes see it. `root` stands for "/" and lets a recorded tree take the machine's place."""

    root: Path = field(default_factory=_root)
    env: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    run: Run = run
    platform: str = sys.platform
    timeout: float = field(default_factory=_timeout)
    """Seconds that one program may take; the variable ENVCHECK_TIMEOUT sets another number."""
    prefix: str | None = None
    """Directory of the Python under test, for the free space on its file system; default: of the running one."""

    @property
    def real(self) -> bool:
        """False when a recorded tree stands for the machine: then only the tree and `env` may be believed."""
        return self.root == Path("/")

    def path(self, name: str) -> Path:
        """The place of an absolute path of the machine."""
        return self.root / name.lstrip("/")

    def data(self, name: str, limit: int = READ_LIMIT) -> bytes | None:
        """The first bytes of a file, None when it is absent or unreadable."""
        try:
            with self.path(name).open("rb", buffering=0) as file:
                chunks = []
                # In small bites: files of /proc/sys refuse a read of megabytes with ENOMEM.
                while limit > 0 and (chunk := file.read(min(limit, _BITE))):
                    chunks.append(chunk)
                    limit -= len(chunk)
        except OSError:
            return None
        return b"".join(chunks)

    def text(self, name: str, limit: int = READ_LIMIT) -> str | None:
        """Contents of a small file, None when it is absent or unreadable."""
        found = self.data(name, limit)
        return None if found is None else found.decode("utf-8", "backslashreplace")

    def head(self, name: str, size: int = 16 * 1024) -> str:
        """The beginning of a file in one read, "" when it is absent.

        For files that the kernel writes while they are read: /proc/cpuinfo of 256 cores costs as much as all the rest.
        """
        try:
            with self.path(name).open("rb", buffering=0) as file:
                return (file.read(size) or b"").decode("utf-8", "backslashreplace")
        except OSError:
            return ""

    def exists(self, name: str) -> bool | None:
        """True, False, or None where the directory may not be looked into."""
        try:
            self.path(name).lstat()
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:
            return None
        return True

    def glob(self, pattern: str) -> list[str]:
        """Absolute names (of the machine, without `root`) that match a pattern, sorted."""
        relative = pattern.lstrip("/")
        try:
            found = sorted(self.root.glob(relative))
        except OSError:
            return []
        return ["/" + str(item.relative_to(self.root)).replace(os.sep, "/") for item in found]
