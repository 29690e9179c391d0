"""Tells the Dispatcher which queries there were: in batches, and never their text."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections import deque

import structlog

from trace_platform.domain.errors import BadInput, TraceError, Unavailable
from trace_platform.query.service.dispatcher_client import DispatcherClient
from trace_platform.wire.query import QueryRecord

log = structlog.get_logger()

_PAUSE_S = 0.25
_RECORD_S = 5.0
_BATCH = 500
# While the Dispatcher is away.
_MOST = 10_000


class History:
    def __init__(self, dispatcher: DispatcherClient) -> None:
        self._dispatcher = dispatcher
        self._waiting: deque[QueryRecord] = deque(maxlen=_MOST)
        self._sending: asyncio.Task[None] | None = None

    def add(self, record: QueryRecord) -> None:
        """Recorded soon."""
        if len(self._waiting) == _MOST:
            log.warning("query_history_lost", query_id=str(self._waiting[0].query_id))
        self._waiting.append(record)
        if self._sending is None or self._sending.done():
            self._sending = asyncio.create_task(self._send())

    async def record(self, record: QueryRecord) -> None:
        """Recorded when this returns: before anybody is shown what it is about."""
        try:
            async with asyncio.timeout(_RECORD_S):
                await self._dispatcher.record([record])
        except TimeoutError:
            raise Unavailable(
                "the query could not be put on record, and so is not answered", hint="try again"
            ) from None

    async def close(self) -> None:
        """What waits is sent, if the Dispatcher takes it now."""
        if self._sending is not None:
            self._sending.cancel()
            await asyncio.gather(self._sending, return_exceptions=True)
        with contextlib.suppress(TraceError, TimeoutError):
            async with asyncio.timeout(2):
                while self._waiting:
                    await self._send_batch()

    async def _send(self) -> None:
        while self._waiting:
            await asyncio.sleep(_PAUSE_S)
            try:
                await self._send_batch()
            except TraceError as error:
                log.warning("query_history_waits", code=error.code, records=len(self._waiting))

    async def _send_batch(self) -> None:
        batch = list(itertools.islice(self._waiting, _BATCH))
        try:
            await self._dispatcher.record(batch)
        except BadInput as error:
            # It would be refused for ever, and hold up all that follow.
            log.error("query_history_refused", reason=error.message, records=len(batch))
        sent = set(map(id, batch))
        while self._waiting and id(self._waiting[0]) in sent:
            self._waiting.popleft()
