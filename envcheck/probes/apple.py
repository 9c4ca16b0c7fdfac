"""The Apple side: chip, GPU cores, and whether this process can reach Metal."""

from __future__ import annotations

import re
import sys

from envcheck.facts import Apple, Facts
from envcheck.outputs.apple import parse_ioreg, parse_sw_vers, parse_system_profiler
from envcheck.probes.host import Host
from envcheck.probes.macos import macos_version
from envcheck.probes.together import together

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
    chip, cores, device = together(
        host,
        [
            ["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"],
            ["/usr/sbin/ioreg", "-rc", "AGXAccelerator", "-d1"],
            [sys.executable, "-I", "-S", "-c", _METAL],
        ],
    )
    return Facts(
        apple=Apple(
            chip=chip.stdout.strip() or None,
            macos=macos_version(host),
            gpu_cores=parse_ioreg(cores.stdout),
            metal=parse_metal(device.stdout),
        )
    )


def parse_metal(text: str) -> bool | None:
    """The child's answer; None when it gave none."""
    match = re.search(r"^metal ([01])$", text, re.MULTILINE)
    return match.group(1) == "1" if match else None
