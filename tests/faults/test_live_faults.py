"""Faults of live machines, each through the whole doctor: fake driver, fake device trees, real or fake torch.

Every case runs `envcheck doctor --json` as a person would and expects the right rule as the first error or warning.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from envcheck.process import run
from tests.kit import Card, Tree, fake_smi, machine_tree, stub_libcuda
from tests.kit.tree import TREE_KINDS
from tests.kit_python import packages
from tests.kit_python.environments import make_venv

ROOT = Path(__file__).resolve().parent.parent.parent
PCI = ("0000:01:00.0", "2684", "NVIDIA GeForce RTX 4090")


@dataclass(frozen=True)
class World:
    """What a case may change: the site-packages and current directory of the Python under test, the variables."""

    site: Path
    cwd: Path
    home: Path
    variables: dict[str, str]


@dataclass(frozen=True)
class Fault:
    """One broken machine. torch: arguments of `make_torch`; "real": the torch of the tests; None: no torch."""

    id: str
    rule: str
    tree: str | Callable[[Tree], None] = "cpu"
    smi: str | None = None
    smi_options: dict[str, Any] = field(default_factory=dict)
    libcuda: dict[str, Any] | None = None
    torch: dict[str, Any] | str | None = field(default_factory=dict)
    also: Callable[[World], None] | None = None
    env: dict[str, str] = field(default_factory=dict)
    args: tuple[str, ...] = ()
    says: tuple[str, ...] = ()
    """Words that must stand in the finding."""


def nvidia(driver: str, *gpus: tuple[str, str, str], **options: Any) -> Callable[[Tree], None]:
    def build(tree: Tree) -> None:
        tree.system()
        tree.nvidia(driver, gpus or (PCI,), **options)

    return build


def raising(kind: str, text: str) -> dict[str, Any]:
    return {"init": f"raise {kind}({text!r})\n"}


def dists(*items: tuple[str, str]) -> Callable[[World], None]:
    def build(world: World) -> None:
        for name, version in items:
            packages.make_metadata(world.site, name, version)

    return build


def truncated(world: World) -> None:
    (world.site / "torch" / "lib" / "libtorch_cuda.so").unlink()


def two_copies(world: World) -> None:
    packages.make_metadata(world.site, "torch", "2.6.0")


def user_copy(world: World) -> None:
    site = world.home / ".local" / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    site.mkdir(parents=True)
    packages.make_torch(site, "1.13.1+cu117", cuda="11.7")
    world.variables["PYTHONUSERBASE"] = str(world.home / ".local")
    config = world.site.parent.parent.parent / "pyvenv.cfg"
    config.write_text(config.read_text().replace("include-system-site-packages = false", "include-system-site-packages = true"))


def shadow(name: str) -> Callable[[World], None]:
    def build(world: World) -> None:
        (world.cwd / name).write_text("print('a file of mine')\n")

    return build


def both_nccl(world: World) -> None:
    for suffix, version in (("cu12", "2.27.3"), ("cu13", "2.28.9")):
        packages.make_wheel(world.site, f"nvidia-nccl-{suffix}", version, {"nvidia/nccl/lib/libnccl.so.2": suffix.encode() * 100})


def torch_in_other_env(world: World) -> None:
    other = world.cwd / ".venv"
    _, site = make_venv(other)
    packages.make_torch(site)


def cuda_torchvision(world: World) -> None:
    """PyPI's torchvision beside a torch from the CPU index: the metadata of both say 0.23 and 2.8."""
    packages.make_metadata(world.site, "torchvision", "0.23.0")
    package = world.site / "torchvision"
    package.mkdir()
    (package / "version.py").write_text("__version__ = '0.23.0+cu128'\ngit_version = 'abc'\n")
    (package / "__init__.py").write_text("raise RuntimeError('operator torchvision::nms does not exist')\n")


