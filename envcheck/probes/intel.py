"""The Intel side: GPUs that XPU builds can use, their device files and rights, the Level Zero loader."""

from __future__ import annotations

from envcheck.facts import Facts, Intel
from envcheck.lazy import Regex
from envcheck.probes import elf
from envcheck.probes.host import Host
from envcheck.probes.linux import machine
from envcheck.probes.nodes import device_nodes, user_groups
from envcheck.probes.pci import INTEL, devices
from envcheck.probes.system_packages import installed

# Device ids (i915 and xe in the kernel's include/drm/intel/pciids.h) of the families with matrix engines or the Xe cores
# that XPU builds support: (family, pattern).
FAMILIES = (
    ("Arc A-series / Data Center GPU Flex", Regex(r"^(?:56[9abc][0-9a-f]|4f8[0-8])$")),
    ("Arc B-series", Regex(r"^e2[012][0-9a-f]$")),
    ("Data Center GPU Max", Regex(r"^0b(?:d[0-9a-f]|6e)$")),
    ("Iris Xe MAX", Regex(r"^490[5-9]$")),
    ("Core Ultra integrated (Meteor Lake)", Regex(r"^7d(?:40|45|55|60|d5)$")),
    ("Core Ultra integrated (Arrow Lake)", Regex(r"^(?:7d(?:41|51|67|d1)|b640)$")),
    ("Core Ultra integrated (Lunar Lake)", Regex(r"^64(?:20|a0|b0)$")),
    ("Core Ultra integrated (Panther Lake)", Regex(r"^b0[89ab][0-9a-f]$")),
)
_DRIVERS = (
    "libze-intel-gpu1",
    "intel-level-zero-gpu",
    "libze-intel-gpu-legacy1",
    "intel-opencl-icd",
    "intel-compute-runtime",
)


def family(device_id: str | None) -> str | None:
    """The family of a GPU that XPU builds can use; None for other graphics (UHD, Iris Xe of older processors)."""
    return next((name for name, pattern in FAMILIES if pattern.match(device_id or "")), None)


def probe(host: Host) -> Facts:
    """`gpus` names only what XPU builds can use: () on a machine whose Intel graphics is an older integrated one."""
    if not host.platform.startswith("linux"):
        return Facts()
    display = devices(host, "03", "12")
    if display is None:
        return Facts()
    usable = [(item, family(item.device_id)) for item in display if item.vendor_id == INTEL]
    found = tuple(item.name or f"Intel {name} [8086:{item.device_id}]" for item, name in usable if name)
    if not found:
        return Facts(intel=Intel(gpus=()))
    return Facts(
        intel=Intel(
            gpus=found,
            render_nodes=device_nodes(host, "/dev/dri/renderD*"),
            user_groups=user_groups(host),
            level_zero=level_zero(host),
            driver_version=driver_version(host),
        )
    )


def level_zero(host: Host) -> str | None:
    """Version of the loader, its path where the name bears none, "" when it is not installed."""
    paths = elf.find_library(host, machine(host), "libze_loader.so.1")
    return (elf.file_version(host, paths[0]) or paths[0]) if paths else ""


def driver_version(host: Host) -> str | None:
    """Version of the user-space driver's package."""
    packages = dict(installed(host) or ())
    return next((packages[name] for name in _DRIVERS if name in packages), None)
