"""The user's cache of newer releases: rows in the columns of the shipped tables, never over a shipped row."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from envcheck.matrix.tables import Tables
from envcheck.matrix.versions import numbers

SCHEMA = 1
Rows = dict[str, list[dict[str, str]]]
"""Table -> rows."""


def path() -> Path:
    """The file in the user's cache directory."""
    home = Path(os.path.expanduser("~"))
    if sys.platform == "win32":
        root = Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local") / "envcheck" / "Cache"
    elif sys.platform == "darwin":
        root = home / "Library" / "Caches" / "envcheck"
    else:
        root = Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache") / "envcheck"
    return root / "matrix.json"


def read() -> tuple[Rows, str | None]:
    """The cached rows and their date; ({}, None) when there is none or it cannot be used."""
    try:
        document: Any = json.loads(path().read_bytes())
    except (OSError, ValueError):
        return {}, None
    if (
        not isinstance(document, dict)
        or document.get("schema") != SCHEMA
        or not isinstance(document.get("tables"), dict)
    ):
        return {}, None
    tables: Rows = {}
    for file, rows in document["tables"].items():
        if isinstance(rows, list):
            tables[str(file)] = [{str(k): str(v) for k, v in row.items()} for row in rows if isinstance(row, dict)]
    return tables, str(document.get("checked") or "") or None


def only_newer(rows: Rows, shipped: Tables) -> Rows:
    """Without the releases and companions that the shipped tables have by now: those are never overridden."""
    last = numbers(shipped.releases[-1].version)
    kept: Rows = {}
    for file, entries in rows.items():
        if file == "companions.csv":
            known = shipped.pins
            kept[file] = [r for r in entries if r.get("version") not in known.get(r.get("package", ""), {})]
        elif file.startswith("torch_"):
            kept[file] = [r for r in entries if numbers(r.get("release", "")) > last]
    return kept


def write(tables: Rows, checked: str) -> Path:
    """Writes the cache, whole or not at all."""
    target = path()
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_suffix(f".{os.getpid()}.tmp")
    draft.write_text(json.dumps({"schema": SCHEMA, "checked": checked, "tables": tables}, indent=1), encoding="utf-8")
    draft.replace(target)
    return target
