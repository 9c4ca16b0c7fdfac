"""What is installed as the content of a file."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import unquote, urlparse

from envcheck.envfiles.from_plan import SERVED, platform
from envcheck.envfiles.installed import CondaItem, Installed, Item
from envcheck.envfiles.made_for import header
from envcheck.envfiles.model import Environment, Package, Platform, compatible, normalise, of_family
from envcheck.errors import UsageError
from envcheck.facts import Facts
from envcheck.matrix import Matrix
from envcheck.matrix.versions import cuda_of_variant

INDEX = "https://download.pytorch.org/whl/"
TOOLS = ("pip", "wheel", "setuptools", "uv", "distribute")
"""Part of every environment, of no project; listed only where another package asks for one."""
_BUILD = re.compile(r"cpu|xpu|cu\d{2,3}|rocm[\d.]+")
_LINUX_ONLY = re.compile(r"nvidia-|triton$|cuda-(?:toolkit|bindings|pathfinder)$|pytorch-triton")


@dataclasses.dataclass(frozen=True)
class Choices:
    """How much is written and how tightly."""

    minimal: bool = False
    """Only what somebody asked for."""
    exact: bool = True
    hashes: bool = False
    conda: bool = False
    """The kind of file can name conda packages."""


def environment(
    installed: Installed, facts: Facts, matrix: Matrix, *, name: str, choices: Choices, project: Path
) -> Environment:
    """What is there, torch's build with the index that serves it.

    Raises:
        UsageError: the environment has no package at all.
    """
    version = facts.python.version
    if version is None or not (installed.distributions or installed.conda):
        raise UsageError("nothing is installed there that could be written down")
    os, machine = facts.system.os or "linux", facts.python.machine or facts.system.machine or "x86_64"
    python = ".".join(version.split(".")[:2])
    reader = _Reader(installed, matrix, os, machine, python, choices, project)
    packages, conda = reader.packages(), reader.conda_packages()
    torch, variant = reader.build()
    floor = (
        matrix.driver_floor(cuda_of_variant(variant) or "", "windows" if facts.system.wsl else os) if variant else None
    )
    build = f"torch {torch}" + (f" ({variant})" if variant else "") if torch else "no torch"
    made = Environment(
        name=name,
        python=python,
        packages=packages,
        conda=conda,
        channels=reader.channels(conda) if conda else ("conda-forge",),
        os=os,
        machine=machine,
        torch=torch,
        variant=variant,
        cuda=cuda_of_variant(variant) if variant else None,
        driver=floor,
        header=header(facts, matrix, source=f"what is installed (Python {version})", build=build, driver=floor),
        warnings=tuple(reader.warnings),
        complete=not choices.minimal,
    )
    return dataclasses.replace(made, platforms=_platforms(made, matrix))


def _platforms(made: Environment, matrix: Matrix) -> tuple[Platform, ...]:
    """Its own system; others too when it names only what somebody asked for: a full list belongs to one system."""
    torch = next((p for p in made.packages if p.name == "torch"), None)
    own = Platform(made.os, made.machine, made.variant, torch.index if torch else None)
    if made.complete or torch is None:
        return (own,)
    found = [platform(made, *place, matrix) for place in SERVED if place != (made.os, made.machine)]
    return (own, *(p for p in found if p))


class _Reader:
    """One pass over the list."""

    def __init__(
        self, installed: Installed, matrix: Matrix, os: str, machine: str, python: str, choices: Choices, project: Path
    ) -> None:
        self.installed, self.matrix, self.choices, self.project = installed, matrix, choices, project
        self.os, self.machine, self.python = os, machine, python
        self.warnings: list[str] = []
        self.needed = needed(installed.distributions, os, machine, python)

    def build(self) -> tuple[str, str]:
        """Version and build of torch: ("2.8.0", "cu128"); "" = there is none, or the build is not known."""
        file, item = self.installed.torch, self.installed.item("torch")
        full = (item.version if item else None) or (file.version if file else None) or ""
        record = self.installed.record("pytorch") or self.installed.record("libtorch")
        public = full.partition("+")[0] or (record.version if record else "")
        return public, torch_build(self.installed, self.matrix, self.os, self.machine)

    def packages(self) -> tuple[Package, ...]:
        items = [i for i in self.installed.distributions if not (self.choices.conda and i.conda)]
        items = [i for i in items if i.name not in TOOLS or i.name in self.needed]
        asked = {i.name for i in items if i.requested and i.name not in TOOLS}
        self._outside(items)
        taken_over = [i.name for i in items if i.conda]
        if taken_over:
            self.warnings.append(
                f"{len(taken_over)} packages are conda's; this file asks PyPI for the same versions, which are other "
                "builds (kind conda keeps them)."
            )
        made = []
        for item in sorted(items, key=lambda i: (not of_family(i.name), i.name)):
            direct = item.name in asked if asked else item.name not in self.needed
            direct = direct or item.directory or item.editable or item.name == "torch"
            if direct or not self.choices.minimal:
                made.append(self._package(item, direct=direct))
        self._hashes(made)
        return tuple(made)

    def _outside(self, items: Iterable[Item]) -> None:
        outside = sorted(i.name for i in items if i.site in ("user", "pythonpath"))
        if outside:
            self.warnings.append(
                f"From outside of the environment (user site or PYTHONPATH), written all the same: {', '.join(outside[:12])}"
                + (f" and {len(outside) - 12} more." if len(outside) > 12 else ".")
            )

    def _package(self, item: Item, *, direct: bool) -> Package:
        hashes = (
            tuple(f"{k}:{v}" for k, v in sorted(item.hashes.items()) if k == "sha256") if self.choices.hashes else ()
        )
        if item.url:
            return self._direct_reference(item, hashes, direct=direct)
        version = item.version or ""
        public, _, label = version.partition("+")
        linux = "sys_platform == 'linux'" if self.os == "linux" and _LINUX_ONLY.match(item.name) else ""
        index, note = None, ""
        if label:
            index, note = self._index_of(item.name, public, label)
        elif item.name == "torch":
            index = self._unlabelled_index(public)
        exact = self.choices.exact or of_family(item.name) or bool(label)
        spec = (f"=={public}" if exact else compatible(public)) if public else ""
        if not public:
            self.warnings.append(f"{item.name}: its metadata has no version, so none is pinned.")
        return Package(item.name, spec, index=index, label=label, marker=linux, hashes=hashes, direct=direct, note=note)

    def _index_of(self, name: str, public: str, label: str) -> tuple[str | None, str]:
        build = label.partition(".")[0] if not label.startswith("rocm") else label
        if _BUILD.fullmatch(build) and (of_family(name) or name.startswith(("pytorch-triton", "torch"))):
            if "dev" in public:
                return f"{INDEX}nightly/{build}", ""
            known = self.matrix.index_url(build, public) if name == "torch" else None
            return known or INDEX + build, ""
        self.warnings.append(
            f"{name} {public}+{label} is a build that no index serves (built from source, or from a vendor's image): "
            "the file pins its version as it is; keep the wheel."
        )
        return None, "on no index"

    def _unlabelled_index(self, public: str) -> str | None:
        """torch.org's index of a wheel that carries its build only inside, when it is not the one of PyPI."""
        build = torch_build(self.installed, self.matrix, self.os, self.machine)
        plain = self.matrix.pypi_variant(public, self.os, self.machine)
        variant = self.matrix.variant(public, build, self.os, self.machine) if build and build != plain else None
        return variant.index_url if variant is not None and not variant.on_pypi else None

    def _direct_reference(self, item: Item, hashes: tuple[str, ...], *, direct: bool) -> Package:
        url = item.url or ""
        if item.vcs and item.commit:
            tail = f"#subdirectory={item.subdirectory}" if item.subdirectory else ""
            self.warnings.append(
                f"{item.name} comes from a repository ({item.vcs}, commit {item.commit[:12]}): kept so."
            )
            return Package(item.name, url=f"{item.vcs}+{url}@{item.commit}{tail}", direct=direct)
        if item.editable or item.directory:
            path = _path(url)
            inside = _relative(path, self.project)
            kind = "an editable installation of" if item.editable else "built from"
            self.warnings.append(
                f"{item.name} is {kind} the folder {inside}: only this machine has it, so keep its code."
            )
            return Package(item.name, url=inside, editable=item.editable, direct=direct)
        digest = item.hashes.get("sha256")
        if url.startswith("file:"):
            self.warnings.append(
                f"{item.name} was installed from a file of this machine ({Path(_path(url)).name}): keep it."
            )
        return Package(item.name, url=url + (f"#sha256={digest}" if digest else ""), hashes=hashes, direct=direct)

    def _hashes(self, packages: list[Package]) -> None:
        if not self.choices.hashes:
            return
        with_hash = [p for p in packages if p.hashes]
        if len(with_hash) == len(packages):
            return
        # pip refuses a file in which some requirements have hashes and others have not.
        packages[:] = [dataclasses.replace(p, hashes=()) for p in packages]
        self.warnings.append(
            f"No hashes: of {len(packages)} packages {len(with_hash)} have the hash of their archive on record "
            "(installers note it only for direct addresses, RECORD holds those of single files). With the index at hand: "
            "uv pip compile --generate-hashes requirements.txt"
        )

    # -- conda ---------------------------------------------------------------------------------------------------------

    def conda_packages(self) -> tuple[Package, ...]:
        records = [r for r in self.installed.conda or () if r.channel != "pypi"] if self.choices.conda else []
        asked = {r.name for r in records if r.requested}
        below = {word.split()[0] for r in records for word in r.depends if word.split()}
        made = []
        for record in sorted(records, key=lambda r: (r.name != "python", not of_family(r.name), r.name)):
            direct = record.name in asked if asked else record.name not in below
            if record.name == "python" or not (direct or not self.choices.minimal):
                continue
            made.append(self._conda_package(record, direct=direct))
        return tuple(made)

    def _conda_package(self, record: CondaItem, *, direct: bool) -> Package:
        if not self.choices.exact:
            if of_family(record.name):
                build = re.match(r"(cuda|cpu)", record.build)
                return Package(record.name, f"={record.version}", build=f"{build[1]}*" if build else "", direct=direct)
            return Package(record.name, compatible(record.version), direct=direct)
        return Package(record.name, f"={record.version}", build=record.build, channel=_channel(record), direct=direct)

    def channels(self, packages: Iterable[Package]) -> tuple[str, ...]:
        names = {p.name for p in packages}
        used = {_channel(r) for r in self.installed.conda or () if r.name in names} - {""}
        first = [c for c in ("pytorch", "nvidia") if c in used]
        last = [c for c in ("conda-forge", "defaults") if c in used]
        return (*first, *sorted(used - {*first, *last}), *last) or ("conda-forge",)


