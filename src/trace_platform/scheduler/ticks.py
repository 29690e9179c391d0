"""Which ticks of a schedule are due, and what becomes of those that were missed. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice, takewhile

from trace_platform.domain.cron import next_tick, ticks_until
from trace_platform.wire.sources import MAX_TICKS, Schedule

# A tick that is no older is on time, whatever the policy for missed ones.
ON_TIME_S = 60


@dataclass(frozen=True, slots=True)
class Due:
    """`ticks` in order, to be emitted; up to `done_until` nothing else will be."""

    ticks: list[datetime]
    done_until: datetime
    # There were more than may be emitted: the oldest are left out.
    cut: bool = False


def due_ticks(schedule: Schedule, now: datetime) -> Due | None:
    """What is due since the last tick; None: nothing.

    Several: `skip` emits the newest if it is on time, `latest` the newest, `all` up to a thousand.
    """
    passed = takewhile(
        lambda tick: tick > schedule.last_tick,
        ticks_until(schedule.schedule, schedule.timezone, now),
    )
    # The newest first, and no more than are looked at: a long absence costs no more than a short.
    newest = list(islice(passed, MAX_TICKS + 1 if schedule.missed == "all" else 1))
    if not newest:
        return None
    if schedule.missed == "skip" and newest[0] < now - timedelta(seconds=ON_TIME_S):
        return Due([], newest[0])
    return Due(newest[MAX_TICKS - 1 :: -1], newest[0], cut=len(newest) > MAX_TICKS)


def pause_s(schedules: Iterable[Schedule], now: datetime, at_most_s: float) -> float:
    """How long until the next tick of any of them."""
    coming = (next_tick(each.schedule, each.timezone, now) for each in schedules)
    waits = [(tick - now).total_seconds() for tick in coming if tick is not None]
    return min([at_most_s, *waits])
