"""What the index has that the tables lack, as rows in the columns of the tables."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timezone

from envcheck.matrix.query import Matrix
from envcheck.matrix.refresh import index as simple
from envcheck.matrix.refresh.cache import Rows
from envcheck.matrix.refresh.index import File
from envcheck.matrix.refresh.web import Unreachable, get, members
from envcheck.matrix.rows import FROM_INDEX
from envcheck.matrix.versions import final, numbers, short, variant_of_cuda

PLATFORMS = (
    (re.compile(r"manylinux.*_x86_64"), "linux", "x86_64"),
    (re.compile(r"manylinux.*_aarch64"), "linux", "aarch64"),
    (re.compile(r"win_amd64"), "windows", "x86_64"),
    (re.compile(r"macosx_\d+_\d+_arm64"), "macos", "arm64"),
    (re.compile(r"macosx_\d+_\d+_x86_64"), "macos", "x86_64"),
)
COMPANIONS = ("torchvision", "torchaudio")


@dataclass(frozen=True)
class Pin:
    """A companion's version: the torch it asks for, and its day."""

    torch: str
    released: str


def rows(matrix: Matrix, index: str, tell: Callable[[str], None] = lambda _: None) -> Rows:
    """Rows of all releases newer than the shipped tables, {} when there is none; `tell` hears how it goes.

    Raises:
        Unreachable: the index cannot be read.
    """
    last = numbers(matrix.releases[-1].version)
    torch = _by_version(simple.files(index, "torch"))
    new = sorted((v for v in torch if numbers(v) > last), key=numbers)
    if not new:
        return {}
    tail = {"source": FROM_INDEX, "checked": today(), "confidence": "read"}
    found: Rows = {name: [] for name in _TABLES}
    pins = {package: _companions(matrix, index, package, found, tail) for package in COMPANIONS}
    for version in new:
        tell(f"reading the wheels of torch {version}")
        _release(version, torch[version], pins, found, tail)
    return found


_TABLES = (
    "torch_releases.csv",
    "torch_wheels.csv",
    "torch_variants.csv",
    "torch_archs.csv",
    "torch_requires.csv",
    "companions.csv",
)


def today() -> str:
    """The date, ISO."""
    return datetime.now(timezone.utc).date().isoformat()


def _by_version(files: Iterable[File]) -> dict[str, list[File]]:
    found: dict[str, list[File]] = {}
    for file in files:
        version = file.wheel.version if file.wheel else ""
        if final(version) == version:
            found.setdefault(version, []).append(file)
    return found


def _platform(file: File) -> tuple[str, str] | None:
    tag = file.wheel.platform if file.wheel else ""
    return next(((os, machine) for pattern, os, machine in PLATFORMS if pattern.search(tag)), None)


def _python(file: File) -> str | None:
    """ "3.14", and "3.14t" where the ABI tag is that of the free-threaded build."""
    match = re.fullmatch(r"cp(\d)(\d+)", file.wheel.python) if file.wheel else None
    if match is None or file.wheel is None:
        return None
    return f"{match[1]}.{match[2]}" + ("t" if file.wheel.abi.endswith("t") else "")


def _release(
    version: str,
    files: list[File],
    pins: dict[str, dict[str, Pin]],
    found: Rows,
    tail: dict[str, str],
) -> None:
    uploaded = min((f.uploaded for f in files if f.uploaded), default=tail["checked"])
    places: dict[tuple[str, str], list[File]] = {}
    for file in files:
        place = _platform(file)
        if place:
            places.setdefault(place, []).append(file)
    for (os, machine), group in places.items():
        _wheel(version, os, machine, group, found, tail)
    found["torch_releases.csv"].append(
        {
            "release": version,
            "released": uploaded,
            "status": "partial",
            "torchvision": _beside(version, uploaded, pins["torchvision"]),
            "torchaudio": _beside(version, uploaded, pins["torchaudio"]),
            "notes": "from the package index: only what PyPI-style wheels show is known",
            **tail,
        }
    )


def _wheel(version: str, os: str, machine: str, group: list[File], found: Rows, tail: dict[str, str]) -> None:
    """The wheels of one platform: one of them is opened, far enough to read what it was built for."""
    pythons = sorted({p for p in map(_python, group) if p}, key=lambda p: (numbers(p), p.endswith("t")))
    sample = group[-1]
    inside = members(sample.url, ("torch/version.py", "torch/cuda/__init__.py", ".dist-info/METADATA"))
    cuda = _assigned(inside.get("torch/version.py", ""), "cuda")
    name = _assigned(inside.get("torch/version.py", ""), "__version__") or version
    variant = variant_of_cuda(cuda) if cuda else "mps" if (os, machine) == ("macos", "arm64") else "cpu"
    tags = sorted({f.wheel.platform for f in group if f.wheel})
    place = {"release": version, "os": os, "machine": machine}
    found["torch_wheels.csv"].append(
        {
            **place,
            "variant": variant,
            "version": name,
            "pythons": " ".join(pythons),
            "tags": " ".join(tags),
            "min_os": _lowest_os(os, tags),
            "requires_python": sample.requires_python,
            "uploaded": min((f.uploaded for f in group if f.uploaded), default=tail["checked"]),
            **tail,
        }
    )
    found["torch_variants.csv"].append({**place, "variant": variant, "status": "advertised", **tail})
    if cuda:
        code = _code(inside.get("torch/cuda/__init__.py", ""), cuda, machine)
        if code:
            note = {"notes": "from the wheel's own table of architectures", "ptx": "unknown"}
            found["torch_archs.csv"].append({**place, "variant": variant, "sass": code, **note, **tail})
    if os == "linux":
        found["torch_requires.csv"] += _requirements(inside.get(".dist-info/METADATA", ""), place, tail)


