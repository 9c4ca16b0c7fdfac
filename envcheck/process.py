"""The only door to other programs: every run has a time limit, is killed with its children, and says how it ended."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

MAX_OUTPUT = 8 * 1024 * 1024
"""Bytes kept of each stream: a program that prints forever must not fill the memory."""
MAX_LINE = 4 * 1024 * 1024
"""Bytes taken for one line: nor must one that never ends its line."""

# NTSTATUS codes with which Windows reports a native crash as the exit code.
_NTSTATUS = {
    0xC0000005: "STATUS_ACCESS_VIOLATION",
    0xC000001D: "STATUS_ILLEGAL_INSTRUCTION",
    0xC00000FD: "STATUS_STACK_OVERFLOW",
    0xC0000135: "STATUS_DLL_NOT_FOUND",
    0xC0000139: "STATUS_ENTRYPOINT_NOT_FOUND",
    0xC0000142: "STATUS_DLL_INIT_FAILED",
    0xC0000374: "STATUS_HEAP_CORRUPTION",
    0xC0000409: "STATUS_STACK_BUFFER_OVERRUN",
}


@dataclass(frozen=True)
class Completed:
    """How a program ended.

    status: "ok" (exit code 0), "failed" (another code), "missing" (no such program), "refused" (not executable or not
    a program of this machine), "timeout", "crashed" (a signal, or an NTSTATUS on Windows).
    """

    argv: tuple[str, ...]
    status: str
    returncode: int | None = None
    signal: str | None = None
    stdout: str = ""
    stderr: str = ""
    seconds: float = 0.0
    reason: str = ""
    """For "missing" and "refused": the operating system's words."""

    @property
    def ok(self) -> bool:
        """The program ran and returned 0."""
        return self.status == "ok"


Run = Callable[..., Completed]
"""Type of `run`, so that probes take it as an argument and tests hand in a fake."""


def crash_name(returncode: int | None) -> str | None:
    """Name of the signal or NTSTATUS behind an exit code, None when it is an ordinary code."""
    if returncode is None:
        return None
    if returncode < 0:
        with contextlib.suppress(ValueError):
            return signal.Signals(-returncode).name
        return f"signal {-returncode}"
    return _NTSTATUS.get(returncode & 0xFFFFFFFF) if returncode > 0xFFFF else None


def _decode(chunks: list[bytes]) -> str:
    data = b"".join(chunks)
    # nvidia-smi on a localised Windows and pip under a legacy code page do not print UTF-8; never fail on it.
    return data.decode("utf-8", "backslashreplace").replace("\r\n", "\n")


class _Reader(threading.Thread):
    """Drains one stream, keeping the first MAX_OUTPUT bytes and handing over whole lines as they come."""

    def __init__(self, stream: IO[bytes], on_line: Callable[[str], None] | None = None) -> None:
        super().__init__(daemon=True)
        self.stream = stream
        self.on_line = on_line
        self.chunks: list[bytes] = []
        self.size = 0
        self.start()

    def run(self) -> None:
        with contextlib.suppress(ValueError, OSError):
            for line in iter(lambda: self.stream.readline(MAX_LINE), b""):
                if self.size < MAX_OUTPUT:
                    self.chunks.append(line)
                    self.size += len(line)
                if self.on_line is not None:
                    self.on_line(_decode([line]).rstrip("\n"))


class Running:
    """A program that was started and not yet waited for; `started` False when it could not be."""

    def __init__(
        self,
        argv: Sequence[str | Path],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | Path | None = None,
        stdin: bytes | None = None,
        on_line: Callable[[str], None] | None = None,
    ) -> None:
        self.argv = tuple(str(a) for a in argv)
        self.begun = time.monotonic()
        self.failure: Completed | None = None
        options: dict[str, object] = {}
        if os.name == "posix":
            options["start_new_session"] = True  # so that the whole family can be killed
        else:
            options["creationflags"] = getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)
        try:
            self.process = subprocess.Popen(
                self.argv,
                stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=dict(env) if env is not None else None,
                cwd=str(cwd) if cwd is not None else None,
                **options,  # type: ignore[call-overload]
            )
        except FileNotFoundError as error:
            self.failure = Completed(self.argv, "missing", reason=str(error))
            return
        except OSError as error:
            self.failure = Completed(self.argv, "refused", reason=str(error))
            return
        self.out = _Reader(self.process.stdout, on_line)
        self.err = _Reader(self.process.stderr)
        if stdin is not None and self.process.stdin is not None:
            with contextlib.suppress(OSError):
                self.process.stdin.write(stdin)
                self.process.stdin.close()

    @property
    def started(self) -> bool:
        """The operating system made the process."""
        return self.failure is None

    def poll(self) -> bool:
        """True once the program has ended."""
        return self.failure is not None or self.process.poll() is not None

    def kill(self) -> None:
        """Ends the program and its children at once."""
        if self.failure is not None:
            return
        if os.name == "posix":
            with contextlib.suppress(OSError):
                os.killpg(self.process.pid, signal.SIGKILL)
        with contextlib.suppress(OSError):
            self.process.kill()

    def wait(self, timeout: float) -> Completed:
        """Waits at most `timeout` seconds from now, kills what is left, and drains both streams."""
        if self.failure is not None:
            return self.failure
        timed_out = False
        try:
            self.process.wait(timeout=max(timeout, 0.0))
        except subprocess.TimeoutExpired:
            timed_out = True
            self.kill()
            # A process in uninterruptible sleep (a dead GPU driver) survives SIGKILL: leave it behind.
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(timeout=1.0)
        for reader in (self.out, self.err):
            # A grandchild may hold the pipe open after its parent's end: do not wait for it.
            reader.join(timeout=1.0)
            if not reader.is_alive():
                reader.stream.close()
        code = self.process.returncode
        crash = None if timed_out else crash_name(code)
        status = "timeout" if timed_out else "crashed" if crash else "ok" if code == 0 else "failed"
        return Completed(
            self.argv,
            status,
            returncode=code,
            signal=crash,
            stdout=_decode(list(self.out.chunks)),
            stderr=_decode(list(self.err.chunks)),
            seconds=time.monotonic() - self.begun,
        )


def run(
    argv: Sequence[str | Path],
    *,
    timeout: float,
    env: Mapping[str, str] | None = None,
    cwd: str | Path | None = None,
    stdin: bytes | None = None,
) -> Completed:
    """Runs a program to its end, `timeout` seconds at most; never raises for what the program does."""
    return Running(argv, env=env, cwd=cwd, stdin=stdin).wait(timeout)
