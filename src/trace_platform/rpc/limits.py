"""How fast and how many at once a provider may be asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Rate:
    """A token bucket of one second. A reservation is never refused: it says how long to wait, and
    the next one waits longer."""

    def __init__(self, per_second: float | None, clock: Callable[[], float]) -> None:
        self._per_second = per_second
        self._clock = clock
        self._free_at = 0.0

    def wait_s(self) -> float:
        """How long a question would wait now."""
        if self._per_second is None:
            return 0.0
        return max(0.0, self._free_at - self._clock())

    def reserve(self, calls: int) -> float:
        """Take so many calls; returns how long to wait before they may be sent."""
        if self._per_second is None:
            return 0.0
        now = self._clock()
        # Up to a second's worth that was not used may go at once.
        start = max(self._free_at, now - 1.0)
        self._free_at = start + calls / self._per_second
        return max(0.0, self._free_at - now)


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
