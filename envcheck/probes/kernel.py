"""The kernel's log, where it may be read without privileges that this process has not."""

from __future__ import annotations

import os
import time

from envcheck.facts import Facts, Outcome, ProbeRun
from envcheck.outputs.kernel_log import journal_messages, kmsg_messages, parse_kernel_log, with_ages
from envcheck.probes.compilers import which
from envcheck.probes.host import Host

KMSG = "/dev/kmsg"
_MAX = 4 * 1024 * 1024
_SECONDS = 0.25
_JOURNALS = ("/var/log/journal", "/run/log/journal")


def probe(host: Host) -> Facts:
    """Lines of the kernel log about GPUs; nothing where the log is closed to this user."""
    text = read_kmsg(host)
    if text is None:
        text = read_journal(host)
    if text is None:
        skipped = Outcome(status="skipped", detail="the kernel log may not be read by this user")
        return Facts(probes=(ProbeRun(name="kernel-log", outcome=skipped),))
    return Facts(kernel_events=with_ages(parse_kernel_log(kmsg_messages(text)), since_start(host)))


def since_start(host: Host) -> float | None:
    """Seconds since the start of the kernel by the clock of its log, which stands still in suspend."""
    if host.real and host.platform == "linux":
        return time.monotonic()
    words = (host.text("/proc/uptime") or "").split()
    return float(words[0]) if words and words[0].replace(".", "", 1).isdigit() else None


def read_kmsg(host: Host) -> str | None:
    """/dev/kmsg holds a record a read and would wait for the next one, so it is read without waiting."""
    path = host.path(KMSG)
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    except OSError:
        return None
    chunks: list[bytes] = []
    size, until = 0, time.monotonic() + _SECONDS
    try:
        while size < _MAX and time.monotonic() < until:
            try:
                chunk = os.read(handle, 16 * 1024)
            except BlockingIOError:
                break  # read to the end
            except BrokenPipeError:
                continue  # records were overwritten while they were read
            if not chunk:
                break
            chunks.append(chunk)
            size += len(chunk)
    except OSError:
        return None
    finally:
        os.close(handle)
    return b"".join(chunks).decode("utf-8", "backslashreplace")


def read_journal(host: Host) -> str | None:
    """The journal of this boot, for members of the groups that may read it."""
    program = which(host, "journalctl") if host.real else None
    if program is None or not any(_readable(host, place) for place in _JOURNALS):
        return None
    done = host.run(
        [program, "-k", "-b", "-q", "--no-pager", "-o", "short-monotonic", "-n", "5000"], timeout=host.timeout
    )
    return journal_messages(done.stdout) if done.ok else None


def _readable(host: Host, place: str) -> bool:
    return any(os.access(host.path(item), os.R_OK) for item in host.glob(f"{place}/*/system.journal"))
