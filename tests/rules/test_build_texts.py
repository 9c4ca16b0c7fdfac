"""Error texts about the build, from public threads, in wordings and layouts of many versions: each names its cause first.

Each text is re-typed and condensed to the machine's own words; the second field names the thread.
"""

from __future__ import annotations

import pytest

from tests.rules.texts import named, sound, three_wordings

CASES: list[tuple[str, str, str]] = [
    # --- GPU code ---------------------------------------------------------------------------------------------
    (
        "gpu-too-new-for-build",
        "Nerogar/OneTrainer#755",
        """[Bug]: NVIDIA GeForce RTX 5070 Ti with CUDA capability sm_120 is not compatible with the current PyTorch installation. The current PyTorch install supports CUDA capabilities sm_50 sm_60 sm_61 sm_70 sm_75 sm_80 sm_86 sm_90. If you want to use the NVIDIA GeForce RTX 5070 Ti GPU with PyTorch, please check the instructions at https://pytorch.org/get-started/locally/
""",
    ),
    (
        "gpu-too-new-for-build",
        "pytorch/pytorch#167244",
        """RuntimeError: CUDA error: no kernel image is available for execution on the device
NVIDIA GeForce RTX 5090 with CUDA capability sm_120 is not compatible with the current PyTorch installation.
The current PyTorch install supports CUDA capabilities sm_50 sm_60 sm_70 sm_75 sm_80 sm_86 sm_90.
- PyTorch: `2.7.0.dev20250310+cu124` (nightly wheel)
- GPU: 2x RTX 5090 (32 GB each)
- OS: Ubuntu 22.04.5 LTS
""",
    ),
    (
        "gpu-too-new-for-build",
        "lmoe/wyoming-xtts#1",
        """/opt/venv/lib/python3.11/site-packages/torch/cuda/__init__.py:287: UserWarning:
NVIDIA GeForce RTX 5060 Ti with CUDA capability sm_120 is not compatible with the current PyTorch installation.
The current PyTorch install supports CUDA capabilities sm_50 sm_60 sm_70 sm_75 sm_80 sm_86 sm_90.
If you want to use the NVIDIA GeForce RTX 5060 Ti GPU with PyTorch, please check the instructions at https://pytorch.org/get-started/locally/

  warnings.warn(
""",
    ),
    (
        "gpu-too-new-for-build",
        "pytorch/pytorch#31285 (comment: +cu102 beside an Ampere card)",
        """torch==1.12.0+cu102
NVIDIA GeForce RTX 3060, Ubuntu 20.04
RuntimeError: CUDA error: no kernel image is available for execution on the device
CUDA kernel errors might be asynchronously reported at some other API call,so the stacktrace below might be incorrect.
""",
    ),
    (
        "gpu-too-new-for-build",
        "torch 0.4 to 1.8, torch/cuda/__init__.py (incorrect_binary_warn)",
        """/home/user/miniconda3/lib/python3.6/site-packages/torch/cuda/__init__.py:116: UserWarning:
    Found GPU0 GeForce RTX 2080 which requires CUDA_VERSION >= 10000 to
     work properly, but your PyTorch was compiled
     with CUDA_VERSION 9020. Please install the correct PyTorch binary
     using instructions from https://pytorch.org

  warnings.warn(incorrect_binary_warn % (d, name, 10000, CUDA_VERSION))
""",
    ),
    (
        "gpu-too-old-for-build",
        "Comfy-Org/ComfyUI#16438 (pre-Turing on cu130)",
        """pip install torch torchvision torchaudio --extra-index-url https://download.pytorch.org/whl/cu130
torch 2.9.0+cu130, Windows 11
Found GPU0 NVIDIA GeForce GTX 1080 Ti which is of cuda capability 6.1.
Minimum and Maximum cuda capability supported by this version of PyTorch is
(7.5) - (12.0)
""",
    ),
    (
        "gpu-too-old-for-build",
        "facebookresearch/detectron2#512",
        """    Found GPU0 Tesla K40c which is of cuda capability 3.5.
    PyTorch no longer supports this GPU because it is too old.
    The minimum cuda capability that we support is 3.7.

  warnings.warn(old_gpu_warn % (d, name, major, capability[1]))
RuntimeError: CUDA error: no kernel image is available for execution on the device
""",
    ),
    (
        "gpu-too-old-for-build",
        "torch 2.14, torch/cuda/__init__.py (_warn_unsupported_code)",
        """UserWarning: Found GPU0 Tesla V100-SXM2-32GB which is of compute capability (CC) 7.0.
The following list shows the CCs this version of PyTorch was built for and the hardware CCs it supports:
- 7.5 which supports hardware CC >=7.5,<8.0
- 8.0 which supports hardware CC >=8.0,<9.0 except {8.7}
- 8.6 which supports hardware CC >=8.6,<9.0 except {8.7}
- 9.0 which supports hardware CC >=9.0,<10.0
- 10.0 which supports hardware CC >=10.0,<11.0 except {10.1}
- 12.0 which supports hardware CC >=12.0,<13.0
Your installed torch==2.14.1+cu130 does not include kernels for this GPU. Reinstall the same version against a CUDA build that does, e.g.:
  For CUDA 12.6 use pip install torch==2.14.1 --index-url https://download.pytorch.org/whl/cu126
""",
    ),
    (
        "gpu-too-old-for-build",
        "pytorch/pytorch#172352 (Volta and the CUDA 13 builds)",
        """PyTorch version: 2.11.0+cu130
CUDA used to build PyTorch: 13.0
OS: Ubuntu 24.04.3 LTS (x86_64)
Python version: 3.12.3 (64-bit runtime)
Is CUDA available: True
GPU models and configuration: GPU 0: Tesla V100-PCIE-16GB
Nvidia driver version: 580.95.05

torch.AcceleratorError: CUDA error: no kernel image is available for execution on the device
""",
    ),
    (
        "jetson-generic-wheel",
        "pytorch/pytorch#145560",
        """Board: Jetson AGX Orin developer kit
$ cat /etc/nv_tegra_release
# R36 (release), REVISION: 4.3, GCID: 38968081, BOARD: generic, EABI: aarch64, DATE: Wed Jan  8 01:49:37 UTC 2025
$ pip3 install --pre torch --index-url https://download.pytorch.org/whl/nightly/cu124
>>> import torch
>>> x = torch.tensor([0, 1, 1]).to(0)
>>> x != 0
Traceback (most recent call last):
  File "<stdin>", line 1, in <module>
RuntimeError: CUDA error: no kernel image is available for execution on the device
""",
    ),
    (
        "jetson-generic-wheel",
        "pinokiocomputer/pinokio#1027",
        """Hardware: NVIDIA Jetson AGX Orin
# R35 (release), REVISION: 4.1, GCID: 33958178, BOARD: t186ref, EABI: aarch64, DATE: Tue Aug  1 19:57:35 UTC 2023
>>> import torch
>>> print(torch.__version__)
2.4.1
>>> print(torch.version.cuda)
None
>>> print(torch.cuda.is_available())
False
""",
    ),
    (
        "jetson-generic-wheel",
        "dusty-nv/jetson-containers#1495",
        """Collecting environment information...
PyTorch version: 2.9.1+cpu
Is debug build: False
CUDA used to build PyTorch: None
ROCM used to build PyTorch: N/A

OS: Ubuntu 22.04.5 LTS (aarch64)
Python version: 3.10.19 (main, Oct 28 2025, 12:13:28) [Clang 20.1.4 ] (64-bit runtime)
Python platform: Linux-5.15.136-tegra-aarch64-with-glibc2.35
Is CUDA available: False
CUDA runtime version: 12.2.140
GPU models and configuration: GPU 0: Orin (nvgpu)
Nvidia driver version: N/A
""",
    ),
    (
        "gpu-arch-not-in-build",
        "conda-forge/pytorch-cpu-feedstock#303 (other wording)",
        """$ conda list | grep pytorch
pytorch                   2.5.1           cuda126_generic_py312h1576ffb_205    conda-forge
$ cat /proc/device-tree/model
NVIDIA Jetson Orin NX Engineering Reference Developer Kit
$ uname -a
Linux host 5.15.136-tegra #1 SMP PREEMPT Mon May 6 09:56:39 PDT 2024 aarch64 aarch64 aarch64 GNU/Linux
RuntimeError: CUDA error: no kernel image is available for execution on the device
Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.
""",
    ),
    (
        "benign-capability-warning",
        "pytorch/pytorch#164596 with the whole report",
        """PyTorch version: 2.9.0+cu130
CUDA used to build PyTorch: 13.0
OS: Ubuntu 24.04.3 LTS (aarch64)
Is CUDA available: True
GPU models and configuration: GPU 0: NVIDIA GB10
Nvidia driver version: 580.95.05
UserWarning:
    Found GPU0 NVIDIA GB10 which is of cuda capability 12.1.
    Minimum and Maximum cuda capability supported by this version of PyTorch is
    (8.0) - (12.0)
""",
    ),
    (
        "benign-capability-warning",
        "a B300 beside code for sm_100",
        """torch 2.9.0+cu130
    Found GPU0 NVIDIA B300 SXM6 AC which is of cuda capability 10.3.
    Minimum and Maximum cuda capability supported by this version of PyTorch is
    (7.5) - (10.0)
""",
    ),
    (
        "benign-capability-warning",
        "an Ada card beside a build that ends at sm_86",
        """torch 1.13.1+cu116, Ubuntu 20.04
    Found GPU0 NVIDIA GeForce RTX 4090 which is of cuda capability 8.9.
    Minimum and Maximum cuda capability supported by this version of PyTorch is
    (3.7) - (8.6)
""",
    ),
    # --- no CUDA in the build ----------------------------------------------------------------------------------
    (
        "cpu-only-build",
        "torch/cuda/__init__.py on Windows, plain pip (many threads, e.g. lllyasviel/Fooocus)",
        """Windows 10, NVIDIA GeForce RTX 3060, Driver Version: 546.17
(venv) C:\\Users\\user\\app> pip install torch torchvision
Successfully installed torch-2.1.2 torchvision-0.16.2
  File "C:\\Users\\user\\app\\venv\\lib\\site-packages\\torch\\cuda\\__init__.py", line 289, in _lazy_init
    raise AssertionError("Torch not compiled with CUDA enabled")
AssertionError: Torch not compiled with CUDA enabled
""",
    ),
    (
        "cpu-only-build",
        "pytorch/pytorch, module 'torch._C' without CUDA functions",
        """OS: Ubuntu 22.04
torch 2.0.1+cpu
+-----------------------------------------------------------------------------+
| NVIDIA-SMI 525.105.17   Driver Version: 525.105.17   CUDA Version: 12.0     |
|-------------------------------+----------------------+----------------------+
AttributeError: module 'torch._C' has no attribute '_cuda_setDevice'
""",
    ),
    (
        "cpu-only-build",
        "conda-forge CPU build beside a GPU",
        """$ conda list | grep -i torch
pytorch                   2.4.0           cpu_generic_py311h4bb0ed8_0    conda-forge
torchvision               0.19.0          cpu_py311h8d18a6f_0    conda-forge
$ nvidia-smi --query-gpu=name,driver_version --format=csv
name, driver_version
NVIDIA RTX A6000, 550.54.15
>>> torch.cuda.is_available()
False
""",
    ),
    (
        "cpu-only-build",
        "accelerate env on a Windows laptop",
        """Copy-and-paste the text below in your GitHub issue

- `Accelerate` version: 0.27.2
- Platform: Windows-10-10.0.22631-SP0
- Python version: 3.10.11
- Numpy version: 1.26.4
- PyTorch version (GPU?): 2.2.0+cpu (False)
- System RAM: 31.70 GB
RuntimeError: PyTorch was compiled without CUDA support
""",
    ),
    (
        "cuda-build-on-non-nvidia",
        "AUTOMATIC1111/stable-diffusion-webui (AMD card, default wheel)",
        """Ubuntu 22.04, AMD Radeon RX 7900 XTX
Python 3.10.14 (main, Apr  6 2024, 18:45:05) [GCC 9.4.0]
torch: 2.1.2+cu121
RuntimeError: Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU and installed a driver from http://www.nvidia.com/Download/index.aspx
""",
    ),
    (
        "cuda-build-on-non-nvidia",
        "lspci shows an AMD card only",
        """$ lspci | grep -i vga
0b:00.0 VGA compatible controller: Advanced Micro Devices, Inc. [AMD/ATI] Navi 21 [Radeon RX 6800/6800 XT / 6900 XT] (rev c1)
$ pip list | grep torch
torch                     2.5.1
nvidia-cuda-runtime-cu12  12.4.127
>>> torch.zeros(1).cuda()
RuntimeError: Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU and installed a driver
""",
    ),
    (
        "cuda-build-on-non-nvidia",
        "the older AssertionError of torch 1.x",
        """Ubuntu 20.04, Radeon VII
Traceback (most recent call last):
  File "train.py", line 88, in <module>
    model.cuda()
  File "/home/user/.local/lib/python3.8/site-packages/torch/cuda/__init__.py", line 61, in _check_driver
AssertionError:
Found no NVIDIA driver on your system. Please check that you
have an NVIDIA GPU and installed a driver from
http://www.nvidia.com/Download/index.aspx
""",
    ),
    (
        "xpu-not-compiled",
        "torch/xpu/__init__.py",
        """Intel(R) Arc(TM) B580 Graphics, Windows 11
torch 2.6.0+cpu
  File "C:\\ai\\venv\\Lib\\site-packages\\torch\\xpu\\__init__.py", line 117, in _lazy_init
    raise AssertionError("Torch not compiled with XPU enabled")
AssertionError: Torch not compiled with XPU enabled
""",
    ),
    (
        "xpu-not-compiled",
        "c10/xpu (PyTorch was compiled without XPU support)",
        """Ubuntu 24.04, Intel Arc A770
$ python -c "import torch; torch.xpu.device_count(); torch.zeros(1, device='xpu')"
RuntimeError: PyTorch was compiled without XPU support
""",
    ),
    (
        "xpu-not-compiled",
        "ATen/detail/XPUHooksInterface.h",
        """>>> import torch
>>> torch.__version__
'2.5.1+cu124'
>>> torch.randn(2, device="xpu")
RuntimeError: Cannot initialize XPU without ATen_xpu library.
""",
    ),
    # --- ROCm --------------------------------------------------------------------------------------------------
    (
        "rocm-gfx-unsupported",
        "ROCm/rocBLAS#1339 (wheel's own rocBLAS)",
        """torch 2.2.0+rocm5.7
rocBLAS error: Cannot read /home/user/venv/lib/python3.10/site-packages/torch/lib/rocblas/library/TensileLibrary.dat: Illegal seek for GPU arch : gfx1032
 List of available TensileLibrary Files :
"/home/user/venv/lib/python3.10/site-packages/torch/lib/rocblas/library/TensileLibrary_lazy_gfx1030.dat"
Aborted (core dumped)
""",
    ),
    (
        "rocm-gfx-unsupported",
        "hipErrorNoBinaryForGpu on an APU",
        """GPU: AMD Radeon Graphics (gfx90c)
torch 2.0.1+rocm5.4.2
"hipErrorNoBinaryForGpu: Unable to find code object for all current devices!"
Aborted (core dumped)
""",
    ),
    (
        "rocm-gfx-unsupported",
        "HIP error with the later AcceleratorError",
        """torch 2.9.0+rocm6.4, AMD Radeon RX 5700 XT, gfx1010
torch.AcceleratorError: HIP error: invalid device function
Search for `hipErrorInvalidDeviceFunction' in https://rocm.docs.amd.com/projects/HIP/en/latest/index.html for more information.
HIP kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.
""",
    ),
    # --- companions --------------------------------------------------------------------------------------------
    (
        "torchvision-mismatch",
        "pytorch/vision#8985",
        """torch==2.6.0
torchvision==0.20.1
  File "/usr/local/lib/python3.11/dist-packages/torch/library.py", line 828, in register
    use_lib._register_fake(op_name, func, _stacklevel=stacklevel + 1)
RuntimeError: operator torchvision::nms does not exist
""",
    ),
    (
        "torchvision-mismatch",
        "torchvision/extension.py (_assert_has_ops)",
        """RuntimeError: Couldn't load custom C++ ops. This can happen if your PyTorch and torchvision versions are incompatible, or if you had errors while compiling torchvision from source. For further information on the compatible versions, check https://github.com/pytorch/vision#installation for the compatibility matrix. Please check your PyTorch version with torch.__version__ and your torchvision version with torchvision.__version__ and verify if they are compatible, and if not please reinstall torchvision so that it matches your PyTorch install.
""",
    ),
    (
        "torchvision-mismatch",
        "torchvision/extension.py (_check_cuda_version)",
        """RuntimeError: Detected that PyTorch and torchvision were compiled with different CUDA versions. PyTorch has CUDA Version=11.7 and torchvision has CUDA Version=11.6. Please reinstall the torchvision that matches your PyTorch install.
""",
    ),
    (
        "torchvision-mismatch",
        "facebookresearch/detectron2 (CPU torchvision beside CUDA torch)",
        """torch 1.10.0+cu113
torchvision 0.11.1+cpu
NotImplementedError: Could not run 'torchvision::nms' with arguments from the 'CUDA' backend. This could be because the operator doesn't exist for this backend, or was omitted during the selective/custom build process (if using custom build). 'torchvision::nms' is only available for these backends: [CPU, QuantizedCPU, BackendSelect, Python, Named, Conjugate, Negative, ADInplaceOrView, AutogradOther].
""",
    ),
    (
        "torchvision-mismatch",
        "partially initialized torchvision",
        """  File "C:\\Users\\user\\miniconda3\\envs\\comfy\\lib\\site-packages\\torchvision\\_meta_registrations.py", line 26, in wrapper
    if torchvision.extension._has_ops():
AttributeError: partially initialized module 'torchvision' has no attribute 'extension' (most likely due to a circular import)
""",
    ),
    (
        "torchvision-mismatch",
        "torchvision's library on macOS",
        """ImportError: dlopen(/Users/user/venv/lib/python3.11/site-packages/torchvision/_C.so, 0x0006): Symbol not found: __ZN3c1017RegisterOperatorsD1Ev
  Referenced from: <7E2D6C5E-0000-0000-0000-000000000000> /Users/user/venv/lib/python3.11/site-packages/torchvision/_C.so
  Expected in:     <B5D1F0B3-0000-0000-0000-000000000000> /Users/user/venv/lib/python3.11/site-packages/torch/lib/libtorch_cpu.dylib
""",
    ),
    (
        "torchaudio-mismatch",
        "RangiLyu/nanodet#547",
        """OSError: /usr/local/lib/python3.8/dist-packages/torchaudio/lib/libtorchaudio.so: undefined symbol: _ZNK3c107SymBool10guard_boolEPKcl
torch 1.13.1, pytorch_lightning 1.9.5
""",
    ),
    (
        "torchaudio-mismatch",
        "pytorch/audio#99",
        """ImportError                               Traceback (most recent call last)
<ipython-input-1-4cf0a64f61c0> in <module>()
----> 1 import torchaudio
~/repo/audio/torchaudio/__init__.py in <module>()
      4 import torch
----> 5 import _torch_sox
ImportError: /usr/local/lib/python3.5/dist-packages/_torch_sox.cpython-35m-x86_64-linux-gnu.so: undefined symbol: _ZN2at19UndefinedTensorImpl10_singletonE
""",
    ),
    (
        "torchaudio-mismatch",
        "pytorch/audio#2525 (a library of another build, IPython frames)",
        """OSError                                   Traceback (most recent call last)
Input In [18], in <cell line: 1>()
----> 1 import torchaudio

File ~/venv/lib/python3.8/site-packages/torchaudio/_extension.py:27, in <module>
     24     from torchaudio import _torchaudio  # noqa
---> 27 _init_extension()

OSError: libtorch_hip.so: cannot open shared object file: No such file or directory
""",
    ),
    (
        "torchaudio-mismatch",
        "torchaudio/_extension (CUDA versions differ)",
        """RuntimeError: Detected that PyTorch and TorchAudio were compiled with different CUDA versions. PyTorch has CUDA version 11.7 whereas TorchAudio has CUDA version 11.6. Please install the TorchAudio version that matches your PyTorch version.
""",
    ),
    (
        "torchaudio-mismatch",
        "Windows: torchaudio's DLL",
        """  File "D:\\app\\venv\\lib\\site-packages\\torch\\_ops.py", line 643, in load_library
    ctypes.CDLL(path)
FileNotFoundError: Could not find module 'D:\\app\\venv\\Lib\\site-packages\\torchaudio\\lib\\libtorchaudio.pyd' (or one of its dependencies). Try using the full path with constructor syntax.
""",
    ),
    # --- Triton and torch.compile ------------------------------------------------------------------------------
    (
        "triton-missing",
        "pytorch/pytorch#136361",
        """RuntimeError: Cannot find a working triton installation. Either the package is not installed or it is too old. More information on installing Triton can be found at https://github.com/openai/triton

Set TORCH_LOGS="+dynamo" and TORCHDYNAMO_VERBOSE=1 for more information
torch==2.6.0.dev20240919+cu124, Windows 11
""",
    ),
    (
        "triton-missing",
        "kijai/ComfyUI-WanVideoWrapper#978",
        """  File "G:\\ComfyUI_windows_portable\\python_embeded\\Lib\\site-packages\\torch\\_inductor\\scheduler.py", line 3957, in create_backend
    raise TritonMissing(inspect.currentframe())
torch._inductor.exc.TritonMissing: Cannot find a working triton installation. Either the package is not installed or it is too old. More information on installing Triton can be found at: https://github.com/triton-lang/triton
""",
    ),
    (
        "triton-missing",
        "a program that imports it on Linux",
        """Ubuntu 22.04, torch 2.3.1
  File "/opt/app/kernels.py", line 3, in <module>
    import triton
ModuleNotFoundError: No module named 'triton'
""",
    ),
    (
        "triton-version-mismatch",
        "woct0rdho/triton-windows#158",
        """GPU: RTX3080
Python: 3.11.12
PyTorch: 2.8.0+cu129
Triton: 3.5.0-windows.post21
ImportError: cannot import name 'triton_key' from 'triton.compiler.compiler' (C:\\ComfyUI\\venv\\Lib\\site-packages\\triton\\compiler\\compiler.py)
""",
    ),
    (
        "triton-version-mismatch",
        "bitsandbytes and Triton 3.2",
        """  File "/home/user/env/lib/python3.11/site-packages/bitsandbytes/triton/matmul_perf_model.py", line 8
ModuleNotFoundError: No module named 'triton.ops'
triton==3.2.0
torch==2.6.0
""",
    ),
    (
        "triton-version-mismatch",
        "module without language",
        """AttributeError: module 'triton.language' has no attribute 'dtype'
torch 2.5.1+cu124
pip list: triton 2.1.0
""",
    ),
    (
        "triton-ptxas-too-old",
        "RTX 50 with an old Triton",
        """RuntimeError: Internal Triton PTX codegen error
`ptxas` stderr:
ptxas /tmp/tmpu0m1fp40.ptx, line 5; fatal   : Unsupported .version 8.7; current version is '8.4'
ptxas fatal   : Ptx assembly aborted due to errors
triton 3.1.0
""",
    ),
    (
        "triton-ptxas-too-old",
        "sm_103 with vLLM",
        """(EngineCore_0 pid=431) triton.runtime.errors.PTXASError: PTXAS error: Internal Triton PTX codegen error
(EngineCore_0 pid=431) `ptxas` stderr:
(EngineCore_0 pid=431) ptxas fatal   : Value 'sm_103a' is not defined for option 'gpu-name'
""",
    ),
    (
        "triton-ptxas-too-old",
        "ptxas of a conda environment",
        """Repro command: /opt/conda/lib/python3.11/site-packages/triton/common/../third_party/cuda/bin/ptxas -lineinfo -v --gpu-name=sm_90a /tmp/x.ptx
ptxas fatal   : Value 'sm_90a' is not defined for option 'gpu-name'
""",
    ),
    (
        "triton-libcuda-not-found",
        "Triton under WSL",
        """  File "/home/user/env/lib/python3.10/site-packages/triton/common/build.py", line 30, in libcuda_dirs
AssertionError: libcuda.so cannot found!
Possible files are located at ['/usr/lib/wsl/lib/libcuda.so.1'].Please create a symlink of libcuda.so to any of the file.
""",
    ),
    (
        "compile-backend-unsupported",
        "MIC-DKFZ/nnUNet#2244",
        """macbook pro M3 max
torch._dynamo.exc.BackendCompilerFailed: backend='inductor' raised:
AssertionError: Device mps not supported

Set TORCH_LOGS="+dynamo" and TORCHDYNAMO_VERBOSE=1 for more information
""",
    ),
    (
        "compile-backend-unsupported",
        "pytorch/pytorch#90768 (Windows of torch 2.0)",
        """torch 2.0.0+cu118, Windows 11
  File "C:\\venv\\lib\\site-packages\\torch\\_dynamo\\eval_frame.py", line 462, in check_if_dynamo_supported
    raise RuntimeError("Windows not yet supported for torch.compile")
RuntimeError: Windows not yet supported for torch.compile
""",
    ),
    (
        "compile-backend-unsupported",
        "torch/_inductor/exc.py (GPUTooOldForTriton)",
        """torch._inductor.exc.GPUTooOldForTriton: Found NVIDIA GeForce GTX 1080 which is too old to be supported by the triton GPU compiler, which is used as the backend. Triton only supports devices of CUDA Capability >= 7.0, but your device is of CUDA capability 6.1
torch 2.7.1+cu126
""",
    ),
    (
        "compile-python-too-new",
        "torch/_dynamo/eval_frame.py",
        """torch 2.3.1, Python 3.12.4
RuntimeError: Dynamo is not supported on Python 3.12+
""",
    ),
    (
        "no-c-compiler",
        "torch/_inductor/exc.py (InvalidCxxCompiler)",
        """torch._inductor.exc.InductorError: InvalidCxxCompiler: No working C++ compiler found in torch._inductor.config.cpp.cxx: (None, 'g++')
""",
    ),
    (
        "no-c-compiler",
        "Windows without build tools",
        """torch._inductor.exc.InductorError: RuntimeError: Compiler: cl is not found.

Set TORCHDYNAMO_VERBOSE=1 for the internal stack trace
""",
    ),
    (
        "no-c-compiler",
        "a setup.py without gcc",
        """  building 'pycocotools._mask' extension
  error: command 'gcc' failed: No such file or directory
  ERROR: Failed building wheel for pycocotools
""",
    ),
    (
        "no-c-compiler",
        "Microsoft's build tools missing",
        """error: Microsoft Visual C++ 14.0 or greater is required. Get it with "Microsoft C++ Build Tools": https://visualstudio.microsoft.com/visual-cpp-build-tools/
""",
    ),
    (
        "python-headers-missing",
        "Triton's launcher without Python.h",
        """/tmp/tmpz1/main.c:4:10: fatal error: Python.h: No such file or directory
    4 | #include <Python.h>
compilation terminated.
""",
    ),
    # --- extensions --------------------------------------------------------------------------------------------
    (
        "extension-abi-mismatch",
        "rusty1s/pytorch_scatter#348",
        """  File "/root/miniconda3/envs/nerf/lib/python3.10/site-packages/torch_scatter/__init__.py", line 16, in <module>
    torch.ops.load_library(spec.origin)
  File "/root/miniconda3/envs/nerf/lib/python3.10/site-packages/torch/_ops.py", line 255, in load_library
    ctypes.CDLL(path)
  File "/root/miniconda3/envs/nerf/lib/python3.10/ctypes/__init__.py", line 374, in __init__
    self._handle = _dlopen(self._name, mode)
OSError: /root/miniconda3/envs/nerf/lib/python3.10/site-packages/torch_scatter/_version_cuda.so: undefined symbol: _ZN5torch3jit17parseSchemaOrNameERKSs
""",
    ),
    (
        "extension-abi-mismatch",
        "Dao-AILab/flash-attention#236",
        """  File "/opt/conda/lib/python3.8/site-packages/flash_attn/ops/layer_norm.py", line 7, in <module>
    import dropout_layer_norm
ImportError: libtorch_cuda_cu.so: cannot open shared object file: No such file or directory

torch2.1 + cu117
""",
    ),
    (
        "extension-abi-mismatch",
        "Dao-AILab/flash-attention#821",
        """ImportError: /data/test_env/lib/python3.10/site-packages/flash_attn_2_cuda.cpython-310-x86_64-linux-gnu.so: undefined symbol: _ZN2at4_ops5zeros4callEN3c108ArrayRefINS2_6SymIntEEENS2_8optionalINS2_10ScalarTypeEEENS6_INS2_6LayoutEEENS6_INS2_6DeviceEEENS6_IbEE
torch version is 2.2.0
""",
    ),
    (
        "extension-abi-mismatch",
        "open-mmlab/mmcv (Windows)",
        """  File "D:\\conda\\envs\\mm\\lib\\site-packages\\mmcv\\utils\\ext_loader.py", line 13, in load_ext
    ext = importlib.import_module('mmcv.' + name)
ImportError: DLL load failed while importing _ext: The specified procedure could not be found.
torch 1.12.1+cu113, Windows 10
""",
    ),
    (
        "extension-abi-mismatch",
        "facebookresearch/xformers",
        """WARNING[XFORMERS]: xFormers can't load C++/CUDA extensions. xFormers was built for:
    PyTorch 2.0.1+cu118 with CUDA 1108 (you have 2.1.0+cu121)
    Python  3.10.11 (you have 3.10.6)
  Please reinstall xformers (see https://github.com/facebookresearch/xformers#installing-xformers)
""",
    ),
    (
        "extension-abi-mismatch",
        "a CUDA 12 extension beside a CUDA 13 torch",
        """torch 2.11.0+cu130
  File "/home/user/env/lib/python3.12/site-packages/vllm/platforms/cuda.py", line 14, in <module>
    import vllm._C  # noqa
ImportError: libcudart.so.12: cannot open shared object file: No such file or directory
""",
    ),
    (
        "extension-missing-arch",
        "Vision-CAIR/MiniGPT-4#156",
        """CUDA SETUP: Loading binary C:\\AIGC\\MiniGPT-4\\bitsandbytes-windows\\bitsandbytes\\cuda_setup\\libbitsandbytes_cuda116.dll...
Error no kernel image is available for execution on the device at line 479 in file D:\\ai\\tool\\bitsandbytes\\csrc\\ops.cu
""",
    ),
    (
        "extension-missing-arch",
        "open-mmlab/mmdetection#4903",
        """RuntimeError: CUDA error: no kernel image is available for execution on the device (NMSCUDAKernelLauncher at ./mmcv/ops/csrc/pytorch/nms_cuda.cu:50)
""",
    ),
    (
        "extension-missing-arch",
        "pytorch/pytorch#156968 (gsplat)",
        """PyTorch 2.4.0+cu118, Ubuntu 22.04, NVIDIA GeForce RTX 3050 Ti Laptop GPU
  File "/home/user/env/lib/python3.10/site-packages/gsplat/cuda/_wrapper.py", line 410, in forward
    tiles_per_gauss = _make_lazy_cuda_func("isect_tiles")(
RuntimeError: CUDA error: no kernel image is available for execution on the device
""",
    ),
    (
        "extension-missing-arch",
        "flash-attn on Turing",
        """NVIDIA GeForce RTX 2080 Ti, torch 2.4.0+cu121, Linux
RuntimeError: FlashAttention only supports Ampere GPUs or newer.
""",
    ),
    (
        "extension-without-cuda",
        "facebookresearch/detectron2",
        """  File "/home/user/env/lib/python3.8/site-packages/detectron2/layers/roi_align.py", line 58, in forward
    return roi_align(
RuntimeError: Not compiled with GPU support
""",
    ),
    (
        "toolkit-torch-cuda-mismatch",
        "torch/utils/cpp_extension.py of 2.x (message with arguments)",
        """RuntimeError: ('The detected CUDA version (%s) mismatches the version that was used to compilePyTorch (%s). Please make sure to use the same CUDA versions.', '12.9', '13.0')
""",
    ),
    (
        "toolkit-torch-cuda-mismatch",
        "DeepSpeed's op builder",
        """deepspeed.ops.op_builder.builder.CUDAMismatchException: >- DeepSpeed Op Builder: Installed CUDA version 11.2 does not match the version torch was compiled with 12.1, unable to compile cuda/cpp extensions without a matching cuda version.
""",
    ),
    (
        "toolkit-torch-cuda-mismatch",
        "NVIDIA/apex setup.py",
        """RuntimeError: Cuda extensions are being compiled with a version of Cuda that does not match the version used to compile Pytorch binaries.  Pytorch binaries were compiled with Cuda 11.3.
In some cases, a minor-version mismatch will not cause later errors:  https://github.com/NVIDIA/apex/pull/323#discussion_r287021798.
""",
    ),
    (
        "cuda-toolkit-missing",
        "NVIDIA-AI-IOT/torch2trt#933",
        """  File "/usr/local/lib/python3.8/dist-packages/torch/utils/cpp_extension.py", line 2419, in _join_cuda_home
    raise OSError('CUDA_HOME environment variable is not set. '
OSError: CUDA_HOME environment variable is not set. Please set it to your CUDA install root.
""",
    ),
    (
        "cuda-toolkit-missing",
        "flash-attn's setup.py",
        """UserWarning: flash_attn was requested, but nvcc was not found.  Are you sure your environment has nvcc available?  If you're installing within a container from https://hub.docker.com/r/pytorch/pytorch, only images whose names contain 'devel' will provide nvcc.
""",
    ),
    (
        "cuda-toolkit-missing",
        "headers of an incomplete toolkit",
        """/home/user/env/lib/python3.10/site-packages/torch/include/ATen/cuda/CUDAContextLight.h:6:10: fatal error: cuda_runtime_api.h: No such file or directory
    6 | #include <cuda_runtime_api.h>
compilation terminated.
""",
    ),
    (
        "cuda-toolkit-missing",
        "nvcc at the default place",
        """FileNotFoundError: [Errno 2] No such file or directory: '/usr/local/cuda/bin/nvcc'
""",
    ),
    (
        "nvcc-arch-unsupported",
        "an old nvcc for Ada",
        """nvcc fatal   : Unsupported gpu architecture 'compute_89'
ninja: build stopped: subcommand failed.
""",
    ),
    (
        "host-compiler-unsupported",
        "gcc newer than the toolkit allows",
        """/usr/local/cuda/include/crt/host_config.h:138:2: error: #error -- unsupported GNU version! gcc versions later than 11 are not supported! The nvcc flag '-allow-unsupported-compiler' can be used to override this version check
""",
    ),
]

