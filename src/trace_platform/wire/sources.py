"""Sources: how they do, what the scheduler is told and says, and how a delivery is answered."""

from __future__ import annotations

from datetime import datetime
from typing import Literal
from uuid import UUID

from pydantic import AwareDatetime, Field

from trace_platform.wire.fields import DagName, JobName
from trace_platform.wire.task import Strict

# Of one source in one call, and of what it missed.
MAX_TICKS = 1_000

SourceState = Literal[
    "Active", "Pending", "Running", "Stuck", "Dead", "Draining", "Canceled", "Paused"
]


class SourceStatus(Strict):
    dag_name: DagName
    job_name: JobName
    kind: Literal["manual", "always_on", "cron", "webhook"] = Field(
        description="What makes the source emit."
    )
    state: SourceState = Field(
        description="What the source does. `Pending`, `Running`, `Stuck` (it runs and does "
        "not advance), `Dead` (its attempt failed), `Draining` and `Canceled` are states of an "
        "`always_on` source's run; a source without runs is `Active`. `Paused` is any source "
        "that is held."
    )
    run_id: UUID | None = Field(
        default=None,
        description="For `always_on`, id of the run, which stays the same when it is started "
        "again; else null.",
    )
    attempt: int | None = Field(
        default=None, description="For `always_on`, number of the run's newest attempt; else null."
    )
    last: int | None = Field(
        default=None,
        description="For a source that runs, the newest block or tick that it emitted; null "
        "when it does not say.",
    )
    head: int | None = Field(
        default=None,
        description="For a source that runs, the newest block or tick that there is outside; "
        "null when it does not say.",
    )
    heard_s: float | None = Field(
        default=None,
        description="Seconds since the source last heard from the outside; null when it does "
        "not say.",
    )
    stuck: str | None = Field(
        default=None, description="Why the source does not advance; null while it does."
    )
    stuck_s: float | None = Field(
        default=None, description="Seconds for which it has not advanced; null while it does."
    )
    error_code: str | None = Field(
        default=None,
        description="Stable code of the error that ended the last attempt; null when there "
        "was none.",
    )
    error_message: str | None = Field(
        default=None, description="What went wrong, for people; null when nothing did."
    )
    next_retry_at: datetime | None = Field(
        default=None, description="When a dead source is started again; null when it is not."
    )
    last_event_age_s: float | None = Field(
        default=None,
        description="Seconds since the source's newest event; null when there was never one.",
    )
    last_tick: datetime | None = Field(
        default=None, description="For `cron`, the last tick that is done; null otherwise."
    )
    next_tick: datetime | None = Field(
        default=None, description="For `cron`, when the next tick is due; null otherwise."
    )
    path: str | None = Field(
        default=None,
        description="For `webhook`, the path that deliveries are posted to; null otherwise.",
    )


class SourceList(Strict):
    sources: list[SourceStatus] = Field(description="The sources of all active DAGs.")


class Schedule(Strict):
    """A cron source of an active version."""

    dag_name: DagName
    job_name: JobName
    schedule: str = Field(
        description="Minute, hour, day, month and weekday at which the source ticks."
    )
    timezone: str = Field(description="IANA name of the time zone of the schedule.")
    missed: Literal["skip", "latest", "all"] = Field(
        description="What is emitted of ticks that passed while nothing ran."
    )
    last_tick: AwareDatetime = Field(description="Everything up to this time is done.")
    on_hold: bool = Field(
        description="Whether the source is paused. Ticks that pass meanwhile count as missed."
    )


class ScheduleList(Strict):
    now: AwareDatetime = Field(description="The database's time, which alone decides what is due.")
    schedules: list[Schedule] = Field(description="The cron sources of all active DAGs.")


class TickRequest(Strict):
    """Ticks to emit, and up to where the schedule is done: what it skipped is not due again."""

    dag_name: DagName = Field(min_length=1, max_length=128)
    job_name: JobName = Field(min_length=1, max_length=128)
    ticks: list[AwareDatetime] = Field(max_length=MAX_TICKS, description="The ticks to emit.")
    done_until: AwareDatetime | None = Field(
        default=None,
        description="The schedule is done up to this time: ticks before it that are not "
        "given are never due again.",
    )


class HookResponse(Strict):
    accepted: bool = Field(
        description="False when a delivery with the same webhook-id was accepted before."
    )
