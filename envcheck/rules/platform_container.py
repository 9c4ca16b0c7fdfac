"""Containers: started without the GPU, docker without the NVIDIA runtime, a device file that was not passed in."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.facts import Facts, Symptom
from envcheck.findings import Finding, Remedy
from envcheck.matrix import Matrix
from envcheck.rules import derive, driver_signs
from envcheck.rules.base import Rule, Unknown, rule
from envcheck.rules.driver_signs import at, detail, quoted, sign, signs

_FOLLOWS = ("cuda-visible-devices", "cuda-unknown-error", "smoke-failed", "driver-too-old")
_GPU_IMAGE = re.compile(r"\b(?:docker|podman|nerdctl)\b.*(?:torch|cuda|nvidia|gpu)", re.IGNORECASE)


@rule(
    "container-no-gpu",
    "platform",
    "The container was started without access to the GPU.",
    explains=(*_FOLLOWS, "nvidia-driver-not-loaded", "nvidia-smi-missing"),
)
def container_no_gpu(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """A CUDA build in a container that has neither device files nor libcuda, or a start command without the GPU."""
    if not driver_signs.in_container(facts) or driver_signs.cuda_works(facts) or facts.torch.hip:
        return
    if driver_signs.wants_cuda(facts, matrix) is False or facts.system.wsl or derive.is_jetson(facts):
        return
    starts = driver_signs.container_commands(facts)
    without = [c for c in starts if not driver_signs.gives_gpu(c)]
    if starts and not without:
        return
    text = sign(facts, *driver_signs.NO_CUDA_KINDS, "smi-missing")
    passed = _passed(facts)
    # A paste that shows how the container was started and that torch finds no GPU in it; a GPU that a sentence names is
    # the host's, and only nvidia-smi's answer could be the container's.
    shown = text is None and not facts.nvidia.smi and _started_without(facts, starts)
    if not shown and (passed or (text is None and passed is None)):
        return
    if text is None and not shown and not _host_has_gpu(facts):
        return
    void = (facts.variable("NVIDIA_VISIBLE_DEVICES") or "").lower() in ("void", "none")
    yield rule.finding(
        "error",
        seen=quoted(
            text,
            f"started by: {_command(without[0])}" if without else None,
            "torch.cuda.is_available() is False" if shown else None,
            "no /dev/nvidia* and no libcuda.so.1 in the container" if passed is False else None,
            f"NVIDIA_VISIBLE_DEVICES={facts.variable('NVIDIA_VISIBLE_DEVICES')}" if void else None,
        ),
        why="A container sees the GPU only when the container toolkit passes the host's device files and driver "
        "libraries into it; neither --privileged nor a driver inside the image replaces that.",
        remedy=_start_with_gpu(facts),
        confidence="certain" if (without and not shown) or passed is False else "likely",
        otherwise=""
        if (without and not shown) or passed is False
        else (
            "If it was started with --gpus all: docker run --rm --gpus all ubuntu nvidia-smi on the host tells "
            "whether host and toolkit work."
        ),
        line=at(text),
    )


def _started_without(facts: Facts, starts: tuple[str, ...]) -> bool:
    """Every start in the paste is one of an image for the GPU, without the GPU, and torch says that it finds none."""
    return (
        facts.origin != "live"
        and facts.torch.cuda_available is False
        and bool(starts)
        and all(_GPU_IMAGE.search(c) and not driver_signs.gives_gpu(c) for c in starts)
    )


def _passed(facts: Facts) -> bool | None:
    """Whether anything of the GPU is in the container; None when nobody looked."""
    nodes, libs = facts.nvidia.device_nodes, facts.nvidia.libcuda
    if nodes is None and libs is None and facts.nvidia.smi is None:
        return None
    if nodes or facts.nvidia.gpus or any(lib.kind in ("driver", "wsl", "jetson") for lib in libs or ()):
        return True
    return False if nodes == () and not libs else None


def _host_has_gpu(facts: Facts) -> bool:
    if driver_signs.nvidia_on_bus(facts):
        return True
    if facts.pci is None and facts.nvidia.device_nodes == ():
        raise Unknown(
            "whether the container's host has an NVIDIA GPU cannot be seen from inside", "run nvidia-smi on the host"
        )
    return False


def _command(command: str) -> str:
    """The command's head: enough to recognise it, nothing private, no flags that a reader would take for advice."""
    words = command.split()
    return (
        " ".join(words[: next((i + 1 for i, w in enumerate(words) if w in ("run", "exec", "shell", "create")), 2)])
        + " ..."
    )


