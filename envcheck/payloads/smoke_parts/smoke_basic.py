"""Smoke tests of the ground: memory and copies, arithmetic, functions of one number, indices."""

import math
import zlib

import torch

from smoke_support import UNIT, Skip, compare, exact, expect, fetch, first_line, one_thread, share


def arithmetic(ctx):
    """IEEE 754 asks + - * / for the nearest fp32 number.

    The reference is the fp64 result rounded to fp32: 53 bits are more than 2*24+2, so rounding twice gives the same
    number as rounding once. Roots are good to one unit in the last place only where MKL's vector functions take them,
    and Metal divides to 2.5 units in its fast mode.
    """
    a, a64 = ctx.put(ctx.uniform(0.5, 100.0, 37, 29))
    b, b64 = ctx.put(ctx.uniform(-100.0, -0.5, 37, 29))
    loose = 16 * UNIT["fp32"] if ctx.kind == "mps" else 0.0

    def same(what, got, want, relative=0.0):
        want = want.float().double()
        compare(what, got, want, want.abs() * relative, torch.float32)

    for what, operation, relative in (
        ("a + b", lambda x, y, out: torch.add(x, y, out=out), 0.0),
        ("a - b", lambda x, y, out: torch.sub(x, y, out=out), 0.0),
        ("a * b", lambda x, y, out: torch.mul(x, y, out=out), 0.0),
        ("a / b", lambda x, y, out: torch.div(x, y, out=out), loose),
        ("sqrt(a)", lambda x, y, out: torch.sqrt(x, out=out), loose or 4 * UNIT["fp32"]),
    ):
        want = operation(a64, b64, torch.empty_like(a64))
        same(what, operation(a, b, ctx.poisoned(a.shape)), want, relative)
    _creation(ctx)
    _integers(ctx)
    return "bit for bit" if not loose else "within 8 units of the last place"


def _creation(ctx):
    ctx.poison_pool((23,), (23,), (23,))
    exact("zeros", torch.zeros(23, device=ctx.device), torch.zeros(23, dtype=torch.float64))
    exact("ones", torch.ones(23, device=ctx.device), torch.ones(23, dtype=torch.float64))
    exact("full", torch.full((23,), 2.5, device=ctx.device), torch.full((23,), 2.5, dtype=torch.float64))
    values = [float(v) for v in range(3, 26)]
    exact("arange", torch.arange(3, 26, device=ctx.device), torch.tensor(values, dtype=torch.float64))
    exact("tensor", torch.tensor(values, device=ctx.device), torch.tensor(values, dtype=torch.float64))
    exact("eye", torch.eye(5, device=ctx.device).sum(0), torch.ones(5, dtype=torch.float64))


def _integers(ctx):
    a64 = ctx.integers(-1000, 1000, 211)
    b64 = ctx.integers(1, 50, 211)
    a, b = a64.to(torch.int32).to(ctx.device), b64.to(torch.int32).to(ctx.device)
    exact("integer a * b + a", a * b + a, a64 * b64 + a64, torch.int32)
    pairs = list(zip(a64.tolist(), b64.tolist()))
    want = torch.tensor([float(int(x) % int(y)) for x, y in pairs], dtype=torch.float64)
    exact("integer remainder", torch.remainder(a, b), want)
    want = torch.tensor([1.0 if x > 10 * y else 0.0 for x, y in pairs], dtype=torch.float64)
    exact("a > 10 b", (a > b * 10).to(torch.int32), want)


def copy_pageable(ctx):
    """Bytes to the device and back through ordinary memory; a sum over positions tells which way went wrong."""
    return _copies(ctx, pinned=False)


def copy_pinned(ctx):
    """The same through page-locked memory without blocking."""
    if ctx.kind in ("cpu", "mps"):
        raise Skip("page-locked memory is for devices with memory of their own")
    return _copies(ctx, pinned=True)


def _weighted(data):
    # Position-weighted sum of bytes in int64: any flipped bit and any two different bytes that change places alter it.
    weights = torch.arange(data.numel(), dtype=torch.int64, device=data.device) + 1
    return int((data.reshape(-1).to(torch.int64) * weights).sum())


def _copies(ctx, pinned):
    total = 0
    for size in (1, 4099, 1024 * 1024 + 17):
        source = torch.randint(0, 256, (size,), generator=ctx.random, dtype=torch.int64).to(torch.uint8)
        crc = zlib.crc32(bytes(bytearray(source.tolist()))) if size < 10000 else None
        host = _pinned(ctx, source) if pinned else source.clone()
        if pinned:
            expect(host.is_pinned(), "pin_memory() returned memory that is not pinned")
        device = ctx.poisoned((size,), torch.uint8)
        device.copy_(host, non_blocking=pinned)
        ctx.synchronize()
        with one_thread():
            want = _weighted(source)
        expect(_weighted(device) == want, "host to device: checksum of %d bytes differs" % size)
        second = ctx.poisoned((size,), torch.uint8)
        second.copy_(device)
        expect(_weighted(second) == want, "device to device: checksum of %d bytes differs" % size)
        back = torch.full((size,), 0xAA, dtype=torch.uint8)
        if pinned:
            back = _pinned(ctx, back)
        back.copy_(second, non_blocking=pinned)
        ctx.synchronize()
        differing = int((back != source).sum())
        expect(differing == 0, "device to host: %d of %d bytes differ" % (differing, size))
        if crc is not None:
            expect(zlib.crc32(bytes(bytearray(back.tolist()))) == crc, "CRC of %d bytes differs" % size)
        total += size
    if not pinned:
        _strided_copy(ctx)
    return "%d bytes both ways, bit for bit" % total


