"""Error texts that speak about the build: what it was compiled for, and what was compiled against it.

Sources of the wordings: torch/cuda/__init__.py, torch/_inductor/exc.py, torch/_dynamo/eval_frame.py and
torch/utils/cpp_extension.py from 0.4 to 2.15; torchvision/extension.py; torchaudio/_extension; Triton's compiler and
runtime/build.py; ptxas and nvcc; DeepSpeed's op builder, apex's and flash-attn's setup.py; HIP and rocBLAS.
"""

from __future__ import annotations

from envcheck.symptoms.base import Signature
from envcheck.symptoms.fragments import FRAME, WORD_START

_GPU_WARNINGS = (
    Signature(
        "gpu-not-compatible",
        ("with cuda capability sm_",),
        r"(?P<gpu>[^\n|:>\"(]{3,80}?) with CUDA capability sm_(?P<capability>\d{2,3})[a-z]? is\s+not\s+compatible"
        r"(?:[\s\S]{0,300}?supports\s+CUDA\s+capabilities\s+(?P<archs>(?:sm|compute)_[\w ,]{2,400}))?",
        after=5,
    ),
    Signature(
        "gpu-outside-range",
        ("which is of cuda capability",),
        r"Found GPU ?(?P<index>\d+) (?P<gpu>[^\n]{2,80}?) which is of cuda capability (?P<capability>\d+\.\d)"
        r"[\s\S]{0,200}?Minimum and Maximum cuda capability supported[\s\S]{0,80}?"
        r"\((?P<min>\d+\.\d)\)\s+-\s+\((?P<max>\d+\.\d)\)",
        after=5,
    ),
    Signature(
        "gpu-no-longer-supported",
        ("which is of cuda capability",),
        r"Found GPU ?(?P<index>\d+) (?P<gpu>[^\n]{2,80}?) which is of cuda capability (?P<capability>\d+\.\d)"
        r"[\s\S]{0,120}?no longer supports this GPU because it is too old"
        r"(?:[\s\S]{0,120}?minimum cuda capability (?:that we support|supported by this library) is (?P<min>\d+\.\d))?",
        after=5,
    ),
    Signature(
        "gpu-not-in-cc-list",
        ("which is of compute capability (cc)",),
        r"Found GPU ?(?P<index>\d+) (?P<gpu>[^\n]{2,80}?) which is of compute capability \(CC\) (?P<capability>\d+\.\d)"
        r"(?:[\s\S]{0,300}?hardware CCs it supports:\s*(?P<archs>-[\s\S]{0,1500}?)"
        r"(?=Your installed|Please follow|No published|\n\s*\n|\Z))?",
        after=24,
    ),
    Signature(
        "gpu-needs-newer-cuda",
        ("which requires cuda_version >=",),
        r"Found GPU ?(?P<index>\d+) (?P<gpu>[^\n]{2,80}?) which requires CUDA_VERSION >= (?P<needs>\d+)"
        r"(?:[\s\S]{0,200}?compiled with CUDA_VERSION (?P<built>\d+))?",
        after=3,
    ),
)

_NO_CODE = (
    Signature(
        "no-kernel-image",
        (
            "no kernel image is available",
            "cudaerrornokernelimagefordevice",
            "cuda_error_no_binary_for_gpu",
        ),
        FRAME
        + r"(?:no kernel image is available(?: for execution on the device)?(?: at line \d+ in file (?P<source_file>\S{1,200}))?"
        r"(?: \(\w{3,80} at (?P<kernel_file>[^\s:)]{3,200}))?"
        r"|cudaErrorNoKernelImageForDevice|CUDA_ERROR_NO_BINARY_FOR_GPU)",
        before=9,
    ),
    Signature(
        "cuda-invalid-device-function",
        ("cuda error: invalid device function", "cudaerrorinvaliddevicefunction", "(98) invalid device function"),
        FRAME
        + r"(?:CUDA error: invalid device function|cudaErrorInvalidDeviceFunction|\(98\) invalid device function)",
        before=9,
    ),
    Signature(
        "extension-gpu-unsupported",
        (
            "only supports ampere",
            "only supports turing",
            "only supports hopper",
            "requires device with capability >",
            "requires a gpu with compute capability",
            "requires gpu with compute capability",
        ),
        r"\b(?P<extension>Flash Attention|\w{3,30})(?: \w{1,20}){0,2} only supports (?P<needs>(?:Ampere|Turing|Hopper)[^\n]{0,60})"
        r"|requires device with capability > \((?P<floor>\d+, \d+)\) but your GPU has capability "
        r"\((?P<has>\d+, \d+)\) \(too old\)"
        r"|requires (?:a )?GPU with compute capability (?P<least>[\d.]{1,5})[^\n]{0,80}",
    ),
    Signature(
        "hip-no-code",
        (
            "unable to find code object for all current devices",
            "no compatible code objects found for",
            "tensilelibrary",
        ),
        r"Unable to find code object for all current devices|No compatible code objects found for:? ?(?P<gfx>gfx\w{3,6})?"
        r"|Cannot read \S{0,200}TensileLibrary|TensileLibrary_lazy_(?P<lazy>gfx\w{3,6})",
    ),
)

