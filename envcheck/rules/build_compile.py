"""torch.compile: devices, Pythons and tools that it needs."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.facts import Facts
from envcheck.findings import Finding, Remedy
from envcheck.matrix import Matrix
from envcheck.rules import derive, remedies
from envcheck.rules.base import Rule, rule
from envcheck.rules.build_companions import triton_version
from envcheck.rules.install_plans import planned

EAGER = "Until then run without torch.compile (TORCHDYNAMO_DISABLE=1 switches it off)."


@rule(
    "compile-backend-unsupported",
    "build",
    "torch.compile does not support this device in this release.",
    explains=("hardcoded-cuda-device", "cpu-only-build", "triton-missing"),
)
def compile_backend_unsupported(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Inductor on MPS, on Windows of old, on a GPU that Triton does not know any more."""
    yield from _on_mac(rule, facts)
    yield from _on_windows(rule, facts, matrix)
    yield from _device(rule, facts)
    yield from _gpu_too_old(rule, facts)


def _mac(facts: Facts) -> bool:
    return derive.wheel_os(facts) == "macos" or bool(facts.apple.macos or facts.apple.chip)


def _on_mac(rule: Rule, facts: Facts) -> Iterator[Finding]:
    """A Mac whose torch.compile trips over a CUDA call or the missing Triton."""
    if not _mac(facts):
        return
    error = facts.symptom("compile-without-cuda", "triton-missing")
    if error is None and facts.symptom("compile-context"):
        error = facts.symptom("torch-without-cuda")
    if error is None:
        return
    version = derive.torch_version(facts)
    yield rule.finding(
        "error",
        title=f"torch.compile of torch {version or 'this release'} does not support MPS",
        seen=derive.quote(error, version and f"torch {version}", "macOS"),
        why="In this release the compiler knows CPU and CUDA devices only, and asks for CUDA on the way to an MPS device. "
        "The build and the Mac are in order.",
        remedy=Remedy(
            text="Run eagerly on MPS, or compile on the CPU. Compiling for MPS came with later releases (early state from "
            f"torch 2.7). {EAGER}"
        ),
        confidence="likely",
        otherwise="If the traceback shows no torch._dynamo or torch._inductor frame, the code itself asks for CUDA.",
        line=error.line,
    )


