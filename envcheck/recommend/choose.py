"""Which of the builds that run is taken: one order, the same for every machine.

1. The newest release that has a build which runs here. With "stable": the newest that is settled and advertised.
2. Within a release: advertised before index-only; machine code before PTX; what plain PyPI gives before an index.
3. Else the newest CUDA whose toolkit came with a driver no newer than this one (nothing of it is then missing), and
   if there is none the oldest, which is nearest to the driver. ROCm: the one nearest below the system's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date

from envcheck.matrix import Matrix, Release
from envcheck.matrix.versions import at_least, numbers
from envcheck.recommend import conda
from envcheck.recommend.candidates import Build, Verdict, builds
from envcheck.recommend.checks import Context, fits, judge

SETTLED_DAYS = 90


def candidates(ctx: Context, admit: Callable[[Release, Build], bool]) -> Iterator[tuple[Release, list[Build]]]:
    """Releases, newest first, with the builds for the device that the wishes admit."""
    machine = ctx.machine
    source = conda.builds if ctx.manager in ("conda", "mamba") else builds
    for release, made in source(ctx.matrix, machine.os or "", machine.arch or "", machine.driver_os):
        fitting = [b for b in made if for_device(b, ctx.device) and admit(release, b)]
        if fitting:
            yield release, fitting


def anything(_release: Release, _build: Build) -> bool:
    """Admits every build."""
    return True


def for_device(build: Build, device: str) -> bool:
    """The build is one for that kind of device. On macOS one wheel serves GPU and CPU."""
    if device == "cuda":
        return build.cuda is not None
    name = build.variant.name
    return name.startswith(device) or (device == "cpu" and build.variant.os == "macos")


def choose(ctx: Context, admit: Callable[[Release, Build], bool], *, stable: bool = False) -> Verdict | None:
    """The build to install, None when none runs."""
    for release, made in candidates(ctx, admit):
        if stable and not settled(release, ctx.matrix):
            continue
        running = [judge(ctx, b) for b in made if (b.advertised or not stable) and fits(ctx, b)]
        if running:
            return min(running, key=lambda verdict: _rank(ctx, verdict))
    return None


def settled(release: Release, matrix: Matrix) -> bool:
    """Patched once (x.y.1), or out for three months when the tables were checked."""
    if numbers(release.version)[2:3] > (0,):
        return True
    age = date.fromisoformat(matrix.checked) - date.fromisoformat(release.released)
    return age.days >= SETTLED_DAYS


def _rank(ctx: Context, verdict: Verdict) -> tuple[object, ...]:
    build = verdict.build
    version, over = _nearness(ctx, build)
    return (
        not build.advertised,
        verdict.ptx,
        len(verdict.doubts),
        len(verdict.older),
        not build.variant.on_pypi,
        over,
        tuple(n if over else -n for n in version),
    )


def _nearness(ctx: Context, build: Build) -> tuple[tuple[int, ...], bool]:
    """The toolkit's version, and whether it is newer than what the driver (or the system's ROCm) came with."""
    variant, machine = build.variant, ctx.machine
    if variant.cuda:
        return numbers(variant.cuda), ctx.driver_cuda is not None and not at_least(ctx.driver_cuda, variant.cuda)
    if variant.rocm:
        system = ".".join(str(n) for n in numbers(machine.rocm or "")[:2])
        return numbers(variant.rocm), bool(system) and not at_least(system, ".".join(variant.rocm.split(".")[:2]))
    return (), False


def default_python(build: Build) -> str | None:
    """The Python to plan for when none is given.

    One below the newest that torch.compile accepts, since the rest of the ecosystem has wheels for it.
    """
    ordinary = [p for p in build.pythons if not p.endswith("t")]
    limit = build.release.compile_python_max
    usable = [p for p in ordinary if limit is None or at_least(limit, p)] or ordinary
    return usable[-2] if len(usable) > 1 else (usable[0] if usable else None)
