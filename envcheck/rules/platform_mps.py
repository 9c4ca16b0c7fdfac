"""Apple's MPS: too old a macOS, a closed way to the Metal device, operators without a Metal kernel."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.facts import Facts, Symptom
from envcheck.findings import Finding, Remedy
from envcheck.matrix import Matrix
from envcheck.matrix.versions import at_least
from envcheck.rules import derive, driver_signs, remedies
from envcheck.rules.base import Rule, Unknown, rule
from envcheck.rules.driver_signs import at, detail, quoted, sign


def _macos(facts: Facts) -> str | None:
    return facts.apple.macos or (facts.system.version if facts.system.os == "macos" else None)


def floor_for(version: str | None, matrix: Matrix) -> str | None:
    """Lowest macOS on which MPS works with that torch. The number in torch's own message is often out of date.

    A nightly counts as the release it leads to; anything newer than the tables as the newest release.
    """
    parts = derive.numbers(version)
    if len(parts) < 2:
        return None
    found = matrix.release(f"{parts[0]}.{parts[1]}")
    if found is None and version and matrix.is_newer_than_tables(version):
        found = matrix.newest
    return found.mps_min_macos if found is not None else None


def _stale(said: str | None, version: str | None, macos: str, matrix: Matrix) -> str | None:
    """The next floor above the one that torch's message names, where this macOS lies between the two.

    The message kept its number for releases after the floor had risen. So with a torch that is not known, a macOS that
    satisfies the message and not the next floor is too old for the torch that printed it, as far as the text tells.
    """
    if not said or version is not None:
        return None
    floors = {r.mps_min_macos for r in matrix.releases if r.mps_min_macos}
    above = sorted((f for f in floors if derive.numbers(f) > derive.numbers(said)), key=derive.numbers)
    return above[0] if above and at_least(macos, said) and not at_least(macos, above[0]) else None


def _last_for(macos: str, matrix: Matrix) -> str | None:
    """The newest torch whose MPS runs on that macOS."""
    fits = [r.version for r in matrix.releases if r.mps_min_macos and at_least(macos, r.mps_min_macos)]
    return fits[-1] if fits else None


def _text(facts: Facts) -> Symptom | None:
    return sign(facts, "mps-macos-text", "mps-not-available")


@rule(
    "mps-macos-too-old",
    "platform",
    "This macOS is too old for the MPS of this torch.",
    explains=("mps-blocked-by-sandbox", "smoke-failed"),
)
def mps_macos_too_old(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """The real floor of the release against the macOS; torch's message alone where one of the two is unknown."""
    text = _text(facts)
    macos, version = _macos(facts), derive.torch_version(facts)
    if facts.torch.mps_available or (text is None and not (driver_signs.on_mac(facts) and facts.torch.mps_built)):
        return
    said = detail(text, "floor")
    floor = floor_for(version, matrix)
    if macos is not None and (floor or said):
        needed = max((f for f in (floor, said) if f), key=derive.numbers)
        stale = _stale(said, version, macos, matrix)
        if at_least(macos, needed) and stale is None:
            return
        yield _too_old(rule, facts, matrix, text, macos, stale or needed, said)
    elif text is not None and text.kind == "mps-macos-text":
        yield _unknown_macos(rule, facts, matrix, text, floor, said)
    elif text is None and macos is None:
        raise Unknown("the macOS version is not known", "sw_vers")


def _too_old(
    rule: Rule, facts: Facts, matrix: Matrix, text: Symptom | None, macos: str, needed: str, said: str | None
) -> Finding:
    version = derive.torch_version(facts)
    last = _last_for(macos, matrix)
    stale = bool(said) and derive.numbers(said) < derive.numbers(needed)
    assumed = stale and version is None
    keep = remedies.pip(facts, "install", f"torch=={last}") if last else None
    return rule.finding(
        "error" if text is not None else "warning",
        seen=quoted(
            text, f"macOS {macos}", f"torch {version}" if version else None, f"its MPS needs macOS {needed} or newer"
        ),
        why="MPS is not available, so torch computes on the CPU."
        + (f" The {said} in torch's message is out of date." if stale else ""),
        remedy=Remedy(
            text=f"Update macOS to {needed} or newer"
            + (
                f", or stay on torch {last}, the newest whose MPS runs on macOS {macos}."
                if last
                else "; no torch has MPS on this one."
            ),
            commands=("sw_vers", keep) if keep else ("sw_vers",),
        ),
        confidence="likely" if assumed else "certain",
        otherwise="The version of torch is not shown; if its MPS runs on this macOS, the process cannot reach the Metal "
        "device (a sandbox, a virtual machine)."
        if assumed
        else "",
        line=at(text) or driver_signs.line_of(facts, "apple.macos", "system.version"),
    )


