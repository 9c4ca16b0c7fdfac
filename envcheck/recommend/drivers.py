"""The way to a newer (or older) NVIDIA driver, as this system does it. Text and commands only: nothing is run."""

from __future__ import annotations

from dataclasses import dataclass

from envcheck.facts import Facts
from envcheck.matrix import Matrix
from envcheck.matrix.versions import numbers
from envcheck.recommend.machine import LTS_BRANCH, Card, describe, driver_range

CHECK = "nvidia-smi"

_DEBIAN_LIKE = frozenset({"ubuntu", "linuxmint", "pop", "elementary", "zorin", "neon", "tuxedo"})
_FEDORA_LIKE = frozenset({"fedora", "nobara", "ultramarine"})
_RHEL_LIKE = frozenset({"rhel", "centos", "rocky", "almalinux", "ol", "amzn"})
_ARCH_LIKE = frozenset({"arch", "manjaro", "endeavouros", "cachyos", "garuda"})
_SUSE_LIKE = frozenset({"opensuse-leap", "opensuse-tumbleweed", "sles", "suse", "opensuse"})


@dataclass(frozen=True)
class Advice:
    """A sentence or a few, and the commands."""

    text: str
    commands: tuple[str, ...] = ()


def update_advice(facts: Facts, matrix: Matrix, minimum: str) -> Advice:
    """How this machine gets an NVIDIA driver >= `minimum`.

    The number is a Windows one under WSL and on Windows, a Linux one elsewhere, as `Matrix.driver_floor` gives it.
    """
    machine = describe(facts, matrix)
    if machine.wsl:
        return Advice(
            f"Update the NVIDIA driver of Windows itself (the host) to >= {minimum} from nvidia.com/drivers or the NVIDIA "
            "app, then restart WSL. Install no Linux driver inside WSL: it would hide the one that Windows lends.",
            ("wsl --shutdown",),
        )
    if machine.os == "windows":
        return Advice(
            f"Install an NVIDIA driver >= {minimum} from nvidia.com/drivers or with the NVIDIA app, restart Windows, and "
            "see that nvidia-smi shows the new number.",
            (CHECK,),
        )
    if machine.jetson:
        return Advice(
            f"On a Jetson the driver comes with JetPack: a CUDA that needs driver >= {minimum} means moving to the JetPack "
            "that has it (flash it, or upgrade by apt where NVIDIA offers that). No desktop driver fits.",
        )
    if facts.system.cloud in ("colab", "kaggle"):
        return Advice(
            f"The driver of {facts.system.cloud} cannot be changed from a notebook (>= {minimum} would be needed): use a "
            "build that its driver runs."
        )
    if machine.container:
        return Advice(
            f"A container uses the driver of its host: install a driver >= {minimum} on the host (not in the image) and "
            "start the container again.",
            (CHECK,),
        )
    return _linux(facts, machine.cards or (), matrix, minimum)


def target_branch(cards: tuple[Card, ...], matrix: Matrix, minimum: str) -> int:
    """The branch to install: the long-lived one where it serves, a newer one only where that is needed."""
    wanted = (numbers(minimum) or (LTS_BRANCH,))[0]
    low, high = driver_range(cards, matrix)
    branch = max(LTS_BRANCH, wanted, low or 0)
    return min(branch, high) if high else branch


def _linux(facts: Facts, cards: tuple[Card, ...], matrix: Matrix, minimum: str) -> Advice:
    _, high = driver_range(cards, matrix)
    wanted = (numbers(minimum) or (0,))[0]
    if high and wanted > high:
        old = ", ".join(sorted({card.name for card in cards}))
        return Advice(
            f"No driver >= {minimum} exists for {old}: branch {high} is the last that drives it. Keep that driver and take "
            "a build that it runs."
        )
    branch = target_branch(cards, matrix, minimum)
    flavour = _flavour(cards, matrix)
    commands = _packages(facts.system.distro, branch, flavour)
    modules = {
        "open": " It has to be the flavour with open kernel modules: these cards run with no other.",
        "closed": " It has to be the flavour with proprietary kernel modules: the open ones do not drive these cards.",
    }.get(flavour, "")
    if commands:
        text = (
            f"Install an NVIDIA driver >= {minimum} from the distribution's packages (branch {branch} does), reboot, "
        )
        return Advice(text + f"and see that nvidia-smi shows it.{modules}", (*commands, "sudo reboot"))
    return Advice(
        f"Install an NVIDIA driver >= {minimum} (branch {branch} does) with the packages of the distribution or from "
        f"nvidia.com/drivers, reboot, and see that nvidia-smi shows it.{modules}",
        (CHECK,),
    )


def _flavour(cards: tuple[Card, ...], matrix: Matrix) -> str:
    """ "open", "closed", or "" where both drive the cards (or nobody knows)."""
    needs = set()
    for card in cards:
        for capability in card.capabilities:
            row = matrix.architecture(capability)
            if row is not None:
                needs.add(row.open_kernel_modules.split()[0])
    if "required" in needs:
        return "open"
    return "closed" if "unsupported" in needs else ""


def _packages(distro: str | None, branch: int, flavour: str) -> tuple[str, ...]:
    """Package commands where the package names are known for that branch; () else."""
    name = (distro or "").lower()
    if name in _DEBIAN_LIKE:
        if branch > LTS_BRANCH:  # which of the short-lived branches a release has is not known here
            return ("sudo apt update", "ubuntu-drivers list", f"sudo ubuntu-drivers install nvidia:{branch}")
        suffix = "-open" if flavour == "open" else ""
        return ("sudo apt update", f"sudo apt install nvidia-driver-{branch}{suffix}")
    if name in _FEDORA_LIKE and branch >= LTS_BRANCH and flavour != "closed":
        return ("sudo dnf upgrade --refresh akmod-nvidia xorg-x11-drv-nvidia-cuda",)
    if name in _RHEL_LIKE and flavour != "closed":
        return (f"sudo dnf module install nvidia-driver:{branch}-open",)
    if name in _RHEL_LIKE:
        return (f"sudo dnf module install nvidia-driver:{branch}-dkms",)
    if name in _ARCH_LIKE and flavour != "closed":
        return ("sudo pacman -Syu nvidia-open nvidia-utils",)
    if name in _SUSE_LIKE and flavour != "closed":
        return ("sudo zypper install nvidia-open-driver-G06-signed-kmp-default",)
    return ()
