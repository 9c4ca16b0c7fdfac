"""The installer finds no wheel: which of the reasons is it?

pip says "from versions: ..." and nothing else; which Python, which system and which index it looked for, and what
PyPI has for them, tells the reason. uv, poetry and conda say a part of it themselves.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from envcheck.facts import Facts, Symptom
from envcheck.findings import Finding, Remedy
from envcheck.matrix import Matrix
from envcheck.rules import derive, remedies
from envcheck.rules.base import Rule, rule
from envcheck.rules.install_network import unreachable
from envcheck.rules.install_plans import planned

KINDS = (
    "no-matching-distribution",
    "wheel-not-supported",
    "uv-no-wheel",
    "uv-no-version",
    "poetry-no-candidate",
    "requires-python",
    "conda-not-available",
    "conda-python-conflict",
)

SHOW_PYTHON = "python -c \"import sys, platform, struct; print(sys.version, platform.machine(), struct.calcsize('P') * 8, 'bit')\""
LAST_ON_PYTORCH_CHANNEL = "2.5.1"
"""Source: pytorch/pytorch issue 138506: conda packages of the channel pytorch end with 2.5.x."""


@dataclass(frozen=True)
class Request:
    """What was asked for, and what the installer said there is."""

    package: str
    specifier: str
    versions: tuple[str, ...] | None
    """The list that pip printed; () = "none"; None = no list."""
    symptom: Symptom

    @property
    def version(self) -> str | None:
        """The version that is named, without its label: "==2.0.1+cu118" -> "2.0.1"."""
        match = re.search(r"\d+(?:\.\d+)*(?:\.?(?:post|a|b|rc|dev)\d+)?", self.specifier)
        return match.group(0) if match else None

    @property
    def exact(self) -> bool:
        """One release was asked for, not a range."""
        return self.specifier.lstrip(" =").startswith(tuple("0123456789")) and not self.specifier.startswith(
            ("<", ">", "~", "!")
        )

    @property
    def label(self) -> str:
        """The build that was asked for: "cu118", "cpu", "" for none."""
        match = re.search(r"\+((?:cu\d{2,3}|cpu|rocm[\d.]+|xpu))", self.specifier)
        return match.group(1) if match else ""

    @property
    def text(self) -> str:
        """As a person writes it: "torch==2.0.1+cu118"."""
        return f"{self.package}{self.specifier}"


def requests(facts: Facts) -> Iterator[Request]:
    """Every failed request of the report, the one with most detail first."""
    found = []
    for item in derive.symptoms(facts, *KINDS):
        made = _request(item)
        if made is not None:
            found.append(made)
    listed = {r.text for r in found if r.versions is not None}  # pip repeats the request in a line without the list
    kept = [r for r in found if r.versions is not None or r.text not in listed]
    if unreachable(facts) is not None:
        # An index that could not be read offers nothing: "from versions: none" then says nothing about the wheels.
        kept = [r for r in kept if r.versions or r.symptom.kind not in ("no-matching-distribution", "uv-no-version")]
    yield from sorted(kept, key=lambda r: (r.versions is None, not r.specifier))


def _request(item: Symptom) -> Request | None:
    d = item.details
    asked = d.get("requirement") or d.get("wanted") or d.get("dist") or d.get("requested") or d.get("missing")
    versions = None
    if "versions" in d:
        named = [v.strip() for v in d["versions"].split(",")]
        versions = tuple(v for v in named if re.match(r"\d", v))
    if asked is None and item.kind == "wheel-not-supported":
        match = re.match(r"(?P<p>\w+)-(?P<v>[\w.+%]+?)-", d.get("wheel", ""))
        asked = f"{match['p']}=={match['v'].replace('%2B', '+')}" if match else None
    if asked is None and d.get("hint"):
        asked = f"{d['hint']}=={d.get('hint_version', '')}"
    if asked is None and d.get("package"):
        asked = d["package"] + (f"=={d['version']}" if d.get("version", "")[:1].isdigit() else d.get("version", ""))
    if asked is None:
        asked = d.get("named") or d.get("spec") or d.get("tree")
    match = re.match(r"([A-Za-z][\w\-]*?)(?:-(?=\d)|(?=[<>=!~ ]|$))\s*(.*)", (asked or "").strip())
    if not match:
        return None
    specifier = match.group(2).strip().replace(" ", "")
    if specifier[:1].isdigit():
        specifier = "==" + specifier
    return Request(match.group(1).lower().replace("_", "-"), specifier.rstrip(".,`'\""), versions, item)


def torch_of(request: Request, matrix: Matrix) -> str | None:
    """The torch release that decides: the one asked for, or the one that the companion belongs to."""
    own = request.package in ("torch", "pytorch", "libtorch", "pytorch-gpu")
    version = request.version
    if version is None:
        return None
    if own and not request.exact:
        return _newest_within(request.specifier, matrix)
    return version if own else matrix.torch_for_companion(request.package, version)


def _newest_within(specifier: str, matrix: Matrix) -> str | None:
    """The newest release that a range allows; None when it allows none of the tables."""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    try:
        allowed = SpecifierSet(specifier)
    except InvalidSpecifier:
        return None
    fit = [r.version for r in matrix.releases if allowed.contains(r.version)]
    return fit[-1] if fit else None


# --- what the list of versions gives away -------------------------------------------------------------------------


def last_intel_mac(matrix: Matrix) -> str:
    """The last release with wheels for x86_64 macOS."""
    return max(
        (r.version for r in matrix.releases if matrix.wheels(r.version, "macos", "x86_64")),
        key=derive.numbers,
        default="",
    )


def _finals(versions: tuple[str, ...] | None) -> list[str]:
    return sorted((v for v in versions or () if not derive.is_prerelease(v)), key=derive.numbers)


def newest_for(matrix: Matrix, os: str, machine: str, python: str) -> str | None:
    """The newest release with a wheel for this Python."""
    fit = [r.version for r in matrix.releases if python in matrix.pythons(r.version, os, machine)]
    return fit[-1] if fit else None


def is_intel_mac(facts: Facts, matrix: Matrix, request: Request | None) -> bool | None:
    """x86_64 Python on macOS: said, or given away by a list that ends where Intel wheels end."""
    hint = request.symptom.details.get("have", "") + request.symptom.text if request else ""
    if re.search(r"macosx_\d+_\d+_x86_64", hint):
        return True
    os = derive.wheel_os(facts)
    if os not in (None, "macos"):
        return False
    if os == "macos" and facts.python.machine:
        return facts.python.machine == "x86_64"
    if os == "macos" and facts.system.machine == "x86_64":
        return True
    listed = _finals(request.versions) if request else []
    if listed and listed[-1] == last_intel_mac(matrix):
        return True
    if os == "macos" and request is not None and request.symptom.details.get("tags") == "platform":
        return not facts.system.machine or None
    if os == "macos" and request is not None and _only_arm_has_it(facts, matrix, request):
        return True
    return None if os == "macos" else False


def _only_arm_has_it(facts: Facts, matrix: Matrix, request: Request) -> bool:
    """Nothing was found on macOS although Apple silicon has a wheel for this very Python: so the machine is an Intel one."""
    python, wanted = derive.python_minor(facts), torch_of(request, matrix)
    if python is None or wanted is None or facts.system.machine or (facts.apple.chip or "").startswith("Apple"):
        return False
    if not request.exact or (
        request.versions != () and request.symptom.kind not in ("poetry-no-candidate", "uv-no-wheel")
    ):
        return False
    return python in matrix.pythons(wanted, "macos", "arm64") and python not in matrix.pythons(
        wanted, "macos", "x86_64"
    )


def glibc_of_hint(item: Symptom) -> tuple[str, str] | None:
    """(glibc of this machine, glibc that the wheels need) by uv's hint, where that is what keeps the wheels away.

    "You're on Linux (`manylinux_2_27_x86_64`), but `torch` (v2.7.0) only has wheels for ...: `manylinux_2_28_x86_64`".
    """
    here = re.search(r"manylinux_(\d+)_(\d+)_(\w+)", item.details.get("have", ""))
    if here is None:
        return None
    tags = re.findall(rf"manylinux_(\d+)_(\d+)_{here[3]}\b", item.details.get("found", ""))
    lowest = min(((int(a), int(b)) for a, b in tags), default=None)
    if lowest is None or lowest <= (int(here[1]), int(here[2])):
        return None
    return f"{here[1]}.{here[2]}", f"{lowest[0]}.{lowest[1]}"


def is_musl(facts: Facts, request: Request | None) -> bool:
    """Alpine and its like: torch has wheels for glibc only."""
    hint = request.symptom.details.get("have", "") + request.symptom.text if request else ""
    loader = any("musl" in s.details or "musl_symbol" in s.details for s in facts.symptoms)
    return (
        loader
        or facts.system.libc == "musl"
        or facts.python.libc == "musl"
        or "musl" in (facts.python.soabi or "")
        or facts.system.distro == "alpine"
        or "musllinux" in hint
    )


def is_32bit(facts: Facts) -> bool:
    """The interpreter is a 32-bit one."""
    return (
        facts.python.bits == 32
        or (facts.python.machine or facts.system.machine or "") in ("i386", "i686", "armv6l", "armv7l")
        or facts.symptom("python-32bit") is not None
    )


# --- rules --------------------------------------------------------------------------------------------------------

_MOOT = (
    "python-no-wheel",
    "torch-not-installed",
    "wheel-index-missing",
    "no-such-release",
    "wrong-interpreter",
    "macos-intel-no-wheel",
)


@rule("python-32bit", "install", "A 32-bit Python: no torch wheel exists for it.", explains=_MOOT)
def python_32bit(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Every torch wheel is for 64-bit Pythons, so pip sees none at all."""
    if not is_32bit(facts):
        return
    item = facts.symptom("python-32bit")
    request = next(requests(facts), None)
    version = facts.python.version
    yield rule.finding(
        "error",
        title="This Python is a 32-bit build; torch needs a 64-bit one",
        seen=derive.quote(item, request.symptom if request else None, f"Python {version}, 32-bit" if version else "Python: 32-bit"),
        why="torch has 64-bit wheels only, so the installer finds no version at all. The system may well be 64-bit; the "
        "interpreter is what counts.",
        remedy=Remedy(
            text="Install the 64-bit Python (the x86-64 installer), delete the virtual environment, make it anew with that "
            "Python, and install torch there.",
            commands=("py -0p", "py -3-64 -m venv .venv") if derive.wheel_os(facts) == "windows" else (SHOW_PYTHON,),
        ),
        line=item.line if item else derive.line_of(facts, "python.bits", "python.version"),
    )  # fmt: skip


