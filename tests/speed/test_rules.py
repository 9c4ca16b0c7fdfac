"""Rules over recorded measurements: what fires, with which reason, and the near misses that must not."""

from __future__ import annotations

import msgspec
import pytest

from envcheck.facts import EnvVar, Facts, GpuProcess, Measurement, System, UnderLoad
from envcheck.findings import Finding
from envcheck.matrix import load
from envcheck.rules import performance
from envcheck.rules.base import evaluate

CPU = System(os="linux", machine="x86_64", cpu_flags=("avx2", "fma"), cores_physical=8, cores_logical=16, cores_usable=16)
FREE = Measurement(name="cpu-busy-before", device="cpu", value=2.0, unit="%")
RTX = UnderLoad(
    device="cuda:0", name="NVIDIA GeForce RTX 4090", bus_id="00000000:01:00.0", multiprocessors=128, samples=20,
    temperature_max=71.0, power_draw_max=430.0, power_limit=450.0, power_default_limit=450.0, clocks_sm=2640,
    clocks_sm_max=3105, pcie_gen=4, pcie_gen_max=4, pcie_width=16, pcie_width_max=16, throttle={}, utilization_before=0.0,
)  # fmt: skip


def rate(name: str, value: float, unit: str = "TFLOP/s", device: str = "cuda:0", case: str | None = None, **details: float) -> Measurement:
    return Measurement(name=name, device=device, value=value, unit=unit, case=case, details=details)


HEALTHY = (
    FREE,
    rate("matmul-fp32", 62.0), rate("matmul-tf32", 71.0), rate("matmul-fp16", 150.0), rate("matmul-bf16", 152.0), rate("matmul-fp8", 290.0),
    rate("copy-within", 910.0, "GB/s", mib=512), rate("copy-to-device-pinned", 25.1, "GB/s"), rate("copy-from-device-pinned", 26.2, "GB/s"),
    rate("amp-gain", 1.9, "ratio"), rate("disk-read", 2.1, "GB/s", "cpu"),
)  # fmt: skip


def machine(*measurements: Measurement, gpu: UnderLoad | None = RTX, **changes: object) -> Facts:
    """Measurements replace healthy ones of their name."""
    new = {(m.name, m.device) for m in measurements}
    kept = tuple(m for m in HEALTHY if (m.name, m.device) not in new)
    loads = () if gpu is None else (msgspec.structs.replace(gpu, **changes),)
    return Facts(system=CPU, env=(), speed=kept + measurements, under_load=loads)


def findings(facts: Facts) -> dict[str, Finding]:
    found = evaluate(facts, load(), performance.RULES)
    assert not found.skipped, found.skipped
    assert not [f for f in found.findings if f.severity == "error" or f.area != "performance"]
    return {f.rule: f for f in found.findings}


SLOW = tuple(rate(f"matmul-{p}", v) for p, v in (("fp32", 9.0), ("tf32", 9.5), ("fp16", 19.0), ("bf16", 19.8), ("fp8", 38.0)))


def test_a_healthy_card_has_no_finding() -> None:
    assert findings(machine()) == {}


def test_without_measurements_nothing_is_said() -> None:
    assert findings(Facts(system=CPU)) == {}
    assert findings(Facts(system=CPU, under_load=(RTX,))) == {}


def test_slow_with_a_power_limit_names_both() -> None:
    found = findings(machine(*SLOW, power_limit=150.0, throttle={"SW Power Cap": 1.0}))
    slow = found["gpu-slow"]
    assert slow.severity == "warning"
    assert "19.8 TFLOP/s, 12 % of what this card gives" in slow.seen
    assert "power limit 150 of 450 W" in slow.seen
    assert "150 of 450 W" in found["gpu-power-limit"].title
    assert found["gpu-power-limit"].severity == "note"


def test_slow_and_hot_is_the_heat() -> None:
    found = findings(machine(*SLOW, throttle={"HW Thermal Slowdown": 0.7}, temperature_max=94.0, clocks_sm=600))
    assert list(found) == ["gpu-throttled", "gpu-slow"]
    assert found["gpu-slow"].consequence_of == "gpu-throttled"
    assert "throttled: thermal at 94 C" in found["gpu-slow"].seen
    assert "SM clock 600 of 3105 MHz" in found["gpu-slow"].seen


def test_slow_beside_another_process() -> None:
    found = findings(machine(*SLOW, utilization_before=60.0, processes_before=(GpuProcess(pid=4, name="python", memory=1 << 30),)))
    assert "another process used 60 % of it before" in found["gpu-slow"].seen
    assert "60 %" in found["gpu-shared"].title
    assert "1 process on it" in found["gpu-shared"].seen


def test_slow_without_a_reason_says_so() -> None:
    slow = findings(machine(*SLOW))["gpu-slow"]
    assert slow.confidence == "likely"
    assert "no reason" in slow.remedy.text


