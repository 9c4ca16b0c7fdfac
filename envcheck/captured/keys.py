"""`Key: value` lines, of every tool's environment block and as people write them.

A line is read by its key alone, wherever it stands, so a block may be partial, shuffled or cut. `collect_env` of all
years, the issue templates, accelerate, transformers, vLLM, lightning, detectron2, fastai and start-up logs share the
table.
"""

from __future__ import annotations

import re

from envcheck.captured import readers, system_readers, values
from envcheck.captured.document import LISTED, NOTED, SAID, Document, word_set
from envcheck.facts import Distribution
from envcheck.lazy import Regex

_SEPARATOR = Regex(r"\s{0,60}(?::(?!/{2}|:)|=>|->|(?<![=!<>])=(?!=))\s{0,80}|\?\s{1,80}(?=(?:True|False|Yes|No)\b)")
_BULLET = Regex(r"^[\s>*\-\u2022\u00b7#+|\u251c\u2500\u2514]{1,40}(?=\S)")
_PARENTHESES = Regex(r"\s{0,9}[(\[][^()\[\]]{0,80}[)\]]?")
_LOGGER = Regex(
    r"^(?:\[?\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d[\d.,]{0,12}\]?|\d\d:\d\d:\d\d[-.,\d]{0,12})?[\s\-|\[]{0,40}(?:\w{1,40}[\s|])?\s{0,40}(?:INFO|DEBUG)[\]:|\s-]{1,4}(?:\d\d-\d\d \d\d:\d\d:\d\d )?(?:\[[^\]]{1,60}\][: ]{0,2})?",
)
_GPU_INDICES = Regex(r"gpu [\d ]{1,60}")
_WORDS = Regex(r"[^a-z0-9_./+-]+")


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
    handler = KEYS.get(key) or (readers.gpu_indexed if _GPU_INDICES.fullmatch(key) else None)
    if handler is None:
        return False
    handler(doc, value, index, SAID if key in _BY_PROGRAM else LISTED)
    if key in MIXED and ("," in value or ";" in value):
        doc.mixed.append((index, value))
    return True


def _table(handler: readers.Handler, *keys: str) -> dict[str, readers.Handler]:
    return dict.fromkeys(keys, handler)


