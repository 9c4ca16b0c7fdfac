"""torchvision, torchaudio and Triton beside torch: do they belong together, and do they load?"""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.facts import Companion, Facts, Symptom
from envcheck.findings import Finding, Remedy
from envcheck.matrix import Matrix
from envcheck.rules import derive, remedies
from envcheck.rules.base import Rule, rule
from envcheck.rules.install_plans import as_installed, planned
from envcheck.rules.library_loader import LoaderError, loader_errors, readable, symbol_owner

TRITON_NAMES = ("triton", "triton-windows", "pytorch-triton", "pytorch-triton-rocm", "pytorch-triton-xpu")
"""Distributions that provide the module triton."""


def companion(facts: Facts, name: str) -> Companion | None:
    """How the companion went when it was imported."""
    return next((c for c in facts.torch.companions or () if c.name == name), None)


def works(facts: Facts, name: str) -> bool:
    """It was imported and, where that was asked, its operators are there."""
    found = companion(facts, name)
    return bool(found and found.imports and found.imports.ok and found.operators is not False)


def failed(facts: Facts, name: str) -> str | None:
    """The error of its import, or that its operators are missing; None when nothing is known to be wrong."""
    found = companion(facts, name)
    if found is None:
        return None
    if found.imports is not None and found.imports.bad:
        return f"import {name}: {found.imports.error_type or ''} {found.imports.error or found.imports.signal or ''}".strip()
    return f"the C++ operators of {name} are not registered" if found.operators is False else None


def loader_trouble(facts: Facts, owner: str) -> LoaderError | None:
    """A loader's message about a file of that package which lacks something of torch (or of CUDA)."""
    for error in loader_errors(facts):
        if (
            error.owner == owner
            and error.needs not in ("libstdc++", "glibc", "python", None)
            and not error.symptom.echo
        ):
            return error
    return None


def _windows_trouble(facts: Facts, name: str) -> Symptom | None:
    for item in derive.symptoms(facts, "windows-procedure-not-found", "windows-dll-not-found"):
        place = (
            " ".join(item.details.get(key, "") for key in ("file", "frame", "asked", "module", "library")) + item.text
        )
        if re.search(rf"[\\/]{name}[\\/]|_?{name}\b", place):
            return item
    return None


def version_answer(facts: Facts, matrix: Matrix, name: str) -> bool | None:
    """True: the tables say that the versions go together; False: that they do not; None: unknown."""
    torch, version = derive.torch_version(facts), derive.module_version(facts, name)
    if not torch or not version:
        return None
    if derive.is_prerelease(torch) != derive.is_prerelease(version):
        return None
    pair = matrix.companions(torch).get(name)
    return pair.accepts(derive.base_version(version) or version) if pair else None


def labels_differ(facts: Facts, name: str) -> tuple[str, str] | None:
    """The two builds, when torch and the companion carry labels of different CUDA majors or of CPU and CUDA."""
    torch, version = derive.torch_version(facts), derive.module_version(facts, name)
    first, second = derive.local_label(torch), derive.local_label(version)
    known = re.compile(r"cu\d{2,3}|cpu|rocm|xpu")
    one, other = known.match(first), known.match(second)
    if not one or not other or _kind_of(one[0]) == _kind_of(other[0]):
        return None
    return one[0], other[0]


def _kind_of(label: str) -> str:
    return label[:-1] if label.startswith("cu") else label


def _belongs(facts: Facts, matrix: Matrix, name: str) -> str:
    version = derive.module_version(facts, name)
    own = matrix.torch_for_companion(name, derive.base_version(version) or "") if version else None
    return f"{name} {version} belongs to torch {own}" if own else ""


def _pair(facts: Facts, name: str) -> str:
    torch, version = derive.torch_version(facts), derive.module_version(facts, name)
    return ", ".join(part for part in (torch and f"torch {torch}", version and f"{name} {version}") if part)


