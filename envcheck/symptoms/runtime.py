"""Known error texts of a running program: memory, shared memory, processes, NCCL, determinism, kernels.

Wordings follow torch's allocators (THC, c10/cuda/CUDACachingAllocator.cpp, MPSAllocator, alloc_cpu.cpp), DataLoader,
torch.distributed, NCCL and gloo, in the forms of their eras.
"""

from __future__ import annotations

from envcheck.symptoms.base import Signature

SIZE = r"\d+(?:\.\d+)? ?(?:bytes|[KMGTPE]i?B)"

_OOM = (
    # torch 1.0 to 2.0: "(GPU 0; 7.93 GiB total capacity; 6.96 GiB already allocated; 5.56 MiB free; 42.50 MiB cached)".
    Signature(
        "oom",
        ("out of memory. tried to allocate", "out of memory on device", "tried to allocate"),
        rf"out of memory\.?\s*(?:\W{{0,3}})Tried to allocate (?P<request>{SIZE}) \((?:GPU|XPU|HIP) "
        rf"(?P<device>\d+); (?P<total>{SIZE}) total"
        rf" capa\w+; (?P<allocated>{SIZE}) already allocated; (?P<free>{SIZE}) free; "
        # Up to torch 1.3 "cached" is what the cache holds beyond the allocated; later "reserved" includes it.
        rf"(?:(?P<unallocated>{SIZE}) cached|(?P<reserved>{SIZE}) reserved)",
        before=1,
        after=1,
    ),
    # torch 2.1 and later: "GPU 0 has a total capacity of 23.69 GiB of which 14.25 MiB is free. ..."
    Signature(
        "oom",
        ("out of memory. tried to allocate", "tried to allocate"),
        rf"(?:(?:CUDA|HIP|XPU) )?out of memory\.?\s+Tried to allocate (?P<request>{SIZE})\.?\s+"
        rf"(?:GPU|XPU|HIP)? ?(?P<device>\d+) has a total capa\w* of (?P<total>{SIZE})(?: of which "
        rf"(?P<free>{SIZE}) is free)?\.?"
        rf"(?:[^\n]{{0,80}}allowed)?"
        rf"(?:\W{{0,4}}Process \d+ has (?P<other>{SIZE}) memory in use\.?)?"
        rf"(?:\W{{0,4}}Process \d+ has (?P<other2>{SIZE}) memory in use\.?)?"
        rf"(?:\W{{0,4}}Process \d+ has (?P<other3>{SIZE}) memory in use\.?)?"
        rf"(?:\W{{0,4}}Including non-PyTorch memory, this process has (?P<own>{SIZE}) memory in use\.?)?"
        rf"(?:\W{{0,4}}(?P<allowed>{SIZE}) allowed;?\.?)?"
        rf"(?:\W{{0,4}}Of the allocated memory (?P<allocated>{SIZE}) is allocated by PyTorch)?"
        rf"(?:[^\n]{{0,120}}?(?P<unallocated>{SIZE}) is reserved by PyTorch but unallocated)?",
        before=1,
        after=2,
    ),
    Signature(
        "oom",
        ("out of memory", "out_of_memory", "out_of_resources", "out_of_device_memory", "cudaerrormemoryallocation"),
        rf"(?:torch\.(?:cuda\.)?OutOfMemoryError|(?:CUDA|HIP|XPU)) ?:? ?(?:CUDA |HIP |XPU )?out of memory\.?"
        rf"(?:\s*Tried to allocate (?P<request>{SIZE}))?"
        r"|cuda runtime error \(2\) ?: out of memory|CUDA (?:runtime |driver )?error: out of memory"
        r"|error=2 : out of memory|cudaErrorMemoryAllocation"
        r"|CUDA_ERROR_OUT_OF_MEMORY|HIP error: out of memory|UR_RESULT_ERROR_OUT_OF_(?:DEVICE_MEMORY|RESOURCES)",
        echo_of=("device-assert", "label-assert"),
    ),
    Signature(
        "oom",
        ("cublas_status_alloc_failed", "cudnn_status_alloc_failed", "cublas_status_not_initialized"),
        r"CUBLAS_STATUS_ALLOC_FAILED|CUDNN_STATUS_ALLOC_FAILED|CUBLAS_STATUS_NOT_INITIALIZED",
        echo_of=("device-assert", "label-assert", "illegal-access"),
    ),
    Signature(
        "oom",
        ("no available memory for the cache blocks",),
        r"No available memory for the cache blocks",
    ),
    Signature(
        "oom-desired",
        ("is less than desired gpu memory utilization",),
        (
            r"Free memory on device[^\n]{0,20}\((?P<free>[\d.]+)/(?P<total>[\d.]+) GiB\)[^\n]{0,40} less than "
            r"desired GPU memory utilization"
        ),
    ),
    Signature(
        "mps-oom",
        ("mps backend out of memory",),
        rf"MPS backend out of memory(?: \(MPS allocated: (?P<allocated>{SIZE}), other allocations: "
        rf"(?P<other>{SIZE}), max allowed:"
        rf" (?P<total>{SIZE})\))?\.?(?: Tried to allocate (?P<request>{SIZE}))?",
    ),
    Signature("mps-buffer", ("invalid buffer size",), rf"Invalid buffer size: (?P<request>{SIZE})"),
    Signature(
        "nvml-assert",
        ("nvml_success == ",),
        r"NVML_SUCCESS == (?:r|DriverAPI::get\(\)\S{0,60}) INTERNAL ASSERT FAILED",
    ),
    Signature(
        "cpu-oom",
        ("defaultcpuallocator",),
        r"DefaultCPUAllocator: (?:can't allocate|not enough) memory: you tried to allocate (?P<request>\d+) ?bytes",
        after=1,
    ),
    Signature(
        "absurd-size",
        ("storage size calculation overflowed", "integer multiplication overflow", "more than 1eb"),
        r"Storage size calculation overflowed|numel: integer multiplication overflow|allocate more than 1EB",
    ),
)

