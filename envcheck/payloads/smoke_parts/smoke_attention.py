"""Smoke tests of scaled dot product attention, one for each backend of torch."""

import torch
import torch.nn.functional as F

from smoke_support import DTYPE, TINY, UNIT, Skip, Switched, alone, compare, expect, flow_back, gamma, share

BACKENDS = {
    # name here: (member of SDPBackend, flag of torch.backends.cuda.sdp_kernel in torch 2.0 to 2.2, can_use_*)
    "math": ("MATH", "enable_math", ""),
    "flash": ("FLASH_ATTENTION", "enable_flash", "can_use_flash_attention"),
    "efficient": ("EFFICIENT_ATTENTION", "enable_mem_efficient", "can_use_efficient_attention"),
    "cudnn": ("CUDNN_ATTENTION", "enable_cudnn", "can_use_cudnn_attention"),
}


def math(ctx):
    """Products and softmax one after the other."""
    return _attention(ctx, "math")


def flash(ctx):
    """Tiles that never form the whole matrix of scores."""
    return _attention(ctx, "flash")


def efficient(ctx):
    """The memory-efficient kernel (CUTLASS)."""
    return _attention(ctx, "efficient")


def cudnn(ctx):
    """cuDNN's own attention."""
    return _attention(ctx, "cudnn")


def _attention(ctx, backend):
    if not hasattr(F, "scaled_dot_product_attention"):
        raise Skip("torch %s has no scaled_dot_product_attention (it came with 2.0)" % torch.__version__)
    if ctx.kind != "cuda" and backend in ("efficient", "cudnn"):
        raise Skip("this backend is for CUDA devices")
    if ctx.kind == "mps" and backend == "flash":
        raise Skip("Metal has its own attention, which the test of the plain backend covers")
    selected = _select(backend)
    if selected is None:
        raise Skip("torch %s cannot select this backend" % torch.__version__)
    worst = []
    for precision in _precisions(ctx, backend):
        for causal in (False, True):
            worst.extend(_one(ctx, backend, selected, precision, causal))
    return share(*worst) + ", " + " and ".join(_precisions(ctx, backend))


def _precisions(ctx, backend):
    if ctx.kind != "cuda":
        return ("fp32",)
    return ("fp32", "fp16") if backend in ("math", "efficient") else ("fp16",)


def _select(backend):
    """A function that makes the context in which only this backend may run, None when torch offers none."""
    member, flag, _ = BACKENDS[backend]
    modern = getattr(getattr(torch, "nn", None), "attention", None)
    if modern is None:
        try:
            import torch.nn.attention as modern
        except ImportError:
            modern = None
    if modern is not None and hasattr(modern, "sdpa_kernel"):
        choice = getattr(modern.SDPBackend, member, None)
        return None if choice is None else lambda: modern.sdpa_kernel([choice])
    older = getattr(torch.backends.cuda, "sdp_kernel", None)
    if older is None or backend == "cudnn":
        return None
    flags = {"enable_math": False, "enable_flash": False, "enable_mem_efficient": False}
    flags[flag] = True
    return lambda: older(**flags)


def _refusal(ctx, backend, error):
    """True when torch says that no kernel of this backend takes these inputs on this device."""
    text = str(error)
    return "No available kernel" in text or "No viable backend" in text or "was not compiled with" in text


def _must_work(ctx, backend, q, k, v, causal):
    """torch's own word on whether this backend takes these inputs: True, False, or None where it does not say."""
    name = BACKENDS[backend][2]
    ask = getattr(torch.backends.cuda, name, None) if name else None
    params = getattr(torch.backends.cuda, "SDPAParams", None)
    if ctx.kind != "cuda" or ask is None or params is None:
        return None
    for arguments in ((q, k, v, None, 0.0, causal, False), (q, k, v, None, 0.0, causal)):
        try:
            return bool(ask(params(*arguments), False))
        except TypeError:
            continue
    return None


