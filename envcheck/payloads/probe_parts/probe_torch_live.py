"""Imports torch and lets it speak: the build, CUDA, other devices, NumPy, and the packages beside it."""

import sys
import time

MAX_TEXT = 8000
MAX_WARNINGS = 20


class Warned:
    """Collects the warnings that a user would see, without changing which ones those are."""

    def __enter__(self) -> "list[dict]":
        import warnings

        self.module = warnings
        self.before = warnings.showwarning
        self.texts = []  # type: list

        def show(message: object, category: type, filename: str, lineno: int, file: object = None, line: object = None) -> None:
            if len(self.texts) < MAX_WARNINGS:
                place = f"{filename}:{lineno}"
                self.texts.append({"category": category.__name__, "text": str(message)[:2000], "place": place})

        warnings.showwarning = show
        return self.texts

    def __exit__(self, *_: object) -> None:
        self.module.showwarning = self.before


def failure(error: BaseException, kind: str) -> "dict":
    """An exception as an answer: type, message, the chain of causes, the last frames."""
    import traceback

    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    causes = []
    cause = error.__cause__ or error.__context__
    while cause is not None and len(causes) < 5:
        causes.append(f"{type(cause).__name__}: {str(cause)[:1000]}")
        cause = cause.__cause__ or cause.__context__
    values = {
        "result": "error",
        "kind": kind,
        "error_type": type(error).__name__,
        "error": str(error)[:MAX_TEXT],
        "causes": causes,
        "traceback": text[-MAX_TEXT:],
    }  # type: dict
    for name in ("name", "path", "errno", "winerror", "filename"):
        value = getattr(error, name, None)
        if isinstance(value, (str, int)):
            values[name] = value
    return values


def import_torch() -> "dict":
    """`import torch`, with its warnings; anything it raises is the answer."""
    with Warned() as texts:
        begun = time.time()
        try:
            import torch
        except BaseException as error:
            kind = "missing" if isinstance(error, ImportError) and getattr(error, "name", None) == "torch" else "raised"
            values = failure(error, kind)
        else:
            values = {"result": "ok", "version": str(getattr(torch, "__version__", "")) or None}
            values["location"] = _location(torch)
            values["modules"] = _modules()
            if values["version"] is None or not hasattr(torch, "Tensor"):
                values["result"] = "error"
                values["kind"] = "not-torch"
                values["error_type"] = "AttributeError"
                values["error"] = f"module 'torch' has no attribute '__version__' ({values['location']})"
        values["seconds"] = round(time.time() - begun, 4)
    values["warnings"] = texts
    return values


def _modules() -> "list[str]":
    """Top-level names that were imported so far: of these alone a user's file could have taken the place."""
    return sorted({name.partition(".")[0] for name in list(sys.modules)})


def _location(module: object) -> "str | None":
    """Directory of a package, file of a plain module."""
    places = list(getattr(module, "__path__", None) or [])
    return str(places[0]) if places else str(getattr(module, "__file__", None) or "") or None


# -- the build ---------------------------------------------------------------------------------------------------------


def _get(root: object, dotted: str, call: bool = False) -> object:
    """A value by its dotted name, None where this torch does not have it or will not say."""
    try:
        for name in dotted.split("."):
            root = getattr(root, name)
        return root() if call else root
    except Exception:
        return None


def torch_build() -> "dict":
    """What the build says of itself, and its numeric and determinism switches as they stand."""
    import torch

    values = {name: _text(_get(torch.version, name)) for name in ("cuda", "hip", "xpu", "git_version")}
    for name in ("cuda", "hip", "xpu"):
        # `None` is an answer where the name exists; releases older than a backend have no such name.
        if values[name] is None and (hasattr(torch.version, name) or name != "cuda"):
            values[name] = ""
    values["debug"] = _get(torch.version, "debug")
    values["version"] = str(torch.__version__)
    with Warned():
        values["cxx11_abi"] = _get(torch, "_C._GLIBCXX_USE_CXX11_ABI")
        values["arch_list"] = _arch_list(torch)
        values["mps_built"] = _get(torch, "backends.mps.is_built", call=True)
        values["threads"] = _get(torch, "get_num_threads", call=True)
        values["interop_threads"] = _get(torch, "get_num_interop_threads", call=True)
        values["cpu_capability"] = _get(torch, "backends.cpu.get_cpu_capability", call=True)
        values["nccl"] = _nccl(torch)
        values.update(_cudnn(torch))
        values["settings"] = _settings(torch)
        values["config"] = _config(torch)
    return values


def _text(value: object) -> "str | None":
    return None if value is None else str(value)


def _arch_list(torch: object) -> "list[str] | None":
    """As compiled; torch.cuda.get_arch_list() of older releases is empty where no GPU can be used."""
    flags = _get(torch, "_C._cuda_getArchFlags", call=True)
    if isinstance(flags, str):
        return flags.replace(";", " ").split()
    listed = _get(torch, "cuda.get_arch_list", call=True)
    if isinstance(listed, list) and listed:
        return [str(item) for item in listed]
    return None if _get(torch, "version.cuda") or _get(torch, "version.hip") else []


