"""What a process may really use: cores after affinity and cgroup quota, memory after the cgroup's limit."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from envcheck.probes.host import Host

# cgroup v1 says "no limit" with a number near 2^63 (rounded to pages).
_UNLIMITED = 1 << 60


class Memory(NamedTuple):
    """Bytes: what there is for this process and what is free of it."""

    total: int | None
    available: int | None


def parse_cgroup(text: str) -> dict[str, str]:
    """/proc/self/cgroup as controller -> path; the unified hierarchy has the name ""."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        parts = line.split(":", 2)
        if len(parts) == 3:
            for controller in parts[1].split(","):
                found[controller] = parts[2]
    return found


def _directories(mount: str, path: str) -> Iterator[str]:
    """The cgroup's own directory and its parents up to the mount.

    In a container without a cgroup namespace the path is the host's and does not exist below the mount; the mount
    itself is then the container's group.
    """
    parts = [part for part in path.split("/") if part and part != ".."]
    for count in range(len(parts), -1, -1):
        yield "/".join([mount, *parts[:count]])


def _v2(host: Host, groups: dict[str, str]) -> list[str]:
    path = groups.get("")
    if path is None:
        return []
    mount = "/sys/fs/cgroup" if host.exists("/sys/fs/cgroup/cgroup.controllers") else "/sys/fs/cgroup/unified"
    return list(_directories(mount, path))


def _v1(host: Host, groups: dict[str, str], controller: str, *mounts: str) -> list[str]:
    path = groups.get(controller)
    if path is None:
        return []
    return [item for mount in mounts for item in _directories(f"/sys/fs/cgroup/{mount}", path)]


def _number(host: Host, name: str) -> int | None:
    text = (host.text(name) or "").strip()
    return int(text) if text.lstrip("-").isdigit() else None


def parse_cpu_max(text: str) -> float | None:
    """Cores of a cgroup v2 cpu.max "150000 100000" -> 1.5; None for "max 100000"."""
    parts = text.split()
    if len(parts) < 2 or not parts[0].isdigit() or not parts[1].isdigit() or int(parts[1]) == 0:
        return None
    return int(parts[0]) / int(parts[1])


def cpu_quota(host: Host) -> float | None:
    """Cores that the cgroups allow, None without a limit."""
    groups = parse_cgroup(host.text("/proc/self/cgroup") or "")
    quotas = [parse_cpu_max(host.text(f"{item}/cpu.max") or "") for item in _v2(host, groups)]
    for item in _v1(host, groups, "cpu", "cpu", "cpu,cpuacct"):
        quota, period = _number(host, f"{item}/cpu.cfs_quota_us"), _number(host, f"{item}/cpu.cfs_period_us")
        if quota is not None and period and quota > 0:
            quotas.append(quota / period)
    known = [quota for quota in quotas if quota is not None]
    return min(known) if known else None


def parse_cpu_list(text: str) -> int:
    """How many "0-3,8,10-11" names."""
    count = 0
    for part in text.strip().split(","):
        low, _, high = part.partition("-")
        if low.isdigit():
            count += int(high) - int(low) + 1 if high.isdigit() else 1
    return count


def usable_cores(host: Host) -> int | None:
    """Cores that this process may use: its affinity, no more than the cgroups' quota (rounded up), at least one."""
    allowed = 0
    for line in (host.text("/proc/self/status") or "").splitlines():
        if line.startswith("Cpus_allowed_list:"):
            allowed = parse_cpu_list(line.split(":", 1)[1])
    if not allowed:
        return None
    quota = cpu_quota(host)
    return allowed if quota is None else max(1, min(allowed, math.ceil(quota)))


def parse_meminfo(text: str) -> dict[str, int]:
    """/proc/meminfo in bytes by name."""
    found = {}
    for line in text.splitlines():
        name, _, rest = line.partition(":")
        cells = rest.split()
        if cells and cells[0].isdigit():
            found[name] = int(cells[0]) * (1024 if cells[1:] == ["kB"] else 1)
    return found


def memory(host: Host) -> Memory:
    """The machine's memory, or the cgroup's limit where that is lower."""
    info = parse_meminfo(host.text("/proc/meminfo") or "")
    total, available = info.get("MemTotal"), info.get("MemAvailable", info.get("MemFree"))
    groups = parse_cgroup(host.text("/proc/self/cgroup") or "")
    places = [(item, "memory.max", "memory.current", "inactive_file") for item in _v2(host, groups)]
    places += [
        (item, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        for item in _v1(host, groups, "memory", "memory")
    ]
    for directory, limit_name, usage_name, cache_name in places:
        limit = _number(host, f"{directory}/{limit_name}")
        if limit is None or limit >= _UNLIMITED or limit <= 0:
            continue
        if total is None or limit < total:
            total = limit
        usage = _number(host, f"{directory}/{usage_name}")
        if usage is not None:
            # Page cache that can be dropped counts as used there, and as available to whoever asks for memory.
            free = max(0, limit - usage + _statistic(host, f"{directory}/memory.stat", cache_name))
            available = free if available is None else min(available, free)
    return Memory(total, available)


def _statistic(host: Host, name: str, key: str) -> int:
    for line in (host.text(name) or "").splitlines():
        cells = line.split()
        if len(cells) == 2 and cells[0] == key and cells[1].isdigit():
            return int(cells[1])
    return 0
