"""`--download`: torchvision fetches the archive from a server on this machine; progress is told, trouble in one line."""

from __future__ import annotations

import contextlib
import hashlib
import http.server
import io
import pickle
import tarfile
import threading
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from envcheck.errors import TargetError
from envcheck.process import run
from envcheck.reference.measure import fetch_cifar10

pytestmark = pytest.mark.torch
FILES = [*(f"data_batch_{n}" for n in range(1, 6)), "test_batch", "batches.meta"]


def contents(name: str) -> bytes:
    if name == "batches.meta":
        return pickle.dumps({"label_names": list("abcdefghij")})
    return pickle.dumps({"data": [[0] * 3072] * 2, "labels": [1, 2], "file": name})


@cache
def archive() -> bytes:
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w:gz") as tar:
        for name in FILES:
            entry = tarfile.TarInfo(f"cifar-10-batches-py/{name}")
            entry.size = len(contents(name))
            tar.addfile(entry, io.BytesIO(contents(name)))
    return held.getvalue()


@pytest.fixture
def server() -> Iterator[str]:
    data = archive()

    class Slow(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            half = len(data) // 2
            with contextlib.suppress(OSError):  # torchvision hangs up on its first request: it only follows redirects
                self.wfile.write(data[:half])
                self.wfile.flush()
                time.sleep(1.5)
                self.wfile.write(data[half:])

        def log_message(self, *words: object) -> None:
            pass

    serving = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Slow)
    threading.Thread(target=serving.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{serving.server_port}/cifar-10-python.tar.gz"
    serving.shutdown()
    serving.server_close()


def pretend(folder: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """torchvision takes the archive from there, and small files for the real ones."""
    sums = {name: hashlib.md5(contents(name)).hexdigest() for name in FILES}
    lines = [
        "import torchvision.datasets.cifar as cifar",
        "C = cifar.CIFAR10",
        f"C.url, C.tgz_md5 = {url!r}, {hashlib.md5(archive()).hexdigest()!r}",
        f"C.train_list = {[[n, sums[n]] for n in FILES[:5]]!r}",
        f"C.test_list = {[['test_batch', sums['test_batch']]]!r}",
        f"C.meta = {{'filename': 'batches.meta', 'key': 'label_names', 'md5': {sums['batches.meta']!r}}}",
    ]
    (folder / "sitecustomize.py").write_text("\n".join(lines))
    monkeypatch.setenv("PYTHONPATH", str(folder))
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)


def test_the_archive_is_fetched_with_progress(
    python_with_torch: str, server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not run([python_with_torch, "-c", "import torchvision"], timeout=120).ok:
        pytest.skip("no torchvision beside torch")
    (tmp_path / "site").mkdir()
    pretend(tmp_path / "site", server, monkeypatch)
    told: list[int] = []
    fetch_cifar10(
        Path(python_with_torch),
        tmp_path / "data",
        lambda name, answer: told.append(int(answer["bytes"])) if answer and name == "download" else None,
    )
    assert {p.name for p in (tmp_path / "data" / "cifar-10-batches-py").iterdir()} == set(FILES)
    assert told  # in the pause of the server


def test_a_server_that_is_not_there_is_one_line(
    python_with_torch: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not run([python_with_torch, "-c", "import torchvision"], timeout=120).ok:
        pytest.skip("no torchvision beside torch")
    pretend(tmp_path, "http://127.0.0.1:9/cifar-10-python.tar.gz", monkeypatch)
    with pytest.raises(TargetError, match="CIFAR-10 was not downloaded: ") as failure:
        fetch_cifar10(Path(python_with_torch), tmp_path / "data")
    assert "\n" not in str(failure.value)
    assert "refused" in str(failure.value)


def test_a_wrong_archive_is_one_line(
    python_with_torch: str, server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not run([python_with_torch, "-c", "import torchvision"], timeout=120).ok:
        pytest.skip("no torchvision beside torch")
    pretend(tmp_path, server, monkeypatch)
    path = tmp_path / "sitecustomize.py"
    path.write_text(path.read_text() + "\nC.tgz_md5 = '0' * 32\n")
    with pytest.raises(TargetError, match="CIFAR-10 was not downloaded: .*corrupted"):
        fetch_cifar10(Path(python_with_torch), tmp_path / "data")


def test_without_torchvision_it_says_so(
    python_with_torch: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "torchvision").mkdir()
    (tmp_path / "torchvision" / "__init__.py").write_text("raise ImportError('no torchvision here')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(TargetError, match="CIFAR-10 was not downloaded: .*no torchvision here"):
        fetch_cifar10(Path(python_with_torch), tmp_path / "data")
