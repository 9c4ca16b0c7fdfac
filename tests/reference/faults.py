"""Plants faults into the training, one after the other, and prints what the checks measure: one JSON line each.

    faults.py GOLDEN NAME...     (or "all")

Faults act by replacing functions of this process; nothing in the product knows of them.
"""

import contextlib
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "envcheck", "payloads"))
import reference_checks as C
import reference_dissect as D
import torch
import torch.nn.functional as F
import train_cifar10 as T
from torch import nn

FAULTS = {}


def fault(kind, *causes, only=None):
    """Registers a fault: the kind of part that must be named, the causes that are right."""

    def add(function):
        FAULTS[function.__name__.replace("_", "-")] = (contextlib.contextmanager(function), kind, causes, only)
        return function

    return add


@contextlib.contextmanager
def patched(owner, name, value):
    old = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield old
    finally:
        setattr(owner, name, old)


@contextlib.contextmanager
def after_init(owner, change):
    """Runs `change(self)` after each construction."""
    init = owner.__init__

    def wrapped(self, *args, **keywords):
        init(self, *args, **keywords)
        change(self)

    with patched(owner, "__init__", wrapped):
        yield


def normalised(mean, std):
    @contextlib.contextmanager
    def plant():
        with patched(T, "MEAN", mean), patched(T, "STD", std):
            yield

    return plant()


# -- data


@fault("data", "normalisation")
def imagenet_mean_and_std():
    with normalised((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)):
        yield


@fault("data", "normalisation")
def much_copied_wrong_std():
    with normalised(T.MEAN, (0.2023, 0.1994, 0.2010)):
        yield


@fault("data", "normalisation")
def not_normalised():
    with normalised((0.0, 0.0, 0.0), (1.0, 1.0, 1.0)):
        yield


def images_changed(change):
    def apply(self):
        self.images = change(self.images)

    return after_init(T.Batches, apply)


@fault("data", "bgr")
def blue_green_red():
    with images_changed(lambda x: x.flip(1)):
        yield


@fault("data", "transposed", "images")
def rows_and_columns_exchanged():
    with images_changed(lambda x: x.transpose(2, 3).contiguous()):
        yield


def begin_changed(change):
    begin = T.Batches.begin

    def wrapped(self, epoch):
        fresh = self.epoch != epoch
        begin(self, epoch)
        if fresh:
            change(self)

    return patched(T.Batches, "begin", wrapped)


@fault("data", "no-flip")
def no_flip():
    with begin_changed(lambda b: setattr(b, "cols", b.cols.sort(1)[0])):
        yield


@fault("data", "no-crop")
def no_crop():
    def still(b):
        first = b.cols.min(1, keepdim=True)[0]
        b.rows, b.cols = (torch.arange(32) + 4)[None].expand_as(b.rows), b.cols - first + 4

    with begin_changed(still):
        yield


@fault("data", "not-augmented")
def no_augmentation():
    with patched(T.Batches, "train", lambda self, index, epoch: self.test(index)):
        yield


@fault("data", "order")
def not_shuffled():
    with patched(T.Batches, "order", lambda self, epoch: torch.arange(len(self))):
        yield


def batch_changed(change):
    train = T.Batches.train

    def wrapped(self, index, epoch):
        images, labels = train(self, index, epoch)
        return change(images.clone(), labels.clone())

    return patched(T.Batches, "train", wrapped)


@fault("data", "labels")
def one_wrong_label():
    def change(x, y):
        y[3] = (y[3] + 1) % 10
        return x, y

    with batch_changed(change):
        yield


@fault("data", "labels")
def one_percent_of_labels_wrong():
    def change(self):
        labels = self.labels.clone()
        labels[::100] = (labels[::100] + 1) % 10
        self.labels = labels

    with after_init(T.Batches, change):
        yield


@fault("data", "pixels")
def one_pixel_off_by_one():
    def change(x, y):
        x[0, 0, 5, 5] += 1 / 255 / T.STD[0]
        return x, y

    with batch_changed(change):
        yield


# -- forward


def model_changed(change):
    return after_init(T.SimpleCNN, change)


@fault("forward", "eps")
def batchnorm_eps():
    def change(m):
        for bn in (m.bn1, m.bn2, m.bn3):
            bn.eps = 1e-3

    with model_changed(change):
        yield


@fault("forward", "bias-missing")
def bias_not_added():
    def change(m):
        m.conv2.forward = lambda x: F.conv2d(x, m.conv2.weight, None, padding=1) + 0 * m.conv2.bias[:, None, None]

    with model_changed(change):
        yield


@fault("forward", "activation")
def leaky_relu():
    with patched(F, "relu", lambda x: F.leaky_relu(x, 0.01)):
        yield


@fault("forward", "activation")
def average_in_place_of_maximum():
    with patched(F, "max_pool2d", F.avg_pool2d):
        yield


