"""GPUs that are there and cannot be used, whatever is installed in Python: said first, never passed over for the CPU."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.facts import Facts
from envcheck.matrix import Matrix
from envcheck.matrix.versions import at_least
from envcheck.recommend.machine import LTS_BRANCH, Machine, Trouble, driver_range
from envcheck.recommend.trouble_others import other_makers

_LOG = "sudo dmesg | grep -iE 'nvrm|xid|nvidia' | tail -n 30"
# Answers of cuInit that mean: the driver is there and refuses. 100 (no device) is judged by what nvidia-smi says.
_INIT = {
    802: (
        "fabric-not-ready",
        "the driver says 'system not yet initialized': on a machine with NVSwitch the fabric manager is not running",
        "Install and start the fabric manager of exactly the driver's version.",
        ("sudo systemctl enable --now nvidia-fabricmanager",),
    ),
    803: (
        "library-mismatch",
        "the CUDA driver library and the kernel driver do not belong together (error 803)",
        "Reboot if the driver was just updated; else see that only the driver's own libcuda.so.1 is found.",
        ("ldconfig -p | grep libcuda.so",),
    ),
    804: (
        "compat-library",
        "a CUDA compatibility library (cuda-compat) is loaded on a GPU that it does not serve (error 804)",
        "Take the compat directory out of LD_LIBRARY_PATH; the driver's own library then serves.",
        ("echo $LD_LIBRARY_PATH",),
    ),
    999: (
        "driver-broken",
        "the CUDA driver does not start ('unknown error', 999): after suspend or a driver crash, or nvidia_uvm is missing",
        "Load nvidia_uvm anew, or reboot.",
        ("sudo modprobe -r nvidia_uvm && sudo modprobe nvidia_uvm",),
    ),
}


def find(facts: Facts, machine: Machine, matrix: Matrix) -> Iterator[Trouble]:
    """Every reason for which the GPUs of this machine cannot be used now, the root first for each kind of GPU."""
    yield from _of_nvidia(facts, machine, matrix)
    yield from other_makers(facts, machine)


def _of_nvidia(facts: Facts, machine: Machine, matrix: Matrix) -> Iterator[Trouble]:
    if machine.cards == () or machine.os == "macos":
        return
    if machine.wsl:
        yield from _of_wsl(facts, machine, matrix)
    if machine.jetson and not facts.nvidia.gpus:
        return  # before JetPack 7 nvidia-smi is absent or knows little: it proves nothing there
    found = _of_smi(facts, machine) or _of_absence(facts, machine) or _of_init(facts)
    if found is not None:
        yield found
    if not (facts.nvidia.smi is not None and facts.nvidia.smi.ok and facts.nvidia.gpus):
        # A driver that lists the cards drives them: then the table of branches has nothing to say.
        yield from _of_branch(machine, matrix)


def _names(machine: Machine) -> str:
    names = sorted({card.name for card in machine.cards or ()})
    return " and ".join(names) if names else "the NVIDIA GPU"


def _of_smi(facts: Facts, machine: Machine) -> Trouble | None:
    nvidia, who = facts.nvidia, _names(machine)
    if nvidia.smi is not None and nvidia.smi.status == "timeout":
        return Trouble(
            "driver-hangs",
            f"nvidia-smi does not answer: the driver of {who} hangs"
            + (f" (kernel module {machine.driver})." if machine.driver else "; its version is not known."),
            "See the kernel log for the reason (Xid, NVRM lines), then reboot; programs that use the GPU would hang too.",
            (_LOG, "sudo reboot"),
            machine.driver,
        )
    make = {
        "library-mismatch": _mismatch,
        "no-driver": _not_running,
        "nvml-unknown": _nvml_unknown,
        "gpu-lost": _lost,
        "no-devices": _no_devices,
        "wsl-blocked": _wsl,
        "nvml-missing": _not_running,
        "insufficient-permissions": _not_allowed,
    }.get(nvidia.smi_error or "")
    if make is None and machine.cards and not nvidia.gpus and nvidia.smi is not None and nvidia.smi.bad:
        make = _failing
    return make(facts, machine) if make else None


def _mismatch(facts: Facts, machine: Machine) -> Trouble:
    kernel, library = facts.nvidia.kernel_driver_version, facts.nvidia.driver_version
    versions = f" (module {kernel}, libraries {library})" if kernel and library and kernel != library else ""
    return Trouble(
        "library-mismatch",
        f"The loaded NVIDIA kernel module and the driver's libraries are of two versions{versions}: {_names(machine)} cannot "
        "be used until they agree.",
        "Restart the container (the host's driver was updated under it)."
        if machine.container
        else "Reboot: an update has replaced the libraries and the old module is still loaded.",
        () if machine.container else ("sudo reboot",),
        library or kernel,
        after="after the reboot" if not machine.container else "after the restart",
    )


def _not_running(facts: Facts, machine: Machine) -> Trouble:
    who = _names(machine)
    if machine.container:
        return _outside(machine)
    if machine.wsl:
        return _wsl(facts, machine)
    hints = []
    if facts.nvidia.nouveau_loaded:
        hints.append("nouveau holds the card: blacklist it")
    if facts.system.secure_boot:
        hints.append("Secure Boot is on: the module must be signed and its key enrolled")
    why = f" ({'; '.join(hints)})" if hints else ""
    return Trouble(
        "driver-not-running",
        f"{who} is there and the NVIDIA driver is not running: no CUDA build can use it.",
        f"Make nvidia-smi work first: rebuild or reinstall the driver for the running kernel, then reboot{why}.",
        ("sudo modprobe nvidia", _LOG) if machine.os != "windows" else ("nvidia-smi",),
        machine.driver,
    )


def _outside(machine: Machine) -> Trouble:
    return Trouble(
        "gpu-not-passed",
        f"{_names(machine)} is not passed into this container.",
        "Start the container with the GPU: nvidia-container-toolkit on the host, and the option below.",
        ("docker run --gpus all ...",),
        machine.driver,
        after="once the container has the GPU",
    )


def _nvml_unknown(facts: Facts, machine: Machine) -> Trouble:
    if machine.container:
        commands: tuple[str, ...] = ()
        way = "Restart the container: it lost its access to the GPU devices (a daemon-reload does that)."
    else:
        way, commands = "See the kernel log, then reboot.", (_LOG, "sudo reboot")
    return Trouble(
        "driver-not-running",
        f"nvidia-smi cannot talk to the driver ('Unknown Error'): {_names(machine)} cannot be used.",
        way,
        commands,
        machine.driver,
    )


def _not_allowed(facts: Facts, machine: Machine) -> Trouble:
    return Trouble(
        "no-permission",
        f"This user may not use the NVIDIA driver ('Insufficient Permissions'): {_names(machine)} is out of reach.",
        "See who may open /dev/nvidia*: a group is missing, or the container was started without the devices.",
        ("ls -l /dev/nvidia*",),
        machine.driver,
        after="once the devices can be opened",
    )


def _failing(facts: Facts, machine: Machine) -> Trouble:
    smi = facts.nvidia.smi
    words = (smi.error or smi.signal or smi.detail or smi.status if smi else "").strip().splitlines()
    said = f" ({words[0][:120].rstrip('.')})" if words else ""
    return Trouble(
        "driver-not-running",
        f"nvidia-smi fails{said}: {_names(machine)} cannot be used.",
        "Make nvidia-smi work first: the kernel log says what the driver ran into.",
        (_LOG,),
        machine.driver,
    )


def _lost(facts: Facts, machine: Machine) -> Trouble:
    return Trouble(
        "gpu-lost",
        f"A GPU fell off the bus ('GPU is lost'): {_names(machine)} cannot be used.",
        "Power the machine off and on; if it comes back, look at power supply, cooling and the slot.",
        (_LOG,),
        machine.driver,
    )


def _no_devices(facts: Facts, machine: Machine) -> Trouble | None:
    if not machine.cards:
        return None
    return Trouble(
        "driver-not-running",
        f"The driver runs and finds no device although {_names(machine)} is there.",
        "Either this driver does not drive the card (its branch, or open against proprietary kernel modules), or the card "
        "failed to start: the kernel log says which.",
        (_LOG,),
        machine.driver,
    )


def _wsl(facts: Facts, machine: Machine) -> Trouble:
    return Trouble(
        "driver-not-running",
        f"WSL does not reach {_names(machine)}: the NVIDIA driver of Windows is missing, too old or blocked.",
        "Install the current NVIDIA driver on Windows (the host), then restart WSL; no driver inside WSL.",
        ("wsl --shutdown",),
        machine.driver,
    )


def _of_wsl(facts: Facts, machine: Machine, matrix: Matrix) -> Iterator[Trouble]:
    if facts.system.wsl == 1:
        yield Trouble(
            "wsl1",
            "This is WSL 1, which has no GPU at all.",
            "Convert the distribution to WSL 2 (in Windows): wsl --set-version NAME 2.",
            ("wsl --list --verbose",),
            after="under WSL 2",
        )
    least = matrix.platform_fact("wsl-min-capability").value
    for card in machine.cards or ():
        if card.capability and not at_least(card.capability, least):
            yield Trouble(
                "wsl-gpu-too-old",
                f"WSL 2 serves GPUs from compute capability {least} on, not {card}.",
                "Use torch on Windows itself, or Linux without WSL.",
            )


def _of_absence(facts: Facts, machine: Machine) -> Trouble | None:
    """No nvidia-smi at all, and a card on the bus."""
    nvidia = facts.nvidia
    if nvidia.smi is None or nvidia.smi.status != "missing" or not machine.cards:
        return None
    if nvidia.cuda_init is not None and nvidia.cuda_init.outcome.ok:
        return None  # the driver works; only the program is absent
    nodes = nvidia.device_nodes
    if machine.container:
        return _outside(machine) if not nodes else None
    if nvidia.kernel_module_loaded and nodes:
        return None
    return Trouble(
        "driver-not-installed",
        f"{_names(machine)} is there and no NVIDIA driver is installed or running: no CUDA build can use it.",
        "Install the driver, reboot, and see that nvidia-smi lists the card.",
        (),
        machine.driver,
    )


def _of_init(facts: Facts) -> Trouble | None:
    code = facts.nvidia.cuda_init.code if facts.nvidia.cuda_init else None
    row = _INIT.get(code or 0)
    if row is None:
        return None
    kind, text, way_out, commands = row
    driver = facts.nvidia.driver_version or facts.nvidia.kernel_driver_version
    return Trouble(kind, text[:1].upper() + text[1:] + ".", way_out, commands, driver)


def _of_branch(machine: Machine, matrix: Matrix) -> Iterator[Trouble]:
    cards = machine.cards or ()
    low, high = driver_range(cards, matrix)
    if low and high and low > high:
        yield Trouble(
            "no-common-driver",
            f"No NVIDIA driver drives {_names(machine)} together: one needs branch {low} or newer, another is served only "
            f"up to branch {high}.",
            "Use the cards in separate machines, or in virtual machines with a driver each.",
        )
        return
    branch = matrix.driver_branch(machine.driver, machine.driver_os) if machine.driver else None
    if branch is None:
        return
    if high and branch > high:
        old = sorted({card.name for card in cards if driver_range((card,), matrix)[1] == high})
        yield Trouble(
            "driver-too-new",
            f"Driver {machine.driver} no longer drives {' and '.join(old)}: branch {high} is the last that does.",
            f"Go back to a driver of branch {high} (it gets fixes for years yet) and hold it there.",
            (),
            str(high),
            after=f"with a driver of branch {high}",
        )
    if low and branch < low:
        new = sorted({card.name for card in cards if driver_range((card,), matrix)[0] == low})
        target = max(low, LTS_BRANCH) if not high or high >= LTS_BRANCH else low
        yield Trouble(
            "driver-too-old-for-gpu",
            f"Driver {machine.driver} does not know {' and '.join(new)} yet: it takes branch {low} or newer.",
            f"Install a driver of branch {low} or newer.",
            (),
            str(target),
            after=f"with a driver of branch {target}",
        )
