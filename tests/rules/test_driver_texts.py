"""Driver, GPU and CPU: what people pasted in public threads, re-typed and condensed, and the cause that was found.

The id of each case names the thread. The wordings differ from era to era; the rule has to be the same.
"""

from __future__ import annotations

import pytest

from tests.rules.texts import left_alone, named, three_wordings


CASES = [
    # --- driver-too-old
    (
        "rikdz/GraphWriter#6 (2019, CUDA 6.5 driver)",
        "driver-too-old",
        """The NVIDIA driver on your system is too old (found version 6050).
Please update your GPU driver by downloading and installing a new
version from the URL: http://www.nvidia.com/Download/index.aspx
Alternatively, go to: https://pytorch.org to install
a PyTorch version that has been compiled with your version
of the CUDA driver.""",
    ),
    (
        "daniilidis-group/neural_renderer#121 (1.7.1 on a CUDA 10.1 driver)",
        "driver-too-old",
        "torch 1.7.1+cu102\nRuntimeError: The NVIDIA driver on your system is too old (found version 10010). Please update your GPU driver",
    ),
    (
        "BobLiu20/YOLOv3_PyTorch#12 (THC, runtime error 35)",
        "driver-too-old",
        "RuntimeError: cuda runtime error (35) : CUDA driver version is insufficient for CUDA runtime version at "
        "/opt/conda/conda-bld/pytorch_1524586445097/work/aten/src/THC/THCGeneral.cpp:70",
    ),
    (
        "NVIDIA/DeepLearningExamples#251 (DALI)",
        "driver-too-old",
        "RuntimeError: CUDA runtime API error cudaErrorInsufficientDriver (35):\nCUDA driver version is insufficient for CUDA runtime version",
    ),
    (
        "SyneRBI/PETRIC2#27 (container toolkit refuses the image)",
        "driver-too-old",
        """docker: Error response from daemon: failed to create task for container: error running prestart hook #0: exit status 1, stdout: , stderr: Auto-detected mode as 'legacy'
nvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.8, please update your driver to a newer version, or use an earlier cuda container
| NVIDIA-SMI 551.78                 Driver Version: 551.78         CUDA Version: 12.4     |""",
    ),
    (
        "NVIDIA/nvidia-docker#543 (2017, broken over two lines)",
        "driver-too-old",
        "docker: Error response from daemon: oci runtime error: container_linux.go:265: nvidia-container-cli: requirement error: unsatisfied condi\ntion: cuda >= 9.0",
    ),
    (
        "BachiLi/diffvg#84 (PTX newer than the driver)",
        "driver-too-old",
        "CUDA Runtime Error: the provided PTX was compiled with an unsupported toolchain. at diffvg/scene.cpp:35",
    ),
    (
        "vllm-project/vllm#31700 (PTX, AcceleratorError)",
        "driver-too-old",
        "(EngineCore_DP0 pid=15638) ERROR 01-05 12:12:01 [core.py:842] torch.AcceleratorError: CUDA error: the provided PTX was compiled with an unsupported toolchain.",
    ),
    # --- nvidia-driver-not-loaded
    (
        "NVIDIA/nvidia-docker#988",
        "nvidia-driver-not-loaded",
        "$ nvidia-smi\nNVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure\n > that the latest NVIDIA driver is installed and running.",
    ),
    (
        "qixuema/envs#4 (typographic apostrophe)",
        "nvidia-driver-not-loaded",
        "NVIDIA-SMI has failed because it couldn‘t communicate with the NVIDIA driver.\nMake sure that the latest NVIDIA driver is installed and running.",
    ),
    (
        "mattshma/bigdata#133 (dmesg: nouveau has the GPU)",
        "nvidia-driver-not-loaded",
        """[188497.595099] NVRM: No NVIDIA graphics adapter probed!
[188549.976351] NVRM: The NVIDIA probe routine was not called for 3 device(s).
[188549.977053] NVRM: This can occur when a driver such as:
NVRM: nouveau, rivafb, nvidiafb or rivatv
NVRM: was loaded and obtained ownership of the NVIDIA device(s).""",
    ),
    (
        "NVIDIA/nvidia-docker#365 (module missing for the new kernel)",
        "nvidia-driver-not-loaded",
        "$ sudo modprobe nvidia\nmodprobe: FATAL: Module nvidia not found.\n$ uname -r\n3.13.0-116-generic",
    ),
    (
        "a k8s node whose host has no driver (NVIDIA/k8s-device-plugin wording)",
        "nvidia-driver-not-loaded",
        "could not load NVML library: libnvidia-ml.so.1: cannot open shared object file: No such file or directory",
    ),
    # --- driver-kernel-incompatible
    (
        "void-linux/void-packages#48504 and NVIDIA/gpu-operator#729 (modpost)",
        "driver-kernel-incompatible",
        "ERROR: modpost: GPL-incompatible module nvidia.ko uses GPL-only symbol 'rcu_read_unlock_strict'",
    ),
    (
        "M-Bab/linux-kernel-amdgpu-binaries#101 (DKMS)",
        "driver-kernel-incompatible",
        """NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA driver is installed and running.
$ sudo dkms install -m nvidia -v 470.86
Building module:
cleaning build area...
ERROR (dkms apport): kernel package linux-headers-5.13.18-21.09.16.amdgpu.ubuntu is not supported
Error! Bad return status for module build on kernel: 5.13.18-21.09.16.amdgpu.ubuntu (x86_64)""",
    ),
    (
        "NVIDIA/open-gpu-kernel-modules#497 (compiler error of the module)",
        "driver-kernel-incompatible",
        """/var/lib/dkms/nvidia/530.30.02/build/nvidia/nv-mmap.c:680:23: error: assignment of read-only member 'vm_flags'
make[2]: *** [scripts/Makefile.build:252: /var/lib/dkms/nvidia/530.30.02/build/nvidia/nv-mmap.o] Error 1""",
    ),
    # --- driver-cannot-init-gpu
    (
        "NVIDIA/open-gpu-kernel-modules#789 (GSP)",
        "driver-cannot-init-gpu",
        """nvidia-smi
No devices were found
[  903.609564] NVRM: RmInitAdapter: Cannot initialize GSP firmware RM
[  903.610907] NVRM: GPU 0000:98:00.0: RmInitAdapter failed! (0x62:0x65:1792)""",
    ),
    (
        "system76/firmware-open#66 (BAR0 is 0M)",
        "driver-cannot-init-gpu",
        """[   28.109029] NVRM: This PCI I/O region assigned to your NVIDIA device is invalid:
               NVRM: BAR0 is 0M @ 0x0 (PCI:0000:06:00.0)
[   28.109032] NVRM: The system BIOS may have misconfigured your GPU.""",
    ),
    (
        "NVIDIA/gpu-operator#649 (a virtual machine)",
        "driver-cannot-init-gpu",
        "[ 1097.650222] NVRM: GPU 0000:04:01.0: RmInitAdapter failed! (0x11:0x45:2525)\n[ 1097.650377] NVRM: GPU 0000:04:01.0: rm_init_adapter failed, device minor number 0",
    ),
    # --- driver-gpu-unsupported
    (
        "kernel text of the proprietary module on a Blackwell card",
        "driver-gpu-unsupported",
        """NVRM: The NVIDIA GPU 0000:01:00.0 (PCI ID: 10de:2b85)
NVRM: installed in this system requires use of the NVIDIA open kernel modules.""",
    ),
    (
        "kernel text of a driver that dropped Kepler",
        "driver-gpu-unsupported",
        """NVRM: The NVIDIA GPU at PCI:4:0:0, 10de:1024, is
NVRM: supported through the NVIDIA 470.xx Legacy drivers. Please
NVRM: visit http://www.nvidia.com/object/unix.html for more information.""",
    ),
    (
        "kernel text of the open module on a Pascal card",
        "driver-gpu-unsupported",
        "NVRM: installed in this vgpu host system is not supported by open nvidia.ko because it does not include the required GPU\nNVRM: System Processor (GSP).",
    ),
    # --- nvml-driver-library-mismatch
    (
        "zzzhouuu/truenas-nvidia-drivers#19",
        "nvml-driver-library-mismatch",
        """# nvidia-smi
Failed to initialize NVML: Driver/library version mismatch
NVML library version: 580.178
# cat /proc/driver/nvidia/version
NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.173.02  Tue Jun 23 08:38:17 UTC 2026""",
    ),
    (
        "rajeshroy402/DeepStream-dGPU-Installation#5 (other capitals)",
        "nvml-driver-library-mismatch",
        "Failed to initialize NVML: Driver/Library version mismatch",
    ),
    (
        "kernel log of the same fault",
        "nvml-driver-library-mismatch",
        """NVRM: API mismatch: the client has the version 525.105.17, but
NVRM: this kernel module has the version 525.85.12.  Please
NVRM: make sure that this kernel module and all NVIDIA driver
NVRM: components have the same version.""",
    ),
    # --- driver-libcuda-mismatch
    (
        "easydiffusion/easydiffusion#379 (torch 1.11)",
        "driver-libcuda-mismatch",
        "UserWarning: CUDA initialization: Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before calling NumCudaDevices() that might have already set an error? "
        "Error 803: system has unsupported display driver / cuda driver combination (Triggered internally at c10/cuda/CUDAFunctions.cpp:112.)",
    ),
    (
        "NVIDIA/nvidia-docker#1256 (caffe style)",
        "driver-libcuda-mismatch",
        "CUDA: Check failed: e == cudaSuccess (803 vs. 0) : system has unsupported display driver / cuda driver combination",
    ),
    (
        "a mixture of packages on Ubuntu (dpkg -l)",
        "driver-libcuda-mismatch",
        """ii  libnvidia-compute-535:amd64   535.183.01-0ubuntu0.22.04.1   amd64   NVIDIA libcompute package
ii  libnvidia-gl-550:amd64        550.107.02-0ubuntu0.22.04.1   amd64   NVIDIA OpenGL libraries
ii  nvidia-kernel-common-535      535.183.01-0ubuntu0.22.04.1   amd64   Shared files used with the kernel module""",
    ),
    # --- cuda-forward-compat
    (
        "NVIDIA/TensorRT-LLM#1806",
        "cuda-forward-compat",
        "UserWarning: CUDA initialization: Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before calling NumCudaDevices() that might have already set an error? "
        "Error 804: forward compatibility was attempted on non supported HW (Triggered internally at ../c10/cuda/CUDAFunctions.cpp:108.)",
    ),
    (
        "microsoft/onnxruntime#21435",
        "cuda-forward-compat",
        "EP Error cuda_call.cc:123 CUDA failure 804: forward compatibility was attempted on non supported HW ; GPU=0",
    ),
    (
        "Atinoda/text-generation-webui-docker#37 (4090, driver 525)",
        "cuda-forward-compat",
        """| NVIDIA-SMI 525.125.06   Driver Version: 525.125.06   CUDA Version: 12.0     |
|   0  NVIDIA GeForce RTX 4090  On   | 00000000:01:00.0 Off |                  Off |
RuntimeError: Error 804: forward compatibility was attempted on non supported HW""",
    ),
    # --- fabric-manager-not-running
    (
        "torch/torch7#1219 (THC, 2020)",
        "fabric-manager-not-running",
        "RuntimeError: cuda runtime error (802) : system not yet initialized at /opt/conda/conda-bld/pytorch_1579022034529/work/aten/src/THC/THCGeneral.cpp:50",
    ),
    (
        "wilicc/gpu-burn#92 (driver API)",
        "fabric-manager-not-running",
        "GPU 0: NVIDIA H100 80GB HBM3\nCouldn't init CUDA: Error (gpu_burn-drv.cpp:298): system not yet initialized",
    ),
    (
        "jax-ml/jax#34113 (CUresult name)",
        "fabric-manager-not-running",
        "jaxlib/cuda/versions_helpers.cc:113: operation cuInit(0) failed: CUDA_ERROR_SYSTEM_NOT_READY",
    ),
    # --- cuda-unknown-error
    (
        "pytorch/pytorch#31179 (2019, error 999)",
        "cuda-unknown-error",
        "THCudaCheck FAIL file=/opt/conda/conda-bld/pytorch_1573049306803/work/aten/src/THC/THCGeneral.cpp line=50 error=999 : unknown error\n"
        "RuntimeError: cuda runtime error (999) : unknown error at THCGeneral.cpp:50",
    ),
    (
        "pytorch/pytorch#1778 (2017, error 30)",
        "cuda-unknown-error",
        "RuntimeError: cuda runtime error (30) : unknown error at /py/conda-bld/pytorch_1493681908901/work/torch/lib/THC/THCGeneral.c:66",
    ),
    (
        "NixOS/nixpkgs#348769 (after waking up)",
        "cuda-unknown-error",
        "torch/cuda/__init__.py:128: UserWarning: CUDA initialization: CUDA unknown error - this may be due to an incorrectly set up environment, e.g. changing env variable CUDA_VISIBLE_DEVICES "
        "after program start. Setting the available devices to be zero.\nFalse",
    ),
    # --- gpu-exclusive-mode
    (
        "pytorch/pytorch#3871 (2017)",
        "gpu-exclusive-mode",
        "RuntimeError: cuda runtime error (46) : all CUDA-capable devices are busy or unavailable at THCStorage.cu:66",
    ),
    (
        "pytorch/pytorch#100691 (2023)",
        "gpu-exclusive-mode",
        "RuntimeError: CUDA error: CUDA-capable device(s) is/are busy or unavailable\nCUDA kernel errors might be asynchronously reported at some other API call",
    ),
    (
        "cBio/cbio-cluster#293 (E. Thread in an old screen)",
        "gpu-exclusive-mode",
        """| NVIDIA-SMI 346.46     Driver Version: 346.46         |
| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |
| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | GPU-Util  Compute M. |
|===============================+======================+======================|
|   0  GeForce GTX 680     Off  | 0000:03:00.0     N/A |                  N/A |
| 30%   41C    P0    N/A /  N/A |    461MiB /  4095MiB |     N/A    E. Thread |
cuda runtime error (46) : all CUDA-capable devices are busy or unavailable""",
    ),
    # --- gpu-hardware-fault
    (
        "nagadit/DeepFaceLab_Linux#89 (driver API)",
        "gpu-hardware-fault",
        "failed call to cuDevicePrimaryCtxRetain: CUDA_ERROR_ECC_UNCORRECTABLE: uncorrectable ECC error encountered",
    ),
    (
        "JosephKJ/OWOD#81 (GPU is lost)",
        "gpu-hardware-fault",
        "Unable to determine the device handle for GPU 0000:02:00.0: GPU is lost.  Reboot the system to recover this GPU",
    ),
    (
        "pytorch/pytorch#74235 (comment of 2023-02-27)",
        "gpu-hardware-fault",
        "RuntimeError: CUDA error: unspecified launch failure\n"
        "NVRM: Xid (PCI:0000:01:00): 109, pid=4124, name=python, Ch 00000028, errorString CTX SWITCH TIMEOUT, Info 0x2c014",
    ),
    (
        "the wording of newer drivers",
        "gpu-hardware-fault",
        "kernel: NVRM: Xid (PCI:0000:01:00): 109, pid=77956, name=python, channel 0x0000000f, errorString CTX SWITCH TIMEOUT, Info 0x1c016\n"
        "torch.AcceleratorError: CUDA error: unspecified launch failure\nSearch for `cudaErrorLaunchFailure' in the documentation",
    ),
    (
        "NVIDIA/open-gpu-kernel-modules#446 (GSP, Xid 119)",
        "gpu-hardware-fault",
        "NVRM: Xid (PCI:0000:0b:00): 119, pid=1234, name=python, Timeout after 6s of waiting for RPC response from GPU0 GSP! Expected function 76.",
    ),
    (
        "dmesg of a double-bit ECC error",
        "gpu-hardware-fault",
        "[ 1512.2] NVRM: Xid (PCI:0000:3b:00): 48, pid='<unknown>', An uncorrectable double bit error (DBE) has been detected on GPU",
    ),
    # --- cpu-lacks-avx
    (
        "pytorch/pytorch#22338 (QEMU CPU)",
        "cpu-lacks-avx",
        """$ lscpu
Model name:            QEMU Virtual CPU version 1.5.3
Flags:                 fpu de pse tsc msr pae mce cx8 apic sep mtrr pge mca cmov pse36 clflush mmx fxsr sse sse2 ht syscall nx lm rep_good nopl pni cx16 hypervisor lahf_lm abm
Thread 1 "python" received signal SIGILL, Illegal instruction.""",
    ),
    (
        "informagi/REL#53",
        "cpu-lacks-avx",
        "$ python -c 'import torch'\nIllegal instruction (core dumped)\nPyTorch 1.6.0, Intel(R) Xeon(R) CPU           X5650  @ 2.67GHz",
    ),
    (
        "zsh's wording (pytorch/pytorch#2714)",
        "cpu-lacks-avx",
        "[1]    122549 illegal hardware instruction (core dumped)  python predict.py",
    ),
    # --- mig
    (
        "pytorch/pytorch#131650",
        "mig",
        """GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-00000000-0000-0000-0000-000000000000)
  MIG 1g.5gb      Device  0: (UUID: MIG-00000000-0000-0000-0000-000000000000)
RuntimeError: device >= 0 && device < num_gpus INTERNAL ASSERT FAILED at "/opt/conda/conda-bld/pytorch_1720538439675/work/aten/src/ATen/cuda/CUDAContext.cpp":49""",
    ),
    (
        "vllm-project/vllm#6551 (UUID read as a number)",
        "mig",
        "ValueError: invalid literal for int() with base 10: 'MIG-89c850dc-38e3-57df-85c7-690c186b68e9'",
    ),
    (
        "pytorch/pytorch#92315 (the second slice does not exist for CUDA)",
        "mig",
        """$ CUDA_VISIBLE_DEVICES=MIG-00000000-0000-0000-0000-000000000000,MIG-00000000-0000-0000-0000-000000000001 python -c "import torch; print(torch.randn(1).cuda(1))"
GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-00000000-0000-0000-0000-000000000000)
  MIG 3g.20gb     Device  0: (UUID: MIG-00000000-0000-0000-0000-000000000000)
  MIG 3g.20gb     Device  1: (UUID: MIG-00000000-0000-0000-0000-000000000001)
RuntimeError: CUDA error: invalid device ordinal""",
    ),
    # --- cuda-visible-devices
    (
        "Grace9994/CoMoSVC#6",
        "cuda-visible-devices",
        "os.environ[\"CUDA_VISIBLE_DEVICES\"]='1'\nRuntimeError: No CUDA GPUs are available",
    ),
    (
        "yihong-chen/neural-collaborative-filtering#1 (2018)",
        "cuda-visible-devices",
        "RuntimeError: cuda runtime error (10) : invalid device ordinal at torch/csrc/cuda/Module.cpp:32",
    ),
    (
        "qubvel-org/segmentation_models.pytorch#289",
        "cuda-visible-devices",
        "$ CUDA_VISIBLE_DEVICES=5 python gpu_test.py\nRuntimeError: CUDA error: invalid device ordinal",
    ),
    (
        "Colab without an accelerator",
        "cuda-visible-devices",
        "/usr/local/lib/python3.10/dist-packages/torch/cuda/__init__.py in _lazy_init()\nRuntimeError: No CUDA GPUs are available\nGoogle Colab",
    ),
]


