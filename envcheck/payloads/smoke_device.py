"""Proves that a device computes right with this build of torch, one small test after the other.

Run as a file by the Python under test, or by `probe_env.py --then` in a process that has imported torch already. Needs
torch; torchvision and numpy where they are installed. One line of marked JSON for each event on standard output:

    {"stage": "smoke", "seed": 4711, "level": 1, "torch": "2.8.0", "plan": [["matmul-fp32", "cuda:0"], ...]}
    {"stage": "check-start", "name": "matmul-fp32", "device": "cuda:0", "patience": 1}   times the limit it may take
    {"stage": "progress", "name": "memory", "device": "cuda:0", "share": 0.4, "text": "..."}    a long test lives
    {"stage": "check", "name": "matmul-fp32", "device": "cuda:0", "status": "passed", "seconds": 0.01, "detail": "..."}
    {"stage": "check-restart", "device": "cuda:0", "reason": "..."}   the device context is dead: start a new process
    {"stage": "smoke-end"}

A crash or hang belongs to the last "check-start"; whoever started this starts it again with `--skip` for what is done.

    smoke_device.py [--level N] [--device D]... [--only PATTERN]... [--skip NAME@DEVICE]... [--seed N] [--limit S] [--list]
                    [--minutes N] [--speed]

With --speed it measures instead of testing, by the same events and these two:

    {"stage": "device", "device": "cuda:0", "name": "...", "bus_id": "0000:01:00.0", "multiprocessors": 132}
    {"stage": "measure", "name": "matmul-bf16", "device": "cuda:0", "value": 612.0, "unit": "TFLOP/s", ...}
"""

import argparse
import fnmatch
import os
import sys
import time

MARK = "@envcheck@ "
RESTART_CODE = 75
"""Exit code (EX_TEMPFAIL) of a process that leaves because its device context is dead."""

BEAT = 1.0
"""Seconds between two signs of life of a long test."""

# Names of the steps that are no test of the catalogue, yet can fail, crash or hang like one.
IMPORT = "import-torch"
FIND = "find-devices"
FIRST = "first-work"
ANY = "all"


def emit(stage, **values):
    """Writes one event past whatever has become of sys.stdout; an empty line ahead ends a half line of others."""
    import json

    document = {"stage": stage}
    document.update(values)
    data = ("\n" + MARK + json.dumps(document) + "\n").encode("ascii")
    while data:
        data = data[os.write(1, data):]


def part(name):
    """A module of `smoke_parts`, imported with that directory on sys.path for this moment only."""
    if name not in sys.modules:
        directory = os.path.join(os.path.dirname(os.path.abspath(__file__)), "smoke_parts")
        sys.path.insert(0, directory)
        try:
            __import__(name)
        finally:
            if directory in sys.path:
                sys.path.remove(directory)
    return sys.modules[name]


def arguments(argv):
    """The command line."""
    parser = argparse.ArgumentParser(prog="smoke_device.py")
    parser.add_argument("--level", type=int, default=1)
    parser.add_argument("--device", action="append", default=[], help="cpu, cuda:1, mps, ...; default: all there are")
    parser.add_argument("--only", action="append", default=[], help="name or pattern of tests")
    parser.add_argument("--skip", action="append", default=[], help="NAME@DEVICE, already done")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--limit", type=float, default=60.0, help="seconds after which the stacks are written")
    parser.add_argument("--minutes", type=float, default=5.0, help="length of the tests of endurance (level 3), a device")
    parser.add_argument("--speed", action="store_true", help="measure how fast it is")
    parser.add_argument("--list", action="store_true")
    return parser.parse_args(argv)


def wanted(options):
    """Entries of the catalogue at that level that match `--only` (which, alone, reaches into every level)."""
    entries = []
    catalogue = part("speed_catalogue" if options.speed else "smoke_catalogue").CATALOGUE
    for entry in catalogue:
        if options.only:
            if any(fnmatch.fnmatchcase(entry.name, pattern) for pattern in options.only):
                entries.append(entry)
        elif options.speed or entry.level <= options.level:
            entries.append(entry)
    return entries


