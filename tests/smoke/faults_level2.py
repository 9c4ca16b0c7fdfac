"""Faults that the tests of level 2 must find."""

import torch
import torch.nn.functional as F
from fault_kit import *

# Level 2 tests that pass on the pretended GPU.
PRETENDED_LEVEL_2 = ("cuda-graph", "runtime-kernel", "peer-copies", "nccl")
C64 = (torch.complex64,)
SCALER = torch.amp.GradScaler


def scaler(name, make):
    return patched(SCALER, name, make)


def changed_checkpoint(change):
    def make(original):
        def call(*args, **kwargs):
            loaded = original(*args, **kwargs)
            change(loaded)
            return loaded

        return call

    return patched(torch, "load", make)


def bit_of_weight(loaded):
    loaded["model"]["0.weight"].view(torch.int32)[2, 3] ^= 1


def moment_as_half(loaded):
    moments = loaded["optimizer"]["state"][0]
    moments["exp_avg"] = moments["exp_avg"].half()


def running_mean_lost(loaded):
    del loaded["model"]["1.running_mean"]


def compiled_wrongly(change):
    """torch.compile that returns another function; no compiler is needed to see whether the test would notice."""
    return patched(torch, "compile", lambda original: lambda function, **options: lambda *args: change(function, *args))


def without_gradient(function, x, w):
    return function(x, w.detach()) + 0.0 * w.sum()


def always_step(original):
    # As if the scaler did not look for infinities.
    return lambda self, optimizer, *args, **kwargs: optimizer.step(*args, **kwargs)


def clamped(original):
    def call(self, index):
        if torch.is_tensor(index) and index.dtype == torch.int64 and self.dtype == FP32 and self.dim() == 1:
            index = index.clamp(max=self.numel() - 1)
        return original(self, index)

    return call


def odd_error(original):
    def call(self, index):
        if torch.is_tensor(index) and index.dtype == torch.int64 and int(index.max()) > 1000:
            raise RuntimeError("CUDA error: unspecified launch failure")
        return original(self, index)

    return call


def stale_replay(original):
    def replay(self):
        for _, _, _, result in self.calls:
            result.copy_(torch.full_like(result, 1.0))

    return replay


def two_of_three(original):
    def call(self, inputs, outputs):
        for output in outputs:
            output.copy_(inputs[0] + inputs[1])

    return call


def one_left_out(original):
    def call(self, inputs, outputs):
        original(self, inputs, outputs[:-1])

    return call


def default_scale(original):
    return lambda self, code, **defaults: lambda x, y, **given: x * defaults["scale"] + y.abs()


PRODUCTS = "aten::mm aten::addmm aten::bmm"
CONV = "aten::convolution aten::mkldnn_convolution aten::_convolution"

