"""`envcheck matrix update`: a package index on this machine, the cache, and how the two join the shipped tables."""

from __future__ import annotations

import io
import json
import threading
import zipfile
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from envcheck.data import directory
from envcheck.matrix import Matrix, load, show
from envcheck.matrix.refresh import cache, index, newer
from envcheck.matrix.refresh.web import Unreachable, without_credentials
from envcheck.matrix.tables import Tables

VERSION_PY = "__version__ = '9.1.0+cu134'\ndebug = False\ncuda: Optional[str] = '13.4'\n"
CUDA_INIT = (
    "PYTORCH_RELEASES_CODE_CC: dict[str, dict[str, set[int]]] = {\n"
    "    '13.4': {'x86_64': {75, 80, 120}, 'aarch64': {80, 110}},\n}\n"
)
METADATA = (
    "Metadata-Version: 2.1\nName: torch\nVersion: 9.1.0\nRequires-Dist: filelock\n"
    "Requires-Dist: nvidia-cudnn-cu13==9.30.0.1; platform_system == 'Linux'\n"
    "Requires-Dist: triton~=4.0.0; platform_system == 'Linux'\nRequires-Dist: opt-einsum>=3.3; extra == 'opt-einsum'\n"
)


def wheel(**members: str) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("torch/lib/libtorch.so", b"\0" * 700_000)
        for name, text in members.items():
            archive.writestr(name.replace("__", "/", 1) if "/" not in name else name, text)
    return data.getvalue()


TORCH = wheel(
    **{"torch/version.py": VERSION_PY, "torch/cuda/__init__.py": CUDA_INIT, "torch-9.1.0.dist-info/METADATA": METADATA}
)
CPU = wheel(
    **{"torch/version.py": "__version__ = '9.1.0+cpu'\ncuda = None\n", "torch-9.1.0.dist-info/METADATA": METADATA}
)
VISION = wheel(**{"torchvision-0.99.0.dist-info/METADATA": "Name: torchvision\nRequires-Dist: torch==9.1.0\n"})

FILES: dict[str, dict[str, bytes]] = {
    "torch": {
        "torch-9.1.0-cp312-cp312-manylinux_2_28_x86_64.whl": TORCH,
        "torch-9.1.0-cp314-cp314t-manylinux_2_28_x86_64.whl": TORCH,
        "torch-9.1.0-cp312-cp312-win_amd64.whl": CPU,
        "torch-9.2.0rc1-cp312-cp312-win_amd64.whl": CPU,
        "torch-2.8.0-cp312-cp312-win_amd64.whl": CPU,
        "torch-9.1.0.tar.gz": b"",
    },
    "torchvision": {"torchvision-0.99.0-cp312-cp312-manylinux_2_28_x86_64.whl": VISION},
    "torchaudio": {"torchaudio-2.11.0-cp312-cp312-win_amd64.whl": VISION},
}


class Handler(BaseHTTPRequestHandler):
    """The simple API with wheels that can be read in parts. `style` is "json", "html" or "broken"."""

    style = "json"
    ranges = True
    seen: list[dict[str, str]] = []

    def do_GET(self) -> None:
        type(self).seen.append(dict(self.headers.items()))
        parts = self.path.strip("/").split("/")
        if parts[0] == "files":
            self._file(next(files[parts[1]] for files in FILES.values() if parts[1] in files))
        elif parts[0] == "simple" and len(parts) == 2 and parts[1] in FILES:
            self._project(parts[1])
        else:
            self.send_error(404)

    def _file(self, data: bytes) -> None:
        wanted = self.headers.get("Range")
        if wanted and self.ranges:
            first, last = (int(part) for part in wanted.removeprefix("bytes=").split("-"))
            body = data[first : last + 1]
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {first}-{last}/{len(data)}")
        else:
            body = data
            self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _project(self, name: str) -> None:
        if self.style == "json":
            files = [
                {
                    "filename": f,
                    "url": f"../../files/{f}",
                    "upload-time": "2027-01-15T10:00:00Z",
                    "requires-python": ">=3.12",
                }
                for f in FILES[name]
            ]
            kind, body = "application/vnd.pypi.simple.v1+json", json.dumps({"files": files}).encode()
        elif self.style == "html":
            links = [
                f'<a href="../../files/{f}#sha256=0" data-requires-python="&gt;=3.12">{f}</a>' for f in FILES[name]
            ]
            kind, body = "text/html", "\n".join(links).encode()
        else:
            kind, body = "application/json", b'{"surprise": true}'
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the base class
        pass


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., str]]:
    """`serve(style="html")`: the address of an index."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    servers = []

    def start(style: str = "json", *, ranges: bool = True) -> str:
        handler = type("Styled", (Handler,), {"style": style, "ranges": ranges, "seen": []})
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        servers.append((server, thread))
        return f"http://127.0.0.1:{server.server_port}/simple"

    yield start
    for server, thread in servers:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def shipped() -> Matrix:
    return Matrix(Tables(directory("matrices")))


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A cache of the test's own, whatever the system calls that directory."""
    monkeypatch.setattr(cache, "path", lambda: tmp_path / "cache" / "matrix.json")
    load.cache_clear()
    yield
    load.cache_clear()


