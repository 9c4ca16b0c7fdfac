"""Has the build code for every GPU? Too old, too new, left out, or covered although torch warns."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from envcheck.facts import Facts, Symptom
from envcheck.findings import Finding, Remedy
from envcheck.matrix import Matrix
from envcheck.rules import derive
from envcheck.rules.base import Rule, Unknown, rule
from envcheck.rules.derive import Gpu
from envcheck.rules.install_plans import planned
from envcheck.rules.library_loader import owner_of_path

WARNINGS = (
    "gpu-not-compatible",
    "gpu-outside-range",
    "gpu-no-longer-supported",
    "gpu-not-in-cc-list",
    "gpu-needs-newer-cuda",
)
"""torch's own words that the build has no code for a GPU; two of them are known to be wrong at times."""

TEGRA = frozenset({"5.3", "6.2", "7.2", "8.7", "10.1", "11.0"})
"""Chips of Jetson and DRIVE boards, which general builds leave out."""

SHOW_LISTS = (
    'python -c "import torch; print(torch.__version__, torch.cuda.get_arch_list(), '
    'torch.cuda.get_device_name(), torch.cuda.get_device_capability())"'
)
"""Shows both sides of the question."""

TOO_OLD, TOO_NEW, LEFT_OUT = "too-old", "too-new", "left-out"


@dataclass(frozen=True)
class Verdict:
    """What is known about one GPU and the build."""

    gpu: Gpu
    runs: bool | None
    """True, False, or None when it cannot be told."""
    direction: str | None
    """Only when it does not run: "too-old" | "too-new" | "left-out"."""
    reason: str
    read: bool
    """The build or torch said it; False = it follows from the tables."""
    symptom: Symptom | None = None


def own_kernel_error(facts: Facts) -> Symptom | None:
    """The first "no kernel image" that torch itself raised, as far as the traceback tells."""
    for item in derive.symptoms(facts, "no-kernel-image", "cuda-invalid-device-function"):
        if not kernel_error_package(item):
            return item
    return None


def kernel_error_package(item: Symptom) -> str | None:
    """The third-party package whose kernel failed, when the traceback or the message names one."""
    source = item.details.get("source_file") or item.details.get("kernel_file") or ""
    named = re.search(
        r"(?:^|[\\/])(?!aten|c10|torch|src|csrc|home|usr|tmp|opt|root)([A-Za-z]\w{2,40})[\\/](?:\w+[\\/]){0,3}(?:csrc|src|ops|cuda)[\\/]",
        source,
    )
    if named:
        return named.group(1)
    owner = owner_of_path(item.details.get("frame"))
    return owner.removeprefix("extension:") if owner.startswith("extension:") else None


def verdicts(facts: Facts, matrix: Matrix) -> tuple[Verdict, ...]:
    """One verdict for each NVIDIA GPU; () when torch is no CUDA build or there is no GPU to judge."""
    cuda = derive.torch_cuda(facts, matrix)
    if facts.torch.hip or (cuda is not None and not cuda.value):
        return ()
    if cuda is None and not facts.torch.arch_list and not _any_sign(facts):
        return ()
    return tuple(_verdict(facts, matrix, gpu) for gpu in derive.gpus(facts, matrix))


def _any_sign(facts: Facts) -> bool:
    return facts.symptom(*WARNINGS, "no-kernel-image", "cuda-invalid-device-function") is not None


