"""From an AMD GPU's name to its gfx target. Names are shared and shortened freely, so candidates are common."""

from __future__ import annotations

import re

from envcheck.matrix.rows import AmdModel
from envcheck.matrix.tables import Tables
from envcheck.matrix.text import Row

_GFX = re.compile(r"\bgfx(\d{3,4}|90[ac])\b")
_NOISE = re.compile(
    r"advanced micro devices,? inc\.?|\[amd/ati\]|\b(amd|ati|graphics|series|oem|gpu|oam|pcie|accelerator)\b|"
    r"\((tm|r)\)|[™®]|\(rev [0-9a-f]+\)|(.*controller(?: \[\d+\])?: )"
)


def find(tables: Tables, name: str) -> AmdModel | None:
    """The target of an AMD GPU, None when the name is not in the table.

    lspci joins the boards of one chip: "Navi 22 [Radeon RX 6700/6700 XT/6750 XT / 6800M]" is one target all the same.
    """
    text = name.lower()
    said = _GFX.search(text)
    if said:
        return _model(name, (said[0],), kind=None, exact=True, source="the name itself", confidence="read")
    plain = re.sub(r"\s+", " ", _NOISE.sub(" ", text)).strip()
    rows = tables.amd_names
    spelled = _board(plain)
    short = _squeezed(spelled)
    for row in (rows.get(plain), rows.get(spelled), *(_by_squeezed(rows, s) for s in (short, f"rx{short}"))):
        if row is not None:
            return _model(
                name,
                tuple(row["gfx"].split()),
                kind=row["kind"],
                exact=True,
                source=row["source"],
                confidence=row["confidence"],
            )
    chip = _by_chip(tables, plain) or _by_parts(tables, spelled)
    if not chip:
        return None
    return _model(
        name, chip, kind=None, exact=False, source="amd_gpus.csv by chip or part of the name", confidence="derived"
    )


def _squeezed(text: str) -> str:
    """A name without blanks and brand words: "Radeon RX 7900 XTX" -> "rx7900xtx"."""
    return re.sub(r"[^a-z0-9]", "", re.sub(r"\b(radeon|instinct)\b", "", text))


def _by_squeezed(rows: dict[str, Row], short: str) -> Row | None:
    return next((row for name, row in rows.items() if _squeezed(name) == short), None) if short else None


def _board(text: str) -> str:
    """The words in the last brackets, else the text."""
    inner = re.search(r"\[([^\]]+)\]\s*$", text)
    return re.sub(r"\s+", " ", inner[1]).strip() if inner else text


def _by_chip(tables: Tables, text: str) -> tuple[str, ...]:
    """Targets of the chip whose code name stands in the text: "navi 22", "ellesmere", "strix halo"."""
    found: set[str] = set()
    for row in tables.amd_names.values():
        for chip in _chips(row["chips"].lower()):
            if re.search(rf"\b{re.escape(chip)}\b", text):
                found.update(row["gfx"].split())
    return tuple(sorted(found))


def _chips(cell: str) -> list[str]:
    """Code names in a cell: two words where the second is a number or completes a name, else one word each."""
    return re.findall(
        r"(?:navi|vega) \d+|strix (?:point|halo)|krackan point|hawk point|aqua vanjaram|van gogh|\w+", cell
    )


def _by_parts(tables: Tables, board: str) -> tuple[str, ...]:
    """Targets of the boards that a joined name lists: "radeon rx 7900 xt/7900 xtx/7900m"."""
    found: set[str] = set()
    head = re.match(r"(radeon (?:rx |pro |ai pro )?|instinct )", board)
    for part in re.split(r"\s*/\s*", board):
        for candidate in (part, f"{head[1]}{part}" if head else part, f"radeon {part}", f"radeon rx {part}"):
            row = tables.amd_names.get(candidate)
            if row is not None:
                found.update(row["gfx"].split())
                break
    return tuple(sorted(found))


def _model(name: str, gfx: tuple[str, ...], *, kind: str | None, exact: bool, source: str, confidence: str) -> AmdModel:
    return AmdModel(
        name=name,
        gfx=gfx[0] if len(gfx) == 1 else None,
        candidates=gfx,
        kind=kind,
        exact=exact,
        source=source,
        confidence=confidence,
    )
