"""Rules about installation and Python over hand-built facts: one that fires, one near miss, one that cannot be judged."""

from __future__ import annotations

import msgspec
import pytest

from envcheck.facts import (
    Apple,
    Conflict,
    Distribution,
    Evidence,
    Facts,
    Outcome,
    PythonEnv,
    Shadow,
    Symptom,
    System,
    Torch,
)
from envcheck.findings import Finding
from envcheck.matrix import load
from envcheck.rules import RULES, install
from envcheck.rules.base import evaluate
from envcheck.symptoms.engine import recognise

OK = Outcome(status="ok")
BAD = Outcome(status="failed", error_type="ImportError", error="no")
LINUX = System(os="linux", distro="ubuntu", machine="x86_64", libc="glibc", libc_version="2.35")
SITE = "/home/user/env/lib/python3.11/site-packages"
PYTHON = PythonEnv(executable="/home/user/env/bin/python", version="3.11.9", machine="x86_64", bits=64, kind="venv")
TORCH = Torch(version="2.8.0+cu128", cuda="12.8", found=True, imports=OK)


def machine(**changes: object) -> Facts:
    return msgspec.structs.replace(Facts(system=LINUX, python=PYTHON, torch=TORCH), **changes)


def dist(name: str, version: str, **more: object) -> Distribution:
    return Distribution(**{"name": name, "version": version, "manager": "pip", "location": SITE, **more})  # type: ignore[arg-type]


def python(*items: Distribution, **changes: object) -> PythonEnv:
    return msgspec.structs.replace(PYTHON, distributions=items, **changes)


def found(facts: Facts, rule: str) -> list[Finding]:
    report = evaluate(facts, load(), install.RULES)
    assert not [s for s in report.skipped if s.reason.startswith("internal error")], report.skipped
    return [f for f in report.findings if f.rule == rule]


def says(text: str) -> tuple[Symptom, ...]:
    return recognise(text, source="test")


def test_a_sound_environment_is_silent() -> None:
    facts = machine(python=python(dist("torch", "2.8.0", requires=("numpy", "nvidia-nccl-cu12==2.27.3")), dist("nvidia-nccl-cu12", "2.27.3"), dist("numpy", "2.3.2")))
    assert not evaluate(facts, load(), install.RULES).findings


# --- which Python --------------------------------------------------------------------------------------------------


def test_32_bit_python_explains_that_there_is_no_wheel() -> None:
    text = says("ERROR: Could not find a version that satisfies the requirement torch (from versions: none)")
    facts = Facts(origin="captured", system=System(os="windows"), python=PythonEnv(version="3.10.6", bits=32), symptoms=text)
    assert found(facts, "python-32bit")
    assert not found(facts, "python-no-wheel")
    assert not found(machine(), "python-32bit")
    assert not found(machine(python=msgspec.structs.replace(PYTHON, bits=None)), "python-32bit")


@pytest.mark.parametrize(
    ("python_version", "os", "asked", "offered", "expected"),
    [
        ("3.11.5", "windows", "torch==1.13.1", "2.0.0, 2.0.1, 2.1.0", "python-no-wheel"),
        ("3.13.0", "linux", "torch==2.2.0", "2.5.0, 2.5.1, 2.6.0", "python-no-wheel"),
        (None, "linux", "torch==1.7.1", "1.11.0, 1.12.0, 1.13.0, 2.0.0", "python-no-wheel"),
        ("3.10.12", "linux", "torch==2.4.0", "2.4.0, 2.4.1", None),  # it is in the list
        ("3.11.5", "macos", "torch==2.4.0", "2.0.0, 2.1.0, 2.2.0, 2.2.1, 2.2.2", "macos-intel-no-wheel"),
    ],
)
def test_no_matching_distribution(python_version: str | None, os: str, asked: str, offered: str, expected: str | None) -> None:
    text = says(f"ERROR: Could not find a version that satisfies the requirement {asked} (from versions: {offered})")
    facts = Facts(origin="captured", system=System(os=os), python=PythonEnv(version=python_version), symptoms=text)
    fired = [f.rule for f in evaluate(facts, load(), install.RULES).findings]
    assert fired == ([expected] if expected else [])


