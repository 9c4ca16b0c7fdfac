"""What goes wrong in Dockerfiles: a driver in the image, a base that does not fit what is installed on it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.envfiles import expected
from envcheck.envfiles.finding import finding
from envcheck.envfiles.read import Instruction, Want, Wanted
from envcheck.facts import Facts
from envcheck.findings import Finding, Remedy
from envcheck.matrix import Matrix
from envcheck.matrix.versions import at_least, cuda_of_variant, numbers

_DRIVER = re.compile(
    r"(?<![\w/.-])(nvidia-driver(?:-\d+)?[\w.-]*|cuda-drivers[\w.-]*|nvidia-utils-\d+[\w.-]*|libnvidia-(?:compute|gl)-\d+[\w.-]*"
    r"|libcuda1[\w.-]*|nvidia-dkms-\d+[\w.-]*|NVIDIA-Linux-[\w.-]+\.run|cuda(?:-\d+-\d+)?)(?=[\s=;&]|$)"
)
_INSTALLS = re.compile(
    r"\b(?:apt|apt-get|yum|dnf|microdnf|zypper|aptitude)\b[^&|;]*\binstall\b|NVIDIA-Linux-[\w.-]+\.run"
)

# C library of base images by name and tag; images without a row are not judged.
_GLIBC = (
    (r"ubuntu:(?:18\.04|bionic)|ubuntu18\.04", "2.27"),
    (r"ubuntu:(?:16\.04|xenial)|ubuntu16\.04", "2.23"),
    (r"ubuntu:(?:20\.04|focal)|ubuntu20\.04", "2.31"),
    (r"(?:debian|python):\S*stretch", "2.24"),
    (r"(?:debian|python):\S*buster", "2.28"),
    (r"centos:(?:centos)?7|centos7", "2.17"),
    (r"amazonlinux:2(?:\.\d|$)", "2.26"),
)


def lint(wanted: Wanted, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Findings of the last stage's base and of every RUN."""
    yield from _driver_installed(wanted)
    base = _base(wanted)
    torch = next((w for w in wanted.packages if w.name == "torch" and w.manager == "pip"), None)
    if base is None:
        return
    if torch is not None:
        yield from _no_wheels(base, torch, matrix)
        yield from _cuda_image(base, torch, wanted, matrix)
        yield from _replaced(base, torch)
    yield from _refuses(base, facts, matrix)


def _base(wanted: Wanted) -> Instruction | None:
    """The image that the last stage is built on, stages followed."""
    names: dict[str, Instruction] = {}
    last = None
    for item in wanted.instructions:
        if item.word != "FROM":
            continue
        words = [w for w in item.value.split() if not w.startswith("--")]
        image = words[0] if words else ""
        last = names.get(image.lower(), Instruction("FROM", image, item.line))
        if len(words) >= 3 and words[1].upper() == "AS":
            names[words[2].lower()] = last
    return last


def _driver_installed(wanted: Wanted) -> Iterator[Finding]:
    for item in wanted.instructions:
        if item.word != "RUN":
            continue
        for command in re.split(r"&&|\|\||;|\n", item.value):
            found = _DRIVER.search(command) if _INSTALLS.search(command) else None
            if found is None:
                continue
            meta = found[1] == "cuda" or re.fullmatch(r"cuda-\d+-\d+", found[1])
            yield finding(
                "container-driver-in-image",
                "error",
                "The image installs an NVIDIA driver.",
                seen=f"RUN {command.strip()[:120]}",
                why=("The meta package " + found[1] + " brings the driver along. " if meta else "")
                + "The driver belongs to the host's kernel, and the container gets the host's libcuda at its start: one in the "
                "image is of another version (CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, or nvidia-smi: version mismatch).",
                remedy=Remedy(
                    text="Remove it; the host needs the driver and the NVIDIA Container Toolkit."
                    + (f" For the compiler take {found[1].replace('cuda', 'cuda-toolkit')}." if meta else "")
                ),
                confidence="likely" if meta else "certain",
                line=item.line,
            )


