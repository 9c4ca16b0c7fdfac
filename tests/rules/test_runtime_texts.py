"""Running programs: what people pasted in public threads, re-typed and condensed, and the cause that was found.

The id of each case names the thread. The wordings differ from era to era; the rule has to be the same.
"""

from __future__ import annotations

import pytest

from tests.rules.texts import judge, left_alone, named, three_wordings


CASES = [
    # --- oom-capacity
    (
        "OpenHelix-Team/cobra#24 (the process that torch names is the program itself)",
        "oom-capacity",
        "[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 158.00 MiB. GPU 0 has a total capacity of 23.69 GiB of which 115.69 MiB is free. Process 21422 has 23.57 GiB memory in use. "
        "Of the allocated memory 22.14 GiB is allocated by PyTorch, and 910.35 MiB is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.",
    ),
    (
        "kaito-project/kaito#976 (CUDA graphs in the sentence)",
        "oom-capacity",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 546.00 MiB. GPU 0 has a total capacity of 15.77 GiB of which 514.19 MiB is free. Process 562167 has 15.25 GiB memory in use. Of the allocated memory 13.73 GiB is allocated by PyTorch, "
        "with 46.00 MiB allocated in private pools (e.g., CUDA Graphs), and 736.86 MiB is reserved by PyTorch but unallocated.",
    ),
    (
        "huggingface/meshgen#7 (Windows: more than the card has)",
        "oom-capacity",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1002.00 MiB. GPU 0 has a total capacity of 8.00 GiB of which 0 bytes is free. Of the allocated memory 13.98 GiB is allocated by PyTorch, and 129.48 MiB is reserved by PyTorch but unallocated.",
    ),
    (
        "torch 1.1's 'cached'",
        "oom-capacity",
        "RuntimeError: CUDA out of memory. Tried to allocate 36.00 MiB (GPU 0; 7.93 GiB total capacity; 6.96 GiB already allocated; 5.56 MiB free; 42.50 MiB cached)",
    ),
    (
        "the typing error of torch 2.1 (capacty)",
        "oom-capacity",
        "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacty of 23.69 GiB of which 14.25 MiB is free. Including non-PyTorch memory, this process has 23.66 GiB memory in use. Of the allocated memory 23.31 GiB is allocated by PyTorch, and 31.55 MiB is reserved by PyTorch but unallocated.",
    ),
    (
        "THC of 2018",
        "oom-capacity",
        "RuntimeError: cuda runtime error (2) : out of memory at /pytorch/aten/src/THC/generic/THCStorage.cu:58",
    ),
    (
        "Comfy-Org/ComfyUI#8984 (MPS)",
        "oom-capacity",
        "MPS backend out of memory (MPS allocated: 15.72 GiB, other allocations: 2.41 MiB, max allowed: 18.13 GiB). Tried to allocate 5.81 GiB on private pool. Use PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 to disable upper limit",
    ),
    (
        "HIP",
        "oom-capacity",
        "torch.cuda.OutOfMemoryError: HIP out of memory. Tried to allocate 2.00 GiB (GPU 0; 15.98 GiB total capacity; 14.11 GiB already allocated; 1.28 GiB free; 14.52 GiB reserved in total by PyTorch)",
    ),
    (
        "vLLM",
        "oom-capacity",
        "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine.",
    ),
    (
        "wrapped by a terminal",
        "oom-capacity",
        "RuntimeError: CUDA out of memory.\nTried to allocate 512.00 MiB (GPU 0; 6.00 GiB total capacity; 4.90 GiB already allocated; 0 bytes free; 5.02 GiB reserved in total by PyTorch)",
    ),
    # --- oom-fragmentation
    (
        "Tianhao-Qi/Mask2DiT#4",
        "oom-fragmentation",
        "CUDA out of memory. Tried to allocate 35.60 GiB. GPU 0 has a total capacity of 79.33 GiB of which 26.16 GiB is free. Process 76883 has 53.16 GiB memory in use. Of the allocated memory 11.97 GiB is allocated by PyTorch, and 40.69 GiB is reserved by PyTorch but unallocated.",
    ),
    (
        "kohya-ss/sd-scripts#2029",
        "oom-fragmentation",
        "[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.99 GiB. GPU 0 has a total capacity of 23.56 GiB of which 1.23 GiB is free. Including non-PyTorch memory, this process has 22.27 GiB memory in use. Of the allocated memory 14.73 GiB is allocated by PyTorch, and 6.39 GiB is reserved by PyTorch but unallocated.",
    ),
    (
        "pytorch/pytorch#35901",
        "oom-fragmentation",
        "CUDA out of memory. Tried to allocate 10.84 GiB (GPU 0; 23.65 GiB total capacity; 1.06 GiB already allocated; 10.26 GiB free; 12.53 GiB reserved in total by PyTorch)",
    ),
    # --- oom-other-process
    (
        "two processes named, new format",
        "oom-other-process",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.65 GiB of which 400.00 MiB is free. Process 1201 has 18.20 GiB memory in use. Including non-PyTorch memory, this process has 5.05 GiB memory in use. Of the allocated memory 4.50 GiB is allocated by PyTorch, and 50.00 MiB is reserved by PyTorch but unallocated.",
    ),
    (
        "old format, this process has next to nothing",
        "oom-other-process",
        "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 10.76 GiB total capacity; 98.52 MiB already allocated; 10.69 MiB free; 110.00 MiB reserved in total by PyTorch)",
    ),
    (
        "vLLM at start",
        "oom-other-process",
        "ValueError: Free memory on device (10.1/23.64 GiB) on startup is less than desired GPU memory utilization (0.9, 21.28 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.",
    ),
    # --- oom-absurd-request
    (
        "petabytes",
        "oom-absurd-request",
        "RuntimeError: CUDA out of memory. Tried to allocate 1024.00 PiB (GPU 0; 23.70 GiB total capacity; 2.10 GiB already allocated; 20.05 GiB free; 2.30 GiB reserved in total by PyTorch)",
    ),
    (
        "more than any GPU",
        "oom-absurd-request",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1480.29 GiB. GPU 0 has a total capacity of 79.15 GiB of which 70.02 GiB is free.",
    ),
    (
        "on the CPU",
        "oom-absurd-request",
        "RuntimeError: [enforce fail at alloc_cpu.cpp:75] . DefaultCPUAllocator: can't allocate memory: you tried to allocate 9223372036854775808 bytes. Error code 12 (Cannot allocate memory)",
    ),
    (
        "an overflow",
        "oom-absurd-request",
        "RuntimeError: Storage size calculation overflowed with sizes=[4294967296, 4294967296]",
    ),
    # --- shm-too-small
    (
        "msr-fiddle/pipedream#28",
        "shm-too-small",
        "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm).\nRuntimeError: DataLoader worker (pid 325) is killed by signal: Bus error.",
    ),
    (
        "a torch_ file that cannot be written",
        "shm-too-small",
        "RuntimeError: unable to write to file </torch_1352_2193>\nRuntimeError: unable to mmap 2432 bytes from file </torch_47_882>: Cannot allocate memory (12)",
    ),
    (
        "NCCL's segment",
        "shm-too-small",
        "NCCL WARN Error while creating shared memory segment /dev/shm/nccl-wHf8bT (size 9637888)\nNCCL WARN Call to posix_fallocate failed : No space left on device\nncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error.",
    ),
    # --- too-many-open-files
    (
        "pytorch/pytorch#34768 (the newer message)",
        "too-many-open-files",
        "RuntimeError: Too many open files. Communication with the workers is no longer possible. Please increase the limit using `ulimit -n` in the shell or change the sharing strategy",
    ),
    ("DonsetPG/graph-physics#22", "too-many-open-files", "RuntimeError: received 0 items of ancdata\nulimit -n 1024"),
    (
        "pytorch/pytorch#14768",
        "too-many-open-files",
        "RuntimeError: unable to open shared memory object </torch_11_1> in read-write mode: Too many open files (24)",
    ),
    # --- host-out-of-memory
    (
        "the kernel log",
        "host-out-of-memory",
        "[12345.6] Out of memory: Killed process 4242 (python) total-vm:98123456kB, anon-rss:62000000kB",
    ),
    ("a worker", "host-out-of-memory", "RuntimeError: DataLoader worker (pid 4532) is killed by signal: Killed."),
    ("a shell", "host-out-of-memory", "Loading checkpoint shards:  33%|###3      | 1/3\nKilled"),
    (
        "torchrun",
        "host-out-of-memory",
        "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: -9) local_rank: 0 (pid: 2920) of binary: /opt/conda/bin/python",
    ),
    (
        "on Windows",
        "host-out-of-memory",
        "RuntimeError: [enforce fail at ..\\c10\\core\\CPUAllocator.cpp:73] data. DefaultCPUAllocator: not enough memory: you tried to allocate 26843545600 bytes.",
    ),
    # --- paging-file-too-small
    (
        "English",
        "paging-file-too-small",
        'OSError: [WinError 1455] The paging file is too small for this operation to complete. Error loading "C:\\py\\lib\\site-packages\\torch\\lib\\cudnn_cnn_infer64_8.dll" or one of its dependencies.',
    ),
    (
        "Chinese",
        "paging-file-too-small",
        'OSError: [WinError 1455] 页面文件太小，无法完成操作。 Error loading "D:\\env\\lib\\site-packages\\torch\\lib\\caffe2_detectron_ops_gpu.dll"',
    ),
    (
        "safetensors",
        "paging-file-too-small",
        "OSError: The paging file is too small for this operation to complete. (os error 1455)",
    ),
    # --- disk-full
    ("pip", "disk-full", "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device"),
    (
        "a checkpoint",
        "disk-full",
        "RuntimeError: [enforce fail at inline_container.cc:471] . PytorchStreamWriter failed writing file data/214\nOSError: [Errno 28] No space left on device: '/checkpoints/step_1000.pt'",
    ),
    ("a quota", "disk-full", "OSError: [Errno 122] Disk quota exceeded"),
    # --- cuda-in-forked-process
    (
        "facebookresearch/pycls#183",
        "cuda-in-forked-process",
        "RuntimeError: Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use the 'spawn' start method",
    ),
    (
        "XPU says it too",
        "cuda-in-forked-process",
        "RuntimeError: Cannot re-initialize XPU in forked subprocess. To use XPU with multiprocessing, you must use the 'spawn' start method",
    ),
    (
        "CUDA's own word in a worker",
        "cuda-in-forked-process",
        'RuntimeError: Caught RuntimeError in DataLoader worker process 0.\n  File "torch/utils/data/_utils/worker.py", line 178, in _worker_loop\nRuntimeError: CUDA error: initialization error',
    ),
    # --- nccl-p2p
    (
        "NVIDIA/nccl#606 (lspci)",
        "nccl-p2p",
        "NCCL test hangs between GPU2 and GPU3, all_reduce_perf stuck\n$ sudo lspci -vvv | grep ACSCtl\n                ACSCtl: SrcValid+ TransBlk- ReqRedir- CmpltRedir- UpstreamFwd- EgressCtrl- DirectTrans-",
    ),
    (
        "NVIDIA/nccl-tests#117",
        "nccl-p2p",
        "4x NVIDIA GeForce RTX 4090\nall_reduce_perf hangs right after initialization\nIt works with NCCL_P2P_DISABLE=1",
    ),
    (
        "accelerate on GeForce",
        "nccl-p2p",
        'NotImplementedError: Using RTX 4000 series doesn\'t support faster communication broadband via P2P or IB. Please set `NCCL_P2P_DISABLE="1"` and `NCCL_IB_DISABLE="1" or use `accelerate launch` which will do this automatically.',
    ),
    (
        "CUDA refuses the peer",
        "nccl-p2p",
        "node:912:1012 [1] transport/p2p.cc:136 NCCL WARN Cuda failure 'peer access is not supported between these two devices'",
    ),
    # --- nccl-network
    (
        "pytorch/pytorch#38702",
        "nccl-network",
        "tj1-asr-train-v100-13:941227:943077 [0] NCCL INFO Call to connect returned Connection refused, retrying\n"
        "tj1-asr-train-v100-13:941227:943077 [0] include/socket.h:390 NCCL WARN Connect to 10.38.10.112<21724> failed : Connection refused\n"
        "RuntimeError: NCCL error in: ProcessGroupNCCL.cpp:410, unhandled system error, NCCL version 2.4.8",
    ),
    (
        "sgl-project/sglang#3820",
        "nccl-network",
        "node5:240:240 [6] misc/socket.cc:533 NCCL WARN socketPollConnect: Connect to 10.0.0.4<56849> returned 113(No route to host) errno 115(Operation now in progress)",
    ),
    (
        "NVIDIA/Megatron-LM#436 (gloo)",
        "nccl-network",
        "RuntimeError: [enforce fail at gloo/transport/tcp/device.cc:83] ifa != nullptr. Unable to find address for: bond1",
    ),
    (
        "NVIDIA/nccl#1837 (a wrong name, NCCL 2.27)",
        "nccl-network",
        "NCCL INFO NCCL_SOCKET_IFNAME set by environment to eth2\nncclInternalError: Internal check failed.\nLast error:\nncclSocketInit: connecting to address  with family 59936 is neither AF_INET(2) nor AF_INET6(10)",
    ),
    (
        "the store",
        "nccl-network",
        "torch.distributed.DistStoreError: Timed out initializing process group in store based barrier on rank: 1, for key: store_based_barrier_key:1 (world_size=2, worker_count=1, timeout=0:30:00)",
    ),
    (
        "c10d socket",
        "nccl-network",
        "[W socket.cpp:601] [c10d] The client socket has failed to connect to [node0]:29500 (errno: 110 - Connection timed out).",
    ),
    # --- nccl-duplicate-gpu
    (
        "verl-project/verl#161",
        "nccl-duplicate-gpu",
        "ncclInvalidUsage: This usually reflects invalid usage of NCCL library.\nLast error:\nDuplicate GPU detected : rank 1 and rank 0 both on CUDA device 10",
    ),
    (
        "horovod/horovod#3929",
        "nccl-duplicate-gpu",
        "[1,2]<stdout>:smc-gpu-03:29880:30398 [0] init.cc:497 NCCL WARN Duplicate GPU detected : rank 2 and rank 0 both on CUDA device 1000",
    ),
    (
        "NVIDIA/nccl#1241",
        "nccl-duplicate-gpu",
        "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1287, invalid usage, NCCL version 2.17.1\nDuplicate GPU detected : rank 3 and rank 2 both on CUDA device e2000",
    ),
    # --- dist-port-in-use
    (
        "torch 2",
        "dist-port-in-use",
        "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. The server socket has failed to bind to [::]:29500 (errno: 98 - Address already in use).",
    ),
    (
        "torch 1.8",
        "dist-port-in-use",
        'Traceback (most recent call last):\n  File "train.py", line 88, in <module>\n    dist.init_process_group(backend="nccl")\n  File "/opt/conda/lib/python3.8/site-packages/torch/distributed/rendezvous.py", line 172, in _env_rendezvous_handler\n    store = TCPStore(master_addr, master_port, world_size, start_daemon, timeout)\nRuntimeError: Address already in use',
    ),
    (
        "torch 2.8's code",
        "dist-port-in-use",
        "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. port: 29500, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use",
    ),
    # --- nccl-timeout (no earlier error)
    (
        "hiyouga/LlamaFactory#7396",
        "nccl-timeout",
        "[rank0]:[E321 02:07:08.408271257 ProcessGroupNCCL.cpp:607] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1580, OpType=ALLREDUCE, NumelIn=466119168, NumelOut=466119168, Timeout(ms)=600000) ran for 600060 milliseconds before timing out.",
    ),
    (
        "pytorch/pytorch#118369",
        "nccl-timeout",
        "[E ProcessGroupNCCL.cpp:458] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=96120, OpType=ALLREDUCE, Timeout(ms)=1800000) ran for 25624887 milliseconds before timing out.",
    ),
    (
        "the sentence of torch 1.9 to 2.1",
        "nccl-timeout",
        "[E ProcessGroupNCCL.cpp:475] Some NCCL operations have failed or timed out. Due to the asynchronous nature of CUDA kernels, subsequent GPU operations might run on corrupted/incomplete data.",
    ),
    # --- cublas-workspace-config
    (
        "Metta-AI/metta#654 (over several lines)",
        "cublas-workspace-config",
        "RuntimeError: Deterministic behavior was enabled with either `torch.use_deterministic_algorithms(True)` \nor `at::Context::setDeterministicAlgorithms(true)`, but this operation is not deterministic because \nit uses CuBLAS and you have CUDA >= 10.2. To enable deterministic behavior in this case, you must \nset an environment variable before running your PyTorch application: CUBLAS_WORKSPACE_CONFIG=:4096:8 \nor CUBLAS_WORKSPACE_CONFIG=:16:8.",
    ),
    (
        "torch 1.7's set_deterministic",
        "cublas-workspace-config",
        "RuntimeError: Deterministic behavior was enabled with either `torch.set_deterministic(True)` or `at::Context::setDeterministic(true)`, but this operation is not deterministic because it uses CuBLAS and you have CUDA >= 10.2. To enable deterministic behavior in this case, you must set an environment variable before running your PyTorch application: CUBLAS_WORKSPACE_CONFIG=:4096:8 or CUBLAS_WORKSPACE_CONFIG=:16:8.",
    ),
    (
        "open-mmlab/mmengine#929",
        "cublas-workspace-config",
        "    return F.linear(input, self.weight, self.bias)\nRuntimeError: Deterministic behavior was enabled with either `torch.use_deterministic_algorithms(True)` or `at::Context::setDeterministicAlgorithms(true)`, but this operation is not deterministic because it uses CuBLAS and you have CUDA >= 10.2. To enable deterministic behavior in this case, you must set an environment variable before running your PyTorch application: CUBLAS_WORKSPACE_CONFIG=:4096:8",
    ),
    # --- nondeterministic-op
    (
        "pytorch/pytorch#72831",
        "nondeterministic-op",
        "RuntimeError: upsample_linear1d_backward_out_cuda does not have a deterministic implementation, but you set 'torch.use_deterministic_algorithms(True)'. You can turn off determinism just for this operation",
    ),
    (
        "pytorch/pytorch#41692",
        "nondeterministic-op",
        "RuntimeError: index_add_cuda_ does not have a deterministic implementation, but you set\n'torch.set_deterministic(True)'.",
    ),
    (
        "a cumulative sum",
        "nondeterministic-op",
        "RuntimeError: cumsum_cuda_kernel does not have a deterministic implementation, but you set 'torch.use_deterministic_algorithms(True)'.",
    ),
    # --- illegal-memory-access
    (
        "mit-han-lab/pvcnn#63",
        "illegal-memory-access",
        "CUDA kernel failed : an illegal memory access was encountered\nvoid three_nearest_neighbors_interpolate(int, int) at L:130 in neighbor_interpolate.cu",
    ),
    (
        "HPCLab-933/Vina-CUDA#3",
        "illegal-memory-access",
        'CUDA error at kernel2.cu:596 code=700(cudaErrorIllegalAddress) "cudaDeviceSynchronize()"',
    ),
    (
        "hangg7/deformable-kernels#5",
        "illegal-memory-access",
        "RuntimeError: cuda runtime error (77) : an illegal memory access was encountered",
    ),
    (
        "ROCm's words",
        "illegal-memory-access",
        "Memory access fault by GPU node-1 (Agent handle: 0x55d2f0) on address 0x7f1a00000000. Reason: Page not present or supervisor privilege.",
    ),
    # --- gpu-watchdog-timeout
    ("Windows", "gpu-watchdog-timeout", "RuntimeError: CUDA error: the launch timed out and was terminated"),
    (
        "the number of old",
        "gpu-watchdog-timeout",
        "cuda runtime error (6) : the launch timed out and was terminated at THCReduceAll.cuh:317",
    ),
    ("the name", "gpu-watchdog-timeout", "CUDA failure: cudaErrorLaunchTimeout"),
]


