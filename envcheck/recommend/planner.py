"""From facts and wishes to one plan: who the GPU is, whether it can be used at all, which build, and what to say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import msgspec

from envcheck import installers
from envcheck.facts import Facts
from envcheck.matrix import Matrix, Release
from envcheck.matrix.versions import at_least, numbers
from envcheck.recommend import conda, explain, impossible, instead, vendor
from envcheck.recommend.candidates import Build, Verdict
from envcheck.recommend.checks import Context, beside, context
from envcheck.recommend.choose import anything, candidates, choose, default_python, settled
from envcheck.recommend.machine import Machine, Trouble, describe
from envcheck.recommend.model import Blocker, Plan, Wishes
from envcheck.recommend.orders import order_of
from envcheck.recommend.wishes import Wanted, read

Admit = Callable[[Release, Build], bool]


def plan(facts: Facts, matrix: Matrix, wishes: Wishes = Wishes()) -> Plan:  # noqa: B008 - frozen
    """The best build of torch for a machine, how to install it, and why; or what makes that impossible.

    Raises:
        UsageError: a wish that cannot be read (a specifier that is none, an unknown device or manager).
    """
    wanted = read(wishes, matrix)
    machine = describe(facts, matrix)
    return Planner(facts, matrix, wanted, _complete(machine)).plan()


def _complete(machine: Machine) -> Machine:
    """What nearly every machine is, where nobody says: an architecture for the operating system."""
    if machine.arch is not None:
        return machine
    arch = "arm64" if machine.os == "macos" else "aarch64" if machine.jetson else "x86_64"
    return replace(machine, arch=arch)


class Planner:
    """One question: the facts, the tables, the wishes, and the machine as the checks see it."""

    def __init__(self, facts: Facts, matrix: Matrix, wanted: Wanted, machine: Machine) -> None:
        self.facts = facts
        self.matrix = matrix
        self.wanted = wanted
        self.machine = machine
        self.place = installers.place_of(facts, wanted.wishes.manager, wanted.wishes.shell)

    # -- the course of it ----------------------------------------------------------------------------------------------

    def plan(self) -> Plan:
        """The answer."""
        platform = impossible.platform_blockers(self.machine, self.matrix)
        if platform:
            return impossible.answer(platform, self.machine)
        device = self.device()
        source = vendor.jetson_plan(self, device)
        if source is not None:
            return source
        troubles = [t for t in self.machine.trouble if device == t.device]
        if troubles:
            return self.after_repair(device)
        return self.for_device(device)

    def device(self) -> str:
        """The kind of device to plan for."""
        if self.wanted.wishes.device != "auto":
            return self.wanted.wishes.device
        machine = self.machine
        if machine.os == "macos":
            return "mps" if machine.arch == "arm64" or machine.rosetta else "cpu"
        if machine.cards or machine.jetson or any(t.device == "cuda" for t in machine.trouble):
            return "cuda"
        if machine.amd and (not machine.amd_integrated or self._gfx_supported()):
            return "rocm"
        if machine.xpu:
            return "xpu"
        # Nobody said whether there is a GPU. A driver is a sign of one; a machine that is only described may have one,
        # and the CUDA build of Linux runs without one too.
        sign = machine.driver or machine.driver_cuda or (not machine.live and machine.os == "linux")
        return "cuda" if machine.cards is None and not machine.amd and sign else "cpu"

    def _gfx_supported(self) -> bool:
        """A graphics unit inside a processor that some ROCm build has code for."""
        targets = {target for card in self.machine.amd for target in card.gfx}
        listed = (
            self.matrix.rocm_gfx(build.release.version, build.variant.rocm or "")
            for _, made in candidates(self.context("rocm", companions=()), anything)
            for build in made
            if build.confirmed
        )
        return any(targets & set(names or ()) for names in listed)

    def context(
        self, device: str, machine: Machine | None = None, companions: tuple[str, ...] | None = None
    ) -> Context:
        """The checks for a device, on this machine or on a variation of it."""
        machine = machine or self.machine
        return context(
            self.matrix,
            machine,
            device,
            self.wanted.companions(machine) if companions is None else companions,
            self.place.manager,
        )

    def admit(self, release: Release, build: Build) -> bool:
        """The wishes admit this build."""
        return self.wanted.admits(release, build)

    # -- a plan that runs ----------------------------------------------------------------------------------------------

    def for_device(self, device: str, machine: Machine | None = None, *, alone: bool = False) -> Plan:
        """The plan for one kind of device; alone: without alternatives (it is one itself)."""
        machine = machine or self.machine
        ctx = self.context(device, machine)
        stable = self.wanted.wishes.prefer == "stable"
        verdict = choose(ctx, self.admit, stable=stable)
        warnings: list[str] = []
        if verdict is None and stable:
            verdict = choose(ctx, self.admit)
            warnings += ["No settled release runs here: this is the newest that does."] if verdict else []
        if verdict is None and self.wanted.wishes.companions is None and ctx.companions:
            bare = self.context(device, machine, ())
            verdict = choose(bare, self.admit)
            if verdict is not None:
                missing = " and ".join(ctx.companions)
                warnings.append(f"{missing} cannot be had beside any torch that runs here: torch comes alone.")
                ctx = bare
        if verdict is None:
            return self.cannot(ctx, alone=alone)
        return self.made(ctx, verdict, warnings, stable=stable, alone=alone)

    def made(self, ctx: Context, verdict: Verdict, warnings: list[str], *, stable: bool, alone: bool) -> Plan:
        """A verdict as a plan with everything that is said about it."""
        newest = self.matrix.releases[-1].version
        why = explain.why(ctx, verdict, newest, stable=stable, wish=self.wanted.wishes.torch)
        why += explain.rejected(ctx, self.admit, verdict.build.release)
        why += explain.unlocks(ctx, self.admit, verdict.build.release)
        warnings = [*self.warnings(ctx, verdict), *warnings]
        base = self.bare(ctx, verdict)
        others = () if alone else self.alternatives(ctx, verdict, stable=stable)
        return msgspec.structs.replace(base, why=tuple(why), warnings=tuple(warnings), alternatives=others)

    def bare(self, ctx: Context, verdict: Verdict, condition: str = "") -> Plan:
        """The plan of a verdict, without any words but its condition."""
        build, machine = verdict.build, ctx.machine
        python = machine.python or default_python(build)
        there = beside(ctx, build)
        order = order_of(verdict, ctx, python)
        return Plan(
            torch=build.release.version,
            variant="cpu" if ctx.device == "cpu" else build.variant.name,
            torchvision=there["torchvision"].version if "torchvision" in there else None,
            torchaudio=there["torchaudio"].version if "torchaudio" in there else None,
            python=python,
            index_url=order.index_url,
            commands=installers.commands(order, self.place),
            calls=self._calls(order),
            condition=condition,
            manager=self.place.manager,
            cuda=build.variant.cuda,
            driver=build.floor,
            packages=(*(f"{p.name}=={p.version}" for p in order.packages), *order.extras),
            channel=order.conda_channel,
        )

    def _calls(self, order: installers.Order) -> tuple[tuple[str, ...], ...]:
        """The same without a shell. A Python that refuses packages has none: its environment is not there yet."""
        if self.place.manager not in ("pip", "uv") or self.place.managed:
            return ()
        python = self.facts.python.executable if self.machine.live else None
        return installers.pip_calls(order, replace(self.place, python=python or self.place.python))

    def warnings(self, ctx: Context, verdict: Verdict) -> list[str]:
        """What holds only under a condition, what is missing, what is about to end."""
        build, machine = verdict.build, ctx.machine
        lines = [f"Condition: {text}." for text in verdict.doubts if not (machine.jetson and "driver" in text)]
        lines += [
            f"Not tested by anyone that is known: {text}."
            for text in verdict.older
            if build.release is self.matrix.releases[-1]
        ]
        lines += self._unknown_gpu(ctx, build)
        if machine.python is None:
            lines.append(f"Python is not given: planned for {default_python(build)}.")
        lines += explain.ending(ctx)
        if machine.python and not _compiles(build, machine.python):
            lines.append(
                f"torch.compile of {build.release.version} refuses Python {machine.python} (up to "
                f"{build.release.compile_python_max}); all else works."
            )
        lines += _rocm_gap(build, machine)
        if self.place.manager in ("conda", "mamba"):
            lines += conda.warnings(build, machine)
        if self.place.managed:
            lines.append(
                "This Python belongs to the system and refuses packages (PEP 668): a virtual environment first."
            )
        return lines

    def _unknown_gpu(self, ctx: Context, build: Build) -> list[str]:
        machine = ctx.machine
        if self.wanted.wishes.device == "auto" and ctx.device == "cpu" and machine.os != "macos":
            if machine.amd_integrated:
                return [
                    f"No ROCm build has code for {' and '.join(map(str, machine.amd))}: the CPU build is what is left."
                ]
            if machine.cards is None and not machine.amd and not machine.live:
                return ["The GPU is not given: this is the CPU build. --gpu NAME and --driver N plan for a GPU."]
            if machine.cards is None and not machine.amd:
                text = "No GPU could be seen, and none could be ruled out: if there is an NVIDIA card, make nvidia-smi "
                return [text + "work first (or describe it with --gpu and --driver)."]
        if ctx.device != "cuda" or machine.cards:
            return []
        chips = ", ".join(build.archs.sass) if build.archs else ""
        seen = "No NVIDIA GPU is seen here" if machine.cards == () else "The GPU is not known"
        return [f"{seen}: this build has code for {chips}; --gpu NAME checks a card."] if chips else [f"{seen}."]

    def alternatives(self, ctx: Context, verdict: Verdict, *, stable: bool) -> tuple[Plan, ...]:
        """What else would do: a build that may exist, an advertised one, a settled one."""
        chosen, found = verdict.build, []
        doubtful = explain.unconfirmed(ctx, self.admit, chosen)
        if doubtful is not None:
            name = doubtful.build.name
            held = self.bare(ctx, doubtful, f"if the index has {name}, which is not confirmed")
            note = f"Not confirmed to exist: the first command only asks the index. torch {name} is not in the tables as seen."
            ask = vendor.dry_run(self, held)
            found.append(msgspec.structs.replace(held, warnings=(note,), commands=(*ask, *held.commands)))
        if not chosen.advertised:
            other = choose(ctx, lambda release, build: build.advertised and self.admit(release, build))
            if other is not None:
                found.append(self.bare(ctx, other, "if only what PyTorch's install page names will do"))
        if not stable and not settled(chosen.release, self.matrix):
            other = choose(ctx, self.admit, stable=True)
            if other is not None:
                found.append(self.bare(ctx, other, "if a release that is settled is wanted (--prefer stable)"))
        if stable:
            other = choose(ctx, self.admit)
            if other is not None and other.build.release is not chosen.release:
                found.append(self.bare(ctx, other, "if the newest is wanted (--prefer newest)"))
        return (*found, *self._for_older_driver(ctx, chosen))

    def _for_older_driver(self, ctx: Context, chosen: Build) -> tuple[Plan, ...]:
        """Where the driver is not known: what runs if it is older than the chosen build asks."""
        floor = chosen.floor
        if floor is None or ctx.machine.driver or ctx.machine.driver_cuda or ctx.machine.jetson:
            return ()
        other = choose(
            ctx,
            lambda release, build: (
                self.admit(release, build) and build.floor is not None and numbers(build.floor) < numbers(floor)
            ),
        )
        if other is None:
            return ()
        return (self.bare(ctx, other, f"if the driver is older than {floor} (it takes >= {other.build.floor})"),)

    # -- and one that does not -----------------------------------------------------------------------------------------

    def cannot(self, ctx: Context, *, alone: bool) -> Plan:
        """No build does: the smallest set of blockers, the way out, and what would do instead."""
        blockers = impossible.blockers(self, ctx)
        others = [] if alone else instead.alternatives(self, ctx)
        return impossible.answer(blockers, self.machine, tuple(others))

    def after_repair(self, device: str) -> Plan:
        """The GPU is there and cannot be used: that first, then what to install once it can, and the CPU by its name."""
        troubles = [t for t in self.machine.trouble if t.device == device]
        found: list[Blocker] = [impossible.blocker_of(t, self) for t in troubles]
        hopeless = any(t.kind == "no-common-driver" for t in troubles)
        driver = next((t.driver for t in troubles if t.driver), None)
        others = [] if hopeless else [self._repaired(device, driver, troubles[0])]
        later = [p for p in others if p.status == "ok"]
        for failed in (p for p in others if p.status != "ok"):
            # A driver is not worth its trouble where no build would have code for the card.
            found = (
                [*failed.blockers] if any(b.kind == "gpu-code" for b in failed.blockers) else [*found, *failed.blockers]
            )
        if hopeless:
            later += instead.alternatives(self, self.context(device, replace(self.machine, trouble=(), driver=None)))
        else:
            later += instead.cpu_alternative(self, device)
        return impossible.answer(found, self.machine, tuple(later))

    def _repaired(self, device: str, driver: str | None, trouble: Trouble) -> Plan:
        machine = self.machine.repaired(driver)
        if trouble.kind == "rosetta":
            machine = replace(machine, arch="arm64", rosetta=False)
        made = self.for_device(device, machine, alone=True)
        if made.status == "ok" and device == "cuda" and driver is None:
            ctx = self.context(device, machine)
            chosen = choose(ctx, self.admit)
            older = self._for_older_driver(ctx, chosen.build) if chosen else ()
            made = msgspec.structs.replace(made, alternatives=older)
        return msgspec.structs.replace(made, condition=trouble.after)


def _rocm_gap(build: Build, machine: Machine) -> list[str]:
    """The wheels bring their ROCm; the kernel driver is the system's, and AMD promises the pair for about a year."""
    ours, theirs = build.variant.rocm, machine.rocm
    if ours is None or not theirs or numbers(ours)[:1] == numbers(theirs)[:1]:
        return []
    return [
        f"The build brings ROCm {ours}, the system's is {theirs}: if the GPU is not found, update the amdgpu driver."
    ]


def _compiles(build: Build, python: str) -> bool:
    limit = build.release.compile_python_max
    if limit is None:
        return True
    if python.endswith("t") and not build.release.compile_free_threaded:
        return False
    return at_least(limit, python.rstrip("t"))
