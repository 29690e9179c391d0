"""The user's control API: deploy, trigger, look, pause, ask why."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from pydantic import AwareDatetime, Field

from trace_platform.wire.fields import (
    Attempt,
    ByteCount,
    DagName,
    DatasetUuid,
    DatasetVersionId,
    JobName,
    Label,
    OutputIndex,
    PartitionCount,
    Producer,
    RowCount,
    TaskId,
)
from trace_platform.wire.operator_code import CodeFiles
from trace_platform.wire.task import BlockNumber, EventScope, Strict


class DeployRequest(Strict):
    yaml: str = Field(description="Text of the DAG file.")
    file: str = Field(
        default="dag.yaml",
        max_length=512,
        description="Name of the DAG file, as errors shall show it.",
    )
    code: CodeFiles = Field(
        default={}, description="Python files beside the DAG file that its operators need, by name."
    )
    plan_hash: str | None = Field(
        default=None,
        pattern="^[0-9a-f]{64}$",
        description="Hash of a plan. The deploy is refused unless it would do exactly what "
        "that plan says.",
    )


class DeployResponse(Strict):
    """Building: the old version serves until everything is built, and then gives way at once."""

    dag_name: DagName
    dag_version: UUID = Field(description="Id of the version that was deployed.")
    deploy_id: UUID | None = Field(
        description="Id of the deploy; null when the version was active already."
    )
    status: Literal["CutOver", "Building", "Unchanged"] = Field(
        description="`CutOver`: the version is active. `Building`: its data is being built, "
        "and it becomes active when that is done. `Unchanged`: it was active already."
    )
    replaces: UUID | None = Field(
        default=None,
        description="Id of the version that stays active until this one is; null when there "
        "is none.",
    )
    new: bool = Field(description="Whether this content of the DAG was never deployed before.")
    jobs: list[str] = Field(description="Names of all jobs of the version.")
    added: list[str] = Field(description="Names of the jobs whose definition is new.")
    builds: list[str] = Field(description="Names of the jobs whose data is built for this version.")
    warnings: list[str] = Field(
        default=[],
        description="Mistakes in the file that have no effect, each with its line, and "
        "things that the DAG needs and that are missing here. The DAG is deployed all the same.",
    )


class RollbackResponse(Strict):
    dag_name: DagName
    dag_version: UUID | None = Field(
        description="Id of the version that is active now; null when a first version was "
        "given up, so that none is."
    )
    instead_of: UUID = Field(
        description="Id of the version that is not active any more, or was being built and "
        "is given up."
    )
    deploy_id: UUID | None = Field(
        description="Id of the rollback among the deploys; null when a version that was "
        "being built was given up and nothing else changed."
    )


class TriggerRequest(Strict):
    """The block range that a manual source shall emit."""

    start: BlockNumber = Field(description="First block to emit.")
    end: BlockNumber = Field(description="Last block to emit, included.")
    output: OutputIndex = Field(default=0, ge=0)


class EmitRequest(Strict):
    """Events of one dataset: by its published name, its uuid, or as DAG.JOB.OUTPUT."""

    dataset: str = Field(
        min_length=1,
        max_length=512,
        description="Published name of the dataset, its id, or DAG.JOB.OUTPUT.",
    )
    dataset_version: UUID | None = Field(
        default=None,
        description="Id of the generation that the events are for; the current one unless given.",
    )
    events: list[EventScope] = Field(
        min_length=1, max_length=100_000, description="The updates to announce."
    )


class JobStatus(Strict):
    name: JobName
    operator: str | None = Field(
        description="Name of the job's operator; null for a source whose events the "
        "dispatcher emits."
    )
    counts: dict[str, int] = Field(
        description="Number of tasks by status. A failed task that will run again counts as "
        "Retrying."
    )


class DatasetStatus(Strict):
    name: str = Field(description="Published name of the dataset, or DAG.JOB.OUTPUT.")
    dataset_uuid: DatasetUuid
    dataset_version: DatasetVersionId
    partitions: PartitionCount
    row_count: RowCount
    byte_count: ByteCount
    first_block: int | None = Field(
        description="First block that is committed; null when no partition is a block range."
    )
    last_block: int | None = Field(
        description="Last block that is committed; null when no partition is a block range."
    )


class DagStatus(Strict):
    dag_name: DagName
    as_of: datetime = Field(
        description="The database's time at this answer. Times given as `since` are compared "
        "with this clock."
    )
    routing: bool = Field(
        description="Whether events or invalidations of the DAG still wait to become tasks."
    )
    oldest_open: datetime | None = Field(
        default=None,
        description="When the oldest task that has not ended was made; null when all have ended.",
    )
    jobs: list[JobStatus] = Field(description="The jobs of the DAG.")
    datasets: list[DatasetStatus] = Field(description="The datasets that the DAG writes.")


Status = Literal["Queued", "Running", "Completed", "Failed", "Canceled"]


class TaskStatus(Strict):
    task_id: TaskId
    dag_name: DagName
    job_name: JobName
    status: Status = Field(
        description="What the task does at the moment. A failed task with `next_retry_at` "
        "will run again."
    )
    attempt: int = Field(
        description="Number of the newest attempt, counted from 1; 0 before the first."
    )
    progress: dict[str, Any] | None = Field(
        description="What the newest attempt said of its progress; null when it said nothing."
    )
    inputs: list[dict[str, Any]] = Field(
        description="The updates that woke the task, each with its dataset and its partition "
        "or cursor."
    )
    error_code: str | None = Field(
        description="Stable code of the last error; null when there was none."
    )
    error_message: str | None = Field(
        description="What went wrong last, for people; null when nothing did."
    )
    next_retry_at: datetime | None = Field(
        description="When a failed task runs again; null when it does not."
    )
    created_at: datetime = Field(description="When the task was made.")
    started_at: datetime | None = Field(
        description="When the newest attempt started; null before the first."
    )
    completed_at: datetime | None = Field(description="When the task ended; null while it has not.")
    pending_backpressure: bool = Field(
        default=False,
        description="Whether the task waits until the queue of its job, or of one "
        "downstream, is shorter.",
    )
    note: str | None = Field(
        default=None,
        description="Why a task that completed has committed nothing; null when it committed "
        "or had nothing to.",
    )


class TaskList(Strict):
    tasks: list[TaskStatus] = Field(description="The tasks, the newest first.")
    more: bool = Field(default=False, description="Whether there are older tasks than these.")


class TaskSelection(Strict):
    """Tasks that are canceled or retried together. At least one of the filters has to be given."""

    dag_name: str | None = Field(default=None, description="Only tasks of this DAG.")
    job_name: str | None = Field(default=None, description="Only tasks of jobs with this name.")
    status: Status | None = Field(default=None, description="Only tasks with this status.")
    since: AwareDatetime | None = Field(
        default=None,
        description="Only tasks that ended at this time or later, to retry them; that were "
        "made at it or later, to cancel them.",
    )
    until: AwareDatetime | None = Field(
        default=None, description="Only tasks up to this time, by the same clock as `since`."
    )
    dry_run: bool = Field(default=False, description="Count the tasks and change nothing.")


class TasksOfJob(Strict):
    dag_name: DagName
    job_name: JobName
    status: Status = Field(description="The status that the tasks had.")
    tasks: int = Field(description="Number of tasks.")


class SelectedTasks(Strict):
    """How many tasks were meant or, unless it was a dry run, done; by job and status."""

    until: datetime = Field(
        description="The time up to which tasks were taken. Repeat it as `until` to mean the "
        "same tasks."
    )
    tasks: int = Field(description="Number of tasks that were changed, or would be in a dry run.")
    jobs: list[TasksOfJob] = Field(description="The same number by job and status.")
    more: bool = Field(
        description="Whether there are more tasks than one call takes. Repeat the call for "
        "the rest."
    )


class TaskGroup(Strict):
    """Tasks of a job that ended, or wait, alike; one that has no like is a group of one."""

    dag_name: DagName
    job_name: JobName
    tasks: int = Field(description="Number of tasks in the group.")
    first_at: datetime = Field(description="When the first of them was made.")
    last_at: datetime = Field(description="When the last of them was made.")
    newest: TaskStatus = Field(description="The newest of them.")


class TaskGroups(Strict):
    groups: list[TaskGroup] = Field(description="The groups, the newest first.")
    more: bool = Field(description="Whether there are more groups, or older tasks, than these.")


class TaskAction(Strict):
    """The task's status once it was canceled or retried."""

    status: str = Field(description="The task's status after the call.")


