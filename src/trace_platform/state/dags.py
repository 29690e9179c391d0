"""DAG versions, the jobs they share, and which version is active."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from trace_platform.drivers.postgres.queries import Tx, load_queries

_sql = load_queries(__file__)


@dataclass(frozen=True, slots=True)
class NewJob:
    """The definition of a job, as it is stored: what the DAG's file says, with its defaults."""

    name: str
    config_hash: str
    activation: str
    source: dict[str, Any] | None
    runtime: str | None
    operator: str | None
    execution_strategy: str | None
    outputs: list[str]
    config: dict[str, Any]
    priority: int
    max_attempts: int
    timeout_seconds: float
    heartbeat_timeout_seconds: float
    max_concurrency: int | None
    max_queue_depth: int | None
    max_queue_age_s: float | None
    pressure_mode: str | None
    definition: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ActiveJob:
    """A job of the version that is active."""

    id: UUID
    dag_name: str
    name: str
    activation: str
    source: dict[str, Any] | None
    runtime: str | None
    operator: str | None
    outputs: list[str]
    priority: int


@dataclass(frozen=True, slots=True)
class VersionJob:
    """A job of a version: its definition, and the generation in which its data lives."""

    name: str
    job_id: UUID
    config_hash: str
    activation: str
    definition: dict[str, Any]
    generation_id: UUID
    # None of a generation from before there were fingerprints.
    fingerprint: str | None
    built_at: datetime | None
    purged_at: datetime | None


@dataclass(frozen=True, slots=True)
class StoredVersion:
    """The file of a version."""

    dag_name: str
    content_hash: str
    yaml: str


@dataclass(frozen=True, slots=True)
class ListedVersion:
    """A version as lists show it; purged: some of its data is gone."""

    dag_version: UUID
    dag_name: str
    content_hash: str
    created_at: datetime
    active: bool
    activated_at: datetime | None
    purged: bool


@dataclass(frozen=True, slots=True)
class Publish:
    """A name that a version publishes: of which dataset, and what is said of it."""

    name: str
    dataset_uuid: UUID
    metadata: dict[str, Any]


@dataclass(frozen=True, slots=True)
class DagOverview:
    """A DAG by its active version, or the one that is built first, or else the newest."""

    dag_name: str
    dag_version: UUID
    active: bool
    activated_at: datetime | None
    job_names: list[str]
    datasets: list[str]
    jobs: int
    sources: int
    paused: int


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


async def ensure_job(tx: Tx, org_id: UUID, dag_name: str, job: NewJob) -> tuple[UUID, bool]:
    """The row of this definition, and whether it is new."""
    found: UUID | None = await _sql.find_job(
        tx, org_id=org_id, dag_name=dag_name, name=job.name, config_hash=job.config_hash
    )
    if found is not None:
        return found, False
    own = {field.name: getattr(job, field.name) for field in fields(job)}
    return await _sql.insert_job(tx, org_id=org_id, dag_name=dag_name, **own), True


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


async def publishes(tx: Tx, dag_version_id: UUID) -> list[Publish]:
    return await _sql.rows(tx, "publishes", Publish, dag_version_id=dag_version_id)


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


async def version_jobs(tx: Tx, dag_version_id: UUID | None) -> dict[str, VersionJob]:
    """By name, each job of a version with its generation. No version has no jobs."""
    jobs = await _sql.rows(tx, "version_jobs", VersionJob, dag_version_id=dag_version_id)
    return {job.name: job for job in jobs}


async def get_version(tx: Tx, org_id: UUID, version: UUID) -> StoredVersion | None:
    return await _sql.row(tx, "get_version", StoredVersion, org_id=org_id, version=version)


async def versions(tx: Tx, org_id: UUID, dag_name: str, limit: int) -> list[ListedVersion]:
    """The newest first."""
    return await _sql.rows(
        tx, "versions", ListedVersion, org_id=org_id, dag_name=dag_name, limit=limit
    )


async def active_jobs(tx: Tx, org_id: UUID, dag_name: str) -> list[ActiveJob]:
    return await _sql.rows(tx, "active_jobs", ActiveJob, org_id=org_id, dag_name=dag_name)


async def active_job(tx: Tx, org_id: UUID, dag_name: str, job_name: str) -> ActiveJob | None:
    return await _sql.row(
        tx, "active_job", ActiveJob, org_id=org_id, dag_name=dag_name, job_name=job_name
    )


async def deactivate(tx: Tx, org_id: UUID, dag_name: str) -> None:
    """No version of the DAG is active any more."""
    await _sql.deactivate(tx, org_id=org_id, dag_name=dag_name)


async def overview(tx: Tx, org_id: UUID) -> list[DagOverview]:
    """Every DAG that ever had a version."""
    return await _sql.rows(tx, "overview", DagOverview, org_id=org_id)


async def active_names(tx: Tx, org_id: UUID) -> list[str]:
    return [row["dag_name"] for row in await _sql.active_dag_names(tx, org_id=org_id)]
