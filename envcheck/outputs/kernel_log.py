"""The kernel's log (`dmesg`, `journalctl -k`, /dev/kmsg): the few lines that tell of a GPU in trouble."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

import msgspec

from envcheck.facts import KernelEvent
from envcheck.lazy import Regex

MAX_TEXT = 300
MAX_SAME = 10
"""Events kept of one kind and code: a dying card writes thousands."""

_XID = Regex(r"NVRM: Xid \([^)]*\): (\d+)")

# (kind, literal that the lower-cased line must hold, pattern); ordered, the first match names the line.
_KINDS = (
    ("xid", "nvrm: xid", r"NVRM: Xid \([^)]*\): \d+"),
    ("rm-init-adapter", "nvrm", r"rm_?init_?adapter failed"),
    # Banners and notes of a healthy start ("NVRM: loading NVIDIA UNIX ...") name no trouble and are left out.
    ("nvrm", "nvrm", r"nvrm: this pci i/o region|nvrm: .*(?:fail|error|mismatch|not supported|unable|cannot|can't)"),
    ("nvrm", "nvrm", r"nvrm: .*(?:already (?:bound|claimed)|no nvidia|ignoring|invalid|fallen off|requires use of)"),
    (
        "module-rejected",
        "module",
        r"unsigned module|module verification.*rejected|loading of .*module.*(?:rejected|restricted)",
    ),
    (
        "module-rejected",
        "nvidia",
        r"could not insert .?nvidia\S*: (?:key was rejected|required key|operation not permitted)",
    ),
    ("module-incompatible", "nvidia", r"nvidia\S*: (?:version magic|unknown symbol|disagrees about version of symbol)"),
    ("module-incompatible", "nvidia", r"could not insert .?nvidia\S*: (?:exec format|unknown symbol|invalid argument)"),
    ("amdgpu", "amdgpu", r"amdgpu.*(?:fail|error|timeout|gpu reset|not supported in kfd|rejects atomics|page fault)"),
    ("amdgpu", "kfd", r"kfd.*(?:fail|error|not supported in kfd|skipped device|rejects atomics)"),
    ("intel-gpu", "i915", r"i915 .*(?:gpu hang|\*error\*|failed)"),
    ("intel-gpu", "xe ", r"\bxe [0-9a-f]{4}:.*(?:\*error\*|timedout|timeout|failed|wedged)"),
    ("oom-killer", "out of memory", r"out of memory: kill"),
    ("oom-killer", "oom-kill", r"invoked oom-killer|oom-kill:"),
    ("pcie", "pcie", r"pcie bus error: severity=uncorrect|aer: (?:multiple )?uncorrect|surprise down"),
    ("pcie", "surprise down", r"surprise down error"),
    ("illegal-instruction", "invalid opcode", r"traps: \S*python\S* .*invalid opcode"),
    ("segfault", "segfault at", r"\S*python\S*: segfault at"),
)


@cache
def _patterns() -> tuple[tuple[str, str, Callable[[str], object]], ...]:
    return tuple((kind, needle, re.compile(pattern, re.IGNORECASE).search) for kind, needle, pattern in _KINDS)


def parse_kernel_log(text: str) -> tuple[KernelEvent, ...]:
    """The events of a log in their order, `line` counted from 1; () when there is none."""
    lowered = text.lower()
    candidates = [item for item in _patterns() if item[1] in lowered]
    if not candidates:
        return ()
    events: list[KernelEvent] = []
    seen: dict[tuple[str, int | None], int] = {}
    for position, (line, low) in enumerate(zip(text.split("\n"), lowered.split("\n"), strict=True)):
        kind = _kind(line, low, candidates)
        if kind is None:
            continue
        match = _XID.search(line)
        code = int(match.group(1)) if match else None
        seen[kind, code] = seen.get((kind, code), 0) + 1
        if seen[kind, code] <= MAX_SAME:
            events.append(KernelEvent(kind=kind, code=code, text=line.strip()[:MAX_TEXT], line=position + 1))
    return tuple(events)


def _kind(line: str, low: str, candidates: list[tuple[str, str, Callable[[str], object]]]) -> str | None:
    for kind, needle, search in candidates:
        if needle in low and search(line[:2000]):
            return kind
    return None


_KMSG = Regex(r"^(\d+),(\d+),(\d+),[^;]*;(.*)$", re.MULTILINE)


def kmsg_messages(text: str) -> str:
    """Records of /dev/kmsg ("6,339,5140900,-;message") as the lines that dmesg prints; other text is left as it is."""
    if not _KMSG.search(text):
        return text
    lines = []
    for match in _KMSG.finditer(text):
        micros = int(match.group(3))
        lines.append(f"[{micros // 1_000_000:5d}.{micros % 1_000_000:06d}] {match.group(4)}")
    return "\n".join(lines)


_JOURNAL = Regex(r"^(\[[ \d.]{1,20}\] )\S{1,64} kernel: ", re.MULTILINE)


def journal_messages(text: str) -> str:
    """Lines of `journalctl -k -o short-monotonic` as dmesg prints them, without the machine's name."""
    return _JOURNAL.sub(r"\1", text)


_SINCE_START = Regex(r"^\[\s*(\d+\.\d+)\]")


def with_ages(events: tuple[KernelEvent, ...], now: float | None) -> tuple[KernelEvent, ...]:
    """The events with how long ago they were, `now` being seconds since the start as the log counts them."""
    result = []
    for event in events:
        stamp = _SINCE_START.match(event.text or "")
        age = now - float(stamp[1]) if stamp and now is not None else None
        result.append(msgspec.structs.replace(event, age=round(age, 1)) if age is not None and age >= 0 else event)
    return tuple(result)
