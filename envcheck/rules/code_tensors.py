"""Tensors that do not go together: devices, shapes, dtypes, and what autograd does not allow."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.facts import Facts, Symptom
from envcheck.findings import Finding, Remedy
from envcheck.matrix import Matrix
from envcheck.rules import derive, driver_signs
from envcheck.rules.base import Rule, rule
from envcheck.rules.code_signs import code_error, sign
from envcheck.rules.driver_signs import detail
from envcheck.rules.platform_xpu import is_xpu

_ECHOES = ("nccl-timeout", "nccl-network", "smoke-failed")


@rule("device-mismatch", "code", "Tensors of one operation are on different devices.", explains=_ECHOES)
def device_mismatch(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Torch's check in its wordings since 0.4."""
    text = sign(facts, "device-mismatch")
    if text is not None:
        yield code_error(
            rule,
            text,
            (
                "One tensor (or the model) was moved to the GPU and another was not: a constant or a mask created "
                "inside forward, something from NumPy, a buffer that is a plain attribute, labels, or a part of the "
                "model on another GPU."
            ),
            Remedy(
                text="Move everything to one device: model.to(device) once, batches with .to(device); create new "
                "tensors on the device of the ones they meet (torch.zeros(..., device=x.device), torch.arange(..., "
                "device=x.device)); keep constants in a module with register_buffer, so that .to() takes them "
                "along. The traceback's last line of your own code names the operation: print .device of its "
                "arguments.",
            ),
        )
        return
    numpy = sign(facts, "numpy-of-device-tensor")
    if numpy is not None:
        yield code_error(
            rule,
            numpy,
            "NumPy works on main memory only.",
            Remedy(text="Take the tensor to the CPU first: x.detach().cpu().numpy()."),
            title="A tensor on the GPU was handed to NumPy.",
        )


