"""A real HTTP server in the place of a function: answers as it is told, and remembers its calls."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

LIMIT_S = 30


@dataclass
class Function:
    url: str = ""
    status: int = 202
    headers: dict[str, str] = field(default_factory=dict)
    answer: bytes = b""
    # The calls in the order in which they came, and what came with them.
    calls: list[dict[str, Any]] = field(default_factory=list)
    requests: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    # Says which calls are answered late: those wait for `go_on`.
    hangs: Callable[[dict[str, Any]], bool] = lambda call: False
    go_on: threading.Event = field(default_factory=threading.Event)
    # What it does with a task once it has accepted it.
    work: Callable[[dict[str, Any]], None] = lambda call: None


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    # As many as come at once.
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A caller that went away is part of the tests."""


@contextmanager
def serving(function: Function) -> Iterator[Function]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            call = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            function.requests.append((self.path, dict(self.headers)))
            function.calls.append(call)
            if function.hangs(call):
                function.go_on.wait(LIMIT_S)
            self._answer()
            function.work(call)

        def _answer(self) -> None:
            self.send_response(function.status)
            self.send_header("Content-Length", str(len(function.answer)))
            for name, value in function.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(function.answer)
            self.wfile.flush()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = _Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    function.url = f"http://127.0.0.1:{server.server_port}/invoke"
    try:
        yield function
    finally:
        function.go_on.set()
        server.shutdown()
        server.server_close()
        thread.join(LIMIT_S)
