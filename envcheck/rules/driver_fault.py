"""Faults of the card itself: ECC errors, a card off the bus, Xids that mean hardware, now or some time ago."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.facts import Facts, NvidiaGpu, Symptom
from envcheck.findings import SEVERITIES, Finding, Remedy
from envcheck.matrix import Matrix
from envcheck.rules import derive, driver_signs
from envcheck.rules.base import Rule, rule
from envcheck.rules.driver_signs import at, cuda_code, only_past, quoted, sign, signs
from envcheck.rules.driver_xids import (
    DRIVER_PERHAPS,
    NOTHING,
    PLACE,
    POWER,
    RESTART,
    WARNING,
    Xid,
    ends_by,
    faults,
)

_DAY = 86_400.0
_BROKEN_WORDS = (
    r"unknown error|busy or unavailable|uncorrect(?:able|ed)\b.{0,20}\b(?:ECC|NVLink)|unspecified launch failure"
    r"|launch timed out|initialization error|hardware stack error|GPU is lost|fallen off the bus|requires reset"
    r"|operating system call failed|system not yet initialized|did not synchroni[sz]e"
)
"""What a failed test says of a device that is broken; too little memory, a missing library or a build without code for
the GPU says nothing of it."""
# CUresult: not initialized, device unavailable, invalid device, ECC, NVLink, operating system, launch failures, not ready, unknown.
_BROKEN_CODES = (3, 46, 101, 214, 220, 304, 702, 719, 802, 999)


@rule(
    "gpu-hardware-fault",
    "driver",
    "The GPU has a hardware fault.",
    explains=(
        "cuda-unknown-error",
        "smoke-failed",
        "driver-too-old",
        "cuda-visible-devices",
        "container-no-gpu",
        "nvidia-driver-not-loaded",
        "driver-cannot-init-gpu",
        "nvidia-smi-hangs",
        "illegal-memory-access",
        "nccl-timeout",
        "nccl-network",
        "gpu-exclusive-mode",
        "wrong-results",
    ),
)
def gpu_hardware_fault(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """ECC errors, a card off the bus, Xids that mean hardware; those of the past by what the card does now."""
    told = next((s for s in signs(facts, "ecc-error", "gpu-lost") if not only_past(facts, s)), None)
    troubled = [(state, g) for g in facts.nvidia.gpus or () if (state := _state(g, facts))]
    gpu = min(troubled, key=lambda pair: SEVERITIES.index(pair[0]))[1] if troubled else None
    judged = [(_severity(xid, facts), xid) for xid in faults(facts)]
    worst = min(judged, key=lambda pair: SEVERITIES.index(pair[0]), default=None)
    lost = facts.nvidia.smi_error == "gpu-lost"
    severity = "error" if told or lost else _worse(worst[0] if worst else None, _state(gpu, facts) if gpu else None)
    if severity is None:
        return
    xid = worst[1] if worst and worst[0] == severity else None
    if severity != "error" and xid is not None and facts.origin == "live":
        yield _recovered(rule, severity, xid, gpu, facts)
        return
    number = xid.number if xid else None
    line = min((x for x in (xid.line if xid else None, at(told)) if x is not None), default=None)
    yield rule.finding(
        severity,
        title=_title(xid) if xid else _waiting(gpu) if gpu and severity == "warning" else "",
        seen=quoted(
            told,
            f'"{xid.text}"' if xid and (told is None or xid.text != told.text) else None,
            _shown(gpu) if gpu else None,
            quoted(sign(facts, "pcie-fatal")) or None,
        ),
        why=(
            "Such errors come from the card, its memory, its power or its slot (PCIe), not from Python packages or "
            "their versions."
        )
        if severity == "error"
        else _goes_on(xid, gpu),
        remedy=_remedy(xid, told, gpu, facts),
        confidence="likely" if number in DRIVER_PERHAPS else "certain",
        otherwise="Such time-outs are at times a fault of the driver release: try another one of the branch, and the card "
        "without overclocking."
        if number in DRIVER_PERHAPS
        else "",
        line=line or driver_signs.line_of(facts, "nvidia.gpus", "nvidia.smi_error"),
    )


def _worse(first: str | None, second: str | None) -> str | None:
    known = [s for s in (first, second) if s]
    return min(known, key=SEVERITIES.index, default=None)


# -- what the card does now --------------------------------------------------------------------------------------------


def _state(gpu: NvidiaGpu, facts: Facts) -> str | None:
    """ "error" | "warning" by what nvidia-smi shows of a GPU, None where nothing is wrong.

    Rows and pages that wait for a reset, a GPU that is to be drained before one, and errors after which the driver asks
    for no action or all tests passed, let programs go on.
    """
    drains = _drains(gpu)
    if _broken(gpu.error) or (gpu.recovery_action not in (None, "None") and not drains):
        return "error"
    if (gpu.ecc_uncorrected or 0) > 0 and gpu.recovery_action is None and not _computed(facts):
        return "error"
    waits = gpu.remapped_rows_pending or gpu.retired_pages_pending or (gpu.ecc_uncorrected or 0) > 0
    return "warning" if drains or waits else None


def _drains(gpu: NvidiaGpu) -> bool:
    """ "Drain P2P", "Drain and Reset": what runs may end its work first. Source: NVIDIA, error recovery flags of A100."""
    return (gpu.recovery_action or "").lower().startswith("drain")


def _computed(facts: Facts) -> bool:
    """Tests passed on as many CUDA devices as there are GPUs, and none failed as it would on a broken one."""
    devices = {c.device for c in facts.checks or () if c.device.startswith("cuda") and c.status == "passed"}
    return len(devices) >= len(facts.nvidia.gpus or ()) > 0 and not _fails(facts)


def _broken(error: str | None) -> bool:
    return bool(error) and any(
        word in (error or "").lower() for word in ("lost", "err!", "unknown error", "requires reset")
    )


def _severity(xid: Xid, facts: Facts) -> str:
    """In a paste the log is what is asked about. On a live machine it reaches back to the start: what the card does now
    decides, and how long ago it was.
    """
    ends = ends_by(xid)
    if facts.origin != "live":
        return "warning" if ends == NOTHING else "error"
    now, mild = _now(xid, facts), ends in (NOTHING, RESTART)
    if now == "bad":
        return "warning" if ends == NOTHING else "error"
    if now is None:
        return "error" if not mild and _fails(facts) else "warning"
    old = now == "works" and xid.age is not None and xid.age > _DAY
    return "note" if mild or old or now == "another's" else "warning"


def _now(xid: Xid, facts: Facts) -> str | None:
    """ "works" (CUDA starts or computed) | "shown" (nvidia-smi has nothing against it) | "bad" | "another's" (not one of
    the GPUs that this container or job may see); None = nobody could ask.
    """
    nvidia = facts.nvidia
    if nvidia.smi is None or nvidia.smi.status in ("missing", "skipped"):
        return None
    if not nvidia.smi.ok or not nvidia.gpus:
        return "bad"
    place = PLACE.search(xid.text)
    mine = [g for g in nvidia.gpus if place and _same_place(g.bus_id, place[1])]
    if place and not mine and all(g.bus_id for g in nvidia.gpus):
        limited = derive.in_container(facts) or facts.variable("SLURM_JOB_ID") is not None
        return "another's" if limited else "bad"
    if any(_state(g, facts) == "error" for g in mine or nvidia.gpus) or _fails(facts):
        return "bad"
    passed = any(c.device.startswith("cuda") and c.status == "passed" for c in facts.checks or ())
    return "works" if passed or driver_signs.cuda_works(facts) else "shown"


def _fails(facts: Facts) -> bool:
    """CUDA was tried and fails in a way that a broken GPU can cause."""
    tried = facts.torch.cuda_init
    if cuda_code(facts) in _BROKEN_CODES or (tried is not None and tried.status in ("crashed", "timeout")):
        return True
    if any(not only_past(facts, item) for item in signs(facts, "cuda-unknown", "device-busy")):
        return True
    return any(
        c.status in ("crashed", "timeout")
        or (c.status == "failed" and re.search(_BROKEN_WORDS, c.detail or "", re.IGNORECASE) is not None)
        for c in facts.checks or ()
        if c.device.startswith("cuda")
    )


def _same_place(one: str | None, other: str) -> bool:
    """ "00000000:3B:00.0" of nvidia-smi and "0000:3b:00" of the kernel are one place."""

    def parts(text: str) -> tuple[int, ...]:
        found = [int(n, 16) for n in re.findall(r"[0-9a-f]+", text.lower().partition(".")[0])]
        return (0, *found) if len(found) == 2 else tuple(found)

    return one is not None and parts(one) == parts(other)


# -- words -------------------------------------------------------------------------------------------------------------


def _title(xid: Xid) -> str:
    if xid.number in DRIVER_PERHAPS:
        return f"The GPU hung: {xid.named}."
    if xid.number == WARNING:
        return f"The GPU sent a warning: {xid.named}."
    return f"The GPU has a hardware fault: {xid.named}."


def _waiting(gpu: NvidiaGpu | None) -> str:
    if gpu is not None and gpu.remapped_rows_pending:
        return "Memory rows of the GPU wait to be remapped by a reset."
    if gpu is not None and gpu.retired_pages_pending:
        return "Memory pages of the GPU wait to be retired by a reset."
    if gpu is not None and _drains(gpu):
        return f"The driver wants the GPU drained of work ({gpu.recovery_action})."
    if gpu is not None and gpu.recovery_action is None:
        return "The GPU met memory errors that could not be corrected; it computes all the same."
    return "The GPU met memory errors that could not be corrected; the driver asks for no action."


def _goes_on(xid: Xid | None, gpu: NvidiaGpu | None) -> str:
    if xid is not None and xid.number == WARNING:
        return "NVIDIA's list calls it a breakpoint or a warning: no fault by itself, unless the GPU hangs after it."
    if gpu is not None and _drains(gpu):
        return "What runs may go on to its end; new work should wait until the GPU has been drained."
    return "The GPU goes on working; what is wrong ends with the next reset."


def _shown(gpu: NvidiaGpu) -> str:
    found = []
    for name in ("ecc_uncorrected", "remapped_rows_pending", "retired_pages_pending", "error", "recovery_action"):
        value = getattr(gpu, name)
        if value and value != "None":
            found.append(f"{name.replace('_', ' ')}: {value}")
    return f"GPU {'' if gpu.index is None else gpu.index}: " + ", ".join(found)


def _ago(age: float | None) -> str:
    if age is None:
        return "since the last start"
    for seconds, name in ((_DAY, "day"), (3600.0, "hour"), (60.0, "minute")):
        if age >= seconds:
            number = int(age // seconds)
            return f"{number} {name}{'s' if number > 1 else ''} ago"
    return "less than a minute ago"


def _recovered(rule: Rule, severity: str, xid: Xid, gpu: NvidiaGpu | None, facts: Facts) -> Finding:
    """A fault of the past on a GPU that works: worth knowing, for most of them come back."""
    ends, now = ends_by(xid), _now(xid, facts)
    which = "Another" if now == "another's" else "The"
    what = "sent a warning" if xid.number == WARNING else "had a fault"
    if xid.number == WARNING:
        why = _goes_on(xid, None)
    elif now is None:
        why = "How the GPU is now could not be asked: nvidia-smi was not run, or is not there."
    elif ends == NOTHING:
        why = "The driver has dealt with it, and asks for no action."
    elif now == "another's":
        why = "It is none of the GPUs that this container or job may use."
    elif now == "works":
        why = "The GPU works now, so the fault is over; faults of power, slot and memory often come back."
    else:
        why = "nvidia-smi shows nothing that keeps programs off it now; whether CUDA computes was not tried."
    if gpu is not None:
        why = f"{why} {_waiting(gpu)}"
    first = (
        "Run nvidia-smi and a small CUDA program to see how the GPU is."
        if now is None
        else "Nothing has to be done now."
    )
    return rule.finding(
        severity,
        title=f"{which} GPU {what} {_ago(xid.age)}: {xid.named}.",
        seen=quoted(None, f'"{xid.text}"', _shown(gpu) if gpu else None),
        why=why,
        remedy=_remedy(None, None, gpu, facts)
        if gpu is not None
        else Remedy(
            text=f"{first} If it comes back: "
            + (
                "look at power supply, cables, riser, slot and temperature; then test the card in another machine."
                if ends == POWER
                else "read the counters, reset the GPU, and have it checked by its maker or administrator."
            ),
            commands=("sudo dmesg -T | grep -i xid", "nvidia-smi -q -d ECC,ROW_REMAPPER,PAGE_RETIREMENT"),
        ),
        line=xid.line,
    )


def _remedy(xid: Xid | None, told: Symptom | None, gpu: NvidiaGpu | None, facts: Facts) -> Remedy:
    ends = ends_by(xid) if xid else None
    lost = (told is not None and told.kind == "gpu-lost") or facts.nvidia.smi_error == "gpu-lost"
    if (ends == POWER and xid is not None and xid.number == 79) or lost:
        return Remedy(
            text="Power the machine off completely and on again. Then check temperature, power supply and its "
            "cables, riser and slot (reseat the card); lower the power limit to see whether power is the cause; "
            "test the card in another machine.",
            commands=(
                "sudo dmesg | grep -i -e xid -e aer",
                "nvidia-smi -q -d TEMPERATURE,POWER",
                "nvidia-smi -q -d PERFORMANCE",
            ),
        )
    if xid is not None and xid.number in (119, 120):
        return Remedy(
            text=(
                "Power the machine off completely and on again, and install a newer driver of the branch; if it "
                "comes back, have the card checked."
            ),
            commands=("sudo dmesg | grep -i xid", "nvidia-smi"),
        )
    if xid is not None and xid.number == 109:
        return Remedy(
            text="End what uses the GPU and reset it, or reboot. If it comes back: another driver release, factory clocks, "
            "a power supply that is strong enough; then have the card checked.",
            commands=("sudo dmesg | grep -i xid", "sudo nvidia-smi --gpu-reset -i 0"),
        )
    if xid is not None and xid.number == WARNING:
        return Remedy(
            text="Nothing has to be done for it alone. If the GPU hangs after it, or Xid 62 follows: reset the GPU, and try "
            "another driver release.",
            commands=("sudo dmesg -T | grep -i xid", "nvidia-smi"),
        )
    index = gpu.index if gpu is not None and gpu.index is not None else 0
    wanted = (gpu.recovery_action if gpu is not None else None) or ""
    if "boot" in wanted.lower() or ends == POWER:
        return Remedy(
            text="The driver asks for a reboot of the machine; until then CUDA does not start on this GPU.",
            commands=("nvidia-smi -q | grep -i 'recovery action'", "sudo reboot"),
        )
    if gpu is not None and _drains(gpu):
        p2p = "p2p" in wanted.lower()
        return Remedy(
            text="Let the programs that pass data between GPUs end, and start no new ones; then read the recovery action "
            "again, which names the next step, mostly a reset."
            if p2p
            else "Let the work on the GPU end and start none anew; then reset it.",
            commands=("nvidia-smi -q | grep -i 'recovery action'",)
            + (() if p2p else (f"sudo nvidia-smi --gpu-reset -i {index}",)),
        )
    if wanted not in ("", "None"):
        return Remedy(
            text=f"The driver asks for an action before the GPU can be used again ({wanted}): end its processes, then reset it.",
            commands=("nvidia-smi -q | grep -i 'recovery action'", f"sudo nvidia-smi --gpu-reset -i {index}"),
        )
    return Remedy(
        text="Run the job on another GPU or node and report this one to its administrator. The owner resets the GPU "
        "(or reboots), reads the ECC counters and has the card replaced if the errors come back."
        if gpu is None or _state(gpu, facts) == "error" or xid is not None
        else "Reset the GPU when its work is done, or reboot; have the card checked if the count grows.",
        commands=("nvidia-smi -q -d ECC,ROW_REMAPPER,PAGE_RETIREMENT", f"sudo nvidia-smi --gpu-reset -i {index}"),
    )


RULES: tuple[Rule, ...] = (gpu_hardware_fault,)
