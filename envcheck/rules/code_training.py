"""Training that goes wrong: labels, NaN, a loss that stays, workers without a guard, checkpoints that do not load."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.facts import Facts, Symptom
from envcheck.findings import Finding, Remedy
from envcheck.matrix import Matrix
from envcheck.rules import derive
from envcheck.rules.base import Rule, rule
from envcheck.rules.code_signs import code_error, sign
from envcheck.rules.driver_signs import at, detail, quoted

_GPU_ECHOES = (
    "nccl-timeout",
    "nccl-network",
    "nccl-cuda-error",
    "illegal-memory-access",
    "oom-capacity",
    "smoke-failed",
    "cuda-unknown-error",
)


@rule("label-out-of-range", "code", "A label or an index is out of range (device-side assert).", explains=_GPU_ECHOES)
def label_out_of_range(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Assertions of kernels, and the same mistakes in the CPU's words."""
    text = sign(facts, "label-assert")
    bare = sign(facts, "device-assert")
    if text is None and bare is None:
        return
    first = text or bare
    assert first is not None
    lowered = first.text.lower()
    unit = "input_val" in lowered or "between 0 and 1" in lowered
    target = detail(text, "target")
    values = (
        f"label {target}" if target else None,
        f'"{bare.text}"' if text is not None and bare is not None else None,
    )
    if unit:
        why = (
            "Binary cross entropy got values outside of 0 to 1 (no sigmoid in front of it, NaN, or labels that are "
            "not 0 and 1)."
        )
        cure = (
            "Use BCEWithLogitsLoss on the raw outputs, and check the targets' range; NaN outputs count as outside, too."
        )
    else:
        why = (
            "Class labels have to lie between 0 and the number of classes - 1, embedding and gather indices between "
            "0 and the size - 1; one of them does not. The first assertion is the cause: after it every CUDA call "
            "of the process fails, and NCCL, cuBLAS and others only report that."
        )
        cure = (
            "Check labels.min() and labels.max() against the model's number of classes (labels that start at 1, a "
            "background or ignore value such as 255 or -1 that needs ignore_index, a tokenizer with more tokens "
            "than the embedding, positions beyond the maximum length). Run the failing batch on the CPU or with "
            "CUDA_LAUNCH_BLOCKING=1: then the traceback names the line."
        )
    yield code_error(
        rule,
        first,
        why,
        Remedy(text=cure, commands=("CUDA_LAUNCH_BLOCKING=1 python train.py",)),
        title=""
        if text is not None
        else "A kernel's assertion failed: most often a label or an index is out of range.",
        confidence="certain" if text is not None else "likely",
        otherwise=""
        if text is not None
        else "The line 'Assertion ... failed' that was printed before (often far above) names the condition.",
        values=values,
    )


