"""A machine from the words of a person (`recommend --os ... --gpu ...`): Facts with everything else unknown."""

from __future__ import annotations

import re

from envcheck.errors import UsageError
from envcheck.facts import Amd, AmdGpu, Apple, Facts, Intel, Nvidia, NvidiaGpu, PythonEnv, Struct, System
from envcheck.matrix import Matrix
from envcheck.matrix.versions import numbers

SYSTEMS = ("linux", "windows", "macos", "wsl")
_MACHINES = {
    "amd64": "x86_64", "x64": "x86_64", "x86-64": "x86_64", "arm64": "aarch64", "x86": "i686", "i386": "i686",
}  # fmt: skip
_VERSION = re.compile(r"(\d+\.\d+)(\.\d+)*(t?)")
_AMD_WORDS = re.compile(r"\b(amd|radeon|instinct|firepro|gfx[0-9a-f]+|rx ?\d{3,4}|mi\d{2,3}x?)\b", re.IGNORECASE)
_INTEL_WORDS = re.compile(r"\b(intel|arc|iris|uhd|data center gpu)\b", re.IGNORECASE)


class Description(Struct, frozen=True, kw_only=True):
    """What the options say; None and () = not said."""

    os: str | None = None
    machine: str | None = None
    python: str | None = None
    """A version: "3.12", "3.13t"."""
    driver: str | None = None
    gpus: tuple[str, ...] = ()
    capabilities: tuple[str, ...] = ()
    rocm: str | None = None

    @property
    def another(self) -> bool:
        """It describes a machine that need not be this one."""
        return bool(self.os or self.machine or self.driver or self.gpus or self.capabilities)


def is_version(text: str) -> bool:
    """ "3.12", "3.12.4" and "3.13t", as against the path of an interpreter."""
    return _VERSION.fullmatch(text) is not None


def describe(said: Description, matrix: Matrix, *, here: System) -> Facts:
    """The described machine. Operating system and architecture are those of this one where they are not said.

    Raises:
        UsageError: an option that cannot be read, or a GPU that nobody knows.
    """
    name = _system(said.os) if said.os else here.os
    os, wsl = ("linux", 2) if name == "wsl" else (name, 0)
    nvidia, amd, intel = _gpus(said, matrix)
    driver = _driver(said.driver)
    unsaid = not (nvidia or amd or intel or driver)
    return Facts(
        origin="described",
        system=System(os=os, machine=_machine(said, os, here), wsl=wsl),
        nvidia=Nvidia(gpus=nvidia or (None if unsaid or driver else ()), driver_version=driver),
        amd=Amd(gpus=amd or None, rocm_version=said.rocm),
        intel=Intel(gpus=intel or None),
        apple=Apple(),
        python=PythonEnv(
            version=said.python.rstrip("t") if said.python else None,
            free_threaded=said.python.endswith("t") if said.python else None,
        ),
    )


def _system(text: str) -> str:
    name = {"darwin": "macos", "mac": "macos", "win": "windows", "win32": "windows", "osx": "macos"}.get(
        text.lower(), text.lower()
    )
    if name not in SYSTEMS:
        raise UsageError(f"--os {text!r} is unknown: one of {', '.join(SYSTEMS)}")
    return name


def _machine(said: Description, os: str | None, here: System) -> str | None:
    if said.machine:
        name = _MACHINES.get(said.machine.lower(), said.machine.lower())
        return "arm64" if os == "macos" and name == "aarch64" else name
    if os == here.os:
        return here.machine
    return "arm64" if os == "macos" else "x86_64"


def _driver(text: str | None) -> str | None:
    if text is None:
        return None
    if not re.fullmatch(r"\d{3}(\.\d+)*", text):
        raise UsageError(f"--driver {text!r} is no driver version; nvidia-smi shows it, for example 535.183.01")
    return text


def _gpus(said: Description, matrix: Matrix) -> tuple[tuple[NvidiaGpu, ...], tuple[AmdGpu, ...], tuple[str, ...]]:
    capabilities = [_capability(text) for text in said.capabilities]
    nvidia: list[NvidiaGpu] = []
    amd: list[AmdGpu] = []
    intel: list[str] = []
    for name in said.gpus:
        if _AMD_WORDS.search(name) and matrix.gpu(name) is None:
            amd.append(_amd(name, matrix))
        elif _INTEL_WORDS.search(name) and matrix.gpu(name) is None:
            intel.append(name)
        else:
            nvidia.append(NvidiaGpu(name=name))
    if nvidia and len(capabilities) > 1 and len(capabilities) != len(nvidia):
        raise UsageError(
            f"{len(nvidia)} NVIDIA GPUs and {len(capabilities)} values of --compute-cap: give one for each"
        )
    for index, gpu in enumerate(nvidia):
        capability = capabilities[index if len(capabilities) > 1 else 0] if capabilities else None
        if capability is None and matrix.gpu(gpu.name or "") is None:
            raise UsageError(
                f"--gpu {gpu.name!r} is not a GPU that the tables know; give its --compute-cap "
                "(nvidia-smi --query-gpu=compute_cap --format=csv shows it)"
            )
        nvidia[index] = NvidiaGpu(name=gpu.name, compute_capability=capability)
    if not nvidia:
        nvidia = [NvidiaGpu(compute_capability=capability) for capability in capabilities]
    if said.rocm and not amd:
        amd = [AmdGpu()]
    return tuple(nvidia), tuple(amd), tuple(intel)


def _amd(name: str, matrix: Matrix) -> AmdGpu:
    if re.fullmatch(r"gfx[0-9a-f]+", name, re.IGNORECASE):
        return AmdGpu(gfx=name.lower())
    if matrix.amd_gpu(name) is None:
        raise UsageError(f"--gpu {name!r} is not an AMD GPU that the tables know; give its target, such as gfx1100")
    return AmdGpu(name=name)


def _capability(text: str) -> str:
    match = re.fullmatch(r"(?:sm_|compute_)?(\d{1,2})\.?(\d)[af]?", text.strip().lower())
    if match is None or not numbers(match[1]):
        raise UsageError(f"--compute-cap {text!r} is no compute capability; examples: 8.9, sm_89")
    return f"{match[1]}.{match[2]}"
