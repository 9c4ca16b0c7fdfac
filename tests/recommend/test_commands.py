"""Command lines: right for manager, system and shell, pinned, and made of things that exist."""

from __future__ import annotations

import itertools
import re
import shlex
import shutil
from collections.abc import Iterator
from functools import cache

import pytest
from msgspec.structs import replace

from envcheck.facts import Distribution, EnvVar, Facts, PythonEnv
from envcheck.installers import MANAGERS, Place, line, manager_of, pip_line, place_of, quote, set_variable
from envcheck.matrix import Matrix, load
from envcheck.process import run
from envcheck.recommend import Plan, Wishes, plan
from tests.recommend import oracle
from tests.recommend.machines import machine

RTX4090 = "NVIDIA GeForce RTX 4090"
WORDS = ["torch>=2,<3", "numpy<2", "torchvision[extra]", "pytorch=2.8.0=cuda*", "a b", "it's", 'say "no"', "$HOME", "!=1", "~=3.8.0", "=x", "", "`id`", "%PATH%", "C:\\a b\\c"]


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return load()


# -- quoting -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shell", ["bash", "dash", "zsh"])
def test_words_survive_a_real_shell(shell: str) -> None:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"no {shell} here")
    done = run([program, "-c", line(["printf", "%s\\n", *WORDS])], timeout=10.0)
    assert done.stdout == "".join(f"{word}\n" for word in WORDS)


def test_plain_words_stay_plain() -> None:
    for word in ("torch==2.14.1", "--index-url", "https://download.pytorch.org/whl/cu126", "/usr/bin/python3", "-y"):
        assert quote(word) == word and quote(word, "powershell") == word


@pytest.mark.parametrize(
    ("word", "quoted"),
    [
        ("numpy<2", '"numpy<2"'),
        ("torch>=2,<3", '"torch>=2,<3"'),
        ("triton-windows==3.8.*", '"triton-windows==3.8.*"'),
        (r"C:\Users\me\.venv\Scripts\python.exe", r"C:\Users\me\.venv\Scripts\python.exe"),
        (r"C:\Program Files\Python312\python.exe", r'"C:\Program Files\Python312\python.exe"'),
        ("$env", '"`$env"'),
    ],
)
def test_powershell_and_cmd(word: str, quoted: str) -> None:
    assert quote(word, "powershell") == quoted


def test_powershell_calls_a_quoted_program() -> None:
    place = Place(python=r"C:\Program Files\Python312\python.exe", shell="powershell")
    assert pip_line(place, "numpy<2") == r'& "C:\Program Files\Python312\python.exe" -m pip install "numpy<2"'
    assert set_variable("CONDA_OVERRIDE_CUDA", "12.9", "conda install x", "powershell") == '$env:CONDA_OVERRIDE_CUDA = "12.9"; conda install x'
    assert set_variable("A", "b c", "d") == "A='b c' d"


# -- managers ----------------------------------------------------------------------------------------------------------

DRIVER_535 = machine(RTX4090, driver="535.183.01", origin="live")
CU126 = "https://download.pytorch.org/whl/cu126"


@pytest.mark.parametrize(
    ("manager", "commands"),
    [
        ("pip", (f"python -m pip install torch==2.14.1 torchvision==0.29.1 --index-url {CU126}",)),
        ("uv", (f"uv pip install torch==2.14.1 torchvision==0.29.1 --index-url {CU126}",)),
        (
            "poetry",
            (
                f"poetry source add --priority=explicit pytorch-cu126 {CU126}",
                "poetry add torch==2.14.1 torchvision==0.29.1 --source pytorch-cu126",
            ),
        ),
        ("pixi", ("pixi add 'python=3.12.*'", f"pixi add --pypi torch==2.14.1 torchvision==0.29.1 --index {CU126}")),
        ("conda", ("conda install -c conda-forge --override-channels 'pytorch=2.13.0=cuda*' torchvision cuda-version=12.9",)),
        ("mamba", ("mamba install -c conda-forge --override-channels 'pytorch=2.13.0=cuda*' torchvision cuda-version=12.9",)),
    ],
)
def test_each_manager(manager: str, commands: tuple[str, ...], matrix: Matrix) -> None:
    assert plan(DRIVER_535, matrix, Wishes(manager=manager)).commands == commands


