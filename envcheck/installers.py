"""Install command lines for pip, uv, conda, mamba, pixi and poetry, right for the shell that they are pasted into.

Pure text: nothing is looked up or run here. An `Order` says what is to be installed and from where, a `Place` says
with which interpreter and in which shell. Index and packages always stand in one command, so that half a command
cannot be copied.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from envcheck.facts import Facts

MANAGERS = ("pip", "uv", "conda", "mamba", "pixi", "poetry")
CONDA_CHANNEL_LAST = (2, 5, 1)
"""Last torch on conda's own channel "pytorch" (pytorch/pytorch issue 138506)."""

_SAFE = re.compile(r"[A-Za-z0-9_@%+=:,./\-]+")
_SAFE_WINDOWS = re.compile(r"[A-Za-z0-9_+=:./\\\-]+")
_PIP_VERBS = (
    "install",
    "uninstall",
    "list",
    "show",
    "check",
    "cache",
    "config",
    "download",
    "index",
    "freeze",
    "debug",
)
_UV_OPTIONS = {"--force-reinstall": "--reinstall", "--no-cache-dir": "--no-cache", "--pre": "--prerelease=allow"}


# -- shells ------------------------------------------------------------------------------------------------------------


def shell_of(os: str | None) -> str:
    """The shell that commands for that system are pasted into: "powershell" on Windows, "posix" elsewhere."""
    return "powershell" if os == "windows" else "posix"


def quote(argument: str, shell: str = "posix") -> str:
    """One argument, quoted only where the shell needs it.

    posix: single quotes keep bash's history (`!=`) and zsh's globbing (`[extra]`, `*`) away. powershell: double quotes,
    which cmd understands as well; a `$` or a backtick inside gets PowerShell's escape.
    """
    if shell == "posix":
        return argument if _SAFE.fullmatch(argument) and not argument.startswith("=") else shlex.quote(argument)
    if _SAFE_WINDOWS.fullmatch(argument):
        return argument
    if shell == "powershell":
        argument = argument.replace("`", "``").replace("$", "`$")
    return '"' + argument.replace('"', '\\"') + '"'


def line(argv: Iterable[str], shell: str = "posix") -> str:
    """A whole command line; in PowerShell a quoted program needs the call operator in front."""
    words = [quote(word, shell) for word in argv]
    if shell == "powershell" and words and words[0].startswith('"'):
        words.insert(0, "&")
    return " ".join(words)


def set_variable(name: str, value: str, command: str, shell: str = "posix") -> str:
    """A command with an environment variable set for it."""
    if shell == "posix":
        return f"{name}={quote(value)} {command}"
    return f'$env:{name} = "{value}"; {command}'


# -- where the command runs --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Place:
    """The interpreter and the shell that a command is for.

    managed: the interpreter belongs to the system (PEP 668) and pip refuses to install into it: a virtual environment
        comes first.
    """

    python: str = "python"
    shell: str = "posix"
    manager: str = "pip"
    conda_prefix: str | None = None
    managed: bool = False
    pipless: bool = False
    """The environment is known to have no pip."""


def place_of(facts: Facts, manager: str | None = None, shell: str | None = None) -> Place:
    """Where commands for these facts are typed.

    A live interpreter is named by its path, unless it is the one of the active environment; a pasted or described one
    is just "python": its path is somebody else's.
    """
    shell = shell or shell_of(facts.system.os)
    manager = manager or manager_of(facts)
    env = facts.python
    active = {_folder(facts.variable("VIRTUAL_ENV")), _folder(facts.variable("CONDA_PREFIX"))} - {None}
    python = "python"
    if facts.origin == "live" and env.executable and _folder(env.prefix) not in active:
        python = env.executable
    elif facts.origin != "live" and env.kind in ("system", None) and facts.system.os != "windows":
        python = "python3"
    prefix = env.conda_prefix if facts.origin == "live" and _folder(env.conda_prefix) not in active else None
    managed = env.externally_managed is True and env.kind not in ("venv", "conda", "uv")
    pipless = facts.origin == "live" and env.pip_version == ""
    return Place(python=python, shell=shell, manager=manager, conda_prefix=prefix, managed=managed, pipless=pipless)


