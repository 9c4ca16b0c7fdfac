"""Whether the files that the wheels of torch and its kin brought are still there, by name and size."""

import os
import re
import sys
import time

KIN = re.compile(r"(torch|torchvision|torchaudio|triton|pytorch_triton\w*|nvidia_\w+|nvidia|cuda_toolkit|intel_\w+)-\d", re.IGNORECASE)
NATIVE = re.compile(r"\.(?:so(?:\.[\d.]+)?|pyd|dll|dylib)$", re.IGNORECASE)
MAX_NAMED = 20


def installed_files(seconds: float) -> "dict":
    """Compares each RECORD with the disk until `seconds` are over; native libraries of all packages come first.

    Every directory is listed once, which tells what is missing; sizes are asked for native libraries and Python
    sources. Nothing is hashed: a library of gigabytes would take longer than importing it.
    """
    deadline = time.time() + seconds
    packages = [package for package in (_Package(entry, name) for entry, name in _records()) if package.rows]
    listings = {}  # type: dict
    for rank in (0, 1, 2):
        for package in packages:
            package.check(rank, listings, deadline)
    return {"packages": [package.answer() for package in packages]}


def _records() -> "list[tuple[str, str]]":
    found = []
    seen = set()  # type: set
    for entry in sys.path:
        try:
            names = sorted(os.listdir(entry or "."))
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
    """One RECORD, its rows sorted by how much they matter: native libraries, Python sources, the rest."""

    def __init__(self, entry: str, metadata: str) -> None:
        self.entry = entry
        self.metadata = metadata
        self.missing = []  # type: list
        self.changed = []  # type: list
        self.checked = 0
        self.rows = self._rows()  # type: list
        self.total = sum(len(rows) for rows in self.rows)

    def _rows(self) -> "list[list[tuple[str, str]]]":
        directory = os.path.join(self.entry, self.metadata)
        try:
            with open(os.path.join(directory, "INSTALLER"), encoding="utf-8", errors="replace") as file:
                if file.read(100).strip().lower() == "conda":
                    return []  # conda moves files out of the wheel's layout; its RECORD is not the truth
        except OSError:
            pass
        try:
            with open(os.path.join(directory, "RECORD"), encoding="utf-8", errors="replace") as file:
                lines = file.read().split("\n")
        except OSError:
            return []
        ranks = [[], [], []]  # type: list
        for line in lines:
            path, size = _row(line)
            if path:
                rank = 0 if NATIVE.search(path) else 1 if path.endswith(".py") else 2
                ranks[rank].append((path, size))
        return ranks if any(ranks) else []

    def check(self, rank: int, listings: "dict", deadline: float) -> None:
        """Checks the rows of one rank."""
        for path, size in self.rows[rank]:
            if time.time() > deadline:
                return
            self.checked += 1
            directory, _, name = path.rpartition("/")
            full = os.path.join(self.entry, directory)
            if full not in listings:
                listings[full] = _names(full)
            names = listings[full]
            if names is None:
                continue  # may not be looked into: unknown, not missing
            # A listing may spell a name in another case or normal form: the file itself has the last word.
            if name not in names and not os.path.exists(os.path.join(full, name)):
                self.missing.append(path)
            elif rank < 2 and size:
                self._compare(path, os.path.join(full, name), int(size))

    def _compare(self, path: str, full: str, size: int) -> None:
        try:
            found = os.stat(full).st_size
        except FileNotFoundError:
            self.missing.append(path)  # a link that leads nowhere
        except OSError:
            pass
        else:
            if found != size:
                self.changed.append(path)

    def answer(self) -> "dict":
        return {
            "metadata": self.metadata,
            "location": self.entry,
            "total": self.total,
            "checked": self.checked,
            "missing_count": len(self.missing),
            "changed_count": len(self.changed),
            "missing": self.missing[:MAX_NAMED],
            "changed": self.changed[:MAX_NAMED],
        }


def _row(line: str) -> "tuple[str, str]":
    """Path and size of a RECORD line; ("", "") for one that proves nothing.

    Left out: byte code (made and removed at will), files outside the package directory (scripts lie elsewhere after
    `pip install --target`), and the metadata itself, which installers and image builders edit.
    """
    if line.startswith('"'):
        path, _, rest = line[1:].partition('",')
        path = path.replace('""', '"')
        size = rest.rpartition(",")[2]
    else:
        head, _, size = line.strip().rpartition(",")
        path = head.rpartition(",")[0]
    path = path.replace("\\", "/")
    if not path or path.endswith(".pyc") or path.startswith(("..", "/")) or ".dist-info/" in path or path[1:2] == ":":
        return "", ""
    return path, size if size.isdigit() else ""


def _names(directory: str) -> "frozenset[str] | None":
    try:
        return frozenset(os.listdir(directory))
    except (FileNotFoundError, NotADirectoryError):
        return frozenset()
    except OSError:
        return None

