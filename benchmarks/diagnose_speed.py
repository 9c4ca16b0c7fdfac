"""Times `envcheck diagnose` on a long training log with one error at its end: the text is generated, nothing is read.

    python benchmarks/diagnose_speed.py [--megabytes 10] [--rounds 3]

Prints seconds of processor time for the reading alone and for the whole answer. The promise is ten megabytes in under
three seconds.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from envcheck.captured import read  # noqa: E402
from envcheck.cli.diagnose import examine  # noqa: E402

ERROR = (
    '\nTraceback (most recent call last):\n  File "train.py", line 9, in <module>\n'
    "RuntimeError: mat1 and mat2 shapes cannot be multiplied (1x2 and 6x64)\n"
)


def training_log(size: int) -> str:
    """Lines as trainers print them, no two alike."""
    source = random.Random(5)
    made, lines, step = 0, [], 0
    while made < size:
        lines.append(
            source.choice((
                f"2024-03-01 12:{step % 60:02}:{step % 60:02} INFO train: step {step} loss {source.random():.4f}",
                f"[rank0]: [{step}/1000000] time {source.random():.3f} loss: {source.random():.4f} acc: {source.random():.2f}",
                f"Epoch: [{step // 5000}][{step % 5000}/5000]\tTime {source.random():.3f}\tLoss {source.random():.4f}",
                f"GPU 0: util {source.randint(0, 99)}% mem {source.randint(0, 24000)} / 24576 MiB",
            ))
        )
        made += len(lines[-1]) + 1
        step += 1
    return "\n".join(lines)


def main() -> int:
    """Prints the times; 0 when the promise is kept."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--megabytes", type=float, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    text = training_log(int(options.megabytes * 1_000_000)) + ERROR
    examine([("warm.txt", "PyTorch version: 2.8.0")])
    reading, whole = [], []
    for _ in range(options.rounds):
        start = time.process_time()
        read([("train.log", text)])
        reading.append(time.process_time() - start)
        start = time.process_time()
        report = examine([("train.log", text)])
        whole.append(time.process_time() - start)
    primary = report.primary
    print(f"{len(text) / 1e6:.1f} MB, {text.count(chr(10)):,} lines; found: {primary.rule if primary else 'nothing'}, line {primary.line if primary else '-'}")
    print(f"reading {min(reading):.2f} s, whole answer {min(whole):.2f} s (processor time, best of {options.rounds})")
    return 0 if min(whole) < 3 * options.megabytes / 10 else 1


if __name__ == "__main__":
    sys.exit(main())
