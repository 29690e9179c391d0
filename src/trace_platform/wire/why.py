"""Why something waits or is not up to date, and whether an instance is well."""

from __future__ import annotations

from datetime import datetime
from typing import Literal
from uuid import UUID

from pydantic import Field

from trace_platform.wire.fields import (
    DagName,
    DatasetUuid,
    JobName,
    Label,
    Producer,
)
from trace_platform.wire.queues import (
    JobQueue,
)
from trace_platform.wire.task import Strict
from trace_platform.wire.task_status import (
    Status,
)


class Reason(Strict):
    """One thing that answers why; `code` is for programs, `cure` for whoever cannot wait."""

    code: Literal[
        "completed",
        "failed",
        "retry_waits",
        "canceled",
        "running",
        "silent",
        "cancel_requested",
        "runtime_off",
        "paused",
        "held_for_consumer",
        "deferred",
        "pressure",
        "at_limit",
        "no_worker",
        "workers_full",
        "workers_cannot_poll",
        "in_line",
        "wake_up",
        "ready",
        "retrying",
        "failing",
        "source",
        "not_routed",
        "no_events",
        "idle",
        "waits_for_provider",
        # Of datasets.
        "fresh",
        "too_old",
        "building",
        "not_given",
        "invalid",
        "source_down",
        "unmade",
        "source_stuck",
        "source_slots_full",
        "known_wrong",
        "behind",
        "head",
        "check_failed",
        "held_by_check",
    ] = Field(description="Stable code of the reason, for programs.")
    text: str = Field(description="The reason, in one sentence.")
    cure: str | None = Field(
        default=None,
        description="What to do for those who cannot wait; null when nothing has to be done.",
    )


class Place(Strict):
    """Where in line a ready task is. Others may still come first: organisations take turns."""

    in_job: int = Field(description="Place among the ready tasks of the job; 1 is next.")
    of_job: int = Field(description="Number of ready tasks of the job.")
    ahead: int = Field(
        description="Number of ready tasks of the organisation that start before it as "
        "things stand."
    )


class LastEvent(Strict):
    """A dataset that a job reads or writes, and its newest event."""

    dataset: Label
    dataset_uuid: DatasetUuid
    producer: Producer
    event_id: int | None = Field(
        description="Number of the newest event; null when there was never one."
    )
    scope: str | None = Field(
        description="What the event was about: a range, a partition or a cursor. Null "
        "without an event."
    )
    recorded_at: datetime | None = Field(
        description="When the event was recorded; null without an event."
    )
    age_s: float | None = Field(
        description="Seconds since the event was recorded; null without an event."
    )
    routed: bool | None = Field(
        description="Whether the event became tasks, or was found to interest no job; null "
        "without an event."
    )


class Why(Strict):
    """What a task or a job waits for."""

    dag_name: DagName
    job_name: JobName
    task_id: UUID | None = Field(description="Id of the task; null when a job was asked for.")
    status: Status | None = Field(description="The task's status; null when a job was asked for.")
    answer: str = Field(description="What it waits for, in one sentence.")
    reasons: list[Reason] = Field(
        description="Everything that explains it, what matters most first."
    )
    place: Place | None = Field(
        description="Where in line the task is; null when it is not ready, or a job was asked for."
    )
    queue: JobQueue | None = Field(
        description="The queue of the job; null when it has nothing to do."
    )
    inputs: list[LastEvent] = Field(
        description="The datasets that the job reads, each with its newest event."
    )
    outputs: list[LastEvent] = Field(
        description="The datasets that the job writes, each with its newest event."
    )


class HealthRule(Strict):
    code: Literal[
        "queue_depth",
        "failure_rate",
        "source_heartbeat",
        "workers_at_capacity",
        "dataset_freshness",
        "database_locks",
        "outages",
        "alerts",
        "lineage_events",
    ] = Field(description="Stable code of the rule, for programs.")
    firing: bool = Field(description="Whether the rule is broken now.")
    value: float = Field(description="The figure that the rule watches.")
    limit: float = Field(description="The rule fires when the figure is above this.")
    text: str = Field(description="What the figure means at the moment, in one sentence.")


class Health(Strict):
    firing: bool = Field(description="Whether at least one rule fires.")
    rules: list[HealthRule] = Field(description="Every rule, firing or not.")
