"""Does an environment meet a file: what is missing, what differs, what is there besides."""

from __future__ import annotations

import re
from dataclasses import dataclass

from envcheck import installers
from envcheck.envfiles import expected
from envcheck.envfiles.from_installed import TOOLS, closure, torch_build
from envcheck.envfiles.installed import CondaItem, Installed, Item
from envcheck.envfiles.model import FAMILY
from envcheck.envfiles.read import Want, Wanted
from envcheck.envfiles.read.conda import key
from envcheck.facts import Facts
from envcheck.matrix import Matrix
from envcheck.matrix.conda import build_cuda
from envcheck.matrix.versions import cuda_of_variant, numbers

OWN = ("torch-envcheck",)


@dataclass(frozen=True)
class Row:
    """One line of the table. kind: "missing" | "different" | "extra"."""

    kind: str
    name: str
    wanted: str
    found: str


@dataclass(frozen=True)
class Comparison:
    """The rows, and what mends them."""

    rows: tuple[Row, ...]
    commands: tuple[str, ...] = ()
    checked: int = 0
    """Packages that were compared."""

    def same(self, *, strict: bool = False) -> bool:
        """The environment meets the file; `strict`: and has nothing besides."""
        return not [row for row in self.rows if strict or row.kind != "extra"]


def compare(wanted: Wanted, installed: Installed, facts: Facts, matrix: Matrix) -> Comparison:
    """Compares everything that the file names for this system."""
    return _Comparer(wanted, installed, facts, matrix).result()


