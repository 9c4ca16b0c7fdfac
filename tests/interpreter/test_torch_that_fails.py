"""A torch whose import crashes, hangs, raises or lies: what came before is kept, and the place is told."""

from __future__ import annotations

import pytest

from tests.interpreter.conftest import Env
from tests.kit_python import packages
from tests.kit_python.environments import posix_only
from tests.kit_python.packages import make_torch

pytestmark = posix_only

BEFORE = ("interpreter", "environment", "torch-files", "distributions", "installed-files")


@pytest.mark.parametrize(
    ("body", "signal"),
    [(packages.SEGFAULTS, "SIGSEGV"), (packages.ILLEGAL_INSTRUCTION, "SIGILL"), (packages.ABORTS, "SIGABRT")],
    ids=["segfault", "illegal-instruction", "abort"],
)
def test_a_crash(env: Env, body: str, signal: str) -> None:
    make_torch(env.site, init=body)
    answer = env.ask()
    assert (answer.kind, answer.during) == ("crashed", "import-torch")
    assert tuple(s["stage"] for s in answer.stages) == BEFORE
    found = env.facts()
    imports = found.torch.imports
    assert imports is not None
    assert (imports.status, imports.signal) == ("crashed", signal)
    assert found.torch.version == "2.8.0+cu128"
    assert found.probes[0].outcome.status == "crashed"


def test_the_place_of_a_crash(env: Env) -> None:
    make_torch(env.site, init=packages.SEGFAULTS)
    imports = env.facts().torch.imports
    assert imports is not None
    assert imports.detail is not None
    assert imports.detail.startswith("during import-torch, in ")
    assert "string_at" in imports.detail or "load_everything (torch/__init__.py" in imports.detail


def test_what_a_crash_printed_is_searched_for_known_errors(env: Env) -> None:
    make_torch(env.site, init=packages.ABORTS)
    texts = {s.source: s.text for s in env.facts().symptoms}
    assert "OMP: Error #15" in texts["import torch"]


def test_a_hang(env: Env) -> None:
    make_torch(env.site, init=packages.HANGS)
    found = env.facts(limits={"import-torch": 0.7})
    imports = found.torch.imports
    assert imports is not None
    assert imports.status == "timeout"
    assert imports.detail is not None
    assert "wait_for_the_network (torch/__init__.py:4)" in imports.detail
    assert found.torch.cuda == "12.8"


@pytest.mark.parametrize(("body", "code"), [(packages.EXITS, 0), (packages.EXITS_WITH_3, 3)], ids=["0", "3"])
def test_an_exit_in_the_middle_is_not_success(env: Env, body: str, code: int) -> None:
    make_torch(env.site, init=body)
    imports = env.facts().torch.imports
    assert imports is not None
    assert (imports.status, imports.exit_code) == ("failed", code)