def _verdict(facts: Facts, matrix: Matrix, gpu: Gpu) -> Verdict:
    warning = _warning_about(facts, gpu)
    kernel = own_kernel_error(facts)
    if _proved(facts, gpu):
        return Verdict(gpu, True, None, "a kernel of torch ran on it", True, warning)
    candidates = derive.capability_candidates(gpu, matrix)
    answers = [derive.coverage(facts, matrix, c) for c in candidates]
    known = derive.arch_list(facts, matrix)
    read = known is not None and not known.derived
    # PTX can be translated for a chip that came later; cuBLAS and cuDNN of an older CUDA still have no code for it.
    by_ptx = warning is not None and bool(answers) and answers[0].kind == "ptx"
    stretched = by_ptx and (kernel is not None or _older_than_chip(facts, matrix, candidates[0]))
    if answers and all(a.runs for a in answers) and not stretched:
        return Verdict(gpu, True, None, answers[0].reason, read, warning)
    if answers and all(a.runs is False for a in answers):
        direction = _direction_by_list(known.value if known else (), candidates[0])
        return Verdict(gpu, False, direction, answers[0].reason, read or warning is not None, warning)
    if warning is not None:
        return _by_warning(facts, matrix, gpu, warning)
    if kernel is not None and len(derive.gpus(facts, matrix)) == 1 and candidates:
        return Verdict(gpu, False, _direction_by_cuda(facts, matrix, candidates[0]), "no kernel ran", False, kernel)
    reason = answers[0].reason if answers else "its compute capability is not known"
    return Verdict(gpu, None, None, reason, False)


def _older_than_chip(facts: Facts, matrix: Matrix, capability: str) -> bool:
    """The build's CUDA is older than the first that knew the chip."""
    cuda, row = derive.torch_cuda(facts, matrix), matrix.architecture(capability)
    if cuda is None or not cuda.value or row is None or not row.first_cuda:
        return False
    return derive.numbers(cuda.value) < derive.numbers(row.first_cuda)


def _proved(facts: Facts, gpu: Gpu) -> bool:
    """A smoke test that needs a kernel passed on that GPU."""
    device = f"cuda:{gpu.index or 0}"
    return any(c.device == device and c.status == "passed" for c in facts.checks or ())


def _warning_about(facts: Facts, gpu: Gpu) -> Symptom | None:
    for item in derive.symptoms(facts, *WARNINGS):
        named = derive.base_name_of_gpu(item.details.get("gpu"))
        capability = derive.capability_of_text(item.details.get("capability"))
        if named == derive.base_name_of_gpu(gpu.name) or (capability and capability == gpu.capability):
            return item
    return None


def _by_warning(facts: Facts, matrix: Matrix, gpu: Gpu, item: Symptom) -> Verdict:
    """The arch list is not shown: torch's warning is all there is."""
    if item.kind == "gpu-no-longer-supported":
        return Verdict(gpu, False, TOO_OLD, "torch says so", True, item)
    if item.kind == "gpu-needs-newer-cuda":
        return Verdict(gpu, False, TOO_NEW, "torch says so", True, item)
    if item.kind == "gpu-outside-range" and gpu.capability:
        ends = [f"sm_{item.details[end].replace('.', '')}" for end in ("min", "max") if end in item.details]
        answer = matrix.coverage(ends, gpu.capability)
        if answer.runs:
            return Verdict(gpu, True, None, answer.reason, True, item)
        return Verdict(gpu, False, _direction_by_list(tuple(ends), gpu.capability), answer.reason, True, item)
    direction = _direction_by_cuda(facts, matrix, gpu.capability or "")
    return Verdict(gpu, False, direction, "torch says so", True, item)


def _direction_by_list(archs: tuple[str, ...], capability: str) -> str:
    """Where a capability stands among those of a list that does not cover it."""
    codes = sorted(derive.numbers(derive.capability_of_text(name)) for name in archs if name.startswith("sm_"))
    device = derive.numbers(capability)
    if not codes or not device:
        return LEFT_OUT
    if device < codes[0]:
        return TOO_OLD
    return TOO_NEW if device > codes[-1] and capability not in TEGRA else LEFT_OUT


