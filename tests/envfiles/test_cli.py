"""The command: what is written, what is never overwritten, what the exit code says."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
import typer
import typer.testing

from envcheck.cli import export as module
from envcheck.errors import UsageError
from envcheck.files import write_atomically
from tests.envfiles import kit
from tests.kit_python.environments import posix_only

A100 = ("--os", "linux", "--gpu", "NVIDIA A100-SXM4-80GB", "--driver", "535.183.01", "--python", "3.12")


def call(*args: str | Path, fails: bool = False):
    app = typer.Typer()
    app.command()(module.export)
    answer = typer.testing.CliRunner().invoke(app, [str(a) for a in args])
    if fails:
        assert isinstance(answer.exception, UsageError), answer.output
    elif answer.exception is not None and not isinstance(answer.exception, SystemExit):
        raise answer.exception
    return answer


def export(kind: str, folder: Path, *args: str, fails: bool = False):
    return call(kind, *A100, "-o", folder, *args, fails=fails)


def test_a_file_is_written_once(tmp_path: Path) -> None:
    assert export("requirements", tmp_path).exit_code == 0
    path = tmp_path / "requirements.txt"
    before = path.read_bytes()
    path.write_bytes(before + b"# mine\n")
    answer = export("requirements", tmp_path, fails=True)
    assert "--update" in str(answer.exception) and "--force" in str(answer.exception)
    assert path.read_bytes() == before + b"# mine\n"
    assert export("requirements", tmp_path, "--force").exit_code == 0
    assert path.read_bytes() == before


def test_dry_run_shows_the_difference_and_writes_nothing(tmp_path: Path) -> None:
    answer = export("requirements", tmp_path, "--dry-run")
    assert "+torch==2.14.1" in answer.stdout
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "requirements.txt").write_text("# mine\ntorch==2.1.0\n")
    answer = export("requirements", tmp_path, "--dry-run", "--update")
    assert "-torch==2.1.0" in answer.stdout and "-# mine" not in answer.stdout
    assert (tmp_path / "requirements.txt").read_text() == "# mine\ntorch==2.1.0\n"


def test_stdout_is_the_file_alone(tmp_path: Path) -> None:
    answer = export("uv", tmp_path, "--stdout")
    assert answer.stdout.startswith("# Written by envcheck") and answer.stdout.rstrip().endswith("else")
    assert list(tmp_path.iterdir()) == []


def test_update_in_place(tmp_path: Path) -> None:
    path = tmp_path / "requirements.txt"
    path.write_text("# mine\ntorch==2.1.0  # net\n")
    os.chmod(path, 0o640)
    assert export("requirements", tmp_path, "--update").exit_code == 0
    assert "torch==2.14.1  # net" in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o640
    assert "unchanged" in export("requirements", tmp_path, "--update").stdout


def test_a_dockerfile_comes_with_what_it_copies_and_leaves_yours_alone(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("torch\n")
    answer = export("devcontainer", tmp_path)
    assert answer.exit_code == 0
    names = {str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file()}
    assert names == {".devcontainer/devcontainer.json", "Dockerfile", ".dockerignore", "requirements.txt"}
    assert (tmp_path / "requirements.txt").read_text() == "torch\n"
    assert "kept" in answer.stdout


def test_the_name_is_the_folders_and_the_month_is_added_when_asked(tmp_path: Path) -> None:
    (tmp_path / "My Project").mkdir()
    assert 'name = "my-project"' in export("uv", tmp_path / "My Project", "--stdout").stdout
    answer = export("uv", tmp_path, "--stdout", "--name", "detr", "--dated")
    assert __import__("re").search(r'name = "detr_20\d{4}"', answer.stdout)


def test_json(tmp_path: Path) -> None:
    document = json.loads(export("requirements", tmp_path, "--json").stdout)
    assert (document["schema"], document["torch"], document["variant"]) == (1, "2.14.1", "cu126")
    assert [f["status"] for f in document["files"]] == ["written"]


@pytest.mark.parametrize(
    "args",
    [(), ("cargo",), ("requirements", "--from", "memory"), ("requirements", "--minimal"), ("requirements", "--hashes"),
     ("requirements", "--from", "installed", "--os", "windows"), ("requirements", "--check", "x"),
     ("requirements", "--from", "installed", "--pins", "loose"), ("uv", "--from", "installed", "--hashes")],
    ids=lambda a: " ".join(a) or "nothing",
)  # fmt: skip
def test_wrong_usage_is_said(args: tuple[str, ...]) -> None:
    assert "\n" not in str(call(*args, fails=True).exception)


def test_what_cannot_be_recommended_is_not_written(tmp_path: Path) -> None:
    answer = call("requirements", "--os", "linux", "--gpu", "Tesla K80", "--driver", "470.82.01", "--torch", ">=2.6", "-o", tmp_path, fails=True)
    assert "nothing can be recommended" in str(answer.exception)
    assert list(tmp_path.iterdir()) == []


def test_lint_for_a_described_machine(tmp_path: Path) -> None:
    path = tmp_path / "requirements.txt"
    path.write_text("--index-url https://download.pytorch.org/whl/cu128\ntorch==2.8.0\n")
    assert call("--check", path, "--lint", *A100).exit_code == 0
    old = ("--os", "linux", "--gpu", "NVIDIA A100-SXM4-80GB", "--driver", "450.51.06", "--python", "3.12")
    answer = call("--check", path, "--lint", *old, "--json")
    assert answer.exit_code == 1
    assert [f["rule"] for f in json.loads(answer.stdout)["findings"]] == ["driver-too-old"]
    call("--check", path, *A100, fails=True)


@posix_only
def test_check_says_what_differs_and_what_mends_it(tmp_path: Path) -> None:
    made = kit.pip_cuda(tmp_path)
    (tmp_path / "project").mkdir(exist_ok=True)
    path = tmp_path / "project" / "requirements.txt"
    written = call("requirements", "--from", "installed", "--python", made.python, "-o", tmp_path / "project")
    assert written.exit_code == 0, written.output
    same = call("--check", path, "--python", made.python)
    assert same.exit_code == 0, same.output
    assert "is met by this environment" in same.stdout.replace("\n", " ")
    path.write_text(path.read_text().replace("einops==0.8.1", "einops==0.7.0"))
    answer = call("--check", path, "--python", made.python)
    assert answer.exit_code == 1
    assert "einops" in answer.stdout and "==0.7.0" in answer.stdout and "pip install -r" in answer.stdout
    document = json.loads(call("--check", path, "--python", made.python, "--json").stdout)
    assert document["different"] == [{"name": "einops", "wanted": "==0.7.0", "found": "0.8.1"}]
    assert document["same"] is False


def test_half_a_file_is_never_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(UsageError, match="No space left"):
        write_atomically(path, b"new")
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]


@posix_only
def test_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real.txt").write_text("old")
    (tmp_path / "link.txt").symlink_to("real.txt")
    write_atomically(tmp_path / "link.txt", b"new")
    assert (tmp_path / "link.txt").is_symlink()
    assert (tmp_path / "real.txt").read_text() == "new"


def test_nothing_heavy_is_imported_for_help() -> None:
    code = "import sys, envcheck.cli.export; bad = {'jinja2', 'ruamel.yaml', 'tomlkit', 'rich', 'packaging'} & set(sys.modules); sys.exit(str(bad) if bad - {'rich'} else 0)"
    from envcheck.process import run

    done = run([sys.executable, "-c", code], timeout=60)
    assert done.ok, done.stderr
