"""Smoke tests of the kernels that training lives on: products and convolution.

Both are tried twice. Once with small whole numbers, where every partial sum is exact in the
precision asked for, so that one wrong, stale or missing element shows as itself. Once with normal numbers, where the
error bound shows whether the precision asked for was used.
"""

import torch
import torch.nn.functional as F

from smoke_support import (
    DTYPE,
    TINY,
    UNIT,
    Skip,
    Switched,
    alone,
    compare,
    exact,
    expect,
    flow_back,
    gamma,
    lacking,
    one_thread,
    setting,
    share,
)

LOW = ("fp16", "bf16")


def _unsupported(ctx, precision, error):
    """True when the error says that this device has no such kernel in a low precision, which is no fault."""
    if precision not in LOW or (ctx.kind == "cuda" and not ctx.hip):
        return False  # every CUDA build has half precision kernels; bf16 is asked for only where the GPU has it
    return lacking(error)


def _lacks(ctx, precision):
    """Why the device cannot have this precision, "" when it can."""
    if precision == "tf32":
        if ctx.kind != "cuda":
            return "TF32 is a format of NVIDIA and AMD GPUs"
        if ctx.hip:
            return "TF32 on AMD GPUs is another switch"
    if precision == "bf16" and ctx.kind == "cuda" and not ctx.hip:
        major, minor = ctx.backend.get_device_capability(ctx.device)
        if major < 8:
            return "compute capability %d.%d has no bfloat16 hardware" % (major, minor)
    return ""


def _rounding(ctx, precision):
    """(the precision whose rounding the factors may get, a note): the environment can force less than was asked for."""
    if precision == "fp32" and ctx.kind == "cuda" and setting("NVIDIA_TF32_OVERRIDE") == "1":
        return "tf32", "NVIDIA_TF32_OVERRIDE=1 forces TF32"
    if precision == "fp32" and ctx.kind == "cuda" and setting("TORCH_ALLOW_TF32_CUBLAS_OVERRIDE") == "1":
        return "tf32", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE=1 forces TF32"
    if precision == "fp32" and ctx.kind == "cpu":
        for name in ("ONEDNN_DEFAULT_FPMATH_MODE", "DNNL_DEFAULT_FPMATH_MODE"):
            mode = setting(name).upper()
            if mode not in ("", "STRICT"):
                return "bf16", "%s=%s lowers fp32" % (name, mode)
    return precision, ""


def _factor_unit(precision):
    # Error of one factor before it is multiplied: nothing in fp32; in fp16 and bf16 the factors are exact as given.
    return {"tf32": UNIT["tf32"], "bf16": UNIT["bf16"]}.get(precision, 0.0)


def _switches(precision):
    allowed = precision == "tf32"
    return Switched(
        (torch.backends.cuda.matmul, "allow_tf32", allowed),
        (torch.backends.cudnn, "allow_tf32", allowed),
        # Sums of halves in fp16 (split-K) are allowed by default; the bound below is for sums in fp32.
        (torch.backends.cuda.matmul, "allow_fp16_reduced_precision_reduction", False),
        (torch.backends.cuda.matmul, "allow_bf16_reduced_precision_reduction", False),
    )


def _guarded(ctx, precision, body):
    """Runs a test of one precision: skipped with the reason where the device has none."""
    reason = _lacks(ctx, precision)
    if reason:
        raise Skip(reason)
    asked, note = _rounding(ctx, precision)
    try:
        with _switches(precision):
            detail = body(ctx, precision, asked)
            ctx.synchronize()
    except (RuntimeError, TypeError) as error:
        if _unsupported(ctx, precision, error):
            raise Skip("no such kernel in this build: " + str(error).splitlines()[0][:160])
        raise
    return detail + ("; " + note if note else "")


# --- products ---------------------------------------------------------------------------------------------------


def matmul_fp32(ctx):
    """TF32 off: rounding of TF32's size is a failure."""
    return _guarded(ctx, "fp32", _matmul)


def matmul_tf32(ctx):
    """TF32 allowed: faster, and good to about three digits."""
    return _guarded(ctx, "tf32", _matmul)


def matmul_fp16(ctx):
    """Half precision."""
    return _guarded(ctx, "fp16", _matmul)


