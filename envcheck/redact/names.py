"""Names of people and machines, where their place tells what they are."""

from __future__ import annotations

import re

from envcheck.lazy import Regex

USER = "<user>"
HOST = "<host>"
EMAIL = "<email>"


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
    # Homes in directories by first letters (/home/a/alice) or by number (/storage/home/pool1/0/alice).
    Regex(rf"(/(?:home\d{{0,3}}|homes|users)/([A-Za-z])/(?:\2[a-z]{{1,2}}/)?)(\2{_NAME}{{1,63}})(?=/)"),
    Regex(rf"(/storage/home/[\w-]{{1,32}}/\d{{1,2}}/)({_NAME}{{1,64}})"),
    Regex(rf"((?<![\w./:<>-])/users/)([A-Za-z]{_NAME}{{0,63}})"),
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
    # git log; the address behind it is gone by then.
    Regex(
        r"(?m)(^[ \t]{0,8}(?:Author|Commit|Committer|Signed-off-by|Co-authored-by|Reviewed-by):[ \t]{1,8})([^\s<][^<\n]{0,80}?)(?=[ \t]{1,3}<)"
    ),
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
        r"(?m)(^\[ {0,8}\d{1,9}\.\d{1,9}\] )([A-Za-z][\w.-]{0,63})(?= (?:kernel|systemd|sudo|dockerd)(?:\[\d{1,8}\])?: )"
    ),
    Regex(
        r"(?m)(^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[\d.,]{0,8}(?:Z|[+-]\d\d:?\d\d)? )([\w.-]{1,64})(?= (?:kernel|systemd|sudo|dockerd)\b)"
    ),
    Regex(r"(?m)(^|[\s)])([A-Za-z][\w.-]{0,63})(?=:\d{1,8}:\d{1,8} \[\d{1,3}\] NCCL )"),
    Regex(
        r"(?i)(\b(?:connect to|connection to|resolve host|from host|on host|remote host|client|server)[ \t]{1,2}\[)([A-Za-z][\w.-]{0,63})(?=\])"
    ),
    Regex(r"(?i)(\b(?:connect to host|resolve host|could not resolve)[ \t:]{1,3})([\w][\w.-]{0,63})(?=[\s:]|$)"),
    Regex(r"(\b(?:srun|slurmstepd): error: )([A-Za-z][\w.-]{0,63})(?=: task)"),
    # Open MPI: what a process that crashed leaves, and what mpirun says of it.
    Regex(
        r"(?m)(^\[)([A-Za-z][\w.-]{0,63})(?=:\d{2,8}\] (?:\*\*\* (?:Process received|End of error|An error occurred|reported by|on a |MPI_|and )|Signal(?: code)?: |Failing at address|Associated errno|\[ ?\d{1,3}\] |PMIX |mca_|MPI_ABORT|\d{1,6} more process))"
    ),
    Regex(r"(\bon node )([A-Za-z][\w.-]{0,63})(?= exited\b)"),
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


def redact_names(text: str, people: set[str]) -> str:
    """Replaces names where their place tells what they are, and notes the users' for `redact_people`."""

    def user(match: re.Match[str]) -> str:
        name = match[match.lastindex or 2]  # a pattern may need a group of its own before the name
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


def redact_people(text: str, people: set[str]) -> str:
    """Replaces the names found elsewhere where they are a part of a path."""
    names = sorted(name for name in people if len(name) >= 3 and name.lower() not in _NO_PERSON | _SYSTEM_ACCOUNTS)
    names = [name for name in names[:50] if f"packages/{name}" not in text and f"packages\\{name}" not in text]
    if not names:
        return text
    pattern = "|".join(re.escape(name) for name in names)
    return re.sub(rf"(?<=[/\\])(?:{pattern})(?=[/\\\s\"':,)]|$)", USER, text)
