"""Values that several rules need and that facts show in more than one way.

Each answer says whether it was read or derived: a paste rarely shows everything, yet the version of a build, its local
label, a conda build string or the nvidia-* wheels beside it prove what it was built for. `None` stays unknown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from envcheck.facts import Distribution, Facts, Symptom
from envcheck.matrix import ArchList, Coverage, Matrix

NVIDIA_VENDOR = "10de"
AMD_VENDOR = "1002"
INTEL_VENDOR = "8086"

_LABEL_CUDA = re.compile(r"^cu(\d{2,3})(?:\b|[._]|$)")
_CONDA_CUDA = re.compile(r"(?:^|[_\W])(?:cuda|gpu_cuda)_?(\d+)[._]?(\d*)", re.IGNORECASE)
_CONDA_CPU = re.compile(r"(?:^|_)(?:cpu)(?:_|$|\d)", re.IGNORECASE)
_JETSON_WORDS = re.compile(r"\b(?:jetson|tegra|l4t|orin|xavier)\b", re.IGNORECASE)
# CUDA of the Linux wheels that PyPI had before the tables begin. Source: pytorch.org "previous versions": the default
# of each release, whose commands for that CUDA carry no +cu label.
_BEFORE_TABLES = {
    "1.0": "9.0",
    "1.1": "9.0",
    "1.2": "10.0",
    "1.3": "10.1",
    "1.4": "10.1",
    "1.5": "10.2",
    "1.6": "10.2",
    "1.7": "10.2",
}


class Value(NamedTuple):
    """A value and whether it was derived (from tables or neighbours) instead of read."""

    value: str
    derived: bool


class Archs(NamedTuple):
    """An arch list and whether it came from the tables instead of the build itself."""

    value: tuple[str, ...]
    derived: bool


@dataclass(frozen=True)
class Gpu:
    """One NVIDIA GPU: its index where known, its name, its compute capability ("8.6") where known."""

    index: int | None
    name: str | None
    capability: str | None

    @property
    def label(self) -> str:
        """As a person reads it: "GPU 0 (NVIDIA GeForce RTX 3090, sm_86)"."""
        inside = ", ".join(part for part in (self.name, self.sm) if part)
        head = "GPU" if self.index is None else f"GPU {self.index}"
        return f"{head} ({inside})" if inside else head

    @property
    def sm(self) -> str | None:
        """The capability as torch and nvcc spell it: "sm_86"."""
        return None if self.capability is None else "sm_" + self.capability.replace(".", "")


def numbers(version: str | None) -> tuple[int, ...]:
    """The release part of a version as integers: "2.8.0a0+cu128" -> (2, 8, 0). () when there is none."""
    if not version:
        return ()
    match = re.match(r"v?(\d+(?:\.\d+)*)", version.strip())
    return tuple(int(part) for part in match.group(1).split(".")) if match else ()


def base_version(version: str | None) -> str | None:
    """A version without its local label: "2.8.0+cu128" -> "2.8.0"."""
    return version.partition("+")[0] if version else None


def local_label(version: str | None) -> str:
    """The local label of a version, "" without one: "2.8.0+cu128" -> "cu128"."""
    return version.partition("+")[2].lower() if version else ""


def is_prerelease(version: str | None) -> bool:
    """A nightly or a build from source: the tables of releases say nothing about it."""
    return bool(version) and re.search(r"\d(?:a|b|rc|\.dev)\d", base_version(version) or "") is not None


def wheel_os(facts: Facts) -> str | None:
    """The operating system that a wheel would be chosen for; read from paths when the report does not say it."""
    if facts.system.os:
        return facts.system.os
    paths = [facts.torch.location, facts.python.executable, facts.python.prefix]
    paths += [item.location for item in facts.python.distributions or ()]
    for path in paths:
        if not path:
            continue
        if re.match(r"^[A-Za-z]:[\\/]", path) or "\\" in path:
            return "windows"
        if path.startswith(("/Users/", "/opt/homebrew/", "/Library/", "/System/")):
            return "macos"
        if path.startswith("/"):
            return "linux"
    return None


def wheel_machine(facts: Facts) -> str | None:
    """The architecture that a wheel would be chosen for: the interpreter's (x86_64 under Rosetta), else the system's."""
    return facts.python.machine or facts.system.machine


def assumed_machine(facts: Facts) -> str:
    """`wheel_machine`, or what nearly every machine of that system is: for choosing a row of the tables, not for a verdict."""
    known = wheel_machine(facts)
    if known:
        return known
    if is_jetson(facts):
        return "aarch64"
    return "arm64" if wheel_os(facts) == "macos" else "x86_64"


def torch_distribution(facts: Facts) -> Distribution | None:
    """The distribution that provides torch: pip's "torch" first, conda's "pytorch" else."""
    for name in ("torch", "pytorch", "pytorch-gpu", "libtorch"):
        found = facts.distribution(name)
        if found is not None:
            return found
    return None


def torch_version(facts: Facts) -> str | None:
    """Version of the torch that is imported, or installed as far as the report shows; with the local label."""
    if facts.torch.version:
        return facts.torch.version
    found = torch_distribution(facts)
    return found.version if found else None


def torch_from_conda(facts: Facts) -> bool | None:
    """True when torch is a conda package, False when pip's metadata says otherwise, None when nobody says."""
    conda = [d for d in facts.python.distributions or () if d.name in ("pytorch", "torch", "libtorch")]
    if any(d.manager == "conda" or d.build for d in conda):
        return True
    if any(d.manager in ("pip", "uv", "poetry", "pdm") and d.name == "torch" for d in conda):
        return False
    return None


