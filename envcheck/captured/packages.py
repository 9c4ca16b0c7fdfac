"""Lists of installed packages: pip list, freeze and show, conda list and export, uv, poetry, dpkg, rpm, pacman."""

from __future__ import annotations

import re

from envcheck.captured import system_packages, values
from envcheck.captured.document import IMPLIED, LISTED, NOTED, SAID, Document, word_set
from envcheck.captured.keys import PACKAGE_KEYS
from envcheck.facts import Distribution
from envcheck.lazy import Regex

VERSION_WORD = r"v?\d[\w.!+~-]{0,80}"
_TAGGED = Regex(rf"^\s*\[(pip\d?|uv)\]\s+([A-Za-z][\w.-]{{0,80}})(?:\[[\w,-]+\])?\s*(?:==|\(|\s|@)\s*({VERSION_WORD})?")
_CONDA_TAGGED = Regex(r"^\s*\[conda\]\s+([A-Za-z_][\w.-]{0,80})\s+(\S{1,80})(?:\s+(\S{1,80}))?(?:\s+(\S{1,80}))?")
_FREEZE = Regex(
    rf"^[\s*+~-]{{0,8}}([A-Za-z][\w.-]{{0,80}})(?:\[[\w,-]{{1,60}}\])?\s?===?\s?[\"']?({VERSION_WORD})[\"']?,?(?:\s*[;#].{{0,200}})?\s*$"
)
_AT = Regex(r"^\s*([A-Za-z][\w.-]{0,80}) @ (\S{1,500})")
_CONDA_ROW = Regex(
    r"^\s{0,4}([a-z_][\w.-]{0,80})\s{1,60}(\d[\w.!+]{0,60}|\S{1,40}\d)\s{1,60}([\w.]{1,80}?(?:_\d{1,4}|_cpu|_0)?|<pip>|<develop>|pypi_0)(?:\s{1,60}(\S{1,100}))?\s*$"
)
_CONDA_BUILD = Regex(
    r"^(?:\w*_\d{1,4}|h[0-9a-f]{7,8}(?:_\d+)?|\d{1,4}|py\d[\w.]*|cpu\w*|cuda\w*|mkl|openblas|<pip>|<develop>|pypi_\d|np\w+|blas\w*|main|gpu\w*)$"
)
_CONDA_SPEC = Regex(
    r"^[\s-]{0,10}(?:([\w-]{1,40})::)?([A-Za-z_][\w.-]{0,80})=(\d[\w.!+*]{0,60})(?:=([\w.*]{1,80}))?\s*$"
)
_TWO = Regex(rf"^\s{{0,8}}([A-Za-z][\w.-]{{0,80}})\s{{1,80}}\(?({VERSION_WORD})\)?(?:\s+(\S.{{0,300}}))?\s*$")
_LEGACY = Regex(rf"^\s{{0,12}}([A-Za-z][\w.-]{{0,80}}) \(({VERSION_WORD})(?:, ([^()]{{1,300}}))?\)\s*$")
_TORCH_KIN = Regex(
    r"(?:torch|pytorch|nvidia|cuda|triton|tensorrt|flash|xformers|intel|onemkl|dpcpp|tcm|rocm|hip|libtorch)",
    re.IGNORECASE,
)
_BANNED = word_set(
    "version python driver total epoch step loss page chapter section release build revision error warning line row gpu"
)
_REQUIRES = Regex(
    rf"([A-Za-z][\w.-]{{0,60}}) ({VERSION_WORD}) (?:has requirement|requires) ([A-Za-z][\w.-]{{0,60}})[^,]{{0,120}}, but you(?: will|'ll)? have \3 ({VERSION_WORD}?)(?= which|\.?$|\.? )"
)


def normal(name: str) -> str:
    """PEP 503."""
    return re.sub(r"[-_.]+", "-", name).lower()


def known(name: str) -> bool:
    """A name that is worth believing without the header of a list above it."""
    lowered = name.lower()
    return lowered in PACKAGE_KEYS or normal(name) in PACKAGE_KEYS or _TORCH_KIN.match(lowered) is not None


def parse(doc: Document) -> None:
    """Reads every kind of list."""
    _incompatible(doc)
    _built_for(doc)
    _conflicts(doc)
    _show(doc)
    _tables(doc)
    for index, line in doc.short_lines():
        if line[0] in "[|" and "]" in line[:12] and _tagged(doc, line, index):
            continue
        if "==" in line and _freeze(doc, line, index):
            continue
        if " @ " in line and _direct(doc, line, index):
            continue
        if system_packages.read(doc, line, index):
            continue
        if "=" in line and _spec(doc, line, index):
            continue
        _loose(doc, line, index)


