"""Files of the kernel and of package managers, and the answers of small programs."""

from __future__ import annotations

import subprocess

import pytest

from envcheck.probes import amd, compilers, container, elf, environment, fabric, intel, libcuda, limits, linux, macos, nvidia, pci
from envcheck.probes import system_packages, toolchain
from envcheck.probes.host import Host
from tests.kit.tree import PCI_IDS, ld_cache


@pytest.mark.parametrize(
    ("text", "version", "opened"),
    [
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12 19:39:15 UTC 2024\nGCC version:  gcc 12", "535.183.01", False),
        ("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.124.04  Release Build  (dvs-builder@U16)", "570.124.04", True),
        ("NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  540.4.0  Release Build", "540.4.0", True),
        ("NVRM version: NVIDIA UNIX Kernel Module for aarch64  34.1.1  Release Build", "34.1.1", False),
        ("", None, None),
        ("NVRM version: something else", None, None),
    ],
)
def test_driver_of_the_kernel(text: str, version: str | None, opened: bool | None) -> None:
    assert nvidia.parse_kernel_version(text) == (version, opened)


def test_card_of_the_kernel() -> None:
    found = nvidia.parse_gpu_information("Model: \t\t NVIDIA GeForce RTX 3090\nIRQ:   \t\t 180\nBus Location: \t 0000:0a:00.0\n")
    assert found is not None
    assert (found.name, found.bus_id) == ("NVIDIA GeForce RTX 3090", "0000:0a:00.0")
    assert nvidia.parse_gpu_information("") is None


def test_pci_names() -> None:
    wanted = [("10de", "2684"), ("1002", "744c"), ("8086", "56a0"), ("10de", "ffff"), ("1234", "2684"), ("", "")]
    assert pci.parse_pci_ids(PCI_IDS, wanted) == {
        ("10de", "2684"): "AD102 [GeForce RTX 4090]",
        ("1002", "744c"): "Navi 31 [Radeon RX 7900 XT/7900 XTX/7900 GRE/7900M]",
        ("8086", "56a0"): "DG2 [Arc A770]",
    }


def test_windows_display_adapters() -> None:
    text = (
        '[{"Name":"NVIDIA GeForce RTX 4070","PNPDeviceID":"PCI\\\\VEN_10DE&DEV_2786&SUBSYS_1","DriverVersion":"32.0.15.6636","ConfigManagerErrorCode":0},'
        '{"Name":"Microsoft Basic Display Adapter","PNPDeviceID":"PCI\\\\VEN_10DE&DEV_2684&SUBSYS_1","DriverVersion":"10.0","ConfigManagerErrorCode":0},'
        '{"Name":"AMD Radeon","PNPDeviceID":"PCI\\\\VEN_1002&DEV_744C","DriverVersion":"31","ConfigManagerErrorCode":43},'
        '{"Name":"Remote","PNPDeviceID":"ROOT\\\\RDP","DriverVersion":"1","ConfigManagerErrorCode":0}]'
    )
    found = pci.parse_video_controllers(text)
    assert found is not None
    assert [(d.vendor_id, d.device_id, d.name, d.driver) for d in found] == [
        ("10de", "2786", "NVIDIA GeForce RTX 4070", "32.0.15.6636"),
        ("10de", "2684", None, ""),
        ("1002", "744c", "AMD Radeon", ""),
    ]
    one = pci.parse_video_controllers('{"Name":"A","PNPDeviceID":"PCI\\\\VEN_8086&DEV_56A0","DriverVersion":"1","ConfigManagerErrorCode":null}')
    assert one is not None
    assert len(one) == 1
    assert pci.parse_video_controllers("") == ()
    assert pci.parse_video_controllers("Get-CimInstance : Access denied") is None


@pytest.mark.parametrize("old", [False, True], ids=["new", "old-format-first"])
def test_loader_cache(old: bool) -> None:
    data = ld_cache([("libc.so.6", "/lib/libc.so.6"), ("libcuda.so.1", "/a/libcuda.so.1"), ("libcuda.so.1", "/b/libcuda.so.1")], old=old)
    assert elf.parse_ld_cache(data, "libcuda.so.1") == ["/a/libcuda.so.1", "/b/libcuda.so.1"]
    assert elf.parse_ld_cache(data, "libnothing.so") == []


