"""Processes and kernels: CUDA after fork, deterministic mode, kernels that read or write out of bounds."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.facts import Facts, Symptom
from envcheck.findings import Finding, Remedy
from envcheck.matrix import Matrix
from envcheck.rules import derive
from envcheck.rules.base import Rule, rule
from envcheck.rules.driver_signs import at, detail, only_past, quoted, sign
from envcheck.rules.driver_xids import APPLICATION_XIDS, hardware_xids, xids


@rule(
    "cuda-in-forked-process",
    "runtime",
    "CUDA is used in a process that was forked after CUDA had started.",
    explains=("nccl-timeout", "smoke-failed"),
)
def cuda_in_forked_process(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Torch's own check, or CUDA's initialization error inside a worker."""
    text = sign(facts, "cuda-fork")
    worker = sign(facts, "in-worker")
    error = sign(facts, "cuda-init-error") if text is None else None
    if text is None and error is None:
        return
    what = detail(text, "what") or "CUDA"
    yield rule.finding(
        "error",
        seen=quoted(text or error, "in a worker process" if worker else None),
        why=(
            f"A forked child inherits a {what} state that it cannot use. On Linux DataLoader workers and "
            "multiprocessing fork by default, so anything that touches the GPU in the dataset, the collate function "
            "or a worker fails once the parent has used it."
        ),
        remedy=Remedy(
            text="Keep the GPU out of the workers: let the dataset return CPU tensors and call .to(device) in the "
            "training loop. Where workers need the GPU, start them with spawn: "
            "torch.multiprocessing.set_start_method('spawn', force=True) under if __name__ == '__main__', or "
            "DataLoader(..., multiprocessing_context='spawn'). Do not touch the GPU (torch.cuda.is_available() is "
            "fine, tensors are not) before processes are started.",
            commands=(),
        ),
        confidence="certain" if text is not None else "likely" if worker is not None else "possible",
        otherwise=""
        if text is not None
        else (
            "If no process was forked: CUDA itself does not start (nvidia-smi, and torch.zeros(1, device='cuda') in "
            "a fresh Python)."
        ),
        line=at(text or error),
    )


