"""torch's nvidia-* wheels: are they there, are they the ones that it asks for, do two of them share a directory?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from envcheck.facts import Distribution, Facts
from envcheck.findings import Finding, Remedy
from envcheck.matrix import Matrix
from envcheck.rules import derive, remedies
from envcheck.rules.base import Rule, rule
from envcheck.rules.library_loader import CUDA_FAMILIES, WHEEL_OF_FAMILY, LoaderError, base_name, loader_errors

_FAMILY_OF_WHEEL = re.compile(r"^(nvidia-[a-z0-9-]+?)-cu(\d{2})$")


@dataclass(frozen=True)
class Pin:
    """What torch asks for, and what is there."""

    name: str
    specifier: str
    installed: str | None

    @property
    def missing(self) -> bool:
        """Not installed at all."""
        return self.installed is None

    @property
    def older(self) -> bool | None:
        """Older than the pin: then symbols are missing for sure."""
        from packaging.version import InvalidVersion, Version

        match = re.match(r"[=~><]=\s*([\w.]+)", self.specifier)
        if match is None or self.installed is None:
            return None
        try:
            return Version(self.installed) < Version(match.group(1))
        except InvalidVersion:
            return None


def nvidia_pins(facts: Facts, matrix: Matrix) -> tuple[Pin, ...]:
    """The nvidia-* requirements of the torch that is installed, from its own metadata or (for the PyPI build) the tables."""
    lines = tuple(line for line in _requirements(facts, matrix) if line.lower().startswith("nvidia"))
    if not lines:
        return ()
    from packaging.requirements import InvalidRequirement, Requirement

    marker = _environment(facts)
    pins = []
    for line in lines:
        try:
            asked = Requirement(line)
        except InvalidRequirement:
            continue
        name = asked.name.lower().replace("_", "-")
        if not name.startswith("nvidia-") or (asked.marker and not asked.marker.evaluate(marker)):
            continue
        found = facts.distribution(name)
        pins.append(Pin(name, str(asked.specifier), found.version if found else None))
    return tuple(pins)


def _requirements(facts: Facts, matrix: Matrix) -> tuple[str, ...]:
    found = facts.distribution("torch")
    if found is not None and found.requires is not None:
        return found.requires
    version, os, machine = derive.torch_version(facts), derive.wheel_os(facts), derive.wheel_machine(facts)
    variant = derive.torch_variant(facts, matrix)
    if not version or not os or not machine or derive.torch_from_conda(facts) or variant is None:
        return ()
    if variant.value != matrix.pypi_variant(version, os, machine):
        return ()
    return tuple(
        f"{r.package}{'[' + ','.join(r.extras) + ']' if r.extras else ''}{r.specifier}{' ; ' + r.marker if r.marker else ''}"
        for r in matrix.requires(version, os, machine)
    )


def _environment(facts: Facts) -> dict[str, str]:
    """Marker values of the machine under test, never those of the Python that runs envcheck."""
    os = derive.wheel_os(facts) or "linux"
    version = facts.python.version or "3.11"
    return {
        "platform_system": {"linux": "Linux", "windows": "Windows", "macos": "Darwin"}.get(os, ""),
        "sys_platform": {"linux": "linux", "windows": "win32", "macos": "darwin"}.get(os, ""),
        "os_name": "nt" if os == "windows" else "posix",
        "platform_machine": derive.assumed_machine(facts),
        "python_version": ".".join(version.split(".")[:2]),
        "python_full_version": version,
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
        "extra": "",
    }


def _absent_library(facts: Facts) -> LoaderError | None:
    """A CUDA library that torch itself asked for and that is nowhere."""
    for error in loader_errors(facts):
        # "Could not load library libcudnn_..." is cuDNN (or another program) that asks by name: the rule of cuDNN.
        ours = error.owner in ("torch", "nvidia", "unknown") and "asked" not in error.symptom.details
        if ours and error.kind == "missing-library" and error.needs in CUDA_FAMILIES and not error.symptom.echo:
            return error
    return None


def _holds_its_libraries(facts: Facts) -> bool:
    """Up to 1.12 the wheel of torch brought the CUDA libraries itself."""
    parts = derive.numbers(derive.torch_version(facts))
    return len(parts) > 1 and parts[:2] < (1, 13)


def _of_another_cuda(error: LoaderError | None, cuda: derive.Value | None) -> bool:
    """A libcudart of another CUDA line than torch's: some other binary asks for it."""
    match = re.search(r"libcudart\.so\.(\d{1,2})", (error.library if error else None) or "")
    return bool(match and cuda and cuda.value and match.group(1) != cuda.value.split(".")[0])


@rule("missing-nvidia-wheels", "install", "torch's nvidia-* wheels were not installed with it.",
      explains=("cudnn-version-incompatible", "torchvision-mismatch", "torchaudio-mismatch"))  # fmt: skip
