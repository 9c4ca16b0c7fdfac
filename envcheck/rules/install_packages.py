"""Packages that have to go together: NumPy, MKL, setuptools, and builds of one index."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.facts import Facts, Symptom
from envcheck.findings import Finding, Remedy
from envcheck.matrix import Matrix
from envcheck.rules import derive, remedies
from envcheck.rules.base import Rule, rule
from envcheck.rules.install_nvidia import nvidia_pins
from envcheck.rules.library_loader import loader_errors

# --- NumPy --------------------------------------------------------------------------------------------------------


def numpy_ready(facts: Facts, matrix: Matrix) -> bool | None:
    """Whether the torch that is installed was built so that NumPy 2 works; None = unknown."""
    version, os = derive.torch_version(facts), derive.wheel_os(facts)
    release = matrix.release(version) if version else None
    if release is None:
        return None
    if os:
        return release.numpy2.get(os)
    answers = set(release.numpy2.values())
    return answers.pop() if len(answers) == 1 else None


def _numpy_version(facts: Facts) -> str | None:
    for item in derive.symptoms(facts, "numpy-abi"):
        if item.details.get("numpy"):
            return item.details["numpy"].rstrip(".")
    found = facts.distribution("numpy")
    return found.version if found else None


@rule("numpy-abi-mismatch", "install", "Compiled for NumPy 1.x, run with NumPy 2.")
def numpy_abi(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """A module of the NumPy 1 time in a process with NumPy 2: conversion to and from arrays is off."""
    error = facts.symptom("numpy-abi", "numpy-unavailable")
    numpy, ready = _numpy_version(facts), numpy_ready(facts, matrix)
    modern = derive.numbers(numpy)[:1] >= (2,)
    bridge = facts.torch.numpy_bridge
    if error is None:
        if not (modern and ready is False) or (bridge is not None and bridge.ok):
            return
    elif error.kind == "numpy-unavailable" and (
        facts.symptom("numpy-missing") or not _could_be_abi(facts, numpy, ready)
    ):
        yield _numpy_absent(rule, facts, matrix, numpy)
        return
    torch = derive.torch_version(facts)
    who = f"torch {torch}" if torch and ready is False else "A compiled module here"
    yield rule.finding(
        "warning" if error is None and bridge is None else "error",
        title=f"{who} was built for NumPy 1.x and cannot use NumPy {numpy or '2'}",
        seen=derive.quote(error, torch and f"torch {torch}", numpy and f"numpy {numpy}"),
        why="NumPy 2 changed its binary interface. Modules compiled for NumPy 1 cannot use it: Tensor.numpy() and from_numpy() "
        "fail, other such modules may not import at all."
        + (" torch itself was built for both only from 2.3 on (Windows: 2.4.1)." if ready is False else ""),
        remedy=_numpy_remedy(facts, matrix, ready=ready),
        confidence="certain" if numpy and modern else "likely",
        otherwise="" if ready is False or not torch else "The module that was compiled for NumPy 1 is the one whose import the "
        "traceback shows; update that one.",
        line=error.line if error else derive.line_of(facts, "python.distributions"),
    )  # fmt: skip


def _could_be_abi(facts: Facts, numpy: str | None, ready: bool | None) -> bool:
    """ "Numpy is not available" has two causes: NumPy is not there, or its interface is another one."""
    if numpy is None:
        return facts.python.distributions is None or bool(facts.python.distributions_partial) or ready is False
    return derive.numbers(numpy)[:1] >= (2,) and ready is not True


def _numpy_remedy(facts: Facts, matrix: Matrix, *, ready: bool | None) -> Remedy:
    text = 'Install "numpy<2"'
    if ready is True:
        text += ", or newer releases of the modules that were compiled for NumPy 1"
    else:
        text += ", or a newer torch (2.3 or newer; on Windows 2.4.1 or newer), which takes NumPy 2"
    command = (
        'conda install "numpy<2"'
        if facts.python.kind == "conda" and derive.torch_from_conda(facts)
        else remedies.pip(facts, "install", "numpy<2")
    )
    return Remedy(text=text + ".", commands=(command,))


def _numpy_absent(rule: Rule, facts: Facts, matrix: Matrix, numpy: str | None) -> Finding:
    item = facts.symptom("numpy-unavailable", "numpy-missing")
    return rule.finding(
        "error",
        title="torch cannot use NumPy: it is not installed, or does not load"
        if numpy is None
        else f"torch cannot use NumPy {numpy}",
        seen=derive.quote(item, numpy and f"numpy {numpy}"),
        why="torch looks for NumPy once, when it starts; without a NumPy that loads, conversions are off.",
        remedy=Remedy(
            text="Install NumPy into this very environment.", commands=(remedies.pip(facts, "install", "numpy"),)
        ),
        confidence="likely",
        otherwise='`python -c "import numpy; print(numpy.__version__)"` shows whether NumPy itself loads.',
        line=item.line if item else None,
    )


@rule("numpy-name-removed", "install", "A package uses a name that NumPy has removed.")
def numpy_name_removed(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """np.float and its kin went with NumPy 1.24, np.float_, np.NaN and others with 2.0."""
    item = facts.symptom("numpy-name-removed")
    if item is None:
        return
    name = derive.detail(item, "name", "removed") or "that name"
    early = name in ("float", "int", "bool", "object", "str", "complex", "long", "unicode", "typeDict")
    bound = "numpy<1.24" if early else "numpy<2"
    yield rule.finding(
        "error",
        title=f"A package uses np.{name}, which NumPy {'1.24' if early else '2.0'} removed",
        seen=derive.quote(item, (v := _numpy_version(facts)) and f"numpy {v}"),
        why="The package in the traceback was written for an older NumPy. torch is not concerned.",
        remedy=Remedy(
            text=f"Update that package; if there is no newer release, install {bound}.",
            commands=(remedies.pip(facts, "install", bound),),
        ),
        line=item.line,
    )


# --- MKL ----------------------------------------------------------------------------------------------------------


@rule("mkl-ijit-symbol", "install", "MKL 2024.1 or newer without the symbol that this torch needs.",
      explains=("library-path-shadowing", "corrupted-install"))  # fmt: skip
def mkl_ijit(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Builds that link MKL dynamically (conda's, Intel's) look for a profiling hook that MKL 2024.1 dropped."""
    error = next((e for e in loader_errors(facts) if re.match(r"iJIT_|__itt_", e.symbol or "")), None)
    found = facts.distribution("mkl")
    conda = derive.torch_from_conda(facts)
    new = found is not None and derive.numbers(found.version)[:2] >= (2024, 1)
    if error is None and not (_old_conda_build(facts) and new and facts.torch.imports and facts.torch.imports.bad):
        return
    version = found.version if found else None
    symbol = error.symbol if error else "iJIT_NotifyEvent"
    command = (
        'conda install "mkl<2024.1"'
        if conda or facts.python.kind == "conda" or not found
        else remedies.pip(facts, "install", "mkl<2024.1")
    )
    yield rule.finding(
        "error",
        title=f"The MKL that is loaded{f' ({version})' if version else ''} lacks {symbol}, which this torch needs",
        seen=derive.quote(error.symptom if error else None, version and f"mkl {version}"),
        why="MKL 2024.1 removed that symbol. torch builds that use a shared MKL (conda packages of the pytorch channel, Intel's own "
        "builds) and were made for an older MKL fail to import.",
        remedy=Remedy(
            text="Go back to MKL 2024.0 (oneAPI: source the 2024.0 environment instead of a newer one), or install torch's pip wheel, "
            "which carries its MKL inside.",
            commands=(command,),
        ),
        confidence="certain" if error else "likely",
        line=error.symptom.line if error else None,
    )


