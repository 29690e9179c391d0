"""How many queries run at once: a few more wait for a moment, the rest are told to come back."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections import Counter
from collections.abc import AsyncIterator

from trace_platform.domain.errors import TooManyQueries


class Admission:
    """First come, first served; nobody holds more than `per_caller` places, running or waiting, and
    tasks leave one to users."""

    def __init__(
        self, running: int, waiting: int = 16, per_caller: int = 8, max_wait_s: float = 10.0
    ) -> None:
        self._size, self._max_waiting = running, waiting
        self._per_caller, self._max_wait_s = per_caller, max_wait_s
        self._free = asyncio.Semaphore(running)
        self._free_for_tasks = asyncio.Semaphore(max(1, running - 1))
        self._held: Counter[str] = Counter()
        self.running = self.waiting = 0

    @contextlib.asynccontextmanager
    async def place(self, caller: str, *, is_task: bool = False) -> AsyncIterator[None]:
        """Raise TooManyQueries when there is none, or none in time."""
        if self._held[caller] >= self._per_caller:
            raise self._refusal(f"you have {self._per_caller} queries under way")
        self._held[caller] += 1
        try:
            async with contextlib.AsyncExitStack() as places:
                await self._wait(places, is_task=is_task)
                self.running += 1
                try:
                    yield
                finally:
                    self.running -= 1
        finally:
            self._held[caller] -= 1
            self._held += Counter()  # those who hold nothing are forgotten

    async def _wait(self, places: contextlib.AsyncExitStack, *, is_task: bool) -> None:
        full = self._free.locked() or (is_task and self._free_for_tasks.locked())
        if full and self.waiting >= self._max_waiting:
            raise self._refusal(self._busy())
        self.waiting += 1
        try:
            async with asyncio.timeout(self._max_wait_s):
                if is_task:
                    await places.enter_async_context(self._free_for_tasks)
                await places.enter_async_context(self._free)
        except TimeoutError:
            raise self._refusal(self._busy()) from None
        finally:
            self.waiting -= 1

    def _busy(self) -> str:
        return f"{self._size} queries are running and {self.waiting} are waiting"

    def _refusal(self, reason: str) -> TooManyQueries:
        # The longer the queue, the later: those who come back together do not meet again at once.
        after = 1 + math.ceil(self.waiting / max(1, self._size) / 4)
        return TooManyQueries(reason, hint=f"try again in {after} s", retry_after_s=after)
