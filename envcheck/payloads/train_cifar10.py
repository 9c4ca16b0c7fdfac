#!/usr/bin/env python3
"""Train a small CNN on CIFAR-10, seeded: a reference run, and a start for a project of your own.

    python train_cifar10.py --data DIR                  20 epochs, the plain recipe
    python train_cifar10.py --epochs 3                  no data needed: images made from integers
    torchrun --nproc_per_node 2 train_cifar10.py --ddp  two processes, each half of every batch

Needs torch 1.13 or newer, numpy for --data, torchvision for --loader; for CUDA (NVIDIA and ROCm), MPS, XPU and the CPU.
The practices that matter are marked with "why:". Read as far as "Checks and export"; the rest stands around it.
"""
import argparse
import contextlib
import ctypes
import hashlib
import importlib
import inspect
import json
import math
import os
import pathlib
import pickle
import random
import sys
import time
import zipfile

import torch
import torch.nn.functional as F
from torch import nn

MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)  # of the training images, by channel, in [0, 1]
PAD, SIZE = 4, 32
ORDER, CROP, WEIGHTS, SAMPLE = 0, 1, 2, 60  # purposes of random numbers; WEIGHTS + n is the n-th parameter
FILES = {  # md5 of the original files, the same that torchvision checks
    "data_batch_1": "c99cafc152244af753f735de768cd75f", "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
    "data_batch_3": "54ebc095f3ab1f0389bbae665268c751", "data_batch_4": "634d18415352ddfa80567beed471001a",
    "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb", "test_batch": "40351d587109b95175f43aff81a1287e",
}


class Refused(Exception):
    """Bad input: the message is one line for the user."""


# -- Random numbers ----------------------------------------------------------------------------------------------------

def mix(counter):
    """splitmix64: an int64 tensor of counters -> 64 random bits for each, the same on every machine."""
    z = counter * -7046029254386353131  # 0x9E3779B97F4A7C15; int64 products wrap, as the algorithm wants
    z = (z ^ ((z >> 30) & 0x3FFFFFFFF)) * -4658895280553007687
    z = (z ^ ((z >> 27) & 0x1FFFFFFFFF)) * -7723592293110705685
    return z ^ ((z >> 31) & 0x1FFFFFFFF)


def bits(seed, purpose, count, epoch=0):
    """`count` random int64 for one purpose of one epoch.

    why: torch's own generators differ between CPUs and GPUs, and what they give depends on what was drawn before. These
    depend on their arguments alone: neither a resume in mid-epoch nor the number of workers changes them.
    """
    start = mix(torch.tensor([(seed * 1000003 + epoch) * 64 + purpose], dtype=torch.int64))
    return mix(start + torch.arange(count, dtype=torch.int64))


def seed_everything(seed):
    """Seeds every generator that a library below this program may use."""
    random.seed(seed)
    torch.manual_seed(seed)  # CPU and every device
    with contextlib.suppress(ImportError):
        import numpy

        numpy.random.seed(seed % 2 ** 32)


