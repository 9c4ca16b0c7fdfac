"""Changes in place: what was asked for changes, every comment and the order stay."""

from __future__ import annotations

import difflib
import re

import pytest

from envcheck.envfiles.kinds import KINDS
from envcheck.envfiles.model import Environment, Package
from envcheck.envfiles.update import updated
from envcheck.errors import UsageError
from envcheck.matrix import load
from tests.envfiles.machines import content

CU126 = "https://download.pytorch.org/whl/cu126"


def update(kind: str, text: str, made: Environment | None = None, machine: str = "linux-a100") -> tuple[str, tuple[str, ...]]:
    return updated(KINDS[kind], text, made or content(kind, machine), load())


def changed(old: str, new: str) -> tuple[list[str], list[str]]:
    rows = list(difflib.ndiff(old.splitlines(), new.splitlines()))
    return [r[2:] for r in rows if r.startswith("- ")], [r[2:] for r in rows if r.startswith("+ ")]


REQUIREMENTS = """\
# my project, do not touch
--extra-index-url https://download.pytorch.org/whl/cu118

numpy>=1.26        # arrays
torch==2.1.0+cu118 # the net
Torchvision[scipy]==0.16.0+cu118 ; python_version >= "3.9"

# plots
matplotlib
-e .
"""


def test_requirements_keep_comments_order_names_and_extras() -> None:
    new, notes = update("requirements", REQUIREMENTS)
    removed, added = changed(REQUIREMENTS, new)
    assert removed == [
        "--extra-index-url https://download.pytorch.org/whl/cu118",
        "torch==2.1.0+cu118 # the net",
        'Torchvision[scipy]==0.16.0+cu118 ; python_version >= "3.9"',
    ]
    assert added == [
        f"--extra-index-url {CU126}",
        "torch==2.14.1+cu126 # the net",
        'Torchvision[scipy]==0.29.1+cu126 ; python_version >= "3.9"',
    ]
    assert notes == ()


def test_requirements_updated_twice_are_the_same() -> None:
    once, _ = update("requirements", REQUIREMENTS)
    assert update("requirements", once)[0] == once


def test_requirements_go_back_to_pypi() -> None:
    new, _ = update("requirements", REQUIREMENTS, machine="linux-5090")
    torch = next(row for row in new.splitlines() if row.startswith("torch="))
    assert "download.pytorch.org" not in new or "+cu" in torch


def test_what_is_missing_is_added_and_said() -> None:
    new, notes = update("requirements", "pandas\n")
    assert new.splitlines()[-2:] == ["torch==2.14.1+cu126", "torchvision==0.29.1+cu126"]
    assert notes == ("added: torch", "added: torchvision")


def test_windows_line_ends_stay() -> None:
    new, _ = update("requirements", "# a\r\ntorch==2.1.0\r\n")
    assert new.count("\r\n") == new.count("\n")


def test_a_locked_file_is_left_to_the_tool_that_locked_it() -> None:
    with pytest.raises(UsageError, match="uv pip compile"):
        update("requirements", f"torch==2.8.0 \\\n    --hash=sha256:{'a' * 64}\n")


YAML = """\
# the environment of the group
name: detr   # keep this name
channels:
  - pytorch
  - nvidia
  - conda-forge
dependencies:
  # language
  - python=3.9
  - pytorch=2.1.0  # the net
  - torchvision=0.16.0
  - pytorch-cuda=11.8
  - "numpy<2"   # old code
  - pip
  - pip:
      # not on conda
      - einops==0.7.0
variables:
  OMP_NUM_THREADS: 4
"""


def test_environment_yml_keeps_comments_quotes_and_what_it_does_not_know() -> None:
    new, notes = update("conda", YAML)
    for kept in ("# the environment of the group", "# keep this name", "# language", '- "numpy<2"   # old code', "# not on conda",
                 "- einops==0.7.0", "variables:\n  OMP_NUM_THREADS: 4"):  # fmt: skip
        assert kept in new
    assert re.search(r"- pytorch=2\.13\.0=cuda\* +# the net\n", new)
    assert "- python=3.12" in new
    assert "pytorch-cuda" not in new and "cuda-version=12.9" in new
    assert "- nvidia" not in new
    assert any("pytorch-cuda" in note for note in notes) and any("channel pytorch" in note for note in notes)


def test_environment_yml_with_unindented_lists_stays_so() -> None:
    text = "name: x\nchannels:\n- conda-forge\ndependencies:\n- python=3.12\n- pytorch=2.4.0\n"
    new, _ = update("conda", text)
    assert "\n- python=3.12\n- pytorch=2.13.0=cuda*\n" in new