@pytest.mark.parametrize(
    ("manager", "command"),
    [
        ("pip", "python -m pip install torch==2.15.0 torchvision==0.29.2"),
        ("uv", "uv pip install torch==2.15.0 torchvision==0.29.2"),
        ("poetry", "poetry add torch==2.15.0 torchvision==0.29.2"),
        ("pixi", "pixi add --pypi torch==2.15.0 torchvision==0.29.2"),
    ],
)
def test_plain_pypi_where_that_is_right(manager: str, command: str, matrix: Matrix) -> None:
    made = plan(machine(RTX4090, driver="580.95.05", origin="live"), matrix, Wishes(manager=manager))
    assert made.commands[-1] == command and made.index_url is None


@pytest.mark.parametrize(
    ("torch", "python", "commands"),
    [
        ("2.5.1", "3.11", ("conda install pytorch==2.5.1 torchvision==0.20.1 torchaudio==2.5.1 pytorch-cuda=12.4 -c pytorch -c nvidia",)),
        ("1.13.1", "3.10", ("conda install pytorch==1.13.1 torchvision==0.14.1 torchaudio==0.13.1 'numpy<2' pytorch-cuda=11.7 -c pytorch -c nvidia",)),
        ("1.12.1", "3.10", ("conda install pytorch==1.12.1 torchvision==0.13.1 torchaudio==0.12.1 'numpy<2' cudatoolkit=11.6 -c pytorch -c conda-forge",)),
        ("2.6.0", "3.11", ("conda install -c conda-forge --override-channels 'pytorch=2.6.0=cuda*' torchvision torchaudio cuda-version=12.6",)),
    ],
)
def test_the_old_conda_channel_ends_with_2_5_1(torch: str, python: str, commands: tuple[str, ...], matrix: Matrix) -> None:
    wishes = Wishes(torch=torch, manager="conda", companions=("torchvision", "torchaudio"))
    made = plan(machine(RTX4090, driver="580.95.05", python=python), matrix, wishes)
    assert made.commands == commands
    if "conda-forge --" in commands[0]:
        assert any("CONDA_OVERRIDE_CUDA=12.6" in warning for warning in made.warnings)
        assert "pytorch-cuda" not in commands[0], "that package belongs to the old channel"


def test_conda_without_a_gpu(matrix: Matrix) -> None:
    assert plan(machine(), matrix, Wishes(manager="conda")).commands == (
        "conda install -c conda-forge --override-channels 'pytorch=2.13.0=cpu*' torchvision",
    )
    old = plan(machine(python="3.10"), matrix, Wishes(manager="conda", torch="2.4.1"))
    assert old.commands == ("conda install pytorch==2.4.1 torchvision==0.19.1 cpuonly -c pytorch",)
    mac = plan(machine(os="macos", arch="arm64", version="15.1"), matrix, Wishes(manager="conda"))
    assert mac.commands == ("conda install -c conda-forge --override-channels pytorch=2.13.0 torchvision",)


def test_conda_forge_and_cards_before_turing(matrix: Matrix) -> None:
    """conda-forge has code for Volta in its CUDA 12 builds, and takes a cuDNN that does not run there."""
    made = plan(machine("Tesla V100-SXM2-16GB", driver="580.95.05"), matrix, Wishes(manager="conda"))
    assert "'cudnn<9.11'" in made.commands[0] and "cuda-version=12.9" in made.commands[0]


def test_windows_commands(matrix: Matrix) -> None:
    facts = machine(RTX4090, driver="581.15", os="windows", origin="live")
    made = plan(facts, matrix, Wishes(companions=("torchvision", "triton")))
    assert made.commands == (
        "python -m pip install torch==2.14.1 torchvision==0.29.1 --index-url https://download.pytorch.org/whl/cu130",
        'python -m pip install "triton-windows==3.8.*"',
    )
    spaced = replace(facts, python=PythonEnv(version="3.12.1", executable=r"C:\Program Files\Python312\python.exe", prefix="C:\\x"))
    assert plan(spaced, matrix).commands[0].startswith(r'& "C:\Program Files\Python312\python.exe" -m pip install torch==')


