"""cuInit's answer from a child process, against a stub that answers as told."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from envcheck.probes import libcuda
from envcheck.probes.collect import collect_machine
from envcheck.probes.host import Host
from envcheck.process import Completed
from tests.kit import machine_tree, stub_libcuda, tree_host
from tests.kit_python.environments import pyenv_pythons

linux_only = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the stub is a Linux library")


def ask(directory: Path, timeout: float = 10.0, **env: str):
    host = Host(env={"PATH": os.environ["PATH"], "LD_LIBRARY_PATH": str(directory), **env}, timeout=timeout)
    return libcuda.probe_init(host).nvidia


@linux_only
@pytest.mark.parametrize(
    ("code", "name"),
    [(999, "CUDA_ERROR_UNKNOWN"), (802, "CUDA_ERROR_SYSTEM_NOT_READY"), (803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"), (804, "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE"), (100, "CUDA_ERROR_NO_DEVICE"), (34, "CUDA_ERROR_STUB_LIBRARY")],
)
def test_codes_of_cuinit(tmp_path: Path, code: int, name: str) -> None:
    found = ask(stub_libcuda(tmp_path, init=code, version=12020))
    init = found.cuda_init
    assert init is not None
    assert (init.code, init.name, init.driver_version) == (code, name, "12.2")
    assert init.outcome.status == "failed"
    assert init.device_count is None
    assert init.device_count_unmasked is None
    (loaded,) = found.libcuda or ()
    assert loaded.path == str(tmp_path / "libcuda.so.1")
    assert loaded.kind == ("stub" if code == 34 else "driver")


@linux_only
def test_devices(tmp_path: Path) -> None:
    found = ask(stub_libcuda(tmp_path, count=2, name="NVIDIA H100 80GB HBM3", major=9, minor=0, version=13000, driver="580.95.05"))
    init = found.cuda_init
    assert init is not None
    assert init.outcome.ok
    assert (init.code, init.driver_version, init.device_count) == (0, "13.0", 2)
    assert [(d.index, d.name, d.compute_capability, d.bus_id, d.memory_total) for d in init.devices or ()] == [
        (0, "NVIDIA H100 80GB HBM3", "9.0", "0000:01:00.0", 24 << 30),
        (1, "NVIDIA H100 80GB HBM3", "9.0", "0000:02:00.0", 24 << 30),
    ]
    assert [(c.version, c.loaded) for c in found.libcuda or ()] == [("580.95.05", True)]


@linux_only
@pytest.mark.parametrize(
    ("mask", "count", "unmasked"),
    [("", None, 2), ("-1", None, 2), ("5", None, 2), ("1", 1, None), ("0,1", 2, None), ("GPU-none", None, 2)],
    ids=["empty", "minus-one", "not-there", "one", "both", "uuid"],
)
def test_what_cuda_visible_devices_hides(tmp_path: Path, mask: str, count: int | None, unmasked: int | None) -> None:
    init = ask(stub_libcuda(tmp_path, count=2), CUDA_VISIBLE_DEVICES=mask).cuda_init
    assert init is not None
    assert (init.device_count, init.device_count_unmasked) == (count, unmasked)
    assert init.code == (0 if count else 100)


@linux_only
def test_no_device_with_and_without_the_mask(tmp_path: Path) -> None:
    """The mask is not to blame where there is no device without it either."""
    init = ask(stub_libcuda(tmp_path, init=100), CUDA_VISIBLE_DEVICES="0").cuda_init
    assert init is not None
    assert (init.code, init.device_count_unmasked) == (100, 0)


@linux_only
def test_a_hang_in_the_driver(tmp_path: Path) -> None:
    begun = time.monotonic()
    init = ask(stub_libcuda(tmp_path, hang=3600), timeout=0.8).cuda_init
    assert time.monotonic() - begun < 6.0
    assert init is not None
    assert (init.outcome.status, init.outcome.detail, init.code) == ("timeout", "in cuInit", None)


@linux_only
def test_a_crash_in_the_driver(tmp_path: Path) -> None:
    init = ask(stub_libcuda(tmp_path, crash=int(signal.SIGSEGV))).cuda_init
    assert init is not None
    assert (init.outcome.status, init.outcome.signal, init.outcome.detail) == ("crashed", "SIGSEGV", "in cuInit")


@linux_only
def test_no_library_and_a_broken_one(tmp_path: Path) -> None:
    (tmp_path / "libcuda.so.1").write_bytes(b"not a library")
    init = ask(tmp_path).cuda_init
    assert init is not None
    assert init.outcome.status == "failed"
    assert "libcuda.so.1" in (init.outcome.error or "")


def test_answers_of_a_child_that_said_nothing() -> None:
    done = Completed(("python",), "failed", returncode=1, stderr="No module named site")
    init = libcuda.read_init([], done)
    assert (init.outcome.status, init.outcome.error) == ("failed", "No module named site")


@pytest.mark.parametrize(
    ("error", "status"),
    [
        ("libcuda.so.1: cannot open shared object file: No such file or directory", "missing"),
        ("Error loading shared library libcuda.so.1: No such file or directory", "missing"),
        ("Could not find module 'nvcuda.dll' (or one of its dependencies)", "missing"),
        ("libnvidia-gpucomp.so.550.54: cannot open shared object file: No such file or directory", "failed"),
        ("/usr/lib/libcuda.so.1: wrong ELF class: ELFCLASS32", "failed"),
        ("libcuda.so.1: cannot open shared object file: Permission denied", "failed"),
        ("this Python has no ctypes: No module named _ctypes", "skipped"),
    ],
)
def test_why_the_library_could_not_be_loaded(error: str, status: str) -> None:
    init = libcuda.read_init([{"stage": "load", "error": error}], Completed(("python",), "ok"))
    assert (init.outcome.status, init.outcome.error) == (status, error)


def test_stages_amid_noise() -> None:
    text = 'noise\n@envcheck@ {"stage": "load", "path": "/a"}\nwarning: x\n@envcheck@ {"stage": "init", "code": 0}\n@envcheck@ {"stage": "ver'
    assert [item["stage"] for item in libcuda.parse_stages(text)] == ["load", "init"]
    assert libcuda.parse_stages("@envcheck@ [1]\n@envcheck@ 5\n") == []


@linux_only
@pytest.mark.parametrize("python", [*pyenv_pythons(), Path(sys.executable)], ids=lambda p: p.parent.parent.name)
def test_the_payload_runs_on_every_python(tmp_path: Path, python: Path) -> None:
    version = subprocess.run([python, "-c", "import sys; print(sys.version_info[:2] >= (3, 6))"], capture_output=True, text=True, check=True)
    if version.stdout.strip() != "True":
        pytest.skip("older than any Python that a supported torch runs on")
    env = {"LD_LIBRARY_PATH": str(stub_libcuda(tmp_path, count=1)), "PATH": "/usr/bin:/bin"}
    done = subprocess.run([python, "-I", "-S", libcuda.PAYLOAD], capture_output=True, text=True, env=env, timeout=30, check=False)
    assert done.returncode == 0, done.stderr
    stages = [json.loads(line.removeprefix("@envcheck@ ")) for line in done.stdout.splitlines()]
    assert [stage["stage"] for stage in stages] == ["load", "calling", "init", "version", "count", "device", "end"]
    assert stages[5]["capability"] == "8.9"


@linux_only
def test_a_stub_beside_a_recorded_tree_completes_its_cards(tmp_path: Path) -> None:
    """Without nvidia-smi the driver API tells what the kernel's files do not: the capability."""
    root = machine_tree(tmp_path, "rtx4090")
    host = tree_host(root, programs=True, LD_LIBRARY_PATH=str(stub_libcuda(tmp_path / "stub", driver="550.127.08")))
    facts = collect_machine(host)
    (gpu,) = facts.nvidia.gpus or ()
    assert (gpu.name, gpu.compute_capability) == ("NVIDIA GeForce RTX 4090", "8.9")
    loaded = [item for item in facts.nvidia.libcuda or () if item.loaded]
    assert [item.path for item in loaded] == [str(tmp_path / "stub/libcuda.so.1")]
    assert len(facts.nvidia.libcuda or ()) == 2


@linux_only
@pytest.mark.torch
@pytest.mark.parametrize(
    ("settings", "words"),
    [({"init": 999}, "unknown error"), ({"init": 804}, "forward compatibility"), ({"version": 11040}, "driver on your system is too old")],
    ids=["999", "804", "old-driver"],
)
def test_real_torch_says_its_own_words(python_with_torch: str, tmp_path: Path, settings: dict[str, int], words: str) -> None:
    script = "import torch\nassert torch.version.cuda, 'a CPU build'\ntry:\n    torch.cuda.init()\nexcept Exception as e:\n    print(e)\n"
    env = {**os.environ, "LD_LIBRARY_PATH": str(stub_libcuda(tmp_path, **settings))}
    done = subprocess.run([python_with_torch, "-c", script], capture_output=True, text=True, env=env, timeout=120, check=False)
    if "a CPU build" in done.stderr:
        pytest.skip("this torch is built without CUDA")
    assert words in done.stdout.lower(), done
