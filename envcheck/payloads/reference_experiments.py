"""Short trainings with one thing left loose, so that two fresh processes show whether it breaks equal bits.

    reference_experiments.py RUN... [--device D] [--steps N]

Each RUN is the same training of a few steps with all settings strict but one (cudnn.deterministic has no effect of its
own while deterministic algorithms are on, so it is tried without them, on a model that has no other such operation). Its tensors are hashed by the hooks of
reference_hooks.py and answered as {"stage": RUN, "rows": [...]}, or {"stage": RUN, "error": ...}. Which runs may share
a process, and with what environment, is the business of whoever starts this.
"""
import argparse
import os
import random
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
if HERE not in sys.path:
    sys.path.insert(0, HERE)
import reference_checks as checks

BATCH, SIZE = 16, 32
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")

# What each run leaves loose or changes; what is left loose by the environment alone (PYTHONHASHSEED) is like "strict".
RUNS = {
    "strict": {},
    "torch-seed": {"seeds": ("python",)},
    "python-seed": {"seeds": ("torch",)},
    "hash-seed": {},
    "threads": {"threads": 1},
    "deterministic-algorithms": {"deterministic": False},
    "convolutions": {"by_index": False},
    "cudnn-deterministic": {"by_index": False, "deterministic": False, "cudnn.deterministic": False},
    "cudnn-benchmark": {"cudnn.benchmark": True},
    "cublas-workspace": {"cublas": False},
    "tf32": {"tf32": True},
    "loader": {"workers": 2},
    "worker-init": {"workers": 2, "init": False},
    "worker-generator": {"workers": 2, "generator": False},
    "worker-own": {"workers": 2, "own": True},
    "worker-count": {"workers": 1},
    # Newer torch tunes nothing while deterministic algorithms are on, so both go without them.
    "compiled": {"by_index": False, "deterministic": False, "compile": "default"},
    "autotune": {"by_index": False, "deterministic": False, "compile": "max-autotune-no-cudagraphs"},
}


# -- Data: what is random in a usual program, image by image -----------------------------------------------------------


def numpy_or_none():
    try:
        import numpy
    except Exception:  # absent, or one that does not fit this Python
        return None
    return numpy


class Images:
    """Made images; each is flipped by `random`, brightened by numpy and shifted by torch, as transforms of three libraries do."""

    def __init__(self, count, own):
        import torch

        self.count = count
        # The usual way to number the classes of a dataset, whose result depends on the hashes of strings.
        numbers = {name: number for number, name in enumerate({CLASSES[i % 10] for i in range(count)})}
        self.labels = [numbers[CLASSES[i % 10]] for i in range(count)]
        pixels = (torch.arange(count * 3 * SIZE * SIZE) * 7919) % 251
        self.images = (pixels.float() / 250 - 0.5).reshape(count, 3, SIZE, SIZE)
        numpy = numpy_or_none()
        self.own = None if not own else random.Random() if numpy is None else numpy.random.default_rng()

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        import torch

        numpy = numpy_or_none()
        image = self.images[index]
        if random.random() < 0.5:
            image = image.flip(2)
        drawn = self.own if self.own is not None else random if numpy is None else numpy.random
        image = image + 0.1 * float(drawn.random())
        return image.roll(int(torch.randint(5, (1,))), 1), self.labels[index]


def seed_worker(worker):
    """What people put there: the other libraries get seeds from the worker's own."""
    import torch

    seed_python(torch.initial_seed() % 2 ** 31)


def seed_python(seed):
    random.seed(seed)
    numpy = numpy_or_none()
    if numpy is not None:
        numpy.random.seed(seed)


def batches(loose, steps):
    """Yields (images, labels)."""
    import torch

    data = Images(BATCH * steps, loose.get("own", False))
    workers = loose.get("workers", 0)
    if workers:
        generator = torch.Generator().manual_seed(0) if loose.get("generator", True) else None
        init = seed_worker if loose.get("init", True) else None
        for pair in torch.utils.data.DataLoader(data, BATCH, shuffle=True, num_workers=workers, worker_init_fn=init, generator=generator):
            yield pair
        return
    order = torch.randperm(len(data), generator=torch.Generator().manual_seed(0)).tolist()
    for step in range(steps):
        chosen = [data[i] for i in order[step * BATCH:(step + 1) * BATCH]]
        yield torch.stack([image for image, _ in chosen]), torch.tensor([label for _, label in chosen])


