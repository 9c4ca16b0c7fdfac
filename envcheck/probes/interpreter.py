"""The staged answer of the Python under test -> what is known of it, of its packages and of its torch."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from envcheck.facts import (
    Companion,
    Distribution,
    EnvVar,
    LoadedLibrary,
    Outcome,
    ProbeRun,
    PythonEnv,
    Shadow,
    Symptom,
    Torch,
    TorchDevice,
)
from envcheck.probes.elsewhere import pip_python, torch_elsewhere
from envcheck.probes.outcomes import Stage, failure_of, import_outcome, stage_outcome, without_stacks
from envcheck.probes.packages_answer import distributions, wheel_version
from envcheck.target import START, Answer, Choice

Recognise = Callable[..., tuple[Symptom, ...]]

COMPANIONS = ("torchvision", "torchaudio", "triton")


@dataclass(frozen=True)
class Interpreter:
    """What the questioning contributes to Facts."""

    python: PythonEnv
    torch: Torch
    env: tuple[EnvVar, ...] | None
    symptoms: tuple[Symptom, ...]
    probes: tuple[ProbeRun, ...]


def facts_from(
    answer: Answer,
    *,
    quick: bool = False,
    choice: Choice | None = None,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    recognise: Recognise | None = None,
) -> Interpreter:
    """All that the answer says, in the words of Facts.

    Args:
        answer: of `Questioning.finish`.
        quick: torch was not to be imported.
        choice: which interpreter was taken and why.
        env: variables of the user, for the search for a torch elsewhere.
        cwd: the user's current directory, for the same.
        recognise: takes the place of `symptoms.engine.recognise`.
    """
    env = os.environ if env is None else env
    torch = torch_facts(answer, quick=quick)
    python = python_facts(answer, choice)
    path = Path(answer.python)
    if answer.stages:
        missing = torch.found is False and not torch.problems
        here = Path.cwd() if cwd is None else cwd
        python = msgspec.structs.replace(
            python,
            pip_python=pip_python(env, path, python.version),
            torch_elsewhere=torch_elsewhere(path, env, here) if missing else None,
        )
    return Interpreter(
        python, torch, variables(answer), symptoms(answer, recognise), (probe_run(answer), *_internal_errors(answer))
    )


def _values(answer: Answer, stage: str) -> Stage:
    """The answer of a stage; empty when it did not come or failed by itself."""
    found = answer.stage(stage)
    return found if found is not None and found.get("kind") != "internal" else {}


def probe_run(answer: Answer) -> ProbeRun:
    """How the questioning as a whole went."""
    outcome = answer.outcome
    if answer.interruptions and answer.kind == "answered":
        stages = ", ".join(item.stage for item in answer.interruptions)
        outcome = msgspec.structs.replace(outcome, status="failed", detail=f"started again after: {stages}")
    return ProbeRun(name="python", outcome=outcome)


def _internal_errors(answer: Answer) -> tuple[ProbeRun, ...]:
    return tuple(
        ProbeRun(
            name=f"python: {item.get('stage')}",
            outcome=Outcome(status="failed", error_type=item.get("error_type"), error=item.get("error")),
        )
        for item in answer.stages
        if item.get("kind") == "internal"
    )


def variables(answer: Answer) -> tuple[EnvVar, ...] | None:
    """The environment as the child saw it; None when it did not get to say."""
    found = _values(answer, "environment").get("variables")
    if not isinstance(found, dict):
        return None
    return tuple(EnvVar(name=str(name), value=str(value)) for name, value in found.items())


# -- Python ------------------------------------------------------------------------------------------------------------


def python_facts(answer: Answer, choice: Choice | None = None) -> PythonEnv:
    """The interpreter and its packages."""
    said = _values(answer, "interpreter")
    packages = _values(answer, "distributions")
    files = _values(answer, "torch-files")
    conda = said.get("conda") if said.get("kind") == "conda" else None
    found = distributions(packages, _values(answer, "installed-files"))
    pip = next((d.version for d in found if d.name == "pip"), "") if found is not None else None
    manager = said.get("manager")
    if manager == "pip" and pip == "" and any(d.manager == "uv" for d in found or ()):
        manager = "uv"  # a plain virtual environment that only uv has ever installed into
    return PythonEnv(
        executable=said.get("executable") or answer.python,
        version=said.get("version") or answer.version,
        implementation=said.get("implementation"),
        bits=said.get("bits"),
        machine=said.get("machine"),
        free_threaded=said.get("free_threaded"),
        debug=said.get("debug"),
        soabi=said.get("soabi"),
        libc=said.get("libc"),
        macos_target=said.get("macos_target"),
        prefix=said.get("prefix"),
        base_prefix=said.get("base_prefix"),
        kind=said.get("kind"),
        manager=manager,
        externally_managed=said.get("externally_managed"),
        conda_prefix=conda.get("prefix") if conda else None,
        conda_env=conda.get("env") if conda else None,
        conda_version=conda.get("version") if conda else None,
        pip_version=pip,
        user_site=said.get("user_site"),
        user_site_enabled=said.get("user_site_enabled"),
        sys_path=_strings(said.get("sys_path")),
        distributions=found,
        distributions_partial=False if found is not None else None,
        shadows=_shadows(answer, files.get("shadows")),
        site_writable=said.get("site_writable"),
        other_pythons=tuple(str(p) for p in choice.others) if choice is not None else None,
        leftovers=_strings(packages.get("leftovers")),
        chosen=choice.reason if choice is not None else None,
    )


def _strings(value: Any) -> tuple[str, ...] | None:
    return tuple(str(item) for item in value) if isinstance(value, list) else None


def _shadows(answer: Answer, value: Any) -> tuple[Shadow, ...] | None:
    """Files that hide modules; once torch was imported, of the standard library's only those that it really used."""
    if not isinstance(value, list):
        return None
    live = [_values(answer, stage) for stage in ("import-torch", *(f"companion:{name}" for name in COMPANIONS))]
    used = {name for said in live for name in said.get("modules") or ()} if live[0].get("result") == "ok" else None
    return tuple(
        Shadow(module=v["module"], path=v["path"], hides=v.get("hides"), by=v.get("by"))
        for v in value
        if used is None or not v.get("standard") or v["module"] in used
    )


