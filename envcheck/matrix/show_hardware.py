"""The tables of `envcheck matrix` about drivers, CUDA, GPUs, companions, ROCm, Jetson and conda."""

from __future__ import annotations

from typing import Any

from envcheck.errors import UsageError
from envcheck.matrix.query import Matrix
from envcheck.matrix.show import Table, cuda_name, mark, release_or_error
from envcheck.matrix.versions import cuda_of_variant, key, numbers, short, variant_of_cuda

PACKAGES = ("torchvision", "torchaudio", "triton")


def drivers_for_cuda(matrix: Matrix, cuda: str) -> Table:
    """Which driver a build of one CUDA needs, per system."""
    cuda = cuda_name(cuda)
    rows = []
    for os in ("linux", "windows"):
        floor = matrix.driver_floor(cuda, os)
        if floor is None:
            continue
        family = matrix.tables.floors.get((numbers(cuda)[0], os))
        rows.append(
            {
                "os": os,
                "driver": floor,
                "may_work_from": (family.warn_from if family and family.driver == floor else None) or "",
                "with_toolkit": matrix.toolkit_driver(cuda, os) or "",
            }
        )
    if not rows:
        known = ", ".join(dict.fromkeys(t.cuda for t in matrix.tables.toolkits))
        raise UsageError(f"the tables have no CUDA {cuda}; known: {known}")
    return Table(
        title=f"Driver for a build of CUDA {short(cuda)} ({variant_of_cuda(cuda)})",
        columns=(
            ("os", "system"),
            ("driver", "lowest driver"),
            ("may_work_from", "may work from"),
            ("with_toolkit", "came with the toolkit"),
        ),
        rows=tuple(rows),
        notes=("WSL: the Windows number counts.", "PTX code needs a driver as new as the toolkit, not the lowest one."),
    )


def driver(matrix: Matrix, number: str, os: str) -> Table:
    """What one driver is and which builds it runs."""
    cuda, branch = matrix.driver_cuda(number, os), matrix.driver_branch(number, os)
    if not numbers(number):
        raise UsageError(f"'{number}' is not a driver number such as 535.183.01")
    names = {v.name for place in matrix.tables.variants.values() for v in place.values() if v.cuda}
    runs: dict[str, list[str]] = {"yes": [], "doubtful": [], "no": []}
    for name in sorted(names, key=lambda n: key(cuda_of_variant(n) or "")):
        runs[matrix.driver_runs(number, cuda_of_variant(name) or "", os) or "no"].append(name)
    facts = {
        "branch": str(branch) if branch else "not in the tables",
        "CUDA that nvidia-smi shows": cuda or "not in the tables",
        "runs builds": " ".join(runs["yes"]) or "none",
        "may run": " ".join(runs["doubtful"]),
        "too old for": " ".join(runs["no"]),
    }
    rows = tuple({"fact": name, "value": value} for name, value in facts.items() if value)
    return Table(title=f"Driver {number} on {os}", columns=(("fact", ""), ("value", "")), rows=rows)


def branches(matrix: Matrix) -> Table:
    """All driver branches."""
    rows = tuple(
        {
            "branch": str(b.branch),
            "cuda": mark(b.cuda, recalled=b.confidence == "recalled"),
            "windows": "" if b.windows_from is None else f"{b.windows_from}-{b.windows_to}",
            "notes": b.notes,
        }
        for b in reversed(matrix.tables.branches)
    )
    columns = (("branch", "branch"), ("cuda", "CUDA"), ("windows", "Windows numbers"), ("notes", "notes"))
    return Table(title="Driver branches", columns=columns, rows=rows, notes=("* = from memory, not read in a source",))


def toolkits(matrix: Matrix, cuda: str | None) -> Table:
    """CUDA toolkits with their drivers and the torch releases built with them."""
    wanted = short(cuda_name(cuda)) if cuda else None
    rows: list[dict[str, Any]] = []
    for row in reversed(matrix.tables.toolkits):
        if wanted and row.cuda != wanted:
            continue
        rows.append(
            {
                "cuda": f"{row.cuda} {row.update}",
                "floor_linux": matrix.driver_floor(row.version or row.cuda, "linux") or "",
                "floor_windows": matrix.driver_floor(row.version or row.cuda, "windows") or "",
                "driver_linux": row.driver_linux or "",
                "driver_windows": row.driver_windows or "",
            }
        )
    if not rows:
        known = ", ".join(dict.fromkeys(t.cuda for t in matrix.tables.toolkits))
        raise UsageError(f"the tables have no CUDA {cuda}; known: {known}")
    notes = []
    if wanted:
        name = variant_of_cuda(wanted)
        versions = [r.version for r in matrix.releases if _has(matrix, r.version, name)]
        notes.append(f"{name}: " + (f"torch {' '.join(versions)}" if versions else "no torch release"))
    return Table(
        title="CUDA toolkits",
        columns=(
            ("cuda", "CUDA"),
            ("floor_linux", "driver >= (Linux)"),
            ("floor_windows", "driver >= (Windows)"),
            ("driver_linux", "shipped (Linux)"),
            ("driver_windows", "shipped (Windows)"),
        ),
        rows=tuple(rows),
        notes=tuple(notes),
    )


