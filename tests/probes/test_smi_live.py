"""The probe that runs nvidia-smi, against programs that take its place."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from envcheck.facts import Facts
from envcheck.probes import nvidia
from envcheck.probes.host import Host
from envcheck.process import Completed
from tests.kit import SMI_KINDS, fake_smi, machine_tree, tree_host

MIB = 1024 * 1024
FAILING = {name for name, kind in SMI_KINDS.items() if kind.text is not None or kind.body or kind.hang == "all"}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return machine_tree(tmp_path_factory.mktemp("smi"), "cpu")


def ask(root: Path, tmp_path: Path, kind: str, timeout: float = 10.0) -> Facts:
    return nvidia.probe_smi(tree_host(root, programs=True, path=fake_smi(tmp_path, kind).parent, timeout=timeout))


@pytest.mark.parametrize("kind", sorted(set(SMI_KINDS) - FAILING - {"hang-report"}))
def test_every_machine_that_answers(root: Path, tmp_path: Path, kind: str) -> None:
    told, facts = SMI_KINDS[kind], ask(root, tmp_path, kind)
    found = facts.nvidia
    assert found.smi is not None
    assert found.smi.ok, found.smi
    assert found.smi_path == str(tmp_path / "nvidia-smi")
    assert found.driver_version == told.driver
    assert found.driver_cuda == (None if told.cuda in ("N/A", "ERR!", None) else told.cuda)
    assert found.smi_version == told.smi
    assert found.smi_error == ("gpu-lost" if kind == "one-lost" else None)
    assert facts.symptoms == ()
    cards = [gpu for gpu in found.gpus or () if gpu.name]
    assert len(cards) == len({card.bus for card in told.cards})
    for card, gpu in zip(told.cards, cards, strict=False):
        assert gpu.name == card.name
        assert gpu.compute_capability == (None if card.lost or "compute_cap" in told.unknown else card.capability)
        assert gpu.memory_total == (card.memory * MIB or None)
        assert gpu.mig == (None if card.mig == "N/A" or told.layout in ("r375", "r410") else card.mig == "Enabled")
        assert gpu.compute_mode == (None if card.mode == "N/A" else card.mode)
        assert bool(gpu.error) is card.lost


@pytest.mark.parametrize(
    ("kind", "status", "error", "symptom"),
    [
        ("no-driver", "failed", "no-driver", "smi-no-driver"),
        ("mismatch", "failed", "library-mismatch", "nvml-mismatch"),
        ("mismatch-new", "failed", "library-mismatch", "nvml-mismatch"),
        ("no-devices", "failed", "no-devices", "smi-no-devices"),
        ("unknown-error", "failed", "nvml-unknown", "nvml-unknown"),
        ("permissions", "failed", "insufficient-permissions", None),
        ("permissions-windows", "failed", "insufficient-permissions", None),
        ("wsl-blocked", "failed", "wsl-blocked", None),
        ("nvml-missing", "failed", "nvml-missing", None),
        ("function-missing", "failed", "other", None),
        ("gpu-lost", "failed", "gpu-lost", "gpu-lost"),
        ("silent", "failed", "other", None),
        ("garbage", "failed", "other", None),
        ("crash", "crashed", None, None),
    ],
)
def test_every_failure_is_its_own_answer(root: Path, tmp_path: Path, kind: str, status: str, error: str | None, symptom: str | None) -> None:
    facts = ask(root, tmp_path, kind)
    found = facts.nvidia
    assert found.smi is not None
    assert (found.smi.status, found.smi_error) == (status, error)
    assert facts.probes[0].outcome == found.smi
    if symptom is not None:
        assert symptom in {item.kind for item in facts.symptoms}
    assert found.gpus == (() if kind == "no-devices" else found.gpus)
    assert not any(gpu.name for gpu in found.gpus or ())
    if kind == "mismatch-new":
        assert found.driver_version == "535.183"
    if kind == "crash":
        assert found.smi.signal == "SIGSEGV"


def test_failing_kinds_are_all_tested() -> None:
    tested = {mark.args[1][i][0] for mark in test_every_failure_is_its_own_answer.pytestmark for i in range(len(mark.args[1]))}
    assert tested | {"hang", "endless"} == FAILING


@pytest.mark.parametrize("kind", ["hang", "endless"])
def test_a_program_that_never_ends_is_given_up(root: Path, tmp_path: Path, kind: str) -> None:
    begun = time.monotonic()
    found = ask(root, tmp_path, kind, timeout=0.4).nvidia
    assert time.monotonic() - begun < 5.0
    assert found.smi is not None
    assert found.smi.status == "timeout"
    assert found.gpus is None


def test_a_hanging_report_leaves_the_rest(root: Path, tmp_path: Path) -> None:
    found = ask(root, tmp_path, "hang-report", timeout=1.5).nvidia
    assert found.smi is not None
    assert found.smi.ok
    assert [gpu.compute_capability for gpu in found.gpus or ()] == ["8.9"]


def test_no_program(root: Path, tmp_path: Path) -> None:
    facts = nvidia.probe_smi(tree_host(root, programs=True, path=tmp_path))
    assert facts.nvidia.smi is not None
    assert facts.nvidia.smi.status == "missing"
    assert facts.nvidia.gpus is None
    assert facts.probes[0].outcome.status == "missing"


def test_a_program_that_cannot_be_started_is_not_missing(root: Path, tmp_path: Path) -> None:
    path = tmp_path / "nvidia-smi"
    path.write_text("#!/no/such/interpreter\n")
    path.chmod(0o755)
    found = nvidia.probe_smi(tree_host(root, programs=True, path=tmp_path)).nvidia
    assert found.smi is not None
    assert found.smi.status == "failed"
    assert found.smi_path == str(path)


def test_wsl_has_its_program_off_the_path(tmp_path: Path) -> None:
    root = machine_tree(tmp_path, "wsl2")
    fake_smi(root / "usr/lib/wsl/lib", "wsl")
    found = nvidia.probe_smi(tree_host(root, programs=True)).nvidia
    assert (found.driver_version, found.smi_version) == ("552.22", "550.76.01")


def test_windows_places(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("envcheck.probes.nvidia.os.path.exists", lambda name: name == r"D:\Programs\NVIDIA Corporation\NVSMI\nvidia-smi.exe")
    host = Host(env={"PATH": "", "ProgramFiles": r"D:\Programs"}, platform="win32")
    assert nvidia.locate(host) == r"D:\Programs\NVIDIA Corporation\NVSMI\nvidia-smi.exe"


def test_a_warning_beside_a_full_answer_is_no_failure(root: Path, tmp_path: Path) -> None:
    """nvidia-smi leaves with 14 for a damaged InfoROM, which hinders nobody."""
    found = ask(root, tmp_path, "inforom").nvidia
    assert found.smi is not None
    assert (found.smi.status, found.smi.exit_code, found.smi_error) == ("ok", 14, None)
    assert found.smi.detail == "WARNING: infoROM is corrupted at gpu 0000:01:00.0"


def test_few_calls(root: Path, tmp_path: Path) -> None:
    """Three calls for a healthy machine, one more for MIG profiles, one more for each field that is not known."""
    path = fake_smi(tmp_path, "healthy")
    calls: list[tuple[str, ...]] = []
    real = tree_host(root, programs=True, path=path.parent)

    def counting(argv: list[str], **options: object) -> Completed:
        calls.append(tuple(argv[1:]))
        return real.run(argv, **options)

    nvidia.probe_smi(Host(root=root, env=real.env, run=counting, platform="linux"))
    assert sorted(calls) == sorted([(), ("-q",), nvidia.query_argv()])


def test_fields_that_are_unknown_are_left_out_one_by_one(root: Path, tmp_path: Path) -> None:
    from dataclasses import replace

    kind = replace(SMI_KINDS["healthy"], unknown=("compute_cap", "memory.used", "compute_mode"))
    path = fake_smi(tmp_path, kind)
    found = nvidia.probe_smi(tree_host(root, programs=True, path=path.parent)).nvidia
    assert [(g.name, g.compute_capability, g.memory_total) for g in found.gpus or ()] == [("NVIDIA GeForce RTX 4090", None, 24564 * MIB)]