def add(
    doc: Document,
    index: int,
    name: str,
    version: str | None,
    *,
    manager: str | None = None,
    build: str | None = None,
    channel: str | None = None,
    location: str | None = None,
    rank: int = LISTED,
) -> None:
    """Notes one distribution and claims its line."""
    doc.add(
        "distributions",
        Distribution(
            name=normal(name),
            version=version.strip("\"',;()").lstrip("v") if version else None,
            build=build,
            channel=channel,
            manager=manager,
            location=location,
            site=_site(location),
            line=index + 1,
        ),
        index,
        rank,
    )
    doc.claim(index)


def _site(location: str | None) -> str | None:
    if not location:
        return None
    lowered = location.lower().replace("\\", "/")
    if "/.local/lib/" in lowered or "/appdata/roaming/python/" in lowered or re.search(r"/library/python/\d", lowered):
        return "user"
    if lowered.startswith(("/usr/lib/python3/dist-packages",)):
        return "system"
    return None


def _tagged(doc: Document, line: str, index: int) -> bool:
    match = _CONDA_TAGGED.match(line)
    if match:
        name, version, build, channel = match.groups()
        if version[:1].isdigit() or (re.search(r"\d", version) and name.lower() not in ("could", "no")):
            pip = build in ("<pip>", "pypi_0") or channel in ("pypi", "<pip>")
            add(
                doc,
                index,
                name,
                version,
                manager="pip" if pip else "conda",
                build=None if pip else build,
                channel=None if pip else channel,
            )
        else:
            doc.claim(index)
        return True
    match = _TAGGED.match(line)
    if match:
        if match[3]:
            add(doc, index, match[2], match[3], manager="pip")
        else:
            doc.claim(index)
        return True
    return False


def _freeze(doc: Document, line: str, index: int) -> bool:
    match = _FREEZE.match(line)
    if not match:
        return False
    gone = re.match(r"\s*- [A-Za-z]", line) and _uv_removes(doc, index)
    if not gone:
        add(doc, index, match[1], match[2], manager="pip" if not line.lstrip().startswith(("+", "~")) else "uv")
    else:
        doc.claim(index)
    return True


def _uv_removes(doc: Document, index: int) -> bool:
    """In uv's summary ` - torch==2.4.0` is what went; it stands near ` + ` lines."""
    around = doc.lines[max(0, index - 3) : index + 4]
    return any(re.match(r"\s*\+ [A-Za-z][\w.-]*==", other) for other in around)


def _direct(doc: Document, line: str, index: int) -> bool:
    match = _AT.match(line)
    if not match or not known(match[1]):
        return False
    wheel = re.search(r"[/\\]([A-Za-z][\w.]*)-(\d[\w.]*(?:(?:\+|%2B)[\w.]+)?)-(?:cp|py)", match[2])
    version = wheel[2].replace("%2B", "+") if wheel else None
    origin = "vcs" if match[2].startswith("git+") else "file" if match[2].startswith("file:") else "url"
    doc.add(
        "distributions",
        Distribution(name=normal(match[1]), version=version, manager="pip", origin=origin, line=index + 1),
        index,
    )
    doc.claim(index)
    return True


def _spec(doc: Document, line: str, index: int) -> bool:
    """ "pytorch=1.8.0=py3.8_cuda11.1_cudnn8.0.5_0" of an environment.yml, or as people note it."""
    match = _CONDA_SPEC.match(line)
    if not match:
        return False
    channel, name, version, build = match.groups()
    if name.lower() == "python":
        doc.put("python.version", version.rstrip(".*"), index, NOTED)
        doc.claim(index)
        return True
    if build is None and not known(name):
        return False
    pip_like = "+" in version or name.lower() == "torch"
    add(
        doc,
        index,
        name,
        version,
        manager=None if pip_like and build is None else "conda",
        build=build,
        channel=channel,
        rank=LISTED if build else NOTED,
    )
    return True


