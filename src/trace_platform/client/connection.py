"""HTTP to the query service: errors by their names, retries that end, cancels that arrive."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote, urlsplit
from uuid import UUID, uuid4

import httpcore

from trace_platform.client.answer import Answer, named_errors
from trace_platform.client.patience import Deadline, OnWait, Patience
from trace_platform.client.place import Place
from trace_platform.client.timed_sockets import TimedBackend
from trace_platform.domain.errors import BadInput, TraceError, Unavailable
from trace_platform.domain.private_url import is_private

# Where the caller gives no time-out.
_CONNECT_S = 10.0
_CANCEL_S = 1.0
# Less than the 5 s after which the service hangs up: a connection that it is closing is not used.
_IDLE_S = 3.0


class Connection:
    """Threads may share one; so may processes, each of which opens its own after a fork.
    `patience_s`: for how long a busy service is asked again."""

    def __init__(
        self, place: Place, *, patience_s: float = 30.0, on_wait: OnWait | None = None
    ) -> None:
        self._patience_s, self._on_wait = patience_s, on_wait
        self._place = place
        self._url, self._trust = _checked_url(place.url), place.trust()
        self._headers = [
            ("Authorization", f"Bearer {_checked_token(place.token)}"),
            ("Content-Type", "application/json"),
        ]
        self._pools: dict[int, httpcore.ConnectionPool] = {}

    def close(self) -> None:
        self._pool().close()

    @contextlib.contextmanager
    def ask(self, query: Mapping[str, Any], deadline: Deadline | None = None) -> Iterator[Answer]:
        """The answer, not read yet. Whoever leaves early, by Ctrl-C too, stops the query.

        `query` is a QueryRequest that the service checks; what is None is left out.

        The deadline is for all of it: connecting, waiting for a place, running, reading.
        """
        deadline = deadline or Deadline()
        patience = Patience(self._patience_s, deadline, self._on_wait)
        while True:
            # Another id for each try: the service's history tells them apart.
            query_id = uuid4()
            body = _given(query) | {"query_id": str(query_id)}
            with (
                self._named_errors(deadline),
                self._stopping(query_id),
                self._send("POST", "/v1/query", deadline, body) as answer,
            ):
                refusal = answer.error()
                if refusal is None:
                    yield answer
                    return
            patience.wait_or_raise(refusal, answer.retry_after_s)

    @contextlib.contextmanager
    def follow(self, link: str, deadline: Deadline | None = None) -> Iterator[Answer]:
        """What lies at a link that the service gave."""
        if not link.startswith("/") or link.startswith("//"):
            # The token goes to the service and to nobody else.
            raise Unavailable("the service named a place that is not its own")
        deadline = deadline or Deadline()
        patience = Patience(self._patience_s, deadline, self._on_wait)
        while True:
            with self._named_errors(deadline), self._send("GET", link, deadline) as answer:
                refusal = answer.error()
                if refusal is None:
                    yield answer
                    return
            patience.wait_or_raise(refusal, answer.retry_after_s)

    def get(self, path: str) -> bytes:
        with self.follow(path) as answer:
            return answer.read()

    def cancel(self, query_id: UUID | str, deadline: Deadline | None = None) -> None:
        """Raise NotFound when it does not run."""
        deadline = deadline or Deadline()
        path = f"/v1/query/{quote(str(query_id), safe='')}"
        with self._named_errors(deadline), self._send("DELETE", path, deadline) as answer:
            refusal = answer.error()
            if refusal is not None:
                raise refusal
            answer.read()

    @contextlib.contextmanager
    def _stopping(self, query_id: UUID) -> Iterator[None]:
        try:
            yield
        except (httpcore.ConnectError, httpcore.ConnectTimeout):
            raise  # nothing was asked
        except BaseException:
            # Hanging up stops it too; but a proxy may keep the line to the service open.
            with contextlib.suppress(TraceError):
                self.cancel(query_id, Deadline(_CANCEL_S))
            raise

    def _named_errors(self, deadline: Deadline) -> contextlib.AbstractContextManager[None]:
        return named_errors(self._place, deadline, "the answer")

    @contextlib.contextmanager
    def _send(
        self, method: str, path: str, deadline: Deadline, body: dict[str, Any] | None = None
    ) -> Iterator[Answer]:
        connect = deadline.until if deadline.is_given else time.monotonic() + _CONNECT_S
        until = {"connect": connect, "write": deadline.until, "read": deadline.until}
        with self._pool().stream(
            method,
            self._url + path,
            headers=self._headers,
            content=None if body is None else json.dumps(body).encode(),
            extensions={"timeout": until},
        ) as response:
            yield Answer(response, self._place, deadline)

    def _pool(self) -> httpcore.ConnectionPool:
        """The connections of this process: after a fork those of the parent are the parent's, on
        which the answers of both would mix."""
        pid = os.getpid()
        if pid not in self._pools:
            self._pools = {
                pid: httpcore.ConnectionPool(
                    ssl_context=self._trust,
                    max_connections=None,
                    keepalive_expiry=_IDLE_S,
                    network_backend=TimedBackend(),
                )
            }
        return self._pools[pid]


def _checked_url(url: str) -> str:
    try:
        at = urlsplit(url)
        is_one = at.scheme in ("http", "https") and bool(at.hostname) and at.port != 0
    except ValueError:
        is_one = False
    if not is_one:
        raise BadInput(f"{url!r} is no URL of a service", hint="such as https://localhost:7701")
    if not is_private(url):
        raise BadInput(
            f"{url!r} is another machine, and http:// shows your token on the way there",
            hint="use https://",
        )
    return url.rstrip("/")


def _checked_token(token: str) -> str:
    """A file's last line end is no part of it. What is wrong is not shown."""
    found = token.strip()
    if not (found and found.isascii() and found.isprintable()):
        raise BadInput("the token is not one of Trace's", hint="make one with `trace users add`")
    return found


def _given(query: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in query.items() if value is not None}
