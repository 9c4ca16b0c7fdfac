"""Kinds of text that public reports brought up: what each proves, and what its neighbours do not."""

from __future__ import annotations

import pytest

from envcheck.captured import read
from envcheck.cli.diagnose import examine

SMI = """+-----------------------------------------------------------------------------+
| NVIDIA-SMI 525.85.12    Driver Version: 525.85.12    CUDA Version: 12.0     |
|-------------------------------+----------------------+----------------------+
| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |
| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | GPU-Util  Compute M. |
|===============================+======================+======================|
|   0  NVIDIA A10G         Off  | 00000000:00:1E.0 Off |                    0 |
|  0%   28C    P8    15W / 300W |      0MiB / 23028MiB |      0%      Default |
+-----------------------------------------------------------------------------+
"""


def cause(text: str) -> str:
    report = examine([("report.txt", text)])
    return report.primary.rule if report.primary else report.verdict


# --- a verdict is not "healthy" where CUDA did not start --------------------------------------------------------------


@pytest.mark.parametrize(
    "said",
    [
        "UserWarning: CUDA initialization: CUDA driver initialization failed, you might not have a CUDA gpu.",
        ">>> torch.cuda.is_available()\nFalse",
    ],
)
def test_a_driver_that_lists_its_gpu_is_not_healthy_when_torch_gets_none(said: str) -> None:
    assert examine([("report.txt", SMI)]).verdict == "healthy"
    assert examine([("report.txt", f"{said}\n{SMI}")]).verdict != "healthy"


# --- xformers names two torches ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("have", "said"), [("2.4.0+cpu", "cpu-only-build"), ("2.4.0+cu121", "extension-abi-mismatch")])
def test_what_xformers_has_here_is_the_second_of_the_two(have: str, said: str) -> None:
    text = (
        "xFormers can't load C++/CUDA extensions. xFormers was built for:\n"
        f"    PyTorch 2.3.1+cu121 with CUDA 1201 (you have {have})\n    Python  3.11.9 (you have 3.11.4)\n"
    )
    facts = read([("report.txt", text)])
    assert (facts.torch.version, facts.python.version) == (have, "3.11.4")
    assert cause(text) == said


# --- a checkpoint that is no pickle -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("operand", "said"),
    [
        (118, "checkpoint-damaged"),  # "v" of a Git LFS pointer
        (60, "checkpoint-damaged"),  # "<" of a web page
        (149, "weights-only-load"),  # FRAME of pickle protocol 4
        (112, "weights-only-load"),  # PUT
    ],
)
def test_a_byte_that_is_no_code_of_pickle_is_another_kind_of_file(operand: int, said: str) -> None:
    assert cause(f"Weights only load failed.\nWeightsUnpickler error: Unsupported operand {operand}\n") == said


# --- conda's solver ---------------------------------------------------------------------------------------------------


def test_conda_refuses_a_cuda_that_the_driver_does_not_serve() -> None:
    text = "- package cudatoolkit-11.8.0-h4ba93d1_13 has constraint __cuda {} conflicting with __cuda-{}-0\n"
    assert cause(text.format(">=11", "10.1")) == "driver-too-old"
    assert cause(text.format("<12", "12.4")) != "driver-too-old"


def test_only_requests_that_exclude_each_other_are_a_conflict() -> None:
    text = "UnsatisfiableError: incompatible\n\nPackage cudatoolkit conflicts for:\n{0} -> cudatoolkit[version='>=11.3,<11.4']\ncudatoolkit={1}\n"
    assert cause(text.format("pytorch=1.11.0", "10.2")) == "package-conflict"
    assert cause(text.format("pytorch=1.11.0", "11.3.1")) != "package-conflict"
    assert read([("report.txt", text.format("pytorch=1.11.0", "10.2"))]).torch.version is None


# --- no wheel: which of the reasons -----------------------------------------------------------------------------------

POETRY = "  - Installing torch (2.4.1): Failed\n  Unable to find installation candidates for torch (2.4.1)\n"


@pytest.mark.parametrize(
    ("machine", "said"),
    [
        ("macOS 14.4\nPython 3.11.7\n", "macos-intel-no-wheel"),  # Apple silicon has a wheel for this Python
        ("macOS 14.4\nPython 3.13.0\n", "python-no-wheel"),
        ("macOS 14.4 arm64, Apple M2\nPython 3.11.7\n", "unknown"),
        ("Ubuntu 22.04\nPython 3.13.0\n", "python-no-wheel"),
    ],
)
def test_nothing_found_on_a_mac_although_apple_silicon_has_it(machine: str, said: str) -> None:
    assert cause(machine + POETRY) == said


