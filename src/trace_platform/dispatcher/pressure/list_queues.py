"""What waits and what runs, by runtime and job, and who works."""

from __future__ import annotations

from collections import defaultdict
from uuid import UUID

from trace_platform.drivers.postgres.database import Database
from trace_platform.drivers.postgres.queries import Tx
from trace_platform.drivers.queue import DeadLetters
from trace_platform.state import overview
from trace_platform.state.overview import JobBacklog, StandingHold, StandingPressure
from trace_platform.wire.control import (
    PRIORITIES,
    Hold,
    JobQueue,
    Pressure,
    Priority,
    QueueOverview,
    WorkerStatus,
)


async def list_queues(state: Database, dead: DeadLetters, org_id: UUID) -> QueueOverview:
    """Jobs that have nothing to do are left out."""
    async with overview.snapshot(state) as tx:
        found = await job_queues(tx, org_id)
        workers = await overview.workers(tx)
    return QueueOverview(
        queues=[queue for queue in found.values() if _matters(queue)],
        workers=[WorkerStatus.model_validate(row, from_attributes=True) for row in workers],
        dead_letters=await dead.count(),
    )


async def job_queues(tx: Tx, org_id: UUID) -> dict[UUID, JobQueue]:
    """By job: every deployed one, and those whose last tasks are not done yet."""
    rows = await overview.queues(tx, org_id)
    held = await holds_by_job(tx, org_id)
    pressed = {row.job_id: _pressure(row) for row in await overview.pressures(tx, org_id)}
    return {
        row.job_id: _queue(row, held[row.dag_name, row.job_name], pressed.get(row.job_id))
        for row in rows
    }


async def holds_by_job(tx: Tx, org_id: UUID) -> defaultdict[tuple[str, str], list[Hold]]:
    """By DAG and job."""
    held: defaultdict[tuple[str, str], list[Hold]] = defaultdict(list)
    for row in await overview.holds(tx, org_id):
        held[row.dag_name, row.job_name].append(_hold(row))
    return held


async def holds_of(tx: Tx, org_id: UUID, dag_name: str, job_name: str) -> list[Hold]:
    rows = await overview.holds(tx, org_id)
    return [_hold(r) for r in rows if (r.dag_name, r.job_name) == (dag_name, job_name)]


def _matters(queue: JobQueue) -> bool:
    work = queue.ready + queue.deferred + queue.running + queue.retrying
    return bool(work or queue.holds or queue.pressure)


def _queue(row: JobBacklog, held: list[Hold], pressure: Pressure | None) -> JobQueue:
    same = (
        "runtime", "dag_name", "job_name", "active", "ready", "oldest_age_s", "deferred",
        "running", "retrying", "max_concurrency",
    )  # fmt: skip
    return JobQueue(
        **{field: getattr(row, field) for field in same},
        is_source=row.activation == "source",
        priority=PRIORITIES[row.priority],
        holds=held,
        pressure=pressure,
    )


def _hold(row: StandingHold) -> Hold:
    return Hold(
        # A consumer that is not there any more is known by its id alone.
        cause=row.consumer or row.cause,
        priorities=_from_rank(row.from_rank),
        reason=row.reason,
        since=row.since,
    )


def _pressure(row: StandingPressure) -> Pressure:
    return Pressure(
        priorities=_from_rank(row.from_rank),
        mode=row.pressure_mode,
        depth=row.depth,
        max_depth=row.max_queue_depth,
        age_s=row.age_s,
        max_age_s=row.max_queue_age_s,
        since=row.since,
    )


def _from_rank(rank: int) -> list[Priority]:
    return list(PRIORITIES[max(rank, 0) :])
