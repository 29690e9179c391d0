"""What is alive, waits or went wrong: read-only, for people, metrics and alerts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import psycopg

from trace_platform.drivers.postgres.database import Database
from trace_platform.drivers.postgres.queries import Tx, load_queries
from trace_platform.state.task_rows import ListedTask

_sql = load_queries(__file__)

# A worker says at least every five seconds that it is there: three words may get lost.
ALIVE_S = 20.0
# How far back the newest tasks are looked at.
NEWEST = 2_000


@dataclass(frozen=True, slots=True)
class JobBacklog:
    """What a job has waiting and running."""

    job_id: UUID
    dag_name: str
    job_name: str
    runtime: str
    priority: int
    activation: str
    max_concurrency: int | None
    active: bool
    ready: int
    deferred: int
    running: int
    retrying: int
    oldest_age_s: float | None


@dataclass(frozen=True, slots=True)
class StandingHold:
    dag_name: str
    job_name: str
    cause: str
    from_rank: int
    reason: str
    since: datetime
    consumer: str | None


@dataclass(frozen=True, slots=True)
class StandingPressure:
    job_id: UUID
    dag_name: str
    job_name: str
    from_rank: int
    depth: int
    age_s: float
    since: datetime
    pressure_mode: str | None
    max_queue_depth: int | None
    max_queue_age_s: float | None


@dataclass(frozen=True, slots=True)
class AliveWorker:
    worker_id: str
    runtime: str
    slots: int
    running: int
    source_slots: int
    running_sources: int
    # How long ago it last got at its queue.
    polled_s: float
    seen_s: float


@dataclass(frozen=True, slots=True)
class NamedTask:
    id: UUID
    dag_name: str
    job_name: str
    status: str


@dataclass(frozen=True, slots=True)
class OutboxBacklog:
    rows: int
    lag_s: float


@dataclass(frozen=True, slots=True)
class SourceLag:
    dag_name: str
    job_name: str
    lag_s: float


@dataclass(frozen=True, slots=True)
class RecentEnds:
    failed: int
    ended: int


@dataclass(frozen=True, slots=True)
class LockWait:
    waits_s: float
    held_by: list[int]


@dataclass(frozen=True, slots=True)
class Outage:
    """A job whose tasks wait for something that is away."""

    dag_name: str
    job_name: str
    tasks: int
    lasts_s: float
    error_code: str | None
    error_message: str | None


@dataclass(frozen=True, slots=True)
class SourceSilence:
    """A source that runs, and what was last heard of it."""

    dag_name: str
    job_name: str
    task_id: UUID
    silent_s: float
    behind: int | None
    heard_s: float | None
    stuck_s: float


@dataclass(frozen=True, slots=True)
class AlikeTasks(ListedTask):
    """Tasks that are alike, as the newest of them."""

    tasks: int
    first_at: datetime
    last_at: datetime
    older: bool


@dataclass(frozen=True, slots=True)
class TaskNow:
    """A task with what its job says of it."""

    task_id: UUID
    org_id: UUID
    job_id: UUID
    dag_name: str
    job_name: str
    activation: str
    operator: str | None
    runtime: str
    status: str
    priority: int
    attempt: int
    forgiven: int
    inputs: list[dict[str, Any]]
    outputs: list[dict[str, Any]] | None
    progress: dict[str, Any] | None
    pending_backpressure: bool
    note: str | None
    worker_id: str | None
    lease_expires_at: datetime | None
    cancel_requested_at: datetime | None
    next_retry_at: datetime | None
    outage_since: datetime | None
    announce_again_at: datetime | None
    error_code: str | None
    error_message: str | None
    created_at: datetime
    queued_at: datetime
    started_at: datetime | None
    completed_at: datetime | None
    max_attempts: int
    timeout_seconds: float
    heartbeat_timeout_seconds: float
    max_concurrency: int | None
    max_queue_depth: int | None
    max_queue_age_s: float | None
    pressure_mode: str | None
    now: datetime


@dataclass(frozen=True, slots=True)
class PlaceInLine:
    in_job: int
    of_job: int
    ahead: int


@dataclass(frozen=True, slots=True)
class SlotHolder:
    task_id: UUID
    worker_id: str
    running_s: float


@dataclass(frozen=True, slots=True)
class JobFailure:
    task_id: UUID
    attempt: int
    error_code: str | None
    error_message: str | None
    age_s: float


@dataclass(frozen=True, slots=True)
class NewestEvent:
    """Of a dataset; of one that has none only which dataset it is."""

    dataset: str
    dataset_uuid: UUID
    producer: str
    event_id: int | None
    scope: str | None
    recorded_at: datetime | None
    age_s: float | None
    routed: bool | None


@dataclass(frozen=True, slots=True)
class Routing:
    as_of: datetime
    routing: bool


@asynccontextmanager
async def snapshot(state: Database) -> AsyncIterator[Tx]:
    """A transaction in which every read sees the same moment, and nothing can be written."""
    async with state.statement() as tx:
        # In one word with its isolation: a round trip less than to begin and to set it.
        await tx.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        try:
            yield tx
        finally:
            # Of a connection that broke nothing is left to end.
            with suppress(psycopg.OperationalError):
                await tx.execute("ROLLBACK")


async def queues(tx: Tx, org_id: UUID) -> list[JobBacklog]:
    """Jobs that are deployed or have something left to do, and how much."""
    return await _sql.rows(tx, "queues", JobBacklog, org_id=org_id)


async def holds(tx: Tx, org_id: UUID) -> list[StandingHold]:
    return await _sql.rows(tx, "holds", StandingHold, org_id=org_id)


async def pressures(tx: Tx, org_id: UUID) -> list[StandingPressure]:
    return await _sql.rows(tx, "pressures", StandingPressure, org_id=org_id)


async def workers(tx: Tx) -> list[AliveWorker]:
    """Those that are alive."""
    return await _sql.rows(tx, "workers", AliveWorker, within_s=ALIVE_S)


async def tasks_named(tx: Tx, task_ids: Iterable[UUID]) -> dict[UUID, NamedTask]:
    """How these tasks are now, as far as there are such."""
    rows = await _sql.rows(tx, "tasks_named", NamedTask, task_ids=list(task_ids))
    return {row.id: row for row in rows}


async def outbox(tx: Tx) -> OutboxBacklog:
    return await _sql.one(tx, "outbox", OutboxBacklog)


async def source_lags(tx: Tx, org_id: UUID) -> list[SourceLag]:
    return await _sql.rows(tx, "source_lags", SourceLag, org_id=org_id)


async def recent_ends(tx: Tx, org_id: UUID, within_s: float) -> RecentEnds:
    """How many tasks ended for good lately, and how many of them failed."""
    return await _sql.one(
        tx, "recent_ends", RecentEnds, org_id=org_id, within_s=within_s, newest=NEWEST
    )


async def longest_lock_wait(tx: Tx) -> LockWait | None:
    """Of the dispatchers' statements. Claims and routes take turns, for milliseconds."""
    return await _sql.row(tx, "longest_lock_wait", LockWait)