# -- The training ------------------------------------------------------------------------------------------------------


def adds_by_index(device):
    """Whether this device has index_add under deterministic algorithms; asked while they are on."""
    import torch

    try:
        torch.zeros(2, 2, device=device).index_add(0, torch.zeros(4, dtype=torch.int64, device=device), torch.ones(4, 2, device=device))
        return True
    except (RuntimeError, NotImplementedError):
        return False


def network(device, by_index):
    """Convolutions, BatchNorm, a sum by index (as in graph networks), dropout: what may differ from run to run."""
    import torch
    from torch import nn
    from torch.nn import functional as F

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1, self.bn1 = nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16)
            self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
            self.dropout, self.fc = nn.Dropout(0.3), nn.Linear(32, 10)

        def forward(self, x):
            x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 2)
            x = F.relu(self.conv2(x))
            rows = x.permute(0, 2, 3, 1).reshape(-1, 32)
            if by_index:
                image = torch.arange(rows.shape[0], device=x.device) // (x.shape[2] * x.shape[3])
                x = torch.zeros(x.shape[0], 32, device=x.device).index_add(0, image, rows) / 256
            else:
                x = rows.reshape(x.shape[0], -1, 32).mean(1)
            return self.fc(self.dropout(x))

    return Net()


def be_strict(T, many, seeds=("python", "torch")):
    """All settings as they should be, whatever an earlier run of this process has changed."""
    import torch

    os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
    T.make_deterministic()
    torch.set_num_threads(many)
    if "python" in seeds:
        seed_python(0)
    if "torch" in seeds:
        torch.manual_seed(0)


def loosen(loose):
    """Takes back the one thing."""
    import torch

    if "deterministic" in loose:
        torch.use_deterministic_algorithms(False)
    if "cudnn.deterministic" in loose:
        torch.backends.cudnn.deterministic = False
    if "cudnn.benchmark" in loose:
        torch.backends.cudnn.benchmark = True
    if "cublas" in loose:
        os.environ.pop("CUBLAS_WORKSPACE_CONFIG", None)
    if "tf32" in loose:
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    if "threads" in loose:
        torch.set_num_threads(loose["threads"])


def train(name, device, steps, many, T):
    """The rows of one run."""
    import torch
    import reference_hooks as hooks

    loose = RUNS[name]
    be_strict(T, many, loose.get("seeds", ("python", "torch")))
    by_index = loose.get("by_index", True) and adds_by_index(device)
    loosen(loose)
    model = network(device, by_index).to(device)
    run = torch.compile(model, mode=loose["compile"]) if "compile" in loose else model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    hooks.ACTIVE = trace = hooks.Trace()
    try:
        for images, labels in batches(loose, steps):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(run(images.to(device)), labels.to(device))
            loss.backward()
            optimizer.step()
    finally:
        hooks.ACTIVE = None
    trace.flush()
    return trace.rows


def main():
    parser = argparse.ArgumentParser(prog="reference_experiments.py")
    parser.add_argument("runs", nargs="+", choices=sorted(RUNS))
    parser.add_argument("--device", default="auto")
    parser.add_argument("--steps", type=int, default=4)
    options = parser.parse_args()
    checks.begin("import torch")
    import torch
    import reference_hooks as hooks
    import train_cifar10 as T

    hooks.install()
    device = T.pick_device(options.device)
    many = max(2, torch.get_num_threads())
    numpy = numpy_or_none()
    checks.emit("import torch", device=str(device), threads=many, numpy=None if numpy is None else numpy.__version__)
    for name in options.runs:
        checks.begin(name)
        try:
            checks.emit(name, rows=train(name, device, options.steps, many, T))
        except Exception as error:
            checks.emit(name, error="%s: %s" % (type(error).__name__, (str(error).splitlines() or [""])[0][:300]))
    checks.emit("done")


if __name__ == "__main__":
    main()