Outcome = Literal["Completed", "Failed", "Canceled", "LeaseExpired"]


class AttemptStatus(Strict):
    """One attempt, for good: nothing of it changes once it ended."""

    attempt: Attempt
    worker_id: str = Field(description="Name of the worker that ran the attempt.")
    started_at: datetime = Field(description="When the attempt was claimed.")
    ended_at: datetime | None = Field(description="When the attempt ended; null while it runs.")
    outcome: Outcome | None = Field(description="How the attempt ended; null while it runs.")
    error_code: str | None = Field(
        description="Stable code of the attempt's error; null when there was none."
    )
    error_message: str | None = Field(
        description="What went wrong, for people; null when nothing did."
    )
    has_log: bool = Field(description="Whether the attempt's log can be read.")


Priority = Literal["high", "normal", "low"]
PRIORITIES: tuple[Priority, ...] = ("high", "normal", "low")


class JobLimits(Strict):
    """What the job's definition allows; None is no limit."""

    runtime: str = Field(description="Name of the runtime that runs the job.")
    operator: str | None = Field(
        description="Name of the job's operator; null for a source whose events the "
        "dispatcher emits."
    )
    priority: Priority = Field(description="Which waiting tasks start first.")
    max_attempts: int | None = Field(
        description="Attempts before a task fails for good; null is no limit."
    )
    timeout_seconds: float = Field(description="Seconds after which an attempt is stopped.")
    heartbeat_timeout_seconds: float = Field(description="Length of a lease in seconds.")
    max_concurrency: int | None = Field(
        description="Tasks of the job that run at once at most; null is no limit."
    )
    max_queue_depth: int | None = Field(
        description="Tasks that may wait before backpressure begins; null is no limit."
    )
    max_queue_age_s: float | None = Field(
        description="Seconds that the oldest task may wait before backpressure begins; null "
        "is no limit."
    )
    pressure_mode: Literal["pause", "coalesce", "drop_oldest"] | None = Field(
        description="What happens when the queue is too long; null when it has no limit."
    )


