"""What a loader's message means: whose file it was, whose symbol is missing, and so which cause it is.

The loaders of all systems say few things (a symbol is missing, a library is missing, a version is missing); the cause
follows from two owners: that of the file which could not be loaded and that of what it lacked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from envcheck.facts import Facts, Symptom

# First match wins. Left: the owner; right: how its symbols begin, mangled C++ names included.
_SYMBOL_OWNERS: tuple[tuple[str, str], ...] = (
    ("mkl", r"iJIT_|__itt_|mkl_|MKL_|cblas_|LAPACKE_|vml[A-Z]|vsl[A-Z]"),
    ("nvJitLink", r"_*nvJitLink"),
    ("cublasLt", r"cublasLt"),
    ("cublas", r"cublas[A-Z]"),
    ("cudnn", r"cudnn[A-Z]|_ZNK?5cudnn"),
    ("nccl", r"p?nccl[A-Z]"),
    ("cusparseLt", r"cusparseLt"),
    ("cusparse", r"cusparse[A-Z]"),
    ("cusolver", r"cusolver"),
    ("cufft", r"cufft"),
    ("curand", r"curand"),
    ("nvrtc", r"nvrtc"),
    ("cupti", r"cupti"),
    ("cufile", r"cuFile"),
    ("nvshmem", r"nvshmem"),
    ("nvml", r"nvml[A-Z]"),
    ("cudart", r"cuda[A-Z]|__cuda[A-Z]"),
    ("rocm", r"hip[A-Z]|roc(?:blas|rand|sparse|fft)_|miopen|hsa_|rccl"),
    ("xpu", r"ze[A-Z]\w+$|_ZNK?4sycl|ur[A-Z]\w+$|__spirv|piEnqueue"),
    ("cuda", r"cu[A-Z]"),
    ("openmp", r"__kmpc?_|omp_|GOMP_|kmp_"),
    # The namespace that comes first is the owner; behind it stand the types of arguments, which may be anybody's.
    (
        "torch",
        r"_ZT?[ISVWh]?N?[VK]{0,2}(?:2at|3c10|5torch|6caffe2|4c10d)(?=[\dA-Z])|aoti_torch_|torch_|_?THC?P[A-Z]|TH(?:Cuda|Tensor|Storage)",
    ),
    ("torch", r"_ZN8pybind11\w*2at6Tensor"),
    ("python", r"_?Py[A-Z_]|_Py"),
    ("libstdc++", r"_ZN?K?St|_ZS|__cxa_|_ZNSt|__gxx|_Zna|_Znw|_ZTVN10__cxxabi|_ZTISt"),
    ("glibc", r"__libc_|__glibc|__isoc\d+_|_dl_|__longjmp_chk|__memcpy_chk|backtrace|arc4random"),
)

# Library file names -> the family they belong to.
_LIBRARY_FAMILIES: tuple[tuple[str, str], ...] = (
    ("torch", r"lib(?:torch(?:_\w+)?|c10(?:_\w+)?|shm|caffe2\w*|aoti\w*)(?=\.(?:so|dylib)|$)"),
    ("torchaudio", r"_?(?:lib)?torchaudio\w*"),
    ("torchvision", r"libtorchvision\w*"),
    ("cudnn", r"libcudnn\w*"),
    ("cublasLt", r"libcublasLt"),
    ("cublas", r"libcublas"),
    ("cudart", r"libcudart"),
    ("cufft", r"libcufft\w*"),
    ("curand", r"libcurand"),
    ("cusolver", r"libcusolver\w*"),
    ("cusparseLt", r"libcusparseLt"),
    ("cusparse", r"libcusparse"),
    ("nccl", r"libnccl"),
    ("nvJitLink", r"libnvJitLink"),
    ("nvrtc", r"libnvrtc\S*"),
    ("nvtx", r"libnvToolsExt|libnvtx3?interop"),
    ("cupti", r"libcupti"),
    ("cufile", r"libcufile\w*"),
    ("nvshmem", r"libnvshmem\w*"),
    ("nvml", r"libnvidia-ml"),
    ("cuda", r"libcuda(?=\.so|$)"),
    ("npp", r"libnpp\w*"),
    ("mkl", r"libmkl\w*"),
    ("rocm", r"lib(?:amdhip64|hsa-runtime\d*|roc\w+|MIOpen|rccl|hip\w+|amd_comgr\w*)"),
    ("xpu", r"lib(?:sycl|ze_loader|ur_\w+|pi_\w+|OpenCL|mkl_sycl\w*|intlc|svml|imf|irng)"),
    ("openmp", r"lib(?:gomp|iomp5|omp)\b\S*"),
    ("libstdc++", r"libstdc\+\+"),
    ("python", r"libpython\w*"),
)

CUDA_FAMILIES = frozenset(
    (
        "cudnn",
        "cublasLt",
        "cublas",
        "cudart",
        "cufft",
        "curand",
        "cusolver",
        "cusparseLt",
        "cusparse",
        "nccl",
        "nvJitLink",
        "nvrtc",
        "nvtx",
        "cupti",
        "cufile",
        "nvshmem",
    )
)
"""Libraries that torch's own nvidia-* requirements bring."""

