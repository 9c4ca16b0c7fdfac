"""Fetching over HTTP with the standard library: whole documents, and single members of a remote zip file."""

from __future__ import annotations

import io
import os
import ssl
import urllib.error
import urllib.request
import zipfile
from collections.abc import Mapping
from urllib.parse import urlsplit, urlunsplit

from envcheck.errors import EnvcheckError

TIMEOUT = 30.0
LIMIT = 64 * 1024 * 1024
"""Bytes of one document at most."""
CHUNK = 256 * 1024


class Unreachable(EnvcheckError):
    """The index did not answer, or not with what an index gives."""


def without_credentials(url: str) -> str:
    """The address as it may be shown: user name and password left out."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    port = f":{parts.port}" if parts.port else ""
    return urlunsplit((parts.scheme, host + port, parts.path, "", ""))


def get(url: str, *, accept: str = "*/*", headers: Mapping[str, str] | None = None) -> tuple[bytes, Mapping[str, str]]:
    """The body and the headers (names in lower case) of one document.

    Raises:
        Unreachable: no answer, an HTTP error, or a body beyond the limit.
    """
    request = urllib.request.Request(
        _plain(url), headers={"Accept": accept, "User-Agent": "envcheck", **(headers or {})}
    )
    credentials = _basic(url)
    if credentials:
        request.add_header("Authorization", credentials)
    if not request.full_url.startswith(("https://", "http://")):
        raise Unreachable(f"{without_credentials(url)}: only http and https indexes can be read")
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT, context=_context()) as answer:
            body = answer.read(LIMIT + 1)
            found = {name.lower(): value for name, value in answer.headers.items()}
            found["x-final-url"] = answer.geturl()
    except urllib.error.HTTPError as error:
        error.close()
        raise Unreachable(f"{without_credentials(url)}: HTTP {error.code} {error.reason}") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise Unreachable(f"{without_credentials(url)} cannot be reached: {reason}") from None
    if len(body) > LIMIT:
        raise Unreachable(f"{without_credentials(url)}: more than {LIMIT >> 20} MiB")
    return body, found


def _plain(url: str) -> str:
    parts = urlsplit(url)
    host = parts.hostname or ""
    port = f":{parts.port}" if parts.port else ""
    return urlunsplit((parts.scheme, host + port, parts.path, parts.query, ""))


def _basic(url: str) -> str | None:
    import base64
    from urllib.parse import unquote

    parts = urlsplit(url)
    if parts.username is None:
        return None
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return "Basic " + base64.b64encode(pair.encode()).decode()


def _context() -> ssl.SSLContext:
    """Certificates: those pip was told to use, else those of the system."""
    bundle = os.environ.get("PIP_CERT") or os.environ.get("REQUESTS_CA_BUNDLE")
    return ssl.create_default_context(cafile=bundle if bundle and os.path.isfile(bundle) else None)


class RemoteFile(io.RawIOBase):
    """A file on a server that answers range requests; only the parts that are read are fetched."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.position = 0
        self.parts: dict[int, bytes] = {}
        _, headers = self._range(0, 0)
        total = headers.get("content-range", "").rpartition("/")[2]
        if not total.isdecimal():
            raise Unreachable(f"{without_credentials(url)}: the server gives no parts of a file")
        self.size = int(total)

    def _range(self, first: int, last: int) -> tuple[bytes, Mapping[str, str]]:
        return get(self.url, headers={"Range": f"bytes={first}-{last}", "Accept-Encoding": "identity"})

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self.position, io.SEEK_END: self.size}[whence]
        self.position = max(0, start + offset)
        return self.position

    def read(self, size: int = -1) -> bytes:
        end = self.size if size < 0 else min(self.size, self.position + size)
        data = bytearray()
        while self.position < end:
            number, skip = divmod(self.position, CHUNK)
            if number not in self.parts:
                first = number * CHUNK
                self.parts[number] = self._range(first, min(self.size, first + CHUNK) - 1)[0]
            piece = self.parts[number][skip : skip + end - self.position]
            if not piece:
                raise Unreachable(f"{without_credentials(self.url)}: a part of the file is missing")
            data += piece
            self.position += len(piece)
        return bytes(data)


def members(url: str, wanted: tuple[str, ...]) -> dict[str, str]:
    """Text of those members of a remote wheel whose names end so; absent ones are left out.

    Raises:
        Unreachable: the server gives no parts, or the file is no zip.
    """
    try:
        with zipfile.ZipFile(RemoteFile(url)) as archive:
            return {
                end: archive.read(name).decode("utf-8", "replace")
                for name in archive.namelist()
                for end in wanted
                if name.endswith(end)
            }
    except (zipfile.BadZipFile, EOFError) as error:
        raise Unreachable(f"{without_credentials(url)}: not a readable wheel ({error})") from None
