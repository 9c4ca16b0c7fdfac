"""Run-twice experiments: short trainings with one thing left loose, which show whether that thing breaks equal bits."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from envcheck.reference.traces import Difference, Trace, first_difference, parse
from envcheck.target import PAYLOADS, Answer, Session, child_environment, start

PAYLOAD = PAYLOADS / "reference_experiments.py"
LIMIT = 900.0
"""Seconds for one process."""

# The environment of a strict run: the variables that decide are set or absent, whatever the user's say.
STRICT = {
    "PYTHONHASHSEED": "0",
    "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
    "OMP_WAIT_POLICY": "passive",  # several runs side by side must not wait for each other in loops; no effect on bits
    "NVIDIA_TF32_OVERRIDE": None,
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE": None,
    "TORCHINDUCTOR_MAX_AUTOTUNE": None,
    "TORCHINDUCTOR_MAX_AUTOTUNE_GEMM": None,
}


@dataclass(frozen=True)
class Experiment:
    """One thing left loose."""

    name: str
    loose: str
    """What is loose, in words."""
    cure: str
    """What makes it strict."""
    base: str = "strict"
    """The strict run that it is compared with."""
    env: Mapping[str, str | None] = field(default_factory=dict)
    fresh: bool = False
    """Needs a process in which nothing else ran: another run's seeds or handles would hide the difference."""
    timed: bool = False
    """Decides by timing, so that nothing may run beside it."""
    on: tuple[str, ...] = ()
    """Kinds of device on which it applies; () = all."""
    why_not: str = ""
    """Why it does not apply elsewhere."""
    chosen: bool = False
    """Meant to change the bits when it is changed: equal twice is all that can be asked of it."""


_CUDNN = "cuDNN computes on NVIDIA GPUs only"
EXPERIMENTS: tuple[Experiment, ...] = (
    Experiment("torch-seed", "no seed for torch (first weights, dropout)", "torch.manual_seed(SEED)", fresh=True),
    Experiment(
        "python-seed",
        "no seed for random and numpy (augmentation)",
        "random.seed(SEED); numpy.random.seed(SEED)",
        fresh=True,
    ),
    Experiment(
        "hash-seed",
        "PYTHONHASHSEED not set (classes numbered in the order of a set)",
        "PYTHONHASHSEED=0 before Python starts, or sorted() around every set",
        env={"PYTHONHASHSEED": None},
        fresh=True,
    ),
    Experiment(
        "worker-init",
        "DataLoader workers without worker_init_fn",
        "worker_init_fn that seeds random and numpy from torch.initial_seed()",
        base="loader",
        chosen=True,
    ),
    Experiment(
        "worker-generator",
        "DataLoader without a generator of its own",
        "generator=torch.Generator().manual_seed(SEED)",
        base="loader",
        chosen=True,
    ),
    Experiment(
        "worker-own",
        "a transform with an unseeded generator of its own",
        "numpy.random.default_rng(SEED), random.Random(SEED), seeded for each worker",
        base="loader",
    ),
    Experiment(
        "worker-count",
        "1 DataLoader worker instead of 2",
        "the same num_workers everywhere",
        base="loader",
        chosen=True,
    ),
    Experiment(
        "threads",
        "1 thread instead of {threads}",
        "the same torch.set_num_threads or OMP_NUM_THREADS everywhere",
        chosen=True,
    ),
    Experiment(
        "deterministic-algorithms",
        "deterministic algorithms off",
        "torch.use_deterministic_algorithms(True)",
    ),
    Experiment(
        "cudnn-deterministic",
        "cudnn.deterministic off, and deterministic algorithms with it",
        "torch.backends.cudnn.deterministic = True",
        base="convolutions",
        on=("cuda",),
        why_not=_CUDNN,
    ),
    Experiment(
        "cudnn-benchmark",
        "cudnn.benchmark on",
        "torch.backends.cudnn.benchmark = False",
        timed=True,
        fresh=True,
        on=("cuda",),
        why_not=_CUDNN,
    ),
    Experiment(
        "cublas-workspace",
        "CUBLAS_WORKSPACE_CONFIG not set",
        "CUBLAS_WORKSPACE_CONFIG=:4096:8 before the start",
        env={"CUBLAS_WORKSPACE_CONFIG": None},
        fresh=True,
        on=("cuda",),
        why_not="cuBLAS computes on NVIDIA GPUs only",
    ),
    Experiment(
        "tf32",
        "TF32 on, for products and convolutions",
        "torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False",
        on=("cuda",),
        why_not="TF32 is a format of NVIDIA's tensor cores",
        chosen=True,
    ),
    Experiment(
        "autotune",
        "torch.compile picks kernels by timing (mode max-autotune, and deterministic algorithms off, which forbid it)",
        "torch.compile without max-autotune",
        base="compiled",
        fresh=True,
        timed=True,
    ),
)
CONTROLS = {
    "strict": "all strict",
    "loader": "all strict, with DataLoader workers",
    "convolutions": "all strict, without a sum by index",
    "compiled": "compiled, all strict but deterministic algorithms, without a sum by index",
}
"""The strict runs, in words."""
BY_NAME = {item.name: item for item in EXPERIMENTS}


