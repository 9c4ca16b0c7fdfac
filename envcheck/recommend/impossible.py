"""No build does: the smallest set of blockers, the way out of each, and what would do instead."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

from envcheck import installers
from envcheck.matrix import Matrix
from envcheck.matrix.versions import numbers
from envcheck.recommend.candidates import Reason, Verdict, builds
from envcheck.recommend.checks import Context, judge, span
from envcheck.recommend.choose import anything, candidates, choose
from envcheck.recommend.drivers import target_branch, update_advice
from envcheck.recommend.explain import FIXABLE, ending
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
        commands = advice.commands
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
    merged: dict[str, Reason] = {}
    for reason in nearest.reasons:
        merged.setdefault(f"{reason.kind} {reason.text}", reason)
    return [_blocker(planner, ctx, nearest, reason) for reason in merged.values()]


def _distance(verdict: Verdict) -> tuple[object, ...]:
    """How far a build is from running: what nobody can change counts first, then how many things, then its age."""
    fixed = [r for r in verdict.reasons if r.kind not in FIXABLE or r.unlock is None]
    release = verdict.build.release.version
    return len(fixed), len(verdict.kinds), tuple(-n for n in numbers(release)), not verdict.build.advertised


def _no_candidate(planner: Planner, ctx: Context) -> Blocker:
    wish = planner.wanted.wishes.torch
    machine, releases = planner.machine, planner.matrix.releases
    if wish and any(True for _ in candidates(ctx, anything)):
        near = f"The tables have {releases[0].version} to {releases[-1].version}"
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
    groups = _groups(ctx.machine)
    if len(groups) < 2 or _last(planner, ctx, ctx.machine) is not None:
        return None
    parts = []
    for cards in groups:
        last = _last(planner, ctx, replace(ctx.machine, cards=cards))
        if last is None:
            return None
        parts.append(f"{cards[0]} runs on builds such as {last.build.name}")
    return Blocker(
        kind="gpu-code",
        text=f"No build that was published has code for all of these GPUs together: {'; '.join(parts)}.",
        way_out="Use one kind at a time: an environment for each, and CUDA_VISIBLE_DEVICES to hide the others.",
    )


def _groups(machine: Machine) -> list[tuple[Card, ...]]:
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
        text = f"No build for this machine has a wheel for Python {machine.python}: torch {build.name} has them for {span(build.pythons)}."
    else:
        text = f"No torch has a wheel for Python {machine.python} on {machine.os} {machine.arch}: the newest has them for {span(build.pythons)}."
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
    machine = ctx.machine
    wish = planner.wanted.wishes.torch
    names = ", ".join(sorted({str(card) for card in machine.cards or ()}))
    if reason.kind == "gpu-doubt":
        return Blocker(kind="gpu-code", text=f"Whether {verdict.build.name} has code is not known {reason.text}.")
    ended = ending(ctx, anything)
    if wish:
        text = f"No build that matches --torch {wish!r} has code for {names}."
        way_out = ended[0] if ended else "Widen --torch."
    else:
        text = f"No torch wheel from {planner.matrix.releases[0].version} on has code for {names}."
        way_out = "What is left is the CPU build, another GPU, or a build from source with TORCH_CUDA_ARCH_LIST set."
    return Blocker(kind="gpu-code", text=text, way_out=way_out)


# -- what would do instead ---------------------------------------------------------------------------------------------


def alternatives(planner: Planner, ctx: Context) -> list[Plan]:
    """Each kind of GPU by itself, another Python, a newer driver, without the wish; last the CPU, by its name."""
    found = [*_alone(planner, ctx), *_changed(planner, ctx)]
    if not found and planner.wanted.wishes.torch:
        free = choose(ctx, anything)
        if free is not None:
            found.append(planner.bare(ctx, free, f"without the wish for torch {planner.wanted.wishes.torch}"))
    return [*found, *cpu_alternative(planner, ctx.device)]


def _alone(planner: Planner, ctx: Context) -> Iterator[Plan]:
    groups = _groups(ctx.machine)
    if len(groups) < 2:
        return
    order = list(ctx.machine.cards or ())
    for cards in groups:
        other = planner.context(ctx.device, replace(ctx.machine, cards=cards))
        verdict = choose(other, planner.admit)
        if verdict is not None:
            visible = ",".join(str(order.index(card)) for card in cards[:1])
            if len(cards) > 1:
                visible = ",".join(str(i) for i, card in enumerate(order) if card in cards)
            made = planner.bare(other, verdict, f"for {cards[0].name} alone (CUDA_VISIBLE_DEVICES={visible})")
            note = tuple(f"Condition: {doubt}." for doubt in verdict.doubts)
            yield msgspec.structs.replace(made, warnings=note)


def _changed(planner: Planner, ctx: Context) -> Iterator[Plan]:
    """The nearest build after the one change that it takes."""
    verdicts = [judge(ctx, b) for _, made in candidates(ctx, planner.admit) for b in made]
    possible = [v for v in verdicts if v.reasons and all(r.kind in FIXABLE and r.unlock for r in v.reasons)]
    if not possible:
        return
    nearest = min(possible, key=_distance)
    machine, parts = ctx.machine, []
    for reason in nearest.reasons:
        value = reason.unlock or ""
        if reason.kind == "python" and value[:1].isdigit():
            machine, part = replace(machine, python=value, python_full=None), f"Python {value}"
        elif reason.kind in ("driver", "ptx-driver"):
            machine, part = replace(machine, driver=value, driver_cuda=None), f"an NVIDIA driver >= {value}"
        elif reason.kind == "glibc":
            machine, part = replace(machine, glibc=value), f"glibc >= {value}"
        elif reason.kind == "macos":
            machine, part = replace(machine, os_version=value), f"macOS >= {value}"
        else:
            return
        if part not in parts:
            parts.append(part)
    other = planner.context(ctx.device, machine)
    verdict = choose(other, planner.admit)
    if verdict is not None:
        yield planner.bare(other, verdict, f"with {' and '.join(parts)}")


def cpu_alternative(planner: Planner, device: str) -> list[Plan]:
    """The CPU build, never as the answer to a GPU that does not work, only as what it is."""
    if device == "cpu":
        return []
    ctx = planner.context("cpu", replace(planner.machine, trouble=()))
    verdict = choose(ctx, planner.admit) or choose(ctx, anything)
    return [planner.bare(ctx, verdict, "without the GPU: CPU only, many times slower")] if verdict else []
