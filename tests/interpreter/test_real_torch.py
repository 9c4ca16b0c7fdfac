"""The whole questioning of a Python that has a real torch."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from envcheck.probes.interpreter import facts_from
from envcheck.probes.questioning import PROBE, Questioning
from envcheck.process import run

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def answer(python_with_torch: str, tmp_path_factory: pytest.TempPathFactory):
    cwd = tmp_path_factory.mktemp("cwd")
    questioning = Questioning(python_with_torch, cwd=cwd)
    return questioning.finish(180.0)


def test_it_answers_every_stage(answer) -> None:
    assert answer.kind == "answered", answer.outcome
    assert [s["stage"] for s in answer.stages if s.get("kind") == "internal"] == []
    names = [s["stage"] for s in answer.stages]
    assert names[:6] == ["interpreter", "environment", "torch-files", "distributions", "installed-files", "import-torch"]
    assert names[-1] == "done"


def test_files_tell_what_torch_says(answer) -> None:
    files, build = answer.stage("torch-files"), answer.stage("torch-build")
    for name in ("version", "cuda", "hip", "xpu", "debug", "git_version"):
        assert files[name] == build[name], name
    assert files["arch_list"] == build["arch_list"]
    assert files["problems"] == []
    assert files["location"] == answer.stage("import-torch")["location"]


def test_the_facts(answer, python_with_torch: str) -> None:
    found = facts_from(answer)
    assert found.torch.imports is not None
    assert found.torch.imports.ok
    assert found.torch.numpy_bridge is not None
    assert not found.torch.numpy_bridge.bad
    libraries = {item.name: item for item in found.torch.loaded_libraries or ()}
    assert libraries["torch_cpu"].origin in ("wheel", "conda")
    assert "c10" in libraries
    torch = next(d for d in found.python.distributions or () if d.name in ("torch", "pytorch"))
    assert not torch.files_missing
    assert not torch.files_changed
    assert found.python.torch_elsewhere is None


def test_a_quick_look_stays_quick(python_with_torch: str) -> None:
    """Processor time beyond what this interpreter needs to start: about 0.1 s, with room for a slow or busy machine.

    Wall time would measure the neighbours.
    """

    def seconds(*args: str) -> float:
        import resource

        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = run([python_with_torch, *args], timeout=60)
        assert done.ok, done.stderr
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    if os.name != "posix":
        pytest.skip("processor time of children is told by POSIX alone")
    probe = min(seconds(str(PROBE), "--quick") for _ in range(3))
    empty = min(seconds("-c", "pass") for _ in range(3))
    assert probe - empty < 0.25, f"{probe:.3f} s, of which the interpreter alone {empty:.3f} s"


def test_a_missing_library_is_told_by_name(python_with_torch: str, tmp_path: Path) -> None:
    """The real package without one of its libraries: a farm of links, and a copy of the file that needs it."""
    if not sys.platform.startswith("linux"):
        pytest.skip("the message is that of the loader of Linux")
    code = "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])"
    real = Path(run([python_with_torch, "-c", code], timeout=60).stdout.strip())
    copy = tmp_path / "site" / "torch"
    (copy / "lib").mkdir(parents=True)
    for item in real.iterdir():
        if item.name.startswith("_C."):
            shutil.copy(item, copy / item.name)
        elif item.name != "lib":
            (copy / item.name).symlink_to(item)
    for item in (real / "lib").iterdir():
        if not item.name.startswith("libtorch_python"):
            (copy / "lib" / item.name).symlink_to(item)
    env = {**os.environ, "PYTHONPATH": str(copy.parent)}
    answer = Questioning(python_with_torch, env=env, cwd=tmp_path, companions=False).finish(120)
    found = facts_from(answer, env=env, cwd=tmp_path)
    assert found.torch.copies is not None
    assert found.torch.copies[0] == str(copy)
    assert found.torch.problems == ("libraries-missing",)
    assert found.torch.imports is not None
    assert (found.torch.imports.status, found.torch.imports.error_type) == ("failed", "ImportError")
    assert "libtorch_python.so: cannot open shared object file" in (found.torch.imports.error or "")
    assert found.symptoms, "the loader's words are a known signature"
