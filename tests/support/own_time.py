"""An event loop with a time of its own: it passes when everybody waits, and costs nothing."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _Waiting(selectors.DefaultSelector):
    """Instead of waiting it moves the time on."""

    now = 1000.0

    def select(self, timeout: float | None = None) -> list[Any]:
        assert timeout is not None, "everybody waits, and for nothing"
        self.now += timeout
        return super().select(0)


def run_in_own_time(work: Coroutine[Any, Any, T]) -> T:
    """Sleeps and time-outs inside of `work` end in order, at once."""
    waiting = _Waiting()

    def loop() -> asyncio.AbstractEventLoop:
        made = asyncio.SelectorEventLoop(waiting)
        made.time = lambda: waiting.now  # type: ignore[method-assign]
        return made

    with asyncio.Runner(loop_factory=loop) as runner:
        return runner.run(work)
