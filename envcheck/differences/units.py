"""Facts cut into units that can be compared and exchanged, and the subjects that units belong to.

A unit is a scalar field, or one entry of a list that has a name (a distribution, a GPU, a variable). A subject holds
what changes together: another torch build changes its version, its CUDA and its list of architectures at once.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Path = tuple[str, ...]
MISSING: Any = object()

KEYED: Mapping[Path, tuple[str, ...]] = {
    ("python", "distributions"): ("name",),
    ("nvidia", "gpus"): ("index",),
    ("nvidia", "libcuda"): ("path",),
    ("nvidia", "device_nodes"): ("path",),
    ("torch", "devices"): ("kind", "index"),
    ("torch", "companions"): ("name",),
    ("torch", "loaded_libraries"): ("name",),
    ("toolchain", "cuda_toolkits"): ("path",),
    ("env",): ("name",),
}
"""Lists whose entries have names."""

_WHOLE = {"status", "outcome", "path"}
"""Fields that a struct is nothing without: one that has them is a unit, never taken apart."""

# What two looks at one machine do not agree about, and what is no property of a machine.
_IGNORED = re.compile(
    r"(schema|origin|collected|envcheck|evidence|conflicts|probes|commands|requested)\b"
    r"|system\.(ram_available|disk_free|tmp_free|shm_free)$"
    r"|nvidia\.gpus\.\d+\.(memory_used|power_draw|temperature|utilization|clocks_sm|processes|throttle_reasons|bus_id"
    r"|pcie_gen|pcie_width|power_limit)$"
    r"|nvidia\.(smi_path|cuda_init\.devices)|.*\.(seconds|line|bus_id)$"
)

# Results of attempts: what a cause leads to, never a cause.
_OUTCOMES = re.compile(
    r"(symptoms|checks|kernel_events)\b|nvidia\.(smi|smi_error|cuda_init)\b|amd\.(smi|kfd_error)\b"
    r"|torch\.(imports|cuda_init|cuda_available|cuda_warnings|device_count|devices|mps_available|xpu_available|numpy_bridge)\b"
    r"|torch\.companions\..*\.(imports|operators)"
)


@dataclass(frozen=True)
class Subject:
    """A name for what changes together, and how much it can matter: 0 most."""

    name: str
    weight: int


# The first expression that a unit's dotted path begins with names its subject; "{}" is the name of the entry.
_SUBJECTS: tuple[tuple[str, str, int], ...] = (
    (r"torch\.(?:location|copies|problems)|python\.torch_elsewhere", "where torch lies", 4),
    (r"torch\.companions\.([\w-]+)", "{}", 3),
    (r"torch\.loaded_libraries\.(\w+)", "library {} that torch loads", 6),
    (r"torch\.(?:settings|threads)", "settings of torch", 8),
    (r"torch\b|python\.distributions\.(?:torch|pytorch|libtorch|pytorch-cuda|pytorch-mutex)$", "the torch build", 0),
    (r"nvidia\.gpus|pci\b|amd\.gpus|intel\.gpus|apple\.(?:chip|gpu_cores)", "the GPUs", 1),
    (r"nvidia\b", "the NVIDIA driver", 1),
    (r"amd\b", "the AMD driver", 1),
    (r"(?:intel|apple)\b", "the GPU's driver", 1),
    (r"python\.distributions\.(torchvision|torchaudio|triton)$", "{}", 3),
    (r"python\.distributions\.(numpy)$", "{}", 5),
    (r"python\.distributions\.(nvidia-[\w-]+|cuda-[\w-]+|triton[\w-]*|pytorch-triton[\w-]*)$", "{}", 5),
    (r"python\.distributions\.([\w.-]+)$", "{}", 9),
    (r"python\.(?:version|implementation|bits|machine|free_threaded|debug|soabi|libc|macos_target)$", "Python", 2),
    (r"env\.([\w-]+)", "the variable {}", 4),
    (r"python\.(?:executable|prefix|base_prefix|sys_path|user_site|chosen|conda_prefix|conda_env|other_pythons|pip_version)", "paths", 12),
    (r"python\b", "how Python is set up", 6),
    (r"system\.(?:os|name|distro|version|machine|libc|libc_version|glibcxx_max|vc_runtime)$", "the operating system", 6),
    (r"system\.kernel$", "the kernel", 7),
    (r"system\.(?:container|wsl|virtual_machine|cloud|rosetta|selinux|seccomp|secure_boot)$", "where it runs", 5),
    (r"system\.(?:cpu_|cores_|ram|jetson|l4t|jetpack)", "the machine", 7),
    (r"system\.(?:shm_size|open_files)", "limits", 7),
    (r"toolchain|system\.(?:c|cxx)_compiler", "compilers and toolkits", 8),
    (r"", "other", 10),
)  # fmt: skip


@dataclass(frozen=True)
class Change:
    """One unit that differs. A value of MISSING is: not there, where the other has it."""

    path: Path
    a: Any
    b: Any

    @property
    def field(self) -> str:
        """Dotted: "nvidia.driver_version", "python.distributions.numpy"."""
        return ".".join(self.path)


@dataclass(frozen=True)
class Group:
    """All changes of one subject, and the findings that it alone can explain."""

    subject: Subject
    changes: tuple[Change, ...]
    explains: tuple[str, ...] = ()


def units(document: Mapping[str, Any]) -> dict[Path, Any]:
    """Every unit of a snapshot; fields that are not known are left out."""
    return dict(_walk(document, ()))


def _walk(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    if _IGNORED.match(".".join(path)) and path:
        return
    if path in KEYED and isinstance(value, (list, tuple)):
        for name, entry in keyed(value, KEYED[path]).items():
            whole = is_outcome((*path, name))
            tried = {} if whole else {k: v for k, v in entry.items() if is_outcome((*path, name, k))}
            yield (*path, name), _stable({k: v for k, v in entry.items() if k not in tried}, (*path, name))
            for field, result in tried.items():
                yield (*path, name, field), _timeless(result)
    elif isinstance(value, Mapping) and not _WHOLE & value.keys():
        for name, entry in value.items():
            yield from _walk(entry, (*path, name))
    else:
        yield path, _timeless(value)


def _timeless(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    return {k: _timeless(v) for k, v in value.items() if k not in ("seconds", "devices")}


def keyed(entries: Any, fields: tuple[str, ...]) -> dict[str, Any]:
    """Entries of a list by their name; of two with the same name the first, which is the one in use."""
    found: dict[str, Any] = {}
    for entry in entries:
        name = "-".join(str(entry.get(f)) for f in fields if entry.get(f) is not None) or str(len(found))
        found.setdefault(name, entry)
    return found


def _stable(entry: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """An entry without the fields that differ from one look to the next; of a distribution, without its place."""
    left_out = ("location", "line", "path", "requires") if path[0] in ("python", "torch") else ("line",)
    return {k: v for k, v in entry.items() if not _IGNORED.match(".".join((*path, k))) and k not in left_out}


def is_outcome(path: Path) -> bool:
    """The unit says what became of an attempt."""
    return _OUTCOMES.match(".".join(path)) is not None


def subject_of(path: Path) -> Subject:
    """What a unit is about."""
    text = ".".join(path)
    for pattern, name, weight in _SUBJECTS:
        match = re.match(pattern, text)
        if match:
            return Subject(name.format(match[1]) if "{}" in name else name, weight)
    raise AssertionError(text)


def put(document: dict[str, Any], path: Path, source: Mapping[str, Any]) -> None:
    """Gives `document` the value that `source` has at a unit, or takes it away where `source` has none."""
    key = next((p for p in KEYED if path[: len(p)] == p and len(path) > len(p)), None)
    if key is None:
        _put_plain(document, path, source)
        return
    if len(path) > len(key) + 1:
        _put_field(document, key, path[len(key)], path[-1], source)
        return
    theirs = keyed(_get(source, key) or (), KEYED[key]).get(path[-1])
    ours = _get(document, key)
    rest = [e for e in ours or () if keyed([e], KEYED[key]).get(path[-1]) is None]
    if theirs is not None:
        rest.append(copy.deepcopy(theirs))
    _set(document, key, rest)


def _put_plain(document: dict[str, Any], path: Path, source: Mapping[str, Any]) -> None:
    value = _get(source, path)
    if value is None:
        parent = _get(document, path[:-1]) if len(path) > 1 else document
        if isinstance(parent, dict):
            parent.pop(path[-1], None)
        return
    _set(document, path, copy.deepcopy(value))


def _put_field(document: dict[str, Any], key: Path, name: str, field: str, source: Mapping[str, Any]) -> None:
    """One field of an entry with a name."""
    ours = keyed(_get(document, key) or (), KEYED[key]).get(name)
    theirs = keyed(_get(source, key) or (), KEYED[key]).get(name) or {}
    if isinstance(ours, dict):
        ours.pop(field, None)
        if field in theirs:
            ours[field] = copy.deepcopy(theirs[field])


def _get(document: Any, path: Path) -> Any:
    for name in path:
        document = document.get(name) if isinstance(document, Mapping) else None
    return document


def _set(document: dict[str, Any], path: Path, value: Any) -> None:
    for name in path[:-1]:
        document = document.setdefault(name, {})
    document[path[-1]] = value
