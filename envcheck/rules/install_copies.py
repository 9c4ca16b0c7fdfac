"""Which Python, and which copy: wrong interpreter, two copies, the user's site, files that hide a module."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.facts import Distribution, Facts, Symptom
from envcheck.findings import Finding, Remedy
from envcheck.matrix import Matrix
from envcheck.rules import derive, remedies
from envcheck.rules.base import Rule, rule
from envcheck.rules.install_plans import planned
from envcheck.rules.install_resolve import requests
from envcheck.rules.library_loader import base_name

USER_SITE = re.compile(
    r"(?:^|[/\\])(?:\.local[/\\]lib(?:64)?[/\\]python[\d.]+[/\\]site-packages"
    r"|AppData[/\\]Roaming[/\\]Python[/\\]Python\d+[/\\]site-packages"
    r"|Library[/\\]Python[/\\][\d.]+[/\\]lib[/\\]python[/\\]site-packages)",
    re.IGNORECASE,
)
_INSTALLED = re.compile(r"(?:site|dist)-packages[/\\]|[/\\][Ll]ib[/\\](?:python[\d.]+[/\\])?(?!site)")

_NEEDS_TORCH = (
    "cpu-only-build",
    "torchvision-mismatch",
    "torchaudio-mismatch",
    "triton-missing",
    "triton-version-mismatch",
    "extension-abi-mismatch",
    "extension-without-cuda",
    "numpy-abi-mismatch",
    "package-conflict",
    "missing-nvidia-wheels",
    "conflicting-nvidia-wheels",
    "nvidia-wheel-versions",
    "jetson-generic-wheel",
)
"""What says nothing as long as there is no torch."""

_ALL_IMPORTS = (
    "torch-not-installed",
    "duplicate-torch-install",
    "torchvision-mismatch",
    "torchaudio-mismatch",
    "corrupted-install",
    "numpy-abi-mismatch",
    "cpu-only-build",
    "hardcoded-cuda-device",
)


# --- the wrong interpreter ----------------------------------------------------------------------------------------


def _python_of_build(build: str | None) -> str | None:
    """Python of a conda build string or a path: "py2.7_0", "py38_cpu", "cp311" -> "2.7", "3.8", "3.11"."""
    match = re.search(r"(?:^|[_\W])(?:py|cp)(\d)\.?(\d{1,2})(?:_|\b|[a-z])", build or "")
    return f"{match.group(1)}.{match.group(2)}" if match else None


def _python_of_path(path: str | None) -> str | None:
    match = re.search(r"python(\d\.\d{1,2})[/\\]|[Pp]ython(\d)(\d{1,2})[/\\]", path or "")
    if not match:
        return None
    return match.group(1) or f"{match.group(2)}.{match.group(3)}"


def elsewhere(facts: Facts) -> tuple[str, ...]:
    """What shows that torch is installed, only not for the Python that failed to find it."""
    signs = [f"torch is in {place}" for place in facts.python.torch_elsewhere or ()]
    running = derive.python_minor(facts)
    for item in _torch_copies(facts):
        made_for = _python_of_build(item.build) or _python_of_path(item.location)
        label = f"{item.name} {item.version or ''} {item.build or ''}".strip()
        if made_for and made_for != running:
            signs.append(f"{label} is made for Python {made_for}" + (f", and Python {running} runs" if running else ""))
        elif facts.origin == "captured":
            signs.append(f"{label} is installed, in some environment")
    if facts.origin == "live":
        return tuple(dict.fromkeys(signs))  # other interpreters were looked into: without torch they prove nothing
    signs += [f"pip has it in {s.details['path']}" for s in derive.symptoms(facts, "pip-satisfied-torch")]
    signs += [f"pip installed torch {s.details['version']}" for s in derive.symptoms(facts, "pip-installed-torch")]
    pip = facts.python.pip_python
    if pip and running and derive.numbers(pip)[:2] != derive.numbers(running)[:2]:
        signs.append(f"pip belongs to Python {pip}, and Python {running} runs")
    for other in facts.python.other_pythons or ():
        signs.append(f"another Python is in the report: {other}")
    return tuple(dict.fromkeys(signs))


def _torch_copies(facts: Facts) -> tuple[Distribution, ...]:
    return tuple(d for d in facts.python.distributions or () if d.name in ("torch", "pytorch"))


def not_found(facts: Facts) -> Symptom | None:
    """The import failed because there is no torch on the path of that Python."""
    item = facts.symptom("torch-not-found")
    return None if item is None or _while_building(facts, item) else item


def _while_building(facts: Facts, item: Symptom) -> bool:
    """The import failed inside the build of another package: pip's or uv's words about it stand close by."""
    for other in derive.symptoms(facts, "build-context"):
        if item.line is None or other.line is None or abs(item.line - other.line) <= 60:
            return True
    return False


@rule(
    "wrong-interpreter",
    "install",
    "torch was installed for another interpreter or environment.",
    explains=("torch-not-installed",),
)
def wrong_interpreter(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """The import fails although an installer says that torch is there: it is there for another Python."""
    item = not_found(facts)
    missing = item is not None or facts.torch.found is False
    if not missing or next(requests(facts), None) is not None:
        return
    signs = elsewhere(facts)
    if not signs:
        return
    executable = facts.python.executable
    running = derive.python_minor(facts)
    yield rule.finding(
        "error",
        title="torch is installed for another Python than the one that runs",
        seen=derive.quote(item, executable and f"running: {executable}", *signs[:3]),
        why="Each interpreter and each environment has packages of its own; `pip` or `conda` put torch into one, and the "
        f"program (or the notebook's kernel) runs in another{f', Python {running}' if running else ''}.",
        remedy=_this_python(facts, matrix),
        confidence="certain"
        if facts.python.torch_elsewhere or any("made for Python" in s for s in signs)
        else "likely",
        otherwise="`python -m pip show torch` asks the Python that runs; if it finds torch, a file named torch.py or a broken "
        "PYTHONPATH is in the way.",
        line=item.line if item else None,
    )


def _this_python(facts: Facts, matrix: Matrix) -> Remedy:
    made = planned(facts, matrix)
    return Remedy(
        text="Ask the Python that fails who it is, then install with that very interpreter (python -m pip, not pip), or start "
        f"the program in the environment that has torch. In Jupyter choose that environment's kernel. {made.text}",
        commands=('python -c "import sys; print(sys.executable)"', *made.commands),
    )


@rule("torch-not-installed", "install", "torch is not installed in this Python.", explains=_NEEDS_TORCH)
def torch_not_installed(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Nothing on the path of this Python provides torch."""
    misnamed = facts.symptom("pytorch-name")
    if misnamed is not None:
        yield rule.finding(
            "error",
            title="The package is called torch, not pytorch",
            seen=derive.quote(misnamed),
            why="pytorch on the package index is an empty package that only says this.",
            remedy=_install_here(facts, matrix),
            line=misnamed.line,
        )
        return
    item = not_found(facts)
    if item is None and facts.torch.found is not False:
        return
    if item is not None and (elsewhere(facts) or facts.torch.found or derive.torch_version(facts)):
        return
    executable = facts.python.executable
    yield rule.finding(
        "error",
        title="torch is not installed in this Python",
        seen=derive.quote(item, executable and f"Python: {executable}", derive.python_minor(facts) and f"Python {derive.python_minor(facts)}"),
        why="import torch cannot work.",
        remedy=_install_here(facts, matrix),
        confidence="certain" if item is None else "likely",
        otherwise="" if item is None else 'If it was installed before, it went to another Python: compare `python -c "import sys; '
        'print(sys.executable)"` with `pip --version`.',
        line=item.line if item else None,
    )  # fmt: skip


