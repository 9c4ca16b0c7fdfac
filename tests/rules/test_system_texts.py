"""The system side in the words of many programs: one line each, made up after the message's source, and near misses.

Where a message comes from stands in the id: the driver's kernel log, NVML, the CUDA runtime (cudaGetErrorString),
libnvidia-container, Kubernetes and its device plugin, numba, Ollama, TensorRT, TensorFlow and so on.
"""

from __future__ import annotations

import pytest
from tests.rules.texts import judge, left_alone, named

CASES = [
    # --- the driver's kernel log and modprobe
    (
        "NVRM, up to branch 39x: version first",
        "driver-gpu-unsupported",
        "[    9.1] NVRM: The NVIDIA GPU 0000:04:00.0 (PCI ID: 10de:0a65)\n[    9.1] NVRM: installed in this system is not supported by the 390.157\n"
        "[    9.1] NVRM: NVIDIA Linux driver release.  Please see 'Appendix",
    ),
    (
        "NVRM, newer: version behind the line break",
        "driver-gpu-unsupported",
        "NVRM: installed in this system is not supported by the\nNVRM: NVIDIA 550.54.14 driver release.",
    ),
    ("modprobe with another of the module's names", "nvidia-driver-not-loaded", "modprobe: FATAL: Module nvidia-drm not found in directory /lib/modules/6.8.0"),
    ("modprobe, Debian's name", "nvidia-driver-not-loaded", "modprobe: FATAL: Module nvidia_current_modeset not found."),
    ("NVRM without a card", "nvidia-driver-not-loaded", "[   12.9] NVRM: No NVIDIA GPU found."),
    ("modprobe: module of another kernel", "driver-kernel-incompatible", "modprobe: ERROR: could not insert 'nvidia_uvm': Exec format error"),
    ("driver's installer without headers", "driver-kernel-incompatible", "ERROR: Unable to find the kernel source tree for the currently running kernel."),
    ("toolkit's installer without headers", "driver-kernel-incompatible", "The driver installation is unable to locate the kernel source."),
    ("NVRM: address window of nothing", "driver-cannot-init-gpu", "NVRM: request_mem_region failed for 0M @ 0x0. This can"),
    # --- NVML and the driver's library
    (
        "nvidia-smi without its library",
        "nvidia-driver-not-loaded",
        "NVIDIA-SMI couldn't find libnvidia-ml.so library in your system. Please make sure that the NVIDIA Display Driver is properly installed",
    ),
    ("pynvml without the library", "nvidia-driver-not-loaded", "pynvml.NVMLError_LibraryNotFound: NVML Shared Library Not Found"),
    ("pynvml without the driver", "nvidia-driver-not-loaded", "pynvml.nvml.NVMLError_DriverNotLoaded: Driver Not Loaded"),
    ("the loader without libcuda", "nvidia-driver-not-loaded", "ImportError: libcuda.so.1: cannot open shared object file: No such file or directory"),
    ("the same in a container", "container-no-gpu", "$ docker run --rm my/image python serve.py\nImportError: libcuda.so.1: cannot open shared object file: No such file"),
    ("the same under WSL", "wsl-cuda", "Ubuntu 22.04 on WSL2\nImportError: libcuda.so.1: cannot open shared object file: No such file or directory"),
    ("no nvidia-smi beside a CUDA build", "nvidia-driver-not-loaded", "torch 2.4.1+cu121, torch.cuda.is_available() gives False\nzsh: command not found: nvidia-smi"),
    ("NVML: reset", "gpu-hardware-fault", "nvidia-smi\nGPU 0000:4E:00.0: GPU requires reset"),
    # --- numbers of the CUDA API as programs print them
    ("runtime 36", "driver-too-old", "RuntimeError: CUDA error: API call is not supported in the installed CUDA driver"),
    ("TensorRT 35", "driver-too-old", "[TRT] [E] CUDA initialization failure with error: 35. Please check your CUDA installation"),
    ("nvidia-docker 1", "driver-too-old", "nvidia-docker | 2017/03/01 10:00:00 Error: unsupported CUDA version: driver 8.0 < image 9.1"),
    ("Ollama 999", "cuda-unknown-error", 'msg="unknown error initializing cuda driver library: cuda driver library init failure: 999."'),
    ("ONNX Runtime 999", "cuda-unknown-error", "CUDA failure 999: unknown error ; GPU=0 ; hostname=box"),
    ("ggml", "cuda-unknown-error", "ggml_cuda_init: failed to initialize CUDA: unknown error"),
    ("numba 804", "cuda-forward-compat", "CudaSupportError: Error at driver init: Call to cuInit results in UNKNOWN_CUDA_ERROR (804)"),
    ("numba 803", "driver-libcuda-mismatch", "CudaSupportError: Error at driver init: Call to cuInit results in UNKNOWN_CUDA_ERROR (803)"),
    ("numba 802", "fabric-manager-not-running", "CudaSupportError: Error at driver init: Call to cuInit results in UNKNOWN_CUDA_ERROR (802)"),
    ("TensorFlow's diagnosis", "nvml-driver-library-mismatch", "kernel version 535.183.1 does not match DSO version 550.120.0 -- cannot find working devices in this configuration"),
    ("runtime 220", "gpu-hardware-fault", "RuntimeError: CUDA error: uncorrectable NVLink error detected during the execution"),
    ("runtime 715", "illegal-memory-access", "RuntimeError: CUDA error: an illegal instruction was encountered"),
    ("runtime 500, system unknown", "wsl-cuda", "RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 500: named symbol not found"),
    ("runtime 46 under WSL", "wsl-cuda", "Linux version 5.15.90.1-microsoft-standard-WSL2\n>>> torch.cuda.is_available()\nTrue\nRuntimeError: CUDA error: all CUDA-capable devices are busy or unavailable"),
    # --- the CPU
    ("kernel log", "cpu-lacks-avx", "traps: python3[411] trap invalid opcode ip:7f11 sp:7ffd error:0 in libtorch_cpu.so[7f00+eb3c000]"),
    ("TensorFlow", "cpu-lacks-avx", "The TensorFlow library was compiled to use AVX instructions, but these aren't available on your machine."),
    # --- containers
    ("containerd", "container-toolkit-missing", 'failed to get sandbox runtime: no runtime for "nvidia" is configured'),
    ("kubelet", "container-toolkit-missing", "Allocate failed due to requested number of devices unavailable for nvidia.com/gpu. Requested: 2, Available: 0, which is unexpected"),
    ("compose without the word gpu", "container-toolkit-missing", 'could not select device driver "nvidia" with capabilities: [[compute utility]]'),
    (
        "the device plugin's own container",
        "container-toolkit-missing",
        "Loading NVML\nFailed to initialize NVML: could not load NVML library: libnvidia-ml.so.1: cannot open shared object file\n"
        "If this is a GPU node, did you set the docker default runtime to `nvidia`?",
    ),
    (
        "Docker as a snap",
        "container-toolkit-missing",
        "$ snap install docker\nnvidia-container-cli: initialization error: load library failed: libnvidia-ml.so.1: cannot open shared object file: no such file or directory",
    ),
    (
        "nvidia-smi works on the host",
        "container-toolkit-missing",
        "| NVIDIA-SMI 535.183.01    Driver Version: 535.183.01    CUDA Version: 12.2     |\n|   0  NVIDIA GeForce RTX 3060   Off  | 00000000:01:00.0 Off |                  N/A |\n"
        "nvidia-container-cli: initialization error: load library failed: libnvidia-ml.so.1: cannot open shared object file: no such file or directory",
    ),
    ("Go's stat", "container-device-missing", "Error response from daemon: lstat /dev/nvidia-uvm: no such file or directory"),
    ("crun", "container-device-missing", "Error: crun: error stat'ing file `/dev/nvidia-modeset`: No such file or directory"),
    ("Apptainer on a node without a driver", "nvidia-driver-not-loaded", "INFO:    Could not find any nv files on this host!\nRuntimeError: No CUDA GPUs are available"),
    # --- the loader
    (
        "a name of nobody known, asked of a library by its version",
        "library-path-shadowing",
        'python: symbol lookup error:  "../envs/a/lib/python3.10/site-packages/torch/lib/../../nvidia/cudnn/lib/libcudnn_cnn_infer.so.8: undefined symbol: '
        '_Z9some_testRKi, version libcudnn_ops_infer.so.8"',
    ),
    # --- a pull request that shows the error itself
    (
        "pasted output in a proposal",
        "gpu-hardware-fault",
        "fix(train): retry when a GPU fails\nRuntimeError: CUDA error: uncorrectable ECC error encountered",
    ),
    # --- in sentences
    (
        "a Jetson in prose",
        "jetson-generic-wheel",
        "I flashed my Jetson Orin Nano last week. My torch version is 2.4.1.\nNow `torch.cuda.is_available()` gives me False.",
    ),
    ("another language around it", "driver-too-old", "torch 2.1.0+cu121\n| NVIDIA-SMI 470.82.01    Driver Version: 470.82.01    CUDA Version: 11.4     |\nпочему torch.cuda.is_available() возвращает False?"),
    ("the answer on the next line", "cpu-only-build", "RTX 3060, torch 2.3.1+cpu\ntorch.cuda.is_available()\nI only get false"),
    ("MIG in a question", "mig", "device_count() sees only one GPU although MIG cut the A100 into seven, why?"),
    ("copied out of an address", "library-path-shadowing", "ImportError:%20libtorch_cuda.so:%20undefined%20symbol:%20ncclCommRegister"),
]


