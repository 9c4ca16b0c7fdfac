"""What ROCm's tools, Macs and the kernel log print."""

from __future__ import annotations

import time

import pytest

from envcheck.outputs.apple import parse_ioreg, parse_sw_vers, parse_system_profiler
from envcheck.outputs.kernel_log import MAX_SAME, journal_messages, kmsg_messages, parse_kernel_log, with_ages
from envcheck.outputs.rocm import kfd_error, parse_amd_smi, parse_rocm, parse_rocm_smi, parse_rocminfo

# -- kernel log --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "kind", "code"),
    [
        ("[74889.644138] NVRM: Xid (PCI:0000:02:00): 79, GPU has fallen off the bus.", "xid", 79),
        ("NVRM: Xid (0000:02:00): 48, An uncorrectable double bit error", "xid", 48),
        ("Jul 01 22:55:07 gpu kernel: NVRM: GPU 0000:01:00.0: RmInitAdapter failed! (0x22:0x56:884)", "rm-init-adapter", None),
        ("NVRM: GPU 0000:01:00.0: rm_init_adapter failed, device minor number 0", "rm-init-adapter", None),
        ("NVRM: API mismatch: the client has the version 535.183.01, but this kernel module has 535.154.05", "nvrm", None),
        ("NVRM: The NVIDIA GPU 0000:01:00.0 installed in this system requires use of the NVIDIA open kernel modules.", "nvrm", None),
        ("NVRM: No NVIDIA GPU found.", "nvrm", None),
        ("Loading of unsigned module is rejected", "module-rejected", None),
        ("modprobe: ERROR: could not insert 'nvidia': Key was rejected by service", "module-rejected", None),
        ("nvidia: version magic '6.8.0-60' should be '6.11.0-17'", "module-incompatible", None),
        ("kfd kfd: amdgpu: PITCAIRN  not supported in kfd", "amdgpu", None),
        ("amdgpu 0000:03:00.0: amdgpu: ring gfx_0.0.0 timeout, signaled seq=1", "amdgpu", None),
        ("i915 0000:03:00.0: [drm] GPU HANG: ecode 12:1:85dcfdff", "intel-gpu", None),
        ("xe 0000:03:00.0: [drm] Timedout job: seqno=4294967169", "intel-gpu", None),
        ("Out of memory: Killed process 4242 (python)", "oom-killer", None),
        ("pcieport 0000:00:02.0: PCIe Bus Error: severity=Uncorrectable (Fatal)", "pcie", None),
        ("pcieport 0000:00:02.0:    [ 5] Surprise Down Error    (First)", "pcie", None),
        ("python3[4242]: segfault at 10 ip 00007f", "segfault", None),
        ("traps: python[811] trap invalid opcode ip:7f", "illegal-instruction", None),
    ],
)
def test_kernel_events(line: str, kind: str, code: int | None) -> None:
    (event,) = parse_kernel_log(f"[1.0] usb 1-1: new device\n{line}\n")
    assert (event.kind, event.code, event.line, event.text) == (kind, code, 2, line)


HEALTHY_START = """\
[    3.1] nvidia: loading out-of-tree module taints kernel.
[    3.2] nvidia: module verification failed: signature and/or required key missing - tainting kernel
[    3.3] nvidia-nvlink: Nvlink Core is being initialized, major device number 236
[    3.4] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  550.127.08  Tue Oct  8 00:40:02 UTC 2024
[    3.5] nvidia-modeset: Loading NVIDIA Kernel Mode Setting Driver for UNIX platforms  550.127.08
[    3.6] [drm] [nvidia-drm] [GPU ID 0x00000100] Loading driver
[    3.7] nvidia_uvm: module uses symbols nvUvmInterfaceDisableAccessCntr from proprietary module nvidia, inheriting taint.
[    4.0] amdgpu 0000:03:00.0: amdgpu: SMU is initialized successfully!
[    4.1] kfd kfd: amdgpu: added device 1002:744c
[    4.2] i915 0000:00:02.0: [drm] GuC firmware i915/tgl_guc_70.bin version 70.13.1
[    4.3] xe 0000:03:00.0: [drm] Using GuC firmware from xe/bmg_guc_70.bin version 70.29.2
[    5.0] pcieport 0000:00:1c.0: PCIe Bus Error: severity=Corrected, type=Physical Layer
"""


def test_a_healthy_start_is_no_event() -> None:
    assert parse_kernel_log(HEALTHY_START) == ()


def test_repetitions_are_kept_within_bounds() -> None:
    text = "NVRM: Xid (PCI:0000:01:00): 13, Graphics Exception\n" * 50 + "NVRM: Xid (PCI:0000:01:00): 79, fallen off\n"
    events = parse_kernel_log(text)
    assert [e.code for e in events] == [13] * MAX_SAME + [79]
    assert events[-1].line == 51


