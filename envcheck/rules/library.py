"""Libraries of the system: which copy is found first, and is it new enough?"""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.facts import Facts, LoadedLibrary, Symptom
from envcheck.findings import Finding, Remedy
from envcheck.matrix import Matrix
from envcheck.rules import derive, library_cudnn, library_runtimes, library_system, library_windows
from envcheck.rules.base import Rule, rule
from envcheck.rules.install_nvidia import nvidia_pins
from envcheck.rules.library_loader import (
    CUDA_FAMILIES,
    WHEEL_OF_FAMILY,
    LoaderError,
    base_name,
    library_path,
    loader_errors,
    owner_of_path,
    readable,
)

_NAMES = {
    "nvJitLink": "libnvJitLink",
    "cublasLt": "libcublasLt",
    "cublas": "libcublas",
    "nccl": "NCCL (libnccl)",
    "cudnn": "cuDNN",
    "cudart": "libcudart",
    "torch": "libtorch",
    "cusparse": "libcusparse",
    "cusparseLt": "libcusparseLt",
    "nvrtc": "libnvrtc",
    "cupti": "libcupti",
    "cufile": "libcufile",
    "nvshmem": "libnvshmem",
}


def _foreign_load(facts: Facts) -> LoaderError | None:
    """A library of torch or of NVIDIA that lacks a symbol of another one: the other one is not the copy it was built with."""
    for error in loader_errors(facts):
        if error.symptom.echo or error.kind != "undefined-symbol" or error.package is not None:
            continue
        owner, needs = error.owner, error.needs
        if needs in CUDA_FAMILIES and owner in ("torch", "nvidia", "system", "unknown"):
            return error
        if needs == "torch" and owner in ("torch", "unknown") and library_path(facts):
            return error
    return None


def _by_variable(facts: Facts) -> tuple[Symptom, str] | None:
    """Torch's Python part meets a compiled part of another version, and a variable puts other libraries first."""
    found = library_path(facts)
    if found is None:
        return None
    for item in derive.symptoms(facts, "torch-c-attribute-missing", "torch-registered-twice"):
        return item, f"{found[0]}={found[1]}"
    return None


def _cudnn_part(facts: Facts) -> Symptom | None:
    """A part of cuDNN that comes from a system directory and does not fit the rest."""
    for item in derive.symptoms(facts, "cudnn-load-failed"):
        error = item.details.get("error", "")
        if error.startswith("libcuda.so"):
            continue  # the driver's library is what is missing
        if "undefined symbol" in error or owner_of_path(error.split(":")[0]) == "system":
            return item
    return None


def loaded_from_path(facts: Facts) -> tuple[LoadedLibrary, ...]:
    """CUDA libraries that were really mapped from outside although torch brings its own."""
    return tuple(
        lib
        for lib in facts.torch.loaded_libraries or ()
        if lib.name in CUDA_FAMILIES | {"torch"} and lib.origin in ("ld_library_path", "system", "other")
    )