@pytest.mark.parametrize(("rule", "text"), [c[1:] for c in CASES], ids=[f"{c[1]}: {c[0]}" for c in CASES])
def test_the_cause_is_named_first(rule: str, text: str) -> None:
    named(text, rule)

CASES += [
    ("XPU: c10's guard of a build without it", "xpu-not-compiled", "RuntimeError: PyTorch is not linked with support for xpu devices"),
    ("ROCr: the queue's error", "illegal-memory-access", "Queue 0x7f21 aborting with error : HSA_STATUS_ERROR_MEMORY_APERTURE_VIOLATION: beyond the largest legal address. code: 0x29"),
    ("ggml names HIP's errors by ROCm", "rocm-gfx-unsupported", "Device 0: AMD Radeon RX 6700 XT, gfx1031\nROCm error: invalid device function\n  current device: 0"),
    ("ggml: what HIP calls an invalid kernel file", "rocm-gfx-unsupported", "gfx1036\nROCm error: invalid kernel file"),
    ("a data centre's board by its number", "gpu-too-old-for-build", "We moved to torch 2.8.0+cu128 on a V100.\nRuntimeError: CUDA error: no kernel image is available for execution on the device"),
    ("the same, Chinese around it", "gpu-too-old-for-build", "在P100上安装了 torch 2.8.0+cu128\nRuntimeError: CUDA error: no kernel image is available for execution on the device"),
    ("docker without the GPU, torch finds none", "container-no-gpu", '$ docker run --rm pytorch/pytorch:2.5.1-cuda12.4-cudnn9-runtime python -c "import torch; print(torch.cuda.is_available())"\nFalse'),
    ("the same, the host's card in a sentence", "container-no-gpu", "The host has an RTX 3090.\n$ docker run -it nvcr.io/nvidia/pytorch:24.05-py3\n>>> torch.cuda.is_available()\nFalse"),
]

