"""The options of `recommend` and `export` that say which machine, which Python and which torch are meant."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from envcheck.cli.options import load_facts

if TYPE_CHECKING:
    from envcheck.facts import Facts, System
    from envcheck.matrix import Matrix
    from envcheck.recommend.describe import Description

PYTHON_LIMIT = 30.0
"""Seconds that the Python under test may take to describe itself."""

OtherSystem = Annotated[str | None, typer.Option("--os", help="Plan for linux, windows, macos or wsl.")]
OtherMachine = Annotated[str | None, typer.Option("--machine", help="x86_64, aarch64 or arm64.")]
OtherPython = Annotated[
    str | None, typer.Option("--python", help="A version to plan for (3.12, 3.13t), or the path of an interpreter.")
]
Driver = Annotated[str | None, typer.Option("--driver", help="NVIDIA driver version, such as 535.183.01.")]
Gpus = Annotated[list[str] | None, typer.Option("--gpu", help="Name of a GPU; repeat it for several.")]
Capabilities = Annotated[
    list[str] | None, typer.Option("--compute-cap", help="Compute capability of an NVIDIA GPU, such as 8.9.")
]
Rocm = Annotated[str | None, typer.Option("--rocm", help="ROCm version of the system, such as 6.4.")]
TorchWish = Annotated[str, typer.Option("--torch", help="A version or a specifier: 2.8.0, '>=2.6,<2.9'.")]
Manager = Annotated[str | None, typer.Option("--manager", help="pip, uv, conda, mamba, pixi or poetry.")]
Device = Annotated[str, typer.Option("--device", help="auto, cuda, rocm, xpu, mps or cpu.")]
With = Annotated[
    str | None, typer.Option("--with", help="What goes with torch: torchvision,torchaudio,triton; 'none' for nothing.")
]
Prefer = Annotated[str, typer.Option("--prefer", help="newest, or stable: patched once or three months old.")]


@dataclass(frozen=True)
class Asked:
    """Which machine and Python the options speak of."""

    said: Description
    interpreter: Path | None
    snapshot: Path | None

    @classmethod
    def of(
        cls,
        os: str | None,
        machine: str | None,
        python: str | None,
        driver: str | None,
        gpus: list[str] | None,
        capabilities: list[str] | None,
        rocm: str | None,
        snapshot: Path | None,
    ) -> Asked:
        """From the values of the options."""
        from envcheck.recommend.describe import Description, is_version

        version = python if python and is_version(python) else None
        said = Description(
            os=os,
            machine=machine,
            python=version,
            driver=driver,
            gpus=tuple(gpus or ()),
            capabilities=tuple(capabilities or ()),
            rocm=rocm,
        )
        return cls(said, Path(python) if python and not version else None, snapshot)

    @property
    def elsewhere(self) -> bool:
        """Anything else than this machine and a Python that is there."""
        return bool(self.said.another or self.said.python or self.snapshot is not None)

    def facts(self, matrix: Matrix) -> Facts:
        """The machine: as a snapshot has it, as the options describe it, or as it is.

        Raises:
            UsageError: options that do not go together.
        """
        from envcheck.errors import UsageError
        from envcheck.recommend.describe import describe

        said = self.said
        if self.snapshot is not None:
            if said.another or self.interpreter is not None:
                raise UsageError("--facts is a machine already: it goes with none of the options that describe one")
            return _with_version(load_facts(self.snapshot), said)
        if said.another:
            if self.interpreter is not None:
                raise UsageError("a described machine takes --python as a version, such as 3.12")
            return describe(said, matrix, here=_here())
        return _with_version(_live_facts(self.interpreter, ask=said.python is None), said)

    def installed(self) -> tuple[Any, Facts]:
        """What is installed in the Python, and what this machine is, asked at the same time."""
        from envcheck.envfiles import installed
        from envcheck.target import choose

        session = installed.ask(choose(self.interpreter).python)
        facts = _live_facts(self.interpreter, ask=True)
        return installed.finish(session), facts


def _here() -> System:
    import platform

    from envcheck.facts import System

    name = {"linux": "linux", "win32": "windows", "darwin": "macos"}.get(sys.platform)
    arch = {"AMD64": "x86_64"}.get(platform.machine(), platform.machine())
    return System(os=name, machine=arch)


def _live_facts(interpreter: Path | None, *, ask: bool) -> Facts:
    """This machine and one Python of it, both asked at the same time; torch is not imported."""
    from envcheck.probes.questioning import Questioning
    from envcheck.target import choose

    choice = choose(interpreter)
    questioning = Questioning(choice.python, quick=True) if ask else None
    from envcheck.probes.light import collect_light

    machine = collect_light()
    if questioning is None:
        return machine
    from envcheck.errors import TargetError
    from envcheck.facts import Facts
    from envcheck.probes.collect import merge
    from envcheck.probes.interpreter import facts_from

    answer = questioning.finish(PYTHON_LIMIT)
    problem = answer.problem()
    if problem is not None and interpreter is not None:
        raise TargetError(f"{problem}; give --python a version or the path of a Python interpreter")
    asked = facts_from(answer, quick=True, choice=choice)
    return merge(Facts(python=asked.python, torch=asked.torch, env=asked.env, probes=asked.probes), machine)


def _with_version(facts: Facts, said: Description) -> Facts:
    """The same machine with another Python, and another ROCm, where they are given."""
    from msgspec.structs import replace

    from envcheck.facts import PythonEnv

    if said.python:
        free = said.python.endswith("t")
        facts = replace(facts, python=PythonEnv(version=said.python.rstrip("t"), free_threaded=free))
    if said.rocm:
        facts = replace(facts, amd=replace(facts.amd, rocm_version=said.rocm))
    return facts


def companions_of(text: str | None) -> tuple[str, ...] | None:
    """The names of `--with`; None = not given, () = "none"."""
    if text is None:
        return None
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    return () if names == ("none",) else names
