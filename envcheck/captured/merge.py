"""All readings of all texts -> one Facts: the better source wins, then the first; what disagrees is kept as a conflict."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from envcheck import facts as f
from envcheck.captured import merge_lists
from envcheck.captured.document import LISTED, Draft, Value
from envcheck.captured.settle import renamed, settle

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
    settle(chosen, values)
    sections: dict[str, dict[str, Any]] = {name: {} for name in _SECTIONS}
    evidence: list[f.Evidence] = []
    for name, value in chosen.items():
        section, _, field = name.partition(".")
        if section in sections and field in _SECTIONS[section].__struct_fields__:
            sections[section][field] = value.value
            evidence.append(merge_lists.evidence_of(name, value))
    distributions = merge_lists.distributions(lists.get("distributions", []))
    merge_lists.put_lists(sections, lists, evidence, chosen)
    if distributions:
        sections["python"]["distributions"] = tuple(v.value for v in distributions)
        sections["python"].setdefault("distributions_partial", True)
        evidence.extend(merge_lists.evidence_of(f"distribution.{v.value.name}", v) for v in distributions)
    companions = merge_lists.companions(chosen)
    if companions:
        sections["torch"]["companions"] = companions
    return f.Facts(
        origin="captured",
        pci=merge_lists.plain(lists.get("pci")),
        env=merge_lists.variables(lists.get("env")),
        kernel_events=merge_lists.plain(lists.get("kernel_events")),
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
        readings = [imported, *(renamed(v, "torch.version", v.value.version) for v in listed)]
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
