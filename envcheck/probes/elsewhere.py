"""Where torch is when the Python under test has none, and which Python the `pip` command serves: by looking only."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from envcheck.target.choice import on_path, python_of

MAX_PREFIXES = 80
SECONDS = 0.25
"""Time for the whole search: it is a hint, and home directories may lie on a slow network."""

_CONDA_HOMES = ("miniconda3", "anaconda3", "miniforge3", "mambaforge", "micromamba", ".conda", "opt/anaconda3")


def torch_elsewhere(
    python: Path, env: Mapping[str, str], cwd: Path, *, home: Path | None = None, root: Path = Path("/")
) -> tuple[str, ...]:
    """Interpreters of this user's other environments that have a torch beside them, the likeliest first."""
    deadline = time.monotonic() + SECONDS
    own = os.path.realpath(python.parent.parent)
    found: list[str] = []
    seen = {own, os.path.realpath(python.parent)}
    for prefix in _prefixes(env, cwd, _home(env) if home is None else home, root):
        if time.monotonic() > deadline or len(seen) > MAX_PREFIXES:
            break
        real = os.path.realpath(prefix)
        if real in seen:
            continue
        seen.add(real)
        if has_torch(prefix):
            found.append(str(python_of(prefix) or prefix))
    return tuple(found)


def _home(env: Mapping[str, str]) -> Path:
    return Path(env.get("HOME") or env.get("USERPROFILE") or os.path.expanduser("~"))


def _prefixes(env: Mapping[str, str], cwd: Path, home: Path, root: Path) -> Iterator[Path]:
    """Directories that may be environments."""
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        if env.get(name):
            yield Path(env[name])
    for directory in (cwd, *list(cwd.parents)[:3]):
        for name in (".venv", "venv", "env"):
            yield directory / name
    for python in on_path(env, cwd):
        yield Path(os.path.realpath(python)).parent.parent
        yield python.parent.parent
    conda = Path(env["CONDA_EXE"]).parent.parent if env.get("CONDA_EXE") else None
    bases = [conda] if conda else []
    bases += [home / name for name in _CONDA_HOMES] + [root / "opt/conda", root / "opt/miniconda3"]
    for base in bases:
        yield base
        yield from _children(base / "envs")
    yield from _listed_by_conda(home)
    pyenv = Path(env.get("PYENV_ROOT") or home / ".pyenv")
    yield home / ".local"
    for folder in (pyenv / "versions", home / ".virtualenvs", home / ".local/share/uv/python", home / "envs"):
        yield from _children(folder)
    yield from (root / "usr", root / "usr/local")


def _children(directory: Path) -> list[Path]:
    try:
        return sorted(p for p in directory.iterdir() if p.is_dir())
    except OSError:
        return []


def _listed_by_conda(home: Path) -> list[Path]:
    try:
        text = (home / ".conda" / "environments.txt").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return [Path(line.strip()) for line in text.splitlines() if line.strip()]


def has_torch(prefix: Path) -> bool:
    """A torch package lies in one of the package directories of a prefix."""
    folders = [prefix / "Lib" / "site-packages"]
    for library in ("lib", "lib64"):
        folders += sorted((prefix / library).glob("python3*/site-packages"))
    if prefix.name == "usr":  # Debian's Python keeps its packages in folders of another name, also below /usr/local
        folders += sorted(prefix.glob("lib/python3*/dist-packages")) + sorted(
            prefix.glob("local/lib/python3*/dist-packages")
        )
    return any((folder / "torch" / "version.py").is_file() for folder in folders)


def pip_python(env: Mapping[str, str], python: Path, version: str | None) -> str | None:
    """Version of the Python that `pip` on PATH installs for; None when it cannot be read from the file.

    `version` is that of `python`, the interpreter under test.
    """
    found = shutil.which("pip", path=env.get("PATH", ""))
    if found is None:
        return None
    script = Path(found)
    if script.parent.name == "shims":
        return None  # a version manager decides at each call
    if os.path.realpath(script.parent) == os.path.realpath(python.parent):
        return version
    interpreter = _interpreter_of(script)
    if interpreter is None:
        return None
    if os.path.normcase(os.path.abspath(interpreter)) == os.path.normcase(os.path.abspath(python)):
        return version
    return version_of(interpreter)


def _interpreter_of(script: Path) -> Path | None:
    """What the first line of a script names, also in the form of three lines that long paths need."""
    try:
        with script.open("rb") as file:
            head = file.read(2048).decode("utf-8", "replace")
    except OSError:
        return None
    quoted = re.search(r"^'''exec' \"([^\"\n]+)\"", head, re.M) or re.search(r"^'''exec' (/\S+)", head, re.M)
    plain = re.match(r"#!\s*(/[^\n]*?)(?:\s+-\w+)?\s*\n", head)
    match = quoted or plain
    if match is None or "python" not in match.group(1).rpartition("/")[2] or match.group(1).startswith("/usr/bin/env"):
        return None
    return Path(match.group(1))


def version_of(python: Path) -> str | None:
    """Version of an interpreter from what lies around it: pyvenv.cfg, its real name, its library directory."""
    prefix = python.parent.parent
    try:
        config = (prefix / "pyvenv.cfg").read_text(encoding="utf-8", errors="replace")
    except OSError:
        config = ""
    match = re.search(r"^version(?:_info)?\s*=\s*(\d+\.\d+(?:\.\d+)?)", config, re.M)
    if match is None:
        match = re.search(r"python(\d+\.\d+)$", os.path.realpath(python))
    if match:
        return match.group(1)
    libraries = sorted((prefix / "lib").glob("python3.*"))
    return libraries[0].name.removeprefix("python") if len(libraries) == 1 else None
