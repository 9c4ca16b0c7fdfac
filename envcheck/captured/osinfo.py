"""Lines by which a machine describes itself: uname, os-release, ver, lspci, lsmod, ldd, gcc, df, ls -l /dev, banners."""

from __future__ import annotations

import re

from envcheck.captured import gpu_names, systems, values
from envcheck.captured.document import IMPLIED, LISTED, NOTED, SAID, Document
from envcheck.facts import CudaToolkit, DeviceNode, FabricManager, LibCuda, PciDevice
from envcheck.lazy import Regex

_UNAME = Regex(
    r"^\s{0,8}Linux \S{1,64} (?P<kernel>\d{1,2}\.\d{1,3}\S{0,80}) #\S.{0,120}?\b(?P<machine>x86_64|aarch64|ppc64le|s390x|armv7l)\b"
)
_DARWIN = Regex(
    r"^\s{0,8}Darwin \S{1,64} (?P<kernel>\d{2}\.\d{1,2}\.\d{1,2}) Darwin Kernel.{0,200}?\b(?P<machine>x86_64|arm64)\s*$"
)
_BANNER = Regex(r"^\s{0,8}(?:>\s)?Python [23]\.\d{1,2}(?:\.\d{1,2})?(?:\s?[|(:+].*|\s*)$")
_COMPILER = Regex(r"^\s{0,8}\[(GCC|Clang|MSC v\.)[^\]]{1,80}\](?: on (linux2?|darwin|win32))?\s*$")
_LSPCI = Regex(
    r"^\s{0,8}(?P<address>(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]) (?P<kind>VGA compatible controller|3D controller|Display controller|Processing accelerators)"
    r"(?: \[\d{4}\])?: (?P<name>.{3,200})$"
)
_IDS = Regex(r"\[([0-9a-f]{4}):([0-9a-f]{4})\]")
_VENDORS = (("nvidia", "10de"), ("advanced micro devices", "1002"), ("amd/ati", "1002"), ("intel", "8086"))
_LS = Regex(
    r"^\s{0,8}(?P<mode>[cbdl-][rwxsStT-]{9})[.+@]?\s+\d{1,4}\s+(?P<owner>\S{1,32})\s+(?P<group>\S{1,32})\s+\d{1,4},\s{0,4}\d{1,4}\s.{4,40}?(?P<path>/?[\w/.-]{1,60})\s*$"
)
_RELEASE = Regex(r"^\s{0,8}(PRETTY_NAME|DISTRIB_DESCRIPTION)=[\"']?(.{2,100}?)[\"']?\s*$")
_RELEASE_FIELD = Regex(r"^\s{0,8}(ID|VERSION_ID|DISTRIB_ID|DISTRIB_RELEASE)=[\"']?([\w.-]{1,40})[\"']?\s*$")
_LDD = Regex(r"^\s{0,8}ldd \(.{1,80}\) (\d\.\d{1,3})\s*$|GNU C Library.{0,80}(?:stable )?release version (\d\.\d{1,3})")
_MUSL = Regex(r"^\s{0,8}musl libc \(")
_GCC = Regex(r"^\s{0,8}(gcc|cc|g\+\+|c\+\+|clang)(?:-\d{1,2})? \(.{1,80}\) (\d{1,2}\.\d{1,2}\.\d{1,2})")
_NVCC = Regex(
    r"Cuda compilation tools, release (\d{1,2}\.\d{1,2}), V(\d{1,2}\.\d{1,2}\.\d{1,4})|^\s{0,8}cuda_(\d{1,2}\.\d)\.r"
)
_WINDOWS_VER = Regex(r"Microsoft Windows \[(?:Version|[^\]\s]{1,20}) (10\.0\.\d{5}(?:\.\d{1,5})?|6\.\d\.\d{4})\]")
_SHM = Regex(
    r"^\s{0,8}\S{1,60}\s+(\d{1,9}(?:\.\d)?[KMGT]?)\s+\d\S{0,10}\s+(\d{1,9}(?:\.\d)?[KMGT]?|0)\s+\d{1,3}%\s+/dev/shm\s*$"
)
_LDCONFIG = Regex(r"^\s{0,12}libcuda\.so(?:\.1)?\s\(.{1,60}\) => (/\S{1,200})\s*$")
_LIBCUDA_FILE = Regex(r"(/[\w./+-]{1,200}/libcuda\.so(?:\.[\d.]{1,20})?)(?![\w.])")
_MODULE = Regex(
    r"^\s{0,8}(nvidia|nvidia_uvm|nvidia_drm|nvidia_modeset|nouveau|amdgpu|nvidia_peermem)\s{1,40}\d{1,10}\s{1,10}-?\d{1,5}(?:\s+[\w,]+)?\s*$"
)
_PROC_NVRM = Regex(
    r"NVRM version: NVIDIA UNIX (Open )?(?:x86_64|aarch64)? ?Kernel Module(?: for \w+)?\s+(\d{3}\.\d{1,3}(?:\.\d{1,3})?)"
)
_SYSTEMINFO = Regex(r"^\s{0,8}OS (Name|Version):\s{1,40}(\S.{1,100})$")
_TEGRA = Regex(r"#\s?R(\d{2}) \(release\), REVISION: (\d{1,2}\.\d{1,2})")
_ID = Regex(r"\buid=\d{1,10}\([^)]{1,64}\).{0,40}groups=(\S{1,2000})")
_LIMITS = Regex(
    r"^\s{0,8}(?:open files|Max open files)\s{1,40}(?:\(-n\)\s{0,4})?(\d{2,9}|unlimited)(?:\s{1,40}(\d{2,9}|unlimited))?"
)
_SECURE_BOOT = Regex(r"^\s{0,8}SecureBoot (enabled|disabled)", re.IGNORECASE)
_VERSION_TXT = Regex(r"^\s{0,8}CUDA Version (\d{1,2}\.\d{1,2})\.\d{1,4}\s*$")
_DEVICE_NODES = Regex(
    r"/dev/(?:nvidia[\w-]*|kfd|dri(?:/\w+)?|dxg)|(?:^|\s)(?:nvidia\w*(?:-uvm|-modeset)?\w*|renderD\d+|card\d|kfd|dxg)\s*$"
)


