"""The machine as `recommend` needs it: the driver and the GPUs by one call of nvidia-smi, the rest from files."""

from __future__ import annotations

from envcheck import nvidia_smi
from envcheck.facts import Facts, Nvidia, NvidiaGpu, Outcome, ProbeRun
from envcheck.probes import amd, apple, container, environment, intel, nvidia, pci, system
from envcheck.probes.collect import Probe, collect_machine
from envcheck.probes.host import Host
from envcheck.process import Completed

FIELDS = ("index", "pci.bus_id", "name", "driver_version")
CAPABILITY_FROM = 510
"""The driver branch from which nvidia-smi knows the field compute_cap."""


def collect_light(host: Host | None = None) -> Facts:
    """What decides which build of torch is right, and nothing else. Never raises and never hangs."""
    return collect_machine(host, probes=PROBES)


def probe_smi_once(host: Host) -> Facts:
    """Driver, names and capabilities in one call.

    A driver before R510 refuses the whole question for one field that it does not know. On Linux the kernel module
    tells its version beforehand; on Windows and under WSL such a driver is asked a second time.
    """
    path = nvidia.locate(host)
    if path is None:
        missing = Outcome(status="missing")
        return Facts(nvidia=Nvidia(smi=missing), probes=(ProbeRun(name="nvidia-smi", outcome=missing),))
    version, _ = nvidia.parse_kernel_version(host.text("/proc/driver/nvidia/version") or "")
    old = version is not None and int(version.partition(".")[0]) < CAPABILITY_FROM
    fields = FIELDS if old else (*FIELDS, "compute_cap")
    done = host.run([path, *nvidia.query_argv(fields)], timeout=host.timeout)
    if nvidia_smi.invalid_field(done.stdout + done.stderr) == "compute_cap":
        done = host.run([path, *nvidia.query_argv(FIELDS)], timeout=host.timeout)
    return _answer(path, done)


def _answer(path: str, done: Completed) -> Facts:
    text = f"{done.stdout}\n{done.stderr}"
    error = nvidia_smi.find_error(text)
    outcome = nvidia.smi_outcome(done, error)
    rows = nvidia_smi.parse_query(done.stdout) or []
    gpus: tuple[NvidiaGpu, ...] | None = tuple(row.gpu for row in rows) or None
    driver = next((row.driver_version for row in rows if row.driver_version), None)
    cuda = None
    if gpus is None:  # a wrapper that prints the plain screen whatever it is asked
        screen = nvidia_smi.parse_screen(done.stdout) or nvidia_smi.Screen()
        gpus, driver, cuda = screen.gpus, screen.driver_version, screen.driver_cuda
    if gpus is None and error is not None and error.kind == "no-devices":
        gpus = ()
    return Facts(
        nvidia=Nvidia(
            smi=outcome,
            smi_path=path,
            smi_error=error.kind if error else "other" if outcome.status == "failed" else None,
            driver_version=driver or nvidia_smi.library_version(text),
            driver_cuda=cuda,
            gpus=gpus,
        ),
        probes=(ProbeRun(name="nvidia-smi", outcome=outcome),),
    )


PROBES: tuple[Probe, ...] = (
    Probe(
        "nvidia-smi",
        probe_smi_once,
        ("linux", "win32"),
        programs=2,
        lost=lambda outcome: Facts(nvidia=Nvidia(smi=outcome)),
    ),
    Probe("apple", apple.probe, ("darwin",), programs=4),
    Probe("pci", pci.probe, ("linux", "win32")),
    Probe("system", system.probe, programs=2),
    Probe("container", container.probe),
    Probe("nvidia-kernel", nvidia.probe_kernel, ("linux",)),
    Probe("amd", amd.probe, ("linux", "win32")),
    Probe("intel", intel.probe, ("linux",)),
    Probe("environment", environment.probe),
)
