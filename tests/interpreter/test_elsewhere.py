"""Where torch is when it is not in the Python under test; which Python `pip` serves: by looking only."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from envcheck.probes import elsewhere
from envcheck.probes.elsewhere import pip_python, torch_elsewhere, version_of
from tests.interpreter.conftest import Env
from tests.kit_python.environments import posix_only
from tests.kit_python.interpreters import make_interpreter
from tests.kit_python.packages import make_torch

pytestmark = posix_only


def _environment(prefix: Path, library: str = "lib/python3.11/site-packages") -> Path:
    make_torch(prefix / library, metadata=False)
    return make_interpreter(prefix / "bin" / "python", "exit 1")


@pytest.mark.parametrize(
    ("place", "library"),
    [
        ("project/.venv", "lib/python3.11/site-packages"),
        ("venv", "lib/python3.11/site-packages"),
        ("home/miniconda3", "lib/python3.11/site-packages"),
        ("home/miniforge3/envs/ml", "lib/python3.12/site-packages"),
        ("home/.pyenv/versions/3.10.1", "lib64/python3.10/site-packages"),
        ("root/opt/conda", "lib/python3.10/site-packages"),
        ("root/usr", "lib/python3/dist-packages"),
        ("root/usr", "local/lib/python3.10/dist-packages"),
    ],
)
def test_where_it_may_be(tmp_path: Path, place: str, library: str) -> None:
    python = _environment(tmp_path / place, library)
    (tmp_path / "project").mkdir(exist_ok=True)
    found = torch_elsewhere(
        tmp_path / "own/bin/python", {"PATH": ""}, tmp_path / "project", home=tmp_path / "home", root=tmp_path / "root"
    )
    assert found == (str(python),)


def test_the_likeliest_first_and_each_once_and_never_its_own(tmp_path: Path) -> None:
    own = _environment(tmp_path / "own")
    active = _environment(tmp_path / "active")
    listed = _environment(tmp_path / "listed")
    (tmp_path / "home/.conda").mkdir(parents=True)
    (tmp_path / "home/.conda/environments.txt").write_text(f"{tmp_path}/listed\n{tmp_path}/active\n\n")
    env = {"PATH": f"{tmp_path}/own/bin", "CONDA_PREFIX": str(tmp_path / "active")}
    found = torch_elsewhere(own, env, tmp_path, home=tmp_path / "home", root=tmp_path / "root")
    assert found == (str(active), str(listed))


def test_an_environment_without_torch_is_not_named(tmp_path: Path) -> None:
    python = _environment(tmp_path / "venv")
    (tmp_path / "venv/lib/python3.11/site-packages/torch/version.py").unlink()
    assert torch_elsewhere(python.parent.parent.parent / "own/bin/python", {"PATH": ""}, tmp_path, home=tmp_path, root=tmp_path) == ()


def test_the_search_ends_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _environment(tmp_path / "venv")
    monkeypatch.setattr(elsewhere, "SECONDS", -1.0)
    assert torch_elsewhere(tmp_path / "own/bin/python", {"PATH": ""}, tmp_path, home=tmp_path, root=tmp_path) == ()


def test_the_facts_name_it_only_when_this_one_has_none(env: Env) -> None:
    python = _environment(env.cwd / ".venv")
    env.variables["PATH"] = ""
    assert str(python) in (env.facts(quick=True).python.torch_elsewhere or ())
    make_torch(env.site)
    assert env.facts(quick=True).python.torch_elsewhere is None


# -- pip ---------------------------------------------------------------------------------------------------------------


def _pip(folder: Path, first_line: str) -> dict[str, str]:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pip").write_text(first_line + "import sys\n")
    (folder / "pip").chmod(0o755)
    return {"PATH": str(folder)}


def test_pip_beside_the_interpreter(tmp_path: Path) -> None:
    env = _pip(tmp_path / "venv/bin", "#!/nowhere/python\n")
    assert pip_python(env, tmp_path / "venv/bin/python", "3.11.7") == "3.11.7"


@pytest.mark.parametrize("form", ["#!{}\n", "#! {} -I\n", "#!/bin/sh\n'''exec' \"{}\" \"$0\" \"$@\"\n' '''\n"], ids=["plain", "option", "long"])
def test_pip_of_another_python(tmp_path: Path, form: str) -> None:
    other = make_interpreter(tmp_path / "other/bin/python3.9", "")
    env = _pip(tmp_path / "bin", form.format(other))
    assert pip_python(env, tmp_path / "venv/bin/python", "3.11.7") == "3.9"
    assert pip_python(env, other, "3.9.18") == "3.9.18"


@pytest.mark.parametrize("line", ["#!/usr/bin/env python3\n", "#!/bin/sh\n", "MZ\x00", ""], ids=["env", "shell", "binary", "empty"])
def test_pip_that_does_not_say(tmp_path: Path, line: str) -> None:
    assert pip_python(_pip(tmp_path / "bin", line), tmp_path / "venv/bin/python", "3.11.7") is None


def test_no_pip_and_a_version_managers_pip(tmp_path: Path) -> None:
    assert pip_python({"PATH": ""}, tmp_path / "python", "3.11.7") is None
    assert pip_python(_pip(tmp_path / "shims", "#!/other/python3.9\n"), tmp_path / "python", "3.11.7") is None


def test_the_version_of_an_interpreter_from_what_lies_around_it(tmp_path: Path) -> None:
    venv = make_interpreter(tmp_path / "venv/bin/python", "")
    (tmp_path / "venv/pyvenv.cfg").write_text("home = /usr/bin\nversion_info = 3.12.4.final.0\n")
    assert version_of(venv) == "3.12.4"
    named = make_interpreter(tmp_path / "usr/bin/python3.10", "")
    assert version_of(named) == "3.10"
    (tmp_path / "usr/bin/python").symlink_to(named)
    assert version_of(tmp_path / "usr/bin/python") == "3.10"
    plain = make_interpreter(tmp_path / "opt/bin/python", "")
    assert version_of(plain) is None
    os.makedirs(tmp_path / "opt/lib/python3.13")
    assert version_of(plain) == "3.13"