def _nccl(torch: object) -> "str | None":
    if not (_get(torch, "version.cuda") or _get(torch, "version.hip")):
        return None
    try:
        from torch.cuda import nccl

        version = nccl.version()
    except Exception:
        return None
    if isinstance(version, int):  # releases before 1.10: 2708 is 2.7.8, 21003 would be 2.10.3
        big = version >= 10000
        return f"{version // (10000 if big else 1000)}.{version // 100 % (100 if big else 10)}.{version % 100}"
    return ".".join(str(part) for part in version if isinstance(part, int))


def _cudnn(torch: object) -> "dict":
    """Version of the cuDNN that was loaded, or torch's own words why it will not use it."""
    try:
        number = torch.backends.cudnn.version()
    except AttributeError:
        return {"cudnn": None}
    except Exception as error:
        return {"cudnn": None, "cudnn_error": failure(error, "raised")}
    if not isinstance(number, int) or _get(torch, "version.hip"):
        return {"cudnn": None}
    unit = 10000 if number >= 90000 else 1000  # 92400 is 9.24.0, 8902 is 8.9.2
    return {"cudnn": f"{number // unit}.{number % unit // 100}.{number % 100}"}


SETTINGS = (
    ("float32_matmul_precision", "get_float32_matmul_precision", True),
    ("deterministic_algorithms", "are_deterministic_algorithms_enabled", True),
    ("deterministic_warn_only", "is_deterministic_algorithms_warn_only_enabled", True),
    ("default_dtype", "get_default_dtype", True),
    ("grad_enabled", "is_grad_enabled", True),
    ("anomaly_mode", "is_anomaly_enabled", True),
    ("cudnn.enabled", "backends.cudnn.enabled", False),
    ("cudnn.benchmark", "backends.cudnn.benchmark", False),
    ("cudnn.deterministic", "backends.cudnn.deterministic", False),
    ("cudnn.allow_tf32", "backends.cudnn.allow_tf32", False),
    ("cuda.matmul.allow_tf32", "backends.cuda.matmul.allow_tf32", False),
    ("cuda.matmul.allow_fp16_reduced_precision_reduction", "backends.cuda.matmul.allow_fp16_reduced_precision_reduction", False),
    ("cuda.matmul.allow_bf16_reduced_precision_reduction", "backends.cuda.matmul.allow_bf16_reduced_precision_reduction", False),
    ("mkldnn.enabled", "backends.mkldnn.enabled", False),
    ("mkldnn.deterministic", "backends.mkldnn.deterministic", False),
)  # fmt: skip


def _settings(torch: object) -> "dict":
    values = {}
    for name, dotted, call in SETTINGS:
        value = _get(torch, dotted, call)
        if value is not None:
            values[name] = str(value)
    return values


WORTH = ("BLAS_INFO", "LAPACK_INFO", "BUILD_TYPE", "CUDA_VERSION", "CUDNN_VERSION", "USE_CUDA", "USE_CUDNN", "USE_ROCM",
         "USE_XPU", "USE_NCCL", "USE_GLOO", "USE_MPI", "USE_MKL", "USE_MKLDNN", "USE_OPENMP", "USE_NNPACK", "CXX_COMPILER")  # fmt: skip


def _config(torch: object) -> "dict":
    """torch.__config__.show() in parts: the lines of libraries, and the build settings that matter."""
    text = _get(torch, "__config__.show", call=True)
    if not isinstance(text, str):
        return {}
    lines = [line.strip(" -") for line in text.splitlines()[1:]]
    settings = [line for line in lines if line.startswith("Build settings:")]
    pairs = [part.strip(" ,").partition("=") for line in settings for part in line.partition(":")[2].split(", ")]
    return {
        "lines": [line[:200] for line in lines if line and not line.startswith("Build settings:")][:30],
        "build": {key: value[:200] for key, _, value in pairs if key in WORTH},
    }


# -- devices -----------------------------------------------------------------------------------------------------------


def cuda_init() -> "dict":
    """Whether CUDA (or ROCm) starts, torch's exact words if it does not, and the devices as torch sees them.

    Properties alone are asked for, so that no context and no memory is taken on GPUs that others use.
    """
    import torch

    if not (_get(torch, "version.cuda") or _get(torch, "version.hip")):
        return {"result": "skipped", "reason": "this torch is built without CUDA"}
    with Warned() as texts:
        values = {"available": _get(torch, "cuda.is_available", call=True)}  # type: dict
        values["device_count"] = _get(torch, "cuda.device_count", call=True)
        try:
            torch.cuda.init()
        except BaseException as error:
            values.update(failure(error, "raised"))
        else:
            values["result"] = "ok"
            values["devices"] = [_cuda_device(torch, index) for index in range(min(values["device_count"] or 0, 64))]
    values["warnings"] = texts
    return values