_NO_BACKEND = (
    Signature(
        "torch-without-cuda",
        (
            "torch not compiled with cuda enabled",
            "pytorch was compiled without cuda support",
            "not linked with support for cuda devices",
            "without aten_cuda library",
            "has no attribute '_cuda_getdevicecount'",
            "has no attribute '_cuda_setdevice'",
            "has no attribute '_cuda_getdevice'",
            "has no attribute '_cudaemptycache'",
        ),
        r"Torch not compiled with CUDA enabled|PyTorch was compiled without CUDA support"
        r"|PyTorch is not linked with support for cuda devices|Cannot initialize CUDA without ATen_cuda library"
        r"|module 'torch\._C' has no attribute '_cuda_\w{3,30}'",
    ),
    Signature(
        "op-without-cuda-backend",
        ("from the 'cuda' backend",),
        r"Could not run '(?P<op>[\w:.]{3,60})' with arguments from the 'CUDA' backend"
        r"(?:[\s\S]{0,1500}?(?:only available for these backends|is only available for):? ?\[(?P<backends>[^\]]{0,400}))?",
        after=4,
    ),
    Signature(
        "compile-without-cuda",
        ("torch not compiled with cuda enabled",),
        r"(?:BackendCompilerFailed|InductorError|LoweringException|torch[\\/.]_(?:inductor|dynamo)[\\/.])[\s\S]{0,900}?"
        r"Torch not compiled with CUDA enabled",
        before=10,
    ),
    Signature(
        "nccl-not-built",
        ("have nccl built in", "has no attribute 'processgroupnccl'", "nccl is not available on your"),
        r"(?:Distributed package|PyTorch) doesn't have NCCL built in|cannot import name 'ProcessGroupNCCL'"
        r"|has no attribute 'ProcessGroupNCCL'",
    ),
    Signature(
        "xpu-not-compiled",
        ("torch not compiled with xpu enabled", "compiled without xpu support", "without aten_xpu library",
         "torch.xpu._is_compiled()", "xpu._is_compiled", "linked with support for xpu devices"),
        r"Torch not compiled with XPU enabled|PyTorch was compiled without XPU support"
        r"|PyTorch is not linked with support for xpu devices"
        r"|Cannot initialize XPU without ATen_xpu library|xpu\._is_compiled\(\)\)?[ \t]*\n[ \t>]*False\b"
        r"|xpu\._is_compiled\(\)[ :=\-]{1,5}False",
        after=2,
    ),
    Signature(
        "extension-without-cuda",
        (
            "not compiled with gpu support",
            "not compiled with cuda support",
            "wasn't build with cuda support",
            "wasn't built with cuda support",
            "was compiled without gpu support",
            "compiled without cuda support",
            "implementation for device cuda",
            "not implemented on the gpu",
            "could not find the bitsandbytes cuda binary",
            "could not find module",
            "cuda setup failed despite",
            "argument of type 'windowspath' is not iterable",
        ),
        FRAME + r"(?:Not compiled with (?:GPU|CUDA) support|\b(?P<extension>\w{3,30}) wasn't buil[dt] "
        r"with CUDA support|version of (?P<named>\w{3,30}) was compiled without (?:GPU|CUDA) support"
        r"|\b\w{1,40}_impl: implementation for device cuda:\d+ not found"
        r"|Could not find (?:the |module '[^'\n]{0,240}lib)(?P<binary>bitsandbytes)(?: CUDA binary|_(?:cuda\w{2,12}|cpu)\.dll)|(?P<setup>CUDA Setup failed) despite (?:GPU|CUDA) being available)"
        r"|(?P<linux>bitsandbytes)[^\n]{0,200}\n(?:[^\n]{0,300}\n){0,9}?[^\n]{0,40}argument of type 'WindowsPath' is not iterable",
        before=9,
    ),
)  # fmt: skip

