"""Replaces what identifies a person or a machine by placeholders; everything else is left as it is.

Versions, package names, PCI addresses, device names and prose survive. Each expression has bounded repetitions, so the
time is linear in the text, and no placeholder is changed by a second run.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec

from envcheck.facts import Facts
from envcheck.findings import Report
from envcheck.lazy import Regex

USER = "<user>"
HOST = "<host>"
IP = "<ip>"
MAC = "<mac>"
EMAIL = "<email>"
TOKEN = "<token>"  # noqa: S105 - a placeholder
UUID = "<uuid>"


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_NAME = r"[^\s/\\:\"'<>|,;()\[\]{}*?=&%$#@!`]"
"""A character of a user name in a path."""

# Directories that stand where a user name would, and names of accounts that say nothing about a person.
_NO_PERSON = _words(
    "root user users username home shared public default defaults all docker anaconda anaconda2 anaconda3 miniconda "
    "miniconda2 miniconda3 miniforge miniforge3 mambaforge conda mamba bin lib lib64 opt usr local share data work "
    "nobody daemon video render admin administrator site-packages dist-packages python python3 torch envs env venv "
    "src cache tmp temp appdata app project projects workspace linuxbrew"
)

_SYSTEM_ACCOUNTS = _words(
    "root daemon bin sys nobody nogroup video render wheel staff users adm tty disk kvm sudo docker plugdev input "
    "kmem audio cdrom vglusers systemd-network messagebus"
)

# --- secrets -----------------------------------------------------------------------------------------------------

_URL_LOGIN = Regex(r"(?<![\w+.-])([A-Za-z][A-Za-z0-9+.-]{0,20}://)(?!git@)[^\s/@<>\"']{1,300}@")

_TOKENS = Regex(
    r"(?<![A-Za-z0-9_-])(?:"
    r"hf_[A-Za-z0-9]{16,}|gh[pousr]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{16,}|glpat-[A-Za-z0-9_-]{16,}"
    r"|sk-[A-Za-z0-9_-]{16,}|(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Za-z0-9])|xox[abeoprs]-[A-Za-z0-9-]{10,}"
    r"|AIza[A-Za-z0-9_-]{30,}|ya29\.[A-Za-z0-9_-]{16,}|pypi-[A-Za-z0-9_-]{40,}|npm_[A-Za-z0-9]{30,}"
    r"|nvapi-[A-Za-z0-9_-]{20,}|dckr_pat_[A-Za-z0-9_-]{16,}|wandb_v\d_[A-Za-z0-9_]{16,}"
    r"|eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]{4,}"
    r")"
)
_TOKEN_HINTS = ("hf_", "gh", "glpat-", "sk-", "AKIA", "ASIA", "xox", "AIza", "ya29.", "pypi-", "npm_", "nvapi-",
                "dckr_pat_", "wandb_v", "eyJ")  # fmt: skip

_BEARER = Regex(r"(?i)\b(bearer|basic)[ \t]{1,4}([A-Za-z0-9_.~+/=-]{12,})")

# A key that names a secret, then its value. `tokens`, `tokenizer` and `pad_token` are no secrets: see _secret.
_SECRET = Regex(
    r"(?i)(?<![A-Za-z])((?:[a-z0-9]{1,20}[_-]){0,4}"
    r"(api[_-]?key|apikey|access[_-]?key(?:[_-]?id)?|secret(?:[_-]?key)?|private[_-]?key|token|passw(?:or)?d|passphrase|pwd"
    r"|credentials?|auth|signature|sig|account[_-]?key)"
    r"[\"']?)([ \t]{0,3}[:=][ \t]{0,3}|[ \t]{1,3})([\"']?)([^\s\"'&,;<>]{3,400})"
)
_SECRET_HINT = Regex(r"(?i)key|secret|token|passw|passphrase|pwd|credential|auth|sig")
_SPECIAL_TOKENS = Regex(
    r"(?i)(?:^|[_-])(?:pad|eos|bos|unk|sep|cls|mask|image|special|start|end|stop|next|per)[_-]token"
)

# --- names -------------------------------------------------------------------------------------------------------

_EMAIL = Regex(
    r"(?<![\w.+/@-])([\w.+-]{1,64})@((?!lib)[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){0,5}\.[A-Za-z]{2,12})(?![\w@-])"
)
_AT_HOST = Regex(
    r"(^|[\s\[(|>╭─└┌])([A-Za-z_][\w.-]{0,31})@([A-Za-z0-9][\w.-]{0,63})(?=:[\s~/\\$#]|[\]\s)$#%>]|$)", re.MULTILINE
)
_VERSION_LIKE = Regex(r"v?\d{1,9}(?:\.[\w+]{1,40}){0,6}$|main$|master$|latest$|dev$|nightly$|HEAD$")

_LIBRARIES = ("lib", "GLIBC", "CXXABI", "GCC_")
"""What stands behind the @ of a symbol's version."""

