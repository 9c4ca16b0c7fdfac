"""Is it as fast as it should be? Made-up measurements of many machines, healthy and not, and a small live one."""

from __future__ import annotations

import copy
import json
import os
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from envcheck.facts import Measurement, System, UnderLoad
from envcheck.findings import Finding, Skipped
from envcheck.process import run
from envcheck.reference import Measured, Options
from envcheck.reference.attended import Attended
from envcheck.reference.rates import judge_rates

PAYLOADS = Path(__file__).resolve().parents[2] / "envcheck" / "payloads"
XEON = System(os="linux", machine="x86_64", cpu_flags=("sse4_2", "avx", "avx2", "fma", "avx512f"), cores_physical=2, cores_logical=2)
FLOPS = 233.57e6


def way(median: float, spread: float = 0.04, unit: str = "images/s") -> dict[str, Any]:
    return {"median": median, "low": median * (1 - spread), "high": median * (1 + spread), "spread": spread, "samples": 4, "unit": unit, "steps": 1}


def stage(memory: float = 540.0, plain: float = 300.0, convolutions: float = 860.0, **changes: Any) -> dict[str, Any]:
    """What the payload says on a quiet virtual machine with two cores."""
    products = changes.pop("products", {"fp32": 0.26})
    told = {
        "rounds": 4, "batch": 128, "lacking": {}, "flops_per_image": FLOPS, "conv_precision": "fp32", "cpu_share": 0.99, "mhz": 2800.0,
        "ways": {"memory": way(memory), "plain": way(plain), "convolutions": way(convolutions), "input-memory": way(30000.0), "input-plain": way(3900.0)},
        "ratio": way(memory / plain, unit="x"), "transforms": "torchvision 0.29.1",
        "cores": {"logical": 2, "usable": 2, "physical": 2}, "threads": {"own": 2, "asked": 0, "tried": {}},
        "load": {"before": 0.1, "after": 1.2}, "gpu": {}, "variables": {},
        "build": {"debug": False, "blas": "mkl", "mkl": True, "onednn": True, "openmp": True},
        "kernels": {"name": "oneDNN", "there": True, "on": True, "asked_off": False},
    }  # fmt: skip
    told["ways"].update({f"products-{name}": way(value, unit="TFLOP/s") for name, value in products.items()})
    told.update(changes)
    return told


def on_gpu(name: str, sms: int, **changes: Any) -> dict[str, Any]:
    told = stage(
        **{
            "memory": 60000.0, "plain": 3500.0, "convolutions": 210000.0, "products": {"fp32": 50.0, "tf32": 380.0, "bf16": 640.0},
            "gpu": {"name": name, "multiprocessors": sms, "bus_id": "00000000:01:00.0"}, "host_share": 0.97, "conv_precision": "tf32",
            "kernels": {"name": "cuDNN", "there": True, "on": True, "asked_off": False}, **changes,
        }
    )  # fmt: skip
    told.pop("cpu_share")
    return told


def under_load(name: str, sms: int, **changes: Any) -> UnderLoad:
    usual: dict[str, Any] = {
        "device": "cuda:0", "name": name, "bus_id": "00000000:01:00.0", "multiprocessors": sms, "samples": 5, "temperature_max": 60.0,
        "power_draw_max": 500.0, "power_limit": 700.0, "power_default_limit": 700.0, "clocks_sm": 1900, "clocks_sm_max": 1980,
        "throttle": {}, "utilization_before": 0.0,
    }  # fmt: skip
    return UnderLoad(**{**usual, **changes})


def judged(told: dict[str, Any], device: str = "cpu", system: System = XEON, busy: float = 1.0, *loads: UnderLoad) -> tuple[list[Finding], list[Skipped], str, str]:
    """(findings, skipped, status and text of the claim)"""
    measured = Measured(Options(python=Path("python")), stages={"rates": told}, system=system, loads=loads)
    measured.cpu_before = Measurement(name="cpu-busy-before", device="cpu", value=busy, unit="%")
    findings: list[Finding] = []
    skipped: list[Skipped] = []
    claims: list[tuple[str, ...]] = []
    judge_rates(findings, skipped, lambda *words: claims.append(words), measured, device)
    ((name, status, text, *_),) = claims
    assert name == "rate"
    assert all(f.severity in ("warning", "note") and f.area == "performance" for f in findings), findings
    return findings, skipped, status, text


