"""What a conda build string says: the CUDA of a pytorch package, without any table."""

from __future__ import annotations

import re


def build_cuda(build: str) -> str | None:
    """CUDA of a conda build string; "" = a CPU build; None = it does not say.

    Channel pytorch: "py3.9_cuda11.8_cudnn8.7.0_0", "py3.9_cpu_0". conda-forge: "cuda129_mkl_py312h1234567_300",
    "cuda118py311h4ee7bbc_305", "cpu_generic_py312_0".
    """
    dotted = re.search(r"cuda_?(\d+\.\d+)", build)
    if dotted:
        return dotted[1]
    joined = re.match(r"(?:gpu_)?cuda(\d{2})(\d)(?!\d)", build)
    if joined:
        return f"{joined[1]}.{joined[2]}"
    return "" if re.search(r"(^|_)cpu(_|$)|^cpu", build) else None
