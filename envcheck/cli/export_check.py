"""`envcheck export --check`: whether an environment meets a file, and whether the file is sound."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from envcheck.cli.options import wants_color, write_json

if TYPE_CHECKING:
    from envcheck.cli.asked import Asked


def check(
    path: Path,
    asked: Asked,
    *,
    lint: bool,
    strict: bool,
    json: bool,
    no_color: bool,
    quiet: bool,
) -> int:
    """The exit code: 0 the environment meets the file and the file is sound, 1 not.

    Raises:
        UsageError: options that do not go together.
    """
    from envcheck.envfiles.compare import Comparison, compare
    from envcheck.envfiles.lint import lint as lint_file
    from envcheck.envfiles.read import read
    from envcheck.errors import UsageError
    from envcheck.matrix import load

    wanted = read(path)
    matrix = load()
    if asked.elsewhere and not lint:
        raise UsageError("a described machine has nothing installed: --lint judges the file for it")
    if lint or wanted.format == "dockerfile":
        facts = asked.facts(matrix)
        comparison: Comparison | None = None
    else:
        installed, facts = asked.installed()
        comparison = compare(wanted, installed, facts, matrix)
    findings = lint_file(wanted, facts, matrix)
    bad = any(f.severity == "error" for f in findings)
    bad = bad or (comparison is not None and not comparison.same(strict=strict))
    if json:
        from envcheck.render.comparison import comparison_json

        write_json(comparison_json(wanted, comparison, findings, same=not bad))
    else:
        from rich.console import Console

        from envcheck.render.comparison import show_comparison

        color = wants_color(no_color)
        console = Console(no_color=not color, highlight=False, color_system="auto" if color else None)
        show_comparison(wanted, comparison, findings, console, bad=bad, strict=strict, quiet=quiet)
    return 1 if bad else 0
