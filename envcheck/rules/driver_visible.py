"""Which GPUs a process may see: CUDA_VISIBLE_DEVICES, MIG slices, rights on the device files."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.facts import Facts, NvidiaGpu, Symptom
from envcheck.findings import Finding, Remedy
from envcheck.matrix import Matrix
from envcheck.rules import derive, driver_signs
from envcheck.rules.base import Rule, Unknown, rule
from envcheck.rules.driver_signs import at, quoted, sign, signs

_HIDES_ALL = ("", "-1", "none", "void", "nodevfiles")


@rule(
    "mig",
    "driver",
    "The GPU is cut into MIG slices, and a process sees one of them at most.",
    explains=("cuda-visible-devices", "smoke-failed", "cuda-unknown-error"),
)
def mig(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """MIG without a slice, several slices for one process, or a slice named in a way that the program cannot read."""
    cut = [g for g in facts.nvidia.gpus or () if g.mig or g.mig_instances or (g.name and " MIG " in g.name)]
    profiles = _profiles(facts, cut)
    uuid = sign(facts, "mig-uuid-int")
    text = sign(facts, "device-index-assert")
    ordinal = sign(facts, *_NO_DEVICE) if cut or profiles else None
    empty = bool(cut) and all(g.mig and g.mig_instances == () for g in cut) and len(cut) == len(facts.nvidia.gpus or ())
    none, failed = sign(facts, "mig-none"), sign(facts, *_NO_DEVICE)
    if uuid is not None:
        yield _finding(
            rule,
            facts,
            uuid,
            profiles,
            "The program reads CUDA_VISIBLE_DEVICES as numbers and meets the UUID of a MIG slice.",
            _UPDATE_PROGRAM,
        )
    elif empty and not driver_signs.cuda_works(facts):
        yield _finding(
            rule,
            facts,
            ordinal,
            profiles,
            "MIG is on and no slice has been made, so there is no CUDA device at all.",
            _MAKE_SLICE,
            title=_NO_SLICE,
        )
    elif none is not None and not profiles and not facts.nvidia.gpus and not driver_signs.cuda_works(facts):
        # The table stands below a GPU in MIG mode only; here it was copied without the rest of the screen.
        yield _finding(
            rule,
            facts,
            none,
            profiles,
            "MIG is on for a GPU and no slice of it has been made; a GPU in that mode is no CUDA device without one.",
            _MAKE_SLICE,
            confidence="likely",
            title=_NO_SLICE,
            otherwise="Another GPU of the machine may be without MIG, and work: `nvidia-smi -L` lists GPUs and slices.",
            severity="error" if failed is not None or driver_signs.cuda_works(facts) is False else "warning",
        )
    elif ordinal is not None and ordinal.kind == "cuda-driver-init-failed" and not profiles:
        # With a slice CUDA starts and shows that one; the screen that would list the slices shows none.
        yield _finding(
            rule,
            facts,
            ordinal,
            profiles,
            "MIG is on and no slice is to be seen: without one there is no CUDA device, and CUDA does not start.",
            _MAKE_SLICE,
            confidence="likely",
            otherwise="`nvidia-smi -L` lists the slices. In a container or job they have to be handed in one by one.",
        )
    elif text is not None or ordinal is not None:
        yield _finding(rule, facts, text or ordinal, profiles, _ONE_SLICE, _CHOOSE_SLICE, sure=bool(cut or profiles))
    elif _several_asked(facts) or sign(facts, "mig-one-of-many") is not None:
        yield _finding(
            rule, facts, sign(facts, "mig-one-of-many"), profiles, _ONE_SLICE, _CHOOSE_SLICE, severity="warning"
        )


_NO_DEVICE = ("invalid-device-ordinal", "no-cuda-gpus", "no-cuda-device", "cuda-driver-init-failed")

_NO_SLICE = "MIG is on, and no slice has been made."
_ONE_SLICE = (
    "A CUDA process enumerates one MIG slice only, however many there are and whatever nvidia-smi lists, so device "
    "counts and indices do not fit."
)
_CHOOSE_SLICE = Remedy(
    text="Give each process exactly one slice: set CUDA_VISIBLE_DEVICES to the UUID of one MIG device before Python "
    "starts, and use cuda:0 in the program. Training over several slices of one GPU in one job is not possible: "
    "switch MIG off for that.",
    commands=("nvidia-smi -L", "CUDA_VISIBLE_DEVICES=MIG-<uuid> python train.py"),
)
_MAKE_SLICE = Remedy(
    text="Make slices (administrator), or switch MIG off to have the whole GPU.",
    commands=("nvidia-smi mig -lgip", "sudo nvidia-smi mig -cgi 19 -C", "sudo nvidia-smi -mig 0"),
)
_UPDATE_PROGRAM = Remedy(
    text=(
        "Update the program (newer releases accept UUIDs), or give the container or job one slice so that the "
        "number 0 does."
    ),
    commands=("nvidia-smi -L", "echo $CUDA_VISIBLE_DEVICES"),
)


def _profiles(facts: Facts, cut: list[NvidiaGpu]) -> tuple[str, ...]:
    found = [p for g in cut for p in g.mig_instances or ()]
    found += [s.details["profile"] for s in signs(facts, "mig-instance") for _ in range(s.count)] if not found else []
    return tuple(found)


def _several_asked(facts: Facts) -> bool:
    value = facts.variable("CUDA_VISIBLE_DEVICES")
    return value is not None and value.upper().count("MIG-") > 1


def _finding(
    rule: Rule,
    facts: Facts,
    text: Symptom | None,
    profiles: tuple[str, ...],
    why: str,
    remedy: Remedy,
    *,
    sure: bool = True,
    severity: str = "error",
    confidence: str = "",
    otherwise: str = "",
    title: str = "",
) -> Finding:
    masked = facts.variable("CUDA_VISIBLE_DEVICES")
    return rule.finding(
        severity,
        title=title,
        seen=quoted(
            text,
            f"MIG slices: {', '.join(profiles[:8])}" if profiles else None,
            "MIG is on" if not profiles and sure and text is None else None,
            f"CUDA_VISIBLE_DEVICES={masked}" if masked else None,
        ),
        why=why,
        remedy=remedy,
        confidence=confidence or ("certain" if sure else "possible"),
        otherwise=otherwise
        if sure
        else "Without MIG (nvidia-smi -L shows none): the device count changed after CUDA started, mostly by "
        "setting CUDA_VISIBLE_DEVICES inside the program after torch was imported; set it before Python starts.",
        line=at(text) or driver_signs.line_of(facts, "nvidia.gpus"),
    )


@rule(
    "cuda-visible-devices",
    "driver",
    "CUDA_VISIBLE_DEVICES hides the GPU from this process.",
    explains=("smoke-failed",),
)
def cuda_visible_devices(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """The variable's value against the GPUs there are; 'No CUDA GPUs are available' where nothing else explains it."""
    text = sign(facts, "no-cuda-gpus", "invalid-device-ordinal", "no-cuda-device", "container-cli-no-device")
    if driver_signs.other_gpu_only(facts) and not _named(facts):
        return
    value = facts.variable("CUDA_VISIBLE_DEVICES")
    count = _gpu_count(facts)
    hidden = _hidden(value, count, facts)
    if value is not None and hidden is not None:
        yield from _by_value(rule, facts, matrix, text, value, hidden)
        return
    if text is not None and _could_be(facts, text):
        yield _by_text(rule, facts, text, value, count)