def _unknown_macos(
    rule: Rule, facts: Facts, matrix: Matrix, text: Symptom, floor: str | None, said: str | None
) -> Finding:
    version = derive.torch_version(facts)
    needed = max((f for f in (floor, said) if f), key=derive.numbers, default="")
    return rule.finding(
        "error",
        seen=quoted(
            text, f"torch {version}" if version else None, f"its MPS needs macOS {needed} or newer" if needed else None
        ),
        why=(
            "MPS is not available, so torch computes on the CPU. torch's message names an old number at times: "
            "torch 2.5 and later need macOS 13, torch 2.9 and later macOS 14."
        ),
        remedy=Remedy(
            text=f"See which macOS this is; if it is older than {needed or 'that'}, update it or take an older torch.",
            commands=("sw_vers", 'python -c "import torch; print(torch.__version__)"'),
        ),
        confidence="likely",
        otherwise=(
            "On a macOS that is new enough the same message means that the process cannot reach the Metal device (a "
            "sandbox, a virtual machine)."
        ),
        line=at(text),
    )


@rule("mps-blocked-by-sandbox", "platform", "This process cannot reach the Metal device.", explains=("smoke-failed",))
def mps_blocked_by_sandbox(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """MPS is built in, the macOS is new enough, and yet there is no device."""
    blocked = sign(facts, "metal-blocked")
    text = blocked or _text(facts)
    macos, version = _macos(facts), derive.torch_version(facts)
    if facts.torch.mps_available or not (driver_signs.on_mac(facts) or text is not None):
        return
    unavailable = facts.torch.mps_available is False and facts.torch.mps_built is not False
    if text is None and not unavailable:
        return
    if facts.torch.mps_built is False or facts.system.rosetta or _intel(facts):
        return
    if blocked is None:
        floor = floor_for(version, matrix)
        said = detail(text, "floor")
        needed = max((f for f in (floor, said) if f), key=derive.numbers, default=None)
        if macos is None or needed is None:
            if text is None and unavailable:
                raise Unknown("whether the macOS is new enough is not known", "sw_vers")
            return
        if not at_least(macos, needed) or _stale(said, version, macos, matrix):
            return
    machine = facts.system.virtual_machine not in (None, "none")
    yield rule.finding(
        "error",
        title="This virtual machine has no Metal device for torch." if machine else "",
        seen=quoted(
            text,
            f"macOS {macos}" if macos else None,
            f"torch {version}" if version else None,
            "MPS is built in and not available" if unavailable else None,
            "no Metal device can be made" if facts.apple.metal is False else None,
        ),
        why=(
            "System, chip and build are in order; the process gets no Metal device, as in a sandbox (of an editor, "
            "an agent or a build tool), in a virtual machine, or in a session without a graphics login."
        ),
        remedy=Remedy(
            text=(
                "Run the same command in an ordinary Terminal window outside of the sandbox, or allow it the GPU "
                "(IOKit) in the sandbox's profile. In a virtual machine: pass the GPU on (Apple's Virtualization "
                "with a graphics device) or run it on the Mac itself."
            ),
            commands=(
                'python -c "import torch; print(torch.backends.mps.is_built(), torch.backends.mps.is_available())"',
            ),
        ),
        confidence="certain" if blocked is not None else "likely",
        otherwise=""
        if blocked is not None
        else (
            "If it is False in an ordinary Terminal, too: platform.machine() has to be arm64, and another torch "
            "release tells whether this one is at fault."
        ),
        line=at(text) or driver_signs.line_of(facts, "torch.mps_available"),
    )


def _intel(facts: Facts) -> bool:
    return (facts.python.machine or facts.system.machine) == "x86_64"


@rule("mps-op-not-implemented", "platform", "An operator has no Metal kernel in this torch release.")
def mps_op_not_implemented(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Torch's NotImplementedError and its relatives."""
    text = sign(facts, "mps-op", "mps-limit")
    if text is None:
        return
    name = detail(text, "op", "op2", "op3", "op4", "op5", "op6")
    version = derive.torch_version(facts)
    newest = matrix.newest.version
    old = version is None or not at_least(version, newest)
    limit = text.kind == "mps-limit"
    big = limit and re.search(r"2\*\*3\d|INT_MAX", text.text) is not None
    by_macos = re.search(r"macos \d", text.text, re.IGNORECASE) is not None
    upgrade = (
        f"Upgrade torch (the newest release is {newest}): each release brings more Metal kernels."
        if old
        else "This is the newest release: a nightly may have it."
    )
    if by_macos:
        upgrade = f"The message names the macOS that brings it: update macOS. {upgrade}"
    yield rule.finding(
        "error",
        title="A tensor is too big for Metal."
        if big
        else "Metal refuses an operation: an assertion of Apple's library failed."
        if limit
        else (f"{name} has no Metal kernel in this torch release." if name else ""),
        seen=quoted(text, f"torch {version}" if version else None),
        why="Everything else runs on MPS; this one call stops the program."
        if not limit
        else "MPS arrays are limited in size (2**32 bytes in older macOS releases)."
        if big
        else "torch handed Metal shapes or types that it does not take, which is an error of this torch (or macOS) release in most cases; "
        "the assertion ends the whole program.",
        remedy=Remedy(
            text=(
                f"{upgrade} Until then the variable PYTORCH_ENABLE_MPS_FALLBACK=1, set before Python starts, lets "
                "the CPU compute what is missing (slower)."
            )
            if not limit
            else f"Use smaller tensors (batch, image size, attention slicing). {upgrade}"
            if big
            else f"{upgrade} Until then run this part on the CPU.",
            commands=(
                remedies.pip(facts, "install", "--upgrade", "torch"),
                *(() if limit else ("PYTORCH_ENABLE_MPS_FALLBACK=1 python script.py",)),
            ),
        ),
        line=at(text),
    )


@rule("mps-not-built", "platform", "This torch has no MPS in it.")
def mps_not_built(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """A torch from before 1.12, or one that is not the macOS arm64 build."""
    text = sign(facts, "mps-not-linked")
    built_without = facts.torch.mps_built is False and driver_signs.on_mac(facts)
    if text is None and not built_without:
        return
    version = derive.torch_version(facts)
    mac = driver_signs.on_mac(facts) or derive.wheel_os(facts) is None
    yield rule.finding(
        "error" if text is not None else "note",
        seen=quoted(
            text,
            f"torch {version}" if version else None,
            f"Python for {facts.python.machine}" if facts.python.machine else None,
        ),
        why="The device mps exists in macOS builds of torch 1.12 and later only."
        if mac
        else "The program asks for the device mps, which only macOS has.",
        remedy=Remedy(
            text="Install a current torch in an arm64 Python of macOS."
            if mac
            else "Choose the device in the program: cuda where torch.cuda.is_available(), else cpu.",
            commands=(
                'python -c "import platform; print(platform.machine())"',
                remedies.pip(facts, "install", "--upgrade", "torch"),
            )
            if mac
            else (),
        ),
        confidence="likely",
        line=at(text),
    )


@rule("mps-watermark-ratio", "platform", "The limits that the environment sets for MPS's memory do not fit each other.")
def mps_watermark_ratio(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Torch's check of PYTORCH_MPS_HIGH_WATERMARK_RATIO and PYTORCH_MPS_LOW_WATERMARK_RATIO when MPS starts."""
    text = sign(facts, "mps-watermark")
    if text is None:
        return
    low, value = detail(text, "which") == "low", detail(text, "value")
    set_to = [f"{n}={v}" for n in (_HIGH, _LOW) if (v := facts.variable(n)) is not None]
    yield rule.finding(
        "error",
        seen=quoted(text, *set_to),
        # Source: aten/src/ATen/mps/MPSAllocator.mm, setHighWatermarkRatio and setLowWatermarkRatio.
        why=(
            f"The low ratio may not be above the high one. {_HIGH} was set to less than {value}"
            + (f", and {value} is torch's own low ratio on Apple chips" if value == "1.4" else "")
            + ", so the allocator refuses to start."
            if low
            else f"{_HIGH} may be 0.0 (no limit) to 2.0, as a share of what Metal recommends."
        ),
        remedy=Remedy(
            text=f"Remove {_HIGH} from the environment (a shell's profile, an activate script, a .env file, the program itself): torch's own "
            "1.7 is the limit then. For a lower limit set the low one below it, too.",
            commands=(f"unset {_HIGH} {_LOW}", f"export {_HIGH}=0.7 {_LOW}=0.5"),
        ),
        line=at(text),
    )  # fmt: skip


_HIGH, _LOW = "PYTORCH_MPS_HIGH_WATERMARK_RATIO", "PYTORCH_MPS_LOW_WATERMARK_RATIO"

RULES: tuple[Rule, ...] = (
    mps_macos_too_old,
    mps_blocked_by_sandbox,
    mps_watermark_ratio,
    mps_op_not_implemented,
    mps_not_built,
)
