"""What the system does not let an installer write: paths that are too long, files in use, directories of others."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.facts import Facts
from envcheck.findings import Finding, Remedy
from envcheck.matrix import Matrix
from envcheck.rules import derive, remedies
from envcheck.rules.base import Rule, rule


@rule("windows-long-paths", "install", "Windows refuses a path of torch's files as too long.")
def windows_long_paths(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Torch's headers have long names, and the Python of the Microsoft Store sits in a long directory."""
    item = facts.symptom("long-path")
    if item is None:
        return
    yield rule.finding(
        "error",
        title="A path is longer than Windows allows: the installation stopped in the middle",
        seen=derive.quote(item),
        why="Without long path support a path may have 260 characters; torch's include files have long names, and the directory of the "
        "Microsoft Store's Python (or a deep project directory) takes much of that.",
        remedy=Remedy(
            text="Switch long paths on (as administrator, then start anew), or use a Python from python.org or uv and a virtual environment "
            "in a short directory.",
            commands=(
                "reg add HKLM\\SYSTEM\\CurrentControlSet\\Control\\FileSystem /v LongPathsEnabled /t REG_DWORD /d 1 /f",
                "py -m venv C:\\venvs\\torch",
            ),
        ),
        line=item.line,
    )


@rule("install-not-permitted", "install", "The installer may not write where torch is to go.")
def install_not_permitted(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """A DLL that a running program holds, or a directory that belongs to the system."""
    item = facts.symptom("install-denied")
    if item is None:
        return
    code, file = item.details.get("code") or "", item.details.get("file") or ""
    # Python on Windows writes "[Errno 13]" as well; then the path tells where it is.
    windows = code.startswith("WinError") or "\\" in file or file[1:2] == ":"
    held = code == "WinError 32"
    yield rule.finding(
        "error",
        title="A file of the old installation is in use and cannot be replaced"
        if held
        else "Windows does not let the installer write a file: it is in use, or the directory is the administrator's"
        if windows
        else "The installer has no right to write there",
        seen=derive.quote(item),
        why="Windows does not replace a DLL that a running Python has loaded (a notebook, a web interface, an editor); or the directory "
        "belongs to the administrator."
        if windows
        else "The directory belongs to root or to another user.",
        remedy=Remedy(
            text="Close every program that uses this Python, delete directories in site-packages whose names begin with ~, and install "
            "again; where Python is installed for all users, in a virtual environment."
            if windows
            else "Install into a virtual environment of your own, not with sudo into the system's Python.",
            commands=('tasklist /fi "imagename eq python.exe"', "py -m venv .venv")
            if windows
            else ("python3 -m venv .venv", ". .venv/bin/activate", remedies.pip(facts, "install", "torch")),
        ),
        confidence="likely",
        otherwise="If it stays: a virus scanner can hold the file as well."
        if windows
        else "`ls -ld` of the directory shows whose it is.",
        line=item.line,
    )  # fmt: skip


RULES: tuple[Rule, ...] = (windows_long_paths, install_not_permitted)
