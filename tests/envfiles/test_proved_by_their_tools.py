"""Every written file is read by the tool it is for, or by that tool's own parser or schema."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from envcheck.envfiles.kinds import KINDS
from envcheck.process import run
from tests.envfiles.machines import DESCRIPTIONS, text

WHEELS = sorted(DESCRIPTIONS)
CONDA = [m for m in WHEELS if m != "linux-rocm"]


@pytest.mark.parametrize("machine", WHEELS)
def test_requirements_lines_are_those_of_pip(machine: str) -> None:
    from packaging.requirements import Requirement

    rows = [row for row in text("requirements", machine).splitlines() if row and not row.startswith("#")]
    options = [row for row in rows if row.startswith("--")]
    wanted = {r.name: r for r in (Requirement(row) for row in rows if not row.startswith("-"))}
    assert {"torch", "torchvision"} <= wanted.keys()
    assert [s.operator for s in wanted["torch"].specifier] == ["=="]
    assert len(options) <= 1
    assert all(re.fullmatch(r"--index-url https://download\.pytorch\.org/whl/(cu\d+|cpu|xpu|rocm[\d.]+)", row) for row in options)


def _program(name: str) -> Path:
    folder = Path(sys.executable).parent
    found = shutil.which(name, path=f"{folder}{os.pathsep}{os.environ.get('PATH', '')}")
    if found is None:
        pytest.skip(f"{name} is not installed: it is in the extra dev")
    return Path(found)


def _uv(project: Path, *args: str):
    env = {k: v for k, v in os.environ.items() if not k.startswith("UV_") and k not in ("VIRTUAL_ENV", "PYTHONPATH")}
    env |= {"UV_CACHE_DIR": str(project / "cache"), "UV_PYTHON_DOWNLOADS": "never", "UV_HTTP_TIMEOUT": "5"}
    return run([_program("uv"), *args], timeout=60, cwd=project, env=env)


def _lock(project: Path, text: str) -> str:
    """What uv says offline, with the Python that is here: it checks everything, then misses the packages."""
    here = f'requires-python = "=={sys.version_info[0]}.{sys.version_info[1]}.*"'
    (project / "pyproject.toml").write_text(re.sub(r"requires-python = .*", here, text), encoding="utf-8")
    done = _uv(project, "lock", "--offline", "--python", sys.executable)
    return " ".join((done.stderr + done.stdout).split())


@pytest.mark.parametrize("machine", WHEELS)
def test_uv_reads_its_pyproject(machine: str, tmp_path: Path) -> None:
    said = _lock(tmp_path, text("uv", machine))
    assert "No solution found when resolving dependencies" in said, said
    assert "there is no version of torch" in said or "network was disabled" in said or "not found in the cache" in said, said
    for wrong in ("parse", "TOML", "invalid", "unknown field", "warning"):
        assert wrong not in said, said


def test_uv_would_say_that_a_pyproject_is_wrong(tmp_path: Path) -> None:
    said = _lock(tmp_path, text("uv", "linux-a100").replace('name = "pytorch-cu126"', 'name = "another"'))
    assert "pytorch-cu126" in said and "No solution" not in said


@pytest.mark.parametrize("machine", WHEELS)
def test_the_image_is_checked_against_the_build_that_it_gets(machine: str) -> None:
    """Where the container has to take another build than plain PyPI gives on Linux, only the file is judged in it."""
    written = text("dockerfile", machine)
    asked = re.search(r"--index-url (\S+)", text("requirements", machine))
    installs = re.search(r"pip install torch==.*?(?:--index-url (\S+))?$", written, re.M)
    assert installs is not None
    same = installs[1] == (asked[1] if asked else None)
    assert same == ("--check requirements.txt --lint" not in written)


@pytest.mark.parametrize("machine", WHEELS)
def test_uv_reads_requirements(machine: str, tmp_path: Path) -> None:
    """Offline uv parses the file and then misses torch; a broken line would be told first."""
    path = tmp_path / "requirements.txt"
    path.write_text(text("requirements", machine), encoding="utf-8")
    said = " ".join(_uv(tmp_path, "pip", "compile", "--offline", "--python", sys.executable, path).stderr.split())
    assert "No solution found" in said and "torch" in said, said


@pytest.mark.parametrize("machine", ["linux-a100", "linux-5090"])
def test_pip_reads_requirements(machine: str, tmp_path: Path) -> None:
    """Without any index, so that no test waits for a network."""
    path = tmp_path / "requirements.txt"
    rows = [row for row in text("requirements", machine).splitlines() if not row.startswith("--")]
    path.write_text("\n".join(["--no-index", *rows]), encoding="utf-8")
    env = {k: v for k, v in os.environ.items() if not k.startswith("PIP_")} | {"PIP_CONFIG_FILE": os.devnull}
    call = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--disable-pip-version-check"]
    done = run([*call, "-r", path], timeout=60, env=env)
    assert "No matching distribution found for torch==" in done.stderr, done.stderr


@pytest.mark.parametrize("machine", CONDA)
def test_environment_yml_has_match_specs_and_channels_of_conda(machine: str) -> None:
    rattler = pytest.importorskip("rattler", reason="py-rattler is not installed: it is in the extra dev")
    from ruamel.yaml import YAML

    document = YAML(typ="safe").load(text("conda", machine))
    assert list(document) == ["name", "channels", "dependencies"]
    specs = {s.name.normalized: s for s in (rattler.MatchSpec(row) for row in document["dependencies"] if isinstance(row, str))}
    assert specs["python"].version == f"{DESCRIPTIONS[machine].python}.*" or str(specs["python"].version).startswith("3.")
    assert {"pytorch", "torchvision"} <= specs.keys()
    assert document["channels"][-1] == "nodefaults"
    for channel in document["channels"]:
        assert rattler.Channel(channel).name == channel


def test_environment_yml_of_the_old_channel() -> None:
    rattler = pytest.importorskip("rattler", reason="py-rattler is not installed: it is in the extra dev")
    from ruamel.yaml import YAML

    document = YAML(typ="safe").load(text("conda", "linux-a100", torch="2.3.1"))
    assert document["channels"][:2] == ["pytorch", "nvidia"]
    specs = {s.name.normalized: str(s.version) for s in map(rattler.MatchSpec, document["dependencies"])}
    assert specs["pytorch"] in ("==2.3.1", "2.3.1.*")
    assert re.match(r"12\.\d", specs["pytorch-cuda"])
    assert specs["mkl"] == "<2024.1"


def test_a_match_spec_parser_that_refuses_nonsense() -> None:
    rattler = pytest.importorskip("rattler", reason="py-rattler is not installed: it is in the extra dev")
    with pytest.raises(Exception, match=r"."):
        rattler.MatchSpec("pytorch==2.8.0=>cuda[")


@pytest.mark.parametrize("machine", WHEELS)
def test_pixi_toml_has_the_tables_and_types_of_its_schema(machine: str) -> None:
    import tomlkit

    document = tomlkit.parse(text("pixi", machine)).unwrap()
    assert set(document) <= {"workspace", "system-requirements", "dependencies", "pypi-dependencies", "tasks"}
    assert set(document["workspace"]) == {"name", "version", "channels", "platforms"}
    assert document["workspace"]["platforms"][0] in ("linux-64", "linux-aarch64", "win-64", "osx-arm64")
    requirements = document.get("system-requirements", {})
    assert set(requirements) <= {"libc", "macos", "cuda"}
    assert ("cuda" in requirements) == (machine in ("linux-a100", "linux-5090", "linux-grace", "windows-4070"))
    for value in document["pypi-dependencies"].values():
        assert isinstance(value, str) or set(value) <= {"version", "extras", "index", "git", "rev", "path", "url", "editable"}
    schema = os.environ.get("ENVCHECK_PIXI_SCHEMA")
    if schema:
        _valid(document, json.loads(Path(schema).read_text(encoding="utf-8")))


def _valid(document: object, schema: object) -> None:
    jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed: it comes with check-jsonschema")
    problems = sorted(jsonschema.Draft7Validator(schema).iter_errors(document), key=str)
    assert not problems, problems[0].message


@pytest.mark.parametrize("machine", WHEELS)
def test_poetry_accepts_its_pyproject(machine: str) -> None:
    factory = pytest.importorskip("poetry.core.factory", reason="poetry-core is not installed: it is in the extra dev")
    import tomlkit

    document = tomlkit.parse(text("poetry", machine)).unwrap()
    result = factory.Factory.validate(document, strict=False)
    assert result["errors"] == []
    made = factory.Factory().create_poetry
    assert made is not None
    wanted = document["tool"]["poetry"]["dependencies"]["torch"]
    sources = {s["name"] for s in document["tool"]["poetry"].get("source", ())}
    for entry in wanted if isinstance(wanted, list) else []:
        factory.Factory.create_dependency("torch", entry)
        assert entry.get("source") in {None, *sources}


@pytest.mark.parametrize("machine", WHEELS)
def test_the_dockerfile_is_one(machine: str, tmp_path: Path) -> None:
    parser = pytest.importorskip("dockerfile_parse", reason="dockerfile-parse is not installed: it is in the extra dev")
    made = parser.DockerfileParser(path=str(tmp_path))
    made.content = text("dockerfile", machine)
    words = [item["instruction"] for item in made.structure if item["instruction"] != "COMMENT"]
    known = {"FROM", "ENV", "RUN", "USER", "WORKDIR", "COPY", "CMD"}
    assert words[0] == "FROM" and words[-1] == "CMD" and set(words) == known
    assert made.baseimage.startswith("python:3.")
    users = [item["value"] for item in made.structure if item["instruction"] == "USER"]
    assert users[-1] == "app"
    assert json.loads(made.structure[-1]["value"]) == ["envcheck", "doctor"]
    runs = [item["value"] for item in made.structure if item["instruction"] == "RUN"]
    assert not [r for r in runs if re.search(r"nvidia-driver|cuda-drivers|sudo", r)]
    assert [r for r in runs if "envcheck export --check requirements.txt" in r]
    bash = shutil.which("bash")
    for value in runs if bash else []:
        assert run([bash, "-n", "-c", value], timeout=10).ok


def test_the_workflow_follows_githubs_schema(tmp_path: Path) -> None:
    pytest.importorskip("check_jsonschema", reason="check-jsonschema is not installed: it is in the extra dev")
    paths = [tmp_path / f"{machine}.yml" for machine in WHEELS]
    for path in paths:
        path.write_text(text("workflow", path.stem), encoding="utf-8")
    call = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows"]
    done = run([*call, *paths], timeout=60)
    assert done.ok, done.stdout + done.stderr
    path.write_text(path.read_text(encoding="utf-8").replace("runs-on: ubuntu-latest", "runs-at: home"), encoding="utf-8")
    assert not run([*call, path], timeout=60).ok


@pytest.mark.parametrize("machine", WHEELS)
def test_the_dev_container_is_json_with_comments(machine: str) -> None:
    rows = [row for row in text("devcontainer", machine).splitlines() if not row.lstrip().startswith("//")]
    document = json.loads("\n".join(rows))
    assert document["build"]["dockerfile"] == "../Dockerfile"
    assert document["remoteUser"] == "app"
    assert "--gpus=all" not in document["runArgs"]
    assert ("hostRequirements" in document) == (machine in ("linux-a100", "linux-5090", "linux-grace", "windows-4070"))


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_the_header_says_what_it_was_made_for(kind: str) -> None:
    written = text(kind, "linux-a100")
    assert "NVIDIA A100-SXM4-80GB, driver 535.183.01" in written
    assert re.search(r"envcheck \d+\.\d+\.\d+ on \d{4}-\d\d-\d\d", written)
    assert not re.search(r"[ \t]+$", written, re.M)


@pytest.mark.torch
def test_train_py_trains(python_with_torch: str, tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(text("train", "linux-cpu"), encoding="utf-8")
    done = run([python_with_torch, path, "--steps", "3", "--batch", "16", "--device", "cpu", "--threads", "2"], timeout=120)
    assert done.ok, done.stderr
    assert "why:" in path.read_text(encoding="utf-8")
    assert re.search(r"loss", done.stdout)
