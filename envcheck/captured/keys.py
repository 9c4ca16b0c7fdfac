"""`Key: value` lines, of every tool's environment block and as people write them.

A line is read by its key alone, wherever it stands, so a block may be partial, shuffled or cut. `collect_env` of all
years, the issue templates, accelerate, transformers, vLLM, lightning, detectron2, fastai and start-up logs share the
table.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from envcheck.captured import gpu_names, values
from envcheck.captured.document import IMPLIED, LISTED, NOTED, SAID, Document, word_set
from envcheck.facts import AmdGpu, CudaToolkit, Distribution, EnvVar, NvidiaGpu, Outcome, TorchDevice
from envcheck.lazy import Regex

Handler = Callable[[Document, str, int, int], None]
"""(document, value, line index, rank)"""
Handler3 = Callable[[Document, str, int], None]
"""The same where the rank is fixed."""

_SEPARATOR = Regex(r"\s{0,60}(?::(?!/{2}|:)|=>|->|(?<![=!<>])=(?!=))\s{0,80}|\?\s{1,80}(?=(?:True|False|Yes|No)\b)")
_BULLET = Regex(r"^[\s>*\-\u2022\u00b7#+|\u251c\u2500\u2514]{1,40}(?=\S)")
_PARENTHESES = Regex(r"\s{0,9}[(\[][^()\[\]]{0,80}[)\]]?")
_LOGGER = Regex(
    r"^(?:\[?\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d[\d.,]{0,12}\]?|\d\d:\d\d:\d\d[-.,\d]{0,12})?[\s\-|\[]{0,40}(?:\w{1,40}[\s|])?\s{0,40}(?:INFO|DEBUG)[\]:|\s-]{1,4}(?:\d\d-\d\d \d\d:\d\d:\d\d )?(?:\[[^\]]{1,60}\][: ]{0,2})?",
)
_GPU_INDICES = Regex(r"gpu [\d ]{1,60}")
_WORDS = Regex(r"[^a-z0-9_./+-]+")

ALLOWED_ENV = Regex(
    r"(?:CUDA|NVIDIA|DYLD|PYTORCH|TORCH|TORCHDYNAMO|TORCHINDUCTOR|TRITON|CUBLAS|CUDNN|NCCL|GLOO|HSA|HIP|ROCR|ROCM|ONEAPI|ZE|SYCL"
    r"|MKL|OMP|KMP|ATEN|ONEDNN|CONDA)_\w+|LD_LIBRARY_PATH|LD_PRELOAD|PYTHONPATH|PYTHONHOME|PYTHONNOUSERSITE|GPU_DEVICE_ORDINAL"
    r"|CONDA_PREFIX|CONDA_DEFAULT_ENV|VIRTUAL_ENV|UV_TORCH_BACKEND|UV_PYTHON|CC|CXX|SLURM_JOB_ID|MASTER_ADDR|MASTER_PORT|WORLD_SIZE|RANK|LOCAL_RANK"
)
_NOT_ENV = Regex(r"CUDA_(?:VERSION|AVAILABLE|HOME_NOT)|TORCH_VERSION|NVIDIA_SMI|ROCM_VERSION|CUDNN_VERSION")


def split(line: str) -> tuple[str, str] | None:
    """(key, value) of a line, the key in lower case without decoration; None when it has no such shape."""
    if ":" not in line and "=" not in line and "->" not in line and "? " not in line:
        return None
    body = _BULLET.sub("", line) if line[:1] in " >*-\u2022\u00b7#+|\u251c\u2514\t" else line
    if "INFO" in body or "DEBUG" in body:
        body = _LOGGER.sub("", body, count=1)
    match = _SEPARATOR.search(body)
    if match is None or match.start() > 60:
        return None
    key = clean_key(body[: match.start()])
    value = body[match.end() :].strip().strip("*`").strip()
    return (key, value) if key else None


def clean_key(text: str) -> str:
    """ "**PyTorch Version** (e.g., 1.0)" -> "pytorch version"."""
    key = text.lower().replace("(s)", "s").replace("`", " ").replace("*", " ").replace('"', " ").replace("'", " ")
    if "(" in key or "[" in key:
        stripped = _PARENTHESES.sub(" ", key)
        # `torch.cuda.is_available()` loses only its empty parentheses.
        key = stripped if stripped.strip() else key
    return " ".join(_WORDS.sub(" ", key).split())


def parse(doc: Document) -> None:
    """Reads every line whose key is known."""
    for index, line in doc.short_lines():
        pair = split(line)
        if pair is None:
            continue
        key, value = pair
        if read(doc, key, value, index):
            doc.claim(index, errors=True)
        elif key in PACKAGE_KEYS:
            _package(doc, key, value, index)


def read(doc: Document, key: str, value: str, index: int) -> bool:
    """Reads one value by its (clean) key; False when nobody knows the key."""
    handler = KEYS.get(key) or (_gpu_indexed if _GPU_INDICES.fullmatch(key) else None)
    if handler is None:
        return False
    handler(doc, value, index, SAID if key in _BY_PROGRAM else LISTED)
    if key in MIXED and ("," in value or ";" in value):
        doc.mixed.append((index, value))
    return True


# --- handlers ------------------------------------------------------------------------------------------------------


def _ignore(doc: Document, value: str, index: int, rank: int) -> None:
    """A known key whose value nobody needs."""


def _torch_version(doc: Document, value: str, index: int, rank: int) -> None:
    if values.is_nothing(value):
        if value.strip().upper() == "N/A":
            # collect_env prints it when `import torch` raised.
            doc.put(
                "torch.imports", Outcome(status="failed", detail="the report's PyTorch fields are N/A"), index, IMPLIED
            )
        return
    found = values.torch_version(value)
    if found is None:
        return
    doc.put("torch.version", found, index, rank)
    available = re.search(r"\((True|False|CUDA|NPU|XPU|MPS|NA|HPU|MLU)\)", value)
    if available and available[1] in ("True", "False"):
        doc.put("torch.cuda_available", available[1] == "True", index, LISTED)
    elif available and available[1] in ("CUDA", "NA"):
        doc.put("torch.cuda_available", available[1] == "CUDA", index, LISTED)
    elif available and available[1] == "XPU":
        doc.put("torch.xpu_available", True, index, LISTED)
    place = re.search(r"@\s?(\S+[/\\]torch)\b", value)
    if place:
        doc.put("torch.location", place[1], index, rank)
    cuda = re.search(r"\((?:torch\.version\.cuda|cuda|CUDA)[ :=]{0,3}(\d{1,2}\.\d)\)", value)
    if cuda:
        doc.put("torch.cuda", cuda[1], index, rank)


def _torch_cuda(doc: Document, value: str, index: int, rank: int) -> None:
    """ "CUDA used to build PyTorch". Without a CUDA build it says None, or "Could not collect" when nvcc or a driver is
    there; N/A stands for a ROCm build or for a torch that cannot be imported, which the other fields tell apart.
    """
    lowered = value.lower()
    if lowered.startswith(("none", "could not collect")):
        doc.put("torch.cuda?", "", index, rank)
    elif lowered == "n/a":
        doc.put("torch.cuda?", "n/a", index, rank)
    else:
        _put_cuda(doc, value, index, rank)


def _put_cuda(doc: Document, value: str, index: int, rank: int) -> None:
    found = values.cuda_version(value)
    if found:
        doc.put("torch.cuda", found, index, rank)
    elif values.is_nothing(value):
        doc.put("torch.cuda?", "", index, rank)


def _torch_hip(doc: Document, value: str, index: int, rank: int) -> None:
    found = values.number(value)
    doc.put("torch.hip" if found else "torch.hip?", found or "", index, rank)


def _torch_xpu(doc: Document, value: str, index: int, rank: int) -> None:
    if not values.is_nothing(value):
        doc.put("torch.xpu", value.split(maxsplit=1)[0], index, rank)


def _flag(name: str) -> Handler:
    def handler(doc: Document, value: str, index: int, rank: int) -> None:
        doc.put(name, values.boolean(value), index, rank)

    return handler


def _cuda_available(doc: Document, value: str, index: int, rank: int) -> None:
    doc.put("torch.cuda_available", values.boolean(value), index, SAID)


def _text(name: str) -> Handler:
    def handler(doc: Document, value: str, index: int, rank: int) -> None:
        if not values.is_nothing(value):
            doc.put(name, value, index, rank)

    return handler


def _number(name: str) -> Handler:
    def handler(doc: Document, value: str, index: int, rank: int) -> None:
        if not values.is_nothing(value):
            doc.put(name, values.version(value) or values.number(value), index, rank)

    return handler


def _os(doc: Document, value: str, index: int, rank: int) -> None:
    found = values.os_of(value)
    if found is not None:
        values.put_os(doc, found, index, rank)
    elif values.machine(value):
        doc.put("system.machine", values.machine(value), index, rank)
    chip = gpu_names.apple_chip(value)
    if chip:
        doc.put("apple.chip", chip, index, NOTED)
    _os_extras(doc, value, index)


def _os_extras(doc: Document, value: str, index: int) -> None:
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


def _python(doc: Document, value: str, index: int, rank: int) -> None:
    values.put_python(doc, value, index, rank)
    if re.search(r"\bx86_64|arm64|aarch64|AMD64", value):
        doc.put("python.machine", values.machine(value, "macos" if "arm64" in value else None), index, NOTED)


def _platform(doc: Document, value: str, index: int, rank: int) -> None:
    found = values.os_of(value)
    if found is not None:
        values.put_os(doc, found, index, rank if found.kernel or found.version else NOTED)


def _libc(doc: Document, value: str, index: int, rank: int) -> None:
    match = re.search(r"(glibc|musl)?[- ]?(\d\.\d{1,3})", value, re.IGNORECASE)
    if match:
        doc.put("system.libc", (match[1] or "glibc").lower(), index, rank)
        doc.put("system.libc_version", match[2], index, rank)


def _nvcc(doc: Document, value: str, index: int, rank: int) -> None:
    """ "CUDA runtime version" of collect_env is what its nvcc says."""
    if values.is_nothing(value):
        return
    found = values.cuda_version(value)
    if found:
        doc.put("toolchain.nvcc_version", found, index, rank)


def _cuda_said(doc: Document, value: str, index: int, rank: int) -> None:
    """ "CUDA: 11.8": torch's, the driver's or the toolkit's? Only what the text adds can tell."""
    if values.boolean(value) is not None and not re.match(r"\W*\d", value):
        doc.put("torch.cuda_available", values.boolean(value), index, NOTED)
        return
    for part in re.split(r",|;|(?<=\))\s", value):
        if put_cuda_part(doc, part, index):
            continue
        found = values.cuda_version(part)
        if found:
            doc.add("toolchain.cuda_toolkits", CudaToolkit(version=found), index, NOTED)
    cudnn = re.search(r"cudnn[ :=v]{0,4}(\d[\d.]*)|/ ?(\d\.\d[\d.]*)$", value, re.IGNORECASE)
    if cudnn:
        doc.put("torch.cudnn", values.dotted_cudnn(cudnn[1] or cudnn[2]), index, NOTED)


