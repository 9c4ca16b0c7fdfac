"""Known error texts of containers, WSL, ROCm, XPU and Apple's MPS.

Wordings follow docker and podman, nvidia-container-cli and nvidia-ctk, the kernel's amdgpu/kfd, ROCm's runtime and
rocBLAS, torch's XPU and MPS back ends.
"""

from __future__ import annotations

from envcheck.symptoms.base import Signature

_CONTAINER = (
    Signature(
        "docker-no-gpu-runtime",
        (
            "could not select device driver",
            "invalid runtime name: nvidia",
            "unknown runtime specified nvidia",
            "unresolvable cdi devices",
            "gpu vendor from cdi",
            "nvidia-container-runtime",
            "nvidia-container-cli",
            "nvidia.com/gpu",
            'no runtime for "nvidia"',
        ),
        r"could not select device driver \W{0,3}(?:nvidia)?\W{0,3} ?with capabilities: \[\[[^\]]*(?:gpu|compute|utility)"
        r"|(?:unknown or invalid runtime name: nvidia|Unknown runtime specified nvidia)"
        r"|no runtime for \W{1,2}nvidia\W{1,2} is configured"
        r"|unresolvable CDI devices|failed to discover GPU vendor from CDI"
        r"|nvidia-container-(?:runtime|cli)[\w-]*\W{1,4}(?:executable file )?not (?:found|installed)"
        r"|nvidia-container-runtime[\w-]*[^\n]{0,40}no such file"
        r"|stat nvidia\.com/gpu[^\n]{0,20}: no such file",
    ),
    Signature(
        "k8s-no-gpu",
        (
            "insufficient nvidia.com/gpu",
            "no devices found. waiting indefinitely",
            "detected non-nvml platform",
            "devices unavailable for nvidia.com/gpu",
            "set the docker default runtime to",
            "did you configure the nvidia container toolkit",
        ),
        r"Insufficient nvidia\.com/gpu|No devices found\. Waiting indefinitely|Detected non-NVML platform"
        r"|requested number of devices unavailable for nvidia\.com/gpu"
        # NVIDIA's device plugin, whose own container got no driver library.
        r"|(?P<plugin>did you (?:set the docker default runtime to \W?nvidia|configure the NVIDIA Container Toolkit))",
    ),
    Signature(
        "docker-of-snap",
        ("snap install docker", "/snap/docker/", "/snap/bin/docker", "snap.docker."),
        r"snap install docker\b|/snap/docker/|/snap/bin/docker\b|\bsnap\.docker\.",
    ),
    Signature(
        "container-cli-no-driver",
        (
            "nvml error: driver not loaded",
            "load library failed: libnvidia-ml",
            "could not load nvml",
            "driver rpc error",
        ),
        r"nvml error: driver not loaded|load library failed: libnvidia-ml\.so|could not load NVML(?: library)?: ?"
        r"|driver rpc error: ",
    ),
    Signature(
        "container-cli-no-device",
        ("nvidia-container-cli: device error", "no cuda-capable device", "unknown device id"),
        r"nvidia-container-cli[^\n]{0,200}(?:unknown device(?: id)?|no CUDA-capable device)",
    ),
    Signature(
        "container-cli-wsl",
        ("driver error: failed to process request", "no adapters were found", "dxcore"),
        r"driver error: failed to process request|WSL environment detected but no adapters were found"
        r"|failed to initiali[sz]e dxcore",
    ),
    Signature(
        "container-cgroups",
        (
            "devices.allow",
            "bpf_cgroup_device",
            "cgroup subsystem devices not found",
            "mountpoint for devices not found",
        ),
        r"devices\.allow[^\n]{0,20}(?:permission denied|not permitted)|mountpoint for devices not found"
        r"|BPF_CGROUP_DEVICE[^\n]{0,40}(?:not permitted|failed)"
        r"|cgroup subsystem devices not found",
    ),
    Signature(
        "container-driver-files",
        (": file exists",),
        r"nvidia-container-cli[^\n]{0,400}(?:libnvidia-ml|libcuda)\.so[^\n]{0,40}file exists",
    ),
    Signature(
        "nvml-unknown",
        ("failed to initialize nvml: unknown error", "nvmlerror_unknown", "nvml error: unknown error"),
        r"Failed to initialize NVML: Unknown Error|NVMLError_Unknown|nvml error: unknown error",
    ),
    Signature(
        "nvml-permission",
        ("nvml: insufficient permissions", "nvmlerror_nopermission"),
        r"NVML: Insufficient Permissions|NVMLError_NoPermission",
    ),
    Signature(
        "nvidia-node-missing",
        ("/dev/nvidia",),
        r"(?P<node>/dev/nvidia(?:ctl|-uvm(?:-tools)?|-modeset|-caps/\S+|\d{1,3}))\b[^\n]{0,60}(?:no such file|cannot access|"
        r"not permitted|permission denied|ENOENT|EACCES|EPERM|missing|not found)"
        r"|(?:cannot access|no such file|not permitted|permission denied|gathering device information)[^\n]{0,80}"
        r"(?P<node2>/dev/nvidia(?:ctl|-uvm(?:-tools)?|-modeset|-caps/\S+|\d{1,3}))\b",
    ),
)

