"""NVSwitch machines and the fabric manager that they need."""

from __future__ import annotations

import re

from envcheck.facts import FabricManager, Facts, Nvidia
from envcheck.lazy import Regex
from envcheck.probes.compilers import which
from envcheck.probes.container import container
from envcheck.probes.host import Host
from envcheck.probes.pci import NVIDIA, devices
from envcheck.probes.system_packages import installed

# Device ids of NVSwitch in the PCI ID database: GV100 1ac0-1ac2, GA100 1af1, GH100 22a0-22af. NVIDIA's older chip sets
# have bridges of the same class, so the class alone does not do.
_SWITCH = Regex(r"^(?:1ac[0-2]|1af1|22a[0-9a-f])$")
_SERVICE = "nvidia-fabricmanager"
_PROGRAMS = ("/usr/bin/nv-fabricmanager", "/usr/local/bin/nv-fabricmanager", "/bin/nv-fabricmanager")


def probe(host: Host) -> Facts:
    """Whether a fabric manager is needed, and how it does."""
    needed = switches(host)
    if not needed:
        return Facts(nvidia=Nvidia(fabric=None if needed is None else FabricManager(needed=False)))
    return Facts(nvidia=Nvidia(fabric=FabricManager(needed=True, state=state(host), version=version(host))))


def switches(host: Host) -> bool | None:
    """NVSwitch devices are on the bus."""
    bridges = devices(host, "0680")
    if bridges is None:
        return None
    found = [
        d
        for d in bridges
        if d.vendor_id == NVIDIA and (_SWITCH.match(d.device_id or "") or d.driver == "nvidia-nvswitch")
    ]
    return bool(found) or bool(host.glob("/dev/nvidia-nvswitch[0-9]*"))


def running(host: Host) -> bool | None:
    """A process of that name is there; None where other processes cannot be seen (in a container)."""
    names = [(host.text(item) or "").strip() for item in host.glob("/proc/[0-9]*/comm")]
    if any(name.startswith("nv-fabricmanage") for name in names):  # the kernel keeps 15 characters
        return True
    return None if container(host) != "none" or not names else False


def state(host: Host) -> str | None:
    """State of the service. A process that runs is the best proof; systemd knows why there is none."""
    alive = running(host)
    if alive:
        return "active"
    program = which(host, "systemctl") if host.real and alive is False else None
    if program is not None:
        done = host.run([program, "is-active", _SERVICE], timeout=host.timeout)
        answer = parse_is_active(done.stdout)
        if answer is not None and answer != "inactive":
            return answer
    if alive is None:
        return None
    present = any(host.exists(name) for name in _PROGRAMS) or version(host) is not None
    return "inactive" if present else "missing"


def parse_is_active(text: str) -> str | None:
    """The word of `systemctl is-active`; "unknown" means that there is no such unit."""
    word = text.strip().split("\n", 1)[0].strip()
    if word in ("active", "inactive", "failed"):
        return word
    return "active" if word == "reloading" else "inactive" if word in ("activating", "deactivating") else None


def version(host: Host) -> str | None:
    """Version of the installed package, which has to be that of the driver."""
    for name, found in installed(host) or ():
        if "fabricmanager" in name and "dev" not in name:
            match = re.match(r"(?:\d+:)?(\d+(?:\.\d+)+)", found)
            return match.group(1) if match else found
    return None