def cuda_of_label(label: str) -> str | None:
    """CUDA of a local label: "cu128" -> "12.8", "cpu"/"rocm6.2"/"xpu" -> "", anything else -> None."""
    match = _LABEL_CUDA.match(label)
    if match:
        digits = match.group(1)
        return f"{digits[:-1]}.{digits[-1]}"
    if label.startswith(("cpu", "rocm", "xpu")):
        return ""
    return None


def cuda_of_conda_build(build: str | None) -> str | None:
    """CUDA of a conda build string: "py3.9_cuda11.8_cudnn8.7.0_0" -> "11.8", "cuda112py310h.." -> "11.2", "py3.8_cpu_0" -> ""."""
    if not build:
        return None
    match = _CONDA_CUDA.search(build) or re.match(r"cuda_?(\d+)[._]?(\d*)", build)
    if match:
        major, minor = match.group(1), match.group(2)
        if minor:
            return f"{major}.{minor}"
        if len(major) == 3:  # conda-forge: cuda112
            return f"{major[:2]}.{major[2:]}"
        return None
    return "" if _CONDA_CPU.search(build) else None


def torch_cuda(facts: Facts, matrix: Matrix) -> Value | None:
    """CUDA version torch was built with, "" for a build without CUDA, and whether that was derived.

    In order: what torch said; the local label; the conda build string; the nvidia-* wheels installed with it; what
    plain PyPI gives for that release on this platform. None: nothing proves it.
    """
    if facts.torch.cuda is not None:
        return Value(facts.torch.cuda, "cuda" in (facts.torch.derived or ()))
    if facts.torch.hip:
        return Value("", False)
    version = torch_version(facts)
    labelled = cuda_of_label(local_label(version))
    if labelled is not None:
        return Value(labelled, False)
    for item in facts.python.distributions or ():
        if item.name in ("pytorch", "torch", "libtorch"):
            built = cuda_of_conda_build(item.build)
            if built is not None:
                return Value(built, False)
    if wheel_os(facts) == "macos" and version:
        return Value("", True)
    beside = _cuda_of_nvidia_wheels(facts)
    if beside is not None:
        return Value(beside, True)
    return _cuda_of_pypi(facts, matrix, version)


def _cuda_of_nvidia_wheels(facts: Facts) -> str | None:
    """From the CUDA runtime wheel that torch's own requirements bring; two different ones prove nothing."""
    found = set()
    for item in facts.python.distributions or ():
        if item.name.startswith("nvidia-cuda-runtime") or item.name == "cuda-toolkit":
            parts = numbers(item.version)
            if len(parts) >= 2:
                found.add(f"{parts[0]}.{parts[1]}")
    return found.pop() if len(found) == 1 else None


def _cuda_of_pypi(facts: Facts, matrix: Matrix, version: str | None) -> Value | None:
    if not version or "+" in version or is_prerelease(version) or torch_from_conda(facts) or is_jetson(facts):
        return None
    os = wheel_os(facts)
    if os is None:
        return None
    variant = matrix.pypi_variant(version, os, assumed_machine(facts))
    if variant is None:
        old = _BEFORE_TABLES.get(".".join(version.split(".")[:2])) if os == "linux" else None
        return Value(old, True) if old and assumed_machine(facts) == "x86_64" else None
    if _another_build_is_named(facts, matrix, version, variant):
        return None
    row = matrix.variant(version, variant, os, assumed_machine(facts))
    cuda = (row.cuda if row else None) or cuda_of_label(variant)
    return Value(cuda or "", True)


