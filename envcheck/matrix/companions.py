"""torchvision, torchaudio and triton beside torch."""

from __future__ import annotations

import re
from collections.abc import Callable

from envcheck.matrix.rows import Companion, Pin, Release
from envcheck.matrix.tables import Tables
from envcheck.matrix.versions import final, numbers


def contains(specifier: str, version: str) -> bool:
    """Whether a specifier admits a version; a local label in a pin ("==1.10.0+cu102") counts as the public version."""
    from packaging.specifiers import SpecifierSet  # not at import: it costs more than all the tables

    return SpecifierSet(re.sub(r"\+[\w.]+", "", specifier)).contains(version, prereleases=True)


def pin(tables: Tables, package: str, version: str) -> Pin | None:
    """The row of that published version."""
    public = final(version)
    return tables.pins.get(package, {}).get(public) if public else None


def for_release(tables: Tables, release: Release) -> dict[str, Companion]:
    """The companions of one release."""
    found = {}
    for package, version in (("torchvision", release.torchvision), ("torchaudio", release.torchaudio)):
        found[package] = Companion(
            package=package, torch=release.version, version=version, check=_pinned(tables, package, release, version)
        )
    wants = [r for r in tables.requirements.get((release.version, "linux", "x86_64"), ()) if r.package == "triton"]
    specifier = wants[0].specifier if wants else None
    newest = [v for v in tables.pins["triton"] if specifier and contains(specifier, v)]
    found["triton"] = Companion(
        package="triton",
        torch=release.version,
        version=newest[-1] if newest else release.triton_linux if wants else None,
        specifier=specifier,
        check=lambda version: contains(specifier, version) if specifier else None,
    )
    return found


def _pinned(tables: Tables, package: str, release: Release, recommended: str | None) -> Callable[[str], bool | None]:
    def check(version: str) -> bool | None:
        if version == recommended:
            return True
        row = tables.pins[package].get(version)
        wanted = (row.fits_torch or row.requires_torch) if row else None
        return contains(wanted, release.version) if wanted else None

    return check


def torch_for(tables: Tables, package: str, version: str) -> str | None:
    """The torch that a companion's version belongs to: its exact pin, else the newest release it is meant for."""
    row = pin(tables, package, version)
    public = final(version)
    exact = re.fullmatch(r"==([\d.]+)(\+\w+)?", row.requires_torch) if row and row.requires_torch else None
    if exact:
        return exact[1]
    for release in sorted(tables.releases, key=lambda r: numbers(r.version), reverse=True):
        if public in (release.torchvision, release.torchaudio) and getattr(release, package, None) == public:
            return release.version
        if package == "triton" and release.triton_linux and public:
            specifier = release.triton_linux if release.triton_linux[0] in "~<>=!" else f"=={release.triton_linux}"
            if contains(specifier, public):
                return release.version
    return None
