"""Tasks as people see them: what they do, their attempts and logs, many of them at once."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import AwareDatetime, Field

from trace_platform.wire.fields import (
    Attempt,
    DagName,
    DatasetUuid,
    DatasetVersionId,
    JobName,
    OutputIndex,
    TaskId,
)
from trace_platform.wire.task import Strict

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
        default=False, description="Whether the task waits for the backpressure on its job to end."
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
    """What the job's definition allows."""

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
    limits: JobLimits = Field(description="Limits of the job that the task belongs to.")
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
