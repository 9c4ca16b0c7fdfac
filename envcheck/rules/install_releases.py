"""Programs written for another release of torch, torchvision or torchaudio, and torchcodec, which belongs to one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from envcheck.facts import Facts, Symptom
from envcheck.findings import Finding, Remedy
from envcheck.matrix import Matrix
from envcheck.rules import derive, remedies
from envcheck.rules.base import Rule, rule
from envcheck.rules.install_plans import planned
from envcheck.rules.library_loader import owner_of_path


class Part(NamedTuple):
    """A name that only some releases have. release: the first with it (or, if gone, the first without it); None: not known."""

    gone: bool
    release: str | None


def _names(gone: bool, release: str | None, names: str) -> dict[str, Part]:
    return {name: Part(gone, release) for name in names.split()}


# Sources: the release notes of pytorch, torchvision and torchaudio; which names torch 1.13.1 and 2.14.1 have was looked up in them.
_PARTS: dict[str, Part] = {
    **_names(False, "1.9", "torch.inference_mode torch.nn.functional.mish"),
    **_names(False, "1.12", "torch.backends.mps"),
    **_names(False, "2.0", "torch.compile torch.func torch.mps torch.set_default_device torch._dynamo torch._inductor"
             " torch.nn.functional.scaled_dot_product_attention torch.optim.lr_scheduler.LRScheduler torch.distributed.tensor.parallel"),
    **_names(False, "2.1", "torch.compiler torch.export torch.float8_e4m3fn torch.float8_e5m2 torch.nn.utils.parametrizations.weight_norm"),
    **_names(False, "2.2", "torch.utils._pytree.register_pytree_node torch.distributed.device_mesh torch.nn.attention"),
    **_names(False, "2.3", "torch.uint16 torch.uint32 torch.uint64 torch.amp.GradScaler torch.get_default_device torch.xpu"
             " torch.nn.attention.sdpa_kernel torch.nn.attention.SDPBackend"),
    **_names(False, "2.4", "torch.nn.RMSNorm torch.nn.functional.rms_norm torch.library.custom_op torch.library.register_fake"
             " torch.amp.custom_fwd torch.amp.custom_bwd torch.serialization.add_safe_globals"),
    **_names(False, "2.5", "torch.distributed.tensor torch.nn.attention.flex_attention torch.nn.Buffer"),
    **_names(False, "2.6", "torch.accelerator torch.int1 torch.distributed.fsdp.fully_shard"),
    **_names(False, "2.7", "torch.float8_e8m0fnu"),
    **_names(False, "2.8", "torch.float4_e2m1fn_x2"),
    **_names(True, "1.8", "torch.rfft torch.irfft"),
    **_names(True, "1.9", "torch.autograd.gradcheck.zero_gradients torch._six.container_abcs torch._six.int_classes"),
    **_names(True, "2.0", "torch._six torch._six.string_classes torch._six.inf torch.utils.data._utils.collate.string_classes"),
    **_names(True, "0.13", "torchvision.models.utils"),
    **_names(True, "0.15", "torchvision.models.resnet.model_urls torchvision.models.vgg.model_urls torchvision.models.alexnet.model_urls"
             " torchvision.models.densenet.model_urls torchvision.models.mobilenet.model_urls"),
    **_names(True, "0.17", "torchvision.transforms.functional_tensor"),
    **_names(True, None, "torchvision.io.read_video torchvision.io.write_video torchvision.io.VideoReader"),
    **_names(False, "0.15", "torchvision.transforms.v2"),
    **_names(False, "0.16", "torchvision.tv_tensors"),
    **_names(True, "2.9", "torchaudio.set_audio_backend torchaudio.get_audio_backend torchaudio.list_audio_backends torchaudio.info"
             " torchaudio.AudioMetaData torchaudio.backend torchaudio.backend.common torchaudio.io"),
}  # fmt: skip


def part_of_release(item: Symptom) -> tuple[str, Part] | None:
    """(name, what is known of it) of a missing name that other releases have."""
    d = item.details
    if d.get("attribute"):
        name = f"{d.get('owner') or d.get('module') or 'torch'}.{d['attribute']}"
    elif d.get("imported"):
        name = f"{d['source']}.{d['imported']}"
    else:
        name = d.get("submodule") or (f"torch.{d['module']}" if d.get("module") else "")
    while name:
        if name in _PARTS:
            return name, _PARTS[name]
        if d.get("attribute") or d.get("imported"):
            return None  # the module is there; only this name of it is not
        name = name.rpartition(".")[0]
    return None


def _library(name: str) -> str:
    return name.split(".", maxsplit=1)[0]


def _caller(item: Symptom) -> str | None:
    """The package whose file asked for the name."""
    owner = owner_of_path(item.details.get("frame"))
    if owner.startswith("extension:"):
        return owner.removeprefix("extension:")
    inside = re.search(r"[/\\](?:site|dist)-packages[/\\](\w+)", item.details.get("frame") or "")
    return inside.group(1) if inside and inside.group(1) not in ("torch", "torchvision", "torchaudio") else None


@rule(
    "torch-release-differs",
    "install",
    "A program uses what the installed release of torch (or torchvision, torchaudio) does not have.",
    explains=("corrupted-install", "torch-not-installed"),
)
def torch_release_differs(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Names that came or went with a release, and programs that say which release they want."""
    wanted = facts.symptom("torch-release-wanted")
    if wanted is not None:
        yield _said(rule, facts, wanted)
        return
    source = facts.symptom("source-for-older-torch")
    if source is not None:
        yield _old_source(rule, facts, source)
        return
    for item in derive.symptoms(facts, "torch-name-missing"):
        found = part_of_release(item)
        if found is None:
            continue
        name, part = found
        library, caller = _library(name), _caller(item)
        version = derive.torch_version(facts) if library == "torch" else derive.module_version(facts, library)
        other = "newer" if part.gone else "older"
        yield rule.finding(
            "error",
            title=f"{name} is not in the {library} that is installed"
            + (f" ({version})" if version else "")
            + (f": it {'went' if part.gone else 'came'} with {part.release}" if part.release else f": {other} releases are without it"),
            seen=derive.quote(item, version and f"{library} {version}"),
            why=f"{caller or 'The program'} was written for {'an older' if part.gone else 'a newer'} {library}"
            + (f" (before {part.release})." if part.gone and part.release else f" ({part.release} or newer)." if part.release else ".")
            + f" The installed one is {other}, and nothing of it is damaged.",
            remedy=_move(facts, matrix, library, part, caller),
            confidence="certain" if version and _fits(version, part) else "likely",
            otherwise="" if version and _fits(version, part) else f'`python -c "import {library}; print({library}.__version__, {library}.__file__)"` '
            "shows which release is imported.",
            line=item.line,
        )  # fmt: skip
        return