def put_cuda_part(doc: Document, part: str, index: int) -> bool:
    """ "12.2 (nvidia-smi)", "11.8 (torch)", "12.4 (nvcc)": the word in it says whose CUDA version it is."""
    found = values.cuda_version(re.sub(r"driver\D{0,12}\d{3}[\d.]*", "", part, flags=re.IGNORECASE))
    lowered = part.lower()
    driver = re.search(r"driver\D{0,12}(\d{3}\.[\d.]+)", lowered)
    if driver:
        doc.put("nvidia.driver_version", values.driver_version(driver[1]), index, NOTED)
    if not found:
        return driver is not None
    if re.search(r"nvidia[- ]?smi|driver|host", lowered):
        doc.put("nvidia.driver_cuda", ".".join(found.split(".")[:2]), index, NOTED)
    elif re.search(r"nvcc|toolkit|/usr/local", lowered):
        doc.put("toolchain.nvcc_version", found, index, NOTED)
    elif re.search(r"torch|wheel|build", lowered):
        doc.put("torch.cuda", found, index, NOTED)
    else:
        return False
    return True


def _driver(doc: Document, value: str, index: int, rank: int) -> None:
    """The driver's version; a CUDA version in the same line is the driver's too."""
    found = values.driver_version(value)
    if found:
        doc.put("nvidia.driver_version", found, index, rank)
        cuda = re.search(r"cuda\D{0,12}(\d{1,2}\.\d)", value, re.IGNORECASE)
        if cuda:
            doc.put("nvidia.driver_cuda", cuda[1], index, NOTED)
    elif re.match(r"no cuda|could not collect", value, re.IGNORECASE):
        doc.put("nvidia.smi", Outcome(status="missing", detail=f"collect_env: {value}"), index, IMPLIED)
    elif re.fullmatch(r"\D{0,12}(\d{3})\D{0,20}", value):
        branch = re.search(r"\d{3}", value)
        doc.put("nvidia.driver_version", branch[0] if branch else None, index, NOTED)


