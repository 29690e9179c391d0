"""Jobs on hold: paused by a user, or for the sake of a consumer that is behind."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from trace_platform.drivers.postgres.queries import Tx, load_queries

_sql = load_queries(__file__)


@dataclass(frozen=True, slots=True)
class JobHold:
    """Why a job starts no tasks from this priority on: 'user', or the consumer that is behind."""

    cause: str
    from_rank: int
    reason: str
    since: datetime


async def stopping(tx: Tx, org_id: UUID, dag_name: str, job_name: str) -> list[JobHold]:
    """Those that reach the job's own priority: a hold of the low tier stops no normal job."""
    return await _sql.rows(
        tx, "stopping", JobHold, org_id=org_id, dag_name=dag_name, job_name=job_name
    )


async def pause(tx: Tx, org_id: UUID, dag_name: str, job_name: str, reason: str) -> bool:
    """Whether it ran until now."""
    made: int = await _sql.pause(
        tx, org_id=org_id, dag_name=dag_name, job_name=job_name, reason=reason
    )
    return bool(made)


async def resume(tx: Tx, org_id: UUID, dag_name: str, job_name: str) -> bool:
    """Whether it was paused."""
    gone: int = await _sql.resume(tx, org_id=org_id, dag_name=dag_name, job_name=job_name)
    return bool(gone)


async def announce_ready(
    tx: Tx, org_id: UUID, dag_name: str, job_name: str, limit: int = 100_000
) -> None:
    """Wake-ups for what waited; nobody else sends them now."""
    await _sql.announce_ready(tx, org_id=org_id, dag_name=dag_name, job_name=job_name, limit=limit)
