"""What a reference run is doing, on stderr while it runs: the stage, or epoch, loss, accuracy, rate and time left."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.status import Status


class Live:
    """Called with the name of a stage and, when there is one, its answer."""

    def __init__(self, *, enabled: bool) -> None:
        self.total = 0
        self.begun = time.monotonic()
        self.first_step = 0
        self.status: Status | None = None
        if enabled:
            from rich.console import Console

            self.status = Console(stderr=True).status("starting")
            self.status.start()

    def __call__(self, name: str, answer: dict[str, Any] | None) -> None:
        """Shows it."""
        text = self.line(name, answer)
        if self.status is not None and text:
            from rich.markup import escape

            self.status.update(escape(text))

    def line(self, name: str, answer: dict[str, Any] | None) -> str:
        """The words for one event, "" for one that changes nothing."""
        if answer is None:
            return name
        if name == "start":
            self.total, self.first_step, self.begun = int(answer["total"]), int(answer["step"]), time.monotonic()
            return "training on CIFAR-10"
        if name == "step":
            return f"repeat, {answer['mode']}: step {answer['step']}, loss {float.fromhex(answer['loss']):.4f}"
        if name == "epoch":
            made = int(answer["step"]) - self.first_step
            left = (self.total - int(answer["step"])) * (time.monotonic() - self.begun) / max(made, 1)
            return (
                f"epoch {answer['epoch']}: loss {answer['train_loss']:.4f}, test accuracy {answer['test_accuracy']:.4f}, "
                f"{answer['images_per_second']:.0f} images/s, {left / 60:.1f} min left"
            )
        return ""

    def close(self) -> None:
        """Ends the display."""
        if self.status is not None:
            self.status.stop()
            self.status = None
