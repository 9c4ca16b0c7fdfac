"""Determinism audit: settings, operations, and somebody's own program run twice under hooks."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envcheck.errors import TargetError, UsageError
from envcheck.target import PAYLOADS, child_environment, locate, run_payload

PROGRAM_LIMIT = 3600.0
STEPS = 20
"""Optimizer steps after which a program under audit is ended."""

# What each setting should be for the same bits twice; None: it is only told.
WANTED: dict[str, tuple[Any, str]] = {
    "are_deterministic_algorithms_enabled": (True, "torch.use_deterministic_algorithms(True)"),
    "backends.cudnn.benchmark": (False, "torch.backends.cudnn.benchmark = False"),
    "backends.cudnn.deterministic": (True, "torch.backends.cudnn.deterministic = True"),
    "backends.cudnn.allow_tf32": (None, ""),
    "backends.cuda.matmul.allow_tf32": (None, ""),
    "backends.cudnn.conv.fp32_precision": (None, ""),
    "backends.cuda.matmul.fp32_precision": (None, ""),
    "get_float32_matmul_precision": (None, ""),
    "get_num_threads": (None, ""),
}
VARIABLES = {
    "CUBLAS_WORKSPACE_CONFIG": "set to :4096:8 before the start (needed by torch before 2.9 on CUDA)",
    "PYTHONHASHSEED": "set to a number where the order of sets or of hash() matters",
    "NVIDIA_TF32_OVERRIDE": "overrides every TF32 switch of the program",
    "TORCHINDUCTOR_MAX_AUTOTUNE": "picks kernels by timing: other bits from run to run",
    "OMP_NUM_THREADS": "another number of threads gives other bits on the CPU",
}


@dataclass(frozen=True)
class Difference:
    """Where two runs of a program part."""

    step: int
    kind: str
    """"forward", "gradient", "weights", or "order" when the runs did not even do the same things."""
    name: str


def settings(machine: dict[str, Any]) -> list[dict[str, Any]]:
    """Each setting: name, value now, what it should be, whether it is so (None: only told)."""
    seen, variables = machine.get("settings", {}), machine.get("variables", {})
    rows = []
    for name, (wanted, words) in WANTED.items():
        value = seen.get(name)
        rows.append(
            {
                "name": name,
                "value": value,
                "right": None if wanted is None or value is None else value == wanted,
                "advice": words,
            }
        )
    for name, words in VARIABLES.items():
        rows.append({"name": name, "value": variables.get(name), "right": None, "advice": words})
    return rows


def audit(python: Path, device: str) -> dict[str, Any]:
    """Settings and operations of that interpreter and device.

    Raises:
        TargetError: the payload did not answer.
    """
    answer = run_payload(
        python,
        PAYLOADS / "reference_audit.py",
        ("--device", device),
        timeout=600,
        limit=120,
        env=child_environment(python),
    )
    machine = answer.stage("machine")
    if machine is None:
        raise TargetError(
            answer.problem() or f"{python}: torch did not answer ({answer.kind}): {(answer.outcome.error or '')[-300:]}"
        )
    operations = [{k: s[k] for k in ("operation", "status", "text")} for s in answer.stages if "operation" in s]
    if answer.kind != "answered" and answer.during:
        operations.append({"operation": answer.during, "status": "crashed", "text": answer.outcome.detail or ""})
    return {"machine": machine, "settings": settings(machine), "operations": operations}


def audit_program(python: Path, program: Sequence[str], steps: int = STEPS) -> dict[str, Any]:
    """Runs the program twice; {"tensors": how many were compared, "steps", "difference": Difference or None}.

    Raises:
        UsageError: no Python program, or one that trains nothing.
        TargetError: it failed.
    """
    words = list(program)
    if words and Path(words[0]).name.lower().startswith(("python", "pypy")):
        python, words = locate(words[0]), words[1:]
    if not words or (words[0] != "-m" and not Path(words[0]).is_file()):
        raise UsageError(f"{words[0] if words else 'after --'}: no Python program; say: --audit -- python train.py")
    traces = []
    with tempfile.TemporaryDirectory(prefix="envcheck-") as folder:
        for number in (1, 2):
            path = Path(folder) / f"trace{number}"
            arguments = [str(path), str(steps), *words]
            env = child_environment(python)
            answer = run_payload(
                python, PAYLOADS / "reference_hooks.py", arguments, timeout=PROGRAM_LIMIT, limit=PROGRAM_LIMIT, env=env
            )
            if answer.outcome.exit_code != 0:
                said = (answer.outcome.error or answer.stderr() or answer.kind).strip().splitlines()
                raise TargetError(
                    f"run {number} of the program ended with exit code {answer.outcome.exit_code}: {said[-1] if said else ''}"
                )
            traces.append(read_trace(path))
    if not traces[0]:
        raise UsageError("the program called no module and no optimizer of torch: there is nothing to compare")
    difference = first_of(*traces)
    told = None if difference is None else {"step": difference.step, "kind": difference.kind, "name": difference.name}
    return {"tensors": len(traces[0]), "steps": max(row[1] for row in traces[0]), "difference": told}


def read_trace(path: Path) -> list[tuple[str, int, str, str]]:
    """The lines of a trace; a last line that was cut off is left out."""
    rows = []
    if path.is_file():
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                kind, step, name, digest = json.loads(line)
            except ValueError:
                continue
            rows.append((str(kind), int(step), str(name), str(digest)))
    return rows


def first_of(one: list[tuple[str, int, str, str]], other: list[tuple[str, int, str, str]]) -> Difference | None:
    """The first tensor that differs."""
    for a, b in zip(one, other, strict=False):
        if a[:3] != b[:3]:
            return Difference(a[1], "order", f"{a[2]} in one run, {b[2]} in the other")
        if a[3] != b[3]:
            return Difference(a[1], a[0], a[2])
    if len(one) != len(other):
        longer = max(one, other, key=len)[min(len(one), len(other))]
        return Difference(longer[1], "order", f"{longer[2]} in one run only")
    return None
