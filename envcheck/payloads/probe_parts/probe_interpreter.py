"""What this interpreter is, what made its environment, and the variables that steer it."""

import os
import sys

# Variables by prefix and by name. Nothing else is read: values of others may be secrets.
ALLOWED_PREFIXES = (
    "CUDA_", "NVIDIA_", "DYLD_", "PYTORCH_", "TORCH_", "TORCHDYNAMO_", "TORCHINDUCTOR_", "TRITON_", "CUBLAS_", "CUBLASLT_",
    "CUDNN_", "NCCL_", "GLOO_", "HSA_", "HIP_", "ROCR_", "ROCM_", "ONEAPI_", "ZE_", "SYCL_", "MKL_", "OMP_", "KMP_", "ATEN_",
    "ONEDNN_", "MIOPEN_", "XPU_",
)  # fmt: skip
ALLOWED_NAMES = (
    "LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONPATH", "PYTHONHOME", "PYTHONNOUSERSITE", "PYTHONUSERBASE", "PYTHONSAFEPATH",
    "GPU_DEVICE_ORDINAL", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "VIRTUAL_ENV", "UV_TORCH_BACKEND", "UV_PYTHON", "CC", "CXX",
    "SLURM_JOB_ID",
)  # fmt: skip
FORBIDDEN = ("TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "API_KEY", "APIKEY", "AUTH")
MAX_VALUE = 4000


def environment() -> "dict":
    """The variables of the allow-list that are set, in order of their names."""
    found = {}
    for name in sorted(os.environ):
        plain = name.upper() if os.name == "nt" else name
        if any(word in plain for word in FORBIDDEN):
            continue
        if plain == "SLURM_JOB_ID":
            found[plain] = "set"  # that there is a job matters, its number does not
        elif plain in ALLOWED_NAMES or plain.startswith(ALLOWED_PREFIXES):
            found[plain] = os.environ[name][:MAX_VALUE]
    return {"variables": found}


def interpreter() -> "dict":
    """Version, build and kind of this Python."""
    config = _venv_config()
    suffix = _extension_suffix()
    conda = _conda(sys.prefix)
    values = {
        "executable": sys.executable,
        "version": ".".join(str(part) for part in sys.version_info[:3]) + _release_level(),
        "version_text": sys.version.replace("\n", " ")[:200],
        "implementation": sys.implementation.name,
        "bits": 64 if sys.maxsize > 2**32 else 32,
        "machine": _machine(suffix),
        "platform": sys.platform,
        "free_threaded": _free_threaded(suffix),
        "debug": hasattr(sys, "gettotalrefcount"),
        "soabi": _soabi(suffix),
        "libc": _libc(suffix),
        "macos_target": _macos_target(),
        "prefix": sys.prefix,
        "base_prefix": getattr(sys, "base_prefix", sys.prefix),
        "in_venv": sys.prefix != getattr(sys, "base_prefix", sys.prefix),
        "venv_config": config,
        "conda": conda,
        "externally_managed": _externally_managed(),
        "site_writable": _site_writable(),
        "cwd": _cwd(),
        "safe_path": bool(getattr(sys.flags, "safe_path", False) or sys.flags.isolated),
        "sys_path": [entry for entry in sys.path[:200] if isinstance(entry, str)],
    }
    values["kind"], values["manager"] = _kind(config, conda)
    values.update(_user_site())
    return values


def _cwd() -> "str | None":
    try:
        return os.getcwd()
    except OSError:
        return None  # the directory was removed under the shell


def _release_level() -> str:
    level = sys.version_info[3]
    return "" if level == "final" else {"alpha": "a", "beta": "b", "candidate": "rc"}.get(level, level) + str(sys.version_info[4])


def _extension_suffix() -> str:
    """".cpython-311-x86_64-linux-gnu.so", ".cp312-win_amd64.pyd", ".pypy39-pp73-x86_64-linux-gnu.so"; "" = not told."""
    from importlib.machinery import EXTENSION_SUFFIXES

    tagged = [suffix for suffix in EXTENSION_SUFFIXES if suffix.count(".") > 1 and "abi3" not in suffix]
    return tagged[0] if tagged else ""


def _soabi(suffix: str) -> "str | None":
    return suffix.strip(".").rpartition(".")[0] or None


def _machine(suffix: str) -> "str | None":
    """Of this interpreter: an x86_64 one under Rosetta says x86_64, a 32-bit one on a 64-bit system i686."""
    if sys.platform == "win32":
        text = sys.version
        return "arm64" if "ARM64" in text else "x86_64" if "AMD64" in text else "i686" if "32 bit" in text else None
    for part in suffix.split("-"):
        name = {"amd64": "x86_64", "i386": "i686", "arm": "armv7l", "powerpc64le": "ppc64le"}.get(part, part)
        if name in ("x86_64", "aarch64", "i686", "armv7l", "ppc64le", "s390x", "riscv64", "loongarch64"):
            return name
    machine = os.uname().machine
    if sys.maxsize < 2**32:
        return {"x86_64": "i686", "aarch64": "armv7l"}.get(machine, machine)
    return machine


def _free_threaded(suffix: str) -> bool:
    return "t" in getattr(sys, "abiflags", "") or any(tag.endswith("t") for tag in suffix.split("-")[:2] if tag[-2:-1].isdigit())


def _libc(suffix: str) -> "str | None":
    if sys.platform != "linux":
        return None
    if "musl" in suffix:
        return "musl"
    try:
        # Only the GNU C library knows this name.
        return "glibc" if os.confstr("CS_GNU_LIBC_VERSION") else None
    except (ValueError, OSError, AttributeError):
        return "musl"


def _macos_target() -> "str | None":
    if sys.platform != "darwin":
        return None
    import sysconfig

    return str(sysconfig.get_config_var("MACOSX_DEPLOYMENT_TARGET") or "") or None


def _venv_config() -> "dict":
    """pyvenv.cfg as a dict; {} when there is none."""
    for directory in (sys.prefix, os.path.dirname(sys.executable or "")):
        try:
            with open(os.path.join(directory, "pyvenv.cfg"), encoding="utf-8", errors="replace") as file:
                lines = file.read(20000).splitlines()
        except OSError:
            continue
        pairs = [line.partition("=") for line in lines if "=" in line]
        return {key.strip().lower(): value.strip()[:500] for key, _, value in pairs}
    return {}


def _conda(prefix: str) -> "dict | None":
    """What conda knows of a prefix; None when it is no conda environment."""
    meta = os.path.join(prefix, "conda-meta")
    try:
        names = os.listdir(meta)
    except OSError:
        return None
    parent, name = os.path.split(prefix.rstrip("/\\"))
    base = os.path.dirname(parent) if os.path.basename(parent) == "envs" else prefix
    is_base = any(n.startswith("conda-") and n.endswith(".json") for n in names) and os.path.isdir(os.path.join(prefix, "envs"))
    manager = "conda"
    if "pixi" in names or os.sep + ".pixi" + os.sep in prefix:
        manager = "pixi"
    elif _made_by_mamba(meta):
        manager = "mamba"
    return {
        "prefix": prefix,
        "env": "base" if is_base else name,
        "version": _conda_version(os.path.join(base, "conda-meta")) or _conda_version(meta),
        "manager": manager,
    }


def _made_by_mamba(meta: str) -> bool:
    """True when the last command in conda's history that names a program was mamba's or micromamba's."""
    try:
        with open(os.path.join(meta, "history"), encoding="utf-8", errors="replace") as file:
            lines = file.read(1000000).splitlines()
    except OSError:
        return False
    commands = [line[6:].split() for line in lines if line.startswith("# cmd:")]
    programs = [os.path.basename(words[0].replace("\\", "/")) for words in commands if words]
    return bool(programs) and "mamba" in programs[-1]


def _conda_version(meta: str) -> "str | None":
    try:
        names = os.listdir(meta)
    except OSError:
        return None
    for name in names:
        parts = name.rsplit("-", 2)
        if len(parts) == 3 and parts[0] == "conda" and name.endswith(".json"):
            return parts[1]
    return None


def _kind(config: "dict", conda: "dict | None") -> "tuple[str, str | None]":
    """The kind of the environment, and what made it where files tell."""
    prefix = sys.prefix.replace("\\", "/")
    if sys.prefix != getattr(sys, "base_prefix", sys.prefix):
        return "venv", _venv_manager(config, prefix)
    if conda is not None:
        return "conda", conda["manager"]
    if "/uv/python/" in prefix:
        return "uv", "uv"
    if "/versions/" in prefix and "pyenv" in prefix:
        return "pyenv", None
    if "WindowsApps" in (sys.executable or "") or "PythonSoftwareFoundation.Python" in prefix:
        return "store", None
    if prefix == "/usr" or prefix.startswith(("/Library/Developer/", "/Applications/Xcode", "/System/")):
        return "system", None
    if getattr(sys, "_framework", "") or ".framework/" in prefix:
        return "framework", "homebrew" if "/Cellar/" in prefix or "/homebrew/" in prefix else None
    return "other", None


def _venv_manager(config: "dict", prefix: str) -> str:
    if "uv" in config:
        return "uv"
    if "/pypoetry/" in prefix:
        return "poetry"
    if "/pipx/" in prefix:
        return "pipx"
    return "pip"


def _externally_managed() -> bool:
    """PEP 668: pip refuses to install here without --break-system-packages."""
    if sys.prefix != getattr(sys, "base_prefix", sys.prefix):
        return False
    return os.path.isfile(os.path.join(os.path.dirname(os.path.abspath(os.__file__)), "EXTERNALLY-MANAGED"))


def _site_writable() -> "bool | None":
    """Whether this user may install into the environment's own package directory."""
    prefix = os.path.normcase(os.path.abspath(sys.prefix))
    for entry in [item for item in sys.path if isinstance(item, str)]:
        inside = os.path.normcase(os.path.abspath(entry)).startswith(prefix)
        if inside and os.path.basename(entry) in ("site-packages", "dist-packages") and os.path.isdir(entry):
            return os.access(entry, os.W_OK)
    return None


def _user_site() -> "dict":
    """The per-user package directory and whether this interpreter looks into it."""
    try:
        import site

        return {"user_site": site.getusersitepackages(), "user_site_enabled": bool(site.ENABLE_USER_SITE)}
    except Exception:
        return {"user_site": None, "user_site_enabled": None}
