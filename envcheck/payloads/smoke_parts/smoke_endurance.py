"""Smoke tests that take minutes: patterns over most of the free memory, and products that must be alike bit by bit.

Every error is counted and told with its place; none is averaged away, and a test goes on after the first one, because
how many there are and which bits they hit tells memory from heat from a broken line.
"""

import copy
import os
import sys
import time

import torch

from smoke_support import DTYPE, Skip, Switched, Wrong, expect, fetch, lacking

MIB = 1 << 20
CHUNK = 256 * MIB
WORD = 8

# Of the memory that is free: other programs may grow while the test runs, and torch itself needs some for comparing.
SHARE_OF_GPU = 0.85
LEFT_ON_GPU = 512 * MIB
# Where programs share the memory (the CPU, Macs, Jetsons) taking much of it makes the system swap or kill.
SHARE_OF_RAM = 0.25
MOST_OF_RAM = 2048 * MIB
UNKNOWN_RAM = 256 * MIB

MEMORY_TIME = 1.0 / 3
"""Part of the minutes that the memory test may take after its first round; the products get the rest."""
DETAILS = 4096
"""So many wrong words of one comparison are looked at bit by bit; all are counted."""


# --- memory ---------------------------------------------------------------------------------------------------------


def memory(ctx):
    """Writes a pattern everywhere, then reads it everywhere: what lines that touch each other change shows afterwards.

    Patterns: all zeros and ones; a single one, and a single zero, walking through each byte; the address of each word
    and its complement, which show lines of the address that are stuck; the address times a random odd number, which is
    different for every word and in every round.
    """
    try:
        return _memory(ctx)
    finally:
        empty = getattr(ctx.backend, "empty_cache", None)
        if ctx.kind != "cpu" and empty is not None:
            empty()  # the caching allocator would keep nearly all memory of the device


def _memory(ctx):
    until = time.time() + 60.0 * ctx.minutes * MEMORY_TIME
    chunks = _allocate(ctx)
    scratch = torch.empty_like(chunks[0])
    found = _Findings()
    rounds, salt = 0, 1
    while rounds == 0 or time.time() < until:
        patterns = _fixed() + _addressed(salt)
        if ctx.kind == "mps":
            patterns = [_through_host(pattern) for pattern in patterns]
        for number, pattern in enumerate(patterns):
            _pass(ctx, chunks, scratch, pattern, found, (rounds, number, len(patterns)))
            if rounds and time.time() > until:
                break
        salt = int(torch.randint(1 << 40, (1,), generator=ctx.random)) * 2 + 1
        rounds += 1
    size = sum(chunk.numel() for chunk in chunks) * WORD
    found.judge(size)
    return "%s, %s of %d patterns, no bit wrong" % (_size(size), _count(rounds, "round"), len(patterns))


def _pass(ctx, chunks, scratch, pattern, found, at):
    rounds, number, count = at
    name, write, word = pattern
    address = 0
    for chunk in chunks:
        write(chunk, address)
        address += chunk.numel()
    ctx.synchronize()
    address = 0
    for chunk in chunks:
        if word is None:
            expected = scratch[: chunk.numel()]
            write(expected, address)
        else:
            expected = word  # a number is sound whatever the memory is
        found.add(name, address, chunk, expected)
        address += chunk.numel()
        ctx.beat((number + address * WORD / float(max(1, len(chunks) * CHUNK))) / count, "round %d, %s" % (rounds + 1, name))


def _fixed():
    patterns = [("zeros", 0), ("ones", -1)]
    for bit in range(8):
        word = int("%02x" % (1 << bit) * WORD, 16)
        patterns.append(("walking one %d" % bit, word))
        patterns.append(("walking zero %d" % bit, ~word))
    return [(name, _fill(_signed(word)), _signed(word)) for name, word in patterns]


def _fill(word):
    return lambda chunk, address: chunk.fill_(word)


def _addressed(salt):
    factor = _signed(salt)

    def address_itself(chunk, address):
        torch.arange(address, address + chunk.numel(), out=chunk)

    def complement(chunk, address):
        address_itself(chunk, address)
        chunk.bitwise_not_()

    def scattered(chunk, address):
        address_itself(chunk, address)
        chunk.mul_(factor)  # int64 products wrap; by an odd number no two words become alike

    return [
        ("address", address_itself, None),
        ("complement of the address", complement, None),
        ("scattered address", scattered, None),
    ]


