"""What people write between the outputs: "Tesla T4 x4, PyTorch 1.3.0, CUDA 10, Python 3.7, Ubuntu 16.04", "mac m2"."""

from __future__ import annotations

import re

from envcheck.captured import gpu_names, keys, readers, systems, values
from envcheck.captured.document import IMPLIED, NOTED, SAID, Document
from envcheck.captured.packages import normal
from envcheck.facts import AmdGpu, CudaToolkit, Distribution, EnvVar
from envcheck.lazy import Regex

_SPLIT = Regex(
    r"\s{0,9}[,;|]\s{1,9}|\s{1,9}[|/+&\u00b7\u2022-]\s{1,9}|\s{1,9}(?:on|with|and|under|running|using|in|inside)\s{1,9}|,"
)
_LEAD = Regex(
    r"^\W{0,6}(?:(?:my |the |our |current |test |system |full )?(?:env(?:ironment)?|setup|specs?|system|machine|hardware|config(?:uration)?|platform|versions?|info(?:rmation)?|tested on|rig|pc|server|instance|host)"
    r"(?: info(?:rmation)?| details)?\s?[:=-]\s|(?:i am |i'm |i )?(?:using|running|have|on)(?: a| an| the)? |on )",
    re.IGNORECASE,
)
_REFUSED = Regex(
    r"error|exception|warning|traceback|failed|cannot|could not|not (?:found|compatible|supported)|^\s*File |^\s*at |^\s*#|\bimport\b|[{}<>]|==|\(\)|https?://",
    re.IGNORECASE,
)
_HINT = Regex(
    r"torch|cuda|python|driver|ubuntu|debian|centos|red ?hat|rhel|rocky|alma|fedora|suse|sles|arch|manjaro|mint|linux|pop!?_?os|amazon|alpine|gentoo|nixos|kali|raspbian|kylin|win(?:dows?)? ?\d"
    r"|windows|mac|os ?x|rtx|gtx|geforce|quadro|tesla|titan|nvidia|radeon|\brx|\bmi\d|vega|strix|\barc\b|intel|amd|ryzen|xeon|apple|\bm[1-5]\b|jetson|jetpack|orin|xavier|thor|\b[ahlvpktb]\d{1,3}s?\b|\bg[bh]\d"
    r"|dgx|wsl|nccl|cudnn|rocm|kernel|colab|kaggle|sagemaker|docker|podman|conda|x86|arm64|aarch64|gfx\d|xformers|flash|triton|numpy|transformers|diffusers|vllm|[A-Z]{2,20}_[A-Z_]{1,40}=",
    re.IGNORECASE,
)
"""A line without one of these words holds no fact that is read here."""
_FULL = r"\s*(?:\((?P<inside>[^()]{1,80})\))?\s*[.!]?$"
_TORCH = Regex(
    rf"^(?:py)?torch(?: version| nightly| build)?[ :=v-]{{1,3}}(?P<version>{values.VERSION})(?:[ -+](?P<label>cu\d{{2,3}}|cpu|rocm[\d.]+|xpu|cuda ?\d\d?\.\d))?(?: nightly| stable)?{_FULL}",
    re.IGNORECASE,
)
_PACKAGE = Regex(
    rf"^(?P<name>torchvision|torchaudio|triton|xformers|flash[-_ ]?attn|flash[-_ ]?attention|numpy|transformers|diffusers|accelerate|vllm|bitsandbytes|deepspeed|apex|mmcv(?:-full)?|cudatoolkit|nccl)[ :=v-]{{1,3}}(?P<version>{values.VERSION}){_FULL}",
    re.IGNORECASE,
)
_PYTHON = Regex(
    r"^(?:c?python|py)(?: version)?[ :=v-]{0,3}(?P<version>[23]\.\d{1,2}(?:\.\d{1,2})?)(?: \(?(?P<extra>conda|venv|virtualenv|64[- ]?bit|32[- ]?bit|x86_64|arm64|aarch64|amd64|anaconda|miniconda|conda-forge|miniforge|free-threaded|native|rosetta)\)?)?(?: .{0,3})?$",
    re.IGNORECASE,
)
_PYTHON_MACHINE = Regex(
    r"^(?P<machine>x86_64|x86-64|intel|arm64|aarch64|32[- ]?bit|64[- ]?bit|native arm64|rosetta)(?: version of)? python(?: (?P<version>3\.\d{1,2}(?:\.\d{1,2})?))?$",
    re.IGNORECASE,
)
_CUDA = Regex(
    rf"^cuda(?: version| toolkit| runtime| driver)?[ :=v-]{{0,3}}(?P<version>\d{{1,2}}(?:\.\d{{1,3}}){{0,2}})(?P<rest>[^\d].{{0,60}})?{_FULL}",
    re.IGNORECASE,
)
_CUDA_LABEL = Regex(r"^(?:\+)?cu(?P<digits>\d{2,3})(?: (?:wheel|build))?$", re.IGNORECASE)
_CUDNN = Regex(r"^cudnn(?: version)?[ :=v-]{0,3}(?P<version>\d[\d.]{0,12})$", re.IGNORECASE)
_DRIVER = Regex(
    r"^(?:nvidia[ -]?|gpu |geforce )?(?:game ready |studio |linux |windows )?(?:driver|drivers)(?: version| branch)?[ :=vR-]{0,3}(?P<version>\d{3}(?:\.\d{1,3}){0,2})(?P<rest>\W.{0,60})?$|^nvidia[ -](?P<other>\d{3}\.\d{1,3}(?:\.\d{1,3})?)$",
    re.IGNORECASE,
)
_JETPACK = Regex(r"^jetpack(?: sdk)?(?: version)?[ :=v-]{0,3}(?P<version>\d\.\d(?:\.\d)?)$", re.IGNORECASE)
_ROCM = Regex(r"^(?:rocm|hip)(?: version)?[ :=v-]{0,3}(?P<version>\d\.\d{1,2}\S{0,20})$", re.IGNORECASE)
_KERNEL = Regex(
    r"^(?:linux )?kernel(?: version)?[ :=v-]{0,3}(?P<version>\d{1,2}\.\d{1,3}[\w.+~-]{0,60})$", re.IGNORECASE
)
_NCCL = Regex(r"^nccl(?: version)?[ :=v-]{0,3}(?P<version>\d\.\d{1,2}(?:\.\d{1,2})?)", re.IGNORECASE)
_CPU = Regex(
    r"^(?:(?:intel(?:\(r\))?|amd)[ -])?(?:core(?:\(tm\))?[ -]|xeon|ryzen|threadripper|epyc|i[3579]-\d|pentium|celeron|ultra \d).{0,80}$",
    re.IGNORECASE,
)
_MACHINE = Regex(
    r"^(?:linux[-_ ]?|macosx?[-_ ]?|osx[-_ ]?|win[-_]?)?(?:x86_64|amd64|x64|aarch64|arm64|x86-64|64[- ]?bit)$",
    re.IGNORECASE,
)
_MISC = Regex(
    r"^(?:(?P<manager>conda|conda-forge|anaconda|miniconda\d?|miniforge\d?|mamba|pip3?|venv|uv|poetry|docker|podman|virtualenv|wheel)(?: (?:env(?:ironment)?|install(?:ed|ation)?|pytorch|torch|package|build|container|wheel)s?){0,2}"
    r"|\d{1,4} ?gi?b(?: (?:of )?(?:v?ram|memory|system ram))?|\d{1,3} gpus?|latest|nightly|single gpu|multi-?gpu|bare ?metal|desktop|laptop|headless|fresh install|clean install|compute capability \d{1,2}\.\d|sm_?\d{2,3})$",
    re.IGNORECASE,
)
_CLOUD = Regex(r"^(?:google )?(?P<name>colab|kaggle|sagemaker)(?: \w{1,12}){0,3}$", re.IGNORECASE)
_SPACED = frozenset(
    ("platform", "machine", "mps_built", "mps_available", "cuda_available", "python_version", "torch_version", "torch.version.cuda", "torch.__version__", "torch.cuda.is_available",
     "sys.platform", "arch", "architecture", "is_cuda_available", "mps_is_built", "torch.backends.mps.is_available", "torch.backends.mps.is_built", "torch.version.hip")
)  # fmt: skip


