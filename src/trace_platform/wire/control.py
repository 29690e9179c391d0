"""The user's control API: deploy, trigger, look, pause, ask why."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from pydantic import AwareDatetime, Field

from trace_platform.wire.operator_code import CodeFiles
from trace_platform.wire.task import BlockNumber, EventScope, Strict


class DeployRequest(Strict):
    yaml: str
    file: str = Field(default="dag.yaml", max_length=512)
    code: CodeFiles = {}
    # Refused unless this is exactly what it would do.
    plan_hash: str | None = Field(default=None, pattern="^[0-9a-f]{64}$")


class DeployResponse(Strict):
    """Building: the old version serves until everything is built, and then gives way at once."""

    dag_name: str
    dag_version: UUID
    # None when the version was active already.
    deploy_id: UUID | None
    status: Literal["CutOver", "Building", "Unchanged"]
    # The version that is active until this one is; None when there is none.
    replaces: UUID | None = None
    new: bool
    jobs: list[str]
    # Jobs whose definition is new.
    added: list[str]
    # Jobs whose data is built.
    builds: list[str]
    # Of what is right in the file and has no effect, each with its line; and of what the DAG needs
    # and is not there, one sentence each. It can be deployed all the same.
    warnings: list[str] = []


class RollbackResponse(Strict):
    dag_name: str
    # What is active now; None when what was given up would have been the DAG's first version.
    dag_version: UUID | None
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
    # Events that this DAG reads, or what was said to be invalid of its datasets, did not become
    # tasks yet.
    routing: bool
    # When the oldest task was made that has not ended; None when all have.
    oldest_open: datetime | None = None
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
    # There are older ones than these.
    more: bool = False


class TaskSelection(Strict):
    """Tasks that are canceled or retried together. At least one of the filters has to be given."""

    dag_name: str | None = None
    job_name: str | None = None
    status: Status | None = None
    # To retry: when they ended. To cancel: when they were made.
    since: AwareDatetime | None = None
    until: AwareDatetime | None = None
    # Only count them.
    dry_run: bool = False


class TasksOfJob(Strict):
    dag_name: str
    job_name: str
    status: Status
    tasks: int


class SelectedTasks(Strict):
    """How many tasks were meant or, unless it was a dry run, done; by job and status."""

    # What was made or ended later is none of them: repeat it as `until` for the same ones.
    until: datetime
    tasks: int
    jobs: list[TasksOfJob]
    # There are so many that not all were taken: say it once more for the rest.
    more: bool


class TaskGroup(Strict):
    """Tasks of a job that ended, or wait, alike; one that has no like is a group of one."""

    dag_name: str
    job_name: str
    tasks: int
    # When the first and the last of them were made.
    first_at: datetime
    last_at: datetime
    newest: TaskStatus


class TaskGroups(Strict):
    groups: list[TaskGroup]
    # There are more groups, or older tasks, than these.
    more: bool


class TaskAction(Strict):
    """The task's status once it was canceled or retried."""

    status: str


Outcome = Literal["Completed", "Failed", "Canceled", "LeaseExpired"]


class AttemptStatus(Strict):
    """One attempt, for good: nothing of it changes once it ended."""

    attempt: int
    worker_id: str
    started_at: datetime
    # These two are absent while it runs.
    ended_at: datetime | None
    outcome: Outcome | None
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
    max_attempts: int | None
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
    # How it ended; these are absent while it runs.
    outcome: Outcome | None = None
    error_code: str | None = None
    error_message: str | None = None


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
    # Its runs have no end, and slots of their own.
    is_source: bool
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
    # Runs of sources have slots of their own.
    source_slots: int
    running_sources: int
    # Seconds since its last sign of life.
    seen_s: float


class QueueOverview(Strict):
    """The jobs that have something to do or are on hold, and the workers that are alive."""

    queues: list[JobQueue]
    workers: list[WorkerStatus]
    # Messages that nobody could handle.
    dead_letters: int


class Reason(Strict):
    """One thing that answers why; `code` is for programs, `cure` for whoever cannot wait."""

    code: Literal[
        "completed", "failed", "retry_waits", "canceled", "running", "silent", "cancel_requested",
        "runtime_off", "paused", "held_for_consumer", "deferred", "pressure", "at_limit",
        "no_worker", "workers_full", "in_line", "wake_up", "ready", "retrying", "failing",
        "source", "not_routed", "no_events", "idle", "waits_for_provider",
        # Of datasets.
        "fresh", "too_old", "building", "not_given", "invalid", "source_down", "unmade",
        "source_stuck", "source_slots_full", "known_wrong", "behind", "head",
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
        "dataset_freshness", "database_locks", "outages", "alerts",
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
