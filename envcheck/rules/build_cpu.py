"""A build without the backend that this machine's GPU needs: CPU-only, CUDA on other makers' GPUs, Jetson."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.facts import Facts, Symptom
from envcheck.findings import Finding, Remedy
from envcheck.matrix import Matrix
from envcheck.rules import derive, driver_signs
from envcheck.rules.base import Rule, Unknown, rule
from envcheck.rules.build_gpu import verdicts
from envcheck.rules.build_rocm import override_hint
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


_WORD = re.compile(r"(?<![\w.])[A-Za-z']{2,20}(?=[ ,.;]|$)")


def _sentence(text: str) -> bool:
    """Words enough for a person who tells this; a list of facts has a name and a value on its line."""
    return len(_WORD.findall(text)) >= 7


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
    if derive.detail(facts.symptom("extension-torch-version"), "cuda"):
        signs.append("an extension that is made for a CUDA build of torch is installed")
    if facts.toolchain.nvcc_version:
        signs.append(f"a CUDA toolkit is installed (nvcc {facts.toolchain.nvcc_version})")
    for item in facts.python.distributions or ():
        if item.name in ("cudatoolkit", "pytorch-cuda", "cuda-version", "cuda-runtime", "nvidia-cuda-runtime-cu12"):
            signs.append(f"{item.name} {item.version or ''} is installed beside it".replace("  ", " "))
    for text in (*facts.requested, *facts.commands):
        if re.search(r"whl/(?:nightly/)?cu\d{2,3}|\+cu\d{2,3}|cudatoolkit|pytorch-cuda|pytorch-gpu|--gpus", text):
            signs.append(f"it was asked for: {text[:120]}")
    where = facts.where("torch.cuda_available")
    if not signs and facts.torch.cuda_available is False and where is not None and _sentence(where.text or ""):
        signs.append(f'somebody writes: "{(where.text or "").strip()[:120]}"')
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
    asked = facts.symptom("conda-no-cuda-package")
    if asked is not None and derive.wheel_os(facts) == "macos":
        yield _conda_cuda_on_mac(rule, asked)
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
    override = "" if "HSA_OVERRIDE" in made.text else override_hint(facts)
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


def _conda_cuda_on_mac(rule: Rule, asked: Symptom) -> Finding:
    package = asked.details.get("package", "cudatoolkit")
    return rule.finding(
        "error",
        title=f"{package} does not exist for macOS: there is no CUDA on a Mac",
        seen=derive.quote(asked),
        why="No Mac runs a current CUDA, so conda has these packages for Linux and Windows only. The list was made on another "
        "system.",
        remedy=Remedy(
            text="Take cudatoolkit, pytorch-cuda and the build strings (=py3.8_cuda...) out of the list and let conda choose "
            "pytorch for macOS; it uses an Apple GPU through MPS (device 'mps') instead of CUDA.",
            commands=("conda install -c conda-forge pytorch torchvision",),
        ),
        line=asked.line,
    )


def _usable(facts: Facts, matrix: Matrix, wanted: str) -> bool:
    from envcheck.recommend import Wishes, plan

    return plan(facts, matrix, Wishes(device=wanted)).status == "ok"


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
    blind = plain is None and facts.torch.cuda_available is False
    generic = blind and _from_general_index(facts, version)
    untold = blind and not generic and _nothing_told(facts, version)
    generic = generic or untold
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
        confidence="certain" if without_cuda(facts, matrix) or uncovered else "possible" if untold else "likely",
        otherwise=""
        if without_cuda(facts, matrix) or uncovered
        else 'Check with: python -c "import torch; print(torch.version.cuda)"; None means that this build has no CUDA.',
        line=derive.line_of(facts, "torch.version", "system.l4t"),
    )


def _from_general_index(facts: Facts, version: str | None) -> bool:
    """No version of NVIDIA's own, or (without any version) a plain `pip install torch` in the report."""
    if version:
        return re.search(r"nv\d\d", version) is None
    return any(_PLAIN_INSTALL.search(c) and not _NVIDIA_SOURCE.search(c) for c in facts.commands)


def _nothing_told(facts: Facts, version: str | None) -> bool:
    """Neither a version nor a command that installs torch, outside of NVIDIA's images, and no error that says more."""
    if version or driver_signs.in_container(facts) or any("torch" in c and "install" in c for c in facts.commands):
        return False
    if facts.python.version is not None:
        return False  # a report of torch's own without its head: the line that tells was cut away
    return not any(s.kind in ("missing-library", "undefined-symbol", "cuda-unknown") for s in facts.symptoms)


_PLAIN_INSTALL = re.compile(
    r"\b(?:pip\d?(?:\.\d+)?|uv) (?:pip )?(?:install|add)\b(?: \S{1,60}){0,8} torch(?:[=<>~ ]|$)"
)
_NVIDIA_SOURCE = re.compile(r"nvidia|jetson|jetpack|\.whl|--no-index")


def _mentions_conda(facts: Facts) -> bool:
    return facts.python.kind == "conda" or any(d.channel for d in facts.python.distributions or ())


RULES: tuple[Rule, ...] = (
    jetson_generic_wheel,
    cuda_build_on_non_nvidia,
    cpu_only_build,
)
