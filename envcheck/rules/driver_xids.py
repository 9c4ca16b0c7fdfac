"""Xids, the driver's numbers for what went wrong with a GPU: which mean hardware, and what ends them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from envcheck.facts import Facts
from envcheck.rules.driver_signs import only_past, signs

RESTART, RESET, POWER, NOTHING = "restart the program", "reset the GPU", "reboot or power off", "nothing"

# Source: NVIDIA "Xid errors" (deploy/xid-errors, catalog): what each number means, and the action that ends the fault.
HARDWARE_XIDS = {
    48: ("double-bit ECC error", RESET),
    61: ("breakpoint or warning of the internal micro-controller", NOTHING),
    62: ("internal micro-controller halt", RESET),
    63: ("row remapping or page retirement recorded", NOTHING),
    64: ("row remapping or page retirement failed", RESET),
    74: ("NVLink error", RESET),
    79: ("the GPU has fallen off the bus", POWER),
    92: ("high rate of single-bit ECC errors", NOTHING),
    94: ("contained ECC error", RESTART),
    95: ("uncontained ECC error", RESET),
    109: ("the GPU did not switch between programs in time", RESET),
    110: ("security fault", RESET),
    119: ("the GPU's firmware (GSP) does not answer", RESET),
    120: ("error in the GPU's firmware (GSP)", RESET),
    140: ("unrecovered ECC error", RESET),
    143: ("the GPU could not be initialized", RESET),
    154: ("the GPU needs a reset", RESET),
    158: ("fatal time-out of the GPU", RESET),
}
WARNING = 61
"""NVIDIA's list: breakpoint or warning of the micro-controller; it tells of something and is no fault by itself."""
DRIVER_PERHAPS = (109, 119, 120)
"""A hung engine or firmware: of these NVIDIA's catalog lets software be examined, and releases of the driver had faults."""
APPLICATION_XIDS = {
    13: "graphics engine exception",
    31: "memory page fault",
    43: "GPU stopped processing",
    45: "preemptive cleanup",
    68: "video processor exception",
    69: "graphics engine class error",
}
_ACTION = re.compile(r"recovery action changed from .{1,60} to 0x[0-9a-f]+ \((?P<action>[^)]{1,60})\)", re.IGNORECASE)
PLACE = re.compile(r"Xid \((?:PCI:)?([0-9a-f:.]{7,16})\)", re.IGNORECASE)


class Xid(NamedTuple):
    """One Xid of the kernel log or the paste."""

    number: int
    text: str
    line: int | None = None
    age: float | None = None
    """Seconds that it lies back, where that is known."""
    bare: bool = False
    """The line has words and no number; `number` is the Xid that is told of such a fault elsewhere."""

    @property
    def named(self) -> str:
        """Number and meaning, as a title says them."""
        words = HARDWARE_XIDS[self.number][0]
        if self.bare:
            return words if self.number == 79 else "an uncorrectable error of its memory"
        return f"Xid {self.number}, {words}"


def xids(facts: Facts) -> Iterator[Xid]:
    """Every Xid in the kernel log or the paste, in its order."""
    seen = set()
    for event in facts.kernel_events or ():
        if event.kind == "xid" and event.code is not None:
            seen.add((event.code, event.line))
            yield Xid(event.code, event.text or f"Xid {event.code}", event.line, event.age)
    for item in signs(facts, "xid"):
        number = int(item.details.get("xid", "0"))
        if (number, item.line) not in seen:
            yield Xid(number, item.text, item.line)


def hardware_xids(facts: Facts) -> tuple[Xid, ...]:
    """Those that stop work and do not come from a program."""
    return tuple(x for x in faults(facts) if ends_by(x) != NOTHING)


def faults(facts: Facts) -> Iterator[Xid]:
    """Xids of hardware, and on a live machine what else the kernel's log of this boot says of a fault."""
    told, known = set(), list[Xid]()
    for xid in xids(facts):
        if xid.number == 154 and ends_by(xid) is None:
            known = [x for x in known if x.number != 154 or _place(x) != _place(xid)]
        elif xid.number in HARDWARE_XIDS:
            known.append(xid)
            told.add(xid.line)
    yield from known
    ages = {event.line: event.age for event in facts.kernel_events or ()}
    for item in signs(facts, "gpu-lost", "ecc-error"):
        if only_past(facts, item) and item.line not in told:
            yield Xid(79 if item.kind == "gpu-lost" else 48, item.text, item.line, ages.get(item.line), bare=True)


def _place(xid: Xid) -> str | None:
    found = PLACE.search(xid.text)
    return found[1].lower() if found else None


def ends_by(xid: Xid) -> str | None:
    """What ends the fault; None = this line takes an earlier one back (154: nothing is needed any more)."""
    changed = _ACTION.search(xid.text) if xid.number == 154 else None
    if changed is None:
        return HARDWARE_XIDS[xid.number][1]
    action = changed["action"].lower()
    return None if action.startswith("none") else POWER if "reboot" in action else RESET
