"""What was measured against what the hardware can give, and the reasons that the readings under load show."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from envcheck.facts import Facts, Measurement, System, UnderLoad
from envcheck.matrix import Matrix
from envcheck.matrix.rates import PRECISIONS, GpuRates, link_rate

IDLE = 30.0
"""Percent of the CPU that others may use before a measurement of it counts for nothing."""
READINGS = 3
"""So many readings under load are needed before anything is said about them."""
OFTEN = 0.2
"""Share of the readings from which on a reason for throttling counts."""
HEAT = ("HW Thermal Slowdown", "SW Thermal Slowdown")
BRAKES = {
    "HW Power Brake Slowdown": "power brake (the power supply asks for it)",
    "HW Slowdown": "hardware slowdown (heat, power or the power brake)",
    "Sync Boost": "sync boost (held at the clock of another GPU)",
    "Applications Clocks Setting": "clocks set by hand (nvidia-smi -ac or -lgc)",
}
POWER_CAP = "SW Power Cap"

# fp32 operations per core and clock (two for a multiply-add): units x lanes x 2, for cores with two such units, which
# is the most that any has. Measured rates beyond are possible where the clock is higher than was read.
_PER_CLOCK = (("avx512f", 64), ("avx2", 32), ("avx", 16), ("sse4_2", 8), ("sve", 32), ("asimd", 16))


@dataclass(frozen=True)
class Share:
    """One measured rate against its peak. unit as measured."""

    device: str
    name: str
    value: float
    unit: str
    peak: float
    source: str

    @property
    def share(self) -> float:
        """Of the peak."""
        return self.value / self.peak

    def __str__(self) -> str:
        return (
            f"{self.name}: {self.value:.3g} {self.unit}, {100 * self.share:.0f} % of what this card gives "
            f"({self.peak:.4g})"
        )


def measured(facts: Facts, name: str, device: str | None = None) -> tuple[Measurement, ...]:
    """Measurements of that name."""
    return tuple(m for m in facts.speed or () if m.name == name and (device is None or m.device == device))


def loads(facts: Facts) -> tuple[UnderLoad, ...]:
    """The GPUs that were watched."""
    return facts.under_load or ()


def board(load: UnderLoad, matrix: Matrix) -> GpuRates | None:
    """What the board can give; None for a slice of it, and for one that has another number of multiprocessors."""
    if load.mig or load.name is None or load.multiprocessors is None:
        return None
    rates = matrix.gpu_rates(load.name)
    return rates if rates is not None and rates.sms == load.multiprocessors else None


def compute_shares(facts: Facts, matrix: Matrix) -> Iterator[Share]:
    """Products of each precision on each GPU whose peak is known."""
    for load in loads(facts):
        rates = board(load, matrix)
        for precision in PRECISIONS if rates is not None else ():
            peak = rates.peak(precision) if rates is not None else None
            for item in measured(facts, f"matmul-{precision}", load.device):
                if peak:
                    yield Share(load.device, precision, item.value, item.unit, peak, rates.source if rates else "")


def memory_shares(facts: Facts, matrix: Matrix) -> Iterator[Share]:
    """Copies within each GPU, from memory to memory, against the bandwidth of its memory."""
    for load in loads(facts):
        rates = board(load, matrix)
        for item in measured(facts, "copy-within", load.device):
            if rates is not None and item.details.get("mib", 0) >= 256:  # more than any cache holds
                yield Share(load.device, "memory", item.value, item.unit, rates.memory_gbs, rates.source)


def cpu_peak(system: System, threads: int, mhz: float | None) -> float | None:
    """TFLOP/s in fp32 that so many threads can give at most, by the instructions and the clock; None = unknown."""
    if system.cpu_flags is None or not mhz:
        return None
    lanes = next((count for flag, count in _PER_CLOCK if flag in system.cpu_flags), None)
    cores = min(threads, system.cores_physical or threads)
    return lanes * cores * mhz / 1e6 if lanes else None


def cpu_share(facts: Facts) -> Share | None:
    """The rate of fp32 products with torch's own number of threads against the CPU's peak."""
    for item in measured(facts, "matmul-fp32", "cpu"):
        threads = int(item.details.get("threads", 0))
        peak = cpu_peak(facts.system, threads, item.details.get("mhz")) if threads else None
        if peak:
            return Share("cpu", "fp32", item.value, item.unit, peak, "instructions, cores and clock")
    return None


def cpu_was_idle(facts: Facts) -> bool:
    """Whether the CPU was free before the measurement; not known is not free."""
    before = measured(facts, "cpu-busy-before")
    return bool(before) and before[0].value < IDLE


def throttled(load: UnderLoad, *names: str) -> float:
    """The largest share of readings that showed one of the reasons; 0 where there were too few readings."""
    if load.samples < READINGS:
        return 0.0
    return max((load.throttle or {}).get(name, 0.0) for name in names)


def power_reduced(load: UnderLoad) -> bool:
    """The power limit is clearly below that of the board."""
    limit, usual = load.power_limit, load.power_default_limit
    return limit is not None and usual is not None and limit < 0.9 * usual


def reasons(load: UnderLoad) -> list[str]:
    """What the readings offer as reasons for a low rate."""
    found = []
    if load.utilization_before is not None and load.utilization_before >= IDLE:
        found.append(f"another process used {load.utilization_before:.0f} % of it before")
    if power_reduced(load):
        found.append(f"power limit {load.power_limit:.0f} of {load.power_default_limit:.0f} W")
    if throttled(load, *HEAT) >= OFTEN:
        at = f" at {load.temperature_max:.0f} C" if load.temperature_max is not None else ""
        found.append(f"throttled: thermal{at}")
    found += [f"throttled: {text}" for name, text in BRAKES.items() if throttled(load, name) >= OFTEN]
    slow = load.clocks_sm and load.clocks_sm_max and load.clocks_sm < 0.6 * load.clocks_sm_max
    if slow and load.samples >= READINGS:
        found.append(f"SM clock {load.clocks_sm} of {load.clocks_sm_max} MHz")
    return found


def best_link(load: UnderLoad, rates: GpuRates | None) -> tuple[int, int] | None:
    """Generation and lanes of the fastest link that the board can have; by the driver, else by the table."""
    gen = load.pcie_gen_max or (rates.pcie_gen if rates else None)
    # The driver's maximum is of board and slot together on some systems, so the table's lanes come first.
    lanes = (rates.pcie_lanes if rates else None) or load.pcie_width_max
    return (gen, lanes) if gen and lanes else None


def rate_of(link: tuple[int, int]) -> float:
    """GB/s in one direction."""
    return link_rate(*link) or 0.0
