"""The settings that decide about equal bits: what each is now, and what it should be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Setting:
    """One setting, a variable of the environment, or a habit that no setting holds.

    wanted: its value for the same bits twice; None where it is only told.
    """

    group: str
    name: str
    advice: str
    wanted: Any = None
    where: str = "settings"
    """Section of the machine's answer: "settings", "variables", "habits"."""


SETTINGS: tuple[Setting, ...] = (
    Setting("seeds", "torch", "drawn at each start: torch.manual_seed(SEED)", where="habits"),
    Setting("seeds", "random", "drawn at each start: random.seed(SEED)", where="habits"),
    Setting("seeds", "numpy", "drawn at each start: numpy.random.seed(SEED)", where="habits"),
    Setting(
        "order", "PYTHONHASHSEED", "set to a number where the order of a set of strings matters", where="variables"
    ),
    Setting(
        "workers",
        "seeded by the DataLoader",
        "from the loader's generator; what else draws needs worker_init_fn",
        where="habits",
    ),
    Setting("workers", "started by", "spawn and forkserver import the program again in each worker", where="habits"),
    Setting("kernels", "are_deterministic_algorithms_enabled", "torch.use_deterministic_algorithms(True)", True),
    Setting("kernels", "backends.cudnn.deterministic", "torch.backends.cudnn.deterministic = True", True),
    Setting("kernels", "backends.cudnn.benchmark", "torch.backends.cudnn.benchmark = False", False),
    Setting(
        "kernels",
        "CUBLAS_WORKSPACE_CONFIG",
        "set to :4096:8 before the start (needed by torch before 2.9 on CUDA)",
        where="variables",
    ),
    Setting("precision", "backends.cuda.matmul.allow_tf32", "other bits than IEEE float32, the same twice"),
    Setting("precision", "backends.cudnn.allow_tf32", "as above, for convolutions"),
    Setting("precision", "backends.fp32_precision", "the same switch in new words (torch 2.9), for all at once"),
    Setting("precision", "backends.cuda.matmul.fp32_precision", "the same for products on CUDA"),
    Setting("precision", "backends.cudnn.conv.fp32_precision", "the same for convolutions"),
    Setting("precision", "backends.cudnn.rnn.fp32_precision", "the same for recurrent layers"),
    Setting("precision", "backends.mkldnn.matmul.fp32_precision", "the same for products on the CPU"),
    Setting("precision", "backends.mkldnn.conv.fp32_precision", "the same for convolutions on the CPU"),
    Setting("precision", "get_float32_matmul_precision", "highest, high (TF32) or medium (bfloat16)"),
    Setting("precision", "NVIDIA_TF32_OVERRIDE", "overrides every TF32 switch of the program", where="variables"),
    Setting("precision", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "turns TF32 on for products", where="variables"),
    Setting(
        "autotuning", "max_autotune", "torch.compile picks kernels by timing: leave it off", False, where="autotuning"
    ),
    Setting("autotuning", "max_autotune_gemm", "as above, for products", False, where="autotuning"),
    Setting(
        "autotuning", "coordinate_descent_tuning", "as above, for the shapes of its kernels", False, where="autotuning"
    ),
    Setting(
        "autotuning", "deterministic", "torch.compile without any choice by timing (newer torch)", where="autotuning"
    ),
    Setting("autotuning", "TORCHINDUCTOR_MAX_AUTOTUNE", "sets max_autotune from outside", where="variables"),
    Setting("threads", "get_num_threads", "another number gives other bits on the CPU"),
    Setting("threads", "OMP_NUM_THREADS", "sets the number of threads from outside", where="variables"),
)

UNUSUAL = ("cudnn-benchmark", "autotune")
"""Loose only where somebody has changed the environment; the others are so wherever torch is installed."""


def loose_now(machine: dict[str, Any], experiment: str) -> bool | None:
    """Whether what an experiment leaves loose is loose in this environment before a program says anything.

    None where that is a matter of the program alone.
    """
    values, variables = machine.get("settings", {}), machine.get("variables", {})
    free = values.get("are_deterministic_algorithms_enabled") is False
    known = {
        "torch-seed": True,
        "python-seed": True,
        "hash-seed": variables.get("PYTHONHASHSEED", "random") == "random",
        "cublas-workspace": "CUBLAS_WORKSPACE_CONFIG" not in variables,
        "deterministic-algorithms": free,
        "cudnn-deterministic": free and values.get("backends.cudnn.deterministic") is False,
        "cudnn-benchmark": values.get("backends.cudnn.benchmark") is True,
        "tf32": True in (values.get("backends.cuda.matmul.allow_tf32"), values.get("backends.cudnn.allow_tf32")),
        "autotune": bool(
            machine.get("autotuning", {}).get("max_autotune") or variables.get("TORCHINDUCTOR_MAX_AUTOTUNE") == "1"
        ),
    }
    return known.get(experiment)


def settings(machine: dict[str, Any]) -> list[dict[str, Any]]:
    """Each setting: group, name, value now, whether it is right (None: only told), advice."""
    rows = []
    for item in SETTINGS:
        value = machine.get(item.where, {}).get(item.name)
        rows.append(
            {
                "group": item.group,
                "name": item.name,
                "value": value,
                "right": None if item.wanted is None or value is None else value == item.wanted,
                "advice": item.advice,
            }
        )
    return rows
