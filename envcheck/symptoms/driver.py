"""Known error texts about the NVIDIA driver, the GPU itself and the CPU.

Wordings follow the messages of torch (c10/cuda/CUDAFunctions.cpp, THC before 1.8), the CUDA runtime and driver API,
NVML, nvidia-smi, the NVIDIA installer, DKMS and the kernel log (NVRM), each in the forms of its eras.
"""

from __future__ import annotations

from envcheck.symptoms.base import Signature

_TOO_OLD = (
    Signature(
        "driver-too-old-text",
        ("driver on your system is too old",),
        r"NVIDIA driver on your system is too old(?:[^\n]{0,40}\(found version (?P<found>\d{4,5})\))?",
    ),
    Signature(
        "driver-insufficient",
        (
            "cuda driver version is insufficient",
            "cudaerrorinsufficientdriver",
            "not supported in the installed cuda driver",
            "cudaerrorcallrequiresnewerdriver",
            "initialization failure with error: 35",
        ),
        r"CUDA driver version is insufficient for CUDA runtime version|cudaErrorInsufficientDriver"
        r"|API call is not supported in the installed CUDA driver|cudaErrorCallRequiresNewerDriver"
        r"|CUDA initialization failure with error: 35\b",
    ),
    Signature(
        "container-require-cuda",
        ("unsatisfied condi", "unsupported cuda version: driver"),
        r"unsatisfied\s+condi\s*tion:?\s*(?:cuda\s*>=\s*(?P<needs>\d+\.\d+)|brand|driver)"
        # nvidia-docker 1
        r"|unsupported CUDA version: driver (?P<has>[1-9]\d?\.\d) < image (?P<needs2>\d{1,2}\.\d)",
        after=1,
    ),
    Signature(
        "ptx-toolchain",
        (
            "compiled with an unsupported toolchain",
            "cudaerrorunsupportedptxversion",
            "cuda_error_unsupported_ptx_version",
        ),
        (
            r"PTX was compiled with an unsupported toolchain|(?:cudaErrorUnsupportedPtxVersion"
            r"|CUDA_ERROR_UNSUPPORTED_PTX_VERSION)"
        ),
    ),
    Signature(
        "driver-requirement-note",
        ("failed to detect nvidia driver version", "this container was built for nvidia driver release"),
        r"This container was built for NVIDIA Driver Release (?P<needs>[\d.]+)|Failed to detect NVIDIA driver version",
        after=2,
    ),
)

_NO_DRIVER = (
    Signature("no-nvidia-driver", ("found no nvidia driver on your system",), r"Found no NVIDIA driver on your system"),
    Signature(
        "cuda-driver-init-failed",
        ("cuda driver initialization failed",),
        r"CUDA driver initialization failed, you might not have a CUDA gpu",
    ),
    Signature("no-cuda-gpus", ("no cuda gpus are available",), r"No CUDA GPUs are available"),
    Signature(
        "no-cuda-device",
        ("no cuda-capable device is detected", "cuda_error_no_device", "cudaerrornodevice"),
        r"no CUDA-capable device is detected|CUDA_ERROR_NO_DEVICE|cudaErrorNoDevice",
    ),
    Signature(
        "invalid-device-ordinal",
        ("invalid device ordinal", "cudaerrorinvaliddevice", "invalid device id"),
        r"invalid device ordinal|cudaErrorInvalidDevice\b|AssertionError: Invalid device id",
    ),
    Signature(
        "smi-no-driver",
        ("communicate with the nvidia driver",),
        r"NVIDIA-SMI has failed because it could\s?n.{1,3}t communicate with the NVIDIA driver",
    ),
    Signature(
        "container-no-driver-banner",
        ("nvidia driver was not detected",),
        r"The NVIDIA Driver was not detected\.\s{1,4}GPU functionality will not be available",
    ),
    Signature("smi-no-devices", ("no devices were found",), r"^\W{0,3}No devices were found\b"),
    Signature(
        "smi-missing",
        (
            "nvidia-smi: command not found",
            "nvidia-smi: not found",
            "command not found: nvidia-smi",
            "'nvidia-smi' is not recognized",
            "command 'nvidia-smi' not found",
        ),
        r"nvidia-smi: (?:command )?not found|command not found: nvidia-smi|'nvidia-smi' is not recognized"
        r"|Command 'nvidia-smi' not found",
    ),
    # The driver's own library is absent: nvidia-smi, pynvml and the dynamic loader each say so in their words.
    Signature(
        "driver-library-missing",
        (
            "couldn't find libnvidia-ml.so",
            "couldn't find nvml.dll",
            "nvml shared library not found",
            "nvmlerror_librarynotfound",
            "error: libcuda.so.1: cannot open",
        ),
        r"NVIDIA-SMI couldn.t find (?:libnvidia-ml\.so|nvml\.dll)|NVML Shared Library Not Found|NVMLError_LibraryNotFound"
        r"|(?:ImportError|OSError): libcuda\.so\.1: cannot open shared object file",
    ),
    Signature(
        "nvml-driver-not-loaded",
        ("nvmlerror_drivernotloaded",),
        r"NVMLError_DriverNotLoaded",
    ),
    Signature(
        "container-host-no-driver",
        ("could not find any nv files on this host",),
        r"Could not find any nv files on this host",
    ),
)

