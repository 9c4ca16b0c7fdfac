"""Files that are damaged, cut off or not there: in the download, in the archive, in the installation."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.facts import Distribution, Facts, Symptom
from envcheck.findings import Finding, Remedy
from envcheck.matrix import Matrix
from envcheck.rules import derive, remedies
from envcheck.rules.base import Rule, rule
from envcheck.rules.install_plans import planned
from envcheck.rules.install_releases import part_of_release
from envcheck.rules.library_loader import (
    LoaderError,
    base_name,
    family_of_file,
    library_path,
    loader_errors,
    owner_of_path,
    readable,
)

_FAMILY = ("torch", "torchvision", "torchaudio", "triton", "pytorch")


@rule(
    "corrupted-download",
    "install",
    "A damaged or truncated wheel.",
    explains=("python-no-wheel", "corrupted-install", "torch-not-installed", "wrong-interpreter"),
)
def corrupted_download(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """The bytes that arrived are not the bytes that were published."""
    for item in derive.symptoms(facts, "hash-mismatch", "download-broken", "archive-damaged"):
        if not _about_install(facts, item):
            continue
        yield _download_finding(rule, facts, item)
        return


_OF_A_WHEEL = re.compile(r"for file '(?:torch|torchvision|torchaudio|functorch|triton|nvidia)[/\\]")
"""A damaged archive whose member is a file of one of these packages."""


def _about_install(facts: Facts, item: Symptom) -> bool:
    """A broken transfer matters here when it is a package that was fetched, not a model or a data set."""
    if item.kind == "hash-mismatch" or item.text.startswith("error: incomplete-download"):
        return True
    if any(item.details.get(k) for k in ("wheel", "conda", "archive", "tool")) or _OF_A_WHEEL.search(item.text):
        return True
    return any(re.search(r"\b(?:pip3?|uv|poetry|conda|mamba|pdm)\b", c) for c in facts.commands) or bool(
        re.search(r"\bwhl\b|\.whl|pip|poetry|pythonhosted|download\.pytorch", item.text)
    )


def _download_finding(rule: Rule, facts: Facts, item: Symptom) -> Finding:
    package = derive.detail(item, "package", "uv", "wheel", "conda", "archive") or "torch"
    package = re.split(r"[=<>@\s]", package.strip())[0] or "torch"
    cut = item.kind == "download-broken"
    got, more = item.details.get("got"), item.details.get("more")
    amount = f"{int(got) / 2**20:.0f} MiB of {(int(got) + int(more)) / 2**20:.0f} MiB arrived" if got and more else None
    return rule.finding(
        "error",
        title="The download broke off: the wheel is incomplete" if cut else "The file that was downloaded is damaged or incomplete",
        seen=derive.quote(item, amount),
        why="torch's wheels are up to some gigabytes; a connection (or proxy, or full disk) that breaks leaves a truncated file, whose "
        "hash cannot match. The published file itself is in order.",
        remedy=Remedy(
            text="Empty the cache and try again on a steady connection. If it breaks off each time, download the wheel with a client "
            "that can resume (curl -C -, wget -c) and install the file.",
            commands=_again(facts, package),
        ),
        confidence="likely",
        otherwise="If it fails in the same place each time: disk space (also in the temporary directory), a proxy that alters or cuts "
        "large files, or a lock file whose hashes are of another build.",
        line=item.line,
    )  # fmt: skip


def _again(facts: Facts, package: str) -> tuple[str, ...]:
    uses_uv = facts.python.manager == "uv" or any(re.match(r"\W*uv\b", c) for c in facts.commands)
    index = next((m.group(0) for c in facts.commands if (m := re.search(r"--(?:extra-)?index-url \S+", c))), "")
    if uses_uv:
        return ("uv cache clean torch", f"uv pip install {package} {index}".strip())
    return (
        "python -m pip cache purge",
        f"python -m pip install --no-cache-dir --resume-retries 5 {package} {index}".strip(),
    )


# --- the installation ---------------------------------------------------------------------------------------------


def _damaged(facts: Facts) -> Iterator[Distribution]:
    for item in facts.python.distributions or ():
        known = item.name in _FAMILY or item.name.startswith("nvidia-")
        if known and (item.files_missing or item.files_changed) and not item.editable:
            yield item


def _own_library(facts: Facts) -> LoaderError | None:
    """Torch's own file lacks a library or a symbol of torch itself."""
    for error in loader_errors(facts):
        if error.symptom.echo or error.owner not in ("torch", "unknown"):
            continue
        if facts.torch.cuda == "" and re.search(r"(?:c10|torch)_cuda", error.library or ""):
            continue  # a CPU build never had that file: who asks for it was built for another torch
        if error.needs != "torch":
            continue
        from_torch = error.owner == "torch" or family_of_file(error.file) == "torch"
        if error.kind == "missing-library" and (from_torch or (error.file is None and error.frame is None)):
            return error
        if error.kind == "undefined-symbol" and from_torch and not library_path(facts):
            return error
    return None