def make_deterministic():
    """The same bits twice on the same machine; call it before the first use of the device."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # why: cuBLAS may otherwise pick by what memory is free
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.benchmark = False  # why: benchmark picks by timing, so the choice changes from run to run
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.allow_tf32 = False  # why: TF32 keeps 10 bits of the mantissa; a reference wants all 23
    torch.backends.cuda.matmul.allow_tf32 = False


# -- Data --------------------------------------------------------------------------------------------------------------

def read_cifar10(folder):
    """((images uint8 [50000, 3, 32, 32], labels int64), (test images [10000, ...], labels))."""
    parts = []
    for name, md5 in FILES.items():
        path = pathlib.Path(folder, "cifar-10-batches-py", name)
        try:
            data = path.read_bytes()
        except OSError as error:
            raise Refused("%s: %s; --data wants the folder that holds cifar-10-batches-py" % (path, error.strerror))
        if hashlib.md5(data).hexdigest() != md5:
            raise Refused("%s: not the original CIFAR-10 file (%d bytes, wrong md5): copy it again" % (path, len(data)))
        entry = pickle.loads(data, encoding="latin1")  # why: only after the md5 check; a pickle can run any code
        parts.append((torch.from_numpy(entry["data"]).reshape(-1, 3, SIZE, SIZE), torch.tensor(entry["labels"])))
    images, labels = zip(*parts[:5])
    return (torch.cat(images), torch.cat(labels)), parts[5]


def made_dataset(train=5000, test=1000, seed=7):
    """Images made from integers alone, the same bits everywhere: ten blocky patterns, shifted, dimmed, under noise.

    Not CIFAR-10, and no measure of a model: it proves that training works and repeats without any download.
    """
    half = (bits(seed, 1, 10 * 3 * 8 * 4) & 0xFF).reshape(10, 3, 8, 4)
    blocks = torch.cat([half, half.flip(3)], 3)  # mirror images: a flip must not turn one class into another
    pattern = blocks.repeat_interleave(4, 2).repeat_interleave(4, 3)  # 10 x 3 x 32 x 32
    channel, reach = torch.arange(3)[:, None, None], torch.arange(SIZE)
    result = []
    for number, count in enumerate((train, test)):
        draw = bits(seed, 2 + number, count)[:, None, None, None]
        labels = (draw & 0x7FFFFFFF) % 10
        rows, cols = (reach[:, None] + ((draw >> 32) & 7)) % SIZE, (reach + ((draw >> 36) & 7)) % SIZE
        strength = 64 + ((draw >> 40) & 31)  # of 256: how much is pattern; the rest is noise
        noise = (bits(seed, 4 + number, count * 3 * SIZE * SIZE // 8)[:, None] >> (8 * torch.arange(8))) & 0xFF
        noise = noise.reshape(count, 3, SIZE, SIZE)
        images = (pattern[labels, channel, rows, cols] * strength + noise * (256 - strength)) // 256
        result.append((images.to(torch.uint8), labels.reshape(-1)))
    return tuple(result)


class Batches:
    """The whole set on the device as uint8; a batch is one gather that crops and flips, then a table look-up.

    why: decoding and transforming image by image in Python costs more than a GPU's whole training step.
    """

    def __init__(self, data, device, seed, dtype=torch.float32, channels_last=False):
        images, self.labels = data[0].to(device), data[1].to(device)
        self.images = F.pad(images, (PAD, PAD, PAD, PAD))  # black borders, as RandomCrop(32, padding=4) has
        self.device, self.seed, self.epoch = device, seed, None
        self.format = torch.channels_last if channels_last else torch.contiguous_format
        # why: a table, rounded once from float64, so that no fused multiply-add of some CPU can change a bit
        mean, std = torch.tensor(MEAN).double()[:, None], torch.tensor(STD).double()[:, None]
        self.table = ((torch.arange(256).double() / 255 - mean) / std).to(dtype).to(device)
        self.channel = torch.arange(3, device=device)[None, :, None, None]
        self.reach = torch.arange(SIZE, device=device)[None]
        self.middle = self.reach + PAD

    def __len__(self):
        return len(self.labels)

    def order(self, epoch):
        """All indices in the order of that epoch, on the CPU."""
        return torch.argsort(bits(self.seed, ORDER, len(self), epoch))

    def begin(self, epoch):
        """Draws every image's crop and flip of that epoch, and sends them to the device in one go."""
        if self.epoch != epoch:
            draw = bits(self.seed, CROP, len(self), epoch)
            drawn = [(draw & 0xFFFF) % (2 * PAD + 1), ((draw >> 16) & 0xFFFF) % (2 * PAD + 1), (draw >> 40) & 1]
            top, left, flip = torch.stack(drawn).to(self.device)[:, :, None]
            across = torch.where(flip == 1, SIZE - 1 - self.reach, self.reach)
            self.rows, self.cols, self.epoch = top + self.reach, left + across, epoch

    def train(self, index, epoch):
        """(images [B, 3, 32, 32] cropped, flipped and normalised, labels [B]) of those indices."""
        self.begin(epoch)
        index = index.to(self.device)
        return self._take(index, self.rows[index], self.cols[index])

    def test(self, index):
        """The same without augmentation. why: a test set that is augmented measures something else."""
        middle = self.middle.expand(len(index), SIZE)
        return self._take(index.to(self.device), middle, middle)

    def epoch_of(self, chunks, epoch):
        """Yields a batch for each index tensor of `chunks`."""
        # why: a copy to a GPU waits for all that it was given before; so one copy, and not one for each batch
        index = torch.cat(chunks).to(self.device)
        for part in index.split([len(chunk) for chunk in chunks]):
            yield self.train(part, epoch)

    def _take(self, index, rows, cols):
        picked = self.images[index[:, None, None, None], self.channel, rows[:, None, :, None], cols[:, None, None, :]]
        return self.table[self.channel, picked.long()].contiguous(memory_format=self.format), self.labels[index]