def parse(doc: Document) -> None:
    """Reads unclaimed short lines whose parts are all facts, and what known keys left over."""
    for index, line in doc.short_lines():
        if len(line) > 220 or not line.strip():
            continue
        if _spaced(doc, line, index):
            continue
        if not _HINT.search(line) or _REFUSED.search(line):
            continue
        body = _LEAD.sub("", line.strip().lstrip("-*\u2022> ").strip("`*"))
        key, _, rest = body.partition(": ")
        if rest and len(key) < 30 and " " not in key.strip() and keys.clean_key(key) in keys.KEYS:
            continue
        if segments(doc, body, index):
            doc.claim(index, errors=True)
    for index, value in doc.mixed:
        _leftovers(doc, value, index)


def _spaced(doc: Document, line: str, index: int) -> bool:
    """ "machine arm64", "mps_built True": a name as a program prints it, a blank, a value."""
    match = re.match(r"^\s{0,8}([A-Za-z_][\w.]{2,40})(?:\(\))?\s{1,40}(\S.{0,120})$", line)
    if not match:
        return False
    key = match[1].lower()
    if key not in _SPACED or (":" in match[2] and key != "platform"):
        return False
    value = match[2].strip()
    if not re.match(
        r"(?:True|False|None|\d|macOS|Linux|Windows|Darwin|darwin|linux|win32|x86_64|arm64|aarch64|AMD64)", value
    ):
        return False
    if keys.read(doc, key, value, index):
        doc.claim(index, errors=True)
        return True
    return False


