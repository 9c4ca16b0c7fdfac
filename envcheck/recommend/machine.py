"""Facts as the planner needs them: the platform that wheels are chosen for, the GPUs, the driver, and what is broken."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache

from envcheck.facts import Facts, PciDevice
from envcheck.matrix import Matrix
from envcheck.matrix.versions import numbers

LTS_BRANCH = 580
"""The long-lived driver branch that still drives every card from Maxwell on."""

NVIDIA, AMD, INTEL = "10de", "1002", "8086"

# GPUs inside AMD processors: nobody bought them to train on, so an unsupported one is a remark, not a verdict.
_AMD_INTEGRATED = frozenset({
    "gfx902", "gfx909", "gfx90c", "gfx1033", "gfx1035", "gfx1036", "gfx1037", "gfx1103", "gfx1150", "gfx1151",
    "gfx1152", "gfx1153",
})  # fmt: skip
# Names of the Intel GPUs that the XPU builds are made for (docs.pytorch.org notes/get_start_xpu): Arc A and B, Core
# Ultra graphics, Data Center Max and Flex. Older integrated graphics (UHD, Iris) are not among them.
_XPU_NAMES = (
    "arc", "dg2", "alchemist", "battlemage", "bmg", "lunar lake", "meteor lake", "arrow lake", "panther lake",
    "data center gpu max", "data center gpu flex", "ponte vecchio",
)  # fmt: skip


@dataclass(frozen=True)
class Card:
    """One NVIDIA GPU. capabilities: () = unknown, several = the name is shared by several chips."""

    name: str
    capabilities: tuple[str, ...] = ()
    segment: str | None = None

    @property
    def capability(self) -> str | None:
        """The compute capability where it is certain."""
        return self.capabilities[0] if len(self.capabilities) == 1 else None

    def __str__(self) -> str:
        return f"{self.name} (compute capability {self.capability})" if self.capability else self.name


@dataclass(frozen=True)
class AmdCard:
    """One AMD GPU. gfx: () = unknown, several = the name is shared by several targets."""

    name: str
    gfx: tuple[str, ...] = ()
    integrated: bool = False

    def __str__(self) -> str:
        return f"{self.name} ({self.gfx[0]})" if len(self.gfx) == 1 and self.gfx[0] not in self.name else self.name


@dataclass(frozen=True)
class Trouble:
    """A GPU that is there and cannot be used, whatever is installed in Python."""

    kind: str
    text: str
    way_out: str
    commands: tuple[str, ...] = ()
    driver: str | None = None
    """The driver that will run once it is mended, where that is known."""
    device: str = "cuda"
    after: str = "once the driver runs"
    """When a build for the GPU is the right one."""


@dataclass(frozen=True)
class Machine:
    """Everything the checks look at. None = unknown, as in Facts."""

    os: str | None = None
    arch: str | None = None
    """Of the interpreter: what a wheel must be for."""
    system_arch: str | None = None
    os_version: str | None = None
    libc: str | None = None
    glibc: str | None = None
    wsl: bool = False
    container: bool = False
    rosetta: bool = False
    jetson: bool = False
    l4t: str | None = None
    cards: tuple[Card, ...] | None = None
    """NVIDIA GPUs; None = nobody knows, () = known to be none."""
    driver: str | None = None
    driver_cuda: str | None = None
    assumed: bool = False
    """The driver is not the one that runs now, but the one that will."""
    trouble: tuple[Trouble, ...] = ()
    amd: tuple[AmdCard, ...] = ()
    rocm: str | None = None
    xpu: tuple[str, ...] = ()
    chip: str | None = None
    python: str | None = None
    """"3.12", "3.13t"."""
    python_full: str | None = None
    bits: int | None = None
    implementation: str | None = None
    installed: dict[str, str] = field(default_factory=dict)
    """torch and its family: name -> version with the local label."""
    live: bool = False

    @property
    def driver_os(self) -> str:
        """Whose driver numbers count: under WSL the Windows host's."""
        return "windows" if self.wsl or self.os == "windows" else "linux"

    @property
    def amd_integrated(self) -> bool:
        """Every AMD GPU that is known is part of a processor."""
        return bool(self.amd) and all(card.integrated for card in self.amd)

    def repaired(self, driver: str | None) -> Machine:
        """The same machine once its driver runs."""
        return replace(self, trouble=(), driver=driver, driver_cuda=None, assumed=True)


def describe(facts: Facts, matrix: Matrix) -> Machine:
    """The planner's view of the facts."""
    system, python = facts.system, facts.python
    cards = _cards(facts, matrix)
    driver = facts.nvidia.driver_version or facts.nvidia.kernel_driver_version
    machine = Machine(
        os=system.os,
        arch=_arch(facts),
        system_arch=system.machine,
        os_version=facts.apple.macos or system.version,
        libc=python.libc or system.libc,
        glibc=system.libc_version if system.libc != "musl" else None,
        wsl=bool(system.wsl),
        container=system.container not in (None, "none"),
        rosetta=bool(system.rosetta) or (system.os == "macos" and python.machine == "x86_64" and _apple_silicon(facts)),
        jetson=_jetson(facts, cards),
        l4t=system.l4t,
        cards=cards,
        driver=driver,
        driver_cuda=_driver_cuda(facts),
        amd=tuple(_amd(facts, matrix)),
        rocm=facts.amd.rocm_version,
        xpu=tuple(name for name in facts.intel.gpus or () if any(word in name.lower() for word in _XPU_NAMES)),
        chip=facts.apple.chip,
        python=_python(facts),
        python_full=python.version,
        bits=python.bits,
        implementation=python.implementation,
        installed=_installed(facts),
        live=facts.origin == "live",
    )
    from envcheck.recommend.trouble import find

    return replace(machine, trouble=tuple(find(facts, machine, matrix)))


