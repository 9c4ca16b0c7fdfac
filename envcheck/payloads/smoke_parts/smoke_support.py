"""What every smoke test needs: the device, fresh random input, poisoned memory, comparison under a bound.

A test is a function of one `Context`. It returns a short text about how close it was, raises `Skip` with a reason, or
raises `Wrong` (or anything else: that is a failure too). Comparisons are written so that NaN never passes: what is
asked is always "is the error within the bound", never "is it above".
"""

import functools
import math
import os
import zlib

import torch

# Unit roundoff (half of the distance from 1 to the next number): 24, 11, 8 and 53 significant bits. TF32 keeps 11 bits
# of each factor of a product, and hardware may cut instead of round, which costs one bit more.
UNIT = {
    "fp32": 2.0 ** -24,
    "tf32": 2.0 ** -10,
    "fp16": 2.0 ** -11,
    "bf16": 2.0 ** -8,
    "fp64": 2.0 ** -53,
}
# Smallest step below the normal range: a result that underflows is wrong by at most this much.
TINY = {"fp32": 2.0 ** -126, "tf32": 2.0 ** -126, "fp16": 2.0 ** -24, "bf16": 2.0 ** -126, "fp64": 2.0 ** -1022}
DTYPE = {
    "fp32": torch.float32,
    "tf32": torch.float32,
    "fp16": torch.float16,
    "bf16": torch.bfloat16,
    "fp64": torch.float64,
}


class Skip(Exception):
    """The test makes no sense here; the message says why."""


class Wrong(Exception):
    """The device gave a wrong answer; the message says which."""


def gamma(n, unit):
    """Bound of the relative error of `n` roundings in a row: n*u / (1 - n*u) (Higham, Accuracy and Stability, 3.1).

    It holds whatever the order of a sum is. Callers pass 2*u where an adder may cut instead of round: the adders of
    tensor cores do.
    """
    product = n * unit
    if product >= 1:
        raise ValueError("bound is meaningless for n=%d, u=%g" % (n, unit))
    return product / (1.0 - product)


class Context(object):
    """One device and one test. `kind` is "cpu", "cuda", "xpu" or "mps"; `backend` is torch.cuda and its like."""

    minutes = 5.0
    """How long the tests of endurance go on."""
    memory_bytes = None
    """How much memory they take; None: most of what is free."""
    product_size = None
    """Rows and columns of their matrices; None: what keeps the device busy."""
    batch_size = None
    image_sides = None
    """Of the measurements: images in a batch; sides of images before and after cropping. None: the usual ones."""

    def __init__(self, label, seed, name, device=None, backend=None):
        self.label = label
        self.kind = label.split(":")[0]
        self.device = torch.device(label) if device is None else device
        self.name = name
        self.backend = backend if backend is not None else getattr(torch, self.kind, None)
        # Every test draws from its own stream, so that leaving one out does not change the others.
        self.seed = zlib.crc32(("%d %s %s" % (seed, name, label)).encode("utf-8")) & 0x7FFFFFFF
        self.random = torch.Generator()
        self.random.manual_seed(self.seed)

    def beat(self, share, text):
        """A long test says that it lives, how far it is (0 to 1) and what it does; whoever runs it puts this in place."""

    def measured(self, name, value, unit, **more):
        """A measurement is told; whoever runs the tests puts this in place."""

    @property
    def hip(self):
        """True when "cuda" means ROCm."""
        return self.kind == "cuda" and bool(getattr(torch.version, "hip", None))

    def peers(self):
        """All devices of this kind, this one among them."""
        return [torch.device(self.kind, index) for index in range(self.backend.device_count())]

    def synchronize(self):
        """Waits for the device, so that its errors appear inside the test that made them."""
        wait = getattr(self.backend, "synchronize", None)
        if self.kind != "cpu" and wait is not None:
            wait()

    def normal(self, *shape):
        """Fresh normally distributed fp64 numbers, on the CPU."""
        return torch.randn(*shape, generator=self.random, dtype=torch.float64)

    def uniform(self, low, high, *shape):
        """Fresh uniform fp64 numbers, on the CPU."""
        return torch.rand(*shape, generator=self.random, dtype=torch.float64) * (high - low) + low

    def integers(self, low, high, *shape):
        """Fresh whole fp64 numbers from low to high, both included, on the CPU."""
        return torch.randint(low, high + 1, shape, generator=self.random, dtype=torch.int64).double()

    def put(self, values, precision="fp32"):
        """The values rounded to a precision: (tensor on the device, the same values in fp64 on the CPU)."""
        rounded = values.to(DTYPE[precision])
        return rounded.to(self.device), rounded.double()

    def poisoned(self, shape, dtype=torch.float32):
        """A tensor on the device full of NaN (or of a strange number): an unwritten result shows."""
        fill = float("nan") if dtype.is_floating_point else 0x55
        return torch.full(tuple(shape), fill, dtype=dtype, device=self.device)

    def poison_pool(self, *shapes, **kwargs):
        """Leaves NaN in freed memory of these shapes: an operation that returns unwritten memory returns NaN.

        The caching allocator of a GPU hands such a block out again; on the CPU that is likely, not sure.
        """
        for shape in shapes:
            block = self.poisoned(shape, DTYPE[kwargs.get("precision", "fp32")])
            del block


