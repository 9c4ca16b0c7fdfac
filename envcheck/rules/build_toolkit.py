"""The CUDA toolkit and the host compiler, which only building extensions needs."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.facts import Facts
from envcheck.findings import Finding, Remedy
from envcheck.matrix import Matrix
from envcheck.rules import derive
from envcheck.rules.base import Rule, rule


@rule(
    "toolkit-torch-cuda-mismatch",
    "build",
    "Building an extension: nvcc and torch.version.cuda differ.",
)
def toolkit_mismatch(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """The toolkit of another CUDA major than torch's; it matters for building only."""
    error = facts.symptom("nvcc-torch-mismatch")
    cuda = derive.torch_cuda(facts, matrix)
    nvcc = derive.detail(error, "nvcc_arg", "nvcc", "installed") or facts.toolchain.nvcc_version or None
    built = derive.detail(error, "torch_arg", "torch", "compiled", "binaries") or (cuda.value if cuda else None)
    if error is None:
        yield from _minor(rule, facts)
        return
    short = ".".join(map(str, derive.numbers(built)[:2])) or "the CUDA of torch"
    windows = derive.wheel_os(facts) == "windows"
    isolated = (
        " The build ran in isolation (pip-build-env): the torch that it was compared with is one that pip fetched for the build, not "
        "the environment's; with --no-build-isolation it is the environment's."
        if any(s.details.get("place") for s in derive.symptoms(facts, "build-context"))
        else ""
    )
    yield rule.finding(
        "error",
        title=f"nvcc is CUDA {nvcc or 'of another version'}, torch was built with CUDA {built or 'of another version'}",
        seen=derive.quote(error, nvcc and f"nvcc {nvcc}", built and f"torch built with CUDA {built}"),
        why="An extension is compiled with the toolkit that CUDA_HOME (or PATH) names and then loaded into torch; the two "
        "CUDA versions must have the same major. Running torch needs no toolkit and is not affected.",
        remedy=Remedy(
            text=f"Install the CUDA {short} toolkit and point CUDA_HOME at it, or install a torch built for CUDA {nvcc or '(nvcc)'}.{isolated}",
            commands=(
                (f"set CUDA_HOME=C:\\Program Files\\NVIDIA GPU Computing Toolkit\\CUDA\\v{short}",)
                if windows
                else (f"export CUDA_HOME=/usr/local/cuda-{short}", "export PATH=$CUDA_HOME/bin:$PATH")
            ),
        ),
        line=error.line,
    )


def _minor(rule: Rule, facts: Facts) -> Iterator[Finding]:
    """A warning of torch about a minor difference, which is no fault."""
    item = facts.symptom("nvcc-minor-mismatch")
    if item is None:
        return
    yield rule.finding(
        "note",
        title="nvcc and torch differ in the minor version of CUDA only, which is allowed",
        seen=derive.quote(item),
        why="Within one CUDA major an extension may be built with another minor version than torch's.",
        remedy=Remedy(text="Nothing has to be done."),
        line=item.line,
    )


@rule("cuda-toolkit-missing", "build", "Building an extension: no CUDA toolkit is found, or CUDA_HOME is unset.",
      explains=("extension-without-cuda",))  # fmt: skip
