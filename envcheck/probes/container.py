"""Where the process really runs: container, WSL, virtual machine, hosted notebook, Jetson."""

from __future__ import annotations

import re

from envcheck.facts import Facts, System
from envcheck.probes.host import Host


def probe(host: Host) -> Facts:
    """Container, WSL, hypervisor, notebook service and Jetson."""
    if host.platform != "linux":
        return Facts(system=System(wsl=0, container="none", cloud=cloud(host)))
    model = jetson_model(host)
    l4t = parse_l4t(host.text("/etc/nv_tegra_release") or "")
    if l4t is None and model is not None:
        l4t = package_version(host, "nvidia-l4t-core")
    return Facts(
        system=System(
            container=container(host),
            wsl=wsl(host),
            virtual_machine=virtual_machine(host),
            cloud=cloud(host),
            jetson_model=model,
            l4t=l4t,
            jetpack=package_version(host, "nvidia-jetpack") if l4t is not None else None,
        )
    )


_KUBERNETES = "/var/run/secrets/kubernetes.io"


def container(host: Host) -> str | None:
    """Kind of container around the process; "none" where nothing speaks for one."""
    env = host.env
    groups = host.text("/proc/self/cgroup") or ""
    mounts = host.text("/proc/self/mountinfo") or ""
    root = next((line for line in mounts.splitlines() if line.split()[4:5] == ["/"]), "")
    named = env.get("container", "")
    if "APPTAINER_CONTAINER" in env or "SINGULARITY_CONTAINER" in env or host.exists("/.singularity.d"):
        return "apptainer"
    if "KUBERNETES_SERVICE_HOST" in env or "kubepods" in groups or host.exists(_KUBERNETES):
        return "kubernetes"
    if host.exists("/run/.containerenv") or named == "podman" or "libpod" in groups:
        return "podman"
    if "ENROOT_ROOTFS" in env or "enroot" in root:
        return "enroot"
    if host.exists("/.dockerenv") or re.search(r"docker[/-]|/docker/", groups + root) or named == "docker":
        return "docker"
    if "lxc" in groups or named == "lxc" or "lxcfs" in mounts:
        return "lxc"
    if named or (host.text("/run/systemd/container") or "").strip() or "containerd" in root:
        return "unknown"
    return "none"


def wsl(host: Host) -> int | None:
    """Its version, 0 outside of it.

    WSL 1 has no Linux kernel of its own and says "Microsoft" with a capital; kernels that users build may say nothing,
    then the interface device does.
    """
    release = host.text("/proc/sys/kernel/osrelease")
    if release is None:
        return None
    if "microsoft" in release.lower():
        return 1 if re.search(r"-Microsoft\b", release) and not re.search("wsl2", release, re.IGNORECASE) else 2
    return 2 if host.exists("/dev/dxg") and "WSL_DISTRO_NAME" in host.env else 0


_HYPERVISORS = (
    ("vmware", "vmware"),
    ("virtualbox", "virtualbox"),
    ("innotek", "virtualbox"),
    ("parallels", "parallels"),
    ("xen", "xen"),
    ("qemu", "kvm"),
    ("kvm", "kvm"),
    ("amazon ec2", "nitro"),
    ("google compute engine", "kvm"),
    ("openstack", "kvm"),
    ("digitalocean", "kvm"),
    ("alibaba cloud", "kvm"),
    ("apple virtualization", "apple"),
    ("bochs", "kvm"),
)


def virtual_machine(host: Host) -> str | None:
    """The hypervisor's name, "unknown" when only the processor tells of one, "none" when it tells of none."""
    vendor = (host.text("/sys/class/dmi/id/sys_vendor") or "").strip().lower()
    product = (host.text("/sys/class/dmi/id/product_name") or "").strip().lower()
    if "microsoft corporation" in vendor and "virtual machine" in product:
        return "hyper-v"
    if not product.endswith(".metal"):  # EC2's bare machines bear its vendor name too
        for needle, name in _HYPERVISORS:
            if needle in vendor or needle in product:
                return name
    if (host.text("/sys/hypervisor/type") or "").strip() == "xen":
        return "xen"
    if wsl(host) == 2:
        return "hyper-v"
    flags = re.search(r"^flags\s*:(.*)$", host.head("/proc/cpuinfo"), re.MULTILINE)
    if flags is None:
        return None  # other processors do not tell
    return "unknown" if " hypervisor" in flags.group(1) else "none"


_CLOUDS = (
    ("colab", ("COLAB_RELEASE_TAG", "COLAB_GPU")),
    ("kaggle", ("KAGGLE_KERNEL_RUN_TYPE", "KAGGLE_URL_BASE")),
    ("sagemaker", ("SAGEMAKER_INTERNAL_IMAGE_URI", "SM_CURRENT_HOST", "SAGEMAKER_LOG_FILE")),
    ("azureml", ("AZUREML_RUN_ID",)),
    ("databricks", ("DATABRICKS_RUNTIME_VERSION",)),
    ("paperspace", ("PAPERSPACE_NOTEBOOK_REPO_ID",)),
    ("lightning", ("LIGHTNING_CLOUD_PROJECT_ID",)),
)


def cloud(host: Host) -> str | None:
    """A hosted notebook service, by the mere presence of its variables."""
    return next((name for name, variables in _CLOUDS if any(item in host.env for item in variables)), None)


def jetson_model(host: Host) -> str | None:
    """The board's name from the device tree, None on anything but a Jetson."""
    for name in ("/proc/device-tree/model", "/sys/firmware/devicetree/base/model"):
        model = (host.text(name) or "").strip("\0\n ")
        if re.search(r"jetson|tegra", model, re.IGNORECASE):
            return model
        if "NVIDIA" in model and host.exists("/etc/nv_tegra_release"):
            return model
    return None


def parse_l4t(text: str) -> str | None:
    """Version of Jetson Linux: "# R36 (release), REVISION: 4.3, ..." -> "36.4.3"."""
    match = re.search(r"#\s*R(\d+)\s*\(release\),\s*REVISION:\s*(\d+(?:\.\d+)*)", text)
    return f"{match.group(1)}.{match.group(2)}" if match else None


def package_version(host: Host, name: str) -> str | None:
    """Version of a package of Jetson Linux, for images without the release file and for JetPack, which has none."""
    match = re.search(
        rf"^Package: {name}\n(?:.+\n)*?Version: (\d+(?:\.\d+)+)",
        host.text("/var/lib/dpkg/status", 1 << 26) or "",
        re.MULTILINE,
    )
    return match.group(1) if match else None