H200 = ("NVIDIA H200", 132)
EPYC = System(os="linux", machine="x86_64", cpu_flags=("sse4_2", "avx", "avx2", "fma"), cores_physical=64, cores_logical=128)
APPLE = System(os="macos", machine="arm64", cores_physical=8, cores_logical=8)
ARM = System(os="linux", machine="aarch64", cpu_flags=("asimd",), cores_physical=64, cores_logical=64)
PLAIN_ARM = {"debug": False, "blas": "open", "mkl": False, "onednn": True, "openmp": True}
ACCELERATE = {"debug": False, "blas": "accelerate", "mkl": False, "onednn": False, "openmp": True}
WITH_16 = {"cores": {"logical": 16, "usable": 16, "physical": 8}, "threads": {"own": 8, "asked": 0, "tried": {}}}

HEALTHY: dict[str, tuple[Any, ...]] = {
    "two cores": (stage(),),
    "one core": (stage(260.0, 170.0, 440.0, products={"fp32": 0.13}, cores={"logical": 1, "usable": 1, "physical": 1}, threads={"own": 1, "asked": 0, "tried": {}}),),
    "64 cores, where Python is the larger part": (
        stage(6000.0, 1500.0, 28000.0, products={"fp32": 3.1}, mhz=3200.0, cores={"logical": 128, "usable": 128, "physical": 64}, threads={"own": 64, "asked": 0, "tried": {}}),
        "cpu", EPYC,
    ),
    "two threads a core": (stage(1100.0, 600.0, 1900.0, products={"fp32": 0.6}, **WITH_16),),
    "four of 64 cores by an affinity": (stage(cores={"logical": 64, "usable": 4, "physical": 4}, threads={"own": 4, "asked": 0, "tried": {}}),),
    "one thread, as asked": (stage(280.0, 180.0, 450.0, threads={"own": 1, "asked": 1, "tried": {}}),),
    "OMP_NUM_THREADS that costs little": (stage(variables={"OMP_NUM_THREADS": "6"}, **{**WITH_16, "threads": {"own": 6, "asked": 0, "tried": {"6": 0.50, "8": 0.62}}}),),
    "held to AVX2": (stage(330.0, 240.0, 480.0, products={"fp32": 0.14}, variables={"ONEDNN_MAX_CPU_ISA": "AVX2"}),),
    "products of equal bits": (stage(products={"fp32": 0.03}, variables={"MKL_CBWR": "COMPATIBLE"}),),
    "without oneDNN, as asked": (stage(200.0, 170.0, 260.0, kernels={"name": "oneDNN", "there": True, "on": False, "asked_off": True}),),
    "other processes, which took no time from this one": (stage(), "cpu", XEON, 60.0),
    "Apple, whose products run in another unit": (
        stage(500.0, 400.0, 700.0, products={"fp32": 1.6}, cpu_share=0.15, build=ACCELERATE, kernels={"name": "oneDNN", "there": False, "on": True, "asked_off": False}),
        "cpu", APPLE,
    ),
    "Arm server": (stage(1500.0, 800.0, 4000.0, products={"fp32": 1.1}, cpu_share=0.6, mhz=None, build=PLAIN_ARM), "cpu", ARM),
    "no torchvision": (stage(transforms="written out here, for torchvision cannot be used (ImportError: no)"),),
    "H200": (on_gpu(*H200), "cuda:0", XEON, 1.0, under_load(*H200)),
    "H200, no nvidia-smi": (on_gpu(*H200), "cuda:0"),
    "H200 on a host with other work": (on_gpu(*H200), "cuda:0", XEON, 45.0, under_load(*H200)),
    "RTX 4090": (
        on_gpu("NVIDIA GeForce RTX 4090", 128, products={"fp32": 55.0, "tf32": 71.0, "bf16": 150.0}), "cuda:0", XEON, 1.0,
        under_load("NVIDIA GeForce RTX 4090", 128, power_limit=450.0, power_default_limit=450.0, throttle={"SW Power Cap": 0.6}),
    ),
    "T4, hot at its power limit": (
        on_gpu("Tesla T4", 40, memory=9000.0, products={"fp32": 3.1}), "cuda:0", XEON, 1.0,
        under_load("Tesla T4", 40, power_limit=70.0, power_default_limit=70.0, temperature_max=80.0, throttle={"SW Power Cap": 1.0}, clocks_sm=800, clocks_sm_max=1590),
    ),
    "L4 at its power limit": (
        on_gpu("NVIDIA L4", 58, memory=20000.0, products={"fp32": 12.0, "tf32": 17.0, "bf16": 35.0}), "cuda:0", XEON, 1.0,
        under_load("NVIDIA L4", 58, power_limit=72.0, power_default_limit=72.0, throttle={"SW Power Cap": 1.0}),
    ),
    "slice of an A100": (on_gpu("NVIDIA A100-SXM4-40GB MIG 1g.5gb", 14, memory=20000.0, products={"fp32": 2.1, "tf32": 15.0, "bf16": 30.0}), "cuda:0"),
    "slice that bears the board's name": (on_gpu("NVIDIA H200", 16, memory=20000.0, products={"fp32": 5.0, "tf32": 40.0, "bf16": 75.0}), "cuda:0"),
    "card that no table has": (on_gpu("NVIDIA RTX 9090 Ti", 200, products={"fp32": 0.5}), "cuda:0"),
    "AMD": (on_gpu("AMD Instinct MI300X", 304, products={"fp32": 90.0, "bf16": 500.0}, kernels={"name": "MIOpen", "there": True, "on": True, "asked_off": False}), "cuda:0"),
    "old small GPU, as slow as the loading": (on_gpu("NVIDIA GeForce MX150", 3, memory=3600.0, plain=2600.0, convolutions=4000.0, products={"fp32": 0.9}, host_share=0.2), "cuda:0"),
    "Apple's GPU": ({k: v for k, v in on_gpu("", 0, memory=9000.0, plain=2500.0, convolutions=14000.0, products={"fp32": 8.0}, kernels=None).items() if k != "gpu"}, "mps", APPLE),
}  # fmt: skip


