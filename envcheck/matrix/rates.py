"""What a GPU can give at most: rates of dense products, bandwidth of its memory, its link."""

from __future__ import annotations

from envcheck.matrix.base import tail
from envcheck.matrix.rows import Fact
from envcheck.matrix.text import Row

PRECISIONS = ("fp32", "tf32", "fp16", "bf16", "fp8")

FP32_PER_CLOCK = {
    "6.0": 128,
    "6.1": 256,
    "7.0": 128,
    "7.5": 128,
    "8.0": 128,
    "8.6": 256,
    "8.9": 256,
    "9.0": 256,
    "10.0": 256,
    "12.0": 256,
}
"""fp32 operations (two for a multiply-add) of one multiprocessor in one clock: CUDA programming guide, throughput of
arithmetic instructions."""
NEAR = 0.04
"""Published rates are rounded, and data sheets name another clock than the highest."""

_LINK = {1: 0.25, 2: 0.5, 3: 0.985, 4: 1.969, 5: 3.938, 6: 7.563}
"""GB/s of one PCIe lane in one direction, after its line code."""


class GpuRates(Fact, frozen=True, kw_only=True):
    """One board. TFLOP/s, dense; fp16, bf16 and fp8 with sums in fp32. None = there is none, or it is unknown."""

    name: str
    sms: int
    boost_mhz: int | None
    fp32: float | None
    tf32: float | None
    fp16: float | None
    bf16: float | None
    fp8: float | None
    memory_gbs: float
    pcie_gen: int | None
    pcie_lanes: int | None
    notes: str

    def peak(self, precision: str) -> float | None:
        """The rate of one precision."""
        value = getattr(self, precision) if precision in PRECISIONS else None
        return float(value) if value is not None else None


def link_rate(gen: int | None, lanes: int | None) -> float | None:
    """GB/s of a PCIe link in one direction; None when one of the two is unknown."""
    lane = _LINK.get(gen or 0)
    return lane * lanes if lane is not None and lanes else None


def gpu_rates(row: Row) -> GpuRates:
    """A row of gpu_rates.csv."""
    sms, memory = row.number("sms"), _decimal(row, "memory_gbs")
    if not sms or memory is None:
        raise row.error("sms" if not sms else "memory_gbs", "is empty")
    lanes = row.number("pcie_lanes")
    if lanes not in (None, 4, 8, 16):
        raise row.error("pcie_lanes", f"'{lanes}' is none of: 4, 8, 16")
    return GpuRates(
        name=row.required("name"),
        sms=sms,
        boost_mhz=row.number("boost_mhz"),
        fp32=_decimal(row, "fp32"),
        tf32=_decimal(row, "tf32"),
        fp16=_decimal(row, "fp16"),
        bf16=_decimal(row, "bf16"),
        fp8=_decimal(row, "fp8"),
        memory_gbs=memory,
        pcie_gen=row.number("pcie_gen"),
        pcie_lanes=lanes,
        notes=row["notes"],
        **tail(row),
    )


def _decimal(row: Row, field: str) -> float | None:
    text = row[field]
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        raise row.error(field, f"'{text}' is not a number") from None
    if not 0 < value < 1e5:
        raise row.error(field, f"'{text}' is out of the range of such rates")
    return value
