"""What the value of a known key says: one small reader for each kind of value, used by the table in `keys`."""

from __future__ import annotations

import re
from collections.abc import Callable

from envcheck.captured import gpu_names, values
from envcheck.captured.document import IMPLIED, LISTED, NOTED, SAID, Document
from envcheck.facts import AmdGpu, CudaToolkit, EnvVar, NvidiaGpu, Outcome, TorchDevice
from envcheck.lazy import Regex

Handler = Callable[[Document, str, int, int], None]
"""(document, value, line index, rank)"""
Handler3 = Callable[[Document, str, int], None]
"""The same where the rank is fixed."""

ALLOWED_ENV = Regex(
    r"(?:CUDA|NVIDIA|DYLD|PYTORCH|TORCH|TORCHDYNAMO|TORCHINDUCTOR|TRITON|CUBLAS|CUDNN|NCCL|GLOO|HSA|HIP|ROCR|ROCM|ONEAPI|ZE|SYCL"
    r"|MKL|OMP|KMP|ATEN|ONEDNN|CONDA)_\w+|LD_LIBRARY_PATH|LD_PRELOAD|PYTHONPATH|PYTHONHOME|PYTHONNOUSERSITE|GPU_DEVICE_ORDINAL"
    r"|CONDA_PREFIX|CONDA_DEFAULT_ENV|VIRTUAL_ENV|UV_TORCH_BACKEND|UV_PYTHON|CC|CXX|SLURM_JOB_ID|MASTER_ADDR|MASTER_PORT|WORLD_SIZE|RANK|LOCAL_RANK"
)


def ignore(doc: Document, value: str, index: int, rank: int) -> None:
    """A known key whose value nobody needs."""


def torch_version(doc: Document, value: str, index: int, rank: int) -> None:
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


def torch_cuda(doc: Document, value: str, index: int, rank: int) -> None:
    """ "CUDA used to build PyTorch". Without a CUDA build it says None, or "Could not collect" when nvcc or a driver is
    there; N/A stands for a ROCm build or for a torch that cannot be imported, which the other fields tell apart.
    """
    lowered = value.lower()
    if lowered.startswith(("none", "could not collect")):
        doc.put("torch.cuda?", "", index, rank)
    elif lowered == "n/a":
        doc.put("torch.cuda?", "n/a", index, rank)
    else:
        put_cuda(doc, value, index, rank)


def put_cuda(doc: Document, value: str, index: int, rank: int) -> None:
    found = values.cuda_version(value)
    if found:
        doc.put("torch.cuda", found, index, rank)
    elif values.is_nothing(value):
        doc.put("torch.cuda?", "", index, rank)


def torch_hip(doc: Document, value: str, index: int, rank: int) -> None:
    found = values.number(value)
    doc.put("torch.hip" if found else "torch.hip?", found or "", index, rank)


def torch_xpu(doc: Document, value: str, index: int, rank: int) -> None:
    if not values.is_nothing(value):
        doc.put("torch.xpu", value.split(maxsplit=1)[0], index, rank)


def flag(name: str) -> Handler:
    def handler(doc: Document, value: str, index: int, rank: int) -> None:
        doc.put(name, values.boolean(value), index, rank)

    return handler


def cuda_available(doc: Document, value: str, index: int, rank: int) -> None:
    doc.put("torch.cuda_available", values.boolean(value), index, SAID)


def text(name: str) -> Handler:
    def handler(doc: Document, value: str, index: int, rank: int) -> None:
        if not values.is_nothing(value):
            doc.put(name, value, index, rank)

    return handler


def number(name: str) -> Handler:
    def handler(doc: Document, value: str, index: int, rank: int) -> None:
        if not values.is_nothing(value):
            doc.put(name, values.version(value) or values.number(value), index, rank)

    return handler


def nvcc(doc: Document, value: str, index: int, rank: int) -> None:
    """ "CUDA runtime version" of collect_env is what its nvcc says."""
    if values.is_nothing(value):
        return
    found = values.cuda_version(value)
    if found:
        doc.put("toolchain.nvcc_version", found, index, rank)


def cuda_said(doc: Document, value: str, index: int, rank: int) -> None:
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


def driver(doc: Document, value: str, index: int, rank: int) -> None:
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


def gpu(doc: Document, value: str, index: int, rank: int) -> None:
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


def gpu_indexed(doc: Document, value: str, index: int, rank: int) -> None:
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