# CUDA of the driver that JetPack 7 brings, by L4T major; older ones run no ordinary wheel at all.
_JETPACK_CUDA = {38: "13.0", 39: "13.2"}


def _driver_cuda(facts: Facts) -> str | None:
    """Highest CUDA of the driver, as it says itself."""
    init = facts.nvidia.cuda_init
    said = facts.nvidia.driver_cuda or (init.driver_version if init else None)
    if said is None and facts.system.l4t:
        return _JETPACK_CUDA.get((numbers(facts.system.l4t) or (0,))[0])
    return said


def _apple_silicon(facts: Facts) -> bool:
    return facts.system.machine == "arm64" or (facts.apple.chip or "").startswith("Apple")


def _arch(facts: Facts) -> str | None:
    arch = facts.python.machine or facts.system.machine
    if arch == "aarch64" and facts.system.os == "macos":
        return "arm64"
    return arch


def _python(facts: Facts) -> str | None:
    parts = numbers(facts.python.version or "")
    if len(parts) < 2:
        return None
    free = facts.python.free_threaded or (facts.python.version or "").endswith("t")
    return f"{parts[0]}.{parts[1]}" + ("t" if free else "")


def _installed(facts: Facts) -> dict[str, str]:
    found = {}
    for name in ("torch", "torchvision", "torchaudio", "triton", "triton-windows"):
        item = facts.distribution(name)
        if item is not None and item.version:
            found[name] = item.version
    if "torch" not in found and facts.torch.version:
        found["torch"] = facts.torch.version
    return found


def _jetson(facts: Facts, cards: tuple[Card, ...] | None) -> bool:
    if facts.system.jetson_model or facts.system.l4t or facts.system.jetpack:
        return True
    return any(card.segment == "embedded" for card in cards or ())


def _cards(facts: Facts, matrix: Matrix) -> tuple[Card, ...] | None:
    """NVIDIA GPUs: as the driver lists them, else torch, else the PCI bus."""
    listed = [(g.name, g.compute_capability) for g in facts.nvidia.gpus or () if g.name or g.compute_capability]
    if not listed and not facts.torch.hip:
        listed = [(d.name, d.compute_capability) for d in facts.torch.devices or () if d.kind == "cuda"]
    if not listed:
        listed = list(_of_pci(facts))
    if listed:
        return tuple(card(name, capability, matrix) for name, capability in listed)
    if facts.nvidia.gpus == () or facts.system.os == "macos":
        return ()
    nothing_on_the_bus = facts.pci is not None and not any(_ours(d) for d in facts.pci)
    return () if nothing_on_the_bus and not facts.system.wsl else None


def _amd(facts: Facts, matrix: Matrix) -> Iterator[AmdCard]:
    """AMD GPUs: as ROCm lists them, else the PCI bus."""
    listed = [(g.name, g.gfx) for g in facts.amd.gpus or ()]
    if not listed:
        listed = [(d.name, None) for d in facts.pci or () if d.vendor_id == AMD and d.name]
    for name, gfx in listed:
        yield amd_card(name, gfx, matrix)


def amd_card(name: str | None, gfx: str | None, matrix: Matrix) -> AmdCard:
    """An AMD card from its name, its gfx target, or both."""
    model = matrix.amd_gpu(name) if name else None
    targets = (gfx.split(":")[0],) if gfx else model.candidates if model else ()
    built_in = model is not None and model.kind == "apu"
    return AmdCard(
        name=name or gfx or "AMD GPU",
        gfx=tuple(targets),
        integrated=built_in or (bool(targets) and all(target in _AMD_INTEGRATED for target in targets)),
    )


def _of_pci(facts: Facts) -> Iterator[tuple[str | None, str | None]]:
    for device in facts.pci or ():
        if _ours(device):
            yield device.name or f"NVIDIA device {device.device_id or '(unnamed)'}", None


def _ours(device: PciDevice) -> bool:
    """An NVIDIA GPU that this system may use: one that is set aside for a virtual machine is none of ours."""
    return device.vendor_id == NVIDIA and device.driver not in ("vfio-pci", "pciback", "xen-pciback")


def card(name: str | None, capability: str | None, matrix: Matrix) -> Card:
    """A card from its name, its compute capability, or both; what the driver said beats the name."""
    model = matrix.gpu(name) if name else None
    known = (capability,) if capability else model.candidates if model else ()
    return Card(
        name=name or f"GPU of compute capability {capability}",
        capabilities=tuple(known),
        segment=model.segment if model else None,
    )


def driver_range(cards: tuple[Card, ...], matrix: Matrix) -> tuple[int | None, int | None]:
    """Oldest and newest driver branch that drives all the cards; None = no bound known."""
    lows, highs = [], []
    for item in cards:
        rows = [row for row in map(matrix.architecture, item.capabilities) if row is not None]
        if rows and all(row.min_driver_branch for row in rows):
            lows.append(min(row.min_driver_branch or 0 for row in rows))
        if rows and all(row.last_driver_branch for row in rows):
            highs.append(max(row.last_driver_branch or 0 for row in rows))
    return (max(lows) if lows else None), (min(highs) if highs else None)


@lru_cache(maxsize=4096)
def nearest(pythons: tuple[str, ...], wanted: str) -> str | None:
    """The Python to change to: the nearest ordinary one that has wheels."""
    ordinary = [p for p in pythons if not p.endswith("t")]
    if not ordinary:
        return None
    here = numbers(wanted)
    above = [p for p in ordinary if numbers(p) >= here]
    return above[0] if above else ordinary[-1]
