#!/usr/bin/env python3
"""Train a small CNN on CIFAR-10, seeded: a reference run, and a start for a project of your own.

    python train_cifar10.py --data DIR                  20 epochs, the plain recipe
    python train_cifar10.py --epochs 3                  no data needed: images made from integers
    torchrun --nproc-per-node 2 train_cifar10.py --ddp  two processes, each half of every batch

Needs torch (1.13 or newer), numpy for --data, torchvision for --loader; tensorboard and onnx only for the options of
that name. Runs on CUDA (NVIDIA and ROCm), MPS, XPU and the CPU. The practices that matter are marked with "why:".
"""
import argparse
import ctypes
import hashlib
import inspect
import json
import math
import os
import pickle
import random
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

MEAN = (0.4914, 0.4822, 0.4465)  # of the training images, by channel, in [0, 1]
STD = (0.2470, 0.2435, 0.2616)
PAD, SIZE = 4, 32
STRENGTH = 64  # of 256: how much of an image of the made dataset is pattern, the rest is noise
FILES = {  # md5 of the original files, the same that torchvision checks
    "data_batch_1": "c99cafc152244af753f735de768cd75f",
    "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
    "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
    "data_batch_4": "634d18415352ddfa80567beed471001a",
    "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
    "test_batch": "40351d587109b95175f43aff81a1287e",
}


class Refused(Exception):
    """Bad input: the message is one line for the user."""


# -- Random numbers from integers --------------------------------------------------------------------------------------
# why: torch's float generators differ between CPUs and GPUs; integers do not. Order, crops, flips and first weights
# are therefore the same bits on every machine, and depend on (seed, purpose, epoch, index), not on what ran before:
# neither the number of workers nor a resume in mid-epoch changes them.


def mix(counter):
    """splitmix64: an int64 tensor of counters -> the same 64 random bits for the same counter, everywhere."""
    z = counter * -7046029254386353131  # 0x9E3779B97F4A7C15; int64 products wrap, as the algorithm wants
    z = (z ^ ((z >> 30) & 0x3FFFFFFFF)) * -4658895280553007687
    z = (z ^ ((z >> 27) & 0x1FFFFFFFFF)) * -7723592293110705685
    return z ^ ((z >> 31) & 0x1FFFFFFFF)


def bits(seed, purpose, count, epoch=0):
    """`count` random int64 for one purpose of one epoch."""
    start = mix(torch.tensor([(seed * 1000003 + epoch) * 64 + purpose], dtype=torch.int64))
    return mix(start + torch.arange(count, dtype=torch.int64))


def uniform(seed, purpose, count):
    """float64 in [0, 1), from the upper 53 bits."""
    return ((bits(seed, purpose, count) >> 11) & ((1 << 53) - 1)).double() * 2.0 ** -53


ORDER, CROP, WEIGHTS, SAMPLE = 0, 1, 2, 60  # purposes; WEIGHTS + n is the n-th parameter


# -- Settings that decide about reproducibility ------------------------------------------------------------------------


def seed_everything(seed):
    """All generators that this program or a library below it may use."""
    random.seed(seed)
    torch.manual_seed(seed)  # CPU and every device
    try:
        import numpy

        numpy.random.seed(seed % 2 ** 32)
    except ImportError:
        pass


