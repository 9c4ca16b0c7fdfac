"""Facts in sentences: "I get this on an RTX 5080", "my torch version is 1.13.1". Read only beside a trouble.

A sentence may speak of another machine or of a version that somebody advises. So a name or version counts only when no
other part of the text gives that fact, when the sentences agree on a single one, and when no word of the sentence says
that it works there or is to be installed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.captured import gpu_names, readers, systems, values
from envcheck.captured.document import IMPLIED, NOTED, Document
from envcheck.facts import AmdGpu
from envcheck.lazy import Regex

MAX_LINES = 300
"""Lines that are looked at for one fact."""
MAX_LENGTH = 1500
"""Characters of a line that may be a paragraph."""

_ENDS = Regex(r"(?<=[.!?;])\s{1,9}(?=\S)|\s-\s")
_CODE = Regex(
    r"^\s{0,40}(?:File \"|at \w|from \w[\w.]{0,60} import|import \w|>>>|\$ |#include|def |class |\||\+[-=]"
    r"|- [\w-]{1,60}=|[\w./-]{1,80}\.(?:cu|cpp|cc|h|py):\d)"
)
_ELSEWHERE = (
    r"works?|worked|working|fine|instead|recommend\w{0,5}|support\w{0,4}|minimum|at least|unlike|compared|previously"
    r"|tested|other|another|both|such as|e\.g"
)
_OTHER_MACHINE = Regex(rf"\b(?:{_ELSEWHERE})\b", re.IGNORECASE)
_OTHER_VERSION = Regex(
    rf"\b(?:{_ELSEWHERE}|trained with|requires?|required|needs?|needed|older|newer|later|earlier|before|since|until|upgrad\w{{0,6}}"
    r"|downgrad\w{0,6}|updat\w{0,6}|install\w{0,8}|switch\w{0,6}|chang\w{0,6}|try|tried|fixed|solved|should|must|could"
    r"|would)\b|[<>]=?\s?\d|~=|https?://",
    re.IGNORECASE,
)
_IS = r"(?: version)?\s{0,3}(?:is|was|==?|:)?\s{0,3}['\"`(]?v?"
_TORCH = Regex(
    rf"(?:(?<![\w./-])(?:py)?torch{_IS}|torch\.__version__[\s`'\"()=:>]{{0,8}}(?:is|was|gives|returns|prints|shows|says)\s{{1,3}}['\"`]?)(?P<version>[0-2]\.\d{{1,2}}(?:\.\d{{1,2}})?(?:\.(?:dev|post)\d{{1,8}})?"
    r"(?:\+[a-z0-9.]{2,12})?)(?![\w.]{0,20}\d)",
    re.IGNORECASE,
)
_PYTHON = Regex(rf"(?<![\w./-])python{_IS}(?P<version>3\.\d{{1,2}}(?:\.\d{{1,2}})?)(?![\w.]{{0,20}}\d)", re.IGNORECASE)
_POETRY_ENV = Regex(r"pypoetry[\\/](?:Cache[\\/])?virtualenvs[\\/][\w.\-]{3,80}-py(?P<version>3\.\d{1,2})(?![\w.])")
_DRIVER = Regex(rf"\bdrivers?{_IS}(?P<version>\d{{3}}\.\d{{2,3}}(?:\.\d{{2}})?)(?![\w.]{{0,20}}\d)", re.IGNORECASE)
_SMI_SAYS = Regex(
    r"nvidia-smi[`'\"]{0,2} (?:says?|shows?|reports?|gives?|prints?)(?: driver(?: version)?)?[ :`'\"]{1,3}(?P<version>\d{3}\.\d{2,3}(?:\.\d{2})?)(?![\w.]{0,20}\d)",
    re.IGNORECASE,
)
_BUILD_SAID = Regex(
    r"\btorch\.version\.cuda[`'\"]{0,3}(?: (?:is|was|returns?|returned|gives?|prints?|says?|shows?|still)){0,3}[ =:>-]{1,5}[`'\"*]{0,3}None\b"
)
_JETPACK = Regex(
    r"\bjetpack(?: sdk)?(?: version)?[ :=v-]{0,3}(?P<version>[4-9]\.\d(?:\.\d)?)(?![\w.]{0,20}\d)", re.IGNORECASE
)
_MAC_PATH = Regex(
    r"(?:~|/Users/[^/\s]{1,64})/Library/(?:Caches|Application Support)/|(?<![\w.])/Library/Frameworks/Python\.framework/"
)
_WSL_ONLY = Regex(r"--usecase[= ][\w,]{0,40}\bwsl\b")
_INSIDE = Regex(
    r"\b(?:in(?:side)?|within|from) (?:of )?(?:the|a|an|my|this|that|our) (?:[\w-]{1,20} ){0,2}?"
    # "within a container from hub.docker.com, only images ..." is flash-attn's advice to everybody.
    r"(?:(?P<kind>docker|podman|lxc|lxd) )?container\b(?! from\b)",
    re.IGNORECASE,
)
_JETSON = Regex(
    r"(?<![\w/-])(?:nvidia )?jetson(?:[ -](?:agx|orin|xavier|nano|nx|tx[12]|thor|super|developer|dev|kit)){0,4}(?![\w/-])",
    re.IGNORECASE,
)
_FALSE = Regex(
    # The other back ends have a function of that name, too.
    r"(?<!mps\.)(?<!xpu\.)(?<!nccl\.)(?<!npu\.)(?<!distributed\.)(?<![a-z_])is_available(?:\(\))?[^\n.!?;]{0,50}?\bfalse\b"
    r"|\bfalse\b[^\n.!?;]{0,30}\bcuda\.is_available"
    r"|\bcuda (?:device )?(?:is )?(?:not available|unavailable|not avaliable)\b"
    # The start-up check of the Stable Diffusion web UI and of what was made from it.
    r"|\btorch is not able to use gpu\b",
    re.IGNORECASE,
)
_TRAINED = Regex(
    rf"\btrained with torch {values.VERSION}\S{{0,20}}, yours is (?P<version>{values.VERSION}(?:\+[a-z0-9.]{{2,12}})?)",
    re.IGNORECASE,
)
_FALSE_NEEDLES = (
    "is_available",
    "cuda is not available",
    "cuda not available",
    "cuda device is not ava",
    "torch is not able to use gpu",
)
_TWO_SIDED = Regex(
    r"\b(?:true|if|whether|unless|should|would|could|expect\w{0,3}|before|previously|used to|no longer|instead of|rather than)\b"
    r"|[!=]=|\bis False:|^\s{0,40}(?:assert|raise|elif|while|return|print|logger?\.|warnings\.)\b|[\"'(]CUDA (?:is )?not available",
    re.IGNORECASE,
)
_GPU_NEEDLES = ("rtx", "gtx", "geforce", "tesla", "quadro", "titan", "radeon", "rx ", "gfx", "instinct")
_MAKERS = Regex(r"\b(?:nvidia|geforce)\b", re.IGNORECASE)
# Boards of the data centre by their number alone, as one writes them: long ones mean nothing else; short ones do.
_BOARD = Regex(
    r"(?<![A-Za-z0-9_./:@#-])(?:(?P<name>[VPAHB]100S?|H[28]00|G?B200|GH200|A800|A10G|L40S|A[4-6]000)"
    r"|(?:\b(?:an?|the|my|our|single|one|1x|Colab|Kaggle)['’s]{0,2} )(?P<short>K[48]0|M[46]0|P40|A[134]0|L40?|T4)(?= ?(?:GPU|card|runtime|instance)|[,.)]|$))"
    r"(?![A-Za-z0-9_/:-])"
)
_BOARD_NEEDLES = ("100", "200", "800", "000", "a10", "l4", "t4", "k80", "p40", "m40", "m60", "a30", "a40", "k40")


def unavailable(doc: Document) -> None:
    """ "torch.cuda.is_available() always gives me False", "CUDA is not available", in whatever language around it."""
    if doc.draft.values.get("torch.cuda_available"):
        return
    for index in doc.find(*_FALSE_NEEDLES)[:MAX_LINES]:
        line = doc.lines[index]
        if doc.data[index] == 1 or len(line) > MAX_LENGTH:
            continue
        if line.rstrip().rstrip("`").endswith("is_available()") and index + 1 < len(doc.lines):
            line += " " + doc.lines[index + 1][:60]  # "torch.cuda.is_available()" / "I get false"
        if any(_FALSE.search(s) and not _TWO_SIDED.search(s) for s in _ENDS.split(line)):
            doc.put("torch.cuda_available", False, index, NOTED)
            return


def without_cuda(doc: Document) -> None:
    """ "torch.version.cuda is None", said in a sentence beside an is_available() that is False."""
    if doc.draft.values.get("torch.cuda") or doc.draft.first("torch.cuda_available") is not False:
        return
    for index, sentence in _sentences(doc, _TWO_SIDED, "torch.version.cuda"):
        if _BUILD_SAID.search(sentence):
            doc.put("torch.cuda", "", index, IMPLIED)
            return


def parse(doc: Document) -> None:
    """Fills in what nothing else in the text says."""
    _jetson(doc)
    for index in doc.find("trained with torch")[:1]:
        match = _TRAINED.search(doc.lines[index][:MAX_LENGTH])
        if match:  # what a checkpoint was made with, and what reads it: pyannote.audio
            doc.put("torch.version", values.torch_version(match["version"]), index, NOTED)
    if not any(doc.draft.lists.get(name) for name in ("nvidia.gpus", "amd.gpus", "intel.gpus")):
        _gpu(doc)
    if not _lists_torch(doc):
        _version(doc, "torch.version", "torch", _TORCH)
    _version(doc, "python.version", "python", _PYTHON)
    _version(doc, "python.version", "virtualenvs", _POETRY_ENV)
    _wsl(doc)
    _mac(doc)
    _container(doc)
    _version(doc, "nvidia.driver_version", "driver", _DRIVER)
    _version(doc, "nvidia.driver_version", "nvidia-smi", _SMI_SAYS)
    _version(doc, "system.jetpack", "jetpack", _JETPACK)


def _lists_torch(doc: Document) -> bool:
    """A list of packages names torch's version."""
    return any(item.value.name in ("torch", "pytorch") for item in doc.draft.lists.get("distributions", []))