_HOST = (
    Signature(
        "host-killed",
        (
            "killed",
            "exit code 137",
            "exitcode: -9",
            "exitcode  : -9",
            "exit status 137",
            "oomkilled",
            "sigkill",
            "oom-kill",
            "oom_kill",
        ),
        r"^(?:[^\n]{0,200}: line \d+: +\d+ +)?Killed(?:\s+(?:python|torchrun|accelerate"
        r"|deepspeed)[^\n]*)?$|exit (?:code|status):? 137\b"
        r"|exitcode ?: ?-9\b|OOMKilled|\bSIGKILL\b|oom[-_]kill(?:er| event)?|Out of memory: Kill(?:ed)? process \d+"
        r"|worker \(pid[^)\n]{0,20}\) (?:is|was) killed by signal: Killed|zsh: killed",
    ),
    Signature(
        "compiler-killed",
        ("killed signal terminated program", "died due to signal 9"),
        r"Killed signal terminated program (?P<program>cc1plus|cc1|as|ld|lto1|collect2)|'(?P<nvcc>cicc|ptxas|cudafe\+\+|fatbinary)' died due to signal 9",
    ),
    Signature(
        "worker-exited",
        ("exited unexpectedly",),
        r"DataLoader worker \(pid\(s\)? ?[\d, ]+\) exited unexpectedly",
        echo_of=("shm", "host-killed", "spawn-bootstrap", "cuda-fork", "open-files", "paging-file"),
    ),
    Signature(
        "paging-file",
        ("winerror 1455", "paging file is too small", "os error 1455"),
        r"WinError 1455|paging file is too small|os error 1455",
    ),
    Signature(
        "disk-full",
        ("no space left on device", "errno 28", "disk quota exceeded", "not enough free disk space"),
        (
            r"^(?![^\n]*(?:/dev/shm|</?torch_|shm_open|nccl|/torch_\d))[^\n]*(?:No space left on device|Disk "
            r"quota exceeded|[Nn]ot enough free disk space)"
        ),
        echo_of=("shm",),
    ),
    Signature(
        "shm",
        (
            "bus error",
            "shared memory",
            "</torch_",
            "/torch_",
            "shm-size",
            "dev/shm",
            "posix_fallocate",
        ),
        r"killed by signal: Bus error|Unexpected bus error encountered in worker|out of shared memory"
        r"|insufficient shared memory"
        r"|unable to (?:write to|mmap \d+ bytes from|resize) ?(?:file )?</?torch_[^\n]{0,120}"
        r"|unable to open shared memory object </?torch_(?![^\n]*Too many open files)|posix_fallocate "
        r"failed ?:? ?No space left"
        r"|No space left on device[^\n]{0,100}(?:/dev/shm|torch_)|(?:/dev/shm|/torch_)[^\n]{0,100}No "
        r"space left on device"
        r"|Error while (?:creating|attaching to) shared memory segment",
    ),
    Signature(
        "shm-banner",
        ("shmem allocation limit",),
        r"SHMEM allocation limit is set to the default of (?P<size>\d+ ?MB)",
    ),
    Signature(
        "open-files",
        ("too many open files", "items of ancdata", "errno 24"),
        r"Too many open files|received \d+ items of ancdata|\[Errno 24\]",
    ),
)