def python_on_path(world: World) -> None:
    """What `python` starts is another environment, as empty as this one."""
    other, _ = make_venv(world.cwd / "other")
    programs = world.home / "programs"
    programs.mkdir()
    (programs / "python").symlink_to(other)
    world.variables["PATH"] += os.pathsep + str(programs)


V100 = Card("Tesla V100-PCIE-16GB", "7.0", memory=16384, bus="00000000:3B:00.0")
RTX_5090 = Card("NVIDIA GeForce RTX 5090", "12.0", memory=32607)
RTX_4090 = Card("NVIDIA GeForce RTX 4090", "8.9", memory=24564)
H100 = Card("NVIDIA H100 80GB HBM3", "9.0", memory=81559)
CU124 = {"version": "2.6.0+cu124", "cuda": "12.4", "arches": "sm_50 sm_60 sm_70 sm_75 sm_80 sm_86 sm_90"}
CU126 = {"version": "2.8.0+cu126", "cuda": "12.6", "arches": "sm_50 sm_60 sm_70 sm_75 sm_80 sm_86 sm_90"}
CU128 = {"version": "2.8.0+cu128", "cuda": "12.8", "arches": "sm_70 sm_75 sm_80 sm_86 sm_90 sm_100 sm_120"}
CU130 = {"version": "2.14.1+cu130", "cuda": "13.0", "arches": "sm_75 sm_80 sm_86 sm_90 sm_100 sm_120"}
CPU = {"version": "2.8.0+cpu", "cuda": None}
ROCM = {"version": "2.9.1+rocm6.4", "cuda": None, "hip": "6.4.43484"}
XPU = {"version": "2.9.1+xpu", "cuda": None, "xpu": "20250200"}
NO_GPU = {"cuda_init": packages.CUDA_NO_DRIVER}
PCI_5090 = ("0000:01:00.0", "2b85", "NVIDIA GeForce RTX 5090")
PCI_V100 = ("0000:3b:00.0", "1db4", "Tesla V100-PCIE-16GB")


def cuda_error(text: str) -> dict[str, Any]:
    return {"cuda_init": f"def is_available(): return False\ndef device_count(): return 0\ndef init(): raise RuntimeError({text!r})\n"}


