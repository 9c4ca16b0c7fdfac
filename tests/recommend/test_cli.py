"""`envcheck recommend` as a program: live machines from recorded trees and fake programs, described ones from options."""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from pathlib import Path

import pytest

from tests.kit.screens import Card
from tests.kit.smi import fake_smi
from tests.kit.tree import machine_tree, shell_environment
from tests.kit_python.environments import make_venv, posix_only
from tests.kit_python.packages import make_metadata

pytestmark = posix_only
CU126 = "https://download.pytorch.org/whl/cu126"


@pytest.fixture
def live(tmp_path: Path, envcheck_cli):
    """Runs `recommend` on a recorded machine with a fake nvidia-smi that counts its calls."""

    def call(tree: str, smi: str | None, *args: str, cards: list[Card] | None = None, driver: str | None = None):
        programs = tmp_path / "programs"
        programs.mkdir(exist_ok=True)
        if smi is not None:
            real = fake_smi(tmp_path / "real", smi, cards=cards, driver=driver)
            counting = programs / "nvidia-smi"
            counting.write_text(f'#!/bin/sh\necho "$*" >> {tmp_path}/calls\nexec {real} "$@"\n')
            counting.chmod(0o755)
        python, site = make_venv(tmp_path / "venv")
        make_metadata(site, "pip", "26.0")
        env = shell_environment(machine_tree(tmp_path, tree), programs)
        return envcheck_cli("recommend", *args, "--python", str(python), env=env)

    return call


def calls(tmp_path: Path) -> list[str]:
    path = tmp_path / "calls"
    return path.read_text().splitlines() if path.exists() else []


def here() -> str:
    return f"{sys.version_info[0]}.{sys.version_info[1]}"


def document(done) -> dict:
    assert done.returncode in (0, 1), done.stderr
    return json.loads(done.stdout)


# -- this machine ------------------------------------------------------------------------------------------------------


def test_a_live_machine_with_one_call_of_nvidia_smi(live, tmp_path: Path) -> None:
    done = live("rtx4090", "r535", "--json")
    made = document(done)
    assert done.returncode == 0 and made["status"] == "ok"
    assert list(made)[:4] == ["schema", "status", "torch", "variant"]
    assert (made["torch"], made["variant"], made["index_url"]) == ("2.14.1", "cu126", CU126)
    assert made["python"] == here()
    assert made["calls"][0][0] == str(tmp_path / "venv/bin/python")
    assert len(calls(tmp_path)) == 1
    assert not done.stderr.strip(), "stdout has the document alone, and there is nothing to say beside it"


def test_a_driver_that_does_not_know_compute_cap(live, tmp_path: Path) -> None:
    """Before R510 the field is refused; the kernel module has told the version, so it is not asked for."""
    card = [Card(name="Tesla V100-SXM2-32GB", capability="7.0")]
    done = live("v100-driver580", "old-no-compute-cap", "--json", cards=card)
    made = document(done)
    assert made["variant"] == "cu126" or made["variant"] == "cu118"
    assert len(calls(tmp_path)) <= 2


@pytest.mark.parametrize(
    ("tree", "smi", "kind"),
    [
        ("rtx4090-no-driver", None, "driver-not-installed"),
        ("rtx4090", "no-driver", "driver-not-running"),
        ("rtx4090", "mismatch", "library-mismatch"),
        ("rtx4090", "unknown-error", "driver-not-running"),
        ("container-no-gpu", None, "gpu-not-passed"),
        ("wsl1", None, "wsl1"),
        ("rocm-no-access", None, "kfd-permission"),
        ("rocm-no-kfd", None, "amdgpu-not-running"),
    ],
)
def test_machines_that_cannot_be_used_as_they_are(live, tree: str, smi: str | None, kind: str) -> None:
    done = live(tree, smi, "--json")
    made = document(done)
    assert done.returncode == 1 and made["status"] == "impossible" and made["torch"] is None
    assert made["blockers"][0]["kind"] == kind, made["blockers"]
    assert made["blockers"][0]["text"] and made["blockers"][0]["way_out"]