def _channel(record: CondaItem) -> str:
    name = record.channel or ""
    return "" if name == "pypi" else "defaults" if name.startswith("pkgs/") else name


def torch_build(installed: Installed, matrix: Matrix, os: str, machine: str) -> str:
    """The build of torch as an index calls it: "cu128" | "cpu" | "rocm6.4" | "xpu" | "mps"; "" = not known."""
    file, item = installed.torch, installed.item("torch")
    for full in ((file.version if file else None), (item.version if item else None)):
        label = (full or "").partition("+")[2]
        match = re.match(r"(cu\d{2,3}|cpu|rocm[\d.]+|xpu)(?![a-z0-9])", label)
        if match:
            return match[1]
    if os == "macos" and machine == "arm64" and (file or item):
        return "mps"
    if file is not None and file.cuda:
        return "cu" + file.cuda.replace(".", "")
    if file is not None and file.hip:
        return "rocm" + ".".join(file.hip.split(".")[:2])
    if file is not None and file.cuda == "" and not file.xpu:
        return "cpu"
    return (matrix.pypi_variant(item.version, os, machine) or "") if item and item.version and not item.conda else ""


def needed(items: Iterable[Item], os: str, machine: str, python: str) -> set[str]:
    """Names that some installed package asks for on this system."""
    by_name = {item.name: item for item in items}
    return closure(by_name, by_name, os, machine, python, transitive=False)


