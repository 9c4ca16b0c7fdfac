"""Trees of files that stand for "/": what the kernel shows of a machine in /proc, /sys and /dev, and a few files of /etc.

Device nodes are plain files. Their rights count all the same: /proc/self/status of the tree says who asks, and
/etc/group of the tree names the group of its files, so the tests need no privileges and also hold for root.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterable
from pathlib import Path

from envcheck.probes.host import Host
from envcheck.process import Completed, run

USER, USER_GROUP = 12345, 12345
"""Numbers that no file of the tree has."""

UBUNTU = 'PRETTY_NAME="Ubuntu 22.04.5 LTS"\nNAME="Ubuntu"\nVERSION_ID="22.04"\nID=ubuntu\nID_LIKE=debian\n'
PCI_IDS = """\
# a few lines of pci.ids
1002  Advanced Micro Devices, Inc. [AMD/ATI]
\t744c  Navi 31 [Radeon RX 7900 XT/7900 XTX/7900 GRE/7900M]
\t\t1da2 471e  PULSE RX 7900 XTX
10de  NVIDIA Corporation
\t1af1  GA100 [A100 NVSwitch]
\t1db4  GV100GL [Tesla V100 PCIe 16GB]
\t2206  GA102 [GeForce RTX 3080]
\t2330  GH100 [H100 SXM5 80GB]
\t2504  GA106 [GeForce RTX 3060 Lite Hash Rate]
\t2684  AD102 [GeForce RTX 4090]
8086  Intel Corporation
\t56a0  DG2 [Arc A770]
\t9a49  TigerLake-LP GT2 [Iris Xe Graphics]
C 03  Display controller
\t00  VGA compatible controller
"""
FLAGS = "fpu sse sse2 ssse3 sse4_1 sse4_2 fma avx f16c avx2 avx512f avx512_vnni"


class Tree:
    """A root directory in the making."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.modules: list[str] = ["ext4", "snd_hda_intel"]
        self.packages: list[tuple[str, str]] = [("libc6", "2.35-0ubuntu3.8")]
        self.mounts: list[str] = []

    def write(self, name: str, content: str | bytes = "") -> Path:
        """A file with its directories."""
        path = self.root / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def link(self, name: str, target: str) -> None:
        """A relative symbolic link."""
        path = self.root / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(target)

    def node(self, name: str, mode: int = 0o666) -> None:
        """A device file."""
        self.write(name).chmod(mode)

    def pci(self, address: str, vendor: str, device: str, driver: str = "", code: str = "0x030000") -> None:
        """A device on the bus; driver "" = none is bound."""
        base = f"/sys/bus/pci/devices/{address}"
        self.write(f"{base}/class", f"{code}\n")
        self.write(f"{base}/vendor", f"0x{vendor}\n")
        self.write(f"{base}/device", f"0x{device}\n")
        if driver:
            self.write(f"/sys/bus/pci/drivers/{driver}/module", "")
            self.link(f"{base}/driver", f"../../drivers/{driver}")

    def library(self, directory: str, soname: str, version: str, content: bytes = b"\x7fELF") -> None:
        """A library whose real file bears its version, and the link that programs look for."""
        stem = soname.split(".so")[0]
        self.write(f"{directory}/{stem}.so.{version}", content)
        if f"{stem}.so.{version}" != soname:
            self.link(f"{directory}/{soname}", f"{stem}.so.{version}")

    def process(self, pid: int, name: str) -> None:
        """A running process by its short name."""
        self.write(f"/proc/{pid}/comm", f"{name[:15]}\n")

    # -- what every machine has ----------------------------------------------------------------------------------------

    def system(
        self, *, kernel: str = "6.8.0-60-generic", arch: str = "x86_64", release: str = UBUNTU, cores: int = 8, glibc: str = "2.35"
    ) -> None:
        """Kernel, distribution, processor, memory, limits, C library."""
        self.write("/etc/os-release", release)
        self.write("/proc/sys/kernel/osrelease", f"{kernel}\n")
        self.write("/proc/sys/kernel/arch", f"{arch}\n")
        self.write("/proc/cpuinfo", _cpuinfo(arch, cores))
        self.write("/proc/meminfo", "MemTotal:       65842000 kB\nMemFree:         2000000 kB\nMemAvailable:   60000000 kB\n")
        self.write("/proc/self/limits", "Limit                     Soft Limit           Hard Limit           Units     \nMax open files            1024                 1048576              files     \n")
        self.write("/proc/self/cgroup", "0::/user.slice/user-1000.slice/session-1.scope\n")
        self.write("/proc/1/comm", "systemd\n")
        self.write("/sys/fs/cgroup/cgroup.controllers", "cpu memory\n")
        self.write("/sys/devices/system/cpu/online", f"0-{cores - 1}\n")
        for core in range(cores):
            self.write(f"/sys/devices/system/cpu/cpu{core}/topology/core_cpus_list", f"{core // 2 * 2}-{core // 2 * 2 + 1}\n")
        self.identity()
        directory = {"x86_64": "/usr/lib/x86_64-linux-gnu", "aarch64": "/usr/lib/aarch64-linux-gnu"}.get(arch, "/usr/lib64")
        self.write(f"{directory}/libc.so.6", f"\0GNU C Library (Ubuntu GLIBC {glibc}-0ubuntu3) stable release version {glibc}.\n".encode())
        versions = b"".join(b"GLIBCXX_3.4.%d\0" % n for n in range(9, 31))
        self.library(directory, "libstdc++.so.6", "6.0.30", b"\x7fELF\0GLIBCXX_3.4\0" + versions)
        self.write("/usr/share/misc/pci.ids", PCI_IDS)
        self.write("/dev/null")
        (self.root / "sys/firmware/efi/efivars").mkdir(parents=True)
        (self.root / "sys/bus/pci/devices").mkdir(parents=True)

    def identity(self, groups: Iterable[int] = (), cores: str = "0-7") -> None:
        """Who asks, and the names of users and groups."""
        listed = " ".join(str(item) for item in (USER_GROUP, *groups))
        self.write(
            "/proc/self/status",
            f"Name:\tpython\nUid:\t{USER}\t{USER}\t{USER}\t{USER}\nGid:\t{USER_GROUP}\t{USER_GROUP}\t{USER_GROUP}\t{USER_GROUP}\n"
            f"Groups:\t{listed} \nSeccomp:\t0\nCpus_allowed_list:\t{cores}\n",
        )
        owner = self.root.stat()
        self.write("/etc/passwd", f"root:x:{owner.st_uid}:0:root:/root:/bin/sh\nuser:x:{USER}:{USER_GROUP}::/home/user:/bin/sh\n")
        self.write("/etc/group", f"render:x:{owner.st_gid}:\nuser:x:{USER_GROUP}:\n")

    @property
    def file_group(self) -> int:
        """Group of the tree's files: "render" by name."""
        return self.root.stat().st_gid

    def nvidia(
        self,
        driver: str,
        gpus: Iterable[tuple[str, str, str]] = (("0000:01:00.0", "2684", "NVIDIA GeForce RTX 4090"),),
        *,
        opened: bool = False,
        nodes: bool = True,
        uvm: bool = True,
        library: str | None = None,
    ) -> None:
        """A loaded driver with its cards (address, device id, name). library: version of libcuda when it differs."""
        flavour = "Open Kernel Module for x86_64" if opened else "x86_64 Kernel Module"
        self.write("/proc/driver/nvidia/version", f"NVRM version: NVIDIA UNIX {flavour}  {driver}  Release Build  (dvs-builder@host)\nGCC version:  gcc version 12.3.0\n")
        self.write("/sys/module/nvidia/version", f"{driver}\n")
        self.modules += ["nvidia", "nvidia_modeset", *(["nvidia_uvm"] if uvm else [])]
        for number, (address, device, name) in enumerate(gpus):
            self.pci(address, "10de", device, "nvidia")
            self.write(f"/proc/driver/nvidia/gpus/{address}/information", f"Model: \t\t {name}\nIRQ:   \t\t 180\nBus Type: \t PCIe\nBus Location: \t {address}\n")
            if nodes:
                self.node(f"/dev/nvidia{number}")
        if nodes:
            self.node("/dev/nvidiactl")
            if uvm:
                self.node("/dev/nvidia-uvm")
                self.node("/dev/nvidia-uvm-tools")
        if library != "":
            self.library("/usr/lib/x86_64-linux-gnu", "libcuda.so.1", library or driver)

    def docker(self) -> None:
        """The marks of a docker container."""
        self.write("/.dockerenv")
        self.write("/proc/self/cgroup", "0::/\n")
        self.write("/proc/1/comm", "bash\n")
        self.mounts.append("shm /dev/shm tmpfs rw,nosuid,nodev,noexec,relatime,size=65536k,inode64 0 0")

    def finish(self) -> None:
        """Files that gather what was said before."""
        self.write("/proc/modules", "".join(f"{name} 16384 0 - Live 0x0\n" for name in self.modules))
        self.write("/proc/self/mounts", "".join(f"{line}\n" for line in self.mounts))
        records = [f"Package: {name}\nStatus: install ok installed\nArchitecture: amd64\nVersion: {version}\n" for name, version in self.packages]
        self.write("/var/lib/dpkg/status", "\n".join(records))