_WSL = (
    Signature(
        "gpu-access-blocked",
        ("gpu access blocked by the operating system",),
        r"GPU access blocked by the operating system",
    ),
    Signature(
        "smi-cuda-error",
        ("cuda version: err!",),
        r"Driver Version: *(?P<driver>[\d.]{3,12})[^\n]{0,40}CUDA Version: *ERR!",
    ),
    Signature(
        "cuda-init-oom",
        ("error 2: out of memory",),
        r"(?:cudaGetDeviceCount|CUDA initialization)[\s\S]{0,300}Error 2: out of memory",
        before=2,
    ),
    Signature(
        "cuda-os-call-failed",
        (
            "os call failed or operation not supported",
            "cudaerroroperatingsystem",
            "cuda_error_operating_system",
            "error 304",
        ),
        (
            r"OS call failed or operation not supported on this OS|cudaErrorOperatingSystem"
            r"|CUDA_ERROR_OPERATING_SYSTEM|\bError 304\b"
        ),
    ),
    Signature(
        "cuda-not-supported",
        ("operation not supported", "cudaerrornotsupported", "cuda_error_not_supported"),
        r"(?:CUDA error|cuda runtime error \((?:71|801)\) ?): operation not supported\b|Error 801: "
        r"operation not supported"
        r"|cudaErrorNotSupported|CUDA_ERROR_NOT_SUPPORTED",
    ),
    Signature(
        "wsl-libcuda",
        ("libcuda.so", "libdxcore"),
        r"libcuda\.so(?:\.1)?: (?:file too short|cannot open shared object file)|libdxcore\.so: cannot open",
    ),
    Signature(
        "cuda-symbol-not-found",
        ("named symbol not found", "cudaerrorsymbolnotfound", "error 500"),
        r"\bError 500: named symbol not found|CUDA error: named symbol not found|cudaErrorSymbolNotFound",
    ),
)