def _sentences(doc: Document, refused: Regex, *needles: str) -> Iterator[tuple[int, str]]:
    for index in doc.find(*needles)[:MAX_LINES]:
        line = doc.lines[index]
        if doc.data[index] == 1 or len(line) > MAX_LENGTH or _CODE.match(line):
            continue
        for sentence in _ENDS.split(line):
            if not refused.search(sentence):
                yield index, sentence


def _gpu(doc: Document) -> None:
    """The one GPU that the sentences name, by a name that nothing else can be."""
    found: dict[str, tuple[int, str]] = {}
    chips: dict[str, int] = {}
    for index, sentence in _sentences(doc, _OTHER_MACHINE, *_GPU_NEEDLES):
        for gpu in gpu_names.gpus_of(sentence):
            found.setdefault(" ".join(_MAKERS.sub("", gpu.name.lower()).split()), (index, gpu.name))
        for gfx in gpu_names.gfx_of(sentence):
            chips.setdefault(gfx, index)
    if not found and not chips:
        for index, sentence in _sentences(doc, _OTHER_MACHINE, *_BOARD_NEEDLES):
            for match in _BOARD.finditer(sentence):
                name = match["name"] or match["short"]
                name = f"RTX {name}" if name.endswith("000") else name
                found.setdefault(name, (index, name))
    if len(chips) == 1 and len(found) <= 1:
        # One card of AMD's by its architecture, and mostly by its name as well.
        (gfx, index), name = next(iter(chips.items())), next((name for _, name in found.values()), None)
        if name is None or [gpu.vendor for gpu in gpu_names.gpus_of(name)] == ["amd"]:
            doc.add("amd.gpus", AmdGpu(name=name, gfx=gfx), index, IMPLIED)
    elif len(found) == 1 and not chips:
        index, name = next(iter(found.values()))
        readers.put_gpus(doc, name, index, IMPLIED, expected=True)


