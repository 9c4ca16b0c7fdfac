"""What is installed: dist-info, egg-info and conda records of the packages that matter to torch, without importing any."""

import os
import re
import sys

# Packages that say something about a torch environment; everything else is only counted.
NAMES = frozenset(
    """torch torchvision torchaudio torchtext torchdata torchao torchrec pytorch pytorch-cuda pytorch-mutex pytorch-gpu
    pytorch-cpu libtorch cudatoolkit cudnn nccl magma libmagma cupti numpy scipy pandas pillow setuptools pip wheel uv
    packaging typing-extensions sympy networkx jinja2 filelock fsspec mpmath mkl mkl-service mkl-fft mkl-random
    mkl-include tbb blas libblas libopenblas openblas llvm-openmp intel-openmp libgomp openmp-mutex -openmp-mutex
    libstdcxx-ng libstdcxx libgcc-ng libgcc onemkl-license umf tcmlib xformers flash-attn flash-attn-3 bitsandbytes
    deepspeed vllm sglang tensorflow tensorboard keras jax jaxlib lightning pytorch-lightning transformers accelerate
    peft diffusers safetensors tokenizers auto-gptq gptqmodel autoawq optimum apex transformer-engine flashinfer-python
    onnx onnxscript cupy numba llvmlite opencv-python opencv-python-headless scikit-learn scikit-image cmake ninja
    python openssl conda amdsmi pynvml psutil fairscale fastai timm ultralytics detectron2 mmcv mmengine spconv
    causal-conv1d mamba-ssm unsloth liger-kernel xgboost hip-python rocm""".split()
)
PREFIXES = (
    "torch-", "torch_", "torchvision-", "triton", "pytorch-triton", "nvidia-", "cuda-", "intel-", "dpcpp-", "onemkl-",
    "onnxruntime", "tensorflow-", "jax-", "sgl-", "vllm-", "flash-attn", "cupy-", "libcu", "libnv", "libmagma", "rocm-",
    "xformers", "bitsandbytes", "spconv-", "opencv-", "numpy-", "pyg-",
)  # fmt: skip
# Of these the requirements are told too: what they ask of torch, CUDA and Python decides whether they fit together.
KIN = re.compile(r"torch|triton|xformers|flash-attn|bitsandbytes|deepspeed|vllm|sgl|nvidia-|cuda-toolkit|transformer-engine")
ASKED = re.compile(r"(torch|pytorch|triton|nvidia|cuda|numpy|setuptools|intel|rocm|mkl|tbb|onemkl)", re.IGNORECASE)
MAX_REQUIRES = 120
MAX_ENTRIES = 400
HEAD = 65536


def distributions() -> "dict":
    """Distributions of sys.path in the order in which they would be imported, and conda's records of the prefix."""
    found = []  # type: list
    leftovers = []  # type: list
    seen = set()  # type: set
    total = 0
    for entry in [item or "." for item in sys.path if isinstance(item, str)]:
        for name in _listing(entry):
            if name.startswith("~") and len(found) < MAX_ENTRIES:
                leftovers.append(os.path.join(entry, name))  # pip renames so while it removes, and back on failure
            stem, kind = os.path.splitext(name)
            if kind not in (".dist-info", ".egg-info", ".egg-link"):
                continue
            path = os.path.join(entry, name)
            real = os.path.realpath(path)
            if real in seen or name.startswith("~"):
                continue
            seen.add(real)
            total += 1
            project, version = _from_stem(stem)
            if wanted(project) and len(found) < MAX_ENTRIES:
                found.append(_describe(entry, path, project, version))
    return {
        "distributions": found,
        "total": total,
        "leftovers": leftovers[:20],
        "conda": _conda_records(),
    }


def wanted(project: str) -> bool:
    """Whether a distribution of that normalised name is told in full."""
    return project in NAMES or project.startswith(PREFIXES)


def _listing(directory: str) -> "list[str]":
    try:
        return sorted(os.listdir(directory))
    except OSError:
        return []  # zip archives and directories that are not there


