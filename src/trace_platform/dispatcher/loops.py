"""Verbs on a timer. Every loop is safe to run in several dispatchers at once."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import structlog

from trace_platform.domain.errors import Unavailable

log = structlog.get_logger()


class Wake:
    """Wakes every loop that waits for it. Each has an event of its own, so none takes it away."""

    def __init__(self) -> None:
        self._events: list[asyncio.Event] = []

    def set(self) -> None:
        for event in self._events:
            event.set()

    def subscribe(self) -> asyncio.Event:
        self._events.append(asyncio.Event())
        return self._events[-1]


async def repeat(
    name: str,
    verb: Callable[[], Awaitable[int]],
    interval_s: float,
    wake: asyncio.Event | None = None,
) -> None:
    """Run the verb for ever: again at once while it finds work, else after the interval or `wake`.

    An error is logged and the loop goes on: the work it did not do is still in Postgres.
    """
    failures = 0
    while True:
        if wake is not None:
            wake.clear()
        found = 0
        try:
            found = await verb()
            failures = 0
        except Unavailable as error:
            failures += 1
            log.warning("loop_waits", loop=name, reason=error.message)
        except Exception:
            failures += 1
            log.exception("loop_failed", loop=name)
        if not found:
            await _pause(max(interval_s, min(interval_s * 2 ** min(failures, 5), 5.0)), wake)


async def _pause(seconds: float, wake: asyncio.Event | None) -> None:
    if wake is None:
        await asyncio.sleep(seconds)
        return
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(wake.wait(), seconds)
