"""Ways to break torch for a block, and a pretended GPU: what the lists of faults are made of.

A fault changes what torch's operators return, below autograd (`Operator`), or what a function of torch's Python
surface does (`Replaced`). References are computed in fp64, so faults touch other precisions only.
"""

import contextlib
import sys
import types
from pathlib import Path

import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode

PAYLOADS = Path(__file__).resolve().parents[2] / "envcheck" / "payloads"
sys.path.insert(0, str(PAYLOADS))
import smoke_device

sys.path.remove(str(PAYLOADS))
support = smoke_device.part("smoke_support")
FP32, FP16, BF16, U8 = torch.float32, torch.float16, torch.bfloat16, torch.uint8
CPU, GPU = "cpu", "cuda:0"


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


def operator(*args, **kwargs):
    return lambda: Operator(*args, **kwargs)


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


# --- a pretended GPU --------------------------------------------------------------------------------------------


class Recorder(TorchDispatchMode):
    """Stands for a CUDA graph: the operators of a block, done again with the same memory."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        self.calls.append((func, args, kwargs or {}, result))
        return result

    def replay(self):
        for func, args, kwargs, result in self.calls:
            result.copy_(func(*args, **kwargs))


class Jiterator:
    """Stands for torch.cuda.jiterator, for the one kernel that the smoke test has."""

    def _create_jit_fn(self, code, **defaults):
        return lambda x, y, **given: x * {**defaults, **given}["scale"] + y.abs()


class Nccl:
    """Stands for torch.cuda.nccl."""

    def is_available(self, tensors):
        return True

    def version(self):
        return (2, 99, 0)

    def all_reduce(self, inputs, outputs):
        for output in outputs:
            output.copy_(sum(inputs))


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

        self.Event, self.Stream, self.CUDAGraph = Event, Stream, Recorder
        self.jiterator, self.nccl = Jiterator(), Nccl()

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

    def graph(self, recorder):
        return recorder

    def device_count(self):
        return 3

    free = None
    """Bytes of memory that are free; None = this torch does not tell."""

    def mem_get_info(self, device=None):
        return self.free, 24 << 30

    def get_device_properties(self, device=None):
        return types.SimpleNamespace(name="pretended", total_memory=8 << 30, multi_processor_count=46, is_integrated=0)

    def empty_cache(self):
        self.emptied = True

    def can_device_access_peer(self, one, two):
        return True

    def synchronize(self, device=None):
        self.flush()

    def set_device(self, device):
        pass

    def get_device_capability(self, device=None):
        return (9, 0)


def pretend_pinning():
    return Replaced(
        (torch.Tensor, "pin_memory", lambda original: lambda self, *a: self.clone()),
        (torch.Tensor, "is_pinned", lambda original: lambda self, *a: True),
    )


class PretendedContext(support.Context):
    def peers(self):
        return [self.device] * self.backend.device_count()


def pretended(label, seed, name):
    return PretendedContext(label, seed, name, device=torch.device("cpu"), backend=PretendedGpu())
