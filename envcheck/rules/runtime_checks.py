"""What the smoke tests found that no other rule explains, and workloads that leave the GPU idle."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.facts import Check, Facts
from envcheck.findings import Finding, Remedy
from envcheck.matrix import Matrix
from envcheck.rules import derive, driver_signs
from envcheck.rules.base import Rule, rule
from envcheck.rules.driver_signs import at, detail, quoted, sign

_RAISED = re.compile(r"[A-Z]\w*(?:Error|Exception|Warning|Exit|Interrupt|Timeout)\b")
"""A test that ended with an exception begins its message with the type; one that compared numbers does not."""


def _failed(facts: Facts) -> tuple[Check, ...]:
    return tuple(c for c in facts.checks or () if c.status in ("failed", "crashed", "timeout"))


def _compared(check: Check) -> bool:
    """The operation came to its end, and its numbers are not the ones that were to come out."""
    return check.status == "failed" and bool(check.detail) and _RAISED.match(check.detail or "") is None


@rule("smoke-failed", "runtime", "A smoke test failed on this machine.", fallback=True)
def smoke_failed(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """One finding for all tests that raised, crashed or hung; it gives way to a rule that knows why."""
    if facts.checks is None:
        driver_signs.ask(facts, "the smoke tests were not run", "envcheck smoke")
        return
    failed = [c for c in _failed(facts) if not _compared(c)]
    if not failed:
        return
    hung = all(c.status == "timeout" for c in failed)
    yield rule.finding(
        "error",
        title=f"Smoke tests {'did not come to an end' if hung else 'failed'}: {_names(failed)}.",
        seen=_list(failed),
        why="Programs that use the same operations will fail in the same way.",
        remedy=Remedy(
            text="Repeat them, with the details: what fails again in the same place comes from the release, the "
            "driver or a library; what comes and goes, from memory, power or heat.",
            commands=("envcheck smoke -v",),
        ),
        confidence="possible",
        otherwise="sudo dmesg | grep -iE 'nvrm|xid|amdgpu|oom' tells what the kernel saw at that moment."
        if derive.wheel_os(facts) == "linux"
        else "If all tests pass the second time, look at temperature, power and free memory.",
    )


@rule("wrong-results", "runtime", "The device computes wrong results.", explains=("loss-flat", "nan-loss"))
def wrong_results(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Smoke tests that came to their end with numbers outside of the bound that rounding explains."""
    wrong = [c for c in _failed(facts) if _compared(c)]
    if not wrong:
        return
    device = wrong[0].device
    on_cpu = all(c.device.startswith("cpu") for c in wrong)
    yield rule.finding(
        "error",
        title=f"Wrong results on {', '.join(dict.fromkeys(c.device for c in wrong))}: {_names(wrong)}.",
        seen=_list(wrong),
        why="The tests allow what rounding can do; this is more. "
        + (
            "On a CPU it comes from a library that takes the place of torch's (MKL, OpenBLAS, OpenMP), from a fault "
            "of the release, or from memory and overclocking."
            if on_cpu
            else "It comes from a fault of the GPU or its memory (overclocking, heat, power), from CUDA libraries "
            "of another version that are loaded in place of torch's, or from a fault of this release."
        ),
        remedy=Remedy(
            text="Repeat the test: numbers that change from run to run mean hardware; the same numbers every time "
            "mean software. For hardware take overclocking back and test the card alone (another slot, another "
            "machine). For software start without LD_LIBRARY_PATH, then try another release of torch.",
            commands=(f"envcheck smoke --device {device} -v",)
            + (
                () if on_cpu or derive.wheel_os(facts) != "linux" else ("nvidia-smi -q -d ECC,TEMPERATURE,PERFORMANCE",)
            ),
        ),
        confidence="possible",
        otherwise="Comparing with the CPU (--device cpu) tells whether the test itself is at fault on this platform.",
    )


def _names(checks: list[Check]) -> str:
    names = list(dict.fromkeys(f"{c.name} ({c.device})" for c in checks))
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _list(checks: list[Check]) -> str:
    shown = "; ".join(f"{c.name} on {c.device}: {c.status}{_detail(c)}" for c in checks[:4])
    return shown + (f"; and {len(checks) - 4} more" if len(checks) > 4 else "")


def _detail(check: Check) -> str:
    return f" ({driver_signs.shorten(check.detail, 120)})" if check.detail else ""


@rule("gpu-utilization-low", "performance", "The GPU waits for data.")
def gpu_utilization_low(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Lightning's and DataLoader's own warnings, or a report that speaks of an idle GPU."""
    text = sign(facts, "loader-slow", "gpu-idle")
    if text is None:
        return
    most = detail(text, "max")
    too_many = most is not None
    busy = [g for g in facts.nvidia.gpus or () if g.utilization is not None and g.processes]
    yield rule.finding(
        "note",
        title="More DataLoader workers than the CPU can run." if too_many else "",
        seen=quoted(text, *(f"GPU {g.index}: {g.utilization:.0f} % busy" for g in busy[:2])),
        why="More workers than cores slow each other down."
        if too_many
        else "Loading and preparing a batch takes longer than computing with it.",
        remedy=Remedy(
            text=f"Use at most {most} workers here."
            if too_many
            else "Measure first: the loop without the model, then without the loader (the same batch again and "
            "again). Then more workers (about one a core), pin_memory=True with non_blocking=True, "
            "persistent_workers=True, decoded or packed data on a fast disk, augmentation on the GPU, a larger "
            "batch; take .item(), print and synchronize() out of the inner loop.",
            commands=("nvidia-smi dmon -s u",),
        ),
        confidence="likely",
        line=at(text),
    )


RULES: tuple[Rule, ...] = (smoke_failed, wrong_results, gpu_utilization_low)
