"""Every measurement is made by a real torch, small; broken lines and processes that start again spoil nothing."""

from __future__ import annotations

import json
import math
import os
import sys
import time
from pathlib import Path

import pytest

from envcheck import process
from envcheck.smoke import Session, list_checks, run_smoke
from envcheck.smoke.attended import cpu_before, ecc_checks
from envcheck.facts import Facts, Measurement, UnderLoad, to_json

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def session(python_with_torch: str) -> Session:
    made = Session(seed=1)
    only = [e.name for e in list_checks(speed=True) if e.name != "compile"]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    run_smoke(python_with_torch, speed=True, devices=("cpu",), only=only, session=made, payload=HERE / "small_payload.py", env=env)
    return made


@pytest.mark.torch
def test_everything_is_measured(session: Session) -> None:
    assert [(c.name, c.status) for c in session.checks if c.status not in ("passed", "skipped")] == []
    names = {m.name for m in session.measurements}
    assert {"copy-within", "matmul-fp32", "operation", "training-fp32", "threads", "dataloader", "dataloader-best"} <= names
    assert "disk-read" in names or any(c.name == "disk" and c.status == "skipped" and c.detail for c in session.checks)


@pytest.mark.torch
def test_rates_are_numbers_between_their_lowest_and_highest(session: Session) -> None:
    for item in session.measurements:
        assert math.isfinite(item.value) and item.value >= 0, item
        if item.low is not None and item.high is not None:
            assert item.low <= item.value * 1.001 and item.value <= item.high * 1.001, item
            assert item.samples >= 3


@pytest.mark.torch
def test_loader_settings_are_told_each(session: Session) -> None:
    cases = [m.case for m in session.measurements if m.name == "dataloader"]
    assert cases == ["workers=0", "workers=1"]
    best = next(m for m in session.measurements if m.name == "dataloader-best")
    assert best.value in (0.0, 1.0)


@pytest.mark.torch
@pytest.mark.skipif("ENVCHECK_SLOW" not in os.environ, reason="the compiler takes a minute: set ENVCHECK_SLOW to run it")
def test_the_gain_of_the_compiler(python_with_torch: str) -> None:
    made = Session(seed=1)
    run_smoke(python_with_torch, speed=True, devices=("cpu",), only=("compile",), session=made, payload=HERE / "small_payload.py")
    assert [c.status for c in made.checks] == ["passed"], made.checks
    assert {m.name for m in made.measurements} == {"training-compiled", "compile-gain"}


def test_a_measurement_that_is_made_again_replaces_the_first() -> None:
    made = Session()
    first = {"stage": "measure", "name": "matmul-fp32", "device": "cpu", "value": 1.0, "unit": "TFLOP/s"}
    made.feed(first)
    made.feed({**first, "value": 2.0})
    made.feed({**first, "name": "threads", "case": "threads=1"})
    made.feed({**first, "name": "threads", "case": "threads=2"})
    made.feed({"stage": "measure", "name": "matmul-fp16", "device": "cpu", "value": "fast"})
    assert [(m.name, m.case, m.value) for m in made.measurements] == [
        ("matmul-fp32", None, 2.0), ("threads", "threads=1", 1.0), ("threads", "threads=2", 1.0),
    ]  # fmt: skip


def test_errors_of_the_memory_that_came_are_a_failure() -> None:
    loads = [UnderLoad(device="cuda:0", ecc_uncorrected_new=0), UnderLoad(device="cuda:1", ecc_uncorrected_new=3), UnderLoad(device="cuda:2")]
    (check,) = ecc_checks(loads)
    assert (check.device, check.status) == ("cuda:1", "failed")
    assert check.detail.startswith("3 ")


def test_the_load_of_the_cpu_is_a_percentage() -> None:
    assert 0 <= cpu_before().value <= 100


def test_list_names_the_measurements(envcheck_cli) -> None:
    document = json.loads(envcheck_cli("smoke", "--speed", "--list", "--json").stdout)
    assert [t["name"] for t in document["tests"]] == [e.name for e in list_checks(speed=True)]
    assert envcheck_cli("smoke", "--speed", "--only", "softmax").returncode == 2


@pytest.mark.torch
def test_the_command_tells_measurements_findings_and_facts(envcheck_cli, python_with_torch: str) -> None:
    done = envcheck_cli("smoke", "--speed", "--only", "launch", "--device", "cpu", "--python", python_with_torch, "--json", timeout=180)
    assert done.returncode == 0, done.stdout + done.stderr
    document = json.loads(done.stdout)
    assert [c["name"] for c in document["checks"]] == ["launch"]
    assert {m["name"] for m in document["measurements"]} == {"cpu-busy-before", "operation"}
    assert document["facts"]["speed"] == document["measurements"]
    assert document["findings"] == []


@pytest.mark.torch
def test_endurance_from_the_command_line(envcheck_cli, python_with_torch: str) -> None:
    words = ("--level", "3", "--minutes", "0.03", "--only", "products", "--device", "cpu", "--python", python_with_torch, "--no-color", "-v")
    done = envcheck_cli("smoke", *words, timeout=180)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "products of 512 x 512" in done.stdout


LONG = """
import json, os, sys, time
def emit(stage, **values):
    print("@envcheck@ " + json.dumps(dict(values, stage=stage)), flush=True)
emit("smoke", seed=5, torch="1.2.3", plan=[["memory", "cpu"]])
emit("check-start", name="memory", device="cpu")
for step in range(8):
    time.sleep(0.25)
    emit("progress", name="memory", device="cpu", share=step / 8, text=str(os.getpid()))
if sys.argv.count("--silent"):
    time.sleep(60)
emit("check", name="memory", device="cpu", status="passed", seconds=2.0)
emit("smoke-end")
"""