def _gpu(doc: Document, value: str, index: int, rank: int) -> None:
    """GPUs in one line; collect_env's several lines are read by `collect_env`."""
    if re.match(r"no cuda|could not collect", value, re.IGNORECASE):
        doc.put("nvidia.smi", Outcome(status="missing", detail=f"collect_env: {value}"), index, IMPLIED)
        return
    if re.match(r"none\b|no gpu|cpu\b|no\b", value, re.IGNORECASE):
        return
    put_gpus(doc, value, index, rank, expected=True)


def put_gpus(doc: Document, text: str, index: int, rank: int, *, expected: bool) -> int:
    """Notes the GPUs that a text names; how many names there were."""
    found = gpu_names.gpus_of(text, expected=expected)
    if not found and expected:
        short = re.fullmatch(
            r"\W*(?:NVIDIA )?([1-5]0[5-9]0)[ -]?(ti|super|s)?( super)?(?: laptop)?\W*(?:\d+ ?GB?\W*)?",
            text,
            re.IGNORECASE,
        )
        if short:
            family = "GTX" if short[1].startswith("10") else "RTX"
            tail = f" {short[2]}" if short[2] else ""
            found = [gpu_names.GpuText("nvidia", f"GeForce {family} {short[1]}{tail}", 0, 0)]
    for gpu in found:
        if gpu.vendor == "nvidia":
            for position in range(gpu.count):
                known = gpu.index if gpu.count == 1 else position
                doc.add(
                    "nvidia.gpus",
                    NvidiaGpu(index=known, name=gpu.name, compute_capability=gpu.capability, memory_total=gpu.memory),
                    index,
                    rank,
                )
        elif gpu.vendor == "amd":
            gfx = gpu_names.gfx_of(text)
            doc.add(
                "amd.gpus", AmdGpu(name=gpu.name, gfx=gfx[0] if gfx else None, memory_total=gpu.memory), index, rank
            )
        elif not gpu_names.speaks_of_cpu(text):
            doc.add("intel.gpus", gpu.name, index, rank)
    return len(found)


