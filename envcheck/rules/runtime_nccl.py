"""Several processes: NCCL, gloo and the store that brings the ranks together; the first error apart from echoes."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.facts import Facts, Symptom
from envcheck.findings import Finding, Remedy
from envcheck.matrix import Matrix
from envcheck.rules import derive
from envcheck.rules.base import Rule, rule
from envcheck.rules.driver_signs import at, detail, quoted, sign, signs


@rule(
    "nccl-duplicate-gpu",
    "runtime",
    "Two ranks (processes) use the same GPU.",
    explains=("nccl-network", "nccl-timeout", "nccl-cuda-error"),
)
def nccl_duplicate_gpu(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """NCCL's own check."""
    text = sign(facts, "nccl-duplicate-gpu")
    if text is None:
        return
    first, second, bus = detail(text, "rank"), detail(text, "rank2"), detail(text, "bus")
    yield rule.finding(
        "error",
        title=f"Rank {first} and rank {second} (two processes) use the same GPU." if first and second else "",
        seen=quoted(text, f"both on the GPU at bus {bus}" if bus else None),
        why=(
            "NCCL wants one GPU for each process. A fixed device in the code (cuda:0, a default gpu id), a "
            "CUDA_VISIBLE_DEVICES with one GPU for all, or more processes than GPUs puts two on one."
        ),
        remedy=Remedy(
            text=(
                "Let each process take its own: torch.cuda.set_device(int(os.environ['LOCAL_RANK'])) before "
                "init_process_group, use that device everywhere, and start no more processes on a node than it has "
                "GPUs."
            ),
            commands=("torchrun --nproc_per_node=$(nvidia-smi -L | wc -l) train.py",),
        ),
        line=at(text),
    )


