"""Rules about the build over hand-built facts: one that fires, one near miss, one that cannot be judged."""

from __future__ import annotations

import msgspec
import pytest

from envcheck.facts import (
    Amd,
    AmdGpu,
    Apple,
    Check,
    Companion,
    CudaToolkit,
    Distribution,
    EnvVar,
    Facts,
    Intel,
    Nvidia,
    NvidiaGpu,
    Outcome,
    PciDevice,
    PythonEnv,
    Symptom,
    System,
    Toolchain,
    Torch,
    TorchDevice,
)
from envcheck.findings import Finding, Skipped
from envcheck.matrix import load
from envcheck.rules import build, derive
from envcheck.rules.base import evaluate
from envcheck.symptoms.engine import recognise

OK = Outcome(status="ok")
BAD = Outcome(status="failed", error_type="ImportError", error="no")
LINUX = System(os="linux", distro="ubuntu", machine="x86_64", container="none", wsl=0)
WINDOWS = System(os="windows", machine="x86_64")
MAC = System(os="macos", machine="arm64")
PYTHON = PythonEnv(version="3.11.9", machine="x86_64", kind="venv")


def gpu(name: str, capability: str | None, index: int = 0) -> NvidiaGpu:
    return NvidiaGpu(index=index, name=name, compute_capability=capability)


ADA = gpu("NVIDIA GeForce RTX 4090", "8.9")
PASCAL = gpu("NVIDIA GeForce GTX 1080", "6.1", 1)
BLACKWELL = gpu("NVIDIA GeForce RTX 5090", "12.0")
CU128 = Torch(version="2.8.0+cu128", cuda="12.8")


def machine(**changes: object) -> Facts:
    base = Facts(
        system=LINUX,
        python=PYTHON,
        torch=CU128,
        nvidia=Nvidia(driver_version="580.95.05", driver_cuda="13.0", gpus=(ADA,)),
    )
    return msgspec.structs.replace(base, **changes)


def cards(*gpus: NvidiaGpu, driver: str = "580.95.05", cuda: str = "13.0") -> Nvidia:
    return Nvidia(driver_version=driver, driver_cuda=cuda, gpus=gpus)


def found(facts: Facts, rule: str) -> list[Finding]:
    report = evaluate(facts, load(), build.RULES)
    assert not [s for s in report.skipped if s.reason.startswith("internal error")], report.skipped
    return [f for f in report.findings if f.rule == rule]


def skipped(facts: Facts, rule: str) -> list[Skipped]:
    return [s for s in evaluate(facts, load(), build.RULES).skipped if s.rule == rule]


def says(text: str) -> tuple[Symptom, ...]:
    return recognise(text, source="test")


# --- GPU code ------------------------------------------------------------------------------------------------------

GPU_RULES = ("gpu-too-old-for-build", "gpu-too-new-for-build", "gpu-arch-not-in-build")


@pytest.mark.parametrize(
    ("version", "cuda", "card", "expected"),
    [
        ("2.8.0+cu128", "12.8", ADA, None),  # sm_86 code runs on 8.9
        ("2.8.0+cu128", "12.8", BLACKWELL, None),
        ("2.8.0+cu128", "12.8", PASCAL, "gpu-too-old-for-build"),
        ("2.8.0+cu126", "12.6", PASCAL, None),
        ("2.6.0+cu124", "12.4", BLACKWELL, "gpu-too-new-for-build"),
        ("2.11.0+cu130", "13.0", gpu("Tesla V100-SXM2-16GB", "7.0"), "gpu-too-old-for-build"),
        ("2.8.0+cu128", "12.8", gpu("Tesla V100-SXM2-16GB", "7.0"), None),
        ("1.13.1+cu117", "11.7", gpu("NVIDIA H100 PCIe", "9.0"), "gpu-too-new-for-build"),
        ("2.8.0+cu128", "12.8", gpu("NVIDIA GeForce RTX 5090", None), None),  # capability by name
        ("2.6.0+cu124", "12.4", gpu("NVIDIA GeForce RTX 5090", None), "gpu-too-new-for-build"),
    ],
)
def test_gpu_against_the_tables(version: str, cuda: str, card: NvidiaGpu, expected: str | None) -> None:
    facts = machine(torch=Torch(version=version, cuda=cuda), nvidia=cards(card))
    fired = [rule for rule in GPU_RULES if found(facts, rule)]
    assert fired == ([expected] if expected else [])


