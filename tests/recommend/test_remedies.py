"""Remedies that rules share."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from envcheck.facts import Distribution, Facts, Nvidia, NvidiaGpu, Outcome, PciDevice, PythonEnv, System, Torch
from envcheck.matrix import Matrix, load
from envcheck.rules.remedies import driver_update, install_plan, matching_companion, pip
from tests.recommend.machines import machine

RTX4090 = "NVIDIA GeForce RTX 4090"


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return load()


def with_torch(version: str, *others: tuple[str, str], os: str = "linux", arch: str = "x86_64", manager: str = "pip") -> Facts:
    name = "pytorch" if manager == "conda" else "torch"
    found = tuple(Distribution(name=n, version=v, manager=manager) for n, v in ((name, version), *others))
    return replace(
        machine(RTX4090, driver="580.95.05", os=os, arch=arch, origin="live"),
        python=PythonEnv(version="3.12.4", distributions=found),
        torch=Torch(version=version),
    )


def test_pip_quotes_for_the_shell_of_the_system() -> None:
    assert pip(machine(origin="live"), "numpy<2") == "python -m pip install 'numpy<2'"
    assert pip(machine(os="windows", origin="live"), "install", "numpy<2") == 'python -m pip install "numpy<2"'
    assert pip(machine(origin="live"), "uninstall", "-y", "torch") == "python -m pip uninstall -y torch"
    conda = replace(machine(origin="live"), python=PythonEnv(version="3.12.4", distributions=(Distribution(name="pytorch", version="2.5.1", manager="conda"),)))
    assert pip(conda, "numpy<2") == "python -m pip install 'numpy<2'", "a pip command stays one where torch is conda's"


def test_install_plan_names_the_build(matrix: Matrix) -> None:
    remedy = install_plan(machine(RTX4090, driver="535.183.01"), matrix)
    assert "torch 2.14.1 (CUDA 12.6 build)" in remedy.text
    assert remedy.commands == ("python3 -m pip install torch==2.14.1 torchvision==0.29.1 --index-url https://download.pytorch.org/whl/cu126",)
    assert "CPU build" in install_plan(machine(RTX4090, driver="535.183.01"), matrix, device="cpu").text


def test_install_plan_of_the_impossible_says_the_way_out(matrix: Matrix) -> None:
    facts = Facts(
        origin="live",
        system=System(os="linux", machine="x86_64"),
        pci=(PciDevice(vendor_id="10de", name="GA102 [GeForce RTX 3090]"),),
        nvidia=Nvidia(smi=Outcome(status="failed"), smi_error="no-driver"),
        python=PythonEnv(version="3.12.4"),
    )
    remedy = install_plan(facts, matrix)
    assert remedy.text.index("driver is not running") < remedy.text.index("CPU only")
    assert "sudo modprobe nvidia" in remedy.commands


def test_install_plan_reads_the_system_from_paths(matrix: Matrix) -> None:
    """A paste without the operating system still shows it by its paths."""
    facts = Facts(
        origin="captured",
        torch=Torch(version="2.8.0+cpu", location=r"C:\Users\user\env\Lib\site-packages\torch"),
        nvidia=Nvidia(gpus=(NvidiaGpu(name=RTX4090),), driver_version="581.15"),
        python=PythonEnv(version="3.12.4"),
    )
    assert "https://download.pytorch.org/whl/cu130" in install_plan(facts, matrix).commands[0]
    assert install_plan(Facts(origin="captured"), matrix).text


# -- drivers -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("system", "words", "never"),
    [
        ({"distro": "ubuntu"}, "sudo apt install nvidia-driver-580", "dnf"),
        ({"distro": "fedora"}, "akmod-nvidia", "apt"),
        ({"distro": "rocky"}, "dnf module install nvidia-driver:580-open", "apt"),
        ({"distro": "arch"}, "pacman", "apt"),
        ({"distro": "opensuse-tumbleweed"}, "zypper", "apt"),
        ({"distro": "gentoo"}, "packages of the distribution", "apt"),
        ({"wsl": 2, "distro": "ubuntu"}, "Windows itself", "apt"),
        ({"container": "docker", "distro": "ubuntu"}, "on the host", "apt"),
        ({"l4t": "36.4.3", "machine": "aarch64", "distro": "ubuntu"}, "JetPack", "nvidia-driver"),
        ({"cloud": "colab", "container": "docker"}, "cannot be changed", "apt"),
        ({"os": "windows"}, "nvidia.com/drivers", "apt"),
    ],
    ids=str,
)
def test_driver_update(system: dict[str, object], words: str, never: str, matrix: Matrix) -> None:
    facts = machine(RTX4090, driver="535.183.01")
    remedy = driver_update(replace(facts, system=replace(facts.system, **system)), matrix, "580")
    text = " ".join([remedy.text, *remedy.commands])
    assert words in text and "580" in text and never not in text


def test_driver_flavours(matrix: Matrix) -> None:
    blackwell = driver_update(machine("NVIDIA GeForce RTX 5090", driver="550.54.15", distro="ubuntu"), matrix, "570")
    assert "sudo apt install nvidia-driver-580-open" in blackwell.commands and "open kernel modules" in blackwell.text
    pascal = driver_update(machine("NVIDIA GeForce GTX 1080", driver="470.82.01", distro="ubuntu"), matrix, "525.60.13")
    assert "sudo apt install nvidia-driver-580" in pascal.commands and "proprietary kernel modules" in pascal.text
    assert "dnf" not in " ".join(driver_update(machine("NVIDIA GeForce GTX 1080", distro="fedora"), matrix, "525.60.13").commands)


def test_no_driver_is_promised_that_does_not_exist(matrix: Matrix) -> None:
    remedy = driver_update(machine("Tesla K80", driver="470.82.01", distro="ubuntu"), matrix, "525.60.13")
    assert "No driver >= 525.60.13 exists for Tesla K80" in remedy.text and "470" in remedy.text and not remedy.commands
    newer = driver_update(machine(RTX4090, driver="580.95.05", distro="ubuntu"), matrix, "595.45.04")
    assert "sudo ubuntu-drivers install nvidia:595" in newer.commands


# -- companions --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("facts", "package", "command"),
    [
        (with_torch("2.8.0+cu128"), "torchvision", "python -m pip install torchvision==0.23.0"),
        (with_torch("2.8.0+cu126"), "torchvision", "python -m pip install torchvision==0.23.0 --index-url https://download.pytorch.org/whl/cu126"),
        (
            with_torch("2.8.0+cu126", ("torchvision", "0.19.0")),
            "torchvision",
            "python -m pip install --force-reinstall --no-deps torchvision==0.23.0 --index-url https://download.pytorch.org/whl/cu126",
        ),
        (with_torch("2.8.0+cpu", os="windows"), "torchaudio", "python -m pip install torchaudio==2.8.0"),
        (with_torch("2.8.0+cu128", os="windows"), "torchaudio", "python -m pip install torchaudio==2.8.0 --index-url https://download.pytorch.org/whl/cu128"),
        (with_torch("2.8.0", os="macos", arch="arm64"), "torchvision", "python -m pip install torchvision==0.23.0"),
        (with_torch("2.8.0+cu128"), "triton", "python -m pip install --force-reinstall --no-deps triton==3.4.0"),
        (with_torch("2.8.0+cu128", os="windows"), "triton", 'python -m pip install "triton-windows==3.4.*"'),
        (with_torch("2.5.1", manager="conda"), "torchvision", "conda install torchvision=0.20.1"),
    ],
)
def test_matching_companion(facts: Facts, package: str, command: str, matrix: Matrix) -> None:
    assert matching_companion(facts, matrix, package).commands == (command,)


def test_a_nightly_has_no_pair_in_the_tables(matrix: Matrix) -> None:
    remedy = matching_companion(with_torch("2.16.0.dev20261101+cu132"), matrix, "torchvision")
    assert "No torchvision release is known" in remedy.text and "torch==2.15.0" in remedy.commands[0]
