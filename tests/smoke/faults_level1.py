"""Faults that the tests of levels 0 and 1 must find: (name, test, device, what makes the context in which it is so)."""

import os
import sys

import torch
import torch.nn.functional as F
from fault_kit import *


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


PRODUCTS = "aten::mm aten::addmm aten::bmm aten::linear aten::matmul aten::baddbmm"
CONV = "aten::convolution aten::mkldnn_convolution aten::_convolution"
CONV_BACK = "aten::convolution_backward"
BN = "aten::native_batch_norm aten::_native_batch_norm_legit aten::_batch_norm_with_update"
BN_BACK = "aten::native_batch_norm_backward aten::batch_norm_backward"
LN, LN_BACK = "aten::native_layer_norm", "aten::native_layer_norm_backward"
FLASH = "aten::_scaled_dot_product_flash_attention_for_cpu"
COPIES = "aten::copy_ aten::_to_copy aten::clone"


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
