"""A build without the backend that this machine's GPU needs: CPU-only, CUDA on other makers' GPUs, Jetson, XPU, ROCm."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.facts import Facts
from envcheck.findings import Finding, Remedy
from envcheck.matrix import Matrix
from envcheck.rules import derive
from envcheck.rules.base import Rule, Unknown, rule
from envcheck.rules.build_gpu import verdicts
from envcheck.rules.install_plans import planned

NO_DRIVER_KINDS = (
    "no-nvidia-driver",
    "no-cuda-gpus",
    "no-cuda-device",
    "cuda-driver-init-failed",
    "driver-insufficient",
)
"""What torch says when it finds no NVIDIA driver (kinds of the driver catalogue)."""


# --- CPU-only -----------------------------------------------------------------------------------------------------


def without_cuda(facts: Facts, matrix: Matrix) -> bool | None:
    """True for a build without CUDA, ROCm and XPU; None when nobody says what it was built for."""
    if facts.torch.hip or facts.torch.xpu:
        return False
    cuda = derive.torch_cuda(facts, matrix)
    if cuda is not None:
        return not cuda.value and derive.local_label(derive.torch_version(facts))[:4] not in ("rocm", "xpu")
    return True if facts.symptom("torch-without-cuda") else None


def cuda_wanted(facts: Facts) -> tuple[str, ...]:
    """What shows that CUDA was wanted here, most telling first."""
    signs = []
    names = [g.name for g in facts.nvidia.gpus or () if g.name]
    if names:
        signs.append(f"the machine has {', '.join(dict.fromkeys(names))}")
    elif derive.has_nvidia_gpu(facts):
        signs.append("the machine has an NVIDIA GPU")
    if derive.driver_version(facts):
        signs.append(f"NVIDIA driver {derive.driver_version(facts)} is installed")
    error = facts.symptom("torch-without-cuda", "nccl-not-built")
    if error:
        signs.append(f'the program asks for CUDA ("{error.text[:80]}")')
    if facts.toolchain.nvcc_version:
        signs.append(f"a CUDA toolkit is installed (nvcc {facts.toolchain.nvcc_version})")
    for item in facts.python.distributions or ():
        if item.name in ("cudatoolkit", "pytorch-cuda", "cuda-version", "cuda-runtime", "nvidia-cuda-runtime-cu12"):
            signs.append(f"{item.name} {item.version or ''} is installed beside it".replace("  ", " "))
    for text in (*facts.requested, *facts.commands):
        if re.search(r"whl/(?:nightly/)?cu\d{2,3}|\+cu\d{2,3}|cudatoolkit|pytorch-cuda|pytorch-gpu|--gpus", text):
            signs.append(f"it was asked for: {text[:120]}")
    return tuple(dict.fromkeys(signs))


def how_it_came(facts: Facts, matrix: Matrix) -> str:
    """Why this machine got a CPU build, as far as the report shows."""
    version, os = derive.torch_version(facts), derive.wheel_os(facts)
    mutex = [d for d in facts.python.distributions or () if d.name in ("cpuonly", "pytorch-mutex", "pytorch-cpu")]
    if any(d.name == "cpuonly" or "cpu" in (d.build or "") for d in mutex) or any(
        d.name == "pytorch-cpu" for d in mutex
    ):
        named = ", ".join(f"{d.name} {d.version or ''} {d.build or ''}".strip() for d in mutex)
        return f"conda's solver chose the CPU build ({named}): another package, or a missing __cuda, led it there."
    if derive.torch_from_conda(facts) or derive.cuda_of_conda_build(_conda_build(facts)) == "":
        return "conda's solver chose a CPU build (no __cuda seen while solving, or a channel whose default is CPU)."
    if facts.distribution("cudatoolkit") or facts.python.kind == "conda":
        return "It is the wheel of plain PyPI, or the CPU package of a conda channel; a cudatoolkit package beside it changes nothing."
    if os == "windows" and not _from_cpu_index(facts):
        return "Plain pip gives a CPU build on Windows: PyPI has no CUDA wheel for Windows."
    machine = derive.wheel_machine(facts)
    if os == "linux" and machine == "aarch64" and version and matrix.pypi_variant(version, os, machine) == "cpu":
        return "On Linux aarch64 PyPI has only a CPU build of this release."
    if derive.local_label(version) == "cpu":
        return "The version says +cpu: it came from the CPU index, or from a lock file made for it."
    return "This build was made without CUDA."


def _conda_build(facts: Facts) -> str | None:
    found = derive.torch_distribution(facts)
    return found.build if found else None


def _from_cpu_index(facts: Facts) -> bool:
    return any("whl/cpu" in command for command in facts.commands)


@rule(
    "cpu-only-build",
    "build",
    "torch was installed without CUDA, on a machine where CUDA was wanted.",
    explains=(
        "nvidia-driver-not-loaded",
        "container-no-gpu",
        "triton-missing",
        "hardcoded-cuda-device",
        "nccl-not-in-build",
        "toolkit-torch-cuda-mismatch",
        "extension-abi-mismatch",
        "torchvision-mismatch",
        "torchaudio-mismatch",
    ),
)
def cpu_only_build(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """A CPU build where an NVIDIA GPU, a driver, a toolkit or an error shows that CUDA was wanted."""
    if derive.wheel_os(facts) == "macos" or derive.is_jetson(facts) or _other_gpu_only(facts):
        return
    plain = without_cuda(facts, matrix)
    if plain is None:
        if derive.has_nvidia_gpu(facts) and derive.torch_version(facts):
            raise Unknown(
                "what torch was built for is not shown", 'python -c "import torch; print(torch.version.cuda)"'
            )
        return
    if not plain:
        return
    signs = cuda_wanted(facts)
    version = derive.torch_version(facts)
    label = f"torch {version}" if version else "this torch"
    if facts.origin == "live" and not _severe(facts):
        return  # a toolkit on disk of a machine without a GPU is no wish
    if not signs:
        if _dragged_in(facts):
            yield _dragged(rule, facts, matrix, label)
        return
    error = facts.symptom("torch-without-cuda")
    known = derive.torch_cuda(facts, matrix)
    proved = known is not None and not known.derived
    yield rule.finding(
        "error" if _severe(facts) else "warning",
        title=f"{label} is a CPU-only build (compiled without CUDA)",
        seen=derive.quote(error, f"{label}, built without CUDA" + _where_from(facts, matrix), *signs[:3]),
        why=f"{how_it_came(facts, matrix)} torch.cuda.is_available() stays False, whatever driver or toolkit is there.",
        remedy=_cuda_plan(facts, matrix),
        confidence="certain" if proved or error else "likely",
        otherwise=""
        if proved
        else 'Check with: python -c "import torch; print(torch.__version__, torch.version.cuda)"; None means CPU-only.',
        line=error.line if error else derive.line_of(facts, "torch.version", "torch.cuda"),
    )


def _severe(facts: Facts) -> bool:
    """Something needs CUDA here: a GPU is there, or a program asked for it. A toolkit alone is a hint."""
    return bool(
        derive.has_nvidia_gpu(facts)
        or derive.driver_version(facts)
        or facts.symptom("torch-without-cuda", "nccl-not-built")
        or facts.origin == "captured"
    )


def _other_gpu_only(facts: Facts) -> bool:
    return bool(facts.amd.gpus) and not derive.has_nvidia_gpu(facts) and not derive.driver_version(facts)


def _where_from(facts: Facts, matrix: Matrix) -> str:
    known = derive.torch_cuda(facts, matrix)
    return " (from the tables)" if known is not None and known.derived else ""


def _cuda_plan(facts: Facts, matrix: Matrix) -> Remedy:
    made = planned(facts, matrix, device="cuda")
    if made.commands:
        return made
    index = "" if derive.wheel_os(facts) == "linux" else " from a CUDA index (https://download.pytorch.org/whl/cuXYZ)"
    return Remedy(text=f"Uninstall torch and install a CUDA build{index}. {made.text}".strip())


def _dragged_in(facts: Facts) -> bool:
    """A paste of a package list alone that shows conda's CPU switch: nobody prints that list unless CUDA was expected."""
    return (
        facts.origin == "captured" and facts.distribution("cpuonly") is not None and facts.torch.cuda_available is None
    )


