"""How fast the training is: a plain loop, the pipeline in memory, and what the device gives at most, in one run.

The ways are measured in turn, round after round, so that what else goes on in the machine slows all of them; medians
of the rounds are told, with the lowest and the highest. The settings are the user's own: what the deterministic task
before changed is put back first.

    plain            the loop as most people write it: PIL images, torchvision's transforms one image at a time, a
                     DataLoader, contiguous memory, ordinary SGD, .item() in every step
    plain-workers    the same with DataLoader workers (only where asked)
    memory           train_cifar10.py as the preset `full` runs it; memory-bf16: under autocast, where a GPU has bf16
    convolutions     the model's convolutions alone, forward and backward, in the same layout: no step can be faster
    input-plain, input-memory    the batches alone
    products         square matrix products, by precision
"""
import ctypes
import math
import os
import random
import re
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
for folder in (os.path.join(HERE, "smoke_parts"), HERE):
    if folder not in sys.path:
        sys.path.insert(0, folder)

BATCH = 128
PIPELINE = ("--batch", str(BATCH), "--steps", "1000000", "--channels-last", "--fused")
LEAST = 0.1  # seconds: shorter samples say more about the clock than about the work
MOST_STEPS = 200
PER_ROUND = 3.0  # seconds that a round may take on average; on slower machines fewer are made, but two at least
SUSTAINED = 2.0  # seconds of products without a pause, so that nvidia-smi sees a GPU under load
VARIABLES = (
    "OMP_NUM_THREADS", "MKL_NUM_THREADS", "ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA", "MKL_CBWR",
    "MKL_ENABLE_INSTRUCTIONS", "NVIDIA_TF32_OVERRIDE", "CUDA_LAUNCH_BLOCKING", "PYTORCH_NO_CUDA_MEMORY_CACHING",
    "HIP_LAUNCH_BLOCKING", "AMD_SERIALIZE_KERNEL",
)


# -- The machine -------------------------------------------------------------------------------------------------------


def load_of_machine():
    """Processes that wait for a core, over the last minute; None where the system does not say."""
    try:
        return round(os.getloadavg()[0], 2)
    except (AttributeError, OSError):
        return None


def cores():
    """{"logical", "usable" (affinity and a container's share of time counted), "physical" (of the usable; None = unknown)}"""
    from speed_rates import usable_cores

    usable = usable_cores()
    try:
        siblings = set()
        for number in os.sched_getaffinity(0):
            with open("/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list" % number) as file:
                siblings.add(file.read().strip())
        physical = min(len(siblings), usable) or None
    except (AttributeError, OSError):
        physical = None
    return {"logical": os.cpu_count(), "usable": usable, "physical": physical}


def build():
    """What decides how fast this build of torch can be on a CPU."""
    import torch

    blas = re.search(r"BLAS_INFO=(\w+)", torch.__config__.show())
    return {
        "debug": bool(getattr(torch.version, "debug", False)),
        "blas": blas.group(1) if blas else None,
        "mkl": bool(torch.backends.mkl.is_available()),
        "onednn": bool(torch.backends.mkldnn.is_available()),
        "openmp": bool(torch.backends.openmp.is_available()),
    }


def gpu(device):
    """Name, address and size of a CUDA device; {} for others."""
    import torch

    if device.type != "cuda":
        return {}
    properties = torch.cuda.get_device_properties(device)
    told = {"name": properties.name, "multiprocessors": getattr(properties, "multi_processor_count", None)}
    if not getattr(torch.version, "hip", None):
        from smoke_device import bus_id

        try:
            told["bus_id"] = bus_id(device.index or 0)
        except (OSError, AttributeError):
            pass
    return told


SWITCHES = (
    "backends.cudnn.benchmark", "backends.cudnn.deterministic", "backends.cudnn.allow_tf32", "backends.cuda.matmul.allow_tf32",
)


