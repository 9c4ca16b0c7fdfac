"""Whether the NVIDIA driver runs at all: the kernel module, its build, the start of the GPU, nvidia-smi itself."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.facts import Facts, Symptom
from envcheck.findings import Finding, Remedy
from envcheck.matrix import Matrix
from envcheck.rules import derive, driver_signs, remedies
from envcheck.rules.base import Rule, Unknown, rule
from envcheck.rules.driver_signs import at, detail, only_past, quoted, sign, signs

_CUDA_STARTS = ("driver-too-old", "cuda-unknown-error", "container-no-gpu", "container-device-missing", "smoke-failed")
_ANY_DRIVER = "580"
"""A driver number to name where only "some driver" is wanted: the long-lived branch."""


@rule(
    "nvidia-driver-not-loaded",
    "driver",
    "There is no running NVIDIA driver.",
    explains=(*_CUDA_STARTS, "cuda-visible-devices", "container-toolkit-missing", "driver-cannot-init-gpu"),
)
def nvidia_driver_not_loaded(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """The kernel has an NVIDIA GPU and no NVIDIA module, or nvidia-smi, docker or torch say so."""
    if (
        driver_signs.other_gpu_only(facts)
        or derive.is_jetson(facts)
        or facts.system.wsl
        or driver_signs.cuda_works(facts)
    ):
        return
    cli = sign(facts, "container-cli-no-driver")
    if cli is not None and driver_signs.engine_without_driver(facts) is not None:
        return  # the driver is there; the container engine does not get at it
    if cli is not None:
        yield _host_has_none(rule, facts, matrix, cli)
        return
    so = _facts_say_so(facts)
    text = _said(facts, "module-key-rejected", "nouveau-in-use", "module-not-found", "module-no-device", past=so)
    text = text or _said(facts, "smi-no-driver", "nvml-driver-not-loaded", "container-host-no-driver", past=so)
    if text is None and not so:
        yield from _torch_says_so(rule, facts, matrix)
        return
    yield _not_loaded(rule, facts, matrix, text)


def _said(facts: Facts, *kinds: str, past: bool) -> Symptom | None:
    """The first such text; a line of a live machine's log tells of its start, and gives the reason where `past` is true."""
    return next((s for s in signs(facts, *kinds) if past or not only_past(facts, s)), None)


def _facts_say_so(facts: Facts) -> bool:
    nvidia = facts.nvidia
    if nvidia.smi_error == "no-driver":
        return True
    if nvidia.kernel_driver_version or nvidia.kernel_module_loaded or (nvidia.smi is not None and nvidia.smi.ok):
        return False
    return nvidia.kernel_module_loaded is False and driver_signs.nvidia_on_bus(facts)


def _not_loaded(rule: Rule, facts: Facts, matrix: Matrix, text: Symptom | None) -> Finding:
    cause, remedy = _reason(facts, matrix, text)
    names = ", ".join(sorted({p.name for p in facts.pci or () if p.vendor_id == derive.NVIDIA_VENDOR and p.name}))
    smi = facts.nvidia.smi.error if facts.nvidia.smi and facts.nvidia.smi.error and text is None else None
    where = " (this is a container: the driver belongs to its host)" if driver_signs.in_container(facts) else ""
    return rule.finding(
        "error",
        seen=quoted(
            text,
            f'nvidia-smi: "{driver_signs.shorten(smi)}"' if smi else None,
            f"on the PCI bus: {names}" if names else None,
            cause,
        ),
        why=f"Without the kernel module no program can use the GPU, whatever torch is installed{where}.",
        remedy=remedy,
        line=at(text) or driver_signs.line_of(facts, "nvidia.smi_error", "nvidia.kernel_module_loaded"),
    )


