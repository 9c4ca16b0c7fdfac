"""WSL: the Windows driver behind a Linux system, and its limits."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.facts import Facts, Symptom
from envcheck.findings import Finding, Remedy
from envcheck.matrix import Matrix
from envcheck.rules import derive, driver_signs
from envcheck.rules.base import Rule, rule
from envcheck.rules.driver_signs import at, cuda_code, quoted, sign

_FAILED = (
    "cuda-init-oom",
    "cuda-os-call-failed",
    "cuda-not-supported",
    "cuda-unknown",
    "no-cuda-device",
    "wsl-libcuda",
    "cuda-symbol-not-found",
    "no-nvidia-driver",
    "smi-no-driver",
    "cuda-driver-init-failed",
    "no-cuda-gpus",
    "smi-cuda-error",
    "driver-library-missing",
    "device-busy",
)
_UPDATE = ("wsl --update", "wsl --shutdown")


def under_wsl(facts: Facts) -> bool:
    """WSL, also when only the kernel's name says so."""
    return bool(facts.system.wsl) or "microsoft" in (facts.system.kernel or "").lower()


@rule(
    "wsl-cuda",
    "platform",
    "A limit or a fault of CUDA under WSL.",
    explains=(
        "cuda-unknown-error",
        "nvidia-driver-not-loaded",
        "driver-too-old",
        "cuda-visible-devices",
        "oom-other-process",
        "container-no-gpu",
        "smoke-failed",
        "driver-libcuda-mismatch",
        "cuda-forward-compat",
    ),
)
def wsl_cuda(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """A Linux driver inside WSL, a blocked GPU, WSL 1, and errors that CUDA has under WSL alone."""
    blocked = sign(facts, "gpu-access-blocked", "container-cli-wsl")
    if blocked is not None or facts.nvidia.smi_error == "wsl-blocked":
        yield _blocked(rule, facts, blocked)
        return
    text = sign(facts, *_FAILED)
    if not under_wsl(facts):
        foreign = sign(facts, "cuda-symbol-not-found")
        if foreign is not None and not (facts.system.kernel or facts.torch.hip or driver_signs.on_mac(facts)):
            yield _foreign_libcuda(rule, facts, foreign)
        return
    busy = text is not None and text.kind == "device-busy"  # the device is counted, and cannot be used
    if facts.torch.hip or (driver_signs.cuda_works(facts) and not busy):
        return
    linux_driver = _linux_driver(facts)
    if linux_driver and (text is not None or driver_signs.cuda_works(facts) is False or facts.nvidia.smi_error):
        yield _driver_inside(rule, facts, linux_driver, text)
    elif facts.system.wsl == 1 and (text is not None or driver_signs.wants_cuda(facts, matrix)):
        yield _wsl_one(rule, facts, text)
    elif _loader_misses_it(facts) or (text is not None and text.kind in ("wsl-libcuda", "driver-library-missing")):
        yield _loader(rule, facts, text)
    elif text is not None or cuda_code(facts) in (2, 304, 801, 999):
        yield _failed(rule, facts, text)


def _foreign_libcuda(rule: Rule, facts: Facts, text: Symptom) -> Finding:
    return rule.finding(
        "error",
        title="The libcuda that is loaded lacks functions (error 500), as under WSL and in Docker Desktop.",
        seen=quoted(text),
        why="CUDA starts by looking up functions in libcuda, and this one does not have them: what lends it (WSL, Docker "
        "Desktop) and the NVIDIA driver of Windows are of different ages.",
        remedy=Remedy(
            text="Update Docker Desktop, WSL and the NVIDIA driver of Windows, restart all three, and start the container "
            "anew.",
            commands=("nvidia-smi", *_UPDATE),
        ),
        confidence="possible",
        otherwise="On Linux itself: ldconfig -p | grep libcuda.so shows a second libcuda ahead of the driver's.",
        line=at(text),
    )


def _linux_driver(facts: Facts) -> str | None:
    """A driver of Linux where only the one of Windows belongs."""
    packages = [p for p in facts.nvidia.driver_packages or () if "container" not in p.lower()]
    if packages:
        return packages[0]
    for lib in facts.nvidia.libcuda or ():
        if lib.kind == "driver" and lib.loaded is not False and "/wsl/" not in lib.path:
            return lib.path
    return None


def _driver_inside(rule: Rule, facts: Facts, what: str, text: Symptom | None) -> Finding:
    return rule.finding(
        "error",
        title="A Linux NVIDIA driver is installed inside WSL and hides the one of Windows.",
        seen=quoted(text, f"in WSL: {what}"),
        why=(
            "Under WSL 2 the Windows driver lends its libraries (/usr/lib/wsl/lib); a Linux driver inside the "
            "distribution cannot reach any device."
        ),
        remedy=Remedy(
            text=(
                "Remove the Linux driver packages from WSL (a CUDA toolkit without driver may stay: package "
                "cuda-toolkit, not cuda), then restart WSL."
            ),
            commands=(
                "sudo apt purge 'nvidia-driver-*' 'libnvidia-compute-*' cuda-drivers",
                "sudo apt autoremove",
                "wsl --shutdown",
            ),
        ),
        line=at(text) or driver_signs.line_of(facts, "nvidia.driver_packages"),
    )


def _blocked(rule: Rule, facts: Facts, text: Symptom | None) -> Finding:
    no_adapter = text is not None and "adapters" in text.text.lower()
    return rule.finding(
        "error",
        title="WSL has no NVIDIA GPU to use." if no_adapter else "WSL blocks the access to the GPU.",
        seen=quoted(text) or "nvidia-smi: GPU access blocked by the operating system",
        why=(
            "Inside WSL 2 the GPU comes from the Windows driver through /dev/dxg. That way is closed: by an old "
            "Windows driver or WSL kernel, by WSL 1, or because Windows itself has no NVIDIA GPU."
        ),
        remedy=Remedy(
            text=(
                "In Windows: see that nvidia-smi works there, install the newest NVIDIA driver, update WSL and "
                "restart it; the distribution has to run as version 2. Inside WSL no driver of its own is needed."
            ),
            commands=("nvidia-smi.exe", "wsl -l -v", *_UPDATE),
        ),
        confidence="likely",
        otherwise="After an update of Windows a restart of the whole machine is needed before WSL gets its GPU back.",
        line=at(text),
    )


def _wsl_one(rule: Rule, facts: Facts, text: Symptom | None) -> Finding:
    return rule.finding(
        "error",
        title="WSL 1 has no GPU.",
        seen=quoted(text, "this distribution runs under WSL 1"),
        why="Only WSL 2 passes the GPU of Windows on.",
        remedy=Remedy(
            text="Convert the distribution to WSL 2.", commands=("wsl -l -v", "wsl --set-version DISTRIBUTION 2")
        ),
        line=at(text),
    )


def _loader_misses_it(facts: Facts) -> bool:
    libs = facts.nvidia.libcuda or ()
    return (
        any("/wsl/lib" in lib.path for lib in libs)
        and all(lib.loaded is False for lib in libs)
        and driver_signs.cuda_works(facts) is not True
    )


def _loader(rule: Rule, facts: Facts, text: Symptom | None) -> Finding:
    return rule.finding(
        "error",
        title="The loader does not find WSL's libcuda.",
        seen=quoted(
            text,
            "/usr/lib/wsl/lib/libcuda.so.1 is there and is not loaded" if _loader_misses_it(facts) else "under WSL",
        ),
        why="/usr/lib/wsl/lib, where WSL puts the library of the Windows driver, is not on the loader's path.",
        remedy=Remedy(
            text="Put the directory on the loader's path.",
            commands=("echo /usr/lib/wsl/lib | sudo tee /etc/ld.so.conf.d/ld.wsl.conf", "sudo ldconfig"),
        ),
        confidence="certain" if _loader_misses_it(facts) else "likely",
        otherwise=""
        if _loader_misses_it(facts)
        else "If `ls /usr/lib/wsl/lib/libcuda*` shows nothing: install the NVIDIA driver in Windows and run wsl --update.",
        line=at(text),
    )


def _failed(rule: Rule, facts: Facts, text: Symptom | None) -> Finding:
    bogus = (text is not None and text.kind == "cuda-init-oom") or cuda_code(facts) == 2
    unsupported = text is not None and text.kind == "cuda-not-supported"
    foreign = text is not None and text.kind == "cuda-symbol-not-found"
    gpus = len(facts.nvidia.gpus or ())
    why = (
        (
            "CUDA's start under WSL reserves address space and pinned memory for every GPU, and with several GPUs "
            "(or little memory for WSL) that fails with an out-of-memory error that means no memory of a GPU."
        )
        if bogus
        else "This operation does not exist under WSL (sharing GPU memory between processes, for example)."
        if unsupported
        else (
            "The libcuda that is loaded lacks a function: the Windows driver and what hands it into WSL or the "
            "container (WSL's kernel, Docker Desktop) are of different ages."
        )
        if foreign
        else "The Windows driver, WSL's kernel and the libraries that WSL lends do not work together at the moment."
    )
    text_ = (
        (
            "Expose fewer GPUs with CUDA_VISIBLE_DEVICES (a number less than all of them works), give WSL more "
            "memory in %UserProfile%\\.wslconfig, and update WSL and the Windows driver."
        )
        if bogus
        else "Run without that feature (for DataLoader workers: no CUDA tensors in workers), or on Linux itself."
        if unsupported
        else (
            "Update WSL, the NVIDIA driver of Windows and (for containers) Docker Desktop, restart WSL, and see that "
            "nvidia-smi works in Windows and in WSL."
        )
    )
    commands = ("export CUDA_VISIBLE_DEVICES=0", *_UPDATE) if bogus else ("nvidia-smi", *_UPDATE)
    return rule.finding(
        "error",
        seen=quoted(
            text,
            f"cuInit answers {cuda_code(facts)}" if text is None else None,
            "under WSL 2",
            f"{gpus} GPUs" if gpus > 1 else None,
        ),
        why=why,
        remedy=Remedy(text=text_, commands=commands),
        confidence="likely",
        otherwise="If CUDA fails in Windows as well, the fault is in the Windows driver or the GPU, not in WSL.",
        line=at(text),
    )


@rule(
    "rocm-wsl-hsa-runtime",
    "platform",
    "Under WSL the HSA runtime inside the torch wheel cannot reach the GPU.",
    explains=("rocm-no-device-access", "smoke-failed"),
)
def rocm_wsl_hsa_runtime(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """A ROCm build under WSL 2 that finds no device."""
    version = derive.torch_version(facts) or ""
    rocm = (
        bool(facts.torch.hip) or "rocm" in version.lower() or (not version and sign(facts, "no-hip-gpus") is not None)
    )
    if not under_wsl(facts) or not rocm or driver_signs.cuda_works(facts):
        return
    text = sign(facts, "no-hip-gpus", "kfd-open", "rock-not-loaded")
    if text is None and driver_signs.cuda_works(facts) is None:
        return
    yield rule.finding(
        "error",
        seen=quoted(
            text,
            f"torch {version}" if version else "a ROCm build",
            "under WSL 2",
            "rocminfo sees the GPU" if facts.amd.gpus else None,
        ),
        why=(
            "WSL has no /dev/kfd: the GPU is reached through /dev/dxg, for which AMD has an HSA runtime of its own. "
            "The wheel brings the ordinary libhsa-runtime64.so, which is loaded first and finds no device."
        ),
        remedy=Remedy(
            text=(
                "Install AMD's ROCm for WSL (it brings that runtime) and remove the wheel's copy, so that the "
                "system's is used; AMD's own WSL wheels have it right. Repeat it after each update of torch."
            ),
            commands=(
                "amdgpu-install -y --usecase=wsl,rocm --no-dkms",
                (
                    "rm $(python -c 'import importlib.util as u; "
                    'print(u.find_spec("torch").submodule_search_locations[0])\')/lib/libhsa-runtime64.so*'
                ),
            ),
        ),
        confidence="likely",
        otherwise=(
            "If rocminfo does not list the GPU in WSL either: the Adrenalin driver of Windows and AMD's WSL "
            "packages have to fit each other and the GPU (see AMD's compatibility list)."
        ),
        line=at(text),
    )


RULES: tuple[Rule, ...] = (wsl_cuda, rocm_wsl_hsa_runtime)