def parse(doc: Document) -> None:
    """Reads lines whose shape alone tells what they are."""
    lowered = doc.lowered
    if "linux " in lowered or "darwin " in lowered:
        for index in doc.find("linux ", "darwin "):
            _uname(doc, doc.lines[index], index)
    for index in doc.find("python 2.", "python 3."):
        _banner(doc, doc.lines[index], index)
    for index in doc.find("[gcc", "[clang", "[msc"):
        _compiler_line(doc, doc.lines[index], index)
    for index in doc.find("controller", "processing accelerators"):
        _lspci(doc, index)
    for index in doc.find("pretty_name", "distrib_", "version_id", "id="):
        _os_release(doc, doc.lines[index], index)
    for index in doc.find("ldd (", "gnu c library", "musl libc", "gcc", "g++ (", "clang", "cc ("):
        _tool_versions(doc, doc.lines[index], index)
    for index in doc.find("cuda compilation tools", "cuda_", "cuda version", "nvcc"):
        _nvcc(doc, doc.lines[index], index)
    for index in doc.find("microsoft windows [", "os name", "os version"):
        _windows(doc, doc.lines[index], index)
    for index in doc.find("/dev/shm"):  # noqa: S108 - searched, not used
        _shm(doc, doc.lines[index], index)
    for index in doc.find("crw", "brw", "c---", "/dev/nvidia"):
        _listing(doc, doc.lines[index], index)
    for index in doc.find("libcuda.so"):
        _libcuda(doc, doc.lines[index], index)
    for index in doc.find("nvidia", "nouveau", "amdgpu"):
        _module(doc, doc.lines[index], index)
    _rare(doc)


