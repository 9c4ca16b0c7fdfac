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
import math
import os
import re
import time

import reference_ways as W

LEAST = 0.1  # seconds: shorter samples say more about the clock than about the work
MOST_STEPS = 200
PER_ROUND = 3.0  # seconds that a round may take on average; on slower machines fewer are made
NO_TIME = "no time was left"
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

    found = {"deterministic": torch.get_deterministic_debug_mode()}
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

    torch.set_deterministic_debug_mode(found["deterministic"])
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


# -- Rounds ------------------------------------------------------------------------------------------------------------


class Way(object):
    """One thing that is measured: `work(steps)`, how much of `unit` a step is, and the samples."""

    def __init__(self, work, amount, unit, device, ready=None):
        self.work, self.amount, self.unit, self.device, self.ready = work, amount, unit, device, ready
        self.rates, self.host, self.cpu, self.seconds, self.steps = [], 0.0, 0.0, 0.0, 1

    def warm(self):
        """Once for what is made at the first time, and again to see how many steps make a sample."""
        once = self.time(1)[0]
        if once < 3 * LEAST or self.device.type != "cpu":
            once = self.time(1)[0]
        self.steps = max(1, min(MOST_STEPS, int(math.ceil(LEAST / max(once, 1e-9)))))

    def time(self, steps):
        """(seconds, of them until the program had given all work to the device, CPU seconds of the process)"""
        if self.ready is not None:
            self.ready()
        W.wait(self.device)
        cpu, begun = time.process_time(), time.perf_counter()
        self.work(steps)
        given = time.perf_counter()
        W.wait(self.device)
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


def ways_of(run, workers, lacking):
    """(ways by name, the objects behind them); what cannot be measured here is left out, the reason is put into `lacking`."""
    T, device = run.T, run.device
    train, end = run.made()[0], time.perf_counter() + 2 * PER_ROUND * run.options.rounds
    ways, made = {}, {}

    def attempt(name, make):
        if time.perf_counter() > end and len(ways) > 1:
            lacking[name] = NO_TIME
            return
        try:
            item = make()
            way = Way(*item[:3], device=device, **(item[3] if len(item) > 3 else {}))
            way.warm()
            ways[name] = way
        except Exception as error:  # out of memory, an operation that a device lacks: the others still say something
            lacking[name] = W.words(error)

    def memory(*more):
        made.setdefault("memory", W.Memory(T, train, device, more))
        return (made["memory"] if not more else W.Memory(T, train, device, more)).train, W.BATCH, "images/s"

    def plain(count):
        made.setdefault("pictures", W.Pictures(train, T))
        item = made["plain%d" % count] = W.Plain(made["pictures"], device, count)
        return item.train, W.BATCH, "images/s", {"ready": item.ready}

    def convolutions():
        part = made["memory"]
        images = part.batches.train(part.chunks[0], 0)[0]
        made["convolutions"] = W.Convolutions(part.trainer.model, images)
        return made["convolutions"].train, W.BATCH, "images/s"

    def product(precision):
        item = W.Products(context, precision)
        return item.train, item.flops / 1e12, "TFLOP/s"

    context = W.Context(device)
    precisions = context.precisions()
    attempt("memory", memory)
    attempt("plain", lambda: plain(0))
    for precision in precisions:
        attempt("products-" + precision, lambda: product(precision))
    if "memory" in ways:
        attempt("convolutions", convolutions)
        attempt("input-memory", lambda: (made["memory"].load, W.BATCH, "images/s"))
    if "plain" in ways:
        attempt("input-plain", lambda: (made["plain0"].load, W.BATCH, "images/s"))
    if workers:
        attempt("plain-workers", lambda: plain(workers))
    if "bf16" in precisions:
        attempt("memory-bf16", lambda: memory("--amp", "bf16"))
    return ways, made


def rates(run):
    """The task; {"failed": why} where nothing could be measured, for that is no fault of the arithmetic."""
    strict = switches()
    put_back(run.found)
    try:
        return measured(run)
    except Exception as error:
        return {"failed": W.words(error)}
    finally:
        put_back(strict)


def measured(run):
    """Everything that is told."""
    import torch

    begun, lacking = time.perf_counter(), {}
    room = cores()
    own = torch.get_num_threads()
    workers = min(run.options.workers, room["usable"])
    ways, made = ways_of(run, workers, lacking)
    rounds, end = 0, time.perf_counter() + PER_ROUND * run.options.rounds
    while rounds < run.options.rounds and (rounds < 1 or time.perf_counter() < end):
        for way in ways.values():
            way.sample()
        rounds += 1
    if rounds < min(3, run.options.rounds):
        lacking["rounds"] = NO_TIME
    answer = {
        "rounds": rounds, "batch": W.BATCH, "ways": {name: way.told() for name, way in ways.items()}, "lacking": lacking,
        "cores": room, "threads": {"own": own, "asked": run.options.threads, "tried": tried(run, room, own)},
        "load": {"before": run.load, "after": load_of_machine()}, "build": build(), "gpu": gpu(run.device),
        "kernels": kernels(run, made, ways), "variables": {n: os.environ[n] for n in VARIABLES if os.environ.get(n)},
    }
    if "pictures" in made:
        answer["transforms"] = made["pictures"].told
    if workers:
        answer["workers"] = workers
    if "convolutions" in made:
        answer["flops_per_image"] = made["convolutions"].flops / W.BATCH
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
        part = W.Products(W.Context(run.device), "fp32")
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
