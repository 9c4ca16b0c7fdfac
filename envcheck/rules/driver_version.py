"""The NVIDIA driver's version against the build's CUDA, against the GPU, and beside the other CUDA numbers."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.facts import Facts, Symptom
from envcheck.findings import Finding, Remedy
from envcheck.matrix import Architecture, Matrix
from envcheck.matrix.versions import at_least
from envcheck.rules import derive, driver_signs, remedies
from envcheck.rules.base import Rule, Unknown, rule
from envcheck.rules.driver_signs import at, detail, quoted, sign

_AFTER_OLD_DRIVER = ("cuda-unknown-error", "smoke-failed", "container-no-gpu", "cuda-visible-devices", "nccl-network")


def _decoded(number: str | None) -> str | None:
    """ "11040" of "(found version 11040)" as "11.4"; the encoding is 1000 * major + 10 * minor."""
    if not number or not number.isdigit():
        return None
    value = int(number)
    return f"{value // 1000}.{value % 1000 // 10}"


def _floor(cuda: str, facts: Facts, matrix: Matrix) -> str | None:
    return matrix.driver_floor(cuda, derive.os_for_driver(facts) or "linux")


@rule(
    "driver-too-old",
    "driver",
    "The NVIDIA driver is too old for the CUDA that torch was built with.",
    explains=_AFTER_OLD_DRIVER,
)
def driver_too_old(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Torch's own words first, then the image's requirement, then the numbers against the floor of the CUDA family."""
    said = sign(facts, "driver-too-old-text")
    if said is not None:
        yield _said_too_old(rule, facts, matrix, said)
        return
    required = sign(facts, "container-require-cuda")
    if required is not None:
        yield _image_needs_more(rule, facts, matrix, required)
        return
    conda = facts.symptom("conda-driver-constraint")
    if conda is not None and derive.numbers(conda.details["have"]) < _least(conda.details["needs"]):
        yield _conda_needs_more(rule, facts, matrix, conda)
        return
    ptx = sign(facts, "ptx-toolchain")
    if ptx is not None:
        yield _ptx_too_new(rule, facts, matrix, ptx)
        return
    yield from _by_numbers(rule, facts, matrix)


def _least(constraint: str) -> tuple[int, ...]:
    """The lower bound of ">=11.0" or "11.2.*"; () where there is none."""
    bound = constraint.split(",", maxsplit=1)[0].lstrip(">=")
    return derive.numbers(bound)[:2] if bound[:1].isdigit() else ()


def _conda_needs_more(rule: Rule, facts: Facts, matrix: Matrix, said: Symptom) -> Finding:
    """Conda's virtual package __cuda is the CUDA that the driver serves; the solver refuses packages of a newer one."""
    have, needs = said.details["have"], said.details["needs"]
    floor = _floor(".".join(str(n) for n in _least(needs)), facts, matrix)
    return rule.finding(
        "error",
        title=f"The driver serves CUDA {have}, and {said.details['package']} asks for {needs}.",
        seen=quoted(said, f"__cuda={have}: what this machine's NVIDIA driver serves"),
        why="conda reads __cuda from the driver and installs no package that needs a newer one.",
        remedy=remedies.driver_update(facts, matrix, floor)
        if floor
        else Remedy(text=f"Update the NVIDIA driver, or choose packages for CUDA {have}."),
        confidence="certain",
        otherwise="Solving for another machine: set CONDA_OVERRIDE_CUDA to the CUDA that its driver serves.",
        line=at(said),
    )


def _said_too_old(rule: Rule, facts: Facts, matrix: Matrix, said: Symptom) -> Finding:
    found = _decoded(detail(said, "found")) or _value(derive.driver_cuda(facts, matrix))
    cuda = _value(derive.torch_cuda(facts, matrix)) or None
    driver = derive.driver_version(facts)
    has = f"the driver serves CUDA {found} at most" if found else "the driver is older than the build's CUDA"
    floor = _floor(cuda, facts, matrix) if cuda else None
    return rule.finding(
        "error",
        seen=quoted(
            said, f"driver {driver}" if driver else None, has, f"torch is a CUDA {cuda} build" if cuda else None
        ),
        why=(
            "CUDA cannot start: a driver runs builds of its own CUDA major version or older ones, not of a newer major."
        ),
        remedy=_remedy(facts, matrix, cuda, found, floor),
        line=at(said),
    )


