"""What the same words mean on another GPU, system or release: severities, numbers and remedies that depend on it."""

from __future__ import annotations

import pytest
from tests.rules.texts import judge, left_alone, named

from envcheck.facts import Amd, AmdGpu, Facts, Nvidia, NvidiaGpu, System, Torch
from envcheck.findings import Finding
from envcheck.matrix import load
from envcheck.nvidia_smi.report import parse_report
from envcheck.rules import RULES, evaluate
from envcheck.symptoms.engine import recognise

BF16 = "ValueError: Your setup doesn't support bf16/gpu. You need torch>=1.10, using Ampere GPU with cuda>=11.0"
SCALED = "RuntimeError: torch._scaled_mm is only supported on CUDA devices with compute capability >= 9.0 or 8.9, or ROCm MI300+"
FP8 = "ValueError(\"type {} not supported in this architecture. The supported fp8 dtypes are ('fp8e5',)\")"


def beside(
    text: str, *, cards: tuple[tuple[str, str], ...] = (), torch: Torch | None = None, amd: Amd | None = None, rule: str
) -> list[Finding]:
    """What a rule says of a text on a machine with these NVIDIA GPUs."""
    gpus = tuple(NvidiaGpu(index=i, name=name, compute_capability=have) for i, (name, have) in enumerate(cards))
    facts = Facts(
        origin="live",
        system=System(os="linux", machine="x86_64"),
        nvidia=Nvidia(gpus=gpus),
        torch=torch or Torch(),
        amd=amd or Amd(),
        symptoms=recognise(text, source="report"),
    )
    return [f for f in evaluate(facts, load(), RULES).findings if f.rule == rule]


# --- number formats


@pytest.mark.parametrize("card", [("NVIDIA GeForce RTX 3090", "8.6"), ("NVIDIA H100 80GB HBM3", "9.0")])
def test_a_gpu_that_has_the_format_is_not_said_to_lack_it(card: tuple[str, str]) -> None:
    assert beside(BF16, cards=(card,), rule="gpu-lacks-format") == []


def test_a_gpu_that_lacks_the_format_is_named_beside_one_that_has_it() -> None:
    both = (("NVIDIA GeForce RTX 3090", "8.6"), ("Tesla T4", "7.5"))
    assert "Tesla T4" in beside(BF16, cards=both, rule="gpu-lacks-format")[0].title


def test_fp8_of_ada_is_told_from_tritons_other_fp8() -> None:
    assert "8.9" in beside(FP8.format("fp8e4nv"), cards=(("Tesla T4", "7.5"),), rule="gpu-lacks-format")[0].title
    for other in ("fp8e4b15", "fp8e4b8", "fp8e5b16"):
        assert beside(FP8.format(other), cards=(("NVIDIA A100-SXM4-40GB", "8.0"),), rule="gpu-lacks-format") == [], (
            other
        )
        left_alone(FP8.format(other), "gpu-lacks-format")


def test_compute_capabilities_are_not_told_of_amd() -> None:
    assert beside(SCALED, torch=Torch(version="2.6.0+rocm6.2.4", hip="6.2.41134"), rule="gpu-lacks-format") == []
    assert beside(SCALED, amd=Amd(gpus=(AmdGpu(name="AMD Radeon RX 7900 XTX"),)), rule="gpu-lacks-format") == []


# --- vGPU licences

LICENCE = (
    "==============NVSMI LOG==============\n\nDriver Version                            : 535.129.03\n\n"
    "Attached GPUs                             : 1\nGPU 00000000:3B:00.0\n    Product Name                          : NVIDIA A16\n"
    "    GPU Virtualization Mode\n        Virtualization Mode               : {}\n        Host VGPU Mode                    : N/A\n"
    "    vGPU Software Licensed Product\n        Product Name                      : NVIDIA RTX Virtual Workstation\n"
    "        License Status                    : Unlicensed (Restricted)\n"
)