def make_deterministic():
    """The same bits twice on the same machine; call it before the first use of the device."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # why: cuBLAS may otherwise pick by what memory is free
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.benchmark = False  # why: benchmark picks by timing, so the choice changes from run to run
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.allow_tf32 = False  # why: TF32 keeps 10 bits of the mantissa; a reference wants all 23
    torch.backends.cuda.matmul.allow_tf32 = False


# -- Data --------------------------------------------------------------------------------------------------------------


def root_of(folder):
    """The folder that holds cifar-10-batches-py, whichever of the two was named."""
    folder = os.path.abspath(folder)
    return os.path.dirname(folder) if os.path.basename(folder) == "cifar-10-batches-py" else folder


def read_cifar10(folder):
    """((images uint8 [50000, 3, 32, 32], labels int64), (test images [10000, ...], labels)), files checked by md5."""
    base = os.path.join(root_of(folder), "cifar-10-batches-py")
    parts = []
    for name, md5 in FILES.items():
        path = os.path.join(base, name)
        try:
            with open(path, "rb") as file:
                data = file.read()
        except OSError as error:
            raise Refused("%s: %s; --data wants the folder that holds cifar-10-batches-py" % (path, error.strerror))
        if hashlib.md5(data).hexdigest() != md5:
            raise Refused("%s: not the original CIFAR-10 file (%d bytes, wrong md5): copy it again" % (path, len(data)))
        entry = pickle.loads(data, encoding="latin1")  # why: only after the md5 check; a pickle can run any code
        parts.append((torch.from_numpy(entry["data"]).reshape(-1, 3, SIZE, SIZE), torch.tensor(entry["labels"])))
    train = torch.cat([p[0] for p in parts[:5]]), torch.cat([p[1] for p in parts[:5]])
    return train, parts[5]


def made_dataset(train=5000, test=1000, seed=7):
    """Images made from integers alone, the same bits everywhere: ten blocky patterns, shifted, dimmed, under noise.

    Not CIFAR-10, and no measure of a model: it proves that training works and repeats without any download.
    """
    half = (bits(seed, 1, 10 * 3 * 8 * 4) & 0xFF).reshape(10, 3, 8, 4)
    blocks = torch.cat([half, half.flip(3)], 3)  # mirror images: a flip must not turn one class into another
    pattern = blocks.repeat_interleave(4, 2).repeat_interleave(4, 3)  # 10 x 3 x 32 x 32
    result = []
    for number, count in enumerate((train, test)):
        draw = bits(seed, 2 + number, count)
        labels = (draw & 0x7FFFFFFF) % 10
        rows = (torch.arange(SIZE)[None] + ((draw >> 32) & 7)[:, None]) % SIZE
        cols = (torch.arange(SIZE)[None] + ((draw >> 36) & 7)[:, None]) % SIZE
        channel = torch.arange(3)[None, :, None, None]
        images = pattern[labels[:, None, None, None], channel, rows[:, None, :, None], cols[:, None, None, :]]
        strength = STRENGTH + ((draw >> 40) & 31)[:, None, None, None]  # of 256
        noise = (bits(seed, 4 + number, count * 3 * SIZE * SIZE // 8)[:, None] >> (8 * torch.arange(8))) & 0xFF
        images = (images * strength + noise.reshape(images.shape) * (256 - strength)) // 256
        result.append((images.to(torch.uint8), labels))
    return tuple(result)


class Batches:
    """The whole set on the device as uint8; a batch is one gather that crops and flips, then a table look-up.

    why: decoding and transforming image by image in Python costs more than a GPU's whole training step.
    """

    def __init__(self, data, device, seed, dtype=torch.float32, channels_last=False):
        images, self.labels = data[0].to(device), data[1].to(device)
        self.images = F.pad(images, (PAD, PAD, PAD, PAD))  # black borders, as RandomCrop(32, padding=4) has
        self.device, self.seed, self.channels_last = device, seed, channels_last
        # why: a table, rounded once from float64, so that no fused multiply-add of some CPU can change a bit
        pixel = torch.arange(256).double()[None] / 255
        mean, std = torch.tensor(MEAN).double()[:, None], torch.tensor(STD).double()[:, None]
        self.table = ((pixel - mean) / std).to(dtype).to(device)
        self.channel = torch.arange(3, device=device)[None, :, None, None]
        self.reach = torch.arange(SIZE)
        self.epoch = None

    def __len__(self):
        return len(self.labels)

    def order(self, epoch):
        """A permutation of all indices, int64 [N], on the CPU."""
        return torch.argsort(bits(self.seed, ORDER, len(self), epoch))

    def begin(self, epoch):
        """Draws every image's crop and flip of that epoch, and sends them to the device in one go."""
        if self.epoch == epoch:
            return
        draw = bits(self.seed, CROP, len(self), epoch)
        rows = ((draw & 0xFFFF) % (2 * PAD + 1))[:, None] + self.reach
        flip = ((draw >> 40) & 1)[:, None] == 1
        cols = (((draw >> 16) & 0xFFFF) % (2 * PAD + 1))[:, None] + torch.where(flip, SIZE - 1 - self.reach, self.reach)
        self.rows, self.cols, self.epoch = rows.to(self.device), cols.to(self.device), epoch

    def train(self, index, epoch):
        """(images [B, 3, 32, 32] cropped, flipped and normalised, labels [B]) of those indices."""
        self.begin(epoch)
        index = index.to(self.device)
        return self._take(index, self.rows[index], self.cols[index])

    def test(self, index):
        """The same without augmentation. why: a test set that is augmented measures something else."""
        middle = (self.reach + PAD).to(self.device)[None].expand(len(index), SIZE)
        return self._take(index.to(self.device), middle, middle)

    def epoch_of(self, chunks, epoch):
        """Yields (images, labels) on the device for each index tensor of `chunks`."""
        for chunk in chunks:
            yield self.train(chunk, epoch)

    def _take(self, index, rows, cols):
        picked = self.images[index[:, None, None, None], self.channel, rows[:, None, :, None], cols[:, None, None, :]]
        images = self.table[self.channel, picked.long()]
        if self.channels_last:
            images = images.contiguous(memory_format=torch.channels_last)
        return images, self.labels[index]


