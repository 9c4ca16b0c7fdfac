"""Why two runs of a program part where they do: judged from what differs first and from what the program had set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from envcheck.findings import Remedy
from envcheck.reference.traces import Difference, Trace

RANDOM_MODULES = ("Dropout", "RReLU", "FractionalMaxPool", "DropPath", "StochasticDepth", "GaussianNoise")
"""Modules that draw random numbers when they train, by the beginning of their class's name."""

SEED = {
    "torch": "torch.manual_seed(0)",
    "torch, GPU": "torch.manual_seed(0)",
    "random": "random.seed(0)",
    "numpy": "numpy.random.seed(0)",
}


@dataclass(frozen=True)
class Cause:
    """The likely cause."""

    setting: str
    """Name of the experiment that shows its effect, "" when it is not a setting."""
    text: str
    remedy: Remedy
    confidence: str
    """Of the cause: "likely" where the traces speak for it, "possible" where it is what such a place usually means."""


def cause_of(difference: Difference, one: Trace, other: Trace) -> Cause:
    """What most likely makes the difference."""
    if other.reread and (difference.kind in ("start", "input", "order") or difference.step == 1):
        return _files(other.reread)
    unequal = _unequal(difference.step, one, other)
    if difference.kind == "order":
        return _order(unequal)
    if difference.kind in ("start", "input"):
        return _from_outside(difference, unequal, one)
    if difference.kind == "state":
        return Cause(
            "",
            "the weights and buffers were equal when the last step ended, and something other than the optimizer changed them since",
            Remedy(text="Look for code that writes to weights between steps: clipping, averaging, noise, a callback."),
            "likely",
        )
    if difference.kind == "weights":
        return _optimizer(one)
    return _computed(difference, unequal, one)


@dataclass(frozen=True)
class _Generators:
    """Random generators that stood in another state when a step began, and since which step.

    One that nobody has drawn from is left out: it is always in another state, and explains nothing.
    """

    first: Mapping[str, int]
    """By name, the first step at which it differed."""

    @property
    def names(self) -> tuple[str, ...]:
        """Which."""
        return tuple(self.first)

    @property
    def since(self) -> int:
        """The first step at which one of them differed."""
        return min(self.first.values(), default=1)

    def of_torch(self) -> _Generators:
        """Those of torch alone."""
        return _Generators({name: step for name, step in self.first.items() if name.startswith("torch")})


def _unequal(step: int, one: Trace, other: Trace) -> _Generators:
    seen = sorted(s for s in one.generators if 0 < s <= max(step, 1) and s in other.generators)
    apart = {s: [n for n, v in one.generators[s].items() if other.generators[s].get(n, v) != v] for s in seen}
    if not seen:
        return _Generators({})
    fresh = one.generators.get(0, {})
    names = [name for name in apart[seen[-1]] if one.generators[seen[-1]][name] != fresh.get(name)]
    return _Generators({name: next(s for s in seen if name in apart[s]) for name in names})


def _seed(unequal: _Generators, what: str, confidence: str = "likely") -> Cause:
    calls = list(dict.fromkeys(SEED[name] for name in unequal.names if name in SEED))
    told = list(dict.fromkeys("torch" if name.startswith("torch") else name for name in unequal.names))
    setting = "torch-seed" if "torch" in told else "python-seed"
    one = len(told) == 1
    if unequal.since > 1:
        state = f"{_and(told)} stood in the same state at first and from step {unequal.since} on in another: something seeds {'it' if one else 'them'} anew, or draws a number of times that changes"
        remedy = f"Look for what seeds it anew (by time, by nothing) before step {unequal.since}; seed once, at the program's beginning: {', '.join(calls)}"
    else:
        state = f"{_and(told)} stood in another state in the two runs: nothing seeds {'it' if one else 'them'}"
        remedy = f"At the program's beginning, before the model and the data are made: {', '.join(calls)}"
    return Cause(setting, f"{what}; {state}", Remedy(text=remedy), confidence)


