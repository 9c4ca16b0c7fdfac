"""Lists that several tools give of the same things: GPUs, devices, packages, libraries; each thing once, completed."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from envcheck import facts as f
from envcheck.captured.document import Value
from envcheck.redact import redact
from envcheck.symptoms.engine import shorten

MAX_DISTRIBUTIONS = 5000
MAX_DEVICES = 400
"""Readings of GPUs that are compared with each other."""


def plain(found: list[Value] | None) -> Any:
    """The values alone, in order; None without any."""
    return tuple(v.value for v in found) if found else None


def put_lists(
    sections: dict[str, dict[str, Any]],
    lists: dict[str, list[Value]],
    evidence: list[f.Evidence],
    chosen: dict[str, Value],
) -> None:
    """Decides every list-valued field, and notes where the first item was read."""
    gpus = _nvidia_gpus(lists.get("nvidia.gpus", []), lists.get("mig", []), chosen)
    if gpus is not None:
        sections["nvidia"]["gpus"] = gpus
    elif "nvidia.gpus" in chosen:
        sections["nvidia"]["gpus"] = ()  # nvidia-smi itself says that there is none
    _note_first("nvidia.gpus", lists, evidence)
    amd = _amd_gpus(lists.get("amd.gpus", []))
    if amd:
        sections["amd"]["gpus"] = amd
        _note_first("amd.gpus", lists, evidence)
    intel = tuple(dict.fromkeys(str(v.value) for v in lists.get("intel.gpus", [])))
    if intel:
        sections["intel"]["gpus"] = intel
        _note_first("intel.gpus", lists, evidence)
    devices = _devices(lists.get("torch.devices", []), chosen)
    if devices:
        sections["torch"]["devices"] = devices
    plain = {
        "nvidia.driver_packages": ("nvidia", "driver_packages"),
        "nvidia.device_nodes": ("nvidia", "device_nodes"),
        "nvidia.libcuda": ("nvidia", "libcuda"),
        "toolchain.cuda_toolkits": ("toolchain", "cuda_toolkits"),
        "toolchain.cudnn_system": ("toolchain", "cudnn_system"),
        "torch.loaded_libraries": ("torch", "loaded_libraries"),
        "shadows": ("python", "shadows"),
    }
    for name, (section, field) in plain.items():
        unique = _unique(lists.get(name, []))
        if unique:
            sections[section][field] = unique
            _note_first(name, lists, evidence)
    nodes = tuple(_judged(node, chosen.get("amd.user_groups")) for node in _unique(lists.get("render_nodes", [])))
    if nodes:
        sections["amd"]["render_nodes"] = nodes
        sections["intel"]["render_nodes"] = nodes


def _judged(node: f.DeviceNode, groups: Value | None) -> f.DeviceNode:
    """What mode and group say about a user whose groups the text shows; an access list (+) may say otherwise."""
    if groups is None or node.mode is None or node.readable is not None or node.group is None:
        return node
    allowed = node.group in groups.value and node.mode[4:6] == "rw"
    return msgspec.structs.replace(node, readable=allowed, writable=allowed)


def _unique(found: list[Value]) -> tuple[Any, ...]:
    result: list[Any] = []
    for item in found:
        if item.value not in result and len(result) < 200:
            result.append(item.value)
    return tuple(result)


def _note_first(name: str, lists: dict[str, list[Value]], evidence: list[f.Evidence]) -> None:
    found = lists.get(name)
    if found:
        evidence.append(evidence_of(name, found[0]))


def evidence_of(name: str, value: Value) -> f.Evidence:
    """Where a value was read, its line redacted."""
    text = shorten(redact(value.text.strip()), 200) if value.text else None
    return f.Evidence(field=name, source=value.source, line=value.line, text=text)


def variables(found: list[Value] | None) -> tuple[f.EnvVar, ...] | None:
    """One value per variable, the first."""
    if not found:
        return None
    first: dict[str, f.EnvVar] = {}
    for item in found:
        first.setdefault(item.value.name, item.value)
    return tuple(first.values())


def _nvidia_gpus(found: list[Value], mig: list[Value], chosen: dict[str, Value]) -> tuple[f.NvidiaGpu, ...] | None:
    """One list of GPUs out of several: the best source's, completed by the others by index and by name."""
    if not found:
        return None
    groups: dict[tuple[int, str], list[f.NvidiaGpu]] = {}
    for item in found[:MAX_DEVICES]:
        groups.setdefault((item.rank, item.source), []).append(item.value)
    ordered = sorted(groups.items(), key=lambda pair: -pair[0][0])
    base = _dedupe(ordered[0][1])
    for _, others in ordered[1:]:
        base = _complete(base, _dedupe(others))
    slices: dict[int | None, list[str]] = {}
    for item in mig:
        slices.setdefault(item.value[0], []).append(item.value[1])
    result = []
    for gpu in base:
        changes: dict[str, Any] = {}
        if gpu.index in slices and not gpu.mig_instances:
            changes = {"mig": True, "mig_instances": tuple(slices[gpu.index])}
        if gpu.compute_capability is None and "gpu.capability" in chosen and len({g.name for g in base}) == 1:
            changes["compute_capability"] = chosen["gpu.capability"].value
        result.append(msgspec.structs.replace(gpu, **changes) if changes else gpu)
    return tuple(result[:64])


