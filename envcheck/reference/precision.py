"""Which precision each layer really computes in, from the shadow steps."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from envcheck.findings import Finding, Remedy
from envcheck.reference.measure import Measured

TF32_FROM, BF16_FROM = 4e-5, 1e-3
"""Relative error of a layer's gradient against float64, smooth twin. Measured: float32 up to 2.5e-5, products with 10
bits of mantissa 1e-4 to 7e-4, bf16 3e-3 to 9e-3."""


def classify(error: float) -> str:
    """ "fp32", "tf32" (about 10 bits of mantissa), "bf16" (fewer, or wrong altogether)."""
    if not error < BF16_FROM:
        return "bf16"
    return "fp32" if error < TF32_FROM else "tf32"


NAMES = {"fp32": "float32", "tf32": "TF32-like", "bf16": "bf16-like or worse"}


def _classes(shadows: list[dict[str, Any]]) -> dict[str, tuple[str, float]]:
    """By layer, the worst of the states."""
    worst: dict[str, float] = {}
    for shadow in shadows:
        for name, error in shadow["errors"].items():
            worst[name] = max(worst.get(name, 0.0), math.inf if math.isnan(error) else error)
    return {name: (classify(error), error) for name, error in worst.items()}


def judge_precision(findings: list[Finding], claim: Callable[..., None], measured: Measured, device: str) -> None:
    """Adds claims and findings about the strict settings and the user's own."""
    strict = measured.stages.get("smooth", {}).get("shadows", [])
    if strict:
        _strict(findings, claim, _classes(strict), device)
    own = measured.stages.get("shadow", {})
    if "errors" in own:
        _own(findings, claim, _classes([own]), _classes(strict), measured.stages.get("machine", {}), device)


def _strict(
    findings: list[Finding], claim: Callable[..., None], classes: dict[str, tuple[str, float]], device: str
) -> None:
    wrong = {name: value for name, value in classes.items() if value[0] != "fp32"}
    if not wrong:
        claim(
            "precision",
            "proved",
            f"every layer computes in float32: gradients within {max(e for _, e in classes.values()):.1e} of float64",
            None,
            device,
        )
        return
    text = _text(wrong)
    claim("precision", "failed", text, None, device)
    whole = {kind for kind, _ in wrong.values()}
    worst = "bf16" if "bf16" in whole else "tf32"
    findings.append(
        Finding(
            rule="reference-precision",
            severity="error",
            area="reproducibility",
            title=f"{', '.join(wrong)}: computed in {NAMES[worst]} precision, although float32 is asked for",
            seen=text,
            why="The gradient differs from the float64 gradient of the same weights and images by more than float32 rounding can.",
            remedy=Remedy(
                text="TF32 and reduced precision are off by every switch here. Look for variables that force them "
                "(NVIDIA_TF32_OVERRIDE, ONEDNN_DEFAULT_FPMATH_MODE), for patches of torch, then for a faulty device.",
                commands=("envcheck smoke --level 2",),
            ),
        )
    )


def _text(classes: dict[str, tuple[str, float]]) -> str:
    return ", ".join(f"{name} {NAMES[kind]} ({error:.1e})" for name, (kind, error) in classes.items())


def _own(
    findings: list[Finding],
    claim: Callable[..., None],
    classes: dict[str, tuple[str, float]],
    strict: dict[str, tuple[str, float]],
    machine: dict[str, Any],
    device: str,
) -> None:
    claim("precision-defaults", "proved", f"with your own settings: {_text(classes)}", None, device)
    wrong = {
        name: value
        for name, value in classes.items()
        if value[0] != "fp32" and strict.get(name, ("fp32",))[0] == "fp32"
    }
    if not wrong:
        return
    tf32 = all(kind == "tf32" for kind, _ in wrong.values())
    settings = {
        k: v for k, v in machine.get("settings", {}).items() if ("tf32" in k or "precision" in k) and v is not None
    }
    findings.append(
        Finding(
            rule="reference-tf32" if tf32 else "reference-reduced-precision",
            severity="note" if tf32 else "warning",
            area="reproducibility",
            title=f"With your own settings {', '.join(wrong)} compute in {'TF32-like' if tf32 else 'less than TF32'} precision",
            seen=f"{_text(wrong)}; {', '.join(f'{k} = {v}' for k, v in settings.items())}",
            why="That is torch's default for convolutions on newer GPUs: fast, and enough for training; results differ from float32 in the fourth digit.",
            remedy=Remedy(
                text="For float32: torch.backends.cudnn.allow_tf32 = False and torch.backends.cuda.matmul.allow_tf32 = False."
            ),
        )
    )