def _cpuinfo(arch: str, cores: int) -> str:
    if arch == "aarch64":
        block = "processor\t: {n}\nBogoMIPS\t: 62.50\nFeatures\t: fp asimd evtstrm aes asimdhp asimddp\nCPU implementer\t: 0x41\nCPU part\t: 0xd42\n\n"
    else:
        block = f"processor\t: {{n}}\nvendor_id\t: AuthenticAMD\nmodel name\t: AMD Ryzen 9 7950X 16-Core Processor\nflags\t\t: {FLAGS}\n\n"
    return "".join(block.replace("{n}", str(n)) for n in range(cores))


def ld_cache(entries: Iterable[tuple[str, str]], *, old: bool = False) -> bytes:
    """An /etc/ld.so.cache with these (soname, path) entries; old: behind the format of glibc before 2.32."""
    pairs = list(entries)
    header, entry = 48, 24
    strings = b""
    rows = []
    for soname, path in pairs:
        offset = header + entry * len(pairs) + len(strings)
        strings += soname.encode() + b"\0" + path.encode() + b"\0"
        rows.append(struct.pack("=iIIIQ", 0x0303, offset, offset + len(soname) + 1, 0, 0))
    new = b"glibc-ld.so.cache1.1" + struct.pack("=II20x", len(pairs), len(strings)) + b"".join(rows) + strings
    if not old:
        return new
    before = b"ld.so-1.7.0\0" + struct.pack("=I", len(pairs)) + b"".join(struct.pack("=iII", 0x0303, 0, 0) for _ in pairs)
    return before + b"\0" * (-len(before) % 8) + new


