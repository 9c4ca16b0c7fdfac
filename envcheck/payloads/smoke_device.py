"""Proves that a device computes right with this build of torch, one small test after the other.

Run as a file by the Python under test, or by `probe_env.py --then` in a process that has imported torch already. Needs
torch; torchvision and numpy where they are installed. One line of marked JSON for each event on standard output:

    {"stage": "smoke", "seed": 4711, "level": 1, "torch": "2.8.0", "plan": [["matmul-fp32", "cuda:0"], ...]}
    {"stage": "check-start", "name": "matmul-fp32", "device": "cuda:0"}
    {"stage": "check", "name": "matmul-fp32", "device": "cuda:0", "status": "passed", "seconds": 0.01, "detail": "..."}
    {"stage": "check-restart", "device": "cuda:0", "reason": "..."}   the device context is dead: start a new process
    {"stage": "smoke-end"}

A crash or hang belongs to the last "check-start"; whoever started this starts it again with `--skip` for what is done.

    smoke_device.py [--level N] [--device D]... [--only PATTERN]... [--skip NAME@DEVICE]... [--seed N] [--limit S] [--list]
"""

import argparse
import fnmatch
import os
import sys
import time

MARK = "@envcheck@ "
RESTART_CODE = 75
"""Exit code (EX_TEMPFAIL) of a process that leaves because its device context is dead."""

# Names of the two events that are no test of the catalogue, yet can fail, crash or hang like one.
IMPORT = "import-torch"
FIND = "find-devices"
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
    parser.add_argument("--list", action="store_true")
    return parser.parse_args(argv)


def wanted(options):
    """Entries of the catalogue at that level that match `--only` (which, alone, reaches into every level)."""
    entries = []
    for entry in part("smoke_catalogue").CATALOGUE:
        if options.only:
            if any(fnmatch.fnmatchcase(entry.name, pattern) for pattern in options.only):
                entries.append(entry)
        elif entry.level <= options.level:
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


def attempt(name, device, limit, body):
    """Runs one test and answers for it: (passed or skipped, what it returned)."""
    emit("check-start", name=name, device=device)
    begun = time.time()
    result, status, detail = None, "passed", None
    with Watch(limit):
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
    text = str(error).strip()
    return "failed", ("%s: %s" % (kind, text) if text else kind)[:1000]


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


def alive(context):
    """False when not even the smallest work succeeds: after an illegal access nothing does until the process ends."""
    import torch

    try:
        one = torch.ones(3, device=context.device) + 1
        context.synchronize()
        return one.cpu().tolist() == [2.0, 2.0, 2.0]
    except Exception:
        return False


def plan(entries, devices):
    """Pairs of entry and device in the order of running: late tests last, else device after device."""
    pairs = [(entry, device) for device in devices for entry in entries if not entry.late]
    pairs.extend((entry, device) for entry in entries if entry.late for device in devices[:1])
    return pairs


def run_all(options, entries, devices, make_context=None):
    """Runs the tests; False when the process has to be started again."""
    support = part("smoke_support")
    done = set(options.skip)
    for entry, label in plan(entries, devices):
        if "%s@%s" % (entry.name, label) in done:
            continue
        context = (make_context or support.Context)(label, options.seed, entry.name)

        def body():
            select(context)
            return getattr(part(entry.module), entry.function)(context)

        good, _ = attempt(entry.name, label, options.limit, body)
        if not good and context.kind != "cpu" and not alive(context):
            emit("check-restart", device=label, reason="%s does not answer after %s" % (label, entry.name))
            return False
    return True


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
            emit("entry", name=entry.name, level=entry.level, late=entry.late, sentence=entry.sentence)
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
    emit("smoke", seed=options.seed, level=options.level, torch=_import_torch(), plan=pairs)
    if not run_all(options, entries, devices):
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
    sys.exit(main(sys.argv[1:]))
