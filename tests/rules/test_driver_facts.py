"""Driver, GPU and CPU rules over hand-built facts: one that fires, one near miss, one that cannot be judged."""

from __future__ import annotations

import msgspec
import pytest

from envcheck.facts import (
    Check,
    CudaInit,
    DeviceNode,
    EnvVar,
    FabricManager,
    Facts,
    GpuProcess,
    KernelEvent,
    LibCuda,
    Nvidia,
    NvidiaGpu,
    Outcome,
    PciDevice,
    System,
    Toolchain,
    Torch,
)
from envcheck.findings import Finding, Skipped
from envcheck.matrix import load
from envcheck.rules import driver
from envcheck.rules.base import evaluate
from envcheck.symptoms.engine import recognise

OK = Outcome(status="ok")
LINUX = System(os="linux", distro="ubuntu", machine="x86_64", container="none", wsl=0)
WINDOWS = System(os="windows", machine="x86_64")
CARD = NvidiaGpu(index=0, name="NVIDIA GeForce RTX 3090", compute_capability="8.6")
ON_BUS = PciDevice(vendor_id="10de", name="GA102 [GeForce RTX 3090]", driver="nvidia")
CU128 = Torch(version="2.8.0+cu128", cuda="12.8", cuda_available=False)


def nvidia(**changes: object) -> Nvidia:
    base = Nvidia(
        smi=OK,
        driver_version="580.95.05",
        kernel_driver_version="580.95.05",
        kernel_module_loaded=True,
        uvm_loaded=True,
        nouveau_loaded=False,
        gpus=(CARD,),
        device_nodes=(
            DeviceNode(path="/dev/nvidiactl"),
            DeviceNode(path="/dev/nvidia0"),
            DeviceNode(path="/dev/nvidia-uvm"),
        ),
    )
    return msgspec.structs.replace(base, **changes)


def machine(**changes: object) -> Facts:
    base = Facts(system=LINUX, torch=CU128, nvidia=nvidia(), pci=(ON_BUS,), env=())
    return msgspec.structs.replace(base, **changes)


def found(facts: Facts, rule: str) -> list[Finding]:
    return [f for f in evaluate(facts, load(), driver.RULES).findings if f.rule == rule]


def skipped(facts: Facts, rule: str) -> list[Skipped]:
    return [s for s in evaluate(facts, load(), driver.RULES).skipped if s.rule == rule]


def init(code: int, **more: object) -> CudaInit:
    return CudaInit(outcome=Outcome(status="failed" if code else "ok"), code=code, **more)  # type: ignore[arg-type]


# --- driver-too-old ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("system", "driver_version", "cuda", "expected"),
    [
        (LINUX, "535.183.01", "12.8", None),  # minor-version compatibility
        (LINUX, "525.60.13", "12.9", None),
        (LINUX, "525.60.11", "12.9", "error"),
        (LINUX, "470.256.02", "12.1", "error"),
        (LINUX, "450.80.02", "11.8", None),
        (LINUX, "450.51.06", "11.8", "error"),
        (LINUX, "575.57.08", "13.0", "error"),
        (LINUX, "580.65.06", "13.2", None),
        (LINUX, "418.87.00", "10.1", None),
        (LINUX, "410.78", "10.1", "error"),  # before CUDA 11 each toolkit counts
        (WINDOWS, "531.14", "12.8", None),
        (WINDOWS, "527.41", "12.8", "warning"),  # sources disagree
        (WINDOWS, "516.94", "12.8", "error"),
        (System(os="linux", wsl=2, machine="x86_64"), "531.14", "12.8", None),  # WSL shows the Windows driver
        (System(os="linux", wsl=2, machine="x86_64"), "516.94", "12.8", "error"),
    ],
)
def test_driver_against_the_floor_of_the_family(
    system: System, driver_version: str, cuda: str, expected: str | None
) -> None:
    facts = machine(
        system=system,
        torch=Torch(version="2.8.0", cuda=cuda, cuda_available=False),
        nvidia=nvidia(driver_version=driver_version, kernel_driver_version=None),
    )
    assert [f.severity for f in found(facts, "driver-too-old")] == ([expected] if expected else [])


def test_driver_known_by_its_cuda_alone() -> None:
    old = machine(nvidia=Nvidia(driver_cuda="11.4", gpus=(CARD,)), torch=Torch(version="2.8.0+cu128", cuda="12.8"))
    assert "CUDA 11.4" in found(old, "driver-too-old")[0].seen
    same = machine(nvidia=Nvidia(driver_cuda="12.2", gpus=(CARD,)), torch=Torch(version="2.8.0+cu128", cuda="12.8"))
    assert found(same, "driver-too-old") == []


def test_what_works_is_not_called_too_old() -> None:
    facts = machine(
        nvidia=nvidia(driver_version="470.256.02"),
        torch=Torch(version="2.5.1+cu121", cuda="12.1", cuda_available=True),
    )
    assert found(facts, "driver-too-old") == []


def test_forward_compatibility_lifts_the_floor_on_data_centre_cards_only() -> None:
    lib = LibCuda(path="/usr/local/cuda/compat/libcuda.so.1", kind="compat", loaded=True)
    a100 = NvidiaGpu(index=0, name="NVIDIA A100-SXM4-80GB", compute_capability="8.0")
    server = machine(
        nvidia=nvidia(driver_version="470.256.02", kernel_driver_version="470.256.02", libcuda=(lib,), gpus=(a100,))
    )
    assert found(server, "driver-too-old") == []
    desktop = machine(nvidia=nvidia(driver_version="470.256.02", kernel_driver_version="470.256.02", libcuda=(lib,)))
    assert len(found(desktop, "driver-too-old")) == 1