@fault("forward", "layer")
def one_channel_dead():
    def change(m):
        def kill(module, inputs, output):
            output = output.clone()
            output[:, 7] = 0
            return output

        m.conv3.register_forward_hook(kill)

    with model_changed(change):
        yield


@fault("forward", "layer")
def one_element_of_one_output():
    def change(m):
        def spoil(module, inputs, output):
            output = output.clone()
            output[1, 3, 2, 2] = output[1, 3, 2, 2] * 1.001
            return output

        m.conv2.register_forward_hook(spoil)

    with model_changed(change):
        yield


@fault("forward", "label-smoothing")
def label_smoothing():
    plain = F.cross_entropy
    with patched(F, "cross_entropy", lambda x, y, **k: plain(x, y, **k) if k else plain(x, y, label_smoothing=0.1)):
        yield


@fault("forward", "loss-sum")
def sum_in_place_of_mean():
    plain = F.cross_entropy
    with patched(F, "cross_entropy", lambda x, y, **k: plain(x, y, reduction="sum")):
        yield


@fault("forward", "eval-in-training")
def left_in_eval_mode():
    with patched(T.SimpleCNN, "train", lambda self, mode=True: nn.Module.train(self, False)):
        yield


# -- backward


@fault("backward", "zero-grad")
def zero_grad_forgotten():
    with patched(torch.optim.SGD, "zero_grad", lambda self, set_to_none=True: None):
        yield


class Doubled:
    def __init__(self, real):
        self.real = real

    def scale(self, loss):
        return loss * 2

    def __getattr__(self, name):
        return getattr(self.real, name)


@fault("backward", "gradient-scale")
def loss_not_divided():
    with after_init(T.Trainer, lambda trainer: setattr(trainer, "scaler", Doubled(trainer.scaler))):
        yield


def gradient_changed(name, change):
    return model_changed(lambda m: dict(m.named_parameters())[name].register_hook(change) and None)


@fault("backward", "gradient")
def one_gradient_element():
    def change(g):
        g = g.clone()
        g[5, 3, 1, 1] *= 1.5
        return g

    with gradient_changed("conv2.weight", change):
        yield


@fault("backward", "gradient")
def gradient_with_the_wrong_sign():
    with gradient_changed("conv3.weight", lambda g: -g):
        yield


@fault("backward", "gradient")
def gradient_all_zero():
    with gradient_changed("bn2.weight", lambda g: g * 0):
        yield


@fault("backward", "no-gradient")
def layer_frozen():
    def change(m):
        m.conv1.weight.requires_grad_(False)

    with model_changed(change):
        yield


# -- optimizer


def optimizer_changed(**values):
    def change(self):
        for group in self.param_groups:
            group.update(values)

    return after_init(torch.optim.SGD, change)


@fault("optimizer", "lr")
def learning_rate_one_percent_up():
    def change(trainer):
        trainer.scheduler.base_lrs = [0.101]
        trainer.optimizer.param_groups[0]["lr"] *= 1.01

    with after_init(T.Trainer, change):
        yield


@fault("optimizer", "momentum")
def momentum_a_little_lower():
    with optimizer_changed(momentum=0.89):
        yield


@fault("optimizer", "weight-decay")
def no_weight_decay():
    with optimizer_changed(weight_decay=0.0):
        yield


@fault("optimizer", "optimizer", "momentum", "lr", "update", "weight-decay")
def nesterov():
    with optimizer_changed(nesterov=True):
        yield


@fault("optimizer", "not-updated")
def parameter_not_given_to_the_optimizer():
    def change(trainer):
        group = trainer.optimizer.param_groups[0]
        group["params"] = [p for p in group["params"] if p is not trainer.model.bn3.bias]

    with after_init(T.Trainer, change):
        yield


def at_step(number, change, before=True):
    step = T.Trainer.train_step

    def wrapped(self, images, labels):
        if before and self.step == number:
            change(self)
        result = step(self, images, labels)
        return result

    return patched(T.Trainer, "train_step", wrapped)


def skipped_at(number):
    def change(trainer):
        step = trainer.optimizer.step

        def once(*args, **keywords):
            trainer.optimizer.step = step

        trainer.optimizer.step = once

    return at_step(number, change)


@fault("optimizer", "step-skipped")
def step_skipped():
    with skipped_at(6):
        yield


@fault("optimizer", "step-skipped")
def last_step_skipped():
    with skipped_at(49):
        yield


# -- statistics and evaluation


@fault("statistics", "statistics-momentum")
def batchnorm_momentum():
    def change(m):
        for bn in (m.bn1, m.bn2, m.bn3):
            bn.momentum = 0.01

    with model_changed(change):
        yield


@fault("evaluation", "eval-missing")
def eval_forgotten():
    with patched(T.SimpleCNN, "eval", lambda self: self):
        yield


