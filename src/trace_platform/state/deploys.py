"""Deploys and rollbacks: what was to become active, when, and how that ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

from trace_platform.drivers.postgres.queries import Tx, load_queries

_sql = load_queries(__file__)

Kind = Literal["deploy", "rollback", "removal"]
Ended = Literal["CutOver", "Failed", "Canceled"]
Status = Literal["Building", "CutOver", "Failed", "Canceled"]


@dataclass(frozen=True, slots=True)
class Deploy:
    """A deploy, a rollback or a removal."""

    id: UUID
    org_id: UUID
    dag_name: str
    kind: Kind
    from_version: UUID | None
    # None of a removal.
    to_version: UUID | None
    status: Status
    # The generations that it builds, and those of them whose turn is still to come.
    building: list[UUID]
    waiting: list[UUID]
    error: str | None
    started_at: datetime
    ended_at: datetime | None

    @property
    def target(self) -> UUID:
        """The version that becomes active. A removal has none, and is over when it is on record."""
        assert self.to_version is not None, "a removal makes no version active"
        return self.to_version


@dataclass(frozen=True, slots=True)
class JobProgress:
    """How far a job that is built is: its partitions so far and before, its tasks alive."""

    job: str
    partitions: int
    before: int
    tasks: int


async def begin(
    tx: Tx,
    org_id: UUID,
    dag_name: str,
    kind: Kind,
    from_version: UUID | None,
    to_version: UUID | None,
    status: Literal["Building", "CutOver"],
    building: Sequence[UUID],
) -> UUID:
    deploy_id: UUID = await _sql.begin(
        tx,
        org_id=org_id,
        dag_name=dag_name,
        kind=kind,
        from_version=from_version,
        to_version=to_version,
        status=status,
        building=list(building),
    )
    return deploy_id


async def building(tx: Tx) -> list[Deploy]:
    return await _sql.rows(tx, "building", Deploy)


async def building_of(tx: Tx, org_id: UUID, dag_name: str) -> Deploy | None:
    return await _sql.row(tx, "building_of", Deploy, org_id=org_id, dag_name=dag_name)


async def hold(tx: Tx, deploy_id: UUID) -> Deploy | None:
    """The deploy, while it is still building, locked until the transaction ends."""
    return await _sql.row(tx, "hold", Deploy, id=deploy_id)


async def set_waiting(tx: Tx, deploy_id: UUID, waiting: Sequence[UUID]) -> None:
    """Those of what it builds whose turn is still to come."""
    await _sql.set_waiting(tx, id=deploy_id, waiting=list(waiting))


async def finish(tx: Tx, deploy_id: UUID, status: Ended, error: str | None = None) -> None:
    await _sql.finish(tx, id=deploy_id, status=status, error=error)


async def get(tx: Tx, org_id: UUID, deploy_id: UUID) -> Deploy | None:
    return await _sql.row(tx, "get", Deploy, org_id=org_id, id=deploy_id)


async def newest(tx: Tx, org_id: UUID, dag_name: str) -> Deploy | None:
    return await _sql.row(tx, "newest", Deploy, org_id=org_id, dag_name=dag_name)


async def version_before(tx: Tx, org_id: UUID, dag_name: str, version: UUID) -> UUID | None:
    """What was active before this version became so."""
    before: UUID | None = await _sql.before(tx, org_id=org_id, dag_name=dag_name, version=version)
    return before


async def listing(tx: Tx, org_id: UUID, dag_name: str | None, limit: int) -> list[Deploy]:
    return await _sql.rows(tx, "listing", Deploy, org_id=org_id, dag_name=dag_name, limit=limit)


async def newest_of_each(tx: Tx, org_id: UUID) -> dict[str, Deploy]:
    """By DAG."""
    found = await _sql.rows(tx, "newest_of_each", Deploy, org_id=org_id)
    return {deploy.dag_name: deploy for deploy in found}


async def progress(tx: Tx, deploy: Deploy) -> list[JobProgress]:
    """How far each job is that the deploy builds."""
    return await _sql.rows(
        tx,
        "progress",
        JobProgress,
        from_version=deploy.from_version,
        to_version=deploy.to_version,
        building=deploy.building,
    )