@rule(
    "nccl-p2p",
    "runtime",
    "Direct transfers between the GPUs (peer-to-peer) do not work on this machine.",
    explains=("nccl-timeout", "nccl-cuda-error", "nccl-network"),
)
def nccl_p2p(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """NCCL's and CUDA's words, ACS that is on, a collective that hangs and works with P2P switched off."""
    text = sign(facts, "nccl-p2p")
    hang = sign(facts, "collective-hang")
    peer = next((s for s in signs(facts, "nccl-cuda-error") if "peer" in s.text.lower()), None)
    several = len(facts.nvidia.gpus or ()) != 1
    if text is None and peer is None and not (hang is not None and several and not _network_hints(facts)):
        return
    lowered = (text.text if text else "").lower()
    acs = any("acsctl" in s.text.lower() for s in signs(facts, "nccl-p2p"))
    library = "rtx" in lowered
    first = min((s for s in (text, hang, peer) if s is not None), key=lambda s: s.line or 0)
    yield rule.finding(
        "error",
        title="accelerate refuses peer-to-peer and InfiniBand on these GPUs." if library else "",
        seen=quoted(first, *(f'"{s.text}"' for s in (hang, text, peer) if s is not None and s is not first)),
        why=_why(acs=acs, library=library),
        remedy=_p2p_remedy(library=library),
        confidence="certain"
        if (acs and hang is not None) or library
        else "likely"
        if text is not None or peer is not None
        else "possible",
        otherwise=""
        if library
        else (
            "If NCCL_P2P_DISABLE=1 changes nothing: NCCL_DEBUG=INFO shows which transport it chose; one rank that "
            "does not reach the same collective hangs the others, too."
        ),
        line=at(first),
    )


def _network_hints(facts: Facts) -> bool:
    return sign(facts, "nccl-connect", "nccl-no-interface", "store-timeout") is not None


def _why(*, acs: bool, library: bool) -> str:
    if library:
        return (
            "GeForce GPUs of that series have no peer-to-peer, and the library stops instead of running slower by "
            "itself."
        )
    if acs:
        return (
            "PCIe access control (ACS) is on (SrcValid+): it sends GPU-to-GPU traffic up through the IOMMU, where "
            "NCCL's peer-to-peer transfers hang, with both GPUs at 100 % and no error."
        )
    return (
        "NCCL copies straight from GPU to GPU where the driver says that it can. PCIe access control (ACS) or the "
        "IOMMU on the way, a virtual machine, or a driver fault makes such transfers hang or fail."
    )


def _p2p_remedy(*, library: bool) -> Remedy:
    if library:
        return Remedy(
            text=(
                "Start the program with accelerate launch, which sets the variables itself, or set them: the "
                "transfers then go through main memory, which is slower and the only way on these cards."
            ),
            commands=("accelerate launch train.py",),
        )
    return Remedy(
        text="On bare metal switch ACS off on the bridges above the GPUs, or the IOMMU (BIOS: ACS, VT-d or AMD-Vi; "
        "kernel: iommu=pt, or pci=noacs where the kernel has it), and reboot. NCCL_P2P_DISABLE=1 tells whether it "
        "is that, and is a stop-gap that costs bandwidth: everything then goes through main memory.",
        commands=(
            "NCCL_P2P_DISABLE=1 torchrun --nproc_per_node=2 train.py",
            "sudo lspci -vvv | grep ACSCtl",
            "nvidia-smi topo -p2p r",
        ),
    )


_NETWORK = ("nccl-no-interface", "nccl-connect", "nccl-memlock", "store-timeout", "nccl-error")


@rule(
    "nccl-network", "runtime", "The ranks cannot reach each other over the network (NCCL).", explains=("nccl-timeout",)
)
def nccl_network(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """No interface, connections refused or timed out, ranks that never come together."""
    texts = list(signs(facts, *_NETWORK))
    if not texts:
        return
    # The specific line says more than torch's summary, wherever it stands.
    text = next((s for kind in _NETWORK for s in texts if s.kind == kind), texts[0])
    if text.kind == "nccl-error" and sign(facts, "shm", "nccl-duplicate-gpu") is not None:
        return
    name = facts.variable("NCCL_SOCKET_IFNAME") or facts.variable("GLOO_SOCKET_IFNAME")
    interface = text.kind == "nccl-no-interface"
    yield rule.finding(
        "error",
        title="NCCL finds no network interface to talk over." if interface else "",
        seen=quoted(text, f"NCCL_SOCKET_IFNAME={name}" if name else None),
        why=_network_why(text, name),
        remedy=_network_remedy(facts, text, name),
        confidence="certain" if interface and name else "likely" if text.kind != "nccl-error" else "possible",
        otherwise=_network_otherwise(text),
        line=min((s.line for s in texts if s.line is not None), default=None),
    )


def _network_why(text: Symptom, name: str | None) -> str:
    if text.kind == "nccl-no-interface":
        return (
            (
                f"NCCL_SOCKET_IFNAME names {name}, and no interface of that name with an address is on this machine "
                "(in this container)."
            )
            if name
            else (
                "Every interface was ruled out: NCCL_SOCKET_IFNAME names none that exists, or the machine has "
                "nothing but the loopback."
            )
        )
    if text.kind == "nccl-memlock":
        return "InfiniBand has to lock memory, and the limit (ulimit -l) is too low."
    if text.kind == "store-timeout":
        return (
            "Not all ranks came to the meeting point (MASTER_ADDR:MASTER_PORT) in time: one was not started or "
            "ended early, the address is wrong, or a firewall or a container's own network is between them."
        )
    return (
        "A rank could not open a connection to another: an interface that the others cannot reach (docker0, a VPN, "
        "an address of a container's isolated network), a firewall that closes NCCL's ports, or a rank that has "
        "already ended."
    )


def _network_remedy(facts: Facts, text: Symptom, name: str | None) -> Remedy:
    if text.kind == "nccl-memlock":
        return Remedy(
            text="Raise the limit: docker --ulimit memlock=-1, else /etc/security/limits.conf.", commands=("ulimit -l",)
        )
    unset = (
        "Unset NCCL_SOCKET_IFNAME, or set it to an interface that ip addr lists and the other nodes reach (a prefix "
        "such as eth or en is enough, ^docker,lo excludes)."
    )
    containers = (
        " Containers on several hosts need the hosts' network (docker run --network=host), or open ports and routes "
        "between them."
    )
    return Remedy(
        text=(
            unset
            if text.kind == "nccl-no-interface" or name
            else unset.replace("Unset NCCL_SOCKET_IFNAME, or set it", "Set NCCL_SOCKET_IFNAME")
        )
        + containers
        + (
            " MASTER_ADDR must be reachable from every node; NCCL_DEBUG=INFO names the interface and the addresses "
            "that are used."
        ),
        commands=("ip -brief addr", "NCCL_DEBUG=INFO torchrun ...", "nc -vz $MASTER_ADDR $MASTER_PORT"),
    )


def _network_otherwise(text: Symptom) -> str:
    if text.kind in ("nccl-no-interface", "nccl-memlock"):
        return ""
    return (
        "Look at the first error of every rank: when one rank fails for a reason of its own (out of memory, an "
        "exception), the others report broken connections."
    )


@rule(
    "dist-port-in-use", "runtime", "The port where the ranks meet is taken.", explains=("nccl-network", "nccl-timeout")
)
def dist_port_in_use(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """A second job, or an earlier run that did not end."""
    text = sign(facts, "dist-port-in-use")
    if text is None:
        return
    port = detail(text, "port") or "29500"
    yield rule.finding(
        "error",
        seen=quoted(text),
        why=(
            "Another job on this machine uses the same MASTER_PORT (29500 unless it is set), or processes of an "
            "earlier run are still there."
        ),
        remedy=Remedy(
            text="End what is left of the earlier run, or give this job another port.",
            commands=(
                f"ss -ltnp | grep {port}",
                f"torchrun --master_port={int(port) % 65535 + 1} ...",
                "torchrun --standalone --nproc_per_node=2 train.py",
            ),
        ),
        line=at(text),
    )


@rule(
    "dist-port-refused",
    "runtime",
    "The port or address where the ranks meet may not be opened here.",
    explains=("nccl-network", "nccl-timeout"),
)
def dist_port_refused(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Ports below 1024 are the system's, and an address is opened only on the machine that has it."""
    text = sign(facts, "dist-port-refused")
    if text is None:
        return
    port, code = detail(text, "port") or detail(text, "uv_port"), detail(text, "code") or detail(text, "uv_code")
    address = detail(text, "address") or "that was given"
    elsewhere = code in ("99", "10049", "EADDRNOTAVAIL")
    low = port is not None and int(port) < 1024
    yield rule.finding(
        "error",
        title=f"The address {address} is not one of this machine, so it cannot be opened here."
        if elsewhere
        else f"Port {port} may not be opened by an ordinary user."
        if low
        else "",
        seen=quoted(text),
        why="MASTER_ADDR (or the rendezvous endpoint) has to be an address of the machine that runs rank 0, and only that one opens it."
        if elsewhere
        else "Ports below 1024 belong to the system's own services."
        if low
        else "The system refuses the port: it is reserved (on Windows, by Hyper-V or another service), or a policy forbids it.",
        remedy=Remedy(
            text="Set MASTER_ADDR to the address of the node with rank 0, as the other nodes see it, and start that rank there."
            if elsewhere
            else "Give the job a free port above 1024.",
            commands=("hostname -I",) if elsewhere else ("torchrun --master_port=29501 ...",),
        ),
        confidence="certain" if low else "likely",
        otherwise="" if low else "`ss -ltnp` shows the ports in use, `ip addr` the addresses of this machine.",
        line=at(text),
    )


@rule(
    "libuv-not-in-build",
    "runtime",
    "The store of torch.distributed asks for libuv, and this torch was built without it.",
)
def libuv_not_in_build(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """From 2.4 on libuv is the default, and the Windows builds of that time do not have it."""
    text = sign(facts, "libuv-missing")
    if text is None:
        return
    yield rule.finding(
        "error",
        seen=quoted(text),
        why="torch 2.4 made libuv the default of the store where the ranks meet; builds without it (the Windows wheels of those releases) "
        "refuse.",
        remedy=Remedy(
            text="Switch it off for the run.",
            commands=("set USE_LIBUV=0",) if derive.wheel_os(facts) in ("windows", None) else ("export USE_LIBUV=0",),
        ),
        line=at(text),
    )  # fmt: skip


@rule("distributed-not-launched", "runtime", "A distributed program was started without its launcher.")
def distributed_not_launched(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """init_process_group reads RANK and its like, which torchrun, accelerate or srun set."""
    text = sign(facts, "rank-not-set")
    if text is None:
        return
    yield rule.finding(
        "error",
        title=f"The program was started without a launcher: {detail(text, 'variable')} is not set.",
        seen=quoted(text),
        why="init_process_group takes its place among the processes from variables that torchrun (or accelerate, deepspeed, mpirun with a "
        "wrapper) sets. `python train.py` sets none; in Slurm only SLURM_PROCID and the like are there.",
        remedy=Remedy(
            text="Start it with the launcher, also for one GPU.",
            commands=("torchrun --standalone --nproc_per_node=1 train.py",),
        ),
        line=at(text),
    )  # fmt: skip


@rule("nccl-timeout", "runtime", "A collective waited for another rank until it timed out.")
def nccl_timeout(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Only when nothing earlier explains it: mostly the time-out is an echo of another rank's failure."""
    text = sign(facts, "nccl-timeout")
    if text is None:
        return
    operation = detail(text, "op")
    yield rule.finding(
        "error",
        seen=quoted(text),
        why="All ranks have to call the same collectives in the same order"
        + (f" ({operation} here)" if operation else "")
        + (
            ". One did not come: it failed or was killed, it is busy elsewhere (saving, evaluating, loading data on "
            "rank 0 alone), its data ran out earlier, or its GPU hangs."
        ),
        remedy=Remedy(
            text="Look at every rank's log for the first error before this one. If there is none: give all ranks "
            "the same number of batches, let no rank skip a collective, put long work of one rank behind a barrier "
            "with a longer timeout (init_process_group(timeout=...)). torch's flight recorder names the rank that "
            "is missing.",
            commands=(
                "TORCH_NCCL_TRACE_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1 torchrun ...",
                "TORCH_DISTRIBUTED_DEBUG=DETAIL torchrun ...",
            ),
        ),
        confidence="likely",
        otherwise=(
            "If it hangs at the very first collective on one machine: peer-to-peer between the GPUs (try once with "
            "NCCL_P2P_DISABLE=1); over several machines: the network."
        ),
        line=at(text),
    )


OUT_OF_MEMORY = "out of memory"
"""What CUDA told NCCL, in NCCL's quotes."""


@rule("nccl-cuda-error", "runtime", "NCCL met a CUDA error that another call caused.")
def nccl_cuda_error(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """'unhandled cuda error' is NCCL's word for whatever CUDA reported; the reason stands elsewhere."""
    text = sign(facts, "nccl-cuda-error")
    if text is None:
        return
    what = next((s.details["what"] for s in signs(facts, "nccl-cuda-error") if s.details.get("what")), None)
    if what == OUT_OF_MEMORY:
        return  # oom-capacity has it
    version = derive.torch_version(facts)
    yield rule.finding(
        "error",
        title=f"NCCL met a CUDA error: {what}." if what else "",
        seen=quoted(text, f"CUDA says: {what}" if what else None, f"torch {version}" if version else None),
        why=(
            "NCCL only passes it on: an earlier error on the GPU, a driver that is too low for this NCCL, two "
            "processes on one GPU, or too little memory left."
        ),
        remedy=Remedy(
            text=(
                "Let NCCL say which call failed, and look at the first error of every rank; test one GPU alone with "
                "the same program."
            ),
            commands=(
                "NCCL_DEBUG=WARN torchrun ...",
                "python -c \"import torch; print(torch.ones(2, device='cuda') + 1, torch.cuda.nccl.version())\"",
            ),
        ),
        confidence="likely" if what else "possible",
        otherwise="",
        line=at(text),
    )


RULES: tuple[Rule, ...] = (
    nccl_duplicate_gpu,
    dist_port_in_use,
    dist_port_refused,
    libuv_not_in_build,
    distributed_not_launched,
    nccl_p2p,
    nccl_network,
    nccl_timeout,
    nccl_cuda_error,
)
