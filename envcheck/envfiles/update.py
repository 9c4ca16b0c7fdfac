"""Changes a file of the user's in place: comments, order and everything that is not asked for stay."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from typing import Any

from envcheck.envfiles import kinds, lines
from envcheck.envfiles.model import Environment, Package, normalise, variant_of_index
from envcheck.errors import UsageError
from envcheck.matrix import Matrix

LINE = re.compile(
    r"(?P<indent>\s*)(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)(?P<extras>\s*\[[^\]]*\])?"
    r"(?P<spec>\s*(?:@\s*\S+|[=<>!~][^;#]*?)?)(?P<tail>\s*(?:;[^#]*?)?(?:\s+#.*)?)$"
)
"""A requirement; the tail is its marker and comment, with the blanks before them."""
INDEX_LINE = re.compile(r"\s*(?P<option>--extra-index-url|--index-url|-i)[ =]\s*(?P<url>\S+)")
_GONE = ("pytorch-cuda", "cudatoolkit", "cpuonly", "pytorch-mutex")
"""conda packages that choose a build on the old channel; beside conda-forge's pytorch they choose a wrong one."""


def updated(kind: kinds.Kind, text: str, environment: Environment, matrix: Matrix) -> tuple[str, tuple[str, ...]]:
    """The changed text, and what the user has to know about it.

    Raises:
        UsageError: this kind cannot be changed in place, or the file is not one of it.
    """
    if kind.name == "requirements":
        return _requirements(text, environment)
    if kind.name == "conda":
        return _conda(text, environment)
    if kind.name in ("uv", "poetry"):
        return _pyproject(kind, text, environment, matrix)
    raise UsageError(
        f"{kind.path} cannot be changed in place (environment.yml, requirements.txt and pyproject.toml can): "
        "--dry-run shows a new one, --force replaces it"
    )


# -- requirements.txt --------------------------------------------------------------------------------------------------


def _requirements(text: str, env: Environment) -> tuple[str, tuple[str, ...]]:
    if re.search(r"--hash[ =]", text):
        raise UsageError(
            "this requirements.txt records hashes, which belong to the versions beside them: change its source and let "
            "the tool that wrote it (uv pip compile, pip-compile) write it again"
        )
    ending = "\r\n" if "\r\n" in text else "\n"
    made, notes = requirement_lines(text.splitlines(), env)
    return ending.join(made) + ending, notes


def requirement_lines(old: list[str], env: Environment) -> tuple[list[str], tuple[str, ...]]:
    """Lines of a requirements file with the packages of the environment in it."""
    wanted = {normalise(p.name): p for p in env.packages}
    seen: set[str] = set()
    notes: list[str] = []
    others = any((m := LINE.fullmatch(row)) and normalise(m["name"]) not in wanted for row in old)
    indexed = any((m := INDEX_LINE.match(row)) and not variant_of_index(m["url"]) for row in old)
    alone = lines.index_mode(env) == "only" and not others and not indexed
    made = []
    for row in old:
        index = INDEX_LINE.match(row)
        if index and variant_of_index(index["url"]):
            continue  # PyTorch's index as the new build needs it comes before the first package
        match = LINE.fullmatch(row)
        package = wanted.get(normalise(match["name"])) if match else None
        if match is None or package is None:
            made.append(row)
            continue
        seen.add(normalise(package.name))
        made.append(_changed(match, replace(package, label="") if alone else package))
    missing = [p for n, p in wanted.items() if n not in seen and (p.family or p.direct)]
    made += [lines.requirement(replace(p, label="") if alone else p) for p in missing]
    notes += [f"added: {p.name}" for p in missing]
    return _with_index(made, env, alone=alone), tuple(notes)


def _changed(match: re.Match[str], package: Package) -> str:
    tail = match["tail"].rstrip()
    if package.url:
        return match["indent"] + lines.requirement(package, marker=False) + tail
    label = f"+{package.label}" if package.label and package.version else ""
    return f"{match['indent']}{match['name']}{match['extras'] or ''}{package.spec}{label}{tail}"


def _with_index(made: list[str], env: Environment, *, alone: bool) -> list[str]:
    option = "--index-url" if alone else "--extra-index-url"
    new = [f"{option} {index}" for index in env.indexes]
    if not new:
        return made
    first = next((i for i, row in enumerate(made) if LINE.fullmatch(row) and row.strip()), len(made))
    return [*made[:first], *new, *made[first:]]


# -- environment.yml ---------------------------------------------------------------------------------------------------


