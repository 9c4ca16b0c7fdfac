"""A recommendation as the content of a file."""

from __future__ import annotations

import re

from envcheck.envfiles.made_for import header
from envcheck.envfiles.model import CONDA_NAMES, Environment, Package, Platform, of_family, variant_of_index
from envcheck.errors import UsageError
from envcheck.facts import Facts
from envcheck.matrix import Matrix
from envcheck.matrix.versions import numbers
from envcheck.recommend import Plan

SERVED = (("linux", "x86_64"), ("windows", "x86_64"), ("macos", "arm64"))
"""Systems that a file for several is made for, besides that of the plan."""
_REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)\s*(.*)")
_MKL_FIXED = (2, 4)


def environment(plan: Plan, facts: Facts, matrix: Matrix, *, name: str) -> Environment:
    """What the plan installs.

    Raises:
        UsageError: nothing can be recommended, or only by a vendor's own wheel that no index serves.
    """
    if plan.status != "ok" or plan.torch is None:
        said = " ".join(f"{b.text} {b.way_out}".strip() for b in plan.blockers)
        raise UsageError(f"nothing can be recommended for this machine, so there is nothing to write: {said}")
    wanted = plan.packages or _vendor(plan)
    python = (plan.python or "3.12").rstrip("t")
    python = ".".join(python.split(".")[:2])
    os, machine = facts.system.os or "linux", facts.system.machine or "x86_64"
    parts = [_REQUIREMENT.fullmatch(text) for text in wanted]
    pairs = [(match[1], match[2]) for match in parts if match]
    head = header(
        facts, matrix, source="its recommendation", build=f"torch {plan.torch}, {plan.build_name}", driver=plan.driver
    )
    warnings = list(plan.warnings)
    if (plan.python or "").endswith("t"):
        warnings.append(
            f"Planned for the free-threaded Python {plan.python}: files name {python}, choose the build yourself."
        )
    made = Environment(
        name=name,
        python=python,
        packages=() if plan.channel else tuple(_wheel(plan, *pair) for pair in pairs),
        conda=_conda(plan, pairs, os) if plan.channel else (),
        channels=_channels(plan),
        os=os,
        machine=machine,
        torch=plan.torch,
        variant=plan.variant or "",
        cuda=plan.cuda,
        driver=plan.driver,
        header=head,
        warnings=tuple(warnings),
    )
    if plan.channel:
        return made
    return _served(made, plan.index_url, matrix)


def _vendor(plan: Plan) -> tuple[str, ...]:
    if plan.index_url is None:
        raise UsageError(
            "the torch for this machine is a wheel of the board's maker that no index serves: install it with "
            + " && ".join(plan.commands)
        )
    beside = (f"torchvision=={plan.torchvision}",) if plan.torchvision else ()
    return (f"torch=={plan.torch}", *beside, "numpy<2")


def _wheel(plan: Plan, name: str, spec: str) -> Package:
    tied = plan.index_url if of_family(name) or name == "triton" else None
    label = variant_of_index(tied) if tied else None
    return Package(name, spec, index=tied, label=label or "")


def _conda(plan: Plan, pairs: list[tuple[str, str]], os: str) -> tuple[Package, ...]:
    cuda = plan.cuda
    found = []
    for name, spec in pairs:
        conda_name = CONDA_NAMES.get(name, name)
        exact = spec.removeprefix("==")
        if name == "torch" and plan.channel == "conda-forge":
            build = "" if os == "macos" else "cuda*" if cuda else "cpu*"
            found.append(Package(conda_name, f"={exact}", build=build))
        elif of_family(name) and plan.channel == "conda-forge":
            # conda-forge builds each release of these for several of torch: the solver pairs them.
            found.append(Package(conda_name, ""))
        else:
            found.append(Package(conda_name, f"={exact}" if spec.startswith("==") else spec))
    return (*found, *_conda_cuda(plan, os))


def _conda_cuda(plan: Plan, os: str) -> tuple[Package, ...]:
    old = plan.channel == "pytorch"
    if plan.cuda is None:
        return (Package("cpuonly"),) if old and os != "macos" else ()
    if not old:
        return (Package("cuda-version", f"={plan.cuda}"),)
    release = numbers(plan.torch or "")
    name = "pytorch-cuda" if release >= (1, 13) else "cudatoolkit"
    # These builds use a symbol that MKL dropped in 2024.1.
    mkl = (Package("mkl", "<2024.1"),) if release < _MKL_FIXED else ()
    return (Package(name, f"={plan.cuda}"), *mkl)


def _channels(plan: Plan) -> tuple[str, ...]:
    if plan.channel == "pytorch":
        return ("pytorch", "nvidia", "conda-forge") if plan.cuda else ("pytorch", "conda-forge")
    return ("conda-forge",)


def _served(made: Environment, index: str | None, matrix: Matrix) -> Environment:
    """The platform of the plan first, then the others that have wheels of that release for that Python."""
    import dataclasses

    own = Platform(made.os, made.machine, made.variant, index)
    others = [p for place in SERVED if place != (made.os, made.machine) for p in [platform(made, *place, matrix)] if p]
    return dataclasses.replace(made, platforms=(own, *others))


def platform(made: Environment, os: str, machine: str, matrix: Matrix) -> Platform | None:
    """Where the same torch comes from on another system: the same build if it is there, else that of its plain pip."""
    same = matrix.variant(made.torch, made.variant, os, machine)
    plain = matrix.pypi_variant(made.torch, os, machine)
    if same is not None and same.status != "unconfirmed":
        if made.python not in matrix.pythons(made.torch, os, machine, same.name):
            return None
        return Platform(os, machine, same.name, None if same.on_pypi else same.index_url)
    if plain is None or made.python not in matrix.pythons(made.torch, os, machine):
        return None
    return Platform(os, machine, plain, None)
