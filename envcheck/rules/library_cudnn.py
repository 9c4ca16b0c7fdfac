"""cuDNN: the copy that is loaded, its parts among each other, and the GPUs it knows."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.facts import Facts, Symptom
from envcheck.findings import Finding, Remedy
from envcheck.matrix import Matrix
from envcheck.rules import derive, remedies
from envcheck.rules.base import Rule, rule
from envcheck.rules.install_plans import planned
from envcheck.rules.library_loader import library_path, owner_of_path, readable

# Source: pytorch/pytorch issue 188892: nvidia-cudnn-cu13 9.20.0.48 is without the library of this name, 9.21 brings it.
TENSOR_IR_FROM = "9.21"


def cudnn_wheel(facts: Facts) -> tuple[str, str] | None:
    """(distribution, version) of the cuDNN wheel that is installed."""
    for item in facts.python.distributions or ():
        if re.fullmatch(r"nvidia-cudnn-cu\d\d", item.name) and item.version:
            return item.name, item.version
    return None


def _dotted(text: str | None) -> str | None:
    """ "8, 5, 0" or "8.5.0" as "8.5.0"."""
    return re.sub(r"[, ]+", ".", text.strip()) if text else None


def _system_parts(facts: Facts) -> list[str]:
    """Parts of cuDNN that the loader took from system directories (LD_DEBUG), or that are installed there."""
    found = [s.details["path"] for s in derive.symptoms(facts, "ld-debug-init") if "cudnn" in s.details["path"]]
    for lib in facts.torch.loaded_libraries or ():
        if lib.name == "cudnn" and lib.origin in ("system", "ld_library_path"):
            found.append(lib.path)
    return list(dict.fromkeys(found))


def _system_packages(facts: Facts) -> list[str]:
    found = [
        f"{d.name} {d.version or ''}".strip() for d in facts.python.distributions or () if d.name.startswith("libcudnn")
    ]
    found += [f"cuDNN {v} of the system" for v in facts.toolchain.cudnn_system or ()]
    return list(dict.fromkeys(found))


@rule("cudnn-version-incompatible", "library", "The cuDNN that is loaded does not fit this torch.")
def cudnn_version_incompatible(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Another version than torch was compiled for, parts of two versions, or a cuDNN without code for the GPU."""
    item = facts.symptom("cudnn-version-incompatible")
    if item is not None:
        yield _other_version(rule, facts, item)
        return
    item = facts.symptom("cudnn-sublibrary")
    if item is not None:
        yield _parts(rule, facts, matrix, item)
        return
    item = next((s for s in derive.symptoms(facts, "cudnn-load-failed") if _is_missing(s)), None)
    if item is not None:
        yield _not_found(rule, facts, item)
        return
    yield from _gpu_dropped(rule, facts, matrix)


def _is_missing(item: Symptom) -> bool:
    """The file is not there (or is of cuDNN 8), and not "found and of another version"; a missing libcuda is another matter."""
    error = item.details.get("error", "")
    if "libcuda.so" in error:
        return False
    return bool(item.details.get("dll")) or "cannot open" in error or "No such file" in error


def _other_version(rule: Rule, facts: Facts, item: Symptom) -> Finding:
    built = _dotted(derive.detail(item, "built", "source"))
    found = _dotted(derive.detail(item, "found", "runtime"))
    variable = library_path(facts)
    wheel = cudnn_wheel(facts)
    return rule.finding(
        "error",
        title=f"cuDNN {found or 'of another version'} is loaded; this torch was compiled for {built or 'another one'}",
        seen=derive.quote(item, variable and f"{variable[0]}={readable(variable[1], 200)}", wheel and f"{wheel[0]} {wheel[1]}"),
        why="torch needs a cuDNN of the same major and at least the version that it was compiled for. A copy of the system "
        "(LD_LIBRARY_PATH, /usr/lib), or a wheel that another package moved, was found instead of torch's own.",
        remedy=_one_cudnn(facts),
        line=item.line,
    )  # fmt: skip


def _one_cudnn(facts: Facts) -> Remedy:
    wheel = cudnn_wheel(facts)
    command = remedies.pip(facts, "install", "--force-reinstall", "torch") if wheel is None else None
    return Remedy(
        text="Leave one cuDNN: unset LD_LIBRARY_PATH for this program (torch's wheels bring their own), or remove the other copy. If a "
        "package replaced nvidia-cudnn-cuNN, bring it back to the version that torch asks for.",
        commands=tuple(c for c in ("unset LD_LIBRARY_PATH", "python -m pip list | grep cudnn", command) if c),
    )