def _reason(facts: Facts, matrix: Matrix, text: Symptom | None) -> tuple[str, Remedy]:
    """Why the module is not loaded, as far as the report shows, and the way out of just that."""
    kind = text.kind if text is not None else ""
    bound = {p.driver for p in facts.pci or () if p.vendor_id == derive.NVIDIA_VENDOR}
    if (
        kind == "nouveau-in-use"
        or "nouveau" in bound
        or (facts.nvidia.nouveau_loaded and not facts.nvidia.kernel_module_loaded)
    ):
        return "the nouveau driver holds the GPU", _drop_nouveau(facts)
    if kind == "module-key-rejected" or (facts.system.secure_boot and facts.nvidia.driver_packages):
        return "Secure Boot refuses the unsigned module", _sign_module(facts)
    if "vfio-pci" in bound:
        return "the GPU is bound to vfio-pci, which reserves it for a virtual machine", Remedy(
            text=(
                "Use it in that virtual machine, or release it from vfio-pci (driver override or kernel command "
                "line) and load the NVIDIA module."
            ),
            commands=("lspci -nnk -d 10de:",),
        )
    if kind == "module-no-device":
        return "the module finds no NVIDIA GPU that it may take", _no_card()
    if facts.nvidia.driver_packages or kind == "module-not-found":
        return "the driver is installed, its module is not there for the running kernel", _rebuild(facts)
    if facts.system.os == "windows":
        return "", remedies.driver_update(facts, matrix, _minimum(facts, matrix))
    update = remedies.driver_update(facts, matrix, _minimum(facts, matrix))
    first = (
        "See why the module is not loaded: it may be missing for a new kernel, held off by nouveau or refused by "
        "Secure Boot."
    )
    checks = (
        "lsmod | grep -e nvidia -e nouveau",
        "dkms status",
        "sudo modprobe nvidia",
        "sudo dmesg | grep -i nvrm | tail",
    )
    host = driver_signs.on_host(facts)
    return "", Remedy(
        text=f"{first} {'All of this ' + host.strip() + '. ' if host else ''}If no driver is installed: {update.text}",
        commands=checks if not host else (*checks, "nvidia-smi"),
    )


def _no_card() -> Remedy:
    return Remedy(
        text="See whether the PCI bus shows the card and who has it. Another kernel driver (nouveau, vfio-pci) has to let go "
        "of it; a card that this driver branch has dropped, or that needs the open modules, is named in the kernel log; a "
        "virtual machine has to be given the card. A card that the bus does not show is not seated, has no power, or is "
        "switched off.",
        commands=("lspci -nnk -d 10de:", "sudo dmesg | grep -i nvrm | tail", "lsmod | grep -e nvidia -e nouveau"),
    )


def _minimum(facts: Facts, matrix: Matrix) -> str:
    cuda = derive.torch_cuda(facts, matrix)
    floor = matrix.driver_floor(cuda.value, derive.os_for_driver(facts) or "linux") if cuda and cuda.value else None
    return floor or _ANY_DRIVER


def _drop_nouveau(facts: Facts) -> Remedy:
    image = "sudo update-initramfs -u" if driver_signs.debian_like(facts) else "sudo dracut --force"
    return Remedy(
        text="Install the NVIDIA driver from the distribution's packages (they switch nouveau off); where it is "
        "installed already, keep nouveau from loading, rebuild the boot image and reboot.",
        commands=(
            (
                "printf 'blacklist nouveau\\noptions nouveau modeset=0\\n' | sudo tee "
                "/etc/modprobe.d/blacklist-nouveau.conf"
            ),
            image,
            "sudo reboot",
        ),
    )


def _sign_module(facts: Facts) -> Remedy:
    ubuntu = (facts.system.distro or "") in ("ubuntu", "linuxmint", "pop", "")
    key = "/var/lib/shim-signed/mok/MOK.der" if ubuntu else "/var/lib/dkms/mok.pub"
    return Remedy(
        text="Enrol the key that signs the module (choose a password, then confirm it in the blue screen of the "
        "next boot), or use the distribution's signed module packages, or switch Secure Boot off in the firmware.",
        commands=("mokutil --sb-state", f"sudo mokutil --import {key}", "sudo reboot"),
    )


