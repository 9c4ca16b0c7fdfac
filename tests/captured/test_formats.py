"""Each format in several layouts: what is pasted, and the fields that have to come out of it."""

from __future__ import annotations

from typing import Any

import pytest

from envcheck.captured import read
from envcheck.facts import Facts


def value(facts: Facts, path: str) -> Any:
    """A field by its dotted path; `distribution.torch` is the version of that distribution, `env.NAME` a variable."""
    section, _, field = path.partition(".")
    if section == "distribution":
        found = facts.distribution(field)
        return found.version if found else None
    if section == "env":
        return facts.variable(field)
    if path == "gpus":
        return [gpu.name for gpu in facts.nvidia.gpus or ()]
    if path == "capabilities":
        return [gpu.compute_capability for gpu in facts.nvidia.gpus or ()]
    if path == "amd":
        return [(gpu.name, gpu.gfx) for gpu in facts.amd.gpus or ()]
    if path == "devices":
        return [device.name for device in facts.torch.devices or ()]
    if path == "libraries":
        return [(lib.name, lib.version, lib.origin) for lib in facts.torch.loaded_libraries or ()]
    if path == "events":
        return [(event.kind, event.code) for event in facts.kernel_events or ()]
    result: Any = facts
    for part in path.split("."):
        result = getattr(result, part)
    return result