_KERNEL_MODULE = (
    Signature(
        "module-not-found",
        ("module nvidia", "could not insert 'nvidia"),
        # modprobe names the module as it was asked for: nvidia, nvidia_drm, nvidia-uvm, nvidia-current-modeset.
        r"Module nvidia(?:[-_]\w{1,20}){0,2} not found|could not insert 'nvidia[\w-]*': Unknown symbol",
    ),
    Signature(
        "module-no-device",
        (
            "no nvidia gpu found",
            "no nvidia graphics adapter",
            "no nvidia devices probed",
            "could not insert 'nvidia",
        ),
        r"could not insert 'nvidia[\w-]*': No such device|NVRM: No NVIDIA (?:GPU|graphics adapter|devices?) (?:found|probed)",
    ),
    Signature(
        "module-key-rejected",
        (
            "required key not available",
            "key was rejected by service",
            "loading of unsigned module is rejected",
            "unsigned module loading is restricted",
        ),
        r"nvidia[^\n]{0,120}(?:Required key not available|Key was rejected by service)"
        r"|(?:Loading of unsigned module is rejected|unsigned module loading is restricted)",
        before=1,
    ),
    Signature(
        "nouveau-in-use",
        ("nouveau kernel driver is currently in use", "kernel driver in use: nouveau", "nouveau, rivafb, nvidiafb"),
        r"Nouveau kernel driver is currently in use|Kernel driver in use: nouveau|nouveau, rivafb, nvidiafb",
    ),
    Signature(
        "driver-build-failed",
        (
            "bad return status for module build",
            "gpl-incompatible module nvidia",
            "building kernel modules",
            "unable to build the nvidia kernel module",
            "unable to load the kernel module 'nvidia",
            "failed to build kernel module",
            "unable to locate the kernel source",
            "unable to find the kernel source tree",
        ),
        r"nvidia(?:-current)?(?:/(?P<driver>\d{3}\.[\d.]{2,8}))?[\s\S]{0,900}Bad return status for module build on kernel:?\s*"
        r"(?P<kernel>\S+)"
        r"|Bad return status for module build on kernel:?\s*(?P<kernel2>\S+)[\s\S]{0,300}nvidia(?:-current)?"
        r"(?:/(?P<driver2>\d{3}\.[\d.]{2,8}))?"
        r"|GPL-incompatible module nvidia[\w.-]*\.ko"
        r"|error occurred while performing the step: .Building kernel modules"
        r"|Unable to build the NVIDIA kernel module"
        r"|Unable to load the kernel module 'nvidia"
        # The installer of the CUDA toolkit, and the driver's own.
        r"|driver installation is unable to locate the kernel source"
        r"|Unable to find the kernel source tree for the currently running kernel",
        before=8,
        after=3,
    ),
    Signature(
        "driver-build-failed",
        ("/build/nvidia", "nvidia-linux-x86_64", "nvidia-linux-aarch64"),
        r"(?:dkms/nvidia|NVIDIA-Linux-)\S{0,80}/(?:build|kernel(?:-open)?)/\S{0,120}(?:: error:|\] Error \d|: error #)"
        r"|\*\*\* \[[^\]\n]{0,200}(?:dkms/nvidia|NVIDIA-Linux-)[^\]\n]{0,200}\] Error \d",
    ),
    Signature(
        "module-version-mismatch",
        ("disagrees about version of symbol", "version magic", "unknown symbol", "could not insert 'nvidia"),
        r"nvidia[\w-]*: (?:disagrees about version of symbol|version magic|Unknown symbol)"
        r"|could not insert 'nvidia[\w-]*': (?:Exec format error|Invalid argument)",
    ),
)

