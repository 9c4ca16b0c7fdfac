"""No build does: the smallest set of blockers and the way out of each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from envcheck import installers
from envcheck.matrix import Matrix
from envcheck.matrix.versions import numbers
from envcheck.recommend.candidates import OLDEST, Reason, Verdict, builds
from envcheck.recommend.checks import Context, judge, span
from envcheck.recommend.choose import anything, candidates, choose
from envcheck.recommend.drivers import CHECK, target_branch, update_advice
from envcheck.recommend.explain import FIXABLE, ending, first_with_code
from envcheck.recommend.machine import Card, Machine, Trouble
from envcheck.recommend.model import Blocker, Plan

if TYPE_CHECKING:
    from envcheck.recommend.planner import Planner


def answer(blockers: list[Blocker], machine: Machine, alternatives: tuple[Plan, ...] = ()) -> Plan:
    """An impossible plan."""
    return Plan(status="impossible", python=machine.python, blockers=tuple(blockers), alternatives=alternatives)


# -- the platform itself -----------------------------------------------------------------------------------------------


def platform_blockers(machine: Machine, matrix: Matrix) -> list[Blocker]:
    """What no choice of a build can mend."""
    return list(_platform(machine, matrix))


def _platform(machine: Machine, matrix: Matrix) -> Iterator[Blocker]:
    if machine.os is None:
        yield Blocker(
            kind="unknown-os",
            text="The operating system is not known, and every choice hangs on it.",
            way_out="Say it with --os linux, windows or macos.",
        )
        return
    if machine.bits == 32:
        yield Blocker(
            kind="python-32bit",
            text="This Python is a 32-bit one, and torch has 64-bit wheels only.",
            way_out="Install the 64-bit Python and make a new environment with it.",
        )
    if machine.implementation and machine.implementation.lower() != "cpython":
        yield Blocker(
            kind="python-implementation",
            text=f"This Python is {machine.implementation}, and torch has wheels for CPython only.",
            way_out="Make an environment with CPython.",
        )
    if machine.os == "linux" and machine.libc == "musl":
        yield Blocker(
            kind="musl",
            text="This Linux has musl instead of glibc (Alpine), and every torch wheel is built for glibc.",
            way_out="Use an image or a system with glibc: Debian or Ubuntu, python:3.12-slim instead of python:3.12-alpine.",
        )
    if not builds(matrix, machine.os, machine.arch or "", machine.driver_os):
        yield Blocker(
            kind="platform",
            text=f"No torch wheel for {machine.os} {machine.arch} is in the tables.",
            way_out=_other_platform(machine),
        )


def _other_platform(machine: Machine) -> str:
    if machine.os == "windows":
        return "Use an x86_64 Python on Windows (on Arm it runs under emulation, with the CPU build)."
    if machine.arch in ("i686", "armv7l"):
        return "Use a 64-bit system and Python."
    return (
        "Use the distribution's or vendor's own package, conda-forge where it has the platform, or build from source."
    )


# -- a GPU that cannot be used -----------------------------------------------------------------------------------------


def blocker_of(trouble: Trouble, planner: Planner) -> Blocker:
    """A trouble as a blocker, with the way to the driver it takes."""
    commands, way_out = trouble.commands, trouble.way_out
    if trouble.kind in ("driver-too-new", "driver-too-old-for-gpu", "driver-not-installed"):
        advice = update_advice(planner.facts, planner.matrix, str(_branch(trouble, planner)))
        commands = advice.commands if advice.commands != (CHECK,) else ()
        way_out = f"{way_out} {advice.text}" if trouble.kind == "driver-not-installed" else way_out
    return Blocker(kind=trouble.kind, text=trouble.text, way_out=way_out, commands=commands)


def _branch(trouble: Trouble, planner: Planner) -> int:
    wanted = trouble.driver or ""
    return target_branch(planner.machine.cards or (), planner.matrix, wanted)


# -- no build ----------------------------------------------------------------------------------------------------------


def blockers(planner: Planner, ctx: Context) -> list[Blocker]:
    """The smallest set of things that stand in the way."""
    verdicts = [judge(ctx, b) for _, made in candidates(ctx, planner.admit) for b in made]
    if not verdicts:
        return [_no_candidate(planner, ctx)]
    together = _not_together(planner, ctx)
    if together is not None:
        return [together]
    nearest = min(verdicts, key=_distance)
    reasons = {f"{r.kind} {r.text}": r for r in nearest.reasons}
    if "gpu-code" in nearest.kinds:  # what else stands against a build that has no code adds nothing
        reasons = {"": next(r for r in nearest.reasons if r.kind == "gpu-code")}
    return [_blocker(planner, ctx, nearest, reason) for reason in reasons.values()]


def _distance(verdict: Verdict) -> tuple[object, ...]:
    """How far a build is from running: what nobody can change counts first, then how many things, then its age."""
    fixed = [r for r in verdict.reasons if r.kind not in FIXABLE or r.unlock is None]
    release = verdict.build.release.version
    return (
        not verdict.build.confirmed,
        len(verdict.kinds & {"gpu-code", "gpu-doubt", "cudnn", "gfx"}),
        len(fixed),
        len(verdict.kinds),
        tuple(-n for n in numbers(release)),
        not verdict.build.advertised,
    )


def _no_candidate(planner: Planner, ctx: Context) -> Blocker:
    wish = planner.wanted.wishes.torch
    machine, newest = planner.machine, planner.matrix.releases[-1].version
    if wish and any(True for _ in candidates(ctx, anything)):
        near = f"Releases from {_oldest()} to {newest} are planned for"
        return Blocker(
            kind="wish",
            text=f"No {_what(ctx.device)} of a release matches --torch {wish!r} on {machine.os} {machine.arch}.",
            way_out=f"{near}; `envcheck matrix update` reads newer ones.",
        )
    where = {
        "rocm": "ROCm wheels are for Linux x86_64 only: use Linux, WSL where AMD supports the card, or the CPU build.",
        "cuda": "CUDA wheels are for Linux and Windows.",
        "xpu": "XPU wheels are for Linux and Windows on x86_64.",
        "mps": "MPS is for macOS on Apple silicon.",
    }
    return Blocker(
        kind="device",
        text=f"There is no {_what(ctx.device)} of torch for {machine.os} {machine.arch}.",
        way_out=where.get(ctx.device, ""),
    )


def _what(device: str) -> str:
    names = {"cuda": "CUDA build", "rocm": "ROCm build", "xpu": "XPU build", "mps": "build with MPS"}
    return names.get(device, "build")


def _not_together(planner: Planner, ctx: Context) -> Blocker | None:
    """Every card has builds, and no build has code for all of them."""
    kinds = groups(ctx.machine)
    if len(kinds) < 2 or _last(planner, ctx, ctx.machine) is not None:
        return None
    parts = []
    for cards in kinds:
        last = _last(planner, ctx, replace(ctx.machine, cards=cards))
        if last is None:
            return None
        parts.append(f"{cards[0]} runs on builds such as {last.build.name}")
    return Blocker(
        kind="gpu-code",
        text=f"No build that was published has code for all of these GPUs together: {'; '.join(parts)}.",
        way_out="Use one kind at a time: an environment for each, and CUDA_VISIBLE_DEVICES to hide the others.",
    )


def groups(machine: Machine) -> list[tuple[Card, ...]]:
    """Cards by compute capability, in their order."""
    found: dict[tuple[str, ...], list[Card]] = {}
    for card in machine.cards or ():
        found.setdefault(card.capabilities, []).append(card)
    return [tuple(cards) for cards in found.values()]


def _last(planner: Planner, ctx: Context, machine: Machine) -> Verdict | None:
    """The newest build with code for the cards, whatever else stands against it."""
    other = planner.context(ctx.device, replace(machine, python=None, driver=None, driver_cuda=None, glibc=None), ())
    return choose(other, planner.admit)


def _blocker(planner: Planner, ctx: Context, verdict: Verdict, reason: Reason) -> Blocker:
    build = verdict.build
    kind = {"ptx-driver": "driver", "gpu-doubt": "gpu-code"}.get(reason.kind, reason.kind)
    make = {"python": _python_blocker, "driver": _driver_blocker, "gpu-code": _code_blocker}.get(kind)
    if make is not None:
        return make(planner, ctx, verdict, reason)
    way_out = {
        "glibc": f"Use a system or container image with glibc >= {reason.unlock} (Debian 12, Ubuntu 22.04, RHEL 9).",
        "macos": f"Update macOS to {reason.unlock} or newer." if reason.unlock else "",
        "cudnn": "Only older releases come with a cuDNN for this GPU.",
        "companion": "Leave that package out of --with, or take another build.",
        "gfx": "HSA_OVERRIDE_GFX_VERSION can make a card pass for a near relative; AMD does not support that.",
        "unconfirmed": "Ask the index before relying on it: pip install --dry-run.",
        "conda": "Install with pip inside the conda environment: --manager pip.",
    }.get(kind, "")
    who = f"torch {build.release.version} ({build.variant.name}), the nearest to fit, "
    return Blocker(kind=_kind(kind), text=f"{who}{reason.text}.", way_out=way_out)


def _kind(kind: str) -> str:
    return {"driver": "driver-too-old", "gfx": "gpu-code"}.get(kind, kind)


def _python_blocker(planner: Planner, ctx: Context, verdict: Verdict, reason: Reason) -> Blocker:
    machine, build = ctx.machine, verdict.build
    if "excludes" in reason.text or machine.python in build.pythons:
        text = f"torch {build.release.version} {reason.text}."
    elif _some_python(ctx, planner):
        text = (
            f"No build that runs here has a wheel for Python {machine.python}: torch {build.name} has them for "
            f"{span(build.pythons)}."
        )
    else:
        text = (
            f"No torch has a wheel for Python {machine.python} on {machine.os} {machine.arch}: torch "
            f"{build.release.version} has them for {span(build.pythons)}."
        )
    wanted = reason.unlock
    usable = wanted is not None and wanted[:1].isdigit()
    return Blocker(
        kind="python",
        text=text,
        way_out=f"Make an environment with Python {wanted}." if usable else f"Use {wanted}." if wanted else "",
        commands=environment(planner, wanted) if usable and wanted else (),
    )


def _some_python(ctx: Context, planner: Planner) -> bool:
    """Some release has a wheel for this Python, only not one that fits the rest of the machine."""
    machine = ctx.machine
    listed = builds(ctx.matrix, machine.os or "", machine.arch or "", machine.driver_os)
    return any(machine.python in build.pythons for _, made in listed for build in made)


def environment(planner: Planner, python: str) -> tuple[str, ...]:
    """Commands that make an environment with another Python."""
    place = planner.place
    windows = planner.machine.os == "windows"
    lines = {
        "uv": (("uv", "venv", "--python", python, ".venv"),),
        "conda": (("conda", "create", "-n", "torch", f"python={python}"),),
        "mamba": (("mamba", "create", "-n", "torch", f"python={python}"),),
        "pixi": (("pixi", "add", f"python={python}.*"),),
        "poetry": (("poetry", "env", "use", python),),
    }.get(place.manager, ((("py", f"-{python}") if windows else (f"python{python}",)) + ("-m", "venv", ".venv"),))
    return tuple(installers.line(words, place.shell) for words in lines)


def _driver_blocker(planner: Planner, ctx: Context, verdict: Verdict, reason: Reason) -> Blocker:
    build = verdict.build
    text = f"torch {build.release.version} ({build.variant.name}), the nearest to fit, {reason.text}."
    if reason.unlock is None:
        return Blocker(
            kind="driver-too-old", text=text, way_out="No driver for this GPU serves a build that has code for it."
        )
    advice = update_advice(planner.facts, planner.matrix, reason.unlock)
    return Blocker(kind="driver-too-old", text=text, way_out=advice.text, commands=advice.commands)


def _code_blocker(planner: Planner, ctx: Context, verdict: Verdict, reason: Reason) -> Blocker:
    wish = planner.wanted.wishes.torch
    if reason.kind == "gpu-doubt":
        return Blocker(kind="gpu-code", text=f"torch {verdict.build.name} is the nearest to fit; {reason.text}.")
    kinds = groups(ctx.machine)
    without = [cards for cards in kinds if _last(planner, ctx, replace(ctx.machine, cards=cards)) is None] or kinds
    names = ", ".join(dict.fromkeys(str(card) for cards in without for card in cards))
    if wish:
        text = f"No build that matches --torch {wish!r} has code for {names}."
        first = first_with_code(ctx)
        ended = ending(ctx)
        way_out = ended[0] if ended else f"The first that has is torch {first.build.name}." if first else ""
        return Blocker(kind="gpu-code", text=text, way_out=way_out)
    text = f"No torch wheel from {_oldest()} on has code for {names}."
    way_out = "What is left is the CPU build, another GPU, or a build from source with TORCH_CUDA_ARCH_LIST set."
    if len(without) < len(kinds):
        way_out = "It may stay for the display: hide it from torch with CUDA_VISIBLE_DEVICES and plan for the rest."
    return Blocker(kind="gpu-code", text=text, way_out=way_out)


def _oldest() -> str:
    return f"{OLDEST[0]}.{OLDEST[1]}"
