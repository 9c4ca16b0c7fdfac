"""What serves CUDA beside the driver itself: the MPS daemon, the compiler for PTX, the licence of a vGPU."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.facts import Facts, NvidiaGpu, Symptom
from envcheck.findings import Finding, Remedy
from envcheck.matrix import Matrix
from envcheck.rules import derive, driver_signs
from envcheck.rules.base import Rule, rule
from envcheck.rules.driver_signs import at, cuda_code, detail, quoted, sign
from envcheck.rules.library_loader import base_name, loader_errors

_CUDA_FAILS = ("cuda-visible-devices", "cuda-unknown-error", "gpu-exclusive-mode", "smoke-failed", "cuda-init-fails")

# Source: cuda.h and driver_types.h, numbers 805 to 810; docs.nvidia.com: deploy/mps.
_MPS_CODES = {805: "connect", 806: "ready", 807: "ready", 808: "full", 809: "full", 810: "ended"}
_MPS_WHY = {
    "connect": "A control pipe of MPS is where CUDA looks for one (CUDA_MPS_PIPE_DIRECTORY, else /tmp/nvidia-mps), so the program "
    "goes through the daemon, and no daemon answers there: it ended and left its pipe behind, it belongs to another user, or a "
    "container sees its pipe without sharing the host's IPC.",
    "ready": "The MPS server that serves the program is down or recovers from a fault of one of its clients; a fault of one can end all.",
    "full": "One MPS server takes a limited number of clients (16 for a GPU before Volta, 48 or more from Volta on, by GPU) and of connections.",
    "ended": "The MPS server ended this client: another client of the same server failed, or the daemon was told to quit.",
}


@rule(
    "cuda-mps-daemon",
    "driver",
    "CUDA goes through the MPS daemon, and the daemon does not serve this program.",
    explains=_CUDA_FAILS,
)
def cuda_mps_daemon(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """CUDA errors 805 to 810, in words or as the result of cuInit."""
    text = sign(facts, "cuda-mps")
    code = cuda_code(facts)
    told = (name for name in ("connect", "ready", "full", "ended") if detail(text, name))
    which = next(told, None) or _MPS_CODES.get(code or 0)
    if which is None:
        return
    pipe = facts.variable("CUDA_MPS_PIPE_DIRECTORY")
    yield rule.finding(
        "error",
        seen=quoted(
            text,
            f"cuInit answers {code}" if text is None else None,
            f"CUDA_MPS_PIPE_DIRECTORY={pipe}" if pipe else None,
        ),
        why=f"{_MPS_WHY[which]} (MPS here is NVIDIA's Multi-Process Service, not Apple's Metal.)",
        remedy=_mps_remedy(facts, which, pipe),
        line=at(text),
    )  # fmt: skip


def _mps_remedy(facts: Facts, which: str, pipe: str | None) -> Remedy:
    directory = pipe or "/tmp/nvidia-mps"  # noqa: S108 - where CUDA itself looks
    if which == "full":
        return Remedy(
            text="Start fewer processes on the GPU (DataLoader workers that touch CUDA count, too), or run this one without MPS: with "
            "CUDA_MPS_PIPE_DIRECTORY set to a directory in which no daemon listens.",
            commands=("echo ps | nvidia-cuda-mps-control", "nvidia-smi"),
        )
    inside = (
        " In a container: hand in the host's pipe directory and share its IPC (docker run -v "
        f"{directory}:{directory} --ipc=host, the same user), or set CUDA_MPS_PIPE_DIRECTORY to an empty directory there."
        if driver_signs.in_container(facts)
        else ""
    )
    return Remedy(
        text="Without MPS: end the daemon, and remove its pipe directory or unset CUDA_MPS_PIPE_DIRECTORY; then CUDA uses the GPU "
        "directly. With MPS: end the daemon and its clients and start it again, as the user whose programs it is to serve."
        + inside,
        commands=(
            "echo quit | nvidia-cuda-mps-control",
            f"ls -l {directory}",
            "pgrep -a nvidia-cuda-mps",
            "nvidia-cuda-mps-control -d",
        ),
    )


@rule(
    "ptx-jit-compiler-missing",
    "driver",
    "The part of the NVIDIA driver that compiles PTX (libnvidia-ptxjitcompiler) is not found.",
    explains=("smoke-failed", "cuda-init-fails", "library-path-shadowing"),
)
def ptx_jit_compiler_missing(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """CUDA error 221, or the loader's word about the library."""
    text = sign(facts, "ptx-jit-missing")
    if text is None:
        text = next(
            (
                error.symptom
                for error in loader_errors(facts)
                if error.kind == "missing-library"
                and not error.symptom.echo
                and base_name(error.library or "").startswith("libnvidia-ptxjitcompiler")
            ),
            None,
        )
    if text is None:
        return
    driver = derive.driver_version(facts)
    branch = driver.split(".")[0] if driver else "NNN"
    container, jetson = driver_signs.in_container(facts), derive.is_jetson(facts)
    if jetson:
        how = "On a Jetson the library is in the package nvidia-l4t-3d-core of the same L4T release; install it, or flash JetPack anew."
        commands: tuple[str, ...] = (
            "find / -name 'libnvidia-ptxjitcompiler*' 2>/dev/null",
            "sudo apt install nvidia-l4t-3d-core",
        )
    elif container:
        how = (
            "The toolkit mounts the library from the host with the driver's capability compute: leave NVIDIA_DRIVER_CAPABILITIES unset "
            "or set it to compute,utility, and install the driver on the host completely."
        )
        commands = ("ldconfig -p | grep ptxjit", "echo $NVIDIA_DRIVER_CAPABILITIES")
    else:
        how = (
            f"Install the driver's libraries completely and in one version (Ubuntu: libnvidia-compute-{branch}; Debian: "
            "libnvidia-ptxjitcompiler1; Fedora: xorg-x11-drv-nvidia-cuda-libs), and let the loader find them beside libcuda.so.1."
        )
        commands = ("ldconfig -p | grep -e libcuda.so -e ptxjit", "cat /proc/driver/nvidia/version")
    yield rule.finding(
        "error",
        seen=quoted(text, f"driver {driver}" if driver else None),
        why="Code that is not compiled for this GPU yet (PTX: of a build for older GPUs, of Triton, Numba, CuPy or JAX) is translated by the "
        "driver, which loads libnvidia-ptxjitcompiler.so.1 for that. Only this library is missing, or hidden: CUDA itself starts.",
        remedy=Remedy(text=how, commands=commands),
        otherwise="A torch build with code for this GPU needs the compiler for none of its own kernels.",
        line=at(text),
    )  # fmt: skip


