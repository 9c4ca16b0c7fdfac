"""What installers print: pip, uv, conda, mamba, poetry. What was wanted, what came, for which Python and platform."""

from __future__ import annotations

import re

from envcheck.captured import packages, values
from envcheck.captured.document import IMPLIED, LISTED, NOTED, SAID, Document
from envcheck.facts import Distribution
from envcheck.lazy import Regex

_REQ = r"[A-Za-z][\w.-]{0,80}(?:\[[\w,.-]{1,80}\])?(?:\s?\(?[<>=!~^]{1,3}\s?[\w.*+!,<>=~^ -]{1,80}\)?)?"
_WHEEL = Regex(
    r"([A-Za-z][\w.]{0,80}?)-(\d[\w.!]{0,40}(?:(?:\+|%2B|%2b)[\w.]{1,60})?)-(?:\d\w*-)?((?:cp|py|pp)[\w.]{1,40})-([\w.]{1,40})-([\w.]{1,80})\.whl",
    re.IGNORECASE,
)
_SATISFIED = Regex(
    rf"Requirement already (?:satisfied|up-to-date): ({_REQ}) in (\S.{{0,300}}?)(?: \(from [^()]{{1,400}}\))?(?: \(({packages.VERSION_WORD})\))?\s*$"
)
_COLLECTING = Regex(rf"^\s{{0,8}}Collecting ({_REQ})(?: \(from (.{{1,200}}))?\s*$")
_INSTALLED = Regex(r"Successfully installed (\S.{0,20000})$")
_GONE = Regex(
    r"(?:Successfully uninstalled|Found existing installation:|Uninstalling|Attempting uninstall:) ([A-Za-z][\w.-]{0,80}?)[- ](\d[\w.+!]{0,60}?)(?=:|\s|$)"
)
_NO_MATCH = Regex(
    rf"(?:No matching distribution found for|Could not find a version that satisfies the requirement) ({_REQ})"
)
_PIP_VERSION = Regex(r"^\s{0,8}pip (\d[\w.]{0,20}) from (\S.{0,300}?) \(python (\d\.\d{1,2})\)")
_CONDA_PLAN = Regex(
    r"^\s{0,12}[+~]?\s{0,4}([a-z_][\w.-]{0,80})\s{1,60}(?:([\w/.-]{1,80})::)?([a-z_][\w.-]{0,80}?)-(\d[\w.!]{0,60})-([\w.]{1,80}?)(?:\s.*)?$"
)
_MAMBA_ROW = Regex(
    r"^\s{0,8}[+\u2502]\s{1,4}([a-z_][\w.-]{0,80})\s{1,60}(\d[\w.!]{0,60})\s{1,60}([\w.]{1,80})\s{1,60}([\w./:-]{2,80})(?:\s.*)?$"
)
_REFUSAL = Regex(
    r"PackagesNotFoundError|ResolvePackageNotFound|not available from current channels|packages? could not be found|specifications were found",
    re.IGNORECASE,
)
_CHANNEL = Regex(r"^\s*- https?://\S{1,200}/(linux|win|osx)-(64|32|aarch64|arm64|ppc64le)(?:/\S{0,40})?\s*$")
_POETRY = Regex(
    r"^\s{0,8}[-\u2022*]\s(?:Installing|Updating|Removing|Downgrading) ([A-Za-z][\w.-]{0,80}) \(([^()\s]{1,60})(?: (?:->|/) ([^()\s]{1,60}))?\)"
)
_WANTED_NAMES = Regex(
    r"^(?:torch|pytorch|nvidia|triton|xformers|flash|cuda|numpy|vllm|bitsandbytes|deepspeed|torch\w+|mmcv|apex|onnx|tensorrt|intel)",
    re.IGNORECASE,
)


def parse(doc: Document) -> None:
    """Reads what installers say of packages, interpreters and platforms."""
    for index in doc.find(
        "requirement already", "collecting ", "successfully ", "found existing", "attempting uninstall"
    ):
        _pip_line(doc, doc.lines[index], index)
    for index in doc.find(".whl"):
        _wheels(doc, doc.lines[index], index)
    for index in doc.find("no matching distribution", "could not find a version"):
        _no_match(doc, doc.lines[index], index)
    for index in doc.find("pip ", "defaulting to user", "looking in indexes"):
        _pip_itself(doc, doc.lines[index], index)
    _conda(doc)
    _conda_refusals(doc)
    _uv(doc)
    _poetry(doc)


