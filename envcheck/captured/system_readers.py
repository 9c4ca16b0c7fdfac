"""What the value of a known key says about the machine, its system and the Python: readers used by the table in `keys`."""

from __future__ import annotations

import re

from envcheck.captured import gpu_names, systems, values
from envcheck.captured.document import IMPLIED, NOTED, SAID, Document, word_set
from envcheck.captured.readers import Handler

CPU_FLAGS = word_set(
    "sse4_1 sse4_2 ssse3 avx avx2 avx512f avx512bw avx512vl avx512dq avx512_vnni avx512_bf16 avx_vnni amx_tile amx_bf16 amx_int8 f16c"
    " fma bmi2 asimd sve sve2 bf16 i8mm asimdhp"
)


def os(doc: Document, value: str, index: int, rank: int) -> None:
    found = systems.os_of(value)
    if found is not None:
        systems.put_os(doc, found, index, rank)
    elif values.machine(value):
        doc.put("system.machine", values.machine(value), index, rank)
    chip = gpu_names.apple_chip(value)
    if chip:
        doc.put("apple.chip", chip, index, NOTED)
    os_extras(doc, value, index)


def os_extras(doc: Document, value: str, index: int) -> None:
    """What people add to the operating system: "Docker on Ubuntu 20.04", "Google Colab"."""
    lowered = value.lower()
    for word in ("colab", "kaggle", "sagemaker"):
        if word in lowered:
            doc.put("system.cloud", word, index, NOTED)
            doc.put("system.os", "linux", index, IMPLIED)
    if re.search(
        r"\b(?:in|inside|within) (?:a )?(?:docker|container)|docker (?:container|image)|\(docker\)|\bcontainer\b",
        lowered,
    ):
        doc.put("system.container", "docker" if "docker" in lowered else "unknown", index, NOTED)


def python(doc: Document, value: str, index: int, rank: int) -> None:
    values.put_python(doc, value, index, rank)
    if re.search(r"\bx86_64|arm64|aarch64|AMD64", value):
        doc.put("python.machine", values.machine(value, "macos" if "arm64" in value else None), index, NOTED)


def platform(doc: Document, value: str, index: int, rank: int) -> None:
    found = systems.os_of(value)
    if found is not None:
        systems.put_os(doc, found, index, rank if found.kernel or found.version else NOTED)


def libc(doc: Document, value: str, index: int, rank: int) -> None:
    match = re.search(r"(glibc|musl)?[- ]?(\d\.\d{1,3})", value, re.IGNORECASE)
    if match:
        doc.put("system.libc", (match[1] or "glibc").lower(), index, rank)
        doc.put("system.libc_version", match[2], index, rank)


def gcc(doc: Document, value: str, index: int, rank: int) -> None:
    """ "(Ubuntu 9.4.0-1ubuntu1~20.04) 9.4.0": the last number is the version."""
    found = re.findall(r"\d{1,2}\.\d{1,2}(?:\.\d{1,2})?(?![\w.-]*[~-])", value)
    if found and not values.is_nothing(value):
        doc.put("toolchain.gcc_version", found[-1], index, rank)
        if "Ubuntu" in value and doc.draft.first("system.os") is None:
            doc.put("system.os", "linux", index, IMPLIED)


def machine(doc: Document, value: str, index: int, rank: int) -> None:
    found = values.machine(value, doc.draft.first("system.os"))
    doc.put("system.machine", found, index, rank)


def chip(doc: Document, value: str, index: int, rank: int) -> None:
    chip = gpu_names.apple_chip(value if "apple" in value.lower() else f"apple {value}")
    if chip:
        doc.put("apple.chip", chip, index, rank)
        doc.put("system.os", "macos", index, IMPLIED)
        doc.put("system.machine", "arm64", index, IMPLIED)


def cpu(doc: Document, value: str, index: int, rank: int) -> None:
    if "apple" in value.lower():
        chip(doc, value, index, rank)
    elif value and not re.fullmatch(r"[\d.% ]+", value):
        doc.put("system.cpu_model", value, index, rank)


def flags(doc: Document, value: str, index: int, rank: int) -> None:
    words = set(value.split())
    if len(words) < 8:
        return
    doc.put("system.cpu_flags", tuple(sorted(words & CPU_FLAGS)), index, SAID)


def virtual(doc: Document, value: str, index: int, rank: int) -> None:
    if not values.is_nothing(value):
        doc.put("system.virtual_machine", value, index, rank)


