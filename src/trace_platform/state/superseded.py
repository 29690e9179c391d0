"""Partitions that gave way to newer ones of their generation, and how long their files stay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from trace_platform.drivers.postgres.queries import Tx, load_queries

_sql = load_queries(__file__)


@dataclass(frozen=True, slots=True)
class Reader:
    """An attempt that may read files which were current when it started."""

    task_id: UUID
    started_at: datetime


@dataclass(frozen=True, slots=True)
class DuePartition:
    """A partition whose files nobody can be reading any more."""

    id: UUID
    location: str
    files: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class StoredBytes:
    """Of a generation of a dataset: live, superseded, pinned and retired."""

    dataset_version: UUID
    dataset_uuid: UUID
    name: str | None
    dag_name: str
    job_name: str
    output_index: int
    current: bool
    live_bytes: int
    superseded_bytes: int
    pinned_bytes: int
    retired_bytes: int
    superseded_partitions: int
    oldest_superseded_at: datetime | None


async def retire(tx: Tx, keep_days: float, keep_versions: int, limit: int) -> int:
    """How many partitions are given to no new reader from now on."""
    retired: int = await _sql.retire(
        tx, keep_days=keep_days, keep_versions=keep_versions, limit=limit
    )
    return retired


async def oldest_reader(tx: Tx) -> Reader | None:
    return await _sql.row(tx, "oldest_reader", Reader)


async def due(tx: Tx, grace_s: float, limit: int) -> list[DuePartition]:
    reader = await oldest_reader(tx)
    return await _sql.rows(
        tx,
        "due",
        DuePartition,
        grace_s=grace_s,
        oldest_reader=reader and reader.started_at,
        limit=limit,
    )


async def kept_at(tx: Tx, rows: Sequence[DuePartition]) -> dict[str, set[str]]:
    """By place of these partitions where others lie too: the names of their files."""
    found: dict[str, set[str]] = {}
    for row in await _sql.kept_at(
        tx, locations=[row.location for row in rows], ids=[row.id for row in rows]
    ):
        found.setdefault(row["location"], set()).update(file["name"] for file in row["files"])
    return found


async def mark_deleted(tx: Tx, rows: Sequence[DuePartition]) -> None:
    await _sql.mark_deleted(tx, ids=[row.id for row in rows])


async def bytes_of(
    tx: Tx, org_id: UUID, dataset_versions: Sequence[UUID] | None, reader: Reader | None
) -> list[StoredBytes]:
    """Live, superseded and pinned bytes of these generations, or of all that are there."""
    return await _sql.rows(
        tx,
        "bytes",
        StoredBytes,
        org_id=org_id,
        dataset_versions=None if dataset_versions is None else list(dataset_versions),
        oldest_reader=reader and reader.started_at,
    )


async def lost_moments(tx: Tx, places: Mapping[int, tuple[UUID, datetime]]) -> set[int]:
    """Which of these generations cannot be read as they were at a moment."""
    rows = await _sql.lost_moments(
        tx,
        ns=list(places),
        versions=[version for version, _ in places.values()],
        moments=[moment for _, moment in places.values()],
    )
    return {row["n"] for row in rows}