def _direction_by_cuda(facts: Facts, matrix: Matrix, capability: str) -> str:
    """Without an arch list: which CUDA first and last knew the chip, then where it stands among wheels of that line."""
    if capability in TEGRA:
        return LEFT_OUT
    cuda = derive.torch_cuda(facts, matrix)
    row = matrix.architecture(capability)
    if row and cuda and cuda.value:
        built = derive.numbers(cuda.value)
        if row.first_cuda and built < derive.numbers(row.first_cuda):
            return TOO_NEW
        if row.last_cuda and built > derive.numbers(row.last_cuda):
            return TOO_OLD
    line = derive.numbers(derive.torch_version(facts))[:2]
    near = matrix.release(".".join(map(str, line))) if len(line) == 2 else None
    variant = derive.torch_variant(facts, matrix)
    listed = matrix.arch_list(near.version, variant.value, "linux", "x86_64") if near and variant else None
    if listed:
        return _direction_by_list(listed.sass, capability)
    return TOO_OLD if row and row.last_cuda else TOO_NEW if derive.numbers(capability) >= (9, 0) else LEFT_OUT


# --- the builds that would do ------------------------------------------------------------------------------------


def _builds(facts: Facts, matrix: Matrix, capability: str) -> Iterator[tuple[str, str]]:
    """(release, variant) of all wheels for this platform that have code for the chip, ascending."""
    os, machine = derive.wheel_os(facts) or "linux", derive.assumed_machine(facts)
    for release in matrix.releases:
        for variant in matrix.variants(release.version, os, machine):
            row = matrix.arch_list(release.version, variant.name, os, machine) if variant.cuda else None
            if row is None or variant.status == "unconfirmed":
                continue
            if matrix.coverage(row, capability).kind == "sass":
                yield release.version, variant.name


def _named(build: tuple[str, str]) -> str:
    release, variant = build
    cuda = derive.cuda_of_label(variant)
    return f"torch {release} ({variant}, CUDA {cuda})"


def _where_code_is(facts: Facts, matrix: Matrix, verdict: Verdict) -> str:
    """One sentence: which builds have code for this chip."""
    capability = verdict.gpu.capability or ""
    row = matrix.architecture(capability)
    builds = list(_builds(facts, matrix, capability))
    sm = verdict.gpu.sm or "this chip"
    family = f"{row.name} " if row else ""
    if verdict.direction == TOO_NEW:
        if builds:
            return (
                f"The first wheels that run on {family}({sm}) here are {_named(builds[0])}; take that or a newer one."
            )
        return f"{family}code ({sm}) can be made from CUDA {row.first_cuda} on." if row and row.first_cuda else ""
    if builds:
        return f"The last wheels with {family}code ({sm}) here are {_named(builds[-1])}."
    ended = f" CUDA {row.last_cuda} was the last toolkit that could make it." if row and row.last_cuda else ""
    return f"No published wheel for this platform has {family}code ({sm}).{ended}"


def _remedy(facts: Facts, matrix: Matrix, verdict: Verdict) -> Remedy:
    if verdict.gpu.capability in TEGRA:
        return _tegra_remedy(facts, verdict)
    where = _where_code_is(facts, matrix, verdict)
    capability = verdict.gpu.capability or ""
    if not list(_builds(facts, matrix, capability)) and verdict.direction == TOO_OLD and not derive.is_jetson(facts):
        return Remedy(text=f"{where} Run on the CPU, or use a newer GPU.".strip())
    made = planned(facts, matrix)
    return Remedy(text=f"{where} {made.text}".strip(), commands=made.commands)


def _tegra_remedy(facts: Facts, verdict: Verdict) -> Remedy:
    """Builds for boards are not on the general indexes."""
    release = facts.system.l4t or facts.system.jetpack
    conda = "a conda-forge build whose CUDA arch list names it, " if derive.torch_from_conda(facts) else ""
    return Remedy(
        text=f"Use a build that has {verdict.gpu.sm}: NVIDIA's wheels for this JetPack{f' ({release})' if release else ''} "
        f"(jetson-ai-lab index), {conda}or NVIDIA's l4t-pytorch containers. General aarch64 wheels built with CUDA 13.2 or newer run on "
        "Orin too, on a JetPack whose driver serves CUDA 13.",
    )


