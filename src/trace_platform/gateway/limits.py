"""How much one caller, and all of them, may ask."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator

from trace_platform.domain.errors import TooManyRequests

_MOST_CALLERS = 10_000


class Rate:
    """So many requests a second of each caller, after a burst."""

    def __init__(
        self, per_second: float, burst: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._per_second, self._burst, self._clock = per_second, burst, clock
        # By caller: what is left, and when that was so. The oldest are forgotten: they are full.
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, caller: str) -> None:
        """Raise TooManyRequests when nothing is left."""
        now = self._clock()
        left, since = self._left.pop(caller, (self._burst, now))
        left = min(self._burst, left + (now - since) * self._per_second)
        self._left[caller] = (max(left - 1, 0.0) if left >= 1 else left, now)
        if len(self._left) > _MOST_CALLERS:
            self._left.popitem(last=False)
        if left < 1:
            wait_s = max(1, round((1 - left) / self._per_second))
            raise TooManyRequests(
                f"more than {self._per_second:g} requests a second", retry_after_s=wait_s
            )


class AtOnce:
    """So many requests of one caller, and of all, under way."""

    def __init__(self, of_one: int, of_all: int) -> None:
        self._of_one, self._of_all = of_one, of_all
        self._running: Counter[str] = Counter()
        self._all = 0

    @contextlib.contextmanager
    def one(self, caller: str) -> Iterator[None]:
        """Raise TooManyRequests when there are as many."""
        if self._running[caller] >= self._of_one or self._all >= self._of_all:
            raise TooManyRequests("as many requests as may be are under way", retry_after_s=1)
        self._running[caller] += 1
        self._all += 1
        try:
            yield
        finally:
            self._all -= 1
            self._running[caller] -= 1
            if not self._running[caller]:
                del self._running[caller]


class OldestGivesWay:
    """So many requests under way of senders whom only the service behind can tell: one more ends
    the oldest. Whoever holds theirs open keeps nobody out."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._running: dict[asyncio.Timeout, None] = {}

    @contextlib.asynccontextmanager
    async def one(self) -> AsyncIterator[None]:
        """Raise TooManyRequests when it had to give way."""
        if len(self._running) >= self._most:
            oldest = next(iter(self._running))
            del self._running[oldest]
            oldest.reschedule(asyncio.get_running_loop().time())
        given = asyncio.timeout(None)
        try:
            async with given:
                self._running[given] = None
                yield
        except TimeoutError:
            if not given.expired():
                raise
            raise TooManyRequests("others came meanwhile", retry_after_s=1) from None
        finally:
            self._running.pop(given, None)
