"""Several answers about the same GPUs as one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from envcheck.facts import NvidiaGpu
from envcheck.nvidia_smi.units import bus_id


def merge_gpus(*answers: Iterable[NvidiaGpu] | None) -> tuple[NvidiaGpu, ...] | None:
    """The GPUs of several answers, each once, in the order of their index; None when no answer says anything.

    GPUs are the same when their bus addresses are, else when their indices are. Where two answers differ, the earlier
    one is believed, except for a name that nvidia-smi cut off ("NVIDIA GeForce ...") and for MIG instances that the
    earlier one could only tell by their memory.
    """
    known = [list(answer) for answer in answers if answer is not None]
    if not known:
        return None
    merged: list[NvidiaGpu] = []
    for answer in known:
        for gpu in answer:
            place = _place(merged, gpu)
            if place is None:
                merged.append(gpu)
            else:
                merged[place] = _combine(merged[place], gpu)
    return tuple(sorted(merged, key=lambda gpu: (gpu.index is None, gpu.index or 0)))


def _place(merged: list[NvidiaGpu], gpu: NvidiaGpu) -> int | None:
    address = bus_id(gpu.bus_id)
    for place, other in enumerate(merged):
        theirs = bus_id(other.bus_id)
        if address and theirs:
            if address == theirs:
                return place
        elif gpu.index is not None and gpu.index == other.index:
            return place
    return None


def _combine(first: NvidiaGpu, second: NvidiaGpu) -> NvidiaGpu:
    values: dict[str, Any] = {}
    for name in first.__struct_fields__:
        mine, theirs = getattr(first, name), getattr(second, name)
        if mine is None:
            values[name] = theirs
    if _cut(first.name) and second.name and not _cut(second.name):
        values["name"] = second.name
    if _profiles(second.mig_instances) and not _profiles(first.mig_instances):
        values["mig_instances"] = second.mig_instances
    return msgspec.structs.replace(first, **values)


def _cut(name: str | None) -> bool:
    return bool(name) and str(name).endswith("...")


def _profiles(instances: tuple[str, ...] | None) -> bool:
    return bool(instances) and all("g." in item for item in instances or ())
