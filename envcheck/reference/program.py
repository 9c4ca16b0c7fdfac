"""Somebody's own program run twice under hooks: where its two runs part, and why."""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envcheck.errors import TargetError, UsageError
from envcheck.reference.causes import Cause, cause_of
from envcheck.reference.traces import Difference, Trace, first_difference, read
from envcheck.target import PAYLOADS, Answer, child_environment, locate, start

STEPS = 20
"""Optimizer steps after which a program under audit is ended."""
LIMIT = 3600.0
"""Seconds after which a run is ended that has not come so far."""

_SEVERAL = ("torchrun", "accelerate", "deepspeed", "mpirun", "mpiexec", "srun", "horovodrun", "colossalai", "ray")
_SEVERAL_MODULES = ("torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch")
_STARTERS = (
    "uv",
    "poetry",
    "pipenv",
    "conda",
    "mamba",
    "micromamba",
    "pixi",
    "hatch",
    "pdm",
    "env",
    "nice",
    "time",
    "nohup",
    "bash",
    "sh",
)
_FLAGS = {"u": "PYTHONUNBUFFERED", "O": "PYTHONOPTIMIZE", "B": "PYTHONDONTWRITEBYTECODE", "s": "PYTHONNOUSERSITE"}
_DEVELOPER = {"dev": ("PYTHONDEVMODE", "1"), "faulthandler": ("PYTHONFAULTHANDLER", "1"), "utf8": ("PYTHONUTF8", "1")}


@dataclass(frozen=True)
class Command:
    """What is run: interpreter, what Python's own options say as variables, and the program with its arguments."""

    python: Path
    env: dict[str, str]
    words: tuple[str, ...]

    @property
    def name(self) -> str:
        """The program's name, without its folder and its arguments, which may hold what is nobody's business."""
        return f"-m {self.words[1]}" if self.words[0] == "-m" else Path(self.words[0]).name


@dataclass(frozen=True)
class Compared:
    """What two runs of a program came to."""

    name: str
    one: Trace
    other: Trace
    difference: Difference | None
    cause: Cause | None
    seconds: float

    @property
    def tensors(self) -> int:
        """How many were compared."""
        return min(len(self.one.rows), len(self.other.rows))

    @property
    def steps(self) -> int:
        """Optimizer steps that both runs made."""
        return min(self.one.steps, self.other.steps)


def command(python: Path, program: Sequence[str]) -> Command:
    """The words after `--`, understood.

    Raises:
        UsageError: no Python program, or one that cannot be looked at from here.
    """
    words = list(program)
    env: dict[str, str] = {}
    first = Path(words[0]).name.lower().removesuffix(".exe") if words else ""
    if first in _SEVERAL or words[1:3] in [["-m", name] for name in _SEVERAL_MODULES]:
        raise UsageError(
            f"{first if first in _SEVERAL else words[2]} starts several processes, and none of them could be looked at: audit one, as in "
            "RANK=0 LOCAL_RANK=0 WORLD_SIZE=1 MASTER_ADDR=localhost MASTER_PORT=29500 envcheck reference --audit -- python train.py"
        )
    if first in _STARTERS or "=" in first:
        raise UsageError(
            f"{words[0]}: name the interpreter itself (--python PATH, or -- PATH/python train.py), and set variables before the "
            "word envcheck"
        )
    if re.fullmatch(r"(python|pypy)[\d.]*[tw]*", first):
        python, words = locate(words[0]), words[1:]
        words, env = _options(words)
    if not words or (words[0] != "-m" and not _is_program(Path(words[0]))) or (words[0] == "-m" and len(words) < 2):
        raise UsageError(f"{words[0] if words else 'after --'}: no Python program; say: --audit -- python train.py")
    return Command(python, env, tuple(words))


def _is_program(path: Path) -> bool:
    return path.is_file() or (path / "__main__.py").is_file()


def _options(words: list[str]) -> tuple[list[str], dict[str, str]]:
    """Python's own options before the program, as the variables that say the same."""
    env: dict[str, str] = {}
    while words and words[0].startswith("-") and words[0] != "-m":
        word = words.pop(0)
        letters = word[1:]
        if word.startswith("-m"):
            return ["-m", letters[1:], *words], env
        if letters[:1] in ("W", "X"):
            value = letters[1:] or (words.pop(0) if words else "")
            if letters[0] == "W":
                env["PYTHONWARNINGS"] = ",".join(filter(None, (env.get("PYTHONWARNINGS"), value)))
                continue
            if value in _DEVELOPER:
                env.update((_DEVELOPER[value],))
                continue
        elif letters and set(letters) <= set(_FLAGS):
            env.update((_FLAGS[letter], str(letters.count(letter))) for letter in letters)
            continue
        raise UsageError(
            f"python {word}: this option cannot be passed on here; leave it out"
            + (", or put the code into a file" if word == "-c" else "")
        )
    return words, env