class PinnedOutput(Strict):
    """The generation of one output that the newest attempt writes."""

    output_index: OutputIndex
    name: str = Field(description="Name of the output in the job's `outputs`.")
    dataset_uuid: DatasetUuid
    dataset_version: DatasetVersionId


class TaskDetail(TaskStatus):
    """A task with its history."""

    queued_at: datetime = Field(description="When the task was last queued.")
    worker_id: str | None = Field(
        description="Name of the worker of the newest attempt; null before the first."
    )
    lease_expires_at: datetime | None = Field(
        description="When the lease of the newest attempt ends; null when there is none."
    )
    cancel_requested_at: datetime | None = Field(
        description="When somebody asked to cancel the task; null when nobody did."
    )
    forgiven: int = Field(
        description="Number of attempts that do not count against `max_attempts`."
    )
    outputs: list[PinnedOutput] = Field(
        description="The generations that the newest attempt writes."
    )
    limits: JobLimits = Field(description="What the job's definition allows.")
    attempts: list[AttemptStatus] = Field(
        description="Every attempt of the task, the first one first."
    )


class TaskLog(Strict):
    """What one attempt said, oldest first; a line that is no JSON object is an `event` of one."""

    task_id: TaskId
    attempt: Attempt
    lines: list[dict[str, Any]] = Field(
        description="The attempt's log lines, the oldest first. A line that is no JSON "
        "object is the `event` of one."
    )
    outcome: Outcome | None = Field(
        default=None, description="How the attempt ended; null while it runs."
    )
    error_code: str | None = Field(
        default=None, description="Stable code of the attempt's error; null when there was none."
    )
    error_message: str | None = Field(
        default=None, description="What went wrong, for people; null when nothing did."
    )


class EventRecord(Strict):
    event_id: int = Field(description="Number of the event. A newer event has a larger one.")
    dataset_uuid: DatasetUuid
    dataset_name: str | None = Field(
        description="Published name of the dataset; null when it is not published."
    )
    dag_name: DagName
    job_name: JobName
    output_index: OutputIndex
    dataset_version: DatasetVersionId
    current: bool = Field(
        description="Whether the event is of a generation whose events become tasks. Events "
        "of older generations are kept and make none."
    )
    cursor: int | None = Field(
        description="Block number or tick that the dataset reached; null for an event of a "
        "partition."
    )
    partition_key: str | None = Field(
        description="Key of the partition that changed; null for an event of a cursor."
    )
    start: int | None = Field(
        description="First block of the partition; null when it is no block range."
    )
    end: int | None = Field(
        description="Last block of the partition, included; null when it is no block range."
    )
    producer_task_id: UUID | None = Field(
        description="Id of the task that emitted the event; null when a source without tasks "
        "or a person did."
    )
    producer_attempt: int | None = Field(
        description="Number of the attempt that emitted the event; null when no task did."
    )
    recorded_at: datetime = Field(description="When the event was recorded.")
    routed_at: datetime | None = Field(
        description="When the event became tasks, or was found to interest no job; null until then."
    )


class EventList(Strict):
    events: list[EventRecord] = Field(description="The events, the newest first.")


class PauseRequest(Strict):
    reason: str | None = Field(
        default=None,
        min_length=1,
        max_length=500,
        description="Why the job is paused, for the people who see it later.",
    )


