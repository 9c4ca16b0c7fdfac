"""What the operating system has to bring: C library, C++ runtime, OpenMP, and the right to an executable stack."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.facts import Facts, Symptom
from envcheck.findings import Finding, Remedy
from envcheck.matrix import Matrix
from envcheck.rules import derive
from envcheck.rules.base import Rule, rule
from envcheck.rules.install_resolve import glibc_of_hint
from envcheck.rules.library_loader import base_name, loader_errors, readable, symbol_owner


def _versions_missing(facts: Facts, *families: str) -> Symptom | None:
    for item in derive.symptoms(facts, "missing-symbol-version"):
        if item.details.get("need", "").startswith(families):
            return item
    return None


# --- glibc --------------------------------------------------------------------------------------------------------


def _by_installer(rule: Rule, item: Symptom) -> Finding:
    """By the hint of uv: the platform that it found, and the platforms that there are wheels for."""
    here, needed = glibc_of_hint(item) or ("", "")
    named = f"{item.details.get('hint', 'torch')} {item.details.get('hint_version', '')}".strip()
    return rule.finding(
        "error",
        title=f"glibc {here} is too old for the wheels of {named}: {needed} or newer is needed",
        seen=derive.quote(item),
        why=f"The wheels are made for glibc {needed}; the C library belongs to the operating system, and neither pip nor uv can replace it.",
        remedy=Remedy(
            text="Use a newer distribution, or a container with one. Or take a release that was built for this glibc: torch up to 2.6 "
            "on x86_64 (2.5 on aarch64) needs 2.17, later ones 2.28.",
            commands=("ldd --version",),
        ),
        confidence="likely",
        otherwise="If ldd shows a newer glibc (after an upgrade of the system): uv keeps what it found of an interpreter; run it once with --refresh.",
        line=item.line,
    )


@rule("glibc-too-old", "library", "The C library is older than the binaries need.",
      explains=("libstdcxx-too-old", "corrupted-install", "torchvision-mismatch", "torchaudio-mismatch"))  # fmt: skip
def glibc_too_old(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """A distribution of another decade; glibc cannot be replaced inside an environment."""
    item = _versions_missing(facts, "GLIBC_")
    if item is None:
        hinted = next((s for s in derive.symptoms(facts, "uv-no-wheel") if glibc_of_hint(s)), None)
        if hinted is not None:
            yield _by_installer(rule, hinted)
            return
    have = facts.system.libc_version
    version, machine = derive.torch_version(facts), derive.wheel_machine(facts)
    release = matrix.release(version) if version else None
    floor = None
    if release is not None:
        floor = release.glibc_aarch64 if machine == "aarch64" else release.glibc_x86_64
    below = bool(floor and have and facts.system.libc != "musl") and derive.numbers(have) < derive.numbers(floor)
    if item is None and (
        not below or derive.torch_from_conda(facts) or (facts.torch.imports and facts.torch.imports.ok)
    ):
        return
    need = (derive.detail(item, "need") or "").removeprefix("GLIBC_") or floor
    by = derive.detail(item, "file")
    where = ", ".join(p for p in (facts.system.name, f"glibc {have}" if have else "") if p)
    yield rule.finding(
        "error",
        title=f"glibc{f' {have}' if have else ''} is too old: {need} or newer is needed",
        seen=derive.quote(item, where, by and f"needed by {base_name(by)}", version and f"torch {version}"),
        why=f"{base_name(by) if by else 'torch'} was built for glibc {need}; the C library belongs to the operating system, and neither pip "
        "nor conda can replace it.",
        remedy=Remedy(
            text="Use a newer distribution, or a container with one. Or take versions that were built for this glibc: torch up to 2.6 on "
            "x86_64 (2.5 on aarch64) needs 2.17, later ones 2.28."
        ),
        line=item.line if item else derive.line_of(facts, "system.libc_version"),
    )


# --- libstdc++ ----------------------------------------------------------------------------------------------------


def _stdcxx_symbol(facts: Facts) -> Symptom | None:
    """An undefined symbol of the C++ runtime: the same trouble in another wording."""
    for error in loader_errors(facts):
        if error.kind == "undefined-symbol" and error.symbol and symbol_owner(error.symbol) == "libstdc++":
            return error.symptom
    return None


@rule("libstdcxx-too-old", "library", "libstdc++ lacks GLIBCXX/CXXABI symbols.",
      explains=("corrupted-install", "extension-abi-mismatch", "torchvision-mismatch"))  # fmt: skip
def libstdcxx_too_old(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Built with a newer GCC than the libstdc++ that is found first."""
    item = _versions_missing(facts, "GLIBCXX_", "CXXABI_", "GCC_") or _stdcxx_symbol(facts)
    if item is None:
        return
    need = derive.detail(item, "need") or readable(
        derive.detail(item, "symbol", "musl_symbol", "dyld_symbol") or "a newer symbol"
    )
    provider, by = derive.detail(item, "provider"), derive.detail(item, "file")
    system_copy = provider is None or re.match(r"/(?:usr/)?lib", provider) is not None
    conda = facts.python.kind == "conda" or any(
        "conda" in (p or "").lower() for p in (by, facts.python.executable, facts.python.prefix)
    )
    prefix = facts.python.conda_prefix or "$CONDA_PREFIX"
    have = facts.system.glibcxx_max
    if system_copy and conda:
        why = "The environment brings a newer libstdc++ of its own, and the system's older one was loaded before it."
        text = "Put the environment's libstdc++ first, only for this program; make sure that the environment has it."
        commands: tuple[str, ...] = (
            "conda install -c conda-forge libstdcxx-ng",
            f"LD_LIBRARY_PATH={prefix}/lib python your_script.py",
        )
    elif system_copy:
        why = "The system's libstdc++ is older than the compiler that built this binary."
        text = (
            "Update libstdc++ (a newer distribution release; on Ubuntu the toolchain PPA brings libstdc++6), use an environment that has "
            "its own (conda: libstdcxx-ng), or compile the extension on this machine."
        )
        commands = ("strings /usr/lib/x86_64-linux-gnu/libstdc++.so.6 | grep GLIBCXX | tail -1",)
    else:
        why = f"Another program's copy ({provider}) is found ahead of the system's, which may well be new enough."
        text = "Take that directory out of LD_LIBRARY_PATH, or update the libstdc++ in it."
        commands = ("unset LD_LIBRARY_PATH",)
    yield rule.finding(
        "error",
        title=f"libstdc++ is too old: {need} is missing",
        seen=derive.quote(item, provider and f"found: {provider}", by and f"needed by {base_name(by)}", have and f"newest there: GLIBCXX_{have}"),
        why=f"{base_name(by) if by else 'A binary'} was compiled with a newer GCC than this C++ runtime. {why}",
        remedy=Remedy(text=text, commands=commands),
        line=item.line,
    )  # fmt: skip