def test_the_builds_own_list_is_believed_before_the_tables() -> None:
    own = Torch(version="2.8.0+cu128", cuda="12.8", arch_list=("sm_61", "sm_75", "sm_86"))
    assert not found(machine(torch=own, nvidia=cards(PASCAL)), "gpu-too-old-for-build")
    facts = machine(torch=own, nvidia=cards(BLACKWELL))
    assert found(facts, "gpu-too-new-for-build")[0].confidence == "certain"


def test_a_left_out_architecture_is_neither_old_nor_new() -> None:
    own = Torch(version="2.9.0", cuda="12.6", arch_list=("sm_80", "sm_86", "sm_90"))
    facts = machine(system=msgspec.structs.replace(LINUX, machine="aarch64"), torch=own, nvidia=cards(gpu("Orin (nvgpu)", "8.7")))
    assert found(facts, "gpu-arch-not-in-build")
    assert not found(facts, "gpu-too-new-for-build")


def test_a_second_gpu_without_code_is_a_warning_and_is_named() -> None:
    facts = machine(nvidia=cards(ADA, PASCAL))
    finding = found(facts, "gpu-too-old-for-build")[0]
    assert finding.severity == "warning"
    assert "GTX 1080" in finding.seen
    assert "GTX 1080" in finding.title
    assert "4090" in finding.why, "the one that works is named too"


def test_the_first_gpu_without_code_is_an_error() -> None:
    first = msgspec.structs.replace(PASCAL, index=0)
    second = msgspec.structs.replace(ADA, index=1)
    assert found(machine(nvidia=cards(first, second)), "gpu-too-old-for-build")[0].severity == "error"


def test_a_kernel_that_ran_settles_it() -> None:
    check = Check(name="matmul", device="cuda:1", status="passed")
    assert not found(machine(nvidia=cards(PASCAL), checks=(check,)), "gpu-too-old-for-build")


def test_a_capability_that_nobody_knows_is_unknown() -> None:
    facts = machine(nvidia=cards(gpu("NVIDIA Graphics Device", None)))
    assert not [r for r in GPU_RULES if found(facts, r)]
    assert skipped(facts, "gpu-too-old-for-build")


def test_a_nightly_is_not_looked_up_in_the_tables() -> None:
    facts = machine(torch=Torch(version="2.8.0.dev20250601+cu128", cuda="12.8"), nvidia=cards(PASCAL))
    assert not found(facts, "gpu-too-old-for-build")
    assert skipped(facts, "gpu-too-old-for-build")


def test_rocm_and_cpu_builds_are_not_judged_by_cuda_lists() -> None:
    for torch in (Torch(version="2.8.0+rocm6.4", hip="6.4.1", cuda=""), Torch(version="2.8.0+cpu", cuda="")):
        facts = machine(torch=torch, nvidia=cards(BLACKWELL))
        assert not [r for r in GPU_RULES if found(facts, r) or skipped(facts, r)]


def test_remedy_for_pascal_names_the_build_that_still_has_it() -> None:
    finding = found(machine(nvidia=cards(PASCAL)), "gpu-too-old-for-build")[0]
    assert "cu126" in " ".join(finding.remedy.commands) + finding.remedy.text


def test_benign_warning_fires_for_the_same_family_only() -> None:
    text = "Found GPU0 NVIDIA GB10 which is of cuda capability {}.\nMinimum and Maximum cuda capability supported by this version of PyTorch is\n(8.0) - (12.0)"
    assert found(Facts(symptoms=says(text.format("12.1"))), "benign-capability-warning")[0].severity == "note"
    assert not found(Facts(symptoms=says(text.format("13.0"))), "benign-capability-warning")
    assert found(Facts(symptoms=says(text.format("13.0"))), "gpu-too-new-for-build")
    assert found(Facts(symptoms=says(text.format("7.0"))), "gpu-too-old-for-build")


def test_support_ending_is_a_note_for_volta_and_silent_for_ada() -> None:
    volta = machine(nvidia=cards(gpu("Tesla V100-SXM2-16GB", "7.0")))
    assert found(volta, "gpu-support-ending")[0].severity == "note"
    assert not found(machine(), "gpu-support-ending")
    assert not found(machine(nvidia=cards(gpu("NVIDIA Graphics Device", None))), "gpu-support-ending")


# --- CPU-only, other makers ----------------------------------------------------------------------------------------


def test_cpu_build_beside_a_gpu() -> None:
    finding = found(machine(torch=Torch(version="2.8.0+cpu", cuda="")), "cpu-only-build")[0]
    assert finding.severity == "error"
    assert finding.confidence == "certain"
    assert finding.remedy.commands