def matmul_bf16(ctx):
    """bfloat16."""
    return _guarded(ctx, "bf16", _matmul)


def _matmul(ctx, precision, asked):
    for rows, inner, columns in ((128, 128, 128), (67, 111, 45)):
        _exact_products(ctx, precision, rows, inner, columns)
    return share(*_rounded_products(ctx, precision, asked))


def _exact_products(ctx, precision, rows, inner, columns):
    """With factors -1, 0 and 1 no partial sum exceeds 128, which eight bits hold: exact in every order of summing."""
    a, a64 = ctx.put(ctx.integers(-1, 1, rows, inner), precision)
    b, b64 = ctx.put(ctx.integers(-1, 1, inner, columns), precision)
    out = ctx.poisoned((rows, columns), DTYPE[precision])
    torch.matmul(a, b, out=out)
    exact("%dx%dx%d whole numbers" % (rows, inner, columns), out, torch.matmul(a64, b64), DTYPE[precision])
    # A second product into the same memory: what the first one left there must not pass for the answer.
    torch.matmul(a.neg(), b, out=out)
    exact("the same with the sign turned", out, -torch.matmul(a64, b64), DTYPE[precision])
    _exact_linear(ctx, precision, rows, inner, columns)


def _exact_linear(ctx, precision, rows, inner, columns):
    values = [
        ctx.integers(-1, 1, *shape) for shape in ((rows, inner), (columns, inner), (columns,), (rows, columns))
    ]
    (x, x64), (w, w64), (b, b64), (g, g64) = [ctx.put(item, precision) for item in values]
    for leaf in (x, w, b):
        leaf.requires_grad_()
    ctx.poison_pool((rows, columns), precision=precision)
    y = F.linear(x, w, b)
    exact("linear layer", y, torch.matmul(x64, w64.t()) + b64, DTYPE[precision])
    flow_back(y, g)
    exact("linear layer, gradient of the input", x.grad, torch.matmul(g64, w64))
    exact("linear layer, gradient of the weight", w.grad, torch.matmul(g64.t(), x64))
    exact("linear layer, gradient of the bias", b.grad, g64.sum(0))


def _rounded_products(ctx, precision, asked):
    """Normal factors under a bound that no correct product can exceed.

    Every product of two factors is wrong by 2*e (e = rounding of a factor) and every sum of n terms by gamma_n, each
    relative to sum |a||b|; so |c - c'| <= (2e + gamma_n) |a||b| + u |c|. Sums run in fp32 on GPUs (2*u: their adders
    may cut), but old CPU builds sum bf16 and fp16 in that very precision. n = 128 keeps the bound of fp32 (about
    1e-5) an order of magnitude below what TF32 (5e-4 per product) makes of the same numbers.
    """
    n = 128
    worst = []
    for batch in ((), (3,)):
        a, a64 = ctx.put(ctx.normal(*(batch + (96, n))), precision)
        b, b64 = ctx.put(ctx.normal(*(batch + (n, 80))), precision)
        out = ctx.poisoned(batch + (96, 80), DTYPE[precision])
        torch.matmul(a, b, out=out)
        with one_thread():
            want = torch.matmul(a64, b64)
        relative = _sum_error(ctx, precision, asked, n)
        bound = relative * torch.matmul(a64.abs(), b64.abs()) + UNIT[_kept(precision)] * want.abs() + TINY[precision]
        worst.append(compare("%d products of normal numbers" % max(batch or (1,)), out, want, bound, DTYPE[precision]))
    return worst


def _kept(precision):
    # The precision a result is stored in.
    return "fp32" if precision == "tf32" else precision


def _sum_error(ctx, precision, asked, n):
    factors = 0.0 if precision in LOW else 2 * _factor_unit(asked)
    if precision in LOW and ctx.kind == "cpu":
        # Roundings of a running sum are as often up as down: 4 * sqrt(n) * u is not exceeded in practice (Higham and
        # Mary, A New Approach to Probabilistic Rounding Error Analysis, 2019). The whole numbers do the finer work.
        return 4 * n ** 0.5 * UNIT[precision]
    return factors + gamma(n, 2 * UNIT["fp32"])


# --- convolution ------------------------------------------------------------------------------------------------