def _folder(path: str | None) -> str | None:
    """A directory without the slash at its end, so that two spellings compare equal."""
    return path.rstrip("/\\") if path else None


def manager_of(facts: Facts) -> str:
    """The installer that belongs to this environment.

    Inside a conda environment that is conda only if its torch came from conda: elsewhere the wheels are what the
    tables know best, and pip in a conda environment is sound as long as torch has one owner.
    """
    made_by = facts.python.manager
    owners = {d.manager for name in ("torch", "pytorch") for d in facts.distributions(name)}
    if made_by in ("pixi", "poetry", "uv"):
        return made_by
    if facts.python.kind == "uv" or (facts.python.pip_version == "" and "uv" in owners):
        return "uv"
    if "conda" in owners or any(d.name == "pytorch" for d in facts.python.distributions or ()):
        return "mamba" if made_by == "mamba" else "conda"
    return "pip"


# -- one pip command ---------------------------------------------------------------------------------------------------


def pip_words(place: Place, *args: str) -> tuple[str, ...]:
    """Words of one pip (or uv pip) call; without a verb, `install` is meant."""
    words = list(args)
    if not words or words[0] not in _PIP_VERBS:
        words.insert(0, "install")
    if place.manager != "uv":
        return (place.python, "-m", "pip", *words)
    if words[0] == "cache":
        return ("uv", *("clean" if w == "purge" else w for w in words))
    words = [_UV_OPTIONS.get(w, w) for w in words if not (words[0] == "uninstall" and w in ("-y", "--yes"))]
    where = () if place.python in ("python", "python3") else ("--python", place.python)
    return ("uv", "pip", words[0], *where, *words[1:])


def pip_line(place: Place, *args: str) -> str:
    """One pip command line for that interpreter and shell."""
    return line(pip_words(place, *args), place.shell)


# -- a whole order -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Package:
    """One package of an order, pinned; `plain` = it comes from PyPI even when the order has an index."""

    name: str
    version: str
    plain: bool = False


@dataclass(frozen=True)
class Order:
    """What is to be installed: torch first, then what goes with it, all from one index (None: plain PyPI).

    installed: names of those packages that the environment already has in the same release as another build: they are
        removed first, since pip takes 2.8.0+cpu for 2.8.0 and does nothing.
    """

    packages: tuple[Package, ...]
    variant: str
    index_url: str | None = None
    python: str | None = None
    cuda: str | None = None
    installed: tuple[str, ...] = ()
    extras: tuple[str, ...] = ()
    """Requirements that go into the same command, such as "numpy<2"."""
    conda_channel: str | None = None
    """"pytorch" or "conda-forge"; None = no conda package is known for this order."""
    conda_cuda: str | None = None
    """CUDA of the conda build, for `cuda-version=` / `pytorch-cuda=`."""

    @property
    def torch(self) -> str:
        """Version of torch."""
        return self.packages[0].version


def commands(order: Order, place: Place) -> tuple[str, ...]:
    """The command lines that carry out an order with the manager of the place."""
    build = {"conda": _conda, "mamba": _conda, "pixi": _pixi, "poetry": _poetry}.get(place.manager, _pip)
    return build(order, place)


def pip_calls(order: Order, place: Place) -> tuple[tuple[str, ...], ...]:
    """The pip (or uv pip) calls of an order as argument vectors, ready to be run."""
    calls: list[tuple[str, ...]] = []
    if place.pipless and place.manager == "pip":
        calls.append((place.python, "-m", "ensurepip", "--upgrade"))
    if order.installed:
        calls.append(pip_words(place, "uninstall", "-y", *order.installed))
    main = [p for p in order.packages if not p.plain]
    calls.append(pip_words(place, "install", *_pins(order, main), *order.extras, *_source(order)))
    plain = [p for p in order.packages if p.plain]
    if plain:
        calls.append(pip_words(place, "install", *(f"{p.name}=={p.version}" for p in plain)))
    return tuple(calls)


