"""How fast and how many at once a provider may be asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

# What was not used for longer is lost: a second's worth may go at once.
_SAVED_S = 1.0


class Rate:
    """So many calls a second. Who has to wait stands in line, and pays when it sends: who leaves
    the line has used nothing."""

    def __init__(self, per_second: float | None, clock: Callable[[], float]) -> None:
        self._call_s = 1.0 / per_second if per_second is not None else 0.0
        self._clock = clock
        # Until then everything is used.
        self._used_until = 0.0
        self._calls_in_line = 0
        self._line = asyncio.Lock()

    def takes_s(self, calls: int) -> float:
        """How much of the rate so many calls use."""
        return calls * self._call_s

    def wait_s(self, calls: int = 0) -> float:
        """How long so many calls would wait now, behind those in line."""
        if not self._call_s:
            return 0.0
        self._forget_unused()
        free_at = self._used_until + self.takes_s(self._calls_in_line + calls)
        return max(0.0, free_at - self._clock())

    @asynccontextmanager
    async def turn(self, calls: int) -> AsyncIterator[None]:
        """Wait in line until so many may be sent. They are paid for when the body ends well."""
        if not self._call_s:
            yield
            return
        self._forget_unused()
        self._calls_in_line += calls
        try:
            async with self._line:
                takes_s = self.takes_s(calls)
                # What one that left had waited for is not lost; nor does more of it add up than
                # this one needs.
                saved_s = max(_SAVED_S, takes_s)
                self._used_until = max(self._used_until, self._clock() - saved_s)
                await asyncio.sleep(max(0.0, self._used_until + takes_s - self._clock()))
                yield
                self._used_until += takes_s
        finally:
            self._calls_in_line -= calls

    def sent_out_of_turn(self, calls: int) -> None:
        """The next ones wait for them too, but no longer than a second: such calls alone must not
        use up a small rate."""
        self._forget_unused()
        latest = max(self._used_until, self._clock() + _SAVED_S)
        self._used_until = min(self._used_until + self.takes_s(calls), latest)

    def _forget_unused(self) -> None:
        if not self._calls_in_line:
            self._used_until = max(self._used_until, self._clock() - _SAVED_S)


class Slots:
    """So many questions at once; the rest wait in line."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.busy = 0
        self.waiting = 0
        self._gate = asyncio.Semaphore(most)

    @property
    def load(self) -> float:
        return (self.busy + self.waiting) / self.most

    async def take(self) -> None:
        self.waiting += 1
        try:
            await self._gate.acquire()
        finally:
            self.waiting -= 1
        self.busy += 1

    def free(self) -> None:
        self.busy -= 1
        self._gate.release()
