"""Paths in tracebacks and warnings: which Python, which environment, whose torch, and files that hide a module."""

from __future__ import annotations

import re
from dataclasses import dataclass

from envcheck.captured.document import IMPLIED, NOTED, Document, word_set
from envcheck.facts import LoadedLibrary, Shadow
from envcheck.lazy import Regex

_FRAME = Regex(
    r"^[\s|]{0,24}File [\"'](?P<path>[^\"'\n]{1,400})[\"'], line (?P<line>\d{1,7})(?:, in (?P<function>.{1,200}))?$"
)
_IPYTHON = Regex(
    r"^\s{0,8}(?:File )?(?P<path>(?:~|/|[A-Za-z]:\\|\.\.?/)[^\s:()\"']{1,300}\.pyx?)(?::(?P<line>\d{1,7}))?,? in (?P<function>[\w.<>]{1,100})"
)
_PATH = Regex(
    r"(?<![\w.])(?P<path>(?:~|/|[A-Za-z]:[\\/]|\.\.\.[\\/])[^\s:\"'()<>|,;`]{0,300}?(?:site-packages|dist-packages)[\\/][^\s:\"'()<>|,;`]{1,200})"
)
_PATH_BLANKS = Regex(r"[\"'](?P<path>[A-Za-z]:\\[^\"'\n]{1,200}?site-packages\\[^\"'\n]{1,200})[\"']")
_PYTHON_DIR = Regex(
    r"[\\/](?:lib|lib64)[\\/]python(\d\.\d{1,2})(t)?[\\/]|[\\/]python(\d\.\d{1,2})[\\/](?:site|dist)-packages|[\\/]Python(\d)(\d{1,2})(-32|-arm64)?[\\/]|Python\.(\d\.\d{1,2})_|[\\/]Versions[\\/](\d\.\d{1,2})[\\/]",
    re.IGNORECASE,
)
_ENV = Regex(
    r"[\\/](?:anaconda|miniconda|miniforge|mambaforge|micromamba|conda|\.conda)[\w.-]{0,12}[\\/](?:envs[\\/])?([\w.-]{1,60})?",
    re.IGNORECASE,
)
_ENVS = Regex(r"[\\/]envs[\\/]([\w.-]{1,60})[\\/]", re.IGNORECASE)
_FINAL = Regex(
    r"^(?P<type>(?:[A-Za-z_][\w.]{0,100}\.)?[A-Z]\w{0,60}(?:Error|Exception|Warning|Interrupt|Exit)?)(?::\s?(?P<message>.*))?$"
)
_SO = Regex(
    r"(?P<path>(?:/|~|\.\./)[^\s:\"'()<>|,;`]{1,300}?/(?P<name>lib(?:cudnn|cublas|cublasLt|nccl|cudart|nvJitLink|cusparse|cusolver|cufft|curand|nvrtc|cupti|torch|c10|stdc\+\+|gomp|iomp5|omp|mkl)[\w.+-]{0,60}?\.(?:so|dylib)(?:\.[\d.]{1,20})?))"
)

_MODULES = word_set(
    "torch torchvision torchaudio numpy onnx transformers triton diffusers accelerate datasets tensorflow keras cv2 sklearn scipy pandas matplotlib jax"
    " tokenizers huggingface_hub safetensors peft bitsandbytes wandb tensorboard lightning pytorch_lightning onnxruntime timm einops PIL yaml requests tqdm evaluate"
)
_STANDARD = word_set(
    "random types typing logging inspect code copy queue select tokenize enum numbers string math json platform operator signal socket statistics struct secrets"
    " calendar email html token ast abc io dataclasses profile collections abc functools itertools warnings traceback time datetime re os sys pickle tempfile threading"
    " multiprocessing subprocess contextlib uuid hashlib glob shutil bisect heapq decimal fractions cmd dis imp locale site symtable test"
)
_IMPORTING = ("ImportError", "ModuleNotFoundError", "AttributeError", "TypeError", "NameError", "RecursionError")


@dataclass(frozen=True)
class Frame:
    """One frame of a traceback: where, and the code line below it."""

    path: str
    index: int
    function: str
    code: str

    @property
    def library(self) -> bool:
        """A file of Python itself or of an installed package."""
        return is_library(self.path)

    @property
    def directory(self) -> str:
        """The directory of the file, without the last separator."""
        return re.sub(r"[^\\/]*$", "", self.path).rstrip("\\/").removeprefix("./")

    @property
    def stem(self) -> str:
        """ "onnx" of "/path/to/onnx.py"."""
        name = re.split(r"[\\/]", self.path)[-1]
        return name.rpartition(".")[0] or name


def is_library(path: str) -> bool:
    """Whether a path lies in Python's own library or among installed packages."""
    return (
        re.search(
            r"site-packages|dist-packages|[\\/]lib(?:64)?[\\/]python\d|[\\/]python\d\.\d{1,2}[\\/]|^<frozen|[\\/]Lib[\\/](?!site)|importlib[\\/]__init__",
            path,
        )
        is not None
    )