_HOMES: tuple[Regex, ...] = (
    # Windows: a name may hold blanks when a separator follows. Separators may be doubled (JSON, repr) or slashes.
    Regex(
        r"(?i)([a-z]:[\\/]{1,4}(?:users|documents and settings)[\\/]{1,4}|/mnt/[a-z]/users/|/cygdrive/[a-z]/users/"
        r"|(?<![\w/])/[a-z]/users/)([^\s\\/:*?\"'<>|]{1,32}(?: [^\s\\/:*?\"'<>|]{1,32}){0,3}(?=[\\/])|[^\s\\/:*?\"'<>|]{1,64})"
    ),
    Regex(
        rf"((?:/export|/storage|/gpfs|/nfs|/mnt|/data|/net|/var|/scratch|/lustre|/fs)?/(?:home\d{{0,3}}|homes|Users)/)({_NAME}{{1,64}})"
    ),
    Regex(
        rf"((?:/run)?/media/|/(?:net)?scratch\d{{0,2}}/(?:users?/)?|/gpfs/users/|/data/users/)({_NAME}{{1,64}})(?=/)"
    ),
    Regex(rf"(torchinductor_|pytest-of-|hsperfdata_)([A-Za-z]{_NAME}{{0,63}})"),
    Regex(rf"((?<=[\s\"'=(])~)([A-Za-z]{_NAME}{{0,63}})(?=/)"),
)
_NAMED: tuple[Regex, ...] = (
    Regex(r"(\b(?:USER|LOGNAME|USERNAME|SUDO_USER|USER_NAME)[ \t]{0,3}[=:][ \t]{0,3}[\"']?)([\w.-]{1,64})"),
    Regex(r"(\buid=\d{1,10}\()([\w.-]{1,64})(?=\))"),
    Regex(r"(\bgid=\d{1,10}\()([\w.-]{1,64})(?=\))"),
    Regex(r"(?i)(\blogged in as:?[ \t]{1,3})([\w.-]{1,64})"),
    Regex(r"(?im)(^[ \t]{0,8}registered (?:owner|organization):[ \t]{1,40})(\S[^\n]{0,80})"),
    Regex(r"(\bsudo -u[ \t]{1,3}|\bchown (?:-R )?|\busermod [^\n]{1,40}[ \t])([a-z_][\w.-]{0,31})(?=[\s:]|$)"),
)
_LISTING = Regex(
    r"^([ \t]{0,8}[-bcdlps][rwxsStT-]{9}[.+@]?[ \t]{1,6}\d{1,6}[ \t]{1,6})([\w.-]{1,32})([ \t]{1,6})([\w.-]{1,32})(?=[ \t])",
    re.MULTILINE,
)

