"""How many queries run at once, whose turn is next, and who is told to come back."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import math
from collections import Counter, deque
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from trace_platform.domain.errors import TooManyQueries


@dataclass(eq=False, slots=True)
class _Waiter:
    caller: str
    is_task: bool
    may_be_quick: bool
    # Whether the place is the quick one, once it has one.
    place: asyncio.Future[bool] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )


class Admission:
    """So many places, and one more for queries that are quick.

    No caller holds all places, and tasks leave one to users. Those who wait take turns by caller:
    however many one of them has asked, the next place is another's. Nobody has more than
    `per_caller` queries, running or waiting.
    """

    def __init__(
        self, running: int, waiting: int = 16, per_caller: int = 8, max_wait_s: float = 10.0
    ) -> None:
        self._size, self._max_waiting = running, waiting
        # The most that one caller, or all tasks together, may hold of the places.
        self._share = max(1, running - 1)
        self._per_caller, self._max_wait_s = per_caller, max_wait_s
        self._asked: Counter[str] = Counter()
        self._taken: Counter[str] = Counter()
        self._taken_by_tasks = 0
        self._quick_is_free = True
        self._lines: dict[str, deque[_Waiter]] = {}
        # The number of their last place, of callers who ask something.
        self._last_turn: dict[str, int] = {}
        self._turns = itertools.count(1)
        self.running = 0

    @property
    def waiting(self) -> int:
        return sum(map(len, self._lines.values()))

    @contextlib.asynccontextmanager
    async def place(
        self, caller: str, *, is_task: bool = False, may_be_quick: bool = False
    ) -> AsyncIterator[bool]:
        """Whether it is the quick one, which is only for a moment and only given where no other
        is free. Raise TooManyQueries when there is none, or none in time."""
        if self._asked[caller] >= self._per_caller:
            raise self._refusal(f"you have {self._per_caller} queries under way")
        waiter = _Waiter(caller, is_task, may_be_quick)
        self._asked[caller] += 1
        try:
            is_quick = await self._turn(waiter)
            try:
                yield is_quick
            finally:
                self._leave(waiter, is_quick=is_quick)
        finally:
            self._asked[caller] -= 1
            if not self._asked[caller]:
                del self._asked[caller]
                self._last_turn.pop(caller, None)

    async def _turn(self, waiter: _Waiter) -> bool:
        self._lines.setdefault(waiter.caller, deque()).append(waiter)
        self._give_places()
        try:
            self._refuse_beyond_queue(waiter)
            async with asyncio.timeout(self._max_wait_s):
                return await waiter.place
        except BaseException as error:
            self._forget(waiter)
            if isinstance(error, TimeoutError):
                raise self._refusal(self._busy()) from None
            raise

    def _refuse_beyond_queue(self, waiter: _Waiter) -> None:
        # A user who asks nothing else may always wait: there are only so many of them.
        may_wait = not waiter.is_task and self._asked[waiter.caller] == 1
        if not (waiter.place.done() or may_wait) and self.waiting > self._max_waiting:
            self._remove(waiter)
            raise self._refusal(self._busy())

    def _give_places(self) -> None:
        while (waiter := self._next()) or (waiter := self._next_quick()):
            is_quick = not self._has_place(waiter)
            self._remove(waiter)
            if not waiter.place.cancelled():  # its caller left, and is about to say so
                self._take(waiter, is_quick=is_quick)
                waiter.place.set_result(is_quick)

    def _next(self) -> _Waiter | None:
        firsts = (line[0] for line in self._in_turn())
        return next(filter(self._has_place, firsts), None)

    def _next_quick(self) -> _Waiter | None:
        if not self._quick_is_free:
            return None
        every = (waiter for line in self._in_turn() for waiter in line)
        return next((waiter for waiter in every if waiter.may_be_quick), None)

    def _in_turn(self) -> list[deque[_Waiter]]:
        """Whose last place is the longest ago comes first."""
        callers = sorted(self._lines, key=lambda caller: self._last_turn.get(caller, 0))
        return [self._lines[caller] for caller in callers]

    def _has_place(self, waiter: _Waiter) -> bool:
        return (
            self._taken.total() < self._size
            and self._taken[waiter.caller] < self._share
            and not (waiter.is_task and self._taken_by_tasks >= self._share)
        )

    def _take(self, waiter: _Waiter, *, is_quick: bool) -> None:
        self.running += 1
        self._last_turn[waiter.caller] = next(self._turns)
        if is_quick:
            self._quick_is_free = False
        else:
            self._taken[waiter.caller] += 1
            self._taken_by_tasks += waiter.is_task

    def _leave(self, waiter: _Waiter, *, is_quick: bool) -> None:
        self.running -= 1
        if is_quick:
            self._quick_is_free = True
        else:
            self._taken[waiter.caller] -= 1
            self._taken += Counter()
            self._taken_by_tasks -= waiter.is_task
        self._give_places()

    def _remove(self, waiter: _Waiter) -> None:
        line = self._lines[waiter.caller]
        line.remove(waiter)
        if not line:
            del self._lines[waiter.caller]

    def _forget(self, waiter: _Waiter) -> None:
        """One that does not wait any more, whether it just got a place or not."""
        if waiter in self._lines.get(waiter.caller, ()):
            self._remove(waiter)
        elif waiter.place.done() and not waiter.place.cancelled():
            self._leave(waiter, is_quick=waiter.place.result())

    def _busy(self) -> str:
        return f"{self._size} queries are running and {self.waiting} are waiting"

    def _refusal(self, reason: str) -> TooManyQueries:
        # The longer the queue, the later: those who come back together do not meet again at once.
        after = 1 + math.ceil(self.waiting / max(1, self._size) / 4)
        return TooManyQueries(reason, hint=f"try again in {after} s", retry_after_s=after)