@pytest.mark.parametrize(("rule", "text"), [c[1:] for c in CASES], ids=[f"{c[1]}: {c[0]}" for c in CASES])
def test_the_cause_is_named_first(rule: str, text: str) -> None:
    assert named(text, rule).severity == "error"


def test_every_cause_has_three_wordings() -> None:
    three_wordings(rule for _, rule, _ in CASES)


NEAR = [
    (
        "driver 535 runs a cu128 build (minor-version compatibility)",
        "driver-too-old",
        "PyTorch version: 2.8.0+cu128\nCUDA used to build PyTorch: 12.8\nOS: Ubuntu 22.04.5 LTS (x86_64)\nIs CUDA available: True\nNvidia driver version: 535.183.01",
    ),
    (
        "the same without a word about availability",
        "driver-too-old",
        "torch==2.8.0+cu128\nUbuntu 22.04\n| NVIDIA-SMI 535.183.01    Driver Version: 535.183.01    CUDA Version: 12.2     |",
    ),
    (
        "a driver newer than the build",
        "driver-too-old",
        "PyTorch version: 2.1.0+cu118\nCUDA used to build PyTorch: 11.8\nOS: Ubuntu 20.04\nNvidia driver version: 580.95.05",
    ),
    (
        "a PCIe error that was corrected",
        "gpu-hardware-fault",
        "[74785.660366] pcieport 0000:00:02.0: AER: Corrected error received: id=0010",
    ),
    (
        "an Xid of a program",
        "gpu-hardware-fault",
        "NVRM: Xid (PCI:0000:01:00): 31, pid=4242, name=python, Ch 00000008, MMU Fault",
    ),
    (
        "a dpkg list of one release",
        "driver-libcuda-mismatch",
        "ii  libnvidia-compute-535:amd64 535.183.01-0ubuntu1 amd64\nii  nvidia-utils-535 535.183.01-0ubuntu1 amd64\nii  libnvidia-container1:amd64 1.16.2-1 amd64",
    ),
    (
        "somebody mentions exclusive mode",
        "gpu-exclusive-mode",
        "we set the compute mode to exclusive last year and it works",
    ),
    ("an ordinary word", "cuda-unknown-error", "ConnectionError: unknown error while downloading"),
    (
        "a machine of Apple",
        "nvidia-driver-not-loaded",
        "OS: macOS 14.5 (arm64)\nPyTorch version: 2.4.0\nFound no NVIDIA driver on your system",
    ),
]


@pytest.mark.parametrize(("rule", "text"), [c[1:] for c in NEAR], ids=[f"{c[1]}: {c[0]}" for c in NEAR])
def test_a_near_miss_is_left_alone(rule: str, text: str) -> None:
    left_alone(text, rule)
