"""What stands between the driver and torch: the MPS daemon, PTX's compiler, vGPU licences, MIOpen, hipBLASLt, hung GPUs,
the makers' runtimes; one line each in the words of their sources, and near misses.
"""

from __future__ import annotations

import pytest
from tests.rules.texts import judge, left_alone, named, three_wordings

FOUND_NONE = "RuntimeError: No CUDA GPUs are available"
GUEST = "    GPU Virtualization Mode\n        Virtualization Mode               : VGPU\n    vGPU Software Licensed Product\n        Product Name                      : NVIDIA Virtual Compute Server\n"
WHOLE = GUEST.replace(": VGPU", ": Pass-Through")
NO_SLICES = (
    "| MIG devices:                                                                |\n"
    "|==================+======================+===========+=======================|\n"
    "|  No MIG devices found                                                       |\n"
    "+-----------------------------------------------------------------------------+\n"
)

CASES = [
    # --- cuda-mps-daemon: cudaGetErrorString and the names of the headers
    ("torch's warning at start", "cuda-mps-daemon", "UserWarning: CUDA initialization: Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before? Error 805: MPS client failed to connect to the MPS control daemon or the MPS server"),
    ("807 in a kernel launch", "cuda-mps-daemon", "torch.AcceleratorError: CUDA error: the MPS server is not ready to accept new MPS client requests"),
    ("806", "cuda-mps-daemon", "RuntimeError: CUDA error: the remote procedural call between the MPS server and the MPS client failed"),
    ("808, clients", "cuda-mps-daemon", "CUDA error: the hardware resources required to create MPS client have been exhausted"),
    ("810 by its name", "cuda-mps-daemon", "cudaErrorMpsClientTerminated (810) in worker 3"),
    ("the driver's name", "cuda-mps-daemon", "cuInit(0) failed: CUDA_ERROR_MPS_CONNECTION_FAILED"),
    ("numba", "cuda-mps-daemon", "CudaSupportError: Error at driver init: Call to cuInit results in UNKNOWN_CUDA_ERROR (805)"),
    ("nvidia-smi works beside it", "cuda-mps-daemon", f"torch.cuda.is_available() is False\nError 805: MPS client failed to connect to the MPS control daemon or the MPS server\n{FOUND_NONE}"),
    # --- mig: the table without its screen
    ("only the end of the screen", "mig", NO_SLICES + FOUND_NONE),
    ("only the end of the screen, torch was not tried", "mig", NO_SLICES),
    ("nvidia-smi mig -lgi", "mig", "$ nvidia-smi mig -lgi\nNo GPU instances found: Not Found\n" + FOUND_NONE),
    # --- ptx-jit-compiler-missing
    ("torch", "ptx-jit-compiler-missing", "RuntimeError: CUDA error: PTX JIT compiler library not found"),
    ("the driver API by name", "ptx-jit-compiler-missing", "cuModuleLoadData failed with CUDA_ERROR_JIT_COMPILER_NOT_FOUND"),
    ("the loader", "ptx-jit-compiler-missing", "OSError: libnvidia-ptxjitcompiler.so.1: cannot open shared object file: No such file or directory"),
    ("Triton, the runtime's name", "ptx-jit-compiler-missing", "triton: cudaErrorJitCompilerNotFound while loading the module"),
    # --- vgpu-unlicensed
    ("restricted", "vgpu-unlicensed", GUEST + "        License Status                    : Unlicensed (Restricted)\n"),
    ("an older driver, and CUDA fails", "vgpu-unlicensed", GUEST + "        License Status                    : Unlicensed\nRuntimeError: CUDA error: CUDA-capable device(s) is/are busy or unavailable"),
    ("the daemon's log", "vgpu-unlicensed", "nvidia-gridd[871]: Failed to acquire license from lic.local (Info: NVIDIA Virtual Compute Server, Error: timed out)\nRuntimeError: CUDA error: all CUDA-capable devices are busy or unavailable"),
    ("CUDA's own number 102", "vgpu-unlicensed", "RuntimeError: CUDA error: device doesn't have valid Grid license"),
    # --- gpu-hang
    ("ROCr", "gpu-hang", "epoch 2 step 40\nHW Exception by GPU node-1 (Agent handle: 0x55d0) reason :GPU Hang\nAborted (core dumped)"),
    ("ROCr, another spacing", "gpu-hang", "HW Exception by GPU node-2 reason: GPU Hang"),
    ("the kernel's timeout", "gpu-hang", "[ 811.2] amdgpu 0000:0b:00.0: amdgpu: ring gfx_0.0.0 timeout, signaled seq=91, emitted seq=93\n[ 811.3] amdgpu 0000:0b:00.0: amdgpu: GPU reset begin!"),
    ("the scheduler", "gpu-hang", "[  99.1] amdgpu 0000:c1:00.0: amdgpu: MES failed to respond to msg=REMOVE_QUEUE"),
    ("the queue's exception", "gpu-hang", "Queue at 0x7f aborting with error : HSA_STATUS_ERROR_EXCEPTION: An HSAIL operation resulted in a hardware exception. code: 0x1016"),
    ("Intel, SYCL", "gpu-hang", "RuntimeError: level_zero backend failed with error: 20 (UR_RESULT_ERROR_DEVICE_LOST)"),
    ("Intel, i915", "gpu-hang", "[ 1204.5] i915 0000:03:00.0: [drm] GPU HANG: ecode 12:1:85defff9, in python3 [4021]"),
    # --- miopen-failed
    ("database on a network disk", "miopen-failed", "MIOpen Error: /MIOpen/src/sqlite_db.cpp:220: Internal error while accessing SQLite database: locking protocol\nRuntimeError: miopenStatusInternalError"),
    ("database that cannot be opened", "miopen-failed", "MIOpen(HIP): Warning [FindFftSolutions] /MIOpen/src/sqlite_db.cpp:109: open memvfs: unable to open database file\nRuntimeError: miopenStatusInternalError"),
    ("a header of C++", "miopen-failed", "/tmp/comgr-1a2b3c/input/CompileSource:39:10: fatal error: 'limits' file not found\nRuntimeError: miopenStatusUnknownError"),
    ("comgr of another release", "miopen-failed", "MIOpen(HIP): Error [SetIsaName] 'amd_comgr_action_info_set_isa_name(handle, isa.c_str())' amdgcn-amd-amdhsa--gfx900:sramecc-:xnack-: INVALID_ARGUMENT (2)"),
    ("code object", "miopen-failed", "MIOpen Error: /MIOpen/src/hipoc/hipoc_program.cpp:299: Code object build failed. Source: naive_conv.cpp"),
    ("the status alone", "miopen-failed", "    return F.conv2d(input, weight)\nRuntimeError: miopenStatusUnknownError"),
    # --- hipblaslt-unsupported
    ("torch's constant", "hipblaslt-unsupported", "RuntimeError: CUDA error: HIPBLAS_STATUS_NOT_SUPPORTED when calling `HIPBLAS_STATUS_NOT_SUPPORTED`"),
    ("the heuristic", "hipblaslt-unsupported", "RuntimeError: CUDA error: HIPBLAS_STATUS_NOT_SUPPORTED when calling `hipblasLtMatmulAlgoGetHeuristic(ltHandle)`"),
    ("another chip", "hipblaslt-unsupported", "torch 2.3.1+rocm6.0\nHIPBLAS_STATUS_ARCH_MISMATCH when calling `hipblasLtMatmul`"),
    # --- mps-watermark-ratio
    ("low above high", "mps-watermark-ratio", "RuntimeError: invalid low watermark ratio 1.4"),
    ("high out of range", "mps-watermark-ratio", "RuntimeError: invalid high watermark ratio 3"),
    ("with the variable", "mps-watermark-ratio", "$ export PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.6\nRuntimeError: invalid low watermark ratio 1.4"),
    # --- gpu-runtime-library-missing
    ("HIP", "gpu-runtime-library-missing", "ImportError: libamdhip64.so.7: cannot open shared object file: No such file or directory"),
    ("SYCL", "gpu-runtime-library-missing", "OSError: libsycl.so.8: cannot open shared object file: No such file or directory"),
    ("oneMKL for SYCL", "gpu-runtime-library-missing", "ImportError: libmkl_sycl_blas.so.5: cannot open shared object file: No such file or directory"),
    ("Ascend", "gpu-runtime-library-missing", "ImportError: libhccl.so: cannot open shared object file: No such file or directory"),
    ("Ascend's transformer library", "gpu-runtime-library-missing", "ImportError: libatb.so: cannot open shared object file: No such file or directory"),
    # --- nvrtc-gpu-unknown
    ("torch's words", "nvrtc-gpu-unknown", "RuntimeError: nvrtc: error: invalid value for --gpu-architecture (-arch)\nnvrtc compilation failed:"),
    ("a card of the next family", "nvrtc-gpu-unknown", "torch 1.10.0+cu113 on an RTX 4090\nRuntimeError: nvrtc: error: invalid value for --gpu-architecture (-arch)"),
    ("inside TorchScript", "nvrtc-gpu-unknown", "Traceback of TorchScript (most recent call last):\nRuntimeError: nvrtc: error: invalid value for --gpu-architecture"),
    # --- nvrtc-builtins-missing
    ("Linux", "nvrtc-builtins-missing", "RuntimeError: nvrtc: error: failed to open libnvrtc-builtins.so.11.1.\n  Make sure that libnvrtc-builtins.so.11.1 is installed correctly."),
    ("Windows", "nvrtc-builtins-missing", "nvrtc: error: failed to open nvrtc-builtins64_121.dll."),
    ("CuPy", "nvrtc-builtins-missing", "cupy_backends.cuda.libs.nvrtc.NVRTCError: NVRTC_ERROR_BUILTIN_OPERATION_FAILURE (7)"),
    # --- kinds that had a rule
    ("Metal's command buffer", "oom-capacity", "Error: command buffer exited with error status. Insufficient Memory (00000008:kIOGPUCommandBufferCallbackErrorOutOfMemory)"),
    ("MIOpen without memory", "oom-capacity", "RuntimeError: miopenStatusAllocFailed"),
    ("a Jetson without a version of torch", "jetson-generic-wheel", "Jetson Xavier NX, JetPack 5.1, L4T R35.2.1\n>>> torch.cuda.is_available()\nFalse"),
    ("804 by the header's name", "cuda-forward-compat", "cuInit: CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE"),
]  # fmt: skip