def test_alpine(tmp_path: Path, envcheck_cli) -> None:
    done = envcheck_cli("recommend", "--json", "--python", "3.12", env=shell_environment(machine_tree(tmp_path, "alpine")))
    assert [blocker["kind"] for blocker in document(done)["blockers"]] == ["musl"]


def test_nvidia_smi_that_hangs_does_not_hang_us(live) -> None:
    started = time.monotonic()
    made = document(live("rtx4090", "hang", "--json"))
    assert time.monotonic() - started < 20
    assert made["blockers"][0]["kind"] == "driver-hangs"
    assert made["alternatives"][0]["variant"].startswith("cu") and made["alternatives"][-1]["variant"] == "cpu"


@pytest.mark.parametrize(("tree", "variant"), [("cpu", "cpu"), ("intel-arc", "xpu"), ("rocm", "rocm"), ("intel-integrated", "cpu"), ("arm-server", "cpu")])
def test_machines_without_nvidia(live, tree: str, variant: str) -> None:
    done = live(tree, None, "--json")
    made = document(done)
    assert done.returncode == 0 and made["variant"].startswith(variant), made


def test_the_text_fits_on_a_screen_and_begins_with_the_command(live) -> None:
    done = live("rtx4090", "r535")
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and len(lines) <= 30
    assert lines[0].startswith("Install   torch 2.14.1 (CUDA 12.6 build)")
    command = next(number for number, text in enumerate(lines) if "pip install" in text)
    assert command < 4 and f"--index-url {CU126}" in lines[command], "one line that can be copied"
    assert any("minor-version" in text for text in lines) and any(text.startswith("or ") for text in lines)


def test_quiet_is_the_command_alone(live) -> None:
    done = live("rtx4090", "r535", "-q")
    assert done.stdout.count("\n") == 1 and done.stdout.split(" -m pip ")[1].startswith("install torch==2.14.1")


def test_impossible_in_words(live) -> None:
    done = live("rtx4090", "mismatch")
    assert done.returncode == 1
    assert done.stdout.startswith("Blocked") and "because" in done.stdout and "sudo reboot" in done.stdout
    assert done.stdout.index("sudo reboot") < done.stdout.index("CPU only")


# -- another machine ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "torch", "variant"),
    [
        (["--os", "linux", "--machine", "x86_64", "--gpu", "Tesla V100", "--driver", "580.95.05", "--python", "3.12"], "2.14.1", "cu126"),
        (["--os", "linux", "--machine", "x86_64", "--gpu", "RTX 5090", "--gpu", "V100", "--driver", "580.95.05", "--python", "3.12"], "2.10.0", "cu128"),
        (["--os", "windows", "--gpu", "RTX 4090", "--driver", "581.15", "--python", "3.12"], "2.14.1", "cu130"),
        (["--os", "wsl", "--gpu", "RTX 3090", "--driver", "546.12", "--python", "3.12"], "2.14.1", "cu126"),
        (["--os", "macos", "--machine", "arm64", "--python", "3.12"], "2.15.0", "mps"),
        (["--os", "macos", "--machine", "x86_64", "--python", "3.11"], "2.2.2", "cpu"),
        (["--os", "linux", "--machine", "arm64", "--gpu", "GB10", "--driver", "580.95.05", "--python", "3.12"], "2.15.0", "cu132"),
        (["--os", "linux", "--machine", "x86_64", "--compute-cap", "8.9", "--driver", "535.183.01", "--python", "3.12"], "2.14.1", "cu126"),
        (["--os", "linux", "--machine", "x86_64", "--compute-cap", "sm_120", "--driver", "580.95.05", "--python", "3.14t"], "2.15.0", "cu132"),
        (["--os", "linux", "--machine", "x86_64", "--gpu", "Future GPU", "--compute-cap", "12.0", "--driver", "580.95.05", "--python", "3.12"], "2.15.0", "cu132"),
        (["--os", "linux", "--machine", "x86_64", "--gpu", "RTX 4090", "--driver", "580.95.05", "--python", "3.12", "--torch", ">=2.6,<2.9"], "2.8.0", "cu128"),
        (["--os", "linux", "--machine", "x86_64", "--gpu", "RTX 4090", "--driver", "580.95.05", "--python", "3.12", "--device", "cpu"], "2.15.0", "cpu"),
        (["--os", "linux", "--machine", "x86_64", "--gpu", "RTX 4090", "--driver", "580.95.05", "--python", "3.12", "--prefer", "stable"], "2.14.1", "cu130"),
        (["--os", "linux", "--machine", "x86_64", "--driver", "535.183.01", "--python", "3.12"], "2.14.1", "cu126"),
    ],
    ids=" ".join,
)
def test_described_machines(args: list[str], torch: str, variant: str, envcheck_cli) -> None:
    done = envcheck_cli("recommend", "--json", *args)
    made = document(done)
    assert done.returncode == 0, made["blockers"]
    assert (made["torch"], made["variant"]) == (torch, variant)


