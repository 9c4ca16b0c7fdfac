"""Display controllers on the PCI bus: they are there without any driver."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable

from envcheck.facts import Facts, PciDevice
from envcheck.probes.host import Host

NVIDIA, AMD, INTEL = "10de", "1002", "8086"
_IDS = ("/usr/share/hwdata/pci.ids", "/usr/share/misc/pci.ids", "/usr/share/pci.ids", "/var/lib/pciutils/pci.ids")
_BUS = "/sys/bus/pci/devices"


def probe(host: Host) -> Facts:
    """The machine's display and 3D controllers, and compute accelerators of the three makers."""
    if host.platform == "win32":
        return Facts(pci=windows_devices(host))
    return Facts(pci=devices(host, "03", "12"))


def devices(host: Host, *classes: str) -> tuple[PciDevice, ...] | None:
    """Devices whose class begins so ("03" display, "0680" other bridge); None where there is no such bus."""
    if host.exists(_BUS) is not True:
        return None
    found = []
    for path in host.glob(f"{_BUS}/*"):
        code = (host.text(f"{path}/class") or "").strip().removeprefix("0x")
        if not code.startswith(classes):
            continue
        vendor, device = (_hex(host.text(f"{path}/{name}")) for name in ("vendor", "device"))
        if code.startswith("12") and vendor not in (NVIDIA, AMD, INTEL):
            continue  # accelerators of other makers are no matter of torch
        found.append(
            PciDevice(address=path.rsplit("/", 1)[1], vendor_id=vendor, device_id=device, driver=_driver(host, path))
        )
    named = pci_names(host, ((d.vendor_id or "", d.device_id or "") for d in found)) if found else {}
    return tuple(
        PciDevice(
            address=d.address,
            vendor_id=d.vendor_id,
            device_id=d.device_id,
            name=named.get((d.vendor_id or "", d.device_id or "")),
            driver=d.driver,
        )
        for d in found
    )


def _hex(text: str | None) -> str | None:
    value = (text or "").strip().lower().removeprefix("0x")
    return value or None


def _driver(host: Host, path: str) -> str | None:
    """Name of the bound driver; "" = none."""
    link = host.path(f"{path}/driver")
    try:
        return os.path.basename(os.readlink(link))
    except FileNotFoundError:
        return ""
    except OSError:
        # A recorded tree on a file system without links has a file with the name instead.
        return (host.text(f"{path}/driver") or "").strip() or None


def pci_names(host: Host, wanted: Iterable[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """Names from the PCI ID database for (vendor, device) pairs; {} where there is no database."""
    text = next((t for t in (host.text(name) for name in _IDS) if t), None)
    return parse_pci_ids(text, wanted) if text else {}


def parse_pci_ids(text: str, wanted: Iterable[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """Looks up devices in the text of pci.ids: vendors at the start of a line, their devices behind one tab."""
    found: dict[tuple[str, str], str] = {}
    for vendor, device in set(wanted):
        start = re.search(rf"^{re.escape(vendor)}  .*$", text, re.MULTILINE) if vendor else None
        if start is None:
            continue
        end = re.search(r"^[0-9a-f]{4}  ", text[start.end() :], re.MULTILINE)
        section = text[start.end() : start.end() + end.start() if end else None]
        entry = re.search(rf"^\t{re.escape(device)}  (.+)$", section, re.MULTILINE)
        if entry:
            found[vendor, device] = entry.group(1).strip()
    return found


# Present devices alone, with the state that Windows gives them (43: the driver reported a failure).
_CIM = (
    "Get-CimInstance Win32_VideoController | Select-Object Name,PNPDeviceID,DriverVersion,ConfigManagerErrorCode"
    " | ConvertTo-Json -Compress"
)


def windows_devices(host: Host) -> tuple[PciDevice, ...] | None:
    """Windows' own list of display adapters; None where it could not be had in time."""
    root = host.env.get("SystemRoot", r"C:\Windows")
    shell = f"{root}\\System32\\WindowsPowerShell\\v1.0\\powershell.exe"
    done = host.run([shell, "-NoProfile", "-NonInteractive", "-Command", _CIM], timeout=host.timeout)
    return parse_video_controllers(done.stdout) if done.ok else None


def parse_video_controllers(text: str) -> tuple[PciDevice, ...] | None:
    """Reads the JSON of Win32_VideoController; adapters that are not on the PCI bus (remote desktop) are left out."""
    try:
        document = json.loads(text.strip() or "[]")
    except ValueError:
        return None
    rows = document if isinstance(document, list) else [document]
    found = []
    for row in rows:
        match = re.search(r"VEN_([0-9A-F]{4})&DEV_([0-9A-F]{4})", str(row.get("PNPDeviceID", "")), re.IGNORECASE)
        if match is None:
            continue
        # 22, 28, 31 and 43 and their like: disabled, no driver, driver not loadable, stopped after a failure.
        usable = row.get("ConfigManagerErrorCode") in (0, None)
        name = str(row.get("Name") or "") or None
        basic = name is not None and "Microsoft Basic" in name
        found.append(
            PciDevice(
                vendor_id=match.group(1).lower(),
                device_id=match.group(2).lower(),
                name=None if basic else name,
                driver="" if basic or not usable else str(row.get("DriverVersion") or "") or None,
            )
        )
    return tuple(found)
