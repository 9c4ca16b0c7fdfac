"""envcheck's own JSON among the pasted texts: a snapshot of `envcheck facts`, or a `--json` report with one inside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from envcheck import facts as f
from envcheck.captured.normalise import decode


def snapshot(data: str | bytes) -> f.Facts | None:
    """The facts in a document of envcheck, None when the text is anything else."""
    head = data[:20000] if isinstance(data, str) else decode(data[:20000])
    if not head.lstrip("\ufeff \t\r\n").startswith("{") or '"schema"' not in head:
        return None
    text = data if isinstance(data, str) else decode(data)
    raw = text.lstrip("\ufeff").encode("utf-8", "replace")
    try:
        document: Any = msgspec.json.decode(raw)
        if isinstance(document, dict) and isinstance(document.get("facts"), dict):
            document = document["facts"]
        if not isinstance(document, dict) or document.get("schema") is None:
            return None
        return f.from_json(msgspec.json.encode(document))
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


def join(parts: Sequence[f.Facts]) -> f.Facts:
    """Several facts of one machine: the first that knows a field decides; lists of findings are put together."""
    result = parts[0]
    for other in parts[1:]:
        changes: dict[str, Any] = {}
        for name in f.Facts.__struct_fields__:
            mine, theirs = getattr(result, name), getattr(other, name)
            if isinstance(mine, f.Struct) and isinstance(theirs, f.Struct) and type(mine) is type(theirs):
                changes[name] = _fill(mine, theirs)
            elif name in ("symptoms", "evidence", "conflicts", "probes", "requested", "commands"):
                changes[name] = (
                    tuple(dict.fromkeys((*mine, *theirs))) if name in ("requested", "commands") else (*mine, *theirs)
                )
            elif mine is None:
                changes[name] = theirs
        result = msgspec.structs.replace(result, **changes)
    return result


def _fill(mine: f.Struct, theirs: f.Struct) -> f.Struct:
    changes = {
        name: getattr(theirs, name)
        for name in mine.__struct_fields__
        if getattr(mine, name) is None and getattr(theirs, name) is not None
    }
    return msgspec.structs.replace(mine, **changes) if changes else mine
