"""A finding about a file. Ids are those of the rules where the cause is one of theirs; others begin with "file-"."""

from __future__ import annotations

from envcheck.findings import Finding, Remedy

_AREAS = {
    "driver-too-old": "driver",
    "container-driver-in-image": "platform",
    "glibc-too-old": "library",
    "toolkit-torch-cuda-mismatch": "build",
    "cpu-only-build": "build",
    "file-base-replaced": "build",
    "torchvision-mismatch": "build",
    "torchaudio-mismatch": "build",
    "triton-version-mismatch": "build",
}


def finding(
    rule: str,
    severity: str,
    title: str,
    *,
    seen: str,
    why: str,
    remedy: Remedy,
    confidence: str = "certain",
    line: int | None = None,
) -> Finding:
    """One statement about a file."""
    area = "build" if rule.startswith("gpu-") else _AREAS.get(rule, "install")
    return Finding(
        rule=rule,
        severity=severity,
        area=area,
        title=title,
        seen=seen,
        why=why,
        remedy=remedy,
        confidence=confidence,
        line=line,
    )
