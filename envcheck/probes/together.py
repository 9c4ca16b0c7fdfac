"""Several programs at once, all until the same moment."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from envcheck.probes.host import Host
from envcheck.process import Completed


def together(host: Host, commands: Sequence[Sequence[str]], *, deadline: float | None = None) -> list[Completed]:
    """Runs the commands at the same time and returns how each ended, in their order.

    deadline: the moment (of the monotonic clock) until which all of them have to end; default: `host.timeout` from now.
    """
    until = time.monotonic() + host.timeout if deadline is None else deadline
    results: list[Completed | None] = [None] * len(commands)

    def work(position: int, command: Sequence[str]) -> None:
        results[position] = host.run(list(command), timeout=max(0.1, until - time.monotonic()))

    threads = [threading.Thread(target=work, args=item, daemon=True) for item in enumerate(commands)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [
        result or Completed(tuple(command), "failed", reason="internal error")
        for result, command in zip(results, commands, strict=True)
    ]