def test_records_of_the_device_file() -> None:
    text = kmsg_messages("3,912,9941852,-;NVRM: Xid (PCI:0000:01:00): 79, pid=1\n SUBSYSTEM=pci\n6,913,12000000,-;usb\n")
    assert text == "[    9.941852] NVRM: Xid (PCI:0000:01:00): 79, pid=1\n[   12.000000] usb"
    assert kmsg_messages("plain text") == "plain text"


def test_lines_of_the_journal_lose_the_name_of_the_machine() -> None:
    text = "[    9.941852] gpu-box.lab kernel: NVRM: Xid (PCI:0000:01:00): 79, pid=1\n[   12.0] gpu-box.lab kernel: usb: a kernel: b"
    assert journal_messages(text) == "[    9.941852] NVRM: Xid (PCI:0000:01:00): 79, pid=1\n[   12.0] usb: a kernel: b"


def test_how_long_ago_a_line_was_written() -> None:
    """By the seconds since the start that dmesg and journalctl -o short-monotonic print; other lines have no age."""
    text = "[   10.500000] NVRM: Xid (PCI:0000:01:00): 79, a\n[ 4000.0] host kernel: NVRM: Xid (PCI:0000:01:00): 48, b\nMar  3 10:11:12 host kernel: NVRM: Xid (PCI:0000:01:00): 31, c"
    assert [e.age for e in with_ages(parse_kernel_log(text), 3610.5)] == [3600.0, None, None]  # a line of the future: another clock
    assert [e.age for e in with_ages(parse_kernel_log(text), 4010.0)] == [3999.5, 10.0, None]
    assert [e.age for e in with_ages(parse_kernel_log(text), None)] == [None] * 3


def test_a_long_log_costs_little() -> None:
    text = "[ 1.0] NVRM: nothing of note pcie usb module\n" * 20_000
    begun = time.process_time()
    assert parse_kernel_log(text) == ()
    assert time.process_time() - begun < 3.0


# -- ROCm --------------------------------------------------------------------------------------------------------------

ROCMINFO = """\
ROCk module is loaded
=====================
HSA System Attributes
=====================
*******
Agent 1
*******
  Name:                    AMD Ryzen 9 7950X 16-Core Processor
  Marketing Name:          AMD Ryzen 9 7950X 16-Core Processor
  Vendor Name:             CPU
  Device Type:             CPU
  Pool Info:
    Pool 1
      Segment:                 GLOBAL; FLAGS: COARSE GRAINED
      Size:                    65749000(0x3eb4008) KB
*******
Agent 2
*******
  Name:                    gfx1100
  Uuid:                    GPU-XX
  Marketing Name:          AMD Radeon RX 7900 XTX
  Vendor Name:             AMD
  Device Type:             GPU
  Chip ID:                 29772(0x744c)
  Pool Info:
    Pool 1
      Segment:                 GLOBAL; FLAGS: COARSE GRAINED
      Size:                    25149440(0x17fc000) KB
    Pool 2
      Segment:                 GROUP
      Size:                    64(0x40) KB
  ISA Info:
    ISA 1
      Name:                    amdgcn-amd-amdhsa--gfx1100
*******
Agent 3
*******
  Name:                    gfx1036
  Marketing Name:          AMD Radeon Graphics
  Device Type:             GPU
"""


@pytest.mark.parametrize("mangle", [lambda t: t, lambda t: "\n".join("> " + i for i in t.splitlines()), lambda t: "\n".join(i.ljust(80) for i in t.splitlines())], ids=["plain", "quoted", "padded"])
def test_rocminfo(mangle) -> None:
    found = parse_rocminfo(mangle(ROCMINFO))
    assert found is not None
    assert [(g.gfx, g.name, g.memory_total) for g in found] == [
        ("gfx1100", "AMD Radeon RX 7900 XTX", 25149440 * 1024),
        ("gfx1036", "AMD Radeon Graphics", None),
    ]


def test_rocminfo_of_a_machine_without_gpu() -> None:
    assert parse_rocminfo(ROCMINFO[: ROCMINFO.index("*******\nAgent 2")]) == ()
    assert parse_rocminfo("nothing of it") is None


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("Unable to open /dev/kfd read-write: Permission denied\nuser is not member of \"render\" group", "Permission denied"),
        ("ROCk module is NOT loaded, possibly no GPU devices\nUnable to open /dev/kfd read-write: No such file or directory", "No such file or directory"),
        ("\x1b[31mROCk module is NOT loaded, possibly no GPU devices\x1b[0m", "kernel module not loaded"),
        ("ERROR:root:Driver not initialized (amdgpu not found in modules)", "kernel module not loaded"),
        (ROCMINFO, None),
    ],
    ids=["denied", "absent", "not-loaded", "rocm-smi", "healthy"],
)
def test_why_kfd_cannot_be_used(text: str, error: str | None) -> None:
    assert kfd_error(text) == error


