"""Breaks torch in one way after another and lets the smoke tests judge each: run by a Python that has torch.

    faults.py RUN SEED [WORD]       every fault (whose name has the word), one JSON line each: what its test said
    faults.py DEAD                  events of a device that dies in its second test, and of one that never works
    faults.py SOUND FROM N [LEVEL]  the healthy CPU with N seeds: one JSON line for each failure, then a summary

GPU-only tests run against a pretended device whose tensors lie on the CPU.
"""

import contextlib
import json
import sys

import fault_kit as kit
from faults_level1 import FAULTS as LEVEL_1
from faults_level1 import philox_rand
from faults_level2 import FAULTS as LEVEL_2
from faults_level2 import PRETENDED_LEVEL_2
from faults_level3 import FAULTS as LEVEL_3

FAULTS = LEVEL_1 + LEVEL_2 + LEVEL_3

# Endurance in a moment: a round of all patterns over little memory, and a few products.
kit.support.Context.memory_bytes = 3 << 20
kit.support.Context.product_size = 48
MINUTES = 0.01


def judge(device, seed, level=1, only=(), skip=()):
    """The checks of one run in this process, as the payload reports them."""
    events = []
    words = ["--device", device, "--seed", str(seed), "--level", str(level), "--limit", "100000"]
    words += ["--minutes", str(MINUTES)]
    options = kit.smoke_device.arguments(
        words
        + [word for name in only for word in ("--only", name)]
        + [word for name in skip for word in ("--skip", name + "@" + device)]
    )
    kept, kit.smoke_device.emit = (
        kit.smoke_device.emit,
        lambda stage, **values: events.append(dict(values, stage=stage)),
    )
    try:
        kit.smoke_device.Runner(
            options, kit.smoke_device.wanted(options), [device], kit.pretended if device != kit.CPU else None
        ).run()
    finally:
        kit.smoke_device.emit = kept
    return [event for event in events if event["stage"] == "check" and event["name"] != kit.smoke_device.FIRST]


def run(seed, wanted=""):
    for name, test, device, make in FAULTS:
        if wanted not in name:
            continue
        with contextlib.ExitStack() as stack:
            if device == kit.GPU:
                stack.enter_context(kit.pretend_pinning())
            fault = stack.enter_context(make())
            checks = judge(device, seed, only=(test,))
            hits = fault.hits
        (check,) = checks
        print(
            json.dumps(
                {"fault": name, "test": test, "status": check["status"], "detail": check["detail"], "hits": hits}
            ),
            flush=True,
        )


# They start compilers and processes, and draw nothing that could be unlucky.
SLOW = ("compile", "all-reduce")
PRETENDED = (
    "copy-pinned",
    "matmul-fp*",
    "matmul-tf32",
    "matmul-bf16",
    "conv2d-*",
    "batch-norm",
    "layer-norm",
    "softmax",
    "rng-repeat",
    "streams-events",
    "out-of-memory",
)


def sound(first, count, level):
    """The healthy machine must pass, whatever the seed; so must the GPU-only tests on the pretended GPU."""
    passed, skipped = {}, {}
    for seed in range(first, first + count):
        checks = judge(kit.CPU, seed, level, skip=SLOW)
        with kit.pretend_pinning():
            checks += judge(kit.GPU, seed, level, PRETENDED + (PRETENDED_LEVEL_2 if level > 1 else ()))
        with philox_rand(10)():
            checks += judge(kit.GPU, seed, only=("rng-known",))
        for check in checks:
            key = check["name"] + "@" + check["device"]
            if check["status"] == "passed":
                passed[key] = passed.get(key, 0) + 1
            elif check["status"] == "skipped":
                skipped[key] = check["detail"]
            else:
                print(
                    json.dumps({"seed": seed, "check": key, "status": check["status"], "detail": check["detail"]}),
                    flush=True,
                )
    print(json.dumps({"passed": passed, "skipped": skipped}), flush=True)


def dead():
    """Two pretended devices, one dying on the way and one that never worked; events as the payload writes them."""
    device = kit.smoke_device
    state = {"calls": 0}

    def first_work(context):
        state["calls"] += 1
        if context.label == "cuda:1" or state["calls"] > 1:
            raise RuntimeError("CUDA error: no kernel image is available for execution on the device")

    device.first_work = first_work
    words = ["--seed", "1", "--only", "softmax", "--only", "layer-norm", "--only", "batch-norm"]
    with kit.operator("aten::native_layer_norm", kit.nan)():
        for skip in ([], ["batch-norm@cuda:0", "layer-norm@cuda:0", "first-work@cuda:0"]):
            options = device.arguments(words + [w for name in skip for w in ("--skip", name)])
            runner = device.Runner(options, device.wanted(options), ["cuda:0", "cuda:1"], kit.pretended)
            print(json.dumps({"finished": runner.run()}), flush=True)


if __name__ == "__main__":
    command = sys.argv[1]
    if command == "DEAD":
        dead()
        sys.exit()
    if command == "RUN":
        run(int(sys.argv[2]), *sys.argv[3:])
    else:
        sound(int(sys.argv[2]), int(sys.argv[3]), int((sys.argv + ["1"])[4]))
