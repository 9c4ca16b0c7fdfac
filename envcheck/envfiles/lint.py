"""Judges a file, whoever wrote it: names, pins, indexes, channels, builds; then against the machine."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.envfiles import expected, lint_docker, lint_machine
from envcheck.envfiles.expected import System
from envcheck.envfiles.finding import finding
from envcheck.envfiles.model import FAMILY, variant_of_index
from envcheck.envfiles.read import Want, Wanted
from envcheck.envfiles.read.conda import key
from envcheck.facts import Facts
from envcheck.findings import SEVERITIES, Finding, Remedy
from envcheck.matrix import Matrix
from envcheck.matrix.versions import at_least, final

CHANNEL_LAST = "2.5.1"
"""Last torch on conda's channel "pytorch" (pytorch/pytorch issue 138506)."""

# What PyTorch's indexes carry besides torch: its dependencies and those of its demos. Anything else is on PyPI alone.
_MIRRORED = re.compile(
    r"torch|triton|pytorch|nvidia-|cuda-|intel-|dpcpp|onemkl|tcmlib|umf|impi|tbb|mkl|fsspec$|filelock$|jinja2$|markupsafe$"
    r"|mpmath$|networkx$|numpy$|pillow$|sympy$|typing-extensions$|setuptools$|packaging$|requests$|certifi$"
    r"|charset-normalizer$|idna$|urllib3$|tqdm$|xformers$|pip$|wheel$"
)
_MISMATCH = {
    "torchvision": "torchvision-mismatch",
    "torchaudio": "torchaudio-mismatch",
    "triton": "triton-version-mismatch",
}
_DEFAULTS = ("defaults", "main", "anaconda", "pkgs/main", "free", "r")
_PYTHONS = tuple(f"3.{minor}" for minor in range(6, 20))


def lint(wanted: Wanted, facts: Facts, matrix: Matrix) -> tuple[Finding, ...]:
    """Everything that is wrong with a file, the worst first. What is not known makes no finding."""
    system = expected.system_of(wanted, facts)
    wants = expected.active(wanted, system)
    found: list[Finding] = []
    found += _names(wants)
    found += _channels(wanted)
    found += _twice(wants)
    found += _indexes(wanted, wants, system, matrix)
    found += _pairs(wants, matrix)
    for torch in (w for w in wants if key(w.name) == "torch"):
        found += _release(torch, matrix)
        found += _build(torch, wanted, system, matrix)
        found += _python(torch, wanted, system, facts, matrix)
        found += lint_machine.lint(torch, wanted, system, facts, matrix)
    if wanted.format == "dockerfile":
        found += lint_docker.lint(wanted, facts, matrix)
    return tuple(sorted(found, key=lambda f: SEVERITIES.index(f.severity)))


def _names(wants: tuple[Want, ...]) -> Iterator[Finding]:
    for want in wants:
        if want.manager == "pip" and want.name == "pytorch":
            yield finding(
                "wrong-package-name",
                "error",
                "PyPI's package is called torch.",
                seen=f"{want.text} (pip)",
                why="The name pytorch on PyPI belongs to a stub whose installation fails; pytorch is the name in conda.",
                remedy=Remedy(text="Write torch."),
                line=want.line,
            )


def _channels(wanted: Wanted) -> Iterator[Finding]:
    if wanted.format not in ("conda", "pixi"):
        return
    channels = [re.sub(r"^https?://[^/]+/", "", c).rstrip("/").lower() for c in wanted.channels]
    default = next((c for c in channels if c in _DEFAULTS), None)
    if default and "conda-forge" in channels:
        yield finding(
            "file-mixed-channels",
            "warning",
            "defaults and conda-forge are mixed.",
            seen=f"channels: {', '.join(wanted.channels)}",
            why="Both have nearly everything, built with other compilers and libraries (MKL, OpenMP, libstdc++). A mixture "
            "loads and then fails in ways that look like faults of torch, and it changes with every update.",
            remedy=Remedy(text=f"Remove {default} and add nodefaults, which also keeps the one of ~/.condarc away."),
        )
    torch = next((w for w in wanted.packages if w.manager == "conda" and w.name == "pytorch"), None)
    version = expected.exact_version(torch) if torch else None
    elsewhere = set(channels) - {"pytorch", "nvidia", "nodefaults", *_DEFAULTS}
    if torch and version and "pytorch" in channels and not elsewhere and not at_least(CHANNEL_LAST, version):
        yield finding(
            "conda-channel-ended",
            "error",
            "The conda channel pytorch has no package of this release.",
            seen=f"{torch.text}; channels: {', '.join(wanted.channels)}",
            why=f"That channel ended with torch {CHANNEL_LAST}: the solver finds nothing, or an older one of defaults.",
            remedy=Remedy(
                text="Take conda-forge as channel, or torch from pip.", commands=("envcheck export conda --dry-run",)
            ),
            line=torch.line,
        )


