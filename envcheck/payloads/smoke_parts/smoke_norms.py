"""Smoke tests of normalisation and softmax, forward and backward, against fp64."""

import torch
import torch.nn.functional as F

from smoke_support import TINY, UNIT, alone, compare, expect, flow_back, one_thread, share


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