def _lowest_os(os: str, tags: list[str]) -> str:
    pattern = {"linux": r"manylinux_(\d+)_(\d+)_", "macos": r"macosx_(\d+)_(\d+)_"}.get(os)
    numbers_ = [(int(m[1]), int(m[2])) for tag in tags if pattern and (m := re.search(pattern, tag))]
    return ".".join(map(str, min(numbers_))) if numbers_ else ""


def _assigned(source: str, name: str) -> str | None:
    """The text that a module assigns to a name, read without running it."""
    match = re.search(rf"^{re.escape(name)}(?:\s*:[^=\n]+)?\s*=\s*['\"]([^'\"]*)['\"]", source, re.MULTILINE)
    return match[1] if match else None


def _code(source: str, cuda: str, machine: str) -> str:
    """SASS of the build by the table that torch/cuda/__init__.py carries since 2.12; "" without one."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return ""
    for node in tree.body:
        if not isinstance(node, ast.AnnAssign) or node.value is None or not isinstance(node.target, ast.Name):
            continue
        if node.target.id == "PYTORCH_RELEASES_CODE_CC":
            try:
                table = ast.literal_eval(node.value)
                return " ".join(f"sm_{cc}" for cc in sorted(table[short(cuda)][machine]))
            except (ValueError, KeyError, TypeError):
                return ""
    return ""


def _requirements(metadata: str, place: dict[str, str], tail: dict[str, str]) -> list[dict[str, str]]:
    from packaging.requirements import InvalidRequirement, Requirement

    found = []
    for line in re.findall(r"^Requires-Dist: (.+)$", metadata, re.MULTILINE):
        try:
            item = Requirement(line)
        except InvalidRequirement:
            continue
        marker = str(item.marker or "")
        if "extra ==" not in marker:
            extras = " ".join(sorted(item.extras))
            wanted = {"package": item.name, "extras": extras, "specifier": str(item.specifier), "marker": marker}
            found.append({**place, **wanted, **tail})
    return found


def _companions(matrix: Matrix, index: str, package: str, found: Rows, tail: dict[str, str]) -> dict[str, Pin]:
    """Every version of a companion with its pin; those that the tables lack become rows."""
    shipped = matrix.tables.pins[package]
    pins = {v: Pin(pin.fits_torch or pin.requires_torch or "", pin.released) for v, pin in shipped.items()}
    last = numbers(list(shipped)[-1])
    for version, files in _by_version(simple.files(index, package)).items():
        if version in pins or numbers(version) < last:
            continue
        wanted = _torch_of(files[-1])
        released = min((f.uploaded for f in files if f.uploaded), default=tail["checked"])
        pins[version] = Pin(wanted, released)
        pythons = sorted({p for p in map(_python, files) if p}, key=lambda p: (numbers(p), p.endswith("t")))
        platforms = sorted({"-".join(p) for p in map(_platform, files) if p})
        found["companions.csv"].append(
            {
                "package": package,
                "version": version,
                "released": released,
                "requires_torch": wanted,
                "requires_python": files[-1].requires_python,
                "pythons": " ".join(pythons),
                "platforms": " ".join(platforms),
                **tail,
            }
        )
    return pins


def _torch_of(file: File) -> str:
    """A companion's requirement on torch, from its metadata beside the wheel or inside it."""
    try:
        if file.has_metadata:
            text = get(file.url + ".metadata")[0].decode("utf-8", "replace")
        else:
            text = members(file.url, (".dist-info/METADATA",)).get(".dist-info/METADATA", "")
    except Unreachable:
        return ""
    match = re.search(r"^Requires-Dist: torch\b\s*\(?([^);\n]*)", text, re.MULTILINE)
    return match[1].replace(" ", "") if match else ""


def _beside(version: str, released: str, pins: dict[str, Pin]) -> str:
    """The newest companion that asks for exactly this torch, else the newest of its day that admits it."""
    from envcheck.matrix.companions import contains

    ordered = sorted(pins, key=numbers, reverse=True)
    exact = next((v for v in ordered if pins[v].torch.partition("+")[0] == f"=={version}"), None)
    admits = [v for v in ordered if pins[v].torch and contains(pins[v].torch, version)]
    of_its_day = next((v for v in admits if pins[v].released <= released), None)
    return exact or of_its_day or next(iter(admits), "")
