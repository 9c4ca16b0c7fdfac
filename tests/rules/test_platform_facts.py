"""Container, WSL, ROCm, XPU and MPS rules over hand-built facts: fires, near miss, cannot be judged."""

from __future__ import annotations

import msgspec
import pytest

from envcheck.facts import (
    Amd,
    AmdGpu,
    Apple,
    CudaInit,
    DeviceNode,
    EnvVar,
    Facts,
    Intel,
    LibCuda,
    Nvidia,
    NvidiaGpu,
    Outcome,
    PciDevice,
    Symptom,
    System,
    Torch,
)
from envcheck.findings import Finding, Skipped
from envcheck.matrix import load
from envcheck.rules import platform
from envcheck.rules.base import evaluate
from envcheck.symptoms.engine import recognise

LINUX = System(os="linux", distro="ubuntu", machine="x86_64", container="none", wsl=0)
DOCKER = System(os="linux", distro="debian", machine="x86_64", container="docker", wsl=0)
WSL = System(os="linux", distro="ubuntu", machine="x86_64", container="none", wsl=2)
MAC = System(os="macos", machine="arm64", rosetta=False)
CU128 = Torch(version="2.8.0+cu128", cuda="12.8", hip="", xpu="", cuda_available=False)
ON_BUS = PciDevice(vendor_id="10de", name="GA102 [GeForce RTX 3090]")
ALL_NODES = tuple(
    DeviceNode(path=p, readable=True, writable=True) for p in ("/dev/nvidiactl", "/dev/nvidia0", "/dev/nvidia-uvm")
)


def found(facts: Facts, rule: str) -> list[Finding]:
    return [f for f in evaluate(facts, load(), platform.RULES).findings if f.rule == rule]


def skipped(facts: Facts, rule: str) -> list[Skipped]:
    return [s for s in evaluate(facts, load(), platform.RULES).skipped if s.rule == rule]


def text(line: str) -> tuple[Symptom, ...]:
    return recognise(line, source="report.txt")


def but(facts: Facts, **changes: object) -> Facts:
    return msgspec.structs.replace(facts, **changes)


# --- containers ----------------------------------------------------------------------------------------------------

EMPTY = Facts(system=DOCKER, torch=CU128, nvidia=Nvidia(device_nodes=(), libcuda=()), pci=(ON_BUS,), env=())


def test_container_without_any_device_file() -> None:
    finding = found(EMPTY, "container-no-gpu")[0]
    assert finding.severity == "error"
    assert finding.confidence == "certain"
    assert any("--gpus all" in c for c in finding.remedy.commands)


@pytest.mark.parametrize(
    ("kind", "word"),
    [
        ("kubernetes", "nvidia.com/gpu"),
        ("apptainer", "--nv"),
        ("podman", "cdi"),
        ("lxc", "incus"),
        ("docker", "--gpus all"),
    ],
)
def test_the_way_to_pass_a_gpu_is_the_container_kinds_own(kind: str, word: str) -> None:
    facts = but(EMPTY, system=msgspec.structs.replace(DOCKER, container=kind))
    remedy = found(facts, "container-no-gpu")[0].remedy
    assert word in remedy.text + " ".join(remedy.commands)


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(but(EMPTY, torch=Torch(version="2.8.0+cpu", cuda="", hip="")), id="a CPU build wants no GPU"),
        pytest.param(but(EMPTY, system=LINUX), id="no container"),
        pytest.param(but(EMPTY, pci=()), id="the host has no NVIDIA GPU"),
        pytest.param(but(EMPTY, nvidia=Nvidia(device_nodes=ALL_NODES)), id="the device files are there"),
        pytest.param(but(EMPTY, torch=msgspec.structs.replace(CU128, cuda_available=True)), id="CUDA works"),
        pytest.param(but(EMPTY, nvidia=Nvidia()), id="nobody looked at the device files"),
    ],
)
def test_container_no_gpu_keeps_quiet(facts: Facts) -> None:
    assert found(facts, "container-no-gpu") == []


def test_container_whose_host_cannot_be_seen() -> None:
    facts = but(EMPTY, pci=None)
    assert found(facts, "container-no-gpu") == []
    assert "run nvidia-smi on the host" in skipped(facts, "container-no-gpu")[0].settle


def test_a_gpu_withheld_by_variable_is_said() -> None:
    facts = but(EMPTY, env=(EnvVar(name="NVIDIA_VISIBLE_DEVICES", value="void"),))
    assert "NVIDIA_VISIBLE_DEVICES=void" in found(facts, "container-no-gpu")[0].seen