def cudnn(doc: Document, value: str, index: int, rank: int) -> None:
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


def capability(doc: Document, value: str, index: int, rank: int) -> None:
    match = re.search(r"(?:sm_?)?(\d{1,2})(?:\.|, ?)(\d)|sm_?(\d{2,3})", value)
    if match:
        found = f"{match[3][:-1]}.{match[3][-1]}" if match[3] else f"{match[1]}.{match[2]}"
        doc.put("gpu.capability", found, index, rank)


def env(doc: Document, name: str, value: str, index: int, rank: int) -> None:
    if value.lower().strip() not in ("n/a", "<not set>", "not set", "unset", "none", "(not set)", "not defined"):
        doc.add("env", EnvVar(name=name, value=value.strip().strip("'\"")), index, rank)


def module_loading(doc: Document, value: str, index: int, rank: int) -> None:
    if value and not values.is_nothing(value):
        env(doc, "CUDA_MODULE_LOADING", value, index, rank)


def cuda_home(doc: Document, value: str, index: int, rank: int) -> None:
    if values.is_nothing(value):
        return
    doc.put("toolchain.cuda_home", value.partition(" (")[0], index, rank)
    match = re.search(r"cuda[-/\\]v?(\d{1,2}\.\d)", value, re.IGNORECASE)
    if match:
        doc.add("toolchain.cuda_toolkits", CudaToolkit(path=value.partition(" (")[0], version=match[1]), index, rank)


def rocm(doc: Document, value: str, index: int, rank: int) -> None:
    found = values.number(value.replace("(", "").replace(", ", "."))
    if found and int(found.partition(".")[0]) <= 20:
        doc.put("amd.rocm_version", found, index, rank)


def arch_flags(doc: Document, value: str, index: int, rank: int) -> None:
    """ "NVCC architecture flags: -gencode;arch=compute_37,code=sm_37;...": the arch list of the build."""
    found = re.findall(r"code=((?:sm|compute)_\d{2,3}[af]?)", value)
    if found:
        doc.put("torch.arch_list", tuple(dict.fromkeys(found)), index, SAID)


def arch_list(doc: Document, value: str, index: int, rank: int) -> None:
    found = re.findall(r"(?:sm|compute)_\d{2,3}[af]?|gfx\d{3,4}[a-f]?", value)
    if found or value.strip() in ("[]", "()"):
        doc.put("torch.arch_list", tuple(dict.fromkeys(found)), index, SAID)


def device(doc: Document, value: str, index: int, rank: int) -> None:
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


def kernel_driver(doc: Document, value: str, index: int, rank: int) -> None:
    doc.put("nvidia.kernel_driver_version", values.driver_version(value), index, rank)


def torchvision_cuda(doc: Document, value: str, index: int, rank: int) -> None:
    doc.put("companion.torchvision.cuda", values.cuda_version(value), index, rank)


def threads(doc: Document, value: str, index: int, rank: int) -> None:
    if value.isdecimal():
        doc.put("torch.threads", int(value), index, rank)


def abi(doc: Document, value: str, index: int, rank: int) -> None:
    doc.put("torch.cxx11_abi", values.boolean(value), index, rank)


def xpu_compiled(doc: Document, value: str, index: int, rank: int) -> None:
    found = values.boolean(value)
    if found is not None:
        doc.put("torch.xpu", "yes" if found else "", index, rank)


def level_zero(doc: Document, value: str, index: int, rank: int) -> None:
    if not values.is_nothing(value):
        doc.put("intel.level_zero", value.split(maxsplit=1)[0], index, rank)


def intel_driver(doc: Document, value: str, index: int, rank: int) -> None:
    if value and not values.is_nothing(value):
        doc.put("intel.driver_version", values.number(value), index, rank)


def rocm_tuple(doc: Document, value: str, index: int, rank: int) -> None:
    rocm(doc, value, index, rank)


def amd_arch(doc: Document, value: str, index: int, rank: int) -> None:
    for gfx in gpu_names.gfx_of(value):
        doc.add("amd.gpus", AmdGpu(gfx=gfx), index, rank)


def vram(doc: Document, value: str, index: int, rank: int) -> None:
    """ "Total VRAM 24564 MB, total RAM ..." is read in `apps`; here only the plain key."""
    doc.put("gpu.memory", gpu_names.memory_of(value), index, rank)