@rule(
    "library-path-shadowing",
    "library",
    "Another copy of a CUDA, NCCL or torch library is found first (LD_LIBRARY_PATH, import order).",
    explains=("cudnn-version-incompatible", "corrupted-install", "extension-abi-mismatch"),
)
def library_path_shadowing(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """A directory that is searched before the wheel's own."""
    variable = library_path(facts)
    by_variable = _by_variable(facts)
    if by_variable is not None:
        item, value = by_variable
        yield _finding(rule, facts, item, "torch", value, None)
        return
    part = _cudnn_part(facts)
    if part is not None:
        place = part.details.get("error", "").split(":")[0]
        yield _finding(rule, facts, part, "cudnn", f"{variable[0]}={variable[1]}" if variable else None, place)
        return
    error = _foreign_load(facts)
    if error is not None:
        setting = f"{variable[0]}={variable[1]}" if variable else None
        yield _finding(rule, facts, error.symptom, error.needs or "", setting, None, error)
        return
    yield from _live(rule, facts, matrix)


def _finding(
    rule: Rule,
    facts: Facts,
    item: Symptom,
    family: str,
    variable: str | None,
    place: str | None,
    error: LoaderError | None = None,
) -> Finding:
    name = _NAMES.get(family, family)
    setting = (variable or "LD_LIBRARY_PATH").split("=")[0]
    torch = derive.torch_version(facts)
    asked = f"{base_name(error.file or '')} needs {readable(error.symbol or '')}" if error else None
    return rule.finding(
        "error",
        title=f"Another copy of {name} is loaded than the one that belongs to this torch"
        + (f" ({setting})" if variable else ""),
        seen=derive.quote(item, torch and f"torch {torch}", variable and readable(variable, 200), place),
        why=(f"{asked}. " if asked else "")
        + f"The {name} that was found first is of another version. torch's wheels bring their own, but "
        + ("DYLD_LIBRARY_PATH" if setting.startswith("DYLD") else "LD_LIBRARY_PATH")
        + " (or a library that was loaded earlier in the process) comes before it.",
        remedy=_unset(facts, family, setting),
        confidence="certain" if variable else "likely",
        otherwise=""
        if variable
        else f"`LD_DEBUG=libs python -c 'import torch' 2>&1 | grep -i {_needle(family)}` shows which file is taken, and a package that was "
        "imported before torch may have loaded it; `python -m pip list | grep nvidia` shows whether the wheel itself is of the "
        "version that torch asks for.",
        line=item.line,
    )


def _needle(family: str) -> str:
    return {"torch": "libtorch"}.get(family, family.lower())


def _unset(facts: Facts, family: str, setting: str) -> Remedy:
    wheel = WHEEL_OF_FAMILY.get(family)
    text = f"Unset {setting} for this program, or take the directory that holds the other {_NAMES.get(family, family)} out of it."
    if wheel:
        text += f" If the variable is not set: import torch first, and bring {wheel}-cuNN back to torch's own version."
    command = f"env -u {setting} python -c 'import torch; print(torch.__version__)'"
    return Remedy(text=text, commands=(f"unset {setting}", command))


def _live(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Nothing failed, and foreign copies are loaded: worth a warning when they are older than torch's pins."""
    variable = library_path(facts)
    foreign = loaded_from_path(facts)
    if not foreign or derive.torch_from_conda(facts) or derive.is_jetson(facts):
        return
    pins = {p.name.rsplit("-cu", 1)[0]: p for p in nvidia_pins(facts, matrix)}
    replaced = [lib for lib in foreign if WHEEL_OF_FAMILY.get(lib.name) in pins or lib.name == "torch"]
    if not replaced:
        return
    failed = bool(facts.torch.imports and facts.torch.imports.bad)
    shown = ", ".join(f"{lib.name} {lib.version or ''} from {lib.path}".replace("  ", " ") for lib in replaced[:4])
    yield rule.finding(
        "error" if failed else "warning",
        title=f"{_NAMES.get(replaced[0].name, replaced[0].name)} is loaded from outside the environment",
        seen=derive.quote(shown, f"{variable[0]}={readable(variable[1], 200)}" if variable else None),
        why="torch brings its own copy of this library; the one from outside is of a version that torch was not tested with.",
        remedy=_unset(facts, replaced[0].name, variable[0] if variable else "LD_LIBRARY_PATH"),
        confidence="certain",
    )


@rule("cuda-stub-library", "library", "The toolkit's stub libcuda was loaded.",
      explains=("nvidia-driver-not-loaded", "driver-too-old", "cuda-unknown-error", "container-no-gpu", "driver-libcuda-mismatch"))  # fmt: skip
def cuda_stub(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """The file for linking without a driver, found at run time."""
    item = facts.symptom("cuda-stub")
    loaded = next((lib for lib in facts.nvidia.libcuda or () if lib.kind == "stub" and lib.loaded), None)
    if item is None and loaded is None:
        return
    path = loaded.path if loaded else derive.detail(item, "path")
    real = next((lib.path for lib in facts.nvidia.libcuda or () if lib.kind in ("driver", "wsl", "jetson")), None)
    variable = library_path(facts)
    yield rule.finding(
        "error",
        title=f"The stub of libcuda is loaded{f': {path}' if path else ''}",
        seen=derive.quote(item, path, variable and f"{variable[0]}={readable(variable[1], 200)}", real and f"the driver's own: {real}"),
        why="The toolkit's stubs directory holds empty libraries for linking on machines without a driver. Loaded at run time they "
        "answer every call with an error, so CUDA seems to be absent.",
        remedy=Remedy(
            text="Take the stubs directory out of LD_LIBRARY_PATH, and out of /etc/ld.so.conf.d; the real libcuda.so.1 comes with the "
            "driver.",
            commands=("echo $LD_LIBRARY_PATH", "ldconfig -p | grep libcuda.so"),
        ),
        line=item.line if item else None,
    )  # fmt: skip


RULES: tuple[Rule, ...] = (
    library_path_shadowing,
    cuda_stub,
    *library_cudnn.RULES,
    *library_system.RULES,
    *library_runtimes.RULES,
    *library_windows.RULES,
)