# --- executable stack, TLS ----------------------------------------------------------------------------------------


@rule("executable-stack-refused", "library", "The system refuses a library that asks for an executable stack.",
      explains=("corrupted-install",))  # fmt: skip
def executable_stack(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """SELinux, a hardened kernel, or glibc 2.41 and newer, which refuse to make the stack executable."""
    item = facts.symptom("executable-stack")
    if item is None:
        return
    path = derive.detail(item, "file")
    name = base_name(path) if path else "the library"
    location = path if path and "/" in path else f"PATH/TO/site-packages/torch/lib/{name}"
    version = facts.system.libc_version
    policy = facts.system.selinux
    yield rule.finding(
        "error",
        title=f"{name} asks for an executable stack, and the system refuses it",
        seen=derive.quote(item, policy and f"SELinux: {policy}", version and f"glibc {version}"),
        why="The library carries the flag by mistake (one object file was assembled without the note that says otherwise). SELinux, "
        "hardened kernels and, from 2.41 on, glibc itself do not grant an executable stack any more.",
        remedy=Remedy(
            text="Use a newer torch, whose libraries do not ask for it, or clear the flag in the file with patchelf or execstack. Loosening "
            "the policy for the whole system is the worst way.",
            commands=(f"patchelf --clear-execstack {location}",),
        ),
        line=item.line,
    )


@rule("static-tls-exhausted", "library", "A library was loaded too late for its thread-local storage.")
def static_tls(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Mostly libgomp on aarch64, after many other libraries."""
    item = facts.symptom("static-tls")
    if item is None:
        return
    path = derive.detail(item, "file")
    yield rule.finding(
        "error",
        title=f"{base_name(path) if path else 'A library'} was loaded too late: no room for its thread-local storage",
        seen=derive.quote(item),
        why="The loader keeps a small fixed space for libraries with static thread-local storage (libgomp is one); who comes late finds "
        "none left.",
        remedy=Remedy(
            text="Import that package (torch, sklearn, cv2) first in the program, or preload the library.",
            commands=(f"LD_PRELOAD={path} python your_script.py",) if path and "/" in path else (),
        ),
        line=item.line,
    )


# --- other libraries of the system --------------------------------------------------------------------------------

_PACKAGE_OF: tuple[tuple[str, str, str], ...] = (
    (r"libGL\.so\.1", "OpenCV", "libgl1"),
    (r"libgthread-2\.0", "OpenCV", "libglib2.0-0"),
    (r"libSM\.so|libXext|libXrender|libX11", "OpenCV's windows", "libsm6 libxext6 libxrender1"),
    (r"libgomp\.so\.1", "OpenMP", "libgomp1"),
    (r"libopenblas\.so\.0", "NVIDIA's Jetson wheel of torch", "libopenblas0"),
    (r"libmpi(?:_cxx)?\.so", "a torch built with MPI (NVIDIA's Jetson wheels)", "libopenmpi-dev"),
    (r"libsndfile", "audio files", "libsndfile1"),
    (r"libsox", "torchaudio's sox", "libsox-fmt-all sox"),
    (r"libnuma\.so\.1", "NUMA", "libnuma1"),
    (r"libjpeg\.so|libpng16", "torchvision's image part", "libjpeg-turbo8 libpng16-16"),
    (r"libavutil|libavcodec|libavformat|libavdevice", "video (torchcodec, PyAV)", "ffmpeg"),
    (r"libibverbs|librdmacm", "InfiniBand", "libibverbs1 librdmacm1"),
    (r"libaio\.so", "DeepSpeed's async I/O", "libaio-dev"),
    (r"libpython3\.\d+", "an embedded Python", "libpython3-dev"),
)


@rule("system-library-missing", "library", "A library of the operating system is not installed.")
def system_library_missing(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Slim images lack what OpenCV, audio or Jetson wheels expect of the system."""
    said = facts.symptom("openmp-header-missing", "sndfile-missing")
    if said is not None:
        yield _told_missing(rule, facts, said)
        return
    for error in loader_errors(facts):
        name = base_name(error.library or "")
        if error.kind != "missing-library" or not name or error.symptom.echo:
            continue
        row = next(((use, package) for pattern, use, package in _PACKAGE_OF if re.match(pattern, name)), None)
        mkl = re.match(r"libmkl_(?!sycl)\w+\.so(?:\.(\d))?", name)
        if row is None and mkl is None:
            continue
        sudo = "" if derive.in_container(facts) else "sudo "
        if mkl is not None:
            text = "torch here is a conda build with a shared MKL: install MKL into the environment, in the version that it was built with."
            commands: tuple[str, ...] = ('conda install "mkl<2024.1"' if mkl.group(1) != "3" else "conda install mkl",)
            use = "MKL"
        else:
            assert row is not None
            use, package = row
            text = f"Install it with the system's package manager (Debian and Ubuntu: {package})."
            commands = (f"{sudo}apt-get install -y {package}",)
        yield rule.finding(
            "error",
            title=f"{name} is not installed",
            seen=derive.quote(error.symptom),
            why=f"It belongs to the system, not to the wheel ({use}).",
            remedy=Remedy(text=text, commands=commands),
            line=error.symptom.line,
        )
        return


def _told_missing(rule: Rule, facts: Facts, item: Symptom) -> Finding:
    """Programs that say it themselves: the compiler without OpenMP's header, soundfile without its library."""
    openmp = item.kind == "openmp-header-missing"
    mac = derive.wheel_os(facts) == "macos" or "clang++" in item.text or "file not found" in item.text
    package = ("libomp" if mac else "libomp-dev") if openmp else ("libsndfile" if mac else "libsndfile1")
    return rule.finding(
        "error",
        title="OpenMP's header omp.h is not installed" if openmp else "libsndfile is not installed",
        seen=derive.quote(item),
        why="torch.compile and C++ extensions compile with OpenMP for the CPU; Apple's compiler comes without it."
        if openmp
        else "The Python package soundfile needs the library of the system.",
        remedy=Remedy(
            text="Install it with the system's package manager"
            + (", and let the compiler find it: CPATH and LIBRARY_PATH below the directory that brew --prefix libomp prints." if openmp and mac else "."),
            commands=(f"brew install {package}" if mac else f"sudo apt-get install -y {package}",),
        ),
        line=item.line,
    )  # fmt: skip


@rule("macos-too-old", "library", "This macOS is older than the libraries were built for.",
      explains=("corrupted-install", "extension-abi-mismatch", "library-path-shadowing"))  # fmt: skip
def macos_too_old(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """dyld: a library of the system lacks a symbol, or a file says for which macOS it was made."""
    item = facts.symptom("macos-older-than-built")
    if item is None:
        return
    built, system = derive.detail(item, "built"), derive.detail(item, "system")
    macos = facts.apple.macos or facts.system.version
    yield rule.finding(
        "error",
        title="This macOS is too old for the library" + (f", which was built for macOS {built}" if built else ""),
        seen=derive.quote(item, macos and f"macOS {macos}"),
        why=f"The symbol belongs to {base_name(system)}, a part of macOS itself; this macOS does not have it yet."
        if system
        else "The loader says that the file was made for a newer macOS than the one that runs.",
        remedy=Remedy(
            text="Update macOS, or install a release of the package whose wheels are made for this one (pip chooses it by the platform tag; "
            "a wheel that was forced, copied or built elsewhere is not checked).",
            commands=("sw_vers", 'python -c "import platform; print(platform.mac_ver()[0], platform.machine())"'),
        ),
        confidence="certain" if built else "likely",
        otherwise="" if built else "An SDK that is newer than the system (a build on this machine) gives the same message.",
        line=item.line,
    )  # fmt: skip


# --- OpenMP -------------------------------------------------------------------------------------------------------


@rule("omp-duplicate-runtime", "library", "Two copies of the OpenMP runtime are in one process.")
def omp_duplicate(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """MKL's runtime from conda and torch's own, two copies of one, or Intel's beside GNU's."""
    item = facts.symptom("omp-duplicate", "mkl-threading-layer")
    if item is None:
        yield from _two_families(rule, facts)
        return
    second = derive.detail(item, "second", "new") or "libiomp5"
    first = derive.detail(item, "first", "old", "library") or second
    layer = item.kind == "mkl-threading-layer"
    mac = derive.wheel_os(facts) == "macos" or ".dylib" in second
    find = (
        f"where /R %CONDA_PREFIX% {second}"
        if second.endswith(".dll") or derive.wheel_os(facts) == "windows"
        else f'find "$CONDA_PREFIX" -name "{second.split(".")[0]}*"'
    )
    yield rule.finding(
        "error",
        title=f"Two OpenMP runtimes are loaded: {second}" + (f" and {first}" if first != second else ", twice"),
        seen=derive.quote(item, limit=260),
        why="OpenMP keeps one pool of threads per process. Two runtimes (conda's MKL or scikit-learn brings one, torch's wheel another) "
        "work against each other: slow, deadlocked, or silently wrong."
        if not layer
        else "MKL was told to use Intel's OpenMP, and GNU's is in the process already.",
        remedy=Remedy(
            text="Import NumPy first, or set MKL_THREADING_LAYER=GNU."
            if layer
            else "Let one source provide it: torch, NumPy and MKL all from conda, or all from pip, in a fresh environment"
            + (" (conda: the package nomkl)" if mac else "")
            + ". To mend the present one, find the copies and remove the one that does not belong to torch. "
            "KMP_DUPLICATE_LIB_OK only hides the message; results may be wrong.",
            commands=("export MKL_THREADING_LAYER=GNU",) if layer else (find,),
        ),
        line=item.line,
    )


def _two_families(rule: Rule, facts: Facts) -> Iterator[Finding]:
    """Intel's and LLVM's runtime loaded together: said by threadpoolctl, or seen in the live process."""
    item = facts.symptom("omp-two-families")
    loaded: dict[str, set[str]] = {}
    for lib in facts.torch.loaded_libraries or ():
        if lib.name in ("libomp", "libiomp5"):
            loaded.setdefault(lib.name, set()).add(lib.path)
    twice = len(loaded) > 1 or any(len(paths) > 1 for paths in loaded.values())
    if item is None and not twice:
        return
    paths = sorted(path for group in loaded.values() for path in group)
    yield rule.finding(
        "warning",
        title="Two OpenMP runtimes of one kind are loaded in one process",
        seen=derive.quote(item, *paths),
        why="Intel's and LLVM's OpenMP share their names inside; together they can hang or slow each other down.",
        remedy=Remedy(
            text="Take torch, NumPy and SciPy from one source (all conda, or all pip), in a fresh environment."
        ),
        line=item.line if item else None,
    )


RULES: tuple[Rule, ...] = (
    glibc_too_old,
    libstdcxx_too_old,
    executable_stack,
    static_tls,
    omp_duplicate,
    system_library_missing,
    macos_too_old,
)