_GPU_INIT = (
    Signature(
        "rm-init-failed",
        ("rminitadapter failed", "rm_init_adapter failed", "rminitadapter: cannot"),
        r"(?:RmInitAdapter failed!?(?: \((?P<where>0x[0-9a-fA-F:x]+)\))?|rm_init_adapter failed|RmInitAdapter: Cannot)",
    ),
    Signature(
        "bar-invalid",
        (
            "pci i/o region assigned to your nvidia device is invalid",
            "bios may have misconfigured your gpu",
            "is 0m @ 0x0",
            "for 0m @ 0x0",
        ),
        (
            r"PCI I/O region assigned to your NVIDIA device is invalid|BIOS may have misconfigured your GPU"
            r"|BAR\d is 0M @ 0x0|request_mem_region failed for 0M @ 0x0"
        ),
    ),
    Signature(
        "needs-open-modules",
        ("requires use of the nvidia open kernel modules", "open kernel modules is required"),
        r"requires use of the NVIDIA open kernel modules",
    ),
    Signature(
        "open-needs-gsp",
        ("not supported by open", "gpu system processor", "does not include the required gpu"),
        # The kernel log breaks its sentences anywhere and begins each line with the module's name.
        r"not supported by open\s{1,40}(?:NVRM: )?nvidia\.ko"
        r"|does not include the required GPU\s{1,40}(?:NVRM: )?System Processor",
        after=2,
    ),
    Signature(
        "gpu-legacy-driver",
        ("legacy", "not supported by the"),
        # Up to branch 39x the version comes first; the lines break where they like and begin with time and module.
        r"is\s+(?:NVRM: )?supported through the NVIDIA (?P<branch>\d{2,3})\.[\dx]+\s+(?:NVRM: )?Legacy"
        r"|not supported by the\s{1,40}(?:[^\n]{0,60}NVRM: )?"
        r"(?:NVIDIA (?P<driver>\d{3}\.[\d.]*\d)|(?P<driver2>\d{3}\.[\d.]*\d)\s{1,40}(?:[^\n]{0,60}NVRM: )?NVIDIA Linux)"
        r"\s{1,40}(?:[^\n]{0,60}NVRM: )?driver release",
        before=2,
        after=2,
    ),
)

