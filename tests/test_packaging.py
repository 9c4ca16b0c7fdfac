"""The wheel carries its data and works in an empty environment without torch; the README's commands are CI's."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import zipfile
from pathlib import Path

import pytest

from envcheck.process import run

pytestmark = pytest.mark.xdist_group("packaging")  # one worker: the expensive fixture is made once

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def clone(tmp_path_factory) -> Path:
    """What git holds, and nothing else of this working tree."""
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("not a git checkout: a clean clone cannot be made")
    target = tmp_path_factory.mktemp("clone") / "envcheck"
    done = run(["git", "clone", "-q", "--no-hardlinks", ROOT, target], timeout=120)
    assert done.ok, done.stderr
    return target


@pytest.fixture(scope="module")
def wheel(clone) -> Path:
    done = run([sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", clone / "dist", clone], timeout=300)
    assert done.ok, done.stdout + done.stderr
    return next((clone / "dist").glob("*.whl"))


def test_the_wheel_carries_tables_templates_payloads_and_pages(wheel: Path, clone: Path) -> None:
    assert wheel.name.startswith("torch_envcheck-")
    names = set(zipfile.ZipFile(wheel).namelist())
    for folder, inside in (("matrices", "envcheck/_data/matrices"), ("templates", "envcheck/_data/templates"), ("envcheck", "envcheck")):
        wanted = {f"{inside}/{p.relative_to(clone / folder).as_posix()}" for p in (clone / folder).rglob("*") if p.is_file()}
        assert wanted - names == set()
    assert any(n.endswith(".dist-info/licenses/LICENSE") for n in names)
    assert not [n for n in names if n.startswith(("tests/", "docs/", "benchmarks/"))]


def test_the_wheel_works_in_an_empty_venv_without_torch(wheel: Path, tmp_path: Path) -> None:
    venv = tmp_path / "venv"
    assert run([sys.executable, "-m", "venv", venv], timeout=120).ok
    folder = venv / ("Scripts" if os.name == "nt" else "bin")
    done = run([folder / "python", "-m", "pip", "install", "-q", wheel], timeout=300)
    assert done.ok, done.stderr
    env = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV", "CONDA_PREFIX")}
    call = lambda *args: run([folder / "envcheck", *args], timeout=120, cwd=tmp_path, env=env)  # noqa: E731
    assert call("--version").stdout.startswith("envcheck ")
    report = json.loads(call("doctor", "--json").stdout)
    assert "torch-not-installed" in [finding["rule"] for finding in report["findings"]]
    assert report["verdict"] == "problems"
    assert call("matrix", "torch", "2.8.0").ok
    assert call("explain", "driver-too-old").ok
    assert call("recommend", "--os", "linux", "--python", "3.12", "--driver", "535.183.01", "--gpu", "NVIDIA A100").ok


def test_readme_starts_with_a_picture_then_two_commands_of_one_line() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    commands = re.findall(r"<!-- (\w+)-command -->\n```bash\n(.+)\n```\n", text)
    assert [name for name, _ in commands] == ["doctor", "test"]
    assert text.index("```text") < text.index("<!-- doctor-command -->")


def test_ci_runs_the_command_of_the_readme() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert "<!-- test-command -->" in script
    assert "pip install" not in script
