"""The times of a schedule, in its own time zone.

Around a change of the clock they are those of Debian's cron. A schedule that names its hour and its
minute runs once a day whatever the clock does: a time that is skipped counts as the first moment
after the gap, a time that comes twice counts the first time. One whose minute or hour starts with a
star is an interval: it runs through the gap and through both of the repeated hours.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

from cronsim import CronSim

# Within the repeated hour a time of day does not say which of the two it is: so the search starts
# clear of it, and what lies on the wrong side is left out.
_CLEAR = timedelta(hours=3)


def ticks_after(schedule: str, timezone: str, moment: datetime) -> Iterator[datetime]:
    """In UTC, the earliest first; ends when there are none for decades."""
    start = (moment - _CLEAR).astimezone(_zone(timezone))
    for tick in CronSim(schedule, start):
        found = tick.astimezone(UTC)
        if found > moment:
            yield found


def ticks_until(schedule: str, timezone: str, moment: datetime) -> Iterator[datetime]:
    """In UTC, the latest first: the moment itself counts."""
    start = (moment + _CLEAR).astimezone(_zone(timezone))
    for tick in CronSim(schedule, start, reverse=True):
        found = tick.astimezone(UTC)
        if found <= moment:
            yield found


def next_tick(schedule: str, timezone: str, moment: datetime) -> datetime | None:
    return next(ticks_after(schedule, timezone, moment), None)


def overdue_at(schedule: str, timezone: str, last: datetime, grace_s: float) -> datetime | None:
    """When, with `last` as the newest tick, more than a single one is missing."""
    ticks = ticks_after(schedule, timezone, last)
    next(ticks, None)
    second = next(ticks, None)
    return None if second is None else second + timedelta(seconds=grace_s)


def _zone(name: str) -> tzinfo:
    return UTC if name == "UTC" else ZoneInfo(name)