@pytest.mark.parametrize(
    "changes",
    [
        {"mig": True},
        {"multiprocessors": 114},
        {"multiprocessors": None},
        {"name": "NVIDIA GeForce RTX 4090 Laptop GPU"},
        {"name": None},
    ],
    ids=str,
)
def test_what_is_not_the_whole_board_is_not_compared_with_it(changes: dict[str, object]) -> None:
    assert "gpu-slow" not in findings(machine(*SLOW, **changes))


def test_one_slow_precision_is_not_a_slow_card() -> None:
    assert findings(machine(rate("matmul-fp32", 9.0))) == {}


def test_a_card_at_the_power_limit_it_was_made_with_may_be_slower() -> None:
    t4 = {"name": "Tesla T4", "multiprocessors": 40, "power_limit": 70.0, "power_default_limit": 70.0, "pcie_gen_max": 3, "pcie_gen": 3}
    at_limit = (rate("matmul-fp32", 2.4), rate("matmul-tf32", 0.1, device="none"), rate("matmul-fp16", 20.0), rate("matmul-bf16", 0.1, device="none"))
    rest = (rate("copy-within", 240.0, "GB/s", mib=512), rate("copy-to-device-pinned", 12.0, "GB/s"))
    facts = Facts(system=CPU, speed=(FREE, *at_limit, *rest), under_load=(msgspec.structs.replace(RTX, **t4, throttle={"SW Power Cap": 0.9}),))
    assert findings(facts) == {}
    idle = Facts(system=CPU, speed=facts.speed, under_load=(msgspec.structs.replace(RTX, **t4),))
    assert list(findings(idle)) == ["gpu-slow"]


@pytest.mark.parametrize("throttle", [{"SW Power Cap": 1.0}, {"HW Thermal Slowdown": 0.1}, {"Display Clock Setting": 1.0}, None])
def test_what_is_normal_under_load_is_no_alarm(throttle: dict[str, float] | None) -> None:
    assert findings(machine(throttle=throttle)) == {}


def test_two_readings_are_not_enough_to_speak_of_heat() -> None:
    assert findings(machine(samples=2, throttle={"HW Thermal Slowdown": 1.0})) == {}
    assert list(findings(machine(samples=3, throttle={"HW Thermal Slowdown": 1.0}))) == ["gpu-throttled"]


def test_a_laptop_that_becomes_hot_is_a_note() -> None:
    laptop = {"name": "NVIDIA GeForce RTX 4090 Laptop GPU", "multiprocessors": 76}
    found = findings(machine(throttle={"SW Thermal Slowdown": 0.9}, **laptop))["gpu-throttled"]
    assert found.severity == "note"
    assert findings(machine(throttle={"SW Thermal Slowdown": 0.9}))["gpu-throttled"].severity == "warning"


def test_a_lower_power_limit_that_is_not_reached_costs_nothing() -> None:
    assert findings(machine(power_limit=350.0)) == {}


def test_a_narrow_link_is_named() -> None:
    found = findings(machine(rate("copy-to-device-pinned", 3.2, "GB/s"), pcie_gen=3, pcie_width=4))
    assert found["pcie-link-slow"].severity == "warning"
    assert "PCIe x4 gen 3 instead of x16 gen 4" in found["pcie-link-slow"].title
    assert "3.2 GB/s" in found["pcie-link-slow"].seen


def test_half_of_the_lanes_is_a_note() -> None:
    found = findings(machine(rate("copy-to-device-pinned", 12.4, "GB/s"), pcie_width=8))
    assert found["pcie-link-slow"].severity == "note"


def test_the_idle_link_of_a_fast_copy_is_no_alarm() -> None:
    assert findings(machine(pcie_gen=1)) == {}
    # All readings fell between the copies: the copies were faster than the link that was read.
    assert findings(machine(rate("copy-to-device-pinned", 11.0, "GB/s"), pcie_gen=1)) == {}


def test_a_link_without_copies_is_not_judged() -> None:
    facts = machine(pcie_gen=1, pcie_width=4)
    bare = msgspec.structs.replace(facts, speed=tuple(m for m in facts.speed if "copy" not in m.name))
    assert findings(bare) == {}


def test_slow_copies_over_a_good_link_are_not_the_link() -> None:
    assert findings(machine(rate("copy-to-device-pinned", 9.0, "GB/s"))) == {}


def test_an_unknown_link_needs_a_very_slow_copy() -> None:
    unknown = {"pcie_gen": None, "pcie_width": None, "pcie_gen_max": None, "pcie_width_max": None}
    assert findings(machine(rate("copy-to-device-pinned", 9.0, "GB/s"), **unknown)) == {}
    found = findings(machine(rate("copy-to-device-pinned", 2.9, "GB/s"), **unknown))["pcie-link-slow"]
    assert (found.severity, found.confidence) == ("note", "possible")