def _named(facts: Facts) -> bool:
    return facts.variable("CUDA_VISIBLE_DEVICES") is not None


def _gpu_count(facts: Facts) -> int | None:
    """GPUs that there are without the mask: nvidia-smi does not obey it."""
    if facts.nvidia.gpus is not None:
        return len(facts.nvidia.gpus)
    init = facts.nvidia.cuda_init
    return init.device_count_unmasked if init is not None else None


def _hidden(value: str | None, count: int | None, facts: Facts) -> str | None:
    """ "all" | "some" when the value hides GPUs by naming what is not there; None when it hides none that way."""
    if value is None:
        return None
    if value.strip().strip("'\"").lower() in _HIDES_ALL:
        return "all"
    init = facts.nvidia.cuda_init
    if init is not None and init.device_count == 0 and (init.device_count_unmasked or 0) > 0:
        return "all"
    if count is None:
        return None
    wanted = [part.strip() for part in value.strip("'\" ").split(",")]
    bad = [i for i, part in enumerate(wanted) if _is_index(part) and not 0 <= int(part) < count]
    if not bad:
        return None
    return "all" if bad[0] == 0 else "some"


def _is_index(part: str) -> bool:
    return part.lstrip("-").isdigit()


def _by_value(
    rule: Rule, facts: Facts, matrix: Matrix, text: Symptom | None, value: str, hidden: str
) -> Iterator[Finding]:
    works = driver_signs.cuda_works(facts)
    count = _gpu_count(facts)
    if hidden == "all" and (works or driver_signs.wants_cuda(facts, matrix) is False):
        return
    if hidden == "all" and text is None and derive.has_nvidia_gpu(facts) is False:
        return
    if hidden == "all" and text is None and count is None and derive.has_nvidia_gpu(facts) is None:
        raise Unknown(
            "CUDA_VISIBLE_DEVICES hides every GPU, and whether there is one is not known", "run nvidia-smi -L"
        )
    there = f"{count} GPU{'s' if count != 1 else ''} (index 0 to {count - 1})" if count else ""
    yield rule.finding(
        "error" if hidden == "all" else "warning",
        title="" if hidden == "all" else "CUDA_VISIBLE_DEVICES names a GPU that is not there.",
        seen=quoted(
            text,
            f"CUDA_VISIBLE_DEVICES={value!r}" if not value.strip() else f"CUDA_VISIBLE_DEVICES={value}",
            f"the driver has {there}" if there else None,
        ),
        why="CUDA shows a process only the GPUs that the variable names, numbered anew from 0; it stops at the "
        "first name that does not exist, so an empty value, -1 or a wrong number leaves none."
        if hidden == "all"
        else "CUDA stops at the first name that does not exist: that GPU and all behind it are hidden.",
        remedy=_unset(facts, count),
        line=at(text) or driver_signs.line_of(facts, "env.CUDA_VISIBLE_DEVICES", "env"),
    )


