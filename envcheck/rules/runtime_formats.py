"""Number formats (bfloat16, FP8) that a GPU has no hardware for."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.facts import Facts
from envcheck.findings import Finding, Remedy
from envcheck.matrix import Matrix
from envcheck.rules import derive
from envcheck.rules.base import Rule, rule


@rule(
    "gpu-lacks-format",
    "runtime",
    "The GPU cannot compute in the number format that was asked for.",
    explains=("dtype-mismatch",),
)
def gpu_lacks_format(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """bfloat16 begins with compute capability 8.0, FP8 with 8.9; Triton's kernels ask as well."""
    item = facts.symptom("format-unsupported")
    if item is None:
        return
    d = item.details
    if d.get("setup") and (facts.torch.cuda_available is False or facts.torch.cuda == ""):
        return  # transformers says it of a torch without CUDA, too
    if d.get("fp8", "fp8e4nv") != "fp8e4nv":
        return  # Triton's other FP8 types are of older or of AMD's GPUs: a newer NVIDIA GPU may lack them
    variant = derive.torch_variant(facts, matrix)
    if (variant is not None and variant.value.startswith("rocm")) or (
        derive.has_amd_gpu(facts) and not derive.has_nvidia_gpu(facts)
    ):
        return  # compute capabilities are NVIDIA's
    eight = bool(d.get("fp8") or d.get("scaled"))
    gpus = derive.gpus(facts, matrix)
    weakest = min((g for g in gpus if g.capability), key=lambda g: derive.numbers(g.capability), default=None)
    have = d.get("have") or (weakest.capability if weakest else None)
    named = d.get("gpu") or (weakest.name if weakest else next((g.name for g in gpus if g.name), None))
    least = d.get("least") or ("8.9" if eight else "8.0")
    if have and derive.numbers(have) >= derive.numbers(least):
        return  # the hardware has it: the words have another cause
    name = "FP8" if eight else "bfloat16"
    unsure = bool(d.get("setup"))
    yield rule.finding(
        "error",
        title=f"{named or 'This GPU'} has no {name}: it needs compute capability {least}" + (f", and has {have}" if have else ""),
        seen=derive.quote(item, *(g.label for g in gpus)),
        why=f"{name} is in the hardware of NVIDIA GPUs from compute capability {least} on "
        + ("(Ada, Hopper and newer)." if eight else "(Ampere and newer).")
        + " The driver and the build change nothing about it."
        + (" transformers says the same where CUDA is not available at all." if unsure else ""),
        remedy=Remedy(
            text="Take a model in another format (BF16 or INT8 in place of FP8), or a newer GPU."
            if eight
            else "Use float16 in place of bfloat16: --dtype half (vLLM), fp16=True (transformers), mixed_precision fp16 (accelerate).",
        ),
        confidence="likely" if unsure or not have else "certain",
        otherwise='`python -c "import torch; print(torch.cuda.is_available(), torch.cuda.get_device_capability())"` shows what there is.'
        if unsure or not have
        else "",
        line=item.line,
    )  # fmt: skip


RULES: tuple[Rule, ...] = (gpu_lacks_format,)