def test_rocm_smi() -> None:
    text = (
        "============ ROCm System Management Interface ============\n"
        "GPU[0]\t\t: Card Series: \t\tAMD Instinct MI300X VF\nGPU[0]\t\t: Card Model: \t\t0x74b5\nGPU[0]\t\t: GFX Version: \tgfx942\n"
        "GPU[0]\t\t: VRAM Total Memory (B): 205822885888\nGPU[1]\t\t: Card series: Instinct MI210\n"
    )
    found = parse_rocm_smi(text)
    assert found is not None
    assert [(g.name, g.gfx, g.memory_total) for g in found] == [("AMD Instinct MI300X VF", "gfx942", 205822885888), ("Instinct MI210", None, None)]
    assert parse_rocm_smi("GPU[0] : GPU use (%): 25") is None


def test_amd_smi_static() -> None:
    text = "GPU: 0\n    ASIC:\n        MARKET_NAME: AMD Instinct MI300A\n        TARGET_GRAPHICS_VERSION: gfx942\n    VRAM:\n        TYPE: HBM3\n        SIZE: 131072 MB\nGPU: 1\n    ASIC:\n        MARKET_NAME: AMD Radeon Graphics\n"
    found = parse_amd_smi(text)
    assert found is not None
    assert [(g.name, g.gfx, g.memory_total) for g in found] == [("AMD Instinct MI300A", "gfx942", 128 << 30), ("AMD Radeon Graphics", None, None)]


def test_amd_smi_screen() -> None:
    text = """\
| AMD-SMI 26.2.0+021c61fc      amdgpu version: 6.16.6   ROCm version: 7.1.1    |
| BDF                        GPU-Name | Mem-Uti   Temp   UEC       Power-Usage |
|=====================================+========================================|
| 0000:ff:00.0 AMD Instinct MI300X VF | 0 %      37 °C   0           141/750 W |
|   0       0       2        SPX/NPS1 | 0 %        N/A           285/196288 MB |
| 0000:c2:00.0                 0x1586 | N/A        N/A   0             N/A/0 W |
|   1       0     N/A             N/A | N/A        N/A           1013/65536 MB |
"""
    found = parse_rocm(text)
    assert found is not None
    assert (found.rocm_version, found.amdgpu_version) == ("7.1.1", "6.16.6")
    assert [(g.name, g.memory_total) for g in found.gpus or ()] == [("AMD Instinct MI300X VF", 196288 << 20), (None, 65536 << 20)]


def test_text_without_rocm() -> None:
    assert parse_rocm("GPU 0: Tesla T4\nAgent Smith\n") is None


# -- Apple -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("ProductName:\t\tmacOS\nProductVersion:\t\t15.1\nBuildVersion:\t\t24B83\n", "15.1"),
        ("ProductName:\tMac OS X\nProductVersion:\t10.15.7\n", "10.15.7"),
        ("> ProductVersion: 12.7.6\n", "12.7.6"),
        ("ProductName: Windows\nProductVersion: 11\n", None),
        ("", None),
    ],
)
def test_sw_vers(text: str, version: str | None) -> None:
    assert parse_sw_vers(text) == version


PROFILER = """\
Graphics/Displays:

    Apple M2 Max:

      Chipset Model: Apple M2 Max
      Type: GPU
      Bus: Built-In
      Total Number of Cores: 38
      Vendor: Apple (0x106b)
      Metal Support: Metal 3
"""


@pytest.mark.parametrize(
    ("text", "chip", "cores", "metal"),
    [
        (PROFILER, "Apple M2 Max", 38, True),
        ("      Chip: Apple M4 Pro\n      Total Number of Cores: 14 (10 performance and 4 efficiency)\n", "Apple M4 Pro", None, None),
        ("      Chipset Model: AMD Radeon Pro 5500M\n      Metal Family: Supported, Metal GPUFamily macOS 2\n", None, None, True),
        ("      Chipset Model: Intel HD Graphics 4000\n      Metal: Not Supported\n", None, None, False),
    ],
    ids=["silicon", "hardware-section", "amd", "no-metal"],
)
def test_system_profiler(text: str, chip: str | None, cores: int | None, metal: bool | None) -> None:
    found = parse_system_profiler(text)
    assert found is not None
    assert (found.chip, found.gpu_cores, found.metal) == (chip, cores, metal)


def test_other_apple_texts() -> None:
    assert parse_system_profiler("nothing") is None
    assert parse_ioreg('  | |   "gpu-core-count" = 38\n') == 38
    assert parse_ioreg("") is None