def test_releases_before_2_0_ask_for_the_label(matrix: Matrix) -> None:
    made = plan(machine(RTX4090, driver="580.95.05", python="3.10"), matrix, Wishes(torch="1.13.1+cu116"))
    assert made.commands == (
        "python3 -m pip install torch==1.13.1+cu116 torchvision==0.14.1+cu116 'numpy<2' "
        "--extra-index-url https://download.pytorch.org/whl/cu116",
    )
    plain = plan(machine(RTX4090, driver="580.95.05", python="3.10"), matrix, Wishes(torch="1.13.1"))
    assert plain.commands == ("python3 -m pip install torch==1.13.1 torchvision==0.14.1 'numpy<2'",)


# -- which Python and which manager ------------------------------------------------------------------------------------


def live(**python: object) -> Facts:
    return replace(DRIVER_535, python=PythonEnv(version="3.12.4", **python))  # type: ignore[arg-type]


def test_a_live_interpreter_is_named_by_its_path() -> None:
    facts = live(executable="/home/me/app/.venv/bin/python", prefix="/home/me/app/.venv")
    assert place_of(facts).python == "/home/me/app/.venv/bin/python"
    active = replace(facts, env=(EnvVar(name="VIRTUAL_ENV", value="/home/me/app/.venv"),))
    assert place_of(active).python == "python"
    assert place_of(replace(facts, origin="captured")).python in ("python", "python3"), "somebody else's path"


@pytest.mark.parametrize(
    ("python", "manager"),
    [
        ({"manager": "uv"}, "uv"),
        ({"kind": "uv"}, "uv"),
        ({"manager": "pixi"}, "pixi"),
        ({"manager": "poetry"}, "poetry"),
        ({"kind": "conda", "manager": "conda"}, "pip"),
        ({"kind": "conda", "manager": "conda", "distributions": (Distribution(name="pytorch", version="2.5.1", manager="conda"),)}, "conda"),
        ({"kind": "conda", "manager": "mamba", "distributions": (Distribution(name="pytorch", version="2.5.1", manager="conda"),)}, "mamba"),
        ({"kind": "venv"}, "pip"),
    ],
    ids=str,
)
def test_the_manager_that_belongs_to_the_environment(python: dict[str, object], manager: str) -> None:
    assert manager_of(live(**python)) == manager


def test_a_system_python_gets_an_environment_first(matrix: Matrix) -> None:
    facts = live(executable="/usr/bin/python3", externally_managed=True, kind="system")
    made = plan(facts, matrix)
    assert made.commands[0] == "/usr/bin/python3 -m venv .venv"
    assert made.commands[1].startswith(".venv/bin/python -m pip install torch==")
    assert made.calls == () and any("PEP 668" in warning for warning in made.warnings)
    inside = live(executable="/x/bin/python", externally_managed=True, kind="venv")
    assert len(plan(inside, matrix).commands) == 1


def test_an_environment_without_pip_gets_it_first(matrix: Matrix) -> None:
    made = plan(live(executable="/x/bin/python", prefix="/x", pip_version=""), matrix)
    assert made.commands[0] == "/x/bin/python -m ensurepip --upgrade" and len(made.commands) == 2
    uv = plan(live(executable="/x/bin/python", prefix="/x", pip_version="", manager="uv"), matrix)
    assert uv.commands[0].startswith("uv pip install --python /x/bin/python torch==")