def test_radeon_by_name_and_by_target(envcheck_cli) -> None:
    for gpu in ("Radeon RX 7900 XTX", "gfx1100"):
        made = document(envcheck_cli("recommend", "--json", "--os", "linux", "--machine", "x86_64", "--gpu", gpu, "--python", "3.12"))
        assert made["variant"].startswith("rocm")
    made = document(envcheck_cli("recommend", "--json", "--os", "linux", "--machine", "x86_64", "--gpu", "gfx1100", "--rocm", "7.1", "--torch", "2.12.1", "--python", "3.12"))
    assert made["variant"] == "rocm7.1"


def test_a_described_machine_takes_nothing_from_this_one(live, tmp_path: Path) -> None:
    done = live("rtx4090", "r535", "--json")
    assert document(done)["variant"] == "cu126"
    (tmp_path / "calls").unlink()
    env = shell_environment(tmp_path / "root-rtx4090", tmp_path / "programs")
    from envcheck.process import run

    other = run([sys.executable, "-m", "envcheck", "recommend", "--json", "--os", "linux", "--machine", "x86_64", "--gpu", "RTX 5090"], timeout=60, env={**os.environ, **env}, cwd=Path(__file__).parents[2])
    made = json.loads(other.stdout)
    assert any("driver >= 580" in warning for warning in made["warnings"]), "the driver here is not the driver there"
    assert calls(tmp_path) == []


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--gpu", "Quantum 9000", "--os", "linux"], "--compute-cap"),
        (["--gpu", "Radeon Nonsense", "--os", "linux"], "gfx1100"),
        (["--driver", "new", "--os", "linux"], "535.183.01"),
        (["--os", "beos"], "linux, windows, macos"),
        (["--compute-cap", "huge", "--os", "linux"], "sm_89"),
        (["--gpu", "T4", "--gpu", "V100", "--compute-cap", "7.5", "--compute-cap", "7.0", "--compute-cap", "8.0"], "one for each"),
        (["--device", "tpu"], "cuda"),
        (["--manager", "apt"], "conda"),
        (["--torch", "newest"], ">=2.6,<2.9"),
        (["--with", "numpy"], "torchvision"),
        (["--python", "/no/such/python"], "python"),
        (["--facts", "/no/such/file.json"], "file.json"),
        (["--install", "--gpu", "T4", "--os", "linux"], "this machine"),
        (["--install", "--manager", "conda"], "pip or uv"),
    ],
    ids=" ".join,
)
def test_wrong_usage_is_one_line_that_helps(args: list[str], words: str, envcheck_cli) -> None:
    done = envcheck_cli("recommend", *args)
    assert done.returncode == 2, done.stdout
    assert words in done.stderr and "Traceback" not in done.stderr and done.stderr.count("\n") <= 2


