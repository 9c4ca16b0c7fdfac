"""Where the time of a training step goes, and what the device could do in it: two tables in Markdown.

    python benchmarks/reference_profile.py [--rounds N] [--device D]        (in a Python that has torch)

The first goes from the plain loop's rate to what the device can give, one change a row. The second takes the step of
the pipeline in memory apart, once contiguous and once channels_last: each part by itself, forward and backward, with
the arithmetic and the least traffic to memory that it needs, and the time that the device's products and copies would
need for that. What the parts do not sum up to is Python, autograd and the loop. Nothing is typed by hand; rounds
alternate between all rows, and medians are printed. It wants a quiet machine.

Page faults: large tensors come from the kernel as fresh memory every time, and each page costs a fault when it is first
written. They are counted for each part, and their price is measured. A device with an allocator of its own has none.
"""

import argparse
import os
import statistics
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "envcheck", "payloads"))
import reference_checks
import reference_rates as R
import reference_ways as W
import torch
import torch.nn.functional as F

try:
    import resource
except ImportError:  # Windows
    resource = None

SAMPLE = 0.05  # seconds that the calls of one sample take together
BYTES = 4


def faults():
    """Pages that this process touched for the first time, so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt if resource else 0


class Row:
    """One line: a call, and what it needs at least."""

    def __init__(self, layout, name, call, flops=0.0, traffic=0.0):
        self.layout, self.name, self.call, self.flops, self.traffic = layout, name, call, flops, traffic
        self.samples, self.faults, self.calls = [], [], 1

    def warm(self, device):
        self.call()
        self.sample(device)
        self.calls = max(1, min(50, int(SAMPLE / self.samples.pop())))
        self.faults.pop()

    def sample(self, device):
        W.wait(device)
        before, begun = faults(), time.perf_counter()
        for _ in range(self.calls):
            self.call()
        W.wait(device)
        self.samples.append((time.perf_counter() - begun) / self.calls)
        self.faults.append((faults() - before) / self.calls)

    @property
    def seconds(self):
        return statistics.median(self.samples)


# -- The parts of a step -----------------------------------------------------------------------------------------------


def forward_and_backward(layout, name, function, x, gradient, wanted, flops=(0.0, 0.0), traffic=(0.0, 0.0)):
    """Two rows: `function(x)` with its graph, and the gradients of `wanted` through that graph."""
    output = function(x)
    gradient = torch.ones_like(output) if gradient is None else gradient
    yield Row(layout, name + " forward", lambda: function(x), flops[0], traffic[0])
    yield Row(layout, name + " backward", lambda: torch.autograd.grad(output, wanted, gradient, retain_graph=True), flops[1], traffic[1])


def like(x, *shape):
    """Random numbers in the layout of x, with a gradient."""
    memory = torch.channels_last if W.is_channels_last(x) else torch.contiguous_format
    return torch.randn(*shape, device=x.device).contiguous(memory_format=memory).requires_grad_()


def parts(layout, memory):
    """All rows of one layout; their sum is the step without Python, autograd and the loop."""
    trainer, model = memory.trainer, memory.trainer.model
    images, labels = memory.batches.train(memory.chunks[0], 0)
    model.train()
    yield Row(layout, "input: crop, flip, normalise", lambda: memory.load(1), traffic=images.numel() * (1 + 8 + BYTES))
    for number, part in enumerate(W.Convolutions(model, images).parts, 1):
        x, y, weight = part.x.numel(), part.gradient.numel(), part.layer.weight.numel()
        gradient_of_x = x if part.x.requires_grad else 0
        yield from forward_and_backward(
            layout, "conv%d" % number, part.layer, part.x, part.gradient, part.wanted, (part.flops(), part.flops(both=True) - part.flops()),
            (BYTES * (x + y + weight), BYTES * (y * (2 if gradient_of_x else 1) + x + 2 * weight + gradient_of_x)),
        )  # fmt: skip
        norm, shape = getattr(model, "bn%d" % number), part.gradient.shape
        x = like(part.x, *shape)
        # Statistics first, then the values: x is read twice forward; x and the gradient are read twice backward.
        wanted = [x, norm.weight, norm.bias]
        yield from forward_and_backward(layout, "BatchNorm %d" % number, norm, x, like(x, *shape).detach(), wanted, traffic=(BYTES * 3 * y, BYTES * 5 * y))
        x = like(part.x, *shape)
        if number < 3:
            # The pool writes a quarter and an index of 8 bytes each; ReLU works on that quarter.
            once = y * BYTES + y / 4 * (3 * BYTES + 8), y * BYTES + y / 4 * (4 * BYTES + 8)
            yield from forward_and_backward(layout, "pool + ReLU %d" % number, lambda x: F.relu(F.max_pool2d(x, 2)), x, None, [x], traffic=once)
        else:
            yield from forward_and_backward(layout, "ReLU + mean", lambda x: F.relu(x).mean((2, 3)), x, None, [x], traffic=(3 * y * BYTES, 4 * y * BYTES))
    x = torch.randn(len(images), 256, device=images.device, requires_grad=True)
    wanted = [x, model.fc.weight, model.fc.bias]
    yield from forward_and_backward(layout, "linear, loss", lambda x: F.cross_entropy(model.fc(x), labels), x, None, wanted)
    weights = sum(p.numel() for p in model.parameters())
    yield Row(layout, "optimizer", trainer.optimizer.step, traffic=BYTES * 5 * weights)


# -- From the plain loop to what the device can give -------------------------------------------------------------------


class Repeated(W.Plain):
    """The plain loop when its batches cost nothing: the same one again and again."""

    def batch(self):
        if not hasattr(self, "kept"):
            self.kept = super().batch()
        return self.kept


def ladder(run, train):
    """(rows, the pipelines by layout)"""
    T, device = run.T, run.device
    pictures = W.Pictures(train, T)
    plain, repeated = W.Plain(pictures, device), Repeated(pictures, device)
    base = ["--batch", str(W.BATCH), "--steps", "1000000"]
    ways = [
        ("plain loop (%s)" % pictures.told, plain.train),
        ("its batches free of charge", repeated.train),
    ]
    pipelines = {}
    for name, more in (
        ("in memory: contiguous, ordinary SGD", []),
        ("+ fused SGD", ["--fused"]),
        ("+ channels_last (the pipeline of `full`)", ["--fused", "--channels-last"]),
    ):
        pipelines[name] = W.Memory(T, train, device, pipeline=base + more)
        ways.append((name, pipelines[name].train))
    contiguous, channels_last = list(pipelines.values())[1:]
    for name, memory in (("contiguous", contiguous), ("channels_last", channels_last)):
        images = memory.batches.train(memory.chunks[0], 0)[0]
        ways.append(("the convolutions alone, " + name, W.Convolutions(memory.trainer.model, images).train))
    return [Row("", name, lambda work=work: work(1)) for name, work in ways], {"contiguous": contiguous, "channels_last": channels_last}


def limits(device):
    """Rows of products and copies, and of touching fresh memory."""
    products = W.Products(W.Context(device), "fp32")
    source = torch.randn(32 << 20, device=device)
    target = torch.zeros_like(source)
    fresh = Row("", "fresh", lambda: torch.empty(16 << 20).fill_(1.0))
    used = torch.empty(16 << 20)
    return {
        "products": Row("", "products", lambda: products.train(1), products.flops),
        "copy": Row("", "copy", lambda: target.copy_(source), traffic=2 * BYTES * source.numel()),
        "fresh": fresh,
        "used": Row("", "used", lambda: used.fill_(1.0)),
    }


# -- Tables ------------------------------------------------------------------------------------------------------------


def table_of_ladder(rows, flops, peak):
    plain = rows[0].seconds
    print("| step | images/s | ms a step | x plain | GFLOP/s | range of images/s |")
    print("|---|---|---|---|---|---|")
    for row in rows:
        rates = [W.BATCH / s for s in row.samples]
        cells = (row.name, W.BATCH / row.seconds, 1e3 * row.seconds, plain / row.seconds, flops / row.seconds / 1e9, min(rates), max(rates))
        print("| %s | %.0f | %.1f | %.2f | %.0f | %.0f to %.0f |" % cells)
    seconds = flops / peak
    print("| all arithmetic at the rate of products | %.0f | %.1f | %.2f | %.0f | |" % (W.BATCH / seconds, 1e3 * seconds, plain / seconds, peak / 1e9))


def table_of_parts(layout, rows, whole, peak, bandwidth, price):
    print("\n### %s\n" % layout)
    print("| part | ms | share | GFLOP/s | GB/s at least | bound, ms | of it, page faults, ms |")
    print("|---|---|---|---|---|---|---|")
    total = bound = paid = 0.0
    for row in rows:
        least = max(row.flops / peak, row.traffic / bandwidth)
        fault = statistics.median(row.faults) * price
        total, bound, paid = total + row.seconds, bound + least, paid + fault
        rate = "%.0f" % (row.flops / row.seconds / 1e9) if row.flops else ""
        traffic = "%.1f" % (row.traffic / row.seconds / 1e9) if row.traffic else ""
        print("| %s | %.2f | %.0f %% | %s | %s | %.2f | %.2f |" % (row.name, 1e3 * row.seconds, 100 * row.seconds / whole.seconds, rate, traffic, 1e3 * least, 1e3 * fault))
    print("| sum of the parts | %.1f | %.0f %% | | | %.1f | %.1f |" % (1e3 * total, 100 * total / whole.seconds, 1e3 * bound, 1e3 * paid))
    rest, fault = whole.seconds - total, statistics.median(whole.faults) * price
    print("| Python, autograd, the loop (the remainder) | %.1f | %.0f %% | | | | |" % (1e3 * rest, 100 * rest / whole.seconds))
    print("| the whole step | %.1f | 100 %% | | | %.1f | %.1f |" % (1e3 * whole.seconds, 1e3 * bound, 1e3 * fault))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--device", default="auto")
    asked = parser.parse_args()
    run = reference_checks.Run(reference_checks.parse(["rates", "--device", asked.device]))
    machine, load = reference_checks.machine(run), run.load
    train = run.made()[0]
    rows, pipelines = ladder(run, train)
    bounds = limits(run.device)
    pieces = {layout: list(parts(layout, memory)) for layout, memory in pipelines.items()}
    everything = [*rows, *bounds.values(), *(row for part in pieces.values() for row in part)]
    for row in everything:
        row.warm(run.device)
    for _ in range(asked.rounds):
        for row in everything:
            row.sample(run.device)
    flops = sum(row.flops for row in pieces["contiguous"])
    peak = bounds["products"].flops / bounds["products"].seconds
    bandwidth = bounds["copy"].traffic / bounds["copy"].seconds
    fresh, used = bounds["fresh"], bounds["used"]
    count = statistics.median(fresh.faults) - statistics.median(used.faults)
    price = max(0.0, fresh.seconds - used.seconds) / count if count > 0 and run.device.type == "cpu" else 0.0
    print("torch %s on %s (%s), %d threads, batches of %d, medians of %d rounds; load before %s, after %s." % (
        machine["torch"], machine["device"], machine["device_name"], torch.get_num_threads(), W.BATCH, asked.rounds, load, R.load_of_machine()
    ))
    print("Products %.0f GFLOP/s, copies %.1f GB/s (read and written), a page fault %.2f us.\n" % (peak / 1e9, bandwidth / 1e9, 1e6 * price))
    table_of_ladder(rows, flops, peak)
    whole = {"contiguous": rows[3], "channels_last": rows[4]}
    for layout, part in pieces.items():
        table_of_parts(layout, part, whole[layout], peak, bandwidth, price)


if __name__ == "__main__":
    main()