# -- torch -------------------------------------------------------------------------------------------------------------


def torch_facts(answer: Answer, *, quick: bool = False) -> Torch:
    """The build as its files and then torch itself tell it, and what became of each attempt to use it."""
    files, live, build = (_values(answer, stage) for stage in ("torch-files", "import-torch", "torch-build"))
    cuda, others = _values(answer, "cuda-init"), _values(answer, "other-devices")
    packages = distributions(_values(answer, "distributions"), {}) or ()
    beside = next((d.version for d in packages if d.name == "torch"), None) if files.get("found") else None

    def first(name: str) -> Any:
        """What torch says goes before what its files say."""
        return build[name] if build.get(name) is not None else files.get(name)

    devices = [_device("cuda", item) for item in cuda.get("devices") or ()]
    devices += [_device(str(item.get("kind")), item) for item in others.get("devices") or ()]
    return Torch(
        version=live.get("version") or files.get("version") or beside,
        location=live.get("location") or files.get("location"),
        found=files.get("found"),
        copies=_strings([copy["location"] for copy in files["copies"]]) if "copies" in files else None,
        problems=_strings(files.get("problems")),
        cuda=first("cuda"),
        hip=first("hip"),
        xpu=first("xpu"),
        debug=first("debug"),
        git_version=first("git_version"),
        cxx11_abi=build.get("cxx11_abi"),
        arch_list=_strings(first("arch_list")),
        cudnn=build.get("cudnn") or (wheel_version(packages, "nvidia-cudnn", 3) if first("cuda") else None),
        nccl=build.get("nccl") or (wheel_version(packages, "nvidia-nccl", 3) if first("cuda") else None),
        imports=import_outcome(answer, quick=quick),
        cuda_init=stage_outcome(answer, "cuda-init"),
        cuda_available=cuda.get("available"),
        cuda_warnings=_strings([w["text"] for w in cuda["warnings"]]) if "warnings" in cuda else None,
        device_count=cuda.get("device_count"),
        devices=tuple(devices) if cuda or others else None,
        mps_built=build.get("mps_built"),
        mps_available=others.get("mps_available"),
        xpu_available=others.get("xpu_available"),
        numpy_bridge=stage_outcome(answer, "numpy-bridge"),
        companions=_companions(answer, packages),
        loaded_libraries=_libraries(answer),
        threads=build.get("threads"),
        settings=build.get("settings"),
    )


