"""NVRTC, the compiler with which torch makes CUDA kernels while it runs: what it does not know, and what it does not find."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.facts import Facts
from envcheck.findings import Finding, Remedy
from envcheck.matrix import Matrix
from envcheck.rules import derive, remedies
from envcheck.rules.base import Rule, rule
from envcheck.rules.install_plans import planned


@rule(
    "nvrtc-gpu-unknown",
    "build",
    "The run-time compiler (NVRTC) of this torch does not know the GPU.",
    explains=("smoke-failed",),
)
def nvrtc_gpu_unknown(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """NVRTC's refusal of the architecture that torch asks for, which is the GPU's own."""
    text = facts.symptom("nvrtc-arch")
    if text is None:
        return
    version, cuda = derive.torch_version(facts), derive.torch_cuda(facts, matrix)
    gpus = derive.gpus(facts, matrix)
    gpu = next((g for g in gpus if g.name or g.capability), None)
    capability = gpu.capability if gpu is not None else None
    chip = matrix.architecture(capability) if capability else None
    name = (gpu.name or f"compute capability {capability}") if gpu is not None else None
    since = f" {name} is known from CUDA {chip.first_cuda} on." if chip is not None and chip.first_cuda and name else ""
    yield rule.finding(
        "error",
        seen=derive.quote(
            text,
            f"torch {version}" if version else None,
            f"CUDA {cuda.value}" if cuda is not None and cuda.value else None,
            name,
        ),
        why="torch's own kernels may well run on this GPU (code for an older chip of its family does), but TorchScript, fused and jiterator "
        "kernels are compiled while the program runs, for exactly this chip, and NVRTC is of the CUDA that torch was built with: older than "
        f"the GPU, or so new that it dropped it.{since}",
        remedy=planned(facts, matrix)
        if gpu is not None
        else Remedy(
            text="Install a torch that was built with a CUDA that knows this GPU (Ampere 11.1, Ada and Hopper 11.8, Blackwell 12.8; CUDA 13 "
            "dropped Volta and older). Where the version of torch may not change: switch the run-time compilation off "
            "(torch._C._jit_set_profiling_executor(False), or run the model without torch.jit).",
            commands=('python -c "import torch; print(torch.version.cuda, torch.cuda.get_device_capability())"',),
        ),
        confidence="certain",
        line=text.line,
    )


@rule(
    "nvrtc-builtins-missing",
    "library",
    "NVRTC does not find its own second library (nvrtc-builtins).",
    explains=("smoke-failed", "missing-nvidia-wheels"),
)
def nvrtc_builtins_missing(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """NVRTC asks for the library by the release that it is of itself."""
    text = facts.symptom("nvrtc-builtins")
    if text is None:
        return
    major, minor = derive.detail(text, "major"), derive.detail(text, "minor")
    wanted = derive.detail(text, "release") or (f"{major}.{minor}" if major and minor else "")
    version, cuda = derive.torch_version(facts), derive.torch_cuda(facts, matrix)
    own = cuda.value if cuda is not None else None
    foreign = bool(own and wanted and not own.startswith(wanted) and not wanted.startswith(own))
    windows = derive.wheel_os(facts) == "windows" or ".dll" in text.text.lower()
    if foreign:
        why = f"The NVRTC that was loaded is of CUDA {wanted}, torch is built with {own}: another toolkit's copy is found before torch's."
        how = "Take the other toolkit's directory out of " + ("PATH." if windows else "LD_LIBRARY_PATH.")
    else:
        why = (
            f"NVRTC {wanted} is loaded and looks for its library of the same release by name. In the wheels of torch 1.8 and 1.9 for CUDA 11.1, "
            "and in every libtorch archive, it lies in torch's lib directory under another name (with a hash in it, or without the number)."
        )
        how = (
            "Reinstall torch with its nvidia-cuda-nvrtc wheel, or take a newer torch (the Linux wheels of today bring NVRTC as a package of its "
            "own). In a libtorch that has to stay: give the file beside libnvrtc the name that is asked for, by a link."
        )
    yield rule.finding(
        "error",
        title=f"NVRTC does not find its library nvrtc-builtins{f' of CUDA {wanted}' if wanted else ''}.",
        seen=derive.quote(text, f"torch {version}" if version else None),
        why=f"{why} A CUDA toolkit of another release does not have it.",
        remedy=Remedy(
            text=how,
            commands=(
                'python -c "import torch, os; print(os.path.dirname(torch.__file__))"',
                "where nvrtc-builtins64_*.dll" if windows else 'find "$(python -c \'import site; print(site.getsitepackages()[0])\')" -name "*nvrtc*"',
                *(("unset LD_LIBRARY_PATH",) if foreign and not windows else ()),
                *((remedies.pip(facts, "install", "--force-reinstall", "--no-cache-dir", "torch"),) if not foreign else ()),
            ),
        ),
        confidence="certain" if foreign else "likely",
        line=text.line,
    )  # fmt: skip


RULES: tuple[Rule, ...] = (nvrtc_gpu_unknown, nvrtc_builtins_missing)
