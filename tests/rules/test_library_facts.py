"""Rules about libraries over hand-built facts: one that fires, one near miss, one that cannot be judged."""

from __future__ import annotations

import msgspec
import pytest

from envcheck.facts import (
    Distribution,
    EnvVar,
    Facts,
    LibCuda,
    LoadedLibrary,
    Nvidia,
    NvidiaGpu,
    Outcome,
    PythonEnv,
    Symptom,
    System,
    Torch,
)
from envcheck.findings import Finding
from envcheck.matrix import load
from envcheck.rules import RULES, library, library_loader
from envcheck.rules.base import evaluate
from envcheck.symptoms.engine import recognise

OK = Outcome(status="ok")
BAD = Outcome(status="failed", error_type="ImportError", error="no")
LINUX = System(os="linux", distro="ubuntu", machine="x86_64", libc="glibc", libc_version="2.35")
WINDOWS = System(os="windows", machine="x86_64")
SITE = "/home/user/env/lib/python3.11/site-packages"
PINS = ("nvidia-cudnn-cu12==9.10.2.21; platform_system == 'Linux'", "nvidia-nccl-cu12==2.27.3; platform_system == 'Linux'")
PYTHON = PythonEnv(
    version="3.11.9",
    machine="x86_64",
    kind="venv",
    distributions=(
        Distribution(name="torch", version="2.8.0", manager="pip", location=SITE, requires=PINS),
        Distribution(name="nvidia-cudnn-cu12", version="9.10.2.21", manager="pip"),
        Distribution(name="nvidia-nccl-cu12", version="2.27.3", manager="pip"),
    ),
)
TORCH = Torch(version="2.8.0+cu128", cuda="12.8", imports=OK, cuda_available=True)


def machine(**changes: object) -> Facts:
    return msgspec.structs.replace(Facts(system=LINUX, python=PYTHON, torch=TORCH, env=()), **changes)


def found(facts: Facts, rule: str) -> list[Finding]:
    report = evaluate(facts, load(), library.RULES)
    assert not [s for s in report.skipped if s.reason.startswith("internal error")], report.skipped
    return [f for f in report.findings if f.rule == rule]


def says(text: str) -> tuple[Symptom, ...]:
    return recognise(text, source="test")


def loaded(*items: tuple[str, str, str]) -> Torch:
    return msgspec.structs.replace(TORCH, loaded_libraries=tuple(LoadedLibrary(name=n, path=p, origin=o) for n, p, o in items))


def test_a_sound_machine_is_silent() -> None:
    assert not evaluate(machine(), load(), library.RULES).findings


# --- whose file, whose symbol ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("symbol", "owner"),
    [
        ("__nvJitLinkCreate_12_8", "nvJitLink"),
        ("cublasLtGetStatusString", "cublasLt"),
        ("cublasGemmEx", "cublas"),
        ("ncclCommResume", "nccl"),
        ("cudnnGetLibConfig", "cudnn"),
        ("cudaGetDriverEntryPointByVersion", "cudart"),
        ("cuModuleGetFunction", "cuda"),
        ("iJIT_NotifyEvent", "mkl"),
        ("_ZN3c104cuda9SetDeviceEi", "torch"),
        ("_ZNK5torch8autograd4Node4nameEv", "torch"),
        ("torch_dtype_float4_e2m1fn_x2", "torch"),
        ("_ZN8pybind116detail11type_casterIN2at6TensorEvE4loadENS_6handleEb", "torch"),
        ("_Z22ms_deform_attn_cuda_fwdRKN2at6TensorE", "unknown"),  # the extension's own function
        ("_ZSt28__throw_bad_array_new_lengthv", "libstdc++"),
        ("PyUnicode_AsUTF8", "python"),
        ("hipGetDevicePropertiesR0600", "rocm"),
    ],
)
def test_owner_of_a_symbol(symbol: str, owner: str) -> None:
    assert library_loader.symbol_owner(symbol) == owner


@pytest.mark.parametrize(
    ("path", "owner"),
    [
        (f"{SITE}/torch/lib/../../nvidia/cusparse/lib/libcusparse.so.12", "nvidia"),
        (f"{SITE}/torch/lib/libtorch_cuda.so", "torch"),
        (f"{SITE}/torchaudio/lib/libtorchaudio.abi3.so", "torchaudio"),
        (f"{SITE}/flash_attn_2_cuda.cpython-311-x86_64-linux-gnu.so", "extension:flash-attn"),
        (f"{SITE}/torchvision-0.9.0-py3.7-linux-x86_64.egg/torchvision/_C.so", "torchvision"),
        ("/usr/local/cuda-12.3/lib64/libcudnn_cnn_train.so.8", "system"),
        ("/root/.cache/torch_extensions/py310_cu121/fused_adam/fused_adam.so", "extension:fused_adam"),
        ("C:\\venv\\Lib\\site-packages\\mmcv\\_ext.cp310-win_amd64.pyd", "extension:mmcv"),
        ("libnccl.so.2", "nvidia"),
        ("/home/user/train.py", "unknown"),
    ],
)
def test_owner_of_a_file(path: str, owner: str) -> None:
    assert library_loader.owner_of_path(path) == owner