_HOSTS: tuple[Regex, ...] = (
    Regex(
        r"(?m)(^[ \t]{0,8}(?:Linux|Darwin|FreeBSD) )((?!version\b|Kernel\b)[\w.-]{1,64})(?= \d{1,3}\.\d{1,3}[\w.+-]{0,60} )"
    ),
    Regex(r"(\bnode=['\"])([^'\"\n<]{1,64})"),
    Regex(
        r"(?im)(^[ \t]{0,8}(?:static |pretty |transient )?(?:hostname|host name|computer name|nodename|node name|host)"
        r"[ \t]{0,24}[:=][ \t]{0,24})([\w][\w.-]{0,63})(?=[ \t]*$)"
    ),
    Regex(
        r"(\b(?:HOSTNAME|COMPUTERNAME|SLURMD_NODENAME|SLURM_NODELIST|SLURM_JOB_NODELIST|MASTER_ADDR)[=:][ \t]{0,3}[\"']?)([A-Za-z][\w.,\[\]-]{0,99})"
    ),
    Regex(r"(?m)(^[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d )([\w.-]{1,64})(?= [\w./()-]{1,40}(?:\[\d{1,8}\])?:)"),
    Regex(
        r"(?m)(^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[\d.,]{0,8}(?:Z|[+-]\d\d:?\d\d)? )([\w.-]{1,64})(?= (?:kernel|systemd|sudo|dockerd)\b)"
    ),
    Regex(r"(?m)(^|[\s)])([A-Za-z][\w.-]{0,63})(?=:\d{1,8}:\d{1,8} \[\d{1,3}\] NCCL )"),
    Regex(
        r"(?i)(\b(?:connect to|connection to|resolve host|from host|on host|remote host|client|server)[ \t]{1,2}\[)([A-Za-z][\w.-]{0,63})(?=\])"
    ),
    Regex(r"(?i)(\b(?:connect to host|resolve host|could not resolve)[ \t:]{1,3})([\w][\w.-]{0,63})(?=[\s:]|$)"),
    Regex(r"(\b(?:srun|slurmstepd): error: )([A-Za-z][\w.-]{0,63})(?=: task)"),
    Regex(r"(\bslurmstepd-)([A-Za-z][\w.-]{0,63})(?=:)"),
    Regex(r"(\bON )([a-z][\w.-]{0,63})(?= CANCELLED)"),
    Regex(r"(\bssh (?:-[A-Za-z] )?)([a-z][\w-]{1,62}\.[\w.-]{1,63})(?=\s|$)"),
)
_HOST_SHAPES = Regex(
    r"\b(?:DESKTOP|LAPTOP|WIN)-[A-Z0-9]{6,12}\b|\b[A-Za-z]{2,20}s-(?:MacBook|iMac|Mac)(?:-[A-Za-z0-9]{1,10}){0,3}(?:\.[a-z]{2,8})?\b"
    r"|(?<![\w./-])[A-Za-z0-9]{1,20}(?:-[A-Za-z0-9]{1,20}){1,5}\.(?:local|lan|internal)\b"
)
_MAC_PROMPT = Regex(r"(?m)^(<host>|[\w.-]{1,64}):([^\s:]{1,100}) ([a-z_][\w.-]{0,31})([$%#] )")
_WINDOWS_DOMAIN = Regex(r"(?m)(^|[\s\"'(])((?:<host>|[A-Za-z0-9-]{1,15}))\\([a-z][\w.-]{0,31})(?=$|[\s\"')])")

# --- numbers -----------------------------------------------------------------------------------------------------

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


def redact(text: str) -> str:
    """The text without user names, home directories, host names, addresses, e-mails, secrets and UUIDs."""
    people: set[str] = set()
    text = _redact_secrets(text)
    text = _redact_numbers(text)
    text = _redact_names(text, people)
    return _redact_people(text, people)


def redact_facts(facts: Facts) -> Facts:
    """The same facts with every text in them redacted, for sharing."""
    return msgspec.convert(redact_document(msgspec.to_builtins(facts)), type=Facts)


def redact_report(report: Report) -> Report:
    """The same report with every text in it redacted, its facts included."""
    return msgspec.convert(redact_document(msgspec.to_builtins(report)), type=Report)


def redact_document(document: Any) -> Any:
    """A JSON-like value: a name that one text betrays is replaced in all the others too."""
    people: set[str] = set()
    document = _walk(document, "", lambda text: _redact_names(_redact_numbers(_redact_secrets(text)), people))
    return _walk(document, "", lambda text: _redact_people(text, people)) if people else document


_PLAIN_VERSION = Regex(r"v?\d{1,6}(?:\.\w{1,20}){1,6}(?:[+-][\w.]{1,60})?$")
_ADDRESS_KEY = Regex(r"(?i)(?:^|_)(?:ip|addr|address|host|node)(?:$|_)")


def _walk(value: Any, key: str, change: Callable[[str], str]) -> Any:
    """Applies `change` to every string of a JSON-like value, versions that stand alone in a field excepted."""
    if isinstance(value, str):
        if _PLAIN_VERSION.match(value) and not _ADDRESS_KEY.search(key):
            return value
        return change(value)
    if isinstance(value, list | tuple):
        return [_walk(item, key, change) for item in value]
    if isinstance(value, dict):
        if set(value) == {"name", "value"}:  # an environment variable: its name decides how its value is read
            name = str(value["name"])
            return {"name": name, "value": change(f"{name}={value['value']}").partition("=")[2]}
        return {name: _walk(item, name, change) for name, item in value.items()}
    return value


def _redact_secrets(text: str) -> str:
    if "://" in text:
        text = _URL_LOGIN.sub(rf"\1{TOKEN}@", text)
    if "PRIVATE KEY" in text:
        text = _PRIVATE_KEY.sub(rf"\1{TOKEN}\2", text)
    if any(hint in text for hint in _TOKEN_HINTS):
        text = _TOKENS.sub(lambda m: TOKEN if any(c.isdigit() for c in m[0]) else m[0], text)
    if _SECRET_HINT.search(text):
        text = _BEARER.sub(_bearer, text)
        text = _KEY_HEX.sub(rf"\1{TOKEN}", text)
        text = _SECRET.sub(_secret, text)
    return text


