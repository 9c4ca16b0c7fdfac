"""Environments that are only metadata: what a payload needs to see of pip's, uv's and conda's installations."""

from __future__ import annotations

import json
import platform
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envcheck.envfiles import installed
from envcheck.envfiles.from_installed import Choices, environment
from envcheck.envfiles.installed import Installed
from envcheck.envfiles.kinds import KINDS, render
from envcheck.envfiles.model import Environment
from envcheck.facts import Facts, PythonEnv, System
from envcheck.matrix import load
from tests.kit_python.environments import make_venv

VERSION = platform.python_version()
TORCH = ("filelock", "sympy>=1.13.3", "numpy; extra == 'opt'", "triton==3.4.0 ; platform_system == 'Linux'",
         "nvidia-cublas-cu12==12.8.4.1 ; platform_system == 'Linux'", "pywin32 ; sys_platform == 'win32'")  # fmt: skip


@dataclass
class Fake:
    """A virtual environment whose packages are metadata alone."""

    python: Path
    site: Path

    @property
    def prefix(self) -> Path:
        return self.python.parent.parent

    def add(self, name: str, version: str, *requires: str, asked: bool = False, installer: str = "pip", **origin: Any) -> None:
        """One distribution; `origin` is its direct_url.json."""
        folder = self.site / f"{name.replace('-', '_')}-{version}.dist-info"
        folder.mkdir()
        head = [f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}", *(f"Requires-Dist: {r}" for r in requires)]
        (folder / "METADATA").write_text("\n".join(head) + "\n\nText.\n", encoding="utf-8")
        (folder / "INSTALLER").write_text(installer + "\n")
        if asked:
            (folder / "REQUESTED").write_text("")
        if origin:
            (folder / "direct_url.json").write_text(json.dumps(origin), encoding="utf-8")

    def torch_file(self, version: str, cuda: str | None) -> None:
        """torch/version.py as the wheels have it."""
        (self.site / "torch").mkdir()
        text = f"__version__ = '{version}'\ncuda: Optional[str] = {cuda!r}\nhip: Optional[str] = None\nxpu: Optional[str] = None\n"
        (self.site / "torch" / "version.py").write_text(text)

    def conda(self, name: str, version: str, build: str, *, asked: bool = False, channel: str = "conda-forge", **more: Any) -> None:
        """One record of conda-meta; with `dist` the metadata directory that belongs to it."""
        meta = self.prefix / "conda-meta"
        meta.mkdir(exist_ok=True)
        dist = more.pop("dist", None)
        inside = self.site.relative_to(self.prefix).as_posix()
        record = {
            "name": name,
            "version": version,
            "build": build,
            "channel": f"https://conda.anaconda.org/{channel}/linux-64",
            "depends": more.get("depends", []),
            "files": [f"{inside}/{dist}-{version}.dist-info/METADATA"] if dist else [],
            "requested_spec": name if asked else "",
        }
        (meta / f"{name}-{version}-{build}.json").write_text(json.dumps(record), encoding="utf-8")
        if dist:
            self.add(dist, version, installer="conda")

    def list(self) -> Installed:
        """What the payload finds."""
        return installed.finish(installed.ask(self.python))


def fake(directory: Path) -> Fake:
    """An empty one."""
    python, site = make_venv(directory)
    return Fake(python, site)


def facts(os: str = "linux", machine: str = "x86_64", **more: Any) -> Facts:
    """The machine around it."""
    return Facts(system=System(os=os, machine=machine), python=PythonEnv(version=VERSION, **more))


def content(made: Installed, kind: str, project: Path, **choices: Any) -> Environment:
    """The content of a file of that kind."""
    choices.setdefault("exact", not choices.get("minimal"))
    return environment(
        made, facts(), load(), name="detr", choices=Choices(conda=KINDS[kind].conda, **choices), project=project
    )


def written(made: Installed, kind: str, project: Path, **choices: Any) -> Path:
    """The file itself, in the project's folder."""
    path = project / KINDS[kind].path
    path.write_text(render(KINDS[kind], content(made, kind, project, **choices), load()), encoding="utf-8")
    return path


def pip_cuda(directory: Path) -> Fake:
    """torch of the index cu128 and what it brings, a repository, an editable project."""
    made = fake(directory / "venv")
    made.add("torch", "2.8.0+cu128", *TORCH, asked=True)
    made.torch_file("2.8.0+cu128", "12.8")
    made.add("torchvision", "0.23.0+cu128", "torch==2.8.0", "numpy", asked=True)
    made.add("numpy", "2.2.1")
    made.add("filelock", "3.18.0")
    made.add("sympy", "1.14.0", "mpmath<1.4,>=1.1.0")
    made.add("mpmath", "1.3.0")
    made.add("triton", "3.4.0")
    made.add("nvidia-cublas-cu12", "12.8.4.1")
    made.add("einops", "0.8.1", asked=True)
    commit = "0123456789abcdef0123456789abcdef01234567"
    made.add("detectron2", "0.6", "numpy", asked=True, url="https://user:secret@github.com/facebookresearch/detectron2.git",
             vcs_info={"vcs": "git", "commit_id": commit})  # fmt: skip
    (directory / "project").mkdir()
    made.add("mine", "0.1.0", asked=True, url=(directory / "project").as_uri(), dir_info={"editable": True})
    return made


def conda_cuda(directory: Path) -> Fake:
    """conda-forge's CUDA build, and one package of pip in it."""
    made = fake(directory / "venv")
    made.conda("python", VERSION, "h1234567_0_cpython", asked=True)
    made.conda("pytorch", "2.7.1", "cuda129_mkl_py312_h1234567_300", asked=True, dist="torch", depends=["numpy >=2", "libtorch 2.7.1.*"])
    made.conda("libtorch", "2.7.1", "cuda129_mkl_h1234567_300")
    made.conda("numpy", "2.2.1", "py312h72c5963_0", dist="numpy")
    made.conda("cuda-version", "12.9", "h4f385c5_3", asked=True)
    made.torch_file("2.7.1", "12.9")
    made.add("einops", "0.8.1", asked=True)
    return made
