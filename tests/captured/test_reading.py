"""How the readings of one or several texts come together: rank, conflicts, lines, systems inside systems, own JSON."""

from __future__ import annotations

import msgspec
import pytest

from envcheck import facts as facts_module
from envcheck.captured import read
from envcheck.captured.normalise import lines
from envcheck.facts import Facts, Nvidia, System, Torch
from envcheck.findings import to_json
from envcheck.rules import RULES, evaluate
from envcheck.matrix import load


def one(text: str) -> Facts:
    return read([("a.txt", text)])


def test_line_numbers_are_those_of_the_original() -> None:
    text = "```\r\n<details>\r\n\x1b[1m\r\n> PyTorch version: 2.4.0\r\n```\r\nRuntimeError: Numpy is not available\r\n"
    facts = one(text)
    where = facts.where("torch.version")
    assert where is not None
    assert (where.source, where.line) == ("a.txt", 4)
    assert [s.line for s in facts.symptoms if s.kind.startswith("numpy")] == [6]


def test_no_line_is_added_or_dropped() -> None:
    text = "a\r\nb\n\n> c\n```\nd\r"
    assert len(lines(text)) == text.count("\n") + 1


def test_quoting_is_told_from_prompts() -> None:
    assert lines("> PyTorch version: 1.0\n> \n> > nested\n")[:3] == ["PyTorch version: 1.0", "", "nested"]
    assert lines(">>> import torch\n> pip install torch\n>> sw_vers\n")[:3] == [">>> import torch", "> pip install torch", ">> sw_vers"]
    assert lines("> $ pip list\n> torch 2.0\n> >>> torch.__version__\n")[2] == ">>> torch.__version__"


def test_what_a_program_says_beats_what_a_person_wrote() -> None:
    facts = one("torch: 2.1.0\n>>> torch.__version__\n'2.0.1+cu118'\n")
    assert facts.torch.version == "2.0.1+cu118"


def test_the_more_exact_reading_of_the_same_value_is_taken() -> None:
    assert one("Python version: 3.11\nPython 3.11.7 (main, Dec  4 2023, 18:10:11) [GCC 11.4.0] on linux\n").python.version == "3.11.7"


def test_a_contradiction_is_kept_with_its_lines() -> None:
    facts = one(">>> torch.__version__\n'2.6.0'\n$ pip list\nPackage Version\n------- -------\ntorch   2.8.0\n")
    (conflict,) = [c for c in facts.conflicts if c.field == "torch.version"]
    assert conflict.values == ("2.6.0", "2.8.0")
    assert conflict.lines == (2, 6)


@pytest.mark.parametrize(
    "text",
    [
        "PyTorch version: 1.7.0a0+9ddd3df\n[pip3] torch==1.7.0a0+a9603c7\n",
        "PyTorch version: 2.1.0+cu118\n[pip3] torch==2.1.0\n",
        "PyTorch version: 2.0.1\n[conda] pytorch 2.0.1 py3.9_cuda11.7_cudnn8.5.0_0 pytorch\n",
    ],
    ids=["commit", "label", "conda"],
)
def test_the_same_build_written_differently_is_no_contradiction(text: str) -> None:
    assert not [c for c in one(text).conflicts if c.field == "torch.version"]


def test_two_builds_of_one_release_are_a_contradiction() -> None:
    facts = one("PyTorch version: 2.1.0+cu118\n[pip3] torch==2.1.0+cpu\n")
    assert [c.values for c in facts.conflicts if c.field == "torch.version"] == [("2.1.0+cu118", "2.1.0+cpu")]


def test_one_copy_listed_by_two_tools_is_one_copy() -> None:
    facts = one("[pip3] torch==1.6.0\n[conda] torch                     1.6.0                     <pip>\n")
    assert [d.version for d in facts.distributions("torch")] == ["1.6.0"]


def test_two_places_are_two_copies() -> None:
    text = "Name: torch\nVersion: 2.0.0\nLocation: /a/site-packages\n\nName: torch\nVersion: 2.0.0\nLocation: /b/site-packages\n"
    assert len(one(text).distributions("torch")) == 2


def test_wsl_is_linux_although_windows_is_named() -> None:
    facts = one("OS: Windows 11, WSL2 Ubuntu 22.04\n")
    assert (facts.system.os, facts.system.wsl, facts.system.distro) == ("linux", 2, "ubuntu")
    facts = one("Windows 11\nLinux host 5.15.90.1-microsoft-standard-WSL2 #1 SMP x86_64 GNU/Linux\n")
    assert (facts.system.os, facts.system.wsl) == ("linux", 2)


