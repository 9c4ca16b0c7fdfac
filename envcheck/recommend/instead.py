"""What would do instead of an impossible plan: one kind of GPU, one change, without the wish, and the CPU by its name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

from envcheck import installers
from envcheck.recommend.candidates import Verdict
from envcheck.recommend.checks import Context, judge
from envcheck.recommend.choose import anything, candidates, choose
from envcheck.recommend.explain import changeable, changes
from envcheck.recommend.impossible import environment, groups
from envcheck.recommend.model import Plan
from envcheck.recommend.orders import order_of

if TYPE_CHECKING:
    from envcheck.recommend.planner import Planner


def alternatives(planner: Planner, ctx: Context) -> list[Plan]:
    """Each kind of GPU by itself, another Python, a newer driver, without the wish; last the CPU, by its name."""
    found = [*_alone(planner, ctx), *_changed(planner, ctx), *_overridden(planner, ctx)]
    if not found and planner.wanted.wishes.torch:
        free = choose(ctx, anything)
        if free is not None:
            found.append(planner.bare(ctx, free, f"without the wish for torch {planner.wanted.wishes.torch}"))
    return [*found, *cpu_alternative(planner, ctx.device)]


def _alone(planner: Planner, ctx: Context) -> Iterator[Plan]:
    kinds = groups(ctx.machine)
    if len(kinds) < 2:
        return
    order = list(ctx.machine.cards or ())
    for cards in kinds:
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
