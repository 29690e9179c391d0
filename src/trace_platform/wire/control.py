"""The user's control API: deploy, trigger, look, pause, ask why."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from pydantic import Field

from trace_platform.wire.task import BlockNumber, EventScope, Strict


class DeployRequest(Strict):
    yaml: str
    file: str = Field(default="dag.yaml", max_length=512)
    # Refused unless this is exactly what it would do.
    plan_hash: str | None = Field(default=None, pattern="^[0-9a-f]{64}$")


class DeployResponse(Strict):
    """Building: the old version serves until everything is built, and then gives way at once."""

    dag_name: str
    dag_version: UUID
    # None when the version was active already.
    deploy_id: UUID | None
    status: Literal["CutOver", "Building", "Unchanged"]
    new: bool
    jobs: list[str]
    # Jobs whose definition is new.
    added: list[str]
    # Jobs whose data is built.
    builds: list[str]


class RollbackResponse(Strict):
    dag_name: str
    dag_version: UUID
    # The version that is not active any more, or was being built and never was.
    instead_of: UUID
    # None when a version that was being built was given up and nothing else changed.
    deploy_id: UUID | None


class TriggerRequest(Strict):
    """The block range that a manual source shall emit."""

    start: BlockNumber
    end: BlockNumber
    output: int = Field(default=0, ge=0)


class EmitRequest(Strict):
    """Events of one dataset: by its published name, its uuid, or as DAG.JOB.OUTPUT."""

    dataset: str = Field(min_length=1, max_length=512)
    # The current generation unless another is named.
    dataset_version: UUID | None = None
    events: list[EventScope] = Field(min_length=1, max_length=100_000)


class JobStatus(Strict):
    name: str
    operator: str | None
    # Tasks by status; a failed one that will run again counts as Retrying.
    counts: dict[str, int]


class DatasetStatus(Strict):
    name: str
    dataset_uuid: UUID
    dataset_version: UUID
    partitions: int
    row_count: int
    byte_count: int
    first_block: int | None
    last_block: int | None


class DagStatus(Strict):
    dag_name: str
    # The database's time: what `since` is measured against.
    as_of: datetime
    # Events that this DAG reads are recorded and did not become tasks yet.
    routing: bool
    jobs: list[JobStatus]
    datasets: list[DatasetStatus]


Status = Literal["Queued", "Running", "Completed", "Failed", "Canceled"]


class TaskStatus(Strict):
    task_id: UUID
    dag_name: str
    job_name: str
    status: Status
    attempt: int
    progress: dict[str, Any] | None
    inputs: list[dict[str, Any]]
    error_code: str | None
    error_message: str | None
    next_retry_at: datetime | None
    created_at: datetime
    started_at: datetime | None
    completed_at: datetime | None
    # It waits for the pressure on its job to fall.
    pending_backpressure: bool = False
    # Why it committed nothing, though it completed.
    note: str | None = None


class TaskList(Strict):
    tasks: list[TaskStatus]


class TaskAction(Strict):
    """The task's status once it was canceled or retried."""

    status: str


class AttemptStatus(Strict):
    """One attempt, for good: nothing of it changes once it ended."""

    attempt: int
    worker_id: str
    started_at: datetime
    # These two are absent while it runs.
    ended_at: datetime | None
    outcome: Literal["Completed", "Failed", "Canceled", "LeaseExpired"] | None
    error_code: str | None
    error_message: str | None
    has_log: bool


Priority = Literal["high", "normal", "low"]
PRIORITIES: tuple[Priority, ...] = ("high", "normal", "low")


class JobLimits(Strict):
    """What the job's definition allows; None is no limit."""

    runtime: str
    operator: str | None
    priority: Priority
    max_attempts: int
    timeout_seconds: float
    heartbeat_timeout_seconds: float
    max_concurrency: int | None
    max_queue_depth: int | None
    max_queue_age_s: float | None
    pressure_mode: Literal["pause", "coalesce", "drop_oldest"] | None


class PinnedOutput(Strict):
    """The generation of one output that the newest attempt writes."""

    output_index: int
    name: str
    dataset_uuid: UUID
    dataset_version: UUID


class TaskDetail(TaskStatus):
    """A task with its history."""

    queued_at: datetime
    # The newest attempt's.
    worker_id: str | None
    lease_expires_at: datetime | None
    cancel_requested_at: datetime | None
    # Attempts that do not count against max_attempts.
    forgiven: int
    outputs: list[PinnedOutput]
    limits: JobLimits
    attempts: list[AttemptStatus]


class TaskLog(Strict):
    """What one attempt said, oldest first; a line that is no JSON object is an `event` of one."""

    task_id: UUID
    attempt: int
    lines: list[dict[str, Any]]


