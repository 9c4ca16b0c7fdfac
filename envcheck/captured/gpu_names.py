"""Finds the names of GPUs in what people and programs write."""

from __future__ import annotations

import re
from dataclasses import dataclass

from envcheck.lazy import Regex

_TAIL = r"(?:[ -](?:Ti|SUPER|Laptop(?: GPU)?|Mobile|Max-Q|with Max-Q(?: Design)?|Design|D|Ada(?: Generation)?|Generation|Blackwell(?: (?:Server|Workstation|Max-Q)(?: Workstation)? Edition)?|OEM|Workstation Edition|Founders Edition)){0,5}"
_NVIDIA_SURE = Regex(
    r"(?<![\w-])(?:NVIDIA[ -]{1,3})?(?:"
    rf"GeForce[ -]?(?:(?:RTX|GTX|GTS|GT|MX)[ -]?)?\d{{3,4}}M?(?:Ti|S)?(?:super)?{_TAIL}|GeForce MX\d{{3}}"
    rf"|(?:RTX|GTX)[ -]?\d{{3,4}}(?:Ti|S|D|M)?(?:super)?{_TAIL}|(?:RTX|GTX)[ -]?(?:PRO )?A?\d{{4}}{_TAIL}"
    rf"|RTX[ -]?PRO[ -]\d{{4}}{_TAIL}|RTX[ -]?A\d{{3,4}}{_TAIL}|RTX \d{{4}} Ada(?: Generation)?"
    r"|Quadro[ -](?:RTX[ -])?[A-Z]{0,3}\d{3,5}\w{0,2}(?: with Max-Q Design| Mobile| Max-Q)?|Quadro GV100|Quadro GP100"
    r"|T(?:ITAN|itan)[ -](?:RTX|V|Xp|X \(Pascal\)|X|Black|Z)(?: CEO Edition)?(?![\w])"
    r"|Tesla[ -][A-Z]{1,2}\d{1,4}[a-z]?(?:[ -](?:PCIE|PCIe|SXM\d|SXM|FHHL|DGXS|GPU|\d{1,3}GB)){0,4}"
    r"|Jetson[ -](?:AGX[ -])?(?:Orin|Xavier|Nano|TX[12]|TK1|Thor)(?: (?:NX|Nano|Super|AGX|Developer Kit|Module|Dev Kit|\d{1,2}GB)){0,4}"
    r"|(?:DGX Spark|GB10|GB[23]00|GH200|B[123]00|H[12]00|H20|H800|A[138]00|L40S?|L20|L4|A40|A30|A16|A10G?|A2|V100S?|P100|P40|P4|K[48]0m?|M40|M60|K10|T4G?|T[24]00|T[16]000|CMP \d+HX|A800|Orin|Thor)"
    r"(?:[ -](?:PCIE|PCIe|SXM\d?|NVL|HBM\d?e?|FHHL|\d{1,3} ?GB|GPU|MIG [\w.]{1,12}|Tensor Core)){0,5}"
    r")(?![\w])",
    re.IGNORECASE,
)
# The names of the last group are short: they count alone only with "NVIDIA" before them, or where a GPU is expected.
_BARE = Regex(r"^(?:DGX|GB|GH|B|H|A|L|V|P|K|M|T|CMP|Orin|Thor)[\d ]", re.IGNORECASE)
_AMD = Regex(
    r"(?<![\w-])(?:AMD[ -](?:ATI )?)?(?:"
    r"Radeon(?:\(TM\)| \(TM\)|™)?[ -](?:(?:RX|R[579X]|HD|Pro|VII|Vega|AI PRO|PRO)[ -]?)?(?:[A-Z]{0,3}\d{2,4}[A-Z]{0,3}|Graphics|VII|Vega \d{1,2}|Frontier Edition)(?: (?:XTX|XT|GRE|M|S|OEM|Pro|Duo|Graphics|Nitro\+?|LE|Dual Slot))*"
    r"|RX[ -]?(?:Vega[ -]?)?\d{2,4}[A-Z]{0,3}(?:[ -](?:XTX|XT|GRE|M|S)){0,2}"
    r"|(?:Instinct[ -])?MI[ -]?\d{2,3}[AXP]?(?![\w])|Vega[ -]?(?:56|64|10|20|II)|Strix Halo|Strix Point|Ryzen AI Max\+? (?:PRO )?\d{3}"
    r"|W\d{4}(?: AI)?(?= |$)"
    r")",
    re.IGNORECASE,
)
_GFX = Regex(r"\bgfx(\d{3,4}[a-f]?)\b")
_INTEL = Regex(
    r"(?<![\w-])(?:Intel(?:\(R\)|®)?[ -])?(?:Arc(?:\(TM\)|™)?[ -](?:Pro )?(?:[AB]\d{2,3}M?|Graphics|\d{3}[VTH])(?: Graphics)?"
    r"|Data Center GPU (?:Max|Flex)(?: Series)?(?: \d{3,4}\w?)?|Iris(?:\(R\)|®)?[ -]Xe(?: Graphics| MAX)?(?: Graphics)?|Battlemage|Ponte Vecchio|PVC|Alchemist"
    r"|(?:Intel(?:\(R\)|®)? )(?:UHD|HD|Graphics)(?: Graphics)?(?: \d{3}| \[0x[0-9a-f]{4}\])?)",
    re.IGNORECASE,
)
_APPLE = Regex(r"(?<![\w-])(?:Apple )?(?:Silicon )?\(?(M[1-5])( Pro| Max| Ultra)?\)?(?![\w.-])", re.IGNORECASE)
_COUNT = Regex(r"(?:^|[\s(:,])(\d{1,3}) ?(?:x|\*|×)\s?$", re.IGNORECASE)
_GLUED_COUNT = Regex(r"(?<![\w.])(\d{1,2})[x×](?=[A-Z])")
_COUNT_BEHIND = Regex(r"^(?: GPUs?)? ?(?:x|\*|×) ?(\d{1,3})\b", re.IGNORECASE)
_INDEX = Regex(r"\b(?:GPU|cuda|device)[ :#]{0,2}(\d{1,2})\W{1,3}$", re.IGNORECASE)
_CAPABILITY = Regex(
    r"(?:compute cap(?:ability|\.)?|cuda capability|capability|arch|cc|sm)[ :=(]{0,3}(?:version )?[ :=(]{0,2}(?:sm_?)?(\d{1,2})(?:\.|, ?)(\d)|\bsm_?(\d{2,3})\b",
    re.IGNORECASE,
)
_MEMORY = Regex(r"(?<![\w.])(\d{1,6}(?:\.\d{1,2})?) ?(GiB|GB|G|MiB|MB)\b", re.IGNORECASE)
_NOT_A_GPU = Regex(r"i[3579]-|\bcore\b|xeon|ryzen \d|threadripper|epyc|processor|cpu", re.IGNORECASE)


