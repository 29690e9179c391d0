"""One kept-alive HTTPS connection per thread: few calls, and each should cost little."""

from __future__ import annotations

import http.client
import select
import socket
import ssl
import threading
from collections.abc import Mapping
from urllib.parse import urlsplit

from trace_platform.domain.errors import DispatcherUnreachable


class HttpConnection:
    """`post` from any thread. A call that got no answer may have been carried out all the same."""

    def __init__(
        self, url: str, tls: ssl.SSLContext, headers: dict[str, str], *, timeout_s: float = 30
    ) -> None:
        self._url = urlsplit(url)
        self._tls = tls
        self._headers = headers
        self._timeout_s = timeout_s
        self._own = threading.local()
        self._all: list[http.client.HTTPConnection] = []

    def post(
        self, path: str, body: bytes, headers: Mapping[str, str] | None = None
    ) -> tuple[int, bytes]:
        """Status and body. Raise DispatcherUnreachable when there is no answer."""
        return self._ask("POST", path, body, headers or {})

    def get(self, path: str) -> tuple[int, bytes]:
        """As `post`."""
        return self._ask("GET", path, None, {})

    def _ask(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> tuple[int, bytes]:
        connection = self._connection()
        try:
            connection.request(method, path, body, {**self._headers, **headers})
            response = connection.getresponse()
            return response.status, response.read()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            reason = str(error) or type(error).__name__
            raise DispatcherUnreachable(f"the dispatcher does not answer: {reason}") from None

    def close(self) -> None:
        for connection in self._all:
            connection.close()

    def _connection(self) -> http.client.HTTPConnection:
        found: http.client.HTTPConnection | None = getattr(self._own, "connection", None)
        if found is None:
            found = self._own.connection = self._new()
            self._all.append(found)
        elif found.sock is not None and _ended(found.sock):
            found.close()  # opened again by the next request
        return found

    def _new(self) -> http.client.HTTPConnection:
        host, port = self._url.hostname or "", self._url.port
        if self._url.scheme == "https":
            return http.client.HTTPSConnection(
                host, port, timeout=self._timeout_s, context=self._tls
            )
        return http.client.HTTPConnection(host, port, timeout=self._timeout_s)


def _ended(sock: socket.socket) -> bool:
    """Between two calls a server has nothing to say but good-bye."""
    return bool(select.select([sock], [], [], 0)[0])
