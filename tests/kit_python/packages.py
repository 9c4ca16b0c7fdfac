"""Torch packages that behave as asked: every kind of build, and every way in which an import goes wrong."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Sequence
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

# -- bodies of torch/__init__.py ---------------------------------------------------------------------------------------

WORKS = """
from torch.version import __version__
from torch import version, cuda
class Tensor: pass
def get_num_threads(): return 4
def get_float32_matmul_precision(): return "highest"
"""
SEGFAULTS = """
import ctypes
def load_everything():
    ctypes.string_at(0)
load_everything()
"""
ILLEGAL_INSTRUCTION = "import os, signal; os.kill(os.getpid(), signal.SIGILL)"
ABORTS = """
import os, sys
sys.stderr.write("OMP: Error #15: Initializing libiomp5.so, but found libiomp5.so already initialized.\\n")
sys.stderr.flush()
os.abort()
"""
HANGS = """
import time
def wait_for_the_network():
    time.sleep(3600)
wait_for_the_network()
"""
EXITS = "import os; os._exit(0)"
EXITS_WITH_3 = "import os; os._exit(3)"
SYSTEM_EXIT = "raise SystemExit('no licence')"
NOISY = (
    """
import os, sys, warnings
print("Loading the model zoo ...")
sys.stderr.write("W0101 something of C++\\n")
os.write(1, b"no line end here")
warnings.warn("this build is old", UserWarning)
warnings.warn("not shown to users", DeprecationWarning)
sys.stdout.close()
"""
    + WORKS
)
CUDNN_GONE = "raise ImportError('libcudnn.so.8: cannot open shared object file: No such file or directory')"
NCCL_SYMBOL = "raise ImportError('/v/site-packages/torch/lib/libtorch_cuda.so: undefined symbol: ncclCommResume')"
DLL_GONE = (
    "raise OSError(\"[WinError 126] The specified module could not be found. Error loading "
    "'C:\\\\\\\\v\\\\\\\\torch\\\\\\\\lib\\\\\\\\c10.dll' or one of its dependencies.\")"
)
CAUSED = """
try:
    import nothing_of_that_name
except ImportError as error:
    raise RuntimeError("torch could not be set up") from error
"""

# -- bodies of torch/cuda/__init__.py ----------------------------------------------------------------------------------

CUDA_WORKS = """
def is_available(): return True
def device_count(): return 2
def init(): pass
class _Properties:
    name = "NVIDIA GeForce RTX 4090"; major = 8; minor = 9; total_memory = 25393692672; multi_processor_count = 128
def get_device_properties(index): return _Properties()
"""
CUDA_NO_DRIVER = """
def is_available(): return False
def device_count(): return 0
def init(): raise RuntimeError("Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU")
"""
CUDA_TOO_OLD = """
import warnings
def is_available():
    warnings.warn("CUDA initialization: The NVIDIA driver on your system is too old (found version 11040).")
    return False
