"""Backfills: ranges that a job works through once more, a few tasks at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

from trace_platform.domain.block_range import BlockRange
from trace_platform.domain.freshness import Given
from trace_platform.drivers.postgres.queries import Tx, load_queries

_sql = load_queries(__file__)


@dataclass(frozen=True, slots=True)
class BackfillTarget:
    """The deployed job, where its data lives, and whether a rebuild of it is under way."""

    org_id: UUID
    dag_name: str
    name: str
    activation: str
    # The kind of a source.
    kind: str | None
    execution_strategy: str | None
    generation_id: UUID
    rebuilt: bool


@dataclass(frozen=True, slots=True)
class Maker:
    """A job that makes what a generation reads; the kind of a source."""

    dag_name: str
    job_name: str
    activation: str
    kind: str | None


@dataclass(frozen=True, slots=True)
class HeldBackfill:
    """One that has not ended, locked. No job: a deploy took the place of what it filled."""

    id: UUID
    status: str
    generation_id: UUID
    force: bool
    max_in_flight: int
    done_events: int
    inputs: int
    dag_name: str
    job_name: str
    job_id: UUID | None
    rebuilt: bool


@dataclass(frozen=True, slots=True)
class LockedBackfill:
    id: UUID
    status: str


@dataclass(frozen=True, slots=True)
class ListedBackfill:
    """A backfill as lists show it: its inputs, those that were given to tasks, and its tasks by
    status."""

    backfill_id: UUID
    dag_name: str
    job_name: str
    start: int
    end: int
    force: bool
    status: str
    max_in_flight: int
    created_at: datetime
    ended_at: datetime | None
    ended_because: str | None
    inputs: int
    inputs_given: int
    execution_strategy: str | None
    counts: dict[str, int]


@dataclass(frozen=True, slots=True)
class FailedTask:
    """A task of a backfill that failed for good or was canceled."""

    task_id: UUID
    inputs: list[Given]
    status: str
    error_code: str | None
    error_message: str | None


async def target(tx: Tx, org_id: UUID, dag_name: str, job_name: str) -> BackfillTarget | None:
    """The deployed job with its generation, and whether that is being replaced."""
    return await _sql.row(
        tx, "target", BackfillTarget, org_id=org_id, dag_name=dag_name, job_name=job_name
    )


async def upstream(tx: Tx, generation_id: UUID) -> list[Maker]:
    """The jobs that make what the generation reads."""
    return await _sql.rows(tx, "upstream", Maker, generation_id=generation_id)


async def alive_of_dag(tx: Tx, org_id: UUID, dag_name: str) -> list[UUID]:
    """Those that have not ended, locked until the transaction ends."""
    rows = await _sql.alive_of_dag(tx, org_id=org_id, dag_name=dag_name)
    return [row["id"] for row in rows]


async def each_s(tx: Tx, generation_id: UUID, event_ids: Sequence[int]) -> float | None:
    """How long a task of it takes, as far as the past tells."""
    found: float | None = await _sql.each_s(
        tx, generation_id=generation_id, event_ids=list(event_ids)
    )
    return found


async def begin(
    tx: Tx,
    backfill_id: UUID,
    job: BackfillTarget,
    span: BlockRange,
    event_ids: Sequence[int],
    max_in_flight: int,
    *,
    force: bool,
) -> bool:
    """Whether there was none of this id."""
    made = await _sql.begin(
        tx,
        id=backfill_id,
        org_id=job.org_id,
        dag_name=job.dag_name,
        job_name=job.name,
        generation_id=job.generation_id,
        start=span.start,
        end=span.end,
        force=force,
        max_in_flight=max_in_flight,
        event_ids=list(event_ids),
    )
    return made is not None


async def alive(tx: Tx) -> list[UUID]:
    return [row["id"] for row in await _sql.alive(tx)]


async def hold(tx: Tx, backfill_id: UUID) -> HeldBackfill | None:
    """One that has not ended, locked until the transaction ends; None when somebody has it."""
    return await _sql.row(tx, "hold", HeldBackfill, id=backfill_id)


async def in_flight(tx: Tx, backfill_id: UUID) -> int:
    """How many of its tasks have not ended."""
    found: int = await _sql.in_flight(tx, id=backfill_id)
    return found


async def strategy(tx: Tx, job_id: UUID) -> str | None:
    found: str | None = await _sql.strategy(tx, job_id=job_id)
    return found


async def next_events(tx: Tx, backfill_id: UUID, limit: int) -> list[int]:
    """The inputs that come next."""
    found: list[int] | None = await _sql.next_events(tx, id=backfill_id, limit=limit)
    return found or []


async def advance(tx: Tx, backfill_id: UUID, events: int) -> None:
    await _sql.advance(tx, id=backfill_id, events=events)


async def finish(
    tx: Tx, backfill_id: UUID, status: Literal["Completed", "Canceled"], because: str | None
) -> None:
    await _sql.finish(tx, id=backfill_id, status=status, because=because)


async def lock(tx: Tx, org_id: UUID, backfill_id: UUID) -> LockedBackfill | None:
    """Its id and status, which nobody changes until the transaction ends."""
    return await _sql.row(tx, "lock", LockedBackfill, org_id=org_id, id=backfill_id)


async def set_status(tx: Tx, backfill_id: UUID, status: Literal["Running", "Paused"]) -> None:
    await _sql.set_status(tx, id=backfill_id, status=status)


async def cancel_tasks(tx: Tx, backfill_id: UUID) -> int:
    """How many had not ended."""
    canceled: int = await _sql.cancel_tasks(tx, id=backfill_id)
    return canceled


async def get(tx: Tx, org_id: UUID, backfill_id: UUID) -> ListedBackfill | None:
    rows = await _sql.rows(
        tx, "listing", ListedBackfill, org_id=org_id, id=backfill_id, dag_name=None, limit=1
    )
    return rows[0] if rows else None


async def listing(tx: Tx, org_id: UUID, dag_name: str | None, limit: int) -> list[ListedBackfill]:
    return await _sql.rows(
        tx, "listing", ListedBackfill, org_id=org_id, id=None, dag_name=dag_name, limit=limit
    )


async def failed(tx: Tx, backfill_id: UUID, limit: int) -> list[FailedTask]:
    """Tasks of it that failed for good or were canceled."""
    return await _sql.rows(tx, "failed", FailedTask, id=backfill_id, limit=limit)