class Watch(object):
    """Writes the stacks of all threads to standard error shortly before a test reaches its limit."""

    def __init__(self, limit):
        self.limit = limit

    def __enter__(self):
        try:
            import faulthandler

            faulthandler.enable(file=2)
            faulthandler.dump_traceback_later(max(self.limit * 0.9, 0.1), file=2)
        except Exception:
            pass  # the place of a hang is then unknown, nothing else

    def __exit__(self, *unused):
        try:
            import faulthandler

            faulthandler.cancel_dump_traceback_later()
        except Exception:
            pass


def attempt(name, device, limit, body, patience=1):
    """Runs one test and answers for it: (passed or skipped, what it returned)."""
    emit("check-start", name=name, device=device, patience=patience)
    begun = time.time()
    result, status, detail = None, "passed", None
    with Watch(limit * patience):
        try:
            result = body()
            detail = result if isinstance(result, str) else None
        except BaseException as error:
            status, detail = verdict(error)
    emit("check", name=name, device=device, status=status, seconds=round(time.time() - begun, 4), detail=detail)
    return status != "failed", result


def verdict(error):
    """(status, detail) of what a test raised."""
    kind = type(error).__name__
    if kind == "Skip":
        return "skipped", str(error)
    if kind == "Wrong":
        return "failed", str(error)[:1000]
    texts = ["%s: %s" % (type(e).__name__, str(e).strip()) for e in causes(error)]
    return "failed", "; because of ".join(texts)[:1000]


def causes(error):
    """The error and those it was raised from."""
    chain = []
    while error is not None and len(chain) < 4:
        chain.append(error)
        error = error.__cause__
    return chain


def find_devices():
    """Labels of all devices that this torch can use."""
    import torch

    found = ["cpu"]
    if torch.cuda.is_available():
        found.extend("cuda:%d" % index for index in range(torch.cuda.device_count()))
    xpu = getattr(torch, "xpu", None)
    if xpu is not None and xpu.is_available():
        found.extend("xpu:%d" % index for index in range(xpu.device_count()))
    mps = getattr(torch.backends, "mps", None)
    if mps is not None and mps.is_available():
        found.append("mps")
    return found


def describe(label):
    """What the device is, for those who watch it from outside; nothing where it does not tell."""
    import torch

    kind = label.split(":")[0]
    told = {"device": label}
    try:
        if kind in ("cuda", "xpu"):
            backend = getattr(torch, kind)
            index = torch.device(label).index or 0
            properties = backend.get_device_properties(index)
            told["name"] = properties.name
            told["memory"] = int(properties.total_memory)
            told["multiprocessors"] = getattr(properties, "multi_processor_count", None)
            told["bus_id"] = bus_id(index) if kind == "cuda" and not getattr(torch.version, "hip", None) else None
    except Exception:
        pass  # a device that does not answer fails its first test, with the reason
    emit("device", **told)


def bus_id(index):
    """PCI address of a CUDA device, from the driver: it counts as torch does, CUDA_VISIBLE_DEVICES included."""
    import ctypes

    if sys.platform == "win32":
        driver = ctypes.WinDLL("nvcuda.dll")
    else:
        driver = ctypes.CDLL("libcuda.so.1")
    device, text = ctypes.c_int(), ctypes.create_string_buffer(32)
    if driver.cuInit(0) or driver.cuDeviceGet(ctypes.byref(device), ctypes.c_int(index)):
        return None
    if driver.cuDeviceGetPCIBusId(text, ctypes.c_int(len(text)), device):
        return None
    return text.value.decode("ascii").lower()


def first_work(context):
    """The smallest work: a kernel, and its result brought back."""
    import torch

    select(context)
    got = (torch.ones(3, device=context.device) + 1).cpu().tolist()
    context.synchronize()
    if got != [2.0, 2.0, 2.0]:
        raise part("smoke_support").Wrong("1 + 1 is %s" % got)


def alive(context):
    """False when not even the smallest work succeeds: after an illegal access nothing does until the process ends."""
    try:
        first_work(context)
        return True
    except Exception:
        return False


def plan(entries, devices):
    """Pairs of entry and device in the order of running: device after device, then what is run once."""
    pairs = [(entry, device) for device in devices for entry in entries if not entry.once]
    for entry in entries:
        fitting = [d for d in devices if entry.once in ("any", d.split(":")[0])]
        pairs.extend((entry, device) for device in fitting[:1])
    return pairs


