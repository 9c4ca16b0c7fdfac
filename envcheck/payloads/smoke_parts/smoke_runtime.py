"""Smoke tests of what works around the kernels: gradients, streams and events, running out of memory, numpy."""

import torch

from smoke_basic import METAL_ABSOLUTE, ULPS_MPS
from smoke_support import UNIT, Skip, Wrong, compare, exact, expect, one_thread, share


def autograd(ctx):
    """Gradients against central differences in fp64, every element of every input.

    With step h the difference quotient is wrong by h**2/6 * f''' and by 2*u*|f|/h from cancellation. h = 2**-16 makes
    that about 4e-11 * f''' and 1e-11 * |f|; derivatives of this function stay below a few hundred, so 1e-6 is safe,
    and an error that matters is far above it. Metal has no fp64: there fp32 gradients are held against the CPU's fp64.
    """
    inputs64 = [0.5 * ctx.normal(3, 2), 0.5 * ctx.normal(2, 3), 0.5 * ctx.normal(3), ctx.uniform(0.5, 1.5, 3, 3)]
    if ctx.kind == "mps" or not _has_fp64(ctx):
        return _autograd_fp32(ctx, inputs64)
    leaves = [item.clone().to(ctx.device).requires_grad_() for item in inputs64]
    value = _function(*leaves)
    gradients = torch.autograd.grad(value, leaves)
    step = 2.0 ** -16
    worst = []
    with torch.no_grad(), one_thread():
        for place, gradient in enumerate(gradients):
            numeric = torch.empty_like(inputs64[place]).reshape(-1)
            for element in range(numeric.numel()):
                above = _shifted(ctx, inputs64, place, element, step)
                below = _shifted(ctx, inputs64, place, element, -step)
                numeric[element] = (above - below) / (2 * step)
            what = "gradient of input %d" % place
            worst.append(compare(what, gradient, numeric.reshape(inputs64[place].shape), 1e-6))
    _accumulation(ctx)
    return share(*worst)


def _has_fp64(ctx):
    try:
        return float(torch.ones(2, dtype=torch.float64, device=ctx.device).sum().cpu()) == 2.0
    except (RuntimeError, TypeError):
        return False  # some Intel GPUs have no fp64


def _function(x, w, b, scale):
    hidden = torch.tanh(torch.matmul(x, w) + b)
    gate = torch.sigmoid(hidden * scale)
    mixed = torch.log(1.0 + torch.exp(hidden)) * gate + torch.sqrt(scale) / (1.0 + hidden * hidden)
    weights = torch.softmax(mixed, dim=1)
    return (weights * torch.sin(mixed)).sum() + (mixed[1:] * mixed[:-1]).mean()


def _shifted(ctx, inputs64, place, element, step):
    moved = inputs64[place].clone()
    moved.reshape(-1)[element] += step
    shifted = [moved if other == place else item for other, item in enumerate(inputs64)]
    return float(_function(*[item.to(ctx.device) for item in shifted]).cpu())


def _autograd_fp32(ctx, inputs64):
    leaves = [item.float().to(ctx.device).requires_grad_() for item in inputs64]
    exact_leaves = [item.float().double().requires_grad_() for item in inputs64]
    got = torch.autograd.grad(_function(*leaves), leaves)
    want = torch.autograd.grad(_function(*exact_leaves), exact_leaves)
    # About 30 operations, each good to ULPS_MPS units in the last place, values and slopes below 10.
    bound = 30 * ULPS_MPS * UNIT["fp32"] * 10 + (METAL_ABSOLUTE if ctx.kind == "mps" else 0.0)
    worst = [compare("gradient of input %d" % i, g, w, bound) for i, (g, w) in enumerate(zip(got, want))]
    _accumulation(ctx)
    return share(*worst) + " (no fp64 here: fp32 against the CPU)"


def _accumulation(ctx):
    """backward() adds to .grad; a tensor used twice gets both parts; detach() stops the flow."""
    x = torch.tensor([2.0, -3.0], device=ctx.device, requires_grad=True)
    for _ in range(2):
        (x * x + x * x.detach()).sum().backward()
    exact("accumulated gradient", x.grad, torch.tensor([12.0, -18.0], dtype=torch.float64))