async def outages(tx: Tx, org_id: UUID) -> list[Outage]:
    """Jobs whose tasks wait for something that is away, the longest first."""
    return await _sql.rows(tx, "outages", Outage, org_id=org_id)


async def source_silences(tx: Tx, org_id: UUID) -> list[SourceSilence]:
    return await _sql.rows(tx, "source_silences", SourceSilence, org_id=org_id)


async def task(tx: Tx, org_id: UUID, task_id: UUID) -> TaskNow | None:
    return await _sql.row(tx, "task", TaskNow, org_id=org_id, task_id=task_id)


async def task_groups(
    tx: Tx, org_id: UUID, dag_name: str | None, limit: int, *, look: int, fold: int
) -> list[AlikeTasks]:
    """Among the newest `look` tasks, `fold` or more that are alike are one row."""
    return await _sql.rows(
        tx,
        "task_groups",
        AlikeTasks,
        org_id=org_id,
        dag_name=dag_name,
        limit=limit,
        look=look,
        fold=fold,
    )


async def tasks_between(
    tx: Tx, org_id: UUID, first: UUID, last: UUID, limit: int
) -> list[ListedTask]:
    return await _sql.rows(
        tx, "tasks_between", ListedTask, org_id=org_id, first=first, last=last, limit=limit
    )


async def tasks_ending(tx: Tx, org_id: UUID, digits: str, limit: int) -> list[ListedTask]:
    return await _sql.rows(
        tx, "tasks_ending", ListedTask, org_id=org_id, digits=digits, limit=limit
    )


async def place(tx: Tx, waiting: TaskNow) -> PlaceInLine:
    """Where in line a ready task is."""
    return await _sql.one(
        tx,
        "place",
        PlaceInLine,
        org_id=waiting.org_id,
        runtime=waiting.runtime,
        job_id=waiting.job_id,
        priority=waiting.priority,
        queued_at=waiting.queued_at,
        task_id=waiting.task_id,
    )


async def slot_holders(tx: Tx, job_id: UUID, limit: int) -> list[SlotHolder]:
    """The tasks of the job that run, the longest first."""
    return await _sql.rows(tx, "slot_holders", SlotHolder, job_id=job_id, limit=limit)


async def newest_failure(tx: Tx, job_id: UUID) -> JobFailure | None:
    return await _sql.row(tx, "newest_failure", JobFailure, job_id=job_id, newest=NEWEST)


async def inputs_of_job(tx: Tx, job_id: UUID) -> list[NewestEvent]:
    """The datasets that wake the job, each with its newest event."""
    return await _sql.rows(tx, "inputs_of_job", NewestEvent, job_id=job_id)


async def newest_outputs(tx: Tx, org_id: UUID, dag_name: str, job_name: str) -> list[NewestEvent]:
    return await _sql.rows(
        tx, "newest_outputs", NewestEvent, org_id=org_id, dag_name=dag_name, job_name=job_name
    )


async def routing(tx: Tx, org_id: UUID, dag_name: str) -> tuple[datetime, bool]:
    """The time, and whether recorded events will still become tasks of the DAG."""
    found = await _sql.one(tx, "routing", Routing, org_id=org_id, dag_name=dag_name)
    return found.as_of, found.routing


async def job_names(tx: Tx, org_id: UUID) -> list[str]:
    """Every deployed job as DAG.JOB."""
    return [row["job"] for row in await _sql.job_names(tx, org_id=org_id)]