def device_count(): return 0
def init(): raise RuntimeError("The NVIDIA driver on your system is too old (found version 11040).")
"""
CUDA_SEGFAULTS = CUDA_NO_DRIVER.replace("raise RuntimeError", "import ctypes; ctypes.string_at(0); print")
CUDA_HANGS = CUDA_NO_DRIVER.replace("raise RuntimeError", "import time; time.sleep(3600); print")

CUDA_ARCHES = "sm_75 sm_80 sm_86 sm_90 compute_90"
ROCM_ARCHES = "gfx900 gfx906 gfx90a gfx1100"


def version_file(version: str, cuda: str | None = None, hip: str | None = None, xpu: str | None = None) -> str:
    """torch/version.py as releases since 2.5 write it."""
    return (
        "from typing import Optional\n\n"
        "__all__ = ['__version__', 'debug', 'cuda', 'git_version', 'hip', 'xpu']\n"
        f"__version__ = {version!r}\ndebug = False\ncuda: Optional[str] = {cuda!r}\n"
        f"git_version = '0123456789abcdef'\nhip: Optional[str] = {hip!r}\nxpu: Optional[str] = {xpu!r}\n"
    )


def make_torch(
    site: Path,
    version: str = "2.8.0+cu128",
    *,
    cuda: str | None = "12.8",
    hip: str | None = None,
    xpu: str | None = None,
    init: str = WORKS,
    cuda_init: str = CUDA_NO_DRIVER,
    arches: str = "",
    extension: str | None = None,
    metadata: bool = True,
    installer: str = "pip",
    requires: Sequence[str] = (),
) -> Path:
    """A torch package with its metadata; returns the package directory.

    arches: the constant compiled into libtorch_python; default as the backend has it. extension: name of the file `_C`
    ("" for none); default is what this Python imports.
    """
    package = site / "torch"
    for name in ("lib", "cuda", "nn", "autograd"):
        (package / name).mkdir(parents=True)
        (package / name / "__init__.py").write_text(cuda_init if name == "cuda" else "")
    (package / "lib" / "__init__.py").unlink()
    (package / "__init__.py").write_text(init)
    (package / "version.py").write_text(version_file(version, cuda, hip, xpu))
    for kind, there in (("cpu", True), ("cuda", cuda), ("hip", hip), ("xpu", xpu)):
        if there:
            (package / "lib" / f"libtorch_{kind}.so").write_bytes(b"\x7fELF" + kind.encode() * 10)
    arches = arches or (CUDA_ARCHES if cuda else ROCM_ARCHES if hip else "")
    write_python_library(package / "lib" / "libtorch_python.so", arches)
    extension = f"_C{EXTENSION_SUFFIXES[0]}" if extension is None else extension
    if extension:
        (package / extension).write_bytes(b"\x7fELF")
    if metadata:
        files = [path for path in sorted(package.rglob("*")) if path.is_file()]
        make_metadata(site, "torch", version, files=files, installer=installer, requires=requires)
    return package


def write_python_library(path: Path, arches: str) -> None:
    """Bytes like those of libtorch_python: the list as a string of its own, and look-alikes around it."""
    filler = b"\0".join([b"sm_", b"with sm_20 in a sentence", b"x" * 5000, b"compute_", b"gfx"])
    path.write_bytes(b"\x7fELF" + filler + b"\0" + arches.encode() + b"\0" + filler)


def make_metadata(
    site: Path,
    name: str,
    version: str,
    *,
    files: Sequence[Path] = (),
    installer: str | None = "pip",
    requires: Sequence[str] = (),
    extra: str = "",
    direct_url: str | None = None,
) -> Path:
    """A dist-info directory with METADATA, INSTALLER and a RECORD of those files as they are now."""
    info = site / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    lines += [f"Requires-Dist: {line}" for line in requires]
    (info / "METADATA").write_text("\n".join(lines) + f"\n{extra}\nRequires-Dist: not-a-header\n")
    if installer is not None:
        (info / "INSTALLER").write_text(installer + "\n")
    if direct_url is not None:
        (info / "direct_url.json").write_text(direct_url)
    rows = [record_row(site, path) for path in files]
    rows += ["../../../bin/torchrun,sha256=x,200", f"{info.name}/RECORD,,", "torch/__pycache__/gone.cpython-311.pyc,,"]
    (info / "RECORD").write_text("\n".join(rows) + "\n")
    return info


def record_row(site: Path, path: Path) -> str:
    """A line of RECORD."""
    data = path.read_bytes()
    name = path.relative_to(site).as_posix()
    name = f'"{name}"' if "," in name else name
    return f"{name},sha256={hashlib.sha256(data).hexdigest()},{len(data)}"


def make_wheel(site: Path, name: str, version: str, files: dict[str, bytes], *, installer: str = "pip") -> Path:
    """A package of plain files with its metadata (an nvidia-* wheel); returns the metadata directory."""
    paths = []
    for relative, data in files.items():
        path = site / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        paths.append(path)
    return make_metadata(site, name, version, files=paths, installer=installer)


def python_tag() -> str:
    """ "311" of the running interpreter."""
    return f"{sys.version_info[0]}{sys.version_info[1]}"
