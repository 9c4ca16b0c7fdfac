"""Records the golden values of `envcheck reference`: matrices/reference/golden.json.

    python benchmarks/reference_record.py base PYTHON          hashes, float64 trajectories (minutes)
    python benchmarks/reference_record.py envelope PYTHON... [VARIANT...]   honest variants against them; tolerances
    python benchmarks/reference_record.py bits PYTHON...       the bits of the repeated run, as it is and held to AVX2
    python benchmarks/reference_record.py curves FILE...       accuracy by epoch of whole trainings, one file a seed:
                                                what `reference --record` or `train_cifar10.py --report` wrote

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

from envcheck.reference.bands import bands
from envcheck.reference.bits import BITS_STEP, conditions, weights_after
from envcheck.reference.measure import PORTABLE_CAPS
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


def answers(
    python: str, *tasks: str, env: dict[str, str] | None = None, steps: list[dict] | None = None
) -> dict[str, dict]:
    done = run_payload(python, PAYLOAD, tasks, timeout=1800, limit=900, env={**os.environ, **(env or {})})
    told = {s["stage"]: s for s in done.stages}
    if steps is not None:
        steps += [s for s in done.stages if s["stage"] == "step"]
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


def bits(pythons: list[str]) -> None:
    """Adds to what was seen before; a record with the same conditions and place is replaced."""
    golden = json.loads(GOLDEN.read_text())
    records = {json.dumps([r["conditions"], r["on"]]): r for r in golden.get("bits", [])}
    for python in pythons:
        for mode, env, words in (("native", {}, []), ("portable", PORTABLE_CAPS, ["--threads", "1"])):
            steps: list[dict] = []
            told = answers(python, "machine", "repeat:strict", "--steps", str(BITS_STEP), *words, env=env, steps=steps)
            machine = told["machine"]
            record = {
                "conditions": conditions(machine, mode),
                "on": machine["device_name"],
                "torch": machine["torch"],
                "weights": weights_after(steps),
                "recorded": datetime.date.today().isoformat(),
            }
            records[json.dumps([record["conditions"], record["on"]])] = record
            print(json.dumps(record))
    golden["bits"] = list(records.values())
    write(golden)


def events(file: str) -> tuple[list[dict], dict]:
    """(training events, machine) of a report or of a log."""
    text = Path(file).read_text()
    if text.startswith("{"):
        reference = json.loads(text)["reference"]
        return reference["training"], reference["machine"]
    marked = (line.partition("@envcheck@ ")[2] for line in text.splitlines())
    told = [json.loads(line) for line in marked if line.startswith("{")]
    return told, next((e for e in told if e.get("stage") == "machine"), {})


def curves(files: list[str]) -> None:
    """Adds whole trainings to the recorded ones; the same data and seed is replaced."""
    path = GOLDEN.parent / "curves.json"
    runs = json.loads(path.read_text())["runs"] if path.is_file() else []
    for file in files:
        told, machine = events(file)
        start = next(e for e in told if e["stage"] == "start")
        keys = ("epoch", "train_loss", "train_accuracy", "test_loss", "test_accuracy")
        epochs = {e["epoch"]: {k: e[k] for k in keys} for e in told if e["stage"] == "epoch"}  # a resumed one once
        run = {
            "data": next(e["source"] for e in told if e["stage"] == "data"),
            "seed": start["seed"] if "seed" in start else int("".join(c for c in Path(file).stem if c.isdigit())),
            "torch": start.get("torch") or machine.get("torch"),
            "device": start["device"],
            "recorded": datetime.date.today().isoformat(),
            "epochs": [epochs[n] for n in sorted(epochs)],
        }
        if sorted(epochs) != list(range(1, len(epochs) + 1)):
            sys.exit(f"{file}: not all epochs from the first on")
        runs = [r for r in runs if (r["data"], r["seed"]) != (run["data"], run["seed"])] + [run]
    runs.sort(key=lambda r: (r["data"], r["seed"]))
    text = json.dumps({"recipe": RECIPE, "runs": runs}, indent=1)
    for run in runs:
        for row in run["epochs"]:
            text = text.replace(json.dumps(row, indent=1).replace("\n", "\n    "), json.dumps(row))
    path.write_text(text + "\n")
    for data in ("cifar10", "made"):
        most = max((len(r["epochs"]) for r in runs if r["data"] == data), default=0)
        for epochs in sorted({3, 6, most}):
            for band in bands(epochs, data, path):
                print(f"{data}, {epochs} epochs: {band.what} mean {band.mean:.4f}, spread {band.spread}, band {band.limits}")


RECIPE = "SimpleCNN, SGD 0.1 constant, momentum 0.9, weight decay 5e-4, batch 128, crop and flip, float32"


if __name__ == "__main__":
    if sys.argv[1:2] == ["base"]:
        base(sys.argv[2])
    elif sys.argv[1:2] == ["envelope"] and len(sys.argv) > 2:
        given = sys.argv[2:]
        envelope([w for w in given if w not in VARIANTS], [w for w in given if w in VARIANTS])
    elif sys.argv[1:2] == ["bits"] and len(sys.argv) > 2:
        bits(sys.argv[2:])
    elif sys.argv[1:2] == ["curves"] and len(sys.argv) > 2:
        curves(sys.argv[2:])
    else:
        sys.exit(__doc__)