class Seeded(torch.utils.data.Dataset):
    """An image dataset whose random transforms depend on (seed, epoch, index) alone.

    why: with workers the usual generators give each worker its own stream, so that the augmentation changes with the
    number of workers, and libraries such as numpy even repeat the same numbers in every worker.
    """

    def __init__(self, dataset, seed):
        self.dataset, self.seed = dataset, seed

    def __len__(self):
        return len(self.dataset)

    def __getitem__(self, key):
        epoch, index = key
        with torch.random.fork_rng(devices=[]):  # without workers this is the training's own generator: leave it alone
            torch.default_generator.manual_seed(int(bits(self.seed, SAMPLE, 1, epoch * len(self.dataset) + index)))
            return self.dataset[index]


class MadeImages(torch.utils.data.Dataset):
    """The made dataset as torchvision's CIFAR10 gives the real one: PIL images through a transform."""

    def __init__(self, data, transform):
        self.images, self.labels, self.transform = data[0].permute(0, 2, 3, 1).contiguous().numpy(), data[1].tolist(), transform

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        from PIL import Image

        return self.transform(Image.fromarray(self.images[index])), self.labels[index]


class Plan:
    """The batches of the epoch that comes, as the loader's batch_sampler: read anew by each pass over the loader."""

    def __init__(self):
        self.batches = []

    def __iter__(self):
        return iter(self.batches)

    def __len__(self):
        return len(self.batches)


def seed_worker(worker):
    """why: the state of random and numpy is copied into each worker; transforms of other libraries draw from them."""
    seed_everything(torch.initial_seed() % 2 ** 31)


class LoaderBatches:
    """What most programs do: a dataset of PIL images, transforms image by image, a DataLoader with workers."""

    def __init__(self, dataset, device, seed, workers, channels_last=False):
        self.data, self.plan = Seeded(dataset, seed), Plan()
        self.device, self.seed, self.channels_last = device, seed, channels_last
        self.loader = torch.utils.data.DataLoader(
            self.data,
            batch_sampler=self.plan,
            num_workers=workers,
            pin_memory=device.type == "cuda",  # why: only pinned memory can be copied while the GPU computes
            worker_init_fn=seed_worker,
            generator=torch.Generator().manual_seed(seed),
            persistent_workers=workers > 0,  # why: starting workers anew for each epoch costs seconds
        )

    def __len__(self):
        return len(self.data)

    order = Batches.order

    def epoch_of(self, chunks, epoch):
        """Yields (images, labels) on the device for each index tensor of `chunks`."""
        self.plan.batches = [[(epoch, int(i)) for i in chunk] for chunk in chunks]
        for images, labels in self.loader:
            images = images.to(self.device, non_blocking=True)
            if self.channels_last:
                images = images.contiguous(memory_format=torch.channels_last)
            yield images, labels.to(self.device, non_blocking=True)


def loader_batches(options, data, device):
    """--loader: torchvision's CIFAR10 and transforms; the made dataset when there is no --data."""
    try:
        from torchvision import datasets, transforms
    except ImportError as error:
        raise Refused("--loader needs torchvision (%s)" % error)
    augment = [transforms.RandomCrop(SIZE, padding=PAD), transforms.RandomHorizontalFlip()]
    transform = transforms.Compose(augment + [transforms.ToTensor(), transforms.Normalize(MEAN, STD)])
    if options.data:
        dataset = datasets.CIFAR10(root_of(options.data), train=True, transform=transform)
    else:
        dataset = MadeImages(data, transform)
    return LoaderBatches(dataset, device, options.seed, options.workers, options.channels_last)


# -- Model -------------------------------------------------------------------------------------------------------------


class SimpleCNN(nn.Module):
    """Three 3x3 convolutions, 3 -> 64 -> 128 -> 256, BatchNorm, ReLU, pooling; images [B, 3, 32, 32] -> logits [B, 10].

    smooth: SiLU and AvgPool in place of ReLU and MaxPool. That twin has no kinks, so rounding differences between
    machines stay tiny for many steps instead of growing; it is what runs on different machines are compared with.
    """

    def __init__(self, classes=10, smooth=False):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 64, 3, padding=1), nn.BatchNorm2d(64)
        self.conv2, self.bn2 = nn.Conv2d(64, 128, 3, padding=1), nn.BatchNorm2d(128)
        self.conv3, self.bn3 = nn.Conv2d(128, 256, 3, padding=1), nn.BatchNorm2d(256)
        self.fc = nn.Linear(256, classes)
        self.smooth = smooth

    def forward(self, x):
        x = self.block(self.bn1(self.conv1(x)))
        x = self.block(self.bn2(self.conv2(x)))
        x = self.bn3(self.conv3(x))
        x = F.silu(x) if self.smooth else F.relu(x)
        return self.fc(x.mean((2, 3)))  # AdaptiveAvgPool2d(1)

    def block(self, x):
        if self.smooth:
            return F.avg_pool2d(F.silu(x), 2)
        return F.relu(F.max_pool2d(x, 2))  # why: pooling first gives the same numbers and a quarter of the ReLU's work


