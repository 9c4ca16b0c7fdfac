"""What the doctor costs, as ratios measured in one interleaved run: medians, so that a noisy machine matters less.

    python benchmarks/doctor_speed.py --python .venv/bin/python [--rounds 7]

Targets: doctor (smoke tests' own time taken off, the import of torchvision being one of them) <= 1.3 x `import torch`; `doctor --quick` <= 0.6 s;
`--version` <= 1.3 x `import typer`.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time

from envcheck.process import run


def timed(argv: list[str]) -> tuple[float, str]:
    begun = time.perf_counter()
    done = run(argv, timeout=600)
    return time.perf_counter() - begun, done.stdout


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable, help="the interpreter under test, with torch")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    ours = [sys.executable, "-m", "envcheck"]
    times: dict[str, list[float]] = {}
    for _ in range(options.rounds):
        for name, argv in (
            ("import torch", [options.python, "-c", "import torch"]),
            ("import torch, torchvision", [options.python, "-c", "import torch, torchvision"]),
            ("doctor", [*ours, "doctor", "--json", "--python", options.python]),
            ("doctor --no-smoke", [*ours, "doctor", "--json", "--no-smoke", "--python", options.python]),
            ("doctor --quick", [*ours, "doctor", "--json", "--quick", "--python", options.python]),
            ("import typer", [sys.executable, "-c", "import typer"]),
            ("--version", [*ours, "--version"]),
        ):
            seconds, text = timed(argv)
            times.setdefault(name, []).append(seconds)
            if name == "doctor":
                smoke = sum(check.get("seconds") or 0.0 for check in json.loads(text)["checks"])
                times.setdefault("smoke tests' own time", []).append(smoke)
                times.setdefault("doctor less smoke", []).append(seconds - smoke)
    median = {name: statistics.median(values) for name, values in times.items()}
    for name, value in median.items():
        print(f"{name:24} {value:7.3f} s   (min {min(times[name]):.3f}, max {max(times[name]):.3f})")
    checks = (
        ("doctor less smoke / import torch", median["doctor less smoke"] / median["import torch"], 1.3),
        ("doctor --no-smoke / both imports", median["doctor --no-smoke"] / median["import torch, torchvision"], 1.3),
        ("doctor --quick, seconds", median["doctor --quick"], 0.6),
        ("--version / import typer", median["--version"] / median["import typer"], 1.3),
    )
    for name, value, limit in checks:
        print(f"{name:34} {value:6.2f}   limit {limit}   {'met' if value <= limit else 'NOT MET'}")
    return 0 if all(value <= limit for _, value, limit in checks) else 1


if __name__ == "__main__":
    raise SystemExit(main())