@pytest.mark.parametrize(("rule", "text"), [c[1:] for c in CASES], ids=[f"{c[1]}: {c[0]}" for c in CASES])
def test_the_cause_is_named_first(rule: str, text: str) -> None:
    named(text, rule)


def test_every_cause_has_three_wordings() -> None:
    three_wordings(rule for _, rule, _ in CASES)


ECHOES = [
    (
        "an assert of one rank, NCCL's time-out on the others",
        "label-out-of-range",
        "nccl-timeout",
        "Loss.cu:242: nll_loss_forward_reduce_cuda_kernel_2d: block: [0,0,0], thread: [4,0,0] Assertion `t >= 0 && t < n_classes` failed.\n"
        "RuntimeError: CUDA error: device-side assert triggered\n"
        "[Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=12, OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600060 milliseconds before timing out.",
    ),
    (
        "memory runs out on one rank",
        "oom-capacity",
        "nccl-network",
        "[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 158.00 MiB. GPU 1 has a total capacity of 23.69 GiB of which 5.69 MiB is free. Including non-PyTorch memory, this process has 23.60 GiB memory in use. Of the allocated memory 23.00 GiB is allocated by PyTorch, and 10.35 MiB is reserved by PyTorch but unallocated.\n"
        "[rank0]: torch.distributed.DistBackendError: NCCL error in: NCCLUtils.hpp:275, remote process exited or there was a network error, NCCL version 2.20.5\nncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.",
    ),
    (
        "an index error, then cuBLAS",
        "label-out-of-range",
        "oom-capacity",
        "Indexing.cu:1146: indexSelectLargeIndex: block: [52,0,0], thread: [0,0,0] Assertion `srcIndex < srcSelectDimSize` failed.\nRuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
    ),
    (
        "two ranks on one GPU",
        "nccl-duplicate-gpu",
        "nccl-timeout",
        "Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 1000\n[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1, OpType=ALLREDUCE, Timeout(ms)=1800000)",
    ),
]


