"""What the rules of driver, platform, running program and code look for, and how they speak of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from envcheck.facts import Facts, Symptom
from envcheck.matrix import Matrix
from envcheck.rules import derive
from envcheck.rules.base import Unknown
from envcheck.rules.derive import detail, line_of
from envcheck.rules.derive import quote as quoted
from envcheck.symptoms import driver as driver_texts
from envcheck.symptoms import platform as platform_texts
from envcheck.symptoms import services as services_texts
from envcheck.symptoms.base import Signature

__all__ = [
    "NO_CUDA_KINDS",
    "ask",
    "at",
    "container_commands",
    "cuda_code",
    "cuda_works",
    "debian_like",
    "detail",
    "engine_without_driver",
    "gives_gpu",
    "in_container",
    "line_of",
    "nvidia_on_bus",
    "on_host",
    "on_mac",
    "only_past",
    "other_gpu_only",
    "quoted",
    "shorten",
    "sign",
    "signs",
    "torch_works",
    "wants_cuda",
]

NO_CUDA_KINDS = (
    "no-nvidia-driver",
    "no-cuda-gpus",
    "no-cuda-device",
    "cuda-driver-init-failed",
    "driver-insufficient",
    "driver-library-missing",
    "container-no-driver-banner",
)
"""Ways in which a program says that it got no CUDA device; which of the causes it is, other facts have to tell."""

_GPU_FLAGS = re.compile(
    r"--gpus\b|--runtime[= ]nvidia|\bnvidia-docker\b|nvidia\.com/gpu|--device[= ]\S*/dev/nvidia|--nv\b|--nvccli\b|"
    r"NVIDIA_VISIBLE_DEVICES=(?!void|none)\w",
    re.IGNORECASE,
)
_CONTAINER_START = re.compile(
    r"\b(?:docker|podman|nerdctl|nvidia-docker2?)(?:\s+container)?\s+(?:run|create)\b|"
    r"\b(?:apptainer|singularity)\s+(?:exec|run|shell)\b",
    re.IGNORECASE,
)


@cache
def _signatures(kind: str) -> tuple[Signature, ...]:
    catalogues = (*driver_texts.SIGNATURES, *platform_texts.SIGNATURES, *services_texts.SIGNATURES)
    return tuple(s for s in catalogues if s.kind == kind)


def signs(facts: Facts, *kinds: str) -> Iterator[Symptom]:
    """Every symptom of these kinds that is not an echo of an earlier one; lines of the kernel log count too."""
    for item in facts.symptoms:
        if item.kind in kinds and not item.echo:
            yield item
    known = {item.line for item in facts.symptoms if item.kind in kinds}
    for event in facts.kernel_events or ():
        if event.text is None or (event.line is not None and event.line in known):
            continue
        for kind in kinds:
            for signature in _signatures(kind):
                match = re.search(signature.pattern, event.text, re.IGNORECASE | re.MULTILINE)
                if match:
                    details = {name: value for name, value in match.groupdict().items() if value is not None}
                    yield Symptom(kind=kind, text=event.text, source="kernel log", line=event.line, details=details)


def sign(facts: Facts, *kinds: str) -> Symptom | None:
    """The first of them."""
    return next(signs(facts, *kinds), None)


def only_past(facts: Facts, text: Symptom | None) -> bool:
    """On a live machine the kernel log alone speaks: it reaches back to the start, so a program's end of last week
    stands in it too and is no fault of now. In a paste the log is what is asked about.
    """
    return facts.origin == "live" and (text is None or text.source == "kernel log")


def at(item: Symptom | None) -> int | None:
    """Line of a symptom in a paste; a stage of a live check has none that means anything to a reader."""
    return item.line if item is not None else None


def torch_works(facts: Facts) -> bool | None:
    """Whether torch itself started CUDA; None when it was not tried."""
    torch = facts.torch
    # torch counts devices through NVML, which works although CUDA does not start.
    counted = (torch.device_count or 0) > 0 and torch.cuda_available is not False
    if torch.cuda_available or counted or any(d.kind == "cuda" for d in torch.devices or ()):
        return True
    if torch.cuda_init is not None and torch.cuda_init.ok:
        return True
    return False if torch.cuda_available is False or (torch.cuda_init is not None and torch.cuda_init.bad) else None


def cuda_works(facts: Facts) -> bool | None:
    """Whether torch or the driver API really started CUDA; None when nobody tried.

    torch's own answer goes before the driver's: an old driver starts, and still does not serve this build.
    """
    tried = torch_works(facts)
    if tried is not None:
        return tried
    init = facts.nvidia.cuda_init
    if init is not None and init.outcome.ok and init.code in (0, None) and (init.device_count or 0) > 0:
        return True
    return False if init is not None and (init.outcome.bad or (init.code or 0) != 0) else None


def cuda_code(facts: Facts) -> int | None:
    """The CUresult of cuInit, when it is an error."""
    init = facts.nvidia.cuda_init
    return init.code if init is not None and init.code else None


def wants_cuda(facts: Facts, matrix: Matrix) -> bool | None:
    """True for a CUDA build, False for a build known to be without, None when nobody knows."""
    cuda = derive.torch_cuda(facts, matrix)
    return bool(cuda.value) if cuda is not None else None


def in_container(facts: Facts) -> bool:
    """True when the report shows a container: the system says so, or a command that starts one is in it."""
    return (
        bool(derive.in_container(facts))
        or bool(container_commands(facts))
        or sign(facts, "container-no-driver-banner") is not None
    )


def container_commands(facts: Facts) -> tuple[str, ...]:
    """Commands in the paste that start a container."""
    return tuple(c for c in facts.commands if _CONTAINER_START.search(c))


def engine_without_driver(facts: Facts) -> str | None:
    """ "snap" | "plugin" | "host" when the container engine misses the library of a driver that the host has: Docker as a
    snap has a file system of its own, Kubernetes' device plugin runs in a container itself, and nvidia-smi's table shows a
    host whose driver works.
    """
    cli = sign(facts, "container-cli-no-driver")
    if cli is not None and not re.search(r"libnvidia-ml|could not load NVML", cli.text, re.IGNORECASE):
        return None  # not the library is missing: the driver itself does not answer
    plugin = any(item.details.get("plugin") for item in signs(facts, "k8s-no-gpu"))
    if plugin or cli is None:
        return "plugin" if plugin else None
    if facts.symptom("docker-of-snap") is not None or any("snap install docker" in c for c in facts.commands):
        return "snap"
    return "host" if facts.nvidia.smi is not None and facts.nvidia.smi.ok and facts.nvidia.gpus else None


def gives_gpu(command: str) -> bool:
    """Whether a command that starts a container hands a GPU to it."""
    return _GPU_FLAGS.search(command) is not None


def nvidia_on_bus(facts: Facts) -> bool:
    """An NVIDIA GPU is on the PCI bus."""
    return any(item.vendor_id == derive.NVIDIA_VENDOR for item in facts.pci or ())


def other_gpu_only(facts: Facts) -> bool:
    """The machine has a GPU of another maker and none of NVIDIA, as far as the report shows."""
    if derive.has_nvidia_gpu(facts) or nvidia_on_bus(facts):
        return False
    return bool(facts.torch.hip) or bool(facts.amd.gpus) or bool(derive.has_amd_gpu(facts)) or on_mac(facts)


def on_mac(facts: Facts) -> bool:
    """The report comes from macOS."""
    return derive.wheel_os(facts) == "macos" or bool(facts.apple.macos or facts.apple.chip)


def debian_like(facts: Facts) -> bool:
    """Debian, Ubuntu and their relatives (also where the system is not named: they are the most)."""
    distro = (facts.system.distro or "").lower()
    return distro in ("", "debian", "ubuntu", "linuxmint", "pop", "elementary", "zorin", "kali", "raspbian")


def on_host(facts: Facts) -> str:
    """ "on the host " inside a container, else ""."""
    return "on the host " if in_container(facts) else ""


def ask(facts: Facts, reason: str, settle: str) -> None:
    """On a live machine a fact that nobody asked for is said; a paste just does not show it."""
    if facts.origin == "live":
        raise Unknown(reason, settle)


def shorten(text: str, limit: int = 160) -> str:
    """A long value cut to a length that fits a sentence."""
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"