def test_start_command_with_and_without_gpu() -> None:
    said = text("RuntimeError: Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU")
    base = Facts(origin="captured", torch=CU128, symptoms=said)
    bare = but(base, commands=("docker run -it --rm pytorch/pytorch python train.py",))
    assert found(bare, "container-no-gpu")[0].confidence == "certain"
    given = but(base, commands=("docker run -it --gpus all --rm pytorch/pytorch python train.py",))
    assert found(given, "container-no-gpu") == []


def test_device_file_that_was_not_passed() -> None:
    some = tuple(n for n in ALL_NODES if n.path != "/dev/nvidia-uvm")
    facts = but(EMPTY, nvidia=Nvidia(device_nodes=some, gpus=(NvidiaGpu(index=0, name="NVIDIA A10"),)))
    finding = found(facts, "container-device-missing")[0]
    assert "/dev/nvidia-uvm" in finding.title
    assert found(but(facts, system=LINUX), "container-device-missing") == []
    assert found(but(facts, nvidia=Nvidia(device_nodes=ALL_NODES)), "container-device-missing") == []
    assert found(but(facts, nvidia=Nvidia()), "container-device-missing") == []


def test_rights_withdrawn_from_a_running_container() -> None:
    lost = Nvidia(device_nodes=ALL_NODES, smi=Outcome(status="failed"), smi_error="nvml-unknown")
    inside = found(but(EMPTY, nvidia=lost), "container-device-missing")[0]
    assert "systemd" in inside.why
    outside = found(but(EMPTY, system=LINUX, nvidia=lost), "container-device-missing")[0]
    assert "dmesg" in outside.otherwise


def test_docker_rules_need_their_texts() -> None:
    for rule in ("container-toolkit-missing", "container-cgroups", "container-driver-in-image"):
        assert found(EMPTY, rule) == []


# --- WSL -----------------------------------------------------------------------------------------------------------

WSL_LIB = LibCuda(path="/usr/lib/wsl/lib/libcuda.so.1", kind="wsl", loaded=True)


def test_linux_driver_inside_wsl() -> None:
    facts = Facts(
        system=WSL,
        torch=CU128,
        nvidia=Nvidia(driver_packages=("nvidia-driver-550", "libnvidia-compute-550"), libcuda=(WSL_LIB,)),
    )
    finding = found(facts, "wsl-cuda")[0]
    assert "inside WSL" in finding.title
    assert any(c.startswith("sudo apt purge") for c in finding.remedy.commands)
    works = but(facts, torch=msgspec.structs.replace(CU128, cuda_available=True))
    assert found(works, "wsl-cuda") == []
    toolkit_only = but(facts, nvidia=Nvidia(driver_packages=("nvidia-container-toolkit",), libcuda=(WSL_LIB,)))
    assert found(toolkit_only, "wsl-cuda") == []


def test_libcuda_of_a_linux_driver_hides_that_of_windows() -> None:
    other = LibCuda(path="/usr/lib/x86_64-linux-gnu/libcuda.so.1", version="535.183.01", kind="driver", loaded=True)
    assert (
        "Linux NVIDIA driver"
        in found(Facts(system=WSL, torch=CU128, nvidia=Nvidia(libcuda=(other,))), "wsl-cuda")[0].title
    )


def test_wsl_one() -> None:
    one = msgspec.structs.replace(WSL, wsl=1)
    assert found(Facts(system=one, torch=CU128), "wsl-cuda")[0].title == "WSL 1 has no GPU."
    assert found(Facts(system=one, torch=Torch(version="2.8.0+cpu", cuda="")), "wsl-cuda") == []


def test_wsl_loader_does_not_find_libcuda() -> None:
    missed = LibCuda(path="/usr/lib/wsl/lib/libcuda.so.1", kind="wsl", loaded=False)
    finding = found(Facts(system=WSL, torch=CU128, nvidia=Nvidia(libcuda=(missed,))), "wsl-cuda")[0]
    assert "sudo ldconfig" in finding.remedy.commands
    unsaid = LibCuda(path="/usr/lib/wsl/lib/libcuda.so.1", kind="wsl")
    assert found(Facts(system=WSL, torch=CU128, nvidia=Nvidia(libcuda=(unsaid,))), "wsl-cuda") == []