@pytest.mark.parametrize(("cause", "echo", "text"), [c[1:] for c in ECHOES], ids=[c[0] for c in ECHOES])
def test_an_echo_does_not_come_first(cause: str, echo: str, text: str) -> None:
    report = judge(text)
    assert report.primary is not None
    assert report.primary.rule == cause
    assert all(f.consequence_of for f in report.findings if f.rule == echo)


NEAR = [
    ("expandable segments are in every message", "oom-fragmentation", CASES[0][2]),
    ("own process under another number", "oom-other-process", CASES[0][2]),
    (
        "large, and cards of that size exist",
        "oom-absurd-request",
        "CUDA out of memory. Tried to allocate 145.00 GiB. GPU 0 has a total capacity of 23.60 GiB of which 22.00 GiB is free.",
    ),
    (
        "a container's banner",
        "shm-too-small",
        "NOTE: The SHMEM allocation limit is set to the default of 64MB.  This may be\n   insufficient for PyTorch.",
    ),
    ("a word", "host-out-of-memory", "the process was killed by the user\nKilled it with ctrl-c"),
    ("disk full of shared memory", "disk-full", "OSError: [Errno 28] No space left on device: '/dev/shm/torch_1234'"),
    (
        "a warning only",
        "cublas-workspace-config!",
        "linear.py:114: UserWarning: Deterministic behavior was enabled with either `torch.use_deterministic_algorithms(True)` or `at::Context::setDeterministicAlgorithms(true)`, but this operation is not deterministic because it uses CuBLAS and you have CUDA >= 10.2. To enable deterministic behavior in this case, you must set an environment variable before running your PyTorch application: CUBLAS_WORKSPACE_CONFIG=:4096:8",
    ),
    ("a web server's port", "dist-port-in-use", "OSError: [Errno 98] Address already in use: ('0.0.0.0', 7860)"),
    ("somebody asks about P2P", "nccl-p2p", "NCCL INFO NCCL_P2P_DISABLE set by environment to 1."),
    ("connect of another program", "nccl-network", "requests.exceptions.ConnectionError: Connection refused"),
]


@pytest.mark.parametrize(("rule", "text"), [c[1:] for c in NEAR], ids=[f"{c[1]}: {c[0]}" for c in NEAR])
def test_a_near_miss_is_left_alone(rule: str, text: str) -> None:
    left_alone(text, rule)