_COMPANIONS = (
    Signature(
        "torchvision-ops-missing",
        (
            "operator torchvision::",
            "load custom c++ ops",
            "namespace 'torchvision'",
            "has no attribute 'extension'",
            "type torchvision::",
        ),
        r"operator torchvision::\w+ does not exist|No such operator torchvision::\w+"
        r"|Couldn't load custom C\+\+ ops|partially initialized module 'torchvision' has no attribute 'extension'"
        r"|_OpNamespace'? ?'torchvision' object has no attribute '\w+'",
    ),
    Signature(
        "torchvision-cuda-differs",
        ("torchvision were compiled with different cuda",),
        r"PyTorch and torchvision were compiled with different CUDA (?:major )?versions[\s\S]{0,40}?"
        r"PyTorch has CUDA Version ?= ?(?P<torch_cuda>[\d.]*\d)[\s\S]{0,20}?torchvision has\s+CUDA Version ?= ?"
        r"(?P<cuda>[\d.]*\d)",
        after=2,
    ),
    Signature(
        "torchvision-needs-newer-torch",
        ("module 'torch.library' has no attribute", "module 'torch' has no attribute 'library'"),
        r"File \"[^\"\n]{0,200}[\\/]torchvision[\\/][^\n]{0,200}\n(?:[^\n]{0,300}\n){0,3}?[^\n]{0,100}?"
        r"module 'torch(?:\.library)?' has no attribute '(?P<attribute>\w+)'",
        before=5,
    ),
    Signature(
        "torchaudio-cuda-differs",
        ("torchaudio were compiled with different cuda",),
        r"PyTorch and TorchAudio were compiled with different CUDA versions[\s\S]{0,40}?PyTorch has CUDA version "
        r"(?P<torch_cuda>[\d.]*\d) whereas TorchAudio has CUDA version (?P<cuda>[\d.]*\d)",
        after=2,
    ),
    Signature(
        "torchaudio-extension",
        ("torchaudio",),
        r"Could not load this library: [^\n]{0,300}torchaudio[^\n]{0,120}"
        r"|Could not find module '[^'\n]{0,300}[\\/]torchaudio[\\/][^'\n]{1,80}'"
        r"|Failed to load (?:the )?(?:PyTorch )?C\+\+ extension[^\n]{0,80}torchaudio"
        r"|\[WinError 12[67]\][^\n]{0,300}[\\/]torchaudio[\\/]"
        r"|(?:RuntimeError|ImportError|OSError|AttributeError): [^\n]{0,160}_torchaudio\b[^\n]{0,160}",
    ),
)

_TRITON = (
    Signature(
        "triton-missing",
        ("find a working triton installation", "no module named 'triton'", "no module named triton", "tritonmissing"),
        r"Cannot find a working triton installation|No module named '?triton'?(?![\w.])(?! ?\.)|TritonMissing",
    ),
    Signature(
        "triton-optional",
        ("a matching triton is not available", "triton is not available, some optimizations"),
        r"A matching Triton is not available|Triton is not available, some optimizations",
    ),
    Signature(
        "triton-api-missing",
        ("triton",),
        r"Triton only supports? CUDA [\d.]{2,5} or higher, but got CUDA version: (?P<ptxas_cuda>\d{1,2}\.\d{1,2})"
        r"|cannot import name '(?P<name>\w{2,60})' from (?:partially initialized module )?'triton[\w.]{0,60}'"
        r"|No module named '?triton ?\. ?(?P<module>[\w. ]{2,60}?)'?(?:$|[;\n ])"
        r"|module '(?:triton[\w.]{0,60})' has no attribute '(?P<attribute>\w{2,60})'"
        r"|(?P<argument>\b(?:JITFunction|CompiledKernel|ASTSource|AttrsDescriptor)[\w.]{0,30}\(?\)? got an unexpected keyword[^\n]{0,60})",
    ),
    Signature(
        "ptxas-unknown-gpu",
        ("is not defined for option 'gpu-name'", "unsupported .version", "unsupported .target"),
        r"ptxas[^\n]{0,80}Value '(?P<arch>sm_\w{2,5})' is not defined for option 'gpu-name'"
        r"|ptxas[^\n]{0,160}Unsupported \.version (?P<ptx>[\d.]*\d)[^\n]{0,60}|Unsupported \.target '?(?P<target>sm_\w{2,5})",
        before=1,
    ),
    Signature(
        "triton-libcuda",
        ("libcuda.so cannot found", "libcuda.so cannot be found", "cannot find -lcuda"),
        r"libcuda\.so cannot (?:be )?found|cannot find -lcuda(?![\w])",
    ),
    Signature(
        "triton-gpu-too-old",
        ("too old to be supported by the triton", "triton only supports devices of cuda capability"),
        r"(?:Found (?P<gpu>[^\n]{2,80}?) which is too old to be supported by the triton[^\n]{0,80})?"
        r"Triton only supports devices of CUDA Capability ?>= ?(?P<floor>\d\.\d)"
        r"(?:,? but your device is of CUDA capability (?P<capability>\d+\.\d))?",
        after=1,
    ),
)

