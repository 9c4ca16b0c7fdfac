"""Every recorded machine through every probe."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from envcheck.facts import Facts
from envcheck.probes import fabric, linux
from envcheck.probes.collect import collect_machine
from tests.kit import TREE_KINDS, fake_smi, machine_tree, tree_host
from tests.kit.tree import Tree

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the trees have symbolic links and rights")


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Facts]:
    directory = tmp_path_factory.mktemp("machines")
    return {kind: collect_machine(tree_host(machine_tree(directory, kind))) for kind in TREE_KINDS}


def test_no_probe_fails_on_any_machine(machines: dict[str, Facts]) -> None:
    bad = {(kind, run.name, run.outcome.error) for kind, facts in machines.items() for run in facts.probes if run.outcome.bad}
    assert bad == set()


def test_probes_write_nothing(tmp_path: Path) -> None:
    root = machine_tree(tmp_path, "dgx")
    before = {path: path.lstat().st_mtime_ns for path in root.rglob("*")}
    collect_machine(tree_host(root))
    assert {path: path.lstat().st_mtime_ns for path in root.rglob("*")} == before


@pytest.mark.parametrize(
    ("kind", "pci", "loaded", "version", "nodes", "cards"),
    [
        ("cpu", [(None, "ast")], False, None, 0, None),
        ("rtx4090-no-driver", [("AD102 [GeForce RTX 4090]", "")], False, None, 0, None),
        ("nouveau", [("GA102 [GeForce RTX 3080]", "nouveau")], False, None, 0, None),
        ("rtx4090", [("AD102 [GeForce RTX 4090]", "nvidia")], True, "550.127.08", 4, ["NVIDIA GeForce RTX 4090"]),
        ("v100-driver580", [("GV100GL [Tesla V100 PCIe 16GB]", "nvidia")], True, "580.95.05", 4, ["Tesla V100-PCIE-16GB"]),
        ("two-gpus", [("AD102 [GeForce RTX 4090]", "nvidia"), ("GA106 [GeForce RTX 3060 Lite Hash Rate]", "nvidia")], True, "550.127.08", 5, ["NVIDIA GeForce RTX 4090", "NVIDIA GeForce RTX 3060"]),
        ("container-no-gpu", [("AD102 [GeForce RTX 4090]", "nvidia")], True, "550.127.08", 0, None),
        ("container-gpu", [("AD102 [GeForce RTX 4090]", "nvidia")], True, "550.127.08", 4, ["NVIDIA GeForce RTX 4090"]),
        ("container-no-uvm", [("AD102 [GeForce RTX 4090]", "nvidia")], True, "550.127.08", 2, ["NVIDIA GeForce RTX 4090"]),
        ("kubernetes", [("NVIDIA A100 80GB PCIe", "nvidia")], True, "535.216.03", 4, ["NVIDIA A100 80GB PCIe"]),
        ("wsl2", [], None, None, 1, None),
        ("jetson-orin", [], True, "540.4.0", 4, None),
    ],
)  # fmt: skip
def test_nvidia(machines: dict[str, Facts], kind: str, pci: list, loaded: bool | None, version: str | None, nodes: int, cards: list | None) -> None:
    facts = machines[kind]
    assert [(d.name, d.driver) for d in facts.pci or ()] == pci
    found = facts.nvidia
    assert (found.kernel_module_loaded, found.kernel_driver_version) == (loaded, version)
    assert len(found.device_nodes or ()) == nodes
    assert found.device_nodes is not None
    assert (None if found.gpus is None else [g.name for g in found.gpus]) == cards
    assert [g.index for g in found.gpus or ()] == list(range(len(cards or ())))


def test_nouveau_uvm_and_the_open_module(machines: dict[str, Facts]) -> None:
    assert machines["nouveau"].nvidia.nouveau_loaded is True
    assert machines["rtx4090"].nvidia.nouveau_loaded is False
    assert machines["no-uvm"].nvidia.uvm_loaded is False
    assert machines["rtx4090"].nvidia.uvm_loaded is True
    assert machines["wsl2"].nvidia.uvm_loaded is None
    assert machines["jetson-orin"].nvidia.uvm_loaded is None
    assert machines["two-gpus"].nvidia.kernel_module_open is True
    assert machines["rtx4090"].nvidia.kernel_module_open is False
    assert machines["cpu"].nvidia.kernel_module_open is None


@pytest.mark.parametrize(
    ("kind", "copies"),
    [
        ("cpu", []),
        ("rtx4090", [("driver", "550.127.08", True)]),
        ("stale-module", [("driver", "535.183.01", True)]),
        ("stub-first", [("stub", None, True)]),
        ("compat", [("driver", "535.183.01", True), ("compat", "560.35.03", False)]),
        ("wsl2", [("wsl", None, True)]),
        ("wsl2-driver-inside", [("driver", "535.183.01", True), ("wsl", None, False)]),
        ("jetson-orin", [("jetson", None, True)]),
        ("container-no-gpu", []),
    ],
)
def test_libcuda(machines: dict[str, Facts], kind: str, copies: list) -> None:
    found = machines[kind].nvidia.libcuda
    assert found is not None
    assert [(c.kind, c.version, c.loaded) for c in found] == copies


def test_packages(machines: dict[str, Facts]) -> None:
    assert machines["rtx4090"].nvidia.driver_packages == ("libnvidia-compute-550 550.127.08-0ubuntu1", "nvidia-driver-550 550.127.08-0ubuntu1")
    assert machines["wsl2-driver-inside"].nvidia.driver_packages == ("libnvidia-compute-535 535.183.01-0ubuntu1",)
    assert machines["rtx4090"].nvidia.container_toolkit == ""
    assert machines["container-gpu"].nvidia.container_toolkit is None
    assert machines["empty"].nvidia.driver_packages is None
    assert machines["compat"].nvidia.driver_packages == ("nvidia-driver-535 535.183.01-0ubuntu1",)


@pytest.mark.parametrize(
    ("kind", "needed", "state", "version"),
    [
        ("cpu", False, None, None),
        ("rtx4090", False, None, None),
        ("dgx", True, "active", "580.95.05"),
        ("dgx-fabric-stopped", True, "inactive", "580.95.05"),
        ("dgx-no-fabric", True, "missing", None),
    ],
)
def test_fabric_manager(machines: dict[str, Facts], kind: str, needed: bool, state: str | None, version: str | None) -> None:
    found = machines[kind].nvidia.fabric
    assert found is not None
    assert (found.needed, found.state, found.version) == (needed, state, version)


def test_fabric_manager_cannot_be_seen_from_a_container(tmp_path: Path) -> None:
    root = machine_tree(tmp_path, "dgx-fabric-stopped")
    (root / ".dockerenv").write_text("")
    found = fabric.probe(tree_host(root)).nvidia.fabric
    assert found is not None
    assert (found.needed, found.state) == (True, None)


@pytest.mark.parametrize(
    ("kind", "container", "wsl", "machine"),
    [
        ("cpu", "none", 0, "x86_64"),
        ("wsl1", "none", 1, "x86_64"),
        ("wsl2", "none", 2, "x86_64"),
        ("container-gpu", "docker", 0, "x86_64"),
        ("container-limited-v1", "docker", 0, "x86_64"),
        ("kubernetes", "kubernetes", 0, "x86_64"),
        ("podman", "podman", 0, "x86_64"),
        ("lxc", "lxc", 0, "x86_64"),
        ("jetson-orin", "none", 0, "aarch64"),
        ("arm-server", "none", 0, "aarch64"),
    ],
)
def test_where_it_runs(machines: dict[str, Facts], kind: str, container: str, wsl: int, machine: str) -> None:
    system = machines[kind].system
    assert (system.container, system.wsl, system.machine) == (container, wsl, machine)


@pytest.mark.parametrize(
    ("env", "container", "cloud"),
    [
        ({"APPTAINER_CONTAINER": "/x.sif"}, "apptainer", None),
        ({"SINGULARITY_CONTAINER": "/x.sif"}, "apptainer", None),
        ({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "kubernetes", None),
        ({"container": "podman"}, "podman", None),
        ({"container": "systemd-nspawn"}, "unknown", None),
        ({"COLAB_RELEASE_TAG": "x"}, "none", "colab"),
        ({"KAGGLE_KERNEL_RUN_TYPE": "Interactive"}, "none", "kaggle"),
        ({}, "none", None),
    ],
)
def test_marks_in_the_environment(tmp_path: Path, env: dict[str, str], container: str, cloud: str | None) -> None:
    from envcheck.probes import container as module

    system = module.probe(tree_host(machine_tree(tmp_path, "cpu"), **env)).system
    assert (system.container, system.cloud) == (container, cloud)


@pytest.mark.parametrize(
    ("vendor", "product", "flags", "found"),
    [
        ("QEMU", "Standard PC (Q35 + ICH9, 2009)", "hypervisor", "kvm"),
        ("VMware, Inc.", "VMware Virtual Platform", "hypervisor", "vmware"),
        ("Microsoft Corporation", "Virtual Machine", "hypervisor", "hyper-v"),
        ("Microsoft Corporation", "Surface Book 3", "avx", "none"),
        ("Amazon EC2", "g5.xlarge", "hypervisor", "nitro"),
        ("Amazon EC2", "g5.metal", "avx", "none"),
        ("Google", "Google Compute Engine", "hypervisor", "kvm"),
        ("innotek GmbH", "VirtualBox", "hypervisor", "virtualbox"),
        ("ASUS", "System Product Name", "avx", "none"),
        ("", "", "hypervisor", "unknown"),
    ],
)
def test_virtual_machines(tmp_path: Path, vendor: str, product: str, flags: str, found: str) -> None:
    from envcheck.probes import container as module

    tree = Tree(tmp_path)
    tree.write("/proc/sys/kernel/osrelease", "6.8.0\n")
    tree.write("/proc/cpuinfo", f"flags\t\t: fpu {flags}\n")
    tree.write("/sys/class/dmi/id/sys_vendor", vendor)
    tree.write("/sys/class/dmi/id/product_name", product)
    assert module.probe(tree_host(tmp_path)).system.virtual_machine == found


@pytest.mark.parametrize(
    ("kind", "libc", "glibcxx"),
    [("cpu", ("glibc", "2.35"), "3.4.30"), ("centos7", ("glibc", "2.17"), "3.4.19"), ("alpine", ("musl", "1.2.5"), "3.4.30"), ("jetson-orin", ("glibc", "2.35"), "3.4.30"), ("empty", (None, None), None)],
)
def test_c_libraries(machines: dict[str, Facts], kind: str, libc: tuple, glibcxx: str | None) -> None:
    system = machines[kind].system
    assert ((system.libc, system.libc_version), system.glibcxx_max) == (libc, glibcxx)


def test_system_of_an_ordinary_machine(machines: dict[str, Facts]) -> None:
    system = machines["cpu"].system
    assert (system.os, system.name, system.distro, system.version, system.kernel) == ("linux", "Ubuntu 22.04.5 LTS", "ubuntu", "22.04", "6.8.0-60-generic")
    assert (system.cores_physical, system.cores_logical, system.cores_usable) == (4, 8, 8)
    assert (system.ram, system.ram_available) == (65842000 * 1024, 60000000 * 1024)
    assert (system.open_files_soft, system.open_files_hard) == (1024, 1048576)
    assert (system.selinux, system.seccomp, system.secure_boot) == ("disabled", 0, None)
    assert "avx2" in (system.cpu_flags or ())
    assert "avx" not in (machines["no-avx"].system.cpu_flags or ("avx",))
    assert machines["arm-server"].system.cpu_model == "Neoverse-V1"


def test_jetson(machines: dict[str, Facts]) -> None:
    system = machines["jetson-orin"].system
    assert (system.jetson_model, system.l4t, system.jetpack) == ("NVIDIA Jetson AGX Orin Developer Kit", "36.4.3", "6.2")
    assert machines["arm-server"].system.jetson_model is None


@pytest.mark.parametrize(
    ("kind", "cores", "ram", "available"),
    [("container-limited", 2, 4 << 30, 2 << 30), ("container-limited-v1", 2, 2 << 30, 1280 << 20), ("container-gpu", 8, 65842000 * 1024, 60000000 * 1024)],
)
def test_limits_of_containers(machines: dict[str, Facts], kind: str, cores: int, ram: int, available: int) -> None:
    system = machines[kind].system
    assert (system.cores_usable, system.ram, system.ram_available) == (cores, ram, available)
    assert system.shm_size == 64 << 20


def test_affinity(tmp_path: Path) -> None:
    root = machine_tree(tmp_path, "cpu")
    Tree(root).identity(cores="0-1,5")
    assert linux.usable_cores(tree_host(root)) == 3


def test_secure_boot_and_the_kernel_log(machines: dict[str, Facts]) -> None:
    facts = machines["secure-boot"]
    assert facts.system.secure_boot is True
    assert [event.kind for event in facts.kernel_events or ()] == ["module-rejected"]
    assert [(event.kind, event.code, event.age) for event in machines["xid79"].kernel_events or ()] == [("xid", 79, 3600.0)]
    assert machines["cpu"].kernel_events is None
    assert {run.name: run.outcome.status for run in machines["cpu"].probes}["kernel-log"] == "skipped"


@pytest.mark.parametrize(
    ("kind", "gfx", "error", "readable", "groups"),
    [
        ("rocm", "gfx1100", None, True, ("render", "user")),
        ("rocm-no-access", "gfx1100", "Permission denied", False, ("user",)),
        ("rocm-no-kfd", None, "No such file or directory", None, ("user",)),
    ],
)
def test_amd(machines: dict[str, Facts], kind: str, gfx: str | None, error: str | None, readable: bool | None, groups: tuple[str, ...]) -> None:
    found = machines[kind].amd
    (gpu,) = found.gpus or ()
    assert gpu.gfx == gfx
    assert found.kfd_error == error
    assert (found.kfd.readable if found.kfd else None) == readable
    assert found.user_groups == groups
    assert len(found.render_nodes or ()) == 1
    if gfx:
        assert (gpu.name, gpu.memory_total, found.rocm_version) == ("AMD Radeon RX 7900 XTX", 25753026560, "6.4.1")
        assert found.kfd is not None
        assert (found.kfd.mode, found.kfd.group) == ("crw-rw----", "render")


def test_no_amd_and_no_intel(machines: dict[str, Facts]) -> None:
    for kind in ("cpu", "rtx4090"):
        assert machines[kind].amd.gpus == ()
        assert machines[kind].amd.kfd_error is None
        assert machines[kind].intel.gpus == ()
    assert machines["empty"].amd.gpus is None
    assert machines["empty"].intel.gpus is None


@pytest.mark.parametrize(("kind", "usable"), [("intel-arc", True), ("intel-arc-no-access", False)])
def test_intel(machines: dict[str, Facts], kind: str, usable: bool) -> None:
    found = machines[kind].intel
    assert found.gpus == ("DG2 [Arc A770]",)
    assert [node.readable for node in found.render_nodes or ()] == [usable]
    assert (found.level_zero, found.driver_version) == ("1.17.44", "24.35.30872.31-996")
    assert ("render" in (found.user_groups or ())) is usable


def test_older_intel_graphics_is_no_xpu(machines: dict[str, Facts]) -> None:
    assert machines["intel-integrated"].intel.gpus == ()
    assert [d.name for d in machines["intel-integrated"].pci or ()] == ["TigerLake-LP GT2 [Iris Xe Graphics]"]


def test_toolkits(machines: dict[str, Facts]) -> None:
    found = machines["compat"].toolchain
    assert [(t.path, t.version, t.has_nvcc) for t in found.cuda_toolkits or ()] == [("/usr/local/cuda-12.6", "12.6.2", False)]
    assert (found.cuda_home, found.nvcc_version) == ("/usr/local/cuda", "")
    assert machines["cpu"].toolchain.cuda_toolkits == ()


def test_nothing_to_read_is_unknown(machines: dict[str, Facts]) -> None:
    facts = machines["empty"]
    assert facts.pci is None
    assert facts.nvidia.libcuda is None
    assert facts.nvidia.device_nodes is None
    assert facts.nvidia.kernel_module_loaded is None
    assert (facts.system.machine, facts.system.ram, facts.system.cores_usable, facts.system.wsl) == (None, None, None, None)


def test_smi_and_the_kernel_complete_each_other(tmp_path: Path) -> None:
    """nvidia-smi says which cards there are; PCI names without a database come from it."""
    root = machine_tree(tmp_path, "two-gpus")
    (root / "usr/share/misc/pci.ids").unlink()
    facts = collect_machine(tree_host(root, programs=True, path=fake_smi(tmp_path / "bin", "two-gpus").parent))
    assert [(g.index, g.name, g.compute_capability) for g in facts.nvidia.gpus or ()] == [(0, "NVIDIA GeForce RTX 4090", "8.9"), (1, "NVIDIA GeForce RTX 3060", "8.6")]
    assert [d.name for d in facts.pci or ()] == ["NVIDIA GeForce RTX 4090", "NVIDIA GeForce RTX 3060"]


def test_a_container_sees_only_its_own_card(tmp_path: Path) -> None:
    """/proc names all cards of the host: they must not be added to the one that nvidia-smi shows."""
    root = machine_tree(tmp_path, "two-gpus")
    facts = collect_machine(tree_host(root, programs=True, path=fake_smi(tmp_path / "bin", "healthy").parent))
    assert [g.name for g in facts.nvidia.gpus or ()] == ["NVIDIA GeForce RTX 4090"]


def test_no_devices_stays_none_though_the_kernel_lists_cards(tmp_path: Path) -> None:
    root = machine_tree(tmp_path, "rtx4090")
    facts = collect_machine(tree_host(root, programs=True, path=fake_smi(tmp_path / "bin", "no-devices").parent))
    assert facts.nvidia.gpus == ()


def test_a_hanging_program_leaves_what_the_kernel_knows(tmp_path: Path) -> None:
    root = machine_tree(tmp_path, "rtx4090")
    facts = collect_machine(tree_host(root, programs=True, path=fake_smi(tmp_path / "bin", "hang").parent, timeout=0.4))
    assert facts.nvidia.smi is not None
    assert facts.nvidia.smi.status == "timeout"
    assert [g.name for g in facts.nvidia.gpus or ()] == ["NVIDIA GeForce RTX 4090"]