def _uname(doc: Document, line: str, index: int) -> None:
    match = _UNAME.match(line)
    if match:
        doc.put("system.os", "linux", index, SAID)
        doc.put("system.kernel", match["kernel"], index, SAID)
        doc.put("system.machine", match["machine"], index, SAID)
        doc.put("system.wsl", systems.wsl_of_kernel(match["kernel"]), index, SAID)
        doc.claim(index)
        return
    match = _DARWIN.match(line)
    if match:
        doc.put("system.os", "macos", index, SAID)
        doc.put("system.kernel", match["kernel"], index, SAID)
        doc.put("system.machine", match["machine"], index, SAID)
        doc.claim(index)


def _banner(doc: Document, line: str, index: int) -> None:
    if (
        not _BANNER.match(line)
        or len(line) > 300
        or re.search(r",\s*(?:Windows|Ubuntu|torch|PyTorch|CUDA|macOS)", line)
    ):
        return
    text = line
    following = doc.lines[index + 1] if index + 1 < len(doc.lines) else ""
    if _COMPILER.match(following):
        text = f"{line} {following.strip()}"
        doc.claim(index + 1)
    if values.put_python(doc, text, index, SAID):
        doc.claim(index)


def _compiler_line(doc: Document, line: str, index: int) -> None:
    match = _COMPILER.match(line)
    if match and match[2]:
        doc.put("system.os", {"lin": "linux", "dar": "macos", "win": "windows"}[match[2][:3]], index, LISTED)
        doc.claim(index)


def _lspci(doc: Document, index: int) -> None:
    match = _LSPCI.match(doc.lines[index])
    if not match:
        return
    name, lowered = match["name"].strip(), match["name"].lower()
    ids = _IDS.search(name)
    vendor = ids[1] if ids else next((code for word, code in _VENDORS if word in lowered), None)
    driver = None
    for other in range(index + 1, min(index + 8, len(doc.lines))):
        if not doc.lines[other][:1].isspace():
            break
        bound = re.match(r"^\s+Kernel driver in use: (\S+)", doc.lines[other])
        if bound:
            driver = bound[1]
            doc.claim(other)
    doc.add(
        "pci",
        PciDevice(
            address=match["address"], vendor_id=vendor, device_id=ids[2] if ids else None, name=name, driver=driver
        ),
        index,
        SAID,
    )
    doc.put("system.os", "linux", index, IMPLIED)
    if driver == "nouveau":
        doc.put("nvidia.nouveau_loaded", True, index, SAID)
    doc.claim(index)


def _os_release(doc: Document, line: str, index: int) -> None:
    match = _RELEASE.match(line)
    if match:
        found = systems.os_of(match[2])
        if found:
            systems.put_os(doc, found, index, SAID)
        doc.put("system.name", match[2], index, SAID)
        doc.claim(index)
        return
    match = _RELEASE_FIELD.match(line)
    if match:
        key, value = match[1], match[2]
        if key in ("ID", "DISTRIB_ID"):
            doc.put("system.distro", value.lower(), index, SAID)
            doc.put("system.os", "linux", index, SAID)
        else:
            doc.put("system.version", value, index, SAID)
        doc.claim(index)


def _tool_versions(doc: Document, line: str, index: int) -> None:
    match = _LDD.search(line)
    if match:
        doc.put("system.libc", "glibc", index, SAID)
        doc.put("system.libc_version", match[1] or match[2], index, SAID)
        doc.put("system.os", "linux", index, IMPLIED)
        doc.claim(index)
        return
    if _MUSL.match(line):
        doc.put("system.libc", "musl", index, SAID)
        doc.claim(index)
        return
    match = _GCC.match(line)
    if match:
        name = "g++" if match[1] in ("g++", "c++") else match[1]
        doc.put("system.cxx_compiler" if name == "g++" else "system.c_compiler", f"{name} {match[2]}", index, SAID)
        doc.put("toolchain.gcc_version", match[2] if name != "clang" else None, index, SAID)
        doc.claim(index)
    elif re.match(r"^\s{0,8}(?:-?\w*sh: )?(?:\d+: )?(?:line \d+: )?(?:gcc|cc): (?:command )?not found", line):
        doc.put("system.c_compiler", "", index, SAID)