# --- findings ----------------------------------------------------------------------------------------------------


def _severity(all_verdicts: tuple[Verdict, ...], bad: list[Verdict], facts: Facts) -> str:
    """An error when the build has no code for the GPU that torch takes first, or an error shows it; else a warning."""
    if len(bad) == len(all_verdicts) or own_kernel_error(facts) is not None:
        return "error"
    return "error" if all_verdicts[0] in bad else "warning"


def _findings(rule: Rule, facts: Facts, matrix: Matrix, direction: str, headline: str) -> Iterator[Finding]:
    everything = verdicts(facts, matrix)
    if not everything:
        return
    bad = [v for v in everything if v.runs is False and v.direction == direction]
    if not bad:
        unknown = [v for v in everything if v.runs is None]
        if unknown:
            raise Unknown(
                f"{unknown[0].gpu.label}: {unknown[0].reason}",
                SHOW_LISTS,
            )
        return
    first = bad[0]
    names = ", ".join(dict.fromkeys(v.gpu.label for v in bad))
    build = _build_label(facts, matrix)
    known = derive.arch_list(facts, matrix)
    listed = f"its code is for {' '.join(known.value)}" if known and known.value else ""
    if known and known.derived and listed:
        listed += " (from the tables)"
    kernel = own_kernel_error(facts)
    fine = [v.gpu.label for v in everything if v.runs]
    yield rule.finding(
        _severity(everything, bad, facts),
        title=headline.format(gpu=_short(first.gpu), build=_torch_label(facts)),
        seen=derive.quote(first.symptom, kernel, names, build, listed),
        why=f"The build has no code that {_short(first.gpu)} can run: every kernel on it fails with "
        '"no kernel image is available", although torch.cuda.is_available() may say True.'
        + (f" The other one works: {', '.join(fine)}." if fine else ""),
        remedy=_remedy(facts, matrix, first),
        confidence="certain" if first.read or (kernel is not None and known is not None) else "likely",
        otherwise=""
        if first.read
        else "Compare torch.cuda.get_arch_list() with torch.cuda.get_device_capability() in the Python that fails.",
        line=_line(facts, first, kernel),
    )


def _line(facts: Facts, verdict: Verdict, kernel: Symptom | None) -> int | None:
    for item in (verdict.symptom, kernel):
        if item is not None and item.line is not None:
            return item.line
    return derive.line_of(facts, "nvidia.gpus", "torch.version")


def _short(gpu: Gpu) -> str:
    return " ".join(part for part in (gpu.name, f"({gpu.sm})" if gpu.sm else None) if part) or "the GPU"


def _torch_label(facts: Facts) -> str:
    version = derive.torch_version(facts)
    return f"torch {version}" if version else "this torch"


def _build_label(facts: Facts, matrix: Matrix) -> str:
    version = derive.torch_version(facts)
    cuda = derive.torch_cuda(facts, matrix)
    parts = [f"torch {version}" if version else "this torch"]
    if cuda and cuda.value:
        parts.append(f"built with CUDA {cuda.value}" + (" (from the tables)" if cuda.derived else ""))
    return ", ".join(parts)


_EXPLAINED = ("extension-missing-arch", "compile-backend-unsupported", "triton-ptxas-too-old")