def _gpu_indexed(doc: Document, value: str, index: int, rank: int) -> None:
    """ "GPU 0: NVIDIA A100 (UUID: ...)", "GPU 0,1: GeForce RTX 2080 Ti (arch=7.5)"."""
    name = re.split(r"\s*\((?:UUID|arch|cc|sm_|compute)|\s*\|", value, maxsplit=1)[0].strip(" ,")
    key = re.search(r"gpu[ ]?([\d, -]{1,40})", doc.lines[index], re.IGNORECASE)
    which = [int(n) for n in re.findall(r"\d{1,3}", key[1])] if key else []
    if not name or values.is_nothing(name) or not which:
        return
    capability = gpu_names.capability_of(value)
    vendors = {g.vendor for g in gpu_names.gpus_of(name, expected=True)}
    for position in which[:64]:
        if "amd" in vendors and "nvidia" not in vendors:
            doc.add("amd.gpus", AmdGpu(name=name), index, rank)
        elif "intel" in vendors and "nvidia" not in vendors:
            doc.add("intel.gpus", name, index, rank)
        elif vendors or re.search(r"nvidia|graphics device|tesla|quadro|geforce", name, re.IGNORECASE):
            doc.add("nvidia.gpus", NvidiaGpu(index=position, name=name, compute_capability=capability), index, rank)


def _cudnn(doc: Document, value: str, index: int, rank: int) -> None:
    """A path or several lines of paths (collect_env: the system's cuDNN), or a number (torch's own)."""
    if values.is_nothing(value) or value.lower().startswith(("probably", "no cuda")):
        return
    if "libcudnn" in value or ("cudnn" in value.lower() and ("/" in value or "\\" in value)):
        put_cudnn_file(doc, value, index)
        return
    doc.put("torch.cudnn", values.dotted_cudnn(value), index, NOTED)


def put_cudnn_file(doc: Document, path: str, index: int) -> None:
    """ "/usr/lib/x86_64-linux-gnu/libcudnn.so.8.6.0" -> the version of a system cuDNN."""
    match = re.search(r"libcudnn[\w]*\.so\.(\d[\d.]*)|cudnn\w*64_(\d)\.dll", path)
    if match:
        doc.add("toolchain.cudnn_system", match[1] or match[2], index, LISTED)


def _capability(doc: Document, value: str, index: int, rank: int) -> None:
    match = re.search(r"(?:sm_?)?(\d{1,2})(?:\.|, ?)(\d)|sm_?(\d{2,3})", value)
    if match:
        found = f"{match[3][:-1]}.{match[3][-1]}" if match[3] else f"{match[1]}.{match[2]}"
        doc.put("gpu.capability", found, index, rank)


def _env(doc: Document, name: str, value: str, index: int, rank: int) -> None:
    if value.lower().strip() not in ("n/a", "<not set>", "not set", "unset", "none", "(not set)", "not defined"):
        doc.add("env", EnvVar(name=name, value=value.strip().strip("'\"")), index, rank)


def _module_loading(doc: Document, value: str, index: int, rank: int) -> None:
    if value and not values.is_nothing(value):
        _env(doc, "CUDA_MODULE_LOADING", value, index, rank)


def _cuda_home(doc: Document, value: str, index: int, rank: int) -> None:
    if values.is_nothing(value):
        return
    doc.put("toolchain.cuda_home", value.partition(" (")[0], index, rank)
    match = re.search(r"cuda[-/\\]v?(\d{1,2}\.\d)", value, re.IGNORECASE)
    if match:
        doc.add("toolchain.cuda_toolkits", CudaToolkit(path=value.partition(" (")[0], version=match[1]), index, rank)


def _gcc(doc: Document, value: str, index: int, rank: int) -> None:
    """ "(Ubuntu 9.4.0-1ubuntu1~20.04) 9.4.0": the last number is the version."""
    found = re.findall(r"\d{1,2}\.\d{1,2}(?:\.\d{1,2})?(?![\w.-]*[~-])", value)
    if found and not values.is_nothing(value):
        doc.put("toolchain.gcc_version", found[-1], index, rank)
        if "Ubuntu" in value and doc.draft.first("system.os") is None:
            doc.put("system.os", "linux", index, IMPLIED)


def _machine(doc: Document, value: str, index: int, rank: int) -> None:
    found = values.machine(value, doc.draft.first("system.os"))
    doc.put("system.machine", found, index, rank)


def _chip(doc: Document, value: str, index: int, rank: int) -> None:
    chip = gpu_names.apple_chip(value if "apple" in value.lower() else f"apple {value}")
    if chip:
        doc.put("apple.chip", chip, index, rank)
        doc.put("system.os", "macos", index, IMPLIED)
        doc.put("system.machine", "arm64", index, IMPLIED)


def _cpu(doc: Document, value: str, index: int, rank: int) -> None:
    if "apple" in value.lower():
        _chip(doc, value, index, rank)
    elif value and not re.fullmatch(r"[\d.% ]+", value):
        doc.put("system.cpu_model", value, index, rank)


def _flags(doc: Document, value: str, index: int, rank: int) -> None:
    words = set(value.split())
    if len(words) < 8:
        return
    doc.put("system.cpu_flags", tuple(sorted(words & CPU_FLAGS)), index, SAID)


CPU_FLAGS = word_set(
    "sse4_1 sse4_2 ssse3 avx avx2 avx512f avx512bw avx512vl avx512dq avx512_vnni avx512_bf16 avx_vnni amx_tile amx_bf16 amx_int8 f16c"
    " fma bmi2 asimd sve sve2 bf16 i8mm asimdhp"
)


def _virtual(doc: Document, value: str, index: int, rank: int) -> None:
    if not values.is_nothing(value):
        doc.put("system.virtual_machine", value, index, rank)


