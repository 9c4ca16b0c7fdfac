"""Devices that are slower than they can be, judged by what `smoke --speed` measured and nvidia-smi showed under load.

Without measurements these rules say nothing. A warning needs a rate that is far below what the hardware gives on every
healthy machine; settings and reasons alone are notes.
"""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.facts import Facts, UnderLoad
from envcheck.findings import Finding, Remedy
from envcheck.matrix import Matrix
from envcheck.rules import performance_peak as peak
from envcheck.rules.base import Rule, rule

SLOW = 1 / 3
"""Healthy cards reach half of their peak or more with large products; small ones at 70 W, hot, come down to 0.38."""
SLOW_AT_POWER_LIMIT = 0.2
"""Cards that stand at the power limit they were made with do what they can."""
MEMORY_SLOW = 0.4
"""A copy reaches 0.7 to 0.95 of the bandwidth of the memory."""
LINK_SLOW = 0.6
"""Pinned copies reach 0.75 to 0.9 of the rate of the link."""
FEWER = 0.25
"""A quarter of the best link or less is a warning, more a note: two generations, or four lanes of sixteen."""
WORKERS_GAIN = 1.2
THREADS_GAIN = 1.25
CPU_SLOW = 0.15
DISK_SLOW = 0.1
AMP_LOSS = 0.95
GPU_CHECKS = ("nvidia-smi -q -d PERFORMANCE,POWER,CLOCK,TEMPERATURE",)


