"""Single packages as the formats write them."""

from __future__ import annotations

import json
from collections.abc import Iterable

from envcheck.envfiles.model import Environment, Package, Platform, variant_of_index


def requirement(package: Package, *, label: bool = True, marker: bool = True) -> str:
    """A line of a requirements file: "torch==2.8.0+cu128 ; sys_platform == 'linux'"."""
    if package.editable:
        return f"-e {package.url}"
    text = package.name + (f"[{','.join(package.extras)}]" if package.extras else "")
    if package.url:
        if not package.url.startswith((".", "/")) and package.url[1:2] != ":":
            text += f" @ {package.url}"
        else:
            return package.url
    else:
        text += package.spec + (f"+{package.label}" if label and package.label and package.version else "")
    if marker and package.marker:
        text += f" ; {package.marker}"
    return text + "".join(f" \\\n    --hash={h}" for h in package.hashes)


def labelled(package: Package) -> bool:
    """A line of a requirements file says the build too: only an index has such versions, so PyPI cannot answer."""
    return bool(package.label)


def match_spec(package: Package) -> str:
    """A dependency of environment.yml: "pytorch=2.8.0=cuda*", "numpy>=2.1,<3"."""
    text = package.name + package.spec + (f"={package.build}" if package.build else "")
    return f"{package.channel}::{text}" if package.channel not in ("", "conda-forge") else text


def toml(text: str) -> str:
    """A TOML basic string."""
    return json.dumps(text, ensure_ascii=False)


def yaml(text: str) -> str:
    """A YAML scalar, quoted where a plain one could be read as something else."""
    plain = text and text[0].isalnum() and not any(mark in text for mark in (": ", " #", "\n", "'", '"', "{", "}"))
    return text if plain and text[-1] != ":" and not text.replace(".", "").isdigit() else json.dumps(text)


def comment(lines: Iterable[str], sign: str = "# ") -> str:
    """Lines as a comment."""
    return "\n".join(f"{sign}{line}".rstrip() for line in lines)


def poetry_python(python: str) -> str:
    """The constraint on Python: "3.12" -> "~3.12"."""
    return f"~{python}"


def index_mode(environment: Environment) -> str:
    """How a requirements file names the index of torch.

    "none": plain PyPI. "only": everything in the file is torch's family, so the index is the only one asked. "beside":
    other packages come from PyPI, and torch's pins carry their build, which PyPI cannot have.
    """
    if not environment.indexes:
        return "none"
    tied = all(p.index or p.url for p in environment.packages)
    return "only" if tied and len(environment.indexes) == 1 else "beside"


def sources(environment: Environment) -> dict[str, list[tuple[str, str]]]:
    """For each package that is tied to an index on some system: (address, marker), marker "" = everywhere."""
    found: dict[str, list[tuple[str, str]]] = {}
    for package in environment.packages:
        if package.url or not (package.family or package.index):
            continue
        places = environment.platforms if package.family else ()
        tied = [(p.index, p.marker) for p in places if p.index]
        if not places and package.index:
            tied = [(package.index, "")]
        if tied:
            found[package.name] = [(index, marker) for index, marker in tied if index]
    return found


def all_indexes(environment: Environment) -> tuple[str, ...]:
    """Addresses that any package is tied to on any of the systems."""
    return tuple(dict.fromkeys(index for tied in sources(environment).values() for index, _ in tied))


def label_of(platform: Platform) -> str:
    """Local label that wheels of the platform's index carry."""
    return (variant_of_index(platform.index) or "") if platform.index else ""
