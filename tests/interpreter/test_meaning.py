"""Answers -> facts, for machines that nobody here owns: Windows, macOS, ROCm, conda; and answers cut short."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from envcheck import facts as facts_module
from envcheck.facts import Facts, Outcome
from envcheck.probes.interpreter import facts_from, stage_text
from envcheck.probes.outcomes import where_it_stood, without_stacks
from envcheck.target import Answer, Choice
from tests.interpreter.conftest import quote


def _answer(*stages: dict[str, Any], **more: Any) -> Answer:
    more = {"kind": "answered", "outcome": Outcome(status="ok"), **more}
    return Answer("python", stages=tuple({"result": "ok", **stage} for stage in stages), **more)


def _facts(*stages: dict[str, Any], **more: Any):
    return facts_from(_answer(*stages, **more), env={"PATH": ""}, cwd=Path("/nowhere"), recognise=quote)


WINDOWS = {
    "stage": "interpreter", "executable": "C:\\Users\\me\\v\\Scripts\\python.exe", "version": "3.12.4", "bits": 64, "machine": "x86_64", "kind": "venv",
    "manager": "pip", "prefix": "C:\\Users\\me\\v", "sys_path": ["C:\\Users\\me\\v\\Lib\\site-packages"],
}  # fmt: skip


def test_windows_whose_dll_is_missing() -> None:
    failed = {
        "stage": "import-torch", "result": "error", "kind": "raised", "error_type": "OSError", "winerror": 126, "seconds": 0.2,
        "error": "[WinError 126] The specified module could not be found. Error loading \"C:\\v\\torch\\lib\\fbgemm.dll\" or one of its dependencies.",
        "traceback": "Traceback ...\nOSError: [WinError 126] ... fbgemm.dll", "causes": [], "warnings": [],
    }  # fmt: skip
    found = _facts(WINDOWS, {"stage": "torch-files", "found": True, "version": "2.4.0", "cuda": "12.1", "copies": [], "problems": []}, failed)
    assert found.torch.imports is not None
    assert (found.torch.imports.status, found.torch.imports.error_type) == ("failed", "OSError")
    assert found.torch.cuda == "12.1"
    assert found.symptoms[0].text.endswith("fbgemm.dll")


def test_windows_crash_names_the_status() -> None:
    crash = Outcome(status="crashed", exit_code=0xC000001D, signal="STATUS_ILLEGAL_INSTRUCTION")
    found = _facts(WINDOWS, kind="crashed", outcome=crash, during="import-torch", sections={"import-torch": "Windows fatal exception: code 0xc000001d\n"})
    assert found.torch.imports is not None
    assert found.torch.imports.signal == "STATUS_ILLEGAL_INSTRUCTION"
    assert found.torch.imports.detail == "during import-torch"


def test_a_mac() -> None:
    build = {"stage": "torch-build", "cuda": "", "hip": "", "xpu": "", "arch_list": [], "mps_built": True, "threads": 8, "settings": {"cudnn.enabled": "True"}}
    devices = {"stage": "other-devices", "mps_available": True, "xpu_available": False, "devices": [{"kind": "mps", "index": 0, "memory_total": 1}], "warnings": []}
    init = {"stage": "cuda-init", "result": "skipped", "reason": "this torch is built without CUDA"}
    found = _facts({"stage": "interpreter", "version": "3.13.1", "macos_target": "11.0", "kind": "framework"}, build, init, devices)
    assert (found.torch.cuda, found.torch.arch_list, found.torch.mps_available) == ("", (), True)
    assert [(d.kind, d.memory_total) for d in found.torch.devices or ()] == [("mps", 1)]
    assert found.torch.cuda_init == Outcome(status="skipped", detail="this torch is built without CUDA")
    assert found.python.macos_target == "11.0"
    assert found.symptoms == ()


def test_rocm() -> None:
    init = {"stage": "cuda-init", "available": True, "device_count": 1, "devices": [{"index": 0, "name": "AMD Radeon RX 7900 XTX", "gfx": "gfx1100"}], "warnings": []}
    found = _facts({"stage": "torch-build", "cuda": "", "hip": "6.4.43482", "arch_list": ["gfx1100"]}, init)
    assert (found.torch.hip, found.torch.arch_list) == ("6.4.43482", ("gfx1100",))
    (device,) = found.torch.devices or ()
    assert (device.gfx, device.compute_capability) == ("gfx1100", None)


def test_one_gpu_that_cannot_be_read_is_a_symptom_and_not_the_end() -> None:
    devices = [{"index": 0, "name": "A", "compute_capability": "8.0"}, {"index": 1, "error": "RuntimeError: CUDA error: device is lost"}]
    found = _facts({"stage": "cuda-init", "available": True, "device_count": 2, "devices": devices, "warnings": []})
    assert [d.name for d in found.torch.devices or ()] == ["A", None]
    assert "device is lost" in found.symptoms[0].text


def test_conda() -> None:
    conda = {"prefix": "/opt/conda/envs/e", "env": "e", "version": "24.5.0", "manager": "mamba"}
    found = _facts({"stage": "interpreter", "version": "3.11.0", "kind": "conda", "manager": "mamba", "conda": conda})
    assert (found.python.conda_prefix, found.python.conda_env, found.python.conda_version) == ("/opt/conda/envs/e", "e", "24.5.0")
    assert found.python.manager == "mamba"
    in_venv = _facts({"stage": "interpreter", "kind": "venv", "manager": "uv", "conda": conda})
    assert in_venv.python.conda_prefix is None


def test_what_was_not_answered_is_unknown() -> None:
    found = _facts(kind="timeout", outcome=Outcome(status="timeout"), during="start")
    assert found.env is None
    assert found.python.distributions is None
    assert found.python.shadows is None
    assert found.torch.found is None
    assert found.torch.imports is None
    assert found.torch.devices is None
    assert found.python.torch_elsewhere is None
    assert found.probes[0].outcome.status == "timeout"


def test_an_end_before_the_import_is_told_as_such() -> None:
    found = _facts({"stage": "interpreter", "version": "3.9.1"}, kind="crashed", outcome=Outcome(status="crashed", signal="SIGBUS"), during="distributions")
    assert found.torch.imports == Outcome(status="skipped", detail="the questioning ended before it, during distributions")


def test_a_stage_that_fails_by_a_fault_of_ours_is_told_and_proves_nothing() -> None:
    broken = {"stage": "distributions", "result": "error", "kind": "internal", "error_type": "ValueError", "error": "x", "traceback": "Traceback"}
    found = _facts({"stage": "interpreter", "version": "3.9.1"}, broken)
    assert found.python.distributions is None
    assert found.python.pip_version is None
    assert [(p.name, p.outcome.error_type) for p in found.probes[1:]] == [("python: distributions", "ValueError")]
    assert found.symptoms == ()


def test_files_do_not_overrule_torch_itself() -> None:
    files = {"stage": "torch-files", "found": True, "version": "2.8.0", "cuda": "12.8", "arch_list": ["sm_90"], "copies": [], "problems": []}
    live = {"stage": "import-torch", "version": "2.6.0+cpu", "location": "/x/torch", "warnings": []}
    found = _facts(files, live, {"stage": "torch-build", "cuda": "", "arch_list": []})
    assert (found.torch.version, found.torch.cuda, found.torch.arch_list) == ("2.6.0+cpu", "", ())


def test_cudnn_and_nccl_of_the_wheels_until_torch_says_more() -> None:
    listed = [
        {"name": "nvidia-cudnn-cu12", "version": "9.10.2.21", "location": "/c", "metadata": "m", "site": "env"},
        {"name": "nvidia-nccl-cu12", "version": "2.27.3", "location": "/c", "metadata": "n", "site": "env"},
    ]
    files = {"stage": "torch-files", "found": True, "version": "2.8.0", "cuda": "12.8", "copies": [], "problems": []}
    packages = {"stage": "distributions", "distributions": listed}
    found = _facts(files, packages)
    assert (found.torch.cudnn, found.torch.nccl) == ("9.10.2", "2.27.3")
    found = _facts(files, packages, {"stage": "torch-build", "cuda": "12.8", "cudnn": "9.1.0"})
    assert found.torch.cudnn == "9.1.0"
    found = _facts({**files, "cuda": ""}, packages)
    assert found.torch.cudnn is None


def test_a_cudnn_that_torch_refuses_is_a_symptom() -> None:
    refused = {"result": "error", "error_type": "RuntimeError", "traceback": "RuntimeError: cuDNN version incompatibility: PyTorch was compiled  against (9, 1, 0)"}
    found = _facts({"stage": "torch-build", "cuda": "12.4", "cudnn": None, "cudnn_error": refused})
    assert found.symptoms[0].source == "torch.backends.cudnn.version()"
    assert "cuDNN version incompatibility" in found.symptoms[0].text


def test_operators_that_fail_make_the_companion_fail() -> None:
    stage = {"stage": "companion:torchvision", "version": "0.20.1", "cuda": "12.4", "operators": False, "warnings": [],
             "operator_error": {"result": "error", "error_type": "NotImplementedError", "error": "no kernel", "traceback": "NotImplementedError: no kernel"}}  # fmt: skip
    (companion,) = _facts(stage).torch.companions or ()
    assert companion.imports is not None
    assert (companion.imports.status, companion.imports.error, companion.operators) == ("failed", "no kernel", False)


def test_the_version_of_a_companion_that_does_not_load_is_that_of_its_metadata() -> None:
    listed = [{"name": "torchvision", "version": "0.19.0", "location": "/c", "metadata": "m", "site": "env"}]
    failed = {"stage": "companion:torchvision", "result": "error", "kind": "raised", "error_type": "RuntimeError", "error": "x", "warnings": []}
    (companion,) = _facts({"stage": "distributions", "distributions": listed}, failed).torch.companions or ()
    assert companion.version == "0.19.0"


def test_the_choice_is_told() -> None:
    choice = Choice(Path("/v/bin/python"), "active virtual environment", (Path("/usr/bin/python3"),))
    found = facts_from(_answer(), choice=choice, env={"PATH": ""}, cwd=Path("/nowhere"))
    assert found.python.chosen == "active virtual environment"
    assert found.python.other_pythons == ("/usr/bin/python3",)


def test_facts_survive_a_snapshot() -> None:
    found = _facts(WINDOWS, {"stage": "torch-files", "found": True, "copies": [{"location": "/x"}], "problems": ["not-torch"],
                             "shadows": [{"module": "torch", "path": "/p", "hides": None, "by": "cwd"}]})  # fmt: skip
    facts = Facts(python=found.python, torch=found.torch, env=found.env, symptoms=found.symptoms, probes=found.probes)
    assert facts_module.from_json(facts_module.to_json(facts)) == facts
    assert json.loads(msgspec.json.encode(facts))["python"]["shadows"] == [{"module": "torch", "path": "/p", "by": "cwd"}]


# -- what faulthandler writes ------------------------------------------------------------------------------------------

CRASH = """\
ImportWarning: before
Fatal Python error: Segmentation fault

