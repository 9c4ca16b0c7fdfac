"""What a row means: frozen objects. None = unknown; "" or () = known to be none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from envcheck.matrix.versions import cuda_of_variant, final

FROM_INDEX = "the package index"
"""Source of the rows that `envcheck matrix update` makes."""

INDEX = "https://download.pytorch.org/whl/"


class Fact(msgspec.Struct, frozen=True, kw_only=True):
    """Base of every row: where it was seen, when it was checked, and how sure it is."""

    source: str
    checked: str
    confidence: str
    """"read" | "derived" | "recalled"."""

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        document = msgspec.to_builtins(self)
        assert isinstance(document, dict)
        return document


class Requirement(Fact, frozen=True, kw_only=True):
    """One Requires-Dist of the wheel that PyPI has for a platform."""

    release: str
    os: str
    machine: str
    package: str
    extras: tuple[str, ...]
    specifier: str
    """"==9.10.2.21"; "" = any version."""
    marker: str


class Wheel(Fact, frozen=True, kw_only=True):
    """The wheels of one release that PyPI has for one platform."""

    release: str
    os: str
    machine: str
    variant: str
    """What it was built for: "cu128", "cpu", "mps"."""
    version: str
    """torch.__version__ inside: "2.8.0+cu128"."""
    pythons: tuple[str, ...]
    tags: tuple[str, ...]
    min_os: str | None
    """Linux: lowest glibc; macOS: lowest macOS; None where there is no such floor."""
    requires_python: str | None
    uploaded: str

    @property
    def cuda(self) -> str | None:
        """CUDA of the build, None when it has none."""
        return cuda_of_variant(self.variant)


class Release(Fact, frozen=True, kw_only=True):
    """A torch release at a glance."""

    version: str
    released: str
    status: str
    """"confirmed", or "partial": what the wheel index holds for it is not all known."""
    python_min: str | None
    python_max: str | None
    free_threaded: tuple[str, ...]
    """("3.13t", "3.14t")."""
    torchvision: str | None
    """The version that belongs to it."""
    torchaudio: str | None
    triton_linux: str | None
    """"3.4.0", or a specifier such as "~=3.8.0"."""
    cudnn: str | None
    """That the PyPI CUDA wheel asks for."""
    nccl: str | None
    setuptools_req: str | None
    """"<82", ">=77.0.3"; "" = any version; None = the wheel asks for none."""
    setuptools_marker: str | None
    mps_min_macos: str | None
    glibc_x86_64: str | None
    glibc_aarch64: str | None
    numpy2: dict[str, bool | None]
    """os -> built so that NumPy 2 works."""
    compile_python_max: str | None
    """Newest Python that torch.compile accepts; None = no torch.compile or unknown."""
    compile_free_threaded: str | None
    """Lowest free-threaded CPython that torch.compile accepts; "" = none; None = unknown."""
    compile_windows: bool | None
    notes: str

    @property
    def confirmed(self) -> bool:
        """False when its list of builds is not all known."""
        return self.status == "confirmed"

    @property
    def from_index(self) -> bool:
        """Not shipped with envcheck: `envcheck matrix update` found it on the user's package index."""
        return self.source == FROM_INDEX


class Variant(Fact, frozen=True, kw_only=True):
    """One build of a release for one platform."""

    release: str
    name: str
    """"cu128" | "cpu" | "rocm6.4" | "xpu" | "mps"."""
    os: str
    machine: str
    toolkit: str | None
    """CUDA toolkit it was built with, patch level where known: "12.8.1"."""
    cudnn: str | None
    status: str
    """"advertised" (install page) | "index-only" (exists, not advertised) | "unconfirmed"."""
    pythons: tuple[str, ...] | None
    """Only where they differ from those of the PyPI wheel."""
    on_pypi: bool
    """Plain `pip install torch` on that platform gives this one."""
    notes: str

    @property
    def cuda(self) -> str | None:
        """CUDA of the build, None when it has none."""
        return cuda_of_variant(self.name)

    @property
    def rocm(self) -> str | None:
        """ROCm of the build, None when it has none."""
        return self.name.removeprefix("rocm") if self.name.startswith("rocm") else None

    @property
    def index_url(self) -> str | None:
        """The wheel index that holds it; None on macOS and for releases before 1.8, which no such index serves."""
        if self.os == "macos" or self.find_links:
            return None
        return INDEX + _INDEX_FOLDER.get(self.release, "") + self.name

    @property
    def find_links(self) -> str | None:
        """The page of wheels for `pip install -f`, only for releases before 1.8."""
        old = self.release.startswith("0.") or self.release in _BEFORE_INDEX
        return INDEX + "torch_stable.html" if old and self.os != "macos" else None