def _rebuild(facts: Facts) -> Remedy:
    headers = (
        "sudo apt install linux-headers-$(uname -r)"
        if driver_signs.debian_like(facts)
        else "sudo dnf install kernel-devel-$(uname -r)"
    )
    return Remedy(
        text="Most often the kernel was updated and the module was not built for it: install the headers of the "
        "running kernel, let DKMS build the module, load it.",
        commands=("uname -r", "dkms status", headers, "sudo dkms autoinstall", "sudo modprobe nvidia", "nvidia-smi"),
    )


def _host_has_none(rule: Rule, facts: Facts, matrix: Matrix, text: Symptom) -> Finding:
    missing = "libnvidia-ml" in text.text.lower() or "could not load nvml" in text.text.lower()
    rpc = "driver rpc error" in text.text.lower()
    update = remedies.driver_update(facts, matrix, _minimum(facts, matrix))
    return rule.finding(
        "error",
        title="The container's host has no running NVIDIA driver.",
        seen=quoted(text),
        why="The container toolkit passes the host's driver into the container, and there is none to pass"
        + (": not even its library libnvidia-ml.so.1 is installed on the host." if missing else "."),
        remedy=Remedy(
            text="Nothing in the image can mend this. On the host, nvidia-smi has to work first: install or load "
            "the NVIDIA driver there (on Windows with Docker Desktop: the Windows driver), then start the container "
            f"again. {_plain(update, facts)}",
            commands=("nvidia-smi", "sudo modprobe nvidia") if facts.system.os != "windows" else ("nvidia-smi",),
        ),
        confidence="likely" if rpc else "certain",
        otherwise="If nvidia-smi works on the host, start nvidia-persistenced there and try again." if rpc else "",
        line=at(text),
    )


def _plain(update: Remedy, facts: Facts) -> str:
    return update.text if facts.system.container in (None, "none") else ""


