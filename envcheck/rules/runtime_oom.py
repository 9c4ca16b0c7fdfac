"""GPU memory that runs out: too big, fragmented, taken by others, or a size that cannot be meant."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from envcheck.facts import Facts, Symptom
from envcheck.findings import Finding, Remedy
from envcheck.matrix import Matrix
from envcheck.rules import derive
from envcheck.rules.base import Rule, rule
from envcheck.rules.driver_signs import at, quoted, sign, signs
from envcheck.rules.platform_wsl import under_wsl

GIB = 1024**3
_CONTEXT = 1 * GIB
"""What CUDA itself and its libraries take in a process beside torch's own allocator: 0.3 to 1 GiB."""
_LARGEST = 288 * GIB
"""No GPU has more memory (B300: 288 GB)."""
_SHARE = 0.1
"""Part of the card from which reserved and unused memory counts as fragmentation."""
_OTHERS = 0.2
"""Part of the card from which memory outside of this process counts as somebody else's."""

_UNITS = {"b": 1, "byte": 1, "k": 1024, "m": 1024**2, "g": GIB, "t": 1024**4, "p": 1024**5, "e": 1024**6}


def size_of(text: str | None) -> int | None:
    """ "20.00 MiB", "1.5 GB", "0 bytes" in bytes; torch divides by 1024 whatever it writes."""
    match = re.match(r"\s*([\d.]+)\s*([a-zA-Z]*)", text or "")
    if not match or not match.group(1).strip("."):
        return None
    unit = match.group(2).lower()
    factor = _UNITS.get(unit if unit in ("b",) else unit.rstrip("s") if unit.startswith("byte") else unit[:1], 1)
    try:
        return int(float(match.group(1)) * factor)
    except ValueError:
        return None


def shown(size: int | None) -> str:
    """Bytes as a person reads them."""
    if size is None:
        return "?"
    for unit, factor in (("EiB", 1024**6), ("PiB", 1024**5), ("TiB", 1024**4), ("GiB", GIB), ("MiB", 1024**2)):
        if size >= factor:
            return f"{size / factor:.2f} {unit}"
    return f"{size} bytes"


@dataclass(frozen=True)
class Oom:
    """One out-of-memory message, in the terms of any era."""

    text: Symptom
    request: int | None
    total: int | None
    allocated: int | None
    free: int | None
    unallocated: int | None
    """Reserved by torch's cache and not in use."""
    others: int | None
    """Held outside of this process, as the message says or as the numbers leave over."""
    allowed: int | None = None
    """A limit that the program set for itself."""

    @property
    def kind(self) -> str:
        """ "absurd" | "fragmentation" | "other-process" | "capacity"."""
        if self.request is not None and self.request > _LARGEST:
            return "absurd"
        if self.request is None or self.total is None:
            return "capacity"
        spare = self.unallocated or 0
        if spare >= self.request and spare >= _SHARE * self.total:
            return "fragmentation"
        others = self.others or 0
        if others >= _OTHERS * self.total and others - _CONTEXT >= self.request - (self.free or 0):
            return "other-process"
        return "capacity"


def parse(text: Symptom) -> Oom:
    """The numbers of a message."""
    get = {name: size_of(value) for name, value in text.details.items()}
    total, allocated, free = get.get("total"), get.get("allocated"), get.get("free")
    reserved, unallocated = get.get("reserved"), get.get("unallocated")
    if unallocated is None and reserved is not None and allocated is not None:
        unallocated = max(reserved - allocated, 0)
    own = get.get("own")
    mine = own if own is not None else (reserved if reserved is not None else _sum(allocated, unallocated))
    named = [get[name] for name in ("other", "other2", "other3") if get.get(name) is not None]
    others = _others(named, own, mine, total, free)
    return Oom(text, get.get("request"), total, allocated, free, unallocated, others, get.get("allowed"))


def _sum(*values: int | None) -> int | None:
    known = [v for v in values if v is not None]
    return sum(known) if known else None


def _others(
    named: list[int | None], own: int | None, mine: int | None, total: int | None, free: int | None
) -> int | None:
    """Memory of other processes. In a container torch names its own process by a number that it does not recognise."""
    known = [v for v in named if v is not None]
    if known:
        if own is None and mine is not None:
            itself = min(known, key=lambda v: abs(v - mine))
            if -_CONTEXT // 4 <= itself - mine <= 2 * _CONTEXT:
                known.remove(itself)
        return sum(known)
    if total is None or free is None or mine is None:
        return None
    return max(total - free - mine, 0)


