"""Containers, WSL, ROCm, XPU, MPS: what people pasted in public threads, re-typed and condensed, and the cause.

The id of each case names the thread. The wordings differ from era to era; the rule has to be the same.
"""

from __future__ import annotations

import pytest

from tests.rules.texts import left_alone, named, three_wordings


XPU = "PyTorch version: 2.7.1+xpu\nCUDA used to build PyTorch: None\nOS: Ubuntu 24.04.2 LTS (x86_64)\n"

CASES = [
    # --- container-no-gpu
    (
        "docker run without the GPU, newer torch",
        "container-no-gpu",
        "$ docker run --rm -it pytorch/pytorch:2.4.0-cuda12.1-cudnn9-runtime python train.py\n"
        "RuntimeError: Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU and installed a driver from http://www.nvidia.com/Download/index.aspx",
    ),
    (
        "docker run, No CUDA GPUs are available",
        "container-no-gpu",
        "$ sudo docker run -v $PWD:/work myimage python3 infer.py\nRuntimeError: No CUDA GPUs are available",
    ),
    (
        "apptainer exec without --nv",
        "container-no-gpu",
        "$ singularity exec pytorch.sif python -c 'import torch; torch.zeros(1).cuda()'\nAssertionError: \nFound no NVIDIA driver on your system. Please check that you\nhave an NVIDIA GPU and installed a driver from",
    ),
    # --- container-toolkit-missing
    (
        "basujindal/stable-diffusion#217 (compose names the driver)",
        "container-toolkit-missing",
        'Error response from daemon: could not select device driver "nvidia" with capabilities: [[gpu]]',
    ),
    (
        "rapidsai/node#324 (runtime=nvidia)",
        "container-toolkit-missing",
        "$ docker run --rm --runtime=nvidia image\ndocker: Error response from daemon: Unknown runtime specified nvidia.\nSee 'docker run --help'.",
    ),
    (
        "newer docker's wording of the same",
        "container-toolkit-missing",
        "docker: Error response from daemon: unknown or invalid runtime name: nvidia.",
    ),
    (
        "podman without a CDI description",
        "container-toolkit-missing",
        "$ podman run --device nvidia.com/gpu=all image\nError: setting up CDI devices: unresolvable CDI devices nvidia.com/gpu=all",
    ),
    (
        "Kubernetes without the device plugin",
        "container-toolkit-missing",
        "Warning  FailedScheduling  default-scheduler  0/3 nodes are available: 3 Insufficient nvidia.com/gpu.",
    ),
    # --- container-device-missing
    (
        "NVIDIA/nvidia-docker#471 (strace)",
        "container-device-missing",
        'docker run -it cuda ./deviceQuery\nstat("/dev/nvidia-uvm", 0x7ffc23ea4730) = -1 ENOENT (No such file or directory)',
    ),
    (
        "NVIDIA/nvidia-docker#1671 (lost after daemon-reload)",
        "container-device-missing",
        "$ docker run --gpus all --rm -it nvidia/cuda:11.4.2-base-ubuntu18.04 bash\nroot@098b49afe624:/# nvidia-smi\nFailed to initialize NVML: Unknown Error",
    ),
    (
        "NVIDIA/nvidia-container-toolkit#1227 (nvidia-smi -L)",
        "container-device-missing",
        "(container) $ nvidia-smi -L\nFailed to initialize NVML: Unknown Error",
    ),
    (
        "docker, the host has not made the file",
        "container-device-missing",
        'docker: Error response from daemon: error gathering device information while adding custom device "/dev/nvidia-uvm": no such file or directory.',
    ),
    # --- container-cgroups
    (
        "NVIDIA/nvidia-docker#1447",
        "container-cgroups",
        "docker: Error response from daemon: OCI runtime create failed: nvidia-container-cli: container error: cgroup subsystem devices not found: unknown.",
    ),
    (
        "NVIDIA/nvidia-container-runtime#78 (nested, unprivileged)",
        "container-cgroups",
        "nvidia-container-cli: mount error: write error: /sys/fs/cgroup/devices/docker/7f73/devices.allow: operation not permitted",
    ),
    (
        "rootless docker with cgroup v2",
        "container-cgroups",
        "nvidia-container-cli: mount error: failed to add device rules: unable to generate new device filter program from existing programs: bpf_prog_query(BPF_CGROUP_DEVICE) failed: operation not permitted: unknown.",
    ),
    # --- container-driver-in-image
    (
        "an image committed with driver files",
        "container-driver-in-image",
        "nvidia-container-cli: mount error: file creation failed: /var/lib/docker/overlay2/x/merged/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1: file exists: unknown.",
    ),
    (
        "the same with libcuda",
        "container-driver-in-image",
        "OCI runtime create failed: nvidia-container-cli: mount error: file creation failed: /merged/usr/lib/x86_64-linux-gnu/libcuda.so.1: file exists",
    ),
    (
        "the same under docker compose",
        "container-driver-in-image",
        "Error response from daemon: failed to create shim task: stderr: Auto-detected mode as 'legacy' nvidia-container-cli: mount error: file creation failed: /merged/libnvidia-ml.so.1: file exists: unknown",
    ),
    # --- wsl-cuda
    (
        "AbdBarho/stable-diffusion-webui-docker#117",
        "wsl-cuda",
        "stderr: Auto-detected mode as 'legacy'\nnvidia-container-cli: initialization error: WSL environment detected but no adapters were found: unknown",
    ),
    (
        "NVIDIA/nvidia-docker#1441 (WSL guide of docker)",
        "wsl-cuda",
        "docker: Error response from daemon: Running hook #0:: error running hook: exit status 1, stdout: , stderr: nvidia-container-cli: initialization error: driver error: failed to process request: unknown.",
    ),
    (
        "nvidia-smi in WSL",
        "wsl-cuda",
        "$ uname -r\n5.15.90.1-microsoft-standard-WSL2\n$ nvidia-smi\nFailed to initialize NVML: GPU access blocked by the operating system\nFailed to properly shut down NVML: GPU access blocked by the operating system",
    ),
    (
        "libcuda of WSL destroyed by a Linux driver",
        "wsl-cuda",
        "Linux host 5.10.102.1-microsoft-standard-WSL2 #1 SMP x86_64 GNU/Linux\nOSError: /usr/lib/x86_64-linux-gnu/libcuda.so.1: file too short",
    ),
    # --- rocm-wsl-hsa-runtime
    (
        "OrsoEric/HOWTO-7900XTX-Win-ROCM#4",
        "rocm-wsl-hsa-runtime",
        "OS: Windows 11 + WSL2 Ubuntu 24.04\n$ uname -r\n6.6.87.2-microsoft-standard-WSL2\ntorch 2.6.0+rocm6.4.2\n$ rocminfo | grep gfx\n  Name:                    gfx1100\n>>> torch.cuda.is_available()\nFalse",
    ),
    (
        "ROCm/legacy-rocm-build#5461 (AMD_LOG_LEVEL)",
        "rocm-wsl-hsa-runtime",
        "Linux DESKTOP 6.6.87.2-microsoft-standard-WSL2 #1 SMP PREEMPT_DYNAMIC x86_64 GNU/Linux\ntorch==2.8.0+rocm6.3\n:3:hip_device_runtime.cpp   :651 : 1341534510d us:  hipGetDeviceCount: Returned hipErrorNoDevice :",
    ),
    (
        "ROCm/hip#3710",
        "rocm-wsl-hsa-runtime",
        "WSL2, kernel 5.15.153.1-microsoft-standard-WSL2\ntorch 2.5.0+rocm6.2\nRuntimeError: No HIP GPUs are available",
    ),
    # --- rocm-no-device-access
    (
        "ROCm/ROCm-docker#116",
        "rocm-no-device-access",
        "# rocminfo\nROCk module is loaded\nUnable to open /dev/kfd read-write: Permission denied\nFailed to get user name to check for video group membership\n# groups\nrocm-user sudo video",
    ),
    (
        "ROCm/legacy-rocm-build#1893 (docker on a machine without /dev/kfd)",
        "rocm-no-device-access",
        'docker: Error response from daemon: error gathering device information while adding custom device "/dev/kfd": no such file or directory.',
    ),
    (
        "kyuz0/amd-strix-halo-vllm-toolboxes#6",
        "rocm-no-device-access",
        "torch 2.9.0+rocm6.4\nRuntimeError: No HIP GPUs are available",
    ),
    # --- xpu-no-device-access
    (
        "pytorch/pytorch#148477's situation in other words",
        "xpu-no-device-access",
        XPU + ">>> torch.xpu.is_available()\nFalse\nUsing device: cpu",
    ),
    (
        "vladmandic/sdnext#3808 (No XPU devices)",
        "xpu-no-device-access",
        XPU + "RuntimeError: No XPU devices are available.",
    ),
    (
        "clinfo's trace of the render node",
        "xpu-no-device-access",
        XPU + 'openat(AT_FDCWD, "/dev/dri/renderD128", O_RDWR) = -1 EACCES (Permission denied)',
    ),
    # --- xpu-runtime-init-failed
    (
        "pytorch/pytorch#147226 (torch 2.6)",
        "xpu-runtime-init-failed",
        "torch 2.6.0+xpu\ntorch/xpu/__init__.py:60: UserWarning: Failed to initialize XPU devices. The driver may not be installed, installed incorrectly, or incompatible with the current setup.",
    ),
    (
        "no Level Zero loader",
        "xpu-runtime-init-failed",
        XPU + "ImportError: libze_loader.so.1: cannot open shared object file: No such file or directory",
    ),
    (
        "Windows without the Intel driver",
        "xpu-runtime-init-failed",
        "OS: Microsoft Windows 11 Pro (10.0.26100 64-bit)\nPyTorch version: 2.7.1+xpu\nRuntimeError: No XPU devices are available.",
    ),
    # --- mps-macos-too-old
    (
        "pytorch/pytorch#139425's message on macOS 12",
        "mps-macos-too-old",
        "RuntimeError: The MPS backend is supported on MacOS 12.3+.Current OS version can be queried using `sw_vers`\nPyTorch version: 2.5.0\nOS: macOS 12.6.3 (arm64)",
    ),
    (
        "torch 2.9 on Ventura",
        "mps-macos-too-old",
        "torch 2.9.0\nmacOS-13.6.1-arm64-arm-64bit\nRuntimeError: The MPS backend is supported on MacOS 14.0+. Current OS version can be queried using `sw_vers`",
    ),
    (
        "the text of the tutorial's check",
        "mps-macos-too-old",
        "OS: macOS 12.1 (arm64)\nPyTorch version: 2.2.0\nMPS not available because the current MacOS version is not 12.3+ and/or you do not have an MPS-enabled device on this machine.",
    ),
    # --- mps-blocked-by-sandbox
    (
        "pytorch/pytorch#177819 (the message misleads)",
        "mps-blocked-by-sandbox",
        "PyTorch version: 2.10.0\nOS: macOS 26.3.1 (arm64)\nRuntimeError: The MPS backend is supported on macOS 14.0+. Current OS version can be queried using `sw_vers`",
    ),
    (
        "openai/codex#10199",
        "mps-blocked-by-sandbox",
        "platform macOS-26.2-arm64-arm-64bit\nmachine arm64\ntorch 2.11.0.dev20260129\nmps_built True\nmps_available False",
    ),
    (
        "Metal says no in the log",
        "mps-blocked-by-sandbox",
        "torch 2.8.0 on macOS 15.1 (arm64)\nSandbox: python(4242) deny(1) iokit-open-user-client AGXDeviceUserClient",
    ),
    # --- mps-op-not-implemented
    (
        "pytorch/pytorch#141287 (newer text)",
        "mps-op-not-implemented",
        "NotImplementedError: The operator 'aten::_upsample_bicubic2d_aa.out' is not currently implemented for the MPS device. If you want this op to be considered for addition please comment",
    ),
    (
        "the first releases' grammar",
        "mps-op-not-implemented",
        "NotImplementedError: The operator 'aten::cumsum.out' is not current implemented for the MPS device. As a temporary fix, you can set the environment variable",
    ),
    (
        "kijai/ComfyUI-LivePortraitKJ#112",
        "mps-op-not-implemented",
        "RuntimeError: Conv3D is not supported on MPS",
    ),
    (
        "pytorch/pytorch#154615",
        "mps-op-not-implemented",
        "PyTorch version: 2.7.0\nmacOS 15.3.2 (arm64)\nRuntimeError: ConvTranspose 3D is not supported on MPS",
    ),
]


