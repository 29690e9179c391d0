"""Tasks and attempts as their queries return them: the fields are the columns of `tasks.sql`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypedDict
from uuid import UUID

from trace_platform.domain.fence import Fence
from trace_platform.domain.freshness import Given, StoredRead


class Pinned(TypedDict, total=False):
    """An output as its claim pinned it: which version of which dataset an attempt writes."""

    output_index: int
    name: str
    dataset_uuid: str
    dataset_version: str
    # Several jobs write the dataset.
    shared: bool
    # The unique key of a job that appends; the partitions that it adds to, or that a task merges.
    append: list[str]
    base: list[str]
    # As workers are told of it.
    prefix: str
    files: list[str]


@dataclass(frozen=True, slots=True)
class TaskRow:
    """What every task says, whatever is to be done with it."""

    id: UUID
    org_id: UUID
    job_id: UUID
    generation_id: UUID
    runtime: str
    attempt: int
    inputs: list[Given]
    outputs: list[Pinned]
    operator: str
    dag_name: str
    job_name: str


@dataclass(frozen=True, slots=True)
class DefinedTask(TaskRow):
    """With the definition of its job: what a worker is told of it."""

    config: dict[str, Any]
    timeout_seconds: float
    heartbeat_timeout_seconds: float
    # As the DAG file says them; None where it says none.
    checks: list[dict[str, Any]] | None


@dataclass(frozen=True, slots=True)
class ClaimedTask(DefinedTask):
    """A task whose attempt starts: its lease, and what its inputs are fitted by."""

    lease_token: UUID
    lease_expires_at: datetime
    worker_id: str
    queued_at: datetime
    started_at: datetime
    knows: list[StoredRead]
    # The unique key of a job that appends; None for one that replaces what is there.
    append: list[str] | None
    takes_several: bool
    redone: int | None
    # Whether another look may find more tasks.
    more: bool

    @property
    def fence(self) -> Fence:
        return Fence(self.id, self.attempt, self.lease_token)


@dataclass(frozen=True, slots=True)
class HeldTask(TaskRow):
    """A task whose fence holds: no other attempt of it can start before the transaction ends."""

    lease_token: UUID
    priority: int
    knows: list[StoredRead]
    superseded: bool
    cancel_requested_at: datetime | None
    drain_requested_at: datetime | None
    backfill_id: UUID | None
    job_priority: int
    max_concurrency: int | None
    update_strategy: str | None
    takes_several: bool


@dataclass(frozen=True, slots=True)
class StoredTask(DefinedTask):
    """A task as it is on record; the outputs of one that never started are none."""

    status: str
    next_retry_at: datetime | None
    error_code: str | None
    error_message: str | None


@dataclass(frozen=True, slots=True)
class Lease:
    """A lease that was extended, and what its worker shall do."""

    id: UUID
    attempt: int
    lease_token: UUID
    lease_expires_at: datetime
    directive: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an attempt ended."""

    task_id: UUID
    outcome: str
    error_code: str | None


@dataclass(frozen=True, slots=True)
class ReapedAttempt:
    """An attempt that was given up."""

    org: UUID
    dag: str
    job: str
    task: UUID
    attempt: int
    worker: str
    job_id: UUID


@dataclass(frozen=True, slots=True)
class AnnouncedTask:
    """A task that waits, announced: `retried` when it had failed before."""

    id: UUID
    retried: bool


@dataclass(frozen=True, slots=True)
class SelectedTask:
    """One of many tasks that somebody cancels or retries together."""

    id: UUID
    dag_name: str
    job_name: str
    status: str


@dataclass(frozen=True, slots=True)
class AttemptRow:
    attempt: int
    worker_id: str
    started_at: datetime
    ended_at: datetime | None
    outcome: str | None
    error_code: str | None
    error_message: str | None
    has_log: bool


@dataclass(frozen=True, slots=True)
class ListedTask:
    """A task as lists show it."""

    task_id: UUID
    dag_name: str
    job_name: str
    status: str
    attempt: int
    progress: dict[str, Any] | None
    inputs: list[Given]
    error_code: str | None
    error_message: str | None
    next_retry_at: datetime | None
    created_at: datetime
    started_at: datetime | None
    completed_at: datetime | None
    pending_backpressure: bool
    note: str | None


@dataclass(frozen=True, slots=True)
class TaskCount:
    """How many tasks of a job have a status, and since when the oldest of them waits."""

    job_name: str
    status: str
    tasks: int
    oldest_open: datetime | None