def initialise(model, seed):
    """torch's default distribution (uniform, +-1/sqrt(fan in)), drawn from integers: the same weights everywhere."""
    with torch.no_grad():
        layers = [m for m in model.modules() if isinstance(m, (nn.Conv2d, nn.Linear))]
        for number, layer in enumerate(layers):
            bound = 1.0 / math.sqrt(layer.weight[0].numel())
            for part, tensor in enumerate((layer.weight, layer.bias)):
                values = (2 * uniform(seed, WEIGHTS + 2 * number + part, tensor.numel()) - 1) * bound
                tensor.copy_(values.reshape(tensor.shape))


def fingerprint(tensors):
    """SHA-256 over the exact bits of named tensors."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        value = tensors[name].detach().cpu().contiguous()
        digest.update(("%s %s %s" % (name, value.dtype, tuple(value.shape))).encode())
        digest.update(ctypes.string_at(value.data_ptr(), value.numel() * value.element_size()))
    return digest.hexdigest()


# -- Training ----------------------------------------------------------------------------------------------------------


def learning_rate(step, total, schedule, warmup):
    """Factor on the base rate: linear warm-up (reaching 1 at step `warmup`), then constant or a cosine down to 0."""
    if step < warmup:
        return (step + 1) / warmup
    if schedule == "constant":
        return 1.0
    return 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(1, total - warmup)))


class Trainer:
    """Model, optimizer, schedule and scaler, and the one place where a step is made."""

    def __init__(self, options, device, total):
        self.options, self.device, self.step = options, device, 0
        self.model = SimpleCNN(smooth=options.smooth)
        initialise(self.model, options.seed)
        self.model = self.model.to(device=device, dtype=getattr(torch, options.dtype))
        if options.channels_last:
            self.model = self.model.to(memory_format=torch.channels_last)
        self.parameters = list(self.model.parameters())
        fused = {"fused": True} if options.fused and "fused" in inspect.signature(torch.optim.SGD).parameters else {}
        self.optimizer = torch.optim.SGD(self.parameters, lr=options.lr, momentum=0.9, weight_decay=5e-4, **fused)
        self.scheduler = torch.optim.lr_scheduler.LambdaLR(
            self.optimizer, lambda step: learning_rate(step, total, options.schedule, options.warmup)
        )
        # why: fp16 gradients underflow to 0; the scaler multiplies the loss and divides the gradients again. bf16 has
        # the range of float32 and needs none.
        self.scaler = make_scaler(device.type, enabled=options.amp == "fp16")
        self.run = self.model
        if options.ddp:
            ids = [device.index] if device.type == "cuda" else None
            self.run = nn.parallel.DistributedDataParallel(self.model, device_ids=ids)
        if options.compile:
            if not hasattr(torch, "compile"):
                raise Refused("--compile needs torch 2.0 or newer, this is %s" % torch.__version__)
            self.run = torch.compile(self.run)

    def forward(self, images, labels):
        """(loss, logits) under autocast where asked; the loss is always computed in float32."""
        if not self.options.amp:
            logits = self.run(images)
        else:
            dtype = torch.float16 if self.options.amp == "fp16" else torch.bfloat16
            with torch.autocast(self.device.type, dtype=dtype):
                logits = self.run(images)
            logits = logits.float()
        return F.cross_entropy(logits, labels), logits

    def train_step(self, images, labels):
        """One optimizer step over a batch, in `accumulate` parts; returns (mean loss, number right, gradient norm)."""
        self.run.train()
        self.optimizer.zero_grad(set_to_none=True)  # why: gradients add up; forgetting this trains on old batches too
        loss_sum, right = 0.0, 0
        parts = self.options.accumulate
        for part, (x, y) in enumerate(zip(images.chunk(parts), labels.chunk(parts))):
            with no_sync(self.run, self.options.ddp and part + 1 < parts):
                loss, logits = self.forward(x, y)
                # why: divided by the parts, so that 4 x 32 gives the gradient of 1 x 128; but BatchNorm sees 32 images
                self.scaler.scale(loss / parts).backward()
            loss_sum = loss_sum + loss.detach() / parts  # why: no .item() here, it would make the CPU wait for the GPU
            right = right + (logits.detach().argmax(1) == y).sum()
        norm = None
        if self.options.clip or self.options.every_step:
            self.scaler.unscale_(self.optimizer)  # why: before clipping, or the limit applies to scaled gradients
            norm = nn.utils.clip_grad_norm_(self.parameters, self.options.clip or math.inf)
        rate = self.scaler.get_scale()
        self.scaler.step(self.optimizer)  # left out when a gradient is inf or NaN
        self.scaler.update()
        if self.scaler.get_scale() >= rate:  # why: a step that was left out must not move the schedule either
            self.scheduler.step()
        self.step += 1
        return loss_sum, right, norm

    def evaluate(self, batches, size=250):
        """(mean loss, accuracy) over a whole set, without augmentation."""
        self.model.eval()  # why: BatchNorm uses its running statistics; without it results depend on the batch
        loss, right = 0.0, 0
        with torch.no_grad():  # why: no graph is kept, so far less memory is used
            for index in torch.arange(len(batches)).split(size):
                images, labels = batches.test(index)
                logits = self.model(images)
                loss = loss + F.cross_entropy(logits, labels, reduction="sum")
                right = right + (logits.argmax(1) == labels).sum()
        return float(loss) / len(batches), int(right) / len(batches)


def make_scaler(device_type, enabled):
    """GradScaler of this torch's generation."""
    if hasattr(torch.amp, "GradScaler"):
        return torch.amp.GradScaler(device_type if enabled else "cpu", enabled=enabled)
    return torch.cuda.amp.GradScaler(enabled=enabled)