def _jetson(doc: Document) -> None:
    """A board named in a sentence, where nothing shows another machine."""
    known = doc.draft.values.get("system.jetson_model") or doc.draft.lists.get("nvidia.gpus")
    if (
        known
        or doc.draft.first("system.machine") not in (None, "aarch64")
        or doc.draft.first("system.os") not in (None, "linux")
    ):
        return
    for index, sentence in _sentences(doc, _OTHER_MACHINE, "jetson"):
        match = _JETSON.search(sentence)
        if match:
            doc.put("system.jetson_model", match[0], index, IMPLIED)
            doc.put("system.os", "linux", index, IMPLIED)
            doc.put("system.machine", "aarch64", index, IMPLIED)
            return


def _wsl(doc: Document) -> None:
    """WSL, named in a sentence or in a command that only makes sense there, where no other system is named."""
    if doc.draft.values.get("system.wsl") or doc.draft.values.get("system.kernel"):
        return
    for index in doc.find("/usr/lib/wsl/", "microsoft-standard-wsl2")[:1]:
        # The directory that WSL puts its libraries into, and the name of its kernel: nothing else has them.
        doc.put("system.wsl", 2, index, IMPLIED)
        doc.put("system.os", "linux", index, IMPLIED)
        return
    if doc.draft.values.get("system.os"):
        return
    for index, sentence in _sentences(doc, _OTHER_MACHINE, "wsl"):
        found = 2 if _WSL_ONLY.search(sentence) else systems.wsl_of(sentence)
        if found is not None:
            doc.put("system.wsl", found, index, IMPLIED)
            doc.put("system.os", "linux", index, IMPLIED)
            return