class SeededImages(torch.utils.data.Dataset):
    """Images through random transforms that depend on (seed, epoch, index) alone; `images[i]` is (PIL image, label).

    why: torch gives each worker a random stream of its own, so the augmentation of an image changes with the number
    of workers, and after a resume.
    """

    def __init__(self, images, transform, seed):
        self.images, self.transform, self.seed = images, transform, seed

    def __getitem__(self, key):
        epoch, index = key
        image, label = self.images[index]
        with torch.random.fork_rng(devices=[]):  # without workers this is the training's own generator: leave it alone
            number = epoch * len(self.images) + index
            torch.default_generator.manual_seed(int(bits(self.seed, SAMPLE, 1, number)))
            return self.transform(image), label


class LoaderBatches:
    """--loader, what most programs do: PIL images, transforms image by image, a DataLoader with workers."""

    def __init__(self, options, data, device):
        t = need("torchvision.transforms", "--loader", "torchvision")
        self.labels, self.seed, self.device = data[1], options.seed, device
        self.format = torch.channels_last if options.channels_last else torch.contiguous_format
        augment = [t.RandomCrop(SIZE, padding=PAD), t.RandomHorizontalFlip()]
        transform = t.Compose(augment + [t.ToTensor(), t.Normalize(MEAN, STD)])
        if options.data:
            try:
                images = need("torchvision.datasets", "--loader", "torchvision").CIFAR10(options.data, train=True)
            except RuntimeError:  # the files that are trained on were read already
                raise Refused("%s: batches.meta is missing or changed; --loader wants it" % options.data)
        else:
            images = [(t.ToPILImage()(image), int(label)) for image, label in zip(*data)]
        self.plan = []  # the batches of the epoch that comes: the loader reads this list anew in each pass
        self.loader = torch.utils.data.DataLoader(
            SeededImages(images, transform, options.seed),
            batch_sampler=self.plan,
            num_workers=options.workers,
            persistent_workers=options.workers > 0,  # why: starting workers anew for each epoch costs seconds
            pin_memory=device.type == "cuda",  # why: only pinned memory can be copied while the GPU computes
            generator=torch.Generator().manual_seed(options.seed),  # why: random and numpy of the workers follow it
        )

    __len__, order = Batches.__len__, Batches.order

    def epoch_of(self, chunks, epoch):
        """Yields a batch for each index tensor of `chunks`."""
        self.plan[:] = [[(epoch, int(i)) for i in chunk] for chunk in chunks]
        for images, labels in self.loader:
            images = images.to(self.device, non_blocking=True).contiguous(memory_format=self.format)
            yield images, labels.to(self.device, non_blocking=True)


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
        self.fc, self.smooth = nn.Linear(256, classes), smooth

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


@torch.no_grad()
def initialise(model, seed):
    """torch's default distribution (uniform, +-1/sqrt(fan in)), drawn from integers: the same weights everywhere."""
    layers = [m for m in model.modules() if isinstance(m, (nn.Conv2d, nn.Linear))]
    for number, layer in enumerate(layers):
        bound = 1.0 / math.sqrt(layer.weight[0].numel())
        for part, tensor in enumerate((layer.weight, layer.bias)):
            draw = bits(seed, WEIGHTS + 2 * number + part, tensor.numel())
            uniform = ((draw >> 11) & ((1 << 53) - 1)).double() * 2.0 ** -53  # in [0, 1), from the upper 53 bits
            tensor.copy_(((2 * uniform - 1) * bound).reshape(tensor.shape))