class no_sync:  # noqa: N801 - used like a function
    """DDP's no_sync() while parts of a batch are still to come, else nothing."""

    def __init__(self, module, active):
        self.context = module.no_sync() if active and hasattr(module, "no_sync") else None

    def __enter__(self):
        if self.context:
            self.context.__enter__()

    def __exit__(self, *error):
        if self.context:
            self.context.__exit__(*error)


# -- Checkpoints -------------------------------------------------------------------------------------------------------

FORMAT = "train_cifar10-1"
SAME = "seed batch lr amp clip schedule warmup accumulate dtype smooth loader channels_last fused compile epochs steps data_kind"


def digest_of(value, digest=None):
    """SHA-256 over everything in a checkpoint, so that one changed bit anywhere is seen."""
    top, digest = digest is None, digest or hashlib.sha256()
    if isinstance(value, torch.Tensor):
        digest.update(fingerprint({"": value}).encode())
    elif isinstance(value, dict):
        for key in sorted(value, key=str):
            digest.update(str(key).encode())
            digest_of(value[key], digest)
    elif isinstance(value, (list, tuple)):
        digest.update(b"[%d" % len(value))
        for item in value:
            digest_of(item, digest)
    else:
        digest.update(repr(value).encode())
    return digest.hexdigest() if top else None


def save_checkpoint(path, trainer, history, losses, right):
    """Everything that the next step depends on, written whole or not at all."""
    state = {
        "model": trainer.model.state_dict(),
        "optimizer": trainer.optimizer.state_dict(),
        "scheduler": {"last_epoch": trainer.scheduler.last_epoch, "rates": [g["lr"] for g in trainer.optimizer.param_groups]},
        "scaler": trainer.scaler.state_dict(),
        "rng": torch.get_rng_state(),
        "rng_cuda": torch.cuda.get_rng_state() if trainer.device.type == "cuda" else None,
        "rng_python": random.getstate(),
        "step": trainer.step,
        "epoch_so_far": {"losses": torch.stack(losses).cpu() if losses else torch.zeros(0), "right": int(right)},
        "settings": {key: getattr(trainer.options, key) for key in SAME.split()},
        "history": history,
    }
    temporary = path + ".part"
    with open(temporary, "wb") as file:
        torch.save({"format": FORMAT, "state": state, "digest": digest_of(state)}, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)  # why: a crash while writing leaves the old checkpoint, never half a new one


def load_checkpoint(path, trainer):
    """Puts everything back; returns (history, losses and number right of the epoch so far).

    Refuses torn or changed files, and those of a run with other settings.
    """
    try:
        # why: weights_only refuses pickles that run code; map_location lets a GPU's checkpoint load on any device
        saved = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise Refused("%s: no such checkpoint" % path)
    except pickle.UnpicklingError:
        raise Refused("%s: not a checkpoint: it holds more than tensors and plain values, or no such file at all" % path)
    except Exception as error:
        words = (str(error) or type(error).__name__).splitlines()[0]
        raise Refused("%s: not a readable checkpoint, torn or foreign (%s)" % (path, words[:80]))
    if not isinstance(saved, dict) or saved.get("format") != FORMAT:
        raise Refused("%s: not a checkpoint of this program" % path)
    state = saved["state"]
    if digest_of(state) != saved["digest"]:
        raise Refused("%s: damaged, its content does not match its digest" % path)
    for key, value in state["settings"].items():
        if getattr(trainer.options, key) != value:
            raise Refused("%s: made with %s = %r, this run has %r" % (path, key, value, getattr(trainer.options, key)))
    trainer.model.load_state_dict(state["model"])
    trainer.optimizer.load_state_dict(state["optimizer"])
    trainer.scheduler.last_epoch = state["scheduler"]["last_epoch"]
    for group, rate in zip(trainer.optimizer.param_groups, state["scheduler"]["rates"]):
        group["lr"] = rate
    trainer.scaler.load_state_dict(state["scaler"])
    torch.set_rng_state(state["rng"])
    if trainer.device.type == "cuda" and state["rng_cuda"] is not None:
        torch.cuda.set_rng_state(state["rng_cuda"])
    version, numbers, gauss = state["rng_python"]
    random.setstate((version, tuple(numbers), gauss))
    trainer.step = state["step"]
    so_far = state["epoch_so_far"]
    return state["history"], [loss.to(trainer.device) for loss in so_far["losses"]], so_far["right"]