@pytest.mark.parametrize("data", [b"", b"x" * 100, b"glibc-ld.so.cache1.1", b"ld.so-1.7.0\0\xff\xff\xff\xff", ld_cache([("a", "b")])[:60]], ids=["empty", "garbage", "cut", "old-cut", "entries-cut"])
def test_loader_cache_that_cannot_be_read(data: bytes) -> None:
    assert elf.parse_ld_cache(data, "a") == []


def test_loader_cache_agrees_with_ldconfig() -> None:
    listed = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=False).stdout if Host().exists("/sbin/ldconfig") else ""
    wanted = [line.split("=>")[1].strip() for line in listed.splitlines() if line.split(" ")[0].strip() == "libstdc++.so.6"]
    if not wanted:
        pytest.skip("this system has no ldconfig or no libstdc++ in its cache")
    assert elf.parse_ld_cache(Host().data("/etc/ld.so.cache") or b"", "libstdc++.so.6") == wanted


def test_newest_symbol_counts_numbers_not_letters() -> None:
    data = b"\0GLIBCXX_3.4\0GLIBCXX_3.4.9\0GLIBCXX_3.4.30\0GLIBCXX_DEBUG_MESSAGE_LENGTH\0CXXABI_1.3.13\0"
    assert elf.newest_symbol(data, "GLIBCXX") == "3.4.30"
    assert elf.newest_symbol(data, "CXXABI") == "1.3.13"
    assert elf.newest_symbol(b"", "GLIBCXX") is None


def test_os_release() -> None:
    found = linux.parse_os_release('# x\nNAME="Ubuntu"\nID=ubuntu\nPRETTY_NAME=\'Ubuntu 24.04.1 LTS\'\nEMPTY=\nBROKEN\n')
    assert found == {"NAME": "Ubuntu", "ID": "ubuntu", "PRETTY_NAME": "Ubuntu 24.04.1 LTS"}


@pytest.mark.parametrize(
    ("text", "model", "flags"),
    [
        ("model name\t: AMD EPYC 7543\nflags\t\t: fpu sse4_2 avx avx2 fma f16c\n", "AMD EPYC 7543", ("sse4_2", "avx", "avx2", "fma", "f16c")),
        ("Features\t: fp asimd sve\nCPU implementer\t: 0x41\nCPU part\t: 0xd4f\n", "Neoverse-V2", ("asimd", "sve")),
        ("CPU implementer\t: 0x99\nCPU part\t: 0x123\n", "Arm implementer 0x99 part 0x123", None),
        ("cpu\t\t: POWER9, altivec supported\n", "POWER9, altivec supported", None),
        ("", None, None),
    ],
    ids=["x86", "arm", "unknown-arm", "power", "empty"],
)
def test_cpuinfo(text: str, model: str | None, flags: tuple[str, ...] | None) -> None:
    assert linux.parse_cpuinfo(text) == (model, flags)


@pytest.mark.parametrize(("text", "cores"), [("150000 100000", 1.5), ("max 100000", None), ("", None), ("100000 0", None)])
def test_cpu_quota(text: str, cores: float | None) -> None:
    assert limits.parse_cpu_max(text) == cores


@pytest.mark.parametrize(("text", "count"), [("0-7\n", 8), ("0,2-3", 3), ("5", 1), ("", 0)])
def test_cpu_list(text: str, count: int) -> None:
    assert limits.parse_cpu_list(text) == count


def test_cgroup_file() -> None:
    assert limits.parse_cgroup("4:memory:/a\n3:cpu,cpuacct:/b\n0::/c\nbroken\n") == {"memory": "/a", "cpu": "/b", "cpuacct": "/b", "": "/c"}


@pytest.mark.parametrize(
    ("text", "version"),
    [("# R36 (release), REVISION: 4.3, GCID: 1, BOARD: generic", "36.4.3"), ("# R32 (release), REVISION: 7.1, GCID", "32.7.1"), ("# R38 (release), REVISION: 2.0,", "38.2.0"), ("", None)],
)
def test_jetson_release(text: str, version: str | None) -> None:
    assert container.parse_l4t(text) == version


@pytest.mark.parametrize(("number", "name"), [(110000, "gfx1100"), (90010, "gfx90a"), (90402, "gfx942"), (100300, "gfx1030"), (110501, "gfx1151"), (120001, "gfx1201"), (90500, "gfx950"), (0, None)])
def test_gfx_names(number: int, name: str | None) -> None:
    assert amd.parse_gfx(number) == name


