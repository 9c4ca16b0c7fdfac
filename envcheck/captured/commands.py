"""Command lines in a paste: what was run, what it asked for, which variables it set, and what it printed."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from envcheck.captured import systems, values
from envcheck.captured.document import IMPLIED, LISTED, SAID, SMALL, Document, word_set
from envcheck.captured.readers import ALLOWED_ENV
from envcheck.facts import EnvVar
from envcheck.lazy import Regex

_KNOWN = (
    r"(?:sudo|pip[23]?(?:\.\d{1,2})?|conda|mamba|micromamba|pixi|python[\w.]*|py|uv|uvx|poetry|pdm|pipenv|nvidia-smi|nvcc|docker|docker-compose|nvidia-docker|podman|singularity"
    r"|apptainer|kubectl|srun|sbatch|torchrun|accelerate|deepspeed|mpirun|export|set|setx|unset|echo|env|printenv|which|where|whereis|type|ls|ll|dir|cat|head|tail|grep|uname"
    r"|arch|lspci|lscpu|lsmod|lsb_release|dmesg|journalctl|ldd|ldconfig|locate|find|strings|nm|readelf|objdump|gcc|g\+\+|cmake|ninja|make|git|cd|source|bash|sh|apt|apt-get|dnf|yum|zypper"
    r"|pacman|brew|dpkg|rpm|rocminfo|rocm-smi|rocm-sdk|amd-smi|clinfo|sycl-ls|xpu-smi|hipcc|hipconfig|sw_vers|system_profiler|sysctl|ulimit|df|free|id|groups|getenforce|mokutil|modprobe"
    r"|systemctl|service|ssh|wsl|ver|systeminfo|wget|curl|chmod|chown|ln|mkdir|rm|vllm|comfy|jupyter|ipython|nproc|module|watch|nsys|ncu|cuda-memcheck|compute-sanitizer|tegrastats"
    r"|jetson_release|nvidia-[\w-]+|dcgmi|ibstat|\./[\w./-]+|[A-Z_]{2,30}=\S+ )"
)
_COMMAND = Regex(rf"{_KNOWN}(?=\s|$|;|\|)")
_ENVS = r"(?:\([\w .:/~+@-]{1,60}\)\s{0,2}){0,3}"
_PROMPTS = (
    Regex(
        rf"^\s{{0,8}}{_ENVS}[\w.<>-]{{1,40}}@[\w.<>-]{{1,64}}[: ][^$#%>\n]{{0,120}}[$#%>]\s{{1,4}}(?P<command>\S.*)$"
    ),
    Regex(rf"^\s{{0,8}}{_ENVS}\[[^\]\n$]{{1,80}}\][^$#%\n]{{0,20}}[$#%]\s{{0,4}}(?P<command>\S.*)$"),
    Regex(rf"^\s{{0,8}}{_ENVS}(?:PS\s)?[A-Za-z]:[\\/][^>\n]{{0,200}}>\s{{0,4}}(?P<command>\S.*)$"),
    Regex(rf"^\s{{0,8}}{_ENVS}(?:~|[\w./~-]{{1,80}}\s?)?\$\s{{1,4}}(?P<command>\S.*)$"),
    Regex(r"^\s{0,8}(?:bash|sh|zsh)-\d\.\d\d?[$#]\s{0,4}(?P<command>\S.*)$"),
    Regex(r"^\s{0,8}[\w.<>-]{1,64}:[^\s:$#]{1,80} [\w.<>-]{1,32}[$%#]\s{1,4}(?P<command>\S.*)$"),
)
_WEAK_PROMPT = Regex(
    rf"^\s{{0,8}}{_ENVS}(?:[>#%!\u276f\u279c\u03bb]|>>|\u279c\s+\S{{1,40}}|/ #|~ #|-\s`?)\s{{0,4}}(?P<command>{_KNOWN}(?:\s.*)?)$"
)
_BARE = Regex(
    r"^\s{0,8}`?(?P<command>(?:sudo )?(?:pip[23]?(?:\.\d{1,2})? (?:install|uninstall|list|show|freeze|check|download)|python[\d.]{0,5} -m pip |(?:conda|mamba|micromamba) (?:install|create|list|update|env|activate|info|remove)"
    r"|uv (?:pip|add|sync|venv|run|lock)|poetry (?:add|install|run|update|lock)|pixi (?:add|install|run)|docker (?:run|build|compose|exec|pull)|nvidia-docker |podman run|singularity |apptainer |torchrun "
    r"|accelerate launch|deepspeed |python[\d.]{0,5} -m (?:torch|venv)|apt(?:-get)? install|export [A-Z_]+=|set [A-Z_]+=|\$env:\w+|%pip install|!pip install)[^`\n]{0,2000})`?\s*$"
)
_ASSIGNMENT = Regex(
    r"^\s{0,8}(?:[-*]\s)?(?:export |set |setx |declare -x |\$env:|ENV |SET )?\s?(?P<name>[A-Z][A-Z0-9_]{1,60})\s?[= ]\s?(?P<value>\S.{0,1000})$"
)


@dataclass
class Command:
    """One command line and the lines of its output."""

    index: int
    text: str
    first: int
    """Index of the first line of output."""
    last: int
    """Index behind the last line of output."""
    prompted: bool = True


def command_of(line: str) -> tuple[str, bool] | None:
    """The command in a line and whether a prompt shows it; None when the line is none."""
    if len(line) > 4000:
        return None
    if "$" in line or "#" in line or ">" in line or "%" in line:
        for pattern in _PROMPTS:
            match = pattern.match(line)
            if match:
                command = match["command"].strip()
                plausible = _COMMAND.match(command) or re.match(r"[a-z./~][\w./~-]*(?:\s|$)|\$env:", command)
                return (command, True) if plausible and not command.startswith("...") else None
    match = _WEAK_PROMPT.match(line)
    if match:
        return match["command"].strip(), True
    match = _BARE.match(line)
    if match and not re.match(
        # "nvidia-docker | 2017/03/01 ...": the log of a program with a command's name
        r"^\s*(?:pip install (?:is|was|fails|failed|does)\b|[\w.-]{1,40} \| \d{4}[/-]\d\d)",
        line,
    ):
        return match["command"].strip(), False
    return None


def parse(doc: Document) -> None:
    """Finds the commands, notes what they ask for, and reads the outputs that only the command explains."""
    found = list(_commands(doc))
    for command in found:
        doc.claim(command.index)
        doc.add("commands", command.text, command.index)
        _effects(doc, command)
        _output(doc, command)
    for index, line in doc.short_lines():
        if "=" in line or line.lstrip().startswith(("export ", "set ", "setx ", "ENV ")):
            _assignment(doc, line, index)


def _commands(doc: Document) -> Iterator[Command]:
    starts: list[tuple[int, int, str, bool]] = []
    skip = -1
    for index, line in _candidates(doc):
        if index <= skip:
            continue
        if line.lstrip().startswith((">>>", "...")):
            continue
        found = command_of(line)
        if found is None:
            continue
        text, prompted = found
        last = index
        while text.endswith(("\\", "^", " `")) and last + 1 < len(doc.lines) and last - index < 40:
            last += 1
            text = text[:-1].rstrip() + " " + doc.lines[last].strip()
            doc.claim(last)
        _prompt_hints(doc, line, index)
        skip = last
        starts.append((index, last + 1, text[:2000], prompted))
    for position, (index, first, text, prompted) in enumerate(starts):
        following = starts[position + 1][0] if position + 1 < len(starts) else len(doc.lines)
        yield Command(index, text, first, max(first, min(following, first + 60)), prompted)


def _prompt_hints(doc: Document, line: str, index: int) -> None:
    """A prompt that says where it is: "[container]$", "root@3f2a9c1b7d5e:/workspace#", or a drive of Windows."""
    if re.match(r"^\s{0,8}(?:\([\w .-]{1,40}\)\s)?(?:PS )?[A-Za-z]:\\", line):
        doc.put("system.os", "windows", index, IMPLIED)
    match = re.match(
        r"^\s{0,8}(?:\((?P<env>[\w.:/~+-]{1,60})\)\s)?(?:\[(?P<bracket>[^\]]{1,40})\]|root@(?P<host>[0-9a-f]{12}):)",
        line,
    )
    if not match:
        return
    if match["host"] or (match["bracket"] and re.search(r"container|docker", match["bracket"], re.IGNORECASE)):
        doc.put("system.container", "docker" if match["host"] else "unknown", index, IMPLIED)
        doc.put("system.os", "linux", index, IMPLIED)


def _candidates(doc: Document) -> Iterator[tuple[int, str]]:
    """Lines that may hold a command: long ones too, for `docker run`."""
    if len(doc.lines) <= SMALL:
        yield from ((i, line) for i, line in enumerate(doc.lines) if line and len(line) <= 4000 and doc.data[i] != 1)
        return
    yield from doc.short_lines()


# --- what a command asks for ----------------------------------------------------------------------------------------

_VALUE_OPTIONS = word_set(
    "-i --index-url --extra-index-url -f --find-links -r --requirement -c --constraint -t --target --python --prefix --root --src --platform --python-version"
    " --abi --implementation --proxy --cache-dir --trusted-host --timeout --retries --index --default-index --torch-backend --progress-bar --log --only-binary"
    " --no-binary -n --name -p --channel --upgrade-strategy --source --group -G --extra -E --index-strategy --cert --client-cert --exists-action --config-settings -C"
)
_REQUIREMENT = Regex(r"^[A-Za-z][\w.-]{0,80}(?:\[[\w,.-]{1,80}\])?(?:\s?(?:[<>=!~^]=?=?)\s?[\w.*+!,<>=~^-]{1,80})?$")


def words(command: str) -> list[str]:
    """The words of a command line; an unbalanced quote does not matter."""
    try:
        return shlex.split(command, posix="\\" not in command or "/" in command)
    except ValueError:
        return command.split()


def _effects(doc: Document, command: Command) -> None:
    text = command.text
    _versioned_python(doc, text, command.index)
    for name, value in re.findall(
        r"(?:^|\s|;|-e\s|--env[ =])([A-Z][A-Z0-9_]{2,50})=(\"[^\"\n]{0,300}\"|'[^'\n]{0,300}'|[^\s;|&]{1,300})", text
    ):
        _put_env(doc, name, value, command.index)
    powershell = re.match(r"\$env:(\w{2,60})\s?=\s?(.{1,300})$", text)
    if powershell:
        _put_env(doc, powershell[1], powershell[2], command.index)
    if re.search(
        r"\b(?:docker|podman|nvidia-docker)(?: container)? (?:run|exec)\b|\bdocker-compose (?:run|up)|nvidia-docker run",
        text,
    ):
        if not doc.has(
            "error response from daemon", "docker: error", "error: failed to start container", "crun:", "cdi device"
        ):
            doc.put("system.container", "podman" if "podman" in text else "docker", command.index, IMPLIED)
            doc.put("system.os", "linux", command.index, IMPLIED)
    elif re.search(r"\b(?:singularity|apptainer) (?:run|exec|shell)\b", text):
        doc.put("system.container", "apptainer", command.index, IMPLIED)
    elif re.search(r"\bkubectl (?:exec|run|logs)\b", text):
        doc.put("system.container", "kubernetes", command.index, IMPLIED)
    activated = re.search(r"\b(?:conda|source|mamba) activate (?!.*/)([\w.-]{1,60})", text)
    if activated:
        doc.put("python.conda_env", activated[1], command.index, IMPLIED)
    for requirement in requirements(text):
        doc.add("requested", requirement, command.index)
    _manager(doc, text, command.index)


def _manager(doc: Document, text: str, index: int) -> None:
    match = re.match(r"(?:sudo )?(poetry|uv|conda|mamba|micromamba|pixi|pdm|pipenv)\b", text)
    if match and re.search(r"\b(?:install|add|sync|create|run|pip)\b", text):
        doc.put("python.manager", match[1], index, IMPLIED)


def _versioned_python(doc: Document, text: str, index: int) -> None:
    match = re.match(r"(?:sudo )?python([23]\.\d{1,2})\b", text)
    if match:
        doc.put("python.version", match[1], index, IMPLIED)
    match = re.search(
        r"\b(?:create|install|venv)\b.{0,80}?(?:python[= ]{1,2}=?|--python[ =])([23]\.\d{1,2}(?:\.\d{1,2})?)\b", text
    )
    if match:
        doc.put("python.version", match[1], index, IMPLIED)


def requirements(command: str) -> list[str]:
    """What an install command asks for, as requirement strings."""
    match = re.search(
        r"(?:\bpip[\d.]*|\buv pip|-m pip) install\b|\buv add\b|\bpoetry add\b|\bpdm add\b|\bpipenv install\b", command
    )
    conda = re.search(r"\b(?:conda|mamba|micromamba) (?:install|create|update)\b|\bpixi add\b", command)
    if match is None and conda is None:
        return []
    found = match or conda
    rest = command[found.end() :] if found else ""
    rest = re.split(r"\s(?:&&|\|\||;|\|)\s", rest)[0]
    result: list[str] = []
    skip = False
    for word in words(rest):
        if skip:
            skip = False
            continue
        if word.startswith("-"):
            skip = word in _VALUE_OPTIONS and "=" not in word
            continue
        item = word.strip("\"'`,")
        if conda and not match:
            if conda[0].endswith(("create", "install", "update")) and re.search(
                r"(?:^|\s)-c\s*$", rest[: rest.find(word)]
            ):
                continue
            result.extend(_conda_spec(item))
        elif _REQUIREMENT.match(item):
            result.append(item.replace(" ", ""))
        elif item.endswith(".whl") or ".whl#" in item:
            wheel = re.search(r"([A-Za-z][\w.]*)-(\d[\w.+%]*)-(?:cp|py)", item)
            if wheel:
                result.append(f"{wheel[1].replace('_', '-')}=={wheel[2].replace('%2B', '+')}")
    return result[:60]


def _conda_spec(item: str) -> list[str]:
    name = item.rpartition("::")[2]
    match = re.match(r"^([A-Za-z_][\w.-]{0,80})(?:={1,2}([\d][\w.*]{0,40}))?(?:=[\w.*]{1,60})?$", name)
    if not match:
        return [name] if _REQUIREMENT.match(name) else []
    return [f"{match[1]}=={match[2]}" if match[2] and "*" not in match[2] else match[1]]


def _put_env(doc: Document, name: str, value: str, index: int, rank: int = LISTED) -> None:
    if ALLOWED_ENV.fullmatch(name):
        doc.add("env", EnvVar(name=name, value=value.strip().strip("\"'")), index, rank)


def _assignment(doc: Document, line: str, index: int) -> None:
    """ "NCCL_SOCKET_IFNAME=eth0", "export LD_LIBRARY_PATH=...", a line of `env`."""
    match = _ASSIGNMENT.match(line)
    if match and ALLOWED_ENV.fullmatch(match["name"]) and ("=" in line or line.lstrip().startswith("ENV ")):
        value = match["value"].strip()
        run = re.match(
            r"(\S{1,300})\s{1,4}((?:\w+=\S+ )?(?:python|torchrun|accelerate|pip|deepspeed|bash|sh|nsys|\./|vllm|srun|mpirun)\b.*)$",
            value,
        )
        if run:
            value = run[1]
            doc.add("commands", line.strip(), index)
        if value.lower() in ("<not set>", "n/a", "none", "not set"):
            return
        if value[:1] not in "\"'" and not re.search(r"[\\/]", value):
            value = value.split()[0]  # "NCCL_P2P_DISABLE=1 makes it work"
        _put_env(doc, match["name"], value, index)
        doc.claim(index, errors=True)
        return
    # os.environ["CUDA_VISIBLE_DEVICES"] = "1"
    code = re.match(r"^\s{0,20}os\.environ\[['\"]([A-Z0-9_]{2,60})['\"]\]\s?=\s?['\"]([^'\"\n]{0,200})['\"]", line)
    if code:
        _put_env(doc, code[1], code[2], index)


# --- what a command printed -------------------------------------------------------------------------------------------


def _output(doc: Document, command: Command) -> None:
    text = command.text
    lines = [(i, doc.lines[i].strip()) for i in range(command.first, command.last)]
    shown = [(i, line) for i, line in lines if line]
    first = shown[0] if shown and lines and lines[0][1] else None
    _echoed(doc, text, first, ended=not shown or first is None)
    if first is None:
        if re.search(r"\blsmod\b.{0,40}grep.{0,10}nvidia", text) and command.last < len(doc.lines):
            doc.put("nvidia.kernel_module_loaded", False, command.index, LISTED)
        return
    index, line = first
    if re.search(r"\buname\s+-m\b|^arch$", text):
        doc.put("system.machine", values.machine(line), index, SAID)
    elif re.search(r"\buname\s+-r\b", text) and re.match(r"\d+\.\d+", line):
        doc.put("system.kernel", line, index, SAID)
        doc.put("system.os", "linux", index, LISTED)
        doc.put("system.wsl", systems.wsl_of_kernel(line), index, SAID)
    elif re.search(r"\bulimit -[SH]?n\b", text) and line.isdecimal():
        doc.put("system.open_files_soft", int(line), index, SAID)
    elif re.search(r"^(?:sudo )?getenforce", text):
        doc.put(
            "system.selinux",
            line.lower() if line.lower() in ("enforcing", "permissive", "disabled") else None,
            index,
            SAID,
        )
    elif re.match(r"(?:which|where|whereis|command -v|type) python", text) and ("/" in line or "\\" in line):
        path = re.search(r"(/\S+|[A-Za-z]:\\\S+)", line)
        doc.put("python.executable", path[1] if path else None, index, SAID)
        doc.claim(index)
    elif re.search(r"\brocm-sdk targets\b", text):
        found = re.findall(r"gfx\d{3,4}[a-f]?", line)
        if found:
            doc.put("torch.arch_list", tuple(dict.fromkeys(found)), index, LISTED)
            doc.claim(index)
    elif re.match(r"groups\b", text) and re.fullmatch(r"[\w .-]{2,300}", line):
        _groups(doc, line.split(), index)
    elif re.search(r"\bcat /proc/sys/fs/file-max", text):
        doc.claim(index)
    if re.search(r"strings\b.{0,200}grep.{0,12}GLIBCXX", text):
        _glibcxx(doc, command)


def _echoed(doc: Document, text: str, first: tuple[int, str] | None, *, ended: bool) -> None:
    """`echo $LD_LIBRARY_PATH`, `echo %PATH%`, `printenv NAME`: the next line is the value."""
    match = re.match(
        r"(?:echo|printenv|Write-Output)\s+[\"']?(?:\$\{?(?:env:)?|%)?([A-Z][A-Z0-9_]{1,60})[}%\"']*\s*$", text
    )
    if match is None or first is None or ended:
        return
    index, line = first
    if not line.startswith((">>>", "Traceback", "+--")) and len(line) < 2000:
        _put_env(doc, match[1], line, index)
        doc.claim(index)


def _groups(doc: Document, groups: list[str], index: int) -> None:
    names = tuple(word for word in groups if word != ":")
    doc.put("amd.user_groups", names, index, SAID)
    doc.put("intel.user_groups", names, index, SAID)


def _glibcxx(doc: Document, command: Command) -> None:
    found = []
    for index in range(command.first, command.last):
        match = re.fullmatch(r"\s*GLIBCXX_(3\.4(?:\.\d{1,2})?)\s*", doc.lines[index])
        if match:
            found.append(match[1])
            doc.claim(index)
    if found and re.search(r"/usr/lib|/lib", command.text) and not re.search(r"conda|envs|site-packages", command.text):
        newest = max(found, key=lambda v: [int(part) for part in v.split(".")])
        doc.put("system.glibcxx_max", newest, command.index, SAID)
