"""From a judged build to an order for the installers."""

from __future__ import annotations

from envcheck.installers import Order, Package
from envcheck.matrix.versions import numbers
from envcheck.recommend import conda
from envcheck.recommend.candidates import Build, Verdict
from envcheck.recommend.checks import Context, beside
from envcheck.recommend.machine import Machine


def order_of(verdict: Verdict, ctx: Context, python: str | None) -> Order:
    """What to install, from where, and what of it must be removed first."""
    build, machine = verdict.build, ctx.machine
    there = beside(ctx, build)
    packages = [Package("torch", build.release.version)]
    for name in ctx.companions:
        found = there.get(name)
        if found is not None and found.version is not None:
            packages.append(Package("triton-windows" if name == "triton" else name, found.version, found.plain))
    return Order(
        packages=tuple(packages),
        variant=build.variant.name,
        index_url=None if build.variant.on_pypi or build.channel else build.variant.index_url,
        python=python,
        cuda=build.variant.cuda,
        installed=() if build.channel else _in_the_way(build, machine, [p.name for p in packages]),
        extras=(*_extras(build, python), *conda.extras(build, machine)),
        conda_channel=build.channel,
        conda_cuda=build.variant.cuda if build.channel else None,
    )


def _in_the_way(build: Build, machine: Machine, names: list[str]) -> tuple[str, ...]:
    """Packages that pip would take for the wanted ones although they are another build."""
    there = machine.installed.get("torch")
    if there is None:
        return ()
    version, _, label = there.partition("+")
    if (
        version != build.release.version
        or (label or (build.wheel.variant if build.wheel else "")) == build.variant.name
    ):
        return ()
    return tuple(name for name in names if name in machine.installed)


def _extras(build: Build, python: str | None) -> tuple[str, ...]:
    """A torch that was built before NumPy 2 breaks beside it, and its own metadata lets NumPy 2 in (Python >= 3.9)."""
    before = build.release.numpy2.get(build.variant.os) is False
    return ("numpy<2",) if before and (python is None or numbers(python) >= (3, 9)) else ()