def _pip(order: Order, place: Place) -> tuple[str, ...]:
    if not place.managed:
        return tuple(line(call, place.shell) for call in pip_calls(order, place))
    inside = replace(
        place, python=r".venv\Scripts\python.exe" if place.shell != "posix" else ".venv/bin/python", pipless=False
    )
    make = ("uv", "venv", ".venv") if place.manager == "uv" else (place.python, "-m", "venv", ".venv")
    fresh = replace(order, installed=())
    return (line(make, place.shell), *(line(call, place.shell) for call in pip_calls(fresh, inside)))


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(n) for n in re.findall(r"\d+", version.partition("+")[0])[:3])


def _pins(order: Order, packages: Sequence[Package]) -> list[str]:
    # Up to 1.13 the wheels of an index were asked for by their local label, beside PyPI: a bare version could be
    # answered by either. torchaudio carried no label up to 0.13.
    labelled = order.index_url is not None and _numbers(order.torch) < (2, 0)
    return [
        f"{p.name}=={p.version}+{order.variant}" if labelled and p.name != "torchaudio" else f"{p.name}=={p.version}"
        for p in packages
    ]


def _source(order: Order) -> tuple[str, ...]:
    if order.index_url is None:
        return ()
    return ("--extra-index-url" if _numbers(order.torch) < (2, 0) else "--index-url", order.index_url)


def _poetry(order: Order, place: Place) -> tuple[str, ...]:
    lines: list[tuple[str, ...]] = []
    source: tuple[str, ...] = ()
    if order.index_url:
        name = f"pytorch-{order.variant}"
        lines.append(("poetry", "source", "add", "--priority=explicit", name, order.index_url))
        source = ("--source", name)
    main = [p for p in order.packages if not p.plain]
    lines.append(("poetry", "add", *_pins(order, main), *order.extras, *source))
    plain = [p for p in order.packages if p.plain]
    if plain:
        lines.append(("poetry", "add", *(f"{p.name}=={p.version}" for p in plain)))
    return tuple(line(words, place.shell) for words in lines)


def _pixi(order: Order, place: Place) -> tuple[str, ...]:
    lines: list[tuple[str, ...]] = []
    if order.python:
        lines.append(("pixi", "add", f"python={order.python.rstrip('t')}.*"))
    main = [p for p in order.packages if not p.plain]
    index = ("--index", order.index_url) if order.index_url else ()
    lines.append(("pixi", "add", "--pypi", *_pins(order, main), *order.extras, *index))
    plain = [p for p in order.packages if p.plain]
    if plain:
        lines.append(("pixi", "add", "--pypi", *(f"{p.name}=={p.version}" for p in plain)))
    return tuple(line(words, place.shell) for words in lines)


def _conda(order: Order, place: Place) -> tuple[str, ...]:
    if order.conda_channel is None:
        return ()
    build = _conda_old if order.conda_channel == "pytorch" else _conda_forge
    return build(order, place)


def _conda_call(place: Place) -> tuple[str, ...]:
    where = ("-p", place.conda_prefix) if place.conda_prefix else ()
    return (place.manager, "install", *where)


def _conda_old(order: Order, place: Place) -> tuple[str, ...]:
    specs = [f"{'pytorch' if p.name == 'torch' else p.name}=={p.version}" for p in order.packages]
    specs += order.extras
    channels = ["-c", "pytorch"]
    if order.conda_cuda is None:
        if order.variant != "mps":
            specs.append("cpuonly")
    elif _numbers(order.torch) >= (1, 13):
        specs.append(f"pytorch-cuda={order.conda_cuda}")
        channels += ["-c", "nvidia"]
    else:
        specs.append(f"cudatoolkit={order.conda_cuda}")
        if _numbers(order.conda_cuda) >= (11, 1):
            channels += ["-c", "conda-forge"]
    return (line((*_conda_call(place), *specs, *channels), place.shell),)


def _conda_forge(order: Order, place: Place) -> tuple[str, ...]:
    kind = "" if order.variant == "mps" else "=cuda*" if order.conda_cuda else "=cpu*"
    specs = [f"pytorch={order.torch}{kind}"]
    specs += [p.name for p in order.packages[1:]]
    if order.conda_cuda:
        specs.append(f"cuda-version={order.conda_cuda}")
    specs += order.extras
    return (line((*_conda_call(place), "-c", "conda-forge", "--override-channels", *specs), place.shell),)
