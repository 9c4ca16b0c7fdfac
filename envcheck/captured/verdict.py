"""What a judged paste comes to: a cause, healthy, or honestly unknown. A paste shows a part of a machine only."""

from __future__ import annotations

import msgspec

from envcheck.captured.errors import UNRECOGNISED, is_error
from envcheck.facts import Facts, Symptom
from envcheck.findings import Report, Skipped

COLLECT = "python -m torch.utils.collect_env"
SMI = "nvidia-smi"
NO_CUDA = (
    "cuda-driver-init-failed",
    "cuda-init-oom",
    "cuda-unknown",
    "driver-insufficient",
    "no-cuda-device",
    "no-cuda-gpus",
    "no-nvidia-driver",
    "smi-cuda-error",
)
"""What says that CUDA does not start; torch prints most of them as warnings, and a machine of that kind is not well."""


def settle(report: Report) -> Report:
    """The report with the verdict that a paste allows.

    "problems": a cause was found, a warning included, since somebody asked what is wrong. "healthy": nothing wrong
    was found and the paste shows torch or the driver at work. "unknown": an error text that no rule explains, or too
    little to go by; then an essential `skipped` entry says what would settle it.
    """
    if report.primary is not None:
        return msgspec.structs.replace(report, verdict="problems")
    error = unexplained(report.facts)
    if error is not None:
        reason = f"the text has an error that no rule explains: {error.text}"
        return _unknown(report, reason, settle_error(report.facts))
    if not shows_enough(report.facts):
        return _unknown(report, "the text shows too little to say that all is well", missing_command(report.facts))
    return msgspec.structs.replace(report, verdict="healthy")


def _unknown(report: Report, reason: str, command: str) -> Report:
    own = Skipped(rule="diagnose", reason=reason, settle=command, essential=True)
    return msgspec.structs.replace(report, verdict="unknown", skipped=(own, *report.skipped))


def unexplained(facts: Facts) -> Symptom | None:
    """The first error of the text when nothing explains it; what follows from an earlier one does not count."""
    for symptom in facts.symptoms:
        told = symptom.kind in NO_CUDA or is_error(symptom.text)
        if symptom.kind == UNRECOGNISED or (not symptom.echo and told):
            return symptom
    return None


def shows_enough(facts: Facts) -> bool:
    """Whether silence of the rules means something: torch was seen to work, or the driver with its GPUs was."""
    torch, nvidia = facts.torch, facts.nvidia
    if torch.imports is not None and torch.imports.bad:
        return False
    if torch.version or _listed(facts):
        if torch.cuda_available or torch.xpu_available or torch.mps_available:
            return True
        if facts.system.os == "macos":
            return torch.cuda_available is not None
        if torch.cuda_available is False:
            # Without a GPU backend in the build, a CPU is all that is wanted of it.
            return torch.cuda == "" and not torch.hip and not nvidia.gpus
    if torch.cuda_available is False and nvidia.gpus:
        return False
    return bool(nvidia.gpus and nvidia.driver_version and nvidia.smi is not None and nvidia.smi.ok)


def _listed(facts: Facts) -> bool:
    """A list names torch; whether that copy works, the other fields say."""
    return facts.distribution("torch") is not None or facts.distribution("pytorch") is not None


def settle_error(facts: Facts) -> str:
    """What to look at next beside an error that nobody knows."""
    return "envcheck doctor" if facts.torch.version else missing_command(facts)


def missing_command(facts: Facts) -> str:
    """The one command whose output would tell most."""
    if facts.torch.cuda_available is None or not (facts.torch.version or _listed(facts)):
        return COLLECT
    if facts.nvidia.driver_version is None and facts.system.os != "macos":
        return SMI
    return "envcheck doctor"
