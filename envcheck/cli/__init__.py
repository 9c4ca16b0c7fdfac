"""The command line: each command is a module beside this one, loaded only when it is asked for."""

from __future__ import annotations

import importlib
import os
import sys
from typing import TYPE_CHECKING

from envcheck import __version__

if TYPE_CHECKING:
    import typer

# name -> (module, attribute, one line). The attribute is a typer command function, or a typer.Typer with commands.
COMMANDS: dict[str, tuple[str, str, str]] = {
    "doctor": (
        "envcheck.cli.doctor",
        "doctor",
        "Check this machine and one Python environment; name causes and fixes.",
    ),
    "recommend": ("envcheck.cli.recommend", "recommend", "The exact install command for this machine, and why."),
    "smoke": ("envcheck.cli.smoke", "smoke", "Run the tensor and kernel tests alone."),
    "export": (
        "envcheck.cli.export",
        "export",
        "Files that rebuild the environment; with --check, whether one is met.",
    ),
    "diff": (
        "envcheck.cli.diff",
        "diff",
        "What differs between two machines, and which difference explains a fault.",
    ),
    "reference": (
        "envcheck.cli.reference",
        "reference",
        "A seeded training that proves this installation: the same bits, the right numbers.",
    ),
    "diagnose": ("envcheck.cli.diagnose", "diagnose", "Judge what somebody pasted into a bug report."),
    "explain": ("envcheck.cli.explain", "explain", "What a rule means, how to confirm it, how to mend it."),
    "facts": ("envcheck.cli.facts", "facts", "A snapshot of everything that is known about this machine."),
    "matrix": ("envcheck.cli.matrix", "app", "Show and query the compatibility tables."),
}


REQUIRED = ("typer", "rich", "msgspec", "packaging", "psutil", "jinja2")
"""What the distribution depends on: missing only where envcheck was copied or installed with --no-deps."""


def main(argv: list[str] | None = None) -> None:
    """Entry point of the `envcheck` command; ends the process with the exit code of the contract."""
    args = sys.argv[1:] if argv is None else argv
    if args in (["--version"], ["-V"]):
        print(f"envcheck {__version__}")
        return
    _tolerant_streams()
    from envcheck.errors import EnvcheckError

    try:
        _app(args)(args=args, prog_name="envcheck")
    except EnvcheckError as error:
        print(f"envcheck: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] in REQUIRED:
            print(
                f"envcheck: its own dependency '{error.name}' is missing in {sys.executable}; "
                f"mend it with: {sys.executable} -m pip install torch-envcheck",
                file=sys.stderr,
            )
        else:
            _crash(error, args)
        sys.exit(3)
    except BrokenPipeError:
        # The reader (head, less) went away: not our failure. Keep the interpreter from complaining at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except Exception as error:
        _crash(error, args)
        sys.exit(3)


def _tolerant_streams() -> None:
    """A terminal that cannot show a character gets an escape, never a traceback."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def _app(args: list[str]) -> typer.Typer:
    import typer

    app = typer.Typer(
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
        help="envcheck says what is wrong with a PyTorch installation, and how to mend it.",
    )

    @app.callback()
    def _top(version: bool = typer.Option(False, "--version", "-V", help="Show the version and exit.")) -> None:
        if version:
            print(f"envcheck {__version__}")
            raise typer.Exit

    wanted = next((a for a in args if not a.startswith("-")), None)
    # Only the command that was asked for is imported: the others would cost every start their import time.
    for name in (wanted,) if wanted in COMMANDS else tuple(COMMANDS):
        module, attribute, line = COMMANDS[name]
        command = getattr(importlib.import_module(module), attribute)
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name, help=line, short_help=line)
        else:
            app.command(name, short_help=line)(command)
    return app


def _crash(error: Exception, args: list[str]) -> None:
    """What a surprise leaves behind: a block that can be pasted into a bug report, redacted."""
    import platform
    import traceback

    from envcheck.redact import redact

    block = "".join(traceback.format_exception(error))
    print(
        "envcheck itself failed; this is a bug of envcheck. Please report this block:\n\n"
        f"envcheck {__version__}, Python {platform.python_version()}, {platform.system()} {platform.machine()}\n"
        + redact(f"arguments: {' '.join(args)}\n{block}"),
        file=sys.stderr,
    )
