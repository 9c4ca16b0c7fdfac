"""Lines of a terminal or of a paste without the marks of quoting around them."""

from __future__ import annotations

from envcheck.lazy import Regex

_QUOTE = Regex(r"^(?:[ \t]*>)+[ \t]?")
_BARS = str.maketrans({"│": "|", "┃": "|", "║": "|", "\u00a0": " ", "\ufeff": " "})
_ANSI = Regex(r"\x1b\[[0-9;?]*[A-Za-z]")


def clean_lines(text: str) -> list[str]:
    """The text's lines, one for one, without colour codes, quote marks ("> ") and trailing blanks.

    Indentation stays: `nvidia-smi -q` tells its sections by it.
    """
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    text = text.translate(_BARS)
    if "&" in text:
        text = text.replace("&gt;", ">").replace("&lt;", "<").replace("&amp;", "&")
    lines = text.split("\n")
    return [(_QUOTE.sub("", line) if ">" in line[:12] else line).rstrip() for line in lines]


def prompt_free(line: str) -> str:
    """A line without what a container log or a pasted comment puts in front ("# ", "// ")."""
    return line.lstrip(" \t#/*")
