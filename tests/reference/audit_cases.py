"""Trains in the ways that programs do, under the hooks of the audit; one JSON object on the last line: case -> what was seen."""

import json
import os
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "envcheck", "payloads"))
import reference_hooks as hooks
import torch
from torch import nn

hooks.install()
CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


def rows(call):
    """The trace of a call, settled."""
    torch.manual_seed(0)
    hooks.ACTIVE = trace = hooks.Trace()
    try:
        call()
    finally:
        hooks.ACTIVE = None
    trace.flush()
    return trace


def told(trace):
    """[kind, step, root, part, what] of everything but random generators."""
    return [[r[0], r[1], r[2], r[3], r[5]] for r in trace.rows if r[0] != "generator"]


def small():
    return nn.Sequential(nn.Linear(4, 4), nn.ReLU(inplace=True), nn.Linear(4, 2))


@case
def gan():
    netG, netD = nn.Linear(2, 4), nn.Linear(4, 1)

    def call():
        optG, optD = torch.optim.Adam(netG.parameters()), torch.optim.SGD(netD.parameters(), lr=0.1)
        for _ in range(2):
            optD.zero_grad()
            (netD(torch.ones(3, 4)).mean() - netD(netG(torch.ones(3, 2)).detach()).mean()).backward()
            optD.step()
            optG.zero_grad()
            netD(netG(torch.ones(3, 2))).mean().backward()
            optG.step()

    return told(rows(call))


@case
def closure():
    """As Lightning steps: the gradients do not exist before the step calls the closure."""
    model = small()

    def call():
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def work():
            optimizer.zero_grad()
            loss = model(torch.ones(3, 4)).sum()
            loss.backward()
            return loss

        optimizer.step(work)
        optimizer.step(closure=work)

    return told(rows(call))


@case
def lbfgs():
    model = nn.Linear(4, 1)

    def call():
        optimizer = torch.optim.LBFGS(model.parameters(), max_iter=4)

        def work():
            optimizer.zero_grad()
            loss = (model(torch.ones(3, 4)) - 1).pow(2).sum()
            loss.backward()
            return loss

        optimizer.step(work)

    return told(rows(call))


@case
def scheduler_and_scaler():
    model = small()

    def call():
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
        scaler = torch.cuda.amp.GradScaler(enabled=False)
        for _ in range(2):
            optimizer.zero_grad()
            scaler.scale(model(torch.ones(3, 4)).sum()).backward()
            scaler.step(optimizer)
            scaler.update()
            scheduler.step()

    return told(rows(call))


@case
def optimizer_within():
    """SAM and its like: a step that calls another optimizer's step is one step."""

    class Outer(torch.optim.Optimizer):
        def __init__(self, parameters):
            super().__init__(parameters, {})
            self.inner = torch.optim.SGD(self.param_groups[0]["params"], lr=0.1)

        def step(self, closure=None):
            self.inner.step()

    model = nn.Linear(2, 1)

    def call():
        optimizer = Outer(list(model.parameters()))
        for _ in range(2):
            model(torch.ones(1, 2)).sum().backward()
            optimizer.step()

    return told(rows(call))


@case
def keywords():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(2, 2)

        def forward(self, ids=None, mask=None):
            return {"logits": self.fc(ids) * mask, "rest": [ids]}

    model = Net()
    return told(rows(lambda: model(ids=torch.ones(1, 2), mask=torch.ones(1, 2))))


@case
def exceptions():
    """A forward that raises and is tried again, as after an out-of-memory error: the next call is an outermost one."""
    model = small()

    def call():
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        try:
            model(torch.ones(3, 5))
        except RuntimeError:
            pass
        model(torch.ones(3, 4)).sum().backward()
        optimizer.step()
        model(torch.ones(3, 4))

    return told(rows(call))


@case
def functional():
    """Parts called by themselves, and weights that no module call has shown before the optimizer steps."""
    model = small()
    free = nn.Parameter(torch.ones(2))

    def call():
        optimizer = torch.optim.SGD(list(model.parameters()) + [free], lr=0.1)
        x = nn.functional.linear(torch.ones(3, 4), model[0].weight)
        (model[2](x) * free).sum().backward()
        optimizer.step()

    return told(rows(call))


@case
def changed_outside():
    """Weights written to through .data count no version and are seen all the same."""
    def call(noise):
        model = nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
        model.weight.data += noise
        model(torch.ones(1, 2))

    a, b = rows(lambda: call(0.0)), rows(lambda: call(1e-3))
    return [[r[0], r[1], r[3]] for r, s in zip(a.rows, b.rows) if r[6] != s[6] and r[0] != "generator"][:1]


@case
def shared():
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    model[1].weight = model[0].weight

    def call():
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()

    return told(rows(call))


def hashes(*tensors):
    counts = hooks.Counts()
    out = []
    for tensor in tensors:
        told, _, _ = hooks.measure(tensor, counts)
        out.append(" ".join(item if isinstance(item, str) else "%016x" % (int(item) & (2**64 - 1)) for item in told))
    return out, counts


