"""Distributions: what is installed, where, by what, whether its files are there."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from envcheck.facts import Distribution
from envcheck.probes.packages_answer import distributions, wheel_version
from tests.interpreter.conftest import Env
from tests.kit_python.environments import posix_only
from tests.kit_python.packages import make_metadata, make_torch, make_wheel

pytestmark = posix_only


def _named(env: Env, name: str, **options: object) -> list[Distribution]:
    return [d for d in env.facts(quick=True, **options).python.distributions or () if d.name == name]


def test_a_whole_installation(env: Env) -> None:
    make_torch(env.site, requires=["nvidia-cudnn-cu12==9.10.2.21", "pytest; extra == 'dev'", "sympy>=1.13.3", "typing-extensions"])
    (torch,) = _named(env, "torch")
    assert torch == Distribution(
        name="torch",
        version="2.8.0+cu128",
        manager="pip",
        location=str(env.site),
        site="env",
        origin="index",
        requires=("nvidia-cudnn-cu12==9.10.2.21",),
        files_missing=(),
        files_changed=(),
    )


def test_missing_and_changed_files_the_libraries_first(env: Env) -> None:
    package = make_torch(env.site)
    (package / "lib" / "libtorch_cuda.so").write_bytes(b"cut")
    (package / "nn" / "__init__.py").unlink()
    (package / "lib" / "libtorch_cpu.so").unlink()
    (package / "lib" / "libtorch_cpu.so").symlink_to("nowhere")
    (torch,) = _named(env, "torch")
    assert torch.files_missing == ("torch/lib/libtorch_cpu.so", "torch/nn/__init__.py")
    assert torch.files_changed == ("torch/lib/libtorch_cuda.so",)


def test_a_full_look_sees_headers_too_and_a_quick_one_leaves_them(env: Env) -> None:
    make_wheel(env.site, "nvidia-cudnn-cu12", "9.10.2.21", {"nvidia/cudnn/include/cudnn.h": b"h", "nvidia/cudnn/lib/libcudnn.so.9": b"so"})
    (env.site / "nvidia/cudnn/include/cudnn.h").unlink()
    assert _named(env, "nvidia-cudnn-cu12")[0].files_missing == ()
    found = env.facts().python.distributions or ()
    assert next(d for d in found if d.name == "nvidia-cudnn-cu12").files_missing == ("nvidia/cudnn/include/cudnn.h",)


def test_two_nvidia_wheels_in_one_directory(env: Env) -> None:
    make_wheel(env.site, "nvidia-nccl-cu12", "2.29.3", {"nvidia/nccl/lib/libnccl.so.2": b"twelve"})
    make_wheel(env.site, "nvidia-nccl-cu13", "2.29.7", {"nvidia/nccl/lib/libnccl.so.2": b"thirteen"})
    assert _named(env, "nvidia-nccl-cu12")[0].files_changed == ("nvidia/nccl/lib/libnccl.so.2",)
    assert _named(env, "nvidia-nccl-cu13")[0].files_changed == ()


def test_names_with_commas_are_found(env: Env) -> None:
    make_wheel(env.site, "torchvision", "0.23.0", {'torchvision/a,b.py': b"x", "torchvision/c.py": b"y"})
    assert _named(env, "torchvision")[0].files_missing == ()
    (env.site / "torchvision/a,b.py").unlink()
    assert _named(env, "torchvision")[0].files_missing == ("torchvision/a,b.py",)


def test_two_sets_of_metadata_for_one_package(env: Env) -> None:
    make_torch(env.site, "2.8.0+cu128")
    make_metadata(env.site, "torch", "2.6.0")
    assert [d.version for d in _named(env, "torch")] == ["2.6.0", "2.8.0+cu128"]


def test_metadata_without_a_body(env: Env) -> None:
    (env.site / "torch-2.5.1.dist-info").mkdir()
    (torch,) = _named(env, "torch")
    assert (torch.version, torch.manager, torch.files_missing) == ("2.5.1", None, None)


def test_a_copy_in_the_user_site(env: Env) -> None:
    # A virtual environment looks into the user's packages only when it was told to see the system's, and then last.
    config = env.python.parent.parent / "pyvenv.cfg"
    config.write_text(config.read_text().replace("false", "true"))
    make_torch(Path(_user_site(env)), "1.1.0", cuda="9.0")
    found = env.facts(quick=True)
    assert found.torch.version == "1.1.0"
    assert found.python.user_site_enabled is True
    assert [(d.version, d.site) for d in found.python.distributions or () if d.name == "torch"] == [("1.1.0", "user")]
    make_torch(env.site, "2.8.0+cu128")
    assert [(d.version, d.site) for d in _named(env, "torch")] == [("2.8.0+cu128", "env"), ("1.1.0", "user")]
    env.variables["PYTHONNOUSERSITE"] = "1"
    found = env.facts(quick=True)
    assert [d.version for d in found.python.distributions or () if d.name == "torch"] == ["2.8.0+cu128"]
    assert found.python.user_site_enabled is False


def test_the_user_site_goes_before_the_interpreters_own(env: Env) -> None:
    env.python = Path(sys.base_prefix) / "bin" / f"python{sys.version_info[0]}"
    make_torch(Path(_user_site(env)), "1.1.0", cuda="9.0")
    found = env.facts(quick=True)
    assert (found.torch.version, _named(env, "torch")[0].site) == ("1.1.0", "user")
    assert found.python.kind != "venv"


def _user_site(env: Env) -> str:
    from envcheck import process

    done = process.run([env.python, "-m", "site", "--user-site"], timeout=20, env=env.variables)
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("text", "origin", "editable"),
    [
        ('{"url": "https://user:secret@host/x.git?token=1", "vcs_info": {"vcs": "git"}}', "vcs", False),
        ('{"url": "file:///home/me/pytorch", "dir_info": {"editable": true}}', "file", True),
        ('{"url": "https://host/torch.whl#sha256=1", "archive_info": {}}', "url", False),
        ("broken", None, None),
    ],
    ids=["vcs", "editable", "url", "broken"],
)
def test_where_it_came_from_and_nothing_secret(env: Env, text: str, origin: str | None, editable: bool | None) -> None:
    make_metadata(env.site, "torch", "2.8.0", direct_url=text)
    (torch,) = _named(env, "torch")
    assert (torch.origin, torch.editable) == (origin, editable)
    answer = env.ask(quick=True)
    assert "secret" not in json.dumps(answer.stages)
    assert "token" not in json.dumps(answer.stages)


def test_what_an_interrupted_pip_leaves_behind(env: Env) -> None:
    make_torch(env.site)
    (env.site / "~orch").mkdir()
    (env.site / "~orch-2.7.0.dist-info").mkdir()
    found = env.facts(quick=True)
    assert found.python.leftovers == (str(env.site / "~orch"), str(env.site / "~orch-2.7.0.dist-info"))
    assert len(_named(env, "torch")) == 1


@pytest.mark.parametrize(
    ("made_by", "installer", "pip", "expected"),
    [
        ("", "pip", True, ("pip", "24.0")),
        ("uv = 0.8.3\n", "uv", False, ("uv", "")),
        ("", "uv", False, ("uv", "")),
        ("", "uv", True, ("pip", "24.0")),
        ("", "pip", False, ("pip", "")),
    ],
    ids=["pip", "uv-venv", "venv-used-by-uv", "both", "pip-removed"],
)
def test_what_manages_the_environment(env: Env, made_by: str, installer: str, pip: bool, expected: tuple) -> None:
    config = env.python.parent.parent / "pyvenv.cfg"
    config.write_text(config.read_text() + made_by)
    make_metadata(env.site, "torch", "2.8.0", installer=installer)
    if pip:
        make_metadata(env.site, "pip", "24.0")
    python = env.facts(quick=True).python
    assert (python.manager, python.pip_version) == expected
    assert python.kind == "venv"
    assert python.externally_managed is False
    assert python.site_writable is True


def test_packages_that_say_nothing_are_only_counted(env: Env) -> None:
    for index in range(5):
        make_metadata(env.site, f"some-tool-{index}", "1.0")
    make_metadata(env.site, "Flash_Attn", "2.8.3")
    stage = env.ask(quick=True).stage("distributions")
    assert stage is not None
    assert stage["total"] == 6
    assert [d["name"] for d in stage["distributions"]] == ["flash-attn"]


# -- conda -------------------------------------------------------------------------------------------------------------


def _conda_meta(prefix: Path) -> None:
    meta = prefix / "conda-meta"
    meta.mkdir(parents=True)
    records = {
        "pytorch-2.4.0-py3.11_cuda12.1_cudnn9.1.0_0": "https://conda.anaconda.org/pytorch/linux-64",
        "torchvision-0.19.0-py311_cu121": "https://conda.anaconda.org/pytorch/linux-64",
        "numpy-1.26.4-py311h64a7726_0": "https://user:pw@conda.anaconda.org/t/tk-123/conda-forge/linux-64",
        "zlib-1.3-0": "https://conda.anaconda.org/conda-forge/linux-64",
    }
    for name, channel in records.items():
        (meta / f"{name}.json").write_text(json.dumps({"name": name, "files": ["x"] * 10, "channel": channel}))
    (meta / "history").write_text("==> 2024 <==\n# cmd: /opt/conda/bin/conda create -n e\n# cmd: /opt/x/mamba install pytorch\n")


def test_conda_records(part, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prefix = tmp_path / "miniforge3" / "envs" / "e"
    _conda_meta(prefix)
    base = tmp_path / "miniforge3" / "conda-meta"
    base.mkdir()
    (base / "conda-24.5.0-py310_0.json").touch()
    monkeypatch.setattr(sys, "prefix", str(prefix))
    monkeypatch.setattr(sys, "base_prefix", str(prefix))
    monkeypatch.setattr(sys, "path", [])
    said = part("probe_packages").distributions()
    assert [(c["name"], c["version"], c["build"], c["channel"]) for c in said["conda"]] == [
        ("numpy", "1.26.4", "py311h64a7726_0", "conda-forge"),
        ("pytorch", "2.4.0", "py3.11_cuda12.1_cudnn9.1.0_0", "pytorch"),
        ("torchvision", "0.19.0", "py311_cu121", "pytorch"),
    ]
    interpreter = part("probe_interpreter").interpreter()
    assert (interpreter["kind"], interpreter["manager"]) == ("conda", "mamba")
    assert interpreter["conda"] == {"prefix": str(prefix), "env": "e", "version": "24.5.0", "manager": "mamba"}


def _listed(name: str, version: str, manager: str | None) -> dict:
    return {"name": name, "version": version, "manager": manager, "location": "/c", "metadata": f"{name}-{version}", "site": "env"}


def test_a_conda_package_and_its_own_metadata_are_one_distribution() -> None:
    conda = [{"name": "torchvision", "version": "0.19.0", "build": "py311_cu121", "channel": "pytorch"},
             {"name": "pytorch", "version": "2.4.0", "build": "py3.11_cuda12.1", "channel": "pytorch"}]  # fmt: skip
    listed = [_listed("torch", "2.4.0", "conda"), _listed("torchvision", "0.19.0", "conda")]
    found = distributions({"distributions": listed, "conda": conda}, {}) or ()
    assert [(d.name, d.manager, d.build) for d in found] == [
        ("torch", "conda", None),
        ("torchvision", "conda", "py311_cu121"),
        ("pytorch", "conda", "py3.11_cuda12.1"),
    ]


def test_a_pip_package_over_condas_is_two_distributions() -> None:
    conda = [{"name": "torchvision", "version": "0.19.0", "build": "py311_cu121", "channel": "pytorch"}]
    found = distributions({"distributions": [_listed("torchvision", "0.23.0", "pip")], "conda": conda}, {}) or ()
    assert [(d.version, d.manager) for d in found] == [("0.23.0", "pip"), ("0.19.0", "conda")]


def test_a_check_that_ran_out_of_time_proves_only_what_it_saw() -> None:
    listed = [_listed("torch", "2.8.0", "pip")]
    check = {"location": "/c", "metadata": "torch-2.8.0", "total": 10, "checked": 4, "missing": [], "changed": ["torch/a.so"]}
    (found,) = distributions({"distributions": listed}, {"packages": [check]}) or ()
    assert found.files_missing is None
    assert found.files_changed == ("torch/a.so",)


def test_the_time_for_checking_files_is_kept(part, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_torch(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    (package,) = part("probe_records").installed_files(-1.0, False)["packages"]
    assert (package["checked"], package["missing_count"]) == (0, 0)
    assert package["total"] > 5


@pytest.mark.parametrize(
    ("versions", "expected"),
    [({"nvidia-cudnn-cu12": "9.10.2.21"}, "9.10.2"), ({"nvidia-cudnn-cu12": "9.10.2.21", "nvidia-cudnn-cu13": "9.12.0.46"}, None), ({}, None)],
    ids=["one", "two", "none"],
)
def test_the_version_that_a_wheel_brings(versions: dict, expected: str | None) -> None:
    packages = [Distribution(name=name, version=version) for name, version in versions.items()]
    assert wheel_version(packages, "nvidia-cudnn", 3) == expected
