"""The driver's user-space library: every copy on disk, and what the driver answers when it is asked."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from envcheck.facts import CudaDevice, CudaInit, Facts, LibCuda, Nvidia, Outcome
from envcheck.probes import elf
from envcheck.probes.host import Host
from envcheck.probes.linux import machine
from envcheck.process import Completed

PAYLOAD = Path(__file__).resolve().parent.parent / "payloads" / "probe_cuda.py"
MARK = "@envcheck@ "
SONAME = "libcuda.so.1"
STUB = 34  # CUDA_ERROR_STUB_LIBRARY

# Where copies lie that the loader does not look at by itself.
_PLACES = (
    "/usr/lib/wsl/lib",
    "/usr/local/cuda*/compat",
    "/usr/local/cuda*/lib64/stubs",
    "/usr/local/cuda*/targets/*/lib/stubs",
    "/usr/lib/*-linux-gnu/nvidia",
    "/usr/lib/*-linux-gnu/nvidia/current",
    "/usr/lib/*-linux-gnu/tegra",
    "/usr/lib64-nvidia",
    "/usr/local/nvidia/lib64",
    "/run/opengl-driver/lib",
)


def probe_files(host: Host) -> Facts:
    """Every copy of libcuda: those that the loader finds, in its order, then those in other known places."""
    if host.platform == "win32":
        return Facts(nvidia=Nvidia(libcuda=_windows(host)))
    if host.exists("/lib") is False and host.exists("/usr/lib") is False:
        return Facts()  # nothing of this system's libraries can be seen
    jetson = host.exists("/etc/nv_tegra_release") is True
    paths = elf.find_library(host, machine(host), SONAME)
    seen = {_actual(host, path) for path in paths}
    first = len(paths)
    for place in _PLACES:
        for path in host.glob(f"{place}/{SONAME}"):
            actual = _actual(host, path)
            if actual is not None and actual not in seen:
                seen.add(actual)
                paths.append(path)
    copies = [
        LibCuda(
            path=path,
            version=driver_version(elf.file_version(host, path)),
            kind=kind(path, _actual(host, path), jetson),
            # What the loader does not find is not loaded. Of the others the first is, which on the real machine the
            # driver's own answer says better than any reckoning.
            loaded=False if position >= first else None if host.real else position == 0,
        )
        for position, path in enumerate(paths)
    ]
    return Facts(nvidia=Nvidia(libcuda=tuple(copies)))


def _actual(host: Host, path: str) -> str | None:
    return elf.resolve(host, path) or elf.resolve(host, path, outside=True)


def kind(path: str, actual: str | None, jetson: bool = False) -> str:
    """What a copy is, by the place that it lies in."""
    both = f"{path}\n{actual or ''}"
    if "/stubs/" in both:
        return "stub"
    if re.search(r"/(?:cuda-)?compat(?:-[\d.]+)?/", both):
        return "compat"
    if "/wsl/" in both:
        return "wsl"
    return "jetson" if jetson or "/tegra" in both else "driver"


def _windows(host: Host) -> tuple[LibCuda, ...]:
    path = f"{host.env.get('SystemRoot', 'C:' + chr(92) + 'Windows')}\\System32\\nvcuda.dll"
    return (LibCuda(path=path, kind="windows"),) if os.path.exists(path) else ()


def probe_init(host: Host) -> Facts:
    """The answer of cuInit, from a child process: it can hang, crash, and reads CUDA_VISIBLE_DEVICES only once."""
    if not host.real and not _explicit(host):
        return _facts(
            CudaInit(outcome=Outcome(status="skipped", detail="a recorded tree stands for the machine")), None
        )
    deadline = time.monotonic() + init_limit(host)
    found, path = ask(host, host.env, init_limit(host))
    if "CUDA_VISIBLE_DEVICES" in host.env and (found.code == 100 or found.device_count == 0):
        env = {name: value for name, value in host.env.items() if name != "CUDA_VISIBLE_DEVICES"}
        unmasked, _ = ask(host, env, max(0.1, deadline - time.monotonic()))
        if unmasked.device_count is not None or unmasked.code == 100:
            found = msgspec.structs.replace(found, device_count_unmasked=unmasked.device_count or 0)
    return _facts(found, path)


def init_limit(host: Host) -> float:
    """Seconds for the driver to start: without persistence mode it wakes every GPU first."""
    return 2 * host.timeout


def _explicit(host: Host) -> bool:
    directories = [item for item in host.env.get("LD_LIBRARY_PATH", "").split(":") if item.startswith("/")]
    return any(os.path.exists(f"{item}/{SONAME}") for item in directories)


def _facts(found: CudaInit, path: str | None) -> Facts:
    loaded = None
    if path is not None:
        stub = "stub" if found.code == STUB else None
        loaded = (LibCuda(path=path, version=_version(path), kind=stub or kind(path, None), loaded=True),)
    return Facts(nvidia=Nvidia(cuda_init=found, libcuda=loaded))


def driver_version(version: str | None) -> str | None:
    """A version in a file name when it is a driver's: WSL and Jetson call theirs libcuda.so.1.1 for ever."""
    return version if version and int(version.split(".")[0]) >= 100 else None