# -- Checks before a long run ------------------------------------------------------------------------------------------


EXPECTED = {  # (mean, std) of the training pixels in [0, 1], by channel
    "cifar10": (MEAN, STD),
    "made": ((0.503, 0.501, 0.495), (0.219, 0.220, 0.222)),
}


def check_data(kind, train, test):
    """Refuses data of a wrong shape, range, balance or colour; returns what was measured."""
    told = {}
    for name, (images, labels) in (("train", train), ("test", test)):
        if images.dtype != torch.uint8 or images.shape[1:] != (3, SIZE, SIZE) or len(images) != len(labels):
            raise Refused("%s set: images are %s %s, expected uint8 [N, 3, 32, 32]" % (name, images.dtype, tuple(images.shape)))
        counts = torch.bincount(labels, minlength=10).tolist()
        if len(counts) != 10 or min(counts) < 0.5 * len(labels) / 10 or max(counts) > 2 * len(labels) / 10:
            raise Refused("%s set: the classes 0 to 9 should have about the same number of images: %s" % (name, counts))
        sums = [torch.bincount(images[:, c].reshape(-1).long(), minlength=256).double() for c in range(3)]
        level = torch.arange(256).double() / 255
        mean = [float((s * level).sum() / s.sum()) for s in sums]
        std = [math.sqrt(float((s * level * level).sum() / s.sum()) - m * m) for s, m in zip(sums, mean)]
        for what, seen, wanted in (("mean", mean, EXPECTED[kind][0]), ("std", std, EXPECTED[kind][1])):
            # std of single pixels as the whole set has it; the recipe's own figures are known to three digits
            if any(abs(a - b) > 0.02 for a, b in zip(seen, wanted)):
                raise Refused("%s set: %s by channel is %s, expected %s" % (name, what, [round(v, 4) for v in seen], wanted))
        told[name] = {"images": len(images), "per_class": counts, "mean": mean, "std": std}
    return told


def overfit_one_batch(options, device, batches, steps=60, size=32):
    """(loss after training on one fixed batch, gradient norms by parameter in the first step).

    why: a model that cannot learn 32 images by heart has a bug, and no epoch of training will tell you where.
    """
    plain = {"schedule": "constant", "warmup": 0, "accumulate": 1, "ddp": False, "compile": False, "clip": 0.0}
    trainer = Trainer(argparse.Namespace(**dict(vars(options), **plain)), device, steps)
    images, labels = batches.test(torch.arange(size))
    norms = None
    for _ in range(steps):
        loss, _, _ = trainer.train_step(images, labels)
        norms = norms or gradient_norms(trainer)
    return float(loss), norms


def gradient_norms(trainer):
    """Norm of the gradient by parameter: None tells of a cut graph, 0 of a dead one, a huge one of an exploding one."""
    return {n: None if p.grad is None else float(p.grad.norm()) for n, p in trainer.model.named_parameters()}


def self_check(options, device, batches):
    """Overfits one batch and looks at the gradients; refuses to go on where that fails."""
    loss, norms = overfit_one_batch(options, device, batches)
    if not loss < 0.1:
        raise Refused("self-check: 60 steps on the same 32 images end at loss %s, expected near 0" % loss)
    for name, norm in norms.items():
        # A bias ahead of BatchNorm has gradient 0 by its nature, up to rounding.
        bias_before_norm = name.startswith("conv") and name.endswith("bias")
        if norm is None or not math.isfinite(norm) or norm > 1e3 or (norm < 1e-7 and not bias_before_norm):
            raise Refused("self-check: the gradient of %s has norm %s" % (name, norm))
    return {"loss": loss, "gradient_norms": norms}


# -- The run -----------------------------------------------------------------------------------------------------------


def pick_device(name):
    """The named device, or the best there is."""
    if name != "auto":
        return torch.device(name)
    if torch.cuda.is_available():
        return torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
    if getattr(torch, "xpu", None) is not None and torch.xpu.is_available():
        return torch.device("xpu", 0)
    if getattr(torch.backends, "mps", None) is not None and torch.backends.mps.is_available():
        return torch.device("mps")
    return torch.device("cpu")


