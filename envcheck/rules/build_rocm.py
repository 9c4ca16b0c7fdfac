"""Backends of other makers: AMD chips that a ROCm build leaves out, builds without XPU, builds without NCCL."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.facts import Facts
from envcheck.findings import Finding, Remedy
from envcheck.matrix import Matrix
from envcheck.rules import derive
from envcheck.rules.base import Rule, rule
from envcheck.rules.install_plans import planned

_NEAREST = {
    "10.3.0": ("gfx1031", "gfx1032", "gfx1033", "gfx1034", "gfx1035", "gfx1036"),
    "11.0.0": ("gfx1101", "gfx1102", "gfx1103"),
}
_GFX_OF_NAME = (
    (r"RX 6(?:700|750|650|600|500|400)\b|RX 6[5678]00M", "10.3.0"),
    (r"RX 7(?:600|700|800)\b|780M|760M", "11.0.0"),
)


def override_hint(facts: Facts) -> str:
    """The near relative whose code an unlisted AMD chip may run, as AMD's users do it; it is not supported by AMD."""
    for item in facts.amd.gpus or ():
        for value, chips in _NEAREST.items():
            if item.gfx in chips:
                return f"For {item.gfx}, set HSA_OVERRIDE_GFX_VERSION={value} (same family; not supported by AMD)."
        for pattern, value in _GFX_OF_NAME:
            if item.name and not item.gfx and re.search(pattern, item.name):
                return (
                    f"If ROCm does not list this chip, HSA_OVERRIDE_GFX_VERSION={value} lets it run the code of its "
                    "family (not supported by AMD)."
                )
    if not facts.amd.gpus:
        return (
            "Chips that builds leave out often run the code of a relative: HSA_OVERRIDE_GFX_VERSION=10.3.0 for RDNA 2 "
            "(RX 6000), 11.0.0 for RDNA 3 (RX 7000); AMD does not support that."
        )
    return ""


@rule("xpu-not-compiled", "build", "The build has no XPU support where an Intel GPU was to be used.",
      explains=("xpu-runtime-init-failed", "xpu-no-device-access"))  # fmt: skip
