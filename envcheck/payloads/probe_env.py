"""Asks the Python that runs this file about itself, its packages and its torch; one line of JSON for each stage.

Run as a file by the interpreter under test, whatever it is (CPython 3.6 or newer, PyPy), in the user's own
environment. Standard library only until the stage that imports torch. Each stage is announced on both streams by

    @envcheck@ {"begin": "import-torch"}

and answered on standard output by

    @envcheck@ {"stage": "import-torch", "result": "ok", "seconds": 1.7, ...}

flushed at once, so that a crash or a hang loses nothing of what came before and shows where it happened. Known
trouble is an answer too: {"result": "error", "kind": ..., "error_type": ..., "error": ...}. The last line is
{"stage": "done"}. All other lines, on either stream, are noise of the user's environment and kept apart.

    probe_env.py [--quick] [--companions] [--skip STAGE,STAGE] [--limit [STAGE=]SECONDS] [--then FILE [ARGUMENT...]]

--quick: stop before torch is imported. --companions: import torchvision, torchaudio and triton as well.
--limit: shortly before a stage has taken that long, the stacks of all threads are written to standard error.
--then: afterwards run another payload in this process, as `__main__`, with torch already imported.

What the stages do is in `probe_parts/`, one module a subject; they are imported from there by their own names.
"""

import os
import sys
import time

MARK = "@envcheck@ "
DEFAULT_LIMIT = 60.0

QUICK_STAGES = ("interpreter", "environment", "torch-files", "distributions", "installed-files")
TORCH_STAGES = ("import-torch", "torch-build", "cuda-init", "other-devices", "numpy-bridge", "libraries")
COMPANIONS = ("torchvision", "torchaudio", "triton")


class Reporter:
    """Writes marker lines past whatever the environment has done to sys.stdout."""

    def __init__(self, limits: "dict[str, float]") -> None:
        # A copy of the descriptor: code that closes or redirects standard output cannot silence the answers.
        self.descriptor = os.dup(1)
        self.limits = limits

    def begin(self, stage: str) -> None:
        """Announces a stage, on standard error too, so that what it prints there can be told apart."""
        line = MARK + to_json({"begin": stage}) + "\n"
        _write(self.descriptor, "\n" + line)
        try:
            _write(2, "\n" + line)
        except OSError:
            pass
        self.watch(stage)

    def answer(self, stage: str, **values: object) -> None:
        """Writes the answer of a stage as one line (an empty line ahead ends any unfinished line of others)."""
        document = {"stage": stage}  # type: dict
        document.update(values)
        _write(self.descriptor, "\n" + MARK + to_json(document) + "\n")

    def watch(self, stage: "str | None") -> None:
        """Has the stacks written shortly before the stage's limit; None: no longer."""
        try:
            import faulthandler

            if stage is None:
                faulthandler.cancel_dump_traceback_later()
                return
            limit = self.limits.get(stage, self.limits.get("", DEFAULT_LIMIT))
            faulthandler.dump_traceback_later(max(limit * 0.9, 0.1), file=2)
        except Exception:
            pass  # not every implementation has it; the answer then lacks the place, nothing else


def _write(descriptor: int, text: str) -> None:
    data = text.encode("ascii")
    while data:
        data = data[os.write(descriptor, data) :]


def to_json(value: object) -> str:
    """JSON in pure ASCII. Written here because a user's file called json.py must not silence this script."""
    if value is None:
        return "null"
    if value is True:
        return "true"
    if value is False:
        return "false"
    if isinstance(value, int):
        return int.__repr__(value)
    if isinstance(value, float):
        return float.__repr__(value) if value - value == 0 else "null"
    if isinstance(value, dict):
        return "{" + ", ".join(_quoted(str(k)) + ": " + to_json(v) for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple, set, frozenset)):
        return "[" + ", ".join(to_json(v) for v in value) + "]"
    return _quoted(value if isinstance(value, str) else str(value))


def _quoted(text: str) -> str:
    try:
        from _json import encode_basestring_ascii
    except ImportError:
        return _quoted_by_hand(text)
    return encode_basestring_ascii(text)


def _quoted_by_hand(text: str) -> str:
    parts = []
    for character in text:
        code = ord(character)
        if character in '"\\':
            parts.append("\\" + character)
        elif 32 <= code < 127:
            parts.append(character)
        elif code < 0x10000:
            parts.append(f"\\u{code:04x}")
        else:
            code -= 0x10000
            parts.append(f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}")
    return '"' + "".join(parts) + '"'


class Options:
    """The command line, read by hand: argparse costs more than most stages."""

    def __init__(self, arguments: "list[str]") -> None:
        self.quick = False
        self.companions = False
        self.skip = set()  # type: set
        self.limits = {}  # type: dict
        self.then = []  # type: list
        rest = list(arguments)
        while rest:
            word = rest.pop(0)
            if word == "--quick":
                self.quick = True
            elif word == "--companions":
                self.companions = True
            elif word == "--skip" and rest:
                self.skip.update(rest.pop(0).split(","))
            elif word == "--limit" and rest:
                stage, _, seconds = rest.pop(0).rpartition("=")
                self.limits[stage] = float(seconds)
            elif word == "--then" and rest:
                self.then, rest = rest, []
            else:
                raise SystemExit(f"probe_env.py: cannot use the argument {word!r}")