FAULTS = (
    # -- real torch, which prints its own real messages at a stub libcuda
    Fault("real-torch-driver-too-old", "driver-too-old", nvidia("470.82.01"), "healthy", {"driver": "470.82.01", "cuda": "11.4", "cards": [RTX_4090]}, {"version": 11040}, "real", says=("470.82.01", "580")),
    Fault("real-torch-error-803", "driver-libcuda-mismatch", nvidia("580.95.05"), "healthy", {"driver": "580.95.05", "cuda": "13.0", "cards": [RTX_4090]}, {"init": 803, "version": 13000}, "real"),
    Fault("real-torch-error-804", "cuda-forward-compat", nvidia("580.95.05"), "healthy", {"driver": "580.95.05", "cuda": "13.0", "cards": [RTX_4090]}, {"init": 804, "version": 13000}, "real"),
    Fault("real-torch-error-999", "cuda-unknown-error", nvidia("580.95.05"), "healthy", {"driver": "580.95.05", "cuda": "13.0", "cards": [RTX_4090]}, {"init": 999, "version": 13000}, "real"),
    Fault("real-torch-error-802", "fabric-manager-not-running", "dgx-no-fabric", "fabric-in-progress", {}, {"init": 802, "version": 13000}, "real"),
    Fault("real-torch-hidden-by-empty-variable", "cuda-visible-devices", nvidia("580.95.05"), "healthy", {"driver": "580.95.05", "cuda": "13.0", "cards": [RTX_4090]}, {"version": 13000, "mask": 1}, "real", env={"CUDA_VISIBLE_DEVICES": ""}),
    # -- driver
    Fault("no-driver-rtx4090", "nvidia-driver-not-loaded", "rtx4090-no-driver", torch={**CU128, **NO_GPU}, says=("4090",)),
    Fault("no-driver-smi-says-so", "nvidia-driver-not-loaded", "rtx4090-no-driver", "no-driver", torch={**CU128, **NO_GPU}),
    Fault("nouveau-bound", "nvidia-driver-not-loaded", "nouveau", torch={**CU128, **NO_GPU}, says=("nouveau",)),
    Fault("secure-boot-rejects-module", "nvidia-driver-not-loaded", "secure-boot", torch={**CU128, **NO_GPU}, says=("Secure Boot",)),
    Fault("stale-module", "nvml-driver-library-mismatch", "stale-module", "mismatch", torch={**CU128, **NO_GPU}),
    Fault("stale-module-new-text", "nvml-driver-library-mismatch", "stale-module", "mismatch-new", torch={**CU128, **NO_GPU}, says=("535.154.05",)),
    Fault("driver-470-cu128", "driver-too-old", nvidia("470.82.01"), "healthy", {"driver": "470.82.01", "cuda": "11.4", "cards": [RTX_4090]}, torch={**CU128, "cuda_init": packages.CUDA_TOO_OLD}, says=("470.82.01", "525.60.13")),
    Fault("driver-535-cu130", "driver-too-old", nvidia("535.183.01"), "healthy", {"driver": "535.183.01", "cuda": "12.2", "cards": [RTX_4090]}, torch={**CU130, **cuda_error("The NVIDIA driver on your system is too old (found version 12020). Please update your GPU driver")}, says=("535.183.01", "580")),
    Fault("driver-too-old-without-nvidia-smi", "driver-too-old", nvidia("418.67", PCI_V100), None, torch={**CU124, **cuda_error("CUDA driver version is insufficient for CUDA runtime version")}, says=("418.67",)),
    Fault("driver-too-old-quick", "driver-too-old", nvidia("470.82.01"), "healthy", {"driver": "470.82.01", "cuda": "11.4", "cards": [RTX_4090]}, torch=CU128, args=("--quick",)),
    Fault("driver-too-old-quick-although-it-starts", "driver-too-old", nvidia("470.82.01"), "healthy", {"driver": "470.82.01", "cuda": "11.4", "cards": [RTX_4090]}, {"init": 0, "version": 11040}, torch=CU128, args=("--quick",)),
    Fault("volta-on-610", "driver-gpu-unsupported", nvidia("610.43.02", PCI_V100, opened=True), "no-devices", torch={**CU126, **NO_GPU}, says=("V100",)),
    Fault("nvidia-smi-hangs", "nvidia-smi-hangs", nvidia("550.127.08"), "hang", torch={**CU124, **cuda_error("CUDA unknown error")}),
    Fault("uvm-not-loaded", "nvidia-uvm-missing", "no-uvm", "healthy", {"cards": [RTX_4090]}, torch={**CU124, **cuda_error("CUDA unknown error - this may be due to an incorrectly set up environment, e.g. changing env variable CUDA_VISIBLE_DEVICES after program start. Setting the available devices to be zero.")}),
    Fault("stub-libcuda-first", "cuda-stub-library", "stub-first", "healthy", {"cards": [RTX_4090]}, torch={**CU124, **cuda_error("CUDA driver is a stub library")}),
    Fault("fabric-manager-stopped", "fabric-manager-not-running", "dgx-fabric-stopped", "fabric-in-progress", torch={**CU130, **cuda_error("Unexpected error from cudaGetDeviceCount(). Error 802: system not yet initialized")}),
    Fault("visible-devices-minus-one", "cuda-visible-devices", nvidia("550.127.08"), "healthy", {"cards": [RTX_4090]}, torch={**CU124, **cuda_error("No CUDA GPUs are available")}, env={"CUDA_VISIBLE_DEVICES": "-1"}),
    Fault("visible-devices-out-of-range", "cuda-visible-devices", nvidia("550.127.08"), "healthy", {"cards": [RTX_4090]}, torch={**CU124, **cuda_error("No CUDA GPUs are available")}, env={"CUDA_VISIBLE_DEVICES": "3"}, says=("3",)),
    Fault("exclusive-mode", "gpu-exclusive-mode", nvidia("550.127.08", PCI_V100), "exclusive", torch={**CU124, **cuda_error("CUDA error: all CUDA-capable devices are busy or unavailable")}),
    Fault("mig-without-instance", "mig", nvidia("535.161.08", ("0000:01:00.0", "20b5", "NVIDIA A100-PCIE-40GB")), "mig-empty", torch={**CU124, **cuda_error("No CUDA GPUs are available")}),
    Fault("ecc-errors", "gpu-hardware-fault", nvidia("550.127.08", ("0000:01:00.0", "20b5", "NVIDIA A100-PCIE-40GB")), "ecc", torch={**CU124, "cuda_init": packages.CUDA_WORKS}),
    Fault("gpu-lost", "gpu-hardware-fault", nvidia("550.127.08"), "gpu-lost", torch={**CU124, **cuda_error("CUDA unknown error")}),
    Fault("xid-79", "gpu-hardware-fault", "xid79", "gpu-lost", torch={**CU124, **cuda_error("No CUDA GPUs are available")}, says=("79",)),
    # -- build against GPU
    Fault("cpu-build-with-gpu", "cpu-only-build", nvidia("550.127.08"), "healthy", {"cards": [RTX_4090]}, torch=CPU),
    Fault("5090-on-cu124", "gpu-too-new-for-build", nvidia("570.153.02", PCI_5090, opened=True), "healthy", {"driver": "570.153.02", "cuda": "12.8", "cards": [RTX_5090]}, torch={**CU124, "cuda_init": packages.CUDA_WORKS.replace("NVIDIA GeForce RTX 4090", "NVIDIA GeForce RTX 5090").replace("major = 8; minor = 9", "major = 12; minor = 0").replace("return 2", "return 1")}, says=("5090", "sm_120")),
    Fault("v100-on-cu130", "gpu-too-old-for-build", "v100-driver580", "r580", torch={**CU130, "cuda_init": packages.CUDA_WORKS.replace("NVIDIA GeForce RTX 4090", "Tesla V100-PCIE-16GB").replace("major = 8; minor = 9", "major = 7; minor = 0").replace("return 2", "return 1")}, says=("V100", "cu126")),
    Fault("only-the-second-gpu-too-old", "gpu-too-old-for-build", nvidia("580.95.05", PCI_5090, PCI_V100), "healthy", {"driver": "580.95.05", "cuda": "13.0", "cards": [RTX_5090, V100]}, torch=CU130, args=("--quick",), says=("V100",)),
    Fault("cuda-build-on-radeon", "cuda-build-on-non-nvidia", "rocm", torch={**CU128, **NO_GPU}, says=("ROCm",)),
    Fault("jetson-generic-wheel", "jetson-generic-wheel", "jetson-orin", "jetson", torch={"version": "2.9.0+cpu", "cuda": None}),
    # -- platform
    Fault("container-without-gpu", "container-no-gpu", "container-no-gpu", torch={**CU124, **NO_GPU}, says=("--gpus",)),
    Fault("container-without-uvm", "container-device-missing", "container-no-uvm", "healthy", {"cards": [RTX_4090]}, torch={**CU124, **cuda_error("CUDA unknown error")}),
    Fault("rocm-no-rights", "rocm-no-device-access", "rocm-no-access", torch={**ROCM, **cuda_error("No HIP GPUs are available")}, says=("render",)),
    Fault("xpu-no-rights", "xpu-no-device-access", "intel-arc-no-access", torch=XPU, says=("render",)),
    Fault("wsl-linux-driver-inside", "wsl-cuda", "wsl2-driver-inside", "wsl", torch={**CU124, **NO_GPU}),
    # -- import of torch
    Fault("no-avx", "cpu-lacks-avx", "no-avx", torch={**CPU, "init": "import os, signal\nos.kill(os.getpid(), signal.SIGILL)\n"}),
    Fault("segfault-on-import", "torch-import-fails", torch={**CPU, "init": packages.SEGFAULTS}, says=("SIGSEGV",)),
    Fault("import-hangs", "torch-import-fails", torch={**CPU, "init": packages.HANGS}, args=("--timeout", "14"), says=("does not come to an end",)),
    Fault("glibc-too-old", "glibc-too-old", "centos7", torch={**CPU, **raising("ImportError", "/lib64/libc.so.6: version `GLIBC_2.28' not found (required by /opt/x/torch/lib/libtorch_cpu.so)")}, says=("2.17", "2.28")),
    Fault("libstdcxx-too-old", "libstdcxx-too-old", torch={**CPU, **raising("ImportError", "/lib/x86_64-linux-gnu/libstdc++.so.6: version `GLIBCXX_3.4.32' not found (required by /opt/x/torch/lib/libtorch_python.so)")}, says=("GLIBCXX_3.4.32",)),
    Fault("cudnn-missing", "missing-nvidia-wheels", torch={**CU124, **raising("ImportError", "libcudnn.so.9: cannot open shared object file: No such file or directory"), "requires": ("nvidia-cudnn-cu12==9.1.0.70; platform_system == 'Linux'",)}, says=("nvidia-cudnn-cu12",)),
    Fault("nvjitlink-shadowed", "library-path-shadowing", torch={**CU124, **raising("ImportError", "/opt/x/nvidia/cusparse/lib/libcusparse.so.12: undefined symbol: __nvJitLinkComplete_12_4, version libnvJitLink.so.12")}, env={"LD_LIBRARY_PATH": "/usr/local/cuda-12.1/lib64"}, says=("LD_LIBRARY_PATH",)),
    Fault("execstack", "executable-stack-refused", torch={**CPU, **raising("ImportError", "libtorch_cpu.so: cannot enable executable stack as shared object requires: Permission denied")}),
    Fault("ijit", "mkl-ijit-symbol", torch={"version": "2.1.2", "cuda": "12.1", **raising("ImportError", "/opt/conda/lib/python3.11/site-packages/torch/lib/libtorch_cpu.so: undefined symbol: iJIT_NotifyEvent")}, says=("mkl",)),
    Fault("two-openmp", "omp-duplicate-runtime", torch={**CPU, "init": "import os, sys\nsys.stderr.write('OMP: Error #15: Initializing libiomp5.so, but found libomp.so already initialized.\\n')\nsys.stderr.flush()\nos.abort()\n"}),
    # -- installation
    Fault("torch-not-installed", "torch-not-installed", torch=None),
    Fault("another-python-without-torch", "torch-not-installed", torch=None, also=python_on_path),
    Fault("torch-in-another-environment", "wrong-interpreter", torch=None, also=torch_in_other_env, says=("cwd/.venv",)),
    Fault("truncated-install", "corrupted-install", torch={**CU124, **raising("ImportError", "libtorch_cuda.so: cannot open shared object file: No such file or directory")}, also=truncated, says=("libtorch_cuda.so",)),
    Fault("two-metadata-directories", "duplicate-torch-install", torch=CPU, also=two_copies, says=("2.6.0",)),
    Fault("user-site-copy", "user-site-shadowing", torch=None, also=user_copy, says=("1.13.1",)),
    Fault("torch-py-in-cwd", "local-file-shadowing", torch=CPU, also=shadow("torch.py"), says=("torch.py",)),
    Fault("random-py-in-cwd", "local-file-shadowing", torch={**CPU, "init": "import random\n" + packages.WORKS}, also=shadow("random.py"), says=("random.py",)),
    Fault("nccl-of-two-cudas", "conflicting-nvidia-wheels", torch=CU128, also=both_nccl, says=("nvidia-nccl-cu12", "nvidia-nccl-cu13")),
    Fault("torchvision-of-another-torch", "torchvision-mismatch", torch={"version": "2.4.0+cu121", "cuda": "12.1"}, also=dists(("torchvision", "0.20.1+cu124")), says=("0.20.1", "2.4.0")),
    Fault("torchvision-with-cuda-beside-cpu-torch", "torchvision-mismatch", torch=CPU, also=cuda_torchvision, says=("cu128", "cpu", "certain")),
    Fault("torchaudio-of-another-torch", "torchaudio-mismatch", torch={"version": "2.4.0+cu121", "cuda": "12.1"}, also=dists(("torchaudio", "2.1.0")), says=("2.1.0",)),
    Fault("numpy-2-with-old-torch", "numpy-abi-mismatch", torch={"version": "2.1.2+cpu", "cuda": None}, also=dists(("numpy", "2.1.0"),), says=("numpy", "<2")),
)