CASES += [
    ("a Raspberry Pi 4", "arm-cpu-too-old", "I have a Raspberry Pi 4 Model B with a 64-bit system.\n>>> import torch\nIllegal instruction (core dumped)"),
    ("its core by name, after lscpu", "arm-cpu-too-old", "Architecture: aarch64\nModel name: Cortex-A72\ntorch 2.4.0\nIllegal instruction"),
    ("the board's usual host name, and a release known for it", "arm-cpu-too-old", "pi@raspberrypi:~ $ python3 -c 'import torch'\nIllegal instruction\ntorch 2.10.0"),
    ("only the library in which it stopped", "arm-cpu-too-old", "Program received signal SIGILL, Illegal instruction.\n   from torch/lib/../../torch.libs/libarm_compute-0.so"),
    ("its core beside gdb's word", "arm-cpu-too-old", "Program received signal SIGILL, Illegal instruction.\nin torch.libs/libarm_compute-84b7.so on my Cortex-A53 board"),
]

NEAR = [
    ("a Raspberry Pi has no AVX to lack", "cpu-lacks-avx", "on a Raspberry Pi 4B\nIllegal instruction (core dumped)"),
    ("an ARM machine by the paths of its libraries", "cpu-lacks-avx", "/lib/aarch64-linux-gnu/libc.so.6\nIllegal instruction (core dumped)"),
    ("a Raspberry Pi 5", "arm-cpu-too-old", "on a Raspberry Pi 5\nIllegal instruction (core dumped)"),
    ("an ARM machine of the data centre", "arm-cpu-too-old", "Architecture: aarch64\nModel name: Neoverse-N1\nIllegal instruction (core dumped)"),
    ("ARM's library, and a chip that is new enough", "arm-cpu-too-old", "Architecture: aarch64\nModel name: Neoverse-V1\nIllegal instruction in libarm_compute.so"),
    ("an ARM chip beside an x86 machine", "arm-cpu-too-old", "Architecture: x86_64\nIt works on my Raspberry Pi 4, not here:\nIllegal instruction (core dumped)"),
    ("a page about an error of nvidia-smi", "nvidia-device-permission", "docs: explain SELinux\nOn Fedora you will run into Failed to initialize NVML: Insufficient Permissions unless the label is set."),
    ("a driver that a future release will not support", "driver-gpu-unsupported", "This feature is not supported by the NVIDIA Container Toolkit yet"),
    ("Exec format error of a program", "driver-kernel-incompatible", "exec /usr/bin/python: exec format error"),
    ("a module of another driver", "nvidia-driver-not-loaded", "modprobe: FATAL: Module nvme_tcp not found in directory /lib/modules/6.8.0"),
    ("TensorFlow on a machine without GPU warns", "nvidia-driver-not-loaded", "W tensorflow: Could not load dynamic library 'libcuda.so.1'; dlerror: libcuda.so.1: cannot open shared object file"),
    ("no nvidia-smi on a machine for which a CPU build is right", "nvidia-driver-not-loaded", "torch 2.4.1+cpu\ntorch.cuda.is_available() is False\nbash: nvidia-smi: command not found"),
    ("no nvidia-smi beside an AMD card", "nvidia-driver-not-loaded", "torch 2.4.1+rocm6.1\nRX 7900 XTX\nbash: nvidia-smi: command not found"),
    ("999 of something else", "cuda-unknown-error", "epoch 999: loss 0.12, error: 999 samples skipped"),
    ("the GPU's illegal instruction", "cpu-lacks-avx", "torch.AcceleratorError: CUDA error: an illegal instruction was encountered"),
    ("a library of another project's", "cpu-lacks-avx", "traps: app[99] trap invalid opcode ip:55 sp:7f error:0 in libllama.so[7f00+9f000]"),
    ("a CPU that has AVX2 stopped by AVX-512 code", "cpu-lacks-avx", "Host CPU: AMD Ryzen 7 5800X\nllama_server exited\nIllegal instruction (core dumped)"),
    ("an Intel CPU of 2019", "cpu-lacks-avx", "Model name: Intel(R) Xeon(R) Gold 6248 CPU @ 2.50GHz\nIllegal instruction (core dumped)"),
    ("error 500 of a server", "wsl-cuda", "requests.exceptions.HTTPError: 500 Server Error: named resource not found"),
    ("error 500 on a Linux machine that is known", "wsl-cuda", "Linux box 6.8.0-45-generic #45-Ubuntu SMP x86_64 GNU/Linux\nError 500: named symbol not found"),
    ("the host's driver does not answer", "container-toolkit-missing", "$ snap install docker\nnvidia-container-cli: initialization error: nvml error: driver not loaded"),
    ("another resource of the cluster", "container-toolkit-missing", "requested number of devices unavailable for intel.com/sriov. Requested: 1, Available: 0"),
    ("a device file of another kind", "container-device-missing", "Error response from daemon: lstat /dev/video0: no such file or directory"),
    ("is_available of another back end", "cpu-only-build", "RTX 3060\ntorch.backends.mps.is_available() is False"),
    ("is_available in a condition", "jetson-generic-wheel", "On my Jetson Nano the script asks if torch.cuda.is_available() is False and then stops."),
    ("a Jetson among other boards", "jetson-generic-wheel", "This supports boards such as Jetson Nano; here torch.cuda.is_available() returns False on an RTX 3060."),
    ("MIG and a count that fits", "mig", "We migrate only one GPU node per day; is MIG worth it?"),
    ("ECC errors in general", "gpu-hardware-fault", "the driver remaps rows when uncorrectable ECC errors pile up, see the manual"),
    (
        "a pull request about an error",
        "fabric-manager-not-running",
        "feat(init): clearer words\nThis PR catches the case where cuInit fails with CUDA_ERROR_SYSTEM_NOT_READY and says what to do.",
    ),
    ("a wish for a feature", "illegal-memory-access", "[Feature] Please retry the step after an illegal memory access was encountered in one of the workers"),
    ("ROCm's other errors", "rocm-gfx-unsupported", "gfx1100\nROCm error: out of memory"),
    ("a start with the GPU that finds none", "container-no-gpu", "$ docker run --gpus all -it pytorch/pytorch:latest\n>>> torch.cuda.is_available()\nFalse"),
    ("a container of something else", "container-no-gpu", "$ docker run -d postgres:16\n>>> torch.cuda.is_available()\nFalse"),
    ("a container in which torch finds the GPU", "container-no-gpu", "$ docker run -it pytorch/pytorch:latest\n>>> torch.cuda.is_available()\nTrue"),
    ("a start without and one with the GPU", "container-no-gpu", "$ docker run -it pytorch/pytorch:latest\n$ docker run --gpus all -it pytorch/pytorch:latest\n>>> torch.cuda.is_available()\nFalse"),
    ("another board for which it works", "gpu-too-old-for-build", "torch 2.8.0+cu128 works on an A100 and fails here.\nIt also worked with the V100.\nRuntimeError: CUDA error: no kernel image is available for execution on the device"),
    ("paper of a size", "gpu-too-old-for-build", "torch 2.8.0+cu128 prints M40 screws and K80.\nRuntimeError: CUDA error: no kernel image is available for execution on the device"),
    ("a percentage", "library-path-shadowing", "loss fell by 20%20 of the runs"),
]