def conv2d_fp32(ctx):
    """TF32 off."""
    return _guarded(ctx, "fp32", _conv2d)


def conv2d_tf32(ctx):
    """TF32 allowed in cuDNN, which is its default."""
    return _guarded(ctx, "tf32", _conv2d)


def conv2d_fp16(ctx):
    """Half precision."""
    return _guarded(ctx, "fp16", _conv2d)


def conv2d_bf16(ctx):
    """bfloat16."""
    return _guarded(ctx, "bf16", _conv2d)


# Winograd's algorithms for 3x3 kernels, which every library uses, pay for their speed with rounding errors: in a
# simulation of F(4x4,3x3) and F(6x6,3x3) in fp32 over 8 channels the largest of 1e5 errors was 5 and 11 times
# u * sqrt(n) * |x|*|w|. 32 leaves room, and TF32 makes errors of several hundred.
WINOGRAD = 32


def _conv2d(ctx, precision, asked):
    worst = []
    for whole in (True, False):
        make = (lambda *shape: ctx.integers(-1, 1, *shape)) if whole else ctx.normal
        worst.extend(_one_convolution(ctx, precision, asked, make, whole, padding=1, stride=1))
    worst.extend(_one_convolution(ctx, precision, asked, ctx.normal, False, padding=2, stride=2))
    return share(*worst)


def _one_convolution(ctx, precision, asked, make, whole, padding, stride):
    x, x64 = ctx.put(make(2, 8, 9, 12), precision)
    w, w64 = ctx.put(make(16, 8, 3, 3), precision)
    b, b64 = ctx.put(make(16), precision)
    reference = [item.clone().requires_grad_() for item in (x64, w64, b64)]
    with one_thread():
        want = F.conv2d(*reference, stride=stride, padding=padding)
        g, g64 = ctx.put(make(*want.shape), precision)
        flow_back(want, g64)
    leaves = [item.detach().requires_grad_() for item in (x, w, b)]
    ctx.poison_pool(want.shape, precision=precision)
    y = F.conv2d(*leaves, stride=stride, padding=padding)
    flow_back(y, g)
    bounds = [0.45] * 4 if whole else _conv_bounds(ctx, precision, asked, x64, w64, b64, g64, stride, padding)
    kind = "whole" if whole else "normal"
    worst = [compare("output (%s numbers)" % kind, y, want, bounds[0] + _stored(precision, want), DTYPE[precision])]
    for place, name in enumerate(("input", "weight", "bias")):
        expect(leaves[place].grad is not None, "gradient of the %s is missing" % name)
        right = reference[place].grad
        allowed = bounds[place + 1] + _stored(precision, right)
        worst.append(compare("gradient of the %s (%s numbers)" % (name, kind), leaves[place].grad, right, allowed))
    return worst


def _stored(precision, want):
    # Rounding of a result to the precision it is kept in; whole numbers below 256 have none.
    return UNIT[_kept(precision)] * want.detach().abs() + TINY[precision]


@alone
def _conv_bounds(ctx, precision, asked, x64, w64, b64, g64, stride, padding):
    """Bounds of output, input, weight and bias gradient: relative error of a sum, times the sum of absolute values.

    With whole numbers the bound is a constant below 1/2 instead: the right answers are whole numbers.
    """
    size = {"output": 8 * 9 + 1, "input": 16 * 9, "weight": g64[:, 0].numel(), "bias": g64[:, 0].numel()}
    absolute = [item.abs().requires_grad_() for item in (x64, w64, b64)]
    scale = F.conv2d(*absolute, stride=stride, padding=padding)
    flow_back(scale, g64.abs())
    scales = [scale.detach()] + [item.grad for item in absolute]
    bounds = []
    for name, magnitude in zip(("output", "input", "weight", "bias"), scales):
        n = size[name]
        if precision in LOW:
            unit = UNIT[precision]
            # Winograd in low precision transforms in that precision, old CPU code sums in it.
            relative = min(2 * unit * n ** 0.5 * (1 if ctx.kind != "cpu" else 2), 1.0)
        else:
            relative = 2 * _factor_unit(asked) + WINOGRAD * n ** 0.5 * UNIT["fp32"]
        bounds.append(relative * magnitude)
    return bounds