def _old_conda_build(facts: Facts) -> bool:
    return any(d.name == "pytorch" and d.channel == "pytorch" for d in facts.python.distributions or ())


# --- builds of one index ------------------------------------------------------------------------------------------


@rule("mixed-build-labels", "install", "Packages of the torch family come from builds for different CUDA versions.")
def mixed_labels(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """+cu121 beside +cu124 of one CUDA major mostly works; +cpu beside +cu is the companions' own rule."""
    labels = {}
    for name in ("torch", "torchvision", "torchaudio"):
        version = derive.torch_version(facts) if name == "torch" else derive.module_version(facts, name)
        match = re.match(r"cu\d{2,3}", derive.local_label(version))
        if match:
            labels[name] = match.group(0)
    if len(set(labels.values())) < 2 or len({label[:-1] for label in labels.values()}) > 1:
        return
    shown = ", ".join(f"{name} +{label}" for name, label in labels.items())
    yield rule.finding(
        "note",
        title=f"Builds of different CUDA versions are mixed: {shown}",
        seen=shown,
        why="Within one CUDA major the libraries are compatible; the mix shows that the packages were installed at different times "
        "or from different indexes.",
        remedy=Remedy(text="Install them together, from one index, next time."),
        line=derive.line_of(facts, "python.distributions"),
    )


# Source: PyPI release pages (yanked flags) and the metadata of the wheels named.
_YANKED: tuple[tuple[str, str, str, str], ...] = (
    ("nvidia-cudnn-cu12", "9.25.0.15", "all its files are yanked", "9.25.1.1"),
    ("nvidia-cudnn-cu13", "9.25.0.15", "all its files are yanked", "9.25.1.1"),
    ("torchvision", "0.11.0", "it pins torch==1.10.0+cu102, which PyPI does not have", "0.11.1"),
    ("torchvision", "0.15.0", "it pins torch==2.0.0+cu117, which PyPI does not have", "0.15.1"),
    (
        "nvidia-cublas",
        "13.4.0.1",
        "its NVFP4 matmul can give wrong results (CUDA 13.2 Update 1 release notes)",
        "13.4.1",
    ),
)


@rule("yanked-package", "install", "A release that its makers withdrew, or that is known to be broken, is installed.")
def yanked(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Withdrawn releases stay installed where a lock file names them."""
    for name, version, reason, instead in _YANKED:
        found = facts.distribution(name)
        if found is None or derive.base_version(found.version) != version:
            continue
        pin = next((p for p in nvidia_pins(facts, matrix) if p.name == name), None)
        target = f"{name}{pin.specifier}" if pin and pin.specifier else f"{name}=={instead}"
        yield rule.finding(
            "warning",
            title=f"{name} {version} should not be used: {reason}",
            seen=f"{name} {version} is installed",
            why="The release was withdrawn or has a known fault.",
            remedy=Remedy(text=f"Install {target}.", commands=(remedies.pip(facts, "install", target),)),
            line=found.line,
        )


# --- setuptools ---------------------------------------------------------------------------------------------------


@rule("setuptools-incompatible", "install", "setuptools, or a part of it that is needed here, is missing.")
def setuptools_incompatible(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """pkg_resources left with setuptools 82, distutils with Python 3.12, and no virtual environment of 3.12 has setuptools."""
    item = facts.symptom("setuptools-missing-part", "setuptools-cap")
    if item is None:
        return
    part = derive.detail(item, "module", "attribute") or ("pkg_resources" if item.details.get("name") else "setuptools")
    found = facts.distribution("setuptools")
    version, torch = (found.version if found else derive.detail(item, "have")), derive.torch_version(facts)
    if item.kind == "setuptools-cap":
        title = f"torch {item.details.get('torch', '')} asks for setuptools{item.details.get('cap', '')}".replace(
            "  ", " "
        )
        why = "torch 2.11.0 to 2.12.1 cap setuptools; another package wants a newer one. 2.13 lifted the cap."
        want, severity = f"setuptools{item.details.get('cap', '<82')}", "warning"
    elif part == "pkg_resources":
        title, severity, want = (
            "pkg_resources is gone: setuptools is too new for this code, or missing",
            "error",
            "setuptools<82",
        )
        why = "setuptools 82 (February 2026) removed pkg_resources; torch.utils.cpp_extension before 2.9 and many packages import it."
    elif part == "distutils":
        title, severity, want = "distutils is not there", "error", "setuptools<82"
        why = "Python 3.12 removed distutils; setuptools brings it back, if it is installed. (setuptools 59.6 changed what torch 1.10's "
        why += "tensorboard support reads from it.)"
    else:
        title, severity, want = "setuptools is not installed", "error", "setuptools<82"
        why = "Environments of Python 3.12 and newer come without setuptools; compiling extensions, and Triton's launcher, need it."
    yield rule.finding(
        severity,
        title=title,
        seen=derive.quote(item, torch and f"torch {torch}", version and f"setuptools {version}"),
        why=why,
        remedy=Remedy(
            text="Install a setuptools that has it; when a package is built, build it without isolation so that this one is used.",
            commands=(remedies.pip(facts, "install", want),),
        ),
        line=item.line,
    )


def _by_conda(facts: Facts) -> tuple[Symptom, str, str] | None:
    """(symptom, the one request, the other) where conda's solver says which two do not go together.

    conda's own list ("Package X conflicts for:") names every package that two requests share, and most of its lines agree
    with each other: only a version that was asked for and lies outside of what another request allows proves anything.
    """
    from packaging.specifiers import InvalidSpecifier, SpecifierSet
    from packaging.version import InvalidVersion, Version

    for item in derive.symptoms(facts, "conda-conflict"):
        d = item.details
        if d.get("needed"):
            return item, d["package"], d["needed"].strip()
        asked, by, allowed = (
            derive.detail(item, *names) or "" for names in (("asked", "first"), ("by", "then"), ("range", "span"))
        )
        try:
            apart = not SpecifierSet(allowed).contains(Version(asked))
        except (InvalidSpecifier, InvalidVersion):
            continue
        if apart:
            return item, f"{d['name']}={asked}", f"{by.strip()} (which needs {d['name']} {allowed})"
    return None


def _resolver(rule: Rule, facts: Facts, item: Symptom) -> Finding | None:
    """Two requests that pip, uv or poetry cannot join: the one names torch, the other asks for another torch."""
    package, version = (
        derive.detail(item, "package", "uv", "poetry"),
        derive.detail(item, "version", "uv_version", "poetry_version"),
    )
    needs = derive.detail(item, "needs", "uv_needs", "poetry_needs")
    asked = derive.detail(item, "user", "uv_asked", "poetry_asked")
    conflict = facts.symptom("resolver-refuses")
    if not package or not needs or (asked is None and conflict is None):
        return None  # a line of an explanation; what it was against is not shown
    against = asked or "what else is asked for"
    return rule.finding(
        "error",
        title=f"{package} {version or ''} asks for {needs}, and that does not go with {against}".replace("  ", " "),
        seen=derive.quote(item, conflict.text if conflict and conflict is not item else None),
        why="The resolver found no set of versions in which both hold, so nothing was installed.",
        remedy=Remedy(
            text=f"Take the {package} that was made for the torch you want (torchvision and torchaudio have one for each torch), or leave "
            "one of the two versions open, and ask for all of them in one command.",
            commands=(remedies.pip(facts, "install", "torch", "torchvision", "torchaudio"),)
            if package in ("torchvision", "torchaudio")
            else (),
        ),
        confidence="likely",
        otherwise="The lines below it in the resolver's explanation name further requests, if changing these two is not enough.",
        line=item.line,
    )  # fmt: skip


@rule("package-conflict", "install", "A package asks for another torch than the one that is installed.")
def package_conflict(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """The warning that pip prints at the end of an installation, and the two requests that conda cannot join."""
    apart = _by_conda(facts)
    if apart is not None:
        item, one, other = apart
        yield rule.finding(
            "error",
            title=f"conda cannot join two requests: {one} and {other}",
            seen=derive.quote(item),
            why="The packages of one torch release and of one CUDA belong together; these ask for two different ones, so the "
            "solver finds no environment.",
            remedy=Remedy(
                text="Change one of the two: the releases of pytorch, torchvision and torchaudio that belong to each other, and "
                "the CUDA package (cudatoolkit, pytorch-cuda, cuda-version) that they were built for. In a file made by conda env "
                "export of another machine, take the exact builds out.",
            ),
            confidence="likely",
            otherwise="The solver's list names the first pair that it met; with that one changed it may name another.",
            line=item.line,
        )
        return
    for item in derive.symptoms(facts, "resolver-conflict"):
        found = _resolver(rule, facts, item)
        if found is not None:
            yield found
            return
    for item in derive.symptoms(facts, "pip-requirement-conflict"):
        d = item.details
        if d["package"].lower() in ("torchvision", "torchaudio"):
            continue  # the companions' own rules
        yield rule.finding(
            "warning",
            title=f"{d['package']} {d['version']} asks for torch{d['needs']}, and torch {d['have']} is installed",
            seen=derive.quote(item),
            why="pip installed it all the same. Whether it works depends on the package: compiled ones mostly do not.",
            remedy=Remedy(
                text=f"Install a torch that satisfies torch{d['needs']}, or another release of {d['package']}, in one command so that the "
                "resolver sees both.",
                commands=(remedies.pip(facts, "install", f"torch{d['needs']}", f"{d['package']}=={d['version']}"),),
            ),
            confidence="likely",
            otherwise="`python -m pip check` shows all such pairs.",
            line=item.line,
        )
        return


RULES: tuple[Rule, ...] = (
    mkl_ijit,
    numpy_abi,
    numpy_name_removed,
    setuptools_incompatible,
    package_conflict,
    mixed_labels,
    yanked,
)
