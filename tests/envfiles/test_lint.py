"""Files that somebody else wrote: what is wrong with them, and sound ones of which nothing is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from envcheck.envfiles.kinds import KINDS
from envcheck.envfiles.lint import lint
from envcheck.envfiles.read import read
from envcheck.errors import UsageError
from envcheck.facts import Facts, Nvidia, NvidiaGpu, PythonEnv, System
from envcheck.findings import AREAS, SEVERITIES, Finding
from envcheck.matrix import load
from tests.envfiles.machines import DESCRIPTIONS, facts, text

CU128 = "https://download.pytorch.org/whl/cu128"


def machine(driver: str | None = None, gpu: str | None = None, *, os: str = "linux", python: str | None = "3.12.4") -> Facts:
    """A machine to judge for; nothing is known about its GPU unless it is said."""
    gpus = (NvidiaGpu(name=gpu),) if gpu else None
    return Facts(
        system=System(os=os, machine="x86_64"),
        nvidia=Nvidia(driver_version=driver, gpus=gpus),
        python=PythonEnv(version=python),
    )


def findings(folder: Path, name: str, content: str, known: Facts | None = None) -> dict[str, Finding]:
    path = folder / name
    path.write_text(content, encoding="utf-8")
    wanted = read(path)
    assert wanted.unread == ()
    found = lint(wanted, known or machine(), load())
    for item in found:
        assert item.severity in SEVERITIES and item.area in AREAS
        assert item.seen and item.why and item.remedy.text
    return {item.rule: item for item in found}


def conda(*rows: str, channels: str = "[conda-forge]") -> str:
    return f"name: x\nchannels: {channels}\ndependencies:\n" + "".join(f"  - {row}\n" for row in rows)


UNSOUND = {
    "defaults-and-conda-forge": ("environment.yml", conda("python=3.11", "pytorch", channels="[defaults, conda-forge]"), "file-mixed-channels", "warning"),
    "defaults-by-address": ("environment.yml", conda("pytorch", channels="['https://repo.anaconda.com/pkgs/main', conda-forge]"), "file-mixed-channels", "warning"),
    "channel-that-ended": ("environment.yml", conda("pytorch=2.6.0", channels="[pytorch, nvidia]"), "conda-channel-ended", "error"),
    "torch-twice": ("environment.yml", conda("pytorch=2.7.1", "pip", "pip:\n      - torch==2.7.1"), "duplicate-torch-install", "error"),
    "torchvision-of-another": ("requirements.txt", "torch==2.8.0\ntorchvision==0.22.0\n", "torchvision-mismatch", "error"),
    "torchaudio-of-another": ("requirements.txt", "torch==2.5.1\ntorchaudio==2.4.0\n", "torchaudio-mismatch", "error"),
    "conda-pair": ("environment.yml", conda("pytorch=2.5.1", "torchvision=0.19.0"), "torchvision-mismatch", "error"),
    "poetry-pair": ("pyproject.toml", '[tool.poetry.dependencies]\npython = "^3.11"\ntorch = "2.8.0"\ntorchvision = "0.22.0"\n', "torchvision-mismatch", "error"),
    "extra-index-loose": ("requirements.txt", f"--extra-index-url {CU128}\ntorch>=2.7\n", "file-extra-index", "warning"),
    "extra-index-exact": ("requirements.txt", "--extra-index-url https://download.pytorch.org/whl/cu126\ntorch==2.8.0\n", "file-extra-index", "note"),
    "extra-index-without": ("requirements.txt", "--extra-index-url https://download.pytorch.org/whl/cu118\ntorch==2.8.0\n", "file-extra-index", "error"),
    "index-for-everything": ("requirements.txt", f"--index-url {CU128}\ntorch==2.8.0\ntransformers==4.50.0\n", "file-index-only", "warning"),
    "python-without-wheel": ("environment.yml", conda("python=3.13", "pip", "pip:\n      - torch==2.2.0"), "python-no-wheel", "error"),
    "python-of-the-project": ("pyproject.toml", '[project]\nname="x"\nversion="1"\nrequires-python = ">=3.13"\ndependencies = ["torch==2.3.0"]\n', "python-no-wheel", "error"),
    "python-that-is-here": ("requirements.txt", "torch==1.12.1\n", "python-no-wheel", "error"),
    "no-such-torch": ("requirements.txt", "torch==2.5.7\n", "no-such-release", "error"),
    "no-such-build": ("requirements.txt", "--extra-index-url https://download.pytorch.org/whl/cu118\ntorch==2.9.0+cu118\n", "wheel-index-missing", "error"),
    "pytorch-of-pip": ("requirements.txt", "pytorch==2.8.0\n", "wrong-package-name", "error"),
    "docker-driver": ("Dockerfile", "FROM ubuntu:22.04\nRUN apt-get update && apt-get install -y \\\n  nvidia-driver-535 python3\n", "container-driver-in-image", "error"),
    "docker-cuda-meta": ("Dockerfile", "FROM ubuntu:22.04\nRUN apt-get update && apt-get install -y cuda-12-4\n", "container-driver-in-image", "error"),
    "docker-runfile": ("Dockerfile", "FROM ubuntu:22.04\nRUN sh NVIDIA-Linux-x86_64-535.183.01.run --silent\n", "container-driver-in-image", "error"),
    "docker-alpine": ("Dockerfile", "FROM python:3.12-alpine\nRUN pip install torch==2.8.0\n", "python-no-wheel", "error"),
    "docker-old-python": ("Dockerfile", "FROM python:3.8-slim\nRUN pip install torch==2.8.0\n", "python-no-wheel", "error"),
    "docker-old-glibc": ("Dockerfile", "FROM nvidia/cuda:11.8.0-runtime-ubuntu18.04\nRUN pip install torch==2.7.1\n", "glibc-too-old", "error"),
    "docker-cpu-wheel": ("Dockerfile", "FROM nvidia/cuda:12.8.1-runtime-ubuntu24.04\nRUN pip install torch==2.8.0 --index-url https://download.pytorch.org/whl/cpu\n", "cpu-only-build", "error"),
    "docker-devel-mismatch": ("Dockerfile", f"ARG CUDA=12.4.1\nFROM nvidia/cuda:${{CUDA}}-devel-ubuntu22.04\nRUN pip install torch==2.8.0 --index-url {CU128}\n", "toolkit-torch-cuda-mismatch", "warning"),
    "docker-torch-over-torch": ("Dockerfile", "FROM pytorch/pytorch:2.5.1-cuda12.4-cudnn9-runtime\nRUN pip install torch==2.8.0\n", "file-base-replaced", "warning"),
    "docker-heredoc": ("Dockerfile", "FROM ubuntu:24.04\nRUN <<EOF\napt-get install -y cuda-drivers\nEOF\n", "container-driver-in-image", "error"),
}  # fmt: skip


@pytest.mark.parametrize(("name", "content", "rule", "severity"), UNSOUND.values(), ids=UNSOUND)
def test_what_is_wrong_is_named(name: str, content: str, rule: str, severity: str, tmp_path: Path) -> None:
    found = findings(tmp_path, name, content)
    assert found[rule].severity == severity, found
    assert not [f for f in found.values() if f.rule != rule and f.severity == "error"], "one fault, one error"


SOUND = {
    "label-beside-pypi": ("requirements.txt", f"--extra-index-url {CU128}\ntorch==2.8.0+cu128\ntorchvision==0.23.0+cu128\ntransformers\n"),
    "index-for-torch-alone": ("requirements.txt", f"--index-url {CU128}\ntorch==2.8.0\ntorchvision==0.23.0\nnumpy\npillow\n"),
    "index-and-pypi": ("requirements.txt", f"--index-url https://pypi.org/simple\n--extra-index-url {CU128}\ntorch==2.8.0+cu128\ntransformers\n"),
    "plain": ("requirements.txt", "# comment\ntorch>=2.6  # any\ntorchvision\n-e .\ngit+https://github.com/a/b.git@main#egg=b\n"),
    "markers": ("requirements.txt", "torch==2.8.0 ; sys_platform == 'linux'\ntorch==1.0.1.post9 ; sys_platform == 'win32'\n"),
    "conda-forge": ("environment.yml", conda("python=3.12", "pytorch=2.7.1=cuda*", "torchvision", "cuda-version=12.9")),
    "old-channel": ("environment.yml", conda("python=3.11", "pytorch=2.4.1", "torchvision=0.19.1", "pytorch-cuda=12.4", channels="[pytorch, nvidia, conda-forge]")),
    "old-channel-defaults": ("environment.yml", conda("python=3.11", "pytorch=2.3.1", "pytorch-cuda=12.1", channels="[pytorch, nvidia, defaults]")),
    "uv": ("pyproject.toml", f'[project]\nname="x"\nversion="1"\nrequires-python=">=3.10"\ndependencies=["torch==2.8.0","torchvision==0.23.0","transformers"]\n[tool.uv.sources]\ntorch={{index="p"}}\n[[tool.uv.index]]\nname="p"\nurl="{CU128}"\nexplicit=true\n'),
    "spaces-and-folders": ("environment.yml", conda("python >= 3.9", "pip=22.3.1", "pytorch=2.1.2", "cudatoolkit=11.8", "numpy >=1.20,<2", "pip:\n      - submodules/rasterizer\n      - ./other\n      - -e git+https://github.com/a/b@fix-it#egg=b", channels="[pytorch, nvidia]")),
    "rocm-beside-pypi": ("requirements.txt", "--extra-index-url https://download.pytorch.org/whl/rocm6.4\ntorch==2.9.0+rocm6.4\ntorchvision==0.24.0+rocm6.4\ntriton==3.5.0\ncmake>=3.26.1,<4\n"),
    "newer-than-the-tables": ("requirements.txt", "torch==9.1.0\ntorchvision==9.9.0\n"),
    "nightly": ("requirements.txt", "--index-url https://download.pytorch.org/whl/nightly/cu128\ntorch==2.9.0.dev20250801+cu128\n"),
    "docker": ("Dockerfile", f"FROM python:3.12-slim\nRUN pip install torch==2.8.0 --index-url {CU128} && pip install transformers\n"),
    "docker-same-cuda": ("Dockerfile", f"FROM nvidia/cuda:12.8.1-devel-ubuntu22.04 AS build\nRUN apt-get update && apt-get install -y cuda-toolkit-12-8 nvidia-container-toolkit\nRUN pip install torch==2.8.0 --index-url {CU128}\n"),
    "docker-stages": ("Dockerfile", "FROM python:3.12-alpine AS web\nRUN apk add nodejs\nFROM python:3.12-slim\nRUN pip install torch==2.8.0\n"),
    "docker-of-pytorch": ("Dockerfile", "FROM pytorch/pytorch:2.5.1-cuda12.4-cudnn9-runtime\nRUN pip install transformers\n"),
}  # fmt: skip


@pytest.mark.parametrize(("name", "content"), SOUND.values(), ids=SOUND)
def test_of_a_sound_file_nothing_is_said(name: str, content: str, tmp_path: Path) -> None:
    assert findings(tmp_path, name, content, machine("580.95.05", "NVIDIA A100-SXM4-80GB")) == {}


@pytest.mark.parametrize("machine_name", sorted(DESCRIPTIONS))
@pytest.mark.parametrize("kind", sorted(k for k, v in KINDS.items() if v.format))
def test_of_our_own_files_nothing_is_said(kind: str, machine_name: str, tmp_path: Path) -> None:
    if kind == "conda" and machine_name == "linux-rocm":
        pytest.skip("conda-forge has no ROCm build")
    (tmp_path / KINDS[kind].path).write_text(text(kind, machine_name), encoding="utf-8")
    found = lint(read(tmp_path / KINDS[kind].path), facts(machine_name), load())
    assert not [f for f in found if f.severity != "note"], found


def test_a_cuda_build_that_the_driver_cannot_run(tmp_path: Path) -> None:
    content = f"--index-url {CU128}\ntorch==2.8.0\n"
    found = findings(tmp_path, "requirements.txt", content, machine("470.82.01"))
    assert "470.82.01" in found["driver-too-old"].seen
    assert "envcheck recommend" in found["driver-too-old"].remedy.commands
    assert "driver-too-old" not in findings(tmp_path, "requirements.txt", content, machine("535.183.01"))
    assert "driver-too-old" not in findings(tmp_path, "requirements.txt", content, machine(None))


def test_plain_pypi_is_a_cuda_build_on_linux(tmp_path: Path) -> None:
    assert "driver-too-old" in findings(tmp_path, "requirements.txt", "torch==2.8.0\n", machine("470.82.01"))
    assert "driver-too-old" not in findings(tmp_path, "requirements.txt", "torch==2.8.0\n", machine("472.12", os="windows"))


def test_a_build_without_code_for_the_gpu(tmp_path: Path) -> None:
    blackwell = machine("580.95.05", "NVIDIA GeForce RTX 5090")
    content = "--index-url https://download.pytorch.org/whl/cu126\ntorch==2.6.0\n"
    assert "gpu-too-new-for-build" in findings(tmp_path, "requirements.txt", content, blackwell)
    pascal = machine("580.95.05", "NVIDIA GeForce GTX 1080")
    content = "--index-url https://download.pytorch.org/whl/cu130\ntorch==2.9.0\n"
    assert "gpu-too-old-for-build" in findings(tmp_path, "requirements.txt", content, pascal)


def test_an_image_that_the_driver_does_not_start(tmp_path: Path) -> None:
    content = "FROM nvidia/cuda:13.0.1-runtime-ubuntu24.04\nCMD [\"true\"]\n"
    assert "driver-too-old" in findings(tmp_path, "Dockerfile", content, machine("535.183.01"))
    assert findings(tmp_path, "Dockerfile", content, machine("580.95.05")) == {}


def test_the_line_is_named(tmp_path: Path) -> None:
    found = findings(tmp_path, "requirements.txt", "# first\nnumpy\ntorch==2.8.0\ntorchvision==0.22.0\n")
    assert found["torchvision-mismatch"].line == 4
    found = findings(tmp_path, "environment.yml", conda("python=3.11", "pytorch=2.5.1", "torchvision=0.19.0"))
    assert found["torchvision-mismatch"].line == 6


def test_included_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "base.txt").write_text("torch==2.8.0\n")
    assert "torchvision-mismatch" in findings(tmp_path, "requirements.txt", "-r base.txt\ntorchvision==0.22.0\n")


@pytest.mark.parametrize(
    ("name", "content"),
    [("environment.yml", "a: [1"), ("environment.yml", "name: x\n"), ("pyproject.toml", "x = "), ("pyproject.toml", "[build-system]\n"), ("notes.md", "hello"), ("requirements.txt", None)],
    ids=["yaml", "no-dependencies", "toml", "nothing-in-it", "markdown", "not-there"],
)  # fmt: skip
def test_what_is_no_such_file_is_refused_in_one_line(name: str, content: str | None, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(UsageError) as raised:
        read(tmp_path / name)
    assert "\n" not in str(raised.value).split(":", 1)[1][:80]