KEYS: dict[str, readers.Handler] = {
    **_table(readers.torch_version, "pytorch version", "torch version", "pytorch", "torch", "torch.__version__", "version of pytorch", "pytorch ver",
             "pytorch-version", "torch_version", "pytorch_version", "pytorch/torch version", "installed torch", "installed pytorch", "print torch.__version__"),
    **_table(readers.torch_cuda, "cuda used to build pytorch"),
    **_table(readers.put_cuda, "torch.version.cuda", "torch cuda", "torch cuda version", "pytorch cuda version", "cuda version of torch", "torch.cuda version",
             "pytorch cuda", "torch cuda build", "cuda runtime", "cuda version from torch", "cuda used by pytorch", "built with cuda",
             "print torch.version.cuda", "cuda_version of torch"),
    **_table(readers.torch_hip, "rocm used to build pytorch", "torch.version.hip", "hip version of torch"),
    **_table(readers.torch_xpu, "xpu used to build pytorch"),
    **_table(readers.flag("torch.debug"), "is debug build", "pytorch debug build"),
    **_table(readers.cuda_available, "is cuda available", "cuda available", "torch.cuda.is_available", "cuda is available", "gpu available", "torch cuda available",
             "cuda_available", "torch.cuda.is_available result", "is cuda available in torch", "pytorch cuda available", "print torch.cuda.is_available",
             "cuda available in pytorch", "is_cuda_available", "gpu_available", "cuda enabled"),
    **_table(readers.flag("torch.xpu_available"), "is xpu available", "torch.xpu.is_available", "xpu available", "pytorch xpu available"),
    **_table(readers.flag("torch.mps_available"), "mps_available", "mps available", "torch.backends.mps.is_available", "is mps available", "pytorch mps available",
             "mps is available"),
    **_table(readers.flag("torch.mps_built"), "mps_built", "mps built", "torch.backends.mps.is_built", "is mps built", "pytorch mps built"),
    **_table(readers.xpu_compiled, "torch.xpu._is_compiled"),
    **_table(readers.abi, "pytorch cxx11 abi", "_glibcxx_use_cxx11_abi", "torch._c._glibcxx_use_cxx11_abi", "torch.compiled_with_cxx11_abi", "cxx11 abi", "cxx11_abi"),
    **_table(system_readers.os, "os", "operating system", "os version", "host os", "os platform", "os platform and distribution", "os/platform", "os name", "distro", "distribution",
             "system", "operating system version", "os name and version", "my os", "os / platform", "pretty_name", "distrib_description", "description",
             "os and version", "guest os", "linux distribution", "os distribution", "linux distro", "operating system / version", "os type and version"),
    **_table(system_readers.platform, "python platform", "platform", "platform.platform", "sys.platform", "os info", "system info", "system version", "release", "sysname"),
    **_table(system_readers.machine, "machine", "architecture", "arch", "processor architecture", "cpu architecture", "platform.machine", "hardware platform", "os architecture",
             "system type", "uname -m"),
    **_table(system_readers.kernel, "kernel", "kernel version", "linux kernel", "linux kernel version", "kernel release", "uname -r"),
    **_table(system_readers.libc, "libc version", "glibc version", "glibc", "libc", "ldd version", "glibc_version"),
    **_table(system_readers.python, "python version", "python", "python ver", "python-version", "python_version", "sys.version", "version of python", "python3", "py version",
             "python interpreter version", "python version used", "platform python", "python runtime"),
    **_table(system_readers.executable, "python executable", "sys.executable", "python path", "python interpreter", "python binary", "python_executable", "which python", "python exe"),
    **_table(readers.nvcc, "cuda runtime version", "nvcc", "nvcc version", "cuda toolkit", "cuda toolkit version", "cuda compiler", "cuda toolkit nvcc", "cuda toolkit release",
             "system cuda", "system cuda version", "cuda compilation tools", "installed cuda toolkit", "nvcc --version", "nvcc cuda version", "cudatoolkit version", "cuda nvcc version",
             "cuda compiler version"),
    **_table(readers.cuda_said, "cuda version", "cuda", "cuda/cudnn version", "cuda / cudnn version", "cuda/cudnn", "cuda and cudnn version", "cuda ver", "version of cuda", "cuda-version",
             "cuda_version", "cuda runtime and driver", "cuda version used", "installed cuda", "cuda driver / runtime version", "cuda driver/runtime"),
    **_table(readers.cuda_home, "cuda_home", "cuda home", "cuda_path", "cuda path", "cuda root", "cuda_toolkit_root_dir"),
    **_table(readers.driver, "nvidia driver version", "driver version", "nvidia driver", "driver", "gpu driver", "nvidia-driver", "nvidia driver ver", "gpu driver version",
             "driver_version", "nvidia gpu driver", "nvidia drivers", "nvidia drivers version", "cuda driver", "driver ver", "graphics driver", "nvidia graphics driver", "nvidia-smi driver version",
             "nvidia-smi", "nvidia smi", "host driver", "cuda driver version", "nvidia kernel driver", "windows driver", "nvidia-driver version"),
    **_table(readers.kernel_driver, "kmod", "kernel module", "nvidia kernel module", "nvrm version", "kernel module version", "nvidia-kmod", "kmod-nvidia", "akmod-nvidia", "nvidia kmod"),
    **_table(readers.gpu, "gpu models and configuration", "gpu", "gpus", "gpu model", "gpu models", "gpu type", "graphics card", "video card", "gpu name", "accelerator", "accelerators",
             "gpu card", "graphics", "gpu used", "gpu device", "gpu info", "nvidia gpu", "nvidia gpus", "hardware", "gpu hardware", "device name", "cuda device", "gpu_name",
             "gpu devices", "gpu model and memory", "chipset model", "card", "gpu and driver", "torch.cuda.get_device_name", "cuda device name", "gpu_type",
             "gpu configuration", "using gpu", "cuda devices", "name of gpu", "gpu / accelerator", "vga", "machine gpu", "card series", "nvidia-smi -l", "nvidia-smi --list-gpus", "gpu used in script", "gpu hardware used", "product name"),
    **{f"gpu {n}": readers.gpu_indexed for n in range(16)},
    **{f"gpu{n}": readers.gpu_indexed for n in range(16)},
    **_table(readers.cudnn, "cudnn version", "cudnn", "torch.backends.cudnn.version", "torch cudnn", "torch cudnn version", "pytorch cudnn version", "cudnn_version"),
    **_table(readers.capability, "compute capability", "cuda capability", "gpu compute capability", "torch.cuda.get_device_capability", "device capability", "cuda compute capability", "capability",
             "gpu arch", "gpu architecture", "cuda capability major/minor version number"),
    **_table(readers.module_loading, "cuda_module_loading set to"),
    **_table(system_readers.gcc, "gcc version", "gcc", "c compiler", "gcc/compiler version", "compiler version"),
    **_table(readers.number("toolchain.cmake_version"), "cmake version"),
    **_table(system_readers.chip, "chip", "apple silicon", "soc", "mac chip", "apple chip"),
    **_table(system_readers.cpu, "cpu", "model name", "processor", "cpu model", "host cpu", "cpu name", "processor name", "cpu brand", "cpu type"),
    **_table(system_readers.flags, "flags", "cpu flags", "features"),
    **_table(system_readers.virtual, "hypervisor vendor", "hypervisor", "virtualization vendor"),
    **_table(system_readers.cores, "cpus"),
    **_table(system_readers.wsl, "wsl", "wsl version", "wsl2"),
    **_table(readers.rocm, "rocm version", "rocm", "installed rocm", "rocm_version", "rocm runtime", "rocm/hip version", "rocm toolkit"),
    **_table(readers.amd_arch, "amd arch", "gfx", "gcn arch", "gcnarchname", "gfx version", "gfx target"),
    **_table(system_readers.open_files, "ulimit", "ulimit -n", "open files", "max open files", "nofile", "rlimit_nofile", "max file descriptors"),
    **_table(system_readers.size("system.shm_size"), "shm", "shm size", "shm_size", "/dev/shm", "shared memory", "/dev/shm size", "shmsize"),  # noqa: S108 - a key that people write
    **_table(system_readers.selinux, "selinux", "selinux status", "selinux mode", "current mode", "getenforce"),
    **_table(system_readers.jetson, "jetson", "jetson model", "jetson device", "device model", "board", "module", "jetson hardware"),
    **_table(system_readers.jetpack, "jetpack", "jetpack version", "jetpack sdk"),
    **_table(system_readers.l4t, "l4t", "l4t version", "jetson linux", "l4t release"),
    **_table(system_readers.installed_with, "how you installed pytorch", "installed via", "installed with", "installation method", "install method",
             "how did you install pytorch", "how you installed torch", "installed from", "pytorch install method"),
    **_table(system_readers.container, "docker", "container", "docker image", "container image", "image", "docker container", "running in docker", "in docker", "base image", "docker base image"),
    **_table(system_readers.conda_env, "conda env", "conda environment", "active environment", "conda_default_env", "env name"),
    **_table(readers.arch_flags, "nvcc architecture flags"),
    **_table(readers.arch_list, "torch.cuda.get_arch_list", "arch list", "arch_list", "torch arch list", "cuda arch list", "supported archs", "torch.cuda.get_arch_list result"),
    **_table(readers.device, "device", "using device", "torch device"),
    **_table(readers.torchvision_cuda, "torchvision.version.cuda"),
    **_table(readers.level_zero, "level zero version", "level-zero version", "level zero"),
    **_table(readers.intel_driver, "intel gpu driver version", "intel opencl icd version"),
    **_table(system_readers.rosetta, "rosetta", "running under rosetta"),
    **_table(readers.vram, "vram", "gpu memory", "gpu vram"),
    **_table(system_readers.ram, "ram", "system ram", "memory", "total ram"),
    **_table(system_readers.macos, "macos", "macos version", "productversion", "os x version", "mac os version", "mac os", "mac osx version"),
    **_table(readers.ignore, "rocm runtime version", "hip runtime version", "miopen runtime version", "is xnnpack available", "clang version", "versions of relevant libraries",
             "ipex version", "ipex commit", "build type", "igc version", "dpcpp runtime version", "rustc version", "byte order", "address sizes", "vendor id",
             "on-line cpus list", "threads per core", "cores per socket", "sockets", "stepping", "frequency boost", "cpu max mhz", "cpu min mhz", "bogomips",
             "l1d cache", "l1i cache", "l2 cache", "l3 cache", "numa nodes", "cpu op-modes", "cpu family", "model", "cpu mhz", "caching allocator config", "is caching allocator used"),
}  # fmt: skip
for _node in range(32):
    KEYS[f"numa node{_node} cpus"] = readers.ignore

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