# -- the machines ------------------------------------------------------------------------------------------------------


def _cpu(tree: Tree) -> None:
    tree.system()
    tree.pci("0000:00:02.0", "1a03", "2000", "ast")


def _no_avx(tree: Tree) -> None:
    tree.system()
    tree.write("/proc/cpuinfo", "processor\t: 0\nmodel name\t: Intel(R) Celeron(R) J4125\nflags\t\t: fpu sse sse2 ssse3 sse4_1 sse4_2\n\n")


def _rtx4090_no_driver(tree: Tree) -> None:
    tree.system()
    tree.pci("0000:01:00.0", "10de", "2684")


def _nouveau(tree: Tree) -> None:
    tree.system()
    tree.pci("0000:01:00.0", "10de", "2206", "nouveau")
    tree.modules.append("nouveau")
    tree.node("/dev/dri/renderD128", 0o666)


def _rtx4090(tree: Tree) -> None:
    tree.system()
    tree.nvidia("550.127.08")
    tree.packages += [("nvidia-driver-550", "550.127.08-0ubuntu1"), ("libnvidia-compute-550", "550.127.08-0ubuntu1")]


def _v100_driver580(tree: Tree) -> None:
    tree.system()
    tree.nvidia("580.95.05", [("0000:3b:00.0", "1db4", "Tesla V100-PCIE-16GB")])
    tree.packages.append(("nvidia-driver-580", "580.95.05-0ubuntu1"))


