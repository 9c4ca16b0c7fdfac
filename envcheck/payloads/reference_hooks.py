"""Runs somebody's program under hooks that write the hash of every tensor it computes, in the order of computing.

    reference_hooks.py TRACE STEPS FILE.py [args...]        or: TRACE STEPS -m MODULE [args...]

No change to the program: torch's own global hooks see each module's inputs and outputs, and each optimizer step's
gradients and new weights. After STEPS optimizer steps the program is ended. One JSON line for each tensor:
["forward", step, "conv1 (Conv2d) output", hash], ["gradient", step, "conv1.weight", hash], ["weights", ...].
"""
import ctypes
import hashlib
import importlib
import json
import os
import runpy
import sys

import torch


class Trace:
    """Writes one line a tensor; knows modules and parameters by the names they have below the outermost module."""

    def __init__(self, path, steps):
        self.file, self.steps, self.step, self.depth = open(path, "w"), steps, 0, 0
        self.names, self.parameters, self.pid = {}, {}, os.getpid()

    def write(self, kind, name, value):
        if isinstance(value, torch.Tensor):
            self.file.write(json.dumps([kind, self.step + 1, name, digest(value)]) + "\n")
        elif isinstance(value, (tuple, list)):
            for number, item in enumerate(value):
                self.write(kind, "%s %d" % (name, number), item)
        elif isinstance(value, dict):
            for key in value:
                self.write(kind, "%s %s" % (name, key), value[key])

    def learn(self, module):
        """Names of an outermost module's parts."""
        if id(module) not in self.names:
            for name, part in module.named_modules():
                self.names[id(part)] = "%s (%s)" % (name or "the model", type(part).__name__)
            for name, p in module.named_parameters():
                self.parameters.setdefault(id(p), name)

    def before(self, module, inputs):
        if os.getpid() != self.pid:
            return
        if self.depth == 0:
            self.learn(module)
            self.write("forward", self.names.get(id(module), type(module).__name__) + " input", inputs)
        self.depth += 1

    def after(self, module, inputs, output):
        if os.getpid() != self.pid:
            return
        self.depth = max(0, self.depth - 1)
        self.write("forward", self.names.get(id(module), type(module).__name__) + " output", output)

    def each(self, optimizer):
        number = 0
        for group in optimizer.param_groups:
            for p in group["params"]:
                yield self.parameters.get(id(p), "parameter %d" % number), p
                number += 1

    def before_step(self, optimizer, *unused):
        for name, p in self.each(optimizer):
            if p.grad is not None:
                self.write("gradient", name, p.grad)

    def after_step(self, optimizer, *unused):
        for name, p in self.each(optimizer):
            self.write("weights", name, p)
        self.step += 1
        self.file.flush()
        if self.steps and self.step >= self.steps:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(0)


def digest(value):
    """A short hash of the exact bits."""
    value = value.detach()
    if value.layout != torch.strided or value.device.type == "meta":
        return "not strided"
    value = value.resolve_conj().resolve_neg() if hasattr(value, "resolve_neg") else value
    value = value.cpu().contiguous()
    head = ("%s %s" % (value.dtype, tuple(value.shape))).encode()
    return hashlib.sha256(head + ctypes.string_at(value.data_ptr(), value.numel() * value.element_size())).hexdigest()[:16]


def install(trace):
    """Registers the hooks; optimizer steps by wrapping, where this torch has no global hook for them."""
    modules = torch.nn.modules.module
    modules.register_module_forward_pre_hook(trace.before)
    modules.register_module_forward_hook(trace.after)
    optim = importlib.import_module("torch.optim.optimizer")  # newer releases do not show it as an attribute
    if hasattr(optim, "register_optimizer_step_pre_hook"):
        optim.register_optimizer_step_pre_hook(trace.before_step)
        optim.register_optimizer_step_post_hook(trace.after_step)
        return
    plain = optim.Optimizer.__init__

    def wrapped(self, *args, **keywords):
        plain(self, *args, **keywords)
        step = self.step

        def traced(*a, **k):
            trace.before_step(self)
            result = step(*a, **k)
            trace.after_step(self)
            return result

        self.step = traced

    optim.Optimizer.__init__ = wrapped


def main():
    path, steps, program = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
    install(Trace(path, steps))
    if program[0] == "-m":
        sys.argv = program[1:]
        sys.path[0] = os.getcwd()
        runpy.run_module(program[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = program
        sys.path[0] = os.path.dirname(os.path.abspath(program[0]))
        runpy.run_path(program[0], run_name="__main__")


if __name__ == "__main__":
    main()
