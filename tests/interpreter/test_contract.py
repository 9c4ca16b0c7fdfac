"""What a payload must keep to so that any Python can run it in anybody's environment."""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envcheck.target import PAYLOADS

FILES = [PAYLOADS / "probe_env.py", *sorted((PAYLOADS / "probe_parts").glob("*.py"))]
PLAIN = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef, ast.Assign, ast.Expr, ast.If)


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_is_written_in_the_syntax_of_python_3_6(path: Path) -> None:
    ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 6))


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_works_only_when_it_is_run(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in tree.body:
        assert isinstance(node, PLAIN), f"line {node.lineno} works at import time"
        if isinstance(node, ast.Expr):
            assert isinstance(node.value, ast.Constant), f"line {node.lineno} works at import time"
        if isinstance(node, ast.If):
            assert ast.unparse(node.test) == "__name__ == '__main__'"
        if isinstance(node, ast.Import):
            assert {alias.name for alias in node.names} <= sys.stdlib_module_names


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_has_no_name_of_a_real_module(path: Path) -> None:
    assert path.stem not in sys.stdlib_module_names
    assert path.stem == "__init__" or path.stem.startswith("probe_")


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=200, deadline=None)
@given(value=VALUES)
def test_its_json_is_json(value: object) -> None:
    module = {}
    exec(compile((PAYLOADS / "probe_env.py").read_text(encoding="utf-8"), "probe_env", "exec"), module)
    written = module["to_json"](value)
    assert json.loads(written) == value
    assert written.isascii()
    assert "\n" not in written


@settings(max_examples=200, deadline=None)
@given(text=st.text(st.characters()))
def test_strings_are_written_alike_without_the_c_module(text: str) -> None:
    module = {}
    exec(compile((PAYLOADS / "probe_env.py").read_text(encoding="utf-8"), "probe_env", "exec"), module)
    assert json.loads(module["_quoted_by_hand"](text)) == text


def test_values_that_json_does_not_know_are_written_all_the_same(part) -> None:
    to_json = part("probe_env").to_json
    assert to_json(float("nan")) == "null"
    assert to_json(float("-inf")) == "null"
    assert json.loads(to_json({"path": Path("/x"), 3: {1}})) == {"path": "/x", "3": [1]}


def test_unknown_arguments_are_refused(part) -> None:
    options = part("probe_env").Options
    with pytest.raises(SystemExit, match="--fast"):
        options(["--fast"])
    taken = options(["--quick", "--limit", "5", "--limit", "cuda-init=9", "--skip", "a,b", "--then", "x.py", "--quick"])
    assert taken.limits == {"": 5.0, "cuda-init": 9.0}
    assert taken.skip == {"a", "b"}
    assert taken.then == ["x.py", "--quick"]
