"""What holds for all rules about builds, installations and libraries: pages, vocabulary, consequences, safe commands."""

from __future__ import annotations

import re

import pytest

from envcheck.captured import read
from envcheck.matrix import load
from envcheck.rules import RULES, build, evaluate, install, library
from envcheck.rules.page import pages
from envcheck.symptoms import build as build_texts
from envcheck.symptoms import install as install_texts
from envcheck.symptoms import library as library_texts

MINE = (*build.RULES, *install.RULES, *library.RULES)
UNSAFE = re.compile(
    r"break-system-packages|KMP_DUPLICATE_LIB_OK=|dll-files|dllme|chmod 777|setenforce 0|ln -sf? .*libc\.so|rm -rf /", re.IGNORECASE
)
TEXTS = [
    "OMP: Error #15: Initializing libiomp5md.dll, but found libiomp5md.dll already initialized.",
    "error: externally-managed-environment",
    "ImportError: libtorch_cpu.so: cannot enable executable stack as shared object requires: Permission denied",
    'OSError: [WinError 126] The specified module could not be found. Error loading "C:\\v\\Lib\\site-packages\\torch\\lib\\fbgemm.dll" or one of its dependencies.',
    "ImportError: /lib64/libc.so.6: version `GLIBC_2.28' not found (required by /x/site-packages/torch/lib/libtorch_cpu.so)",
    "ImportError: /lib/x86_64-linux-gnu/libstdc++.so.6: version `GLIBCXX_3.4.30' not found (required by /x/site-packages/torch/lib/libtorch_python.so)",
    "ImportError: /x/site-packages/torch/lib/libtorch_cuda.so: undefined symbol: ncclCommRegister",
    "RuntimeError: Failed to find C compiler. Please specify via CC environment variable.",
    "ModuleNotFoundError: No module named 'torch'",
    "OSError: CUDA_HOME environment variable is not set. Please set it to your CUDA install root.",
]


@pytest.mark.parametrize("rule", MINE, ids=lambda r: r.id)
def test_every_rule_has_a_page_that_can_be_used(rule) -> None:
    page = pages()[rule.id]
    assert len(page.means) > 60
    assert page.shows
    assert page.confirm
    assert page.fix
    assert page.sources


def test_consequences_name_rules_that_exist_and_never_turn_in_a_circle() -> None:
    known = {r.id for r in RULES}
    explains = {r.id: set(r.explains) for r in MINE}
    for rule_id, others in explains.items():
        assert others <= known | {"*"}, rule_id

    def reachable(start: str) -> set[str]:
        seen: set[str] = set()
        todo = list(explains[start])
        while todo:
            following = todo.pop()
            if following not in seen:
                seen.add(following)
                todo.extend(explains.get(following, ()))
        return seen

    assert not [rule_id for rule_id in explains if rule_id in reachable(rule_id)]


@pytest.mark.parametrize("text", TEXTS)
def test_no_command_is_a_folk_cure(text: str) -> None:
    report = evaluate(read([("report.txt", text)]), load(), RULES)
    assert report.primary is not None
    for finding in report.findings:
        assert not [c for c in finding.remedy.commands if UNSAFE.search(c)]
        assert finding.remedy.text
        assert finding.seen
        assert finding.why


def test_a_finding_that_is_not_certain_says_what_else_to_look_at() -> None:
    for text in TEXTS:
        for finding in evaluate(read([("report.txt", text)]), load(), MINE).findings:
            assert finding.confidence == "certain" or finding.otherwise, finding.rule


def test_kinds_stand_in_one_catalogue_only() -> None:
    areas: dict[str, set[str]] = {}
    for module in (build_texts, install_texts, library_texts):
        for signature in module.SIGNATURES:
            areas.setdefault(signature.kind, set()).add(module.__name__)
    assert not {kind: names for kind, names in areas.items() if len(names) > 1}


def test_every_kind_is_used_by_a_rule() -> None:
    import inspect
    import pkgutil
    from importlib import import_module

    import envcheck.rules as package

    source = "".join(
        inspect.getsource(import_module(f"envcheck.rules.{m.name}")) for m in pkgutil.iter_modules(package.__path__)
    )
    unused = [
        s.kind
        for module in (build_texts, install_texts, library_texts)
        for s in module.SIGNATURES
        if f'"{s.kind}"' not in source
    ]
    assert not unused
