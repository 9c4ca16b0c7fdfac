"""Which native libraries this process has really mapped, from where, and what version they say they are."""

import os
import re
import sys

# Family by file name. The name may carry a wheel's hash ("libgomp-a34b3233.so.1") or Windows' version
# ("cudnn64_9.dll", "cublasLt64_12.dll").
FAMILIES = (
    ("cuda", r"lib(?:cuda)\.so|nvcuda\.dll|libcuda\.\d*\.?dylib"),
    ("nvml", r"libnvidia-ml\.so|nvml\.dll"),
    ("cudart", r"(?:lib)?cudart"),
    ("cudnn", r"(?:lib)?cudnn(?=[\d.-]|64)"),
    ("cudnn-part", r"(?:lib)?cudnn_"),
    ("cublasLt", r"(?:lib)?cublasLt"),
    ("cublas", r"(?:lib)?cublas"),
    ("cufft", r"(?:lib)?cufft(?!w)"),
    ("curand", r"(?:lib)?curand"),
    ("cusolver", r"(?:lib)?cusolver(?!Mg)"),
    ("cusparseLt", r"(?:lib)?cusparseLt"),
    ("cusparse", r"(?:lib)?cusparse"),
    ("nvJitLink", r"(?:lib)?nvJitLink"),
    ("nvrtc", r"(?:lib)?nvrtc(?!-builtins)"),
    ("cupti", r"(?:lib)?cupti"),
    ("nccl", r"(?:lib)?nccl(?=[\d.-])"),
    ("nvshmem", r"(?:lib)?nvshmem_host"),
    ("libiomp5", r"libiomp5"),
    ("libomp", r"libomp(?=[\d.-]|140)"),
    ("libgomp", r"libgomp"),
    ("vcomp", r"vcomp\d"),
    ("mkl", r"(?:lib)?mkl_(?:rt|core)"),
    ("openblas", r"(?:lib)?(?:scipy_)?openblas"),
    ("tbb", r"(?:lib)?tbb\d*(?=[.\d-])"),
    ("libstdc++", r"libstdc\+\+"),
    ("libgcc", r"libgcc_s"),
    ("msvcp", r"msvcp140(?=[.-])"),
    ("vcruntime", r"vcruntime140"),
    ("torch_python", r"(?:lib)?torch_python"),
    ("torch_cuda", r"(?:lib)?torch_cuda(?!_linalg)"),
    ("torch_hip", r"(?:lib)?torch_hip"),
    ("torch_xpu", r"(?:lib)?torch_xpu"),
    ("torch_cpu", r"(?:lib)?torch_cpu"),
    ("torch", r"(?:lib)?torch\."),
    ("c10_cuda", r"(?:lib)?c10_cuda"),
    ("c10", r"(?:lib)?c10\."),
    ("amdhip", r"(?:lib)?amdhip64"),
    ("hsa-runtime", r"libhsa-runtime64"),
    ("rccl", r"librccl"),
    ("miopen", r"(?:lib)?MIOpen"),
    ("rocblas", r"(?:lib)?rocblas"),
    ("sycl", r"(?:lib)?sycl\d*\."),
    ("level-zero", r"libze_loader|ze_loader\.dll"),
)

# Families whose libraries state their version through a function that only reads a constant.
ASKED = ("cudnn", "nccl", "cudart", "cuda", "cublas", "cublasLt", "nvJitLink")
MAX_LIBRARIES = 200


def libraries() -> "dict":
    """The mapped libraries of known families, in the order in which the process holds them."""
    patterns = [(family, re.compile(text, re.IGNORECASE)) for family, text in FAMILIES]
    places = _places()
    found = []
    for path in _mapped():
        name = os.path.basename(path.replace("\\", "/"))
        family = next((family for family, pattern in patterns if pattern.match(name)), None)
        if family is not None and len(found) < MAX_LIBRARIES:
            version = _version(family, path) or _version_in_name(path)
            found.append({"name": family, "path": path, "origin": _origin(path, places), "version": version})
    return {"libraries": found}


# -- the list ----------------------------------------------------------------------------------------------------------


def _mapped() -> "list[str]":
    if sys.platform.startswith("linux"):
        return _mapped_linux()
    if sys.platform == "win32":
        return _mapped_windows()
    if sys.platform == "darwin":
        return _mapped_macos()
    return []


def _mapped_linux() -> "list[str]":
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as file:
        return paths_in_maps(file.read())


def paths_in_maps(text: str) -> "list[str]":
    """Distinct shared objects of a /proc/PID/maps text, in order."""
    paths = {}  # type: dict
    for line in text.split("\n"):
        start = line.find("/")
        path = line[start:] if start >= 0 else ""
        if path.endswith(" (deleted)"):
            path = path[: -len(" (deleted)")]
        if re.search(r"\.so(?:\.[\w.-]+)?$", path):
            paths[path] = None
    return list(paths)


