"""The NVIDIA driver as nvidia-smi and the kernel's own files show it."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

import msgspec

from envcheck import nvidia_smi
from envcheck.facts import Facts, Nvidia, NvidiaGpu, Outcome, ProbeRun, Symptom
from envcheck.lazy import Regex
from envcheck.probes.compilers import which
from envcheck.probes.container import wsl
from envcheck.probes.host import Host
from envcheck.probes.nodes import device_nodes
from envcheck.probes.together import together
from envcheck.process import Completed

# Of these only compute_cap (R510) is younger than the oldest driver that a supported torch runs on.
QUERY = ("index", "pci.bus_id", "name", "driver_version", "memory.total", "memory.used", "compute_mode", "compute_cap")
MAX_TEXT = 1 << 20
PLAIN: tuple[str, ...] = ()
REPORT = ("-q",)
LIST = ("-L",)


def query_argv(fields: Sequence[str] = QUERY) -> tuple[str, ...]:
    """The arguments that ask for these fields."""
    return (f"--query-gpu={','.join(fields)}", "--format=csv")


def locate(host: Host) -> str | None:
    """nvidia-smi: on PATH, else where drivers put it without adding it to PATH."""
    found = which(host, "nvidia-smi")
    if found is not None:
        return found
    if host.platform == "win32":
        system, programs = host.env.get("SystemRoot", r"C:\Windows"), host.env.get("ProgramFiles", r"C:\Program Files")
        places = [f"{system}\\System32\\nvidia-smi.exe", f"{programs}\\NVIDIA Corporation\\NVSMI\\nvidia-smi.exe"]
        return next((item for item in places if os.path.exists(item)), None)
    for name in ("/usr/lib/wsl/lib/nvidia-smi", "/usr/local/nvidia/bin/nvidia-smi", "/opt/bin/nvidia-smi"):
        path = host.path(name)
        if path.exists() and os.access(path, os.X_OK):
            return str(path)
    return None


def probe_smi(host: Host) -> Facts:
    """What nvidia-smi says, in three calls at once: the screen, the report, and the fields that neither of them has."""
    path = locate(host)
    if path is None:
        missing = Outcome(status="missing")
        return Facts(nvidia=Nvidia(smi=missing), probes=(ProbeRun(name="nvidia-smi", outcome=missing),))
    deadline = time.monotonic() + host.timeout
    plain, report, query = together(host, [(path, *PLAIN), (path, *REPORT), (path, *query_argv())], deadline=deadline)
    query = _without_unknown_fields(host, path, query, deadline)
    text = f"{_printed(plain)}\n{plain.stderr}"[:MAX_TEXT]
    error = nvidia_smi.find_error(text)
    screen = nvidia_smi.parse_screen(text) or nvidia_smi.Screen()
    listed = None
    if any(gpu.mig for gpu in screen.gpus or ()):
        listing = host.run([path, *LIST], timeout=max(0.1, deadline - time.monotonic()))
        listed = nvidia_smi.parse_list(listing.stdout)
    details = nvidia_smi.parse_report(_printed(report)) or nvidia_smi.Report()
    rows = nvidia_smi.parse_query(_printed(query)) or []
    gpus = nvidia_smi.merge_gpus(
        [row.gpu for row in rows] or None, details.gpus, screen.gpus, listed, nvidia_smi.lost_gpus(text)
    )
    if gpus is None and error is not None and error.kind == "no-devices":
        gpus = ()
    outcome = smi_outcome(plain, error, understood=bool(gpus or screen.driver_version))
    driver = (
        screen.driver_version
        or details.driver_version
        or next((r.driver_version for r in rows if r.driver_version), None)
    )
    kind = error.kind if error else "other" if outcome.status == "failed" else None
    return Facts(
        nvidia=Nvidia(
            smi=outcome,
            smi_path=path,
            smi_error=kind,
            driver_version=driver or nvidia_smi.library_version(text),
            smi_version=screen.smi_version,
            driver_cuda=screen.driver_cuda or details.driver_cuda,
            gpus=gpus,
        ),
        symptoms=_symptoms(text) if outcome.bad else (),
        probes=(ProbeRun(name="nvidia-smi", outcome=outcome),),
    )


def _printed(done: Completed) -> str:
    """What a call printed, whatever its exit code; of one that was given up or crashed, nothing: it is cut somewhere."""
    return done.stdout[:MAX_TEXT] if done.status in ("ok", "failed") else ""


def _symptoms(text: str) -> tuple[Symptom, ...]:
    from envcheck.symptoms.engine import recognise  # its catalogues cost their time only where something failed

    return recognise(text, source="nvidia-smi")


def _without_unknown_fields(host: Host, path: str, query: Completed, deadline: float) -> Completed:
    """Asks again without the fields that this nvidia-smi does not know: it names one at a time, and answers nothing."""
    fields = list(QUERY)
    for _ in range(len(QUERY)):
        unknown = nvidia_smi.invalid_field(query.stdout + query.stderr)
        if unknown not in fields or time.monotonic() > deadline:
            break
        fields.remove(unknown)
        query = host.run([path, *query_argv(fields)], timeout=max(0.1, deadline - time.monotonic()))
    return query


def smi_outcome(done: Completed, error: nvidia_smi.SmiError | None, *, understood: bool | None = None) -> Outcome:
    """How a call went; its words, not those of a healthy screen, are the error.

    understood: whether the answer could be read; None = not looked at.
    """
    seconds = round(done.seconds, 3)
    if done.status == "timeout":
        return Outcome(status="timeout", seconds=seconds, detail=f"no answer in {done.seconds:.1f} s")
    if done.status == "crashed":
        return Outcome(status="crashed", signal=done.signal, exit_code=done.returncode, seconds=seconds)
    if done.status == "missing":
        # The file is there and was found: a script without its interpreter, or a library loader of another system.
        return Outcome(status="failed", error=done.reason, seconds=seconds)
    if done.status == "ok" and understood is False and error is None:
        return Outcome(
            status="failed", error="what it printed is no screen of nvidia-smi", exit_code=0, seconds=seconds
        )
    if done.status == "ok":
        return Outcome(status="ok", seconds=seconds)
    if done.status == "failed" and understood and error is None:
        # It answered in full and has something to say besides (14: the InfoROM of a board is damaged).
        warning = next((line.strip() for line in done.stdout.splitlines() if line.startswith("WARNING")), None)
        return Outcome(status="ok", exit_code=done.returncode, seconds=seconds, detail=warning)
    words = error.text if error else (done.stderr.strip() or done.stdout.strip() or done.reason or "no word")[:500]
    return Outcome(status="failed", error=words, exit_code=done.returncode, seconds=seconds)


_VERSION = Regex(r"NVRM version:.*?(Open Kernel Module|Kernel Module)(?:\s+for\s+\S+)?\s+(\d+(?:\.\d+)+)")


def parse_kernel_version(text: str) -> tuple[str | None, bool | None]:
    """/proc/driver/nvidia/version: the module's version, and whether it is the open one."""
    match = _VERSION.search(text)
    return (match.group(2), match.group(1) == "Open Kernel Module") if match else (None, None)


