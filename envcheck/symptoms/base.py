"""What a known error signature is; the catalogues beside this file are tuples of them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Signature:
    r"""A known error text.

    kind: kebab-case id, vocabulary of `Symptom.kind` (several signatures may share one).
    needles: lower-case literals; the text can only match where at least one of them stands. They make the search
        linear, so each must be rare in ordinary logs.
    pattern: regular expression, searched case-insensitively in a window of `before` lines ahead of the line with the
        needle, that line, and `after` lines behind it (joined by "\n"). Named groups become `Symptom.details`.
        No nested quantifiers: a test times every pattern on adversarial lines.
    echo_of: kinds of which this one is known to be a mere consequence when one of them stands earlier in the text.
    """

    kind: str
    needles: tuple[str, ...]
    pattern: str
    before: int = 0
    after: int = 0
    echo_of: tuple[str, ...] = ()
