"""Windows: which DLL does not load, and what that number means."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.facts import Facts, Symptom
from envcheck.findings import Finding, Remedy
from envcheck.matrix import Matrix
from envcheck.rules import derive, remedies
from envcheck.rules.base import Rule, rule
from envcheck.rules.library_loader import base_name, owner_of_path

VC_REDIST = "https://aka.ms/vs/17/release/vc_redist.x64.exe"
VC_NEEDED = "14.40"
"""torch's newer DLLs are built with Visual Studio 2022 17.10, whose std::mutex fails with an older msvcp140.dll.

Source: Microsoft's release notes of Visual Studio 2022 17.10 (constexpr mutex constructor).
"""

_FIRST = ("c10.dll", "asmjit.dll", "aoti_custom_ops.dll", "backend_with_compiler.dll")
"""DLLs that are loaded first and need little else than the C++ runtime: when one of them fails, that is missing."""


def _file(item: Symptom) -> str:
    return base_name(
        item.details.get("file")
        or item.details.get("library")
        or item.details.get("asked")
        or item.details.get("told")
        or ""
    )


def _of_torch(facts: Facts, item: Symptom) -> bool:
    """The DLL is one of torch's own (or the import of torch failed), not one of a third-party package."""
    path = item.details.get("file") or item.details.get("asked") or item.details.get("told") or ""
    if not path and re.search(r"Failed to load image Python extension|torchvision|torchaudio", item.text):
        return False
    if path and owner_of_path(path) not in ("torch", "unknown"):
        return False
    module = item.details.get("module", "")
    if module and module not in ("_C", "torch._C", "torch"):
        return False
    frame = owner_of_path(item.details.get("frame"))
    return frame in ("torch", "unknown") or bool(path)


def vc_too_old(facts: Facts) -> bool:
    """The runtime is known, and absent or older than torch's DLLs need."""
    version = facts.system.vc_runtime
    return version is not None and (version == "" or derive.numbers(version)[:2] < derive.numbers(VC_NEEDED)[:2])


_CUDA_DLL = re.compile(
    r"(?:cudart|cublas|cublasLt|cufft|cufftw|curand|cusolver|cusolverMg|cusparse|cudnn|nvrtc|nvJitLink|cupti)\w*\.dll",
    re.IGNORECASE,
)
"""NVIDIA's own, which do not depend on a new C++ runtime."""


def _runtime_sign(facts: Facts) -> tuple[Symptom, str] | None:
    """(symptom, confidence) of a C++ runtime that is missing or too old."""
    said = facts.symptom("vc-runtime-missing", "windows-module-crashed")
    if said is not None:
        return said, "certain" if said.kind == "vc-runtime-missing" else "likely"
    for item in derive.symptoms(facts, "windows-dll-init-failed"):
        if _of_torch(facts, item) and not _CUDA_DLL.fullmatch(_file(item)):
            return item, "certain" if vc_too_old(facts) else "likely"
    for item in derive.symptoms(facts, "windows-procedure-not-found"):
        if _of_torch(facts, item):
            return item, "certain" if vc_too_old(facts) else "possible"
    for item in derive.symptoms(facts, "windows-dll-not-found"):
        if _of_torch(facts, item) and (_file(item) in _FIRST or vc_too_old(facts)):
            return item, "certain" if vc_too_old(facts) else "likely"
    return None


@rule("windows-vc-runtime", "library", "The Visual C++ runtime is missing or too old.",
      explains=("windows-dll-missing", "torchvision-mismatch", "corrupted-install"))  # fmt: skip