def _parts(rule: Rule, facts: Facts, matrix: Matrix, item: Symptom) -> Finding:
    system, packages, wheel = _system_parts(facts), _system_packages(facts), cudnn_wheel(facts)
    variable = library_path(facts)
    lacks = wheel is not None and derive.numbers(wheel[1])[:2] < derive.numbers(TENSOR_IR_FROM)
    from_system = "; ".join(system) or ", ".join(packages)
    why = (
        "cuDNN 9 is a set of libraries that must all be of one version. A part that the wheel does not have, or that is found earlier in "
        "a system directory, comes from another cuDNN, and the parts refuse each other."
    )
    if lacks and wheel:
        why += f" {wheel[0]} {wheel[1]} is without libcudnn_engines_tensor_ir (it came with {TENSOR_IR_FROM}), so the loader looks for it in the system."
    remove = (
        "Remove the cuDNN of the system (packages libcudnn9-*), or bring it to the very version of the wheel"
        if system or packages or not variable
        else f"Take the directory with the other cuDNN out of {variable[0]}"
    )
    return rule.finding(
        "error",
        title="Parts of two cuDNN versions are loaded" + (f": {from_system}" if from_system and len(from_system) < 120 else ""),
        seen=derive.quote(item, wheel and f"{wheel[0]} {wheel[1]}", from_system, variable and f"{variable[0]}={readable(variable[1], 200)}"),
        why=why,
        remedy=Remedy(
            text=f"{remove}. "
            + (f"A wheel of {TENSOR_IR_FROM} or newer brings all parts, if torch's pin allows it." if lacks else "Then only the wheel's parts are left."),
            commands=(
                ("sudo apt-get remove 'libcudnn9*'",)
                if (system or packages) and (derive.wheel_os(facts) or "linux") == "linux"
                else ("python -c 'import torch; print(torch.backends.cudnn.version())'",)
            ),
        ),
        confidence="certain" if system or packages else "likely",
        otherwise=""
        if system or packages
        else "`LD_DEBUG=libs python your_script.py 2>&1 | grep 'calling init.*cudnn'` shows from where each part comes.",
        line=item.line,
    )  # fmt: skip


def _not_found(rule: Rule, facts: Facts, item: Symptom) -> Finding:
    name = derive.detail(item, "library", "dll") or "a library of cuDNN"
    eight = re.search(r"\.so\.8|64_8\.dll", item.text) is not None
    torch = derive.torch_version(facts)
    new = derive.numbers(torch)[:2] >= (2, 4)
    other = owner_of_path(item.details.get("frame")).removeprefix("extension:")
    who = (
        f"{other} "
        if other in ("ctranslate2", "onnxruntime-gpu")
        else "The package that asks for it (CTranslate2, onnxruntime and others) "
    )
    why = (
        f"{who}was built for cuDNN 8; torch has used cuDNN 9 since 2.4, so its wheels do not bring this file any more."
        if eight and (new or not torch)
        else "The program loads cuDNN by name, and its directory is not on the search path of the loader."
    )
    text = (
        "Use a release of that package that is built for cuDNN 9 (CTranslate2 4.5 or newer), or install the cuDNN 8 wheel beside a torch "
        "before 2.4."
        if eight
        else "Install the cuDNN wheel of torch's CUDA and put its directory on the search path, or import torch first: it loads its own."
    )
    return rule.finding(
        "error",
        title=f"{name} was not found" + (": a cuDNN 8 file beside a torch with cuDNN 9" if eight and new else ""),
        seen=derive.quote(item, torch and f"torch {torch}"),
        why=why,
        remedy=Remedy(text=text),
        confidence="likely",
        otherwise="`python -m pip list | grep -i cudnn` shows which cuDNN is installed.",
        line=item.line,
    )


def _gpu_dropped(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """CuDNN 9.11 and newer have no code for Maxwell, Pascal and Volta."""
    wheel = cudnn_wheel(facts)
    version = facts.torch.cudnn or (wheel[1] if wheel else None)
    item = facts.symptom("cudnn-arch-mismatch", "cudnn-no-engine")
    if version is None:
        return
    old = [
        g for g in derive.gpus(facts, matrix) if g.capability and matrix.cudnn_floor_ok(g.capability, version) is False
    ]
    if not old:
        return
    cuda = derive.torch_cuda(facts, matrix)
    if item is None and not (cuda and cuda.value):
        return
    yield rule.finding(
        "error" if item else "warning",
        title=f"cuDNN {version} has no code for {old[0].name or old[0].sm}",
        seen=derive.quote(item, *(g.label for g in old), f"cuDNN {version}"),
        why="cuDNN 9.11 and newer need compute capability 7.5 (Turing); convolutions on older GPUs fail or fall back.",
        remedy=Remedy(
            text="Use the CUDA 12.6 build of torch, whose cuDNN is 9.10.2.21, and do not let another package raise nvidia-cudnn-cu12.",
            commands=(remedies.pip(facts, "install", "--force-reinstall", "--no-deps", "nvidia-cudnn-cu12==9.10.2.21"),)
            if wheel and wheel[0].endswith("cu12")
            else planned(facts, matrix).commands,
        ),
        confidence="likely",
        otherwise="torch.backends.cudnn.enabled = False shows whether cuDNN is the reason.",
        line=item.line if item else None,
    )


RULES: tuple[Rule, ...] = (cudnn_version_incompatible,)
