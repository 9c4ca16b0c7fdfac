"""The probe on every interpreter of this machine, and its plain word to one that is too old."""

from __future__ import annotations

from pathlib import Path

import pytest

from envcheck.probes.interpreter import facts_from
from envcheck.probes.questioning import Questioning
from tests.kit_python.environments import pyenv_pythons
from tests.kit_python.packages import CUDNN_GONE, make_torch

PYTHONS = pyenv_pythons()
NONE = [pytest.param(None, marks=pytest.mark.skip(reason="no interpreters of pyenv (PYENV_ROOT, ~/.pyenv) on this machine"))]


def _version(python: Path) -> tuple[int, ...]:
    return tuple(int(part) for part in python.parent.parent.name.split(".")[:3] if part.isdigit())


def _some(wanted) -> list:
    return [pytest.param(p, id=p.parent.parent.name) for p in PYTHONS if wanted(_version(p))] or NONE


@pytest.mark.parametrize("python", _some(lambda v: v >= (3, 6)))
def test_a_quick_look(python: Path, variables: dict[str, str], tmp_path: Path) -> None:
    make_torch(tmp_path / "more", requires=["nvidia-cudnn-cu12==9.10.2.21; platform_system == 'Linux'"])
    variables["PYTHONPATH"] = str(tmp_path / "more")
    answer = Questioning(python, quick=True, env=variables, cwd=tmp_path).finish(20)
    assert answer.kind == "answered", (answer.outcome, answer.noise)
    assert [s["stage"] for s in answer.stages if s.get("kind") == "internal"] == []
    found = facts_from(answer, quick=True, env=variables, cwd=tmp_path)
    assert found.python.version == ".".join(map(str, _version(python)))
    assert found.python.kind == "pyenv"
    assert found.python.bits == 64
    assert found.python.implementation == "cpython"
    assert found.python.free_threaded is False
    assert found.torch.version == "2.8.0+cu128"
    assert found.torch.arch_list == ("sm_75", "sm_80", "sm_86", "sm_90", "compute_90")
    torch = next(d for d in found.python.distributions or () if d.name == "torch")
    assert (torch.site, torch.manager, torch.files_missing) == ("pythonpath", "pip", ())
    assert torch.requires == ("nvidia-cudnn-cu12==9.10.2.21; platform_system == 'Linux'",)
    assert found.symptoms == ()


@pytest.mark.parametrize("python", _some(lambda v: v >= (3, 6)))
def test_a_failing_import_is_told_in_full(python: Path, variables: dict[str, str], tmp_path: Path) -> None:
    make_torch(tmp_path / "more", init=CUDNN_GONE)
    variables["PYTHONPATH"] = str(tmp_path / "more")
    answer = Questioning(python, env=variables, cwd=tmp_path, companions=False).finish(20)
    assert answer.kind == "answered", answer.outcome
    said = answer.stage("import-torch")
    assert said is not None
    assert (said["error_type"], said["kind"]) == ("ImportError", "raised")
    assert said["error"] == "libcudnn.so.8: cannot open shared object file: No such file or directory"


@pytest.mark.parametrize("python", _some(lambda v: v < (3, 6)))
def test_one_that_is_too_old_gets_a_plain_answer(python: Path, variables: dict[str, str], tmp_path: Path) -> None:
    answer = Questioning(python, quick=True, env=variables, cwd=tmp_path).finish(20)
    assert answer.kind == "too-old"
    assert answer.version == ".".join(map(str, _version(python)))
    problem = answer.problem()
    assert problem is not None
    assert problem.endswith(f"is Python {answer.version}; envcheck examines 3.6 and newer")
    assert "Traceback" not in problem
    assert facts_from(answer, env=variables, cwd=tmp_path).python.version == answer.version
