"""The machine in a few lines: Facts as labelled text, for the console and for HTML. Nothing is judged here."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePath

from envcheck.facts import Check, Facts, NvidiaGpu

GIB = 1024**3


def summary(facts: Facts) -> list[tuple[str, str]]:
    """(label, text) lines; a line about which nothing is known is left out."""
    lines = [
        ("machine", _machine(facts)),
        *(("gpu", line) for line in _gpus(facts)),
        ("driver", _driver(facts)),
        ("python", _python(facts)),
        ("torch", _torch(facts)),
        ("cuda", _cuda_versions(facts)),
        ("tests", tests(facts.checks)),
    ]
    return [(label, text) for label, text in lines if text]


def size(count: int | None) -> str:
    """Bytes as a person reads them: "24 GiB", "512 MiB"; "" when unknown."""
    if count is None:
        return ""
    if count >= 10 * GIB:
        return f"{count / GIB:.0f} GiB"
    return f"{count / GIB:.1f} GiB" if count >= GIB else f"{count / 1024**2:.0f} MiB"


def _join(parts: Iterable[str | None]) -> str:
    return ", ".join(part for part in parts if part)


def _machine(facts: Facts) -> str:
    system = facts.system
    where = system.container if system.container not in (None, "none") else None
    virtual = system.virtual_machine if system.virtual_machine not in (None, "none") else None
    libc = f"{system.libc} {system.libc_version}" if system.libc and system.libc_version else system.libc
    cores = system.cores_usable or system.cores_logical
    return _join(
        (
            system.name or system.os,
            f"WSL {system.wsl}" if system.wsl else None,
            system.jetson_model,
            f"L4T {system.l4t}" if system.l4t else None,
            system.machine,
            facts.apple.chip if system.os == "macos" else system.cpu_model,
            libc,
            f"{cores} cores" if cores else None,
            f"{size(system.ram)} RAM" if system.ram else None,
            f"container ({where})" if where else None,
            f"virtual machine ({virtual})" if virtual else None,
        )
    )


def _gpus(facts: Facts) -> list[str]:
    lines = [_nvidia_gpu(gpu) for gpu in facts.nvidia.gpus or ()]
    if not lines:
        seen = [d for d in facts.torch.devices or () if d.kind == "cuda"]
        lines = [
            _join((d.name, f"compute capability {d.compute_capability}" if d.compute_capability else d.gfx))
            for d in seen
        ]
    lines += [_join((gpu.name, gpu.gfx, size(gpu.memory_total))) for gpu in facts.amd.gpus or ()]
    lines += list(facts.intel.gpus or ())
    if not lines:
        vendors = {"10de": "NVIDIA", "1002": "AMD", "8086": "Intel"}
        lines = [
            _join(
                (
                    pci.name or f"{vendors[pci.vendor_id]} device {pci.device_id}",
                    "no driver" if pci.driver == "" else pci.driver,
                )
            )
            for pci in facts.pci or ()
            if pci.vendor_id in ("10de", "1002")
        ]
    if not lines and facts.origin == "live" and facts.pci is not None and facts.system.os != "macos":
        return ["none that torch could use is seen"]
    if len(lines) > 1 and len(set(lines)) == 1:
        return [f"{len(lines)} x {lines[0]}"]
    return lines


def _nvidia_gpu(gpu: NvidiaGpu) -> str:
    return _join(
        (
            gpu.name or "NVIDIA GPU (name unknown)",
            f"compute capability {gpu.compute_capability}" if gpu.compute_capability else None,
            size(gpu.memory_total),
            "MIG on" if gpu.mig else None,
            gpu.driver_model if gpu.driver_model not in (None, "WDDM", "N/A") else None,
            gpu.error,
        )
    )


def _driver(facts: Facts) -> str:
    nvidia = facts.nvidia
    version = nvidia.driver_version or nvidia.kernel_driver_version
    parts: list[str | None] = []
    if version:
        parts.append(f"NVIDIA {version}")
        if nvidia.kernel_driver_version and nvidia.kernel_driver_version != version:
            parts.append(f"kernel module {nvidia.kernel_driver_version}")
        if nvidia.kernel_module_open:
            parts.append("open kernel module")
    if facts.amd.rocm_version:
        parts.append(f"ROCm {facts.amd.rocm_version}")
    return _join(parts)


def _python(facts: Facts) -> str:
    python = facts.python
    if not python.version and not python.executable:
        return ""
    bits = f"{python.bits}-bit" if python.bits == 32 else None
    kind = {"venv": "venv", "conda": "conda", "system": "system Python"}.get(python.kind or "", python.kind)
    if python.kind == "conda" and python.conda_env:
        kind = f"conda environment {python.conda_env}"
    return _join(
        (
            f"{python.version or '?'}{'t' if python.free_threaded else ''}",
            bits,
            python.machine if python.machine != facts.system.machine else None,
            kind,
            python.executable,
        )
    )


def _torch(facts: Facts) -> str:
    torch = facts.torch
    if not torch.version:
        return "not found in this Python" if torch.found is False else ""
    others = [
        f"{name} {found.version}"
        for name in ("torchvision", "torchaudio", "triton", "numpy")
        if (found := facts.distribution(name)) is not None and found.version
    ]
    where = f"in {PurePath(torch.location).parent}" if torch.location and facts.python.prefix is None else None
    return _join(
        (
            torch.version,
            build_kind(facts),
            f"{'MIOpen' if torch.hip else 'cuDNN'} {torch.cudnn}" if torch.cudnn else None,
            *others,
            where,
        )
    )


def build_kind(facts: Facts) -> str | None:
    """ "CUDA 12.8 build", "ROCm 6.4 build", "CPU build" ... None when unknown."""
    torch = facts.torch
    if torch.cuda:
        return f"CUDA {torch.cuda} build"
    if torch.hip:
        return f"ROCm {torch.hip} build"
    if torch.xpu:
        return "XPU build"
    if torch.cuda == "" and torch.hip in ("", None):
        return "macOS build" if facts.system.os == "macos" else "CPU build"
    return None


def _cuda_versions(facts: Facts) -> str:
    """The three CUDA numbers that people mix up, side by side, each with what it is."""
    nvcc = facts.toolchain.nvcc_version
    if not (facts.nvidia.driver_cuda or facts.torch.cuda):
        return ""
    return _join(
        (
            f"driver runs up to {facts.nvidia.driver_cuda}" if facts.nvidia.driver_cuda else None,
            f"torch brings {facts.torch.cuda}" if facts.torch.cuda else None,
            f"nvcc {nvcc} (only for building extensions)" if nvcc else None,
        )
    )


def tests(checks: Iterable[Check] | None) -> str:
    """ "18 passed, 1 failed, 2 skipped on cpu, cuda:0 (2.1 s)"; "" when none were run."""
    checks = tuple(checks or ())
    if not checks:
        return ""
    counts: dict[str, int] = {}
    for check in checks:
        counts[check.status] = counts.get(check.status, 0) + 1
    order = ("passed", "failed", "crashed", "timeout", "skipped")
    devices = list(dict.fromkeys(check.device for check in checks))
    seconds = sum(check.seconds or 0.0 for check in checks)
    told = ", ".join(f"{counts[s]} {s}" for s in order if s in counts)
    return f"{told} on {', '.join(devices)} ({seconds:.1f} s)"