_COMPILE = (
    Signature(
        "compile-context",
        ("backendcompilerfailed", "torch._inductor.exc", "torch._dynamo.exc", "torch._dynamo.config.suppress_errors",
         "loweringexception"),
        r"BackendCompilerFailed|torch\._inductor\.exc|torch\._dynamo\.exc|torch\._dynamo\.config\.suppress_errors"
        r"|LoweringException",
    ),
    Signature(
        "compile-device-unsupported",
        ("unsupported device type: ", "assertionerror: device "),
        r"Unsupported device type: (?P<device>mps|xla|hpu|privateuseone|cpu|npu|meta)\b"
        r"|AssertionError: Device (?P<other>mps|xla|hpu|npu)(?::\d)? not supported",
    ),
    Signature(
        "compile-windows",
        ("windows not yet supported for torch.compile",),
        r"Windows not yet supported for torch\.compile",
    ),
    Signature(
        "compile-python-too-new",
        ("not yet supported for torch.compile", "dynamo is not supported on python", "torch.compile is not supported on python"),
        r"Python (?P<python>\d\.\d+)\+? not yet supported for torch\.compile"
        r"|Dynamo is not supported on Python (?P<dynamo>\d\.\d+)\+?"
        r"|torch\.compile is not supported on Python (?P<compile>\d\.\d+)\+(?! built)",
    ),
    Signature(
        "compile-free-threaded",
        ("built with gil disabled",),
        r"torch\.compile is not supported on Python [^\n]{0,20}?built with GIL disabled",
    ),
    Signature(
        "no-c-compiler",
        (
            "failed to find c compiler",
            "no working c++ compiler found",
            "cl is not found",
            "++ is not found",
            "error checking compiler version for",
            "microsoft visual c++ 14",
            "unable to execute '",
            "no such file or directory: '",
            "' failed: no such file",
            "cannot find compiler 'cl.exe'",
            "'where', 'cl'",
            "command '['which',",
            "gcc: not found",
            "gcc: command not found",
            "g++: not found",
            "g++: command not found",
            "cc: not found",
            "cc: command not found",
            "c++: not found",
            "c++: command not found",
            "clang: not found",
            "clang: command not found",
        ),
        r"Failed to find C compiler|No working C\+\+ compiler found|Compiler: (?P<compiler>[\w+.\-]{1,40}) is not found"
        r"|Error checking compiler version for (?P<checked>cl|g\+\+|c\+\+|gcc|cc|clang\+*)\b"
        r"|Microsoft Visual C\+\+ 14\.\d(?: or greater)? is required"
        r"|unable to execute '(?P<executed>(?:[\w\-]{0,40}-)?(?:gcc|cc|g\+\+|c\+\+|clang\+*)(?:-\d+)?)': No such file"
        r"|command '(?P<failed>(?:[\w\-]{0,40}-)?(?:gcc|cc|g\+\+|c\+\+|clang\+*)(?:-\d+)?)' failed: No such file"
        r"|No such file or directory: '(?P<absent>(?:/[\w./\-]{0,100}/)?(?:[\w\-]{0,40}-)?(?:gcc|cc|g\+\+|c\+\+|clang\+*)(?:-\d+)?)'"
        r"|Cannot find compiler 'cl\.exe' in PATH|Command '\['where', 'cl'\]' returned non-zero"
        r"|(?:sh|bash|make|line \d+)[:\d ]{1,8}(?P<shell>gcc|g\+\+|cc|c\+\+|clang\+*)(?:: command)?:? not found",
    ),
    Signature(
        "python-headers-missing",
        ("python.h: no such file", "python.h' file not found", "cannot open include file: 'python.h'"),
        r"Python\.h(?:: No such file or directory|' file not found)|Cannot open include file: 'Python\.h'",
    ),
    Signature(
        "ninja-missing",
        ("ninja is required to load c++ extensions", "could not find ninja"),
        r"Ninja is required to load C\+\+ extensions|Could not find ninja",
    ),
)  # fmt: skip