def _wsl(doc: Document, value: str, index: int, rank: int) -> None:
    lowered = value.lower()
    if lowered.startswith(("no", "false")):
        return
    doc.put("system.wsl", 1 if re.match(r"(?:wsl)? ?1(?![.\d])", lowered) else 2, index, rank)
    doc.put("system.os", "linux", index, rank)


def _rocm(doc: Document, value: str, index: int, rank: int) -> None:
    found = values.number(value.replace("(", "").replace(", ", "."))
    if found and int(found.partition(".")[0]) <= 20:
        doc.put("amd.rocm_version", found, index, rank)


def _open_files(doc: Document, value: str, index: int, rank: int) -> None:
    match = re.search(r"\d{3,9}", value)
    if match:
        doc.put("system.open_files_soft", int(match[0]), index, rank)


def _size(name: str) -> Handler:
    def handler(doc: Document, value: str, index: int, rank: int) -> None:
        match = re.search(r"(\d{1,12}(?:\.\d{1,3})?) ?([kmgt])?i?b?\b", value, re.IGNORECASE)
        if match:
            unit = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}[(match[2] or "").lower()]
            doc.put(name, int(float(match[1]) * unit), index, rank)

    return handler


def _selinux(doc: Document, value: str, index: int, rank: int) -> None:
    match = re.search(r"enforcing|permissive|disabled", value, re.IGNORECASE)
    if match:
        doc.put("system.selinux", match[0].lower(), index, rank)


def _jetson(doc: Document, value: str, index: int, rank: int) -> None:
    if re.search(r"jetson|orin|xavier|nano|tx[12]|thor", value, re.IGNORECASE):
        doc.put("system.jetson_model", value[:80], index, rank)
        doc.put("system.os", "linux", index, IMPLIED)
        doc.put("system.machine", "aarch64", index, IMPLIED)


def _jetpack(doc: Document, value: str, index: int, rank: int) -> None:
    doc.put("system.jetpack", values.number(value), index, rank)
    l4t = re.search(r"l4t\D{0,4}r?(\d{2}\.\d{1,2}(?:\.\d{1,2})?)", value, re.IGNORECASE)
    if l4t:
        doc.put("system.l4t", l4t[1], index, rank)


def _l4t(doc: Document, value: str, index: int, rank: int) -> None:
    doc.put("system.l4t", values.number(value.lstrip("rR")), index, rank)


def _installed_with(doc: Document, value: str, index: int, rank: int) -> None:
    lowered = value.lower()
    for word in ("conda", "pip", "poetry", "uv", "pixi", "source"):
        if re.search(rf"\b{word}", lowered):
            doc.put("torch.manager", word, index, rank)
            return


def _container(doc: Document, value: str, index: int, rank: int) -> None:
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


def _conda_env(doc: Document, value: str, index: int, rank: int) -> None:
    if value and not values.is_nothing(value) and len(value) < 60:
        doc.put("python.conda_env", value, index, rank)


def _executable(doc: Document, value: str, index: int, rank: int) -> None:
    if re.search(r"python", value, re.IGNORECASE):
        doc.put("python.executable", value, index, rank)


def _arch_flags(doc: Document, value: str, index: int, rank: int) -> None:
    """ "NVCC architecture flags: -gencode;arch=compute_37,code=sm_37;...": the arch list of the build."""
    found = re.findall(r"code=((?:sm|compute)_\d{2,3}[af]?)", value)
    if found:
        doc.put("torch.arch_list", tuple(dict.fromkeys(found)), index, SAID)


def _arch_list(doc: Document, value: str, index: int, rank: int) -> None:
    found = re.findall(r"(?:sm|compute)_\d{2,3}[af]?|gfx\d{3,4}[a-f]?", value)
    if found or value.strip() in ("[]", "()"):
        doc.put("torch.arch_list", tuple(dict.fromkeys(found)), index, SAID)


def _device(doc: Document, value: str, index: int, rank: int) -> None:
    """ "Device: cuda:0 NVIDIA GeForce RTX 3060 : cudaMallocAsync" of start-up logs; "device: cpu" says nothing."""
    match = re.match(r"(cuda|xpu|mps)(?::(\d))?[ :(]{1,3}(.{3,100})", value)
    if match:
        name = re.split(r" : |\(|,", match[3])[0].strip()
        put_device(doc, match[1], int(match[2] or 0), name, index)
    else:
        put_gpus(doc, value, index, rank, expected=False)


def put_device(doc: Document, kind: str, number: int, name: str, index: int, rank: int = SAID) -> None:
    """A device as torch calls it."""
    vendor = {g.vendor for g in gpu_names.gpus_of(name, expected=True)}
    doc.add(
        "torch.devices",
        TorchDevice(kind=kind, index=number, name=name, compute_capability=None),
        index,
        rank,
    )
    if kind == "cuda" and vendor == {"amd"}:
        doc.add("amd.gpus", AmdGpu(name=name), index, LISTED)
    elif kind == "cuda":
        doc.put("torch.cuda_available", True, index, IMPLIED)


def _kernel(doc: Document, value: str, index: int, rank: int) -> None:
    match = re.match(r"\D{0,10}(\d{1,2}\.\d{1,3}[\w.+~-]*)", value)
    if match:
        doc.put("system.kernel", match[1], index, rank)
        wsl = values.wsl_of_kernel(match[1])
        if wsl:
            doc.put("system.wsl", wsl, index, rank)