def test_pip_words_for_uv() -> None:
    uv = Place(python="/x/bin/python", manager="uv")
    assert pip_line(uv, "numpy<2") == "uv pip install --python /x/bin/python 'numpy<2'"
    assert pip_line(uv, "uninstall", "-y", "torch") == "uv pip uninstall --python /x/bin/python torch"
    assert pip_line(uv, "install", "--force-reinstall", "--no-cache-dir", "torch") == (
        "uv pip install --python /x/bin/python --reinstall --no-cache torch"
    )
    assert pip_line(uv, "cache", "purge") == "uv cache clean"
    assert pip_line(Place(), "list") == "python -m pip list"


def test_calls_are_the_commands_without_a_shell(matrix: Matrix) -> None:
    made = plan(live(executable="/x y/bin/python", prefix="/x y"), matrix)
    assert [shlex.split(command) for command in made.commands] == [list(call) for call in made.calls]


# -- nothing that does not exist ---------------------------------------------------------------------------------------

INDEXES = re.compile(r"https://download\.pytorch\.org/whl/(\S+)")
PINS = re.compile(r"(?<![\w-])(torch|torchvision|torchaudio)==(\d[\d.]*)(?:\+\S+)?")


def nested(made: Plan) -> Iterator[Plan]:
    yield made
    for other in made.alternatives:
        yield from nested(other)


@cache
def variants() -> dict[tuple[str, str, str, str], dict[str, str]]:
    return {(r["release"], r["variant"], r["os"], r["machine"]): r for r in oracle.rows("torch_variants")}


@cache
def companions() -> set[tuple[str, str]]:
    return {(row["package"], row["version"]) for row in oracle.rows("companions")}


@cache
def conda_builds() -> set[tuple[str, str, str, str]]:
    return {(r["channel"], r["release"], r["cuda"], place) for r in oracle.rows("conda_builds") for place in r["platforms"].split()}


MACHINES = {
    f"{name} {driver} {os} {arch} py{python}": machine(name, driver=driver, os=os, arch=arch, python=python)
    for (name, driver), (os, arch), python in itertools.product(
        [(RTX4090, "580.95.05"), ("Tesla V100-SXM2-16GB", "580.95.05"), ("NVIDIA GeForce RTX 5090", "576.40"), ("Tesla K80", "471.41"), (RTX4090, None)],
        [("linux", "x86_64"), ("windows", "x86_64"), ("linux", "aarch64")],
        ["3.9", "3.11", "3.12", "3.14", "3.15", "3.13t", "3.16", None],
    )
}


@pytest.mark.parametrize("manager", MANAGERS)
def test_nothing_is_suggested_that_does_not_exist(manager: str, matrix: Matrix) -> None:
    checked = 0
    for label, facts in MACHINES.items():
        for companions in (None, ("torchvision", "torchaudio", "triton")):
            made = plan(facts, matrix, Wishes(manager=manager, companions=companions))
            for item in nested(made):
                for command in item.commands:
                    _exists(command, item, facts, f"{label}: {command}")
                    checked += 1
    assert checked > 150


def _exists(command: str, made: Plan, facts: Facts, label: str) -> None:
    os, arch = facts.system.os or "", facts.system.machine or ""
    index = INDEXES.search(command)
    pins = dict(PINS.findall(command))
    if index:
        assert (made.torch, index[1], os, arch) in variants(), label
        assert made.index_url == index[0], label
    if "torch" in pins:
        assert pins["torch"] == made.torch, label
        row = variants().get((made.torch or "", made.variant or "", os, arch))
        assert row is not None, label
        assert row["status"] != "unconfirmed" or "not confirmed" in made.condition, label
        python = made.python
        assert python is not None and oracle.has_wheel(made.torch or "", row["pythons"], os, arch, python), label
    for package in ("torchvision", "torchaudio"):
        if package in pins:
            assert (package, pins[package]) in companions(), label
    conda = re.search(r"pytorch=+([\d.]+)", command)
    if conda and "conda" in command:
        channel = "conda-forge" if "conda-forge --" in command else "pytorch"
        cuda = re.search(r"(?:cuda-version|pytorch-cuda|cudatoolkit)=([\d.]+)", command)
        assert (channel, conda[1], cuda[1] if cuda else "", f"{os}-{arch}") in conda_builds(), label
