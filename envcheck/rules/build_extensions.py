"""Third-party binaries beside torch: their ABI, their GPU code, their CUDA."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.facts import Facts, Symptom
from envcheck.findings import Finding, Remedy
from envcheck.matrix import Matrix
from envcheck.rules import derive, remedies
from envcheck.rules.base import Rule, rule
from envcheck.rules.build_gpu import kernel_error_package, verdicts
from envcheck.rules.library_loader import (
    CUDA_FAMILIES,
    LoaderError,
    abi_wanted,
    base_name,
    loader_errors,
    owner_of_path,
    readable,
)

REBUILD = "--no-build-isolation"
"""An extension must be compiled against the torch that is installed, not one that pip fetches for the build."""


# --- GPU code -----------------------------------------------------------------------------------------------------


@rule("extension-missing-arch", "build", "torch has code for the GPU; a third-party CUDA extension has not.")
def extension_missing_arch(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """A kernel that is missing although the build covers the GPU, or an extension that refuses the GPU by name."""
    refusal = facts.symptom("extension-gpu-unsupported")
    if refusal is not None:
        yield _refused(rule, facts, matrix, refusal)
        return
    judged = verdicts(facts, matrix)
    for error in derive.symptoms(facts, "no-kernel-image", "cuda-invalid-device-function"):
        package = kernel_error_package(error)
        covered = bool(judged) and all(v.runs for v in judged)
        if package is None and not covered:
            continue
        yield _missing(rule, facts, matrix, error, package)
        return


def _gpu_label(facts: Facts, matrix: Matrix) -> str:
    return ", ".join(dict.fromkeys(g.label for g in derive.gpus(facts, matrix))) or "this GPU"


def _missing(rule: Rule, facts: Facts, matrix: Matrix, error: Symptom, package: str | None) -> Finding:
    judged = [v for v in verdicts(facts, matrix) if v.runs]
    named = f"the extension {package}" if package else "a third-party CUDA extension"
    archs = [g.capability for g in derive.gpus(facts, matrix) if g.capability]
    listed = " ".join(dict.fromkeys(archs))
    version, cuda = derive.torch_version(facts), derive.torch_cuda(facts, matrix)
    build = f"torch {version}" if version else ""
    return rule.finding(
        "error",
        title=f"{named[:1].upper()}{named[1:]} has no code for {_gpu_label(facts, matrix)}",
        seen=derive.quote(error, build, *(v.gpu.label + ": " + v.reason for v in judged)),
        why="torch's own build runs on this GPU, so the kernel that failed belongs to something compiled apart from it, for other GPUs."
        if judged
        else "The kernel that failed belongs to the extension, which was compiled for other GPUs than this one.",
        remedy=Remedy(
            text=f"Compile {package or 'the extension'} on this machine for compute capability {listed or 'of the GPU'}, with a "
            f"CUDA toolkit {cuda.value if cuda and cuda.value else 'of the same major as torch.version.cuda'}, or take a wheel "
            "of it that lists this GPU.",
            commands=_rebuild(facts, package, listed),
        ),
        confidence="likely",
        otherwise='If a plain `torch.ones(1, device="cuda") + 1` fails in the same way, it is torch\'s own build: look at '
        "torch.cuda.get_arch_list().",
        line=error.line,
    )


def _rebuild(facts: Facts, package: str | None, archs: str) -> tuple[str, ...]:
    if package is None or not archs:
        return ()
    setting = (
        f"set TORCH_CUDA_ARCH_LIST={archs}"
        if derive.wheel_os(facts) == "windows"
        else f'export TORCH_CUDA_ARCH_LIST="{archs}"'
    )
    return (
        setting,
        remedies.pip(facts, "install", "--force-reinstall", "--no-deps", "--no-binary", package, REBUILD, package),
    )


def _refused(rule: Rule, facts: Facts, matrix: Matrix, item: Symptom) -> Finding:
    named = derive.detail(item, "extension") or "The extension"
    needs = derive.detail(item, "needs", "floor", "least")
    floor = derive.detail(item, "floor")
    need = f"compute capability {floor.replace(', ', '.')}" if floor else needs or "a newer GPU"
    return rule.finding(
        "error",
        title=f"{named} does not run on {_gpu_label(facts, matrix)}",
        seen=derive.quote(item, *(g.label for g in derive.gpus(facts, matrix))),
        why=f"This third-party extension has kernels for {need} only. torch itself is not concerned.",
        remedy=Remedy(
            text="Switch the extension off and use torch's own attention (scaled_dot_product_attention; in transformers "
            'attn_implementation="sdpa"), or a release of it that supports this GPU.'
        ),
        line=item.line,
    )


# --- ABI ----------------------------------------------------------------------------------------------------------


def _is_foreign(error: LoaderError) -> bool:
    """A third-party library that lacks something of torch, or a CUDA library of another major."""
    if error.package is None:
        return _symbol_alone(error)
    if error.kind == "undefined-symbol":
        return error.needs in ("torch", "unknown") or error.needs in CUDA_FAMILIES
    if error.kind == "missing-library":
        return error.needs == "torch" or error.needs in CUDA_FAMILIES
    return False


def _symbol_alone(error: LoaderError) -> bool:
    """Only the symbol was pasted, one of torch's: torch itself comes with its own, so somebody else's binary wants it."""
    return "bare" in error.symptom.details and error.frame is None and error.needs == "torch"


def extension_trouble(facts: Facts) -> LoaderError | None:
    """The first message of a loader about somebody else's binary."""
    return next((e for e in loader_errors(facts) if _is_foreign(e) and not e.symptom.echo), None)