def test_amdgpu_marketing_names() -> None:
    text = "# list\n1.0.0\n744C,\tC8,\tAMD Radeon RX 7900 XTX\n744C,\tCC,\tAMD Radeon RX 7900 XT\n73BF,\tC1,\tAMD Radeon RX 6800 XT\n"
    assert amd.parse_amdgpu_ids(text, "744c", "c8") == "AMD Radeon RX 7900 XTX"
    assert amd.parse_amdgpu_ids(text, "744c", "") is None
    assert amd.parse_amdgpu_ids(text, "73bf", "") == "AMD Radeon RX 6800 XT"


@pytest.mark.parametrize(
    ("device", "usable"),
    [("56a0", True), ("56c0", True), ("e20b", True), ("0bd5", True), ("7d55", True), ("64a0", True), ("7d67", True), ("9a49", False), ("3e92", False), ("a780", False), (None, False)],
)
def test_intel_families(device: str | None, usable: bool) -> None:
    assert (intel.family(device) is not None) is usable


def test_dpkg_status() -> None:
    text = (
        "Package: nvidia-driver-535\nStatus: install ok installed\nVersion: 535.183.01-0ubuntu1\n\n"
        "Package: nvidia-driver-470\nStatus: deinstall ok config-files\nVersion: 470.1\n\n"
        "Package: nvidia-container-toolkit\nStatus: install ok installed\nArchitecture: amd64\nVersion: 1.17.4-1\n\n"
        "Package: cuda-compat-12-6\nStatus: install ok installed\nVersion: 560.35.03-1\n\n"
        "Package: intel-microcode\nStatus: install ok installed\nVersion: 3\n\n"
        "Package: libnvidia-compute-535\nStatus: install ok installed\nDepends: x\nVersion: 535.183.01-0ubuntu1\n"
    )
    assert system_packages.parse_dpkg(text) == [
        ("cuda-compat-12-6", "560.35.03-1"),
        ("libnvidia-compute-535", "535.183.01-0ubuntu1"),
        ("nvidia-container-toolkit", "1.17.4-1"),
        ("nvidia-driver-535", "535.183.01-0ubuntu1"),
    ]


def test_other_package_managers() -> None:
    assert system_packages.parse_pacman(["nvidia-open-dkms-610.43.02-3", "nvidia-utils-610.43.02-3", "nonsense"]) == [("nvidia-open-dkms", "610.43.02-3"), ("nvidia-utils", "610.43.02-3")]
    assert system_packages.parse_rpm("kmod-nvidia-latest-dkms 570.124.06-1.el9\nbash 5.1\nrubbish\n") == [("kmod-nvidia-latest-dkms", "570.124.06-1.el9")]


@pytest.mark.parametrize(
    ("text", "name", "found"),
    [
        ("gcc (Debian 12.2.0-14) 12.2.0\nCopyright", "/usr/bin/cc", "gcc 12.2.0"),
        ("g++ (Ubuntu 11.4.0-1ubuntu1~22.04) 11.4.0\n", "/usr/bin/c++", "g++ 11.4.0"),
        ("gcc (GCC) 4.8.5 20150623 (Red Hat 4.8.5-44)\n", "gcc", "gcc 4.8.5"),
        ("Ubuntu clang version 14.0.0-1ubuntu1.1\nTarget: x86_64", "/usr/bin/clang", "clang 14.0.0"),
        ("Apple clang version 15.0.0 (clang-1500.3.9.4)", "/usr/bin/cc", "clang 15.0.0"),
        ("Microsoft (R) C/C++ Optimizing Compiler Version 19.40.33811 for x64", "cl", "cl 19.40.33811"),
        ("x86_64-conda-linux-gnu-cc (conda-forge gcc 13.3.0-1) 13.3.0\n", "x86_64-conda-linux-gnu-cc", "gcc 13.3.0"),
        ("nothing known", "cc", None),
    ],
)
def test_compiler_banners(text: str, name: str, found: str | None) -> None:
    assert compilers.parse_compiler(text, name) == found