def test_no_wheel_names_pythons_and_the_newest_release_for_this_one() -> None:
    text = says("ERROR: Could not find a version that satisfies the requirement torch==1.13.1 (from versions: 2.0.0, 2.0.1)")
    facts = Facts(origin="captured", system=System(os="windows"), python=PythonEnv(version="3.11.5"), symptoms=text)
    finding = found(facts, "python-no-wheel")[0]
    assert "3.7 to 3.10" in finding.why
    assert any("3.10" in c for c in finding.remedy.commands)


def test_a_companions_python_is_looked_up_by_its_torch() -> None:
    text = says("ERROR: Could not find a version that satisfies the requirement torchvision==0.14.1 (from versions: 0.1.6, 0.16.0, 0.17.0)")
    facts = Facts(origin="captured", system=System(os="linux"), python=PythonEnv(version="3.12.1"), symptoms=text)
    assert found(facts, "python-no-wheel")


def test_rosetta_is_told_even_where_nothing_failed() -> None:
    facts = Facts(system=System(os="macos", machine="arm64", rosetta=True), python=PythonEnv(version="3.11.9", machine="x86_64"), apple=Apple(chip="Apple M2"))
    assert found(facts, "macos-intel-no-wheel")[0].severity == "warning"
    native = msgspec.structs.replace(facts, system=System(os="macos", machine="arm64", rosetta=False), python=PythonEnv(machine="arm64"))
    assert not found(native, "macos-intel-no-wheel")


def test_musl_without_torch_is_said_before_anyone_tries() -> None:
    alpine = msgspec.structs.replace(LINUX, libc="musl", distro="alpine")
    facts = machine(system=alpine, torch=Torch(found=False))
    assert found(facts, "python-no-wheel")
    assert not found(machine(torch=Torch(found=False)), "python-no-wheel")


def test_label_without_its_index_and_label_that_never_was() -> None:
    def asked(requirement: str) -> Facts:
        text = says(f"ERROR: Could not find a version that satisfies the requirement {requirement} (from versions: 2.0.0, 2.1.0)")
        return Facts(origin="captured", system=System(os="linux"), python=PythonEnv(version="3.10.1"), symptoms=text)

    there = found(asked("torch==2.1.0+cu118"), "wheel-index-missing")[0]
    assert "--index-url https://download.pytorch.org/whl/cu118" in there.remedy.commands[0]
    never = found(asked("torch==2.1.0+cu102"), "wheel-index-missing")[0]
    assert "has no cu102 build" in never.why


def test_conda_channel_ended() -> None:
    text = says("PackagesNotFoundError: The following packages are not available from current channels:\n\n  - pytorch==2.7.0\n")
    assert found(Facts(origin="captured", symptoms=text), "conda-channel-ended")
    old = says("PackagesNotFoundError: The following packages are not available from current channels:\n\n  - pytorch==1.0.0\n")
    assert not found(Facts(origin="captured", symptoms=old), "conda-channel-ended")


# --- which copy ----------------------------------------------------------------------------------------------------

NO_TORCH = says("ModuleNotFoundError: No module named 'torch'")


def test_not_installed_live_and_in_a_paste() -> None:
    live = machine(torch=Torch(found=False))
    assert found(live, "torch-not-installed")[0].confidence == "certain"
    assert found(Facts(origin="captured", symptoms=NO_TORCH), "torch-not-installed")
    assert not found(machine(), "torch-not-installed")
    assert not found(Facts(), "torch-not-installed"), "nobody asked"


@pytest.mark.parametrize(
    "changes",
    [
        {"python": python(torch_elsewhere=("/usr/bin/python3.10",))},
        {"python": python(Distribution(name="pytorch", version="1.2.0", build="py3.6_0", manager="conda"))},
    ],
)
def test_installed_for_another_python(changes: dict[str, object]) -> None:
    facts = machine(torch=Torch(found=False), **changes)
    assert found(facts, "wrong-interpreter")
    report = evaluate(facts, load(), install.RULES)
    assert report.primary is not None
    assert report.primary.rule == "wrong-interpreter"