def segments(doc: Document, text: str, index: int) -> bool:
    """Reads a line made of facts; True when it was one."""
    parts = [part for part in _parts(text) if part]
    if not parts or len(parts) > 14:
        return False
    known = [part for part in parts if _classify(part) is not None]
    if len(known) < len(parts) and (len(known) < 2 or len(parts) - len(known) > 1 + len(parts) // 4):
        return False
    for part in known:
        kind = _classify(part)
        if kind is not None:
            kind(doc, part, index)
    return True


def _parts(text: str) -> list[str]:
    """Splits outside parentheses."""
    holes: list[str] = []

    def hide(match: re.Match[str]) -> str:
        holes.append(match[0])
        return f"\x01{len(holes) - 1}\x02"

    hidden = re.sub(r"\([^()]{0,120}\)", hide, text[:300])
    return [
        re.sub(r"\x01(\d+)\x02", lambda m: holes[int(m[1])], part).strip().strip(".").strip()
        for part in _SPLIT.split(hidden)
    ]


def _leftovers(doc: Document, value: str, index: int) -> None:
    for part in _parts(value)[:14]:
        kind = _classify(part)
        if kind is not None and kind is not _gpu:
            kind(doc, part, index)


def _classify(part: str) -> readers.Handler3 | None:
    """What a part of a line is, as the function that notes it; None when it is no fact by itself."""
    for pattern, handler in _KINDS:
        if pattern.match(part):
            return handler
    found = systems.os_of(part)
    if (
        found is not None
        and found.start <= 2
        and len(part) - found.end <= 24
        and not re.search(r"[a-z]{4,} [a-z]{4,} [a-z]{4,}", part[found.end :])
    ):
        return _os
    chip = gpu_names.apple_chip(part)
    if chip and len(part) <= len(chip) + 16:
        return _apple
    if re.match(r"jetson\b|nvidia jetson\b", part, re.IGNORECASE) and len(part) < 50:
        return _jetson
    gpus = gpu_names.gpus_of(part, expected=True)
    if gpus and gpus[0].start <= 8 and _covers(gpus, part):
        return _gpu
    return None


def _covers(gpus: list[gpu_names.GpuText], part: str) -> bool:
    """Little else stands in the part: a count before, memory or capability in parentheses behind."""
    rest = part[: gpus[0].start] + re.sub(r"\([^()]*\)", "", part[gpus[-1].end :])
    rest = re.sub(
        r"(?i)\b(?:nvidia|amd|gpus?|x|\d{1,4} ?gi?b|vram|mobile|laptop|card|one|two|four|eight|single|dual|with|driver|\d{1,2})\b|[^A-Za-z]",
        "",
        rest,
    )
    return len(rest) <= 6


# --- the kinds ---------------------------------------------------------------------------------------------------------


def _torch(doc: Document, part: str, index: int) -> None:
    match = _TORCH.match(part)
    if not match:
        return
    version = match["version"]
    label = (match["label"] or "").lower().replace("cuda", "cu").replace(" ", "")
    if label and "+" not in version:
        version += "+" + (label.replace(".", "") if label.startswith("cu") else label)
    doc.put("torch.version", values.torch_version(version), index, NOTED)
    inside = match["inside"] or ""
    if inside and not readers.put_cuda_part(
        doc, f"torch {inside}" if re.search(r"cu", inside, re.IGNORECASE) else "", index
    ):
        glued = _CUDA_LABEL.match(inside.strip())
        if glued and "+" not in version:
            doc.put("torch.version", f"{version}+cu{glued['digits']}", index, SAID - 1)


def _package(doc: Document, part: str, index: int) -> None:
    match = _PACKAGE.match(part)
    if match:
        name = (
            normal(match["name"].replace(" ", "-"))
            .replace("flash-attention", "flash-attn")
            .replace("flashattn", "flash-attn")
        )
        if name == "nccl":
            doc.put("torch.nccl", match["version"], index, NOTED)
        else:
            doc.add("distributions", Distribution(name=name, version=match["version"], line=index + 1), index, NOTED)


def _python(doc: Document, part: str, index: int) -> None:
    match = _PYTHON.match(part)
    if match:
        doc.put("python.version", match["version"], index, NOTED)
        extra = (match["extra"] or "").lower()
        if "32" in extra or "64-bit" in extra or "64 bit" in extra:
            doc.put("python.bits", 32 if "32" in extra else 64, index, NOTED)
        elif extra:
            doc.put("python.machine", values.machine(extra, "macos" if extra == "arm64" else None), index, NOTED)
            if "conda" in extra or "forge" in extra:
                doc.put("python.kind", "conda", index, NOTED)


def _python_machine(doc: Document, part: str, index: int) -> None:
    match = _PYTHON_MACHINE.match(part)
    if match:
        text = match["machine"].lower().replace("intel", "x86_64").replace("rosetta", "x86_64")
        if "bit" in text:
            doc.put("python.bits", 32 if "32" in text else 64, index, NOTED)
        else:
            doc.put("python.machine", values.machine(text, "macos" if "arm64" in text else None), index, NOTED)
        doc.put("python.version", match["version"], index, NOTED)


def _cuda(doc: Document, part: str, index: int) -> None:
    match = _CUDA.match(part)
    found = values.cuda_version(match["version"]) if match else None
    if match and found and not readers.put_cuda_part(doc, part, index):
        doc.add("toolchain.cuda_toolkits", CudaToolkit(version=found), index, NOTED)


def _cuda_label(doc: Document, part: str, index: int) -> None:
    match = _CUDA_LABEL.match(part)
    if match:
        digits = match["digits"]
        doc.put("torch.cuda", f"{digits[:-1]}.{digits[-1]}", index, NOTED)


def _cudnn(doc: Document, part: str, index: int) -> None:
    match = _CUDNN.match(part)
    if match:
        doc.put("torch.cudnn", values.dotted_cudnn(match["version"]), index, NOTED)


def _driver(doc: Document, part: str, index: int) -> None:
    match = _DRIVER.match(part)
    if match:
        doc.put("nvidia.driver_version", match["version"] or match["other"], index, NOTED)
        cuda = re.search(r"cuda\D{0,12}(\d{1,2}\.\d)", match["rest"] or "", re.IGNORECASE)
        if cuda:
            doc.put("nvidia.driver_cuda", cuda[1], index, NOTED)


def _rocm(doc: Document, part: str, index: int) -> None:
    match = _ROCM.match(part)
    if match:
        doc.put("amd.rocm_version", values.number(match["version"]) or match["version"], index, NOTED)


def _jetpack(doc: Document, part: str, index: int) -> None:
    match = _JETPACK.match(part)
    if match:
        doc.put("system.jetpack", match["version"], index, NOTED)
        doc.put("system.os", "linux", index, IMPLIED)
        doc.put("system.machine", "aarch64", index, IMPLIED)


def _kernel(doc: Document, part: str, index: int) -> None:
    match = _KERNEL.match(part)
    if match:
        doc.put("system.kernel", match["version"], index, NOTED)
        doc.put("system.wsl", systems.wsl_of_kernel(match["version"]), index, NOTED)
        doc.put("system.os", "linux", index, IMPLIED)


def _nccl(doc: Document, part: str, index: int) -> None:
    match = _NCCL.match(part)
    if match:
        doc.put("torch.nccl", match["version"], index, NOTED)


def _cpu(doc: Document, part: str, index: int) -> None:
    doc.put("system.cpu_model", part, index, NOTED)


def _machine(doc: Document, part: str, index: int) -> None:
    os = (
        "linux"
        if part.lower().startswith("linux")
        else "macos"
        if part.lower().startswith(("mac", "osx"))
        else "windows"
        if part.lower().startswith("win")
        else None
    )
    doc.put("system.os", os, index, NOTED)
    doc.put("system.machine", values.machine(re.sub(r"(?i)^(linux|macosx?|osx|win)[-_ ]?", "", part), os), index, NOTED)


def _misc(doc: Document, part: str, index: int) -> None:
    match = _MISC.match(part)
    manager = (match["manager"] or "").lower() if match else ""
    if manager.startswith(("conda", "anaconda", "miniconda", "miniforge", "mamba")):
        doc.put("python.kind", "conda", index, NOTED)
        if re.search(r"torch", part, re.IGNORECASE):
            channel = "conda-forge" if manager == "conda-forge" else None
            doc.add(
                "distributions",
                Distribution(name="pytorch", manager="conda", channel=channel, line=index + 1),
                index,
                NOTED,
            )
    elif manager in ("docker", "podman"):
        doc.put("system.container", manager, index, NOTED)
    elif re.match(r"(?i)compute capability|sm_?\d", part):
        doc.put("gpu.capability", gpu_names.capability_of(part), index, NOTED)


def _cloud(doc: Document, part: str, index: int) -> None:
    match = _CLOUD.match(part)
    if match:
        doc.put("system.cloud", match["name"].lower(), index, NOTED)
        doc.put("system.os", "linux", index, IMPLIED)


def _os(doc: Document, part: str, index: int) -> None:
    found = systems.os_of(part)
    if found is not None:
        systems.put_os(doc, found, index, NOTED)
    chip = gpu_names.apple_chip(part)
    if chip:
        _apple(doc, part, index)


def _apple(doc: Document, part: str, index: int) -> None:
    doc.put("apple.chip", gpu_names.apple_chip(part), index, NOTED)
    doc.put("system.os", "macos", index, NOTED)
    doc.put("system.machine", "arm64", index, IMPLIED)


def _jetson(doc: Document, part: str, index: int) -> None:
    doc.put("system.jetson_model", part, index, NOTED)
    doc.put("system.os", "linux", index, IMPLIED)
    doc.put("system.machine", "aarch64", index, IMPLIED)


def _gpu(doc: Document, part: str, index: int) -> None:
    readers.put_gpus(doc, part, index, NOTED, expected=True)


def _gfx(doc: Document, part: str, index: int) -> None:
    for gfx in gpu_names.gfx_of(part):
        doc.add("amd.gpus", AmdGpu(gfx=gfx), index, NOTED)


def _env(doc: Document, part: str, index: int) -> None:
    name, _, value = part.partition("=")
    if readers.ALLOWED_ENV.fullmatch(name.strip()):
        doc.add("env", EnvVar(name=name.strip(), value=value.strip()), index, NOTED)


_KINDS: tuple[tuple[Regex, readers.Handler3], ...] = (
    (_TORCH, _torch),
    (_PACKAGE, _package),
    (_PYTHON, _python),
    (_PYTHON_MACHINE, _python_machine),
    (_CUDA, _cuda),
    (_CUDA_LABEL, _cuda_label),
    (_CUDNN, _cudnn),
    (_DRIVER, _driver),
    (_ROCM, _rocm),
    (_JETPACK, _jetpack),
    (_KERNEL, _kernel),
    (_NCCL, _nccl),
    (_CPU, _cpu),
    (_MACHINE, _machine),
    (_CLOUD, _cloud),
    (_MISC, _misc),
    (Regex(r"^gfx\d{3,4}[a-f]?$"), _gfx),
    (Regex(r"^[A-Z][A-Z0-9_]{3,50}=\S{1,200}$"), _env),
)
