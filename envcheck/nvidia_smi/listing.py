"""`nvidia-smi -L` and `nvidia-smi --version`."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from envcheck.facts import NvidiaGpu
from envcheck.lazy import Regex
from envcheck.nvidia_smi.text import clean_lines
from envcheck.nvidia_smi.units import word

_GPU = Regex(r"^[\s|]*GPU\s+(\d{1,3})\s*:\s*(\S.{1,100}?)\s*(\((?:UUID.*|U{0,2}I?D?))?$")
# Without the UUID behind it a name has to look like one: logs have lines such as "GPU 0: 45 C" too.
_NAME = Regex(
    r"^(?:NVIDIA|GeForce|Quadro|Tesla|TITAN|GRID|RTX|GTX|Orin|Xavier|Thor|Graphics Device|(?:GB|GH|[ABHKLMPTV])\d{1,3}\b)"
)
_MIG = Regex(r"^[\s|]*MIG\s+(\d+c\.\d+g\.\d+gb\S*|\d+g\.\d+gb\S*)\s+Device\s+(\d+)\s*:")


def parse_list(text: str) -> tuple[NvidiaGpu, ...] | None:
    """The GPUs of `nvidia-smi -L` with the profiles of their MIG instances, None when there is no such line.

    A GPU without MIG lines below it may still have MIG on, so its MIG fields stay unknown.
    """
    found: list[tuple[int, str]] = []
    instances: dict[int, list[str]] = {}
    for line in clean_lines(text):
        gpu = _GPU.match(line)
        if gpu and (gpu.group(3) or _NAME.match(gpu.group(2))):
            found.append((int(gpu.group(1)), " ".join(gpu.group(2).split())))
            continue
        mig = _MIG.match(line)
        if mig and found:
            instances.setdefault(found[-1][0], []).append(mig.group(1))
    gpus = [
        NvidiaGpu(
            index=index,
            name=name,
            mig=True if index in instances else None,
            mig_instances=tuple(instances[index]) if index in instances else None,
        )
        for index, name in found
    ]
    return tuple(gpus) or None


@dataclass
class Versions:
    """The answer of `nvidia-smi --version` (R525 and newer)."""

    smi_version: str | None = None
    nvml_version: str | None = None
    driver_version: str | None = None
    driver_cuda: str | None = None
    lines: dict[str, int] = field(default_factory=dict)


_VERSION = Regex(r"^\W*(NVIDIA-SMI|NVML|DRIVER|KMD|CUDA|CUDA UMD)\s+version\s*:\s*(\S+)", re.IGNORECASE)
_FIELDS = {
    "nvidia-smi": "smi_version",
    "nvml": "nvml_version",
    "driver": "driver_version",
    "kmd": "driver_version",
    "cuda": "driver_cuda",
    "cuda umd": "driver_cuda",
}


def parse_version(text: str) -> Versions | None:
    """Reads `nvidia-smi --version`, None when its first line "NVIDIA-SMI version : ..." is absent."""
    versions = Versions()
    for position, line in enumerate(clean_lines(text)):
        match = _VERSION.match(line)
        if match is None:
            continue
        name = _FIELDS[match.group(1).lower()]
        # The other lines occur in many other reports too ("CUDA Version: 12.2"), so the first one must have been seen.
        if (versions.smi_version or name == "smi_version") and getattr(versions, name) is None:
            value = word(match.group(2))
            setattr(versions, name, value)
            if value is not None:
                versions.lines[name] = position + 1
    return versions if versions.smi_version else None