def _no_wheels(base: Instruction, torch: Want, matrix: Matrix) -> Iterator[Finding]:
    image = base.value.lower()
    if re.search(r"(?:^|[/:-])alpine", image):
        yield finding(
            "python-no-wheel",
            "error",
            "torch has no wheel for Alpine (musl).",
            seen=f"FROM {base.value}; {torch.text}",
            why="All Linux wheels of torch need glibc: pip says 'No matching distribution found'.",
            remedy=Remedy(text="Take a glibc image: python:X.Y-slim-bookworm."),
            line=base.line,
        )
        return
    version = expected.exact_version(torch)
    release = matrix.release(version) if version else None
    here = next((glibc for pattern, glibc in _GLIBC if re.search(pattern, image)), None)
    needs = release.glibc_x86_64 if release else None
    if here and needs and not at_least(here, needs):
        yield finding(
            "glibc-too-old",
            "error",
            f"The base image has glibc {here}; torch {version} needs {needs}.",
            seen=f"FROM {base.value}; {torch.text}",
            why="pip does not accept the wheel there, or importing torch fails with GLIBC_... not found.",
            remedy=Remedy(text="Take a newer base (Debian 12, Ubuntu 22.04 or newer)."),
            line=base.line,
        )


def _cuda_image(base: Instruction, torch: Want, wanted: Wanted, matrix: Matrix) -> Iterator[Finding]:
    image = re.search(r"nvidia/cuda:(\d+\.\d+)[\w.]*-(?:\w+-)?(base|runtime|devel)", base.value)
    if image is None:
        return
    variant = expected.variant_of(torch, wanted, expected.System("linux", "x86_64", None), matrix)
    cuda = cuda_of_variant(variant or "")
    if variant == "cpu":
        yield finding(
            "cpu-only-build",
            "error",
            "A CUDA base image, and torch's CPU build on it.",
            seen=f"FROM {base.value}; {torch.text} leads to the CPU build",
            why="torch will not see the GPU, whatever the image has.",
            remedy=Remedy(text="Install a CUDA build, or take a base without CUDA."),
            line=torch.line,
        )
    elif cuda and cuda != image[1]:
        devel = image[2] == "devel"
        yield finding(
            "toolkit-torch-cuda-mismatch",
            "warning" if devel else "note",
            f"The base has CUDA {image[1]}, torch's wheel is a CUDA {cuda} build.",
            seen=f"FROM {base.value}; {torch.text} ({variant} build)",
            why="Extensions that are compiled in this image are refused or built for another CUDA."
            if devel
            else "torch uses the libraries of its wheel: those of the image are dead weight, and they win where "
            "LD_LIBRARY_PATH is set.",
            remedy=Remedy(
                text=f"Take a base of CUDA {cuda}, or torch's cu{image[1].replace('.', '')} build."
                if devel
                else "python:X.Y-slim is enough for wheels."
            ),
            line=base.line,
        )


def _replaced(base: Instruction, torch: Want) -> Iterator[Finding]:
    own = re.search(
        r"(?:^|/)(pytorch/pytorch:(\d+\.\d+\.\d+)|nvcr\.io/nvidia/pytorch:)|^nvcr\.io/nvidia/pytorch", base.value
    )
    if own is None or (own[2] and expected.exact_version(torch) == own[2]):
        return
    yield finding(
        "file-base-replaced",
        "warning",
        "The base image brings a torch, and another is installed over it.",
        seen=f"FROM {base.value}; {torch.text}",
        why="What was built for the torch of the image (torchvision, Transformer Engine, flash-attn) no longer fits.",
        remedy=Remedy(text="Keep the torch of the image, or start from a base without one."),
        line=torch.line,
    )


def _refuses(base: Instruction, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """An image of a newer CUDA generation than the driver's: the NVIDIA runtime does not start it."""
    image = re.search(r"nvidia/cuda:(\d+\.\d+)", base.value)
    driver = facts.nvidia.driver_version or facts.nvidia.kernel_driver_version
    os = "windows" if facts.system.wsl or facts.system.os == "windows" else "linux"
    if image is None or driver is None or matrix.driver_runs(driver, image[1], os) != "no":
        return
    if numbers(matrix.driver_cuda(driver, os) or "")[:1] >= numbers(image[1])[:1]:
        return
    yield finding(
        "driver-too-old",
        "error",
        f"This machine's driver does not run an image of CUDA {image[1]}.",
        seen=f"FROM {base.value}; driver {driver}",
        why="The container does not start (unsatisfied condition: cuda>=...), unless the GPU is one of a data centre.",
        remedy=Remedy(text=f"A base of CUDA {matrix.driver_cuda(driver, os)} or older, or a newer driver on the host."),
        confidence="likely",
        line=base.line,
    )
