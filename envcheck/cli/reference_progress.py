"""What a reference run is doing, on stderr while it runs: the stage, and of a training epoch, loss, accuracy, rate and time left."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.progress import Progress

WORDS = {
    "machine": "looking at torch and its settings",
    "inputs": "data, order and first weights by hash",
    "shadow": "gradients against float64",
    "logic": "50 steps in float64 against the recorded ones",
    "smooth": "50 steps in float32 against the recorded ones",
    "rates": "images a second",
    "data": "reading the data",
}


class Live:
    """Called with the name of a stage and, when there is one, its answer.

    On a terminal one line that changes, with a bar while there is something to count; elsewhere (a log file) one line
    an epoch and nothing more.
    """

    def __init__(self, *, enabled: bool) -> None:
        self.enabled = enabled
        self.total = 0
        self.begun = time.monotonic()
        self.first_step = 0
        self.bar: Progress | None = None
        if enabled and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

            self.bar = Progress(
                SpinnerColumn(),
                TextColumn("{task.description}", markup=False),
                BarColumn(bar_width=30),
                TextColumn("{task.fields[note]}", markup=False),
                console=Console(stderr=True),
                transient=True,
            )
            self.task = self.bar.add_task("starting", total=None, note="")
            self.bar.start()

    def __call__(self, name: str, answer: dict[str, Any] | None) -> None:
        """Shows it."""
        text = self.line(name, answer)
        done = self.done(name, answer)
        if self.bar is None:
            if self.enabled and name == "epoch" and answer is not None:
                print(text, file=sys.stderr, flush=True)
            return
        if name == "epoch" and answer is not None:
            self.bar.console.print(text, markup=False, highlight=False)
            text = ""
        if text:
            self.bar.update(self.task, description=text, note="" if done is None else self.left(*done))
        if done is not None:
            self.bar.update(self.task, completed=done[0], total=done[1])
        elif text:
            self.bar.update(self.task, completed=0, total=None)

    def done(self, name: str, answer: dict[str, Any] | None) -> tuple[int, int] | None:
        """(done, of how many), in steps or bytes, where that is known."""
        if answer is None:
            return None
        if name == "download":
            return int(answer["bytes"]), max(int(answer["bytes"]), ARCHIVE_BYTES)
        if name in ("start", "progress", "epoch") and self.total:
            return int(answer["step"]), self.total
        return None

    def line(self, name: str, answer: dict[str, Any] | None) -> str:
        """The words for one event, "" for one that changes nothing."""
        if answer is None:
            return WORDS.get(name, name)
        if name == "start":
            self.total, self.first_step, self.begun = int(answer["total"]), int(answer["step"]), time.monotonic()
            return "training"
        if name == "download":
            return f"downloading CIFAR-10: {int(answer['bytes']) / 1e6:.0f} of {ARCHIVE_BYTES / 1e6:.0f} MB"
        if name == "step":
            return f"repeat, {answer['mode']}: step {answer['step']}, loss {float.fromhex(answer['loss']):.4f}"
        if name == "progress":
            return f"epoch {answer['epoch']}, step {answer['step']} of {self.total}"
        if name == "epoch":
            return (
                f"epoch {answer['epoch']}: loss {answer['train_loss']:.4f}, accuracy {answer['train_accuracy']:.4f}, "
                f"test accuracy {answer['test_accuracy']:.4f}, {answer['images_per_second']:.0f} images/s, "
                f"{self.left(int(answer['step']), self.total)}"
            )
        return ""

    def left(self, done: int, total: int) -> str:
        """The time that the rest will take, from the rate so far."""
        made = done - self.first_step
        if made <= 0:
            return ""
        minutes = (total - done) * (time.monotonic() - self.begun) / made / 60
        return f"{minutes:.1f} min left"

    def close(self) -> None:
        """Ends the display."""
        if self.bar is not None:
            self.bar.stop()
            self.bar = None


ARCHIVE_BYTES = 170_498_071
"""Size of cifar-10-python.tar.gz as published."""