def test_wsl_blocked_and_the_start_that_fails() -> None:
    blocked = Facts(system=WSL, torch=CU128, nvidia=Nvidia(smi=Outcome(status="failed"), smi_error="wsl-blocked"))
    assert "blocks" in found(blocked, "wsl-cuda")[0].title
    out = CudaInit(outcome=Outcome(status="failed"), code=2, name="CUDA_ERROR_OUT_OF_MEMORY")
    gpus = tuple(NvidiaGpu(index=i, name="NVIDIA A100") for i in range(8))
    many = Facts(system=WSL, torch=CU128, nvidia=Nvidia(cuda_init=out, gpus=gpus, libcuda=(WSL_LIB,)))
    finding = found(many, "wsl-cuda")[0]
    assert any("CUDA_VISIBLE_DEVICES" in c for c in finding.remedy.commands)
    assert found(but(many, system=LINUX), "wsl-cuda") == []


def test_nothing_is_wrong_with_wsl_by_itself() -> None:
    assert found(Facts(system=WSL, torch=Torch(version="2.8.0+cu128", cuda="12.8")), "wsl-cuda") == []


ROCM = Torch(version="2.8.0+rocm6.4", cuda="", hip="6.4.43482", cuda_available=False)


def test_rocm_under_wsl() -> None:
    facts = Facts(system=WSL, torch=ROCM, amd=Amd(gpus=(AmdGpu(gfx="gfx1100"),)))
    finding = found(facts, "rocm-wsl-hsa-runtime")[0]
    assert any("libhsa-runtime64" in c for c in finding.remedy.commands)
    assert found(facts, "rocm-no-device-access") == []
    assert found(but(facts, system=LINUX), "rocm-wsl-hsa-runtime") == []
    works = but(facts, torch=msgspec.structs.replace(ROCM, cuda_available=True))
    assert found(works, "rocm-wsl-hsa-runtime") == []
    untried = but(facts, torch=msgspec.structs.replace(ROCM, cuda_available=None))
    assert found(untried, "rocm-wsl-hsa-runtime") == []


# --- ROCm ----------------------------------------------------------------------------------------------------------

KFD = DeviceNode(path="/dev/kfd", readable=False, writable=False, mode="crw-rw----", owner="root", group="render")
OPEN_KFD = DeviceNode(path="/dev/kfd", readable=True, writable=True, mode="crw-rw-rw-", owner="root", group="render")
RENDER = DeviceNode(path="/dev/dri/renderD128", readable=False, writable=False, group="render")


def test_rights_on_kfd() -> None:
    facts = Facts(system=LINUX, torch=ROCM, amd=Amd(kfd=KFD, render_nodes=(RENDER,), user_groups=("me", "sudo")))
    finding = found(facts, "rocm-no-device-access")[0]
    assert finding.confidence == "certain"
    assert any("usermod -aG render,video" in c for c in finding.remedy.commands)
    assert "crw-rw----" in finding.seen
    assert "me, sudo" in finding.seen
    inside = found(but(facts, system=DOCKER), "rocm-no-device-access")[0]
    assert "--group-add" in inside.remedy.text
    works = but(facts, torch=msgspec.structs.replace(ROCM, cuda_available=True))
    assert found(works, "rocm-no-device-access") == []


def test_group_of_the_device_file_is_the_one_to_join() -> None:
    own = msgspec.structs.replace(KFD, group="amdgpu")
    finding = found(Facts(system=LINUX, torch=ROCM, amd=Amd(kfd=own)), "rocm-no-device-access")[0]
    assert any("amdgpu,video" in c for c in finding.remedy.commands)


def test_open_device_files_are_no_fault() -> None:
    open_render = DeviceNode(path="/dev/dri/renderD128", readable=True, writable=True)
    facts = Facts(system=LINUX, torch=ROCM, amd=Amd(kfd=OPEN_KFD, render_nodes=(open_render,)))
    assert found(facts, "rocm-no-device-access") == []
    mixed = but(facts, amd=Amd(kfd=OPEN_KFD, render_nodes=(open_render, RENDER)))
    assert found(mixed, "rocm-no-device-access") == []
    closed = but(facts, amd=Amd(kfd=OPEN_KFD, render_nodes=(RENDER,)))
    assert found(closed, "rocm-no-device-access") != []


def test_kfd_absent_and_unknown() -> None:
    absent = Facts(system=LINUX, torch=ROCM, amd=Amd(kfd_error="No such file or directory"))
    assert "not there" in found(absent, "rocm-no-device-access")[0].title
    unknown = Facts(system=LINUX, torch=ROCM)
    assert found(unknown, "rocm-no-device-access") == []
    assert skipped(unknown, "rocm-no-device-access")[0].essential