def _remedy(facts: Facts, matrix: Matrix, cuda: str | None, found: str | None, floor: str | None) -> Remedy:
    """A newer driver, or a build that the driver can run."""
    if floor is None:
        majors = [m for m in ("11", "12", "13") if found is None or int(m) > int(found.split(".")[0])]
        known = [(m, _floor(f"{m}.0", facts, matrix)) for m in majors]
        table = ", ".join(f">= {low} for a CUDA {m} build" for m, low in known if low)
        floor = next((low for _, low in known if low), None)
        first = remedies.driver_update(facts, matrix, floor) if floor else Remedy(text="Update the NVIDIA driver.")
        first = Remedy(text=f"{first.text} (It takes {table}.)" if table else first.text, commands=first.commands)
    else:
        first = remedies.driver_update(facts, matrix, floor)
    family = f"CUDA {_family(found)}" if found else "a CUDA that it serves"
    other = f"Or keep the driver and install a build of torch made with {family}"
    build = remedies.build_for_this_driver(facts, matrix)
    if build is None:
        return Remedy(text=f"{first.text} {other}.", commands=first.commands)
    return Remedy(
        text=f"{first.text} {other}: {build.text}.",
        commands=(*first.commands, "# or, with the driver as it is:", *build.commands),
    )


def _family(found: str) -> str:
    """What a driver of that CUDA can run, as a person says it: any 12.x with 12.2, nothing above 10.1 with 10.1."""
    major = int(found.split(".", maxsplit=1)[0])
    return f"{major}.x or older" if major >= 11 else f"{found} or older"


def _value(value: derive.Value | None) -> str | None:
    return value.value if value is not None else None


def _image_needs_more(rule: Rule, facts: Facts, matrix: Matrix, required: Symptom) -> Finding:
    needs = detail(required, "needs", "needs2")
    has = detail(required, "has") or _value(derive.driver_cuda(facts, matrix))
    driver = derive.driver_version(facts)
    same_family = bool(needs and has and int(needs.split(".")[0]) == int(has.split(".")[0]) >= 11)
    minimum = _floor(needs, facts, matrix) if needs else None
    update = (
        remedies.driver_update(facts, matrix, minimum)
        if minimum
        else Remedy(text="Update the NVIDIA driver of the host.")
    )
    text = f"The driver belongs to the host, not to the image. {update.text} Or take an image made with an older CUDA."
    if same_family:
        text += (
            f" The driver's CUDA {has} and the image's {needs} are one family, so the image may also be started with "
            "NVIDIA_DISABLE_REQUIRE=1 (minor-version compatibility: all but code that is compiled for the GPU at "
            "run time works)."
        )
    return rule.finding(
        "error",
        title=f"The host's NVIDIA driver is too old for this image (it asks for CUDA {needs})." if needs else "",
        seen=quoted(required, f"driver {driver}" if driver else None, f"which serves CUDA {has}" if has else None),
        why="The container toolkit does not start an image whose CUDA is newer than the host's driver.",
        remedy=Remedy(text=text, commands=update.commands),
        line=at(required),
    )