def _yaml(text: str) -> Any:
    from ruamel.yaml import YAML

    reader = YAML()
    reader.preserve_quotes = True
    reader.width = 4096
    indented = re.search(r"^\w+:[^\n]*\n(?:\s*#[^\n]*\n)*( +)- ", text, re.MULTILINE)
    if indented:
        offset = len(indented[1])
        reader.indent(mapping=2, sequence=offset + 2, offset=offset)
    return reader


def _conda(text: str, env: Environment) -> tuple[str, tuple[str, ...]]:
    from ruamel.yaml.error import YAMLError

    reader = _yaml(text)
    try:
        document = reader.load(text)
    except YAMLError as error:
        raise UsageError(f"environment.yml cannot be read: {' '.join(str(error).split())[:200]}") from error
    if not isinstance(document, dict) or not isinstance(document.get("dependencies"), list):
        raise UsageError("environment.yml has no list of dependencies")
    notes: list[str] = []
    dependencies = document["dependencies"]
    _refuse_two_torches(dependencies, env)
    _conda_dependencies(dependencies, env, notes)
    if env.packages:
        _pip_part(dependencies, env, notes)
    if env.conda:
        _channels(document, env, notes)
    out = io.StringIO()
    reader.dump(document, out)
    return out.getvalue(), tuple(notes)


def _refuse_two_torches(dependencies: Any, env: Environment) -> None:
    """Conda's torch and pip's torch in one file write over each other."""
    pip = [str(row) for item in dependencies if isinstance(item, dict) for row in item.get("pip") or ()]
    theirs = {
        "conda": any(conda_name(item) in ("pytorch", "pytorch-gpu", "pytorch-cpu") for item in dependencies),
        "pip": any(_requirement_name(row) == "torch" for row in pip),
    }
    ours = {"conda": any(p.name == "pytorch" for p in env.conda), "pip": any(p.name == "torch" for p in env.packages)}
    for one, other in (("conda", "pip"), ("pip", "conda")):
        if theirs[one] and ours[other]:
            raise UsageError(
                f"this environment.yml takes torch from {one}, and it is to come from {other} now: remove it there first "
                "(--dry-run without --update shows a new file)"
            )


def conda_name(item: object) -> str:
    """Name of a dependency: "conda-forge::numpy>=2" -> "numpy"."""
    match = re.match(r"\s*(?:[\w./:-]+::)?([A-Za-z0-9_.-]+)", item) if isinstance(item, str) else None
    return match[1].lower() if match else ""


def _conda_dependencies(dependencies: Any, env: Environment, notes: list[str]) -> None:
    wanted = {p.name: p for p in env.conda}
    seen = set()
    for position, item in enumerate(list(dependencies)):
        name = conda_name(item)
        if name == "python":
            dependencies[position] = f"python={env.python}"
        elif name in wanted:
            seen.add(name)
            dependencies[position] = lines.match_spec(wanted[name])
    if not wanted:
        return
    for position in reversed(range(len(dependencies))):
        name = conda_name(dependencies[position])
        if name in _GONE and name not in wanted:
            notes.append(f"removed: {dependencies[position]}")
            del dependencies[position]
    plain = [i for i, item in enumerate(dependencies) if isinstance(item, str)]
    after = plain[-1] + 1 if plain else 0
    for package in [p for n, p in wanted.items() if n not in seen and p.direct]:
        dependencies.insert(after, lines.match_spec(package))
        after += 1
        notes.append(f"added: {package.name}")


def _pip_part(dependencies: Any, env: Environment, notes: list[str]) -> None:
    for item in dependencies:
        if isinstance(item, dict) and isinstance(item.get("pip"), list):
            made, added = requirement_lines([str(row) for row in item["pip"]], env)
            notes += added
            part = item["pip"]
            old = {_requirement_name(str(row)): i for i, row in enumerate(part)}
            _merge(part, made, old)
            return
    if not any(conda_name(item) == "pip" for item in dependencies):
        dependencies.append("pip")
    dependencies.append({"pip": requirement_lines([], env)[0]})
    notes.append("added: the pip part")


def _requirement_name(row: str) -> str:
    match = LINE.fullmatch(row)
    return normalise(match["name"]) if match else row.strip()


def _merge(part: Any, made: list[str], old: dict[str, int]) -> None:
    """Puts the new lines into the list, those of a package at its old place so that comments stay with it."""
    names = [_requirement_name(row) for row in made]
    for name, row in zip(names, made, strict=True):
        if name in old:
            part[old[name]] = row
    for position in reversed(range(len(part))):
        if _requirement_name(str(part[position])) not in names:
            del part[position]
    for position, row in enumerate(made):
        if names[position] not in old:
            part.insert(position, row)


