"""Which interpreter is examined when nobody says, how a person may name one, and in what environment it runs."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from envcheck.errors import TargetError

WINDOWS = os.name == "nt"

# Directories of environments that a tool made for one program (pipx, uv tool, uvx): nobody's working environment.
_TOOL_HOMES = ("pipx/venvs/", "uv/tools/", "uv/archive-v", "uv/environments-v", "pipx/.cache/")


@dataclass(frozen=True)
class Choice:
    """The interpreter under test, why it is this one, and others that a person may have meant."""

    python: Path
    reason: str
    """"--python", "active virtual environment", "active conda environment", "envcheck's own Python", ..."""
    others: tuple[Path, ...] = ()
    """What `python` and `python3` on PATH start, when that is another environment."""


def choose(named: str | Path | None = None, env: Mapping[str, str] | None = None, cwd: Path | None = None) -> Choice:
    """The interpreter to examine.

    In order: the one that was named; that of the active virtual or conda environment (of two, the one that comes first
    on PATH); envcheck's own. Conda's base is active in every shell of many machines without anybody having chosen it,
    so an environment of envcheck's own goes before it. Where a tool runner keeps envcheck in an environment apart, its
    own Python says nothing about the user's: then `.venv` or `venv` of the current directory, or `python` of PATH.

    Raises:
        TargetError: the named one does not exist.
    """
    env = os.environ if env is None else env
    cwd = Path.cwd() if cwd is None else cwd
    if named is not None:
        return Choice(locate(named, env), "--python")
    python, reason = _default(env, cwd)
    others = tuple(p for p in dict.fromkeys(on_path(env, cwd)) if not _same_environment(p, python))
    return Choice(python, reason, others)


def _default(env: Mapping[str, str], cwd: Path) -> tuple[Path, str]:
    own = Path(sys.executable)
    in_tool = _is_tool_environment(Path(sys.prefix))
    own_environment = not in_tool and (sys.prefix != sys.base_prefix or _is_conda(Path(sys.prefix)))
    for kind, prefix in _active(env):
        python = python_of(prefix)
        if python is None or (in_tool and _same_prefix(prefix, Path(sys.prefix))):
            continue
        base = kind == "conda" and env.get("CONDA_DEFAULT_ENV") == "base"
        if base and own_environment and not _same_prefix(prefix, Path(sys.prefix)):
            continue
        return python, f"active {'conda' if kind == 'conda' else 'virtual'} environment"
    if not in_tool:
        return own, "envcheck's own Python"
    for name in (".venv", "venv"):
        python = python_of(cwd / name)
        if python is not None:
            return python, f"{name} of the current directory"
    for python in on_path(env, cwd):
        if not _same_prefix(python.parent.parent, Path(sys.prefix)):
            return python, "python of PATH"
    return own, "envcheck's own Python"


def _active(env: Mapping[str, str]) -> list[tuple[str, Path]]:
    """Active environments, the one whose programs come first on PATH first."""
    found = [
        (kind, Path(env[name])) for kind, name in (("venv", "VIRTUAL_ENV"), ("conda", "CONDA_PREFIX")) if env.get(name)
    ]
    entries = [os.path.normcase(os.path.normpath(p)) for p in env.get("PATH", "").split(os.pathsep) if p]

    def place(item: tuple[str, Path]) -> int:
        prefix = os.path.normcase(os.path.normpath(item[1]))
        inside = [i for i, entry in enumerate(entries) if entry in (prefix, *_programs(prefix))]
        return min(inside, default=len(entries))

    return sorted(found, key=place)


def _programs(prefix: str) -> tuple[str, ...]:
    return (os.path.join(prefix, "bin"), os.path.normcase(os.path.join(prefix, "Scripts")))


def python_of(prefix: Path) -> Path | None:
    """The interpreter of an environment's directory."""
    names = ("Scripts/python.exe", "python.exe") if WINDOWS else ("bin/python", "bin/python3")
    for name in names:
        if (prefix / name).is_file():
            return prefix / name
    return None


