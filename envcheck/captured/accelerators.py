"""Tools of AMD and Intel: rocminfo, rocm-smi, amd-smi, clinfo, sycl-ls, xpu-smi, and what they say when they fail."""

from __future__ import annotations

import re

from envcheck.captured import gpu_names, values
from envcheck.captured.document import LISTED, SAID, Document
from envcheck.facts import AmdGpu, DeviceNode, Outcome
from envcheck.lazy import Regex

_KFD = Regex(
    r"(?:Unable to open|Could not open|open|access|cannot access) ['\"]?/dev/kfd['\"]?(?: read-write)?[:.]?\s{0,3}(.{0,120})",
    re.IGNORECASE,
)
_AGENT = Regex(r"^\s{0,8}(Name|Marketing Name|Vendor Name|Device Type):\s{1,40}(\S.{0,100}?)\s*$")
_ISA = Regex(r"amdgcn-amd-amdhsa--(gfx\d{3,4}[a-f]?)")
_SMI_ROW = Regex(
    r"^\s{0,4}(\d{1,2})\s{1,12}(?:\d\s{1,8})?(?:0x[0-9a-f]{4},?\s{1,12})?(?:\d{1,5}\s{1,8})?\d{1,3}\.\d°?[cC]\s"
)
_SMI_NAME = Regex(
    r"^\s{0,4}GPU\[(\d{1,2})\]\s{1,12}: (?:Card [Ss]eries|Card series|Device Name|Card Model):\s{1,12}(\S.{1,100})$"
)
_SMI_GFX = Regex(r"^\s{0,4}GPU\[(\d{1,2})\]\s{1,12}: GFX Version:\s{1,12}(gfx\w+)")
_SYCL = Regex(
    r"^\s{0,4}\[(?:ext_oneapi_)?(?:level_zero|opencl):gpu[^\]\n]{0,20}\].{0,120}?, (?P<name>Intel\(R\).{2,80}?) (?:\d[\d.]{0,12} )?\["
)
_XPU_SMI = Regex(r"\|\s{1,8}(\d{1,2})\s{1,8}\|\s{1,8}Device Name:\s{1,8}(\S.{2,80}?)\s*\|")
_ROCM_VERSION = Regex(r"(?:ROCm|rocm)[ -](?:version:? |HIP runtime )?v?(\d\.\d{1,2}(?:\.\d{1,2})?)(?![\d.]*\w*\.so)")
_HIP = Regex(r"^\s{0,8}HIP version:\s{1,4}(\d\.\d{1,2}\.\d{1,6})")


def parse(doc: Document) -> None:
    """Reads the output of each tool that left a trace."""
    if doc.has("/dev/kfd"):
        _kfd(doc)
    if doc.has("hsa agents", "hsa system attributes", "marketing name:", "amdgcn-amd-amdhsa"):
        _rocminfo(doc)
    if doc.has("rocm system management interface", "gpu[0]", "rocm-smi"):
        _rocm_smi(doc)
    if doc.has("level_zero", "sycl-ls", "xpu-smi", "device name:"):
        _intel(doc)
    if doc.has("hip version"):
        for index in doc.find("hip version"):
            match = _HIP.match(doc.lines[index])
            if match:
                doc.put("amd.rocm_version", ".".join(match[1].split(".")[:2]), index, LISTED)
                doc.claim(index)
    if doc.has("clinfo", "device board name", "cl_device"):
        for index in doc.find("device board name"):
            name = doc.lines[index].partition("(AMD)")[2].strip() or doc.lines[index].rpartition("  ")[2].strip()
            if name:
                doc.add("amd.gpus", AmdGpu(name=name), index, LISTED)
                doc.claim(index)


def _kfd(doc: Document) -> None:
    for index in doc.find("/dev/kfd"):
        match = _KFD.search(doc.lines[index])
        if not match or not re.search(
            r"denied|cannot allocate|no such|not permitted|failed|invalid|unable|busy|bad address",
            doc.lines[index],
            re.IGNORECASE,
        ):
            continue
        reason = match[1].strip() or doc.lines[index].strip()
        doc.put("amd.kfd_error", reason[:200], index, SAID)
        if re.search(r"denied|not permitted", reason, re.IGNORECASE):
            doc.put("amd.kfd", DeviceNode(path="/dev/kfd", readable=False, writable=False), index, SAID)
        doc.put("system.os", "linux", index, LISTED)
        doc.claim(index, errors=True)


def _rocminfo(doc: Document) -> None:
    """Agents of the type GPU: gfx name, then marketing name."""
    agent: dict[str, str] = {}
    for index in doc.find("name:", "device type:", "vendor name:"):
        match = _AGENT.match(doc.lines[index])
        if not match:
            continue
        key, value = match[1], match[2]
        if key == "Name" and agent.get("Device Type"):
            agent = {}
        agent.setdefault(key, value)
        doc.claim(index)
        if key == "Device Type" and value == "GPU":
            gfx = gpu_names.gfx_of(agent.get("Name", ""))
            name = agent.get("Marketing Name")
            doc.add(
                "amd.gpus",
                AmdGpu(name=name if name and not values.is_nothing(name) else None, gfx=gfx[0] if gfx else None),
                index,
                SAID,
            )
        elif key == "Device Type" and value == "CPU" and agent.get("Marketing Name"):
            doc.put("system.cpu_model", agent["Marketing Name"], index, LISTED)
    if doc.has("device type:"):
        return
    for index in doc.find("amdgcn-amd-amdhsa"):
        line = doc.lines[index]
        match = _ISA.search(line)
        if match and not re.search(r"error|unsupported|cannot|fail", line, re.IGNORECASE):
            names = [g.name for g in gpu_names.gpus_of(line) if g.vendor == "amd"]
            doc.add("amd.gpus", AmdGpu(name=names[0] if names else None, gfx=match[1]), index, LISTED)


def _rocm_smi(doc: Document) -> None:
    for index in doc.find("gpu["):
        match = _SMI_NAME.match(doc.lines[index])
        if match and not values.is_nothing(match[2]):
            doc.add("amd.gpus", AmdGpu(name=match[2]), index, LISTED)
            doc.claim(index)
            continue
        match = _SMI_GFX.match(doc.lines[index])
        if match:
            doc.add("amd.gpus", AmdGpu(gfx=match[2]), index, LISTED)
            doc.claim(index)
    if doc.has("concise info", "rocm system management interface"):
        header = next((i for i in doc.find("concise info", "rocm system management interface")), 0)
        doc.put("amd.smi", Outcome(status="ok"), header, LISTED)
        named = bool(doc.draft.lists.get("amd.gpus"))
        for index in range(header, min(header + 60, len(doc.lines))):
            if _SMI_ROW.match(doc.lines[index]):
                if not named:
                    doc.add("amd.gpus", AmdGpu(), index, LISTED)
                doc.claim(index)
    for index in doc.find("rocm-smi", "rocminfo"):
        if re.search(
            r"rocm(?:-smi|info)(?:'|:|\s).{0,20}(?:command not found|not found|No such file)", doc.lines[index]
        ):
            doc.put("amd.smi", Outcome(status="missing"), index, LISTED)


def _intel(doc: Document) -> None:
    for index in doc.find("level_zero", "opencl"):
        match = _SYCL.match(doc.lines[index])
        if match:
            doc.add("intel.gpus", match["name"].strip(), index, LISTED)
            doc.claim(index)
    for index in doc.find("device name:"):
        match = _XPU_SMI.search(doc.lines[index])
        if match:
            doc.add("intel.gpus", match[2], index, SAID)
            doc.claim(index)