def _twice(wants: tuple[Want, ...]) -> Iterator[Finding]:
    conda = next(
        (w for w in wants if w.manager == "conda" and w.name in ("pytorch", "pytorch-gpu", "pytorch-cpu")), None
    )
    pip = next((w for w in wants if w.manager == "pip" and w.name == "torch"), None)
    if conda and pip:
        yield finding(
            "duplicate-torch-install",
            "error",
            "torch is asked for twice: from conda and from pip.",
            seen=f"{conda.text} (conda) and {pip.text} (pip)",
            why="pip writes its files over conda's; libraries of both builds are then loaded together.",
            remedy=Remedy(text="Keep one of the two."),
            line=pip.line,
        )


# -- indexes -----------------------------------------------------------------------------------------------------------


def _indexes(wanted: Wanted, wants: tuple[Want, ...], system: System, matrix: Matrix) -> Iterator[Finding]:
    for index in wanted.indexes:
        variant = variant_of_index(index.url)
        if variant is None:
            continue
        group = [w for w in wants if w.manager == "pip" and w.group == index.group and not w.url]
        if index.option == "--extra-index-url":
            yield from _extra_index(index.url, variant, index.line, group, system, matrix)
        elif index.option == "--index-url":
            others = [i for i in wanted.indexes if i.group == index.group and i is not index]
            foreign = [w.name for w in group if not _MIRRORED.match(w.name)]
            if foreign and not others:
                yield _index_only(index.url, index.line, foreign)


def _extra_index(
    url: str, variant: str, line: int | None, group: list[Want], system: System, matrix: Matrix
) -> Iterator[Finding]:
    loose = [w for w in group if w.name in FAMILY and not w.label]
    if not loose:
        return
    torch = next((w for w in loose if w.name == "torch"), loose[0])
    version = expected.exact_version(torch)
    place = (system.os, system.machine)
    there = None
    if torch.name == "torch" and version and place[0] and place[1] and matrix.release(version):
        there = matrix.variant(version, variant, place[0], place[1]) is not None
    plain = matrix.pypi_variant(version, place[0] or "", place[1] or "") if version and torch.name == "torch" else None
    if system.os == "macos" or (there and plain == variant):
        return
    exact = there and version is not None
    text = torch.text or torch.name
    yield finding(
        "file-extra-index",
        "note" if exact else "error" if there is False else "warning",
        "--extra-index-url leaves open whether PyPI or PyTorch's index answers for torch.",
        seen=f"--extra-index-url {url} with {text}" + (f"; that index has no {version}" if there is False else ""),
        why="pip asks both and takes the highest version of either"
        + (f": PyPI's {plain or 'other'} build here. " if there is False else ". ")
        + "A release that PyPI has first comes from there as another build (on Windows the CPU one), and a package of the same "
        "name on either index can step in for another.",
        remedy=Remedy(
            text=f"Name the build in the pin (torch=={version or 'X.Y.Z'}+{variant}), which PyPI cannot have, or install torch "
            f"by a command of its own with --index-url {url}."
        ),
        line=line,
    )


def _index_only(url: str, line: int | None, foreign: list[str]) -> Finding:
    names = ", ".join(foreign[:6]) + (" ..." if len(foreign) > 6 else "")
    return finding(
        "file-index-only",
        "warning",
        "Packages that PyTorch's index does not have are asked for there alone.",
        seen=f"--index-url {url} with {names}",
        why="--index-url takes PyPI's place for the whole file: pip says 'No matching distribution found'.",
        remedy=Remedy(
            text="Put torch, torchvision and torchaudio with this index into a file or a command of their own; or use "
            "--extra-index-url and name the build in the pins (torch==X.Y.Z+label)."
        ),
        confidence="likely",
        line=line,
    )


# -- versions ----------------------------------------------------------------------------------------------------------