def _unset(facts: Facts, count: int | None) -> Remedy:
    windows = derive.wheel_os(facts) == "windows"
    text = (
        "Unset the variable, or name a GPU that nvidia-smi -L lists (0 is the first). See who sets it: the shell "
        "profile, the job queue, the notebook, or os.environ in the program."
    )
    unset = "set CUDA_VISIBLE_DEVICES=" if windows else "unset CUDA_VISIBLE_DEVICES"
    one = "set CUDA_VISIBLE_DEVICES=0" if windows else "export CUDA_VISIBLE_DEVICES=0"
    return Remedy(text=text, commands=("nvidia-smi -L", unset, one) if count != 0 else ("nvidia-smi -L", unset))


def _could_be(facts: Facts, text: Symptom) -> bool:
    """Nothing in the report that explains the missing GPU otherwise."""
    if driver_signs.in_container(facts) and text.kind != "invalid-device-ordinal":
        return (
            any(driver_signs.gives_gpu(c) for c in driver_signs.container_commands(facts))
            or facts.variable("CUDA_VISIBLE_DEVICES") is not None
        )
    if facts.system.wsl and text.kind == "no-cuda-device":
        return False
    return facts.nvidia.smi_error in (None, "other")


def _by_text(rule: Rule, facts: Facts, text: Symptom, value: str | None, count: int | None) -> Finding:
    ordinal = text.kind in ("invalid-device-ordinal", "container-cli-no-device")
    notebook = facts.system.cloud in ("colab", "kaggle")
    remedy = _unset(facts, count)
    if notebook:
        remedy = Remedy(
            text=(
                f"Choose a GPU as accelerator in the notebook's settings ({facts.system.cloud}), then restart it. "
                f"{remedy.text}"
            ),
            commands=("!nvidia-smi",),
        )
    return rule.finding(
        "error",
        title=(
            "The program asks for a GPU index that it cannot see (CUDA_VISIBLE_DEVICES, or fewer GPUs than it expects)."
        )
        if ordinal
        else "",
        seen=quoted(
            text,
            f"CUDA_VISIBLE_DEVICES={value}" if value else None,
            f"{count} GPU{'s' if count != 1 else ''} in the report" if count else None,
        ),
        why=(
            "After CUDA_VISIBLE_DEVICES the GPUs that are left are numbered anew from 0, and an index beyond them "
            "does not exist."
        )
        if ordinal
        else (
            "The driver answers and shows this process no GPU: CUDA_VISIBLE_DEVICES is empty or names a GPU that is "
            "not there (often set in a script or by os.environ in the program)."
        ),
        remedy=_index_remedy(remedy) if ordinal else remedy,
        confidence="likely" if count or text.kind in ("no-cuda-gpus", "invalid-device-ordinal") else "possible",
        otherwise=(
            "If echo $CUDA_VISIBLE_DEVICES shows nothing and the program does not set it: see whether nvidia-smi "
            "lists a GPU here (a container or a job may have been started without one)."
        ),
        line=at(text),
    )


