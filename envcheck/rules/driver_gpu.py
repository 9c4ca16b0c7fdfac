"""The GPU itself and who may use it: fabric, unknown errors, compute mode, the CPU."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.facts import Facts, Symptom
from envcheck.findings import Finding, Remedy
from envcheck.matrix import Matrix
from envcheck.rules import derive, driver_signs
from envcheck.rules.base import Rule, Unknown, rule
from envcheck.rules.driver_signs import at, cuda_code, detail, only_past, quoted, sign, signs

_CUDA_STARTS = ("cuda-unknown-error", "smoke-failed", "driver-too-old", "cuda-visible-devices", "container-no-gpu")


@rule(
    "fabric-manager-not-running",
    "driver",
    "The NVSwitch fabric of this machine is not ready (fabric manager).",
    explains=(*_CUDA_STARTS, "nccl-network", "nccl-p2p"),
)
def fabric_manager_not_running(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """CUDA error 802, or NVSwitch hardware with a fabric manager that does not run or is of another version."""
    text = sign(facts, "cuda-802")
    fabric = facts.nvidia.fabric
    other = _other_version(facts)
    down = bool(fabric and fabric.needed and fabric.state in ("inactive", "failed", "missing"))
    if text is None and cuda_code(facts) != 802:
        text = sign(facts, "fabric-manager-text")
        if (text is None and not (down or other)) or driver_signs.cuda_works(facts):
            return
    driver = derive.driver_version(facts)
    states = {
        g.fabric_state for g in facts.nvidia.gpus or () if g.fabric_state and g.fabric_state not in ("Completed", "N/A")
    }
    yield rule.finding(
        "error",
        seen=quoted(
            text,
            None if text or not cuda_code(facts) else "cuInit answers 802 (system not yet initialized)",
            f"fabric manager: {fabric.state}" if fabric and fabric.state else None,
            other,
            f"fabric state of the GPUs: {', '.join(sorted(states))}" if states else None,
            f"driver {driver}" if driver else None,
        ),
        why="On machines with NVSwitch (HGX, DGX) CUDA starts only after nvidia-fabricmanager, in exactly the "
        "driver's version, has set up the fabric. Until then every CUDA call answers 802, although nvidia-smi lists "
        "the GPUs.",
        remedy=_fabric_remedy(facts, driver),
        confidence="certain" if down or other or sign(facts, "fabric-manager-text") else "likely",
        otherwise=""
        if down or other
        else "Without NVSwitch (nvidia-smi topo -m shows no NV links) 802 also comes from confidential computing "
        "that is not set ready, and from kernels whose address randomisation collides with nvidia_uvm (dmesg: "
        "request_free_mem_region; boot with nokaslr).",
        line=at(text),
    )


def _other_version(facts: Facts) -> str | None:
    fabric, driver = facts.nvidia.fabric, derive.driver_version(facts)
    if fabric and fabric.version and driver and fabric.version != driver and fabric.needed is not False:
        return f"fabric manager {fabric.version} with driver {driver}"
    return None


def _fabric_remedy(facts: Facts, driver: str | None) -> Remedy:
    branch = (driver or "").split(".")[0] or "NNN"
    text = (
        "Install and start the fabric manager of exactly the driver's version, then see that the fabric state is "
        "Completed."
    )
    if driver_signs.in_container(facts):
        text = "Nothing in the image can mend this: on the host, " + text[0].lower() + text[1:]
    else:
        text += (
            " On a rented machine or in a job queue this is the provider's part: take another node and report this one."
        )
    return Remedy(
        text=text,
        commands=(
            f"sudo apt install nvidia-fabricmanager-{branch}",
            "sudo systemctl enable --now nvidia-fabricmanager",
            "nvidia-smi -q | grep -A 2 -i fabric",
        ),
    )


@rule(
    "nvidia-uvm-missing",
    "driver",
    "The kernel module nvidia_uvm is not loaded, which CUDA needs.",
    explains=("cuda-unknown-error", "smoke-failed", "cuda-visible-devices"),
)
def nvidia_uvm_missing(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Only after CUDA was tried: before its first use the module is normally not loaded."""
    nvidia = facts.nvidia
    if nvidia.uvm_loaded is not False or not nvidia.kernel_module_loaded or facts.system.wsl:
        return
    works = driver_signs.cuda_works(facts)
    if works is None:
        raise Unknown("nobody tried to start CUDA, which loads nvidia_uvm", "run envcheck doctor without --quick")
    if works or driver_signs.in_container(facts):
        return
    yield rule.finding(
        "error",
        seen="nvidia is loaded, nvidia_uvm is not, and CUDA does not start",
        why="CUDA keeps its memory through nvidia_uvm; without it cuInit ends with an unknown error (999).",
        remedy=Remedy(
            text="Load it (nvidia-modprobe does that and makes the device file); if that fails, dmesg says why.",
            commands=("sudo nvidia-modprobe -u -c=0", "sudo modprobe nvidia_uvm", "ls -l /dev/nvidia-uvm"),
        ),
    )