_INDEX_FOLDER = {"1.8.2": "lts/1.8/"}
"""Releases whose index is not at the usual place (the long-term release)."""
_BEFORE_INDEX = frozenset(f"1.{minor}.{patch}" for minor in range(8) for patch in range(3))


class ArchList(Fact, frozen=True, kw_only=True):
    """The GPU code in one build."""

    release: str
    variant: str
    os: str
    machine: str
    sass: tuple[str, ...]
    """("sm_80", "sm_90")."""
    ptx: tuple[str, ...] | None
    """("compute_90",); () = known to be none; None = unknown."""
    notes: str

    @property
    def names(self) -> tuple[str, ...]:
        """SASS and PTX in one list, as torch.cuda.get_arch_list() gives them."""
        return self.sass + (self.ptx or ())


class Pin(Fact, frozen=True, kw_only=True):
    """A published version of torchvision, torchaudio or triton, and the torch it says it needs."""

    package: str
    version: str
    released: str
    requires_torch: str | None
    """Specifier in its own metadata; None = it declares none."""
    fits_torch: str | None
    """The torch it really works with, where the metadata says less."""
    requires_python: str | None
    pythons: tuple[str, ...]
    platforms: tuple[str, ...]
    notes: str


class Companion(msgspec.Struct, frozen=True, kw_only=True):
    """What belongs beside one torch release."""

    package: str
    torch: str
    version: str | None
    """The version to install; None = the tables do not know one."""
    specifier: str | None = None
    """torch's own requirement on it (triton)."""
    check: Callable[[str], bool | None]

    def accepts(self, version: str) -> bool | None:
        """True when that version goes with this torch, False when it does not, None when the tables cannot tell."""
        public = final(version)
        return self.check(public) if public else None


class Toolkit(Fact, frozen=True, kw_only=True):
    """One CUDA toolkit release and the drivers it shipped with."""

    cuda: str
    update: str
    version: str | None
    """"12.8.1", where torch or nvcc shows a patch level."""
    driver_linux: str | None
    driver_windows: str | None
    notes: str


class Floor(Fact, frozen=True, kw_only=True):
    """Lowest driver of a CUDA major (minor-version compatibility, from CUDA 11)."""

    cuda_major: int
    os: str
    driver: str
    warn_from: str | None
    """From here to `driver` it may work: warn, do not fail."""
    notes: str


class Branch(Fact, frozen=True, kw_only=True):
    """A driver branch and the CUDA that nvidia-smi shows for it."""

    branch: int
    cuda: str
    windows_from: int | None
    windows_to: int | None
    notes: str


class Architecture(Fact, frozen=True, kw_only=True):
    """One compute capability."""

    compute_capability: str
    name: str
    """"Blackwell"."""
    first_cuda: str | None
    last_cuda: str | None
    """None = still supported by the newest toolkit in the tables."""
    min_driver_branch: int | None
    last_driver_branch: int | None
    open_kernel_modules: str
    """"unsupported" | "optional" | "required" | "jetson"."""
    notes: str