@dataclass(frozen=True)
class Group:
    """Runs that share a process; the process is started twice."""

    runs: tuple[str, ...]
    env: Mapping[str, str | None] = field(default_factory=dict)
    timed: bool = False


@dataclass
class Run:
    """One run as it was answered: its trace, or why there is none."""

    trace: Trace | None = None
    error: str = ""


@dataclass
class Result:
    """What an experiment has shown.

    status: "differs" (two runs gave other bits), "other-bits" (twice the same, but not those of the strict run),
    "no-effect" (the strict run's bits), "not-here" (does not apply to this device), "left-out", "failed", "unjudged"
    (the strict runs themselves differ or failed).
    """

    name: str
    loose: str
    cure: str
    status: str
    text: str
    twice: Difference | None = None
    against: Difference | None = None


@dataclass
class Experiments:
    """All results, and the strict runs that they lean on."""

    results: list[Result] = field(default_factory=list)
    controls: dict[str, Result] = field(default_factory=dict)
    device: str = ""
    threads: int = 0
    seconds: float = 0.0


OnProgress = Callable[[str], None]


def experiments(
    python: Path,
    device: str,
    *,
    compiled: bool = False,
    only: Sequence[str] = (),
    on_progress: OnProgress | None = None,
) -> Experiments:
    """Runs all that apply to this device; never raises for what the Python under test does.

    compiled: try the autotuning of torch.compile where it would be left out. only: names of experiments; () = all.
    """
    import time

    begun = time.monotonic()
    kind = "cpu" if device == "cpu" else device.partition(":")[0]
    left_out = _left_out(kind, compiled=compiled)
    if only:
        left_out.update((item.name, ("left-out", "not asked for")) for item in EXPERIMENTS if item.name not in only)
    groups = plan(kind, [item for item in EXPERIMENTS if item.name not in left_out])
    runs, told = _all(python, device, groups, on_progress)
    found = Experiments(device=str(told.get("device", device)), threads=int(told.get("threads", 0)))
    for base in dict.fromkeys(item.base for item in EXPERIMENTS if item.name not in left_out):
        found.controls[base] = control(base, *runs[base])
    for item in EXPERIMENTS:
        found.results.append(
            Result(item.name, _words(item, found.threads), item.cure, *left_out[item.name])
            if item.name in left_out
            else judge(item, found.controls[item.base], runs[item.base], runs[item.name], found.threads)
        )
    found.seconds = round(time.monotonic() - begun, 1)
    return found


def _words(item: Experiment, threads: int) -> str:
    return item.loose.format(threads=threads or "all")


def _left_out(kind: str, *, compiled: bool) -> dict[str, tuple[str, str]]:
    """(status, reason) of what is not run."""
    out = {item.name: ("not-here", item.why_not) for item in EXPERIMENTS if item.on and kind not in item.on}
    if kind != "cuda" and not compiled:
        out["autotune"] = (
            "left-out",
            "compiling four times takes minutes on this device; --compile tries it",
        )
    return out


def plan(kind: str, chosen: Iterable[Experiment]) -> list[Group]:
    """Which runs share a process.

    On a CPU a setting that is changed within a process cannot hide anything: every run sets all of them anew, and
    kernels are not chosen by what ran before. On other devices handles, caches and measured choices live as long as the
    process, so there each run has its own; so has, everywhere, what a fresh process decides.
    """
    shared: dict[str, list[str]] = {}
    alone: list[Group] = []
    for item in chosen:
        shared.setdefault(item.base, [item.base])
        if item.fresh or item.timed or (kind != "cpu" and item.base != "loader"):
            alone.append(Group((item.name,), item.env, item.timed))
        else:
            shared[item.base].append(item.name)
    together = [Group(tuple(runs)) for runs in shared.values()]
    return together + alone