def test_the_remedy_fits_the_place() -> None:
    old = nvidia(driver_version="470.256.02", kernel_driver_version="470.256.02")
    wsl = machine(system=System(os="linux", wsl=2), nvidia=nvidia(driver_version="471.11", kernel_driver_version=None))
    assert "Windows" in found(wsl, "driver-too-old")[0].remedy.text
    inside = machine(system=System(os="linux", container="docker", machine="x86_64"), nvidia=old)
    assert "host" in found(inside, "driver-too-old")[0].remedy.text
    assert any("nvidia-driver-" in c for c in found(machine(nvidia=old), "driver-too-old")[0].remedy.commands)


def test_an_unknown_driver_stays_unknown() -> None:
    facts = machine(nvidia=Nvidia(gpus=(CARD,)), torch=Torch(version="2.8.0+cu128", cuda="12.8"), pci=None)
    assert found(facts, "driver-too-old") == []
    assert [s.essential for s in skipped(facts, "driver-too-old")] == [True]


def test_a_gpu_that_only_ptx_covers_needs_the_driver_of_the_toolkit() -> None:
    torch = Torch(version="2.4.0+cu124", cuda="12.4", cuda_available=False, arch_list=("sm_50", "sm_60", "compute_60"))
    volta = NvidiaGpu(index=0, name="Tesla V100-PCIE-16GB", compute_capability="7.0")
    facts = machine(
        torch=torch, nvidia=nvidia(driver_version="535.183.01", kernel_driver_version="535.183.01", gpus=(volta,))
    )
    assert "550.54" in found(facts, "driver-too-old")[0].remedy.text
    newer = machine(
        torch=torch, nvidia=nvidia(driver_version="550.54.15", kernel_driver_version="550.54.15", gpus=(volta,))
    )
    assert found(newer, "driver-too-old") == []


# --- driver-gpu-unsupported ----------------------------------------------------------------------------------------


def test_a_second_old_card_in_the_log_of_a_machine_that_works_is_no_error() -> None:
    line = KernelEvent(
        kind="nvrm",
        text="[ 5.1] NVRM: The NVIDIA GeForce GT 710 GPU installed in this system is\n"
        "NVRM: supported through the NVIDIA 470.xx Legacy drivers.",
        line=1,
    )
    for changes in ({}, {"nvidia": Nvidia(), "torch": msgspec.structs.replace(CU128, cuda_available=True)}):
        facts = machine(kernel_events=(line,), **changes)
        assert found(facts, "driver-gpu-unsupported") == []
        asked = msgspec.structs.replace(facts, origin="captured")
        assert [f.severity for f in found(asked, "driver-gpu-unsupported")] == ["error"]
    none = machine(kernel_events=(line,), nvidia=Nvidia(smi=Outcome(status="failed"), smi_error="no-driver"))
    assert [f.severity for f in found(none, "driver-gpu-unsupported")] == ["error"]


def test_a_module_that_found_no_card_at_the_start_and_runs_now() -> None:
    line = KernelEvent(kind="nvrm", text="[ 4.1] NVRM: No NVIDIA GPU found.", line=1)
    assert found(machine(kernel_events=(line,)), "nvidia-driver-not-loaded") == []
    away = nvidia(smi=Outcome(status="failed"), smi_error="no-driver", gpus=None, kernel_module_loaded=False)
    (finding,) = found(machine(kernel_events=(line,), nvidia=away), "nvidia-driver-not-loaded")
    assert "No NVIDIA GPU found" in finding.seen


@pytest.mark.parametrize(
    ("name", "driver_version", "open_modules", "word"),
    [
        ("GP104 [GeForce GTX 1080]", "590.48.01", None, "580"),
        ("GK110B [Tesla K40m]", "535.183.01", None, "470"),
        ("GB202 [GeForce RTX 5090]", "580.95.05", False, "open"),
        ("GB202 [GeForce RTX 5090]", "550.54.15", True, "570"),
        ("GP104 [GeForce GTX 1080]", "580.95.05", True, "proprietary"),
    ],
)
def test_driver_and_gpu_that_do_not_go_together(
    name: str, driver_version: str, open_modules: bool | None, word: str
) -> None:
    facts = machine(
        pci=(PciDevice(vendor_id="10de", name=name, driver="nvidia"),),
        nvidia=Nvidia(driver_version=driver_version, kernel_module_open=open_modules, gpus=(), smi_error="no-devices"),
    )
    finding = found(facts, "driver-gpu-unsupported")[0]
    assert word in f"{finding.why} {finding.remedy.text}"


def test_a_gpu_that_nvidia_smi_lists_is_driven() -> None:
    gtx = NvidiaGpu(index=0, name="NVIDIA GeForce GTX 1080", compute_capability="6.1")
    assert found(machine(nvidia=nvidia(driver_version="590.48.01", gpus=(gtx,))), "driver-gpu-unsupported") == []
    fits = machine(
        pci=(PciDevice(vendor_id="10de", name="GP104 [GeForce GTX 1080]"),),
        nvidia=Nvidia(driver_version="580.95.05", kernel_module_open=False, gpus=()),
    )
    assert found(fits, "driver-gpu-unsupported") == []