def test_the_pip_part_of_an_environment_yml() -> None:
    text = YAML.replace("  - pytorch=2.1.0  # the net\n  - torchvision=0.16.0\n  - pytorch-cuda=11.8\n", "").replace(
        "- einops==0.7.0", "- einops==0.7.0\n      - torch==2.1.0  # the net"
    )
    made = content("conda", "linux-a100", manager="pip")
    new, _ = update("conda", text, made)
    assert re.search(r"- torch==2\.14\.1\+cu126 +# the net\n", new)
    assert f"- --extra-index-url {CU126}" in new
    assert "# not on conda" in new and "- einops==0.7.0" in new
    assert new.index("extra-index-url") < new.index("torch==2.14.1")


@pytest.mark.parametrize(
    ("rows", "packages", "conda"),
    [
        ("  - pytorch=2.4.0\n", (Package("torch", "==2.8.0"),), ()),
        ("  - pip:\n    - torch==2.4.0\n", (), (Package("pytorch", "=2.7.1"),)),
    ],
    ids=["conda-then-pip", "pip-then-conda"],
)
def test_two_torches_are_never_written_into_one_file(rows: str, packages: tuple[Package, ...], conda: tuple[Package, ...]) -> None:
    made = Environment(name="x", python="3.12", packages=packages, conda=conda)
    with pytest.raises(UsageError, match="takes torch from"):
        update("conda", f"name: x\ndependencies:\n{rows}", made)


UV = """\
# top
[project]
name = "mine"  # my name
version = "3.1.4"
requires-python = ">=3.11"
dependencies = [
    "numpy>=2",  # arrays
    "torch>=2.1",  # the net
]

[tool.ruff]
line-length = 99

[tool.uv.sources]
torch = { index = "pytorch-cu118" }
other = { git = "https://github.com/a/other" }

[[tool.uv.index]]
name = "pytorch-cu118"
url = "https://download.pytorch.org/whl/cu118"
explicit = true
"""


def test_pyproject_keeps_everything_else() -> None:
    import tomlkit

    new, notes = update("uv", UV)
    for kept in ("# top", "# my name", "# arrays", "# the net", "line-length = 99", 'other = { git = "https://github.com/a/other" }'):
        assert kept in new, new
    document = tomlkit.parse(new).unwrap()
    assert document["project"]["dependencies"] == ["numpy>=2", "torch==2.14.1", "torchvision==0.29.1"]
    assert {e["index"] for e in document["tool"]["uv"]["sources"]["torch"]} == {"pytorch-cu126"}
    assert {"name": "pytorch-cu126", "url": CU126, "explicit": True} in document["tool"]["uv"]["index"]
    assert notes == ("added: torchvision",)
    assert update("uv", new)[0] == new


def test_a_python_that_the_project_excludes_is_said() -> None:
    _, notes = update("uv", UV.replace(">=3.11", ">=3.13"))
    assert any("requires-python" in note for note in notes)


def test_a_pyproject_without_dependencies_gets_them() -> None:
    import tomlkit

    new, _ = update("uv", "[tool.ruff]\nline-length = 99\n")
    document = tomlkit.parse(new).unwrap()
    assert document["project"]["dependencies"][0] == "torch==2.14.1"
    assert document["tool"]["ruff"] == {"line-length": 99}


def test_poetry_in_place() -> None:
    import tomlkit

    text = '[tool.poetry]\nname = "mine"  # my name\n\n[tool.poetry.dependencies]\npython = "^3.11"  # ours\nnumpy = "^2"\ntorch = "2.1.0"\n'
    new, notes = update("poetry", text)
    document = tomlkit.parse(new).unwrap()["tool"]["poetry"]
    assert "# my name" in new and "# ours" in new
    assert document["dependencies"]["numpy"] == "^2"
    assert {e["version"] for e in document["dependencies"]["torch"]} == {"2.14.1"}
    assert document["source"][0]["priority"] == "explicit"
    assert notes == ("added: torchvision",)


def test_from_installed_changes_what_is_named_and_adds_only_what_was_asked_for() -> None:
    made = Environment(
        name="x",
        python="3.12",
        packages=(Package("torch", "==2.8.0"), Package("numpy", "==2.2.1", direct=False), Package("pandas", "==2.3.0", direct=False)),
    )
    new, notes = update("requirements", "numpy>=1  # arrays\n", made)
    assert new == "numpy==2.2.1  # arrays\ntorch==2.8.0\n"
    assert notes == ("added: torch",)


def test_a_project_is_not_added_to_its_own_dependencies() -> None:
    made = Environment(name="x", python="3.12", packages=(Package("mine", url=".", editable=True), Package("torch", "==2.8.0")))
    for kind, text in (("poetry", '[tool.poetry.dependencies]\npython = "^3.11"\n'), ("uv", '[project]\nname = "mine"\nversion = "1"\n')):
        new, notes = update(kind, text, made)
        assert notes == ("added: torch",)
        assert "path =" not in new


@pytest.mark.parametrize("kind", ["dockerfile", "pixi", "workflow", "train", "devcontainer"])
def test_other_kinds_are_replaced_not_changed(kind: str) -> None:
    with pytest.raises(UsageError, match="--force"):
        update(kind, "x")