def _mismatch(rule: Rule, facts: Facts, matrix: Matrix, *, name: str, error: Symptom | None) -> Iterator[Finding]:
    """The finding that torchvision and torchaudio share."""
    answer, labels = version_answer(facts, matrix, name), labels_differ(facts, name)
    found = companion(facts, name)
    gone = found is not None and found.operators is False
    if error is None and not gone and (works(facts, name) or (answer is not False and labels is None)):
        return
    if error is None and not gone and derive.torch_from_conda(facts) and _same_line(facts, matrix, name):
        return  # conda builds against a torch line, not against one patch release
    text = failed(facts, name)
    pair, belongs = _pair(facts, name), _belongs(facts, matrix, name)
    torch = derive.torch_version(facts)
    mixed = f"torch is a {labels[0]} build and {name} a {labels[1]} build" if labels else ""
    nightly = derive.is_prerelease(torch) or (torch or "").lower() == "nightly"
    why = f"The compiled part of {name} works only with the torch it was built against."
    if belongs and answer is False:
        why += f" {belongs}."
    elif mixed:
        why += f" Here {mixed}, from different indexes."
    elif answer:
        why += (
            " The version numbers go together, so one of the two is of another build (CPU and CUDA, or another index)."
        )
    broken = error is not None or gone
    yield rule.finding(
        "error" if broken or (answer is False and not _same_line(facts, matrix, name)) else "warning",
        title=_title(facts, name, answer, labels),
        seen=derive.quote(error, text, pair, mixed),
        why=why,
        remedy=_remedy(facts, matrix, name, nightly, answer is False or bool(labels)),
        confidence="certain" if answer is False or labels else "likely",
        otherwise=""
        if answer is False or labels
        else f"Compare the versions: python -m pip list shows torch and {name}; `python -m pip check` names a pair that does "
        "not fit. If they fit, look for a second copy of torch on sys.path.",
        line=error.line if error else derive.line_of(facts, "python.distributions", "torch.version"),
    )


def _title(facts: Facts, name: str, answer: bool | None, labels: tuple[str, str] | None) -> str:
    torch, version = derive.torch_version(facts), derive.module_version(facts, name)
    if torch and version and answer is False:
        return f"{name} {version} does not belong to torch {torch}"
    if labels:
        return f"torch ({labels[0]}) and {name} ({labels[1]}) come from different builds"
    return f"{name} does not match the torch beside it"


def _same_line(facts: Facts, matrix: Matrix, name: str) -> bool:
    """Only the patch level differs: then the interfaces are nearly always the same."""
    own = matrix.torch_for_companion(name, derive.base_version(derive.module_version(facts, name)) or "")
    return bool(own) and derive.numbers(own)[:2] == derive.numbers(derive.torch_version(facts))[:2]


def _remedy(facts: Facts, matrix: Matrix, name: str, nightly: bool, known: bool) -> Remedy:
    facts = as_installed(facts)
    torch = derive.torch_version(facts)
    if nightly:
        return Remedy(
            text=f"A nightly torch needs the {name} of the same nightly index: install both in one command from it, or take "
            "the stable pair.",
            commands=(
                remedies.pip(
                    facts,
                    "install",
                    "--pre",
                    "--force-reinstall",
                    "torch",
                    name,
                    "--index-url",
                    _nightly_index(facts, matrix),
                ),
            ),
        )
    if torch and matrix.release(torch):
        made = remedies.matching_companion(facts, matrix, name)
        return Remedy(text=f"Install a matching pair from one index. {made.text}", commands=made.commands)
    made = planned(facts, matrix, companions=tuple(dict.fromkeys(("torchvision", name))))
    return Remedy(
        text=f"Install torch and {name} as one matching pair, in one command. {made.text}", commands=made.commands
    )


def _nightly_index(facts: Facts, matrix: Matrix) -> str:
    variant = derive.torch_variant(facts, matrix)
    return f"https://download.pytorch.org/whl/nightly/{variant.value if variant else 'cpu'}"