@pytest.mark.parametrize(
    ("body", "error_type", "words"),
    [
        (packages.CUDNN_GONE, "ImportError", "libcudnn.so.8: cannot open shared object file"),
        (packages.NCCL_SYMBOL, "ImportError", "undefined symbol: ncclCommResume"),
        (packages.DLL_GONE, "OSError", "[WinError 126]"),
        (packages.SYSTEM_EXIT, "SystemExit", "no licence"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt", ""),
        ("def f(:", "SyntaxError", "invalid syntax"),
    ],
    ids=["import-error", "symbol", "os-error", "system-exit", "interrupt", "syntax"],
)
def test_an_exception(env: Env, body: str, error_type: str, words: str) -> None:
    make_torch(env.site, init=body)
    found = env.facts()
    imports = found.torch.imports
    assert imports is not None
    assert (imports.status, imports.error_type) == ("failed", error_type)
    assert words in (imports.error or "")
    assert found.torch.cuda_init is None
    (symptom,) = found.symptoms
    assert symptom.source == "import torch"
    assert symptom.line is None
    assert words in symptom.text


def test_the_cause_behind_an_exception(env: Env) -> None:
    make_torch(env.site, init=packages.CAUSED)
    imports = env.facts().torch.imports
    assert imports is not None
    assert imports.error == "torch could not be set up"
    assert imports.detail == "caused by ModuleNotFoundError: No module named 'nothing_of_that_name'"


def test_noise_warnings_and_a_closed_output(env: Env) -> None:
    make_torch(env.site, init=packages.NOISY)
    answer = env.ask()
    assert answer.kind == "answered"
    assert "Loading the model zoo" in answer.noise or "no line end here" in answer.noise
    said = answer.stage("import-torch")
    assert said is not None
    assert [w["text"] for w in said["warnings"]] == ["this build is old"]
    assert "W0101 something of C++" in answer.stderr("import-torch")
    assert answer.stage("torch-build") is not None


def test_no_torch_at_all(env: Env) -> None:
    found = env.facts()
    assert found.torch.found is False
    assert found.torch.copies == ()
    assert found.torch.imports is not None
    assert found.torch.imports.status == "missing"
    assert found.symptoms == ()


def test_a_quick_look_does_not_import(env: Env) -> None:
    make_torch(env.site, init=packages.SEGFAULTS)
    found = env.facts(quick=True)
    assert found.torch.found is True
    assert found.torch.imports is not None
    assert found.torch.imports.status == "skipped"
    assert found.probes[0].outcome.status == "ok"


@pytest.mark.parametrize(
    ("body", "status"), [(packages.CUDA_SEGFAULTS, "crashed"), (packages.CUDA_HANGS, "timeout")], ids=["crash", "hang"]
)
def test_a_crash_of_a_later_stage_costs_only_that_stage(env: Env, body: str, status: str) -> None:
    make_torch(env.site, cuda_init=body)
    answer = env.ask(limits={"cuda-init": 0.7})
    assert answer.kind == "answered"
    assert [item.stage for item in answer.interruptions] == ["cuda-init"]
    assert answer.stage("libraries") is not None
    assert [s["stage"] for s in answer.stages].count("import-torch") == 1
    found = env.facts(limits={"cuda-init": 0.7})
    assert found.torch.imports is not None
    assert found.torch.imports.ok
    assert found.torch.cuda_init is not None
    assert found.torch.cuda_init.status == status
    assert found.torch.loaded_libraries is not None
    assert found.probes[0].outcome.detail == "started again after: cuda-init"


def test_cuda_that_does_not_start(env: Env) -> None:
    make_torch(env.site, cuda_init=packages.CUDA_TOO_OLD)
    found = env.facts()
    assert found.torch.cuda_available is False
    assert found.torch.device_count == 0
    assert found.torch.cuda_init is not None
    assert found.torch.cuda_init.error == "The NVIDIA driver on your system is too old (found version 11040)."
    assert found.torch.cuda_warnings is not None
    assert found.torch.cuda_warnings[0].startswith("CUDA initialization: The NVIDIA driver")
    (symptom,) = found.symptoms
    assert symptom.source == "torch.cuda.init()"


def test_cuda_that_starts(env: Env) -> None:
    make_torch(env.site, cuda_init=packages.CUDA_WORKS)
    found = env.facts()
    assert found.torch.cuda_init is not None
    assert found.torch.cuda_init.ok
    assert [(d.kind, d.index, d.compute_capability) for d in found.torch.devices or ()] == [("cuda", 0, "8.9"), ("cuda", 1, "8.9")]
    assert found.symptoms == ()


def test_companions_that_fail_crash_and_are_not_there(env: Env) -> None:
    make_torch(env.site)
    (env.site / "torchvision.py").write_text("raise RuntimeError('operator torchvision::nms does not exist')")
    (env.site / "torchaudio.py").write_text("import ctypes; ctypes.string_at(0)")
    found = env.facts(companions=True)
    companions = {c.name: c for c in found.torch.companions or ()}
    assert sorted(companions) == ["torchaudio", "torchvision"]
    assert companions["torchvision"].imports is not None
    assert companions["torchvision"].imports.error == "operator torchvision::nms does not exist"
    assert companions["torchaudio"].imports is not None
    assert companions["torchaudio"].imports.signal == "SIGSEGV"


def test_another_payload_runs_behind_the_probe_as_the_main_program(env: Env, tmp_path) -> None:
    make_torch(env.site)
    payload = tmp_path / "then.py"
    payload.write_text(
        "import sys\nprint('@envcheck@ {\"stage\": \"mine\", \"argv\": \"%s\", \"name\": \"%s\", \"torch\": \"%s\"}'\n"
        "      % (sys.argv[1:], __name__, 'torch' in sys.modules), flush=True)\nsys.exit(4)\n"
    )
    answer = env.ask(then=[payload, "--level", "1"])
    mine = answer.stage("mine")
    assert mine is not None
    assert (mine["argv"], mine["name"], mine["torch"]) == ("['--level', '1']", "__main__", "True")
    assert (answer.kind, answer.outcome.exit_code) == ("answered", 4)


def test_the_payload_behind_is_left_out_when_torch_does_not_import(env: Env, tmp_path) -> None:
    make_torch(env.site, init=packages.CUDNN_GONE)
    payload = tmp_path / "then.py"
    payload.write_text("print('@envcheck@ {\"stage\": \"mine\"}', flush=True)")
    answer = env.ask(then=[payload])
    assert answer.stage("mine") is None
    assert answer.stage("then") == {"stage": "then", "result": "skipped", "reason": "torch does not import"}


def test_a_crash_of_the_payload_behind_is_told_apart_and_not_tried_again(env: Env, tmp_path) -> None:
    make_torch(env.site)
    payload = tmp_path / "then.py"
    payload.write_text("print('@envcheck@ {\"stage\": \"check\", \"name\": \"a\"}', flush=True)\nimport ctypes; ctypes.string_at(0)\n")
    answer = env.ask(then=[payload])
    assert (answer.kind, answer.during) == ("crashed", "then")
    assert [s["name"] for s in answer.stages if s["stage"] == "check"] == ["a"]
    ended = answer.interruption("then")
    assert ended is not None
    assert ended.outcome.signal == "SIGSEGV"


def test_an_exception_of_the_payload_behind_is_its_own(env: Env, tmp_path) -> None:
    make_torch(env.site)
    payload = tmp_path / "then.py"
    payload.write_text("raise ValueError('mine')\n")
    answer = env.ask(then=[payload])
    assert (answer.kind, answer.outcome.exit_code) == ("answered", 1)
    assert answer.stage("then") == {"stage": "then", "result": "ok", "exit_code": 1}
    assert "ValueError: mine" in answer.stderr("then")
