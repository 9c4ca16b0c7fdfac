"""What `envcheck matrix` shows, as plain tables: a command line renders them, or writes them as JSON."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import msgspec

from envcheck.errors import UsageError
from envcheck.matrix.choose import Fit, driver_and_gpu, fits
from envcheck.matrix.query import Matrix
from envcheck.matrix.rows import Release, Variant
from envcheck.matrix.versions import cuda_of_variant, numbers

HIDDEN = "! = on the wheel index, not on the install page"
UNSURE = "? = not confirmed, or not known whether the code is there"
RECALLED = "* = from memory, not read in a source"


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """A heading, columns (key of the row, heading), rows, and remarks below."""

    title: str
    columns: tuple[tuple[str, str], ...]
    rows: tuple[dict[str, Any], ...]
    notes: tuple[str, ...] = ()


def release_or_error(matrix: Matrix, version: str) -> Release:
    """The release, or one line that names the near ones."""
    found = matrix.release(version)
    if found is None:
        newer = " (newer than these tables)" if matrix.is_newer_than_tables(version) else ""
        near = ", ".join(matrix.near(version))
        raise UsageError(f"the tables have no torch {version}{newer}; near: {near}")
    return found


def capability_or_error(matrix: Matrix, gpu: str | None, compute_cap: str | None) -> str | None:
    """The compute capability that was asked for, by number or by name."""
    if compute_cap is not None:
        if matrix.architecture(compute_cap) is None:
            known = ", ".join(sorted(matrix.tables.architectures, key=float))
            raise UsageError(f"no architecture has compute capability {compute_cap}; known: {known}")
        return compute_cap
    if gpu is None:
        return None
    model = matrix.gpu(gpu)
    if model is None and matrix.amd_gpu(gpu) is not None:
        raise UsageError(f"'{gpu}' is an AMD GPU: ask envcheck matrix rocm '{gpu}'")
    if model is None:
        near = "; near: " + ", ".join(matrix.names.near(gpu)) if matrix.names.near(gpu) else ""
        raise UsageError(f"no NVIDIA GPU is known as '{gpu}'{near}; --compute-cap says it in numbers")
    if model.compute_capability is None:
        several = ", ".join(model.candidates)
        raise UsageError(f"'{gpu}' stands for several chips ({several}): say which with --compute-cap")
    return model.compute_capability


def mark(name: str, *, unconfirmed: bool = False, hidden: bool = False, recalled: bool = False) -> str:
    """A name with its doubts."""
    return name + ("?" if unconfirmed else "") + ("!" if hidden else "") + ("*" if recalled else "")


def _variant_mark(variant: Variant) -> str:
    return mark(
        variant.name,
        unconfirmed=variant.status == "unconfirmed",
        hidden=variant.status == "index-only",
        recalled=variant.confidence == "recalled",
    )


def _marks(rows: tuple[dict[str, Any], ...]) -> tuple[str, ...]:
    text = " ".join(str(value) for row in rows for value in row.values())
    return tuple(note for sign, note in (("!", HIDDEN), ("?", UNSURE), ("*", RECALLED)) if sign in text)


def releases(matrix: Matrix, os: str, machine: str) -> Table:
    """All releases with what exists for one platform, newest first."""
    rows = []
    for release in reversed(matrix.releases):
        pythons = [p for p in matrix.pythons(release.version, os, machine) if not p.endswith("t")]
        rows.append(
            {
                "release": release.version + ("+" if release.from_index else ""),
                "released": release.released,
                "python": f"{pythons[0]}-{pythons[-1]}" if pythons else "",
                "pypi": matrix.pypi_variant(release.version, os, machine) or "none",
                "builds": " ".join(_variant_mark(v) for v in matrix.variants(release.version, os, machine)),
                "torchvision": release.torchvision or "",
            }
        )
    columns = ("release", "released", "python", "pypi", "builds", "torchvision")
    return Table(
        title=f"torch for {os} {machine}",
        columns=tuple((c, {"pypi": "pip gives"}.get(c, c)) for c in columns),
        rows=tuple(rows),
        notes=(*_marks(tuple(rows)), *((f"+ = from the package index on {matrix.updated}",) if matrix.updated else ())),
    )


def release(matrix: Matrix, version: str) -> tuple[Table, Table]:
    """One release: its facts, and its builds on every platform."""
    found = release_or_error(matrix, version)
    companions = matrix.companions(found.version)
    facts = {
        "released": found.released,
        "torchvision": found.torchvision,
        "torchaudio": found.torchaudio,
        "triton (Linux)": companions["triton"].version,
        "triton-windows": matrix.triton_windows(found.version),
        "Python": " ".join(_pythons(matrix, found)),
        "torch.compile up to Python": found.compile_python_max,
        "cuDNN of the PyPI wheel": found.cudnn,
        "NCCL of the PyPI wheel": found.nccl,
        "NumPy 2": " ".join(os for os, works in found.numpy2.items() if works) or "no",
        "lowest glibc (x86_64, aarch64)": " ".join(v for v in (found.glibc_x86_64, found.glibc_aarch64) if v),
        "lowest macOS for MPS": found.mps_min_macos,
        "notes": found.notes,
    }
    rows = tuple({"fact": name, "value": value} for name, value in facts.items() if value)
    head = Table(title=f"torch {found.version}", columns=(("fact", ""), ("value", "")), rows=rows)
    return head, _builds(matrix, found)


def _pythons(matrix: Matrix, found: Release) -> list[str]:
    every = {p for place, w in matrix.tables.wheels.items() if place[0] == found.version for p in w.pythons}
    for (version, _, _), variants in matrix.tables.variants.items():
        if version == found.version:  # a release that is not on PyPI says it per build
            every |= {p for variant in variants.values() for p in variant.pythons or ()}
    return sorted(every, key=lambda p: (numbers(p), p.endswith("t")))


def _builds(matrix: Matrix, found: Release) -> Table:
    rows = []
    for (version, os, machine), variants in matrix.tables.variants.items():
        if version != found.version:
            continue
        for variant in variants.values():
            archs = matrix.arch_list(version, variant.name, os, machine)
            code = " ".join(name.removeprefix("sm_") for name in archs.names) if archs else ""
            rows.append(
                {
                    "platform": f"{os} {machine}",
                    "build": _variant_mark(variant),
                    "pip": "yes" if variant.on_pypi else "",
                    "driver": (matrix.driver_floor(variant.cuda, os) or "") if variant.cuda else "",
                    "gpu_code": code + (" (PTX?)" if archs and archs.ptx is None else ""),
                    "status": variant.status,
                    "index_url": variant.index_url,
                    "find_links": variant.find_links,
                }
            )
    order = {"linux": 0, "windows": 1, "macos": 2}
    rows.sort(key=lambda row: (order[str(row["platform"]).split(maxsplit=1)[0]], row["platform"] != "linux x86_64"))
    columns = (("platform", "platform"), ("build", "build"), ("pip", "plain pip"), ("driver", "driver >="))
    return Table(
        title=f"builds of torch {found.version}",
        columns=(*columns, ("gpu_code", "GPU code")),
        rows=tuple(rows),
        notes=(
            *_marks(tuple(rows)),
            _how(found.version, rows),
        ),
    )


def _how(version: str, rows: list[dict[str, Any]]) -> str:
    page = next((row["find_links"] for row in rows if row["find_links"]), None)
    if page:
        return f"pip install torch=={version}+BUILD -f {page}"
    url = next((str(row["index_url"]) for row in rows if row["index_url"]), "")
    return f"pip install torch=={version} --index-url {url.rpartition('/')[0]}/BUILD"


def suiting(
    matrix: Matrix,
    os: str,
    machine: str,
    *,
    cc: str | None,
    driver: str | None,
    driver_os: str | None,
    python: str | None,
    version: str | None,
) -> Table:
    """Releases with a CUDA build that suits a GPU, a driver and a Python."""
    wanted = release_or_error(matrix, version).version if version else None
    found = [
        fit
        for fit in fits(matrix, os, machine, compute_capability=cc, driver=driver, driver_os=driver_os, python=python)
        if wanted is None or fit.release.version == wanted
    ]
    rows = []
    for release_version, group in groupby(found, key=lambda fit: fit.release.version):
        members = list(group)
        rows.append(
            {
                "release": release_version,
                "released": members[0].release.released,
                "builds": " ".join(_fit_mark(fit) for fit in members),
                "by": " ".join(dict.fromkeys(fit.coverage.by for fit in members if fit.coverage and fit.coverage.by)),
                "pypi": matrix.pypi_variant(release_version, os, machine) or "none",
            }
        )
    why = driver_and_gpu(matrix, driver, driver_os or os, cc) if driver and cc else None
    asked = [f"compute capability {cc}" if cc else "", f"driver {driver}" if driver else ""]
    asked.append(f"Python {python}" if python else "")
    columns = [("release", "release"), ("released", "released"), ("builds", "CUDA builds that run")]
    return Table(
        title=f"torch on {os} {machine} for " + ", ".join(word for word in asked if word),
        columns=(*columns, *((("by", "by its code"),) if cc else ()), ("pypi", "pip gives")),
        rows=tuple(rows),
        notes=_marks(tuple(rows)) if rows else (why or "no release has such a build",),
    )


def _fit_mark(fit: Fit) -> str:
    name = _variant_mark(fit.variant)
    return name if fit.sure or "?" in name else name + "?"


def pythons(matrix: Matrix, python: str | None) -> Table:
    """Pythons of every release, or the releases that have wheels for one Python."""
    rows = []
    for found in reversed(matrix.releases):
        every = _pythons(matrix, found)
        if python and python not in every:
            continue
        if python:
            places = [
                f"{os}-{machine}"
                for (version, os, machine), wheel in matrix.tables.wheels.items()
                if version == found.version and python in wheel.pythons
            ]
            value = " ".join(places)
        else:
            value = " ".join(every)
        rows.append({"release": found.version, "value": value, "compile": found.compile_python_max or ""})
    if python and not rows:
        known = sorted({p for found in matrix.releases for p in _pythons(matrix, found)}, key=numbers)
        raise UsageError(f"no torch has wheels for Python {python}; known: {', '.join(known)}")
    return Table(
        title=f"torch with wheels for Python {python}" if python else "Pythons with a torch wheel on PyPI",
        columns=(
            ("release", "release"),
            ("value", "platforms" if python else "Pythons"),
            ("compile", "torch.compile up to"),
        ),
        rows=tuple(rows),
    )


def updated(matrix: Matrix, found: dict[str, list[dict[str, str]]], where: str) -> Table:
    """What an update of the tables brought."""
    wheels = found.get("torch_wheels.csv", [])
    rows = tuple(
        {
            "release": row["release"],
            "released": row["released"],
            "wheels": " ".join(
                f"{w['os']}-{w['machine']}:{w['variant']}" for w in wheels if w["release"] == row["release"]
            ),
            "torchvision": row["torchvision"],
        }
        for row in found.get("torch_releases.csv", [])
    )
    note = f"kept in {where}" if rows else f"nothing newer than torch {matrix.releases[-1].version}"
    names = ("release", "released", "wheels", "torchvision")
    return Table(
        title="Releases newer than these tables", columns=tuple((n, n) for n in names), rows=rows, notes=(note,)
    )


def cuda_name(value: str) -> str:
    """ "cu130" and "13.0" -> "13.0"."""
    return cuda_of_variant(value) or value
