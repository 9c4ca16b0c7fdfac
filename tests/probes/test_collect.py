"""All probes at once: none can take the others down, and each says how it went."""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path

import pytest

from envcheck.facts import CudaInit, EnvVar, Facts, LibCuda, Nvidia, Outcome, ProbeRun, Symptom, System, from_json, to_json
from envcheck.probes import PROBES, Probe, collect_machine, merge
from envcheck.probes.host import Host
from tests.kit import fake_smi, machine_tree, tree_host


def raises(host: Host) -> Facts:
    raise ValueError("a bug of ours")


def hangs(host: Host) -> Facts:
    time.sleep(3600)
    return Facts()


def answers(host: Host) -> Facts:
    return Facts(system=System(os="linux"))


def outcomes(facts: Facts) -> dict[str, str]:
    return {run.name: run.outcome.status for run in facts.probes}


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return tree_host(machine_tree(tmp_path, "cpu"), timeout=0.1)


def test_a_probe_that_fails_and_one_that_hangs(host: Host) -> None:
    lost = Probe("c", hangs, lost=lambda outcome: Facts(nvidia=Nvidia(smi=outcome)))
    begun = time.monotonic()
    facts = collect_machine(host, probes=[Probe("a", raises), Probe("b", answers), lost])
    assert time.monotonic() - begun < 3.0
    assert outcomes(facts) == {"a": "failed", "b": "ok", "c": "timeout"}
    failed = next(run for run in facts.probes if run.name == "a")
    assert (failed.outcome.error_type, failed.outcome.error) == ("ValueError", "a bug of ours")
    assert facts.system.os == "linux"
    assert facts.nvidia.smi is not None
    assert facts.nvidia.smi.status == "timeout"


def test_one_that_hangs_does_not_keep_the_program_from_ending(host: Host) -> None:
    collect_machine(host, probes=[Probe("hanging-one", hangs)])
    assert all(thread.daemon for thread in threading.enumerate() if thread.name == "probe-hanging-one")