@pytest.mark.parametrize(("rule", "text"), [c[1:] for c in NEAR], ids=[f"{c[1]}: {c[0]}" for c in NEAR])
def test_a_near_miss_is_left_alone(rule: str, text: str) -> None:
    left_alone(text, rule)


def test_unknown_chips_get_the_way_to_find_out() -> None:
    """Without the chip's name the advice says how to learn it, and which overrides its family takes."""
    finding = named("RuntimeError: HIP error: invalid device function", "rocm-gfx-unsupported")
    assert "HSA_OVERRIDE_GFX_VERSION" in finding.remedy.text
    assert "rocminfo" in finding.otherwise


def test_a_container_needs_the_intel_card_handed_in() -> None:
    text = "$ docker run -it intel/intel-extension-for-pytorch\nfailed to initialize XPU devices. The driver may not be installed"
    assert "--device /dev/dri" in named(text, "xpu-runtime-init-failed").remedy.text


def test_name_and_architecture_of_one_amd_card_are_one_card() -> None:
    """A card named by its model in one line and by its gfx name in another."""
    report = judge("I have a Radeon RX 580, which is gfx803.\nRuntimeError: HIP error: no kernel image is available for execution on the device")
    assert [(g.name, g.gfx) for g in report.facts.amd.gpus or ()] == [("Radeon RX 580", "gfx803")]


def test_what_a_checkpoint_was_made_with_is_not_this_torch() -> None:
    """pyannote.audio prints both, the old one first."""
    report = judge("Model was trained with torch 1.9.0+cu111, yours is 2.6.0+cu124. Bad things might happen.\nRuntimeError: No CUDA GPUs are available")
    assert report.facts.torch.version == "2.6.0+cu124"


def test_a_check_at_start_that_finds_no_gpu_is_no_healthy_machine() -> None:
    """The web UI's own check says what torch.cuda.is_available() would."""
    text = "RTX 3080\nNVIDIA-SMI 528.24 Driver Version: 528.24 CUDA Version: 12.0\nTorch is not able to use GPU; add --skip-torch-cuda-test"
    assert judge(text).facts.torch.cuda_available is False


def test_the_release_that_refuses_the_gpu_is_quoted() -> None:
    text = "NVRM: installed in this system is not supported by the\nNVRM: NVIDIA 550.54.14 driver release."
    assert "550.54.14" in named(text, "driver-gpu-unsupported").seen