def _loose(doc: Document, line: str, index: int) -> bool:
    """A row without its table: "torch 2.3.0", "cpuonly  2.0  0  pytorch", "Pillow (5.0.0)"."""
    if not line[:60].strip()[:1].isalpha():
        return False
    match = _CONDA_ROW.match(line)
    if match and _CONDA_BUILD.match(match[3]) and (match[4] is not None or "_" in match[3] or match[3].startswith("<")):
        name, version, build, channel = match.groups()
        if name.lower() not in _BANNED and (known(name) or (channel is not None and re.match(r"[\w./:-]+$", channel))):
            pip = build in ("<pip>", "pypi_0") or channel == "pypi"
            add(
                doc,
                index,
                name,
                version,
                manager="pip" if pip else "conda",
                build=None if pip else build,
                channel=None if pip else channel,
            )
            return True
    match = _LEGACY.match(line)
    if match and match[1].lower() not in _BANNED and ("." in match[2]):
        add(doc, index, match[1], match[2], manager="pip", location=match[3])
        return True
    match = _TWO.match(line)
    if (
        match
        and known(match[1])
        and (match[3] is None or _is_place(match[3]))
        and match[1].lower() not in ("nvidia", "cuda", "intel", "rocm", "hip")
    ):
        name, version = match[1], match[2].rstrip(",)")
        if not values.version(version) and not re.fullmatch(r"\d+\.\d+", version):
            return False
        if name.lower() in ("pytorch", "torch") and values.torch_version(version) is None:
            return False
        add(doc, index, name, version, rank=LISTED)
        return True
    return False


def _is_place(text: str) -> bool:
    return text.startswith(("/", "@/", "@ /", "~")) or re.match(r"@?[A-Za-z]:[\\/]|pypi$|pip$|<pip>", text) is not None


# --- tables with a header ------------------------------------------------------------------------------------------

_PIP_HEADER = Regex(
    r"^\s{0,8}Package\s+Version(?:\s+(?:Editable project location|Location|Installer|Latest|Type|ID|Build)\b.*)?\s*$"
)
_CONDA_HEADER = Regex(r"^\s{0,4}#? ?Name\s+Version\s+Build(?:\s+Channel)?\s*$|^# packages in environment at (.+?):?$")


def _tables(doc: Document) -> None:
    _pixi(doc)
    for index in doc.find("package "):
        if _PIP_HEADER.match(doc.lines[index]):
            _pip_table(doc, index)
    for index in doc.find("# packages in environment", "# name ", "name  "):
        match = _CONDA_HEADER.match(doc.lines[index])
        if match:
            if match[1]:
                doc.put("python.conda_prefix", match[1], index)
            doc.claim(index)
            _conda_table(doc, index)


_PIXI = Regex(
    r"^\s{0,4}([A-Za-z_][\w.\-]{0,60})\s{1,60}(\d\S{0,40})\s{1,60}(?:(\S{1,80})\s{1,60})?[\d.]{1,8} [KMG]iB\s{1,20}(conda|pypi)\b(?:\s{1,20}(\S{3,200}))?"
)


def _pixi(doc: Document) -> None:
    """`pixi list`, with or without its header: name, version, build, size, kind, source."""
    for index in doc.find("kib ", "mib ", "gib "):
        match = _PIXI.match(doc.lines[index])
        if match and doc.free(index):
            conda = match[4] == "conda"
            add(doc, index, match[1], match[2], manager="conda" if conda else "pip", build=match[3] if conda else None)
            if match[1] == "python":
                doc.put("python.version", values.version(match[2]), index, LISTED)
    for index in doc.find("pytorch-cuda", "pytorch-gpu"):
        wanted = re.match(r"^\s{0,8}(pytorch-(?:cuda|gpu))\s{0,8}=\s{0,8}\"([^\"\n]{1,40})\"\s*$", doc.lines[index])
        if wanted:  # a dependency in pixi.toml
            doc.add("requested", f"{wanted[1]} {wanted[2]}", index, LISTED)


def _pip_table(doc: Document, header: int) -> None:
    doc.claim(header)
    rows, names = 0, set()
    for index in range(header + 1, len(doc.lines)):
        line = doc.lines[index]
        if re.match(r"^\s*-{3,}", line):
            doc.claim(index)
            continue
        match = _TWO.match(line)
        if not match or not doc.free(index):
            break
        place = match[3].split()[0] if match[3] and _is_place(match[3]) else None
        add(doc, index, match[1], match[2], manager="pip", location=place)
        names.add(normal(match[1]))
        rows += 1
    if rows >= 20 and names & {"pip", "setuptools"} and "grep" not in doc.lines[max(0, header - 1)]:
        doc.put("python.distributions_partial", False, header)