def closure(
    by_name: dict[str, Item], roots: Iterable[str], os: str, machine: str, python: str, *, transitive: bool = True
) -> set[str]:
    """What the roots ask for, and with `transitive` what that asks for in turn; the roots only where one asks for them."""
    found: set[str] = set()
    left = [(name, frozenset[str]()) for name in roots]
    done = set(left)
    while left:
        name, extras = left.pop()
        item = by_name.get(name)
        for wanted, parts in requirements_of(item, os, machine, python, extras) if item else ():
            found.add(wanted)
            if (transitive or parts) and (wanted, parts) not in done:
                done.add((wanted, parts))
                left.append((wanted, parts))
    return found


def requirements_of(
    item: Item, os: str, machine: str, python: str, extras: frozenset[str] = frozenset()
) -> list[tuple[str, frozenset[str]]]:
    """What one package asks for on this system, and of it which optional parts."""
    from packaging.requirements import InvalidRequirement, Requirement

    found = []
    for text in item.requires:
        try:
            wanted = Requirement(text)
        except InvalidRequirement:
            continue
        asked = [marker_environment(os, machine, python, extra) for extra in ("", *extras)]
        if wanted.marker is None or any(wanted.marker.evaluate(values) for values in asked):
            found.append((normalise(wanted.name), frozenset(wanted.extras)))
    return found


def marker_environment(os: str, machine: str, python: str, extra: str = "") -> dict[str, str]:
    """The values that environment markers are compared with, of the Python under test."""
    return {
        "extra": extra,
        "sys_platform": {"linux": "linux", "windows": "win32", "macos": "darwin"}.get(os, os),
        "platform_system": {"linux": "Linux", "windows": "Windows", "macos": "Darwin"}.get(os, os),
        "os_name": "nt" if os == "windows" else "posix",
        "platform_machine": "AMD64" if os == "windows" and machine == "x86_64" else machine,
        "python_version": python,
        "python_full_version": python if python.count(".") > 1 else f"{python}.0",
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
    }


def _path(url: str) -> str:
    if not url.startswith("file:"):
        return url
    path = unquote(urlparse(url).path)
    return path[1:] if re.match(r"/[A-Za-z]:", path) else path


def _relative(path: str, project: Path) -> str:
    try:
        inside = Path(path).resolve().relative_to(project.resolve()).as_posix()
    except ValueError:
        return path
    return "." if inside == "." else f"./{inside}"