def _file_damaged(facts: Facts) -> Symptom | None:
    for item in derive.symptoms(facts, "file-damaged"):
        path = item.details.get("file") or item.details.get("macho") or ""
        if family_of_file(path) == "cuda":
            continue  # a driver library, which WSL and containers can leave empty
        return item
    return None


@rule(
    "corrupted-install",
    "install",
    "Files of the installed package are damaged or missing.",
    explains=(
        "numpy-abi-mismatch",
        "torchvision-mismatch",
        "torchaudio-mismatch",
        "missing-nvidia-wheels",
        "extension-abi-mismatch",
        "triton-missing",
        "triton-version-mismatch",
    ),
)
def corrupted_install(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """RECORD says otherwise, a loader finds half a file, or a part of the package is not there."""
    broken = list(_damaged(facts))
    error, damaged = _own_library(facts), _file_damaged(facts)
    part = facts.symptom("torch-parts-differ") or _part_missing(facts)
    record = _record(facts)
    lost = facts.symptom("package-file-missing")
    leftover = facts.symptom("invalid-distribution")
    item = damaged or (error.symptom if error else None) or part or lost or record
    if item is None and not broken:
        if leftover is not None:
            yield _leftover(rule, facts, leftover)
        return
    what, why = _what(error, damaged, part, lost, record, broken)
    yield rule.finding(
        "error" if item is not record or item is None or broken else "warning",
        title=what,
        seen=derive.quote(item, *(_records(d) for d in broken[:3])),
        why=why,
        remedy=_reinstall(facts, matrix, broken, damaged),
        confidence="certain" if broken or damaged or lost else "likely",
        otherwise=""
        if broken or damaged or lost
        else "A second copy of torch's libraries on the search path (LD_LIBRARY_PATH, DYLD_LIBRARY_PATH, another site-packages) "
        "looks the same: print torch.__file__ and that variable.",
        line=item.line if item else None,
    )


def _part_missing(facts: Facts) -> Symptom | None:
    if facts.symptom("module-shadowed") or facts.python.shadows:
        return None
    for item in derive.symptoms(facts, "torch-part-missing"):
        if not item.details.get("package") and part_of_release(item) is None:
            return item
    return None


def _record(facts: Facts) -> Symptom | None:
    for item in derive.symptoms(facts, "record-missing"):
        name = (derive.detail(item, "package", "named") or "torch").lower()
        if name in _FAMILY or name.startswith("nvidia"):
            return item
    return None


def _records(item: Distribution) -> str:
    parts = []
    if item.files_missing:
        parts.append(f"missing {', '.join(item.files_missing[:3])}")
    if item.files_changed:
        parts.append(f"of another size {', '.join(item.files_changed[:3])}")
    return f"{item.name} {item.version or ''}: {'; '.join(parts)}"


def _of_two_releases(item: Symptom) -> str:
    if item.details.get("compiled"):
        return f"torch's Python files ask its compiled part for {item.details['compiled']}, which that does not have"
    return f"torch's compiled part looks for torch.{item.details['attribute']}, which the Python files beside it do not define"


def _what(
    error: LoaderError | None,
    damaged: Symptom | None,
    part: Symptom | None,
    lost: Symptom | None,
    record: Symptom | None,
    broken: list[Distribution],
) -> tuple[str, str]:
    """Title and consequence, by the strongest proof."""
    if damaged is not None:
        path = damaged.details.get("file") or damaged.details.get("macho") or "a library"
        what = damaged.details.get("what") or damaged.details.get("macho_what") or "damaged"
        return (
            f"{base_name(path)} is damaged ({what.strip()})",
            (
                "The file holds fewer or other bytes than the package had: an installation that was interrupted, a full disk, or a "
                "Git LFS pointer in place of the file."
            ),
        )
    if broken:
        names = ", ".join(d.name for d in broken[:3])
        return (
            f"The installation of {names} is incomplete: files differ from its own record",
            "What the package manager wrote is not all there any more; imports fail now or when the missing part is first used.",
        )
    if error is not None and error.kind == "missing-library":
        return (
            f"The installation of torch is incomplete: {base_name(error.library or '')} is missing",
            "That library belongs to the same package as the file that asks for it.",
        )
    if error is not None:
        return (
            "The files of torch do not belong together: they come from two releases",
            (
                f"{base_name(error.file or 'A library of torch')} needs {readable(error.symbol or '')}, which the libtorch beside it does not "
                "have. An update that was interrupted, or two installers writing to one directory, leave such a mixture."
            ),
        )
    if part is not None and part.kind == "torch-parts-differ":
        return (
            "The files of torch do not belong together: they come from two releases",
            (
                f"{_of_two_releases(part)}: they are of another release. An update that was interrupted, two installers that write to one "
                "directory, or another torch's libraries on the path (PYTHONPATH, LD_LIBRARY_PATH, a module of the cluster) make such a mixture."
            ),
        )
    if part is not None:
        named = derive.detail(part, "module", "attribute", "name", "compiled")
        return (
            "The installed torch is an empty shell: parts of the package are missing",
            (
                f"The directory torch is there without {'torch.' + named if named else 'its contents'}, as a failed uninstall leaves it "
                "(or it is a folder of your own that is called torch)."
            ),
        )
    if lost is not None:
        return (
            f"A file of the installed package is missing: {base_name(lost.details['file'])}",
            "The file belongs to the package; it was removed, or never written.",
        )
    assert record is not None
    return (
        "pip cannot manage this torch: the record of its files is missing",
        (
            "Without RECORD pip neither knows nor removes the files; it was installed by another tool (conda, the distribution), or its "
            "metadata was deleted."
        ),
    )


def _reinstall(facts: Facts, matrix: Matrix, broken: list[Distribution], damaged: Symptom | None) -> Remedy:
    path = (damaged.details.get("file") or damaged.details.get("macho") or "") if damaged else ""
    owner = owner_of_path(path)
    if owner.startswith("extension:"):
        package = owner.removeprefix("extension:")
        return Remedy(
            text=f"Install {package} again, without the cache.",
            commands=(remedies.pip(facts, "install", "--force-reinstall", "--no-deps", "--no-cache-dir", package),),
        )
    made = planned(facts, matrix)
    names = [d.name for d in broken if d.name != "torch" and d.manager != "conda"]
    return Remedy(
        text="Uninstall torch until pip says that it is not installed, delete what is left of its directory in site-packages, and "
        f"reinstall it without the cache. {made.text}",
        commands=(remedies.pip(facts, "uninstall", "-y", "torch", *names), *made.commands),
    )


def _leftover(rule: Rule, facts: Facts, item: Symptom) -> Finding:
    name = item.details.get("name", "")
    return rule.finding(
        "note",
        title=f"A half-removed package is left in site-packages (~{name})",
        seen=derive.quote(item),
        why="An earlier pip was interrupted while it replaced the package (often because a running program held its DLLs).",
        remedy=Remedy(
            text=f"Delete the directories in site-packages whose names begin with ~{name}; nothing uses them."
        ),
        line=item.line,
    )


@rule("pip-out-of-memory", "install", "The installer was killed: not enough memory for the wheel.")
def pip_out_of_memory(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Small machines cannot hold a wheel of gigabytes in memory."""
    item = facts.symptom("pip-killed")
    if item is None:
        return
    yield rule.finding(
        "error",
        title="pip ran out of memory while it fetched or unpacked torch"
        if item.details.get("python")
        else "pip was killed while it fetched or unpacked torch",
        seen=derive.quote(item, f"memory: {facts.system.ram / 2**30:.1f} GiB" if facts.system.ram else None),
        why="The system ended the process because memory ran out; pip's cache keeps a whole wheel in memory.",
        remedy=Remedy(
            text="Install without the cache, add swap, or use the CPU build, which is a tenth of the size.",
            commands=("python -m pip install --no-cache-dir torch",),
        ),
        confidence="likely",
        otherwise="`dmesg | grep -i oom` (or the container's memory limit) shows who was killed and why.",
        line=item.line,
    )


@rule("wrong-architecture-binary", "install", "A binary for another processor architecture.",
      explains=("windows-dll-missing", "corrupted-install"))  # fmt: skip
def wrong_architecture(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """An arm64 file in an x86_64 process, or the other way round; 32 in 64 bit."""
    item = facts.symptom("wrong-architecture")
    if item is None or facts.symptom("python-32bit"):
        return
    have = derive.detail(item, "have", "have2")
    need = derive.detail(item, "need", "need2")
    mac = derive.wheel_os(facts) == "macos" or bool(have and need)
    path = item.details.get("file")
    sizes = (
        f"it is made for {have}, and this process needs {need}"
        if have and need
        else "its word size or processor is another"
    )
    yield rule.finding(
        "error",
        title=f"{base_name(path) if path else 'A library'} is made for another architecture" + (f" ({have}, not {need})" if have and need else ""),
        seen=derive.quote(item),
        why=f"The loader refuses the file: {sizes}. "
        + ("The Python and the packages were installed for different ones (Rosetta terminal, copied environment)." if mac
           else "A damaged file, or a package of another platform, looks like this too."),
        remedy=Remedy(
            text="Make a new environment with one architecture throughout (on Apple silicon: an arm64 Python) and install everything anew "
            "there.",
            commands=('python -c "import platform, sys; print(platform.machine(), sys.version)"',),
        ),
        confidence="certain" if have and need else "likely",
        otherwise="" if have and need else "Install the package that owns the file again; if it is damaged, that mends it.",
        line=item.line,
    )  # fmt: skip


RULES: tuple[Rule, ...] = (corrupted_download, corrupted_install, pip_out_of_memory, wrong_architecture)