def _another_build_is_named(facts: Facts, matrix: Matrix, version: str, variant: str) -> bool:
    """Somebody wrote "CUDA 11.1" beside a torch that is also published for 11.1: it may be that build."""
    said = {".".join(t.version.split(".")[:2]) for t in facts.toolchain.cuda_toolkits or () if t.version and not t.path}
    if not said or facts.origin != "captured":
        return False
    rows = matrix.variants(version, wheel_os(facts) or "linux", assumed_machine(facts))
    return any(row.cuda in said and row.name != variant for row in rows)


def torch_variant(facts: Facts, matrix: Matrix) -> Value | None:
    """Name of the build as the wheel index calls it ("cu128", "cpu", "rocm6.4", "xpu"), and whether it was derived."""
    label = local_label(torch_version(facts))
    match = re.match(r"(cu\d{2,3}|cpu|rocm[\d.]+|xpu)(?:\b|$)", label)
    if match:
        return Value(match.group(1).rstrip("."), False)
    if facts.torch.hip:
        parts = numbers(facts.torch.hip)
        return Value(f"rocm{parts[0]}.{parts[1]}", True) if len(parts) > 1 else None
    cuda = torch_cuda(facts, matrix)
    if cuda is None:
        return None
    if cuda.value:
        return Value("cu" + cuda.value.replace(".", ""), cuda.derived)
    if facts.torch.xpu:
        return Value("xpu", False)
    return Value("cpu", cuda.derived)


def arch_list(facts: Facts, matrix: Matrix) -> Archs | None:
    """What the build has code for ("sm_80" ... "compute_90"): its own word first, then torch's warning, then the tables.

    None: unknown. Nightlies and conda builds are not looked up, since the tables describe released wheels.
    """
    said = _arch_list_said(facts)
    if said is not None:
        return said
    row = arch_row(facts, matrix)
    return Archs(row.names, True) if row else None


def _arch_list_said(facts: Facts) -> Archs | None:
    if facts.torch.arch_list:
        return Archs(facts.torch.arch_list, "arch_list" in (facts.torch.derived or ()))
    for item in facts.symptoms:
        found = archs_of_text(item.details.get("archs", ""))
        if found:
            return Archs(found, False)
    return None


def archs_of_text(text: str) -> tuple[str, ...]:
    """Arch names in a text: "sm_37 sm_50 compute_50", or the lines "- 7.5 which supports hardware CC >=7.5,<8.0"."""
    found = re.findall(r"(?:sm|compute)_\d{2,3}[a-z]?\b", text)
    found += ["sm_" + cc.replace(".", "") for cc in re.findall(r"-\s*(\d+\.\d)\s+which supports", text)]
    return tuple(dict.fromkeys(found))


def arch_row(facts: Facts, matrix: Matrix) -> ArchList | None:
    """The row of the tables for the released wheel that is installed; None for anything else."""
    version, os, variant = torch_version(facts), wheel_os(facts), torch_variant(facts, matrix)
    if not version or not os or variant is None or is_prerelease(version) or torch_from_conda(facts):
        return None
    return matrix.arch_list(version, variant.value, os, assumed_machine(facts))


def coverage(facts: Facts, matrix: Matrix, capability: str) -> Coverage:
    """Whether the build has code that a GPU of that capability can run."""
    cuda, driver = torch_cuda(facts, matrix), driver_cuda(facts, matrix)
    said = _arch_list_said(facts)
    return matrix.coverage(
        said.value if said else arch_row(facts, matrix),
        capability,
        build_cuda=(cuda.value or None) if cuda else None,
        driver_cuda=driver.value if driver else None,
        machine=assumed_machine(facts),
    )


def capability_of_name(name: str | None, matrix: Matrix) -> str | None:
    """Compute capability that a product name proves; None for names that stand for several chips."""
    if not name:
        return None
    model = matrix.gpu(name)
    return model.compute_capability if model else None


def capability_candidates(gpu: Gpu, matrix: Matrix) -> tuple[str, ...]:
    """All capabilities that this GPU may have: one when known, several for an ambiguous name, () for an unknown one."""
    if gpu.capability:
        return (gpu.capability,)
    model = matrix.gpu(gpu.name) if gpu.name else None
    return tuple(model.candidates) if model else ()


