"""The AMD side: the kernel's kfd, its device files and rights, ROCm."""

from __future__ import annotations

import re

from envcheck.facts import Amd, AmdGpu, Facts
from envcheck.outputs.rocm import parse_rocm
from envcheck.probes.host import Host
from envcheck.probes.nodes import device_node, device_nodes, user_groups
from envcheck.probes.pci import AMD, devices

_TOPOLOGY = "/sys/class/kfd/kfd/topology/nodes"
_IDS = ("/usr/share/libdrm/amdgpu.ids", "/opt/amdgpu/share/libdrm/amdgpu.ids")
_VERSIONS = ("/opt/rocm/.info/version", "/opt/rocm/.info/version-dev", "/opt/rocm/.info/version-utils")

__all__ = ["parse_amdgpu_ids", "parse_gfx", "parse_properties", "parse_rocm", "probe"]


def probe(host: Host) -> Facts:
    """GPUs by gfx name, rights on /dev/kfd and the render nodes, ROCm's version."""
    if not host.platform.startswith("linux"):
        return Facts(amd=Amd(hsa_override=host.env.get("HSA_OVERRIDE_GFX_VERSION")))
    display = devices(host, "03", "12")
    cards = None if display is None else [item for item in display if item.vendor_id == AMD]
    topology = gpus(host)
    present = bool(cards) or bool(topology)
    kfd = device_node(host, "/dev/kfd", opens=present)
    error = None
    if present and kfd is None:
        error = "No such file or directory"
    elif kfd is not None and (kfd.readable is False or kfd.writable is False):
        error = "Permission denied"
    return Facts(
        amd=Amd(
            gpus=topology
            if topology is not None
            else tuple(AmdGpu(name=c.name) for c in cards)
            if cards is not None
            else None,
            rocm_version=rocm_version(host),
            amdgpu_version=(host.text("/sys/module/amdgpu/version") or "").strip() or None,
            kfd=kfd,
            render_nodes=device_nodes(host, "/dev/dri/renderD*") if present else None,
            user_groups=user_groups(host) if present else None,
            hsa_override=host.env.get("HSA_OVERRIDE_GFX_VERSION"),
            kfd_error=error,
        )
    )


def parse_properties(text: str) -> dict[str, int]:
    """A kfd properties file: "gfx_target_version 110000" a line."""
    found = {}
    for line in text.splitlines():
        name, _, value = line.strip().partition(" ")
        if value.strip().isdigit():
            found[name] = int(value)
    return found


def parse_gfx(number: int) -> str | None:
    """gfx_target_version as LLVM names the target: 110000 -> "gfx1100", 90010 -> "gfx90a", 90402 -> "gfx942"."""
    if number <= 0:
        return None
    major, minor, step = number // 10000, number // 100 % 100, number % 100
    return f"gfx{major}{minor:x}{step:x}"


def gpus(host: Host) -> tuple[AmdGpu, ...] | None:
    """The GPUs that kfd knows (its nodes without a target version are processors); None without kfd."""
    nodes = [item for item in host.glob(f"{_TOPOLOGY}/*") if item.rsplit("/", 1)[1].isdigit()]
    if not nodes:
        return None
    ids = next((text for text in (host.text(name) for name in _IDS) if text), "")
    found = []
    for node in sorted(nodes, key=lambda item: int(item.rsplit("/", 1)[1])):
        properties = parse_properties(host.text(f"{node}/properties") or "")
        gfx = parse_gfx(properties.get("gfx_target_version", 0))
        if gfx is None:
            continue
        found.append(AmdGpu(name=_name(host, node, properties, ids), gfx=gfx, memory_total=_memory(host, node)))
    return tuple(found)


def _name(host: Host, node: str, properties: dict[str, int], ids: str) -> str | None:
    device, location = properties.get("device_id"), properties.get("location_id", 0)
    address = f"{properties.get('domain', 0):04x}:{location >> 8:02x}:{location >> 3 & 31:02x}.{location & 7}"
    product = (host.text(f"/sys/bus/pci/devices/{address}/product_name") or "").strip()
    if product:
        return product
    revision = (host.text(f"/sys/bus/pci/devices/{address}/revision") or "").strip().removeprefix("0x")
    if device is not None and ids:
        return parse_amdgpu_ids(ids, f"{device:04x}", revision)
    return None


def parse_amdgpu_ids(text: str, device: str, revision: str) -> str | None:
    """Marketing name from libdrm's table ("744C, C8, AMD Radeon RX 7900 XTX"); the revision tells siblings apart."""
    names = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split(",", 2)]
        if len(cells) == 3 and cells[0].lower() == device.lower():
            if revision and cells[1].lower() == revision.lower():
                return cells[2]
            names.append(cells[2])
    return names[0] if len(names) == 1 else None


def _memory(host: Host, node: str) -> int | None:
    """Local memory: the banks of heap type 1 (public) and 2 (private to the GPU)."""
    total = 0
    for bank in host.glob(f"{node}/mem_banks/*/properties"):
        properties = parse_properties(host.text(bank) or "")
        if properties.get("heap_type") in (1, 2):
            total += properties.get("size_in_bytes", 0)
    return total or None


def rocm_version(host: Host) -> str | None:
    """Version of the ROCm in /opt/rocm (wheels bring their own and need none)."""
    for name in (*_VERSIONS, *reversed(host.glob("/opt/rocm-*/.info/version"))):
        match = re.match(r"\d+(?:\.\d+)+", (host.text(name) or "").strip())
        if match:
            return match.group()
    return None
