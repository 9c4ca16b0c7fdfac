"""The parts of the NVIDIA driver that do not belong together: kernel module, NVML, libcuda, compat libraries."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.facts import Facts, Symptom
from envcheck.findings import Finding, Remedy
from envcheck.matrix import Matrix
from envcheck.rules import derive, driver_signs, remedies
from envcheck.rules.base import Rule, Unknown, rule
from envcheck.rules.driver_signs import at, cuda_code, detail, quoted, sign, signs

_CUDA_STARTS = (
    "driver-too-old",
    "cuda-unknown-error",
    "nvidia-driver-not-loaded",
    "smoke-failed",
    "cuda-visible-devices",
)

_IN_IMAGE = (
    "Remove every NVIDIA driver package (libnvidia-*, nvidia-driver-*, cuda-drivers, libcuda1) from the container "
    "image: only the host carries the driver, and the container toolkit mounts the host's libraries over the image."
)


@rule(
    "nvml-driver-library-mismatch",
    "driver",
    "The NVIDIA kernel module and the driver's libraries are of different versions.",
    explains=(*_CUDA_STARTS, "driver-libcuda-mismatch"),
)
def nvml_driver_library_mismatch(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """nvidia-smi's word, the kernel's (API mismatch), or the two version numbers."""
    nvidia = facts.nvidia
    text = sign(facts, "nvml-mismatch", "api-mismatch")
    differ = bool(
        nvidia.driver_version and nvidia.kernel_driver_version and nvidia.driver_version != nvidia.kernel_driver_version
    )
    if text is None and nvidia.smi_error != "library-mismatch" and not differ:
        return
    if text is None and facts.system.wsl:
        return  # two numbers are normal there: the library is the Windows driver's
    kernel = detail(text, "kernel", "kernel2") or nvidia.kernel_driver_version
    library = detail(text, "client", "client2", "library") or (
        nvidia.driver_version if differ or text is None else None
    )
    two_places = text is not None and bool(nvidia.driver_cuda)  # nvidia-smi works somewhere in the same report
    yield rule.finding(
        "error",
        seen=quoted(text, f"kernel module {kernel}" if kernel else None, f"library {library}" if library else None)
        or "nvidia-smi: driver/library version mismatch",
        why=(
            "The libraries refuse to talk to a kernel module of another version, so nvidia-smi fails and CUDA "
            "cannot start."
        ),
        remedy=_remedy(facts, two_places=two_places, on_host=text is not None and "nvidia-container-cli" in text.text),
        line=at(text) or driver_signs.line_of(facts, "nvidia.smi_error", "nvidia.driver_version"),
    )


def _remedy(facts: Facts, *, two_places: bool, on_host: bool) -> Remedy:
    """`on_host`: nvidia-container-cli says it, which runs on the host before the container starts."""
    if driver_signs.in_container(facts) and not on_host:
        return Remedy(text=f"{_IN_IMAGE} Then start the container again.", commands=("dpkg -l | grep -i nvidia",))
    if two_places and not on_host:
        return Remedy(
            text=f"nvidia-smi works on the host, so the driver there is in order. {_IN_IMAGE} Then start the "
            "container again. (Where the same machine itself says so: its driver was updated while the old module "
            "stayed loaded; reboot it.)",
            commands=("dpkg -l | grep -i nvidia",),
        )
    return Remedy(
        text="The driver's packages were updated while the old module stayed loaded: reboot. Without a reboot: end "
        "every program that uses the GPU, unload the modules and load them again. If it comes back after a reboot, "
        "two driver installations are mixed (packages and a .run file): remove both and install one. If this shows "
        "inside a container only: remove the NVIDIA driver packages from the image, the driver belongs to the host.",
        commands=(
            "cat /proc/driver/nvidia/version",
            "sudo reboot",
        ),
    )


@rule(
    "driver-libcuda-mismatch",
    "driver",
    "The libcuda that is loaded does not belong to the running NVIDIA driver.",
    explains=_CUDA_STARTS,
)
def driver_libcuda_mismatch(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """CUDA error 803, a libcuda of another version than the kernel module, or driver packages of two releases."""
    text = sign(facts, "cuda-803")
    if text is None and driver_signs.cuda_works(facts):
        return
    odd = _odd_libcuda(facts)
    if text is not None or cuda_code(facts) == 803:
        yield _error_803(rule, facts, text, odd)
        return
    packages = _package_versions(facts)
    if len(packages) > 1:
        yield _mixed_packages(rule, facts, packages)


def _odd_libcuda(facts: Facts) -> str | None:
    """The libcuda that comes first and is not the running driver's."""
    kernel = facts.nvidia.kernel_driver_version or facts.nvidia.driver_version
    for lib in facts.nvidia.libcuda or ():
        if lib.loaded is False:
            continue
        if lib.kind == "compat" or (lib.version and kernel and lib.version != kernel and lib.kind == "driver"):
            return f"{lib.path} ({lib.version or 'version unknown'})"
    return None