def windows_vc_runtime(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """c10.dll is the first of torch's DLLs; when it does not start, the runtime below it is at fault."""
    found = _runtime_sign(facts)
    version = facts.system.vc_runtime
    if found is None:
        failed = facts.torch.imports is not None and facts.torch.imports.bad
        if not (version == "" and (failed or facts.torch.imports is None) and derive.wheel_os(facts) == "windows"):
            return
    item, confidence = found or (None, "likely")
    name = _file(item) if item else ""
    init = item is not None and item.kind == "windows-dll-init-failed"
    older = item is not None and item.kind == "windows-procedure-not-found"
    yield rule.finding(
        "error",
        title="The Visual C++ runtime is " + ("absent" if version == "" else f"too old ({version})" if vc_too_old(facts) else "missing or too old")
        + (f": {name} does not start" if name else ""),
        seen=derive.quote(item, f"vcruntime/msvcp140 {version}" if version else "no msvcp140.dll found" if version == "" else None),
        why=_runtime_why(name or "A DLL of torch", init=init, older=older)
        + "; torch's DLLs are built with a newer compiler than the runtime (msvcp140.dll, vcruntime140_1.dll) that was loaded.",
        remedy=Remedy(
            text="Install the current Microsoft Visual C++ Redistributable (x64) from Microsoft, then open a new terminal."
            + (" If it is current already: another program put an old msvcp140.dll ahead (in the Python or conda directory, or a package "
               "imported before torch); import torch first." if init else ""),
            commands=("winget install --id Microsoft.VCRedist.2015+.x64 -e", f"start {VC_REDIST}"),
        ),
        confidence=confidence,
        otherwise="" if confidence == "certain" else "If it stays: `where msvcp140.dll` shows an older copy ahead of the system's; in a fresh "
        'environment `python -c "import torch"` shows whether the order of imports matters.',
        line=item.line if item else None,
    )  # fmt: skip


def _runtime_why(name: str, *, init: bool, older: bool) -> str:
    if init:
        return f"{name} was found, and its start-up code failed"
    if older:
        return f"{name} asks another DLL for a function that the copy which was found first does not have: it is an older one"
    return f"{name} needs DLLs of the Microsoft Visual C++ Redistributable that are not there"


_KNOWN: tuple[tuple[str, str, str], ...] = (
    (
        r"fbgemm\.dll",
        "fbgemm.dll of torch 2.4.0 needs libomp140.x86_64.dll, the LLVM OpenMP runtime, which comes with Visual Studio's C++ tools only.",
        (
            "Use torch 2.4.1 or newer, which does not need it, or install the Visual C++ build tools (Desktop development with C++) together "
            "with the current Visual C++ Redistributable."
        ),
    ),
    (
        r"(?:shm|torch_cpu|torch_python|caffe2\w*)\.dll",
        "It needs further DLLs: of torch itself (uv.dll, libiomp5md.dll), of the Visual C++ runtime, or of the Python that it was built for.",
        "Install the current Visual C++ Redistributable (x64), then torch again without the cache.",
    ),
    (
        r"nvToolsExt64_1\.dll",
        "nvToolsExt64_1.dll belongs to NVIDIA's NVTX, which old builds expected to be installed.",
        "Install a current torch, which does not need it, or NVTX from the CUDA installer.",
    ),
    (
        r"(?:cudart|cublas|cublasLt|cufft|curand|cusolver|cusparse|cudnn|nvrtc|nvJitLink|cupti)\w*\.dll",
        "It is a CUDA library, which a CUDA wheel brings along in torch\\lib; the CPU wheel does not.",
        "Install the CUDA wheel of torch that the program was made for.",
    ),
)


@rule("windows-dll-missing", "library", "A DLL that a torch DLL depends on is absent.",
      explains=("torchvision-mismatch", "torchaudio-mismatch"))  # fmt: skip
def windows_dll_missing(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """The file that is named is there; one that it needs is not."""
    item = facts.symptom("zlibwapi-missing")
    if item is not None:
        yield _zlib(rule, item)
        return
    for item in derive.symptoms(facts, "windows-dll-not-found", "windows-cannot-run"):
        if not _of_torch(facts, item):
            continue
        found = _runtime_sign(facts)
        if found is not None and found[0] is item:
            return
        yield _dll(rule, facts, matrix, item)
        return
    for item in derive.symptoms(facts, "windows-dll-init-failed"):
        if _CUDA_DLL.fullmatch(_file(item)):
            yield _does_not_start(rule, facts, item)
            return


def _does_not_start(rule: Rule, facts: Facts, item: Symptom) -> Finding:
    name = _file(item)
    return rule.finding(
        "error",
        title=f"{name} is there and does not start",
        seen=derive.quote(item),
        why=f"{name} is one of NVIDIA's large CUDA libraries. Its start fails where Windows cannot promise it the memory (a paging file "
        "that is off or too small), where the file is damaged, or where a DLL that it needs is of another CUDA.",
        remedy=Remedy(
            text="Let Windows manage the size of the paging file and close other programs, then try again; if it stays, install torch "
            "again without the cache in a fresh environment.",
            commands=(remedies.pip(facts, "install", "--force-reinstall", "--no-cache-dir", "torch"),),
        ),
        confidence="possible",
        otherwise=f"The program Dependencies (lucasg/Dependencies on GitHub), opened on {name}, names a DLL that is missing.",
        line=item.line,
    )


def _dll(rule: Rule, facts: Facts, matrix: Matrix, item: Symptom) -> Finding:
    name = _file(item) or "a DLL of torch"
    row = next(((why, text) for pattern, why, text in _KNOWN if re.fullmatch(pattern, name, re.IGNORECASE)), None)
    why = (
        row[0]
        if row
        else "The loader names the file that it was asked for; what is missing is one of the DLLs that this file needs in turn."
    )
    text = (
        row[1]
        if row
        else "Install the current Visual C++ Redistributable (x64), then torch again without the cache, in a fresh environment."
    )
    version = derive.torch_version(facts)
    return rule.finding(
        "error",
        title=f"A DLL that {name} depends on is missing",
        seen=derive.quote(item, version and f"torch {version}"),
        why=f"{name} itself is there. {why}",
        remedy=Remedy(
            text=text + " Take DLLs from their makers' installers only.",
            commands=(
                f"start {VC_REDIST}",
                remedies.pip(
                    facts,
                    "install",
                    "--force-reinstall",
                    "--no-cache-dir",
                    "torch>=2.4.1" if "fbgemm" in name else "torch",
                ),
            ),
        ),
        confidence="certain" if row and "fbgemm" in name else "likely",
        otherwise=f"The program Dependencies (lucasg/Dependencies on GitHub), opened on {name}, names the DLL that is missing.",
        line=item.line,
    )


def _zlib(rule: Rule, item: Symptom) -> Finding:
    return rule.finding(
        "error",
        title="zlibwapi.dll is missing: cuDNN 8 needs it",
        seen=derive.quote(item),
        why="cuDNN 8 for Windows uses zlib through this DLL; PyTorch's own wheels of later releases and cuDNN 9 do not need it.",
        remedy=Remedy(
            text="Use a torch with cuDNN 9 (2.4 or newer), or copy zlibwapi.dll (x64) from NVIDIA's cuDNN installation guide to a directory "
            "on PATH."
        ),
        line=item.line,
    )


RULES: tuple[Rule, ...] = (windows_vc_runtime, windows_dll_missing)