def _has(matrix: Matrix, version: str, variant: str) -> bool:
    return any(place[0] == version and variant in builds for place, builds in matrix.tables.variants.items())


def architectures(matrix: Matrix) -> Table:
    """All architectures."""
    rows = tuple(
        {
            "compute_capability": a.compute_capability,
            "architecture": a.name,
            "cuda": f"{a.first_cuda or '?'} to {a.last_cuda or 'now'}",
            "driver": _span(a.min_driver_branch, a.last_driver_branch),
            "open": a.open_kernel_modules,
            "notes": a.notes,
        }
        for a in sorted(matrix.tables.architectures.values(), key=lambda a: numbers(a.compute_capability))
    )
    heads = {"compute_capability": "cc", "cuda": "CUDA", "driver": "driver branches", "open": "open modules"}
    return Table(
        title="GPU architectures",
        columns=tuple((name, heads.get(name, name)) for name in rows[0]),
        rows=rows,
    )


def _span(first: int | None, last: int | None) -> str:
    if first and last:
        return f"{first} to {last}"
    return f"from {first}" if first else f"to {last}" if last else ""


def gpus(matrix: Matrix, name: str | None, compute_cap: str | None) -> Table:
    """One GPU by any spelling, or the boards of one compute capability."""
    rows = []
    if name:
        model = matrix.gpu(name)
        if model is None:
            amd = matrix.amd_gpu(name)
            if amd is not None:
                row = {
                    "name": amd.name,
                    "gfx": " or ".join(amd.candidates),
                    "kind": amd.kind or "",
                    "source": amd.source,
                }
                return Table(
                    title=name, columns=(("name", "AMD GPU"), ("gfx", "target"), ("kind", "kind")), rows=(row,)
                )
            near = matrix.names.near(name)
            raise UsageError(f"no GPU is known as '{name}'" + (f"; near: {', '.join(near)}" if near else ""))
        found = [model]
    else:
        named = (matrix.gpu(row["name"]) for row in matrix.names.rows.values())
        found = [m for m in named if m and (compute_cap is None or compute_cap in m.candidates)]
    for model in found:
        rows.append(
            {
                "name": model.name,
                "compute_capability": model.compute_capability or " or ".join(model.candidates),
                "architecture": model.architecture or "",
                "segment": model.segment or "",
                "driver": _span(model.min_driver_branch, model.last_driver_branch),
                "open": model.open_kernel_modules or "",
                "exact": model.exact,
                "confidence": model.confidence,
                "source": model.source,
            }
        )
    if not rows:
        raise UsageError(f"no board in the tables has compute capability {compute_cap}")
    columns = (
        ("name", "GPU"),
        ("compute_capability", "cc"),
        ("architecture", "architecture"),
        ("segment", "kind"),
        ("driver", "driver branches"),
        ("open", "open modules"),
    )
    note = () if not name or rows[0]["exact"] else ("told by a rule or the chip, not by this very name",)
    return Table(title="GPUs", columns=columns, rows=tuple(rows), notes=note)


def companions(matrix: Matrix, torch: str | None, package: str | None, version: str | None) -> Table:
    """What goes beside a torch, or the torch of a companion."""
    if package and version:
        found = matrix.torch_for_companion(package, version)
        if found is None:
            known = ", ".join(list(matrix.tables.pins[package])[-5:])
            raise UsageError(f"the tables have no {package} {version}; the newest are: {known}")
        row = {"package": f"{package} {version}", "torch": found}
        row["requires"] = matrix.companion_requires(package, version) or "declares nothing"
        heads = (("package", "package"), ("torch", "belongs to torch"), ("requires", "its metadata says"))
        return Table(title=f"{package} {version}", columns=heads, rows=(row,))
    releases = [release_or_error(matrix, torch)] if torch else list(reversed(matrix.releases))
    rows = []
    for release in releases:
        beside = matrix.companions(release.version)
        entry = {"torch": release.version, **{name: beside[name].version or "" for name in PACKAGES}}
        rows.append({**entry, "triton_windows": matrix.triton_windows(release.version) or ""})
    names = ("torch", *PACKAGES)
    columns = (*((n, n) for n in names), ("triton_windows", "triton-windows"))
    return Table(title="What belongs together", columns=columns, rows=tuple(rows))