def wsl(doc: Document, value: str, index: int, rank: int) -> None:
    lowered = value.lower()
    if lowered.startswith(("no", "false")):
        return
    doc.put("system.wsl", 1 if re.match(r"(?:wsl)? ?1(?![.\d])", lowered) else 2, index, rank)
    doc.put("system.os", "linux", index, rank)


def open_files(doc: Document, value: str, index: int, rank: int) -> None:
    match = re.search(r"\d{3,9}", value)
    if match:
        doc.put("system.open_files_soft", int(match[0]), index, rank)


def size(name: str) -> Handler:
    def handler(doc: Document, value: str, index: int, rank: int) -> None:
        match = re.search(r"(\d{1,12}(?:\.\d{1,3})?) ?([kmgt])?i?b?\b", value, re.IGNORECASE)
        if match:
            unit = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}[(match[2] or "").lower()]
            doc.put(name, int(float(match[1]) * unit), index, rank)

    return handler


def selinux(doc: Document, value: str, index: int, rank: int) -> None:
    match = re.search(r"enforcing|permissive|disabled", value, re.IGNORECASE)
    if match:
        doc.put("system.selinux", match[0].lower(), index, rank)


def jetson(doc: Document, value: str, index: int, rank: int) -> None:
    if re.search(r"jetson|orin|xavier|nano|tx[12]|thor", value, re.IGNORECASE):
        doc.put("system.jetson_model", value[:80], index, rank)
        doc.put("system.os", "linux", index, IMPLIED)
        doc.put("system.machine", "aarch64", index, IMPLIED)


def jetpack(doc: Document, value: str, index: int, rank: int) -> None:
    doc.put("system.jetpack", values.number(value), index, rank)
    l4t = re.search(r"l4t\D{0,4}r?(\d{2}\.\d{1,2}(?:\.\d{1,2})?)", value, re.IGNORECASE)
    if l4t:
        doc.put("system.l4t", l4t[1], index, rank)


def l4t(doc: Document, value: str, index: int, rank: int) -> None:
    doc.put("system.l4t", values.number(value.lstrip("rR")), index, rank)


def installed_with(doc: Document, value: str, index: int, rank: int) -> None:
    lowered = value.lower()
    for word in ("conda", "pip", "poetry", "uv", "pixi", "source"):
        if re.search(rf"\b{word}", lowered):
            doc.put("torch.manager", word, index, rank)
            return


def container(doc: Document, value: str, index: int, rank: int) -> None:
    lowered = value.lower()
    if re.search(r"\berror\b|failed|cannot", lowered):
        return
    if lowered.startswith(("no", "false", "n/a")):
        doc.put("system.container", "none", index, NOTED)
        return
    kinds = ("docker", "podman", "kubernetes", "lxc", "apptainer", "enroot")
    kind = next((k for k in kinds if k in lowered), None) or ("apptainer" if "singularity" in lowered else "docker")
    doc.put("system.container", kind, index, NOTED)
    if re.search(r"l4t|tegra|jetson", lowered):
        doc.add("commands", f"image {value}", index, NOTED)


def conda_env(doc: Document, value: str, index: int, rank: int) -> None:
    if value and not values.is_nothing(value) and len(value) < 60:
        doc.put("python.conda_env", value, index, rank)


def executable(doc: Document, value: str, index: int, rank: int) -> None:
    if re.search(r"python", value, re.IGNORECASE):
        doc.put("python.executable", value, index, rank)


def kernel(doc: Document, value: str, index: int, rank: int) -> None:
    match = re.match(r"\D{0,10}(\d{1,2}\.\d{1,3}[\w.+~-]*)", value)
    if match:
        doc.put("system.kernel", match[1], index, rank)
        wsl = systems.wsl_of_kernel(match[1])
        if wsl:
            doc.put("system.wsl", wsl, index, rank)


def cores(doc: Document, value: str, index: int, rank: int) -> None:
    if value.isdecimal():
        doc.put("system.cores_logical", int(value), index, rank)


def rosetta(doc: Document, value: str, index: int, rank: int) -> None:
    doc.put("system.rosetta", values.boolean(value), index, rank)


def ram(doc: Document, value: str, index: int, rank: int) -> None:
    found = gpu_names.memory_of(value)
    if found:
        doc.put("system.ram", found, index, rank)


def macos(doc: Document, value: str, index: int, rank: int) -> None:
    found = systems.os_of(f"macOS {value}") if value[:1].isdigit() else systems.os_of(value)
    if found and found.os == "macos":
        systems.put_os(doc, found, index, rank)