@pytest.mark.parametrize("changes", [{"pip_python": "3.9"}, {"other_pythons": ("/usr/bin/python3",)}])
def test_another_python_without_torch_proves_nothing(changes: dict[str, object]) -> None:
    facts = machine(torch=Torch(found=False), python=msgspec.structs.replace(PYTHON, **changes))
    assert not found(facts, "wrong-interpreter")
    assert found(facts, "torch-not-installed")


def test_pip_of_another_python_is_no_fault_while_torch_is_here() -> None:
    assert not found(machine(python=msgspec.structs.replace(PYTHON, pip_python="3.9")), "wrong-interpreter")


def test_two_copies_on_the_path() -> None:
    two = machine(python=python(dist("torch", "2.8.0"), dist("torch", "2.4.0", location="/opt/other/site-packages")))
    assert found(two, "duplicate-torch-install")[0].severity == "error"
    one_twice = machine(python=python(dist("torch", "2.8.0"), dist("torch", "2.8.0")))
    assert not found(one_twice, "duplicate-torch-install"), "one place, listed twice"
    partial = machine(python=python(dist("torch", "2.8.0"), distributions_partial=True))
    assert not found(partial, "duplicate-torch-install")


def test_conda_and_pip_of_the_same_version_are_one_installation() -> None:
    conda = Distribution(name="pytorch", version="2.1.2", build="py3.10_cuda11.8_cudnn8.7.0_0", channel="pytorch", manager="conda")
    same = machine(python=python(conda, dist("torch", "2.1.2")))
    assert not found(same, "duplicate-torch-install")
    over = machine(python=python(conda, dist("torch", "2.4.1")))
    assert found(over, "duplicate-torch-install")


def test_record_and_import_disagree() -> None:
    conflict = Conflict(field="torch.version", values=("2.6.0", "2.8.0"))
    facts = Facts(origin="captured", torch=Torch(version="2.6.0"), conflicts=(conflict,))
    assert found(facts, "duplicate-torch-install")
    label = Conflict(field="torch.version", values=("2.6.0+cu124", "2.6.0"))
    assert not found(msgspec.structs.replace(facts, torch=Torch(version="2.6.0+cu124"), conflicts=(label,)), "duplicate-torch-install")


USER = "/home/user/.local/lib/python3.11/site-packages"


def test_user_site() -> None:
    conda = msgspec.structs.replace(PYTHON, kind="conda", conda_prefix="/opt/conda/envs/x")
    in_conda = machine(python=conda, torch=msgspec.structs.replace(TORCH, location=USER + "/torch"))
    assert found(in_conda, "user-site-shadowing")[0].severity == "warning"
    plain = machine(python=msgspec.structs.replace(PYTHON, kind="system"), torch=msgspec.structs.replace(TORCH, location=USER + "/torch"))
    assert not found(plain, "user-site-shadowing"), "the only copy, installed with --user"
    both = python(dist("torch", "1.1.0", location=USER, site="user"), dist("torch", "2.8.0", location="/usr/lib/python3/dist-packages"), kind="system")
    assert found(machine(python=both, torch=Torch(version="1.1.0", found=True, location=USER + "/torch")), "user-site-shadowing")


def test_printed_location_in_a_paste() -> None:
    evidence = Evidence(field="torch.location", source="r", line=7, text=f"'{USER}/torch/__init__.py'")
    facts = Facts(origin="captured", torch=Torch(version="1.1.0", location=USER + "/torch"), evidence=(evidence,))
    assert found(facts, "user-site-shadowing")[0].confidence == "possible"
    frame = msgspec.structs.replace(evidence, text=f'  File "{USER}/torch/__init__.py", line 229, in <module>')
    assert not found(msgspec.structs.replace(facts, evidence=(frame,)), "user-site-shadowing")


