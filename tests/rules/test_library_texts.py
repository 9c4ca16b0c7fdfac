"""Error texts of loaders and of the CUDA libraries, from public threads: each names its cause first.

Each text is re-typed and condensed to the machine's own words; the second field names the thread.
"""

from __future__ import annotations

import pytest

from tests.rules.texts import judge, named, sound, three_wordings

CASES: list[tuple[str, str, str]] = [
    (
        "library-path-shadowing",
        "infiniflow/ragflow#4466",
        """ImportError: /home/user/ragflow/.venv/lib/python3.12/site-packages/torch/lib/../../nvidia/cusparse/lib/libcusparse.so.12: undefined symbol: __nvJitLinkAddData_12_1, version libnvJitLink.so.12
$ ldd libcusparse.so.12
	libnvJitLink.so.12 => /usr/local/cuda-12.1/lib64/libnvJitLink.so.12 (0x000070ddad800000)
$ echo $LD_LIBRARY_PATH
/usr/local/cuda-12.1/lib64:
""",
    ),
    (
        "library-path-shadowing",
        "hcnoh/gail-pytorch#5",
        """  File "/home/user/GAIL/lib/python3.8/site-packages/torch/__init__.py", line 172, in _load_global_deps
    ctypes.CDLL(lib_path, mode=ctypes.RTLD_GLOBAL)
  File "/usr/lib/python3.8/ctypes/__init__.py", line 373, in __init__
    self._handle = _dlopen(self._name, mode)
OSError: /home/user/GAIL/lib/python3.8/site-packages/torch/lib/../../nvidia/cublas/lib/libcublas.so.11: undefined symbol: cublasLtGetStatusString, version libcublasLt.so.11
""",
    ),
    (
        "library-path-shadowing",
        "deepmodeling/deepmd-kit#2241 (glibc's other wording)",
        """OSError: /home/user/anaconda3/envs/tf/lib/python3.10/site-packages/nvidia/cublas/lib/libcublas.so.11: symbol cublasLtHSHMatmulAlgoInit, version libcublasLt.so.11 not defined in file libcublasLt.so.11 with link time reference
""",
    ),
    (
        "library-path-shadowing",
        "pytorch/pytorch#131312",
        """  File "/home/user/anaconda3/envs/ComfyUI/lib/python3.11/site-packages/torch/__init__.py", line 364, in <module>
    from torch._C import *  # noqa: F403
    ^^^^^^^^^^^^^^^^^^^^^^
ImportError: /home/user/anaconda3/envs/ComfyUI/lib/python3.11/site-packages/torch/lib/../../nvidia/cusparse/lib/libcusparse.so.12: undefined symbol: __nvJitLinkComplete_12_4, version libnvJitLink.so.12

pytorch-triton           3.0.0+dedb7bdf33
torch                    2.5.0.dev20240720+cu124
""",
    ),
    (
        "library-path-shadowing",
        "pytorch/pytorch#120186 (another NCCL)",
        """>>> import torch
ImportError: /data/venv/lib/python3.11/site-packages/torch/lib/libtorch_cuda.so: undefined symbol: ncclCommSplit
$ env | grep LD_
LD_LIBRARY_PATH=/opt/nccl/lib:/usr/local/cuda/lib64
""",
    ),
    (
        "library-path-shadowing",
        "a libtorch of one's own ahead of the wheel's",
        """$ export LD_LIBRARY_PATH=/opt/libtorch/lib
$ python -c "import torch"
ImportError: /usr/local/lib/python3.10/dist-packages/torch/lib/libtorch_python.so: undefined symbol: _ZN5torch3jit21throwFunctionNotFoundEv
""",
    ),
    (
        "library-path-shadowing",
        "cuDNN 8 from a system directory",
        """Could not load library libcudnn_cnn_infer.so.8. Error: /usr/lib/x86_64-linux-gnu/libcudnn_cnn_infer.so.8: undefined symbol: _ZN5cudnn3ops20tensorTransformHelperE, version libcudnn_ops_infer.so.8
Aborted (core dumped)
""",
    ),
    (
        "cudnn-version-incompatible",
        "RaleLee/Co-GAT#2",
        """RuntimeError: cuDNN version incompatibility: PyTorch was compiled  against (8, 5, 0) but found runtime version (8, 3, 3). PyTorch already comes bundled with cuDNN. One option to resolving this error is to ensure PyTorch can find the bundled cuDNN.
""",
    ),
    (
        "cudnn-version-incompatible",
        "jwyang/faster-rcnn.pytorch#662",
        """RuntimeError: cuDNN version mismatch: PyTorch was compiled against 7102 but linked against 7600
""",
    ),
    (
        "cudnn-version-incompatible",
        "pytorch/functorch#926",
        """RuntimeError: cuDNN version incompatibility: PyTorch was compiled against (8, 3, 2) but linked against (8, 0, 3)
$ echo $LD_LIBRARY_PATH
/public/apps/cudnn/v8.0.3.33-cuda.11.0/cuda/lib64:/public/apps/cuda/11.0/lib64:/usr/local/cuda/lib64
""",
    ),
    (
        "cudnn-version-incompatible",
        "cuDNN 9 parts of two versions",
        """RuntimeError: cuDNN error: CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED
torch 2.5.1+cu124
""",
    ),
    (
        "cudnn-version-incompatible",
        "SYSTRAN/faster-whisper beside torch with cuDNN 9",
        """torch 2.4.1+cu121
Could not load library libcudnn_ops_infer.so.8. Error: libcudnn_ops_infer.so.8: cannot open shared object file: No such file or directory
Aborted (core dumped)
""",
    ),
    (
        "cudnn-version-incompatible",
        "the symbol that every cuDNN 9 part asks for",
        """Unable to load any of {libcudnn_ops.so.9.1.0, libcudnn_ops.so.9.1, libcudnn_ops.so.9, libcudnn_ops.so}
Invalid handle. Cannot load symbol cudnnCreateTensorDescriptor
""",
    ),
    (
        "cuda-stub-library",
        "LD_LIBRARY_PATH with the stubs directory",
        """$ LD_DEBUG=libs python -c "import torch; torch.cuda.init()" 2>&1 | grep libcuda.so
      1234:	find library=libcuda.so.1 [0]; searching
      1234:	  trying file=/usr/local/cuda-12.2/targets/x86_64-linux/lib/stubs/libcuda.so.1
      1234:	calling init: /usr/local/cuda-12.2/targets/x86_64-linux/lib/stubs/libcuda.so.1
""",
    ),
    (
        "cuda-stub-library",
        "the runtime's own words",
        """RuntimeError: CUDA error: CUDA driver is a stub library
CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.
""",
    ),
    (
        "cuda-stub-library",
        "nvidia-smi with the stub of NVML",
        """$ nvidia-smi
WARNING:

You should always run with libnvidia-ml.so that is installed with your
NVIDIA Display Driver. By default it's installed in /usr/lib and /usr/lib64.
libnvidia-ml.so in GDK package is a stub library that is attached only for
build purposes (e.g. machine that you build your application doesn't have
to have Display Driver installed).
""",
    ),
    (
        "libstdcxx-too-old",
        "scipy/scipy#18163",
        """ImportError: /lib/x86_64-linux-gnu/libstdc++.so.6: version `GLIBCXX_3.4.29' not found (required by /home/user/anaconda3/envs/dl/lib/python3.10/site-packages/scipy/spatial/_ckdtree.cpython-310-x86_64-linux-gnu.so)
""",
    ),
    (
        "libstdcxx-too-old",
        "matplotlib/matplotlib#12816 (CXXABI)",
        """ImportError: /lib64/libstdc++.so.6: version `CXXABI_1.3.9' not found (required by /home/user/venv/lib/python3.6/site-packages/matplotlib/_path.cpython-36m-x86_64-linux-gnu.so)
""",
    ),
    (
        "libstdcxx-too-old",
        "numpy/numpy#26986",
        """>>> import torch
ImportError: /home/user/miniconda3/envs/numpy_1_26/bin/../lib/libstdc++.so.6: version `GLIBCXX_3.4.30' not found (required by /home/user/pytorch/torch/lib/libtorch_python.so)
""",
    ),
    (
        "glibc-too-old",
        "pytorch/pytorch#38765",
        """OS: CentOS Linux 7 (Core)
/lib64/libm.so.6: version `GLIBC_2.23' not found (required by /home/user/libtorch_cpu.so)
""",
    ),
    (
        "glibc-too-old",
        "a binary of a newer Ubuntu",
        """ImportError: /lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.34' not found (required by /home/user/.local/lib/python3.8/site-packages/triton/_C/libtriton.so)
""",
    ),
    (
        "glibc-too-old",
        "flash-attn's wheel on an older system",
        """ImportError: /lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.32' not found (required by /opt/conda/lib/python3.10/site-packages/flash_attn_2_cuda.cpython-310-x86_64-linux-gnu.so)
$ ldd --version
ldd (Ubuntu GLIBC 2.31-0ubuntu9.9) 2.31
""",
    ),
    (
        "executable-stack-refused",
        "conda-forge/pytorch-cpu-feedstock#350",
        """virtual packages : __glibc=2.41=0
ImportError: libtorch_cpu.so: cannot enable executable stack as shared object requires: Invalid argument
""",
    ),
    (
        "executable-stack-refused",
        "OpenNMT/CTranslate2#1849",
        """  File "/home/user/env/lib/python3.12/site-packages/ctranslate2/__init__.py", line 21, in <module>
    from ctranslate2._ext import (
ImportError: libctranslate2-bc15bf3f.so.4.5.0: cannot enable executable stack as shared object requires: Invalid argument
""",
    ),
    (
        "executable-stack-refused",
        "easydiffusion/easydiffusion#1921",
        """torch: 1.13.1+rocm5.2
ImportError: libamdhip64.so: cannot enable executable stack as shared object requires: Invalid argument
""",
    ),
    (
        "windows-dll-missing",
        "xorbitsai/inference#1428",
        """OSError: [WinError 126] 找不到指定的模块。 Error loading "D:\\anaconda\\Lib\\site-packages\\torch\\lib\\shm.dll" or one of its dependencies.
""",
    ),
    (
        "windows-dll-missing",
        "pytorch/pytorch#140875",
        """  File "C:\\Users\\user\\AutoAWQ\\venv\\Lib\\site-packages\\torch\\__init__.py", line 258, in _load_dll_libraries
    raise err
OSError: [WinError 126] Não foi possível encontrar o módulo especificado. Error loading "C:\\Users\\user\\AutoAWQ\\venv\\Lib\\site-packages\\torch\\lib\\shm.dll" or one of its dependencies.
""",
    ),
    (
        "windows-dll-missing",
        "pytorch/pytorch#131662",
        """Python 3.11, Windows 11, torch 2.4.0+cpu
OSError: [WinError 126] The specified module could not be found. Error loading "C:\\venv\\Lib\\site-packages\\torch\\lib\\fbgemm.dll" or one of its dependencies.
""",
    ),
    (
        "windows-dll-missing",
        "cuDNN 8's zlib",
        """Could not locate zlibwapi.dll. Please make sure it is in your library path!
""",
    ),
    (
        "windows-vc-runtime",
        "nagadomi/nunif#701",
        """OSError: [WinError 1114] A dynamic link library (DLL) initialization routine failed. Error loading "C:\\nunif\\python\\Lib\\site-packages\\torch\\lib\\c10.dll" or one of its dependencies.
""",
    ),
    (
        "windows-vc-runtime",
        "torch/__init__.py says it itself",
        """Microsoft Visual C++ Redistributable is not installed, this may lead to the DLL load failure.
It can be downloaded at https://aka.ms/vs/16/release/vc_redist.x64.exe
Traceback (most recent call last):
OSError: [WinError 126] The specified module could not be found. Error loading "C:\\Python39\\lib\\site-packages\\torch\\lib\\c10.dll" or one of its dependencies.
""",
    ),
    (
        "windows-vc-runtime",
        "German Windows, initialisation fails",
        """OSError: [WinError 1114] Eine DLL-Initialisierungsroutine ist fehlgeschlagen. Error loading "C:\\KI\\venv\\lib\\site-packages\\torch\\lib\\torch_python.dll" or one of its dependencies.
""",
    ),
    (
        "windows-vc-runtime",
        "ImportError without a number",
        """  File "C:\\Users\\user\\env\\lib\\site-packages\\torch\\__init__.py", line 81, in <module>
    from torch._C import *
ImportError: DLL load failed: A dynamic link library (DLL) initialization routine failed.
""",
    ),
    (
        "windows-vc-runtime",
        "google-research/timesfm#330 (error 127 in torch's own DLL)",
        """torch version: 2.9.0+cpu, Windows 11
OSError: [WinError 127] The specified procedure could not be found. Error loading "C:\\p\\Lib\\site-packages\\torch\\lib\\torch_python.dll" or one of its dependencies.
""",
    ),
    (
        "omp-duplicate-runtime",
        "macOS, scikit-learn beside torch",
        """OMP: Error #15: Initializing libomp.dylib, but found libiomp5.dylib already initialized.
OMP: Hint This means that multiple copies of the OpenMP runtime have been linked into the program.
zsh: abort      python train.py
""",
    ),
    (
        "omp-duplicate-runtime",
        "mkl-service",
        """Error: mkl-service + Intel(R) MKL: MKL_THREADING_LAYER=INTEL is incompatible with libgomp.so.1 library.
	Try to import numpy first or set the threading layer accordingly. Set MKL_SERVICE_FORCE_INTEL to force it.
""",
    ),
    (
        "omp-duplicate-runtime",
        "Windows, conda",
        """OMP: Error #15: Initializing libiomp5md.dll, but found libomp140.x86_64.dll already initialized.
""",
    ),
    (
        "static-tls-exhausted",
        "aarch64 and libgomp",
        """ImportError: /usr/local/lib/python3.8/dist-packages/torch/lib/../../torch.libs/libgomp-804f19d4.so.1.0.0: cannot allocate memory in static TLS block
""",
    ),
    (
        "system-library-missing",
        "a slim image and OpenCV",
        """  File "/usr/local/lib/python3.10/site-packages/cv2/__init__.py", line 181, in <module>
    bootstrap()
ImportError: libGL.so.1: cannot open shared object file: No such file or directory
""",
    ),
    (
        "system-library-missing",
        "NVIDIA's Jetson wheel",
        """ImportError: libopenblas.so.0: cannot open shared object file: No such file or directory
""",
    ),
]