def _through_host(pattern):
    """The pattern made on the CPU and copied: Metal's graphs hold whole numbers of a call as floating-point ones."""
    name, write, _ = pattern

    def copied(chunk, address):
        image = torch.empty(chunk.numel(), dtype=torch.int64)
        write(image, address)
        chunk.copy_(image)

    return name, copied, None


def _signed(word):
    word &= (1 << 64) - 1
    return word - (1 << 64) if word >> 63 else word


class _Findings(object):
    """What was wrong, over all patterns and rounds."""

    def __init__(self):
        self.words = self.bits = self.unlooked = 0
        self.mask = self.risen = 0
        self.passes = []
        self.first = None

    def add(self, name, address, chunk, expected):
        """Compares a chunk word by word, and what differs bit by bit."""
        wrong = torch.ne(chunk, expected)
        words = int(wrong.sum())
        if not words:
            return
        self.words += words
        self.passes.append(name)
        places = wrong.reshape(-1).nonzero().reshape(-1)[:DETAILS]
        got = chunk[places].cpu().tolist()
        want = expected[places].cpu().tolist() if torch.is_tensor(expected) else [expected] * len(got)
        self.unlooked += words - len(got)
        if self.first is None:
            self.first = "byte %d of the tested memory, %s: read %016x, written %016x" % (
                (address + int(places[0])) * WORD, name, got[0] & (1 << 64) - 1, want[0] & (1 << 64) - 1,
            )
        for mine, theirs in zip(got, want):
            flipped = (mine ^ theirs) & (1 << 64) - 1
            self.bits += bin(flipped).count("1")
            self.risen += bin(flipped & mine).count("1")
            self.mask |= flipped

    def judge(self, size):
        """Raises what was found."""
        if not self.words:
            return
        raise Wrong(
            "%s%s wrong in %s of %s (%d became one, %d zero; positions in the word %016x), in %s; first at %s" % (
                "more than " if self.unlooked else "", _count(self.bits, "bit"), _count(self.words, "word"),
                _size(size), self.risen, self.bits - self.risen, self.mask, _count(len(self.passes), "comparison"),
                self.first,
            )
        )