@rule("gpu-throttled", "performance", "The GPU is throttled.", explains=("gpu-slow", "gpu-memory-slow"))
def gpu_throttled(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Heat, or a brake that no user asked for. That a card runs at its power limit under full load is normal."""
    for load in peak.loads(facts):
        hot = peak.throttled(load, *peak.HEAT)
        names = ("HW Power Brake Slowdown", "HW Slowdown")
        share = max(hot, peak.throttled(load, *names))
        if share < peak.OFTEN:
            continue
        what = "thermal" if hot >= peak.OFTEN else "power brake or hardware slowdown"
        degrees = f", {load.temperature_max:.0f} C at most" if load.temperature_max is not None else ""
        board = matrix.gpu(load.name) if load.name else None
        laptop = board is not None and board.segment == "laptop"
        clock = f", SM clock {load.clocks_sm} of {load.clocks_sm_max} MHz" if load.clocks_sm else ""
        yield rule.finding(
            "note" if laptop else "warning",  # a laptop's cooling is not made for full load that lasts
            title=f"{load.device} is throttled: {what}.",
            seen=f"{load.device}: {', '.join(load.throttle or ())} in {100 * share:.0f} % of {load.samples} readings "
            f"under load{degrees}{clock}",
            why="It lowers its clock to save itself, and every program on it becomes slower.",
            remedy=Remedy(
                text="Look after the air: fans, dust, filters, the gap to the next card; in a server, the fan profile. "
                "A passively cooled card needs a server's wind."
                if hot >= peak.OFTEN
                else "Look after the power: all plugs of the card in place, each on a cable of its own, a supply that "
                "is strong enough; in a server, the power brake of the chassis.",
                commands=GPU_CHECKS,
            ),
        )


@rule("gpu-power-limit", "performance", "The GPU's power limit is set lower than usual.", explains=("gpu-slow",))
def gpu_power_limit(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Only where the card stood at that limit while it was measured."""
    for load in peak.loads(facts):
        if not peak.power_reduced(load) or peak.throttled(load, peak.POWER_CAP) < peak.OFTEN:
            continue
        yield rule.finding(
            "note",
            title=f"{load.device}: power limit {load.power_limit:.0f} of {load.power_default_limit:.0f} W.",
            seen=f"{load.device} was at its power limit in {100 * peak.throttled(load, peak.POWER_CAP):.0f} % of "
            f"{load.samples} readings under load",
            why="A lower limit costs speed; often that is wanted, for heat, noise or the power of a room.",
            remedy=Remedy(
                text="If it is not wanted, an administrator sets the usual limit again (it lasts until the next start).",
                commands=(f"sudo nvidia-smi -i {load.bus_id or 0} -pl {load.power_default_limit:.0f}",),
            ),
        )


@rule("gpu-shared", "performance", "Another process uses the GPU.", explains=("gpu-slow", "gpu-memory-slow"))
def gpu_shared(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """By the utilization before envcheck itself began, the lowest of several readings."""
    for load in peak.loads(facts):
        before = load.utilization_before
        if before is None or before < peak.IDLE:
            continue
        others = len(load.processes_before or ())
        listed = f"; {others} process{'' if others == 1 else 'es'} on it" if others else ""
        yield rule.finding(
            "note",
            title=f"Another process uses {before:.0f} % of {load.device}.",
            seen=f"{load.device}: {before:.0f} % busy before the measurement began{listed}",
            why="What was measured is what the other one leaves; it says nothing about the card.",
            remedy=Remedy(
                text="Measure again when it is free, or choose another GPU with CUDA_VISIBLE_DEVICES.",
                commands=("nvidia-smi",),
            ),
        )


@rule("pcie-link-slow", "performance", "The GPU's PCIe link is slower than the card's.")
def pcie_link_slow(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """The link under load, and only where copies were as slow as that link; idle links are slow on purpose."""
    for load in peak.loads(facts):
        rates = peak.board(load, matrix)
        best = peak.best_link(load, rates)
        copies = peak.measured(facts, "copy-to-device-pinned", load.device)
        if best is None or not copies:
            continue
        rate, full = copies[0].value, peak.rate_of(best)
        if rate >= LINK_SLOW * full:
            continue
        link = (load.pcie_gen, load.pcie_width)
        known = link[0] is not None and link[1] is not None
        now = peak.rate_of((link[0] or 0, link[1] or 0)) if known else None
        if now is not None and (now >= LINK_SLOW * full or rate > 1.1 * now):
            continue  # the link is as it should be, or faster than nvidia-smi says: something else is slow
        if now is None and rate >= FEWER * full:
            continue
        what = f"PCIe x{link[1]} gen {link[0]} instead of x{best[1]} gen {best[0]}" if known else "PCIe is slow"
        yield rule.finding(
            "warning" if now is not None and now <= FEWER * full else "note",
            title=f"{load.device}: {what}.",
            seen=f"pinned copies to {load.device}: {rate:.3g} GB/s, where x{best[1]} gen {best[0]} carries {full:.3g}",
            why="Copies to and from the GPU, and between GPUs without NVLink, take that much longer; computing with "
            "what is already there does not.",
            remedy=Remedy(
                text="Put the card into a slot that is wired with all lanes from the CPU (the board's manual names it), "
                "without a riser or extension of an older generation; look whether the firmware fixes the slot's "
                "speed or splits its lanes. In a virtual machine the host decides.",
                commands=("nvidia-smi -q -d PCIE" if not known else "nvidia-smi -q | grep -A8 'GPU Link Info'",),
            ),
            confidence="certain" if known else "possible",
            otherwise="" if known else "The link's state is not known here; memory on another socket is slow as well.",
        )


@rule("gpu-slow", "performance", "The GPU computes far more slowly than this card can.")
def gpu_slow(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """By the best precision: one that is slow alone has other reasons than the card."""
    for load in peak.loads(facts):
        shares = [s for s in peak.compute_shares(facts, matrix) if s.device == load.device]
        best = max(shares, key=lambda s: s.share, default=None)
        if best is None or best.share >= (SLOW_AT_POWER_LIMIT if _at_own_limit(load) else SLOW):
            continue
        yield from _slow(rule, load, str(best), "Every program on it is that much slower than on another such card.")


@rule("gpu-memory-slow", "performance", "The GPU's memory is far slower than this card's.")
def gpu_memory_slow(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """By copies within the device, larger than its caches."""
    for load in peak.loads(facts):
        for share in peak.memory_shares(facts, matrix):
            if share.device == load.device and share.share < MEMORY_SLOW:
                yield from _slow(rule, load, str(share), "Most operations of a network wait for the memory.")


def _at_own_limit(load: UnderLoad) -> bool:
    return peak.throttled(load, peak.POWER_CAP) >= peak.OFTEN and not peak.power_reduced(load)


def _slow(rule: Rule, load: UnderLoad, measured: str, why: str) -> Iterator[Finding]:
    reasons = peak.reasons(load)
    yield rule.finding(
        "warning",
        title=f"{load.device} is slow: {measured}.",
        seen="; ".join((f"{load.device}: {measured}", *reasons)),
        why=why,
        remedy=Remedy(
            text=f"What the readings show: {', '.join(reasons)}."
            if reasons
            else "The readings show no reason. Measure again alone on the machine; compare with a card of the same "
            "kind; look at clocks and power while it runs.",
            commands=GPU_CHECKS,
        ),
        confidence="certain" if reasons else "likely",
        otherwise="" if reasons else "A virtual GPU, or a limit of the machine's owner, may give less than the board.",
    )


@rule("dataloader-workers", "performance", "More DataLoader workers load faster here.")
def dataloader_workers(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """The fewest workers that are about as fast as the fastest setting."""
    rates = {int(m.details.get("workers", 0)): m.value for m in peak.measured(facts, "dataloader")}
    best = peak.measured(facts, "dataloader-best")
    if not best or not peak.cpu_was_idle(facts) or 0 not in rates:
        return
    workers = int(best[0].value)
    if workers not in rates or rates[workers] < WORKERS_GAIN * rates[0]:
        return
    yield rule.finding(
        "note",
        title=f"num_workers={workers} loads fastest here.",
        seen="images a second by workers: " + ", ".join(f"{n}: {rates[n]:.4g}" for n in sorted(rates)),
        why="A GPU that waits for data is idle. The best number depends on what your own images cost; for others than "
        "these (unpacked, cropped, normalised, 224 x 224) measure around it.",
        remedy=Remedy(text=f"DataLoader(..., num_workers={workers}, persistent_workers=True)"),
    )


@rule("cpu-threads", "performance", "Another number of threads is faster on this CPU.")
def cpu_threads(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Rates of the same product with several numbers of threads."""
    found = peak.measured(facts, "threads", "cpu")
    own = next((m for m in found if m.details.get("own")), None)
    best = max(found, key=lambda m: m.value, default=None)
    if own is None or best is None or best.value < THREADS_GAIN * own.value or not peak.cpu_was_idle(facts):
        return
    used, wanted = int(own.details["threads"]), int(best.details["threads"])
    variables = [v for v in ("OMP_NUM_THREADS", "MKL_NUM_THREADS") if facts.variable(v)]
    cause = f" {' and '.join(variables)} set it." if variables else ""
    yield rule.finding(
        "warning",
        title=f"torch computes with {used} threads; {wanted} are {best.value / own.value:.1f} times as fast.",
        seen=", ".join(f"{m.case}: {m.value:.3g} {m.unit}" for m in found)
        + f"; {int(own.details.get('cores', 0))} cores may be used",
        why=("Threads share the cores, and wait for each other." if wanted < used else "Cores stand idle.") + cause,
        remedy=Remedy(
            text="Set the number before Python starts, or torch.set_num_threads() in the program.",
            commands=(f"OMP_NUM_THREADS={wanted} python ...",),
        ),
    )


@rule("cpu-slow", "performance", "The CPU computes far more slowly than its instructions and cores allow.")
def cpu_slow(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Only where the process had the cores for itself: a busy or limited machine is slow for a reason of its own."""
    share = peak.cpu_share(facts)
    item = next(iter(peak.measured(facts, "matmul-fp32", "cpu")), None)
    alone = item is not None and item.details.get("cpu_share", 0.0) >= 0.8
    if share is None or share.share >= CPU_SLOW or not alone or not peak.cpu_was_idle(facts):
        return
    yield rule.finding(
        "note",
        title=f"The CPU gives {share.value:.3g} TFLOP/s, {100 * share.share:.0f} % of what it can give at most.",
        seen=f"fp32 products: {share.value:.3g} of {share.peak:.3g} TFLOP/s (cores x clock x widest instructions)",
        why="Large products usually reach half of it.",
        remedy=Remedy(
            text="Look whether this build has code for the CPU (torch.backends.cpu.get_cpu_capability(), "
            "torch.__config__.show()), whether ATEN_CPU_CAPABILITY or MKL_ENABLE_INSTRUCTIONS hold it back, and "
            "whether the machine saves power.",
            commands=("python -c 'import torch; print(torch.__config__.show())'",),
        ),
        confidence="possible",
        otherwise="Cores with one wide unit, or half-width ones, give half of that at most.",
    )


@rule("disk-slow", "performance", "The disk reads slowly.")
def disk_slow(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """One long file, not from memory."""
    for item in peak.measured(facts, "disk-read"):
        if item.value < DISK_SLOW and item.unit == "GB/s":
            yield rule.finding(
                "note",
                title=f"The disk reads {1000 * item.value:.0f} MB/s.",
                seen=f"a file of the temporary directory, past the system's memory: {1000 * item.value:.0f} MB/s",
                why="A training set that does not fit into memory cannot be read faster than that.",
                remedy=Remedy(
                    text="Keep training data on a local SSD, packed into large files; TMPDIR=DIRECTORY measures the "
                    "disk of that directory.",
                    commands=("TMPDIR=/path/of/data envcheck smoke --speed --only disk",),
                ),
                confidence="likely",
                otherwise="Other programs may have read at the same time.",
            )


@rule("amp-slower", "performance", "Autocast makes training slower on this device.")
def amp_slower(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """The reference model, with and without."""
    for item in peak.measured(facts, "amp-gain"):
        if item.value >= AMP_LOSS or (item.device == "cpu" and not peak.cpu_was_idle(facts)):
            continue
        yield rule.finding(
            "note",
            title=f"Autocast is {item.value:.2g} times as fast as fp32 on {item.device}.",
            seen=f"training of the reference model on {item.device}, with autocast against without: {item.value:.2g}",
            why="Without units for half precision the conversions cost more than they save.",
            remedy=Remedy(text="Leave autocast off here, unless memory is what it is for."),
            confidence="likely",
            otherwise="Larger models may gain where this small one does not.",
        )


RULES: tuple[Rule, ...] = (
    gpu_throttled,
    gpu_power_limit,
    gpu_shared,
    pcie_link_slow,
    gpu_slow,
    gpu_memory_slow,
    dataloader_workers,
    cpu_threads,
    cpu_slow,
    disk_slow,
    amp_slower,
)
