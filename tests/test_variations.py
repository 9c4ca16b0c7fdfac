"""Healthy machines with every harmless peculiarity that machines have: still not one warning."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from envcheck import facts as facts_module
from envcheck.facts import CudaToolkit, Distribution, EnvVar, Facts, KernelEvent, LoadedLibrary, NvidiaGpu, Outcome, PciDevice, Symptom
from envcheck.matrix import load
from envcheck.rules import RULES, evaluate

FOLDER = Path(__file__).parent / "machines"
replace = msgspec.structs.replace
Change = Callable[[Facts], Facts]


def base(name: str) -> Facts:
    return facts_module.from_json((FOLDER / name / "facts.json").read_bytes())


def part(section: str, **values) -> Change:
    return lambda facts: replace(facts, **{section: replace(getattr(facts, section), **values)})


def variable(name: str, value: str) -> Change:
    return lambda facts: replace(facts, env=(*(facts.env or ()), EnvVar(name=name, value=value)))


def package(name: str, version: str, **more) -> Change:
    def change(facts: Facts) -> Facts:
        item = Distribution(name=name, version=version, manager="pip", site="env", **more)
        return replace(facts, python=replace(facts.python, distributions=(*(facts.python.distributions or ()), item)))

    return change


def torch_version(version: str, **more) -> Change:
    def change(facts: Facts) -> Facts:
        kept = tuple(d for d in facts.python.distributions or () if d.name not in ("torch", "torchvision"))
        own = Distribution(name="torch", version=version, manager="pip", site="env")
        return replace(
            facts,
            torch=replace(facts.torch, version=version, **more),
            python=replace(facts.python, distributions=(own, *kept)),
        )

    return change


def gpu(**values) -> Change:
    def change(facts: Facts) -> Facts:
        gpus = tuple(replace(g, **values) for g in facts.nvidia.gpus or ())
        return replace(facts, nvidia=replace(facts.nvidia, gpus=gpus))

    return change


def together(*changes: Change) -> Change:
    def change(facts: Facts) -> Facts:
        for one in changes:
            facts = one(facts)
        return facts

    return change


CUDA = ("linux-a100-driver535-cu128", "linux-rtx3090x2-driver550-cu124", "docker-l40s-driver550-cu124", "windows-rtx4070-laptop-driver566-cu126")
ALL = tuple(sorted(p.name for p in FOLDER.iterdir() if (p / "facts.json").is_file()))

VARIATIONS: dict[str, tuple[tuple[str, ...], Change]] = {
    "an integrated Intel GPU beside it": (ALL, lambda f: replace(f, pci=(*(f.pci or ()), PciDevice(address="0000:00:02.0", vendor_id="8086", device_id="9a49", name="Iris Xe", driver="i915")))),
    "a server's own graphics chip": (ALL, lambda f: replace(f, pci=(*(f.pci or ()), PciDevice(address="0000:04:00.0", vendor_id="1a03", name="ASPEED", driver="ast")))),
    "another toolkit on disk": (CUDA, part("toolchain", nvcc_version="11.2", cuda_toolkits=(CudaToolkit(path="/usr/local/cuda-11.2", version="11.2", has_nvcc=True, on_path=True),))),
    "nvidia-smi is not on PATH": (CUDA, part("nvidia", smi=Outcome(status="missing"))),
    "all GPUs named by number": (CUDA, variable("CUDA_VISIBLE_DEVICES", "0")),
    "a GPU named by UUID": (CUDA, variable("CUDA_VISIBLE_DEVICES", "GPU-00000000-0000-0000-0000-000000000000")),
    "an ordinary LD_LIBRARY_PATH": (CUDA, variable("LD_LIBRARY_PATH", "/usr/local/cuda/lib64:/usr/lib/x86_64-linux-gnu")),
    "switches of the allocator": (CUDA, variable("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")),
    "NCCL settings of a cluster": (CUDA, together(variable("NCCL_SOCKET_IFNAME", "eth0"), variable("NCCL_DEBUG", "INFO"))),
    "thread settings": (ALL, variable("OMP_NUM_THREADS", "4")),
    "the driver is newer than the tables": (CUDA[:3], part("nvidia", driver_version="680.10", kernel_driver_version="680.10", driver_cuda="14.2")),
    "a GPU that is newer than the tables": (("linux-a100-driver535-cu128",), together(part("nvidia", gpus=(NvidiaGpu(index=0, name="NVIDIA A9999", compute_capability="8.0"),)), lambda f: replace(f, torch=replace(f.torch, devices=None)))),
    "persistence mode off, idle PCIe, warm": (CUDA, gpu(persistence=False, pcie_gen=1, temperature=71.0, utilization=3.0)),
    "memory in use": (CUDA, gpu(memory_used=4 * 1024**3)),
    "corrected and old ECC errors only": (CUDA, gpu(ecc_uncorrected=0, ecc_uncorrected_total=0, remapped_rows_pending=False, retired_pages_pending=False)),
    "TCC on a workstation": (("windows-rtx4070-laptop-driver566-cu126",), gpu(driver_model="TCC")),
    "a nightly torch": (CUDA, torch_version("2.16.0.dev20261120+cu130", cuda="12.8")),
    "a torch built from source": (CUDA, torch_version("2.9.0a0+git0123456")),
    "NVIDIA's own container build": (("docker-l40s-driver550-cu124",), torch_version("2.6.0a0+ecf3bae40a.nv25.01", cuda="12.4", arch_list=("sm_70", "sm_75", "sm_80", "sm_86", "sm_90", "compute_90"))),
    "a release that is newer than the tables": (CUDA, torch_version("2.19.0+cu128", cuda="12.8", arch_list=("sm_75", "sm_80", "sm_86", "sm_90", "sm_120"))),
    "extensions that fit": (CUDA, together(package("accelerate", "1.2.0"), package("transformers", "4.50.0"), package("lightning", "2.5.0"))),
    "an editable package": (CUDA, package("my-project", "0.1", editable=True, location="/srv/my-project")),
    "TensorFlow and JAX beside torch": (CUDA, together(package("tensorflow", "2.18.0"), package("jax", "0.5.0"))),
    "setuptools of today": (CUDA, package("setuptools", "84.0.0")),
    "a user site that is switched on and empty": (ALL, part("python", user_site="/srv/u/.local/lib/python3.11/site-packages", user_site_enabled=True)),
    "a system Python that is externally managed": (CUDA[:2], part("python", kind="system", externally_managed=True)),
    "a 1024 limit of open files": (ALL, part("system", open_files_soft=1024)),
    "docker's default /dev/shm": (("docker-l40s-driver550-cu124",), part("system", shm_size=64 * 1024**2, shm_free=64 * 1024**2)),
    "no C compiler": (ALL, part("system", c_compiler="", cxx_compiler="")),
    "Secure Boot with a signed module": (CUDA[:3], part("system", secure_boot=True)),
    "SELinux enforcing": (CUDA[:2], part("system", selinux="enforcing")),
    "a virtual machine": (ALL, part("system", virtual_machine="kvm")),
    "a glibc of tomorrow": (CUDA[:3], part("system", libc_version="2.45")),
    "the wheel's own libraries are loaded": (CUDA[:3], lambda f: replace(f, torch=replace(f.torch, loaded_libraries=(LoadedLibrary(name="cudnn", path="/opt/venv/lib/python3.11/site-packages/nvidia/cudnn/lib/libcudnn.so.9", origin="wheel"), LoadedLibrary(name="libgomp", path="/opt/venv/lib/python3.11/site-packages/torch/lib/libgomp.so.1", origin="wheel"), LoadedLibrary(name="libstdc++", path="/usr/lib/x86_64-linux-gnu/libstdc++.so.6", origin="system"), LoadedLibrary(name="cuda", path="/usr/lib/x86_64-linux-gnu/libcuda.so.1", origin="system"))))),
    "two OpenMP runtimes that live together": (CUDA[:3], lambda f: replace(f, torch=replace(f.torch, loaded_libraries=(LoadedLibrary(name="libgomp", path="/opt/venv/lib/python3.11/site-packages/torch/lib/libgomp-a34b3233.so.1", origin="wheel"), LoadedLibrary(name="libgomp", path="/opt/venv/lib/python3.11/site-packages/scikit_learn.libs/libgomp-a34b3233.so.1.0.0", origin="other"))))),
    "a program that once read out of bounds": (CUDA[:2], lambda f: replace(f, kernel_events=(KernelEvent(kind="xid", code=31, text="NVRM: Xid (PCI:0000:01:00): 31, pid=4242, name=python, MMU Fault: ENGINE GRAPHICS faulted"),))),
    "rows that were remapped some time ago": (CUDA[:2], lambda f: replace(f, kernel_events=(KernelEvent(kind="xid", code=63, text="[ 912.4] NVRM: Xid (PCI:0000:01:00): 63, pid=1896, Row Remapper: New row marked for remapping, reset gpu to activate.", age=1e6),), nvidia=replace(f.nvidia, gpus=tuple(replace(g, bus_id="00000000:01:00.0") for g in f.nvidia.gpus or ())))),
    "an ECC error of last month that ended one program": (CUDA[:2], lambda f: replace(f, kernel_events=(KernelEvent(kind="xid", code=94, text="[ 912.4] NVRM: Xid (PCI:0000:01:00): 94, pid=7194, Contained: SM (0x1). RST: No, D-RST: No", age=2e6),), nvidia=replace(f.nvidia, gpus=tuple(replace(g, bus_id="00000000:01:00.0") for g in f.nvidia.gpus or ())))),
    "a program that once used up the memory": (ALL, lambda f: replace(f, kernel_events=(KernelEvent(kind="oom-killer", text="Out of memory: Killed process 4242 (python) total-vm:90000000kB, anon-rss:60000000kB"),))),
    "nothing known of nvidia_uvm": (CUDA[:2], part("nvidia", uvm_loaded=None)),
    "nothing known of the kernel": (CUDA, part("nvidia", kernel_module_loaded=None, uvm_loaded=None, kernel_driver_version=None, device_nodes=None)),
}


@pytest.mark.parametrize("name", VARIATIONS)
def test_a_peculiarity_is_no_alarm(name: str) -> None:
    machines, change = VARIATIONS[name]
    for machine in machines:
        report = evaluate(change(base(machine)), load(), RULES)
        alarms = [(f.rule, f.severity, f.seen) for f in report.findings if f.severity != "note"]
        assert alarms == [], machine
        assert [s for s in report.skipped if "internal error" in s.reason] == [], machine


def test_facts_of_which_any_part_is_unknown_never_break_a_rule() -> None:
    """Every field of every recorded machine taken away, one at a time."""
    for machine in ALL:
        facts = base(machine)
        for section in ("system", "nvidia", "amd", "intel", "apple", "toolchain", "python", "torch"):
            struct = getattr(facts, section)
            for field in struct.__struct_fields__:
                if getattr(struct, field) is None:
                    continue
                report = evaluate(replace(facts, **{section: replace(struct, **{field: None})}), load(), RULES)
                errors = [f.rule for f in report.findings if f.severity == "error"]
                assert errors == [], (machine, section, field)
                assert [s.reason for s in report.skipped if "internal error" in s.reason] == [], (machine, section, field)


def test_a_finding_needs_more_than_a_hint() -> None:
    """A symptom that belongs to another machine's words does not overrule what torch itself did here."""
    facts = base("linux-a100-driver535-cu128")
    facts = replace(facts, symptoms=(Symptom(kind="no-nvidia-driver", text="Found no NVIDIA driver on your system"),))
    assert [f.rule for f in evaluate(facts, load(), RULES).findings if f.severity == "error"] == []
