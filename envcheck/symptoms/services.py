"""Known error texts of what stands between the driver and torch: CUDA's MPS daemon, the PTX compiler, NVRTC, vGPU licences,
MIOpen and hipBLASLt, and GPUs that hang.

Wordings follow cudaGetErrorString and the two CUDA headers (numbers 221 and 805 to 810), nvidia-smi and nvidia-gridd,
MIOpen's logger and its exceptions, ROCr's last words, the kernel's amdgpu, i915 and xe, and SYCL's unified runtime.
"""

from __future__ import annotations

from envcheck.symptoms.base import Signature

_CUDA = (
    Signature(
        "cuda-mps",
        (
            "mps client failed to connect",
            "mps server and the mps client failed",
            "mps server is not ready",
            "required to create mps client",
            "required to support device connections",
            "mps client has been terminated",
            "cudaerrormps",
            "cuda_error_mps_",
            "error 805",
            "error 806",
            "error 807",
            "(805)",
            "(806)",
            "(807)",
            "failure 805",
            "failure: 805",
            "error: 805",
        ),
        r"(?P<connect>MPS client failed to connect to the MPS (?:control daemon|server)|cudaErrorMpsConnectionFailed"
        r"|CUDA_ERROR_MPS_CONNECTION_FAILED|\bError 805: MPS|Call to cu\w+ results in \w+ \(805\)"
        r"|(?:library init failure|initialization failure with error|CUDA failure|CUDA error):? 805\b)"
        r"|(?P<ready>remote procedural call between the MPS server and the MPS client failed|MPS server is not ready to accept"
        r"|cudaErrorMps(?:RpcFailure|ServerNotReady)|CUDA_ERROR_MPS_(?:RPC_FAILURE|SERVER_NOT_READY)"
        r"|\bError 80[67]: |Call to cu\w+ results in \w+ \(80[67]\))"
        r"|(?P<full>hardware resources required to (?:create MPS client|support device connections) have been exhausted"
        r"|cudaErrorMpsMax(?:Clients|Connections)Reached|CUDA_ERROR_MPS_MAX_(?:CLIENTS|CONNECTIONS)_REACHED)"
        r"|(?P<ended>MPS client has been terminated by the (?:MPS )?server|cudaErrorMpsClientTerminated"
        r"|CUDA_ERROR_MPS_CLIENT_TERMINATED)",
    ),
    Signature(
        "ptx-jit-missing",
        ("jit compiler library not found", "jitcompilernotfound", "jit_compiler_not_found"),
        r"PTX JIT compiler library not found|cudaErrorJitCompilerNotFound|(?:CUDA_)?ERROR_JIT_COMPILER_NOT_FOUND",
    ),
    Signature(
        "nvrtc-arch",
        ("invalid value for --gpu-architecture", "nvrtc_error_invalid_option"),
        r"nvrtc\S{0,3} error: invalid value for --gpu-architecture|NVRTC_ERROR_INVALID_OPTION[^\n]{0,80}arch",
    ),
    Signature(
        "nvrtc-builtins",
        ("nvrtc-builtins", "nvrtc_error_builtin_operation_failure"),
        r"failed to open (?:libnvrtc-builtins\.so(?:\.(?P<release>\d{1,2}\.\d{1,2}))?|nvrtc-builtins64_(?P<major>\d\d)(?P<minor>\d)\.dll)"
        r"|NVRTC_ERROR_BUILTIN_OPERATION_FAILURE",
    ),
    Signature(
        "mig-none",
        ("no mig devices found", "no gpu instances found", "no compute instances found"),
        # nvidia-smi's table, and nvidia-smi mig -lgi and -lci; a script that says so has no frame around it.
        r"^\s{0,8}\|\s{1,4}No MIG devices found\s{1,80}\||^\W{0,8}No (?:GPU|compute) instances found: Not Found",
    ),
    Signature(
        "vgpu-unlicensed",
        (
            "license status",
            "failed to acquire license",
            "failed to acquire nvidia",
            "valid grid license",
            "device_not_licensed",
            "devicenotlicensed",
        ),
        r"License Status\s{0,40}: Unlicensed(?: \((?P<state>\w{3,20})\))?"
        r"|nvidia-gridd\S{0,12}:? [^\n]{0,20}Failed to acquire (?:license|NVIDIA [^\n]{3,60} license)"
        r"|(?P<refused>CUDA error: device doesn't have valid Grid license|cudaErrorDeviceNotLicensed|CUDA_ERROR_DEVICE_NOT_LICENSED)",
    ),
    Signature(
        "vgpu-licensed",
        ("license status", "license acquired successfully"),
        r"License Status\s{0,40}: Licensed\b|nvidia-gridd\S{0,12}:? [^\n]{0,20}License acquired successfully",
    ),
    Signature(
        "gpu-virtualization",
        ("virtualization mode",),
        r"^\s{0,12}Virtualization Mode\s{1,40}: (?P<mode>VGPU|Pass-Through|None|Host VGPU|Host VSGA)",
    ),
)

