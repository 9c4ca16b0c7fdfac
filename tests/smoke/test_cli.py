"""`envcheck smoke`: options, exit codes, the JSON document."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from envcheck.smoke import list_checks


def test_list_shows_every_test(envcheck_cli) -> None:
    done = envcheck_cli("smoke", "--list")
    assert done.ok, done.stderr
    assert [line.split()[1] for line in done.stdout.splitlines()] == [e.name for e in list_checks()]
    document = json.loads(envcheck_cli("smoke", "--list", "--json").stdout)
    assert [t["name"] for t in document["tests"]] == [e.name for e in list_checks()]


def test_an_unknown_test_is_wrong_usage(envcheck_cli) -> None:
    done = envcheck_cli("smoke", "--only", "matmull")
    assert done.returncode == 2
    assert "matmull" in done.stderr
    assert "--list" in done.stderr


def test_a_python_that_is_not_there_is_wrong_usage(envcheck_cli, tmp_path: Path) -> None:
    assert envcheck_cli("smoke", "--python", str(tmp_path / "python")).returncode == 2


def test_a_torch_that_does_not_import_is_exit_1(envcheck_cli, tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('libcudnn.so.9: cannot open shared object file')\n")
    done = envcheck_cli("smoke", "--python", sys.executable, env={"PYTHONPATH": str(tmp_path)})
    assert done.returncode == 1
    assert "import-torch" in done.stdout
    assert "libcudnn.so.9" in done.stdout


@pytest.mark.torch
def test_json_holds_the_checks_and_the_seed_that_repeats_them(envcheck_cli, python_with_torch: str) -> None:
    words = (
        "smoke",
        "--python",
        python_with_torch,
        "--device",
        "cpu",
        "--only",
        "rng-*",
        "--only",
        "softmax",
        "--json",
    )
    first = envcheck_cli(*words)
    assert first.returncode == 0, first.stdout + first.stderr
    document = json.loads(first.stdout)
    assert (document["schema"], document["level"]) == (1, 1)
    assert [(c["name"], c["status"]) for c in document["checks"]] == [
        ("softmax", "passed"),
        ("rng-repeat", "passed"),
        ("rng-known", "passed"),
        ("rng-distribution", "passed"),
    ]
    again = json.loads(envcheck_cli(*words, "--seed", str(document["seed"])).stdout)
    assert [c["detail"] for c in again["checks"]] == [c["detail"] for c in document["checks"]]


@pytest.mark.torch
def test_a_device_that_is_not_there_is_exit_1(envcheck_cli, python_with_torch: str) -> None:
    env = {"CUDA_VISIBLE_DEVICES": ""}
    done = envcheck_cli("smoke", "--python", python_with_torch, "--device", "cuda:7", "--only", "arithmetic", env=env)
    assert done.returncode == 1
    assert "first-work on cuda:7" in done.stdout
    assert "1 failed, 1 skipped" in done.stdout or "1 skipped, 1 failed" in done.stdout
