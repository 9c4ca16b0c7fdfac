"""Traces of two runs: reading them, the first tensor that differs, and its name."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple


class Row(NamedTuple):
    """One tensor, as `payloads/reference_hooks.py` describes it."""

    kind: str
    step: int
    root: str
    part: str
    type: str
    what: str
    hash: str
    sum: float | None = None
    size: float | None = None

    @property
    def place(self) -> tuple[str, int, str, str, str, str]:
        """What was looked at, without its value."""
        return self[:6]


@dataclass
class Trace:
    """Everything that one run has told."""

    rows: list[Row] = field(default_factory=list)
    generators: dict[int, dict[str, str]] = field(default_factory=dict)
    """By step: the state of each random generator when it began."""
    settings: dict[str, Any] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    torch: str = ""
    devices: tuple[str, ...] = ()
    """Kinds of device on which tensors lay."""
    end: dict[str, Any] = field(default_factory=dict)
    """How it ended and what looking cost; empty when the run was ended from outside."""
    reread: list[str] = field(default_factory=list)
    """Files that the run before had written and this one read."""

    @property
    def steps(self) -> int:
        """Optimizer steps that were made."""
        return max((row.step for row in self.rows if row.kind == "weights"), default=0)

    @property
    def models(self) -> list[str]:
        """Names of the outermost modules that have weights."""
        return list(dict.fromkeys(row.root for row in self.rows if row.kind == "start"))


@dataclass(frozen=True)
class Difference:
    """Where two runs part."""

    step: int
    kind: str
    """As in the trace, or "order" when the runs did not even do the same things."""
    name: str
    """ "the gradient of conv2.weight"."""
    where: str
    """ "step 3", or "call 17 of the model" when no optimizer was seen."""
    type: str = ""
    """Class of the module."""
    sums: tuple[float, float] | None = None
    apart: float | None = None
    """How far apart the sums are, as a share of the sum of magnitudes: the tensors differ by that much at least."""
    detail: str = ""
    before: int = 0
    """Tensors that were equal before it."""
    seen: tuple[str, ...] = ()
    """Kinds of tensors that were looked at in this step before it, and were equal."""

    @property
    def text(self) -> str:
        """ "step 3: the gradient of conv2.weight"."""
        return f"{self.where}: {self.name}"


def read(path: Path) -> Trace:
    """A trace from its file; a last line that was cut off is left out."""
    if not path.is_file():
        return Trace()
    with path.open(encoding="utf-8") as lines:
        return parse(_json(lines))


def _json(lines: Iterable[str]) -> Iterable[Any]:
    for line in lines:
        try:
            yield json.loads(line)
        except ValueError:
            continue


def parse(items: Iterable[Any]) -> Trace:
    """A trace from its lines, decoded."""
    trace = Trace()
    for item in items:
        if isinstance(item, dict):
            _told(trace, item)
        elif isinstance(item, list) and len(item) == len(Row._fields):
            row = Row(*item)
            if row.kind == "generator":
                trace.generators.setdefault(row.step, {})[row.part] = row.hash
            else:
                trace.rows.append(row)
    return trace


def _told(trace: Trace, item: dict[str, Any]) -> None:
    if "settings" in item:
        trace.settings, trace.variables = item["settings"], item.get("variables", {})
        trace.torch, trace.devices = str(item.get("torch", "")), tuple(item.get("devices", ()))
    elif "end" in item:
        trace.end = item
        trace.devices = tuple(item.get("devices", trace.devices))
    elif "reread" in item:
        trace.reread = [str(name) for name in item["reread"]]


def first_difference(one: Trace, other: Trace, *, whole: bool = True) -> Difference | None:
    """The first tensor that differs, None when there is none.

    whole: both runs came to the same end, so that one that is longer is a difference.
    """
    for place, (a, b) in enumerate(zip(one.rows, other.rows, strict=False)):
        if a.place != b.place:
            return _other_way(one, a, b, place)
        if a.hash != b.hash:
            return _differs(one, other, place)
    if whole and len(one.rows) != len(other.rows):
        longer, place = max(one, other, key=lambda t: len(t.rows)), min(len(one.rows), len(other.rows))
        return _other_way(longer, longer.rows[place], None, place)
    return None


def _other_way(trace: Trace, a: Row, b: Row | None, place: int) -> Difference:
    rest = "is in one run only" if b is None else f"in one run, {name_of(b, trace.models)} in the other"
    return Difference(
        a.step, "order", f"{name_of(a, trace.models)} {rest}", _where(trace, a, place), type=a.type, before=place
    )


def _differs(one: Trace, other: Trace, place: int) -> Difference:
    a, b = one.rows[place], other.rows[place]
    sums, apart, detail = None, None, ""
    shapes = [row.hash.rpartition(" ")[0] for row in (a, b)]
    if shapes[0] != shapes[1]:
        detail = f"{shapes[0]} in one run, {shapes[1]} in the other"
    elif a.sum is not None and b.sum is not None:
        sums = (a.sum, b.sum)
        apart = abs(a.sum - b.sum) / max(a.size or 0.0, b.size or 0.0, 1e-300)
        detail = f"sums {a.sum!r} and {b.sum!r}" + (
            f": apart by {apart:.1e} of its size at least" if 0 < apart < float("inf") else ""
        )
    if a.kind == "gradient":
        detail = "; ".join(filter(None, (_among(one.rows, other.rows, place), detail)))
    seen = dict.fromkeys(row.kind for row in one.rows[:place] if row.step == a.step)
    where = _where(one, a, place)
    return Difference(a.step, a.kind, name_of(a, one.models), where, a.type, sums, apart, detail, place, tuple(seen))


def _among(one: Sequence[Row], other: Sequence[Row], place: int) -> str:
    """How many of a step's gradients differ, and whether those that come before in the backward pass are equal."""

    def same_block(row: Row) -> bool:
        return row.kind == "gradient" and row.step == one[place].step

    start, end = place, place
    while start > 0 and same_block(one[start - 1]):
        start -= 1
    while end < min(len(one), len(other)) and same_block(one[end]):
        end += 1
    number = sum(a.hash != b.hash for a, b in zip(one[place:end], other[place:end], strict=True))
    before = place - start
    equal = f"; the {before} that come before it in the backward pass are equal" if before else ""
    return f"{number} of {end - start} gradients of this step differ{equal}"


def _where(trace: Trace, row: Row, place: int) -> str:
    if trace.steps or not trace.models:
        return f"step {row.step}"
    root = trace.models[0]
    calls = sum(r.kind == "output" and r.root == root and not r.part for r in trace.rows[:place])
    return f"call {calls + 1} of the model"


def name_of(row: Row, models: Sequence[str]) -> str:
    """What a row looked at, in words."""
    lone = len(models) < 2
    if row.kind in ("input", "between", "output"):
        whole = "the model" if lone and row.root in models else row.root
        name = whole if not row.part else row.part if lone else f"{row.root}.{row.part}"
        what = f" {row.what}" if row.what else ""
        kind = "output" if row.kind == "output" else "input"
        same = not row.part and row.type == name
        return f"the {kind}{what} of {name}" + (f" ({row.type})" if row.type and not same else "")
    weight = row.part if lone or not row.root else f"{row.root}.{row.part}"
    return {
        "start": f"the first value of {weight}",
        "state": f"{weight}, as the model finds it",
        "loss": "the loss" + (f" {row.what}" if row.what else ""),
        "gradient": f"the gradient of {weight}",
        "weights": f"{weight} after the step",
    }.get(row.kind, f"{row.kind} {weight}")