def parse(doc: Document) -> None:
    """Reads paths and tracebacks. The lines stay searchable for error signatures."""
    for index in doc.find("site-packages", "dist-packages"):
        line = doc.lines[index]
        match = _PATH.search(line) or _PATH_BLANKS.search(line)
        if match:
            _library_path(doc, match["path"], index)
    for index in doc.find("-32"):
        line = doc.lines[index]
        if re.search(r";[A-Za-z]:[\\/]", line):
            continue  # PATH: all that is installed, and not what runs
        match = re.search(r"[\\/]Python(\d)(\d{1,2})-32(?:[\\/>]|$)", line, re.IGNORECASE)
        if match:
            doc.put("python.bits", 32, index, IMPLIED)
            doc.put("python.version", f"{match[1]}.{match[2]}", index, IMPLIED)
    for index in doc.find('file "', "file '", ".py in ", ", in "):
        match = _FRAME.match(doc.lines[index]) or _IPYTHON.match(doc.lines[index])
        if match:
            _any_path(doc, match["path"], index)
            doc.claim(index, errors=True)
    if doc.has("traceback", 'file "'):
        for frames, final in tracebacks(doc):
            _shadows(doc, frames, final)
    for index in doc.find(
        "(most likely due to a circular import)",
        "consider renaming",
        "partially initialized module",
        "cannot import name",
    ):
        _named_shadow(doc, doc.lines[index], index)
    for index in doc.find("calling init:", "mapped", "=> /", "ldd ", "loaded library", "lsof", "/proc/"):
        _loaded(doc, doc.lines[index], index)


def _library_path(doc: Document, path: str, index: int) -> None:
    _any_path(doc, path, index)
    match = re.search(r"^(.*[\\/](?:site|dist)-packages[\\/]torch)(?:[\\/]|$)", path)
    if match and "..." not in match[1]:
        doc.put("torch.location", match[1], index, IMPLIED)
    if re.search(r"\.local[\\/]lib|AppData[\\/]Roaming[\\/]Python|[\\/]Library[\\/]Python[\\/]", path):
        doc.put("python.user_site", re.sub(r"((?:site|dist)-packages).*$", r"\1", path), index, IMPLIED)
        doc.put("python.user_site_enabled", True, index, IMPLIED)


def _any_path(doc: Document, path: str, index: int) -> None:
    match = _PYTHON_DIR.search(path)
    if match:
        version = match[1] or match[3] or (f"{match[4]}.{match[5]}" if match[4] else None) or match[7] or match[8]
        if version and version[0] in "23":
            doc.put("python.version", version, index, IMPLIED)
        if match[6] == "-32":
            doc.put("python.bits", 32, index, IMPLIED)
    conda = _ENV.search(path)
    if conda:
        doc.put("python.kind", "conda", index, IMPLIED)
    named = _ENVS.search(path)
    if named:
        doc.put("python.conda_env", named[1], index, IMPLIED)
        doc.put("python.kind", "conda", index, IMPLIED)
    elif re.search(r"[\\/](?:\.?venv|env|virtualenv)[\\/](?:lib|Lib|Scripts|bin)", path):
        doc.put("python.kind", "venv", index, IMPLIED)
    doc.put("system.os", os_of_path(path), index, IMPLIED)
    if path.startswith("/kaggle/") or "/kaggle/" in path:
        doc.put("system.cloud", "kaggle", index, NOTED)
    elif path.startswith("/content/"):
        doc.put("system.cloud", "colab", index, NOTED)


def os_of_path(path: str) -> str | None:
    """The operating system that a path belongs to, None when it may be any."""
    if re.match(r"[A-Za-z]:[\\/]", path) or re.search(r"\\Lib\\site-packages", path):
        return "windows"
    if path.startswith(
        ("/Users/", "/opt/homebrew/", "/Library/Frameworks/", "/System/Library/", "/Applications/")
    ) or path.endswith(".dylib"):
        return "macos"
    if path.startswith(
        (
            "/home/",
            "/root/",
            "/usr/lib",
            "/usr/local/lib/python",
            "/usr/lib64",
            "/lib64/",
            "/lib/x86_64",
            "/opt/conda/",
            "/content/",
            "/workspace/",
            "/mnt/",
            "/data/",
            "/gpfs/",
            "/kaggle/",
        )
    ):
        return "linux"
    return None


def tracebacks(doc: Document) -> list[tuple[list[Frame], tuple[str, str, int] | None]]:
    """Each traceback of the text: its frames, and its last line as (type, message, index)."""
    found: list[tuple[list[Frame], tuple[str, str, int] | None]] = []
    frames: list[Frame] = []
    hits = doc.find('file "', "file '")
    hit_set = set(hits)
    for position, index in enumerate(hits):
        match = _FRAME.match(doc.lines[index])
        if not match:
            continue
        code = doc.lines[index + 1].strip() if index + 1 < len(doc.lines) and index + 1 not in hit_set else ""
        frames.append(Frame(match["path"], index, (match["function"] or "").strip(), code))
        following = hits[position + 1] if position + 1 < len(hits) else len(doc.lines)
        final = None
        for other in range(index + 1, min(following, index + 12)):
            line = doc.lines[other]
            if line[:1].isspace() or not line:
                continue
            end = _FINAL.match(line.strip())
            if end:
                final = (end["type"].rpartition(".")[2], end["message"] or "", other)
                break
            if line.startswith(("During handling", "The above exception", "Traceback")):
                break
        else:
            if following - index <= 12 and following < len(doc.lines):
                continue
        found.append((frames, final))
        frames = []
    if frames:
        found.append((frames, None))
    return found[:50]