def _one(ctx, backend, selected, precision, causal):
    batch, heads, length, width = 2, 2, 64, 64
    shape = (batch, heads, length, width)
    values = [0.5 * ctx.normal(*shape), 0.5 * ctx.normal(*shape), ctx.normal(*shape), ctx.normal(*shape)]
    (q, q64), (k, k64), (v, v64), (g, g64) = [ctx.put(item, precision) for item in values]
    leaves = [item.detach().requires_grad_() for item in (q, k, v)]
    ctx.poison_pool(shape, precision=precision)
    changes = Switched((torch.backends.cuda.matmul, "allow_tf32", False))
    with changes, selected():
        able = _must_work(ctx, backend, *(leaves + [causal]))
        if able is False:
            raise Skip("torch says that this device or build cannot use it")
        try:
            out = F.scaled_dot_product_attention(*leaves, is_causal=causal)
        except RuntimeError as error:
            if able is not True and _refusal(ctx, backend, error):
                raise Skip(str(error).splitlines()[0][:160])
            raise
        flow_back(out, g)
        ctx.synchronize()
    return _judge(ctx, precision, causal, (q64, k64, v64, g64), out, leaves)


@alone
def _judge(ctx, precision, causal, values, out, leaves):
    """Against the plain formula in fp64.

    Scores s = q.k / sqrt(d): products summed in fp32, but the plain backend scales q and k and keeps s in the given
    precision: |ds| <= (4u + gamma_d) * |q|.|k| / sqrt(d) + u |s|. A softmax of scores that are wrong by ds is wrong
    by exp(2 ds) - 1, relatively; probabilities are kept with u; the sum over n keys adds gamma_n, relative to p |v|.
    Gradients go through the same products again: dv = p^T g, dp = g v^T, ds = p (dp - sum(p dp)), dq = ds k, dk = ds^T q,
    each kept in the given precision, so each adds a few u to the relative error of its terms.
    """
    q, k, v, g = values
    width, length = q.shape[-1], q.shape[-2]
    scale = width ** -0.5
    unit = UNIT[precision]
    sums = gamma(width + length, 2 * UNIT["fp32"])
    scores = torch.matmul(q, k.transpose(-1, -2)) * scale
    size = torch.matmul(q.abs(), k.abs().transpose(-1, -2)) * scale
    if causal:
        hidden = torch.ones(length, length).triu(1).bool()
        scores = scores.masked_fill(hidden, float("-inf"))
        size = size.masked_fill(hidden, 0.0)
    p = torch.softmax(scores, -1)
    slip = ((4 * unit + sums) * size + unit * scores.abs().masked_fill(p == 0, 0.0)).max(-1, keepdim=True)[0]
    relative = torch.expm1(2 * slip) + 8 * unit + 2 * sums + (64 if ctx.kind == "mps" else 16) * UNIT["fp32"]
    want = torch.matmul(p, v)
    bound = relative * torch.matmul(p, v.abs()) + unit * want.abs() + TINY[precision]
    worst = [compare("output%s" % (", causal" if causal else ""), out, want, bound, DTYPE[precision])]
    dp = torch.matmul(g, v.transpose(-1, -2))
    dp_size = torch.matmul(g.abs(), v.abs().transpose(-1, -2))
    flow = p * (dp - (p * dp).sum(-1, keepdim=True))
    flow_size = p * (dp_size + (p * dp_size).sum(-1, keepdim=True)) * (2 * relative + 4 * unit)
    pairs = (
        ("query", torch.matmul(flow, k) * scale, torch.matmul(flow_size, k.abs()) * scale),
        ("key", torch.matmul(flow.transpose(-1, -2), q) * scale, torch.matmul(flow_size.transpose(-1, -2), q.abs()) * scale),
        (
            "value",
            torch.matmul(p.transpose(-1, -2), g),
            torch.matmul((p * (relative + 4 * unit)).transpose(-1, -2), g.abs()),
        ),
    )
    for (name, right, allowed), leaf in zip(pairs, leaves):
        expect(leaf.grad is not None, "gradient of the %s is missing" % name)
        allowed = allowed + 4 * unit * right.abs() + TINY[precision]
        worst.append(compare("gradient of the %s" % name, leaf.grad, right, allowed))
    return worst
