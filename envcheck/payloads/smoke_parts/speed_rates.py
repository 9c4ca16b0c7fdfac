"""Rates of the hardware: copies, products by precision, small operations, threads."""

import math
import os
import time

import torch

from smoke_support import DTYPE, Skip, Switched, first_line, lacking
from speed_timing import Times, measure, tell

MIB = 1 << 20
GIGA = 1e9


# --- copies -----------------------------------------------------------------------------------------------------------


def copies(ctx):
    """64 MiB there and back, pageable and pinned; within the device more than any cache holds, read and written."""
    told = []
    if ctx.kind not in ("cpu", "mps"):
        size = (ctx.memory_bytes or 64 * MIB) // 4
        host, device = torch.rand(size), torch.rand(size, device=ctx.device)
        told += _both_ways(ctx, "pageable", host, device)
        try:
            pinned = host.pin_memory()
        except RuntimeError as error:
            told.append("no pinned memory: " + first_line(error, 60))
        else:
            told += _both_ways(ctx, "pinned", pinned, device)
        del host, device
    size = (ctx.memory_bytes or (512 if ctx.kind not in ("cpu", "mps") else 128) * MIB) // 4
    try:
        source, target = torch.rand(size, device=ctx.device), torch.zeros(size, device=ctx.device)
    except RuntimeError as error:
        if "memory" not in str(error).lower():
            raise
        return "; ".join(told + ["too little memory is free for copies within the device"])
    threads = torch.get_num_threads()
    times = measure(ctx, lambda: target.copy_(source), threads=threads)
    rate = tell(ctx, "copy-within", times, 2 * 4 * size / GIGA, "GB/s", mib=4 * size // MIB)
    told.append("%.3g GB/s within (read and written)" % rate)
    return "; ".join(told)


def _both_ways(ctx, how, host, device):
    amount = host.numel() * 4 / GIGA
    asynchronous = how == "pinned"
    there = measure(ctx, lambda: device.copy_(host, non_blocking=asynchronous))
    rate = tell(ctx, "copy-to-device-" + how, there, amount, "GB/s")
    back = measure(ctx, lambda: host.copy_(device, non_blocking=asynchronous))
    other = tell(ctx, "copy-from-device-" + how, back, amount, "GB/s")
    return ["%s: %.3g GB/s there, %.3g back" % (how, rate, other)]


# --- products ---------------------------------------------------------------------------------------------------------


def matmul(ctx):
    """Square products of random numbers, at the size that is fastest among a few."""
    told = []
    for precision in _precisions(ctx):
        try:
            best = _fastest(ctx, precision)
        except (RuntimeError, TypeError, Skip) as error:
            if not isinstance(error, Skip) and not lacking(error) and "memory" not in str(error).lower():
                raise
            told.append("%s: %s" % (precision, first_line(error, 80)))
            continue
        rate, times, size = best
        threads = torch.get_num_threads()
        details = {"size": size, "threads": threads} if ctx.kind == "cpu" else {"size": size}
        mhz = clock() if ctx.kind == "cpu" else None
        if mhz:
            details["mhz"] = mhz
        tell(ctx, "matmul-" + precision, times, 2.0 * size ** 3 / 1e12, "TFLOP/s", **details)
        told.append("%s %.3g TFLOP/s" % (precision, rate))
    if not told:
        raise Skip("no product can be measured")
    return ", ".join(told)


def _precisions(ctx):
    if ctx.kind == "cpu":
        return ("fp32", "bf16") if _fast_bf16() else ("fp32",)
    if ctx.kind != "cuda" or ctx.hip:
        return ("fp32", "fp16", "bf16")
    capability = ctx.backend.get_device_capability(ctx.device)
    found = ["fp32"]
    if capability >= (8, 0):
        found.append("tf32")
    found.append("fp16")
    if capability >= (8, 0):
        found.append("bf16")
    if capability >= (8, 9) and hasattr(torch, "float8_e4m3fn") and hasattr(torch, "_scaled_mm"):
        found.append("fp8")
    return tuple(found)


def _fast_bf16():
    """Whether this processor multiplies bf16 itself; without it one product of emulated ones takes long."""
    try:
        with open("/proc/cpuinfo") as lines:
            text = lines.read()
    except OSError:
        return False
    words = text.split()
    return "amx_bf16" in words or "avx512_bf16" in words


def _fastest(ctx, precision):
    sizes = (ctx.product_size,) if ctx.product_size else (1024, 2048) if ctx.kind == "cpu" else (2048, 4096, 8192)
    best = None
    with Switched(*_settings(precision == "tf32")):
        for size in sizes:
            try:
                work = _product(ctx, precision, size)
                times = measure(ctx, work, seconds=0.5, least=5, threads=torch.get_num_threads())
            except RuntimeError as error:
                if best is not None and "memory" in str(error).lower():
                    break  # a small card: what fits is measured
                raise
            rate = times.rate(2.0 * size ** 3 / 1e12)[0]
            if best is None or rate > best[0]:
                best = (rate, times, size)
            if times.median * (2 ** 3) > 0.4:
                break  # the next size takes eight times as long
    return best


def _settings(tf32):
    # "highest"/"high" and these attributes are one switch; the attribute exists in every torch that has TF32.
    matmul = getattr(torch.backends.cuda, "matmul", None)
    return [(matmul, "allow_tf32", tf32)] if matmul is not None else []


def _product(ctx, precision, size):
    if precision == "fp8":
        return _product_of_bytes(ctx, size)
    dtype = DTYPE[precision]
    left = torch.randn(size, size, device=ctx.device).to(dtype)
    right = torch.randn(size, size, device=ctx.device).to(dtype)
    out = torch.empty(size, size, dtype=dtype, device=ctx.device)
    return lambda: torch.mm(left, right, out=out)


def _product_of_bytes(ctx, size):
    """With sums as training has them: on Hopper and data center Blackwell the published rate is that of fast ones."""
    left, right = [torch.randn(size, size, device=ctx.device).to(torch.float8_e4m3fn) for _ in range(2)]
    one = torch.ones((), device=ctx.device)
    options = {"scale_a": one, "scale_b": one, "out_dtype": torch.bfloat16}
    if ctx.backend.get_device_capability(ctx.device)[0] in (9, 10):
        options["use_fast_accum"] = True
    call = lambda: torch._scaled_mm(left, right.t(), **options)  # noqa: E731
    try:
        call()
    except (RuntimeError, TypeError, ValueError) as error:
        raise Skip("8-bit products: " + first_line(error, 60))
    return call


def clock():
    """MHz of the fastest core just now, as Linux shows them; None = unknown."""
    try:
        with open("/proc/cpuinfo") as lines:
            found = [float(line.split(":")[1]) for line in lines if line.startswith("cpu MHz")]
        return max(found) if found else None
    except (OSError, ValueError, IndexError):
        return None


# --- small operations -------------------------------------------------------------------------------------------------


def launch(ctx):
    """Microseconds of one small operation among many (the program's side), and until its result is back."""
    x = torch.zeros(16, device=ctx.device)
    count = 200

    def several():
        for _ in range(count):
            x.add_(1.0)

    samples = []
    several()
    for _ in range(25):
        ctx.synchronize()
        start = time.perf_counter()
        several()
        samples.append((time.perf_counter() - start) / count)
        ctx.synchronize()
    each = Times(samples, None)
    ctx.measured("operation", float("%.4g" % (each.median * 1e6)), "us", samples=len(samples),
                 low=float("%.4g" % (each.samples[0] * 1e6)), high=float("%.4g" % (each.samples[-1] * 1e6)))
    if ctx.kind == "cpu":
        return "%.3g us for an operation" % (each.median * 1e6)
    samples = []
    for _ in range(100):
        start = time.perf_counter()
        x.add_(1.0)
        ctx.synchronize()
        samples.append(time.perf_counter() - start)
    back = Times(samples, None)
    ctx.measured("round-trip", float("%.4g" % (back.median * 1e6)), "us", samples=len(samples),
                 low=float("%.4g" % (back.samples[0] * 1e6)), high=float("%.4g" % (back.samples[-1] * 1e6)))
    return "%.3g us to start a kernel, %.3g us until it is done" % (each.median * 1e6, back.median * 1e6)


# --- threads ----------------------------------------------------------------------------------------------------------


def usable_cores():
    """Logical cores that this process may run on, a container's share of their time included."""
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:
        cores = os.cpu_count() or 1
    quota = _quota()
    return cores if quota is None else max(1, min(cores, int(math.ceil(quota))))


def _quota():
    """Cores' worth of time that the control group allows; None = no limit, or none that shows."""
    try:
        with open("/sys/fs/cgroup/cpu.max") as lines:
            most, period = lines.read().split()
        return int(most) / float(period)
    except (OSError, ValueError):
        pass  # another version of control groups, or "max"
    try:
        with open("/sys/fs/cgroup/cpu/cpu.cfs_quota_us") as first, open("/sys/fs/cgroup/cpu/cpu.cfs_period_us") as second:
            most, period = int(first.read()), int(second.read())
        return most / float(period) if most > 0 and period > 0 else None
    except (OSError, ValueError):
        return None


def threads(ctx):
    """The same fp32 product with one thread, and so on doubled, to all cores; and with torch's own number."""
    own = torch.get_num_threads()
    cores = usable_cores()
    counts = {1, cores, own, max(1, cores // 2)}
    step = 2
    while step < cores:
        counts.add(step)
        step *= 2
    size = ctx.product_size or 1024
    work = _product(ctx, "fp32", size)
    rates = {}
    try:
        for count in sorted(counts):
            torch.set_num_threads(count)
            times = measure(ctx, work, seconds=0.4, threads=count)
            details = {"threads": count, "own": int(count == own), "cores": cores}
            mhz = clock()
            if mhz:
                details["mhz"] = mhz
            rates[count] = tell(ctx, "threads", times, 2.0 * size ** 3 / 1e12, "TFLOP/s", case="threads=%d" % count, **details)
    finally:
        torch.set_num_threads(own)
    best = max(rates, key=lambda count: rates[count])
    return "torch uses %d, %.3g TFLOP/s; fastest %d, %.3g TFLOP/s" % (own, rates[own], best, rates[best])
