"""Shared ground of all tests: where outside data and a Python with torch are found, and what no test may touch."""

from __future__ import annotations

import os
import shutil
import sys
from functools import cache
from pathlib import Path

import pytest

from envcheck import process

ROOT = Path(__file__).resolve().parent.parent


@cache
def shared_folder() -> Path | None:
    """Data that is not part of the repository: ENVCHECK_SHARED, else `shared` beside the checkout."""
    named = os.environ.get("ENVCHECK_SHARED")
    for candidate in ((Path(named),) if named else ()) + (ROOT.parent / "shared",):
        if candidate.is_dir():
            return candidate
    return None


@cache
def torch_python() -> str | None:
    """A Python that has torch: ENVCHECK_TORCH_PYTHON, else the running one if torch lies on its path."""
    named = os.environ.get("ENVCHECK_TORCH_PYTHON")
    if named:
        return named if shutil.which(named) else None
    from importlib.util import find_spec

    return sys.executable if find_spec("torch") is not None else None


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of outside data; skips where it is absent."""
    found = shared_folder()
    if found is None:
        pytest.skip("no outside data: set ENVCHECK_SHARED or put a folder `shared` beside the checkout")
    return found


@pytest.fixture(scope="session")
def python_with_torch() -> str:
    """The interpreter that has torch; skips where there is none."""
    found = torch_python()
    if found is None:
        pytest.skip("no torch: install envcheck[torch] or set ENVCHECK_TORCH_PYTHON to an interpreter that has it")
    return found


@pytest.fixture(autouse=True)
def _home_is_not_touched(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Caches of a test go to a folder of its own; colour and width do not depend on who runs the tests."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("COLUMNS", "80")


@pytest.fixture
def envcheck_cli():
    """Runs the command line in a process of its own: `envcheck_cli("doctor", "--json", env={...})`."""

    def call(*args: str, env: dict[str, str] | None = None, timeout: float = 120.0, cwd=None, stdin: bytes | None = None):
        full = {**os.environ, **(env or {})}
        return process.run([sys.executable, "-m", "envcheck", *args], timeout=timeout, env=full, cwd=cwd or ROOT, stdin=stdin)

    return call