_TOOLKIT = (
    Signature(
        "nvcc-torch-mismatch",
        (
            "mismatches the version that was used to compile",
            "does not match the version torch was compiled with",
            "does not match the version used to compile pytorch",
            "different from the version used to compile pytorch",
        ),
        r"detected CUDA version ?\(?(?:(?P<nvcc>\d+\.\d+)|%s)?\)? mismatches the version that was used to compile\s*"
        r"PyTorch ?\(?(?:(?P<torch>\d+\.\d+)|%s)?\)?(?:[\s\S]{0,80}?', '(?P<nvcc_arg>\d+\.\d+)', '(?P<torch_arg>\d+\.\d+)')?"
        r"|Installed CUDA version (?P<installed>\d+\.\d+) does not match the version torch was compiled with "
        r"(?P<compiled>\d+\.\d+)"
        r"|version of Cuda that does not match the version used to compile Pytorch binaries"
        r"(?:\.\s+Pytorch binaries were compiled with Cuda (?P<binaries>\d+\.\d+))?",
        after=2,
    ),
    Signature(
        "nvcc-minor-mismatch",
        ("minor version mismatch with the version that was used to compile",),
        r"detected CUDA version \((?P<nvcc>\d+\.\d+)\) has a minor version mismatch with the version that was used to "
        r"compile PyTorch \((?P<torch>\d+\.\d+)\)",
    ),
    Signature(
        "cuda-toolkit-missing",
        (
            "cuda_home environment variable is not set",
            "cuda_home does not exist",
            "but nvcc was not found",
            "nvcc was not found",
            "nvcc not found",
            "nvcc: not found",
            "nvcc: command not found",
            "/nvcc'",
            "nvcc: no such file",
            "nvcc.exe'",
            "cuda was not found on the system, please set the cuda_home",
            "could not find cuda",
            "no cmake_cuda_compiler could be found",
            "failed to find nvcc",
            "specify cuda_toolkit_root_dir",
            "environment variable cuda_home is undefined",
            "failed to find the cuda toolkit",
            "cuda_toolkit_root_dir not found",
            "unable to compile cuda op",
            "'nvcc'",
        ),
        r"CUDA_HOME environment variable is not set|CUDA_HOME does not exist|nvcc was not found|nvcc not found at"
        r"|nvcc: not found|nvcc: command not found|No such file or directory: ?'[^'\n]{0,120}?[\\/]?nvcc(?:\.exe)?'"
        r"|nvcc: No such file|CUDA was not found on the system, please set the CUDA_HOME|Could NOT find CUDA\b(?!.{0,20}Driver)"
        r"|No CMAKE_CUDA_COMPILER could be found|Failed to find nvcc|Specify CUDA_TOOLKIT_ROOT_DIR"
        r"|environment variable CUDA_HOME is undefined|Failed to find the CUDA toolkit|CUDA_TOOLKIT_ROOT_DIR not found"
        r"|unable to compile CUDA op",
    ),
    # Many a setup.py asks `CUDA_HOME + "/bin/nvcc"` for its version: torch.utils.cpp_extension.CUDA_HOME is None without a toolkit.
    Signature(
        "cuda-toolkit-missing",
        ("'nonetype' and 'str'",),
        r"(?:/nvcc\b|\bCUDA_HOME\b)[\s\S]{0,500}?unsupported operand type\(s\) for \+: 'NoneType' and 'str'",
        before=5,
    ),
    Signature(
        "cuda-headers-missing",
        (
            "cuda_runtime.h",
            "cuda_runtime_api.h",
            "cusparse.h",
            "cublas_v2.h",
            "cusolverdn.h",
            "cudaprofiler.h",
            "cuda.h",
            "cuda_fp16.h",
            "nvtoolsext.h",
            "thrust/",
            "curand_kernel.h",
        ),
        r"fatal error: (?P<header>cuda_runtime\.h|cuda_runtime_api\.h|cusparse\.h|cublas_v2\.h|cusolverDn\.h|cuda\.h"
        r"|cudaProfiler\.h|cuda_fp16\.h|cuda_bf16\.h|curand_kernel\.h|nvToolsExt\.h|thrust/\w[\w/.]{1,60}|cub/\w[\w/.]{1,60}):? "
        r"No such file|Cannot open include file: '(?P<include>cuda[\w./]{0,40}\.h|cusparse\.h|cublas_v2\.h)'",
    ),
    Signature(
        "nvcc-arch-unsupported",
        ("unsupported gpu architecture", "is not defined for option 'gpu-architecture'", "unknown cuda arch"),
        r"nvcc fatal\s{0,4}:\s{0,4}(?:Unsupported gpu architecture '(?P<arch>compute_\w{2,5})(?:'|\s|$)"
        r"|Value '(?P<value>\w{2,12})' is not defined for option 'gpu-architecture')|Unknown CUDA arch \((?P<name>[^)\n]{1,20})\)",
    ),
    # torch.utils.cpp_extension._get_cuda_arch_flags takes the capabilities of the GPUs that are visible; tiny-cuda-nn as well.
    Signature(
        "build-arch-unknown",
        ("arch_list[-1] += '+ptx'", "unknown compute capability. specify"),
        r"arch_list\[-1\] \+= '\+PTX'[^\n]{0,40}\n(?:[ \t~^]{1,120}\n)?[^\n]{0,40}IndexError: list index out of range"
        r"|Unknown compute capability\. Specify the target compute capabilities in the (?P<variable>\w{5,40})",
        after=2,
    ),
    Signature(
        "host-compiler-unsupported",
        ("unsupported gnu version", "unsupported microsoft visual studio version", "maximum required version by cuda",
         "minimum required version by cuda", "is not a supported compiler for cuda", "unsupported clang version"),
        r"unsupported GNU version! gcc versions later than (?P<newest>\d+)(?:\.\d+)? are not supported"
        r"|unsupported Microsoft Visual Studio version(?:! Only the versions? (?:between )?(?P<msvc>\d{4}(?:(?:,| and) ?\d{4}){0,5}))?"
        r"|unsupported clang version"
        r"|current installed version of (?P<compiler>[\w+/.\-]{1,60}) \((?P<version>[\d.]{1,12})\) is (?:greater|less) than the "
        r"(?:maximum|minimum) required version by CUDA (?P<cuda>\d+\.\d+)",
    ),
)  # fmt: skip

