"""The operating system and the machine below it, on macOS: `sysctl` and `sw_vers`, which answer in milliseconds."""

from __future__ import annotations

import platform
import re

from envcheck.facts import Facts, System
from envcheck.outputs.apple import parse_sw_vers
from envcheck.probes.host import Host

_NAMES = (
    "machdep.cpu.brand_string",
    "machdep.cpu.features",
    "machdep.cpu.leaf7_features",
    "hw.physicalcpu",
    "hw.logicalcpu",
    "hw.memsize",
    "hw.optional.arm64",
    "kern.osrelease",
    "kern.hv_vmm_present",
    "vm.page_free_count",
    "hw.pagesize",
)
_FLAGS = {"SSE4.2": "sse4_2", "AVX1.0": "avx", "AVX2": "avx2", "AVX512F": "avx512f", "FMA": "fma", "F16C": "f16c"}


def sysctl(host: Host) -> dict[str, str]:
    """The values that matter here; names that this Mac does not know are left out."""
    return parse_sysctl(host.run(["/usr/sbin/sysctl", *_NAMES], timeout=host.timeout).stdout)


def parse_sysctl(text: str) -> dict[str, str]:
    """Lines of "name: value"."""
    pairs = (line.partition(": ") for line in text.splitlines())
    return {name.strip(): value.strip() for name, separator, value in pairs if separator}


def macos_version(host: Host) -> str | None:
    """The real version. SYSTEM_VERSION_COMPAT makes programs believe in 10.16, so it is kept away from sw_vers."""
    env = {name: value for name, value in host.env.items() if name != "SYSTEM_VERSION_COMPAT"}
    found = parse_sw_vers(host.run(["/usr/bin/sw_vers"], timeout=host.timeout, env=env).stdout)
    if found is None and host.real:
        found = platform.mac_ver()[0] or None
    return found


def probe(host: Host) -> Facts:
    """Version, processor and memory."""
    values = sysctl(host)
    version = macos_version(host)
    silicon = values.get("hw.optional.arm64") == "1" or values.get("machdep.cpu.brand_string", "").startswith("Apple")
    words = f"{values.get('machdep.cpu.features', '')} {values.get('machdep.cpu.leaf7_features', '')}".split()
    physical, logical = _number(values, "hw.physicalcpu"), _number(values, "hw.logicalcpu")
    soft, hard = _open_files()
    free, page = _number(values, "vm.page_free_count"), _number(values, "hw.pagesize")
    return Facts(
        system=System(
            os="macos",
            name=f"macOS {version}" if version else "macOS",
            version=version,
            kernel=values.get("kern.osrelease"),
            machine="arm64" if silicon else "x86_64" if values else None,
            cpu_model=values.get("machdep.cpu.brand_string"),
            cpu_flags=("asimd",) if silicon else tuple(_FLAGS[word] for word in words if word in _FLAGS),
            cores_physical=physical,
            cores_logical=logical,
            cores_usable=logical,
            ram=_number(values, "hw.memsize"),
            ram_available=free * page if free is not None and page is not None else None,
            virtual_machine="apple" if values.get("kern.hv_vmm_present") == "1" else "none" if values else None,
            # A translated process is told an Intel machine, which `sysctl` above (not translated) contradicts.
            rosetta=silicon and platform.machine() == "x86_64" if host.real and values else None,
            open_files_soft=soft,
            open_files_hard=hard,
        )
    )


def _open_files() -> tuple[int | None, int | None]:
    try:
        import resource
    except ImportError:
        return None, None
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return soft, min(hard, 1 << 62)  # "unlimited" is 2^63 - 1 there


def _number(values: dict[str, str], name: str) -> int | None:
    match = re.match(r"\d+$", values.get(name, ""))
    return int(match.group()) if match else None
