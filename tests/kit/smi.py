"""Programs that take the place of nvidia-smi: every driver, layout and failure, as POSIX shell scripts."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tests.kit.screens import UNITS, Card, listing, report, screen, values

__all__ = ["SMI_KINDS", "Card", "Kind", "fake_smi"]

RTX_4090 = Card()
RTX_3060 = Card(name="NVIDIA GeForce RTX 3060", capability="8.6", memory=12288, used=12, bus="00000000:02:00.0", power=("15W", "170W"))
V100 = Card(name="Tesla V100-SXM2-32GB", capability="7.0", memory=32768, used=0, ecc="0", uncorrected=0, uncorrected_total=0, power=("42W", "300W"), fan="N/A")
A100 = Card(name="NVIDIA A100-SXM4-40GB", capability="8.0", memory=40960, used=38, ecc="0", uncorrected=0, uncorrected_total=0, mig="Disabled", persistence="On", power=("51W", "400W"), fan="N/A")
H100 = replace(A100, name="NVIDIA H100 80GB HBM3", capability="9.0", memory=81559, power=("70W", "700W"), fabric="Completed")
ORIN = Card(name="Orin (nvgpu)", capability="8.7", memory=0, used=0, bus="N/A", persistence="N/A", mode="N/A", load="N/A", temperature="N/A", fan="N/A", power=("N/A", "N/A"))


@dataclass(frozen=True)
class Kind:
    """How a fake behaves. text: printed instead of everything else; code: exit code; unknown: fields it does not know."""

    cards: tuple[Card, ...] = (RTX_4090,)
    layout: str = "r550"
    driver: str = "550.127.08"
    cuda: str | None = "12.4"
    smi: str | None = None
    text: str | None = None
    stderr: str = ""
    stdout: str = ""
    """Printed behind the plain screen."""
    code: int = 0
    hang: str = ""
    """Which calls never answer: "all" or the words of one ("-q")."""
    unknown: tuple[str, ...] = ()
    windows: bool = False
    body: str = ""
    """Shell commands instead of everything else."""


_NO_DRIVER = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA driver "
    "is installed and running.\n\n"
)
_NO_NVML = (
    "NVIDIA-SMI couldn't find libnvidia-ml.so library in your system. Please make sure that the NVIDIA Display Driver is "
    "properly installed and present in your system.\nPlease also try adding directory that contains libnvidia-ml.so to your "
    "system PATH.\n"
)
_BLOCKED = "GPU access blocked by the operating system"
_LOST = "Unable to determine the device handle for GPU 0000:01:00.0: GPU is lost.  Reboot the system to recover this GPU\n"

SMI_KINDS: dict[str, Kind] = {
    "healthy": Kind(),
    "r375": Kind((V100,), layout="r375", driver="375.26", cuda=None, unknown=("compute_cap", "mig.mode.current")),
    "r410": Kind((V100,), layout="r410", driver="410.78", cuda="10.0", unknown=("compute_cap", "mig.mode.current")),
    "old-no-compute-cap": Kind((V100,), layout="r450", driver="470.82.01", cuda="11.4", unknown=("compute_cap",)),
    "r535": Kind(layout="r530", driver="535.183.01", cuda="12.2"),
    "r580": Kind((replace(V100, name="Tesla V100-PCIE-16GB", memory=16384),), driver="580.95.05", cuda="13.0"),
    "r610": Kind(layout="r610", driver="610.43.02", cuda="13.3"),
    "two-gpus": Kind((replace(RTX_4090, processes=((4242, "C", "python", 18000),), used=18386), RTX_3060)),
    "mig": Kind((replace(A100, mig="Enabled", instances=(("3g.20gb", 20096), ("1g.5gb", 4864))),), layout="r530", driver="535.161.08", cuda="12.2"),
    "mig-empty": Kind((replace(A100, mig="Enabled"),), layout="r530", driver="535.161.08", cuda="12.2"),
    "exclusive": Kind((replace(V100, mode="Exclusive_Process", used=900, processes=((99, "C", "/usr/bin/python3", 890),)),)),
    "prohibited": Kind((replace(V100, mode="Prohibited"),)),
    "busy": Kind((replace(RTX_4090, used=23900, load="100%", processes=((7, "C", "/opt/server/bin/serve", 23500),)),)),
    "ecc": Kind((replace(A100, ecc="4", uncorrected=4, uncorrected_total=9),)),
    "remap-pending": Kind((replace(A100, uncorrected_total=1, remap_pending=True),)),
    "throttled": Kind((replace(RTX_4090, throttle=("HW Slowdown", "HW Thermal Slowdown"), load="98%", temperature="91C"),)),
    "pcie-x1": Kind((replace(RTX_4090, pcie=(1, 4, 1, 16)),)),
    "err-row": Kind((A100, replace(A100, bus="00000000:65:00.0", lost=True, fan="ERR!", power=("N/A", "N/A"), ecc="N/A"))),
    "fan-err": Kind((replace(RTX_3060, fan="ERR!"),)),
    "one-lost": Kind(stderr="Unable to determine the device handle for GPU1: 0000:44:00.0: Unknown Error\n"),
    "inforom": Kind((A100,), stdout="WARNING: infoROM is corrupted at gpu 0000:01:00.0\n", code=14),
    "gpu-lost": Kind(text=_LOST, code=15),
    "fabric": Kind((H100,) * 8, driver="580.95.05", cuda="13.0"),
    "fabric-in-progress": Kind((replace(H100, fabric="In Progress"),) * 8, driver="580.95.05", cuda="13.0"),
    "wsl": Kind(layout="r550", smi="550.76.01", driver="552.22", cuda="12.4"),
    "windows": Kind((replace(RTX_4090, persistence="WDDM"),), driver="566.36", cuda="12.7", windows=True),
    "jetson": Kind((ORIN,), layout="r530", driver="540.4.0", cuda="12.6", unknown=("compute_cap",)),
    "cuda-na": Kind(cuda="N/A"),
    "cuda-err": Kind(cuda="ERR!"),
    "no-driver": Kind(text=_NO_DRIVER, code=9),
    "mismatch": Kind(text="Failed to initialize NVML: Driver/library version mismatch\n", code=18),
    "mismatch-new": Kind(text="Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 535.183\n", code=18),
    "no-devices": Kind(text="No devices were found\n", code=6),
    "unknown-error": Kind(text="Failed to initialize NVML: Unknown Error\n", code=255),
    "permissions": Kind(text="Failed to initialize NVML: Insufficient Permissions\n", code=4),
    "permissions-windows": Kind(text="NVIDIA-SMI has failed because you do not have suffient permissions. Please try running as an administrator.\n", code=4),
    "wsl-blocked": Kind(text=f"Failed to initialize NVML: {_BLOCKED}\nFailed to properly shut down NVML: {_BLOCKED}\n", code=17),
    "nvml-missing": Kind(text=_NO_NVML, code=12),
    "function-missing": Kind(text="Failed to initialize NVML: Function Not Found\n", code=13),
    "hang": Kind(hang="all"),
    "hang-report": Kind(hang="-q"),
    "crash": Kind(body="kill -SEGV $$"),
    "garbage": Kind(body="head -c 4000 /dev/urandom; exit 0"),
    "silent": Kind(body="exit 3"),
    "endless": Kind(body="while :; do echo '| NVIDIA-SMI'; done"),
}


def fake_smi(
    directory: Path,
    kind: str | Kind = "healthy",
    *,
    cards: Sequence[Card] | None = None,
    driver: str | None = None,
    cuda: str | None = None,
) -> Path:
    """Writes an executable nvidia-smi into the directory and returns its path; put the directory first on PATH.

    It answers the plain call, -q, -L, --version and --query-gpu with any fields, with and without header and units.
    cards, driver and cuda replace those of the kind.
    """
    found = SMI_KINDS[kind] if isinstance(kind, str) else kind
    if cards is not None:
        found = replace(found, cards=tuple(cards))
    if driver is not None:
        found = replace(found, driver=driver)
    if cuda is not None:
        found = replace(found, cuda=cuda)
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "nvidia-smi"
    path.write_text("#!/bin/sh\nPATH=/usr/bin:/bin\n" + _script(found))
    path.chmod(0o755)
    return path


def path_with(directory: Path, *, rest: str | None = None) -> str:
    """PATH with the directory first. rest: what follows (default: the present PATH)."""
    return f"{directory}{os.pathsep}{os.environ.get('PATH', '') if rest is None else rest}"


def _print(text: str) -> str:
    return f"cat <<'END_OF_TEXT'\n{text.rstrip(chr(10))}\nEND_OF_TEXT\n"


def _script(kind: Kind) -> str:
    if kind.body:
        return kind.body + "\n"
    if kind.hang == "all":
        return "exec sleep 3600\n"
    if kind.text is not None:
        return f"{_print(kind.text)}exit {kind.code}\n"
    old = kind.layout < "r530"
    parts = [
        screen(kind.cards, layout=kind.layout, driver=kind.driver, cuda=kind.cuda, smi=kind.smi, windows=kind.windows) + kind.stdout,
        report(kind.cards, driver=kind.driver, cuda=kind.cuda, new=not old, kmd=kind.layout == "r610"),
        listing(kind.cards),
        f"NVIDIA-SMI version  : {kind.smi or kind.driver}\nNVML version        : {kind.driver}\nDRIVER version      : {kind.driver}\nCUDA Version        : {kind.cuda}\n",
    ]
    lines = [f"case \"$*\" in {kind.hang}) exec sleep 3600 ;; esac\n"] if kind.hang else []
    if kind.stderr:
        lines.append(f"printf '%s' {shlex.quote(kind.stderr)} >&2\n")
    lines.append(_query_functions(kind))
    lines.append("case \"$1\" in\n")
    for name, text in zip(("''", "-q", "-L", "--version"), parts, strict=True):
        lines.append(f"{name})\n{_print(text)};;\n")
    lines.append('--query-gpu=*) query "${1#--query-gpu=}" "$2" ;;\n')
    lines.append("*) echo \"Invalid combination of input arguments. Please run 'nvidia-smi -h' for help.\"; exit 2 ;;\nesac\n")
    lines.append(f"exit {kind.code}\n")
    return "".join(lines)


def _query_functions(kind: Kind) -> str:
    lines = []
    names: list[str] = []
    for index, card in enumerate(kind.cards):
        answers = {name: value for name, value in values(index, card, kind.driver).items() if name not in kind.unknown}
        names = list(answers)
        cases = "".join(f"{name}) value={shlex.quote(value)} ;;\n" for name, value in answers.items())
        lines.append(f"value_{index}() {{\ncase \"$1\" in\n{cases}esac\n}}\n")
    units = "".join(f"{name}) unit=' [{unit}]' ;;\n" for name, unit in UNITS.items())
    known = "|".join(names) or "none"
    rows = "".join(f"row {index} \"$1\" \"$2\"\n" for index in range(len(kind.cards)))
    lines.append(
        "row() {\nline=\nfor field in $2; do\nvalue_$1 \"$field\"\n"
        "case \"$3\" in *nounits*) value=${value% MiB}; value=${value% W}; value=${value% %} ;; esac\n"
        "line=\"$line${line:+, }$value\"\ndone\necho \"$line\"\n}\n"
        "query() {\nIFS=,\n"
        f"for field in $1; do case \"$field\" in {known}) ;; *) echo \"Field \\\"$field\\\" is not a valid field to query.\"; echo; exit 2 ;; esac; done\n"
        "case \"$2\" in *noheader*) ;; *)\nline=\nfor field in $1; do\nunit=\ncase \"$field\" in\n"
        f"{units}esac\ncase \"$2\" in *nounits*) ;; *) ;; esac\nline=\"$line${{line:+, }}$field$unit\"\ndone\necho \"$line\" ;;\nesac\n"
        f"{rows}IFS=' '\n}}\n"
    )
    return "".join(lines)