def test_without_a_driver_number_there_is_no_verdict_on_the_gpu() -> None:
    facts = machine(nvidia=Nvidia(), pci=(PciDevice(vendor_id="10de", name="GP104 [GeForce GTX 1080]"),))
    assert skipped(facts, "driver-gpu-unsupported")


# --- nvidia-driver-not-loaded --------------------------------------------------------------------------------------

NO_DRIVER = Nvidia(smi=Outcome(status="missing"), kernel_module_loaded=False, nouveau_loaded=False)


def test_a_card_on_the_bus_and_no_module() -> None:
    facts = machine(nvidia=NO_DRIVER, pci=(PciDevice(vendor_id="10de", name="GA102 [GeForce RTX 3090]", driver=""),))
    finding = found(facts, "nvidia-driver-not-loaded")[0]
    assert "RTX 3090" in finding.seen


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        (
            {
                "nvidia": msgspec.structs.replace(NO_DRIVER, nouveau_loaded=True),
                "pci": (PciDevice(vendor_id="10de", driver="nouveau"),),
            },
            "nouveau",
        ),
        (
            {"nvidia": msgspec.structs.replace(NO_DRIVER, driver_packages=("nvidia-driver-580 580.95.05-0ubuntu1",))},
            "headers",
        ),
        (
            {
                "nvidia": msgspec.structs.replace(NO_DRIVER, driver_packages=("nvidia-driver-580 580.95.05-0ubuntu1",)),
                "system": msgspec.structs.replace(LINUX, secure_boot=True),
            },
            "Secure Boot",
        ),
        ({"nvidia": NO_DRIVER, "pci": (PciDevice(vendor_id="10de", driver="vfio-pci"),)}, "vfio-pci"),
    ],
    ids=["nouveau", "no module for the kernel", "secure boot", "vfio"],
)
def test_the_reason_decides_the_remedy(changes: dict[str, object], word: str) -> None:
    finding = found(machine(**changes), "nvidia-driver-not-loaded")[0]
    assert word in f"{finding.seen} {finding.remedy.text}"


@pytest.mark.parametrize(
    "facts",
    [
        machine(),
        machine(nvidia=NO_DRIVER, pci=(PciDevice(vendor_id="1002", name="Navi 31", driver="amdgpu"),)),
        machine(nvidia=NO_DRIVER, pci=()),
        Facts(system=System(os="macos", machine="arm64"), torch=Torch(version="2.8.0")),
        machine(
            nvidia=Nvidia(smi=Outcome(status="missing"), kernel_module_loaded=False),
            system=System(os="linux", jetson_model="Orin Nano"),
        ),
    ],
    ids=["runs", "AMD", "no card", "Mac", "Jetson"],
)
def test_no_alarm_without_a_card_or_with_a_driver(facts: Facts) -> None:
    assert found(facts, "nvidia-driver-not-loaded") == []


def test_nobody_asked_for_the_driver() -> None:
    facts = machine(nvidia=Nvidia(), torch=Torch(version="2.8.0+cu128", cuda="12.8"))
    assert [s.essential for s in skipped(facts, "nvidia-driver-not-loaded")] == [True]


# --- module and device start ---------------------------------------------------------------------------------------


def test_driver_kernel_incompatible_explains_the_missing_driver() -> None:
    log = "nvidia: disagrees about version of symbol module_layout"
    facts = machine(nvidia=NO_DRIVER, symptoms=recognise(log, source="dmesg"))
    report = evaluate(facts, load(), driver.RULES)
    assert report.findings[0].rule == "driver-kernel-incompatible"
    assert [f.consequence_of for f in report.findings if f.rule == "nvidia-driver-not-loaded"] == [
        "driver-kernel-incompatible"
    ]
    assert (
        found(
            machine(symptoms=recognise("nvidia-uvm: Loaded the UVM driver", source="dmesg")),
            "driver-kernel-incompatible",
        )
        == []
    )


def test_driver_cannot_init_gpu_from_the_kernel_log() -> None:
    event = KernelEvent(
        kind="rm-init-adapter", text="NVRM: GPU 0000:01:00.0: RmInitAdapter failed! (0x26:0x56:1463)", line=7
    )
    facts = machine(
        nvidia=nvidia(gpus=(), smi_error="no-devices", smi=Outcome(status="failed")), kernel_events=(event,)
    )
    assert found(facts, "driver-cannot-init-gpu")[0].confidence == "certain"
    assert found(machine(), "driver-cannot-init-gpu") == []
    unsure = machine(nvidia=nvidia(gpus=(), smi_error="no-devices", smi=Outcome(status="failed")))
    assert found(unsure, "driver-cannot-init-gpu")[0].confidence == "likely"


def test_nvidia_smi_hangs() -> None:
    slow = nvidia(smi=Outcome(status="timeout", seconds=5.0), gpus=None)
    assert found(machine(nvidia=slow), "nvidia-smi-hangs")[0].severity == "error"
    works = machine(nvidia=slow, torch=Torch(version="2.8.0+cu128", cuda="12.8", cuda_available=True))
    assert found(works, "nvidia-smi-hangs")[0].severity == "warning"
    assert found(machine(), "nvidia-smi-hangs") == []
    assert skipped(machine(nvidia=Nvidia()), "nvidia-smi-hangs")