@pytest.mark.parametrize("style", ["json", "html"])
def test_a_newer_release_joins_the_tables(serve: Callable[..., str], shipped: Matrix, style: str) -> None:
    rows = newer.rows(shipped, serve(style))
    cache.write(rows, "2027-01-20")
    matrix = load()
    assert matrix.updated == "2027-01-20"
    release = matrix.release("9.1.0")
    assert release is not None
    assert (release.status, release.torchvision, release.cudnn) == ("partial", "0.99.0", "9.30.0.1")
    assert matrix.pythons("9.1.0", "linux", "x86_64") == ("3.12", "3.14t")
    assert matrix.pypi_variant("9.1.0", "linux", "x86_64") == "cu134"
    assert matrix.pypi_variant("9.1.0", "windows", "x86_64") == "cpu"
    archs = matrix.arch_list("9.1.0", "cu134", "linux", "x86_64")
    assert archs is not None
    assert (archs.sass, archs.ptx) == (("sm_75", "sm_80", "sm_120"), None)
    assert matrix.companions("9.1.0")["torchvision"].accepts("0.99.0") is True
    assert "opt-einsum" not in {r.package for r in matrix.requires("9.1.0", "linux", "x86_64")}
    assert release.from_index
    assert not shipped.releases[-1].from_index
    shown = show.releases(matrix, "linux", "x86_64")
    assert shown.rows[0]["release"] == "9.1.0+"
    assert "+ = from the package index on 2027-01-20" in shown.notes
    assert not matrix.is_newer_than_tables("9.1.0")
    assert matrix.release("9.2.0rc1") is None


def test_the_newest_known_release_stays_a_shipped_one(serve: Callable[..., str], shipped: Matrix) -> None:
    cache.write(newer.rows(shipped, serve()), "2027-01-20")
    assert load().newest.version == shipped.newest.version


def test_shipped_rows_are_never_overridden(shipped: Matrix) -> None:
    wrong = {
        "release": "2.8.0",
        "os": "linux",
        "machine": "x86_64",
        "variant": "cpu",
        "source": "x",
        "confidence": "read",
    }
    cache.write({"torch_wheels.csv": [wrong], "torch_releases.csv": [{"release": "2.8.0"}]}, "2027-01-20")
    assert load().pypi_variant("2.8.0", "linux", "x86_64") == "cu128"
    assert load().release("2.8.0") == shipped.release("2.8.0")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"schema": 99, "tables": {}}',
        '{"schema": 1, "tables": []}',
        '{"schema": 1, "tables": {"torch_releases.csv": [{"release": "9.1.0", "released": "soon"}]}}',
        '{"schema": 1, "tables": {"torch_wheels.csv": [{"release": "9.1.0", "os": "beos"}], "torch_releases.csv": 5}}',
    ],
)
def test_a_bad_cache_is_left_alone(text: str, shipped: Matrix) -> None:
    cache.path().parent.mkdir()
    cache.path().write_text(text, encoding="utf-8")
    matrix = load()
    assert matrix.updated is None
    assert [r.version for r in matrix.releases] == [r.version for r in shipped.releases]


