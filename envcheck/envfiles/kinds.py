"""The kinds of files: what each is called, which template it has, and what the template is given."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

from envcheck.data import directory
from envcheck.envfiles import docker, lines
from envcheck.envfiles.model import Environment, Package, index_name
from envcheck.matrix import Matrix

if TYPE_CHECKING:
    import jinja2

CHECK = 'python -c "import torch; print(torch.__version__, torch.cuda.is_available())"'


@dataclass(frozen=True)
class File:
    """One file of a kind. `beside`: only written where none of that name is."""

    path: str
    text: str
    beside: bool = False


@dataclass(frozen=True)
class Kind:
    """A kind of file.

    manager: whom the recommendation is made for. conda: it can name conda packages. format: how it is read back.
    """

    name: str
    path: str
    manager: str
    help: str
    conda: bool = False
    format: str = ""
    needs: tuple[str, ...] = ()
    """Kinds that are written beside it where their file is not there."""


KINDS: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind("conda", "environment.yml", "conda", "environment.yml for conda, mamba, micromamba", True, "conda"),
        Kind("requirements", "requirements.txt", "pip", "requirements.txt for pip", format="requirements"),
        Kind("uv", "pyproject.toml", "uv", "pyproject.toml for uv, one for all systems", format="pyproject"),
        Kind("pixi", "pixi.toml", "pixi", "pixi.toml", True, "pixi"),
        Kind("poetry", "pyproject.toml", "poetry", "pyproject.toml for poetry", format="pyproject"),
        Kind("dockerfile", "Dockerfile", "pip", "Dockerfile, not root", format="dockerfile", needs=("requirements",)),
        Kind("devcontainer", ".devcontainer/devcontainer.json", "pip", "dev container", needs=("dockerfile",)),
        Kind("workflow", ".github/workflows/envcheck.yml", "pip", "GitHub workflow", needs=("requirements",)),
        Kind("train", "train.py", "pip", "a seeded training to start from"),
    )
}


def files(kind: Kind, environment: Environment, matrix: Matrix) -> tuple[File, ...]:
    """The files of a kind, its own first."""
    found = [File(kind.path, render(kind, environment, matrix))]
    for name in kind.needs:
        found += [replace(file, beside=True) for file in files(KINDS[name], environment, matrix)]
    if kind.name == "dockerfile":
        found.append(File(".dockerignore", _fill("dockerignore"), beside=True))
    return tuple(found)


def render(kind: Kind, environment: Environment, matrix: Matrix) -> str:
    """The text of a kind's own file."""
    text = _TEXTS[kind.name](environment, matrix)
    return re.sub(r"\n{3,}", "\n\n", text).strip("\n") + "\n"


def _conda(env: Environment, matrix: Matrix) -> str:
    return _fill("environment.yml", env=env, mode=lines.index_mode(env))


def _requirements(env: Environment, matrix: Matrix) -> str:
    groups = [
        ("The torch family, pinned: one index, one build.", env.family),
        ("Asked for by name.", tuple(p for p in env.rest if p.direct)),
        ("What these bring along.", tuple(p for p in env.rest if not p.direct)),
    ]
    mode = lines.index_mode(env)
    if mode == "only":
        # Nothing but the index can answer, so the pins need not name the build.
        groups = [(title, tuple(replace(p, label="") for p in packages)) for title, packages in groups]
    return _fill("requirements.txt", env=env, mode=mode, groups=[g for g in groups if g[1]])


def _without_itself(env: Environment) -> Environment:
    """A pyproject.toml is the project: the folder it lies in is none of its dependencies."""
    return replace(env, packages=tuple(p for p in env.packages if p.url != "."))


def _uv(env: Environment, matrix: Matrix) -> str:
    env = _without_itself(env)
    local = [p for p in env.packages if p.url and not re.match(r"\w+\+|\w+://", p.url)]
    return _fill(
        "uv.pyproject.toml", env=env, sources=lines.sources(env), all_indexes=lines.all_indexes(env), local=local
    )


def _poetry(env: Environment, matrix: Matrix) -> str:
    env = _without_itself(env)
    return _fill("poetry.pyproject.toml", env=env, sources=lines.sources(env), all_indexes=lines.all_indexes(env))


def _pixi(env: Environment, matrix: Matrix) -> str:
    from envcheck.envfiles.model import subdir

    release = matrix.release(env.torch) if env.torch else None
    wheel = matrix.wheels(env.torch, env.os, env.machine) if env.torch else None
    glibc = (release.glibc_x86_64 if env.machine == "x86_64" else release.glibc_aarch64) if release else None
    return _fill(
        "pixi.toml",
        env=env,
        subdir=subdir(env.os, env.machine),
        glibc=(wheel.min_os if wheel and env.os == "linux" else None) or glibc or "2.28",
        macos=(wheel.min_os if wheel and env.os == "macos" else None) or "11.0",
        check=CHECK,
    )