@rule(
    "torchvision-mismatch",
    "build",
    "torchvision does not belong to the torch beside it.",
    explains=("mixed-build-labels", "package-conflict"),
)
def torchvision_mismatch(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Versions that do not pair, builds of different indexes, or operators that are not there."""
    error = facts.symptom("torchvision-ops-missing", "torchvision-cuda-differs", "torchvision-needs-newer-torch")
    if error is None:
        for item in derive.symptoms(facts, "op-without-cuda-backend"):
            if item.details.get("op", "").startswith("torchvision::"):
                error = item
    if error is None:
        trouble = loader_trouble(facts, "torchvision")
        error = trouble.symptom if trouble else _windows_trouble(facts, "torchvision")
    yield from _mismatch(rule, facts, matrix, name="torchvision", error=error)


@rule(
    "torchaudio-mismatch",
    "build",
    "torchaudio does not belong to the torch beside it.",
    explains=("mixed-build-labels", "package-conflict"),
)
def torchaudio_mismatch(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Versions that do not pair, or a library of torchaudio that lacks symbols of torch."""
    error = facts.symptom("torchaudio-cuda-differs")
    if error is None:
        trouble = loader_trouble(facts, "torchaudio")
        error = trouble.symptom if trouble else facts.symptom("torchaudio-extension")
    if error is None:
        error = _windows_trouble(facts, "torchaudio")
    yield from _mismatch(rule, facts, matrix, name="torchaudio", error=error)


# --- Triton -------------------------------------------------------------------------------------------------------


def triton_version(facts: Facts) -> tuple[str, str | None] | None:
    """(distribution, version) of the Triton that is installed."""
    for name in TRITON_NAMES:
        found = facts.distribution(name)
        if found is not None:
            return name, found.version
    loaded = companion(facts, "triton")
    return ("triton", loaded.version) if loaded and loaded.version else None


def _triton_remedy(facts: Facts, matrix: Matrix) -> Remedy:
    torch, windows = derive.torch_version(facts), derive.wheel_os(facts) == "windows"
    if windows and torch and derive.numbers(torch)[:2] < (2, 4):
        return Remedy(
            text=f"No triton-windows release was made for torch {torch}: update torch (2.6 or newer) and install the triton-windows that "
            "belongs to it.",
            commands=(remedies.pip(facts, "uninstall", "-y", "triton"), *planned(facts, matrix).commands),
        )
    if torch and matrix.release(torch):
        return remedies.matching_companion(facts, matrix, "triton")
    if windows:
        return Remedy(
            text="Take the triton-windows release that its table names for this torch (3.2 for torch 2.6, 3.3 for 2.7, 3.4 for "
            "2.8, 3.5 for 2.9, 3.6 for 2.10 and 2.11, 3.7 for 2.12 and 2.13, 3.8 for 2.14); older torch has none.",
        )
    return Remedy(
        text="Install torch again with its own requirements; they name the Triton that belongs to it.",
        commands=(remedies.pip(facts, "install", "--force-reinstall", "torch"),),
    )


@rule("triton-missing", "build", "torch.compile needs Triton and there is none.")
def triton_missing(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Inductor found no Triton. Windows wheels never bring it; on Linux it was left out."""
    error = facts.symptom("triton-missing")
    os = derive.wheel_os(facts)
    if error is None:
        yield from _triton_absent(rule, facts, matrix)
        return
    if os == "macos" or facts.symptom("triton-api-missing"):
        return
    optional = facts.symptom("triton-optional") is not None
    windows = os == "windows"
    made = _triton_remedy(facts, matrix)
    torch = derive.torch_version(facts)
    tail = " Without it: run under WSL 2 or Linux, or leave torch.compile out." if windows else ""
    yield rule.finding(
        "note" if optional else "error",
        title="Triton is not installed" + (" (torch for Windows does not bring it)" if windows else ""),
        seen=derive.quote(error, torch and f"torch {torch}", os and f"system: {os}"),
        why="torch.compile makes its GPU kernels with Triton. "
        + (
            "The official Windows wheels of torch do not depend on it; the port is a package of its own, triton-windows."
            if windows
            else "The Linux wheels of torch depend on it, so it was left out at installation, or this Python has no wheel of it."
        )
        + (" The program that printed this works without it, more slowly." if optional else ""),
        remedy=Remedy(text=made.text + tail, commands=made.commands),
        confidence="certain" if os else "likely",
        otherwise="" if os else "On Windows the package is triton-windows; on Linux it is triton.",
        line=error.line,
    )


def _triton_absent(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """A live Linux machine whose CUDA build lacks the Triton that its metadata asks for."""
    cuda = derive.torch_cuda(facts, matrix)
    if not (cuda and cuda.value and not cuda.derived) or derive.wheel_os(facts) != "linux":
        return
    if facts.python.distributions is None or facts.python.distributions_partial or triton_version(facts):
        return
    asked = facts.distribution("torch")
    if asked is None or not any(r.lower().startswith("triton") for r in asked.requires or ()):
        return
    yield rule.finding(
        "note",
        title="Triton is not installed, so torch.compile cannot make GPU kernels",
        seen=f"torch {asked.version} asks for it ({next(r for r in asked.requires or () if r.lower().startswith('triton'))})",
        why="Eager mode works; torch.compile on the GPU fails when it is first used.",
        remedy=_triton_remedy(facts, matrix),
    )


@rule("triton-version-mismatch", "build", "Triton does not belong to the torch beside it.",
      explains=("triton-missing", "extension-abi-mismatch"))  # fmt: skip
def triton_version_mismatch(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """A name that torch (or a package made for another Triton) looks for and this Triton does not have."""
    error = next((s for s in derive.symptoms(facts, "triton-api-missing")), None)
    torch, installed = derive.torch_version(facts), triton_version(facts)
    version = installed[1] if installed else derive.module_version(facts, "triton")
    pair = matrix.companions(torch).get("triton") if torch else None
    fits = pair.accepts(derive.base_version(version) or version) if pair and version else None
    if error is None and (fits is not False or works(facts, "triton") or derive.is_prerelease(version)):
        return
    missing = derive.detail(error, "name", "attribute", "module", "argument")
    shown = ", ".join(p for p in (torch and f"torch {torch}", version and f"triton {version}") if p)
    wanted = f" torch {torch} goes with Triton {pair.version}." if pair and pair.version else ""
    ptxas = derive.detail(error, "ptxas_cuda")
    if error is not None and ptxas:
        yield _ptxas_too_new(rule, facts, matrix, error, ptxas, shown)
        return
    yield rule.finding(
        "error" if error else "warning",
        title=f"Triton {version} does not belong to torch {torch}"
        if version and torch and fits is False
        else "The installed Triton does not match the torch (or package) that uses it",
        seen=derive.quote(error, shown),
        why=(f"The code looks for {missing.strip()!r}, which this Triton does not have: " if missing else "")
        + "Triton changes its internals from release to release, and each torch is written for one."
        + wanted,
        remedy=_triton_remedy(facts, matrix),
        confidence="certain" if fits is False else "likely",
        otherwise=""
        if fits is False
        else "If Triton is the one that torch names, the package in the traceback was written for another Triton: update it.",
        line=error.line if error else derive.line_of(facts, "python.distributions"),
    )


def _ptxas_too_new(rule: Rule, facts: Facts, matrix: Matrix, error: Symptom, ptxas: str, shown: str) -> Finding:
    """The message names a lower bound; what is true is that this Triton ends below that CUDA."""
    return rule.finding(
        "error",
        title=f"This Triton is older than the CUDA {ptxas} whose ptxas it uses",
        seen=derive.quote(error, shown),
        why=f"Triton has a table of the PTX versions of each CUDA, and CUDA {ptxas} is not in that of this Triton. It took the ptxas of "
        "a toolkit that it found on this machine, or torch was updated and Triton was not.",
        remedy=_triton_remedy(facts, matrix),
        confidence="likely",
        otherwise="If Triton is the one that belongs to torch: see that TRITON_PTXAS_PATH and CUDA_PATH do not lead it to a newer toolkit.",
        line=error.line,
    )


def describe_symbol(error: LoaderError) -> str:
    """ "needs the symbol X of torch" for a finding."""
    if error.symbol is None:
        return f"needs {error.library}" if error.library else "needs a library that is not there"
    owner = symbol_owner(error.symbol)
    of = f" of {owner}" if owner != "unknown" else ""
    return f"needs the symbol {readable(error.symbol)}{of}"


RULES: tuple[Rule, ...] = (torchvision_mismatch, torchaudio_mismatch, triton_version_mismatch, triton_missing)
