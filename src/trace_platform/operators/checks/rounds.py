"""When a source that looks after something looks again: by the database's clock."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from trace_platform.operators.contract import TaskContext

# A directive is noticed within this.
_NAP_S = 0.1


def rounds(
    task: TaskContext,
    every_seconds: float,
    now: Callable[[], float],
    nap: Callable[[float], None],
) -> Iterator[tuple[int, float]]:
    """The number of each round since 1970 and the time that it begins, until the task drains. One
    that takes longer than `every_seconds` leaves others out; none comes twice."""
    last = -1
    while not task.draining():
        task.check()
        time_s = now()
        number = math.floor(time_s / every_seconds)
        # The clock may be set back: then its rounds were had before.
        if number > last:
            last = number
            yield number, time_s
            continue
        _wait(task, (last + 1) * every_seconds - time_s, every_seconds, nap)


def _wait(
    task: TaskContext, left_s: float, every_seconds: float, nap: Callable[[float], None]
) -> None:
    """Without asking for the time on the way."""
    left_s = min(max(left_s, 0.001), every_seconds)
    while left_s > 0 and not task.draining():
        task.check()
        nap(min(left_s, _NAP_S))
        left_s -= _NAP_S
