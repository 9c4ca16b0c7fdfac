"""What the program waits for, on stderr, only on a terminal and only when it takes long."""

from __future__ import annotations

import sys
import time


class Progress:
    """Called with the name of what runs now; shows it once it has taken longer than `patience` seconds."""

    def __init__(self, *, enabled: bool = True, patience: float = 1.0) -> None:
        self.enabled = enabled and sys.stderr.isatty()
        self.patience = patience
        self.begun = time.monotonic()
        self.width = 0

    def __call__(self, what: str) -> None:
        """Shows what runs now."""
        if not self.enabled or time.monotonic() - self.begun < self.patience:
            return
        text = f"envcheck: {what} ({time.monotonic() - self.begun:.0f} s)"[:79]
        sys.stderr.write("\r" + text.ljust(self.width))
        sys.stderr.flush()
        self.width = len(text)

    def close(self) -> None:
        """Wipes the line."""
        if self.width:
            sys.stderr.write("\r" + " " * self.width + "\r")
            sys.stderr.flush()
            self.width = 0