HEALTHY: list[tuple[str, str]] = [
    (
        "a CUDA build on a machine without any GPU",
        """PyTorch version: 2.5.1+cu124
CUDA used to build PyTorch: 12.4
OS: Ubuntu 22.04.4 LTS (x86_64)
Python version: 3.11.9 (64-bit runtime)
Is CUDA available: False
GPU models and configuration: Could not collect
Nvidia driver version: Could not collect
""",
    ),
    (
        "an Ada card on a build that ends at sm_86 and sm_90",
        """PyTorch version: 2.2.0+cu118
CUDA used to build PyTorch: 11.8
OS: Ubuntu 22.04.4 LTS (x86_64)
Python version: 3.10.14 (64-bit runtime)
Is CUDA available: True
GPU models and configuration: GPU 0: NVIDIA GeForce RTX 4090
Nvidia driver version: 535.161.08
[pip3] numpy==1.26.4
[pip3] torch==2.2.0+cu118
[pip3] torchvision==0.17.0+cu118
""",
    ),
    (
        "xformers' remark about Triton",
        """torch 2.4.1+cu121, Windows 11, NVIDIA GeForce RTX 4070, Driver Version: 560.94
A matching Triton is not available, some optimizations will not be enabled
Traceback (most recent call last):
  File "C:\\venv\\Lib\\site-packages\\xformers\\__init__.py", line 57, in _is_triton_available
    import triton  # noqa
ModuleNotFoundError: No module named 'triton'
""",
    ),
    (
        "a minor difference of nvcc",
        """UserWarning: The detected CUDA version (12.1) has a minor version mismatch with the version that was used to compile PyTorch (12.4). Most likely this shouldn't be a problem.
  warnings.warn(CUDA_MISMATCH_WARN.format(cuda_str_version, torch.version.cuda))
building 'my_ext' extension
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


_EXTRAS = {
    "compile-python-too-new", "python-headers-missing", "extension-without-cuda", "nvcc-arch-unsupported",
    "host-compiler-unsupported", "gpu-arch-not-in-build", "triton-libcuda-not-found",
}  # fmt: skip