def _train(env: Environment, matrix: Matrix) -> str:
    from pathlib import Path

    import envcheck

    payload = Path(envcheck.__file__).parent / "payloads" / "train_cifar10.py"
    first, rest = payload.read_text(encoding="utf-8").split("\n", 1)
    head = lines.comment(
        [*env.header, "A start for a project: replace the model and the data, keep the practices marked with why:."]
    )
    return f"{first}\n{head}\n{rest}".replace("train_cifar10", "train")


_TEXTS: Mapping[str, Callable[[Environment, Matrix], str]] = {
    "conda": _conda,
    "requirements": _requirements,
    "uv": _uv,
    "poetry": _poetry,
    "pixi": _pixi,
    "train": _train,
    "dockerfile": lambda env, matrix: _fill("Dockerfile", **docker.dockerfile(env, matrix)),
    "devcontainer": lambda env, _: _fill("devcontainer.json", **docker.devcontainer(env)),
    "workflow": lambda env, _: _fill("workflow.yml", env=env, cpu_words=docker.cpu_words(env)),
}


@cache
def _environment() -> jinja2.Environment:
    import jinja2

    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(directory("templates")),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701 - no HTML; each value is quoted by the filter of its format
    )
    made.filters.update(_FILTERS)
    return made


def _fill(name: str, **values: Any) -> str:
    return str(_environment().get_template(f"{name}.jinja").render(**values))


def _dependency(package: Package) -> str:
    """A PEP 508 string of `project.dependencies`: indexes, builds and local folders stand in tool tables."""
    if package.url and not re.match(r"\w+\+|\w+://", package.url):
        return package.name
    return lines.requirement(replace(package, label="", hashes=(), editable=False))


def _poetry_version(spec: str) -> str:
    """PEP 440 as poetry writes it: "==2.8.0" -> "2.8.0" (exactly that; poetry's caret would be another sign)."""
    return spec.removeprefix("==") or "*"


def _poetry_source(package: Package) -> str:
    match = re.fullmatch(r"git\+(.+?)@([0-9a-f]{7,40})(?:#subdirectory=(.+))?", package.url)
    if match:
        tail = f", subdirectory = {lines.toml(match[3])}" if match[3] else ""
        return f"{{ git = {lines.toml(match[1])}, rev = {lines.toml(match[2])}{tail} }}"
    if re.match(r"\w+://", package.url):
        return f"{{ url = {lines.toml(package.url.partition('#')[0])} }}"
    develop = ", develop = true" if package.editable else ""
    return f"{{ path = {lines.toml(package.url)}{develop} }}"


def _pixi_conda(package: Package) -> str:
    version = package.spec.removeprefix("=")
    version = f"=={version}" if package.spec.startswith("=") and package.family else version or "*"
    if package.spec.startswith("=") and not package.family:
        version = f"=={version}" if package.build else f"{version}.*"
    extra = f", build = {lines.toml(package.build)}" if package.build else ""
    extra += f", channel = {lines.toml(package.channel)}" if package.channel not in ("", "conda-forge") else ""
    return f"{package.name} = " + (f"{{ version = {lines.toml(version)}{extra} }}" if extra else lines.toml(version))


def _pixi_pypi(package: Package) -> str:
    if package.url:
        match = re.fullmatch(r"git\+(.+?)@([0-9a-f]{7,40})(?:#subdirectory=(.+))?", package.url)
        if match:
            tail = f", subdirectory = {lines.toml(match[3])}" if match[3] else ""
            return f"{package.name} = {{ git = {lines.toml(match[1])}, rev = {lines.toml(match[2])}{tail} }}"
        if re.match(r"\w+://", package.url):
            return f"{package.name} = {{ url = {lines.toml(package.url)} }}"
        editable = ", editable = true" if package.editable else ""
        return f"{package.name} = {{ path = {lines.toml(package.url)}{editable} }}"
    parts = [f"version = {lines.toml(package.spec or '*')}"]
    parts += [f"extras = [{', '.join(lines.toml(e) for e in package.extras)}]"] if package.extras else []
    parts += [f"index = {lines.toml(package.index)}"] if package.index else []
    return f"{package.name} = " + (f"{{ {', '.join(parts)} }}" if len(parts) > 1 else lines.toml(package.spec or "*"))


_FILTERS: Mapping[str, Callable[..., str]] = {
    "comment": lines.comment,
    "toml": lines.toml,
    "yaml": lines.yaml,
    "requirement": lines.requirement,
    "dependency": _dependency,
    "match_spec": lines.match_spec,
    "index_name": index_name,
    "poetry": _poetry_version,
    "poetry_source": _poetry_source,
    "pixi_conda": _pixi_conda,
    "pixi_pypi": _pixi_pypi,
}