def _version(path: str) -> str | None:
    match = re.search(r"\.so\.(\d+(?:\.\d+)+)$", path)
    return driver_version(match.group(1)) if match else None


def ask(host: Host, env: Mapping[str, str], limit: float) -> tuple[CudaInit, str | None]:
    """Runs the payload once: the answer, and the path of the library that was loaded."""
    done = host.run([sys.executable, "-I", "-S", str(PAYLOAD)], timeout=limit, env=env)
    stages = parse_stages(done.stdout)
    return read_init(stages, done), next((s.get("path") for s in stages if s["stage"] == "load"), None)


def parse_stages(text: str) -> list[dict[str, Any]]:
    """The payload's lines; whatever else stands in the output is ignored."""
    stages = []
    for line in text.splitlines():
        if line.startswith(MARK):
            try:
                document = json.loads(line[len(MARK) :])
            except ValueError:
                continue  # cut off by a crash
            if isinstance(document, dict) and "stage" in document:
                stages.append(document)
    return stages


def read_init(stages: list[dict[str, Any]], done: Completed) -> CudaInit:
    """The payload's stages as one answer; what a crash or a time limit left open stays unknown."""
    by_name = {stage["stage"]: stage for stage in stages}
    load, init = by_name.get("load", {}), by_name.get("init", {})
    version, count = by_name.get("version", {}).get("version"), by_name.get("count", {})
    code = init.get("code")
    devices = [stage for stage in stages if stage["stage"] == "device"]
    return CudaInit(
        outcome=_outcome(load, code, init.get("name"), by_name, done),
        code=code,
        name=init.get("name"),
        driver_version=f"{version // 1000}.{version % 1000 // 10}" if version else None,
        device_count=count.get("count"),
        devices=tuple(
            CudaDevice(
                index=item.get("index"),
                name=item.get("name"),
                compute_capability=item.get("capability"),
                bus_id=item.get("bus_id"),
                memory_total=item.get("memory"),
            )
            for item in devices
        )
        if "count" in by_name
        else None,
    )


def _outcome(
    load: dict[str, Any], code: int | None, name: str | None, stages: Mapping[str, object], done: Completed
) -> Outcome:
    seconds = round(done.seconds, 3)
    if "error" in load:
        error = str(load["error"])
        return Outcome(status=_load_status(error), error_type="OSError", error=error, seconds=seconds)
    if done.status == "timeout":
        return Outcome(status="timeout", seconds=seconds, detail=_where(code, stages))
    if done.status == "crashed":
        return Outcome(
            status="crashed",
            signal=done.signal,
            exit_code=done.returncode,
            seconds=seconds,
            detail=_where(code, stages),
        )
    if code is None:
        error = (done.stderr.strip() or done.reason or "no answer")[-500:]
        return Outcome(status="failed", error=error, exit_code=done.returncode, seconds=seconds)
    if code != 0:
        return Outcome(status="failed", error=f"cuInit returned {code} ({name or 'unknown code'})", seconds=seconds)
    return Outcome(status="ok", seconds=seconds)


def _load_status(error: str) -> str:
    """Only the loader's word that it found no libcuda is "missing"; a library that lacks another one is broken."""
    if "no ctypes" in error:
        return "skipped"
    absent = re.search(
        r"libcuda\.so\.1: (?:cannot open shared object file: )?no such file|could not find module|nvcuda\.dll",
        error,
        re.IGNORECASE,
    )
    return "missing" if absent else "failed"


def _where(code: int | None, stages: Mapping[str, object]) -> str:
    if code is None:
        return "in cuInit" if "calling" in stages else "before cuInit"
    return "after cuInit"