class Runner(object):
    """The tests of one process. `make_context` lets a test of ours pretend a device."""

    def __init__(self, options, entries, devices, make_context=None):
        self.options, self.pairs = options, plan(entries, devices)
        self.support = part("smoke_support")
        self.make_context = make_context or self.support.Context
        self.done = set(options.skip)
        self.works = {}

    def run(self):
        """Runs them; False when the process has to be started again."""
        for entry, label in self.pairs:
            if "%s@%s" % (entry.name, label) in self.done:
                continue
            if not self.usable(label):
                emit("check", name=entry.name, device=label, status="skipped", seconds=0.0, detail="not tried: %s does no work at all" % label)
            elif not self.one(entry, label):
                emit("check-restart", device=label, reason="%s does not answer after %s" % (label, entry.name))
                return False
        return True

    def usable(self, label):
        """Whether a device does anything: a GPU that this build has no code for fails each test in the same way."""
        if label not in self.works:
            if label == "cpu":
                self.works[label] = True
            elif "%s@%s" % (FIRST, label) in self.done:
                self.works[label] = False  # it took an earlier process down
            else:
                body = lambda: first_work(self.make_context(label, self.options.seed, FIRST))  # noqa: E731
                self.works[label] = attempt(FIRST, label, self.options.limit, body)[0]
        return self.works[label]

    def one(self, entry, label):
        """Runs one test; False when the device is dead afterwards."""
        context = self.make_context(label, self.options.seed, entry.name)
        context.minutes = getattr(self.options, "minutes", context.minutes)
        patience = self.options.limit * entry.patience
        last = [0.0]

        def beat(share, text):
            if time.time() - last[0] > BEAT:
                last[0] = time.time()
                emit("progress", name=entry.name, device=label, share=round(min(share, 1.0), 3), text=text)
                Watch(patience).__enter__()  # from now on again; the one around the test ends it

        def measured(name, value, unit, **more):
            emit("measure", name=name, device=label, value=value, unit=unit, **more)

        context.beat, context.measured = beat, measured

        def body():
            select(context)
            try:
                return getattr(part(entry.module), entry.function)(context)
            except (RuntimeError, TypeError) as error:
                # Backends that are still growing lack operations, and say so. CPU and CUDA have them all.
                if context.kind in ("mps", "xpu") and self.support.lacking(error):
                    raise self.support.Skip(self.support.first_line(error))
                raise

        good, _ = attempt(entry.name, label, self.options.limit, body, entry.patience)
        suspect = entry.kills or not good
        return not suspect or context.kind == "cpu" or alive(context)


def select(context):
    """Makes the device the current one: some kernels and allocations go there whatever the tensors say."""
    if context.kind in ("cuda", "xpu") and context.device.type == context.kind:
        context.backend.set_device(context.device)


def main(argv):
    """Entry point; returns the exit code: 0, or RESTART_CODE."""
    options = arguments(argv)
    entries = wanted(options)
    if options.list:
        for entry in entries:
            emit("entry", name=entry.name, level=entry.level, sentence=entry.sentence)
        return 0
    if options.seed is None:
        options.seed = int.from_bytes(os.urandom(4), "little") & 0x7FFFFFFF
    if "torch" not in sys.modules and not attempt(IMPORT, ANY, options.limit, _import_torch)[0]:
        emit("smoke-end")
        return 0
    devices = options.device
    if not devices:
        good, found = attempt(FIND, ANY, options.limit, _Found)
        devices = found.labels if good else ["cpu"]
    pairs = [(entry.name, label) for entry, label in plan(entries, devices)]
    if options.speed or options.level >= 3:
        for label in devices:
            describe(label)
    emit("smoke", seed=options.seed, level=options.level, torch=_import_torch(), plan=pairs)
    if not Runner(options, entries, devices).run():
        return RESTART_CODE
    emit("smoke-end")
    return 0


def _import_torch():
    import torch

    return torch.__version__


class _Found(object):
    """The devices, kept apart from a detail text."""

    def __init__(self):
        self.labels = find_devices()


if __name__ == "__main__":
    _code = main(sys.argv[1:])
    if _code == RESTART_CODE:
        os._exit(_code)  # taking down a dead device context may crash or hang
    sys.exit(_code)