def locate(named: str | Path, env: Mapping[str, str] | None = None) -> Path:
    """The interpreter that a person named by its path, its environment's directory, or a command of PATH.

    Raises:
        TargetError: there is none of that name.
    """
    env = os.environ if env is None else env
    text = os.path.expanduser(str(named))
    path = Path(text)
    if path.is_dir():
        found = python_of(path)
        if found is None:
            raise TargetError(f"{text}: a directory without a Python in it (an environment has one in {_where()})")
        return found.absolute()
    if path.is_file():
        return path.absolute()
    if path.is_symlink():
        raise TargetError(
            f"{text}: a link to {os.readlink(path)}, which is gone: the environment has lost its base Python, make it anew"
        )
    if os.sep not in text and "/" not in text:
        found_on_path = shutil.which(text, path=env.get("PATH"))
        if found_on_path:
            return Path(found_on_path).absolute()
        raise TargetError(f"{text}: no such file here and no such command on PATH")
    raise TargetError(f"{text}: no such file")


def _where() -> str:
    return "Scripts" if WINDOWS else "bin"


def on_path(env: Mapping[str, str], cwd: Path) -> Iterator[Path]:
    """What `python` and `python3` start, a version manager's stand-ins followed to the interpreter behind them."""
    for name in ("python", "python3"):
        found = shutil.which(name, path=env.get("PATH", ""))
        if found is None or "WindowsApps" in found:  # the Microsoft Store's stand-in opens a shop window
            continue
        path = Path(found).absolute()
        if path.parent.name == "shims":
            behind = _behind_shim(name, path.parent.parent, env, cwd)
            if behind is not None:
                yield behind
            continue
        yield path


def _behind_shim(name: str, root: Path, env: Mapping[str, str], cwd: Path) -> Path | None:
    """The interpreter that pyenv's stand-in would start: PYENV_VERSION, .python-version, or the global choice."""
    texts = [env.get("PYENV_VERSION", "").replace(":", "\n")]
    files = [directory / ".python-version" for directory in (cwd, *cwd.parents)] + [root / "version"]
    for file in files:
        try:
            texts.append(file.read_text(encoding="utf-8", errors="replace"))
        except OSError:
            continue
    for text in texts:
        names = [line.split("#")[0].strip() for line in text.split("\n")]
        for version in filter(None, names):
            for candidate in _versions(root / "versions", version):
                if (candidate / "bin" / name).is_file():
                    return candidate / "bin" / name
        if any(names):
            return None
    return None


def _versions(directory: Path, version: str) -> list[Path]:
    """The version of that name, or the newest 3.12.x for "3.12"."""
    if "/" in version or version in (".", "..", "system"):
        return []
    prefixed = sorted(
        directory.glob(version.replace("[", "") + ".*"), key=lambda p: [len(p.name), p.name], reverse=True
    )
    return [directory / version, *prefixed]


def child_environment(python: Path, env: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment for a child of that interpreter: the user's own, with two exceptions.

    `__PYVENV_LAUNCHER__` is dropped, which macOS' launcher sets for envcheck's Python and which would make another one
    believe that it is that one. On Windows the directories that activating a conda environment puts on PATH are
    put there, because its Python cannot load its own DLLs without them and nobody uses it so.
    """
    full = dict(os.environ if env is None else env)
    full.pop("__PYVENV_LAUNCHER__", None)
    prefix = python.parent
    if WINDOWS and _is_conda(prefix) and not _same_prefix(Path(full.get("CONDA_PREFIX", "")), prefix):
        inside = ("", "Library/mingw-w64/bin", "Library/usr/bin", "Library/bin", "Scripts")
        full["PATH"] = os.pathsep.join([*(str(prefix / name) for name in inside), full.get("PATH", "")])
    return full


def _is_conda(prefix: Path) -> bool:
    return (prefix / "conda-meta").is_dir()


def _is_tool_environment(prefix: Path) -> bool:
    text = str(prefix).replace("\\", "/") + "/"
    return any(home in text for home in _TOOL_HOMES)


def _same_prefix(one: Path, other: Path) -> bool:
    return os.path.normcase(os.path.realpath(one)) == os.path.normcase(os.path.realpath(other))


def _same_environment(one: Path, other: Path) -> bool:
    """Two programs of one environment: `bin/python` and `bin/python3` are, a venv's and its base's are not."""
    return _same_prefix(one.parent, other.parent) or os.path.normcase(one.absolute()) == os.path.normcase(
        other.absolute()
    )