def fingerprint(tensors):
    """SHA-256 over the exact bits of named tensors."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        value = tensors[name].detach().cpu().contiguous()
        digest.update(("%s %s %s" % (name, value.dtype, tuple(value.shape))).encode())
        digest.update(ctypes.string_at(value.data_ptr(), value.numel() * value.element_size()))
    return digest.hexdigest()


# -- Training step and evaluation --------------------------------------------------------------------------------------

def learning_rate(step, total, schedule, warmup):
    """Factor on the base rate: linear warm-up (reaching 1 at step `warmup`), then constant or a cosine down to 0."""
    if step < warmup:
        return (step + 1) / warmup
    if schedule == "constant":
        return 1.0
    return 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(1, total - warmup)))


class Trainer:
    """Model, optimizer, schedule and scaler, how far they are, and the one place where a step is made."""

    def __init__(self, options, device, total):
        self.options, self.device = options, device
        self.step, self.total, self.history = 0, total, []
        self.losses, self.right = [], 0  # of the epoch so far
        self.model = SimpleCNN(smooth=options.smooth)
        initialise(self.model, options.seed)
        self.model = self.model.to(device=device, dtype=getattr(torch, options.dtype))
        if options.channels_last:
            self.model = self.model.to(memory_format=torch.channels_last)
        self.parameters = list(self.model.parameters())
        recipe = {"lr": options.lr, "momentum": 0.9, "weight_decay": 5e-4}
        try:
            self.optimizer = torch.optim.SGD(self.parameters, **recipe, **({"fused": True} if options.fused else {}))
        except (TypeError, RuntimeError):  # a torch that has no fused SGD, or none for this device
            self.optimizer = torch.optim.SGD(self.parameters, **recipe)
        self.scheduler = torch.optim.lr_scheduler.LambdaLR(
            self.optimizer, lambda step: learning_rate(step, total, options.schedule, options.warmup)
        )
        # why: fp16 gradients underflow to 0; the scaler multiplies the loss and divides the gradients again. bf16 has
        # the range of float32 and needs none.
        if hasattr(torch.amp, "GradScaler"):  # torch 2.3 and newer
            self.scaler = torch.amp.GradScaler(device.type, enabled=options.amp == "fp16")
        else:
            self.scaler = torch.cuda.amp.GradScaler(enabled=options.amp == "fp16")
        self.run = self.model
        self.rank, self.world = 0, 1
        if options.ddp:
            self.rank, self.world = torch.distributed.get_rank(), torch.distributed.get_world_size()
            ids = None if device.index is None else [device.index]
            self.run = nn.parallel.DistributedDataParallel(self.model, device_ids=ids)
        if options.compile:
            self.run = torch.compile(self.run)

    def forward(self, images, labels):
        """(loss, logits) under autocast where asked; the loss is always computed in float32."""
        if not self.options.amp:
            logits = self.run(images)
        else:
            with torch.autocast(self.device.type, torch.float16 if self.options.amp == "fp16" else torch.bfloat16):
                logits = self.run(images)
            logits = logits.float()
        return F.cross_entropy(logits, labels), logits

    def train_step(self, images, labels):
        """One optimizer step over a batch, in `accumulate` parts; returns (mean loss, number right, gradient norm)."""
        self.run.train()
        self.optimizer.zero_grad(set_to_none=True)  # why: gradients add up; forgetting this trains on old batches too
        loss_sum, right, norm = 0.0, 0, None
        parts = self.options.accumulate
        for part, (x, y) in enumerate(zip(images.chunk(parts), labels.chunk(parts))):
            # why: DDP sums gradients over the processes in each backward pass; that of the last part is enough
            alone = self.options.ddp and part + 1 < parts
            with self.run.no_sync() if alone else contextlib.nullcontext():
                loss, logits = self.forward(x, y)
                # why: divided by the parts, so that 4 x 32 gives the gradient of 1 x 128; but BatchNorm sees 32 images
                self.scaler.scale(loss / parts).backward()
            loss_sum = loss_sum + loss.detach() / parts  # why: no .item() here, it would make the CPU wait for the GPU
            right = right + (logits.detach().argmax(1) == y).sum()
        if self.options.clip or self.options.every_step:
            self.scaler.unscale_(self.optimizer)  # why: before clipping, or the limit applies to scaled gradients
            norm = nn.utils.clip_grad_norm_(self.parameters, self.options.clip or math.inf)
        scale = self.scaler.get_scale()  # 1 without fp16; with it the CPU waits for the GPU here
        self.scaler.step(self.optimizer)  # left out when a gradient is inf or NaN
        self.scaler.update()
        if self.scaler.get_scale() >= scale:  # why: a step that was left out must not move the schedule either
            self.scheduler.step()
        self.step += 1
        if self.options.ddp:  # each process saw its own part of the batch
            torch.distributed.all_reduce(loss_sum)
            torch.distributed.all_reduce(right)
            loss_sum = loss_sum / self.world
        return loss_sum, right, norm

    @torch.no_grad()  # why: no graph is kept, so far less memory is used
    def evaluate(self, batches, size=250):
        """(mean loss, accuracy) over a whole set, without augmentation."""
        self.model.eval()  # why: BatchNorm uses its running statistics; without it results depend on the batch
        loss, right = 0.0, 0
        for index in torch.arange(len(batches), device=batches.device).split(size):
            images, labels = batches.test(index)
            logits = self.model(images)
            loss = loss + F.cross_entropy(logits, labels, reduction="sum")
            right = right + (logits.argmax(1) == labels).sum()
        return float(loss) / len(batches), int(right) / len(batches)


# -- Checkpoint --------------------------------------------------------------------------------------------------------

FORMAT = "train_cifar10-2"
SAME = ("data_kind", "loader", "seed", "batch", "epochs", "steps", "lr", "schedule", "warmup", "clip", "accumulate",
        "amp", "dtype", "smooth", "channels_last", "fused", "compile")  # must be those of the checkpoint


def save_checkpoint(path, trainer):
    """Everything that the next step depends on, written whole or not at all; nothing without a path."""
    if not path or trainer.rank:  # one process writes
        return
    optimizer = trainer.optimizer.state_dict()
    plain = {
        "format": FORMAT,
        "settings": {name: getattr(trainer.options, name) for name in SAME},
        "step": trainer.step,
        "history": trainer.history,
        "right": int(trainer.right),
        "groups": optimizer["param_groups"],  # with the learning rate of the next step
        "scheduler": trainer.scheduler.last_epoch,
        "scaler": trainer.scaler.state_dict(),
    }
    state = {
        "plain": json.dumps(plain),  # as text, for weights_only of torch 1.13 knows no floats
        "model": trainer.model.state_dict(),
        "optimizer": optimizer["state"],
        "losses": torch.stack(trainer.losses).cpu() if trainer.losses else torch.zeros(0),
        "rng": [torch.get_rng_state()] + ([torch.cuda.get_rng_state()] if trainer.device.type == "cuda" else []),
    }
    with open(path + ".part", "wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".part", path)  # why: a crash while writing leaves the old checkpoint, never half a new one


def load_checkpoint(path, trainer):
    """Puts everything back; refuses torn, changed and foreign files, and those of a run with other settings."""
    try:
        damaged = zipfile.ZipFile(path).testzip()  # why: each part has a checksum, which torch.load does not look at
        # why: weights_only refuses pickles that run code; map_location lets a GPU's checkpoint load on any device
        state = torch.load(path, map_location="cpu", weights_only=True)
        plain = json.loads(state["plain"])
        if damaged or plain["format"] != FORMAT:
            raise ValueError("wrong checksum" if damaged else "another format")
    except Exception as error:  # a torn or foreign file fails in many ways
        words = (str(error) or type(error).__name__).splitlines()[0]
        raise Refused("%s: not a whole checkpoint of this program (%s)" % (path, words[:80]))
    for name, value in plain["settings"].items():
        here = getattr(trainer.options, name)
        if here != value:
            raise Refused("%s: made with %s = %r, this run has %r" % (path, name, value, here))
    trainer.model.load_state_dict(state["model"])
    trainer.optimizer.load_state_dict({"state": state["optimizer"], "param_groups": plain["groups"]})
    trainer.scheduler.last_epoch = plain["scheduler"]
    trainer.scaler.load_state_dict(plain["scaler"])
    torch.set_rng_state(state["rng"][0])
    if trainer.device.type == "cuda" and len(state["rng"]) > 1:
        torch.cuda.set_rng_state(state["rng"][1])
    trainer.step, trainer.history, trainer.right = plain["step"], plain["history"], plain["right"]
    trainer.losses = list(state["losses"].to(trainer.device))


# -- Run ---------------------------------------------------------------------------------------------------------------

def pick_device(name):
    """The named device, or the best there is; of several of a kind the one that torchrun means for this process."""
    kinds = {"cuda": torch.cuda, "xpu": getattr(torch, "xpu", None), "mps": getattr(torch.backends, "mps", None)}
    if name == "auto":
        name = next((kind for kind, backend in kinds.items() if backend and backend.is_available()), "cpu")
    if name in ("cuda", "xpu"):
        name += ":" + os.environ.get("LOCAL_RANK", "0")
    return torch.device(name)


def train_epoch(trainer, batches, say):
    """Steps to the end of the epoch, or of the run; returns (what the epoch gave, images a second)."""
    size, per_epoch = trainer.options.batch, len(batches) // trainer.options.batch
    epoch, first = divmod(trainer.step, per_epoch)
    end = min((epoch + 1) * per_epoch, trainer.total)
    chunks = batches.order(epoch)[first * size:].split(size)[:end - trainer.step]
    begun = told = time.perf_counter()
    for images, labels in batches.epoch_of([chunk.chunk(trainer.world)[trainer.rank] for chunk in chunks], epoch):
        loss, right, norm = trainer.train_step(images, labels)
        trainer.losses.append(loss)
        trainer.right = trainer.right + right
        if trainer.options.every_step:
            say({"stage": "step", "step": trainer.step, "loss": float(loss).hex(), "norm": float(norm).hex()})
        elif trainer.options.report and time.perf_counter() - told > 2:
            told = time.perf_counter()
            say({"stage": "progress", "epoch": epoch + 1, "step": trainer.step})
        every = trainer.options.checkpoint_every
        if every and trainer.step % every == 0 and trainer.step < end:
            save_checkpoint(trainer.options.checkpoint, trainer)
    mean = float(torch.stack(trainer.losses).mean())  # waits for the device: only now is the time known
    seconds = time.perf_counter() - begun
    accuracy = int(trainer.right) / (len(trainer.losses) * size)
    trainer.losses, trainer.right = [], 0
    row = {"epoch": epoch + 1, "step": trainer.step, "train_loss": mean, "train_accuracy": accuracy}
    return row, len(chunks) * size / seconds


def train(options, say):
    """The whole run; calls `say(event dict)` as it goes, and returns the trainer."""
    seed_everything(options.seed)
    if options.deterministic:
        make_deterministic()
    if options.threads:
        torch.set_num_threads(options.threads)
    device = pick_device(options.device)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    if options.ddp:
        torch.distributed.init_process_group("nccl" if device.type == "cuda" else "gloo")
        say = say if torch.distributed.get_rank() == 0 else lambda event: None  # one process speaks
    data, test_data = read_cifar10(options.data) if options.data else made_dataset()
    say({"stage": "data", "source": options.data_kind, "checked": check_data(options.data_kind, data, test_data)})
    form = options.seed, getattr(torch, options.dtype), options.channels_last
    batches = LoaderBatches(options, data, device) if options.loader else Batches(data, device, *form)
    tests = Batches(test_data, device, *form)
    if options.self_check:
        say(dict(self_check(options, device, tests), stage="self-check"))
    # The last, shorter batch of an epoch is left out, so that all steps weigh the same.
    trainer = Trainer(options, device, options.steps or options.epochs * (len(batches) // options.batch))
    if options.batch > len(batches) or options.batch % (trainer.world * options.accumulate):
        words = len(batches), trainer.world * options.accumulate
        raise Refused("--batch must be %d or less, and a multiple of processes x --accumulate = %d" % words)
    board = None
    if options.tensorboard and not trainer.rank:
        board = need("torch.utils.tensorboard", "--tensorboard", "tensorboard").SummaryWriter(options.tensorboard)
    for name in ("onnx", "onnxscript", "onnxruntime") if options.onnx else ():  # now, not when all is trained
        need(name, "--onnx", "onnx onnxscript onnxruntime")
    if options.resume:
        load_checkpoint(options.checkpoint, trainer)
    elif options.checkpoint_every:
        save_checkpoint(options.checkpoint, trainer)  # a run that is killed at once can resume too
    weights = fingerprint(trainer.model.state_dict())
    state = {"seed": options.seed, "step": trainer.step, "total": trainer.total, "weights": weights}
    say(dict(state, stage="start", torch=torch.__version__, device=str(device)))
    while trainer.step < trainer.total:
        row, rate = train_epoch(trainer, batches, say)
        row["test_loss"], row["test_accuracy"] = trainer.evaluate(tests)
        trainer.history.append(row)
        say(dict(row, stage="epoch", images_per_second=rate))
        if board:
            for name in ("train_loss", "train_accuracy", "test_loss", "test_accuracy"):
                board.add_scalar(name, row[name], trainer.step)
            board.flush()
        if not math.isfinite(row["train_loss"]):
            advice = "lower --lr, add --clip 1, or use bf16 in place of fp16"
            raise Refused("the loss is %s by step %d: %s" % (row["train_loss"], trainer.step, advice))
        save_checkpoint(options.checkpoint, trainer)
    if options.onnx and not trainer.rank:
        say({"stage": "onnx", "largest_difference": export_onnx(trainer.model, tests, options.onnx)})
    weights = fingerprint(trainer.model.state_dict())
    say({"stage": "done", "step": trainer.step, "weights": weights, "history": trainer.history})
    if options.ddp:
        torch.distributed.destroy_process_group()
    return trainer


# -- Checks and export -------------------------------------------------------------------------------------------------

EXPECTED = {"cifar10": (MEAN, STD), "made": ((0.503, 0.501, 0.495), (0.219, 0.220, 0.222))}  # mean and std by channel


def check_data(kind, train, test):
    """Refuses data of a wrong shape, range, balance or colour; returns what was measured."""
    told = {}
    for name, (images, labels) in (("train", train), ("test", test)):
        wanted = (len(labels), 3, SIZE, SIZE)
        if images.dtype != torch.uint8 or images.shape != wanted:
            seen = "%s %s" % (images.dtype, tuple(images.shape))
            raise Refused("%s set: images are %s, expected uint8 %s" % (name, seen, wanted))
        counts = torch.bincount(labels, minlength=10).tolist()
        if len(counts) != 10 or min(counts) < 0.05 * len(labels) or max(counts) > 0.2 * len(labels):
            raise Refused("%s set: the classes 0 to 9 should have about the same number of images: %s" % (name, counts))
        told[name] = {"images": len(images), "per_class": counts}
        for what, wanted in zip(("mean", "std"), EXPECTED[kind]):
            seen = [round(float(getattr(images[:, c].float(), what)()) / 255, 4) for c in range(3)]
            if any(abs(a - b) > 0.02 for a, b in zip(seen, wanted)):
                raise Refused("%s set: %s by channel is %s, expected %s" % (name, what, seen, wanted))
            told[name][what] = seen
    return told


def self_check(options, device, batches, steps=60, size=32):
    """Learns one batch by heart and looks at the gradients of the first step; refuses to go on where that fails.

    why: a model that cannot learn 32 images by heart has a bug, and no epoch of training will tell you where.
    """
    plain = dict(vars(options), schedule="constant", warmup=0, accumulate=1, clip=0.0, ddp=False, compile=False)
    trainer = Trainer(argparse.Namespace(**plain), device, steps)
    images, labels = batches.test(torch.arange(size))
    norms = {}
    for _ in range(steps):
        loss = float(trainer.train_step(images, labels)[0])
        for name, p in trainer.model.named_parameters():
            norms.setdefault(name, None if p.grad is None else float("%.3g" % p.grad.norm()))
    if not loss < 0.1:
        raise Refused("self-check: %d steps on the same %d images end at loss %s, not near 0" % (steps, size, loss))
    for name, norm in norms.items():  # None tells of a cut graph, 0 of a dead one
        bias_before_norm = name.startswith("conv") and name.endswith("bias")  # its gradient is 0 up to rounding
        if norm is None or not norm < 1e3 or (norm < 1e-7 and not bias_before_norm):
            raise Refused("self-check: the gradient of %s has norm %s" % (name, norm))
    return {"loss": loss, "gradient_norms": norms}


def export_onnx(model, batches, path):
    """Writes the model for any batch size; returns how far its outputs, by onnxruntime, are from torch's at most."""
    runtime = importlib.import_module("onnxruntime")
    copy = SimpleCNN(smooth=model.smooth).eval()  # the trained one stays where and as it is
    copy.load_state_dict({name: value.detach().cpu() for name, value in model.state_dict().items()})
    images = batches.test(torch.arange(16))[0].cpu().float().contiguous()
    one_file = {"external_data": False} if "external_data" in inspect.signature(torch.onnx.export).parameters else {}
    names = {"input_names": ["images"], "output_names": ["logits"]}
    any_size = {"images": {0: "batch"}, "logits": {0: "batch"}}
    torch.onnx.export(copy, (images[:8],), path, dynamic_axes=any_size, **names, **one_file)
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    output = torch.from_numpy(session.run(None, {"images": images.numpy()})[0])
    return float((output - copy(images)).detach().abs().max())