def train(options, say):
    """Trains, calls `say(event dict)` as it goes, and returns the trainer."""
    seed_everything(options.seed)
    if options.deterministic:
        make_deterministic()
    if options.threads:
        torch.set_num_threads(options.threads)
    device = pick_device(options.device)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    rank, world = 0, 1
    if options.ddp:
        torch.distributed.init_process_group("nccl" if device.type == "cuda" else "gloo")
        rank, world = torch.distributed.get_rank(), torch.distributed.get_world_size()
    try:
        return run(options, device, rank, world, say if rank == 0 else lambda event: None)
    finally:
        if options.ddp:
            torch.distributed.destroy_process_group()


def run(options, device, rank, world, say):
    """The training of one process of `world`."""
    if options.batch % (world * options.accumulate):
        raise Refused("--batch %d cannot be shared by %d processes in %d parts" % (options.batch, world, options.accumulate))
    options.data_kind = "cifar10" if options.data else "made"
    data = read_cifar10(options.data) if options.data else made_dataset()
    say({"stage": "data", "source": options.data_kind, "checked": check_data(options.data_kind, *data)})
    dtype = getattr(torch, options.dtype)
    test_batches = Batches(data[1], device, options.seed, dtype, options.channels_last)
    if options.loader:
        batches = loader_batches(options, data[0], device)
    else:
        batches = Batches(data[0], device, options.seed, dtype, options.channels_last)
    if options.self_check:
        say(dict(self_check(options, device, test_batches), stage="self-check"))
    per_epoch = len(batches) // options.batch  # the last, shorter batch is left out, so that all steps weigh the same
    total = options.steps or options.epochs * per_epoch
    trainer = Trainer(options, device, total)
    history, losses, right = load_checkpoint(options.checkpoint, trainer) if options.resume else ([], [], 0)
    say({"stage": "start", "device": str(device), "step": trainer.step, "total": total, "weights": fingerprint(trainer.model.state_dict())})
    board = open_board(options.tensorboard) if rank == 0 else None

    def due():
        return rank == 0 and options.checkpoint_every and trainer.step % options.checkpoint_every == 0

    if options.checkpoint_every and not options.resume and rank == 0:
        save_checkpoint(options.checkpoint, trainer, history, losses, right)  # a run that is killed at once can resume too
    while trainer.step < total:
        epoch, first = divmod(trainer.step, per_epoch)
        order = batches.order(epoch)
        chunks = [order[s * options.batch:(s + 1) * options.batch] for s in range(first, min(per_epoch, first + total - trainer.step))]
        begun, before = time.perf_counter(), len(losses)
        for images, labels in batches.epoch_of([chunk.chunk(world)[rank] for chunk in chunks], epoch):
            loss, hits, norm = trainer.train_step(images, labels)
            if world > 1:  # each process saw its own part of the batch
                loss, hits = sum_over(loss) / world, sum_over(hits)
            losses.append(loss)
            right = right + hits
            if options.every_step:
                say({"stage": "step", "step": trainer.step, "loss": float(loss).hex(), "norm": float(norm).hex()})
            if due() and trainer.step % per_epoch and trainer.step < total:
                save_checkpoint(options.checkpoint, trainer, history, losses, right)
        train_loss = float(torch.stack(losses).mean())  # waits for the device: only now is the time of the epoch known
        seconds = time.perf_counter() - begun
        row = {"epoch": epoch + 1, "step": trainer.step, "train_loss": train_loss}
        row["train_accuracy"] = int(right) / (len(losses) * options.batch)
        row["test_loss"], row["test_accuracy"] = trainer.evaluate(test_batches)
        history.append(row)
        say(dict(row, stage="epoch", images_per_second=(len(losses) - before) * options.batch / seconds))
        losses, right = [], 0
        if due():
            save_checkpoint(options.checkpoint, trainer, history, losses, right)
        if board is not None:
            for key in ("train_loss", "train_accuracy", "test_loss", "test_accuracy"):
                board.add_scalar(key, row[key], trainer.step)
        if not math.isfinite(train_loss):
            raise Refused("the loss is %s after step %d: lower --lr, add --clip 1, or use bf16 in place of fp16" % (train_loss, trainer.step))
    if board is not None:
        board.close()
    if options.checkpoint and rank == 0:
        save_checkpoint(options.checkpoint, trainer, history, losses, right)
    if options.onnx and rank == 0:
        say({"stage": "onnx", "largest_difference": export_onnx(trainer, test_batches, options.onnx)})
    say({"stage": "done", "step": trainer.step, "weights": fingerprint(trainer.model.state_dict()), "history": history})
    return trainer