class one_thread(object):
    """For reference values: on a busy machine each handing over of work to threads costs more than the work."""

    def __enter__(self):
        self.before = torch.get_num_threads()
        torch.set_num_threads(1)

    def __exit__(self, *unused):
        torch.set_num_threads(self.before)


def alone(function):
    """A function that computes with one thread."""

    @functools.wraps(function)
    def call(*args, **kwargs):
        with one_thread():
            return function(*args, **kwargs)

    return call


def fetch(tensor):
    """A tensor's values in fp64 on the CPU."""
    return tensor.detach().to("cpu").double()


def expect(condition, message):
    """Fails with the message unless the condition is true."""
    if not condition:
        raise Wrong(message)


@alone
def compare(what, got, want, bound, dtype=None):
    """Fails unless every element of `got` is within `bound` (fp64 tensor or number) of `want`; NaN never is.

    Returns the largest error as a share of what is allowed.
    """
    expect(tuple(got.shape) == tuple(want.shape), "%s: shape %s, expected %s" % (what, tuple(got.shape), tuple(want.shape)))
    if dtype is not None:
        expect(got.dtype == dtype, "%s: dtype %s, expected %s" % (what, got.dtype, dtype))
    if got.is_complex():
        got, want = _pairs(got), _pairs(want)
        bound = bound.unsqueeze(-1).expand(want.shape) if torch.is_tensor(bound) else bound
    values = fetch(got)
    want = want.detach().double()
    if not torch.is_tensor(bound):
        bound = torch.full_like(want, float(bound))
    error = (values - want).abs()
    good = error <= bound
    if bool(good.all()):
        share = error / bound.clamp(min=1e-300)
        return float(share.max()) if share.numel() else 0.0
    raise Wrong("%s: %s" % (what, _describe(values, want, bound, error, good)))


def _pairs(tensor):
    tensor = tensor.detach()
    return torch.view_as_real(tensor.resolve_conj() if hasattr(tensor, "resolve_conj") else tensor)


def exact(what, got, want, dtype=None):
    """Fails unless every element equals the expected one bit for bit (the sign of zero apart)."""
    compare(what, got, want, 0.0, dtype)


def _describe(values, want, bound, error, good):
    bad = (~good).reshape(-1).nonzero().reshape(-1)
    flat = int(bad[0])
    index = []
    rest = flat
    for size in reversed(values.shape):
        index.insert(0, rest % size)
        rest //= size
    nans = int(torch.isnan(values).sum())
    text = "%d of %d elements wrong" % (len(bad), values.numel())
    if nans:
        text += " (%d NaN)" % nans
    text += ", first at %s: got %.9g, expected %.9g +- %.2g" % (
        index, float(values.reshape(-1)[flat]), float(want.reshape(-1)[flat]), float(bound.reshape(-1)[flat]),
    )
    finite = error[torch.isfinite(error)]
    if finite.numel():
        text += "; largest error %.3g" % float(finite.max())
    return text


def flow_back(output, gradient):
    """output.backward(gradient), by way of a sum whose gradient is exactly that.

    Handing a gradient to backward() makes newer torch import sympy, which costs half a second and proves nothing.
    """
    (output * gradient).sum().backward()


def share(*values):
    """The detail of a passed test."""
    worst = max(values)
    return "largest error %.2g of what is allowed" % worst if math.isfinite(worst) else "largest error unknown"


def setting(name):
    """An environment variable, "" when unset."""
    return os.environ.get(name, "")


# Words with which torch says that a device or build has no such operation.
LACKING = (
    "not implemented",
    "not currently implemented",
    "not supported",
    "nsupported",
    "only supported",
    "is not available",
    "doesn't support",
    "does not support",
)


def lacking(error):
    """True when the error says that the operation does not exist here, rather than that it went wrong."""
    return isinstance(error, NotImplementedError) or any(part in str(error) for part in LACKING)


def first_line(error, most=160):
    """The beginning of an error's text."""
    lines = str(error).strip().splitlines()
    return (lines[0] if lines else type(error).__name__)[:most]


class Switched(object):
    """Sets attributes of torch objects for the time of a block; those that a torch version lacks are left out."""

    def __init__(self, *changes):
        self.changes = changes
        self.before = []

    def __enter__(self):
        for owner, name, value in self.changes:
            try:
                old = getattr(owner, name)
                setattr(owner, name, value)
            except (AttributeError, RuntimeError, AssertionError):
                continue
            self.before.append((owner, name, old))
        return self

    def __exit__(self, *unused):
        for owner, name, old in reversed(self.before):
            try:
                setattr(owner, name, old)
            except (AttributeError, RuntimeError, AssertionError):
                pass