def _cuda_device(torch: object, index: int) -> "dict":
    try:
        properties = torch.cuda.get_device_properties(index)
    except Exception as error:
        return {"index": index, "error": f"{type(error).__name__}: {error}"[:1000]}
    values = {
        "index": index,
        "name": properties.name,
        "memory_total": properties.total_memory,
        "processors": getattr(properties, "multi_processor_count", None),
    }
    if _get(torch, "version.hip"):
        values["gfx"] = str(getattr(properties, "gcnArchName", "")).partition(":")[0] or None
    else:
        values["compute_capability"] = f"{properties.major}.{properties.minor}"
    return values


def other_devices() -> "dict":
    """Apple's and Intel's devices, as far as this build knows them."""
    import torch

    values = {"devices": []}  # type: dict
    with Warned() as texts:
        values["mps_available"] = _get(torch, "backends.mps.is_available", call=True)
        values["xpu_available"] = _get(torch, "xpu.is_available", call=True)
        if values["xpu_available"]:
            try:
                for index in range(torch.xpu.device_count()):
                    properties = torch.xpu.get_device_properties(index)
                    values["devices"].append(
                        {"kind": "xpu", "index": index, "name": properties.name, "memory_total": getattr(properties, "total_memory", None)}
                    )
            except Exception as error:
                values["xpu_error"] = failure(error, "raised")
        if values["mps_available"]:
            limit = _get(torch, "mps.recommended_max_memory", call=True)
            values["devices"].append({"kind": "mps", "index": 0, "memory_total": limit if isinstance(limit, int) else None})
    values["warnings"] = texts
    return values


# -- beside torch ------------------------------------------------------------------------------------------------------


def numpy_bridge() -> "dict":
    """An array goes to torch and back, and both see the same memory."""
    import torch

    try:
        import numpy
    except ImportError as error:
        if getattr(error, "name", None) == "numpy":
            return {"result": "missing"}
        return failure(error, "numpy")
    except BaseException as error:
        return failure(error, "numpy")
    values = {"numpy": str(getattr(numpy, "__version__", "")), "location": _location(numpy)}
    with Warned() as texts:
        try:
            array = numpy.arange(6, dtype=numpy.float32).reshape(2, 3)
            tensor = torch.from_numpy(array)
            array[1, 2] = 41.0
            back = (tensor + 1).numpy()
            if back.shape != (2, 3) or float(back[1, 2]) != 42.0:
                raise ValueError(f"the array came back changed: {back.tolist()}")
        except BaseException as error:
            values.update(failure(error, "bridge"))
    values["warnings"] = texts
    return values


def companion(name: str) -> "dict":
    """Imports a package that belongs to torch; torchvision's operators are used once."""
    import importlib

    with Warned() as texts:
        begun = time.time()
        try:
            module = importlib.import_module(name)
        except BaseException as error:
            missing = isinstance(error, ImportError) and getattr(error, "name", None) == name
            values = {"result": "missing"} if missing else failure(error, "raised")
            values["version"] = written_version(name)
        else:
            values = {"result": "ok", "version": _text(getattr(module, "__version__", None)), "location": _location(module)}
            values["modules"] = _modules()
            values["cuda"] = _cuda_version(_get(module, "version.cuda"))
            if name == "torchvision":
                values.update(_operators(module))
        values["seconds"] = round(time.time() - begun, 4)
    values["warnings"] = texts
    return values


def written_version(name: str) -> "str | None":
    """`__version__` as the package's version.py writes it: unlike the metadata it names the build ("0.28.0+cu130")."""
    import importlib.util
    import os
    import re

    try:
        spec = importlib.util.find_spec(name)
        places = list(spec.submodule_search_locations or ()) if spec is not None else []
        with open(os.path.join(places[0], "version.py"), encoding="utf-8", errors="replace") as file:
            found = re.search(r"^__version__\s*(?::[^=\n]*)?=\s*['\"]([^'\"\n]+)['\"]", file.read(20000), re.M)
        return found.group(1) if found else None
    except Exception:
        return None


def _cuda_version(value: object) -> "str | None":
    """torchvision says 12080 or "12080" for 12.8; others say "12.8"."""
    text = str(value or "")
    if text.isdigit() and len(text) > 3:
        return f"{int(text) // 1000}.{int(text) % 1000 // 10}"
    return text or None


def _operators(torchvision: object) -> "dict":
    """Non-maximum suppression of three boxes: the second is inside the first, the third apart."""
    import torch

    try:
        boxes = torch.tensor([[0.0, 0.0, 10.0, 10.0], [0.0, 0.0, 10.0, 9.0], [20.0, 20.0, 30.0, 30.0]])
        kept = torchvision.ops.nms(boxes, torch.tensor([0.9, 0.8, 0.7]), 0.5).tolist()
    except Exception as error:
        return {"operators": False, "operator_error": failure(error, "raised")}
    return {"operators": kept == [0, 2]}
