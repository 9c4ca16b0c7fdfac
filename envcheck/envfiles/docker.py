"""What the container files are given: a base image, options of `docker run`, the commands that install torch."""

from __future__ import annotations

import re
from typing import Any

from envcheck.envfiles.model import Environment, Package, variant_of_index
from envcheck.installers import line
from envcheck.matrix import Matrix
from envcheck.matrix.versions import numbers

CPU_INDEX = "https://download.pytorch.org/whl/cpu"

_SYSTEM_CUDA = re.compile(r"cupy-cuda\d+x$|pycuda$|tensorrt$|cudf-|cuml-|rmm-")
"""Packages that load CUDA libraries which their wheels do not bring."""

# Runtime images of nvidia/cuda by CUDA version, each with the Ubuntu whose Python packages follow it.
_RUNTIMES = {
    "11.8": "11.8.0-runtime-ubuntu22.04",
    "12.1": "12.1.1-runtime-ubuntu22.04",
    "12.4": "12.4.1-runtime-ubuntu22.04",
    "12.6": "12.6.3-runtime-ubuntu24.04",
    "12.8": "12.8.1-runtime-ubuntu24.04",
    "12.9": "12.9.1-runtime-ubuntu24.04",
    "13.0": "13.0.1-runtime-ubuntu24.04",
}
_UBUNTU_PYTHON = {"22.04": "3.10", "24.04": "3.12"}
_BOOKWORM_FROM = (3, 8)


def dockerfile(env: Environment, matrix: Matrix) -> dict[str, Any]:
    """Values of Dockerfile.jinja."""
    system = tuple(p.name for p in env.packages if _SYSTEM_CUDA.match(p.name))
    base, cuda_base, warning = _base(env, system)
    env = env.with_warnings(*warning, *_host(env))
    return {
        "env": env,
        "base": base,
        "cuda_base": cuda_base,
        "system_cuda": system,
        "brings": "their CUDA libraries" if env.cuda else "ROCm" if env.variant.startswith("rocm") else "all they load",
        "git": any(p.url.startswith("git+") for p in env.packages),
        "torch_words": torch_words(env),
        "lint": " --lint" if _other_build(env) else "",
        "run_options": _run_options(env),
    }


def _base(env: Environment, system: tuple[str, ...]) -> tuple[str, bool, tuple[str, ...]]:
    """The base image, whether it is one of CUDA, and what to mind about it."""
    if system and env.cuda:
        tag = _RUNTIMES.get(env.cuda)
        if tag is not None and _UBUNTU_PYTHON[tag.rpartition("ubuntu")[2]] == env.python:
            return f"nvidia/cuda:{tag}", True, ()
        text = f"{', '.join(system)} load CUDA libraries that no wheel brings, and nvidia/cuda has no known image with both "
        return _python(env), False, (f"{text}CUDA {env.cuda} and Python {env.python}: install their CUDA extras.",)
    return _python(env), False, ()


def _python(env: Environment) -> str:
    suite = "-bookworm" if numbers(env.python) >= _BOOKWORM_FROM else ""
    return f"python:{env.python}-slim{suite}"


def _host(env: Environment) -> tuple[str, ...]:
    if env.os == "macos":
        return ("A container on a Mac is Linux and has no MPS: there it computes on the CPU.",)
    if env.os == "windows":
        return ("A container on Windows is Linux (WSL 2): the GPU comes from the Windows driver.",)
    return ()


def _run_options(env: Environment) -> str:
    return "".join(f"{word} " for word in run_args(env))


def run_args(env: Environment) -> list[str]:
    """Options with which a container sees the GPU and has room for DataLoader workers."""
    memory = ["--shm-size=8g"]
    if env.cuda:
        return ["--gpus=all", *memory]
    if env.variant.startswith("rocm"):
        return ["--device=/dev/kfd", "--device=/dev/dri", "--group-add=video", "--group-add=render", *memory]
    if env.variant == "xpu":
        return ["--device=/dev/dri", "--group-add=render", *memory]
    return memory


def devcontainer(env: Environment) -> dict[str, Any]:
    """Values of devcontainer.json.jinja."""
    # hostRequirements asks for the GPU; --gpus=all would keep the container from starting where there is none.
    words = [word for word in run_args(env) if word != "--gpus=all"]
    return {"env": env.with_warnings(*_host(env)), "run_args": words}


def _other_build(env: Environment) -> bool:
    """The container computes on the CPU where the file's plain PyPI would bring a CUDA build on Linux."""
    return env.os in ("macos", "windows") and not env.cuda and not env.indexes


def torch_words(env: Environment) -> str:
    """What `pip install` gets for the torch family of a Linux container."""
    if _other_build(env):
        return cpu_words(env)
    pins = [_pin(p) for p in env.family if not p.url]
    index = next((p.index for p in env.family if p.index), None)
    return line([*pins, *(("--index-url", index) if index else ())])


def cpu_words(env: Environment) -> str:
    """The same release as CPU build for Linux."""
    pins = [_pin(p) for p in env.family if not p.url] or [f"torch=={env.torch}"] * bool(env.torch)
    return line([*pins, "--index-url", CPU_INDEX])


def _pin(package: Package) -> str:
    known = variant_of_index(package.index or "") is not None
    return package.name + package.spec + (f"+{package.label}" if package.label and not known else "")
