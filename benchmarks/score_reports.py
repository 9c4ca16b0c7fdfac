"""Scores `envcheck diagnose` on a folder of real reports whose cause is known, and prints every miss.

Each case is a pair `NNN-slug.input.txt` and `NNN-slug.expect.json` with the fields `cause`, `must_mention` and
`must_not_say`. The cause that counts is the rule of the first error or warning ("healthy" when there is none); the two
lists are compared, without regard to case, with the text of the findings and never with the facts.

    python benchmarks/score_reports.py [--folder DIR] [--only 036] [--verbose]
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from envcheck.cli.diagnose import examine  # noqa: E402
from envcheck.findings import Report  # noqa: E402


@dataclass(frozen=True)
class Result:
    """How one case went."""

    name: str
    expected: str
    said: str
    verdict: str
    missing: tuple[str, ...]
    forbidden: tuple[str, ...]
    report: Report

    @property
    def cause_right(self) -> bool:
        return self.said == self.expected

    @property
    def right(self) -> bool:
        return self.cause_right and not self.missing and not self.forbidden


def folder_of(option: str | None) -> Path:
    """The folder of cases: the option, else below ENVCHECK_SHARED or ../shared beside the checkout."""
    if option:
        return Path(option)
    return Path(os.environ.get("ENVCHECK_SHARED") or ROOT.parent / "shared") / "reports"


def spoken(report: Report) -> str:
    """Everything that the findings say, in lower case."""
    parts: list[str] = []
    for finding in report.findings:
        parts += [finding.title, finding.seen, finding.why, finding.remedy.text, *finding.remedy.commands]
        parts.append(finding.otherwise)
    return "\n".join(parts).lower()


def judge(case: Path) -> Result:
    """One case; the name of the file is not shown to the program."""
    expect = json.loads(case.with_name(case.name.replace(".input.txt", ".expect.json")).read_text("utf-8"))
    report = examine([("report.txt", case.read_bytes())])
    text = spoken(report)
    primary = report.primary
    return Result(
        name=case.name.removesuffix(".input.txt"),
        expected=expect["cause"],
        said=primary.rule if primary else "healthy",
        verdict=report.verdict,
        missing=tuple(item for item in expect["must_mention"] if not any(a.lower() in text for a in item.split("|"))),
        forbidden=tuple(item for item in expect["must_not_say"] if item.lower() in text),
        report=report,
    )


def show(result: Result) -> None:
    """A miss with what was said."""
    print(f"\n{result.name}\n  expected {result.expected}, said {result.said} (verdict {result.verdict})")
    if result.missing:
        print(f"  not mentioned: {', '.join(result.missing)}")
    if result.forbidden:
        print(f"  said what must not be said: {', '.join(result.forbidden)}")
    for finding in result.report.findings:
        print(f"  - {finding.severity} {finding.rule} ({finding.confidence}), line {finding.line}: {finding.title}")
        print(f"      seen: {finding.seen}\n      why: {finding.why}\n      do: {finding.remedy.text}")
        for command in finding.remedy.commands:
            print(f"      $ {command}")
        if finding.otherwise:
            print(f"      else: {finding.otherwise}")


def main() -> int:
    """Prints the score; 0 when nothing was missed."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--folder", help="the folder with the cases")
    parser.add_argument("--only", action="append", default=[], help="number or slug of a case; may be repeated")
    parser.add_argument("--verbose", action="store_true", help="print what was said of the right ones too")
    options = parser.parse_args()
    folder = folder_of(options.folder)
    cases = sorted(folder.glob("*.input.txt"))
    if options.only:
        cases = [case for case in cases if any(case.name.startswith(o) or o in case.name for o in options.only)]
    if not cases:
        print(f"no *.input.txt in {folder}: name the folder with --folder or ENVCHECK_SHARED", file=sys.stderr)
        return 2
    results = [judge(case) for case in cases]
    for result in results:
        if options.verbose or not result.right:
            show(result)
    causes = sum(r.cause_right for r in results)
    full = sum(r.right for r in results)
    healthy = [r for r in results if r.expected == "healthy"]
    alarms = sum(not r.cause_right for r in healthy)
    print(f"\ncause right: {causes} of {len(results)}, right in full: {full} of {len(results)}, "
          f"false alarms: {alarms} of {len(healthy)} healthy")
    return 0 if full == len(results) else 1


if __name__ == "__main__":
    sys.exit(main())
