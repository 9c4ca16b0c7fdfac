"""`envcheck matrix ...`: what people ask, as tables of 80 columns and as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from envcheck.cli import main


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Runs `envcheck matrix ARGS` in this process: exit code, stdout, stderr."""

    def call(*args: str) -> tuple[int, str, str]:
        try:
            main(["matrix", *args])
            code: Any = 0
        except SystemExit as end:
            code = end.code or 0
        out, err = capsys.readouterr()
        return int(code), out, err

    return call


QUESTIONS = [
    ("torch",),
    ("torch", "2.8.0"),
    ("torch", "1.7.1"),
    ("torch", "--gpu", "Tesla P100", "--os", "linux"),
    ("torch", "--compute-cap", "6.0", "--python", "3.12", "--os", "linux"),
    ("torch", "--driver", "527.56", "--os", "wsl"),
    ("cuda",),
    ("cuda", "cu128"),
    ("drivers",),
    ("drivers", "535.183.01", "--os", "linux"),
    ("drivers", "--cuda", "13.0"),
    ("drivers", "--variant", "cu130"),
    ("gpus",),
    ("gpus", "RTX 4090"),
    ("gpus", "RX 7900 XTX"),
    ("gpus", "--compute-cap", "12.1"),
    ("python",),
    ("python", "3.13"),
    ("companions",),
    ("companions", "2.14.1"),
    ("companions", "--torchvision", "0.20.1"),
    ("rocm",),
    ("rocm", "Radeon RX 6700 XT"),
    ("jetpack",),
    ("jetpack", "36.4.3"),
    ("conda", "2.13.0"),
    ("bad",),
]


@pytest.mark.parametrize("args", QUESTIONS, ids=" ".join)
def test_tables_fit_into_80_columns(run: Callable[..., tuple[int, str, str]], args: tuple[str, ...]) -> None:
    code, out, err = run(*args)
    assert (code, err) == (0, "")
    assert out.strip()
    assert max(len(line) for line in out.splitlines()) <= 80
    assert "\x1b" not in out


@pytest.mark.parametrize("args", QUESTIONS, ids=" ".join)
def test_json_is_alone_on_stdout(run: Callable[..., tuple[int, str, str]], args: tuple[str, ...]) -> None:
    code, out, err = run(*args, "--json")
    assert (code, err) == (0, "")
    document = json.loads(out)
    assert document["schema"] == 1
    assert all(set(table) == {"title", "columns", "rows", "notes"} for table in document["tables"])


def test_which_torch_runs_on_a_p100(run: Callable[..., tuple[int, str, str]]) -> None:
    _, out, _ = run("torch", "--gpu", "Tesla P100", "--os", "linux", "--json")
    rows = {row["release"]: row for row in json.loads(out)["tables"][0]["rows"]}
    assert rows["2.14.1"]["builds"] == "cu126"
    assert rows["2.14.1"]["by"] == "sm_60"
    assert rows["2.15.0"]["builds"].endswith("?")


def test_which_driver_for_cu130(run: Callable[..., tuple[int, str, str]]) -> None:
    _, out, _ = run("drivers", "--variant", "cu130", "--json")
    rows = {row["os"]: row for row in json.loads(out)["tables"][0]["rows"]}
    assert rows["linux"]["driver"] == rows["windows"]["driver"] == "580"


def test_what_a_release_comes_with(run: Callable[..., tuple[int, str, str]]) -> None:
    _, out, _ = run("torch", "2.8.0", "--json")
    facts = {row["fact"]: row["value"] for row in json.loads(out)["tables"][0]["rows"]}
    assert facts["torchvision"] == "0.23.0"
    assert facts["triton-windows"] == "3.4"
    _, old, _ = run("torch", "1.7.1")
    assert "torch_stable.html" in old


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("torch", "2.99"), "the tables have no torch 2.99 (newer than these tables); near:"),
        (("torch", "2.8.7"), "near: 2.8.0"),
        (("torch", "--gpu", "Voodoo 2"), "no NVIDIA GPU is known as 'Voodoo 2'"),
        (("torch", "--gpu", "RX 7900 XTX"), "is an AMD GPU: ask envcheck matrix rocm 'RX 7900 XTX'"),
        (("torch", "--gpu", "GeForce GT 730"), "stands for several chips (2.1, 3.5)"),
        (("torch", "--compute-cap", "8.4"), "no architecture has compute capability 8.4"),
        (("torch", "--os", "beos"), "it is one of linux, windows, macos, wsl"),
        (("torch", "--machine", "vax"), "it is one of x86_64, aarch64, arm64"),
        (("drivers", "--cuda", "14.0"), "the tables have no CUDA 14.0"),
        (("drivers", "latest"), "is not a driver number"),
        (("cuda", "12.7"), "the tables have no CUDA 12.7"),
        (("gpus", "Voodoo 2"), "no GPU is known as 'Voodoo 2'"),
        (("python", "3.2"), "no torch has wheels for Python 3.2"),
        (("companions", "--torchvision", "9.9"), "the tables have no torchvision 9.9"),
        (("rocm", "Voodoo 2"), "no AMD GPU is known"),
        (("jetpack", "99"), "the tables have no JetPack for L4T 99"),
        (("conda", "9.9.9"), "the tables have no conda build"),
    ],
)
def test_errors_are_one_clear_line(run: Callable[..., tuple[int, str, str]], args: tuple[str, ...], says: str) -> None:
    code, out, err = run(*args)
    assert (code, out) == (2, "")
    assert says in err
    assert len(err.splitlines()) == 1


def test_check_says_that_all_is_well(run: Callable[..., tuple[int, str, str]]) -> None:
    assert run("check") == (0, "no contradiction in the tables\n", "")
