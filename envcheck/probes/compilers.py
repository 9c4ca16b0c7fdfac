"""Programs that build extensions: compilers, CMake, Ninja."""

from __future__ import annotations

import os
import re
import shutil

from envcheck.facts import Facts, System, Toolchain
from envcheck.lazy import Regex
from envcheck.probes.host import Host

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


def _compiler(host: Host, variable: str, *names: str) -> str | None:
    """The compiler that a build would take; "" when there is none on PATH."""
    asked = [word for word in host.env.get(variable, "").split() if os.path.basename(word) not in _WRAPPERS]
    path = which(host, *(asked[:1] or names))
    if path is None:
        return ""
    if os.path.basename(path).lower().removesuffix(".exe") == "cl":
        return parse_compiler(host.run([path], timeout=host.timeout).stderr, path) or "cl"
    done = host.run([path, "--version"], timeout=host.timeout)
    return parse_compiler(done.stdout, path) or os.path.basename(path) if done.ok else None


def probe(host: Host) -> Facts:
    """C and C++ compiler, CMake and Ninja."""
    windows = host.platform == "win32"
    c = _compiler(host, "CC", *(("cl", "clang-cl", "clang", "gcc") if windows else ("cc", "gcc", "clang")))
    cxx = _compiler(host, "CXX", *(("cl", "clang-cl", "clang++", "g++") if windows else ("c++", "g++", "clang++")))
    gcc = c.partition(" ")[2] if c and c.startswith("gcc ") else None
    return Facts(
        system=System(c_compiler=c, cxx_compiler=cxx),
        toolchain=Toolchain(
            gcc_version=gcc, cmake_version=_cmake(host), ninja=which(host, "ninja", "ninja-build") is not None
        ),
    )


def _cmake(host: Host) -> str | None:
    path = which(host, "cmake")
    if path is None:
        return ""
    match = re.search(r"cmake version (\d+(?:\.\d+)+)", host.run([path, "--version"], timeout=host.timeout).stdout)
    return match.group(1) if match else None
