"""Remedies that many rules share: the right install command, the right way to a newer driver, a matching companion."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from envcheck import installers
from envcheck.facts import Facts
from envcheck.findings import Remedy
from envcheck.matrix import Matrix
from envcheck.recommend import Plan, Wishes, plan
from envcheck.recommend.drivers import update_advice
from envcheck.rules import derive


def pip(facts: Facts, *args: str) -> str:
    """One command line for this Python: `python -m pip ...`, or `uv pip ...` in an environment of uv.

    Without a verb, `install` is meant: `pip(facts, "numpy<2")`. Quoted for the shell of the operating system.
    """
    place = installers.place_of(facts)
    if place.manager not in ("pip", "uv"):
        place = installers.place_of(facts, manager="pip")
    return installers.pip_line(place, *args)


def install_plan(facts: Facts, matrix: Matrix, **wishes: Any) -> Remedy:
    """The exact command that installs the best torch build for this machine, with a sentence that says which it is."""
    os, machine = derive.wheel_os(facts), derive.wheel_machine(facts)
    if facts.system.os is None and os is not None:
        facts = replace(facts, system=replace(facts.system, os=os, machine=machine))
    return remedy_of(plan(facts, matrix, Wishes(**wishes)))


def build_for_this_driver(facts: Facts, matrix: Matrix) -> Remedy | None:
    """The newest CUDA build that the present driver runs, reinstalled; None when there is none or too little is known."""
    if facts.nvidia.driver_version is None and facts.nvidia.driver_cuda is None:
        return None
    os, machine = derive.wheel_os(facts), derive.wheel_machine(facts)
    if os is None or not facts.python.version:
        return None
    known = replace(facts, system=replace(facts.system, os=os, machine=machine or derive.assumed_machine(facts)))
    made = plan(known, matrix, Wishes(device="cuda"))
    if made.status != "ok" or not (made.variant or "").startswith("cu"):
        return None
    return Remedy(text=f"torch {made.torch} ({made.build_name})", commands=made.commands)


def remedy_of(made: Plan) -> Remedy:
    """A plan as a remedy; an impossible one says what blocks it and the way out, then what would do instead."""
    if made.status == "ok":
        text = f"Install torch {made.torch} ({made.build_name})."
        if made.warnings:
            text += " " + " ".join(made.warnings[:2])
        return Remedy(text=text, commands=made.commands)
    parts: list[str] = []
    commands: list[str] = []
    for blocker in made.blockers:
        parts.append(f"{blocker.text} {blocker.way_out}".strip())
        commands.extend(blocker.commands)
    for other in made.alternatives[:2]:
        parts.append(f"{_capital(other.condition)}: torch {other.torch} ({other.build_name}).")
    if not commands and made.alternatives:
        commands.extend(made.alternatives[0].commands)
    return Remedy(text=" ".join(parts), commands=tuple(commands))


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def driver_update(facts: Facts, matrix: Matrix, minimum: str) -> Remedy:
    """How this machine gets an NVIDIA driver >= `minimum`.

    On the Windows host of WSL, on the host of a container, by JetPack, or by the packages of the distribution.
    """
    advice = update_advice(facts, matrix, minimum)
    return Remedy(text=advice.text, commands=advice.commands)


def matching_companion(facts: Facts, matrix: Matrix, package: str) -> Remedy:
    """The torchvision, torchaudio or triton that belongs to the torch that is installed, from the same index."""
    version = derive.torch_version(facts)
    release = matrix.release(version) if version else None
    pair = matrix.companions(version).get(package) if version and release else None
    wanted = pair.version if pair else None
    if version is None or wanted is None:
        return Remedy(
            text=f"No {package} release is known to belong to torch {version or '(version unknown)'}: install both anew "
            "as a pair.",
            commands=install_plan(facts, matrix).commands,
        )
    if derive.torch_from_conda(facts):
        return _conda_companion(facts, package, wanted, version)
    if package == "triton":
        return _triton(facts, matrix, wanted, version)
    return _wheel_companion(facts, matrix, package, wanted, version)


def _conda_companion(facts: Facts, package: str, wanted: str, version: str) -> Remedy:
    return Remedy(
        text=f"torch {version} is a conda package: let conda choose the {package} that belongs to it "
        f"(release {wanted}), from the same channel.",
        commands=(f"conda install {package}={wanted}",),
    )


def _triton(facts: Facts, matrix: Matrix, wanted: str, version: str) -> Remedy:
    if derive.wheel_os(facts) == "windows":
        # triton itself has no Windows wheel; all releases of the port carry a .postN.
        line = matrix.triton_windows(version) or ".".join(wanted.split(".")[:2])
        return Remedy(
            text=f"torch {version} goes with triton-windows {line}.",
            commands=(pip(facts, f"triton-windows=={line}.*"),),
        )
    return Remedy(
        text=f"torch {version} goes with triton {wanted}.",
        commands=(pip(facts, "--force-reinstall", "--no-deps", f"triton=={wanted}"),),
    )


def _wheel_companion(facts: Facts, matrix: Matrix, package: str, wanted: str, version: str) -> Remedy:
    variant = derive.torch_variant(facts, matrix)
    os, machine = derive.wheel_os(facts), derive.assumed_machine(facts)
    plain = matrix.pypi_variant(version, os, machine) if os else None
    index: tuple[str, ...] = ()
    if variant and variant.value != plain and os != "macos":
        url = matrix.index_url(variant.value, derive.base_version(version))
        index = ("--index-url", url) if url else ()
    there = derive.module_version(facts, package)
    # pip takes 0.23.0+cpu for 0.23.0: replace what is there, and leave torch alone.
    force = ("--force-reinstall", "--no-deps") if there else ()
    seen = f"; {there} is installed" if there else ""
    return Remedy(
        text=f"torch {version} goes with {package} {wanted}{seen}.",
        commands=(pip(facts, "install", *force, f"{package}=={wanted}", *index),),
    )