def test_nvidia_smi_missing_is_a_note() -> None:
    gone = nvidia(smi=Outcome(status="missing"))
    assert found(machine(nvidia=gone), "nvidia-smi-missing")[0].severity == "note"
    assert found(machine(nvidia=NO_DRIVER), "nvidia-smi-missing") == []
    assert skipped(machine(nvidia=Nvidia()), "nvidia-smi-missing")


# --- parts that do not belong together -----------------------------------------------------------------------------


def test_module_and_library_of_two_versions() -> None:
    facts = machine(nvidia=nvidia(driver_version="580.95.05", kernel_driver_version="575.57.08"))
    finding = found(facts, "nvml-driver-library-mismatch")[0]
    assert "575.57.08" in finding.seen
    assert found(machine(), "nvml-driver-library-mismatch") == []
    wsl = machine(
        system=System(os="linux", wsl=2), nvidia=nvidia(driver_version="566.36", kernel_driver_version="565.77")
    )
    assert found(wsl, "nvml-driver-library-mismatch") == []


def test_inside_a_container_the_image_is_cleaned_and_no_driver_installed() -> None:
    facts = machine(
        system=System(os="linux", container="docker"),
        nvidia=nvidia(smi_error="library-mismatch", smi=Outcome(status="failed"), gpus=None),
    )
    finding = found(facts, "nvml-driver-library-mismatch")[0]
    assert "Remove every NVIDIA driver package" in finding.remedy.text
    assert not any(c.startswith("sudo reboot") for c in finding.remedy.commands)


def test_error_803_and_the_libcuda_behind_it() -> None:
    lib = LibCuda(
        path="/usr/lib/x86_64-linux-gnu/libcuda.so.550.54.15", version="550.54.15", kind="driver", loaded=True
    )
    finding = found(machine(nvidia=nvidia(cuda_init=init(803), libcuda=(lib,))), "driver-libcuda-mismatch")[0]
    assert "550.54.15" in finding.seen
    assert found(machine(nvidia=nvidia(cuda_init=init(100), libcuda=(lib,))), "driver-libcuda-mismatch") == []


def test_packages_of_two_releases() -> None:
    mixed = nvidia(
        driver_packages=("libnvidia-compute-570 570.148.08-0ubuntu1", "nvidia-utils-575 575.51.03-0ubuntu1"),
        driver_version=None,
        kernel_driver_version=None,
    )
    assert "570.148.08" in found(machine(nvidia=mixed), "driver-libcuda-mismatch")[0].seen
    same = nvidia(
        driver_packages=(
            "libnvidia-compute-570 570.148.08-0ubuntu1",
            "nvidia-utils-570 570.148.08-0ubuntu1",
            "nvidia-container-toolkit 1.17.4-1",
        )
    )
    assert found(machine(nvidia=same), "driver-libcuda-mismatch") == []


def test_forward_compatibility_error() -> None:
    compat = LibCuda(path="/usr/local/cuda/compat/libcuda.so.1", kind="compat", loaded=True)
    assert found(machine(nvidia=nvidia(cuda_init=init(804))), "cuda-forward-compat")[0].severity == "error"
    assert "RTX 3090" in found(machine(nvidia=nvidia(libcuda=(compat,))), "cuda-forward-compat")[0].seen
    nameless = machine(nvidia=nvidia(libcuda=(compat,), gpus=None), pci=None)
    assert skipped(nameless, "cuda-forward-compat")
    works = machine(
        nvidia=nvidia(libcuda=(compat,)), torch=Torch(version="2.8.0+cu128", cuda="12.8", cuda_available=True)
    )
    assert found(works, "cuda-forward-compat") == []


# --- what serves CUDA beside the driver ----------------------------------------------------------------------------


@pytest.mark.parametrize(("code", "word"), [(805, "no daemon answers"), (807, "recovers"), (808, "limited number"), (810, "ended this client")])
def test_mps_daemon_by_the_answer_of_cuinit(code: int, word: str) -> None:
    finding = found(machine(nvidia=nvidia(cuda_init=init(code))), "cuda-mps-daemon")[0]
    assert word in finding.why
    assert str(code) in finding.seen


def test_mps_daemon_is_left_alone_where_cuda_starts() -> None:
    assert found(machine(nvidia=nvidia(cuda_init=init(0, device_count=1))), "cuda-mps-daemon") == []


def test_vgpu_licence_of_a_live_machine() -> None:
    """Restricted is an error, grace a note, and a whole GPU has none to lack."""

    def said(license: str | None, mode: str | None) -> list[str]:
        gpu = NvidiaGpu(index=0, name="NVIDIA A16-16C" if mode == "VGPU" else "NVIDIA A16", license=license, virtualization=mode)
        return [f.severity for f in found(machine(nvidia=nvidia(gpus=(gpu,))), "vgpu-unlicensed")]

    assert said("Unlicensed (Restricted)", "VGPU") == ["error"]
    assert said("Unlicensed (Unrestricted)", "VGPU") == ["note"]
    assert said("Licensed (Expiry: 2031-1-1 0:0:0 GMT)", "VGPU") == []
    assert said("Unlicensed", "Pass-Through") == []
    assert said(None, "None") == []


