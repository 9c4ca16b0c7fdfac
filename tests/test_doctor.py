"""The doctor as a person or a script meets it: exit codes, JSON, narrow and old terminals, limits, snapshots."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import pytest

from envcheck.doctor import Examination
from envcheck.process import run
from tests.kit import fake_smi, machine_tree
from tests.kit_python import packages
from tests.kit_python.environments import make_venv

ROOT = Path(__file__).resolve().parent.parent
HEALTHY = ROOT / "tests" / "machines" / "linux-gtx1080-driver580-cu126" / "facts.json"


@pytest.fixture
def cpu_machine(tmp_path: Path) -> dict[str, str]:
    """Variables of a machine without a GPU whose files are all invented."""
    (tmp_path / "bin").mkdir()
    return {"ENVCHECK_ROOT": str(machine_tree(tmp_path, "cpu")), "PATH": str(tmp_path / "bin"), "HOME": str(tmp_path)}


def test_facts_file_is_judged_and_json_stands_alone(envcheck_cli) -> None:
    done = envcheck_cli("doctor", "--facts", str(HEALTHY), "--json")
    document = json.loads(done.stdout)
    assert (done.returncode, document["verdict"], document["schema"]) == (0, "healthy", 1)
    assert [f["rule"] for f in document["findings"]] == ["gpu-support-ending"]
    assert document["findings"][0]["severity"] == "note"


def test_a_report_can_be_judged_again(envcheck_cli, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    report.write_text(envcheck_cli("doctor", "--facts", str(HEALTHY), "--json").stdout, encoding="utf-8")
    again = envcheck_cli("doctor", "--facts", str(report), "--json")
    assert json.loads(again.stdout) == json.loads(report.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (None, "No such file"),
        (b"", "not a snapshot"),
        (b"\x00\xff\xfe binary", "not a snapshot"),
        (b"[1, 2]", "not a snapshot"),
        (b'{"a": 1}', "not a snapshot"),
        (b'{"schema": 99}', "update envcheck"),
        (b'{"schema": 1, "system": {"os": 5}}', "system.os"),
    ],
    ids=["missing", "empty", "binary", "list", "foreign", "newer", "wrong-type"],
)
def test_a_bad_snapshot_is_one_clear_line(envcheck_cli, tmp_path: Path, content: bytes | None, word: str) -> None:
    path = tmp_path / "snapshot.json"
    if content is not None:
        path.write_bytes(content)
    done = envcheck_cli("doctor", "--facts", str(path))
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.strip().splitlines()) == 1
    assert word in done.stderr and "snapshot.json" in done.stderr


@pytest.mark.parametrize("args", [("doctor", "--nonsense"), ("nonsense",), ("doctor", "--timeout", "soon"), ("doctor", "--python", "/nowhere/python")])
def test_wrong_usage_is_exit_code_2(envcheck_cli, args: tuple[str, ...]) -> None:
    done = envcheck_cli(*args)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_a_file_that_is_no_python_is_said(envcheck_cli, tmp_path: Path) -> None:
    path = tmp_path / "python"
    path.write_text("#!/bin/sh\necho no python here\n")
    path.chmod(0o755)
    done = envcheck_cli("doctor", "--python", str(path))
    assert done.returncode == 2
    assert "is not a Python interpreter" in done.stderr


def test_nothing_is_lost_on_a_terminal_of_another_age(envcheck_cli) -> None:
    env = {"PYTHONIOENCODING": "ascii", "LC_ALL": "C", "TERM": "dumb", "COLUMNS": "80"}
    done = envcheck_cli("doctor", "--facts", str(HEALTHY), env=env)
    assert done.returncode == 0
    assert done.stdout.isascii()
    assert "\x1b" not in done.stdout
    assert max(len(line) for line in done.stdout.splitlines()) <= 80


def test_quick_does_not_import_torch(tmp_path: Path, cpu_machine, envcheck_cli) -> None:
    python, site = make_venv(tmp_path / "venv")
    mark = tmp_path / "imported"
    packages.make_torch(site, "2.8.0+cpu", cuda=None, init=f"open({str(mark)!r}, 'w').close()\n" + packages.WORKS)
    document = json.loads(envcheck_cli("doctor", "--quick", "--json", "--python", str(python), env=cpu_machine).stdout)
    assert document["facts"]["torch"]["version"] == "2.8.0+cpu"
    assert not mark.exists()


def test_whatever_hangs_the_answer_comes_in_time(tmp_path: Path, cpu_machine, envcheck_cli) -> None:
    """nvidia-smi and the import of torch both hang for good."""
    fake_smi(tmp_path / "bin", "hang")
    python, site = make_venv(tmp_path / "venv")
    packages.make_torch(site, init=packages.HANGS)
    begun = time.monotonic()
    done = envcheck_cli("doctor", "--json", "--timeout", "15", "--python", str(python), env=cpu_machine)
    assert time.monotonic() - begun < 30
    document = json.loads(done.stdout)
    assert done.returncode == 1
    assert document["facts"]["torch"]["imports"]["status"] == "timeout"
    assert document["facts"]["nvidia"]["smi"]["status"] == "timeout"


def test_every_probe_is_told_with_verbose(envcheck_cli, tmp_path: Path, cpu_machine) -> None:
    python, site = make_venv(tmp_path / "venv")
    packages.make_torch(site, "2.8.0+cpu", cuda=None)
    done = envcheck_cli("doctor", "--no-smoke", "-v", "--python", str(python), env=cpu_machine)
    assert "Probes" in done.stdout and "nvidia-smi" in done.stdout
    assert "Not judged, and why" in done.stdout


def test_a_smoke_test_that_kills_the_process_costs_only_itself(python_with_torch: str, monkeypatch) -> None:
    """The smoke tests run in the process that probes torch: what comes after a crash is run in another one."""
    import envcheck.smoke as smoke

    monkeypatch.setenv("PAYLOAD", str(smoke.PAYLOAD))
    monkeypatch.setenv("BREAK", "layer_norm=abort")
    monkeypatch.setattr(smoke, "PAYLOAD", Path(__file__).parent / "smoke" / "broken_payload.py")
    facts = Examination(Path(python_with_torch), timeout=170).facts()
    statuses = {check.name: check.status for check in facts.checks or ()}
    assert statuses["layer-norm"] == "crashed", statuses
    assert statuses["dataloader"] == "passed", statuses
    assert [name for name, status in statuses.items() if status not in ("passed", "skipped")] == ["layer-norm"]


def test_facts_writes_once_and_never_over_a_file(envcheck_cli, tmp_path: Path, cpu_machine) -> None:
    target = tmp_path / "facts.json"
    first = envcheck_cli("facts", "--quick", "-o", str(target), env=cpu_machine)
    assert first.returncode == 0, first.stderr
    before = target.read_bytes()
    again = envcheck_cli("facts", "--quick", "-o", str(target), env=cpu_machine)
    assert again.returncode == 2 and "--force" in again.stderr
    assert target.read_bytes() == before
    assert envcheck_cli("facts", "--quick", "-o", str(target), "--force", env=cpu_machine).returncode == 0
    assert [p.name for p in tmp_path.glob(".facts.json*")] == []


def test_shared_facts_name_nobody(envcheck_cli, tmp_path: Path, cpu_machine) -> None:
    home = tmp_path / "home" / "carla"
    python, site = make_venv(home / "project" / "venv")
    packages.make_torch(site, "2.8.0+cpu", cuda=None)
    env = {**cpu_machine, "HOME": str(home), "USER": "carla"}
    text = envcheck_cli("facts", "--quick", "--share", "--python", str(python), env=env).stdout
    assert json.loads(text)["schema"] == 1
    assert "carla" not in text


def test_version_needs_no_typer() -> None:
    code = "import sys; sys.modules['typer'] = None; from envcheck.cli import main; main(['--version'])"
    done = run([sys.executable, "-c", code], timeout=30, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert done.ok and done.stdout.startswith("envcheck ")


def test_a_bug_of_ours_leaves_a_block_to_paste(monkeypatch, capsys) -> None:
    import envcheck.cli as cli

    def broken(args):
        raise ZeroDivisionError("in /home/carla/work")

    monkeypatch.setattr(cli, "_app", broken)
    with pytest.raises(SystemExit) as end:
        cli.main(["doctor"])
    assert end.value.code == 3
    told = capsys.readouterr().err
    assert "ZeroDivisionError" in told and "Python" in told and "carla" not in told
