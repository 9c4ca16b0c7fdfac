"""The verdict and what the command prints and returns."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from envcheck.captured import read
from envcheck.captured.errors import UNRECOGNISED, is_error
from envcheck.captured.verdict import settle, shows_enough
from envcheck.cli.diagnose import examine
from envcheck.facts import Facts, Symptom
from envcheck.findings import Finding, Remedy, Report, Skipped

HEALTHY = "PyTorch version: 2.5.1+cu124\nCUDA used to build PyTorch: 12.4\nOS: Ubuntu 22.04.5 LTS (x86_64)\nIs CUDA available: True\nGPU models and configuration: GPU 0: NVIDIA L4\nNvidia driver version: 550.90.07\n"
CODE = "RuntimeError: mat1 and mat2 shapes cannot be multiplied (32x512 and 256x10)\n"


def report(facts: Facts, *findings: Finding, skipped: tuple[Skipped, ...] = ()) -> Report:
    return Report(verdict="healthy", findings=findings, checks=(), skipped=skipped, facts=facts)


def finding(severity: str) -> Finding:
    return Finding(rule="r", severity=severity, area="build", title="t", seen="s", why="w", remedy=Remedy(text="d"))


# --- the pure part -------------------------------------------------------------------------------------------------


def test_a_warning_is_a_cause_when_somebody_asks() -> None:
    assert settle(report(Facts(), finding("warning"))).verdict == "problems"


def test_a_note_is_none() -> None:
    assert settle(report(read([("a", HEALTHY)]), finding("note"))).verdict == "healthy"


def test_too_little_is_unknown_and_says_what_would_settle_it() -> None:
    settled = settle(report(read([("a", "Ubuntu 22.04\n")])))
    assert settled.verdict == "unknown"
    assert settled.skipped[0].essential
    assert "collect_env" in settled.skipped[0].settle


def test_an_error_that_nobody_knows_is_never_healthy() -> None:
    settled = settle(report(read([("a", HEALTHY + "FooError: the flux capacitor is out of phase\n")])))
    assert settled.verdict == "unknown"
    assert "flux capacitor" in settled.skipped[0].reason


def test_a_known_error_without_a_finding_is_not_healthy_either() -> None:
    facts = Facts(symptoms=(Symptom(kind="x", text="RuntimeError: known, yet no rule fired", line=1),))
    assert settle(report(facts)).verdict == "unknown"


def test_an_echo_alone_does_not_count() -> None:
    facts = read([("a", HEALTHY)])
    echo = Symptom(kind="x", text="RuntimeError: an echo", line=3, echo=True)
    import msgspec

    assert settle(report(msgspec.structs.replace(facts, symptoms=(echo,)))).verdict == "healthy"


@pytest.mark.parametrize(
    ("text", "enough"),
    [
        (HEALTHY, True),
        ("PyTorch version: 2.3.0\nOS: macOS 14.5 (arm64)\nIs CUDA available: False\n", True),
        ("PyTorch version: 2.8.0+cpu\nCUDA used to build PyTorch: None\nIs CUDA available: False\n", True),
        ("PyTorch version: 2.8.0+xpu\nIs XPU available: True\n", True),
        ("| NVIDIA-SMI 535.54.03    Driver Version: 535.54.03    CUDA Version: 12.2     |\n|   0  Tesla T4  Off  | 00000000:00:1E.0 Off |                    0 |\n| N/A   45C    P8    10W /  70W |    500MiB /  15360MiB |      0%      Default |\n", True),
        ("torch==2.8.0\ntorchvision==0.23.0\n", False),
        ("PyTorch version: 2.8.0+cu128\nIs CUDA available: False\n", False),
        ("PyTorch version: N/A\nIs CUDA available: N/A\n", False),
        ("hello\n", False),
    ],
    ids=["cuda", "mac", "cpu", "xpu", "smi", "list", "not-available", "not-imported", "prose"],
)  # fmt: skip
def test_when_silence_means_health(text: str, enough: bool) -> None:
    assert shows_enough(read([("a", text)])) is enough


@pytest.mark.parametrize(
    "text",
    ["RuntimeError: x", "E       ValueError: y", "torch.cuda.OutOfMemoryError: z", "ERROR: Could not build wheels", "Segmentation fault (core dumped)", "[rank0]: KeyError: 'a'", "Killed", "2024-01-01 10:00:00 FooError: x"],
)  # fmt: skip
def test_lines_that_report_a_failure(text: str) -> None:
    assert is_error(text)


@pytest.mark.parametrize(
    "text",
    ["errors: 0", "mean error 0.31", "UserWarning: this may raise an Error: x", "no errors found", "Error: None", "class MyError(Exception):", "INFO handling ValueError: retried", "error_if_nonfinite=False", "test error 12.5 %"],
)  # fmt: skip
def test_lines_that_only_use_the_word(text: str) -> None:
    assert not is_error(text)


def test_unknown_errors_become_symptoms_of_their_own() -> None:
    facts = read([("a", "FooError: bar\n" + CODE)])
    assert [s.kind for s in facts.symptoms if s.line == 1] == [UNRECOGNISED]
    assert UNRECOGNISED not in [s.kind for s in facts.symptoms if s.line == 2]


# --- the command ---------------------------------------------------------------------------------------------------


def test_healthy(envcheck_cli, tmp_path: Path) -> None:
    path = tmp_path / "env.txt"
    path.write_text(HEALTHY)
    run = envcheck_cli("diagnose", str(path))
    assert run.returncode == 0, run.stderr
    assert "Healthy" in run.stdout


def test_a_cause_with_its_line(envcheck_cli, tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    path.write_text("epoch 1\n" + CODE)
    run = envcheck_cli("diagnose", str(path))
    assert run.returncode == 1
    assert "shape-mismatch" in run.stdout
    assert "log.txt:2:" in run.stdout
    assert "This is the code, not the environment" in " ".join(run.stdout.split())
    assert "Traceback" not in run.stderr


def test_could_not_tell(envcheck_cli) -> None:
    run = envcheck_cli("diagnose", "-", stdin=b"FooError: bar\n")
    assert run.returncode == 4
    assert "Could not tell" in run.stdout
    assert "FooError: bar" in run.stdout


def test_json_alone_on_stdout(envcheck_cli) -> None:
    run = envcheck_cli("diagnose", "--json", "-", stdin=CODE.encode())
    assert run.returncode == 1
    document = json.loads(run.stdout)
    assert list(document)[0] == "schema"
    assert document["verdict"] == "problems"
    assert document["findings"][0]["rule"] == "shape-mismatch"
    assert document["facts"]["origin"] == "captured"


def test_quiet_is_one_line(envcheck_cli) -> None:
    run = envcheck_cli("diagnose", "-q", "-", stdin=HEALTHY.encode())
    assert run.stdout.strip().count("\n") == 0


def test_several_files(envcheck_cli, tmp_path: Path) -> None:
    (tmp_path / "env.txt").write_text("PyTorch version: 1.6.0\nCUDA used to build PyTorch: 10.2\nOS: Ubuntu 18.04 LTS\nIs CUDA available: No\n")
    (tmp_path / "smi.txt").write_text("| NVIDIA-SMI 418.67       Driver Version: 418.67       CUDA Version: 10.1     |\n|   0  Tesla V100-PCIE-16GB  Off  | 00000000:00:1E.0 Off |                    0 |\n")
    run = envcheck_cli("diagnose", str(tmp_path / "env.txt"), str(tmp_path / "smi.txt"))
    assert run.returncode == 1
    assert "driver-too-old" in run.stdout


@pytest.mark.parametrize("kind", ["missing", "directory", "binary", "empty"])
def test_wrong_usage_is_one_line(envcheck_cli, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "x"
    if kind == "directory":
        path.mkdir()
    elif kind == "binary":
        path.write_bytes(bytes(range(256)) * 40)
    elif kind == "empty":
        path.write_bytes(b" \n")
    run = envcheck_cli("diagnose", str(path))
    assert run.returncode == 2
    assert run.stdout == ""
    assert run.stderr.startswith("envcheck: ")
    assert run.stderr.count("\n") == 1


def test_nobody_is_named_in_the_answer() -> None:
    text = (
        "alice@gpu-box:~/work$ python train.py\n"
        '  File "/home/alice/miniconda3/envs/x/lib/python3.10/site-packages/torch/cuda/__init__.py", line 293, in _lazy_init\n'
        "ImportError: /home/alice/miniconda3/envs/x/lib/python3.10/site-packages/torch/lib/libtorch_cuda.so: undefined symbol: ncclCommRegister\n"
        "LD_LIBRARY_PATH=/home/alice/lib\nMASTER_ADDR=10.1.2.3\nGPU 0: NVIDIA A100 (UUID: GPU-1a2b3c4d-1111-2222-3333-444455556666)\n"
    )
    from envcheck.findings import to_json

    shown = to_json(examine([("log.txt", text)])).decode()
    for secret in ("alice", "gpu-box", "10.1.2.3", "1a2b3c4d"):
        assert secret not in shown, secret
    assert "ncclCommRegister" in shown
