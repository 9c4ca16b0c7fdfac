"""Whether the files that the wheels of torch and its kin brought are still there, by name and size."""

import os
import re
import sys
import time

KIN = re.compile(r"(torch|torchvision|torchaudio|triton|pytorch_triton\w*|nvidia_\w+|nvidia|cuda_toolkit|intel_\w+)-\d", re.IGNORECASE)
NATIVE = re.compile(r"\.(?:so(?:\.[\d.]+)?|pyd|dll|dylib)$", re.IGNORECASE)
PLAIN_ROW = re.compile(r'^([^",\n][^,\n]*)(?<!\.pyc),[^,\n]*,(\d*)\r?$', re.MULTILINE)
QUOTED_ROW = re.compile(r'^"((?:[^"\n]|"")+)",[^,\n]*,(\d*)\r?$', re.MULTILINE)
MAX_NAMED = 20


def installed_files(seconds: float, quick: bool) -> "dict":
    """Compares each RECORD with the disk until `seconds` are over; directories with native libraries come first.

    Every directory is listed once, which tells what is missing; sizes are asked for native libraries and Python
    sources. Nothing is hashed: a library of gigabytes would take longer than importing it. `quick` leaves out the
    directories that hold neither, mostly headers, which only building an extension needs.
    """
    deadline = time.time() + seconds
    ranks = (0, 1) if quick else (0, 1, 2)
    packages = [_Package(entry, name, ranks) for entry, name in _records()]
    packages = [package for package in packages if package.total]
    for rank in ranks:
        for package in packages:
            package.check(rank, deadline)
    return {"packages": [package.answer() for package in packages]}


def _records() -> "list[tuple[str, str]]":
    found = []
    seen = set()  # type: set
    for entry in [item or "." for item in sys.path if isinstance(item, str)]:
        try:
            names = sorted(os.listdir(entry))
        except OSError:
            continue
        for name in names:
            if name.endswith(".dist-info") and KIN.match(name):
                real = os.path.realpath(os.path.join(entry, name))
                if real not in seen:
                    seen.add(real)
                    found.append((entry, name))
    return found


class _Package:
    """One RECORD, its rows by directory, the directories by how much they matter."""

    def __init__(self, entry: str, metadata: str, ranks: "tuple[int, ...]") -> None:
        self.entry = entry
        self.metadata = metadata
        self.missing = []  # type: list
        self.changed = []  # type: list
        self.checked = 0
        ranked = {directory: (_rank(files), files) for directory, files in self._read().items()}
        self.directories = {d: (rank, files) for d, (rank, files) in ranked.items() if rank in ranks}
        self.total = sum(len(files) for _, files in self.directories.values())

    def _read(self) -> "dict[str, dict[str, str]]":
        """{directory: {name: size}}.

        Left out: byte code (made and removed at will), files outside the package directory (scripts lie elsewhere
        after `pip install --target`), and the metadata itself, which installers and image builders edit.
        """
        metadata = os.path.join(self.entry, self.metadata)
        if _text(os.path.join(metadata, "INSTALLER")).strip().lower() == "conda":
            return {}  # conda moves files out of the wheel's layout; its RECORD is not the truth
        text = _text(os.path.join(metadata, "RECORD"))
        rows = PLAIN_ROW.findall(text)
        if '"' in text:
            rows += [(path.replace('""', '"'), size) for path, size in QUOTED_ROW.findall(text)]
        found = {}  # type: dict
        for path, size in rows:
            directory, _, name = (path.replace("\\", "/") if "\\" in path else path).rpartition("/")
            if directory not in found:
                found[directory] = {}
            found[directory][name] = size
        return {d: files for d, files in found.items() if not _left_out(d)}

    def check(self, rank: int, deadline: float) -> None:
        """Checks the directories of one rank: 0 holds native libraries, 1 Python sources, 2 neither."""
        for directory, (its_rank, files) in self.directories.items():
            if its_rank != rank:
                continue
            if time.time() > deadline:
                return
            self.checked += len(files)
            full = os.path.join(self.entry, directory)
            try:
                present = frozenset(os.listdir(full))
            except (FileNotFoundError, NotADirectoryError):
                present = frozenset()
            except OSError:
                continue  # may not be looked into: unknown, not missing
            for name, size in files.items():
                if name not in present:
                    self._absent(directory, name)
                elif size and rank < 2 and (name.endswith(".py") or NATIVE.search(name)):
                    self._compare(directory, name, int(size))

    def _absent(self, directory: str, name: str) -> None:
        # A listing may spell a name in another case or normal form: the file itself has the last word.
        if not os.path.exists(os.path.join(self.entry, directory, name)):
            self.missing.append(_join(directory, name))

    def _compare(self, directory: str, name: str, size: int) -> None:
        try:
            found = os.stat(os.path.join(self.entry, directory, name)).st_size
        except FileNotFoundError:
            self.missing.append(_join(directory, name))  # a link that leads nowhere
        except OSError:
            pass
        else:
            if found != size:
                self.changed.append(_join(directory, name))

    def answer(self) -> "dict":
        return {
            "metadata": self.metadata,
            "location": self.entry,
            "total": self.total,
            "checked": self.checked,
            "missing_count": len(self.missing),
            "changed_count": len(self.changed),
            "missing": sorted(self.missing, key=_weight)[:MAX_NAMED],
            "changed": sorted(self.changed, key=_weight)[:MAX_NAMED],
        }


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _left_out(directory: str) -> bool:
    parts = directory.split("/")
    return parts[-1] == "__pycache__" or parts[0] in ("..", "") or parts[0].endswith(".dist-info") or ":" in parts[0]


def _rank(files: "dict[str, str]") -> int:
    if any(NATIVE.search(name) for name in files if ".so" in name or name.endswith((".pyd", ".dll", ".dylib"))):
        return 0
    return 1 if any(name.endswith(".py") for name in files) else 2


def _weight(path: str) -> int:
    """Native libraries are named first, then Python sources."""
    return 0 if NATIVE.search(path) else 1 if path.endswith(".py") else 2


def _join(directory: str, name: str) -> str:
    return directory + "/" + name
