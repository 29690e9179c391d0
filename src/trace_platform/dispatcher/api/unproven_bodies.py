"""Bodies of senders whom nobody knows yet: a signature is over the whole of a body."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import Request
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from trace_platform.domain.errors import Unavailable


class UnprovenBodies:
    """Counts the bytes that are held, not the senders: those who send little of what they announce
    take nothing from the others. When there are too many, who came first gives way: a body that is
    right is there in a moment."""

    def __init__(self, most_bytes: int, most_held: int, most_checked: int) -> None:
        self._most_bytes, self._most_held = most_bytes, most_held
        self._checked = asyncio.Semaphore(most_checked)
        self._held = 0
        # By age.
        self._waiting: dict[asyncio.Timeout, None] = {}

    @asynccontextmanager
    async def of(self, request: Request) -> AsyncIterator[bytes]:
        """Inside, it is one of those that are checked. Raise HTTPException when it is too large or
        breaks off, Unavailable when it has to give way."""
        body = bytearray()
        try:
            async with asyncio.timeout(None) as given_way:
                self._waiting[given_way] = None
                try:
                    await self._read(request, body)
                    await self._checked.acquire()
                finally:
                    self._waiting.pop(given_way, None)
                    self._held -= len(body)
        except TimeoutError:
            raise Unavailable("too many deliveries arrive", hint="deliver it again") from None
        try:
            yield bytes(body)
        finally:
            self._checked.release()

    async def _read(self, request: Request, body: bytearray) -> None:
        try:
            async for part in request.stream():
                if len(body) + len(part) > self._most_bytes:
                    raise HTTPException(413, f"the body is larger than {self._most_bytes:,} bytes")
                body += part
                self._held += len(part)
                self._make_room()
        except ClientDisconnect:
            raise HTTPException(400, "the body does not arrive") from None

    def _make_room(self) -> None:
        if self._held > self._most_held and self._waiting:
            oldest = next(iter(self._waiting))
            del self._waiting[oldest]
            oldest.reschedule(asyncio.get_running_loop().time())