def _pairs(wants: tuple[Want, ...], matrix: Matrix) -> Iterator[Finding]:
    for torch in (w for w in wants if key(w.name) == "torch"):
        version = expected.exact_version(torch)
        release = matrix.release(version) if version else None
        if version is None or release is None:
            continue
        companions = matrix.companions(version)
        for want in wants:
            known = companions.get(want.name)
            other = expected.exact_version(want)
            same_command = want.manager == torch.manager and want.group == torch.group
            if known is None or other is None or not same_command or known.accepts(other) is not False:
                continue
            yield finding(
                _MISMATCH[want.name],
                "error",
                f"{want.name} {other} does not belong to torch {version}.",
                seen=f"{torch.text} and {want.text}",
                why="pip finds no solution, or a compiled extension meets a torch that it was not built for."
                if torch.manager == "pip"
                else "The solver finds no solution, or takes another build.",
                remedy=Remedy(text=f"torch {version} goes with {want.name} {known.version or '(unknown)'}."),
                line=want.line,
            )


def _release(torch: Want, matrix: Matrix) -> Iterator[Finding]:
    version = expected.exact_version(torch)
    if version is None or final(version) is None or matrix.release(version) or matrix.is_newer_than_tables(version):
        return
    if not at_least(version, matrix.releases[0].version):
        return
    yield finding(
        "no-such-release",
        "error",
        f"There is no torch {version}.",
        seen=torch.text,
        why="No index has it: nothing can be installed from this file.",
        remedy=Remedy(text=f"Releases of near names: {', '.join(matrix.near(version))}."),
        line=torch.line,
    )


def _build(torch: Want, wanted: Wanted, system: System, matrix: Matrix) -> Iterator[Finding]:
    """The build that the pin or the index names, for a release that was never built so."""
    version = expected.exact_version(torch)
    named = expected.index_of(torch, wanted, system)
    variant = torch.label or (variant_of_index(named[1]) if named and named[0] != "--extra-index-url" else None)
    release = matrix.release(version) if version else None
    if torch.manager != "pip" or not (variant and version and release and release.confirmed):
        return
    if system.os is None or system.machine is None or system.os == "macos":
        return
    if matrix.variant(version, variant, system.os, system.machine) or not re.fullmatch(
        r"cpu|xpu|cu\d+|rocm[\d.]+", variant
    ):
        return
    builds = [v.name for v in matrix.variants(version, system.os, system.machine) if v.status != "unconfirmed"]
    yield finding(
        "wheel-index-missing",
        "error",
        f"torch {version} was not built as {variant} for {system.os} {system.machine}.",
        seen=torch.text + (f" with {named[1]}" if named else ""),
        why="The index has no such wheel: pip finds nothing.",
        remedy=Remedy(text=f"Builds of {version} there: {', '.join(builds) or 'none'}."),
        line=torch.line,
    )


def _python(torch: Want, wanted: Wanted, system: System, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    version = expected.exact_version(torch)
    if torch.manager != "pip" or torch.url or version is None or not (system.os and system.machine):
        return
    variant = expected.variant_of(torch, wanted, system, matrix)
    pythons = matrix.pythons(version, system.os, system.machine, variant) or matrix.pythons(
        version, system.os, system.machine
    )
    asked = _asked_pythons(wanted, facts)
    if not pythons or not asked or set(asked) & {p.rstrip("t") for p in pythons}:
        return
    newest = [
        r.version for r in matrix.releases if set(asked) & set(matrix.pythons(r.version, system.os, system.machine))
    ]
    where = f"the file's Python ({wanted.python})" if wanted.python else f"Python {asked[0]}, which is the one here"
    text = f"torch {version} has wheels for Python {pythons[0]} to {[p for p in pythons if p[-1] != 't'][-1]}."
    if newest:
        text += f" For Python {asked[0]}: torch {newest[0]} to {newest[-1]}."
    yield finding(
        "python-no-wheel",
        "error",
        f"torch {version} has no wheel for {where}.",
        seen=f"{torch.text}, Python {wanted.python or asked[0]}",
        why="pip says 'No matching distribution found'.",
        remedy=Remedy(text=text),
        line=torch.line,
    )


def _asked_pythons(wanted: Wanted, facts: Facts) -> list[str]:
    """Minor versions that the file admits; of a requirements file, that of the environment."""
    if not wanted.python:
        version = facts.python.version if wanted.format == "requirements" else None
        return [".".join(version.split(".")[:2])] if version else []
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    try:
        asked = SpecifierSet(wanted.python)
    except InvalidSpecifier:
        return []
    return [p for p in _PYTHONS if any(asked.contains(f"{p}.{patch}") for patch in (0, 1, 5, 9, 13, 20))]
