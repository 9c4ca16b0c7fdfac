"""The plain screen of `nvidia-smi`: every layout since 2017, also cut, indented, quoted, or wrapped by a narrow terminal.

The tables differ in widths, in the order of lines and in column titles between drivers, and pastes break them, so
nothing here counts columns. A row of a GPU begins where an index, a name and a bus address stand in one line; all that
belongs to it is found by its form in the lines up to the next row.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import msgspec

from envcheck.facts import GpuProcess, NvidiaGpu
from envcheck.lazy import Regex
from envcheck.nvidia_smi.text import clean_lines
from envcheck.nvidia_smi.units import broken, bus_id, compute_mode, integer, number, size, word, yes

# R610 renamed "Driver Version" to "KMD Version" and "CUDA Version" to "CUDA UMD Version"; before R410 there was no
# CUDA version. On WSL the first number is that of the Linux program, the second that of the Windows driver.
_HEADER = Regex(r"NVIDIA-SMI\s+(\d+(?:\.\d+)+|N/A)?")
_DRIVER = Regex(r"(?:Driver|KMD)\s+Version\s*:\s*([\w./]+)")
_CUDA = Regex(r"CUDA\s+(?:UMD\s+)?Version\s*:\s*([\w./!]+)")
_HEADER_REACH = 320
_LONGEST_LINE = 400
"""No line of a screen is longer; what is, belongs to something else in the paste."""
_LONGEST_ROW = 14
"""Lines that the row of one GPU may take, wrapped ones included."""

_ADDRESS = r"(?:[0-9A-Fa-f]{4,8}:)?[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f]"
_ROW = Regex(
    r"^[\s|]*(?P<index>\d{1,3})\s+(?P<name>[A-Za-z(\[]\S*(?:\s+\S+)*?)\s+(?P<persistence>On|Off|WDDM|TCC|MCDM|N/A|ERR!)?"
    rf"\s*\|\s*(?P<bus>{_ADDRESS}|N/A)\s+(?P<display>On|Off|N/A|ERR!)?(?P<rest>.*)$"
)
# The same with the line cut behind the name: only believed in a line that begins with a bar.
_ROW_CUT = Regex(
    r"^\s*\|\s*(?P<index>\d{1,3})\s+(?P<name>[A-Za-z(\[]\S*(?:\s\S+)*?)\s+(?P<persistence>On|Off|WDDM|TCC|MCDM)\s*"
    r"(?:\|\s*(?P<bus>[0-9A-Fa-f:.]*)(?P<display>)(?P<rest>))?$"
)
_SENSORS = Regex(
    r"(?P<fan>\d+\s?%|N/A|ERR!)\s+(?P<temp>\d+\s?C|N/A|ERR!)\s+(?P<perf>P\d+|N/A|ERR!)\s+"
    r"(?P<draw>\d+(?:\.\d+)?\s?W|N/A|ERR!|Unknown Error)\s*/\s*(?P<cap>\d+(?:\.\d+)?\s?W|N/A|ERR!)"
)
_MEMORY = Regex(r"(\d+)\s?MiB\s*/\s*(\d+)\s?MiB")
_LOAD = Regex(
    r"(?P<load>\d+\s?%|N/A|ERR!)\s+(?P<mode>Default|E\.\s*Process|E\.\s*Thread|Exclusive\w*|Prohibited|N/A|ERR!)"
)
_MIG = Regex(r"(Enabled|Disabled)\*?")
_ECC = Regex(r"\|\s*(\d+|N/A|Off|On|ERR!)\s*(?:\||$)")

_MIG_ROW = Regex(r"^[\s|]*(\d+)\s+(\d+)\s+(\d+)\s+(\d+)\s*\|\s*(\d+)\s?MiB\s*/\s*(\d+)\s?MiB")
_PROCESS = Regex(
    r"^[\s|]*(?P<gpu>\d+)\s+(?:(?:N/A|\d+)\s+(?:N/A|\d+)\s+)?(?P<pid>\d+)\s+(?P<type>[CGM](?:\+[CGM])*)\s+(?P<name>.*?)"
    r"\s+(?P<memory>\d+\s?MiB|N/A)\s*\|?$"
)
_PROCESS_OLD = Regex(r"^[\s|]*(?P<gpu>\d+)\s+(?P<pid>\d+)\s+(?P<name>\S.*?)\s+(?P<memory>\d+\s?MiB|N/A)\s*\|?$")
_END = Regex(r"(?:MIG devices|Processes)\s*:|No running processes|=+\s*NVSMI LOG")
_RULE = Regex(r"^[\s|+]*[-=+|]{8,}")


@dataclass
class Screen:
    """What one screen said; None where it was cut off."""

    smi_version: str | None = None
    driver_version: str | None = None
    driver_cuda: str | None = None
    gpus: tuple[NvidiaGpu, ...] | None = None
    lines: dict[str, int] = field(default_factory=dict)
    """Line (from 1) of each value: "driver_version", "driver_cuda", "gpus", "gpu 0" ..."""


def parse_screen(text: str) -> Screen | None:
    """Reads the first screen of plain `nvidia-smi` in a text, None when there is neither a header nor a row of it."""
    lines = clean_lines(text)
    screen = Screen()
    start = _header(lines, screen)
    if start is None:
        start = next((number for number, line in enumerate(lines) if "Persistence-M" in line or _row(line)), None)
        if start is None:
            return None
    rows, end = _rows(lines, start)
    if not rows and not (screen.driver_version or screen.smi_version):
        return None
    gpus = [_gpu(match, block) for _, match, block in rows]
    for position, match, _ in rows:
        screen.lines.setdefault("gpus", position + 1)
        screen.lines[f"gpu {match['index']}"] = position + 1
    gpus = _with_mig(gpus, lines[end:])
    gpus = _with_processes(gpus, lines[end:])
    screen.gpus = tuple(gpus) if gpus else None
    return screen


def _row(line: str) -> re.Match[str] | None:
    if "|" not in line or len(line) > _LONGEST_LINE:
        return None
    return _ROW.match(line) or _ROW_CUT.match(line)


def _header(lines: list[str], screen: Screen) -> int | None:
    for position, line in enumerate(lines):
        match = _HEADER.search(line)
        if match is None or not (match.group(1) or "Version:" in line):
            continue
        # A narrow terminal wraps the header, so the next lines may hold its end; a table below ends the search.
        reach = line[match.end() :]
        for follower in lines[position + 1 : position + 4]:
            if re.match(r"^\s*\|?\s*(?:GPU\s+Name|\d+\s)", follower):
                break
            if not _RULE.match(follower):
                reach += " " + follower.strip()
        reach = reach[:_HEADER_REACH]
        driver, cuda = _DRIVER.search(reach), _CUDA.search(reach)
        smi = word(match.group(1))
        screen.driver_version = _version_word(driver.group(1) if driver else None)
        screen.driver_cuda = _version_word(cuda.group(1) if cuda else None)
        screen.smi_version = smi if smi != screen.driver_version else None
        for name in ("driver_version", "driver_cuda", "smi_version"):
            if getattr(screen, name) is not None:
                screen.lines[name] = position + 1
        return position
    return None


def _version_word(cell: str | None) -> str | None:
    match = re.match(r"\d+(?:\.\d+)+", cell or "")
    return match.group() if match else None


def _rows(lines: list[str], start: int) -> tuple[list[tuple[int, re.Match[str], str]], int]:
    """The rows of the GPU table: (line, match of the first line, all its lines joined), and where the table ends."""
    rows: list[tuple[int, re.Match[str], str]] = []
    block: list[str] = []
    first: tuple[int, re.Match[str]] | None = None
    end = start

    def close() -> None:
        if first is not None:
            rows.append((*first, "\n".join(block)))

    for position in range(start, len(lines)):
        line = lines[position]
        match = _row(line)
        if match:
            close()
            first, block, end = (position, match), [match["rest"] or ""], position + 1
        elif _END.search(line) or len(block) > _LONGEST_ROW:
            end = position
            break
        elif first is not None and not _RULE.match(line):
            if not line.strip() and _blank_ends(lines, position):
                end = position
                break
            block.append(line.strip())
    close()
    return rows, end


def _blank_ends(lines: list[str], position: int) -> bool:
    # Pasted through a web page, a table may have an empty line after each line: only two in a row, or what follows
    # not looking like a table, end it.
    following = lines[position + 1] if position + 1 < len(lines) else ""
    return not re.match(r"^\s*[|+]", following)


def _gpu(match: re.Match[str], block: str) -> NvidiaGpu:
    ecc = _ECC.search("|" + block if not block.lstrip().startswith("|") else block)
    sensors = _SENSORS.search(block)
    memory = _MEMORY.search(block)
    load = _LOAD.search(block, memory.end() if memory else sensors.end() if sensors else 0)
    mig = _MIG.search(block, load.end() if load else 0)
    persistence = match["persistence"]
    mode = compute_mode(load["mode"]) if load else None
    return NvidiaGpu(
        index=int(match["index"]),
        name=" ".join(match["name"].split()),
        bus_id=match["bus"] if bus_id(match["bus"]) else None,
        memory_used=size(memory.group(1)) if memory else None,
        memory_total=size(memory.group(2)) if memory else None,
        persistence=yes(persistence),
        driver_model=persistence if persistence in ("WDDM", "TCC", "MCDM") else None,
        compute_mode=mode,
        mig=yes(mig.group(1)) if mig else None,
        ecc_uncorrected=integer(ecc.group(1)) if ecc else None,
        power_draw=number(sensors["draw"]) if sensors else None,
        power_limit=number(sensors["cap"]) if sensors else None,
        temperature=number(sensors["temp"]) if sensors else None,
        utilization=number(load["load"]) if load else None,
        error=_row_error(block, sensors),
    )


def _row_error(block: str, sensors: re.Match[str] | None) -> str | None:
    """A GPU that does not answer prints ERR! in many cells; a broken or absent fan prints it in the fan's alone."""
    if sensors is not None:
        block = block[: sensors.start("fan")] + block[sensors.end("fan") :]
    found = re.search(r"ERR!|Unknown Error|GPU is lost|GPU requires reset", block)
    return broken(found.group()) if found else None


