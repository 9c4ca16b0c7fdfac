"""What the machine around the GPU runs out of: shared memory, file descriptors, memory, page file, disk."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.facts import Facts, Symptom
from envcheck.findings import Finding, Remedy
from envcheck.matrix import Matrix
from envcheck.rules import derive, driver_signs
from envcheck.rules.base import Rule, rule
from envcheck.rules.driver_signs import at, detail, only_past, quoted, sign, signs
from envcheck.rules.runtime_oom import GIB, shown, size_of

_WORKERS = ("nccl-timeout", "host-out-of-memory", "smoke-failed", "dataloader-worker-main-guard")


@rule(
    "shm-too-small",
    "runtime",
    "The shared memory (/dev/shm) is too small for the DataLoader's workers.",
    explains=(*_WORKERS, "disk-full", "nccl-network"),
)
def shm_too_small(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Bus errors of workers, files named torch_* that cannot be written, NCCL's segments."""
    text = sign(facts, "shm")
    size = facts.system.shm_size
    if text is None:
        if size is not None and size <= 64 * 1024**2 and driver_signs.in_container(facts):
            yield _small(rule, size)
        return
    if derive.wheel_os(facts) == "windows":
        return
    nccl = any(word in text.text.lower() for word in ("nccl", "posix_fallocate", "memory segment"))
    yield rule.finding(
        "error",
        title="The shared memory (/dev/shm) is too small for NCCL." if nccl else "",
        seen=quoted(text, f"size of /dev/shm: {shown(size)}" if size is not None else None),
        why=(
            "Workers hand batches over through files in /dev/shm; when it is full, the worker that writes gets a "
            "bus error. A container has 64 MB there unless it is told otherwise."
        )
        if not nccl
        else (
            "NCCL exchanges data between the processes of a node through /dev/shm. A container has 64 MB there "
            "unless it is told otherwise."
        ),
        remedy=_more_shm(facts),
        confidence="certain" if size is not None and size <= 1 * GIB else "likely",
        otherwise=""
        if size is not None and size <= 1 * GIB
        else (
            "df -h /dev/shm while it runs shows whether it fills up; if it stays empty, the dataset on a network or "
            "overlay file system failed under a memory map."
        ),
        line=at(text),
    )


def _small(rule: Rule, size: int) -> Finding:
    return rule.finding(
        "note",
        title="The shared memory (/dev/shm) has a container's default size.",
        seen=f"size of /dev/shm: {shown(size)}",
        why="A DataLoader with workers, and NCCL, may need more.",
        remedy=Remedy(text="Start the container with --shm-size=8g or --ipc=host when that happens."),
    )


def _more_shm(facts: Facts) -> Remedy:
    if facts.system.container == "kubernetes":
        return Remedy(
            text="Mount an emptyDir with medium: Memory at /dev/shm in the pod.", commands=("df -h /dev/shm",)
        )
    if facts.system.container == "none" and not driver_signs.container_commands(facts):
        return Remedy(
            text="Enlarge /dev/shm, or use fewer workers or smaller batches (num_workers=0 needs none).",
            commands=("df -h /dev/shm", "sudo mount -o remount,size=16G /dev/shm"),
        )
    return Remedy(
        text=(
            "Start the container with --shm-size=8g (or --ipc=host, which shares the host's); compose: shm_size. "
            "Without a container: enlarge /dev/shm. Fewer workers or smaller batches need less; num_workers=0 needs "
            "none."
        ),
        commands=("docker run --shm-size=8g ...", "df -h /dev/shm"),
    )


