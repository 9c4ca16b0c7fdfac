"""Smoke tests of what training adds: memory formats, mixed precision, checkpoints, 8-bit floats, compilation."""

import os
import shutil
import tempfile

import torch
import torch.nn.functional as F

from smoke_support import Skip, Switched, compare, exact, expect, fetch, first_line, flow_back, lacking, share


def channels_last(ctx):
    """The same whole numbers as in the usual format; whether the convolution keeps the format is told, not judged."""
    x64, w64 = ctx.integers(-1, 1, 3, 8, 10, 12), ctx.integers(-1, 1, 16, 8, 3, 3)
    reference = [x64.clone().requires_grad_(), w64.clone().requires_grad_()]
    want = F.max_pool2d(F.conv2d(*reference, padding=1), 2)
    g64 = ctx.integers(-1, 1, *want.shape)
    flow_back(want, g64)
    with Switched((torch.backends.cudnn, "allow_tf32", False)):
        leaves = [
            item.float().to(ctx.device).contiguous(memory_format=torch.channels_last).requires_grad_() for item in (x64, w64)
        ]
        ctx.poison_pool((3, 16, 10, 12))
        inner = F.conv2d(*leaves, padding=1)
        y = F.max_pool2d(inner, 2)
        flow_back(y, g64.float().to(ctx.device))
    worst = [compare("output", y, want, 0.45, torch.float32)]
    # Ties in a pooling window may fall to either element, so only whole sums of the gradient are certain.
    expect(leaves[0].grad is not None and leaves[1].grad is not None, "a gradient is missing")
    one, two = _without_pooling(ctx, x64, w64, g64)
    worst.append(compare("gradient of the input", one[0], two[0], 0.45))
    worst.append(compare("gradient of the weight", one[1], two[1], 0.45))
    kept = inner.is_contiguous(memory_format=torch.channels_last)
    return share(*worst) + ("" if kept else " (the device does not keep the format)")


def _without_pooling(ctx, x64, w64, g64):
    wide64 = g64.repeat(1, 1, 2, 2)
    reference = [x64.clone().requires_grad_(), w64.clone().requires_grad_()]
    flow_back(F.conv2d(*reference, padding=1), wide64)
    leaves = [item.float().to(ctx.device).contiguous(memory_format=torch.channels_last).requires_grad_() for item in (x64, w64)]
    gradient = wide64.float().to(ctx.device).contiguous(memory_format=torch.channels_last)
    with Switched((torch.backends.cudnn, "allow_tf32", False)):
        flow_back(F.conv2d(*leaves, padding=1), gradient)
    return [leaf.grad for leaf in leaves], [item.grad for item in reference]


# --- checkpoints ------------------------------------------------------------------------------------------------------


def checkpoint(ctx):
    """Weights, moments and a step count, saved from the device and loaded on the CPU and on the device again."""
    model = torch.nn.Sequential(torch.nn.Linear(13, 7), torch.nn.BatchNorm1d(7), torch.nn.Linear(7, 3))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(ctx.normal(*parameter.shape).float())
    model.to(ctx.device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.125)
    model(ctx.normal(5, 13).float().to(ctx.device)).pow(2).sum().backward()
    optimizer.step()
    half = ctx.normal(31).to(torch.float16).to(ctx.device)
    saved = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "half": half, "step": 1, "name": "smoke"}
    before = {name: value.detach().cpu().clone() for name, value in _tensors(saved)}
    safe = _has_weights_only()
    directory = tempfile.mkdtemp(prefix="envcheck-")
    try:
        path = os.path.join(directory, "checkpoint.pt")
        torch.save(saved, path)
        size = os.path.getsize(path)
        for place in ("cpu", str(ctx.device)):
            loaded = torch.load(path, map_location=place, **({"weights_only": True} if safe else {}))
            _same(before, dict(_tensors(loaded)), place)
            expect(loaded["step"] == 1 and loaded["name"] == "smoke", "plain values came back changed")
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    fresh = torch.nn.Sequential(torch.nn.Linear(13, 7), torch.nn.BatchNorm1d(7), torch.nn.Linear(7, 3)).to(ctx.device)
    fresh.load_state_dict(loaded["model"])
    _same({"model." + k: v.detach().cpu() for k, v in model.state_dict().items()}, dict(_tensors({"model": fresh.state_dict()})), "a fresh model")
    return "%d bytes%s" % (size, "" if safe else ", without weights_only (torch %s)" % torch.__version__)


def _has_weights_only():
    import inspect

    return "weights_only" in inspect.signature(torch.load).parameters


def _tensors(value, prefix=""):
    if torch.is_tensor(value):
        yield prefix, value
    elif isinstance(value, dict):
        for key in value:
            for item in _tensors(value[key], "%s.%s" % (prefix, key) if prefix else str(key)):
                yield item
    elif isinstance(value, (list, tuple)):
        for place, inner in enumerate(value):
            for item in _tensors(inner, "%s.%d" % (prefix, place)):
                yield item


