"""Device files and whether this process may use them."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass

from envcheck.facts import DeviceNode
from envcheck.probes.host import Host


@dataclass(frozen=True)
class Identity:
    """Who this process is, as far as rights go. From /proc/self/status, so a recorded tree has its own."""

    uid: int | None
    gids: frozenset[int]


def identity(host: Host) -> Identity | None:
    """The process's effective user and all its groups; None where /proc does not say."""
    status = host.text("/proc/self/status")
    if status is None:
        return None
    uid: int | None = None
    gids: set[int] = set()
    for line in status.splitlines():
        name, _, rest = line.partition(":")
        numbers = [int(item) for item in rest.split() if item.isdigit()]
        if name == "Uid" and len(numbers) > 1:
            uid = numbers[1]
        elif name == "Gid" and len(numbers) > 1:
            gids.add(numbers[1])
        elif name == "Groups":
            gids.update(numbers)
    return Identity(uid, frozenset(gids))


def names(host: Host, file: str) -> dict[int, str]:
    """Names by number from /etc/passwd or /etc/group; read directly, because a dead directory server can hang a look-up."""
    found: dict[int, str] = {}
    for line in (host.text(file) or "").splitlines():
        cells = line.split(":")
        if len(cells) > 2 and cells[2].isdigit():
            found.setdefault(int(cells[2]), cells[0])
    return found


def user_groups(host: Host) -> tuple[str, ...] | None:
    """Names of the process's groups (numbers where /etc/group has no name)."""
    who = identity(host)
    if who is None:
        return None
    known = names(host, "/etc/group")
    return tuple(sorted(known.get(gid, str(gid)) for gid in who.gids))


def device_node(host: Host, name: str, *, opens: bool = False) -> DeviceNode | None:
    """One device file, None when it is not there.

    opens: also opens it for reading and writing, for files where that costs nothing: a container's device rules deny
    what the file's mode allows, and only opening shows it.
    """
    try:
        info = host.path(name).stat()
    except OSError:
        return None
    readable, writable = _rights(host, name, info)
    if opens and host.real and readable and writable and not _opens(host, name):
        readable = writable = False
    mode = stat.filemode(info.st_mode)
    return DeviceNode(
        path=name,
        readable=readable,
        writable=writable,
        mode=mode if host.real else "c" + mode[1:],  # the files of a recorded tree are plain ones
        owner=names(host, "/etc/passwd").get(info.st_uid, str(info.st_uid)),
        group=names(host, "/etc/group").get(info.st_gid, str(info.st_gid)),
    )


def _rights(host: Host, name: str, info: os.stat_result) -> tuple[bool | None, bool | None]:
    if host.real:
        path = host.path(name)
        return os.access(path, os.R_OK), os.access(path, os.W_OK)
    who = identity(host)
    if who is None or who.uid is None:
        return None, None
    if who.uid == 0:
        return True, True
    shift = 6 if who.uid == info.st_uid else 3 if info.st_gid in who.gids else 0
    bits = info.st_mode >> shift
    return bool(bits & 4), bool(bits & 2)


def _opens(host: Host, name: str) -> bool:
    flags = os.O_RDWR | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
    try:
        handle = os.open(host.path(name), flags)
    except PermissionError:
        return False
    except OSError:
        return True  # EIO, ENODEV, EBUSY: that is the driver's answer, not a matter of rights
    os.close(handle)
    return True


def device_nodes(host: Host, *patterns: str, opens: frozenset[str] = frozenset()) -> tuple[DeviceNode, ...] | None:
    """All device files of the patterns, () when there is none, None when /dev cannot be looked into."""
    if host.exists("/dev") is not True:
        return None
    found = []
    for pattern in patterns:
        for name in host.glob(pattern):
            node = device_node(host, name, opens=name in opens)
            if node is not None and not host.path(name).is_dir():
                found.append(node)
    return tuple(found)
