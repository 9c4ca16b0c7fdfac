"""Measures each practice of train_cifar10.py, in the Python that has torch; one JSON object on the last line."""

import json
import os
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import small_train
import torch

T = small_train.T
CPU = torch.device("cpu")
torch.set_num_threads(2)
TRAIN, TEST = T.made_dataset()
told = {}


def options(*words):
    return T.parse(["--device", "cpu", "--batch", "32", "--steps", "8", "--every-step", *words])


def trainer(*words, plain=False):
    made = T.Trainer(options(*words), CPU, 8)
    if plain:  # without BatchNorm, whose statistics see the parts of a batch one by one
        for name in ("bn1", "bn2", "bn3"):
            setattr(made.model, name, torch.nn.Identity())
    return made


def gradients(made):
    return torch.cat([p.grad.double().reshape(-1) for p in made.model.parameters() if p.grad is not None])


def apart(a, b):
    return float((a - b).norm() / b.norm())


def weights(made):
    return torch.cat([p.detach().double().reshape(-1) for p in made.model.parameters()])


def refusal(call):
    try:
        call()
    except T.Refused as error:
        return str(error)
    return None


def data():
    batches, tests = T.Batches(TRAIN, CPU, 0), T.Batches(TEST, CPU, 0)
    index = torch.arange(16)
    first, labels = batches.train(index, 0)
    batches.train(index, 1)
    told["train same again"] = torch.equal(first, batches.train(index, 0)[0])
    told["train other epoch differs"] = not torch.equal(first, batches.train(index, 1)[0])
    plain = (TEST[0][:16].double() / 255 - torch.tensor(T.MEAN).double()[:, None, None]) / torch.tensor(T.STD).double()[
        :, None, None
    ]
    told["test is not augmented"] = torch.equal(tests.test(index)[0], plain.float())
    told["order is a permutation"] = sorted(batches.order(3).tolist()) == list(range(512))
    told["splitmix64"] = ["%x" % (int(v) & (2**64 - 1)) for v in T.mix(torch.tensor([1, 2, 3]))]
    crops = set()
    for epoch in range(4):
        batches.begin(epoch)
        crops |= set(batches.rows[:, 0].tolist())
    told["crop offsets"] = sorted(crops)
    flipped = (batches.cols[:, 1] < batches.cols[:, 0]).double().mean()
    told["flipped share"] = float(flipped)
    small = T.made_dataset
    broken = {
        "dtype": ((TRAIN[0].float(), TRAIN[1]), TEST),
        "shape": ((TRAIN[0][:, :1], TRAIN[1]), TEST),
        "labels": ((TRAIN[0], TRAIN[1] % 9), TEST),
        "range": (((TRAIN[0] // 4), TRAIN[1]), TEST),
        "counts": ((TRAIN[0], TRAIN[1][:-1]), TEST),
    }
    told["data refused"] = {
        name: refusal(lambda pair=pair: T.check_data("made", *pair)) for name, pair in broken.items()
    }
    told["data accepted"] = refusal(lambda: T.check_data("made", TRAIN, TEST))


def steps():
    images, labels = T.Batches(TRAIN, CPU, 0, torch.float64).test(torch.arange(32))
    whole, parts = (
        trainer("--dtype", "float64", plain=True),
        trainer("--dtype", "float64", "--accumulate", "4", plain=True),
    )
    loss_whole, right_whole, _ = whole.train_step(images, labels)
    loss_parts, right_parts, _ = parts.train_step(images, labels)
    told["accumulation"] = apart(gradients(parts), gradients(whole))
    told["accumulation loss"] = abs(float(loss_whole) - float(loss_parts))
    told["accumulation right"] = [int(right_whole), int(right_parts)]
    whole, parts = trainer("--dtype", "float64"), trainer("--dtype", "float64", "--accumulate", "4")
    whole.train_step(images, labels)
    parts.train_step(images, labels)
    told["accumulation with BatchNorm"] = apart(gradients(parts), gradients(whole))
    # zero_grad: the gradient of a second step is that of a fresh model with the same weights.
    whole.train_step(images, labels)
    fresh = trainer("--dtype", "float64")
    fresh.train_step(images, labels)
    again = gradients(fresh).clone()
    fresh.train_step(images, labels)
    told["second gradient is its own"] = apart(gradients(fresh), gradients(whole))
    told["second gradient is another"] = apart(gradients(fresh), again)


def mixed():
    images, labels = T.Batches(TRAIN, CPU, 0).test(torch.arange(32))
    plain, scaled = trainer("--clip", "0.5"), trainer("--clip", "0.5")
    _, _, norm = plain.train_step(images, labels)
    told["clipped norm"] = float(gradients(plain).norm())
    told["norm before clipping"] = float(norm)
    if hasattr(torch.amp, "GradScaler"):
        scaled.scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
        _, _, scaled_norm = scaled.train_step(images, labels)
        told["unscaled before clipping"] = apart(weights(scaled), weights(plain))
        told["scaled norm"] = float(scaled_norm)
        rate, before = scaled.scheduler.last_epoch, weights(scaled)
        bad = images.clone()
        bad[0, 0, 0, 0] = float("inf")
        scaled.train_step(bad, labels)
        told["inf leaves the step out"] = torch.equal(before, weights(scaled))
        told["inf leaves the schedule"] = scaled.scheduler.last_epoch == rate
        told["inf lowers the scale"] = scaled.scaler.get_scale()
    told["amp"] = {}
    loss32 = float(trainer().train_step(images, labels)[0])
    for kind in ("bf16", "fp16"):
        try:
            loss = float(trainer("--amp", kind).train_step(images, labels)[0])
        except RuntimeError as error:
            loss = str(error)
        told["amp"][kind] = [loss, loss32]
    fused = trainer("--fused")
    fused.train_step(images, labels)
    plain = trainer()
    plain.train_step(images, labels)
    told["fused"] = apart(weights(fused), weights(plain))
    made = torch.optim.SGD

    def without_fused(parameters, **given):
        if given.get("fused"):
            raise RuntimeError("`fused=True` requires all the params to be floating point Tensors of supported devices")
        return made(parameters, **given)

    torch.optim.SGD = without_fused
    unfused = trainer("--fused")
    torch.optim.SGD = made
    unfused.train_step(images, labels)
    told["fused where there is none"] = apart(weights(unfused), weights(plain))
    last = trainer("--channels-last")
    last.train_step(images.contiguous(memory_format=torch.channels_last), labels)
    told["channels last"] = apart(weights(last), weights(plain))
    told["channels last strides"] = last.model.conv2.weight.is_contiguous(memory_format=torch.channels_last)


def schedules():
    rate = T.learning_rate
    told["schedule"] = {
        "warm-up": [rate(s, 100, "cosine", 4) for s in range(5)],
        "cosine middle": rate(52, 100, "cosine", 4),
        "cosine end": rate(100, 100, "cosine", 4),
        "constant": [rate(s, 100, "constant", 0) for s in (0, 50, 99)],
    }
    made = trainer("--schedule", "cosine", "--warmup", "2", "--lr", "0.1")
    images, labels = T.Batches(TRAIN, CPU, 0).test(torch.arange(8))
    rates = []
    for _ in range(8):
        rates.append(made.optimizer.param_groups[0]["lr"])
        made.train_step(images, labels)
    told["rates used"] = rates
    told["rates wanted"] = [0.1 * rate(s, 8, "cosine", 2) for s in range(8)]


def evaluation():
    made = trainer()
    tests = T.Batches(TEST, CPU, 0)
    images, labels = T.Batches(TRAIN, CPU, 0).train(torch.arange(32), 0)
    made.train_step(images, labels)
    before = T.fingerprint(made.model.state_dict())
    told["evaluated twice"] = [made.evaluate(tests), made.evaluate(tests)]
    told["other size"] = made.evaluate(tests, size=64)
    told["evaluation changes nothing"] = before == T.fingerprint(made.model.state_dict())
    made.train_step(images, labels)
    told["training mode is back"] = made.model.training


class Evil:
    def __reduce__(self):
        return (os.system, ("touch " + os.path.join(FOLDER, "owned"),))


FOLDER = tempfile.mkdtemp()


def checkpoints():
    path = os.path.join(FOLDER, "c.pt")
    made = trainer("--schedule", "cosine", "--warmup", "2")
    images, labels = T.Batches(TRAIN, CPU, 0).train(torch.arange(32), 0)
    losses = made.losses = [made.train_step(images, labels)[0] for _ in range(3)]
    made.history, made.right = [{"epoch": 1}], 5
    T.save_checkpoint(path, made)
    random_before = torch.get_rng_state()
    asked = {}
    load = torch.load

    def spy(*args, **keywords):
        asked.update(keywords)
        return load(*args, **keywords)

    torch.load = spy
    other = trainer("--schedule", "cosine", "--warmup", "2")
    torch.rand(5)
    T.load_checkpoint(path, other)
    torch.load = load
    told["weights_only"] = asked.get("weights_only")
    told["map_location"] = asked.get("map_location")
    told["restored"] = {
        "weights": T.fingerprint(other.model.state_dict()) == T.fingerprint(made.model.state_dict()),
        "rng": torch.equal(torch.get_rng_state(), random_before),
        "step": other.step,
        "rate": [other.optimizer.param_groups[0]["lr"], made.optimizer.param_groups[0]["lr"]],
        "history": other.history,
        "losses": [float(v) for v in other.losses] == [float(v) for v in losses],
        "right": other.right,
    }
    a, b = made.train_step(images, labels), other.train_step(images, labels)
    told["restored"]["next step"] = float(a[0]) == float(b[0]) and T.fingerprint(
        other.model.state_dict()
    ) == T.fingerprint(made.model.state_dict())
    blob = open(path, "rb").read()
    bad = {}
    for name, content in (("half", blob[: len(blob) // 2]), ("empty", b""), ("text", b"hello\nworld\n" * 9)):
        with open(path, "wb") as file:
            file.write(content)
        bad[name] = refusal(lambda: T.load_checkpoint(path, trainer("--schedule", "cosine", "--warmup", "2")))
    flipped = 0
    for place in range(len(blob) // 7, len(blob), len(blob) // 6):
        with open(path, "wb") as file:
            file.write(blob[:place] + bytes([blob[place] ^ 4]) + blob[place + 1 :])
        flipped += (
            refusal(lambda: T.load_checkpoint(path, trainer("--schedule", "cosine", "--warmup", "2"))) is not None
        )
    told["flipped bits refused"] = flipped
    torch.save({"model": made.model.state_dict()}, path)
    bad["foreign"] = refusal(lambda: T.load_checkpoint(path, trainer()))
    torch.save(Evil(), path)
    bad["evil"] = refusal(lambda: T.load_checkpoint(path, trainer()))
    told["evil ran"] = os.path.exists(os.path.join(FOLDER, "owned"))
    with open(path, "wb") as file:
        file.write(blob)
    bad["settings"] = refusal(
        lambda: T.load_checkpoint(path, trainer("--lr", "0.2", "--schedule", "cosine", "--warmup", "2"))
    )
    bad["absent"] = refusal(lambda: T.load_checkpoint(path + ".no", trainer()))
    told["checkpoint refused"] = bad
    real = torch.save
    torch.save = lambda *a: 1 / 0
    try:
        T.save_checkpoint(path, made)
    except ZeroDivisionError:
        pass
    torch.save = real
    told["failed save keeps the old one"] = open(path, "rb").read() == blob


def self_checks():
    tests = T.Batches(TEST, CPU, 0)
    told["self-check"] = T.self_check(options(), CPU, tests)
    forward = T.SimpleCNN.forward
    T.SimpleCNN.forward = lambda self, x: forward(self, x).detach() + 0 * self.fc.bias
    told["dead model refused"] = refusal(lambda: T.self_check(options(), CPU, tests))
    T.SimpleCNN.forward = forward
    block = T.SimpleCNN.block
    T.SimpleCNN.block = lambda self, x: block(self, x).detach()
    told["cut graph refused"] = refusal(lambda: T.self_check(options(), CPU, tests))
    T.SimpleCNN.block = block


def tensorboard():
    """The curves as TensorBoard's own reader finds them, against the run's history."""
    folder = os.path.join(FOLDER, "board")
    trained = []
    told["tensorboard"] = {
        "refused": refusal(lambda: trained.append(T.train(options("--steps", "24", "--tensorboard", folder), events.append)))
    }
    if not trained:
        return
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    read = EventAccumulator(folder)
    read.Reload()
    told["tensorboard"]["read"] = {
        name: [[point.step, point.value] for point in read.Scalars(name)] for name in read.Tags()["scalars"]
    }
    told["tensorboard"]["history"] = trained[0].history


def onnx():
    """The written model, run by onnxruntime on images and a batch size that the export did not see."""
    for name, words in (("relu", []), ("smooth", ["--smooth"])):
        path = os.path.join(FOLDER, name + ".onnx")
        trained, before = [], len(events)
        refused = refusal(
            lambda: trained.append(T.train(options("--steps", "4", "--onnx", path, *words), events.append))
        )
        stages = [e["stage"] for e in events[before:]]
        told["onnx"] = {**told.get("onnx", {}), "refused": refused, "stages": stages}
        if not trained:
            return
        import onnxruntime

        images, _ = T.Batches(TEST, CPU, 0).test(torch.arange(40, 65))
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        seen = torch.from_numpy(session.run(["logits"], {"images": images.numpy()})[0])
        trained[0].model.eval()
        with torch.no_grad():
            wanted = trained[0].model(images)
        told["onnx"][name] = {
            "reported": [e["largest_difference"] for e in events if e["stage"] == "onnx"][-1],
            "other images": float((seen - wanted).abs().max()),
            "spread": float(wanted.std()),
            "files": len([f for f in os.listdir(FOLDER) if f.startswith(name + ".onnx")]),
        }


events = []
for part in (data, steps, mixed, schedules, evaluation, checkpoints, self_checks, tensorboard, onnx):
    part()
print(json.dumps(told))
