"""The stages about packages -> distributions: pip's metadata, conda's records and the check of files brought together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from envcheck.facts import Distribution


def distributions(packages: Mapping[str, Any], files: Mapping[str, Any]) -> tuple[Distribution, ...] | None:
    """Distributions in import order, then what conda alone knows; None when the stage did not answer."""
    listed = packages.get("distributions")
    if not isinstance(listed, list):
        return None
    checked = {(item["location"], item["metadata"]): item for item in files.get("packages") or ()}
    conda = {item["name"]: item for item in packages.get("conda") or ()}
    found = [_pip(item, checked.get((item["location"], item["metadata"])), conda) for item in listed]
    described = {d.name for d in found if d.build is not None}
    found += [_conda(item) for name, item in conda.items() if name not in described]
    return tuple(found)


def _pip(item: Mapping[str, Any], check: Mapping[str, Any] | None, conda: Mapping[str, Any]) -> Distribution:
    """One dist-info; a conda package leaves one too, and is then one distribution, not two."""
    record = conda.get(item["name"])
    if record is not None and item.get("manager") not in ("conda", None):
        record = None  # pip has put its own copy over conda's
    return Distribution(
        name=item["name"],
        version=item.get("version"),
        build=record.get("build") if record else None,
        channel=record.get("channel") if record else None,
        manager="conda" if record else _manager(item),
        location=item.get("location"),
        site=item.get("site"),
        editable=item.get("editable"),
        origin=item.get("origin"),
        requires=tuple(item["requires"]) if "requires" in item else None,
        files_missing=_files(check, "missing"),
        files_changed=_files(check, "changed"),
    )


def _manager(item: Mapping[str, Any]) -> str | None:
    words = str(item.get("manager") or "").split()
    if words:
        return words[0]  # "poetry 1.8.3" -> "poetry"
    location = str(item.get("location") or "").replace("\\", "/")
    return "system" if location.startswith("/usr/lib/") and location.endswith("dist-packages") else None


def _files(check: Mapping[str, Any] | None, name: str) -> tuple[str, ...] | None:
    """What is missing or changed; () only when all files were looked at."""
    if check is None:
        return None
    named = tuple(str(path) for path in check.get(name) or ())
    return named if named or check.get("checked") == check.get("total") else None


def _conda(item: Mapping[str, Any]) -> Distribution:
    return Distribution(
        name=item["name"],
        version=item.get("version"),
        build=item.get("build"),
        channel=item.get("channel"),
        manager="conda",
        site="env",
    )


def wheel_version(packages: Iterable[Distribution], name: str, parts: int) -> str | None:
    """Version of "nvidia-cudnn-cu12" and the like, cut to so many parts; None when two of them differ."""
    versions = {
        ".".join((d.version or "").split(".")[:parts])
        for d in packages
        if d.name.removesuffix("-cu11").removesuffix("-cu12").removesuffix("-cu13") == name and d.version
    }
    return versions.pop() if len(versions) == 1 else None
