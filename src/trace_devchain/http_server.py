"""HTTP/1.1 for one purpose: POST a JSON-RPC body, get its answer; GET / says that it is alive.

A protocol of its own because a web framework would cost more per request than the answer does.
Requests are answered while they are parsed, so pipelined ones come back in order.
"""

from __future__ import annotations

import asyncio
import hmac
import re
from collections.abc import Callable
from typing import cast

import httptools

MAX_BODY_BYTES = 8 << 20
# A page that a browser shows can send a body anywhere, and call this machine by a name of its own.
_OWN_HOST = re.compile(rb"(?i)(127\.0\.0\.1|localhost|\[::1\])(:\d+)?")
_REASONS = {
    200: "OK",
    400: "Bad Request",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    413: "Content Too Large",
}


class HttpConnection(asyncio.Protocol):
    """One client. `connections` holds the open ones, so that the server can end them all."""

    def __init__(
        self,
        answer: Callable[[bytes], list[bytes]],
        health: Callable[[], bytes],
        connections: set[HttpConnection],
        key: str = "",
    ) -> None:
        """With a key it answers at /KEY and nowhere else."""
        self._answer = answer
        self._health = health
        self._connections = connections
        self._parser = httptools.HttpRequestParser(self)
        self._body: list[bytes] = []
        self._body_bytes = 0
        self._path = b""
        self._is_foreign = False
        self._place = f"/{key}".encode()
        self._is_open_to_all = not key

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.discard(self)

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            # The request was answered as plain HTTP; there is nothing to upgrade to.
            self.close()
        except httptools.HttpParserError as error:
            self._refuse(400, f"not an HTTP request: {error}")

    def pause_writing(self) -> None:
        # A client that does not read its answers may not send more questions.
        self._transport.pause_reading()

    def resume_writing(self) -> None:
        self._transport.resume_reading()

    def close(self) -> None:
        """End the connection when what is written has been sent."""
        self._transport.close()

    def on_message_begin(self) -> None:
        self._body.clear()
        self._body_bytes = 0
        self._path = b""
        self._is_foreign = False

    def on_url(self, url: bytes) -> None:
        self._path += url

    def on_header(self, name: bytes, value: bytes) -> None:
        lowered = name.lower()
        if lowered == b"content-length" and value.isdigit():
            self._check_size(int(value))
        elif lowered == b"origin" or (lowered == b"host" and not _OWN_HOST.fullmatch(value)):
            self._is_foreign = True
        elif lowered == b"expect" and value.lower() == b"100-continue" and self._open():
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        self._check_size(self._body_bytes)
        if self._open():
            self._body.append(body)

    def on_message_complete(self) -> None:
        if not self._open():
            return
        method = self._parser.get_method()
        if self._is_foreign:
            self._reply(403, [b'{"error":"pages of a browser are not answered"}'])
        elif not (self._is_open_to_all or hmac.compare_digest(self._path, self._place)):
            self._reply(404, [b'{"error":"this chain answers at an address of its own"}'])
        elif method == b"POST":
            self._reply(200, self._answer(b"".join(self._body)))
        elif method != b"GET":
            self._reply(405, [b'{"error":"use POST"}'], b"allow: GET, POST\r\n")
        elif self._path == self._place:
            self._reply(200, [self._health()])
        else:
            self._reply(404, [b'{"error":"only / is here; send JSON-RPC by POST"}'])

    def _open(self) -> bool:
        return not self._transport.is_closing()

    def _check_size(self, n_bytes: int) -> None:
        if n_bytes > MAX_BODY_BYTES and self._open():
            self._refuse(413, f"the body may have at most {MAX_BODY_BYTES} bytes")

    def _refuse(self, status: int, message: str) -> None:
        """Answer and hang up: what follows on this connection cannot be trusted or is too much."""
        if self._open():
            body = b'{"error":"%s"}' % message.replace('"', "'").encode()
            self._write(status, [body], b"connection: close\r\n")
            self.close()

    def _reply(self, status: int, body: list[bytes], headers: bytes = b"") -> None:
        keep_alive = self._parser.should_keep_alive()
        self._write(status, body, headers if keep_alive else headers + b"connection: close\r\n")
        if not keep_alive:
            self.close()

    def _write(self, status: int, body: list[bytes], headers: bytes = b"") -> None:
        head = (
            b"HTTP/1.1 %d %s\r\ncontent-type: application/json\r\ncontent-length: %d\r\n%s\r\n"
            % (status, _REASONS[status].encode(), sum(map(len, body)), headers)
        )
        self._transport.writelines([head, *body])
