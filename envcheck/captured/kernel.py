"""Lines of the kernel log about GPUs, wherever they were copied from: dmesg, journalctl, syslog."""

from __future__ import annotations

import re

from envcheck.captured.document import LISTED, SAID, Document
from envcheck.facts import KernelEvent
from envcheck.lazy import Regex

_XID = Regex(r"NVRM: Xid \(PCI:([0-9a-f:.]{4,20})\): (\d{1,3})[,:]?\s?(.{0,300})", re.IGNORECASE)
_XID_LOOSE = Regex(r"\bXid(?: error)?s?[ :=#]{1,3}(?:code )?(\d{1,3})\b", re.IGNORECASE)
_INIT = Regex(r"RmInitAdapter failed|rm_init_adapter failed|rm_init_adapter\(\) failed", re.IGNORECASE)
_MISMATCH = Regex(
    r"API mismatch: the client.{0,60}? has the version (\d{3}\.[\d.]+), but\s?(?:NVRM: )?(?:this kernel module has(?: the version)? (\d{3}\.[\d.]+))?",
    re.IGNORECASE,
)
_MISMATCH_NEXT = Regex(r"this kernel module has(?: the)? version (\d{3}\.\d[\d.]*\d)", re.IGNORECASE)
_LOADING = Regex(
    r"NVRM: loading NVIDIA UNIX (Open )?(?:x86_64|aarch64)? ?Kernel Module(?: for \w+)?\s+(\d{3}\.\d{1,3}(?:\.\d{1,3})?)"
)
_STAMP = Regex(
    r"^\s{0,8}(?:\[\s{0,6}\d{1,9}\.\d{1,9}\]|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \S{1,64} kernel:|\d{4}-\d\d-\d\dT\S{8,40} \S{1,64} kernel:|kern\s{0,8}:\w{1,8}\s{0,8}:)"
)
_GENERIC = (
    (
        "oom-killer",
        Regex(
            r"Out of memory: Kill(?:ed)? process \d+|oom-kill:|oom_reaper|invoked oom-killer|Memory cgroup out of memory"
        ),
    ),
    ("segfault", Regex(r"\S{1,40}\[\d{1,8}\]: segfault at |general protection fault")),
    ("invalid-opcode", Regex(r"traps: \S{1,40}\[\d{1,8}\] trap invalid opcode")),
    (
        "pcie",
        Regex(r"PCIe Bus Error: severity=Uncorrected|AER: Uncorrected|Surprise Down|pciehp: .{0,40}Link Down"),
    ),
    ("bar", Regex(r"BAR\s?\d{1,2}.{0,60}(?:no space for|can't assign|failed to assign|is 0M @ 0x0)")),
    ("iommu", Regex(r"DMAR: .{0,40}fault|AMD-Vi: .{0,60}IO_PAGE_FAULT")),
    ("nvrm", Regex(r"NVRM: ")),
    ("nouveau", Regex(r"\bnouveau (?:\d{4}|0000):[0-9a-f:.]{4,12}:? ")),
    ("kfd", Regex(r"\bkfd(?: kfd)?: ")),
    ("amdgpu", Regex(r"\bamdgpu(?: \d{4}:[0-9a-f:.]{4,12})?: ")),
    ("xe", Regex(r"\b(?:xe|i915) \d{4}:[0-9a-f:.]{4,12}: .{0,80}(?:error|fail|hang|reset)", re.IGNORECASE)),
)
_NEEDLES = ("nvrm", "xid", "rminitadapter", "rm_init_adapter", "oom", "out of memory: kill", "segfault", "invalid opcode", "pcie bus error", "aer: uncorrected",
            "surprise down", "bar ", "bar0", "bar1", "dmar", "amd-vi", "nouveau ", "kfd", "amdgpu", "i915 ", "xe ")  # fmt: skip
MAX_EVENTS = 200


def parse(doc: Document) -> None:
    """Reads kernel lines; each stays searchable, since signatures look at them too."""
    if not doc.has(*_NEEDLES):
        return
    events = 0
    for index in doc.find(*_NEEDLES):
        line = doc.lines[index]
        if events >= MAX_EVENTS or len(line) > 2000:
            break
        event = _event(line, index)
        if event is None:
            continue
        doc.add("kernel_events", event, index, SAID)
        doc.claim(index, errors=True)
        events += 1
        _versions(doc, line, index)
        if event.kind == "nouveau":
            doc.put("nvidia.nouveau_loaded", True, index, LISTED)


def _event(line: str, index: int) -> KernelEvent | None:
    text = line.strip()[:300]
    match = _XID.search(line)
    if match:
        return KernelEvent(kind="xid", code=int(match[2]), text=text, line=index + 1)
    if _INIT.search(line):
        return KernelEvent(kind="rm-init-adapter", text=text, line=index + 1)
    match = _XID_LOOSE.search(line)
    if match and ("NVRM" in line or _STAMP.match(line) or line.strip().lower().startswith("xid")):
        return KernelEvent(kind="xid", code=int(match[1]), text=text, line=index + 1)
    stamped = _STAMP.match(line) is not None
    for kind, pattern in _GENERIC:
        if pattern.search(line) and (stamped or kind in ("nvrm", "oom-killer", "pcie", "segfault", "invalid-opcode")):
            return KernelEvent(kind=kind, text=text, line=index + 1)
    return None


def _versions(doc: Document, line: str, index: int) -> None:
    """The kernel log names the versions of the module and of the library that does not fit it."""
    match = _LOADING.search(line)
    if match:
        doc.put("nvidia.kernel_driver_version", match[2], index, SAID)
        doc.put("nvidia.kernel_module_open", bool(match[1]), index, SAID)
        return
    match = _MISMATCH.search(line)
    if match:
        doc.put("nvidia.driver_version", match[1].rstrip("."), index, LISTED)
        for other in range(index, min(index + 3, len(doc.lines))):
            module = _MISMATCH_NEXT.search(doc.lines[other])
            if module:
                doc.put("nvidia.kernel_driver_version", module[1].rstrip("."), other, SAID)
                break