def _mac(doc: Document) -> None:
    """A home directory that only macOS lays out so."""
    if doc.draft.values.get("system.os"):
        return
    for index in doc.find("/library/caches/", "/library/application support/", "/library/frameworks/python.framework"):
        if _MAC_PATH.search(doc.lines[index][:MAX_LENGTH]):
            doc.put("system.os", "macos", index, IMPLIED)
            return


def _container(doc: Document) -> None:
    """ "nvidia-smi works inside the container": the trouble is there."""
    if doc.draft.values.get("system.container"):
        return
    for index in doc.find("container")[:MAX_LINES]:
        match = _INSIDE.search(doc.lines[index][:MAX_LENGTH]) if doc.data[index] != 1 else None
        if match:
            kind = (match["kind"] or "").lower()
            doc.put("system.container", kind if kind in ("docker", "podman", "lxc") else "unknown", index, IMPLIED)
            return


def _version(doc: Document, name: str, needle: str, pattern: Regex) -> None:
    """The one version that the sentences give."""
    if doc.draft.values.get(name):
        return
    found: dict[str, int] = {}
    for index, sentence in _sentences(doc, _OTHER_VERSION, needle):
        for match in pattern.finditer(sentence):
            found.setdefault(match["version"], index)
    labelled = [version for version in found if "+" in version]
    if len(found) == 2 and len(labelled) == 1 and labelled[0].partition("+")[0] in found:
        found = {labelled[0]: found[labelled[0]]}  # once with its label and once without
    if len(found) == 1:
        version, index = next(iter(found.items()))
        doc.put(name, values.torch_version(version) if name == "torch.version" else version, index, IMPLIED)
