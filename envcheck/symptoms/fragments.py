"""Pieces of expressions that several catalogues share."""

from __future__ import annotations

_MACHINERY = r"(?![^\"\n]{0,260}(?:importlib(?:[\\/]__init__\.py|\._bootstrap)|[\\/]torch[\\/]_(?:ops|classes)\.py|[\\/]ctypes[\\/]__init__\.py))"
"""Frames of what loads a library for somebody else (importlib, ctypes, torch.ops.load_library): the caller is who asked."""

FRAME = (
    r"(?:^[^\n]{0,80}?(?:File[ \t]{1,3})?\"?(?P<frame>"
    + _MACHINERY
    + r"(?:[A-Za-z]:[\\/]|[~/.<])[^\"\n:*?]{1,260}?\.py)"
    r"(?:\", line |:\d{1,6}, in |:\d{1,6}\)? ?in | in [\w<])[^\n]{0,200}\n"
    r"(?:(?![^\n]{0,80}?(?:File [\"~/]" + _MACHINERY + r"|\.py in |\.py:\d))[^\n]{0,400}\n){0,7}?[^\n]{0,300}?)?"
)
"""The last traceback frame ahead of the error (CPython and IPython layouts), as the optional group `frame`.

It goes ahead of a pattern whose signature has `before` lines. A later frame is never skipped: between the frame and the
error no other frame may stand.
"""

WORD_START = r"(?<![^\s'\"`(\[<,:=])"
"""Start of a word or path: keeps the search of an unbounded word linear."""