def _torch_says_so(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Torch alone says it; a container or a driver that is seen to run points elsewhere."""
    text = sign(facts, "no-nvidia-driver", "driver-library-missing") or _no_program(facts, matrix)
    if text is None or driver_signs.in_container(facts) or derive.driver_version(facts) or facts.nvidia.driver_cuda:
        if text is None and driver_signs.nvidia_on_bus(facts) and facts.nvidia.smi_error is None:
            _settle(facts)
        return
    update = remedies.driver_update(facts, matrix, _minimum(facts, matrix))
    yield rule.finding(
        "error",
        seen=quoted(text),
        why="torch is a CUDA build and finds no NVIDIA driver, so it can compute on the CPU only."
        if text.kind == "no-nvidia-driver"
        else "The libraries and programs of the NVIDIA driver (libcuda.so.1, libnvidia-ml.so.1, nvidia-smi) come with it, and "
        "they are not there: no driver is installed, or it was not passed in.",
        remedy=Remedy(
            text=f"See whether nvidia-smi works on this machine. With an NVIDIA GPU and no driver: {update.text}",
            commands=("nvidia-smi", *update.commands),
        ),
        confidence="likely",
        otherwise="In a container: it was started without the GPU (docker run --gpus all). Without an NVIDIA GPU: "
        "choose the CPU device in the program.",
        line=at(text),
    )


def _no_program(facts: Facts, matrix: Matrix) -> Symptom | None:
    """No nvidia-smi beside a CUDA build that sees no GPU: the driver brings that program."""
    wanted = facts.origin == "captured" and driver_signs.torch_works(facts) is False
    return sign(facts, "smi-missing") if wanted and driver_signs.wants_cuda(facts, matrix) else None


def _settle(facts: Facts) -> None:
    nvidia = facts.nvidia
    if nvidia.kernel_module_loaded is None and nvidia.smi is None and driver_signs.cuda_works(facts) is None:
        raise Unknown("nobody asked whether the NVIDIA kernel module is loaded", "run nvidia-smi", essential=True)


@rule(
    "driver-kernel-incompatible",
    "driver",
    "The NVIDIA kernel module does not build or load for this Linux kernel.",
    explains=("nvidia-driver-not-loaded", "nvml-driver-library-mismatch", *_CUDA_STARTS),
)
def driver_kernel_incompatible(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """DKMS, the compiler, modpost or the kernel itself refuse the module."""
    text = sign(facts, "driver-build-failed", "module-version-mismatch")
    if text is None or driver_signs.cuda_works(facts):
        return
    kernel = detail(text, "kernel", "kernel2") or facts.system.kernel
    driver = detail(text, "driver", "driver2") or derive.driver_version(facts)
    loads = text.kind == "module-version-mismatch"
    yield rule.finding(
        "error",
        seen=quoted(text, f"kernel {kernel}" if kernel else None, f"driver {driver}" if driver else None),
        why="The module that is on disk was made for another kernel."
        if loads
        else "This driver release does not know this kernel's interfaces (or headers and compiler do not fit), so "
        "after the kernel update there is no module to load.",
        remedy=Remedy(
            text="Rebuild the module for the running kernel."
            if loads
            else "Install a newer release of the driver branch (it follows new kernels), or boot the previous "
            "kernel until there is one; make sure that the headers of the running kernel and its compiler are "
            "installed.",
            commands=("uname -r", "dkms status", "sudo dkms autoinstall", "sudo modprobe nvidia"),
        ),
        confidence="certain" if loads else "likely",
        otherwise=""
        if loads
        else (
            "The log that the message names (make.log) has the first error: missing headers or another gcc than the "
            "kernel's are as common."
        ),
        line=at(text),
    )


@rule(
    "driver-cannot-init-gpu",
    "driver",
    "The NVIDIA driver sees the GPU and cannot start it.",
    explains=("nvidia-driver-not-loaded", *_CUDA_STARTS, "cuda-visible-devices"),
)
def driver_cannot_init_gpu(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """RmInitAdapter and address-window messages of the kernel; nvidia-smi without devices though one is on the bus."""
    text = sign(facts, "bar-invalid", "rm-init-failed")
    event = next((e for e in facts.kernel_events or () if e.kind == "rm-init-adapter"), None)
    none = facts.nvidia.smi_error == "no-devices" or sign(facts, "smi-no-devices") is not None
    if text is None and event is None and not (none and _on_bus_with_module(facts)):
        if none and not driver_signs.cuda_works(facts) and not driver_signs.in_container(facts):
            yield _no_devices(rule, facts)
        return
    if driver_signs.cuda_works(facts):
        return
    quote = text or (Symptom(kind="rm-init-failed", text=event.text or "", line=event.line) if event else None)
    yield rule.finding(
        "error",
        seen=quoted(quote, "nvidia-smi finds no device" if none else None, _card(facts)),
        why="The kernel module found the card and its initialisation failed, mostly because the firmware gave it no "
        "address window that is large enough, or because the card or its power is at fault.",
        remedy=Remedy(
            text="In the BIOS switch on Above 4G Decoding and Resizable BAR, and update the BIOS; power the machine "
            "off completely once. With a Blackwell GPU make sure that the open kernel modules are installed. In a "
            "virtual machine the host has to hand over the large address window.",
            commands=(
                "sudo dmesg | grep -i -e nvrm -e 'BAR' | head -40",
                "sudo lspci -vv -d 10de: | grep -i -e region -e lnksta",
            ),
        ),
        confidence="certain" if quote is not None else "likely",
        otherwise="" if quote is not None else "sudo dmesg | grep -i nvrm names the reason.",
        line=at(text) or (event.line if event else None) or driver_signs.line_of(facts, "nvidia.smi_error"),
    )


def _on_bus_with_module(facts: Facts) -> bool:
    return driver_signs.nvidia_on_bus(facts) and facts.nvidia.kernel_module_loaded is not False


def _card(facts: Facts) -> str | None:
    names = sorted({p.name for p in facts.pci or () if p.vendor_id == derive.NVIDIA_VENDOR and p.name})
    return f"on the PCI bus: {', '.join(names)}" if names else None


def _no_devices(rule: Rule, facts: Facts) -> Finding:
    text = sign(facts, "smi-no-devices")
    return rule.finding(
        "error",
        title="The NVIDIA driver runs and has no GPU to offer.",
        seen=quoted(text, None if text else "nvidia-smi: no devices were found"),
        why="The kernel module is loaded, yet no GPU was started by it.",
        remedy=Remedy(
            text="Look at the kernel log: RmInitAdapter failures mean BIOS settings (Above 4G Decoding, Resizable "
            "BAR), power or a card that is not seated; a message about open or legacy modules means another flavour "
            "or branch of the driver.",
            commands=("lspci -nnk -d 10de:", "sudo dmesg | grep -i nvrm | head -40"),
        ),
        confidence="possible",
        otherwise="If lspci shows no NVIDIA device either, the machine (or virtual machine) has none.",
        line=at(text) or driver_signs.line_of(facts, "nvidia.smi_error"),
    )


@rule("nvidia-smi-hangs", "driver", "nvidia-smi does not answer.", explains=("driver-too-old", "smoke-failed"))
def nvidia_smi_hangs(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """A driver that answers nobody: a GPU that hangs, or a very slow start without persistence."""
    smi = facts.nvidia.smi
    if smi is None:
        driver_signs.ask(facts, "nvidia-smi was not run", "run nvidia-smi")
        return
    if smi.status != "timeout":
        return
    works = driver_signs.cuda_works(facts)
    seconds = f" within {smi.seconds:.0f} s" if smi.seconds else ""
    yield rule.finding(
        "warning" if works else "error",
        seen=f"nvidia-smi did not answer{seconds}"
        + ("" if works is None else "; CUDA itself " + ("works" if works else "does not start either")),
        why=(
            "A process waits in the driver: a GPU that hangs, or one that takes long to start because persistence "
            "mode is off."
        ),
        remedy=Remedy(
            text=(
                "Look for Xid lines in the kernel log. With many GPUs switch persistence on; a GPU that hangs needs "
                "a reset or a reboot."
            ),
            commands=("sudo dmesg | grep -i -e xid -e nvrm | tail", "sudo nvidia-smi -pm 1", "sudo reboot"),
        ),
        confidence="likely",
        otherwise="Try nvidia-smi again by hand: when it answers after a while, only the start is slow.",
    )


@rule("nvidia-smi-missing", "driver", "nvidia-smi is not there, the driver is.")
def nvidia_smi_missing(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Worth knowing: GPU memory and processes cannot be looked at."""
    if facts.nvidia.smi is None:
        driver_signs.ask(facts, "nvidia-smi was not run", "run nvidia-smi")
        return
    if facts.nvidia.smi.status != "missing" or derive.is_jetson(facts) or facts.system.os == "macos":
        return
    if not (facts.nvidia.kernel_module_loaded or driver_signs.cuda_works(facts)) or facts.torch.hip:
        return
    text = (
        "Ubuntu: package nvidia-utils-NNN of the installed branch; in a container: "
        "NVIDIA_DRIVER_CAPABILITIES=compute,utility."
    )
    yield rule.finding(
        "note",
        seen="nvidia-smi is not on PATH",
        why="CUDA does not need it; memory, processes and clocks of the GPU cannot be looked at.",
        remedy=Remedy(text=text),
    )


RULES: tuple[Rule, ...] = (
    driver_kernel_incompatible,
    nvidia_driver_not_loaded,
    driver_cannot_init_gpu,
    nvidia_smi_hangs,
    nvidia_smi_missing,
)
