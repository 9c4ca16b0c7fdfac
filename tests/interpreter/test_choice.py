"""Which interpreter is examined when nobody says, and how a person may name one."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from envcheck.errors import TargetError
from envcheck.target import child_environment, choose, locate
from envcheck.target import choice as module
from tests.kit_python.environments import make_venv, posix_only
from tests.kit_python.interpreters import make_interpreter

pytestmark = posix_only


def _own(monkeypatch: pytest.MonkeyPatch, prefix: Path, base: str = "/usr") -> Path:
    """Makes envcheck's own Python that of `prefix`."""
    python = make_interpreter(prefix / "bin" / "python", "")
    monkeypatch.setattr(sys, "executable", str(python))
    monkeypatch.setattr(sys, "prefix", str(prefix))
    monkeypatch.setattr(sys, "base_prefix", base)
    return python


def _env(*prefixes: Path, **more: str) -> dict[str, str]:
    return {"PATH": os.pathsep.join(str(p / "bin") for p in prefixes), **more}


def _prefix(path: Path) -> Path:
    make_interpreter(path / "bin" / "python", "")
    return path


def test_envchecks_own_when_nothing_is_active(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    own = _own(monkeypatch, tmp_path / "own")
    choice = choose(None, _env(tmp_path / "own"), tmp_path)
    assert (choice.python, choice.reason, choice.others) == (own, "envcheck's own Python", ())


def test_the_active_environment_goes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _own(monkeypatch, tmp_path / "own")
    venv = _prefix(tmp_path / "venv")
    choice = choose(None, _env(venv, VIRTUAL_ENV=str(venv)), tmp_path)
    assert (choice.python, choice.reason) == (venv / "bin" / "python", "active virtual environment")


def test_of_two_active_ones_the_first_on_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _own(monkeypatch, tmp_path / "own", base=str(tmp_path / "own"))
    venv, conda = _prefix(tmp_path / "venv"), _prefix(tmp_path / "conda")
    both = {"VIRTUAL_ENV": str(venv), "CONDA_PREFIX": str(conda), "CONDA_DEFAULT_ENV": "e"}
    assert choose(None, _env(venv, conda, **both), tmp_path).python == venv / "bin" / "python"
    assert choose(None, _env(conda, venv, **both), tmp_path).python == conda / "bin" / "python"
    assert choose(None, _env(**both), tmp_path).python == venv / "bin" / "python"


def test_condas_base_does_not_beat_an_environment_of_envchecks_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    own = _own(monkeypatch, tmp_path / "own")
    conda = _prefix(tmp_path / "conda")
    active = {"CONDA_PREFIX": str(conda), "CONDA_DEFAULT_ENV": "base"}
    choice = choose(None, _env(conda, **active), tmp_path)
    assert choice.python == own
    assert choice.others == (conda / "bin" / "python",)
    assert choose(None, _env(conda, **{**active, "CONDA_DEFAULT_ENV": "work"}), tmp_path).python == conda / "bin" / "python"
    _own(monkeypatch, tmp_path / "system", base=str(tmp_path / "system"))
    assert choose(None, _env(conda, **active), tmp_path).python == conda / "bin" / "python"


def test_a_tool_runners_own_environment_is_nobodys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    own = _own(monkeypatch, tmp_path / "share/uv/tools/torch-envcheck")
    assert choose(None, {"PATH": ""}, tmp_path).python == own
    system = _prefix(tmp_path / "system")
    choice = choose(None, _env(own.parent.parent, system), tmp_path)
    assert choice.python == own, "the first python of PATH is its own: nothing else is known"
    choice = choose(None, _env(system), tmp_path)
    assert (choice.python, choice.reason) == (system / "bin" / "python", "python of PATH")
    project = _prefix(tmp_path / "project" / ".venv")
    choice = choose(None, _env(system), tmp_path / "project")
    assert (choice.python, choice.reason) == (project / "bin" / "python", ".venv of the current directory")


def test_an_active_environment_that_is_gone_is_passed_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    own = _own(monkeypatch, tmp_path / "own")
    assert choose(None, _env(VIRTUAL_ENV=str(tmp_path / "gone")), tmp_path).python == own


def test_a_python_of_path_that_is_another_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _own(monkeypatch, tmp_path / "own")
    other = _prefix(tmp_path / "other")
    make_interpreter(other / "bin" / "python3", "")
    assert choose(None, _env(other), tmp_path).others == (other / "bin" / "python", other / "bin" / "python3")


@pytest.mark.parametrize(
    ("where", "text"),
    [("env", "3.8.1"), ("local", "3.8.1\n"), ("local", "# mine\n3.8\n"), ("global", "system\n3.8.1\n")],
    ids=["variable", "file", "short", "global"],
)
def test_a_version_managers_stand_in_is_followed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, where: str, text: str) -> None:
    _own(monkeypatch, tmp_path / "own")
    root = tmp_path / "pyenv"
    make_interpreter(root / "shims" / "python", "")
    behind = _prefix(root / "versions" / "3.8.1")
    (tmp_path / "project").mkdir()
    variables = {"PATH": str(root / "shims")}
    if where == "env":
        variables["PYENV_VERSION"] = text
    else:
        (tmp_path / "project" / ".python-version" if where == "local" else root / "version").write_text(text)
    assert choose(None, variables, tmp_path / "project").others == (behind / "bin" / "python",)


def test_a_stand_in_for_nothing_is_left_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _own(monkeypatch, tmp_path / "own")
    make_interpreter(tmp_path / "pyenv/shims/python", "")
    variables = {"PATH": str(tmp_path / "pyenv/shims"), "PYENV_VERSION": "../../own:3.1"}
    assert choose(None, variables, tmp_path).others == ()


def test_naming_one(tmp_path: Path) -> None:
    python, _ = make_venv(tmp_path / "venv")
    env = _env(tmp_path / "venv")
    assert locate(python, env) == python
    assert locate(tmp_path / "venv", env) == python
    assert locate("python", env) == python
    assert choose(python, env, tmp_path).reason == "--python"
    assert os.path.islink(locate(python, env)), "a link is not followed: the environment is around it"


@pytest.mark.parametrize(
    ("name", "words"),
    [("nothing", "no such file here and no such command on PATH"), ("no/thing", "no such file"), (".", "a directory without a Python")],
)
def test_naming_one_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, words: str) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TargetError, match=words):
        locate(name, {"PATH": ""})


def test_an_environment_that_has_lost_its_base(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to("/opt/python3.8/bin/python3.8")
    with pytest.raises(TargetError, match=r"a link to /opt/python3.8/bin/python3.8, which is gone"):
        locate(tmp_path / "bin" / "python")


def test_conda_on_windows_gets_the_path_that_activation_gives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WINDOWS", True)
    (tmp_path / "conda-meta").mkdir()
    python = tmp_path / "python.exe"
    found = child_environment(python, {"PATH": "/windows"})["PATH"].split(os.pathsep)
    assert str(tmp_path / "Library/bin") in found
    assert found[-1] == "/windows"
    active = child_environment(python, {"PATH": "/windows", "CONDA_PREFIX": str(tmp_path)})
    assert active["PATH"] == "/windows"
    monkeypatch.setattr(module, "WINDOWS", False)
    assert child_environment(python, {"PATH": "/bin"})["PATH"] == "/bin"