_ROCM = (
    Signature(
        "kfd-open",
        ("unable to open /dev/kfd", 'custom device "/dev/kfd"', "open /dev/kfd", "/dev/kfd:"),
        r"/dev/kfd\W{0,3}(?: read-write)?:? ?(?P<reason>Permission denied|No such file or directory"
        r"|Cannot allocate memory"
        r"|Operation not permitted|Invalid argument|Bad file descriptor|Device or resource busy)",
    ),
    Signature(
        "rock-not-loaded",
        ("rock module is not loaded",),
        r"ROCk module is NOT loaded",
    ),
    Signature(
        "not-in-render-group",
        ("member of", "video group membership"),
        r"user is (?:not (?:a )?member of|not in) (?:the )?\W?(?:render|video)\W? ?(?:group)?"
        r"|Failed to get user name to check for (?:video|render) group membership",
    ),
    Signature("in-render-group", ("is member of",), r"user is member of (?:the )?\W?(?:render|video)\W? group"),
    Signature(
        "no-hip-gpus",
        (
            "no hip gpus are available",
            "no rocm-capable device is detected",
            "hiperrornodevice",
            "could not initialize tensile host: no devices found",
        ),
        r"No HIP GPUs are available|no ROCm-capable device is detected|hipErrorNoDevice|Tensile host: No devices found",
    ),
    Signature(
        "hip-no-binary",
        (
            "hip error: invalid",
            "rocm error: invalid",
            "hiperrornobinaryforgpu",
            "hiperrorinvaliddevicefunction",
            "for gpu arch",
            "device kernel image is invalid",
            "hsa_status_error_invalid_isa",
            "hiperrorinvalidimage",
            "no kernel image is available",
        ),
        # "ROCm error:" is how ggml, which runs by torch in many programs, names the same errors of HIP.
        r"(?:HIP|ROCm) error: (?:invalid (?:device function|kernel file)|device kernel image is invalid|no kernel image)"
        r"|hipErrorNoBinaryForGpu|hipErrorInvalid(?:DeviceFunction|Image)|HSA_STATUS_ERROR_INVALID_ISA"
        r"|(?:TensileLibrary|rocBLAS)[^\n]{0,200}for GPU arch ?:? ?(?P<gfx>gfx\w+)",
    ),
    Signature(
        "kfd-unsupported",
        ("not supported in kfd", "is not supported by kfd", "pci rejects atomics", "is unsupported in kfd"),
        r"(?:amdgpu:|kfd[: ])\s*(?P<chip>[A-Z][\w ]{1,30}?)\s+(?:is )?(?:not supported|unsupported) (?:in|by) kfd"
        r"|skipped device (?P<device>[0-9a-fA-F]{4}:[0-9a-fA-F]{4}), PCI rejects atomics",
    ),
    Signature("gfx-name", ("gfx1", "gfx9", "gfx8", "gfx7", "gfx6"), r"\b(?P<gfx>gfx(?:[6-9]\d[0-9a-f]|1[0-9]\d\d))\b"),
    Signature("rocm-targets", ("gfx",), r"^\W{0,2}(?P<targets>gfx\w{3,5}(?:[;, ]+gfx\w{3,5}){1,30})\W{0,2}$"),
    Signature(
        "gpu-memory-fault",
        ("memory access fault by gpu", "hsa_status_error_memory_aperture_violation", "hsa_status_error_memory_fault"),
        r"Memory access fault by GPU node-\d+|HSA_STATUS_ERROR_MEMORY_(?:APERTURE_VIOLATION|FAULT)\b",
    ),
)

_XPU = (
    Signature(
        "xpu-init-failed",
        ("failed to initialize xpu devices",),
        r"Failed to initialize XPU devices",
    ),
    Signature(
        "no-xpu-devices",
        (
            "no xpu devices are available",
            "xpu device count is zero",
            "no device of requested type available",
            "pi_error_device_not_found",
        ),
        (
            r"No XPU devices are available|XPU device count is zero|No device of requested type available"
            r"|PI_ERROR_DEVICE_NOT_FOUND"
        ),
    ),
    Signature(
        "level-zero-missing",
        ("libze_loader", "ze_result_error_uninitialized", "ze_result_error_unsupported"),
        r"libze_loader\.so(?:\.1)?: cannot open|ZE_RESULT_ERROR_UNINITIALIZED|ze_loader\.dll",
    ),
    Signature(
        "render-node-denied",
        ("/dev/dri",),
        r"(?P<node>/dev/dri(?:/(?:renderD|card)\d+)?)\W[^\n]{0,40}(?:Permission denied|EACCES|not permitted)"
        r"|(?:Permission denied|not permitted|Failed to open)[^\n]{0,60}(?P<node2>/dev/dri/(?:renderD|card)\d+)",
    ),
    Signature(
        "fell-back-to-cpu",
        ("device: cpu", "device cpu", "using cpu", "device = cpu", "running on cpu", "device is cpu", "device='cpu'"),
        (
            r"\b(?:using|selected|running|current|compute|torch)?[ _]?device\b\W{0,4}(?:is )?\(?\W{0,6}cpu\b"
            r"|\b(?:using|running on) (?:the )?cpu\b"
        ),
    ),
)