@rule("macos-intel-no-wheel", "install", "x86_64 Python on macOS: the wheels end at 2.2.2.",
      explains=("python-no-wheel", "torch-not-installed", "numpy-abi-mismatch", "no-such-release"))  # fmt: skip
def macos_intel(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """An Intel Mac, or an Intel Python (Rosetta) on Apple silicon, that asks for a newer torch."""
    last = last_intel_mac(matrix)
    rosetta = facts.system.rosetta or (
        (facts.apple.chip or "").startswith("Apple") and facts.python.machine == "x86_64"
    )
    for request in requests(facts):
        if not is_intel_mac(facts, matrix, request):
            continue
        wanted = torch_of(request, matrix)
        older = wanted is not None and derive.numbers(wanted) <= derive.numbers(last) and request.exact
        if older and (request.versions or request.symptom.kind == "conda-not-available"):
            continue
        if wanted is None and request.symptom.kind == "conda-not-available":
            continue  # conda names no version, and it has older ones for Intel Macs
        yield _intel(rule, facts, request, last, rosetta=bool(rosetta))
        return
    if rosetta and derive.wheel_os(facts) == "macos":
        yield rule.finding(
            "warning",
            title="This is an x86_64 Python (Rosetta) on Apple silicon",
            seen=f"interpreter: x86_64; {facts.apple.chip or 'Apple silicon'}",
            why=f"Wheels for x86_64 macOS end with torch {last}, and an Intel Python has no MPS.",
            remedy=_arm_python(last),
            line=derive.line_of(facts, "python.machine"),
        )


def _intel(rule: Rule, facts: Facts, request: Request, last: str, *, rosetta: bool) -> Finding:
    said = facts.python.machine or facts.system.machine or "macosx" in request.symptom.details.get("have", "")
    sure = bool(said) or (derive.wheel_os(facts) == "macos" and bool(_finals(request.versions)))
    return rule.finding(
        "error",
        title=f"x86_64 macOS has no torch wheel after {last}",
        seen=derive.quote(
            request.symptom,
            f"asked for: {request.text}",
            f"newest version offered: {_finals(request.versions)[-1]}" if _finals(request.versions) else None,
            "x86_64 Python on Apple silicon (Rosetta)" if rosetta else None,
        ),
        why=f"Wheels for Intel macOS end with torch {last}. An x86_64 Python gets only those, on an Intel Mac and under "
        "Rosetta on Apple silicon alike.",
        remedy=_arm_python(last),
        confidence="certain" if sure else "likely",
        otherwise="" if sure else f"`{SHOW_PYTHON}` shows what the interpreter is made for.",
        line=request.symptom.line,
    )


def _arm_python(last: str) -> Remedy:
    return Remedy(
        text="On Apple silicon: install an arm64 Python (python.org, Homebrew in /opt/homebrew, Miniforge arm64, or uv) and a "
        f'new environment with it. On an Intel Mac: stay on torch {last} with "numpy<2".',
        commands=(
            'python3 -c "import platform; print(platform.machine())"',
            f'python3 -m pip install "torch=={last}" "numpy<2"',
        ),
    )


@rule("wheel-index-missing", "install", "The build that was asked for is not on the index that was searched.")
def wheel_index_missing(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """+cuXYZ is only on PyTorch's own index; or that index never had this release as such a build."""
    if is_32bit(facts) or is_musl(facts, None):
        return
    gone = facts.symptom("index-file-gone")
    if gone is not None and re.search(r"/(?:torch|pytorch|triton|nvidia)", gone.details["url"]):
        yield _file_gone(rule, facts, matrix, gone)
        return
    parts = _without_nvidia_channel(facts)
    if parts is not None:
        yield _nvidia_channel(rule, *parts)
        return
    for request in requests(facts):
        label, version = request.label, torch_of(request, matrix)
        if request.symptom.kind in ("wheel-not-supported", "poetry-no-candidate"):
            continue  # a file was named, or the lock file has the index: no index is missing
        if request.versions == ():
            continue  # PyPI would have listed its own versions for a Python that it has wheels for
        if not label or version is None or is_intel_mac(facts, matrix, request):
            continue
        os, machine = derive.wheel_os(facts) or "linux", derive.assumed_machine(facts)
        names = [v.name for v in matrix.variants(version, os, machine)]
        exists = label in names
        python = derive.python_minor(facts)
        if exists and python and python not in matrix.pythons(version, os, machine, label):
            continue
        listed = [v for v in request.versions or () if "+" in v]
        if exists and listed:
            continue
        url = f"https://download.pytorch.org/whl/{label}"
        yield rule.finding(
            "error",
            title=f"{request.text} is not on the index that was searched",
            seen=derive.quote(request.symptom),
            why=f"Builds with a +{label} label are not on PyPI; they are on PyTorch's own index."
            if exists or not names
            else f"torch {version} has no {label} build for this platform; it has {', '.join(names)}.",
            remedy=Remedy(
                text="Name the index together with the version."
                if exists
                else "Choose one of the builds that exist.",
                commands=(remedies.pip(facts, "install", request.text, "--index-url", url),)
                if exists
                else planned(facts, matrix).commands,
            ),
            confidence="certain" if names else "likely",
            otherwise="" if names else f"{url} lists what there is.",
            line=request.symptom.line,
        )  # fmt: skip
        return


def _file_gone(rule: Rule, facts: Facts, matrix: Matrix, item: Symptom) -> Finding:
    """A lock file or a cached page names a file that the index does not have (any more)."""
    nightly = "/nightly/" in item.details["url"]
    made = planned(facts, matrix)
    return rule.finding(
        "error",
        title=f"The index does not have this file (HTTP {item.details['code']})",
        seen=derive.quote(item),
        why="Nightly builds are removed after some weeks." if nightly else "The address was made up, or comes from a lock file or a page of "
        "another time; PyTorch's server answers 403 as well for what it does not have.",
        remedy=Remedy(
            text=("Take the newest nightly, or a release. " if nightly else "Let the installer look the file up anew. ") + made.text,
            commands=made.commands,
        ),
        confidence="likely",
        otherwise="403 also comes from a proxy or a country that the server refuses: open the address in a browser from the same place.",
        line=item.line,
    )  # fmt: skip


def _without_nvidia_channel(facts: Facts) -> tuple[Symptom, str | None] | None:
    """(symptom, command) of an installation of pytorch-cuda that does not look into the channel that has CUDA's parts."""
    item = facts.symptom("conda-cuda-parts-missing")
    if item is not None:
        return item, None
    failed = facts.symptom("conda-unsatisfiable")
    tried = [
        c
        for c in facts.commands
        if re.search(r"\b(?:conda|mamba)\b[^|;&]* (?:install|create)\b[^|;&]*\bpytorch-cuda=", c)
    ]
    if failed is None or not tried or any(re.search(r"\bnvidia\b|\bconda-forge\b", c) for c in tried):
        return None  # one that named the channel failed as well: something else is the matter
    return failed, tried[-1]


def _nvidia_channel(rule: Rule, item: Symptom, command: str | None) -> Finding:
    return rule.finding(
        "error",
        title="pytorch-cuda needs the CUDA packages of the channel nvidia, which was not searched",
        seen=derive.quote(item, command),
        why="The channel pytorch has pytorch-cuda alone; the parts that it asks for (cuda-cudart, libcublas and others) are in the "
        "channel nvidia. Without it conda finds no environment, and its list of conflicts names anything but that.",
        remedy=Remedy(
            text="Name both channels, pytorch first.",
            commands=("conda install pytorch torchvision torchaudio pytorch-cuda=12.4 -c pytorch -c nvidia",),
        ),
        confidence="likely",
        otherwise="`conda config --show channels channel_priority` shows what else is searched, and whether a strict order hides it.",
        line=item.line,
    )


@rule("no-such-release", "install", "A release that does not exist was asked for.")
def no_such_release(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """A version number that was never published."""
    for request in requests(facts):
        version = request.version
        if (
            version is None
            or not request.exact
            or request.package not in ("torch", "pytorch", "torchvision", "torchaudio")
        ):
            continue
        if derive.is_prerelease(version) or not _never(matrix, request.package, version):
            continue
        near = ", ".join(matrix.near(version)) if request.package in ("torch", "pytorch") else ""
        extra = ""
        if request.package == "torchaudio":
            extra = (
                "torchaudio has no release for each torch after 2.11: torchaudio 2.11.x serves torch 2.11 and newer."
            )
        made = planned(facts, matrix)
        yield rule.finding(
            "error",
            title=f"{request.package} {version} was never released",
            seen=derive.quote(request.symptom),
            why=f"No release of that number exists, for any Python or system. {extra}".strip(),
            remedy=Remedy(text=(f"Close ones: {near}. " if near else "") + made.text, commands=made.commands),
            confidence="likely",
            otherwise=f"The tables of envcheck end at torch {matrix.releases[-1].version}; a newer release is not in them.",
            line=request.symptom.line,
        )
        return


def _never(matrix: Matrix, package: str, version: str) -> bool:
    first, last = derive.numbers(matrix.releases[0].version), derive.numbers(matrix.releases[-1].version)
    if package in ("torch", "pytorch"):
        number = derive.numbers(version)
        return first <= number <= last and len(number) > 1 and matrix.release(version) is None
    if package == "torchaudio":
        return derive.numbers(version)[:2] > (2, 11) and derive.numbers(version)[0] == 2
    return False


@rule("conda-channel-ended", "install", "The conda channel pytorch has no package of this release.")
def conda_channel_ended(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """The channel stopped after 2.5.1; newer torch for conda comes from conda-forge."""
    for request in requests(facts):
        version = request.version
        if request.symptom.kind != "conda-not-available" or version is None:
            continue
        if request.package == "pytorch-cuda":
            ended = derive.numbers(version) > (12, 4)
        else:
            ended = derive.numbers(version)[:2] > derive.numbers(LAST_ON_PYTORCH_CHANNEL)[:2]
        if not ended:
            continue
        yield rule.finding(
            "error",
            title=f"The conda channel pytorch ended with {LAST_ON_PYTORCH_CHANNEL}; {request.text} is not on it",
            seen=derive.quote(request.symptom),
            why="PyTorch stopped making conda packages of its own; conda-forge builds newer ones under the same name.",
            remedy=Remedy(
                text="Take pytorch from conda-forge (pytorch-gpu for CUDA, cuda-version to choose it), or install the wheel with pip.",
                commands=("conda install -c conda-forge pytorch-gpu",),
            ),
            line=request.symptom.line,
        )
        return


@rule("python-no-wheel", "install", "No wheel of that torch exists for this Python or platform.",
      explains=("torch-not-installed", "wrong-interpreter"))  # fmt: skip
def python_no_wheel(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """The release has wheels, and none of them is for this Python on this system."""
    if is_32bit(facts) or any(glibc_of_hint(item) for item in facts.symptoms):
        return
    for request in requests(facts):
        if is_intel_mac(facts, matrix, request) and _beyond_intel(request, matrix):
            continue
        if request.exact and request.version and _never(matrix, request.package, request.version):
            continue
        reason = _reason(facts, matrix, request)
        if reason is None:
            continue
        title, why, certain = reason
        yield rule.finding(
            "error",
            title=title,
            seen=derive.quote(request.symptom, _python_label(facts), derive.wheel_os(facts)),
            why=why,
            remedy=_no_wheel_remedy(facts, matrix, request),
            confidence="certain"
            if certain
            else "likely"
            if request.versions or derive.python_minor(facts)
            else "possible",
            otherwise="" if certain else f"`{SHOW_PYTHON}` shows which Python and platform the installer looks for.",
            line=request.symptom.line,
        )
        return
    source = facts.symptom("torch-source-of-2017")
    if source is not None:
        yield _source_of_2017(rule, facts, matrix, source)
        return
    yield from _glibc_wheel_on_musl(rule, facts)
    yield from _live_without_wheel(rule, facts, matrix)


def _source_of_2017(rule: Rule, facts: Facts, matrix: Matrix, item: Symptom) -> Finding:
    """Pip took torch 0.1.2, the only source package, which means that it saw no wheel that fits."""
    made = planned(facts, matrix)
    return rule.finding(
        "error",
        title="pip saw no wheel of torch for this Python or platform, and took a source package of 2017",
        seen=derive.quote(item, _python_label(facts), derive.wheel_os(facts)),
        why="torch 0.1.2 on PyPI is the only source package; it cannot be built. pip comes to it when none of the wheels fits: a 32-bit Python, "
        "one that is newer (or older) than the wheels, a pip that is too old, or (years ago) Windows, whose wheels were not on PyPI.",
        remedy=Remedy(text=f"Use a 64-bit Python that torch has wheels for, with a current pip. {made.text}", commands=(SHOW_PYTHON, *made.commands)),
        confidence="likely",
        otherwise=f"`{SHOW_PYTHON}` shows which Python and platform the installer looks for.",
        line=item.line,
    )  # fmt: skip


def _glibc_wheel_on_musl(rule: Rule, facts: Facts) -> Iterator[Finding]:
    """Musl's loader at a library of torch: the wheel was forced onto a system that it is not made for."""
    for item in facts.symptoms:
        where = item.details.get("needed_by") or item.details.get("musl_file") or ""
        if ("musl" in item.details or "musl_symbol" in item.details) and re.search(r"torch|nvidia|triton", where):
            yield rule.finding(
                "error",
                title="torch's wheel is made for glibc, and this system has musl (Alpine)",
                seen=derive.quote(item),
                why="All Linux wheels of torch are made for glibc; its libraries do not load with musl's loader.",
                remedy=Remedy(
                    text="Use an image with glibc (Debian or Ubuntu based, such as python:3.12-slim), or conda."
                ),
                line=item.line,
            )
            return


def _beyond_intel(request: Request, matrix: Matrix) -> bool:
    wanted = torch_of(request, matrix)
    return wanted is None or derive.numbers(wanted) > derive.numbers(last_intel_mac(matrix)) or not request.versions


def _python_label(facts: Facts) -> str | None:
    minor = derive.python_minor(facts)
    return f"Python {minor}" if minor else None


def _reason(facts: Facts, matrix: Matrix, request: Request) -> tuple[str, str, bool] | None:
    """(title, why, certain) of a missing wheel; None when it is another rule's matter."""
    if is_musl(facts, request):
        return (
            "torch has no wheels for musl (Alpine)",
            "All Linux wheels of torch are made for glibc; a musl system such as Alpine finds none.",
            True,
        )
    if request.label and request.versions is None and request.symptom.kind == "no-matching-distribution":
        python = derive.python_minor(facts)
        if python is None:
            return None
    name, wanted = request.text, torch_of(request, matrix)
    python, os = derive.python_minor(facts), derive.wheel_os(facts)
    tag = re.search(r"-(cp\d+)-", request.symptom.details.get("wheel", ""))
    if tag:
        return (
            f"{request.symptom.details['wheel']} is for another Python or platform",
            f"The file name says {tag.group(1)} and its platform; pip takes it only in that Python"
            + (f", and this is Python {python}." if python else "."),
            True,
        )
    have = request.symptom.details.get("have")
    if have:
        return (
            f"{name} has no wheel for this Python or platform",
            f"The installer looks for {have.replace('`', '')}.",
            True,
        )
    if wanted and python and (os or derive.wheel_machine(facts)):
        return _by_tables(facts, matrix, request, wanted, python)
    listed = _finals(request.versions)
    if wanted and listed:
        if derive.numbers(wanted) < derive.numbers(listed[0]):
            return (
                f"{name} has no wheel for this Python{f' ({python})' if python else ''}: the oldest offered is {listed[0]}",
                (
                    "The list that pip printed is what fits this Python and system. The release that was asked for is older than "
                    "all of it, so it was made for older Pythons."
                ),
                False,
            )
        if derive.numbers(wanted) > derive.numbers(listed[-1]):
            return (
                f"{name} has no wheel for this Python{f' ({python})' if python else ''}: the newest offered is {listed[-1]}",
                (
                    "The list that pip printed is what fits this Python and system. The release that was asked for is newer than "
                    "all of it: newer releases dropped this Python, or this platform."
                ),
                False,
            )
    if request.package == "torchvision" and listed and derive.numbers(listed[-1]) < (0, 3):
        return (
            f"There is no wheel of torchvision for this Python or platform: the newest offered is {listed[-1]}",
            (
                "Releases up to 0.2.2 are Python only and fit everywhere; those with compiled parts (0.3 and newer) are made for "
                "certain Pythons and platforms, and none of them fits."
            ),
            False,
        )
    needs = derive.detail(request.symptom, "needs", "range", "wants")
    if (
        needs
        and wanted
        and python
        and request.symptom.kind == "conda-python-conflict"
        and _made_for(matrix, wanted, python)
    ):
        return None  # conda's list of ranges is of all builds that it looked at, and is known to leave out the one that fits
    if needs:
        return (
            f"{name} needs Python {needs}",
            f"The package is not made for this Python{f' ({python})' if python else ''}.",
            True,
        )
    tags = request.symptom.details.get("tags")
    if tags in ("abi", "python"):
        return (
            f"{name} has no wheel for this Python{f' ({python})' if python else ''}",
            (
                "Poetry knows the release's wheels and skipped them for their Python tags: they are made for other versions of "
                "Python than the one of this project's environment (a free-threaded one counts as another)."
            ),
            False,
        )
    if request.versions == () or request.symptom.kind in ("poetry-no-candidate", "uv-no-wheel"):
        what = derive.detail(request.symptom, "what")
        return (
            f"There is no wheel of {name} for this Python or platform",
            (
                f"No published file fits this {what or 'Python, system and machine'}: mostly the Python is newer than the release, or "
                "older than it accepts; else the platform (musl, 32-bit, Intel macOS) or the index that was searched."
            ),
            False,
        )
    return None


def _made_for(matrix: Matrix, torch: str, python: str) -> bool:
    """The release was made for this Python on Linux and Windows alike."""
    return all(python in matrix.pythons(torch, os, "x86_64") for os in ("linux", "windows"))


def _by_tables(
    facts: Facts, matrix: Matrix, request: Request, wanted: str, python: str
) -> tuple[str, str, bool] | None:
    os, machine = derive.wheel_os(facts) or "linux", derive.assumed_machine(facts)
    variant = request.label or None
    pythons = matrix.pythons(wanted, os, machine, variant) or matrix.pythons(wanted, os, machine)
    if python in pythons and request.versions != ():
        return None
    if not pythons and matrix.release(wanted) is None and not matrix.is_newer_than_tables(wanted):
        return (
            f"{request.text} has no wheel for Python {python}",
            "That release is older than the tables go; it was made for Pythons of its own time.",
            False,
        )
    if python in pythons:
        return (
            f"The installer found no wheel of {request.text}, although there is one for Python {python}",
            "It looked on another index, for another platform, or with a pip too old to know the file names of today.",
            False,
        )
    span = f"{pythons[0]} to {pythons[-1]}" if pythons else "no Python on this platform"
    return (
        f"{request.text} has no wheel for Python {python}" + (f" on {os}" if derive.wheel_os(facts) else ""),
        f"torch {wanted} has wheels for Python {span}" + (f" ({os}, {machine})." if pythons else "."),
        matrix.release(wanted) is not None,
    )


def _no_wheel_remedy(facts: Facts, matrix: Matrix, request: Request) -> Remedy:
    if is_musl(facts, request):
        return Remedy(text="Use an image with glibc (Debian or Ubuntu based, such as python:3.12-slim), or conda.")
    os, machine = derive.wheel_os(facts) or "linux", derive.assumed_machine(facts)
    wanted, python = torch_of(request, matrix), derive.python_minor(facts)
    parts, commands = [], []
    pythons = matrix.pythons(wanted, os, machine) if wanted else ()
    if python in pythons:
        parts.append(
            f"Python {python} itself is right for {request.text}: see that the installer runs in that Python, and which index "
            "and platform it looks at."
        )
        commands.append(SHOW_PYTHON)
        return Remedy(text=parts[0], commands=tuple(commands))
    if pythons:
        best = [p for p in pythons if not p.endswith("t")][-1]
        parts.append(f"Use Python {best} for {request.text} (it has wheels for {', '.join(pythons)}).")
        commands.append(f"uv venv --python {best}")
    newest = newest_for(matrix, os, machine, python) if python else None
    if newest:
        parts.append(f"Or install torch {newest}, the newest release with a wheel for Python {python}.")
        commands.append(remedies.pip(facts, "install", f"torch=={newest}"))
    elif not pythons:
        made = planned(facts, matrix)
        parts.append(made.text)
        commands.extend(made.commands)
    return Remedy(text=" ".join(parts), commands=tuple(commands))


def _live_without_wheel(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """No torch, and plain pip could not bring it either."""
    if facts.torch.found is not False or facts.origin != "live":
        return
    python, os, machine = derive.python_minor(facts), derive.wheel_os(facts), derive.wheel_machine(facts)
    if not python or not os or not machine:
        return
    if not is_musl(facts, None) and newest_for(matrix, os, machine, python):
        return
    made = planned(facts, matrix)
    yield rule.finding(
        "error",
        title="torch has no wheels for musl (Alpine)" if is_musl(facts, None) else f"No torch release has a wheel for Python {python} here",
        seen=f"Python {python}, {os}, {machine}" + (", musl" if is_musl(facts, None) else ""),
        why="pip and uv would find no version at all.",
        remedy=Remedy(text="Use an image with glibc (Debian or Ubuntu based), or conda.") if is_musl(facts, None) else made,
    )  # fmt: skip


@rule("externally-managed-environment", "install", "pip refuses to change the system's Python.")
def externally_managed(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """PEP 668: the distribution keeps its own Python to itself."""
    item = facts.symptom("externally-managed")
    if item is None:
        return
    yield rule.finding(
        "error",
        title="pip may not install into the system's Python (externally managed)",
        seen=derive.quote(item),
        why="The distribution marks its Python so that pip cannot break the system's own programs.",
        remedy=Remedy(
            text="Make a virtual environment and install there.",
            commands=("python3 -m venv .venv", ". .venv/bin/activate", "python -m pip install torch"),
        ),
        line=item.line,
    )


RULES: tuple[Rule, ...] = (
    python_32bit,
    macos_intel,
    wheel_index_missing,
    no_such_release,
    conda_channel_ended,
    python_no_wheel,
    externally_managed,
)
