"""Rule ids of the parts of a training step, what to do about each, and settings that are known to break repeats."""

from __future__ import annotations

from typing import Any

from envcheck.findings import Finding, Remedy
from envcheck.reference.settings import loose_now

FOR_KIND = {
    "memory": "reference-memory",
    "data": "reference-data",
    "forward": "reference-forward",
    "backward": "reference-backward",
    "optimizer": "reference-optimizer",
    "statistics": "reference-statistics",
    "evaluation": "reference-evaluation",
}

_REMEDIES = {
    "memory": Remedy(
        text="Weights changed while nobody wrote to them: test the memory (memtest86+; for a GPU its ECC counters and "
        "Xid messages), undo overclocking, and repeat the run.",
        commands=("envcheck doctor", "nvidia-smi -q -d ECC,PAGE_RETIREMENT"),
    ),
    "data": Remedy(
        text="Compare the transforms with the recipe: mean and std, order of channels, crop and flip on training images only."
    ),
    "forward": Remedy(
        text="If nothing patches torch here, this layer computes wrong on this device: see the kernels one by one, and try another torch build.",
        commands=("envcheck smoke --level 2",),
    ),
    "backward": Remedy(
        text="Look for a missing zero_grad(), a loss that is scaled, a detached tensor; if the code is right, test the kernels.",
        commands=("envcheck smoke --level 2",),
    ),
    "optimizer": Remedy(
        text="Compare the optimizer's settings with the recipe (lr 0.1, momentum 0.9, weight decay 5e-4), and that every parameter is given to it."
    ),
    "statistics": Remedy(
        text="Compare BatchNorm's momentum (0.1) and that the model is in training mode while it trains."
    ),
    "evaluation": Remedy(
        text="Call model.eval() and torch.no_grad() for the evaluation, and use no augmentation there."
    ),
    "trajectory": Remedy(
        text="Run it again: a fault that moves or vanishes is the machine's (memory, heat, power, overclocking).",
        commands=("envcheck reference --preset quick", "envcheck smoke --level 2"),
    ),
}
_STRICT = Remedy(
    text="The deterministic settings were on. Another process on the device, a driver or an unsound memory may be the cause: "
    "run again with nothing else on the device.",
    commands=("envcheck reference", "envcheck smoke --level 2"),
)
_DEFAULTS = Remedy(
    text="For the same bits twice: torch.use_deterministic_algorithms(True), torch.backends.cudnn.benchmark = False, "
    "CUBLAS_WORKSPACE_CONFIG=:4096:8 before the first use of the GPU, and seeds for torch, random and numpy.",
)


def remedy_for(kind: str, cause: str) -> Remedy:
    """What to do about a part of that kind."""
    if kind == "repeat":
        return _STRICT if cause == "strict" else _DEFAULTS
    return _REMEDIES.get(kind, _REMEDIES["trajectory"])


def failed(title: str, seen: str, why: str = "", remedy: Remedy | None = None) -> Finding:
    """What was to be measured did not come to an end."""
    return Finding(
        rule="reference-failed",
        severity="error",
        area="runtime",
        title=title,
        seen=seen,
        why=why or "Nothing can be said about what was not measured.",
        remedy=remedy or Remedy(text="See what torch itself says about it.", commands=("envcheck doctor",)),
    )


ONE_BY_ONE = Remedy(text="See which operation fails by itself.", commands=("envcheck smoke --level 2",))


_BREAK_REPEATS = {
    "cudnn-benchmark": "cudnn.benchmark is on: it picks algorithms by timing",
    "deterministic-algorithms": "deterministic algorithms are off",
    "autotune": "torch.compile picks kernels by timing (max_autotune)",
}


def settings_that_break_repeats(machine: dict[str, Any]) -> list[str]:
    """Settings of this machine that are known to change bits from run to run."""
    told = {name: text for name, text in _BREAK_REPEATS.items() if loose_now(machine, name)}
    if not str(machine.get("device", "")).startswith("cuda") or not machine.get("cuda"):
        told.pop("deterministic-algorithms", None)  # off by default everywhere, and without effect on a CPU
    return list(told.values())
