"""AMD GPUs: the right to use them (whether the build has code for them is told in `build_cpu`)."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.facts import Facts, Symptom
from envcheck.findings import Finding, Remedy
from envcheck.matrix import Matrix
from envcheck.rules import derive, driver_signs
from envcheck.rules.base import Rule, Unknown, rule
from envcheck.rules.driver_signs import at, detail, quoted, sign
from envcheck.rules.platform_wsl import under_wsl


def is_rocm(facts: Facts) -> bool:
    """A ROCm build, or ROCm's own programs in the report."""
    version = (derive.torch_version(facts) or "").lower()
    return bool(facts.torch.hip) or "rocm" in version or bool(facts.amd.rocm_version)


@rule(
    "rocm-no-device-access",
    "platform",
    "ROCm may not open the GPU's device files (/dev/kfd, /dev/dri).",
    explains=("smoke-failed",),
)
def rocm_no_device_access(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Rights and presence of the device files, in rocminfo's words or as they are."""
    if driver_signs.cuda_works(facts) or under_wsl(facts):
        return
    if facts.origin == "live" and facts.torch.cuda is not None and not facts.torch.hip:
        return  # every Ryzen has a graphics unit whose device files are closed: that matters to a ROCm build alone
    opened = sign(facts, "kfd-open")
    reason = detail(opened, "reason") or facts.amd.kfd_error or ""
    kfd = facts.amd.kfd
    denied = (
        "denied" in reason.lower()
        or "not permitted" in reason.lower()
        or bool(kfd and (kfd.readable is False or kfd.writable is False))
    )
    nodes = [n for n in facts.amd.render_nodes or () if n.readable is False or n.writable is False]
    absent = "no such file" in reason.lower() or sign(facts, "rock-not-loaded") is not None
    none = sign(facts, "no-hip-gpus")
    groups = sign(facts, "not-in-render-group")
    if _kernel_refuses(facts) or (reason and not denied and not absent):
        return
    if (
        denied
        or (groups is not None and opened is None)
        or (nodes and is_rocm(facts) and len(nodes) == len(facts.amd.render_nodes or ()))
    ):
        yield _denied(rule, facts, opened or groups, reason)
    elif absent:
        yield _absent(rule, facts, opened or sign(facts, "rock-not-loaded"))
    elif none is not None and is_rocm_text(none, facts):
        yield _none_found(rule, facts, none)
    elif kfd is None and facts.amd.render_nodes is None and is_rocm(facts) and driver_signs.cuda_works(facts) is False:
        raise Unknown("nobody looked at /dev/kfd", "ls -l /dev/kfd /dev/dri; id", essential=True)


def is_rocm_text(text: Symptom, facts: Facts) -> bool:
    """The message itself speaks of HIP or ROCm."""
    return any(word in text.text.lower() for word in ("hip", "rocm", "tensile")) or is_rocm(facts)


def _kernel_refuses(facts: Facts) -> bool:
    return sign(facts, "kfd-unsupported") is not None


def _group(facts: Facts) -> str:
    kfd = facts.amd.kfd
    return kfd.group if kfd is not None and kfd.group and kfd.group != "root" else "render"


def _denied(rule: Rule, facts: Facts, text: Symptom | None, reason: str) -> Finding:
    kfd = facts.amd.kfd
    shown = f"{kfd.path} {kfd.mode or ''} {kfd.owner or ''}:{kfd.group or ''}" if kfd is not None else None
    mine = f"groups of this user: {', '.join(facts.amd.user_groups)}" if facts.amd.user_groups else None
    group = _group(facts)
    container = driver_signs.in_container(facts)
    how = (
        (
            "Start the container with --device /dev/kfd --device /dev/dri and --group-add with the numeric id of "
            f"the host's {group} group (names inside the image do not count)."
        )
        if container
        else f"Add the user to the groups {group} and video, then log in again (on a cluster: ask for a GPU in the "
        "job)."
    )
    commands = (
        (
            "getent group render video",
            (
                "docker run --device /dev/kfd --device /dev/dri --group-add $(getent group render | cut -d: -f3) "
                "IMAGE rocminfo"
            ),
        )
        if container
        else (f"sudo usermod -aG {group},video $USER", "ls -l /dev/kfd /dev/dri", "id")
    )
    return rule.finding(
        "error",
        seen=quoted(text, shown, mine, f"/dev/kfd: {reason}" if reason and text is None else None),
        why=(
            "ROCm opens /dev/kfd and /dev/dri/renderD* for reading and writing; without that right it sees no "
            "device, although rocm-smi lists the card."
        ),
        remedy=Remedy(text=how, commands=commands),
        line=at(text) or driver_signs.line_of(facts, "amd.kfd", "amd.kfd_error"),
    )


def _absent(rule: Rule, facts: Facts, text: Symptom | None) -> Finding:
    container = driver_signs.in_container(facts)
    return rule.finding(
        "error",
        title="/dev/kfd is not there." if not container else "/dev/kfd was not passed into the container.",
        seen=quoted(text) or "/dev/kfd: no such file",
        why="ROCm reaches the GPU through /dev/kfd of the kernel driver amdgpu.",
        remedy=Remedy(
            text=(
                "Start the container with --device /dev/kfd --device /dev/dri --group-add video --group-add render; "
                "on the host itself the amdgpu driver has to be loaded (dmesg tells why it is not). Windows and "
                "macOS have no /dev/kfd."
            ),
            commands=(
                "ls -l /dev/kfd /dev/dri",
                "sudo dmesg | grep -i -e amdgpu -e kfd | head -30",
                "sudo modprobe amdgpu",
            ),
        ),
        confidence="likely",
        otherwise="A card that the kernel's kfd does not support gives no /dev/kfd either: dmesg names it.",
        line=at(text),
    )


def _none_found(rule: Rule, facts: Facts, text: Symptom) -> Finding:
    return rule.finding(
        "error",
        title="ROCm finds no GPU, most often for want of access to /dev/kfd and /dev/dri.",
        seen=quoted(text),
        why="torch is a ROCm build and its runtime saw no device.",
        remedy=Remedy(
            text=(
                "Look whether rocminfo lists the GPU. If it says Permission denied: join the groups render and "
                "video and log in again. In a container: --device /dev/kfd --device /dev/dri and the numeric id of "
                "the host's render group with --group-add."
            ),
            commands=("rocminfo | head -20", "ls -l /dev/kfd /dev/dri", "id", "sudo usermod -aG render,video $USER"),
        ),
        confidence="likely",
        otherwise=(
            "If rocminfo lists the GPU: HIP_VISIBLE_DEVICES or ROCR_VISIBLE_DEVICES hides it, or the build's ROCm "
            "is newer than the kernel driver."
        ),
        line=at(text),
    )


RULES: tuple[Rule, ...] = (rocm_no_device_access,)
