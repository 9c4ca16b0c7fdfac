"""Libraries of the GPU makers' runtimes (ROCm, oneAPI, CANN), which a wheel of torch brings along or expects."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from envcheck.facts import Facts
from envcheck.findings import Finding, Remedy
from envcheck.matrix import Matrix
from envcheck.rules import derive
from envcheck.rules.base import Rule, rule
from envcheck.rules.library_loader import LoaderError, base_name, loader_errors


class Runtime(NamedTuple):
    """One maker's runtime."""

    name: str
    libraries: str
    """Expression for the names of its libraries."""
    wheel: str
    """Which builds of torch use it."""
    install: str
    commands: tuple[str, ...]


# Libraries: the manifests of torch's ROCm and XPU wheels (torch/lib, and the requirements intel-sycl-rt, intel-cmplr-lib-ur,
# mkl, oneccl, umf), and of CANN's set_env.sh.
_RUNTIMES = (
    Runtime(
        "ROCm",
        r"lib(?:amdhip64|hiprtc|hsa-runtime64|amd_comgr|MIOpen|roctx64|roctracer64|rocprofiler\w*|rocblas|hipblas(?:lt)?|rocsparse|hipsparse(?:lt)?"
        r"|rocfft|hipfft|rocrand|hiprand|rocsolver|hipsolver|rccl|rocm_smi64|rocm-core|amd_smi|migraphx\w*)\.so",
        "ROCm",
        "AMD's own wheels, conda packages and builds of your own expect a ROCm of that release in /opt/rocm: install it.",
        ("ls -d /opt/rocm*", "ldconfig -p | grep -e amdhip64 -e hsa-runtime"),
    ),
    Runtime(
        "oneAPI",
        r"lib(?:sycl|ur_loader|ur_adapter_level_zero|pi_level_zero|pi_win_proxy|umf|mkl_sycl\w*|ccl|imf|svml|irng|intlc|pti_view)\.so",
        "XPU",
        "What was built with another release of the compiler (Intel's extension, Triton's cache, a build of your own) needs that release "
        "of oneAPI: install it, and source its setvars.sh in this shell.",
        ("pip list | grep -i -e intel -e onemkl -e oneccl -e umf", "rm -r ~/.triton/cache"),
    ),
    Runtime(
        "CANN",
        r"lib(?:hccl|ascendcl|ascend_hal|ge_runner|opapi|msprofiler|atb|acl_\w+|aoe_tuning)\.so",
        "Ascend (torch_npu)",
        "Install Ascend's driver, CANN toolkit (and NNAL, which has libatb.so), and source their set_env.sh in this shell.",
        ("source /usr/local/Ascend/ascend-toolkit/set_env.sh", "npu-smi info"),
    ),
)


@rule(
    "gpu-runtime-library-missing",
    "library",
    "A library of the GPU's runtime (ROCm, oneAPI, CANN) is not found.",
    explains=("torch-import-fails", "extension-abi-mismatch", "corrupted-install"),
)
def gpu_runtime_library_missing(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """The loader names the library; whose it is decides whether torch's wheel or something beside it is at fault."""
    for error in loader_errors(facts):
        name = base_name(error.library or "")
        if error.kind != "missing-library" or error.symptom.echo:
            continue
        runtime = next((item for item in _RUNTIMES if re.match(item.libraries, name)), None)
        if runtime is not None:
            yield _finding(rule, facts, runtime, name, error)
            return


def _finding(rule: Rule, facts: Facts, runtime: Runtime, name: str, error: LoaderError) -> Finding:
    version = derive.torch_version(facts)
    label = derive.local_label(version) if version else ""
    package, numbered = error.package, re.search(r"\.so\.\d", name) is not None
    other = bool(version) and not label.startswith(("rocm", "xpu")) and runtime.name != "CANN"
    if package:
        how = (
            f"{package} was built against a {runtime.name} that is not here"
            + (f", and the torch beside it is {version}" if other else "")
            + f": install a release of {package} that was built for this torch, or build it on this machine. "
        )
    elif other:
        how = f"The torch here is {version}: what asks for {name} was built for a {runtime.wheel} build. "
    else:
        how = (
            f"torch's {runtime.wheel} wheels of download.pytorch.org bring these libraries along: reinstall torch from there in a fresh "
            "environment, and let no LD_LIBRARY_PATH of another release stand before them. "
            if runtime.name != "CANN"
            else ""
        )
    return rule.finding(
        "error",
        title=f"{name}, a library of {runtime.name}, is not found",
        seen=derive.quote(error.symptom, f"torch {version}" if version else None),
        why=f"{name} belongs to {runtime.name}, not to the driver."
        + (
            " The number in the name is the release that the binary was linked against; no other serves in its place."
            if numbered
            else ""
        ),
        remedy=Remedy(text=how + runtime.install, commands=runtime.commands),
        confidence="certain" if package or runtime.name == "CANN" else "likely",
        line=error.symptom.line,
    )


RULES: tuple[Rule, ...] = (gpu_runtime_library_missing,)