def test_a_long_test_that_gives_signs_of_life_is_no_hang(tmp_path: Path) -> None:
    path = tmp_path / "payload.py"
    path.write_text(LONG)
    seen: list[tuple] = []
    (check,) = run_smoke(sys.executable, payload=path, limit=1.0, on_progress=lambda *event: seen.append(event))
    assert check.status == "passed"
    assert [share for _, _, share, _ in seen] == [step / 8 for step in range(8)]
    assert {(name, device) for name, device, _, _ in seen} == {("memory", "cpu")}


def test_and_one_that_stops_giving_them_is(tmp_path: Path) -> None:
    path = tmp_path / "payload.py"
    path.write_text(LONG.replace('sys.argv.count("--silent")', "True"))
    (check,) = run_smoke(sys.executable, payload=path, limit=1.0)
    assert check.status == "timeout"


@pytest.mark.skipif(sys.platform == "win32", reason="process ids")
def test_an_interruption_from_the_keyboard_ends_the_payload_too(tmp_path: Path) -> None:
    path = tmp_path / "payload.py"
    path.write_text(LONG)
    pids: list[int] = []

    def interrupt(name: str, device: str, share: float, text: str) -> None:
        pids.append(int(text))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_smoke(sys.executable, payload=path, limit=5.0, on_progress=interrupt)
    for _ in range(50):
        try:
            state = Path(f"/proc/{pids[0]}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except OSError:
            state = "gone"
        if state in ("gone", "Z"):
            break
        time.sleep(0.1)
    assert state in ("gone", "Z")


def test_the_doctor_judges_measurements_that_were_kept(envcheck_cli, tmp_path: Path) -> None:
    slow = UnderLoad(device="cuda:0", name="NVIDIA GeForce RTX 4090", multiprocessors=128, samples=5, power_limit=150.0, power_default_limit=450.0)
    rate = Measurement(name="matmul-bf16", device="cuda:0", value=19.0, unit="TFLOP/s")
    (tmp_path / "speed.json").write_bytes(to_json(Facts(speed=(rate,), under_load=(slow,))))
    document = json.loads(envcheck_cli("doctor", "--facts", str(tmp_path / "speed.json"), "--json").stdout)
    assert [f["seen"] for f in document["findings"] if f["rule"] == "gpu-slow"] == [
        "cuda:0: bf16: 19 TFLOP/s, 12 % of what this card gives (165.2); power limit 150 of 450 W"
    ]


@pytest.mark.torch
@pytest.mark.parametrize(
    ("capability", "precisions"),
    [
        ("7 5", ["matmul-fp32", "matmul-fp16"]),
        ("8 0", ["matmul-fp32", "matmul-tf32", "matmul-fp16", "matmul-bf16"]),
        ("9 0", ["matmul-fp32", "matmul-tf32", "matmul-fp16", "matmul-bf16", "matmul-fp8"]),
    ],
)
def test_on_a_pretended_gpu(python_with_torch: str, capability: str, precisions: list[str]) -> None:
    words = [python_with_torch, HERE / "pretended.py", *capability.split(), "copy", "matmul", "launch", "training"]
    done = process.run(words, timeout=120, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert done.ok, done.stderr[-3000:]
    events = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    checks = [e for e in events if e["stage"] == "check" and e["name"] != "first-work"]
    assert [(c["name"], c["status"]) for c in checks] == [(n, "passed") for n in ("copy", "matmul", "launch", "training")], checks
    names = [e["name"] for e in events if e["stage"] == "measure"]
    both = [f"copy-{way}-device-{how}" for how in ("pageable", "pinned") for way in ("to", "from")]
    assert [n for n in names if n.startswith("copy")] == [*both, "copy-within"]
    # This torch may refuse 8-bit products on the CPU, where the pretended GPU's tensors are; that is told, not measured.
    refused = "fp8: 8-bit products" in checks[1]["detail"]
    assert [n for n in names if n.startswith("matmul")] == [p for p in precisions if not (refused and p.endswith("fp8"))]
    assert {"operation", "round-trip", "training-fp32", "training-amp", "amp-gain"} <= set(names)
    assert ("training-tf32" in names) == (capability >= "8 0")


@pytest.mark.torch
@pytest.mark.parametrize(
    ("room", "found"),
    [(256, {"batch": 256, "product": "CUDA out of memory"}), (100, {"batch": 64, "product": "CUDA out of memory"}), (32, {"batch": "CUDA out of memory", "product": "CUDA out of memory"})],
)
def test_what_fits_is_measured(python_with_torch: str, room: int, found: dict) -> None:
    done = process.run([python_with_torch, HERE / "little_memory.py", str(room)], timeout=120, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert done.ok, done.stderr[-2000:]
    assert json.loads(done.stdout) == found


@pytest.mark.torch
def test_the_memory_test_leaves_room_for_others(python_with_torch: str) -> None:
    done = process.run([python_with_torch, HERE / "room.py"], timeout=120)
    assert done.ok, done.stderr[-2000:]
    told = json.loads(done.stdout)
    assert 66 < told["gpu"] < 68, "most of 80"
    assert 2.5 < told["small"] < 3.4
    assert told["none"] == 0
    assert told["integrated"] == told["cpu"] == 1.0, "memory that programs share: a quarter of what is available"
    assert told["full"].startswith("skipped"), "a GPU that others fill is not broken"
    assert told["given_back"]