def _all(
    python: Path, device: str, groups: list[Group], on_progress: OnProgress | None
) -> tuple[dict[str, tuple[Run, Run]], dict[str, Any]]:
    """Both runs of everything: side by side, but those that decide by timing one after the other."""
    beside = max(2, min(6 if device == "cpu" else 3, (os.cpu_count() or 2) // 2))
    total = sum(len(group.runs) for group in groups) * 2
    done: list[str] = []

    def progress(name: str, answer: dict[str, Any] | None) -> None:
        if on_progress is not None and answer is not None and ("rows" in answer or "error" in answer):
            done.append(name)
            on_progress(f"experiments: {len(done)} of {total} runs, {name}")

    sessions: list[Session] = []

    def answer(group: Group) -> Answer:
        # A kernel that one run has chosen and stored would hide what the other chooses.
        with tempfile.TemporaryDirectory(prefix="envcheck-", ignore_cleanup_errors=True) as caches:
            env = _environment(python, {"TORCHINDUCTOR_CACHE_DIR": caches, "TRITON_CACHE_DIR": caches, **group.env})
            session = start(python, PAYLOAD, [*group.runs, "--device", device], env=env, on_stage=progress)
            sessions.append(session)
            return session.finish(LIMIT, limit=LIMIT)

    pairs = [group for group in groups for _ in range(2)]
    pool = ThreadPoolExecutor(max_workers=beside)
    try:
        answers = dict(enumerate(pool.map(lambda g: None if g.timed else answer(g), pairs)))
        for place, group in enumerate(pairs):
            # What failed beside others is tried alone: a small GPU, or one that takes a single process at a time.
            first = answers[place]
            if first is None or any(_failed(first, name) for name in group.runs):
                answers[place] = answer(group)
    except BaseException:  # Ctrl-C
        pool.shutdown(wait=False, cancel_futures=True)
        for session in sessions:
            session.kill()
        raise
    pool.shutdown()
    found: dict[str, tuple[Run, Run]] = {}
    told: dict[str, Any] = {}
    for place in range(0, len(pairs), 2):
        one, other = answers[place], answers[place + 1]
        assert one is not None
        assert other is not None
        told = told or one.stage("import torch") or {}
        for name in pairs[place].runs:
            found.setdefault(name, (_run(one, name), _run(other, name)))
    return found, told


def _environment(python: Path, changes: Mapping[str, str | None]) -> dict[str, str]:
    env = child_environment(python)
    for name, value in {**STRICT, **changes}.items():
        if value is None:
            env.pop(name, None)
        else:
            env[name] = value
    return env


def _failed(answer: Answer, name: str) -> bool:
    run = _run(answer, name)
    return run.trace is None and not _refused(run.error)


def _refused(error: str) -> bool:
    return "deterministic" in error.lower() or "CUBLAS_WORKSPACE_CONFIG" in error


def _run(answer: Answer, name: str) -> Run:
    stage = answer.stage(name)
    if stage is None:
        return Run(error=f"{answer.kind}: {answer.last_words()}")
    return Run(error=str(stage["error"])) if "error" in stage else Run(parse(stage["rows"]))


def control(base: str, one: Run, other: Run) -> Result:
    """The strict run twice: equal, or nothing can be said about what is loose."""
    loose = CONTROLS[base]
    if one.trace is None or other.trace is None:
        error = one.error or other.error
        # An operation without a deterministic form on this device is no fault of the installation.
        return Result(base, loose, "", "refused" if _refused(error) else "failed", f"failed: {error}")
    difference = first_difference(one.trace, other.trace)
    if difference is None:
        text = f"{one.trace.steps} steps in two fresh processes: {len(one.trace.rows)} tensors, the same bits"
        return Result(base, loose, "", "no-effect", text)
    return Result(base, loose, "", "differs", f"first difference at {difference.text}", difference)


def judge(item: Experiment, base: Result, strict: tuple[Run, Run], runs: tuple[Run, Run], threads: int) -> Result:
    """What the two runs of an experiment say, beside those of its strict run."""
    one, other = runs
    result = Result(item.name, _words(item, threads), item.cure, "unjudged", "")
    if one.trace is None or other.trace is None:
        error = one.error or other.error
        refused = _refused(error)
        result.status = "refused" if refused else "failed"
        result.text = f"torch refuses to run so: {error}" if refused else f"failed: {error}"
        return result
    if base.status != "no-effect" or strict[0].trace is None:
        result.text = "cannot be judged: with all settings strict two runs are not equal either"
        return result
    result.twice = first_difference(one.trace, other.trace)
    result.against = first_difference(strict[0].trace, one.trace)
    if result.twice is not None:
        result.status, result.text = "differs", f"two runs differ, first at {result.twice.text}"
    elif result.against is not None:
        result.status = "other-bits"
        result.text = f"the same bits twice, but not those of the strict run, first at {result.against.text}"
    else:
        result.status, result.text = "no-effect", "the same bits twice, and those of the strict run"
    return result