@dataclass
class GpuText:
    """A GPU that a text names."""

    vendor: str
    name: str
    start: int
    end: int
    count: int = 1
    index: int | None = None
    capability: str | None = None
    memory: int | None = None


def capability_of(text: str) -> str | None:
    """ "(compute capability 6.1)", "SM 8.9", "arch=(8, 6)", "sm_90" -> "6.1"."""
    match = _CAPABILITY.search(text)
    if not match:
        return None
    if match[3]:
        return f"{match[3][:-1]}.{match[3][-1]}"
    return f"{match[1]}.{match[2]}"


def memory_of(text: str) -> int | None:
    """ "24576 MiB", "48 GB" -> bytes."""
    match = _MEMORY.search(text)
    if not match:
        return None
    unit = 1024**3 if match[2].lower().startswith("g") else 1024**2
    return int(float(match[1]) * unit)


def gpus_of(text: str, *, expected: bool = False) -> list[GpuText]:
    """The GPUs in a short text. `expected`: a GPU is what the text is about, so short names ("T4", "A100") count."""
    text = _GLUED_COUNT.sub(r"\1x ", text)
    found: list[GpuText] = []
    for match in _NVIDIA_SURE.finditer(text):
        name = match[0].strip(" -")
        if _BARE.match(name) and not (expected or _stands_apart(text, match)):
            continue
        found.append(GpuText("nvidia", _tidy(name), match.start(), match.end()))
    if not found:
        for match in _AMD.finditer(text):
            if re.match(r"W\d", match[0]) and not re.search(r"radeon|amd", text, re.IGNORECASE):
                continue
            found.append(GpuText("amd", match[0].strip(" -"), match.start(), match.end()))
    for match in _INTEL.finditer(text):
        found.append(GpuText("intel", match[0].strip(" -"), match.start(), match.end()))
    found.sort(key=lambda g: g.start)
    for position, gpu in enumerate(found):
        end = found[position + 1].start if position + 1 < len(found) else len(text)
        _describe(gpu, text, end)
    return found


def _stands_apart(text: str, match: re.Match[str]) -> bool:
    """A short name that is not in the middle of prose or of another name: at an edge, or with a count."""
    before, after = text[: match.start()].rstrip(), text[match.end() :].lstrip()
    if (
        match[0].upper().startswith("NVIDIA")
        or _COUNT.search(text[: match.start()])
        or _COUNT_BEHIND.match(text[match.end() :])
    ):
        return True
    return (
        (not before or before[-1] in ",;:/|+(")
        and (not after or after[0] in ",;/|+)(x×*")
        and len(match[0]) >= 2
        and match[0][0].isupper()
    )


def _tidy(name: str) -> str:
    name = re.sub(r"\s+", " ", name)
    name = re.sub(
        r"^(GeForce |NVIDIA )?(RTX|GTX)-?(?=\d)", lambda m: f"{m[1] or ''}{m[2].upper()} ", name, flags=re.IGNORECASE
    )
    name = re.sub(r"(?<=\d)(Ti|super)\b", lambda m: f" {m[1]}", name, flags=re.IGNORECASE)
    return re.sub(r"(?<=\d{4})(Ti|super)\b", lambda m: f" {m[1]}", name, flags=re.IGNORECASE)


def _describe(gpu: GpuText, text: str, end: int) -> None:
    before, behind = text[: gpu.start], text[gpu.end : end]
    count = _COUNT.search(before) or _COUNT_BEHIND.match(behind)
    if count and 0 < int(count[1]) <= 64:
        gpu.count = int(count[1])
    index = _INDEX.search(before)
    if index:
        gpu.index = int(index[1])
    gpu.capability = capability_of(behind) if gpu.vendor == "nvidia" else None
    gpu.memory = memory_of(behind)


def gfx_of(text: str) -> list[str]:
    """AMD's architecture names in a text: ["gfx1100"]."""
    return list(dict.fromkeys(f"gfx{m[1]}" for m in _GFX.finditer(text)))


def apple_chip(text: str) -> str | None:
    """ "Apple M2 Max" for any spelling of it in a text that speaks of a Mac."""
    match = _APPLE.search(text)
    if not match or not re.search(r"apple|mac|silicon|chip|arm64", text, re.IGNORECASE):
        return None
    return f"Apple {match[1].upper()}{(match[2] or '').title()}"


def speaks_of_cpu(text: str) -> bool:
    """The text is about a processor; an integrated GPU in its name does not count as the GPU."""
    return _NOT_A_GPU.search(text) is not None
