"""Rules of running programs over hand-built facts and numbers: fires, near miss, cannot be judged."""

from __future__ import annotations

import msgspec
import pytest

from envcheck.facts import (
    Check,
    EnvVar,
    Facts,
    GpuProcess,
    KernelEvent,
    Nvidia,
    NvidiaGpu,
    Symptom,
    System,
    Torch,
)
from envcheck.findings import Finding, Skipped
from envcheck.matrix import load
from envcheck.rules import RULES, runtime
from envcheck.rules.base import evaluate
from envcheck.rules.runtime_oom import GIB, parse, shown, size_of
from envcheck.symptoms.engine import recognise

LINUX = System(
    os="linux",
    distro="ubuntu",
    machine="x86_64",
    container="none",
    wsl=0,
    ram=64 * GIB,
    ram_available=40 * GIB,
    disk_free=200 * GIB,
    shm_size=32 * GIB,
)
CUDA = Torch(version="2.8.0+cu128", cuda="12.8", cuda_available=True)
PASSED = (Check(name="matmul", device="cpu", status="passed"),)
BASE = Facts(system=LINUX, torch=CUDA, env=(), checks=PASSED)


def found(facts: Facts, rule: str) -> list[Finding]:
    return [f for f in evaluate(facts, load(), runtime.RULES).findings if f.rule == rule]


def skipped(facts: Facts, rule: str) -> list[Skipped]:
    return [s for s in evaluate(facts, load(), runtime.RULES).skipped if s.rule == rule]


def but(facts: Facts, **changes: object) -> Facts:
    return msgspec.structs.replace(facts, **changes)


def with_system(**changes: object) -> Facts:
    return but(BASE, system=msgspec.structs.replace(LINUX, **changes))


def said(line: str, facts: Facts = BASE) -> Facts:
    return but(facts, origin="captured", symptoms=recognise(line, source="report.txt"))


def test_a_machine_in_order_gets_nothing() -> None:
    report = evaluate(BASE, load(), runtime.RULES)
    assert report.findings == ()
    assert report.skipped == ()


# --- out of memory -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("20.00 MiB", 20 * 1024**2),
        ("1.50 GiB", int(1.5 * GIB)),
        ("2.00 GB", 2 * GIB),
        ("0 bytes", 0),
        ("512 bytes", 512),
        ("4096", 4096),
        ("1.5 TiB", int(1.5 * 1024 * GIB)),
        ("more than 1EB", None),
        ("", None),
        (None, None),
        ("...", None),
        ("1.2.3 GiB", None),
    ],
)
def test_sizes(text: str | None, size: int | None) -> None:
    assert size_of(text) == size