WHEEL_OF_FAMILY = {
    "cudnn": "nvidia-cudnn",
    "cublasLt": "nvidia-cublas",
    "cublas": "nvidia-cublas",
    "cudart": "nvidia-cuda-runtime",
    "cufft": "nvidia-cufft",
    "curand": "nvidia-curand",
    "cusolver": "nvidia-cusolver",
    "cusparseLt": "nvidia-cusparselt",
    "cusparse": "nvidia-cusparse",
    "nccl": "nvidia-nccl",
    "nvJitLink": "nvidia-nvjitlink",
    "nvrtc": "nvidia-cuda-nvrtc",
    "nvtx": "nvidia-nvtx",
    "cupti": "nvidia-cuda-cupti",
    "cufile": "nvidia-cufile",
    "nvshmem": "nvidia-nvshmem",
}

# Modules of well-known packages that carry CUDA or C++ code -> the package to reinstall.
_PACKAGES = {
    "flash_attn": "flash-attn",
    "flash_attn_2_cuda": "flash-attn",
    "flash_attn_cuda": "flash-attn",
    "flash_attn_3": "flash-attn",
    "dropout_layer_norm": "flash-attn",
    "fused_dense_lib": "flash-attn",
    "rotary_emb": "flash-attn",
    "exllamav2_ext": "exllamav2",
    "exllama_kernels": "auto-gptq",
    "exllamav2_kernels": "auto-gptq",
    "autogptq_cuda_64": "auto-gptq",
    "autogptq_cuda_256": "auto-gptq",
    "awq_ext": "autoawq-kernels",
    "awq_inference_engine": "autoawq-kernels",
    "causal_conv1d_cuda": "causal-conv1d",
    "selective_scan_cuda": "mamba-ssm",
    "mmcv": "mmcv",
    "_ext": "mmcv",
    "pytorch3d": "pytorch3d",
    "torch_sparse": "torch-sparse",
    "torch_scatter": "torch-scatter",
    "torch_cluster": "torch-cluster",
    "torch_spline_conv": "torch-spline-conv",
    "pyg_lib": "pyg-lib",
    "amp_C": "apex",
    "apex_C": "apex",
    "fused_layer_norm_cuda": "apex",
    "syncbn": "apex",
    "transformer_engine_torch": "transformer-engine",
    "transformer_engine_extensions": "transformer-engine",
    "xformers": "xformers",
    "bitsandbytes": "bitsandbytes",
    "vllm": "vllm",
    "sgl_kernel": "sgl-kernel",
    "sageattention": "sageattention",
    "_qattn_sm80": "sageattention",
    "_qattn_sm89": "sageattention",
    "_fused": "sageattention",
    "detectron2": "detectron2",
    "MultiScaleDeformableAttention": "MultiScaleDeformableAttention",
    "spconv": "spconv",
    "cumm": "cumm",
    "dgl": "dgl",
    "torchtext": "torchtext",
    "torchdata": "torchdata",
    "torchcodec": "torchcodec",
    "torchao": "torchao",
    "fbgemm_gpu": "fbgemm-gpu",
    "diff_gaussian_rasterization": "diff-gaussian-rasterization",
    "nvdiffrast": "nvdiffrast",
    "custom_rasterizer_kernel": "custom-rasterizer",
    "natten": "natten",
    "kaolin": "kaolin",
    "deepspeed": "deepspeed",
    "horovod": "horovod",
    "MinkowskiEngine": "MinkowskiEngine",
    "MinkowskiEngineBackend": "MinkowskiEngine",
    "tinycudann": "tiny-cuda-nn",
    "tinycudann_bindings": "tiny-cuda-nn",
    "gsplat": "gsplat",
    "warprnnt_pytorch": "warp-rnnt",
    "k2": "k2",
    "_k2": "k2",
    "torchsparse": "torchsparse",
    "groundingdino": "groundingdino",
    "pointnet2_ops": "pointnet2-ops",
    "curobo": "curobo",
    "intel_extension_for_pytorch": "intel-extension-for-pytorch",
    "torch_tensorrt": "torch-tensorrt",
    "optimum": "optimum",
    "ctranslate2": "ctranslate2",
    "onnxruntime": "onnxruntime-gpu",
}