@rule("gpu-too-old-for-build", "build", "The build no longer has code for this old GPU.", explains=_EXPLAINED)
def gpu_too_old(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """A GPU below everything that the build has code for."""
    yield from _findings(rule, facts, matrix, TOO_OLD, "{build} has no code any more for {gpu}")


@rule("gpu-too-new-for-build", "build", "The build has no code yet for this new GPU.", explains=_EXPLAINED)
def gpu_too_new(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """A GPU above everything that the build has code for."""
    yield from _findings(rule, facts, matrix, TOO_NEW, "{gpu} is newer than {build}")


@rule("gpu-arch-not-in-build", "build", "The build leaves this GPU's architecture out.", explains=_EXPLAINED)
def gpu_left_out(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """A GPU in the middle of the build's range that got no code, typically a Jetson."""
    yield from _findings(rule, facts, matrix, LEFT_OUT, "{build} has no code for {gpu}, which other builds have")
    kernel = own_kernel_error(facts)
    if kernel is None or kernel_known_otherwise(facts, matrix):
        return
    yield rule.finding(
        "error",
        title="CUDA code for this GPU is missing, in torch or in an extension",
        seen=derive.quote(
            kernel,
            *(g.label for g in derive.gpus(facts, matrix)),
            _build_label(facts, matrix) if derive.torch_version(facts) else None,
        ),
        why="A kernel was started for which the binary holds no code that this GPU can run.",
        remedy=Remedy(
            text="Compare the two lists. If the GPU is not in the build's list, install a build that has it; if it is, "
            "the extension that was called was compiled for other GPUs.",
            commands=(SHOW_LISTS,),
        ),
        confidence="possible",
        otherwise="The report does not show both the GPU and the build; the command above settles which of the two it is.",
        line=kernel.line,
    )


def kernel_known_otherwise(facts: Facts, matrix: Matrix) -> bool:
    """The missing kernel has its explanation: the GPU and the build are judged, or a warning of torch names it."""
    return any(v.runs is not None for v in verdicts(facts, matrix)) or facts.symptom(*WARNINGS) is not None


@rule("benign-capability-warning", "build", "torch warns about this GPU's capability, yet the build runs on it.")
def benign_warning(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """The range in torch's warning ends at its newest entry; code of the same family runs on later members too."""
    for verdict in verdicts(facts, matrix):
        if verdict.symptom is None or verdict.runs is not True or verdict.symptom.kind not in WARNINGS:
            continue
        yield rule.finding(
            # In a paste that warning is what is asked about; on a live machine it is a line that torch printed.
            "warning" if facts.origin == "captured" else "note",
            title=f"The capability warning about {_short(verdict.gpu)} is a false alarm",
            seen=derive.quote(verdict.symptom),
            why=f"In this build {verdict.reason}. The warning compares numbers only; kernels work.",
            remedy=Remedy(text="Nothing has to be done. Newer releases of torch do not print it."),
            line=verdict.symptom.line,
        )


@rule("gpu-support-ending", "build", "Newer torch releases have no code for this GPU.")
def support_ending(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """A GPU that works now and that no build of the newest release supports."""
    os, machine = derive.wheel_os(facts), derive.wheel_machine(facts)
    if os is None or machine is None or derive.is_jetson(facts):
        return
    done: set[str] = set()
    for gpu in derive.gpus(facts, matrix):
        capability = gpu.capability
        row = matrix.architecture(capability) if capability else None
        if capability is None or capability in done or row is None or row.last_cuda is None:
            continue
        done.add(capability)
        builds = list(_builds(facts, matrix, capability))
        newest = matrix.newest.version
        if not builds or any(release == newest and not _only_last(builds, newest) for release, _ in builds):
            continue
        last = builds[-1]
        gone = last[0] != newest
        yield rule.finding(
            "note",
            title=f"The last release for {_short(gpu)} is torch {last[0]}"
            if gone
            else f"Only the {last[1]} build of torch {newest} still runs on {_short(gpu)}",
            seen=f"{gpu.label}; wheels for {row.name} end with {_named(last)}",
            why=f"CUDA {row.last_cuda} is the last that makes {row.name} code; an upgrade without naming the build "
            "leaves this GPU unused.",
            remedy=Remedy(text=f"Stay on a build that has it, by name: {_named(last)}."),
        )


def _only_last(builds: list[tuple[str, str]], newest: str) -> bool:
    """A single variant of the newest release has code for it."""
    return len({variant for release, variant in builds if release == newest}) == 1


RULES: tuple[Rule, ...] = (gpu_too_old, gpu_too_new, gpu_left_out, benign_warning, support_ending)