def _mapped_windows() -> "list[str]":
    import ctypes
    from ctypes import wintypes

    kernel = ctypes.WinDLL("kernel32", use_last_error=True)
    kernel.GetCurrentProcess.restype = wintypes.HANDLE
    kernel.K32EnumProcessModules.argtypes = [wintypes.HANDLE, ctypes.c_void_p, wintypes.DWORD, ctypes.POINTER(wintypes.DWORD)]
    kernel.GetModuleFileNameW.argtypes = [wintypes.HMODULE, wintypes.LPWSTR, wintypes.DWORD]
    modules = (wintypes.HMODULE * 4096)()
    needed = wintypes.DWORD()
    if not kernel.K32EnumProcessModules(kernel.GetCurrentProcess(), modules, ctypes.sizeof(modules), ctypes.byref(needed)):
        return []
    buffer = ctypes.create_unicode_buffer(32768)
    count = min(needed.value // ctypes.sizeof(wintypes.HMODULE), len(modules))
    return [buffer.value for module in modules[:count] if kernel.GetModuleFileNameW(module, buffer, len(buffer))]


def _mapped_macos() -> "list[str]":
    import ctypes

    system = ctypes.CDLL(None)
    system._dyld_get_image_name.restype = ctypes.c_char_p
    system._dyld_get_image_name.argtypes = [ctypes.c_uint32]
    names = [system._dyld_get_image_name(index) for index in range(system._dyld_image_count())]
    return [os.fsdecode(name) for name in names if name]


# -- where it is from --------------------------------------------------------------------------------------------------


def _places() -> "dict":
    """Directories by the origin that they stand for."""
    given = os.environ.get("LD_LIBRARY_PATH", "") + os.pathsep + os.environ.get("DYLD_LIBRARY_PATH", "")
    conda = os.path.isdir(os.path.join(sys.prefix, "conda-meta"))
    base = getattr(sys, "base_prefix", sys.prefix)
    return {
        "ld_library_path": [_canonical(p) for p in re.split("[" + os.pathsep + ";]", given) if p.strip()],
        "conda": [_canonical(p) for p in {sys.prefix if conda else "", base} if p and os.path.isdir(os.path.join(p, "conda-meta"))],
    }


def _origin(path: str, places: "dict") -> str:
    """"wheel" | "conda" | "system" | "ld_library_path" | "other"."""
    plain = path.replace("\\", "/")
    if re.search(r"/(?:site|dist)-packages/", plain) or re.search(r"/torch/lib/[^/]+$", plain):
        return "wheel"
    directory = _canonical(os.path.dirname(path))
    if directory in places["ld_library_path"]:
        return "ld_library_path"
    if any(directory.startswith(prefix + os.sep) for prefix in places["conda"]):
        return "conda"
    if plain.startswith(("/lib", "/usr/lib", "/usr/local/", "/System/", "/opt/rocm", "/nix/store/", "/run/opengl-driver")) or re.match(r"(?i)[a-z]:/windows/", plain):
        return "system"
    return "other"


def _canonical(path: str) -> str:
    return os.path.normcase(os.path.realpath(path))


# -- what version it is ------------------------------------------------------------------------------------------------


def _version_in_name(path: str) -> "str | None":
    """libstdc++.so.6.0.30 -> "6.0.30". A bare ABI number (".so.9") is no version."""
    match = re.search(r"\.so\.(\d+\.[\d.]+)$", os.path.basename(os.path.realpath(path)))
    return match.group(1) if match else None


def _version(family: str, path: str) -> "str | None":
    if family not in ASKED:
        return None
    try:
        import ctypes

        # Already mapped: the loader hands back the same copy and loads nothing.
        mode = getattr(os, "RTLD_NOLOAD", 0) | getattr(os, "RTLD_LAZY", 0)
        library = ctypes.CDLL(path, mode=mode) if sys.platform != "win32" else ctypes.WinDLL(path)
        return _ask(ctypes, library, family)
    except Exception:
        return None


def _ask(ctypes: object, library: object, family: str) -> "str | None":
    number = ctypes.c_int(0)
    if family == "cudnn":
        library.cudnnGetVersion.restype = ctypes.c_size_t
        value = int(library.cudnnGetVersion())
        unit = 10000 if value >= 90000 else 1000
        return f"{value // unit}.{value % unit // 100}.{value % 100}"
    if family == "nccl":
        if library.ncclGetVersion(ctypes.byref(number)):
            return None
        value = number.value
        return f"{value // 10000}.{value // 100 % 100}.{value % 100}" if value >= 10000 else f"{value // 1000}.{value // 100 % 10}.{value % 100}"
    if family in ("cudart", "cuda"):
        function = library.cudaRuntimeGetVersion if family == "cudart" else library.cuDriverGetVersion
        if function(ctypes.byref(number)):
            return None
        return f"{number.value // 1000}.{number.value % 1000 // 10}"
    if family in ("cublas", "cublasLt"):
        function = library.cublasGetProperty if family == "cublas" else library.cublasLtGetProperty
        parts = []
        for kind in (0, 1, 2):  # MAJOR_VERSION, MINOR_VERSION, PATCH_LEVEL
            if function(kind, ctypes.byref(number)):
                return None
            parts.append(str(number.value))
        return ".".join(parts)
    minor = ctypes.c_uint(0)
    major = ctypes.c_uint(0)
    function = library.nvJitLinkVersion
    if function(ctypes.byref(major), ctypes.byref(minor)):
        return None
    return f"{major.value}.{minor.value}"