@pytest.mark.parametrize(
    ("mode", "kept", "severities"),
    [("None", "None", []), ("Pass-Through", "Pass-Through", []), ("N/A", None, ["warning"])],
)
def test_a_licence_that_a_whole_gpu_lacks(mode: str, kept: str | None, severities: list[str]) -> None:
    report = parse_report(LICENCE.format(mode))
    assert report is not None
    gpus = tuple(report.gpus)
    assert [g.virtualization for g in gpus] == [kept]
    facts = Facts(origin="live", system=System(os="linux"), nvidia=Nvidia(gpus=gpus))
    found = [f for f in evaluate(facts, load(), RULES).findings if f.rule == "vgpu-unlicensed"]
    assert [f.severity for f in found] == severities


def test_the_clients_of_mps_are_no_fixed_number() -> None:
    assert "48 or more" in named("cudaErrorMpsMaxClientsReached in worker 3", "cuda-mps-daemon").why


# --- AMD


def test_a_ring_that_recovered_is_no_hang() -> None:
    left_alone("[  77.0] [drm:amdgpu_job_timedout [amdgpu]] *ERROR* ring gfx timeout, but soft recovered", "gpu-hang")


def test_miopens_own_warning_is_no_error() -> None:
    line = "MIOpen(HIP): Warning [SQLiteBase] /MIOpen/src/sqlite_db.cpp:109: open memvfs: unable to open database file"
    for text, severity in ((line, "warning"), (f"{line}\nRuntimeError: miopenStatusInternalError", "error")):
        assert [f.severity for f in judge(text).findings if f.rule == "miopen-failed"] == [severity]


def test_no_unix_command_for_miopen_on_windows() -> None:
    text = "MIOpen Error: {}: Code object build failed. Source: naive_conv.cpp"
    linux = named(text.format("/MIOpen/src/hipoc/hipoc_program.cpp:299"), "miopen-failed").remedy
    windows = named(text.format(r"C:\MIOpen\src\hipoc\hipoc_program.cpp:299"), "miopen-failed").remedy
    assert linux is not None and linux.commands
    assert windows is not None and windows.commands == ()


# --- releases


def test_vmap_came_before_2() -> None:
    left_alone("AttributeError: module 'torch' has no attribute 'vmap'", "torch-release-differs")


def test_tensor_parallel_came_before_the_public_tensor() -> None:
    for tail, release in (("tensor.parallel", "2.0"), ("tensor.parallel.style", "2.0"), ("tensor.experimental", "2.5")):
        found = named(f"ModuleNotFoundError: No module named 'torch.distributed.{tail}'", "torch-release-differs")
        assert found.title.endswith(f"came with {release}"), found.title


def test_no_release_is_named_that_is_not_known() -> None:
    found = named(
        'x.cu(41): error: no suitable conversion function from "const at::DeprecatedTypeProperties" to "c10::ScalarType" exists',
        "torch-release-differs",
    )
    assert found.title.endswith("AT_DISPATCH is gone")
    assert found.remedy is not None and "an older torch" in found.remedy.text


# --- rights


@pytest.mark.parametrize(
    ("code", "words", "title", "command"),
    [
        ("WinError 32] The process cannot access the file because it is being used by another process", r"'C:\\v\\torch\\lib\\c10.dll'", "in use and cannot be replaced", "py -m venv .venv"),
        ("WinError 5] Access is denied", r"'C:\\v\\torch\\lib\\c10.dll'", "Windows does not let", "py -m venv .venv"),
        ("Errno 13] Permission denied", r"'c:\\python310\\Lib\\site-packages\\torch'", "Windows does not let", "py -m venv .venv"),
        ("Errno 13] Permission denied", "'/usr/local/lib/python3.10/dist-packages/torch'", "no right to write", "python3 -m venv .venv"),
    ],
)  # fmt: skip
def test_a_refused_write_is_told_by_its_system(code: str, words: str, title: str, command: str) -> None:
    found = named(f"ERROR: Could not install packages due to an OSError: [{code}: {words}\n", "install-not-permitted")
    assert title in found.title
    assert found.remedy is not None and command in found.remedy.commands
