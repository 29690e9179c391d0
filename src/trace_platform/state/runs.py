"""What attempts read and wrote, for whoever is told of them afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from trace_platform.drivers.postgres.queries import Tx, load_queries

_sql = load_queries(__file__)


@dataclass(frozen=True, slots=True)
class AttemptRow:
    task_id: UUID
    attempt: int
    started_at: datetime
    # None: it runs.
    ended_at: datetime | None
    outcome: str | None
    error_code: str | None
    error_message: str | None
    job_id: UUID
    generation_id: UUID
    dag_name: str
    job_name: str
    operator: str


@dataclass(frozen=True, slots=True)
class ReadDataset:
    """What a job reads, as it is now."""

    job_id: UUID
    dataset_uuid: UUID
    dataset_version: UUID | None
    dataset: str
    columns: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class WrittenDataset:
    """An output of a generation."""

    generation_id: UUID
    dataset_uuid: UUID
    dataset_version: UUID
    dataset: str
    columns: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Committed:
    """One output of one attempt."""

    location: str
    row_count: int
    byte_count: int
    files: int


async def attempts(tx: Tx, asked: Sequence[tuple[UUID, int]]) -> list[AttemptRow]:
    """Those that are still on record."""
    task_ids, numbers = [task_id for task_id, _ in asked], [attempt for _, attempt in asked]
    return await _sql.rows(tx, "attempts", AttemptRow, task_ids=task_ids, attempts=numbers)


async def inputs(tx: Tx, job_ids: Sequence[UUID]) -> list[ReadDataset]:
    return await _sql.rows(tx, "inputs", ReadDataset, job_ids=list(job_ids))


async def outputs(tx: Tx, generation_ids: Sequence[UUID]) -> list[WrittenDataset]:
    return await _sql.rows(tx, "outputs", WrittenDataset, generation_ids=list(generation_ids))


async def commits(tx: Tx, locations: Sequence[str]) -> dict[str, Committed]:
    """By location."""
    rows = await _sql.rows(tx, "commits", Committed, locations=list(locations))
    return {row.location: row for row in rows}


async def active_versions(tx: Tx, org_id: UUID) -> tuple[UUID, ...]:
    return tuple([row["dag_version_id"] for row in await _sql.active_versions(tx, org_id=org_id)])