def _pip_line(doc: Document, line: str, index: int) -> None:
    match = _SATISFIED.search(line)
    if match:
        name = re.split(r"[\s\[(<>=!~^]", match[1], maxsplit=1)[0]
        place = match[2].strip()
        if match[3] or "==" in match[1]:
            version = match[3] or match[1].partition("==")[2]
            packages.add(doc, index, name, version, manager="pip", location=place)
        doc.claim(index)
        _python_of_path(doc, place, index)
        return
    match = _COLLECTING.match(line)
    if match:
        wanted = match[1].strip()
        if match[2] is None and _WANTED_NAMES.match(wanted):
            doc.add("requested", wanted.replace(" ", "").replace("(", "").replace(")", ""), index, NOTED)
        doc.claim(index)
        return
    match = _INSTALLED.search(line)
    if match:
        for item in match[1].split()[:400]:
            pair = re.match(r"([A-Za-z][\w.-]*?)-(\d[\w.+!]*)$", item)
            if pair:
                doc.add(
                    "distributions",
                    Distribution(name=packages.normal(pair[1]), version=pair[2], manager="pip", line=index + 1),
                    index,
                    SAID,
                )
        doc.claim(index)
        return
    match = _GONE.search(line)
    if match:
        if _WANTED_NAMES.match(match[1]):
            doc.add(
                "removed",
                Distribution(name=packages.normal(match[1]), version=match[2], manager="pip", line=index + 1),
                index,
            )
        doc.claim(index)


def _wheels(doc: Document, line: str, index: int) -> None:
    """A wheel's name tells the interpreter and the platform that pip chose it for."""
    if not re.search(r"Downloading|Using cached|Saved|Processing|https?://|Installing|Collecting|Looking", line):
        return
    for match in list(_WHEEL.finditer(line[:3000]))[:5]:
        name, python, platform = match[1], match[3], match[5].lower()
        if not _WANTED_NAMES.match(name):
            continue
        tag = re.match(r"cp(\d)(\d{1,2})(?![\d])", python)
        if tag and "abi3" not in match[4]:
            doc.put("python.version", f"{tag[1]}.{tag[2]}", index, IMPLIED)
        os = (
            "windows"
            if platform.startswith("win")
            else "macos"
            if "macosx" in platform
            else "linux"
            if "linux" in platform
            else None
        )
        doc.put("system.os", os, index, IMPLIED)
        machine = values.machine(
            platform.replace("win_", "").replace("_", " ").replace("x86 64", "x86_64").replace("win32", "x86"), os
        )
        doc.put("system.machine", machine, index, IMPLIED)
        if platform == "win32":
            doc.put("python.bits", 32, index, IMPLIED)


def _no_match(doc: Document, line: str, index: int) -> None:
    for match in _NO_MATCH.finditer(line[:3000]):
        wanted = match[1].strip()
        if wanted.endswith("(from versions"):
            wanted = wanted.removesuffix("(from versions").strip()
        wanted = re.split(r"\s+\(from|\s+from\b", wanted)[0].strip().replace(" ", "")
        doc.add("requested", wanted, index, LISTED)
    doc.claim(index, errors=True)


def _pip_itself(doc: Document, line: str, index: int) -> None:
    match = _PIP_VERSION.match(line)
    if match:
        doc.put("python.pip_version", match[1], index, SAID)
        doc.put("python.pip_python", match[3], index, SAID)
        doc.put("python.version", match[3], index, IMPLIED)
        doc.claim(index)
        return
    if re.match(r"^\s{0,8}(?:Looking in (?:indexes|links)|Defaulting to user installation)", line):
        doc.claim(index)


def _python_of_path(doc: Document, path: str, index: int) -> None:
    match = re.search(r"python(\d\.\d{1,2})[/\\]|Python(\d)(\d{1,2})(?:-32)?[/\\]", path)
    if match:
        doc.put("python.version", match[1] or f"{match[2]}.{match[3]}", index, IMPLIED)


# --- conda -----------------------------------------------------------------------------------------------------------