class GpuModel(msgspec.Struct, frozen=True, kw_only=True):
    """What a GPU name means."""

    name: str
    compute_capability: str | None
    """None when the name is shared by several chips: see candidates."""
    candidates: tuple[str, ...]
    architecture: str | None
    segment: str | None = None
    """"consumer" | "laptop" | "workstation" | "data center" | "embedded"."""
    min_driver_branch: int | None = None
    first_listed_driver: str | None = None
    """First driver whose documentation names the board: an upper bound of the real minimum."""
    last_driver_branch: int | None = None
    open_kernel_modules: str | None = None
    exact: bool
    """The table names this very board; False = by a rule or the chip."""
    source: str = ""
    confidence: str


class Coverage(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a build has code that a GPU can run."""

    kind: str
    """"sass" | "ptx" | "ptx-driver-too-old" | "none" | "unknown"."""
    by: str | None = None
    """The entry that covers it: "sm_86", "compute_90"."""
    reason: str

    @property
    def runs(self) -> bool | None:
        """True, False, or None when it cannot be told."""
        return {"sass": True, "ptx": True, "ptx-driver-too-old": False, "none": False}.get(self.kind)


class CudnnFloor(Fact, frozen=True, kw_only=True):
    """Lowest compute capability that cuDNN supports from a version on."""

    cudnn_from: str
    compute_capability_min: str
    notes: str


class CondaBuild(Fact, frozen=True, kw_only=True):
    """One CUDA variant of one pytorch release on a conda channel."""

    channel: str
    """"pytorch" (ended with 2.5.1) | "conda-forge"."""
    release: str
    cuda: str
    """"12.9"; "" = the CPU (on macOS the MPS) build."""
    platforms: tuple[str, ...]
    """("linux-x86_64", "linux-aarch64")."""
    cudnn: str | None
    sass: tuple[str, ...]
    ptx: tuple[str, ...] | None
    """() = known to be none; None = unknown."""
    notes: str


class JetPack(Fact, frozen=True, kw_only=True):
    """A JetPack release."""

    version: str
    """"6.2"."""
    l4t: str
    """The L4T it begins with: "36.4.3"."""
    cuda: str | None
    cudnn: str | None
    python: str | None
    """Of its Ubuntu."""
    ubuntu: str | None
    devices: tuple[str, ...]
    compute_capabilities: tuple[str, ...]
    torch_index: str | None
    """A wheel index for `--index-url`; None where wheels are single files."""
    torch: str
    """Where its torch wheels come from, in words."""


class RocmArchs(Fact, frozen=True, kw_only=True):
    """gfx targets in the ROCm builds of a span of releases."""

    torch_from: str
    torch_to: str | None
    """None = and newer."""
    rocm_from: str
    rocm_to: str
    gfx: tuple[str, ...]
    notes: str


class AmdArch(Fact, frozen=True, kw_only=True):
    """An AMD target."""

    gfx: str
    family: str
    """"RDNA 3"."""
    override: str | None
    """HSA_OVERRIDE_GFX_VERSION that people use for it: unsupported by AMD."""
    notes: str


class AmdModel(msgspec.Struct, frozen=True, kw_only=True):
    """What an AMD GPU name means."""

    name: str
    gfx: str | None
    """None when the name is shared by several targets: see candidates."""
    candidates: tuple[str, ...]
    kind: str | None
    """"dgpu" | "apu" | "accelerator"."""
    exact: bool
    source: str
    confidence: str


class KnownBad(Fact, frozen=True, kw_only=True):
    """Versions of a package that are known not to work, and with what."""

    id: str
    package: str
    versions: str
    """Specifier; "none" = when it is not installed."""
    torch: str
    """Specifier; "" = any."""
    os: tuple[str, ...]
    """() = any."""
    python: str
    """Specifier; "" = any."""
    effect: str
    """"import" | "build" | "solve" | "install" | "run"."""
    why: str
    fix: str


class PlatformFact(Fact, frozen=True, kw_only=True):
    """One fact about a platform, with the value that code may use."""

    id: str
    platforms: tuple[str, ...]
    torch_from: str | None
    torch_to: str | None
    value: str
    fact: str