def test_an_intel_python_on_apple_silicon() -> None:
    facts = one("Apple M1 Pro\nPython platform: macOS-13.4-x86_64-i386-64bit\n")
    assert (facts.system.machine, facts.python.machine, facts.system.rosetta) == ("arm64", "x86_64", True)


def test_glibc_of_an_old_interpreter_is_not_the_system_s() -> None:
    old = "Python version: 3.8.0\nPython platform: Linux-5.13.0-30-generic-x86_64-with-glibc2.10\n"
    assert one(old).system.libc_version is None
    assert one(old + "Libc version: glibc-2.31\n").system.libc_version == "2.31"
    assert one(old.replace("3.8.0", "3.10.4").replace("2.10", "2.17")).system.libc_version == "2.17"


def test_gpus_of_two_sources_complete_each_other() -> None:
    text = """GPU models and configuration: GPU 0: NVIDIA GeForce RTX 3060 Laptop GPU
| NVIDIA-SMI 470.86       Driver Version: 470.86       CUDA Version: 11.4     |
|   0  NVIDIA GeForce ...  Off  | 00000000:01:00.0 Off |                  N/A |
| N/A   45C    P8    10W /  N/A |    500MiB /  5946MiB |      0%      Default |
"""
    (gpu,) = one(text).nvidia.gpus or ()
    assert gpu.name == "NVIDIA GeForce RTX 3060 Laptop GPU"
    assert gpu.memory_total == 5946 * 1024**2


def test_mig_slices_belong_to_their_gpu() -> None:
    facts = one("GPU 0: NVIDIA A100-SXM4-80GB\nGPU 1: NVIDIA A100-SXM4-80GB\n  MIG 1g.10gb     Device  0:\n  MIG 2g.20gb     Device  1:\n")
    gpus = facts.nvidia.gpus or ()
    assert [(g.mig, g.mig_instances) for g in gpus] == [(None, None), (True, ("1g.10gb", "2g.20gb"))]


def test_several_files_of_one_machine() -> None:
    facts = read([("env.txt", "PyTorch version: 2.2.0+cu121\n"), ("smi.txt", "| NVIDIA-SMI 535.54.03    Driver Version: 535.54.03    CUDA Version: 12.2     |\n")])
    assert facts.torch.version == "2.2.0+cu121"
    where = facts.where("nvidia.driver_version")
    assert where is not None
    assert (where.source, where.line) == ("smi.txt", 1)


def test_a_snapshot_is_taken_as_it_is() -> None:
    snapshot = Facts(system=System(os="linux"), torch=Torch(version="2.8.0+cu128"), nvidia=Nvidia(driver_version="570.86.15"))
    data = facts_module.to_json(snapshot)
    assert read([("facts.json", data)]) == snapshot
    report = to_json(evaluate(snapshot, load(), RULES))
    assert read([("report.json", report)]) == snapshot


def test_a_snapshot_and_a_log_together() -> None:
    snapshot = facts_module.to_json(Facts(torch=Torch(version="2.8.0+cu128")))
    facts = read([("facts.json", snapshot), ("log.txt", "RuntimeError: CUDA error: device-side assert triggered\nOS: Ubuntu 22.04\n")])
    assert facts.torch.version == "2.8.0+cu128"
    assert facts.system.os == "linux"
    assert facts.symptoms


def test_json_of_another_program_is_text() -> None:
    facts = one('{"schema": "x", "torch": "2.0"}\n')
    assert facts.origin == "captured"


def test_a_full_list_says_that_the_rest_is_absent() -> None:
    rows = "".join(f"package-{n:<20} 1.0.{n}\n" for n in range(25))
    full = one(f"Package               Version\n--------------------- -------\npip                   24.0\n{rows}")
    assert full.python.distributions_partial is False
    assert one(rows.replace("package-1 ", "torch ")).python.distributions_partial is not False


def test_data_is_not_searched_for_errors() -> None:
    # A package of that name and a GPU of that name are no error.
    facts = one("[pip3] nccl-error==1.0\n[pip3] undefined-symbol==2.0\n")
    assert facts.symptoms == ()


