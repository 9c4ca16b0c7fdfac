"""Python sessions: `>>> torch.__version__` and its answer, `python -c "..."`, notebooks, and code with its result behind #."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from envcheck.captured import gpu_names, systems, values
from envcheck.captured.commands import command_of
from envcheck.captured.document import IMPLIED, LISTED, NOTED, SAID, Document
from envcheck.captured.packages import normal
from envcheck.captured.readers import ALLOWED_ENV, put_device
from envcheck.facts import AmdGpu, Distribution, EnvVar, NvidiaGpu, TorchDevice
from envcheck.lazy import Regex

_PROMPT = Regex(r"^\s{0,8}(?:>>>|In ?\[\d{0,5}\]:)\s?(?P<code>.*)$")
_OUT = Regex(r"^\s{0,8}Out ?\[\d{0,5}\]:\s?")
_ONE_LINER = Regex(
    r"python[\w.]*(?:\.exe)?\s(?:-\w\s)?-c\s?(?P<quote>[\"'])(?P<code>.{1,600})(?P=quote)|python[\w.]*\s-c\s(?P<bare>\S.{1,300})$"
)
_STATEMENT_LIKE = Regex(r"^\s{0,8}(?:print\s?\(|\(?[a-z_]\w{0,30}(?:\.\w{1,30}){1,5})")

Setter = Callable[[Document, str, int], None]


def _put(field: str) -> Setter:
    return lambda doc, text, index: doc.put(field, text.strip("'\""), index, SAID)


def _put_bool(field: str) -> Setter:
    return lambda doc, text, index: doc.put(field, text == "True", index, SAID)


def _put_torch(doc: Document, text: str, index: int) -> None:
    doc.put("torch.version", values.torch_version(text.strip("'\"")), index, SAID)


def _put_build(field: str) -> Setter:
    def setter(doc: Document, text: str, index: int) -> None:
        doc.put(field, "" if text == "None" else text.strip("'\""), index, SAID)

    return setter


def _put_arch(doc: Document, text: str, index: int) -> None:
    doc.put("torch.arch_list", tuple(re.findall(r"(?:sm|compute)_\w+|gfx\w+", text)), index, SAID)


def _put_capability(doc: Document, text: str, index: int) -> None:
    major, minor = re.findall(r"\d+", text)[:2]
    doc.put("gpu.capability", f"{major}.{minor}", index, SAID)


def _put_name(doc: Document, text: str, index: int) -> None:
    name = text.strip("'\"")
    if 2 < len(name) < 100:
        put_device(doc, "cuda", sum(1 for v in doc.draft.lists.get("torch.devices", ()) if v.rank == SAID), name, index)


def _put_location(doc: Document, text: str, index: int) -> None:
    path = text.strip("[]'\"() ").removeprefix("_NamespacePath([").strip("'\"")
    if re.search(r"[/\\]", path):
        doc.put("torch.location", re.sub(r"[/\\]__init__\.pyc?$", "", path), index, SAID)


def _put_nccl(doc: Document, text: str, index: int) -> None:
    doc.put("torch.nccl", ".".join(re.findall(r"\d+", text)[:3]), index, SAID)


def _put_cudnn(doc: Document, text: str, index: int) -> None:
    doc.put("torch.cudnn", values.dotted_cudnn(text), index, SAID)


def _put_xpu(doc: Document, text: str, index: int) -> None:
    doc.put("torch.xpu", "yes" if text == "True" else "", index, SAID)


def _put_python(doc: Document, text: str, index: int) -> None:
    values.put_python(doc, text, index, SAID)


def _put_platform(doc: Document, text: str, index: int) -> None:
    found = systems.os_of(text)
    if found is not None:
        systems.put_os(doc, found, index, SAID)


def _put_machine(doc: Document, text: str, index: int) -> None:
    doc.put("python.machine", values.machine(text, doc.draft.first("system.os")), index, SAID)


def _put_bits(doc: Document, text: str, index: int) -> None:
    match = re.search(r"32|64", text)
    doc.put("python.bits", int(match[0]) if match else None, index, SAID)


def _put_maxsize(doc: Document, text: str, index: int) -> None:
    doc.put("python.bits", 64 if text == "True" else 32, index, SAID)


def _put_count(doc: Document, text: str, index: int) -> None:
    doc.put("torch.device_count", int(text), index, SAID)


def _put_home(doc: Document, text: str, index: int) -> None:
    doc.put("toolchain.cuda_home", "" if text == "None" else text.strip("'\""), index, SAID)


_BOOL, _VERSION, _INT = r"True|False", rf"['\"]?v?{values.VERSION}['\"]?", r"\d{1,9}"
_MAYBE_VERSION = rf"None|['\"]?{values.VERSION}['\"]?"
_STRING = r"['\"]?[^'\"\n<>]{2,200}['\"]?"
EXPRESSIONS: tuple[tuple[Regex, Regex, Setter], ...] = tuple(
    (Regex(expression), Regex(rf"(?:{answer})\s?,?$"), setter)
    for expression, answer, setter in (
        (r"torch\.__version__|torch\.version\.__version__", _VERSION, _put_torch),
        (r"torch\.version\.cuda", _MAYBE_VERSION, _put_build("torch.cuda")),
        (r"torch\.version\.hip", rf"{_MAYBE_VERSION}|['\"]?[\d.]+-[0-9a-f]+['\"]?", _put_build("torch.hip")),
        (r"torch\.cuda\.is_available(?:\(\))?", _BOOL, _put_bool("torch.cuda_available")),
        (r"torch\.cuda\.device_count\(\)", _INT, _put_count),
        (r"torch\.cuda\.get_device_name\([^()]*(?:\([^()]*\))?[^()]*\)", _STRING, _put_name),
        (r"torch\.cuda\.get_device_capability\([^()]*\)", r"\(\d{1,2}, ?\d\)", _put_capability),
        (r"torch\.cuda\.get_arch_list\(\)", r"\[[^\[\]]*\]", _put_arch),
        (r"torch\.backends\.cudnn\.version\(\)", r"\d{4,6}|None", _put_cudnn),
        (
            r"torch\.backends\.mps\.is_available\(\)|torch\.mps\.is_available\(\)",
            _BOOL,
            _put_bool("torch.mps_available"),
        ),
        (r"torch\.backends\.mps\.is_built\(\)|torch\.has_mps", _BOOL, _put_bool("torch.mps_built")),
        (r"torch\.xpu\.is_available\(\)", _BOOL, _put_bool("torch.xpu_available")),
        (r"torch\.xpu\._is_compiled\(\)", _BOOL, _put_xpu),
        (r"torch\.(?:__file__|__path__)", r"\[?['\"]?(?:/|[A-Za-z]:|~|_Name)[^\n]{2,300}", _put_location),
        (r"torch\.cuda\.nccl\.version\(\)", r"\(\d+, ?\d+, ?\d+\)|\d{4,6}", _put_nccl),
        (r"torch\._C\._GLIBCXX_USE_CXX11_ABI|torch\.compiled_with_cxx11_abi\(\)", _BOOL, _put_bool("torch.cxx11_abi")),
        (r"(?:torch\.utils\.)?cpp_extension\.CUDA_HOME|CUDA_HOME", r"None|['\"]?/[^\n]{2,200}", _put_home),
        (r"sys\.version", r"['\"]?[23]\.\d[^\n]{3,200}", _put_python),
        (r"platform\.python_version\(\)", _VERSION, _put_python),
        (r"sys\.executable", r"['\"]?(?:/|[A-Za-z]:)[^\n]{3,200}", _put("python.executable")),
        (r"platform\.platform\(\)", _STRING, _put_platform),
        (r"platform\.machine\(\)|platform\.processor\(\)", r"['\"]?\w{3,10}['\"]?", _put_machine),
        (r"platform\.architecture\(\)(?:\[0\])?", r"\(?['\"]?(?:32|64)bit[^\n]*", _put_bits),
        (r"struct\.calcsize\(['\"]P['\"]\) ?\* ?8|8 ?\* ?struct\.calcsize\(['\"]P['\"]\)", r"32|64", _put_bits),
        (r"sys\.maxsize ?> ?2 ?\*\* ?32", _BOOL, _put_maxsize),
    )
)
_MODULE_VERSION = Regex(r"([a-z_]\w{1,40})\.(?:__version__|version\.__version__|version\.VERSION)$")
_ALIASES = {
    "np": "numpy",
    "pd": "pandas",
    "tv": "torchvision",
    "cv2": "opencv-python",
    "pl": "pytorch-lightning",
    "flash_attn": "flash-attn",
    "ipex": "intel-extension-for-pytorch",
}
_ENV_READ = Regex(r"os\.(?:environ(?:\.get)?[\[(]|getenv\()['\"]([A-Z0-9_]{2,60})['\"]")


def parse(doc: Document) -> None:
    """Reads sessions, one-liners, notebooks and results in comments."""
    if doc.has(">>>", "in [", "in["):
        _session(doc)
    if doc.has("-c "):
        _one_liners(doc)
    _properties(doc)
    if doc.has("torch.", "sys.", "platform.", "__version__"):
        _loose(doc)


def _session(doc: Document) -> None:
    starts = [i for i in doc.find(">>>", "in [", "in[") if _PROMPT.match(doc.lines[i])]
    for position, index in enumerate(starts):
        match = _PROMPT.match(doc.lines[index])
        if match is None:
            continue
        following = starts[position + 1] if position + 1 < len(starts) else len(doc.lines)
        code, first = match["code"], index + 1
        while first < following and first - index < 30 and re.match(r"^\s{0,8}\.\.\.", doc.lines[first]):
            first += 1
        doc.claim(index, errors=True)
        _answers(doc, code, first, min(following, first + 40), index)


def _one_liners(doc: Document) -> None:
    for index in doc.find('-c "', "-c '", "-c print", "-c import"):
        match = _ONE_LINER.search(doc.lines[index])
        if match:
            code = match["code"] or match["bare"] or ""
            _answers(doc, code, index + 1, min(len(doc.lines), index + 40), index)


def _answers(doc: Document, code: str, first: int, last: int, index: int) -> None:
    """Pairs what the code prints with the lines behind it."""
    comment = code.partition("#")[2].strip() if "#" in code and "'#" not in code and '"#' not in code else ""
    for expression in printed(code.partition("#")[0] if comment else code):
        at = first
        if comment and _assign(doc, expression, comment, index):
            continue
        while at < last:
            line = _OUT.sub("", doc.lines[at])
            if line.lstrip().startswith((">>>", "Traceback")) or (command_of(line) is not None and line.strip()):
                last = at
                break
            if (len(expression) > 1 and _assign_several(doc, expression, line, at)) or _assign(
                doc, expression, line, at
            ):
                doc.claim(at)
                first = at + 1
                break
            at += 1


def printed(code: str) -> list[tuple[str, ...]]:
    """What each statement of a line prints: "import torch; print(a, b); c" -> [("a", "b"), ("c",)]."""
    result = []
    for statement in _split(code, ";"):
        statement = statement.strip()
        if not statement or statement.startswith(("import ", "from ", "def ", "for ", "if ", "with ")):
            continue
        call = re.match(r"print\s?\((.*)\)$", statement) or re.match(r"print (.*)$", statement)
        inner = call[1] if call else statement
        if call is None and re.match(r"\w+\s?=[^=]", statement):
            continue
        parts = tuple(
            part.strip()
            for part in _split(inner, ",")
            if part.strip() and not re.match(r"(?:end|sep|flush|file)=", part.strip())
        )
        if parts:
            result.append(parts)
    return result[:20]


def _split(text: str, separator: str) -> Iterator[str]:
    """Splits at the separators that stand outside brackets and quotes."""
    depth, quote, start = 0, "", 0
    for position, character in enumerate(text):
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        elif character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
        elif character == separator and depth <= 0:
            yield text[start:position]
            start = position + 1
    yield text[start:]


def _assign(doc: Document, parts: tuple[str, ...], line: str, index: int) -> bool:
    """One expression, one answer on the line."""
    expressions = [part for part in parts if not re.match(r"f?[\"']", part)]
    if len(expressions) != 1:
        return False
    label = next((part.strip("\"'f") for part in parts if re.match(r"f?[\"']", part)), "")
    answer = line.strip()
    if label and answer.startswith(label.strip()):
        answer = answer[len(label.strip()) :].strip()
    return _set(doc, expressions[0], answer, index)


def _assign_several(doc: Document, parts: tuple[str, ...], line: str, index: int) -> bool:
    """`print(a, b)` or `a, b`: "2.6.0 True", "('2.6.0', True)"."""
    expressions = [part for part in parts if not re.match(r"f?[\"']", part)]
    if len(expressions) < 2:
        return False
    text = line.strip()
    for part in parts:
        if re.match(r"f?[\"']", part):
            text = text.replace(part.strip("f\"'").strip(), " ")
    answers = [a.strip("() ") for a in text.split(",")] if text.startswith("(") else text.split()
    if len(answers) < len(expressions):
        return False
    done = False
    for position, expression in enumerate(expressions):
        last = position == len(expressions) - 1
        answer = " ".join(answers[position:]) if last and not text.startswith("(") else answers[position]
        if not _set(doc, expression, answer, index):
            return done
        done = True
    return done


def _set(doc: Document, expression: str, answer: str, index: int) -> bool:
    answer = answer.strip()
    expression = re.sub(r"^(?:print|str|repr)\s?\((.*)\)$", r"\1", expression.strip())
    for pattern, shape, setter in EXPRESSIONS:
        if pattern.fullmatch(expression):
            if not shape.match(answer):
                return False
            setter(doc, answer.rstrip(",").rstrip(), index)
            return True
    module = _MODULE_VERSION.fullmatch(expression)
    if module and re.fullmatch(_VERSION, answer):
        name = _ALIASES.get(module[1], normal(module[1]))
        if name not in ("sys", "platform", "torch"):
            doc.add("distributions", Distribution(name=name, version=answer.strip("'\" "), line=index + 1), index, SAID)
        return True
    variable = _ENV_READ.match(expression)
    if variable and ALLOWED_ENV.fullmatch(variable[1]):
        if answer not in ("None", ""):
            doc.add("env", EnvVar(name=variable[1], value=answer.strip("'\"")), index, SAID)
        return True
    return False


_SAID_SO = Regex(
    r"(torch\.(?:__version__|version\.(?:cuda|hip)|cuda\.(?:is_available|device_count|get_arch_list|get_device_capability)\(\d?\)|cuda\.is_available"
    r"|backends\.(?:mps\.is_(?:available|built)|cudnn\.version)\(\)|xpu\.(?:is_available|_is_compiled)\(\)|compiled_with_cxx11_abi\(\))"
    r"|torch\._C\._GLIBCXX_USE_CXX11_ABI|platform\.(?:machine|platform|python_version)\(\)|sys\.version|sys\.executable|\w{2,30}\.__version__)"
    r"[`'\")\s]{0,4}(?:(?:always |still |just |also |only )?(?:returns?|returned|returning|gives?|is|was|prints?|says|shows|outputs?)(?: always| still| just)?|(?=[Tt]rue\b|[Ff]alse\b)|=>|->|={1,3}|:|#|\u2192|\uff1a)\s{0,3}[`*]{0,2}(?P<answer>(?:[Tt]rue|[Ff]alse|None)\b|\[[^\]\n]{0,300}\]"
    # "gives 2.4.1+cpu, but I have ...": the rest of the sentence may say more.
    r"|\d\.[\w.+]{1,30}(?=,?\s(?:but|and|with|while|on|in|for|so|I|my)\b|[,;]\s)|[^`*\n]{1,200})"
)


_CONDITION = Regex(r"\b(?:if|whether|when|unless)\s{1,3}[`'\"]{0,2}$", re.IGNORECASE)


def _loose(doc: Document) -> None:
    """Statements without a prompt: `torch.cuda.is_available() returns False`, `print(torch.__version__)` above "1.4.0"."""
    for index in doc.find("torch.", "sys.version", "sys.executable", "platform.", "__version__"):
        line = doc.lines[index]
        if (
            len(line) > 400
            or doc.data[index] == 1
            or _PROMPT.match(line)
            or re.search(r"\b(?:assert|raise|def|File)\b|^\s*(?:if|elif|while|return)\b", line)
        ):
            continue
        said = [m for m in _SAID_SO.finditer(line) if not _CONDITION.search(line[max(0, m.start() - 40) : m.start()])]
        for match in said[:6]:
            answer = match["answer"].strip().rstrip(".;)")
            first = re.match(r"([Tt]rue|[Ff]alse|None)\b", answer)
            short = re.match(r"\[[^\]]*\]|\(\d+, ?\d+\)|['\"][^'\"]+['\"]", answer)
            _set(doc, match[1].strip("`"), first[1].capitalize() if first else short[0] if short else answer, index)
        if said:
            continue
        statement = line.strip().strip("`")
        if (
            index + 1 < len(doc.lines)
            and _STATEMENT_LIKE.match(statement)
            and statement.endswith((")", "__", "cuda", "version", "executable"))
        ):
            _answers(doc, statement, index + 1, min(len(doc.lines), index + 4), index)


_CUDA_PROPERTIES = Regex(
    r"_CudaDeviceProperties\(name='([^']{1,100})', major=(\d{1,2}), minor=(\d), total_memory=(\d{1,9})MB(?:, [^()]{0,200}?gcnArchName='(gfx\w+))?"
)
_XPU_PROPERTIES = Regex(
    r"_XpuDeviceProperties\(name='([^']{1,100})', platform_name='([^']{1,100})', type='(\w+)'(?:, driver_version='([^']{1,40})')?(?:, total_memory=(\d{1,9})MB)?"
)


def _properties(doc: Document) -> None:
    """The repr of a device's properties, wherever it stands."""
    for index in doc.find("deviceproperties("):
        line = doc.lines[index]
        for match in list(_CUDA_PROPERTIES.finditer(line))[:16]:
            memory = int(match[4]) * 1024**2
            if match[5] or {g.vendor for g in gpu_names.gpus_of(match[1], expected=True)} == {"amd"}:
                doc.add("amd.gpus", AmdGpu(name=match[1], gfx=match[5], memory_total=memory), index, SAID)
            else:
                doc.add(
                    "nvidia.gpus",
                    NvidiaGpu(name=match[1], compute_capability=f"{match[2]}.{match[3]}", memory_total=memory),
                    index,
                    NOTED,
                )
                doc.add(
                    "torch.devices",
                    TorchDevice(
                        kind="cuda", name=match[1], compute_capability=f"{match[2]}.{match[3]}", memory_total=memory
                    ),
                    index,
                    SAID,
                )
            doc.claim(index)
        for match in list(_XPU_PROPERTIES.finditer(line))[:16]:
            total = int(match[5]) * 1024**2 if match[5] else None
            doc.add("torch.devices", TorchDevice(kind="xpu", name=match[1], memory_total=total), index, SAID)
            doc.add("intel.gpus", match[1], index, LISTED)
            if match[4]:
                doc.put("intel.driver_version", match[4], index, IMPLIED)
            doc.claim(index)