def audit_program(
    python: Path,
    program: Sequence[str],
    steps: int = STEPS,
    *,
    limit: float = LIMIT,
    on_progress: Callable[[str], None] | None = None,
) -> Compared:
    """Runs the program twice and compares every tensor that its modules and optimizers have seen.

    Raises:
        UsageError: no Python program, or one that trains nothing.
        TargetError: it failed.
    """
    asked = command(python, program)
    begun = time.time()
    with tempfile.TemporaryDirectory(prefix="envcheck-") as folder:
        answers, traces = [], []
        for number in (1, 2):
            path = Path(folder) / f"trace{number}"
            since = begun if number == 2 else 0.0
            answers.append(_run(asked, path, steps, since, limit, _progress(number, steps, on_progress)))
            traces.append(read(path))
            if number == 1:
                steps = _worth_a_second(answers[0], traces[0], asked, steps, limit)
    one, other = traces
    complete = all(_ended(answer) for answer in answers)
    difference = first_difference(one, other, whole=complete)
    if difference is None and not _ended(answers[1]):
        raise TargetError(f"the second run of the program {_why(answers[1], other, limit)}; the first did not")
    cause = None if difference is None else cause_of(difference, one, other)
    return Compared(asked.name, one, other, difference, cause, round(time.time() - begun, 1))


def _run(
    asked: Command, path: Path, steps: int, since: float, limit: float, progress: Callable[[str, Any], None]
) -> Answer:
    session = start(
        asked.python,
        PAYLOADS / "reference_hooks.py",
        [str(path), str(steps), repr(since), *asked.words],
        env={**child_environment(asked.python), **asked.env},
        on_stage=progress,
    )
    try:
        return session.finish(limit, limit=limit)
    except BaseException:  # Ctrl-C reaches us alone: a training must not go on without anybody who looks at it
        session.kill()
        raise


def _progress(number: int, steps: int, tell: Callable[[str], None] | None) -> Callable[[str, Any], None]:
    if tell is not None:
        tell(f"run {number} of 2 of the program")

    def heard(name: str, answer: dict[str, Any] | None) -> None:
        if tell is not None and name == "step" and answer is not None:
            tell(f"run {number} of 2 of the program: step {answer['step']} of {steps} at most")

    return heard


def _ended(answer: Answer) -> bool:
    """By itself, or where it was to be ended."""
    return answer.outcome.exit_code == 0


def _worth_a_second(answer: Answer, trace: Trace, asked: Command, steps: int, limit: float) -> int:
    """How many steps the second run is to make.

    Raises:
        UsageError: nothing was seen that could be compared.
        TargetError: the first run failed.
    """
    if answer.kind == "timeout" and trace.steps:
        return trace.steps  # it was slow: the second run is to make as many steps, however long that takes
    if not _ended(answer):
        raise TargetError(f"the first run of the program {_why(answer, trace, limit)}")
    if not trace.rows:
        raise UsageError(
            f"{asked.name} called no module and no optimizer of torch in its own process: there is nothing to compare "
            "(what it starts in other processes cannot be seen)"
        )
    return steps


def _why(answer: Answer, trace: Trace, limit: float) -> str:
    """How a run failed, in one line."""
    if answer.kind == "timeout":
        return f"was ended after {limit:.0f} s, in which it made {trace.steps or 'no'} optimizer steps"
    if answer.kind == "crashed":
        return f"crashed ({answer.outcome.signal})"
    last = answer.last_words()
    if answer.outcome.exit_code is None:
        return f"could not be started: {last}"
    hint = " (it reads from the terminal; under audit its input is empty)" if last.startswith("EOFError") else ""
    return f"ended with exit code {answer.outcome.exit_code}: {last}{hint}"


def document(found: Compared) -> dict[str, Any]:
    """The `audit` object of the JSON report. Of the program's command line it holds the name alone."""
    from envcheck.reference.audit import difference
    from envcheck.reference.settings import settings

    end = found.one.end
    settings_seen = settings({"settings": found.one.settings, "variables": found.one.variables})
    return {
        "program": found.name,
        "torch": found.one.torch,
        "steps": found.steps,
        "tensors": found.tensors,
        "models": found.one.models,
        "difference": difference(found.difference),
        "cause": None
        if found.cause is None
        else {"setting": found.cause.setting, "text": found.cause.text, "confidence": found.cause.confidence},
        "sampled": int(end.get("sampled", 0)),
        "not_compared": int(end.get("unread", 0)),
        "devices": list(found.one.devices),
        "seconds": found.seconds,
        "hashing_seconds": end.get("hashing"),
        "settings": [row for row in settings_seen if row["value"] is not None],
    }