def _ptx_too_new(rule: Rule, facts: Facts, matrix: Matrix, ptx: Symptom) -> Finding:
    cuda = _value(derive.torch_cuda(facts, matrix)) or None
    driver, has = derive.driver_version(facts), _value(derive.driver_cuda(facts, matrix))
    os = derive.os_for_driver(facts) or "linux"
    minimum = matrix.toolkit_driver(cuda, os) if cuda else None
    older = bool(driver and minimum and not at_least(driver, minimum))
    update = (
        remedies.driver_update(facts, matrix, minimum)
        if minimum and (older or driver is None)
        else Remedy(
            text=(
                "Update the NVIDIA driver to the newest branch that the GPU has, or build the program with an older "
                "CUDA toolkit."
            )
        )
    )
    return rule.finding(
        "error",
        title="The NVIDIA driver is older than the CUDA toolkit that made this program's GPU code.",
        seen=quoted(
            ptx,
            f"driver {driver}" if driver else None,
            f"CUDA {has} at most" if has else None,
            f"torch for CUDA {cuda}" if cuda else None,
        ),
        why="Part of the program is PTX, which the driver itself has to compile, and it knows only the PTX of its "
        "own CUDA and older ones. Minor-version compatibility does not cover this.",
        remedy=update,
        confidence="certain" if older else "likely",
        otherwise=""
        if older
        else (
            "If torch alone works (torch.rand(2, device='cuda') + 1), the PTX comes from an extension or from "
            "Triton's ptxas."
        ),
        line=at(ptx),
    )