@rule("cuda-unknown-error", "driver", "CUDA cannot start: unknown error of the driver.", explains=("smoke-failed",))
def cuda_unknown_error(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """CUDA error 999 (30 before CUDA 10.1): mostly nvidia_uvm in a bad state after suspend."""
    text = sign(facts, "cuda-unknown")
    if text is None and cuda_code(facts) not in (999, 30):
        return
    if facts.system.wsl or driver_signs.on_mac(facts) or driver_signs.cuda_works(facts):
        return
    hmm = sign(facts, "uvm-hmm-failed")
    hint = "CUDA_VISIBLE_DEVICES" in (text.text if text else "")
    yield rule.finding(
        "error",
        seen=quoted(text, None if text else f"cuInit answers {cuda_code(facts)} (unknown error)", quoted(hmm) or None),
        why="The driver is there and its memory module nvidia_uvm is in a bad state or missing, typically after "
        "suspend and resume, after a driver update or a crash of the GPU."
        + (" The hint about an environment variable in the message has nothing to do with it." if hint else ""),
        remedy=_hmm_remedy() if hmm else _uvm_remedy(facts),
        confidence="likely",
        otherwise=(
            "If it stays after a reboot: sudo dmesg | grep -i -e nvrm -e xid. In a container: /dev/nvidia-uvm has "
            "to be passed in."
        ),
        line=at(text),
    )


def _uvm_remedy(facts: Facts) -> Remedy:
    if facts.system.os == "windows":
        return Remedy(
            text="Restart Windows; if it stays, install the NVIDIA driver anew (clean installation).",
            commands=("nvidia-smi",),
        )
    return Remedy(
        text=f"End the programs that use the GPU and reload the module {driver_signs.on_host(facts)}(reboot if it is "
        "in use). To keep it from coming back after suspend, let the driver save its memory: option "
        "NVreg_PreserveVideoMemoryAllocations=1 and the nvidia-suspend and nvidia-resume services.",
        commands=(
            "sudo rmmod nvidia_uvm && sudo modprobe nvidia_uvm",
            "sudo nvidia-modprobe -u -c=0",
            "sudo systemctl enable nvidia-suspend nvidia-resume",
        ),
    )


def _hmm_remedy() -> Remedy:
    return Remedy(
        text=(
            "nvidia_uvm could not reserve its address range on this kernel: switch its HMM off (or boot with "
            "nokaslr), then reboot."
        ),
        commands=(
            "echo 'options nvidia_uvm uvm_disable_hmm=1' | sudo tee /etc/modprobe.d/nvidia-uvm.conf",
            "sudo reboot",
        ),
    )


@rule(
    "gpu-exclusive-mode",
    "driver",
    "The GPU's compute mode lets no further process in.",
    explains=("smoke-failed", "cuda-visible-devices"),
)
def gpu_exclusive_mode(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """The error of CUDA, or a compute mode that keeps this process out."""
    text = sign(facts, "device-busy")
    if text is not None and facts.system.wsl:
        return  # Windows' driver model has no compute modes
    closed = [
        g
        for g in facts.nvidia.gpus or ()
        if (g.compute_mode or "").lower().startswith(("exclusive", "prohibited", "e."))
    ]
    taken = [g for g in closed if g.processes or (g.compute_mode or "").lower().startswith("prohibited")]
    if text is None and cuda_code(facts) != 46 and (not taken or driver_signs.cuda_works(facts) is not False):
        return
    modes = ", ".join(f"GPU {g.index}: {g.compute_mode}" for g in (taken or closed))
    yield rule.finding(
        "error",
        seen=quoted(text, modes or None),
        why=(
            "In compute mode Exclusive_Process a GPU accepts one process only; every further one is refused, even "
            "with memory left."
        )
        if closed
        else "CUDA refuses the GPU: its compute mode is exclusive and another process has it, or the GPU hangs.",
        remedy=Remedy(
            text=(
                "End the process that has the GPU (nvidia-smi lists it), or set the compute mode to DEFAULT; on a "
                "cluster ask for a GPU of your own."
            ),
            commands=("nvidia-smi -q -d COMPUTE", "sudo nvidia-smi -c DEFAULT"),
        ),
        confidence="certain" if closed else "possible",
        otherwise=""
        if closed
        else "If the compute mode is Default: a GPU that hangs (Xid lines in dmesg, reboot), a vGPU without licence "
        "or with a guest driver that does not fit the host, or MPS (nvidia-cuda-mps-control) that died.",
        line=at(text) or driver_signs.line_of(facts, "nvidia.gpus"),
    )


# Consumer and server lines that have had AVX2 from their first model on; Pentium and Celeron of the same years had not.
_AVX2_CPUS = re.compile(
    r"\b(?:Ryzen|EPYC|Threadripper|Core(?:\(TM\))? Ultra)\b|\b1[0-5]th Gen Intel\(R\) Core|\bi[3579]-(?:[4-9]\d{3}|1\d{4})"
    r"|\bE[357]-\d{4}L? v[3-6]\b|Xeon(?:\(R\))? (?:Bronze|Silver|Gold|Platinum|W-\d|E-2\d)",
    re.IGNORECASE,
)
_OLD_CPUS = re.compile(
    r"QEMU Virtual CPU|Common KVM processor|cpu64|kvm64|qemu64|Celeron|Pentium|Atom|Core\(TM\)2|Core 2"
    r"|Xeon\(R\) CPU\s+[XELW]\d{4}|Phenom|Athlon|Opteron\(tm\) Processor (?:2|4|6|8)1|"
    r"Westmere|Nehalem|Penryn",
    re.IGNORECASE,
)


@rule("cpu-lacks-avx", "driver", "The CPU lacks instructions (AVX) that this build uses.", explains=("smoke-failed",))
def cpu_lacks_avx(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """A program that ended with an illegal instruction, and a CPU (or a virtual one) without AVX or AVX2."""
    system = facts.system
    stopped = _stopped(facts)
    imports = facts.torch.imports
    crashed = imports is not None and (imports.signal or "") in ("SIGILL", "STATUS_ILLEGAL_INSTRUCTION")
    arm = system.machine is None and sign(facts, "arm-cpu") is not None
    x86 = (system.machine or "x86_64") in ("x86_64", "i686") and not arm
    lacks = _lacking(facts) if x86 else ()
    if stopped is None and not crashed:
        if "avx" in lacks and system.os != "macos":
            yield _slow_without_avx(rule, facts)
        return
    if not x86 and not facts.system.rosetta:
        return
    known = bool(lacks) or bool(system.cpu_model and _OLD_CPUS.search(system.cpu_model))
    if system.cpu_flags is not None and not lacks and not known:
        return  # it has AVX2: something else stopped the program
    virtual = (
        system.virtual_machine not in (None, "none")
        or "qemu" in (system.cpu_model or "").lower()
        or "kvm" in (system.cpu_model or "").lower()
    )
    if not known and not virtual and _AVX2_CPUS.search(system.cpu_model or ""):
        return  # such a CPU runs torch; what stopped was built for a newer one (AVX-512, -march=native)
    yield rule.finding(
        "error",
        seen=quoted(
            stopped,
            "import torch ended with an illegal instruction" if crashed and stopped is None else None,
            f"CPU: {system.cpu_model}" if system.cpu_model else None,
            f"its flags lack {' and '.join(lacks)}" if lacks else None,
        ),
        why=(
            "torch's x86 binaries contain code for AVX and AVX2, in places without a test whether the CPU has them; "
            "a CPU without them stops the program."
        )
        + (
            " A virtual machine shows only the features that its CPU model names, not those of the host."
            if virtual
            else ""
        ),
        remedy=_avx_remedy(facts, virtual=virtual),
        confidence="certain" if known else "likely",
        otherwise=""
        if known
        else (
            "See whether avx2 is among the flags (grep -o -w avx2 /proc/cpuinfo | head -1); if it is, another "
            "library stopped the program."
        ),
        line=at(stopped),
    )


def _stopped(facts: Facts) -> Symptom | None:
    """An illegal instruction that is asked about; a live machine's kernel log keeps those of programs long since mended."""
    return next((s for s in signs(facts, "illegal-instruction") if not only_past(facts, s)), None)


def _lacking(facts: Facts) -> tuple[str, ...]:
    flags = facts.system.cpu_flags
    return tuple(name for name in ("avx", "avx2") if name not in flags) if flags is not None else ()


def _avx_remedy(facts: Facts, *, virtual: bool) -> Remedy:
    if facts.system.rosetta:
        return Remedy(
            text="This is an x86_64 Python under Rosetta, which has no AVX before macOS 15: use an arm64 Python.",
            commands=("python -c 'import platform; print(platform.machine())'",),
        )
    first = (
        (
            "Give the virtual machine the host's CPU model (QEMU/libvirt: -cpu host or host-passthrough, Proxmox: "
            "CPU type host) and start it anew. "
        )
        if virtual
        else "Run it on a CPU with AVX2. "
    )
    return Remedy(
        text=first
        + (
            "Where that is impossible: ATEN_CPU_CAPABILITY=default keeps torch's own kernels from AVX, which helps "
            "with many releases; else build torch on that CPU."
        ),
        commands=(
            "grep -o -w -e avx -e avx2 /proc/cpuinfo | sort | uniq -c",
            "ATEN_CPU_CAPABILITY=default python -c 'import torch; print(torch.rand(3) + 1)'",
        ),
    )


def _slow_without_avx(rule: Rule, facts: Facts) -> Finding:
    return rule.finding(
        "note",
        title="The CPU has no AVX.",
        seen=quoted(None, f"CPU: {facts.system.cpu_model or 'unknown'}", "no avx among its flags"),
        why="torch falls back to slow code; some packages built for AVX stop with an illegal instruction.",
        remedy=Remedy(text="In a virtual machine: give it the host's CPU model."),
    )


# ARMv8.0: without the atomic instructions (LSE) and all that came after them. Source: ARM's manuals of the cores.
_FIRST_ARMV8 = re.compile(
    r"Cortex-A(?:3[25]|53|57|72|73)\b|BCM2(?:711|837)|Raspberry Pi (?:Zero 2|[234])\b", re.IGNORECASE
)

_TOO_NEW_FOR_ARMV8 = ((2, 4, 0), (2, 10, 0))
"""Releases whose wheels for ARM stop there. Source: pytorch/pytorch issues 132032 and 176993."""


@rule(
    "arm-cpu-too-old",
    "driver",
    "The ARM CPU lacks instructions that this build uses.",
    explains=("smoke-failed", "torch-import-fails"),
)
def arm_cpu_too_old(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """An illegal instruction on a core of ARMv8.0, such as a Raspberry Pi 4's."""
    stopped, imports = _stopped(facts), facts.torch.imports
    crashed = imports is not None and imports.signal == "SIGILL"
    if (stopped is None and not crashed) or facts.system.machine not in (None, "aarch64"):
        return
    named = next((a for a in signs(facts, "arm-cpu") if detail(a, "board", "core")), None)
    board, core = detail(named, "board"), detail(named, "core")
    model = facts.system.cpu_model or (f"Raspberry Pi {board}" if board else f"Cortex-A{core}" if core else "")
    # A Raspberry Pi without its number: the fifth alone is newer.
    some_pi = not model and any(detail(a, "pi") for a in signs(facts, "arm-cpu"))
    inside = not model and any(detail(a, "library") for a in signs(facts, "arm-cpu"))  # it stopped in ARM's own library
    if not some_pi and not inside and not _FIRST_ARMV8.search(model):
        return
    version = derive.torch_version(facts)
    known = bool(version) and derive.numbers(version)[:3] in _TOO_NEW_FOR_ARMV8
    yield rule.finding(
        "error",
        seen=quoted(
            stopped,
            "import torch ended with an illegal instruction" if crashed and stopped is None else None,
            f"CPU: {model or 'a Raspberry Pi'}" if model or some_pi else "in ARM's library of kernels (libarm_compute)",
            f"torch {version}" if version else None,
        ),
        why=("Its cores are" if model else "A Raspberry Pi up to the fourth, and boards of its time, have cores")
        + " of the first version of ARMv8. A library of some releases was compiled for a later one (atomic instructions, dot "
        "products) without a test; torch 2.4.0 and 2.10.0 for ARM were among them; 2.3.1 and 2.11.0 run.",
        remedy=Remedy(
            text="Install the release before or after this one from PyPI; if it is another wheel (of a distribution, of somebody's own, or one "
            "that was built on a newer board), take PyTorch's. A build on this machine fits it for sure.",
            commands=("lscpu | grep -e 'Model name' -e Flags", "python -X faulthandler -c 'import torch; print(torch.rand(3) @ torch.rand(3))'"),
        ),
        confidence="likely" if known or model or inside else "possible",
        otherwise="The traceback of the crash (faulthandler, gdb) names the library: it may be another package's.",
        line=at(stopped),
    )  # fmt: skip


RULES: tuple[Rule, ...] = (
    fabric_manager_not_running,
    nvidia_uvm_missing,
    cuda_unknown_error,
    gpu_exclusive_mode,
    cpu_lacks_avx,
    arm_cpu_too_old,
)
