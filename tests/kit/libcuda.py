"""A stub libcuda: real torch loads it by LD_LIBRARY_PATH and says what it says on such a machine."""

from __future__ import annotations

import atexit
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_name("libcuda.c")


@cache
def _built() -> Path | None:
    """The library, compiled once a test run; None without a C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return None
    directory = tempfile.mkdtemp(prefix="stub-libcuda-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    target = Path(directory) / "libcuda.so.1"
    command = [compiler, "-shared", "-fPIC", "-O1", "-w", "-Wl,-soname,libcuda.so.1", "-o", str(target), str(SOURCE), "-ldl"]
    subprocess.run(command, check=True, timeout=60)
    return target


def stub_libcuda(
    directory: Path, init: int = 0, version: int = 13000, count: int = 1, driver: str | None = None, **settings: object
) -> Path:
    """Puts a libcuda.so.1 into the directory and returns it, ready for LD_LIBRARY_PATH.

    init: what cuInit returns; version: cuDriverGetVersion; count: devices. Further settings stand in libcuda.c: name,
    major, minor, hang (seconds), crash (signal number), mask. driver: "535.183.01" names the real file so.

    Real torch repeats the words of every code but 0: with that its runtime library goes on to ask for private tables,
    which only the real driver has, and reports error 500. version below that of the build: "driver is too old".
    """
    built = _built()
    if built is None:
        pytest.skip("no C compiler for the stub libcuda")
    directory.mkdir(parents=True, exist_ok=True)
    if driver is None:
        shutil.copy(built, directory / "libcuda.so.1")
    else:
        shutil.copy(built, directory / f"libcuda.so.{driver}")
        (directory / "libcuda.so.1").symlink_to(f"libcuda.so.{driver}")
    values = {"init": init, "version": version, "count": count, **settings}
    (directory / "libcuda.conf").write_text("".join(f"{key} {value}\n" for key, value in values.items()))
    return directory