NEAR = [
    ("Apple's MPS", "cuda-mps-daemon", "RuntimeError: MPS client code asked for float64; Cannot convert a MPS Tensor to float64"),
    ("805 of something else", "cuda-mps-daemon", "step 805: loss 0.31\nError 805 samples skipped"),
    ("a constant in a header", "cuda-mps-daemon", "    cudaErrorSystemNotReady = 802,"),
    ("slices below the table", "mig", NO_SLICES + ">>> torch.cuda.is_available()\nTrue"),
    ("a script's own words", "mig", "[setup] No MIG devices found, going on with the whole GPU"),
    ("another failure of PTX", "ptx-jit-compiler-missing", "RuntimeError: CUDA error: a PTX JIT compilation failed"),
    ("a licence that is there", "vgpu-unlicensed", GUEST + "        License Status                    : Licensed (Expiry: 2031-1-1 6:0:0 GMT)"),
    ("grace", "vgpu-unlicensed!", GUEST + "        License Status                    : Unlicensed (Unrestricted)"),
    ("grace, and CUDA fails for a reason of its own", "vgpu-unlicensed!", GUEST + "        License Status                    : Unlicensed (Unrestricted)\n" + FOUND_NONE),
    ("a whole GPU", "vgpu-unlicensed", WHOLE + "        License Status                    : Unlicensed"),
    ("a whole GPU on which something else fails", "vgpu-unlicensed", WHOLE + "        License Status                    : Unlicensed\nRuntimeError: CUDA error: CUDA-capable device(s) is/are busy or unavailable"),
    ("it was got later", "vgpu-unlicensed", "nvidia-gridd[8]: Failed to acquire license from a (Error: timed out)\nnvidia-gridd[8]: License acquired successfully. (Info: a)"),
    ("another product's licence", "vgpu-unlicensed", "License: Unlicensed software, see LICENSE"),
    ("a hang of the program", "gpu-hang", "the training hangs at step 40, no error; is it a GPU hang?"),
    ("what follows from an access", "gpu-hang", "Memory access fault by GPU node-1 (Agent handle: 0x55) on address 0x7f. Reason: Page not present or supervisor privilege.\nHW Exception by GPU node-1 (Agent handle: 0x66) reason :GPU Hang"),
    ("a reset that was asked for", "gpu-hang", "$ rocm-smi --gpureset -d 0\nSuccessfully reset GPU 0"),
    ("a database that is not shipped", "miopen-failed", "MIOpen(HIP): Warning [SQLiteBase] Missing system database file: gfx1030_40.kdb Performance may degrade. Please follow instructions to install"),
    ("another program's database", "miopen-failed", "sqlite3.OperationalError: unable to open database file"),
    ("a header of another compiler", "miopen-failed", "extension.cpp:3:10: fatal error: 'limits' file not found"),
    ("torch has chosen the other library", "hipblaslt-unsupported", "UserWarning: Attempting to use hipBLASLt on an unsupported architecture! Overriding blas backend to hipblas"),
    ("nvcc's word about an architecture", "nvrtc-gpu-unknown", "nvcc fatal: Value 'compute_120' is not defined for option 'gpu-architecture'"),
    ("a list of libraries", "nvrtc-builtins-missing", "torch/lib/libnvrtc-builtins.so.12.4\ntorch/lib/libnvrtc.so.12"),
    ("a watermark of pictures", "mps-watermark-ratio", "ValueError: invalid watermark ratio 1.4 for the logo"),
    ("OpenCV's library", "gpu-runtime-library-missing", "ImportError: libGL.so.1: cannot open shared object file: No such file or directory"),
    ("a warning of TensorFlow's", "gpu-runtime-library-missing", "W tensorflow: Could not load dynamic library 'librccl.so.1'; dlerror: librccl.so.1: cannot open shared object file"),
    ("a Jetson whose torch is NVIDIA's", "jetson-generic-wheel", "Jetson Orin Nano, JetPack 6.0\ntorch 2.3.0a0+ebedce2.nv24.02\n>>> torch.cuda.is_available()\nFalse"),
    ("a Jetson with NVIDIA's wheel", "jetson-generic-wheel", "Jetson Orin Nano, JetPack 6.0\n$ pip install torch-2.3.0-cp310-linux_aarch64.whl\n>>> torch.cuda.is_available()\nFalse"),
    ("a Jetson in NVIDIA's image", "jetson-generic-wheel", "$ docker run --rm -it dustynv/l4t-pytorch:r36.2.0\n>>> torch.cuda.is_available()\nFalse"),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "text"), [c[1:] for c in CASES], ids=[f"{c[1]}: {c[0]}" for c in CASES])
