"""Real public reports, re-typed and condensed: the cause that is named first, what is said, and what is not.

`reports/<area>.toml` holds one table for each: `source` is the thread, `cause` the rule of the first finding ("healthy":
no error and no warning), `mentions` what the findings have to say (an item "a|b" is met by either), `never` what they
must not say, `verdict` where it matters whether the answer is "healthy" or "unknown".
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from envcheck.cli.diagnose import examine
from envcheck.findings import Report

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FOLDER = Path(__file__).parent / "reports"


def reports() -> list[dict[str, Any]]:
    """All of them, in the order of the files."""
    return [item for path in sorted(FOLDER.glob("*.toml")) for item in tomllib.loads(path.read_text("utf-8"))["report"]]


REPORTS = reports()


def spoken(report: Report) -> str:
    """What the findings say, in lower case."""
    parts: list[str] = []
    for finding in report.findings:
        parts += [finding.title, finding.seen, finding.why, finding.remedy.text, *finding.remedy.commands]
        parts.append(finding.otherwise)
    return "\n".join(parts).lower()


def test_each_report_is_a_thread_of_its_own() -> None:
    assert len({item["source"] for item in REPORTS}) == len(REPORTS) >= 180
    assert len({item["name"] for item in REPORTS}) == len(REPORTS)
    assert sum(item["cause"] == "healthy" for item in REPORTS) >= 40
    assert len({item["cause"] for item in REPORTS}) >= 55


@pytest.mark.parametrize("item", REPORTS, ids=[item["name"] for item in REPORTS])
def test_report(item: dict[str, Any]) -> None:
    report = examine([("report.txt", item["text"])])
    said = report.primary.rule if report.primary else "healthy"
    assert said == item["cause"], [(f.rule, f.severity, f.confidence, f.seen) for f in report.findings]
    if "verdict" in item:
        assert report.verdict == item["verdict"], [s.reason for s in report.skipped if s.essential]
    elif said == "healthy":
        assert report.verdict in ("healthy", "unknown")
    text = spoken(report)
    assert [m for m in item.get("mentions", ()) if not any(part.lower() in text for part in m.split("|"))] == []
    assert [n for n in item["never"] if n.lower() in text] == []