FAULTS = [
    ("large product: one element wrong", "matmul-large", CPU, operator(PRODUCTS, one_wrong)),
    ("large product: one tile stale", "matmul-large", CPU, operator(PRODUCTS, lambda o: _tile(o))),
    ("large product: NaN", "matmul-large", CPU, operator(PRODUCTS, nan)),
    ("fft: one element 1% off", "fft", CPU, operator("aten::_fft_c2c", lambda o: _complex(o, slightly_wrong), C64)),
    ("fft: conjugated", "fft", CPU, operator("aten::_fft_c2c", lambda o: o.conj().clone(), C64)),
    ("rfft: TF32", "fft", CPU, operator("aten::_fft_r2c", lambda o: _complex(o, tf32), C64)),
    ("ifft: not divided by n", "fft", CPU, patched(torch.fft, "ifft", lambda original: lambda x: original(x) * 1.01)),
    ("solve: one element wrong", "solve", CPU, operator("aten::_linalg_solve_ex", one_wrong)),
    ("solve: TF32", "solve", CPU, operator("aten::_linalg_solve_ex", tf32)),
    ("inverse: NaN", "solve", CPU, operator("aten::linalg_inv_ex", nan)),
    ("Cholesky: one element dropped", "solve", CPU, operator("aten::linalg_cholesky_ex", dropped_element)),
    (
        "Cholesky: upper half left unwritten",
        "solve",
        CPU,
        operator("aten::linalg_cholesky_ex", lambda o: o + torch.ones_like(o).triu(1)),
    ),
    ("svd: one singular value 1% off", "svd", CPU, operator("aten::_linalg_svd", slightly_wrong, place=1)),
    ("svd: vectors not orthogonal", "svd", CPU, operator("aten::_linalg_svd", slightly_wrong, place=0)),
    (
        "eigenvectors: two exchanged",
        "svd",
        CPU,
        operator("aten::_linalg_eigh", lambda o: o[:, [1, 0, *range(2, o.shape[1])]], place=1),
    ),
    ("QR: R not triangular", "svd", CPU, operator("aten::linalg_qr", lambda o: o + 1e-3, place=1)),
    ("sparse product: one row lost", "sparse", CPU, patched(torch.sparse, "mm", not_fp64(last_row_lost))),
    (
        "sparse: repeated coordinates not added",
        "sparse",
        CPU,
        patched(torch.Tensor, "to_dense", lambda original: lambda self: original(self).clamp(-9, 9)),
    ),
    ("compressed rows: one element wrong", "sparse", CPU, operator("aten::addmm aten::mm aten::_sparse_mm", one_wrong)),
    (
        "complex product: sign of the imaginary part",
        "complex",
        CPU,
        operator("aten::mm", lambda o: o.conj().clone(), C64),
    ),
    (
        "complex product of elements: one wrong",
        "complex",
        CPU,
        operator("aten::mul", lambda o: one_wrong(o.contiguous()), C64),
    ),
    (
        "conjugate forgotten",
        "complex",
        CPU,
        patched(torch, "conj", lambda original: lambda x: x if x.dtype == torch.complex64 else original(x)),
    ),
    ("channels last: read as usual", "channels-last", CPU, operator(CONV, lambda o: o.roll(1, 1))),
    (
        "channels last: gradient of the weight dropped",
        "channels-last",
        CPU,
        operator("aten::convolution_backward", zeros, place=1),
    ),
    ("checkpoint: one bit of a weight", "checkpoint", CPU, changed_checkpoint(bit_of_weight)),
    ("checkpoint: a moment in half precision", "checkpoint", CPU, changed_checkpoint(moment_as_half)),
    ("checkpoint: an entry lost", "checkpoint", CPU, changed_checkpoint(running_mean_lost)),
    ("checkpoint: refused by weights_only", "checkpoint", CPU, patched(torch, "load", lambda original: refused)),
    ("amp: steps in spite of an infinity", "amp", CPU, scaler("step", always_step)),
    (
        "amp: scale never changes",
        "amp",
        CPU,
        scaler("update", lambda original: lambda self: self._per_optimizer_states.clear()),
    ),
    ("amp: gradients not unscaled", "amp", CPU, scaler("unscale_", lambda original: lambda self, optimizer: None)),
    (
        "amp: autocast does nothing",
        "amp",
        CPU,
        patched(torch, "autocast", lambda original: lambda **options: original(**options, enabled=False)),
    ),
    (
        "amp: gradients not clipped",
        "amp",
        CPU,
        patched(torch.nn.utils, "clip_grad_norm_", lambda original: lambda p, m: original(p, 1e9)),
    ),
    (
        "fp8: one code has another value",
        "fp8",
        CPU,
        operator("aten::_to_copy", lambda o: one_wrong(o) if o.numel() == 256 else o),
    ),
    (
        "fp8: rounds towards zero",
        "fp8",
        CPU,
        patched(
            torch.Tensor,
            "float",
            lambda original: (
                lambda self: original(self) * 0.97 if self.dtype == torch.float8_e4m3fn else original(self)
            ),
        ),
    ),
    ("compile: a branch of where exchanged", "compile", CPU, compiled_wrongly(lambda f, x, w: -f(x, w))),
    ("compile: 0.1% off", "compile", CPU, compiled_wrongly(lambda f, x, w: f(x, w) * 1.001)),
    ("compile: gradient of the weight lost", "compile", CPU, compiled_wrongly(without_gradient)),
    ("compile: NaN", "compile", CPU, compiled_wrongly(lambda f, x, w: f(x, w) / 0.0 * 0.0)),
    ("compile: raises", "compile", CPU, compiled_wrongly(lambda f, x, w: missing())),
    ("graph: replay does nothing", "cuda-graph", GPU, patched(Recorder, "replay", lambda original: lambda self: None)),
    ("graph: replay gives the recorded numbers", "cuda-graph", GPU, patched(Recorder, "replay", stale_replay)),
    (
        "run-time kernel: an argument ignored",
        "runtime-kernel",
        GPU,
        patched(Jiterator, "_create_jit_fn", default_scale),
    ),
    (
        "run-time kernel: does not compile",
        "runtime-kernel",
        GPU,
        patched(Jiterator, "_create_jit_fn", lambda original: lambda *a, **k: missing()),
    ),
    ("index out of range is silent", "device-assert", CPU, patched(torch.Tensor, "__getitem__", clamped)),
    ("index out of range is an odd error", "device-assert", CPU, patched(torch.Tensor, "__getitem__", odd_error)),
    (
        "index out of range is an odd error on a GPU",
        "device-assert",
        GPU,
        patched(torch.Tensor, "__getitem__", odd_error),
    ),
    (
        "gloo: the sum is halved",
        "all-reduce",
        CPU,
        patched(torch.distributed, "all_reduce", lambda original: lambda t: (original(t), t.mul_(0.5))),
    ),
    ("peer copy: one bit flipped", "peer-copies", GPU, operator("aten::copy_", flipped_bit, (U8,), skip=3)),
    (
        "peer copy: nothing arrives",
        "peer-copies",
        GPU,
        patched(torch.Tensor, "copy_", lambda original: lambda self, *a, **k: self),
    ),
    ("NCCL: one GPU is not added", "nccl", GPU, patched(Nccl, "all_reduce", two_of_three)),
    ("NCCL: one GPU gets no answer", "nccl", GPU, patched(Nccl, "all_reduce", one_left_out)),
]


def missing():
    raise RuntimeError("nvrtc: error: failed to open libnvrtc-builtins.so.12.8")


def refused(*args, **kwargs):
    raise RuntimeError("Weights only load failed")


def _tile(out):
    out[64:128, 64:128] = out[:64, :64].clone()
    return out


def _complex(out, change):
    pairs = torch.view_as_real(out)
    copy = pairs.contiguous()
    pairs.copy_(change(copy))
    return out