def found(facts: Facts) -> Oom | None:
    """The first out-of-memory message; the one with numbers where a text shows it twice."""
    texts = list(signs(facts, "oom"))
    if not texts:
        return None
    first = next((t for t in texts if t.details.get("total")), None) or next(
        (t for t in texts if t.details.get("request")), texts[0]
    )
    return parse(first)


def _numbers(oom: Oom) -> str:
    parts = []
    if oom.request is not None:
        parts.append(f"asked for {shown(oom.request)}")
    if oom.total is not None:
        parts.append(f"the card has {shown(oom.total)}")
    if oom.free is not None:
        parts.append(f"{shown(oom.free)} free")
    if oom.allocated is not None:
        parts.append(f"{shown(oom.allocated)} in use by this program's tensors")
    if oom.unallocated is not None:
        parts.append(f"{shown(oom.unallocated)} reserved and unused")
    return ", ".join(parts)


@rule(
    "oom-fragmentation",
    "runtime",
    "GPU memory is fragmented: much is reserved and unused, in pieces that are too small.",
    explains=("nccl-timeout", "smoke-failed"),
)
def oom_fragmentation(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Reserved and unallocated memory alone would satisfy the request."""
    oom = found(facts)
    if oom is None or oom.kind != "fragmentation":
        return
    version = derive.torch_version(facts)
    old = bool(version) and derive.numbers(version) < (2, 1)
    setting = "max_split_size_mb:128" if old else "expandable_segments:True"
    if derive.wheel_os(facts) == "windows" and not old:
        setting = "max_split_size_mb:128"
    yield rule.finding(
        "error",
        seen=quoted(oom.text, _numbers(oom)),
        why=(
            f"torch's cache holds {shown(oom.unallocated)} that nobody uses, more than the {shown(oom.request)} "
            "asked for, but not in one piece: blocks of ever changing sizes have cut it up."
        ),
        remedy=Remedy(
            text=f"Let the allocator join its pieces: PYTORCH_CUDA_ALLOC_CONF={setting} (expandable_segments from "
            "torch 2.1, on Linux; max_split_size_mb with older ones), set before Python starts. Sizes that change "
            "less help as well: pad to a few lengths, keep the batch size fixed, put the largest batch first.",
            commands=(_env(facts, "PYTORCH_CUDA_ALLOC_CONF", setting),),
        ),
        confidence="likely",
        otherwise="If it stays: torch.cuda.memory._record_memory_history() shows which tensors hold the memory.",
        line=at(oom.text),
    )


def _env(facts: Facts, name: str, value: str) -> str:
    return f"set {name}={value}" if derive.wheel_os(facts) == "windows" else f"export {name}={value}"


@rule(
    "oom-other-process", "runtime", "Another process holds the GPU's memory.", explains=("nccl-timeout", "smoke-failed")
)
def oom_other_process(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """What this process uses is far below what is used of the card."""
    oom = found(facts)
    desired = sign(facts, "oom-desired")
    start = sign(facts, "cuda-init-oom") if not under_wsl(facts) else None
    if oom is not None and (oom.kind == "other-process" or _listed(facts, oom)):
        seen = quoted(
            oom.text,
            _numbers(oom),
            f"about {shown(oom.others)} is held outside of this process" if oom.others else None,
            _processes(facts),
        )
        confidence, text = "likely" if oom.total else "possible", oom.text
    elif desired is not None:
        seen, confidence, text = quoted(desired, _processes(facts)), "likely", desired
    elif start is not None:
        seen, confidence, text = quoted(start, _processes(facts)), "possible", start
    else:
        return
    yield rule.finding(
        "error",
        title=""
        if oom is not None or start is None
        else "CUDA cannot start for want of memory: the GPU is full, by another process most likely.",
        seen=seen,
        why=(
            "The program itself uses little; the rest of the card belongs to other processes: an earlier run that "
            "did not end, a notebook that is still open, a second worker, another user, a desktop program."
        ),
        remedy=Remedy(
            text=(
                "See who holds the memory and end what is yours (or choose another GPU with CUDA_VISIBLE_DEVICES). "
                "A process that nvidia-smi does not show may sit in another container; in a notebook restart the "
                "kernel."
            ),
            commands=("nvidia-smi", "nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv")
            + (("sudo fuser -v /dev/nvidia*",) if derive.wheel_os(facts) != "windows" else ()),
        ),
        confidence=confidence,
        otherwise=(
            "If no other process shows up, libraries inside this one (another framework, NCCL, a second model) hold "
            "it beside torch."
        ),
        line=at(text),
    )


def _listed(facts: Facts, oom: Oom) -> bool:
    """No numbers in the message, and nvidia-smi of the same report shows a full card with processes on it."""
    if oom.total is not None or (oom.request is None and oom.allocated is not None):
        return False
    for gpu in facts.nvidia.gpus or ():
        if gpu.memory_total and gpu.memory_used and gpu.processes and gpu.memory_used > 0.8 * gpu.memory_total:
            return True
    return False


def _processes(facts: Facts) -> str | None:
    parts = [
        f"GPU {g.index}: {p.name or 'process'} {shown(p.memory)}"
        for g in facts.nvidia.gpus or ()
        for p in g.processes or ()
        if p.memory and p.memory > GIB
    ]
    return "; ".join(parts[:3]) or None


@rule(
    "oom-absurd-request",
    "runtime",
    "The program asks for an impossible amount of memory.",
    explains=("nccl-timeout", "smoke-failed"),
)
def oom_absurd_request(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """More than any GPU or machine has: a size that was computed wrong."""
    oom = found(facts)
    cpu = sign(facts, "cpu-oom")
    wanted = size_of(f"{cpu.details.get('request', '')} bytes") if cpu is not None else None
    other = sign(facts, "absurd-size", "mps-buffer")
    buffer = size_of(other.details.get("request")) if other is not None and other.kind == "mps-buffer" else None
    if other is not None and other.kind == "absurd-size":
        text, size = other, None
    elif oom is not None and oom.kind == "absurd":
        text, size = oom.text, oom.request
    elif cpu is not None and (wanted or 0) > 16 * 1024 * GIB:
        text, size = cpu, wanted
    elif other is not None and (buffer is None or buffer > _LARGEST):
        text, size = other, buffer
    else:
        return
    yield rule.finding(
        "error",
        seen=quoted(text, f"asked for {shown(size)}" if size else None),
        why="No GPU and hardly a machine has that much: a shape is wrong (dimensions swapped, a missing reshape, "
        "broadcasting of two long vectors, an attention matrix over all pixels, an index or a length read from "
        "damaged data), or a kernel wrote over the memory in which the size stood.",
        remedy=Remedy(
            text=(
                "Print the shapes before the line that the traceback names and follow the one that is too large. "
                "With wild numbers that change from run to run: run with CUDA_LAUNCH_BLOCKING=1 and suspect a "
                "third-party kernel built for another torch or GPU."
            ),
            commands=("CUDA_LAUNCH_BLOCKING=1 python train.py",),
        ),
        confidence="likely",
        otherwise="A batch or image that is really that large has to be cut into parts.",
        line=at(text),
    )


@rule(
    "oom-capacity",
    "runtime",
    "The work does not fit into the GPU's memory.",
    explains=("nccl-timeout", "smoke-failed", "illegal-memory-access"),
)
def oom_capacity(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """What is left when nothing else explains the message: this program needs more than there is."""
    mps = sign(facts, "mps-oom", "mps-buffer")
    if mps is not None and (size_of(mps.details.get("request")) or 0) <= _LARGEST:
        yield _mps(rule, facts, mps)
        return
    oom = found(facts)
    full = next((s for s in signs(facts, "nccl-cuda-error") if s.details.get("what") == "out of memory"), None)
    if oom is None and full is not None:
        yield _nccl(rule, full)
        return
    if oom is None:
        assertion = sign(facts, "nvml-assert")
        if assertion is not None:
            yield _assertion(rule, facts, assertion)
        return
    if oom.kind != "capacity" or _listed(facts, oom) or sign(facts, "absurd-size") is not None:
        return
    if sign(facts, "cuda-init-oom") is not None and oom.total is None:
        return
    spilled = bool(oom.total and oom.allocated and oom.allocated > oom.total)
    odd = bool(oom.free and oom.request and oom.free > oom.request + _CONTEXT // 2 and not oom.allowed)
    library = "status_" in oom.text.text.lower() and oom.request is None
    yield rule.finding(
        "error",
        seen=quoted(oom.text, _numbers(oom) or None),
        why=_why(oom, spilled=spilled, odd=odd, library=library),
        remedy=_smaller(facts, oom),
        confidence="possible" if odd or library else "likely" if oom.total is None else "certain",
        otherwise=_otherwise(oom, odd=odd, library=library),
        line=at(oom.text),
    )


def _why(oom: Oom, *, spilled: bool, odd: bool, library: bool) -> str:
    if spilled:
        return (
            f"{shown(oom.allocated)} are in use on a card of {shown(oom.total)} capacity: Windows has moved the "
            "excess to system memory (slow) and has no more to give. The work does not fit."
        )
    if library:
        return "cuBLAS or cuDNN could not get its working memory: mostly the GPU is full."
    if odd:
        return (
            "The driver refused although more is free: a limit of the process, of the (virtual) machine or of "
            "Windows and WSL, or the memory was taken at that moment."
        )
    if oom.allowed:
        return f"The program limited itself to {shown(oom.allowed)} (memory fraction), and that is used up."
    if oom.allocated is not None and oom.total is not None:
        return (
            f"The program's own tensors fill the card (capacity {shown(oom.total)}); there is no room for "
            f"{shown(oom.request)} more."
        )
    return "The program needs more memory than the GPU has left."


def _smaller(facts: Facts, oom: Oom) -> Remedy:
    text = (
        "Make the work smaller: batch size first (with gradient accumulation the result stays the same), then image "
        "size, crop or sequence length; train in bfloat16 or float16 (autocast); use activation checkpointing, an "
        "optimiser with less state, or quantised weights; under evaluation use torch.no_grad() or inference_mode(); "
        "keep no graph alive by collecting losses as tensors (use loss.item()). Else a GPU with more memory, or "
        "several (FSDP)."
    )
    if derive.is_jetson(facts):
        text += " On a Jetson CPU and GPU share one memory: end other programs, add swap."
    return Remedy(text=text, commands=('python -c "import torch; print(torch.cuda.memory_summary())"', "nvidia-smi"))


def _otherwise(oom: Oom, *, odd: bool, library: bool) -> str:
    if library:
        return (
            "The same message follows an index error on the GPU (run once with CUDA_LAUNCH_BLOCKING=1) and a cuBLAS "
            "or cuDNN that does not fit torch."
        )
    if odd:
        return (
            "Watch nvidia-smi while it runs; on Windows also the size of the page file, in WSL the memory in "
            ".wslconfig."
        )
    return (
        ""
        if oom.total is not None
        else "nvidia-smi at that moment shows whether this program fills the card or another one does."
    )


def _mps(rule: Rule, facts: Facts, text: Symptom) -> Finding:
    details = {name: size_of(value) for name, value in text.details.items()}
    total = details.get("total")
    return rule.finding(
        "error",
        title="The work does not fit into the memory that MPS may use.",
        seen=quoted(text, f"MPS may use {shown(total)}" if total else None),
        why=(
            "MPS takes from the Mac's one memory up to a limit (PYTORCH_MPS_HIGH_WATERMARK_RATIO of what Metal "
            "recommends), and the work needs more. Other programs on the Mac use the same memory."
        ),
        remedy=Remedy(
            text="Make the work smaller (batch size, image size, float16, attention slicing), quit other programs, "
            "call torch.mps.empty_cache() between parts. Raising the limit with "
            "PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 lifts the protection: the Mac then swaps and may stop answering.",
            commands=('python -c "import torch; print(torch.mps.recommended_max_memory() / 2**30)"',),
        ),
        confidence="certain" if total else "likely",
        otherwise="" if total else "If the size in the message is far beyond what the model needs, a shape is wrong.",
        line=at(text),
    )


def _nccl(rule: Rule, text: Symptom) -> Finding:
    return rule.finding(
        "error",
        title="NCCL finds no GPU memory left for its buffers.",
        seen=quoted(text),
        why=(
            "NCCL allocates its channel buffers from CUDA directly, beside PyTorch's cache: the model, what the cache "
            "holds, and other processes on that GPU left nothing for it."
        ),
        remedy=Remedy(
            text=(
                "Leave a gigabyte or two per GPU free: a smaller batch or shard, a cap with "
                "torch.cuda.set_per_process_memory_fraction(), torch.cuda.empty_cache() ahead of the first collective; "
                "see that no other process and no second rank sits on that GPU."
            ),
            commands=("nvidia-smi", "nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv"),
        ),
        confidence="likely",
        otherwise="If nvidia-smi shows much free memory at that moment, two ranks may share the GPU, or a limit of the "
        "container or of MIG holds.",
        line=at(text),
    )


def _assertion(rule: Rule, facts: Facts, text: Symptom) -> Finding:
    return rule.finding(
        "error",
        seen=quoted(text),
        why=(
            "torch wanted to report that memory ran out and asked NVML for the numbers, which does not answer here "
            "(Jetson, WSL, vGPU, a driver library that does not fit). The assertion hides an ordinary lack of "
            "memory."
        ),
        remedy=_smaller(facts, Oom(text, None, None, None, None, None, None)),
        confidence="likely",
        otherwise="If it comes at once with little data: see that nvidia-smi works.",
        line=at(text),
    )


RULES: tuple[Rule, ...] = (oom_absurd_request, oom_fragmentation, oom_other_process, oom_capacity)