def _two_gpus(tree: Tree) -> None:
    tree.system()
    tree.nvidia("550.127.08", [("0000:01:00.0", "2684", "NVIDIA GeForce RTX 4090"), ("0000:02:00.0", "2504", "NVIDIA GeForce RTX 3060")], opened=True)


def _stale_module(tree: Tree) -> None:
    tree.system()
    tree.nvidia("535.154.05", library="535.183.01")


def _no_uvm(tree: Tree) -> None:
    tree.system()
    tree.nvidia("550.127.08", uvm=False)


def _stub_first(tree: Tree) -> None:
    tree.system()
    tree.nvidia("550.127.08", library="")
    tree.library("/usr/local/cuda-12.4/lib64/stubs", "libcuda.so.1", "1")
    tree.write("/etc/ld.so.cache", ld_cache([("libcuda.so.1", "/usr/local/cuda-12.4/lib64/stubs/libcuda.so.1")]))


def _compat(tree: Tree) -> None:
    tree.system()
    tree.nvidia("535.183.01")
    tree.library("/usr/local/cuda-12.6/compat", "libcuda.so.1", "560.35.03")
    tree.link("/usr/local/cuda", "cuda-12.6")
    tree.packages += [("nvidia-driver-535", "535.183.01-0ubuntu1"), ("cuda-compat-12-6", "560.35.03-1")]
    tree.write("/usr/local/cuda-12.6/version.json", '{"cuda": {"name": "CUDA SDK", "version": "12.6.2"}}')


def _secure_boot(tree: Tree) -> None:
    _rtx4090_no_driver(tree)
    tree.write("/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c", b"\x06\0\0\0\x01")
    tree.write("/dev/kmsg", "4,812,7741852,-;Loading of unsigned module is rejected\n6,813,7741900,-;usb 1-1: new device\n")
    tree.packages.append(("nvidia-driver-550", "550.127.08-0ubuntu1"))


def _xid79(tree: Tree) -> None:
    tree.system()
    tree.write("/proc/uptime", "3609.94 7100.11\n")
    tree.nvidia("550.127.08")
    tree.write("/dev/kmsg", "4,900,9000000,-;NVRM: loading NVIDIA UNIX x86_64 Kernel Module  550.127.08\n3,912,9941852,-;NVRM: Xid (PCI:0000:01:00): 79, pid=1234, GPU has fallen off the bus.\n")


def _wsl2(tree: Tree) -> None:
    tree.system(kernel="5.15.167.4-microsoft-standard-WSL2")
    tree.node("/dev/dxg")
    tree.library("/usr/lib/wsl/lib", "libcuda.so.1", "1.1")
    tree.write("/etc/ld.so.cache", ld_cache([("libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1")]))
    tree.write("/proc/1/comm", "init(Ubuntu)\n")


def _wsl1(tree: Tree) -> None:
    tree.system(kernel="4.4.0-19041-Microsoft")


def _wsl2_driver_inside(tree: Tree) -> None:
    """A Linux driver was installed inside of WSL, and its libcuda comes first."""
    _wsl2(tree)
    tree.library("/usr/lib/x86_64-linux-gnu", "libcuda.so.1", "535.183.01")
    tree.write(
        "/etc/ld.so.cache",
        ld_cache([("libcuda.so.1", "/usr/lib/x86_64-linux-gnu/libcuda.so.1"), ("libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1")]),
    )
    tree.packages.append(("libnvidia-compute-535", "535.183.01-0ubuntu1"))


