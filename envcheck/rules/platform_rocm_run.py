"""AMD and Intel GPUs at work: a GPU that hangs, MIOpen that cannot build or keep its kernels, hipBLASLt without one."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.facts import Facts, Symptom
from envcheck.findings import Finding, Remedy
from envcheck.matrix import Matrix
from envcheck.rules import derive
from envcheck.rules.base import Rule, rule
from envcheck.rules.driver_signs import at, detail, only_past, quoted, sign, signs


def _override(facts: Facts) -> str | None:
    return facts.variable("HSA_OVERRIDE_GFX_VERSION") or facts.amd.hsa_override


@rule(
    "gpu-hang",
    "platform",
    "The GPU hung, and its driver reset it.",
    explains=("smoke-failed", "nccl-timeout", "illegal-memory-access"),
)
def gpu_hang(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """ROCr's last word, the kernel's reset of an AMD or Intel GPU, or a device that SYCL lost."""
    found = [item for item in signs(facts, "gpu-hang") if not only_past(facts, item)]
    text = next((item for item in found if not detail(item, "exception")), found[0] if found else None)
    if text is None:
        return
    intel, bus = detail(text, "intel"), any(detail(item, "bus") for item in found)
    override = _override(facts)
    # An exception of a wave is what a trap or an instruction of another chip raises; the GPU itself need not hang.
    trap = all(detail(item, "exception") for item in found)
    yield rule.finding(
        "error",
        title="A kernel raised an exception on the GPU." if trap else "",
        seen=quoted(
            text,
            *(f'"{item.text}"' for item in found if item is not text and item.source == "kernel log"),
            f"HSA_OVERRIDE_GFX_VERSION={override}" if override else None,
        ),
        why="The GPU left its bus: power, slot, cable or the card itself."
        if bus
        else (
            "A kernel did not come to an end in time or broke the GPU's scheduler, so the driver ended every program on it. Behind it "
            "is a fault of driver, firmware or a kernel for this chip"
            + (", here most likely the override, which runs the code of another chip" if override else "")
            + ", or a card that is too hot or short of power; the program's own code seldom is."
        ),
        remedy=_remedy(facts, intel=bool(intel), override=override, bus=bus),
        confidence="certain" if not trap else "likely",
        otherwise="" if not trap else "An assertion in a kernel (an index out of range) ends in the same exception: AMD_SERIALIZE_KERNEL=3 shows the call.",
        line=at(text),
    )  # fmt: skip


def _remedy(facts: Facts, *, intel: bool, override: str | None, bus: bool) -> Remedy:
    if bus:
        return Remedy(
            text="Power the machine off and on again; check power supply, cables, slot and temperature, then the card in another machine.",
            commands=("sudo dmesg | grep -i -e amdgpu -e aer",),
        )
    if intel:
        return Remedy(
            text="Restart the program (after a reset no other step is needed). If it comes back: the newest kernel and Intel GPU driver, a "
            "newer torch, smaller launches (batch size); on Windows the graphics driver of Intel's own page, and a longer TdrDelay for "
            "kernels that need more than two seconds.",
            commands=("sudo dmesg | grep -i -e i915 -e ' xe '", "xpu-smi discovery"),
        )
    unset = "Unset HSA_OVERRIDE_GFX_VERSION and use a torch build with code for this chip. " if override else ""
    return Remedy(
        text=f"{unset}Restart the program; if the GPU stays stuck, reboot. Against its coming back: the newest kernel, linux-firmware and "
        "ROCm build of torch, factory clocks and power limit; for a graphics unit in a processor more memory for it in the BIOS; and try "
        "smaller launches (batch size), for a card that also drives a screen is reset after a few seconds of one kernel.",
        commands=(
            "sudo dmesg | grep -i amdgpu | tail -40",
            "rocm-smi --showtemp --showpower",
            "cat /sys/module/amdgpu/version; uname -r",
        ),
    )


# -- MIOpen ------------------------------------------------------------------------------------------------------------


@rule(
    "miopen-failed",
    "platform",
    "MIOpen, ROCm's library for convolutions and normalisation, failed.",
    explains=("smoke-failed",),
)
def miopen_failed(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Its database of kernels, the compiler that makes one when it is first wanted, or a bare status."""
    database, status = sign(facts, "miopen-database"), sign(facts, "miopen-status")
    build = next(
        (b for name in ("header", "isa", "build") for b in signs(facts, "miopen-build") if detail(b, name)), None
    )
    if database is not None:
        yield _database(rule, database, status)
    elif build is not None:
        yield _build(rule, facts, build, status)
    elif status is not None:
        yield _bare(rule, status)


def _database(rule: Rule, text: Symptom, status: Symptom | None) -> Finding:
    reason = (detail(text, "reason", "reason2") or "").lower()
    return rule.finding(
        "warning" if status is None else "error",  # MIOpen logs the same as a warning and goes on without it
        title=f"MIOpen cannot use its database of kernels: {reason}." if reason else "",
        seen=quoted(text, f'"{status.text}"' if status is not None else None),
        why="MIOpen keeps compiled kernels and its choices in SQLite files below ~/.config/miopen and ~/.cache/miopen. A home on a network "
        "disk, many processes at once, a read-only image or a home of another user make them fail.",
        remedy=Remedy(
            text="Give it a directory of this machine that this user may write, one for each process where many start at once; move broken "
            "files away.",
            commands=(
                "export MIOPEN_USER_DB_PATH=/tmp/miopen-$USER MIOPEN_CUSTOM_CACHE_DIR=/tmp/miopen-$USER",
                "mkdir -p $MIOPEN_USER_DB_PATH",
                "export MIOPEN_DEBUG_DISABLE_SQL_WAL=1",
            ),
        ),
        confidence="likely" if status is None else "certain",
        otherwise="" if status is not None else "If the program goes on after the line, it was a warning: convolutions are only tuned anew.",
        line=at(text),
    )  # fmt: skip


