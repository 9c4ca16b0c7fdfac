"""The machines that other tools get wrong, by name: what is installed, what is said, and what is never suggested."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from envcheck.facts import (
    Amd,
    AmdGpu,
    Apple,
    CudaInit,
    DeviceNode,
    Distribution,
    Facts,
    Intel,
    Nvidia,
    NvidiaGpu,
    Outcome,
    PciDevice,
    PythonEnv,
    System,
)
from envcheck.matrix import Matrix, load
from envcheck.recommend import Plan, Wishes, plan
from tests.recommend.machines import machine

V100, GTX1080, RTX5090, RTX4090 = "Tesla V100-SXM2-16GB", "NVIDIA GeForce GTX 1080", "NVIDIA GeForce RTX 5090", "NVIDIA GeForce RTX 4090"
P100, K80 = "Tesla P100-PCIE-16GB", "Tesla K80"
CU126 = "https://download.pytorch.org/whl/cu126"


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return load()


def said(made: Plan) -> str:
    """Everything that a person reads of a plan, without its alternatives."""
    return " ".join([*made.why, *made.warnings, *(f"{b.text} {b.way_out}" for b in made.blockers)])


def everything(made: Plan) -> Iterator[Plan]:
    yield made
    for other in made.alternatives:
        yield from everything(other)


# -- 1 to 7: cards and drivers -----------------------------------------------------------------------------------------


def test_v100_on_580_gets_the_last_cu126(matrix: Matrix) -> None:
    made = plan(machine(V100, driver="580.95.05"), matrix)
    assert (made.status, made.torch, made.variant, made.index_url) == ("ok", "2.14.1", "cu126", CU126)
    assert made.torchvision == "0.29.1"
    assert made.commands == (f"python3 -m pip install torch==2.14.1 torchvision==0.29.1 --index-url {CU126}",)
    text = said(made)
    assert "2.14.1 is the last release known to have code for Tesla V100" in text
    assert "branch 580 is the last" in text and "sm_70" in text
    doubtful = [other for other in made.alternatives if other.torch == "2.15.0"]
    assert [other.variant for other in doubtful] == ["cu126"]
    assert "not confirmed" in doubtful[0].condition and "--dry-run" in doubtful[0].commands[0]


def test_v100_on_610_is_a_driver_answer(matrix: Matrix) -> None:
    made = plan(machine(V100, driver="610.43.02", distro="ubuntu"), matrix)
    assert made.status == "impossible" and made.torch is None
    assert [blocker.kind for blocker in made.blockers] == ["driver-too-new"]
    assert "580" in made.blockers[0].text and "610.43.02" in made.blockers[0].text
    assert "sudo apt install nvidia-driver-580" in made.blockers[0].commands
    first, last = made.alternatives[0], made.alternatives[-1]
    assert (first.torch, first.variant, first.condition) == ("2.14.1", "cu126", "with a driver of branch 580")
    assert last.variant == "cpu" and "CPU only" in last.condition


def test_gtx_1080_on_580_runs_the_code_of_its_elder(matrix: Matrix) -> None:
    made = plan(machine(GTX1080, driver="580.95.05"), matrix)
    assert (made.torch, made.variant) == ("2.14.1", "cu126")
    assert "sm_60" in said(made) and "cu132 has no code for NVIDIA GeForce GTX 1080" in said(made)
    windows = plan(machine(GTX1080, driver="581.80", os="windows"), matrix)
    assert (windows.torch, windows.variant) == ("2.14.1", "cu126") and "sm_61" in said(windows)


def test_5090_and_v100_meet_in_cu128(matrix: Matrix) -> None:
    made = plan(machine(RTX5090, V100, driver="580.95.05"), matrix)
    assert (made.torch, made.variant, made.index_url) == ("2.10.0", "cu128", None), "PyPI's own build has both"
    assert "sm_120" in said(made) and "sm_70" in said(made)
    assert "together" in said(made)


def test_5090_and_p100_have_no_build_together(matrix: Matrix) -> None:
    made = plan(machine(P100, RTX5090, driver="580.95.05"), matrix)
    assert made.status == "impossible"
    assert [blocker.kind for blocker in made.blockers] == ["gpu-code"]
    assert "together" in made.blockers[0].text
    alone = [(other.torch, other.variant, other.condition) for other in made.alternatives]
    assert alone[0][:2] == ("2.14.1", "cu126") and "CUDA_VISIBLE_DEVICES=0" in alone[0][2] and P100 in alone[0][2]
    assert alone[1][:2] == ("2.15.0", "cu132") and "CUDA_VISIBLE_DEVICES=1" in alone[1][2]
    assert "PCI_BUS_ID" in alone[0][2], "CUDA counts by speed unless it is told otherwise"
    assert alone[2][1] == "cpu"


def test_5090_and_k80_have_no_driver_together(matrix: Matrix) -> None:
    made = plan(machine(K80, RTX5090, driver="570.124.06"), matrix)
    assert [blocker.kind for blocker in made.blockers] == ["no-common-driver"]
    assert "470" in made.blockers[0].text and "570" in made.blockers[0].text


def test_5090_on_570_stays_with_cuda_12(matrix: Matrix) -> None:
    made = plan(machine(RTX5090, driver="570.124.06"), matrix)
    assert (made.torch, made.variant) == ("2.13.0", "cu129")
    assert "install page does not name it" in said(made)
    assert "torch 2.15.0 (cu132) would run with an NVIDIA driver >= 580" in said(made)
    advertised = [other for other in made.alternatives if "install page" in other.condition]
    assert [(other.torch, other.variant) for other in advertised] == [("2.11.0", "cu128")]
    windows = plan(machine(RTX5090, driver="572.16", os="windows"), matrix)
    assert (windows.torch, windows.variant) == ("2.11.0", "cu128"), "cu129 ends with 2.9.0 on Windows"


def test_4090_on_535_takes_minor_version_compatibility(matrix: Matrix) -> None:
    made = plan(machine(RTX4090, driver="535.183.01"), matrix)
    assert (made.torch, made.variant) == ("2.14.1", "cu126")
    text = said(made)
    assert "minor-version compatibility" in text and "CUDA 12.2" in text and "sm_86" in text
    assert "torch 2.15.0 (cu132) would run with an NVIDIA driver >= 580" in text
    assert "cu126 is not confirmed to exist" in text


def test_p100_on_450_80(matrix: Matrix) -> None:
    made = plan(machine(P100, driver="450.80.02"), matrix)
    assert (made.torch, made.variant) == ("2.7.1", "cu118")
    assert "torch 2.14.1 (cu126) would run with an NVIDIA driver >= 525.60.13" in said(made)
    below = plan(machine(P100, driver="450.51.06"), matrix)
    assert below.status == "impossible" and below.blockers[0].kind in ("driver-too-old", "python")


def test_k80_on_470_ends_with_the_cudnn_that_serves_it(matrix: Matrix) -> None:
    made = plan(machine(K80, driver="470.256.02", python="3.11"), matrix)
    assert (made.torch, made.variant) == ("2.3.1", "cu118"), "2.4 and later come with cuDNN 9, which ends Kepler"
    assert "last release known to have code for Tesla K80" in said(made)
    assert not any("would run with an NVIDIA driver" in line for line in made.why), "no newer driver drives it"
    too_new = plan(machine(K80, driver="470.256.02", python="3.13"), matrix)
    assert [blocker.kind for blocker in too_new.blockers] == ["python"]
    assert "3.12" in too_new.blockers[0].way_out
    assert too_new.alternatives[0].python == "3.12" and too_new.alternatives[0].variant == "cu118"


# -- 8 to 10: a GPU that is there and cannot be used -------------------------------------------------------------------

ON_THE_BUS = (PciDevice(vendor_id="10de", name="GA102 [GeForce RTX 3090]"),)


def broken(smi: str, error: str | None = None, *, system: System | None = None, **nvidia: object) -> Facts:
    return Facts(
        origin="live",
        system=system or System(os="linux", machine="x86_64", container="none"),
        pci=ON_THE_BUS,
        nvidia=Nvidia(smi=Outcome(status=smi), smi_error=error, **nvidia),  # type: ignore[arg-type]
        python=PythonEnv(version="3.12.4"),
    )


BROKEN = {
    "driver not running": (broken("failed", "no-driver"), "driver-not-running", "once the driver runs"),
    "no driver at all": (broken("missing", kernel_module_loaded=False), "driver-not-installed", "once the driver runs"),
    "library mismatch": (
        broken("failed", "library-mismatch", kernel_driver_version="535.183.01", driver_version="550.90.07"),
        "library-mismatch",
        "after the reboot",
    ),
    "hanging nvidia-smi": (broken("timeout"), "driver-hangs", "once the driver runs"),
    "lost from the bus": (broken("failed", "gpu-lost", driver_version="550.90.07"), "gpu-lost", "once the driver runs"),
    "no permission": (broken("failed", "insufficient-permissions"), "no-permission", "once the devices can be opened"),
    "nvidia-smi crashes": (replace(broken("crashed"), nvidia=Nvidia(smi=Outcome(status="crashed", signal="SIGSEGV"))), "driver-not-running", "once the driver runs"),
    "no access in the container": (
        broken(
            "missing",
            system=System(os="linux", machine="x86_64", container="docker"),
            kernel_driver_version="580.95.05",
            kernel_module_loaded=True,
            device_nodes=(),
        ),
        "gpu-not-passed",
        "once the container has the GPU",
    ),
    "fabric manager": (
        replace(
            broken("ok", driver_version="580.95.05", gpus=(NvidiaGpu(name="NVIDIA H100 80GB HBM3"),)),
            nvidia=Nvidia(
                smi=Outcome(status="ok"),
                driver_version="580.95.05",
                gpus=(NvidiaGpu(name="NVIDIA H100 80GB HBM3"),),
                cuda_init=CudaInit(outcome=Outcome(status="failed"), code=802),
            ),
        ),
        "fabric-not-ready",
        "once the driver runs",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_gpu_that_cannot_be_used_is_said_first(name: str, matrix: Matrix) -> None:
    facts, kind, condition = BROKEN[name]
    made = plan(facts, matrix)
    assert made.status == "impossible", "never a silent CPU"
    assert made.torch is None and made.commands == ()
    assert made.blockers[0].kind == kind and made.blockers[0].way_out
    first, last = made.alternatives[0], made.alternatives[-1]
    assert first.variant is not None and first.variant.startswith("cu") and first.condition == condition
    assert last.variant == "cpu" and "CPU only" in last.condition


def test_a_card_without_any_build_needs_no_driver_either(matrix: Matrix) -> None:
    old = (PciDevice(vendor_id="10de", name="GK208B [GeForce GT 710]"),)
    made = plan(replace(broken("missing", kernel_module_loaded=False), pci=old), matrix)
    assert [blocker.kind for blocker in made.blockers] == ["gpu-code"]
    assert [other.variant for other in made.alternatives] == ["cpu"]


def test_a_card_set_aside_for_a_virtual_machine_is_not_ours(matrix: Matrix) -> None:
    aside = tuple(replace(device, driver="vfio-pci") for device in ON_THE_BUS)
    made = plan(replace(broken("missing", kernel_module_loaded=False), pci=aside), matrix)
    assert (made.status, made.variant) == ("ok", "cpu")


def test_library_mismatch_plans_for_the_driver_after_the_reboot(matrix: Matrix) -> None:
    made = plan(BROKEN["library mismatch"][0], matrix)
    assert "535.183.01" in made.blockers[0].text and "550.90.07" in made.blockers[0].text
    assert made.blockers[0].commands == ("sudo reboot",)
    assert made.alternatives[0].variant == "cu126", "550 serves CUDA 12 only"


def test_an_unknown_driver_is_a_condition(matrix: Matrix) -> None:
    made = plan(BROKEN["hanging nvidia-smi"][0], matrix).alternatives[0]
    assert any("Condition: needs an NVIDIA driver >= 580" in line for line in made.warnings)
    assert [(p.torch, p.variant) for p in made.alternatives] == [("2.14.1", "cu126")]
    assert "older than 580" in made.alternatives[0].condition and "525.60.13" in made.alternatives[0].condition


# -- 11: the new header of 610 -----------------------------------------------------------------------------------------


def test_the_header_of_610_is_read(matrix: Matrix) -> None:
    from envcheck.nvidia_smi import parse_screen
    from tests.kit.screens import Card, screen

    text = screen([Card(name="NVIDIA GeForce RTX 5090", capability="12.0")], layout="r610", driver="610.43.02", cuda="13.3")
    assert "CUDA UMD Version" in text and "Driver Version" not in text
    read = parse_screen(text)
    assert read is not None and read.driver_version == "610.43.02"
    facts = Facts(
        origin="live",
        system=System(os="linux", machine="x86_64"),
        nvidia=Nvidia(smi=Outcome(status="ok"), driver_version=read.driver_version, driver_cuda=read.driver_cuda, gpus=read.gpus),
        python=PythonEnv(version="3.12.4"),
    )
    made = plan(facts, matrix)
    assert (made.torch, made.variant, made.index_url) == ("2.15.0", "cu132", None)
    assert "610.43.02 (CUDA 13.3)" in said(made)


# -- 12: GB10 and Orin on aarch64 --------------------------------------------------------------------------------------


def test_gb10_takes_plain_pypi(matrix: Matrix) -> None:
    made = plan(machine("NVIDIA GB10", driver="580.95.05", arch="aarch64"), matrix)
    assert (made.torch, made.variant, made.index_url) == ("2.15.0", "cu132", None)
    assert "sm_120" in said(made)


def test_orin_under_jetpack_6_takes_the_wheels_made_for_it(matrix: Matrix) -> None:
    facts = machine(arch="aarch64", python="3.10", origin="live", l4t="36.4.3", jetson_model="Jetson AGX Orin")
    made = plan(facts, matrix)
    assert (made.status, made.torch, made.variant) == ("ok", "2.8.0", "cu126")
    assert made.index_url == "https://pypi.jetson-ai-lab.io/jp6/cu126"
    assert made.commands == (
        "python -m pip install torch==2.8.0 torchvision==0.23.0 'numpy<2' --index-url https://pypi.jetson-ai-lab.io/jp6/cu126",
    )
    other = plan(replace(facts, python=PythonEnv(version="3.12.1")), matrix)
    assert other.status == "impossible" and other.blockers[0].kind == "python" and "3.10" in other.blockers[0].text


def test_orin_under_jetpack_7_2_takes_cuda_13_2(matrix: Matrix) -> None:
    facts = machine("Orin (nvgpu)", arch="aarch64", python="3.12", origin="live", l4t="39.0")
    made = plan(facts, matrix)
    assert (made.torch, made.variant, made.index_url) == ("2.15.0", "cu132", None)
    older = plan(facts, matrix, Wishes(torch="<2.15"))
    assert (older.torch, older.variant) == ("2.14.1", "cu132"), "only from CUDA 13.2 on does sm_80 run on 8.7"


def test_orin_without_a_jetpack_says_what_it_hangs_on(matrix: Matrix) -> None:
    made = plan(machine("Orin", arch="aarch64", python=None), matrix)
    assert "nv_tegra_release" in made.warnings[0]
    conditions = [other.condition for other in made.alternatives]
    assert any("JetPack 6" in text for text in conditions) and any("JetPack 5" in text for text in conditions)
    known = plan(machine("Orin", arch="aarch64", python="3.10"), matrix)
    assert known.index_url == "https://pypi.jetson-ai-lab.io/jp6/cu126", "Python 3.10 is the Ubuntu of JetPack 6"


@pytest.mark.parametrize(("l4t", "python", "torch"), [("32.7.4", "3.6", "1.10.0"), ("35.4.1", "3.8", "2.1.0"), ("36.3", "3.10", "2.4.0")])
def test_older_jetpacks_have_wheels_by_file(l4t: str, python: str, torch: str, matrix: Matrix) -> None:
    made = plan(machine(arch="aarch64", python=python, origin="live", l4t=l4t), matrix)
    assert made.torch == torch and made.index_url is None
    assert any(".whl" in command for command in made.commands)
    assert any("torchvision" in line for line in made.warnings), "it has to be built there, and that is said"


# -- the platform ------------------------------------------------------------------------------------------------------


def test_wsl_counts_windows_numbers_and_takes_linux_wheels(matrix: Matrix) -> None:
    made = plan(machine("NVIDIA GeForce RTX 3090", driver="546.12", wsl=2), matrix)
    assert (made.torch, made.variant) == ("2.14.1", "cu126")
    assert "528.33" in said(made) and "plain PyPI gives the cu130" in said(made)
    below = plan(machine("NVIDIA GeForce RTX 3090", driver="526.10", wsl=2), matrix)
    assert (below.torch, below.variant) == ("2.7.1", "cu118"), "526 serves CUDA 12 on Linux and not on Windows"
    assert plan(machine("Tesla M60", driver="580.88", wsl=2), matrix).blockers[0].kind == "wsl-gpu-too-old"
    assert plan(machine("NVIDIA GeForce RTX 3090", driver="580.88", wsl=1), matrix).blockers[0].kind == "wsl1"


def test_windows_cuda_never_comes_from_pypi(matrix: Matrix) -> None:
    made = plan(machine(RTX4090, driver="581.15", os="windows"), matrix)
    assert (made.torch, made.variant) == ("2.14.1", "cu130"), "no CUDA build of 2.15.0 has been seen for Windows"
    assert made.index_url == "https://download.pytorch.org/whl/cu130"
    assert plan(machine(os="windows"), matrix).index_url is None, "the CPU build does"


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"libc": "musl"}, "musl"),
        ({"machine": "ppc64le"}, "platform"),
        ({"os": "windows", "machine": "aarch64"}, "platform"),
        ({"os": None}, "unknown-os"),
    ],
    ids=lambda value: str(value),
)
def test_platforms_without_wheels(changes: dict[str, object], kind: str, matrix: Matrix) -> None:
    facts = machine(RTX4090, driver="580.95.05")
    made = plan(replace(facts, system=replace(facts.system, **changes)), matrix)
    assert made.status == "impossible" and [b.kind for b in made.blockers] == [kind] and made.blockers[0].way_out


@pytest.mark.parametrize(
    ("python", "kind"),
    [
        (PythonEnv(version="3.12.1", bits=32), "python-32bit"),
        (PythonEnv(version="3.10.1", implementation="PyPy"), "python-implementation"),
        (PythonEnv(version="3.16.0"), "python"),
        (PythonEnv(version="3.15.0", free_threaded=False, machine="x86_64"), None),
    ],
    ids=["32 bit", "PyPy", "3.16", "3.15"],
)
def test_pythons_without_wheels(python: PythonEnv, kind: str | None, matrix: Matrix) -> None:
    made = plan(replace(machine(RTX4090, driver="580.95.05"), python=python), matrix)
    if kind is None:
        assert made.status == "ok" and made.torch == "2.15.0"
    else:
        assert made.status == "impossible" and [b.kind for b in made.blockers] == [kind]


def test_old_glibc(matrix: Matrix) -> None:
    made = plan(machine(RTX4090, driver="580.95.05", libc="glibc", libc_version="2.17"), matrix)
    assert (made.torch, made.variant) == ("2.6.0", "cu124")
    assert "needs glibc >= 2.28 (this system: 2.17)" in said(made) and "would run with glibc >= 2.28" in said(made)


def test_python_3_14_1_is_excluded_by_torchvision(matrix: Matrix) -> None:
    facts = machine(RTX4090, driver="580.95.05")
    made = plan(replace(facts, python=PythonEnv(version="3.14.1")), matrix)
    assert made.torch == "2.10.0" and "excludes Python 3.14.1" in said(made)
    assert plan(replace(facts, python=PythonEnv(version="3.14.2")), matrix).torch == "2.15.0"
    alone = plan(replace(facts, python=PythonEnv(version="3.14.1")), matrix, Wishes(companions=()))
    assert alone.torch == "2.15.0", "torch itself does not mind"


def test_compile_refuses_a_python_that_torch_has_wheels_for(matrix: Matrix) -> None:
    made = plan(machine(RTX4090, driver="580.95.05", python="3.14"), matrix, Wishes(torch="2.9.1"))
    assert made.torch == "2.9.1" and "torch.compile of 2.9.1 refuses Python 3.14" in said(made)


def test_intel_mac_ends_with_2_2_2_and_numpy_1(matrix: Matrix) -> None:
    made = plan(machine(os="macos", arch="x86_64", python="3.11", version="14.5"), matrix)
    assert (made.torch, made.variant, made.index_url) == ("2.2.2", "cpu", None)
    assert made.commands == ("python3 -m pip install torch==2.2.2 torchvision==0.17.2 'numpy<2'",)
    assert plan(machine(os="macos", arch="x86_64", python="3.13", version="14.5"), matrix).blockers[0].kind == "python"


def test_rosetta_is_not_an_intel_mac(matrix: Matrix) -> None:
    facts = Facts(
        origin="live",
        system=System(os="macos", machine="arm64", version="15.1"),
        apple=Apple(chip="Apple M2", macos="15.1"),
        python=PythonEnv(version="3.11.4", machine="x86_64"),
    )
    made = plan(facts, matrix)
    assert [blocker.kind for blocker in made.blockers] == ["rosetta"]
    assert (made.alternatives[0].torch, made.alternatives[0].variant) == ("2.15.0", "mps")
    assert made.alternatives[0].condition == "with an arm64 Python"


# -- other makers ------------------------------------------------------------------------------------------------------


def amd(*gpus: tuple[str | None, str | None], **system: object) -> Facts:
    return Facts(
        origin="live",
        system=System(**{"os": "linux", "machine": "x86_64", **system}),  # type: ignore[arg-type]
        nvidia=Nvidia(smi=Outcome(status="missing"), gpus=()),
        amd=Amd(gpus=tuple(AmdGpu(name=name, gfx=gfx) for name, gfx in gpus)),
        python=PythonEnv(version="3.12.1"),
    )


def test_radeon_by_name(matrix: Matrix) -> None:
    made = plan(amd(("Radeon RX 7900 XTX", None)), matrix)
    assert made.status == "ok" and (made.variant or "").startswith("rocm")
    assert made.index_url == f"https://download.pytorch.org/whl/{made.variant}"


def test_rocm_of_the_system_chooses_the_variant(matrix: Matrix) -> None:
    facts = amd((None, "gfx1100"))
    made = plan(replace(facts, amd=replace(facts.amd, rocm_version="7.1.0")), matrix, Wishes(torch="2.12.1"))
    assert made.variant == "rocm7.1"
    assert plan(replace(facts, amd=replace(facts.amd, rocm_version="7.2.0")), matrix, Wishes(torch="2.12.1")).variant == "rocm7.2"
    older = plan(replace(facts, amd=replace(facts.amd, rocm_version="6.4.1")), matrix, Wishes(torch="2.12.1"))
    assert older.variant == "rocm7.1" and any("update the amdgpu driver" in line for line in older.warnings)


def test_radeon_on_windows_is_impossible_by_wheel(matrix: Matrix) -> None:
    made = plan(amd(("Radeon RX 7900 XTX", None), os="windows"), matrix)
    assert [blocker.kind for blocker in made.blockers] == ["device"] and "Linux" in made.blockers[0].way_out
    assert made.alternatives[-1].variant == "cpu"


def test_graphics_of_a_processor_are_no_reason_to_refuse(matrix: Matrix) -> None:
    made = plan(amd(("Raphael", "gfx1036")), matrix)
    assert (made.status, made.variant) == ("ok", "cpu") and "gfx1036" in made.warnings[0]
    beside = plan(amd(("Raphael", "gfx1036"), ("Radeon RX 7900 XTX", "gfx1100")), matrix)
    assert (beside.variant or "").startswith("rocm"), "the card counts, not what is beside it"
    strix = plan(amd((None, "gfx1151")), matrix)
    assert (strix.variant or "").startswith("rocm"), "this one has code of its own"


def test_kfd_without_permission(matrix: Matrix) -> None:
    facts = amd((None, "gfx1100"))
    closed = replace(facts, amd=replace(facts.amd, kfd=DeviceNode(path="/dev/kfd", readable=False, writable=False)))
    made = plan(closed, matrix)
    assert made.blockers[0].kind == "kfd-permission" and "usermod" in made.blockers[0].commands[0]
    assert (made.alternatives[0].variant or "").startswith("rocm")


def test_arc_gets_xpu_and_old_graphics_do_not(matrix: Matrix) -> None:
    facts = replace(amd(), intel=Intel(gpus=("Intel Corporation DG2 [Arc A770]",)))
    assert plan(facts, matrix).variant == "xpu"
    assert plan(replace(facts, intel=Intel(gpus=("Intel UHD Graphics 630",))), matrix).variant == "cpu"
    missing = replace(facts, intel=replace(facts.intel, level_zero=""))
    assert plan(missing, matrix).blockers[0].kind == "level-zero-missing"


# -- wishes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wish", "torch", "variant"),
    [
        (">=2.6,<2.9", "2.8.0", "cu128"),
        ("2.7", "2.7.1", "cu126"),
        ("2.5.1", "2.5.1", "cu124"),
        ("==2.8.0", "2.8.0", "cu128"),
        ("2.8.0+cu126", "2.8.0", "cu126"),
        ("torch>=2.6,<2.7", "2.6.0", "cu124"),
    ],
)
def test_torch_wishes(wish: str, torch: str, variant: str, matrix: Matrix) -> None:
    made = plan(machine(RTX4090, driver="580.95.05", python="3.11"), matrix, Wishes(torch=wish))
    assert (made.torch, made.variant) == (torch, variant)


def test_a_wish_that_the_card_cannot_have(matrix: Matrix) -> None:
    made = plan(machine(RTX5090, driver="580.95.05"), matrix, Wishes(torch="2.6.0"))
    assert [blocker.kind for blocker in made.blockers] == ["gpu-code"]
    assert "2.7.0" in made.blockers[0].way_out
    assert "without the wish" in made.alternatives[0].condition and made.alternatives[0].torch == "2.15.0"
    beyond = plan(machine(RTX5090, driver="580.95.05"), matrix, Wishes(torch=">=3"))
    assert [blocker.kind for blocker in beyond.blockers] == ["wish"] and "matrix update" in beyond.blockers[0].way_out


@pytest.mark.parametrize("wishes", [{"torch": "nonsense!"}, {"device": "tpu"}, {"manager": "apt"}, {"prefer": "best"}, {"companions": ("numpy",)}], ids=str)
def test_wishes_that_make_no_sense(wishes: dict[str, object], matrix: Matrix) -> None:
    from envcheck.errors import UsageError

    with pytest.raises(UsageError, match="--"):
        plan(machine(), matrix, Wishes(**wishes))  # type: ignore[arg-type]


def test_torchaudio_is_not_on_every_index(matrix: Matrix) -> None:
    """The cu132 index has no torchaudio, and the cu130 one refuses a torch of CUDA 13.2."""
    facts = machine("Orin (nvgpu)", arch="aarch64", python="3.12", origin="live", l4t="39.0")
    wished = Wishes(torch="2.14.1", companions=("torchvision", "torchaudio"))
    made = plan(facts, matrix, wished)
    assert made.status == "impossible" and made.blockers[0].kind == "companion"
    plain = plan(machine(RTX4090, driver="580.95.05"), matrix, wished)
    assert plain.variant == "cu130" and "torchaudio==2.11.0" in plain.commands[0]
    cu126 = plan(machine(V100, driver="580.95.05"), matrix, Wishes(companions=("torchaudio",)))
    assert cu126.commands[0].startswith("python3 -m pip install torch==2.14.1 torchaudio==2.11.0 --index-url")


def test_cpu_is_there_for_the_asking(matrix: Matrix) -> None:
    made = plan(machine(RTX4090, driver="580.95.05"), matrix, Wishes(device="cpu"))
    assert (made.status, made.variant, made.index_url) == ("ok", "cpu", "https://download.pytorch.org/whl/cpu")
    dead = plan(BROKEN["driver not running"][0], matrix, Wishes(device="cpu"))
    assert dead.status == "ok" and dead.variant == "cpu"


def test_unknown_is_said(matrix: Matrix) -> None:
    made = plan(Facts(origin="described", system=System(os="linux", machine="x86_64")), matrix)
    assert made.status == "ok" and made.variant == "cu132"
    text = " ".join(made.warnings)
    assert "Condition: needs an NVIDIA driver >= 580" in text and "The GPU is not known" in text and "Python is not given" in text
    live = plan(Facts(origin="live", system=System(os="linux", machine="x86_64"), nvidia=Nvidia(smi=Outcome(status="missing"))), matrix)
    assert live.variant == "cpu" and "none could be ruled out" in live.warnings[0]
    gpu = plan(machine(RTX4090), matrix)
    assert gpu.torch == "2.15.0" and any("driver >= 580" in line for line in gpu.warnings)
    assert any("older than 580" in other.condition for other in gpu.alternatives)
    chipless = plan(Facts(origin="live", system=System(os="linux", machine="x86_64"), nvidia=Nvidia(smi=Outcome(status="ok"), gpus=(NvidiaGpu(name="NVIDIA Something 9999"),), driver_version="580.95.05"), python=PythonEnv(version="3.12.1")), matrix)
    assert any("NVIDIA Something 9999" in line and "not known" in line for line in chipless.warnings)


def test_a_driver_that_lists_the_card_drives_it(matrix: Matrix) -> None:
    """The table of branches is not believed against the machine."""
    facts = Facts(
        origin="live",
        system=System(os="linux", machine="x86_64"),
        nvidia=Nvidia(smi=Outcome(status="ok"), gpus=(NvidiaGpu(name=V100, compute_capability="7.0"),), driver_version="595.45.04"),
        python=PythonEnv(version="3.12.1"),
    )
    assert plan(facts, matrix).torch == "2.14.1"


def test_what_is_installed_in_another_build_is_removed_first(matrix: Matrix) -> None:
    installed = tuple(
        Distribution(name=name, version=version, manager="pip")
        for name, version in (("torch", "2.14.1+cpu"), ("torchvision", "0.29.1+cpu"), ("torchaudio", "2.11.0"))
    )
    facts = replace(machine(RTX4090, driver="581.15", os="windows", origin="live"), python=PythonEnv(version="3.12.1", distributions=installed))
    made = plan(facts, matrix)
    assert made.commands[0] == "python -m pip uninstall -y torch torchvision torchaudio"
    assert "torchaudio==2.11.0" in made.commands[1], "what is there already goes with it"
    same = replace(facts, python=PythonEnv(version="3.12.1", distributions=(Distribution(name="torch", version="2.14.1+cu130"),)))
    assert len(plan(same, matrix).commands) == 1 and "installed already" in said(plan(same, matrix))


def test_nothing_unconfirmed_is_ever_the_first_answer(matrix: Matrix) -> None:
    for facts in (machine(V100, driver="580.95.05"), machine(RTX4090, driver="581.15", os="windows"), amd((None, "gfx1100"))):
        made = plan(facts, matrix)
        row = matrix.variant(made.torch or "", made.variant or "", facts.system.os or "", "x86_64")
        assert row is not None and row.status != "unconfirmed" and row.confidence != "recalled"
        for other in everything(made):
            shown = matrix.variant(other.torch or "", other.variant or "", facts.system.os or "", "x86_64")
            if shown is not None and shown.status == "unconfirmed":
                assert "not confirmed" in other.condition