def _on_windows(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    error = facts.symptom("compile-windows")
    if error is None:
        return
    version = derive.torch_version(facts)
    made = planned(facts, matrix)
    yield rule.finding(
        "error",
        title="torch.compile is not supported on Windows in this release",
        seen=derive.quote(error, version and f"torch {version}"),
        why="torch 2.0.0 to 2.2.1 refuse it on Windows; later releases allow it, on the GPU together with triton-windows.",
        remedy=Remedy(text=f"Update torch. {made.text} {EAGER}", commands=made.commands),
        line=error.line,
    )


def _device(rule: Rule, facts: Facts) -> Iterator[Finding]:
    error = facts.symptom("compile-device-unsupported")
    if error is None:
        return
    device = derive.detail(error, "device", "other") or "this device"
    yield rule.finding(
        "error",
        title=f"torch.compile does not support the device {device} in this release",
        seen=derive.quote(error),
        why=f"Inductor, the default backend of torch.compile, has no code generator for {device} here.",
        remedy=Remedy(text=f"Use a release whose inductor supports {device}, or another backend. {EAGER}"),
        line=error.line,
    )


def _gpu_too_old(rule: Rule, facts: Facts) -> Iterator[Finding]:
    error = facts.symptom("triton-gpu-too-old")
    if error is None:
        return
    floor = derive.detail(error, "floor") or "7.0"
    gpu = derive.detail(error, "gpu") or "this GPU"
    has = derive.detail(error, "capability")
    yield rule.finding(
        "error",
        title=f"torch.compile does not support {gpu}: Triton needs compute capability {floor}",
        seen=derive.quote(error),
        why=f"{gpu}{f' has {has}' if has else ''}; Triton, which makes the kernels, starts at {floor}. Eager mode is not "
        "affected.",
        remedy=Remedy(
            text="Run without torch.compile on this GPU.", commands=(_variable(facts, "TORCHDYNAMO_DISABLE", "1"),)
        ),
        line=error.line,
    )


def _variable(facts: Facts, name: str, value: str) -> str:
    return f"set {name}={value}" if derive.wheel_os(facts) == "windows" else f"export {name}={value}"


@rule("compile-python-too-new", "build", "torch.compile of this release does not accept this Python.")
def compile_python_too_new(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """The compiler follows CPython's byte code and lags a release behind; free-threaded builds have a floor of their own."""
    error = facts.symptom("compile-python-too-new", "compile-free-threaded")
    version = derive.torch_version(facts)
    release = matrix.release(version) if version else None
    python = derive.detail(error, "python", "dynamo", "compile") or derive.python_minor(facts)
    newest = release.compile_python_max if release else None
    beyond = bool(newest and python) and derive.numbers(python) > derive.numbers(newest)
    if error is None and not beyond:
        return
    free = error is not None and error.kind == "compile-free-threaded"
    need = _first_release_for(matrix, python)
    yield rule.finding(
        "error" if error else "note",
        title=f"torch.compile of torch {version or 'this release'} does not accept "
        + ("free-threaded Python" if free else f"Python {python or 'of this version'}"),
        seen=derive.quote(error, version and f"torch {version}", python and f"Python {python}"),
        why="Everything but torch.compile works."
        + (
            f" In torch {release.version} the newest Python it accepts is {newest}."
            if release and newest and not free
            else ""
        ),
        remedy=Remedy(
            text="Use torch 2.8 or newer with CPython 3.13.3t or newer, or a Python with the GIL."
            if free
            else f"Use torch {need} or newer, or Python {newest or 'of the line before'}."
            if need
            else f"Use an older Python{f' (up to {newest})' if newest else ''}, or leave torch.compile out."
        ),
        line=error.line if error else derive.line_of(facts, "python.version"),
    )


def _first_release_for(matrix: Matrix, python: str | None) -> str | None:
    if not python:
        return None
    for release in matrix.releases:
        if release.compile_python_max and derive.numbers(release.compile_python_max) >= derive.numbers(python):
            return release.version
    return None


@rule("triton-ptxas-too-old", "build", "The ptxas that comes with Triton does not know this GPU.")
def triton_ptxas_too_old(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Triton brings its own assembler; a newer GPU than it needs another one."""
    error = facts.symptom("ptxas-unknown-gpu")
    if error is None:
        return
    arch = derive.detail(error, "arch", "target")
    capability = derive.capability_of_text(arch)
    row = matrix.architecture(capability) if capability else None
    need = row.first_cuda if row else None
    installed = triton_version(facts)
    torch = derive.torch_version(facts)
    kits = [k for k in facts.toolchain.cuda_toolkits or () if k.path and k.version]
    fit = next((k for k in kits if need and derive.numbers(k.version) >= derive.numbers(need)), None)
    path = f"{fit.path}/bin/ptxas" if fit else "/usr/local/cuda/bin/ptxas"
    what = arch or "the PTX version that is needed"
    yield rule.finding(
        "error",
        title=f"The ptxas inside Triton does not know {what}",
        seen=derive.quote(
            error, installed and f"{installed[0]} {installed[1] or ''}".strip(), torch and f"torch {torch}"
        ),
        why=f"Triton assembles its kernels with the ptxas that it brings along; that one is older than {what}"
        + (f" (known from CUDA {need})" if need else "")
        + ". torch's own kernels are not affected.",
        remedy=Remedy(
            text=f"Point TRITON_PTXAS_PATH at the ptxas of a CUDA toolkit {need or 'that knows this GPU'}"
            + (" or newer" if need else "")
            + ", or use a newer torch with its Triton.",
            commands=(f"export TRITON_PTXAS_PATH={path}",),
        ),
        confidence="certain" if "ptxas" in error.text.lower() else "likely",
        otherwise="" if "ptxas" in error.text.lower() else "`ptxas --version` of the path in the error names its CUDA.",
        line=error.line,
    )


@rule("triton-libcuda-not-found", "build", "Triton cannot link against libcuda.so.")
def triton_libcuda(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Its launcher is linked with -lcuda; the driver's library is not where the linker or ldconfig looks."""
    error = facts.symptom("triton-libcuda")
    if error is None:
        return
    known = [lib.path for lib in facts.nvidia.libcuda or () if lib.kind in ("driver", "wsl", "jetson")]
    place = known[0].rsplit("/", 1)[0] if known else "/usr/lib/wsl/lib" if facts.system.wsl else "DIRECTORY_OF_LIBCUDA"
    yield rule.finding(
        "error",
        title="Triton does not find the driver's libcuda.so",
        seen=derive.quote(error, *known[:2]),
        why="Triton links its launcher against libcuda.so of the driver. ldconfig does not list it (under WSL it lies in /usr/lib/wsl/lib, in "
        "containers the runtime mounts it), or only the name with .1 is there.",
        remedy=Remedy(
            text="Tell Triton the directory, or add it to the loader's configuration and run ldconfig.",
            commands=("ldconfig -p | grep libcuda", f"export TRITON_LIBCUDA_PATH={place}"),
        ),
        line=error.line,
    )


@rule("no-c-compiler", "build", "Triton or Inductor needs a C compiler and there is none.")
def no_c_compiler(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """A slim image or a Windows without build tools."""
    error = facts.symptom("no-c-compiler")
    if error is None:
        yield from _no_compiler_yet(rule, facts)
        return
    windows = derive.wheel_os(facts) == "windows" or re.search(r"\bcl\b|cl\.exe|Visual C\+\+", error.text) is not None
    yield rule.finding(
        "error",
        title="No C compiler was found",
        seen=derive.quote(error, "no cc, gcc or clang on PATH" if facts.system.c_compiler == "" else None),
        why="Triton compiles a small launcher, and Inductor its CPU kernels, while the program runs; extensions are compiled "
        "when they are installed. Each needs a working compiler.",
        remedy=_compiler_remedy(facts, windows=windows),
        line=error.line,
    )


def _no_compiler_yet(rule: Rule, facts: Facts) -> Iterator[Finding]:
    """A live machine without one where torch.compile could be used: worth knowing, nothing is broken."""
    if facts.system.c_compiler != "" or not triton_version(facts) or derive.wheel_os(facts) != "linux":
        return
    if not derive.has_nvidia_gpu(facts):
        return
    yield rule.finding(
        "note",
        title="There is no C compiler, so torch.compile will not work",
        seen="no cc, gcc or clang on PATH; Triton is installed",
        why="Triton compiles its launcher when a compiled model first runs.",
        remedy=_compiler_remedy(facts, windows=False),
    )


_INSTALL_COMPILER = (
    (("debian", "ubuntu", "linuxmint", "pop", "raspbian"), "apt-get install -y build-essential"),
    (("fedora", "rhel", "centos", "rocky", "almalinux", "ol", "amzn"), "dnf install -y gcc gcc-c++"),
    (("arch", "manjaro"), "pacman -S --needed base-devel"),
    (("alpine",), "apk add build-base"),
    (("opensuse-leap", "opensuse-tumbleweed", "sles", "suse"), "zypper install -y gcc gcc-c++"),
)


def _compiler_remedy(facts: Facts, *, windows: bool) -> Remedy:
    if windows:
        return Remedy(
            text="Install the Visual Studio Build Tools with the workload 'Desktop development with C++', and start Python "
            "from the x64 Native Tools prompt, so that cl.exe is on PATH.",
            commands=("winget install Microsoft.VisualStudio.2022.BuildTools",),
        )
    if derive.wheel_os(facts) == "macos":
        return Remedy(text="Install Apple's command line tools.", commands=("xcode-select --install",))
    sudo = "" if derive.in_container(facts) else "sudo "
    distro = (facts.system.distro or "").lower()
    line = next((command for names, command in _INSTALL_COMPILER if distro in names), _INSTALL_COMPILER[0][1])
    text = "Install a compiler (gcc; on Debian and Ubuntu build-essential)"
    text += " in the image." if derive.in_container(facts) else ", or set CC to one."
    return Remedy(text=text, commands=(f"{sudo}{line}",))


@rule("python-headers-missing", "build", "The headers of this Python (Python.h) are not installed.")
def python_headers_missing(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Triton's launcher and every extension include Python.h, which distributions put in a package of its own."""
    error = facts.symptom("python-headers-missing")
    if error is None:
        return
    minor = derive.python_minor(facts) or "3"
    sudo = "" if derive.in_container(facts) else "sudo "
    distro = (facts.system.distro or "").lower()
    rpm = distro in ("fedora", "rhel", "centos", "rocky", "almalinux", "ol", "amzn")
    package = (
        f"dnf install -y python{minor}-devel"
        if rpm
        else f"apt-get install -y python{minor if minor != '3' else '3'}-dev"
    )
    yield rule.finding(
        "error",
        title="Python.h is missing: the Python headers are not installed",
        seen=derive.quote(error),
        why="Triton compiles its launcher, and extensions are compiled, against the headers of the Python that runs.",
        remedy=Remedy(
            text="Install the development package of this very Python version, or use a Python that brings its headers "
            "(uv, conda, python.org).",
            commands=(f"{sudo}{package}",),
        ),
        line=error.line,
    )


@rule("ninja-missing", "build", "Building C++ extensions needs ninja and there is none.")
def ninja_missing(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """torch.utils.cpp_extension.load refuses to work without it."""
    error = facts.symptom("ninja-missing")
    if error is None:
        return
    yield rule.finding(
        "error",
        title="ninja is not installed (or not on PATH)",
        seen=derive.quote(error),
        why="torch.utils.cpp_extension builds with ninja only.",
        remedy=Remedy(
            text="Install it into the environment and run Python with that environment active, so that its bin directory is "
            "on PATH.",
            commands=(remedies.pip(facts, "install", "ninja"),),
        ),
        line=error.line,
    )


RULES: tuple[Rule, ...] = (
    compile_backend_unsupported,
    compile_python_too_new,
    triton_ptxas_too_old,
    triton_libcuda,
    no_c_compiler,
    python_headers_missing,
    ninja_missing,
)
