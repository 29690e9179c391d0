"""The console as its build left it, from memory: no path of a request is a path on disk."""

from __future__ import annotations

import gzip
import mimetypes
import os
import secrets
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from starlette.datastructures import Headers
from starlette.responses import Response

from trace_platform.gateway.security_headers import page_policy

PAGES = Path(__file__).with_name("pages")
NONCE = b"__TRACE_CSP_NONCE__"
_IMMUTABLE = "public, max-age=31536000, immutable"
_ASSETS = "/assets/"
_TEXT = ("text/", "application/javascript", "application/json", "image/svg", "application/manifest")
_MAX_BYTES = 64 * 2**20


@dataclass(frozen=True, slots=True)
class _File:
    content: bytes
    packed: bytes | None
    media: str
    etag: str


class ConsoleFiles:
    """A new build is noticed by its index.html."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seen: object = None
        self._files: dict[str, _File] = {}
        # What is there without any build.
        self._own = {f"/{name}": file for name, file in _read_folder(PAGES)}

    def answer(self, path: str, headers: Headers) -> Response | None:
        """None: there is no such file, and it is no page of the client either."""
        self._look()
        if path == "/login":
            return _page(self._own["/login.html"].content)
        file = self._files.get(path) or (self._own.get(path) if path != "/index.html" else None)
        if file is not None and not path.endswith(".html"):
            return _file(file, path, headers)
        if path != "/index.html" and _is_a_file(path):
            return None
        index = self._files.get("/index.html") or self._own["/no_console.html"]
        return _page(index.content)

    def _look(self) -> None:
        stamp = _stamp(self._folder / "index.html")
        if stamp != self._seen:
            self._files = {f"/{name}": file for name, file in _read_folder(self._folder)}
            self._seen = stamp


def _is_a_file(path: str) -> bool:
    """Files stand in assets/ or at the root. Deeper paths are the client's own: names of datasets
    and jobs have dots as well."""
    first, _, rest = path.lstrip("/").partition("/")
    return first == "assets" or (not rest and "." in first)


def _page(content: bytes) -> Response:
    nonce = secrets.token_urlsafe(16)
    return Response(
        content.replace(NONCE, nonce.encode()),
        media_type="text/html",
        headers={"Cache-Control": "no-store", "Content-Security-Policy": page_policy(nonce)},
    )


def _file(file: _File, path: str, headers: Headers) -> Response:
    told = {
        "Cache-Control": _IMMUTABLE if path.startswith(_ASSETS) else "no-cache",
        "ETag": file.etag,
        "Vary": "Accept-Encoding",
    }
    if headers.get("if-none-match") == file.etag:
        return Response(status_code=304, headers=told)
    if file.packed is not None and "gzip" in headers.get("accept-encoding", ""):
        told["Content-Encoding"] = "gzip"
        return Response(file.packed, media_type=file.media, headers=told)
    return Response(file.content, media_type=file.media, headers=told)


def _read_folder(folder: Path) -> list[tuple[str, _File]]:
    found, size = [], 0
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink():
            size += path.stat().st_size
            if size > _MAX_BYTES:
                break
            found.append((path.relative_to(folder).as_posix(), _read(path)))
    return found


def _read(path: Path) -> _File:
    content = path.read_bytes()
    media = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    packed = gzip.compress(content, 6, mtime=0) if media.startswith(_TEXT) else None
    etag = f'"{sha256(content).hexdigest()[:24]}"'
    return _File(content, packed, media, etag)


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns
