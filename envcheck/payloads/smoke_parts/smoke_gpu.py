"""Smoke tests of single abilities of GPUs, and of several devices or processes together."""

import os
import shutil
import sys
import tempfile

import torch

import smoke_peer
from smoke_support import Skip, Wrong, exact, expect, first_line


def graph(ctx):
    """Work recorded once and replayed with other numbers in the same memory."""
    if ctx.kind != "cuda":
        raise Skip("graphs are recorded on CUDA devices")
    if not hasattr(ctx.backend, "CUDAGraph"):
        raise Skip("torch %s has no CUDA graphs" % torch.__version__)
    n = 96
    w64 = ctx.integers(-1, 1, n, n)
    w = w64.float().to(ctx.device)
    x = ctx.poisoned((n, n))

    def work():
        return torch.relu(torch.matmul(x, w)) + 1.0

    x.zero_()
    side = ctx.backend.Stream()
    side.wait_stream(ctx.backend.current_stream())
    with ctx.backend.stream(side):  # libraries allocate their workspaces now, not while recording
        for _ in range(3):
            work()
    ctx.backend.current_stream().wait_stream(side)
    recorded = ctx.backend.CUDAGraph()
    with ctx.backend.graph(recorded):
        y = work()
    for _ in range(3):
        x64 = ctx.integers(-2, 2, n, n)
        x.copy_(x64.float())
        y.fill_(float("nan"))
        recorded.replay()
        ctx.synchronize()
        exact("replayed graph", y, torch.relu(torch.matmul(x64, w64)) + 1.0)
    return "3 replays"


KERNEL = "template <typename T> T smoke(T x, T y, T scale) { return x * scale + (y > T(0) ? y : -y); }"


def runtime_kernel(ctx):
    """A kernel from source: NVRTC (or hipRTC) and its headers are found, the driver takes what they make."""
    if ctx.kind != "cuda":
        raise Skip("kernels are compiled at run time on CUDA devices")
    maker = getattr(getattr(ctx.backend, "jiterator", None), "_create_jit_fn", None)
    if maker is None:
        raise Skip("torch %s cannot compile kernels at run time" % torch.__version__)
    x64, y64 = ctx.integers(-1000, 1000, 3001), ctx.integers(-1000, 1000, 3001)
    function = maker(KERNEL, scale=2.0)
    ctx.poison_pool((3001,))
    got = function(x64.float().to(ctx.device), y64.float().to(ctx.device), scale=3.0)
    exact("kernel from source", got, 3.0 * x64 + y64.abs())
    return "compiled and run"


def device_assert(ctx):
    """Reading past the end must raise. On CUDA the assertion ends the context, and the payload starts a new process."""
    if ctx.kind in ("mps", "xpu") or ctx.hip:
        raise Skip("kernels have no assertions on this kind of device")
    table = torch.arange(10, dtype=torch.float32, device=ctx.device)
    good = torch.tensor([3, 9], device=ctx.device)
    exact("indices in range", table[good], torch.tensor([3.0, 9.0], dtype=torch.float64))
    try:
        got = table[torch.tensor([3, 10 ** 6], device=ctx.device)]
        ctx.synchronize()
    except (RuntimeError, IndexError) as error:
        told = "assert" in str(error) if ctx.kind == "cuda" else isinstance(error, IndexError)
        expect(told, "an index out of range gave another error: %s" % first_line(error, 300))
        return first_line(error, 100)
    raise Wrong("an index out of range gave %s" % (got.tolist(),))


# --- several --------------------------------------------------------------------------------------------------------


def all_reduce_gloo(ctx):
    """This process and another one on this machine, over TCP, meeting through a file."""
    import torch.distributed as distributed

    if not distributed.is_available() or not _has_gloo(distributed):
        raise Skip("this build has no gloo")
    import torch.multiprocessing as multiprocessing

    directory = tempfile.mkdtemp(prefix="envcheck-")
    address = "file://" + ("/" if os.name == "nt" else "") + os.path.join(directory, "meeting").replace("\\", "/")
    numbers = ctx.integers(-1000, 1000, 2, 5003)
    place = os.path.dirname(os.path.abspath(smoke_peer.__file__))
    sys.path.insert(0, place)
    try:
        context = multiprocessing.get_context("spawn")
        replies = context.SimpleQueue()
        other = context.Process(target=smoke_peer.other, args=(address, numbers[1].tolist(), replies))
        other.daemon = True
        other.start()
        try:
            summed, sent = smoke_peer.take_part(address, 0, numbers[0].tolist())
            other.join(30)
            expect(other.exitcode == 0, "the other process ended with %r" % (other.exitcode,))
            received = replies.get()
        finally:
            if other.is_alive():
                other.terminate()
    finally:
        if place in sys.path:
            sys.path.remove(place)
        shutil.rmtree(directory, ignore_errors=True)
    want = numbers.sum(0)
    exact("sum of two processes, here", summed, want)
    exact("sum of two processes, there", torch.tensor(received[0]), want)
    exact("broadcast", torch.tensor(received[1]), sent.double())
    return "2 processes, exact"


def _has_gloo(distributed):
    check = getattr(distributed, "is_gloo_available", None)
    return bool(check()) if check is not None else hasattr(distributed, "ProcessGroupGloo")


def peer_copies(ctx):
    """Every ordered pair of GPUs: what a broken PCIe setting (ACS, IOMMU) corrupts silently."""
    devices = ctx.peers()
    if len(devices) < 2:
        raise Skip("there is one GPU only")
    size = (1 << 20) + 13
    source = torch.randint(0, 256, (size,), generator=ctx.random, dtype=torch.int64).to(torch.uint8)
    direct = 0
    for one, here in enumerate(devices):
        original = source.to(here)
        for two, there in enumerate(devices):
            if one == two:
                continue
            target = torch.full((size,), 0x55, dtype=torch.uint8, device=there)
            target.copy_(original, non_blocking=True)
            ctx.backend.synchronize(here)
            ctx.backend.synchronize(there)
            wrong = int((target.cpu() != source).sum())
            expect(wrong == 0, "GPU %d to GPU %d: %d of %d bytes differ" % (one, two, wrong, size))
            direct += bool(ctx.backend.can_device_access_peer(here, there))
    return "%d pairs, %d of them direct" % (len(devices) * (len(devices) - 1), direct)


def all_reduce_nccl(ctx):
    """All GPUs from this one process; a GPU in exclusive mode would refuse a second one."""
    nccl = getattr(ctx.backend, "nccl", None)
    devices = ctx.peers()
    probe = torch.zeros(1, device=devices[0])
    if nccl is None or not nccl.is_available([probe]):
        raise Skip("this build has no NCCL")
    numbers = ctx.integers(-1000, 1000, len(devices), 70001)
    tensors = [numbers[place].float().to(device) for place, device in enumerate(devices)]
    outputs = [torch.full_like(tensor, float("nan")) for tensor in tensors]
    nccl.all_reduce(tensors, outputs)
    for place, output in enumerate(outputs):
        ctx.backend.synchronize(devices[place])
        exact("sum on GPU %d" % place, output, numbers.sum(0))
    return "%d GPU%s, NCCL %s" % (len(devices), "" if len(devices) == 1 else "s", _nccl_version(nccl))


def _nccl_version(nccl):
    version = nccl.version()
    return ".".join(map(str, version)) if isinstance(version, tuple) else str(version)