def test_sizes_as_a_person_reads_them() -> None:
    assert shown(None) == "?"
    assert shown(0) == "0 bytes"
    assert shown(20 * 1024**2) == "20.00 MiB"
    assert shown(3 * GIB // 2) == "1.50 GiB"
    assert shown(2**63).endswith("EiB")


def oom(**details: str) -> Symptom:
    return Symptom(kind="oom", text="CUDA out of memory.", source="report.txt", line=3, details=details)


@pytest.mark.parametrize(
    ("numbers", "kind"),
    [
        pytest.param(
            {
                "request": "2.00 GiB",
                "total": "23.69 GiB",
                "allocated": "21.50 GiB",
                "free": "900 MiB",
                "reserved": "22.00 GiB",
            },
            "capacity",
            id="the program fills the card",
        ),
        pytest.param(
            {
                "request": "2.00 GiB",
                "total": "23.69 GiB",
                "allocated": "16.00 GiB",
                "free": "900 MiB",
                "reserved": "22.00 GiB",
            },
            "fragmentation",
            id="reserved and unused is more than the request",
        ),
        pytest.param(
            {
                "request": "20.00 MiB",
                "total": "23.69 GiB",
                "allocated": "21.50 GiB",
                "free": "9 MiB",
                "reserved": "22.00 GiB",
            },
            "capacity",
            id="unused is more than a small request but no share of the card",
        ),
        pytest.param(
            {
                "request": "20.00 MiB",
                "total": "23.69 GiB",
                "allocated": "1.20 GiB",
                "free": "9 MiB",
                "reserved": "1.30 GiB",
            },
            "other-process",
            id="this program uses little and nothing is free",
        ),
        pytest.param(
            {
                "request": "20.00 MiB",
                "total": "8.00 GiB",
                "allocated": "6.50 GiB",
                "free": "0 bytes",
                "reserved": "6.90 GiB",
            },
            "capacity",
            id="the CUDA context is nobody else's",
        ),
        pytest.param(
            {"request": "800 GiB", "total": "23.69 GiB", "allocated": "1 GiB", "free": "20 GiB"},
            "absurd",
            id="more than any card has",
        ),
        pytest.param({"request": "2.00 GiB"}, "capacity", id="no numbers of the card"),
        pytest.param({}, "capacity", id="no numbers at all"),
        pytest.param(
            {
                "request": "1.00 GiB",
                "total": "39.4 GiB",
                "free": "10 MiB",
                "own": "3 GiB",
                "other": "36 GiB",
                "allocated": "2 GiB",
                "unallocated": "500 MiB",
            },
            "other-process",
            id="named by its number of process",
        ),
        pytest.param(
            {
                "request": "1.00 GiB",
                "total": "39.4 GiB",
                "free": "10 MiB",
                "other": "39 GiB",
                "allocated": "38 GiB",
                "unallocated": "500 MiB",
            },
            "capacity",
            id="in a container torch takes itself for another process",
        ),
    ],
)
def test_kinds_of_out_of_memory(numbers: dict[str, str], kind: str) -> None:
    assert parse(oom(**numbers)).kind == kind
    rule = {"capacity": "oom-capacity", "fragmentation": "oom-fragmentation", "absurd": "oom-absurd-request"}.get(
        kind, "oom-other-process"
    )
    report = evaluate(but(BASE, origin="captured", symptoms=(oom(**numbers),)), load(), runtime.RULES)
    assert [f.rule for f in report.findings] == [rule]


def test_the_allocator_setting_is_for_fragmentation_alone() -> None:
    full = but(
        BASE, symptoms=(oom(request="2 GiB", total="24 GiB", allocated="21.5 GiB", reserved="22 GiB", free="1 GiB"),)
    )
    words = str(evaluate(full, load(), runtime.RULES).findings)
    assert "expandable_segments" not in words
    torn = but(
        BASE, symptoms=(oom(request="2 GiB", total="24 GiB", allocated="16 GiB", reserved="22 GiB", free="1 GiB"),)
    )
    command = found(torn, "oom-fragmentation")[0].remedy.commands[0]
    assert command == "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"
    old = but(torn, torch=Torch(version="1.13.1+cu117", cuda="11.7"))
    assert "max_split_size_mb" in found(old, "oom-fragmentation")[0].remedy.commands[0]
    windows = but(torn, system=System(os="windows"))
    assert found(windows, "oom-fragmentation")[0].remedy.commands[0].startswith("set ")


def test_card_full_of_others_by_nvidia_smi() -> None:
    busy = NvidiaGpu(
        index=0,
        name="NVIDIA A100",
        memory_total=40 * GIB,
        memory_used=39 * GIB,
        processes=(GpuProcess(pid=7, name="python", memory=38 * GIB),),
    )
    facts = but(BASE, nvidia=Nvidia(gpus=(busy,)), symptoms=(oom(request="20 MiB"),))
    assert "38.00 GiB" in found(facts, "oom-other-process")[0].seen
    assert found(facts, "oom-capacity") == []
    idle = msgspec.structs.replace(busy, memory_used=GIB, processes=())
    free = but(facts, nvidia=Nvidia(gpus=(idle,)))
    assert found(free, "oom-other-process") == []
    assert found(free, "oom-capacity") != []


def test_windows_spills_to_system_memory() -> None:
    facts = but(
        BASE,
        system=System(os="windows"),
        symptoms=(oom(request="1 GiB", total="8 GiB", allocated="14 GiB", free="0 bytes", reserved="14.2 GiB"),),
    )
    assert "Windows" in found(facts, "oom-capacity")[0].why


def test_more_free_than_asked_for_is_only_possible() -> None:
    facts = but(
        BASE, symptoms=(oom(request="20 MiB", total="24 GiB", allocated="1 GiB", free="20 GiB", reserved="2 GiB"),)
    )
    assert found(facts, "oom-capacity")[0].confidence == "possible"


# --- the machine around the GPU ------------------------------------------------------------------------------------


def test_shared_memory() -> None:
    small = with_system(container="docker", shm_size=64 * 1024**2)
    assert found(small, "shm-too-small")[0].severity == "note"
    assert found(with_system(container="none", shm_size=64 * 1024**2), "shm-too-small") == []
    assert found(with_system(container="docker", shm_size=8 * GIB), "shm-too-small") == []
    assert found(with_system(container="docker", shm_size=None), "shm-too-small") == []
    bus = "RuntimeError: DataLoader worker (pid 77) is killed by signal: Bus error. It is possible that dataloader's workers are out of shared memory."
    assert found(said(bus, small), "shm-too-small")[0].confidence == "certain"
    assert "remount" in " ".join(found(said(bus), "shm-too-small")[0].remedy.commands)
    pod = said(bus, with_system(container="kubernetes", shm_size=64 * 1024**2))
    assert "emptyDir" in found(pod, "shm-too-small")[0].remedy.text


def test_disk() -> None:
    assert found(with_system(disk_free=GIB // 2), "disk-full")[0].severity == "warning"
    assert found(with_system(disk_free=2 * GIB), "disk-full") == []
    assert skipped(with_system(disk_free=None), "disk-full")
    assert skipped(but(with_system(disk_free=None), origin="captured"), "disk-full") == []
    inotify = "OSError: [Errno 28] inotify watch limit reached"
    assert found(said(inotify), "disk-full") == []
    assert found(said("OSError: [Errno 28] No space left on device"), "disk-full")[0].severity == "error"


def test_memory() -> None:
    assert found(with_system(ram_available=GIB // 3), "memory-low")[0].severity == "note"
    assert found(with_system(ram_available=4 * GIB), "memory-low") == []
    assert skipped(with_system(ram_available=None), "memory-low")
    event = KernelEvent(kind="oom-killer", text="Out of memory: Killed process 4711 (python)")
    # Asked about in a paste it is the fault; on a live machine the log reaches back to its start.
    assert found(but(BASE, origin="captured", kernel_events=(event,)), "host-out-of-memory")[0].severity == "error"
    assert found(but(BASE, kernel_events=(event,)), "host-out-of-memory")[0].severity == "note"
    assert found(but(BASE, kernel_events=(KernelEvent(kind="xid", code=13),)), "host-out-of-memory") == []
    assert found(but(BASE, kernel_events=None), "host-out-of-memory") == []


def test_open_files_says_the_limit() -> None:
    facts = said("RuntimeError: received 0 items of ancdata", with_system(open_files_soft=1024, open_files_hard=4096))
    finding = found(facts, "too-many-open-files")[0]
    assert "1024" in finding.seen
    assert "ulimit -n 4096" in finding.remedy.commands
    assert found(with_system(open_files_soft=1024), "too-many-open-files") == []


@pytest.mark.parametrize(
    "rule",
    [r.id for r in runtime.RULES],
)
def test_no_rule_fires_or_gives_up_on_an_empty_paste(rule: str) -> None:
    empty = Facts(origin="captured")
    assert found(empty, rule) == []
    assert skipped(empty, rule) == []


# --- processes and kernels -----------------------------------------------------------------------------------------


def test_warning_about_the_workspace_is_a_note() -> None:
    warning = (
        "UserWarning: Deterministic behavior was enabled with either `torch.use_deterministic_algorithms(True)` or "
        "`at::Context::setDeterministicAlgorithms(true)`, but this operation is not deterministic because it uses "
        "CuBLAS and you have CUDA >= 10.2. To enable deterministic behavior in this case, you must set an "
        "environment variable before running your PyTorch application: CUBLAS_WORKSPACE_CONFIG=:4096:8"
    )
    assert found(said(warning), "cublas-workspace-config")[0].severity == "note"
    error = warning.replace("UserWarning", "RuntimeError")
    finding = found(
        said(error, but(BASE, env=(EnvVar(name="CUBLAS_WORKSPACE_CONFIG", value=":0:0"),))), "cublas-workspace-config"
    )[0]
    assert finding.severity == "error"
    assert ":0:0" in finding.seen
    assert found(said("CUBLAS_WORKSPACE_CONFIG=:4096:8 python train.py"), "cublas-workspace-config") == []


@pytest.mark.parametrize(("code", "fires"), [(13, True), (31, True), (43, True), (79, False), (48, False)])
def test_xids_of_programs(code: int, fires: bool) -> None:
    event = KernelEvent(kind="xid", code=code, text=f"NVRM: Xid (PCI:0000:01:00): {code}, pid=77, name=python")
    assert bool(found(but(BASE, kernel_events=(event,)), "illegal-memory-access")) is fires


# --- NCCL ----------------------------------------------------------------------------------------------------------


def test_interface_that_is_named_and_not_there() -> None:
    line = "NCCL WARN Bootstrap : no socket interface found"
    named = said(line, but(BASE, env=(EnvVar(name="NCCL_SOCKET_IFNAME", value="eth1"),)))
    finding = found(named, "nccl-network")[0]
    assert finding.confidence == "certain"
    assert "eth1" in finding.why
    assert found(said(line), "nccl-network")[0].confidence == "likely"
    assert found(but(BASE, env=(EnvVar(name="NCCL_SOCKET_IFNAME", value="eth1"),)), "nccl-network") == []


def test_a_hang_on_one_gpu_is_no_peer_transfer() -> None:
    hang = Symptom(
        kind="collective-hang", text="it hangs in all_reduce, both GPUs at 100 %", source="report.txt", line=4
    )
    two = tuple(NvidiaGpu(index=i, name="NVIDIA GeForce RTX 3090") for i in range(2))
    facts = but(BASE, origin="captured", nvidia=Nvidia(gpus=two), symptoms=(hang,))
    finding = found(facts, "nccl-p2p")[0]
    assert finding.confidence == "possible"
    assert "costs bandwidth" in finding.remedy.text
    assert found(but(facts, nvidia=Nvidia(gpus=two[:1])), "nccl-p2p") == []


# --- smoke tests ---------------------------------------------------------------------------------------------------


def check(status: str, detail: str | None = None, name: str = "matmul", device: str = "cuda:0") -> Check:
    return Check(name=name, device=device, status=status, detail=detail)


WRONG = "3 of 4096 elements wrong (1 NaN), first at [0, 7]: got nan, expected 12.5 +- 0.001; largest error 0.3"


def test_smoke_tests_that_raise_crash_or_hang() -> None:
    failed = but(BASE, checks=(*PASSED, check("failed", "RuntimeError: CUDA error: unspecified launch failure")))
    assert "matmul (cuda:0)" in found(failed, "smoke-failed")[0].title
    assert found(failed, "wrong-results") == []
    crashed = but(BASE, checks=(check("crashed", "SIGSEGV"),))
    assert len(found(crashed, "smoke-failed")) == 1
    hung = but(BASE, checks=(check("timeout"),))
    assert "did not come to an end" in found(hung, "smoke-failed")[0].title
    assert found(but(BASE, checks=(check("skipped", "no kernel"),)), "smoke-failed") == []
    assert skipped(but(BASE, checks=None), "smoke-failed")
    assert skipped(but(BASE, checks=None, origin="captured"), "smoke-failed") == []


def test_many_failed_tests_are_one_finding() -> None:
    checks = tuple(check("failed", "RuntimeError: boom", name=f"test{i}") for i in range(9))
    finding = found(but(BASE, checks=checks), "smoke-failed")[0]
    assert "6 more" in finding.title
    assert "5 more" in finding.seen


@pytest.mark.parametrize(
    "detail",
    [
        WRONG,
        "device to host: 12 of 65536 bytes differ",
        "GPU 0 to GPU 1: 4096 of 1048576 bytes differ",
        "mean of bernoulli_(0.3) is 0.9, expected 0.3 +- 0.01",
    ],
)
def test_wrong_numbers(detail: str) -> None:
    facts = but(BASE, checks=(*PASSED, check("failed", detail)))
    assert found(facts, "wrong-results")[0].severity == "error"
    assert found(facts, "smoke-failed") == []
    assert found(but(BASE, checks=(check("passed", "largest error 0.1 of what is allowed"),)), "wrong-results") == []
    assert found(but(BASE, checks=None), "wrong-results") == []


def test_wrong_numbers_on_the_cpu() -> None:
    facts = but(BASE, checks=(check("failed", WRONG, device="cpu"),))
    assert "MKL" in found(facts, "wrong-results")[0].why


def test_a_failed_smoke_test_gives_way_to_the_rule_that_knows_why() -> None:
    detail = "OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 23.69 GiB of which 9.00 MiB is free. Process 77 has 22.00 GiB memory in use. Of the allocated memory 1.00 GiB is allocated by PyTorch, and 10.00 MiB is reserved by PyTorch but unallocated."
    facts = but(
        BASE,
        checks=(check("failed", detail),),
        symptoms=recognise(detail, source="smoke test matmul"),
    )
    assert [f.rule for f in evaluate(facts, load(), RULES).findings if f.severity == "error"] == ["oom-other-process"]


def test_what_a_smoke_test_says_is_not_the_users_code() -> None:
    detail = "RuntimeError: CUDA error: device-side assert triggered"
    facts = but(BASE, checks=(check("failed", detail),), symptoms=recognise(detail, source="smoke test gather"))
    errors = [f.rule for f in evaluate(facts, load(), RULES).findings if f.severity == "error"]
    assert errors == ["smoke-failed"]