def _by_numbers(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    insufficient = sign(facts, "driver-insufficient")
    if driver_signs.torch_works(facts):
        return
    cuda = _value(derive.torch_cuda(facts, matrix))
    if cuda == "" or driver_signs.on_mac(facts) or derive.is_jetson(facts):
        return
    verdict = _runs(facts, matrix, cuda)
    if verdict in ("no", "doubtful") and not _forward_compatible(facts, matrix):
        yield _numbers_finding(rule, facts, matrix, cuda or "", insufficient, doubtful=verdict == "doubtful")
        return
    if verdict is not None:
        yield from _ptx_only(rule, facts, matrix, cuda or "")
        return
    if insufficient is not None and not _no_driver_at_all(facts):
        yield _insufficient(rule, facts, matrix, insufficient, cuda)
        return
    if cuda and derive.has_nvidia_gpu(facts) and not _no_driver_at_all(facts):
        raise Unknown(
            "the version of the NVIDIA driver is not known",
            "run nvidia-smi and read its first line",
            essential=driver_signs.cuda_works(facts) is not True,
        )


def _no_driver_at_all(facts: Facts) -> bool:
    """Other rules speak then."""
    nvidia = facts.nvidia
    return (
        nvidia.smi_error in ("no-driver", "library-mismatch", "nvml-missing", "nvml-unknown", "wsl-blocked")
        or nvidia.kernel_module_loaded is False
        or sign(facts, "smi-no-driver", "nvml-mismatch", "container-cli-no-driver", "gpu-access-blocked") is not None
    )


def _runs(facts: Facts, matrix: Matrix, cuda: str | None) -> str | None:
    """ "yes" | "no" | "doubtful" for the driver and the build's CUDA; None when one of the two is unknown."""
    if not cuda:
        return None
    os = derive.os_for_driver(facts) or ("windows" if _windows_number(facts) else "linux")
    driver = derive.driver_version(facts)
    if driver:
        return matrix.driver_runs(driver, cuda, os)
    served = _value(derive.driver_cuda(facts, matrix))
    if served is None:
        return None
    if int(cuda.split(".")[0]) >= 11:
        return "yes" if int(served.split(".")[0]) >= int(cuda.split(".")[0]) else "no"
    return "yes" if at_least(served, cuda) else "no"


def _windows_number(facts: Facts) -> bool:
    """A driver number of the two-part form that only Windows has: "546.12"."""
    return len(derive.numbers(derive.driver_version(facts))) == 2 and any(
        g.driver_model for g in facts.nvidia.gpus or ()
    )


def _forward_compatible(facts: Facts, matrix: Matrix) -> bool:
    """A cuda-compat libcuda is in use and every GPU is of the kind that may use it."""
    if not any(lib.kind == "compat" and lib.loaded is not False for lib in facts.nvidia.libcuda or ()):
        return False
    names = [gpu.name for gpu in derive.gpus(facts, matrix) if gpu.name]
    models = [matrix.gpu(name) for name in names]
    return bool(models) and all(
        m is not None and m.segment in ("data center", "workstation", "embedded") for m in models
    )


def _numbers_finding(
    rule: Rule, facts: Facts, matrix: Matrix, cuda: str, text: Symptom | None, *, doubtful: bool
) -> Finding:
    floor = _floor(cuda, facts, matrix)
    driver = derive.driver_version(facts)
    served = derive.driver_cuda(facts, matrix)
    derived = derive.torch_cuda(facts, matrix)
    version = derive.torch_version(facts)
    build = f"torch {version} is a CUDA {cuda} build" if version else f"torch is a CUDA {cuda} build"
    if derived is not None and derived.derived:
        build += " (derived from its version)"
    serves = f" (CUDA {served.value} at most)" if served else ""
    return rule.finding(
        "warning" if doubtful else "error",
        seen=quoted(
            text,
            f"driver {driver or '(number not shown)'}{serves}",
            build,
            f"which needs >= {floor}" if floor else None,
        ),
        why="CUDA cannot start in this torch: torch.cuda.is_available() is False and every CUDA call fails."
        if not doubtful
        else "Sources disagree whether this driver still runs such a build.",
        remedy=_remedy(facts, matrix, cuda, served.value if served else None, floor),
        confidence="possible"
        if doubtful
        else "certain"
        if text is not None or not (derived and derived.derived)
        else "likely",
        otherwise="" if not doubtful else "If torch.cuda.is_available() is True, ignore this.",
        line=at(text) or driver_signs.line_of(facts, "nvidia.driver_version", "nvidia.driver_cuda"),
    )


def _ptx_only(rule: Rule, facts: Facts, matrix: Matrix, cuda: str) -> Iterator[Finding]:
    """A GPU that only PTX covers needs a driver as new as the build's CUDA."""
    for gpu in derive.gpus(facts, matrix):
        if gpu.capability is None:
            continue
        covered = derive.coverage(facts, matrix, gpu.capability)
        if covered.kind != "ptx-driver-too-old":
            continue
        os = derive.os_for_driver(facts) or "linux"
        minimum = matrix.toolkit_driver(cuda, os) or _floor(cuda, facts, matrix) or ""
        yield rule.finding(
            "error",
            title="The NVIDIA driver is too old to compile this build's code for the GPU.",
            seen=quoted(None, gpu.label, f"driver {derive.driver_version(facts)}", covered.reason),
            why=(
                "The build has no finished code for this GPU, only PTX, and the driver knows the PTX of its own "
                "CUDA and older."
            ),
            remedy=remedies.driver_update(facts, matrix, minimum),
            line=driver_signs.line_of(facts, "nvidia.driver_version"),
        )
        return


def _insufficient(rule: Rule, facts: Facts, matrix: Matrix, text: Symptom, cuda: str | None) -> Finding:
    floor = _floor(cuda, facts, matrix) if cuda else None
    return rule.finding(
        "error",
        seen=quoted(text, f"torch is a CUDA {cuda} build" if cuda else None),
        why="The CUDA runtime of the program is newer than what the driver serves.",
        remedy=_remedy(facts, matrix, cuda, None, floor),
        confidence="likely",
        otherwise="A machine or a container without any NVIDIA driver gives the same message: see whether "
        "nvidia-smi works there, and what CUDA Version its first line shows.",
        line=at(text),
    )


@rule(
    "driver-gpu-unsupported",
    "driver",
    "This NVIDIA driver does not drive this GPU.",
    explains=(
        "nvidia-driver-not-loaded",
        "driver-cannot-init-gpu",
        "driver-too-old",
        "cuda-unknown-error",
        "smoke-failed",
    ),
)
def driver_gpu_unsupported(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """The kernel's own words, else the GPU's last and first driver branch and the flavour of the kernel modules."""
    said = sign(facts, "needs-open-modules", "open-needs-gsp", "gpu-legacy-driver")
    lists = facts.nvidia.smi is not None and facts.nvidia.smi.ok and bool(facts.nvidia.gpus)
    # The kernel's log of a live machine also names a second, older card that nobody computes on.
    other = driver_signs.only_past(facts, said) and (lists or bool(driver_signs.cuda_works(facts)))
    if said is not None and not other:
        yield _kernel_said(rule, facts, matrix, said)
        return
    if driver_signs.cuda_works(facts) or facts.system.wsl or derive.is_jetson(facts):
        return
    if lists:
        return  # the driver lists the GPU, so it drives it
    driver, os = derive.driver_version(facts), derive.os_for_driver(facts)
    gpus = _gpus_on_bus(facts, matrix) or derive.gpus(facts, matrix)
    if not gpus:
        return
    if driver is None or os is None:
        driver_signs.ask(
            facts, "the version of the NVIDIA driver is not known", "run nvidia-smi, or modinfo -F version nvidia"
        )
        return
    branch = matrix.driver_branch(driver, os)
    for gpu in gpus:
        problem = _unfit(gpu, branch, facts, matrix)
        if problem is not None:
            yield _unfit_finding(rule, facts, matrix, gpu, driver, problem)
            return


def _gpus_on_bus(facts: Facts, matrix: Matrix) -> tuple[derive.Gpu, ...]:
    return tuple(
        derive.Gpu(None, item.name, derive.capability_of_name(item.name, matrix))
        for item in facts.pci or ()
        if item.vendor_id == derive.NVIDIA_VENDOR and item.name
    )


def _unfit(gpu: derive.Gpu, branch: int | None, facts: Facts, matrix: Matrix) -> str | None:
    """ "old" (the driver dropped it), "new" (not yet in it), "open" or "closed" (needs that flavour); None = fits."""
    row = matrix.architecture(gpu.capability) if gpu.capability else None
    if row is None:
        return None
    open_modules = facts.nvidia.kernel_module_open
    if branch is not None and row.last_driver_branch is not None and branch > row.last_driver_branch:
        return "old"
    if branch is not None and row.min_driver_branch is not None and branch < row.min_driver_branch:
        return "new"
    if open_modules is False and row.open_kernel_modules == "required":
        return "open"
    return "closed" if open_modules and row.open_kernel_modules == "unsupported" else None


def _unfit_finding(rule: Rule, facts: Facts, matrix: Matrix, gpu: derive.Gpu, driver: str, problem: str) -> Finding:
    row = matrix.architecture(gpu.capability or "")
    assert row is not None
    why, text = _reasons(facts, matrix, gpu, row)[problem]
    return rule.finding(
        "error",
        title=f"NVIDIA driver {driver} does not drive {gpu.name or 'this GPU'}.",
        seen=quoted(
            None,
            gpu.label,
            f"driver {driver}",
            f"open kernel modules: {facts.nvidia.kernel_module_open}" if problem in ("open", "closed") else None,
        ),
        why=f"{why} nvidia-smi and CUDA do not see the GPU.",
        remedy=Remedy(text=text, commands=("nvidia-smi",)),
        confidence="likely",
        otherwise="If nvidia-smi does list the GPU, the driver serves it after all.",
        line=driver_signs.line_of(facts, "nvidia.driver_version", "nvidia.gpus"),
    )


def _reasons(facts: Facts, matrix: Matrix, gpu: derive.Gpu, row: Architecture) -> dict[str, tuple[str, str]]:
    """Why a driver does not fit a GPU, and the way out, by the kind of misfit."""
    last, first = row.last_driver_branch, row.min_driver_branch
    back = (
        f"Go back to the NVIDIA driver branch {last} (with proprietary kernel modules) and hold it there: its "
        "updates continue, newer branches will not take this GPU back."
    )
    opened = (
        f"{row.name} GPUs run with the open flavour of the NVIDIA kernel modules, and the proprietary one is loaded."
    )
    closed = f"The open NVIDIA kernel modules need the GSP of Turing and newer GPUs, which {row.name} GPUs do not have."
    return {
        "old": (f"Driver branch {last} is the last that drives {row.name} GPUs.", back),
        "new": (
            f"{row.name} GPUs of compute capability {gpu.capability} came with driver branch {first}.",
            remedies.driver_update(facts, matrix, f"{first}").text,
        ),
        "open": (
            opened,
            "Install the -open packages of the same driver branch (on Ubuntu nvidia-driver-NNN-open) and reboot.",
        ),
        "closed": (
            closed,
            f"Install the proprietary kernel modules of branch {last or 580} or older and reboot.",
        ),
    }


_KERNEL_SAYS = {
    "needs-open-modules": (
        "This GPU runs with the open flavour of the NVIDIA kernel modules only.",
        "Install the -open packages of the driver (nvidia-driver-NNN-open; .run file: -M open) and reboot.",
    ),
    "open-needs-gsp": (
        "This GPU has no GSP, which the open NVIDIA kernel modules need (Turing and newer have it).",
        "Install the proprietary kernel modules of branch 580 or older and reboot.",
    ),
    "gpu-legacy-driver": (
        (
            "The installed driver release does not know this GPU: it has dropped it, it is older than the GPU, or the GPU is a "
            "virtual one (vGPU), which needs the guest driver of the host's vGPU release."
        ),
        (
            "An old GPU needs the legacy branch that the kernel log names, a new one a newer driver, a vGPU the guest (GRID) driver "
            "that belongs to the host's. Reboot after the change."
        ),
    ),
}


def _kernel_said(rule: Rule, facts: Facts, matrix: Matrix, said: Symptom) -> Finding:
    branch = detail(said, "branch")
    why, text = _KERNEL_SAYS[said.kind]
    if branch:
        why, text = (
            "The installed driver has dropped this GPU.",
            f"Install the legacy driver branch {branch} and reboot.",
        )
    driver = detail(said, "driver", "driver2") or derive.driver_version(facts)
    return rule.finding(
        "error",
        seen=quoted(said, f"driver {driver}" if driver else None),
        why=f"{why} Until then nvidia-smi finds no device and CUDA cannot start.",
        remedy=Remedy(text=text, commands=("nvidia-smi",)),
        line=at(said),
    )


@rule("cuda-versions", "driver", "The CUDA numbers of driver, build and toolkit differ, which is allowed.")
def cuda_versions(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """The three CUDA numbers side by side when they differ and people will wonder."""
    built = derive.torch_cuda(facts, matrix)
    served = derive.driver_cuda(facts, matrix)
    nvcc = ".".join(str(n) for n in derive.numbers(facts.toolchain.nvcc_version)[:2])
    if built is None or not built.value or _runs(facts, matrix, built.value) == "no":
        return
    lower = served is not None and not at_least(served.value, built.value)
    if not lower and (not nvcc or nvcc == built.value):
        return
    parts = [
        f"the driver serves up to CUDA {served.value}" if served else "",
        f"torch brings its own CUDA {built.value}",
    ]
    parts.append(f"nvcc on this machine is {nvcc}" if nvcc else "")
    why = (
        "They may differ: the driver's number is a maximum, torch uses the CUDA that it brings, and nvcc only "
        "compiles extensions."
    )
    if lower:
        why += (
            " Driver and build are of one CUDA family (minor-version compatibility); only code that the driver "
            "compiles at run time is left out."
        )
    text = "Nothing to do."
    if nvcc and nvcc.split(".")[0] != built.value.split(".")[0]:
        text = f"Only to build CUDA extensions for this torch: use a CUDA {built.value} toolkit (CUDA_HOME)."
    yield rule.finding("note", seen=", ".join(p for p in parts if p), why=why, remedy=Remedy(text=text))


RULES: tuple[Rule, ...] = (driver_too_old, driver_gpu_unsupported, cuda_versions)