def _same(before, after, place):
    expect(sorted(before) == sorted(after), "loaded on %s: other entries than were saved" % place)
    for name, value in before.items():
        got = after[name]
        expect(got.dtype == value.dtype and got.shape == value.shape, "loaded on %s: %s changed dtype or shape" % (place, name))
        expect(torch.equal(got.detach().cpu(), value), "loaded on %s: %s has other values" % (place, name))


# --- mixed precision --------------------------------------------------------------------------------------------------

SCALE = 256.0
"""Start of the scaler: sums of 48 products of -1, 0 and 1, times this, stay below fp16's 65504 and are exact."""


def amp(ctx):
    """One good step, one with an infinity, one good step: what the scaler must do each time, exactly."""
    scaler, dtype = _scaler(ctx)
    rows = 48
    x64, g64 = ctx.integers(-1, 1, rows, 20), ctx.integers(-1, 1, rows, 9)
    w64 = ctx.integers(-1, 1, 9, 20)
    x, g = x64.float().to(ctx.device), g64.float().to(ctx.device)
    w = torch.nn.Parameter(w64.float().to(ctx.device))
    optimizer = torch.optim.SGD([w], lr=0.5)
    gradient64 = torch.matmul(g64.t(), x64)
    norm = float(gradient64.pow(2).sum().sqrt())

    def step(factor):
        optimizer.zero_grad()
        with _autocast(ctx, dtype):
            y = F.linear(x, w)
        expect(y.dtype == dtype, "autocast computed in %s instead of %s" % (y.dtype, dtype))
        scaler.scale((y.float() * g).sum() * factor).backward()
        scaler.unscale_(optimizer)
        if factor == 1.0:
            exact("unscaled gradient", w.grad, gradient64)
        total = torch.nn.utils.clip_grad_norm_([w], 1.0)
        scaler.step(optimizer)
        scaler.update()
        return float(total)

    total = step(1.0)
    expect(abs(total - norm) <= 1e-5 * norm, "norm of the gradient is %r, expected %r" % (total, norm))
    moved64 = w64 - 0.5 * gradient64 / norm
    worst = [compare("weights after a clipped step", w, moved64, 1e-5)]
    expect(scaler.get_scale() == SCALE, "the scale went from %g to %g after a good step" % (SCALE, scaler.get_scale()))
    kept = w.detach().cpu().clone()
    step(float("inf"))
    expect(torch.equal(w.detach().cpu(), kept), "a step with an infinite gradient changed the weights")
    expect(scaler.get_scale() == SCALE / 2, "the scale went from %g to %g after an infinity" % (SCALE, scaler.get_scale()))
    step(1.0)
    worst.append(compare("weights after the next step", w, fetch(kept) - 0.5 * gradient64 / norm, 1e-5))
    return "%s, %s" % (str(dtype).replace("torch.", ""), share(*worst))


def _scaler(ctx):
    """A GradScaler for the device, and the dtype that autocast is to use."""
    options = {"init_scale": SCALE, "growth_interval": 1000}
    modern = getattr(getattr(torch, "amp", None), "GradScaler", None)
    if modern is not None:
        return modern(ctx.kind, **options), torch.bfloat16 if ctx.kind == "cpu" else torch.float16
    if ctx.kind != "cuda":
        raise Skip("torch %s has a GradScaler for CUDA only" % torch.__version__)
    return torch.cuda.amp.GradScaler(**options), torch.float16


def _autocast(ctx, dtype):
    if hasattr(torch, "autocast"):
        return torch.autocast(device_type=ctx.kind, dtype=dtype)
    return torch.cuda.amp.autocast()


# --- 8-bit floats -----------------------------------------------------------------------------------------------------


def _e4m3(code):
    """Value of an 8-bit float with 4 bits of exponent (bias 7), 3 of fraction, no infinities (OCP 8-bit formats, 2023)."""
    sign, exponent, fraction = -1.0 if code & 128 else 1.0, code >> 3 & 15, code & 7
    if exponent == 15 and fraction == 7:
        return float("nan")
    return sign * (fraction / 8.0 * 2.0 ** -6 if exponent == 0 else (1 + fraction / 8.0) * 2.0 ** (exponent - 7))