def _build(rule: Rule, facts: Facts, text: Symptom, status: Symptom | None) -> Finding:
    header, target = detail(text, "file"), detail(text, "target")
    windows = derive.wheel_os(facts) == "windows" or "\\" in text.text
    if header is not None:
        own = "/" in header
        why = f"MIOpen compiles the kernel on this machine, and the compiler does not find {header}, a header of " + (
            "ROCm." if own else "the C++ library."
        )
        how = (
            "Install the development files of the same ROCm release, or a torch build of another release, whose MIOpen does not need them."
            if own
            else "Use a torch build whose ROCm brings the headers (another release), or install a C++ compiler with its library."
            if windows
            else "Install the C++ headers of the GCC that the compiler picks (the newest one that has a directory below /usr/lib/gcc)."
        )
        commands: tuple[str, ...] = (
            () if windows else ("sudo apt install rocrand-dev",) if own else ("ls /usr/lib/gcc/x86_64-linux-gnu", "sudo apt install libstdc++-12-dev")
        )  # fmt: skip
    elif target is not None:
        why = f"The compiler that MIOpen loaded (libamd_comgr) does not know the target {target} by that name: it is of another ROCm release."
        how = (
            "Let one ROCm be found only: torch's own. Take /opt/rocm/lib off LD_LIBRARY_PATH, or take a build of torch for the ROCm release "
            "that is installed; if it is torch's own, take a release of torch whose ROCm supports this chip."
        )
        commands = ("unset LD_LIBRARY_PATH",)
    else:
        why = "MIOpen compiles a kernel when it is first wanted, and that failed; the compiler's lines above the error say where."
        how = (
            "Empty MIOpen's caches and try again; then a newer torch with a newer ROCm. Until then: torch.backends.cudnn.enabled = False lets "
            "torch use its own kernels (it is MIOpen's switch, too)."
        )
        commands = () if windows else ("rm -r ~/.cache/miopen ~/.config/miopen",)
    return rule.finding(
        "error",
        title=f"MIOpen cannot compile a kernel{f': {header} is missing' if header else ''}.",
        seen=quoted(text, f'"{status.text}"' if status is not None else None),
        why=why,
        remedy=Remedy(text=how, commands=commands),
        confidence="certain" if header else "likely",
        line=at(text),
    )


def _bare(rule: Rule, status: Symptom) -> Finding:
    return rule.finding(
        "error",
        seen=quoted(status),
        why="The status names no cause; MIOpen's log does: its database, its compiler, memory, or a chip that this ROCm does not support.",
        remedy=Remedy(
            text="Run it once with MIOpen's log switched on, and read its first Error line. torch.backends.cudnn.enabled = False is MIOpen's "
            "switch in torch: if the program runs with it, only MIOpen is at fault.",
            commands=("MIOPEN_ENABLE_LOGGING=1 MIOPEN_LOG_LEVEL=5 python your_script.py", "rocminfo | grep gfx"),
        ),
        confidence="possible",
        otherwise="Memory that is nearly full ends so, too: try a smaller batch.",
        line=at(status),
    )


@rule(
    "hipblaslt-unsupported",
    "platform",
    "hipBLASLt has no kernel for this multiplication on this GPU.",
    explains=("smoke-failed",),
)
def hipblaslt_unsupported(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """HIPBLAS_STATUS_NOT_SUPPORTED out of torch's path for hipBLASLt."""
    text = sign(facts, "hipblaslt")
    if text is None:
        return
    version = derive.torch_version(facts)
    old = version is not None and derive.numbers(version) < (2, 4)
    yield rule.finding(
        "error",
        seen=quoted(text, f"torch {version}" if version else None),
        why="torch asked hipBLASLt for an algorithm and got none: the library has kernels for a few chips only (data-centre cards first, "
        "gfx11 and gfx12 in newer ROCm), and not for every type and shape.",
        remedy=Remedy(
            text="Start Python with TORCH_BLAS_PREFER_HIPBLASLT=0 in its environment: torch then uses rocBLAS. "
            + (
                "This torch is too old for the variable; 2.4 and newer know it. "
                if old
                else "torch 2.4 and newer know it. "
            )
            + "A newer torch asks hipBLASLt only on chips that it serves. For float8 there is no other library: the chip has to have it.",
            commands=("TORCH_BLAS_PREFER_HIPBLASLT=0 python your_script.py", "rocminfo | grep gfx"),
        ),
        confidence="likely",
        otherwise="A shape with more than 2**31 elements or batches, or a type that the chip lacks, is refused in the same words.",
        line=at(text),
    )


RULES: tuple[Rule, ...] = (gpu_hang, miopen_failed, hipblaslt_unsupported)
