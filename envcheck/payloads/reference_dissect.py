"""Takes one training step or one evaluation apart and names the part that is wrong.

Each part is compared with `reference_oracle` on the very input that it got, so an error does not spread to the parts
behind it: memory, data, forward (by layer), loss, backward (by tensor), optimizer, BatchNorm's statistics, evaluation.
"""
import math

import reference_oracle as oracle
import torch

KNOWN_NORMALISATIONS = (
    ("ImageNet's mean and std", (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    ("CIFAR-10's mean with the much-copied wrong std", (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)),
    ("mean and std 0.5", (0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),
    ("none, pixels from 0 to 1", (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)),
    ("none, pixels from 0 to 255", (0.0, 0.0, 0.0), (1 / 255.0, 1 / 255.0, 1 / 255.0)),
    ("CIFAR-10's own with channels in the order blue, green, red", (0.4465, 0.4822, 0.4914), (0.2616, 0.2435, 0.2470)),
)


# As torchvision's Normalize has them too: rounded to float32.
MEAN = tuple(torch.tensor((0.4914, 0.4822, 0.4465)).double().tolist())
STD = tuple(torch.tensor((0.2470, 0.2435, 0.2616)).double().tolist())


def apart(a, b):
    """Largest difference relative to the largest value of b; infinite for shapes, NaN or inf that do not fit."""
    if a is None or a.shape != b.shape:
        return math.inf
    a, b = a.double(), b.double()
    if not bool(torch.isfinite(a).all()):
        return math.inf
    return float((a - b).abs().max()) / max(float(b.abs().max()), 1e-300) if b.numel() else 0.0


def where(a, b, tolerance):
    """"3 of 576 elements, first at (1, 0, 2, 2): 0.1, expected 0.2"."""
    if a.shape != b.shape:
        return "shape %s, expected %s" % (tuple(a.shape), tuple(b.shape))
    a, b = a.double(), b.double()
    bad = ~((a - b).abs() <= tolerance * float(b.abs().max()))
    places = bad.nonzero()
    if not len(places):
        return "no single element"
    first = tuple(places[0].tolist())
    return "%d of %d elements, first at %s: %.9g, expected %.9g" % (len(places), a.numel(), first, float(a[first]), float(b[first]))


def cpu(value):
    """A float64 copy on the CPU (integers stay integers)."""
    value = value.detach().cpu()
    return value.double().clone() if value.is_floating_point() else value.clone()


def snapshot(trainer):
    """Weights and BatchNorm statistics, exact, on the CPU."""
    return {k: v.detach().cpu().clone() for k, v in trainer.model.state_dict().items()}


def momenta(trainer):
    """SGD's momentum buffers by parameter name; None before the first step."""
    told = {}
    for name, p in trainer.model.named_parameters():
        buffer = trainer.optimizer.state.get(p, {}).get("momentum_buffer")
        told[name] = None if buffer is None else cpu(buffer)
    return told


def memory(before, after):
    """Names what changed in weights between the end of one step and the begin of the next, by tensor and bit."""
    found = []
    for name, old in before.items():
        new = after[name]
        if torch.equal(old, new) or not old.is_floating_point():
            continue
        kind = torch.int64 if old.dtype == torch.float64 else torch.int32
        flips = old.reshape(-1).view(kind) ^ new.reshape(-1).view(kind)
        places = flips.nonzero().reshape(-1)
        bits = sorted({b for value in flips[places[:64]].tolist() for b in range(64 if kind == torch.int64 else 32) if (value >> b) & 1})
        one = len(places) == 1 and len(bits) == 1
        what = "bit %d of one element flipped" % bits[0] if one else "%d of %d elements changed" % (len(places), old.numel())
        found.append(note("memory", name, "%s between two steps, at flat index %d" % (what, int(places[0])), "bit-flip" if one else "weights-changed"))
    return found


def note(kind, part, text, cause=None):
    """One statement: which kind of part, which one, what is wrong, and a name for the cause where it is known."""
    return {"kind": kind, "part": part, "text": text, "cause": cause or kind}


class Watch:
    """Keeps what each layer and the loss get and give during one call."""

    def __init__(self, trainer):
        self.trainer, self.inputs, self.outputs, self.calls, self.modes = trainer, {}, {}, [], {}

    def __enter__(self):
        self.handles = []
        for name, module in self.trainer.model.named_modules():
            if name:
                self.handles.append(module.register_forward_hook(self._keeper(name)))
        self.old = self.trainer.forward

        def forward(images, labels):
            loss, logits = self.old(images, labels)
            self.calls.append((cpu(images), cpu(labels), float(loss.detach()), cpu(logits)))
            return loss, logits

        self.trainer.forward = forward
        return self

    def _keeper(self, name):
        def keep(module, inputs, output):
            if name not in self.inputs:
                self.inputs[name], self.outputs[name], self.modes[name] = cpu(inputs[0]), cpu(output), module.training

        return keep

    def __exit__(self, *unused):
        for handle in self.handles:
            handle.remove()
        self.trainer.forward = self.old


def step(trainer, batches, raw, index, epoch, tolerance, previous=None):
    """Makes one training step and returns notes about it. `raw`: the uint8 training images and labels.

    `previous`: the gradients that were left by the step before, by name.
    """
    before, buffers = snapshot(trainer), momenta(trainer)
    rate = trainer.options.lr * trainer.scheduler.lr_lambdas[0](trainer.step)
    images, labels = batches.train(index, epoch)
    with Watch(trainer) as seen:
        trainer.train_step(images, labels)
    after, later = snapshot(trainer), momenta(trainer)
    gradients = {n: None if p.grad is None else cpu(p.grad) for n, p in trainer.model.named_parameters()}
    if not seen.calls:
        return [note("forward", "model", "the model was not called")]
    x, y, loss, logits = seen.calls[0]
    found = data(seen.inputs.get("conv1", x), y, raw, index, batches.seed, epoch, True, tolerance)
    found += forward(seen, before, trainer.options.smooth, True, tolerance)
    found += loss_note(loss, logits, y, tolerance)
    wanted_loss, wanted = oracle.gradients(before, x, y, trainer.options.smooth)
    if not found:
        found += backward(gradients, wanted, previous, tolerance, trainer.options.smooth)
    found += optimizer(before, after, gradients, buffers, rate, tolerance)
    found += running(seen, before, after, tolerance)
    return found


def data(x, y, raw, index, seed, epoch, augment, tolerance):
    """The batch that the model got against what it should be."""
    found = []
    images, labels = raw
    told = labels[index.cpu()].cpu()
    if y is not None and not torch.equal(y.cpu(), told):
        wrong = int((y.cpu() != told).sum())
        found.append(note("data", "labels", "%d of %d labels differ" % (wrong, len(told)), "labels"))
    plain = oracle.batch(images.cpu(), index, seed, epoch, augment)
    mean, std = MEAN, STD
    wanted = oracle.normalise(plain, mean, std)
    if apart(x, wanted) <= max(tolerance, 1e-6 if tolerance > 1e-7 else 1e-9):
        return found
    if x.shape != wanted.shape:
        return found + [note("data", "images", where(x, wanted, tolerance), "shape")]
    close = max(tolerance * 10, 1e-6)
    few = ((x - wanted).abs() > close).sum()
    if int(few) <= 0.01 * wanted.numel():
        return found + [note("data", "images", where(x, wanted, close), "pixels")]
    variants = (
        ("augmentation on images that should have none", "augmented", oracle.batch(images.cpu(), index, seed, epoch, True)),
        ("no augmentation", "not-augmented", oracle.batch(images.cpu(), index, seed, epoch, False)),
        ("channels in the order blue, green, red", "bgr", plain.flip(1)),
        ("every image mirrored", "mirrored", plain.flip(3)),
        ("rows and columns exchanged", "transposed", plain.transpose(2, 3)),
        ("crops without flips", "no-flip", torch.stack([oracle.pixels(images[i].cpu(), *oracle.crop_of(seed, i, epoch)[:2]) for i in index.tolist()])),
        ("flips without crops", "no-crop", torch.stack([oracle.pixels(images[i].cpu(), 4, 4, oracle.crop_of(seed, i, epoch)[2]) for i in index.tolist()])),
    )
    for text, cause, variant in variants:
        if apart(x, oracle.normalise(variant, mean, std)) <= close:
            return found + [note("data", "images", text, cause)]
    fitted = fit_normalisation(x, plain)
    if fitted is not None:
        means, stds = fitted
        name = "unknown"
        for known, m, s in KNOWN_NORMALISATIONS:
            if all(abs(a - b) < 2e-4 for a, b in zip(means + stds, m + s)):
                name = known
        text = "normalised with mean %s, std %s (%s)" % ([round(v, 4) for v in means], [round(v, 4) for v in stds], name)
        return found + [note("data", "images", text, "normalisation")]
    return found + [note("data", "images", "other images than expected: " + where(x, wanted, close), "images")]


def fit_normalisation(x, plain):
    """(means, stds) when every channel is a straight line of its pixels, else None."""
    means, stds = [], []
    for c in range(3):
        p, v = plain[:, c].double().reshape(-1) / 255, x[:, c].reshape(-1)
        dp, dv = p - p.mean(), v - v.mean()
        slope = float((dp * dv).sum() / (dp * dp).sum())
        if slope == 0 or float((dv - slope * dp).abs().max()) > 1e-5 * float(v.abs().max()):
            return None
        stds.append(1 / slope)
        means.append(float(p.mean()) - float(v.mean()) / slope)
    return tuple(means), tuple(stds)


def forward(seen, state, smooth, training, tolerance):
    """Each layer on the input that it got, and what lies between two layers."""
    found = []
    s = {k: cpu(v) for k, v in state.items()}
    for n in "123":
        conv, bn = "conv" + n, "bn" + n
        if conv not in seen.outputs or bn not in seen.outputs:
            return found + [note("forward", conv, "the layer was not called")]
        wanted = oracle.convolve(seen.inputs[conv], s[conv + ".weight"], s[conv + ".bias"])
        if apart(seen.outputs[conv], wanted) > tolerance:
            found.append(conv_note(conv, seen.outputs[conv], wanted, s[conv + ".bias"], tolerance))
        if apart(seen.inputs[bn], seen.outputs[conv]) > tolerance:
            found.append(note("forward", conv + " to " + bn, where(seen.inputs[bn], seen.outputs[conv], tolerance), "between"))
        found += norm_note(bn, seen, s, training, tolerance)
        wanted = oracle.between(seen.outputs[bn], smooth, n != "3")
        after = "conv%d" % (int(n) + 1) if n != "3" else "fc"
        if n == "3":
            wanted = wanted.sum((2, 3)) / 64
        if after in seen.inputs and apart(seen.inputs[after], wanted) > tolerance:
            found.append(note("forward", "activation and pooling between %s and %s" % (bn, after), where(seen.inputs[after], wanted, tolerance), "activation"))
    wanted = seen.inputs["fc"] @ s["fc.weight"].t() + s["fc.bias"]
    if apart(seen.outputs["fc"], wanted) > tolerance:
        found.append(note("forward", "fc", where(seen.outputs["fc"], wanted, tolerance), "layer"))
    return found


def conv_note(name, got, wanted, bias, tolerance):
    """What is wrong with a convolution's output."""
    if apart(got + bias[:, None, None], wanted) <= tolerance:
        return note("forward", name, "its bias is not added", "bias-missing")
    bad = (~((got - wanted).abs() <= tolerance * float(wanted.abs().max()))).nonzero()
    spread = len(bad) > 0.01 * wanted.numel()
    size = apart(got, wanted)
    if spread and size < 2e-2:
        return note("forward", name, "every output is off by up to %.1e of the largest: reduced precision" % size, "precision")
    return note("forward", name, where(got, wanted, tolerance), "layer")


def norm_note(name, seen, s, training, tolerance):
    """What is wrong with a BatchNorm's output."""
    x, got, w, b = seen.inputs[name], seen.outputs[name], s[name + ".weight"], s[name + ".bias"]
    batch = oracle.statistics(x)
    kept = s[name + ".running_mean"], s[name + ".running_var"]
    right, other = (batch, kept) if training else (kept, batch)
    wanted = oracle.norm(x, w, b, *right)
    if apart(got, wanted) <= tolerance:
        return []
    if apart(got, oracle.norm(x, w, b, *other)) <= tolerance:
        text = "running statistics in training: the model was left in eval mode" if training else "statistics of the batch in evaluation: model.eval() is missing"
        return [note("forward" if training else "evaluation", name, text, "eval-in-training" if training else "eval-missing")]
    scale = float(((got - b[:, None, None]) ** 2).sum((0, 2, 3))[0] / (((x - right[0][:, None, None]) * w[:, None, None]) ** 2).sum((0, 2, 3))[0])
    eps = 1 / scale - float(right[1][0]) if scale > 0 else math.nan
    if eps > 0 and apart(got, oracle.norm(x, w, b, right[0], right[1], eps)) <= max(tolerance, 1e-6):
        return [note("forward", name, "eps is %.3g, expected 1e-05" % eps, "eps")]
    return [note("forward", name, where(got, wanted, tolerance), "layer")]


def loss_note(loss, logits, labels, tolerance):
    """The loss against that of the logits."""
    labels = labels.long()
    wanted = float(oracle.loss_of(logits, labels))
    if abs(loss - wanted) <= max(tolerance, 1e-14) * max(abs(wanted), 1e-3):
        return []
    if abs(loss - wanted * len(labels)) <= 1e-5 * abs(loss):
        return [note("forward", "loss", "the sum over the batch in place of the mean", "loss-sum")]
    even = float(-oracle.log_probabilities(logits).mean())
    share = (loss - wanted) / (even - wanted) if even != wanted else math.nan
    if 0 < share < 1 and abs(share - round(share, 3)) < 1e-5:
        return [note("forward", "loss", "label smoothing of %.3g" % share, "label-smoothing")]
    return [note("forward", "loss", "%.9g, expected %.9g of these logits" % (loss, wanted), "loss")]


def backward(got, wanted, previous, tolerance, smooth):
    """The gradient of each parameter."""
    bound = max(tolerance * 100, 1e-9) if tolerance < 1e-7 else max(tolerance * 10, 2e-3)
    scale = max(float(g.abs().max()) for g in wanted.values())
    wrong, ratios = {}, []
    for name, w in wanted.items():
        g = got.get(name)
        if g is None:
            wrong[name] = note("backward", name, "no gradient: the graph is cut", "no-gradient")
            continue
        if name.startswith("conv") and name.endswith("bias"):  # 0 by its nature, only rounding is left
            if float(g.abs().max()) > bound * scale:
                wrong[name] = note("backward", name, where(g, w, bound), "gradient")
            continue
        size = apart(g, w)
        ratios.append(float((g * w).sum() / (w * w).sum()))
        if size > bound:
            wrong[name] = note("backward", name, gradient_text(g, w, bound), "gradient")
    if not wrong:
        return []
    if previous and all(previous.get(n) is not None and got.get(n) is not None and apart(got[n] - previous[n], w) <= bound for n, w in wanted.items() if "bias" not in n):
        return [note("backward", "all", "the gradients of the step before are still in: zero_grad() is missing", "zero-grad")]
    if ratios and len(wrong) > 3 and max(ratios) - min(ratios) < 1e-3 * abs(ratios[0]):
        return [note("backward", "all", "all gradients are %.6g times what they should be" % ratios[0], "gradient-scale")]
    return list(wrong.values())


def gradient_text(g, w, bound):
    """What is wrong with one gradient."""
    if float(g.abs().max()) == 0:
        return "all zero"
    ratio = float((g * w).sum() / (w * w).sum())
    if apart(g, w * ratio) <= bound:
        return "%.6g times what it should be" % ratio
    return where(g, w, bound)


def optimizer(before, after, gradients, buffers, rate, tolerance):
    """The new weights against lr, momentum and weight decay: the coefficients that fit, and where none do."""
    single = tolerance > 1e-7
    names = [n for n, g in gradients.items() if g is not None and bool(torch.isfinite(g).all())]
    if not names:
        return []
    moved = {n: cpu(before[n]) - cpu(after[n]) for n in names}
    if all(float(m.abs().max()) == 0 for m in moved.values()):
        return [note("optimizer", "all", "no weight changed: the step was left out", "step-skipped")]
    ideal = {}
    for n in names:
        buffer = gradients[n] + 5e-4 * cpu(before[n])
        ideal[n] = rate * (buffer if buffers[n] is None else 0.9 * buffers[n] + buffer)
    # In float32 the new weight is rounded, so the difference has the rounding of the weight.
    bound = {n: (3e-7 * float(cpu(before[n]).abs().max()) + 1e-5 * float(ideal[n].abs().max())) if single else 1e-12 * (1 + float(ideal[n].abs().max())) for n in names}
    wrong = [n for n in names if float((moved[n] - ideal[n]).abs().max()) > bound[n]]
    if not wrong:
        return []
    if len(wrong) <= 2:
        n = wrong[0]
        if float(moved[n].abs().max()) == 0:
            return [note("optimizer", n, "was not updated", "not-updated")]
        return [note("optimizer", n, "update: " + where(moved[n], ideal[n], bound[n] / max(float(ideal[n].abs().max()), 1e-300)), "update")]
    return [fit_optimizer(names, moved, gradients, buffers, before, rate)]


def fit_optimizer(names, moved, gradients, buffers, before, rate):
    """Least squares of the update on gradient, momentum and weight."""
    use = [n for n in names if n.endswith("weight")]
    columns = [torch.cat([gradients[n].reshape(-1) for n in use])]
    with_momentum = all(buffers[n] is not None for n in use)
    if with_momentum:
        columns.append(torch.cat([buffers[n].reshape(-1) for n in use]))
    columns.append(torch.cat([cpu(before[n]).reshape(-1) for n in use]))
    a, target = torch.stack(columns, 1), torch.cat([moved[n].reshape(-1) for n in use])
    scale = (a * a).sum(0).sqrt().clamp_min(1e-300)
    b = a / scale
    solution = torch.inverse(b.t() @ b) @ (b.t() @ target) / scale
    rest = float((a @ solution - target).abs().max()) / float(target.abs().max())
    lr = float(solution[0])
    said = []
    if rest > 1e-3:
        return note("optimizer", "all", "the update is no combination of gradient, momentum and weights", "update")
    cause = "optimizer"
    if abs(lr - rate) > 1e-4 * rate:
        said.append("lr is %.6g, expected %.6g" % (lr, rate))
        cause = "lr"
    if with_momentum and abs(float(solution[1]) / lr - 0.9) > 1e-3:
        said.append("momentum is %.4g, expected 0.9" % (float(solution[1]) / lr))
        cause = "momentum"
    decay = float(solution[-1]) / lr
    if abs(decay - 5e-4) > 2e-5:
        said.append("weight decay is %.3g, expected 0.0005" % (decay if abs(decay) > 1e-6 else 0))
        cause = "weight-decay"
    return note("optimizer", "all", "; ".join(said) or "the update differs", cause)


def running(seen, before, after, tolerance):
    """BatchNorm's running statistics after the step."""
    found = []
    for n in "123":
        name = "bn" + n
        if name not in seen.inputs:
            continue
        x = seen.inputs[name]
        mean, var = oracle.statistics(x)
        count = x.numel() // x.shape[1]
        for part, fresh in (("running_mean", mean), ("running_var", var * count / (count - 1))):
            old, new = cpu(before[name + "." + part]), cpu(after[name + "." + part])
            if apart(new, 0.9 * old + 0.1 * fresh) <= max(tolerance, 1e-12):
                continue
            if torch.equal(old, new):
                text, cause = "was not updated", "statistics-frozen"
            else:
                m = float(((new - old) * (fresh - old)).sum() / ((fresh - old) ** 2).sum())
                fits = apart(new, (1 - m) * old + m * fresh) <= max(tolerance, 1e-9)
                text, cause = ("momentum is %.4g, expected 0.1" % m, "statistics-momentum") if fits else ("differs from 0.9 old + 0.1 new", "statistics")
            found.append(note("statistics", name + "." + part, text, cause))
    return found


def evaluation(trainer, batches, raw, tolerance):
    """Evaluates a small set and returns notes: data, BatchNorm's mode, layers, the sums."""
    state = snapshot(trainer)
    with Watch(trainer) as seen:
        loss, accuracy = trainer.evaluate(batches)
    if "conv1" not in seen.inputs:
        return [note("evaluation", "model", "the model was not called")]
    index = torch.arange(len(seen.inputs["conv1"]))
    found = data(seen.inputs["conv1"], None, raw, index, batches.seed, 0, False, tolerance)
    found += forward(seen, state, trainer.options.smooth, False, tolerance)
    if any(not torch.equal(state[k], v) for k, v in snapshot(trainer).items()):
        found.append(note("evaluation", "model", "evaluating changed weights or BatchNorm's statistics", "eval-changes"))
    if found:
        return [dict(item, kind="evaluation") for item in found]
    s = {k: cpu(v) for k, v in state.items()}
    everything = oracle.normalise(oracle.batch(raw[0].cpu(), torch.arange(len(batches)), batches.seed, 0, False), MEAN, STD)
    logits = oracle.forward(s, everything, trainer.options.smooth, False)
    wanted = float(oracle.loss_of(logits, raw[1].cpu()[:len(batches)]))
    right = float((logits.argmax(1) == raw[1].cpu()[:len(batches)]).double().mean())
    if abs(loss - wanted) > max(tolerance * 10, 1e-10) * max(wanted, 1.0):
        found.append(note("evaluation", "loss", "%.9g, expected %.9g" % (loss, wanted), "eval-loss"))
    if abs(accuracy - right) > 1e-9:
        found.append(note("evaluation", "accuracy", "%.6g, expected %.6g" % (accuracy, right), "eval-accuracy"))
    return found
