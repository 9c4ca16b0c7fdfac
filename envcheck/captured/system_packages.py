"""Packages of the operating system: dpkg, apt, rpm, pacman. Drivers, cuDNN and toolkits are what counts of them."""

from __future__ import annotations

import re

from envcheck.captured import values
from envcheck.captured.document import Document
from envcheck.facts import CudaToolkit
from envcheck.lazy import Regex

_DPKG = Regex(r"^\s{0,4}[hi][iH]\s{1,6}([a-z0-9][\w.+-]{1,60})(?::\w{2,8})?\s{1,60}(\d\S{0,60})\s")
_APT = Regex(r"^\s{0,4}([a-z0-9][\w.+-]{1,60})/\S{1,60} (\d\S{0,60}) (?:amd64|arm64|all|i386)\b(?P<state>.*)$")
_RPM = Regex(
    r"^\s{0,4}([a-zA-Z][\w.+-]{1,60}?)-(\d[\w.~+^]{0,40})-([\w.~+^]{1,40})\.(?:x86_64|noarch|i686|aarch64)\s*$"
)
_DRIVER_PACKAGE = Regex(
    r"^(?:lib)?(?:nvidia|xserver-xorg-video-nvidia|xorg-x11-drv-nvidia|kmod-nvidia|akmod-nvidia|cuda-drivers|linux-modules-nvidia|linux-objects-nvidia|dkms-nvidia|nvidia-dkms)(?!-container|-cuda-toolkit|-cudnn|-cublas|-cu\d|-nccl|-docker|-ml-py|-pyindex|-smi-exporter)"
)
_PIP_NVIDIA = Regex(
    r"-cu\d\d$|^nvidia-(?:cublas|cuda-(?:runtime|nvrtc|cupti)|cudnn|cufft|curand|cusolver|cusparse|cusparselt|nccl|nvjitlink|nvtx|nvshmem|cufile|ml-py|dali|pyindex)"
)


def read(doc: Document, line: str, index: int) -> bool:
    """Reads one line; False when it is no package of the operating system."""
    match = _DPKG.match(line) or _APT.match(line)
    name = version = None
    if match:
        if "state" in match.groupdict() and "installed" not in (match["state"] or ""):
            return False
        name, version = match[1], match[2]
    else:
        rpm = _RPM.match(line)
        if rpm:
            name, version = rpm[1], rpm[2]
        else:
            pair = re.match(r"^\s{0,8}[*-]?\s?([a-z][\w.+-]{3,60})\s{0,3}[:= ]\s{0,40}(\d[\w.:+~-]{2,60})\s*$", line)
            if pair and (
                _DRIVER_PACKAGE.match(pair[1]) or re.match(r"libcudnn\d", pair[1]) or _TOOLKIT_PACKAGE.match(pair[1])
            ):
                name, version = pair[1], pair[2]
    if not name or not version:
        return False
    doc.claim(index)
    _put(doc, name, version, index)
    return True


_TOOLKIT_PACKAGE = Regex(r"^cuda-(?:toolkit-)?\d{1,2}-\d$|^cuda-toolkit(?:-\d{1,2}-\d)?$|^nvidia-cuda-toolkit$")


def _put(doc: Document, name: str, version: str, index: int) -> None:
    """A package of the distribution: drivers and cuDNN are what counts."""
    lowered = name.lower()
    plain = version.partition(":")[2] or version if re.match(r"\d:", version) else version
    if re.match(r"libcudnn\d", lowered) and not lowered.endswith("-dev"):
        found = values.number(plain.split("-")[0])
        doc.add("toolchain.cudnn_system", found or plain, index)
        return
    if lowered.startswith("libnccl"):
        doc.add("system_libraries", f"{lowered} {plain}", index)
        return
    if lowered in ("nvidia-container-toolkit", "nvidia-docker2", "libnvidia-container1"):
        if lowered == "nvidia-container-toolkit":
            doc.put("nvidia.container_toolkit", plain.split("-")[0], index)
        return
    if _TOOLKIT_PACKAGE.match(lowered):
        doc.add("toolchain.cuda_toolkits", CudaToolkit(version=values.cuda_version(plain.split("-")[0])), index)
        return
    if _DRIVER_PACKAGE.match(lowered) and not _PIP_NVIDIA.search(lowered):
        doc.add("nvidia.driver_packages", f"{name} {plain}", index)
        return
