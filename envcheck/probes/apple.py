"""The Apple side: chip, GPU cores, and whether this process can reach Metal."""

from __future__ import annotations

import re
import sys

from envcheck.facts import Apple, Facts
from envcheck.outputs.apple import parse_ioreg, parse_sw_vers, parse_system_profiler
from envcheck.probes.host import Host
from envcheck.probes.macos import macos_version, sysctl

__all__ = ["parse_ioreg", "parse_sw_vers", "parse_system_profiler", "probe"]

# In a child, because a sandbox may kill who asks. MTLCreateSystemDefaultDevice needs CoreGraphics in the process.
_METAL = (
    "import ctypes\n"
    "frameworks = '/System/Library/Frameworks/'\n"
    "ctypes.CDLL(frameworks + 'CoreGraphics.framework/CoreGraphics')\n"
    "make = ctypes.CDLL(frameworks + 'Metal.framework/Metal').MTLCreateSystemDefaultDevice\n"
    "make.restype = ctypes.c_void_p\n"
    "print('metal', 1 if make() else 0)\n"
)


def probe(host: Host) -> Facts:
    """Nothing on other systems."""
    if host.platform != "darwin":
        return Facts()
    chip = sysctl(host).get("machdep.cpu.brand_string")
    ioreg = host.run(["/usr/sbin/ioreg", "-rc", "AGXAccelerator", "-d1"], timeout=host.timeout)
    return Facts(
        apple=Apple(chip=chip, macos=macos_version(host), gpu_cores=parse_ioreg(ioreg.stdout), metal=metal(host))
    )


def metal(host: Host) -> bool | None:
    """A Metal device can be made by a process like this one."""
    done = host.run([sys.executable, "-I", "-S", "-c", _METAL], timeout=host.timeout)
    match = re.search(r"^metal ([01])$", done.stdout, re.MULTILINE)
    return match.group(1) == "1" if match else None
