"""Measures what `envcheck reference` judges: inputs, repeated steps, float64 logic, precision, trajectory, rates.

    reference_checks.py TASK... [--golden FILE] [--device D] [--threads N] [--steps N] [--checkpoint FILE] [--resume]

Tasks, done in the order given, each answered by one marked JSON line {"stage": TASK, ...}:

    machine           versions, device, the settings that decide about bits and precision, as the user has them
    inputs            SHA-256 of everything drawn from integers
    repeat:defaults   some steps with the user's settings, every step's tensors by hash ("step" lines come before)
    repeat:strict     the same with the deterministic settings; from here on they stay
    shadow            float32 gradients of the smooth twin against float64, as it stands by the settings of the moment
    logic             float64, the documented network, against the golden values
    smooth:float64    the same in float64, to record golden values
    smooth            float32, the smooth twin, against the golden values; shadows at three states
    rates             images a second: a plain loop, the pipeline in memory, and what the device gives at most
"""
import argparse
import json
import os
import platform
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
if HERE not in sys.path:
    sys.path.insert(0, HERE)

MARK = "@envcheck@ "
LOGIC = ["--dtype", "float64", "--batch", "8", "--steps", "50"]
SMOOTH = ["--smooth", "--batch", "32", "--steps", "50", "--schedule", "cosine", "--warmup", "5"]
REPEAT = ["--batch", "32"]
SHADOW_IMAGES = 16
EVALUATED = 300  # test images at the end of a trajectory
PRECISE = {"float64": 1e-9, "float32": 3e-4}  # of single layers, when a step is taken apart


def emit(stage, **values):
    """One event, past whatever has become of sys.stdout."""
    values["stage"] = stage
    data = ("\n" + MARK + json.dumps(values) + "\n").encode("ascii")
    while data:
        data = data[os.write(1, data):]


def begin(stage):
    """Says what comes, so that a crash or a hang has a name."""
    data = ("\n" + MARK + json.dumps({"begin": stage}) + "\n").encode("ascii")
    os.write(1, data)
    os.write(2, data)


# -- What the machine is -----------------------------------------------------------------------------------------------


def setting(path):
    """A setting of torch by its dotted name, None where this torch lacks it or will not say."""
    import torch

    value = torch
    try:
        for name in path.split("."):
            value = getattr(value, name)
        value = value() if callable(value) else value
    except Exception:
        return None
    return value if isinstance(value, (bool, int, float, str, type(None))) else str(value)


SETTINGS = (
    "backends.cudnn.benchmark", "backends.cudnn.deterministic", "backends.cudnn.enabled", "backends.cudnn.allow_tf32",
    "backends.cuda.matmul.allow_tf32", "backends.cuda.matmul.fp32_precision", "backends.cudnn.conv.fp32_precision",
    "backends.cudnn.rnn.fp32_precision", "backends.mkldnn.conv.fp32_precision", "backends.mkldnn.matmul.fp32_precision",
    "backends.cuda.matmul.allow_fp16_reduced_precision_reduction", "backends.cuda.matmul.allow_bf16_reduced_precision_reduction",
    "get_float32_matmul_precision", "are_deterministic_algorithms_enabled", "get_num_threads", "get_default_dtype",
    "backends.mkldnn.enabled", "is_autocast_enabled", "is_grad_enabled",
)
VARIABLES = (
    "CUBLAS_WORKSPACE_CONFIG", "PYTHONHASHSEED", "NVIDIA_TF32_OVERRIDE", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "OMP_NUM_THREADS",
    "MKL_NUM_THREADS", "MKL_CBWR", "ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA", "ONEDNN_DEFAULT_FPMATH_MODE", "PYTORCH_ENABLE_MPS_FALLBACK",
    "TORCHINDUCTOR_MAX_AUTOTUNE", "NCCL_ALGO", "NCCL_NVLS_ENABLE", "HSA_OVERRIDE_GFX_VERSION",
)


def cpu_name():
    """The CPU's own name where the system gives it, else its architecture."""
    try:
        with open("/proc/cpuinfo") as file:
            for line in file:
                if line.startswith("model name"):
                    return " ".join(line.partition(":")[2].split())
    except (OSError, UnicodeDecodeError):
        pass
    return platform.processor() or platform.machine()


