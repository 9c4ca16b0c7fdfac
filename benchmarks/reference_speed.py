"""The training of train_cifar10.py against the plain DataLoader loop, and what bounds it, in interleaved rounds of one run.

    python benchmarks/reference_speed.py [ROUNDS] [--workers N] [--device D]     (in a Python that has torch)

What `envcheck reference` measures in a few rounds (envcheck/payloads/reference_rates.py says what each way is), here in
more of them: medians, lowest and highest.
"""

import argparse
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "envcheck", "payloads"))
import reference_checks
import reference_rates


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("rounds", type=int, nargs="?", default=15)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--device", default="auto")
    asked = parser.parse_args()
    words = ["rates", "--device", asked.device, "--rounds", str(asked.rounds), "--workers", str(asked.workers)]
    told = reference_rates.rates(reference_checks.Run(reference_checks.parse(words)))
    if "failed" in told:
        sys.exit(told["failed"])
    for name, way in told["ways"].items():
        row = "%-15s %10.4g %-9s (%.4g to %.4g, %d rounds of %d)"
        print(row % (name, way["median"], way["unit"], way["low"], way["high"], way["samples"], way["steps"]))
    for name, why in told["lacking"].items():
        print("%-15s not measured: %s" % (name, why))
    if "ratio" in told:
        print("ratio           %10.2f memory / plain (%.2f to %.2f)" % tuple(told["ratio"][k] for k in ("median", "low", "high")))
    rest = ("transforms", "threads", "cores", "load", "cpu_share", "host_share", "sustained", "variables")
    print("; ".join("%s %s" % (key, told[key]) for key in rest if told.get(key) not in (None, {})))


if __name__ == "__main__":
    main()
