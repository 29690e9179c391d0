"""DAG versions, the jobs they share, and which version is active."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from trace_platform.drivers.postgres.queries import Row, Tx, load_queries

_sql = load_queries(__file__)


async def default_org(tx: Tx) -> UUID:
    org_id: UUID = await _sql.default_org(tx)
    return org_id


async def ensure_version(
    tx: Tx, org_id: UUID, dag_name: str, content_hash: str, yaml: str
) -> tuple[UUID, bool]:
    """The version of this content, and whether it is new."""
    key = {"org_id": org_id, "dag_name": dag_name, "content_hash": content_hash}
    made: UUID | None = await _sql.insert_version(tx, **key, yaml=yaml)
    if made is not None:
        return made, True
    return await _sql.find_version(tx, **key), False


async def ensure_job(tx: Tx, org_id: UUID, dag_name: str, job: dict[str, Any]) -> tuple[UUID, bool]:
    """The row of this definition, and whether it is new."""
    found: UUID | None = await _sql.find_job(
        tx, org_id=org_id, dag_name=dag_name, name=job["name"], config_hash=job["config_hash"]
    )
    if found is not None:
        return found, False
    return await _sql.insert_job(tx, org_id=org_id, dag_name=dag_name, **job), True


async def set_jobs(tx: Tx, dag_version_id: UUID, jobs: Mapping[UUID, UUID]) -> None:
    """The version's jobs, and the generation that each of them writes."""
    await _sql.unset_jobs(tx, dag_version_id=dag_version_id, job_ids=list(jobs))
    await _sql.set_jobs(
        tx,
        dag_version_id=dag_version_id,
        job_ids=list(jobs),
        generation_ids=list(jobs.values()),
    )


async def set_publishes(
    tx: Tx, dag_version_id: UUID, publishes: Mapping[str, tuple[UUID, dict[str, Any]]]
) -> None:
    """The names that the version publishes: each a dataset, and what is said of it."""
    await _sql.set_publishes(
        tx,
        dag_version_id=dag_version_id,
        names=list(publishes),
        uuids=[dataset_uuid for dataset_uuid, _ in publishes.values()],
        metadata=[Jsonb(metadata) for _, metadata in publishes.values()],
    )


async def publishes(tx: Tx, dag_version_id: UUID) -> list[Row]:
    rows: list[Row] = await _sql.publishes(tx, dag_version_id=dag_version_id)
    return rows


async def add_edge(
    tx: Tx,
    job_id: UUID,
    input_index: int,
    dataset_uuid: UUID,
    dataset_name: str | None,
    filter: dict[str, Any] | None = None,
    *,
    trigger: bool = True,
) -> None:
    await _sql.insert_edge(
        tx,
        job_id=job_id,
        input_index=input_index,
        dataset_uuid=dataset_uuid,
        dataset_name=dataset_name,
        filter=filter,
        trigger=trigger,
    )


async def activate(tx: Tx, org_id: UUID, dag_name: str, dag_version_id: UUID) -> None:
    await _sql.activate(tx, org_id=org_id, dag_name=dag_name, dag_version_id=dag_version_id)


async def active_version(tx: Tx, org_id: UUID, dag_name: str) -> UUID | None:
    version: UUID | None = await _sql.active_version(tx, org_id=org_id, dag_name=dag_name)
    return version


async def version_jobs(tx: Tx, dag_version_id: UUID | None) -> dict[str, Row]:
    """By name, each job of a version with its generation. No version has no jobs."""
    rows = await _sql.version_jobs(tx, dag_version_id=dag_version_id)
    return {row["name"]: row for row in rows}


async def get_version(tx: Tx, org_id: UUID, version: UUID) -> Row | None:
    row: Row | None = await _sql.get_version(tx, org_id=org_id, version=version)
    return row


async def versions(tx: Tx, org_id: UUID, dag_name: str, limit: int) -> list[Row]:
    """The newest first."""
    rows: list[Row] = await _sql.versions(tx, org_id=org_id, dag_name=dag_name, limit=limit)
    return rows


async def active_jobs(tx: Tx, org_id: UUID, dag_name: str) -> list[Row]:
    rows: list[Row] = await _sql.active_jobs(tx, org_id=org_id, dag_name=dag_name)
    return rows


async def active_job(tx: Tx, org_id: UUID, dag_name: str, job_name: str) -> Row | None:
    row: Row | None = await _sql.active_job(tx, org_id=org_id, dag_name=dag_name, job_name=job_name)
    return row


async def deactivate(tx: Tx, org_id: UUID, dag_name: str) -> None:
    """No version of the DAG is active any more."""
    await _sql.deactivate(tx, org_id=org_id, dag_name=dag_name)


async def overview(tx: Tx, org_id: UUID) -> list[Row]:
    """Every DAG that ever had a version."""
    rows: list[Row] = await _sql.overview(tx, org_id=org_id)
    return rows


async def active_names(tx: Tx, org_id: UUID) -> list[str]:
    return [row["dag_name"] for row in await _sql.active_dag_names(tx, org_id=org_id)]