def _and(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _files(names: list[str]) -> Cause:
    return Cause(
        "",
        f"the second run read what the first had written ({_and(names[:3])}): it went on from there",
        Remedy(
            text="Give the program an output folder that does not exist yet, and remove those files before each run."
        ),
        "likely",
    )


def _order(unequal: _Generators) -> Cause:
    if unequal.names:
        return _seed(unequal, "the program took another way", "possible")
    return Cause(
        "hash-seed",
        "the program took another way: a condition on time, on the order of a set or of a directory, or on what another process does",
        Remedy(
            text="Set PYTHONHASHSEED=0 before Python starts, sort what comes from a set or a directory, stop by steps and not by time."
        ),
        "possible",
    )


def _from_outside(difference: Difference, unequal: _Generators, one: Trace) -> Cause:
    weights = difference.kind == "start"
    what = (
        "the first weights are drawn at random"
        if weights
        else "the data, its order or its augmentation is drawn at random"
    )
    drawn = unequal.of_torch() if weights else unequal
    if drawn.names:
        return _seed(drawn, what, "likely")
    if unequal.names:
        return _seed(unequal, what, "possible")
    if one.variables.get("PYTHONHASHSEED", "random") == "random":
        return _hashes(f"{what} or in an order that changes" if not weights else what)
    return Cause(
        "worker-own",
        "the generators of torch, random and numpy stood in the same state and PYTHONHASHSEED is set, so a generator of the "
        "program's own or a worker's, the order of a directory, or the time decides",
        Remedy(
            text="Seed every numpy.random.default_rng(), random.Random() and torch.Generator() of the program, in the workers too."
        ),
        "possible",
    )


def _hashes(where: str) -> Cause:
    return Cause(
        "hash-seed",
        f"{where}; the generators of torch, random and numpy stood in the same state, so the order of a set or of a directory, "
        "a generator of the program's own or a worker's, or the time decides",
        Remedy(
            text="Sort what comes from a set or a directory; seed every numpy.random.default_rng(), random.Random() and "
            "torch.Generator() of the program, in the workers too. To see whether sets are the cause: repeat with PYTHONHASHSEED=0."
        ),
        "possible",
    )


def _computed(difference: Difference, unequal: _Generators, one: Trace) -> Cause:
    """A module, the code between modules, the loss or a gradient: random numbers, or a kernel."""
    where = _place(difference)
    draws = difference.type.startswith(RANDOM_MODULES)
    of_torch = unequal.of_torch()
    if draws and not of_torch.names:
        return Cause(
            "torch-seed",
            f"{where}; it draws random numbers, from a generator that was not seeded alike",
            Remedy(text="Seed torch at the program's beginning, and every torch.Generator() that is handed over."),
            "likely",
        )
    if draws or (of_torch.names and difference.kind != "gradient"):
        return _seed(of_torch, f"{where}; it draws random numbers")
    if _on_gpu(one) and difference.kind != "loss":
        return _kernel(where, difference, one)
    if unequal.names:
        return _seed(unequal, f"{where}; random numbers are the usual cause", "possible")
    if difference.kind == "loss" and one.variables.get("PYTHONHASHSEED", "random") == "random":
        return _hashes(where)
    if _on_gpu(one):
        return _kernel(where, difference, one)
    return Cause(
        "threads",
        f"{where}; the kernels of torch on a CPU give the same bits twice, so a custom operation, a generator of its own, "
        "the time, or an unsound memory is the cause",
        Remedy(
            text="Look at what this part calls besides torch; then prove the installation itself.",
            commands=("envcheck reference",),
        ),
        "possible",
    )


def _place(difference: Difference) -> str:
    """What was equal before it, and so where it comes from."""
    seen = difference.seen
    if difference.kind == "output":
        return "what went into it and its weights were the same bits"
    if difference.kind == "between":
        return "what every module before it has put out was the same bits, so it is the code between them"
    if difference.kind == "loss" and "output" in seen:
        return "the model's output was the same bits, so it is the loss: its labels, or its code"
    if difference.kind == "gradient" and "loss" in seen:
        return "the loss was the same bits, so it is the backward pass"
    unseen = "no call of a module was seen in this step (it is compiled in place, or made of functions)"
    if difference.kind == "gradient" and "output" in seen:
        return "the output of the model was the same bits, so it is the loss or the backward pass"
    return f"{unseen}, so it may be the data, the weights or anything that is computed from them"


def _on_gpu(trace: Trace) -> bool:
    return bool(set(trace.devices) - {"cpu", "meta"})


def _kernel(where: str, difference: Difference, one: Trace) -> Cause:
    settings = one.settings
    by_cudnn = difference.kind == "gradient" or difference.type.startswith(("Conv", "LSTM", "GRU", "RNN"))
    if settings.get("backends.cudnn.benchmark") and by_cudnn and "cuda" in one.devices:
        return Cause(
            "cudnn-benchmark",
            f"{where}; cudnn.benchmark is on and picks algorithms by timing",
            Remedy(text="torch.backends.cudnn.benchmark = False, and torch.use_deterministic_algorithms(True)."),
            "likely",
        )
    if not settings.get("are_deterministic_algorithms_enabled"):
        return Cause(
            "deterministic-algorithms",
            f"{where}; deterministic algorithms are off, and kernels that add in whatever order their threads come in are allowed",
            Remedy(
                text="torch.use_deterministic_algorithms(True) at the program's beginning, with CUBLAS_WORKSPACE_CONFIG=:4096:8 "
                "set before Python starts; an operation that has no such kernel is then named by an error."
            ),
            "likely",
        )
    return Cause(
        "deterministic-algorithms",
        f"{where}; deterministic algorithms are on, so it is a kernel that torch does not know to be nondeterministic: a "
        "custom or compiled one, attention, or a fault of the device",
        Remedy(
            text="Try the operations of this device one by one, and prove the installation itself.",
            commands=("envcheck reference --audit", "envcheck reference"),
        ),
        "possible",
    )


def _optimizer(one: Trace) -> Cause:
    text = "weights and gradients were the same bits before, so the optimizer's own step gives other ones"
    if _on_gpu(one):
        text += ": a fused kernel, or gradients that are scaled or clipped by a value computed in another order"
    return Cause(
        "",
        text,
        Remedy(text="Try the optimizer of torch with fused=False and foreach=False; look for noise that it adds."),
        "possible",
    )