_PROCESS = (
    Signature(
        "cuda-fork",
        ("in forked subprocess", "after fork"),
        r"Cannot re-initialize (?P<what>CUDA|XPU|MPS|HIP) in forked subprocess",
    ),
    Signature(
        "cuda-init-error",
        ("initialization error", "cudaerrorinitializationerror", "cuda_error_not_initialized"),
        r"CUDA error: initialization error|cuda runtime error \(3\) ?: initialization error|error=3 : "
        r"initialization error"
        r"|cudaErrorInitializationError|CUDA_ERROR_NOT_INITIALIZED",
    ),
    Signature(
        "in-worker",
        ("in dataloader worker process", "multiprocessing/process.py", "_worker_loop", "_utils/worker.py"),
        r"in DataLoader worker process|_worker_loop|data/_utils/worker\.py|multiprocessing/process\.py",
    ),
    Signature(
        "cublas-workspace",
        ("cublas_workspace_config", "uses cublas and you have cuda"),
        r"(?:(?P<warned>UserWarning):[^\n]{0,400})?not deterministic\s+because\s+it\s+uses CuBLAS",
        before=3,
    ),
    Signature(
        "nondeterministic-op",
        ("have a deterministic implementation", "deterministic implementation"),
        r"(?:(?P<warned>UserWarning):[^\n]{0,40})?(?P<op>[\w:]{1,80}) does not have a deterministic implementation",
    ),
    Signature(
        "illegal-access",
        (
            "illegal memory access",
            "misaligned address",
            "unspecified launch failure",
            "illegal instruction was encountered",
            "cudaerrorillegaladdress",
            "cuda_error_illegal_address",
            "cuda_error_launch_failed",
            "cudaerrorlaunchfailure",
        ),
        r"an illegal memory access was encountered|misaligned address|unspecified launch failure"
        r"|an illegal instruction was encountered|cudaErrorIllegalAddress|CUDA_ERROR_ILLEGAL_ADDRESS"
        r"|CUDA_ERROR_LAUNCH_FAILED|cudaErrorLaunchFailure",
        echo_of=("device-assert", "label-assert"),
    ),
    Signature(
        "launch-timeout",
        ("launch timed out and was terminated", "cudaerrorlaunchtimeout", "cuda_error_launch_timeout"),
        r"the launch timed out and was terminated|cudaErrorLaunchTimeout|CUDA_ERROR_LAUNCH_TIMEOUT",
    ),
)

_GPU_ERRORS = ("device-assert", "label-assert", "illegal-access", "oom", "ecc-error", "xid", "cuda-init-oom")
"""After one of these on one rank, NCCL's own complaint on every rank is only the echo."""