def capability_of_build(torch):
    """The same from the text of the build, where torch (before 2.1) has no function for it."""
    for line in torch.__config__.show().splitlines():
        if "CPU capability usage:" in line:
            return line.rpartition(":")[2].strip()
    return None


def machine(run):
    """Versions, device and settings."""
    import warnings

    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # reading a deprecated switch is no use of it
        settings = {name: setting(name) for name in SETTINGS}
    device = run.device
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else cpu_name()
    return {
        "torch": torch.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "device": str(device),
        "device_name": name,
        "cpu_capability": setting("backends.cpu.get_cpu_capability") or capability_of_build(torch),
        "cuda": torch.version.cuda,
        "hip": getattr(torch.version, "hip", None),
        "cudnn": setting("backends.cudnn.version") if device.type == "cuda" else None,
        "settings": settings,
        "variables": {name: os.environ[name] for name in VARIABLES if name in os.environ},
    }


# -- Tasks -------------------------------------------------------------------------------------------------------------


class Run:
    """The options of this process, and what its tasks share."""

    def __init__(self, options):
        import reference_rates
        import train_cifar10 as T

        self.T, self.options = T, options
        self.golden = {}
        if options.golden:
            with open(options.golden) as file:
                self.golden = json.load(file)
        self.device = T.pick_device(options.device)
        self.strict = False
        self.load, self.found = reference_rates.load_of_machine(), reference_rates.switches()
        self._made, make = None, T.made_dataset

        def made():
            if self._made is None:
                self._made = make()
            return self._made

        self.made = T.made_dataset = made  # made once, not by every task

    def be_strict(self):
        """The deterministic settings, to the end of the process."""
        if not self.strict:
            self.T.make_deterministic()
            self.strict = True

    def words(self, *lists):
        """A command line for the training, with this run's device."""
        out = ["--device", str(self.device)]
        for item in lists:
            out += item
        return out

    def trainer(self, words):
        """(trainer, training batches, test batches) on the made dataset."""
        import torch

        options = self.T.parse(self.words(words, ["--every-step"]))
        dtype = getattr(torch, options.dtype)
        train, test = self.made()
        batches = self.T.Batches(train, self.device, options.seed, dtype, options.channels_last)
        tests = self.T.Batches(test, self.device, options.seed, dtype, options.channels_last)
        return self.T.Trainer(options, self.device, options.steps), batches, tests


def inputs(run):
    """Hashes of all that is drawn from integers: they are the same bits everywhere, or nothing else can be compared."""
    T = run.T
    train, test = run.made()
    trainer, batches, tests = run.trainer(REPEAT + ["--steps", "1"])
    order = batches.order(0)
    images, labels = batches.train(order[:32], 0)
    plain, _ = tests.test(order[:32] % len(tests))
    state = trainer.model.state_dict()
    told = {
        "train images": {"x": train[0]}, "train labels": {"x": train[1]}, "test images": {"x": test[0]}, "test labels": {"x": test[1]},
        "order of epoch 1": {"x": order}, "order of epoch 2": {"x": batches.order(1)}, "first batch": {"x": images.contiguous()},
        "first labels": {"x": labels}, "test batch": {"x": plain.contiguous()},
    }
    told.update({"weights " + name: {"x": value} for name, value in state.items() if value.is_floating_point()})
    return {"hashes": {name: T.fingerprint(value) for name, value in told.items()}}