def _start_with_gpu(facts: Facts) -> Remedy:
    kind = facts.system.container
    if kind == "kubernetes":
        return Remedy(
            text=(
                "Ask for the GPU in the pod's spec (resources: limits: nvidia.com/gpu: 1); the node needs NVIDIA's "
                "device plugin and the container toolkit."
            ),
            commands=("kubectl describe node | grep -A 8 -i allocatable",),
        )
    if kind == "apptainer" or any("singularity" in c or "apptainer" in c for c in facts.commands):
        return Remedy(
            text="Start it with --nv.",
            commands=("apptainer exec --nv image.sif python -c 'import torch; print(torch.cuda.is_available())'",),
        )
    if kind == "podman":
        return Remedy(
            text="Make the CDI description once on the host, then start the container with the device.",
            commands=(
                "sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml",
                "podman run --device nvidia.com/gpu=all --rm IMAGE nvidia-smi",
            ),
        )
    if kind == "lxc":
        return Remedy(
            text="Pass the GPU into the LXC container (Incus/LXD: a device of type gpu and nvidia.runtime=true).",
            commands=("incus config device add NAME gpu gpu",),
        )
    return Remedy(
        text="Start the container with --gpus all (compose: deploy.resources.reservations.devices with driver "
        "nvidia and capabilities [gpu]). The host needs its NVIDIA driver and nvidia-container-toolkit; the image "
        "needs no driver.",
        commands=("docker run --rm --gpus all IMAGE nvidia-smi",),
    )