@pytest.mark.parametrize(
    "facts",
    [
        machine(torch=Torch(version="2.8.0+cpu", cuda=""), nvidia=Nvidia(gpus=())),  # no GPU: a choice
        machine(),  # a CUDA build
        machine(system=MAC, torch=Torch(version="2.8.0", cuda=""), nvidia=Nvidia(), apple=Apple(chip="Apple M2")),
        machine(torch=Torch(version="2.8.0+xpu", cuda="", xpu="20250101"), nvidia=Nvidia()),
        machine(torch=Torch(version="2.8.0+rocm6.4", cuda="", hip="6.4"), nvidia=Nvidia(), amd=Amd(gpus=(AmdGpu(gfx="gfx1100"),))),
    ],
)
def test_no_wish_for_cuda_no_alarm(facts: Facts) -> None:
    assert not found(facts, "cpu-only-build")


def test_cpu_only_is_unknown_when_the_build_is() -> None:
    facts = machine(torch=Torch(version="2.8.0a0+git1234"))
    assert not found(facts, "cpu-only-build")
    assert skipped(facts, "cpu-only-build")


def test_plain_windows_wheel_is_a_cpu_build_by_the_tables() -> None:
    facts = machine(system=WINDOWS, torch=Torch(version="2.4.1"), python=PYTHON)
    finding = found(facts, "cpu-only-build")[0]
    assert "from the tables" in finding.seen
    assert finding.confidence == "likely"


def test_cuda_build_on_amd() -> None:
    facts = machine(
        nvidia=Nvidia(), amd=Amd(gpus=(AmdGpu(name="Radeon RX 7900 XTX", gfx="gfx1100"),)), symptoms=says("RuntimeError: Found no NVIDIA driver on your system.")
    )
    assert found(facts, "cuda-build-on-non-nvidia")[0].severity == "error"
    both = msgspec.structs.replace(facts, nvidia=cards(ADA))
    assert not found(both, "cuda-build-on-non-nvidia"), "an NVIDIA GPU is there too"
    none = machine(nvidia=Nvidia(), pci=(PciDevice(vendor_id="8086", name="Intel UHD Graphics"),))
    assert not found(none, "cuda-build-on-non-nvidia"), "a CUDA build on a machine without a GPU is sound"


def test_jetson_with_the_general_wheel() -> None:
    jetson = msgspec.structs.replace(LINUX, machine="aarch64", jetson_model="NVIDIA Jetson AGX Orin", l4t="36.4.3")
    general = machine(system=jetson, torch=Torch(version="2.9.0+cpu", cuda=""), nvidia=Nvidia())
    assert found(general, "jetson-generic-wheel")
    own = Torch(version="2.8.0", cuda="12.6", arch_list=("sm_87",))
    assert not found(machine(system=jetson, torch=own, nvidia=cards(gpu("Orin (nvgpu)", "8.7"))), "jetson-generic-wheel")
    assert skipped(machine(system=jetson, torch=Torch(version="2.8.0a0+nv24.08"), nvidia=Nvidia()), "jetson-generic-wheel")
    blind = msgspec.structs.replace(own, cuda_available=False)
    assert not found(machine(system=jetson, torch=blind, nvidia=cards(gpu("Orin (nvgpu)", "8.7"))), "jetson-generic-wheel"), "another fault"
    unknown = Torch(version="2.4.1", cuda_available=False)
    assert found(machine(system=jetson, torch=unknown, nvidia=Nvidia()), "jetson-generic-wheel")[0].confidence == "likely"


def test_xpu_label_without_xpu() -> None:
    assert found(machine(torch=Torch(version="2.8.0.dev20250327+xpu", cuda="", xpu="")), "xpu-not-compiled")
    assert not found(machine(torch=Torch(version="2.8.0+xpu", cuda="", xpu="20250101")), "xpu-not-compiled")
    assert not found(machine(torch=Torch(version="2.8.0+cpu", cuda="", xpu=""), intel=Intel(gpus=("Intel UHD 770",))), "xpu-not-compiled")


