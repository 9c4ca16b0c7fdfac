"""Whatever is fed in: an answer, valid JSON, in linear time, and no rule that fails inside."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from envcheck.captured.normalise import decode, is_text, lines
from envcheck.cli.diagnose import examine
from envcheck.findings import to_json
from tests.pace import within

ROUNDS = int(os.environ.get("ENVCHECK_FUZZ", "1500"))
"""Mutated inputs; the full measure is 22,000 (ENVCHECK_FUZZ=22000)."""
SEED = int(os.environ.get("ENVCHECK_FUZZ_SEED", "1"))
THREADS = Path(__file__).parent / "threads"

SPLINTERS = (
    b"\x1b[31m", b"((((((", b'"' * 30, b"::", b"1" * 60, b"\x00" * 5, b"%s%d{}", b"\xff\xfe", b'{"schema":1,"facts":{', b'{"schema": 99}', b">>> torch.__version__\n", b"\r",
    b"$ echo $CUDA_VISIBLE_DEVICES\n", b"GPU 0:", b'File "', b"\t" * 40, "١٢٣ ²³ İ ＡＢＣ".encode(), b"Traceback (most recent call last):\n", b"| NVIDIA-SMI ", b"\\" * 20, b"`" * 9,
)  # fmt: skip
ENCODINGS = ("utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-8-sig", "cp1252")


def seeds(shared: Path | None = None) -> list[bytes]:
    found = [path.read_bytes() for path in sorted(THREADS.glob("*.txt"))]
    found = [part for data in found for part in data.split(b"##### ") if part.strip()]
    if shared is not None:
        found += [path.read_bytes() for path in sorted((shared / "reports").glob("*.input.txt"))]
    return found


def mutated(base: list[bytes], source: random.Random) -> bytes:
    """One input out of a few changes: cut, torn, shuffled, doubled, glued, recoded, binary."""
    data = bytearray(source.choice(base))
    for _ in range(source.randint(1, 6)):
        start = source.randrange(len(data)) if data else 0
        end = min(len(data), start + source.randint(1, 80))
        change = source.randrange(11)
        if change == 0:
            del data[start:end]
        elif change == 1:
            data[start:start] = source.randbytes(source.randint(1, 40))
        elif change == 2:
            data[start:start] = data[start:end] * source.randint(1, 50)
        elif change == 3:
            del data[start:]
        elif change == 4:
            parts = data.split(b"\n")
            source.shuffle(parts)
            data = bytearray(b"\n".join(parts))
        elif change == 5:
            data += source.choice(base)
        elif change == 6:
            data[start:end] = source.choice(SPLINTERS)
        elif change == 7:
            data = bytearray(b"\r\n".join(data.split(b"\n")))
        elif change == 8:
            data = bytearray(b"\n".join(b"> " + part for part in data.split(b"\n")))
        elif change == 9:
            other = source.choice(base)
            at = source.randrange(len(other))
            data[start:start] = other[at : at + source.randint(1, 400)]
        else:
            data = bytearray(decode(bytes(data)).encode(source.choice(ENCODINGS), "replace"))
    return bytes(data[:200_000])


def check(data: bytes) -> None:
    report = examine([("x.txt", data)])
    document = msgspec.json.decode(to_json(report))
    assert document["schema"] == 1
    assert document["verdict"] in ("healthy", "problems", "unknown")
    broken = [f"{item.rule}: {item.reason}" for item in report.skipped if "internal error" in item.reason]
    assert not broken, broken


@pytest.mark.slow
def test_mutated_inputs_get_an_answer(request: pytest.FixtureRequest) -> None:
    try:
        shared: Path | None = request.getfixturevalue("shared")
    except pytest.skip.Exception:
        shared = None
    base, source = seeds(shared), random.Random(SEED)
    for number in range(ROUNDS):
        data = mutated(base, source)
        started = time.process_time()
        try:
            check(data)
        except Exception as error:
            raise AssertionError(f"input {number} of seed {SEED}: {data[:500]!r}") from error
        assert time.process_time() - started < 3, f"input {number} of seed {SEED} took too long"


def odd() -> Iterator[tuple[str, bytes]]:
    yield "empty", b""
    yield "blank", b"\n\n  \n"
    yield "zeros", b"\x00" * 1000
    yield "every-byte", bytes(range(256)) * 20
    yield "lone-surrogates", "PyTorch version: \ud800".encode("utf-16-le", "surrogatepass")
    yield "one-long-line", b"GPU 0: " * 40_000
    yield "only-brackets", b"(" * 100_000
    yield "json-of-others", b'{"schema": 1, "facts": [1, 2]}'
    yield "json-newer", b'{"schema": 1000, "origin": "live"}'
    yield "json-cut", b'{"schema": 1, "facts": {"torch": {"version": "2.8.0"'
    yield "json-wrong-types", b'{"schema": 1, "torch": {"version": 3}}'
    yield "deep-json", b'{"schema": ' + b"[" * 5000
    yield "digits-of-other-scripts", "PyTorch version: ２.８.０\nCPU(s): ١٦\nulimit -n: ²".encode()
    yield "prompt-without-command", b"$ \n# \n>>> \nIn [1]:\nC:\\>\n"
    yield "quotes-of-quotes", b"> " * 300 + b"x"
    yield "control-characters", b"Tor\x08\x08ch\x07 version: 1\x1b[999999999999m"


@pytest.mark.parametrize("data", [d for _, d in odd()], ids=[n for n, _ in odd()])
def test_odd_inputs_get_an_answer(data: bytes) -> None:
    check(data)


def test_binary_files_are_no_text() -> None:
    assert not is_text(random.Random(3).randbytes(20_000))
    assert not is_text(b"\x7fELF\x02\x01\x01" + bytes(500))
    assert is_text("动态链接库(DLL)初始化例程失败。".encode("gbk") * 30)
    assert is_text("PyTorch version: 2.8.0\n".encode("utf-16") * 30)


def training_log(size: int) -> str:
    source = random.Random(5)
    made, parts, step = 0, [], 0
    while made < size:
        line = source.choice((
            f"2024-03-01 12:{step % 60:02}:{step % 60:02} INFO train: epoch {step // 1000} step {step} loss {source.random():.4f} lr {source.random() * 1e-3:.2e}",
            f"[rank0]: [{step}/1000000] time {source.random():.3f} data {source.random():.3f} loss: {source.random():.4f} acc: {source.random():.2f}",
            f"Epoch: [{step // 5000}][{step % 5000}/5000]\tTime {source.random():.3f}\tLoss {source.random():.4f}",
            f"GPU 0: util {source.randint(0, 99)}% mem {source.randint(0, 24000)} / 24576 MiB",
        ))  # fmt: skip
        parts.append(line)
        made += len(line) + 1
        step += 1
    return "\n".join(parts)


def test_ten_megabytes_of_log_take_under_three_seconds() -> None:
    error = '\nTraceback (most recent call last):\n  File "train.py", line 9, in <module>\nRuntimeError: mat1 and mat2 shapes cannot be multiplied (1x2 and 6x64)\n'
    text = training_log(10_000_000) + error
    examine([("warm.txt", "PyTorch version: 2.8.0")])
    reports = []

    def work() -> float:
        started = time.process_time()
        reports.append(examine([("train.log", text)]))
        return time.process_time() - started

    quick, spent = within(3, work)
    assert reports[0].primary is not None
    assert reports[0].primary.rule == "shape-mismatch"
    assert reports[0].primary.line == text.count("\n")
    assert quick, f"took {spent:.2f} s of processor time"


@pytest.mark.parametrize(
    "unit",
    ["RuntimeError: CUDA error: device-side assert triggered\n", "torch==2.0\n", "$ pip install torch\n", "GPU 0: NVIDIA A100\n", ">>> torch.__version__\n1.0\n", "| GPU | NVIDIA-SMI |\n", 'File "/a/site-packages/torch/x.py", line 1, in f\n    x\n', "\n", "a" * 80 + "\n", "PyTorch version: 1.0\n"],
    ids=["error", "freeze", "command", "gpu", "repl", "table", "frames", "newlines", "words", "keys"],
)  # fmt: skip
def test_time_grows_with_the_text_and_no_faster(unit: str) -> None:
    def spent(size: int) -> float:
        text = unit * (size // len(unit))
        best = 1e9
        for _ in range(2):
            started = time.process_time()
            examine([("x.txt", text)])
            best = min(best, time.process_time() - started)
        return best

    small, large = spent(150_000), spent(1_200_000)
    # Eight times the text: linear is 8, quadratic 64; the floor keeps the noise of a busy machine out.
    assert large < 24 * max(small, 0.02), f"{small:.3f} s for 150 kB, {large:.3f} s for 1.2 MB"


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_encodings_read_alike(encoding: str) -> None:
    text = "PyTorch version: 2.8.0+cu128\nOS: Ubuntu 22.04.5 LTS (x86_64)\nIs CUDA available: True\n"
    assert lines(text.encode(encoding))[:3] == text.split("\n")[:3]