def test_shadowing_file() -> None:
    shadow = Shadow(module="torch", path="/home/user/work/torch.py")
    assert found(machine(python=msgspec.structs.replace(PYTHON, shadows=(shadow,))), "local-file-shadowing")[0].severity == "warning"
    assert not found(machine(python=msgspec.structs.replace(PYTHON, shadows=())), "local-file-shadowing")
    inside = says("ImportError: cannot import name 'foo' from 'transformers' (/x/site-packages/transformers/__init__.py)")
    assert not found(machine(symptoms=inside), "local-file-shadowing"), "the installed package itself"


# --- damage --------------------------------------------------------------------------------------------------------


def test_record_against_the_disk() -> None:
    broken = machine(python=python(dist("torch", "2.8.0", files_missing=("torch/lib/libtorch_cpu.so",))))
    assert found(broken, "corrupted-install")[0].confidence == "certain"
    editable = machine(python=python(dist("torch", "2.8.0", files_changed=("torch/x.py",), editable=True)))
    assert not found(editable, "corrupted-install")
    other = machine(python=python(dist("requests", "2.32", files_missing=("requests/x.py",))))
    assert not found(other, "corrupted-install")


def test_damage_explains_what_does_not_import() -> None:
    text = says("RuntimeError: operator torchvision::nms does not exist")
    facts = machine(python=python(dist("torch", "2.8.0", files_missing=("torch/lib/libtorch_cpu.so",))), symptoms=text)
    report = evaluate(facts, load(), RULES)
    assert report.primary is not None
    assert report.primary.rule == "corrupted-install"
    assert [f.consequence_of for f in report.findings if f.rule == "torchvision-mismatch"] == ["corrupted-install"]


def test_an_empty_driver_library_is_not_torchs_damage() -> None:
    assert not found(machine(symptoms=says("OSError: /usr/lib/x86_64-linux-gnu/libcuda.so.1: file too short")), "corrupted-install")


def test_a_broken_model_download_is_not_a_broken_wheel() -> None:
    text = says("requests.exceptions.ChunkedEncodingError: ('Connection broken: IncompleteRead(9518051328 bytes read, 6144434220 more expected)')")
    assert not found(Facts(origin="captured", symptoms=text), "corrupted-download")


# --- packages that go together ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("torch", "os", "numpy", "bridge", "expected"),
    [
        ("2.2.2", "linux", "2.0.0", None, "warning"),
        ("2.2.2", "linux", "2.0.0", OK, None),
        ("2.2.2", "linux", "1.26.4", None, None),
        ("2.4.0", "windows", "2.1.0", None, "warning"),
        ("2.4.1", "windows", "2.1.0", None, None),
        ("2.4.0", "linux", "2.1.0", None, None),
        ("2.4.0a0+git", "linux", "2.1.0", None, None),
    ],
)
def test_numpy_by_versions(torch: str, os: str, numpy: str, bridge: Outcome | None, expected: str | None) -> None:
    facts = Facts(system=System(os=os), python=PythonEnv(distributions=(dist("numpy", numpy),)), torch=Torch(version=torch, numpy_bridge=bridge))
    assert [f.severity for f in found(facts, "numpy-abi-mismatch")] == ([expected] if expected else [])


PINS = ("nvidia-cudnn-cu12==9.10.2.21; platform_system == 'Linux'", "nvidia-nccl-cu12==2.27.3; platform_system == 'Linux'", "filelock")


def nvidia(*items: Distribution, **changes: object) -> Facts:
    return machine(python=python(dist("torch", "2.8.0", requires=PINS), *items), **changes)


CUDNN, NCCL = dist("nvidia-cudnn-cu12", "9.10.2.21"), dist("nvidia-nccl-cu12", "2.27.3")
FAILED = msgspec.structs.replace(TORCH, imports=BAD)


