"""The same for AMD, Intel and Apple GPUs: there, and out of reach of this process."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.facts import DeviceNode, Facts
from envcheck.recommend.machine import Machine, Trouble

_GROUPS = ("sudo usermod -aG render,video $USER",)


def other_makers(facts: Facts, machine: Machine) -> Iterator[Trouble]:
    """Troubles of GPUs that are not NVIDIA's."""
    if machine.amd and machine.os == "linux":
        yield from _amd(facts, machine)
    if machine.xpu and machine.os == "linux":
        yield from _intel(facts, machine)
    if machine.rosetta:
        yield Trouble(
            "rosetta",
            f"This Python is an x86_64 one under Rosetta: torch ends with 2.2.2 for it, and it has no {machine.chip or 'GPU'}.",
            "Install an arm64 Python (python.org, Homebrew under /opt/homebrew, or uv) and make a new environment with it.",
            ("python3 -c 'import platform; print(platform.machine())'",),
            device="mps",
            after="with an arm64 Python",
        )


def _amd(facts: Facts, machine: Machine) -> Iterator[Trouble]:
    names = " and ".join(str(card) for card in machine.amd)
    kfd = facts.amd.kfd
    if facts.amd.kfd_error:
        yield Trouble(
            "amdgpu-not-running",
            f"The kernel's compute driver does not serve {names}: {facts.amd.kfd_error}.",
            "See the kernel log; install the amdgpu driver of ROCm for this kernel, then reboot.",
            ("sudo dmesg | grep -iE 'amdgpu|kfd' | tail -n 30",),
            device="rocm",
        )
    elif _closed(kfd) or any(_closed(node) for node in facts.amd.render_nodes or ()):
        yield Trouble(
            "kfd-permission",
            f"{names} is there and this user may not open /dev/kfd or /dev/dri/renderD*.",
            "Pass both into the container (--device /dev/kfd --device /dev/dri)."
            if machine.container
            else "Put the user into the groups render and video, then log in again.",
            () if machine.container else _GROUPS,
            device="rocm",
            after="once the devices can be opened",
        )


def _intel(facts: Facts, machine: Machine) -> Iterator[Trouble]:
    names = " and ".join(machine.xpu)
    if any(_closed(node) for node in facts.intel.render_nodes or ()):
        yield Trouble(
            "render-permission",
            f"{names} is there and this user may not open /dev/dri/renderD*.",
            "Put the user into the group render, then log in again.",
            ("sudo usermod -aG render $USER",),
            device="xpu",
            after="once the device can be opened",
        )
    elif facts.intel.level_zero == "":
        yield Trouble(
            "level-zero-missing",
            f"{names} is there and the level-zero driver is not installed: torch finds no XPU without it.",
            "Install Intel's GPU driver with the level-zero loader (packages libze1 and libze-intel-gpu1).",
            device="xpu",
        )


def _closed(node: DeviceNode | None) -> bool:
    return node is not None and (node.readable is False or node.writable is False)