class _Comparer:
    def __init__(self, wanted: Wanted, installed: Installed, facts: Facts, matrix: Matrix) -> None:
        self.wanted, self.installed, self.facts, self.matrix = wanted, installed, facts, matrix
        self.system = expected.System(
            facts.system.os, facts.python.machine or facts.system.machine, facts.python.version
        )
        self.wants = expected.active(wanted, self.system)
        self.build = torch_build(installed, matrix, self.system.os or "", self.system.machine or "")

    def result(self) -> Comparison:
        rows = [*self._python()]
        for want in self.wants:
            row = self._conda(want) if want.manager == "conda" else self._pip(want)
            if row is not None:
                rows.append(row)
        rows.sort(key=lambda r: (r.name != "python", key(r.name) not in FAMILY, r.kind, r.name))
        extra = [*self._extra()]
        return Comparison((*rows, *extra), self._mend(rows), len(self.wants))

    def _python(self) -> list[Row]:
        found = self.facts.python.version
        if not self.wanted.python or not found or _admits(self.wanted.python, found):
            return []
        return [Row("different", "python", self.wanted.python, found)]

    # -- pip -----------------------------------------------------------------------------------------------------------

    def _pip(self, want: Want) -> Row | None:
        if not want.name:
            return self._nameless(want)
        item = self.installed.item(want.name)
        if item is None:
            return Row("missing", want.name, _said(want), "")
        if want.url:
            return self._reference(want, item)
        version = item.version or ""
        if not _admits(want.spec, version.partition("+")[0]):
            return Row("different", want.name, _said(want), version)
        return self._other_build(want, item)

    def _other_build(self, want: Want, item: Item) -> Row | None:
        """Another build of the same version, such as cpu for cu128."""
        label = (item.version or "").partition("+")[2]
        if want.name != "torch":
            if want.label and label and want.label != label.lower():
                return Row("different", want.name, _said(want), item.version or "")
            return None
        aim = expected.variant_of(want, self.wanted, self.system, self.matrix)
        found = self.build or label
        if not aim or not found or expected.same_build(aim, found):
            return None
        public = (item.version or "").partition("+")[0]
        return Row("different", want.name, f"{_said(want)} ({aim} build)", f"{public} ({found} build)")

    def _reference(self, want: Want, item: Item) -> Row | None:
        """A repository, a folder or an address, as far as the installation records where it came from."""
        if not item.url:
            return Row("different", want.name, want.url, f"{item.version} from an index")
        commit = re.search(r"@([0-9a-f]{7,40})(?:#|$)", want.url)
        if commit and item.commit and not item.commit.startswith(commit[1]):
            return Row("different", want.name, want.url, f"commit {item.commit[:12]}")
        return None

    def _nameless(self, want: Want) -> Row | None:
        """ "-e ." and the like: something was installed from a folder of that name."""
        if self._unnamed(want) is not None:
            return None
        return Row("missing", want.text, want.text, "")

    def _unnamed(self, want: Want) -> Item | None:
        """The distribution that came from an address without a name."""
        tail = want.url.rstrip("/").rsplit("/", 1)[-1].partition("@")[0].partition("#")[0].removesuffix(".git")
        folder = self.wanted.path.resolve().parent.as_uri() if tail in (".", "") else ""
        for item in self.installed.distributions:
            if item.url and (item.url.rstrip("/").endswith(folder or f"/{tail}")):
                return item
        return None

    # -- conda ---------------------------------------------------------------------------------------------------------

    def _conda(self, want: Want) -> Row | None:
        record = self.installed.record(want.name)
        if record is None and want.name in TOOLS and not want.spec:
            return None
        if record is None:
            item = self.installed.item(key(want.name))
            if item is None or item.conda:
                return Row("missing", want.name, _said(want), "")
            return Row("different", want.name, f"{_said(want)} from conda", f"{item.version} from pip")
        if not match_version(want.spec, record.version):
            return Row("different", want.name, _said(want), record.version)
        if want.build and not re.fullmatch(re.escape(want.build).replace(r"\*", ".*"), record.build):
            return Row("different", want.name, _said(want), f"{record.version} (build {record.build})")
        return self._conda_build(want, record)

    def _conda_build(self, want: Want, record: CondaItem) -> Row | None:
        if key(want.name) != "torch":
            return None
        aim = expected.variant_of(want, self.wanted, self.system, self.matrix)
        cuda = build_cuda(record.build)
        if aim is None or cuda is None:
            return None
        found = "cu" + cuda.replace(".", "") if cuda else "cpu"
        if expected.same_build(aim, found) or (cuda and self._same_major(aim, cuda)):
            return None
        return Row("different", want.name, f"{_said(want)} ({aim} build)", f"{record.version} ({found} build)")

    def _same_major(self, aim: str, cuda: str) -> bool:
        """Builds of conda-forge run with any later CUDA of their major release: cuda-version chooses no more than that."""
        wanted = cuda_of_variant(aim)
        return (
            bool(self.wanted.wants("cuda-version")) and wanted is not None and numbers(wanted)[:1] == numbers(cuda)[:1]
        )

    # -- the rest ------------------------------------------------------------------------------------------------------

    def _extra(self) -> list[Row]:
        """Installed, and neither named by the file nor needed by what it names."""
        items = {i.name: i for i in self.installed.distributions}
        named = {key(w.name) for w in self.wants}
        named |= {item.name for w in self.wants if not w.name and (item := self._unnamed(w))}
        place = (self.system.os or "", self.system.machine or "", self.system.minor or "3")
        below = closure(items, [*named, *OWN], *place)
        rest = [i for n, i in items.items() if n not in named | below | {*TOOLS, *OWN} and not i.conda]
        folder = self.wanted.path.resolve().parent.as_uri()
        rest = [i for i in rest if (i.url or "").rstrip("/") != folder]  # the project that the file belongs to
        return [Row("extra", i.name, "", i.version or "") for i in rest if i.site in ("env", None)]

    def _mend(self, rows: list[Row]) -> tuple[str, ...]:
        if not rows:
            return ()
        path = str(self.wanted.path)
        place = installers.place_of(self.facts)
        if self.wanted.format == "conda":
            name = ("-n", self.wanted.name) if self.wanted.name else ()
            prefix = self.facts.python.conda_prefix
            where = ("-p", prefix) if prefix else name
            return (installers.line(("conda", "env", "update", *where, "-f", path, "--prune"), place.shell),)
        if any(row.name == "python" for row in rows) and self.wanted.format == "requirements":
            return ()
        own = {"pixi": ("pixi", "install", "--manifest-path", path), "poetry": ("poetry", "sync", "-C", _folder(path)),
               "pyproject": ("uv", "sync", "--project", _folder(path))}.get(self.wanted.format)  # fmt: skip
        if own:
            return (installers.line(own, place.shell),)
        if place.manager not in ("pip", "uv"):
            place = installers.place_of(self.facts, manager="pip")
        # pip holds 2.8.0+cpu for 2.8.0 and does nothing: what is another build goes first.
        builds = [row.name for row in rows if row.kind == "different" and key(row.name) in FAMILY]
        first = [installers.pip_line(place, "uninstall", "-y", *builds)] if builds else []
        return (*first, installers.pip_line(place, "install", "-r", path))


def _folder(path: str) -> str:
    from pathlib import Path

    return str(Path(path).parent)


def _said(want: Want) -> str:
    label = f"+{want.label}" if want.label else ""
    return f"{want.spec}{label}" + (f"={want.build}" if want.build else "") or "any version"


def _admits(specifier: str, version: str) -> bool:
    from packaging.specifiers import InvalidSpecifier, SpecifierSet
    from packaging.version import InvalidVersion

    if not specifier:
        return True
    try:
        return SpecifierSet(specifier).contains(version, prereleases=True)
    except (InvalidSpecifier, InvalidVersion):
        return re.sub(r"^=+", "", specifier) == version


def match_version(spec: str, version: str) -> bool:
    """Whether a conda version spec admits a version: "=2.8" is 2.8 and all below it, "==2.8" only that, "|" is or."""
    if spec in ("", "*"):
        return True
    return any(all(_match_one(part, version) for part in either.split(",")) for either in spec.split("|"))


def _match_one(part: str, version: str) -> bool:
    part = part.strip()
    prefix = re.fullmatch(r"=?([\w.]+?)(\.?\*)", part) or re.fullmatch(r"=([\w.]+)()", part)
    if prefix:
        return version == prefix[1] or version.startswith(f"{prefix[1]}.")
    exact = re.fullmatch(r"(?:==)?([\w.]+)", part)
    return version == exact[1] if exact else _admits(part, version)