def normalise(name: str) -> str:
    """PEP 503."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _from_stem(stem: str) -> "tuple[str, str | None]":
    """"nvidia_nccl_cu12-2.21.5" -> ("nvidia-nccl-cu12", "2.21.5"); an egg-info may end in "-py3.9"."""
    match = re.match(r"(.+?)-(\d[^-]*)(?:-py[\d.]+)?(?:-[^-]+)?$", stem)
    if match is None:
        return normalise(stem), None
    return normalise(match.group(1)), match.group(2)


def _describe(entry: str, path: str, project: str, version: "str | None") -> "dict":
    head = _metadata(path)
    named = _field(head, "Name")
    values = {
        "name": normalise(named) if named else project,
        "version": _field(head, "Version") or version,
        "location": entry,
        "metadata": os.path.basename(path),
        "site": site_of(entry),
        "manager": _installer(path),
        "readable": bool(head),
    }
    values.update(_direct_url(path))
    if path.endswith(".egg-link"):
        values["editable"] = True
    if KIN.search(project):
        # Optional parts matter for the CUDA collection alone: torch asks for its libraries as parts of it.
        asked = [line for line in _fields(head, "Requires-Dist") if ASKED.match(line)]
        parts = "'all'" if project == "cuda-toolkit" else "extra =="
        asked = [line for line in asked if parts not in line.replace('"', "'")]
        values["requires"] = asked[:MAX_REQUIRES]
        values["requires_python"] = _field(head, "Requires-Python")
    return values


def _read(path: str, size: int = HEAD) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(size)
    except OSError:
        return ""


def _metadata(path: str) -> str:
    """The header of METADATA or PKG-INFO; "" when there is none (an interrupted installation or removal)."""
    text = ""
    if os.path.isdir(path):
        text = _read(os.path.join(path, "METADATA")) or _read(os.path.join(path, "PKG-INFO"))
    elif path.endswith(".egg-info"):
        text = _read(path)
    return text.replace("\r\n", "\n").partition("\n\n")[0]


def _fields(head: str, name: str) -> "list[str]":
    start = name + ": "
    return [line[len(start) :].strip() for line in head.split("\n") if line.startswith(start)]


def _field(head: str, name: str) -> "str | None":
    values = _fields(head, name)
    return values[0] if values else None


def _installer(path: str) -> "str | None":
    return _read(os.path.join(path, "INSTALLER"), 100).strip().lower() or None


def _direct_url(path: str) -> "dict":
    """Where it came from when not from an index; the address without user, password and query."""
    text = _read(os.path.join(path, "direct_url.json"), 20000)
    if not text:
        return {"origin": "index" if path.endswith(".dist-info") else None}
    try:
        import json

        data = json.loads(text)
        address = str(data.get("url", ""))
    except (ValueError, AttributeError):
        return {"origin": None}
    kind = "vcs" if "vcs_info" in data else "file" if address.startswith("file:") else "url"
    address = re.sub(r"//[^/@]*@", "//", address).partition("?")[0].partition("#")[0]
    return {"origin": kind, "url": address[:500], "editable": bool((data.get("dir_info") or {}).get("editable"))}


def site_of(entry: str) -> str:
    """"env" | "user" | "system" | "pythonpath": whose package directory it is."""
    place = _canonical(entry)
    given = [_canonical(p) for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p]
    if place in given:
        return "pythonpath"
    user = _user_site()
    if user and place.startswith(_canonical(user)):
        return "user"
    inside = place.startswith(_canonical(sys.prefix) + os.sep)
    in_venv = sys.prefix != getattr(sys, "base_prefix", sys.prefix)
    if sys.prefix == "/usr" or not inside:
        return "system" if not in_venv or place.startswith(_canonical(sys.base_prefix) + os.sep) else "env"
    return "env"


def _canonical(path: str) -> str:
    return os.path.normcase(os.path.realpath(path))


def _user_site() -> "str | None":
    try:
        import site

        return site.getusersitepackages()
    except Exception:
        return None


def _conda_records() -> "list[dict] | None":
    """conda-meta/NAME-VERSION-BUILD.json of packages that matter; None outside a conda environment."""
    meta = os.path.join(sys.prefix, "conda-meta")
    if not os.path.isdir(meta):
        return None
    records = []
    for name in _listing(meta):
        parts = name[: -len(".json")].rsplit("-", 2) if name.endswith(".json") else []
        if len(parts) != 3 or not wanted(normalise(parts[0])):
            continue
        records.append({"name": normalise(parts[0]), "version": parts[1], "build": parts[2], "channel": _channel(os.path.join(meta, name))})
    return records[:MAX_ENTRIES]


def _channel(path: str) -> "str | None":
    """Name of the channel a record names, without the token that a private one carries."""
    text = _read(path, 8000000)
    match = re.search(r'"channel"\s*:\s*"([^"]*)"', text)
    if match is None:
        return None
    address = re.sub(r"//[^/@]*@", "//", match.group(1))
    address = re.sub(r"/t/[^/]+/", "/", address)
    address = re.sub(r"/(?:linux|osx|win|noarch)(?:-[\w]+)?/?$", "", address)
    return address.partition("://")[2].partition("/")[2] or address
