"""Runs the probe in environments of the kit and turns its answer into facts."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from envcheck.facts import Symptom
from envcheck.probes.interpreter import Interpreter, facts_from
from envcheck.probes.questioning import Questioning
from envcheck.target import Answer
from tests.kit_python.environments import make_venv

CLEAN = ("PYTHONPATH", "PYTHONHOME", "PYTHONSAFEPATH", "PYTHONNOUSERSITE", "VIRTUAL_ENV", "CONDA_PREFIX", "LD_LIBRARY_PATH")


@dataclass
class Env:
    """A virtual environment, the directory in which it is used, and how it is questioned."""

    python: Path
    site: Path
    cwd: Path
    variables: dict[str, str]

    def ask(self, *, quick: bool = False, timeout: float = 30.0, **options: object) -> Answer:
        """The probe's answer here."""
        options = {"companions": False, "env": self.variables, "cwd": self.cwd, **options}
        return Questioning(self.python, quick=quick, **options).finish(timeout)  # type: ignore[arg-type]

    def facts(self, *, quick: bool = False, **options: object) -> Interpreter:
        """What becomes of the answer."""
        return facts_from(self.ask(quick=quick, **options), quick=quick, env=self.variables, cwd=self.cwd, recognise=quote)


def quote(text: str, *, source: str) -> tuple[Symptom, ...]:
    """Takes the place of the catalogue of errors: hands the text on as it came."""
    return (Symptom(kind="text", text=text, source=source),)


@pytest.fixture
def variables(tmp_path: Path) -> dict[str, str]:
    """This process's environment without what steers a Python, and with a home of its own."""
    found = {name: value for name, value in os.environ.items() if name not in CLEAN}
    return {**found, "HOME": str(tmp_path / "home"), "PYTHONDONTWRITEBYTECODE": "1"}


@pytest.fixture
def env(tmp_path: Path, variables: dict[str, str]) -> Env:
    """An empty virtual environment and an empty current directory."""
    python, site = make_venv(tmp_path / "venv")
    (tmp_path / "cwd").mkdir()
    (tmp_path / "home").mkdir()
    return Env(python, site, tmp_path / "cwd", variables)


@pytest.fixture
def part() -> Callable[[str], object]:
    """Loads a module of the probe by its name, as the probe does."""
    import importlib.util

    from envcheck.target import PAYLOADS

    def load(name: str) -> object:
        path = PAYLOADS / f"{name}.py" if name == "probe_env" else PAYLOADS / "probe_parts" / f"{name}.py"
        spec = importlib.util.spec_from_file_location(f"part_{name}", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load
