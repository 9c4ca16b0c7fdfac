"""Sentences about a choice: why this one, what newer ones fail on, what would unlock them, what is about to end."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from envcheck.matrix import Release
from envcheck.matrix.versions import at_least, numbers
from envcheck.recommend.candidates import Build, Reason, Verdict
from envcheck.recommend.checks import Context, judge, span
from envcheck.recommend.choose import anything, candidates

Admit = Callable[[Release, Build], bool]

# What the user can change, in the order of how easily.
FIXABLE = ("python", "driver", "ptx-driver", "companion", "macos", "glibc")
_HARDWARE = frozenset({"gpu-code", "gpu-doubt", "cudnn", "gfx", "unconfirmed"})


def why(ctx: Context, verdict: Verdict, newest: str, *, stable: bool, wish: str) -> list[str]:
    """Why this build."""
    build = verdict.build
    lines = [_release_line(build, newest, stable, wish)]
    if ctx.machine.installed.get("torch") in (f"{build.release.version}+{build.variant.name}", build.release.version):
        lines.append(f"torch {ctx.machine.installed['torch']} is installed already.")
    if build.variant.cuda:
        lines.append(_driver_line(ctx, build))
    lines += _code_lines(verdict)
    lines.append(_source_line(build))
    if ctx.machine.python and build.pythons:
        lines.append(f"It has a wheel for Python {ctx.machine.python} (of {span(build.pythons)}).")
    return [line for line in lines if line]


def _release_line(build: Build, newest: str, stable: bool, wish: str) -> str:
    version, day = build.release.version, build.release.released
    if version == newest:
        return f"torch {version} ({day}) is the newest release in the tables."
    kind = "newest settled release" if stable else "newest release"
    of = f" that --torch {wish} admits" if wish else ""
    return f"torch {version} ({day}) is the {kind}{of} with a build that runs here."


def _driver_line(ctx: Context, build: Build) -> str:
    cuda, driver, floor = build.variant.cuda, ctx.machine.driver, build.floor
    if driver is None or floor is None:
        return f"CUDA {cuda} takes an NVIDIA driver >= {floor}." if floor else ""
    has = "planned for driver" if ctx.machine.assumed else "this machine has"
    line = f"CUDA {cuda} runs from driver {floor} on; {has} {driver}"
    if ctx.driver_cuda is None:
        return line + "."
    if at_least(ctx.driver_cuda, cuda or "0"):
        return line + f" (CUDA {ctx.driver_cuda})."
    return line + f", which came with CUDA {ctx.driver_cuda}: minor-version compatibility covers the rest."


def _code_lines(verdict: Verdict) -> list[str]:
    by_entry: dict[str, list[str]] = {}
    for name, entry in verdict.code:
        names = by_entry.setdefault(entry, [])
        if name not in names:
            names.append(name)
    lines = []
    for entry, names in by_entry.items():
        how = "compiled by the driver at first use" if entry.startswith("compute") else "machine code"
        lines.append(f"It has {entry} ({how}) for {', '.join(names)}.")
    return lines


def _source_line(build: Build) -> str:
    variant = build.variant
    if build.channel:
        return f"The conda channel {build.channel} has it" + (f" for CUDA {variant.cuda}." if variant.cuda else ".")
    if variant.os == "macos" and variant.machine == "x86_64":
        return "Plain PyPI: wheels for Intel Macs end with torch 2.2.2."
    if variant.os == "macos":
        return "Plain PyPI: macOS has one wheel per release, with Metal (MPS) in it on Apple silicon."
    if variant.on_pypi:
        return (
            f"Plain PyPI gives this very build ({variant.name}) on {variant.os} {variant.machine}; no index is needed."
        )
    plain = build.wheel.variant if build.wheel else None
    line = f"The {variant.name} build is on its own index"
    if plain:
        line += f": plain PyPI gives the {plain} build here"
    if variant.status == "index-only":
        line += "; the index has it, PyTorch's install page does not name it"
    return line + "."


def rejected(ctx: Context, admit: Admit, than: Release | None, limit: int = 4) -> list[str]:
    """What each newer release fails on, neighbours with the same reason taken together."""
    groups: list[tuple[list[str], str]] = []
    for release, made in candidates(ctx, admit):
        if than is not None and numbers(release.version) <= numbers(than.version):
            break
        text = _failure([judge(ctx, b) for b in made])
        if not text:
            continue  # it runs, and was passed over for another reason that is said elsewhere
        if groups and groups[-1][1] == text:
            groups[-1][0].append(release.version)
        else:
            groups.append(([release.version], text))
    lines = []
    for versions, text in groups[:limit]:
        name = versions[0] if len(versions) == 1 else f"{versions[-1]} to {versions[0]}"
        lines.append(f"Not {name}: {text}.")
    return lines


def _failure(verdicts: list[Verdict]) -> str:
    """Builds of one release and their reasons; a build that fails on more than another adds nothing."""
    if any(v.fits for v in verdicts):
        return ""
    telling = [v for v in verdicts if not any(other.kinds < v.kinds for other in verdicts)]
    telling = [v for v in telling if not any(_nearer(other, v) for other in telling)]
    by_text: dict[str, list[str]] = {}
    for verdict in telling:
        text = " and ".join(dict.fromkeys(_short(r) for r in _decisive(verdict)))
        by_text.setdefault(text, []).append(verdict.build.variant.name)
    if len(by_text) == 1:
        return next(iter(by_text))
    return "; ".join(f"{_join(names)} {_agree(text, names)}" for text, names in by_text.items())


def _nearer(other: Verdict, verdict: Verdict) -> bool:
    """Both fail on the driver alone, and the other build asks for less."""
    if other.kinds != {"driver"} or verdict.kinds != {"driver"}:
        return False
    asked, less = verdict.reasons[0].unlock, other.reasons[0].unlock
    return asked is not None and less is not None and asked != less and at_least(asked, less)


def _decisive(verdict: Verdict) -> Iterable[Reason]:
    """The reasons that matter most: what no one can change, then all that one could; an unseen build last."""
    if "gpu-doubt" in verdict.kinds and "unconfirmed" in verdict.kinds:
        return [r for r in verdict.reasons if r.kind == "unconfirmed"]
    code = [r for r in verdict.reasons if r.kind in ("gpu-code", "gfx")]
    fixed = [r for r in verdict.reasons if r.kind == "cudnn" or (r.kind in FIXABLE and r.unlock is None)]
    rest = [r for r in verdict.reasons if r.kind != "unconfirmed"]
    return code[:1] or fixed[:1] or rest or verdict.reasons


def _agree(text: str, names: list[str]) -> str:
    """The verb of a reason for several builds."""
    if len(names) == 1:
        return text
    first, _, rest = text.partition(" ")
    plural = {"has": "have", "is": "are", "would": "would"}.get(first, first.removesuffix("s"))
    return f"{plural} {rest}"


def _short(reason: Reason) -> str:
    if reason.kind == "gpu-doubt":
        return f"may have no code {reason.text}"
    return "is not confirmed to exist" if reason.kind == "unconfirmed" else reason.text


def _join(names: list[str]) -> str:
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]


def unlocks(ctx: Context, admit: Admit, than: Release | None) -> list[str]:
    """What would make a newer release run: one change where one is enough, else the two that are needed together."""
    best: dict[frozenset[str], Verdict] = {}
    for release, made in candidates(ctx, admit):
        if than is not None and numbers(release.version) <= numbers(than.version):
            break
        for verdict in (judge(ctx, b) for b in made):
            if changeable(verdict):
                best.setdefault(changes(verdict), verdict)
    if not best:
        return []
    fewest = min(len(kinds) for kinds in best)
    lines = []
    for kinds, verdict in best.items():
        if len(kinds) == fewest:
            build = verdict.build
            lines.append(f"torch {build.release.version} ({build.variant.name}) would run with {_needs(verdict)}.")
    return lines[:2]


def changeable(verdict: Verdict) -> bool:
    """Everything against the build is something that the user can change."""
    return bool(verdict.reasons) and all(r.kind in FIXABLE and r.unlock is not None for r in verdict.reasons)


def changes(verdict: Verdict) -> frozenset[str]:
    """Kinds of changes that a build takes."""
    return frozenset("driver" if kind == "ptx-driver" else kind for kind in verdict.kinds)


def _needs(verdict: Verdict) -> str:
    wanted: dict[str, str] = {}
    for reason in verdict.reasons:
        name = {"python": "Python", "glibc": "glibc >=", "macos": "macOS >="}.get(reason.kind, "an NVIDIA driver >=")
        held = wanted.get(name)
        if held is None or at_least(reason.unlock or "0", held):
            wanted[name] = reason.unlock or ""
    # "another patch than 3.14.1" stands for itself
    return " and ".join(
        f"{name} {value}" if value[:1].isdigit() else f"{value} of {name}" for name, value in wanted.items()
    )


def ending(ctx: Context) -> list[str]:
    """That torch is about to end (or has ended) for these GPUs, whatever release was wished for."""
    cards = [card for card in ctx.machine.cards or () if card.capability]
    old = [c for c in cards if (row := ctx.matrix.architecture(c.capability or "")) and row.last_cuda]
    if not old or ctx.device != "cuda":
        return []
    ours = list(dict.fromkeys(card.name for card in ctx.machine.cards or ()))
    names = ours[0] if len(ours) == 1 else _join(ours) + " together"
    doubtful: list[str] = []
    for release, made in candidates(ctx, anything):
        verdicts = [judge(ctx, b) for b in made]
        if any(not v.kinds & _HARDWARE for v in verdicts):
            if release.version == ctx.matrix.releases[-1].version:
                return []
            line = f"torch {release.version} is the last release known to have code for {names}"
            if doubtful:
                line += f"; whether there is a {' or a '.join(doubtful)} is not confirmed"
            return [line + ".", *_driver_end(ctx, _join(list(dict.fromkeys(card.name for card in old))))]
        doubtful += [f"{v.build.name}" for v in verdicts if v.kinds & _HARDWARE == {"unconfirmed"}]
    return []


def first_with_code(ctx: Context) -> Verdict | None:
    """The oldest build that has code for the cards."""
    found = None
    for _, made in candidates(ctx, anything):
        verdicts = [v for v in (judge(ctx, b) for b in made) if not v.kinds & _HARDWARE]
        found = verdicts[0] if verdicts else found
    return found


def _driver_end(ctx: Context, names: str) -> list[str]:
    high = ctx.driver_high
    return [f"Driver branch {high} is the last for {names}: hold it there."] if high and ctx.machine.driver else []


def unconfirmed(ctx: Context, admit: Admit, chosen: Build) -> Verdict | None:
    """The newest build that would run and is newer than the chosen one, if only it were confirmed to exist."""
    for release, made in candidates(ctx, admit):
        if numbers(release.version) <= numbers(chosen.release.version):
            return None
        verdicts = [judge(ctx, b) for b in made]
        found = [v for v in verdicts if v.kinds == {"unconfirmed"}]
        if found and not any(v.fits for v in verdicts):
            return found[0]
    return None
