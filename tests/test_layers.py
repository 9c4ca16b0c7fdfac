"""The direction of imports: judging code cannot start a process, nobody imports a payload or the command line."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "envcheck"

# layer -> layers it may import besides itself. A layer is the first name below `envcheck`.
MAY: dict[str, set[str]] = {
    "facts": set(),
    "errors": set(),
    "findings": {"facts"},
    "process": {"errors"},
    "data": {"errors"},
    "redact": {"facts", "findings", "lazy"},
    "lazy": set(),
    "nvidia_smi": {"facts", "lazy"},
    "outputs": {"facts", "lazy", "nvidia_smi"},
    "matrix": {"data", "errors"},
    "symptoms": {"facts", "redact"},
    "target": {"facts", "process", "errors"},
    "probes": {"facts", "process", "target", "errors", "lazy", "nvidia_smi", "outputs", "symptoms", "redact"},
    "captured": {"facts", "findings", "errors", "symptoms", "redact", "matrix", "lazy", "nvidia_smi", "outputs", "probes"},
    "installers": {"facts"},
    "recommend": {"facts", "findings", "matrix", "errors", "installers", "rules"},
    "rules": {"facts", "findings", "matrix", "errors", "symptoms", "recommend", "installers"},
    "smoke": {"facts", "findings", "matrix", "target", "process", "errors", "probes", "nvidia_smi"},
    "reference": {"facts", "findings", "matrix", "target", "data", "errors", "redact", "probes", "rules", "smoke"},
    "doctor": {"facts", "findings", "matrix", "rules", "probes", "smoke", "target", "symptoms", "errors"},
    "render": {"facts", "findings", "recommend", "rules", "data", "envfiles", "differences", "reference"},
    "files": {"errors"},
    "envfiles": {"facts", "findings", "matrix", "recommend", "rules", "installers", "target", "data", "errors"},
    "differences": {"facts", "findings", "matrix", "rules"},
    "payloads": set(),
}
PURE = ("facts", "findings", "matrix", "symptoms", "redact", "lazy", "nvidia_smi", "outputs", "installers", "recommend", "rules", "captured")


def _layer(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def _imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found |= {node.module or ""} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


FILES = sorted(p for p in PACKAGE.rglob("*.py") if _layer(p) not in ("__init__", "__main__", "cli", "payloads"))


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_go_one_way(path: Path) -> None:
    layer = _layer(path)
    assert layer in MAY, f"a new layer: name it in {__name__} with what it may import"
    ours = {name.split(".")[1] for name in _imports(path) if name.startswith("envcheck.") and name != "envcheck.__version__"}
    assert ours - {layer} <= MAY[layer], f"{layer} imports {sorted(ours - {layer} - MAY[layer])}"


@pytest.mark.parametrize("path", [p for p in FILES if _layer(p) in PURE], ids=lambda p: str(p.relative_to(PACKAGE)))
def test_judging_code_cannot_start_a_process(path: Path) -> None:
    assert not {n for n in _imports(path) if n.split(".")[0] in ("subprocess", "multiprocessing") or n.startswith("envcheck.process")}


def test_only_process_imports_subprocess() -> None:
    users = {str(p.relative_to(PACKAGE)) for p in FILES if "subprocess" in _imports(p)}
    assert users <= {"process.py"}