def switches():
    """The settings that the deterministic task changes, as they are now."""
    import warnings

    import torch

    found = {"deterministic": torch.are_deterministic_algorithms_enabled()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # reading a deprecated switch is no use of it
        for path in SWITCHES:
            owner, name = _owner(path)
            try:
                found[path] = getattr(owner, name)
            except (AttributeError, RuntimeError):
                pass  # not in this torch, or set by the newer switches that forbid the older ones
    return found


def put_back(found):
    """Makes them again what they were."""
    import warnings

    import torch

    torch.use_deterministic_algorithms(found["deterministic"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for path in SWITCHES:
            if path in found:
                owner, name = _owner(path)
                try:
                    setattr(owner, name, found[path])
                except (AttributeError, RuntimeError):
                    pass


def _owner(path):
    import torch

    owner, names = torch, path.split(".")
    for name in names[:-1]:
        owner = getattr(owner, name, None)
    return owner, names[-1]


def wait(device):
    """Until the device has done all it was given."""
    import torch

    if device.type == "cpu":
        return
    synchronize = getattr(getattr(torch, device.type, None), "synchronize", None)
    if synchronize is not None:
        synchronize()
    else:
        torch.zeros(1, device=device).cpu()


# -- The plain loop ----------------------------------------------------------------------------------------------------


class ByHand(object):
    """The four transforms on a uint8 tensor, one image at a time, where there is no torchvision."""

    def __init__(self, T):
        import torch

        self.pad, self.size = T.PAD, T.SIZE
        self.mean, self.std = torch.tensor(T.MEAN)[:, None, None], torch.tensor(T.STD)[:, None, None]

    def __call__(self, image):
        import torch.nn.functional as F

        pad, size = self.pad, self.size
        top, left = random.randint(0, 2 * pad), random.randint(0, 2 * pad)
        image = F.pad(image, (pad, pad, pad, pad))[:, top:top + size, left:left + size]
        if random.random() < 0.5:
            image = image.flip(2)
        return image.float().div(255).sub(self.mean).div(self.std)


class Pictures(object):
    """A dataset as torchvision's CIFAR10: one image at a time, made a PIL image, through the transforms."""

    def __init__(self, data, T):
        images, labels = data
        self.labels = labels.tolist()
        try:
            import torchvision
            from PIL import Image
            from torchvision import transforms

            augment = [transforms.RandomCrop(T.SIZE, padding=T.PAD), transforms.RandomHorizontalFlip()]
            self.transform = transforms.Compose(augment + [transforms.ToTensor(), transforms.Normalize(T.MEAN, T.STD)])
            rows = images.permute(0, 2, 3, 1).contiguous()
            self.images = [ctypes.string_at(row.data_ptr(), row.numel()) for row in rows]
            self.open = Opened(Image.frombytes, T.SIZE)
            self[0]
            self.told = "torchvision %s" % torchvision.__version__
        except Exception as error:  # a torchvision that does not fit raises all kinds
            self.images, self.open = list(images), None
            self.transform = ByHand(T)
            self.told = "written out here, for torchvision cannot be used (%s)" % words(error)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        image = self.images[index]
        return self.transform(image if self.open is None else self.open(image)), self.labels[index]


class Opened(object):
    """bytes -> PIL image; a class, because worker processes get it by pickle."""

    def __init__(self, frombytes, size):
        self.frombytes, self.size = frombytes, (size, size)

    def __call__(self, data):
        return self.frombytes("RGB", self.size, data)


class Plain(object):
    """Model, optimizer, loader and loop as in a hundred tutorials."""

    def __init__(self, dataset, device, workers=0):
        import torch
        from torch import nn

        self.device, self.workers = device, workers
        self.loader = torch.utils.data.DataLoader(
            dataset, batch_size=BATCH, shuffle=True, drop_last=True, num_workers=workers,
            pin_memory=device.type == "cuda", persistent_workers=workers > 0,
        )
        layers = []
        for inner, outer in ((3, 64), (64, 128), (128, 256)):
            layers += [nn.Conv2d(inner, outer, 3, padding=1), nn.BatchNorm2d(outer), nn.ReLU()]
            layers.append(nn.MaxPool2d(2) if outer < 256 else nn.AdaptiveAvgPool2d(1))
        self.model = nn.Sequential(*(layers + [nn.Flatten(), nn.Linear(256, 10)])).to(device)
        self.criterion = nn.CrossEntropyLoss()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
        self.batches, self.loss, self.right = iter(self.loader), 0.0, 0
        self.model.train()

    def batch(self):
        """The next batch; a new epoch begins where one ends."""
        try:
            return next(self.batches)
        except StopIteration:
            self.batches = iter(self.loader)
            return next(self.batches)

    def ready(self):
        """Takes the batches that workers made while something else was measured."""
        for _ in range(2 * self.workers):
            self.batch()

    def load(self, steps):
        """The input stage alone."""
        for _ in range(steps):
            self.batch()

    def train(self, steps):
        """So many steps."""
        for _ in range(steps):
            images, labels = self.batch()
            images, labels = images.to(self.device), labels.to(self.device)
            self.optimizer.zero_grad()
            outputs = self.model(images)
            loss = self.criterion(outputs, labels)
            loss.backward()
            self.optimizer.step()
            self.loss += loss.item()
            self.right += (outputs.argmax(1) == labels).sum().item()


# -- The pipeline in memory, and what bounds it ------------------------------------------------------------------------


class Memory(object):
    """train_cifar10.py's own step and batches."""

    def __init__(self, T, data, device, more=()):
        import torch

        options = T.parse(list(PIPELINE) + ["--device", str(device)] + list(more))
        self.trainer = T.Trainer(options, device, options.steps)
        self.batches = T.Batches(data, device, options.seed, torch.float32, options.channels_last)
        self.chunks, self.place = list(self.batches.order(0).split(BATCH))[:-1], 0

    def some(self, steps):
        """The indices of the next batches."""
        self.place += steps
        return [self.chunks[n % len(self.chunks)] for n in range(self.place - steps, self.place)]

    def load(self, steps):
        """The input stage alone."""
        for _ in self.batches.epoch_of(self.some(steps), 0):
            pass

    def train(self, steps):
        """So many steps."""
        for images, labels in self.batches.epoch_of(self.some(steps), 0):
            self.trainer.train_step(images, labels)


class Convolutions(object):
    """All convolutions of a model at the sizes that a batch has there: forward, and both gradients backward."""

    def __init__(self, model, images):
        import torch
        from torch import nn

        self.parts, hooks = [], []
        layers = [(name, m) for name, m in model.named_modules() if isinstance(m, nn.Conv2d)]

        def seen(name, layer, first):
            def hook(module, inputs, output):
                layout = torch.channels_last if is_channels_last(inputs[0]) else torch.contiguous_format
                x = torch.randn_like(inputs[0], memory_format=layout).requires_grad_(not first)
                gradient = torch.randn_like(output, memory_format=layout)
                self.parts.append(Convolution(name, layer, x, gradient))

            return hook

        for number, (name, layer) in enumerate(layers):
            hooks.append(layer.register_forward_hook(seen(name, layer, number == 0)))
        with torch.no_grad():
            model(images)
        for hook in hooks:
            hook.remove()
        self.flops = sum(part.flops(both=True) for part in self.parts)

    def train(self, steps):
        """So many times all of them."""
        for _ in range(steps):
            for part in self.parts:
                part.backward(part.forward())


class Convolution(object):
    """One layer with an input and a gradient of its output; the first of a model needs no gradient of its input."""

    def __init__(self, name, layer, x, gradient):
        self.name, self.layer, self.x, self.gradient = name, layer, x, gradient
        self.wanted = [t for t in (x, layer.weight, layer.bias) if t is not None and t.requires_grad]

    def forward(self):
        """The output, with its graph."""
        return self.layer(self.x)

    def backward(self, output, keep=False):
        """The gradients of input, weight and bias."""
        import torch

        return torch.autograd.grad(output, self.wanted, self.gradient, retain_graph=keep)

    def flops(self, both=False):
        """Floating point operations forward; both: with those backward."""
        each = 2.0 * self.gradient.numel() * self.layer.weight[0].numel()
        return each * ((3 if self.x.requires_grad else 2) if both else 1)


def is_channels_last(tensor):
    """Whether channels are next to each other in memory."""
    import torch

    return tensor.is_contiguous(memory_format=torch.channels_last) and not tensor.is_contiguous()


class Products(object):
    """Square products in one precision, at a size whose calls are long enough to fill the device."""

    def __init__(self, context, precision):
        self.context, self.precision = context, precision
        enough, most = (4e-3, 2048) if context.kind == "cpu" else (1e-3, 8192)
        self.size = 512 if context.kind == "cpu" else 2048
        while True:
            self.make()
            self.train(2)
            wait(context.device)
            begun = time.perf_counter()
            self.train(1)
            wait(context.device)
            if time.perf_counter() - begun >= enough or self.size >= most:
                break
            self.size *= 2
        self.flops = 2.0 * self.size ** 3

    def make(self):
        """The matrices of the size of the moment."""
        from speed_rates import _product

        self.product = _product(self.context, self.precision, self.size)

    def train(self, steps):
        """So many products."""
        from smoke_support import Switched
        from speed_rates import _settings

        with Switched(*_settings(self.precision == "tf32")):
            for _ in range(steps):
                self.product()


class Context(object):
    """What the measurements of `smoke --speed` want to know of a device."""

    def __init__(self, device):
        import torch

        self.device, self.kind = device, device.type
        self.hip = bool(getattr(torch.version, "hip", None))
        self.backend = getattr(torch, device.type, None)

    def precisions(self):
        """Of products: float32, and on a GPU what it has besides, 8 bits left out."""
        from speed_rates import _precisions

        if self.kind in ("cpu", "mps"):
            return ["fp32"]
        return [name for name in _precisions(self) if name in ("fp32", "tf32", "bf16")]


# -- Rounds ------------------------------------------------------------------------------------------------------------


class Way(object):
    """One thing that is measured: `work(steps)`, how much of `unit` a step is, and the samples."""

    def __init__(self, work, amount, unit, device, ready=None):
        self.work, self.amount, self.unit, self.device, self.ready = work, amount, unit, device, ready
        self.rates, self.host, self.cpu, self.seconds, self.steps = [], 0.0, 0.0, 0.0, 1

    def warm(self):
        """Once for what is made at the first time, and again to see how many steps make a sample."""
        once = self.time(1)[0]
        if once < 1.0 or self.device.type != "cpu":
            once = self.time(1)[0]
        self.steps = max(1, min(MOST_STEPS, int(math.ceil(LEAST / max(once, 1e-9)))))

    def time(self, steps):
        """(seconds, of them until the program had given all work to the device, CPU seconds of the process)"""
        if self.ready is not None:
            self.ready()
        wait(self.device)
        cpu, begun = time.process_time(), time.perf_counter()
        self.work(steps)
        given = time.perf_counter()
        wait(self.device)
        return time.perf_counter() - begun, given - begun, time.process_time() - cpu

    def sample(self):
        """One more."""
        seconds, host, cpu = self.time(self.steps)
        self.rates.append(self.steps * self.amount / seconds)
        self.seconds, self.host, self.cpu = self.seconds + seconds, self.host + host, self.cpu + cpu

    def told(self):
        """What is said about it."""
        return dict(summary(self.rates), unit=self.unit, steps=self.steps)


def summary(values):
    """Median, lowest, highest and the quartiles' distance as a share of the median."""
    ordered = sorted(values)
    middle = quantile(ordered, 0.5)
    return {
        "median": rounded(middle), "low": rounded(ordered[0]), "high": rounded(ordered[-1]),
        "spread": rounded((quantile(ordered, 0.75) - quantile(ordered, 0.25)) / middle), "samples": len(ordered),
    }


def quantile(ordered, share):
    """By straight lines between the samples."""
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def rounded(value):
    return float("%.4g" % value)


def words(error):
    """An exception in one line."""
    return ("%s: %s" % (type(error).__name__, (str(error).splitlines() or [""])[0]))[:200]


def ways_of(run, workers, lacking):
    """(ways by name, products by precision, Plain, Memory); what cannot be measured here is left out, with the reason in `lacking`."""
    T, device = run.T, run.device
    train = run.made()[0]
    ways, made = {}, {}

    def attempt(name, make):
        try:
            item = make()
            way = Way(*item[:3], device=device, **(item[3] if len(item) > 3 else {}))
            way.warm()
            ways[name] = way
        except Exception as error:  # out of memory, an operation that a device lacks: the others still say something
            lacking[name] = words(error)

    def memory(*more):
        made.setdefault("memory", Memory(T, train, device, more))
        return (made["memory"] if not more else Memory(T, train, device, more)).train, BATCH, "images/s"

    def plain(count):
        made.setdefault("pictures", Pictures(train, T))
        item = made["plain%d" % count] = Plain(made["pictures"], device, count)
        return item.train, BATCH, "images/s", {"ready": item.ready}

    def convolutions():
        part = made["memory"]
        images = part.batches.train(part.chunks[0], 0)[0]
        made["convolutions"] = Convolutions(part.trainer.model, images)
        return made["convolutions"].train, BATCH, "images/s"

    attempt("memory", memory)
    attempt("plain", lambda: plain(0))
    if workers:
        attempt("plain-workers", lambda: plain(workers))
    context = Context(device)
    precisions = context.precisions()
    if "bf16" in precisions:
        attempt("memory-bf16", lambda: memory("--amp", "bf16"))
    if "memory" in ways:
        attempt("convolutions", convolutions)
        attempt("input-memory", lambda: (made["memory"].load, BATCH, "images/s"))
    if "plain" in ways:
        attempt("input-plain", lambda: (made["plain0"].load, BATCH, "images/s"))
    for precision in precisions:
        def product(precision=precision):
            item = Products(context, precision)
            return item.train, item.flops / 1e12, "TFLOP/s"

        attempt("products-" + precision, product)
    return ways, made


def rates(run):
    """The task; {"failed": why} where nothing could be measured, for that is no fault of the arithmetic."""
    try:
        return measured(run)
    except Exception as error:
        return {"failed": words(error)}


def measured(run):
    """Everything that is told."""
    import torch

    put_back(run.found)
    begun, lacking = time.perf_counter(), {}
    room = cores()
    own = torch.get_num_threads()
    workers = min(run.options.workers, room["usable"])
    ways, made = ways_of(run, workers, lacking)
    rounds, first = 0, time.perf_counter()
    while rounds < run.options.rounds and (rounds < 2 or time.perf_counter() - first < PER_ROUND * run.options.rounds):
        for way in ways.values():
            way.sample()
        rounds += 1
    answer = {
        "rounds": rounds, "batch": BATCH, "ways": {name: way.told() for name, way in ways.items()}, "lacking": lacking,
        "cores": room, "threads": {"own": own, "asked": run.options.threads, "tried": tried(run, room, own)},
        "load": {"before": run.load, "after": load_of_machine()}, "build": build(), "gpu": gpu(run.device),
        "kernels": kernels(run, made, ways), "variables": {n: os.environ[n] for n in VARIABLES if os.environ.get(n)},
    }
    if "pictures" in made:
        answer["transforms"] = made["pictures"].told
    if workers:
        answer["workers"] = workers
    if "convolutions" in made:
        answer["flops_per_image"] = made["convolutions"].flops / BATCH
    more_of(run, ways, answer)
    answer["measured_seconds"] = round(time.perf_counter() - begun, 2)
    return answer


def more_of(run, ways, answer):
    """Ratios round by round, and what the CPU's clock and the program's side say."""
    if "plain" in ways and "memory" in ways:
        answer["ratio"] = summary([b / a for a, b in zip(ways["plain"].rates, ways["memory"].rates)])
    if "memory" in ways and run.device.type != "cpu":
        answer["host_share"] = rounded(ways["memory"].host / ways["memory"].seconds)
    fp32 = ways.get("products-fp32")
    if fp32 is not None and run.device.type == "cpu":
        from speed_rates import clock

        busy = min(answer["threads"]["own"], answer["cores"]["usable"])
        answer["cpu_share"] = rounded(min(1.0, fp32.cpu / (fp32.seconds * busy)))
        answer["mhz"] = clock()
    answer["conv_precision"] = "tf32" if "products-tf32" in ways and run.found.get("backends.cudnn.allow_tf32") else "fp32"
    if run.device.type == "cuda" and answer["gpu"].get("bus_id"):
        answer["sustained"] = sustained(ways)


def sustained(ways):
    """The best products once more, without a pause: {"precision", "rate" in TFLOP/s}."""
    found = {name[9:]: way for name, way in ways.items() if name.startswith("products-")}
    if not found:
        return None
    precision = max(found, key=lambda name: quantile(sorted(found[name].rates), 0.5))
    way, rates_seen, begun = found[precision], [], time.perf_counter()
    while time.perf_counter() - begun < SUSTAINED:
        rates_seen.append(way.steps * way.amount / way.time(way.steps)[0])
    return {"precision": precision, "rate": rounded(quantile(sorted(rates_seen), 0.5))}


# -- Experiments: only where something looks held back -----------------------------------------------------------------


def tried(run, room, own):
    """The rate of products with another number of threads, where the own one cannot be right: {threads: TFLOP/s}."""
    import torch

    other = better_threads(room, own, run.options.threads, os.environ)
    if run.device.type != "cpu" or other is None:
        return {}
    found = {own: [], other: []}
    try:
        part = Products(Context(run.device), "fp32")
        for number in range(4):
            for count in found:
                torch.set_num_threads(count)
                part.train(1)
                way = Way(part.train, part.flops / 1e12, "TFLOP/s", run.device)
                way.steps = 4
                way.sample()
                found[count].append(way.rates[0])
    finally:
        torch.set_num_threads(own)
    return {str(count): rounded(quantile(sorted(values), 0.5)) for count, values in found.items()}


def better_threads(room, own, asked, variables):
    """The number to try against the own one; None where that one is as usual, or the user's wish on the command line."""
    usable, physical = room["usable"], room["physical"]
    if asked:
        return None
    if own > usable:
        return physical or usable  # an affinity or a container's share that torch did not see
    limited = any(variables.get(name) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"))
    most = physical or max(1, usable // 2)  # not known: two threads a core may share it
    if own < most and (limited or 2 * own <= most):
        return most
    return None


def kernels(run, made, ways):
    """The library that convolutions run by: in the build? switched on? And if it is off, their rate with it on."""
    import torch

    kind = run.device.type
    if kind not in ("cpu", "cuda"):
        return None
    library = torch.backends.mkldnn if kind == "cpu" else torch.backends.cudnn
    told = {
        "name": "oneDNN" if kind == "cpu" else "MIOpen" if getattr(torch.version, "hip", None) else "cuDNN",
        "there": bool(library.is_available()),
        "on": bool(getattr(library, "enabled", True)),
        "asked_off": kind == "cpu" and run.options.without_onednn,
    }
    if told["there"] and not told["on"] and not told["asked_off"] and "convolutions" in ways:
        way = ways["convolutions"]
        flags = library.flags(enabled=True) if kind == "cpu" else library.flags(True, library.benchmark)
        with flags:
            other = Way(way.work, way.amount, way.unit, run.device)
            other.warm()
            for _ in range(3):
                other.sample()
        told["rate_on"] = quantile(sorted(other.rates), 0.5)
    return told
