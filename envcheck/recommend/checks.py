"""Judges one build against one machine. Each check yields why the build does not do, or what it could not check."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from envcheck.matrix import Matrix
from envcheck.matrix.versions import at_least, numbers
from envcheck.recommend.candidates import Build, Reason, Verdict, macos_floor, runs_on
from envcheck.recommend.companions import pair
from envcheck.recommend.machine import AmdCard, Card, Machine, driver_range, nearest


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


def _judge(ctx: Context, build: Build) -> Verdict:
    reasons: list[Reason] = []
    doubts: list[str] = []
    code: list[tuple[str, str]] = []
    older: list[str] = []
    ptx = False
    if not build.confirmed:
        reasons.append(Reason("unconfirmed", f"the {build.variant.name} build of it is not confirmed to exist"))
    reasons += _python(ctx, build)
    reasons += _system(ctx, build)
    if build.variant.cuda is not None:
        for item in _driver(ctx, build):
            (reasons if isinstance(item, Reason) else doubts).append(item)  # type: ignore[arg-type]
        for card in ctx.machine.cards or ():
            entry = _code(ctx, build, card)
            if isinstance(entry, Reason):
                reasons.append(entry)
            elif entry is None:
                doubts.append(f"which chip '{card.name}' has is not known: whether this build has code for it is open")
            else:
                code.append((card.name, entry))
                ptx = ptx or entry.startswith("compute")
                if any(_before(ctx, build, capability) for capability in card.capabilities):
                    older.append(
                        f"{card.name} is newer than CUDA {build.variant.cuda}: its family's code runs, and the libraries were not made for it"
                    )
        reasons += _cudnn(ctx, build)
    if build.variant.rocm is not None:
        for item in _gfx(ctx, build):
            (reasons if isinstance(item, Reason) else doubts).append(item)  # type: ignore[arg-type]
    companions: dict[str, str] = {}
    plain: list[str] = []
    pythonless = any(r.kind == "python" for r in reasons)
    for package in ("torchvision", "torchaudio", "triton"):
        made = pair(ctx.matrix, build, package, ctx.machine)
        if made.version is not None and (package != "triton" or package in ctx.companions):
            companions[package] = made.version
            if made.plain:
                plain.append(package)
        elif made.problem and package in ctx.companions and not pythonless:
            reasons.append(Reason("python" if made.python else "companion", made.problem, made.python))
    return Verdict(
        build,
        tuple(reasons),
        tuple(doubts),
        tuple(dict.fromkeys(code)),
        ptx,
        companions,
        tuple(plain),
        tuple(dict.fromkeys(older)),
    )


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


def _driver(ctx: Context, build: Build) -> Iterator[Reason | str]:
    machine, floor = ctx.machine, build.floor
    if floor is None:
        yield f"the driver that CUDA {build.variant.cuda} takes is not in the tables"
        return
    unlock: str | None = floor
    if ctx.driver_high is not None:
        branch = ctx.matrix.driver_branch(floor, machine.driver_os)
        if branch is not None and branch > ctx.driver_high:
            unlock = None
    if machine.driver is None:
        yield from _driver_unknown(ctx, build, floor, unlock)
        return
    answer = ctx.matrix.driver_runs(machine.driver, build.variant.cuda or "", machine.driver_os)
    if answer == "no":
        yield Reason("driver", _too_old(floor, f"this machine: {machine.driver}", unlock, ctx), unlock)
    elif answer == "doubtful":
        yield f"driver {machine.driver} is just below {floor}, where sources agree that CUDA {build.variant.cuda} runs"
    elif answer is None:
        yield f"driver {machine.driver} could not be compared with the {floor} that this build takes"


def _driver_unknown(ctx: Context, build: Build, floor: str, unlock: str | None) -> Iterator[Reason | str]:
    shown = ctx.machine.driver_cuda
    if unlock is None:
        yield Reason("driver", _too_old(floor, "", None, ctx))
    elif shown is None:
        yield f"needs an NVIDIA driver >= {floor}"
    elif numbers(shown)[:1] < numbers(build.variant.cuda or "")[:1]:
        yield Reason("driver", _too_old(floor, f"this machine's supports CUDA {shown}", unlock, ctx), unlock)


def _too_old(floor: str, here: str, unlock: str | None, ctx: Context) -> str:
    text = f"needs an NVIDIA driver >= {floor}" + (f" ({here})" if here else "")
    if unlock is None:
        text += f", and branch {ctx.driver_high} is the last for this GPU"
    return text


def _code(ctx: Context, build: Build, card: Card) -> Reason | str | None:
    """The entry of the arch list that runs on a card, a reason against the build, or None for an unknown card."""
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
    return entry


def _before(ctx: Context, build: Build, capability: str) -> bool:
    """The build's CUDA is older than the first that knows the chip."""
    row = ctx.matrix.architecture(capability)
    first, cuda = (row.first_cuda if row else None), build.variant.cuda
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


def _gfx(ctx: Context, build: Build) -> Iterator[Reason | str]:
    listed = ctx.matrix.rocm_gfx(build.release.version, build.variant.rocm or "")
    for card in supported(ctx.machine.amd):
        if not card.gfx:
            yield f"the gfx target of {card.name} is not known (rocminfo shows it)"
        elif listed is None:
            yield f"whether {build.variant.name} has code for {card.name} is not known"
        elif not any(target in listed for target in card.gfx):
            yield Reason("gfx", f"has no code for {card}")
        elif not all(target in listed for target in card.gfx):
            yield f"{card.name} is one of {', '.join(card.gfx)}, and not all of them have code (rocminfo shows which)"


def supported(cards: tuple[AmdCard, ...]) -> tuple[AmdCard, ...]:
    """The cards that a build must have code for: one inside a processor counts only where there is no other."""
    real = tuple(card for card in cards if not card.integrated)
    return real or cards
