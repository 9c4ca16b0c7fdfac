"""Records the golden values of `envcheck reference`: matrices/reference/golden.json.

    python benchmarks/reference_record.py base PYTHON          hashes, float64 trajectories (minutes)
    python benchmarks/reference_record.py envelope PYTHON... [VARIANT...]   honest variants against them; tolerances
    python benchmarks/reference_record.py curves FILE...       curves of full runs on CIFAR-10, one file a seed

Tolerances are five times the largest difference that an honest variant showed, never below the floor that the rounding
of the arithmetic asks for; they are written by this script and not by hand.
"""

from __future__ import annotations

import datetime
import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import os

from envcheck.target import run_payload

GOLDEN = ROOT / "matrices" / "reference" / "golden.json"
PAYLOAD = ROOT / "envcheck" / "payloads" / "reference_checks.py"
FLOORS = {
    "logic": {"loss": 1e-11, "norm": 1e-11, "weights": 1e-11, "statistics": 1e-11, "eval": 1e-11},
    "smooth": {"loss": 1e-5, "norm": 1e-4, "weights": 1e-5, "statistics": 1e-5, "eval": 1e-4},
}
VARIANTS = {
    "as it is": ({}, []),
    "one thread": ({}, ["--threads", "1"]),
    "oneDNN AVX2": ({"ONEDNN_MAX_CPU_ISA": "AVX2"}, []),
    "ATen default": ({"ATEN_CPU_CAPABILITY": "default"}, []),
    "no oneDNN": ({}, ["--without-onednn"]),
    "channels last": ({}, ["--training=--channels-last"]),
    "torch.compile": ({}, ["--training=--compile"]),
    "portable caps": ({"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_CBWR": "COMPATIBLE"}, []),
}


def answers(python: str, *tasks: str, env: dict[str, str] | None = None) -> dict[str, dict]:
    done = run_payload(python, PAYLOAD, tasks, timeout=1800, limit=900, env={**os.environ, **(env or {})})
    told = {s["stage"]: s for s in done.stages}
    for name, stage in told.items():
        if "error" in stage:
            sys.exit(f"{name}: {stage['error']}\n" + "\n".join(stage["traceback"]))
    return told


def base(python: str) -> None:
    told = answers(python, "machine", "inputs", "logic", "smooth:float64")
    machine = told["machine"]
    golden = {
        "recorded": datetime.date.today().isoformat(),
        "by": "benchmarks/reference_record.py",
        "provenance": [
            {k: machine[k] for k in ("torch", "python", "platform", "device", "device_name", "cpu_capability")}
        ],
        "inputs": told["inputs"]["hashes"],
        "logic": {k: told["logic"][k] for k in ("steps", "eval")},
        "smooth": {k: told["smooth:float64"][k] for k in ("steps", "eval")},
        "envelope": {},
        "tolerances": FLOORS,
    }
    write(golden)


def write(golden: dict) -> None:
    """One step a line, so that a change can be read as a diff."""
    text = json.dumps(golden, indent=1)
    for name in ("logic", "smooth"):
        for step in golden[name]["steps"]:
            text = text.replace(json.dumps(step, indent=1).replace("\n", "\n   "), json.dumps(step))
    GOLDEN.parent.mkdir(parents=True, exist_ok=True)
    GOLDEN.write_text(text + "\n")


def envelope(pythons: list[str], only: list[str]) -> None:
    """Adds to what was seen before, so that machines and torch releases can be recorded one after the other."""
    golden = json.loads(GOLDEN.read_text())
    found: dict[str, dict] = golden["envelope"]
    for python in pythons:
        for name in only or VARIANTS:
            env, options = VARIANTS[name]
            told = answers(python, "machine", "inputs", "logic", "smooth", "--golden", str(GOLDEN), *options, env=env)
            key = f"{name}, torch {told['machine']['torch']}, {told['machine']['device']} {told['machine']['cpu_capability']}"
            found[key] = {task: told[task].get("worst") for task in ("logic", "smooth")}
            found[key]["inputs equal"] = told["inputs"]["hashes"] == golden["inputs"]
            found[key]["accuracy"] = told["smooth"]["eval"]["accuracy"]
            shadows = told["smooth"]["shadows"]
            found[key]["shadow"] = {k: max(s["errors"][k] for s in shadows) for k in shadows[0]["errors"]}
            print(key, json.dumps(found[key]), flush=True)
            golden["tolerances"] = {
                task: {
                    k: max(floor, 5 * max(v[task][k] for v in found.values() if v[task]))
                    for k, floor in FLOORS[task].items()
                }
                for task in FLOORS
            }
            write(golden)


def curves(files: list[str]) -> None:
    """Curves of full runs: each file a list of {"epoch", "train_loss", "train_acc", "test_loss", "test_acc"}, one a seed."""
    seeds = []
    for file in files:
        rows = [
            {
                "epoch": r["epoch"],
                "train_loss": r["train_loss"],
                "train_accuracy": r["train_acc"],
                "test_loss": r["test_loss"],
                "test_accuracy": r["test_acc"],
            }
            for r in json.loads(Path(file).read_text())
        ]
        seeds.append({"seed": int("".join(c for c in Path(file).stem if c.isdigit())), "epochs": rows})
    text = json.dumps({"recorded": datetime.date.today().isoformat(), "recipe": RECIPE, "seeds": seeds}, indent=1)
    for seed in seeds:
        for row in seed["epochs"]:
            text = text.replace(json.dumps(row, indent=1).replace("\n", "\n    "), json.dumps(row))
    (GOLDEN.parent / "curves.json").write_text(text + "\n")


RECIPE = (
    "SimpleCNN, SGD 0.1 constant, momentum 0.9, weight decay 5e-4, batch 128, crop and flip, 20 epochs; CPU, float32"
)


if __name__ == "__main__":
    if sys.argv[1:2] == ["base"]:
        base(sys.argv[2])
    elif sys.argv[1:2] == ["envelope"] and len(sys.argv) > 2:
        given = sys.argv[2:]
        envelope([w for w in given if w not in VARIANTS], [w for w in given if w in VARIANTS])
    elif sys.argv[1:2] == ["curves"] and len(sys.argv) > 2:
        curves(sys.argv[2:])
    else:
        sys.exit(__doc__)