_PRIVATE_KEY = Regex(r"(-----BEGIN [A-Z ]{0,20}PRIVATE KEY-----)[A-Za-z0-9+/=\s]{1,8000}(-----END)")
_KEY_HEX = Regex(r"(?i)(\b(?:key|token|secret|password)\b[^\n:=]{0,60}[:=][ \t]{0,4})([0-9a-f]{32,})(?![\w])")
_NO_SECRET = Regex(r"(?i)[<\[{(/$%*.]|[a-z]:[\\/]|none\b|null\b|true\b|false\b|os\.|self\.|xxx|placeholder|your")


def _bearer(match: re.Match[str]) -> str:
    return match[0].replace(match[2], TOKEN) if any(c.isdigit() for c in match[2]) else match[0]


def _secret(match: re.Match[str]) -> str:
    """Decides by the key and the shape of the value: `max_tokens=4096` and `pad_token: [PAD]` are no secrets."""
    key, word, separator, value = match[1], match[2].lower(), match[3], match[5]
    if _NO_SECRET.match(value) or _SPECIAL_TOKENS.search(key):
        return match[0]
    if not separator.strip() and match.string[max(0, match.start() - 2) : match.start()] != "--":
        return match[0]
    if word.startswith(("passw", "pwd", "passphrase")):
        return f"{key}{separator}{match[4]}{TOKEN}"
    has_letter, has_digit = any(c.isalpha() for c in value), any(c.isdigit() for c in value)
    mixed = len(value) >= 8 and has_letter and has_digit and not set(value) & set("()\\")
    if mixed or (word.startswith("secret") and len(value) >= 6):
        return f"{key}{separator}{match[4]}{TOKEN}"
    return match[0]


def _redact_numbers(text: str) -> str:
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


def _redact_names(text: str, people: set[str]) -> str:
    """Replaces names where their place tells what they are, and notes the users' for `_redact_people`."""

    def user(match: re.Match[str]) -> str:
        name = match[2]
        if name.lower().strip() in _NO_PERSON or name.lower() in ("all users", "default user"):
            return match[0]
        people.add(name)
        return f"{match[1]}{USER}"

    def at_host(match: re.Match[str]) -> str:
        if match[2] == "git" or _VERSION_LIKE.match(match[3]) or match[3].startswith(_LIBRARIES):
            return match[0]
        if match[2] in _SYSTEM_ACCOUNTS:
            return f"{match[1]}{match[2]}@{HOST}"
        people.add(match[2])
        return f"{match[1]}{USER}@{HOST}"

    def listing(match: re.Match[str]) -> str:
        owner, group = match[2], match[4]
        if owner not in _SYSTEM_ACCOUNTS and not owner.isdigit():
            people.add(owner)
            owner = USER
        return f"{match[1]}{owner}{match[3]}{group if group in _SYSTEM_ACCOUNTS or group.isdigit() else USER}"

    if "@" in text:
        text = _EMAIL.sub(lambda m: m[0] if m[1] == "git" else EMAIL, text)
        text = _AT_HOST.sub(at_host, text)
    for pattern in _HOMES:
        text = pattern.sub(user, text)
    for pattern in _NAMED:
        text = pattern.sub(user, text)
    text = _LISTING.sub(listing, text)
    for pattern in _HOSTS:
        text = pattern.sub(rf"\1{HOST}", text)
    text = _HOST_SHAPES.sub(HOST, text)
    text = _MAC_PROMPT.sub(rf"{HOST}:\2 {USER}\4", text)
    return _WINDOWS_DOMAIN.sub(rf"\1{HOST}\\{USER}", text)


def _redact_people(text: str, people: set[str]) -> str:
    """Replaces the names found elsewhere where they are a part of a path."""
    names = sorted(name for name in people if len(name) >= 3 and name.lower() not in _NO_PERSON | _SYSTEM_ACCOUNTS)
    names = [name for name in names[:50] if f"packages/{name}" not in text and f"packages\\{name}" not in text]
    if not names:
        return text
    pattern = "|".join(re.escape(name) for name in names)
    return re.sub(rf"(?<=[/\\])(?:{pattern})(?=[/\\\s\"':,)]|$)", USER, text)