def _fits(version: str, part: Part) -> bool:
    """The version that is known agrees with what is missing."""
    if part.release is None:
        return False
    newer = derive.numbers(version)[:2] >= derive.numbers(part.release)[:2]
    return newer if part.gone else not newer


def _move(facts: Facts, matrix: Matrix, library: str, part: Part, caller: str | None) -> Remedy:
    package = (caller or "the program").replace("_", "-")
    update = (remedies.pip(facts, "install", "--upgrade", package),) if caller else ()
    if part.gone:
        older = (
            f", or install a {library} before {part.release} with the torch that belongs to it" if part.release else ""
        )
        return Remedy(
            text=f"Bring {package} up to date: newer releases of it do without that name{older}.", commands=update
        )
    newest = f"{part.release} or newer" if part.release else "newer"
    plan = planned(facts, matrix)
    return Remedy(
        text=f"Install {library} {newest}, together with the torch, torchvision and torchaudio that belong to each other; or, to keep this torch, "
        f"an older {package}. {plan.text}",
        commands=plan.commands,
    )


_SOURCES: tuple[tuple[str, str | None, str], ...] = (
    ("thc", "1.11", "the headers THC/ are"),
    ("thc2", "1.11", "the headers THC/ are"),
    ("check", "1.5", "the macro AT_CHECK is"),
    ("type", None, "x.type() as an argument of AT_DISPATCH is"),
)


def _old_source(rule: Rule, facts: Facts, item: Symptom) -> Finding:
    version = derive.torch_version(facts)
    row = next((r for r in _SOURCES if item.details.get(r[0])), None)
    title = (
        f"The source was written for an older torch: {row[2]} gone" + (f" since torch {row[1]}" if row[1] else "")
        if row
        else "The source is compiled as C++14, and the headers of torch 2.1 and newer need C++17"
    )
    return rule.finding(
        "error",
        title=title,
        seen=derive.quote(item, version and f"torch {version}"),
        why="A C++ or CUDA extension is compiled against the headers of the torch that is installed, and these do not have what it uses."
        if row
        else "The extension's own setup.py asks for -std=c++14.",
        remedy=Remedy(
            text="Take a newer release (or branch) of the extension"
            + (f", or build it with {f'a torch before {row[1]}' if row[1] else 'an older torch'} in an environment of its own." if row else ", or change the standard in its setup.py to c++17.")
        ),
        confidence="likely",
        otherwise="`python -c \"import torch; print(torch.__version__)\"` in the build's environment shows which torch it is built against.",
        line=item.line,
    )  # fmt: skip