def repeat(run, mode):
    """Steps with every tensor's hash, by the training program itself; emits "step" lines."""
    T, options = run.T, run.options
    if mode == "strict":
        run.be_strict()
    words = REPEAT + ["--steps", str(options.steps), "--every-step"] + options.training
    if mode == "strict":
        words.append("--deterministic")
        if options.checkpoint:
            words += ["--checkpoint", options.checkpoint, "--checkpoint-every", "1"]
        if options.resume:
            words.append("--resume")
    plain = T.Trainer

    class Watched(plain):
        def train_step(self, images, labels):
            told = {"images": T.fingerprint({"x": images, "y": labels})[:16]}
            loss, right, norm = plain.train_step(self, images, labels)
            grads = {n: T.fingerprint({"g": p.grad})[:12] for n, p in self.model.named_parameters() if p.grad is not None}
            weights = T.fingerprint(self.model.state_dict())[:16]
            emit("step", mode=mode, step=self.step, loss=float(loss).hex(), norm=float(norm).hex(), gradients=grads, weights=weights, **told)
            return loss, right, norm

    events = []
    train, test = run.made()
    T.Trainer, make = Watched, T.made_dataset
    T.made_dataset = lambda: (train, (test[0][:200], test[1][:200]))  # a few test images are enough to compare bits
    try:
        T.train(T.parse(run.words(words)), events.append)
    finally:
        T.Trainer, T.made_dataset = plain, make
    done = [e for e in events if e["stage"] == "done"][0]
    rows = [{"test_loss": float(row["test_loss"]).hex(), "test_accuracy": row["test_accuracy"]} for row in done["history"]]
    return {"weights": done["weights"], "history": rows}


# -- Trajectories against golden values --------------------------------------------------------------------------------


FACTORS = {}  # by length: computing them costs more than the sum


def checksum(tensors):
    """A sum over all elements, each times its own weight, in float64 on the CPU: sees changes of single elements."""
    import torch

    total, place = 0.0, 0
    values = [value.detach().cpu().double().reshape(-1) for value in tensors]
    length = sum(v.numel() for v in values)
    if length not in FACTORS:
        FACTORS[length] = ((torch.arange(length) * 7919) % 1009).double() / 1009 + 0.5
    for v in values:
        total += float((v * FACTORS[length][place:place + v.numel()]).sum())
        place += v.numel()
    return total


def parameters(trainer):
    return [p for _, p in sorted(trainer.model.named_parameters())]


def buffers(trainer):
    return [b for n, b in sorted(trainer.model.named_buffers()) if b.is_floating_point()]


def apart(seen, wanted):
    """Relative difference; infinite when what was seen is no number."""
    if not (seen == seen and abs(seen) != float("inf")):
        return float("inf")
    return abs(seen - wanted) / max(abs(wanted), 1e-3)


def record(trainer, loss, norm):
    """What is kept of a step."""
    return {
        "loss": float(loss),
        "norm": float(norm),
        "weights": checksum(parameters(trainer)),
        "statistics": checksum(buffers(trainer)),
    }


ORDER = ("loss", "norm", "weights", "statistics")  # as they come to be: the first that differs names the part


