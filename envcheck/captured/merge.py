"""All readings of all texts -> one Facts: the better source wins, then the first; what disagrees is kept as a conflict."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from envcheck import facts as f
from envcheck.captured.document import LISTED, Draft, Value
from envcheck.redact import redact
from envcheck.symptoms.engine import shorten

_SECTIONS: dict[str, type[f.Struct]] = {
    "system": f.System,
    "nvidia": f.Nvidia,
    "amd": f.Amd,
    "intel": f.Intel,
    "apple": f.Apple,
    "toolchain": f.Toolchain,
    "python": f.PythonEnv,
    "torch": f.Torch,
}
_COMPARED = (
    "torch.version", "torch.cuda", "python.version", "nvidia.driver_version", "nvidia.driver_cuda", "system.os", "python.bits", "torch.cuda_available",
    "nvidia.kernel_driver_version", "system.libc_version", "system.machine",
)  # fmt: skip
"""Fields whose readings are compared; a disagreement about the others is noise."""
_REFINED = (
    "python.version",
    "system.version",
    "system.name",
    "apple.macos",
    "toolchain.nvcc_version",
    "system.libc_version",
    "amd.rocm_version",
    "torch.version",
)
"""Fields of which a later reading may be the same, said more exactly: "3.11" and "3.11.7"."""
MAX_EVIDENCE = 400


def merge(drafts: Iterable[Draft], symptoms: tuple[f.Symptom, ...]) -> f.Facts:
    """One Facts from the drafts of all texts, in their order."""
    values: dict[str, list[Value]] = {}
    lists: dict[str, list[Value]] = {}
    for draft in drafts:
        for name, found in draft.values.items():
            values.setdefault(name, []).extend(found)
        for name, found in draft.lists.items():
            lists.setdefault(name, []).extend(found)
    chosen = {name: _choose(name, found) for name, found in values.items()}
    _settle(chosen, values)
    sections: dict[str, dict[str, Any]] = {name: {} for name in _SECTIONS}
    evidence: list[f.Evidence] = []
    for name, value in chosen.items():
        section, _, field = name.partition(".")
        if section in sections and field in _SECTIONS[section].__struct_fields__:
            sections[section][field] = value.value
            evidence.append(_evidence(name, value))
    distributions = _distributions(lists.get("distributions", []))
    _put_lists(sections, lists, evidence, chosen)
    if distributions:
        sections["python"]["distributions"] = tuple(v.value for v in distributions)
        sections["python"].setdefault("distributions_partial", True)
        evidence.extend(_evidence(f"distribution.{v.value.name}", v) for v in distributions)
    companions = _companions(chosen)
    if companions:
        sections["torch"]["companions"] = companions
    return f.Facts(
        origin="captured",
        pci=_tuple(lists.get("pci")),
        env=_env(lists.get("env")),
        kernel_events=_tuple(lists.get("kernel_events")),
        symptoms=symptoms,
        evidence=tuple(evidence[:MAX_EVIDENCE]),
        conflicts=_conflicts(values, chosen, distributions, lists.get("removed", [])),
        requested=tuple(dict.fromkeys(v.value for v in lists.get("requested", []))),
        commands=tuple(dict.fromkeys(v.value for v in lists.get("commands", []))),
        system=f.System(**sections["system"]),
        nvidia=f.Nvidia(**sections["nvidia"]),
        amd=f.Amd(**sections["amd"]),
        intel=f.Intel(**sections["intel"]),
        apple=f.Apple(**sections["apple"]),
        toolchain=f.Toolchain(**sections["toolchain"]),
        python=f.PythonEnv(**sections["python"]),
        torch=f.Torch(**sections["torch"]),
    )


def _choose(name: str, found: list[Value]) -> Value:
    """The best rank, then the first; a reading that says the same more exactly is preferred."""
    best = max(found, key=lambda v: v.rank)
    if name not in _REFINED:
        return best
    for other in found:
        longer = isinstance(other.value, str) and isinstance(best.value, str) and other.value != best.value
        if longer and other.rank >= best.rank - 1 and _extends(other.value, best.value):
            return other
    return best


def _extends(longer: str, shorter: str) -> bool:
    return longer.startswith(shorter) and longer[len(shorter) : len(shorter) + 1] in (".", "+", " ")


def _settle(chosen: dict[str, Value], values: dict[str, list[Value]]) -> None:
    """Readings that mean something only beside others."""
    known = "torch.version" in chosen
    for field in ("torch.cuda", "torch.hip"):
        said = chosen.pop(f"{field}?", None)
        if said is None or field in chosen or not known:
            continue
        if said.value == "":
            chosen[field] = _as(said, field)
        elif "torch.hip" in chosen:
            chosen[field] = _as(said, field, "")
    if "torch.cuda" not in chosen and "torch.hip" in chosen and chosen["torch.hip"].value:
        chosen["torch.cuda"] = _as(chosen["torch.hip"], "torch.cuda", "")
    if known and "torch.imports" in chosen and chosen["torch.imports"].rank == 0:
        del chosen["torch.imports"]  # another block of the report shows a torch that was imported
    wsl = chosen.get("system.wsl")
    if wsl is not None and wsl.value and chosen.get("system.os") is not None and chosen["system.os"].value == "windows":
        # The Windows around it was described too; what runs is Linux.
        chosen["system.os"] = _as(wsl, "system.os", "linux")
        for field in ("system.name", "system.version"):
            if field in chosen and re.match(r"Windows|10\.0", str(chosen[field].value)):
                other = next((v for v in values.get(field, []) if not re.match(r"Windows|10\.0", str(v.value))), None)
                if other is None:
                    del chosen[field]
                else:
                    chosen[field] = other
    _one_system(chosen, values)
    _libc(chosen)
    _rosetta(chosen)


def _as(value: Value, field: str, new: Any = None) -> Value:
    return Value(field, value.value if new is None else new, value.source, value.line, value.text, value.rank)


def _one_system(chosen: dict[str, Value], values: dict[str, list[Value]]) -> None:
    """Name, distribution and version have to belong to the operating system that was chosen."""
    os = chosen["system.os"].value if "system.os" in chosen else None
    if os in ("windows", "macos"):
        for field in ("system.distro", "system.libc", "system.libc_version", "system.kernel"):
            if field in chosen and not (field == "system.kernel" and os == "macos"):
                del chosen[field]
    name = chosen.get("system.name")
    if name is not None and os is not None:
        fits = {"windows": r"Windows", "macos": r"macOS|Mac|OS X|Darwin"}.get(os, r"(?!Windows|macOS)")
        if not re.match(fits, str(name.value)):
            other = next((v for v in values["system.name"] if re.match(fits, str(v.value))), None)
            if other is None:
                del chosen["system.name"]
            else:
                chosen["system.name"] = other
    machine = chosen.get("system.machine")
    if machine is not None:
        if os == "macos" and machine.value == "aarch64":
            chosen["system.machine"] = _as(machine, "system.machine", "arm64")
        elif os == "linux" and machine.value == "arm64":
            chosen["system.machine"] = _as(machine, "system.machine", "aarch64")
    if os is not None and os != "macos":
        for field in ("apple.macos", "apple.chip"):
            chosen.pop(field, None)


def _libc(chosen: dict[str, Value]) -> None:
    """Up to Python 3.8 `platform.platform()` names the glibc that the interpreter's file asks for, not the system's."""
    value = chosen.get("system.libc_version")
    if value is None or value.rank > 0:
        return
    python = chosen.get("python.version")
    minor = re.match(r"3\.(\d+)", str(python.value)) if python is not None else None
    if not (minor and int(minor[1]) >= 9) and value.value in ("2.2.5", "2.3.4", "2.5", "2.9", "2.10", "2.12", "2.17"):
        del chosen["system.libc_version"]


def _rosetta(chosen: dict[str, Value]) -> None:
    python, chip = chosen.get("python.machine"), chosen.get("apple.chip")
    system = chosen.get("system.machine")
    arm = chip is not None and str(chip.value).startswith("Apple M")
    if arm and system is not None and system.value == "x86_64":
        # What an x86_64 interpreter says of the machine under Rosetta.
        chosen.setdefault("python.machine", _as(system, "python.machine"))
        python = chosen["python.machine"]
        chosen["system.machine"] = _as(system, "system.machine", "arm64")
        system = chosen["system.machine"]
    if python is not None and python.value == "x86_64" and (arm or (system is not None and system.value == "arm64")):
        chosen.setdefault("system.rosetta", _as(python, "system.rosetta", True))


# --- lists -----------------------------------------------------------------------------------------------------------


def _tuple(found: list[Value] | None) -> Any:
    return tuple(v.value for v in found) if found else None


def _put_lists(
    sections: dict[str, dict[str, Any]],
    lists: dict[str, list[Value]],
    evidence: list[f.Evidence],
    chosen: dict[str, Value],
) -> None:
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
        evidence.append(_evidence(name, found[0]))


def _evidence(name: str, value: Value) -> f.Evidence:
    text = shorten(redact(value.text.strip()), 200) if value.text else None
    return f.Evidence(field=name, source=value.source, line=value.line, text=text)


def _env(found: list[Value] | None) -> tuple[f.EnvVar, ...] | None:
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
    for item in found:
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
    for item in sorted(found, key=lambda v: -v.rank):
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
    for item in found:
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


def _distributions(found: list[Value]) -> list[Value]:
    """Every installed copy once: the same name and version in pip's and in conda's list is one installation."""
    result: list[Value] = []
    for item in found:
        dist: f.Distribution = item.value
        twin = next((i for i, other in enumerate(result) if _same_copy(dist, other.value)), None)
        if twin is None:
            result.append(item)
            continue
        other = result[twin].value
        changes = {
            n: getattr(dist, n)
            for n in ("version", "build", "channel", "manager", "location", "site", "origin", "requires", "editable")
            if getattr(other, n) is None and getattr(dist, n) is not None
        }
        if changes:
            old = result[twin]
            result[twin] = Value(
                old.field, msgspec.structs.replace(other, **changes), old.source, old.line, old.text, old.rank
            )
    return result[:3000]


def _same_copy(one: f.Distribution, other: f.Distribution) -> bool:
    if one.name != other.name or (one.location and other.location and one.location.lower() != other.location.lower()):
        return False
    return one.version == other.version or one.version is None or other.version is None


def _companions(chosen: dict[str, Value]) -> tuple[f.Companion, ...]:
    value = chosen.get("companion.torchvision.cuda")
    return (f.Companion(name="torchvision", cuda=value.value),) if value is not None else ()


# --- conflicts ---------------------------------------------------------------------------------------------------------


def _conflicts(
    values: dict[str, list[Value]], chosen: dict[str, Value], distributions: list[Value], removed: list[Value]
) -> tuple[f.Conflict, ...]:
    result = []
    for name in _COMPARED:
        if name not in chosen or (name == "system.os" and "system.wsl" in chosen):
            continue
        readings = [chosen[name], *(v for v in values.get(name, []) if v.rank >= 1)]
        conflict = _conflict(name, readings)
        if conflict is not None:
            result.append(conflict)
    imported = chosen.get("torch.version")
    if imported is not None and imported.rank >= LISTED:
        listed = [v for v in [*distributions, *removed] if v.value.name == "torch" and v.value.version]
        readings = [imported, *(_as(v, "torch.version", v.value.version) for v in listed)]
        conflict = _conflict("torch.version", readings)
        if conflict is not None and not any(
            c.field == "torch.version" and set(conflict.values) <= set(c.values) for c in result
        ):
            result = [c for c in result if c.field != "torch.version"]
            result.append(conflict)
    return tuple(result)


def _conflict(name: str, readings: list[Value]) -> f.Conflict | None:
    kept: list[Value] = []
    for reading in readings:
        if all(_differs(str(reading.value), str(other.value)) for other in kept):
            kept.append(reading)
    if len(kept) < 2:
        return None
    return f.Conflict(
        field=name,
        values=tuple(str(v.value) for v in kept[:8]),
        lines=tuple(v.line for v in kept[:8] if v.line is not None),
    )


def _differs(one: str, other: str) -> bool:
    """Two readings that cannot both be true: "3.11" and "3.11.7" can, as can a version with and without its label."""
    if one == other or _extends(one, other) or _extends(other, one):
        return False
    base_one, _, label_one = one.partition("+")
    base_other, _, label_other = other.partition("+")
    if base_one != base_other:
        return not (_extends(base_one, base_other) or _extends(base_other, base_one))
    # A different commit of the same source build is no other version.
    variant = re.compile(r"cu\d|cpu|rocm|xpu")
    return bool(variant.match(label_one) and variant.match(label_other))