@rule(
    "container-toolkit-missing",
    "platform",
    "Docker has no NVIDIA runtime (nvidia-container-toolkit).",
    explains=("container-no-gpu", *_FOLLOWS),
)
def container_toolkit_missing(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """What docker, podman or Kubernetes answer when nothing can hand out a GPU."""
    text = sign(facts, "docker-no-gpu-runtime", "k8s-no-gpu")
    if text is None:
        blind = sign(facts, "container-cli-no-driver")
        if blind is not None and driver_signs.engine_without_driver(facts) in ("snap", "host"):
            yield _engine_blind(rule, facts, blind)
        return
    lowered = text.text.lower()
    cdi = "cdi" in lowered or "stat nvidia.com/gpu" in lowered
    yield rule.finding(
        "error",
        title="Kubernetes has no GPU to give: the node offers no nvidia.com/gpu (container toolkit or device plugin)."
        if text.kind == "k8s-no-gpu"
        else "",
        seen=quoted(text),
        why=(
            "Docker itself cannot pass GPUs on: nvidia-container-toolkit does, and it is not installed, not "
            "registered with the container engine, or the engine was not restarted since."
        ),
        remedy=_install_toolkit(facts, text, cdi=cdi),
        confidence="likely" if text.kind == "k8s-no-gpu" or cdi else "certain",
        otherwise=(
            "If the toolkit is installed: docker info | grep -i runtimes has to list nvidia, and a docker of snap "
            "or rootless docker has its own configuration file."
        )
        if text.kind != "k8s-no-gpu"
        else "The GPUs of the node may also all be taken, and a node whose driver is missing has none to give: nvidia-smi on "
        "the node tells.",
        line=at(text),
    )


def _engine_blind(rule: Rule, facts: Facts, text: Symptom) -> Finding:
    snap = driver_signs.engine_without_driver(facts) == "snap"
    return rule.finding(
        "error",
        title="The container engine does not see the host's NVIDIA driver"
        + (" (Docker is installed as a snap)." if snap else "."),
        seen=quoted(text, "Docker is a snap" if snap else "nvidia-smi works on the host"),
        why="libnvidia-ml.so.1 belongs to the host's driver and is looked for in the file system that the engine sees. "
        "Docker as a snap, Docker Desktop for Linux (a virtual machine) and an engine inside another container see one of "
        "their own, without the driver.",
        remedy=Remedy(
            text="Use Docker Engine from Docker's package repository with nvidia-container-toolkit: remove the snap (or with "
            "Docker Desktop for Linux choose the context of the engine on the host), register the toolkit and restart Docker.",
            commands=(
                "snap list docker",
                "docker context ls",
                "sudo snap remove docker",
                "sudo nvidia-ctk runtime configure --runtime=docker && sudo systemctl restart docker",
            ),
        ),
        confidence="likely",
        otherwise="If nvidia-smi does not work on the host either, the host has no driver: install it there first.",
        line=at(text),
    )


def _install_toolkit(facts: Facts, text: Symptom, *, cdi: bool) -> Remedy:
    if text.kind == "k8s-no-gpu":
        return Remedy(
            text=(
                "On the node: driver, nvidia-container-toolkit and containerd with the nvidia runtime; then "
                "NVIDIA's device plugin (or the GPU operator)."
            ),
            commands=(
                "nvidia-smi",
                "sudo nvidia-ctk runtime configure --runtime=containerd --set-as-default",
                "sudo systemctl restart containerd",
            ),
        )
    if facts.system.os == "windows":
        return Remedy(
            text=(
                "Docker Desktop brings the toolkit itself with its WSL 2 engine: switch that engine on, update "
                "Docker Desktop and the Windows NVIDIA driver."
            ),
            commands=("wsl --update",),
        )
    install = (
        "sudo apt install nvidia-container-toolkit"
        if driver_signs.debian_like(facts)
        else "sudo dnf install nvidia-container-toolkit"
    )
    configure = (
        ("sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml",)
        if cdi
        else ("sudo nvidia-ctk runtime configure --runtime=docker", "sudo systemctl restart docker")
    )
    return Remedy(
        text=(
            "On the host (with NVIDIA's package repository added): install nvidia-container-toolkit (it replaces "
            "nvidia-docker2), register it with the container engine and restart that."
        ),
        commands=(install, *configure),
    )


@rule(
    "container-device-missing",
    "platform",
    "The container cannot use one of the GPU's device files.",
    explains=(*_FOLLOWS, "container-no-gpu"),
)
def container_device_missing(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Some device files are there and one is not, or the right to use them was withdrawn while the container ran."""
    if driver_signs.cuda_works(facts):
        return
    lost = sign(facts, "nvml-unknown")
    named = next((s for s in signs(facts, "nvidia-node-missing")), None)
    inside = driver_signs.in_container(facts)
    if inside or named is not None:
        missing = _missing(facts)
        if missing or (named is not None and (inside or _engine_says(named))):
            yield _not_passed(rule, facts, missing, named)
            return
    if lost is not None or facts.nvidia.smi_error == "nvml-unknown":
        yield _withdrawn(rule, facts, lost, inside=inside)


def _engine_says(named: Symptom) -> bool:
    """The container engine itself misses the file on the host: docker, containerd and podman (Go's stat), crun."""
    return _BY_ENGINE.search(named.text) is not None


_BY_ENGINE = re.compile(r"custom device|\bl?stat /dev/|error stat'ing|OCI runtime|nvidia-docker", re.IGNORECASE)


def _missing(facts: Facts) -> tuple[str, ...]:
    """Device files that CUDA needs beside those that are there."""
    nodes = facts.nvidia.device_nodes
    if not nodes or not driver_signs.in_container(facts) or facts.system.wsl:
        return ()
    names = {n.path for n in nodes if n.readable is not False and n.writable is not False}
    wanted = ["/dev/nvidiactl", "/dev/nvidia-uvm"]
    absent = [path for path in wanted if path not in names]
    if not any(path.rpartition("/")[2][6:].isdigit() for path in names if path.startswith("/dev/nvidia")):
        absent.append("/dev/nvidia0")
    return tuple(absent)


def _not_passed(rule: Rule, facts: Facts, missing: tuple[str, ...], named: Symptom | None) -> Finding:
    node = detail(named, "node", "node2") or (missing[0] if missing else "/dev/nvidia-uvm")
    host = named is not None and _engine_says(named)
    make = "sudo nvidia-modprobe -u -c=0"
    return rule.finding(
        "error",
        title=f"The container has no usable {node}.",
        seen=quoted(named, f"not usable in the container: {', '.join(missing)}" if missing else None),
        why=(
            "nvidia-smi needs other device files than CUDA: without /dev/nvidia-uvm it works, and CUDA ends with an "
            "unknown error or finds no device."
        ),
        remedy=Remedy(
            text=(
                (
                    "The file does not exist on the host yet: load nvidia_uvm there (at every boot: "
                    "nvidia-persistenced or an entry in /etc/modules-load.d). "
                )
                if host
                else ""
            )
            + "Start the container by the NVIDIA runtime (--gpus all), which passes all of them; by hand every file "
            "has to be named (--device /dev/nvidia0 --device /dev/nvidiactl --device /dev/nvidia-uvm), in LXC with "
            "the matching cgroup2.devices.allow lines.",
            commands=("ls -l /dev/nvidia*", make),
        ),
        confidence="certain" if missing or host else "likely",
        otherwise="" if missing or host else "Compare ls -l /dev/nvidia* on the host and in the container.",
        line=at(named),
    )


def _withdrawn(rule: Rule, facts: Facts, lost: Symptom | None, *, inside: bool) -> Finding:
    return rule.finding(
        "error",
        title="The container has lost the right to use the GPU's device files (NVML: Unknown Error)."
        if inside
        else "NVML cannot use the GPU's device files (Unknown Error).",
        seen=quoted(lost) or "nvidia-smi: Failed to initialize NVML: Unknown Error",
        why=(
            "In a running container this comes from systemd: a daemon-reload on the host rewrites the device rules "
            "of the container's cgroup and the GPU drops out of them. A new container works again until the next "
            "reload."
        ),
        remedy=Remedy(
            text="Restart the container. To keep it from coming back: hand the GPU out by CDI, or name the device "
            "files with --device, or let docker manage cgroups itself (exec-opts native.cgroupdriver=cgroupfs); on "
            "the host nvidia-ctk system create-dev-char-symlinks helps, too.",
            commands=("docker restart CONTAINER", "sudo nvidia-ctk system create-dev-char-symlinks --create-all"),
        ),
        confidence="likely",
        otherwise=(
            "Outside of a container, or when a new container says the same: nvidia-smi on the host and sudo dmesg | "
            "grep -i nvrm."
        )
        if inside
        else "This is about containers; on a bare machine look at sudo dmesg | grep -i nvrm and reboot.",
        line=at(lost) or driver_signs.line_of(facts, "nvidia.smi_error"),
    )


@rule(
    "container-cgroups",
    "platform",
    "The container engine may not open the GPU's device files for the container (cgroups).",
    explains=("container-no-gpu", *_FOLLOWS),
)
def container_cgroups(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Rootless engines, and toolkits from before cgroup v2."""
    text = sign(facts, "container-cgroups")
    if text is None:
        return
    yield rule.finding(
        "error",
        seen=quoted(text),
        why=(
            "nvidia-container-cli wants to change the device rules of the container's cgroup. A rootless engine may "
            "not do that, and toolkits before 1.8 do not know cgroup v2."
        ),
        remedy=Remedy(
            text=(
                "Update nvidia-container-toolkit; for rootless docker or podman set no-cgroups = true in its "
                "configuration, or hand the GPU out by CDI, which needs no such change."
            ),
            commands=(
                "nvidia-container-cli --version",
                "sudo nvidia-ctk config --in-place --set nvidia-container-cli.no-cgroups=true",
                "sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml",
            ),
        ),
        confidence="likely",
        otherwise=(
            "With no-cgroups = true an engine that runs as root no longer gives access: set it for rootless engines "
            "only."
        ),
        line=at(text),
    )


@rule(
    "container-driver-in-image",
    "platform",
    "The image contains driver libraries that belong to the host.",
    explains=("container-no-gpu", *_FOLLOWS),
)
def container_driver_in_image(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """The toolkit cannot mount libcuda or libnvidia-ml over a file that is there."""
    text = sign(facts, "container-driver-files")
    if text is None:
        return
    yield rule.finding(
        "error",
        seen=quoted(text),
        why=(
            "The toolkit mounts the host's driver libraries into the container, and the image has files of that "
            "name already (it was committed from a running container, or driver packages were installed in it)."
        ),
        remedy=Remedy(
            text=(
                "Remove these files from the image (in the Dockerfile: rm -f /usr/lib/x86_64-linux-gnu/libcuda.so* "
                "/usr/lib/x86_64-linux-gnu/libnvidia-*.so*), with the driver packages that brought them."
            ),
            commands=(
                (
                    "docker run --rm --entrypoint sh IMAGE -c 'ls -l /usr/lib/x86_64-linux-gnu/libcuda.so* "
                    "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so*'"
                ),
            ),
        ),
        line=at(text),
    )


RULES: tuple[Rule, ...] = (
    container_toolkit_missing,
    container_cgroups,
    container_driver_in_image,
    container_device_missing,
    container_no_gpu,
)
