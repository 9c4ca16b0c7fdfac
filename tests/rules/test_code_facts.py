"""Rules about the user's own code over hand-built facts: where they speak, and where another cause takes their text."""

from __future__ import annotations

import msgspec
import pytest

from envcheck.facts import Facts, Nvidia, NvidiaGpu, Symptom, System, Torch
from envcheck.findings import Finding
from envcheck.matrix import load
from envcheck.rules import RULES, code
from envcheck.rules.base import evaluate
from envcheck.rules.code_signs import FINE
from envcheck.symptoms.engine import recognise

LINUX = System(os="linux", distro="ubuntu", machine="x86_64", container="none", wsl=0)
MAC = System(os="macos", machine="arm64", version="15.1")
CUDA = Torch(version="2.8.0+cu128", cuda="12.8", cuda_available=True)
CARD = Nvidia(gpus=(NvidiaGpu(index=0, name="NVIDIA GeForce RTX 3090", compute_capability="8.6"),))


def said(line: str, **facts: object) -> Facts:
    return Facts(origin="captured", symptoms=recognise(line, source="report.txt"), **facts)  # type: ignore[arg-type]


def found(facts: Facts, rule: str) -> list[Finding]:
    return [f for f in evaluate(facts, load(), code.RULES).findings if f.rule == rule]


NOT_COMPILED = "AssertionError: Torch not compiled with CUDA enabled"


def test_cuda_on_a_mac_is_the_programs_fault() -> None:
    facts = said(NOT_COMPILED, system=MAC, torch=Torch(version="2.8.0", mps_available=True))
    finding = found(facts, "hardcoded-cuda-device")[0]
    assert finding.area == "code"
    assert "backends.mps" in finding.remedy.text
    report = evaluate(facts, load(), RULES)
    assert [f.rule for f in report.findings if f.severity == "error"] == ["hardcoded-cuda-device"]


def test_cuda_in_an_xpu_build() -> None:
    facts = said(NOT_COMPILED, system=LINUX, torch=Torch(version="2.8.0+xpu", cuda="", xpu="yes"))
    assert "torch.xpu" in found(facts, "hardcoded-cuda-device")[0].remedy.text
    nvidia = msgspec.structs.replace(facts, nvidia=CARD)
    assert found(nvidia, "hardcoded-cuda-device") == []


def test_cuda_in_a_cpu_build_is_the_builds_fault() -> None:
    facts = said(NOT_COMPILED, system=LINUX, torch=Torch(version="2.8.0+cpu", cuda=""), nvidia=CARD)
    assert found(facts, "hardcoded-cuda-device") == []
    unknown = said(NOT_COMPILED)
    assert found(unknown, "hardcoded-cuda-device") == []


CHECKPOINT = (
    "RuntimeError: Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False. If you are "
    "running on a CPU-only machine, please use torch.load with map_location=torch.device('cpu') to map your storages to "
    "the CPU."
)


def test_checkpoint_of_a_gpu() -> None:
    on_mac = said(CHECKPOINT, system=MAC, torch=Torch(version="2.8.0"))
    assert found(on_mac, "hardcoded-cuda-device")[0].confidence == "certain"
    unknown = said(CHECKPOINT)
    assert found(unknown, "hardcoded-cuda-device")[0].confidence == "likely"
    wanted = said(CHECKPOINT, system=LINUX, torch=Torch(version="2.8.0+cpu", cuda=""), nvidia=CARD)
    assert found(wanted, "hardcoded-cuda-device") == []


@pytest.mark.parametrize("rule", [r.id for r in code.RULES])
def test_a_live_machine_without_texts_gets_nothing(rule: str) -> None:
    facts = Facts(system=LINUX, torch=CUDA, nvidia=CARD)
    report = evaluate(facts, load(), code.RULES)
    assert [f for f in report.findings if f.rule == rule] == []
    assert [s for s in report.skipped if s.rule == rule] == []


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        (
            "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!",
            "device-mismatch",
        ),
        ("RuntimeError: mat1 and mat2 shapes cannot be multiplied (32x400 and 512x10)", "shape-mismatch"),
        ("RuntimeError: expected scalar type Float but found Half", "dtype-mismatch"),
        (
            "RuntimeError: Trying to backward through the graph a second time, but the buffers have already been freed.",
            "backward-twice",
        ),
        (
            "RuntimeError: element 0 of tensors does not require grad and does not have a grad_fn",
            "backward-without-graph",
        ),
        (
            "RuntimeError: a view of a leaf Variable that requires grad is being used in an in-place operation.",
            "inplace-autograd",
        ),
        (
            "../aten/src/ATen/native/cuda/Loss.cu:250: nll_loss_forward_reduce_cuda_kernel_2d: block: [0,0,0], thread: [4,0,0] Assertion `t >= 0 && t < n_classes` failed.",
            "label-out-of-range",
        ),
    ],
)
def test_findings_say_that_the_environment_is_fine(line: str, rule: str) -> None:
    facts = said(line, system=LINUX, torch=CUDA, nvidia=CARD)
    finding = found(facts, rule)[0]
    assert finding.area == "code"
    assert FINE in finding.why
    words = f"{finding.title} {finding.seen} {finding.why} {finding.remedy.text}".lower()
    assert "reinstall" not in words
    assert "driver" not in words
    # The same line from a smoke test accuses nobody's program.
    smoke = msgspec.structs.replace(
        facts, symptoms=tuple(msgspec.structs.replace(s, source="smoke test autograd") for s in facts.symptoms)
    )
    assert found(smoke, rule) == []


def test_damaged_checkpoint_is_not_blamed_on_the_code() -> None:
    facts = said("RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory")
    assert found(facts, "checkpoint-damaged")[0].area == "runtime"


def test_first_error_explains_the_echoes() -> None:
    lines = (
        "../aten/src/ATen/native/cuda/Loss.cu:250: Assertion `t >= 0 && t < n_classes` failed.\n"
        "RuntimeError: CUDA error: device-side assert triggered\n"
        "[Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600100 milliseconds before timing out.\n"
    )
    report = evaluate(said(lines), load(), RULES)
    assert report.findings[0].rule == "label-out-of-range"
    later = [f for f in report.findings if f.rule != "label-out-of-range" and f.severity == "error"]
    assert all(f.consequence_of for f in later)


def test_flat_loss_names_the_number_of_classes() -> None:
    item = Symptom(
        kind="loss-at-chance", text="epoch 9 loss 2.303", source="report.txt", line=2, details={"loss": "2.303"}
    )
    finding = found(Facts(origin="captured", symptoms=(item,)), "loss-flat")[0]
    assert finding.severity == "warning"
    assert "10" in finding.why
