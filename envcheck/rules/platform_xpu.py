"""Intel GPUs: the right to use them, and their runtime."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.facts import Facts, Symptom
from envcheck.findings import Finding, Remedy
from envcheck.matrix import Matrix
from envcheck.rules import derive, driver_signs
from envcheck.rules.base import Rule, Unknown, rule
from envcheck.rules.driver_signs import at, quoted, sign


def is_xpu(facts: Facts) -> bool:
    """An XPU build."""
    if facts.torch.xpu is not None:
        return bool(facts.torch.xpu)
    return derive.local_label(derive.torch_version(facts)).startswith("xpu")


def _works(facts: Facts) -> bool:
    return bool(facts.torch.xpu_available) or any(d.kind == "xpu" for d in facts.torch.devices or ())


@rule(
    "xpu-no-device-access",
    "platform",
    "This user may not open the Intel GPU's device files (/dev/dri).",
    explains=("xpu-runtime-init-failed", "smoke-failed"),
)
def xpu_no_device_access(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Rights on /dev/dri/renderD*; without them SYCL just finds no device and programs fall back to the CPU."""
    if derive.wheel_os(facts) not in ("linux", None) or _initialises_badly(facts):
        return
    nodes = [n for n in facts.intel.render_nodes or () if n.readable is False or n.writable is False]
    denied = sign(facts, "render-node-denied")
    if _works(facts) or not (is_xpu(facts) or sign(facts, "no-xpu-devices")):
        return
    if nodes or denied is not None:
        yield _denied(rule, facts, denied, bool(nodes))
        return
    if facts.intel.render_nodes:
        return  # they are there and may be used: the other rule's business
    text = sign(facts, "no-xpu-devices", "fell-back-to-cpu")
    if text is None and facts.torch.xpu_available is not False and not _remote(facts):
        return
    if text is None and derive.has_intel_gpu(facts) is False:
        return
    if text is None and facts.origin == "live":
        raise Unknown("nobody looked at the rights on /dev/dri", "ls -l /dev/dri; id", essential=True)
    yield _probably(rule, facts, text)


def _remote(facts: Facts) -> bool:
    """The report begins with a login over ssh, which gets no rights from a desktop session."""
    return any(command.startswith("ssh ") for command in facts.commands)


def _initialises_badly(facts: Facts) -> bool:
    return sign(facts, "xpu-init-failed", "level-zero-missing") is not None or facts.intel.level_zero == ""


def _denied(rule: Rule, facts: Facts, text: Symptom | None, by_file: bool) -> Finding:
    node = next((n for n in facts.intel.render_nodes or () if n.readable is False or n.writable is False), None)
    shown = f"{node.path} {node.mode or ''} {node.owner or ''}:{node.group or ''}" if node else None
    groups = f"groups of this user: {', '.join(facts.intel.user_groups)}" if facts.intel.user_groups else None
    return rule.finding(
        "error",
        seen=quoted(text, shown, groups),
        why=(
            "Without the right on the render node the runtime sees no Intel GPU, and torch.xpu.is_available() is False."
        ),
        remedy=_join_render(facts, node.group if node and node.group and node.group != "root" else "render"),
        line=at(text) or driver_signs.line_of(facts, "intel.render_nodes"),
    )


def _join_render(facts: Facts, group: str) -> Remedy:
    if driver_signs.in_container(facts):
        return Remedy(
            text=(
                "Start the container with --device /dev/dri and --group-add with the numeric id of the host's "
                f"{group} group."
            ),
            commands=("docker run --device /dev/dri --group-add $(getent group render | cut -d: -f3) IMAGE clinfo -l",),
        )
    return Remedy(
        text=(
            f"Add the user to the group {group} and log in again: a login at the machine itself gets the right from "
            "the desktop, one over ssh does not."
        ),
        commands=("ls -l /dev/dri", "id", f"sudo usermod -aG {group} $USER"),
    )