# Python packages that are no extensions of torch: a frame in one of them says nothing about whose binary failed.
_PURE = frozenset(
    (
        "torch",
        "functorch",
        "numpy",
        "scipy",
        "transformers",
        "accelerate",
        "diffusers",
        "datasets",
        "peft",
        "trl",
        "lightning",
        "pytorch_lightning",
        "ignite",
        "fastai",
        "timm",
        "pip",
        "setuptools",
        "pkg_resources",
        "IPython",
        "ipykernel",
        "gradio",
        "uvicorn",
        "starlette",
        "streamlit",
        "sklearn",
        "matplotlib",
        "pandas",
        "PIL",
        "cv2",
        "triton",
        "torchgen",
        "click",
        "typer",
        "fire",
        "hydra",
        "wandb",
        "ray",
        "multiprocess",
        "joblib",
    )
)


_NAMED_IN_TEXT = re.compile(
    r"onnxruntime|tensorflow|ctranslate2|jaxlib|paddlepaddle|tensorrt|cupy|faiss", re.IGNORECASE
)
"""Programs that load CUDA libraries of their own and name themselves in the line."""


@dataclass(frozen=True)
class LoaderError:
    """One message of a loader, taken apart."""

    kind: str
    """"undefined-symbol" | "missing-library" | "missing-version"."""
    symptom: Symptom
    file: str | None = None
    """The library that could not be loaded."""
    frame: str | None = None
    """The Python file that asked for it."""
    symbol: str | None = None
    library: str | None = None
    """The library that is missing, or the one that should have had the symbol ("libnvJitLink.so.12")."""

    @property
    def needs(self) -> str | None:
        """Family of what is missing: "nccl", "torch", "libstdc++" ..."""
        owner = symbol_owner(self.symbol) if self.symbol else "unknown"
        # A name of nobody known: the version that the loader asks for names the library ("version libcudnn_ops_infer.so.8").
        return owner if owner != "unknown" else family_of_file(self.library) or (owner if self.symbol else None)

    @property
    def owner(self) -> str:
        """Who could not be loaded: "torch", "torchvision", "torchaudio", "nvidia", "triton", "system",
        "extension:<package>", or "unknown".
        """
        named = _NAMED_IN_TEXT.search(self.symptom.text)
        if named:
            return "extension:" + _package(named.group(0).lower().replace("-", "_"))
        found = owner_of_path(self.file)
        if found != "unknown":
            return found
        return owner_of_path(self.frame)

    @property
    def package(self) -> str | None:
        """The third-party package to reinstall, when the owner is one."""
        owner = self.owner
        return owner.removeprefix("extension:") if owner.startswith("extension:") else None


def loader_errors(facts: Facts) -> Iterator[LoaderError]:
    """Every message of a loader in the report, in order."""
    for item in facts.symptoms:
        d = item.details
        if item.kind == "undefined-symbol":
            yield LoaderError(
                "undefined-symbol",
                item,
                file=d.get("file")
                or d.get("linked_file")
                or d.get("musl_file")
                or d.get("dyld_file")
                or d.get("dlopen_file"),
                frame=d.get("frame"),
                symbol=_strip_mach(
                    d.get("symbol") or d.get("linked") or d.get("musl_symbol") or d.get("quoted") or d.get("bare"),
                    d.get("dyld_symbol"),
                ),
                library=d.get("version") or d.get("linked_version") or d.get("expected"),
            )
        elif item.kind == "missing-library" and "tf" not in d:  # TensorFlow's warning is about TensorFlow
            yield LoaderError(
                "missing-library",
                item,
                file=d.get("needed_by") or d.get("dyld_file"),
                frame=d.get("frame"),
                library=d.get("library") or d.get("musl") or d.get("dyld"),
            )
        elif item.kind == "missing-symbol-version":
            yield LoaderError(
                "missing-version",
                item,
                file=d.get("file"),
                frame=d.get("frame"),
                symbol=None,
                library=d.get("provider"),
            )


