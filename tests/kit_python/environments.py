"""Virtual environments without pip, made in milliseconds, and the interpreters that a machine has."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

posix_only = pytest.mark.skipif(os.name != "posix", reason="the fake is a POSIX script or link")


def make_venv(directory: Path, base: str = sys.executable, config: str = "") -> tuple[Path, Path]:
    """A virtual environment of that base; returns (interpreter, site-packages)."""
    real = Path(os.path.realpath(base))
    name = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    site = directory / "lib" / name / "site-packages"
    site.mkdir(parents=True)
    (directory / "bin").mkdir()
    (directory / "bin" / "python").symlink_to(real)
    (directory / "pyvenv.cfg").write_text(f"home = {real.parent}\ninclude-system-site-packages = false\n{config}")
    return directory / "bin" / "python", site


def pyenv_pythons() -> list[Path]:
    """Interpreters that pyenv has installed, oldest name first."""
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    return sorted(path for path in root.glob("versions/*/bin/python") if path.exists())
