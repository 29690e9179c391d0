"""What is alive, waits or went wrong: read-only, for people, metrics and alerts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from uuid import UUID

import psycopg

from trace_platform.drivers.postgres.database import Database
from trace_platform.drivers.postgres.queries import Row, Tx, load_queries

_sql = load_queries(__file__)

# A worker says at least every five seconds that it is there: three words may get lost.
ALIVE_S = 20.0
# How far back the newest tasks are looked at.
NEWEST = 2_000


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


async def queues(tx: Tx, org_id: UUID) -> list[Row]:
    """Jobs that are deployed or have something left to do, and how much."""
    rows: list[Row] = await _sql.queues(tx, org_id=org_id)
    return rows


async def holds(tx: Tx, org_id: UUID) -> list[Row]:
    rows: list[Row] = await _sql.holds(tx, org_id=org_id)
    return rows


async def pressures(tx: Tx, org_id: UUID) -> list[Row]:
    rows: list[Row] = await _sql.pressures(tx, org_id=org_id)
    return rows


async def workers(tx: Tx) -> list[Row]:
    """Those that are alive."""
    rows: list[Row] = await _sql.workers(tx, within_s=ALIVE_S)
    return rows


async def tasks_named(tx: Tx, task_ids: Iterable[UUID]) -> dict[UUID, Row]:
    """How these tasks are now, as far as there are such."""
    rows = await _sql.tasks_named(tx, task_ids=list(task_ids))
    return {row["id"]: row for row in rows}


async def outbox(tx: Tx) -> Row:
    row: Row = await _sql.outbox(tx)
    return row


async def source_lags(tx: Tx, org_id: UUID) -> list[Row]:
    rows: list[Row] = await _sql.source_lags(tx, org_id=org_id)
    return rows


async def recent_ends(tx: Tx, org_id: UUID, within_s: float) -> Row:
    """How many tasks ended for good lately, and how many of them failed."""
    row: Row = await _sql.recent_ends(tx, org_id=org_id, within_s=within_s, newest=NEWEST)
    return row


async def longest_lock_wait(tx: Tx) -> Row | None:
    """Of the dispatchers' statements. Claims and routes take turns, for milliseconds."""
    row: Row | None = await _sql.longest_lock_wait(tx)
    return row


async def outages(tx: Tx, org_id: UUID) -> list[Row]:
    """Jobs whose tasks wait for something that is away, the longest first."""
    rows: list[Row] = await _sql.outages(tx, org_id=org_id)
    return rows


async def source_silences(tx: Tx, org_id: UUID) -> list[Row]:
    rows: list[Row] = await _sql.source_silences(tx, org_id=org_id)
    return rows


async def task(tx: Tx, org_id: UUID, task_id: UUID) -> Row | None:
    row: Row | None = await _sql.task(tx, org_id=org_id, task_id=task_id)
    return row


async def task_groups(
    tx: Tx, org_id: UUID, dag_name: str | None, limit: int, *, look: int, fold: int
) -> list[Row]:
    """Among the newest `look` tasks, `fold` or more that are alike are one row."""
    rows: list[Row] = await _sql.task_groups(
        tx, org_id=org_id, dag_name=dag_name, limit=limit, look=look, fold=fold
    )
    return rows


async def tasks_between(tx: Tx, org_id: UUID, first: UUID, last: UUID, limit: int) -> list[Row]:
    rows: list[Row] = await _sql.tasks_between(
        tx, org_id=org_id, first=first, last=last, limit=limit
    )
    return rows


async def tasks_ending(tx: Tx, org_id: UUID, digits: str, limit: int) -> list[Row]:
    rows: list[Row] = await _sql.tasks_ending(tx, org_id=org_id, digits=digits, limit=limit)
    return rows


async def place(tx: Tx, waiting: Row) -> Row:
    """Where in line a ready task is."""
    row: Row = await _sql.place(
        tx,
        org_id=waiting["org_id"],
        runtime=waiting["runtime"],
        job_id=waiting["job_id"],
        priority=waiting["priority"],
        queued_at=waiting["queued_at"],
        task_id=waiting["id"],
    )
    return row


async def slot_holders(tx: Tx, job_id: UUID, limit: int) -> list[Row]:
    """The tasks of the job that run, the longest first."""
    rows: list[Row] = await _sql.slot_holders(tx, job_id=job_id, limit=limit)
    return rows


async def newest_failure(tx: Tx, job_id: UUID) -> Row | None:
    row: Row | None = await _sql.newest_failure(tx, job_id=job_id, newest=NEWEST)
    return row


async def inputs_of_job(tx: Tx, job_id: UUID) -> list[Row]:
    """The datasets that wake the job, each with its newest event."""
    rows: list[Row] = await _sql.inputs_of_job(tx, job_id=job_id)
    return rows


async def newest_outputs(tx: Tx, org_id: UUID, dag_name: str, job_name: str) -> list[Row]:
    rows: list[Row] = await _sql.newest_outputs(
        tx, org_id=org_id, dag_name=dag_name, job_name=job_name
    )
    return rows


async def routing(tx: Tx, org_id: UUID, dag_name: str) -> tuple[datetime, bool]:
    """The time, and whether recorded events will still become tasks of the DAG."""
    row: Row = await _sql.routing(tx, org_id=org_id, dag_name=dag_name)
    return row["as_of"], row["routing"]


async def job_names(tx: Tx, org_id: UUID) -> list[str]:
    """Every deployed job as DAG.JOB."""
    return [row["job"] for row in await _sql.job_names(tx, org_id=org_id)]
