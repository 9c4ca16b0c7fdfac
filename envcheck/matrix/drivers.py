"""Drivers and CUDA: which driver a build needs, what CUDA a driver brings. Windows numbers differ from Linux ones."""

from __future__ import annotations

from envcheck.matrix.rows import Branch, Toolkit
from envcheck.matrix.tables import Tables
from envcheck.matrix.versions import at_least, key, numbers, short


def toolkit_rows(tables: Tables, cuda: str) -> list[Toolkit]:
    """Rows of one CUDA: of the exact patch level when that is named and known, else of the minor version."""
    minor = short(cuda)
    rows = [t for t in tables.toolkits if t.cuda == minor]
    exact = [t for t in rows if t.version and key(t.version) == key(cuda)]
    return exact if len(numbers(cuda)) > 2 and exact else rows


def shipped(tables: Tables, cuda: str, os: str) -> list[str]:
    """Drivers that shipped with that CUDA, in the order of its releases; pre-releases left out."""
    found = []
    for row in toolkit_rows(tables, cuda):
        driver = row.driver_windows if os == "windows" else row.driver_linux
        if driver and row.update != "RC":
            found.append(driver)
    return found


def driver_floor(tables: Tables, cuda: str, os: str) -> str | None:
    """Lowest driver that runs a build of that CUDA.

    From CUDA 11 the floor of the major counts (minor-version compatibility), unless the toolkit itself came with an
    older driver, which then runs its own code. Before CUDA 11 the toolkit's own driver is the floor.
    """
    parts = numbers(cuda)
    if not parts or os == "macos":
        return None
    own = min(shipped(tables, cuda, os), key=numbers, default=None)
    family = tables.floors.get((parts[0], os))
    if family is None:
        return own if parts[0] < min(major for major, _ in tables.floors) else None
    if own is not None and not at_least(own, family.driver):
        return own
    return family.driver


def doubtful_from(tables: Tables, cuda: str, os: str) -> str | None:
    """Drivers from here up to the floor may work: sources disagree."""
    parts = numbers(cuda)
    family = tables.floors.get((parts[0], os)) if parts else None
    return family.warn_from if family else None


def driver_runs(tables: Tables, driver: str, cuda: str, os: str) -> str | None:
    """ "yes", "no", "doubtful", or None when the tables do not know that CUDA or the number is unreadable."""
    floor = driver_floor(tables, cuda, os)
    if floor is None or not numbers(driver):
        return None
    if at_least(driver, floor):
        return "yes"
    low = doubtful_from(tables, cuda, os)
    return "doubtful" if low and at_least(driver, low) else "no"


def branch_row(tables: Tables, driver: str, os: str) -> Branch | None:
    """The branch row of a driver."""
    parts = numbers(driver)
    if not parts:
        return None
    for row in tables.branches:
        first, last = (row.windows_from, row.windows_to) if os == "windows" else (row.branch, row.branch)
        if first is not None and last is not None and first <= parts[0] <= last:
            return row
    return None


def driver_branch(tables: Tables, driver: str, os: str) -> int | None:
    """Branch number: on Linux the first part, on Windows by the table of ranges."""
    if os == "windows":
        row = branch_row(tables, driver, os)
        return row.branch if row else None
    parts = numbers(driver)
    return parts[0] if parts else None