def _allocate(ctx):
    """Chunks of int64 that together take the part of the free memory that may be taken."""
    wanted = ctx.memory_bytes if ctx.memory_bytes else _allowed(ctx)
    if wanted < MIB:
        raise Skip("no more than %s of memory may be taken" % _size(wanted))
    chunks = []
    while wanted >= WORD:
        size = min(wanted, CHUNK)
        try:
            chunks.append(torch.empty(size // WORD, dtype=torch.int64, device=ctx.device))
        except RuntimeError as error:
            if "memory" not in str(error).lower():
                raise
            # Somebody else was quicker. What we have is given up in part: comparing needs room.
            del chunks[-2:]
            break
        wanted -= size
    if not chunks:
        raise Skip("no memory is free")
    return chunks


def _allowed(ctx):
    shared = ctx.kind in ("cpu", "mps")
    if not shared:
        free, shared = _free_on_device(ctx)
    if shared:
        available = available_ram()
        return UNKNOWN_RAM if available is None else min(int(available * SHARE_OF_RAM), MOST_OF_RAM)
    if free is None:
        raise Skip("this torch does not tell how much memory of the device is free")
    # The scratch chunk and the comparison come on top.
    return max(0, min(int(free * SHARE_OF_GPU), free - LEFT_ON_GPU) - 2 * CHUNK)


def _free_on_device(ctx):
    """(free bytes or None, whether it is the memory of the whole machine)."""
    empty = getattr(ctx.backend, "empty_cache", None)
    if empty is not None:
        empty()
    properties = ctx.backend.get_device_properties(ctx.device)
    integrated = bool(getattr(properties, "is_integrated", 0) or getattr(properties, "integrated", 0))
    if not integrated and ctx.kind == "cuda" and os.path.exists("/etc/nv_tegra_release"):
        integrated = True
    ask = getattr(ctx.backend, "mem_get_info", None)
    if ask is not None:
        return int(ask(ctx.device)[0]), integrated
    runtime = getattr(ctx.backend, "cudart", None)
    if runtime is not None and hasattr(runtime(), "cudaMemGetInfo"):
        return int(runtime().cudaMemGetInfo(ctx.device.index or 0)[0]), integrated
    return None, integrated


def available_ram():
    """Bytes that programs can still get without swapping, a container's limit included; None = unknown."""
    found = [value for value in (_meminfo(), _cgroup_room()) if value is not None]
    if found:
        return min(found)
    if sys.platform == "win32":
        return _windows_available()
    return None


def _meminfo():
    try:
        with open("/proc/meminfo") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return None


def _cgroup_room():
    pairs = (
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    )
    for limit, usage in pairs:
        try:
            with open(limit) as first, open(usage) as second:
                return max(0, int(first.read()) - int(second.read()))
        except (OSError, ValueError):
            continue  # not there, or "max": no limit
    return None


def _windows_available():
    import ctypes

    class Status(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ulong), ("load", ctypes.c_ulong)] + [
            (name, ctypes.c_ulonglong) for name in ("total", "free", "a", "b", "c", "d", "e")
        ]

    status = Status()
    status.length = ctypes.sizeof(status)
    if not ctypes.windll.kernel32.GlobalMemoryStatusEx(ctypes.byref(status)):
        return None
    return int(status.free)


def _count(number, what):
    return "%d %s%s" % (number, what, "" if number == 1 else "s")


def _size(count):
    return "%.1f GiB" % (count / float(1 << 30)) if count >= 1 << 30 else "%.1f MiB" % (count / float(MIB))


# --- products -------------------------------------------------------------------------------------------------------

SETTLED = 0.2
"""The first and the last fifth of the time are compared for the rate."""


def products(ctx):
    """The same products again and again, at full load, each compared with the first one bit by bit.

    On NVIDIA GPUs the factors are random: cuBLAS promises the same bits for the same call on the same stream. Elsewhere
    they are small whole numbers, whose products and sums are exact in every order: libraries may then share the work
    out as they like, by the load of the machine even.
    """
    random = ctx.kind == "cuda" and not ctx.hip and ctx.device.type == "cuda"
    seconds = 60.0 * ctx.minutes * (1 - MEMORY_TIME)
    with Switched(*_exactly()):
        jobs = [job for job in (_job(ctx, name, random) for name in _precisions(ctx)) if job is not None]
        expect(jobs, "no kind of product can be computed")
        share = seconds / len(jobs)
        for place, job in enumerate(jobs):
            _keep_busy(ctx, [(ctx, job)], share, place / float(len(jobs)), 1.0 / len(jobs))
    return _judge(jobs)


def products_together(ctx):
    """All GPUs at once: what a power supply, a switch or the air of the machine cannot bear shows only then."""
    devices = ctx.peers()
    if len(devices) < 2:
        raise Skip("there is one GPU only")
    work = []
    with Switched(*_exactly()):
        for device in devices:
            there = copy.copy(ctx)
            there.device = device
            job = _job(there, _precisions(there)[0], not ctx.hip and device.type == "cuda")
            if job is not None:
                work.append((there, job))
        expect(len(work) == len(devices), "no product can be computed on some of the GPUs")
        _keep_busy(ctx, work, 60.0 * ctx.minutes * (1 - MEMORY_TIME), 0.0, 1.0)
    return _judge([job for _, job in work], "GPU %d: ")


def _keep_busy(ctx, work, seconds, before, part):
    """Products for that time on one device or several; their counters are fetched now and then."""
    begun, batch = time.time(), 1
    while True:
        start = time.time()
        counters = [job.launch(there, batch) for there, job in work]
        took = max(job.collect(counter, batch, start) for counter, (_, job) in zip(counters, work))
        batch = max(1, min(4096, int(batch * 0.5 / took), 4 * batch))
        over = time.time() - begun
        ctx.beat(before + part * min(1.0, over / max(seconds, 1e-6)), "%s: %d products, %d wrong" % (
            work[0][1].precision, sum(job.count for _, job in work), sum(job.products_wrong for _, job in work)))
        if over >= seconds:
            return


def _judge(jobs, name=""):
    named = [(name % place if name else "", job) for place, job in enumerate(jobs)]
    wrong = [prefix + job.failure() for prefix, job in named if job.products_wrong]
    if wrong:
        raise Wrong("; ".join(wrong))
    return "; ".join(prefix + job.told() for prefix, job in named)


def _exactly():
    matmul = getattr(torch.backends.cuda, "matmul", None)
    changes = [(torch.backends.cudnn, "allow_tf32", False)]
    if matmul is not None:
        changes += [
            (matmul, "allow_tf32", False),
            (matmul, "allow_fp16_reduced_precision_reduction", False),
            (matmul, "allow_bf16_reduced_precision_reduction", False),
        ]
    return changes


def _precisions(ctx):
    if ctx.kind == "cpu":
        return ("fp32",)
    if ctx.kind == "cuda" and not ctx.hip:
        return ("bf16", "fp32") if ctx.backend.get_device_capability(ctx.device)[0] >= 8 else ("fp16", "fp32")
    return ("fp16", "fp32")


def _job(ctx, precision, random):
    n = ctx.product_size or _size_of_product(ctx)
    try:
        return _Job(ctx, precision, n, random)
    except (RuntimeError, TypeError) as error:
        if lacking(error):
            return None
        raise


def _size_of_product(ctx):
    """Large enough that comparing takes little of the time, small enough to fit."""
    if ctx.kind in ("cpu", "mps"):
        return 512 if ctx.kind == "cpu" else 2048
    memory = getattr(ctx.backend.get_device_properties(ctx.device), "total_memory", 0)
    return 8192 if memory >= 16 << 30 else 4096


def _bits(tensor):
    """The tensor as whole numbers, so that NaN equals NaN and zero is not minus zero."""
    try:
        return tensor.view({4: torch.int32, 2: torch.int16}[tensor.element_size()])
    except (RuntimeError, TypeError):
        return tensor  # before torch 1.7


class _Job(object):
    """One kind of product."""

    def __init__(self, ctx, precision, n, random):
        self.precision, self.n = precision, n
        torch.manual_seed(ctx.seed)
        self.left, self.right = [self._factor(ctx, random) for _ in range(2)]
        self.out = ctx.poisoned((n, n), DTYPE[precision])
        self.want = ctx.poisoned((n, n), DTYPE[precision])
        torch.mm(self.left, self.right, out=self.want)
        ctx.synchronize()
        expect(bool(torch.isfinite(fetch(self.want[:1])).all()), "a product in %s is not finite" % precision)
        self.count = self.products_wrong = self.elements_wrong = 0
        self.rates = []
        self.seconds = 0.0

    def _factor(self, ctx, random):
        # Products of whole numbers to 3 add up to at most 9 n, which fp32 sums hold exactly; so does fp16 what of it
        # really comes (a deviation of 4 sqrt(n), 362 for 8192, where 2048 is exact).
        shape, dtype = (self.n, self.n), DTYPE[self.precision]
        if random:
            return torch.randn(*shape, device=ctx.device).to(dtype)
        return torch.randint(-3, 4, shape).to(dtype).to(ctx.device)

    def launch(self, ctx, batch):
        """Starts products; the counters of what differs stay on the device."""
        elements = torch.zeros((), dtype=torch.int64, device=ctx.device)
        wrong = torch.zeros((), dtype=torch.int64, device=ctx.device)
        for _ in range(batch):
            self.out.fill_(float("nan"))
            torch.mm(self.left, self.right, out=self.out)
            differing = torch.ne(_bits(self.out), _bits(self.want)).sum()
            elements += differing
            wrong += differing > 0
        return elements, wrong

    def collect(self, counters, batch, start):
        """Waits for them; returns the seconds since `start`."""
        self.elements_wrong += int(counters[0].cpu())
        self.products_wrong += int(counters[1].cpu())
        took = max(time.time() - start, 1e-6)
        self.count += batch
        self.seconds += took
        self.rates.append((took, batch * 2.0 * self.n ** 3 / took / 1e12))
        return took

    def told(self):
        """How many there were, and how fast at the beginning and the end (comparing included)."""
        first, last = self._rate(self.rates), self._rate(self.rates[::-1])
        text = "%s: %d products of %d x %d" % (self.precision, self.count, self.n, self.n)
        return text + (", %.3g TFLOP/s at first, %.3g at the end" % (first, last) if len(self.rates) > 4 else "")

    def _rate(self, rates):
        total, work = 0.0, 0.0
        for took, rate in rates:
            total, work = total + took, work + took * rate
            if total >= SETTLED * self.seconds:
                break
        return work / total

    def failure(self):
        return "%d of %d products in %s not like the first, in %s together" % (
            self.products_wrong, self.count, self.precision, _count(self.elements_wrong, "element"))
