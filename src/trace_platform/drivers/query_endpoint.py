"""Where an attempt asks the query service, with its capability token."""

from __future__ import annotations

import http.client
import io
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import urlsplit

from trace_platform.domain.errors import Unavailable
from trace_platform.wire.query import ROWS_HEADER, TRUNCATED_HEADER, QueryRequest
from trace_platform.wire.refusal import QUERY_SERVICE

_PATH = "/v1/task/query"
_LOOK_EVERY_S = 0.2
_CONNECT_S = 10.0
# An answer that has begun is all there: it does not stand still.
_SILENT_S = 60.0


@dataclass(frozen=True, slots=True)
class QueryEndpoint:
    """The token opens all that the attempt may read: it is not shown."""

    url: str
    token: str = field(repr=False)
    # The CA that the service's certificate is of, as PEM.
    ca: str | None = field(default=None, repr=False)

    @contextmanager
    def stream(
        self,
        sql: str,
        format: Literal["arrow", "csv"],
        timeout_s: float,
        check: Callable[[], None] = lambda: None,
    ) -> Iterator[QueryAnswer]:
        """The answer, as it arrives. Raise what the service names, or Unavailable when it does not
        answer in `timeout_s`; whatever `check` raises meanwhile ends the query."""
        body = QueryRequest(sql=sql, format=format).model_dump_json(exclude_none=True)
        with closing(self._connection()) as connection:
            with _named_breaks():
                connection.connect()
            sock = connection.sock
            sock.settimeout(timeout_s)
            answering = _in_a_thread(lambda: self._ask(connection, body))
            try:
                response = _awaited(answering, check)
            except BaseException:
                # The service stops a query that nobody waits for.
                with suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)
                raise
            sock.settimeout(_SILENT_S)
            with response:
                yield QueryAnswer(response)

    def _ask(self, connection: http.client.HTTPConnection, body: str) -> http.client.HTTPResponse:
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        with _named_breaks():
            connection.request("POST", _PATH, body.encode(), headers)
            response = connection.getresponse()
            if response.status != http.HTTPStatus.OK:
                raise QUERY_SERVICE.error(response.status, response.read())
            return response

    def _connection(self) -> http.client.HTTPConnection:
        at = urlsplit(self.url)
        host, port = at.hostname or "", at.port
        if at.scheme != "https":
            return http.client.HTTPConnection(host, port, timeout=_CONNECT_S)
        tls = ssl.create_default_context(cadata=self.ca)
        return http.client.HTTPSConnection(host, port, timeout=_CONNECT_S, context=tls)


class QueryAnswer(io.RawIOBase):
    """The bytes of an answer, to be read once, and what the service says of its rows."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self._response = response
        told = response.headers
        try:
            self._left, self.rows = int(told["Content-Length"]), int(told[ROWS_HEADER])
        except (TypeError, ValueError):
            raise Unavailable("the query service does not say how long its answer is") from None
        self.truncated = told[TRUNCATED_HEADER] == "true"

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        with _named_breaks():
            size = self._response.readinto(buffer)
        self._left -= size
        if not size and len(buffer) and self._left:
            raise _broken("it ended early")
        return size


def _in_a_thread(call: Callable[[], http.client.HTTPResponse]) -> Future[http.client.HTTPResponse]:
    """A query says nothing until it is done: whoever waits has to be able to stop."""
    answering: Future[http.client.HTTPResponse] = Future()

    def run() -> None:
        try:
            answering.set_result(call())
        except BaseException as error:
            answering.set_exception(error)

    threading.Thread(target=run, name="query", daemon=True).start()
    return answering


def _awaited(
    answering: Future[http.client.HTTPResponse], check: Callable[[], None]
) -> http.client.HTTPResponse:
    while True:
        with suppress(TimeoutError):
            return answering.result(_LOOK_EVERY_S)
        check()


@contextmanager
def _named_breaks() -> Iterator[None]:
    try:
        yield
    except (OSError, http.client.HTTPException) as error:
        raise _broken(str(error) or type(error).__name__) from None


def _broken(reason: str) -> Unavailable:
    return Unavailable(
        f"the query service does not answer: {reason}",
        hint="trace status shows whether it is running",
        outage=True,
    )
