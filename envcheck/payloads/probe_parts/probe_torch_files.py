"""The torch that would be imported, read from its files, and the user's files that would get in its way."""

import os
import re
import sys

# Modules of the standard library that `import torch` really uses (sys.modules after importing torch 2.13 and 2.14):
# a user's file of another name does it no harm.
STANDARD = frozenset(
    """argparse array ast asyncio base64 binascii bisect bz2 calendar cmath collections concurrent contextlib contextvars
    copy copyreg csv ctypes dataclasses datetime difflib dis email enum fnmatch functools gettext glob gzip hashlib
    heapq http importlib inspect ipaddress json keyword linecache locale logging lzma math mmap multiprocessing numbers
    opcode operator pathlib pickle pickletools pkgutil platform pprint queue quopri random re reprlib runpy select
    selectors shutil signal socket ssl string struct subprocess sysconfig tarfile tempfile textwrap threading timeit
    token tokenize traceback types typing unittest urllib uuid warnings weakref zipfile zlib""".split()
)
# What `import torchvision` uses beyond that (0.29).
STANDARD_OF_VISION = frozenset(
    """cProfile colorsys decimal fractions getpass hmac html modulefinder profile pstats secrets shlex statistics
    unicodedata xml""".split()
)
# torch 2.0 to 2.10 import the debugger with torch.distributed, and so its modules (pytorch/pytorch#104825, #171818).
STANDARD_OF_DEBUGGER = frozenset(("pdb", "bdb", "cmd", "code", "codeop"))
# Packages that torch and torchvision import, at once or when a part of them is used.
PACKAGES = frozenset(
    """torch torchvision torchaudio torchgen functorch triton numpy sympy mpmath networkx filelock fsspec jinja2
    markupsafe typing_extensions onnx onnxruntime onnxscript tensorboard yaml packaging psutil optree opt_einsum
    PIL setuptools""".split()
)
# Hidden even where no other copy is installed: an import of that name then finds the user's file.
ALWAYS = frozenset(("torch", "torchvision", "torchaudio", "numpy", "onnx"))

LIBRARIES = {
    "cuda": re.compile(r"^(?:lib)?torch_cuda(?:_cu|_cpp)?\."),
    "hip": re.compile(r"^(?:lib)?torch_hip\."),
    "xpu": re.compile(r"^(?:lib)?torch_xpu\."),
    "python": re.compile(r"^(?:lib)?torch_python\."),
    "cpu": re.compile(r"^(?:lib)?torch_cpu\."),
}
VARIABLE = re.compile(r"^(__version__|cuda|hip|xpu|rocm|debug|git_version)\s*(?::[^=\n]+)?=\s*(.+?)\s*$", re.MULTILINE)
ARCHES = {
    "cuda": (re.compile(rb"sm_[0-9]{2,3}[a-z]?(?:[ ,;]+(?:sm|compute)_[0-9]{2,3}[a-z]?)*\0"),
             re.compile(rb"compute_[0-9]{2,3}[a-z]?(?:[ ,;]+compute_[0-9]{2,3}[a-z]?)*\0")),
    "hip": (re.compile(rb"gfx[0-9a-f]{3,5}(?:[ ,;]+gfx[0-9a-f]{3,5})*\0"),),
}  # fmt: skip
MAX_SCAN = 512 * 1024 * 1024


def torch_files(loaded: "frozenset[str]") -> "dict":
    """Where torch lies, what build it is, what is wrong with its files; copies further back; files that hide modules.

    loaded: names of the modules that were imported before anything of ours, as they are in every start.
    """
    spec = _find("torch")
    values = {
        "found": False,
        "location": None,
        "copies": _copies(),
        "shadows": _shadows(loaded),
        "loaded_at_start": "torch" in loaded,
        "problems": [],
    }  # type: dict
    if spec is None:
        return values
    origin = getattr(spec, "origin", None)
    places = list(getattr(spec, "submodule_search_locations", None) or [])
    if origin in (None, "namespace"):
        values["location"] = places[0] if places else None
        values["problems"].append("namespace-leftover")
        return values
    if not places or not _is_torch(places[0]):
        values["location"] = origin
        values["problems"].append("not-torch")
        if origin not in [shadow["path"] for shadow in values["shadows"]]:
            values["shadows"].insert(0, _hidden("torch", origin, "path"))
        return values
    values["found"] = True
    values["location"] = places[0]
    values.update(_build(places[0], values["problems"]))
    return values


def _find(name: str) -> "object | None":
    """What `import name` would find, asked of the finders in their order; nothing is imported."""
    for finder in sys.meta_path:
        try:
            spec = finder.find_spec(name, None)
        except Exception:
            continue  # an import hook of somebody's that fails here fails in the import too, and is shown there
        if spec is not None:
            return spec
    return None


def _find_on(name: str, path: "list[str]") -> "str | None":
    """Origin of a regular package or module of that name on a path; None for none and for namespace packages."""
    from importlib.machinery import PathFinder

    try:
        spec = PathFinder.find_spec(name, path)
    except Exception:
        return None
    return _origin(spec)