def test_rocm_chip_outside_the_builds_list() -> None:
    rocm = Torch(version="2.8.0+rocm6.4", hip="6.4.1", cuda="", arch_list=("gfx1100", "gfx1030"))
    amd = Amd(gpus=(AmdGpu(name="Radeon 780M", gfx="gfx1103"),))
    facts = machine(torch=rocm, nvidia=Nvidia(), amd=amd)
    assert found(facts, "rocm-gfx-unsupported")[0].severity == "warning"
    covered = msgspec.structs.replace(facts, amd=Amd(gpus=(AmdGpu(gfx="gfx1100"),)))
    assert not found(covered, "rocm-gfx-unsupported")
    overridden = msgspec.structs.replace(facts, env=(EnvVar(name="HSA_OVERRIDE_GFX_VERSION", value="11.0.0"),))
    assert not found(overridden, "rocm-gfx-unsupported")


def test_nccl_is_linux_only() -> None:
    text = says("RuntimeError: Distributed package doesn't have NCCL built in")
    assert found(machine(system=WINDOWS, symptoms=text), "nccl-not-in-build")[0].confidence == "certain"
    assert not found(machine(), "nccl-not-in-build")


# --- companions ----------------------------------------------------------------------------------------------------


def dist(name: str, version: str, **more: object) -> Distribution:
    return Distribution(name=name, version=version, manager="pip", **more)  # type: ignore[arg-type]


def with_dists(*items: Distribution, **changes: object) -> Facts:
    return machine(python=msgspec.structs.replace(PYTHON, distributions=items), **changes)


@pytest.mark.parametrize(
    ("torch", "vision", "severity"),
    [
        ("2.8.0+cu128", "0.23.0+cu128", None),
        ("2.8.0+cu128", "0.22.0+cu128", "error"),
        ("2.5.1+cu124", "0.20.0+cu124", "warning"),  # one patch apart
        ("2.8.0+cu128", "0.23.0+cpu", "warning"),  # a mix of builds
        ("2.8.0a0+git1", "0.22.0", None),  # unknown
    ],
)
def test_torchvision_by_versions(torch: str, vision: str, severity: str | None) -> None:
    facts = with_dists(dist("torchvision", vision), torch=Torch(version=torch, cuda="12.8"))
    assert [f.severity for f in found(facts, "torchvision-mismatch")] == ([severity] if severity else [])


def test_a_torchvision_that_works_is_believed() -> None:
    works = Companion(name="torchvision", version="0.22.0+cu128", imports=OK, operators=True)
    facts = machine(torch=Torch(version="2.8.0+cu128", cuda="12.8", companions=(works,)))
    assert not found(facts, "torchvision-mismatch")
    broken = Companion(name="torchvision", version="0.23.0+cu128", imports=OK, operators=False)
    facts = machine(torch=Torch(version="2.8.0+cu128", cuda="12.8", companions=(broken,)))
    assert found(facts, "torchvision-mismatch")[0].severity == "error"


def test_torchaudio_after_2_11_serves_every_torch() -> None:
    facts = with_dists(dist("torchaudio", "2.11.0"), torch=Torch(version="2.13.0+cu130", cuda="13.0"))
    assert not found(facts, "torchaudio-mismatch")
    facts = with_dists(dist("torchaudio", "2.7.0"), torch=Torch(version="2.13.0+cu130", cuda="13.0"))
    assert found(facts, "torchaudio-mismatch")


def test_triton_absent_is_a_note_where_torch_asks_for_it() -> None:
    torch = dist("torch", "2.8.0", requires=("filelock", "triton==3.4.0; platform_system == 'Linux'"))
    assert [f.severity for f in found(with_dists(torch), "triton-missing")] == ["note"]
    assert not found(with_dists(torch, dist("triton", "3.4.0")), "triton-missing")
    assert not found(machine(system=WINDOWS), "triton-missing"), "Windows wheels do not ask for it"
    partial = msgspec.structs.replace(PYTHON, distributions=(torch,), distributions_partial=True)
    assert not found(machine(python=partial), "triton-missing")


def test_triton_of_another_torch() -> None:
    facts = with_dists(dist("torch", "2.8.0"), dist("triton", "2.1.0"))
    assert [f.severity for f in found(facts, "triton-version-mismatch")] == ["warning"]
    assert not found(with_dists(dist("torch", "2.8.0"), dist("triton", "3.4.0")), "triton-version-mismatch")


# --- compile, compilers --------------------------------------------------------------------------------------------


def test_python_too_new_for_compile_is_a_note_without_an_error() -> None:
    facts = machine(torch=Torch(version="2.9.0+cu128", cuda="12.8"), python=msgspec.structs.replace(PYTHON, version="3.14.0"))
    assert [f.severity for f in found(facts, "compile-python-too-new")] == ["note"]
    assert not found(machine(torch=Torch(version="2.10.0+cu128", cuda="12.8"), python=facts.python), "compile-python-too-new")
    assert not found(machine(torch=Torch(version="2.9.0a0+git1"), python=facts.python), "compile-python-too-new")


