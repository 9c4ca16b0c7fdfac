"""What is broken although no rule knows why: said all the same, for a machine whose torch does not work is not healthy."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.facts import Facts, Outcome
from envcheck.findings import Finding, Remedy
from envcheck.matrix import Matrix
from envcheck.rules import derive, remedies
from envcheck.rules.base import Rule, Unknown, rule


@rule("torch-import-fails", "install", "torch cannot be imported, and the cause is not known.", fallback=True)
def torch_import_fails(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """The import was tried in the Python under test and did not come to its end."""
    tried = facts.torch.imports
    if tried is None or not tried.bad:
        return
    if facts.origin == "captured" and not tried.error and derive.torch_distribution(facts) is None:
        raise Unknown(
            "the report was made with a Python that cannot import torch, and no list shows that torch is installed there",
            "python -m torch.utils.collect_env, with the Python that fails",
        )
    yield rule.finding(
        "error",
        title=_how(tried, "import torch"),
        seen=_seen(tried),
        why="No program of this environment that uses torch can start.",
        remedy=Remedy(
            text=_first_step(tried) + " If it stays: reinstall torch without the cache in a fresh environment.",
            commands=(
                f'{_python(facts)} -X faulthandler -v -c "import torch"',
                remedies.pip(facts, "install", "--force-reinstall", "--no-cache-dir", f"torch=={facts.torch.version}")
                if facts.torch.version and "+" not in facts.torch.version
                else remedies.pip(facts, "check"),
            ),
        ),
        confidence="certain",
        otherwise="The last lines of that output name the library or file at which it stops; "
        "envcheck explain 'the last line' shows the rules closest to it.",
    )


@rule("cuda-init-fails", "driver", "CUDA does not start in torch, and the cause is not known.", fallback=True)
def cuda_init_fails(rule: Rule, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """A CUDA build, a GPU that the driver shows, and torch.cuda.init() that fails, crashes or hangs."""
    tried = facts.torch.cuda_init
    works = facts.torch.cuda_available or (facts.torch.device_count or 0) > 0
    if tried is None or not tried.bad or works or not facts.torch.cuda or not derive.has_nvidia_gpu(facts):
        return
    yield rule.finding(
        "error",
        title=_how(tried, "CUDA's start in torch"),
        seen=_seen(tried),
        why="torch can compute on the CPU only.",
        remedy=Remedy(
            text="See whether the driver itself works and what the kernel says about the GPU; a reboot settles many "
            "states of a driver that was updated or suspended.",
            commands=("nvidia-smi", "sudo dmesg | grep -iE 'nvrm|xid' | tail -20"),
        ),
        otherwise="If nvidia-smi works and the kernel says nothing: `envcheck facts --share` has what a bug report needs.",
    )


def _how(tried: Outcome, what: str) -> str:
    if tried.status == "timeout":
        return f"{what[0].upper()}{what[1:]} does not come to an end."
    if tried.status == "crashed":
        return (
            f"{what[0].upper()}{what[1:]} crashes the interpreter ({tried.signal or f'exit code {tried.exit_code}'})."
        )
    return f"{what[0].upper()}{what[1:]} fails ({tried.error_type or 'error'})."


def _seen(tried: Outcome) -> str:
    last = next((line.strip() for line in reversed((tried.error or "").splitlines()) if line.strip()), "")
    parts = (
        f'"{last[:240]}"' if last else "",
        tried.detail or "",
        f"after {tried.seconds:.0f} s" if tried.seconds else "",
    )
    return "; ".join(part for part in parts if part) or tried.status


def _first_step(tried: Outcome) -> str:
    if tried.status == "timeout":
        return "Wait once more on a quiet machine: a cold network disk or a virus scanner can take minutes."
    if tried.status == "crashed":
        return "Let Python say where it crashes."
    return "Let Python say which file it was loading."


def _python(facts: Facts) -> str:
    return facts.python.executable or "python"


RULES: tuple[Rule, ...] = (torch_import_fails, cuda_init_fails)
