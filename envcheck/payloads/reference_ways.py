"""What is measured to see how fast a training is: loops, their parts, and the work that bounds them.

Each is an object whose methods do so many steps; reference_rates.py and the benchmarks take the time.
"""
import ctypes
import os
import random
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
for folder in (os.path.join(HERE, "smoke_parts"), HERE):
    if folder not in sys.path:
        sys.path.insert(0, folder)

BATCH = 128
PIPELINE = ("--batch", str(BATCH), "--steps", "1000000", "--channels-last", "--fused")  # as the preset `full` trains


def wait(device):
    """Until the device has done all it was given."""
    import torch

    if device.type == "cpu":
        return
    if device.type in ("cuda", "xpu"):
        getattr(torch, device.type).synchronize(device)
    elif hasattr(getattr(torch, device.type, None), "synchronize"):
        getattr(torch, device.type).synchronize()
    else:
        torch.zeros(1, device=device).cpu()


def words(error):
    """An exception in one line."""
    return ("%s: %s" % (type(error).__name__, (str(error).splitlines() or [""])[0]))[:200]


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

    def __init__(self, T, data, device, more=(), pipeline=None):
        import torch

        options = T.parse(list(pipeline or PIPELINE) + ["--device", str(device)] + list(more))
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
