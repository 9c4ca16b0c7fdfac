"""The operating system and the machine below it."""

from __future__ import annotations

import shutil
import sys

from envcheck.facts import Facts, System
from envcheck.probes import linux
from envcheck.probes.host import Host


def probe(host: Host) -> Facts:
    """The part of the operating system that this host runs."""
    if host.platform == "win32":
        from envcheck.probes import windows

        return windows.probe(host)
    if host.platform == "darwin":
        from envcheck.probes import macos

        return macos.probe(host)
    return linux.probe(host)


def space(host: Host) -> Facts:
    """Free space on disk and in shared memory."""
    if host.platform.startswith("linux"):
        return linux.space(host)
    try:
        disk = shutil.disk_usage(host.prefix or sys.prefix).free
    except OSError:
        return Facts()
    return Facts(system=System(disk_free=disk))
