"""Smoke tests of the kernels that training lives on: products, convolution, normalisation, softmax.

Products and convolutions are tried twice. Once with small whole numbers, where every partial sum is exact in the
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


# --- normalisation and softmax ----------------------------------------------------------------------------------


def batch_norm(ctx):
    """Training mode: output, gradients, running mean and variance; then evaluation mode."""
    n, channels = 6 * 7 * 8, 5
    x, x64 = ctx.put(2.0 * ctx.normal(6, channels, 7, 8) + 1.0)
    w, w64 = ctx.put(ctx.uniform(0.5, 1.5, channels))
    b, b64 = ctx.put(ctx.normal(channels))
    g, g64 = ctx.put(ctx.normal(6, channels, 7, 8))
    mean, mean64 = ctx.put(ctx.normal(channels))
    variance, variance64 = ctx.put(ctx.uniform(0.5, 1.5, channels))
    leaves = [item.detach().requires_grad_() for item in (x, w, b)]
    reference = [item.clone().requires_grad_() for item in (x64, w64, b64)]
    ctx.poison_pool(x.shape)
    y = F.batch_norm(leaves[0], mean, variance, leaves[1], leaves[2], training=True, momentum=0.25)
    flow_back(y, g)
    with one_thread():
        want = F.batch_norm(reference[0], mean64, variance64, reference[1], reference[2], training=True, momentum=0.25)
        flow_back(want, g64)
    worst = _norm_compare(leaves, reference, y, want, x64, g64, w64.reshape(1, -1, 1, 1), (0, 2, 3), n)
    tolerance = _sum_level(n)
    worst.append(compare("running mean", mean, mean64, tolerance * 4))
    worst.append(compare("running variance", variance, variance64, tolerance * (variance64 + 4)))
    with torch.no_grad():
        y = F.batch_norm(x, mean, variance, w, b, training=False)
        want = F.batch_norm(x64, mean64, variance64, w64, b64, training=False)
    worst.append(compare("evaluation mode", y, want, tolerance * (want.abs() + 4)))
    return share(*worst)


def _sum_level(n):
    """Relative error of a sum of n terms in fp32 and the few roundings around it: 8 * sqrt(n) * u.

    The probabilistic bound lambda * sqrt(n) * u fails with probability 2 exp(-lambda**2 / 2), which is 3e-14 for 8,
    and is far from being reached, since no library sums n terms one after the other. These kernels run on ordinary
    adders that round, so no allowance for cutting is needed.
    """
    return 8 * (n + 8) ** 0.5 * UNIT["fp32"]


@alone
def _norm_compare(leaves, reference, y, want, x64, g64, weight, axes, n):
    """y = (x - mean) / sigma * w + b. Mean and variance are sums of n terms, with the error of such a sum: the mean's is
    relative to E|x|, and the variance's to E[x^2] where it is computed as E[x^2] - mean^2. The gradient of x,
    w/sigma * (g - mean(g) - xhat * mean(g*xhat)), inherits both.
    """
    level = _sum_level(n)
    mean = x64.mean(axes, keepdim=True)
    sigma = ((x64 - mean) ** 2).mean(axes, keepdim=True).sqrt()
    second = (x64 ** 2).mean(axes, keepdim=True)
    grown = 1.0 + second / (sigma ** 2)  # how much the variance's relative error grows by cancellation
    hat = ((x64 - mean) / sigma).abs() + second.sqrt() / sigma
    bound = level * grown * (hat * weight.abs() + 1.0) + UNIT["fp32"] * want.detach().abs()
    worst = [compare("output", y, want, bound, torch.float32)]
    flow = g64.abs() * weight.abs()
    spread = flow + flow.mean(axes, keepdim=True) + hat * (flow * hat).mean(axes, keepdim=True)
    names = ("input", "weight", "bias")
    summed = (hat * grown * g64.abs())
    bounds = [level * grown / sigma * spread * 2]
    for name, leaf, right, total in zip(names[1:], leaves[1:], reference[1:], (summed, g64.abs())):
        rest = [axis for axis in range(x64.dim()) if axis not in _kept_axes(right.grad, x64)]
        bounds.append(2 * level * total.sum(rest) + TINY["fp32"])
    for name, leaf, right, allowed in zip(names, leaves, reference, bounds):
        expect(leaf.grad is not None, "gradient of the %s is missing" % name)
        worst.append(compare("gradient of the %s" % name, leaf.grad, right.grad, allowed))
    return worst


def _kept_axes(parameter, x64):
    # Parameters of batch norm go along axis 1 (of 4), of layer norm along the last.
    return (1,) if x64.dim() == 4 else (x64.dim() - 1,)


def layer_norm(ctx):
    """Over the last dimension, at a size that vector kernels like and at an odd one."""
    worst = []
    for width in (256, 131):
        x, x64 = ctx.put(2.0 * ctx.normal(3, 11, width) + 0.5)
        w, w64 = ctx.put(ctx.uniform(0.5, 1.5, width))
        b, b64 = ctx.put(ctx.normal(width))
        g, g64 = ctx.put(ctx.normal(3, 11, width))
        leaves = [item.detach().requires_grad_() for item in (x, w, b)]
        reference = [item.clone().requires_grad_() for item in (x64, w64, b64)]
        ctx.poison_pool(x.shape)
        y = F.layer_norm(leaves[0], (width,), leaves[1], leaves[2])
        flow_back(y, g)
        with one_thread():
            want = F.layer_norm(reference[0], (width,), reference[1], reference[2])
            flow_back(want, g64)
        worst.extend(_norm_compare(leaves, reference, y, want, x64, g64, w64, (-1,), width))
    return share(*worst)


def softmax(ctx):
    """Softmax, log-softmax and cross entropy.

    exp(x - max) is wrong by u*|x - max| from its argument and a few ulps of its own (64 where the device's functions
    are fast ones), the sum of n as every sum, the quotient by u.
    """
    worst = []
    for rows, width in ((17, 257), (3, 2051)):
        x, x64 = ctx.put(3.0 * ctx.normal(rows, width))
        g, g64 = ctx.put(ctx.normal(rows, width))
        target = torch.randint(0, width, (rows,), generator=ctx.random)
        span = float(x64.max() - x64.min())
        functions = 128 if ctx.kind == "mps" else 16
        relative = 2 * ((2 * span + functions) * UNIT["fp32"] + _sum_level(width))
        ctx.poison_pool(x.shape)
        worst.extend(_softmax_pair(ctx, x, x64, g, g64, relative))
        worst.extend(_cross_entropy(ctx, x, x64, target, relative, span))
    return share(*worst)


def _softmax_pair(ctx, x, x64, g, g64, relative):
    worst = []
    for name in ("softmax", "log_softmax"):
        function = getattr(torch, name)
        leaf, reference = x.detach().requires_grad_(), x64.clone().requires_grad_()
        y = function(leaf, dim=1)
        with one_thread():
            want = function(reference, dim=1)
            p = torch.softmax(x64, 1)
        logarithm = name == "log_softmax"
        bound = relative * (1.0 + want.detach().abs() if logarithm else p) + TINY["fp32"]
        worst.append(compare(name, y, want, bound, torch.float32))
        flow_back(y, g)
        with one_thread():
            flow_back(want, g64)
        # softmax: p * (g - sum(p g)); log-softmax: g - p * sum(g). Errors of p and of the sum, relative to |.| sums.
        if logarithm:
            bound = relative * (g64.abs() + 2 * p * g64.abs().sum(1, keepdim=True))
        else:
            bound = 2 * relative * p * (g64.abs() + (p * g64.abs()).sum(1, keepdim=True))
        worst.append(compare(name + ", gradient", leaf.grad, reference.grad, bound + TINY["fp32"]))
    return worst


def _cross_entropy(ctx, x, x64, target, relative, span):
    leaf, reference = x.detach().requires_grad_(), x64.clone().requires_grad_()
    loss = F.cross_entropy(leaf, target.to(ctx.device))
    loss.backward()
    with one_thread():
        want = F.cross_entropy(reference, target)
        want.backward()
    worst = [compare("cross entropy", loss.reshape(1), want.reshape(1), relative * (2.0 + 2 * span), torch.float32)]
    bound = relative * (torch.softmax(x64, 1) + F.one_hot(target, x64.shape[1])) * 2 / x64.shape[0] + TINY["fp32"]
    worst.append(compare("cross entropy, gradient", leaf.grad, reference.grad, bound))
    return worst