@rule("cublas-workspace-config", "runtime", "Deterministic mode needs CUBLAS_WORKSPACE_CONFIG.")
def cublas_workspace_config(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """torch.use_deterministic_algorithms(True) without the variable that makes cuBLAS deterministic."""
    text = sign(facts, "cublas-workspace")
    if text is None:
        return
    value = facts.variable("CUBLAS_WORKSPACE_CONFIG")
    windows = derive.wheel_os(facts) == "windows"
    yield rule.finding(
        "note" if detail(text, "warned") else "error",
        seen=quoted(text, f"CUBLAS_WORKSPACE_CONFIG={value}" if value else None),
        why=(
            "Deterministic algorithms are demanded, and cuBLAS gives the same result every time only with a fixed "
            "workspace, which it reads from this variable when it starts."
        ),
        remedy=Remedy(
            text=(
                "Set CUBLAS_WORKSPACE_CONFIG=:4096:8 (or :16:8, which takes less memory and is slower) before "
                "Python starts; in the program it has to come before the first CUDA call. Or do without: "
                "torch.use_deterministic_algorithms(True, warn_only=True)."
            ),
            commands=("set CUBLAS_WORKSPACE_CONFIG=:4096:8" if windows else "export CUBLAS_WORKSPACE_CONFIG=:4096:8",),
        ),
        line=at(text),
    )


@rule(
    "nondeterministic-op",
    "runtime",
    "An operation has no deterministic implementation, and deterministic mode forbids any other.",
)
def nondeterministic_op(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Torch's own check."""
    text = sign(facts, "nondeterministic-op")
    if text is None:
        return
    name = detail(text, "op")
    version = derive.torch_version(facts)
    warn_only = version is None or derive.numbers(version) >= (1, 11)
    relax = (
        "torch.use_deterministic_algorithms(True, warn_only=True)"
        if warn_only
        else "torch.use_deterministic_algorithms(False) around it"
    )
    other = "another layer, another interpolation mode, an index_add by sorting"
    if "adaptive_avg_pool2d" in (name or ""):
        other = "in channels_last memory format its path is deterministic"
    yield rule.finding(
        "note" if detail(text, "warned") else "error",
        title=f"{name} has no deterministic implementation, and deterministic mode forbids any other." if name else "",
        seen=quoted(text, f"torch {version}" if version else None),
        why=(
            "The program asked for determinism (use_deterministic_algorithms, set_deterministic or a trainer's "
            "flag), and this kernel adds in an order that changes from run to run."
        ),
        remedy=Remedy(
            text=f"Replace the operation ({other}), compute it on the CPU, let it pass for this call: {relax}, or "
            "try a newer torch, where more operations have such an implementation.",
        ),
        line=at(text),
    )


_LAUNCH = re.compile(r"unspecified launch failure|launch_?fail", re.IGNORECASE)


@rule(
    "illegal-memory-access",
    "runtime",
    "A GPU kernel read or wrote out of bounds.",
    explains=("nccl-timeout", "nccl-network", "smoke-failed", "oom-capacity"),
)
def illegal_memory_access(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """CUDA's errors 700 and kin, ROCm's memory access fault, and the Xids that a program causes."""
    text = sign(facts, "illegal-access", "gpu-memory-fault")
    xid = next((x for x in xids(facts) if x.number in APPLICATION_XIDS), None)
    if text is None and (xid is None or sign(facts, "label-assert", "device-assert") is not None):
        return
    if xid is None and text is not None and _LAUNCH.search(text.text) and hardware_xids(facts):
        return  # "unspecified launch failure" says only that the kernel did not end well; the driver says why
    yield rule.finding(
        "note" if only_past(facts, text) else "error" if text is not None else "warning",
        seen=quoted(
            text,
            f'"{xid.text}" ({APPLICATION_XIDS[xid.number]}: caused by a program)'
            if xid and (text is None or xid.text != text.text)
            else None,
        ),
        why="The error shows up at a later call than the one that caused it, and it ends the CUDA context: the "
        "process has to be started anew. Mostly a third-party or self-written kernel is at fault (built for another "
        "torch, another GPU, or with sizes beyond its limits), or an index that is out of range; torch's own "
        "kernels and the hardware are rarer causes.",
        remedy=_find_kernel(text),
        confidence="likely",
        otherwise=(
            "If it wanders through the program and comes with every workload: rebuild the extensions for this "
            "torch, try another torch release, and look for ECC or bus errors in dmesg."
        ),
        line=at(text) or (xid.line if xid else None),
    )


def _find_kernel(text: Symptom | None) -> Remedy:
    rocm = text is not None and text.kind == "gpu-memory-fault"
    return Remedy(
        text=(
            "Find the kernel: run with blocking launches, so that the traceback names the right line, then with the "
            "checker. Check the indices that go into it; rebuild or update the extension it belongs to; on an "
            "overclocked card take the overclocking back."
        )
        + (
            " With HSA_OVERRIDE_GFX_VERSION set, code of another chip runs: that causes such faults as well."
            if rocm
            else ""
        ),
        commands=("AMD_SERIALIZE_KERNEL=3 python script.py",)
        if rocm
        else ("CUDA_LAUNCH_BLOCKING=1 python script.py", "compute-sanitizer --tool memcheck python script.py"),
    )


@rule(
    "gpu-watchdog-timeout",
    "runtime",
    "A kernel ran longer than the system allows on a GPU that drives a display.",
    explains=("smoke-failed",),
)
def gpu_watchdog_timeout(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """CUDA error 702 (6 before 10.1): Windows' TDR, or the watchdog of a desktop."""
    text = sign(facts, "launch-timeout")
    if text is None:
        return
    windows = derive.wheel_os(facts) == "windows"
    yield rule.finding(
        "error",
        seen=quoted(text),
        why="A GPU that draws the desktop has to answer within seconds; the system ends a kernel that takes longer.",
        remedy=Remedy(
            text="Use a GPU without a display for the work, make single kernels shorter (smaller batches), "
            + (
                (
                    "or raise the limit TdrDelay in the registry "
                    "(HKLM\\SYSTEM\\CurrentControlSet\\Control\\GraphicsDrivers) and restart."
                )
                if windows
                else "or run without a desktop on that GPU."
            ),
            commands=("nvidia-smi",),
        ),
        line=at(text),
    )


RULES: tuple[Rule, ...] = (
    cuda_in_forked_process,
    cublas_workspace_config,
    nondeterministic_op,
    gpu_watchdog_timeout,
    illegal_memory_access,
)