def _conda_table(doc: Document, header: int) -> None:
    rows, names = 0, set()
    for index in range(header + 1, len(doc.lines)):
        line = doc.lines[index]
        if line.startswith("#"):
            doc.claim(index)
            continue
        cells = line.split()
        if (
            not 2 <= len(cells) <= 4
            or not re.search(r"\d", cells[1])
            or not re.match(r"[A-Za-z_]", cells[0])
            or not doc.free(index)
        ):
            break
        build = cells[2] if len(cells) > 2 else None
        channel = cells[3] if len(cells) > 3 else None
        pip = build in ("<pip>", "pypi_0", "pip") or channel == "pypi"
        add(
            doc,
            index,
            cells[0],
            cells[1],
            manager="pip" if pip else "conda",
            build=None if pip else build,
            channel=None if pip else channel,
        )
        if cells[0] == "python":
            doc.put("python.version", values.version(cells[1]), index, LISTED)
            doc.put("python.kind", "conda", index, LISTED)
        names.add(cells[0])
        rows += 1
    if rows >= 20 and "python" in names:
        doc.put("python.distributions_partial", False, header)


# --- pip show ------------------------------------------------------------------------------------------------------

_SHOW_FIELD = Regex(
    r"^\s{0,4}(Version|Summary|Home-page|Author|Author-email|License|License-Expression|Location|Requires|Required-by|Editable project location|Installer|Metadata-Version|Files|Entry-points|Classifiers): ?(.*)$"
)


def _show(doc: Document) -> None:
    for start in doc.find("name: "):
        match = re.match(r"^\s{0,4}Name: ([A-Za-z][\w.-]{0,80})\s*$", doc.lines[start])
        if not match:
            continue
        fields: dict[str, str] = {}
        end = start
        for index in range(start + 1, min(start + 40, len(doc.lines))):
            field = _SHOW_FIELD.match(doc.lines[index])
            if not field:
                if doc.lines[index].strip() and not doc.lines[index].startswith(" "):
                    break
                continue
            fields.setdefault(field[1], field[2].strip())
            end = index
        if "Version" not in fields:
            continue
        requires = (
            tuple(part.strip() for part in fields["Requires"].split(",") if part.strip())
            if "Requires" in fields
            else None
        )
        location = fields.get("Editable project location") or fields.get("Location")
        doc.add(
            "distributions",
            Distribution(
                name=normal(match[1]),
                version=fields["Version"],
                manager=fields.get("Installer") or "pip",
                location=location,
                site=_site(location),
                editable=True if "Editable project location" in fields else None,
                requires=requires if normal(match[1]) == "torch" else None,
                line=start + 1,
            ),
            start,
        )
        for index in range(start, end + 1):
            doc.claim(index)
        version = re.search(r"python(\d\.\d{1,2})[/\\]|Python(\d)(\d{1,2})[/\\]", location or "")
        if version:
            doc.put("python.version", version[1] or f"{version[2]}.{version[3]}", start, IMPLIED)


def _incompatible(doc: Document) -> None:
    """The complaint of pip names two installed versions: "torchaudio 2.1.0 requires torch==2.1.0, but you have torch 2.2.0"."""
    for index in doc.find("but you have ", "but you will have ", "but you'll have "):
        for match in _REQUIRES.finditer(doc.lines[index][:4000]):
            for name, version in ((match[1], match[2]), (match[3], match[4])):
                add(doc, index, name, version, manager="pip")
            doc.claim(index, errors=True)


_BUILT_FOR = Regex(
    r"^\W{0,6}(?P<what>PyTorch|Python)\s{1,4}\d\S{0,40}(?: with CUDA \S{1,8})? \(you have (?P<have>\d[\w.+]{1,40})(?: with CUDA [^)\n]{1,12})?\)"
)


def _built_for(doc: Document) -> None:
    """Xformers names both: "PyTorch 2.1.2+cu121 with CUDA 1201 (you have 2.1.2+cpu)"; the second is what is here."""
    for index in doc.find("(you have "):
        match = _BUILT_FOR.match(doc.lines[index])
        if match:
            doc.put("torch.version" if match["what"] == "PyTorch" else "python.version", match["have"], index, SAID)
            doc.claim(index, errors=True)


def _conflicts(doc: Document) -> None:
    """Conda's list of requests that do not go together is no list of what is installed."""
    for index in doc.find(" conflicts for:"):
        for other in range(index, min(index + 60, len(doc.lines))):
            line = doc.lines[other].strip()
            if not line or (other > index and line.endswith(" conflicts for:")):
                break
            doc.claim(other, errors=True)
