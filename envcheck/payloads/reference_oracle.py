"""The same training step from other operations: what every part of it should have given, on the CPU in float64.

Nothing here uses a convolution, BatchNorm, pooling, cross entropy or optimizer of torch, nor the random numbers of
train_cifar10: that is what makes it a witness. Slow, so it is asked for single steps of small batches.
"""
import torch

MASK = (1 << 64) - 1


def mix(z):
    """splitmix64 of one Python integer, as a signed number."""
    z = (z * 0x9E3779B97F4A7C15) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def draw(seed, purpose, index, epoch=0):
    """The 64 bits of one index of one purpose."""
    return mix((mix(((seed * 1000003 + epoch) * 64 + purpose) & MASK) + index) & MASK)


def order(seed, epoch, count):
    """The order of an epoch (purpose number 0): indices by their 64 bits as signed numbers."""
    def signed(index):
        value = draw(seed, 0, index, epoch)
        return value - (1 << 64) if value >> 63 else value

    return torch.tensor(sorted(range(count), key=signed))


def crop_of(seed, index, epoch):
    """(row offset, column offset, flipped) of one training image; the purpose of crops is number 1."""
    value = draw(seed, 1, index, epoch)
    return (value & 0xFFFF) % 9, ((value >> 16) & 0xFFFF) % 9, bool((value >> 40) & 1)


def pixels(image, row=4, col=4, flip=False):
    """uint8 [3, 32, 32] cropped out of its black frame of 4 and flipped, by slices."""
    frame = torch.zeros(3, 40, 40, dtype=torch.uint8)
    frame[:, 4:36, 4:36] = image
    out = frame[:, row:row + 32, col:col + 32]
    return torch.stack([out[:, :, 31 - c] for c in range(32)], 2) if flip else out


def batch(images, index, seed, epoch, augment):
    """uint8 [B, 3, 32, 32]: what the model should see before normalisation."""
    taken = []
    for i in index.tolist():
        taken.append(pixels(images[i], *(crop_of(seed, i, epoch) if augment else ())))
    return torch.stack(taken)


def normalise(raw, mean, std):
    """float64, by the formula."""
    x = raw.double() / 255
    return torch.stack([(x[:, c] - mean[c]) / std[c] for c in range(3)], 1)


def convolve(x, weight, bias):
    """3x3, padding 1: patches times weights."""
    columns = torch.nn.functional.unfold(x, 3, padding=1)
    out = weight.reshape(len(weight), -1) @ columns + bias[:, None]
    return out.reshape(len(x), len(weight), x.shape[2], x.shape[3])


def statistics(x):
    """(mean, biased variance) by channel."""
    mean = x.sum((0, 2, 3)) / (x.numel() // x.shape[1])
    centred = x - mean[:, None, None]
    return mean, (centred * centred).sum((0, 2, 3)) / (x.numel() // x.shape[1])


def norm(x, weight, bias, mean, var, eps=1e-5):
    """BatchNorm with the given statistics."""
    scale = weight / (var + eps) ** 0.5
    return (x - mean[:, None, None]) * scale[:, None, None] + bias[:, None, None]


def between(x, smooth, pool):
    """What lies between a BatchNorm and the next layer with weights."""
    if smooth:
        x = x / (1 + torch.exp(-x))
        return tiles(x).sum((3, 5)) / 4 if pool else x
    if pool:
        t = tiles(x)
        x = torch.maximum(torch.maximum(t[:, :, :, 0, :, 0], t[:, :, :, 0, :, 1]), torch.maximum(t[:, :, :, 1, :, 0], t[:, :, :, 1, :, 1]))
    return x * (x > 0)


def tiles(x):
    """[B, C, H, W] as [B, C, H/2, 2, W/2, 2]."""
    return x.reshape(x.shape[0], x.shape[1], x.shape[2] // 2, 2, x.shape[3] // 2, 2)


def log_probabilities(logits):
    """log softmax by its definition."""
    top = logits.detach().max(1, keepdim=True)[0]
    return logits - top - torch.log(torch.exp(logits - top).sum(1, keepdim=True))


def loss_of(logits, labels):
    """Mean cross entropy."""
    chosen = log_probabilities(logits)[torch.arange(len(labels)), labels]
    return -chosen.sum() / len(labels)


def forward(state, images, smooth, training):
    """Logits of SimpleCNN; `state` by names, as state_dict gives it."""
    x = images
    for n in "123":
        x = convolve(x, state["conv%s.weight" % n], state["conv%s.bias" % n])
        mean, var = statistics(x) if training else (state["bn%s.running_mean" % n], state["bn%s.running_var" % n])
        x = norm(x, state["bn%s.weight" % n], state["bn%s.bias" % n], mean, var)
        x = between(x, smooth, pool=n != "3")
    return (x.sum((2, 3)) / 64) @ state["fc.weight"].t() + state["fc.bias"]


def gradients(state, images, labels, smooth):
    """(loss, gradient by parameter), float64."""
    leaves = {k: v.detach().cpu().double().clone() for k, v in state.items()}
    names = [k for k in leaves if "running" not in k and "batches" not in k]
    for name in names:
        leaves[name].requires_grad_(True)
    loss = loss_of(forward(leaves, images.detach().cpu().double(), smooth, True), labels.cpu())
    return float(loss.detach()), dict(zip(names, torch.autograd.grad(loss, [leaves[n] for n in names])))