def _channels(document: Any, env: Environment, notes: list[str]) -> None:
    channels = document.get("channels")
    if not isinstance(channels, list):
        document["channels"] = list(env.channels)
        return
    if "pytorch" not in env.channels:
        for name in ("pytorch", "nvidia"):
            if name in channels:
                channels.remove(name)
                notes.append(f"removed: the channel {name} (its packages end with torch 2.5.1)")
    for position, name in enumerate(env.channels):
        if name not in channels:
            channels.insert(position, name)
            notes.append(f"added: the channel {name}")


# -- pyproject.toml ----------------------------------------------------------------------------------------------------


def _pyproject(kind: kinds.Kind, text: str, env: Environment, matrix: Matrix) -> tuple[str, tuple[str, ...]]:
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    try:
        old = tomlkit.parse(text)
    except TOMLKitError as error:
        raise UsageError(f"pyproject.toml cannot be read: {error}") from error
    new = tomlkit.parse(kinds.render(kind, env, matrix))
    notes: list[str] = []
    change = _poetry_tables if kind.name == "poetry" else _uv_tables
    change(old, new, env, notes)
    return tomlkit.dumps(old).rstrip("\n") + "\n", tuple(notes)


def _uv_tables(old: Any, new: Any, env: Environment, notes: list[str]) -> None:
    import tomlkit

    project = old.setdefault("project", tomlkit.table())
    if "name" not in project:
        project["name"], project["version"] = env.name, "0.1.0"
    known = project.get("requires-python")
    if known is None:
        project["requires-python"] = f"=={env.python}.*"
    elif not _admits(str(known), env.python):
        notes.append(
            f"requires-python {known!r} leaves out Python {env.python}, for which this was made: change one of them"
        )
    dependencies = project.setdefault("dependencies", tomlkit.array().multiline(multiline=True))
    _pep508(dependencies, new["project"]["dependencies"], env, notes)
    uv = old.setdefault("tool", tomlkit.table()).setdefault("uv", tomlkit.table())
    _named_tables(uv, new["tool"]["uv"], "index")
    sources = new["tool"]["uv"].get("sources") or {}
    if sources or "sources" in uv:
        table = uv.setdefault("sources", tomlkit.table())
        for package in env.family:
            if package.name in sources:
                table[package.name] = sources[package.name]
            elif package.name in table:
                del table[package.name]  # it comes from PyPI now


def _pep508(dependencies: Any, wanted: Any, env: Environment, notes: list[str]) -> None:
    direct = {normalise(p.name): p for p in env.packages}
    made = {_requirement_name(str(text)): str(text) for text in wanted}
    seen = set()
    for position, item in enumerate(list(dependencies)):
        match = LINE.fullmatch(str(item))
        name = normalise(match["name"]) if match else ""
        if match and name in made:
            seen.add(name)
            package = replace(direct[name], label="")
            local = package.url and name == made[name]
            dependencies[position] = made[name] if local else _changed(match, replace(package, editable=False))
    for name, text in made.items():
        if name not in seen and (direct[name].family or direct[name].direct):
            dependencies.append(text)
            notes.append(f"added: {name}")


def _named_tables(old: Any, new: Any, key: str) -> None:
    """Adds the tables of `[[...]]` that are not there, and gives those of the same name the new address."""
    import tomlkit

    wanted = new.get(key) or []
    if not wanted:
        return
    tables = old.setdefault(key, tomlkit.aot())
    for table in wanted:
        same = [t for t in tables if t.get("name") == table["name"]]
        if same:
            same[0]["url"] = table["url"]
        else:
            if len(tables):
                tables[-1].add(tomlkit.nl())
            tables.append(table)


def _poetry_tables(old: Any, new: Any, env: Environment, notes: list[str]) -> None:
    import tomlkit

    poetry = old.setdefault("tool", tomlkit.table()).setdefault("poetry", tomlkit.table())
    dependencies = poetry.setdefault("dependencies", tomlkit.table())
    made = new["tool"]["poetry"]["dependencies"]
    names = {normalise(name): name for name in dependencies}
    if "python" not in dependencies and "requires-python" not in (old.get("project") or {}):
        dependencies["python"] = made["python"]
    for package in env.packages:
        name = names.get(normalise(package.name))
        if package.name not in made or (name is None and not (package.family or package.direct)):
            continue
        if name is None:
            notes.append(f"added: {package.name}")
        dependencies[name or package.name] = made[package.name]
    _named_tables(poetry, new["tool"]["poetry"], "source")


def _admits(specifier: str, python: str) -> bool:
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    try:
        return any(SpecifierSet(specifier).contains(f"{python}.{patch}") for patch in (0, 5, 20))
    except InvalidSpecifier:
        return True