def _windows_extension(facts: Facts) -> tuple[Symptom, str] | None:
    """A DLL of a third-party package that lacks a procedure: the Windows form of an undefined symbol."""
    for item in derive.symptoms(facts, "windows-procedure-not-found", "windows-dll-not-found"):
        module = item.details.get("module", "")
        owner = owner_of_path(item.details.get("frame"))
        package = owner.removeprefix("extension:") if owner.startswith("extension:") else None
        if item.kind == "windows-dll-not-found" and package is None:
            continue
        named = package or (
            module if re.search(r"_cuda|_ext\b|^_C$|_kernels?|flash|xformers|bitsandbytes", module) else ""
        )
        if named and named not in ("_C",):
            return item, named
    return None


def _with_cuda(facts: Facts, label: str) -> str:
    if label == "bitsandbytes":
        # Source: bitsandbytes' release notes: wheels hold all CUDA versions; those for Windows begin with 0.43.0.
        return (
            "Install a current bitsandbytes: its wheel brings the binaries for every CUDA that torch has"
            + (", on Windows from 0.43.0 on (older ones look for Linux libraries there)." if derive.wheel_os(facts) == "windows" else ".")
            + " `python -m bitsandbytes` then shows which one it takes."
        )  # fmt: skip
    return (
        f"Check that torch.version.cuda is set and nvcc is there, then build {label} again with FORCE_CUDA=1, or install "
        "its CUDA wheel."
    )


