"""Deploys and rollbacks: what was to become active, when, and how that ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal
from uuid import UUID

from trace_platform.drivers.postgres.queries import Row, Tx, load_queries

_sql = load_queries(__file__)

Kind = Literal["deploy", "rollback", "removal"]
Ended = Literal["CutOver", "Failed", "Canceled"]


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


async def building(tx: Tx) -> list[Row]:
    rows: list[Row] = await _sql.building(tx)
    return rows


async def building_of(tx: Tx, org_id: UUID, dag_name: str) -> Row | None:
    row: Row | None = await _sql.building_of(tx, org_id=org_id, dag_name=dag_name)
    return row


async def hold(tx: Tx, deploy_id: UUID) -> Row | None:
    """The deploy, while it is still building, locked until the transaction ends."""
    row: Row | None = await _sql.hold(tx, id=deploy_id)
    return row


async def set_waiting(tx: Tx, deploy_id: UUID, waiting: Sequence[UUID]) -> None:
    """Those of what it builds whose turn is still to come."""
    await _sql.set_waiting(tx, id=deploy_id, waiting=list(waiting))


async def finish(tx: Tx, deploy_id: UUID, status: Ended, error: str | None = None) -> None:
    await _sql.finish(tx, id=deploy_id, status=status, error=error)


async def get(tx: Tx, org_id: UUID, deploy_id: UUID) -> Row | None:
    row: Row | None = await _sql.get(tx, org_id=org_id, id=deploy_id)
    return row


async def newest(tx: Tx, org_id: UUID, dag_name: str) -> Row | None:
    row: Row | None = await _sql.newest(tx, org_id=org_id, dag_name=dag_name)
    return row


async def version_before(tx: Tx, org_id: UUID, dag_name: str, version: UUID) -> UUID | None:
    """What was active before this version became so."""
    before: UUID | None = await _sql.before(tx, org_id=org_id, dag_name=dag_name, version=version)
    return before


async def listing(tx: Tx, org_id: UUID, dag_name: str | None, limit: int) -> list[Row]:
    rows: list[Row] = await _sql.listing(tx, org_id=org_id, dag_name=dag_name, limit=limit)
    return rows


async def newest_of_each(tx: Tx, org_id: UUID) -> dict[str, Row]:
    """By DAG."""
    rows = await _sql.newest_of_each(tx, org_id=org_id)
    return {row["dag_name"]: row for row in rows}


async def progress(tx: Tx, deploy: Row) -> list[Row]:
    """How far each job is that the deploy builds."""
    rows: list[Row] = await _sql.progress(
        tx,
        from_version=deploy["from_version"],
        to_version=deploy["to_version"],
        building=deploy["building"],
    )
    return rows
