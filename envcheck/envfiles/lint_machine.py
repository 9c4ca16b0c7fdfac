"""Judges what a file leads to against this machine: its driver and its GPUs."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.envfiles import expected
from envcheck.envfiles.expected import System
from envcheck.envfiles.finding import finding
from envcheck.envfiles.read import Want, Wanted
from envcheck.facts import Facts
from envcheck.findings import Finding, Remedy
from envcheck.matrix import Matrix
from envcheck.matrix.versions import cuda_of_variant, numbers


def lint(torch: Want, wanted: Wanted, system: System, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """The driver and the GPUs of this machine against the CUDA build that the file leads to."""
    if system.os != facts.system.os and wanted.format != "dockerfile":
        return
    variant = expected.variant_of(torch, wanted, system, matrix)
    cuda = cuda_of_variant(variant or "")
    driver = facts.nvidia.driver_version or facts.nvidia.kernel_driver_version
    if cuda is None:
        return
    driver_os = "windows" if facts.system.wsl or facts.system.os == "windows" else "linux"
    if driver and matrix.driver_runs(driver, cuda, driver_os) == "no":
        yield _driver(torch, cuda, driver, matrix.driver_floor(cuda, driver_os) or "newer", facts, matrix)
    yield from _gpus(torch, variant or "", system, facts, matrix)


def _driver(torch: Want, cuda: str, driver: str, floor: str, facts: Facts, matrix: Matrix) -> Finding:
    from envcheck.rules.remedies import driver_update

    update = driver_update(facts, matrix, floor)
    return finding(
        "driver-too-old",
        "error",
        f"This machine's driver does not run a CUDA {cuda} build.",
        seen=f"{torch.text}; driver {driver}, needed >= {floor}",
        why="torch.cuda.is_available() is False, or CUDA cannot start.",
        remedy=Remedy(
            text=f"{update.text} Or take the build that this driver runs, which envcheck recommend names.",
            commands=(*update.commands, "envcheck recommend"),
        ),
        line=torch.line,
    )


def _gpus(torch: Want, variant: str, system: System, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    version = expected.exact_version(torch)
    listed = matrix.arch_list(version, variant, system.os or "", system.machine or "") if version else None
    if torch.manager != "pip" or listed is None:
        return
    for gpu in dict.fromkeys((g.name, g.compute_capability) for g in facts.nvidia.gpus or ()):
        name, capability = gpu
        model = matrix.gpu(name) if name and not capability else None
        capability = capability or (model.compute_capability if model else None)
        if capability is None or matrix.coverage(listed, capability).kind != "none":
            continue
        older = listed.sass and all(numbers(capability) < _capability(arch) for arch in listed.sass)
        newer = listed.sass and all(numbers(capability) > _capability(arch) for arch in listed.sass)
        yield finding(
            "gpu-too-old-for-build" if older else "gpu-too-new-for-build" if newer else "gpu-arch-not-in-build",
            "error",
            f"torch {version} {variant} has no code for {name or 'the GPU'} (compute capability {capability}).",
            seen=f"{torch.text}; the build has {' '.join(listed.names)}",
            why="The first kernel fails: no kernel image is available for execution on the device.",
            remedy=Remedy(text="Take the build that has code for it.", commands=("envcheck recommend",)),
            line=torch.line,
        )


def _capability(arch: str) -> tuple[int, ...]:
    digits = re.sub(r"\D", "", arch)
    return (int(digits[:-1]), int(digits[-1])) if len(digits) > 1 else ()
