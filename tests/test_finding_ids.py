"""Every id that a command can put into a finding or into `skipped` has a name, an area and a page: read from the source."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from envcheck.rules import EXPLAINED
from envcheck.rules.others import OTHERS

PACKAGE = Path(__file__).resolve().parent.parent / "envcheck"
HANDED_ON = ("rules/base.py", "envfiles/finding.py")
"""They pass on the id that they are given: of a rule, and the first argument of a function that is read as well."""


class Unreadable(Exception):
    """An id that is not written where the finding is made, nor in a table."""


def ids(expression: ast.expr, function: ast.AST, names: dict[str, Any]) -> set[str]:
    """All values that an expression can have, with those that the function gives to its local names."""
    if isinstance(expression, ast.Constant):
        return {expression.value} if isinstance(expression.value, str) else set()
    if isinstance(expression, ast.IfExp):
        return ids(expression.body, function, names) | ids(expression.orelse, function, names)
    if isinstance(expression, ast.Name):
        given = [
            node.value
            for node in ast.walk(function)
            if isinstance(node, ast.Assign)
            and any(isinstance(t, ast.Name) and t.id == expression.id for t in node.targets)
        ]
        if given:
            return {value for item in given for value in ids(item, function, names)}
        if isinstance(names.get(expression.id), str):
            return {names[expression.id]}
    if isinstance(expression, ast.Subscript):
        return table(expression.value, names)
    if (
        isinstance(expression, ast.Call)
        and isinstance(expression.func, ast.Attribute)
        and expression.func.attr == "get"
    ):
        return table(expression.func.value, names).union(*(ids(a, function, names) for a in expression.args[1:]))
    raise Unreadable(ast.unparse(expression))


def table(expression: ast.expr, names: dict[str, Any]) -> set[str]:
    """The values of a table of the module."""
    try:
        value = eval(ast.unparse(expression), dict(names))  # noqa: S307 - our own source
    except NameError:
        value = None
    if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
        raise Unreadable(f"{ast.unparse(expression)} is no table of the module with ids as values")
    return set(value.values())


def said(source: str, names: dict[str, Any]) -> Iterator[tuple[int, set[str], str | None]]:
    """(line, ids, literal area) of everything that a module makes."""
    tree = ast.parse(source)
    functions = [n for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))]
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func).rpartition(".")[2]
        words = {k.arg: k.value for k in node.keywords}
        if called in ("Finding", "Skipped"):
            wanted = words.get("rule")
        elif called == "finding" and node.args:  # of envfiles; that of a rule has keywords and a severity alone
            wanted = None if isinstance(node.func, ast.Attribute) else node.args[0]
        else:
            continue
        inside = [f for f in functions if f.lineno <= node.lineno <= (f.end_lineno or f.lineno)]
        function = max(inside, key=lambda f: f.lineno) if inside else tree
        area = words.get("area")
        if wanted is not None:
            yield node.lineno, ids(wanted, function, names), area.value if isinstance(area, ast.Constant) else None
        cause = words.get("consequence_of")
        if cause is not None:
            yield node.lineno, ids(cause, function, names), None


def modules() -> Iterator[tuple[str, str]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        if not name.startswith("payloads/") and name not in HANDED_ON:
            source = path.read_text(encoding="utf-8")
            if "Finding(" in source or "Skipped(" in source or " finding(" in source:
                yield name, source


@pytest.fixture(scope="module")
def emitted() -> list[tuple[str, str, str | None]]:
    """(place, id, literal area) for the whole package."""
    found, unreadable = [], []
    for name, source in modules():
        module = importlib.import_module(
            "envcheck." + name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        )
        try:
            found += [
                (f"{name}:{line}", item, area) for line, items, area in said(source, vars(module)) for item in items
            ]
        except Unreadable as problem:
            unreadable.append(f"{name}: {problem}")
    assert unreadable == [], "write the id as a literal, or take it from a table: envcheck/rules/others.py says how"
    return found


def test_every_id_has_a_name_in_its_area(emitted) -> None:
    areas = {name.id: name.area for name in EXPLAINED}
    assert [f"{place}: {item}" for place, item, _ in emitted if item not in areas] == [], (
        "add it to envcheck/rules/others.py"
    )
    assert [f"{place}: {item} in {area}" for place, item, area in emitted if area and area != areas[item]] == []


def test_every_other_name_is_said_somewhere(emitted) -> None:
    assert {name.id for name in OTHERS} - {item for _, item, _ in emitted} == set()


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ('Finding(rule="a", area="build")', {"a"}),
        ('Finding(rule="a" if x else "b")', {"a", "b"}),
        ("findings.Skipped(rule=ONE)", {"one"}),
        ('Finding(rule=TABLE.get(kind, "c"))', {"v", "w", "c"}),
        ('finding(TABLE[want.name], "error")', {"v", "w"}),
        ('def f():\n    name = "a"\n    if x:\n        name = "b"\n    return Finding(rule=name)', {"a", "b"}),
        ('Finding(rule="a", consequence_of="z" if x else None)', {"a", "z"}),
    ],
)  # fmt: skip
def test_ids_are_read(source: str, wanted: set[str]) -> None:
    assert (
        set().union(*(items for _, items, _ in said(source, {"ONE": "one", "TABLE": {"k": "v", "l": "w"}}))) == wanted
    )


@pytest.mark.parametrize(
    "source",
    [
        'Finding(rule=f"file-{x}")',
        "def f(rule):\n    Skipped(rule=rule)",
        'finding("a" + x, "note")',
        "Finding(rule=TABLE[x])",
    ],
)
def test_an_id_that_cannot_be_read_is_not_passed_over(source: str) -> None:
    with pytest.raises(Unreadable):
        list(said(source, {"TABLE": {"k": 1}}))