def missing_nvidia_wheels(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """The wheel is there and what it requires is not: poetry's lock files of 2023, --no-deps, a slim image."""
    preload = facts.symptom("preload-not-found")
    error = _absent_library(facts)
    pins = nvidia_pins(facts, matrix)
    gone = (
        [p for p in pins if p.missing] if not facts.python.distributions_partial and facts.python.distributions else []
    )
    if derive.is_jetson(facts) or derive.wheel_os(facts) in ("windows", "macos") or derive.torch_from_conda(facts):
        return
    # libtorch_cuda is linked against all of them: where `import torch` works, none is missing, wherever it lies.
    loads = bool((facts.torch.imports and facts.torch.imports.ok) or facts.torch.cuda_available)
    if error is None and preload is None and (not gone or loads):
        return
    cuda = derive.torch_cuda(facts, matrix)
    if cuda is not None and not cuda.value and not cuda.derived:
        return
    if not gone and preload is None and (_holds_its_libraries(facts) or _of_another_cuda(error, cuda)):
        return
    item = preload or (error.symptom if error else None)
    library = base_name(error.library) if error and error.library else (derive.detail(preload, "library") or "")
    family = error.needs if error else None
    wheel = WHEEL_OF_FAMILY.get(family or "")
    torch = derive.torch_version(facts)
    named = ", ".join(p.name for p in gone[:6])
    yield rule.finding(
        "error",
        title=f"{library or named} is missing: torch's nvidia-* wheels were not installed with it",
        seen=derive.quote(item, torch and f"torch {torch}", named and f"required and absent: {named}"),
        why="The Linux wheel of torch holds no CUDA libraries (cuDNN, cuBLAS, NCCL ...); it requires them as packages named "
        "nvidia-*. An installer that skipped them (a lock file made from metadata of one platform, --no-deps, an old poetry) "
        "leaves a torch that cannot be loaded.",
        remedy=_install_pins(facts, matrix, gone, wheel),
        confidence="certain" if gone or preload else "likely",
        otherwise=""
        if gone or preload
        else "`python -m pip check` names what is missing. If the packages are there, the library is looked for in another "
        "environment's directory.",
        line=item.line if item else derive.line_of(facts, "python.distributions"),
    )


def _install_pins(facts: Facts, matrix: Matrix, gone: list[Pin], wheel: str | None) -> Remedy:
    if gone:
        names = [f"{p.name}{p.specifier}" for p in gone]
        return Remedy(
            text="Install what torch requires, at its own pins; or install torch again with pip, which brings them.",
            commands=(remedies.pip(facts, "install", *names),),
        )
    version = derive.base_version(derive.torch_version(facts))
    target = f"torch=={version}" if version and matrix.release(version) else "torch"
    text = "Install torch again with pip (or uv), which follows its requirements"
    if facts.python.manager == "poetry" or any("poetry" in c for c in facts.commands):
        text += "; with poetry, lock again with a current poetry, take a release whose metadata is complete (2.0.0 or 2.1 instead of 2.0.1), "
        text += f"or add the nvidia-* packages{f' ({wheel}-cuNN and its siblings)' if wheel else ''} yourself"
    return Remedy(text=text + ".", commands=(remedies.pip(facts, "install", "--force-reinstall", target),))


def _pairs(facts: Facts) -> dict[str, list[Distribution]]:
    """Families of which wheels for several CUDA majors are installed: they share one directory below nvidia/."""
    found: dict[str, list[Distribution]] = {}
    for item in facts.python.distributions or ():
        match = _FAMILY_OF_WHEEL.match(item.name)
        if match:
            found.setdefault(match.group(1), []).append(item)
    return {family: items for family, items in found.items() if len({i.name for i in items}) > 1}


@rule(
    "conflicting-nvidia-wheels",
    "install",
    "cu11/cu12/cu13 variants of one nvidia wheel share a directory.",
    explains=("library-path-shadowing", "cudnn-version-incompatible", "nvidia-wheel-versions", "corrupted-install"),
)
def conflicting_nvidia_wheels(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """The one installed last overwrote the files of the other."""
    pairs = _pairs(facts)
    # Each cu13 wheel but these lies in nvidia/cu13; the rest unpack to the directory of their cu12 sister.
    shared = {f: items for f, items in pairs.items() if not _apart(f, items)}
    if not shared:
        return
    cuda = derive.torch_cuda(facts, matrix)
    major = cuda.value.split(".")[0] if cuda and cuda.value else None
    families = [f for f in shared if f in _blamed(facts)] or list(shared)
    items = sorted((i for f in families for i in shared[f]), key=lambda i: i.name)
    error = next((e for e in loader_errors(facts) if WHEEL_OF_FAMILY.get(e.needs or "") in shared), None)
    if major is None:
        majors = sorted({i.name[-2:] for i in items})
        keep = majors[-1] if error else None
    else:
        keep = major
    wrong = [i.name for f in shared for i in shared[f] if keep and not i.name.endswith(f"-cu{keep}")]
    right = [
        f"{i.name}=={i.version}" if i.version else i.name
        for f in shared
        for i in shared[f]
        if keep and i.name.endswith(f"-cu{keep}")
    ]
    bad = error is not None or facts.symptom("cudnn-sublibrary", "cudnn-version-incompatible") is not None
    fine = facts.torch.imports is not None and facts.torch.imports.ok
    yield rule.finding(
        "error" if bad or (not fine and facts.torch.imports is not None) else "warning",
        title=f"{' and '.join(dict.fromkeys(i.name for i in items[:4]))} are both installed and share one directory",
        seen=derive.quote(error.symptom if error else None, *(f"{i.name} {i.version or ''}".strip() for i in items[:8]),
                          (cuda and cuda.value and f"torch is built for CUDA {cuda.value}") or None),
        why="Both unpack to the same nvidia/ directory: the one installed last overwrote the other's libraries, and removing one deletes "
        "files of the other. torch then loads a library of another CUDA major or version.",
        remedy=Remedy(
            text=f"Uninstall the set that torch does not name{f' ({chr(44).join(wrong[:3])})' if wrong else ''}, then reinstall the other, "
            "so that its files come back." if keep else "Uninstall both, then reinstall torch, which brings the right one.",
            commands=(
                remedies.pip(facts, "uninstall", "-y", *(wrong or [i.name for i in items])),
                remedies.pip(facts, "install", "--force-reinstall", "--no-deps", *right) if right else remedies.pip(facts, "install", "--force-reinstall", "torch"),
            ),
        ),
        line=error.symptom.line if error else derive.line_of(facts, "python.distributions"),
    )  # fmt: skip


def _apart(family: str, items: list[Distribution]) -> bool:
    """Placeholders of CUDA 13 (names such as nvidia-cublas-cu13 hold no files)."""
    renamed = family not in ("nvidia-cudnn", "nvidia-nccl", "nvidia-cusparselt", "nvidia-nvshmem")
    return renamed and {i.name[-2:] for i in items} == {"12", "13"}


def _blamed(facts: Facts) -> set[str]:
    """Wheel families that an error of the report names."""
    named = {WHEEL_OF_FAMILY.get(e.needs or "", "") for e in loader_errors(facts)}
    if facts.symptom("cudnn-sublibrary", "cudnn-version-incompatible", "cudnn-load-failed"):
        named.add("nvidia-cudnn")
    return named


@rule("nvidia-wheel-versions", "install", "An nvidia-* wheel is not of the version that torch asks for.",
      explains=("library-path-shadowing",))  # fmt: skip
def nvidia_wheel_versions(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Another package moved it; an older one lacks symbols, a newer one mostly works."""
    off = [p for p in nvidia_pins(facts, matrix) if p.installed and p.specifier and not _satisfies(p)]
    if not off or _pairs(facts):
        return
    older = [p for p in off if p.older]
    blamed = [p for p in off if re.sub(r"-cu\d\d$", "", p.name) in _blamed(facts)]
    error = next(
        (e for e in loader_errors(facts) if blamed and WHEEL_OF_FAMILY.get(e.needs or "", "-") in blamed[0].name), None
    )
    shown = blamed or older or off
    works = bool(facts.torch.cuda_available)
    names = [f"{p.name}{p.specifier}" for p in shown]
    torch = derive.torch_version(facts)
    yield rule.finding(
        "error" if error else "warning" if older and not works else "note",
        title=f"{shown[0].name} {shown[0].installed} is not the version that torch asks for ({shown[0].specifier})",
        seen=derive.quote(error.symptom if error else None, torch and f"torch {torch}", *(f"{p.name} {p.installed}, asked for {p.specifier}" for p in shown[:5])),
        why="torch was built and tested with exactly these libraries; "
        + ("an older one may lack functions that torch calls." if older else "newer ones mostly work, without a promise."),
        remedy=Remedy(text="Bring them back to torch's pins.", commands=(remedies.pip(facts, "install", "--force-reinstall", "--no-deps", *names),)),
        line=error.symptom.line if error else None,
    )  # fmt: skip


def _satisfies(pin: Pin) -> bool:
    from packaging.specifiers import InvalidSpecifier, SpecifierSet
    from packaging.version import InvalidVersion

    try:
        return SpecifierSet(pin.specifier).contains(pin.installed or "", prereleases=True)
    except (InvalidSpecifier, InvalidVersion):
        return True


RULES: tuple[Rule, ...] = (conflicting_nvidia_wheels, missing_nvidia_wheels, nvidia_wheel_versions)