class Hold(Strict):
    """Why a job starts no tasks of these priorities."""

    cause: str = Field(
        description="Who holds the job: `user`, or as DAG.JOB the consumer whose queue is too long."
    )
    priorities: list[Priority] = Field(description="Tasks of these priorities do not start.")
    reason: str = Field(description="Why the job is held, for people.")
    since: datetime = Field(description="When the hold began.")


class JobHolds(Strict):
    """What holds the job now."""

    dag_name: DagName
    job_name: JobName
    changed: bool = Field(
        description="Whether the call changed something. False: it was so before."
    )
    holds: list[Hold] = Field(description="Everything that holds the job now.")


class Pressure(Strict):
    """A queue that passed a limit and did not fall below half of it yet."""

    priorities: list[Priority] = Field(
        description="Tasks of these priorities are deferred, merged or dropped, as `mode` says."
    )
    mode: Literal["pause", "coalesce", "drop_oldest"] = Field(description="What happens to them.")
    depth: int = Field(description="Number of tasks that wait.")
    max_depth: int | None = Field(description="Number of tasks that may wait; null is no limit.")
    age_s: float = Field(description="Seconds that the oldest task has waited.")
    max_age_s: float | None = Field(
        description="Seconds that the oldest task may wait; null is no limit."
    )
    since: datetime = Field(description="When the queue passed its limit.")


class JobQueue(Strict):
    """What one definition of a job has left to do."""

    runtime: str = Field(description="Name of the runtime that runs the job.")
    dag_name: DagName
    job_name: JobName
    is_source: bool = Field(
        description="Whether the job is a source, whose runs have no end and have slots of "
        "their own."
    )
    active: bool = Field(
        description="Whether this definition of the job is deployed. False: a later deploy "
        "replaced it, and these are its last tasks."
    )
    priority: Priority = Field(description="Which waiting tasks start first.")
    ready: int = Field(
        description="Number of tasks that could start now, limits and holds of the job aside."
    )
    oldest_age_s: float | None = Field(
        description="Seconds that the oldest ready task has waited; null when none is ready."
    )
    deferred: int = Field(description="Number of tasks that wait for backpressure to end.")
    running: int = Field(description="Number of tasks that run.")
    retrying: int = Field(description="Number of failed tasks that will run again.")
    max_concurrency: int | None = Field(
        description="Tasks of the job that run at once at most; null is no limit."
    )
    holds: list[Hold] = Field(description="Everything that holds the job now.")
    pressure: Pressure | None = Field(
        description="The queue's backpressure; null when there is none."
    )


class WorkerStatus(Strict):
    worker_id: str = Field(description="Name of the worker.")
    runtime: str = Field(description="Name of the runtime whose tasks it runs.")
    slots: int = Field(description="Number of tasks that it can run at once.")
    running: int = Field(description="Number of tasks that it runs.")
    source_slots: int = Field(
        description="Number of runs of sources that it can hold at once, beside `slots`."
    )
    running_sources: int = Field(description="Number of runs of sources that it holds.")
    seen_s: float = Field(description="Seconds since its last sign of life.")


class QueueOverview(Strict):
    """The jobs that have something to do or are on hold, and the workers that are alive."""

    queues: list[JobQueue] = Field(description="The jobs that have something to do or are on hold.")
    workers: list[WorkerStatus] = Field(description="The workers that are alive.")
    dead_letters: int = Field(description="Number of messages that nobody could handle.")


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
    ] = Field(description="Stable code of the rule, for programs.")
    firing: bool = Field(description="Whether the rule is broken now.")
    value: float = Field(description="The figure that the rule watches.")
    limit: float = Field(description="The rule fires when the figure is above this.")
    text: str = Field(description="What the figure means at the moment, in one sentence.")


class Health(Strict):
    firing: bool = Field(description="Whether at least one rule fires.")
    rules: list[HealthRule] = Field(description="Every rule, firing or not.")


class Alive(Strict):
    """The service answers, and its database lets it work."""

    status: Literal["ok"] = Field(
        default="ok", description="Always `ok`; a service that cannot work answers with an error."
    )


class ProblemDetails(Strict):
    """An error, as application/problem+json."""

    type: str = Field(description="URI of the kind of error.")
    title: str = Field(description="Short name of the kind of error.")
    status: int = Field(description="The HTTP status of the answer.")
    code: str = Field(description="Stable code of the error, for programs.")
    detail: str = Field(description="What was wrong, and where, in one sentence.")
    hint: str | None = Field(
        default=None, description="What would put it right; null when nothing is known to."
    )
    facts: dict[str, Any] | None = Field(
        default=None,
        description="Figures and names that belong to the error, by name; null when there "
        "are none.",
    )