_MISMATCH = (
    Signature(
        "nvml-mismatch",
        (
            "driver/library version mismatch",
            "nvml/rm version mismatch",
            "libr mversionmismatch",
            "librmversionmismatch",
        ),
        r"Driver/library version mismatch(?:[^\n]*\n\W{0,4}NVML library version: (?P<library>\d{3}\.[\d.]+))?"
        r"|NVML/RM version mismatch|LibRmVersionMismatch",
        after=1,
    ),
    Signature(
        "api-mismatch",
        ("api mismatch", "does not match dso version"),
        r"API mismatch: (?:the|this) (?:client|NVIDIA\s+\S+)[\s\S]{0,60}version (?P<client>\d{3}\.[\d.]*\d)[\s\S]{0,90}"
        r"(?:module|kernel)[\s\S]{0,40}version (?P<kernel>\d{3}\.[\d.]*\d)"
        # TensorFlow's and XLA's diagnosis: the DSO is libcuda.
        r"|kernel version (?P<kernel2>\d{3}\.[\d.]*\d) does not match DSO version (?P<client2>\d{3}\.[\d.]*\d)",
        after=3,
    ),
    Signature(
        "driver-package",
        (
            "libnvidia-",
            "nvidia-driver",
            "kmod-nvidia",
            "drv-nvidia",
            "nvidia-utils",
            "nvidia-kernel",
            "kmod:",
            "nvidia-dkms",
        ),
        r"^(?!rc\s)[^\n]{0,40}?(?P<package>\b(?:libnvidia|nvidia|kmod|akmod|xorg-x11-drv-nvidia"
        r"|xserver-xorg-video-nvidia)"
        r"(?:-(?!smi\b|fs\b"
        r"|container)[\w.+-]{1,60})?)(?::\w{1,10})?\s{0,60}[:=]?\s{0,9}(?:\d:)?(?P<version>\d{3}\.\d{2,3}(?:\.\d{2})?)\b",
    ),
    Signature(
        "cuda-803",
        (
            "unsupported display driver / cuda driver",
            "cudaerrorsystemdrivermismatch",
            "cuda_error_system_driver_mismatch",
            "error 803",
            "[803] call",
            "(803)",
        ),
        (
            r"unsupported display driver / cuda driver combination|SystemDriverMismatch"
            r"|CUDA_ERROR_SYSTEM_DRIVER_MISMATCH|\bError 803\b|\[803\] Call to cu\w+ results in"
            r"|Call to cu\w+ results in \w+ \(803\)"
        ),
    ),
    Signature(
        "cuda-804",
        (
            "forward compatibility was attempted",
            "compatnotsupportedondevice",
            "cuda_error_compat_not_supported",
            "error 804",
            "[804] call",
            "(804)",
        ),
        r"forward compatibility was attempted on non supported HW|CompatNotSupportedOnDevice"
        r"|CUDA_ERROR_COMPAT_NOT_SUPPORTED|\bError 804\b|\[804\] Call to cu\w+ results in"
        r"|Call to cu\w+ results in \w+ \(804\)",
    ),
)

_NOT_READY = (
    Signature(
        "cuda-802",
        (
            "system not yet initialized",
            "cudaerrorsystemnotready",
            "cuda_error_system_not_ready",
            "error 802",
            "[802] call",
            "(802)",
            "init failure: 802",
            "failure with error: 802",
        ),
        r"system not yet initialized|SystemNotReady|CUDA_ERROR_SYSTEM_NOT_READY|\bError 802\b|\[802\] Call to cu\w+ results in"
        r"|Call to cu\w+ results in \w+ \(802\)|(?:driver library init failure|initialization failure with error): 802\b",
    ),
    Signature(
        "fabric-manager-text",
        ("fabric manager", "fabricmanager", "fabric-manager"),
        r"fabric[ -]?manager[^\n]{0,120}(?:never reported|fail|error|inactive|dead|not running|don't match"
        r"|mismatch|could not)"
        r"|(?:fail|error|inactive|could not start)[^\n]{0,120}fabric[ -]?manager",
    ),
    Signature(
        "cuda-unknown",
        (
            "cuda unknown error",
            "unknown error",
            "cudaerrorunknown",
            "cuda_error_unknown",
            "error 999",
            "error: 999",
            "failure 999",
            "failure: 999",
            "[999] call",
        ),
        r"unknown error - this may be due to an incorrectly set up|cuda runtime error \((?:30|999)\)|error=(?:30|999) : unknown error"
        r"|cudaErrorUnknown|CUDA_ERROR_UNKNOWN|\bError 999: unknown error|CUDA error: unknown error|code=(?:30|999)\("
        r"|\[999\] Call to cu\w+ results in"
        # ONNX Runtime, TensorRT, Ollama, ggml and people give the number or the word alone.
        r"|CUDA (?:error|failure):? 999\b|(?:driver library init failure|initialization failure with error): 999\b"
        r"|failed to initialize CUDA: unknown error",
    ),
    Signature(
        "uvm-hmm-failed",
        ("request_free_mem_region", "uvm_pmm_gpu"),
        r"request_free_mem_region\(?\)? ?(?:err|returned|failed)[^\n]{0,20}-34|uvm_pmm_gpu\.c[^\n]{0,200}err -34",
    ),
)

