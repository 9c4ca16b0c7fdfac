"""Which native libraries are mapped, from where: lists of Linux, Windows and macOS, and this process's own."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

MAPS = """\
55d0-55d1 r--p 00000000 08:01 1 /usr/bin/python3.11
7f00-7f01 r-xp 00000000 08:01 2 /v/site-packages/torch/lib/libtorch_cpu.so
7f01-7f02 rw-p 00000000 08:01 2 /v/site-packages/torch/lib/libtorch_cpu.so
7f02-7f03 r-xp 00000000 08:01 3 /home/a b/cuda-12.4/lib64/libnvJitLink.so.12.4.127
7f03-7f04 r-xp 00000000 08:01 4 /usr/lib/libcuda.so.535.183.01 (deleted)
7f04-7f05 rw-p 00000000 00:00 0 [heap]
7f05-7f06 rw-s 00000000 00:05 9 /dev/nvidia0
7f06-7f07 r--p 00000000 08:01 5 /usr/share/locale/x.mo
"""


def test_paths_of_a_maps_file(part) -> None:
    assert part("probe_libraries").paths_in_maps(MAPS) == [
        "/v/site-packages/torch/lib/libtorch_cpu.so",
        "/home/a b/cuda-12.4/lib64/libnvJitLink.so.12.4.127",
        "/usr/lib/libcuda.so.535.183.01",
    ]


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("libcudnn.so.9", "cudnn"), ("libcudnn-1b2c3d4e.so.8", "cudnn"), ("libcudnn_ops_infer.so.8", "cudnn-part"), ("cudnn64_9.dll", "cudnn"),
        ("cudnn_cnn_infer64_8.dll", "cudnn-part"), ("libcublas.so.12", "cublas"), ("libcublasLt.so.12", "cublasLt"), ("cublasLt64_12.dll", "cublasLt"),
        ("libcudart-d0da41ae.so.11.0", "cudart"), ("cudart64_12.dll", "cudart"), ("libnvJitLink.so.12", "nvJitLink"), ("nvJitLink_120_0.dll", "nvJitLink"),
        ("libnccl.so.2", "nccl"), ("libncclras.so", None), ("libgomp-a34b3233.so.1", "libgomp"), ("libiomp5.so", "libiomp5"), ("libiomp5md.dll", "libiomp5"),
        ("libomp.dylib", "libomp"), ("libomp140.x86_64.dll", "libomp"), ("libomptarget.so", None), ("vcomp140.dll", "vcomp"), ("libstdc++.so.6.0.30", "libstdc++"),
        ("libcuda.so.1", "cuda"), ("libcuda.so.535.183.01", "cuda"), ("nvcuda.dll", "cuda"), ("libcudadebugger.so.1", None), ("libnvidia-ml.so.1", "nvml"),
        ("libtorch_cpu.dylib", "torch_cpu"), ("torch_cuda.dll", "torch_cuda"), ("libtorch_cuda_linalg.so", None), ("libtorch.so", "torch"), ("c10.dll", "c10"),
        ("c10_cuda.dll", "c10_cuda"), ("libamdhip64.so.6", "amdhip"), ("librccl.so.1", "rccl"), ("libmkl_rt.so.2", "mkl"), ("libmkl_avx2.so.2", None),
        ("libopenblas64_p-r0-0cf96a72.3.23.dev.so", "openblas"), ("libscipy_openblas64_-32a4b2a6.so", "openblas"), ("MSVCP140.dll", "msvcp"),
        ("msvcp140_1.dll", None), ("vcruntime140_1.dll", "vcruntime"), ("libcusparseLt.so.0", "cusparseLt"), ("libcusparse.so.12", "cusparse"), ("libnvrtc-builtins.so.12.8", None),
        ("libpython3.11.so.1.0", None), ("libc.so.6", None), ("libze_loader.so.1", "level-zero"), ("libsycl.so.8", "sycl"),
    ],
)  # fmt: skip
def test_families(part, monkeypatch: pytest.MonkeyPatch, name: str, family: str | None) -> None:
    module = part("probe_libraries")
    monkeypatch.setattr(module, "_mapped", lambda: [f"/nowhere/{name}"])
    monkeypatch.setattr(module, "ASKED", ())
    found = module.libraries()["libraries"]
    assert [item["name"] for item in found] == ([family] if family else [])


@pytest.mark.parametrize(
    ("path", "origin"),
    [
        ("/v/lib/python3.11/site-packages/nvidia/cudnn/lib/libcudnn.so.9", "wheel"),
        ("C:\\v\\Lib\\site-packages\\torch\\lib\\cudnn64_9.dll", "wheel"),
        ("/home/me/pytorch/torch/lib/libtorch_cpu.so", "wheel"),
        ("/usr/lib/x86_64-linux-gnu/libstdc++.so.6", "system"),
        ("/usr/local/cuda/lib64/libcudart.so.12", "system"),
        ("C:\\Windows\\System32\\nvcuda.dll", "system"),
        ("/opt/rocm/lib/libamdhip64.so.6", "system"),
        ("/home/me/cuda/lib64/libcudart.so.12", "other"),
    ],
)
def test_origins(part, path: str, origin: str) -> None:
    assert part("probe_libraries")._origin(path, {"ld_library_path": [], "conda": []}) == origin


def test_a_directory_of_the_library_path_goes_before_the_system(part, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = part("probe_libraries")
    (tmp_path / "conda" / "conda-meta").mkdir(parents=True)
    monkeypatch.setenv("LD_LIBRARY_PATH", f"/usr/local/cuda-12.4/lib64:{tmp_path}/x")
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "conda"))
    places = module._places()
    assert module._origin("/usr/local/cuda-12.4/lib64/libcudart.so.12", places) == "ld_library_path"
    assert module._origin(f"{tmp_path}/x/libcudnn.so.9", places) == "ld_library_path"
    assert module._origin(f"{tmp_path}/conda/lib/libstdc++.so.6", places) == "conda"
    assert module._origin(f"{tmp_path}/conda2/lib/libstdc++.so.6", places) == "other"


@pytest.mark.parametrize(("name", "version"), [("libstdc++.so.6.0.30", "6.0.30"), ("libcudnn.so.9", None), ("libgomp.so.1.0.0", "1.0.0"), ("x.dll", None)])
def test_versions_in_names(part, tmp_path: Path, name: str, version: str | None) -> None:
    (tmp_path / name).touch()
    (tmp_path / "link.so").symlink_to(name)
    assert part("probe_libraries")._version_in_name(str(tmp_path / "link.so")) == version


class _Library:
    """Answers like the libraries' own functions."""

    def __init__(self, **numbers: int) -> None:
        for name, number in numbers.items():
            setattr(self, name, self._function(name, number))

    @staticmethod
    def _function(name: str, number: int):
        import ctypes

        if name == "cudnnGetVersion":
            return type("F", (), {"restype": None, "__call__": lambda self: number})()

        def fill(pointer: object) -> int:
            ctypes.cast(pointer, ctypes.POINTER(ctypes.c_int))[0] = number
            return 0

        return fill


@pytest.mark.parametrize(
    ("family", "function", "number", "version"),
    [
        ("cudnn", "cudnnGetVersion", 8902, "8.9.2"), ("cudnn", "cudnnGetVersion", 91002, "9.10.2"), ("nccl", "ncclGetVersion", 22705, "2.27.5"),
        ("nccl", "ncclGetVersion", 2708, "2.7.8"), ("cudart", "cudaRuntimeGetVersion", 12080, "12.8"), ("cuda", "cuDriverGetVersion", 11040, "11.4"),
    ],
)  # fmt: skip
def test_versions_that_libraries_tell(part, family: str, function: str, number: int, version: str) -> None:
    import ctypes

    assert part("probe_libraries")._ask(ctypes, _Library(**{function: number}), family) == version


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc/self/maps is of Linux")
def test_this_process(part) -> None:
    module = part("probe_libraries")
    mapped = module._mapped()
    assert any(os.path.basename(path).startswith("libc.") or "musl" in path for path in mapped)
    assert len(mapped) == len(set(mapped))