def _said(rule: Rule, facts: Facts, item: Symptom) -> Finding:
    least = derive.detail(item, "least", "minimum") or ("2.5" if item.details.get("autocast") else "")
    have = derive.detail(item, "have") or derive.torch_version(facts)
    checkpoint = "least" in item.details
    return rule.finding(
        "error",
        title=f"torch {least} or newer is asked for" + (f", and {have} is installed" if have else ""),
        seen=derive.quote(item, have and f"torch {have}"),
        why="transformers refuses torch.load of older releases (CVE-2025-32434), and with it every checkpoint that is no safetensors file."
        if checkpoint
        else "autocast for Apple's GPUs came with torch 2.5."
        if item.details.get("autocast")
        else "This release of the program does not work with an older torch and goes on as if there were none.",
        remedy=Remedy(
            text=f"Install torch {least} or newer with its torchvision and torchaudio"
            + ("; or take the model's safetensors files; or an older transformers." if checkpoint else ", or an older release of the program."),
            commands=(remedies.pip(facts, "install", "--upgrade", f"torch>={least}", "torchvision", "torchaudio"),),
        ),
        confidence="certain" if have else "likely",
        otherwise="" if have else '`python -c "import torch; print(torch.__version__, torch.__file__)"` shows which one is imported.',
        line=item.line,
    )  # fmt: skip


# --- torchcodec ---------------------------------------------------------------------------------------------------

# Source: the table in torchcodec's README.
_CODEC = (("0.1", "2.5"), ("0.2", "2.6"), ("0.5", "2.7"), ("0.7", "2.8"), ("0.9", "2.9"))


@rule(
    "torchcodec-unusable",
    "install",
    "torchcodec is missing, does not belong to this torch, or finds no FFmpeg.",
    explains=("system-library-missing", "windows-dll-missing"),
)
def torchcodec_unusable(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Torchaudio 2.9 reads and writes through torchcodec, which needs FFmpeg's libraries and one release of torch."""
    item = facts.symptom("torchcodec-missing", "torchcodec-load")
    if item is None:
        return
    torch = derive.detail(item, "torch") or derive.torch_version(facts)
    pair = next(
        (codec for codec, release in _CODEC if torch and derive.numbers(torch)[:2] == derive.numbers(release)), None
    )
    spec = f"torchcodec=={pair}.*" if pair else "torchcodec"
    if item.kind == "torchcodec-missing":
        title = "torchcodec is not installed: torchaudio reads and writes audio through it"
        why = "From 2.9 on torchaudio has no decoders of its own."
    elif _without_ffmpeg(facts):
        title = "torchcodec finds no FFmpeg"
        why = "torchcodec loads FFmpeg's shared libraries (version 4 to 8) from the system or the conda environment; the program ffmpeg alone is not enough."
    else:
        title = "torchcodec cannot load its libraries: FFmpeg is missing, or it was made for another torch"
        why = (
            "Each torchcodec belongs to one release of torch"
            + (f" ({pair} to {torch})" if pair else "")
            + " and needs FFmpeg's shared libraries."
        )
    yield rule.finding(
        "error",
        title=title,
        seen=derive.quote(item, torch and f"torch {torch}"),
        why=why,
        remedy=Remedy(
            text="Install FFmpeg with its shared libraries (conda install ffmpeg, apt install ffmpeg, brew install ffmpeg; on Windows a "
            "'shared' build on PATH) and the torchcodec that belongs to this torch.",
            commands=(remedies.pip(facts, "install", spec),),
        ),
        confidence="likely",
        otherwise='`python -c "import torchcodec"` prints what failed for each version of FFmpeg: a library that is missing (FFmpeg), or an '
        "undefined symbol (another torch).",
        line=item.line,
    )  # fmt: skip


def _without_ffmpeg(facts: Facts) -> bool:
    return any(
        s.kind == "missing-library" and re.search(r"libav(?:util|codec|format|filter|device)|libsw", s.text)
        for s in facts.symptoms
    )


RULES: tuple[Rule, ...] = (torch_release_differs, torchcodec_unusable)