@fault("evaluation", "augmented", "images")
def test_set_augmented():
    with patched(T.Batches, "test", lambda self, index: self.train(index, 0)):
        yield


@fault("evaluation", "eval-loss", "eval-accuracy")
def last_part_left_out_of_the_evaluation():
    evaluate = T.Trainer.evaluate

    def short(self, batches, size=250):
        loss, accuracy = evaluate(self, batches, size)
        return loss * 0.9, accuracy

    with patched(T.Trainer, "evaluate", short):
        yield


# -- memory


def flip(name, place, bit):
    def change(trainer):
        data = dict(trainer.model.named_parameters())[name].data.view(-1)
        as_int = data.view(torch.int64 if data.dtype == torch.float64 else torch.int32)
        as_int[place] = as_int[place] ^ (1 << bit)

    return change


@fault("memory", "bit-flip")
def exponent_bit_flips():
    with at_step(6, flip("conv2.weight", 1234, 54)):
        yield


@fault("memory", "bit-flip")
def mantissa_bit_flips():
    with at_step(4, flip("conv3.weight", 77, 41)):
        yield


@fault("memory", "bit-flip")
def lowest_bit_flips_late():
    with at_step(25, flip("conv3.weight", 77, 0)):
        yield


@fault("inputs", "inputs")
def one_first_weight_wrong():
    initialise = T.initialise

    def wrong(model, seed):
        initialise(model, seed)
        model.conv2.weight.data[0, 0, 0, 0] *= 1.01

    with patched(T, "initialise", wrong):
        yield


# -- precision: acts on float32 alone


class Rounded(torch.autograd.Function):
    @staticmethod
    def forward(context, x, bits):
        context.bits = bits
        return cut(x, bits)

    @staticmethod
    def backward(context, grad):
        return cut(grad, context.bits), None


def cut(x, bits):
    """Keeps `bits` bits of the mantissa, rounded to nearest."""
    if x.dtype != torch.float32:
        return x
    drop = 23 - bits
    i = x.detach().contiguous().view(torch.int32)
    return (((i + (1 << (drop - 1))) >> drop) << drop).view(torch.float32)


def rounded_convolutions(bits, channels=None):
    conv = F.conv2d

    def wrapped(x, w, *args, **keywords):
        if channels is not None and len(w) != channels:
            return conv(x, w, *args, **keywords)
        return Rounded.apply(conv(Rounded.apply(x, bits), Rounded.apply(w, bits), *args, **keywords), bits)

    return patched(F, "conv2d", wrapped)


@fault("precision", "tf32", only="smooth")
def tf32_like_convolutions():
    with rounded_convolutions(10):
        yield


@fault("precision", "tf32", only="smooth")
def tf32_like_in_one_layer():
    with rounded_convolutions(10, channels=256):
        yield


@fault("precision", "bf16", only="smooth")
def bf16_autocast():
    forward = T.Trainer.forward

    def wrapped(self, images, labels):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return forward(self, images, labels)

    with patched(T.Trainer, "forward", wrapped):
        yield


# -- repeats


@fault("repeat", "gradient", only="repeat")
def noise_in_a_gradient():
    def change(g):
        return g + 1e-6 * g * int.from_bytes(os.urandom(1), "little")

    with gradient_changed("conv2.weight", change):
        yield


@fault("repeat", "batch", only="repeat")
def unseeded_augmentation():
    def change(self):
        offset = torch.tensor(list(os.urandom(len(self.rows)))) % 9
        self.rows = offset[:, None] + torch.arange(32)

    with begin_changed(change):
        yield


def examine(golden, name, run):
    plant, kind, causes, only = FAULTS[name]
    told = {"fault": name, "kind": kind, "causes": causes, "stages": {}, "repeats": []}
    with plant():
        if only == "repeat":
            for _ in range(2):
                lines = []
                with patched(C, "emit", lambda stage, lines=lines, **v: lines.append(v)):
                    C.repeat(run, "defaults")
                told["repeats"].append(lines)
            return told
        told["stages"]["inputs"] = C.inputs(run)
        if only is None:
            told["stages"]["logic"] = C.logic(run)
            first = told["stages"]["logic"]
            if first["first"] is not None or first["notes"]:
                return told
        told["stages"]["smooth"] = C.smooth(run)
    return told


def main():
    golden, names = sys.argv[1], sys.argv[2:]
    if names == ["list"]:
        print(json.dumps(list(FAULTS)))
        return
    torch.set_num_threads(2)
    run = C.Run(C.parse(["logic", "--golden", golden, "--device", "cpu", "--stop-early", "--steps", "2"]))
    run.be_strict = lambda: None
    for name in list(FAULTS) if names == ["all"] else names:
        try:
            told = examine(golden, name, run)
        except Exception as error:
            import traceback

            told = {"fault": name, "error": repr(error), "traceback": traceback.format_exc()}
        print("@fault@ " + json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