def _shadows(doc: Document, frames: list[Frame], final: tuple[str, str, int] | None) -> None:
    """A file beside the script that was started comes before every installed module of its name."""
    if not frames or (final is not None and final[0] not in _IMPORTING):
        return
    start = frames[0].directory
    for position, frame in enumerate(frames):
        if frame.library or frame.path.startswith("<") or frame.directory != start or not frame.path.endswith(".py"):
            continue
        stem = frame.stem
        later = frames[position + 1 :]
        named = final is not None and re.search(rf"\b{re.escape(stem)}\b", final[1]) is not None
        if stem in _MODULES:
            uses = re.search(rf"\b{re.escape(stem)}\b", frame.code) is not None
            importing = any(f.library or "import" in f.code for f in later) or final is not None
            if named or (uses and importing):
                _note(doc, stem, frame.path, frame.index)
        elif stem in _STANDARD:
            called_by_library = position > 0 and frames[position - 1].library
            if called_by_library or (named and position > 0):
                _note(doc, stem, frame.path, frame.index)


def _note(doc: Document, module: str, path: str, index: int) -> None:
    known = doc.draft.lists.get("shadows", [])
    if not any(v.value.module == module for v in known):
        doc.add("shadows", Shadow(module=module, path=path), index)


def _named_shadow(doc: Document, line: str, index: int) -> None:
    """Python names the file itself: "partially initialized module 'torch' (...) (sahi/utils/torch.py)"."""
    match = re.search(
        r"module ['\"]([\w.]{1,60})['\"].{0,200}?(?:consider renaming ['\"]([^'\"]{1,300}\.py)|\(([^()\n]{1,300}?\.py)\)\s*$)",
        line,
    )
    if not match:
        match = re.search(
            r"cannot import name ['\"]\w{1,80}['\"] from ['\"]([\w.]{1,60})['\"] \(()([^()\n]{1,300}?\.py)\)\s*$", line
        )
    if not match:
        return
    module, path = match[1], match[2] or match[3] or ""
    if not path or is_library(path):
        return
    top = module.split(".")[0]
    parts = [part for part in re.split(r"[\\/]", path) if part]
    stem = parts[-1].removesuffix(".py") if parts else ""
    if (stem == top or (stem == "__init__" and len(parts) > 1 and parts[-2] == top)) and (
        top in _MODULES or top in _STANDARD
    ):
        _note(doc, top, path, index)


_FAMILIES = (
    ("cublasLt", "cublasLt"), ("cublas", "cublas"), ("cudnn", "cudnn"), ("nccl", "nccl"), ("cudart", "cudart"), ("nvJitLink", "nvJitLink"), ("cusparse", "cusparse"),
    ("cusolver", "cusolver"), ("cufft", "cufft"), ("curand", "curand"), ("nvrtc", "nvrtc"), ("cupti", "cupti"), ("stdc++", "libstdc++"), ("gomp", "libgomp"), ("iomp5", "libiomp5"),
    ("omp", "libomp"), ("mkl", "mkl"), ("torch", "torch"), ("c10", "torch"),
)  # fmt: skip


def _loaded(doc: Document, line: str, index: int) -> None:
    """Libraries that the loader reports: LD_DEBUG=libs, ldd, /proc/<pid>/maps."""
    if re.search(r"not found|cannot open|no such file|undefined symbol", line, re.IGNORECASE):
        return
    match = _SO.search(line)
    if not match:
        return
    path, name = match["path"], match["name"]
    family = next((family for word, family in _FAMILIES if name.startswith(f"lib{word}")), name)
    version = re.search(r"\.so\.(\d[\d.]*)$", path)
    doc.add(
        "torch.loaded_libraries",
        LoadedLibrary(name=family, path=path, version=version[1] if version else None, origin=origin_of(path)),
        index,
    )
    doc.claim(index, errors=True)


def origin_of(path: str) -> str:
    """Where a library comes from, judged by its path."""
    if re.search(r"(?:site|dist)-packages/(?:torch/lib|nvidia)/", path):
        return "wheel"
    if re.search(r"/(?:envs/[^/]+|anaconda\w*|miniconda\w*|miniforge\w*|mambaforge\w*)/lib/", path):
        return "conda"
    if re.match(r"(?:/usr)?/lib(?:64|/x86_64-linux-gnu|/aarch64-linux-gnu)?/|/usr/local/(?:lib|cuda)", path):
        return "system"
    return "other"