@case
def kinds():
    """Tensors of all kinds: equal ones have one hash, other ones another, and what cannot be read is said so."""
    x = torch.arange(12.0).reshape(3, 4)
    changed = x.clone()
    changed[2, 1] += 1e-6
    same, _ = hashes(x, x.clone(), x.t().contiguous().t(), x.clone().requires_grad_(True))
    other, _ = hashes(x, changed, x.double(), x.reshape(4, 3), -x, x.bool())
    sparse = torch.zeros(3, 4)
    sparse[1, 2] = 1.0
    sparse2 = sparse * 2
    some, _ = hashes(sparse.to_sparse(), sparse.to_sparse(), sparse2.to_sparse())
    rows_, _ = hashes(sparse.to_sparse_csr(), sparse2.to_sparse_csr())
    quantized, _ = hashes(torch.quantize_per_tensor(x, 0.1, 0, torch.qint8), torch.quantize_per_tensor(x + 1, 0.1, 0, torch.qint8))
    unread, counts = hashes(torch.empty(3, device="meta"), nn.LazyLinear(3).weight)
    empty, _ = hashes(torch.empty(0), torch.empty(0, 3))
    broad, counts2 = hashes(torch.ones(1).expand(1 << 34))  # spread out it would need 64 GiB
    with torch.inference_mode():
        inferred, _ = hashes(x * 1)
    return {
        "same": len(set(same)), "other": len(set(other)), "sparse": [some[0] == some[1], some[0] != some[2]], "csr": rows_[0] != rows_[1],
        "quantized": quantized[0] != quantized[1], "unread": unread, "counted": counts.unread, "empty": len(set(empty)),
        "broad": [broad[0][:7], counts2.bytes], "inference": inferred[0] == same[0],
        "half": len(set(hashes(x.half(), x.bfloat16(), (x + 1).bfloat16(), x.to(torch.complex64))[0])),
    }


@case
def on_device():
    """The hash that is computed where the tensor lies: sees any single element, does not depend on the order of its sum."""
    x = torch.arange(5000.0)
    first = int(hooks.on_device(x))
    seen = 0
    for place in (0, 1, 2499, 4999):
        y = x.clone()
        y[place] += 1e-3 + abs(float(y[place])) * 1e-6
        seen += int(hooks.on_device(y)) != first
    swapped = x.clone()
    swapped[[0, 1]] = swapped[[1, 0]]
    hooks.CHUNK, chunk = 1024, hooks.CHUNK
    parts = int(hooks.on_device(x))
    hooks.CHUNK = chunk
    kinds = [int(hooks.on_device(v)) != 0 for v in (x.half(), x.bool(), x.double(), x.to(torch.complex64), x.to(torch.uint8))]
    return {"seen": seen, "swapped": int(hooks.on_device(swapped)) != first, "chunks": parts == first, "kinds": all(kinds), "empty": int(hooks.on_device(x[:0]))}


@case
def large():
    """Of more than 32 MiB some blocks are hashed, first and last among them, and that is counted."""
    x = torch.zeros((hooks.WHOLE // 4) * 2)
    end = x.clone()
    end[-1] = 1
    told, counts = hashes(x, end)
    return {"differ": told[0] != told[1], "sampled": counts.sampled, "bytes": counts.bytes == 2 * hooks.WHOLE}


@case
def other_thread():
    """Calls of another thread than the one that trains come in an order of their own."""
    model = small()

    def call():
        model(torch.ones(1, 4))
        thread = threading.Thread(target=lambda: model(torch.ones(1, 4)))
        thread.start()
        thread.join()

    return sum(r[0] == "input" for r in rows(call).rows)


@case
def compiled():
    """torch.compile finds nothing of the hooks in what it traces, not even with fullgraph."""
    if not hasattr(torch, "compile"):
        return None
    model = small()
    run = torch.compile(model, backend="eager", fullgraph=True)
    inplace = small()
    if hasattr(inplace, "compile"):
        inplace.compile(backend="eager", fullgraph=True)

    def call():
        for thing, parameters in ((run, model.parameters()), (inplace, inplace.parameters())):
            optimizer = torch.optim.SGD(parameters, lr=0.1)
            thing(torch.ones(3, 4)).sum().backward()
            optimizer.step()

    return told(rows(call))


@case
def traced():
    model = small()
    trace = rows(lambda: torch.jit.trace(model, torch.ones(1, 4)))
    return len(told(trace))


@case
def vmap():
    """Function transforms: tensors without memory of their own are not read, and nothing breaks."""
    func = getattr(torch, "func", None)
    if func is None:
        return None
    model = nn.Linear(2, 1)
    weights = {k: v.detach() for k, v in model.named_parameters()}

    def loss(weights, x):
        return func.functional_call(model, weights, (x,)).sum()

    trace = rows(lambda: func.vmap(func.grad(loss), (None, 0))(weights, torch.ones(5, 2)))
    return [r[6].split(":")[0] for r in trace.rows if r[0] == "output"]


if __name__ == "__main__":
    names = sys.argv[1:] or list(CASES)
    out = {}
    for name in names:
        try:
            out[name] = CASES[name]()
        except Exception as error:
            import traceback

            out[name] = {"raised": traceback.format_exc().splitlines()[-6:], "error": str(error)}
    print(json.dumps(out))