def _error_803(rule: Rule, facts: Facts, text: Symptom | None, odd: str | None) -> Finding:
    container = driver_signs.in_container(facts)
    kernel = facts.nvidia.kernel_driver_version or facts.nvidia.driver_version
    place = (
        (
            f"{_IN_IMAGE} Take /usr/local/cuda/compat off LD_LIBRARY_PATH, too. After a driver update on the host, "
            "reboot the host and start the container anew."
        )
        if container
        else "Bring every driver package to one version and reboot. Take directories with another libcuda.so.1 "
        "(/usr/local/cuda/compat, old driver files, a copy inside a container image) off LD_LIBRARY_PATH."
    )
    return rule.finding(
        "error",
        seen=quoted(
            text,
            None if text else "cuInit answers 803 (system has unsupported display driver / cuda driver combination)",
            f"driver {kernel}" if kernel else None,
            f"loaded: {odd}" if odd else None,
        ),
        why="libcuda and the kernel module have to be of one release; CUDA error 803 says that they are not: after "
        "an update without a reboot, or because another copy of libcuda is found first.",
        remedy=Remedy(
            text=place,
            commands=("cat /proc/driver/nvidia/version", "ldconfig -p | grep libcuda.so", "echo $LD_LIBRARY_PATH"),
        ),
        line=at(text),
    )


def _package_versions(facts: Facts) -> dict[str, str]:
    """Version -> a package of that version, of the driver's packages; more than one version is a mixture."""
    found: dict[str, str] = {}
    for item in facts.nvidia.driver_packages or ():
        words = item.split()
        version = ".".join(str(n) for n in derive.numbers(words[1].rpartition(":")[2])) if len(words) > 1 else ""
        parts = derive.numbers(version)
        if len(parts) >= 2 and parts[0] >= 300 and _is_driver(words[0]):
            found.setdefault(_short(words[1].rpartition(":")[2]), words[0])
    for symptom in signs(facts, "driver-package"):
        package, version = symptom.details.get("package", ""), symptom.details.get("version", "")
        if version and _is_driver(package):
            found.setdefault(_short(version), package)
    return _same_length(found)


def _is_driver(package: str) -> bool:
    name = package.lower()
    return not any(
        word in name
        for word in ("container", "firmware", "settings", "prime", "modprobe", "persistenced", "fabric", "xconfig")
    )


def _short(version: str) -> str:
    """ "570.148.08-1.fc41" -> "570.148.08": zeros kept, release left out."""
    return version.split("-", maxsplit=1)[0].split("+", maxsplit=1)[0].strip()


def _same_length(found: dict[str, str]) -> dict[str, str]:
    """ "570.148" beside "570.148.08" is the same release written short."""
    return {v: p for v, p in found.items() if not any(other != v and other.startswith(f"{v}.") for other in found)}