@pytest.mark.parametrize(("rule", "text"), [c[1:] for c in CASES], ids=[f"{c[1]}: {c[0]}" for c in CASES])
def test_the_cause_is_named_first(rule: str, text: str) -> None:
    named(text, rule)


def test_every_cause_has_three_wordings() -> None:
    three_wordings(rule for _, rule, _ in CASES)


NEAR = [
    (
        "started with the GPU",
        "container-no-gpu",
        "$ docker run --gpus all image python x.py\nRuntimeError: No CUDA GPUs are available",
    ),
    ("docker mode legacy is no fault", "container-toolkit-missing", "Auto-detected mode as 'legacy'"),
    ("no container in sight", "container-no-gpu", "RuntimeError: No CUDA GPUs are available"),
    (
        "nvidia-uvm as a plain list",
        "container-device-missing",
        "$ ls -l /dev/nvidia*\ncrw-rw-rw- 1 root root 195, 0 /dev/nvidia0\ncrw-rw-rw- 1 root root 510, 0 /dev/nvidia-uvm",
    ),
    (
        "a healthy WSL",
        "wsl-cuda",
        "PyTorch version: 2.6.0+cu124\nIs CUDA available: True\nPython platform: Linux-5.15.153.1-microsoft-standard-WSL2-x86_64-with-glibc2.35",
    ),
    (
        "kfd refuses the card: no matter of rights",
        "rocm-no-device-access",
        "Unable to open /dev/kfd read-write: Cannot allocate memory\nuser is member of render group\nkfd kfd: amdgpu: TONGA not supported in kfd",
    ),
    ("an XPU build that works", "xpu-no-device-access", XPU + "Is XPU available: True\nUsing device: xpu"),
    ("the CPU was chosen with a CUDA build", "xpu-no-device-access", "torch 2.6.0+cu124\nUsing device: cpu"),
    (
        "MPS works",
        "mps-blocked-by-sandbox",
        "OS: macOS 15.1 (arm64)\nPyTorch version: 2.8.0\ntorch.backends.mps.is_available() True",
    ),
    (
        "macOS is new enough",
        "mps-macos-too-old",
        "OS: macOS 26.3.1 (arm64)\nPyTorch version: 2.10.0\nRuntimeError: The MPS backend is supported on macOS 14.0+.",
    ),
    (
        "a CUDA operator is missing",
        "mps-op-not-implemented",
        "NotImplementedError: Could not run 'aten::foo' with arguments from the 'CUDA' backend",
    ),
]


@pytest.mark.parametrize(("rule", "text"), [c[1:] for c in NEAR], ids=[f"{c[1]}: {c[0]}" for c in NEAR])
def test_a_near_miss_is_left_alone(rule: str, text: str) -> None:
    left_alone(text, rule)
