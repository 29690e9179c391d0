"""The scheduler process: what is due is told, again and again.

The Dispatcher keeps what was done and the database's time decides, so that several schedulers, or
one that was away, do no harm.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from typing import Protocol

import structlog

from trace_platform.domain.errors import JobOnHold, TraceError, Unavailable
from trace_platform.scheduler.ticks import Due, due_ticks, pause_s
from trace_platform.wire.sources import Schedule, ScheduleList, TickRequest

log = structlog.get_logger()

# A deploy is noticed within this.
POLL_S = 1.0
# Between two looks when a tick is just about to come.
LEAST_PAUSE_S = 0.02


class Dispatcher(Protocol):
    """Both may be called again and again: a tick that was told twice is one event."""

    def schedules(self) -> ScheduleList: ...
    def tick(self, request: TickRequest) -> int: ...


class Scheduler:
    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._stopping = threading.Event()

    def run(self, on_ready: Callable[[], None]) -> None:
        """Until SIGTERM or SIGINT."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self._stopping.set())
        on_ready()
        log.info("scheduler_ready")
        while not self._stopping.is_set():
            self._stopping.wait(max(self.turn(), LEAST_PAUSE_S))

    def turn(self) -> float:
        """Tell what is due. How long there is nothing to do."""
        try:
            found = self._dispatcher.schedules()
            for schedule in found.schedules:
                self._tell(schedule, found)
            return pause_s(found.schedules, found.now, POLL_S)
        except Unavailable as error:
            log.warning("scheduler_waits", reason=error.message)
        except Exception:
            # The next turn finds the same ticks due.
            log.exception("turn_failed")
        return POLL_S

    def _tell(self, schedule: Schedule, found: ScheduleList) -> None:
        due = None if schedule.on_hold else due_ticks(schedule, found.now)
        if due is None:
            return
        source = f"{schedule.dag_name}.{schedule.job_name}"
        try:
            accepted = self._dispatcher.tick(_request(schedule, due))
        except Unavailable:
            raise
        except JobOnHold:
            return  # paused since it was asked for: then they are missed ticks
        except TraceError as error:
            # One source that is refused keeps no other waiting.
            log.error("tick_refused", source=source, code=error.code, reason=error.message)
            return
        _say(schedule, due, source, accepted)


def _request(schedule: Schedule, due: Due) -> TickRequest:
    return TickRequest(
        dag_name=schedule.dag_name,
        job_name=schedule.job_name,
        ticks=due.ticks,
        done_until=due.done_until,
    )


def _say(schedule: Schedule, due: Due, source: str, accepted: int) -> None:
    if due.cut:
        log.warning(
            "missed_ticks_cut",
            source=source,
            emitted=len(due.ticks),
            since=schedule.last_tick.isoformat(),
            left_out_before=due.ticks[0].isoformat(),
        )
    log.info("ticked", source=source, ticks=len(due.ticks), accepted=accepted)
