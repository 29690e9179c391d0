"""Answers on their way to their callers: each is let go of at its end, however it ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from trace_platform.domain.errors import TooManyQueries
from trace_platform.query.service.callers import Caller

# Answers that one caller has begun to read and not ended: each may hold a file on disk.
_MOST = 16


class Answering:
    def __init__(self) -> None:
        self._open: Counter[str] = Counter()

    def answer(
        self,
        caller: Caller,
        parts: Iterator[bytes],
        size: int,
        media: str,
        headers: dict[str, str],
        close: Callable[[], None],
    ) -> StreamingResponse:
        """`close` is called when the answer was sent, or nobody wants the rest. Raise
        TooManyQueries, and close, when the caller reads too many at once."""
        if self._open[caller.name] >= _MOST:
            close()
            raise TooManyQueries(
                f"you are reading {_MOST} answers", hint="read those to their end", retry_after_s=1
            )
        self._open[caller.name] += 1

        def done() -> None:
            self._open[caller.name] -= 1
            self._open += Counter()  # those who read nothing are forgotten
            close()

        sent = {"Content-Length": str(size), **headers}
        return _Closing(parts, sent, media, done)


class _Closing(StreamingResponse):
    def __init__(
        self, parts: Iterator[bytes], headers: dict[str, str], media: str, done: Callable[[], None]
    ) -> None:
        super().__init__(parts, 200, headers, media)
        self._done = done

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._done()