def test_the_cause_is_named_first(rule: str, text: str) -> None:
    named(text, rule)


@pytest.mark.parametrize(("rule", "text"), [c[1:] for c in NEAR], ids=[f"{c[1]}: {c[0]}" for c in NEAR])
def test_a_near_miss_is_left_alone(rule: str, text: str) -> None:
    left_alone(text, rule)


def test_no_cause_rests_on_one_wording() -> None:
    three_wordings((c[1] for c in CASES), but={"oom-capacity", "jetson-generic-wheel", "cuda-forward-compat"})


def test_the_mps_of_nvidia_is_told_from_apples() -> None:
    finding = named("RuntimeError: CUDA error: the MPS server is not ready to accept new MPS client requests", "cuda-mps-daemon")
    assert "Multi-Process Service" in finding.why


def test_a_container_needs_the_pipe_and_the_ipc_of_the_host() -> None:
    text = "$ docker run --gpus all -it serve:1\nError 805: MPS client failed to connect to the MPS control daemon or the MPS server"
    assert "--ipc=host" in named(text, "cuda-mps-daemon").remedy.text


def test_the_header_says_what_to_install() -> None:
    """A header of C++ comes with the compiler, one of ROCm's with ROCm."""
    cpp = named("/tmp/comgr-0a/input/CompileSource:39:10: fatal error: 'limits' file not found", "miopen-failed")
    own = named("/tmp/comgr-0b/include/miopen_rocrand.hpp:45:10: fatal error: 'rocrand/rocrand_xorwow.h' file not found", "miopen-failed")
    assert any("libstdc++" in c for c in cpp.remedy.commands)
    assert any("rocrand" in c for c in own.remedy.commands)