def test_closed_render_node_matters_only_to_rocm() -> None:
    facts = Facts(system=LINUX, torch=CU128, amd=Amd(render_nodes=(RENDER,)))
    assert found(facts, "rocm-no-device-access") == []
    assert skipped(facts, "rocm-no-device-access") == []


# --- XPU -----------------------------------------------------------------------------------------------------------

XPU = Torch(version="2.8.0+xpu", cuda="", xpu="20250101", xpu_available=False)
ARC = ("Intel Arc A770",)
OPEN_RENDER = DeviceNode(path="/dev/dri/renderD128", readable=True, writable=True, group="render")


def test_rights_on_the_render_node() -> None:
    facts = Facts(system=LINUX, torch=XPU, intel=Intel(gpus=ARC, render_nodes=(RENDER,), user_groups=("me",)))
    finding = found(facts, "xpu-no-device-access")[0]
    assert any("usermod -aG render" in c for c in finding.remedy.commands)
    assert found(facts, "xpu-runtime-init-failed") == []
    assert "--group-add" in found(but(facts, system=DOCKER), "xpu-no-device-access")[0].remedy.text
    works = but(facts, torch=msgspec.structs.replace(XPU, xpu_available=True))
    assert found(works, "xpu-no-device-access") == []
    assert found(but(facts, torch=CU128), "xpu-no-device-access") == []


def test_device_that_is_there_and_not_offered() -> None:
    facts = Facts(system=LINUX, torch=XPU, intel=Intel(gpus=ARC, render_nodes=(OPEN_RENDER,), level_zero="1.20.2"))
    assert found(facts, "xpu-no-device-access") == []
    assert "sycl-ls" in found(facts, "xpu-runtime-init-failed")[0].otherwise
    assert found(but(facts, torch=msgspec.structs.replace(XPU, xpu_available=True)), "xpu-runtime-init-failed") == []


def test_missing_level_zero_loader() -> None:
    facts = Facts(system=LINUX, torch=XPU, intel=Intel(gpus=ARC, render_nodes=(OPEN_RENDER,), level_zero=""))
    finding = found(facts, "xpu-runtime-init-failed")[0]
    assert "Level Zero loader" in finding.title
    assert any("libze1" in c for c in finding.remedy.commands)
    assert found(but(facts, torch=CU128), "xpu-runtime-init-failed") == []


def test_xpu_rights_that_nobody_looked_at() -> None:
    facts = Facts(system=LINUX, torch=XPU, intel=Intel(gpus=ARC))
    assert found(facts, "xpu-no-device-access") == []
    assert skipped(facts, "xpu-no-device-access")[0].essential
    no_gpu = but(facts, intel=Intel(gpus=()), pci=())
    assert skipped(no_gpu, "xpu-no-device-access") == []
    told = but(facts, origin="captured")
    assert found(told, "xpu-no-device-access")[0].confidence == "likely"


# --- MPS -----------------------------------------------------------------------------------------------------------


def mac(version: str, macos: str, **more: object) -> Facts:
    changes: dict[str, object] = {"cuda": "", "mps_built": True, "mps_available": False, **more}
    return Facts(
        system=msgspec.structs.replace(MAC, version=macos),
        torch=Torch(version=version, **changes),  # type: ignore[arg-type]
        apple=Apple(chip="Apple M1", macos=macos),
    )


@pytest.mark.parametrize(
    ("version", "macos", "rule"),
    [
        ("2.9.0", "13.6", "mps-macos-too-old"),
        ("2.9.1", "14.0", "mps-blocked-by-sandbox"),
        ("2.8.0", "13.6", "mps-blocked-by-sandbox"),
        ("2.8.0", "12.7", "mps-macos-too-old"),
        ("2.0.1", "12.3", "mps-blocked-by-sandbox"),
        ("2.0.1", "12.2", "mps-macos-too-old"),
        ("2.11.0.dev20260101", "13.6", "mps-macos-too-old"),
        ("2.14.1", "26.1", "mps-blocked-by-sandbox"),
    ],
)
def test_floor_of_macos_or_a_closed_way(version: str, macos: str, rule: str) -> None:
    facts = mac(version, macos)
    other = {"mps-macos-too-old": "mps-blocked-by-sandbox", "mps-blocked-by-sandbox": "mps-macos-too-old"}[rule]
    assert len(found(facts, rule)) == 1
    assert found(facts, other) == [] or rule == "mps-macos-too-old"
    assert found(but(facts, torch=msgspec.structs.replace(facts.torch, mps_available=True)), rule) == []