def _nvcc(doc: Document, line: str, index: int) -> None:
    match = _NVCC.search(line)
    if match:
        doc.put("toolchain.nvcc_version", match[2] or match[1] or match[3], index, SAID)
        doc.claim(index)
        return
    if re.match(
        r"^\s{0,8}nvcc: NVIDIA \(R\) Cuda compiler driver|^\s{0,8}Copyright \(c\) \d{4}-\d{4} NVIDIA|^\s{0,8}Build cuda_",
        line,
    ):
        doc.claim(index)
        return
    match = _VERSION_TXT.match(line)
    if match:
        doc.add("toolchain.cuda_toolkits", CudaToolkit(version=match[1]), index, SAID)
        doc.claim(index)
        return
    if re.search(
        r"\bnvcc: (?:command )?not found|'nvcc' is not recognized|Command 'nvcc' not found|nvcc: No such file", line
    ):
        doc.put("toolchain.nvcc_version", "", index, SAID)


def _windows(doc: Document, line: str, index: int) -> None:
    match = _WINDOWS_VER.search(line)
    if match:
        version = ".".join(match[1].split(".")[:3])
        build = int(version.split(".")[2])
        doc.put("system.os", "windows", index, SAID)
        doc.put("system.version", version, index, SAID)
        if version.startswith("10.0"):
            doc.put("system.name", "Windows 11" if build >= 22000 else "Windows 10", index, SAID)
        doc.claim(index)
        return
    match = _SYSTEMINFO.match(line)
    if match:
        found = systems.os_of(match[2] if match[1] == "Name" else f"Windows {match[2]}")
        if found and found.os == "windows":
            systems.put_os(doc, found, index, SAID)
            doc.claim(index)


def _bytes(text: str) -> int:
    unit = {"K": 1024, "M": 1024**2, "G": 1024**3, "T": 1024**4}.get(text[-1])
    # df without -h counts in KiB.
    return int(float(text[:-1]) * unit) if unit else int(float(text)) * 1024


def _shm(doc: Document, line: str, index: int) -> None:
    match = _SHM.match(line)
    if match:
        doc.put("system.shm_size", _bytes(match[1]), index, SAID)
        doc.put("system.shm_free", _bytes(match[2]), index, SAID)
        doc.claim(index)


def _listing(doc: Document, line: str, index: int) -> None:
    """`ls -l /dev/...`; the owner alone does not tell whether this user may use it."""
    match = _LS.match(line)
    if not match:
        _short_listing(doc, line, index)
        return
    if not _DEVICE_NODES.search(match["path"]):
        return
    path = match["path"]
    if not path.startswith("/"):
        path = f"/dev/dri/{path}" if path.startswith(("render", "card")) else f"/dev/{path}"
    mode = match["mode"]
    everybody = mode[7:9] == "rw"
    node = DeviceNode(
        path=path,
        mode=mode,
        owner=match["owner"],
        group=match["group"],
        readable=True if everybody else None,
        writable=True if everybody else None,
    )
    if path.endswith("kfd"):
        doc.put("amd.kfd", node, index, SAID)
    elif "/dri/render" in path:
        doc.add("render_nodes", node, index, SAID)
    elif "nvidia" in path or "dxg" in path:
        doc.add("nvidia.device_nodes", node, index, SAID)
    doc.put("system.os", "linux", index, IMPLIED)
    doc.claim(index)


def _short_listing(doc: Document, line: str, index: int) -> None:
    """`ls /dev/nvidia*`: nothing but names in the line."""
    names = line.split()
    if names and all(_NVIDIA_NODE.fullmatch(name) for name in names):
        for name in names:
            doc.add("nvidia.device_nodes", DeviceNode(path=name), index, SAID)
        doc.put("system.os", "linux", index, IMPLIED)
        doc.claim(index)


_NVIDIA_NODE = Regex(r"/dev/nvidia(?:\d{1,2}|ctl|-uvm|-uvm-tools|-modeset)")


