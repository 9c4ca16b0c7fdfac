"""Can a GPU run what is in a build? Pure: no tables.

Machine code (SASS) of one architecture runs on the same major with an equal or higher minor. Three things bend that:
Tegra chips had binaries of their own until CUDA 13.2, `a` and `f` code is tied to a chip or its family, and PTX is
compiled by the driver, which must be at least as new as the toolkit that wrote it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from envcheck.matrix.rows import Coverage
from envcheck.matrix.versions import at_least

_ENTRY = re.compile(r"(sm|compute)_(\d{1,2})(\d)([af]?)").fullmatch

# Source: DEVICE_REQUIREMENT in torch/cuda/__init__.py of torch 2.14.1 and 2.15.0: which device each code may not run on.
_TEGRA = {
    (5, 3): {(5, 0), (5, 2)},
    (6, 2): {(6, 0), (6, 1)},
    (7, 2): {(7, 0)},
    (8, 7): {(8, 0), (8, 6)},
    (10, 1): {(10, 0)},
}
# The same file: from CUDA 13.2 these three are lifted, because server and Jetson binaries became one.
_UNIFIED = {((7, 2), (7, 0)), ((8, 7), (8, 0)), ((8, 7), (8, 6))}
_UNIFIED_FROM = "13.2"
# Thor was 10.1 in CUDA 12.8 and 12.9 and became 11.0 in CUDA 13.
_THOR = {(10, 1), (11, 0)}

Capability = tuple[int, int]


def coverage(
    arch_list: Iterable[str],
    cc: str,
    *,
    build_cuda: str | None = None,
    driver_cuda: str | None = None,
    ptx_known: bool = True,
) -> Coverage:
    """Judges one GPU against the architecture names of a build.

    ptx_known: False when the list names the SASS alone and PTX may be there or not.
    """
    device = _capability(cc)
    if device is None:
        return Coverage(kind="unknown", reason=f"'{cc}' is not a compute capability")
    entries = [match for name in arch_list if (match := _ENTRY(name))]
    sass = [m for m in entries if m[1] == "sm"]
    best, doubtful = _best_sass(sass, device, build_cuda)
    if best:
        exact = best == f"sm_{device[0]}{device[1]}"
        how = "is code for this very chip" if exact else f"runs on compute capability {cc} (same family)"
        return Coverage(kind="sass", by=best, reason=f"{best} {how}")
    ptx = _best_ptx([m for m in entries if m[1] == "compute"], device)
    if ptx:
        return _judge_ptx(ptx, cc, build_cuda, driver_cuda)
    if doubtful:
        why = f"{doubtful} runs on compute capability {cc} only in builds of CUDA {_UNIFIED_FROM} or newer"
        return Coverage(kind="unknown", by=doubtful, reason=f"{why}, and the build's CUDA is not known")
    if not ptx_known and not _all_newer(sass, device):
        return Coverage(kind="unknown", reason=f"no machine code for {cc}, and whether there is PTX is not known")
    if not entries:
        return Coverage(kind="none", reason="the build has no NVIDIA code at all")
    names = " ".join(m[0] for m in entries)
    return Coverage(kind="none", reason=f"none of {names} runs on compute capability {cc}")


def _capability(cc: str) -> Capability | None:
    match = re.fullmatch(r"(\d{1,2})\.(\d)", cc)
    return (int(match[1]), int(match[2])) if match else None


def _best_sass(
    entries: list[re.Match[str]], device: Capability, build_cuda: str | None
) -> tuple[str | None, str | None]:
    """The nearest entry that runs, and one that would run if the build's CUDA were known to be new enough."""
    best: tuple[Capability, str] | None = None
    doubtful: str | None = None
    for match in entries:
        code = (int(match[2]), int(match[3]))
        if not _same_family(code, device, match[4]):
            continue
        if code in _TEGRA.get(device, ()):
            lifted = (device, code) in _UNIFIED
            if lifted and build_cuda is None:
                doubtful = match[0]
            if not (lifted and build_cuda is not None and at_least(build_cuda, _UNIFIED_FROM)):
                continue
        if best is None or code > best[0]:
            best = (code, match[0])
    return (best[1] if best else None), doubtful


def _same_family(code: Capability, device: Capability, suffix: str) -> bool:
    if device in _THOR and code in _THOR:
        return True
    if suffix == "a" or code in _TEGRA or code in _THOR:
        return code == device
    return code[0] == device[0] and code[1] <= device[1]


def _all_newer(entries: list[re.Match[str]], device: Capability) -> bool:
    """PTX is made for one of the architectures of the list, so where all are newer, none of it can help."""
    return bool(entries) and all((int(m[2]), int(m[3])) > device for m in entries)


def _best_ptx(entries: list[re.Match[str]], device: Capability) -> str | None:
    """The newest PTX that may be compiled for the device; `a` and `f` PTX is bound like the code of that name."""
    fits = [
        ((int(m[2]), int(m[3])), m[0])
        for m in entries
        if (_same_family((int(m[2]), int(m[3])), device, m[4]) if m[4] else (int(m[2]), int(m[3])) <= device)
    ]
    return max(fits)[1] if fits else None


def _judge_ptx(name: str, cc: str, build_cuda: str | None, driver_cuda: str | None) -> Coverage:
    if build_cuda is None or driver_cuda is None:
        missing = "the build's CUDA" if build_cuda is None else "the driver's CUDA"
        reason = f"only {name} (PTX) fits {cc}; the driver compiles it if it is as new as the build, but {missing}"
        return Coverage(kind="unknown", by=name, reason=f"{reason} is not known")
    if at_least(driver_cuda, build_cuda):
        reason = f"the driver (CUDA {driver_cuda}) compiles {name} for {cc} at the first use, which takes minutes"
        return Coverage(kind="ptx", by=name, reason=reason)
    reason = f"only {name} (PTX of CUDA {build_cuda}) fits {cc}, and the driver's compiler ends at CUDA {driver_cuda}"
    return Coverage(kind="ptx-driver-too-old", by=name, reason=reason)