def gpus(facts: Facts, matrix: Matrix) -> tuple[Gpu, ...]:
    """Every NVIDIA GPU of the report: as the driver lists them, else torch, else warnings that name one, else PCI."""
    said = _capabilities_said(facts)
    seen = [
        Gpu(item.index, item.name, item.compute_capability)
        for item in facts.nvidia.gpus or ()
        if item.name or item.compute_capability
    ]
    if not seen and not facts.torch.hip:
        seen = [Gpu(d.index, d.name, d.compute_capability) for d in facts.torch.devices or () if d.kind == "cuda"]
    if not seen:
        seen = list(_gpus_of_symptoms(facts))
    if not seen:
        seen = [
            Gpu(None, item.name, None)
            for item in facts.pci or ()
            if item.vendor_id == NVIDIA_VENDOR and item.name and capability_of_name(item.name, matrix)
        ]
    board = facts.system.jetson_model
    if not seen and board and matrix.gpu(board):
        seen = [Gpu(0, board, None)]
    filled = []
    for gpu in seen:
        capability = gpu.capability or said.get(base_name_of_gpu(gpu.name)) or capability_of_name(gpu.name, matrix)
        filled.append(Gpu(gpu.index, gpu.name, capability))
    return tuple(filled)


def base_name_of_gpu(name: str | None) -> str:
    """A product name as it is compared: lower case, without the maker."""
    return re.sub(r"^nvidia\s+", "", (name or "").strip().lower())


def _capabilities_said(facts: Facts) -> dict[str, str]:
    """Capabilities by product name, as torch or a warning of torch said them."""
    said = {
        base_name_of_gpu(d.name): d.compute_capability
        for d in facts.torch.devices or ()
        if d.name and d.compute_capability
    }
    for gpu in _gpus_of_symptoms(facts):
        if gpu.name and gpu.capability:
            said.setdefault(base_name_of_gpu(gpu.name), gpu.capability)
    return {name: capability for name, capability in said.items() if capability}


def _gpus_of_symptoms(facts: Facts) -> Iterator[Gpu]:
    """GPUs that torch's own warnings name ("Found GPU0 GeForce GT 630M which is of cuda capability 2.1")."""
    named: dict[str, list[tuple[int | None, str | None, str | None]]] = {}
    for item in facts.symptoms:
        name, capability = item.details.get("gpu"), capability_of_text(item.details.get("capability"))
        if name or capability:
            index = item.details.get("index", "")
            named.setdefault(base_name_of_gpu(name), []).append(
                (int(index) if index.isdigit() else None, name, capability)
            )
    for found in named.values():
        # Several warnings speak of one GPU; only different indexes tell two of a kind apart.
        numbered = {index: (name, capability) for index, name, capability in found if index is not None}
        known = next((capability for _, _, capability in found if capability), None)
        for number, (name, capability) in sorted(numbered.items()):
            yield Gpu(number, name, capability or known)
        if not numbered:
            yield Gpu(None, found[0][1], known)


def capability_of_text(text: str | None) -> str | None:
    """ "sm_120", "120", "12.0" or "12.0." as "12.0"; None when it is none of these."""
    match = re.match(r"^(?:sm_|compute_)?(\d+)(?:\.(\d))?", (text or "").strip(), re.IGNORECASE)
    if not match:
        return None
    if match.group(2) is not None:
        return f"{match.group(1)}.{match.group(2)}"
    digits = match.group(1)
    return f"{digits[:-1]}.{digits[-1]}" if len(digits) > 1 else None


def driver_version(facts: Facts) -> str | None:
    """Version of the NVIDIA driver: what nvidia-smi says, else the loaded kernel module's."""
    return facts.nvidia.driver_version or facts.nvidia.kernel_driver_version


def os_for_driver(facts: Facts) -> str | None:
    """Whose driver numbers count: under WSL the Windows host's."""
    return "windows" if facts.system.wsl else wheel_os(facts)


def driver_cuda(facts: Facts, matrix: Matrix) -> Value | None:
    """Highest CUDA the driver serves: nvidia-smi's header, cuDriverGetVersion, else the tables by driver number."""
    if facts.nvidia.driver_cuda:
        return Value(facts.nvidia.driver_cuda, False)
    asked = facts.nvidia.cuda_init.driver_version if facts.nvidia.cuda_init else None
    if asked:
        return Value(asked, False)
    driver, os = driver_version(facts), os_for_driver(facts)
    if driver and os:
        named = matrix.driver_cuda(driver, os)
        return Value(named, True) if named else None
    return None


