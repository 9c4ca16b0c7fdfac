"""The same for AMD, Intel and Apple GPUs: there, and out of reach of this process."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.facts import DeviceNode, Facts
from envcheck.recommend.machine import Machine, Trouble

_GROUPS = ("sudo usermod -aG render,video $USER",)
_INTO_CONTAINER = "Pass both into the container: --device /dev/kfd --device /dev/dri (and --group-add for their group)."


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
    said = (facts.amd.kfd_error or "").rstrip(".")
    denied = "permi" in said.lower() or "denied" in said.lower()
    if denied or _closed(facts.amd.kfd) or any(_closed(node) for node in facts.amd.render_nodes or ()):
        yield Trouble(
            "kfd-permission",
            f"{names} is there and this user may not open /dev/kfd or /dev/dri/renderD*.",
            _INTO_CONTAINER
            if machine.container
            else "Put the user into the groups render and video, then log in again.",
            () if machine.container else _GROUPS,
            device="rocm",
            after="once the devices can be opened",
        )
    elif said and machine.container:
        yield Trouble(
            "gpu-not-passed",
            f"{names} is not passed into this container (/dev/kfd: {said}).",
            _INTO_CONTAINER,
            device="rocm",
            after="once the container has the GPU",
        )
    elif said and not machine.wsl:  # under WSL there is no /dev/kfd
        yield Trouble(
            "amdgpu-not-running",
            f"The kernel's compute driver does not serve {names} (/dev/kfd: {said}).",
            "See the kernel log; install the amdgpu driver of ROCm for this kernel, then reboot.",
            ("sudo dmesg | grep -iE 'amdgpu|kfd' | tail -n 30",),
            device="rocm",
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