def test_no_compiler_is_a_note_where_compile_could_be_used() -> None:
    bare = msgspec.structs.replace(LINUX, c_compiler="")
    facts = with_dists(dist("triton", "3.4.0"), system=bare)
    assert [f.severity for f in found(facts, "no-c-compiler")] == ["note"]
    assert not found(with_dists(dist("triton", "3.4.0")), "no-c-compiler"), "unknown is not absent"
    assert not found(with_dists(dist("triton", "3.4.0"), system=bare, nvidia=Nvidia(gpus=())), "no-c-compiler")


def test_compiler_command_fits_the_distribution() -> None:
    text = says("RuntimeError: Failed to find C compiler. Please specify via CC environment variable.")
    fedora = msgspec.structs.replace(LINUX, distro="fedora")
    assert found(machine(system=fedora, symptoms=text), "no-c-compiler")[0].remedy.commands == ("sudo dnf install -y gcc gcc-c++",)
    image = msgspec.structs.replace(LINUX, container="docker")
    assert found(machine(system=image, symptoms=text), "no-c-compiler")[0].remedy.commands == ("apt-get install -y build-essential",)


def test_ptxas_path_is_that_of_a_toolkit_that_knows_the_gpu() -> None:
    text = says("ptxas fatal   : Value 'sm_120' is not defined for option 'gpu-name'")
    kits = Toolchain(cuda_toolkits=(CudaToolkit(path="/usr/local/cuda-12.4", version="12.4"), CudaToolkit(path="/usr/local/cuda-12.9", version="12.9.1")))
    finding = found(machine(symptoms=text, toolchain=kits), "triton-ptxas-too-old")[0]
    assert finding.remedy.commands == ("export TRITON_PTXAS_PATH=/usr/local/cuda-12.9/bin/ptxas",)
    assert not found(machine(), "triton-ptxas-too-old")


def test_mps_compile_is_no_matter_of_the_build() -> None:
    text = says("torch._dynamo.exc.BackendCompilerFailed: backend='inductor' raised:\nAssertionError: Torch not compiled with CUDA enabled")
    facts = machine(system=MAC, torch=Torch(version="2.0.0", cuda=""), nvidia=Nvidia(), symptoms=text)
    assert found(facts, "compile-backend-unsupported")
    assert not found(facts, "cpu-only-build")
    linux = machine(torch=Torch(version="2.0.0+cpu", cuda=""), symptoms=text)
    assert not found(linux, "compile-backend-unsupported")


# --- extensions ----------------------------------------------------------------------------------------------------


def test_missing_kernel_of_an_extension_when_torch_covers_the_gpu() -> None:
    text = says("RuntimeError: CUDA error: no kernel image is available for execution on the device")
    assert found(machine(symptoms=text), "extension-missing-arch")
    old = machine(nvidia=cards(PASCAL), symptoms=text)
    assert not found(old, "extension-missing-arch"), "torch itself has no code for it"
    assert found(old, "gpu-too-old-for-build")


def test_abi_rule_names_the_abi_on_both_sides() -> None:
    text = says(
        "ImportError: /x/site-packages/flash_attn_2_cuda.cpython-311-x86_64-linux-gnu.so: undefined symbol: "
        "_ZN3c105ErrorC2ENS_14SourceLocationENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
    )
    facts = machine(torch=Torch(version="2.5.1+cu124", cuda="12.4", cxx11_abi=False), symptoms=text)
    finding = found(facts, "extension-abi-mismatch")[0]
    assert "new C++ ABI" in finding.why
    assert "_GLIBCXX_USE_CXX11_ABI=0" in finding.why
    assert not found(machine(), "extension-abi-mismatch")


def test_a_stale_jit_extension_is_cleared_not_reinstalled() -> None:
    text = says("ImportError: /root/.cache/torch_extensions/py310_cu121/fused_adam/fused_adam.so: undefined symbol: _ZN2at6detail10noopDeleteEPv")
    finding = found(machine(symptoms=text), "extension-abi-mismatch")[0]
    assert finding.remedy.commands == ("rm -r ~/.cache/torch_extensions",)