def _jetson_orin(tree: Tree) -> None:
    tree.system(kernel="5.15.148-tegra", arch="aarch64", cores=12)
    tree.write("/etc/nv_tegra_release", "# R36 (release), REVISION: 4.3, GCID: 38968081, BOARD: generic, EABI: aarch64, DATE: Wed Jan  8 01:49:37 UTC 2025\n")
    tree.write("/proc/device-tree/model", b"NVIDIA Jetson AGX Orin Developer Kit\0")
    tree.write("/proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  540.4.0  Release Build  (buildbrain@host)\n")
    tree.modules += ["nvgpu", "nvidia"]
    tree.library("/usr/lib/aarch64-linux-gnu/nvidia", "libcuda.so.1", "1.1")
    tree.write("/etc/ld.so.cache", ld_cache([("libcuda.so.1", "/usr/lib/aarch64-linux-gnu/nvidia/libcuda.so.1")]))
    for name in ("/dev/nvidiactl", "/dev/nvidia0", "/dev/nvmap", "/dev/nvhost-gpu"):
        tree.node(name)
    tree.packages += [("nvidia-l4t-core", "36.4.3-20250107174145"), ("nvidia-jetpack", "6.2+b77")]


def _rocm(tree: Tree) -> None:
    tree.system()
    tree.identity(groups=[tree.file_group])
    tree.pci("0000:03:00.0", "1002", "744c", "amdgpu")
    tree.write("/sys/bus/pci/devices/0000:03:00.0/revision", "0xc8\n")
    tree.modules.append("amdgpu")
    nodes = "/sys/class/kfd/kfd/topology/nodes"
    tree.write(f"{nodes}/0/properties", "cpu_cores_count 16\ngfx_target_version 0\n")
    tree.write(f"{nodes}/1/properties", "simd_count 192\nvendor_id 4098\ndevice_id 29772\nlocation_id 768\ndomain 0\ngfx_target_version 110000\n")
    tree.write(f"{nodes}/1/mem_banks/0/properties", "heap_type 1\nsize_in_bytes 25753026560\nflags 0\n")
    tree.write("/usr/share/libdrm/amdgpu.ids", "# List\n1.0.0\n744C,\tC8,\tAMD Radeon RX 7900 XTX\n744C,\tCC,\tAMD Radeon RX 7900 XT\n")
    tree.write("/opt/rocm/.info/version", "6.4.1-83\n")
    tree.node("/dev/kfd", 0o660)
    tree.node("/dev/dri/renderD128", 0o660)


def _rocm_no_access(tree: Tree) -> None:
    _rocm(tree)
    tree.identity()


def _rocm_no_kfd(tree: Tree) -> None:
    tree.system()
    tree.pci("0000:03:00.0", "1002", "744c", "amdgpu")
    tree.node("/dev/dri/renderD128", 0o666)


def _intel_arc(tree: Tree) -> None:
    tree.system()
    tree.identity(groups=[tree.file_group])
    tree.pci("0000:03:00.0", "8086", "56a0", "i915")
    tree.node("/dev/dri/renderD128", 0o660)
    tree.library("/usr/lib/x86_64-linux-gnu", "libze_loader.so.1", "1.17.44")
    tree.packages += [("libze1", "1.17.44-0"), ("libze-intel-gpu1", "24.35.30872.31-996")]


def _intel_arc_no_access(tree: Tree) -> None:
    _intel_arc(tree)
    tree.identity()


def _intel_integrated(tree: Tree) -> None:
    tree.system()
    tree.pci("0000:00:02.0", "8086", "9a49", "i915")
    tree.node("/dev/dri/renderD128", 0o660)


def _container_no_gpu(tree: Tree) -> None:
    """`docker run` without --gpus: the kernel's files are the host's, the device files and libraries are not there."""
    tree.system()
    tree.docker()
    tree.nvidia("550.127.08", nodes=False, library="")


def _container_gpu(tree: Tree) -> None:
    tree.system()
    tree.docker()
    tree.nvidia("550.127.08")


