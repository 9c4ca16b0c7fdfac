"""Error texts about installing and about Python, from public threads: each names its cause first.

Each text is re-typed and condensed to the machine's own words; the second field names the thread.
"""

from __future__ import annotations

import pytest

from tests.rules.texts import named, sound, three_wordings

CASES: list[tuple[str, str, str]] = [
    (
        "python-no-wheel",
        "python-poetry/poetry and uv threads on Python 3.13 (drmingler/docling-api#10)",
        """  RuntimeError

  Unable to find installation candidates for torch (2.5.1)

  at ~/.local/pipx/venvs/poetry/lib/python3.13/site-packages/poetry/installation/chooser.py:74 in choose_for
       73|         if not links:
    ->  74|             raise RuntimeError(f"Unable to find installation candidates for {package}")

Cannot install torch.
""",
    ),
    (
        "python-no-wheel",
        "astral-sh/uv#3437",
        """  x No solution found when resolving dependencies:
  `-> Because only the following versions of torch are available:
          torch==2.2.0
          torch==2.2.1
      and torch==2.2.0 has no wheels with a matching Python ABI tag (e.g., `cp313`), we can conclude that torch==2.2.0 cannot be used.
      And because you require torch==2.2.0, we can conclude that your requirements are unsatisfiable.

      hint: You require CPython 3.13 (`cp313`), but we only found wheels for `torch` (v2.2.0) with the following Python ABI tags: `cp38`, `cp39`, `cp310`, `cp311`, `cp312`
""",
    ),
    (
        "python-no-wheel",
        "pip with Python 3.14 and an old pin",
        """Python 3.14.0, Ubuntu 24.04
ERROR: Could not find a version that satisfies the requirement torch==2.6.0 (from versions: 2.9.0, 2.9.1)
ERROR: No matching distribution found for torch==2.6.0
""",
    ),
    (
        "python-no-wheel",
        "Alpine",
        """$ cat /etc/os-release
NAME="Alpine Linux"
ID=alpine
VERSION_ID=3.20.3
ERROR: Could not find a version that satisfies the requirement torch (from versions: none)
ERROR: No matching distribution found for torch
""",
    ),
    (
        "python-no-wheel",
        "a wheel of another Python",
        """(base) C:\\Users\\user> pip install torch-1.13.1+cu117-cp37-cp37m-win_amd64.whl
ERROR: torch-1.13.1+cu117-cp37-cp37m-win_amd64.whl is not a supported wheel on this platform.
Python 3.10.9
""",
    ),
    (
        "python-no-wheel",
        "conda: the solver's words",
        """LibMambaUnsatisfiableError: Encountered problems while solving:
  - package pytorch-1.7.1-py3.6_cuda11.0.221_cudnn8.0.5_0 requires python >=3.6,<3.7.0a0, but none of the providers can be installed
""",
    ),
    (
        "python-no-wheel",
        "Python 3.6 asks for a release that dropped it",
        """Python 3.6.9, Ubuntu 18.04
  ERROR: Could not find a version that satisfies the requirement torch>=1.12 (from versions: 0.1.2, 0.1.2.post1, 1.0.0, 1.1.0, 1.2.0, 1.3.0, 1.4.0, 1.5.0, 1.6.0, 1.7.0, 1.7.1, 1.8.0, 1.8.1, 1.9.0, 1.9.1, 1.10.0, 1.10.1, 1.10.2)
ERROR: No matching distribution found for torch>=1.12
""",
    ),
    (
        "python-no-wheel",
        "a range that ends before this Python",
        """Python 3.12.3
ERROR: Could not find a version that satisfies the requirement torch<2.1,>=1.10 (from versions: 2.2.0, 2.2.1, 2.2.2, 2.3.0)
ERROR: No matching distribution found for torch<2.1,>=1.10
""",
    ),
    (
        "python-no-wheel",
        "musl's loader at a glibc wheel",
        """ImportError: Error loading shared library ld-linux-x86-64.so.2: No such file or directory (needed by /usr/lib/python3.11/site-packages/torch/lib/libtorch_cpu.so)
""",
    ),
    (
        "python-32bit",
        "a webui on 32-bit Windows Python",
        """Python 3.9.13 (tags/v3.9.13:6de2ca5, May 17 2022, 16:24:45) [MSC v.1929 32 bit (Intel)] on win32
ERROR: Could not find a version that satisfies the requirement torch (from versions: none)
ERROR: No matching distribution found for torch
""",
    ),
    (
        "python-32bit",
        "collect_env's own words",
        """PyTorch version: N/A
OS: Microsoft Windows 10 Home
Python version: 3.8.10 (tags/v3.8.10:3d8993a, May  3 2021, 11:34:34) [MSC v.1928 32 bit (Intel)] (32-bit runtime)
ModuleNotFoundError: No module named 'torch'
""",
    ),
    (
        "python-32bit",
        "Raspberry Pi OS, 32 bit",
        """$ uname -m
armv7l
$ python3 --version
Python 3.9.2
ERROR: Could not find a version that satisfies the requirement torch==2.0.1 (from versions: none)
ERROR: No matching distribution found for torch==2.0.1
""",
    ),
    (
        "macos-intel-no-wheel",
        "astral-sh/uv#13512",
        """error: Distribution `torch==2.6.0 @ registry+https://pypi.org/simple` can't be installed because it doesn't have a source distribution or wheel for the current platform

hint: You're on macOS (`macosx_15_0_x86_64`), but `torch` (v2.6.0) only has wheels for the following platforms: `manylinux_2_28_aarch64`, `manylinux1_x86_64`, `macosx_11_0_arm64`, `win_amd64`
""",
    ),
    (
        "macos-intel-no-wheel",
        "astral-sh/uv#8746",
        """$ uv pip install -r requirements.txt
  x No solution found when resolving dependencies:
  `-> Because torch==2.6.0 has no wheels with a matching platform tag (e.g., `macosx_15_0_x86_64`) and you require torch==2.6.0, we can conclude that your requirements are unsatisfiable.

      hint: Wheels are available for `torch` (v2.6.0) on the following platforms: `manylinux_2_28_aarch64`, `manylinux1_x86_64`, `macosx_11_0_arm64`, `win_amd64`
""",
    ),
    (
        "macos-intel-no-wheel",
        "pip on an Intel MacBook",
        """macOS 14.6, Intel Core i9
Python 3.11.9
ERROR: Could not find a version that satisfies the requirement torch==2.5.1 (from versions: 2.0.0, 2.0.1, 2.1.0, 2.1.1, 2.1.2, 2.2.0, 2.2.1, 2.2.2)
ERROR: No matching distribution found for torch==2.5.1
""",
    ),
    (
        "wheel-index-missing",
        "a label without its index",
        """Python 3.10.12, Ubuntu 22.04
$ pip install torch==2.1.0+cu118
ERROR: Could not find a version that satisfies the requirement torch==2.1.0+cu118 (from versions: 1.11.0, 1.12.0, 1.12.1, 1.13.0, 1.13.1, 2.0.0, 2.0.1, 2.1.0, 2.1.1, 2.1.2)
ERROR: No matching distribution found for torch==2.1.0+cu118
""",
    ),
    (
        "no-such-release",
        "a version that was never made",
        """Python 3.10.12
ERROR: Could not find a version that satisfies the requirement torch==2.3.2 (from versions: 1.11.0, 1.12.0, 1.13.0, 2.0.0, 2.1.0, 2.2.0, 2.3.0, 2.3.1, 2.4.0)
ERROR: No matching distribution found for torch==2.3.2
""",
    ),
    (
        "wrong-interpreter",
        "pytorch/pytorch#12004",
        """ImportError: No module named 'torch'

> conda list pytorch
pytorch-cpu               0.4.1           py36_cpuhe774522_1    pytorch
pytorch                   0.4.1           py36_cuda90_cudnn7_1    pytorch
> python --version
Python 3.5.4
""",
    ),
    (
        "wrong-interpreter",
        "jupyter/notebook#4629",
        """(torchenv) user@host:~$ pip show torch
Name: torch
Version: 1.1.0
Location: /home/user/anaconda3/envs/torchenv/lib/python3.7/site-packages

In [1]: import torch
ModuleNotFoundError                       Traceback (most recent call last)
<ipython-input-10-eb42ca6e4af3> in <module>
----> 1 import torch
ModuleNotFoundError: No module named 'torch'
""",
    ),
    (
        "wrong-interpreter",
        "a pip of another Python",
        """$ pip install torch
Requirement already satisfied: torch in /usr/local/lib/python3.11/site-packages (2.3.1)
$ python3 train.py
Traceback (most recent call last):
  File "/home/user/train.py", line 1, in <module>
    import torch
ModuleNotFoundError: No module named 'torch'
""",
    ),
    (
        "torch-not-installed",
        "nothing but the error",
        """Traceback (most recent call last):
  File "app.py", line 4, in <module>
    import torch
ModuleNotFoundError: No module named 'torch'
""",
    ),
    (
        "build-isolation",
        "Dao-AILab/flash-attention (pip builds in isolation)",
        """$ pip install flash-attn
Collecting flash-attn
  Getting requirements to build wheel ... error
  error: subprocess-exited-with-error

  x Getting requirements to build wheel did not run successfully.
      File "<string>", line 22, in <module>
      ModuleNotFoundError: No module named 'torch'
      [end of output]

  note: This error originates from a subprocess, and is likely not a problem with pip.
""",
    ),
    (
        "build-isolation",
        "uv's words",
        """  x Failed to build `causal-conv1d==1.5.0.post8`
  |-> The build backend returned an error
  `-> Call to `setuptools.build_meta:__legacy__.build_wheel` failed (exit status: 1)
      Traceback (most recent call last):
        File "/home/user/.cache/uv/builds-v0/.tmpX/lib/python3.11/site-packages/setuptools/build_meta.py", line 334, in get_requires_for_build_wheel
        File "<string>", line 19, in <module>
      ModuleNotFoundError: No module named 'torch'

      hint: This error likely indicates that `causal-conv1d@1.5.0.post8` depends on `torch`, but doesn't declare it as a build dependency.
""",
    ),
    (
        "build-isolation",
        "uv's hint alone, broken by a narrow terminal inside docker build",
        """#12 7.310 ModuleNotFoundError: No module named 'torch'
7.310
7.310 hint: This error likely indicates that `xfuser@0.4` depends
7.310 on `torch`, but doesn't
7.310 declare it as a build dependency.
""",
    ),
    (
        "duplicate-torch-install",
        "pip list and the interpreter disagree",
        """$ pip list | grep torch
torch                     2.4.0
torchvision               0.19.0
$ python -c "import torch; print(torch.__version__, torch.__file__)"
2.1.2 /opt/conda/lib/python3.10/site-packages/torch/__init__.py
>>> import torchvision
RuntimeError: operator torchvision::nms does not exist
""",
    ),
    (
        "duplicate-torch-install",
        "pip over conda",
        """# packages in environment at /home/user/miniconda3/envs/dl:
#
# Name                    Version                   Build  Channel
pytorch                   2.1.2           py3.10_cuda11.8_cudnn8.7.0_0    pytorch
torch                     2.4.1                    pypi_0    pypi
""",
    ),
    (
        "user-site-shadowing",
        "a conda environment and ~/.local",
        """(dl) user@host:~$ which python
/home/user/miniconda3/envs/dl/bin/python
>>> import torch
>>> torch.__version__
'1.9.0+cu102'
>>> torch.__file__
'/home/user/.local/lib/python3.8/site-packages/torch/__init__.py'
""",
    ),
    (
        "user-site-shadowing",
        "Windows, Roaming",
        """>>> import torch
>>> print(torch.__file__)
C:\\Users\\user\\AppData\\Roaming\\Python\\Python310\\site-packages\\torch\\__init__.py
>>> print(torch.__version__)
1.12.1+cpu
""",
    ),
    (
        "local-file-shadowing",
        "ZhendongWang6/Uformer#61 with the path that Python prints",
        """Traceback (most recent call last):
  File "/home/user/work/torch.py", line 1, in <module>
    import torch
  File "/home/user/work/torch.py", line 3, in <module>
    print(torch.cuda.is_available())
AttributeError: partially initialized module 'torch' has no attribute 'cuda' (most likely due to a circular import)
""",
    ),
    (
        "local-file-shadowing",
        "a file named random.py",
        """Traceback (most recent call last):
  File "/home/user/proj/main.py", line 1, in <module>
    import torch
  File "/home/user/env/lib/python3.11/site-packages/torch/__init__.py", line 27, in <module>
    import tempfile
  File "/usr/lib/python3.11/tempfile.py", line 45, in <module>
    from random import Random as _Random
ImportError: cannot import name 'Random' from partially initialized module 'random' (most likely due to a circular import) (/home/user/proj/random.py)
""",
    ),
    (
        "local-file-shadowing",
        "CPython 3.13's own advice",
        """  File "/home/user/lab/numpy.py", line 2, in <module>
    import torch
AttributeError: module 'numpy' has no attribute 'ndarray' (consider renaming '/home/user/lab/numpy.py' since it has the same name as the library you intended to import)
""",
    ),
    (
        "local-file-shadowing",
        "a module that is not a package",
        """ModuleNotFoundError: No module named 'torch.nn'; 'torch' is not a package
""",
    ),
    (
        "corrupted-download",
        "python-poetry/poetry#9592",
        """> poetry add torch
  - Installing torch (2.4.0): Failed

  IncompleteRead

  IncompleteRead(42322026 bytes read, 155538554 more expected)

  at d:\\face-maching\\.venv\\Lib\\site-packages\\urllib3\\response.py:894 in _raw_read
""",
    ),
    (
        "corrupted-download",
        "patientx/ComfyUI-Zluda#467",
        """  File "H:\\ComfyUI-Zluda\\venv\\Lib\\site-packages\\pip\\_vendor\\urllib3\\response.py", line 1043, in _raw_read
    raise IncompleteRead(self._fp_bytes_read, self.length_remaining)
pip._vendor.urllib3.exceptions.IncompleteRead: IncompleteRead(1236162304 bytes read, 1672243669 more expected)
ModuleNotFoundError: No module named 'torch'
""",
    ),
    (
        "corrupted-download",
        "pip 25's words",
        """Collecting torch
  Downloading torch-2.7.0-cp311-cp311-manylinux_2_28_x86_64.whl (865.2 MB)
error: incomplete-download

x Download failed because not enough bytes were received (612.4 MB/865.2 MB)
""",
    ),
    (
        "corrupted-download",
        "zipfile",
        """  Using cached torch-2.1.0-cp310-cp310-manylinux1_x86_64.whl (670.2 MB)
ERROR: Wheel 'torch' located at /tmp/pip-unpack-x/torch-2.1.0-cp310-cp310-manylinux1_x86_64.whl is invalid.
""",
    ),
    (
        "corrupted-install",
        "alexandrosstergiou/SoftPool#54",
        """ImportError: /home/envs/lib/python3.9/site-packages/torch/lib/libtorch_cpu.so: invalid ELF header
""",
    ),
    (
        "corrupted-install",
        "niuchuangnn/SPICE#4",
        """  File "/home/user/anaconda3/lib/python3.8/site-packages/torch/__init__.py", line 141, in _load_global_deps
    ctypes.CDLL(lib_path, mode=ctypes.RTLD_GLOBAL)
OSError: /home/user/anaconda3/lib/python3.8/site-packages/torch/lib/../../../../libcufft.so.10: invalid ELF header
""",
    ),
    (
        "corrupted-install",
        "an interrupted unpacking",
        """ImportError: /opt/venv/lib/python3.12/site-packages/torch/lib/libtorch_cuda.so: file too short
""",
    ),
    (
        "corrupted-install",
        "what a failed uninstall leaves",
        """>>> import torch
>>> torch.__version__
AttributeError: module 'torch' has no attribute '__version__'
""",
    ),
    (
        "corrupted-install",
        "a name that an empty directory does not have",
        """ImportError: cannot import name 'Tensor' from 'torch' (unknown location)
""",
    ),
    (
        "numpy-name-removed",
        "NumPy 2's own words",
        """AttributeError: `np.float_` was removed in the NumPy 2.0 release. Use `np.float64` instead.
""",
    ),
    (
        "missing-nvidia-wheels",
        "python-poetry/poetry#8474",
        """  File "/home/user/.cache/pypoetry/virtualenvs/torch-poetry-CmT3HHKY-py3.11/lib/python3.11/site-packages/torch/__init__.py", line 229, in <module>
    from torch._C import *  # noqa: F403
    ^^^^^^^^^^^^^^^^^^^^^^
ImportError: libcupti.so.11.7: cannot open shared object file: No such file or directory
""",
    ),
    (
        "missing-nvidia-wheels",
        "neosr-project/neosr#105",
        """  File "/root/.cache/uv/builds-v0/.tmpLTTN2h/lib/python3.12/site-packages/torch/__init__.py", line 318, in _load_global_deps
    ctypes.CDLL(global_deps_lib_path, mode=ctypes.RTLD_GLOBAL)
  File "/root/.local/share/uv/python/cpython-3.12.10-linux-x86_64-gnu/lib/python3.12/ctypes/__init__.py", line 379, in __init__
    self._handle = _dlopen(self._name, mode)
                   ^^^^^^^^^^^^^^^^^^^^^^^^^
OSError: libcudart.so.12: cannot open shared object file: No such file or directory
""",
    ),
    (
        "missing-nvidia-wheels",
        "talmolab/sleap-nn#632",
        """$ uv sync --extra gpu
$ python -c "import torch"
ImportError: libcudnn.so.9: cannot open shared object file: No such file or directory
Linux x86_64, NVIDIA RTX A6000, Python 3.13
""",
    ),
    (
        "missing-nvidia-wheels",
        "torch/__init__.py (_preload_cuda_deps)",
        """ValueError: libcublas.so.*[0-9] not found in the system path ['/app', '/usr/lib/python3.11', '/app/.venv/lib/python3.11/site-packages']
""",
    ),
    (
        "conflicting-nvidia-wheels",
        "VichyTong/CodeJudge#2 (cu11 beside cu12)",
        """$ pip list | grep nvidia
nvidia-cublas-cu11        11.10.3.66
nvidia-cublas-cu12        12.1.3.1
nvidia-cudnn-cu11         8.5.0.96
nvidia-cudnn-cu12         8.9.2.26
torch                     2.1.2
ImportError: /home/user/env/lib/python3.10/site-packages/torch/lib/libtorch_cuda.so: undefined symbol: cudnnGetLibConfig
""",
    ),
    (
        "conflicting-nvidia-wheels",
        "cuDNN for two CUDA majors",
        """nvidia-cudnn-cu12==9.10.2.21
nvidia-cudnn-cu13==9.20.0.48
torch==2.11.0+cu130
RuntimeError: cuDNN error: CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH
""",
    ),
    (
        "conflicting-nvidia-wheels",
        "NCCL for two CUDA majors, nothing failed yet",
        """$ pip freeze | grep -i nccl
nvidia-nccl-cu12==2.27.3
nvidia-nccl-cu13==2.28.9
""",
    ),
    (
        "numpy-abi-mismatch",
        "securefederatedai/openfederatedlearning#999",
        """>>> torch.__version__
'2.2.2+cpu'
>>> numpy.__version__
'2.0.0'
>>> x.numpy()
RuntimeError: Numpy is not available
""",
    ),
    (
        "numpy-abi-mismatch",
        "ai2cm/ace#378",
        """A module that was compiled using NumPy 1.x cannot be run in
NumPy 2.0.0 as it may crash. To support both 1.x and 2.x
versions of NumPy, modules must be compiled with NumPy 2.0.
Some module may need to rebuild instead e.g. with 'pybind11>=2.12'.

RuntimeError: Could not infer dtype of numpy.float32
""",
    ),
    (
        "numpy-abi-mismatch",
        "the other direction: an old NumPy under a new module",
        """ValueError: numpy.dtype size changed, may indicate binary incompatibility. Expected 96 from C header, got 88 from PyObject
""",
    ),
    (
        "mkl-ijit-symbol",
        "pytorch/pytorch#123097",
        """ImportError: /opt/conda/envs/dl/lib/python3.10/site-packages/torch/lib/libtorch_cpu.so: undefined symbol: iJIT_NotifyEvent
mkl                       2024.1.0           ha957f24_693    conda-forge
pytorch                   2.0.1           py3.10_cuda11.7_cudnn8.5.0_0    pytorch
""",
    ),
    (
        "mkl-ijit-symbol",
        "open-mmlab/mmpretrain#1900",
        """  File "/home/user/miniconda3/envs/openmmlab/lib/python3.8/site-packages/torch/__init__.py", line 197, in <module>
    from torch._C import *  # noqa: F403
ImportError: /home/user/miniconda3/envs/openmmlab/lib/python3.8/site-packages/torch/lib/libtorch_cpu.so: undefined symbol: iJIT_NotifyEvent
""",
    ),
    (
        "mkl-ijit-symbol",
        "the profiling test that older builds ask first",
        """OSError: /work/env/lib/python3.9/site-packages/torch/lib/libtorch_cpu.so: undefined symbol: iJIT_IsProfilingActive
""",
    ),
    (
        "setuptools-incompatible",
        "pytorch/vision#9380",
        """  File "/home/user/env/lib/python3.11/site-packages/torch/utils/cpp_extension.py", line 28, in <module>
    from pkg_resources import packaging  # type: ignore[attr-defined]
ModuleNotFoundError: No module named 'pkg_resources'
""",
    ),
    (
        "setuptools-incompatible",
        "torch 1.10 and setuptools 59.6",
        """  File "/usr/local/lib/python3.8/dist-packages/torch/utils/tensorboard/__init__.py", line 4, in <module>
    LooseVersion = distutils.version.LooseVersion
AttributeError: module 'distutils' has no attribute 'version'
""",
    ),
    (
        "externally-managed-environment",
        "PEP 668",
        """error: externally-managed-environment

x This environment is externally managed
`-> To install Python packages system-wide, try apt install python3-xyz
""",
    ),
    (
        "pip-out-of-memory",
        "a small virtual machine",
        """$ pip install torch
Collecting torch
  Downloading torch-2.3.0-cp310-cp310-manylinux1_x86_64.whl (779.1 MB)
     -------------------------------------- 779.0/779.1 MB 1.1 MB/s eta 0:00:01
Killed
""",
    ),
    (
        "wrong-architecture-binary",
        "an Intel package in an arm64 Python",
        """ImportError: dlopen(/Users/user/env/lib/python3.11/site-packages/torch/_C.cpython-311-darwin.so, 0x0002): tried: '/Users/user/env/lib/python3.11/site-packages/torch/_C.cpython-311-darwin.so' (mach-o file, but is an incompatible architecture (have 'x86_64', need 'arm64'))
""",
    ),
]