_BUSY_OR_BROKEN = (
    Signature(
        "device-busy",
        (
            "busy or unavailable",
            "cudaerrordevicesunavailable",
            "cudaerrordeviceunavailable",
            "cuda_error_device_unavailable",
        ),
        (
            r"CUDA-capable devices?(?:\(s\))?\s+(?:is/)?are busy or unavailable|cudaErrorDevices?Unavailable"
            r"|CUDA_ERROR_DEVICE_UNAVAILABLE"
        ),
    ),
    Signature(
        "ecc-error",
        (
            "ecc error encountered",
            "eccuncorrectable",
            "ecc_uncorrectable",
            "uncorrectable ecc",
            "uncorrectable nvlink",
            "double bit ecc",
        ),
        # The runtime's own words; that there are such errors, anybody may write.
        r"uncorrectable ECC error encountered|uncorrectable NVLink error detected|ECCUncorrectable|ECC_UNCORRECTABLE"
        r"|Double Bit ECC",
    ),
    Signature("xid", ("nvrm: xid", "xid ("), r"Xid \([^)\n]{1,80}\):? (?P<xid>\d{1,3})\b"),
    Signature(
        "gpu-lost",
        ("gpu is lost", "fallen off the bus", "unable to determine the device handle", "gpu requires re"),
        r"GPU is lost|fallen off the bus|Unable to determine the device handle for (?:GPU|gpu)"
        r"|(?:NVML|GPU[ 0-9:.a-f]{1,24}|Error)\W{1,4}GPU requires re(?:set|start)",
    ),
    Signature(
        "pcie-fatal",
        ("pcie bus error", "surprise down error", "uncorrected (fatal) error"),
        r"Surprise Down Error|Uncorrected \(Fatal\) error received|PCIe Bus Error: severity=Uncorrected",
    ),
    Signature(
        "illegal-instruction",
        (
            "illegal instruction",
            "illegal hardware instruction",
            "sigill",
            "exit code 132",
            "status_illegal_instruction",
            "0xc000001d",
            "-1073741795",
            "trap invalid opcode",
            "compiled to use avx",
        ),
        (
            # "an illegal instruction was encountered" is CUDA's: a fault on the GPU.
            r"Illegal instruction(?! was encountered)|illegal hardware instruction|\bSIGILL\b|exit code 132\b"
            r"|STATUS_ILLEGAL_INSTRUCTION|0xC000001D|-1073741795"
            # The kernel's log names the library; TensorFlow looks before it starts.
            r"|trap invalid opcode[^\n]{0,120} in lib(?:torch|c10|mkl|openblas|tensorflow)"
            r"|compiled to use AVX2? instructions, but these aren't available"
        ),
    ),
    # What tells an ARM machine beside such a crash; the model only where it is one of the first version of ARMv8.
    Signature(
        "arm-cpu",
        ("raspberry pi", "raspberrypi", "cortex-a", "aarch64-linux-gnu", "libarm_compute", "armv8"),
        r"\b(?P<pi>Raspberry ?Pi)\b(?:[\w ]{0,12}?(?P<board>[1-5])(?: Model)? ?[AB]?\b)?|\bCortex-A(?P<core>\d{2,3})\b|aarch64-linux-gnu"
        r"|(?P<library>libarm_compute)|\bARMv8",
    ),
    Signature(
        "device-index-assert",
        ("device < num_gpus", "device_index < device_count", "device_index >= 0"),
        r"device >= 0 && device < num_gpus|device_index >= 0 && device_index < ",
    ),
    Signature("mig-uuid-int", ("'mig-",), r"invalid literal for int\(\) with base 10: 'MIG-"),
    Signature(
        "mig-one-of-many",
        (" mig", "mig "),
        r"\b(?:only|just) (?:one|1|a single|the first)\b[^\n.;!?]{0,60}\bMIG\b|\bMIG\b[^\n.;!?]{0,80}\b(?:only|just) (?:one|1|a single|the first)\b"
        r"[^\n.]{0,20}\b(?:gpu|device|instance|slice)",
    ),
    Signature("mig-instance", ("mig ",), r"\bMIG\s+(?P<profile>\d+(?:c\.\d+)?g\.\d+gb)\b"),
)

SIGNATURES: tuple[Signature, ...] = (
    *_TOO_OLD,
    *_NO_DRIVER,
    *_KERNEL_MODULE,
    *_GPU_INIT,
    *_MISMATCH,
    *_NOT_READY,
    *_BUSY_OR_BROKEN,
)