@rule(
    "extension-abi-mismatch",
    "build",
    "A third-party binary was built for another torch, another CUDA or another C++ ABI.",
)
def extension_abi_mismatch(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """The extension asks for a symbol, a library or a version that this torch does not have."""
    error = extension_trouble(facts)
    if error is not None:
        yield _abi_finding(rule, facts, matrix, error)
        return
    text = facts.symptom("extension-torch-version", "stale-extension-cache")
    if text is not None:
        yield _told(rule, facts, matrix, text)
        return
    found = _windows_extension(facts)
    if found is not None:
        item, package = found
        yield rule.finding(
            "error",
            title=f"{package} was built for another torch than the one that is installed",
            seen=derive.quote(item, _torch_label(facts)),
            why="Its DLL asks for a function that the DLLs of this torch do not have.",
            remedy=_reinstall(facts, matrix, package),
            confidence="likely",
            otherwise="If it fails with torch's own DLLs too, look at the Visual C++ runtime.",
            line=item.line,
        )


def _torch_label(facts: Facts) -> str | None:
    version = derive.torch_version(facts)
    return f"torch {version}" if version else None


def _package_version(facts: Facts, package: str) -> str | None:
    found = facts.distribution(package) or facts.distribution(package.replace("_", "-"))
    return found.version if found else None


def _abi_finding(rule: Rule, facts: Facts, matrix: Matrix, error: LoaderError) -> Finding:
    package = error.package or "the extension"
    version = _package_version(facts, package)
    torch = _torch_label(facts)
    label = f"{package} {version}" if version else package
    cached = "torch_extensions" in (error.file or "")
    return rule.finding(
        "error",
        title=f"{label} was built against another {_other(error)} than {_this(facts, matrix, error)}",
        seen=derive.quote(error.symptom, torch, version and f"{package} {version}"),
        why=_abi_why(facts, error),
        remedy=_clear_cache(facts, package) if cached else _reinstall(facts, matrix, package),
        confidence="certain" if error.needs == "torch" and error.symbol and not _symbol_alone(error) else "likely",
        otherwise=""
        if error.needs == "torch" and error.symbol and not _symbol_alone(error)
        else "The words ahead of the symbol name the file: reinstall the package that it belongs to."
        if _symbol_alone(error)
        else "If the import order matters (it works after `import torch`), the library is found once torch has loaded it.",
        line=error.symptom.line,
    )


def _other(error: LoaderError) -> str:
    return "CUDA" if error.needs in CUDA_FAMILIES else "torch"


def _this(facts: Facts, matrix: Matrix, error: LoaderError) -> str:
    version, cuda = derive.torch_version(facts), derive.torch_cuda(facts, matrix)
    if error.needs in CUDA_FAMILIES and cuda and cuda.value:
        return f"the CUDA {cuda.value} of the installed torch"
    return f"the installed {version}" if version else "the one that is installed"


def _abi_why(facts: Facts, error: LoaderError) -> str:
    if error.kind == "missing-library":
        library = base_name(error.library or "")
        if error.needs == "torch":
            gone = {
                "libtorch_cuda_cu": "existed in torch 1.8 to 1.13 only",
                "libtorch_cuda_cpp": "existed in torch 1.8 to 1.13 only",
                "libtorch_cuda": "is part of CUDA builds only",
                "libc10_cuda": "is part of CUDA builds only",
            }.get(library.split(".")[0], "is loaded by `import torch`, which has to come first")
            return f"The binary needs {library}, which {gone}."
        return f"The binary needs {library}: it was compiled for that CUDA, and this torch brings another (or none)."
    symbol = error.symbol or ""
    abi = abi_wanted(symbol)
    ours = facts.torch.cxx11_abi
    text = f"The binary needs {readable(symbol)}, which this torch does not export: it was built against another release of torch"
    if abi == "new":
        text += ", with the new C++ ABI (std::__cxx11), which torch's Linux wheels have from 2.7 on (2.6 in the cu126 build)"
    elif abi == "old":
        text += ", with the old C++ ABI, which torch's Linux wheels had up to 2.6"
    if ours is not None and abi:
        text += f"; this torch was built with _GLIBCXX_USE_CXX11_ABI={int(ours)}"
    return text + "."


_WHEEL_NOTES = {
    "flash-attn": "flash-attn publishes one wheel for each torch line, CUDA major, Python and C++ ABI: take the file whose name "
    "says exactly this torch (cxx11abiTRUE for torch 2.7 and newer, FALSE for plain 2.6 and older), or compile it.",
    "xformers": "Each xformers release pins one torch: install the release made for this torch from the same index.",
    "mmcv": "mmcv's full wheels are made for one torch line and one CUDA: use its own index (mim install mmcv), or compile it.",
    "torch-scatter": "PyG's wheels are made for one torch and one CUDA: use the find-links page https://data.pyg.org/whl/ of this torch.",
    "vllm": "vllm pins one torch: let vllm choose it, in an environment of its own.",
    "torchtext": "torchtext ended with 0.18 (torch 2.3); its releases pin one torch each.",
}


def _note(package: str) -> str:
    if package.startswith(("torch-sparse", "torch-cluster", "torch-spline", "pyg-lib")):
        package = "torch-scatter"
    return _WHEEL_NOTES.get(package, "")


def _reinstall(facts: Facts, matrix: Matrix, package: str) -> Remedy:
    note = _note(package)
    text = (
        f"Install the release of {package} that was built for this torch, or compile it against this torch"
        " (a toolkit of the same CUDA major is needed)."
    )
    return Remedy(
        text=f"{text} {note}".strip(),
        commands=(
            remedies.pip(facts, "uninstall", "-y", package),
            remedies.pip(facts, "install", "--no-cache-dir", "--no-binary", package, REBUILD, package),
        ),
    )


def _clear_cache(facts: Facts, package: str) -> Remedy:
    return Remedy(
        text=f"{package} was compiled at run time for an earlier torch and kept: delete the cache, and it is compiled anew.",
        commands=(
            "rmdir /s /q %LOCALAPPDATA%\\torch_extensions"
            if derive.wheel_os(facts) == "windows"
            else "rm -r ~/.cache/torch_extensions",
        ),
    )


def _told(rule: Rule, facts: Facts, matrix: Matrix, item: Symptom) -> Finding:
    cached = item.kind == "stale-extension-cache"
    package = "the extension" if cached else "xformers"
    return rule.finding(
        "error",
        title="A compiled extension in the cache belongs to an earlier torch"
        if cached
        else "xformers was built for another torch than the one that is installed",
        seen=derive.quote(item, _torch_label(facts)),
        why="The library was compiled against another torch, so its symbols do not fit."
        if cached
        else "Its C++ and CUDA parts do not load, so memory-efficient attention is not available.",
        remedy=_clear_cache(facts, package) if cached else _reinstall(facts, matrix, package),
        line=item.line,
    )


@rule("extension-without-cuda", "build", "A third-party extension was built without CUDA.")
def extension_without_cuda(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Built where no GPU, no toolkit or no CUDA torch was seen."""
    error = facts.symptom("extension-without-cuda")
    foreign = None
    for item in derive.symptoms(facts, "op-without-cuda-backend"):
        if not item.details.get("op", "").startswith(("aten::", "torchvision::", "prims::", "quantized::")):
            foreign = item
    item_ = error or foreign
    if item_ is None:
        return
    owner = owner_of_path(item_.details.get("frame"))
    package = derive.detail(item_, "extension", "named", "binary", "linux") or (
        owner.removeprefix("extension:") if owner.startswith("extension:") else None
    )
    if package is None and foreign is not None:
        package = foreign.details["op"].split("::")[0]
    if item_.details.get("setup"):
        package = "bitsandbytes"  # the sentence is its own
    label = package or "the extension"
    yield rule.finding(
        "error",
        title=f"{label} was built without CUDA",
        seen=derive.quote(item_, _torch_label(facts)),
        why="Its GPU kernels were left out when it was built: no CUDA toolkit, no visible GPU, or a CPU-only torch at that time; "
        "or this release of it has no binary for the CUDA of this torch.",
        remedy=Remedy(
            text=_with_cuda(facts, label),
            commands=(
                () if package is None else (remedies.pip(facts, "install", "--force-reinstall", "--no-deps", "--no-cache-dir", package),)
            ),
        ),
        confidence="likely",
        otherwise="If torch itself is a CPU build (torch.version.cuda is None), mend that first.",
        line=item_.line,
    )  # fmt: skip


RULES: tuple[Rule, ...] = (
    extension_missing_arch,
    extension_abi_mismatch,
    extension_without_cuda,
)