def _conda(doc: Document) -> None:
    for index in doc.find("::"):
        line = doc.lines[index]
        match = _CONDA_PLAN.match(line)
        if match and match[1] == match[3] and doc.free(index):
            channel = match[2].split("/")[0] if match[2] else None
            packages.add(doc, index, match[1], match[4], manager="conda", build=match[5], channel=channel)
    if doc.has("package plan", "mamba", "transaction", "prefix:", "environment location"):
        for index in doc.find("  + "):
            match = _MAMBA_ROW.match(doc.lines[index])
            if match and doc.free(index):
                packages.add(
                    doc, index, match[1], match[2], manager="conda", build=match[3], channel=match[4].split("/")[0]
                )
    for index in doc.find("environment location:"):
        match = re.match(r"^\s*environment location: (\S+)", doc.lines[index])
        if match:
            doc.put("python.conda_prefix", match[1], index, LISTED)
            doc.claim(index)
    _conda_info(doc)
    for index in doc.find("conda "):
        match = re.match(r"^\s{0,8}conda (\d{1,2}\.\d{1,2}\.\d{1,2})\s*$", doc.lines[index])
        if match:
            doc.put("python.conda_version", match[1], index, SAID)
            doc.claim(index)


def _conda_refusals(doc: Document) -> None:
    """The items below "PackagesNotFoundError: ..." are what conda has not got, not what is installed."""
    for heading in doc.find("notfound", "not available from", "could not be found", "found to be incompatible"):
        if not _REFUSAL.search(doc.lines[heading]):
            continue
        for index in range(heading + 1, min(len(doc.lines), heading + 40)):
            item = doc.lines[index].strip()
            if item.startswith("- "):
                doc.claim(index, errors=True)
            elif item and not re.match(r"(?:to be incompatible|Specifications:|['\u2514\u251c])", item):
                break
    if doc.has("current channels:"):
        for index in doc.find("/linux-", "/win-", "/osx-"):
            match = _CHANNEL.match(doc.lines[index])
            if match:
                _subdir(doc, match[1], match[2], index)


def _subdir(doc: Document, system: str, machine: str, index: int) -> None:
    """ "osx-arm64": what conda was started for."""
    doc.put("system.os", {"linux": "linux", "win": "windows", "osx": "macos"}[system], index, LISTED)
    doc.put("python.machine", {"64": "x86_64", "32": "i686"}.get(machine, machine), index, LISTED)
    doc.claim(index)


_INFO = {
    "active environment": "python.conda_env",
    "active env location": "python.conda_prefix",
    "conda version": "python.conda_version",
}


def _conda_info(doc: Document) -> None:
    """`conda info`: "active environment : base", "virtual packages : __cuda=11.4=0"."""
    if not doc.has("virtual packages", "active env", "conda version", "__glibc", "__cuda"):
        return
    for index in doc.find("active env", "conda version", "python version :", "user-agent :"):
        pair = re.match(r"^\s*([a-z -]{4,30}?) : (\S.*)$", doc.lines[index])
        if pair and pair[1].strip() in _INFO:
            doc.put(_INFO[pair[1].strip()], pair[2].strip(), index, LISTED)
            doc.claim(index)
    for index in doc.find("__cuda", "__glibc", "__osx", "__archspec", "__win", "__unix"):
        line = doc.lines[index]
        if re.search(r"nothing provides|requires|needed|requested|conflict|unsatisf|problem", line, re.IGNORECASE):
            continue
        for name, value in re.findall(r"__(cuda|glibc|osx|archspec|win)=([\w.]+)(?:=(?:x86_64|\w+))?", line):
            if name == "cuda":
                doc.put("nvidia.driver_cuda", values.cuda_version(value), index, LISTED)
            elif name == "glibc":
                doc.put("system.libc_version", value, index, LISTED)
                doc.put("system.os", "linux", index, LISTED)
            elif name == "osx":
                doc.put("system.os", "macos", index, LISTED)
                doc.put("apple.macos", value if not value.startswith("10.16") else None, index, LISTED)
        doc.claim(index)
    for index in doc.find("platform : "):
        match = re.match(r"^\s*platform : (linux|win|osx)-(64|32|aarch64|arm64|ppc64le)\s*$", doc.lines[index])
        if match:
            _subdir(doc, match[1], match[2], index)