def _index_remedy(unset: Remedy) -> Remedy:
    return Remedy(
        text=(
            "Use indices from 0 to torch.cuda.device_count() - 1 in the program and its configuration (gpu ids, "
            "device_ids, local rank), and start no more processes than there are GPUs. "
        )
        + unset.text,
        commands=('python -c "import torch; print(torch.cuda.device_count())"', *unset.commands),
    )


@rule(
    "nvidia-device-permission",
    "driver",
    "This user may not open the NVIDIA device files.",
    explains=("smoke-failed", "cuda-visible-devices", "cuda-unknown-error"),
)
def nvidia_device_permission(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Rights on /dev/nvidia*, by the files themselves or in nvidia-smi's words."""
    if driver_signs.in_container(facts):
        return
    nodes = [
        n for n in facts.nvidia.device_nodes or () if (n.readable is False or n.writable is False) and _needed(n.path)
    ]
    text = sign(facts, "nvml-permission") or next(
        (s for s in signs(facts, "nvidia-node-missing") if "permi" in s.text.lower()), None
    )
    if not nodes and text is None and facts.nvidia.smi_error != "insufficient-permissions":
        return
    if driver_signs.cuda_works(facts):
        return
    shown = "; ".join(f"{n.path} {n.mode or ''} {n.owner or ''}:{n.group or ''}".strip() for n in nodes[:3])
    groups = sorted({n.group for n in nodes if n.group and n.group != "root"})
    yield rule.finding(
        "error",
        seen=quoted(text, shown or None) or "nvidia-smi: insufficient permissions",
        why="CUDA opens these files for reading and writing; without the right to, there is no device.",
        remedy=Remedy(
            text="On a cluster: ask for a GPU in the job (outside of the job the files are closed on purpose). On a "
            "machine of your own: join the group that owns them and log in again; the NVIDIA driver makes them open "
            "to all unless its option NVreg_DeviceFileMode says otherwise.",
            commands=(
                "ls -l /dev/nvidia*",
                "id",
                f"sudo usermod -aG {groups[0]} $USER" if groups else "grep -r NVreg_DeviceFile /etc/modprobe.d",
            ),
        ),
        line=at(text) or driver_signs.line_of(facts, "nvidia.device_nodes"),
    )


def _needed(path: str) -> bool:
    name = path.rpartition("/")[2]
    return name in ("nvidiactl", "nvidia-uvm") or (name.startswith("nvidia") and name[6:].isdigit())


RULES: tuple[Rule, ...] = (mig, nvidia_device_permission, cuda_visible_devices)