def _origin(spec: "object | None") -> "str | None":
    origin = getattr(spec, "origin", None)
    return origin if origin not in (None, "namespace") else None


def _without(directory: str) -> "list[str]":
    """sys.path without one directory."""
    return [entry for entry in _entries() if os.path.realpath(entry) != os.path.realpath(directory)]


def _is_torch(directory: str) -> bool:
    """A directory that has what a built torch has, be it damaged: not any user's folder of that name."""
    names = _listing(directory)
    if _installed(os.path.dirname(directory), "torch"):
        return True
    marks = ("version.py", "lib", "nn", "autograd", "cuda", "_tensor.py", "tensor.py")
    return any(n.startswith("_C") for n in names) or sum(mark in names for mark in marks) >= 3


def _copies() -> "list[dict]":
    """Every torch on sys.path, in order, with its version."""
    copies = []
    seen = set()  # type: set
    for entry in _entries():
        directory = os.path.join(entry, "torch")
        real = os.path.realpath(directory)
        if real in seen or not os.path.isdir(directory) or not _is_torch(directory):
            continue
        seen.add(real)
        complete = os.path.isfile(os.path.join(directory, "__init__.py"))
        copies.append({"location": directory, "version": _version(directory).get("__version__"), "complete": complete})
    return copies


def _listing(directory: str) -> "list[str]":
    try:
        return os.listdir(directory)
    except OSError:
        return []


def _version(directory: str) -> "dict":
    """The assignments of torch/version.py; {} when there is none."""
    return {name: _literal(value) for name, value in VARIABLE.findall(_text(os.path.join(directory, "version.py")))}


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(50000)
    except OSError:
        return ""


def _entries() -> "list[str]":
    """sys.path as the import reads it: what is no text is passed over, "" is the current directory."""
    return [entry or "." for entry in sys.path if isinstance(entry, str)]


def _literal(text: str) -> object:
    text = text.partition("#")[0].strip() if text[:1] not in "'\"" else text
    if text in ("None", "True", "False"):
        return {"None": None, "True": True, "False": False}[text]
    match = re.match(r"(['\"])(.*?)\1", text)
    return match.group(2) if match else None


def _build(directory: str, problems: "list[str]") -> "dict":
    """Version, backends and arch list of an installed torch."""
    version = _version(directory)
    own = _libraries([os.path.join(directory, "lib")])
    # Wheels keep the libraries in torch/lib; some builds (conda-forge) in the prefix's library directories.
    libraries = _libraries([os.path.join(directory, "lib"), os.path.join(sys.prefix, "lib"), os.path.join(sys.prefix, "Library", "bin")])
    extensions = [n for n in _listing(directory) if re.match(r"_C\.(?:.*\.)?(?:so|pyd)$", n)]
    fits = _fits(extensions)
    values = {
        "version": version.get("__version__"),
        "debug": version.get("debug"),
        "git_version": version.get("git_version"),
        "libraries": libraries,
        "extensions": extensions[:10],
        "extension_fits": fits,
    }
    for name in ("cuda", "hip", "xpu"):
        values[name] = _backend(name, version, own)
    if not version:
        problems.append("no-version-file")
    if not extensions:
        problems.append("extension-missing")
    elif not fits:
        problems.append("extension-other-python")
    needed = ["python"] + [kind for kind in ("cuda", "hip") if values[kind]]
    if any(own.values()) and not all(libraries[kind] for kind in needed):
        problems.append("libraries-missing")
    values["arch_list"] = _arch_list(values, libraries)
    return values


def _backend(name: str, version: "dict", own: "dict") -> "str | None":
    """The backend's version, "yes" when only its library shows it, "" for a build without it, None when nothing tells.

    version.py is what torch itself goes by; releases older than a backend have no word about it.
    """
    if name in version:
        return str(version[name] or "")
    if own[name]:
        return "yes" if name == "xpu" else None
    return "" if own["cpu"] else None


def _fits(extensions: "list[str]") -> bool:
    """Whether one of the extension files carries this interpreter's own tag (or none at all)."""
    from importlib.machinery import EXTENSION_SUFFIXES

    return any(name == "_C" + suffix for name in extensions for suffix in EXTENSION_SUFFIXES)


def _libraries(places: "list[str]") -> "dict":
    """Full names of torch's own libraries by kind, None for one that is in none of the directories."""
    found = dict.fromkeys(LIBRARIES)  # type: dict
    for place in places:
        names = sorted(n for n in _listing(place) if "torch_" in n and not n.endswith((".lib", ".a", ".pdb")))
        for kind, pattern in LIBRARIES.items():
            hits = [n for n in names if pattern.match(n)]
            if hits and not found[kind]:
                found[kind] = os.path.join(place, hits[0])
    return found