def _kernel_driver(doc: Document, value: str, index: int, rank: int) -> None:
    doc.put("nvidia.kernel_driver_version", values.driver_version(value), index, rank)


def _torchvision_cuda(doc: Document, value: str, index: int, rank: int) -> None:
    doc.put("companion.torchvision.cuda", values.cuda_version(value), index, rank)


def _threads(doc: Document, value: str, index: int, rank: int) -> None:
    if value.isdecimal():
        doc.put("torch.threads", int(value), index, rank)


def _cores(doc: Document, value: str, index: int, rank: int) -> None:
    if value.isdecimal():
        doc.put("system.cores_logical", int(value), index, rank)


def _abi(doc: Document, value: str, index: int, rank: int) -> None:
    doc.put("torch.cxx11_abi", values.boolean(value), index, rank)


def _xpu_compiled(doc: Document, value: str, index: int, rank: int) -> None:
    found = values.boolean(value)
    if found is not None:
        doc.put("torch.xpu", "yes" if found else "", index, rank)


def _level_zero(doc: Document, value: str, index: int, rank: int) -> None:
    if not values.is_nothing(value):
        doc.put("intel.level_zero", value.split(maxsplit=1)[0], index, rank)


def _intel_driver(doc: Document, value: str, index: int, rank: int) -> None:
    if value and not values.is_nothing(value):
        doc.put("intel.driver_version", values.number(value), index, rank)


def _rocm_tuple(doc: Document, value: str, index: int, rank: int) -> None:
    _rocm(doc, value, index, rank)


def _amd_arch(doc: Document, value: str, index: int, rank: int) -> None:
    for gfx in gpu_names.gfx_of(value):
        doc.add("amd.gpus", AmdGpu(gfx=gfx), index, rank)


def _rosetta(doc: Document, value: str, index: int, rank: int) -> None:
    doc.put("system.rosetta", values.boolean(value), index, rank)


def _vram(doc: Document, value: str, index: int, rank: int) -> None:
    """ "Total VRAM 24564 MB, total RAM ..." is read in `apps`; here only the plain key."""
    doc.put("gpu.memory", gpu_names.memory_of(value), index, rank)


def _ram(doc: Document, value: str, index: int, rank: int) -> None:
    found = gpu_names.memory_of(value)
    if found:
        doc.put("system.ram", found, index, rank)


def _macos(doc: Document, value: str, index: int, rank: int) -> None:
    found = values.os_of(f"macOS {value}") if value[:1].isdigit() else values.os_of(value)
    if found and found.os == "macos":
        values.put_os(doc, found, index, rank)


def _table(handler: Handler, *keys: str) -> dict[str, Handler]:
    return dict.fromkeys(keys, handler)