@pytest.fixture
def doctor(tmp_path: Path, request: pytest.FixtureRequest):
    def call(fault: Fault) -> dict[str, Any]:
        variables = {k: v for k, v in os.environ.items() if k in ("LANG", "TMPDIR", "PYTHONHASHSEED")}
        home, cwd, programs = tmp_path / "home", tmp_path / "cwd", tmp_path / "bin"
        for folder in (home, cwd, programs):
            folder.mkdir()
        python, site = make_venv(tmp_path / "venv")
        variables.update(HOME=str(home), PATH=str(programs), PYTHONDONTWRITEBYTECODE="1")
        if isinstance(fault.torch, dict):
            packages.make_torch(site, **fault.torch)
        kind = fault.tree
        if callable(kind):
            TREE_KINDS["case"] = kind
            kind = "case"
        variables["ENVCHECK_ROOT"] = str(machine_tree(tmp_path, kind))
        if fault.smi is not None:
            fake_smi(programs, fault.smi, **fault.smi_options)
        if fault.libcuda is not None:
            variables["LD_LIBRARY_PATH"] = str(stub_libcuda(tmp_path / "driver", **fault.libcuda))
        if fault.also is not None:
            fault.also(World(site, cwd, home, variables))
        variables.update(fault.env)
        target = request.getfixturevalue("python_with_torch") if fault.torch == "real" else str(python)
        # Not by PYTHONPATH, which the Python under test would see as well.
        starter = tmp_path / "start.py"
        starter.write_text(f"import sys; sys.path[0] = {str(ROOT)!r}; from envcheck.cli import main; main()")
        argv = [sys.executable, starter, "doctor", "--json", "--no-smoke", "--python", target, *fault.args]
        done = run(argv, timeout=170, env=variables, cwd=cwd)
        assert done.status in ("ok", "failed"), done.stderr
        assert done.stdout, done.stderr
        return {**json.loads(done.stdout), "exit": done.returncode}

    return call


@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f.id)
def test_the_cause_is_named_first(fault: Fault, doctor) -> None:
    report = doctor(fault)
    told = [(f["rule"], f["severity"], f["consequence_of"], f["seen"]) for f in report["findings"]]
    first = next((f for f in report["findings"] if f["severity"] != "note"), None)
    assert first is not None, (told, report["skipped"])
    assert first["rule"] == fault.rule, told
    text = json.dumps(first)
    for word in fault.says:
        assert word in text, (word, text)
    assert report["exit"] == (1 if any(f["severity"] == "error" for f in report["findings"]) or report["verdict"] == "unknown" else 0)


def test_there_are_at_least_forty_and_their_names_differ() -> None:
    assert len(FAULTS) >= 40
    assert len({fault.id for fault in FAULTS}) == len(FAULTS)