Thread 0x00007f0a (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 320 in wait

Current thread 0x00007f0b (most recent call first):
  File "/v/site-packages/torch/__init__.py", line 237 in _load_global_deps
  File "/v/site-packages/torch/__init__.py", line 300 in <module>

Extension modules: numpy.core._multiarray_umath (total: 1)
after
"""
HANG = """\
Timeout (0:00:54)!
Thread 0x00007f0a (most recent call first):
  File "C:\\Python\\threading.py", line 320 in wait
Thread 0x00007f0b (most recent call first):
  File "C:\\v\\torch\\cuda\\__init__.py", line 319 in _lazy_init
  File "C:\\v\\torch\\cuda\\__init__.py", line 12 in init
"""


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (CRASH, "in _load_global_deps (torch/__init__.py:237)"),
        (HANG, "in _lazy_init (cuda/__init__.py:319)"),
        ("Fatal Python error: Segmentation fault\n\nCurrent thread 0x1 (most recent call first):\n  <no Python frame>\n", None),
        ("nothing of the kind", None),
    ],
    ids=["crash", "hang", "no-frame", "none"],
)
def test_the_place_where_it_stood(text: str, place: str | None) -> None:
    assert where_it_stood(text) == place


def test_stacks_are_no_symptoms() -> None:
    assert without_stacks(CRASH) == "ImportWarning: before\nafter\n"
    assert without_stacks(HANG) == ""
    assert without_stacks("plain\n  text\n") == "plain\n  text\n"


def test_stacks_of_a_process_that_lived_on_are_left_out_of_the_text() -> None:
    answer = _answer({"stage": "import-torch", "warnings": [{"category": "UserWarning", "text": "old"}]}, sections={"import-torch": CRASH})
    text = stage_text(answer, "import-torch")
    assert "Segmentation fault" not in text
    assert "UserWarning: old" in text