def test_nothing_is_kept_of_a_person() -> None:
    facts = one('  File "/home/alice/x/train.py", line 1, in <module>\nRuntimeError: Numpy is not available\n')
    assert all("alice" not in (e.text or "") for e in facts.evidence)
    assert msgspec.json.encode(facts.symptoms).find(b"alice") < 0


def test_libraries_that_the_loader_names() -> None:
    facts = one("  55:  calling init: /home/user/e/lib/python3.10/site-packages/nvidia/cudnn/lib/libcudnn.so.9\n  55:  calling init: /lib/x86_64-linux-gnu/libcudnn_ops.so.9\n")
    assert [(lib.name, lib.origin) for lib in facts.torch.loaded_libraries or ()] == [("cudnn", "wheel"), ("cudnn", "system")]


@pytest.mark.parametrize(
    ("text", "module"),
    [
        ('  File "/w/onnx.py", line 3, in <module>\n    torch.onnx.export(x)\n  File "/p/python3.9/site-packages/torch/__init__.py", line 1, in __getattr__\n    return importlib.import_module(n)\n', "onnx"),
        ("ImportError: cannot import name 'stack' from partially initialized module 'torch' (most likely due to a circular import) (/w/torch.py)\n", "torch"),
        ("AttributeError: module 'random' has no attribute 'randint' (consider renaming '/w/random.py' since it has the same name as the standard library module named 'random')\n", "random"),
    ],
    ids=["script", "circular", "renaming"],
)  # fmt: skip
def test_a_file_that_hides_a_module(text: str, module: str) -> None:
    assert [s.module for s in one(text).python.shadows or ()] == [module]


@pytest.mark.parametrize(
    "text",
    [
        '  File "/w/train.py", line 3, in <module>\n    import torch\n  File "/p/site-packages/torch/__init__.py", line 1, in <module>\nImportError: libcudnn.so.8: cannot open shared object file\n',
        '  File "/w/main.py", line 3, in <module>\n    from models import onnx\n  File "/w/models/onnx.py", line 1, in <module>\n    import torch\nImportError: libcudnn.so.8: cannot open\n',
        "ImportError: cannot import name '_C' from partially initialized module 'torch' (/p/lib/python3.9/site-packages/torch/__init__.py)\n",
        '  File "/w/random.py", line 3, in <module>\n    loss.backward()\nRuntimeError: mat1 and mat2 shapes cannot be multiplied\n',
    ],
    ids=["plain", "package-of-the-project", "installed", "other-error"],
)  # fmt: skip
def test_a_file_that_hides_nothing(text: str) -> None:
    assert not one(text).python.shadows


@pytest.mark.parametrize(
    "item", ["pytorch=2.8", "pytorch==2.8.0", "pytorch=2.8.0=py3.11_cuda12.8_cudnn9_0", "pytorch-cuda=12.8"]
)
def test_what_conda_has_not_got_is_not_installed(item: str) -> None:
    facts = read(
        [("a", f"PackagesNotFoundError: The following packages are not available from current channels:\n\n  - {item}\n\nCurrent channels:\n\n  - https://conda.anaconda.org/pytorch/osx-arm64\n")]
    )  # fmt: skip
    assert facts.torch.version is None and not facts.python.distributions
    assert (facts.system.os, facts.python.machine) == ("macos", "arm64")
    assert [s.kind for s in facts.symptoms][:1] == ["conda-not-available"]


@pytest.mark.parametrize(
    ("text", "version", "available"),
    [
        ("print(torch.__version__) gives 2.4.1+cpu but torch.cuda.is_available() is False", "2.4.1+cpu", False),
        ("torch.cuda.is_available() False, torch.__version__ is 2.4.1+cpu, RTX 4060", "2.4.1+cpu", False),
        ("if torch.cuda.is_available() is False: raise SystemExit", None, None),
    ],
    ids=["gives-but", "bare-false", "code"],
)
def test_several_statements_in_one_sentence(text: str, version: str | None, available: bool | None) -> None:
    facts = read([("a", text)])
    assert (facts.torch.version, facts.torch.cuda_available) == (version, available)


@pytest.mark.parametrize("text", ["JetPack 6.1", "I run JetPack 6.1 on an Orin Nano.", "JetPack 6.1, Jetson Orin Nano"])
def test_jetpack_in_words(text: str) -> None:
    facts = read(
        [("a", f"OSError: libcusparseLt.so.0: cannot open shared object file: No such file or directory\n{text}\n")]
    )
    assert facts.system.jetpack == "6.1"
