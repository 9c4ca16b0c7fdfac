"""nvidia-smi in a paste: the parsers of `envcheck.nvidia_smi`, applied to the part of the text where it stands."""

from __future__ import annotations

import re
from collections.abc import Sequence

from envcheck import nvidia_smi
from envcheck.captured.document import SAID, Document
from envcheck.captured.proposals import without_sentences
from envcheck.facts import Outcome
from envcheck.lazy import Regex

_NEEDLES = (
    "nvidia-smi", "nvsmi log", "nvml", "no devices were found", "device handle", "gpu is lost", "persistence-m", "kmd version", "index, name", "name, driver",
    "gpu access blocked",
)  # fmt: skip
_GPU_LIST = ("gpu 0:", "gpu 1:", "gpu 2:", "gpu 3:")
_LARGE = 400_000
_REACH = 260
"""Lines kept on either side of a sign of nvidia-smi in a large text: a `-q` report of one GPU."""


def parse(doc: Document) -> None:
    """Reads screens, -q, -L, CSV answers and failures."""
    if not doc.has(*_NEEDLES, *_GPU_LIST):
        return
    text, places = _part(doc)
    reading = nvidia_smi.parse(without_sentences(doc, text))
    if reading is None:
        return
    lines = reading.lines

    def where(name: str) -> int | None:
        return places[lines[name] - 1] if name in lines and 0 < lines[name] <= len(places) else None

    screen = where("driver_version") if reading.driver_version else None
    doc.put("nvidia.driver_version", reading.driver_version, screen, SAID)
    doc.put("nvidia.driver_cuda", reading.driver_cuda, where("driver_cuda"), SAID)
    doc.put("nvidia.smi_version", reading.smi_version, where("smi_version"), SAID)
    if reading.error is not None:
        doc.put("nvidia.smi_error", reading.error.kind, where("smi_error"), SAID)
        doc.put("nvidia.smi", Outcome(status="failed", error=reading.error.text), where("smi_error"), SAID)
    elif reading.outcome is not None:
        if reading.outcome.status == "missing":
            index = next(
                (
                    i
                    for i in doc.find("nvidia-smi")
                    if re.search(
                        r"not|introuvable|gefunden|encontrad|trovato|\u627e\u4e0d\u5230|\u672a\u627e\u5230",
                        doc.lines[i],
                    )
                ),
                None,
            )
            doc.put("nvidia.smi", reading.outcome, index, SAID)
        elif screen is not None:
            doc.put("nvidia.smi", reading.outcome, screen, SAID)
    for gpu in reading.gpus or ():
        at = where(f"gpu {gpu.index}")
        doc.add("nvidia.gpus", gpu, at if at is not None else where("gpus"), SAID)
    facts = reading.facts()
    if facts.gpus == () and reading.error is not None:
        doc.put("nvidia.gpus", (), where("smi_error"), SAID)
    _claim(doc)
    at = where("smi_error")
    if at is not None:
        doc.claim(at, errors=True)


def _part(doc: Document) -> tuple[str, Sequence[int]]:
    """The text, or of a large one what stands around signs of nvidia-smi; and the index of each of its lines."""
    if len(doc.text) <= _LARGE:
        return doc.text, range(len(doc.lines))
    keep: set[int] = set()
    for index in doc.find(*_NEEDLES)[:40]:
        keep.update(range(max(0, index - 10), min(len(doc.lines), index + _REACH)))
    keep.update(doc.find(*_GPU_LIST)[:200])
    places = [index for index in sorted(keep) if len(doc.lines[index]) <= 2000]
    return "\n".join(doc.lines[index] for index in places), places


_TABLE = Regex(r"^\s{0,12}[|+]")
_REPORT = Regex(r"^\s{2,}\S|^=+NVSMI LOG|^(?:Timestamp|Driver Version|CUDA Version|Attached GPUs|GPU [0-9A-F]{8}:)")


def _claim(doc: Document) -> None:
    """Marks the tables as data."""
    for index in doc.find("nvidia-smi", "nvsmi log", "persistence-m"):
        line = doc.lines[index]
        pattern = _TABLE if "|" in line else _REPORT if "NVSMI" in line else None
        if pattern is None:
            continue
        for step in (-1, 1):
            at = index if step > 0 else index - 1
            misses = 0
            while 0 <= at < len(doc.lines) and misses < 2 and abs(at - index) < 2000:
                if pattern.match(doc.lines[at]):
                    doc.claim(at, errors="ERR" in doc.lines[at] or "lost" in doc.lines[at])
                    misses = 0
                elif pattern is _TABLE and doc.lines[at].strip():
                    break
                else:
                    misses += 1
                at += step