def _dedupe(gpus: list[f.NvidiaGpu]) -> list[f.NvidiaGpu]:
    """The same GPU named twice by one kind of source counts once, unless an index tells two apart."""
    result: list[f.NvidiaGpu] = []
    for gpu in gpus:
        twin = next((i for i, other in enumerate(result) if _same(gpu, other)), None)
        if twin is None:
            result.append(gpu)
        else:
            result[twin] = _filled(result[twin], gpu)
    return result


def _same(one: f.NvidiaGpu, other: f.NvidiaGpu) -> bool:
    if one.index is not None and other.index is not None:
        return one.index == other.index
    return _plain(one.name) == _plain(other.name)


def _plain(name: str | None) -> str:
    return re.sub(r"nvidia|geforce|\W", "", (name or "").lower())


def _complete(base: list[f.NvidiaGpu], others: list[f.NvidiaGpu]) -> list[f.NvidiaGpu]:
    result = list(base)
    for other in others:
        for position, gpu in enumerate(result):
            close = _plain(gpu.name).startswith(_plain(other.name)[:12]) or _plain(other.name).startswith(
                _plain(gpu.name)[:12]
            )
            if (
                gpu.index == other.index or len(result) == len(others) == 1 or gpu.index is None or other.index is None
            ) and (close or gpu.name is None):
                result[position] = _filled(gpu, other)
                break
        else:
            if all(not _same(other, gpu) for gpu in result) and other.index is not None and len(others) > len(base):
                result.append(other)
    return result


def _filled(gpu: f.NvidiaGpu, other: f.NvidiaGpu) -> f.NvidiaGpu:
    changes = {
        name: getattr(other, name)
        for name in gpu.__struct_fields__
        if getattr(gpu, name) is None and getattr(other, name) is not None
    }
    if gpu.name and other.name and gpu.name.endswith("...") and other.name.startswith(gpu.name.rstrip(". ")):
        changes["name"] = other.name  # old screens cut long names
    return msgspec.structs.replace(gpu, **changes) if changes else gpu


def _amd_gpus(found: list[Value]) -> tuple[f.AmdGpu, ...]:
    """Names and gfx numbers of different tools belong together when there is one of each."""
    unique: list[f.AmdGpu] = []
    for item in sorted(found[:MAX_DEVICES], key=lambda v: -v.rank):
        if item.value not in unique:
            unique.append(item.value)
    real = [g for g in unique if g.name or g.gfx]
    unique = real or unique[:1]
    named = [g for g in unique if g.name and not g.gfx]
    bare = [g for g in unique if g.gfx and not g.name]
    if len(unique) == 2 and len(named) == len(bare) == 1:
        return (f.AmdGpu(name=named[0].name, gfx=bare[0].gfx, memory_total=named[0].memory_total),)
    both = [g for g in unique if g.gfx and g.name]
    if both:
        unique = [g for g in unique if (g.gfx and g.name) or (g.gfx and all(g.gfx != o.gfx for o in both))]
    return tuple(unique[:32])


def _devices(found: list[Value], chosen: dict[str, Value]) -> tuple[f.TorchDevice, ...]:
    result: list[f.TorchDevice] = []
    capability = chosen.get("gpu.capability")
    for item in found[:MAX_DEVICES]:
        device: f.TorchDevice = item.value
        if any(
            other.kind == device.kind and other.name == device.name and other.index in (device.index, None)
            for other in result
        ):
            continue
        if device.kind == "cuda" and device.compute_capability is None and capability is not None and len(found) == 1:
            device = msgspec.structs.replace(device, compute_capability=capability.value)
        result.append(device)
    return tuple(result[:64])


def distributions(found: list[Value]) -> list[Value]:
    """Every installed copy once: the same name and version in pip's and in conda's list is one installation."""
    result: list[Value] = []
    places: dict[str, list[int]] = {}
    for item in found:
        dist: f.Distribution = item.value
        same_name = places.setdefault(dist.name, [])
        twin = next((i for i in same_name[:20] if _same_copy(dist, result[i].value)), None)
        if twin is not None:
            result[twin] = _completed(result[twin], dist)
        elif len(result) < MAX_DISTRIBUTIONS:
            same_name.append(len(result))
            result.append(item)
    return result


def _completed(item: Value, other: f.Distribution) -> Value:
    """The distribution of `item` with what only the other list says of it."""
    mine: f.Distribution = item.value
    fields = ("version", "build", "channel", "manager", "location", "site", "origin", "requires", "editable")
    changes = {n: getattr(other, n) for n in fields if getattr(mine, n) is None and getattr(other, n) is not None}
    if not changes:
        return item
    return Value(item.field, msgspec.structs.replace(mine, **changes), item.source, item.line, item.text, item.rank)


def _same_copy(one: f.Distribution, other: f.Distribution) -> bool:
    if one.name != other.name or (one.location and other.location and one.location.lower() != other.location.lower()):
        return False
    return one.version == other.version or one.version is None or other.version is None


def companions(chosen: dict[str, Value]) -> tuple[f.Companion, ...]:
    value = chosen.get("companion.torchvision.cuda")
    return (f.Companion(name="torchvision", cuda=value.value),) if value is not None else ()
