"""The files of CIFAR-10, looked at before minutes are spent on anything else."""

from __future__ import annotations

import ast
import hashlib
from functools import cache
from pathlib import Path

from envcheck.errors import UsageError
from envcheck.reference.measure import TRAIN

FOLDER = "cifar-10-batches-py"


@cache
def expected() -> dict[str, str]:
    """md5 by file name, read from the training program: users get that file alone, so they stand there and only there."""
    for node in ast.parse(TRAIN.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and [getattr(t, "id", "") for t in node.targets] == ["FILES"]:
            return dict(ast.literal_eval(node.value))
    raise AssertionError("train_cifar10.py has no FILES")


def check_files(folder: Path) -> None:
    """Reads every file once.

    Raises:
        UsageError: one is missing, cut off or changed; the message names it.
    """
    base = folder if folder.name == FOLDER else folder / FOLDER
    if not base.is_dir():
        raise UsageError(f"{folder}: no {FOLDER} in it; unpack cifar-10-python.tar.gz there, or add --download")
    for name, md5 in expected().items():
        try:
            data = (base / name).read_bytes()
        except OSError as error:
            raise UsageError(f"{base / name}: {error.strerror}; copy it again, or add --download") from error
        if hashlib.md5(data, usedforsecurity=False).hexdigest() != md5:
            raise UsageError(
                f"{base / name}: not the original file ({len(data):,} bytes, wrong md5); copy it again, or add --download"
            )