def _with_mig(gpus: list[NvidiaGpu], lines: list[str]) -> list[NvidiaGpu]:
    """Adds the MIG table: this screen names no profiles, so an instance is told by its memory ("4864MiB")."""
    table = _section(lines, "MIG devices")
    if table is None:
        return gpus
    instances: dict[int, list[str]] = {}
    for line in table:
        row = _MIG_ROW.match(line)
        if row:
            instances.setdefault(int(row.group(1)), []).append(f"{row.group(6)}MiB")
    return [
        msgspec.structs.replace(gpu, mig_instances=tuple(instances.get(gpu.index if gpu.index is not None else -1, ())))
        if gpu.mig
        else gpu
        for gpu in gpus
    ]


def _with_processes(gpus: list[NvidiaGpu], lines: list[str]) -> list[NvidiaGpu]:
    table = _section(lines, "Processes")
    if table is None:
        return gpus
    found: dict[int, list[GpuProcess]] = {}
    ended = False
    for line in table:
        row = _PROCESS.match(line) or _PROCESS_OLD.match(line)
        if row:
            process = GpuProcess(
                pid=int(row["pid"]), name=row["name"].strip() or None, memory=size(word(row["memory"]))
            )
            found.setdefault(int(row["gpu"]), []).append(process)
        elif "No running" in line:
            ended = True
    if not found and not ended and not any(_RULE.match(line) for line in table[3:]):
        return gpus  # the table is cut off: nobody can say
    return [
        msgspec.structs.replace(gpu, processes=tuple(found.get(gpu.index if gpu.index is not None else -1, ())))
        for gpu in gpus
    ]


def _section(lines: list[str], title: str) -> list[str] | None:
    for position, line in enumerate(lines):
        if re.search(rf"\b{title}\s*:", line):
            rest = lines[position + 1 :]
            end = next((n for n, item in enumerate(rest) if re.search(r"\bProcesses\s*:", item)), len(rest))
            return rest[:end]
    return None