def test_toolkit_of_another_major_matters_only_when_a_build_failed() -> None:
    toolchain = Toolchain(nvcc_version="11.8")
    assert not found(machine(toolchain=toolchain), "toolkit-torch-cuda-mismatch")
    text = says("RuntimeError:\nThe detected CUDA version (11.8) mismatches the version that was used to compile\nPyTorch (12.8). Please make sure to use the same CUDA versions.")
    finding = found(machine(toolchain=toolchain, symptoms=text), "toolkit-torch-cuda-mismatch")[0]
    assert "11.8" in finding.title
    assert "12.8" in finding.title


def test_an_installed_toolkit_is_pointed_at() -> None:
    text = says("OSError: CUDA_HOME environment variable is not set. Please set it to your CUDA install root.")
    kits = Toolchain(cuda_toolkits=(CudaToolkit(path="/usr/local/cuda-12.8", version="12.8", has_nvcc=True),))
    assert found(machine(symptoms=text, toolchain=kits), "cuda-toolkit-missing")[0].remedy.commands == ("export CUDA_HOME=/usr/local/cuda-12.8",)
    assert not found(machine(toolchain=Toolchain(nvcc_version="")), "cuda-toolkit-missing"), "running torch needs none"


def test_nvcc_too_new_for_an_old_gpu_and_too_old_for_a_new_one() -> None:
    old = found(machine(symptoms=says("nvcc fatal   : Unsupported gpu architecture 'compute_60'"), toolchain=Toolchain(nvcc_version="13.0")), "nvcc-arch-unsupported")[0]
    assert "12.9" in old.why
    new = found(machine(symptoms=says("nvcc fatal   : Unsupported gpu architecture 'compute_89'"), toolchain=Toolchain(nvcc_version="11.5")), "nvcc-arch-unsupported")[0]
    assert "11.8" in new.why


def test_newer_than_the_tables_is_a_note() -> None:
    facts = machine(torch=Torch(version="3.1.0+cu140", cuda="14.0", arch_list=("sm_89",)))
    assert [f.severity for f in found(facts, "torch-newer-than-tables")] == ["note"]
    assert not found(machine(), "torch-newer-than-tables")


# --- derive --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("build", "cuda"),
    [
        ("py3.9_cuda11.8_cudnn8.7.0_0", "11.8"),
        ("cuda112py310h51fe464_300", "11.2"),
        ("cuda126_generic_py312h1576ffb_205", "12.6"),
        ("py3.8_cpu_0", ""),
        ("cpu_generic_py311h4bb0ed8_0", ""),
        ("py310h5588dad_0", None),
        ("gpu_cuda118py311h62ef2a3_100", "11.8"),
    ],
)
def test_cuda_of_a_conda_build(build: str, cuda: str | None) -> None:
    assert derive.cuda_of_conda_build(build) == cuda


@pytest.mark.parametrize(
    ("version", "os", "value", "derived"),
    [
        ("2.8.0+cu128", "linux", "12.8", False),
        ("1.4.0", "linux", "10.1", True),
        ("2.4.1", "windows", "", True),
        ("2.4.1", "linux", "12.1", True),
        ("2.4.1", "macos", "", True),
        ("2.8.0+rocm6.4", "linux", "", False),
    ],
)
def test_cuda_of_a_version(version: str, os: str, value: str, derived: bool) -> None:
    facts = Facts(system=System(os=os), torch=Torch(version=version))
    assert derive.torch_cuda(facts, load()) == (value, derived)


def test_cuda_of_nvidia_wheels_beside_torch() -> None:
    facts = Facts(python=PythonEnv(distributions=(dist("torch", "2.7.0a0+git1"), dist("nvidia-cuda-runtime-cu12", "12.8.57"))))
    assert derive.torch_cuda(facts, load()) == ("12.8", True)


def test_gpus_of_warnings_are_counted_once_each() -> None:
    text = (
        "Found GPU0 Tesla P100-PCIE-16GB which is of cuda capability 6.0.\nMinimum and Maximum cuda capability supported by this version "
        "of PyTorch is\n(7.0) - (12.0)\nTesla P100-PCIE-16GB with CUDA capability sm_60 is not compatible with the current PyTorch installation."
    )
    assert len(derive.gpus(Facts(symptoms=says(text)), load())) == 1


def test_torch_devices_stand_in_for_the_drivers_list() -> None:
    device = TorchDevice(kind="cuda", index=0, name="Orin", compute_capability="8.7")
    assert derive.gpus(Facts(torch=Torch(devices=(device,))), load())[0].capability == "8.7"
