"""Time of the smoke tests after the import of torch, against their budgets: level 0 in 3 s, level 1 in 10 s on two cores.

python benchmarks/smoke_time.py [PYTHON] [RUNS]
"""

from __future__ import annotations

import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from envcheck.smoke import run_smoke

BUDGETS = {0: 3.0, 1: 10.0}


def main(python: str = sys.executable, runs: str = "3") -> int:
    late = False
    for level, budget in BUDGETS.items():
        totals, slowest = [], ("", 0.0)
        for _ in range(int(runs)):
            checks = run_smoke(python, level=level, devices=("cpu",))
            bad = [c for c in checks if c.status not in ("passed", "skipped")]
            if bad:
                print(f"level {level}: {bad[0].name} {bad[0].status}: {bad[0].detail}")
                return 1
            totals.append(sum(c.seconds or 0.0 for c in checks))
            slowest = max(slowest, *((c.name, c.seconds or 0.0) for c in checks), key=lambda pair: pair[1])
        median = statistics.median(totals)
        late |= median > budget
        print(
            f"level {level}: {median:.2f} s (median of {runs}), budget {budget:.0f} s, slowest {slowest[0]} {slowest[1]:.2f} s"
        )
    return int(late)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