def _probably(rule: Rule, facts: Facts, text: Symptom | None) -> Finding:
    remote = _remote(facts)
    version = derive.torch_version(facts)
    return rule.finding(
        "error",
        title="The Intel GPU is not seen, most often for want of the right on /dev/dri (group render).",
        seen=quoted(
            text,
            f"torch {version} is an XPU build" if version else "an XPU build",
            "no XPU was found",
            "logged in over ssh" if remote else None,
        ),
        why=(
            "The build has XPU support and the runtime found no device: without the right on /dev/dri/renderD* it "
            "looks exactly like that."
        ),
        remedy=_join_render(facts, "render"),
        confidence="likely",
        otherwise=(
            "If the group is right: the Intel GPU driver may be missing (packages libze1, libze-intel-gpu1, "
            "intel-opencl-icd); clinfo -l and sycl-ls list what the runtime sees."
        ),
        line=at(text),
    )


@rule(
    "xpu-runtime-init-failed",
    "platform",
    "The XPU runtime cannot start, although the build has XPU support.",
    explains=("smoke-failed",),
)
def xpu_runtime_init_failed(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Torch's warning about the initialisation, a missing Level Zero loader, or a device that is not enumerated."""
    text = sign(facts, "xpu-init-failed", "level-zero-missing") or (
        sign(facts, "no-xpu-devices") if derive.wheel_os(facts) == "windows" else None
    )
    no_loader = facts.intel.level_zero == "" and is_xpu(facts)
    unseen = (
        is_xpu(facts)
        and facts.torch.xpu_available is False
        and bool(facts.intel.gpus)
        and bool(facts.intel.render_nodes)
    )
    if text is None and not no_loader and not unseen:
        return
    if text is None and _works(facts):
        return
    if unseen and text is None and not no_loader and any(n.readable is False for n in facts.intel.render_nodes or ()):
        return
    version = derive.torch_version(facts)
    missing = no_loader or (text is not None and text.kind == "level-zero-missing")
    also = driver_signs.quoted(sign(facts, "render-node-denied")) or None
    yield rule.finding(
        "error",
        title="The Level Zero loader of the Intel GPU driver is missing." if missing else "",
        seen=quoted(
            text,
            f"torch {version}" if version else None,
            f"GPU: {', '.join(facts.intel.gpus or ())}" if facts.intel.gpus else None,
            "no Level Zero loader" if no_loader else None,
            also,
        ),
        why="torch.xpu reaches the GPU through SYCL and Level Zero (libze_loader and Intel's compute runtime)."
        if missing
        else (
            "The runtime ended with an error while it listed the devices, so none is offered. The driver, a second "
            "GPU of another maker (an integrated AMD one, for example) and a fault of the torch release have all "
            "caused this."
        ),
        remedy=_driver(facts, missing=missing),
        confidence="certain" if missing else "likely",
        otherwise=""
        if missing
        else (
            "sycl-ls shows whether the runtime alone sees the GPU: if it does not, the Intel driver is at fault; if "
            "it does, torch's release is."
        ),
        line=at(text),
    )


def _driver(facts: Facts, *, missing: bool) -> Remedy:
    if derive.wheel_os(facts) == "windows":
        return Remedy(
            text="Install the newest Intel graphics driver for the GPU and restart Windows; then try again.",
            commands=('python -c "import torch; print(torch.xpu.is_available())"',),
        )
    packages = (
        "sudo apt install libze1 libze-intel-gpu1 intel-opencl-icd"
        if driver_signs.debian_like(facts)
        else "sudo dnf install oneapi-level-zero intel-level-zero intel-compute-runtime"
    )
    text = (
        "Install Intel's GPU compute packages."
        if missing
        else (
            "Update Intel's compute packages and the kernel, hide other GPUs from SYCL with "
            "ONEAPI_DEVICE_SELECTOR=level_zero:gpu, and try another torch release: the one before (2.5.1 found "
            "cards that 2.6 did not) or the newest."
        )
    )
    if driver_signs.in_container(facts):
        text = f"Start the container with --device /dev/dri and --group-add of the render group's number. {text}"
    return Remedy(
        text=text,
        commands=(
            packages,
            "sycl-ls",
            'ONEAPI_DEVICE_SELECTOR=level_zero:gpu python -c "import torch; print(torch.xpu.is_available())"',
        ),
    )


RULES: tuple[Rule, ...] = (xpu_no_device_access, xpu_runtime_init_failed)
