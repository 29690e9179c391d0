"""A request's head is bounded in size and in time, its body in time.

uvicorn's parser takes as much as it is sent, for as long as that lasts. A head arrives before
anybody is authenticated; a body is read by those who are let in, or by nobody.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEAD_BYTES = 64 * 1024
HEAD_S = 30.0
# A completion with 100,000 events, and some room.
MAX_BODY_BYTES = 32 * 2**20
# A body has so long, and longer by what arrived of it at this rate.
BODY_S = 20.0
BODY_BYTES_PER_S = 64 * 1024
# For the rest of a body after the answer: whoever sends before it listens sees the answer, not a
# broken connection.
REST_S = 2.0


class BoundedRequest(HttpToolsProtocol):
    """Ends a connection whose next request has a head that is too large, or does not arrive."""

    _head_bytes: int | None = 0  # None while a request's body arrives
    _body_bytes = 0
    _body_since = 0.0
    # Received since the last byte of the body: what stands around its chunks, and fields behind it.
    _frame_bytes = 0
    # For the head, the body, or what is left of it: one of them is waited for.
    _too_late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._head_bytes is None:
            self._frame_bytes += len(data)
        else:
            self._head_bytes += len(data)
        super().data_received(data)
        if self._head_bytes is None:
            self._watch_body()
        # What was received at once may hold a body too: the limit counts only when no head ended.
        elif self._head_bytes > MAX_HEAD_BYTES:
            self._refuse_head(b"431 Request Header Fields Too Large")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._too_late is None:
            self._wait_for_head()

    def on_headers_complete(self) -> None:
        self._stop_waiting()
        self._head_bytes = None
        self._body_bytes = self._frame_bytes = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        self._frame_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._stop_waiting()
        self._head_bytes = 0
        if self.cycle.response_complete:
            # uvicorn began to wait with the answer, and stopped when the rest of the body came.
            self._wait_for_head()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._head_bytes is None and self.cycle.response_complete:
            self._wait(REST_S, self._hang_up)

    def _wait_for_head(self) -> None:
        self._wait(HEAD_S, self._refuse_head, b"408 Request Timeout")

    def _watch_body(self) -> None:
        if self._frame_bytes > MAX_HEAD_BYTES:
            self._refuse_body(b"431 Request Header Fields Too Large")
        elif self._too_late is None:
            self._wait_for_body()

    def _wait_for_body(self) -> None:
        self._body_since = self.loop.time()
        self._wait(BODY_S, self._look_at_body)

    def _look_at_body(self) -> None:
        if self.flow.read_paused:
            self._wait_for_body()  # it is us who do not read
            return
        arrived_s = min(self._body_bytes, MAX_BODY_BYTES) / BODY_BYTES_PER_S
        left_s = self._body_since + BODY_S + arrived_s - self.loop.time()
        if left_s > 0:
            self._wait(left_s, self._look_at_body)
        else:
            self._refuse_body(b"408 Request Timeout")

    def _wait(self, seconds: float, then: Callable[..., None], *given: Any) -> None:
        self._stop_waiting()
        self._too_late = self.loop.call_later(seconds, then, *given)

    def _stop_waiting(self) -> None:
        if self._too_late is not None:
            self._too_late.cancel()
            self._too_late = None

    def _refuse_head(self, status: bytes) -> None:
        # While the request before is answered, whatever is said would be taken for its answer.
        if self.cycle is None or self.cycle.response_complete:
            self._say(status)
        self._hang_up()

    def _refuse_body(self, status: bytes) -> None:
        if not (self.cycle.response_started or self.pipeline):
            self._say(status)
            # The app, which waits for the body, is told that nobody listens.
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self._hang_up()

    def _say(self, status: bytes) -> None:
        if not self.transport.is_closing():
            self.transport.write(
                b"HTTP/1.1 " + status + b"\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
            )

    def _hang_up(self) -> None:
        self._stop_waiting()
        if not self.transport.is_closing():
            self.transport.close()