def streams_events(ctx):
    """A consumer on one stream waits, by an event, for a producer on another that is kept busy."""
    if ctx.kind == "cpu":
        raise Skip("the CPU has no streams")
    if ctx.kind == "mps":
        raise Skip("Metal offers torch one stream only")
    backend = ctx.backend
    if not all(hasattr(backend, name) for name in ("Stream", "Event", "stream", "current_stream")):
        raise Skip("this torch has no streams for %s" % ctx.kind)
    n = 512
    a64 = ctx.integers(-2, 2, n, n)
    a = a64.float().to(ctx.device)
    # A permutation matrix: multiplying by it again and again takes time and stays exact.
    order = torch.randperm(n, generator=ctx.random)
    mix = torch.eye(n)[order].to(ctx.device)
    ctx.synchronize()
    producer, consumer = backend.Stream(), backend.Stream()
    begun, done = backend.Event(enable_timing=True), backend.Event(enable_timing=True)
    producer.wait_stream(backend.current_stream())
    buffer = ctx.poisoned((n, n))
    producer.wait_stream(backend.current_stream())
    rounds = 40
    with backend.stream(producer):
        begun.record(producer)
        work = a
        for _ in range(rounds):
            work = torch.matmul(mix, work)
        buffer.copy_(work)
        done.record(producer)
    consumer.wait_event(done)
    with backend.stream(consumer):
        result = buffer + 1.0
    consumer.synchronize()
    want = a64
    for _ in range(rounds):
        want = want[order]
    exact("result of the waiting stream", result, want + 1.0)
    expect(done.query(), "the event is not done after its stream was waited for")
    elapsed = begun.elapsed_time(done)
    expect(0.0 < elapsed < 60000.0, "elapsed time between two events is %r ms" % elapsed)
    return "%.2f ms between two events" % elapsed


# More than any machine has (1 EiB), yet below 2**63 bytes, so that the allocator and not an overflow check answers.
IMPOSSIBLE = 2 ** 58


def out_of_memory(ctx):
    """Too large a request raises RuntimeError (or MemoryError), and the device computes right after it."""
    a64 = ctx.integers(-3, 3, 48, 48)
    kept = a64.float().to(ctx.device)
    said = None
    try:
        huge = torch.empty(IMPOSSIBLE, dtype=torch.float32, device=ctx.device)
    except (RuntimeError, MemoryError) as error:
        said = "%s: %s" % (type(error).__name__, str(error).splitlines()[0] if str(error) else "")
    else:
        del huge
    if said is None:
        raise Wrong("asking for 2**60 bytes was granted")
    ctx.synchronize()
    exact("a tensor made before", kept, a64)
    exact("a product after the error", torch.matmul(kept, kept.t()), torch.matmul(a64, a64.t()))
    return said[:120]


def numpy_bridge(ctx):
    """from_numpy and numpy() share memory on the CPU, and values travel between an array and the device."""
    try:
        import numpy
    except ImportError as error:
        if type(error).__name__ == "ModuleNotFoundError" and getattr(error, "name", "") == "numpy":
            raise Skip("numpy is not installed")
        raise
    for dtype in ("float32", "float64", "int64", "int32", "uint8", "bool"):
        array = numpy.arange(24).reshape(4, 6).astype(dtype)
        tensor = torch.from_numpy(array)
        expect(str(tensor.dtype) == "torch." + dtype, "from_numpy of %s made %s" % (dtype, tensor.dtype))
        expect(tensor.tolist() == array.tolist(), "from_numpy of %s changed values" % dtype)
        array[2, 3] = 0 if dtype == "bool" else 77
        expect(tensor[2, 3].item() == array[2, 3].item(), "from_numpy of %s does not share memory" % dtype)
        back = tensor.numpy()
        expect(back.dtype == array.dtype and back.shape == array.shape, "numpy() changed dtype or shape of %s" % dtype)
        expect(back.tolist() == array.tolist(), "numpy() of %s changed values" % dtype)
    values = ctx.normal(5, 7).float()
    array = numpy.asarray(values.tolist(), dtype="float32")
    device = torch.as_tensor(array).to(ctx.device)
    exact("array to the device", device, values.double())
    returned = device.cpu().numpy()
    expect(returned.tolist() == values.tolist(), "device to array changed values")
    expect(numpy.asarray(values.t()).tolist() == values.t().tolist(), "a transposed tensor's array has other values")
    return "numpy %s" % numpy.__version__
