"""Judges one build against one machine. Each check yields why the build does not do, or what it could not check."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from envcheck.matrix import Matrix
from envcheck.matrix.versions import at_least, numbers
from envcheck.recommend.candidates import Build, Reason, Verdict, macos_floor, runs_on
from envcheck.recommend.companions import Pair, pair
from envcheck.recommend.machine import AmdCard, Card, Machine, driver_range, nearest


@dataclass(frozen=True)
class Doubt:
    """Something that could not be checked, as a condition."""

    text: str


@dataclass(frozen=True)
class Runs:
    """A card and the entry of the arch list that runs on it."""

    card: Card
    entry: str


Item = Reason | Doubt | Runs


@dataclass
class Context:
    """A machine and what is the same for all its builds."""

    matrix: Matrix
    machine: Machine
    device: str
    companions: tuple[str, ...]
    driver_high: int | None = None
    driver_cuda: str | None = None
    manager: str = "pip"
    memory: dict[int, Verdict] = field(default_factory=dict)
    drivers: dict[str, Reason | Doubt | None] = field(default_factory=dict)
    """What the driver says to each CUDA."""


def context(
    matrix: Matrix, machine: Machine, device: str, companions: tuple[str, ...], manager: str = "pip"
) -> Context:
    """Prepares the checks for one machine."""
    high = driver_range(machine.cards, matrix)[1] if machine.cards else None
    cuda = machine.driver_cuda
    if machine.driver:
        cuda = matrix.driver_cuda(machine.driver, machine.driver_os) or cuda
    return Context(matrix, machine, device, companions, high, cuda, manager)


def judge(ctx: Context, build: Build) -> Verdict:
    """Everything that stands against a build, and everything that could not be checked."""
    known = ctx.memory.get(id(build))
    if known is None:
        known = ctx.memory[id(build)] = _judge(ctx, build)
    return known


def fits(ctx: Context, build: Build) -> bool:
    """Nothing stands against a build: the same checks, only as far as the first that fails."""
    known = ctx.memory.get(id(build))
    if known is not None:
        return known.fits
    return not any(isinstance(item, Reason) for item in _items(ctx, build))


def _items(ctx: Context, build: Build) -> Iterator[Item]:
    """All checks, those that cost least first."""
    if not build.confirmed:
        yield Reason("unconfirmed", f"the {build.variant.name} build of it is not confirmed to exist")
    pythonless = False
    for reason in _python(ctx, build):
        pythonless = True
        yield reason
    if build.cuda is not None:
        said = _driver(ctx, build)
        if said is not None:
            yield said
        for card in ctx.machine.cards or ():
            yield _code(ctx, build, card)
        yield from _cudnn(ctx, build)
    elif build.variant.rocm is not None:
        yield from _gfx(ctx, build)
    yield from _system(ctx, build)
    for package in ctx.companions:
        made = pair(ctx.matrix, build, package, ctx.machine)
        if made.version is None and made.problem and not (pythonless and made.python):
            yield Reason("python" if made.python else "companion", made.problem, made.python)


def _judge(ctx: Context, build: Build) -> Verdict:
    items = tuple(_items(ctx, build))
    ran = [item for item in items if isinstance(item, Runs)]
    return Verdict(
        build,
        reasons=tuple(item for item in items if isinstance(item, Reason)),
        doubts=tuple(item.text for item in items if isinstance(item, Doubt)),
        code=tuple(dict.fromkeys((item.card.name, item.entry) for item in ran)),
        ptx=any(item.entry.startswith("compute") for item in ran),
        older=tuple(dict.fromkeys(_untested(ctx, build, item.card) for item in ran if _older(ctx, build, item.card))),
    )


def beside(ctx: Context, build: Build) -> dict[str, Pair]:
    """What can be had beside a build: torchvision, torchaudio, and what else was asked for."""
    found = {}
    for package in dict.fromkeys(("torchvision", "torchaudio", *ctx.companions)):
        made = pair(ctx.matrix, build, package, ctx.machine)
        if made.version is not None:
            found[package] = made
    return found


def _older(ctx: Context, build: Build, card: Card) -> bool:
    return any(_before(ctx, build, capability) for capability in card.capabilities)


def _untested(ctx: Context, build: Build, card: Card) -> str:
    made_for = f"{card.name} is newer than CUDA {build.cuda}"
    return f"{made_for}: its family's code runs, and the libraries were not made for it"


def _python(ctx: Context, build: Build) -> Iterator[Reason]:
    wanted = ctx.machine.python
    if wanted is None or wanted in build.pythons:
        return
    yield Reason("python", f"has no wheel for Python {wanted}", nearest(build.pythons, wanted))


def span(pythons: tuple[str, ...]) -> str:
    """("3.10", "3.11", "3.12", "3.12t") -> "3.10 to 3.12, 3.12t"."""
    ordinary = [p for p in pythons if not p.endswith("t")]
    free = [p for p in pythons if p.endswith("t")]
    parts = [ordinary[0] if len(ordinary) == 1 else f"{ordinary[0]} to {ordinary[-1]}"] if ordinary else []
    return ", ".join(parts + free)


def _system(ctx: Context, build: Build) -> Iterator[Reason]:
    machine = ctx.machine
    if machine.os == "linux" and build.min_os and machine.glibc and not at_least(machine.glibc, build.min_os):
        yield Reason("glibc", f"needs glibc >= {build.min_os} (this system: {machine.glibc})", build.min_os)
    if machine.os != "macos" or not machine.os_version:
        return
    floor = macos_floor(build, machine.python)
    if floor and not at_least(machine.os_version, floor):
        yield Reason("macos", f"needs macOS >= {floor} (this system: {machine.os_version})", floor)
        return
    mps = build.release.mps_min_macos
    if ctx.device == "mps":
        if mps is None:
            yield Reason("macos", "has no MPS")
        elif not at_least(machine.os_version, mps):
            yield Reason("macos", f"needs macOS >= {mps} for the GPU (this system: {machine.os_version})", mps)


def _driver(ctx: Context, build: Build) -> Reason | Doubt | None:
    """What the driver says to the CUDA of a build: the same for all builds of that CUDA."""
    cuda = build.cuda or ""
    if cuda not in ctx.drivers:
        ctx.drivers[cuda] = _driver_for(ctx, cuda, build.floor)
    return ctx.drivers[cuda]


def _driver_for(ctx: Context, cuda: str, floor: str | None) -> Reason | Doubt | None:
    machine = ctx.machine
    if floor is None:
        return Doubt(f"the driver that CUDA {cuda} takes is not in the tables")
    unlock: str | None = floor
    if ctx.driver_high is not None:
        branch = ctx.matrix.driver_branch(floor, machine.driver_os)
        if branch is not None and branch > ctx.driver_high:
            unlock = None
    if machine.driver is None:
        return _driver_unknown(ctx, cuda, floor, unlock)
    answer = ctx.matrix.driver_runs(machine.driver, cuda, machine.driver_os)
    if answer == "no":
        return Reason("driver", _too_old(floor, f"this machine: {machine.driver}", unlock, ctx), unlock)
    if answer == "doubtful":
        return Doubt(f"driver {machine.driver} is just below {floor}, where sources agree that CUDA {cuda} runs")
    if answer is None:
        return Doubt(f"driver {machine.driver} could not be compared with the {floor} that this build takes")
    return None


def _driver_unknown(ctx: Context, cuda: str, floor: str, unlock: str | None) -> Reason | Doubt | None:
    shown = ctx.machine.driver_cuda
    if unlock is None:
        return Reason("driver", _too_old(floor, "", None, ctx))
    if shown is None:
        return Doubt(f"needs an NVIDIA driver >= {floor}")
    if numbers(shown)[:1] < numbers(cuda)[:1]:
        return Reason("driver", _too_old(floor, f"this machine's supports CUDA {shown}", unlock, ctx), unlock)
    return None


def _too_old(floor: str, here: str, unlock: str | None, ctx: Context) -> str:
    text = f"needs an NVIDIA driver >= {floor}" + (f" ({here})" if here else "")
    if unlock is None:
        text += f", and branch {ctx.driver_high} is the last for this GPU"
    return text


def _code(ctx: Context, build: Build, card: Card) -> Item:
    """The entry of the arch list that runs on a card, a reason against the build, or a doubt for an unknown card."""
    entry: str | None = None
    for capability in card.capabilities:
        kind, by, why = runs_on(ctx.matrix, build, capability, ctx.driver_cuda)
        if kind in ("ptx", "ptx-driver-too-old") and _before(ctx, build, capability):
            # The driver could compile torch's own kernels; cuBLAS and cuDNN of that toolkit do not know the chip.
            return Reason("gpu-code", f"has no code for {card} (its CUDA libraries are older than the chip)")
        if kind == "none":
            return Reason("gpu-code", f"has no code for {card}")
        if kind == "ptx-driver-too-old":
            return Reason("ptx-driver", f"for {card.name}: {why}", build.toolkit_driver)
        if kind == "unknown":
            return Reason("gpu-doubt", f"for {card.name}: {why}")
        if entry is None or kind == "ptx":
            entry = by
    if entry is None:
        return Doubt(f"which chip '{card.name}' has is not known: whether this build has code for it is open")
    return Runs(card, entry)


def _before(ctx: Context, build: Build, capability: str) -> bool:
    """The build's CUDA is older than the first that knows the chip."""
    row = ctx.matrix.architecture(capability)
    first, cuda = (row.first_cuda if row else None), build.cuda
    return first is not None and cuda is not None and not at_least(cuda, first)