@rule(
    "hardcoded-cuda-device",
    "code",
    "The program or its checkpoint asks for CUDA on a machine with another device.",
    explains=_ECHOES,
)
def hardcoded_cuda_device(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """.to('cuda') on a Mac or an Intel GPU, and checkpoints saved on a GPU that is not there."""
    saved = sign(facts, "cuda-checkpoint")
    if saved is not None and not _wants_cuda_build(facts, matrix):
        yield _checkpoint(rule, facts, saved.details, saved)
        return
    text = sign(facts, "cuda-not-compiled")
    if text is None:
        return
    mac = driver_signs.on_mac(facts) or bool(detail(text, "mac"))
    if not mac and not (is_xpu(facts) and not derive.has_nvidia_gpu(facts)):
        return
    device = "mps" if mac else "xpu"
    yield code_error(
        rule,
        text,
        (
            "The code asks for the device cuda (.cuda(), .to('cuda'), a default of a configuration), and this "
            f"machine computes on {device}. torch's message misleads: "
        )
        + (
            "no build for macOS has CUDA, this one is as it should be."
            if mac
            else "this is the XPU build, as it should be."
        ),
        Remedy(
            text=(
                f"Let the program choose: device = 'cuda' if torch.cuda.is_available() else '{device}' if "
                f"torch.{'backends.mps' if mac else 'xpu'}.is_available() else 'cpu', and use that device "
                "everywhere. In somebody else's program look for a device option or a newer release; what is "
                "written with CUDA kernels runs on CUDA only."
            ),
            commands=('grep -rn "cuda" --include="*.py" .',),
        ),
        values=("macOS" if mac else None,),
    )


def _wants_cuda_build(facts: Facts, matrix: Matrix) -> bool:
    """The machine has an NVIDIA GPU and the build no CUDA: then the build is the fault, and its rule speaks."""
    return bool(derive.has_nvidia_gpu(facts)) and driver_signs.wants_cuda(facts, matrix) is False


def _checkpoint(rule: Rule, facts: Facts, details: dict[str, str], text: Symptom) -> Finding:
    count = details.get("test") == "device_count"
    mac = driver_signs.on_mac(facts)
    target = '"cuda:0"' if count else '"cpu"'
    return code_error(
        rule,
        text,
        (
            "The file was saved with tensors on a GPU number that this machine does not have; torch.load puts them "
            "back where they were."
        )
        if count
        else (
            "The file was saved with its tensors on a GPU, and torch.load wants to put them back there, but this "
            "process has no such device."
        ),
        Remedy(
            text=(
                f"Load with torch.load(path, map_location={target}) and move the model afterwards "
                f"(model.to(device){', mps on a Mac' if mac else ''}). In somebody else's program look for a newer "
                "release or a device option."
            ),
            commands=('grep -rn "torch.load(" --include="*.py" .',),
        ),
        title="A checkpoint saved on a GPU is loaded without map_location.",
        confidence="certain" if mac or count or facts.torch.cuda == "" else "likely",
        otherwise=""
        if mac or count
        else "If this machine does have a GPU for it: find out why torch.cuda.is_available() is False.",
    )


@rule("shape-mismatch", "code", "Shapes do not fit.", explains=_ECHOES)
def shape_mismatch(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Matrix products, broadcasting, concatenation, convolution inputs, state dicts."""
    text = sign(facts, "shape-mismatch")
    if text is None:
        return
    lowered = text.text.lower()
    state = "copying a param" in lowered or "loading state_dict" in lowered
    stack = "stack expects" in lowered or "list of batch" in lowered
    view = "view size is not compatible" in lowered
    shapes = detail(text, "shapes") or (
        f"{detail(text, 'm1')} and {detail(text, 'm2')}" if detail(text, "m1") else None
    )
    yield code_error(
        rule,
        text,
        _shape_why(state=state, stack=stack, view=view),
        Remedy(text=_shape_text(state=state, stack=stack, view=view), commands=()),
        title="The checkpoint's shapes do not fit the model." if state else "",
        values=(f"shapes {shapes}" if shapes else None,),
    )


def _shape_why(*, state: bool, stack: bool, view: bool) -> str:
    if state:
        return (
            "The checkpoint belongs to a model of other sizes (another number of classes, another variant or "
            "version of the architecture) or other names."
        )
    if stack:
        return "Samples of different shape cannot be put into one batch."
    if view:
        return "The tensor's memory is not laid out so that this view exists (after permute, transpose or slicing)."
    return (
        "The operation needs dimensions that agree, and these do not: the input has another size than the layer was "
        "made for, a dimension is missing, extra or swapped, or the last batch is smaller."
    )


def _shape_text(*, state: bool, stack: bool, view: bool) -> str:
    if state:
        return (
            "Build the model with the checkpoint's own configuration, or leave the parts out that differ (drop "
            "those keys and load with strict=False; strict=False alone does not forgive sizes)."
        )
    if stack:
        return "Resize, crop or pad in the dataset, or write a collate_fn that pads."
    if view:
        return "Use reshape(), or contiguous().view()."
    return (
        "Print .shape of both sides in the last line of the traceback that is your own (or the project's) code. "
        "Typical cures: in_features of the first Linear after flatten, channels against (N, C, H, W), unsqueeze(0) "
        "for a single image, a transpose, RGB against grey images, drop_last=True. In somebody else's program "
        "update it, and use the model and the input sizes that it was written for."
    )


@rule("dtype-mismatch", "code", "Dtypes do not fit.", explains=_ECHOES)
def dtype_mismatch(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """float32 against float16 or float64, labels that are not int64, a kernel that the CPU has not for half."""
    text = sign(facts, "dtype-mismatch")
    if text is None:
        return
    kernel, dtype = detail(text, "kernel"), detail(text, "dtype")
    mps64 = "float64" in text.text.lower() and "mps" in text.text.lower()
    if kernel:
        why = (
            f"This operation has no kernel for {dtype} on the device that it ran on (half precision on the CPU is "
            "the usual case)."
        )
        cure = (
            (
                "Run it on the GPU, or in float32 (model.float(), torch_dtype=torch.float32, --no-half in image "
                "programs); bfloat16 has CPU kernels where half has none."
            )
            if dtype in ("Half", "BFloat16")
            else "Cast the input (.float(), or .long() for labels and indices)."
        )
    elif mps64:
        why = "Apple's GPUs have no float64."
        cure = "Cast to float32 before .to('mps'); NumPy makes float64 by default (astype('float32'))."
    else:
        why = (
            "The two sides have different dtypes: float32 input for float16 weights (or the reverse), float64 from "
            "NumPy, or labels and indices that are not integers."
        )
        cure = (
            "Cast both to one dtype: x = x.to(weight.dtype), .float() for data from NumPy, .long() for class "
            "labels; or let torch.autocast(device_type, dtype=...) choose in forward. Load model and pipeline parts "
            "with one torch_dtype."
        )
    yield code_error(rule, text, why, Remedy(text=cure))


@rule(
    "inplace-autograd", "code", "An in-place change destroyed a value that the backward pass needs.", explains=_ECHOES
)
def inplace_autograd(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Autograd's version check, and in-place changes of leaves and views."""
    text = sign(facts, "inplace-autograd")
    if text is None:
        return
    leaf = "leaf" in text.text.lower()
    yield code_error(
        rule,
        text,
        "Parameters and other leaves that require a gradient must not be changed in place while autograd records."
        if leaf
        else (
            "A tensor was changed (x += y, x[...] = y, relu_, inplace=True, an optimiser step between two backward "
            "passes) after an operation had saved it for its gradient."
        ),
        Remedy(
            text="Change it under torch.no_grad(), or change a copy."
            if leaf
            else "Write it out of place: x = x + y instead of x += y, torch.where or a clone() before assigning to "
            "a slice, inplace=False. torch.autograd.set_detect_anomaly(True) prints the forward line of the "
            "operation that failed; the culprit is a later change of its result. In GAN-like loops call all "
            "backward passes before the optimiser steps, or detach() between the networks. With "
            "DistributedDataParallel and several forward passes: broadcast_buffers=False.",
        ),
    )


@rule("backward-twice", "code", "The same graph is used for a second backward pass.", explains=_ECHOES)
def backward_twice(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Autograd frees a graph after its first use."""
    text = sign(facts, "backward-twice")
    if text is not None:
        yield code_error(
            rule,
            text,
            (
                "backward() frees what it used. A tensor of the last iteration (a hidden state, a running loss, an "
                "embedding computed once before the loop) leads back into a graph that is gone."
            ),
            Remedy(
                text=(
                    "detach() what is carried from one iteration to the next, or compute it anew inside the loop; "
                    "add losses and call backward() once. retain_graph=True is right only when the very same graph "
                    "is meant twice, and costs memory."
                )
            ),
        )


@rule("backward-without-graph", "code", "The loss does not depend on anything that is trained.", explains=_ECHOES)
def backward_without_graph(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """backward() on a tensor without a graph."""
    text = sign(facts, "no-grad-graph")
    if text is not None:
        yield code_error(
            rule,
            text,
            (
                "Between the parameters and the loss the graph was cut: torch.no_grad(), detach(), .item(), "
                ".numpy(), argmax or a new torch.tensor(loss), or every parameter has requires_grad=False."
            ),
            Remedy(
                text=(
                    "Print requires_grad and grad_fn step by step from the model's output to the loss; the first "
                    "that is False or None stands behind the cut. With frozen models or gradient checkpointing: "
                    "leave at least the trained part unfrozen (model.enable_input_require_grads() in transformers)."
                )
            ),
        )


@rule("missing-no-grad", "code", "A result is used outside of training without no_grad or detach.", explains=())
def missing_no_grad(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """numpy() of a tensor with a graph; an evaluation function without no_grad."""
    text = sign(facts, "numpy-of-grad")
    if text is not None:
        yield code_error(
            rule,
            text,
            "The tensor still carries its graph, which NumPy does not know.",
            Remedy(
                text=(
                    "x.detach().cpu().numpy(); run evaluation under torch.no_grad() or torch.inference_mode(), "
                    "which also saves memory."
                )
            ),
        )
        return
    source = sign(facts, "eval-without-no-grad")
    if source is not None:
        yield code_error(
            rule,
            source,
            (
                "The evaluation that is shown runs without torch.no_grad() and without model.eval(): it keeps a "
                "graph for every batch (memory), and dropout and batch normalisation behave as in training."
            ),
            Remedy(
                text=(
                    "Call model.eval() before and model.train() after it, and put the loop under torch.no_grad() or "
                    "torch.inference_mode()."
                )
            ),
            title="The evaluation shown has neither eval() nor no_grad().",
            confidence="possible",
            severity="note",
        )


RULES: tuple[Rule, ...] = (
    device_mismatch,
    hardcoded_cuda_device,
    shape_mismatch,
    dtype_mismatch,
    inplace_autograd,
    backward_twice,
    backward_without_graph,
    missing_no_grad,
)