def need(module, option, packages):
    """Imports what only one option needs."""
    try:
        return importlib.import_module(module)
    except (ImportError, RuntimeError) as error:  # RuntimeError: a torchvision of another torch
        raise Refused("%s needs more packages (%s): pip install %s" % (option, error, packages))


# -- Command line ------------------------------------------------------------------------------------------------------

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
    add("--checkpoint", help="file to write to, after each epoch")
    add("--checkpoint-every", type=int, default=0, help="and each time after so many steps")
    add("--resume", action="store_true", help="go on from --checkpoint")
    add("--ddp", action="store_true", help="under torchrun: data parallel")
    add("--self-check", action="store_true", help="first learn one batch by heart, and look at the gradients")
    add("--tensorboard", help="folder for TensorBoard")
    add("--onnx", help="file for the trained model, its outputs compared")
    add("--report", action="store_true", help="events as JSON lines, for other programs")
    add("--every-step", action="store_true", help="report each step's loss and gradient norm, exactly")
    options = parser.parse_args(arguments)
    options.data_kind = "cifar10" if options.data else "made"
    if options.data and os.path.basename(os.path.abspath(options.data)) == "cifar-10-batches-py":
        options.data = os.path.dirname(os.path.abspath(options.data))
    if options.dtype == "float64" and (options.loader or options.amp):
        parser.error("--dtype float64 goes with neither --loader nor --amp")
    if (options.resume or options.checkpoint_every) and not options.checkpoint:
        parser.error("--resume and --checkpoint-every need --checkpoint FILE")
    for path in () if options.resume else filter(None, (options.checkpoint, options.onnx)):
        if os.path.exists(path):
            parser.error("%s exists already: go on from it by --resume, or take another name" % path)
    if options.compile and not hasattr(torch, "compile"):
        parser.error("--compile needs torch 2.0 or newer, this is %s" % torch.__version__)
    return options


def tell(event, for_programs):
    """Prints an event: in short for a person, or whole as one marked line."""
    if for_programs:
        print("@envcheck@ " + json.dumps(event), flush=True)
    else:
        values = {name: "%.5g" % value if isinstance(value, float) else value for name, value in event.items()}
        words = ["%s %s" % pair for pair in values.items() if pair[0] not in ("stage", "history", "checked")]
        print("%s: %s" % (event["stage"], "  ".join(words)), flush=True)


def main():
    options = parse()
    try:
        train(options, lambda event: tell(event, options.report))
    except Refused as error:
        sys.exit("train_cifar10: %s" % error)


if __name__ == "__main__":
    main()