def _device(kind: str, item: Stage) -> TorchDevice:
    return TorchDevice(
        kind=kind,
        index=item.get("index"),
        name=item.get("name"),
        compute_capability=item.get("compute_capability"),
        gfx=item.get("gfx"),
        memory_total=item.get("memory_total"),
    )


def _libraries(answer: Answer) -> tuple[LoadedLibrary, ...] | None:
    found = _values(answer, "libraries").get("libraries")
    if not isinstance(found, list):
        return None
    return tuple(
        LoadedLibrary(name=v["name"], path=v["path"], version=v.get("version"), origin=v.get("origin")) for v in found
    )


def _companions(answer: Answer, packages: tuple[Distribution, ...]) -> tuple[Companion, ...] | None:
    """The packages whose import was tried, those that are not there left out."""
    versions = {d.name: d.version for d in reversed(packages)}
    found = []
    tried = False
    for name in COMPANIONS:
        stage = f"companion:{name}"
        outcome = stage_outcome(answer, stage)
        tried = tried or outcome is not None
        if outcome is None or outcome.status == "missing":
            continue
        said = _values(answer, stage)
        if said.get("operator_error") and outcome.ok:
            outcome = failure_of(
                said["operator_error"], said.get("seconds"), detail=f"{name} loads, its operators fail"
            )
        found.append(
            Companion(
                name=name,
                version=said.get("version") or versions.get(name),
                imports=outcome,
                cuda=said.get("cuda"),
                operators=said.get("operators"),
            )
        )
    return tuple(found) if tried else None


# -- symptoms ----------------------------------------------------------------------------------------------------------

_SOURCES = {
    START: "python start-up",
    "import-torch": "import torch",
    "torch-build": "torch.backends.cudnn.version()",
    "cuda-init": "torch.cuda.init()",
    "other-devices": "torch.xpu",
    "numpy-bridge": "torch.from_numpy()",
    "companion:torchvision": "import torchvision",
    "companion:torchaudio": "import torchaudio",
    "companion:triton": "import triton",
}


def symptoms(answer: Answer, recognise: Recognise | None = None) -> tuple[Symptom, ...]:
    """Known error signatures in what the stages printed, warned and raised, in the order of the stages."""
    found: list[Symptom] = []
    for stage, source in _SOURCES.items():
        text = stage_text(answer, stage)
        if not text.strip():
            continue
        if recognise is None:
            from envcheck.symptoms.engine import recognise as recognise_text

            recognise = recognise_text
        # Line numbers are those of a paste; here there is none.
        found.extend(msgspec.structs.replace(item, line=None) for item in recognise(text, source=source))
    return tuple(found)


def stage_text(answer: Answer, stage: str) -> str:
    """Standard error, warnings and error of a stage as one text, in the order in which they came."""
    said = answer.stage(stage) or {}
    printed = answer.stderr(stage)
    parts = [without_stacks(printed) if said else printed]
    parts += [f"{item.get('category')}: {item.get('text')}" for item in said.get("warnings") or ()]
    for failure in (said, said.get("cudnn_error"), said.get("xpu_error"), said.get("operator_error")):
        # That a package is not there is told as such; it is no symptom.
        if failure and failure.get("result") == "error" and failure.get("kind") not in ("missing", "internal"):
            parts.append(str(failure.get("traceback") or f"{failure.get('error_type')}: {failure.get('error')}"))
    parts += [str(device["error"]) for device in said.get("devices") or () if device.get("error")]
    return "\n".join(part for part in parts if part)
