"""Environment variables that can matter. Only names of this list are ever read: others may hold secrets."""

from __future__ import annotations

from envcheck.facts import EnvVar, Facts
from envcheck.probes.host import Host

PREFIXES = (
    "CUDA_",
    "NVIDIA_",
    "DYLD_",
    "PYTORCH_",
    "TORCH_",
    "TORCHDYNAMO_",
    "TORCHINDUCTOR_",
    "TRITON_",
    "CUBLAS_",
    "CUDNN_",
    "NCCL_",
    "GLOO_",
    "HSA_",
    "HIP_",
    "ROCR_",
    "ROCM_",
    "ONEAPI_",
    "ZE_",
    "SYCL_",
    "MKL_",
    "OMP_",
    "KMP_",
    "ATEN_",
    "ONEDNN_",
)
NAMES = frozenset(
    {
        *("LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONPATH", "PYTHONHOME", "PYTHONNOUSERSITE", "GPU_DEVICE_ORDINAL"),
        *("CONDA_PREFIX", "CONDA_DEFAULT_ENV", "VIRTUAL_ENV", "UV_TORCH_BACKEND", "UV_PYTHON", "CC", "CXX"),
    }
)
PRESENCE = frozenset({"SLURM_JOB_ID"})
"""Told only that they are set."""


def allowed(name: str) -> bool:
    """The variable may be read."""
    return name in NAMES or name.startswith(PREFIXES)


def probe(host: Host) -> Facts:
    """The variables that are set, sorted by name."""
    found = [EnvVar(name=name, value=value) for name, value in host.env.items() if allowed(name)]
    found += [EnvVar(name=name, value="set") for name in PRESENCE if name in host.env]
    return Facts(env=tuple(sorted(found, key=lambda item: item.name)))