def fp8(ctx):
    """All 256 codes of e4m3, and a product of whole numbers where the GPU multiplies 8-bit floats."""
    if not hasattr(torch, "float8_e4m3fn"):
        raise Skip("torch %s has no 8-bit floats (they came with 2.1)" % torch.__version__)
    if ctx.kind == "mps" or ctx.hip:
        raise Skip("8-bit floats of this kind of device have another format, or none")
    codes = torch.arange(256, dtype=torch.int64).to(torch.uint8)
    want = torch.tensor([_e4m3(code) for code in range(256)], dtype=torch.float64)
    number = ~torch.isnan(want)
    values = codes.to(ctx.device).view(torch.float8_e4m3fn).float()
    exact("values of all codes", values[number.to(ctx.device)], want[number])
    expect(bool(torch.isnan(values[~number.to(ctx.device)]).all()), "the codes of NaN are numbers")
    back = values.to(torch.float8_e4m3fn).view(torch.uint8).cpu()
    expect(torch.equal(back[number], codes[number]), "a code changed on the way to fp32 and back")
    if ctx.kind != "cuda" or not hasattr(torch, "_scaled_mm"):
        return "all 256 codes"
    major, minor = ctx.backend.get_device_capability(ctx.device)
    if (major, minor) < (8, 9):
        return "all 256 codes; compute capability %d.%d multiplies none" % (major, minor)
    a64, b64 = ctx.integers(-1, 1, 64, 96), ctx.integers(-1, 1, 32, 96)
    a, b = [item.float().to(ctx.device).to(torch.float8_e4m3fn) for item in (a64, b64)]
    one = torch.ones((), device=ctx.device)
    try:
        out = torch._scaled_mm(a, b.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16)
    except RuntimeError as error:
        if lacking(error):
            return "all 256 codes; no product: " + first_line(error)
        raise
    out = out[0] if isinstance(out, tuple) else out
    exact("product of 8-bit floats", out, torch.matmul(a64, b64.t()))
    return "all 256 codes and a product"


# --- compilation ------------------------------------------------------------------------------------------------------


def compiled(ctx):
    """A function of several operations that the compiler fuses, and its gradients, against fp64."""
    if not hasattr(torch, "compile"):
        raise Skip("torch %s has no torch.compile (it came with 2.0)" % torch.__version__)
    if ctx.kind == "mps":
        raise Skip("torch.compile for Metal is a prototype")
    _compiler_there(ctx)
    x, x64 = ctx.put(ctx.normal(33, 70))
    w, w64 = ctx.put(ctx.normal(70, 20) / 8)
    leaves = [x.requires_grad_(), w.requires_grad_()]
    reference = [x64.clone().requires_grad_(), w64.clone().requires_grad_()]
    with _Fresh(), Switched((torch.backends.cuda.matmul, "allow_tf32", False)):
        try:
            y = torch.compile(_layer)(*leaves)
            flow_back(y, torch.ones_like(y))
            ctx.synchronize()
        except Exception as error:
            reason = _cannot_compile(error)
            if reason:
                raise Skip(reason)
            raise
    want = _layer(*reference)
    flow_back(want, torch.ones_like(want))
    # About 20 operations of at most 8 ulps on numbers below 10, and sums of 70 terms below 1: 1e-4 has room, an error
    # of the compiler is one of indices, masks or whole operations and far larger.
    worst = [compare("output", y, want, 1e-4, torch.float32)]
    for name, leaf, right in zip(("input", "weight"), leaves, reference):
        worst.append(compare("gradient of the %s" % name, leaf.grad, right.grad, 3e-4))
    return share(*worst)


class _Fresh(object):
    """Empty caches for a block: what an earlier run compiled must not stand in for a compiler that is broken now."""

    NAMES = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")

    def __enter__(self):
        self.directory = tempfile.mkdtemp(prefix="envcheck-")
        self.before = {name: os.environ.get(name) for name in self.NAMES}
        for name in self.NAMES:
            os.environ[name] = os.path.join(self.directory, name.split("_")[0].lower())

    def __exit__(self, *unused):
        for name, value in self.before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        shutil.rmtree(self.directory, ignore_errors=True)


def _layer(x, w):
    hidden = torch.matmul(F.gelu(x) + torch.sin(x) * 0.5, w)
    centred = hidden - hidden.mean(1, keepdim=True)
    scaled = centred / torch.sqrt((centred * centred).mean(1, keepdim=True) + 0.1)
    return torch.where(scaled > 0, torch.softmax(scaled, 1), torch.tanh(scaled)).cumsum(1)


def _compiler_there(ctx):
    if ctx.kind == "cpu":
        names = (os.environ.get("CXX", ""), "g++", "clang++", "c++", "cl", "icpx")
        if not any(name and shutil.which(name.split()[0]) for name in names):
            raise Skip("torch.compile needs a C++ compiler on the CPU, and none is on PATH")
    elif ctx.kind in ("cuda", "xpu"):
        import importlib.util

        if importlib.util.find_spec("triton") is None:
            raise Skip("torch.compile needs triton on this device, and it is not installed")
        if ctx.kind == "cuda" and not ctx.hip and ctx.backend.get_device_capability(ctx.device)[0] < 7:
            raise Skip("triton needs compute capability 7.0 or newer")


def _cannot_compile(error):
    """Why torch.compile refuses by design, "" when it broke."""
    text = str(error)
    for part in ("not supported on Python", "Windows not yet supported", "not yet supported", "Python 3.12+", "Python 3.11+"):
        if part in text:
            return first_line(error)
    return ""
