"""Breaks torch in one way after another and lets the smoke tests judge each: run by a Python that has torch.

    faults.py LIST         names of all faults, one a line
    faults.py RUN SEED     every fault, one JSON line each: which tests were meant to see it, what they said
    faults.py SOUND FROM N [LEVEL]  the healthy CPU with N seeds: one JSON line for each failure, then a summary

A fault changes what torch's operators return, below autograd (`Operator`), or what a function of torch's Python
surface does (`Replaced`). References are computed in fp64, so faults touch other precisions only. GPU-only tests run
against a pretended device whose tensors lie on the CPU.
"""

import contextlib
import json
import os
import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode

PAYLOADS = Path(__file__).resolve().parents[2] / "envcheck" / "payloads"
sys.path.insert(0, str(PAYLOADS))
import smoke_device

support = smoke_device.part("smoke_support")
sys.path.remove(str(PAYLOADS))
FP32, FP16, BF16, U8 = torch.float32, torch.float16, torch.bfloat16, torch.uint8


# --- ways of being wrong ----------------------------------------------------------------------------------------


def one_wrong(out):
    flat = out.view(-1)
    flat[flat.numel() // 2] += 1.0
    return out


def slightly_wrong(out):
    """One element off by 1%."""
    flat = out.view(-1)
    place = int(flat.abs().float().argmax())
    flat[place] *= 1.01
    return out


def nan(out):
    out.view(-1)[out.numel() // 3] = float("nan")
    return out


def last_row_lost(out):
    out[-1] = 0
    return out


def zeros(out):
    return out.zero_()


def dropped_element(out):
    flat = out.view(-1)
    flat[int(flat.abs().float().argmax())] = 0
    return out


def tf32(value):
    """Rounded to the 11 significant bits that TF32 keeps."""
    bits = value.contiguous().view(torch.int32)
    return ((bits + 0x1000) & ~0x1FFF).view(FP32)


def four_bits(value):
    """Rounded to four significant bits, as fp8 (e4m3) keeps them."""
    bits = value.contiguous().view(torch.int32)
    return ((bits + 0x80000) & ~0xFFFFF).view(FP32)


def as_bf16(value):
    return value.to(BF16).to(FP32)


def flipped_bit(out):
    flat = out.view(-1)
    flat[flat.numel() // 2] ^= 16
    return out


def swapped(out):
    flat = out.view(-1)
    if flat.numel() > 100:
        flat[[3, 77]] = flat[[77, 3]] if flat[3] != flat[77] else flat[[3, 77]] ^ 1
    return out


class Operator(TorchDispatchMode):
    """An operator whose result (`place`: of several) goes through `change` when it has one of the dtypes.

    `inputs`: change applied to the floating arguments instead. `unwritten`: with out= nothing is computed at all;
    without, the result of the call before is given once more. `skip`: calls that go well first.
    """

    def __init__(self, names, change=None, dtypes=(FP32,), place=0, inputs=None, unwritten=False, skip=0):
        super().__init__()
        self.names, self.change, self.dtypes, self.place = names.split(), change, dtypes, place
        self.inputs, self.unwritten, self.skip = inputs, unwritten, skip
        self.before, self.hits = {}, 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func._schema.name not in self.names:
            return func(*args, **kwargs)
        if self.inputs is not None:
            args = [self.inputs(a) if torch.is_tensor(a) and a.dtype in self.dtypes else a for a in args]
        target = kwargs.get("out")
        if self.unwritten and target is not None and target.dtype in self.dtypes:
            self.hits += 1
            return target
        result = func(*args, **kwargs)
        several = isinstance(result, (tuple, list))
        chosen = result[self.place] if several else result
        if not torch.is_tensor(chosen) or chosen.dtype not in self.dtypes:
            return result
        if self.skip:
            self.skip -= 1
            return result
        self.hits += 1
        if self.unwritten:
            key = (func._schema.name, tuple(chosen.shape), chosen.dtype)
            stale, self.before[key] = self.before.get(key, torch.zeros_like(chosen)), chosen.clone()
            chosen.copy_(stale)
        elif self.change is not None:
            changed = self.change(chosen)
            if changed.shape != chosen.shape:
                return changed
            if changed is not chosen:
                chosen.copy_(changed)
        return result


class Replaced:
    """Attributes of objects replaced for a block; each replacement gets the original."""

    def __init__(self, *changes):
        self.changes, self.hits = changes, 0

    def __enter__(self):
        self.kept = [
            (owner, name, owner.__dict__.get(name, None), getattr(owner, name)) for owner, name, _ in self.changes
        ]
        for owner, name, make in self.changes:
            setattr(owner, name, self._counted(make(getattr(owner, name))))
        return self

    def _counted(self, function):
        if not callable(function):
            self.hits += 1
            return function

        def call(*args, **kwargs):
            self.hits += 1
            return function(*args, **kwargs)

        return call

    def __exit__(self, *unused):
        for owner, name, own, value in self.kept:
            if own is None and isinstance(owner, type):
                delattr(owner, name)
            else:
                setattr(owner, name, value)


class InWorkers(Replaced):
    """A replacement that only worker processes call."""

    def __enter__(self):
        super().__enter__()
        self.hits = 1
        return self


def patched(owner, name, make):
    return lambda: Replaced((owner, name, make))


def not_fp64(make):
    """A replacement that leaves fp64 results (the references) alone."""

    def outer(original):
        def call(*args, **kwargs):
            result = original(*args, **kwargs)
            return result if result.dtype == torch.float64 else make(result)

        return call

    return outer


# --- a pretended GPU --------------------------------------------------------------------------------------------


class PretendedGpu:
    """Stands for torch.cuda with tensors on the CPU. What a stream copies is done when an event is waited for."""

    order_kept = True

    def __init__(self):
        self.waiting = []
        gpu = self

        class Event:
            def __init__(self, enable_timing=False):
                pass

            def record(self, stream=None):
                pass

            def query(self):
                return not gpu.waiting

            def elapsed_time(self, other):
                return 0.25

        class Stream:
            def wait_stream(self, other):
                pass

            def wait_event(self, event):
                if gpu.order_kept:
                    gpu.flush()

            def synchronize(self):
                pass

        self.Event, self.Stream = Event, Stream

    def flush(self):
        while self.waiting:
            self.waiting.pop(0)()

    @contextlib.contextmanager
    def stream(self, stream):
        original = torch.Tensor.copy_

        def later(target, source, *args, **kwargs):
            self.waiting.append(lambda: original(target, source))
            return target

        torch.Tensor.copy_ = later
        try:
            yield
        finally:
            del torch.Tensor.copy_

    def current_stream(self):
        return self.Stream()

    def synchronize(self):
        self.flush()

    def set_device(self, device):
        pass

    def get_device_capability(self, device=None):
        return (9, 0)


def _pretend_pinning():
    return Replaced(
        (torch.Tensor, "pin_memory", lambda original: lambda self, *a: self.clone()),
        (torch.Tensor, "is_pinned", lambda original: lambda self, *a: True),
    )


def pretended(label, seed, name):
    return support.Context(label, seed, name, device=torch.device("cpu"), backend=PretendedGpu())


def philox_rand(rounds):
    """torch.rand as a GPU does it, with so many rounds of Philox."""
    philox = smoke_device.part("smoke_generators").philox4x32

    def make(original):
        state = {"call": 0}

        def seed(value):
            state["seed"], state["call"] = value, 0

        def rand(count, **kwargs):
            key = (state["seed"] & 0xFFFFFFFF, state["seed"] >> 32)
            words = [philox((state["call"], 0, i, 0), key, rounds)[0] for i in range(count)]
            state["call"] += 1
            return torch.tensor([w * 2.0**-32 + 2.0**-33 for w in words], dtype=torch.float32)

        make.seed = seed
        return rand

    def build():
        changed = Replaced(
            (torch, "rand", make), (torch, "manual_seed", lambda original: lambda value: make.seed(value))
        )
        return changed

    return build


# --- the faults -------------------------------------------------------------------------------------------------

CPU, GPU = "cpu", "cuda:0"
PRODUCTS = "aten::mm aten::addmm aten::bmm aten::linear aten::matmul aten::baddbmm"
CONV = "aten::convolution aten::mkldnn_convolution aten::_convolution"
CONV_BACK = "aten::convolution_backward"
BN = "aten::native_batch_norm aten::_native_batch_norm_legit aten::_batch_norm_with_update"
BN_BACK = "aten::native_batch_norm_backward aten::batch_norm_backward"
LN, LN_BACK = "aten::native_layer_norm", "aten::native_layer_norm_backward"
FLASH = "aten::_scaled_dot_product_flash_attention_for_cpu"
COPIES = "aten::copy_ aten::_to_copy aten::clone"


def operator(*args, **kwargs):
    return lambda: Operator(*args, **kwargs)


def biased_rand(original):
    def call(*args, **kwargs):
        values = original(*args, **kwargs)
        return values if values.dtype == torch.float64 else values * 0.98

    return call


def wrong_seed(original):
    # The seed is taken and thrown away.
    return lambda value: original(int.from_bytes(os.urandom(6), "little"))


def same_seed(original):
    return lambda value: original(4711)


def one_word_lost(original):
    def call(value):
        original(value)
        torch.empty(1, dtype=torch.int64).random_(1 << 20)

    return call


def unbiased_variance(original):
    def call(x, mean, variance, w=None, b=None, training=False, momentum=0.1, eps=1e-5):
        if x.dtype == torch.float64:
            return original(x, mean, variance, w, b, training, momentum, eps)
        n = x.numel() // x.shape[1]
        return original(x, mean, variance, w, b, training, momentum, eps) * (1 - 0.5 / n)

    return call


def mask_ignored(original):
    return lambda *args, **kwargs: original(*args, **{**kwargs, "is_causal": False})


def scale_forgotten(original):
    def call(q, k, v, **kwargs):
        return original(q * 1.05, k, v, **kwargs)

    return call


def wrong_order(original):
    def call(x, *args, **kwargs):
        values, places = original(x, *args, **kwargs)
        values = values.clone()
        values[[10, 2000]] = values[[2000, 10]]
        return values, places

    return call


def granted(original):
    def call(*args, **kwargs):
        if args and args[0] == 2**58:
            return original(4)
        return original(*args, **kwargs)

    return call


def odd_error(original):
    def call(*args, **kwargs):
        if args and args[0] == 2**58:
            raise SystemError("the driver is confused")
        return original(*args, **kwargs)

    return call


def broken_after_error():
    state = {"failed": False}

    def empty(original):
        def call(*args, **kwargs):
            try:
                return original(*args, **kwargs)
            except RuntimeError:
                state["failed"] = True
                raise

        return call

    def matmul(original):
        def call(*args, **kwargs):
            result = original(*args, **kwargs)
            return result + 1 if state["failed"] and result.dtype == FP32 else result

        return call

    return Replaced((torch, "empty", empty), (torch, "matmul", matmul))


def grad_lost(original):
    # The second backward() replaces .grad instead of adding to it.
    def call(self, *args, **kwargs):
        original(self, *args, **kwargs)
        for node in _leaves(self.grad_fn):
            if node.grad is not None:
                node.grad = node.grad / 2

    return call


def _leaves(node, seen=None):
    seen = set() if seen is None else seen
    if node is None or node in seen:
        return
    seen.add(node)
    if hasattr(node, "variable"):
        yield node.variable
    for following, _ in node.next_functions:
        yield from _leaves(following, seen)


def dataset(change):
    data = smoke_device.part("smoke_loading").smoke_dataset.Numbers
    return lambda: InWorkers((data, "__getitem__", change))


def sampler(change):
    return patched(torch.utils.data.SequentialSampler, "__iter__", change)


def last_byte_lost(out):
    out.view(-1)[-1] ^= 255
    return out


FAULTS = [
    # name, tests that must see it, device, context manager
    ("add: one element wrong", "arithmetic", CPU, operator("aten::add", one_wrong)),
    ("sub: NaN", "arithmetic", CPU, operator("aten::sub", nan)),
    ("mul: written to nowhere", "arithmetic", CPU, operator("aten::mul", unwritten=True)),
    ("div: three digits only", "arithmetic", CPU, operator("aten::div", tf32)),
    ("sqrt: last row lost", "arithmetic", CPU, operator("aten::sqrt", last_row_lost)),
    ("zeros: not cleared", "arithmetic", CPU, patched(torch, "zeros", not_fp64(lambda r: r + 3))),
    (
        "integer product overflows at 16 bits",
        "arithmetic",
        CPU,
        operator("aten::mul", lambda o: o.to(torch.int16).to(torch.int32), (torch.int32,)),
    ),
    ("remainder has the sign of the dividend", "arithmetic", CPU, patched(torch, "remainder", lambda o: torch.fmod)),
    ("copy: one bit flipped on the way there", "copy-pageable", CPU, operator("aten::copy_", flipped_bit, (U8,))),
    (
        "copy: one bit flipped from device to device",
        "copy-pageable",
        CPU,
        operator("aten::copy_", flipped_bit, (U8,), skip=1),
    ),
    (
        "copy: one bit flipped, large blocks only",
        "copy-pageable",
        CPU,
        operator("aten::copy_", lambda o: flipped_bit(o) if o.numel() > 100000 else o, (U8,)),
    ),
    ("copy: two bytes change places", "copy-pageable", CPU, operator("aten::copy_", swapped, (U8,))),
    ("copy: last byte stays behind", "copy-pageable", CPU, operator("aten::copy_", last_byte_lost, (U8,))),
    ("copy back: one bit flipped", "copy-pageable", CPU, operator("aten::copy_", flipped_bit, (U8,), skip=2)),
    (
        "copy: nothing arrives",
        "copy-pageable",
        CPU,
        patched(torch.Tensor, "copy_", lambda o: lambda self, *a, **k: self),
    ),
    (
        "transposing copy forgets to transpose",
        "copy-pageable",
        CPU,
        patched(
            torch.Tensor, "t", lambda o: lambda self: self.reshape(self.shape[::-1]) if self.dtype == FP32 else o(self)
        ),
    ),
    ("pinned copy: one bit flipped", "copy-pinned", GPU, operator("aten::copy_", flipped_bit, (U8,), skip=3)),
    (
        "pinned memory is not pinned",
        "copy-pinned",
        GPU,
        patched(torch.Tensor, "is_pinned", lambda o: lambda self, *a: False),
    ),
    ("exp in bfloat16", "elementwise", CPU, operator("aten::exp", as_bf16)),
    ("log: NaN", "elementwise", CPU, operator("aten::log", nan)),
    ("sin: 1e-5 off", "elementwise", CPU, operator("aten::sin", lambda o: o + 1e-5)),
    ("tanh: result of the call before", "elementwise", CPU, operator("aten::tanh", unwritten=True)),
    ("relu lets a negative number pass", "elementwise", CPU, operator("aten::relu", lambda o: o - 0.01 * (o == 0))),
    ("isnan sees none", "elementwise", CPU, patched(torch, "isnan", lambda o: torch.zeros_like)),
    ("sum swallows NaN", "elementwise", CPU, operator("aten::sum", lambda o: torch.nan_to_num(o))),
    ("gather: one element wrong", "indexing", CPU, operator("aten::gather", one_wrong)),
    ("index_add loses one addition", "indexing", CPU, operator("aten::index_add_", one_wrong)),
    ("scatter leaves one place unwritten", "indexing", CPU, operator("aten::scatter_", nan)),
    ("cumsum in half precision", "indexing", CPU, operator("aten::cumsum", lambda o: o.half().float())),
    ("sort: two out of order", "indexing", CPU, patched(torch, "sort", wrong_order)),
    (
        "sum forgets the last element",
        "indexing",
        CPU,
        patched(torch, "sum", lambda o: lambda x, *a, **k: o(x[:-1], *a, **k)),
    ),
    ("argmax is one off", "indexing", CPU, operator("aten::argmax", lambda o: o.add_(-1).abs_(), (torch.int64,))),
    ("product: one element wrong", "matmul-fp32", CPU, operator(PRODUCTS, one_wrong)),
    ("product: one element 1% off", "matmul-fp32", CPU, operator(PRODUCTS, slightly_wrong)),
    ("product: NaN", "matmul-fp32", CPU, operator(PRODUCTS, nan)),
    ("product: TF32 although fp32 was asked for", "matmul-fp32", CPU, operator(PRODUCTS, inputs=tf32)),
    ("product: bfloat16 although fp32 was asked for", "matmul-fp32", CPU, operator(PRODUCTS, inputs=as_bf16)),
    ("product: written to nowhere", "matmul-fp32", CPU, operator(PRODUCTS, unwritten=True)),
    ("product: last row lost", "matmul-fp32", CPU, operator(PRODUCTS, last_row_lost)),
    ("batched product: one element wrong", "matmul-fp32", CPU, operator("aten::bmm", one_wrong)),
    ("linear: weight gradient dropped", "matmul-fp32", CPU, lambda: lost_gradient("linear", 1)),
    ("linear: bias gradient dropped", "matmul-fp32", CPU, lambda: lost_gradient("linear", 2)),
    ("product in fp16: one element wrong", "matmul-fp16", CPU, operator(PRODUCTS, one_wrong, (FP16,))),
    (
        "product in fp16: result of the call before",
        "matmul-fp16",
        CPU,
        operator(PRODUCTS, unwritten=True, dtypes=(FP16,)),
    ),
    ("product in bf16: NaN", "matmul-bf16", CPU, operator(PRODUCTS, nan, (BF16,))),
    ("product in bf16: input gradient dropped", "matmul-bf16", CPU, lambda: lost_gradient("linear", 0)),
    ("product with TF32 allowed, in fp8", "matmul-tf32", GPU, operator(PRODUCTS, inputs=four_bits)),
    ("product with TF32 allowed: one element wrong", "matmul-tf32", GPU, operator(PRODUCTS, one_wrong)),
    (
        "fp16 product on a GPU, sums in fp16",
        "matmul-fp16",
        GPU,
        operator(PRODUCTS, lambda o: o * (1 + 2.0**-8), (FP16,)),
    ),
    ("convolution: one element wrong", "conv2d-fp32", CPU, operator(CONV, one_wrong)),
    ("convolution: NaN", "conv2d-fp32", CPU, operator(CONV, nan)),
    ("convolution: TF32 although fp32 was asked for", "conv2d-fp32", CPU, operator(CONV, inputs=tf32)),
    ("convolution: result of the call before", "conv2d-fp32", CPU, operator(CONV, unwritten=True)),
    ("convolution: gradient of the input, one element wrong", "conv2d-fp32", CPU, operator(CONV_BACK, one_wrong)),
    ("convolution: gradient of the weight dropped", "conv2d-fp32", CPU, operator(CONV_BACK, zeros, place=1)),
    ("convolution: gradient of the weight, TF32", "conv2d-fp32", CPU, operator(CONV_BACK, inputs=tf32)),
    (
        "convolution: gradient of the bias, one dropped",
        "conv2d-fp32",
        CPU,
        operator(CONV_BACK, dropped_element, place=2),
    ),
    ("convolution in fp16: one element wrong", "conv2d-fp16", CPU, operator(CONV, one_wrong, (FP16,))),
    (
        "convolution in bf16: gradient of the weight stale",
        "conv2d-bf16",
        CPU,
        operator(CONV_BACK, unwritten=True, place=1, dtypes=(BF16,)),
    ),
    ("convolution with TF32 allowed: NaN", "conv2d-tf32", GPU, operator(CONV, nan)),
    ("convolution with TF32 allowed, in fp8", "conv2d-tf32", GPU, operator(CONV, inputs=four_bits)),
    ("batch norm: one element wrong", "batch-norm", CPU, operator(BN, slightly_wrong)),
    ("batch norm: the other variance", "batch-norm", CPU, patched(F, "batch_norm", unbiased_variance)),
    ("batch norm: running mean not updated", "batch-norm", CPU, lambda: frozen_statistics(1)),
    ("batch norm: running variance not updated", "batch-norm", CPU, lambda: frozen_statistics(2)),
    ("batch norm: gradient of the input, TF32", "batch-norm", CPU, operator(BN_BACK, tf32)),
    ("batch norm: gradient of the weight dropped", "batch-norm", CPU, operator(BN_BACK, zeros, place=1)),
    ("layer norm: NaN", "layer-norm", CPU, operator(LN, nan)),
    ("layer norm: TF32", "layer-norm", CPU, operator(LN, tf32)),
    ("layer norm: gradient of the input without its mean", "layer-norm", CPU, operator(LN_BACK, lambda o: o + 1e-3)),
    ("layer norm: gradient of the bias, one dropped", "layer-norm", CPU, operator(LN_BACK, dropped_element, place=2)),
    ("softmax: rows sum to 1.001", "softmax", CPU, operator("aten::_softmax", lambda o: o * 1.001)),
    ("softmax: gradient dropped", "softmax", CPU, operator("aten::_softmax_backward_data", zeros)),
    ("log-softmax: TF32", "softmax", CPU, operator("aten::_log_softmax", tf32)),
    (
        "cross entropy: gradient at the wrong class",
        "softmax",
        CPU,
        operator("aten::_log_softmax_backward_data", lambda o: o.roll(1, -1)),
    ),
    ("attention: mask ignored", "attention-math", CPU, patched(F, "scaled_dot_product_attention", mask_ignored)),
    ("attention: scale 5% off", "attention-math", CPU, patched(F, "scaled_dot_product_attention", scale_forgotten)),
    (
        "attention: gradient of the value dropped",
        "attention-math",
        CPU,
        lambda: lost_gradient("scaled_dot_product_attention", 2),
    ),
    ("flash attention: result of the call before", "attention-flash", CPU, operator(FLASH, unwritten=True)),
    ("flash attention: NaN", "attention-flash", CPU, operator(FLASH, nan)),
    (
        "flash attention: one key gradient wrong",
        "attention-flash",
        CPU,
        operator(FLASH + "_backward", dropped_element, place=1),
    ),
    (
        "autograd: gradient of tanh, one dropped",
        "autograd",
        CPU,
        operator("aten::tanh_backward", dropped_element, (torch.float64,)),
    ),
    (
        "autograd: gradient of the sigmoid 1% off",
        "autograd",
        CPU,
        operator("aten::sigmoid_backward", slightly_wrong, (torch.float64,)),
    ),
    ("autograd: gradients replace each other", "autograd", CPU, patched(torch.Tensor, "backward", grad_lost)),
    ("autograd: gradient NaN", "autograd", CPU, operator("aten::_softmax_backward_data", nan, (torch.float64,))),
    ("seed ignored", "rng-repeat", CPU, patched(torch, "manual_seed", wrong_seed)),
    ("all seeds the same", "rng-repeat", CPU, patched(torch, "manual_seed", same_seed)),
    ("generator's state not restored", "rng-repeat", CPU, lambda: stuck_state()),
    ("one word of the generator lost", "rng-known", CPU, patched(torch, "manual_seed", one_word_lost)),
    ("seed off by one", "rng-known", CPU, patched(torch, "manual_seed", lambda o: lambda value: o(value + 1))),
    ("Philox with seven rounds", "rng-known", GPU, philox_rand(7)),
    ("rand is biased by 2%", "rng-distribution", CPU, patched(torch, "rand", biased_rand)),
    (
        "rand repeats itself",
        "rng-distribution",
        CPU,
        patched(torch, "rand", not_fp64(lambda r: r[: r.numel() // 2].repeat(2))),
    ),
    (
        "rand has eight bits",
        "rng-distribution",
        CPU,
        patched(torch, "rand", not_fp64(lambda r: (r * 256).floor() / 256)),
    ),
    ("rand leaves NaN", "rng-distribution", CPU, patched(torch, "rand", not_fp64(nan))),
    ("randn 2% too wide", "rng-distribution", CPU, patched(torch, "randn", not_fp64(lambda r: r * 1.02))),
    ("randn without tails", "rng-distribution", CPU, patched(torch, "randn", not_fp64(lambda r: r.clamp(-3, 3)))),
    (
        "randint never gives the last number",
        "rng-distribution",
        CPU,
        patched(
            torch, "randint", lambda o: lambda *a, **k: o(*a, **k).clamp(max=48) if a[:2] == (-50, 50) else o(*a, **k)
        ),
    ),
    (
        "bernoulli 1% off",
        "rng-distribution",
        CPU,
        patched(torch.Tensor, "bernoulli_", lambda o: lambda self, p: o(self, p + 0.01)),
    ),
    (
        "dropout does not scale",
        "rng-distribution",
        CPU,
        patched(F, "dropout", lambda o: lambda x, p, t: (o(x, p, t) != 0).float()),
    ),
    (
        "randperm gives a number twice",
        "rng-distribution",
        CPU,
        patched(torch, "randperm", lambda o: lambda *a, **k: o(*a, **k).clamp(min=1)),
    ),
    (
        "randperm leaves everything in place",
        "rng-distribution",
        CPU,
        patched(torch, "randperm", lambda o: lambda n, **k: torch.arange(n)),
    ),
    (
        "a stream does not wait for an event",
        "streams-events",
        GPU,
        patched(PretendedGpu, "order_kept", lambda o: False),
    ),
    ("an event's clock stands still", "streams-events", GPU, lambda: stopped_clock()),
    ("too large a request is granted", "out-of-memory", CPU, patched(torch, "empty", granted)),
    ("too large a request is an odd error", "out-of-memory", CPU, patched(torch, "empty", odd_error)),
    ("wrong products after running out of memory", "out-of-memory", CPU, broken_after_error),
    ("from_numpy copies", "numpy-bridge", CPU, patched(torch, "from_numpy", lambda o: lambda a: o(a).clone())),
    ("numpy not available", "numpy-bridge", CPU, patched(torch, "from_numpy", lambda o: unavailable)),
    (
        "numpy() of another dtype",
        "numpy-bridge",
        CPU,
        patched(torch.Tensor, "numpy", lambda o: lambda self: o(self).astype("float64")),
    ),
    (
        "a worker's sample is wrong",
        "dataloader",
        CPU,
        dataset(lambda o: lambda self, i: o(self, i)[:3] + (o(self, i)[3] + (i == 13),)),
    ),
    ("samples out of order", "dataloader", CPU, sampler(lambda o: lambda self: reversed(range(len(self.data_source))))),
    ("a sample is missing", "dataloader", CPU, sampler(lambda o: lambda self: iter(range(len(self.data_source) - 1)))),
    ("a worker dies", "dataloader", CPU, dataset(lambda o: lambda self, i: os._exit(3) if i == 9 else o(self, i))),
    ("a worker raises", "dataloader", CPU, dataset(lambda o: lambda self, i: o(self, i // (i - 5)))),
    (
        "no workers start",
        "dataloader",
        CPU,
        patched(
            torch.utils.data.DataLoader,
            "__init__",
            lambda o: lambda self, *a, **k: o(self, *a, **{**k, "num_workers": 0, "timeout": 0}),
        ),
    ),
    ("nms forgets a box", "torchvision-nms", CPU, operator("torchvision::nms", lambda o: o[:-1], (torch.int64,))),
    (
        "nms gives the boxes in another order",
        "torchvision-nms",
        CPU,
        operator("torchvision::nms", lambda o: o.flip(0), (torch.int64,)),
    ),
    (
        "nms suppresses nothing",
        "torchvision-nms",
        CPU,
        operator("torchvision::nms", lambda o: torch.arange(50), (torch.int64,)),
    ),
    ("roi_align: one element wrong", "torchvision-roi-align", CPU, operator("torchvision::roi_align", slightly_wrong)),
    ("roi_align: NaN", "torchvision-roi-align", CPU, operator("torchvision::roi_align", nan)),
    (
        "torchvision does not import",
        "torchvision-import",
        CPU,
        lambda: absent_module("torchvision", "torchvision.extension"),
    ),
]


def unavailable(array):
    raise RuntimeError("Numpy is not available")


class lost_gradient(Replaced):
    """One argument of a function of torch.nn.functional gets a gradient of zeros."""

    def __init__(self, name, place):
        def make(original):
            def call(*args, **kwargs):
                args = list(args)
                if args[0].dtype != torch.float64 and args[place].requires_grad:
                    changed = args[place] * 1.0
                    changed.register_hook(torch.zeros_like)
                    args[place] = changed
                return original(*args, **kwargs)

            return call

        super().__init__((F, name, make))


class frozen_statistics(Replaced):
    """Batch norm computes with a copy of one running statistic."""

    def __init__(self, place):
        def make(original):
            def call(*args, **kwargs):
                args = list(args)
                if args[0].dtype != torch.float64 and kwargs.get("training"):
                    args[place] = args[place].clone()
                return original(*args, **kwargs)

            return call

        super().__init__((F, "batch_norm", make))


class stuck_state(Replaced):
    """set_state() of a generator does nothing."""

    def __init__(self):
        class Generator:
            def __init__(self, device=None):
                self.real = RealGenerator()

            def set_state(self, state):
                pass

            def __getattr__(self, name):
                return getattr(self.real, name)

        RealGenerator, real_rand = torch.Generator, torch.rand
        super().__init__(
            (torch, "Generator", lambda original: Generator),
            (
                torch,
                "rand",
                lambda original: (
                    lambda *a, **k: real_rand(
                        *a, **{**k, "generator": k["generator"].real} if hasattr(k.get("generator"), "real") else k
                    )
                ),
            ),
        )


class stopped_clock:
    """Events that say no time has passed."""

    hits = 1

    def __enter__(self):
        self.original = PretendedGpu.__init__

        def init(gpu):
            self.original(gpu)
            gpu.Event.elapsed_time = lambda event, other: 0.0

        PretendedGpu.__init__ = init
        return self

    def __exit__(self, *unused):
        PretendedGpu.__init__ = self.original


class absent_module:
    """A package is imported afresh and one of its modules is missing."""

    hits = 1

    def __init__(self, package, module):
        self.package, self.module = package, module

    def __enter__(self):
        self.kept = {n: m for n, m in sys.modules.items() if n.split(".")[0] == self.package}
        for name in self.kept:
            del sys.modules[name]
        sys.modules[self.module] = None
        return self

    def __exit__(self, *unused):
        for name in [n for n in sys.modules if n.split(".")[0] == self.package]:
            del sys.modules[name]
        sys.modules.update(self.kept)


# --- running them -----------------------------------------------------------------------------------------------


def judge(device, seed, level=1, only=()):
    """The checks of one run in this process, as the payload reports them."""
    events = []
    words = ["--device", device, "--seed", str(seed), "--level", str(level), "--limit", "100000"]
    options = smoke_device.arguments(words + [word for name in only for word in ("--only", name)])
    kept, smoke_device.emit = smoke_device.emit, lambda stage, **values: events.append(dict(values, stage=stage))
    try:
        smoke_device.run_all(options, smoke_device.wanted(options), [device], pretended if device == GPU else None)
    finally:
        smoke_device.emit = kept
    return [event for event in events if event["stage"] == "check"]


def run(seed, wanted=""):
    for name, test, device, make in FAULTS:
        if wanted not in name:
            continue
        with contextlib.ExitStack() as stack:
            if device == GPU:
                stack.enter_context(_pretend_pinning())
            fault = stack.enter_context(make())
            checks = judge(device, seed, only=(test,))
            hits = fault.hits
        (check,) = checks
        print(
            json.dumps(
                {"fault": name, "test": test, "status": check["status"], "detail": check["detail"], "hits": hits}
            ),
            flush=True,
        )


PRETENDED = (
    "copy-pinned",
    "matmul-*",
    "conv2d-*",
    "batch-norm",
    "layer-norm",
    "softmax",
    "rng-repeat",
    "streams-events",
    "out-of-memory",
)


def sound(first, count, level):
    """The healthy machine must pass, whatever the seed; so must the GPU-only tests on the pretended GPU."""
    passed, skipped = {}, {}
    for seed in range(first, first + count):
        checks = judge(CPU, seed, level)
        with _pretend_pinning():
            checks += judge(GPU, seed, level, PRETENDED)
        with philox_rand(10)():
            checks += judge(GPU, seed, only=("rng-known",))
        for check in checks:
            key = check["name"] + "@" + check["device"]
            if check["status"] == "passed":
                passed[key] = passed.get(key, 0) + 1
            elif check["status"] == "skipped":
                skipped[key] = check["detail"]
            else:
                print(
                    json.dumps({"seed": seed, "check": key, "status": check["status"], "detail": check["detail"]}),
                    flush=True,
                )
    print(json.dumps({"passed": passed, "skipped": skipped}), flush=True)


if __name__ == "__main__":
    command = sys.argv[1]
    if command == "LIST":
        print("\n".join(name for name, *_ in FAULTS))
    elif command == "RUN":
        run(int(sys.argv[2]), *sys.argv[3:])
    else:
        sound(int(sys.argv[2]), int(sys.argv[3]), int((sys.argv + ["1"])[4]))