@pytest.mark.parametrize(
    ("text", "symbol", "owner"),
    [
        ("python: symbol lookup error: /x/site-packages/torch/lib/libtorch_cuda.so: undefined symbol: ncclCommSplit", "ncclCommSplit", "torch"),
        ("Error relocating /x/site-packages/torch/lib/libtorch_cpu.so: __memcpy_chk: symbol not found", "__memcpy_chk", "torch"),
        (
            "ImportError: dlopen(/x/_C.so, 0x0006): Symbol not found: __ZN3c105ErrorD1Ev\n  Referenced from: /x/site-packages/torchvision/_C.so\n",
            "_ZN3c105ErrorD1Ev",
            "torchvision",
        ),
    ],
)
def test_every_loader_is_understood(text: str, symbol: str, owner: str) -> None:
    errors = list(library_loader.loader_errors(Facts(symptoms=says(text))))
    assert [(e.symbol, e.owner) for e in errors] == [(symbol, owner)]


# --- another copy first ------------------------------------------------------------------------------------------------


def test_foreign_copy_that_is_loaded_is_a_warning_while_torch_works() -> None:
    path = EnvVar(name="LD_LIBRARY_PATH", value="/usr/local/cuda/lib64")
    facts = machine(torch=loaded(("cudnn", "/usr/local/cuda/lib64/libcudnn.so.9", "ld_library_path")), env=(path,))
    finding = found(facts, "library-path-shadowing")[0]
    assert finding.severity == "warning"
    assert "/usr/local/cuda/lib64" in finding.seen
    own = machine(torch=loaded(("cudnn", f"{SITE}/nvidia/cudnn/lib/libcudnn.so.9", "wheel")), env=(path,))
    assert not found(own, "library-path-shadowing"), "the variable is set and does no harm"
    bundled = PythonEnv(distributions=(Distribution(name="pytorch", version="2.5.1", manager="conda", build="cuda126_0"),))
    assert not found(machine(python=bundled, torch=facts.torch), "library-path-shadowing"), "conda's torch uses conda's libraries"


def test_symbol_without_a_variable_is_likely_with_it_certain() -> None:
    text = says("ImportError: /x/site-packages/torch/lib/libtorch_cuda.so: undefined symbol: ncclCommRegister")
    assert found(machine(symptoms=text), "library-path-shadowing")[0].confidence == "likely"
    env = (EnvVar(name="LD_LIBRARY_PATH", value="/opt/nccl/lib"),)
    assert found(machine(symptoms=text, env=env), "library-path-shadowing")[0].confidence == "certain"


def test_torchs_own_symbol_needs_a_variable_else_it_is_damage() -> None:
    text = says("ImportError: /x/site-packages/torch/lib/libtorch_python.so: undefined symbol: _ZN5torch3jit21throwFunctionNotFoundEv")
    assert not found(machine(symptoms=text), "library-path-shadowing")
    report = evaluate(machine(symptoms=text), load(), RULES)
    assert report.primary is not None
    assert report.primary.rule == "corrupted-install"


def test_two_wheels_for_one_directory_come_first() -> None:
    text = says("ImportError: /x/site-packages/torch/lib/libtorch_cuda.so: undefined symbol: ncclCommResume")
    both = msgspec.structs.replace(PYTHON, distributions=(*PYTHON.distributions, Distribution(name="nvidia-nccl-cu13", version="2.28.9")))
    report = evaluate(machine(python=both, symptoms=text), load(), RULES)
    assert report.primary is not None
    assert report.primary.rule == "conflicting-nvidia-wheels"
    assert [f.consequence_of for f in report.findings if f.rule == "library-path-shadowing"] == ["conflicting-nvidia-wheels"]


def test_stub_loaded_or_only_there() -> None:
    stub = LibCuda(path="/usr/local/cuda/lib64/stubs/libcuda.so", kind="stub", loaded=True)
    assert found(machine(nvidia=Nvidia(libcuda=(stub,))), "cuda-stub-library")
    idle = msgspec.structs.replace(stub, loaded=False)
    assert not found(machine(nvidia=Nvidia(libcuda=(idle,))), "cuda-stub-library")
    assert not found(machine(nvidia=Nvidia(libcuda=None)), "cuda-stub-library")


# --- cuDNN ---------------------------------------------------------------------------------------------------------


def test_cudnn_without_code_for_the_gpu() -> None:
    pascal = Nvidia(gpus=(NvidiaGpu(index=0, name="NVIDIA GeForce GTX 1080", compute_capability="6.1"),))
    new = msgspec.structs.replace(TORCH, version="2.8.0+cu126", cuda="12.6", cudnn="9.12.0")
    assert found(machine(nvidia=pascal, torch=new), "cudnn-version-incompatible")
    old = msgspec.structs.replace(new, cudnn="9.10.2")
    assert not found(machine(nvidia=pascal, torch=old), "cudnn-version-incompatible")
    unknown = msgspec.structs.replace(new, cudnn=None)
    assert not found(machine(nvidia=pascal, torch=unknown, python=PythonEnv()), "cudnn-version-incompatible")


