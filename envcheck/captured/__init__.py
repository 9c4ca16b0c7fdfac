"""Pasted text -> the same Facts as a live machine, with where each value was read, and the error signatures in it."""

from __future__ import annotations

from collections.abc import Iterable

from envcheck.captured import (
    accelerators,
    apps,
    blocks,
    commands,
    glue,
    installs,
    kernel,
    keys,
    osinfo,
    own,
    packages,
    proposals,
    prose,
    repl,
    smi,
    tracebacks,
)
from envcheck.captured.document import Document, Draft
from envcheck.captured.errors import unrecognised
from envcheck.captured.merge import merge
from envcheck.captured.normalise import lines
from envcheck.facts import Facts, Symptom
from envcheck.symptoms.engine import recognise

# In this order: a format that is known by its own words claims its lines before one that is known by its shape.
_PARSERS = (
    smi.parse,
    kernel.parse,
    osinfo.parse,
    blocks.parse,
    accelerators.parse,
    apps.parse,
    commands.parse,
    repl.parse,
    installs.parse,
    tracebacks.parse,
    packages.parse,
    keys.parse,
    glue.parse,
)


def read(texts: Iterable[tuple[str, str | bytes]]) -> Facts:
    """Facts of one machine from one or several texts, each with its name.

    A document of envcheck's own (a snapshot or a report) is taken as it is; everything else is read line by line.
    """
    drafts: list[Draft] = []
    symptoms: list[Symptom] = []
    snapshots: list[Facts] = []
    for name, data in texts:
        snapshot = own.snapshot(data)
        if snapshot is not None:
            snapshots.append(snapshot)
            continue
        doc = document(name, data)
        drafts.append(doc.draft)
        found_here = proposals.reported(doc, recognise(doc.searchable(), source=name, present=doc.present))
        symptoms.extend(found_here)
        prose.unavailable(doc)
        prose.without_cuda(doc)
        if found_here or doc.draft.first("torch.cuda_available") is False:
            prose.parse(doc)
        symptoms.extend(unrecognised(doc, found_here))
    if snapshots and not drafts:
        return snapshots[0] if len(snapshots) == 1 else own.join(snapshots)
    found = merge(drafts, tuple(symptoms))
    return own.join([*snapshots, found]) if snapshots else found


def document(name: str, data: str | bytes) -> Document:
    """One text, read by every parser."""
    doc = Document(name, lines(data))
    for parse in _PARSERS:
        parse(doc)
    return doc


__all__ = ["document", "read"]
