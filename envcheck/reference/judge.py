"""From what the payloads measured to claims, checks and findings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from envcheck.facts import Check
from envcheck.findings import Finding, Remedy, Skipped
from envcheck.reference.bits import judge_bits
from envcheck.reference.measure import Measured
from envcheck.reference.precision import judge_precision
from envcheck.reference.rates import judge_rates
from envcheck.reference.result import judge_result
from envcheck.reference.words import FOR_KIND, ONE_BY_ONE, failed, remedy_for, settings_that_break_repeats
from envcheck.target import Answer


@dataclass
class Judgement:
    """What is claimed and what was found."""

    findings: list[Finding] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    levels: list[dict[str, str]] = field(default_factory=list)
    """One for each claim: name, status ("proved", "failed", "skipped"), text."""

    @property
    def verdict(self) -> str:
        """ "healthy", "problems", or "unknown" when nothing could be proved."""
        if any(f.severity == "error" for f in self.findings):
            return "problems"
        return "healthy" if any(level["status"] == "proved" for level in self.levels) else "unknown"

    def claim(self, name: str, status: str, text: str, seconds: float | None = None, device: str = "cpu") -> None:
        """Adds a level and its check."""
        self.levels.append({"name": name, "status": status, "text": text})
        word = {"proved": "passed", "failed": "failed", "skipped": "skipped"}[status]
        self.checks.append(Check(name=f"reference-{name}", device=device, status=word, seconds=seconds, detail=text))


def judge(measured: Measured, golden: dict[str, Any]) -> Judgement:
    """All claims, root causes first."""
    out = Judgement()
    device = str(measured.stages.get("machine", {}).get("device", measured.options.device))
    for what, answer in measured.failures:
        out.findings.append(_failed(what, answer))
    for name, stage in measured.stages.items():
        if "error" in stage:
            out.findings.append(_raised(name, stage))
            out.claim(name.replace(":", "-"), "failed", stage["error"], stage.get("seconds"), device)
    _inputs(out, measured, golden, device)
    judge_precision(out.findings, out.claim, measured, device)
    for task in ("logic", "smooth"):
        _trajectory(out, measured, golden, task, device)
    _repeats(out, measured, device)
    _resume(out, measured, device)
    judge_bits(out.claim, measured, golden, device)
    judge_result(out.findings, out.skipped, out.claim, measured, device)
    judge_rates(out.findings, out.skipped, out.claim, measured, device)
    logic = measured.stages.get("logic", {})
    exact = bool(logic.get("steps")) and "error" not in logic and logic.get("first") is None and not logic.get("notes")
    out.findings = _ordered(out.findings, exact=exact)
    return out


def _ordered(findings: list[Finding], *, exact: bool) -> list[Finding]:
    """Errors first; what a trajectory shows is the consequence of a part that was named."""
    named = next((f.rule for f in findings if f.severity == "error" and f.rule in FOR_KIND.values()), None)
    if exact and any(f.rule == "reference-precision" for f in findings):
        named = "reference-precision"  # float64 is right: a layer that is off in float32 alone is off by its precision
    order = {"error": 0, "warning": 1, "note": 2}
    result = []
    for finding in sorted(findings, key=lambda f: (order[f.severity], f.confidence != "certain")):
        effects = (
            "reference-trajectory",
            "reference-inputs",
            "reference-precision",
            *(FOR_KIND.values() if named == "reference-precision" else ()),
        )
        follows = finding.rule in effects and named and finding.rule != named
        result.append(
            _with_cause(finding, named) if follows and named is not None and finding.severity == "error" else finding
        )
    return [f for f in result if f.consequence_of is None] + [f for f in result if f.consequence_of is not None]


def _with_cause(finding: Finding, cause: str) -> Finding:
    import msgspec

    return msgspec.structs.replace(finding, consequence_of=cause)


def _failed(what: str, answer: Answer) -> Finding:
    during = f" during {answer.during}" if answer.during else ""
    said = answer.last_words()
    return failed(
        f"{what} did not come to an end: {answer.kind}{during}",
        said if said != answer.kind else f"exit code {answer.outcome.exit_code}",
    )


def _raised(name: str, stage: dict[str, Any]) -> Finding:
    return failed(
        f"{name} raised an error",
        f"{stage['error']} ({stage.get('traceback', ['?'])[-1]})",
        "This build of torch cannot do the training step of a small CNN.",
        ONE_BY_ONE,
    )


# -- Inputs and trajectories against golden values ---------------------------------------------------------------------


def _inputs(out: Judgement, measured: Measured, golden: dict[str, Any], device: str) -> None:
    stage = measured.stages.get("inputs")
    if stage is None or "error" in stage:
        return
    seen, wanted = stage["hashes"], golden["inputs"]
    wrong = [name for name in wanted if seen.get(name) != wanted[name]]
    if not wrong:
        out.claim(
            "inputs",
            "proved",
            f"{len(wanted)} hashes of data, order, augmentation and first weights are equal",
            stage.get("seconds"),
            device,
        )
        return
    out.claim("inputs", "failed", f"differ: {', '.join(wrong)}", stage.get("seconds"), device)
    out.findings.append(
        Finding(
            rule="reference-inputs",
            severity="error",
            area="reproducibility",
            title=f"What is drawn from integers is not the same here: {wrong[0]}",
            seen=f"{len(wrong)} of {len(wanted)} hashes differ: {', '.join(wrong)}",
            why="Integers, table look-ups and single roundings give the same bits on every sound machine.",
            remedy=Remedy(
                text="Look at what changes torch or the data on import (sitecustomize, patches), then at memory."
            ),
        )
    )


def _trajectory(out: Judgement, measured: Measured, golden: dict[str, Any], task: str, device: str) -> None:
    stage = measured.stages.get(task)
    if stage is None or "error" in stage:
        return
    if "skipped" in stage:
        out.claim(task, "skipped", stage["skipped"], stage.get("seconds"), device)
        out.skipped.append(Skipped(rule="reference-trajectory", reason=stage["skipped"]))
        return
    kind = "float64" if task == "logic" else "float32, smooth twin"
    steps, worst = len(stage["steps"]), stage.get("worst", {})
    first, notes = stage.get("first"), stage.get("notes", [])
    if first is None and not notes:
        text = f"{kind}: {steps} steps and the evaluation as recorded; largest relative difference {max(worst.values()):.1e}"
        out.claim(task, "proved", text, stage.get("seconds"), device)
        return
    where = "in the evaluation" if first is None or first["step"] is None else f"at step {first['step']}"
    text = f"{kind}: {first['what'] if first else 'notes'} differs {where}"
    out.claim(task, "failed", text, stage.get("seconds"), device)
    out.findings.extend(_named(notes))
    if first is not None:
        out.findings.append(_left(task, kind, first, steps, named=bool(notes)))


def _named(notes: list[dict[str, Any]]) -> Iterator[Finding]:
    """One finding for each kind of part, the layers of one kind together."""
    for kind in dict.fromkeys(note["kind"] for note in notes):
        mine = [note for note in notes if note["kind"] == kind]
        first = mine[0]
        step = f" (step {first['step']})" if first.get("step") else ""
        yield Finding(
            rule=FOR_KIND.get(kind, "reference-trajectory"),
            severity="error",
            area="reproducibility",
            title=f"{kind}: {first['part']}: {first['text']}{step}",
            seen="; ".join(dict.fromkeys(f"{n['part']}: {n['text']}" for n in mine[:6])),
            why="This part was computed again by other operations from the very input that it got, and does not agree.",
            remedy=remedy_for(kind, first["cause"]),
        )


_BY_PLACE = {
    "loss": "the data or the forward pass",
    "norm": "the backward pass",
    "weights": "the optimizer",
    "statistics": "BatchNorm's running statistics",
    "eval": "the evaluation",
}


def _left(task: str, kind: str, first: dict[str, Any], steps: int, *, named: bool) -> Finding:
    place = "the evaluation" if first["step"] is None else f"step {first['step']} of {steps}"
    why = f"What comes earlier agrees, so the fault lies in {_BY_PLACE[first['what']]}."
    if not named:
        why += " Made again and taken apart, no single part was wrong: an error that comes and goes, or one below what single parts show."
    return Finding(
        rule="reference-trajectory",
        severity="error",
        area="reproducibility",
        title=f"The {kind} run leaves the recorded values at {place}: {first['what']}",
        seen=f"{first['what']} {first['seen']!r}, expected {first['expected']!r}",
        why=why,
        remedy=remedy_for("trajectory", task),
        confidence="certain" if named else "likely",
    )


# -- The same bits twice -----------------------------------------------------------------------------------------------


def first_difference(one: list[dict[str, Any]], other: list[dict[str, Any]]) -> str | None:
    """ "step 3: the gradient of conv2.weight", None when all steps that both have are equal."""
    for a, b in zip(one, other, strict=False):
        if a["images"] != b["images"]:
            return f"step {a['step']}: the batch itself (data order, augmentation or labels)"
        if a["loss"] != b["loss"]:
            return f"step {a['step']}: the loss (forward pass), {float.fromhex(a['loss'])!r} and {float.fromhex(b['loss'])!r}"
        changed = [name for name, value in a["gradients"].items() if b["gradients"].get(name) != value]
        if changed:
            return f"step {a['step']}: the gradient of {', '.join(reversed(changed))} (backward pass)"
        if a["norm"] != b["norm"]:
            return f"step {a['step']}: the gradient norm"
        if a["weights"] != b["weights"]:
            return f"step {a['step']}: the new weights (optimizer or BatchNorm's statistics)"
    return None


def _repeats(out: Judgement, measured: Measured, device: str) -> None:
    for mode, words in (("strict", "deterministic settings"), ("defaults", "your own settings")):
        one = measured.steps.get(f"{mode}:1", [])
        other = measured.steps.get("defaults:2" if mode == "defaults" else "strict:killed", [])
        if not one or not other:
            continue
        difference = first_difference(one, other)
        shared = min(len(one), len(other))
        if difference is None:
            text = (
                f"{words}: {shared} steps in two fresh processes, every batch, loss, gradient and weight the same bits"
            )
            out.claim(f"repeat-{mode}", "proved", text, None, device)
            continue
        out.claim(f"repeat-{mode}", "failed", f"{words}: first difference at {difference}", None, device)
        out.findings.append(_not_repeatable(mode, words, difference, measured.stages.get("machine", {})))


def _not_repeatable(mode: str, words: str, difference: str, machine: dict[str, Any]) -> Finding:
    strict = mode == "strict"
    guilty = settings_that_break_repeats(machine)
    return Finding(
        rule="reference-not-repeatable" if strict else "reference-defaults-not-repeatable",
        severity="error" if strict else "warning",
        area="reproducibility",
        title=f"With {words} the same run gives other bits, from {difference.partition(':')[0]} on",
        seen=f"first difference at {difference}" + (f"; {', '.join(guilty)}" if guilty and not strict else ""),
        why="Nothing that happens afterwards can be repeated, and a fault cannot be told from chance.",
        remedy=remedy_for("repeat", mode),
        confidence="certain",
    )


def _resume(out: Judgement, measured: Measured, device: str) -> None:
    whole, rest = measured.steps.get("strict:1", []), measured.steps.get("strict:resumed", [])
    if not whole or "strict:resumed" not in measured.repeated:
        return
    ends = measured.repeated
    tail = whole[len(whole) - len(rest) :]
    difference = first_difference(tail, rest)
    same_end = all(ends["strict:1"].get(k) == ends["strict:resumed"].get(k) for k in ("weights", "history"))
    killed = measured.killed_at
    if difference is None and same_end and len(rest) >= len(whole) - killed:
        text = f"killed at step {killed} of {len(whole)}, resumed: the same losses, weights and evaluation as the unbroken run"
        out.claim("resume", "proved", text, None, device)
        return
    told = difference or "the end: weights or evaluation"
    out.claim("resume", "failed", f"first difference at {told}", None, device)
    repeats = any(f.rule == "reference-not-repeatable" for f in out.findings)
    out.findings.append(
        Finding(
            rule="reference-resume",
            severity="error",
            area="reproducibility",
            title="A run that was killed and resumed does not end like the unbroken one",
            seen=f"first difference at {told}",
            why="A checkpoint has to hold everything that the next step depends on.",
            remedy=remedy_for("repeat", "strict"),
            consequence_of="reference-not-repeatable" if repeats else None,
        )
    )