def _container_no_uvm(tree: Tree) -> None:
    tree.system()
    tree.docker()
    tree.nvidia("550.127.08")
    for name in ("nvidia-uvm", "nvidia-uvm-tools"):
        (tree.root / "dev" / name).unlink()


def _container_limited(tree: Tree) -> None:
    tree.system()
    tree.docker()
    tree.write("/sys/fs/cgroup/cpu.max", "150000 100000\n")
    tree.write("/sys/fs/cgroup/memory.max", f"{4 << 30}\n")
    tree.write("/sys/fs/cgroup/memory.current", f"{3 << 30}\n")
    tree.write("/sys/fs/cgroup/memory.stat", f"anon 100\ninactive_file {1 << 30}\n")


def _container_limited_v1(tree: Tree) -> None:
    tree.system()
    tree.docker()
    (tree.root / "sys/fs/cgroup/cgroup.controllers").unlink()
    tree.write("/proc/self/cgroup", "4:memory:/docker/0123\n3:cpu,cpuacct:/docker/0123\n1:name=systemd:/docker/0123\n")
    tree.write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "200000\n")
    tree.write("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n")
    tree.write("/sys/fs/cgroup/memory/memory.limit_in_bytes", f"{2 << 30}\n")
    tree.write("/sys/fs/cgroup/memory/memory.usage_in_bytes", f"{1 << 30}\n")
    tree.write("/sys/fs/cgroup/memory/memory.stat", f"total_inactive_file {256 << 20}\n")


def _kubernetes(tree: Tree) -> None:
    tree.system()
    tree.write("/proc/self/cgroup", "0::/kubepods.slice/kubepods-burstable.slice/cri-containerd-0123.scope\n")
    tree.write("/var/run/secrets/kubernetes.io/serviceaccount/token", "x")
    tree.nvidia("535.216.03", [("0000:01:00.0", "20b5", "NVIDIA A100 80GB PCIe")])


def _podman(tree: Tree) -> None:
    tree.system()
    tree.write("/run/.containerenv", 'engine="podman-4.9.3"\n')


def _lxc(tree: Tree) -> None:
    tree.system()
    tree.write("/proc/self/mountinfo", "40 30 0:50 / /proc/cpuinfo rw - fuse.lxcfs lxcfs rw\n")


_H100 = [(f"0000:{bus}:00.0", "2330", "NVIDIA H100 80GB HBM3") for bus in ("1b", "43", "52", "61", "9d", "c3", "d1", "df")]


def _dgx(tree: Tree) -> None:
    tree.system(cores=16)
    tree.nvidia("580.95.05", _H100, opened=True)
    for bus in ("05", "06", "07", "08"):
        tree.pci(f"0000:{bus}:00.0", "10de", "22a3", "nvidia-nvswitch", code="0x068000")
    tree.write("/usr/bin/nv-fabricmanager")
    tree.packages += [("nvidia-driver-580-open", "580.95.05-0ubuntu1"), ("nvidia-fabricmanager-580", "580.95.05-1")]
    tree.process(2222, "nv-fabricmanager")


def _dgx_no_fabric(tree: Tree) -> None:
    _dgx(tree)
    (tree.root / "usr/bin/nv-fabricmanager").unlink()
    (tree.root / "proc/2222/comm").unlink()
    tree.packages = [item for item in tree.packages if "fabric" not in item[0]]


def _dgx_fabric_stopped(tree: Tree) -> None:
    _dgx(tree)
    (tree.root / "proc/2222/comm").unlink()


def _centos7(tree: Tree) -> None:
    tree.system(kernel="3.10.0-1160.el7.x86_64", release='NAME="CentOS Linux"\nVERSION_ID="7"\nID="centos"\nPRETTY_NAME="CentOS Linux 7 (Core)"\n', glibc="2.17")
    tree.library("/usr/lib64", "libstdc++.so.6", "6.0.19")
    (tree.root / "usr/lib/x86_64-linux-gnu/libstdc++.so.6").unlink()
    (tree.root / "usr/share/misc/pci.ids").unlink()


