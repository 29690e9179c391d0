"""An HTTP server on loopback that answers what a test tells it to, and remembers what was asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit


@dataclass(frozen=True)
class Asked:
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    # What was posted.
    body: Any = None


@dataclass(frozen=True)
class Reply:
    body: Any = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def bytes(self) -> bytes:
        if isinstance(self.body, bytes):
            return self.body
        return self.body.encode() if isinstance(self.body, str) else json.dumps(self.body).encode()


Answer = Callable[[Asked], Reply]


@dataclass
class HttpServer:
    answer: Answer
    asked: list[Asked] = field(default_factory=list)
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def says(self, body: Any, etag: str | None = None, **headers: str) -> None:
        """From now on; 304 to whoever knows it by its tag."""
        told = headers | ({"ETag": etag} if etag else {})

        def answer(asked: Asked) -> Reply:
            if etag is not None and asked.headers.get("if-none-match") == etag:
                return Reply(status=304, headers=told)
            return Reply(body, headers=told)

        self.answer = answer


@contextmanager
def http_server(answer: Answer | None = None) -> Iterator[HttpServer]:
    script = HttpServer(answer or (lambda _: Reply([])))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Else each answer waits for an acknowledgement.
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            self._reply(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def do_GET(self) -> None:
            self._reply(None)

        def _reply(self, body: Any) -> None:
            parts = urlsplit(self.path)
            headers = {name.lower(): value for name, value in self.headers.items()}
            asked = Asked(parts.path, dict(parse_qsl(parts.query)), headers, body)
            script.asked.append(asked)
            reply = script.answer(asked)
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            if reply.status != 304:
                self.send_header("Content-Length", str(len(reply.bytes)))
            self.end_headers()
            if reply.status != 304:
                self.wfile.write(reply.bytes)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    script.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield script
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