class EventRecord(Strict):
    event_id: int
    dataset_uuid: UUID
    # None unless the dataset is published.
    dataset_name: str | None
    dag_name: str
    job_name: str
    output_index: int
    dataset_version: UUID
    # Of the generation that is routed: events of older ones are kept, and make no tasks.
    current: bool
    cursor: int | None
    partition_key: str | None
    start: int | None
    end: int | None
    producer_task_id: UUID | None
    producer_attempt: int | None
    recorded_at: datetime
    # None until it became tasks, or was found to interest nobody.
    routed_at: datetime | None


class EventList(Strict):
    events: list[EventRecord]


class PauseRequest(Strict):
    reason: str | None = Field(default=None, min_length=1, max_length=500)


class Hold(Strict):
    """Why a job starts no tasks of these priorities."""

    # 'user', or the consumer as DAG.JOB whose queue is too long.
    cause: str
    priorities: list[Priority]
    reason: str
    since: datetime


class JobHolds(Strict):
    """What holds the job now."""

    dag_name: str
    job_name: str
    # False when it was so before.
    changed: bool
    holds: list[Hold]


class Pressure(Strict):
    """A queue that passed a limit and did not fall below half of it yet."""

    # Tasks of these are deferred, merged or dropped, by the job's mode.
    priorities: list[Priority]
    mode: Literal["pause", "coalesce", "drop_oldest"]
    depth: int
    max_depth: int | None
    age_s: float
    max_age_s: float | None
    since: datetime


class JobQueue(Strict):
    """What one definition of a job has left to do."""

    runtime: str
    dag_name: str
    job_name: str
    # False: a later deploy replaced this definition, and these are its last tasks.
    active: bool
    priority: Priority
    # Could start now, as far as they themselves go.
    ready: int
    oldest_age_s: float | None
    # Wait for the pressure on the job to fall.
    deferred: int
    running: int
    retrying: int
    max_concurrency: int | None
    holds: list[Hold]
    pressure: Pressure | None


class WorkerStatus(Strict):
    worker_id: str
    runtime: str
    slots: int
    running: int
    # Seconds since its last sign of life.
    seen_s: float


class QueueOverview(Strict):
    """The jobs that have something to do or are on hold, and the workers that are alive."""

    queues: list[JobQueue]
    workers: list[WorkerStatus]


class Reason(Strict):
    """One thing that answers why; `code` is for programs, `cure` for whoever cannot wait."""

    code: Literal[
        "completed", "failed", "retry_waits", "canceled", "running", "silent", "cancel_requested",
        "runtime_off", "paused", "held_for_consumer", "deferred", "pressure", "at_limit",
        "no_worker", "workers_full", "in_line", "wake_up", "ready", "retrying", "failing",
        "source", "not_routed", "no_events", "idle",
        # Of datasets.
        "fresh", "too_old", "building", "not_given", "invalid", "source_down", "unmade",
    ]  # fmt: skip
    text: str
    cure: str | None = None


class Place(Strict):
    """Where in line a ready task is. Others may still come first: organisations take turns."""

    # 1 is the next of its job.
    in_job: int
    of_job: int
    # Ready tasks of its organisation that go before it as things stand.
    ahead: int


class LastEvent(Strict):
    """A dataset that a job reads or writes, and its newest event."""

    # Its published name, or DAG.JOB.OUTPUT.
    dataset: str
    dataset_uuid: UUID
    # Who writes it, as DAG.JOB.
    producer: str
    # None when there was never one.
    event_id: int | None
    scope: str | None
    recorded_at: datetime | None
    age_s: float | None
    routed: bool | None


class Why(Strict):
    """What a task or a job waits for."""

    dag_name: str
    job_name: str
    # None when a job was asked for.
    task_id: UUID | None
    status: Status | None
    # One sentence.
    answer: str
    # What matters most comes first.
    reasons: list[Reason]
    place: Place | None
    queue: JobQueue | None
    inputs: list[LastEvent]
    outputs: list[LastEvent]


class HealthRule(Strict):
    code: Literal[
        "queue_depth", "failure_rate", "source_heartbeat", "workers_at_capacity",
        "dataset_freshness", "database_locks",
    ]  # fmt: skip
    firing: bool
    value: float
    # It fires above this.
    limit: float
    text: str


class Health(Strict):
    firing: bool
    rules: list[HealthRule]


class Alive(Strict):
    """The service answers, and its database lets it work."""

    status: Literal["ok"] = "ok"


class ProblemDetails(Strict):
    """An error, as application/problem+json."""

    type: str
    title: str
    status: int
    # Stable: for programs.
    code: str
    detail: str
    # What would put it right.
    hint: str | None = None
    facts: dict[str, Any] | None = None
