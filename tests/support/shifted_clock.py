"""Another machine's wall clock: what this process believes the time to be.

Durations (`time.monotonic`) stay right, as they do on a machine whose date is wrong.
"""

from __future__ import annotations

import datetime
import time
from typing import Any

_Real = datetime.datetime


def shift_wall_clock(by_s: float) -> None:
    """Before anything else is imported: a module keeps the `datetime` that it found."""
    now, now_ns, by = time.time, time.time_ns, datetime.timedelta(seconds=by_s)

    class AnyDatetime(type):
        def __instancecheck__(cls, value: object) -> bool:
            return isinstance(value, _Real)

    class Shifted(_Real, metaclass=AnyDatetime):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> Any:
            return _Real.now(tz) + by

        @classmethod
        def today(cls) -> Any:
            return _Real.now() + by

    time.time = lambda: now() + by_s
    time.time_ns = lambda: now_ns() + int(by_s * 1e9)
    datetime.datetime = Shifted  # type: ignore[misc]