def rocm(matrix: Matrix, target: str | None) -> Table:
    """What the ROCm builds hold code for; with a target or an AMD name, the builds that have it."""
    wanted: tuple[str, ...] = ()
    if target:
        model = matrix.amd_gpu(target)
        if model is None:
            raise UsageError(f"no AMD GPU is known as '{target}'; a target such as gfx1100 is understood as well")
        wanted = model.candidates
    rows = []
    for row in reversed(matrix.tables.rocm_archs):
        if wanted and not any(gfx in row.gfx for gfx in wanted):
            continue
        span = row.torch_from if row.torch_to == row.torch_from else f"{row.torch_from} to {row.torch_to or 'now'}"
        version = row.rocm_from if row.rocm_to == row.rocm_from else f"{row.rocm_from} to {row.rocm_to}"
        rows.append({"torch": span, "rocm": version, "gfx": " ".join(g.removeprefix("gfx") for g in row.gfx)})
    notes = []
    if wanted:
        arch = matrix.amd_arch(wanted[0])
        notes.append(f"{target} = {' or '.join(wanted)}" + (f" ({arch.family})" if arch else ""))
        if arch and arch.override:
            notes.append(f"people also set HSA_OVERRIDE_GFX_VERSION={arch.override}; AMD does not support that")
        if not rows:
            notes.append("no ROCm build in the tables has code for it")
    columns = (("torch", "torch"), ("rocm", "ROCm"), ("gfx", "gfx targets"))
    return Table(title="ROCm builds (Linux x86_64)", columns=columns, rows=tuple(rows), notes=tuple(notes))


def jetpacks(matrix: Matrix, l4t: str | None) -> Table:
    """JetPack releases, or that of one L4T number."""
    rows = list(reversed(matrix.tables.jetpacks))
    if l4t:
        one = matrix.jetpack(l4t)
        if one is None:
            raise UsageError(f"the tables have no JetPack for L4T {l4t}; known majors: 32, 34, 35, 36, 38, 39")
        rows = [one]
    shown = tuple(
        {
            "jetpack": mark(j.version, recalled=j.confidence == "recalled"),
            "l4t": j.l4t,
            "cuda": j.cuda or "",
            "python": j.python or "",
            "devices": " ".join(j.devices),
            "torch": j.torch,
        }
        for j in rows
    )
    columns = (("jetpack", "JetPack"), ("l4t", "L4T"), ("cuda", "CUDA"), ("python", "Python"), ("devices", "devices"))
    return Table(title="JetPack", columns=(*columns, ("torch", "torch from")), rows=shown)


def conda(matrix: Matrix, channel: str | None, version: str | None) -> Table:
    """Builds on conda channels."""
    found = matrix.conda(channel=channel, version=version)
    if version and not found:
        raise UsageError(f"the tables have no conda build of pytorch {version}")
    rows = tuple(
        {
            "channel": b.channel,
            "release": b.release,
            "cuda": b.cuda or "cpu",
            "platforms": " ".join(b.platforms),
            "confidence": b.confidence,
        }
        for b in sorted(found, key=lambda b: (numbers(b.release), numbers(b.cuda)), reverse=True)
    )
    names = ("channel", "release", "cuda", "platforms")
    return Table(title="conda builds of pytorch", columns=tuple((n, n) for n in names), rows=rows)


def known_bad(matrix: Matrix) -> Table:
    """Versions that are known not to work."""
    rows = tuple(
        {
            "what": f"{b.package} {b.versions}",
            "with": " ".join(w for w in (f"torch{b.torch}" if b.torch else "", *b.os) if w)
            + (f" Python {b.python}" if b.python else ""),
            "why": b.why,
            "fix": b.fix,
        }
        for b in matrix.tables.known_bad
    )
    names = ("what", "with", "why", "fix")
    return Table(title="Known not to work", columns=tuple((n, n) for n in names), rows=rows)
