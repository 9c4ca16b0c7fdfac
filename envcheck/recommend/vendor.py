"""Torch that does not come from PyTorch's own wheels: NVIDIA's for Jetson boards."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

import msgspec

from envcheck import installers
from envcheck.matrix import Matrix
from envcheck.matrix.versions import at_least, numbers, variant_of_cuda
from envcheck.recommend.model import Blocker, Plan

if TYPE_CHECKING:
    from envcheck.recommend.planner import Planner

RELEASE_FILE = "cat /etc/nv_tegra_release"
# Until JetPack 6 a board needs wheels of its own; from 7 on (L4T R38) it runs the ordinary aarch64 CUDA wheels.
ORDINARY_FROM = "38"
# Capability of a board -> the L4T releases that exist for it, newest first; "" = an ordinary wheel does.
_BY_CHIP = {"11.0": ("",), "8.7": ("", "36.4", "35.4"), "7.2": ("35.4",), "6.2": ("32.7",), "5.3": ("32.7",)}
# The Python of the Ubuntu below each JetPack tells the JetPack where nothing else does.
_BY_PYTHON = {"3.6": "32.7", "3.8": "35.4", "3.10": "36.4"}


@dataclass(frozen=True)
class JetsonWheel:
    """Wheels that NVIDIA or its Jetson lab offers for a range of L4T releases."""

    l4t_from: str
    l4t_to: str
    jetpack: str
    python: str
    torch: str
    torchvision: str | None
    index_url: str | None
    wheel: tuple[str, ...]
    """A URL, and the file name to save it under where the URL does not end in one."""
    notes: str


@cache
def jetson_wheels(matrix: Matrix) -> tuple[JetsonWheel, ...]:
    """The rows of jetpack_wheels.csv."""
    columns = "l4t_from l4t_to jetpack python torch torchvision index_url wheel notes"
    return tuple(
        JetsonWheel(
            l4t_from=row.version("l4t_from") or "",
            l4t_to=row.version("l4t_to") or "",
            jetpack=row.required("jetpack"),
            python=row.required("python"),
            torch=row.required("torch"),
            torchvision=row.version("torchvision"),
            index_url=row.optional("index_url"),
            wheel=row.words("wheel"),
            notes=row["notes"],
        )
        for row in matrix.tables.read("jetpack_wheels.csv", columns)
    )


def row_of(matrix: Matrix, l4t: str) -> JetsonWheel | None:
    """The wheels for an L4T release ("36.4.3")."""
    for row in jetson_wheels(matrix):
        if numbers(row.l4t_from) <= numbers(l4t)[:2] <= numbers(row.l4t_to):
            return row
    return None


def jetson_plan(planner: Planner, device: str) -> Plan | None:
    """The plan for a Jetson board; None when this is none, or when ordinary wheels do."""
    machine = planner.machine
    if not machine.jetson or device != "cuda":
        return None
    l4t = machine.l4t or _l4t_of_jetpack(planner)
    if l4t:
        return None if at_least(l4t, ORDINARY_FROM) else _board(planner, l4t)
    guesses = _guesses(planner)
    made = [_board(planner, guess) if guess else planner.for_device("cuda") for guess in guesses]
    if not made:
        return None
    first, others = made[0], made[1:]
    note = f"Which JetPack the board has is not known (`{RELEASE_FILE}` says it): this is for {_jetpack(planner, guesses[0])}."
    named = [
        msgspec.structs.replace(other, condition=f"on {_jetpack(planner, guess)}")
        for guess, other in zip(guesses[1:], others, strict=True)
    ]
    return msgspec.structs.replace(first, warnings=(note, *first.warnings), alternatives=(*named, *first.alternatives))


def _l4t_of_jetpack(planner: Planner) -> str | None:
    said = numbers(planner.facts.system.jetpack or "")
    if not said:
        return None
    known = [row for row in planner.matrix.tables.jetpacks if numbers(row.version) <= said]
    return known[-1].l4t if known and numbers(known[-1].version)[0] == said[0] else None


def _guesses(planner: Planner) -> tuple[str, ...]:
    """L4T releases that the board may have, the likeliest first; "" = one that runs ordinary wheels."""
    machine = planner.machine
    chips = [c for card in machine.cards or () for c in card.capabilities]
    possible = next((_BY_CHIP[c] for c in chips if c in _BY_CHIP), ("", "36.4", "35.4"))
    by_python = _BY_PYTHON.get(machine.python or "")
    if by_python in possible:
        return (by_python,)
    return possible


def _jetpack(planner: Planner, l4t: str) -> str:
    row = row_of(planner.matrix, l4t) if l4t else None
    return f"JetPack {row.jetpack} (L4T R{numbers(l4t)[0]})" if row else "JetPack 7.2 or newer (L4T R39)"


def _board(planner: Planner, l4t: str) -> Plan:
    row = row_of(planner.matrix, l4t)
    machine = planner.machine
    if row is None:
        from envcheck.recommend.impossible import answer

        return answer(
            [
                Blocker(
                    kind="jetpack",
                    text=f"No torch wheels for L4T {l4t} are in the tables.",
                    way_out="Update the board's JetPack, or see NVIDIA's forum topic 'PyTorch for Jetson'.",
                )
            ],
            machine,
        )
    if machine.python and machine.python != row.python:
        return _other_python(planner, row)
    return _plan(planner, row)


def _other_python(planner: Planner, row: JetsonWheel) -> Plan:
    from envcheck.recommend.impossible import answer, environment
    from envcheck.recommend.instead import cpu_alternative

    machine = planner.machine
    made = _plan(planner, row)
    first = environment(planner, row.python)
    inside = replace(planner.place, python=".venv/bin/python", managed=False, pipless=False)
    board = msgspec.structs.replace(
        made, condition=f"with Python {row.python}", commands=(*first, *_commands(inside, row))
    )
    return answer(
        [
            Blocker(
                kind="python",
                text=f"The torch wheels for JetPack {row.jetpack} are for Python {row.python}, not {machine.python}.",
                way_out=f"Use the board's own Python {row.python}.",
                commands=first,
            )
        ],
        machine,
        (board, *cpu_alternative(planner, "cuda")),
    )


def _plan(planner: Planner, row: JetsonWheel) -> Plan:
    matching = not planner.wanted.specifier or planner.wanted.specifier.contains(row.torch)
    wish = planner.wanted.wishes.torch
    warnings = [f"Only torch {row.torch} is known for this JetPack, not {wish}."] if not matching else []
    reason = "PyPI's aarch64 wheels are CPU builds or need a newer driver there, so the wheels that are made for it"
    why = [f"JetPack {row.jetpack}: {reason} are taken: torch {row.torch} for Python {row.python}."]
    if row.torchvision is None:
        warnings.append(f"No torchvision wheel is offered beside it: {row.notes}.")
    elif row.notes:
        why.append(f"{row.notes[:1].upper()}{row.notes[1:]}: numpy<2 goes with them.")
    jetpack = planner.matrix.jetpack(row.l4t_to)
    return Plan(
        torch=row.torch,
        variant=variant_of_cuda(jetpack.cuda) if jetpack and jetpack.cuda else None,
        cuda=jetpack.cuda if jetpack else None,
        torchvision=row.torchvision,
        python=row.python,
        index_url=row.index_url,
        commands=_commands(planner.place, row),
        why=tuple(why),
        warnings=tuple(warnings),
        manager="uv" if planner.place.manager == "uv" else "pip",
    )


def _commands(place: installers.Place, row: JetsonWheel) -> tuple[str, ...]:
    if place.manager != "uv":
        place = replace(place, manager="pip")
    if row.index_url:
        pins = [f"torch=={row.torch}", *([f"torchvision=={row.torchvision}"] if row.torchvision else []), "numpy<2"]
        return (installers.pip_line(place, "install", *pins, "--index-url", row.index_url),)
    url, *name = row.wheel
    if not name:
        return (installers.pip_line(place, "install", url),)
    fetch = installers.line(("wget", "-O", name[0], url), place.shell)
    return (fetch, installers.pip_line(place, "install", f"./{name[0]}"))


def dry_run(planner: Planner, plan: Plan) -> tuple[str, ...]:
    """A command that only asks the index whether a build is there."""
    place = planner.place
    if place.manager != "uv":
        place = replace(place, manager="pip")
    index = ("--index-url", plan.index_url) if plan.index_url else ()
    words = ("install", "--dry-run", "--no-deps", f"torch=={plan.torch}", *index)
    return (installers.pip_line(replace(place, managed=False), *words),)
