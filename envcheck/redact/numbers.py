"""UUIDs, serial numbers and addresses: those of the network, and never a version that looks like one."""

from __future__ import annotations

import re

from envcheck.lazy import Regex

IP = "<ip>"
MAC = "<mac>"
UUID = "<uuid>"

_UUID = Regex(r"(?i)(?<![0-9a-f-])[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}(?![0-9a-f])")
_SHORT_UUID = Regex(r"\b((?:MIG-)?(?:GPU|MIG)-)[0-9a-f]{6,12}(?:-[0-9a-f]{1,12}){0,4}(?![\w<])")
_SERIAL = Regex(
    r"(?im)(\b(?:serial number|serial|product id|machine[ -]?id|boot[ -]?id)[ \t]{0,40}[:=][ \t]{0,40})((?!n/a|unknown|<)[\w-]{5,40})"
)
_MAC = Regex(r"(?<![\w:.-])[0-9A-Fa-f]{2}(?:([:-])[0-9A-Fa-f]{2})(?:\1[0-9A-Fa-f]{2}){4,18}(?![\w:-])")
_GUID16 = Regex(r"(?<![\w:.-])[0-9a-f]{4}(?::[0-9a-f]{4}){3}(?![\w:.])")
_IPV6 = Regex(
    r"(?<![\w:.])(?:(?:[0-9A-Fa-f]{1,4}:){7}[0-9A-Fa-f]{1,4}"
    r"|(?:[0-9A-Fa-f]{1,4}:){1,6}(?::[0-9A-Fa-f]{1,4}){1,6}"
    r"|(?:[0-9A-Fa-f]{1,4}:){2,7}:)(?![\w:])"
)
_IPV4 = Regex(r"(?<![\w.+-])(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})(?![\w-]|\.\d|\+)")

_VERSION_WORD = Regex(
    r"(?i)version|\bver\b|cuda|cudnn|cublas|cufft|curand|cusolver|cusparse|nvjitlink|nvtx|nccl|npp|nvjpeg|tensorrt|driver"
    r"|opencv|mkl|onnx|runtime|toolkit|release|build|sdk|kernel|firmware|bios|^nvidia|^types-|^lib|torch|python"
)
_ADDRESS_WORD = Regex(
    r"(?i)^(?:inet6?|addr|address|ip|host|hosts|from|to|at|via|server|gateway|dns|nameserver|ping|on|node|master)$"
)
_LAST_WORD = Regex(r"([A-Za-z][\w.+-]{0,60})[\"'\]]{0,2}[\s:=(,\"'\[]{0,40}$")
_ROW = Regex(r"^[ \t]{0,12}(?:\[\w{1,10}\][ \t]{1,4})?(?:\W{1,3}[ \t])?[A-Za-z][\w.-]{0,60}[ \t]{1,60}\(?$")


def redact_numbers(text: str) -> str:
    """The text without numbers that name one machine."""
    if "-" in text:
        text = _UUID.sub(UUID, text)
        text = _SHORT_UUID.sub(rf"\1{UUID}", text)
    text = _SERIAL.sub(rf"\1{UUID}", text)
    if ":" in text or "-" in text:
        text = _MAC.sub(MAC, text)
    if ":" in text:
        text = _GUID16.sub(MAC, text)
        text = _IPV6.sub(_ipv6, text)
    return _IPV4.sub(_ipv4, text)


def _ipv6(match: re.Match[str]) -> str:
    groups = [group for group in match[0].split(":") if group]
    # `a::b` alone is C++ or a slice; an address has more groups or a known prefix.
    if len(groups) >= 3 or (len(groups) == 2 and re.match(r"(?i)fe80|f[cd][0-9a-f]{2}|2[0-9a-f]{3}", groups[0])):
        return IP
    return match[0]


def _ipv4(match: re.Match[str]) -> str:
    """A dotted quad is an address, unless its value or its neighbours say that it is a version."""
    first, second, third, fourth = (int(group) for group in match.groups())
    if max(first, second, third, fourth) > 255 or first in (0, 127, 255) or (fourth == 0 and first != 10):
        return match[0]
    text = match.string
    after = text[match.end() : match.end() + 3]
    if re.match(r":\d|/\d|<\d|\]:", after):
        return IP
    start = text.rfind("\n", max(0, match.start() - 120), match.start()) + 1 or max(0, match.start() - 120)
    before = text[start : match.start()]
    if re.search(r"(?:[=~!<>]=|[<>^~])[ \t]?$", before):
        return match[0]
    last = _LAST_WORD.search(before)
    word = last[1] if last else ""
    if _VERSION_WORD.search(word):
        return match[0]
    private = first == 10 or (first, second) in ((192, 168), (169, 254)) or (first == 172 and 16 <= second <= 31)
    if private or _ADDRESS_WORD.match(word):
        return IP
    return match[0] if word and (_ROW.match(before) or "-" in word) and not before.startswith("PING") else IP