def trajectory(run, words, name, at=None):
    """Runs the steps; answers with what was recorded, and takes the first step that differs from golden apart."""
    import reference_dissect as dissect
    import torch

    golden = run.golden.get(name)
    bounds = run.golden.get("tolerances", {}).get(name, {})
    trainer, batches, tests = run.trainer(words)
    per_epoch = len(batches) // trainer.options.batch
    steps, notes, first, left = [], [], None, None
    extra = []

    def guard(module, inputs):
        """Weights as the forward pass finds them against those that the last step left."""
        training = module.training and torch.is_grad_enabled()  # an evaluation that forgot eval() is another fault
        if training and left is not None and not notes:
            notes.extend(dict_at(dissect.memory(left, dissect.snapshot(trainer)), trainer.step + 1))

    if not trainer.options.compile:  # hooks and compilation do not go together
        trainer.model.register_forward_pre_hook(guard)
    while trainer.step < trainer.options.steps:
        number = trainer.step
        if left is not None and trainer.options.compile and not notes:
            notes += dict_at(dissect.memory(left, dissect.snapshot(trainer)), number + 1)
        if at is not None and number in at[0]:
            extra.append(at[1](trainer, tests, number))
        epoch, place = divmod(number, per_epoch)
        index = batches.order(epoch)[place * trainer.options.batch:(place + 1) * trainer.options.batch]
        loss, _, norm = trainer.train_step(*batches.train(index, epoch))
        row = record(trainer, loss, norm)
        left = dissect.snapshot(trainer)
        steps.append(row)
        if golden and first is None:
            wanted = golden["steps"][number]
            differing = [k for k in ORDER if not apart(row[k], float.fromhex(wanted[k])) <= bounds[k]]
            if differing:
                first = {"step": number + 1, "what": differing[0], "seen": row[differing[0]], "expected": float.fromhex(wanted[differing[0]])}
                if run.options.stop_early:
                    break
    if at is not None and trainer.options.steps in at[0]:
        extra.append(at[1](trainer, tests, trainer.options.steps))
    if first is not None and run.options.stop_early:
        return {"steps": [], "first": first, "worst": {}, "notes": notes or take_apart(run, words, first["step"], 64), "shadows": extra}
    images = EVALUATED
    tests = type(tests)((run.made()[1][0][:images], run.made()[1][1][:images]), run.device, 0, getattr(__import__("torch"), trainer.options.dtype))
    loss, accuracy = trainer.evaluate(tests)
    again = trainer.evaluate(tests)[0] if trainer.options.dtype == "float32" else loss
    if loss != again:
        notes.append(dissect.note("evaluation", "model", "evaluated twice: %.9g, then %.9g" % (loss, again), "eval-changes"))
    final = {"loss": loss, "accuracy": accuracy}
    worst = {}
    if golden:
        for key in ORDER:
            worst[key] = max(apart(row[key], float.fromhex(w[key])) for row, w in zip(steps, golden["steps"]))
        if len(steps) == len(golden["steps"]):
            worst["eval"] = apart(loss, float.fromhex(golden["eval"]["loss"]))
        if first is None and not worst["eval"] <= bounds["eval"]:
            first = {"step": None, "what": "eval", "seen": loss, "expected": float.fromhex(golden["eval"]["loss"])}
        if first is not None and not notes:
            notes += take_apart(run, words, first["step"], images)
    told = [{k: float(v).hex() for k, v in row.items()} for row in steps]
    answer = {"steps": told, "eval": {"loss": float(loss).hex(), "accuracy": accuracy}, "first": first, "worst": worst, "notes": notes}
    if extra:
        answer["shadows"] = extra
    return answer


def torch_equal(a, b):
    import torch

    return torch.equal(a.cpu(), b.cpu())


def dict_at(notes, number):
    return [dict(item, step=number) for item in notes]


def take_apart(run, words, step, images):
    """Runs again up to the step that differed (1-based; None: the evaluation) and takes it apart."""
    import reference_dissect as dissect
    import reference_oracle as oracle

    trainer, batches, tests = run.trainer(words)
    tolerance = PRECISE[trainer.options.dtype]
    per_epoch = len(batches) // trainer.options.batch
    previous = None
    if not torch_equal(batches.order(0), oracle.order(trainer.options.seed, 0, len(batches))):
        return [dissect.note("data", "order", "the images come in another order", "order")]
    last = trainer.options.steps if step is None else step
    while trainer.step < last:
        number = trainer.step
        epoch, place = divmod(number, per_epoch)
        index = batches.order(epoch)[place * trainer.options.batch:(place + 1) * trainer.options.batch]
        if number == last - 1 or (number == 0 and last > 1) or number == last - 2:
            notes = dissect.step(trainer, batches, run.made()[0], index, epoch, tolerance, previous)
            if notes:
                return dict_at(notes, number + 1)
        else:
            trainer.train_step(*batches.train(index, epoch))
        previous = {n: None if p.grad is None else dissect.cpu(p.grad) for n, p in trainer.model.named_parameters()}
    small = type(tests)((run.made()[1][0][:images], run.made()[1][1][:images]), run.device, 0, getattr(__import__("torch"), trainer.options.dtype))
    return dissect.evaluation(trainer, small, run.made()[1], tolerance)


def logic(run):
    """float64: the semantics, free of the device's float32 arithmetic."""
    run.be_strict()
    if run.device.type == "mps":
        return {"skipped": "MPS has no float64"}
    try:
        return trajectory(run, LOGIC + run.options.training, "logic")
    except (RuntimeError, TypeError) as error:
        if "float64" in str(error) or "fp64" in str(error).lower() or "double" in str(error).lower():
            return {"skipped": "this device has no float64: %s" % str(error).splitlines()[0][:200]}
        raise