_EXTENSIONS = (
    Signature(
        "extension-torch-version",
        ("xformers was built for", "was built with pytorch", "requires pytorch", "xformers can't load c++/cuda extensions",
         "was compiled against pytorch", "was compiled with pytorch"),
        r"(?:xFormers can't load C\+\+/CUDA extensions\W{0,4})?xFormers was built for:\s+(?:PyTorch|Python) "
        r"[^\n(]{0,60}?(?:(?P<cuda>\+cu\d{2,3}|with CUDA \d{3,5})|\(|$)[^\n]{0,160}(?:\n[^\n]{0,160}){0,1}"
        r"|xFormers can't load C\+\+/CUDA extensions",
        after=3,
    ),
    Signature(
        "stale-extension-cache",
        ("torch_extensions/", "torch_extensions\\"),
        WORD_START + r"(?P<file>[^\s'\"`]{0,200}torch_extensions[\\/][^\s'\"`:]{1,160}\.(?:so|pyd))"
        r"[^\n]{0,40}(?:undefined symbol|cannot open shared object|No such file)",
    ),
)  # fmt: skip

SIGNATURES: tuple[Signature, ...] = (
    *_GPU_WARNINGS,
    *_NO_CODE,
    *_NO_BACKEND,
    *_COMPANIONS,
    *_TRITON,
    *_COMPILE,
    *_TOOLKIT,
    *_EXTENSIONS,
)
