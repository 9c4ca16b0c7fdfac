"""The reference model (SimpleCNN of train_cifar10.py) in training: images a second, and what AMP and the compiler gain."""

import importlib.util
import os
import sys

import torch
import torch.nn.functional as F

from smoke_support import Skip, Switched, first_line, lacking
from smoke_training import _autocast, _cannot_compile, _compiler_there, _Fresh
from speed_rates import _settings
from speed_timing import measure, tell

BATCH = {"cpu": 32}
BATCH_OF_A_DEVICE = 1024
SMALLEST = 64


def _reference():
    name = "envcheck_train_cifar10"
    if name not in sys.modules:
        here = os.path.dirname(os.path.abspath(__file__))
        spec = importlib.util.spec_from_file_location(name, os.path.join(os.path.dirname(here), "train_cifar10.py"))
        module = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except (ImportError, AttributeError) as error:
            raise Skip("the reference program does not load with torch %s: %s" % (torch.__version__, first_line(error)))
        sys.modules[name] = module
    return sys.modules[name]


def _fitting(ctx):
    """The training with the largest batch that the memory has room for, a quarter at a time."""
    size = ctx.batch_size or BATCH.get(ctx.kind, BATCH_OF_A_DEVICE)
    while True:
        try:
            job = _Training(ctx, size)
            job.step()
            ctx.synchronize()
            return job
        except RuntimeError as error:
            if "memory" not in str(error).lower() or size <= SMALLEST:
                raise
            reason = first_line(error)
        job = None  # outside of the handler, whose traceback holds the tensors
        size = size // 4
        ctx.beat(0.0, "batches of %d: %s" % (size, reason))


class _Training(object):
    """A model, its optimiser and one batch of random images."""

    def __init__(self, ctx, size):
        self.ctx = ctx
        torch.manual_seed(ctx.seed)
        self.size = size
        self.model = _reference().SimpleCNN().to(ctx.device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3, momentum=0.9)
        self.images = torch.randn(self.size, 3, 32, 32, device=ctx.device)
        self.labels = torch.randint(0, 10, (self.size,)).to(ctx.device)

    def step(self, model=None, dtype=None):
        """Forward, backward and the update, in fp32 or under autocast."""
        model = self.model if model is None else model
        self.optimizer.zero_grad()
        if dtype is None:
            loss = F.cross_entropy(model(self.images), self.labels)
        else:
            with _autocast(self.ctx, dtype):
                loss = F.cross_entropy(model(self.images), self.labels)
        loss.backward()
        self.optimizer.step()


def _half(ctx):
    """The precision of autocast: bf16 where the hardware has it, for it needs no scaling of the loss."""
    if ctx.kind == "cuda" and not ctx.hip and ctx.backend.get_device_capability(ctx.device)[0] < 8:
        return torch.float16
    return torch.float16 if ctx.kind == "mps" else torch.bfloat16


def training(ctx):
    """In fp32 (TF32 off, then on where there is any), and with autocast."""
    job = _fitting(ctx)
    threads = torch.get_num_threads()
    told, plain = [], None
    cudnn = torch.backends.cudnn
    variants = [("fp32", None, False), ("tf32", None, True), ("amp", _half(ctx), True)]
    for name, dtype, tf32 in variants:
        if name == "tf32" and not _has_tf32(ctx):
            continue
        if name == "amp" and ctx.kind == "cpu" and not hasattr(torch, "autocast"):
            continue
        with Switched((cudnn, "allow_tf32", tf32), (cudnn, "benchmark", True), *_settings(tf32)):
            try:
                times = measure(ctx, lambda: job.step(dtype=dtype), seconds=1.0, least=3, threads=threads)
            except RuntimeError as error:
                if name == "amp" and lacking(error):
                    told.append("no AMP here: " + first_line(error, 60))
                    continue
                raise
        rate = tell(ctx, "training-" + name, times, job.size, "images/s", batch=job.size)
        told.append("%s %.4g images/s" % (name, rate))
        plain = rate if plain is None else plain
        if name == "amp":
            ctx.measured("amp-gain", float("%.3g" % (rate / plain)), "ratio")
    return ", ".join(told)


def _has_tf32(ctx):
    return ctx.kind == "cuda" and not ctx.hip and ctx.backend.get_device_capability(ctx.device)[0] >= 8


def compiled(ctx):
    """The same step with the model compiled, against the step as it is."""
    if not hasattr(torch, "compile"):
        raise Skip("torch %s has no torch.compile (it came with 2.0)" % torch.__version__)
    if ctx.kind == "mps":
        raise Skip("torch.compile for Metal is a prototype")
    _compiler_there(ctx)
    job = _fitting(ctx)
    threads = torch.get_num_threads()
    dtype = None if ctx.kind == "cpu" else _half(ctx)
    eager = measure(ctx, lambda: job.step(dtype=dtype), seconds=1.0, least=3, threads=threads)
    with _Fresh():
        model = torch.compile(job.model)
        try:
            ctx.beat(0.1, "the compiler is at work")
            job.step(model, dtype)
            ctx.synchronize()
        except Exception as error:
            reason = _cannot_compile(error)
            if reason:
                raise Skip(reason)
            raise
        ctx.beat(0.8, "measuring")
        times = measure(ctx, lambda: job.step(model, dtype), seconds=1.0, least=3, threads=threads)
    rate = tell(ctx, "training-compiled", times, job.size, "images/s", batch=job.size)
    gain = eager.median / times.median
    ctx.measured("compile-gain", float("%.3g" % gain), "ratio")
    return "%.4g images/s, %.3g times the rate without" % (rate, gain)
