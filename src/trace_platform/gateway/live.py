"""What changes, told to every open page by one reader of the dispatcher.

Events stand in one ring for all pages, and each page has a place in it: a page that reads slowly
costs nothing but its place, and once the ring has passed that, it is told to ask for everything.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from itertools import islice

import structlog

from trace_platform.domain.errors import TooManyRequests, Unavailable
from trace_platform.gateway.who_asks import Caller
from trace_platform.wire.changes import Changes

log = structlog.get_logger(__name__)

MEDIA = "text/event-stream"
BEAT_S = 15.0
KEPT_EVENTS = 1024
MOST_STREAMS = 200
# The reader stays that long after the last page: one that is loaded anew finds its place.
_LINGER_S = 30.0
_AGAIN_S = (0.5, 5.0)

_CONNECTED = b"retry: 1000\n: connected\n\n"
_BEAT = b": beat\n\n"
_EXPIRED = b"event: expired\ndata: {}\n\n"

# What has changed since the iteration began; its first item says that it has begun.
ReadChanges = Callable[[], AsyncGenerator[Changes, None]]


class Live:
    def __init__(self, read: ReadChanges, beat_s: float = BEAT_S) -> None:
        self._read_changes = read
        self._beat_s = beat_s
        # Another one after a restart: places in the ring of the process before mean nothing here.
        self._epoch = secrets.token_hex(4)
        self._ring: deque[bytes] = deque(maxlen=KEPT_EVENTS)
        self._last = 0  # number of the newest event
        self._news = asyncio.Event()
        self._streams = 0
        self._reader: asyncio.Task[None] | None = None
        self._is_closed = False

    def open(self, caller: Caller, after: str | None) -> AsyncIterator[bytes]:
        """Raise TooManyRequests when there are as many streams as may be."""
        if self._streams >= MOST_STREAMS:
            raise TooManyRequests(f"{MOST_STREAMS} streams are open", retry_after_s=5)
        return self._events(caller, self._place(after))

    def close(self) -> None:
        """All streams end."""
        self._is_closed = True
        self._news.set()

    async def stop(self) -> None:
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.gather(self._reader, return_exceptions=True)

    async def _events(self, caller: Caller, place: int) -> AsyncIterator[bytes]:
        self._streams += 1
        self._start_reader()
        try:
            yield _CONNECTED
            while not self._is_closed:
                if not caller.still():
                    yield _EXPIRED
                    return
                news = self._news
                if place < self._last:
                    told, place = self._since(place), self._last
                    yield told
                elif not await _happens(news, self._beat_s):
                    yield _BEAT
        finally:
            self._streams -= 1

    def _place(self, after: str | None) -> int:
        if after is None:
            return self._last
        epoch, _, number = after.partition("-")
        known = epoch == self._epoch and number.isdigit() and len(number) < 16
        return int(number) if known and int(number) <= self._last else -1

    def _since(self, place: int) -> bytes:
        missed = self._last - place
        if place < 0 or missed > len(self._ring):
            return self._event(b"resync", b"{}", self._last)
        return b"".join(islice(self._ring, len(self._ring) - missed, None))

    def _event(self, kind: bytes, data: bytes, number: int) -> bytes:
        return b"id: %s-%d\nevent: %s\ndata: %s\n\n" % (self._epoch.encode(), number, kind, data)

    def _tell(self, kind: bytes, data: bytes) -> None:
        self._last += 1
        self._ring.append(self._event(kind, data, self._last))
        news, self._news = self._news, asyncio.Event()
        news.set()

    def _start_reader(self) -> None:
        if self._reader is None or self._reader.done():
            self._reader = asyncio.create_task(self._read())

    async def _read(self) -> None:
        again_s, used = _AGAIN_S[0], time.monotonic()
        while True:
            with contextlib.suppress(Unavailable):
                async with contextlib.aclosing(self._read_changes()) as batches:
                    # Whatever happened before the reading began is known to nobody.
                    is_first = True
                    async for batch in batches:
                        if is_first:
                            self._tell(b"resync", b"{}")
                            is_first, again_s = False, _AGAIN_S[0]
                        if batch.changes:
                            self._tell(b"change", batch.model_dump_json().encode())
                        used = time.monotonic() if self._streams else used
                        if time.monotonic() - used > _LINGER_S:
                            return
            log.warning("live_reader_waits", again_in_s=again_s)
            await asyncio.sleep(again_s)
            again_s = min(again_s * 2, _AGAIN_S[1])


async def _happens(news: asyncio.Event, within_s: float) -> bool:
    try:
        async with asyncio.timeout(within_s):
            await news.wait()
    except TimeoutError:
        return False
    return True