_EXTRAS = {
    "wheel-index-missing", "no-such-release", "torch-not-installed", "build-isolation", "setuptools-incompatible",
    "externally-managed-environment", "pip-out-of-memory", "wrong-architecture-binary", "duplicate-torch-install",
    "user-site-shadowing", "numpy-name-removed",
}  # fmt: skip

HEALTHY: list[tuple[str, str]] = [
    (
        "an install log that went well",
        """$ pip install -U torch torchvision
Installing collected packages: torch, torchvision
  Attempting uninstall: torch
    Found existing installation: torch 2.3.0
    Uninstalling torch-2.3.0:
      Successfully uninstalled torch-2.3.0
Successfully installed torch-2.4.1 torchvision-0.19.1
>>> import torch
>>> torch.__version__
'2.4.1+cu121'
""",
    ),
    (
        "a torch of the user site that works",
        """PyTorch version: 2.4.1+cu121
CUDA used to build PyTorch: 12.1
OS: Ubuntu 22.04.4 LTS (x86_64)
Python version: 3.10.12 (64-bit runtime)
Is CUDA available: True
GPU models and configuration: GPU 0: NVIDIA GeForce RTX 3080
Nvidia driver version: 550.90.07
$ pip show torch | grep Location
Location: /home/user/.local/lib/python3.10/site-packages
""",
    ),
    (
        "TensorFlow's own remark",
        """PyTorch version: 2.4.1+cu121
OS: Ubuntu 22.04.4 LTS (x86_64)
Is CUDA available: True
GPU models and configuration: GPU 0: NVIDIA GeForce RTX 3080
Nvidia driver version: 550.90.07
2024-10-01 10:00:00.000000: W tensorflow/stream_executor/platform/default/dso_loader.cc:64] Could not load dynamic library 'libcudart.so.11.0'; dlerror: libcudart.so.11.0: cannot open shared object file: No such file or directory
""",
    ),
]


@pytest.mark.parametrize(("cause", "source", "text"), CASES, ids=[f"{c[0]}-{i}" for i, c in enumerate(CASES)])
def test_text_names_its_cause(cause: str, source: str, text: str) -> None:
    named(text, cause, source)


@pytest.mark.parametrize(("name", "text"), HEALTHY, ids=[h[0] for h in HEALTHY])
def test_sound_report_gets_no_alarm(name: str, text: str) -> None:
    sound(text)


def test_every_cause_has_three_wordings() -> None:
    three_wordings((cause for cause, _, _ in CASES), but=_EXTRAS)