def _pinned(ctx, tensor):
    try:
        return tensor.pin_memory()
    except RuntimeError as error:
        if ctx.kind == "xpu":
            raise Skip("this torch pins no memory for Intel GPUs: " + first_line(error))
        raise


def _strided_copy(ctx):
    source64 = ctx.integers(-100000, 100000, 67, 53)
    device = source64.float().to(ctx.device)
    target = ctx.poisoned((53, 67))
    target.copy_(device.t())
    exact("transposing copy", target, source64.t())
    exact("contiguous() of every second column", device[:, ::2].contiguous(), source64[:, ::2])
    exact("cat", torch.cat([device[:, 40:], device[:, :40]], 1), torch.cat([source64[:, 40:], source64[:, :40]], 1))


# Units in the last place that a library may be off. CUDA states at most 2 for these in single precision (CUDA
# Programming Guide, mathematical functions), SLEEF (CPU) 1, Intel's SYCL at most 4 to 5; compositions such as the
# sigmoid add a few roundings. Metal's fast functions state absolute errors, up to 2**-11 for sin and cos.
ULPS = 8
ULPS_MPS = 64
METAL_ABSOLUTE = 2.0 ** -11

FUNCTIONS = (
    ("exp", -10.0, 10.0, torch.exp),
    ("log", 0.01, 100.0, torch.log),
    ("sin", -3.0, 3.0, torch.sin),
    ("cos", -3.0, 3.0, torch.cos),
    ("tanh", -4.0, 4.0, torch.tanh),
    ("sigmoid", -8.0, 8.0, torch.sigmoid),
    ("erf", -3.0, 3.0, torch.erf),
    ("rsqrt", 0.01, 100.0, torch.rsqrt),
    ("atan", -5.0, 5.0, torch.atan),
    ("expm1", -1.0, 1.0, torch.expm1),
    ("relu", -1.0, 1.0, torch.relu),
    ("abs", -1.0, 1.0, torch.abs),
)


def elementwise(ctx):
    """Functions of one number against fp64, in units of the last place of the right result.

    Near a zero of the function (log at 1, cos at pi/2) an error of an ulp of the argument is unavoidable in a
    reduction of the argument, so the bound never falls below that of a result of 1/16.
    """
    worst = []
    for name, low, high, function in FUNCTIONS:
        call = getattr(torch, function.__name__, function)
        x, x64 = ctx.put(ctx.uniform(low, high, 4097))
        ctx.poison_pool(x.shape)
        with one_thread():
            want = call(x64)
        ulps = ULPS_MPS if ctx.kind == "mps" else ULPS
        bound = ulps * 2 * UNIT["fp32"] * want.abs().clamp(min=1.0 / 16)
        if ctx.kind == "mps" and name in ("log", "sin", "cos", "tanh", "erf", "atan", "expm1"):
            bound = bound + METAL_ABSOLUTE
        worst.append(compare(name, call(x), want, bound, torch.float32))
    worst.append(_special_values(ctx))
    return share(*worst)


def _special_values(ctx):
    """NaN and infinities must come through, or NaN checks (GradScaler's, for one) are worth nothing."""
    x = torch.tensor([float("inf"), float("-inf"), float("nan"), 0.0, 1.0], device=ctx.device)
    found = torch.isnan(x).cpu().tolist(), torch.isinf(x).cpu().tolist()
    expect(found[0] == [False, False, True, False, False], "isnan([inf, -inf, nan, 0, 1]) gave %s" % (found[0],))
    expect(found[1] == [True, True, False, False, False], "isinf([inf, -inf, nan, 0, 1]) gave %s" % (found[1],))
    total = float((x[2:] + x[3]).sum().cpu())
    expect(math.isnan(total), "a sum with NaN in it gave %r" % total)
    return 0.0


def indexing(ctx):
    """Whole numbers below 2**24 are exact in fp32, in every order of summing: nothing but equality will do."""
    n = 3001
    x64 = ctx.integers(-1000, 1000, n)
    x = x64.float().to(ctx.device)
    order = torch.randperm(n, generator=ctx.random)
    index = order.to(ctx.device)
    ctx.poison_pool((n,), (n,))
    exact("gather", torch.gather(x, 0, index), x64[order])
    exact("index_select", torch.index_select(x, 0, index), x64[order])
    exact("scatter", ctx.poisoned((n,)).scatter_(0, index, x), torch.zeros_like(x64).scatter_(0, order, x64))
    buckets = order % 7
    want = torch.tensor([float(x64[buckets == k].sum()) for k in range(7)], dtype=torch.float64)
    exact("index_add", torch.zeros(7, device=ctx.device).index_add_(0, buckets.to(ctx.device), x), want)
    exact("cumsum", torch.cumsum(x, 0), torch.tensor(_running(x64.tolist()), dtype=torch.float64))
    exact("sum", torch.sum(x).reshape(1), torch.tensor([sum(x64.tolist())], dtype=torch.float64))
    values, places = torch.sort(x)
    exact("sort", values, torch.tensor(sorted(x64.tolist()), dtype=torch.float64))
    exact("sort's indices", x64[places.cpu()], fetch(values))
    exact("where", torch.where(x > 0, x, -x), x64.abs())
    exact("masked_select", torch.masked_select(x, x > 500), x64[x64 > 500])
    expect(float(x[torch.argmax(x)].cpu()) == max(x64.tolist()), "argmax does not point at the largest")
    square64 = x64[:2800].reshape(40, 70)
    square = square64.float().to(ctx.device)
    exact("sum over rows", square.sum(0), square64.sum(0))
    exact("largest of each row", square.max(1)[0], square64.max(1)[0])
    return "exact"


def _running(values):
    total, sums = 0.0, []
    for value in values:
        total += value
        sums.append(total)
    return sums
