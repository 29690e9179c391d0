"""Sources: how they do, what the scheduler is told and says, and how a delivery is answered."""

from __future__ import annotations

from datetime import datetime
from typing import Literal
from uuid import UUID

from pydantic import AwareDatetime, Field

from trace_platform.wire.task import Strict

# Of one source in one call, and of what it missed.
MAX_TICKS = 1_000

# Pending, Running, Dead and Draining are the life of a run; what has none is Active.
# Stuck: it runs, and does not get on.
SourceState = Literal[
    "Active", "Pending", "Running", "Stuck", "Dead", "Draining", "Canceled", "Paused"
]


class SourceStatus(Strict):
    dag_name: str
    job_name: str
    kind: Literal["manual", "always_on", "cron", "webhook"]
    state: SourceState
    # Of always_on: the run, which keeps its id however often it is started again.
    run_id: UUID | None = None
    attempt: int | None = None
    # Of one that runs: how far it is and how far the outside, how long ago that was heard of, and
    # why it does not get on, since when.
    last: int | None = None
    head: int | None = None
    heard_s: float | None = None
    stuck: str | None = None
    stuck_s: float | None = None
    # Why it is Dead, and when it is tried again.
    error_code: str | None = None
    error_message: str | None = None
    next_retry_at: datetime | None = None
    # None when there was never one.
    last_event_age_s: float | None = None
    # Of cron.
    last_tick: datetime | None = None
    next_tick: datetime | None = None
    # Of webhook: where deliveries are posted to.
    path: str | None = None


class SourceList(Strict):
    sources: list[SourceStatus]


class Schedule(Strict):
    """A cron source of an active version."""

    dag_name: str
    job_name: str
    schedule: str
    timezone: str
    missed: Literal["skip", "latest", "all"]
    # Everything up to here is done.
    last_tick: AwareDatetime
    # It emits nothing: what passes meanwhile is missed.
    on_hold: bool


class ScheduleList(Strict):
    # The database's time, the only one that decides.
    now: AwareDatetime
    schedules: list[Schedule]


class TickRequest(Strict):
    """Ticks to emit, and up to where the schedule is done: what it skipped is not due again."""

    dag_name: str = Field(min_length=1, max_length=128)
    job_name: str = Field(min_length=1, max_length=128)
    ticks: list[AwareDatetime] = Field(max_length=MAX_TICKS)
    done_until: AwareDatetime | None = None


class HookResponse(Strict):
    # False when this webhook-id was delivered before.
    accepted: bool
