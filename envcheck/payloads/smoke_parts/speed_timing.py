"""Timing: warm-up first, then samples that are long enough, the device's own clock where it has one, the median of all."""

import os
import time

WARM = 0.15
WARM_DEVICE = 0.5
"""Seconds: kernels are loaded, caches and allocators fill, and the clock of a GPU rises."""
SAMPLE = 0.02
"""A sample is made of as many calls as take this long: clocks and the start of a kernel do not matter then."""


class Times(object):
    """Seconds per call, sample by sample."""

    def __init__(self, samples, cpu_share):
        self.samples = sorted(samples)
        self.cpu_share = cpu_share

    @property
    def median(self):
        """The middle one."""
        half = len(self.samples) // 2
        if len(self.samples) % 2:
            return self.samples[half]
        return (self.samples[half - 1] + self.samples[half]) / 2

    def rate(self, amount):
        """What a measurement says of `amount` per call: keyword arguments of `Context.measured`, value apart."""
        return amount / self.median, {
            "samples": len(self.samples),
            "low": _round(amount / self.samples[-1]),
            "high": _round(amount / self.samples[0]),
        }


def _round(value):
    return float("%.4g" % value)


def tell(ctx, name, times, amount, unit, case=None, **details):
    """Emits the rate of `amount` per call and returns it."""
    value, more = times.rate(amount)
    if times.cpu_share is not None:
        details["cpu_share"] = round(times.cpu_share, 3)
    if case is not None:
        more["case"] = case
    ctx.measured(name, _round(value), unit, details=details, **more)
    return value


def measure(ctx, work, seconds=0.6, least=5, most=50, threads=None):
    """Times of one call of `work`; `seconds` is about what all samples take, `threads` how many compute on the CPU."""
    once = _warm(ctx, work)
    calls = max(1, int(SAMPLE / max(once, 1e-9)))
    samples = []
    begun, used = time.time(), _cpu_time()
    while len(samples) < least or (len(samples) < most and time.time() - begun < seconds):
        samples.append(_sample(ctx, work, calls))
        if time.time() - begun > 10 * seconds and len(samples) >= 3:
            break  # a device that is slower than was thought: few samples are better than none
    wall = time.time() - begun
    share = None
    if ctx.kind == "cpu" and threads:
        share = min(1.0, (_cpu_time() - used) / max(wall * threads, 1e-9))
    return Times(samples, share)


def _cpu_time():
    times = os.times()
    return times[0] + times[1]


def _warm(ctx, work):
    """Seconds that a call takes once it is warm."""
    warm = WARM if ctx.kind == "cpu" else WARM_DEVICE
    begun, calls, last = time.time(), 0, 0.0
    while calls < 2 or time.time() - begun < warm:
        start = time.time()
        work()
        ctx.synchronize()
        last = time.time() - start
        calls += 1
    return last


def _sample(ctx, work, calls):
    if ctx.kind == "cuda" and ctx.device.type == "cuda":
        first, last = ctx.backend.Event(enable_timing=True), ctx.backend.Event(enable_timing=True)
        first.record()
        for _ in range(calls):
            work()
        last.record()
        last.synchronize()
        return first.elapsed_time(last) / 1000.0 / calls
    ctx.synchronize()
    start = _clock()
    for _ in range(calls):
        work()
    ctx.synchronize()
    return max(_clock() - start, 1e-9) / calls


_clock = time.perf_counter
