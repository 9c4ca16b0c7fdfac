"""Bytes as they were pasted or saved -> clean lines, one for each line of the original, so that numbers stay true."""

from __future__ import annotations

import codecs
import html
import re

from envcheck.lazy import Regex

MAX_LINE = 20_000
"""Characters of a line that are kept: a line of megabytes is a data dump, not a report."""

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_ANSI = Regex(r"(?:\x1b|\u241b)(?:\[[0-?]{0,32}[ -/]{0,4}[@-~]|\][^\x07\x1b\n]{0,300}(?:\x07|\x1b\\)|[@-Z\\-_=>])")
# A colour whose escape character was lost on the way: "[31mERROR[0m".
_LOST_ANSI = Regex(r"\[(?:\d{1,3}(?:;\d{1,3}){0,4})?m(?=[^\w\]]|[A-Z\[]|$)|(?<=\S)\[0m")
_TAGS = Regex(
    r"</?(?:details|summary|pre|code|p|div|span|b|i|u|em|strong|li|ul|ol|br|hr|blockquote|font|tt|kbd|h[1-6]|a)"
    r"(?:\s[^<>\n]{0,200})?/?>",
    re.IGNORECASE,
)
_FENCE = Regex(r"^\s{0,8}(?:```|~~~)[^`\n]{0,80}$")
_PREFIXES = Regex(
    r"^(?:\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3,9}Z "  # GitHub Actions
    r"|#\d{1,4} \d{1,6}\.\d{1,3} "  # docker build
    r"|\[rank\d{1,5}\]: ?|\[\d{1,4},\d{1,5}\]<std(?:out|err)>:\s?"  # torchrun, mpirun
    r"|\((?:EngineCore|Worker|APIServer|VllmWorker|RayWorkerWrapper|WorkerProc)[^()\n]{0,60}\) "  # vLLM
    r"|[\w.-]{1,40}-\d{1,3} {1,12}\| )"  # docker compose
)
_ESCAPED = Regex(r"%([2-7][0-9A-Fa-f])")
_CONTROL = Regex(r"[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f]")
_INVISIBLE = dict.fromkeys(
    (*map(ord, "\u200b\u200c\u200d\u2060\ufeff\x7f"), *range(9), *range(14, 27), *range(28, 32)), None
)
_BLANKS = {0xA0: " ", 0x2007: " ", 0x202F: " ", 0x3000: " ", 0xFF1A: ": ", 0x0B: " ", 0x0C: " ", 0x85: " ", 0x2028: " "}
_TRANSLATION: dict[int, str | None] = {**_INVISIBLE, **_BLANKS}

_COMMAND = Regex(
    r"(?:sudo |poetry run |uv run )?(?:pip[\d.]*|conda|mamba|python[\d.]*|py|nvcc|nvidia-smi|uv|poetry|docker|set|echo|where|dir|cd"
    r"|git|sw_vers|uname|export|cat|ls|source|wsl|bash|import|library|torch)\b"
)


def decode(data: bytes) -> str:
    """Text of any encoding that a shell, an editor or a browser may have written; never raises."""
    for bom, encoding in _BOMS:
        if data.startswith(bom):
            return data[len(bom) :].decode(encoding, "replace")
    wide = _wide(data[:4096])
    if wide:
        return data.decode(wide, "replace")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        pass
    # Legacy code pages agree in ASCII, which carries all that is read here; the rest only has to survive.
    return data.decode("cp1252", "replace")


def _wide(head: bytes) -> str | None:
    """UTF-16 without a byte order mark: every other byte is zero in ASCII text."""
    if len(head) < 8:
        return None
    even, odd = head[0::2].count(0), head[1::2].count(0)
    half = len(head) // 2
    if odd > half * 0.6 and even < half * 0.1:
        return "utf-16-le"
    if even > half * 0.6 and odd < half * 0.1:
        return "utf-16-be"
    return None


def is_text(data: bytes | str) -> bool:
    """Whether this can be something that a person pasted; a binary file is not."""
    text = decode(data[:65536]) if isinstance(data, bytes) else data[:65536]
    if not text:
        return True
    odd = sum(1 for c in text if (c < " " and c not in "\n\r\t\x1b\x08\x0c") or c in "\x7f\ufffd")
    return odd <= max(8, len(text) // 20)


def lines(data: bytes | str) -> list[str]:
    """The clean lines: colours, quoting, fences, tags and log prefixes removed, none added and none dropped."""
    text = decode(data) if isinstance(data, bytes) else data
    text = text.replace("\r\r\n", "\n").replace("\r\n", "\n")
    text = text.replace("\r", " ") if "\n" in text else text.replace("\r", "\n")
    if not text.isascii() or _CONTROL.search(text):
        text = text.translate(_TRANSLATION)
    if "\x1b" in text or "\u241b" in text:
        text = _ANSI.sub("", text)
    if "m" in text and _LOST_ANSI.search(text):
        text = _LOST_ANSI.sub("", text)
    result = [line[:MAX_LINE].rstrip() for line in text.split("\n")]
    _unquote(result)
    _unmark(result)
    return result


def _unquote(result: list[str]) -> None:
    """Removes `> ` quoting, told apart from the prompts of Python, R and Windows by what stands behind it."""
    for _ in range(3):  # quoted quotations
        changed = False
        before = list(result)
        for index, line in enumerate(before):
            stripped = line.lstrip()
            if not stripped.startswith(">") or (stripped.startswith((">>>", ">>")) and not _quoted_again(stripped)):
                continue
            rest = stripped[1:]
            if _COMMAND.match(rest.lstrip()) and not _neighbour_quoted(before, index):
                continue
            result[index] = rest[1:] if rest.startswith(" ") else rest
            changed = True
        if not changed:
            return


def _quoted_again(line: str) -> bool:
    return line.startswith(">> ") and not _COMMAND.match(line[3:].lstrip())


def _neighbour_quoted(before: list[str], index: int) -> bool:
    """The line above or below is quoted as well (and no prompt): then this `>` is quoting too."""
    for other in (index - 1, index + 1):
        if 0 <= other < len(before):
            line = before[other].lstrip()
            if line.startswith(">") and not line.startswith(">>") and not _COMMAND.match(line[1:].lstrip()):
                return True
    return False


def _unmark(result: list[str]) -> None:
    for index, line in enumerate(result):
        if not line:
            continue
        if ("```" in line or "~~~" in line) and _FENCE.match(line):
            result[index] = ""
            continue
        if "<" in line and ">" in line:
            line = _TAGS.sub("", line)
        if "&" in line and ";" in line:
            line = html.unescape(line)
        if "%20" in line and "://" not in line:
            line = _ESCAPED.sub(lambda m: chr(int(m[1], 16)), line)  # copied out of an address
        if line[:1] in "2#[(" or "|" in line[:60]:
            line = _PREFIXES.sub("", line)
        result[index] = line.rstrip()
