"""Machines that files are written for, and the environment that the recommendation makes of them."""

from __future__ import annotations

from envcheck.envfiles.from_plan import environment
from envcheck.envfiles.kinds import KINDS, render
from envcheck.envfiles.model import Environment
from envcheck.facts import Facts, System
from envcheck.matrix import load
from envcheck.recommend import Wishes, plan
from envcheck.recommend.describe import Description, describe

HERE = System(os="linux", machine="x86_64")

DESCRIPTIONS = {
    "linux-a100": Description(os="linux", python="3.12", driver="535.183.01", gpus=("NVIDIA A100-SXM4-80GB",)),
    "linux-5090": Description(os="linux", python="3.13", driver="580.95.05", gpus=("NVIDIA GeForce RTX 5090",)),
    "linux-cpu": Description(os="linux", python="3.11"),
    "linux-rocm": Description(os="linux", python="3.12", gpus=("gfx1100",), rocm="6.4"),
    "linux-grace": Description(os="linux", machine="aarch64", python="3.12", driver="580.95.05", gpus=("NVIDIA GH200 480GB",)),
    "windows-4070": Description(os="windows", python="3.12", driver="566.36", gpus=("NVIDIA GeForce RTX 4070",)),
    "macos-m2": Description(os="macos", python="3.12"),
}


def facts(machine: str) -> Facts:
    """The described machine."""
    return describe(DESCRIPTIONS[machine], load(), here=HERE)


def content(kind: str, machine: str, **wishes: str) -> Environment:
    """What the recommendation for that machine puts into a file of that kind."""
    known, matrix = facts(machine), load()
    wishes.setdefault("manager", KINDS[kind].manager)
    if machine == "linux-cpu":
        wishes.setdefault("device", "cpu")
    return environment(plan(known, matrix, Wishes(**wishes)), known, matrix, name="detr")


def text(kind: str, machine: str, **wishes: str) -> str:
    """The file."""
    return render(KINDS[kind], content(kind, machine, **wishes), load())