_MPS = (
    Signature(
        "mps-macos-text",
        ("mps backend is supported on",),
        r"MPS backend is supported on mac ?os (?P<floor>\d+(?:\.\d+)?)\+?",
    ),
    Signature(
        "mps-not-available",
        (
            "mps backend is not available",
            "mps not available because",
            "mps is not available",
            "mps device not found",
            "mps_available false",
            "mps_available: false",
        ),
        r"MPS backend is not available|MPS not available because the (?:current )?(?P<reason>MacOS version"
        r"|current PyTorch install|PyTorch install)?"
        r"|MPS (?:is not available|device not found)|mps_available\W{1,3}False",
    ),
    Signature(
        "mps-not-linked",
        ("linked with support for mps", "not built with mps", "arguments from the 'mps' backend"),
        # The making of an empty tensor is what every backend has: without it there is no backend.
        r"not linked with support for mps devices|not built with MPS(?: enabled)?"
        r"|Could not run 'aten::empty[\w.]{0,40}' with arguments from the 'MPS' backend",
    ),
    Signature(
        "mps-op",
        (
            "for the mps device",
            "on mps",
            "for 'mps'",
            "mps does not support",
            "on the mps",
            "at the mps device",
            "mps: unsupported",
            "for mps",
            "arguments from the 'mps' backend",
        ),
        r"Could not run '(?P<op6>(?!aten::empty)[\w:.]{3,80})' with arguments from the 'MPS' backend"
        r"|(?P<limit>[\w >]{3,40}) not supported at the MPS device"
        r"|operator '(?P<op>[\w:.]{1,80})' is not current(?:ly)? implemented for the MPS device"
        r"|\b(?P<op2>[\w:.]{1,80})'? (?:is |are )?not (?:supported|implemented) (?:on|for|in) (?:the )?'?MPS\b"
        r"|MPS does not support (?P<op3>[\w/]+)"
        r"|\"(?P<op4>\w+)\" not implemented for 'MPS'"
        r"|(?P<op5>\w{1,60}) (?:op |operation )?is (?:only |natively )?supported (?:natively )?(?:starting from"
        r"|on|in) macOS",
    ),
    Signature(
        "mps-limit",
        ("total bytes of ndarray", "mpsndarray", "mpsgraph"),
        r"total bytes of NDArray > 2\*\*32|failed assertion `?\[MPS\w+",
    ),
    Signature(
        "metal-blocked",
        (
            "mtlcreatesystemdefaultdevice",
            "no metal device",
            "metal device is nil",
            "iogpu",
            "iokit",
            "mtlcompilerservice",
        ),
        r"MTLCreateSystemDefaultDevice[^\n]{0,40}(?:nil|null|fail)|No Metal device|Metal device is nil"
        r"|sandbox[^\n]{0,80}(?:iokit|IOGPU|MTLCompilerService|Metal)|deny[^\n]{0,40}(?:iokit-open"
        r"|mach-lookup)[^\n]{0,80}(?:AGX|IOGPU|MTLCompiler)",
    ),
)

SIGNATURES: tuple[Signature, ...] = (*_CONTAINER, *_WSL, *_ROCM, *_XPU, *_MPS)
