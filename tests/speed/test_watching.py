"""GPUs as a stand-in for nvidia-smi shows them: before the work, under load, idle between; old and new names of fields."""

from __future__ import annotations

from pathlib import Path

import pytest

from envcheck.probes.host import Host
from envcheck.process import Completed
from envcheck.smoke.watch import FIELDS, Watch

UNITS = {"power.draw": "W", "power.limit": "W", "power.default_limit": "W", "clocks.sm": "MHz", "clocks.max.sm": "MHz"}
COLD = {
    "index": 0, "pci.bus_id": "00000000:01:00.0", "name": "NVIDIA GeForce RTX 4090", "mig.mode.current": "[N/A]",
    "temperature.gpu": 40, "utilization.gpu": 0, "power.draw": 20.0, "power.limit": 450.0, "power.default_limit": 450.0,
    "clocks.sm": 210, "clocks.max.sm": 3105, "pcie.link.gen.current": 1, "pcie.link.gen.max": 4,
    "pcie.link.width.current": 16, "pcie.link.width.max": 16, "ecc.errors.uncorrected.volatile.total": "[N/A]",
    "clocks_throttle_reasons.active": "0x0000000000000001",
}  # fmt: skip
HOT = {**COLD, "temperature.gpu": 88, "utilization.gpu": 100, "power.draw": 449.0, "clocks.sm": 1500, "pcie.link.gen.current": 4,
       "clocks_throttle_reasons.active": "0x0000000000000024"}  # fmt: skip
COOL = {**HOT, "temperature.gpu": 70, "clocks.sm": 2700, "clocks_throttle_reasons.active": "0x0000000000000004"}
TORCH = {"device": "cuda:0", "name": "NVIDIA GeForce RTX 4090", "bus_id": "0000:01:00.0", "multiprocessors": 128}


class Smi:
    """Answers each query with the next row of a list; knows only some fields."""

    def __init__(self, *rows, unknown: tuple[str, ...] = (), more: tuple = ()) -> None:
        self.rows, self.unknown, self.more, self.asked = list(rows), unknown, more, 0

    def __call__(self, argv, *, timeout: float, env=None) -> Completed:
        words = [str(a) for a in argv]
        query = next((a.split("=", 1)[1].split(",") for a in words if a.startswith("--query-gpu=")), None)
        if query is None or "compute_cap" in query or "driver_version" in query:
            return Completed(tuple(words), "failed", returncode=9)
        for field in query:
            if field in self.unknown:
                return Completed(tuple(words), "failed", returncode=2, stdout=f'Field "{field}" is not a valid field to query.\n\n')
        row = self.rows[min(self.asked, len(self.rows) - 1)]
        self.asked += 1
        old = {"clocks_event_reasons.active": "clocks_throttle_reasons.active"}
        lines = [", ".join(f"{f} [{UNITS[f]}]" if f in UNITS else f for f in query)]
        for shown in (row, *self.more):
            lines.append(", ".join(f"{shown[old.get(f, f)]}" + (f" {UNITS[f]}" if f in UNITS else "") for f in query))
        return Completed(tuple(words), "ok", returncode=0, stdout="\n".join(lines) + "\n")


@pytest.fixture
def watched(tmp_path: Path):
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\n")
    (tmp_path / "nvidia-smi").chmod(0o755)

    def call(smi: Smi, readings: int = 4, told=TORCH):
        watch = Watch(Host(root=Path("/"), env={"PATH": str(tmp_path)}, run=smi, platform="linux", timeout=1.0), interval=0.001)
        assert watch.path is not None
        watch._look_before()
        for _ in range(readings):
            watch.readings += watch._reading()
        return watch.result({told["device"]: told})

    return call


def test_readings_under_load_count_and_idle_ones_do_not(watched) -> None:
    (load,) = watched(Smi(COLD, COLD, COLD, HOT, HOT, COOL, COLD))
    assert (load.device, load.name, load.samples) == ("cuda:0", "NVIDIA GeForce RTX 4090", 3)
    assert (load.temperature_max, load.power_draw_max, load.power_limit) == (88.0, 449.0, 450.0)
    assert (load.clocks_sm, load.clocks_sm_max) == (1500, 3105)
    assert (load.pcie_gen, load.pcie_gen_max, load.pcie_width) == (4, 4, 16)
    assert load.throttle == {"SW Power Cap": 1.0, "SW Thermal Slowdown": 0.667}
    assert load.utilization_before == 0.0
    assert load.ecc_uncorrected_new is None, "this card counts none"
    assert load.multiprocessors == 128


def test_another_program_is_seen_before_ours_begins(watched) -> None:
    (load,) = watched(Smi({**HOT, "utilization.gpu": 80}, {**HOT, "utilization.gpu": 60}, {**HOT, "utilization.gpu": 75}, HOT))
    assert load.utilization_before == 60.0


def test_new_memory_errors_are_counted_and_old_ones_are_not(watched) -> None:
    def at(count: int) -> dict:
        return {**HOT, "ecc.errors.uncorrected.volatile.total": count}

    (load,) = watched(Smi(at(2), at(2), at(2), at(2), at(2), at(3), at(5)))
    assert load.ecc_uncorrected_new == 3


@pytest.mark.parametrize(
    ("unknown", "throttle"),
    [
        (("clocks_throttle_reasons.active",), True),
        (("mig.mode.current", "power.default_limit"), True),
        ((*FIELDS[6:], "clocks_event_reasons.active"), False),
    ],
)
def test_fields_that_nvidia_smi_does_not_know_are_left_out(watched, unknown: tuple[str, ...], throttle: bool) -> None:
    (load,) = watched(Smi(COLD, COLD, COLD, HOT, unknown=unknown))
    assert (load.samples, load.temperature_max) == (4, 88.0)
    assert (load.throttle is not None) == throttle
    assert (load.power_default_limit is not None) == ("power.default_limit" not in unknown)


def test_the_gpu_is_found_by_its_address_among_others_of_its_name(watched) -> None:
    other = {**COLD, "index": 1, "pci.bus_id": "00000000:02:00.0"}
    (load,) = watched(Smi(COLD, COLD, COLD, HOT, more=(other,)), told={**TORCH, "bus_id": "0000:02:00.0"})
    assert load.samples == 0
    (load,) = watched(Smi(COLD, COLD, COLD, HOT, more=(other,)), told={**TORCH, "bus_id": None})
    assert (load.samples, load.temperature_max, load.name) == (0, None, "NVIDIA GeForce RTX 4090"), "which of the two is not known"


def test_without_nvidia_smi_nothing_is_known(tmp_path: Path) -> None:
    watch = Watch(Host(root=tmp_path, env={"PATH": str(tmp_path)}, run=Smi(HOT), platform="linux"))
    watch.start()
    watch.stop()
    (load,) = watch.result({"cuda:0": TORCH, "cpu": {"device": "cpu"}})
    assert (load.device, load.samples, load.utilization_before) == ("cuda:0", 0, None)


def test_the_thread_reads_until_it_is_stopped(watched, tmp_path: Path) -> None:
    (tmp_path / "nvidia-smi").write_text("")
    (tmp_path / "nvidia-smi").chmod(0o755)
    watch = Watch(Host(root=Path("/"), env={"PATH": str(tmp_path)}, run=Smi(HOT), platform="linux", timeout=1.0), interval=0.001)
    watch.start()
    watch.stop()
    assert watch.before and watch.readings
    assert watch._thread is not None and not watch._thread.is_alive()