def _install_here(facts: Facts, matrix: Matrix) -> Remedy:
    made = planned(facts, matrix)
    return Remedy(text=f"Install it with the Python that runs the program. {made.text}", commands=made.commands)


@rule("build-isolation", "install", "A package that needs torch to build is built where torch is not.",
      explains=("torch-not-installed", "wrong-interpreter", "setuptools-incompatible"))  # fmt: skip
def build_isolation(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Pip builds in an empty environment of its own, so setup.py cannot import torch."""
    item = facts.symptom("torch-not-found")
    if item is None or not _while_building(facts, item):
        return
    yield rule.finding(
        "error",
        title="The package is built in isolation, where torch cannot be imported",
        seen=derive.quote(item),
        why="pip and uv build a package in a fresh, empty environment. This one imports torch while it is built, without naming "
        "it as a build requirement.",
        remedy=Remedy(
            text="Install torch first, then build this package in the environment itself; setuptools, wheel and ninja have to be "
            "there too.",
            commands=(
                remedies.pip(facts, "install", "setuptools", "wheel", "ninja", "packaging"),
                remedies.pip(facts, "install", "--no-build-isolation", "PACKAGE"),
            ),
        ),
        line=item.line,
    )


@rule("build-requirement-missing", "install", "A package that a build needs is not there where it is built.")
def build_requirement_missing(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """setup.py imports packaging, wheel, psutil: with build isolation they have to be declared, without it installed."""
    for item in derive.symptoms(facts, "build-requirement"):
        if not _while_building(facts, item):
            continue
        module = item.details["module"]
        package = {"skbuild": "scikit-build", "scikit_build_core": "scikit-build-core"}.get(
            module, module.replace("_", "-").lower()
        )
        off = any("--no-build-isolation" in command for command in facts.commands)
        yield rule.finding(
            "error",
            title=f"The build needs {package}, and it is not there where the package is built",
            seen=derive.quote(item),
            why="With --no-build-isolation the environment itself has to hold all that setup.py imports."
            if off
            else "pip and uv build in an empty environment with what the package declares; this one imports more than it declares.",
            remedy=Remedy(
                text="Install what the build imports, then build in the environment itself. Where a wheel for this torch, CUDA and Python "
                "exists, take that and build nothing.",
                commands=(
                    remedies.pip(facts, "install", *dict.fromkeys((package, "packaging", "wheel", "setuptools", "ninja"))),
                    remedies.pip(facts, "install", "--no-build-isolation", "PACKAGE"),
                ),
            ),
            line=item.line,
        )  # fmt: skip
        return


# --- two copies ---------------------------------------------------------------------------------------------------


def _normal(version: str | None) -> str:
    return (derive.base_version(version) or "").strip()


def _contradiction(facts: Facts) -> tuple[str, str, Symptom | None] | None:
    """(imported, recorded): the torch that is imported is not the one that the installer has on record."""
    imported = facts.torch.version
    installed = [s.details["version"] for s in derive.symptoms(facts, "pip-installed-torch")]
    installed += [d.version or "" for d in facts.distributions("torch")]
    if _normal(imported) in map(_normal, installed):
        return None  # the log shows how the one that is imported came there
    for conflict in facts.conflicts:
        if conflict.field == "torch.version" and len(conflict.values) > 1:
            others = [v for v in conflict.values if _normal(v) != _normal(imported)]
            if imported and others and not derive.is_prerelease(imported):
                return imported, others[-1], None
    if not imported:
        return None
    for item in derive.symptoms(facts, "pip-replaced-torch"):
        recorded = item.details["version"]
        if _normal(recorded) != _normal(imported):
            return imported, recorded, item
    return None


def _is_user_site(path: str | None) -> bool:
    return path is not None and USER_SITE.search(path) is not None


@rule(
    "duplicate-torch-install",
    "install",
    "Two installations of torch in one environment, or pip over conda.",
    explains=(
        "torchvision-mismatch",
        "torchaudio-mismatch",
        "extension-abi-mismatch",
        "omp-duplicate-runtime",
        "mixed-build-labels",
        "corrupted-install",
    ),
)
def duplicate_install(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Two copies whose files mix: one is recorded, another is imported."""
    found = _contradiction(facts)
    if found is not None:
        imported, recorded, item = found
        companion = derive.module_version(facts, "torchvision")
        yield rule.finding(
            "error" if facts.symptom("torchvision-ops-missing", "undefined-symbol", "torch-c-attribute-missing") else "warning",
            title=f"torch {imported} is imported, and {recorded} is on record: two installations are mixed",
            seen=derive.quote(f"imported: torch {imported}", f"the installer's record: torch {recorded}", item,
                              companion and f"torchvision {companion}"),
            why="The interpreter finds one copy first and the installer manages another, so torchvision and other compiled packages "
            "meet a torch that they were not built for.",
            remedy=_clean(facts, matrix),
            confidence="likely",
            otherwise='`python -c "import torch; print(torch.__file__, torch.__version__)"` and `python -m pip show -f torch` name '
            "the two places.",
            line=item.line if item else derive.line_of(facts, "torch.version"),
        )  # fmt: skip
        return
    copies = [d for d in _torch_copies(facts) if not _is_user_site(d.location) and d.site != "user"]
    pip = [d for d in copies if d.name == "torch" and d.manager != "conda" and not d.channel and not d.build]
    conda = [d for d in copies if d.manager == "conda" or d.channel or d.build]
    if facts.python.distributions_partial and not (pip and conda):
        return
    places = {(_normal(d.version), d.location) for d in pip}
    if len(places) > 1 and len({d.location for d in pip if d.location}) > 1:
        yield _two_copies(rule, facts, matrix, pip, "Two copies of torch are on sys.path", "error")
    elif len({_normal(d.version) for d in pip}) > 1:
        # A broken upgrade leaves the old metadata behind: pip, and every check of versions, may believe either.
        yield _two_copies(rule, facts, matrix, pip, "Two records of torch lie in one directory", "warning")
    elif pip and conda and _normal(pip[0].version) != _normal(conda[0].version):
        yield _two_copies(
            rule, facts, matrix, [pip[0], conda[0]], "pip installed torch over conda's pytorch", "warning"
        )


def _two_copies(
    rule: Rule, facts: Facts, matrix: Matrix, copies: list[Distribution], title: str, severity: str
) -> Finding:
    named = [
        f"{d.name} {d.version or ''} ({d.manager or d.channel or 'pip'}{', ' + d.location if d.location else ''})"
        for d in copies
    ]
    different = len({_normal(d.version) for d in copies}) > 1
    return rule.finding(
        severity if different else "warning",
        title=title + (f": {' and '.join(dict.fromkeys(_normal(d.version) for d in copies))}" if different else ""),
        seen="; ".join(dict.fromkeys(named)),
        why="Libraries of the two (libtorch, OpenMP, CUDA) can end up in one process; an update or removal of one breaks the other.",
        remedy=_clean(facts, matrix),
        line=derive.line_of(facts, "python.distributions"),
    )


def _clean(facts: Facts, matrix: Matrix) -> Remedy:
    made = planned(facts, matrix)
    again = remedies.pip(facts, "uninstall", "-y", "torch", "torchvision", "torchaudio")
    conda = ("conda remove --force pytorch torchvision torchaudio",) if derive.torch_from_conda(facts) else ()
    return Remedy(
        text="Uninstall until none is left (run it twice), then install one matching pair; a fresh environment is the sure way. "
        f"{made.text}",
        commands=(again, again, *conda, *made.commands),
    )


# --- the user's site ----------------------------------------------------------------------------------------------


@rule(
    "user-site-shadowing",
    "install",
    "A per-user site-packages copy of torch comes first.",
    explains=("duplicate-torch-install", *_ALL_IMPORTS),
)
def user_site(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """~/.local comes before the environment's own packages (in conda) or the system's (anywhere)."""
    location = facts.torch.location
    copies = _torch_copies(facts)
    mine = [d for d in copies if d.site == "user" or _is_user_site(d.location)]
    # A conda package lies in its environment even where the list does not say so.
    others = [d for d in copies if d not in mine and (d.location or d.manager == "conda")]
    imported_from_user = _is_user_site(location)
    if not imported_from_user and not (mine and others):
        return
    version = facts.torch.version or (mine[0].version if mine else None)
    in_environment = facts.python.kind in ("conda", "venv", "uv") or bool(facts.python.conda_prefix)
    if others:
        severity, confidence = "warning", "certain"
        if any(_normal(d.version) != _normal(version) for d in others):
            broken = facts.torch.imports is not None and facts.torch.imports.bad
            severity = "error" if broken or facts.symptom("undefined-symbol", "missing-library") else "warning"
    elif in_environment and facts.python.user_site_enabled is not False:
        severity, confidence = "warning", "certain"
    elif _asked_where(facts):
        severity, confidence = "warning", "possible"
    else:
        return
    place = location or (mine[0].location if mine else None) or "~/.local"
    other = ", ".join(f"{d.version or '?'} in {d.location or 'the conda environment'}" for d in others)
    yield rule.finding(
        severity,
        title=f"torch {version or ''} is imported from the user site, ahead of any other copy".replace("  ", " "),
        seen=derive.quote(f"torch.__file__: {place}", version and f"version {version}", other and f"other copy: {other}"),
        why="Python puts the per-user directory (.local, Roaming) before the packages of the system and of a conda environment: a "
        "copy that was once installed there with --user or without rights hides whatever is installed elsewhere.",
        remedy=_remove_user_copy(facts),
        confidence=confidence,
        otherwise="" if confidence == "certain" else "If this is the only torch that was ever installed, nothing is hidden: compare "
        "its version with the one that was meant.",
        line=derive.line_of(facts, "torch.location"),
    )  # fmt: skip


def _asked_where(facts: Facts) -> bool:
    """A paste whose author printed torch.__file__: people do that when the wrong copy is imported."""
    where = facts.where("torch.location")
    return (
        facts.origin == "captured"
        and where is not None
        and re.match(r"^\W*(?:[/~]|[A-Za-z]:\\)[^\n\"]*torch[/\\]__init__\.pyc?\W*$", where.text or "") is not None
    )


def _remove_user_copy(facts: Facts) -> Remedy:
    python = "python" + (derive.python_minor(facts) or "") if derive.wheel_os(facts) != "windows" else "python"
    quiet = "set PYTHONNOUSERSITE=1" if derive.wheel_os(facts) == "windows" else "export PYTHONNOUSERSITE=1"
    return Remedy(
        text="Remove the per-user copy (without sudo, with the same Python), or switch the user site off for this environment.",
        commands=(f"{python} -m pip uninstall torch torchvision torchaudio", quiet),
    )


# --- files that hide a module -------------------------------------------------------------------------------------


def _own_file(path: str | None) -> bool:
    """A file of the user's: not in site-packages and not of the standard library."""
    return bool(path) and not _INSTALLED.search(path or "") and "<frozen" not in (path or "")


def _named_like(path: str, module: str) -> bool:
    """ "/x/torch.py" and "/x/torch/__init__.py" can stand for the module torch."""
    name, top = base_name(path), module.split(".", maxsplit=1)[0]
    parent = base_name(path[: -len(name)]) if len(path) > len(name) else ""
    return name == f"{top}.py" or (name == "__init__.py" and parent == top)


def shadow(facts: Facts) -> tuple[str, str, Symptom | None] | None:
    """(module, path, symptom) of a file that hides a module: seen on the path, or given away by the error."""
    for item in facts.python.shadows or ():
        return item.module, item.path, None
    for symptom in derive.symptoms(facts, "module-shadowed"):
        d = symptom.details
        module = d.get("module") or d.get("source") or d.get("not_package") or ""
        path = d.get("path") or d.get("source_path") or d.get("renaming") or ""
        if d.get("renaming"):
            return base_name(path).removesuffix(".py"), path, symptom
        if path and _own_file(path) and _named_like(path, module):
            return module.split(".")[0], path, symptom
        if d.get("not_package") in ("torch", "numpy", "torchvision", "onnx", "triton", "transformers"):
            return module, f"{module}.py", symptom
    for symptom in derive.symptoms(facts, "torch-part-missing"):
        if symptom.details.get("package"):
            return "torch", "torch.py", symptom
    return None


_IN_TREE = ("torch-c-missing",)


@rule(
    "local-file-shadowing",
    "install",
    "A file or directory of the user's hides a module.",
    explains=("corrupted-install", *_ALL_IMPORTS),
)
def local_file(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Python looks into the script's own directory first."""
    found = shadow(facts)
    if found is not None:
        module, path, item = found
        yield _hides(rule, facts, module, path, item)
        return
    for item in derive.symptoms(facts, *_IN_TREE):
        yield _source_tree(rule, facts, item)
        return
    if _another_error(facts):
        return
    for item in derive.symptoms(facts, "torch-half-imported"):
        # From a file of torch itself it is torch's own circle: a broken copy, or an import that failed before.
        if not _in_torch(item.details.get("frame")):
            yield _hides(rule, facts, "torch", "torch.py", item, confidence="likely")
            return
    for item in derive.symptoms(facts, "script-shadows-module"):
        yield _hides(rule, facts, item.details["module"], item.details["path"], item, confidence="likely")
        return


def _in_torch(path: str | None) -> bool:
    return re.search(r"[\\/](?:site|dist)-packages[\\/]torch[\\/]", path or "") is not None


def _another_error(facts: Facts) -> bool:
    """Something else in the report explains the traceback; a script's name alone is then no cause."""
    silent = (
        "script-shadows-module",
        "module-shadowed",
        "torch-half-imported",
        "torch-part-missing",
        "library-variable",
        "unrecognised-error",
    )
    return any(s.kind not in silent for s in facts.symptoms)


def _hides(
    rule: Rule, facts: Facts, module: str, path: str, item: Symptom | None, *, confidence: str = "certain"
) -> Finding:
    name = base_name(path)
    is_package = name == "__init__.py" or not name.endswith(".py")
    new = f"my_{module}" + ("" if is_package else ".py")
    label = f"the directory {module}/" if is_package else name
    hidden = f"{module} package" if module in ("torch", "numpy", "onnx", "triton") else f"module {module}"
    return rule.finding(
        "error" if item is not None or facts.origin == "captured" or (facts.torch.imports and facts.torch.imports.bad) else "warning",
        title=f"{label[:1].upper() + label[1:] if is_package else label} hides the {hidden}",
        seen=derive.quote(item, path),
        why=f"Python looks into the script's directory (or the current one) first, so `import {module}` finds {path} instead of the "
        f"installed {hidden}. Libraries that import {module} get the wrong one too.",
        remedy=Remedy(
            text=f"Rename it (for example to {new}) and delete the __pycache__ directory beside it"
            + ("." if is_package else f"; or run it as part of its package (python -m package.{module})."),
            commands=() if is_package or " " in path else (_rename(facts, path, new),),
        ),
        confidence=confidence,
        otherwise="" if confidence == "certain" else f'`python -c "import {module}; print({module}.__file__)"`, run in that directory, '
        "shows which file is found.",
        line=item.line if item else None,
    )  # fmt: skip


def _rename(facts: Facts, path: str, new: str) -> str:
    place = path[: -len(base_name(path))]
    if derive.wheel_os(facts) == "windows" or "\\" in path:
        return f"ren {path} {new}"
    return f"mv {path} {place}{new}"


def _source_tree(rule: Rule, facts: Facts, item: Symptom) -> Finding:
    return rule.finding(
        "error",
        title="A directory named torch without its compiled part is imported",
        seen=derive.quote(item),
        why="Python found a torch directory that has no compiled torch._C: the current directory is PyTorch's source tree (or holds "
        "a folder named torch), or the compiled file of the installation is not for this Python.",
        remedy=Remedy(
            text="Change to another directory and try again; rename a folder of yours that is called torch. If it fails from "
            "everywhere, the installation is incomplete: install torch again.",
            commands=('cd .. && python -c "import torch; print(torch.__file__)"',),
        ),
        confidence="likely",
        otherwise="torch.__file__ printed from another directory shows which folder is found.",
        line=item.line,
    )


RULES: tuple[Rule, ...] = (
    build_isolation,
    build_requirement_missing,
    local_file,
    wrong_interpreter,
    user_site,
    duplicate_install,
    torch_not_installed,
)