def _dragged(rule: Rule, facts: Facts, matrix: Matrix, label: str) -> Finding:
    found = facts.distribution("cpuonly")
    return rule.finding(
        "warning",
        title=f"{label} is a CPU-only build: conda's cpuonly package is installed",
        seen=derive.quote(
            *(
                f"{d.name} {d.version or ''} {d.build or ''}".strip()
                for d in facts.python.distributions or ()
                if d.name in ("cpuonly", "pytorch-mutex", "pytorch")
            )
        ),
        why="cpuonly makes conda's solver choose CPU builds of pytorch, torchvision and torchaudio. If nobody asked for it, "
        "another package of the environment brought it in.",
        remedy=Remedy(
            text="If CUDA is wanted: remove cpuonly and pin a CUDA build, or install torch in a fresh environment.",
            commands=("conda remove cpuonly", *_cuda_plan(facts, matrix).commands),
        ),
        confidence="possible",
        otherwise="A CPU build on purpose is no fault. `nvidia-smi` shows whether there is a GPU to use.",
        line=found.line if found else None,
    )


# --- CUDA build, other maker --------------------------------------------------------------------------------------


@rule(
    "cuda-build-on-non-nvidia",
    "build",
    "A CUDA build (or CUDA calls) on a machine without NVIDIA hardware.",
    explains=("nvidia-driver-not-loaded", "driver-too-old", "container-no-gpu", "cuda-visible-devices", "wsl-cuda"),
)
def cuda_build_on_non_nvidia(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """An AMD or Intel GPU, no NVIDIA GPU, and a build (or an error) that looks for NVIDIA's driver."""
    if facts.torch.hip or derive.has_nvidia_gpu(facts) or derive.driver_version(facts):
        return
    amd = [g.name or g.gfx or "an AMD GPU" for g in facts.amd.gpus or ()]
    amd = amd or [i.name or "an AMD GPU" for i in facts.pci or () if i.vendor_id == derive.AMD_VENDOR]
    intel = [name for name in facts.intel.gpus or () if re.search(r"\bArc\b|Data Center GPU|\bFlex\b|Max 1\d{3}", name)]
    if not amd and not intel:
        return
    cuda = derive.torch_cuda(facts, matrix)
    error = facts.symptom(*NO_DRIVER_KINDS)
    if error is None and not (cuda and cuda.value):
        return
    other = ", ".join(dict.fromkeys(amd or intel))
    version = derive.torch_version(facts)
    build = f"torch {version}" + (f", built for CUDA {cuda.value}" if cuda and cuda.value else "") if version else None
    name = "AMD Radeon (ROCm)" if amd else "Intel (XPU)"
    wanted = "rocm" if amd else "xpu"
    if error is None and facts.origin != "captured" and not _usable(facts, matrix, wanted):
        return  # a built-in GPU that no torch build supports anyway: the CUDA wheel is as good as the CPU one
    made = planned(facts, matrix, device=wanted)
    override = "" if "HSA_OVERRIDE" in made.text else _override(facts)
    yield rule.finding(
        "error" if error else "warning",
        title=f"The GPU is {other}; this torch is a build for NVIDIA GPUs",
        seen=derive.quote(error, other, build),
        why=f"A CUDA build looks for NVIDIA's driver only; it cannot use an {name} GPU, and nothing that is installed "
        "beside it changes that.",
        remedy=Remedy(text=f"{made.text} {override}".strip(), commands=made.commands),
        confidence="certain" if cuda and cuda.value and not cuda.derived else "likely",
        otherwise="If there is an NVIDIA GPU as well, `lspci | grep -i vga` shows it.",
        line=error.line if error else derive.line_of(facts, "amd.gpus", "torch.version"),
    )


def _usable(facts: Facts, matrix: Matrix, wanted: str) -> bool:
    from envcheck.recommend import Wishes, plan

    return plan(facts, matrix, Wishes(device=wanted)).status == "ok"


_NEAREST = {
    "10.3.0": ("gfx1031", "gfx1032", "gfx1033", "gfx1034", "gfx1035", "gfx1036"),
    "11.0.0": ("gfx1101", "gfx1102", "gfx1103"),
}
_GFX_OF_NAME = (
    (r"RX 6(?:700|750|650|600|500|400)\b|RX 6[5678]00M", "10.3.0"),
    (r"RX 7(?:600|700|800)\b|780M|760M", "11.0.0"),
)


def _override(facts: Facts) -> str:
    """The near relative whose code an unlisted AMD chip may run, as AMD's users do it; it is not supported by AMD."""
    for item in facts.amd.gpus or ():
        for value, chips in _NEAREST.items():
            if item.gfx in chips:
                return f"For {item.gfx}, set HSA_OVERRIDE_GFX_VERSION={value} (same family; not supported by AMD)."
        for pattern, value in _GFX_OF_NAME:
            if item.name and not item.gfx and re.search(pattern, item.name):
                return (
                    f"If ROCm does not list this chip, HSA_OVERRIDE_GFX_VERSION={value} lets it run the code of its "
                    "family (not supported by AMD)."
                )
    return ""


# --- Jetson -------------------------------------------------------------------------------------------------------


@rule(
    "jetson-generic-wheel",
    "build",
    "A general aarch64 wheel on a Jetson, which needs a build for JetPack.",
    explains=("cpu-only-build", "gpu-arch-not-in-build", "gpu-too-new-for-build", "gpu-too-old-for-build",
              "driver-too-old", "nvidia-driver-not-loaded", "container-no-gpu", "glibc-too-old"),
)  # fmt: skip
def jetson_generic_wheel(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """A Jetson whose torch has no CUDA, or CUDA code for servers only."""
    if not derive.is_jetson(facts) or derive.torch_from_conda(facts) or _mentions_conda(facts):
        return
    version = derive.torch_version(facts)
    plain = without_cuda(facts, matrix)
    uncovered = [v for v in verdicts(facts, matrix) if v.runs is False]
    # Unknown build, no CUDA, and not one of NVIDIA's version numbers (2.1.0a0+41361538.nv23.06).
    generic = plain is None and facts.torch.cuda_available is False and not re.search(r"nv\d\d", version or "nv00")
    if plain is None and not uncovered and not generic:
        if version:
            raise Unknown(
                "what torch was built for is not shown", 'python -c "import torch; print(torch.version.cuda)"'
            )
        return
    if not plain and not uncovered and not generic:
        return
    board = facts.system.jetson_model or "this Jetson"
    system = ", ".join(
        part
        for part in (
            board,
            f"L4T {facts.system.l4t}" if facts.system.l4t else "",
            f"JetPack {facts.system.jetpack}" if facts.system.jetpack else "",
        )
        if part
    )
    plain = plain or (generic and not uncovered)
    what = "a CPU-only build" if plain else "a build without code for this board"
    yield rule.finding(
        "error",
        title=f"torch {version or ''} on a Jetson is the generic aarch64 wheel: {what}".replace("  ", " "),
        seen=derive.quote(
            facts.symptom("torch-without-cuda"), system, f"torch {version or 'of unknown version'}: {what}"
        ),
        why="The general Linux aarch64 wheels are made for servers: without CUDA up to torch 2.10, with CUDA 13 after that. "
        "A Jetson's GPU needs a build made for its JetPack.",
        remedy=planned(facts, matrix),
        confidence="certain" if without_cuda(facts, matrix) or uncovered else "likely",
        otherwise=""
        if without_cuda(facts, matrix) or uncovered
        else 'Check with: python -c "import torch; print(torch.version.cuda)"; None means that this build has no CUDA.',
        line=derive.line_of(facts, "torch.version", "system.l4t"),
    )


def _mentions_conda(facts: Facts) -> bool:
    return facts.python.kind == "conda" or any(d.channel for d in facts.python.distributions or ())


# --- XPU, ROCm, NCCL ------------------------------------------------------------------------------------------------


@rule("xpu-not-compiled", "build", "The build has no XPU support where an Intel GPU was to be used.",
      explains=("xpu-runtime-init-failed", "xpu-no-device-access"))  # fmt: skip
def xpu_not_compiled(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """An XPU error of a build without it, or a +xpu label on a build that says it has none."""
    error = facts.symptom("xpu-not-compiled")
    version = derive.torch_version(facts)
    label = derive.local_label(version)
    contradicts = label.startswith("xpu") and facts.torch.xpu == ""
    if error is None and not contradicts:
        return
    named = f"torch {version or ''}".strip()
    claims = label.startswith("xpu")
    yield rule.finding(
        "error",
        title=f"{named} has no XPU support compiled in" + (", although its label says +xpu" if claims else ""),
        seen=derive.quote(error, version and f"version {version}", ", ".join(facts.intel.gpus or ()) or None),
        why="Without it torch.xpu.is_available() is False on every machine; the GPU and its software are not asked at all."
        + (" A build with that label but without the backend was published by mistake." if claims else ""),
        remedy=_xpu_plan(facts, matrix, claims),
        confidence="certain" if error else "likely",
        line=error.line if error else derive.line_of(facts, "torch.version"),
    )


def _xpu_plan(facts: Facts, matrix: Matrix, claims: bool) -> Remedy:
    made = planned(facts, matrix, device="xpu")
    if claims and derive.is_prerelease(derive.torch_version(facts)):
        text = "Take another nightly of the xpu index (an earlier or a later day), or the newest release with XPU. "
        return Remedy(text=text + made.text, commands=made.commands)
    return made


def gfx_names(facts: Facts) -> tuple[str, ...]:
    """Gfx names of the machine's AMD GPUs, without feature suffixes."""
    return tuple(dict.fromkeys(g.gfx.split(":")[0] for g in facts.amd.gpus or () if g.gfx))


def _rocm_targets(facts: Facts, matrix: Matrix) -> tuple[str, ...] | None:
    """Gfx names that the build has code for: its own list, else `rocm-sdk targets`, else the tables."""
    own = tuple(a.split(":")[0] for a in facts.torch.arch_list or () if a.startswith("gfx"))
    if own:
        return own
    for item in facts.symptoms:
        if item.kind == "rocm-targets" and item.details.get("targets"):
            return tuple(re.findall(r"gfx\w+", item.details["targets"]))
    version, hip = derive.torch_version(facts), facts.torch.hip
    label = derive.local_label(version)
    rocm = label.removeprefix("rocm") if label.startswith("rocm") else ".".join(map(str, derive.numbers(hip)[:2]))
    look_up = getattr(matrix, "rocm_gfx", None)
    found = look_up(version, rocm) if look_up and version and rocm else None
    return tuple(found) if found else None


@rule("rocm-gfx-unsupported", "build", "The ROCm build or the kernel driver does not support this AMD GPU.",
      explains=("rocm-no-device-access",))  # fmt: skip
def rocm_gfx_unsupported(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """The kernel refuses the chip, or the build's code objects are for other chips."""
    kernel = facts.symptom("kfd-unsupported", "kfd-gpu-unsupported")
    if kernel is not None:
        yield _kfd_finding(rule, facts, matrix)
        return
    error = facts.symptom("hip-no-binary", "hip-no-code")
    if error is not None and not _rocm_here(facts, error.text):
        return
    names = gfx_names(facts)
    named = derive.detail(error, "gfx", "arch", "lazy")
    if named and named not in names:
        names = (*names, named)
    targets = _rocm_targets(facts, matrix)
    override = facts.variable("HSA_OVERRIDE_GFX_VERSION") or facts.amd.hsa_override
    missing = [n for n in names if targets is not None and n not in targets]
    if error is None and (not missing or override or not facts.torch.hip):
        return
    if error is not None and names and targets is not None and not missing:
        missing = list(names)
    chip = ", ".join(missing or names) or ", ".join(g.name or "" for g in facts.amd.gpus or ()) or "this GPU"
    hint = _override(facts)
    made = planned(facts, matrix, device="rocm")
    yield rule.finding(
        "error" if error else "warning",
        title=f"The ROCm build has no code for {chip}",
        seen=derive.quote(error, chip, f"code objects for {' '.join(targets)}" if targets else None,
                          f"HSA_OVERRIDE_GFX_VERSION={override}" if override else None),
        why="Each AMD chip needs its own code object; without one the first kernel fails with an invalid device function.",
        remedy=Remedy(text=f"Install a build whose list has {chip}. {made.text} {hint}".strip(), commands=made.commands),
        confidence="certain" if missing and error else "likely",
        otherwise="" if missing and error else "`rocminfo | grep gfx` names the chip; torch.cuda.get_arch_list() names what "
        "the build has.",
        line=error.line if error else derive.line_of(facts, "amd.gpus"),
    )  # fmt: skip


def _rocm_here(facts: Facts, text: str) -> bool:
    """ "no kernel image" is said by CUDA too: only a HIP text or a ROCm build counts."""
    return bool(facts.torch.hip or facts.amd.gpus) or re.search(r"hip|hsa|rocblas|tensile|gfx", text, re.I) is not None


def _kfd_finding(rule: Rule, facts: Facts, matrix: Matrix) -> Finding:
    item = facts.symptom("kfd-unsupported", "kfd-gpu-unsupported")
    assert item is not None
    atomics = "atomics" in item.text.lower()
    name = ", ".join(g.name or g.gfx or "" for g in facts.amd.gpus or ()) or derive.detail(item, "chip") or "this GPU"
    return rule.finding(
        "error",
        title=f"The amdgpu kernel driver does not support {name} for compute",
        seen=derive.quote(item, name),
        why="kfd is the kernel's door to ROCm. "
        + (
            "It skips a GPU whose PCIe slot cannot do atomic operations."
            if atomics
            else "For this chip it stays closed, so ROCm is not supported on it, whatever access rights the user has."
        ),
        remedy=Remedy(
            text="Move the card to a slot that is wired to the CPU directly, or use a GPU that needs no PCIe atomics."
            if atomics
            else "Run on the CPU, or use a GPU that ROCm supports; no setting makes this one usable."
        ),
        line=item.line,
    )


@rule("nccl-not-in-build", "build", "This torch was built without NCCL.")
def nccl_not_in_build(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """NCCL is asked for on Windows, macOS or with a CPU build."""
    error = facts.symptom("nccl-not-built")
    if error is None:
        return
    os = derive.wheel_os(facts)
    reason = (
        "NCCL exists on Linux only; torch on this system is always built without it."
        if os in ("windows", "macos")
        else "CPU builds, and all builds for Windows and macOS, have no NCCL."
    )
    yield rule.finding(
        "error",
        title="The nccl backend is not part of this torch",
        seen=derive.quote(error),
        why=reason,
        remedy=Remedy(
            text='Use the gloo backend: init_process_group("gloo"), or run under Linux or WSL 2 with a CUDA build.',
        ),
        confidence="certain" if os in ("windows", "macos") else "likely",
        otherwise=""
        if os in ("windows", "macos")
        else "torch.distributed.is_nccl_available() and torch.version.cuda tell.",
        line=error.line,
    )


RULES: tuple[Rule, ...] = (
    jetson_generic_wheel,
    cuda_build_on_non_nvidia,
    cpu_only_build,
    xpu_not_compiled,
    rocm_gfx_unsupported,
    nccl_not_in_build,
)