def _libcuda(doc: Document, line: str, index: int) -> None:
    """Paths of libcuda.so that a loader or a search printed."""
    match = _LDCONFIG.match(line)
    paths = [match[1]] if match else [m[1] for m in list(_LIBCUDA_FILE.finditer(line[:2000]))[:4]]
    loaded = re.search(r"loaded|mapped|calling init|=> /|using", line, re.IGNORECASE) is not None or (
        index > 0 and re.search(r"mapped|loaded", doc.lines[index - 1], re.IGNORECASE) is not None
    )
    for path in paths:
        kind = (
            "stub"
            if "/stubs/" in path
            else "compat"
            if "/compat/" in path
            else "wsl"
            if "/wsl/" in path
            else "jetson"
            if "tegra" in path
            else None
        )
        if kind is None and match is None and not loaded and not re.match(r"^\s{0,8}[l-][rwx-]{9}", line):
            continue  # a place where somebody looked proves nothing
        version = re.search(r"libcuda\.so\.(\d{3}\.[\d.]+)$", path)
        doc.add(
            "nvidia.libcuda",
            LibCuda(
                path=path,
                version=version[1] if version else None,
                kind=kind or ("driver" if "/cuda" not in path else None),
                loaded=True if loaded else None,
            ),
            index,
        )


def _module(doc: Document, line: str, index: int) -> None:
    match = _MODULE.match(line)
    if match:
        name = match[1]
        field = {"nvidia": "kernel_module_loaded", "nvidia_uvm": "uvm_loaded", "nouveau": "nouveau_loaded"}.get(name)
        if field:
            doc.put(f"nvidia.{field}", True, index, SAID)
        doc.claim(index)
        return
    match = _PROC_NVRM.search(line)
    if match:
        doc.put("nvidia.kernel_driver_version", match[2], index, SAID)
        doc.put("nvidia.kernel_module_loaded", True, index, SAID)
        doc.put("nvidia.kernel_module_open", bool(match[1]), index, SAID)
        doc.claim(index)


def _rare(doc: Document) -> None:
    for index in doc.find("(release), revision"):
        match = _TEGRA.search(doc.lines[index])
        if match:
            doc.put("system.l4t", f"{match[1]}.{match[2]}", index, SAID)
            doc.put("system.os", "linux", index, IMPLIED)
            doc.put("system.machine", "aarch64", index, IMPLIED)
            doc.claim(index)
    for index in doc.find("groups="):
        match = _ID.search(doc.lines[index])
        if match:
            names = tuple(re.findall(r"\(([^)]{1,40})\)", match[1]))
            doc.put("amd.user_groups", names, index, SAID)
            doc.put("intel.user_groups", names, index, SAID)
            doc.claim(index)
    for index in doc.find("open files"):
        match = _LIMITS.match(doc.lines[index])
        if match and match[1].isdecimal():
            doc.put("system.open_files_soft", int(match[1]), index, SAID)
            if match[2] and match[2].isdecimal():
                doc.put("system.open_files_hard", int(match[2]), index, SAID)
            doc.claim(index)
    for index in doc.find("secureboot "):
        match = _SECURE_BOOT.match(doc.lines[index])
        if match:
            doc.put("system.secure_boot", match[1].lower() == "enabled", index, SAID)
            doc.claim(index)
    _fabric(doc)
    _chip(doc)


def _fabric(doc: Document) -> None:
    """`systemctl status nvidia-fabricmanager`."""
    for index in doc.find("nvidia-fabricmanager"):
        for other in range(index, min(index + 6, len(doc.lines))):
            match = re.match(r"^\s*Active: (active|inactive|failed|activating)", doc.lines[other])
            if match:
                doc.put("nvidia.fabric", FabricManager(needed=True, state=match[1]), other, SAID)
                doc.claim(other)
        if re.search(r"could not be found|not-found|not loaded|No such file", doc.lines[index]):
            doc.put("nvidia.fabric", FabricManager(state="missing"), index, SAID)


def _chip(doc: Document) -> None:
    """A line that is only the name of an Apple chip (collect_env's CPU section on a Mac)."""
    for index in doc.find("apple m"):
        line = doc.lines[index].strip()
        if re.fullmatch(r"Apple M\d(?: Pro| Max| Ultra)?", line):
            doc.put("apple.chip", gpu_names.apple_chip(line), index, SAID)
            doc.put("system.os", "macos", index, NOTED)
            doc.put("system.machine", "arm64", index, IMPLIED)
            doc.claim(index)
