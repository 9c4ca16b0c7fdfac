"""No build does: the smallest set of blockers, the way out of each, and what would do instead."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

from envcheck import installers
from envcheck.matrix import Matrix
from envcheck.matrix.versions import numbers
from envcheck.recommend.candidates import OLDEST, Reason, Verdict, builds
from envcheck.recommend.checks import Context, judge, span
from envcheck.recommend.choose import anything, candidates, choose
from envcheck.recommend.drivers import CHECK, target_branch, update_advice
from envcheck.recommend.explain import FIXABLE, changeable, changes, ending, first_with_code
from envcheck.recommend.machine import Card, Machine, Trouble
from envcheck.recommend.model import Blocker, Plan
from envcheck.recommend.orders import order_of

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
    groups = _groups(ctx.machine)
    without = [cards for cards in groups if _last(planner, ctx, replace(ctx.machine, cards=cards)) is None] or groups
    names = ", ".join(dict.fromkeys(str(card) for cards in without for card in cards))
    if wish:
        text = f"No build that matches --torch {wish!r} has code for {names}."
        first = first_with_code(ctx)
        ended = ending(ctx)
        way_out = ended[0] if ended else f"The first that has is torch {first.build.name}." if first else ""
        return Blocker(kind="gpu-code", text=text, way_out=way_out)
    text = f"No torch wheel from {_oldest()} on has code for {names}."
    way_out = "What is left is the CPU build, another GPU, or a build from source with TORCH_CUDA_ARCH_LIST set."
    if len(without) < len(groups):
        way_out = "It may stay for the display: hide it from torch with CUDA_VISIBLE_DEVICES and plan for the rest."
    return Blocker(kind="gpu-code", text=text, way_out=way_out)


def _oldest() -> str:
    return f"{OLDEST[0]}.{OLDEST[1]}"


# -- what would do instead ---------------------------------------------------------------------------------------------


def alternatives(planner: Planner, ctx: Context) -> list[Plan]:
    """Each kind of GPU by itself, another Python, a newer driver, without the wish; last the CPU, by its name."""
    found = [*_alone(planner, ctx), *_changed(planner, ctx), *_overridden(planner, ctx)]
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
            visible = ",".join(str(i) for i, card in enumerate(order) if card in cards)
            # nvidia-smi counts by the bus, CUDA by speed unless it is told otherwise
            how = f"CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES={visible}"
            made = planner.bare(other, verdict, f"for {cards[0].name} alone ({how})")
            note = tuple(f"Condition: {doubt}." for doubt in verdict.doubts)
            yield msgspec.structs.replace(made, warnings=note)


def _changed(planner: Planner, ctx: Context) -> Iterator[Plan]:
    """What would run after one change, for each change that is enough by itself (or the two that are needed)."""
    best: dict[frozenset[str], Verdict] = {}
    for _, made in candidates(ctx, planner.admit):
        for verdict in (judge(ctx, b) for b in made):
            if changeable(verdict):
                best.setdefault(changes(verdict), verdict)
    fewest = min((len(kinds) for kinds in best), default=0)
    for kinds, verdict in best.items():
        if len(kinds) == fewest:
            yield from _after(planner, ctx, verdict)


def _after(planner: Planner, ctx: Context, wanted: Verdict) -> Iterator[Plan]:
    machine, parts, python = ctx.machine, [], None
    for reason in wanted.reasons:
        value = reason.unlock or ""
        if reason.kind == "python" and value[:1].isdigit():
            machine, part, python = replace(machine, python=value, python_full=None), f"Python {value}", value
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
        made = planner.bare(other, verdict, f"with {' and '.join(parts)}")
        yield in_new_environment(planner, made, other, verdict, python) if python else made


def in_new_environment(planner: Planner, made: Plan, ctx: Context, verdict: Verdict, python: str) -> Plan:
    """The same plan with the environment made first, and installed into that."""
    place = planner.place
    first = environment(planner, python)
    if place.manager in ("pip", "uv"):
        inside = r".venv\Scripts\python.exe" if planner.machine.os == "windows" else ".venv/bin/python"
        order = replace(order_of(verdict, ctx, python), installed=())
        place = replace(place, python=inside, managed=False, pipless=False)
        return msgspec.structs.replace(made, commands=(*first, *installers.commands(order, place)), calls=())
    if place.manager in ("conda", "mamba"):
        first = (*first, f"{place.manager} activate torch")
    if place.manager == "pixi":
        return made
    return msgspec.structs.replace(made, commands=(*first, *made.commands))


def _overridden(planner: Planner, ctx: Context) -> Iterator[Plan]:
    """An AMD card that can be passed off as its relative: people do it, AMD does not support it."""
    rows = [planner.matrix.amd_arch(target) for card in ctx.machine.amd for target in card.gfx[:1]]
    overrides = {row.override for row in rows if row is not None}
    if ctx.device != "rocm" or len(overrides) != 1 or None in overrides:
        return
    override = overrides.pop() or ""
    target = "gfx" + "".join(override.split("."))
    cards = tuple(replace(card, gfx=(target,)) for card in ctx.machine.amd)
    other = planner.context("rocm", replace(ctx.machine, amd=cards))
    verdict = choose(other, planner.admit)
    if verdict is not None:
        condition = f"with HSA_OVERRIDE_GFX_VERSION={override} in the environment, which AMD does not support"
        yield planner.bare(other, verdict, condition)


def cpu_alternative(planner: Planner, device: str) -> list[Plan]:
    """The CPU build, never as the answer to a GPU that does not work, only as what it is."""
    if device == "cpu":
        return []
    ctx = planner.context("cpu", replace(planner.machine, trouble=()))
    verdict = choose(ctx, planner.admit) or choose(ctx, anything)
    return [planner.bare(ctx, verdict, "without the GPU: CPU only, many times slower")] if verdict else []