CASES: dict[str, tuple[str, dict[str, Any]]] = {
    # --- collect_env and its relatives ---------------------------------------------------------------------------
    "collect_env-2018": (
        """PyTorch version: 0.4.1
Is debug build: No
CUDA used to build PyTorch: 9.2.148

OS: Ubuntu 16.04.5 LTS
GCC version: (Ubuntu 5.4.0-6ubuntu1~16.04.10) 5.4.0 20160609
CMake version: version 3.5.1

Python version: 3.6
Is CUDA available: Yes
CUDA runtime version: 9.2.148
GPU models and configuration:
GPU 0: Tesla P100-SXM2-16GB
GPU 1: Tesla P100-SXM2-16GB

Nvidia driver version: 396.44
cuDNN version: Probably one of the following:
/usr/lib/x86_64-linux-gnu/libcudnn.so.7.2.1
/usr/lib/x86_64-linux-gnu/libcudnn_static_v7.a

Versions of relevant libraries:
[pip] numpy (1.15.1)
[pip] torch (0.4.1)
[conda] Could not collect
""",
        {
            "torch.version": "0.4.1",
            "torch.cuda": "9.2.148",
            "torch.cuda_available": True,
            "system.os": "linux",
            "system.version": "16.04.5",
            "python.version": "3.6",
            "gpus": ["Tesla P100-SXM2-16GB"] * 2,
            "nvidia.driver_version": "396.44",
            "toolchain.cudnn_system": ("7.2.1",),
            "toolchain.nvcc_version": "9.2.148",
            "distribution.torch": "0.4.1",
            "distribution.numpy": "1.15.1",
        },
    ),
    "collect_env-vllm-padded": (
        """==============================
        System Info
==============================
OS                           : Ubuntu 22.04.5 LTS (x86_64)
GCC version                  : (Ubuntu 11.4.0-1ubuntu1~22.04) 11.4.0
Clang version                : Could not collect
Libc version                 : glibc-2.35

==============================
       PyTorch Info
==============================
PyTorch version              : 2.7.1+cu126
Is debug build               : False
CUDA used to build PyTorch   : 12.6
ROCM used to build PyTorch   : N/A

==============================
      Python Environment
==============================
Python version               : 3.12.11 (main, Jul  8 2025, 20:47:42) [Clang 20.1.4 ] (64-bit runtime)
Python platform              : Linux-5.15.0-144-generic-x86_64-with-glibc2.35

==============================
       CUDA / GPU Info
==============================
Is CUDA available            : True
CUDA runtime version         : 12.8.93
CUDA_MODULE_LOADING set to   : LAZY
GPU models and configuration :
GPU 0: NVIDIA H200
GPU 1: NVIDIA H200

Nvidia driver version        : 570.133.20
cuDNN version                : Could not collect
HIP runtime version          : N/A
""",
        {
            "torch.version": "2.7.1+cu126",
            "torch.cuda": "12.6",
            "torch.hip": "",
            "python.version": "3.12.11",
            "system.libc_version": "2.35",
            "gpus": ["NVIDIA H200", "NVIDIA H200"],
            "nvidia.driver_version": "570.133.20",
            "env.CUDA_MODULE_LOADING": "LAZY",
        },
    ),
    "collect_env-shuffled-and-cut": (
        "Is CUDA available: False\nNvidia driver version: 470.57.02\nPython version: 3.7 (64-bit runtime)\nPyTorch version: 1.10.0\nROCM used to",
        {"torch.version": "1.10.0", "torch.cuda_available": False, "nvidia.driver_version": "470.57.02", "python.version": "3.7", "python.bits": 64},
    ),
    "collect_env-import-failed": (
        "PyTorch version: N/A\nIs debug build: N/A\nCUDA used to build PyTorch: N/A\nROCM used to build PyTorch: N/A\nOS: Microsoft Windows 10 Pro\nIs CUDA available: N/A\n",
        {"torch.version": None, "torch.imports.status": "failed", "torch.cuda": None, "torch.hip": None, "torch.cuda_available": None, "system.os": "windows"},
    ),
    "collect_env-no-cuda-in-the-build": (
        "PyTorch version: 2.1.0\nCUDA used to build PyTorch: Could not collect\nROCM used to build PyTorch: N/A\nIs CUDA available: False\n",
        {"torch.cuda": "", "torch.hip": ""},
    ),
    "collect_env-rocm": (
        "PyTorch version: 2.3.0+rocm6.0\nCUDA used to build PyTorch: N/A\nROCM used to build PyTorch: 6.0.32830-d62f6a171\nIs CUDA available: True\nGPU models and configuration: AMD Radeon RX 7900 XTX (gfx1100)\n",
        {"torch.cuda": "", "torch.hip": "6.0.32830", "amd": [("AMD Radeon RX 7900 XTX", "gfx1100")], "gpus": []},
    ),
    "collect_env-mig": (
        "GPU models and configuration:\nGPU 0: NVIDIA A100 80GB PCIe\n  MIG 2g.20gb     Device  0:\n  MIG 3g.40gb     Device  1:\n\nNvidia driver version: 535.129.03\n",
        {"gpus": ["NVIDIA A100 80GB PCIe"], "nvidia.driver_version": "535.129.03"},
    ),
    "issue-template-2019": (
        """ - PyTorch Version (e.g., 1.0): 1.2.0
 - OS (e.g., Linux): Ubuntu 18.04
 - How you installed PyTorch (`conda`, `pip`, source): conda
 - Build command you used (if compiling from source):
 - Python version: 3.7
 - CUDA/cuDNN version: 10.0/7.6
 - GPU models and configuration: 2x GeForce RTX 2080 Ti
 - Any other relevant information:
""",
        {"torch.version": "1.2.0", "system.distro": "ubuntu", "python.version": "3.7", "gpus": ["GeForce RTX 2080 Ti"] * 2, "torch.cudnn": "7.6"},
    ),
    "issue-template-markdown": (
        "* **OS**: Windows 10\r\n* **PyTorch version**: `1.13.1+cu117`\r\n* **GPU**: RTX 3060 12GB\r\n* **Python Version:** 3.10.6\r\n",
        {"system.os": "windows", "torch.version": "1.13.1+cu117", "gpus": ["RTX 3060"], "python.version": "3.10.6"},
    ),
    "accelerate-env": (
        """- `Accelerate` version: 0.27.2
- Platform: Linux-5.4.0-166-generic-x86_64-with-glibc2.31
- Python version: 3.9.18
- Numpy version: 1.26.3
- PyTorch version (GPU?): 2.2.0+cu118 (True)
- PyTorch XPU available: False
- System RAM: 503.55 GB
- GPU type: NVIDIA A100-SXM4-80GB
""",
        {"torch.version": "2.2.0+cu118", "torch.cuda_available": True, "system.kernel": "5.4.0-166-generic", "gpus": ["NVIDIA A100-SXM4-80GB"], "system.libc_version": "2.31"},
    ),
    "transformers-env-2025": (
        "- `transformers` version: 4.55.0\n- Platform: macOS-15.5-arm64-arm-64bit\n- PyTorch version (accelerator?): 2.8.0 (NA)\n",
        {"torch.version": "2.8.0", "torch.cuda_available": False, "system.os": "macos", "apple.macos": "15.5"},
    ),
    "diffusers-env": (
        "- 🤗 Diffusers version: 0.30.0\n- Platform: Windows-10-10.0.19045-SP0\n- PyTorch version (GPU?): 2.4.0+cu124 (True)\n- Accelerator: NVIDIA GeForce RTX 4090, 24564 MiB\n",
        {"torch.version": "2.4.0+cu124", "system.os": "windows", "system.version": "10.0.19045", "gpus": ["NVIDIA GeForce RTX 4090"]},
    ),
    "lightning": (
        """* CUDA:
	- GPU:
		- NVIDIA GeForce RTX 3090
	- available:         True
	- version:           11.7
* Lightning:
	- pytorch-lightning: 1.9.0
	- torch:             1.13.1
* System:
	- OS:                Linux
	- architecture:
		- 64bit
		- ELF
	- python:            3.10.8
	- version:           #1 SMP
""",
        {"torch.cuda_available": True, "torch.cuda": "11.7", "gpus": ["NVIDIA GeForce RTX 3090"], "system.os": "linux", "python.version": "3.10.8"},
    ),
    "detectron2-two-columns": (
        """----------------------  ---------------------------------------------------------------
sys.platform            linux
Python                  3.8.5 (default, Sep  4 2020, 07:30:14) [GCC 7.3.0]
numpy                   1.19.2
detectron2              0.4 @/home/user/detectron2/detectron2
CUDA compiler           CUDA 10.1
PyTorch                 1.8.1+cu102 @/home/user/.local/lib/python3.8/site-packages/torch
PyTorch debug build     False
GPU available           True
GPU 0,1                 GeForce GTX TITAN X (arch=5.2)
CUDA_HOME               /usr/local/cuda-10.1
torchvision             0.9.1+cu102 @/home/user/.local/lib/python3.8/site-packages/torchvision
""",
        {
            "torch.version": "1.8.1+cu102",
            "torch.location": "/home/user/.local/lib/python3.8/site-packages/torch",
            "torch.cuda_available": True,
            "gpus": ["GeForce GTX TITAN X"] * 2,
            "capabilities": ["5.2", "5.2"],
            "distribution.torchvision": "0.9.1+cu102",
            "toolchain.cuda_home": "/usr/local/cuda-10.1",
            "python.version": "3.8.5",
        },
    ),
    "mmdet-with-build-settings": (
        """sys.platform: linux
Python: 3.7.10 (default, Feb 26 2021, 18:47:35) [GCC 7.3.0]
CUDA available: True
GPU 0,1,2,3: Tesla V100-SXM2-32GB
NVCC: Build cuda_11.1.TC455_06.29190527_0
PyTorch: 1.8.1
PyTorch compiling details: PyTorch built with:
  - GCC 7.3
  - CUDA Runtime 11.1
  - NVCC architecture flags: -gencode;arch=compute_37,code=sm_37;-gencode;arch=compute_70,code=sm_70
  - CuDNN 8.0.5
  - Build settings: BLAS_INFO=mkl, BUILD_TYPE=Release, CUDA_VERSION=11.1, USE_CUDA=ON
TorchVision: 0.9.1
""",
        {
            "torch.version": "1.8.1",
            "torch.cuda": "11.1",
            "torch.cudnn": "8.0.5",
            "torch.arch_list": ("sm_37", "sm_70"),
            "gpus": ["Tesla V100-SXM2-32GB"] * 4,
            "distribution.torchvision": "0.9.1",
        },
    ),
    "fastai": (
        """=== Software ===
python        : 3.7.3
fastai        : 1.0.57
torch         : 1.2.0
nvidia driver : 418.67
torch cuda    : 10.0.130 / is available
torch cudnn   : 7602 / is enabled

=== Hardware ===
nvidia gpus   : 1
torch devices : 1
  - gpu0      : 15079MB | Tesla T4
=== Environment ===
platform      : Linux-4.15.0-1044-gcp-x86_64-with-debian-9.9
""",
        {"torch.version": "1.2.0", "torch.cuda": "10.0.130", "torch.cuda_available": True, "nvidia.driver_version": "418.67", "gpus": ["Tesla T4"], "system.distro": "debian"},
    ),
    "ultralytics": (
        "Ultralytics YOLOv8.0.200 🚀 Python-3.10.12 torch-2.1.0+cu121 CUDA:0 (NVIDIA GeForce RTX 3080, 10240MiB)\nCUDA:1 (Tesla T4, 15102MiB)\n",
        {"torch.version": "2.1.0+cu121", "python.version": "3.10.12", "gpus": ["NVIDIA GeForce RTX 3080"], "torch.cuda_available": True},
    ),
    "comfyui-start": (
        "** Python version: 3.11.9 (tags/v3.11.9:de54cf5, Apr  2 2024, 10:12:12) [MSC v.1938 64 bit (AMD64)]\n** Python executable: C:\\ComfyUI\\python_embeded\\python.exe\nTotal VRAM 24564 MB, total RAM 65277 MB\npytorch version: 2.5.1+cu124\nDevice: cuda:0 NVIDIA GeForce RTX 4090 : cudaMallocAsync\n",
        {"torch.version": "2.5.1+cu124", "python.version": "3.11.9", "system.os": "windows", "gpus": ["NVIDIA GeForce RTX 4090"], "system.ram": 65277 * 1024**2},
    ),
    "sdnext-log": (
        "10:33:04-123456 INFO     Platform: arch=AMD64 cpu=AMD64 Family 25 system=Windows release=Windows-10-10.0.22631-SP0 python=3.10.11\n10:33:05-000000 INFO     Device: device=NVIDIA GeForce RTX 3060 n=1 arch=sm_90 capability=(8, 6) cuda=12.4 cudnn=90100 driver=560.94\n",
        {"python.version": "3.10.11", "system.os": "windows", "gpus": ["NVIDIA GeForce RTX 3060"], "capabilities": ["8.6"], "torch.cuda": "12.4", "nvidia.driver_version": "560.94"},
    ),
    "kohya-log": (
        "INFO     Torch 2.1.2+cu118\nINFO     Torch backend: nVidia CUDA 11.8 cuDNN 8905\nINFO     Torch detected GPU: NVIDIA GeForce RTX 4080 VRAM 16376 Arch (8, 9) Cores 76\n",
        {"torch.version": "2.1.2+cu118", "torch.cuda": "11.8", "torch.cudnn": "8.9.5", "gpus": ["NVIDIA GeForce RTX 4080"], "capabilities": ["8.9"]},
    ),
    "device-query": (
        ' CUDA Device Query (Runtime API) version (CUDART static linking)\n\nDevice 0: "NVIDIA GeForce GTX 1660"\n  CUDA Driver Version / Runtime Version          12.2 / 11.8\n  CUDA Capability Major/Minor version number:    7.5\n',
        {"gpus": ["NVIDIA GeForce GTX 1660"], "capabilities": ["7.5"], "nvidia.driver_cuda": "12.2"},
    ),
    "xpu-collect_env": (
        """PyTorch version: 2.9.0+xpu
Is XPU available: False
XPU used to build PyTorch: 20250201
Intel GPU driver version:
* intel-opencl-icd:	25.18.33578.6-1146~24.04
* libze1:	1.21.9.0-1136~24.04
Intel GPU models onboard:
* Intel Corporation Battlemage G21 [Intel Graphics]
Intel GPU models detected:
N/A
""",
        {"torch.version": "2.9.0+xpu", "torch.xpu_available": False, "torch.xpu": "20250201", "intel.level_zero": "1.21.9.0-1136~24.04", "intel.gpus": ("Intel Corporation Battlemage G21 [Intel Graphics]",)},
    ),
    # --- packages ------------------------------------------------------------------------------------------------
    "pip-list-table": (
        "Package            Version\n------------------ ------------\nnumpy              1.26.4\nnvidia-cudnn-cu12  9.1.0.70\ntorch              2.5.0\ntorchvision        0.20.0\n",
        {"distribution.torch": "2.5.0", "distribution.torchvision": "0.20.0", "distribution.nvidia-cudnn-cu12": "9.1.0.70", "python.distributions_partial": True},
    ),
    "pip-list-legacy": ("numpy (1.16.2)\ntorch (1.0.1.post2)\ntorchvision (0.2.2)\n", {"distribution.torch": "1.0.1.post2"}),
    "pip-freeze-urls": (
        "numpy==2.0.0\ntorch @ https://download.pytorch.org/whl/cu121/torch-2.3.0%2Bcu121-cp310-cp310-linux_x86_64.whl#sha256=0a12\n-e git+https://github.com/x/y@0123#egg=y\n",
        {"distribution.torch": "2.3.0+cu121", "distribution.numpy": "2.0.0"},
    ),
    "pip-show": (
        "Name: torch\nVersion: 2.0.1+cu118\nSummary: Tensors\nLocation: C:\\Python310\\Lib\\site-packages\nRequires: filelock, jinja2\nRequired-by: torchvision\n",
        {"distribution.torch": "2.0.1+cu118", "python.version": "3.10"},
    ),
    "pip-satisfied": (
        "Requirement already satisfied: torch in /opt/conda/lib/python3.10/site-packages (2.1.0)\nRequirement already satisfied: filelock in /opt/conda/lib/python3.10/site-packages (from torch) (3.9.0)\n",
        {"distribution.torch": "2.1.0", "python.version": "3.10"},
    ),
    "pip-installed": (
        "$ pip install torch==2.6.0\nCollecting torch==2.6.0\n  Using cached torch-2.6.0-cp312-cp312-win_amd64.whl (204.1 MB)\nSuccessfully installed filelock-3.17.0 torch-2.6.0 typing_extensions-4.12.2\n",
        {"distribution.torch": "2.6.0", "python.version": "3.12", "system.os": "windows", "system.machine": "x86_64", "requested": ("torch==2.6.0",)},
    ),
    "pip-incompatible": (
        "ERROR: pip's dependency resolver does not currently take into account all the packages that are installed.\ntorchaudio 2.1.0 requires torch==2.1.0, but you have torch 2.2.0 which is incompatible.\n",
        {"distribution.torchaudio": "2.1.0", "distribution.torch": "2.2.0"},
    ),
    "conda-list": (
        "# packages in environment at /home/user/miniconda3/envs/dl:\n#\n# Name                    Version                   Build  Channel\ncudatoolkit               11.3.1               h2bc3f7f_2\npython                    3.9.12               h12debd9_1\npytorch                   1.12.0          py3.9_cuda11.3_cudnn8.3.2_0    pytorch\ntorchmetrics              0.11.0                   pypi_0    pypi\n",
        {"distribution.pytorch": "1.12.0", "python.version": "3.9.12", "python.conda_prefix": "/home/user/miniconda3/envs/dl", "python.kind": "conda"},
    ),
    "conda-env-export": (
        "name: dl\nchannels:\n  - pytorch\ndependencies:\n  - python=3.8.5=h7579374_1\n  - pytorch=1.7.1=py3.8_cuda11.0.221_cudnn8.0.5_0\n  - pip:\n    - torchtext==0.8.1\nprefix: /home/user/anaconda3/envs/dl\n",
        {"distribution.pytorch": "1.7.1", "distribution.torchtext": "0.8.1", "python.version": "3.8.5"},
    ),
    "conda-plan": (
        "The following NEW packages will be INSTALLED:\n\n  cudatoolkit        pkgs/main/linux-64::cudatoolkit-11.3.1-h2bc3f7f_2\n  pytorch            pytorch/linux-64::pytorch-1.11.0-py3.8_cpu_0\n",
        {"distribution.pytorch": "1.11.0", "distribution.cudatoolkit": "11.3.1"},
    ),
    "mamba-transaction": (
        "Transaction\n\n  Prefix: /home/user/mambaforge/envs/x\n\n  + pytorch          2.1.0  cpu_generic_py311h1584c4e_0  conda-forge/linux-64  24MB\n",
        {"distribution.pytorch": "2.1.0"},
    ),
    "conda-info": (
        "     active environment : base\n    active env location : /opt/conda\n          conda version : 23.5.2\n         python version : 3.10.12.final.0\n       virtual packages : __archspec=1=x86_64\n                          __cuda=11.4=0\n                          __glibc=2.27=0\n                          __linux=5.4.0=0\n               platform : linux-64\n",
        {"python.conda_version": "23.5.2", "nvidia.driver_cuda": "11.4", "system.libc_version": "2.27", "python.machine": "x86_64", "system.os": "linux"},
    ),
    "uv": (
        "Using CPython 3.12.3 interpreter at: /usr/bin/python3\nCreating virtual environment at: .venv\nResolved 25 packages in 1.2s\n + nvidia-nccl-cu12==2.21.5\n + torch==2.5.1\n - torch==2.4.0\n",
        {"distribution.torch": "2.5.1", "python.version": "3.12.3"},
    ),
    "poetry": ("  - Installing nvidia-cublas-cu11 (11.10.3.66)\n  - Installing torch (2.0.0)\n  • Updating numpy (1.24.0 -> 1.26.4)\n", {"distribution.torch": "2.0.0", "distribution.numpy": "1.26.4"}),
    "poetry-show": ("$ poetry show | grep torch\ntorch                    2.0.1        Tensors and Dynamic neural networks in Python\n", {"distribution.torch": "2.0.1"}),
    "dpkg": (
        "ii  libcudnn8                   8.9.7.29-1+cuda12.2       amd64   cuDNN runtime libraries\nii  nvidia-driver-535           535.183.01-0ubuntu0.22.04.1   amd64   NVIDIA driver metapackage\nii  nvidia-container-toolkit    1.14.3-1   amd64   NVIDIA Container toolkit\n",
        {"nvidia.driver_packages": ("nvidia-driver-535 535.183.01-0ubuntu0.22.04.1",), "toolchain.cudnn_system": ("8.9.7.29",), "nvidia.container_toolkit": "1.14.3"},
    ),
    "rpm": ("kmod-nvidia-latest-dkms-535.104.05-1.el8.x86_64\nnvidia-driver-libs-535.104.05-1.el8.x86_64\n", {"nvidia.driver_packages": ("kmod-nvidia-latest-dkms 535.104.05", "nvidia-driver-libs 535.104.05")}),
    "version-of-a-sentence-is-no-package": ("version 1.2\nDriver 535\nStep 3\nthe python 3 way\n", {"python.distributions": None}),
    # --- sessions ------------------------------------------------------------------------------------------------
    "repl-tuple": (">>> torch.__version__, torch.version.cuda, torch.cuda.is_available()\n('1.9.0+cu111', '11.1', False)\n", {"torch.version": "1.9.0+cu111", "torch.cuda": "11.1", "torch.cuda_available": False}),
    "repl-with-warning-between": (
        ">>> torch.cuda.is_available()\n/usr/lib/python3/dist-packages/torch/cuda/__init__.py:52: UserWarning: CUDA initialization: something\n  return torch._C._cuda_getDeviceCount() > 0\nFalse\n",
        {"torch.cuda_available": False},
    ),
    "one-liner": ('$ python3 -c "import torch; print(torch.__version__, torch.version.cuda)"\n2.2.1+cpu None\n', {"torch.version": "2.2.1+cpu", "torch.cuda": ""}),
    "ipython": ("In [1]: import torch\n\nIn [2]: torch.cuda.get_device_name(0)\nOut[2]: 'Tesla K80'\n\nIn [3]: torch.cuda.get_device_capability(0)\nOut[3]: (3, 7)\n", {"devices": ["Tesla K80"], "gpus": []}),
    "said-in-words": ("`torch.cuda.is_available()` returns `False` and torch.version.cuda is '11.8'\n", {"torch.cuda_available": False, "torch.cuda": "11.8"}),
    "result-in-a-comment": ("print(torch.__version__)  # 2.0.1\nprint(torch.backends.mps.is_available())  # False\n", {"torch.version": "2.0.1", "torch.mps_available": False}),
    "environ-in-code": ('import os\nos.environ["CUDA_VISIBLE_DEVICES"] = "2"\n', {"env.CUDA_VISIBLE_DEVICES": "2"}),
    "properties": (
        "_CudaDeviceProperties(name='NVIDIA GeForce RTX 2060', major=7, minor=5, total_memory=5926MB, multi_processor_count=30)\n",
        {"gpus": ["NVIDIA GeForce RTX 2060"], "capabilities": ["7.5"]},
    ),
    "numpy-of-a-session": (">>> import numpy as np\n>>> np.__version__\n'2.0.1'\n", {"distribution.numpy": "2.0.1"}),
    # --- shells --------------------------------------------------------------------------------------------------
    "echo": ("user@host:~$ echo $LD_LIBRARY_PATH\n/usr/local/cuda-12.1/lib64\n", {"env.LD_LIBRARY_PATH": "/usr/local/cuda-12.1/lib64"}),
    "echo-of-nothing": ("$ echo $LD_LIBRARY_PATH\n\n$ ls\n", {"env.LD_LIBRARY_PATH": None}),
    "env-grep": ("$ env | grep NCCL\nNCCL_DEBUG=INFO\nNCCL_SOCKET_IFNAME=ens3\n", {"env.NCCL_SOCKET_IFNAME": "ens3", "env.NCCL_DEBUG": "INFO"}),
    "powershell": ("PS C:\\x> $env:CUDA_VISIBLE_DEVICES = '1'\n", {"env.CUDA_VISIBLE_DEVICES": "1"}),
    "prefix-of-a-command": ("CUDA_VISIBLE_DEVICES=0,1 torchrun --nproc_per_node=2 train.py\n", {"env.CUDA_VISIBLE_DEVICES": "0,1"}),
    "ulimit": ("$ ulimit -n\n1024\n", {"system.open_files_soft": 1024}),
    "limits": ("open files                      (-n) 256\n", {"system.open_files_soft": 256}),
    "df-shm": ("shm                64M  4.0K   64M   1% /dev/shm\n", {"system.shm_size": 64 * 1024**2}),
    "docker-run": ("$ docker run --gpus all --rm -e NVIDIA_VISIBLE_DEVICES=0 nvcr.io/nvidia/pytorch:24.01-py3\n", {"system.container": "docker", "env.NVIDIA_VISIBLE_DEVICES": "0"}),
    "docker-run-that-failed": ('$ docker run --gpus all x\ndocker: Error response from daemon: could not select device driver "" with capabilities: [[gpu]].\n', {"system.container": None}),
    "docker-run-over-lines": ("docker run -it --rm \\\n   --gpus all \\\n   image bash\n", {"commands": ("docker run -it --rm --gpus all image bash",)}),
    "container-prompt": ("root@3f2a9c1b7d5e:/workspace# nvidia-smi\nbash: nvidia-smi: command not found\n", {"system.container": "docker", "nvidia.smi.status": "missing"}),
    "conda-install": ("conda install pytorch==1.12.1 torchvision==0.13.1 cudatoolkit=11.3 -c pytorch\n", {"requested": ("pytorch==1.12.1", "torchvision==0.13.1", "cudatoolkit==11.3")}),
    # --- the machine ---------------------------------------------------------------------------------------------
    "uname": ("Linux host 5.15.153.1-microsoft-standard-WSL2 #1 SMP Fri Mar 29 23:14:13 UTC 2024 x86_64 GNU/Linux\n", {"system.wsl": 2, "system.os": "linux", "system.kernel": "5.15.153.1-microsoft-standard-WSL2"}),
    "os-release": ('NAME="CentOS Linux"\nVERSION="7 (Core)"\nID="centos"\nVERSION_ID="7"\nPRETTY_NAME="CentOS Linux 7 (Core)"\n', {"system.distro": "centos", "system.version": "7", "system.name": "CentOS Linux 7 (Core)"}),
    "lsb_release": ("Distributor ID:	Ubuntu\nDescription:	Ubuntu 20.04.6 LTS\nRelease:	20.04\nCodename:	focal\n", {"system.distro": "ubuntu", "system.version": "20.04.6"}),
    "sw_vers": ("ProductName:    macOS\nProductVersion: 13.6.1\nBuildVersion:   22G313\n", {"system.os": "macos", "apple.macos": "13.6.1"}),
    "ver": ("Microsoft Windows [Version 10.0.22631.4317]\n", {"system.os": "windows", "system.version": "10.0.22631", "system.name": "Windows 11"}),
    "ver-in-german": ("Microsoft Windows [Versão 10.0.19045.3570]\n", {"system.os": "windows", "system.name": "Windows 10"}),
    "systeminfo": ("OS Name:                   Microsoft Windows 10 Pro\nOS Version:                10.0.19045 N/A Build 19045\n", {"system.os": "windows", "system.name": "Windows 10 Pro"}),
    "ldd": ("ldd (GNU libc) 2.17\n", {"system.libc_version": "2.17", "system.libc": "glibc"}),
    "gcc": ("gcc (Ubuntu 13.2.0-23ubuntu4) 13.2.0\n", {"system.c_compiler": "gcc 13.2.0"}),
    "no-gcc": ("bash: gcc: command not found\n", {"system.c_compiler": ""}),
    "nvcc": ("nvcc: NVIDIA (R) Cuda compiler driver\nCuda compilation tools, release 11.8, V11.8.89\nBuild cuda_11.8.r11.8/compiler.31833905_0\n", {"toolchain.nvcc_version": "11.8.89"}),
    "no-nvcc": ("Command 'nvcc' not found, but can be installed with:\nsudo apt install nvidia-cuda-toolkit\n", {"toolchain.nvcc_version": ""}),
    "lspci": ("65:00.0 3D controller: NVIDIA Corporation GA100 [A100 PCIe 40GB] (rev a1)\n\tKernel driver in use: nouveau\n", {"nvidia.nouveau_loaded": True}),
    "lsmod": ("nvidia_uvm           1540096  0\nnvidia              56434688  19 nvidia_uvm\n", {"nvidia.uvm_loaded": True, "nvidia.kernel_module_loaded": True}),
    "proc-driver": ("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build\n", {"nvidia.kernel_driver_version": "570.86.15", "nvidia.kernel_module_open": True}),
    "jetson": ("# R35 (release), REVISION: 4.1, GCID: 33958178, BOARD: t186ref\n", {"system.l4t": "35.4.1", "system.machine": "aarch64"}),
    "lscpu": ("Architecture:        x86_64\nModel name:          Intel(R) Xeon(R) CPU E5-2670\nFlags:               fpu vme de pse tsc msr pae mce cx8 sse4_2 avx\n", {"system.machine": "x86_64", "system.cpu_flags": ("avx", "sse4_2")}),
    "xid": ("Mar  3 10:11:12 host kernel: NVRM: Xid (PCI:0000:65:00): 31, pid=4242, Ch 00000018\n", {"events": [("xid", 31)]}),
    "oom-killer": ("[123.4] Out of memory: Killed process 4242 (python) total-vm:1kB\n", {"events": [("oom-killer", None)]}),
    "api-mismatch": ("NVRM: API mismatch: the client has the version 470.63.01, but\nNVRM: this kernel module has the version 460.91.03.  Please\n", {"nvidia.driver_version": "470.63.01", "nvidia.kernel_driver_version": "460.91.03"}),
    # --- NVIDIA, AMD, Intel ---------------------------------------------------------------------------------------
    "smi-list": ("GPU 0: NVIDIA A30 (UUID: GPU-0)\n  MIG 1g.6gb      Device  0: (UUID: MIG-0)\n", {"gpus": ["NVIDIA A30"]}),
    "smi-failed": ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA driver is installed and running.\n", {"nvidia.smi_error": "no-driver", "nvidia.smi.status": "failed"}),
    "smi-none": ("No devices were found\n", {"nvidia.smi_error": "no-devices", "nvidia.gpus": ()}),
    "smi-csv": ("name, driver_version, memory.total [MiB]\nTesla T4, 525.105.17, 15360 MiB\n", {"gpus": ["Tesla T4"], "nvidia.driver_version": "525.105.17"}),
    "rocminfo": ("*******\nAgent 1\n*******\n  Name:                    AMD Ryzen 9 5950X\n  Marketing Name:          AMD Ryzen 9 5950X\n  Device Type:             CPU\n*******\nAgent 2\n*******\n  Name:                    gfx1030\n  Marketing Name:          AMD Radeon RX 6800 XT\n  Device Type:             GPU\n", {"amd": [("AMD Radeon RX 6800 XT", "gfx1030")]}),
    "kfd": ("Unable to open /dev/kfd read-write: Permission denied\n", {"amd.kfd_error": "Permission denied", "amd.kfd.readable": False}),
    "sycl-ls": ("[level_zero:gpu][level_zero:0] Intel(R) oneAPI Unified Runtime over Level-Zero, Intel(R) Arc(TM) A770 Graphics 12.55.8 [1.3.29735]\n", {"intel.gpus": ("Intel(R) Arc(TM) A770 Graphics",)}),
    # --- notes of people -----------------------------------------------------------------------------------------
    "note-list": ("Ubuntu 20.04, RTX 3090, driver 470.82.01, CUDA 11.4, PyTorch 1.10.0+cu113, Python 3.8\n", {"system.version": "20.04", "gpus": ["RTX 3090"], "nvidia.driver_version": "470.82.01", "torch.version": "1.10.0+cu113", "python.version": "3.8"}),
    "note-with-key": ("Environment: Windows 11, Python 3.10.6, torch 2.0.0 (CUDA 11.8), RTX 4070 Ti\n", {"system.name": "Windows 11", "torch.version": "2.0.0", "torch.cuda": "11.8", "gpus": ["RTX 4070 Ti"], "python.version": "3.10.6"}),
    "note-slashes": ("Fedora 39 / RX 6600 XT / ROCm 5.7\n", {"system.distro": "fedora", "amd": [("RX 6600 XT", None)], "amd.rocm_version": "5.7"}),
    "note-mac": ("MacBook Air M2, macOS 13.4\n", {"system.os": "macos", "apple.chip": "Apple M2", "apple.macos": "13.4", "system.machine": "arm64"}),
    "note-spelling": ("gpu : rtx3060ti\nOS: win10\ntorch : 1.12.1+cu116\n", {"gpus": ["RTX 3060 ti"], "system.os": "windows", "torch.version": "1.12.1+cu116"}),
    "note-counts": ("8xH100, CUDA 12.4 (nvidia-smi), torch 2.4\n", {"gpus": ["H100"] * 8, "nvidia.driver_cuda": "12.4", "torch.version": "2.4"}),
    "note-bare-number": ("GPU: 3090\n", {"gpus": ["GeForce RTX 3090"]}),
    "note-whose-cuda": ("CUDA: 12.2 (driver), 11.8 (nvcc), 12.1 (torch)\n", {"nvidia.driver_cuda": "12.2", "toolchain.nvcc_version": "11.8", "torch.cuda": "12.1"}),
    "prose-is-no-note": ("I tried to update my driver and it works on the laptop of a friend.\nThe loss goes down, then up again.\n", {"gpus": [], "torch.version": None, "system.os": None}),
    # --- paths ---------------------------------------------------------------------------------------------------
    "traceback-linux": ('  File "/home/user/miniconda3/envs/asr/lib/python3.10/site-packages/torch/nn/modules/module.py", line 1518, in _wrapped_call_impl\n', {"python.version": "3.10", "python.conda_env": "asr", "python.kind": "conda", "torch.location": "/home/user/miniconda3/envs/asr/lib/python3.10/site-packages/torch", "system.os": "linux"}),
    "traceback-windows": ('  File "C:\\Users\\user\\AppData\\Local\\Programs\\Python\\Python39-32\\lib\\site-packages\\torch\\__init__.py", line 1, in <module>\n', {"python.version": "3.9", "python.bits": 32, "system.os": "windows"}),
    "traceback-mac": ('  File "/Users/user/Library/Python/3.9/lib/python/site-packages/torch/x.py", line 1, in f\n', {"system.os": "macos"}),
    "user-site": ('  File "/home/user/.local/lib/python3.8/site-packages/torch/__init__.py", line 1, in f\n', {"python.user_site": "/home/user/.local/lib/python3.8/site-packages"}),
    "ipython-frame": ("~/anaconda3/lib/python3.7/site-packages/torch/serialization.py in load(f, map_location)\n", {"python.version": "3.7", "python.kind": "conda"}),
    "ld-debug": ("  5580:     calling init: /lib/x86_64-linux-gnu/libcudnn_ops.so.9\n", {"libraries": [("cudnn", "9", "system")]}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_fields(name: str) -> None:
    text, expected = CASES[name]
    facts = read([("report.txt", text)])
    found = {path: value(facts, path) for path in expected}
    assert found == expected


@pytest.mark.parametrize("name", [n for n in CASES if n.startswith(("collect_env", "issue-template-2019", "pip-list", "smi-", "accelerate"))])
@pytest.mark.parametrize("dress", ["crlf", "quoted", "fenced", "details", "utf16", "ansi", "indented-quote"])
def test_fields_in_other_dress(name: str, dress: str) -> None:
    text, expected = CASES[name]
    body = text.rstrip("\n").split("\n")
    dressed: str | bytes = {
        "crlf": "\r\n".join(body),
        "quoted": "\n".join(f"> {line}" for line in body),
        "fenced": "```text\n" + text + "```\n",
        "details": "<details><summary>env</summary>\n<pre>\n" + text.replace("<", "&lt;") + "</pre></details>",
        "utf16": text.encode("utf-16"),
        "ansi": "\n".join(f"\x1b[32m{line}\x1b[0m" for line in body),
        "indented-quote": "\n".join(f"> > {line}" for line in body),
    }[dress]
    facts = read([("report.txt", dressed)])
    assert {path: value(facts, path) for path in expected} == expected