def test_slow_memory() -> None:
    assert list(findings(machine(rate("copy-within", 300.0, "GB/s", mib=512)))) == ["gpu-memory-slow"]
    assert findings(machine(rate("copy-within", 300.0, "GB/s", mib=64))) == {}, "so little lies in the cache"


def loader(*pairs: tuple[int, float], best: int) -> tuple[Measurement, ...]:
    made = tuple(rate("dataloader", value, "images/s", "cpu", f"workers={n}", workers=n) for n, value in pairs)
    return (*made, rate("dataloader-best", best, "workers", "cpu"))


def test_workers_are_advised_where_they_help() -> None:
    found = findings(machine(*loader((0, 900.0), (1, 850.0), (2, 1700.0), (4, 3300.0), (8, 3350.0), best=4)))["dataloader-workers"]
    assert (found.severity, found.title) == ("note", "num_workers=4 loads fastest here.")
    assert "0: 900, 1: 850, 2: 1700, 4: 3300, 8: 3350" in found.seen
    assert "num_workers=4" in found.remedy.text


def test_workers_that_bring_little_are_not_advised() -> None:
    assert findings(machine(*loader((0, 900.0), (1, 950.0), (2, 1000.0), best=2))) == {}
    assert findings(machine(*loader((0, 900.0), (1, 500.0), best=0))) == {}


def threads(own: int, **rates: float) -> tuple[Measurement, ...]:
    return tuple(
        rate("threads", value, device="cpu", case=f"threads={n[1:]}", threads=int(n[1:]), own=int(int(n[1:]) == own), cores=8) for n, value in rates.items()
    )


def test_one_thread_on_eight_cores() -> None:
    facts = machine(*threads(1, t1=0.05, t4=0.19, t8=0.33))
    found = findings(msgspec.structs.replace(facts, env=(EnvVar(name="OMP_NUM_THREADS", value="1"),)))["cpu-threads"]
    assert "1 threads; 8 are 6.6 times as fast" in found.title
    assert "OMP_NUM_THREADS set it" in found.why
    assert found.remedy.commands == ("OMP_NUM_THREADS=8 python ...",)


def test_more_threads_than_cores() -> None:
    assert "share the cores" in findings(machine(*threads(64, t1=0.05, t8=0.33, t64=0.1)))["cpu-threads"].why


def test_a_little_faster_is_not_worth_a_word() -> None:
    assert findings(machine(*threads(8, t1=0.05, t8=0.33, t16=0.38))) == {}


BUSY = Measurement(name="cpu-busy-before", device="cpu", value=85.0, unit="%")


@pytest.mark.parametrize("before", [BUSY, None], ids=["busy", "unknown"])
def test_a_cpu_that_was_not_free_is_not_judged(before: Measurement | None) -> None:
    cpu = rate("matmul-fp32", 0.01, device="cpu", threads=8, mhz=3000, cpu_share=1.0)
    facts = machine(*threads(1, t1=0.05, t8=0.33), *loader((0, 9.0), (2, 90.0), best=2), rate("amp-gain", 0.5, "ratio", "cpu"), cpu)
    told = tuple(m for m in facts.speed if m.name != "cpu-busy-before") + (() if before is None else (before,))
    assert set(findings(facts)) == {"cpu-threads", "dataloader-workers", "amp-slower", "cpu-slow"}
    assert findings(msgspec.structs.replace(facts, speed=told)) == {}


@pytest.mark.parametrize(
    ("value", "fires", "details"),
    [
        (0.5, False, {"threads": 8, "mhz": 3000, "cpu_share": 0.99}),
        (0.1, True, {"threads": 8, "mhz": 3000, "cpu_share": 0.99}),
        (0.1, False, {"threads": 8, "mhz": 3000, "cpu_share": 0.4}),
        (0.1, False, {"threads": 8, "cpu_share": 0.99}),
        (0.1, False, {"threads": 1, "mhz": 3000, "cpu_share": 0.99}),
    ],
)
def test_the_cpu_against_its_instructions_cores_and_clock(value: float, fires: bool, details: dict[str, float]) -> None:
    # 8 cores x 3 GHz x 32 operations = 0.77 TFLOP/s
    assert ("cpu-slow" in findings(machine(rate("matmul-fp32", value, device="cpu", **details)))) == fires


def test_a_slow_disk() -> None:
    found = findings(machine(rate("disk-read", 0.045, "GB/s", "cpu")))["disk-slow"]
    assert "45 MB/s" in found.title


def test_autocast_that_costs() -> None:
    assert "0.72 times" in findings(machine(rate("amp-gain", 0.72, "ratio", "cpu")))["amp-slower"].title
    assert findings(machine(rate("amp-gain", 0.99, "ratio"))) == {}


def test_facts_with_measurements_are_read_back() -> None:
    from envcheck.facts import from_json, to_json

    facts = machine(throttle={"SW Power Cap": 0.5})
    assert from_json(to_json(facts)) == facts