def _alpine(tree: Tree) -> None:
    tree.system(release='NAME="Alpine Linux"\nID=alpine\nVERSION_ID=3.20.3\nPRETTY_NAME="Alpine Linux v3.20"\n')
    (tree.root / "usr/lib/x86_64-linux-gnu/libc.so.6").unlink()
    tree.write("/lib/ld-musl-x86_64.so.1")
    tree.write("/lib/apk/db/installed", "C:Q1xxx\nP:musl\nV:1.2.5-r0\nA:x86_64\n")


def _arm_server(tree: Tree) -> None:
    tree.system(arch="aarch64", kernel="6.8.0-1018-aws")
    tree.write("/proc/cpuinfo", "processor\t: 0\nFeatures\t: fp asimd sve bf16 i8mm\nCPU implementer\t: 0x41\nCPU part\t: 0xd40\n\n")


def _empty(tree: Tree) -> None:
    """Nothing at all: whatever cannot be read has to stay unknown."""


TREE_KINDS: dict[str, Callable[[Tree], None]] = {
    "cpu": _cpu,
    "no-avx": _no_avx,
    "rtx4090": _rtx4090,
    "rtx4090-no-driver": _rtx4090_no_driver,
    "nouveau": _nouveau,
    "v100-driver580": _v100_driver580,
    "two-gpus": _two_gpus,
    "stale-module": _stale_module,
    "no-uvm": _no_uvm,
    "stub-first": _stub_first,
    "compat": _compat,
    "secure-boot": _secure_boot,
    "xid79": _xid79,
    "wsl2": _wsl2,
    "wsl1": _wsl1,
    "wsl2-driver-inside": _wsl2_driver_inside,
    "jetson-orin": _jetson_orin,
    "rocm": _rocm,
    "rocm-no-access": _rocm_no_access,
    "rocm-no-kfd": _rocm_no_kfd,
    "intel-arc": _intel_arc,
    "intel-arc-no-access": _intel_arc_no_access,
    "intel-integrated": _intel_integrated,
    "container-no-gpu": _container_no_gpu,
    "container-gpu": _container_gpu,
    "container-no-uvm": _container_no_uvm,
    "container-limited": _container_limited,
    "container-limited-v1": _container_limited_v1,
    "kubernetes": _kubernetes,
    "podman": _podman,
    "lxc": _lxc,
    "dgx": _dgx,
    "dgx-no-fabric": _dgx_no_fabric,
    "dgx-fabric-stopped": _dgx_fabric_stopped,
    "centos7": _centos7,
    "alpine": _alpine,
    "arm-server": _arm_server,
    "empty": _empty,
}


def machine_tree(directory: Path, kind: str) -> Path:
    """Writes the tree of a machine and returns its root, ready for ENVCHECK_ROOT."""
    root = directory / f"root-{kind}"
    root.mkdir(parents=True)
    tree = Tree(root)
    TREE_KINDS[kind](tree)
    if kind != "empty":
        tree.finish()
    return root


def _no_program(argv: Iterable[object], **_: object) -> Completed:
    return Completed(tuple(str(item) for item in argv), "missing", reason="no program may be run in this test")


def tree_host(root: Path, *, programs: bool = False, path: Path | str = "", timeout: float = 5.0, **env: str) -> Host:
    """A Host whose "/" is the tree. programs: real ones may be started; path: the directories of PATH."""
    variables = {"PATH": str(path), **env}
    return Host(root=root, env=variables, run=run if programs else _no_program, platform="linux", timeout=timeout)


def shell_environment(root: Path, *directories: Path, **env: str) -> dict[str, str]:
    """Variables for a doctor that is started as a program: the tree as "/", these directories first on PATH."""
    path = os.pathsep.join([*map(str, directories), os.environ.get("PATH", "")])
    return {"ENVCHECK_ROOT": str(root), "PATH": path, **env}
