"""The body of a request, as it arrives, and whether somebody still waits for the answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from starlette.types import Receive

from trace_platform.domain.errors import BadInput


class BodyTooLarge(BadInput):
    """More than this door takes."""


class RequestBody:
    """Iterated once, by who sends it on. `gone` returns when the client went away."""

    def __init__(self, receive: Receive, max_bytes: int) -> None:
        self._receive = receive
        self._max_bytes = max_bytes
        self._read = asyncio.Event()
        self._went = asyncio.Event()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        seen, more = 0, True
        while more:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                self._went.set()
                raise ConnectionResetError("the client went away")
            part = message.get("body", b"")
            seen += len(part)
            if seen > self._max_bytes:
                raise too_large(self._max_bytes)
            more = message.get("more_body", False)
            if not more:
                self._read.set()
            if part:
                yield part

    def is_empty(self) -> None:
        """Nobody will read it."""
        self._read.set()

    async def gone(self) -> None:
        await self._read.wait()
        while not self._went.is_set():
            if (await self._receive())["type"] == "http.disconnect":
                self._went.set()


def too_large(max_bytes: int) -> BodyTooLarge:
    return BodyTooLarge(f"the body is larger than {max_bytes:,} bytes")