@pytest.mark.parametrize(
    ("parse", "text", "found"),
    [
        (toolchain.parse_version_json, '{"cuda": {"version": "12.4.1"}, "cuda_nvcc": {"version": "12.4.131"}}', "12.4.131"),
        (toolchain.parse_version_json, '{"cuda": {"version": "12.4.1"}}', "12.4.1"),
        (toolchain.parse_version_json, "not json", None),
        (toolchain.parse_version_json, "[]", None),
        (toolchain.parse_version_txt, "CUDA Version 10.2.89\n", "10.2.89"),
        (toolchain.parse_version_txt, "", None),
        (toolchain.parse_cuda_h, "#define CUDA_VERSION 13000\n", "13.0"),
        (toolchain.parse_cuda_h, "#define CUDA_VERSION 11080", "11.8"),
        (toolchain.parse_nvcc, "Cuda compilation tools, release 12.4, V12.4.131\nBuild cuda_12.4.r12.4", "12.4.131"),
        (toolchain.parse_nvcc, "Cuda compilation tools, release 9.1, V9.1.85", "9.1.85"),
        (toolchain.parse_nvcc, "bash: no", None),
        (toolchain.parse_cudnn_header, "#define CUDNN_MAJOR 9\n#define CUDNN_MINOR 10\n#define CUDNN_PATCHLEVEL 2\n", "9.10.2"),
        (toolchain.parse_cudnn_header, "#define CUDNN_MAJOR 9\n", None),
        (fabric.parse_is_active, "active\n", "active"),
        (fabric.parse_is_active, "failed\n", "failed"),
        (fabric.parse_is_active, "activating\n", "inactive"),
        (fabric.parse_is_active, "unknown\n", None),
        (macos.parse_sysctl, "hw.memsize: 34359738368\nmachdep.cpu.brand_string: Apple M2 Max\n", {"hw.memsize": "34359738368", "machdep.cpu.brand_string": "Apple M2 Max"}),
    ],
)
def test_small_texts(parse, text: str, found: object) -> None:
    assert parse(text) == found


@pytest.mark.parametrize(
    ("path", "actual", "kind"),
    [
        ("/usr/lib/x86_64-linux-gnu/libcuda.so.1", "/usr/lib/x86_64-linux-gnu/libcuda.so.535.183.01", "driver"),
        ("/usr/local/cuda/lib64/stubs/libcuda.so.1", None, "stub"),
        ("/usr/lib/libcuda.so.1", "/usr/local/cuda-12.4/targets/x86_64-linux/lib/stubs/libcuda.so", "stub"),
        ("/usr/local/cuda/compat/libcuda.so.1", None, "compat"),
        ("/opt/conda/envs/a/cuda-compat/libcuda.so.1", None, "compat"),
        ("/usr/local/cuda-12/compat-12.4/libcuda.so.1", None, "compat"),
        ("/usr/lib/wsl/lib/libcuda.so.1", None, "wsl"),
        ("/usr/lib/wsl/drivers/nv_dispi.inf_amd64_1/libcuda.so.1.1", None, "wsl"),
        ("/usr/lib/aarch64-linux-gnu/tegra/libcuda.so.1", None, "jetson"),
        ("/home/compatible/libcuda.so.1", None, "driver"),
    ],
)
def test_kinds_of_libcuda(path: str, actual: str | None, kind: str) -> None:
    assert libcuda.kind(path, actual) == kind


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("CUDA_VISIBLE_DEVICES", True), ("LD_LIBRARY_PATH", True), ("PYTORCH_CUDA_ALLOC_CONF", True), ("HSA_OVERRIDE_GFX_VERSION", True), ("UV_TORCH_BACKEND", True), ("OMP_NUM_THREADS", True),
        ("PIP_INDEX_URL", False), ("UV_INDEX_URL", False), ("AWS_SECRET_ACCESS_KEY", False), ("HF_TOKEN", False), ("HOME", False), ("SLURM_JOB_ID", False), ("cuda_x", False),
    ],
)  # fmt: skip
def test_only_listed_variables_are_read(name: str, read: bool) -> None:
    assert environment.allowed(name) is read


def test_environment_never_shows_a_secret() -> None:
    found = environment.probe(Host(env={"HF_TOKEN": "hf_secret", "CUDA_VISIBLE_DEVICES": "", "SLURM_JOB_ID": "99"}))
    assert [(item.name, item.value) for item in found.env or ()] == [("CUDA_VISIBLE_DEVICES", ""), ("SLURM_JOB_ID", "set")]