def smooth(run):
    """float32, the twin without kinks."""
    run.be_strict()
    return trajectory(run, SMOOTH + run.options.training, "smooth", at=((0, 10, 50), lambda trainer, tests, step: dict(shadow_of(run, trainer, tests), step=step)))


def smooth_in_float64(run):
    """The same trajectory in float64: what golden values of the smooth twin are recorded from."""
    run.be_strict()
    return trajectory(run, SMOOTH + ["--dtype", "float64"], "smooth64")


def shadow_of(run, trainer, tests):
    """Error of each weight's float32 gradient against float64, on the same weights and images."""
    import reference_oracle as oracle
    import torch

    index = torch.arange(SHADOW_IMAGES)
    images, labels = tests.test(index)
    state = {k: v.detach().cpu() for k, v in trainer.model.state_dict().items()}
    _, wanted = oracle.gradients(state, images, labels, True)
    kept = {k: v.detach().clone() for k, v in trainer.model.state_dict().items()}
    named = [(n, p) for n, p in trainer.model.named_parameters() if n in ("conv1.weight", "conv2.weight", "conv3.weight", "fc.weight")]
    trainer.run.train()
    loss, _ = trainer.forward(images, labels)  # the way of the training: autocast and compilation included
    grads = torch.autograd.grad(loss, [p for _, p in named if p.requires_grad], allow_unused=True)
    trainer.model.load_state_dict(kept)  # BatchNorm's statistics have moved
    errors = {}
    grads = dict(zip([n for n, p in named if p.requires_grad], grads))
    for name, _ in named:
        w, grad = wanted[name], grads.get(name)
        errors[name] = float("inf") if grad is None else float((grad.detach().cpu().double() - w).norm() / w.norm())
    return {"errors": errors}


def shadow(run):
    """One shadow step by the settings of the moment."""
    trainer, _, tests = run.trainer(SMOOTH)
    return dict(shadow_of(run, trainer, tests), strict=run.strict)


def rates(run):
    """How fast, by the settings that the user has."""
    import reference_rates

    return reference_rates.rates(run)


TASKS = {
    "machine": machine,
    "inputs": inputs,
    "repeat:defaults": lambda run: repeat(run, "defaults"),
    "repeat:strict": lambda run: repeat(run, "strict"),
    "shadow": shadow,
    "logic": logic,
    "smooth": smooth,
    "smooth:float64": smooth_in_float64,
    "rates": rates,
}


def parse(arguments=None):
    """The command line."""
    parser = argparse.ArgumentParser(prog="reference_checks.py")
    parser.add_argument("tasks", nargs="+", choices=sorted(TASKS))
    parser.add_argument("--golden")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--steps", type=int, default=6, help="of the repeated runs")
    parser.add_argument("--checkpoint")
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--stop-early", action="store_true", help="end a trajectory where it first differs")
    parser.add_argument("--rounds", type=int, default=4, help="of the rates")
    parser.add_argument("--workers", type=int, default=0, help="measure the plain loop with so many DataLoader workers too")
    parser.add_argument("--training", action="append", default=[], metavar="OPTION", help="for the training, such as --training=--compile")
    parser.add_argument("--without-onednn", action="store_true", help="torch's own CPU kernels")
    return parser.parse_args(arguments)


def main(arguments=None):
    """Runs the tasks; a task that raises is answered with its error, and the others still run."""
    options = parse(arguments)
    # why: cuBLAS reads it when the first handle is made, long before the strict settings are asked for
    begin("import torch")
    import torch

    if options.threads:
        torch.set_num_threads(options.threads)
    if options.without_onednn:
        torch.backends.mkldnn.set_flags(False)
    run = Run(options)
    emit("import torch", version=torch.__version__)
    for name in options.tasks:
        begin(name)
        begun = time.time()
        try:
            answer = TASKS[name](run)
        except Exception as error:
            import traceback

            lines = traceback.format_exc().splitlines()
            answer = {"error": "%s: %s" % (type(error).__name__, (str(error) or "").splitlines()[:1]), "traceback": lines[-12:]}
        emit(name, seconds=round(time.time() - begun, 3), **answer)
    emit("done")


if __name__ == "__main__":
    main()