def test_arm_board_that_stops_at_import() -> None:
    def said(model: str, machine_: str = "aarch64") -> list[str]:
        system = System(os="linux", machine=machine_, cpu_model=model)
        torch = Torch(version="2.4.0", imports=Outcome(status="crashed", signal="SIGILL"))
        return [f.confidence for f in found(machine(system=system, torch=torch), "arm-cpu-too-old")]

    assert said("Cortex-A72") == ["likely"]
    assert said("Cortex-A76") == []
    assert said("Neoverse-N1") == []
    assert said("Intel(R) Celeron(R) J4125", "x86_64") == []


# --- readiness, modes, faults --------------------------------------------------------------------------------------


def test_fabric_manager() -> None:
    h100 = NvidiaGpu(index=0, name="NVIDIA H100 80GB HBM3", compute_capability="9.0", fabric_state="In Progress")
    down = machine(
        nvidia=nvidia(gpus=(h100,), fabric=FabricManager(needed=True, state="inactive"), cuda_init=init(802))
    )
    assert "In Progress" in found(down, "fabric-manager-not-running")[0].seen
    other = machine(nvidia=nvidia(gpus=(h100,), fabric=FabricManager(needed=True, state="active", version="575.57.08")))
    assert "575.57.08" in found(other, "fabric-manager-not-running")[0].seen
    fine = machine(nvidia=nvidia(gpus=(h100,), fabric=FabricManager(needed=True, state="active", version="580.95.05")))
    assert found(fine, "fabric-manager-not-running") == []
    assert (
        found(machine(nvidia=nvidia(fabric=FabricManager(needed=False, state="missing"))), "fabric-manager-not-running")
        == []
    )


def test_uvm_counts_only_after_cuda_was_tried() -> None:
    without = nvidia(uvm_loaded=False, cuda_init=init(999))
    report = evaluate(machine(nvidia=without), load(), driver.RULES)
    assert report.findings[0].rule == "nvidia-uvm-missing"
    untried = machine(nvidia=nvidia(uvm_loaded=False), torch=Torch(version="2.8.0+cu128", cuda="12.8"))
    assert found(untried, "nvidia-uvm-missing") == []
    assert skipped(untried, "nvidia-uvm-missing")
    assert found(machine(nvidia=nvidia(cuda_init=init(999))), "nvidia-uvm-missing") == []


def test_error_999_by_its_code() -> None:
    finding = found(machine(nvidia=nvidia(cuda_init=init(999))), "cuda-unknown-error")[0]
    assert any("nvidia_uvm" in c for c in finding.remedy.commands)
    assert found(machine(nvidia=nvidia(cuda_init=init(100))), "cuda-unknown-error") == []


def test_exclusive_mode_needs_somebody_on_the_card() -> None:
    taken = msgspec.structs.replace(
        CARD, compute_mode="Exclusive_Process", processes=(GpuProcess(pid=1, name="python"),)
    )
    free = msgspec.structs.replace(CARD, compute_mode="Exclusive_Process", processes=())
    assert found(machine(nvidia=nvidia(gpus=(taken,))), "gpu-exclusive-mode")[0].confidence == "certain"
    assert found(machine(nvidia=nvidia(gpus=(free,))), "gpu-exclusive-mode") == []


@pytest.mark.parametrize(
    "gpu",
    [
        {"ecc_uncorrected": 2},
        {"recovery_action": "Reset"},
        {"error": "GPU is lost"},
    ],
    ids=lambda g: next(iter(g)),
)
def test_hardware_faults_that_the_driver_counts(gpu: dict[str, object]) -> None:
    facts = machine(nvidia=nvidia(gpus=(msgspec.structs.replace(CARD, **gpu),)))
    assert found(facts, "gpu-hardware-fault")[0].severity == "error"


def test_what_the_driver_has_dealt_with_is_no_error() -> None:
    """Rows and pages that wait for a reset, and errors after which the driver asks for no action: programs may go on."""
    waiting = ({"remapped_rows_pending": True}, {"retired_pages_pending": True})
    for gpu in (*waiting, {"ecc_uncorrected": 1, "recovery_action": "None"}):
        facts = machine(nvidia=nvidia(gpus=(msgspec.structs.replace(CARD, **gpu),)))
        assert [f.severity for f in found(facts, "gpu-hardware-fault")] == ["warning"], gpu


@pytest.mark.parametrize(("action", "resets"), [("Drain P2P", False), ("Drain and Reset", True)])
def test_a_gpu_that_is_to_be_drained_may_end_its_work(action: str, resets: bool) -> None:
    facts = machine(nvidia=nvidia(gpus=(msgspec.structs.replace(CARD, recovery_action=action),)))
    (finding,) = found(facts, "gpu-hardware-fault")
    assert finding.severity == "warning"
    assert action in finding.title
    assert any("--gpu-reset" in c for c in finding.remedy.commands) is resets


