"""The fourth question: is the training as fast as it should be? Judged by what was measured in one run on this machine.

How much of the convolutions' rate a whole step reaches differs between healthy machines (few cores or many, a GPU that
waits for Python), so that share is told, and is no fault by itself. A finding needs a fact: another number of threads
that was tried and is faster, products far below what the hardware gives, readings of a throttled GPU, a setting that is
made for debugging. Where the machine was busy, nothing is claimed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from envcheck.facts import EnvVar, Facts, Measurement, System, UnderLoad
from envcheck.findings import Finding, Remedy, Skipped
from envcheck.reference.measure import Measured

GOT = 0.8
"""Of the CPU time that its threads asked for, a process that has the cores for itself gets more."""
UNSTEADY = 0.3
"""Distance of the quartiles of the rounds, as a share of their median: on a machine with nothing else to do a tenth."""
BUSY = 30.0
"""Percent of the CPU, or of the GPU, that others used before."""
GAIN = 1.25
"""A setting that is so much faster than the one in force is worth a warning."""
NOT_SLOWER = 0.95
"""The pipeline in memory does strictly less than the plain loop."""
LEAST_OF_CONVOLUTIONS = 0.1
"""A step that is ten times its convolutions is bound by something that was not measured."""
NO_TIME = "no time was left"
"""What the payload gives as the reason."""
HOST_BOUND = 0.8
"""Share of a step from which on the program, which starts the kernels, is what a GPU waits for."""
READINGS_ALONE = ("gpu-shared", "gpu-throttled", "gpu-power-limit")
"""What was read, not timed: true on a busy machine too."""
BLOCKING = {
    "CUDA_LAUNCH_BLOCKING": "the program waits for every kernel",
    "HIP_LAUNCH_BLOCKING": "the program waits for every kernel",
    "AMD_SERIALIZE_KERNEL": "the program waits for every kernel",
    "PYTORCH_NO_CUDA_MEMORY_CACHING": "every tensor is allocated by the driver, which stops the GPU",
}
HOLD_BACK = ("ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA", "MKL_CBWR", "MKL_ENABLE_INSTRUCTIONS")
FOR_EQUAL_BITS = "MKL_CBWR"
"""Products are several times slower under it, and whoever sets it wants that."""


def judge_rates(
    findings: list[Finding], skipped: list[Skipped], claim: Callable[..., None], measured: Measured, device: str
) -> None:
    """Adds the claim `rate` and what follows from the measurement. Never an error: slow is not broken."""
    stage = measured.stages.get("rates")
    if stage is None or "error" in stage:
        return
    if "failed" in stage:
        reason = f"Nothing could be measured: {stage['failed']}."
        skipped.append(Skipped(rule="reference-slow", reason=reason))
        claim("rate", "skipped", reason, stage.get("seconds"), device)
        return
    facts = _facts(measured, stage, device)
    found = [*_by_rules(facts, stage), *_held_back(stage, facts.system, device)]
    doubt = _doubt(stage, facts, device)
    if doubt is not None:
        found = [f for f in found if f.rule in READINGS_ALONE]
    findings.extend(found)
    warned = [f.title for f in found if f.severity == "warning"]
    unsettled = [f.title for f in found if f.rule in ("cpu-slow", "reference-slow")] or _unexplained(stage, device)
    text = _text(stage, facts, device)
    if warned:
        status, text = "failed", f"{' '.join(warned)} Measured: {text}"
    elif doubt or unsettled:
        reason = doubt or " ".join(unsettled)
        status, text = "skipped", f"{reason} Measured: {text}" if text else reason
        skipped.append(Skipped(rule="reference-slow", reason=reason, settle="envcheck reference, alone on the machine"))
    else:
        status = "proved"
    claim("rate", status, text, stage.get("seconds"), device)


# -- What was measured, as facts that the rules about speed judge ------------------------------------------------------


def _facts(measured: Measured, stage: dict[str, Any], device: str) -> Facts:
    loads = measured.loads
    gpu = stage.get("gpu") or {}
    if not loads and gpu:
        loads = (UnderLoad(device=device, name=gpu.get("name"), multiprocessors=gpu.get("multiprocessors")),)
    speed = [*_products(stage, device), *_threads(stage)]
    if measured.cpu_before is not None:
        speed.append(measured.cpu_before)
    env = tuple(EnvVar(name=name, value=value) for name, value in stage.get("variables", {}).items())
    return Facts(system=measured.system or System(), env=env, speed=tuple(speed), under_load=loads)


def _products(stage: dict[str, Any], device: str) -> Iterator[Measurement]:
    sustained = stage.get("sustained") or {}
    details: dict[str, float] = {}
    if device == "cpu":
        details = {"threads": stage["threads"]["own"], "cpu_share": stage.get("cpu_share") or 0.0}
        if stage.get("mhz"):
            details["mhz"] = stage["mhz"]
    for name, way in stage.get("ways", {}).items():
        if name.startswith("products-"):
            precision = name.removeprefix("products-")
            value = sustained["rate"] if sustained.get("precision") == precision else way["median"]
            yield Measurement(
                name=f"matmul-{precision}", device=device, value=value, unit="TFLOP/s", details=details, low=way["low"], high=way["high"]
            )  # fmt: skip


def _threads(stage: dict[str, Any]) -> Iterator[Measurement]:
    own, cores = stage.get("threads", {}).get("own"), stage.get("cores", {}).get("usable") or 0
    for count, value in stage.get("threads", {}).get("tried", {}).items():
        details = {"threads": int(count), "own": int(int(count) == own), "cores": cores}
        yield Measurement(
            name="threads", device="cpu", value=value, unit="TFLOP/s", case=f"threads={count}", details=details
        )


def _by_rules(facts: Facts, stage: dict[str, Any]) -> Iterator[Finding]:
    from envcheck.matrix import load
    from envcheck.rules import performance
    from envcheck.rules.base import evaluate

    for finding in evaluate(facts, load(), performance.RULES).findings:
        if finding.rule == "cpu-slow" and FOR_EQUAL_BITS in stage.get("variables", {}):
            continue
        reasons = _reasons(stage) if finding.rule == "cpu-slow" else []
        if reasons:  # the build or a variable says why: then it is more than a guess
            seen = "; ".join((finding.seen, *reasons))
            finding = msgspec.structs.replace(finding, severity="warning", confidence="likely", seen=seen)
        yield finding


def _reasons(stage: dict[str, Any]) -> list[str]:
    """What the build and the environment offer as reasons for slow arithmetic on the CPU."""
    build = stage.get("build", {})
    told = ["this is a debug build of torch"] if build.get("debug") else []
    if build.get("blas") is None and build.get("mkl") is False:
        told.append("this build of torch has no library for matrix products (MKL, OpenBLAS)")
    if build.get("openmp") is False:
        told.append("this build of torch has no OpenMP")
    return told + [limit for limit in _limits(stage) if limit.startswith("MKL_ENABLE_INSTRUCTIONS")]


def _limits(stage: dict[str, Any]) -> list[str]:
    return [f"{name}={value}" for name, value in stage.get("variables", {}).items() if name in HOLD_BACK]


# -- Findings of its own -----------------------------------------------------------------------------------------------


def _held_back(stage: dict[str, Any], system: System, device: str) -> Iterator[Finding]:
    """Settings and builds that cost speed on every machine."""
    if device.startswith("cuda"):
        for name, value in stage.get("variables", {}).items():
            if name in BLOCKING and value != "0":
                yield _slow(
                    f"{name}={value} is set: {BLOCKING[name]}.",
                    f"{name}={value} in the environment",
                    Remedy(text="It is meant for finding errors: take it out of the environment for all other runs."),
                )
    if stage.get("build", {}).get("debug"):
        yield _slow(
            "This is a debug build of torch.",
            "torch.version.debug is True",
            Remedy(text="Build it with BUILD_TYPE=Release (no DEBUG=1), or install a release."),
        )
    yield from _kernels(stage, system)


def _kernels(stage: dict[str, Any], system: System) -> Iterator[Finding]:
    kernels = stage.get("kernels") or {}
    name, own = kernels.get("name"), stage.get("ways", {}).get("convolutions", {}).get("median")
    if kernels.get("rate_on") and own and kernels["rate_on"] >= GAIN * own:
        yield _slow(
            f"{name} is switched off; with it convolutions are {kernels['rate_on'] / own:.1f} times as fast.",
            f"convolutions of the model: {own:.4g} images/s, with {name} {kernels['rate_on']:.4g}",
            Remedy(text=f"Look for what switches {name} off when Python starts (sitecustomize, a .pth file)."),
        )
    # Builds without oneDNN are usual on other processors, where it has no fast kernels.
    if kernels.get("there") is False and (name == "cuDNN" or (name == "oneDNN" and system.machine == "x86_64")):
        yield _slow(
            f"This build of torch has no {name}.",
            f"the backend of {name} says that it is not available",
            Remedy(text=f"Install a build with {name}; all releases have it.", commands=("envcheck recommend",)),
            severity="note",
        )


def _slow(title: str, seen: str, remedy: Remedy, severity: str = "warning") -> Finding:
    return Finding(
        rule="reference-slow",
        severity=severity,
        area="performance",
        title=title,
        seen=seen,
        why="Every training in this environment is slower than the device allows.",
        remedy=remedy,
    )


# -- The claim ---------------------------------------------------------------------------------------------------------


def _doubt(stage: dict[str, Any], facts: Facts, device: str) -> str | None:
    """Why the measurement says nothing about this machine, None where it does."""
    busy = _busy(stage, facts, device)
    if busy is not None:
        return f"The machine is busy: {busy}{_load(stage)}."
    late = [name for name, reason in stage.get("lacking", {}).items() if reason == NO_TIME]
    if late:
        return f"The machine is busy, or very slow: no time was left for {', '.join(late)}{_load(stage)}."
    for name, what in (("memory", "The pipeline in memory"), ("plain", "The plain loop")):
        if name not in stage["ways"]:
            return f"{what} could not be measured: {stage.get('lacking', {}).get(name, 'no reason was given')}."
    for name in ("memory", "plain"):
        way = stage["ways"][name]
        if way["spread"] > UNSTEADY:
            return (
                f"The rates are unsteady: {way['low']:.4g} to {way['high']:.4g} images/s in {way['samples']} rounds "
                f"({name}){_load(stage)}."
            )
    return None


def _busy(stage: dict[str, Any], facts: Facts, device: str) -> str | None:
    for load in facts.under_load or ():
        if load.utilization_before is not None and load.utilization_before >= BUSY:
            return f"another process used {load.utilization_before:.0f} % of {load.device} before"
    if device != "cpu":
        return None
    share = stage.get("cpu_share")
    if stage["build"].get("mkl"):  # its threads never sleep in a product, so that time they did not get went to others
        if share is not None and share < GOT:
            own = stage["threads"]["own"]
            threads = f"{own} threads" if own > 1 else "one thread"
            return f"this process got {100 * share:.0f} % of the CPU time that its {threads} asked for"
        return None
    before = next((m.value for m in facts.speed or () if m.name == "cpu-busy-before"), 0.0)
    return f"others used {before:.0f} % of the CPU before" if before >= BUSY else None


def _load(stage: dict[str, Any]) -> str:
    before, logical = (stage.get("load") or {}).get("before"), stage.get("cores", {}).get("logical")
    return f", load {before:.1f} on {logical} cores" if before is not None and logical else ""


def _unexplained(stage: dict[str, Any], device: str) -> list[str]:
    """What no healthy machine is known to show, although nothing that was measured says why."""
    ratio, share = stage.get("ratio", {}).get("median"), _of_convolutions(stage)
    tried = stage.get("threads", {}).get("tried", {})
    own = tried.get(str(stage.get("threads", {}).get("own")))
    if own and max(tried.values()) >= GAIN * own:  # no finding: the CPU was not idle before
        return ["Another number of threads seems faster, but others used the CPU before."]
    if ratio is not None and ratio < NOT_SLOWER:
        return [
            f"The pipeline in memory runs at {ratio:.2f} x the plain loop, which does more: no reason was measured."
        ]
    waits = device != "cpu" and (stage.get("host_share") or 0.0) >= HOST_BOUND
    if share is not None and share < LEAST_OF_CONVOLUTIONS and not waits:
        return [f"A step takes {1 / share:.0f} times as long as its convolutions alone: no reason was measured."]
    return []


def _of_convolutions(stage: dict[str, Any]) -> float | None:
    ways = stage.get("ways", {})
    if "memory" not in ways or "convolutions" not in ways:
        return None
    return float(ways["memory"]["median"] / ways["convolutions"]["median"])


def _text(stage: dict[str, Any], facts: Facts, device: str) -> str:
    ways = stage.get("ways", {})
    if "memory" not in ways:
        return ""
    rate = ways["memory"]["median"]
    told = [f"{rate:.4g} images/s"]
    if "ratio" in stage:
        ratio = stage["ratio"]
        told.append(f"{ratio['median']:.2f} x the plain loop ({ratio['low']:.2f} to {ratio['high']:.2f})")
    if "plain-workers" in ways:
        with_workers = ways["plain-workers"]["median"]
        told.append(f"{rate / with_workers:.2f} x with {stage['workers']} DataLoader workers")
    share = _of_convolutions(stage)
    if share is not None:
        told.append(f"{100 * share:.0f} % of its convolutions alone")
    told += _of_products(stage, rate)
    told += _of_table(facts)
    return "; ".join([", ".join(told), *_remarks(stage, device)])


def _of_products(stage: dict[str, Any], rate: float) -> list[str]:
    precision = stage.get("conv_precision", "fp32")
    products = stage["ways"].get(f"products-{precision}")
    if products is None or "flops_per_image" not in stage:
        return []
    share = rate * stage["flops_per_image"] / 1e12 / products["median"]
    percent = f"{100 * share:.0f}" if share >= 0.01 else f"{100 * share:.1g}"
    return [f"{percent} % of {precision} products ({1000 * products['median']:.4g} GFLOP/s)"]


def _of_table(facts: Facts) -> list[str]:
    from envcheck.matrix import load
    from envcheck.rules import performance_peak

    best = max(performance_peak.compute_shares(facts, load()), key=lambda share: share.share, default=None)
    return [] if best is None else [f"products reach {100 * best.share:.0f} % of the card's {best.peak:.4g} TFLOP/s ({best.name})"]  # fmt: skip


def _remarks(stage: dict[str, Any], device: str) -> list[str]:
    """Settings of the user that a reader of the rates should know."""
    threads, cores = stage.get("threads", {}), stage.get("cores", {})
    told = []
    if device == "cpu" and threads.get("own") and cores.get("usable"):
        asked = ", as asked" if threads.get("asked") else ""
        of = f" of {cores['logical']}" if cores.get("logical") not in (None, cores["usable"]) else ""
        told.append(
            f"{threads['own']} thread{'s' if threads['own'] > 1 else ''}{asked}, {cores['usable']}{of} cores usable"
        )
    if (stage.get("host_share") or 0.0) >= HOST_BOUND:
        told.append(
            f"starting the kernels takes {100 * stage['host_share']:.0f} % of a step: the device waits for the program"
        )
    if (stage.get("kernels") or {}).get("asked_off"):
        told.append("without oneDNN, as asked")
    told += [f"{limit} is set" for limit in _limits(stage)]
    if str(stage.get("transforms", "torchvision")).startswith("written"):
        told.append(f"transforms {stage['transforms']}")
    return told
