"""What is said about bits that were recorded elsewhere: told, never an alarm."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from envcheck.reference import Measured, Options, judge, load_golden
from envcheck.reference.bits import BITS_STEP, conditions
from envcheck.reference.measure import can_be_portable

MACHINE: dict[str, Any] = {
    "torch": "2.14.1+cu130", "device": "cpu", "platform": "Linux-6.1-x86_64-with-glibc2.36", "cpu_capability": "AVX512",
    "device_name": "Some CPU", "settings": {"get_num_threads": 2}, "variables": {},
}  # fmt: skip


def measured(weights: str, training: tuple[str, ...] = (), **changes: Any) -> Measured:
    rows = [
        {"step": n, "mode": "strict", "images": "i", "loss": "0x1p+1", "gradients": {}, "norm": "0x1p+1", "weights": weights}
        for n in range(1, BITS_STEP + 1)
    ]
    return Measured(
        Options(python=Path("python"), training=training),
        stages={"machine": {**MACHINE, **changes}},
        steps={"strict:1": rows, "strict:portable": rows},
    )


def record(weights: str, mode: str = "native", **changes: Any) -> dict[str, Any]:
    return {"conditions": conditions({**MACHINE, **changes}, mode), "on": "Another CPU", "weights": weights}


def claims(run: Measured, records: list[dict[str, Any]]) -> dict[str, tuple[str, str]]:
    judgement = judge(run, {**load_golden(), "bits": records})
    assert judgement.findings == []
    return {level["name"]: (level["status"], level["text"]) for level in judgement.levels if "bits" in level["name"]}


def test_equal_bits_are_proved_and_name_where_they_were_seen() -> None:
    told = claims(measured("w"), [record("w"), record("w", "portable")])
    assert {status for status, _ in told.values()} == {"proved"}
    assert "Another CPU" in told["bits-native"][1]


def test_other_bits_are_no_alarm() -> None:
    told = claims(measured("w"), [record("x"), record("x", "portable")])
    assert {status for status, _ in told.values()} == {"skipped"}
    assert "no fault" in told["bits-portable"][1]


def test_another_release_with_the_same_bits_is_said_and_one_without_record_is_not_compared() -> None:
    told = claims(measured("w", torch="2.20.0"), [record("w")])
    assert told["bits-native"] == ("proved", "torch 2.20: the very bits recorded with torch 2.14 on Another CPU")
    told = claims(measured("w", torch="2.20.0"), [record("x")])
    assert told["bits-native"][0] == "skipped"
    assert "no bits are recorded" in told["bits-native"][1]


def test_a_compiled_repeat_is_not_compared_with_an_eager_one() -> None:
    assert set(claims(measured("w", training=("--compile",)), [record("w")])) == {"bits-portable"}


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        ({}, True),
        ({"device": "cuda:0"}, False),
        ({"cpu_capability": "DEFAULT"}, False),
        ({"cpu_capability": None}, False),
        ({"platform": "macOS-15.1-arm64-arm-64bit"}, False),
        ({"platform": "Linux-6.1-aarch64-with-glibc2.36"}, False),
    ],
)
def test_common_instructions_are_for_x86_64_under_linux(change: dict[str, Any], wanted: bool) -> None:
    assert can_be_portable({**MACHINE, **change}) is wanted


def test_bits_are_recorded_for_more_than_one_release() -> None:
    records = load_golden()["bits"]
    assert {r["conditions"]["torch"] for r in records if r["conditions"]["mode"] == "portable"} >= {"1.13", "2.13", "2.14"}
    assert all(len(r["weights"]) == 16 and r["on"] for r in records)
