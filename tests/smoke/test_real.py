"""The real payload with a real torch: what passes here, what a broken operation costs, and both ways of starting it."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from envcheck import process
from envcheck.smoke import PAYLOAD, Session, arguments, checks_from_stages, list_checks, run_smoke

HERE = Path(__file__).parent
pytestmark = pytest.mark.torch


def _status(checks) -> dict[str, str]:
    return {c.name: c.status for c in checks}


def test_level_1_passes_on_the_cpu(python_with_torch: str) -> None:
    session = Session(seed=3)
    begun: list[str] = []
    checks = run_smoke(
        python_with_torch, devices=("cpu",), session=session, on_start=lambda name, device: begun.append(name)
    )
    assert not [c for c in checks if c.status not in ("passed", "skipped")]
    assert not [c for c in checks if c.status == "skipped" and not c.detail]
    assert [c.name for c in checks] == [e.name for e in list_checks(1)]
    assert session.seed == 3
    assert session.torch
    assert "dataloader" in begun


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_a_broken_operation_costs_only_its_test(python_with_torch: str) -> None:
    broken = "batch_norm=abort,layer_norm=hang,conv2d=segfault"
    checks = run_smoke(
        python_with_torch,
        devices=("cpu",),
        only=("conv2d-fp32", "batch-norm", "layer-norm", "softmax"),
        env={**os.environ, "BREAK": broken, "PAYLOAD": str(PAYLOAD)},
        limit=5.0,
        payload=HERE / "broken_payload.py",
    )
    assert [(c.name, c.status) for c in checks] == [
        ("conv2d-fp32", "crashed"),
        ("batch-norm", "crashed"),
        ("layer-norm", "timeout"),
        ("softmax", "passed"),
    ]
    assert "SIGSEGV" in checks[0].detail
    assert "SIGABRT" in checks[1].detail
    assert "broken_payload.py" in checks[2].detail, "where it hangs is told"


@pytest.mark.slow
@pytest.mark.skipif("ENVCHECK_SLOW" not in os.environ, reason="a minute: set ENVCHECK_SLOW to run it")
def test_level_2_passes_on_the_cpu(python_with_torch: str) -> None:
    checks = run_smoke(python_with_torch, devices=("cpu",), level=2)
    assert not [c for c in checks if c.status not in ("passed", "skipped")]
    assert [c.name for c in checks if c.name not in ("peer-copies", "nccl")] == [c.name for c in checks]
    assert {"compile", "all-reduce", "amp", "checkpoint"} <= {c.name for c in checks if c.status == "passed"}


def test_two_processes_add_up(python_with_torch: str) -> None:
    (check,) = run_smoke(python_with_torch, devices=("cpu",), only=("all-reduce",))
    assert check.status == "passed", check


def test_inside_the_probe(python_with_torch: str) -> None:
    """As the doctor runs it: behind `--then`, in a process that has imported torch, where `__main__` is made by exec."""
    probe = PAYLOAD.with_name("probe_env.py")
    command = [python_with_torch, probe, "--then", PAYLOAD, *arguments(level=0, devices=("cpu",))]
    done = process.run(command, timeout=180)
    lines = [line.partition("@envcheck@ ")[2] for line in done.stdout.splitlines() if line.startswith("@envcheck@ ")]
    checks = checks_from_stages(json.loads(line) for line in lines)
    assert [c.name for c in checks] == [e.name for e in list_checks(0)]
    assert not [c for c in checks if c.status not in ("passed", "skipped")], checks


def test_spawned_workers_find_the_data_set(python_with_torch: str, tmp_path: Path) -> None:
    """Windows and macOS spawn workers: they import what the payload cannot define in `__main__`."""
    driver = tmp_path / "spawning.py"
    driver.write_text(
        "import multiprocessing, runpy, sys\n"
        "if __name__ == '__main__':\n"
        "    multiprocessing.set_start_method('spawn')\n"
        f"    probe = {str(PAYLOAD.with_name('probe_env.py'))!r}\n"
        "    sys.argv[0] = probe\n"
        "    runpy.run_path(probe, run_name='__main__')\n"
    )
    command = [python_with_torch, driver, "--then", PAYLOAD, *arguments(only=("dataloader",), devices=("cpu",))]
    done = process.run(command, timeout=180, cwd=tmp_path)
    (check,) = checks_from_stages(
        json.loads(line[len("@envcheck@ ") :]) for line in done.stdout.splitlines() if line.startswith("@envcheck@ {")
    )
    assert check.status == "passed", check
    assert "spawn" in check.detail


def test_a_torchvision_that_does_not_pair_fails(tmp_path: Path, python_with_torch: str) -> None:
    package = tmp_path / "torchvision"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('operator torchvision::nms does not exist')\n")
    (package / "_C.so").write_bytes(b"not a library")
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    checks = run_smoke(python_with_torch, devices=("cpu",), only=("torchvision-*",), env=env)
    assert _status(checks) == {
        "torchvision-nms": "failed",
        "torchvision-roi-align": "failed",
        "torchvision-import": "failed",
    }
    assert "does not exist" in checks[-1].detail


def test_without_torch_the_answer_is_a_failed_import(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('libcudart.so.12: cannot open shared object file')\n")
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    (check,) = run_smoke(sys.executable, env=env)
    assert (check.name, check.status) == ("import-torch", "failed")
    assert "libcudart.so.12" in check.detail
