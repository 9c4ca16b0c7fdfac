"""What the smoke tests found that no other rule explains, and workloads that leave the GPU idle."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.facts import Check, Facts
from envcheck.findings import Finding, Remedy
from envcheck.matrix import Matrix
from envcheck.rules import driver_signs
from envcheck.rules.base import Rule, rule
from envcheck.rules.driver_signs import at, detail, quoted, sign

_WRONG = ("wrong", "differs", "mismatch", "not close", "deviat", "tolerance", "error above")


@rule("smoke-failed", "runtime", "A smoke test failed on this machine.")
def smoke_failed(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """One finding for all failed tests; a cause among the other findings claims it as its consequence."""
    if facts.checks is None:
        driver_signs.ask(facts, "the smoke tests were not run", "run envcheck doctor without --quick")
        return
    failed = [c for c in facts.checks if c.status in ("failed", "crashed", "timeout")]
    if not failed:
        return
    wrong = [c for c in failed if c.detail and any(word in c.detail.lower() for word in _WRONG)]
    explained = [c for c in failed if _recognised(facts, c)]
    if len(explained) == len(failed):
        return
    yield rule.finding(
        "error",
        title=_title(failed, wrong),
        seen="; ".join(f"{c.name} on {c.device}: {c.status}{_detail(c)}" for c in failed[:4])
        + (f" and {len(failed) - 4} more" if len(failed) > 4 else ""),
        why="Wrong numbers come from a faulty GPU or memory, from mixed-up libraries, or from a fault of this release."
        if wrong
        else "Programs that use the same operations will fail in the same way.",
        remedy=Remedy(
            text=(
                "Compare with another device and another release of torch; libraries of another version on "
                "LD_LIBRARY_PATH are the usual suspects, then the GPU itself (other card, other machine)."
            )
            if wrong
            else "See the details of the failed tests, and whether they fail again.",
            commands=("envcheck smoke -v",),
        ),
        confidence="possible",
        otherwise="If all tests pass the second time, watch the GPU's temperature, power and ECC counters.",
    )


def _title(failed: list[Check], wrong: list[Check]) -> str:
    names = ", ".join(dict.fromkeys(f"{c.name} ({c.device})" for c in failed[:3]))
    return (
        f"Wrong results: {', '.join(dict.fromkeys(c.name for c in wrong[:3]))}."
        if wrong
        else f"Smoke tests failed: {names}."
    )


def _detail(check: Check) -> str:
    return f" ({driver_signs.shorten(check.detail, 120)})" if check.detail else ""


def _recognised(facts: Facts, check: Check) -> bool:
    """A symptom was read from this test's message, so the rule of that symptom speaks."""
    return any(s.source and check.name in s.source for s in facts.symptoms)


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
            "persistent_workers=True, decoded or packed data on a fast disk, augmentation on the GPU, a "
            "larger "
            "batch; take .item(), print and synchronize() out of the inner loop.",
            commands=("nvidia-smi dmon -s u",),
        ),
        confidence="likely",
        line=at(text),
    )


RULES: tuple[Rule, ...] = (smoke_failed, gpu_utilization_low)