def test_a_snapshot_and_another_python(live, tmp_path: Path, envcheck_cli) -> None:
    snapshot = tmp_path / "facts.json"
    snapshot.write_text(
        json.dumps(
            {
                "schema": 1,
                "system": {"os": "linux", "machine": "x86_64"},
                "nvidia": {"gpus": [{"name": "Tesla K80"}], "driver_version": "470.256.02", "smi": {"status": "ok"}},
                "python": {"version": "3.13.1"},
            }
        )
    )
    assert document(envcheck_cli("recommend", "--json", "--facts", str(snapshot)))["blockers"][0]["kind"] == "python"
    made = document(envcheck_cli("recommend", "--json", "--facts", str(snapshot), "--python", "3.11"))
    assert (made["torch"], made["variant"]) == ("2.3.1", "cu118")


# -- --install ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def installing(tmp_path: Path, envcheck_cli):
    """`recommend --install` with a Python whose pip only writes down what it was asked."""

    def call(*args: str, code: int = 0, stdin: bytes | None = None):
        python, site = make_venv(tmp_path / "venv")
        pip = site / "pip"
        pip.mkdir(parents=True, exist_ok=True)
        (pip / "__init__.py").write_text("")
        (pip / "__main__.py").write_text(
            f"import sys\nopen({str(tmp_path / 'asked')!r}, 'a').write(' '.join(sys.argv[1:]) + '\\n')\nprint('pip was here')\nsys.exit({code})\n"
        )
        make_metadata(site, "pip", "26.0")
        env = shell_environment(machine_tree(tmp_path, "cpu"))
        return envcheck_cli("recommend", "--install", *args, "--python", str(python), env=env, stdin=stdin)

    return call


def asked(tmp_path: Path) -> list[str]:
    path = tmp_path / "asked"
    return path.read_text().splitlines() if path.exists() else []


def test_install_runs_pip_in_that_python_and_then_the_doctor(installing, tmp_path: Path) -> None:
    done = installing("--yes")
    assert asked(tmp_path) == ["install torch==2.15.0 torchvision==0.29.2 --index-url https://download.pytorch.org/whl/cpu"]
    assert "pip was here" in done.stderr and "doctor --python" in done.stderr
    assert "sudo" not in done.stderr + done.stdout
    assert done.returncode == 1, "the doctor finds no torch there: this pip installed nothing"


def test_install_stops_at_a_pip_that_fails(installing, tmp_path: Path) -> None:
    done = installing("--yes", code=3)
    assert done.returncode == 1 and "exit code 3" in done.stderr and "doctor" not in done.stderr
    assert len(asked(tmp_path)) == 1


def test_install_without_anybody_to_ask(installing, tmp_path: Path) -> None:
    done = installing()
    assert done.returncode == 2 and "--yes" in done.stderr
    assert asked(tmp_path) == [] and "pip install torch" in done.stdout, "it was shown, and not run"


# -- speed -------------------------------------------------------------------------------------------------------------


def test_it_costs_little_more_than_its_imports(envcheck_cli, tmp_path: Path) -> None:
    """At most 2.5 times the time of importing what it needs."""
    from envcheck.process import run

    python, _ = make_venv(tmp_path / "venv")
    needs = "import typer, msgspec, envcheck.cli.recommend, envcheck.recommend.describe, envcheck.matrix, envcheck.probes.light, envcheck.probes.interpreter, envcheck.probes.questioning"

    def seconds(*argv: str) -> float:
        done = run([sys.executable, *argv], timeout=60, env=dict(os.environ), cwd=Path(__file__).parents[2])
        assert done.returncode in (0, 1), done.stderr
        return done.seconds

    imports = statistics.median(seconds("-c", needs) for _ in range(5))
    whole = statistics.median(seconds("-m", "envcheck", "recommend", "--json", "--python", str(python)) for _ in range(5))
    assert whole < 2.5 * imports, f"{whole:.2f} s against {imports:.2f} s of imports"