@pytest.mark.parametrize(
    ("cards", "checks", "severity"),
    [
        (1, (Check(name="matmul-fp32", device="cuda:0", status="passed"),), "warning"),
        (2, (Check(name="matmul-fp32", device="cuda:0", status="passed"),), "error"),  # the other one was not tried
        (
            1,
            (
                Check(name="matmul-fp32", device="cuda:0", status="passed"),
                Check(name="x", device="cuda:0", status="failed", detail="3 uncorrected ECC errors came while it ran"),
            ),
            "error",
        ),
    ],
)
def test_counted_errors_of_a_gpu_that_computes(cards: int, checks: tuple[Check, ...], severity: str) -> None:
    gpus = (msgspec.structs.replace(CARD, ecc_uncorrected=2), CARD)[:cards]
    facts = machine(nvidia=nvidia(gpus=gpus), checks=checks)
    assert [f.severity for f in found(facts, "gpu-hardware-fault")] == [severity]


def test_what_is_no_hardware_fault() -> None:
    old = msgspec.structs.replace(CARD, ecc_uncorrected=0, ecc_uncorrected_total=3, remapped_rows_pending=False)
    program = KernelEvent(kind="xid", code=31, text="NVRM: Xid (PCI:0000:01:00): 31, pid=1, MMU Fault")
    assert found(machine(nvidia=nvidia(gpus=(old,)), kernel_events=(program,)), "gpu-hardware-fault") == []


def test_xid_of_the_bus_gets_the_bus_remedy() -> None:
    event = KernelEvent(kind="xid", code=79, text="NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus.", line=3)
    finding = found(machine(kernel_events=(event,)), "gpu-hardware-fault")[0]
    assert "power" in finding.remedy.text
    assert finding.line == 3


def xid(number: int, *, age: float | None = None, place: str = "0000:01:00", words: str = "pid=1") -> KernelEvent:
    return KernelEvent(kind="xid", code=number, text=f"[ 9.1] NVRM: Xid (PCI:{place}): {number}, {words}", line=1, age=age)


def failed(detail: str) -> Check:
    return Check(name="matmul-fp32", device="cuda:0", status="failed", detail=detail)


HERE = msgspec.structs.replace(CARD, bus_id="00000000:01:00.0", recovery_action="None", ecc_uncorrected=0)
WORKS = msgspec.structs.replace(CU128, cuda_available=True, device_count=1)
WEEK = 7 * 86_400.0


@pytest.mark.parametrize(
    ("event", "changes", "severity"),
    [
        (xid(79, age=WEEK), {}, "note"),
        (xid(79, age=300.0), {}, "warning"),
        (xid(95), {}, "warning"),  # nobody knows when
        (xid(95, age=WEEK), {"torch": CU128}, "warning"),  # nvidia-smi is content, CUDA was not tried
        (xid(94, age=5.0), {}, "note"),  # the program had to be started anew, nothing else
        (xid(63, age=5.0), {"torch": CU128}, "note"),
        (xid(154, age=5.0, words="GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)"), {}, None),
        (xid(48, age=WEEK), {"nvidia": nvidia(gpus=(msgspec.structs.replace(HERE, recovery_action="Reset"),))}, "error"),
        (xid(48, age=WEEK), {"nvidia": nvidia(gpus=(msgspec.structs.replace(HERE, ecc_uncorrected=1, recovery_action=None),))}, "error"),
        (xid(119, age=WEEK), {"nvidia": nvidia(smi=Outcome(status="timeout"))}, "error"),
        (xid(62, age=WEEK), {"nvidia": nvidia(gpus=(HERE,), cuda_init=init(999))}, "error"),
        (xid(62, age=WEEK), {"nvidia": nvidia(gpus=(HERE,), cuda_init=init(35)), "torch": CU128}, "warning"),  # an old driver breaks no card
        (xid(109, age=WEEK), {"checks": (Check(name="matmul-fp32", device="cuda:0", status="timeout"),)}, "error"),
        (xid(79, age=WEEK, place="0000:41:00"), {}, "error"),  # that GPU is gone
        (xid(79, age=WEEK, place="0000:41:00"), {"system": msgspec.structs.replace(LINUX, container="docker")}, "note"),
        (xid(109, age=WEEK), {"checks": (failed("CUDA error: an illegal instruction; unspecified launch failure"),)}, "error"),
        (xid(79, age=WEEK), {"checks": (failed("CUDA error: no kernel image is available for execution on the device"),)}, "note"),
        (xid(79, age=WEEK), {"checks": (failed("CUDA out of memory. Tried to allocate 2.00 GiB"),)}, "note"),
        (xid(79, age=WEEK), {"checks": (failed("Unable to load libcudnn_cnn.so.9"),)}, "note"),
        (xid(79, age=WEEK), {"nvidia": nvidia(smi=Outcome(status="missing"))}, "warning"),  # nothing shows how the card is
        (xid(95, age=WEEK), {"nvidia": nvidia(smi=Outcome(status="skipped"), cuda_init=init(999))}, "error"),
        (xid(61, age=5.0), {}, "note"),
        (xid(92), {"nvidia": nvidia(smi=Outcome(status="missing"))}, "warning"),
    ],
    ids=lambda v: v if isinstance(v, str) else None,
)
def test_a_fault_in_the_log_of_a_live_machine_is_judged_by_what_the_card_does_now(event: KernelEvent, changes: dict[str, object], severity: str | None) -> None:
    facts = machine(**{"kernel_events": (event,), "nvidia": nvidia(gpus=(HERE,)), "torch": WORKS, **changes})
    assert [f.severity for f in found(facts, "gpu-hardware-fault")] == ([severity] if severity else [])
    pasted = msgspec.structs.replace(facts, origin="captured", nvidia=Nvidia(), checks=None)
    assert [f.severity for f in found(pasted, "gpu-hardware-fault")] == ([] if severity is None else ["warning" if event.code in (61, 63, 92) else "error"])