def _cudnn(ctx: Context, build: Build) -> Iterator[Reason]:
    version = build.variant.cudnn
    if version is None:
        return
    for card in ctx.machine.cards or ():
        for capability in card.capabilities:
            if ctx.matrix.cudnn_floor_ok(capability, version) is False:
                yield Reason("cudnn", f"comes with cuDNN {version}, which does not run on {card.name} ({capability})")
                break


def _gfx(ctx: Context, build: Build) -> Iterator[Reason | Doubt]:
    listed = ctx.matrix.rocm_gfx(build.release.version, build.variant.rocm or "")
    for card in supported(ctx.machine.amd):
        if not card.gfx:
            yield Doubt(f"the gfx target of {card.name} is not known (rocminfo shows it)")
        elif listed is None:
            yield Doubt(f"whether {build.variant.name} has code for {card.name} is not known")
        elif not any(target in listed for target in card.gfx):
            yield Reason("gfx", f"has no code for {card}")
        elif not all(target in listed for target in card.gfx):
            yield Doubt(f"{card.name} is one of {', '.join(card.gfx)}, and not all have code (rocminfo shows which)")


def supported(cards: tuple[AmdCard, ...]) -> tuple[AmdCard, ...]:
    """The cards that a build must have code for: one inside a processor counts only where there is no other."""
    real = tuple(card for card in cards if not card.integrated)
    return real or cards