@rule(
    "vgpu-unlicensed",
    "driver",
    "The virtual GPU has no licence, and NVIDIA's driver restricts it.",
    explains=_CUDA_FAILS,
)
def vgpu_unlicensed(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """nvidia-smi -q in the guest, nvidia-gridd in its log; a whole GPU with vGPU software computes without one."""
    gpu = next((g for g in facts.nvidia.gpus or () if (g.license or "").startswith("Unlicensed")), None)
    text = sign(facts, "vgpu-unlicensed")
    if driver_signs.only_past(facts, text):
        text = None
    if gpu is None and (text is None or sign(facts, "vgpu-licensed") is not None):
        return
    kind = _virtual(facts, gpu)
    state = (gpu.license if gpu is not None else None) or f"Unlicensed ({detail(text, 'state')})"
    fails = sign(facts, "device-busy", "cuda-not-supported", "cuda-unknown", *driver_signs.NO_CUDA_KINDS)
    refused = detail(text, "refused") is not None
    failing = fails is not None or refused or driver_signs.cuda_works(facts) is False
    if refused:
        kind = True
    if kind is False:
        return  # a whole GPU: the licence is for graphics only, and whatever fails has another cause
    if "unrestricted" in state.lower() and not refused:
        severity, confidence = "note", "certain"
    else:
        # A whole GPU can say "Restricted", too: where nothing tells the kind, only a failing CUDA makes it an error.
        told = kind or text is not None
        severity = "error" if failing or (told and "(restricted)" in state.lower()) else "warning"
        sure = refused or (kind and "(restricted)" in state.lower())
        confidence = "certain" if sure else "likely"
    yield rule.finding(
        severity,
        title="The virtual GPU has no licence yet; its time of grace is running." if severity == "note" else "",
        seen=quoted(
            text,
            f"{gpu.name or 'GPU'}: {gpu.license}" if gpu is not None and text is None else None,
            f'"{fails.text}"' if fails is not None and fails is not text else None,
        ),
        why="A vGPU runs with full power for a while after its start; without a licence the driver then slows it down and at last "
        "switches CUDA off, while nvidia-smi goes on showing a healthy GPU.",
        remedy=Remedy(
            text="Have the administrator give the machine a licence that fits the profile (C profiles: vCS or NVIDIA AI Enterprise; Q "
            "profiles: RTX vWS). In the guest: the token in /etc/nvidia/ClientConfigToken, FeatureType in /etc/nvidia/gridd.conf, a clock "
            "that is right, and the way to the licence server; then restart nvidia-gridd, and the programs that use the GPU.",
            commands=(
                "nvidia-smi -q | grep -i -A 2 'licensed product'",
                "sudo systemctl restart nvidia-gridd",
                "sudo journalctl -u nvidia-gridd -b | tail -20",
            ),
        ),
        confidence=confidence,
        otherwise="" if kind else "On a whole GPU (pass-through, bare metal) CUDA needs no licence: nvidia-smi -q | grep -i 'virtualization mode'.",
        line=at(text) or driver_signs.line_of(facts, "nvidia.gpus"),
    )  # fmt: skip


_PROFILE = re.compile(r"^(?:NVIDIA |GRID )?[\w ]{1,40}-\d{1,3}[ABCQ](?:-\w+)?$|^GRID \w+-", re.IGNORECASE)


def _virtual(facts: Facts, gpu: NvidiaGpu | None) -> bool | None:
    """Whether this is a vGPU; None when the report does not tell."""
    modes = {(g.virtualization or "").lower() for g in ((gpu,) if gpu else facts.nvidia.gpus or ())} - {""}
    shown: Symptom | None = sign(facts, "gpu-virtualization")
    if shown is not None:
        modes.add((detail(shown, "mode") or "").lower())
    if any(_PROFILE.match(g.name or "") for g in ((gpu,) if gpu else facts.nvidia.gpus or ())) or "vgpu" in modes:
        return True
    return False if modes else None


RULES: tuple[Rule, ...] = (cuda_mps_daemon, ptx_jit_compiler_missing, vgpu_unlicensed)