def _mixed_packages(rule: Rule, facts: Facts, packages: dict[str, str]) -> Finding:
    rpm = "dnf" if (facts.system.distro or "") in ("fedora", "rhel", "rocky", "almalinux", "centos") else ""
    rpm = rpm or ("dnf" if "fedora" in (facts.system.name or "").lower() else "")
    commands = (
        ("rpm -qa | grep -i nvidia | sort", "sudo dnf distro-sync '*nvidia*'", "sudo reboot")
        if rpm
        else (
            "dpkg -l | grep -i nvidia",
            "sudo apt update && sudo apt install --only-upgrade '*nvidia*'",
            "sudo reboot",
        )
    )
    return rule.finding(
        "error",
        title="Packages of two NVIDIA driver releases are mixed.",
        seen=", ".join(f"{package} {version}" for version, package in sorted(packages.items())),
        why="Libraries and kernel module of the driver only work in one and the same version.",
        remedy=Remedy(
            text="Bring all driver packages to one version from one repository (two repositories that both offer "
            "the driver are the usual cause: keep one), then reboot.",
            commands=commands,
        ),
        confidence="likely",
        otherwise="If nvidia-smi works and torch.cuda.is_available() is True, the odd package is a leftover.",
        line=next((s.line for s in signs(facts, "driver-package")), None),
    )


@rule(
    "cuda-forward-compat",
    "driver",
    "CUDA's forward-compatibility libcuda is used with a GPU that does not support it.",
    explains=_CUDA_STARTS,
)
def cuda_forward_compat(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """CUDA error 804; live also a compat libcuda in front of a GeForce."""
    text = sign(facts, "cuda-804")
    consumer = _consumer_gpu(facts, matrix)
    compat = next((lib for lib in facts.nvidia.libcuda or () if lib.kind == "compat" and lib.loaded), None)
    if text is None and cuda_code(facts) != 804:
        if compat is None or driver_signs.cuda_works(facts) is not False:
            return
        if consumer is None:
            raise Unknown(
                "the GPU's model is not known, and a forward-compatibility libcuda is in use", "run nvidia-smi -L"
            )
    driver = derive.driver_version(facts)
    cuda = derive.torch_cuda(facts, matrix)
    minimum = matrix.driver_floor(cuda.value, derive.os_for_driver(facts) or "linux") if cuda and cuda.value else None
    update = (
        remedies.driver_update(facts, matrix, minimum).text
        if minimum
        else "Update the NVIDIA driver on the host to one that serves the image's CUDA."
    )
    yield rule.finding(
        "error",
        seen=quoted(
            text,
            None if text else "cuInit answers 804",
            f"driver {driver}" if driver else None,
            consumer,
            f"loaded: {compat.path}" if compat else None,
        ),
        why="The compat libraries (cuda-compat, /usr/local/cuda/compat in CUDA images) let an older kernel driver "
        "run a newer CUDA on data-centre GPUs only. On any other GPU CUDA answers with error 804 and does not start.",
        remedy=Remedy(
            text="Take the compat directory off LD_LIBRARY_PATH and the loader's configuration. If CUDA then says "
            f"that the driver is too low: {update} In a container also update nvidia-container-toolkit (release "
            "1.4.0 mounted the compat libraries by mistake), or take an image with an older CUDA.",
            commands=("echo $LD_LIBRARY_PATH", "ldconfig -p | grep libcuda.so", "unset LD_LIBRARY_PATH"),
        ),
        line=at(text),
    )


def _consumer_gpu(facts: Facts, matrix: Matrix) -> str | None:
    """A GPU of the report that surely has no forward compatibility."""
    for gpu in derive.gpus(facts, matrix):
        model = matrix.gpu(gpu.name) if gpu.name else None
        if gpu.name and (
            ("geforce" in gpu.name.lower()) or (model is not None and model.segment in ("consumer", "laptop"))
        ):
            return gpu.name
    return None


RULES: tuple[Rule, ...] = (nvml_driver_library_mismatch, driver_libcuda_mismatch, cuda_forward_compat)
