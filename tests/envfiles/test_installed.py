"""From what is installed to a file and back: nothing is lost, nothing is invented."""

from __future__ import annotations

import ast
import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from envcheck.envfiles.compare import compare
from envcheck.envfiles.installed import LIST, Installed
from envcheck.envfiles.kinds import KINDS
from envcheck.envfiles.model import Package, compatible
from envcheck.envfiles.read import read
from envcheck.matrix import load
from envcheck.process import run
from tests.envfiles import kit
from tests.kit_python.environments import posix_only, pyenv_pythons

pytestmark = posix_only
READABLE = ("requirements", "conda", "uv", "pixi", "poetry")
Made = tuple[Installed, Path]


def _made(build: Callable[[Path], kit.Fake], folder: Path) -> Made:
    found = build(folder).list()
    (folder / "project").mkdir(exist_ok=True)
    return found, folder / "project"


@pytest.fixture(scope="module")
def pip(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """What the payload lists of an environment of pip, and the project's folder."""
    return _made(kit.pip_cuda, tmp_path_factory.mktemp("pip"))


@pytest.fixture(scope="module")
def conda(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return _made(kit.conda_cuda, tmp_path_factory.mktemp("conda"))


def packages(made: Made, **choices: bool) -> dict[str, Package]:
    return {p.name: p for p in kit.content(made[0], "requirements", made[1], **choices).packages}


def test_the_payload_keeps_to_python_3_6() -> None:
    ast.parse(LIST.read_text(encoding="utf-8"), feature_version=(3, 6))


@pytest.mark.parametrize("python", pyenv_pythons(), ids=lambda p: p.parts[-3])
def test_the_payload_runs_on_every_python(python: Path) -> None:
    done = run([python, LIST], timeout=60)
    if "SyntaxError" in done.stderr:
        version = run([python, "--version"], timeout=10)
        assert re.search(r"Python 2\.|Python 3\.[0-5]\.", version.stdout + version.stderr)
        return
    line = next(row for row in done.stdout.splitlines() if '"stage": "installed"' in row)
    answer = json.loads(line.partition(" ")[2])
    assert answer["result"] == "ok"
    assert isinstance(answer["distributions"], list)


def test_direct_and_transitive_are_told_apart(pip: Made) -> None:
    found = packages(pip)
    assert {n for n, p in found.items() if p.direct} == {"torch", "torchvision", "einops", "detectron2", "mine"}
    assert {n for n, p in found.items() if not p.direct} == {
        "numpy", "filelock", "sympy", "mpmath", "triton", "nvidia-cublas-cu12",
    }  # fmt: skip


def test_minimal_has_the_direct_ones_alone_and_lets_them_move(pip: Made) -> None:
    found = packages(pip, minimal=True)
    assert set(found) == {"torch", "torchvision", "einops", "detectron2", "mine"}
    assert found["torch"].spec == "==2.8.0"
    assert found["einops"].spec == ">=0.8.1,<0.9"


def test_a_local_label_becomes_an_index_and_a_pin(pip: Made) -> None:
    torch = packages(pip)["torch"]
    assert (torch.spec, torch.label, torch.index) == ("==2.8.0", "cu128", "https://download.pytorch.org/whl/cu128")


def test_repositories_and_editable_projects_stay_what_they_are(pip: Made) -> None:
    made, project = pip
    found = kit.content(made, "requirements", project)
    by_name = {p.name: p for p in found.packages}
    commit = "0123456789abcdef0123456789abcdef01234567"
    assert by_name["detectron2"].url == f"git+https://github.com/facebookresearch/detectron2.git@{commit}"
    assert (by_name["mine"].url, by_name["mine"].editable) == (".", True)
    assert len([w for w in found.warnings if "detectron2" in w or "mine" in w]) == 2
    text = kit.written(made, "requirements", project).read_text()
    assert "secret" not in text
    assert "\n-e .\n" in text


def test_what_only_linux_has_says_so(pip: Made) -> None:
    found = packages(pip)
    assert {n for n, p in found.items() if p.marker} == {"triton", "nvidia-cublas-cu12"}


def test_hashes_that_are_not_on_record_are_not_made_up(pip: Made) -> None:
    made, project = pip
    found = kit.content(made, "requirements", project, hashes=True)
    assert not [p for p in found.packages if p.hashes]
    assert any("--generate-hashes" in w for w in found.warnings)


def test_hashes_that_are_on_record_are_written(tmp_path: Path) -> None:
    made = kit.fake(tmp_path / "venv")
    digest = "a" * 64
    made.add("einops", "0.8.1", asked=True, url="https://example.org/einops-0.8.1-py3-none-any.whl",
             archive_info={"hashes": {"sha256": digest}})  # fmt: skip
    found = kit.content(made.list(), "requirements", tmp_path, hashes=True)
    assert found.packages[0].hashes == (f"sha256:{digest}",)
    assert "url=" not in found.packages[0].url
    assert f"#sha256={digest}" in found.packages[0].url


def test_a_build_that_no_index_serves_is_called_so(tmp_path: Path) -> None:
    made = kit.fake(tmp_path / "venv")
    made.add("torch", "2.8.0a0+5228986c39.nv25.6", asked=True)
    found = kit.content(made.list(), "requirements", tmp_path)
    assert found.packages[0].index is None
    assert any("no index serves" in w for w in found.warnings)


def test_a_nightly_comes_from_the_nightly_index(tmp_path: Path) -> None:
    made = kit.fake(tmp_path / "venv")
    made.add("torch", "2.9.0.dev20250801+cu129", asked=True)
    found = kit.content(made.list(), "requirements", tmp_path).packages[0]
    assert found.index == "https://download.pytorch.org/whl/nightly/cu129"


def test_conda_packages_and_those_of_pip_stay_where_they_belong(conda: Made, tmp_path: Path) -> None:
    made, _ = conda
    found = kit.content(made, "conda", tmp_path)
    assert [p.name for p in found.packages] == ["einops"]
    assert {p.name: p.build for p in found.conda}["pytorch"] == "cuda129_mkl_py312_h1234567_300"
    assert {p.name for p in kit.content(made, "conda", tmp_path, minimal=True).conda} == {"pytorch", "cuda-version"}


@pytest.mark.parametrize("minimal", [False, True], ids=["all", "minimal"])
@pytest.mark.parametrize("kind", READABLE)
@pytest.mark.parametrize("environment", ["pip", "conda"])
def test_round_trip(kind: str, minimal: bool, environment: str, request: pytest.FixtureRequest) -> None:
    made, project = request.getfixturevalue(environment)
    answer = compare(read(kit.written(made, kind, project, minimal=minimal)), made, kit.facts(), load())
    if made.conda is not None and not KINDS[kind].conda:
        # A file for pip leads to PyPI's builds: it says that conda's is another, and of nothing else.
        assert {r.name for r in answer.rows if r.kind != "extra"} <= {"torch"}
        return
    assert answer.same(strict=True), answer.rows
    assert answer.commands == ()


@pytest.mark.parametrize("kind", READABLE)
@pytest.mark.parametrize(
    ("old", "new", "kind_of_row", "name"),
    [("einops", "elsewhere", "missing", "elsewhere"), ("0.8.1", "0.7.0", "different", "einops")],
    ids=["missing", "version"],
)
def test_what_differs_is_named(kind: str, old: str, new: str, kind_of_row: str, name: str, pip: Made) -> None:
    made, project = pip
    path = kit.written(made, kind, project)
    path.write_text(path.read_text().replace(old, new))
    answer = compare(read(path), made, kit.facts(), load())
    assert (kind_of_row, name) in {(r.kind, r.name) for r in answer.rows}
    assert not answer.same()
    assert answer.commands


@pytest.mark.parametrize("kind", READABLE)
def test_another_build_of_the_same_version_is_a_difference(kind: str, pip: Made) -> None:
    made, project = pip
    path = kit.written(made, kind, project)
    path.write_text(path.read_text().replace("cu128", "cpu"))
    rows = {r.name: r for r in compare(read(path), made, kit.facts(), load()).rows if r.kind == "different"}
    assert "cpu" in rows["torch"].wanted and "cu128" in rows["torch"].found


def test_a_cpu_build_does_not_meet_a_file_that_names_the_cuda_index(tmp_path: Path) -> None:
    made = kit.fake(tmp_path / "venv")
    made.add("torch", "2.8.0+cpu", asked=True)
    made.torch_file("2.8.0+cpu", None)
    path = tmp_path / "requirements.txt"
    path.write_text("--index-url https://download.pytorch.org/whl/cu128\ntorch==2.8.0\n")
    answer = compare(read(path), made.list(), kit.facts(), load())
    assert [(r.kind, r.name) for r in answer.rows] == [("different", "torch")]
    assert any("uninstall" in c for c in answer.commands), "pip takes 2.8.0+cpu for 2.8.0"


def test_conda_builds_are_compared(conda: Made, tmp_path: Path) -> None:
    made, _ = conda
    path = tmp_path / "environment.yml"
    head = f"name: x\nchannels: [conda-forge]\ndependencies:\n  - python={'.'.join(kit.VERSION.split('.')[:2])}\n"
    path.write_text(head + "  - pytorch=2.7.1=cuda*\n  - numpy>=2,<3\n")
    assert compare(read(path), made, kit.facts(), load()).same()
    path.write_text(head + "  - pytorch=2.7.1\n  - cuda-version=12.*\n")
    assert compare(read(path), made, kit.facts(), load()).same()
    path.write_text(head + "  - pytorch=2.7.1=cpu*\n")
    answer = compare(read(path), made, kit.facts(), load())
    assert [(r.kind, r.name) for r in answer.rows if r.kind != "extra"] == [("different", "pytorch")]
    assert answer.commands[0].startswith("conda env update")


def test_extra_packages_are_told_and_count_only_when_asked(pip: Made, tmp_path: Path) -> None:
    made, project = pip
    path = tmp_path / "requirements.txt"
    path.write_text("--extra-index-url https://download.pytorch.org/whl/cu128\ntorch==2.8.0+cu128\n")
    answer = compare(read(path), made, kit.facts(), load())
    assert {r.name for r in answer.rows} == {"torchvision", "numpy", "einops", "detectron2", "mine"}
    assert "mine" not in {w.name for w in read(kit.written(made, "uv", project)).packages}
    itself = compare(read(project / "pyproject.toml"), made, kit.facts(), load())
    assert "mine" not in {r.name for r in itself.rows}, "the project is none of its own dependencies"
    assert answer.same() and not answer.same(strict=True)


@pytest.mark.parametrize("environment", ["pip", "conda"])
def test_the_tools_read_what_was_written_of_an_installation(environment: str, request: pytest.FixtureRequest) -> None:
    factory = pytest.importorskip("poetry.core.factory", reason="poetry-core is not installed: it is in the extra dev")
    rattler = pytest.importorskip("rattler", reason="py-rattler is not installed: it is in the extra dev")
    import tomlkit
    from packaging.requirements import Requirement
    from ruamel.yaml import YAML

    made, project = request.getfixturevalue(environment)
    poetry = tomlkit.parse(kit.written(made, "poetry", project).read_text()).unwrap()
    assert factory.Factory.validate(poetry)["errors"] == []
    for name, entry in poetry["tool"]["poetry"]["dependencies"].items():
        if name != "python":
            for one in entry if isinstance(entry, list) else [entry]:
                factory.Factory.create_dependency(name, one)
    document = YAML(typ="safe").load(kit.written(made, "conda", project).read_text())
    for row in document["dependencies"]:
        for inner in row["pip"] if isinstance(row, dict) else []:
            assert inner.startswith("-") or Requirement(inner)
        assert isinstance(row, dict) or rattler.MatchSpec(row).name is not None
    uv = tomlkit.parse(kit.written(made, "uv", project).read_text()).unwrap()
    assert all(Requirement(row) for row in uv["project"]["dependencies"])
    schema = os.environ.get("ENVCHECK_PIXI_SCHEMA")
    if schema:
        jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed: it comes with check-jsonschema")
        pixi = tomlkit.parse(kit.written(made, "pixi", project).read_text()).unwrap()
        jsonschema.validate(pixi, json.loads(Path(schema).read_text(encoding="utf-8")), jsonschema.Draft7Validator)


@pytest.mark.parametrize(
    ("version", "spec"),
    [("2.4.6", ">=2.4.6,<3"), ("0.8.1", ">=0.8.1,<0.9"), ("2026.9.0", ">=2026.9.0"), ("1.0.0rc1", "==1.0.0rc1"), ("5", ">=5,<6")],
)
def test_compatible(version: str, spec: str) -> None:
    from packaging.specifiers import SpecifierSet

    assert compatible(version) == spec
    assert SpecifierSet(spec).contains(version, prereleases=True)


@pytest.mark.torch
@pytest.mark.parametrize("kind", READABLE)
def test_round_trip_of_a_real_environment(kind: str, python_with_torch: str, tmp_path: Path) -> None:
    made = real(python_with_torch)
    path = kit.written(made, kind, tmp_path)
    assert compare(read(path), made, kit.facts(), load()).same(strict=True)
    torch = made.item("torch")
    assert torch is not None and torch.version is not None
    path.write_text(path.read_text().replace(torch.version.partition("+")[0], "1.13.1"))
    assert not compare(read(path), made, kit.facts(), load()).same()


def real(python: str) -> Installed:
    from envcheck.envfiles import installed

    made = installed.finish(installed.ask(python))
    version = run([python, "-c", "import platform; print(platform.python_version())"], timeout=60).stdout.strip()
    if version != kit.VERSION:
        pytest.skip(f"the kit's facts are of Python {kit.VERSION}, that torch is of {version}")
    return made


@pytest.mark.torch
def test_pip_finds_nothing_to_do_in_the_environment_that_was_written_down(python_with_torch: str, tmp_path: Path) -> None:
    path = kit.written(real(python_with_torch), "requirements", tmp_path)
    if run([python_with_torch, "-m", "pip", "--version"], timeout=60).status != "ok":
        pytest.skip("that Python has no pip")
    # An editable project (this very one, mostly) would be built anew: that is no question to an index.
    rows = [row for row in path.read_text().splitlines() if not row.startswith("-")]
    path.write_text("\n".join(rows))
    done = run([python_with_torch, "-m", "pip", "install", "--dry-run", "--no-index", "-r", path], timeout=120)
    assert done.ok, done.stderr
    assert "Would install" not in done.stdout


@pytest.mark.torch
def test_uv_resolves_to_exactly_what_was_installed(python_with_torch: str, tmp_path: Path) -> None:
    """With the index at hand; without it the parsers have to do (test_proved_by_their_tools)."""
    import shutil

    import tomlkit

    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
    if uv is None:
        pytest.skip("uv is not installed: it is in the extra dev")
    made = real(python_with_torch)
    kit.written(made, "uv", tmp_path)
    env = {k: v for k, v in os.environ.items() if not k.startswith("UV_") and k != "VIRTUAL_ENV"}
    env |= {"UV_CACHE_DIR": str(tmp_path / "cache"), "UV_PYTHON_DOWNLOADS": "never", "UV_HTTP_TIMEOUT": "10", "UV_HTTP_RETRIES": "0"}
    done = run([uv, "lock", "--python", python_with_torch], timeout=60, cwd=tmp_path, env=env)
    if done.status == "timeout" or re.search(r"Failed to fetch|error sending request|network", done.stderr):
        pytest.skip("the package index is not reachable")
    assert done.ok, done.stderr
    rows = tomlkit.parse((tmp_path / "uv.lock").read_text()).unwrap()["package"]
    locked = {p["name"]: p["version"] for p in rows if "version" in p}  # an editable project with a dynamic version has none
    there = {i.name: (i.version or "").partition("+")[0] for i in made.distributions}
    assert {n: v.partition("+")[0] for n, v in locked.items() if n in there} == {n: there[n] for n in locked if n in there}
    assert {"torch", "numpy"} <= locked.keys()