def test_the_override_is_named_beside_a_hang() -> None:
    text = "$ export HSA_OVERRIDE_GFX_VERSION=11.0.0\nHW Exception by GPU node-1 (Agent handle: 0x55) reason :GPU Hang"
    assert "HSA_OVERRIDE_GFX_VERSION" in named(text, "gpu-hang").remedy.text


def test_a_package_that_asks_for_rocm_beside_a_cuda_build() -> None:
    text = (
        'torch 2.6.0+cu124\n  File "/v/lib/python3.11/site-packages/flash_attn/__init__.py", line 2, in <module>\n    import flash_attn_2_cuda\n'
        "ImportError: libamdhip64.so.6: cannot open shared object file: No such file or directory"
    )
    finding = named(text, "gpu-runtime-library-missing")
    assert "flash" in finding.remedy.text and "2.6.0+cu124" in finding.remedy.text


def test_the_licence_is_read_from_the_report_of_each_gpu() -> None:
    text = (
        "==============NVSMI LOG==============\nDriver Version                            : 535.129.03\nCUDA Version                              : 12.2\n"
        "Attached GPUs                             : 1\nGPU 00000000:02:00.0\n    Product Name                          : NVIDIA A10-24Q\n" + GUEST
        + "        License Status                    : Unlicensed (Restricted)\n    FB Memory Usage\n        Total                             : 24512 MiB\n"
    )  # fmt: skip
    report = judge(text)
    assert [(g.license, g.virtualization) for g in report.facts.nvidia.gpus or ()] == [("Unlicensed (Restricted)", "VGPU")]
    assert report.primary is not None and report.primary.rule == "vgpu-unlicensed" and report.primary.confidence == "certain"


def test_another_toolkits_nvrtc_is_told_from_torchs_own() -> None:
    wrong = "nvrtc: error: failed to open libnvrtc-builtins.so.12.6."
    assert "LD_LIBRARY_PATH" in named("torch 2.3.0+cu121\n" + wrong, "nvrtc-builtins-missing").remedy.text
    assert "LD_LIBRARY_PATH" not in named("torch 2.7.0+cu126\n" + wrong, "nvrtc-builtins-missing").remedy.text


def test_the_first_cuda_of_the_chip_is_named() -> None:
    text = "torch 1.10.0+cu113\nNVIDIA GeForce RTX 4090, compute capability 8.9\nRuntimeError: nvrtc: error: invalid value for --gpu-architecture (-arch)"
    assert "11.8" in named(text, "nvrtc-gpu-unknown").why
