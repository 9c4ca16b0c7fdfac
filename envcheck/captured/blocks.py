"""Fields of `collect_env` that run over several lines, and lists of GPUs: `nvidia-smi -L`, MIG slices, XPU devices."""

from __future__ import annotations

import re

from envcheck.captured import gpu_names, readers, values
from envcheck.captured.document import LISTED, SAID, Document
from envcheck.facts import AmdGpu, NvidiaGpu, TorchDevice
from envcheck.lazy import Regex

_GPU_LINE = Regex(r"^\s{0,8}(?:[-*]\s)?GPU\s?(\d{1,2}):\s?(\S.{1,160}?)\s*(?:\(UUID: \S{1,80}\))?\s*$")
_MIG_LINE = Regex(
    r"^\s{1,8}(?:[-*]\s)?MIG\s{1,4}(\d{1,2}(?:c\.\d{1,2})?g\.\d{1,4}gb(?:\+me(?:\.all)?|\+gfx)?)\s{1,40}Device\s{1,4}(\d{1,2}):"
)
_HEADER = Regex(
    r"^\s{0,8}(?:[-*]\s)?(?:\*\*)?(GPU models and configuration|cuDNN version|Intel GPU driver version|Intel GPU models onboard|Intel GPU models detected|GPU models|GPUs?)(?:\*\*)?\s{0,30}:\s*(.{0,300})$",
    re.IGNORECASE,
)


def parse(doc: Document) -> None:
    """Reads the blocks; runs before the single-line keys."""
    for index in doc.find(
        "gpu 0:",
        "gpu 1:",
        "gpu 2:",
        "gpu 3:",
        "gpu 4:",
        "gpu 5:",
        "gpu 6:",
        "gpu 7:",
        "gpu 8:",
        "gpu 9:",
        "gpu0:",
        "gpu1:",
        "gpu 10:",
        "gpu 11:",
        "gpu 12:",
        "gpu 13:",
        "gpu 14:",
        "gpu 15:",
    ):
        _gpu_line(doc, index)
    if doc.has("mig "):
        _mig(doc)
    for index in doc.find("gpu models", "cudnn version", "intel gpu", "gpus:", "gpu:"):
        match = _HEADER.match(doc.lines[index])
        if match:
            _block(doc, match[1].lower(), match[2].strip(), index)


def _gpu_line(doc: Document, index: int) -> None:
    line = doc.lines[index]
    match = _GPU_LINE.match(line)
    if not match or not doc.free(index):
        return
    name = match[2]
    if re.match(r"\d|N/A|None|allocated|memory|util", name) or "%" in name or "MiB /" in name:
        return
    vendors = {g.vendor for g in gpu_names.gpus_of(name, expected=True)}
    if "unable to determine" in name.lower():
        doc.add("nvidia.gpus", NvidiaGpu(index=int(match[1]), error=name), index, SAID)
    elif vendors == {"amd"}:
        doc.add("amd.gpus", AmdGpu(name=name), index, LISTED)
    elif vendors == {"intel"}:
        doc.add("intel.gpus", name, index, LISTED)
    elif vendors or re.search(r"nvidia|graphics device|tesla|quadro|geforce", name, re.IGNORECASE) or "UUID" in line:
        plain = re.split(r"\s+\((?:UUID|arch|cc|sm_|compute)", name)[0].strip(" ,")
        doc.add(
            "nvidia.gpus",
            NvidiaGpu(index=int(match[1]), name=plain, compute_capability=gpu_names.capability_of(name[len(plain) :])),
            index,
            SAID,
        )
    else:
        return
    doc.claim(index)


def _mig(doc: Document) -> None:
    """ "  MIG 3g.40gb     Device  0:" below its GPU."""
    for index in doc.find("mig "):
        match = _MIG_LINE.match(doc.lines[index])
        if not match:
            continue
        doc.claim(index)
        owner = next((v for v in reversed(doc.draft.lists.get("nvidia.gpus", [])) if (v.line or 0) <= index), None)
        number = owner.value.index if owner is not None else None
        doc.add("mig", (number, match[1]), index, SAID)


def _block(doc: Document, header: str, value: str, index: int) -> None:
    if header == "cudnn version":
        _cudnn(doc, value, index)
    elif header == "intel gpu driver version":
        _intel_driver(doc, index)
    elif header == "intel gpu models onboard":
        _onboard(doc, value, index)
    elif header == "intel gpu models detected":
        _detected(doc, index)
    elif not value:
        _names(doc, index)


def _names(doc: Document, header: int) -> None:
    """Bare names below the header: old reports and ROCm write one a line."""
    doc.claim(header)
    for index in range(header + 1, min(header + 18, len(doc.lines))):
        line = doc.lines[index].strip(" -*")
        if not line or (":" in line and not re.match(r"GPU \d", line)):
            break
        if doc.free(index) and len(line) < 120 and readers.put_gpus(doc, line, index, LISTED, expected=True):
            doc.claim(index)


def _cudnn(doc: Document, value: str, index: int) -> None:
    if value and not value.lower().startswith("probably"):
        return
    for other in range(index + 1, min(index + 20, len(doc.lines))):
        line = doc.lines[other].strip()
        if "libcudnn" not in line and "cudnn" not in line.lower():
            break
        readers.put_cudnn_file(doc, line, other)
        doc.claim(other)
    doc.claim(index)


def _intel_driver(doc: Document, index: int) -> None:
    doc.claim(index)
    for other in range(index + 1, min(index + 8, len(doc.lines))):
        match = re.match(r"^\s*[*-]\s*([\w-]{3,40}):\s*(\S{1,60})", doc.lines[other])
        if not match:
            break
        if match[1].startswith("libze1"):
            doc.put("intel.level_zero", match[2], other, SAID)
        elif "opencl" in match[1] or "level-zero" in match[1] or "level_zero" in match[1]:
            doc.put("intel.driver_version", match[2], other, SAID)
        doc.claim(other)


def _onboard(doc: Document, value: str, index: int) -> None:
    doc.claim(index)
    for other in range(index + 1, min(index + 18, len(doc.lines))):
        line = doc.lines[other].strip()
        match = re.match(r"^\*\s*(\S.{2,120})$", line)
        if not match and values.is_nothing(line) and line:
            doc.claim(other)
            break
        if not match or match[1].startswith("["):
            break
        doc.add("intel.gpus", match[1], other, LISTED)
        doc.claim(other)


def _detected(doc: Document, index: int) -> None:
    doc.claim(index)
    for other in range(index + 1, min(index + 18, len(doc.lines))):
        line = doc.lines[other].strip()
        match = re.match(r"^\*?\s*\[(\d{1,2})\]\s*(\S.{2,400})$", line)
        if not match:
            if line and values.is_nothing(line):
                doc.claim(other)
            break
        name = re.search(r"name='([^']{1,100})'", match[2])
        if name and "DeviceProperties(" in match[2]:
            continue  # read as the repr of a device's properties
        doc.add("torch.devices", TorchDevice(kind="xpu", index=int(match[1]), name=match[2][:100]), other, SAID)
        doc.add("intel.gpus", match[2][:100], other, LISTED)
        doc.claim(other)