def test_words_of_a_fault_without_a_number_count_as_much() -> None:
    lost = KernelEvent(kind="nvrm", text="[ 9.2] NVRM: GPU 0000:01:00.0: GPU has fallen off the bus.", line=2, age=WEEK)
    works = machine(kernel_events=(lost,), nvidia=nvidia(gpus=(HERE,)), torch=WORKS)
    assert [f.severity for f in found(works, "gpu-hardware-fault")] == ["note"]
    gone = msgspec.structs.replace(works, nvidia=nvidia(smi=Outcome(status="failed"), smi_error="gpu-lost", gpus=None))
    assert [f.severity for f in found(gone, "gpu-hardware-fault")] == ["error"]


def test_words_without_a_number_get_none() -> None:
    for text in ("GPU 0000:01:00.0: GPU has fallen off the bus.", "GPU 0000:01:00.0: uncorrectable ECC error encountered"):
        line = KernelEvent(kind="nvrm", text=f"[ 9.2] NVRM: {text}", line=2, age=WEEK)
        for card, severity in ((HERE, "note"), (msgspec.structs.replace(HERE, recovery_action="Reset"), "error")):
            facts = machine(kernel_events=(line,), nvidia=nvidia(gpus=(card,)), torch=WORKS)
            (finding,) = found(facts, "gpu-hardware-fault")
            assert finding.severity == severity
            assert "Xid" not in finding.title


def test_a_fault_of_the_past_beside_rows_that_wait_is_told_as_past() -> None:
    waits = msgspec.structs.replace(HERE, remapped_rows_pending=True)
    facts = machine(kernel_events=(xid(79, age=300.0),), nvidia=nvidia(gpus=(waits,)), torch=WORKS)
    (finding,) = found(facts, "gpu-hardware-fault")
    assert finding.severity == "warning"
    assert "5 minutes ago" in finding.title
    assert "remapped rows pending" in finding.seen
    assert "another GPU or node" not in finding.remedy.text


def test_a_fault_that_nobody_could_ask_after_is_not_called_over() -> None:
    facts = machine(kernel_events=(xid(79, age=WEEK),), nvidia=nvidia(smi=Outcome(status="missing")), torch=WORKS)
    (finding,) = found(facts, "gpu-hardware-fault")
    assert "Nothing has to be done" not in finding.remedy.text
    assert "could not be asked" in finding.why


def test_a_recovery_that_the_driver_takes_back() -> None:
    wants = xid(154, words="GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)")
    calm = xid(154, words="GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)")
    other = xid(154, place="0000:41:00", words="GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)")

    def told(*events: KernelEvent) -> list[str]:
        lines = tuple(msgspec.structs.replace(e, line=n) for n, e in enumerate(events, 1))
        return [f.severity for f in found(Facts(origin="captured", kernel_events=lines), "gpu-hardware-fault")]

    assert told(wants, calm) == []
    assert told(wants, other) == ["error"]
    assert told(calm, wants) == ["error"]
    assert told(xid(79), wants, calm) == ["error"]


def test_xid_61_is_a_warning_of_the_micro_controller() -> None:
    facts = Facts(origin="captured", kernel_events=(xid(61),))
    (finding,) = found(facts, "gpu-hardware-fault")
    assert finding.severity == "warning"
    assert "fault" not in finding.title
    assert "another GPU or node" not in finding.remedy.text


def test_the_worst_fault_is_named() -> None:
    events = (xid(63, age=9.0), msgspec.structs.replace(xid(79, age=8.0, place="0000:41:00"), line=2))
    (finding,) = found(machine(kernel_events=events, nvidia=nvidia(gpus=(HERE,)), torch=WORKS), "gpu-hardware-fault")
    assert "79" in finding.title
    assert finding.severity == "error"


# --- CPU -----------------------------------------------------------------------------------------------------------

SIGILL = Torch(version="2.8.0+cpu", cuda="", imports=Outcome(status="crashed", signal="SIGILL"))


def test_illegal_instruction_on_a_cpu_without_avx() -> None:
    old = msgspec.structs.replace(
        LINUX, cpu_model="QEMU Virtual CPU version 2.5+", cpu_flags=("sse4_2",), virtual_machine="kvm"
    )
    finding = found(Facts(system=old, torch=SIGILL), "cpu-lacks-avx")[0]
    assert finding.confidence == "certain"
    assert "host" in finding.remedy.text
    new = msgspec.structs.replace(LINUX, cpu_model="AMD EPYC 7543", cpu_flags=("avx", "avx2", "sse4_2"))
    assert found(Facts(system=new, torch=SIGILL), "cpu-lacks-avx") == []
    unknown = msgspec.structs.replace(LINUX, cpu_model=None, cpu_flags=None)
    assert found(Facts(system=unknown, torch=SIGILL), "cpu-lacks-avx")[0].confidence == "likely"


TRAP = KernelEvent(
    kind="segfault",
    text="[ 77.1] traps: python[4711] trap invalid opcode ip:7f1 sp:7ffc error:0 in libtorch_cpu.so[7f1+9a0]",
    line=3,
)