def _arch_list(build: "dict", libraries: "dict") -> "list[str] | None":
    """The architectures compiled in, as torch.cuda.get_arch_list() would say; None when the file does not tell.

    That function returns a constant of libtorch_python, which stands in the file as one zero-ended string.
    """
    if build["cuda"] == "" and build["hip"] == "":
        return []
    library = libraries["python"]
    if not library:
        return None
    longest = b""
    for pattern in ARCHES["hip" if build["hip"] else "cuda"]:
        for match in _strings(library, pattern):
            if len(match) > len(longest):
                longest = match
        if longest:
            break
    words = re.split(r"[ ,;]+", longest.rstrip(b"\0").decode("ascii"))
    return [word for word in words if word] or None


def _strings(path: str, pattern: "re.Pattern") -> "list[bytes]":
    """Zero-ended strings of a file that match as a whole."""
    import mmap

    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if not 0 < size <= MAX_SCAN:
                return []
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                return [m.group() for m in pattern.finditer(data) if data[m.start() - 1 : m.start()] == b"\0"]
    except (OSError, ValueError):
        return []


# -- files that hide modules -------------------------------------------------------------------------------------------


def _shadows(loaded: "frozenset[str]") -> "list[dict]":
    """Files of the user's that an import finds before the real module.

    Looked at: the current directory, which `python -c`, `python -m` and a script in it put in front, and the entries
    of sys.path before the standard library (PYTHONPATH). Directories without `__init__.py` hide nothing.
    """
    places = []
    if not (getattr(sys.flags, "safe_path", False) or sys.flags.isolated):
        try:
            places.append((os.getcwd(), "cwd"))
        except OSError:
            pass  # the current directory is gone
    standard = os.path.realpath(os.path.dirname(os.__file__))
    for entry in _entries():
        if os.path.realpath(entry) == standard or "site-packages" in entry or "dist-packages" in entry:
            break
        if os.path.isdir(entry):
            places.append((entry, "pythonpath"))
    found = []  # type: list
    seen = set()  # type: set
    for directory, by in places:
        if os.path.realpath(directory) in seen | {standard}:
            continue
        seen.add(os.path.realpath(directory))
        found.extend(_shadows_in(directory, by, loaded, standard))
    return found[:50]


def _shadows_in(directory: str, by: str, loaded: "frozenset[str]", standard: str) -> "list[dict]":
    stems = {name.partition(".")[0] for name in _listing(directory)}
    used = _used()
    found = []
    for name in sorted(stems & (used | PACKAGES)):
        path = _find_on(name, [directory])
        if path is None:
            continue
        if name in used:
            hides = _hidden_standard(name, path, loaded, standard)
        else:
            hides = _origin(_find(name)) if by == "cwd" else _find_on(name, _without(directory))
            if hides is None and name not in ALWAYS:
                continue
        if hides == "" or (hides and os.path.realpath(hides) == os.path.realpath(path)):
            continue  # not hidden, or one and the same file (a checkout that is installed in place)
        if by == "pythonpath" and name in PACKAGES and (hides is None or _installed(directory, name)):
            continue  # a package directory like any other: its copies are told as distributions
        found.append({"module": name, "path": path, "hides": hides, "by": by, "standard": name in used})
    return found


def _used() -> "frozenset[str]":
    """Modules of the standard library that this torch, and torchvision beside it, import."""
    used = STANDARD
    if any(os.path.isdir(os.path.join(entry, "torchvision")) for entry in _entries()):
        used = used | STANDARD_OF_VISION
    places = [os.path.join(copy["location"], "distributed", "__init__.py") for copy in _copies()[:1]]
    if any(re.search(r"^import pdb\b", _text(place), re.MULTILINE) for place in places):
        used = used | STANDARD_OF_DEBUGGER
    return used


def _hidden_standard(name: str, path: str, loaded: "frozenset[str]", standard: str) -> str:
    """Path of the standard module that `path` hides, "" when it hides none."""
    import _imp

    if name in sys.builtin_module_names or _imp.is_frozen(name):
        return ""
    if name in loaded:
        # Loaded before the current directory comes into play; hidden only if the file at hand is what was loaded.
        if os.path.realpath(str(getattr(sys.modules.get(name), "__file__", ""))) != os.path.realpath(path):
            return ""
    return _find_on(name, [standard, os.path.join(standard, "lib-dynload"), os.path.join(sys.base_prefix, "DLLs")]) or ""


def _hidden(name: str, path: str, by: str) -> "dict":
    """A shadow found by the import itself, with what lies behind it."""
    directory = os.path.dirname(path)
    if os.path.basename(path).startswith("__init__."):
        directory = os.path.dirname(directory)
    return {"module": name, "path": path, "hides": _find_on(name, _without(directory)), "by": by}


def _installed(directory: str, name: str) -> bool:
    """Metadata of that package stands beside it."""
    return any(n.lower().startswith(name.lower() + "-") and n.endswith((".dist-info", ".egg-info")) for n in _listing(directory))