_ROCM = (
    Signature(
        "miopen-database",
        ("sqlite", "memvfs", "/miopen/", ".ufdb.txt", ".udb.txt"),
        r"(?:MIOpen|sqlite_db\.cpp)[^\n]{0,200}(?P<reason>unable to open database file|database is locked|disk I/O error"
        r"|locking protocol|attempt to write a readonly database|database disk image is malformed)"
        r"|filesystem[^\n]{0,120}(?P<reason2>Permission denied|No such file or directory|Read-only file system|No space left on device)"
        r"[^\n]{0,20}\W(?P<path>/[^\s\"]{0,160}/\.?(?:config|cache)/miopen/)",
    ),
    Signature(
        "miopen-build",
        (
            "code object build failed",
            "[buildhip]",
            "[buildocl]",
            "amd_comgr_",
            "comgr status",
            "hiprtc_error_",
            "/comgr-",
            "\\comgr-",
        ),
        r"(?P<header>[/\\]comgr-\w{2,40}[/\\][^\n]{0,160}fatal error: '(?P<file>[\w/.]{2,60})' file not found)"
        r"|(?P<isa>amd_comgr_action_info_set_isa_name[^\n]{0,60}(?P<target>gfx\w{3,5})[^\n]{0,40}INVALID_ARGUMENT)"
        r"|(?P<build>Code object build failed\. Source: (?P<source>[\w.]{2,100})"
        r"|MIOpen\(HIP\): Error \[(?:Compile|BuildHip|BuildOcl)\][^\n]{0,200}"
        r"(?:HIPRTC_ERROR_\w{3,30}|comgr status = (?!SUCCESS)\w{3,30})"
        r"|MIOpen\(HIP\): Error \[Do\] 'amd_comgr_do_action[^\n]{0,120}: ERROR)",
    ),
    Signature(
        "miopen-status",
        ("miopenstatus",),
        r"\bmiopenStatus(?P<status>InternalError|UnknownError|NotInitialized|BadParm|InvalidValue|NotImplemented|GpuOperationsSkipped"
        r"|UnsupportedOp|VersionMismatch)\b",
    ),
    Signature(
        "oom",
        ("miopenstatusallocfailed", "hipblas_status_alloc_failed"),
        r"miopenStatusAllocFailed|HIPBLAS_STATUS_ALLOC_FAILED",
    ),
    # torch's code for hipBLASLt, as for cuBLASLt, raises its own constant where the library offers no algorithm.
    Signature(
        "hipblaslt",
        ("hipblas_status_not_supported", "hipblas_status_arch_mismatch"),
        r"(?P<status>HIPBLAS_STATUS_(?:NOT_SUPPORTED|ARCH_MISMATCH)) when calling",
    ),
)

_HANG = (
    Signature(
        "gpu-hang",
        (
            "hw exception by gpu",
            "reason :gpu hang",
            "hsa_status_error_exception",
            "amdgpu_job_timedout",
            "gpu reset begin",
            "mes failed to respond",
            "mes might be in unrecoverable state",
            " timeout, signaled seq=",
            "gpu hang: ecode",
            "error_device_lost",
            "device lost from bus",
            "timedout job",
        ),
        r"HW Exception by GPU node-(?P<node>\d{1,3})[^\n]{0,60}reason ?: ?GPU Hang"
        r"|(?P<exception>HSA_STATUS_ERROR_EXCEPTION\b)"
        r"|amdgpu[^\n]{0,80}(?:ring (?P<ring>[\w.]{2,24}) timeout, signaled|GPU reset begin|MES failed to respond"
        r"|MES might be in unrecoverable state|(?P<bus>device lost from bus))"
        r"|(?P<intel>GPU HANG: ecode|(?:UR_RESULT|PI|ZE_RESULT)_ERROR_DEVICE_LOST|\bxe [^\n]{0,60}Timedout job: )",
        echo_of=("gpu-memory-fault",),
    ),
)

_APPLE = (
    Signature(
        "mps-watermark",
        ("invalid low watermark ratio", "invalid high watermark ratio"),
        r"invalid (?P<which>low|high) watermark ratio (?P<value>-?[\d.]{1,12})",
    ),
    Signature(
        "mps-oom",
        ("kiogpucommandbuffercallbackerroroutofmemory",),
        r"kIOGPUCommandBufferCallbackErrorOutOfMemory",
    ),
)

SIGNATURES: tuple[Signature, ...] = (*_CUDA, *_ROCM, *_HANG, *_APPLE)