def test_what_is_waited_for_is_said(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("envcheck.probes.collect.TICK", 0.1)
    told: list[tuple[str, ...]] = []
    collect_machine(host, probes=[Probe("slow", hangs), Probe("quick", answers)], progress=told.append)
    assert ("slow",) in told
    assert all("quick" not in names for names in told)


def test_probes_run_at_the_same_time(host: Host) -> None:
    def waits(host: Host) -> Facts:
        time.sleep(0.3)
        return Facts()

    begun = time.monotonic()
    collect_machine(host, probes=[Probe(str(number), waits) for number in range(10)])
    assert time.monotonic() - begun < 1.5


def test_probes_of_other_systems_are_left_out(tmp_path: Path) -> None:
    names = {platform: {p.name for p in PROBES if platform.startswith(p.platforms)} for platform in ("linux", "win32", "darwin")}
    assert "nvidia-smi" in names["win32"]
    assert "nvidia-smi" not in names["darwin"]
    assert "apple" in names["darwin"]
    assert "apple" not in names["linux"]
    assert "kernel-log" not in names["win32"]


def test_names_are_unique() -> None:
    assert len({probe.name for probe in PROBES}) == len(PROBES)


def test_merge_believes_the_earlier_and_joins_events() -> None:
    one = Facts(system=System(os="linux", ram=1), symptoms=(Symptom(kind="a", text="a"),))
    two = Facts(system=System(os="windows", wsl=0), symptoms=(Symptom(kind="b", text="b"),), env=(EnvVar(name="A", value="1"),))
    found = merge(one, two)
    assert (found.system.os, found.system.ram, found.system.wsl) == ("linux", 1, 0)
    assert [item.kind for item in found.symptoms] == ["a", "b"]
    assert found.env == (EnvVar(name="A", value="1"),)
    assert merge() == Facts()
    assert merge(Facts(nvidia=Nvidia(gpus=())), Facts(nvidia=Nvidia(gpus=None))).nvidia.gpus == ()


def test_a_known_empty_answer_is_kept() -> None:
    assert merge(Facts(pci=()), Facts(pci=None)).pci == ()
    assert merge(Facts(pci=None), Facts(pci=())).pci == ()


def test_lost_answers_are_told(host: Host) -> None:
    by_name = {probe.name: probe for probe in PROBES}
    outcome = Outcome(status="timeout")
    assert by_name["nvidia-smi"].lost(outcome).nvidia.smi == outcome
    assert by_name["cuda-init"].lost(outcome).nvidia.cuda_init == CudaInit(outcome=outcome)
    assert by_name["pci"].lost(outcome) == Facts()


def test_the_running_machine() -> None:
    """Whatever this machine is: no probe fails, and the answer survives being saved."""
    facts = collect_machine()
    assert [(run.name, run.outcome) for run in facts.probes if run.outcome.bad and run.name != "nvidia-smi"] == []
    assert {run.name for run in facts.probes} == {p.name for p in PROBES if sys.platform.startswith(p.platforms)}
    assert facts.system.os in ("linux", "windows", "macos")
    assert facts.system.machine is not None
    assert facts.system.cores_usable == (len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else facts.system.cores_usable) or (facts.system.cores_usable or 0) >= 1
    assert (facts.system.ram or 0) > 1 << 28
    assert facts.system.disk_free
    assert facts.python == Facts().python
    assert facts.torch == Facts().torch
    assert from_json(to_json(facts)) == facts


@pytest.mark.skipif(sys.platform == "win32", reason="the fake is a POSIX script")
def test_the_limit_holds_with_everything_hanging(tmp_path: Path) -> None:
    """nvidia-smi, compilers and nvcc that never answer: the machine is told within twice the limit and a little."""
    path = fake_smi(tmp_path / "bin", "hang").parent
    for name in ("cc", "c++", "cmake", "nvcc"):
        (path / name).write_text("#!/bin/sh\nexec sleep 3600\n")
        (path / name).chmod(0o755)
    begun = time.monotonic()
    facts = collect_machine(tree_host(machine_tree(tmp_path, "rtx4090"), programs=True, path=path, timeout=0.5))
    assert time.monotonic() - begun < 5.0
    assert outcomes(facts)["nvidia-smi"] == "timeout"
    assert facts.system.kernel == "6.8.0-60-generic"


def test_own_runs_are_not_doubled(host: Host) -> None:
    def own(host: Host) -> Facts:
        return Facts(probes=(ProbeRun(name="x", outcome=Outcome(status="missing")),))

    assert [run.outcome.status for run in collect_machine(host, probes=[Probe("x", own)]).probes] == ["missing"]


@pytest.mark.parametrize(
    ("status", "loaded"), [("missing", [False, False]), ("timeout", [None, False])], ids=["no-library-was-loaded", "nobody-knows"]
)
def test_copies_of_libcuda_without_an_answer_of_the_driver(host: Host, status: str, loaded: list[bool | None]) -> None:
    copies = Facts(nvidia=Nvidia(libcuda=(LibCuda(path="/a/libcuda.so.1"), LibCuda(path="/compat/libcuda.so.1", loaded=False))))
    init = Facts(nvidia=Nvidia(cuda_init=CudaInit(outcome=Outcome(status=status))))
    facts = collect_machine(host, probes=[Probe("libcuda", lambda _: copies), Probe("cuda-init", lambda _: init)])
    assert [copy.loaded for copy in facts.nvidia.libcuda or ()] == loaded


@pytest.mark.parametrize(("value", "seconds"), [("2.5", 2.5), ("", 5.0), ("soon", 5.0), ("-1", 5.0), ("nan", 5.0), ("1e9", 5.0)])
def test_the_limit_can_be_set(monkeypatch: pytest.MonkeyPatch, value: str, seconds: float) -> None:
    monkeypatch.setenv("ENVCHECK_TIMEOUT", value)
    assert Host().timeout == seconds


def test_free_space_is_that_of_the_python_under_test(tmp_path: Path) -> None:
    from envcheck.probes import system

    assert system.space(Host(prefix=str(tmp_path))).system.disk_free
    assert system.space(Host(prefix=str(tmp_path / "not-there"))).system.disk_free is None