def sum_over(value):
    """Sum of a tensor over all processes."""
    torch.distributed.all_reduce(value)
    return value


def open_board(folder):
    """A TensorBoard writer, or None when not asked for."""
    if not folder:
        return None
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise Refused("--tensorboard needs the package tensorboard: pip install tensorboard")
    return SummaryWriter(folder)


def export_onnx(trainer, batches, path):
    """Writes the model and returns the largest difference between its outputs and torch's; needs onnx and onnxruntime."""
    try:
        import onnxruntime

        import onnx  # noqa: F401 - torch needs it
    except ImportError:
        raise Refused("--onnx needs the packages onnx, onnxscript and onnxruntime: pip install onnx onnxscript onnxruntime")
    model = SimpleCNN(smooth=trainer.options.smooth).eval()  # a copy: the trained one stays where and as it is
    model.load_state_dict({k: v.detach().cpu() for k, v in trainer.model.state_dict().items()})
    images = batches.test(torch.arange(16))[0].cpu().float().contiguous()
    torch.onnx.export(model, (images,), path, input_names=["images"], output_names=["logits"])
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    output = torch.from_numpy(session.run(None, {"images": images.numpy()})[0])
    with torch.no_grad():
        return float((output - model(images)).abs().max())


def parse(arguments=None):
    """The command line as a namespace."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--data", help="folder that holds cifar-10-batches-py; without it, images made from integers")
    add("--epochs", type=int, default=20)
    add("--steps", type=int, default=0, help="this many steps instead of whole epochs")
    add("--batch", type=int, default=128, help="images of one optimizer step, over all processes and parts")
    add("--lr", type=float, default=0.1)
    add("--schedule", choices=("constant", "cosine"), default="constant")
    add("--warmup", type=int, default=0, help="steps of linear warm-up")
    add("--clip", type=float, default=0.0, help="largest gradient norm; 0 = no clipping")
    add("--accumulate", type=int, default=1, help="parts that a batch is computed in, to save memory")
    add("--amp", choices=("", "fp16", "bf16"), default="", help="mixed precision")
    add("--dtype", choices=("float32", "float64"), default="float32")
    add("--smooth", action="store_true", help="the twin without kinks, for comparing machines")
    add("--compile", action="store_true", help="torch.compile")
    add("--channels-last", action="store_true", help="the faster memory layout of convolutions on most devices")
    add("--fused", action="store_true", help="the fused SGD kernel")
    add("--loader", action="store_true", help="torchvision dataset and DataLoader in place of the set on the device")
    add("--workers", type=int, default=2, help="DataLoader processes with --loader")
    add("--device", default="auto")
    add("--threads", type=int, default=0, help="CPU threads; 0 = torch's own choice")
    add("--seed", type=int, default=0)
    add("--deterministic", action="store_true", help="the same bits twice")
    add("--checkpoint", help="file to write to")
    add("--checkpoint-every", type=int, default=0, help="steps between checkpoints")
    add("--resume", action="store_true", help="go on from --checkpoint")
    add("--ddp", action="store_true", help="under torchrun: data parallel")
    add("--self-check", action="store_true", help="first see whether one batch can be learnt by heart, and the gradients")
    add("--tensorboard", help="folder for TensorBoard")
    add("--onnx", help="file for the trained model, its outputs compared")
    add("--report", action="store_true", help="events as JSON lines, for other programs")
    add("--every-step", action="store_true", help="report each step's loss and gradient norm, exactly")
    options = parser.parse_args(arguments)
    if options.loader and options.dtype != "float32":
        parser.error("--loader gives float32 images")
    if options.amp and options.dtype != "float32":
        parser.error("--amp is for float32 models")
    if (options.resume or options.checkpoint_every) and not options.checkpoint:
        parser.error("--resume and --checkpoint-every need --checkpoint FILE")
    if options.batch % options.accumulate:
        parser.error("--batch must be a multiple of --accumulate")
    return options


def tell(event):
    """Events for a person."""
    if event["stage"] == "epoch":
        print(
            "epoch %(epoch)3d  step %(step)6d  train loss %(train_loss).4f  acc %(train_accuracy).4f  "
            "test loss %(test_loss).4f  acc %(test_accuracy).4f  %(images_per_second).0f images/s" % event,
            flush=True,
        )
    elif event["stage"] != "step":
        print(event["stage"] + ": " + ", ".join("%s %s" % i for i in event.items() if i[0] not in ("stage", "history", "checked")), flush=True)


def tell_programs(event):
    """Events for other programs, one marked line each."""
    print("@envcheck@ " + json.dumps(event), flush=True)


def main():
    options = parse()
    try:
        train(options, tell_programs if options.report else tell)
    except Refused as error:
        sys.exit("train_cifar10: %s" % error)


if __name__ == "__main__":
    main()