@pytest.mark.parametrize("case", HEALTHY.values(), ids=HEALTHY.keys())
def test_a_healthy_machine_is_proved_without_a_finding(case: tuple[Any, ...]) -> None:
    findings, skipped, status, text = judged(*case)
    assert ([f.title for f in findings], skipped, status) == ([], [], "proved"), text
    assert re.match(r"[\d.e+]+ images/s, \d+\.\d\d x the plain loop", text)


def test_the_text_tells_rate_ratio_and_shares() -> None:
    *_, text = judged(stage())
    assert text == "540 images/s, 1.80 x the plain loop (1.73 to 1.87), 63 % of its convolutions alone, 49 % of fp32 products (260 GFLOP/s); 2 threads, 2 cores usable"
    *_, text = judged(*HEALTHY["H200"])
    assert "products reach 77 % of the card's 494.5 TFLOP/s (tf32)" in text
    assert "starting the kernels takes 97 % of a step" in text
    *_, text = judged(stage(workers=2, ways={**stage()["ways"], "plain-workers": way(320.0)}))
    assert "1.69 x with 2 DataLoader workers" in text


THREADS_1 = {"own": 1, "asked": 0, "tried": {"1": 0.07, "8": 0.52}}
FAULTS: dict[str, tuple[tuple[Any, ...], str, str]] = {
    "one thread for eight cores": ((stage(variables={"OMP_NUM_THREADS": "1"}, **{**WITH_16, "threads": THREADS_1}),), "cpu-threads", "1 threads; 8 are 7.4 times"),
    "64 threads in a container's share of two cores": (
        (stage(cores={"logical": 64, "usable": 2, "physical": 2}, threads={"own": 64, "asked": 0, "tried": {"64": 0.02, "2": 0.25}}), "cpu", EPYC),
        "cpu-threads", "64 threads; 2 are 12.5 times",
    ),
    "a build without a library for products": (
        (stage(30.0, 28.0, 60.0, products={"fp32": 0.008}, build={"debug": False, "blas": None, "mkl": False, "onednn": True, "openmp": True}),),
        "cpu-slow", "% of what it can give at most",
    ),
    "MKL held to old instructions": ((stage(60.0, 55.0, 120.0, products={"fp32": 0.03}, variables={"MKL_ENABLE_INSTRUCTIONS": "SSE4_2"}),), "cpu-slow", "% of what it can give at most"),
    "a debug build": ((stage(90.0, 80.0, 400.0, build={**stage()["build"], "debug": True}),), "reference-slow", "debug build"),
    "oneDNN off": ((stage(200.0, 170.0, 260.0, kernels={"name": "oneDNN", "there": True, "on": False, "asked_off": False, "rate_on": 850.0}),), "reference-slow", "3.3 times as fast"),
    "cuDNN off": ((on_gpu(*H200, kernels={"name": "cuDNN", "there": True, "on": False, "asked_off": False, "rate_on": 600000.0}), "cuda:0"), "reference-slow", "cuDNN is switched off"),
    "every kernel waited for": ((on_gpu(*H200, variables={"CUDA_LAUNCH_BLOCKING": "1"}), "cuda:0"), "reference-slow", "waits for every kernel"),
    "no caching of memory": ((on_gpu(*H200, variables={"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}), "cuda:0"), "reference-slow", "allocated by the driver"),
    "a tenth of the card": (
        (on_gpu(*H200, products={"fp32": 5.0, "tf32": 40.0, "bf16": 80.0}), "cuda:0", XEON, 1.0, under_load(*H200, clocks_sm=210)),
        "gpu-slow", "8 % of what this card gives",
    ),
    "power limit set by hand": (
        (on_gpu(*H200, products={"fp32": 12.0, "tf32": 60.0, "bf16": 110.0}), "cuda:0", XEON, 1.0, under_load(*H200, power_limit=200.0, throttle={"SW Power Cap": 1.0})),
        "gpu-slow", "18 % of what this card gives",
    ),
    "throttled by heat": (
        (on_gpu(*H200, products={"fp32": 12.0, "tf32": 60.0, "bf16": 110.0}), "cuda:0", XEON, 1.0, under_load(*H200, temperature_max=95.0, throttle={"HW Thermal Slowdown": 1.0})),
        "gpu-throttled", "thermal",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("case", "rule", "words"), FAULTS.values(), ids=FAULTS.keys())
def test_a_fault_is_a_warning_with_its_cause_and_the_claim_fails(case: tuple[Any, ...], rule: str, words: str) -> None:
    findings, _, status, text = judged(*case)
    first = next(f for f in findings if f.severity == "warning")
    assert (first.rule, status) == (rule, "failed")
    assert words in first.title
    assert first.title in text
    assert first.remedy.text
    # The same machine, busy: nothing that was timed is said; what is read off settings may be.
    busy = copy.deepcopy(case[0])
    busy["ways"]["memory"]["spread"] = 0.5
    again, skipped, status, _ = judged(busy, *case[1:])
    assert all(f.rule == "gpu-throttled" for f in again if f.severity == "warning")
    assert status == ("failed" if rule == "gpu-throttled" else "skipped")
    assert skipped or rule == "gpu-throttled"


def test_the_cause_of_a_slow_gpu_is_named_beside_it() -> None:
    findings, *_ = judged(*FAULTS["power limit set by hand"][0])
    assert "power limit 200 of 700 W" in next(f for f in findings if f.rule == "gpu-slow").seen
    assert any(f.rule == "gpu-power-limit" and f.severity == "note" for f in findings)
    findings, *_ = judged(*FAULTS["throttled by heat"][0])
    assert [f.consequence_of for f in findings if f.rule == "gpu-slow"] == ["gpu-throttled"]
    findings, *_ = judged(*FAULTS["a build without a library for products"][0])
    assert "no library for matrix products" in findings[0].seen


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ((stage(cpu_share=0.61, load={"before": 2.8, "after": 3.0}),), "got 61 % of the CPU time that its 2 threads asked for, load 2.8 on 2 cores"),
        ((stage(build=PLAIN_ARM), "cpu", ARM, 55.0), "others used 55 % of the CPU before"),
        ((stage(ways={**stage()["ways"], "plain": way(300.0, 0.4)}),), "180 to 420 images/s in 4 rounds"),
        ((on_gpu(*H200), "cuda:0", XEON, 1.0, under_load(*H200, utilization_before=80.0)), "another process used 80 % of cuda:0"),
        ((on_gpu(*H200, ways={}, lacking={"memory": "OutOfMemoryError: CUDA out of memory"}), "cuda:0"), "OutOfMemoryError"),
        (({"failed": "RuntimeError: no"},), "RuntimeError: no"),
        ((stage(lacking={"convolutions": "no time was left", "rounds": "no time was left"}),), "no time was left for convolutions, rounds, load 0.1 on 2 cores"),
        ((stage(threads={"own": 1, "asked": 0, "tried": {"1": 0.1, "2": 0.2}}), "cpu", XEON, 40.0), "Another number of threads seems faster"),
        ((stage(memory=270.0),), "runs at 0.90 x the plain loop"),
        ((stage(memory=540.0, convolutions=6000.0),), "11 times as long as its convolutions alone"),
        ((stage(products={"fp32": 0.03}),), "% of what it can give at most"),
        ((stage(kernels={"name": "oneDNN", "there": False, "on": True, "asked_off": False}),), "no oneDNN"),
    ],
    ids=["own share", "others", "unsteady", "GPU shared", "out of memory", "failed", "no time", "threads beside others", "slower than plain", "far from its convolutions", "slow CPU", "no oneDNN"],
)  # fmt: skip
def test_what_cannot_be_trusted_or_explained_is_skipped_and_no_warning(case: tuple[Any, ...], words: str) -> None:
    findings, skipped, status, text = judged(*case)
    assert status == "skipped"
    assert words in text
    assert [words in s.reason for s in skipped] == [True]
    assert all(f.severity == "note" for f in findings)


@pytest.mark.parametrize(
    ("healthy", "other", "wanted"),
    [
        (stage(cpu_share=0.80), stage(cpu_share=0.79), "skipped"),
        (stage(ways={**stage()["ways"], "memory": way(540.0, 0.30)}), stage(ways={**stage()["ways"], "memory": way(540.0, 0.31)}), "skipped"),
        (stage(threads={"own": 1, "asked": 0, "tried": {"1": 0.200, "2": 0.249}}), stage(threads={"own": 1, "asked": 0, "tried": {"1": 0.200, "2": 0.250}}), "failed"),
        (stage(memory=285.0), stage(memory=284.0), "skipped"),
        (stage(convolutions=5400.0), stage(convolutions=5500.0), "skipped"),
        (stage(products={"fp32": 0.0539}), stage(products={"fp32": 0.0537}), "skipped"),  # 15 % of 2 cores x 64 x 2.8 GHz
        (stage(kernels={**stage()["kernels"], "rate_on": 1074.0}), stage(kernels={**stage()["kernels"], "rate_on": 1075.0}), "failed"),
    ],
    ids=["share of the CPU", "spread", "threads", "ratio", "convolutions", "peak of the CPU", "kernels"],
)  # fmt: skip
def test_edges(healthy: dict[str, Any], other: dict[str, Any], wanted: str) -> None:
    assert judged(healthy)[2] == "proved"
    assert judged(other)[2] == wanted


@pytest.mark.parametrize(("share", "status"), [(0.334, "proved"), (0.332, "failed")])
def test_a_third_of_the_card(share: float, status: str) -> None:
    assert judged(on_gpu(*H200, products={"tf32": 494.5 * share}), "cuda:0", XEON, 1.0, under_load(*H200))[2] == status


def test_a_gpu_that_does_not_wait_for_the_program_and_is_far_from_its_convolutions_is_not_proved() -> None:
    assert judged(on_gpu(*H200, memory=20000.0, convolutions=210000.0, host_share=0.3), "cuda:0")[2] == "skipped"
    assert judged(on_gpu(*H200, memory=20000.0, convolutions=210000.0, host_share=0.9), "cuda:0")[2] == "proved"


def test_no_measurement_no_claim() -> None:
    claims: list[Any] = []
    for stages in ({}, {"rates": {"error": "x"}}):
        judge_rates([], [], lambda *words: claims.append(words), Measured(Options(python=Path("python")), stages=stages), "cpu")
    assert claims == []


# -- The payload -------------------------------------------------------------------------------------------------------


def test_readings_of_a_gpu_are_those_of_the_rates(monkeypatch: pytest.MonkeyPatch) -> None:
    class Readings:
        path, readings = "nvidia-smi", ["of the other tasks"]
        calls: list[str] = []

        def __init__(self, host: object, interval: float) -> None:
            pass

        def start(self) -> None:
            self.calls.append("start")

        def stop(self) -> None:
            self.calls.append("stop")

        def result(self, devices: dict[str, dict[str, Any]]) -> tuple[UnderLoad, ...]:
            assert devices == {"cuda:0": {"name": "NVIDIA H200"}}
            return (under_load(*H200, samples=len(self.readings)),)

    monkeypatch.setattr("envcheck.reference.attended.Watch", Readings)
    monkeypatch.setattr("envcheck.reference.attended.cpu_before", lambda: Measurement(name="cpu-busy-before", device="cpu", value=0.0, unit="%"))
    heard: list[str] = []
    attended = Attended(lambda name, answer: heard.append(name))
    attended("machine", {"device": "cuda:0"})
    attended("rates", None)
    attended.watch.readings.append("of the rates")
    attended("rates", {"gpu": {"name": "NVIDIA H200"}})
    attended.close()
    assert heard == ["machine", "rates", "rates"]
    assert Readings.calls == ["start", "stop"]
    assert attended.loads[0].samples == 1


@pytest.fixture
def payload(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(PAYLOADS))
    import importlib

    yield importlib.import_module("reference_rates")
    sys.modules.pop("reference_rates", None)


@pytest.mark.parametrize(
    ("room", "own", "asked", "variables", "wanted"),
    [
        ((2, 2), 2, 0, {}, None),
        ((16, 8), 8, 0, {}, None),  # two threads a core
        ((16, 8), 16, 0, {}, None),
        ((16, 8), 1, 1, {"OMP_NUM_THREADS": "1"}, None),  # --threads 1
        ((16, 8), 1, 0, {"OMP_NUM_THREADS": "1"}, 8),
        ((16, 8), 6, 0, {"MKL_NUM_THREADS": "6"}, 8),
        ((16, 8), 6, 0, {}, None),  # torch's own choice, near enough
        ((16, 8), 4, 0, {}, 8),
        ((2, 2), 64, 0, {}, 2),  # a container's share
        ((12, None), 12, 0, {}, None),
        ((12, None), 6, 0, {}, None),
        ((12, None), 1, 0, {}, 6),
        ((1, 1), 1, 0, {"OMP_NUM_THREADS": "1"}, None),
    ],
)
def test_another_number_of_threads_is_tried_only_where_the_own_cannot_be_right(payload: Any, room: tuple[int, int | None], own: int, asked: int, variables: dict[str, str], wanted: int | None) -> None:
    assert payload.better_threads({"logical": 64, "usable": room[0], "physical": room[1]}, own, asked, variables) == wanted


def test_a_machine_that_is_far_too_slow_is_left_in_time(payload: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]

    def work(steps: int) -> None:
        clock[0] += 50.0 * steps

    class Part:
        def __init__(self, *arguments: object, **more: object) -> None:
            self.train = self.load = work
            self.flops, self.told, self.ready = 1e9, "torchvision", None

    class OnCpu(Part):
        def precisions(self) -> list[str]:
            return ["fp32"]

    monkeypatch.setattr(payload.time, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(payload, "W", SimpleNamespace(Memory=Part, Plain=Part, Pictures=Part, Products=Part, Context=OnCpu, wait=lambda d: None, BATCH=128, words=str))
    run = SimpleNamespace(T=None, device=SimpleNamespace(type="cpu"), options=SimpleNamespace(rounds=4), made=lambda: ([], []))
    lacking: dict[str, str] = {}
    ways, _ = payload.ways_of(run, 0, lacking)
    assert set(ways) == {"memory", "plain"}
    assert lacking == dict.fromkeys(("products-fp32", "convolutions", "input-memory", "input-plain"), payload.NO_TIME)
    from envcheck.reference import rates

    assert payload.NO_TIME == rates.NO_TIME


def test_summary_of_rounds(payload: Any) -> None:
    assert payload.summary([4.0, 1.0, 3.0, 2.0]) == {"median": 2.5, "low": 1.0, "high": 4.0, "spread": 0.6, "samples": 4}
    assert payload.summary([2.0])["spread"] == 0.0


LIVE = """
import json, sys
sys.path.insert(0, sys.argv[1])
sys.modules["torchvision"] = None
import reference_checks as C, reference_rates as R, reference_ways as W
W.BATCH, W.PIPELINE, R.LEAST = 8, ("--batch", "8", "--steps", "1000", "--channels-last", "--fused"), 0.0
import torch
torch.set_num_threads(1)
run = C.Run(C.parse(["rates", "--device", "cpu", "--rounds", "2", "--workers", "1", "--threads", "1"]))
run.be_strict()
seen = []
plain = R.measured
R.measured = lambda run: (seen.append(R.switches()), plain(run))[1]
strict = R.switches()
told = R.rates(run)
told["own settings"] = seen == [run.found] and strict != run.found and R.switches() == strict
print(json.dumps(told))
"""


@pytest.mark.torch
def test_the_payload_measures_every_way_by_the_users_own_settings(python_with_torch: str) -> None:
    done = run([python_with_torch, "-c", LIVE, PAYLOADS], timeout=300, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})
    assert done.ok, done.stderr[-2000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert "failed" not in told
    assert told["lacking"] == {}
    assert set(told["ways"]) == {"memory", "plain", "plain-workers", "convolutions", "input-memory", "input-plain", "products-fp32"}
    assert all(w["samples"] == told["rounds"] == 2 and 0 < w["low"] <= w["median"] <= w["high"] for w in told["ways"].values())
    assert told["flops_per_image"] == pytest.approx(FLOPS, rel=1e-3)
    assert told["own settings"]  # and the deterministic ones again at the end
    assert told["transforms"].startswith("written out here")
    assert told["threads"]["own"] >= 1 and told["cores"]["usable"] >= 1
    assert 0 < told["cpu_share"] <= 1
    _, _, status, text = judged(told)
    assert status in ("proved", "skipped"), text  # of a small batch, on whatever machine runs this


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.parametrize(
    ("env", "start", "rule"),
    [({}, "", ""), ({"OMP_NUM_THREADS": "1"}, "", "cpu-threads"), ({}, "import torch; torch.backends.mkldnn.set_flags(False)", "reference-slow")],
    ids=["as it is", "one thread", "oneDNN switched off at the start"],
)
def test_on_this_machine(python_with_torch: str, tmp_path: Path, env: dict[str, str], start: str, rule: str) -> None:
    if not os.environ.get("ENVCHECK_REFERENCE_WHOLE"):
        pytest.skip("wants a quiet machine: set ENVCHECK_REFERENCE_WHOLE=1")
    from envcheck.target import run_payload

    (tmp_path / "sitecustomize.py").write_text(start)
    attended = Attended(None)
    answer = run_payload(
        python_with_torch, PAYLOADS / "reference_checks.py", ["machine", "rates", "--device", "cpu", "--rounds", "4"],
        timeout=300, limit=300, env={**os.environ, "PYTHONPATH": str(tmp_path), **env}, on_stage=attended,
    )  # fmt: skip
    attended.close()
    told = {s["stage"]: s for s in answer.stages}["rates"]
    findings, _, status, text = judged(told, "cpu", attended.system, attended.cpu_before.value)
    if text.startswith(("The machine is busy", "The rates are unsteady")) or (rule == "cpu-threads" and told["cores"]["usable"] == 1):
        pytest.skip(text)
    assert [f.rule for f in findings] == ([rule] if rule else []), text
    assert status == ("failed" if rule else "proved"), text