@pytest.mark.parametrize(
    ("rule", "model", "arch"),
    [("cpu-lacks-avx", "QEMU Virtual CPU version 2.5+", "x86_64"), ("arm-cpu-too-old", "Cortex-A72", "aarch64")],
)
def test_an_illegal_instruction_of_the_past_stops_nothing(rule: str, model: str, arch: str) -> None:
    old = msgspec.structs.replace(LINUX, cpu_model=model, machine=arch)
    works = Torch(version="2.8.0+cpu", cuda="", imports=OK)
    live = Facts(system=old, torch=works, kernel_events=(TRAP,))
    assert found(live, rule) == []
    assert [f.severity for f in found(msgspec.structs.replace(live, origin="captured"), rule)] == ["error"]


def test_no_avx_and_no_crash_is_a_note() -> None:
    old = msgspec.structs.replace(LINUX, cpu_flags=("sse4_2",))
    assert [f.severity for f in found(Facts(system=old), "cpu-lacks-avx")] == ["note"]


# --- what a process may see ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("", "error"),
        ("-1", "error"),
        ("1", "error"),
        ("NoDevFiles", "error"),
        ("0,5", "warning"),
        ("0", None),
        ("GPU-1234", None),
    ],
)
def test_visible_devices_against_the_gpus_there_are(value: str, expected: str | None) -> None:
    facts = machine(env=(EnvVar(name="CUDA_VISIBLE_DEVICES", value=value),))
    assert [f.severity for f in found(facts, "cuda-visible-devices")] == ([expected] if expected else [])


def test_the_driver_api_settles_a_name_that_cannot_be_compared() -> None:
    env = (EnvVar(name="CUDA_VISIBLE_DEVICES", value="GPU-00000000-0000-0000-0000-000000000000"),)
    facts = machine(env=env, nvidia=nvidia(cuda_init=init(100, device_count=0, device_count_unmasked=2)))
    assert found(facts, "cuda-visible-devices")[0].severity == "error"


@pytest.mark.parametrize(
    "facts",
    [
        machine(env=(EnvVar(name="CUDA_VISIBLE_DEVICES", value="-1"),), torch=Torch(version="2.8.0+cpu", cuda="")),
        machine(env=(EnvVar(name="CUDA_VISIBLE_DEVICES", value=""),), nvidia=Nvidia(gpus=()), pci=()),
        machine(env=()),
    ],
    ids=["a CPU build hides on purpose", "there is no GPU to hide", "not set"],
)
def test_a_mask_that_hides_nothing(facts: Facts) -> None:
    assert found(facts, "cuda-visible-devices") == []


def test_a_mask_and_nobody_knows_the_gpus() -> None:
    facts = machine(env=(EnvVar(name="CUDA_VISIBLE_DEVICES", value=""),), nvidia=Nvidia(), pci=None)
    assert skipped(facts, "cuda-visible-devices")


def test_mig_without_a_slice_and_with_several() -> None:
    a100 = NvidiaGpu(index=0, name="NVIDIA A100-SXM4-80GB", compute_capability="8.0", mig=True, mig_instances=())
    assert "no slice" in found(machine(nvidia=nvidia(gpus=(a100,))), "mig")[0].why
    cut = msgspec.structs.replace(a100, mig_instances=("3g.40gb", "3g.40gb"))
    both = (EnvVar(name="CUDA_VISIBLE_DEVICES", value="MIG-a,MIG-b"),)
    assert found(machine(nvidia=nvidia(gpus=(cut,)), env=both), "mig")[0].severity == "warning"
    assert (
        found(machine(nvidia=nvidia(gpus=(cut,)), env=(EnvVar(name="CUDA_VISIBLE_DEVICES", value="MIG-a"),)), "mig")
        == []
    )


def test_rights_on_the_device_files() -> None:
    closed = (
        DeviceNode(
            path="/dev/nvidiactl", readable=False, writable=False, mode="crw-rw----", owner="root", group="video"
        ),
        DeviceNode(path="/dev/nvidia0", readable=False),
    )
    finding = found(machine(nvidia=nvidia(device_nodes=closed)), "nvidia-device-permission")[0]
    assert any("usermod -aG video" in c for c in finding.remedy.commands)
    assert not any(c.startswith("sudo chmod") for c in finding.remedy.commands)
    caps = (*nvidia().device_nodes, DeviceNode(path="/dev/nvidia-caps/nvidia-cap1", readable=False))
    assert found(machine(nvidia=nvidia(device_nodes=caps)), "nvidia-device-permission") == []


# --- the three numbers ---------------------------------------------------------------------------------------------


def test_the_three_cuda_numbers_side_by_side() -> None:
    works = Torch(version="2.8.0+cu128", cuda="12.8", cuda_available=True)
    facts = machine(torch=works, toolchain=Toolchain(nvcc_version="12.4.131"))
    note = found(facts, "cuda-versions")[0]
    assert note.severity == "note"
    assert all(number in note.seen for number in ("13.0", "12.8", "12.4"))
    assert found(machine(torch=works, toolchain=Toolchain(nvcc_version="12.8.93")), "cuda-versions") == []
    assert found(machine(torch=Torch(version="2.8.0+cpu", cuda="")), "cuda-versions") == []


def test_ids_are_unique_and_pages_may_be_written_for_all() -> None:
    ids = [r.id for r in driver.RULES]
    assert len(ids) == len(set(ids))