def test_too_old_names_the_floor_and_the_last_release() -> None:
    finding = found(mac("2.9.0", "13.6"), "mps-macos-too-old")[0]
    assert finding.severity == "warning"
    assert "macOS 14" in finding.seen
    assert "2.8" in finding.remedy.text


def test_unknown_macos() -> None:
    facts = Facts(system=MAC, torch=Torch(version="2.9.0", mps_built=True, mps_available=False))
    assert found(facts, "mps-macos-too-old") == []
    assert skipped(facts, "mps-macos-too-old")
    assert skipped(facts, "mps-blocked-by-sandbox")


def test_intel_and_rosetta_are_other_rules_business() -> None:
    facts = mac("2.2.2", "14.1")
    rosetta = but(facts, system=msgspec.structs.replace(facts.system, rosetta=True))
    assert found(rosetta, "mps-blocked-by-sandbox") == []
    intel = but(facts, system=msgspec.structs.replace(facts.system, machine="x86_64"))
    assert found(intel, "mps-blocked-by-sandbox") == []


def test_virtual_machine_has_no_metal() -> None:
    facts = mac("2.8.0", "15.1")
    facts = but(facts, system=msgspec.structs.replace(facts.system, virtual_machine="apple"))
    assert "virtual machine" in found(facts, "mps-blocked-by-sandbox")[0].title


def test_torch_without_mps() -> None:
    assert found(mac("1.11.0", "14.1", mps_built=False), "mps-not-built")[0].severity == "note"
    assert found(mac("2.8.0", "14.1"), "mps-not-built") == []
    assert found(Facts(system=LINUX, torch=Torch(version="2.8.0", mps_built=False)), "mps-not-built") == []


def test_mps_operator_needs_its_text() -> None:
    assert found(mac("2.8.0", "14.1"), "mps-op-not-implemented") == []


def test_folk_cures_are_never_offered() -> None:
    for facts in (
        Facts(system=LINUX, torch=ROCM, amd=Amd(kfd=KFD)),
        Facts(system=LINUX, torch=XPU, intel=Intel(gpus=ARC, render_nodes=(RENDER,))),
        EMPTY,
    ):
        for finding in evaluate(facts, load(), platform.RULES).findings:
            words = " ".join((finding.remedy.text, *finding.remedy.commands))
            assert "chmod" not in words
            assert "--privileged" not in words
            assert "sudo python" not in words


def _machine(name: str):
    from pathlib import Path

    from envcheck.facts import from_json

    return from_json((Path(__file__).parent.parent / "machines" / name / "facts.json").read_bytes())


def test_closed_kfd_of_a_processor_graphics_is_no_fault_of_a_cpu_build() -> None:
    import msgspec

    from envcheck.facts import Amd, AmdGpu, DeviceNode, PciDevice
    from envcheck.matrix import load
    from envcheck.rules import RULES, evaluate

    amd = Amd(
        gpus=(AmdGpu(name="Raphael", gfx="gfx1036"),),
        kfd=DeviceNode(path="/dev/kfd", readable=False, writable=False, group="render"),
        user_groups=("users",),
    )
    facts = msgspec.structs.replace(
        _machine("linux-server-cpu-only"), amd=amd, pci=(PciDevice(vendor_id="1002", name="Raphael", driver="amdgpu"),)
    )
    assert [f.rule for f in evaluate(facts, load(), RULES).findings if f.severity != "note"] == []


def test_an_unsupported_processor_graphics_beside_a_supported_card_is_a_note() -> None:
    import msgspec

    from envcheck.facts import AmdGpu
    from envcheck.matrix import load
    from envcheck.rules import RULES, evaluate

    facts = _machine("linux-7900xtx-rocm64")
    gpus = (*(facts.amd.gpus or ()), AmdGpu(name="Raphael", gfx="gfx1036"))
    facts = msgspec.structs.replace(facts, amd=msgspec.structs.replace(facts.amd, gpus=gpus))
    found = {f.rule: f.severity for f in evaluate(facts, load(), RULES).findings}
    assert found.get("rocm-gfx-unsupported") == "note"
    assert "warning" not in found.values() and "error" not in found.values()