def test_missing_libcuda_behind_cudnn_is_another_matter() -> None:
    text = says("Could not load library libcudnn_cnn_infer.so.8. Error: libcuda.so: cannot open shared object file: No such file or directory")
    assert not found(machine(symptoms=text), "cudnn-version-incompatible")


# --- the system ------------------------------------------------------------------------------------------------------


def test_glibc_below_the_wheels_floor() -> None:
    old = msgspec.structs.replace(LINUX, libc_version="2.17")
    assert found(machine(system=old, torch=msgspec.structs.replace(TORCH, imports=BAD)), "glibc-too-old")
    assert not found(machine(system=old), "glibc-too-old"), "it imports: a build of its own"
    assert not found(machine(torch=msgspec.structs.replace(TORCH, imports=BAD)), "glibc-too-old")
    unknown = msgspec.structs.replace(LINUX, libc_version=None)
    assert not found(machine(system=unknown, torch=msgspec.structs.replace(TORCH, imports=BAD)), "glibc-too-old")


def test_glibc_and_libstdcxx_are_told_apart() -> None:
    glibc = says("ImportError: /lib64/libc.so.6: version `GLIBC_2.28' not found (required by /x/site-packages/torch/lib/libtorch_cpu.so)")
    assert found(machine(symptoms=glibc), "glibc-too-old")
    assert not found(machine(symptoms=glibc), "libstdcxx-too-old")
    stdcxx = says("ImportError: /opt/matlab/sys/os/glnxa64/libstdc++.so.6: version `GLIBCXX_3.4.29' not found (required by /x/site-packages/torch/lib/libc10.so)")
    finding = found(machine(symptoms=stdcxx), "libstdcxx-too-old")[0]
    assert "/opt/matlab" in finding.why, "another program's copy is found first"
    assert not found(machine(symptoms=stdcxx), "glibc-too-old")


def test_two_openmp_runtimes_seen_live() -> None:
    facts = machine(torch=loaded(("libiomp5", "/opt/conda/lib/libiomp5.so", "conda"), ("libiomp5", f"{SITE}/torch/lib/libiomp5.so", "wheel")))
    assert found(facts, "omp-duplicate-runtime")[0].severity == "warning"
    usual = machine(torch=loaded(("libgomp", f"{SITE}/torch/lib/libgomp.so.1", "wheel"), ("libiomp5", "/opt/conda/lib/libiomp5.so", "conda")))
    assert not found(usual, "omp-duplicate-runtime")


# --- Windows -----------------------------------------------------------------------------------------------------------

C10 = says('OSError: [WinError 126] The specified module could not be found. Error loading "C:\\v\\Lib\\site-packages\\torch\\lib\\c10.dll" or one of its dependencies.')
SHM = says('OSError: [WinError 126] The specified module could not be found. Error loading "C:\\v\\Lib\\site-packages\\torch\\lib\\shm.dll" or one of its dependencies.')


def windows(symptoms: tuple[Symptom, ...], runtime: str | None) -> Facts:
    return Facts(system=msgspec.structs.replace(WINDOWS, vc_runtime=runtime), torch=Torch(version="2.8.0", imports=BAD), symptoms=symptoms)


@pytest.mark.parametrize(
    ("symptoms", "runtime", "expected"),
    [
        (C10, None, "windows-vc-runtime"),
        (C10, "14.29.30133", "windows-vc-runtime"),
        (SHM, "14.44.35211", "windows-dll-missing"),
        (SHM, None, "windows-dll-missing"),
        (SHM, "14.29.30133", "windows-vc-runtime"),
        (SHM, "", "windows-vc-runtime"),
    ],
)
def test_which_dll_and_which_runtime(symptoms: tuple[Symptom, ...], runtime: str | None, expected: str) -> None:
    report = evaluate(windows(symptoms, runtime), load(), library.RULES)
    assert report.primary is not None
    assert report.primary.rule == expected


def test_absent_runtime_is_told_only_where_torch_fails() -> None:
    works = Facts(system=msgspec.structs.replace(WINDOWS, vc_runtime=""), torch=Torch(version="2.8.0", imports=OK))
    assert not found(works, "windows-vc-runtime")
    assert found(windows((), ""), "windows-vc-runtime")
    assert not found(windows((), None), "windows-vc-runtime")


def test_the_dll_of_a_third_party_package_is_not_torchs() -> None:
    text = says(
        'File "C:\\v\\Lib\\site-packages\\onnxruntime\\capi\\_pybind_state.py", line 32, in <module>\n    from x import *\n'
        "ImportError: DLL load failed while importing onnxruntime_pybind11_state: The specified module could not be found."
    )
    facts = Facts(system=WINDOWS, symptoms=text)
    assert not found(facts, "windows-dll-missing")
    assert not found(facts, "windows-vc-runtime")