def toolkit_missing(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """nvcc, or the headers, are needed to compile; torch's wheels do not bring them."""
    error = facts.symptom("cuda-toolkit-missing")
    headers = facts.symptom("cuda-headers-missing")
    item = error or headers
    if item is None:
        return
    cuda = derive.torch_cuda(facts, matrix)
    short = ".".join(map(str, derive.numbers(cuda.value)[:2])) if cuda and cuda.value else ""
    kits = [k for k in facts.toolchain.cuda_toolkits or () if k.path and k.has_nvcc]
    header = derive.detail(headers, "header", "include") if error is None else None
    windows = derive.wheel_os(facts) == "windows"
    version = short or "of torch.version.cuda"
    if kits:
        text = f"A toolkit is there ({kits[0].path}): point CUDA_HOME at it."
        commands: tuple[str, ...] = (f"export CUDA_HOME={kits[0].path}",)
    else:
        text = (
            f"Install the CUDA toolkit {version} (nvcc and headers) and set CUDA_HOME to its root"
            " (NVIDIA's packages, or conda: cuda-toolkit from the nvidia channel). Or take a wheel of the extension that is "
            "already compiled."
        )
        commands = (
            (f"set CUDA_HOME=C:\\Program Files\\NVIDIA GPU Computing Toolkit\\CUDA\\v{short or '12.8'}",)
            if windows
            else (f"export CUDA_HOME=/usr/local/cuda{'-' + short if short else ''}",)
        )
    yield rule.finding(
        "error",
        title=f"The CUDA toolkit is incomplete: {header} is missing" if header else "No CUDA toolkit (nvcc) was found; CUDA_HOME is not set",
        seen=derive.quote(item, facts.toolchain.cuda_home and f"CUDA_HOME={facts.toolchain.cuda_home}"),
        why="Compiling a CUDA extension needs the whole toolkit with nvcc and headers. torch's wheels bring the run-time "
        "libraries only, which is enough to run torch.",
        remedy=Remedy(text=text, commands=commands),
        confidence="likely" if header else "certain",
        otherwise="If the toolkit is complete, its include directory is not on the compiler's path." if header else "",
        line=item.line,
    )  # fmt: skip


@rule("nvcc-arch-unsupported", "build", "The toolkit cannot make code for the GPU that an extension is built for.")
def nvcc_arch(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """An nvcc too old for a new GPU, or too new for an old one."""
    error = facts.symptom("nvcc-arch-unsupported")
    if error is None:
        return
    arch = derive.detail(error, "arch", "value", "name") or ""
    capability = derive.capability_of_text(arch)
    row = matrix.architecture(capability) if capability else None
    nvcc = facts.toolchain.nvcc_version
    dropped = bool(row and row.last_cuda) and (
        nvcc is None or derive.numbers(nvcc) > derive.numbers(row.last_cuda if row else None)
    )
    if row is None:
        why, text = (
            "This toolkit does not know that architecture.",
            "Use a CUDA toolkit that lists it (nvcc --list-gpu-arch).",
        )
    elif dropped:
        why = f"CUDA {row.last_cuda} is the last toolkit that makes {row.name} code."
        text = f"Leave {arch} out of TORCH_CUDA_ARCH_LIST if no such GPU is used, or build with CUDA {row.last_cuda} or older."
    else:
        why = f"{row.name} code ({arch}) can be made from CUDA {row.first_cuda} on."
        text = f"Build with a CUDA toolkit {row.first_cuda} or newer that fits this torch, or leave {arch} out of TORCH_CUDA_ARCH_LIST."
    yield rule.finding(
        "error",
        title=f"nvcc{f' {nvcc}' if nvcc else ''} cannot build for {arch or 'this GPU'}",
        seen=derive.quote(error, nvcc and f"nvcc {nvcc}"),
        why=why + " This concerns building the extension only.",
        remedy=Remedy(text=text, commands=("nvcc --list-gpu-arch",)),
        line=error.line,
    )


@rule("host-compiler-unsupported", "build", "The C++ compiler is too new (or too old) for this CUDA toolkit.")
def host_compiler(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Each nvcc accepts a range of host compilers."""
    error = facts.symptom("host-compiler-unsupported")
    if error is None:
        return
    newest = derive.detail(error, "newest")
    cuda = derive.detail(error, "cuda") or facts.toolchain.nvcc_version
    windows = "visual studio" in error.text.lower()
    older = f"gcc-{newest} g++-{newest}" if newest else "an older gcc"
    years = derive.detail(error, "msvc")
    studio = f"Visual Studio {years}" if years else "the MSVC toolset that this CUDA supports"
    yield rule.finding(
        "error",
        title="The host compiler is not supported by this CUDA toolkit",
        seen=derive.quote(error, facts.toolchain.gcc_version and f"gcc {facts.toolchain.gcc_version}"),
        why=f"Each CUDA toolkit{f' (here {cuda})' if cuda else ''} accepts host compilers up to a certain version.",
        remedy=Remedy(
            text=f"Install {studio} (its C++ build tools are enough; run the build in that version's developer prompt), or a newer "
            "CUDA toolkit of the same major as torch's."
            if windows
            else f"Use {older} for the build, or a newer CUDA toolkit of the same major as torch's.",
            commands=()
            if windows or not newest
            else (f"export CC=gcc-{newest} CXX=g++-{newest} CUDAHOSTCXX=g++-{newest}",),
        ),
        line=error.line,
    )


@rule("build-arch-unknown", "build", "An extension is built where no GPU is seen, and no architecture is named.")
def build_arch_unknown(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Builds ask the visible GPUs for what to compile; in an image that is being built there are none."""
    item = facts.symptom("build-arch-unknown")
    if item is None:
        return
    variable = derive.detail(item, "variable") or "TORCH_CUDA_ARCH_LIST"
    example = "86" if variable.startswith("TCNN") else "8.6"
    yield rule.finding(
        "error",
        title=f"The build sees no GPU, and {variable} does not say for which to compile",
        seen=derive.quote(item),
        why="Without that variable the architectures of the visible GPUs are taken. There is none: a docker build, a login node, a driver "
        "that does not work, or a CPU build of torch.",
        remedy=Remedy(
            text="Name the compute capability of the GPUs that it is for (nvidia-smi --query-gpu=compute_cap --format=csv on the machine "
            "with the GPU). If this is that machine, see first why torch.cuda.is_available() is False.",
            commands=(f'export {variable}="{example}"', 'python -c "import torch; print(torch.__version__, torch.cuda.is_available())"'),
        ),
        confidence="certain",
        line=item.line,
    )  # fmt: skip


RULES: tuple[Rule, ...] = (toolkit_missing, toolkit_mismatch, nvcc_arch, build_arch_unknown, host_compiler)