@pytest.mark.parametrize(
    ("style", "says"),
    [("broken", "the answer is not that of a package index"), ("none", "")],
    ids=["broken", "refused"],
)
def test_an_index_that_does_not_answer_is_one_line(
    serve: Callable[..., str], shipped: Matrix, style: str, says: str
) -> None:
    address = serve(style) if style != "none" else "http://127.0.0.1:9/simple"
    with pytest.raises(Unreachable) as caught:
        newer.rows(shipped, address)
    assert says in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_a_missing_project_is_one_line(serve: Callable[..., str], shipped: Matrix) -> None:
    with pytest.raises(Unreachable, match="HTTP 404"):
        newer.rows(shipped, serve() + "/elsewhere")


def test_a_server_without_parts_is_told(serve: Callable[..., str], shipped: Matrix) -> None:
    with pytest.raises(Unreachable, match="gives no parts of a file"):
        newer.rows(shipped, serve(ranges=False))


def test_passwords_are_used_and_not_shown(serve: Callable[..., str], shipped: Matrix) -> None:
    address = serve().replace("http://", "http://me:s%40cret@")
    assert newer.rows(shipped, address)
    with pytest.raises(Unreachable) as caught:
        newer.rows(shipped, address.replace("/simple", "/nothing"))
    assert "cret" not in str(caught.value)
    assert "me" not in str(caught.value).split("/")[2]
    assert without_credentials("https://u:p@host:8080/simple?token=1") == "https://host:8080/simple"


def test_the_index_of_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        index, "_config_files", lambda env: iter([tmp_path / "a.conf", tmp_path / "b.conf", tmp_path / "c.conf"])
    )
    assert index.configured({}) == index.DEFAULT
    (tmp_path / "a.conf").write_text("[global]\nindex-url = https://one.example/simple\n", encoding="utf-8")
    assert index.configured({}) == "https://one.example/simple"
    (tmp_path / "b.conf").write_text("[install]\nindex-url = https://two.example/simple\n", encoding="utf-8")
    (tmp_path / "c.conf").write_text("not an ini file", encoding="utf-8")
    assert index.configured({}) == "https://two.example/simple"
    assert index.configured({"PIP_INDEX_URL": "https://three.example/simple"}) == "https://three.example/simple"


@pytest.mark.parametrize("platform", ["linux", "darwin", "win32"])
def test_where_pip_keeps_its_settings(platform: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", platform)
    found = [str(path) for path in index._config_files({"HOME": "/home/user", "PIP_CONFIG_FILE": "/extra.conf"})]
    assert found[-1].endswith("extra.conf")
    assert any("pip" in path for path in found[:-1])
    assert list(index._config_files({"PIP_CONFIG_FILE": "/dev/null"})) == []


def test_nothing_newer_is_said(
    serve: Callable[..., str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from envcheck.cli import main

    monkeypatch.setitem(FILES, "torch", {"torch-2.8.0-cp312-cp312-win_amd64.whl": CPU})
    main_args = ["matrix", "update", "--index-url", serve()]
    with pytest.raises(SystemExit) as end:
        main(main_args)
    assert end.value.code in (0, None)
    assert "nothing newer than torch" in capsys.readouterr().out


def test_what_came_is_shown(serve: Callable[..., str], capsys: pytest.CaptureFixture[str]) -> None:
    from envcheck.cli import main

    with pytest.raises(SystemExit):
        main(["matrix", "update", "--json", "--index-url", serve()])
    table = json.loads(capsys.readouterr().out)["tables"][0]
    assert [row["release"] for row in table["rows"]] == ["9.1.0"]
    assert "linux-x86_64:cu134" in table["rows"][0]["wheels"]


def test_the_cache_is_in_the_user_s_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    monkeypatch.setattr("sys.platform", "linux")
    assert cache.path() == Path("/somewhere/envcheck/matrix.json")
