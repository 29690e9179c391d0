"""Stands between a client and one or more dispatchers, and loses some of their replies.

A reply that is lost had left the dispatcher: what was asked for has been done and committed, and
the client sees nothing but a connection that ends.
"""

from __future__ import annotations

import http.client
import ssl
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import cycle
from typing import Any, NamedTuple

from trace_platform.drivers.lite.certificates import Certificates

_ASKED = (
    "authorization",
    "content-type",
    "x-trace-worker-token",
    "x-trace-service-token",
    "x-trace-task-capability",
    "webhook-id",
    "webhook-timestamp",
    "webhook-signature",
)


class Exchange(NamedTuple):
    path: str
    status: int
    reply: bytes
    lost: bool


Loses = Callable[[str], bool]


class CuttingProxy:
    """`loses` is asked, with the path, about each reply. Requests go to the ports in turn."""

    def __init__(self, ports: Sequence[int], tls: Certificates | None, loses: Loses) -> None:
        self.exchanges: list[Exchange] = []
        self._tls = tls
        self._loses = loses
        self._turn = cycle(ports)
        self._lock = threading.Lock()
        self._server = _server(self)
        self.port: int = self._server.server_address[1]

    def lost(self, path: str) -> int:
        """How many replies of that path were lost."""
        return sum(each.lost for each in self.exchanges if each.path == path)

    def replies(self, path: str) -> list[Exchange]:
        return [each for each in self.exchanges if each.path == path]

    def start(self) -> None:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def next_port(self) -> int:
        with self._lock:
            return next(self._turn)

    def decide(self, path: str, status: int, reply: bytes) -> bool:
        """Whether this reply is lost. One decision at a time: a seeded chance stays in order."""
        with self._lock:
            lost = self._loses(path)
            self.exchanges.append(Exchange(path, status, reply, lost))
            return lost

    def upstream(self, port: int) -> http.client.HTTPConnection:
        if self._tls is None:
            return http.client.HTTPConnection("localhost", port, timeout=60)
        trusted = ssl.create_default_context(cafile=str(self._tls.ca))
        return http.client.HTTPSConnection("localhost", port, timeout=60, context=trusted)

    def accepted(self, connection: Any) -> Any:
        if self._tls is None:
            return connection
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self._tls.server, self._tls.key)
        # The handshake is left to the connection's own thread: a frozen client holds up no other.
        return context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)


@contextmanager
def cutting_proxy(
    ports: Sequence[int], tls: Certificates | None = None, loses: Loses = lambda path: False
) -> Iterator[CuttingProxy]:
    proxy = CuttingProxy(ports, tls, loses)
    proxy.start()
    try:
        yield proxy
    finally:
        proxy.stop()


def _server(proxy: CuttingProxy) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def setup(self) -> None:
            super().setup()
            self.connections: dict[int, http.client.HTTPConnection] = {}

        def finish(self) -> None:
            for connection in self.connections.values():
                connection.close()
            super().finish()

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            port = proxy.next_port()
            upstream = self.connections.setdefault(port, proxy.upstream(port))
            try:
                headers = {k: v for k, v in self.headers.items() if k.lower() in _ASKED}
                upstream.request("POST", self.path, body, headers)
                response = upstream.getresponse()
                reply = response.read()
            except (OSError, http.client.HTTPException):
                # The dispatcher is away: so is this connection.
                self.close_connection = True
                return
            if proxy.decide(self.path, response.status, reply):
                self.close_connection = True
                return
            self.send_response_only(response.status)
            self.send_header("Content-Type", response.headers["Content-Type"])
            self.send_header("Content-Length", str(len(reply)))
            self.end_headers()
            self.wfile.write(reply)

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def get_request(self) -> tuple[Any, Any]:
            connection, address = super().get_request()
            return proxy.accepted(connection), address

        def handle_error(self, *_: object) -> None:
            """A client that ends in the middle of something is no news here."""

    return Server(("127.0.0.1", 0), Handler)