KEYS: dict[str, Handler] = {
    **_table(_torch_version, "pytorch version", "torch version", "pytorch", "torch", "torch.__version__", "version of pytorch", "pytorch ver",
             "pytorch-version", "torch_version", "pytorch_version", "pytorch/torch version", "installed torch", "installed pytorch", "print torch.__version__"),
    **_table(_torch_cuda, "cuda used to build pytorch"),
    **_table(_put_cuda, "torch.version.cuda", "torch cuda", "torch cuda version", "pytorch cuda version", "cuda version of torch", "torch.cuda version",
             "pytorch cuda", "torch cuda build", "cuda runtime", "cuda version from torch", "cuda used by pytorch", "built with cuda",
             "print torch.version.cuda", "cuda_version of torch"),
    **_table(_torch_hip, "rocm used to build pytorch", "torch.version.hip", "hip version of torch"),
    **_table(_torch_xpu, "xpu used to build pytorch"),
    **_table(_flag("torch.debug"), "is debug build", "pytorch debug build"),
    **_table(_cuda_available, "is cuda available", "cuda available", "torch.cuda.is_available", "cuda is available", "gpu available", "torch cuda available",
             "cuda_available", "torch.cuda.is_available result", "is cuda available in torch", "pytorch cuda available", "print torch.cuda.is_available",
             "cuda available in pytorch", "is_cuda_available", "gpu_available", "cuda enabled"),
    **_table(_flag("torch.xpu_available"), "is xpu available", "torch.xpu.is_available", "xpu available", "pytorch xpu available"),
    **_table(_flag("torch.mps_available"), "mps_available", "mps available", "torch.backends.mps.is_available", "is mps available", "pytorch mps available",
             "mps is available"),
    **_table(_flag("torch.mps_built"), "mps_built", "mps built", "torch.backends.mps.is_built", "is mps built", "pytorch mps built"),
    **_table(_xpu_compiled, "torch.xpu._is_compiled"),
    **_table(_abi, "pytorch cxx11 abi", "_glibcxx_use_cxx11_abi", "torch._c._glibcxx_use_cxx11_abi", "torch.compiled_with_cxx11_abi", "cxx11 abi", "cxx11_abi"),
    **_table(_os, "os", "operating system", "os version", "host os", "os platform", "os platform and distribution", "os/platform", "os name", "distro", "distribution",
             "system", "operating system version", "os name and version", "my os", "os / platform", "pretty_name", "distrib_description", "description",
             "os and version", "guest os", "linux distribution", "os distribution", "linux distro", "operating system / version", "os type and version"),
    **_table(_platform, "python platform", "platform", "platform.platform", "sys.platform", "os info", "system info", "system version", "release", "sysname"),
    **_table(_machine, "machine", "architecture", "arch", "processor architecture", "cpu architecture", "platform.machine", "hardware platform", "os architecture",
             "system type", "uname -m"),
    **_table(_kernel, "kernel", "kernel version", "linux kernel", "linux kernel version", "kernel release", "uname -r"),
    **_table(_libc, "libc version", "glibc version", "glibc", "libc", "ldd version", "glibc_version"),
    **_table(_python, "python version", "python", "python ver", "python-version", "python_version", "sys.version", "version of python", "python3", "py version",
             "python interpreter version", "python version used", "platform python", "python runtime"),
    **_table(_executable, "python executable", "sys.executable", "python path", "python interpreter", "python binary", "python_executable", "which python", "python exe"),
    **_table(_nvcc, "cuda runtime version", "nvcc", "nvcc version", "cuda toolkit", "cuda toolkit version", "cuda compiler", "cuda toolkit nvcc", "cuda toolkit release",
             "system cuda", "system cuda version", "cuda compilation tools", "installed cuda toolkit", "nvcc --version", "nvcc cuda version", "cudatoolkit version", "cuda nvcc version",
             "cuda compiler version"),
    **_table(_cuda_said, "cuda version", "cuda", "cuda/cudnn version", "cuda / cudnn version", "cuda/cudnn", "cuda and cudnn version", "cuda ver", "version of cuda", "cuda-version",
             "cuda_version", "cuda runtime and driver", "cuda version used", "installed cuda", "cuda driver / runtime version", "cuda driver/runtime"),
    **_table(_cuda_home, "cuda_home", "cuda home", "cuda_path", "cuda path", "cuda root", "cuda_toolkit_root_dir"),
    **_table(_driver, "nvidia driver version", "driver version", "nvidia driver", "driver", "gpu driver", "nvidia-driver", "nvidia driver ver", "gpu driver version",
             "driver_version", "nvidia gpu driver", "nvidia drivers", "nvidia drivers version", "cuda driver", "driver ver", "graphics driver", "nvidia graphics driver", "nvidia-smi driver version",
             "nvidia-smi", "nvidia smi", "host driver", "cuda driver version", "nvidia kernel driver", "windows driver", "nvidia-driver version"),
    **_table(_kernel_driver, "kmod", "kernel module", "nvidia kernel module", "nvrm version", "kernel module version", "nvidia-kmod", "kmod-nvidia", "akmod-nvidia", "nvidia kmod"),
    **_table(_gpu, "gpu models and configuration", "gpu", "gpus", "gpu model", "gpu models", "gpu type", "graphics card", "video card", "gpu name", "accelerator", "accelerators",
             "gpu card", "graphics", "gpu used", "gpu device", "gpu info", "nvidia gpu", "nvidia gpus", "hardware", "gpu hardware", "device name", "cuda device", "gpu_name",
             "gpu devices", "gpu model and memory", "chipset model", "card", "gpu and driver", "torch.cuda.get_device_name", "cuda device name", "gpu_type",
             "gpu configuration", "using gpu", "cuda devices", "name of gpu", "gpu / accelerator", "vga", "machine gpu", "card series", "nvidia-smi -l", "nvidia-smi --list-gpus", "gpu used in script", "gpu hardware used", "product name"),
    **{f"gpu {n}": _gpu_indexed for n in range(16)},
    **{f"gpu{n}": _gpu_indexed for n in range(16)},
    **_table(_cudnn, "cudnn version", "cudnn", "torch.backends.cudnn.version", "torch cudnn", "torch cudnn version", "pytorch cudnn version", "cudnn_version"),
    **_table(_capability, "compute capability", "cuda capability", "gpu compute capability", "torch.cuda.get_device_capability", "device capability", "cuda compute capability", "capability",
             "gpu arch", "gpu architecture", "cuda capability major/minor version number"),
    **_table(_module_loading, "cuda_module_loading set to"),
    **_table(_gcc, "gcc version", "gcc", "c compiler", "gcc/compiler version", "compiler version"),
    **_table(_number("toolchain.cmake_version"), "cmake version"),
    **_table(_chip, "chip", "apple silicon", "soc", "mac chip", "apple chip"),
    **_table(_cpu, "cpu", "model name", "processor", "cpu model", "cpu name", "processor name", "cpu brand", "cpu type"),
    **_table(_flags, "flags", "cpu flags", "features"),
    **_table(_virtual, "hypervisor vendor", "hypervisor", "virtualization vendor"),
    **_table(_cores, "cpus"),
    **_table(_wsl, "wsl", "wsl version", "wsl2"),
    **_table(_rocm, "rocm version", "rocm", "installed rocm", "rocm_version", "rocm runtime", "rocm/hip version", "rocm toolkit"),
    **_table(_amd_arch, "amd arch", "gfx", "gcn arch", "gcnarchname", "gfx version", "gfx target"),
    **_table(_open_files, "ulimit", "ulimit -n", "open files", "max open files", "nofile", "rlimit_nofile", "max file descriptors"),
    **_table(_size("system.shm_size"), "shm", "shm size", "shm_size", "/dev/shm", "shared memory", "/dev/shm size", "shmsize"),  # noqa: S108 - a key that people write
    **_table(_selinux, "selinux", "selinux status", "selinux mode", "current mode", "getenforce"),
    **_table(_jetson, "jetson", "jetson model", "jetson device", "device model", "board", "module", "jetson hardware"),
    **_table(_jetpack, "jetpack", "jetpack version", "jetpack sdk"),
    **_table(_l4t, "l4t", "l4t version", "jetson linux", "l4t release"),
    **_table(_installed_with, "how you installed pytorch", "installed via", "installed with", "installation method", "install method",
             "how did you install pytorch", "how you installed torch", "installed from", "pytorch install method"),
    **_table(_container, "docker", "container", "docker image", "container image", "image", "docker container", "running in docker", "in docker", "base image", "docker base image"),
    **_table(_conda_env, "conda env", "conda environment", "active environment", "conda_default_env", "env name"),
    **_table(_arch_flags, "nvcc architecture flags"),
    **_table(_arch_list, "torch.cuda.get_arch_list", "arch list", "arch_list", "torch arch list", "cuda arch list", "supported archs", "torch.cuda.get_arch_list result"),
    **_table(_device, "device", "using device", "torch device"),
    **_table(_torchvision_cuda, "torchvision.version.cuda"),
    **_table(_level_zero, "level zero version", "level-zero version", "level zero"),
    **_table(_intel_driver, "intel gpu driver version", "intel opencl icd version"),
    **_table(_rosetta, "rosetta", "running under rosetta"),
    **_table(_vram, "vram", "gpu memory", "gpu vram"),
    **_table(_ram, "ram", "system ram", "memory", "total ram"),
    **_table(_macos, "macos", "macos version", "productversion", "os x version", "mac os version", "mac os", "mac osx version"),
    **_table(_ignore, "rocm runtime version", "hip runtime version", "miopen runtime version", "is xnnpack available", "clang version", "versions of relevant libraries",
             "ipex version", "ipex commit", "build type", "igc version", "dpcpp runtime version", "rustc version", "byte order", "address sizes", "vendor id",
             "on-line cpus list", "threads per core", "cores per socket", "sockets", "stepping", "frequency boost", "cpu max mhz", "cpu min mhz", "bogomips",
             "l1d cache", "l1i cache", "l2 cache", "l3 cache", "numa nodes", "cpu op-modes", "cpu family", "model", "cpu mhz", "caching allocator config", "is caching allocator used"),
}  # fmt: skip
for _node in range(32):
    KEYS[f"numa node{_node} cpus"] = _ignore

