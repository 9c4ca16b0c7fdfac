"""Which build of torch a file's pin leads to on a system: the question behind "cpu against cu128"."""

from __future__ import annotations

import re
from dataclasses import dataclass

from envcheck.envfiles.from_installed import marker_environment
from envcheck.envfiles.model import variant_of_index
from envcheck.envfiles.read import Want, Wanted
from envcheck.facts import Facts
from envcheck.matrix import Matrix
from envcheck.matrix.versions import cuda_of_variant


@dataclass(frozen=True)
class System:
    """What markers and wheels are chosen by; None = not known."""

    os: str | None
    machine: str | None
    python: str | None
    """ "3.12.4" or "3.12"."""

    @property
    def minor(self) -> str | None:
        """ "3.12"."""
        return ".".join(self.python.split(".")[:2]) if self.python else None


def system_of(wanted: Wanted, facts: Facts) -> System:
    """The system that a file is for: of a Dockerfile it is Linux, of a pixi.toml for one platform that one."""
    python = facts.python.version
    if wanted.format == "dockerfile":
        return System("linux", "x86_64", None)
    if len(wanted.platforms) == 1:
        name, _, machine = wanted.platforms[0].partition("-")
        os = {"linux": "linux", "win": "windows", "osx": "macos"}.get(name)
        return System(os, {"64": "x86_64"}.get(machine, machine), python)
    return System(facts.system.os, facts.python.machine or facts.system.machine, python)


def active(wanted: Wanted, system: System) -> tuple[Want, ...]:
    """What the file asks for on this system. A marker that cannot be evaluated counts as true."""
    return tuple(w for w in wanted.packages if not w.marker or holds(w.marker, system))


def holds(marker: str, system: System) -> bool:
    """Whether a marker is true there; what is not known about the system counts as fitting."""
    from packaging.markers import InvalidMarker, Marker

    if system.os is None or system.machine is None:
        return True
    minor = system.minor or "3.12"
    environment = marker_environment(system.os, system.machine, minor)
    environment["python_full_version"] = (
        system.python if system.python and system.python.count(".") > 1 else f"{minor}.0"
    )
    try:
        return Marker(marker).evaluate(environment)
    except (InvalidMarker, ValueError):
        return True


def exact_version(want: Want) -> str | None:
    """The one version that is asked for, without a build; None for ranges."""
    match = re.fullmatch(r"={1,3}(\d[\w.]*?)(?:\.\*)?", want.spec.replace(" ", ""))
    return match[1] if match else None


def index_of(want: Want, wanted: Wanted, system: System) -> tuple[str, str] | None:
    """(option, address) of PyTorch's index that answers for a package; None = none is named."""
    for url, marker in want.sources:
        if not marker or holds(marker, system):
            return "source", url
    lines = [i for i in wanted.indexes if variant_of_index(i.url) and i.group == want.group]
    return (lines[-1].option, lines[-1].url) if lines else None


def variant_of(want: Want, wanted: Wanted, system: System, matrix: Matrix) -> str | None:
    """The build that a pin of torch leads to: "cu128", "cpu" ...; None = not known."""
    if want.manager == "conda":
        return _conda_variant(want, wanted)
    if want.label:
        return want.label
    named = index_of(want, wanted, system)
    version = exact_version(want)
    place = (system.os, system.machine)
    if want.url or version is None or place[0] is None or place[1] is None:
        return variant_of_index(named[1]) if named else None
    plain = matrix.pypi_variant(version, place[0], place[1]) if want.name == "torch" else None
    if named is None:
        return None if any(i.group == want.group for i in wanted.indexes) else plain
    variant = variant_of_index(named[1]) or ""
    if system.os == "macos":
        return plain
    if named[0] == "--extra-index-url" and matrix.release(version) is not None and want.name == "torch":
        # The index's version carries a label, which pip holds for newer; without one there PyPI answers.
        return variant if matrix.variant(version, variant, place[0], place[1]) else plain
    return variant


def _conda_variant(want: Want, wanted: Wanted) -> str | None:
    """From a build string, or from the packages that choose a build beside it."""
    for name in ("cuda-version", "pytorch-cuda", "cudatoolkit"):
        for other in wanted.wants(name):
            version = re.search(r"(\d+\.\d+)", other.spec)
            if version and not want.build.startswith("cpu"):
                return "cu" + version[1].replace(".", "")
    if wanted.wants("cpuonly") or re.match(r"cpu|.*_cpu", want.build):
        return "cpu"
    joined = re.match(r"(?:gpu_)?cuda(\d{2})(\d)(?!\d)", want.build) or re.search(r"cuda_?(\d+)\.(\d)", want.build)
    return f"cu{joined[1]}{joined[2]}" if joined else "cuda" if "cuda" in want.build else None


def same_build(wanted: str, found: str) -> bool:
    """ "cuda" stands for any CUDA build."""
    if wanted == "cuda":
        return cuda_of_variant(found) is not None
    return wanted == found