def has_nvidia_gpu(facts: Facts) -> bool | None:
    """Whether the machine has an NVIDIA GPU. False only when something that would show it does not."""
    if facts.nvidia.gpus or any(item.vendor_id == NVIDIA_VENDOR for item in facts.pci or ()) or is_jetson(facts):
        return True
    if not facts.torch.hip and any(d.kind == "cuda" for d in facts.torch.devices or ()):
        return True
    if any(True for _ in _gpus_of_symptoms(facts)):
        return True
    if facts.system.os == "macos":
        return False
    if facts.nvidia.gpus == () and facts.nvidia.smi_error not in ("no-driver", "library-mismatch", "nvml-unknown"):
        return False
    if facts.pci is not None and not facts.system.wsl and facts.system.container in (None, "none"):
        return False
    return None


def has_amd_gpu(facts: Facts) -> bool | None:
    """Whether the machine has an AMD GPU (an integrated one counts)."""
    if facts.amd.gpus or any(item.vendor_id == AMD_VENDOR for item in facts.pci or ()):
        return True
    return False if facts.pci is not None or facts.amd.gpus == () else None


def has_intel_gpu(facts: Facts) -> bool | None:
    """Whether the machine has an Intel GPU (an integrated one counts)."""
    if facts.intel.gpus or any(item.vendor_id == INTEL_VENDOR for item in facts.pci or ()):
        return True
    if any(d.kind == "xpu" for d in facts.torch.devices or ()):
        return True
    return False if facts.pci is not None or facts.intel.gpus == () else None


def is_jetson(facts: Facts) -> bool:
    """A Jetson board: it says so itself, or its kernel, its GPU's name or an image that was started does."""
    system = facts.system
    if system.jetson_model or system.l4t or system.jetpack:
        return True
    if system.kernel and "tegra" in system.kernel.lower():
        return True
    names = [g.name for g in facts.nvidia.gpus or ()] + [d.name for d in facts.torch.devices or ()]
    if any(name and _JETSON_WORDS.search(name) for name in names):
        return True
    return any(re.search(r"\b(?:l4t|tegra)\b|[-.]tegra", command, re.IGNORECASE) for command in facts.commands)


def python_version(facts: Facts) -> str | None:
    """Version of the Python under test."""
    return facts.python.version


def python_minor(facts: Facts) -> str | None:
    """ "3.11" of the Python under test, "3.13t" for a free-threaded one."""
    parts = numbers(facts.python.version)
    if len(parts) < 2:
        return None
    return f"{parts[0]}.{parts[1]}" + ("t" if facts.python.free_threaded else "")


def module_version(facts: Facts, name: str) -> str | None:
    """Version of a companion (torchvision, torchaudio, triton ...): as it was imported, else as it is installed."""
    for item in facts.torch.companions or ():
        if item.name == name and item.version:
            return item.version
    found = facts.distribution(name)
    return found.version if found else None


def in_container(facts: Facts) -> bool | None:
    """Whether this is a container; None when nobody says."""
    if facts.system.container is None:
        return None
    return facts.system.container != "none"


def quote(*items: Symptom | str | None, limit: int = 200) -> str:
    """What was seen, for a finding: error lines in quotation marks, then values that go with them."""
    parts = []
    for item in items:
        if isinstance(item, Symptom):
            text = item.text if len(item.text) <= limit else item.text[: limit - 1].rstrip() + "…"
            parts.append(f'"{text}"')
        elif item:
            parts.append(item)
    return "; ".join(dict.fromkeys(parts))


def symptoms(facts: Facts, *kinds: str) -> tuple[Symptom, ...]:
    """All symptoms of the kinds that are not echoes, in order."""
    return tuple(item for item in facts.symptoms if item.kind in kinds and not item.echo)


def detail(item: Symptom | None, *names: str) -> str | None:
    """The first of the named details that the symptom has."""
    if item is not None:
        for name in names:
            if item.details.get(name):
                return item.details[name]
    return None


def line_of(facts: Facts, *fields: str) -> int | None:
    """Line of the paste where the first of these fields was read."""
    for name in fields:
        where = facts.where(name)
        if where is not None and where.line is not None:
            return where.line
    return None