_BY_PROGRAM = frozenset(
    ("pytorch version", "cuda used to build pytorch", "rocm used to build pytorch", "xpu used to build pytorch", "torch.__version__", "torch.version.cuda", "torch.version.hip",
     "python platform", "libc version", "nvidia driver version", "is cuda available", "is xpu available", "driver version", "torch.cuda.is_available",
     "torch.backends.mps.is_available", "torch.backends.mps.is_built", "pytorch cxx11 abi", "sys.version", "sys.executable")
)  # fmt: skip

MIXED = frozenset(
    (
        "gpu",
        "gpus",
        "os",
        "hardware",
        "system",
        "cuda",
        "cuda version",
        "platform",
        "device",
        "gpu model",
        "graphics card",
        "operating system",
        "machine",
        "docker",
        "container",
        "python",
        "pytorch",
        "torch",
    )
)
"""Keys of people's own lines, whose value may go on with other facts: "GPUs: 4x RTX 3090, CUDA 12.2, torch 2.0.1"."""

PACKAGE_KEYS = word_set(
    "torchvision torchaudio triton triton-windows pytorch-triton torchtext torchdata torchao xformers numpy flash-attn flash_attn flashattention flash-attention"
    " bitsandbytes transformers accelerate diffusers vllm deepspeed apex mmcv mmcv-full mmcv_full pytorch-lightning lightning pytorch_lightning tensorrt cupy numba onnx"
    " onnxruntime onnxruntime-gpu opencv-python nvidia-cudnn-cu11 nvidia-cudnn-cu12 nvidia-cudnn-cu13 nvidia-nccl-cu12 nvidia-nccl-cu13 cudatoolkit pytorch-cuda mkl"
    " intel-extension-for-pytorch ipex torch-scatter torch-sparse torch-cluster torch-geometric spconv sageattention detectron2 torchsde gsplat nvdiffrast pytorch3d"
    " scipy setuptools ninja pip cpuonly unsloth sentence-transformers auto-gptq autoawq exllamav2 causal-conv1d mamba-ssm natten kornia timm nccl"
)
_ALIASES = {"flashattention": "flash-attn", "flash-attention": "flash-attn", "ipex": "intel-extension-for-pytorch"}


def _package(doc: Document, key: str, value: str, index: int) -> None:
    """ "torchvision: 0.26.0", "triton :3.1.0"."""
    if key == "nccl":
        doc.put("torch.nccl", values.number(value), index, NOTED)
        return
    name = _ALIASES.get(key, key).replace("_", "-")
    found = values.version(value) or (values.number(value) if re.match(r"v?\d", value) else None)
    if found and re.match(r"[\"'v=(]{0,3}\d", value):
        doc.add("distributions", Distribution(name=name, version=found, line=index + 1), index, NOTED)
        doc.claim(index)
