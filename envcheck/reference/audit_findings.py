"""From what an audit has seen to findings and checks."""

from __future__ import annotations

from typing import Any

from envcheck.facts import Check
from envcheck.findings import Finding, Remedy
from envcheck.reference.audit import Audit
from envcheck.reference.experiments import Experiments, Result
from envcheck.reference.program import Compared
from envcheck.reference.settings import UNUSUAL, loose_now
from envcheck.reference.words import ONE_BY_ONE, failed, remedy_for

AREA = "reproducibility"


def of_audit(found: Audit) -> tuple[list[Finding], list[Check]]:
    """Errors first: what differs although everything is strict, then what is loose and was shown to matter."""
    device = str(found.machine.get("device", "cpu"))
    findings = [*_operations(found.operations, device), *_controls(found.experiments, device)]
    findings += [f for result in found.experiments.results for f in _loose(result, found.machine)]
    order = {"error": 0, "warning": 1, "note": 2}
    return sorted(findings, key=lambda f: order[f.severity]), _checks(found, device)


def _controls(found: Experiments, device: str) -> list[Finding]:
    made = []
    for result in found.controls.values():
        if result.status == "differs":
            made.append(
                Finding(
                    rule="reference-not-repeatable",
                    severity="error",
                    area=AREA,
                    title=f"With every setting strict two runs of a short training give other bits ({result.loose})",
                    seen=f"{device}: {result.text}" + _detail(result),
                    why="What a loose setting changes cannot be told from what changes by itself: no other experiment of this audit can be judged.",
                    remedy=remedy_for("repeat", "strict"),
                )
            )
        elif result.status == "failed":
            made.append(
                failed(f"A short training did not come to its end ({result.loose})", f"{device}: {result.text}")
            )
    return made


def _detail(result: Result) -> str:
    return f" ({result.twice.detail})" if result.twice is not None and result.twice.detail else ""


def _loose(result: Result, machine: dict[str, Any]) -> list[Finding]:
    if result.status != "differs" or loose_now(machine, result.name) is not True:
        return []
    unusual = result.name in UNUSUAL
    return [
        Finding(
            rule="reference-loose-setting",
            severity="warning" if unusual else "note",
            area=AREA,
            title=f"Equal bits are broken here by: {result.loose}",
            seen=f"experiment {result.name}, all else strict: {result.text}" + _detail(result),
            why=(
                "Somebody has set it so in this environment, for every program."
                if unusual
                else "It is so in this environment until a program says otherwise."
            ),
            remedy=Remedy(text=f"Where the same bits are wanted: {result.cure}"),
        )
    ]


def _operations(rows: list[dict[str, Any]], device: str) -> list[Finding]:
    made = []
    differing = [row["operation"] for row in rows if row["status"] == "differs"]
    if differing:
        made.append(
            Finding(
                rule="reference-operation-differs",
                severity="error",
                area=AREA,
                title=f"Gives other bits from call to call although deterministic algorithms are on: {', '.join(differing[:4])}"
                + (f" and {len(differing) - 4} more" if len(differing) > 4 else ""),
                seen=f"{device}: five calls with the same input, compared bit by bit: {', '.join(differing)}",
                why="torch promises either the same bits or an error here; a training that uses it cannot be repeated.",
                remedy=Remedy(
                    text="Try another release of torch, compute this operation on the CPU, or replace it. If it is all of them, test the device.",
                    commands=("envcheck smoke --level 2",),
                ),
            )
        )
    made += [
        failed(
            f"The process ended while it tried {row['operation']}",
            f"{device}: {row['text']}",
            "The operations after it were not tried, and a training that uses it ends as well.",
            ONE_BY_ONE,
        )
        for row in rows
        if row["status"] == "crashed"
    ]
    return made


def _checks(found: Audit, device: str) -> list[Check]:
    words = {"no-effect": "passed", "differs": "failed", "failed": "failed", "refused": "skipped"}
    checks = [
        Check(
            name=f"audit-control-{name}", device=device, status=words[result.status], seconds=None, detail=result.text
        )
        for name, result in found.experiments.controls.items()
    ]
    status = {"deterministic": "passed", "differs": "failed", "crashed": "crashed"}
    return checks + [
        Check(
            name=f"audit-operation-{row['operation'].strip().replace(' ', '-')}",
            device=device,
            status=status.get(row["status"], "skipped"),
            seconds=None,
            detail=row["text"] or None,
        )
        for row in found.operations
    ]


def of_program(found: Compared) -> list[Finding]:
    """One finding when the two runs of a program differ."""
    difference, cause = found.difference, found.cause
    if difference is None or cause is None:
        return []
    detail = f"; {difference.detail}" if difference.detail else ""
    setting = f" (experiment {cause.setting} of the plain audit shows what that does)" if cause.setting else ""
    return [
        Finding(
            rule="reference-program-differs",
            severity="error",
            area=AREA,
            title=f"Two runs of {found.name} differ from {difference.text}",
            seen=f"{difference.before} tensors before it were the same bits{detail}",
            why=f"{cause.confidence.capitalize()} cause: {cause.text}{setting}.",
            remedy=cause.remedy,
            confidence="certain",
        )
    ]