# --- uv and poetry ------------------------------------------------------------------------------------------------------


# "cpython-3.12.12-windows-x86_64-none": uv's name of an interpreter (crates/uv-python/src/installation.rs).
_UV_KEY = Regex(
    r"(?<![\w/\\-])(?:cpython|pypy|graalpy|pyodide)-(?P<version>\d\.\d{1,2}(?:\.\d{1,2})?)(?:[ab]\d|rc\d)?(?P<free>\+freethreaded)?(?:\+debug)?"
    r"-(?P<os>windows|linux|macos|darwin)-(?P<machine>x86_64(?:_v\d)?|x86|i686|aarch64|arm64|armv7l?|powerpc64le|s390x|riscv64)"
    r"-(?P<libc>none|gnu\w{0,6}|musl\w{0,6}|msvc)(?![\w-])",
    re.IGNORECASE,
)


def _uv_keys(doc: Document) -> None:
    """The interpreters that uv names; where there are several, only what they have in common."""
    found = [
        (index, match) for index in doc.find("cpython-", "pypy-") for match in _UV_KEY.finditer(doc.lines[index][:2000])
    ][:50]
    if not found:
        return
    index = found[0][0]

    def common(part: str) -> str | None:
        said = {match[part].lower() for _, match in found}
        return said.pop() if len(said) == 1 else None

    machine, system = common("machine"), common("os")
    if system is not None:
        doc.put("system.os", {"darwin": "macos"}.get(system, system), index, IMPLIED)
    if machine is not None:
        small = machine in ("x86", "i686")
        doc.put("python.bits", 32 if small else None if machine.startswith("armv7") else 64, index, NOTED)
        if not small:
            doc.put("python.machine", values.machine(machine.partition("_v")[0], system), index, IMPLIED)
    if common("libc") in ("musl", "musleabihf"):
        doc.put("python.libc", "musl", index, NOTED)
    version = common("version")
    if version is not None:
        doc.put("python.version", version, index, IMPLIED)
    doc.put("python.manager", "uv", index, IMPLIED)


def _uv(doc: Document) -> None:
    _uv_keys(doc)
    for index in doc.find("using cpython", "using python ", "you're using cpython", "cpython "):
        match = re.search(
            r"(?:Using|using) (?:CPython|Python) (\d\.\d{1,2}(?:\.\d{1,2})?)(?: (?:environment|interpreter) at:? (\S+))?",
            doc.lines[index],
        )
        if match:
            if match[2] and re.match(r"/|[A-Za-z]:[\\/]", match[2]):
                doc.put("python.executable", match[2].rstrip("`'\".,"), index, SAID)
            doc.put("python.version", match[1], index, SAID)
            doc.put("python.manager", "uv", index, IMPLIED)
    for index in doc.find("because ", "no solution found"):
        line = doc.lines[index]
        if "depends on" in line or "has no wheels" in line or "you require" in line or "were found" in line:
            doc.put(
                "python.manager",
                "uv" if "\u2570" in line or "\u00d7" in line or doc.has("no solution found") else None,
                index,
                IMPLIED,
            )
            for wanted in re.findall(r"\b(torch(?:vision|audio)?[=<>~!]{1,2}[\w.+]+)", line[:2000])[:5]:
                if "you require" in line or "has no wheels" in line or "depends on" in line:
                    doc.add("requested", wanted, index, NOTED)


def _poetry(doc: Document) -> None:
    for index in doc.find("installing ", "updating ", "downgrading "):
        match = _POETRY.match(doc.lines[index])
        if match and doc.free(index):
            version = match[3] or match[2]
            if version[:1].isdigit():
                packages.add(doc, index, match[1], version, manager="poetry", rank=LISTED)
    if doc.has("(!)", "poetry show"):
        for index in doc.find("torch", "nvidia-", "triton"):
            match = re.match(
                r"^\s{0,4}([a-z][\w.-]{0,60})(?: \(!\))?\s{1,40}(\d[\w.+]{0,40})\s{1,40}\S", doc.lines[index]
            )
            if match and doc.free(index) and packages.known(match[1]):
                packages.add(doc, index, match[1], match[2], manager="poetry")