def parse_gpu_information(text: str) -> NvidiaGpu | None:
    """One /proc/driver/nvidia/gpus/*/information."""
    cells = (line.partition(":") for line in text.splitlines())
    entries = {name.strip(): value.strip() for name, separator, value in cells if separator}
    model, address = entries.get("Model"), entries.get("Bus Location")
    if not model and not address:
        return None
    return NvidiaGpu(name=model if model and model != "Unknown" else None, bus_id=address)


def parse_modules(text: str) -> frozenset[str]:
    """Names in /proc/modules."""
    return frozenset(line.split(" ", 1)[0] for line in text.splitlines() if line)


def loaded_modules(host: Host) -> frozenset[str] | None:
    """Names of the loaded modules (on a kernel without /proc/modules, of all that /sys knows)."""
    listed = host.text("/proc/modules")
    if listed is not None:
        return parse_modules(listed)
    known = host.glob("/sys/module/*")
    return frozenset(item.rsplit("/", 1)[1] for item in known) if known else None


NODES = ("/dev/nvidia[0-9]*", "/dev/nvidiactl", "/dev/nvidia-uvm*", "/dev/nvidia-caps/*", "/dev/nvidia-modeset")
JETSON_NODES = ("/dev/nvmap", "/dev/nvhost-gpu", "/dev/nvhost-ctrl-gpu", "/dev/nvgpu/*/*")
# Opening these touches no GPU.
OPENS = frozenset({"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/dxg"})


def probe_kernel(host: Host) -> Facts:
    """The kernel module, its version, the GPUs that it knows, and the device files."""
    version, is_open = parse_kernel_version(host.text("/proc/driver/nvidia/version") or "")
    version = version or (host.text("/sys/module/nvidia/version") or "").strip() or None
    modules = loaded_modules(host)
    # Under WSL the driver is that of Windows; there is no module to look for.
    windows = wsl(host) == 2
    jetson = host.exists("/etc/nv_tegra_release") is True
    loaded = None if windows or modules is None else bool(modules & {"nvidia", "nvgpu"}) or version is not None
    # By address, which is nvidia-smi's order too.
    read = (
        parse_gpu_information(host.text(name) or "") for name in host.glob("/proc/driver/nvidia/gpus/*/information")
    )
    gpus = [msgspec.structs.replace(gpu, index=n) for n, gpu in enumerate(item for item in read if item is not None)]
    return Facts(
        nvidia=Nvidia(
            kernel_driver_version=version,
            kernel_module_open=is_open,
            kernel_module_loaded=True if version is not None else loaded,
            nouveau_loaded=None if modules is None else "nouveau" in modules,
            uvm_loaded=None if modules is None or windows or jetson else "nvidia_uvm" in modules,
            device_nodes=device_nodes(host, *NODES, "/dev/dxg", *(JETSON_NODES if jetson else ()), opens=OPENS),
            gpus=tuple(gpus) or None,
        )
    )


def combine_gpus(
    smi: tuple[NvidiaGpu, ...] | None,
    cuda: tuple[NvidiaGpu, ...] | None,
    kernel: tuple[NvidiaGpu, ...] | None,
    *,
    nodes: bool,
) -> tuple[NvidiaGpu, ...] | None:
    """The machine's GPUs from all who can see them.

    nvidia-smi is believed about which there are; without it the driver API, then the kernel module's list, which in a
    container names the host's GPUs as well and so counts only where a device file of one is there. The others fill in
    what the first left open.
    """
    base = smi if smi is not None else cuda or (kernel if nodes else None)
    if not base:
        return base
    result = list(base)
    for other in (cuda, kernel):
        for gpu in other or ():
            place = _same(result, gpu, alone=len(result) == 1 and len(other or ()) == 1)
            if place is not None:
                filled = nvidia_smi.merge_gpus(
                    [result[place]], [msgspec.structs.replace(gpu, index=result[place].index)]
                )
                result[place] = filled[0] if filled else result[place]
    return tuple(result)


def _same(gpus: list[NvidiaGpu], gpu: NvidiaGpu, *, alone: bool) -> int | None:
    address = nvidia_smi.bus_id(gpu.bus_id)
    for place, other in enumerate(gpus):
        theirs = nvidia_smi.bus_id(other.bus_id)
        if address and theirs == address:
            return place
        if alone and (address is None or theirs is None):
            return place  # a Jetson's GPU has no address
    return None