_EXTRAS = {"static-tls-exhausted", "system-library-missing"}

HEALTHY: list[tuple[str, str]] = [
    (
        "a variable that is set and does no harm",
        """PyTorch version: 2.4.1+cu121
CUDA used to build PyTorch: 12.1
OS: Ubuntu 22.04.4 LTS (x86_64)
Python version: 3.10.12 (64-bit runtime)
Is CUDA available: True
GPU models and configuration: GPU 0: NVIDIA GeForce RTX 3080
Nvidia driver version: 550.90.07
$ echo $LD_LIBRARY_PATH
/usr/local/cuda-12.1/lib64
""",
    ),
    (
        "cuDNN files that collect_env finds in the system",
        """PyTorch version: 2.5.1+cu124
CUDA used to build PyTorch: 12.4
OS: Ubuntu 22.04.4 LTS (x86_64)
Is CUDA available: True
GPU models and configuration: GPU 0: NVIDIA A100-SXM4-40GB
Nvidia driver version: 550.90.07
cuDNN version: Probably one of the following:
/usr/lib/x86_64-linux-gnu/libcudnn.so.8.9.7
/usr/lib/x86_64-linux-gnu/libcudnn_ops_infer.so.8.9.7
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


def test_kmp_variable_is_never_the_cure() -> None:
    for cause, _, text in CASES:
        if cause == "omp-duplicate-runtime":
            report = judge(text)
            assert report.primary is not None
            assert not [c for c in report.primary.remedy.commands if "KMP_DUPLICATE" in c]
