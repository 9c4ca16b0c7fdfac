"""Writes docs/rules/*.md and docs/rules/index.md from the rules and their pages: `python docs/build.py [--check]`."""

from __future__ import annotations

import sys
from pathlib import Path

from envcheck.render.pages import markdown
from envcheck.rules import EXPLAINED
from envcheck.rules.page import pages

FOLDER = Path(__file__).parent / "rules"


def expected() -> dict[str, str]:
    """File name -> contents."""
    files = {f"{rule.id}.md": markdown(rule, pages()[rule.id]) for rule in EXPLAINED}
    lines = [
        "# Rules",
        "",
        "Made by `python docs/build.py` from the rules and `envcheck/rules/pages/`; do not edit here.",
        "",
    ]
    area = ""
    for rule in EXPLAINED:
        if rule.area != area:
            area = rule.area
            lines += ["", f"## {area}", ""]
        lines.append(f"- [{rule.id}]({rule.id}.md): {rule.title}")
    files["index.md"] = "\n".join(lines) + "\n"
    return files


def main() -> int:
    """Writes the pages; with --check, says which are out of date instead (exit 1)."""
    wanted = expected()
    have = {p.name: p.read_text(encoding="utf-8") for p in FOLDER.glob("*.md")}
    stale = sorted(name for name in wanted.keys() | have.keys() if wanted.get(name) != have.get(name))
    if "--check" in sys.argv:
        for name in stale:
            print(f"docs/rules/{name} is out of date: run python docs/build.py")
        return 1 if stale else 0
    FOLDER.mkdir(exist_ok=True)
    for name in stale:
        if name in wanted:
            (FOLDER / name).write_text(wanted[name], encoding="utf-8")
        else:
            (FOLDER / name).unlink()
    print(f"{len(wanted)} pages, {len(stale)} changed")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
