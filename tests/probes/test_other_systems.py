"""macOS and Windows, from what their programs answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from envcheck.probes import apple, collect, compilers, macos, pci
from envcheck.probes.host import Host
from envcheck.process import Completed

SILICON = """\
machdep.cpu.brand_string: Apple M2 Max
hw.physicalcpu: 12
hw.logicalcpu: 12
hw.memsize: 34359738368
hw.optional.arm64: 1
kern.osrelease: 24.1.0
kern.hv_vmm_present: 0
vm.page_free_count: 100000
hw.pagesize: 16384
"""
INTEL = """\
machdep.cpu.brand_string: Intel(R) Core(TM) i7-9750H CPU @ 2.60GHz
machdep.cpu.features: FPU SSE4.2 FMA AVX1.0 F16C
machdep.cpu.leaf7_features: AVX2 BMI2
hw.physicalcpu: 6
hw.logicalcpu: 12
hw.memsize: 17179869184
kern.osrelease: 21.6.0
kern.hv_vmm_present: 1
"""


def mac(answers: Mapping[str, str], path: str = "", asked: list[list[str]] | None = None) -> Host:
    """A Mac whose programs print these texts, by the program's name; all others are missing."""

    def run(argv: Sequence[str], **options: object) -> Completed:
        if asked is not None:
            asked.append([str(item) for item in argv])
        name = Path(argv[0]).name
        if argv[1:2] == ["-n"]:
            name = "sysctl -n"
        if "-c" in argv:
            name = "python"
        text = answers.get(name)
        return Completed(tuple(argv), "missing" if text is None else "ok", returncode=0, stdout=text or "")

    return Host(env={"PATH": path, "SYSTEM_VERSION_COMPAT": "1"}, run=run, platform="darwin")


SW_VERS = "ProductName:\t\tmacOS\nProductVersion:\t\t15.1\nBuildVersion:\t\t24B83\n"


def test_apple_silicon() -> None:
    system = macos.probe(mac({"sysctl": SILICON, "sw_vers": SW_VERS})).system
    assert (system.os, system.name, system.version, system.machine) == ("macos", "macOS 15.1", "15.1", "arm64")
    assert (system.cpu_model, system.cpu_flags) == ("Apple M2 Max", ("asimd",))
    assert (system.cores_physical, system.cores_logical, system.ram) == (12, 12, 32 << 30)
    assert (system.ram_available, system.virtual_machine, system.kernel) == (100000 * 16384, "none", "24.1.0")


def test_intel_mac() -> None:
    system = macos.probe(mac({"sysctl": INTEL, "sw_vers": SW_VERS.replace("15.1", "12.7.6")})).system
    assert (system.version, system.machine, system.virtual_machine) == ("12.7.6", "x86_64", "apple")
    assert set(system.cpu_flags or ()) == {"sse4_2", "fma", "avx", "f16c", "avx2"}
    assert system.rosetta is False


@pytest.mark.parametrize(("machine", "rosetta"), [("x86_64", True), ("arm64", False)])
def test_rosetta(monkeypatch: pytest.MonkeyPatch, machine: str, rosetta: bool) -> None:
    monkeypatch.setattr("envcheck.probes.macos.platform.machine", lambda: machine)
    assert macos.probe(mac({"sysctl": SILICON, "sw_vers": SW_VERS})).system.rosetta is rosetta


def test_a_mac_that_answers_nothing() -> None:
    system = macos.probe(mac({})).system
    assert (system.os, system.machine, system.ram, system.rosetta, system.virtual_machine) == ("macos", None, None, None, None)


def test_the_compatibility_version_is_not_asked_for() -> None:
    seen: list[object] = []

    def run(argv: Sequence[str], **options: object) -> Completed:
        seen.append(options.get("env"))
        return Completed(tuple(argv), "ok", stdout=SW_VERS)

    assert macos.macos_version(Host(env={"SYSTEM_VERSION_COMPAT": "1", "A": "b"}, run=run, platform="darwin")) == "15.1"
    assert seen == [{"A": "b"}]


@pytest.mark.parametrize(("answer", "metal"), [("metal 1\n", True), ("metal 0\n", False), ("Traceback\n", None)])
def test_chip_and_metal(answer: str, metal: bool | None) -> None:
    host = mac({"sysctl -n": "Apple M2 Max\n", "sw_vers": SW_VERS, "ioreg": '  "gpu-core-count" = 38\n', "python": answer})
    found = apple.probe(host).apple
    assert (found.chip, found.macos, found.gpu_cores, found.metal) == ("Apple M2 Max", "15.1", 38, metal)


def test_a_mac_without_developer_tools_gets_no_installer(monkeypatch: pytest.MonkeyPatch) -> None:
    """/usr/bin/cc and its like would open a dialog: they must not be started."""
    monkeypatch.setattr("envcheck.probes.compilers.shutil.which", lambda name, path=None: f"/usr/bin/{name}")
    asked: list[list[str]] = []
    found = compilers.probe(mac({"cc": "Apple clang version 15.0.0", "c++": "Apple clang version 15.0.0"}, asked=asked)).system
    assert (found.c_compiler, found.cxx_compiler) == ("", "")
    assert not [argv for argv in asked if Path(argv[0]).name in ("cc", "c++")]
    with_tools = mac({"xcode-select": "/Library", "cc": "Apple clang version 15.0.0", "c++": "Apple clang version 15.0.0"})
    assert compilers.probe(with_tools).system.c_compiler == "clang 15.0.0"


def test_everything_at_once_on_a_mac() -> None:
    facts = collect.collect_machine(mac({"sysctl": SILICON, "sw_vers": SW_VERS, "sysctl -n": "Apple M2 Max\n"}))
    assert [run.name for run in facts.probes if run.outcome.bad] == []
    assert facts.system.os == "macos"
    assert facts.apple.chip == "Apple M2 Max"
    assert (facts.system.container, facts.system.wsl) == ("none", 0)
    assert facts.nvidia.smi is None


def test_windows_asks_for_present_adapters_only() -> None:
    def run(argv: Sequence[str], **options: object) -> Completed:
        assert argv[0].endswith("powershell.exe")
        text = '{"Name":"NVIDIA GeForce RTX 4070","PNPDeviceID":"PCI\\\\VEN_10DE&DEV_2786","DriverVersion":"32.0","ConfigManagerErrorCode":0}'
        return Completed(tuple(argv), "ok", stdout=text)

    found = pci.probe(Host(env={}, run=run, platform="win32")).pci
    assert [(d.vendor_id, d.name) for d in found or ()] == [("10de", "NVIDIA GeForce RTX 4070")]
    refused = Host(env={}, run=lambda argv, **_: Completed(tuple(argv), "timeout"), platform="win32")
    assert pci.probe(refused).pci is None