@rule("nan-loss", "code", "The loss (or a gradient) became NaN or infinite.", explains=("nccl-timeout",))
def nan_loss(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Logs, trainers that stop, AMP's scaler at its end, sampling from NaN."""
    text = sign(facts, "nan-loss", "sampling-nan")
    if text is None:
        return
    sampling = text.kind == "sampling-nan"
    yield code_error(
        rule,
        text,
        (
            "The model's outputs contain NaN or infinity, so no token can be drawn: float16 that overflows, damaged "
            "or wrongly quantised weights."
        )
        if sampling
        else (
            "The training diverges: a learning rate that is too high, bad data (NaN, infinity, division by zero, "
            "log of 0, empty targets), or float16 that overflows."
        ),
        Remedy(
            text="Load the model in bfloat16 or float32 instead of float16, and see whether its file is whole."
            if sampling
            else (
                "In this order: a tenth of the learning rate and a warm-up; check inputs and targets with "
                "torch.isfinite; without mixed precision, or with bfloat16; clip gradients (clip_grad_norm_); an "
                "epsilon in log, sqrt and division; torch.autograd.set_detect_anomaly(True) for a few steps names "
                "the operation."
            ),
        ),
        confidence="likely",
        otherwise=(
            "If the same program with the same seed is fine on another machine or in float32 on the CPU: wrong "
            "results of this GPU or release (envcheck smoke)."
        ),
        title="The model's probabilities contain NaN or infinity." if sampling else "",
    )


@rule("loss-flat", "code", "The loss stays at the value of guessing.")
def loss_flat(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """ln(number of classes), again and again."""
    text = sign(facts, "loss-at-chance")
    if text is None:
        return
    value = detail(text, "loss") or ""
    classes = {
        "2.302": 10,
        "2.303": 10,
        "0.693": 2,
        "4.605": 100,
        "6.907": 1000,
        "6.908": 1000,
        "1.098": 3,
        "1.609": 5,
        "3.912": 50,
    }.get(value)
    yield code_error(
        rule,
        text,
        (
            f"The loss stays at {value}, which is ln({classes}): the outputs are what guessing among {classes} "
            "classes gives."
        )
        if classes
        else f"The loss stays at {value}.",
        Remedy(
            text=(
                "Overfit one batch first: if even that does not work, check that optimizer.step() is called, that "
                "the optimiser has the model's parameters (made after .to(device)), that gradients are not None or "
                "0, that softmax is not applied before CrossEntropyLoss, that labels belong to their inputs, and "
                "that inputs are scaled. Then vary the learning rate by factors of ten."
            ),
        ),
        confidence="possible",
        severity="warning",
        otherwise="In the first few hundred steps of a hard task this is normal.",
    )


@rule("missing-zero-grad", "code", "Gradients are not set to zero between steps.")
def missing_zero_grad(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """A training loop in the paste that has backward() and step() and no zero_grad()."""
    text = sign(facts, "loop-without-zero-grad")
    if text is None:
        return
    yield code_error(
        rule,
        text,
        (
            "The loop that is shown calls backward() and step() without zero_grad(): gradients of all earlier "
            "batches add up, and training drifts or diverges."
        ),
        Remedy(
            text=(
                "Call optimizer.zero_grad() once in every step (before backward(), or after step()), unless "
                "gradients are accumulated on purpose."
            )
        ),
        title="The training loop shown does not call zero_grad().",
        confidence="possible",
        severity="note",
    )


@rule("missing-eval-mode", "code", "The model is in training mode where it should be in evaluation mode.")
def missing_eval_mode(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Batch normalisation over a single value."""
    text = sign(facts, "batchnorm-one-sample")
    if text is None:
        return
    yield code_error(
        rule,
        text,
        (
            "In training mode batch normalisation needs more than one value for each channel; a batch of one sample "
            "has not (inference without eval(), or a last batch of one)."
        ),
        Remedy(
            text=(
                "Call model.eval() for inference (and model.train() for training); in training use drop_last=True "
                "or a larger batch."
            )
        ),
    )


@rule(
    "ddp-unused-parameters",
    "code",
    "Some parameters get no gradient under DistributedDataParallel.",
    explains=("nccl-timeout",),
)
def ddp_unused_parameters(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """DDP waits for gradients that never come."""
    text = sign(facts, "ddp-unused-parameters")
    if text is None:
        return
    yield code_error(
        rule,
        text,
        (
            "DistributedDataParallel waits for the gradient of every parameter, once a step; some were not used in "
            "the loss, or were used twice (checkpointing, shared modules)."
        ),
        Remedy(
            text=(
                "Leave unused parameters out (requires_grad=False), or find_unused_parameters=True; use all of "
                "forward's outputs in the loss; with activation checkpointing use_reentrant=False or "
                "static_graph=True."
            ),
            commands=("TORCH_DISTRIBUTED_DEBUG=DETAIL torchrun ...",),
        ),
    )


@rule(
    "dataloader-worker-main-guard",
    "code",
    "Worker processes are started without the __main__ guard.",
    explains=("smoke-failed",),
)
def dataloader_worker_main_guard(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Python's bootstrapping message, and the broken pipe that Windows shows of it."""
    text = sign(facts, "spawn-bootstrap", "worker-broken-pipe")
    if text is None:
        return
    sure = text.kind == "spawn-bootstrap"
    yield code_error(
        rule,
        text,
        (
            "On Windows and macOS workers are started by spawn: each imports the script anew, and a script that "
            "starts its loop at import time starts workers of workers."
        ),
        Remedy(
            text=(
                'Put the code that runs into a function and call it under if __name__ == "__main__":. '
                "num_workers=0 does without workers; in a notebook move the dataset and collate function into a "
                "module."
            ),
        ),
        confidence="certain" if sure else "likely",
        otherwise=""
        if sure
        else (
            "With the guard in place: a dataset that cannot be pickled (lambdas, open files), or Windows' page file "
            "(WinError 1455)."
        ),
    )


@rule(
    "dataloader-not-picklable",
    "code",
    "Something that goes to a worker process cannot be pickled.",
    explains=("smoke-failed", "dataloader-worker-main-guard"),
)
def dataloader_not_picklable(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Spawn sends the dataset to the worker as a pickle."""
    text = sign(facts, "not-picklable")
    if text is None:
        return
    yield code_error(
        rule,
        text,
        (
            "Where workers start by spawn (Windows, macOS, Python 3.14 on Linux: forkserver), dataset, transforms "
            "and collate function travel as a pickle; lambdas, functions inside functions, open files, locks and "
            "classes defined in a notebook cannot."
        ),
        Remedy(
            text=(
                "Define functions and classes at the top level of a module, open files in the worker "
                "(worker_init_fn or at the first __getitem__), replace lambdas by functools.partial; or "
                "num_workers=0."
            )
        ),
    )


@rule("weights-only-load", "code", "torch.load refuses a checkpoint that holds more than weights.")
def weights_only_load(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """The default weights_only=True since torch 2.6."""
    text = sign(facts, "weights-only")
    if text is None or _not_a_pickle(facts) is not None:
        return
    name = detail(sign(facts, "weights-only-global"), "name")
    version = derive.torch_version(facts)
    yield code_error(
        rule,
        text,
        (
            "Since torch 2.6 torch.load reads tensors and plain containers only (weights_only=True), because a "
            "pickle can run any code; this checkpoint contains other Python objects."
        ),
        Remedy(
            text=(
                f"Allow the class it names: torch.serialization.add_safe_globals([{name}]). "
                if name
                else "Allow the classes it names with torch.serialization.add_safe_globals([...]). "
            )
            + (
                "weights_only=False loads everything, and runs whatever is in the file: only for files whose author "
                "you trust. Better for good: update the library that made it, save state_dict() only, or use "
                "safetensors."
            ),
        ),
        values=(f"torch {version}" if version else None,),
    )


_OPCODES = frozenset(b"(.0120FIJKLMNPQRSTUVXabcd}eghijl]opqrstu)G" + bytes(range(0x80, 0x99)))
"""The codes of a pickle of protocol 0 to 5 (CPython's pickle.py); a file that holds another byte there is no pickle."""


def _not_a_pickle(facts: Facts) -> Symptom | None:
    """Torch's own unpickler names the code it met; a byte that is none of pickle's is another kind of file."""
    text = sign(facts, "unpickler-operand")
    return text if text is not None and int(text.details["operand"]) not in _OPCODES else None


@rule("checkpoint-damaged", "runtime", "A checkpoint file is damaged, incomplete, or not a checkpoint.")
def checkpoint_damaged(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """What zip, pickle and safetensors readers say of half a file, a web page or a Git LFS pointer."""
    text = sign(facts, "checkpoint-damaged") or _not_a_pickle(facts)
    if text is None:
        return
    operand = detail(text, "operand")
    key = chr(int(operand)) if operand else detail(text, "key")
    pointer = {
        "v": "It begins like a Git LFS pointer: the real file was never fetched (git lfs pull).",
        "<": "It begins like a web page: the download gave an error page instead of the file.",
        "{": "It begins like JSON.",
    }.get(key or "", "")
    yield rule.finding(
        "error",
        seen=quoted(text),
        why=(
            "The file ends too early or holds something else: an interrupted download, a full disk while saving, a "
            f"save that another rank was still writing. {pointer}"
        ).strip(),
        remedy=Remedy(
            text=(
                "Look at its size and its first bytes, compare with the source's checksum, and fetch it again "
                "(delete the cached copy first). While training save to a temporary name and rename, on one rank "
                "only."
            ),
            commands=("ls -l model.pt", "head -c 64 model.pt | xxd", "git lfs pull"),
        ),
        confidence="likely",
        otherwise="A file of a newer torch, read by a very old one, gives similar messages.",
        line=at(text),
    )


RULES: tuple[Rule, ...] = (
    label_out_of_range,
    nan_loss,
    missing_eval_mode,
    ddp_unused_parameters,
    dataloader_worker_main_guard,
    dataloader_not_picklable,
    weights_only_load,
    checkpoint_damaged,
    loss_flat,
    missing_zero_grad,
)