def test_an_empty_list_of_pip_is_no_missing_index() -> None:
    text = "ERROR: Could not find a version that satisfies the requirement torch==1.13.1+cu117 (from versions: {0})\nERROR: No matching distribution found for torch==1.13.1+cu117\n"
    assert cause(text.format("none")) == "python-no-wheel"
    assert cause(text.format("1.13.0, 1.13.1, 2.0.0, 2.0.1")) == "wheel-index-missing"


def test_uv_says_which_glibc_it_found() -> None:
    text = "hint: You're on Linux (`manylinux_{0}_x86_64`), but `torch` (v2.8.0) only has wheels for the following platforms: `manylinux_2_28_aarch64`, `manylinux_2_28_x86_64`, `win_amd64`\n"
    assert cause(text.format("2_26")) == "glibc-too-old"
    assert cause(text.format("2_35")) != "glibc-too-old"


# --- WSL --------------------------------------------------------------------------------------------------------------


def test_wsls_own_directory_gives_wsl_away() -> None:
    text = "Unexpected error from cudaGetDeviceCount(). Error 2: out of memory\n"
    assert cause(text + "LD_LIBRARY_PATH=/usr/lib/wsl/lib\n") == "wsl-cuda"
    assert cause(text) == "oom-other-process"


# --- who asked for the library ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "frames",
    [
        '  File "/home/user/env/lib/python3.9/site-packages/mmcv/utils/ext_loader.py", line 13, in load_ext\n    ext = importlib.import_module(name)\n'
        '  File "/home/user/env/lib/python3.9/importlib/__init__.py", line 127, in import_module\n    return _bootstrap._gcd_import(name)\n',
        '  File "/home/user/env/lib/python3.9/site-packages/torch_scatter/__init__.py", line 16, in <module>\n    torch.ops.load_library(spec.origin)\n'
        '  File "/home/user/env/lib/python3.9/site-packages/torch/_ops.py", line 255, in load_library\n    ctypes.CDLL(path)\n'
        '  File "/home/user/env/lib/python3.9/ctypes/__init__.py", line 382, in __init__\n    self._handle = _dlopen(self._name, mode)\n',
    ],
)
def test_the_machinery_of_import_did_not_ask_for_the_library(frames: str) -> None:
    text = f"{frames}OSError: libcudart.so.11.0: cannot open shared object file: No such file or directory\n"
    assert cause(text) == "extension-abi-mismatch"


# --- NCCL -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("h:1:2 [0] include/alloc.h:48 NCCL WARN Cuda failure 2 'out of memory'", "oom-capacity"),
        ("h:1:2 [0] include/alloc.h:48 NCCL WARN Cuda failure 1 'invalid argument'", "nccl-cuda-error"),
        ("h:1:2 [0] include/socket.h:409 NCCL WARN Net : Connect to 10.0.0.7<54263> failed : No route to host", "nccl-network"),
        ("h:1:2 [0] include/socket.h:409 NCCL WARN Net : Connect to <ip><54263> failed : No route to host", "nccl-network"),
    ],
)  # fmt: skip
def test_what_nccl_was_told(line: str, said: str) -> None:
    assert cause(line + "\n") == said


# --- Triton and bitsandbytes ------------------------------------------------------------------------------------------


def test_tritons_lower_bound_means_that_it_ends_below_that_cuda() -> None:
    report = examine(
        [("report.txt", "RuntimeError: Triton only support CUDA 10.0 or higher, but got CUDA version: 12.8\n")]
    )
    assert report.primary is not None and report.primary.rule == "triton-version-mismatch"
    assert "12.8" in report.primary.title and "10.0" not in report.primary.title


@pytest.mark.parametrize(
    ("library", "said"),
    [("bitsandbytes\\libbitsandbytes_cuda118.dll", "extension-without-cuda"), ("other\\libother.dll", "unknown")],
)
def test_a_library_that_bitsandbytes_does_not_bring(library: str, said: str) -> None:
    assert (
        cause(f"Could not find module 'C:\\env\\Lib\\site-packages\\{library}' (or one of its dependencies).\n") == said
    )
