"""Programs that take the place of an interpreter and are none, or a broken one. POSIX scripts."""

from __future__ import annotations

import sys
from pathlib import Path

HANGS = "sleep 3600"
SEGFAULTS = "kill -SEGV $$"
FAILS = "echo 'Fatal Python error: init_fs_encoding: failed to get the Python codec' >&2; exit 1"
SHIM_WITHOUT_VERSION = "echo \"pyenv: version '3.8.9' is not installed\" >&2; exit 1"
GARBAGE = "head -c 300000 /dev/urandom; echo; echo '@envcheck@ {\"stage\": \"interp'; echo '@envcheck@ nonsense'"
OTHER_PROGRAM = "echo 'usage: something [-V]'; exit 0"
ENDLESS_LINE = "cat /dev/zero"
ANSWERS_THEN_CRASHES = (
    'echo \'@envcheck@ {"begin": "interpreter"}\'; echo \'@envcheck@ {"stage": "interpreter", "result": "ok"}\'; '
    'echo \'@envcheck@ {"begin": "torch-files"}\'; printf \'@envcheck@ {"stage": "torch-files", "found": tr\'; kill -BUS $$'
)
LEAVES_A_CHILD = "sleep 3600 & echo '@envcheck@ {\"stage\": \"done\"}'"


def make_interpreter(path: Path, script: str) -> Path:
    """An executable shell script of that name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def wrapper(path: Path, before: str = "", python: str = sys.executable) -> Path:
    """A script that hands over to a real interpreter, after doing something else."""
    return make_interpreter(path, f'{before}\nexec "{python}" "$@"')
