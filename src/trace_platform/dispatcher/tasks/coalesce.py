"""Many callers, one transaction: what arrives while a batch is under way becomes the next batch."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from trace_platform.domain.errors import TraceError

Item = TypeVar("Item")
Answer = TypeVar("Answer")


class Coalesced(Generic[Item, Answer]):
    """`await call(item)` as if alone. The batch gives an answer or an error for each item, in
    order; a batch that fails as a whole fails for everybody in it."""

    def __init__(
        self, run: Callable[[list[Item]], Awaitable[list[Answer | TraceError]]], limit: int = 500
    ) -> None:
        self._run = run
        self._limit = limit
        self._waiting: list[tuple[Item, asyncio.Future[Answer]]] = []
        self._worker: asyncio.Task[None] | None = None

    async def call(self, item: Item) -> Answer:
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        if self._worker is None:
            self._worker = asyncio.create_task(self._work())
        return await future

    async def _work(self) -> None:
        try:
            while self._waiting:
                batch = self._waiting[: self._limit]
                del self._waiting[: self._limit]
                await self._settle(batch)
        finally:
            self._worker = None

    async def _settle(self, batch: list[tuple[Item, asyncio.Future[Answer]]]) -> None:
        answers: list[Answer | TraceError] | list[BaseException]
        try:
            answers = await self._run([item for item, _ in batch])
        except BaseException as error:
            answers = [error] * len(batch)
        for (_, future), answer in zip(batch, answers, strict=True):
            if future.done():  # its caller went away
                continue
            if isinstance(answer, BaseException):
                future.set_exception(answer)
            else:
                future.set_result(answer)