def test_required_wheels_that_are_not_there() -> None:
    finding = found(nvidia(NCCL, torch=FAILED), "missing-nvidia-wheels")[0]
    assert "nvidia-cudnn-cu12==9.10.2.21" in finding.remedy.commands[0]
    assert not found(nvidia(CUDNN, NCCL, torch=FAILED), "missing-nvidia-wheels")
    assert not found(nvidia(NCCL), "missing-nvidia-wheels"), "torch that imports lacks none"
    assert not found(machine(python=python(dist("torch", "2.8.0", requires=PINS), distributions_partial=True), torch=FAILED), "missing-nvidia-wheels")
    windows = msgspec.structs.replace(nvidia(torch=FAILED), system=System(os="windows"))
    assert not found(windows, "missing-nvidia-wheels"), "the marker does not hold there"


def test_two_wheels_for_one_directory() -> None:
    both = nvidia(CUDNN, NCCL, dist("nvidia-nccl-cu13", "2.28.9"))
    finding = found(both, "conflicting-nvidia-wheels")[0]
    assert finding.severity == "warning", "torch still imports"
    assert "nvidia-nccl-cu13" in finding.remedy.commands[0], "torch is a CUDA 12 build"
    apart = nvidia(CUDNN, NCCL, dist("nvidia-cublas-cu12", "12.8.4.1"), dist("nvidia-cublas-cu13", "0.0.1"))
    assert not found(apart, "conflicting-nvidia-wheels"), "the cu13 name is an empty placeholder"
    assert not found(nvidia(CUDNN, NCCL), "conflicting-nvidia-wheels")


def test_wheels_off_their_pins() -> None:
    older = nvidia(CUDNN, dist("nvidia-nccl-cu12", "2.19.3"), torch=FAILED)
    assert found(older, "nvidia-wheel-versions")[0].severity == "warning"
    newer = nvidia(CUDNN, dist("nvidia-nccl-cu12", "2.28.9"))
    assert found(newer, "nvidia-wheel-versions")[0].severity == "note"
    assert not found(nvidia(CUDNN, NCCL), "nvidia-wheel-versions")


def test_mkl_by_symbol_only() -> None:
    text = says("ImportError: /x/site-packages/torch/lib/libtorch_cpu.so: undefined symbol: iJIT_NotifyEvent")
    assert found(machine(symptoms=text), "mkl-ijit-symbol")
    assert not found(machine(python=python(dist("mkl", "2024.2.0"))), "mkl-ijit-symbol"), "a pip torch carries its own"


def test_labels_of_one_cuda_major_are_a_note() -> None:
    facts = machine(torch=Torch(version="2.4.0+cu121"), python=python(dist("torchaudio", "2.4.0+cu124")))
    assert [f.severity for f in found(facts, "mixed-build-labels")] == ["note"]
    same = machine(torch=Torch(version="2.4.0+cu121"), python=python(dist("torchaudio", "2.4.0+cu121")))
    assert not found(same, "mixed-build-labels")


def test_withdrawn_release() -> None:
    assert found(machine(python=python(dist("nvidia-cudnn-cu12", "9.25.0.15"))), "yanked-package")
    assert not found(machine(python=python(dist("nvidia-cudnn-cu12", "9.25.1.1"))), "yanked-package")


def test_pip_conflict_line() -> None:
    text = says("xformers 0.0.22 requires torch==2.0.1, but you have torch 2.1.0 which is incompatible.")
    assert found(machine(symptoms=text), "package-conflict")[0].severity == "warning"
    vision = says("torchvision 0.15.2 requires torch==2.0.1, but you have torch 2.1.0 which is incompatible.")
    assert not found(machine(symptoms=vision), "package-conflict"), "the companion's own rule"


def test_build_isolation_needs_the_build_close_by() -> None:
    text = "error: subprocess-exited-with-error\n" + "line\n" * 5 + "ModuleNotFoundError: No module named 'torch'\n"
    assert found(Facts(origin="captured", symptoms=says(text)), "build-isolation")
    far = "error: subprocess-exited-with-error\n" + "line\n" * 200 + "ModuleNotFoundError: No module named 'torch'\n"
    facts = Facts(origin="captured", symptoms=says(far))
    assert not found(facts, "build-isolation")
    assert found(facts, "torch-not-installed")