def xpu_not_compiled(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """An XPU error of a build without it, or a +xpu label on a build that says it has none."""
    error = facts.symptom("xpu-not-compiled")
    version = derive.torch_version(facts)
    label = derive.local_label(version)
    contradicts = label.startswith("xpu") and facts.torch.xpu == ""
    if error is None and not contradicts:
        return
    named = f"torch {version or ''}".strip()
    claims = label.startswith("xpu")
    yield rule.finding(
        "error",
        title=f"{named} has no XPU support compiled in" + (", although its label says +xpu" if claims else ""),
        seen=derive.quote(error, version and f"version {version}", ", ".join(facts.intel.gpus or ()) or None),
        why="Without it torch.xpu.is_available() is False on every machine; the GPU and its software are not asked at all."
        + (" A build with that label but without the backend was published by mistake." if claims else ""),
        remedy=_xpu_plan(facts, matrix, claims),
        confidence="certain" if error else "likely",
        line=error.line if error else derive.line_of(facts, "torch.version"),
    )


def _xpu_plan(facts: Facts, matrix: Matrix, claims: bool) -> Remedy:
    made = planned(facts, matrix, device="xpu")
    if claims and derive.is_prerelease(derive.torch_version(facts)):
        text = "Take another nightly of the xpu index (an earlier or a later day), or the newest release with XPU. "
        return Remedy(text=text + made.text, commands=made.commands)
    return made


def gfx_names(facts: Facts) -> tuple[str, ...]:
    """Gfx names of the machine's AMD GPUs, without feature suffixes."""
    return tuple(dict.fromkeys(g.gfx.split(":")[0] for g in facts.amd.gpus or () if g.gfx))


def _rocm_targets(facts: Facts, matrix: Matrix) -> tuple[str, ...] | None:
    """Gfx names that the build has code for: its own list, else `rocm-sdk targets`, else the tables."""
    own = tuple(a.split(":")[0] for a in facts.torch.arch_list or () if a.startswith("gfx"))
    if own:
        return own
    for item in facts.symptoms:
        if item.kind == "rocm-targets" and item.details.get("targets"):
            return tuple(re.findall(r"gfx\w+", item.details["targets"]))
    version, hip = derive.torch_version(facts), facts.torch.hip
    label = derive.local_label(version)
    rocm = label.removeprefix("rocm") if label.startswith("rocm") else ".".join(map(str, derive.numbers(hip)[:2]))
    found = matrix.rocm_gfx(version, rocm) if version and rocm else None
    return tuple(found) if found else None


@rule("rocm-gfx-unsupported", "build", "The ROCm build or the kernel driver does not support this AMD GPU.",
      explains=("rocm-no-device-access",))  # fmt: skip
def rocm_gfx_unsupported(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """The kernel refuses the chip, or the build's code objects are for other chips."""
    kernel = facts.symptom("kfd-unsupported", "kfd-gpu-unsupported")
    if kernel is not None:
        yield _kfd_finding(rule, facts, matrix)
        return
    error = facts.symptom("hip-no-binary", "hip-no-code")
    if error is not None and not _rocm_here(facts, error.text):
        return
    names = gfx_names(facts)
    named = derive.detail(error, "gfx", "arch", "lazy")
    if named and named not in names:
        names = (*names, named)
    targets = _rocm_targets(facts, matrix)
    override = facts.variable("HSA_OVERRIDE_GFX_VERSION") or facts.amd.hsa_override
    missing = [n for n in names if targets is not None and n not in targets]
    if error is None and (not missing or override or not facts.torch.hip):
        return
    if error is not None and names and targets is not None and not missing:
        missing = list(names)
    chip = ", ".join(missing or names) or ", ".join(g.name or "" for g in facts.amd.gpus or ()) or "this GPU"
    hint = override_hint(facts)
    made = planned(facts, matrix, device="rocm")
    # Beside a card that the build has code for, the chip it lacks is mostly the processor's own graphics.
    served = error is None and targets is not None and any(n in targets for n in names)
    yield rule.finding(
        "error" if error else "note" if served else "warning",
        title=f"The ROCm build has no code for {chip}",
        seen=derive.quote(error, chip, f"code objects for {' '.join(targets)}" if targets else None,
                          f"HSA_OVERRIDE_GFX_VERSION={override}" if override else None),
        why="Each AMD chip needs its own code object; without one the first kernel fails with an invalid device function.",
        remedy=Remedy(text=f"Install a build whose list has {chip}. {made.text} {hint}".strip(), commands=made.commands),
        confidence="certain" if missing and error else "likely",
        otherwise="" if missing and error else "`rocminfo | grep gfx` names the chip; torch.cuda.get_arch_list() names what "
        "the build has.",
        line=error.line if error else derive.line_of(facts, "amd.gpus"),
    )  # fmt: skip


def _rocm_here(facts: Facts, text: str) -> bool:
    """ "no kernel image" is said by CUDA too: only a HIP text or a ROCm build counts."""
    return bool(facts.torch.hip or facts.amd.gpus) or re.search(r"hip|hsa|rocblas|tensile|gfx", text, re.I) is not None


def _kfd_finding(rule: Rule, facts: Facts, matrix: Matrix) -> Finding:
    item = facts.symptom("kfd-unsupported", "kfd-gpu-unsupported")
    assert item is not None
    atomics = "atomics" in item.text.lower()
    name = ", ".join(g.name or g.gfx or "" for g in facts.amd.gpus or ()) or derive.detail(item, "chip") or "this GPU"
    return rule.finding(
        "error",
        title=f"The amdgpu kernel driver does not support {name} for compute",
        seen=derive.quote(item, name),
        why="kfd is the kernel's door to ROCm. "
        + (
            "It skips a GPU whose PCIe slot cannot do atomic operations."
            if atomics
            else "For this chip it stays closed, so ROCm is not supported on it, whatever access rights the user has."
        ),
        remedy=Remedy(
            text="Move the card to a slot that is wired to the CPU directly, or use a GPU that needs no PCIe atomics."
            if atomics
            else "Run on the CPU, or use a GPU that ROCm supports; no setting makes this one usable."
        ),
        line=item.line,
    )


@rule("nccl-not-in-build", "build", "This torch was built without NCCL.")
def nccl_not_in_build(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """NCCL is asked for on Windows, macOS or with a CPU build."""
    error = facts.symptom("nccl-not-built")
    if error is None:
        return
    os = derive.wheel_os(facts)
    reason = (
        "NCCL exists on Linux only; torch on this system is always built without it."
        if os in ("windows", "macos")
        else "CPU builds, and all builds for Windows and macOS, have no NCCL."
    )
    yield rule.finding(
        "error",
        title="The nccl backend is not part of this torch",
        seen=derive.quote(error),
        why=reason,
        remedy=Remedy(
            text='Use the gloo backend: init_process_group("gloo"), or run under Linux or WSL 2 with a CUDA build.',
        ),
        confidence="certain" if os in ("windows", "macos") else "likely",
        otherwise=""
        if os in ("windows", "macos")
        else "torch.distributed.is_nccl_available() and torch.version.cuda tell.",
        line=error.line,
    )


RULES: tuple[Rule, ...] = (xpu_not_compiled, rocm_gfx_unsupported, nccl_not_in_build)