def _strip_mach(symbol: str | None, mach: str | None) -> str | None:
    """Mach-O puts one more underscore ahead of every name."""
    if symbol:
        return symbol
    return mach[1:] if mach and mach.startswith("_") else mach


@cache
def _compiled(table: tuple[tuple[str, str], ...]) -> tuple[tuple[str, re.Pattern[str]], ...]:
    """Compiled when a loader's message has to be judged, which on most machines is never."""
    return tuple((name, re.compile(pattern)) for name, pattern in table)


def symbol_owner(symbol: str) -> str:
    """Which library family a symbol belongs to; "unknown" for one of nobody known."""
    for owner, pattern in _compiled(tuple((o, "_?" + p) for o, p in _SYMBOL_OWNERS)):
        if pattern.match(symbol):
            return owner
    return "unknown"


def family_of_file(path: str | None) -> str | None:
    """Family of a library by its file name: "libcudnn.so.9" -> "cudnn"; None when it is none of the known ones."""
    if not path:
        return None
    name = base_name(path)
    for family, pattern in _compiled(_LIBRARY_FAMILIES):
        if pattern.match(name):
            return family
    return None


def base_name(path: str) -> str:
    """The file name of a path of any system."""
    return re.split(r"[/\\]", path.rstrip("/\\"))[-1]


def owner_of_path(path: str | None) -> str:
    """Who a file belongs to: "torch", "torchvision", "torchaudio", "triton", "nvidia", "system", "extension:<package>"
    or "unknown".
    """
    if not path:
        return "unknown"
    path = _normal(path)
    if "torch_extensions" in path:
        return "extension:" + (_cached_extension(path) or "torch_extensions cache")
    inside = re.search(r"[/\\](?:site|dist)-packages[/\\]([^/\\]+)", path)
    if inside:
        return _owner_of_top(inside.group(1))
    family = family_of_file(path)
    if family in ("torch", "torchaudio", "torchvision"):
        return family
    if re.match(r"/(?:lib|lib64|usr/lib|usr/lib64|usr/local/cuda[^/]*|opt/cuda|opt/rocm[^/]*)/", path):
        return "system"
    if family is not None:
        return "nvidia" if family in CUDA_FAMILIES else "system"
    module = re.match(r"(?:lib)?([A-Za-z_]\w*)\.(?:cpython|cp\d|abi3|pypy)", base_name(path))
    return "extension:" + _package(module.group(1)) if module else "unknown"


def _normal(path: str) -> str:
    """ "torch/lib/../../nvidia/x.so" -> "nvidia/x.so"."""
    while True:
        shorter = re.sub(r"[^/\\]+[/\\]\.\.[/\\]", "", path, count=1)
        if shorter == path:
            return path
        path = shorter


def _owner_of_top(top: str) -> str:
    name = re.split(r"[-.]", top)[0]
    if name == "_torch_sox":
        return "torchaudio"
    if name in ("torch", "functorch", "torchgen"):
        return "torch"
    if name in ("torchvision", "torchaudio", "triton", "nvidia"):
        return name
    if name in _PURE:
        return "unknown"
    return "extension:" + _package(name)


def _package(module: str) -> str:
    return _PACKAGES.get(module, module)


def _cached_extension(path: str) -> str | None:
    match = re.search(r"torch_extensions[/\\](?:py\w+[/\\])?([^/\\]+)[/\\]", path)
    return match.group(1) if match else None


def abi_wanted(symbol: str) -> str | None:
    """Which std::string a mangled name uses: "new" (__cxx11), "old" (Ss), None when it has none."""
    if "__cxx11" in symbol:
        return "new"
    return "old" if re.search(r"(?<![A-Za-z])(?:R?K?Ss|Ss)(?:[A-Z_]|$|\d)|RKSs|ESs|EOSs|_Ss|ISs", symbol) else None


def readable(symbol: str, limit: int = 90) -> str:
    """A symbol short enough for a sentence."""
    return symbol if len(symbol) <= limit else symbol[: limit - 3] + "..."


def library_path(facts: Facts) -> tuple[str, str] | None:
    """The variable that puts libraries first and its value: LD_LIBRARY_PATH, on macOS DYLD_LIBRARY_PATH; None = not seen
    set. Read from the environment, or from the paste.
    """
    for name in ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "DYLD_FALLBACK_LIBRARY_PATH", "LD_PRELOAD"):
        value = facts.variable(name)
        if value:
            return name, value
    for item in facts.symptoms:
        if item.kind == "library-variable" and item.details.get("value"):
            return item.details["name"], item.details["value"]
    return None