class Probe:
    """Runs the stages in their order and answers for each, whatever happens in it."""

    def __init__(self, options: Options, here: str, loaded: "frozenset[str]") -> None:
        self.options = options
        self.here = here
        self.loaded = loaded
        self.reporter = Reporter(options.limits)

    def stage(self, name: str, part: str, *arguments: object) -> "dict":
        """Runs `probe_parts/<part>.py`'s function for the stage; an exception of ours is an answer of kind "internal"."""
        if name in self.options.skip:
            return {}
        self.reporter.begin(name)
        begun = time.time()
        values = {"result": "ok"}  # type: dict
        try:
            function = getattr(self._module(part), name.partition(":")[0].replace("-", "_"))
            values.update(function(*arguments))
        except BaseException as error:
            values = {"result": "error", "kind": "internal", "error_type": type(error).__name__, "error": str(error)[:2000]}
            values["traceback"] = _traceback()
        values.setdefault("seconds", round(time.time() - begun, 4))
        self.reporter.answer(name, **values)
        return values

    def _module(self, part: str) -> "object":
        """Imports a sibling by its own name, with the directory on sys.path for that moment only."""
        if part not in sys.modules:
            directory = os.path.join(self.here, "probe_parts")
            sys.path.insert(0, directory)
            try:
                __import__(part)
            finally:
                sys.path.remove(directory)
        return sys.modules[part]

    def run(self) -> int:
        """All stages that were asked for; returns the exit code."""
        self.stage("interpreter", "probe_interpreter")
        self.stage("environment", "probe_interpreter")
        self.stage("torch-files", "probe_torch_files", self.loaded)
        self.stage("distributions", "probe_packages")
        quick = self.options.quick
        self.stage("installed-files", "probe_records", 0.25 if quick else 2.0, quick)
        code = 0
        if not self.options.quick:
            code = self._with_torch()
        self.reporter.answer("done")
        return code

    def _with_torch(self) -> int:
        # A child that resumes after a crash skips stages that were answered; torch has to be imported all the same.
        skipped = "import-torch" in self.options.skip
        self.options.skip.discard("import-torch")
        state = self.stage("import-torch", "probe_torch_live")
        if state.get("result") == "ok":
            for name in TORCH_STAGES[1:]:
                self.stage(name, "probe_libraries" if name == "libraries" else "probe_torch_live")
            if self.options.companions:
                for name in COMPANIONS:
                    self.stage("companion:" + name, "probe_torch_live", name)
        elif skipped:
            return 1
        if not self.options.then:
            return 0
        if state.get("result") != "ok":
            self.reporter.answer("then", result="skipped", reason="torch does not import")
            return 0
        self.reporter.begin("then")
        self.reporter.watch(None)  # the payload looks after its own time
        code = run_file(self.options.then)
        self.reporter.answer("then", result="ok", exit_code=code)
        return code


def run_file(command: "list[str]") -> int:
    """Runs another script in this process as if it were the main program; returns its exit code."""
    path = os.path.abspath(command[0])
    # Code that starts processes by "spawn" looks up the main module's file: it has to be the script's.
    module = type(sys)("__main__")
    module.__file__ = path
    module.__builtins__ = __builtins__  # type: ignore[attr-defined]
    sys.modules["__main__"] = module
    sys.argv = [path] + command[1:]
    with open(path, "rb") as file:
        source = file.read()
    try:
        exec(compile(source, path, "exec"), module.__dict__)
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        _write(2, ascii(end.code) + "\n")
        return 1
    except BaseException:
        _write(2, ascii(_traceback()).replace("\\n", "\n") + "\n")
        return 1
    return 0


def _traceback() -> str:
    try:
        import traceback

        return traceback.format_exc()[-4000:]
    except Exception:
        return ""


def main(arguments: "list[str]") -> int:
    """Entry point; returns the exit code."""
    loaded = frozenset(sys.modules)
    here = os.path.dirname(os.path.realpath(__file__))
    # `python FILE` puts the directory of this file in front, which no command of the user's does.
    if sys.path and os.path.realpath(sys.path[0]) == here:
        del sys.path[0]
    try:
        import faulthandler

        faulthandler.enable(file=2)
    except Exception:
        pass
    return Probe(Options(arguments), here, loaded).run()


if __name__ == "__main__":
    _code = main(sys.argv[1:])
    for _stream in (sys.stdout, sys.stderr):
        try:
            _stream.flush()
        except Exception:
            pass
    # Without the interpreter's tear-down: all answers are out, and torch takes its time to say good-bye.
    os._exit(_code & 0xFF)
