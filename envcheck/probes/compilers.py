"""Programs that build extensions: compilers, CMake, Ninja."""

from __future__ import annotations

import os
import re
import shutil

from envcheck.facts import Facts, System, Toolchain
from envcheck.lazy import Regex
from envcheck.probes.host import Host
from envcheck.probes.together import together
from envcheck.process import Completed

# "gcc (Debian 12.2.0-14) 12.2.0", "Ubuntu clang version 14.0.0-1ubuntu1", "Apple clang version 15.0.0 (clang-1500...)"
_CLANG = Regex(r"\b(clang) version (\d+(?:\.\d+)+)")
_GCC = Regex(r"^\S+ \(.*\) (\d+(?:\.\d+)+)|^\S+ (\d+(?:\.\d+)+)$", re.MULTILINE)
_WRAPPERS = ("ccache", "sccache", "distcc")
_CL = Regex(r"Version (\d+\.\d+\.\d+)")


def which(host: Host, *names: str) -> str | None:
    """The first of these programs on PATH."""
    return next((found for name in names if (found := shutil.which(name, path=host.env.get("PATH", "")))), None)


def parse_compiler(text: str, name: str = "") -> str | None:
    """Kind and version from the banner of `--version`: "gcc 12.2.0", "clang 14.0.0", "cl 19.40.33811"."""
    clang = _CLANG.search(text)
    if clang:
        return f"clang {clang.group(2)}"
    if "Microsoft" in text:
        found = _CL.search(text)
        return f"cl {found.group(1)}" if found else None
    gcc = _GCC.search(text)
    if gcc is None:
        return None
    kind = "g++" if re.search(r"(?:g\+\+|c\+\+)", os.path.basename(name)) else "gcc"
    return f"{kind} {gcc.group(1) or gcc.group(2)}"


def _without_developer_tools(host: Host) -> bool:
    """A Mac without Xcode's command line tools has programs of these names that open an installer instead."""
    return host.platform == "darwin" and not host.run(["/usr/bin/xcode-select", "-p"], timeout=host.timeout).ok


def _command(host: Host, variable: str, *names: str) -> list[str] | None:
    """How the compiler that a build would take is asked for its version; None when there is none on PATH."""
    asked = [word for word in host.env.get(variable, "").split() if os.path.basename(word) not in _WRAPPERS]
    path = which(host, *(asked[:1] or names))
    if path is None:
        return None
    if os.path.dirname(path) == "/usr/bin" and _without_developer_tools(host):
        return None
    microsoft = os.path.basename(path).lower().removesuffix(".exe") == "cl"  # prints its banner when asked for nothing
    return [path] if microsoft else [path, "--version"]


def _answer(done: Completed | None) -> str | None:
    """Kind and version; "" where there is no compiler, its bare name where it does not tell its version."""
    if done is None:
        return ""
    banner, name = done.stdout + done.stderr, os.path.basename(done.argv[0])
    return parse_compiler(banner, name) or (name if done.ok else None)


def probe(host: Host) -> Facts:
    """C and C++ compiler, CMake and Ninja."""
    windows = host.platform == "win32"
    cmake = which(host, "cmake")
    commands = (
        _command(host, "CC", *(("cl", "clang-cl", "clang", "gcc") if windows else ("cc", "gcc", "clang"))),
        _command(host, "CXX", *(("cl", "clang-cl", "clang++", "g++") if windows else ("c++", "g++", "clang++"))),
        [cmake, "--version"] if cmake else None,
    )
    answers = iter(together(host, [command for command in commands if command]))
    c_done, cxx_done, cmake_done = (next(answers) if command else None for command in commands)
    c, cxx = _answer(c_done), _answer(cxx_done)
    version = re.search(r"cmake version (\d+(?:\.\d+)+)", cmake_done.stdout) if cmake_done else None
    return Facts(
        system=System(c_compiler=c, cxx_compiler=cxx),
        toolchain=Toolchain(
            gcc_version=c.partition(" ")[2] if c and c.startswith("gcc ") else None,
            cmake_version=version.group(1) if version else "" if cmake is None else None,
            ninja=which(host, "ninja", "ninja-build") is not None,
        ),
    )