@rule("too-many-open-files", "runtime", "The limit on open files was reached.", explains=(*_WORKERS, "shm-too-small"))
def too_many_open_files(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Tensors that travel between processes take a file descriptor each."""
    text = sign(facts, "open-files")
    if text is None:
        return
    soft, hard = facts.system.open_files_soft, facts.system.open_files_hard
    raise_to = min(hard, 65535) if hard else 65535
    yield rule.finding(
        "error",
        seen=quoted(text, f"limit of open files: {soft} (at most {hard})" if soft else None),
        why=(
            "With the sharing strategy file_descriptor every tensor that a worker hands over holds a file "
            "descriptor open; beyond the limit (often 1024) descriptors are lost, and the transfer fails."
        ),
        remedy=Remedy(
            text="Raise the limit before the program starts (ulimit -n; for good in /etc/security/limits.conf or "
            "the service's LimitNOFILE; docker: --ulimit nofile=65535:65535), or switch the sharing strategy in the "
            "program: torch.multiprocessing.set_sharing_strategy('file_system'). Datasets that keep files open, and "
            "lists of tensors kept from the loader, are the deeper cause at times.",
            commands=("ulimit -n", f"ulimit -n {raise_to}"),
        ),
        line=at(text),
    )


@rule(
    "host-out-of-memory",
    "runtime",
    "The system killed the program for want of main memory.",
    explains=("nccl-timeout", "nccl-network", "smoke-failed"),
)
def host_out_of_memory(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """The kernel's OOM killer, a cgroup or job limit, or an allocation on the CPU that failed."""
    compiling = sign(facts, "compiler-killed")
    if compiling is not None:
        yield _while_compiling(rule, compiling)
        return
    text = sign(facts, "host-killed", "cpu-oom")
    event = next((e for e in facts.kernel_events or () if e.kind == "oom-killer"), None)
    if text is None and event is None:
        return
    wanted = size_of(f"{text.details.get('request')} bytes") if text is not None and text.kind == "cpu-oom" else None
    if wanted is not None and wanted > 16 * 1024 * GIB:
        return
    words = text.text.lower() if text is not None else ""
    plain = (
        text is not None
        and text.kind == "host-killed"
        and not any(w in words for w in ("oom", "out of memory", "worker"))
    )
    ram = facts.system.ram
    yield rule.finding(
        "note" if only_past(facts, text) else "error",
        title="" if wanted is None else "The machine has not enough main memory for this allocation.",
        seen=quoted(
            text,
            f'"{event.text}"' if event is not None and text is None else None,
            f"asked for {shown(wanted)}" if wanted else None,
            f"main memory: {shown(ram)}" if ram else None,
        ),
        why=(
            "This is the memory of the machine, not of the GPU. When it is used up (or a container's or job's limit "
            "is), Linux ends the program with signal 9 and no Python traceback."
        )
        if wanted is None
        else "This is the memory of the machine (CPU), not of the GPU.",
        remedy=Remedy(
            text=(
                "Use less main memory: fewer DataLoader workers (each copies the dataset object; keep large lists "
                "as arrays or memory maps), load checkpoints with mmap=True or straight to the GPU, smaller batches "
                "and prefetch_factor; or raise the container's or job's memory limit, add swap."
            ),
            commands=(
                "sudo dmesg | grep -i -e 'killed process' -e oom | tail -3",
                "free -g",
                "docker inspect --format '{{.State.OOMKilled}}' CONTAINER",
            )
            if derive.wheel_os(facts) != "windows"
            else (),
        ),
        confidence="likely" if plain else "certain",
        otherwise=(
            "dmesg tells whether it was the OOM killer; somebody's kill -9 or a time limit of the job queue look "
            "the same."
        )
        if plain
        else "",
        line=at(text) or (event.line if event else None),
    )


def _while_compiling(rule: Rule, text: Symptom) -> Finding:
    program = detail(text, "program") or detail(text, "nvcc") or "The compiler"
    return rule.finding(
        "error",
        title=f"The system killed the compiler ({program}): not enough main memory for so many at once.",
        seen=quoted(text),
        why="A build of CUDA extensions starts one compiler for each core, and one of them can take several gigabytes.",
        remedy=Remedy(
            text="Build with fewer compilers at a time, or take a wheel that is built already.",
            commands=("export MAX_JOBS=2", "free -g"),
        ),
        confidence="likely",
        otherwise="`sudo dmesg | grep -i 'killed process'` shows what was killed and how much it held.",
        line=at(text),
    )


@rule(
    "paging-file-too-small",
    "runtime",
    "Windows' page file is too small.",
    explains=("smoke-failed", "dataloader-worker-main-guard"),
)
def paging_file_too_small(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """WinError 1455: every process that loads the CUDA libraries reserves memory for them."""
    text = sign(facts, "paging-file")
    if text is None:
        return
    yield rule.finding(
        "error",
        seen=quoted(text),
        why=(
            "Windows reserves memory for each process that loads torch's CUDA libraries (several GB); with many "
            "DataLoader workers main memory and page file together do not hold that."
        ),
        remedy=Remedy(
            text=(
                "Enlarge the page file (System > Advanced system settings > Performance > Virtual memory: managed "
                "by the system, or 32 GB and more on a drive with room), restart, and use fewer workers "
                "(num_workers=0 to 2)."
            ),
            commands=("wmic pagefile list /format:list",),
        ),
        line=at(text),
    )


@rule("disk-full", "runtime", "The disk is full.", explains=("smoke-failed",))
def disk_full(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """The system's word, or next to nothing left where Python and its packages are."""
    text = next((s for s in signs(facts, "disk-full") if "inotify" not in s.text.lower()), None)
    free = facts.system.disk_free
    if text is None:
        if free is None:
            driver_signs.ask(facts, "the free space of the disk is not known", "df -h")
        if free is None or free >= GIB:
            return
    temporary = facts.system.tmp_free is not None and facts.system.tmp_free < GIB
    yield rule.finding(
        "error" if text is not None else "warning",
        title="" if text is not None else "The disk is nearly full.",
        seen=quoted(
            text,
            f"{shown(free)} free where Python is" if free is not None else None,
            f"{shown(facts.system.tmp_free)} free for temporary files" if temporary else None,
        ),
        why=(
            "Installing torch takes 3 to 10 GB (temporary files included), and checkpoints, caches of compiled "
            "kernels and downloads need room as well."
        ),
        remedy=Remedy(
            text=(
                "Make room (package caches, old environments, model caches in ~/.cache), or point TMPDIR, "
                "TORCH_HOME, HF_HOME and TRITON_CACHE_DIR to a larger disk. With a quota: ask for more."
            ),
            commands=("df -h", "pip cache purge", "conda clean --all", "du -sh ~/.cache/*")
            if derive.wheel_os(facts) != "windows"
            else ("pip cache purge", "conda clean --all"),
        ),
        confidence="certain",
        line=at(text),
    )


@rule("memory-low", "runtime", "Little main memory is free.")
def memory_low(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Worth knowing before a model is loaded."""
    free, ram = facts.system.ram_available, facts.system.ram
    if free is None:
        driver_signs.ask(facts, "the free main memory is not known", "free -g")
    if free is None or free >= GIB:
        return
    yield rule.finding(
        "note",
        seen=f"{shown(free)} of {shown(ram)} main memory free",
        why="Importing torch with CUDA takes about 1 GB, loading a model as much as its file.",
        remedy=Remedy(text="End programs that are not needed, or add swap."),
    )


RULES: tuple[Rule, ...] = (
    shm_too_small,
    too_many_open_files,
    host_out_of_memory,
    paging_file_too_small,
    disk_full,
    memory_low,
)
