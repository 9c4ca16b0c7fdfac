"""What torch's own files tell without importing it, and which files of the user's get in its way."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.interpreter.conftest import Env
from tests.kit_python import packages
from tests.kit_python.environments import posix_only
from tests.kit_python.packages import make_torch

pytestmark = posix_only


@pytest.mark.parametrize(
    ("version", "backends", "expected"),
    [
        ("2.8.0+cu128", {"cuda": "12.8"}, ("12.8", "", "", ("sm_75", "sm_80", "sm_86", "sm_90", "compute_90"))),
        ("2.8.0+cpu", {"cuda": None}, ("", "", "", ())),
        ("2.8.0+rocm6.4", {"cuda": None, "hip": "6.4.43482"}, ("", "6.4.43482", "", ("gfx900", "gfx906", "gfx90a", "gfx1100"))),
        ("2.8.0+xpu", {"cuda": None, "xpu": "20250101"}, ("", "", "20250101", ())),
        ("2.8.0a0+gitabc", {"cuda": "12.8", "arches": "sm_86"}, ("12.8", "", "", ("sm_86",))),
        ("2.8.0", {"cuda": "12.8", "arches": "sm_90a compute_120"}, ("12.8", "", "", ("sm_90a", "compute_120"))),
        ("2.8.0", {"cuda": "12.8", "arches": "compute_90"}, ("12.8", "", "", ("compute_90",))),
    ],
    ids=["cuda", "cpu", "rocm", "xpu", "own-build", "suffixes", "ptx-alone"],
)
def test_the_build(env: Env, version: str, backends: dict, expected: tuple) -> None:
    make_torch(env.site, version, **backends)
    torch = env.facts(quick=True).torch
    assert torch.version == version
    assert (torch.cuda, torch.hip, torch.xpu, torch.arch_list) == expected
    assert torch.problems == ()
    assert torch.debug is False
    assert torch.location == str(env.site / "torch")


def test_an_old_version_file_and_releases_without_a_word_for_a_backend(env: Env) -> None:
    package = make_torch(env.site, "1.4.0", cuda="10.1")
    (package / "version.py").write_text("__version__ = '1.4.0'\ndebug = False\ncuda = '10.1'  # of the build\ngit_version = 'x'\n")
    torch = env.facts(quick=True).torch
    assert (torch.version, torch.cuda, torch.hip, torch.xpu) == ("1.4.0", "10.1", "", "")


def test_no_version_file(env: Env) -> None:
    package = make_torch(env.site)
    (package / "version.py").unlink()
    torch = env.facts(quick=True).torch
    assert torch.version == "2.8.0+cu128", "the metadata still tells it"
    assert torch.cuda is None
    assert torch.problems == ("no-version-file",)


def test_a_list_that_no_string_of_the_library_shows_is_unknown(env: Env) -> None:
    package = make_torch(env.site)
    packages.write_python_library(package / "lib" / "libtorch_python.so", "no list here")
    torch = env.facts(quick=True).torch
    assert torch.arch_list is None
    (package / "lib" / "libtorch_python.so").write_bytes(b"")
    assert env.facts(quick=True).torch.arch_list is None


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (lambda torch: (torch / "lib" / "libtorch_cuda.so").unlink(), "libraries-missing"),
        (lambda torch: (torch / "lib" / "libtorch_python.so").unlink(), "libraries-missing"),
        (lambda torch: [p.unlink() for p in torch.glob("_C*")], "extension-missing"),
        (lambda torch: [p.rename(torch / "_C.cpython-27m-x86_64-linux-gnu.so") for p in torch.glob("_C*")], "extension-other-python"),
        (lambda torch: (torch / "__init__.py").unlink(), "namespace-leftover"),
    ],
    ids=["cuda-library", "python-library", "no-extension", "other-python", "no-init"],
)
def test_damage(env: Env, damage, problem: str) -> None:
    damage(make_torch(env.site))
    found = env.facts(quick=True)
    assert found.torch.problems == (problem,)
    assert found.torch.found is (problem != "namespace-leftover")
    assert found.torch.location == str(env.site / "torch")


def test_the_import_of_a_leftover_says_that_it_is_no_torch(env: Env) -> None:
    package = make_torch(env.site)
    (package / "__init__.py").unlink()
    imports = env.facts().torch.imports
    assert imports is not None
    assert imports.status == "failed"
    assert "no attribute '__version__'" in (imports.error or "")


def test_libraries_in_the_prefix_are_no_damage(env: Env) -> None:
    package = make_torch(env.site)
    lib = env.python.parent.parent / "lib"
    for name in ("libtorch_cuda.so", "libtorch_cpu.so"):
        (package / "lib" / name).rename(lib / name)
    torch = env.facts(quick=True).torch
    assert torch.problems == ()
    assert torch.cuda == "12.8"


def test_every_copy_is_told_the_imported_one_first(env: Env, tmp_path: Path) -> None:
    make_torch(env.site, "2.8.0+cu128")
    make_torch(tmp_path / "other", "2.6.0+cpu", cuda=None)
    env.variables["PYTHONPATH"] = str(tmp_path / "other")
    torch = env.facts(quick=True).torch
    assert torch.copies == (str(tmp_path / "other" / "torch"), str(env.site / "torch"))
    assert torch.version == "2.6.0+cpu"
    assert torch.cuda == ""


# -- shadows -----------------------------------------------------------------------------------------------------------


def _shadows(env: Env) -> list[tuple[str, str | None]]:
    return [(s.module, s.by) for s in env.facts(quick=True).python.shadows or ()]


@pytest.mark.parametrize("name", ["torch", "numpy", "random", "onnx", "typing_extensions"])
def test_a_file_of_the_current_directory_hides_a_module(env: Env, name: str) -> None:
    make_torch(env.site)
    (env.site / "numpy").mkdir()
    (env.site / "numpy" / "__init__.py").touch()
    (env.site / "typing_extensions.py").touch()
    (env.cwd / f"{name}.py").write_text("print('mine')")
    found = env.facts(quick=True)
    (shadow,) = found.python.shadows or ()
    assert (shadow.module, shadow.path, shadow.by) == (name, str(env.cwd / f"{name}.py"), "cwd")
    if name in ("torch", "numpy"):
        assert shadow.hides == str(env.site / name / "__init__.py")
    elif name == "random":
        assert shadow.hides is not None
        assert shadow.hides.endswith("random.py")
    assert found.torch.version == "2.8.0+cu128", "the real torch is still described"


def test_a_package_directory_hides_too_and_a_folder_of_data_does_not(env: Env) -> None:
    make_torch(env.site)
    (env.cwd / "torch").mkdir()
    assert _shadows(env) == []
    (env.cwd / "torch" / "__init__.py").touch()
    assert _shadows(env) == [("torch", "cwd")]


@pytest.mark.parametrize("name", ["test", "utils", "sys", "time", "os", "codecs", "this", "antigravity", "setup", "tomllib_", "train"])
def test_files_that_get_in_nobodys_way(env: Env, name: str) -> None:
    make_torch(env.site)
    (env.cwd / f"{name}.py").touch()
    assert _shadows(env) == []


def test_the_debuggers_modules_count_where_torch_imports_it(env: Env) -> None:
    package = make_torch(env.site)
    (env.cwd / "code.py").touch()
    (env.cwd / "statistics.py").touch()
    assert _shadows(env) == []
    (package / "distributed").mkdir()
    (package / "distributed" / "__init__.py").write_text("import os\nimport pdb\n")
    (env.site / "torchvision").mkdir()
    assert _shadows(env) == [("code", "cwd"), ("statistics", "cwd")]


def test_once_torch_was_imported_only_what_it_used_counts(env: Env) -> None:
    make_torch(env.site, init=packages.WORKS + "\nimport uuid")
    (env.cwd / "uuid.py").touch()
    (env.cwd / "calendar.py").touch()
    assert _shadows(env) == [("calendar", "cwd"), ("uuid", "cwd")]
    assert [s.module for s in env.facts().python.shadows or ()] == ["uuid"]


def test_entries_of_the_path_that_are_no_text(env: Env) -> None:
    make_torch(env.site)
    (env.site / "odd.pth").write_text("import sys, pathlib; sys.path[:0] = [pathlib.Path('/'), b'/', 7, '']\n")
    answer = env.ask(quick=True)
    assert [s["stage"] for s in answer.stages if s.get("kind") == "internal"] == []
    assert answer.stage("torch-files")["version"] == "2.8.0+cu128"  # type: ignore[index]


def test_a_module_that_is_nowhere_else_is_hidden_only_where_it_is_asked_for(env: Env) -> None:
    (env.cwd / "tensorboard.py").touch()
    (env.cwd / "torch.py").touch()
    (shadow,) = env.facts(quick=True).python.shadows or ()
    assert (shadow.module, shadow.hides) == ("torch", None)


def test_pythonpath(env: Env, tmp_path: Path) -> None:
    make_torch(env.site)
    folder = tmp_path / "lib"
    folder.mkdir()
    (folder / "queue.py").touch()
    env.variables["PYTHONPATH"] = str(folder)
    assert _shadows(env) == [("queue", "pythonpath")]


def test_a_torch_file_on_pythonpath_is_what_would_be_imported(env: Env, tmp_path: Path) -> None:
    make_torch(env.site)
    folder = tmp_path / "lib"
    folder.mkdir()
    (folder / "torch.py").write_text("x = 1")
    env.variables["PYTHONPATH"] = str(folder)
    found = env.facts()
    assert found.torch.problems == ("not-torch",)
    assert found.torch.location == str(folder / "torch.py")
    (shadow,) = found.python.shadows or ()
    assert (shadow.module, shadow.by, shadow.hides) == ("torch", "pythonpath", str(env.site / "torch" / "__init__.py"))
    assert found.torch.imports is not None
    assert found.torch.imports.bad


def test_a_file_among_the_packages_that_only_has_the_name(env: Env) -> None:
    (env.site / "torch.py").write_text("x = 1")
    found = env.facts(quick=True)
    (shadow,) = found.python.shadows or ()
    assert (shadow.path, shadow.by, shadow.hides) == (str(env.site / "torch.py"), "path", None)
    assert found.torch.found is False


def test_a_package_folder_on_pythonpath_is_no_shadow(env: Env, tmp_path: Path) -> None:
    make_torch(env.site)
    make_torch(tmp_path / "site", "2.7.0+cpu", cuda=None)
    env.variables["PYTHONPATH"] = str(tmp_path / "site")
    assert _shadows(env) == []


def test_the_current_directory_does_not_count_in_safe_mode(env: Env) -> None:
    import sys

    if sys.version_info < (3, 11):
        pytest.skip("PYTHONSAFEPATH is of Python 3.11")
    (env.cwd / "random.py").touch()
    env.variables["PYTHONSAFEPATH"] = "1"
    answer = env.ask(quick=True)
    assert answer.stage("torch-files")["shadows"] == []  # type: ignore[index]
    assert answer.stage("interpreter")["safe_path"] is True  # type: ignore[index]


def test_a_checkout_installed_in_place_hides_nothing(env: Env) -> None:
    make_torch(env.cwd, metadata=False)
    (env.site / "torch.pth").write_text(f"{env.cwd}\n")
    found = env.facts(quick=True)
    assert found.python.shadows == ()
    assert found.torch.location == str(env.cwd / "torch")


def test_the_current_directory_may_be_gone(env: Env) -> None:
    make_torch(env.site)
    script = env.cwd.parent / "gone.sh"
    script.write_text(f'mkdir "{env.cwd}/x"; cd "{env.cwd}/x"; rmdir "{env.cwd}/x"; exec "{env.python}" "$@"\n')
    from envcheck import process
    from envcheck.probes.questioning import PROBE

    done = process.run(["/bin/sh", script, PROBE, "--quick"], timeout=20, env=env.variables)
    assert '"stage": "torch-files", "result": "ok", "found": true' in done.stdout, done.stderr


def test_the_probes_own_folder_is_not_on_the_path(env: Env) -> None:
    answer = env.ask(quick=True)
    entries = answer.stage("interpreter")["sys_path"]  # type: ignore[index]
    assert not [entry for entry in entries if "payloads" in entry or "probe_parts" in entry]


def test_an_import_hook_that_fails_is_no_trouble(env: Env) -> None:
    make_torch(env.site)
    (env.site / "hook.pth").write_text(
        "import sys; sys.meta_path.insert(0, type('Hook', (), {'find_spec': staticmethod(lambda n, p=None, t=None: 1/0 if n == 'torch' else None)})())\n"
    )
    assert env.facts(quick=True).torch.version == "2.8.0+cu128"


def test_a_shadowed_json_does_not_silence_the_probe(env: Env, tmp_path: Path) -> None:
    make_torch(env.site)
    folder = tmp_path / "lib"
    folder.mkdir()
    (folder / "json.py").write_text("raise RuntimeError('mine')")
    env.variables["PYTHONPATH"] = str(folder)
    assert _shadows(env) == [("json", "pythonpath")]


def test_paths_that_are_not_utf_8(env: Env, tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path) + b"/caf\xe9"
    try:
        os.mkdir(folder)
    except OSError:
        pytest.skip("this file system takes UTF-8 names alone")
    env.variables["PYTHONPATH"] = os.fsdecode(folder)
    shutil.copytree(make_torch(tmp_path / "site"), os.fsdecode(folder) + "/torch")
    found = env.facts(quick=True)
    assert found.torch.location is not None
    assert "caf" in found.torch.location
    found.torch.location.encode("utf-8")