_NCCL = (
    Signature(
        "nccl-duplicate-gpu",
        ("duplicate gpu detected",),
        r"Duplicate GPU detected ?: rank (?P<rank>\d+) and rank (?P<rank2>\d+) both on (?:CUDA )?device (?P<bus>\w+)",
    ),
    Signature(
        "nccl-no-interface",
        (
            "no socket interface found",
            "no interface found",
            "unable to find interface",
            "unable to find address for",
            "no usable listening interface",
            "is neither af_inet",
            "nccl_socket_ifname interface found",
        ),
        r"connecting to address [^\n]{0,60}is neither AF_INET|no NCCL_SOCKET_IFNAME interface found"
        r"|Bootstrap ?: no socket interface found|NET/Socket ?: no interface found"
        r"|Unable to find (?:interface|address) for ?:? ?\W?(?P<name>[\w.\[\]:-]+)|Bootstrap ?: no usable "
        r"listening interface",
    ),
    Signature(
        "nccl-connect",
        (
            "nccl warn connect to",
            "nccl warn net : connect",
            "call to connect",
            "socketstartconnect",
            "socketpollconnect",
            "socketfinalizeconnect",
            "net/ib : got completion",
            "ibv_modify_qp",
        ),
        r"NCCL WARN (?:\w+ ?: )?Connect(?:ion)? (?:to|from) (?:[^\s<]{1,80}|<[\w. \-]{1,20}>)<\d+>[^\n]{0,20}(?:failed|returned)|Call to connect "
        r"(?:failed|returned|timeout)[^\n]{0,60}"
        r"(?:refused|timed out|No route|unreachable)?"
        r"|socket(?:Start|Poll|Finalize)Connect[^\n]{0,120}(?:failed|returned|refused|timed out)"
        r"|NET/IB ?: Got completion[^\n]{0,80}(?:error|status=)\s*\d+|ibv_modify_qp failed[^\n]{0,40}timed out",
        echo_of=_GPU_ERRORS,
    ),
    Signature(
        "nccl-memlock",
        ("ibv_reg_mr", "ibv_create_qp", "ibv_create_cq"),
        r"ibv_(?:reg_mr|create_qp|create_cq)\w* failed[^\n]{0,60}(?:Cannot allocate memory|ENOMEM)",
    ),
    Signature(
        "store-timeout",
        (
            "the client socket has",
            "store based barrier",
            "c10d store",
            "connectfullmesh",
            "original timeout was",
            "tcpstore",
            "rendezvoustimeouterror",
            "rendezvousconnectionerror",
        ),
        r"client socket has (?:timed out after|failed to connect to)|Timed out initializing process group "
        r"in store based barrier"
        r"|connect\(\) timed out\. Original timeout|connectFullMesh failed|RendezvousTimeoutError"
        r"|RendezvousConnectionError"
        r"|gloo[^\n]{0,160}(?:Connection (?:refused|timed out|closed by peer)|No route to host)",
        echo_of=_GPU_ERRORS,
    ),
    Signature(
        "dist-port-in-use",
        ("address already in use", "eaddrinuse"),
        r"server socket has failed to (?:listen|bind)(?:[^\n]{0,120}?:(?P<port>\d{2,5}) ?\(?)?[^\n]{0,200}?(?:Address already in use|EADDRINUSE|errno: 98)"
        r"|(?:MASTER_PORT|TCPStore|DistNetworkError|init_process_group|rendezvous|torchrun)[\s\S]{0,600}?"
        r"(?:Address already in use|EADDRINUSE)"
        r"|EADDRINUSE, address already in use",
        before=6,
    ),
    # vLLM: worker/utils (dtype check); transformers: training_args.py; triton: semantic.py; aten: cuda/Blas.cpp.
    Signature(
        "format-unsupported",
        (
            "bfloat16 is only supported on gpus",
            "setup doesn't support bf16/gpu",
            "not supported in this architecture. the supported fp8",
            "torch._scaled_mm is only supported on",
            "bf16 is not supported on your gpu",
            "current gpu does not support bfloat16",
        ),
        r"Bfloat16 is only supported on GPUs with compute capability of at least (?P<least>\d+\.\d)\. Your (?P<gpu>[^\n]{3,60}?) "
        r"(?:GPU )?(?:has|only has) compute capability (?P<have>\d+\.\d)"
        r"|(?P<setup>setup doesn't support bf16/gpu)|type (?P<fp8>fp8\w{3,10}) not supported in this architecture"
        r"|torch\._scaled_mm is only supported on (?P<scaled>CUDA) devices with compute capability"
        r"|bf16 is not supported on your GPU|current GPU does not support bfloat16",
    ),
    Signature(
        "libuv-missing",
        ("use_libuv was requested",),
        r"use_libuv was requested but PyTorch was buil[dt] without libuv",
    ),
    # torch/distributed/rendezvous.py, _env_error.
    Signature(
        "rank-not-set",
        ("expected, but not set",),
        r"environment variable (?P<variable>RANK|WORLD_SIZE|MASTER_ADDR|MASTER_PORT|LOCAL_RANK) expected, but not set",
    ),
    # torch/csrc/distributed/c10d/socket.cpp: "failed to bind to {} {}." with the error's number and text.
    Signature(
        "dist-port-refused",
        ("errno: 13", "eacces", "errno: 99", "eaddrnotavail", "errno: 10013", "errno: 10049"),
        r"server socket has failed to bind to (?P<address>[^\s(]{2,80}?)(?::(?P<port>\d{1,5}))? ?\(errno: "
        r"(?P<code>13|99|10013|10049)\b"
        r"|server socket has failed to listen on any local network address\. port: (?P<uv_port>\d{1,5}), [^\n]{0,60}name: "
        r"(?P<uv_code>EACCES|EADDRNOTAVAIL)\b",
    ),
    Signature(
        "nccl-p2p",
        (
            "peer access is not supported",
            "peer-to-peer",
            "nccl_p2p_disable",
            "p2p or ib",
            "acsctl",
            "simplep2p",
            "p2pbandwidthlatencytest",
            "no error, no timeout",
            "p2p disabled",
            "p2p is disabled",
            "disabling p2p",
            "disable p2p",
        ),
        r"peer access is not supported between these two devices|Using RTX \d0\d0 series (?:which "
        r")?does\s?n.?t support faster communication"
        r"|ACSCtl:[^\n]{0,60}SrcValid\+|simpleP2P[^\n]{0,200}(?:Verification error|hang)"
        r"|NCCL_P2P_DISABLE=?\W{0,2}1?\b[^\n]{0,60}(?:works?|fix(?:e[sd])?|solve[sd]?|resolve[sd]?|workaround|no hang)"
        r"|(?:works?|fix(?:e[sd])?|solve[sd]?|resolve[sd]?)[^\n]{0,60}NCCL_P2P_DISABLE"
        r"|\b(?:p2p (?:is )?disabled|disabl(?:e|ing) p2p)\b[^\n]{0,60}\b(?:works?|well|fine|ok(?:ay)?|fix(?:e[sd])?|solve[sd]?"
        r"|resolve[sd]?|helps?|no hang)\b",
    ),
    Signature(
        "collective-hang",
        ("allreduce", "all_reduce", "all-reduce"),
        r"all[_-]?reduce\w*[^\n]{0,80}(?:hang|stuck|deadlock|freez|100% SM|no error, no timeout)"
        r"|(?:hang|stuck|deadlock|freez)\w*[^\n]{0,60}all[_-]?reduce",
    ),
    Signature(
        "nccl-timeout",
        (
            "watchdog caught collective operation timeout",
            "some nccl operations have failed or timed out",
            "nccl watchdog thread terminated",
        ),
        r"Watchdog caught collective operation timeout(?:: WorkNCCL\((?:[^)\n]{0,40}OpType=(?P<op>\w+))?)?"
        r"|Some NCCL operations have failed or timed out|NCCL watchdog thread terminated with exception",
        echo_of=(*_GPU_ERRORS, "host-killed", "nccl-connect", "nccl-error", "open-files", "shm", "cpu-oom"),
    ),
    Signature(
        "nccl-error",
        ("unhandled system error", "unhanled system error", "ncclsystemerror", "ncclremoteerror"),
        r"unhan\w{0,2}led system error|ncclSystemError|ncclRemoteError",
        echo_of=(*_GPU_ERRORS, "shm"),
    ),
    Signature(
        "nccl-cuda-error",
        ("unhandled cuda error", "ncclunhandledcudaerror", "nccl warn cuda failure"),
        r"unhandled cuda error|ncclUnhandledCudaError|NCCL WARN Cuda failure (?:\d+ )?'(?P<what>[^'\n]{3,80})'",
        echo_of=(*_GPU_ERRORS, "nccl-p2p", "no-cuda-gpus", "driver-insufficient", "shm", "invalid-device-ordinal"),
    ),
)

_WORKLOAD = (
    Signature(
        "loader-slow",
        ("does not have many workers", "suggested max number of worker", "train_dataloader` does not have many"),
        (
            r"does not have many workers which may be a bottleneck|suggested max number of worker in current "
            r"system is (?P<max>\d+)"
        ),
    ),
    Signature(
        "gpu-idle",
        ("gpu utilization", "gpu-util", "gpu utilisation", "gpu usage", "utilization.gpu"),
        (
            r"(?:low|poor|only|always)[^\n]{0,20}gpu.?(?:util\w*|usage)|gpu.?(?:util\w*"
            r"|usage)[^\n]{0,30}(?:\blow\b|stays? (?:at )?\d{1,2} ?%|around \d{1,2} ?%|only \d{1,2} ?%|\b0 ?%)"
        ),
    ),
)

SIGNATURES: tuple[Signature, ...] = (*_OOM, *_HOST, *_PROCESS, *_NCCL, *_WORKLOAD)
